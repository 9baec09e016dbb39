//! What the default profile must reach. The 95% interval over the repetitions decides: all of it within the bound holds, all of it
//! outside is broken, and anything else is undecided.

use super::flow::CUBIC;
use super::{FAIR_SHARE, GOODPUT, ITSELF, JAIN, LINK_SHARE, NONE, SCHEDULERS, SPAN, TIME_TO_60, TIME_TO_85, transfer};
use crate::experiment::{Check, Verdict};
use crate::summary::{PointSummary, Repeated, Results};

/// The profile that applications get unless they ask for another.
const DEFAULT: &str = "festina";
/// The queues in which shares are judged.
const QUEUES: [&str; 2] = ["100 packets", "20 packets"];
/// The queues in which a fast link must be filled: one that hides a cut to half of the window, and one that does not.
const FAST_QUEUES: [&str; 2] = ["1 BDP", "0.2 BDP"];

/// What a check lacks if the plan leaves its point out.
const NO_SUCH_POINT: &str = "this plan has no such point";

pub(super) fn checks(results: &Results) -> Vec<Check> {
    let mut checks: Vec<Check> = QUEUES.map(|queue| share_check(results, queue)).into();
    checks.extend(QUEUES.map(|queue| jain_check(results, queue)));
    checks.extend(FAST_QUEUES.map(|queue| reach_check(results, ["40ms", queue], (85, TIME_TO_85), 20)));
    checks.extend(FAST_QUEUES.map(|queue| reach_check(results, ["200ms", queue], (60, TIME_TO_60), 30)));
    checks.push(loss_check(results));
    checks
}

fn share_check(results: &Results, queue: &str) -> Check {
    let statement = format!(
        "At 10 Mbit/s, 40 ms and a queue of {queue}, {DEFAULT} beside Linux's CUBIC has 0.8 to 1.25 of its fair share."
    );
    let spot = Spot { queue, rival: CUBIC, ..Spot::default() };
    judged(statement, spot.find(results), FAIR_SHARE, [0.8, 1.25])
}

fn jain_check(results: &Results, queue: &str) -> Check {
    let statement = format!(
        "At 10 Mbit/s, 40 ms and a queue of {queue}, Jain's index of {DEFAULT} beside itself is at least 0.95."
    );
    let spot = Spot { queue, rival: ITSELF, ..Spot::default() };
    judged(statement, spot.find(results), JAIN, [0.95, f64::INFINITY])
}

/// Whether a share of the link is reached in time: when the first span that shows it begins.
fn reach_check(results: &Results, [rtt, queue]: [&str; 2], (percent, time): (u32, &str), limit_s: u32) -> Check {
    let span_s = SPAN.as_secs();
    let statement = format!(
        "At 1 Gbit/s, {rtt} and a queue of {queue}, {span_s} s of {DEFAULT} above {percent}% of the link begin within {limit_s} s."
    );
    let summary = Spot { rate: "1Gbit/s", rtt, queue, ..Spot::default() }.find(results);
    let runs = |summary: &PointSummary, name| summary.values().get(name).map_or(0, |runs| runs.values().len());
    match summary {
        Some(summary) if runs(summary, time) < runs(summary, GOODPUT) => {
            let share = summary.values().get(LINK_SHARE).and_then(Repeated::mean).unwrap_or_default();
            let reached = runs(summary, time);
            let seen = format!(
                "reached in {reached} of {} runs; {share:.1}% of the link after the warm-up",
                runs(summary, GOODPUT)
            );
            Check::new(statement, false, seen)
        }
        _ => judged(statement, summary, time, [f64::NEG_INFINITY, f64::from(limit_s)]),
    }
}

fn loss_check(results: &Results) -> Check {
    let statement =
        format!("At 50 Mbit/s, 40 ms and 0.1% loss, the goodput of {DEFAULT} is at least that of Linux's CUBIC.");
    let spot = Spot { rate: "50Mbit/s", loss: "0.1%", ..Spot::default() };
    let [own, other] = [DEFAULT, CUBIC].map(|sender| Spot { sender, ..spot }.find(results));
    let (Some(own), Some(other)) = (own, other) else { return Check::skipped(statement, NO_SUCH_POINT) };
    let goodputs = |summary: &PointSummary| summary.values().get(GOODPUT).cloned().unwrap_or_default();
    // Runs of the same number have the same seed.
    let (owns, others) = (goodputs(own), goodputs(other));
    let ratios: Repeated = owns.values().iter().zip(others.values()).map(|(own, other)| own / other).collect();
    verdict(statement, "goodput over that of Linux's CUBIC", &ratios, is_settled(own), [1.0, f64::INFINITY])
}

