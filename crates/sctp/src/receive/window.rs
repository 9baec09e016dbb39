//! The advertised receiver window (RFC 9260 §6.2): how much may still come.

use super::assembly::cost::CHUNK_OVERHEAD_BYTES_MAX;
use crate::config::Limits;

/// Beyond two buffers: enough for one chunk, however small the buffer is.
const RESERVE_BYTES: usize = 4 << 10;

/// And beyond that, for a message that the application can fetch at once.
const RELIEF_BYTES: usize = 8 << 10;

/// What the receive buffer is used for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// Everything held, as allocated.
    pub(super) used_bytes: usize,
    /// The application can make room.
    pub(super) has_ready: bool,
    /// A TSN below others is missing.
    pub(super) has_gap: bool,
}

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

    /// What may still come: nothing, or at least the smallest window worth telling. Where neither the application nor a
    /// retransmission can make room, only new data can, and up to a quarter of the buffer stays open for it.
    #[inline]
    pub(super) fn open_bytes(&self, held: Use) -> usize {
        let mut free_bytes = self.buffer_bytes.saturating_sub(held.used_bytes);
        if !held.has_ready && !held.has_gap {
            free_bytes = free_bytes.max(self.beyond_bytes(held.used_bytes));
        }
        if free_bytes < self.open_bytes_min { 0 } else { free_bytes }
    }

    /// What is left of two buffers, but at most a quarter of one.
    fn beyond_bytes(&self, used_bytes: usize) -> usize {
        (2 * self.buffer_bytes).saturating_sub(used_bytes).min(self.buffer_bytes / 4)
    }

    /// Whether a new chunk may be kept; the module above says why. `is_next` tells that no TSN below it is missing.
    #[inline]
    pub(super) fn has_room(&self, held: Use, payload_bytes: usize, is_next: bool) -> bool {
        let needed_bytes = held.used_bytes + payload_bytes + CHUNK_OVERHEAD_BYTES_MAX;
        // The short way: half of the buffer is free, so the window is open.
        needed_bytes <= self.buffer_bytes / 2 || self.has_room_beyond(held, needed_bytes, is_next)
    }

    fn has_room_beyond(&self, held: Use, needed_bytes: usize, is_next: bool) -> bool {
        if needed_bytes > 2 * self.buffer_bytes + RESERVE_BYTES {
            return false;
        }
        if self.open_bytes(held) > 0 {
            return true;
        }
        if is_next {
            held.has_gap || !held.has_ready
        } else {
            // The window may have been open by a quarter before the gap came.
            !held.has_ready && held.used_bytes < self.buffer_bytes + self.buffer_bytes / 4
        }
    }

    /// Whether a message may be kept that the application can fetch at once, however full the buffer is.
    pub(super) fn has_room_for_relief(&self, held: Use, payload_bytes: usize) -> bool {
        let bytes_max = 2 * self.buffer_bytes + RESERVE_BYTES + RELIEF_BYTES;
        held.used_bytes + payload_bytes + CHUNK_OVERHEAD_BYTES_MAX <= bytes_max
    }

    /// Whether tables of streams may grow by so much.
    pub(super) fn has_room_for_tables(&self, used_bytes: usize, growth_bytes: usize) -> bool {
        used_bytes + growth_bytes <= 2 * self.buffer_bytes + RESERVE_BYTES + RELIEF_BYTES
    }

    /// The peer has been told this window.
    #[inline]
    pub(super) fn note_advertised(&mut self, open_bytes: usize) {
        self.advertised_bytes = open_bytes;
    }

    /// Whether the window has grown by a quarter of the buffer since the peer was told (RFC 9260 §6.2).
    #[inline]
    pub(super) fn is_update_due(&self, held: Use) -> bool {
        let due_bytes = self.advertised_bytes + self.buffer_bytes / 4;
        due_bytes <= self.buffer_bytes && self.open_bytes(held) >= due_bytes
    }
}
