//! The numbers of a run as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use festina_units::duration::saturating_nanos;
use serde::{Deserialize, Serialize};

use super::Report;
use crate::count::as_f64;
use crate::evidence::Bound;
use crate::experiment::Check;
use crate::plan::Value;
use crate::scoreboard::{Entry, Published, Standing};
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

/// The data about one run for the page about all runs, read from its `summary.json`.
#[derive(Debug, Deserialize)]
pub(super) struct Overview {
    #[serde(flatten)]
    pub(super) header: Header,
    pub(super) comparisons: Vec<Compared>,
    pub(super) checks: Vec<Checked>,
}

/// Subject of a run, and its verdicts counted.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) experiment: String,
    pub(super) title: String,
    pub(super) reference: String,
    pub(super) scale: String,
    pub(super) checks_held: usize,
    pub(super) checks_broken: usize,
    #[serde(default)]
    pub(super) checks_undecided: usize,
    #[serde(default)]
    pub(super) checks_not_tested: usize,
    pub(super) published_met: usize,
    pub(super) published_missed: usize,
    #[serde(default)]
    pub(super) published_undecided: usize,
    #[serde(default)]
    pub(super) published_fitted: usize,
    #[serde(default)]
    pub(super) published_not_tested: usize,
}

#[derive(Debug, Serialize)]
struct Point {
    parameters: BTreeMap<&'static str, Setting>,
    series: BTreeMap<String, Series>,
    values: BTreeMap<String, Estimate>,
}

/// The value of a parameter. A kind of parameter has one unit, whichever its plan uses, so that programs need not convert.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Setting {
    Quantity { value: f64, unit: &'static str },
    Count(u64),
    Word(String),
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

/// A published number or inequality, and ours.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Compared {
    pub(super) what: String,
    pub(super) unit: String,
    /// The number; none for an inequality.
    pub(super) published: Option<f64>,
    /// Half the width of the interval that holds 95% of runs such as the published one, where one run was published.
    #[serde(default)]
    pub(super) published_half_width: Option<f64>,
    /// The lower bound of an inequality.
    #[serde(default)]
    pub(super) more_than: Option<f64>,
    /// The upper bound of an inequality.
    #[serde(default)]
    pub(super) less_than: Option<f64>,
    pub(super) measured: Option<f64>,
    #[serde(default)]
    pub(super) half_width_95: Option<f64>,
    #[serde(default)]
    pub(super) repetitions: usize,
    #[serde(default)]
    pub(super) z: Option<f64>,
    #[serde(default)]
    pub(super) deviation: Option<f64>,
    /// `met`, `missed`, `undecided`, `fitted` or `not tested`.
    #[serde(default)]
    pub(super) verdict: String,
    pub(super) why: Option<String>,
}

/// A check and its verdict: `holds`, `broken`, `undecided` or `not tested`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Checked {
    /// The name by which the ledger finds it; empty if no paper says it.
    #[serde(default)]
    pub(super) id: String,
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
            comparisons: report.scoreboard.iter().map(Compared::of).collect(),
            checks: report.checks.iter().map(Checked::of).collect(),
        }
    }
}

impl Header {
    pub(super) fn of(report: &Report<'_>) -> Self {
        let checks = |wanted: &str| report.checks.iter().filter(|check| check.verdict.word() == wanted).count();
        let published = |wanted: &str| report.scoreboard.iter().filter(|entry| entry.word() == wanted).count();
        Self {
            experiment: report.experiment.name().to_owned(),
            title: report.results.plan().title().to_owned(),
            reference: report.experiment.description().reference.to_owned(),
            scale: report.results.plan().scale().name().to_owned(),
            checks_held: checks("holds"),
            checks_broken: checks("broken"),
            checks_undecided: checks("undecided"),
            checks_not_tested: checks("not tested"),
            published_met: published("met"),
            published_missed: published("missed"),
            published_undecided: published("undecided"),
            published_fitted: published("fitted"),
            published_not_tested: published("not tested"),
        }
    }
}

