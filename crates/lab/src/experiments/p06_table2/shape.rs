//! What §3 of Pedersen et al. 2006 says about Table 2, Fig. 2 and TCP in words.

use festina_sctp::RetransmissionCause::{self, Bundled, Fast, Timeout};

use super::Base;
use super::published::TABLE;
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::Check;
use crate::experiments::p06::{LONGEST_RTO, MEAN_DELIVERY, MEAN_RTO, MEDIAN_RTO, Quantity, REPAIR};
use crate::scenario::{Ordinal, Retransmissions, WAITS};
use crate::summary::PointSummary;

/// "Nearly all": nine tenths. The bound is ours.
const NEARLY_ALL_PERCENT: f64 = 90.0;
/// "Hardly any": one in seven. The bound is ours.
const HARDLY_ANY_PERCENT: f64 = 100.0 / 7.0;
/// The second of two waits in a row is as long as the first if the timer does not grow, and twice as long if it doubles: the middle. The bound is ours.
const GROWTH: f64 = 1.5;
/// A linear decrease: a value departs from the straight line by at most this share of the whole decrease. The bound is ours.
const LINEAR: f64 = 0.25;
/// "Slightly": by at most a tenth. The bound is ours.
const SLIGHTLY: f64 = 0.9;

pub(super) fn checks(base: &Base<'_>) -> Vec<Check> {
    vec![
        goes_one_way(
            base,
            "The longer the round-trip time, the smaller the share of timeouts.",
            Quantity::Share,
            Timeout,
            false,
        )
        .id("smaller-share"),
        goes_one_way(
            base,
            "The longer the round-trip time, the more unsolicited bundling.",
            Quantity::Number,
            Bundled,
            true,
        )
        .id("bundling-grows"),
        timeouts_fall_linearly(base),
        timeouts_dominate(base),
        bundling_is_spurious(base),
        above_a_second(base),
        fast_retransmissions_are_rare(base),
        timeouts_do_not_grow(base),
        tcp_is_better(base),
        tcp_times_out(base),
        rto_of_tcp_is_steadier(base),
        nearly_all_of_tcp_times_out(base),
        four_reports(base),
        bundling_hides_losses(base),
        bundling_lowers_the_average(base),
        bundling_raises_the_rto(base),
        variants_of_tcp_alike(base),
        signalling_is_too_late(base),
    ]
}

/// Whether a number goes one way from each round-trip time to the next.
fn goes_one_way(
    base: &Base<'_>,
    statement: &str,
    quantity: Quantity,
    cause: RetransmissionCause,
    rises: bool,
) -> Check {
    let numbers = base.over_rtts(quantity, cause);
    let bound = if rises { Bound::MoreThan(0.0) } else { Bound::LessThan(0.0) };
    let mut evidence = Evidence::new();
    for pair in numbers.windows(2) {
        let [(from, before), (to, after)] = [&pair[0], &pair[1]];
        let change = before.as_ref().zip(after.as_ref());
        let change = change.and_then(|(before, after)| Estimate::difference(after, 1.0, before));
        evidence.cell(format!("change from {from} to {to}"), change, bound);
    }
    evidence.check(statement)
}

/// "An expiring minRTO timer is still the most frequent reason for retransmissions" (§3.4), bundling, which is no reason, aside.
fn timeouts_dominate(base: &Base<'_>) -> Check {
    let mut evidence = Evidence::new();
    for ((rtt, timeouts), (_, fast)) in
        base.over_rtts(Quantity::Number, Timeout).into_iter().zip(base.over_rtts(Quantity::Number, Fast))
    {
        let ratio = timeouts.zip(fast).and_then(|(timeouts, fast)| Estimate::ratio(&fast, &timeouts));
        evidence.cell(format!("fast over timeouts at {rtt}"), ratio, Bound::LessThan(1.0));
    }
    evidence
        .check("At every round-trip time more first retransmissions are timeouts than fast ones.")
        .id("timeouts-dominate")
}

