//! G02's statements on its tables and figures, and the requirements for a limit in time.

use super::cells::{Cell, KINDS, Published, ours, published};
use super::fair_share::mice;
use super::{
    CORRELATION, DROPPED, LATE_BY_LOSS, MAX_MS, MEAN_MS, MICE_SHARE, NETWORK_MS, Part, QUEUES, RECEIVER_MS, SENDER_MS,
    SENDER_P90_MS, THROUGHPUT, WITHIN_200, WITHIN_500,
};
use crate::count::as_f64;
use crate::evidence::{Bound, Estimate, Evidence, Judgement};
use crate::experiment::Check;
use crate::scoreboard::Entry;
use crate::summary::{Repeated, Results};

/// "Much lower": by a quarter; Table 2 has a third at least. The bound is ours.
const MUCH_LOWER: f64 = 0.75;
/// "Does not depend significantly": a correlation that counts as weak. The bound is ours.
const WEAK: f64 = 0.3;
/// "About" the same throughput, and latencies that are not larger.
const ABOUT: f64 = 0.15;
/// The budget of the stream called target.
const BUDGET_MS: f64 = 50.0;

pub(super) fn checks(part: Part, results: &Results) -> Vec<Check> {
    let (plain, marked) = (Cell::all(results, "off"), Cell::all(results, "dred"));
    match part {
        Part::Table1 => vec![similar(&plain)],
        Part::Table2 => vec![
            well_below(&plain),
            much_lower(&plain).id("much-lower"),
            steadier(&plain),
            target_keeps_its_time(&plain),
            mice_are_tuned(&plain, 30.0),
        ],
        Part::Table3 => {
            vec![close_to_tcp(&plain), one_zero_loses(&plain), best_quality(&plain), target_keeps_throughput(&plain)]
        }
        Part::Fig3 => vec![much_lower(&plain).id("far-below-tcp"), follows_throughput_less(&plain)],
        Part::Fig4 => vec![order_of_three(&plain)],
        Part::Fig5 => vec![later(&plain), tails_by_path(&plain), two_zero_follows_throughput(&plain)],
        Part::Fig6 => vec![sender_is_small(&plain), peaks_by_loss(&plain), independent_of_throughput(&plain)],
        Part::Fig7 => mice(results),
        Part::Fig8 => vec![far_below(&marked)],
        Part::Fig9 => under_queues(results, |plain| vec![peaks_fall(plain, &marked)]),
        Part::Fig10 => {
            let mut checks = under_queues(results, |plain| {
                vec![
                    tails_shrink(plain, &marked),
                    tcp_tails_grow(plain, &marked),
                    fewer_drops(plain, &marked),
                    tcp_loses_throughput(plain, &marked),
                ]
            });
            checks.push(mice_are_tuned(&marked, 50.0));
            checks
        }
    }
}

/// Checks that compare ECN with each queue without it.
fn under_queues<'r>(results: &'r Results, of: impl Fn(&[Cell<'r>]) -> Vec<Check>) -> Vec<Check> {
    let queues = QUEUES.iter().map(|(queue, words)| (Cell::with_queue(results, queue), *words));
    queues
        .filter(|(plain, _)| !plain.is_empty())
        .flat_map(|(plain, words)| of(&plain).into_iter().map(move |check| check.under(words)))
        .collect()
}

/// How far a share of Table 1 may be off: a quarter of it, and at least what rounding to two digits hides.
fn late_bound(published: f64) -> Bound {
    let margin = (published * 0.25).max(0.005);
    Bound::Within((published - margin).max(0.0), published + margin)
}

pub(super) fn scoreboard(part: Part, results: &Results) -> Vec<Entry> {
    let named = |cell: &Published, what: &str| format!("{what}: {}, {}, {}", cell.kind, cell.rate, cell.rtt);
    let entry = |cell: Published| {
        let [within_200, within_500, mean_ms, throughput] = ours(results, &cell);
        match part {
            Part::Table1 => {
                let late = |limit: &str, published: f64, within: Option<Estimate>| {
                    let what = named(&cell, &format!("share later than {limit} ms"));
                    let measured = within.map(|within| within.times(-1.0).plus(1.0));
                    Entry::inequality(what, "", late_bound(1.0 - published), measured)
                };
                vec![late("200", cell.within_200, within_200), late("500", cell.within_500, within_500)]
            }
            Part::Table2 => {
                let entry = Entry::value(named(&cell, "mean latency"), "ms", cell.mean_ms, mean_ms);
                vec![if cell.kind == "m10" { entry.fitted("the queue to this") } else { entry }]
            }
            Part::Table3 if cell.kind != "std" => {
                vec![Entry::value(named(&cell, "normalized throughput"), "", cell.throughput, throughput)]
            }
            _ => Vec::new(),
        }
    };
    published().flat_map(entry).collect()
}

/// The kinds of the paper whose buffer follows cwnd.
fn min_bufs() -> impl Iterator<Item = &'static str> {
    KINDS.into_iter().filter(|kind| kind.starts_with('m'))
}

