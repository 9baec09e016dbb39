//! What repair sees of the rooms around it.

use super::super::path::PacketSizes;
use super::super::queue::SendBuffer;
use super::super::window::PeerWindow;
use crate::congestion::Congestion;
use crate::outstanding::{CHUNKS_MAX, Ledger};

/// The rooms that repair decides by and does not change.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct View<'s> {
    pub(in crate::send) buffer: &'s SendBuffer,
    pub(in crate::send) window: &'s PeerWindow,
    pub(in crate::send) congestion: &'s Congestion,
    pub(in crate::send) sizes: PacketSizes,
    /// Packets with new data that may leave before the next event (RFC 9260 §6.1 rule D).
    pub(in crate::send) burst_packets: u32,
}

impl View<'_> {
    /// Payload bytes of the next new chunk in an empty packet.
    pub(in crate::send) fn next_piece_bytes(&self) -> Option<usize> {
        self.buffer.front().map(|unsent| unsent.rest.len().min(self.sizes.payload()))
    }

    /// Returns whether a packet that leaves now may hold new data, if nothing lost is left to be sent (RFC 9260 §6.1 rules A, B, D).
    pub(in crate::send) fn allows_new_data(&self, ledger: &Ledger) -> bool {
        self.next_piece_bytes().is_some_and(|bytes| {
            self.burst_packets > 0
                && ledger.len() < CHUNKS_MAX
                && self.congestion.allows(ledger.on_the_way_bytes())
                && self.window.allows(bytes, ledger.in_flight().payload_bytes)
        })
    }

    /// Returns whether the peer's window takes the next new chunk.
    pub(super) fn fits_window(&self, ledger: &Ledger) -> bool {
        self.next_piece_bytes().is_some_and(|bytes| self.window.allows(bytes, ledger.in_flight().payload_bytes))
    }

    /// Returns whether new data still fits into the peer's window once all that was lost has left again.
    pub(super) fn fits_window_behind_lost(&self, ledger: &Ledger) -> bool {
        let outstanding = ledger.in_flight().payload_bytes + ledger.lost().payload_bytes;
        ledger.lost().chunks == 0 || self.next_piece_bytes().is_some_and(|bytes| self.window.allows(bytes, outstanding))
    }

    /// Packets that what is queued would fill.
    pub(super) fn unsent_packets(&self) -> u32 {
        u32::try_from(self.buffer.queued_bytes().div_ceil(self.sizes.payload().max(1))).unwrap_or(u32::MAX)
    }

    /// Returns whether a chunk that probes the peer's closed window is outstanding.
    pub(super) fn is_probing_window(&self) -> bool {
        self.window.probe().is_some()
    }
}
