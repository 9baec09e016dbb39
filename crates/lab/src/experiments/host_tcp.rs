//! `host-tcp`: the TCP model against the TCP of a Linux kernel behind the emulator.

mod recorded;
mod simulated;

use std::time::Duration;

use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scoreboard::Entry;
use crate::summary::{PointSummary, Repeated, Results};
use recorded::{Greedy, RECORDED, Script, jain};

const GOODPUT: &str = "goodput";
const JAIN: &str = "fairness";
const DROPPED: &str = "dropped";
const RESENT: &str = "retransmissions";

/// How far the goodput may lie from the kernel's, as a share of it.
const GOODPUT_TOLERANCE: f64 = 0.05;
/// How far Jain's index may lie from the kernel's.
const JAIN_TOLERANCE: f64 = 0.1;
/// How far a retransmission may lie outside of what the kernel's runs span: a tick of its clock ...
const RESENT_TOLERANCE_MS: f64 = 4.0;
/// ... and this share of the time.
const RESENT_TOLERANCE: f64 = 0.1;

/// Why the model's CUBIC drops more than the kernel's.
const HYSTART: &str = "the kernel's CUBIC leaves slow start when the round-trip time rises (HyStart), before the queue is \
                       full; the model's leaves it when packets are lost, which are then as many as fit into the queue";

/// The TCP model against a kernel's TCP.
#[derive(Clone, Copy, Debug)]
pub struct HostTcp;

impl Experiment for HostTcp {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/host-tcp.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let delay = Duration::from_millis(RECORDED.delay_ms);
        let mut samples = Samples::new();
        match scenario(point) {
            Scenario::Greedy(recorded) => {
                let run = simulated::greedy(recorded, delay, seed);
                samples.set(GOODPUT, run.goodput_mbit_s.iter().sum());
                samples.set(JAIN, jain(&run.goodput_mbit_s));
                samples.set(DROPPED, exact(run.dropped));
            }
            Scenario::Script(recorded) => {
                let resent = simulated::script(recorded, delay, seed);
                samples.set(RESENT, exact(resent.len() as u64));
                for (number, after) in (1..).zip(&resent) {
                    samples.set(&resent_name(number), after.as_secs_f64() * 1e3);
                }
            }
        }
        samples
    }

    /// The packets that scripts lose are given.
    fn is_random(&self, point: &Point) -> bool {
        matches!(scenario(point), Scenario::Greedy(_))
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        results.points().iter().flat_map(entries_at).collect()
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        vec![accuracy_check(), goodput_check(results), jain_check(results), resent_check(results)]
    }
}

