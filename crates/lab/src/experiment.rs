//! The interface of an experiment: how to run a point, the published numbers, and the shape that the result must have.

use std::collections::BTreeSet;

use festina_units::ByteCount;

use crate::assumption::Assumption;
use crate::capture::Capture;
use crate::evidence::declared;
use crate::figure::{DelayDistribution, Figure};
use crate::memory;
use crate::plan::{Parameter, Plan, Point, Table, definition};
use crate::samples::Samples;
use crate::scoreboard::Entry;
use crate::summary::Results;

/// The most curves in the figure that an experiment gets if it draws none of its own.
const CURVES_MAX: usize = 6;

/// The texts of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The name on the command line: lower case, digits and hyphens.
    pub name: &'static str,
    /// One line that names the subject of the measurement.
    pub title: &'static str,
    /// Where the published numbers are from: authors, year, figure or table.
    pub reference: &'static str,
    /// The method, and the choices where the publication is silent: paragraphs of plain text, separated by empty lines.
    pub about: &'static str,
    /// The experiment's own plan, in TOML; it sets every parameter.
    pub plan: &'static str,
    /// The question of the experiment in one sentence, for the first line of a report; empty if [`about`](Self::about) says it.
    pub question: &'static str,
}

/// An experiment. To add one, implement this and list it in [`crate::experiments::ALL`].
pub trait Experiment: Sync {
    /// Its names, its method and its plan.
    fn description(&self) -> Description;

    /// The [name](Description::name) on the command line.
    fn name(&self) -> &'static str {
        self.description().name
    }

    /// Parameters that a plan can set.
    fn parameters(&self) -> Vec<Parameter> {
        definition::of(self.description().plan).parameters.clone()
    }

    /// The tables that a plan can have, any number of each kind; none, unless the experiment says otherwise.
    fn tables(&self) -> Vec<Table> {
        Vec::new()
    }

    /// Returns a conflict between the values of a point that are valid one by one; the plan is then refused.
    fn objection(&self, _point: &Point) -> Option<Objection> {
        None
    }

    /// Estimates the memory that one run of a point takes, from its parameters alone. Plans above [`MEMORY_MAX`](crate::memory::MEMORY_MAX) are
    /// refused. By default a record for each message that parameters such as `messages`, `duration` and `interval` imply.
    fn memory(&self, point: &Point) -> ByteCount {
        memory::of_parameters(point)
    }

    /// Where the values of the plan come from: stated in the publication, chosen, or fitted to a result.
    fn assumptions(&self) -> Vec<Assumption> {
        definition::of(self.description().plan).assumptions.clone()
    }

    /// Runs a point once. The same point and seed give the same samples, on whichever machine or thread.
    fn run(&self, point: &Point, seed: u64) -> Samples;

    /// The name under which finished runs are kept. Experiments of one name are views of the same runs: the same point and seed give the same samples in
    /// each.
    fn runs_as(&self) -> &'static str {
        self.name()
    }

    /// Whether runs of a point with different seeds differ. A point in which nothing is random is run once, however many
    /// repetitions the plan asks for.
    fn is_random(&self, _point: &Point) -> bool {
        true
    }

    /// Parameters that change nothing at this point, each with why. A plan that sets one of them is refused if that is so at all its points.
    fn idle(&self, _point: &Point) -> Vec<Objection> {
        Vec::new()
    }

    /// Runs a point once as [`run`](Self::run) does, and gives the packets that were on the links, for a capture file.
    /// `None` if there are none to show, which is so unless the experiment says otherwise.
    fn capture(&self, _point: &Point, _seed: u64) -> Option<Capture> {
        None
    }

    /// Published numbers and inequalities, each judged by our interval; none by default.
    fn scoreboard(&self, _results: &Results) -> Vec<Entry> {
        Vec::new()
    }

    /// Checks that no plan can declare; none by default.
    fn checks(&self, _results: &Results) -> Vec<Check> {
        Vec::new()
    }

    /// Whether the results have the shape that they must have, by the checks of the plan and of the experiment.
    fn all_checks(&self, results: &Results) -> Vec<Check> {
        let mut checks = declared::checks(results, &|point| self.is_random(point));
        checks.extend(self.checks(results));
        checks
    }

    /// Names of numbers whose means a terminal's table shows next to the delays of a point; none by default.
    fn beside_delays(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether the report on a terminal lists all other numbers of each point below the delays.
    fn lists_values(&self) -> bool {
        false
    }

    /// What `results` in the run's JSON holds, for readers that want the experiment's own words for its numbers; nothing, unless
    /// the experiment says otherwise.
    fn rows(&self, _results: &Results) -> Vec<serde_json::Value> {
        Vec::new()
    }

    /// The figures: unless the experiment draws its own, the distribution of the delays of each series, with a curve per
    /// point for the first six points.
    fn figures(&self, results: &Results) -> Vec<Figure> {
        let names: BTreeSet<&String> = results.points().iter().flat_map(|point| point.series().keys()).collect();
        names.into_iter().map(|name| distribution(results, name)).collect()
    }
}

