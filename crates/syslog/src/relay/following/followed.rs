//! One followed file: reads on from an offset, and notices when the bytes before it have changed.

use std::io;

use super::tree::{Stat, TreeFile, bytes_before};
use crate::framing::{Frame, Framer};
use crate::positions::{FileId, SavedFile, TAIL_BYTES, Tail};

/// Bytes that are kept of those that were read, to recognise copies that were made meanwhile.
const RECENT_BYTES: usize = 16 << 10;

/// The result of reading on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Read,
    AtEnd,
    /// The bytes read so far are not in the file any more: it was truncated, and possibly written again.
    Rewritten,
}

/// An open file.
pub(super) struct Followed<F> {
    pub(super) file: F,
    pub(super) id: FileId,
    /// The offset at which the framer started.
    start: u64,
    framer: Framer,
    /// Bytes read from `start` on.
    read: u64,
    /// The bytes before the read offset, as they were read: at least a [`Tail`], and those that are no line yet.
    recent: Vec<u8>,
    pub(super) modified_ns: u64,
    /// When bytes were last read.
    pub(super) grew_us: u64,
    pub(super) is_rotated: bool,
    /// It was read to its end and has no name: a later process cannot open it.
    pub(super) is_unreachable: bool,
}

impl<F: TreeFile> Followed<F> {
    /// Starts at an offset, or at the beginning if the file has become shorter.
    pub(super) fn begin(file: F, stat: &Stat, offset: u64, bytes_max: usize, now_us: u64) -> io::Result<Self> {
        let (offset, recent) = match bytes_before(&file, offset, TAIL_BYTES)? {
            Some(recent) => (offset, recent),
            None => (0, Vec::new()),
        };
        Ok(Self {
            file,
            id: stat.id,
            start: offset,
            framer: Framer::of_file(bytes_max, false),
            read: 0,
            recent,
            modified_ns: stat.modified_ns,
            grew_us: now_us,
            is_rotated: false,
            is_unreachable: false,
        })
    }

    /// Continues at a saved position. Returns whether the file still has the bytes before it; if not, it is read from its beginning.
    pub(super) fn resume(
        file: F,
        stat: &Stat,
        saved: &SavedFile,
        bytes_max: usize,
        now_us: u64,
    ) -> io::Result<(Self, bool)> {
        let mut followed = Self::begin(file, stat, saved.offset, bytes_max, now_us)?;
        let is_whole =
            followed.start == saved.offset && (saved.tail.is_empty() || saved.tail == Tail::of(&followed.recent));
        if is_whole {
            followed.framer = Framer::of_file(bytes_max, saved.in_cut_line);
        } else {
            (followed.start, followed.recent) = (0, Vec::new());
        }
        Ok((followed, is_whole))
    }

    /// Returns the file as one that is rotated or not.
    pub(super) fn rotated(self, is_rotated: bool) -> Self {
        Self { is_rotated, ..self }
    }

    /// The offset of the next byte to read.
    pub(super) fn offset(&self) -> u64 {
        self.start + self.read
    }

    /// The bytes before [`offset`](Self::offset).
    pub(super) fn tail(&self) -> Tail {
        Tail::of(&self.recent)
    }

    /// Whether bytes were read that are no line yet.
    pub(super) fn has_pending(&self) -> bool {
        self.framer.pending_bytes() > 0
    }

    /// Reads a piece. A file that still has the bytes read before, after this piece was read, had them while it was read.
    pub(super) fn read(&mut self, buffer: &mut [u8], now_us: u64, lines: &mut Vec<Frame>) -> io::Result<Progress> {
        let length = self.file.read_at(buffer, self.offset())?;
        // Copies of these bytes are not older than their last change.
        let stat = self.file.stat()?;
        if !self.has_tail()? {
            return Ok(Progress::Rewritten);
        }
        if length == 0 {
            self.is_unreachable = stat.links == 0;
            return Ok(Progress::AtEnd);
        }
        self.read += length as u64;
        (self.grew_us, self.modified_ns) = (now_us, stat.modified_ns);
        self.is_unreachable = false;
        self.recent.extend_from_slice(&buffer[..length]);
        self.framer.push(&buffer[..length]);
        // A stream of lines has no framing errors.
        lines.extend(std::iter::from_fn(|| self.framer.next_frame()).filter_map(Result::ok));
        let kept = (RECENT_BYTES + self.framer.pending_bytes()).min(self.recent.len());
        self.recent.drain(..self.recent.len() - kept);
        Ok(Progress::Read)
    }

    /// Whether the file still has the bytes read before, or cannot be read.
    pub(super) fn is_whole(&self) -> bool {
        self.has_tail().unwrap_or(true)
    }

    fn has_tail(&self) -> io::Result<bool> {
        let tail = &self.recent[self.recent.len().saturating_sub(TAIL_BYTES)..];
        Ok(bytes_before(&self.file, self.offset(), tail.len())?.is_some_and(|bytes| bytes == tail))
    }

    /// Whether all bytes of another file are among those that were read.
    pub(super) fn has_read(&self, copy: &F, stat: &Stat) -> bool {
        let behind = self.offset().checked_sub(stat.length).and_then(|behind| usize::try_from(behind).ok());
        let Some(end) = behind.and_then(|behind| self.recent.len().checked_sub(behind)) else { return false };
        let tail = &self.recent[end.saturating_sub(TAIL_BYTES)..end];
        let bytes = bytes_before(copy, stat.length, TAIL_BYTES).ok().flatten();
        !tail.is_empty() && bytes.is_some_and(|bytes| bytes == tail)
    }

    /// Counts the last line in spite of its missing line feed. `is_cut` says whether its rest is lost.
    pub(super) fn finish_line(&mut self, is_cut: bool, lines: &mut Vec<Frame>) {
        let rest = std::iter::from_fn(|| self.framer.finish()).filter_map(Result::ok);
        lines.extend(rest.map(|frame| Frame { cut: frame.cut || is_cut, ..frame }));
    }

    /// Continues in a copy. Returns the file that was read so far.
    pub(super) fn move_to(&mut self, copy: F, stat: &Stat) -> F {
        self.id = stat.id;
        std::mem::replace(&mut self.file, copy)
    }

    /// The position behind the lines that were taken.
    pub(super) fn saved(&self) -> SavedFile {
        let taken = self.recent.len() - self.framer.pending_bytes();
        SavedFile {
            id: self.id,
            offset: self.start + self.framer.consumed_bytes(),
            in_cut_line: self.framer.is_in_cut_line(),
            is_rotated: self.is_rotated,
            is_finished: false,
            modified_ns: self.modified_ns,
            tail: Tail::of(&self.recent[..taken]),
        }
    }
}
