//! Which outstanding messages are worth redundancy: copies of any kind, and symbols of an erasure code.

use festina_units::{Duration, Instant};

use super::Partial;
use crate::message::Duplicate;
use crate::outstanding::{Chunk, ChunkState, MessageSlot};
use crate::send::flight::Flight;
use crate::send::messages::Fate;

impl Flight {
    /// Returns whether redundancy for this chunk that leaves at `at`, and reaches the peer `way` later, is worth its bytes. It is not if the message has
    /// expired by then, or if a newer state has replaced the message or leaves at about the same time. Messages in order are always worth it: later
    /// ones of the stream wait for them. So is the last state before a pause.
    pub(in crate::send) fn is_worth_protecting(&self, chunk: &Chunk, at: Instant, way: Duration) -> bool {
        let Some(message) = self.buffer.message(chunk.message) else { return false };
        let replaced = |partial: &Partial| partial.tracked.is_replaced_by(chunk.message, at);
        match message.fate {
            Fate::Plain => true,
            Fate::Abandoned => false,
            Fate::Tracked if !message.unordered => true,
            Fate::Tracked => {
                message.expires_at > at.saturating_add(way) && !self.partial.as_deref().is_some_and(replaced)
            }
        }
    }

    /// Returns how much later the application wants this message sent again, if it does.
    pub(in crate::send) fn duplicate_after(&self, slot: MessageSlot) -> Option<Duration> {
        let half_interval = || self.partial.as_deref()?.tracked.half_interval(slot);
        match self.buffer.message(slot)?.duplicate? {
            Duplicate::AtOnce => Some(Duration::ZERO),
            Duplicate::HalfInterval => Some(half_interval().unwrap_or_default()),
        }
    }

    /// Returns when a state that is in flight lacks its successor for too long.
    pub(in crate::send) fn states_end_at(&self) -> Option<Instant> {
        let partial = self.partial.as_deref()?;
        partial.tracked.states_end_at(|slot| self.buffer.waiting(slot).is_none())
    }

    /// Returns the TSNs of the states in flight that lack their successors for too long, each once: the last ones before a pause. Those that were sent
    /// again, or in several chunks, are left to retransmission.
    pub(in crate::send) fn take_last_states(&mut self, now: Instant) -> Vec<u64> {
        let Some(partial) = self.partial.as_deref_mut() else { return Vec::new() };
        let ended = partial.tracked.take_ended(now);
        let is_only_sent =
            |chunk: &Chunk| chunk.state == ChunkState::InFlight && chunk.transmissions == 1 && !chunk.is_fragment();
        let in_flight = ended.into_iter().filter_map(|slot| match self.tsns_of(slot)[..] {
            [tsn] => self.ledger.get(tsn).is_some_and(is_only_sent).then_some(tsn),
            _ => None,
        });
        let mut tsns: Vec<u64> = in_flight.collect();
        tsns.sort_unstable();
        tsns
    }
}
