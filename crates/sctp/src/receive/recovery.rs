//! Computes lost chunks from the peer's REPAIR chunks (`festina_code`).
//!
//! A recovered chunk then takes the way of one that has arrived, so it has no rules of its own for order, window, partial reliability and
//! acknowledgement. The peer learns from a report in front of the SACK that it was recovered, since it still counts as lost on the path.
//!
//! # Bounds
//! The decoder's own, 24 recovered chunks, and the symbol at hand: 110 KiB. All of it is freed when the peer has sent 64 chunks without a sum.

use std::collections::VecDeque;

use bytes::Bytes;
use festina_code::{Decoder, Window};

use super::assembly::Piece;
use super::tracker::{Place, Tracker};
use crate::wire::{ChunkOut, Framing, PacketBuilder, RepairChunk, Tsn, chunk_of_symbol};

/// Recovered chunks that may wait at once; a window holds fewer.
const RECOVERED_MAX: usize = 24;

/// Chunks after the last sum until the decoder is given up. A peer that protects its chunks sends one for every second of them at least.
const SOURCES_MAX: u8 = 64;

/// The decoder of an association, from the peer's first sum on.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    decoder: Decoder,
    /// Whole chunks that were computed and that had not arrived.
    recovered: VecDeque<Bytes>,
    /// Computed chunks that the next report names: the first TSN, and a bit for each from it on. No bit is set if there are none.
    reported: (u64, u16),
    symbol: Vec<u8>,
    sources_since_sum: u8,
}

impl Recovery {
    /// Takes a sum.
    pub(super) fn handle_repair(&mut self, repair: &RepairChunk<'_>, framing: Framing, tracker: &Tracker) {
        self.sources_since_sum = 0;
        let window = Window { first: repair.first.unwrap(tracker.cumulative()), mask: repair.mask, row: repair.row };
        self.decoder.handle_repair(window, repair.sum());
        self.take_recovered(framing, tracker);
    }

    /// Takes a chunk that was accepted. Returns whether the decoder is still needed.
    pub(super) fn handle_source(&mut self, tsn: u64, piece: &impl Piece, framing: Framing, tracker: &Tracker) -> bool {
        self.symbol.clear();
        piece.write_symbol(&mut self.symbol);
        self.decoder.handle_source(tsn, &self.symbol);
        self.take_recovered(framing, tracker);
        self.sources_since_sum += 1;
        self.sources_since_sum < SOURCES_MAX
    }

    /// The next recovered chunk, without padding.
    pub(super) fn poll_recovered(&mut self) -> Option<Bytes> {
        self.recovered.pop_front()
    }

    /// Writes the report of recovered chunks, if there is one.
    pub(super) fn write_report(&mut self, packet: &mut PacketBuilder<'_>) {
        let (first, mask) = self.reported;
        if mask != 0 && packet.chunk(&ChunkOut::Repair { first: Tsn::wrap(first), mask, row: 0, sum: &[] }) {
            self.reported = (0, 0);
        }
    }

    /// Keeps the chunks that the decoder has just computed, unless they have arrived: the decoder does not know those from before its time.
    fn take_recovered(&mut self, framing: Framing, tracker: &Tracker) {
        while let Some(symbol) = self.decoder.poll_recovered() {
            let is_new = matches!(tracker.place(symbol.id), Place::New(_));
            if !is_new || self.recovered.len() == RECOVERED_MAX {
                continue;
            }
            if let Some(chunk) = chunk_of_symbol(framing, Tsn::wrap(symbol.id), &symbol.bytes) {
                self.recovered.push_back(chunk.into());
                self.report(symbol.id);
            }
        }
    }

    /// Adds a chunk to the report, at the cost of those that lie too far from it.
    fn report(&mut self, tsn: u64) {
        let (first, mask) = self.reported;
        let lowest = if mask == 0 { tsn } else { first.min(tsn) };
        let shifted = |first: u64, mask: u16| u32::try_from(first - lowest).ok().and_then(|by| mask.checked_shl(by));
        self.reported = (lowest, shifted(first.max(lowest), mask).unwrap_or(0) | shifted(tsn, 1).unwrap_or(0));
    }
}
