//! Follows a growing file through rotations, without sockets or threads: each line once, even across restarts.
//!
//! | event | effect |
//! |---|---|
//! | the file is renamed and a new one has its name | both are read, the old one as long as its writer keeps it open |
//! | it was rotated several times between two checks, or while the relay was down | the intermediate files are found in the same directory: new names that start with its name |
//! | it is truncated (`copytruncate`) | it is read from its beginning |
//! | it was copied and truncated while the relay was down | its copy is read from the position, and the file from its beginning |
//! | its last line has no line feed | the line counts a second after the last write to a rotated file, or when the relay stops |
//!
//! The position of a line is that of its last byte. A [`Position`] identifies files by properties that survive renaming.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use festina_units::duration;

use super::Notice;
use crate::disk::NONBLOCK;
use crate::framing::{Frame, Framer, Framing};
use crate::positions::{FileId, Position, SavedFile, Tail};

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// Maximum number of files read at the same time: the present one, and rotated ones whose writers may still have them open.
const FILES_MAX: usize = 16;

/// Rotated files that were read to their end and are remembered over a restart.
const FINISHED_MAX: usize = 32;

/// Other files in the directory that are remembered over a restart: the newest.
const KNOWN_MAX: usize = 64;

/// Maximum number of names in the directory that are checked.
const NAMES_MAX: usize = 65_536;

/// An unfinished last line of a rotated file counts after this time without more, in microseconds.
const FINISH_AFTER_US: u64 = 1_000_000;

/// A rotated file is closed after this time without more, in microseconds.
const CLOSE_AFTER_US: u64 = 60_000_000;

/// An unfinished last line counts when the relay stops, unless its writer has just written: then it is read at the next start.
const UNFINISHED_US: u64 = 150_000;

/// Suffixes of compressed copies of other files.
const COMPRESSED: [&str; 8] = [".gz", ".zst", ".bz2", ".xz", ".lz4", ".lzma", ".Z", ".zip"];

/// Consecutive lines, and the position after them.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) lines: Vec<Frame>,
    pub(super) position: Position,
}

/// One file.
struct Followed {
    file: File,
    id: FileId,
    /// The offset at which the framer started.
    start: u64,
    framer: Framer,
    /// Bytes read from `start` on.
    read: u64,
    modified_ns: u64,
    /// When bytes were last read.
    grew_us: u64,
    is_rotated: bool,
}

/// Another file in the directory whose name starts with the followed one.
struct Sibling {
    path: PathBuf,
    id: FileId,
    modified_ns: u64,
    /// Where to start to read it, and whether that is in a line that was cut.
    start: (u64, bool),
}

/// Follows one file.
pub(super) struct Follower {
    path: PathBuf,
    bytes_max: usize,
    /// The oldest first. The last one has the followed name, unless it is rotated.
    files: VecDeque<Followed>,
    finished: VecDeque<FileId>,
    /// Other files in the directory that need not be read.
    known: BTreeSet<FileId>,
    /// When names in the directory last changed, as of the last check.
    folder_changed: Option<(i64, i64)>,
    /// Whether a file may have had the name only between two checks.
    unsure: bool,
    /// Counts of lines after the initial position that are already in the spool.
    spooled: HashMap<Bytes, u64>,
    buffer: Vec<u8>,
    changed: bool,
    /// The last reported error of a file that cannot be read.
    problem: Option<String>,
    notice: Notice,
}

impl Follower {
    /// Starts at the end of an existing file, or at the beginning of one created later.
    pub(super) fn new(path: &Path, bytes_max: usize, notice: Notice) -> Self {
        let mut follower = Self::empty(path, bytes_max, notice);
        follower.folder_changed = follower.folder_change();
        follower.known = follower.siblings().iter().map(|sibling| sibling.id).collect();
        if let Some((file, metadata)) = follower.open(path) {
            let id = id_of(&metadata);
            follower.begin(file, &metadata, id, (metadata.len(), false), 0);
        }
        follower
    }

