//! The advertised receiver window (RFC 9260 §6.2): how much may still come.

use crate::config::Limits;

/// What every buffered chunk or message costs besides its payload, so that messages of one byte cannot take more memory than
/// the receive buffer's size suggests: about the size of its entry in a queue and of the allocator's own.
pub(super) const CHUNK_OVERHEAD_BYTES: usize = 64;

/// The window for a given use of the receive buffer, and what the peer was told.
#[derive(Debug)]
pub(super) struct Window {
    buffer_bytes: usize,
    /// A window smaller than this counts as closed: the receiver's side of silly-window avoidance (RFC 1122 §4.2.3.3).
    open_bytes_min: usize,
    advertised_bytes: usize,
}

impl Window {
    pub(super) fn new(limits: &Limits) -> Self {
        let buffer_bytes = limits.receive_buffer_bytes;
        Self {
            buffer_bytes,
            open_bytes_min: limits.packet_bytes_max.min(buffer_bytes / 4).max(1),
            advertised_bytes: buffer_bytes,
        }
    }

    pub(super) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// What may still come while `used_bytes` are held: nothing, or at least the smallest window worth telling.
    #[inline]
    pub(super) fn open_bytes(&self, used_bytes: usize) -> usize {
        let free_bytes = self.buffer_bytes.saturating_sub(used_bytes);
        if free_bytes < self.open_bytes_min { 0 } else { free_bytes }
    }

    /// The peer has been told this window.
    #[inline]
    pub(super) fn note_advertised(&mut self, open_bytes: usize) {
        self.advertised_bytes = open_bytes;
    }

    /// Whether the window has grown by a quarter of the buffer since the peer was told (RFC 9260 §6.2).
    #[inline]
    pub(super) fn is_update_due(&self, used_bytes: usize) -> bool {
        self.open_bytes(used_bytes) >= self.advertised_bytes.saturating_add(self.buffer_bytes / 4)
    }
}
