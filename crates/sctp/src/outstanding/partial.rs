//! Computes which chunks a FORWARD-TSN can skip: abandoned ones, and those that it will not drop (RFC 3758 §3.5, C1 to C5).

use super::chunk::{Chunk, ChunkState, MessageSlot};
use super::ledger::Ledger;
use crate::wire::StreamId;

/// Contents of a FORWARD-TSN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advance {
    /// The Advanced.Peer.Ack.Point: everything up to it is to count as received.
    pub(crate) cumulative: u64,
    /// For each stream with abandoned messages the last of them, ascending.
    pub(crate) skipped: Vec<SkippedMessage>,
}

/// A message that was abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SkippedMessage {
    pub(crate) stream: StreamId,
    pub(crate) unordered: bool,
    /// Its SSN or MID.
    pub(crate) number: u32,
}

/// One chunk, as far as passing over it is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// It may still arrive, or the receiver may drop it, so it cannot be skipped.
    Barred,
    /// The receiver has it for good. `ends` says that it is the end of its message. Other chunks may only be skipped together with that end: a
    /// receiver drops the rest of a message if a FORWARD-TSN ends in its middle.
    Settled { ends: bool },
    /// It was abandoned; `message` is the entry for the peer, if it needs one.
    Abandoned { message: Option<SkippedMessage> },
}

/// Returns how far the peer can be moved from `first_tsn`, the earliest outstanding TSN, over `chunks`, which begin there. At most `entries_max`
/// streams are named: the rest has to wait until the peer has moved (C4). `None` if the first chunk was not abandoned, so that no FORWARD-TSN is
/// needed.
///
/// Chunks that the receiver has settled count as acknowledged, regardless of the reliability of their messages (Rajiullah and Brunstrom 2012 §IV).
pub(crate) fn advance(first_tsn: u64, chunks: impl Iterator<Item = Passage>, entries_max: usize) -> Option<Advance> {
    let mut advance = Advance { cumulative: first_tsn.checked_sub(1)?, skipped: Vec::new() };
    for (tsn, passage) in (first_tsn..).zip(chunks) {
        match passage {
            Passage::Barred => break,
            Passage::Settled { .. } if tsn == first_tsn => break,
            Passage::Settled { ends: false } => {}
            Passage::Settled { ends: true } => advance.cumulative = tsn,
            Passage::Abandoned { message } => {
                if !message.is_none_or(|message| advance.skip(message, entries_max)) {
                    break;
                }
                advance.cumulative = tsn;
            }
        }
    }
    (advance.cumulative >= first_tsn).then_some(advance)
}

impl Advance {
    /// Names the message. Returns whether there was room for it.
    fn skip(&mut self, message: SkippedMessage, entries_max: usize) -> bool {
        let key = (message.stream, message.unordered);
        match self.skipped.binary_search_by_key(&key, |skipped| (skipped.stream, skipped.unordered)) {
            // The messages of a stream begin in its order.
            Ok(place) => {
                if let Some(skipped) = self.skipped.get_mut(place) {
                    skipped.number = message.number;
                }
            }
            Err(_) if self.skipped.len() >= entries_max => return false,
            Err(place) => self.skipped.insert(place, message),
        }
        true
    }
}

/// How far the peer can be moved. Looks at each chunk once, regardless of the number of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The Advanced.Peer.Ack.Point is the TSN before.
    next: u64,
    /// Chunks before this may be skipped, perhaps together with later ones.
    looked_at: u64,
}

impl Reach {
    /// Continues the search. Returns the Advanced.Peer.Ack.Point if a FORWARD-TSN is needed.
    pub(crate) fn look(&mut self, ledger: &Ledger, alternates: bool) -> Option<u64> {
        let first_tsn = ledger.first_tsn();
        if !ledger.get(first_tsn)?.state.is_abandoned() {
            return None;
        }
        self.next = self.next.max(first_tsn);
        self.looked_at = self.looked_at.max(self.next);
        while let Some(chunk) = ledger.get(self.looked_at) {
            let is_end = match chunk.state {
                ChunkState::AbandonedOnTheWay | ChunkState::Abandoned => true,
                ChunkState::NonRenegable => chunk.ends() || alternates,
                ChunkState::InFlight | ChunkState::GapAcked | ChunkState::Lost(_) => break,
            };
            self.looked_at += 1;
            if is_end {
                self.next = self.looked_at;
            }
        }
        (self.next > first_tsn).then(|| self.next - 1)
    }
}