impl Point {
    fn of(summary: &PointSummary) -> Self {
        let parameters = summary.point().values().iter();
        Self {
            parameters: parameters.map(|(name, value)| (*name, Setting::of(value))).collect(),
            series: summary.series().iter().map(|(name, series)| (name.clone(), Series::of(series))).collect(),
            values: summary.values().iter().map(|(name, value)| (name.clone(), Estimate::of(value, 1.0))).collect(),
        }
    }
}

impl Setting {
    fn of(value: &Value) -> Self {
        let quantity = |value, unit| Self::Quantity { value, unit };
        match value {
            Value::Duration(duration) => quantity(as_f64(saturating_nanos(*duration)) / 1e6, "ms"),
            Value::Bandwidth(rate) => quantity(as_f64(rate.bits_per_second()), "bit/s"),
            Value::Bytes(size) => quantity(as_f64(size.bytes()), "B"),
            Value::Probability(share) => quantity(f64::from(share.ppb()) / 1e7, "%"),
            Value::Count(count) => Self::Count(*count),
            Value::Choice(_) | Value::Recording(_) | Value::Trace(_) => Self::Word(value.to_string()),
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
    pub(super) fn of(entry: &Entry) -> Self {
        let [published, published_half_width, more_than, less_than] = match entry.published {
            Published::Value(value) => [Some(value), None, None, None],
            Published::OneRun(value, half_width) => [Some(value), Some(half_width), None, None],
            Published::Inequality(Bound::MoreThan(low)) => [None, None, Some(low), None],
            Published::Inequality(Bound::LessThan(high)) => [None, None, None, Some(high)],
            Published::Inequality(Bound::Within(low, high)) => [None, None, Some(low), Some(high)],
        }
        .map(|bound| bound.map(rounded));
        let reason = match &entry.standing {
            Standing::Scored => None,
            Standing::Fitted(how) => Some(format!("Shown, not scored: {how}.")),
            Standing::NotTested(why) => Some(format!("Not tested: {why}.")),
        };
        let why: Vec<&str> = reason.iter().chain(&entry.why).map(String::as_str).collect();
        Self {
            what: entry.what.clone(),
            unit: entry.unit.to_owned(),
            published,
            published_half_width,
            more_than,
            less_than,
            measured: entry.measured.map(|measured| rounded(measured.mean)),
            half_width_95: entry.measured.and_then(|measured| measured.half_width).map(rounded),
            repetitions: entry.measured.map_or(0, |measured| measured.repetitions),
            z: entry.z.map(rounded),
            deviation: entry.deviation().map(rounded),
            verdict: entry.word().to_owned(),
            why: (!why.is_empty()).then(|| why.join(" ")),
        }
    }

    /// The published inequality, if it is one.
    pub(super) fn inequality(&self) -> Option<Bound> {
        match (self.more_than, self.less_than) {
            (None, None) => None,
            (Some(low), None) => Some(Bound::MoreThan(low)),
            (None, Some(high)) => Some(Bound::LessThan(high)),
            (Some(low), Some(high)) => Some(Bound::Within(low, high)),
        }
    }
}

impl Checked {
    pub(super) fn of(check: &Check) -> Self {
        let Check { id, statement, verdict, .. } = check;
        let (id, statement) = (id.clone(), statement.clone());
        Self { id, statement, verdict: verdict.word().to_owned(), seen: verdict.seen().to_owned() }
    }
}

/// Ten significant digits: more than any result has, and few enough to hide how a machine rounds logarithms and powers.
fn rounded(value: f64) -> f64 {
    format!("{value:.9e}").parse().unwrap_or(value)
}

/// `p99.9` for 0.999.
pub(super) fn quantile_name(quantile: f64) -> String {
    // Rounded to the precision of the quantiles; otherwise 0.999 would give 99.9000000001.
    format!("p{}", (quantile * 1e5).round() / 1e3)
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
