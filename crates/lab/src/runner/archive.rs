//! The runs of a plan and where they are kept.

use std::io;
use std::path::Path;

use rayon::prelude::*;

use crate::experiment::Experiment;
use crate::plan::{Plan, Point};
use crate::samples::Samples;
use crate::store::{Fnv1a, Identity, Store};
use crate::summary::PointSummary;

/// One point with one seed.
#[derive(Clone, Debug)]
struct Run {
    /// Index into the plan's points.
    point: usize,
    repetition: u32,
    seed: u64,
}

/// The runs of a plan and where they are kept.
pub(crate) struct Archive {
    experiment: &'static str,
    code_version: String,
    store: Store,
    points: Vec<Point>,
    /// All repetitions of the first point, then those of the second, and so on.
    runs: Vec<Run>,
}

impl Archive {
    pub(crate) fn open(
        experiment: &dyn Experiment,
        plan: &Plan,
        folder: &Path,
        code_version: &str,
    ) -> io::Result<Self> {
        Ok(Self::within(experiment, plan, Store::open(folder)?, code_version))
    }

    /// The digest of all runs, which does not depend on the code.
    pub(super) fn digest(experiment: &dyn Experiment, plan: &Plan) -> u64 {
        let archive = Self::within(experiment, plan, Store::at(Path::new("")), "");
        let mut hash = Fnv1a::default();
        archive.runs.iter().for_each(|run| archive.identity(run).add_to(&mut hash));
        hash.value()
    }

    /// The name of the file of each run.
    pub(super) fn names_of(experiment: &dyn Experiment, plan: &Plan, code_version: &str) -> Vec<String> {
        Self::within(experiment, plan, Store::at(Path::new("")), code_version).names()
    }

    fn within(experiment: &dyn Experiment, plan: &Plan, store: Store, code_version: &str) -> Self {
        let points = plan.points();
        let repetitions = |point: &Point| if experiment.is_random(point) { plan.repetitions_of(point) } else { 1 };
        let runs = points
            .iter()
            .enumerate()
            .flat_map(|(index, point)| (0..repetitions(point)).map(move |repetition| (index, repetition)))
            .map(|(point, repetition)| Run { point, repetition, seed: plan.repetition_seed(repetition) })
            .collect();
        Self { experiment: experiment.runs_as(), code_version: code_version.to_owned(), store, points, runs }
    }

    /// Gives every finished run to `visit` in the plan's order, with its point and repetition.
    ///
    /// # Errors
    /// The first error of `visit`.
    pub(crate) fn visit<E>(&self, mut visit: impl FnMut(&Point, u32, &Samples) -> Result<(), E>) -> Result<(), E> {
        for run in &self.runs {
            if let Some(samples) = self.load(run) {
                visit(&self.points[run.point], run.repetition, &samples)?;
            }
        }
        Ok(())
    }

    /// The name of the file of each run.
    pub(super) fn names(&self) -> Vec<String> {
        self.runs.iter().map(|run| self.identity(run).file_name()).collect()
    }

    /// The point and the seed of a run.
    pub(super) fn inputs(&self, run: usize) -> (&Point, u64) {
        let Run { point, seed, .. } = self.runs[run];
        (&self.points[point], seed)
    }

    pub(super) fn save(&self, run: usize, samples: &Samples, writer: &str, is_synced: bool) -> io::Result<()> {
        self.store.save(&self.identity(&self.runs[run]), samples, writer, is_synced)
    }

    /// Removes the files of these runs that cannot be loaded.
    pub(super) fn discard_damaged(&self, runs: &[usize]) -> io::Result<()> {
        runs.iter().try_for_each(|run| self.store.discard_damaged(&self.identity(&self.runs[*run])))
    }

    fn identity(&self, run: &Run) -> Identity {
        Identity::new(self.experiment, &self.code_version, &self.points[run.point], run.seed)
    }

    fn load(&self, run: &Run) -> Option<Samples> {
        self.store.load(&self.identity(run))
    }

    /// Summarises each point, its repetitions in order; or returns the runs that cannot be loaded.
    pub(super) fn summarize(&self) -> Result<Vec<PointSummary>, Vec<usize>> {
        let runs: Vec<(usize, &Run)> = self.runs.iter().enumerate().collect();
        let (summaries, missing): (Vec<PointSummary>, Vec<Vec<usize>>) = runs
            .chunk_by(|(_, one), (_, next)| one.point == next.point)
            .collect::<Vec<_>>()
            .into_par_iter()
            .zip(&self.points)
            .map(|(runs, point)| {
                let mut summary = PointSummary::new(point.clone());
                let mut missing = Vec::new();
                for (index, run) in runs {
                    match self.load(run) {
                        Some(samples) => summary.add(&samples),
                        None => missing.push(*index),
                    }
                }
                (summary, missing)
            })
            .unzip();
        let missing = missing.concat();
        if missing.is_empty() { Ok(summaries) } else { Err(missing) }
    }
}
