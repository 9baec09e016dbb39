//! Runs a plan: in parallel, resumable, by any number of processes and machines that share a folder.
//!
//! Every run of a point with a seed ends up in the store, and results are made from the store alone. Whether a run was
//! computed now, before a break, on another machine or by however many threads therefore makes no difference.

mod archive;
mod claims;
mod place;
mod queue;
mod status;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rayon::prelude::*;

use crate::experiment::Experiment;
use crate::plan::{Plan, Point, Scale};
use crate::samples::Samples;
pub use crate::store::Pruned;
use crate::store::{self, CLAIM, Fnv1a, Store};
use crate::summary::Results;
pub(crate) use archive::Archive;
use claims::Claims;
pub use claims::leave;
use queue::{Queue, Step};
pub use status::{Status, WorkerStatus};

/// The usual [`RunOptions::beat`]: a worker that is silent for a minute is dead.
pub const BEAT: Duration = Duration::from_secs(5);
/// Workers give up a run during which as many processes have ended.
const LOSSES_MAX: u32 = 3;
/// A damaged file is replaced; one that is damaged again comes from a folder that cannot be used.
const ROUNDS_MAX: usize = 3;

/// How a plan is run. None of this changes the results.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Number of threads; `None` for one per processor.
    pub jobs: Option<usize>,
    /// Time between two signs of life. A process that shares the store and shows none for as long as twelve such times, on this process' clock, loses
    /// the runs that it had begun. Usually [`BEAT`]; it must be the same in all processes.
    pub beat: Duration,
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

/// The digest of all runs of a plan, which is the same for every version of the code.
pub fn digest(experiment: &dyn Experiment, plan: &Plan) -> String {
    format!("{:016x}", Archive::digest(experiment, plan))
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

/// Progress of a run of a plan, in runs of a point with a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Finished, those of other processes included.
    pub done: usize,
    /// All runs of the plan.
    pub total: usize,
    /// Runs of other processes for which this one waits, as nothing else remains.
    pub awaited: usize,
}

/// Outcome of [`work`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worked {
    /// Number of runs that this process has finished.
    pub computed: u64,
    /// Number of runs of the plan without results.
    pub missing: usize,
    /// Number of runs of the plan.
    pub total: usize,
    /// Runs that no worker takes any more, since several have ended during each: the point, and the file of the claim, whose removal lets
    /// workers try again.
    pub given_up: Vec<(String, PathBuf)>,
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

/// Runs the points that are not in the store yet, and waits for those that other processes compute. Calls `progress` after each run, from the thread
/// that finished it.
///
/// # Errors
/// If the store cannot be used or no threads can be started.
pub fn run(
    experiment: &dyn Experiment,
    plan: &Plan,
    options: &RunOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Results, RunError> {
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
) -> Result<Results, RunError> {
    let session = Session::open(experiment, plan, options, None)?;
    let order: Vec<usize> = (0..session.names.len()).collect();
    // A second round replaces files that are damaged.
    for _ in 0..ROUNDS_MAX {
        let queue = Queue::new(&options.store, &session.names, order.clone(), &session.claims);
        session.work_off(&queue, measure, progress)?;
        match session.threads.install(|| session.archive.summarize()) {
            Ok(points) => return Ok(Results::new(plan.clone(), points)),
            Err(missing) => session.archive.discard_damaged(&missing).map_err(|source| session.failed(source))?,
        }
    }
    Err(session.failed(io::Error::other("finished runs cannot be read back")))
}

/// Runs points that are neither in the store nor claimed by other processes, in an order of its own, until all are in the store or this
/// process has finished `runs_max`.
///
/// # Errors
/// Those of [`run`].
pub fn work(
    experiment: &dyn Experiment,
    plan: &Plan,
    options: &RunOptions,
    runs_max: Option<u64>,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Worked, RunError> {
    let session = Session::open(experiment, plan, options, Some(LOSSES_MAX))?;
    // Processes that try the same run at the same time waste time, so each has another order.
    let mut order: Vec<usize> = (0..session.names.len()).collect();
    order.sort_by_cached_key(|run| {
        let mut hash = Fnv1a::default();
        hash.add(session.claims.id().as_bytes());
        hash.add(&run.to_le_bytes());
        hash.value()
    });
    let queue = Queue::new(&options.store, &session.names, order, &session.claims).with_runs_max(runs_max);
    session.work_off(&queue, &|point, seed| Ok(experiment.run(point, seed)), progress)?;
    let given_up = queue.given_up().into_iter().map(|run| {
        let (point, _) = session.archive.inputs(run);
        (plan.label(point), options.store.join(format!("{}{CLAIM}", session.names[run])))
    });
    let total = session.names.len();
    let given_up = given_up.collect();
    Ok(Worked { computed: queue.computed(), missing: total - queue.finished(), total, given_up })
}

/// A process that works on the runs of a plan.
struct Session<'s> {
    plan: &'s Plan,
    options: &'s RunOptions,
    archive: Archive,
    names: Vec<String>,
    claims: Claims,
    threads: rayon::ThreadPool,
    /// Whether files are on the disk before others take them for finished. Without, [`run`] notices damaged files when it reads them, and spares the
    /// milliseconds.
    is_synced: bool,
}

impl<'s> Session<'s> {
    fn open(
        experiment: &dyn Experiment,
        plan: &'s Plan,
        options: &'s RunOptions,
        losses_max: Option<u32>,
    ) -> Result<Self, RunError> {
        let archive = Archive::open(experiment, plan, &options.store, &options.code_version)
            .map_err(|source| RunError::Store { folder: options.store.clone(), source })?;
        let threads = rayon::ThreadPoolBuilder::new().num_threads(options.jobs.unwrap_or(0)).build();
        let threads = threads.map_err(RunError::Threads)?;
        let (names, claims) = (archive.names(), Claims::new(&options.store, options.beat, losses_max));
        Ok(Self { plan, options, archive, names, claims, threads, is_synced: losses_max.is_some() })
    }

    fn failed(&self, source: io::Error) -> RunError {
        RunError::Store { folder: self.options.store.clone(), source }
    }

    /// Computes the runs of a queue on all threads, until nothing remains or one fails.
    fn work_off(
        &self,
        queue: &Queue<'_>,
        measure: Measure<'_>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<(), RunError> {
        let total = self.names.len();
        match queue.open().map_err(|source| self.failed(source))? {
            0 => {}
            done => progress(Progress { done, total, awaited: 0 }),
        }
        let thread = || loop {
            match queue.step().map_err(|source| self.failed(source))? {
                Step::End => return Ok(()),
                Step::Wait(awaited) => progress(Progress { done: queue.finished(), total, awaited }),
                Step::Compute(taken) => {
                    let outcome = self.compute(taken.run, measure);
                    let done = queue.ended(taken, outcome.is_ok());
                    outcome?;
                    progress(Progress { done, total, awaited: 0 });
                }
            }
        };
        let outcomes = self.threads.broadcast(|_| thread().inspect_err(|_| queue.stop()));
        outcomes.into_iter().collect()
    }

    fn compute(&self, run: usize, measure: Measure<'_>) -> Result<(), RunError> {
        let (point, seed) = self.archive.inputs(run);
        let samples =
            measure(point, seed).map_err(|source| RunError::Measurement { point: self.plan.label(point), source })?;
        self.archive.save(run, &samples, self.claims.id(), self.is_synced).map_err(|source| self.failed(source))
    }
}

#[cfg(test)]
mod tests;
