//! Claims on runs, by which several processes on one or several machines share the runs of a folder.
//!
//! A claim is a file that only one process can create. It names a worker: a file that its process rewrites at every beat. A worker whose file stays
//! the same during [`LEASE_BEATS`] beats of an observer is dead, and its claims are taken over. No clocks are compared. If a worker was only slow, a run
//! is computed twice, with the same result.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::place::Process;
use crate::store::{CLAIM, FINISHED, UNFINISHED, WORKER, is_worker, worker_in};

/// A worker that is silent during as many beats has lost its claims.
pub(super) const LEASE_BEATS: u64 = 12;
/// Longer files are neither claims nor workers.
const BYTES_MAX: u64 = 4_096;

/// The claims and workers of this process in all folders.
static HELD: Mutex<Held> = Mutex::new(Held { files: BTreeMap::new(), is_leaving: false });

struct Held {
    /// Each with the worker that it belongs to.
    files: BTreeMap<PathBuf, String>,
    /// Whether the process claims nothing any more.
    is_leaving: bool,
}

/// Gives up all claims of this process, which is about to end.
pub fn leave() {
    let mut held = held();
    held.is_leaving = true;
    for (path, worker) in std::mem::take(&mut held.files) {
        remove(&path, &worker);
    }
}

/// The outcome of claiming a run.
pub(super) enum Attempt<'c> {
    /// The run is ours until the claim is dropped.
    Claimed(Claim<'c>),
    /// Another process has it.
    Taken,
    /// As many processes ended during the run as may be.
    GivenUp,
}

/// A run that this process computes.
pub(super) struct Claim<'c> {
    claims: &'c Claims,
    path: PathBuf,
}

impl Claim<'_> {
    /// Counts the run as finished.
    pub(super) fn finish(self) {
        self.claims.shared.done.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        release(&self.path, &self.claims.shared.id);
    }
}

/// The claims of this process in one folder.
pub(super) struct Claims {
    shared: Arc<Shared>,
    beat: Duration,
    /// The thread that beats, which ends when the sender is dropped; set by the first claim.
    beating: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
    /// Workers that others' claims name, as they were when they last changed.
    seen: Mutex<BTreeMap<String, Seen>>,
    /// A run during which as many workers ended is given up.
    losses_max: Option<u32>,
}

/// State that the thread that beats also uses.
struct Shared {
    folder: PathBuf,
    id: String,
    process: Process,
    beats: AtomicU64,
    done: AtomicU64,
}

/// A worker's file when it last changed.
struct Seen {
    content: Option<String>,
    at_beat: u64,
}

impl Claims {
    pub(super) fn new(folder: &Path, beat: Duration, losses_max: Option<u32>) -> Self {
        let id = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        let shared = Shared {
            folder: folder.to_owned(),
            id,
            process: Process::this(),
            beats: AtomicU64::new(0),
            done: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
            beat,
            beating: Mutex::new(None),
            seen: Mutex::new(BTreeMap::new()),
            losses_max,
        }
    }

    /// The name of this worker, which no other one has.
    pub(super) fn id(&self) -> &str {
        &self.shared.id
    }

