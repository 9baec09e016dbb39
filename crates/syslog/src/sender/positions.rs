//! What inputs that can read lines again need to know of the spool.

use std::collections::{BTreeMap, HashMap};
use std::io;

use bytes::Bytes;

use super::Sender;
use crate::disk::Disk;
use crate::policy::PRIORITIES;

impl<D: Disk> Sender<D> {
    /// The number that the next line of each priority gets.
    pub fn numbers(&self) -> [u64; PRIORITIES as usize] {
        std::array::from_fn(|priority| self.lanes[priority].next_number())
    }

    /// Returns lines of a source in the spool with at least these numbers, and how often each occurs.
    ///
    /// # Errors
    /// I/O errors of the disk.
    pub fn lines_from(&self, numbers: &[u64; PRIORITIES as usize], source: &[u8]) -> io::Result<HashMap<Bytes, u64>> {
        let mut times = HashMap::new();
        for (lane, &number) in self.lanes.iter().zip(numbers) {
            let stored = lane.spool.records_from(number)?;
            let records = stored.into_iter().filter(|stored| stored.record.source == source);
            let by_number: BTreeMap<u64, Bytes> =
                records.map(|stored| (stored.record.sequence, stored.record.line)).collect();
            for line in by_number.into_values() {
                *times.entry(line).or_default() += 1;
            }
        }
        Ok(times)
    }

    /// Lines in files of the spool that were removed, emptied or shortened by others. They count as found, and as lost when they are missed.
    pub fn damaged(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.spool.damaged()).sum()
    }

    /// Sets the clock for lines accepted from now on.
    pub fn set_time(&mut self, now_us: u64) {
        self.times.now_us = now_us;
    }

    /// Sets the date in microseconds since 1970, to compute the delays of lines read from the spool.
    pub fn set_date(&mut self, date_us: u64) {
        let ahead_us = date_us.saturating_sub(self.times.now_us);
        self.lanes.iter_mut().for_each(|lane| lane.date_ahead_us = ahead_us);
    }

    /// Converts to the sender's own clock: the total running time of relays with this spool. Neither setting the machine's clock nor a stopped relay
    /// makes lines older.
    pub(super) fn own_us(&self, now_us: u64) -> u64 {
        self.times.ran_us + now_us.saturating_sub(self.times.opened_us)
    }
}
