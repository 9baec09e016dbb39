//! The lines of one priority on disk, until the collector has them: append-only files whose records have a length and a checksum.
//!
//! | event | effect |
//! |---|---|
//! | a write fails | the file is left as it is, torn or not, and the next record starts a new one |
//! | a sync fails | everything written since the last one is written again, into a new file |
//! | a file ends in the middle of a record | the records before it count |
//! | the process starts again | every file is synced before its lines count as kept; those without an index are read |
//!
//! A ledger lists the files that should exist. A file is removed when all its lines are settled, according to the [sender](crate::sender).

mod index;
mod ledger;
mod opening;
mod syncing;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;

use bytes::{Buf as _, Bytes};

use crate::disk::{Disk, DiskFile, read_whole};
use crate::ranges::Ranges;
use crate::record::{RECORD_BYTES_MAX, Record};
use ledger::{Holding, Ledger};
use syncing::Syncs;
pub(crate) use syncing::{SyncJob, Synced};

/// Bytes before each record: its length and its checksum.
const FRAME_BYTES: usize = 8;

/// What stands behind the name of a file in that of its index.
const INDEX_SUFFIX: &str = ".index";

/// Bytes read at once.
const READ_BYTES: usize = 512 << 10;

/// Maximum unsynced bytes; beyond it [`Spool::append`] syncs by itself.
const UNSYNCED_BYTES_MAX: usize = 8 << 20;

/// Maximum unsynced full files; beyond it [`Spool::flush`] syncs by itself.
const FULL_FILES_MAX: usize = 16;

/// Bytes that may wait to be written together, over all priorities. One more record may exceed it.
pub(crate) const UNWRITTEN_BYTES_MAX: usize = 256 << 10;

/// Most that must be written elsewhere when a write fails because the disk is full: all that was accepted and is in no file.
pub(crate) const UNWRITTEN_PEAK_BYTES: usize = UNWRITTEN_BYTES_MAX + FRAME_BYTES + RECORD_BYTES_MAX;

/// Room for the lines that a relay takes at once.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Files that the spools of all priorities may have open: each its active and full ones, twice while they are synced, an index or a file that
/// is read, and its ledger.
pub(crate) const FILES_MAX: usize = crate::policy::PRIORITIES as usize * (2 * (1 + FULL_FILES_MAX) + 2);

/// Metadata of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    number: u64,
    /// Bytes up to the end of the last whole record.
    bytes: u64,
    /// The least and the greatest number in it.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// When the last of its lines was taken, by the sender's own clock; 0 if that is not known.
    pub(crate) newest_us: u64,
    /// First and last of numbers in a row, as they were written.
    runs: Vec<(u64, u64)>,
}

/// A record that was read.
pub(crate) struct Stored {
    pub(crate) record: Record,
    /// The same as encoded on disk by [`Record::encode`].
    pub(crate) bytes: Bytes,
}

/// A read position.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    segment: u64,
    offset: u64,
}

/// A file that will not grow and was not synced yet.
struct Full<D: Disk> {
    file: D::File,
    number: u64,
    /// Bytes of `unsynced` in it.
    bytes: usize,
}

/// The files of one priority.
pub(crate) struct Spool<D: Disk> {
    disk: D,
    directory: PathBuf,
    prefix: String,
    segment_bytes: u64,
    segments: VecDeque<Segment>,
    /// The last segment's file, if more may be written to it.
    active: Option<D::File>,
    /// Those before it that the next sync is for, too.
    full: VecDeque<Full<D>>,
    next_number: u64,
    /// Records appended since the last sync. The first `written` bytes are in files, those of `full` first; the others wait for [`Spool::flush`].
    unsynced: Vec<u8>,
    written: usize,
    /// Metadata of the unwritten records; its number and bytes are unused.
    unwritten: Segment,
    /// Writing or syncing failed, so any part of `unsynced` may be on disk.
    doubtful: bool,
    syncs: Syncs,
    directory_changed: bool,
    ledger: Ledger<D>,
}

impl<D: Disk> Spool<D> {
    /// Lines of files that were removed, emptied or shortened since they were written.
    pub(crate) fn damaged(&self) -> u64 {
        self.ledger.damaged
    }

    /// When the last of all lines was taken, by the sender's own clock.
    pub(crate) fn newest_us(&self) -> u64 {
        self.segments.iter().map(|segment| segment.newest_us).max().unwrap_or_default()
    }

