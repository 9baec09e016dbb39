//! Plans: the points that an experiment runs, and how often.
//!
//! ```toml
//! experiment = "md1"
//! title = "A busy link"           # may be left out, like everything below
//! seed = 1
//! repetitions = 10
//! one_at_a_time = ["rate", "load"] # while one departs from the first value of its list, the other keeps its first;
//!                                 # ["rate", ["load", "packets"]]: those of an inner list may depart together
//!
//! [parameters]
//! rate = "10Mbit/s"               # quantities stand in quotes with their unit
//! load = ["50%", "90%"]           # a list sweeps
//! packets = 50_000
//!
//! [more]                          # these points are run more often, but not at quick scale
//! repetitions = 50
//! parameters.load = "90%"
//!
//! [quick]                         # differences at quick scale
//! repetitions = 3
//! parameters.packets = 1_000
//! ```
//!
//! Some experiments have tables: any number of each kind, each with a name of its own. Their settings are parameters like any other, called
//! `flows.thin.size` for example:
//!
//! ```toml
//! [flows.thin]
//! size = ["100B", "200B"]
//! ```
//!
//! A plan can have checks of its own: see `plan/check.rs`.
//!
//! Omitted settings come from the experiment's own plan; a plan with tables uses only these. An invalid plan is refused with the place and the
//! expected value.

mod check;
pub mod definition;
mod error;
mod expression;
mod link_trace;
mod more;
mod parameter;
mod point;
mod raw;
mod recording;
mod sense;
mod shared;
mod tables;

pub use check::{DeclaredCell, DeclaredCheck};
pub use error::{PlanError, is_printable};
pub use expression::{Expression, Measured, Operation, Statistic, constant};
pub use link_trace::LinkTrace;
pub use more::More;
pub use parameter::{Kind, Parameter, Value};
pub use point::Point;
pub use recording::Recording;
pub use tables::{Key, NAME_CHARS_MAX, TABLES_MAX, Table};

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use festina_netsim::RandomStream;
use toml::Spanned;

use crate::experiment::Experiment;
use error::Source;
use raw::{RawPlan, Setting, Settings};
use tables::flattened;

/// The most points of one plan.
pub const POINTS_MAX: usize = 100_000;
/// The most runs of one plan: points times repetitions.
pub const RUNS_MAX: usize = 1_000_000;
/// The most repetitions of each point.
pub const REPETITIONS_MAX: u32 = 10_000;

/// The scale of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// As in the paper.
    Full,
    /// As little as shows the shape within seconds.
    Quick,
}

impl Scale {
    /// `full` or `quick`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Quick => "quick",
        }
    }
}

/// A plan that makes sense, at one scale.
#[derive(Clone, Debug)]
pub struct Plan {
    title: String,
    scale: Scale,
    seed: u64,
    repetitions: u32,
    /// Points that are run more often.
    more: Option<More>,
    sweep: Vec<(&'static str, Vec<Value>)>,
    one_at_a_time: Vec<Vec<&'static str>>,
    /// Keys of tables that no plan sets.
    defaults: BTreeSet<&'static str>,
    parameters: Vec<Parameter>,
    checks: Vec<DeclaredCheck>,
}

impl Plan {
    /// The experiment's own plan.
    ///
    /// # Panics
    /// If that plan makes no sense, which is a bug of the experiment that its tests find.
    pub fn own(experiment: &dyn Experiment, scale: Scale) -> Self {
        PlanFile::own(experiment)
            .and_then(|file| file.plan(experiment, scale))
            .unwrap_or_else(|error| panic!("the plan of an experiment makes sense: {error}"))
    }

    /// One line that names the subject of this run.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns the scale.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// The seed from which all repetitions derive theirs.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Default number of runs of each point.
    pub fn repetitions(&self) -> u32 {
        self.repetitions
    }

    /// Number of runs of this point.
    pub fn repetitions_of(&self, point: &Point) -> u32 {
        self.more.as_ref().filter(|more| more.holds(point)).map_or(self.repetitions, |more| more.repetitions)
    }

