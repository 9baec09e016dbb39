//! Chunks in the order in which they last left, for loss detection by time (RFC 8985 §6.2 step 5 asks for that list).

use std::collections::VecDeque;

use festina_units::Instant;

use crate::outstanding::{Chunk, Ledger, PathId};

/// Maximum number of stale entries in addition to twice the number of chunks.
const STALE_MAX: usize = 64;

/// The chunks in flight in the order of their last transmission. An acknowledgement only looks at the front, so its cost does not depend on the size
/// of the flight.
///
/// A chunk that was acknowledged, marked as lost or retransmitted leaves a stale entry, which is dropped when it reaches the front. Memory: 16 bytes
/// per entry, at most twice the number of outstanding chunks, plus 64.
#[derive(Debug, Default)]
pub(super) struct Departures {
    order: VecDeque<(Instant, u64)>,
}

impl Departures {
    /// Creates the list from all chunks in flight on this path.
    pub(super) fn of(ledger: &Ledger, path: PathId) -> Self {
        let is_listed = |(_, chunk): &(u64, &Chunk)| is_on_the_way(chunk) && chunk.is_on(path);
        let on_the_way = (ledger.first_tsn()..).zip(ledger.iter()).filter(is_listed);
        let mut order: Vec<_> = on_the_way.map(|(tsn, chunk)| (chunk.sent_at, tsn)).collect();
        order.sort_unstable();
        Self { order: order.into() }
    }

    /// A chunk leaves.
    #[inline]
    pub(super) fn push(&mut self, now: Instant, tsn: u64) {
        self.order.push_back((now, tsn));
    }

    /// Returns the chunk that has been in flight for the longest time, and its TSN.
    pub(super) fn first<'l>(&mut self, ledger: &'l Ledger) -> Option<(u64, &'l Chunk)> {
        let first_tsn = ledger.first_tsn();
        while let Some(&(sent_at, tsn)) = self.order.front() {
            if tsn < first_tsn {
                self.order.pop_front();
                continue;
            }
            let chunk = ledger.get(tsn).filter(|chunk| is_on_the_way(chunk) && chunk.sent_at == sent_at);
            if let Some(chunk) = chunk {
                return Some((tsn, chunk));
            }
            self.order.pop_front();
        }
        None
    }

    /// Returns whether there are too many stale entries, so that the list must be rebuilt.
    pub(super) fn is_stale(&self, ledger: &Ledger) -> bool {
        self.order.len() > 2 * ledger.len() + STALE_MAX
    }
}

fn is_on_the_way(chunk: &Chunk) -> bool {
    chunk.state.is_undecided()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::RetransmissionCause;
    use crate::outstanding::{ChunkState, Transmission};

    proptest! {
        #[test]
        fn the_first_departure_is_that_of_the_chunk_that_has_been_on_the_way_for_the_longest_time(
            steps in prop::collection::vec((0..8_u8, any::<prop::sample::Index>()), 1..300),
        ) {
            let mut ledger = Ledger::new(1 << 32);
            let mut departures = Departures::default();
            for (nanosecond, (step, index)) in (1_u64..).zip(steps) {
                let now = Instant::from_nanos(nanosecond);
                let tsn = ledger.first_tsn() + index.index(ledger.len().max(1)) as u64;
                match step {
                    0..=3 => {
                        departures.push(now, ledger.next_tsn());
                        ledger.push(Chunk::for_test(now));
                    }
                    4 => ledger.lose(tsn, RetransmissionCause::Fast),
                    5 if ledger.get(tsn).is_some_and(|chunk| chunk.state != ChunkState::GapAcked) => {
                        let again = Transmission::Repair(RetransmissionCause::Fast);
                        ledger.resend(tsn, now, again, PathId(0), false);
                        departures.push(now, tsn);
                    }
                    6 => {
                        ledger.gap_ack(tsn);
                    }
                    _ => {
                        ledger.pop(|_| ());
                    }
                }
                departures = if departures.is_stale(&ledger) { Departures::of(&ledger, PathId::PRIMARY) } else { departures };
                let on_the_way = (ledger.first_tsn()..).zip(ledger.iter()).filter(|(_, chunk)| is_on_the_way(chunk));
                let expected = on_the_way.map(|(tsn, chunk)| (chunk.sent_at, tsn)).min();
                let first = departures.first(&ledger).map(|(tsn, chunk)| (chunk.sent_at, tsn));
                prop_assert_eq!(first, expected);
                prop_assert_eq!(Departures::of(&ledger, PathId::PRIMARY).first(&ledger).map(|(tsn, _)| tsn), expected.map(|(_, tsn)| tsn));
            }
        }
    }
}