    /// Sets the time of the sender's own clock from which files of unknown age count.
    pub(crate) fn date_from(&mut self, now_us: u64) {
        let undated = self.segments.iter_mut().filter(|segment| segment.newest_us == 0);
        undated.for_each(|segment| segment.newest_us = now_us);
    }

    /// Whether the lines that a relay takes at once can be appended, at least in memory.
    pub(crate) fn has_room(&self) -> bool {
        !self.doubtful || self.unsynced.len() + BATCH_BYTES_MAX <= UNSYNCED_BYTES_MAX
    }

    /// Whether writing or syncing failed.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// Bytes that wait for [`flush`](Self::flush).
    pub(crate) fn unwritten_bytes(&self) -> usize {
        self.unsynced.len() - self.written
    }

    /// If writing or syncing failed: the number of the first line that may be in memory alone.
    pub(crate) fn doubtful_from(&self) -> Option<u64> {
        if !self.doubtful {
            return None;
        }
        let mut first = self.unsynced.get(..FRAME_BYTES)?;
        let length = first.get_u32() as usize;
        Record::decode(&Bytes::copy_from_slice(self.unsynced.get(FRAME_BYTES..FRAME_BYTES + length)?))
            .map(|record| record.sequence)
    }

    /// After a failure, lines that need no more work are not written again. The last stays: writing it shows whether the disk works.
    pub(crate) fn forget_settled(&mut self, settled: &Ranges) {
        if !self.doubtful {
            return;
        }
        let (records, _) = read_records(Bytes::copy_from_slice(&self.unsynced));
        let last = records.last().map(|stored| stored.record.sequence);
        let wanted = |sequence: u64| !settled.contains(sequence) || Some(sequence) == last;
        self.unsynced.clear();
        let wanted = records.iter().filter(|stored| wanted(stored.record.sequence));
        wanted.for_each(|stored| put_framed(&stored.bytes, &mut self.unsynced));
        // Where the lines are on disk means nothing until they are written again.
        self.written = 0;
        self.full.clear();
        self.active = None;
        self.syncs.generation += 1;
    }

    /// The contents of the files that have grown since the ledger heard of them: the newest. Of a damaged file the ledger knows more.
    fn holdings_to_note(&self) -> Vec<(u64, Holding)> {
        let held = self.segments.iter().rev().map(|segment| (segment.number, segment.holding()));
        let has_grown = |number, lines| self.ledger.get(number).is_none_or(|known| known.lines < lines);
        held.take_while(|&(number, holding)| has_grown(number, holding.lines)).collect()
    }

    /// Records contents of files that have been synced, and their names with them: after a power cut the ledger must not know of more lines than the
    /// files have.
    fn note_synced(&mut self, holdings: Vec<(u64, Holding)>) {
        for (number, holding) in holdings {
            if self.segments.iter().any(|segment| segment.number == number) {
                self.ledger.note(number, holding);
            }
        }
    }

    /// Where the next record will be.
    pub(crate) fn end(&self) -> Cursor {
        let last = self.segments.back();
        last.map_or(Cursor { segment: self.next_number, offset: 0 }, |last| Cursor {
            segment: last.number,
            offset: last.bytes,
        })
    }

