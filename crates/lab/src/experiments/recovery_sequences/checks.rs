//! Requirements for the recoveries.

use std::time::Duration;

use festina_recovery::Profile;

use crate::experiment::Check;
use crate::plan::Point;
use crate::scenario::fate;
use crate::summary::{PointSummary, Results};

/// Differences below this are ignored: timers are rounded to whole milliseconds.
const SLACK: Duration = Duration::from_millis(1);

/// A sender, and those that it never recovers later than, in any of the cases named.
struct Order {
    earlier: &'static str,
    later: Later,
    cases: &'static [&'static str],
}

enum Later {
    /// Every profile but the earlier one.
    Others,
    /// The same without those that send proactive copies regardless of earlier losses.
    OthersThatWait,
    These(&'static [&'static str]),
}

const ALL_CASES: &[&str] = &["message", "pair", "repair", "last", "answer"];

const ORDERS: &[Order] = &[
    // Not so with a lost repair: who retransmits with each SACK that still reports the message missing (P10) tries again earlier, and often
    // needlessly.
    Order { earlier: "festina", later: Later::OthersThatWait, cases: &["message", "pair", "last", "answer"] },
    Order { earlier: "festina+bundled", later: Later::Others, cases: ALL_CASES },
    Order { earlier: "festina+spaced", later: Later::These(&["festina"]), cases: ALL_CASES },
    // Not so with a lost answer: the timer expires just before a message is written, which then has to wait for that answer. The
    // standard's expires just after.
    Order { earlier: "rto-restart", later: Later::These(&["rfc9260"]), cases: &["message", "pair", "repair", "last"] },
    Order { earlier: "early-retransmit", later: Later::These(&["rfc9260"]), cases: ALL_CASES },
    // Not so with a pair: the earlier probe repairs the second message only, and puts off the timeout for the first.
    Order { earlier: "tlpr", later: Later::These(&["tlp"]), cases: &["message", "repair", "last"] },
    // The probe of RFC 8985 waits longer for a single packet, so that it is no better than the draft's where nothing follows.
    Order { earlier: "rack", later: Later::These(&["tlp", "tlpr"]), cases: &["message", "pair", "repair", "answer"] },
    Order { earlier: "rack", later: Later::These(&["rfc9260"]), cases: ALL_CASES },
];

/// All checks.
pub(super) fn checks(results: &Results) -> Vec<Check> {
    let mut checks = vec![fate::delivered_check(results)];
    // One way, and what passes before the repair leaves: a round trip and a twentieth for a probe, a tenth for a copy.
    checks.push(within(results, "festina", &["message", "pair", "last", "answer"], 1.6));
    checks.push(within(results, "festina", &["repair"], 2.65));
    checks.push(within(results, "festina+spaced", &["message", "pair", "last", "answer"], 0.61));
    checks.extend(ORDERS.iter().map(|order| order.check(results)));
    checks
}

/// Checks that every message is delivered within this number of round trips after its write.
fn within(results: &Results, sender: &str, cases: &[&str], round_trips: f64) -> Check {
    let statement = format!("{sender}: no message takes longer than {round_trips} round trips ({}).", cases.join(", "));
    let points = results.points().iter().filter(|summary| {
        let point = summary.point();
        point.choice("sender") == sender && cases.contains(&point.choice("lost"))
    });
    let most = points.filter_map(|summary| {
        let rtt = summary.point().duration("rtt");
        Some(delay(summary)?.as_secs_f64() / rtt.as_secs_f64())
    });
    match most.max_by(f64::total_cmp) {
        None => Check::skipped(statement, "the plan has no such point"),
        Some(most) => Check::new(statement, most <= round_trips, format!("{most:.3} at most")),
    }
}

impl Order {
    fn later(&self) -> Vec<&'static str> {
        let others = Profile::all().iter().filter(|profile| profile.name() != self.earlier);
        let waits = |profile: &&Profile| !profile.mechanisms().thin.bundling.with_new_data;
        match self.later {
            Later::Others => others.map(|profile| profile.name()).collect(),
            Later::OthersThatWait => others.filter(waits).map(|profile| profile.name()).collect(),
            Later::These(names) => names.to_vec(),
        }
    }

    fn check(&self, results: &Results) -> Check {
        let (Self { earlier, cases, .. }, later) = (self, self.later());
        let statement = format!("{earlier} never recovers later than {} ({}).", later.join(", "), cases.join(", "));
        let (mut compared, mut broken) = (0, Vec::new());
        for one in results.points().iter().filter(|summary| summary.point().choice("sender") == *earlier) {
            for other in results.points() {
                let name = other.point().choice("sender");
                let lost = other.point().choice("lost");
                if !later.contains(&name)
                    || !cases.contains(&lost)
                    || !differ_in_sender_only(one.point(), other.point())
                {
                    continue;
                }
                let Some((one, other_delay)) = delay(one).zip(delay(other)) else { continue };
                compared += 1;
                if one > other_delay + SLACK {
                    broken.push(format!("{one:.0?} and {other_delay:.0?} of {name} ({lost})"));
                }
            }
        }
        match compared {
            0 => Check::skipped(statement, "the plan has not both senders in one case"),
            _ if broken.is_empty() => Check::new(statement, true, format!("in {compared} comparisons")),
            _ => Check::new(statement, false, broken.join(", ")),
        }
    }
}

/// How long the message took that waited longest.
fn delay(summary: &PointSummary) -> Option<Duration> {
    summary.series().get(fate::DELIVERY)?.all().max()
}

fn differ_in_sender_only(one: &Point, other: &Point) -> bool {
    ["iat", "lost", "rtt", "sack_delay", "size"].iter().all(|name| one.value(name) == other.value(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Verdict};
    use crate::experiments::RecoverySequences;
    use crate::plan::{Plan, Scale};

    fn results(scale: Scale) -> Results {
        let plan = Plan::own(&RecoverySequences, scale);
        let seed = plan.repetition_seed(0);
        let summary = |point: Point| {
            let samples = RecoverySequences.run(&point, seed);
            let mut summary = PointSummary::new(point);
            summary.add(&samples);
            summary
        };
        let points = plan.points().into_iter().map(summary).collect();
        Results::new(plan, points)
    }

    #[test]
    fn all_statements_hold_and_none_lacks_data() {
        for check in checks(&results(Scale::Full)) {
            assert!(matches!(check.verdict, Verdict::Holds(_)), "{check:?}");
        }
    }

    #[test]
    fn each_point_has_a_figure_that_can_be_drawn() {
        let results = results(Scale::Quick);
        let figures = RecoverySequences.figures(&results);
        assert_eq!(figures.len(), results.points().len());
        for figure in figures {
            let svg = figure.to_svg().expect("its axes are sound");
            assert!(svg.contains("sent, lost") && svg.contains("delivered, in order"), "{}", figure.title);
        }
    }
}
