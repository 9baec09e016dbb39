//! Runs a plan: in parallel, resumable, divisible among machines.
//!
//! Every run of a point with a seed ends up in the store, and results are made from the store alone. Whether a run was
//! computed now, before a break, on another machine or by however many threads therefore makes no difference.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::experiment::Experiment;
use crate::plan::{Plan, Point, Scale};
use crate::samples::Samples;
pub use crate::store::Pruned;
use crate::store::{self, Fnv1a, Identity, Store};
use crate::summary::{PointSummary, Results};

/// How a plan is run. None of this changes the results.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Number of threads; `None` for one per processor.
    pub jobs: Option<usize>,
    /// Which part of the plan is run.
    pub shard: Shard,
    /// Where finished runs are kept.
    pub store: PathBuf,
    /// What changes whenever the code may give other results; runs of other versions are not taken up.
    pub code_version: String,
}

/// The version of the code that this lab was built from: a hash of the sources of everything that runs in a simulation and of
/// all dependencies' versions. It does not depend on how or where the lab was built.
pub const CODE_VERSION: &str = env!("FESTINA_CODE_VERSION");

/// Removes files from a store that no run of `code_version` uses: finished runs of other versions, and the remains of interrupted runs. No run may be
/// under way in the store.
///
/// # Errors
/// If the store cannot be read, or a file not removed.
pub fn prune(store: &Path, code_version: &str) -> io::Result<Pruned> {
    Store::prune(store, code_version)
}

/// A digest of what an experiment measures: each point of its quick plan once, except points with senders of Festina's own, which no paper has. It is
/// the same as long as changes of the code leave these results as they are, and says nothing of results that only longer runs have.
pub fn probe(experiment: &dyn Experiment) -> String {
    let plan = Plan::own(experiment, Scale::Quick);
    let mut points = plan.points();
    points.retain(|point| !point.line().contains("festina"));
    let digests: Vec<u64> = points
        .par_iter()
        .with_max_len(1)
        .map(|point| store::digest(&experiment.run(point, plan.repetition_seed(0))))
        .collect();
    let mut hash = Fnv1a::default();
    digests.iter().for_each(|digest| hash.add(&digest.to_le_bytes()));
    format!("{:016x}", hash.value())
}

/// One of several equal parts of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// The whole plan.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Neighbouring runs take about equally long, so they are dealt out in turn.
    fn holds(self, run_index: usize) -> bool {
        run_index % self.count == self.index
    }
}

/// A text that names no part of a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no part of a plan; write for example \"1/4\" for the first of four")]
pub struct ParseShardError(String);

impl FromStr for Shard {
    type Err = ParseShardError;

    /// Reads `i/n`: part `i`, from 1 to `n`, of `n`.
    fn from_str(text: &str) -> Result<Self, ParseShardError> {
        let numbers =
            text.split_once('/').and_then(|(i, n)| Some((i.parse::<usize>().ok()?, n.parse::<usize>().ok()?)));
        match numbers {
            Some((i, count)) if (1..=count).contains(&i) => Ok(Self { index: i - 1, count }),
            _ => Err(ParseShardError(text.to_owned())),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.count)
    }
}

/// Progress of a run of a plan, in runs of a point with a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Finished, those taken up from the store included.
    pub done: usize,
    /// All that this part of the plan holds.
    pub total: usize,
}

/// Outcome of running a plan or a part of it.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Every run of the plan is in the store.
    Complete(Box<Results>),
    /// This part is done, but others are not in the store yet.
    Partial {
        /// Number of missing runs of the plan.
        missing: usize,
        /// Number of runs of the plan.
        total: usize,
    },
}