impl Ledger {
    /// The chunks that a peer is to pass over that does so one by one, ascending: those of abandoned messages that were lost or never left, and
    /// those at the front that may yet arrive. Any other that may is waited for: its loss is to cut the congestion window.
    pub(crate) fn passable(&self) -> impl Iterator<Item = u64> {
        let is_over = |chunk: &&Chunk| chunk.state.is_abandoned() || chunk.state == ChunkState::NonRenegable;
        let front = (self.first_tsn()..).zip(self.iter().take_while(is_over));
        let behind = self.first_tsn() + self.iter().take_while(is_over).count() as u64;
        let front = front.filter(|(_, chunk)| chunk.state.is_abandoned()).map(|(tsn, _)| tsn);
        front.chain(self.buried_from(behind))
    }

    /// The outstanding chunks, as [`advance`] wants them. Whether pieces of several messages alternate decides what becomes of the
    /// fragments that a receiver has: they have names of their own then, and stay.
    pub(crate) fn passages<'l>(
        &'l self,
        alternates: bool,
        name: impl Fn(MessageSlot) -> Option<SkippedMessage> + 'l,
    ) -> impl Iterator<Item = Passage> + 'l {
        self.iter().map(move |chunk| match chunk.state {
            ChunkState::InFlight | ChunkState::GapAcked | ChunkState::Lost(_) => Passage::Barred,
            ChunkState::NonRenegable => Passage::Settled { ends: chunk.ends() || alternates },
            ChunkState::AbandonedOnTheWay | ChunkState::Abandoned => {
                Passage::Abandoned { message: name(chunk.message) }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARRED: Passage = Passage::Barred;
    const SETTLED: Passage = Passage::Settled { ends: true };
    const UNORDERED: Passage = Passage::Abandoned { message: None };

    fn abandoned(stream: u16, number: u32) -> Passage {
        Passage::Abandoned { message: Some(message(stream, number)) }
    }

    fn message(stream: u16, number: u32) -> SkippedMessage {
        SkippedMessage { stream: StreamId(stream), unordered: false, number }
    }

    fn point(chunks: &[Passage]) -> Option<u64> {
        advance(103, chunks.iter().copied(), 8).map(|advance| advance.cumulative)
    }

    #[test]
    fn rfc3758_3_5_c2_the_point_moves_over_abandoned_chunks_up_to_one_that_is_outstanding() {
        assert_eq!(point(&[abandoned(0, 1), abandoned(0, 2), BARRED, SETTLED]), Some(104));
    }

    #[test]
    fn rfc3758_3_5_c2_nothing_is_said_while_the_first_chunk_is_outstanding() {
        assert_eq!(point(&[BARRED, abandoned(0, 1)]), None);
        assert_eq!(point(&[SETTLED, abandoned(0, 1)]), None, "a receiver that has it passes over it by itself");
        assert_eq!(point(&[]), None);
    }

    #[test]
    fn r12_iv_what_the_receiver_has_settled_is_passed_over_whatever_its_reliability() {
        assert_eq!(point(&[UNORDERED, SETTLED, UNORDERED, SETTLED, BARRED]), Some(106));
    }

    #[test]
    fn the_point_never_comes_to_rest_within_a_message_that_the_receiver_is_to_keep() {
        let begun = Passage::Settled { ends: false };
        assert_eq!(point(&[UNORDERED, begun, BARRED]), Some(103));
        assert_eq!(point(&[UNORDERED, begun, begun, SETTLED, BARRED]), Some(106));
    }

    #[test]
    fn rfc3758_3_5_c4_each_stream_is_named_once_with_its_last_message_and_unordered_ones_are_not() {
        let chunks = [abandoned(7, 1), UNORDERED, abandoned(2, 8), abandoned(7, 2), abandoned(7, 3)];
        let advance = advance(103, chunks.into_iter(), 8).expect("the first one is abandoned");
        assert_eq!(advance.skipped, [message(2, 8), message(7, 3)]);
        assert_eq!(advance.cumulative, 107);
    }

    #[test]
    fn rfc3758_3_5_c4_what_fits_into_no_packet_waits() {
        let chunks = [abandoned(1, 1), abandoned(2, 1), abandoned(1, 2), abandoned(3, 1), abandoned(1, 3)];
        let advance = advance(103, chunks.into_iter(), 2).expect("the first one is abandoned");
        assert_eq!((advance.cumulative, advance.skipped), (105, vec![message(1, 2), message(2, 1)]));
    }
}