/// The delays of one series, a curve for each of the first points.
fn distribution(results: &Results, series: &str) -> Figure {
    let plan = results.plan();
    let mut distribution = DelayDistribution::new(plan.title(), &plan.conditions());
    for point in results.points().iter().take(CURVES_MAX) {
        if let Some(summary) = point.series().get(series) {
            distribution.curve(&curve_name(plan, point.point()), summary.all());
        }
    }
    let mut figure = distribution.figure();
    figure.x.label = series.to_owned();
    figure.y.label = "share that takes longer".to_owned();
    figure
}

/// Name of a point among the others: its values alone if only one parameter is swept.
fn curve_name(plan: &Plan, point: &Point) -> String {
    let swept: Vec<&str> = plan.swept().collect();
    match swept.as_slice() {
        [name] => point.value(name).map(|value| value.to_string()).unwrap_or_default(),
        _ => plan.label(point),
    }
}

/// What makes no sense about a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// The parameter that it is about.
    pub parameter: String,
    /// The problem, and the expected value.
    pub problem: String,
}

/// A statement about the shape of the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The name by which the ledger finds it; empty if no paper says it.
    pub id: String,
    /// Under which reading of the paper it was judged; empty if there is one only.
    pub under: &'static str,
    /// The statement, as a sentence.
    pub statement: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Number of runs that would decide it, in words, if it is undecided or not tested and that can be estimated; empty otherwise.
    pub would_decide: String,
}

impl Check {
    /// Creates a check of something in which nothing is random: a recording, or whether all that was counted is there. Means and shares of runs are
    /// judged by their [`Evidence`](crate::evidence::Evidence).
    pub fn exact(statement: impl Into<String>, holds: bool, seen: impl Into<String>) -> Self {
        let seen = format!("{} (exact)", seen.into());
        Self::judged(statement, if holds { Verdict::Holds(seen) } else { Verdict::Broken(seen) })
    }

    /// Creates a check that is not tested, because this run lacks data, with the reason.
    pub fn skipped(statement: impl Into<String>, lacking: impl Into<String>) -> Self {
        Self::judged(statement, Verdict::Skipped(lacking.into()))
    }

    /// Creates a check with a known verdict: [`Evidence`](crate::evidence::Evidence) has the public way.
    pub(crate) fn judged(statement: impl Into<String>, verdict: Verdict) -> Self {
        Self { id: String::new(), under: "", statement: statement.into(), verdict, would_decide: String::new() }
    }

    /// Gives it the name by which the ledger finds it.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: id.into(), ..self }
    }

    /// Says under which reading of the paper it was judged.
    #[must_use]
    pub fn under(self, reading: &'static str) -> Self {
        Self { under: reading, statement: format!("{} ({reading})", self.statement), ..self }
    }
}

/// Whether a statement holds.
///
/// Chance is our own from run to run: a statement holds or is broken only if the whole 95% interval says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds; with the observation.
    Holds(String),
    /// It does not hold; with the observation.
    Broken(String),
    /// Chance explains either outcome; with the observation.
    Undecided(String),
    /// It is not tested: this run has no data for it, or the model cannot show it; why.
    Skipped(String),
}

impl Verdict {
    /// As reports have it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Holds(_) => "holds",
            Self::Broken(_) => "broken",
            Self::Undecided(_) => "undecided",
            Self::Skipped(_) => "not tested",
        }
    }

    /// Returns the observation.
    pub fn seen(&self) -> &str {
        match self {
            Self::Holds(seen) | Self::Broken(seen) | Self::Undecided(seen) | Self::Skipped(seen) => seen,
        }
    }
}
