//! Whether a plan makes sense as a whole.

use toml::Spanned;

use super::error::{PlanError, is_printable};
use super::raw::{Setting, Settings};
use super::tables::flattened;
use super::{POINTS_MAX, Plan, PlanFile, RUNS_MAX, Value};
use crate::experiment::{Experiment, Objection};
use crate::memory;

impl PlanFile {
    /// The title, which reports, figures and terminals show as it is.
    pub(super) fn title(&self) -> Result<Option<String>, PlanError> {
        match &self.raw.title {
            Some(title) if !is_printable(title.get_ref()) => {
                let problem = "the title has a control character in it; expected letters, digits and signs".to_owned();
                Err(self.source.error(&title.span(), problem))
            }
            title => Ok(title.as_ref().map(|title| title.get_ref().clone())),
        }
    }

    /// Reports an objection of the experiment at the place where the parameter is set.
    pub(super) fn check_sense(&self, experiment: &dyn Experiment, plan: &Plan) -> Result<(), PlanError> {
        let Some(objection) = plan.points().iter().find_map(|point| experiment.objection(point)) else {
            return match idle(experiment, plan) {
                Some(objection) => Err(self.objection(&objection)),
                None => self.check_memory(experiment, plan),
            };
        };
        Err(self.objection(&objection))
    }

    /// The objection at the place where the parameter is set.
    fn objection(&self, objection: &Objection) -> PlanError {
        let (quick, full) = (flattened(self.raw.quick.tables()), flattened(self.raw.tables()));
        let settings = [&self.raw.quick.parameters, &quick, &self.raw.parameters, &full];
        let mut set = settings.into_iter().flatten().filter(|(key, _)| *key.get_ref() == objection.parameter);
        let place = set.next().map_or(self.raw.experiment.span(), |(_, setting)| setting.span());
        self.source.error(&place, format!("{}: {}", objection.parameter, objection.problem))
    }

    /// A plan with a run that no usual machine has the memory for is refused.
    fn check_memory(&self, experiment: &dyn Experiment, plan: &Plan) -> Result<(), PlanError> {
        match memory::largest(experiment, plan) {
            Some((point, memory)) if memory > memory::MEMORY_MAX => {
                let (memory, max) = (memory::display(memory), memory::display(memory::MEMORY_MAX));
                let problem = format!(
                    "a run of {} would take about {memory} of memory; expected at most {max}: fewer messages, flows or smaller buffers",
                    plan.label(&point)
                );
                Err(self.source.error(&self.raw.experiment.span(), problem))
            }
            _ => Ok(()),
        }
    }

    /// A sweep that would never end is refused where its longest list is.
    pub(super) fn check_size(&self, sweep: &[(&'static str, Vec<Value>)], repetitions: u32) -> Result<(), PlanError> {
        let points = sweep.iter().try_fold(1usize, |points, (_, values)| points.checked_mul(values.len()));
        let runs = points.and_then(|points| points.checked_mul(usize::try_from(repetitions).ok()?));
        let told = |number: Option<usize>| number.map_or("too many".to_owned(), |number| number.to_string());
        let problem = if points.is_none_or(|points| points > POINTS_MAX) {
            format!("the sweep has {} points; expected at most {POINTS_MAX}", told(points))
        } else if runs.is_none_or(|runs| runs > RUNS_MAX) {
            format!("points times repetitions are {} runs; expected at most {RUNS_MAX}", told(runs))
        } else {
            return Ok(());
        };
        let tables = [self.raw.tables(), self.raw.quick.tables()].map(flattened);
        let parameters = [&self.raw.parameters, &self.raw.quick.parameters];
        let lists = parameters.into_iter().chain(&tables).flat_map(Settings::values);
        let length = |setting: &&Spanned<Setting>| match setting.get_ref() {
            Setting::List(list) => list.len(),
            _ => 0,
        };
        let longest = lists.max_by_key(length).filter(|setting| length(setting) > 1);
        let place = longest.map_or(self.raw.experiment.span(), Spanned::span);
        Err(self.source.error(&place, problem))
    }
}

/// A key of a table that the plan sets to another value than it has anyway, and that changes nothing at any point.
fn idle(experiment: &dyn Experiment, plan: &Plan) -> Option<Objection> {
    let points = plan.points();
    let (first, others) = points.split_first()?;
    let is_set = |name: &str| plan.told().any(|(told, _)| *told == name);
    let mut idle = experiment.idle(first);
    idle.retain(|objection| is_set(&objection.parameter));
    for point in others {
        if idle.is_empty() {
            break;
        }
        let here = experiment.idle(point);
        idle.retain(|objection| here.iter().any(|other| other.parameter == objection.parameter));
    }
    idle.into_iter().next()
}