/// One recorded scenario.
enum Scenario {
    Greedy(&'static Greedy),
    Script(&'static Script),
}

fn scenario(point: &Point) -> Scenario {
    let name = point.choice("scenario");
    let greedy = RECORDED.greedy.iter().find(|greedy| greedy.name() == name).map(Scenario::Greedy);
    let script = || RECORDED.script.iter().find(|script| script.name == name).map(Scenario::Script);
    greedy.or_else(script).expect("every scenario is recorded")
}

fn resent_name(number: usize) -> String {
    format!("retransmission {number} ms")
}

fn value(summary: &PointSummary, name: &str) -> Option<f64> {
    summary.values().get(name)?.mean()
}

fn entries_at(summary: &PointSummary) -> Vec<Entry> {
    let estimate = |name: &str| {
        let values = summary.values().get(name)?;
        if HostTcp.is_random(summary.point()) { Estimate::of(values) } else { values.mean().map(Estimate::exact) }
    };
    let scenario_name = summary.point().choice("scenario");
    let entry = |what: &str, unit, published, name: &str| {
        Entry::value(format!("{scenario_name}: {what}"), unit, published, estimate(name))
    };
    match scenario(summary.point()) {
        Scenario::Greedy(recorded) => {
            let mut entries = vec![entry("goodput", "Mbit/s", recorded.total_mbit_s(), GOODPUT)];
            if recorded.flows > 1 {
                entries.push(entry("Jain's index", "", recorded.jain(), JAIN));
            }
            let dropped = entry("packets dropped", "", recorded.dropped(), DROPPED);
            let has_hystart = recorded.congestion == "cubic" && dropped.word() == "missed";
            entries.push(if has_hystart { dropped.because(HYSTART) } else { dropped });
            entries
        }
        Scenario::Script(recorded) => (1..)
            .zip(&recorded.resent_ms)
            .map(|(number, [_, median, _])| {
                entry(&format!("retransmission {number}"), "ms", *median, &resent_name(number))
            })
            .collect(),
    }
}

/// Checks that the emulation behind the recording was accurate.
fn accuracy_check() -> Check {
    let [median_us, share_99_us, most_us] = RECORDED.accuracy.rtt_error_us;
    let late_us = RECORDED.accuracy.delivered_late_by_mean_us;
    Check::exact(
        format!(
            "The emulation behind which Linux {} was measured adds less than a millisecond to half of the round trips.",
            RECORDED.kernel
        ),
        median_us < 1_000,
        format!(
            "{median_us} µs at the median, {share_99_us} µs at 99%, {most_us} µs at most; packets left {late_us} µs late on average"
        ),
    )
}

/// Judges a number of the greedy flows that `is_meant` picks against the kernel's, each at its point.
fn greedy_check(
    results: &Results,
    statement: String,
    is_meant: impl Fn(&Greedy) -> bool,
    difference: impl Fn(&PointSummary, &Greedy) -> Option<Repeated>,
    tolerance: f64,
) -> Check {
    let mut evidence = Evidence::new();
    for summary in results.points() {
        let Scenario::Greedy(recorded) = scenario(summary.point()) else { continue };
        if is_meant(recorded) {
            let estimate = difference(summary, recorded).as_ref().and_then(Estimate::of);
            evidence.cell(format!("{}:", recorded.name()), estimate, Bound::Within(-tolerance, tolerance));
        }
    }
    evidence.check(statement)
}

fn goodput_check(results: &Results) -> Check {
    let statement = format!("The goodput of greedy flows is within {:.0}% of the kernel's.", GOODPUT_TOLERANCE * 100.0);
    let relative = |summary: &PointSummary, recorded: &Greedy| {
        let kernel = recorded.total_mbit_s();
        Some(summary.values().get(GOODPUT)?.map(|goodput| goodput / kernel - 1.0))
    };
    greedy_check(results, statement, |_| true, relative, GOODPUT_TOLERANCE)
}

fn jain_check(results: &Results) -> Check {
    let statement = format!("Jain's index of four flows is within {JAIN_TOLERANCE} of the kernel's.");
    let difference = |summary: &PointSummary, recorded: &Greedy| {
        let kernel = recorded.jain();
        Some(summary.values().get(JAIN)?.map(|index| index - kernel))
    };
    greedy_check(results, statement, |recorded| recorded.flows > 1, difference, JAIN_TOLERANCE)
}

fn resent_check(results: &Results) -> Check {
    let statement = format!(
        "There are as many retransmissions as the kernel sends, and each leaves within what the kernel's runs span, \
         give or take {RESENT_TOLERANCE_MS} ms and {:.0}%.",
        RESENT_TOLERANCE * 100.0
    );
    let mut evidence = Evidence::new();
    for summary in results.points() {
        if let Scenario::Script(recorded) = scenario(summary.point()) {
            judge_script(&mut evidence, summary, recorded);
        }
    }
    evidence.check(statement)
}

fn judge_script(evidence: &mut Evidence, summary: &PointSummary, recorded: &Script) {
    let found = |name: &str| value(summary, name).map(Estimate::exact);
    let count = exact(recorded.resent_ms.len() as u64);
    evidence.cell(format!("{}: retransmissions", recorded.name), found(RESENT), Bound::Within(count, count));
    for (number, [least, _, most]) in (1..).zip(&recorded.resent_ms) {
        let slack = |edge: f64| RESENT_TOLERANCE_MS + edge * RESENT_TOLERANCE;
        let span = Bound::Within(least - slack(*least), most + slack(*most));
        evidence.cell(format!("ms to number {number}:"), found(&resent_name(number)), span);
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of packets are small")]
fn exact(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Verdict;
    use crate::plan::{Kind, Plan, Scale};

    #[test]
    fn what_is_recorded_is_what_can_be_chosen() {
        let recorded = RECORDED.greedy.iter().map(Greedy::name);
        let recorded: Vec<String> = recorded.chain(RECORDED.script.iter().map(|script| script.name.clone())).collect();
        let parameters = HostTcp.parameters();
        let Kind::Choice(scenarios) = parameters[0].kind else { panic!("the scenario is chosen") };
        assert_eq!(recorded, scenarios);
    }

    /// What the quick plan measures, but for those that `is_wanted` refuses.
    fn results(is_wanted: impl Fn(&Point) -> bool) -> Results {
        let plan = Plan::own(&HostTcp, Scale::Quick);
        let points = plan.points().into_iter().filter(is_wanted).map(|point| {
            let runs = if HostTcp.is_random(&point) { plan.repetitions() } else { 1 };
            let mut summary = PointSummary::new(point.clone());
            (0..runs).for_each(|run| summary.add(&HostTcp.run(&point, plan.repetition_seed(run))));
            summary
        });
        let points = points.collect();
        Results::new(plan, points)
    }

    #[test]
    fn the_model_does_what_was_recorded() {
        let results = results(|_| true);
        for check in HostTcp.checks(&results) {
            assert!(matches!(check.verdict, Verdict::Holds(_)), "{check:?}");
        }
        let entries = HostTcp.scoreboard(&results);
        assert_eq!(entries.iter().filter(|entry| entry.measured.is_none()).count(), 0);
        let unexplained = entries.iter().find(|entry| entry.word() == "missed" && entry.why.is_none());
        assert_eq!(unexplained, None);
    }

    #[test]
    fn a_retransmission_at_another_time_and_one_too_few_break_the_check() {
        let results = results(|point| point.choice("scenario") == "two-in-ten");
        let summary = &results.points()[0];
        let Scenario::Script(recorded) = scenario(summary.point()) else { panic!("a script") };
        let word = |recorded: &Script| {
            let mut evidence = Evidence::new();
            judge_script(&mut evidence, summary, recorded);
            evidence.check("").verdict.word()
        };
        assert_eq!(word(recorded), "holds");
        let with = |resent_ms: Vec<[f64; 3]>| Script {
            name: String::new(),
            probes: true,
            writes: Vec::new(),
            lost: Vec::new(),
            resent_ms,
        };
        let [first, second] = recorded.resent_ms[..] else { panic!("two were lost") };
        assert_eq!(word(&with(vec![first])), "broken");
        assert_eq!(word(&with(vec![first, second.map(|ms| ms * 2.0)])), "broken");
    }

    #[test]
    fn what_a_plan_leaves_out_is_skipped() {
        let results = results(|point| point.choice("scenario") == "one-in-ten");
        let skipped = HostTcp.checks(&results).into_iter().filter(|check| matches!(check.verdict, Verdict::Skipped(_)));
        assert_eq!(skipped.count(), 2);
    }
}
