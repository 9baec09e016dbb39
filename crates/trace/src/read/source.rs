//! The bytes of a file, and the position in them.

use std::io::{ErrorKind, Read};

use super::{Order, ReadError, block};
use crate::compression::Expanded;

/// Bytes requested at once.
const CHUNK_BYTES: usize = 1 << 18;

/// A window of the file that moves from record to record.
#[derive(Debug)]
pub(super) struct Source<R: Read> {
    inner: Expanded<R>,
    window: Vec<u8>,
    /// The current record begins here in the window...
    start: usize,
    /// ... its consumed part ends here...
    position: usize,
    /// ... and its filled part ends here.
    end: usize,
    /// Start of the current record in the file, expanded if it is compressed.
    pub(super) record_start: u64,
}

impl<R: Read> Source<R> {
    pub(super) fn new(inner: R) -> Result<Self, ReadError> {
        Ok(Self { inner: Expanded::new(inner)?, window: Vec::new(), start: 0, position: 0, end: 0, record_start: 0 })
    }

    pub(super) fn damaged(&self, problem: &'static str) -> ReadError {
        ReadError::Damaged { offset: self.record_start, problem }
    }

    /// Leaves the current record. Returns whether another begins.
    pub(super) fn begin(&mut self) -> Result<bool, ReadError> {
        self.record_start = self.record_start.saturating_add((self.position - self.start) as u64);
        self.start = self.position;
        self.has(1)
    }

    /// Returns the next `len` bytes of the current record.
    pub(super) fn take(&mut self, len: usize) -> Result<&[u8], ReadError> {
        if !self.has(len)? {
            return Err(ReadError::CutOff { offset: self.record_start });
        }
        let from = self.position;
        self.position += len;
        Ok(self.window.get(from..self.position).unwrap_or_default())
    }

    /// Returns the `len` bytes before the position.
    pub(super) fn taken(&self, len: usize) -> &[u8] {
        self.window.get(self.position.saturating_sub(len)..self.position).unwrap_or_default()
    }

    /// Reads the rest of a block of `len` bytes, at most `max`, after the first `read`, and the length at its end. Returns the body.
    pub(super) fn block_body(&mut self, len: u32, read: u32, order: Order, max: u32) -> Result<&[u8], ReadError> {
        if !len.is_multiple_of(4) || !(block::FRAME_BYTES + read..=max).contains(&len) {
            return Err(self.damaged("a block whose length makes no sense"));
        }
        let body_bytes = usize::try_from(len - block::FRAME_BYTES - read).unwrap_or(usize::MAX);
        let again = self.take(body_bytes + 4)?.get(body_bytes..).unwrap_or_default();
        if order.u32_at(again, 0) != len {
            return Err(self.damaged("a block whose two lengths differ"));
        }
        Ok(self.taken(body_bytes + 4).get(..body_bytes).unwrap_or_default())
    }

    /// Reads until `len` more bytes are known; `false` if the file ends before.
    #[inline]
    fn has(&mut self, len: usize) -> Result<bool, ReadError> {
        if self.end - self.position >= len { Ok(true) } else { self.fill(len) }
    }

    #[cold]
    #[inline(never)]
    fn fill(&mut self, len: usize) -> Result<bool, ReadError> {
        while self.end - self.position < len {
            if self.start > 0 {
                self.window.copy_within(self.start..self.end, 0);
                (self.position, self.end) = (self.position - self.start, self.end - self.start);
                self.start = 0;
            }
            // A false length allocates no more memory than there are bytes.
            if self.window.len() < self.end + CHUNK_BYTES / 2 {
                self.window.resize(self.end + CHUNK_BYTES, 0);
            }
            match self.inner.read(self.window.get_mut(self.end..).unwrap_or_default()) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    let offset = self.record_start.saturating_add((self.end - self.start) as u64);
                    return Err(ReadError::Io { offset, source });
                }
            }
        }
        Ok(true)
    }
}