    /// Points that are run more often, if there are any.
    pub fn more(&self) -> Option<&More> {
        self.more.as_ref()
    }

    /// Sets the number of runs of every point, at least once, at most [`REPETITIONS_MAX`] times, and so that there are at most [`RUNS_MAX`] runs.
    /// Returns the resulting number.
    pub fn set_repetitions(&mut self, repetitions: u32) -> u32 {
        let most = RUNS_MAX / self.points().len().max(1);
        let most = u32::try_from(most).unwrap_or(u32::MAX).clamp(1, REPETITIONS_MAX);
        self.repetitions = repetitions.clamp(1, most);
        self.more = None;
        self.repetitions
    }

    /// Each parameter, in the order in which the experiment declares them, and its values: more than one if it is swept.
    pub fn sweep(&self) -> &[(&'static str, Vec<Value>)] {
        &self.sweep
    }

    /// The same without the keys of tables that no plan sets.
    pub fn told(&self) -> impl Iterator<Item = &(&'static str, Vec<Value>)> {
        self.sweep.iter().filter(|(name, _)| !self.defaults.contains(name))
    }

    /// The names of the parameters that are swept.
    pub fn swept(&self) -> impl Iterator<Item = &'static str> {
        self.sweep.iter().filter(|(_, values)| values.len() > 1).map(|(name, _)| *name)
    }

    /// What each parameter means and can be.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The checks that the plan and the experiment's own plan declare.
    pub fn checks(&self) -> &[DeclaredCheck] {
        &self.checks
    }

    /// Groups of parameters: those that depart from the first values of their lists are all of one group. Most groups have one
    /// parameter.
    pub fn one_at_a_time(&self) -> &[Vec<&'static str>] {
        &self.one_at_a_time
    }

    /// Every combination of the swept values, but of the parameters that are swept one at a time only those in which at most
    /// one, or some of one group, depart from the first values of their lists; the parameter declared last varies fastest.
    pub fn points(&self) -> Vec<Point> {
        let mut combinations: Vec<Vec<(&'static str, Value)>> = vec![Vec::new()];
        for (index, (name, values)) in self.sweep.iter().enumerate() {
            combinations = combinations
                .into_iter()
                .flat_map(|combination| {
                    values.iter().map(move |value| [combination.as_slice(), &[(*name, *value)]].concat())
                })
                .filter(|combination| self.departs_alone(combination, &self.sweep[..=index]))
                .collect();
        }
        combinations.into_iter().map(Point::new).collect()
    }

    /// Whether one group has all the parameters that depart, of those that are swept one at a time.
    fn departs_alone(&self, combination: &[(&'static str, Value)], sweep: &[(&'static str, Vec<Value>)]) -> bool {
        let alone = |name: &&str| self.one_at_a_time.iter().flatten().any(|other| other == name);
        let departing = combination.iter().zip(sweep).filter(|((_, value), (_, values))| values.first() != Some(value));
        let departing: Vec<&str> = departing.map(|((name, _), _)| *name).filter(alone).collect();
        departing.is_empty() || self.one_at_a_time.iter().any(|group| departing.iter().all(|name| group.contains(name)))
    }

    /// Label of a point among the others of this plan: its swept values, as in `load 50%`.
    pub fn label(&self, point: &Point) -> String {
        let swept: Vec<String> =
            self.swept().filter_map(|name| point.value(name).map(|value| format!("{name} {value}"))).collect();
        if swept.is_empty() { "the only point".to_owned() } else { swept.join(", ") }
    }

    /// What holds for all points, as in `rtt 100ms, 10 runs of each point, full scale, seed 1`.
    pub fn conditions(&self) -> String {
        let mut text = String::new();
        for (name, values) in self.told() {
            if let [value] = values.as_slice() {
                text += &format!("{name} {value}, ");
            }
        }
        let runs = if self.repetitions == 1 { "1 run".to_owned() } else { format!("{} runs", self.repetitions) };
        let more = self.more.as_ref().map_or(String::new(), |more| format!(" ({more})"));
        text + &format!("{runs} of each point{more}, {} scale, seed {}", self.scale.name(), self.seed)
    }

    /// The seed of a repetition. It is the same at every point, so that points are compared under the same random
    /// numbers; different repetitions are independent.
    pub fn repetition_seed(&self, repetition: u32) -> u64 {
        RandomStream::new(self.seed, &format!("repetition {repetition}")).bits()
    }
}

/// A plan as it was read, before it is known whether its values make sense.
#[derive(Clone, Debug)]
pub struct PlanFile {
    source: Source,
    raw: RawPlan,
}

impl PlanFile {
    /// Reads the `text` of `file`; the name is for messages only.
    ///
    /// # Errors
    /// If the text is no TOML, has an unknown key outside of the parameters, or lacks `experiment`.
    pub fn parse(file: &str, text: &str) -> Result<Self, PlanError> {
        let source = Source { file: file.to_owned(), text: text.to_owned() };
        match toml::from_str::<RawPlan>(text) {
            Ok(raw) => Ok(Self { source, raw }),
            Err(error) => {
                let problem =
                    error.message().replace("unknown field", "unknown key").replace("missing field", "missing key");
                let problem = problem.replace('\n', "; ");
                Err(source.error(&error.span().unwrap_or(0..0), problem))
            }
        }
    }