    /// Claims the run that is stored as `name`. A dead worker's claim is taken over.
    pub(super) fn claim(&self, name: &str) -> io::Result<Attempt<'_>> {
        self.begin_to_beat()?;
        let path = self.shared.folder.join(format!("{name}{CLAIM}"));
        if let Some(claim) = self.create(&path, 0)? {
            return Ok(Attempt::Claimed(claim));
        }
        let text = read(&path);
        let (worker, losses) = parsed(text.as_deref().unwrap_or_default());
        if worker == self.shared.id || !self.is_dead(worker.as_str(), name, text.as_deref()) {
            return Ok(Attempt::Taken);
        }
        let losses = losses.saturating_add(1);
        if self.losses_max.is_some_and(|max| losses >= max) {
            return Ok(Attempt::GivenUp);
        }
        // Of several processes only one can rename the file. The claim of a process that was quicker has another text.
        let away = self.shared.folder.join(format!("{name}.{}.dead{UNFINISHED}", self.shared.id));
        if read(&path) != text {
            return Ok(Attempt::Taken);
        }
        match fs::rename(&path, &away) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Attempt::Taken),
            Err(error) => return Err(error),
        }
        // What cannot be removed is for `prune`.
        let _ = fs::remove_file(&away);
        Ok(self.create(&path, losses)?.map_or(Attempt::Taken, Attempt::Claimed))
    }

    /// Creates a claim unless there is one.
    fn create(&self, path: &Path, losses: u32) -> io::Result<Option<Claim<'_>>> {
        let mut held = held();
        if held.is_leaving {
            return Ok(None);
        }
        let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(error),
        };
        if let Err(error) = file.write_all(format!("{} {losses}\n", self.shared.id).as_bytes()) {
            // The first error is the one to report.
            let _ = fs::remove_file(path);
            return Err(error);
        }
        held.files.insert(path.to_owned(), self.shared.id.clone());
        Ok(Some(Claim { claims: self, path: path.to_owned() }))
    }

    /// Removes files that dead workers have left in a folder whose runs are all finished.
    pub(super) fn tidy(&self, listing: &Listing) {
        for (path, worker) in &listing.unfinished {
            // A process has its worker's file for as long as it writes others.
            let is_known = self.shared.folder.join(format!("{worker}{WORKER}")).exists();
            if *worker != self.shared.id && (!is_known || self.is_dead(worker, "", None)) {
                let _ = fs::remove_file(path);
            }
        }
        for run in &listing.claimed {
            let path = self.shared.folder.join(format!("{run}{CLAIM}"));
            let text = read(&path);
            let (worker, _) = parsed(text.as_deref().unwrap_or_default());
            if worker != self.shared.id && self.is_dead(&worker, run, text.as_deref()) {
                // What cannot be removed is for `prune`.
                let _ = fs::remove_file(path);
            }
        }
        for path in &listing.workers {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            if name != self.shared.id.as_str() && self.is_dead(&name, "", None) {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Whether the worker that a claim names has ended. Without a valid name, the claim itself is observed.
    fn is_dead(&self, worker: &str, run: &str, claim: Option<&str>) -> bool {
        let (key, content) = if worker.is_empty() {
            (run, claim.map(str::to_owned))
        } else {
            (worker, read(&self.shared.folder.join(format!("{worker}{WORKER}"))))
        };
        if content.as_deref().and_then(Process::parse).is_some_and(|process| process.has_ended_here()) {
            return true;
        }
        let now = self.shared.beats.load(Ordering::Relaxed);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen.entry(key.to_owned()).or_insert_with(|| Seen { content: content.clone(), at_beat: now });
        if content.is_some() && content != known.content {
            *known = Seen { content, at_beat: now };
        }
        now - known.at_beat >= LEASE_BEATS
    }

    /// Writes the worker's file, and rewrites it at every beat.
    fn begin_to_beat(&self) -> io::Result<()> {
        let mut beating = self.beating.lock().unwrap_or_else(PoisonError::into_inner);
        if beating.is_some() {
            return Ok(());
        }
        let path = self.shared.worker();
        {
            let mut held = held();
            if held.is_leaving {
                return Ok(());
            }
            OpenOptions::new().write(true).create_new(true).open(&path)?;
            held.files.insert(path.clone(), self.shared.id.clone());
        }
        if let Err(error) = self.shared.write() {
            held().files.remove(&path);
            // The first error is the one to report.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        let (sender, ended) = mpsc::channel();
        let (shared, beat) = (Arc::clone(&self.shared), self.beat);
        let thread = thread::spawn(move || {
            while ended.recv_timeout(beat) == Err(RecvTimeoutError::Timeout) {
                // A worker that cannot write is dead to others, which then compute its runs as well. The beat counts after the file server has
                // answered, so that no worker seems silent because the server is.
                let _ = shared.write();
                shared.beats.fetch_add(1, Ordering::Relaxed);
            }
            release(&shared.worker(), &shared.id);
        });
        *beating = Some((sender, thread));
        Ok(())
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        let beating = self.beating.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((sender, thread)) = beating {
            drop(sender);
            // The thread does not panic.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn worker(&self) -> PathBuf {
        self.folder.join(format!("{}{WORKER}", self.id))
    }

    /// Shows a sign of life, unless the process is about to end.
    fn write(&self) -> io::Result<()> {
        let path = self.worker();
        let held = held();
        if !held.files.contains_key(&path) {
            return Ok(());
        }
        let (beats, done) = (self.beats.load(Ordering::Relaxed), self.done.load(Ordering::Relaxed));
        fs::write(path, format!("{} 0\n{}\nbeat {beats}\ndone {done}\n", self.id, self.process))
    }
}

/// A worker, as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Described {
    pub(super) process: Process,
    pub(super) done: u64,
}

/// Reads the file of a worker.
pub(super) fn described(path: &Path) -> Option<Described> {
    let text = read(path)?;
    let done = text.lines().find_map(|line| line.strip_prefix("done "))?.parse().ok()?;
    Some(Described { process: Process::parse(&text)?, done })
}

/// The worker that a claim names, empty if it names none, and how many workers have lost the run before.
fn parsed(text: &str) -> (String, u32) {
    let mut words = text.lines().next().unwrap_or_default().split(' ');
    let worker = words.next().filter(|word| is_worker(word));
    let losses = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    (worker.unwrap_or_default().to_owned(), losses)
}

/// The text of a small file, if it can be read.
fn read(path: &Path) -> Option<String> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn held() -> MutexGuard<'static, Held> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn release(path: &Path, worker: &str) {
    held().files.remove(path);
    remove(path, worker);
}

/// Removes a file of `worker`, unless it has become another's.
fn remove(path: &Path, worker: &str) {
    if read(path).is_some_and(|text| parsed(&text).0 == worker) {
        // What cannot be removed counts as dead soon.
        let _ = fs::remove_file(path);
    }
}

/// The files of a folder that matter to a queue.
#[derive(Default)]
pub(super) struct Listing {
    /// Names of finished runs.
    pub(super) finished: BTreeSet<String>,
    /// Names of runs that are claimed.
    pub(super) claimed: BTreeSet<String>,
    /// Files of workers.
    pub(super) workers: Vec<PathBuf>,
    /// Files that are being written, and by which worker.
    pub(super) unfinished: Vec<(PathBuf, String)>,
}

impl Listing {
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        let mut listing = Self::default();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if let Some(run) = name.strip_suffix(CLAIM) {
                listing.claimed.insert(run.to_owned());
            } else if name.ends_with(WORKER) {
                listing.workers.push(entry.path());
            } else if name.ends_with(FINISHED) {
                let kind = entry.file_type()?;
                let is_ours = name.strip_suffix(FINISHED).is_some_and(is_worker);
                if is_ours && !kind.is_file() && !kind.is_symlink() {
                    return Err(io::Error::other(format!("{} is no file", entry.path().display())));
                }
                listing.finished.insert(name);
            } else if let Some(worker) = worker_in(&name).filter(|_| name.ends_with(UNFINISHED)) {
                listing.unfinished.push((entry.path(), worker.to_owned()));
            }
        }
        Ok(listing)
    }
}
