//! What E-FORWARD-TSN tells (docs/enhanced-forward-tsn.md): lost chunks of abandoned messages, wherever they lie.

use std::collections::{BTreeMap, BTreeSet};

use crate::outstanding::{ChunkState, Ledger, MessageSlot};
use crate::send::flight::Flight;
use crate::send::messages::OutboundMessage;
use crate::wire::{ChunkOut, EnhancedForwardTsn, Framing, PacketBuilder, SkippedRun, StreamId, Tsn};

/// The abandoned chunks that were named to the peer.
#[derive(Debug, Default)]
pub(super) struct Apart {
    told: BTreeSet<u64>,
}

/// The chunks that the peer has yet to pass over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Untold {
    /// The highest TSN that the peer is to pass over, told or not.
    pub(super) highest: Option<u64>,
    /// Some have not been named yet.
    pub(super) has_news: bool,
    /// A chunk among the news will not arrive, as far as is known.
    pub(super) is_lost: bool,
}

impl Apart {
    /// Compares the ledger's abandoned chunks with those already named.
    pub(super) fn look(&mut self, ledger: &Ledger) -> Untold {
        let first_tsn = ledger.first_tsn();
        if self.told.first().is_some_and(|&told| told < first_tsn) {
            self.told = self.told.split_off(&first_tsn);
        }
        let mut untold = Untold::default();
        for tsn in ledger.passable() {
            untold.highest = Some(tsn);
            if !self.told.contains(&tsn) {
                untold.has_news = true;
                untold.is_lost |= ledger.get(tsn).is_some_and(|chunk| chunk.state == ChunkState::Abandoned);
            }
        }
        untold
    }

    /// Notes that FORWARD-TSN named the chunks up to `cumulative` in its place.
    pub(super) fn note_plain(&mut self, cumulative: u64, ledger: &Ledger) {
        self.told.extend(ledger.passable().take_while(|&tsn| tsn <= cumulative));
    }

    /// Returns whether this TSN was named to the peer.
    pub(super) fn has_told(&self, tsn: u64) -> bool {
        self.told.contains(&tsn)
    }

    /// Names the new chunks, or with `again` all that the peer has not confirmed, of at most `messages_max` messages. A message is named as a
    /// whole: a fragment that arrived after the rest was passed over would belong to no message. Returns the highest TSN named, `None` if nothing was
    /// written.
    pub(super) fn write(
        &mut self,
        again: bool,
        messages_max: usize,
        flight: &Flight,
        packet: &mut PacketBuilder<'_>,
    ) -> Option<u64> {
        let ledger = &flight.ledger;
        let mut list = List::new(ledger.first_tsn(), packet.remaining());
        let mut highest = 0;
        for (slot, tsns) in self.messages(again, ledger).into_iter().take(messages_max) {
            let message = flight.buffer.message(slot).and_then(|message| name(message, flight.framing));
            if !list.add(&tsns, message) {
                // What fits into no packet is left to FORWARD-TSN.
                if !List::new(ledger.first_tsn(), usize::MAX).add(&tsns, message) {
                    self.told.extend(tsns);
                }
                continue;
            }
            highest = highest.max(tsns.last().copied().unwrap_or_default());
            self.told.extend(tsns);
        }
        list.write(packet).then_some(highest)
    }

    /// The messages to tell of, in the order of their first TSNs, with all of their chunks that the peer has not passed over.
    fn messages(&self, again: bool, ledger: &Ledger) -> Vec<(MessageSlot, Vec<u64>)> {
        let mut places = BTreeMap::new();
        for tsn in ledger.passable().filter(|tsn| again || !self.told.contains(tsn)) {
            if let Some(chunk) = ledger.get(tsn) {
                places.insert(chunk.message.0, Vec::new());
            }
        }
        for (tsn, chunk) in (ledger.first_tsn()..).zip(ledger.iter()).filter(|(_, chunk)| chunk.state.is_abandoned()) {
            if let Some(tsns) = places.get_mut(&chunk.message.0) {
                tsns.push(tsn);
            }
        }
        let mut messages: Vec<_> = places.into_iter().map(|(slot, tsns)| (MessageSlot(slot), tsns)).collect();
        messages.sort_unstable_by_key(|(_, tsns)| tsns.first().copied());
        messages
    }
}

/// Stream, U bit and number by which the chunk names a message. DATA does not number unordered messages; their TSNs identify them.
fn name(message: &OutboundMessage, framing: Framing) -> Option<(StreamId, bool, u32)> {
    let &OutboundMessage { stream, unordered, number, .. } = message;
    match framing {
        Framing::Data => (!unordered).then_some((stream, false, number & u32::from(u16::MAX))),
        Framing::IData => Some((stream, unordered, number)),
    }
}

