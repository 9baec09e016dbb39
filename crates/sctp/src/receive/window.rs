//! The advertised receiver window (RFC 9260 §6.2).

use super::assembly::cost::CHUNK_OVERHEAD_BYTES_MAX;
use crate::config::Limits;

/// Beyond two buffers: enough for one chunk, however small the buffer is.
const RESERVE_BYTES: usize = 4 << 10;

/// And beyond that, for messages that the application can fetch at once.
pub(super) const RELIEF_BYTES: usize = 8 << 10;

/// The peer counts payload, this side counts memory. Recent messages show how much payload fits into how much memory: this part of a buffer,
/// but several packets, or half of a buffer that holds no more. At first, half as much counts as if memory held nothing but payload.
const LATELY_PARTS: usize = 8;
const LATELY_BYTES_MIN: usize = 8 << 10;

/// A window of this size, or of a quarter of the buffer, stays open while less is held: an application that keeps up with
/// tiny messages has room for a burst of larger ones.
const BURST_BYTES: usize = 64 << 10;

/// Usage of the receive buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// Everything held, as allocated.
    pub(super) used_bytes: usize,
    /// The application can fetch something.
    pub(super) has_ready: bool,
    /// A TSN below others is missing.
    pub(super) has_gap: bool,
}

/// The window for a given use of the receive buffer, and the last advertised one.
#[derive(Debug)]
pub(super) struct Window {
    buffer_bytes: u32,
    /// A window smaller than this counts as closed: the receiver's side of silly-window avoidance (RFC 1122 §4.2.3.3).
    open_bytes_min: u32,
    advertised_bytes: u32,
    /// No update is due while more than this is held: the window has hardly grown since it was advertised.
    update_below_bytes: u32,
    /// Payload that was kept lately.
    payload_bytes: u32,
    /// The memory that it took.
    cost_bytes: u32,
}

impl Window {
    pub(super) fn new(limits: &Limits) -> Self {
        let buffer_bytes = limits.receive_buffer_bytes;
        Self {
            buffer_bytes: in_u32(buffer_bytes),
            open_bytes_min: in_u32(limits.packet_bytes_max.min(buffer_bytes / 4).max(1)),
            advertised_bytes: in_u32(buffer_bytes),
            update_below_bytes: 0,
            payload_bytes: in_u32(lately_bytes(buffer_bytes) / 2),
            cost_bytes: in_u32(lately_bytes(buffer_bytes) / 2),
        }
    }

    /// A chunk was kept, and more memory is held for it.
    #[inline]
    pub(super) fn note_cost(&mut self, payload_bytes: usize, cost_bytes: usize) {
        self.payload_bytes = self.payload_bytes.saturating_add(in_u32(payload_bytes));
        self.cost_bytes = self.cost_bytes.saturating_add(in_u32(cost_bytes));
        if self.cost_bytes.max(self.payload_bytes) as usize > lately_bytes(self.buffer_bytes()) {
            self.payload_bytes /= 2;
            self.cost_bytes = (self.cost_bytes / 2).max(1);
        }
    }