    /// Resumes at a position. Lines in `spooled` after it were already taken.
    pub(super) fn resume(
        path: &Path,
        bytes_max: usize,
        position: &Position,
        spooled: HashMap<Bytes, u64>,
        notice: Notice,
    ) -> Self {
        let mut follower = Self::empty(path, bytes_max, notice);
        follower.spooled = spooled;
        follower.finished = position.finished.iter().copied().take(FINISHED_MAX).collect();
        follower.folder_changed = follower.folder_change();
        let siblings = follower.siblings();
        let mut resumed = Vec::new();
        for saved in &position.files {
            let named = std::iter::once(path).chain(siblings.iter().map(|sibling| &*sibling.path));
            let opened = named.filter_map(|name| follower.open(name).map(|(file, metadata)| (name, file, metadata)));
            let mut opened = opened.filter(|(_, _, metadata)| id_of(metadata) == saved.id);
            let file = opened.next();
            resumed.push(file.map(|(name, file, metadata)| follower.resume_file(file, &metadata, saved, name != path)));
        }
        let newest_ns = position.files.iter().map(|saved| saved.modified_ns).max().unwrap_or_default();
        let (mut new, old): (Vec<_>, Vec<_>) = siblings.into_iter().partition(|sibling| {
            let is_known = follower.has(sibling.id) || position.finished.contains(&sibling.id);
            !is_known && sibling.modified_ns >= newest_ns
        });
        follower.known = old.iter().map(|sibling| sibling.id).collect();
        let mut copies = Vec::new();
        for (saved, is_whole) in position.files.iter().zip(resumed) {
            copies.extend(follower.take_copies(&mut new, saved, is_whole));
        }
        let has_name = follower.files.back().filter(|last| !last.is_rotated).map(|last| last.id);
        if has_name.is_some() && has_name == position.files.last().filter(|last| !last.is_rotated).map(|last| last.id) {
            // Only this file had the name.
            follower.known.extend(new.drain(..).map(|sibling| sibling.id));
        }
        new.extend(copies);
        if follower.take_all(new, 0) {
            follower.look_at_path(0);
        }
        follower
    }

    /// Removes copies of a file from new ones. `is_whole` is whether the file still has the lines before its position; `None` if it is gone. If not,
    /// returns the longest copy, which continues at the position.
    fn take_copies(&mut self, new: &mut Vec<Sibling>, saved: &SavedFile, is_whole: Option<bool>) -> Option<Sibling> {
        let mut longest: Option<(u64, Sibling)> = None;
        for mut sibling in std::mem::take(new) {
            let opened = self.open(&sibling.path).filter(|(_, metadata)| id_of(metadata) == sibling.id);
            let Some((_, metadata)) =
                opened.filter(|(file, _)| saved.tail.is_in(file, saved.offset).is_some_and(|is_in| is_in))
            else {
                new.push(sibling);
                continue;
            };
            sibling.start = (saved.offset, saved.in_cut_line);
            self.known.insert(sibling.id);
            if is_whole != Some(true) && longest.as_ref().is_none_or(|(length, _)| *length < metadata.len()) {
                longest = Some((metadata.len(), sibling));
            }
        }
        match is_whole {
            _ if longest.is_some() => {}
            Some(false) => (self.notice)(&format!(
                "{} was shortened while the relay was down: it is read from its beginning, and lines that were cut off are lost",
                self.path.display()
            )),
            None if !saved.is_rotated => (self.notice)(&format!(
                "the file that had the name {} is gone: lines that it got after the relay had stopped are lost",
                self.path.display()
            )),
            _ => {}
        }
        longest.map(|(_, sibling)| sibling)
    }

    fn empty(path: &Path, bytes_max: usize, notice: Notice) -> Self {
        Self {
            path: path.to_owned(),
            bytes_max,
            files: VecDeque::new(),
            finished: VecDeque::new(),
            known: BTreeSet::new(),
            folder_changed: None,
            unsure: false,
            spooled: HashMap::new(),
            buffer: vec![0; READ_BYTES],
            changed: true,
            problem: None,
            notice,
        }
    }

    /// Returns whether the file still has the lines before the position. If not, it is read from its beginning.
    fn resume_file(&mut self, file: File, metadata: &Metadata, saved: &SavedFile, is_rotated: bool) -> bool {
        let is_whole =
            metadata.len() >= saved.offset && saved.tail.is_in(&file, saved.offset).is_none_or(|is_in| is_in);
        let start = if is_whole { (saved.offset, saved.in_cut_line) } else { (0, false) };
        self.begin(file, metadata, saved.id, start, 0);
        if let Some(followed) = self.files.back_mut() {
            followed.is_rotated = is_rotated;
        }
        is_whole
    }

    /// Continues reading. Returns `None` if there is nothing new. `now_us` is in microseconds of a monotonic clock.
    pub(super) fn read(&mut self, now_us: u64) -> Option<Gathered> {
        let mut lines = Vec::new();
        for index in 0..self.files.len() {
            if self.read_file(index, now_us, &mut lines) {
                return Some(self.gather(lines));
            }
        }
        self.look(now_us, &mut lines);
        let is_new = !lines.is_empty() || std::mem::take(&mut self.changed);
        is_new.then(|| self.gather(lines))
    }