/// A point of the plan, by what the checks tell points apart.
#[derive(Clone, Copy)]
struct Spot<'a> {
    rate: &'a str,
    rtt: &'a str,
    queue: &'a str,
    loss: &'a str,
    rival: &'a str,
    sender: &'a str,
}

impl Default for Spot<'_> {
    fn default() -> Self {
        Self { rate: "10Mbit/s", rtt: "40ms", queue: "1 BDP", loss: "0%", rival: NONE, sender: DEFAULT }
    }
}

impl Spot<'_> {
    /// The point without reordering and with the default scheduler.
    fn find<'r>(&self, results: &'r Results) -> Option<&'r PointSummary> {
        let settings = [
            ("rate", self.rate),
            ("rtt", self.rtt),
            ("queue", self.queue),
            ("loss", self.loss),
            ("rival", self.rival),
            ("sender", self.sender),
            ("reordered", "0%"),
            ("scheduler", SCHEDULERS[0]),
        ];
        results.matching(&settings).next()
    }
}

/// Judges a number of a point.
fn judged(statement: String, summary: Option<&PointSummary>, value: &str, bound: [f64; 2]) -> Check {
    let found = summary.and_then(|summary| Some((summary, summary.values().get(value)?)));
    let Some((summary, repeated)) = found else { return Check::skipped(statement, NO_SUCH_POINT) };
    verdict(statement, value, repeated, is_settled(summary), bound)
}

/// Whether one run says all.
fn is_settled(summary: &PointSummary) -> bool {
    !transfer(summary.point()).is_random()
}

fn verdict(statement: String, value: &str, repeated: &Repeated, is_settled: bool, [low, high]: [f64; 2]) -> Check {
    let half_width = if is_settled { Some(0.0) } else { repeated.half_width_95() };
    let (Some(mean), Some(half_width)) = (repeated.mean(), half_width) else {
        return Check::skipped(statement, "an interval takes two repetitions");
    };
    let [from, to] = [mean - half_width, mean + half_width];
    let runs = repeated.values().len();
    let interval = if is_settled { "nothing is random".to_owned() } else { format!("± {half_width:.3}, n = {runs}") };
    let seen = format!("{value}: {mean:.3} ({interval})");
    let verdict = match () {
        () if low <= from && to <= high => Verdict::Holds(seen),
        () if to < low || high < from => Verdict::Broken(seen),
        () => Verdict::Undecided(seen),
    };
    Check::judged(statement, verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64], is_settled: bool, bound: [f64; 2]) -> Verdict {
        verdict("it is so".to_owned(), "share", &values.iter().copied().collect(), is_settled, bound).verdict
    }

    #[test]
    fn the_whole_interval_must_lie_within_the_bound() {
        // The interval is 1.0 ± 0.25.
        let values = [0.9, 1.0, 1.1];
        assert_eq!(of(&values, false, [0.7, 1.3]), Verdict::Holds("share: 1.000 (± 0.248, n = 3)".to_owned()));
        let outside = "share: 1.000 (± 0.248, n = 3)".to_owned();
        assert_eq!(of(&values, false, [1.3, 2.0]), Verdict::Broken(outside.clone()));
        assert_eq!(of(&values, false, [0.0, 0.7]), Verdict::Broken(outside));
        let undecided = "share: 1.000 (± 0.248, n = 3)".to_owned();
        for bound in [[0.8, 1.25], [0.8, 2.0], [0.0, 1.1], [1.1, 2.0]] {
            assert_eq!(of(&values, false, bound), Verdict::Undecided(undecided.clone()), "{bound:?}");
        }
    }

    #[test]
    fn one_run_decides_only_where_nothing_is_random() {
        assert_eq!(of(&[1.0], true, [0.8, 1.25]), Verdict::Holds("share: 1.000 (nothing is random)".to_owned()));
        assert!(matches!(of(&[1.0], false, [0.8, 1.25]), Verdict::Skipped(_)));
        assert!(matches!(of(&[], true, [0.8, 1.25]), Verdict::Skipped(_)));
    }
}
