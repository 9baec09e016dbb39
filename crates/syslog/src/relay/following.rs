//! Follows a growing file through rotations, without sockets or threads: each line once, even across restarts.
//!
//! | event | effect |
//! |---|---|
//! | the file is renamed and a new one has its name | both are read, the old one until it has not grown for a minute |
//! | it was rotated several times between two checks, or while the relay was down | the intermediate files are found in the same directory: new names with a number or date, of files that are no copies |
//! | it is truncated or rewritten | it is read from its beginning; its copy (`copytruncate`) is read from the position; without a copy, the loss is counted |
//! | it is replaced by a copy of itself | the copy is read from the position |
//! | it is gone when the relay starts | the loss is counted |
//! | it is a link | the folder of its target is searched as well |
//! | its last line has no line feed | the line counts a second after the last write to a rotated file, or when the relay stops |
//! | a line starts with NULs | they are skipped: a file that was truncated under its writer begins with a hole |
//!
//! Names say nothing about a file that was opened before: device, inode and birth time identify it. The position of a line is that of its last byte.
//! Everything can change between two calls of the system, so no two of them are taken for one: a file is identified after it was opened, its older
//! bytes are compared after new ones were read, and folders are listed until two lists are equal.

mod folders;
mod followed;
mod search;
mod tree;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::framing::Frame;
use crate::notice::Notice;
use crate::positions::{FileId, Position, SavedFile};
use folders::{Folders, Sibling};
use followed::{Followed, Progress};
use tree::{RealTree, Stat, Tree};

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// Maximum number of files read at the same time: the present one, and rotated ones whose writers may still have them open.
const FILES_MAX: usize = 16;

/// Files that are not open and whose positions are remembered: rotated ones that were read to their end.
const RESTING_MAX: usize = 32;

/// Other files in the directory that are remembered over a restart: the newest.
const KNOWN_MAX: usize = 64;

/// An unfinished last line of a rotated file counts after this time without more, in microseconds.
const FINISH_AFTER_US: u64 = 1_000_000;

/// A rotated file is closed after this time without more, in microseconds.
const CLOSE_AFTER_US: u64 = 60_000_000;

/// An unfinished last line counts when the relay stops, unless its writer has just written: then it is read at the next start.
const UNFINISHED_US: u64 = 150_000;

/// Consecutive lines, and the position after them.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) lines: Vec<Frame>,
    pub(super) position: Position,
}

/// The recipients of reports about followed files.
#[derive(Clone)]
pub(super) struct Reports {
    pub(super) notice: Notice,
    /// Times that unread lines of a file may have been lost.
    pub(super) losses: Arc<AtomicU64>,
}

/// Follows one file.
pub(super) struct Follower<T: Tree = RealTree> {
    folders: Folders<T>,
    bytes_max: usize,
    /// The oldest first. The last one has the followed name, unless it is rotated.
    files: VecDeque<Followed<T::File>>,
    /// Files of the input that are not open: finished ones, and those that were not found yet. They continue at their positions.
    resting: VecDeque<SavedFile>,
    /// Other files in the directory, which are not read, and when they had last changed; `None` if that is unknown.
    known: BTreeMap<FileId, Option<u64>>,
    /// Files that were born before the first or last changed before the second of these times were there when the relay stopped.
    new_since: (u64, u64),
    /// Times that unread lines may have been lost.
    losses: u64,
    /// Counts of lines after the initial position that are already in the spool.
    spooled: HashMap<Bytes, u64>,
    buffer: Vec<u8>,
    changed: bool,
    /// The last reported error of a file that cannot be read.
    problem: Option<String>,
    reports: Reports,
}

impl Follower {
    /// Starts at the end of an existing file, or at the beginning of one created later. `now_us` is in microseconds of a monotonic clock.
    pub(super) fn new(path: &Path, bytes_max: usize, reports: Reports, now_us: u64) -> Self {
        Self::new_in(RealTree, path, bytes_max, reports, now_us)
    }

    /// Resumes at a position. Lines in `spooled` after it were already taken.
    pub(super) fn resume(
        path: &Path,
        bytes_max: usize,
        position: &Position,
        spooled: HashMap<Bytes, u64>,
        reports: Reports,
        now_us: u64,
    ) -> Self {
        let follower = Self::empty(RealTree, path, bytes_max, reports);
        follower.resume_at(position, spooled, now_us)
    }
}