    fn path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("{}{number:016x}", self.prefix))
    }

    fn index_path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("{}{number:016x}{INDEX_SUFFIX}", self.prefix))
    }

    /// Bytes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Takes a record at a time of the sender's own clock. It is in a file after [`flush`](Self::flush), and safe after [`sync`](Self::sync).
    /// After an error it was not taken.
    pub(crate) fn append(&mut self, record: &Bytes, sequence: u64, taken_us: u64) -> io::Result<()> {
        if self.unsynced.len() + FRAME_BYTES + record.len() > UNSYNCED_BYTES_MAX {
            if self.doubtful {
                // The next sync tries again. Trying with each line would keep a processor busy for nothing.
                return Err(io::Error::other("an earlier write failed, and no more fits into memory"));
            }
            self.sync()?;
        }
        put_framed(record, &mut self.unsynced);
        self.unwritten.cover(sequence, taken_us);
        self.ledger.newest_us = self.ledger.newest_us.max(taken_us);
        Ok(())
    }

    /// Writes the appended records. After an error they stay in memory, and the next sync tries again.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.written == self.unsynced.len() {
            return Ok(());
        }
        if self.doubtful {
            return Err(io::Error::other(
                "an earlier write failed, and what waits is written again with the next sync",
            ));
        }
        if self.segments.back().is_none_or(|segment| segment.bytes >= self.segment_bytes) && self.active.is_some() {
            if self.full.len() >= FULL_FILES_MAX {
                self.sync_written()?;
            }
            self.leave_active();
        }
        self.write()
    }

    /// Nothing more is written to the active file.
    fn leave_active(&mut self) {
        let bytes = self.written - self.full.iter().map(|full| full.bytes).sum::<usize>();
        if let (Some(file), Some(segment)) = (self.active.take(), self.segments.back()) {
            self.full.push_back(Full { file, number: segment.number, bytes });
        }
    }

    /// Full files were synced, the oldest of them first.
    fn forget_full(&mut self, count: usize) {
        for full in self.full.drain(..count.min(self.full.len())).collect::<Vec<_>>() {
            if let Some(segment) = self.segments.iter().find(|segment| segment.number == full.number) {
                self.write_index(segment);
            }
        }
    }

    /// Syncs the written files.
    fn sync_written(&mut self) -> io::Result<()> {
        self.syncs.generation += 1;
        if self.written > 0
            && let Err(error) = self.sync_files()
        {
            self.doubtful = true;
            return Err(error);
        }
        self.forget_full(self.full.len());
        self.unsynced.drain(..self.written);
        self.written = 0;
        Ok(())
    }

    fn sync_files(&mut self) -> io::Result<()> {
        self.syncs.failed.sync(self.full.iter_mut().map(|full| &mut full.file).chain(&mut self.active))
    }

    /// Writes what waits to the active file, or to a new one if there is none.
    fn write(&mut self) -> io::Result<()> {
        if self.active.is_none() {
            let number = self.next_number;
            let file = self.disk.append_to(&self.path(number))?;
            self.next_number += 1;
            self.active = Some(file);
            self.directory_changed = true;
            self.segments.push_back(Segment::empty(number));
        }
        let (Some(file), Some(segment)) = (&mut self.active, self.segments.back_mut()) else {
            return Err(io::Error::other("no file is open"));
        };
        let waiting = &self.unsynced[self.written..];
        if let Err(error) = file.append(waiting) {
            // An unknown part of it was written. It is cut off if possible, and nothing is written behind it.
            let path = self.directory.join(format!("{}{:016x}", self.prefix, segment.number));
            let _ = match segment.bytes {
                0 => self.disk.remove(&path),
                length => self.disk.truncate(&path, length),
            };
            // Rewriting everything could need more room than a full disk has, so the bytes already written are synced where they are. If that
            // fails, everything unsynced is written again.
            let _ = self.sync_written();
            self.active = None;
            self.doubtful = true;
            self.segments.retain(|segment| segment.bytes > 0);
            return Err(error);
        }
        segment.bytes += waiting.len() as u64;
        segment.absorb(&self.unwritten);
        self.written = self.unsynced.len();
        self.unwritten = Segment::empty(0);
        Ok(())
    }

    /// Has everything appended so far survive a crash.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.syncs.generation += 1;
        let flushed = self.flush().is_ok();
        if !self.unsynced.is_empty() {
            if flushed && !self.doubtful && self.sync_files().is_ok() {
                self.forget_full(self.full.len());
            } else {
                self.doubtful = true;
                self.rewrite()?;
                self.doubtful = false;
            }
            self.unsynced.clear();
            self.written = 0;
            self.unwritten = Segment::empty(0);
        }
        if self.directory_changed {
            self.disk.sync_directory(&self.directory)?;
            self.directory_changed = false;
        }
        self.note_synced(self.holdings_to_note());
        Ok(())
    }

    /// Starts a [`sync`](Self::sync), so that another thread can wait for the disk; `None` if there is nothing to wait for. After a failure it is
    /// done at once.
    pub(crate) fn begin_sync(&mut self) -> io::Result<Option<SyncJob<D>>> {
        if self.unsynced.is_empty() && !self.directory_changed {
            return Ok(None);
        }
        if self.flush().is_err() || self.doubtful {
            return self.sync().map(|()| None);
        }
        let files = self.full.iter().map(|full| &full.file).chain(&self.active);
        let files = files.map(DiskFile::handle).collect::<io::Result<_>>()?;
        let directory =
            std::mem::take(&mut self.directory_changed).then(|| (self.disk.clone(), self.directory.clone()));
        let (generation, bytes, full) = (self.syncs.generation, self.unsynced.len(), self.full.len());
        let holdings = self.holdings_to_note();
        let failed = self.syncs.failed.clone();
        Ok(Some(SyncJob { files, failed, full, holdings, directory, generation, bytes }))
    }

    /// The other thread has waited.
    pub(crate) fn end_sync(&mut self, synced: Synced) -> io::Result<()> {
        let Synced { result, full, holdings, generation, bytes, directory } = synced;
        match result {
            Ok(()) if generation == self.syncs.generation => {
                let before: usize = self.full.iter().take(full).map(|full| full.bytes).sum();
                self.forget_full(full);
                // The file that was active then may be full by now.
                if let Some(full) = self.full.front_mut() {
                    full.bytes -= bytes - before;
                }
                self.unsynced.drain(..bytes);
                self.written -= bytes;
                self.note_synced(holdings);
            }
            Ok(()) => {}
            Err(_) => {
                self.doubtful = true;
                self.directory_changed |= directory;
            }
        }
        result
    }

    /// Writes the unsynced records to a new file and syncs it. The old files may contain some of them too: readers skip numbers that they have seen,
    /// and [`Spool::open`] puts the files in order.
    fn rewrite(&mut self) -> io::Result<()> {
        let (records, _) = read_records(Bytes::copy_from_slice(&self.unsynced));
        let number = self.next_number;
        let mut file = self.disk.append_to(&self.path(number))?;
        self.next_number += 1;
        self.directory_changed = true;
        if let Err(error) = file.append(&self.unsynced).and_then(|()| file.sync()) {
            // Its lines are written again into another file, and on a full disk such files would accumulate.
            let _ = self.disk.remove(&self.path(number));
            return Err(error);
        }
        let mut segment = Segment::empty(number);
        segment.bytes = self.unsynced.len() as u64;
        let newest_us = self.ledger.newest_us;
        records.iter().for_each(|stored| segment.cover(stored.record.sequence, newest_us));
        self.segments.push_back(segment);
        self.active = Some(file);
        self.full.clear();
        self.syncs.failed.clear();
        Ok(())
    }

    /// The oldest file.
    pub(crate) fn oldest(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// Removes files with all lines settled, that is, below `floor`. The last file stays while it may grow.
    pub(crate) fn remove_below(&mut self, floor: u64) {
        while let Some(segment) = self.segments.front()
            && segment.last < floor
            && !(self.segments.len() == 1 && self.active.is_some())
        {
            self.remove_oldest();
        }
        let gone: Vec<(u64, u64)> = self.ledger.missing.extract_if(.., |(_, last)| *last < floor).collect();
        for (number, _) in gone {
            self.ledger.note(number, Holding::default());
        }
    }

    /// Removes files with all lines settled, even after files that are still needed.
    pub(crate) fn remove_settled(&mut self, settled: &Ranges) {
        if self.doubtful {
            return;
        }
        let grows = self.segments.back().map_or(0, |last| last.number);
        let is_settled = |segment: &Segment| {
            segment.number != grows
                && !self.full.iter().any(|full| full.number == segment.number)
                && segment.runs.iter().all(|&(first, last)| settled.missing(first, last) == 0)
        };
        let gone: Vec<u64> = self.segments.iter().filter(|segment| is_settled(segment)).map(|one| one.number).collect();
        for number in gone {
            self.segments.retain(|segment| segment.number != number);
            self.remove_file(number);
        }
    }

    /// Removes the oldest file, settled or not.
    pub(crate) fn remove_oldest(&mut self) -> Option<Segment> {
        let segment = self.segments.pop_front()?;
        if self.full.front().is_some_and(|full| full.number == segment.number)
            && let Some(full) = self.full.pop_front()
        {
            // Its records need no sync, and a pending sync does not cover the remaining ones.
            self.unsynced.drain(..full.bytes);
            self.written -= full.bytes;
            self.syncs.generation += 1;
        }
        if self.segments.is_empty() {
            self.active = None;
            // None of the removed files contains the unwritten records.
            self.unsynced.drain(..self.written);
            self.written = 0;
            self.doubtful &= !self.unsynced.is_empty();
            self.syncs.generation += 1;
        }
        self.remove_file(segment.number);
        Some(segment)
    }

    /// Removes a file and its index. A file that stays is read again at the next start, and its lines are known to be settled then, or are sent
    /// twice and written once.
    fn remove_file(&mut self, number: u64) {
        if self.ledger.forget(number) {
            let _ = self.disk.remove(&self.path(number));
            let _ = self.disk.remove(&self.index_path(number));
            self.directory_changed = true;
        }
    }

    /// Moves the position past the file that is read now.
    pub(crate) fn skip_file(&self, cursor: &mut Cursor) {
        let current =
            self.segments.iter().find(|segment| segment.number >= cursor.segment && segment.bytes > cursor.offset);
        if let Some(segment) = current {
            *cursor = Cursor { segment: segment.number, offset: segment.bytes };
        }
    }

    /// All records with at least this number. Numbers may come twice.
    pub(crate) fn records_from(&self, number: u64) -> io::Result<Vec<Stored>> {
        let mut found = Vec::new();
        for segment in self.segments.iter().filter(|segment| segment.last >= number) {
            let mut cursor = Cursor { segment: segment.number, offset: 0 };
            while cursor.segment == segment.number && cursor.offset < segment.bytes {
                let records = self.read(&mut cursor)?;
                if cursor.segment == segment.number {
                    found.extend(records.into_iter().filter(|stored| stored.record.sequence >= number));
                }
            }
        }
        Ok(found)
    }

    /// The next records, in the order in which they were written; none if there are none yet. Numbers may come twice.
    pub(crate) fn read(&self, cursor: &mut Cursor) -> io::Result<Vec<Stored>> {
        let from = cursor.segment;
        for segment in self.segments.iter().filter(|segment| segment.number >= from) {
            if segment.number > cursor.segment {
                *cursor = Cursor { segment: segment.number, offset: 0 };
            }
            if cursor.offset >= segment.bytes {
                continue;
            }
            let wanted = usize::try_from(segment.bytes - cursor.offset).unwrap_or(usize::MAX).min(READ_BYTES);
            let bytes = self.disk.read_at(&self.path(segment.number), cursor.offset, wanted)?;
            let (records, taken) = read_records(Bytes::from(bytes));
            if records.is_empty() {
                // The rest of the file is damaged. The reader sees the gap in the numbers.
                cursor.offset = segment.bytes;
                continue;
            }
            cursor.offset += taken;
            return Ok(records);
        }
        Ok(Vec::new())
    }
}

