//! The state of a folder in which several processes may work.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::archive::Archive;
use super::claims::{Listing, described};
use crate::experiment::Experiment;
use crate::plan::Plan;
use crate::store::UNFINISHED;

/// How far a plan is, and who works on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Number of finished runs.
    pub finished: usize,
    /// Number of runs that a process has claimed.
    pub claimed: usize,
    /// Number of runs of the plan.
    pub total: usize,
    /// Processes that have not ended in an orderly way.
    pub workers: Vec<WorkerStatus>,
}

/// A process that works on a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerStatus {
    /// The machine's name.
    pub host: String,
    /// The process' number there.
    pub process: u32,
    /// Number of runs that it has finished.
    pub done: u64,
    /// How long ago it showed a sign of life, by the file server's clock; `None` if the folder cannot be written.
    pub silent: Option<Duration>,
}

impl Status {
    /// The state of the runs of a plan in a store, which need not exist.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn of(experiment: &dyn Experiment, plan: &Plan, store: &Path, code_version: &str) -> io::Result<Self> {
        let listing = match Listing::of(store) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Listing::default(),
            listing => listing?,
        };
        let names = Archive::names_of(experiment, plan, code_version);
        let finished = names.iter().filter(|name| listing.finished.contains(*name)).count();
        let is_under_way = |name: &&String| !listing.finished.contains(*name) && listing.claimed.contains(*name);
        let claimed = names.iter().filter(is_under_way).count();
        let now = (!listing.workers.is_empty()).then(|| now_of(store)).flatten();
        let mut workers: Vec<WorkerStatus> = listing.workers.iter().filter_map(|path| worker(path, now)).collect();
        workers.sort_by(|one, other| (&one.host, one.process).cmp(&(&other.host, other.process)));
        Ok(Self { finished, claimed, total: names.len(), workers })
    }
}

fn worker(path: &Path, now: Option<SystemTime>) -> Option<WorkerStatus> {
    let described = described(path)?;
    let written = fs::metadata(path).and_then(|file| file.modified()).ok();
    // A sign of life may come after the probe.
    let silent = now.zip(written).map(|(now, written)| now.duration_since(written).unwrap_or_default());
    Some(WorkerStatus { host: described.process.host, process: described.process.id, done: described.done, silent })
}

/// The time at the file server: that of a file just written.
fn now_of(folder: &Path) -> Option<SystemTime> {
    let name = format!("{:016x}{UNFINISHED}", RandomState::new().hash_one(std::process::id()));
    let path = folder.join(name);
    let time = File::create_new(&path).and_then(|file| file.metadata()).and_then(|file| file.modified()).ok();
    // What cannot be removed is for `prune`.
    let _ = fs::remove_file(&path);
    time
}
