//! Syncs of all lanes, in this thread or another.

use std::io;

use super::Sender;
use crate::disk::Disk;
use crate::spool::{SyncJob, Synced};

/// Waits for the disk, in any thread.
pub struct SyncJobs<D: Disk>(Vec<(usize, SyncJob<D>)>);

/// Results of the disk.
pub struct SyncResults(Vec<(usize, Synced)>);

impl<D: Disk> SyncJobs<D> {
    /// Whether there is nothing to wait for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits.
    pub fn run(self) -> SyncResults {
        SyncResults(self.0.into_iter().map(|(index, job)| (index, job.run())).collect())
    }
}

impl<D: Disk> Sender<D> {
    /// Has everything taken so far survive a crash.
    ///
    /// # Errors
    /// The disk's; it is tried again with the next call.
    pub fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }

    /// Starts a [`sync`](Self::sync), so that another thread can wait for the disk. Pass the result of the jobs to [`end_sync`](Self::end_sync)
    /// before the next call.
    ///
    /// # Errors
    /// I/O errors of the disk. The next sync tries again.
    pub fn begin_sync(&mut self) -> io::Result<SyncJobs<D>> {
        if self.is_reserve_missing() {
            return self.sync().map(|()| SyncJobs(Vec::new()));
        }
        let mut jobs = Vec::new();
        for index in 0..self.lanes.len() {
            match self.lanes[index].begin_sync() {
                Ok(job) => jobs.extend(job.map(|job| (index, job))),
                Err(error) => {
                    self.counters.disk_errors += 1;
                    // Those that were begun end here: lines whose sync is abandoned would have to be written again, and may not fit.
                    let _ = self.end_sync(SyncJobs(jobs).run());
                    return match self.makes_room(&error) {
                        true => self.sync().map(|()| SyncJobs(Vec::new())),
                        false => Err(error),
                    };
                }
            }
        }
        Ok(SyncJobs(jobs))
    }

    /// Completes a sync. Lines taken before [`begin_sync`](Self::begin_sync) now survive a crash.
    ///
    /// # Errors
    /// I/O errors of the disk. The next sync tries again.
    pub fn end_sync(&mut self, synced: SyncResults) -> io::Result<()> {
        let mut result = Ok(());
        for (index, synced) in synced.0 {
            if let Err(error) = self.lanes[index].spool.end_sync(synced) {
                self.counters.disk_errors += 1;
                result = Err(error);
            }
        }
        result
    }
}