    /// The experiment that the plan names, out of `experiments`.
    ///
    /// # Errors
    /// If none of them has that name.
    pub fn experiment<'e>(&self, experiments: &[&'e dyn Experiment]) -> Result<&'e dyn Experiment, PlanError> {
        let name = self.raw.experiment.get_ref();
        experiments.iter().copied().find(|experiment| experiment.name() == name).ok_or_else(|| {
            let known: Vec<&str> = experiments.iter().map(|experiment| experiment.name()).collect();
            let problem = format!("unknown experiment \"{name}\"; expected one of {}", known.join(", "));
            self.source.error(&self.raw.experiment.span(), problem)
        })
    }

    /// Returns the plan for `experiment` at `scale`. Omitted settings come from the experiment's own plan. At quick scale, this file's settings take
    /// precedence over the quick part of the experiment's own plan.
    ///
    /// # Errors
    /// If a parameter is unknown or its value is invalid, at either scale.
    pub fn plan(&self, experiment: &dyn Experiment, scale: Scale) -> Result<Plan, PlanError> {
        let own = Self::own(experiment)?;
        let tables = tables::parameters(experiment, (&self.source, &self.raw), (&own.source, &own.raw))?;
        let mut parameters = experiment.parameters();
        parameters.extend(tables.iter().map(|table| table.parameter.clone()));
        let mut defaults: BTreeSet<&str> = tables.iter().map(|table| table.parameter.name).collect();
        let mut values: BTreeMap<_, _> =
            tables.iter().map(|table| (table.parameter.name, vec![table.default])).collect();
        let mut numbers = Numbers { seed: 1, repetitions: 1 };
        for (file, tables_count) in [(&own, !self.raw.has_tables()), (self, true)] {
            let set = file.overlay(&parameters, scale, tables_count, &mut numbers)?;
            defaults.retain(|name| !set.iter().any(|(is_set, _)| is_set == name));
            values.extend(set);
        }
        let mut sweep = Vec::new();
        for parameter in &parameters {
            let values = values.remove(parameter.name).ok_or_else(|| {
                own.source.error(&own.raw.experiment.span(), format!("missing parameter \"{}\"", parameter.name))
            })?;
            sweep.push((parameter.name, values));
        }
        let full_sweep = (scale == Scale::Full).then_some(sweep.as_slice());
        let more = match self.raw.sets_repetitions() {
            true => self.more(&parameters, numbers.repetitions, full_sweep)?,
            false => {
                let wish = own.more(&parameters, numbers.repetitions, None).unwrap_or_default();
                wish.and_then(|wish| wish.within(&sweep))
            }
        };
        let more = more.filter(|_| scale == Scale::Full);
        self.check_size(&sweep, more.as_ref().map_or(numbers.repetitions, |more| more.repetitions))?;
        let alone = if self.raw.one_at_a_time.is_some() { self } else { &own }.one_at_a_time(&parameters)?;
        let title = self.title()?.or(own.raw.title.clone().map(Spanned::into_inner));
        let title = title.unwrap_or_else(|| experiment.description().title.to_owned());
        let checks = self.checks(&own, &parameters, &sweep)?;
        let (seed, repetitions) = (numbers.seed, numbers.repetitions);
        let one_at_a_time = alone;
        let plan = Plan { title, scale, seed, repetitions, more, sweep, one_at_a_time, defaults, parameters, checks };
        self.check_sense(experiment, &plan)?;
        Ok(plan)
    }

    /// The checks of the experiment's own plan, unless this one has tables of its own, and those of this file.
    fn checks(
        &self,
        own: &Self,
        parameters: &[Parameter],
        sweep: &[(&'static str, Vec<Value>)],
    ) -> Result<Vec<DeclaredCheck>, PlanError> {
        let is_own = self.source.text == own.source.text;
        if let Some(definition) = self.raw.definition.as_ref().filter(|_| !is_own) {
            let problem = "only the plan of an experiment has a [definition]; [parameters] sets values";
            return Err(self.source.error(&definition.span(), problem));
        }
        let of = |file: &Self| {
            let scope = check::Scope { source: &file.source, parameters, sweep };
            check::checks(&scope, &file.raw)
        };
        let mut checks = if is_own || self.raw.has_tables() { Vec::new() } else { of(own)? };
        checks.extend(of(self)?);
        Ok(checks)
    }

    fn own(experiment: &dyn Experiment) -> Result<Self, PlanError> {
        Self::parse(&format!("{}.toml", experiment.name()), experiment.description().plan)
    }

    /// Applies this file's `parameters`, in tables only if they count. The quick part is checked at full scale too, so that mistakes there are found
    /// early.
    fn overlay(
        &self,
        parameters: &[Parameter],
        scale: Scale,
        tables_count: bool,
        numbers: &mut Numbers,
    ) -> Result<Vec<(&'static str, Vec<Value>)>, PlanError> {
        let quick = &self.raw.quick;
        if let Some(seed) = &self.raw.seed {
            // TOML's integers end there.
            numbers.seed = self.number(seed, "seed", 0..i64::MAX.unsigned_abs())?;
        }
        let repetitions = self.repetitions(self.raw.repetitions.as_ref())?;
        let quick_repetitions = self.repetitions(quick.repetitions.as_ref())?;
        let [tables, quick_tables] = [self.raw.tables(), quick.tables()]
            .map(|tables| if tables_count { flattened(tables) } else { Settings::new() });
        let mut set = self.values(parameters, &self.raw.parameters)?;
        set.extend(self.values(parameters, &tables)?);
        let mut quick_set = self.values(parameters, &quick.parameters)?;
        quick_set.extend(self.values(parameters, &quick_tables)?);
        numbers.repetitions = repetitions.unwrap_or(numbers.repetitions);
        if scale == Scale::Quick {
            set.extend(quick_set);
            numbers.repetitions = quick_repetitions.unwrap_or(numbers.repetitions);
        }
        Ok(set)
    }

    fn repetitions(&self, setting: Option<&Spanned<Setting>>) -> Result<Option<u32>, PlanError> {
        let number = |setting| self.number(setting, "repetitions", 1..u64::from(REPETITIONS_MAX));
        let number = setting.map(number).transpose()?;
        Ok(number.and_then(|number| u32::try_from(number).ok()))
    }

    /// A whole number from `range.start` to `range.end`, both included.
    fn number(&self, setting: &Spanned<Setting>, key: &str, range: Range<u64>) -> Result<u64, PlanError> {
        let (low, high) = (range.start, range.end);
        match setting.get_ref() {
            Setting::Integer(number) if u64::try_from(*number).is_ok_and(|number| (low..=high).contains(&number)) => {
                Ok(number.unsigned_abs())
            }
            other => {
                let problem = format!("{key} cannot be {other}; expected a whole number from {low} to {high}");
                Err(self.source.error(&setting.span(), problem))
            }
        }
    }

    fn values(
        &self,
        parameters: &[Parameter],
        settings: &Settings,
    ) -> Result<Vec<(&'static str, Vec<Value>)>, PlanError> {
        let mut values = Vec::new();
        for (key, setting) in settings {
            let parameter = self.parameter(parameters, key)?;
            values.push((parameter.name, self.values_of(parameter, setting)?));
        }
        Ok(values)
    }

    /// The groups of parameters that are swept one at a time.
    fn one_at_a_time(&self, parameters: &[Parameter]) -> Result<Vec<Vec<&'static str>>, PlanError> {
        let name = |setting: &Spanned<Setting>| match setting.get_ref() {
            Setting::Text(name) => {
                let key = Spanned::new(setting.span(), name.clone());
                self.parameter(parameters, &key).map(|parameter| parameter.name)
            }
            other => {
                let problem = format!("{other} is no parameter; expected a name in quotes, or a list of names");
                Err(self.source.error(&setting.span(), problem))
            }
        };
        let group = |setting: &Spanned<Setting>| match setting.get_ref() {
            Setting::List(names) => names.iter().map(name).collect(),
            _ => Ok(vec![name(setting)?]),
        };
        self.raw.one_at_a_time.iter().flatten().map(group).collect()
    }

    /// The parameter that is meant.
    fn parameter<'p>(&self, known: &'p [Parameter], key: &Spanned<String>) -> Result<&'p Parameter, PlanError> {
        let name = key.get_ref();
        known.iter().find(|parameter| parameter.name == name).ok_or_else(|| {
            // Of a table, only its own keys are of interest.
            let table = name.rsplit_once('.').map_or("", |(table, _)| table);
            let rest = |parameter: &Parameter| Some(parameter.name.strip_prefix(table)?.trim_start_matches('.'));
            let own: Vec<&str> = known.iter().filter_map(rest).filter(|rest| !rest.contains('.')).collect();
            let problem = match own.as_slice() {
                [] => format!("\"{name}\" is of a table that is not there; add [{table}] to the plan"),
                own => format!("unknown parameter \"{name}\"; expected one of {}", own.join(", ")),
            };
            self.source.error(&key.span(), problem)
        })
    }

    /// What one parameter is set to: one value, or the list that it sweeps.
    fn values_of(&self, parameter: &Parameter, setting: &Spanned<Setting>) -> Result<Vec<Value>, PlanError> {
        let Setting::List(list) = setting.get_ref() else {
            return Ok(vec![self.value_of(parameter, setting)?]);
        };
        let mut values = Vec::new();
        for element in list {
            let value = self.value_of(parameter, element)?;
            if values.contains(&value) {
                let problem = format!("{} is to be {value} twice; expected each value once", parameter.name);
                return Err(self.source.error(&element.span(), problem));
            }
            values.push(value);
        }
        if values.is_empty() {
            let problem = format!("{} has no value; expected {} or a list of these", parameter.name, parameter.kind);
            return Err(self.source.error(&setting.span(), problem));
        }
        Ok(values)
    }

    fn value_of(&self, parameter: &Parameter, setting: &Spanned<Setting>) -> Result<Value, PlanError> {
        let kind = &parameter.kind;
        match setting.get_ref() {
            Setting::Text(text) => kind.value_of_text(text, self.source.folder()),
            Setting::Integer(number) => kind.value_of_integer(*number),
            other => Err(format!("it cannot be {other}; expected {kind}")),
        }
        .map_err(|problem| self.source.error(&setting.span(), format!("{}: {problem}", parameter.name)))
    }
}

struct Numbers {
    seed: u64,
    repetitions: u32,
}

#[cfg(test)]
mod tests;