fn bundling_is_spurious(base: &Base<'_>) -> Check {
    let first = base.at(TABLE[3].0).map(Retransmissions::of);
    let share = first.and_then(|first| Estimate::of(&first.spurious_in_each(Ordinal::First, &[Bundled])?));
    let mut evidence = Evidence::new();
    evidence.cell("% of them spurious:", share.map(|share| share.times(100.0)), Bound::MoreThan(NEARLY_ALL_PERCENT));
    evidence.check("At 400 ms nearly all unsolicited bundling is spurious: nine tenths.").id("bundling-spurious")
}

fn above_a_second(base: &Base<'_>) -> Check {
    let mut evidence = Evidence::new();
    for (name, cause) in [("timeouts", Timeout), ("fast", Fast)] {
        for (rtt, means) in base.over_rtts(Quantity::Mean, cause) {
            evidence.cell(
                format!("ms, {name} at {rtt}:"),
                means.and_then(|it| Estimate::of(&it)),
                Bound::MoreThan(1_000.0),
            );
        }
    }
    evidence
        .check("With an RTO.Min of 1 s timeouts and fast retransmissions take more than a second on average.")
        .id("above-a-second")
}

fn fast_retransmissions_are_rare(base: &Base<'_>) -> Check {
    let mut evidence = Evidence::new();
    for (rtt, shares) in base.over_rtts(Quantity::Share, Fast) {
        let share = shares.and_then(|shares| Estimate::of(&shares));
        evidence.cell(format!("% at {rtt}:"), share, Bound::LessThan(HARDLY_ANY_PERCENT));
    }
    evidence.check("Hardly any first retransmission is a fast one: fewer than one in seven.").id("fast-rare")
}

/// "Retransmission timeouts do not exhibit the exponential growth that is seen in TCP" (§3.1, Fig. 2).
fn timeouts_do_not_grow(base: &Base<'_>) -> Check {
    let mut evidence = Evidence::new();
    let growth = |summary: Option<&PointSummary>| Estimate::of(summary?.values().get(WAITS)?);
    for (rtt, _) in TABLE {
        for (name, summary, bound) in [
            ("SCTP", base.at(rtt), Bound::LessThan(GROWTH)),
            ("TCP New Reno", base.tcp_at(rtt), Bound::MoreThan(GROWTH)),
        ] {
            evidence.cell(format!("second wait over the first, {name} at {rtt}:"), growth(summary), bound);
        }
    }
    evidence
        .check(
            "Of two timeouts in a row the second wait is less than one and a half times the first with SCTP, and more with TCP.",
        )
        .id("no-exponential-growth")
}

/// "A linear decrease in the number of retransmissions that are triggered by timeouts" (§3.3).
fn timeouts_fall_linearly(base: &Base<'_>) -> Check {
    let mut evidence = Evidence::new();
    let numbers = base.over_rtts(Quantity::Number, Timeout);
    let number = |place: usize| numbers.get(place).and_then(|(_, number)| number.clone());
    let ends = number(3).zip(number(0));
    let change = ends.and_then(|(last, first)| Estimate::difference(&last, 1.0, &first));
    evidence.cell("change from 0 to 400 ms:", change, Bound::LessThan(0.0));
    for (place, way) in [(1, 0.25), (2, 0.5)] {
        let ends = number(0).zip(number(3));
        let share = ends.zip(number(place)).and_then(|((first, last), between)| {
            let line = first.zip_with(&last, |first, last| first + way * (last - first));
            let decrease = first.zip_with(&last, |first, last| first - last);
            Estimate::ratio(&between.zip_with(&line, |between, line| between - line), &decrease)
        });
        let what = format!("distance from the line at {}, as a share of the decrease:", TABLE[place].0);
        evidence.cell(what, share, Bound::Within(-LINEAR, LINEAR));
    }
    evidence
        .check(
            "The number of timeouts falls linearly: at 100 and 200 ms it departs from the straight line between 0 and 400 ms by at \
             most a quarter of the decrease between these.",
        )
        .id("linear")
}

