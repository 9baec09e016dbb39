//! The thread that compresses rotated files, one at a time and at the lowest CPU priority.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use festina_units::Duration;

use crate::collector::CompressJob;
use crate::disk::RealDisk;
use crate::notice::Notice;

/// Pause after the disk failed, in parts so that a stop is noticed.
const PAUSE: Duration = Duration::from_secs(30);
const PAUSE_PARTS: u32 = 300;

/// The compressing thread's job queue and results.
pub(super) struct Compressing {
    jobs: Sender<CompressJob<RealDisk>>,
    shared: Arc<Shared>,
}

struct Shared {
    done: Mutex<Vec<PathBuf>>,
    files: AtomicU64,
    failures: AtomicU64,
    stops: Arc<AtomicBool>,
    notice: Notice,
}

impl Compressing {
    /// Starts the thread. It ends when this is gone, and within a piece of a file when `stops` says so.
    pub(super) fn start(stops: Arc<AtomicBool>, notice: Notice) -> io::Result<Self> {
        let (jobs, waiting) = channel();
        let (files, failures) = (AtomicU64::new(0), AtomicU64::new(0));
        let shared = Arc::new(Shared { done: Mutex::new(Vec::new()), files, failures, stops, notice });
        let thread = Arc::clone(&shared);
        std::thread::Builder::new().name("syslog-compress".to_owned()).spawn(move || thread.run(&waiting))?;
        Ok(Self { jobs, shared })
    }

    pub(super) fn add(&self, jobs: Vec<CompressJob<RealDisk>>) {
        for job in jobs {
            // The thread has ended only if all ends: the next process finds them in the journal.
            let _ = self.jobs.send(job);
        }
    }

    /// Files that were compressed since the last call.
    pub(super) fn take_done(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.shared.done.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn files(&self) -> u64 {
        self.shared.files.load(Ordering::Relaxed)
    }

    pub(super) fn failures(&self) -> u64 {
        self.shared.failures.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn run(&self, jobs: &Receiver<CompressJob<RealDisk>>) {
        // Of this thread alone, which is what Linux takes a process of its own for.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::setpriority_process(None, 19);
        for job in jobs {
            loop {
                let error = match job.run(|| self.stops()) {
                    Ok(was_there) => {
                        self.files.fetch_add(u64::from(was_there), Ordering::Relaxed);
                        break;
                    }
                    Err(error) => error,
                };
                if self.stops() {
                    return;
                }
                if self.failures.fetch_add(1, Ordering::Relaxed) == 0 {
                    (self.notice)(&format!(
                        "{} cannot be compressed: {error}; the file stays uncompressed; retrying",
                        job.path().display()
                    ));
                }
                for _ in 0..PAUSE_PARTS {
                    if self.stops() {
                        return;
                    }
                    std::thread::sleep(PAUSE / PAUSE_PARTS);
                }
            }
            self.done.lock().unwrap_or_else(PoisonError::into_inner).push(job.path().to_owned());
        }
    }

    fn stops(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }
}