impl Segment {
    fn empty(number: u64) -> Self {
        Self { number, bytes: 0, first: u64::MAX, last: 0, newest_us: 0, runs: Vec::new() }
    }

    fn cover(&mut self, sequence: u64, taken_us: u64) {
        self.cover_run(sequence, sequence);
        self.newest_us = self.newest_us.max(taken_us);
    }

    fn lines(&self) -> u64 {
        self.runs.iter().map(|&(first, last)| last - first + 1).sum()
    }

    fn holding(&self) -> Holding {
        Holding { first: self.first, last: self.last, lines: self.lines(), newest_us: self.newest_us }
    }

    fn cover_run(&mut self, first: u64, last: u64) {
        self.first = self.first.min(first);
        self.last = self.last.max(last);
        match self.runs.last_mut() {
            Some(run) if run.1 + 1 == first => run.1 = last,
            _ => self.runs.push((first, last)),
        }
    }

    /// What `other` says is in this file, too.
    fn absorb(&mut self, other: &Self) {
        other.runs.iter().for_each(|&(first, last)| self.cover_run(first, last));
        self.newest_us = self.newest_us.max(other.newest_us);
    }
}

/// Whether a file of this name in the folder of a spool holds lines.
pub(crate) fn is_file_of_lines(name: &str) -> bool {
    name.starts_with("lines-") && !name.ends_with(INDEX_SUFFIX)
}