/// "Unsolicited retransmission by chunk bundling can improve the average end-to-end latency slightly" (§3.4).
fn bundling_lowers_the_average(base: &Base<'_>) -> Check {
    let mut evidence = Evidence::new();
    let mean = |summary: Option<&PointSummary>| summary?.values().get(MEAN_DELIVERY).cloned();
    for (rtt, _) in TABLE {
        let pair = mean(base.at(rtt)).zip(mean(base.unbundled_at(rtt)));
        let ratio = pair.and_then(|(with, without)| Estimate::ratio(&with, &without));
        evidence.cell(format!("mean delay with over without at {rtt}:"), ratio, Bound::Within(SLIGHTLY, 1.0));
    }
    evidence
        .check("Bundling lowers the mean delay of all messages slightly: by at most a tenth.")
        .id("bundling-average")
}

/// "Acknowledgments for those packets whose loss is hidden are taken into account in the computation of the RTO value, which is then growing" (§3.3).
fn bundling_raises_the_rto(base: &Base<'_>) -> Check {
    let mut evidence = Evidence::new();
    let mean = |summary: Option<&PointSummary>| summary?.values().get(MEAN_RTO).cloned();
    let rtt = TABLE[3].0;
    let pair = mean(base.at(rtt)).zip(mean(base.unbundled_at(rtt)));
    let ratio = pair.and_then(|(with, without)| Estimate::ratio(&with, &without));
    evidence.cell(format!("mean RTO with over without at {rtt}:"), ratio, Bound::MoreThan(1.0));
    evidence.check("Bundling, which hides losses, raises the RTO.").id("bundling-rto")
}

/// "Actually, we saw that lksctp performs worse than TCP" (§3.4).
fn tcp_is_better(base: &Base<'_>) -> Check {
    let mut evidence = Evidence::new();
    let mean = |summary: Option<&PointSummary>| Some(summary?.series().get(REPAIR)?.mean_s().clone());
    for (rtt, _) in TABLE {
        let ratio = mean(base.tcp_at(rtt)).zip(mean(base.at(rtt)));
        let ratio = ratio.and_then(|(tcp, lksctp)| Estimate::ratio(&tcp, &lksctp));
        evidence.cell(format!("TCP over lksctp at {rtt}"), ratio, Bound::LessThan(1.0));
    }
    evidence.check("A lost message arrives later over lksctp than over TCP New Reno on average.").id("worse-than-tcp")
}

/// "The development of TCP's RTO values is more stable than SCTP's, which tends to overestimate" (§3.2). At 400 ms neither RTO.Min hides it.
fn rto_of_tcp_is_steadier(base: &Base<'_>) -> Check {
    let rtt = TABLE[3].0;
    let value = |summary: Option<&PointSummary>, name: &str| summary?.values().get(name).cloned();
    let of = |summary: Option<&PointSummary>| {
        let swing = value(summary, LONGEST_RTO)?.zip_with(&value(summary, MEDIAN_RTO)?, |max, median| max / median);
        Some((swing, value(summary, MEDIAN_RTO)?))
    };
    let pair = of(base.at(rtt)).zip(of(base.tcp_at(rtt)));
    let (mut swing, mut median) = (None, None);
    if let Some((sctp, tcp)) = pair {
        (swing, median) = (Estimate::ratio(&sctp.0, &tcp.0), Estimate::ratio(&sctp.1, &tcp.1));
    }
    let mut evidence = Evidence::new();
    evidence.cell(format!("longest over median RTO at {rtt}, SCTP over TCP:"), swing, Bound::MoreThan(1.0));
    evidence.cell(format!("median RTO at {rtt}, SCTP over TCP:"), median, Bound::MoreThan(1.0));
    evidence.check("TCP's RTO is steadier than SCTP's, and lower.").id("steadier-rto")
}

/// How much of what TCP sends again are timeouts.
fn tcp_timeouts(base: &Base<'_>, percent: f64) -> Evidence {
    let mut evidence = Evidence::new();
    for (rtt, _) in TABLE {
        let share = base.tcp_at(rtt).and_then(|summary| Quantity::Share.measured(summary, Timeout));
        evidence.cell(format!("% at {rtt}:"), share, Bound::MoreThan(percent));
    }
    evidence
}

/// "Nearly all retransmissions are triggered by timeout", of TCP streams (P10 §3.1).
fn nearly_all_of_tcp_times_out(base: &Base<'_>) -> Check {
    tcp_timeouts(base, NEARLY_ALL_PERCENT)
        .check("With TCP New Reno nearly all first retransmissions are timeouts: nine tenths.")
        .id("tcp-nearly-all")
}