impl<T: Tree> Follower<T> {
    fn new_in(tree: T, path: &Path, bytes_max: usize, reports: Reports, now_us: u64) -> Self {
        let mut follower = Self::empty(tree, path, bytes_max, reports);
        let survey = follower.survey();
        follower.known = survey.siblings.iter().map(Sibling::known).collect();
        if let Some((file, stat)) = follower.checked(survey.present) {
            follower.begin(file, &stat, stat.length, false, now_us);
        }
        follower
    }

    fn resume_at(mut self, position: &Position, spooled: HashMap<Bytes, u64>, now_us: u64) -> Self {
        self.spooled = spooled;
        self.resting = position.files.iter().copied().collect();
        self.known = position.known.iter().map(|id| (*id, None)).collect();
        let born_ns = position.files.iter().map(|saved| saved.id.born_ns).max();
        // A rotated file may still have been written when the next one was rotated.
        let present = position.files.iter().filter(|saved| !saved.is_rotated || saved.id == FileId::default());
        let modified_ns = present.map(|saved| saved.modified_ns).max();
        self.new_since = (born_ns.unwrap_or_default(), modified_ns.unwrap_or_default());
        self.look_at_folders(now_us, &mut Vec::new());
        self
    }

    fn empty(tree: T, path: &Path, bytes_max: usize, reports: Reports) -> Self {
        Self {
            folders: Folders::new(tree, path),
            bytes_max,
            files: VecDeque::new(),
            resting: VecDeque::new(),
            known: BTreeMap::new(),
            new_since: (0, 0),
            losses: 0,
            spooled: HashMap::new(),
            buffer: vec![0; READ_BYTES],
            changed: true,
            problem: None,
            reports,
        }
    }

    /// Continues reading. Returns `None` if there is nothing new. `now_us` is in microseconds of a monotonic clock.
    pub(super) fn read(&mut self, now_us: u64) -> Option<Gathered> {
        let mut lines = Vec::new();
        // Lines of the spool are behind the recorded position, which must not move until all of them were read again.
        let is_again = !self.spooled.is_empty();
        if is_again && self.folders.must_repeat() {
            self.look_at_folders(now_us, &mut lines);
        }
        let (mut index, mut is_read) = (0, !lines.is_empty());
        while index < self.files.len() && (is_again || !is_read) {
            let id = self.files[index].id;
            is_read |= self.read_file(index, now_us, &mut lines);
            // If a copy has taken its place, the lines are there.
            index += usize::from(self.files.get(index).is_some_and(|followed| followed.id == id));
        }
        if is_read {
            return Some(self.gather(lines));
        }
        self.look(now_us, &mut lines);
        let is_new = !lines.is_empty() || std::mem::take(&mut self.changed);
        if !is_new && !self.has_unread() {
            // The others were in bytes that are lost: an equal line that comes later is another one.
            self.spooled.clear();
        }
        is_new.then(|| self.gather(lines))
    }

    /// Returns the unfinished line when the relay stops, unless its writer has just written.
    pub(super) fn finish(&mut self, now_us: u64) -> Option<Gathered> {
        let mut lines = Vec::new();
        for followed in &mut self.files {
            if followed.grew_us.saturating_add(UNFINISHED_US) <= now_us {
                followed.finish_line(false, &mut lines);
            }
        }
        (!lines.is_empty()).then(|| self.gather(lines))
    }

    /// Whether lines from before the start may not have been read again yet.
    fn has_unread(&self) -> bool {
        self.files.iter().any(|followed| followed.is_rotated && followed.has_pending()) || self.folders.must_repeat()
    }

    fn gather(&mut self, mut lines: Vec<Frame>) -> Gathered {
        self.changed = false;
        if !self.spooled.is_empty() {
            lines.retain(|line| match self.spooled.get_mut(&line.bytes) {
                Some(times) => {
                    *times -= 1;
                    if *times == 0 {
                        self.spooled.remove(&line.bytes);
                    }
                    false
                }
                None => true,
            });
        }
        Gathered { lines, position: self.position() }
    }

    fn position(&self) -> Position {
        let open = self.files.iter().map(|followed| {
            let saved = followed.saved();
            if followed.is_unreachable { saved.lost() } else { saved }
        });
        let open = open.filter(|saved| saved.id != FileId::default() || saved.offset > 0);
        // Without a time of birth, a later file could be mistaken for a known one that was removed.
        let known = self.known.keys().rev().filter(|id| id.born_ns > 0 && self.resting_at(**id).is_none());
        Position {
            files: self.resting.iter().copied().chain(open).collect(),
            known: known.take(KNOWN_MAX).copied().collect(),
        }
    }

