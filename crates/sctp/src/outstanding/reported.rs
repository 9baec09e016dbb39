//! The gap ack blocks of the last SACK, so that the cost of the next one depends on its changes and not on its length.

use std::collections::{BTreeMap, BTreeSet};

use super::CHUNKS_MAX;
use super::chunk::Chunk;
use super::digest::Arrival;
use super::settled::Settled;
use crate::path_id::{PathId, SparseByPath};
use crate::wire::gap_ack_block;

/// First and last TSN of a run of chunks.
pub(super) type Block = (u64, u64);

/// Number of chunks that a peer may take back before its gap ack blocks are ignored for a while.
///
/// RFC 9260 §6.2.1 lets a receiver drop data that it has reported, but hardly any does. A peer that alternately reports and takes back a whole flight
/// would make each of its SACKs cost a walk over the flight.
const RENEGED_MAX: usize = 1_024;

/// Entries for which memory is kept between two acknowledgements.
const SCRATCH_KEPT: usize = 64;

/// The chunks that the last SACK reported above its cumulative TSN, the limit below which reports are believed, the chunks that may still be
/// reported, and those abandoned before they could be.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// Ascending, without overlap, above the Cumulative TSN Ack Point.
    blocks: Vec<Block>,
    /// The gaps as on the wire, relative to this TSN; empty if the peer's blocks were not all sound.
    gaps: Vec<[u8; 4]>,
    cumulative: u64,
    /// The blocks of the last SACK that the peer said it would not take back, in the same way.
    settled_blocks: Vec<Block>,
    /// Number of those chunks.
    pub(super) chunks: usize,
    pub(super) ghosts: Ghosts,
    /// Chunks of abandoned messages that were lost or never left, by TSN.
    pub(super) buried: BTreeSet<u64>,
    /// Chunks taken back since reports were last believed again.
    reneged_chunks: usize,
    /// Gap ack blocks are passed over until the peer has acknowledged everything below this.
    believed_from: u64,
    /// Chunks whose duplicates may still be reported.
    pub(super) settled: Settled,
    /// Scratch space for single chunks of an acknowledgement.
    scratch: Vec<Arrival>,
}

/// Chunks that were abandoned in flight and may still be there.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    /// All of them, headers and padding included, by the path on which they were last sent.
    pub(super) bytes: SparseByPath<usize>,
    /// The same of each, by TSN.
    chunks: BTreeMap<u64, (PathId, usize)>,
}

impl Ghosts {
    pub(super) fn insert(&mut self, tsn: u64, chunk: &Chunk) {
        *self.bytes.of_mut(chunk.path) += chunk.bytes();
        self.chunks.insert(tsn, (chunk.path, chunk.bytes()));
    }

    pub(super) fn remove(&mut self, tsn: u64) {
        if let Some((path, bytes)) = self.chunks.remove(&tsn) {
            *self.bytes.of_mut(path) -= bytes;
        }
    }
}

impl Reported {
    /// The number of blocks in front that a SACK repeats from the one before: while a gap stays open, hardly more than the last block
    /// changes. `gaps` are the blocks as on the wire.
    pub(super) fn repeated(&self, cumulative: u64, gaps: &[[u8; 4]]) -> usize {
        if self.cumulative != cumulative {
            return 0;
        }
        let both = self.gaps.len().min(gaps.len());
        let is_same = |count: usize| {
            self.gaps.get(..count).map(<[_]>::as_flattened) == gaps.get(..count).map(<[_]>::as_flattened)
        };
        // Hardly more than the last one differs, and the others take one comparison.
        match both.checked_sub(1) {
            None => 0,
            Some(_) if is_same(both) => both,
            Some(but_the_last) if is_same(but_the_last) => but_the_last,
            Some(_) => self.gaps.iter().zip(gaps).take_while(|(before, now)| before == now).count(),
        }
    }

