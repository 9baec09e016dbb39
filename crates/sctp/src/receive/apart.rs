//! E-FORWARD-TSN (docs/enhanced-forward-tsn.md): abandoned chunks that may lie apart count as received.

use super::Receiver;
use super::assembly::SkipsSoFar;
use super::assembly::cost::WAITING_ENTRY_BYTES;
use crate::bounds::TSN_SPAN_MAX;
use crate::wire::EnhancedForwardTsn;

impl Receiver {
    /// Takes one E-FORWARD-TSN chunk of a packet of `packet_bytes`. It is acknowledged as DATA would be.
    pub(crate) fn handle_enhanced_forward_tsn(&mut self, forward: &EnhancedForwardTsn<'_>, packet_bytes: usize) {
        self.sack.saw_data(false, !self.tracker.is_contiguous(), packet_bytes);
        let cumulative = self.tracker.cumulative();
        let base = forward.cumulative.unwrap(cumulative);
        // TSNs below the cumulative one have been skipped before.
        let blocks = forward.blocks().filter_map(move |(first, last)| {
            let (first, last) = (base + u64::from(first), base + u64::from(last));
            (last > cumulative).then_some((first.max(cumulative + 1), last))
        });
        let Some((_, highest)) = blocks.clone().last() else { return self.sack.saw_old_forward() };
        // The sender's cumulative TSN is one that this side has acknowledged, and its chunks lie within the span above it.
        let is_sound = base <= cumulative && highest - cumulative <= u64::from(TSN_SPAN_MAX);
        if !is_sound || !self.has_room_for_skips(forward.messages().len()) {
            self.drop_chunk();
            return;
        }
        (self.skips_so_far, self.may_skip) = (SkipsSoFar::Apart, true);
        for (first, last) in blocks {
            match self.tracker.pass_over(first, last) {
                Some(true) => self.sack.saw_new(),
                Some(false) => self.sack.saw_old_forward(),
                None => {
                    // As if it had been lost: it is named again.
                    self.sack.saw_dropped();
                    continue;
                }
            }
            self.assembly.pass_over(first, last, first == cumulative + 1, &mut self.ready);
        }
        self.assembly.skip_runs(self.inbound_streams, forward.messages(), &mut self.ready);
        self.assembly.advance(self.tracker.cumulative(), &mut self.ready);
    }

    /// Returns whether there is room to skip this many runs: each may add a stream, and a number that waits for earlier ones.
    fn has_room_for_skips(&self, runs: usize) -> bool {
        let growth_bytes =
            self.assembly.forward_growth_bytes_max((runs, self.inbound_streams)) + runs * WAITING_ENTRY_BYTES;
        self.window.has_room_for_tables(self.used_bytes(), growth_bytes)
    }
}