/// Why a plan could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The store cannot be read or written.
    #[error("cannot keep finished runs in {folder}")]
    Store {
        /// The store's folder.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system gives no threads.
    #[error("cannot start the threads that run the experiment")]
    Threads(#[source] rayon::ThreadPoolBuildError),
    /// A point could not be measured. Earlier measurements are in the store.
    #[error("cannot measure {point}")]
    Measurement {
        /// Which point.
        point: String,
        /// Why.
        source: MeasureError,
    },
}

/// Why a point could not be [measured](run_with).
pub type MeasureError = Box<dyn std::error::Error + Send + Sync>;

/// Measures a point once in the stead of [`Experiment::run`]: with real sockets, which the laboratory has none of.
pub type Measure<'a> = &'a (dyn Fn(&Point, u64) -> Result<Samples, MeasureError> + Sync);

/// Runs the points that are not in the store yet. Calls `progress` after each run, from the thread that finished it.
///
/// # Errors
/// If the store cannot be used or no threads can be started.
pub fn run(
    experiment: &dyn Experiment,
    plan: &Plan,
    options: &RunOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Outcome, RunError> {
    run_with(experiment, plan, options, &|point, seed| Ok(experiment.run(point, seed)), progress)
}

/// As [`run`], with `measure` in place of the experiment's own [`run`](Experiment::run).
///
/// # Errors
/// Those of [`run`], and the first one of `measure`: runs under way are then completed, and no further ones are started.
pub fn run_with(
    experiment: &dyn Experiment,
    plan: &Plan,
    options: &RunOptions,
    measure: Measure<'_>,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Outcome, RunError> {
    let failed = |source| RunError::Store { folder: options.store.clone(), source };
    let archive = Archive::open(experiment, plan, &options.store, &options.code_version).map_err(failed)?;
    let threads = rayon::ThreadPoolBuilder::new().num_threads(options.jobs.unwrap_or(0)).build();
    threads.map_err(RunError::Threads)?.install(|| {
        let mine: Vec<&Run> = archive.runs.iter().filter(|run| options.shard.holds(run.index)).collect();
        let done = AtomicUsize::new(0);
        mine.par_iter().try_for_each(|run| {
            if archive.load(run).is_none() {
                let point = &archive.points[run.point];
                let samples = measure(point, run.seed)
                    .map_err(|source| RunError::Measurement { point: plan.label(point), source })?;
                archive.store.save(&archive.identity(run), &samples).map_err(failed)?;
            }
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress(Progress { done, total: mine.len() });
            Ok(())
        })?;
        Ok(match archive.summarize() {
            Ok(points) => Outcome::Complete(Box::new(Results::new(plan.clone(), points))),
            Err(missing) => Outcome::Partial { missing, total: archive.runs.len() },
        })
    })
}

/// One point with one seed.
#[derive(Clone, Debug)]
struct Run {
    index: usize,
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
        let points = plan.points();
        let repetitions = |point: &Point| if experiment.is_random(point) { plan.repetitions_of(point) } else { 1 };
        let runs = points
            .iter()
            .enumerate()
            .flat_map(|(index, point)| (0..repetitions(point)).map(move |repetition| (index, repetition)))
            .map(|(index, repetition)| (index, repetition, plan.repetition_seed(repetition)))
            .enumerate()
            .map(|(index, (point, repetition, seed))| Run { index, point, repetition, seed })
            .collect();
        Ok(Self {
            experiment: experiment.runs_as(),
            code_version: code_version.to_owned(),
            store: Store::open(folder)?,
            points,
            runs,
        })
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

    fn identity(&self, run: &Run) -> Identity {
        Identity::new(self.experiment, &self.code_version, &self.points[run.point], run.seed)
    }

    fn load(&self, run: &Run) -> Option<Samples> {
        self.store.load(&self.identity(run))
    }

    /// Summarises each point, its repetitions in order; or returns the number of missing runs.
    fn summarize(&self) -> Result<Vec<PointSummary>, usize> {
        let summaries: Vec<(PointSummary, usize)> = self
            .runs
            .chunk_by(|one, next| one.point == next.point)
            .collect::<Vec<_>>()
            .into_par_iter()
            .zip(&self.points)
            .map(|(runs, point)| {
                let mut summary = PointSummary::new(point.clone());
                let mut missing = 0;
                for run in runs {
                    match self.load(run) {
                        Some(samples) => summary.add(&samples),
                        None => missing += 1,
                    }
                }
                (summary, missing)
            })
            .collect();
        match summaries.iter().map(|(_, missing)| missing).sum() {
            0 => Ok(summaries.into_iter().map(|(summary, _)| summary).collect()),
            missing => Err(missing),
        }
    }
}

#[cfg(test)]
mod tests;