    /// The TSNs by which the last block of a SACK has grown, if nothing else has changed since the one before and blocks are believed. `gaps`
    /// are the blocks as on the wire.
    pub(super) fn growth(&self, cumulative: u64, gaps: &[[u8; 4]]) -> Option<Block> {
        let (&last, others) = gaps.split_last()?;
        let (&last_before, others_before) = self.gaps.split_last()?;
        let ((start, end), (start_before, end_before)) = (gap_ack_block(last), gap_ack_block(last_before));
        let has_grown = self.cumulative == cumulative
            && start == start_before
            && end > end_before
            && self.is_believed(cumulative + 1)
            && others.as_flattened() == others_before.as_flattened();
        has_grown.then(|| (cumulative + u64::from(end_before) + 1, cumulative + u64::from(end)))
    }

    /// The last block has grown up to `last`, as [`growth`](Self::growth) said.
    pub(super) fn grow(&mut self, last: u64) {
        if let Some((_, end)) = self.blocks.last_mut() {
            *end = last;
        }
        let offset = u16::try_from(last.saturating_sub(self.cumulative)).unwrap_or(u16::MAX);
        if let Some([_, _, high, low]) = self.gaps.last_mut() {
            [*high, *low] = offset.to_be_bytes();
        }
    }

    /// An empty list with the memory of the last one.
    pub(super) fn take_scratch(&mut self) -> Vec<Arrival> {
        std::mem::take(&mut self.scratch)
    }

    /// The list that [`take_scratch`](Self::take_scratch) returned is read.
    pub(super) fn keep_scratch(&mut self, mut list: Vec<Arrival>) {
        if list.capacity() <= SCRATCH_KEPT {
            list.clear();
            self.scratch = list;
        }
    }

    /// The blocks of the last SACK. To be given back by [`replace`](Self::replace).
    pub(super) fn take(&mut self) -> Vec<Block> {
        std::mem::take(&mut self.blocks)
    }

    /// The SACK that has just been applied: the first `repeated` of the blocks `before` and then `blocks`; `gaps` are all as on the
    /// wire.
    pub(super) fn replace(
        &mut self,
        mut before: Vec<Block>,
        repeated: usize,
        blocks: impl Iterator<Item = Block>,
        (cumulative, gaps): (u64, &[[u8; 4]]),
    ) {
        before.truncate(repeated);
        before.extend(blocks);
        self.blocks = before;
        self.gaps.truncate(repeated);
        // If some make no sense, the two lists do not stand side by side, and nothing is to be taken for repeated.
        if self.blocks.len() == gaps.len() {
            self.gaps.extend_from_slice(gaps.get(repeated..).unwrap_or_default());
        } else {
            self.gaps.clear();
        }
        self.cumulative = cumulative;
    }

    /// Stores the non-renegable blocks of a SACK. Returns the previous ones.
    pub(super) fn replace_settled(&mut self, blocks: Vec<Block>) -> Vec<Block> {
        std::mem::replace(&mut self.settled_blocks, blocks)
    }

    /// Everything up to `tsn` is not reported by a gap ack block any more.
    pub(super) fn forget_through(&mut self, tsn: u64) {
        if self.blocks.first().is_none_or(|&(first, _)| first > tsn) {
            return;
        }
        let gone = self.blocks.partition_point(|&(_, last)| last <= tsn);
        self.blocks.drain(..gone);
        if let Some((first, _)) = self.blocks.first_mut() {
            *first = (*first).max(tsn + 1);
        }
    }

    /// Returns whether gap ack blocks count, now that all below `first_tsn` is acknowledged.
    pub(super) fn is_believed(&self, first_tsn: u64) -> bool {
        self.believed_from <= first_tsn
    }

    /// The peer took back chunks that it had reported. After too many of them its reports are ignored until everything that is outstanding now, below
    /// `next_tsn`, has been acknowledged.
    pub(super) fn note_reneged(&mut self, chunks: usize, next_tsn: u64) {
        self.reneged_chunks += chunks;
        if self.reneged_chunks > RENEGED_MAX {
            self.reneged_chunks = 0;
            self.believed_from = next_tsn;
        }
    }

    /// The stream has been idle: no duplicate of anything before will be reported.
    pub(super) fn forget_settled(&mut self) {
        self.settled = Settled::default();
    }

    /// Returns whether nothing needs to be remembered while nothing is outstanding. `first_tsn` is the next TSN.
    pub(super) fn is_blank(&self, first_tsn: u64) -> bool {
        self.blocks.is_empty()
            && self.settled_blocks.is_empty()
            && self.chunks == 0
            && self.reneged_chunks == 0
            && self.is_believed(first_tsn)
            && self.settled.is_empty()
    }
}