    /// Returns the unfinished line when the relay stops, unless its writer has just written.
    pub(super) fn finish(&mut self, now_us: u64) -> Option<Gathered> {
        let mut lines = Vec::new();
        for index in 0..self.files.len() {
            if self.files[index].grew_us.saturating_add(UNFINISHED_US) <= now_us {
                self.finish_line(index, &mut lines);
            }
        }
        (!lines.is_empty()).then(|| self.gather(lines))
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
        let files = self.files.iter().map(|followed| {
            let offset = followed.start + followed.framer.consumed_bytes();
            SavedFile {
                id: followed.id,
                offset,
                in_cut_line: followed.framer.is_in_cut_line(),
                is_rotated: followed.is_rotated,
                modified_ns: followed.modified_ns,
                tail: Tail::read(&followed.file, offset),
            }
        });
        // Without a time of birth, a later file could be mistaken for a known one that was removed.
        let known = self.known.iter().rev().filter(|id| id.born_ns > 0 && !self.finished.contains(id));
        Position {
            files: files.collect(),
            finished: self.finished.iter().chain(known.take(KNOWN_MAX)).copied().collect(),
        }
    }

    /// Reads a piece of a file. Returns whether there was one.
    fn read_file(&mut self, index: usize, now_us: u64, lines: &mut Vec<Frame>) -> bool {
        let followed = &mut self.files[index];
        let length = match followed.file.read(&mut self.buffer) {
            Ok(0) => return false,
            Ok(length) => length,
            Err(error) => {
                self.complain(&error);
                return false;
            }
        };
        followed.read += length as u64;
        followed.grew_us = now_us;
        if let Ok(metadata) = followed.file.metadata() {
            followed.modified_ns = modified_ns(&metadata);
        }
        followed.framer.push(&self.buffer[..length]);
        // A stream of lines has no framing errors.
        lines.extend(std::iter::from_fn(|| followed.framer.next_frame()).filter_map(Result::ok));
        self.problem = None;
        true
    }

    /// Counts the last line of a file in spite of its missing line feed.
    fn finish_line(&mut self, index: usize, lines: &mut Vec<Frame>) {
        let followed = &mut self.files[index];
        lines.extend(std::iter::from_fn(|| followed.framer.finish()).filter_map(Result::ok));
    }

    /// All files are read to their end: checks for a new one, and closes old ones.
    fn look(&mut self, now_us: u64, lines: &mut Vec<Frame>) {
        self.look_at_path(now_us);
        self.restart_shortened(lines);
        for index in 0..self.files.len() {
            let followed = &self.files[index];
            if followed.is_rotated && followed.grew_us.saturating_add(FINISH_AFTER_US) <= now_us {
                self.finish_line(index, lines);
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
            self.finish_line(0, lines);
            if let Some(closed) = self.files.pop_front() {
                self.known.insert(closed.id);
                self.finished.push_back(closed.id);
                self.finished.drain(..self.finished.len().saturating_sub(FINISHED_MAX));
            }
            self.changed = true;
        }
    }

    /// Checks whether another file has the followed name. Checks again if so: a third file may have had it in between.
    fn look_at_path(&mut self, now_us: u64) {
        self.look_once_at_path(now_us);
        if self.unsure {
            self.look_once_at_path(now_us);
        }
    }

    fn look_once_at_path(&mut self, now_us: u64) {
        let folder_change = self.folder_change();
        let present = self.path.metadata().ok().map(|metadata| id_of(&metadata));
        let current = self.files.back().filter(|last| !last.is_rotated).map(|last| last.id);
        if present == current && current.is_some() && !self.unsure {
            // Any other new file in the directory is a copy, since only this file had the name.
            if folder_change != self.folder_changed {
                self.folder_changed = folder_change;
                let known = self.siblings().iter().map(|sibling| sibling.id).collect();
                self.changed |= known != self.known;
                self.known = known;
            }
            return;
        }
        self.unsure = present != current;
        if self.unsure
            && let Some(last) = self.files.back_mut()
            && !last.is_rotated
        {
            last.is_rotated = true;
            last.grew_us = now_us;
            self.changed = true;
        }
        self.folder_changed = folder_change;
        let siblings = self.siblings();
        let there: BTreeSet<FileId> = siblings.iter().map(|sibling| sibling.id).collect();
        self.known.retain(|id| there.contains(id));
        let is_new = |sibling: &Sibling| !self.known.contains(&sibling.id) && !self.has(sibling.id);
        let new = siblings.into_iter().filter(is_new).collect();
        if !self.take_all(new, now_us) || present == current {
            return;
        }
        let path = self.path.clone();
        if let Some((file, metadata)) = self.open(&path) {
            let id = id_of(&metadata);
            // A file that was renamed back continues at its position.
            let again = self.files.iter().position(|followed| followed.id == id).and_then(|at| self.files.remove(at));
            match again {
                Some(followed) => self.files.push_back(Followed { is_rotated: false, ..followed }),
                None => self.begin(file, &metadata, id, (0, false), now_us),
            }
        }
    }

    /// Starts to read files that had the name between two checks, the oldest first. Returns whether there was room for all of them.
    fn take_all(&mut self, mut files: Vec<Sibling>, now_us: u64) -> bool {
        let has_name = self.files.back().is_some_and(|last| !last.is_rotated);
        let current = if has_name { self.files.pop_back() } else { None };
        let room = FILES_MAX.saturating_sub(self.files.len());
        files.sort_by_key(|sibling| (sibling.modified_ns, sibling.id));
        let has_room = files.len() <= room;
        self.unsure |= !has_room;
        for Sibling { path, id, start, .. } in files.into_iter().take(room) {
            if let Some((file, metadata)) = self.open(&path).filter(|(_, metadata)| id_of(metadata) == id) {
                self.begin(file, &metadata, id, start, now_us);
                if let Some(followed) = self.files.back_mut() {
                    followed.is_rotated = true;
                }
            }
        }
        self.files.extend(current);
        has_room
    }

    /// A file that is shorter than its read position is a different file with the same name.
    fn restart_shortened(&mut self, lines: &mut Vec<Frame>) {
        for index in 0..self.files.len() {
            let followed = &mut self.files[index];
            if followed.file.metadata().is_ok_and(|metadata| metadata.len() < followed.start + followed.read) {
                let begun = followed.file.seek(SeekFrom::Start(0)).is_ok();
                self.finish_line(index, lines);
                let followed = &mut self.files[index];
                if begun {
                    (followed.start, followed.read) = (0, 0);
                    followed.framer = Framer::new(Framing::Newline, self.bytes_max);
                    self.changed = true;
                }
            }
        }
    }

    /// Starts to read a file at an offset, which may be in a line that was cut.
    fn begin(
        &mut self,
        mut file: File,
        metadata: &Metadata,
        id: FileId,
        (offset, in_cut_line): (u64, bool),
        now_us: u64,
    ) {
        if let Err(error) = file.seek(SeekFrom::Start(offset)) {
            return self.complain(&error);
        }
        let framer = match in_cut_line {
            true => Framer::in_cut_line(self.bytes_max),
            false => Framer::new(Framing::Newline, self.bytes_max),
        };
        self.changed = true;
        self.files.push_back(Followed {
            file,
            id,
            start: offset,
            framer,
            read: 0,
            modified_ns: modified_ns(metadata),
            grew_us: now_us,
            is_rotated: false,
        });
    }

    fn has(&self, id: FileId) -> bool {
        self.files.iter().any(|followed| followed.id == id)
    }

    /// Opens a file without blocking on FIFOs and the like.
    fn open(&mut self, path: &Path) -> Option<(File, Metadata)> {
        let opened = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path);
        match opened.and_then(|file| file.metadata().map(|metadata| (file, metadata))) {
            Ok((file, metadata)) if metadata.is_file() => Some((file, metadata)),
            Ok(_) => {
                self.complain(&io::Error::other("not a regular file"));
                None
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                self.complain(&error);
                None
            }
        }
    }

