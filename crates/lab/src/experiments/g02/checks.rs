//! What G02 says of its tables and figures, and what must hold of a limit in time.

use super::cells::{Cell, KINDS, Published, ours, published};
use super::{
    MAX_MS, MEAN_MS, MICE_SHARE, NETWORK_MS, Part, RECEIVER_MS, SENDER_MS, SENDER_P90_MS, THROUGHPUT, WITHIN_200,
    WITHIN_500,
};
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::Check;
use crate::scoreboard::Entry;
use crate::summary::Results;

/// "About" the same throughput, and latencies that are not larger.
const ABOUT: f64 = 0.15;
/// The budget of the stream called target.
const BUDGET_MS: f64 = 50.0;

const WAKE_UPS: &str = "How late wake-ups come, to which the paper ascribes the loss, is not told: see wake_up.";
const QUEUES: &str = "The length of the paper's queues is not told.";

pub(super) fn checks(part: Part, results: &Results) -> Vec<Check> {
    let (plain, marked) = (Cell::all(results, "off"), Cell::all(results, "dred"));
    match part {
        Part::Table1 => vec![
            in_time(&plain),
            more_in_time(&plain, "Standard TCP delivers fewer packets within 200 ms than each MIN_BUF stream.")
                .id("more-in-time"),
        ],
        Part::Table2 => vec![order(&plain), target_keeps_its_time(&plain)],
        Part::Table3 => vec![close_to_tcp(&plain), one_zero_loses(&plain), target_keeps_throughput(&plain)],
        Part::Fig3 => vec![
            far_below(&plain, "MIN_BUF(1,0) has less than half of standard TCP's mean latency.").id("far-below-tcp"),
        ],
        Part::Fig4 => vec![order_of_three(&plain)],
        Part::Fig5 => vec![
            more_in_time(&plain, "A much larger share of standard TCP's packets is later than 200 ms.")
                .id("later-than-200"),
        ],
        Part::Fig6 => vec![sender_is_small(&plain)],
        Part::Fig7 => vec![mice_get_half(&marked)],
        Part::Fig8 => {
            vec![
                far_below(&marked, "With ECN MIN_BUF(1,0) has less than half of standard TCP's mean latency.")
                    .id("ecn-far-below-tcp"),
            ]
        }
        Part::Fig9 => vec![peaks_fall(&plain, &marked)],
        Part::Fig10 => vec![tails_shrink(&plain, &marked), tcp_tails_grow(&plain, &marked)],
    }
}

pub(super) fn scoreboard(part: Part, results: &Results) -> Vec<Entry> {
    let named = |cell: &Published, what: &str| format!("{what}: {}, {}, {}", cell.kind, cell.rate, cell.rtt);
    let entry = |cell: Published| {
        let [within_200, within_500, mean_ms, throughput] = ours(results, &cell);
        match part {
            Part::Table1 => vec![
                Entry::value(named(&cell, "share within 200 ms"), "", cell.within_200, within_200),
                Entry::value(named(&cell, "share within 500 ms"), "", cell.within_500, within_500),
            ],
            Part::Table2 => {
                let entry = Entry::value(named(&cell, "mean latency"), "ms", cell.mean_ms, mean_ms).because(QUEUES);
                vec![if cell.kind == "m10" { entry.fitted("the queue to this") } else { entry }]
            }
            Part::Table3 if cell.kind != "std" => {
                let entry = Entry::value(named(&cell, "normalized throughput"), "", cell.throughput, throughput);
                vec![if cell.kind == "m10" { entry.because(WAKE_UPS) } else { entry }]
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

fn in_time(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        for kind in ["m10", "m13"] {
            let bound = Bound::MoreThan(0.95);
            evidence.cell(format!("{kind} at {}:", cell.name), cell.estimate(kind, WITHIN_200), bound);
        }
    }
    evidence.check("MIN_BUF(1,0) and (1,3) deliver at least 95% of the packets within 200 ms.").id("in-time")
}

fn more_in_time(cells: &[Cell<'_>], statement: &str) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        for kind in min_bufs() {
            let pair = cell.value(kind, WITHIN_200).zip(cell.value("std", WITHIN_200));
            let difference = pair.and_then(|(ours, standard)| Estimate::difference(ours, 1.0, standard));
            evidence.cell(format!("{kind} less std at {}:", cell.name), difference, Bound::MoreThan(0.0));
        }
    }
    evidence.check(statement)
}

fn order(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        for (pair, least) in [(["std", "m20"], 1.0), (["m20", "m13"], 1.0), (["m13", "m10"], 1.0 - ABOUT)] {
            let [over, under] = pair;
            let what = format!("{over} over {under} at {}:", cell.name);
            evidence.cell(what, cell.ratio(pair, MEAN_MS), Bound::MoreThan(least));
        }
    }
    evidence
        .check("The mean latency falls from standard TCP over (2,0) and (1,3) to (1,0), which is not above (1,3).")
        .id("order")
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

fn far_below(cells: &[Cell<'_>], statement: &str) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        let ratio = cell.ratio(["m10", "std"], MEAN_MS);
        evidence.cell(format!("m10 over std at {}:", cell.name), ratio, Bound::LessThan(0.5));
    }
    evidence.check(statement)
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

fn mice_get_half(cells: &[Cell<'_>]) -> Check {
    let mut evidence = Evidence::new();
    for cell in cells {
        let share = cell.estimate("m10", MICE_SHARE);
        evidence.cell(format!("share in percent at {}:", cell.name), share, Bound::about(50.0, 0.25));
    }
    evidence.check("With ECN 80 mice take about half of the bottleneck.").id("mice-half")
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
    for (what, difference) in with_marks(plain, marked, "std", WITHIN_200) {
        evidence.cell(what, difference, Bound::LessThan(0.0));
    }
    evidence.check("With ECN a smaller share of standard TCP's packets arrives within 200 ms.").id("ecn-tcp-tails")
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