/// The parts of `these` that no block of `those` covers. Both ascend and do not overlap themselves; so does the result. The cost is
/// that of walking over the blocks, however long they are.
pub(super) fn difference(
    these: impl Iterator<Item = Block>,
    those: impl Iterator<Item = Block>,
) -> impl Iterator<Item = Block> {
    let (mut these, mut those) = (these.peekable(), those.peekable());
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let &(first, last) = these.peek()?;
            let first = first.max(from);
            if first > last {
                these.next();
                continue;
            }
            while those.next_if(|&(_, covered_to)| covered_to < first).is_some() {}
            let (covered_from, covered_to) = those.peek().copied().unwrap_or((u64::MAX, u64::MAX));
            if covered_from <= first {
                from = covered_to + 1;
                continue;
            }
            from = last.min(covered_from - 1) + 1;
            return Some((first, from - 1));
        }
    })
}

const _: () = assert!(RENEGED_MAX < CHUNKS_MAX);

/// A chunk of an abandoned message is neither in flight nor missing any more.
pub(super) fn lay_to_rest(reported: &mut Option<Box<Reported>>, tsn: u64) {
    if let Some(reported) = reported {
        reported.ghosts.remove(tsn);
        reported.buried.remove(&tsn);
    }
}

/// Lists a lost chunk of an abandoned message.
pub(super) fn bury(reported: &mut Option<Box<Reported>>, buries: bool, tsn: u64) {
    if buries {
        reported.get_or_insert_default().buried.insert(tsn);
    }
}

/// A chunk came to be reported by gap ack blocks, or is not any more.
pub(super) fn count_gap_acked(reported: &mut Option<Box<Reported>>, count: impl FnOnce(usize) -> usize) {
    let reported = reported.get_or_insert_default();
    reported.chunks = count(reported.chunks);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Ascending blocks out of lengths of holes and of blocks; a hole of zero makes two blocks touch.
    fn blocks(lengths: &[(u64, u64)]) -> Vec<Block> {
        let mut next = 1;
        let block = |&(hole, length): &(u64, u64)| {
            let first = next + hole;
            next = first + length;
            (first, next - 1)
        };
        lengths.iter().map(block).collect()
    }

    fn set(blocks: &[Block]) -> BTreeSet<u64> {
        blocks.iter().flat_map(|&(first, last)| first..=last).collect()
    }

    proptest! {
        #[test]
        fn the_difference_is_that_of_the_sets(
            these in prop::collection::vec((0..4_u64, 1..6_u64), 0..20),
            those in prop::collection::vec((0..4_u64, 1..6_u64), 0..20),
        ) {
            let (these, those) = (blocks(&these), blocks(&those));
            let result: Vec<_> = difference(these.iter().copied(), those.iter().copied()).collect();
            prop_assert!(result.iter().all(|&(first, last)| first <= last));
            prop_assert!(result.windows(2).all(|pair| pair[0].1 < pair[1].0));
            prop_assert_eq!(set(&result), &set(&these) - &set(&those));
        }

        #[test]
        fn what_is_forgotten_is_gone_and_nothing_else(lengths in prop::collection::vec((0..4_u64, 1..6_u64), 0..20), tsn in 0..60_u64) {
            let blocks = blocks(&lengths);
            let mut reported = Reported::default();
            reported.replace(Vec::new(), 0, blocks.iter().copied(), (0, &[]));
            reported.forget_through(tsn);
            let above: BTreeSet<_> = set(&blocks).into_iter().filter(|&reported| reported > tsn).collect();
            prop_assert_eq!(set(&reported.take()), above);
        }
    }

    #[test]
    fn a_peer_that_takes_back_too_much_is_believed_once_it_has_acknowledged_all_that_was_outstanding() {
        let mut reported = Reported::default();
        reported.note_reneged(RENEGED_MAX, 5_000);
        assert!(reported.is_believed(10));
        reported.note_reneged(1, 5_000);
        assert!(!reported.is_believed(4_999) && !reported.is_blank(4_999));
        assert!(reported.is_believed(5_000) && reported.is_blank(5_000));
    }
}