    /// Reads a piece of a file. Returns whether there was one, or whether the file begins again.
    fn read_file(&mut self, index: usize, now_us: u64, lines: &mut Vec<Frame>) -> bool {
        if self.has_become_copy(index) {
            self.close(index, lines);
            return true;
        }
        match self.files[index].read(&mut self.buffer, now_us, lines) {
            Ok(Progress::Read) => {
                self.problem = None;
                true
            }
            Ok(Progress::AtEnd) => false,
            Ok(Progress::Rewritten) => {
                self.replace_rewritten(index, now_us, lines);
                true
            }
            Err(error) => {
                self.complain(&error);
                false
            }
        }
    }

    /// All files are read to their end: checks for a new one, and closes old ones.
    fn look(&mut self, now_us: u64, lines: &mut Vec<Frame>) {
        self.look_at_folders(now_us, lines);
        for followed in &mut self.files {
            if followed.is_rotated && followed.grew_us.saturating_add(FINISH_AFTER_US) <= now_us {
                followed.finish_line(false, lines);
            }
        }
        while let Some(oldest) = self.files.front()
            && oldest.is_rotated
            && (self.files.len() >= FILES_MAX || oldest.grew_us.saturating_add(CLOSE_AFTER_US) <= now_us)
        {
            // It may have grown since it was read.
            if self.read_file(0, now_us, lines) {
                return;
            }
            self.close(0, lines);
        }
    }

    /// Ends the reading of a file.
    fn close(&mut self, index: usize, lines: &mut Vec<Frame>) {
        if let Some(mut closed) = self.files.remove(index) {
            closed.finish_line(false, lines);
            self.rest(SavedFile { is_finished: true, ..closed.saved() });
        }
    }

    /// Remembers the position of a file.
    fn rest(&mut self, saved: SavedFile) {
        self.known.insert(saved.id, None);
        self.put_aside(saved);
    }

    fn put_aside(&mut self, saved: SavedFile) {
        self.resting.push_back(saved);
        while self.resting.len() > RESTING_MAX
            && let Some(oldest) = self.resting.iter().position(|saved| saved.is_finished)
        {
            self.resting.remove(oldest);
        }
        self.changed = true;
    }

    fn resting_at(&self, id: FileId) -> Option<usize> {
        self.resting.iter().position(|saved| saved.id == id)
    }

    fn current(&self) -> Option<FileId> {
        self.files.back().filter(|last| !last.is_rotated).map(|last| last.id)
    }

    fn has(&self, id: FileId) -> bool {
        self.files.iter().any(|followed| followed.id == id)
    }

    /// Starts to read a file at an offset.
    fn begin(&mut self, file: T::File, stat: &Stat, offset: u64, is_rotated: bool, now_us: u64) {
        match Followed::begin(file, stat, offset, self.bytes_max, now_us) {
            Ok(followed) => self.add(followed.rotated(is_rotated)),
            Err(error) => self.complain(&error),
        }
    }

    /// Adds a file behind the others.
    fn add(&mut self, followed: Followed<T::File>) {
        self.resting.retain(|saved| saved.id != followed.id);
        self.known.remove(&followed.id);
        self.files.push_back(followed);
        self.changed = true;
    }

    /// Counts a loss of lines whose number is unknown, and reports the 1st, 2nd, 4th, 8th...
    fn lose(&mut self, cause: &str) {
        self.losses += 1;
        self.reports.losses.fetch_add(1, Ordering::Relaxed);
        if self.losses.is_power_of_two() {
            let (path, times) = (self.folders.path().display(), self.losses);
            (self.reports.notice)(&format!("{path} {cause} ({times} times so far)"));
        }
    }

    /// Returns a file that was opened, or reports why it was not.
    fn checked<F>(&mut self, opened: io::Result<Option<F>>) -> Option<F> {
        opened.unwrap_or_else(|error| {
            self.complain(&error);
            None
        })
    }

    /// Reports an error once.
    fn complain(&mut self, error: &io::Error) {
        let problem = format!("cannot read {}: {error}", self.folders.path().display());
        if self.problem.as_ref() != Some(&problem) {
            (self.reports.notice)(&problem);
            self.problem = Some(problem);
        }
    }
}

#[cfg(test)]
mod tests;