    /// Reports an error once.
    fn complain(&mut self, error: &io::Error) {
        let problem = format!("cannot read {}: {error}", self.path.display());
        if self.problem.as_ref() != Some(&problem) {
            (self.notice)(&problem);
            self.problem = Some(problem);
        }
    }

    fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
    }

    fn folder_change(&self) -> Option<(i64, i64)> {
        self.folder().metadata().ok().map(|metadata| (metadata.mtime(), metadata.mtime_nsec()))
    }

    /// Regular files in the directory whose names start with the followed name, except compressed ones.
    fn siblings(&self) -> Vec<Sibling> {
        let (Some(name), Ok(folder)) = (self.path.file_name(), self.folder().read_dir()) else { return Vec::new() };
        let name = name.as_encoded_bytes();
        let names = folder.take(NAMES_MAX).flatten().map(|entry| entry.file_name());
        let rotated = names.filter(|other| {
            let other = other.as_encoded_bytes();
            other.len() > name.len()
                && other.starts_with(name)
                && !COMPRESSED.iter().any(|end| other.ends_with(end.as_bytes()))
        });
        let files = rotated.filter_map(|name| {
            let path = self.folder().join(name);
            let metadata = path.symlink_metadata().ok().filter(Metadata::is_file)?;
            Some(Sibling { path, id: id_of(&metadata), modified_ns: modified_ns(&metadata), start: (0, false) })
        });
        files.collect()
    }
}

/// Identifies a file under any name. If the file system records no birth time, a reused inode number looks like the same file.
fn id_of(metadata: &Metadata) -> FileId {
    let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    FileId {
        device: metadata.dev(),
        inode: metadata.ino(),
        born_ns: born.map(duration::saturating_nanos).unwrap_or_default(),
    }
}

fn modified_ns(metadata: &Metadata) -> u64 {
    let seconds = u64::try_from(metadata.mtime()).unwrap_or_default();
    let nanos = u64::try_from(metadata.mtime_nsec()).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(test)]
mod tests;
