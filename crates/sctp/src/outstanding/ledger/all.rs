//! Changes of many chunks at once, which are rare.

use festina_units::Instant;

use super::Ledger;
use crate::event::RetransmissionCause;
use crate::outstanding::chunk::{ChunkState, Form};
use crate::path_id::PathId;
use crate::wire::Framing;

impl Ledger {
    /// Sends chunks in this framing from now on, including those sent before in another one. The result changes only if an attacker interferes with
    /// the handshake.
    pub(crate) fn reframe(&mut self, framing: Framing) {
        for chunk in &mut self.chunks {
            let form = Form::new(framing, chunk.ends());
            match chunk.state {
                ChunkState::InFlight => {
                    self.in_flight.of_mut(chunk.path).remove(chunk);
                    chunk.form = form;
                    self.in_flight.of_mut(chunk.path).add(chunk);
                }
                ChunkState::Lost(_) => {
                    self.lost.remove(chunk);
                    chunk.form = form;
                    self.lost.add(chunk);
                }
                _ => chunk.form = form,
            }
        }
    }

    /// T3-rtx of `path` expired (RFC 9260 §6.3.3 E3). Marks its earliest chunk in flight as lost, and all those last sent at `limit` or before. With
    /// `all`, every other chunk in flight on it may be bundled into their packet. Returns the number of chunks that are newly marked as lost.
    pub(crate) fn time_out(&mut self, path: PathId, limit: Instant, all: bool) -> usize {
        let lost_before = self.lost.chunks;
        for tsn in self.first_tsn..self.next_tsn() {
            let Some(chunk) = self.get(tsn) else { break };
            if !chunk.is_on(path) {
                continue;
            }
            let rides_along = all && chunk.miss_indications > 0;
            if self.lost.chunks == lost_before || chunk.sent_at <= limit && !rides_along {
                self.lose(tsn, RetransmissionCause::Timeout);
            } else if all {
                self.lose(tsn, RetransmissionCause::bundled(chunk.miss_indications));
            }
        }
        self.lost.chunks - lost_before
    }

    /// Marks all lost chunks as in flight again, because nothing was lost. Returns their number.
    pub(crate) fn find_all(&mut self) -> usize {
        let count = self.lost.chunks;
        for chunk in self.chunks.iter_mut().filter(|chunk| matches!(chunk.state, ChunkState::Lost(_))) {
            self.lost.remove(chunk);
            self.in_flight.of_mut(chunk.path).add(chunk);
            chunk.state = ChunkState::InFlight;
        }
        count
    }
}
