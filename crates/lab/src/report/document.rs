//! The numbers of a run as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Report;
use crate::experiment::{Check, Comparison, Verdict, deviation};
use crate::summary::{PointSummary, Repeated, SeriesSummary};

/// All that `summary.json` holds.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    #[serde(flatten)]
    header: Header,
    seed: u64,
    repetitions: u32,
    /// The numbers in the experiment's own words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    results: Vec<serde_json::Value>,
    points: Vec<Point>,
    comparisons: Vec<Compared>,
    checks: Vec<Checked>,
}

/// What the page about all runs needs to know about one, read from its `summary.json`.
#[derive(Debug, Deserialize)]
pub(super) struct Overview {
    #[serde(flatten)]
    pub(super) header: Header,
    pub(super) comparisons: Vec<Compared>,
    pub(super) checks: Vec<Checked>,
}

/// What a run is about, and its verdicts counted.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) experiment: String,
    pub(super) title: String,
    pub(super) reference: String,
    pub(super) scale: String,
    pub(super) checks_held: usize,
    pub(super) checks_broken: usize,
    pub(super) checks_skipped: usize,
    pub(super) published_met: usize,
    pub(super) published_missed: usize,
}

#[derive(Debug, Serialize)]
struct Point {
    parameters: BTreeMap<&'static str, String>,
    series: BTreeMap<String, Series>,
    values: BTreeMap<String, Estimate>,
}

#[derive(Debug, Serialize)]
struct Series {
    count: u64,
    mean_ms: Estimate,
    min_ms: Option<f64>,
    max_ms: Option<f64>,
    /// By name such as `p99.9`: of all repetitions together.
    quantiles_ms: BTreeMap<String, Option<f64>>,
}

/// A mean over repetitions and half the width of its 95% confidence interval.
#[derive(Debug, Serialize)]
struct Estimate {
    mean: Option<f64>,
    half_width_95: Option<f64>,
}

/// A published number beside ours.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Compared {
    pub(super) what: String,
    pub(super) unit: String,
    pub(super) published: f64,
    pub(super) measured: Option<f64>,
    pub(super) missed: Option<bool>,
    pub(super) why: Option<String>,
}

/// A check and its verdict: `holds`, `broken` or `skipped`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Checked {
    pub(super) statement: String,
    pub(super) verdict: String,
    pub(super) seen: String,
}

impl Document {
    pub(super) fn of(report: &Report<'_>) -> Self {
        let plan = report.results.plan();
        Self {
            header: Header::of(report),
            seed: plan.seed(),
            repetitions: plan.repetitions(),
            results: report.experiment.rows(&report.results),
            points: report.results.points().iter().map(Point::of).collect(),
            comparisons: report.comparisons.iter().map(Compared::of).collect(),
            checks: report.checks.iter().map(Checked::of).collect(),
        }
    }
}

impl Header {
    pub(super) fn of(report: &Report<'_>) -> Self {
        let checks = |wanted: &str| report.checks.iter().filter(|check| verdict(check).0 == wanted).count();
        let missed = |wanted| report.comparisons.iter().filter(|number| number.is_missed() == Some(wanted)).count();
        Self {
            experiment: report.experiment.name().to_owned(),
            title: report.results.plan().title().to_owned(),
            reference: report.experiment.reference().to_owned(),
            scale: report.results.plan().scale().name().to_owned(),
            checks_held: checks("holds"),
            checks_broken: checks("broken"),
            checks_skipped: checks("skipped"),
            published_met: missed(false),
            published_missed: missed(true),
        }
    }
}

impl Point {
    fn of(summary: &PointSummary) -> Self {
        let parameters = summary.point().values().iter();
        Self {
            parameters: parameters.map(|(name, value)| (*name, value.to_string())).collect(),
            series: summary.series().iter().map(|(name, series)| (name.clone(), Series::of(series))).collect(),
            values: summary.values().iter().map(|(name, value)| (name.clone(), Estimate::of(value, 1.0))).collect(),
        }
    }
}

impl Series {
    fn of(series: &SeriesSummary) -> Self {
        let all = series.all();
        let quantiles = series.quantiles();
        Self {
            count: all.count(),
            mean_ms: Estimate::of(series.mean_s(), 1_000.0),
            min_ms: all.min().map(milliseconds).map(rounded),
            max_ms: all.max().map(milliseconds).map(rounded),
            quantiles_ms: quantiles
                .map(|(q, delay, _)| (quantile_name(q), delay.map(milliseconds).map(rounded)))
                .collect(),
        }
    }
}

impl Estimate {
    fn of(repeated: &Repeated, factor: f64) -> Self {
        let scaled = |value: Option<f64>| value.map(|value| rounded(value * factor));
        Self { mean: scaled(repeated.mean()), half_width_95: scaled(repeated.half_width_95()) }
    }
}

impl Compared {
    pub(super) fn of(comparison: &Comparison) -> Self {
        Self {
            what: comparison.what.clone(),
            unit: comparison.unit.to_owned(),
            published: rounded(comparison.published),
            measured: comparison.measured.map(rounded),
            missed: comparison.is_missed(),
            why: comparison.why.clone(),
        }
    }
}

impl Compared {
    /// Ours over the published number, less one.
    pub(super) fn deviation(&self) -> Option<f64> {
        deviation(self.published, self.measured)
    }
}

impl Checked {
    pub(super) fn of(check: &Check) -> Self {
        let (verdict, seen) = verdict(check);
        Self { statement: check.statement.clone(), verdict: verdict.to_owned(), seen: seen.to_owned() }
    }
}

/// The verdict in one word, and what it rests on.
pub(super) fn verdict(check: &Check) -> (&'static str, &str) {
    match &check.verdict {
        Verdict::Holds(seen) => ("holds", seen),
        Verdict::Broken(seen) => ("broken", seen),
        Verdict::Skipped(lacking) => ("skipped", lacking),
    }
}

/// Ten significant digits: more than any result has, and few enough to hide how a machine rounds logarithms and powers.
fn rounded(value: f64) -> f64 {
    format!("{value:.9e}").parse().unwrap_or(value)
}

/// `p99.9` for 0.999.
pub(super) fn quantile_name(quantile: f64) -> String {
    // Rounded to what the quantiles have, else 0.999 would be 99.9000000001.
    format!("p{}", (quantile * 1e5).round() / 1e3)
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
