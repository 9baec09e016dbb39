//! Our own checks of log lines over real sockets.

use festina_lab::evidence::{Bound, Estimate, Evidence};
use festina_lab::experiment::Check;
use festina_lab::experiments::log_lines;
use festina_lab::summary::{PointSummary, Repeated, Results, SeriesSummary};

use super::super::{comparison, lateness};
use super::{FESTINA, RELAY, TCP_THIN, UDP, place};

/// How far a measured mean delay may lie from the simulated one, as a share of it.
const MEAN_MARGIN: f64 = 0.1;
/// Senders that the simulator has as they are measured here.
const SIMULATED: [&str; 3] = [UDP, TCP_THIN, FESTINA];

pub(super) fn own(results: &Results) -> Vec<Check> {
    let mut checks: Vec<Check> = SIMULATED.iter().filter_map(|sender| as_simulated(results, sender)).collect();
    checks.extend(relay(results));
    checks
}

fn important(summary: &PointSummary) -> Option<&SeriesSummary> {
    summary.series().get(log_lines::SERIES[1])
}

fn as_simulated(results: &Results, sender: &str) -> Option<Check> {
    let points: Vec<_> = results.matching(&[("sender", sender)]).collect();
    let mut evidence = Evidence::new();
    for summary in &points {
        let pair = important(summary).zip(summary.series().get(&comparison::simulated(log_lines::SERIES[1])));
        let ratio = pair.and_then(|(measured, simulated)| Estimate::ratio(measured.mean_s(), simulated.mean_s()));
        let what = format!("measured over simulated, {}:", place(summary));
        lateness::judge(&mut evidence, &[*summary], what, ratio, Bound::about(1.0, MEAN_MARGIN));
    }
    let statement =
        format!("{sender}: the mean delay of important lines is the simulated one within {:.0}%.", MEAN_MARGIN * 100.0);
    (!points.is_empty()).then(|| evidence.check(statement))
}

/// What relay and collector demand of themselves.
fn relay(results: &Results) -> Vec<Check> {
    let points: Vec<_> = results.matching(&[("sender", RELAY)]).collect();
    if points.is_empty() {
        return Vec::new();
    }
    let lost = points.iter().filter_map(|summary| summary.values().get(log_lines::LOST_COUNT));
    let lost: f64 = lost.flat_map(Repeated::values).sum();
    let arrival = Check::exact(
        "Relay and collector bring every important line to the file, once.",
        lost == 0.0,
        format!("{lost} are missing"),
    );
    let mut evidence = Evidence::new();
    for summary in points {
        let other = results
            .points()
            .iter()
            .find(|other| other.point().choice("sender") == TCP_THIN && comparison::are_alike(other, summary));
        let p99 = |summary: &PointSummary| important(summary)?.quantile_s(0.99).cloned();
        let pair = other.and_then(|other| Some((p99(summary)?, p99(other)?)));
        let ratio = pair.and_then(|(ours, theirs)| Estimate::ratio(&ours, &theirs));
        let rests_on: Vec<&PointSummary> = other.into_iter().chain([summary]).collect();
        lateness::judge(&mut evidence, &rests_on, format!("{}:", place(summary)), ratio, Bound::LessThan(1.0));
    }
    let statement = format!(
        "Important lines are in the collector's file sooner, at the 99th percentile, than {TCP_THIN} brings them to the receiver."
    );
    vec![arrival, evidence.check(statement)]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use festina_lab::experiment::Verdict;
    use festina_lab::scenario::LineFate;

    use super::super::LogLines;
    use super::*;
    use crate::real::judged::checks_of;
    use crate::real::lateness::P99_MS;

    /// The checks if every line takes as many ms as its sender's name has letters, `more_ms` more in the simulation, and the emulator was so late.
    fn verdicts(test: &str, lateness: f64, more_ms: u64, is_lost: bool) -> Vec<Check> {
        let plan = "experiment = \"r15-syslog-loss\"\nrepetitions = 3\n[parameters]\nsender = [\"tcp\", \"tcp-thin\", \"festina-syslog\"]\n";
        checks_of(&format!("lines-{test}"), &LogLines::LOSS, plan, |point, seed| {
            let letters = point.choice("sender").len() as u64;
            let lines = |more_ms: u64, is_lost: bool| {
                let delay = Duration::from_micros((letters + more_ms) * 1_000 + seed % 10);
                let fate = |(is_important, is_lost): (bool, bool)| LineFate {
                    is_important,
                    delay: (!is_lost).then_some(delay),
                };
                log_lines::samples(&[(true, false), (false, false), (true, is_lost)].map(fate))
            };
            let (mut samples, simulation) = (lines(0, is_lost), lines(more_ms, false));
            comparison::add(&mut samples, &simulation, &log_lines::SERIES, &log_lines::LOST);
            samples.set(P99_MS, lateness);
            samples
        })
    }

    fn word(checks: &[Check], start: &str) -> &'static str {
        let check = checks.iter().find(|check| check.statement.starts_with(start));
        check.unwrap_or_else(|| panic!("{start}: {checks:?}")).verdict.word()
    }

    #[test]
    fn the_simulated_experiment_and_our_own_statements_are_judged_by_measured_lines() {
        let checks = verdicts("good", 0.5, 0, false);
        let word = |start: &str| word(&checks, start);
        assert_eq!(word("tcp-thin: the mean delay"), "holds");
        assert_eq!(word("Relay and collector bring"), "holds");
        assert_eq!(word("Important lines are in the collector's file sooner"), "broken", "14 ms against 8");
        assert_eq!(word("PR-SCTP's average delay is shorter than TCP's"), "not tested");
    }

    #[test]
    fn lines_that_are_missing_or_sooner_than_simulated_break_what_is_said_of_them() {
        let checks = verdicts("other", 0.1, 2, true);
        assert_eq!(word(&checks, "tcp-thin: the mean delay"), "broken", "8 ms against 10");
        assert_eq!(word(&checks, "Relay and collector bring"), "broken");
    }

    #[test]
    fn a_late_emulator_leaves_only_arrivals_decided() {
        let decided = |checks: Vec<Check>| {
            let is_decided = |check: &Check| matches!(check.verdict, Verdict::Holds(_) | Verdict::Broken(_));
            checks.into_iter().filter(is_decided).map(|check| check.statement).collect::<Vec<_>>()
        };
        assert!(decided(verdicts("in-time", 0.5, 0, false)).len() > 2);
        let left = decided(verdicts("late", 0.51, 0, false));
        assert_eq!(left, ["Relay and collector bring every important line to the file, once."]);
    }
}
