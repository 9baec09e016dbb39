//! Unread bytes of each stream, and the discarded streams.

use crate::stream_table::StreamTable;
use crate::wire::StreamId;

/// Overhead counted for each message.
pub(super) const MESSAGE_BYTES: usize = 64;

/// Set for a discarded stream; the other bits count its unread bytes.
const DISCARDED: u32 = 1 << 31;

/// The unread bytes of each stream. It exists only where `Limits::stream_unread_bytes_max` is set or a stream is discarded: 4 bytes for each
/// stream in use, at most 256 KiB.
#[derive(Debug)]
pub(super) struct Unread {
    bytes_max: usize,
    streams: StreamTable<u32>,
    /// Streams that have reached the limit and were not reported yet.
    overrun: Vec<StreamId>,
}

impl Unread {
    pub(super) fn new(bytes_max: Option<usize>) -> Self {
        Self { bytes_max: bytes_max.unwrap_or(usize::MAX), streams: StreamTable::new(), overrun: Vec::new() }
    }

    /// Counts a message that is to be queued. Returns whether it is: its stream is not discarded, and holds no more than the limit. A stream
    /// that reaches the limit is discarded from here on, so that the application has its messages up to here without a hole.
    #[cold]
    pub(super) fn admits(&mut self, stream: StreamId, payload_bytes: usize) -> bool {
        let state = self.streams.get_mut(stream);
        if *state & DISCARDED != 0 {
            return false;
        }
        let bytes = *state as usize + payload_bytes + MESSAGE_BYTES;
        if *state > 0 && bytes > self.bytes_max {
            *state |= DISCARDED;
            self.overrun.push(stream);
            return false;
        }
        *state = count(bytes);
        true
    }

    /// The application has fetched a message.
    #[cold]
    pub(super) fn fetched(&mut self, stream: StreamId, payload_bytes: usize) {
        let state = self.streams.get_mut(stream);
        let bytes = (*state & !DISCARDED) as usize;
        *state = *state & DISCARDED | count(bytes.saturating_sub(payload_bytes + MESSAGE_BYTES));
    }

    /// Messages of the stream are dropped from here on, and none of it is queued any more.
    pub(super) fn discard(&mut self, stream: StreamId) {
        *self.streams.get_mut(stream) = DISCARDED;
    }

    /// Messages of the stream are queued again.
    pub(super) fn resume(&mut self, stream: StreamId) {
        if self.streams.get(stream) & DISCARDED != 0 {
            *self.streams.get_mut(stream) &= !DISCARDED;
        }
    }

    /// As [`resume`](Self::resume), all streams. `queued` are the messages in the queue, by stream and payload bytes.
    pub(super) fn resume_all(&mut self, queued: impl Iterator<Item = (StreamId, usize)>) {
        self.streams.clear();
        for (stream, payload_bytes) in queued {
            let state = self.streams.get_mut(stream);
            *state = count(*state as usize + payload_bytes + MESSAGE_BYTES);
        }
    }

    /// The next stream that has reached the limit.
    pub(super) fn poll_overrun(&mut self) -> Option<StreamId> {
        self.overrun.pop()
    }
}

fn count(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX).min(DISCARDED - 1)
}