    pub(super) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes as usize
    }

    /// Bytes that may still come: none, or at least the smallest window worth advertising. Where neither the application nor a
    /// retransmission can make room, only new data can, and up to a quarter of the buffer stays open for it.
    #[inline]
    pub(super) fn open_bytes(&self, held: Use) -> usize {
        let mut free_bytes = self.buffer_bytes().saturating_sub(held.used_bytes);
        if !held.has_ready && !held.has_gap {
            free_bytes = free_bytes.max(self.beyond_bytes(held.used_bytes));
        }
        let open_bytes_min = self.open_bytes_min as usize;
        if free_bytes < open_bytes_min {
            return 0;
        }
        let burst_bytes = self.burst_bytes().saturating_sub(held.used_bytes);
        free_bytes.min(self.payload_that_fits(held.used_bytes).max(burst_bytes).max(open_bytes_min))
    }

    /// The payload that fits into the rest of a buffer and a quarter, if it takes as much memory as recent messages.
    fn payload_that_fits(&self, used_bytes: usize) -> usize {
        let left_bytes = self.kept_bytes_max().saturating_sub(used_bytes) as u64;
        let payload_bytes = left_bytes * u64::from(self.payload_bytes) / u64::from(self.cost_bytes.max(1));
        usize::try_from(payload_bytes).unwrap_or(usize::MAX)
    }

    /// What stays open for a burst of larger messages while nothing is held.
    fn burst_bytes(&self) -> usize {
        BURST_BYTES.min(self.buffer_bytes() / 4)
    }

    /// While less is held, a chunk is kept although the window is closed: it may have left before the peer knew.
    fn kept_bytes_max(&self) -> usize {
        self.buffer_bytes() + self.buffer_bytes() / 4
    }

    /// The rest of two buffers, but at most a quarter of one.
    fn beyond_bytes(&self, used_bytes: usize) -> usize {
        (2 * self.buffer_bytes()).saturating_sub(used_bytes).min(self.buffer_bytes() / 4)
    }

    /// Whether a new chunk may be kept; the module above says why. `is_next`: no TSN below it is missing.
    #[inline]
    pub(super) fn has_room(&self, held: Use, payload_bytes: usize, is_next: bool) -> bool {
        let needed_bytes = held.used_bytes + payload_bytes + CHUNK_OVERHEAD_BYTES_MAX;
        // The short way: half of the buffer is free, so the window is open.
        needed_bytes <= self.buffer_bytes() / 2 || self.has_room_beyond(held, needed_bytes, is_next)
    }

    fn has_room_beyond(&self, held: Use, needed_bytes: usize, is_next: bool) -> bool {
        if needed_bytes > 2 * self.buffer_bytes() + RESERVE_BYTES {
            return false;
        }
        held.used_bytes < self.kept_bytes_max() || is_next && (held.has_gap || !held.has_ready)
    }

    /// Whether to keep a message that the application can fetch at once, regardless of the fill level. `is_alone`: there is no other, and it has the
    /// next TSN.
    pub(super) fn has_room_for_relief(&self, held: Use, payload_bytes: usize, is_alone: bool) -> bool {
        let usual_bytes = if is_alone { 2 * self.buffer_bytes() + RESERVE_BYTES } else { self.kept_bytes_max() };
        held.used_bytes + payload_bytes + CHUNK_OVERHEAD_BYTES_MAX <= usual_bytes + RELIEF_BYTES
    }

    /// Whether tables of streams may grow by `growth_bytes`. No growth always has room, or skipping might never come to an end.
    pub(super) fn has_room_for_tables(&self, used_bytes: usize, growth_bytes: usize) -> bool {
        growth_bytes == 0 || used_bytes + growth_bytes <= 2 * self.buffer_bytes() + RESERVE_BYTES + RELIEF_BYTES
    }

    /// Records that this window was advertised, with `used_bytes` held.
    #[inline]
    pub(super) fn note_advertised(&mut self, open_bytes: usize, held: Use) {
        self.advertised_bytes = in_u32(open_bytes);
        self.note_looked(held);
    }

    /// The window has not grown: the next time to look is when the application has fetched an eighth of the growth that counts, or all.
    #[inline]
    fn note_looked(&mut self, held: Use) {
        self.update_below_bytes = in_u32(held.used_bytes.saturating_sub(self.buffer_bytes() / 32));
    }

    /// Returns whether a larger window should be advertised: since the last one, the window has grown by a quarter of its largest
    /// size (RFC 9260 §6.2). To be called after each message that the application fetches.
    #[inline]
    pub(super) fn is_update_due(&mut self, held: Use) -> bool {
        if held.has_ready && held.used_bytes > self.update_below_bytes as usize {
            return false;
        }
        let is_due = self.has_grown(held);
        if !is_due {
            self.note_looked(held);
        }
        is_due
    }

    pub(super) fn has_grown(&self, held: Use) -> bool {
        let (told_bytes, step_bytes) = (self.advertised_bytes as usize, self.buffer_bytes() / 4);
        if told_bytes + step_bytes <= self.buffer_bytes() && self.open_bytes(held) >= told_bytes + step_bytes {
            return true;
        }
        told_bytes < step_bytes && self.is_small_update_due(held)
    }

    /// The same if the payload costs enough memory that a quarter of the buffer is much. A peer that knows a closed window
    /// learns of an open one when everything is fetched, at the latest, however much memory tables of streams hold.
    fn is_small_update_due(&self, held: Use) -> bool {
        let (open_bytes, told_bytes) = (self.open_bytes(held), self.advertised_bytes as usize);
        let largest_bytes = self.payload_that_fits(0).max(self.burst_bytes()).min(self.buffer_bytes());
        let step_bytes = (largest_bytes / 4).max(self.open_bytes_min as usize);
        open_bytes >= told_bytes + step_bytes || told_bytes == 0 && open_bytes > 0 && !held.has_ready
    }
}

/// Bytes of recent messages that count.
fn lately_bytes(buffer_bytes: usize) -> usize {
    (buffer_bytes / LATELY_PARTS).max(LATELY_BYTES_MIN.min(buffer_bytes / 2))
}

/// Receive buffers have at most 2^30 bytes.
fn in_u32(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
