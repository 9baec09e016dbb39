//! Memory cost of held data: its allocations, entries of queues and the allocator's own bytes included.

use crate::config::TABLE_BYTES_FREE;
use crate::stream_table::StreamTable;

/// A message in the queue to the application: its entry, and as much again that the queue may have in reserve.
pub(in crate::receive) const QUEUE_ENTRY_BYTES: usize = 96;

/// A message that waits for an earlier one of its stream: its share of a B-tree whose nodes may be less than half full.
pub(in crate::receive) const WAITING_ENTRY_BYTES: usize = 160;

/// A run of fragments without its parts: its state, and its share of a B-tree.
pub(in crate::receive) const RUN_BYTES: usize = 256;

/// Overhead of a packet that a slice keeps alive: its reference count, and rounding by the driver.
const PACKET_OVERHEAD_BYTES: usize = 128;

/// A chunk that is copied never costs more than this besides its payload.
pub(in crate::receive) const CHUNK_OVERHEAD_BYTES_MAX: usize = 512;

/// Memory of a table of streams that counts towards the receive buffer: the first [`TABLE_BYTES_FREE`] do not.
pub(in crate::receive) fn table_bytes<T: Copy + Default + PartialEq>(table: &StreamTable<T>) -> usize {
    table.held_bytes().saturating_sub(TABLE_BYTES_FREE)
}

/// Maximum growth of [`table_bytes`] when `streams` more of the first `streams_max` are used.
pub(in crate::receive) fn table_growth_bytes_max<T: Copy + Default + PartialEq>(
    table: &StreamTable<T>,
    (streams, streams_max): (usize, u16),
) -> usize {
    let held_bytes = table.held_bytes();
    (held_bytes + table.growth_bytes_max(streams, streams_max.into())).saturating_sub(held_bytes.max(TABLE_BYTES_FREE))
}

/// A packet larger than this is never kept alive by a message of less than half its size, not even by one that can be fetched
/// at once.
const LARGE_PACKET_BYTES: usize = 2_048;

/// Fragments smaller than this are copied, several into one buffer.
pub(in crate::receive) const FRAGMENT_BYTES_MIN: usize = 512;

/// Memory cost of a packet that a slice keeps alive.
#[inline]
pub(in crate::receive) const fn packet_bytes(len: usize) -> usize {
    len + PACKET_OVERHEAD_BYTES
}

/// How full the receive buffer is when a chunk comes.
#[derive(Clone, Copy, Debug)]
pub(in crate::receive) struct Fill {
    pub(in crate::receive) used_bytes: usize,
    pub(in crate::receive) buffer_bytes: usize,
}

impl Fill {
    /// Whether data that may be held for long can be a slice: it makes up half of its packet at least, and all of that fits.
    #[inline]
    pub(in crate::receive) const fn has_room_for_slice(self, payload_bytes: usize, packet_len: usize) -> bool {
        2 * payload_bytes >= packet_len && self.used_bytes + packet_bytes(packet_len) <= self.buffer_bytes
    }

    /// Whether a message that the application can fetch at once can be a slice however small it is. Half of the buffer is
    /// granted to such packets: an application that keeps up never has that much waiting.
    #[inline]
    pub(in crate::receive) const fn has_room_for_small_slice(self, packet_len: usize) -> bool {
        packet_len <= LARGE_PACKET_BYTES && self.used_bytes + packet_bytes(packet_len) <= self.buffer_bytes / 2
    }
}

/// Whether the packet is so large that a message of less than half its size must be a copy.
#[inline]
pub(in crate::receive) const fn is_wasteful(payload_bytes: usize, packet_len: usize) -> bool {
    packet_len > LARGE_PACKET_BYTES && 2 * payload_bytes < packet_len
}