/// "The packets delivered within the delay thresholds is very similar for MIN_BUF(1,0) and MIN_BUF(1,3)" (§4.1): within 5 points, as in Table 1.
fn similar(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for (cell, name) in cells.iter().flat_map(|cell| [(cell, WITHIN_200), (cell, WITHIN_500)]) {
        let pair = cell.value("m10", name).zip(cell.value("m13", name));
        let difference = pair.and_then(|(one, other)| Estimate::difference(one, 1.0, other));
        evidence.cell(format!("{name}, m10 less m13 at {}:", cell.name), difference, Bound::Within(-0.05, 0.05));
    }
    evidence
        .check("MIN_BUF(1,0) and (1,3) deliver the same share within 200 and 500 ms: within 5 points.")
        .id("similar")
}

/// "In all cases a much larger percent of TCP packets lie outside the delay thresholds" (§4.1): twice as many. The bound is ours.
fn later(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        for (kind, name) in min_bufs().flat_map(|kind| [(kind, WITHIN_200), (kind, WITHIN_500)]) {
            let outside = |kind| Some(cell.value(kind, name)?.map(|within| 1.0 - within));
            let beyond = outside("std").zip(outside(kind));
            let beyond = beyond.and_then(|(standard, ours)| Estimate::difference(&standard, 2.0, &ours));
            let what = format!("not {name}, std less twice {kind} at {}:", cell.name);
            evidence.cell(what, beyond, Bound::MoreThan(0.0));
        }
    }
    evidence
        .check("A much larger share of standard TCP's packets is later than 200 and 500 ms: twice as many at least.")
        .id("much-later")
}

