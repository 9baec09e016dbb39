//! The chunks put into one packet, summed up.

use festina_units::Duration;

use crate::outstanding::Transmission;

/// Summary of the chunks put into a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loaded {
    pub(super) chunks: usize,
    pub(super) new_chunks: usize,
    /// Bytes of DATA chunks, headers and padding included.
    pub(super) bytes: usize,
    pub(super) new_bytes: usize,
    /// Bytes of chunks marked as lost.
    pub(super) repair_bytes: usize,
    /// Bytes of outstanding chunks bundled with new data.
    pub(super) piggyback_bytes: usize,
    /// Bytes of REPAIR chunks.
    pub(super) sum_bytes: usize,
    /// Part of a message only.
    pub(super) has_fragment: bool,
    /// How much later the application wants the new messages sent again.
    pub(super) duplicate_after: Option<Duration>,
    pub(super) tsn_highest: u64,
    /// Whether the earliest outstanding chunk was retransmitted in a way that restarts T3-rtx.
    pub(super) earliest_resent: bool,
    /// DATA had left at the same instant before.
    pub(super) same_instant: bool,
    /// Whether a chunk was not retransmitted because its message does not permit it.
    pub(super) has_withheld: bool,
    /// A chunk found no room.
    pub(super) is_full: bool,
}

impl Loaded {
    /// A chunk of `bytes` is sent again in the packet.
    pub(super) fn count_again(&mut self, bytes: usize, transmission: Transmission, with_new_data: bool) {
        self.chunks += 1;
        self.bytes += bytes;
        match transmission {
            Transmission::Repair(_) => self.repair_bytes += bytes,
            _ if with_new_data => self.piggyback_bytes += bytes,
            _ => {}
        }
    }
}
