//! Checks of thin streams over real sockets.

use festina_lab::evidence::{Bound, Estimate, Evidence};
use festina_lab::experiment::Check;
use festina_lab::summary::{PointSummary, Repeated, Results, SeriesSummary};

use super::super::{comparison, lateness};
use super::{DELIVERY, MISSING, SENDERS, UNEXPECTED, place};

/// How far a measured mean and a measured 99th percentile may lie from the simulated ones, as shares of these.
const MEAN_MARGIN: f64 = 0.05;
const P99_MARGIN: f64 = 0.1;
/// Festina's 99th percentile over that of the kernel's TCP, at most: a goal of ours.
const GOAL: f64 = 0.75;

const FESTINAS: [&str; 2] = ["festina", "festina-encrypted"];

pub(super) fn checks(results: &Results) -> Vec<Check> {
    let mut checks = vec![arrival(results)];
    checks.extend(SENDERS.iter().filter_map(|sender| as_simulated(results, sender)));
    checks.extend(FESTINAS.iter().filter_map(|festina| sooner(results, festina)));
    checks
}

/// Whether a message arrived does not depend on the emulator's lateness.
fn arrival(results: &Results) -> Check {
    let total = |name: &str| -> f64 {
        let values = results.points().iter().filter_map(|summary| summary.values().get(name));
        values.flat_map(Repeated::values).sum()
    };
    let [missing, unexpected] = [MISSING, UNEXPECTED].map(total);
    Check::exact(
        "Every message arrives once.",
        missing == 0.0 && unexpected == 0.0,
        format!("{missing} are missing, {unexpected} came twice"),
    )
}

fn as_simulated(results: &Results, sender: &str) -> Option<Check> {
    let points: Vec<_> = results.matching(&[("sender", sender)]).collect();
    let mut evidence = Evidence::new();
    for summary in &points {
        let series = |name: &str| summary.series().get(name);
        let pair = || series(DELIVERY).zip(series(&comparison::simulated(DELIVERY)));
        let mean = pair().map(|(measured, simulated)| (measured.mean_s(), simulated.mean_s()));
        let p99 = pair().and_then(|(measured, simulated)| p99(measured).zip(p99(simulated)));
        for (what, pair, margin) in [("mean", mean, MEAN_MARGIN), ("p99", p99, P99_MARGIN)] {
            let ratio = pair.and_then(|(measured, simulated)| Estimate::ratio(measured, simulated));
            let what = format!("{what}, measured over simulated, {}:", place(summary));
            lateness::judge(&mut evidence, &[*summary], what, ratio, Bound::about(1.0, margin));
        }
    }
    let statement = format!(
        "{sender}: the mean delay is the simulated one within {:.0}%, and the 99th percentile within {:.0}%.",
        MEAN_MARGIN * 100.0,
        P99_MARGIN * 100.0
    );
    (!points.is_empty()).then(|| evidence.check(statement))
}

fn p99(series: &SeriesSummary) -> Option<&Repeated> {
    series.quantile_s(0.99)
}

fn sooner(results: &Results, festina: &str) -> Option<Check> {
    let ours: Vec<_> = results.matching(&[("sender", festina)]).collect();
    let mut evidence = Evidence::new();
    for summary in &ours {
        let others = results.points().iter().filter(|other| comparison::are_alike(other, summary));
        for other in others.filter(|other| other.point().choice("sender").starts_with("tcp")) {
            let at = |summary: &&'_ PointSummary| summary.series().get(DELIVERY).and_then(p99).cloned();
            let ratio = at(summary).zip(at(&other)).and_then(|(ours, theirs)| Estimate::ratio(&ours, &theirs));
            let what = format!("over {}, {}:", other.point().choice("sender"), place(summary));
            lateness::judge(&mut evidence, &[*summary, other], what, ratio, Bound::LessThan(GOAL));
        }
    }
    let statement = format!(
        "{festina}: the 99th percentile is at most {GOAL} of that of the kernel's TCP with each of its settings."
    );
    (!ours.is_empty()).then(|| evidence.check(statement))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use festina_lab::samples::Samples;
    use festina_models::statistics::DelayStatistics;

    use super::super::ThinLatency;
    use super::*;
    use crate::real::judged::{checks_of, words};
    use crate::real::lateness::P99_MS;

    /// A hundred delays, two of them late, with a little chance from run to run.
    fn delays(late_ms: f64, seed: u64) -> DelayStatistics {
        let mut delays = DelayStatistics::new();
        let chance = 1.0 + (seed % 100) as f64 / 10_000.0;
        for delay_ms in [50.0; 98].into_iter().chain([late_ms; 2]) {
            delays.record(Duration::from_secs_f64(delay_ms * chance / 1e3));
        }
        delays
    }

    /// The verdicts if both senders have these late delays measured and simulated, messages missing and lateness of the emulator.
    fn verdicts(test: &str, [tcp, festina]: [[f64; 2]; 2], missing: f64, lateness: f64) -> Vec<&'static str> {
        let plan = "experiment = \"thin-latency\"\nrepetitions = 3\n[parameters]\nsender = [\"tcp\", \"festina\"]\n";
        let checks = checks_of(&format!("thin-{test}"), &ThinLatency, plan, |point, seed| {
            let [measured, simulated] = if point.choice("sender") == "tcp" { tcp } else { festina };
            let mut samples = Samples::new();
            samples.set_tally(DELIVERY, delays(measured, seed));
            samples.set_tally(&comparison::simulated(DELIVERY), delays(simulated, seed));
            samples.set(MISSING, missing);
            samples.set(UNEXPECTED, 0.0);
            samples.set(P99_MS, lateness);
            samples
        });
        words(&checks)
    }

    #[test]
    fn arrival_agreement_and_advantage_are_judged_each_by_its_own_numbers() {
        let good = [[650.0, 640.0], [155.0, 150.0]];
        assert_eq!(verdicts("good", good, 0.0, 0.1), ["holds"; 4]);
        assert_eq!(verdicts("missing", good, 1.0, 0.1), ["broken", "holds", "holds", "holds"]);
        let other = [[650.0, 640.0], [250.0, 150.0]];
        assert_eq!(verdicts("other", other, 0.0, 0.1), ["holds", "holds", "broken", "holds"]);
        let slow = [[650.0, 640.0], [600.0, 590.0]];
        assert_eq!(verdicts("slow", slow, 0.0, 0.1), ["holds", "holds", "holds", "broken"]);
    }

    #[test]
    fn nothing_about_delays_is_decided_if_the_emulator_was_late() {
        let good = [[650.0, 640.0], [155.0, 150.0]];
        assert_eq!(verdicts("late", good, 0.0, 0.51), ["holds", "undecided", "undecided", "undecided"]);
    }
}