/// "The percent of packets with large delays increases with increasing RTT and decreasing bandwidth" (§4.1), between the extremes.
fn tails_by_path(cells: &[Cell<'_>]) -> Check {
    let at = |rate: &str, rtt: &str, kind| {
        let cell = cells.iter().find(|cell| cell.name == format!("{rate}, {rtt}"))?;
        Some(cell.value(kind, WITHIN_200)?.map(|within| 1.0 - within))
    };
    let mut evidence = Evidence::new();
    for kind in KINDS.into_iter().take(4) {
        let mut more = |what: String, [over, under]: [Option<Repeated>; 2]| {
            let more = over.zip(under).and_then(|(over, under)| Estimate::difference(&over, 1.0, &under));
            evidence.cell(format!("{kind}, {what}:"), more, Bound::MoreThan(0.0));
        };
        for rate in ["30Mbit/s", "12Mbit/s"] {
            more(format!("100 ms less 25 ms at {rate}"), ["100ms", "25ms"].map(|rtt| at(rate, rtt, kind)));
        }
        for rtt in ["100ms", "50ms", "25ms"] {
            more(format!("12 less 30 Mbit/s at {rtt}"), ["12Mbit/s", "30Mbit/s"].map(|rate| at(rate, rtt, kind)));
        }
    }
    evidence
        .check("The share later than 200 ms is larger at 100 ms than at 25 ms, and at 12 Mbit/s than at 30.")
        .id("tails-by-path")
}

/// "Well within the interactive latency limits of approximately 200 ms when the RTT is less than 100 ms" (§1): half of it. The bound is ours.
fn well_below(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    let shorter = cells.iter().filter(|cell| !cell.name.ends_with("100ms"));
    for (cell, kind) in shorter.flat_map(|cell| min_bufs().map(move |kind| (cell, kind))) {
        evidence.cell(format!("ms, {kind} at {}:", cell.name), cell.estimate(kind, MEAN_MS), Bound::LessThan(100.0));
    }
    evidence
        .check("MIN_BUF streams have mean latencies below 100 ms at round-trip times below 100 ms.")
        .id("well-below-200")
}

/// "The deviation across runs is also much smaller" (§4.1), by the variances of the runs' means.
fn steadier(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for (cell, kind) in cells.iter().flat_map(|cell| min_bufs().map(move |kind| (cell, kind))) {
        let pair = cell.value(kind, MEAN_MS).zip(cell.value("std", MEAN_MS));
        let what = format!("{kind} over std at {}:", cell.name);
        match pair.and_then(|(ours, standard)| spread_ratio(ours.values(), standard.values())) {
            Some((ratio, judgement)) => evidence.judged(judgement, format!("{what} {ratio:.2}")),
            None => evidence.left_out(what),
        }
    }
    evidence.check("The mean latency varies less from run to run than standard TCP's.").id("steadier")
}

/// How many times as large the standard deviation of one set of runs is as that of another, and whether it is smaller, by the F distribution.
fn spread_ratio(ours: &[f64], others: &[f64]) -> Option<(f64, Judgement)> {
    use statrs::distribution::{ContinuousCDF as _, FisherSnedecor};
    use statrs::statistics::Statistics as _;
    let freedom = |values: &[f64]| as_f64(values.len()) - 1.0;
    let variances = FisherSnedecor::new(freedom(ours), freedom(others)).ok()?;
    let ratio = ours.variance() / others.variance();
    let below = variances.cdf(ratio);
    let judgement = match () {
        () if below < 0.025 => Judgement::Holds,
        () if below > 0.975 => Judgement::Broken,
        () => Judgement::Undecided,
    };
    ratio.is_finite().then(|| (ratio.sqrt(), judgement))
}

/// "MIN_BUF(1,3) flows have the highest value for this quality metric", the share within 200 ms times the throughput (§4.2).
fn best_quality(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        let quality = |kind| {
            Some(cell.value(kind, WITHIN_200)?.zip_with(cell.value(kind, THROUGHPUT)?, |within, rate| within * rate))
        };
        for other in ["std", "m10", "m20"] {
            let ratio = quality("m13").zip(quality(other));
            let ratio = ratio.and_then(|(ours, theirs)| Estimate::ratio(&ours, &theirs));
            evidence.cell(format!("m13 over {other} at {}:", cell.name), ratio, Bound::MoreThan(1.0));
        }
    }
    evidence.check("The share within 200 ms times the throughput is highest for MIN_BUF(1,3).").id("quality")
}

/// "The protocol latency of TCP is highest when the flow throughput is lowest"; that of (1,0) is "not affected as much" (§4.1).
fn follows_throughput_less(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        let standard = cell.estimate("std", CORRELATION);
        evidence.cell(format!("correlation, std at {}:", cell.name), standard, Bound::LessThan(0.0));
        let pair = cell.value("m10", CORRELATION).zip(cell.value("std", CORRELATION));
        let less = pair.and_then(|(ours, standard)| Estimate::difference(ours, 1.0, standard));
        evidence.cell(format!("that of m10 less that of std at {}:", cell.name), less, Bound::MoreThan(0.0));
    }
    evidence
        .check("Standard TCP's latency is the higher the lower its throughput; MIN_BUF(1,0)'s follows it less.")
        .id("follows-throughput")
}

/// "The spikes in these flows are chiefly a result of congestion control and retransmission" (§4.1), "primarily due to packet loss" (§4.3).
fn peaks_by_loss(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        let share = cell.estimate("m10", LATE_BY_LOSS);
        evidence.cell(format!("% of the packets later than 200 ms at {}:", cell.name), share, Bound::MoreThan(50.0));
    }
    evidence
        .check("Most packets of MIN_BUF(1,0) that are later than 200 ms were delayed by a loss.")
        .id("peaks-by-loss")
}