/// A record behind its length and checksum.
fn put_framed(record: &[u8], into: &mut Vec<u8>) {
    into.extend_from_slice(&u32::try_from(record.len()).unwrap_or(u32::MAX).to_be_bytes());
    into.extend_from_slice(&checksum(record).to_be_bytes());
    into.extend_from_slice(record);
}

pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    u32::try_from(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes)).unwrap_or_default()
}

/// Returns the complete and undamaged records at the beginning, and their length in bytes.
fn read_records(mut bytes: Bytes) -> (Vec<Stored>, u64) {
    let (mut records, before) = (Vec::new(), bytes.len());
    while bytes.len() >= FRAME_BYTES {
        let mut frame = bytes.clone();
        let (length, sum) = (frame.get_u32() as usize, frame.get_u32());
        if length > RECORD_BYTES_MAX || length > frame.len() {
            break;
        }
        let body = frame.split_to(length);
        let Some(record) = Record::decode(&body).filter(|_| checksum(&body) == sum) else { break };
        records.push(Stored { record, bytes: body });
        bytes = frame;
    }
    (records, (before - bytes.len()) as u64)
}

/// Reads a file of a spool as far as it makes sense, for tests that throw any bytes at it.
pub fn readable_records(bytes: &[u8]) -> usize {
    read_records(Bytes::copy_from_slice(bytes)).0.len()
}

#[cfg(test)]
mod tests;
