//! `r15-tail-loss`: the last packets of a short flow are lost, exactly these, and each mechanism repairs them.

mod flow;

use festina_units::Duration;

use super::r15::{self, Cases, Cost, Family};
use crate::evidence::{Bound, Estimate, Evidence, Judgement};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scoreboard::Entry;
use crate::summary::{PointSummary, Results};
use flow::ShortFlow;

/// From the write to the complete delivery.
const COMPLETION: &str = "completion";
/// The same, minus the time that it takes without the losses.
const RECOVERY: &str = "recovery";

/// Controlled tail loss.
#[derive(Clone, Copy, Debug)]
pub struct R15TailLoss;

impl Experiment for R15TailLoss {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/r15-tail-loss.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let flow = ShortFlow {
            stack: r15::stack(point, point.duration("delayed_ack")),
            packets: point.count("length"),
            rtt: point.duration("rtt"),
            seed,
        };
        let [without, with] = [0, point.count("lost")].map(|lost| flow.run(lost));
        let mut samples = Samples::new();
        let mut cost = Cost::default();
        cost.add(&with.truth);
        cost.set(&mut samples);
        if let Some([without, with]) = without.completion().zip(with.completion()).map(<[Duration; 2]>::from) {
            samples.tally(COMPLETION, with);
            samples.tally(RECOVERY, with.saturating_sub(without));
        }
        samples
    }

    /// Losses are given, and nothing else differs from run to run.
    fn is_random(&self, _point: &Point) -> bool {
        false
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        let cases = cases(results);
        let saved = "loss recovery time saved by RTO restart (RFC 7765 §5.1)";
        let entry = |family: &Family| {
            cases.saving(saved, 35.0, family, family.rtor).impossible(
            "RFC 7765 cites it of signalling traffic under conditions that it does not tell, and the saving hangs on the \
             round-trip time and the minimum RTO",
        )
        };
        Family::ALL.iter().map(entry).collect()
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let all = cases(results);
        let mut checks = vec![complete_check(results)];
        checks.push(restart_check(&all, &Family::TCP).id("restart-adds"));
        for family in &Family::ALL {
            checks.push(round_trip_check(&all, family).id(family.id("round-trip")));
            checks.extend(all.standard_checks(family));
            checks.push(all.dependence_check(family));
            checks.extend(family.restarted_probes().map(|tlpr| all.best_check(family, tlpr)));
        }
        // Without losses it is faster, too, so the completion tells more of it than the recovery.
        checks.push(Cases::exact(results, COMPLETION).standard_check(&Family::SCTP, "festina"));
        checks
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let plan = results.plan();
        let first = |name: &str| {
            let (_, values) = plan.sweep().iter().find(|(known, _)| *known == name)?;
            Some((name.to_owned(), *values.first()?))
        };
        let base: Vec<_> = ["rtt", "length", "delayed_ack"].iter().filter_map(|name| first(name)).collect();
        let is_base = |point: &PointSummary, except: &str| {
            let mut settings = base.iter().filter(|(name, _)| name != except);
            settings.all(|(name, value)| point.point().value(name) == Some(*value))
        };
        let words: Vec<String> = base.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let mut figures = Vec::new();
        for family in &Family::ALL {
            let title = format!("{}: how long lost tails take", family.name);
            let by_lost = cases(results).only(|point| is_base(point, ""));
            figures.extend(r15::chart(&title, &told(&words), "recovery", &by_lost, family, |case| {
                format!("{} lost", case.point.point().count("lost"))
            }));
            for lost in [1, 3] {
                let title = format!("{}: how long {lost} lost at the end take, by round-trip time", family.name);
                let by_rtt = cases(results).only(|point| point.point().count("lost") == lost && is_base(point, "rtt"));
                figures.extend(r15::chart(&title, &told(&words[1..]), "recovery", &by_rtt, family, |case| {
                    case.point.point().value("rtt").map_or_else(String::new, |rtt| format!("rtt {rtt}"))
                }));
            }
        }
        figures
    }
}

/// The conditions, and why bars have no whiskers.
fn told(conditions: &[String]) -> String {
    format!("{}; nothing is random: one run of each", conditions.join(", "))
}

/// The recovery times.
fn cases(results: &Results) -> Cases<'_> {
    Cases::exact(results, RECOVERY)
}

fn complete_check(results: &Results) -> Check {
    let incomplete = results.points().iter().filter(|point| !point.series().contains_key(COMPLETION)).count();
    Check::exact("Every flow is delivered whole.", incomplete == 0, format!("{incomplete} are not"))
}

/// "The extra delay is approximately one RTT. If the ACK that restarts the timer is a delayed ACK, the total time becomes RTO + RTT + delACK" (§3.4.1):
/// what RTO restart saves where the last packet alone is lost, which is the age of that packet.
fn restart_check(cases: &Cases<'_>, family: &Family) -> Check {
    let Family { name, standard, rtor, .. } = family;
    let mut evidence = Evidence::new();
    for case in cases.iter().filter(|case| case.point.point().count("lost") == 1) {
        let saved = case.pair_ms([rtor, standard]).map(|[restarted, full]| full - restarted);
        let millis = |name: &str| case.point.point().duration(name).as_secs_f64() * 1e3;
        let bound = Bound::Within(0.9 * millis("rtt"), 1.1 * millis("rtt") + millis("delayed_ack"));
        evidence.cell(format!("ms at {}:", case.label()), saved.map(Estimate::exact), bound);
    }
    evidence.check(format!(
        "{name}: restarting {standard}'s timer adds a round trip, and the delay of an acknowledgement at most."
    ))
}

/// "When RTOR is triggered, it can reduce at least one RTT from the total latency as compared to the standard."
fn round_trip_check(cases: &Cases<'_>, family: &Family) -> Check {
    let Family { name, standard, rtor, .. } = family;
    let statement = format!(
        "{name}: where {rtor} changes anything, it saves at least one round trip of {standard} in at least {:.0}% of the cases.",
        r15::ALMOST_ALL * 100.0
    );
    let savings = cases.iter().filter_map(|case| {
        let [restarted, full] = case.pair_ms([rtor, standard])?;
        Some(((full - restarted) / (case.point.point().duration("rtt").as_secs_f64() * 1e3), case.label()))
    });
    let savings: Vec<_> = savings.collect();
    // A thousandth is less than what rounds off.
    let changed: Vec<_> = savings.iter().filter(|(saved, _)| saved.abs() > 0.001).collect();
    let Some((least, label)) = changed.iter().min_by(|one, other| one.0.total_cmp(&other.0)) else {
        return Check::skipped(statement, "the plan has not both senders in a case that calls for it");
    };
    let (all, fewer) = (savings.len(), changed.iter().filter(|(saved, _)| *saved < 0.999).count());
    let holds = r15::as_share(fewer, changed.len()) <= 1.0 - r15::ALMOST_ALL && *least > 0.0;
    let judgement = if holds { Judgement::Holds } else { Judgement::Broken };
    let changed = changed.len();
    let seen = format!(
        "it changes {changed} of {all} cases and saves less in {fewer}; the least is {least:.2} round trips at {label}"
    );
    let mut evidence = Evidence::new();
    evidence.judged(judgement, seen);
    evidence.check(statement)
}