/// "The latency does not depend significantly on the flow throughput (or the congestion window size)" (§4.3).
fn independent_of_throughput(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        let correlation = cell.estimate("m10", CORRELATION);
        evidence.cell(format!("correlation at {}:", cell.name), correlation, Bound::Within(-WEAK, WEAK));
    }
    evidence
        .check("The latency of MIN_BUF(1,0) hardly depends on its throughput: the correlation is at most 0.3.")
        .id("independent-of-cwnd")
}

/// "MIN_BUF flows have much lower average latency" (§4.1, Table 2).
fn much_lower(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for (cell, kind) in cells.iter().flat_map(|cell| min_bufs().map(move |kind| (cell, kind))) {
        let what = format!("{kind} over std at {}:", cell.name);
        evidence.cell(what, cell.ratio([kind, "std"], MEAN_MS), Bound::LessThan(MUCH_LOWER));
    }
    evidence.check("Each MIN_BUF stream has a much lower mean latency than standard TCP: by a quarter at least.")
}

/// "The protocol latency of TCP and MIN_BUF(2,0) is highest when the flow throughput is lowest"; that of (1,3) is "not affected as much" (§4.1).
fn two_zero_follows_throughput(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        let of_m20 = cell.estimate("m20", CORRELATION);
        evidence.cell(format!("correlation, m20 at {}:", cell.name), of_m20, Bound::LessThan(0.0));
        let pair = cell.value("m13", CORRELATION).zip(cell.value("m20", CORRELATION));
        let less = pair.and_then(|(m13, m20)| Estimate::difference(m13, 1.0, m20));
        evidence.cell(format!("that of m13 less that of m20 at {}:", cell.name), less, Bound::MoreThan(0.0));
    }
    evidence
        .check("The latency of MIN_BUF(2,0) is the higher the lower its throughput; that of (1,3) follows it less.")
        .id("two-zero-follows-throughput")
}

fn order_of_three(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        for pair in [["m20", "m13"], ["m13", "m10"]] {
            let what = format!("{} over {} at {}:", pair[0], pair[1], cell.name);
            evidence.cell(what, cell.ratio(pair, MEAN_MS), Bound::MoreThan(1.0));
        }
    }
    evidence.check("MIN_BUF(1,0) has the lowest latency of the three, MIN_BUF(2,0) the highest.").id("order-of-three")
}

fn far_below(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        let ratio = cell.ratio(["m10", "std"], MEAN_MS);
        evidence.cell(format!("m10 over std at {}:", cell.name), ratio, Bound::LessThan(0.5));
    }
    evidence.check("With ECN MIN_BUF(1,0) has less than half of standard TCP's mean latency.").id("ecn-far-below-tcp")
}

fn close_to_tcp(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        let ratio = |kind| cell.ratio([kind, "std"], THROUGHPUT);
        evidence.cell(format!("m13 at {}:", cell.name), ratio("m13"), Bound::MoreThan(0.9));
        evidence.cell(format!("m20 at {}:", cell.name), ratio("m20"), Bound::about(1.0, ABOUT));
    }
    evidence
        .check("MIN_BUF(1,3) loses less than a tenth of TCP's throughput, and (2,0) has about the same.")
        .id("close-to-tcp")
}

fn one_zero_loses(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        let ratio = cell.ratio(["m10", "m13"], THROUGHPUT);
        evidence.cell(format!("m10 over m13 at {}:", cell.name), ratio, Bound::LessThan(1.0));
    }
    evidence.check("MIN_BUF(1,0) has the least throughput.").id("one-zero-least")
}

fn sender_is_small(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        let value = |name| cell.value("m10", name);
        let others =
            value(NETWORK_MS).zip(value(RECEIVER_MS)).map(|(one, other)| one.zip_with(other, |one, other| one + other));
        let ratio = value(SENDER_MS).zip(others.as_ref()).and_then(|(sender, others)| Estimate::ratio(sender, others));
        evidence.cell(format!("sender over network and receiver at {}:", cell.name), ratio, Bound::LessThan(0.2));
    }
    evidence
        .check("The sender's share of MIN_BUF(1,0)'s latency is small: less than a fifth of the rest.")
        .id("sender-small")
}

