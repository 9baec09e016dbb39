//! Room on the disk for lines that were taken just before it became full, and the lines that are only in memory because it fails.

use std::io;

use super::{Lane, Sender};
use crate::disk::{Disk, DiskFile as _};

/// The name of the file that is removed when the disk is full, so that lines can be written in its place.
const NAME: &str = "reserve-lines";

/// Lines that may be in memory alone for more to be taken.
const IN_MEMORY_MAX: u64 = 1_024;

/// The file that keeps the room.
#[derive(Default)]
pub(super) struct Reserve {
    /// Its length; 0 if no room is kept.
    bytes: usize,
    is_missing: bool,
}

impl<D: Disk> Sender<D> {
    /// Keeps this much room on the disk for lines that were taken just before it became full. While the disk has no such room,
    /// [`sync`](Self::sync) and [`begin_sync`](Self::begin_sync) report an error, even if all lines are safe.
    pub fn keep_reserve(&mut self, bytes: usize) {
        self.reserve = Reserve { bytes, is_missing: true };
        // Each sync tries again.
        let _ = self.fill_reserve();
    }

    /// Whether lines may be taken though the disk fails: a collector is there to have them, and few wait for it that are in memory alone.
    pub fn has_room(&self) -> bool {
        self.is_any_welcomed()
            && self.in_memory() <= IN_MEMORY_MAX
            && self.lanes.iter().all(|lane| lane.spool.has_room())
    }

    /// Whether a collector takes lines.
    pub fn is_any_welcomed(&self) -> bool {
        self.receivers.iter().any(|receiver| receiver.welcomed && receiver.is_open) && self.awaited == 0
    }

    /// Lines that are in memory alone because the disk fails, and that no collector has answered for: they end with the process.
    pub fn in_memory(&self) -> u64 {
        self.lanes.iter().map(Lane::in_memory).sum()
    }

    pub(super) fn is_reserve_missing(&self) -> bool {
        self.reserve.is_missing
    }

    /// Syncs all lines, in the place of the reserve if the disk is full, and takes a reserve again if there is none.
    pub(super) fn sync_all(&mut self) -> io::Result<()> {
        let mut result = self.sync_lanes();
        if result.as_ref().is_err_and(|error| self.makes_room(error)) {
            result = self.sync_lanes();
        }
        result.and_then(|()| self.fill_reserve())
    }

    /// Gives the reserve up, if the disk is full and there is one.
    pub(super) fn makes_room(&mut self, error: &io::Error) -> bool {
        if error.kind() != io::ErrorKind::StorageFull || self.reserve.bytes == 0 || self.reserve.is_missing {
            return false;
        }
        self.reserve.is_missing = true;
        self.disk.remove(&self.directory.join(NAME)).is_ok()
    }

    fn sync_lanes(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for lane in &mut self.lanes {
            if let Err(error) = lane.sync() {
                self.counters.disk_errors += 1;
                result = Err(error);
            }
        }
        result
    }

    fn fill_reserve(&mut self) -> io::Result<()> {
        if !self.reserve.is_missing {
            return Ok(());
        }
        let path = self.directory.join(NAME);
        let length = self.disk.length(&path)?.unwrap_or_default();
        let missing = self.reserve.bytes.saturating_sub(usize::try_from(length).unwrap_or(usize::MAX));
        if missing > 0
            && let Err(error) = self.disk.append_to(&path).and_then(|mut file| file.append(&vec![0; missing]))
        {
            // Lines need what little room there is.
            let _ = self.disk.remove(&path);
            self.counters.disk_errors += 1;
            return Err(error);
        }
        self.reserve.is_missing = false;
        Ok(())
    }
}
