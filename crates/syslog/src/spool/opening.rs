//! Opens a spool: finds its files, checks their records and puts them in order.

use std::io;
use std::path::Path;

use super::*;

impl<D: Disk> Spool<D> {
    /// Opens the files of a priority and syncs them. The numbers that were found are reported to `found`, the first and the last of those in
    /// a row, in no particular order.
    pub(crate) fn open(
        disk: D,
        directory: &Path,
        priority: u8,
        segment_bytes: u64,
        mut found: impl FnMut(u64, u64),
    ) -> io::Result<Self> {
        let prefix = format!("lines-{priority}-");
        let mut spool = Self {
            directory: directory.to_owned(),
            segments: VecDeque::new(),
            active: None,
            full: VecDeque::new(),
            next_number: 0,
            unsynced: Vec::new(),
            written: 0,
            unwritten: Segment::empty(0),
            doubtful: false,
            syncs: Syncs::default(),
            directory_changed: true,
            ledger: Ledger::open(disk.clone(), directory, priority),
            segment_bytes,
            prefix,
            disk,
        };
        let names = spool.disk.names(directory)?;
        let number_of = |name: &str| u64::from_str_radix(name.strip_prefix(&spool.prefix)?, 16).ok();
        let numbers: Vec<u64> = names.iter().filter_map(|name| number_of(name)).collect();
        let indices: Vec<u64> =
            names.iter().filter_map(|name| name.strip_suffix(INDEX_SUFFIX).and_then(number_of)).collect();
        // An index or ledger entry must never be applied to another file that reuses the number.
        let held: Vec<(u64, Holding)> = spool.ledger.holdings().collect();
        let used = numbers.iter().chain(&indices).copied().chain(held.iter().map(|&(number, _)| number));
        spool.next_number = used.max().map_or(0, |most| most + 1);
        for &number in indices.iter().filter(|number| !numbers.contains(number)) {
            spool.disk.remove(&spool.index_path(number))?;
        }
        for number in numbers {
            // Opening a FIFO would block.
            if !spool.disk.is_file(&spool.path(number))? {
                continue;
            }
            match spool.look_into(number)? {
                Some(segment) => {
                    segment.runs.iter().for_each(|&(first, last)| found(first, last));
                    spool.segments.push_back(segment);
                }
                None => spool.disk.remove(&spool.path(number))?,
            }
        }
        let damaged = spool.compare(&held, found);
        spool.put_in_order()?;
        spool.disk.sync_directory(directory)?;
        spool.directory_changed = false;
        let holdings = spool.segments.iter().map(|segment| (segment.number, segment.holding()));
        // Missing files stay in the ledger until their lines are counted as lost.
        let holdings = holdings.chain(damaged.iter().copied()).collect();
        let is_missing = |number: u64| !spool.segments.iter().any(|segment| segment.number == number);
        let missing = damaged.iter().filter(|&&(number, _)| is_missing(number));
        spool.ledger.missing = missing.map(|&(number, holding)| (number, holding.last)).collect();
        spool.ledger.replace(holdings);
        Ok(spool)
    }

    /// Returns files that hold less than was written to them: all their lines count as found, and as lost if reading does not find them.
    fn compare(&mut self, held: &[(u64, Holding)], mut found: impl FnMut(u64, u64)) -> Vec<(u64, Holding)> {
        let lines =
            |number: u64| self.segments.iter().find(|segment| segment.number == number).map_or(0, Segment::lines);
        let is_damaged = |&&(number, holding): &&(u64, Holding)| lines(number) < holding.lines;
        let damaged: Vec<(u64, Holding)> = held.iter().filter(is_damaged).copied().collect();
        damaged.iter().for_each(|(_, holding)| found(holding.first, holding.last));
        self.ledger.damaged = damaged.iter().map(|&(number, holding)| holding.lines - lines(number)).sum();
        damaged
    }

    /// Syncs a file and scans it; `None` if it holds no whole record.
    fn look_into(&self, number: u64) -> io::Result<Option<Segment>> {
        self.disk.append_to(&self.path(number))?.sync()?;
        if let Some(segment) = self.read_index(number) {
            return Ok(Some(segment));
        }
        let mut segment = self.scan(number)?;
        if let Some(segment) = &mut segment {
            segment.newest_us = self.ledger.get(number).map_or(0, |holding| holding.newest_us);
            self.write_index(segment);
        }
        Ok(segment)
    }

    /// Returns the matching index of a file, if there is one.
    fn read_index(&self, number: u64) -> Option<Segment> {
        let bytes = read_whole(&self.disk, &self.index_path(number), index::INDEX_BYTES_MAX).ok()??;
        let (length, newest_us, runs) = index::decode(&bytes)?;
        if self.disk.length(&self.path(number)).ok()? != Some(length) {
            return None;
        }
        let mut segment = Segment { bytes: length, newest_us, ..Segment::empty(number) };
        (segment.first, segment.last) = (runs.iter().map(|run| run.0).min()?, runs.iter().map(|run| run.1).max()?);
        segment.runs = runs;
        Some(segment)
    }

    /// Writes the index of a file that is synced and will not grow. If that fails, the next start reads the file.
    pub(super) fn write_index(&self, segment: &Segment) {
        let path = self.index_path(segment.number);
        // A file with uncounted data at its end has no index.
        let whole = self.disk.length(&self.path(segment.number)).ok().flatten() == Some(segment.bytes);
        if whole
            && let Some(bytes) = index::encode(segment.bytes, segment.newest_us, &segment.runs)
            && self.disk.remove(&path).is_ok()
        {
            let _ = self.disk.append_to(&path).and_then(|mut file| file.append(&bytes));
        }
    }

    /// Reads a file; `None` if no whole record is in it.
    fn scan(&self, number: u64) -> io::Result<Option<Segment>> {
        let path = self.path(number);
        let mut segment = Segment::empty(number);
        loop {
            let bytes = Bytes::from(self.disk.read_at(&path, segment.bytes, READ_BYTES)?);
            let (records, taken) = read_records(bytes);
            if records.is_empty() {
                return Ok((segment.bytes > 0).then_some(segment));
            }
            segment.bytes += taken;
            records.iter().for_each(|stored| segment.cover(stored.record.sequence, 0));
        }
    }

    /// Puts records in order that an interrupted [`rewrite`](Self::rewrite) has left twice.
    fn put_in_order(&mut self) -> io::Result<()> {
        let overlapping =
            |index: &usize| self.segments.iter().skip(index + 1).any(|later| later.first <= self.segments[*index].last);
        let Some(from) = (0..self.segments.len()).find(overlapping) else { return Ok(()) };
        let mut cursor = Cursor { segment: self.segments[from].number, offset: 0 };
        let mut records = BTreeMap::new();
        loop {
            let read = self.read(&mut cursor)?;
            if read.is_empty() {
                break;
            }
            records.extend(read.into_iter().map(|stored| (stored.record.sequence, stored.bytes)));
        }
        records.values().for_each(|bytes| put_framed(bytes, &mut self.unsynced));
        self.ledger.newest_us = self.newest_us();
        let rewritten = self.rewrite();
        self.unsynced.clear();
        self.active = None;
        match rewritten {
            // A relay has to start on a full disk: its collector makes room. Until then order is not kept for these lines.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(()),
            rewritten => rewritten?,
        }
        self.disk.sync_directory(&self.directory)?;
        let replaced: Vec<_> = self.segments.drain(from..self.segments.len() - 1).collect();
        for segment in replaced {
            self.disk.remove(&self.path(segment.number))?;
            self.disk.remove(&self.index_path(segment.number))?;
        }
        Ok(())
    }
}