/// That the number of mice is that of the paper's set-up, which chooses it by their share: within 5 points.
fn mice_are_tuned(cells: &[Cell<'_>], percent: f64) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        let share = cell.estimate("m10", MICE_SHARE);
        evidence.cell(format!("% at {}:", cell.name), share, Bound::Within(percent - 5.0, percent + 5.0));
    }
    evidence.check(format!("The mice of the set-up take about {percent:.0}% of the bottleneck."))
}

/// Compares a stream with marks and without.
fn with_marks(plain: &[Cell<'_>], marked: &[Cell<'_>], kind: &str, name: &str) -> Vec<(String, Option<Estimate>)> {
    let pair = |cell: &Cell<'_>| {
        let without = plain.iter().find(|it| it.name == cell.name).and_then(|it| it.value(kind, name));
        let difference =
            cell.value(kind, name).zip(without).and_then(|(with, without)| Estimate::difference(with, 1.0, without));
        (format!("{kind} at {}:", cell.name), difference)
    };
    marked.iter().map(pair).collect()
}

fn peaks_fall(plain: &[Cell<'_>], marked: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for kind in min_bufs() {
        for (what, difference) in with_marks(plain, marked, kind, MAX_MS) {
            evidence.cell(what, difference, Bound::LessThan(0.0));
        }
    }
    evidence.check("With ECN the longest latency of each MIN_BUF stream is shorter than without.").id("ecn-peaks")
}

fn tails_shrink(plain: &[Cell<'_>], marked: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for kind in min_bufs() {
        for name in [WITHIN_200, WITHIN_500] {
            for (what, difference) in with_marks(plain, marked, kind, name) {
                evidence.cell(format!("{name}, {what}"), difference, Bound::MoreThan(0.0));
            }
        }
    }
    evidence
        .check("With ECN a larger share of the MIN_BUF streams' packets arrives within 200 and 500 ms.")
        .id("ecn-min-buf-tails")
}

fn tcp_tails_grow(plain: &[Cell<'_>], marked: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for name in [WITHIN_200, WITHIN_500] {
        for (what, difference) in with_marks(plain, marked, "std", name) {
            evidence.cell(format!("{name}, {what}"), difference, Bound::LessThan(0.0));
        }
    }
    evidence
        .check("With ECN a smaller share of standard TCP's packets arrives within 200 and 500 ms.")
        .id("ecn-tcp-tails")
}

/// "ECN reduced packet dropping and retransmissions" (§4.4).
fn fewer_drops(plain: &[Cell<'_>], marked: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for kind in KINDS.into_iter().take(4) {
        for (what, difference) in with_marks(plain, marked, kind, DROPPED) {
            evidence.cell(format!("points dropped, {what}"), difference, Bound::LessThan(0.0));
        }
    }
    evidence.check("With ECN the bottleneck drops a smaller share of the packets.").id("ecn-fewer-drops")
}

/// "The ECN flows in this experiment achieve lower throughput than TCP flows" (§4.4).
fn tcp_loses_throughput(plain: &[Cell<'_>], marked: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for (what, difference) in with_marks(plain, marked, "std", THROUGHPUT) {
        evidence.cell(format!("Mbit/s, {what}"), difference, Bound::LessThan(0.0));
    }
    evidence.check("With ECN standard TCP has less throughput.").id("ecn-tcp-throughput")
}

/// Whose buffers keep a target, and over what.
const TARGETS: [(&str, &str); 2] = [("target", "TCP"), ("festina-target", "Festina")];

fn target_keeps_its_time(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        for (kind, over) in TARGETS {
            let p90 = cell.estimate(kind, SENDER_P90_MS);
            evidence.cell(format!("p90 in ms over {over} at {}:", cell.name), p90, Bound::Within(0.0, BUDGET_MS));
        }
    }
    evidence.check("Festina's target of 50 ms in the send buffer is kept at p90.")
}

fn target_keeps_throughput(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        for ((target, over), fixed) in TARGETS.into_iter().zip(["std", "festina"]) {
            let ratio = cell.ratio([target, fixed], THROUGHPUT);
            evidence.cell(
                format!("target over a fixed buffer, {over}, at {}:", cell.name),
                ratio,
                Bound::MoreThan(0.95),
            );
        }
    }
    evidence.check("Festina's target of 50 ms has at least 95% of the throughput of a fixed buffer.")
}
