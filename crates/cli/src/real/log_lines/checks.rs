//! Our own checks of log lines over real sockets.

use festina_lab::evidence::{Bound, Estimate, Evidence};
use festina_lab::experiment::Check;
use festina_lab::experiments::log_lines;
use festina_lab::summary::{PointSummary, Repeated, Results, SeriesSummary};

use super::super::{beside, lateness};
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

fn of<'a>(results: &'a Results, sender: &str) -> Vec<&'a PointSummary> {
    results.points().iter().filter(|summary| summary.point().choice("sender") == sender).collect()
}

fn important(summary: &PointSummary) -> Option<&SeriesSummary> {
    summary.series().get(log_lines::SERIES[1])
}

fn as_simulated(results: &Results, sender: &str) -> Option<Check> {
    let points = of(results, sender);
    let mut evidence = Evidence::new();
    for summary in &points {
        let pair = important(summary).zip(summary.series().get(&beside::simulated(log_lines::SERIES[1])));
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
    let points = of(results, RELAY);
    if points.is_empty() {
        return Vec::new();
    }
    let lost = points.iter().filter_map(|summary| summary.values().get(log_lines::LOST_COUNT));
    let lost: f64 = lost.flat_map(Repeated::values).sum();
    let arrival = Check::new(
        "Relay and collector bring every important line to the file, once.",
        lost == 0.0,
        format!("{lost} are missing"),
    );
    let mut evidence = Evidence::new();
    for summary in points {
        let other = results
            .points()
            .iter()
            .find(|other| other.point().choice("sender") == TCP_THIN && place(other) == place(summary));
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
