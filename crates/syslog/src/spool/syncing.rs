//! Syncs of the files of a spool, in this thread or another.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::ledger::Holding;
use crate::disk::{Disk, DiskFile};

/// The syncs of a spool.
#[derive(Default)]
pub(super) struct Syncs {
    pub(super) failed: SyncFailed,
    /// Counts what makes a [`SyncJob`] that was begun before it meaningless.
    pub(super) generation: u64,
}

/// Whether a sync has failed since all lines were last written again. The system reports a failure to one sync only, whichever thread it is in.
#[derive(Clone, Default)]
pub(super) struct SyncFailed(Arc<Mutex<bool>>);

impl SyncFailed {
    pub(super) fn sync<'a, F: DiskFile>(&self, mut files: impl Iterator<Item = &'a mut F>) -> io::Result<()> {
        let mut failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *failed {
            return Err(io::Error::other("an earlier sync has failed"));
        }
        let result = files.try_for_each(DiskFile::sync);
        *failed = result.is_err();
        result
    }

    pub(super) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }
}

/// A sync that another thread may do.
pub(crate) struct SyncJob<D: Disk> {
    pub(super) files: Vec<D::File>,
    pub(super) failed: SyncFailed,
    /// Number of full ones among them.
    pub(super) full: usize,
    /// What those files hold.
    pub(super) holdings: Vec<(u64, Holding)>,
    pub(super) directory: Option<(D, PathBuf)>,
    /// The sync's number, and the bytes that it covers.
    pub(super) generation: u64,
    pub(super) bytes: usize,
}

/// The result of a [`SyncJob`].
pub(crate) struct Synced {
    pub(super) result: io::Result<()>,
    pub(super) full: usize,
    pub(super) holdings: Vec<(u64, Holding)>,
    pub(super) generation: u64,
    pub(super) bytes: usize,
    pub(super) directory: bool,
}

impl<D: Disk> SyncJob<D> {
    /// Waits for the disk.
    pub(crate) fn run(mut self) -> Synced {
        let mut result = self.failed.sync(self.files.iter_mut());
        if let (Ok(()), Some((disk, directory))) = (&result, &self.directory) {
            result = disk.sync_directory(directory);
        }
        let Self { full, holdings, generation, bytes, directory, .. } = self;
        Synced { result, full, holdings, generation, bytes, directory: directory.is_some() }
    }
}