/// The lists of a chunk, as far as they have room.
#[derive(Debug)]
struct List {
    first_tsn: u64,
    room_bytes: usize,
    /// First and last TSN, in the order of their messages.
    blocks: Vec<(u64, u64)>,
    runs: Vec<SkippedRun>,
}

impl List {
    fn new(first_tsn: u64, room_bytes: usize) -> Self {
        Self { first_tsn, room_bytes, blocks: Vec::new(), runs: Vec::new() }
    }

    /// Adds the chunks of a message, which ascend. Returns whether there was room for all of them.
    fn add(&mut self, tsns: &[u64], message: Option<(StreamId, bool, u32)>) -> bool {
        let (blocks_before, last_before) = (self.blocks.len(), self.blocks.last().copied());
        for &tsn in tsns {
            match self.blocks.last_mut() {
                Some((_, last)) if *last + 1 == tsn => *last = tsn,
                _ => self.blocks.push((tsn, tsn)),
            }
        }
        let run = message.and_then(|message| self.run_before(message));
        let runs = self.runs.len() + usize::from(message.is_some() && run.is_none());
        let entries_max = EnhancedForwardTsn::ENTRIES_MAX;
        let fits = self.blocks.len().max(runs) <= entries_max
            && EnhancedForwardTsn::bytes(self.blocks.len(), runs) <= self.room_bytes;
        if !fits {
            self.blocks.truncate(blocks_before);
            if let Some((last, before)) = self.blocks.last_mut().zip(last_before) {
                *last = before;
            }
            return false;
        }
        match (message, run.and_then(|run| self.runs.get_mut(run))) {
            (Some(_), Some(run)) => run.more += 1,
            (Some((stream, unordered, first)), None) => {
                self.runs.push(SkippedRun { stream, unordered, first, more: 0 });
            }
            (None, _) => {}
        }
        true
    }

    /// The run that the message continues.
    fn run_before(&self, (stream, unordered, number): (StreamId, bool, u32)) -> Option<usize> {
        self.runs.iter().rposition(|run| {
            let next = run.first.wrapping_add(u32::from(run.more) + 1);
            (run.stream, run.unordered, next) == (stream, unordered, number) && run.more < SkippedRun::MORE_MAX
        })
    }

    /// Writes the chunk. Returns whether there was something to write, and room.
    fn write(mut self, packet: &mut PacketBuilder<'_>) -> bool {
        self.blocks.sort_unstable();
        let mut blocks: Vec<(u16, u16)> = Vec::with_capacity(self.blocks.len());
        for (first, last) in self.blocks {
            let offset = |tsn: u64| u16::try_from(tsn + 1 - self.first_tsn).unwrap_or(u16::MAX);
            let (first, last) = (offset(first), offset(last));
            match blocks.last_mut() {
                Some((_, before)) if *before + 1 == first => *before = last,
                _ => blocks.push((first, last)),
            }
        }
        let cumulative = Tsn::wrap(self.first_tsn.wrapping_sub(1));
        let chunk = ChunkOut::EnhancedForwardTsn { cumulative, blocks: &blocks, messages: &self.runs };
        !blocks.is_empty() && packet.chunk(&chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_takes_messages_as_a_whole_as_far_as_they_have_room() {
        let named = |number| Some((StreamId(3), false, number));
        let mut list = List::new(1, EnhancedForwardTsn::bytes(2, 1));
        assert!(list.add(&[2], named(5)) && list.add(&[4, 5], named(6)));
        assert!(!list.add(&[6, 8], None) && !list.add(&[6], named(9)) && !list.add(&[8], None), "no room for another");
        assert!(list.add(&[6], named(7)), "it continues where the last one ended");
        assert_eq!(list.blocks, [(2, 2), (4, 6)]);
        assert_eq!(list.runs, [SkippedRun { stream: StreamId(3), unordered: false, first: 5, more: 2 }]);
    }

    #[test]
    fn a_list_has_no_more_entries_than_a_receiver_reads() {
        let max = EnhancedForwardTsn::ENTRIES_MAX as u64;
        let mut list = List::new(1, usize::MAX);
        assert!((0..max).all(|index| list.add(&[1 + 2 * index], None)) && !list.add(&[1 + 2 * max], None));
        let mut list = List::new(1, usize::MAX);
        let named = |index: u64| u16::try_from(index).ok().map(|stream| (StreamId(stream), false, 0));
        assert!((0..max).all(|index| list.add(&[1 + index], named(index))) && !list.add(&[1 + max], named(max)));
    }
}