/// "SCTP requires 4 duplicate SACKs" (§3.1): the first fast retransmissions come a round trip and four messages after the lost one.
fn four_reports(base: &Base<'_>) -> Check {
    let mut evidence = Evidence::new();
    for (rtt, shortest) in base.over_rtts(Quantity::Min, Fast) {
        let path =
            base.at(rtt).map(|summary| summary.point().duration("interval") * 4 + summary.point().duration("rtt"));
        let ratio = shortest.zip(path).and_then(|(ms, path)| Estimate::of(&ms.map(|ms| ms / path.as_secs_f64() / 1e3)));
        // Hosts and ticks add a little, and a fifth report would add a fifth.
        evidence.cell(
            format!("shortest over four intervals and a round trip at {rtt}:"),
            ratio,
            Bound::Within(1.0, 1.1),
        );
    }
    evidence.check("The earliest fast retransmissions follow the fourth report.").id("four-reports")
}

/// "Aggressive chunk bundling hides some losses completely from the receiving side", which is good for their latency (§3.3).
fn bundling_hides_losses(base: &Base<'_>) -> Check {
    let summary = base.at(TABLE[3].0);
    let spurious =
        summary.map(Retransmissions::of).and_then(|first| first.spurious_in_each(Ordinal::First, &[Bundled]));
    let needed = spurious.and_then(|share| Estimate::of(&share.map(|share| (1.0 - share) * 100.0)));
    let mean = |cause| Quantity::Mean.each(summary?, cause);
    let ratio = mean(Bundled).zip(mean(Timeout)).and_then(|(bundled, timeout)| Estimate::ratio(&bundled, &timeout));
    let mut evidence = Evidence::new();
    evidence.cell("% of the bundled chunks that repair a loss:", needed, Bound::MoreThan(0.0));
    evidence.cell("their mean over that of timeouts:", ratio, Bound::LessThan(1.0));
    evidence.check("At 400 ms unsolicited bundling repairs some losses, earlier than timeouts do.").id("bundling-hides")
}

/// "The various combinations of SACK, DSACK and FACK mechanisms do not make any difference" (§3.2): within a twentieth.
fn variants_of_tcp_alike(base: &Base<'_>) -> Check {
    let mut evidence = Evidence::new();
    let mean = |summary: Option<&PointSummary>| Some(summary?.series().get(REPAIR)?.mean_s().clone());
    for (rtt, variant) in TABLE.iter().flat_map(|(rtt, _)| ["sack", "fack"].map(|variant| (*rtt, variant))) {
        let pair = mean(base.transport_at(variant, rtt)).zip(mean(base.tcp_at(rtt)));
        let ratio = pair.and_then(|(variant, plain)| Estimate::ratio(&variant, &plain));
        evidence.cell(format!("{variant} over New Reno at {rtt}:"), ratio, Bound::about(1.0, 0.05));
    }
    evidence
        .check("With SACK and FACK TCP delivers lost messages no sooner or later than New Reno: within 5%.")
        .id("variants-alike")
}

/// "Not able to fulfil the requirements for signaling traffic" (§1, §4), 500 to 1200 ms: lost messages take longer.
fn signalling_is_too_late(base: &Base<'_>) -> Check {
    let mut evidence = Evidence::new();
    for (rtt, _) in TABLE {
        let longest = base.at(rtt).and_then(|summary| Some(summary.series().get(REPAIR)?.max_s().map(|s| s * 1e3)));
        evidence.cell(format!("ms at {rtt}:"), longest.and_then(|it| Estimate::of(&it)), Bound::MoreThan(1_200.0));
    }
    evidence.check("Some lost messages are delivered later than 1200 ms, the limit of RFC 2719.").id("rfc-2719")
}

/// "Even in TCP New Reno, most retransmissions are triggered by timeout" (§3.2).
fn tcp_times_out(base: &Base<'_>) -> Check {
    let evidence = tcp_timeouts(base, 50.0);
    evidence.check("With TCP New Reno most first retransmissions are timeouts.").id("tcp-times-out")
}
