//! The chunks in TSN order, and the sums over them: every change of a chunk's state passes through here, so that the sums hold.

mod all;
mod tallies;

use std::collections::VecDeque;

use bytes::Bytes;
use festina_units::Instant;

use super::chunk::{Chunk, ChunkState, Transmission};
use super::digest::Credit;
use super::reported::{Reported, bury, count_gap_acked, lay_to_rest};
use crate::event::RetransmissionCause;
use crate::path_id::{PathId, SparseByPath};
pub(crate) use tallies::{Tallies, Tally};

/// Chunks for which memory is kept while nothing is outstanding: enough for a thin stream.
pub(crate) const CHUNKS_KEPT: usize = 4;

/// The same while burst follows burst.
const CHUNKS_KEPT_FOR_BURSTS: usize = 32;

/// The outstanding chunks. TSNs are unwrapped.
#[derive(Debug)]
pub(crate) struct Ledger {
    chunks: VecDeque<Chunk>,
    /// TSN of the first chunk; its predecessor is the Cumulative TSN Ack Point.
    first_tsn: u64,
    in_flight: Tallies,
    lost: Tally,
    /// No chunk below is lost. Means nothing while none is.
    lost_from: u64,
    /// Which chunks those are that gap ack blocks reported, and what else is rare. On the heap, since most associations have none.
    reported: Option<Box<Reported>>,
    /// Lost chunks of abandoned messages are listed, since the peer skips them one by one.
    buries: bool,
    /// Payload bytes of the longest chunk so far.
    longest_bytes: u16,
}

impl Ledger {
    /// Creates an empty ledger whose first chunk will have this TSN.
    pub(crate) fn new(first_tsn: u64) -> Self {
        Self {
            chunks: VecDeque::new(),
            first_tsn,
            in_flight: Tallies::default(),
            lost: Tally::default(),
            lost_from: first_tsn,
            reported: None,
            buries: false,
            longest_bytes: 0,
        }
    }

    /// TSN of the earliest chunk, or of the next one if there is none.
    pub(crate) fn first_tsn(&self) -> u64 {
        self.first_tsn
    }

    /// TSN of the next new chunk.
    pub(crate) fn next_tsn(&self) -> u64 {
        self.first_tsn + self.chunks.len() as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The highest TSN of a chunk that was not abandoned; of the first one if all were.
    pub(crate) fn last_tsn(&self) -> u64 {
        let abandoned = self.chunks.iter().rev().take_while(|chunk| chunk.state.is_abandoned()).count();
        (self.next_tsn() - abandoned as u64).saturating_sub(1).max(self.first_tsn)
    }

    /// Returns whether something is outstanding, and all of it was abandoned or has arrived for good.
    pub(crate) fn is_all_abandoned(&self) -> bool {
        !self.chunks.is_empty() && self.in_flight().chunks + self.lost.chunks + self.gap_acked_chunks() == 0
    }

    /// The chunks in flight on all paths.
    #[inline]
    pub(crate) fn in_flight(&self) -> Tally {
        self.in_flight.sum()
    }

    /// The chunks in flight by path.
    pub(crate) fn in_flight_by_path(&self) -> &Tallies {
        &self.in_flight
    }

    /// Notes in blank credits the bytes in flight on each path before an acknowledgement.
    #[inline]
    pub(super) fn begin_credits(&mut self, credits: &mut SparseByPath<Credit>) {
        self.in_flight.begin_credits(credits);
    }

    /// The credits of an acknowledgement are read: keeps their memory for the next one.
    #[inline]
    pub(super) fn keep_credits(&mut self, credits: &mut SparseByPath<Credit>) {
        self.in_flight.keep_credits(credits);
    }

    /// Returns whether the earliest chunk was last sent on this path.
    #[inline]
    pub(crate) fn begins_on(&self, path: PathId) -> bool {
        self.chunks.front().is_some_and(|chunk| chunk.is_on(path))
    }

    /// The earliest chunk last sent on this path.
    #[inline]
    pub(crate) fn earliest_on(&self, path: PathId) -> Option<&Chunk> {
        let first = self.chunks.front()?;
        if first.is_on(path) { Some(first) } else { self.earliest_behind(path) }
    }

    #[cold]
    fn earliest_behind(&self, path: PathId) -> Option<&Chunk> {
        self.iter_on(path).next()
    }

    /// Bytes that may be in the network on this path, including headers and padding: those of the chunks in flight, and of those abandoned in flight.
    /// RFC 3758 §3.5 A2 counts an abandoned chunk as acknowledged, but the network still carries it: otherwise a sender that abandons chunks early
    /// could send without limit.
    pub(crate) fn on_the_way_bytes(&self, path: PathId) -> usize {
        let ghosts = self.reported.as_ref().map_or(0, |reported| *reported.ghosts.bytes.of(path));
        self.in_flight.of(path).bytes + ghosts
    }

    /// The chunks to be sent again.
    pub(crate) fn lost(&self) -> Tally {
        self.lost
    }

    /// Number of chunks reported by gap ack blocks.
    pub(crate) fn gap_acked_chunks(&self) -> usize {
        self.reported.as_ref().map_or(0, |reported| reported.chunks)
    }

    /// The highest TSN that gap ack blocks have reported.
    pub(crate) fn last_reported(&self) -> Option<u64> {
        let is_reported = |chunk: &Chunk| matches!(chunk.state, ChunkState::GapAcked | ChunkState::NonRenegable);
        Some(self.first_tsn + self.chunks.iter().rposition(is_reported)? as u64)
    }

    /// TSN of the earliest lost chunk, or of the next new one if none is lost. Earlier chunks are skipped once, regardless of the number of packets
    /// of lost chunks.
    pub(crate) fn first_lost(&mut self) -> u64 {
        if self.lost.chunks == 0 {
            return self.next_tsn();
        }
        while self.get(self.lost_from).is_some_and(|chunk| !matches!(chunk.state, ChunkState::Lost(_))) {
            self.lost_from += 1;
        }
        self.lost_from
    }

    pub(crate) fn get(&self, tsn: u64) -> Option<&Chunk> {
        self.chunks.get(self.index(tsn)?)
    }

    /// Every chunk in TSN order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Chunk> {
        self.chunks.iter()
    }

    /// The chunks last sent on this path, in TSN order.
    pub(crate) fn iter_on(&self, path: PathId) -> impl DoubleEndedIterator<Item = &Chunk> {
        self.chunks.iter().filter(move |chunk| chunk.is_on(path))
    }

    /// Appends a new chunk with the TSN [`next_tsn`](Self::next_tsn), which is sent now.
    pub(crate) fn push(&mut self, chunk: Chunk) {
        debug_assert_eq!(chunk.state, ChunkState::InFlight);
        self.longest_bytes = self.longest_bytes.max(u16::try_from(chunk.payload.len()).unwrap_or(u16::MAX));
        self.in_flight.of_mut(chunk.path).add(&chunk);
        self.chunks.push_back(chunk);
    }

    /// Payload bytes of the longest chunk so far: those of a fragment, if messages are longer.
    pub(crate) fn longest_bytes(&self) -> usize {
        usize::from(self.longest_bytes)
    }

    /// The earliest chunk leaves the ledger, after a last look at it.
    pub(crate) fn pop<R>(&mut self, look: impl FnOnce(&Chunk) -> R) -> Option<R> {
        let chunk = self.chunks.front()?;
        let seen = look(chunk);
        match chunk.state {
            ChunkState::InFlight => self.in_flight.of_mut(chunk.path).remove(chunk),
            ChunkState::GapAcked | ChunkState::NonRenegable => {
                count_gap_acked(&mut self.reported, |chunks| chunks - 1);
            }
            ChunkState::Lost(_) => self.lost.remove(chunk),
            ChunkState::AbandonedOnTheWay | ChunkState::Abandoned => lay_to_rest(&mut self.reported, self.first_tsn),
        }
        if let Some(resent) = chunk.resent {
            self.reported.get_or_insert_default().settled.push(self.first_tsn, chunk.transmissions, resent);
        }
        self.chunks.pop_front();
        self.first_tsn += 1;
        self.lost_from = self.lost_from.max(self.first_tsn);
        if self.chunks.is_empty() {
            self.shrink();
        }
        Some(seen)
    }

    /// No burst is expected: shrinks to the memory of a thin stream, if nothing is outstanding.
    pub(crate) fn calm_down(&mut self) {
        self.keep(CHUNKS_KEPT);
    }

    /// Frees the memory of the chunks if it has room for more than `chunks` and is empty.
    fn keep(&mut self, chunks: usize) {
        if self.chunks.is_empty() && self.chunks.capacity() > chunks {
            self.chunks = VecDeque::new();
        }
    }

    /// Nothing is outstanding: shrinks to the memory of a burst.
    fn shrink(&mut self) {
        self.keep(CHUNKS_KEPT_FOR_BURSTS);
        self.reported.take_if(|reported| reported.is_blank(self.first_tsn));
    }

    /// What gap ack blocks have reported.
    pub(super) fn reported(&mut self) -> &mut Reported {
        self.reported.get_or_insert_default()
    }

    /// As [`reported`](Self::reported), if anything ever was.
    pub(super) fn reported_before(&mut self) -> Option<&mut Reported> {
        self.reported.as_deref_mut()
    }

    /// Sets whether lost chunks of abandoned messages are listed from now on, for [`buried_from`](Self::buried_from).
    pub(crate) fn set_buries(&mut self, buries: bool) {
        self.buries = buries;
    }

    /// Returns whether the peer skips abandoned chunks one by one.
    pub(super) fn buries(&self) -> bool {
        self.buries
    }

    /// Lost chunks of abandoned messages, from this TSN on.
    pub(super) fn buried_from(&self, tsn: u64) -> impl Iterator<Item = u64> {
        self.reported.iter().flat_map(move |reported| reported.buried.range(tsn..).copied())
    }

    /// Gives back even the memory that a thin stream needs, if nothing is outstanding.
    pub(crate) fn give_back_memory(&mut self) {
        if self.chunks.is_empty() {
            self.chunks = VecDeque::new();
            if let Some(reported) = &mut self.reported {
                reported.forget_settled();
            }
            self.shrink();
        }
    }

    /// A gap ack block reports the chunk. The chunk, if it was not known before to have arrived.
    pub(crate) fn gap_ack(&mut self, tsn: u64) -> Option<&Chunk> {
        let index = self.index(tsn)?;
        let chunk = self.chunks.get_mut(index)?;
        match chunk.state {
            ChunkState::GapAcked | ChunkState::NonRenegable | ChunkState::Abandoned => return None,
            ChunkState::AbandonedOnTheWay => {
                lay_to_rest(&mut self.reported, tsn);
                chunk.state = ChunkState::Abandoned;
                return Some(chunk);
            }
            ChunkState::InFlight => self.in_flight.of_mut(chunk.path).remove(chunk),
            ChunkState::Lost(_) => self.lost.remove(chunk),
        }
        chunk.state = ChunkState::GapAcked;
        chunk.miss_indications = 0;
        count_gap_acked(&mut self.reported, |chunks| chunks + 1);
        Some(chunk)
    }

    /// The peer no longer reports the chunk: it counts as in flight again, and as reported missing once (RFC 9260 §6.2.1 D iii). Returns whether it
    /// was reported before.
    pub(crate) fn renege(&mut self, tsn: u64) -> bool {
        let Some(chunk) = self.index(tsn).and_then(|index| self.chunks.get_mut(index)) else { return false };
        if chunk.state != ChunkState::GapAcked {
            // It stays settled, but a peer that says such things is to be believed no longer than others.
            return chunk.state == ChunkState::NonRenegable;
        }
        count_gap_acked(&mut self.reported, |chunks| chunks - 1);
        self.in_flight.of_mut(chunk.path).add(chunk);
        chunk.state = ChunkState::InFlight;
        chunk.miss_indications = 1;
        true
    }

    /// Counts another miss indication for a chunk in flight.
    pub(crate) fn count_miss(&mut self, tsn: u64) -> Option<&Chunk> {
        let index = self.index(tsn)?;
        let chunk = self.chunks.get_mut(index)?;
        if !chunk.state.is_undecided() {
            return None;
        }
        chunk.miss_indications = chunk.miss_indications.saturating_add(1);
        Some(chunk)
    }

    /// Marks the chunk as lost, if it is in flight.
    pub(crate) fn lose(&mut self, tsn: u64, cause: RetransmissionCause) {
        let Some(chunk) = self.index(tsn).and_then(|index| self.chunks.get_mut(index)) else { return };
        if chunk.state == ChunkState::InFlight {
            self.lost_from = if self.lost.chunks == 0 { tsn } else { self.lost_from.min(tsn) };
            self.in_flight.of_mut(chunk.path).remove(chunk);
            self.lost.add(chunk);
            chunk.state = ChunkState::Lost(cause);
            chunk.fast_retransmitted |= cause == RetransmissionCause::Fast;
        } else if chunk.state == ChunkState::AbandonedOnTheWay {
            lay_to_rest(&mut self.reported, tsn);
            bury(&mut self.reported, self.buries, tsn);
            chunk.state = ChunkState::Abandoned;
        }
    }

    /// Abandons the chunk with its message. Returns its payload bytes.
    pub(crate) fn abandon(&mut self, tsn: u64) -> usize {
        let Some(chunk) = self.index(tsn).and_then(|index| self.chunks.get_mut(index)) else { return 0 };
        let state = match chunk.state {
            ChunkState::InFlight => {
                self.in_flight.of_mut(chunk.path).remove(chunk);
                self.reported.get_or_insert_default().ghosts.insert(tsn, chunk);
                ChunkState::AbandonedOnTheWay
            }
            ChunkState::Lost(_) => {
                self.lost.remove(chunk);
                bury(&mut self.reported, self.buries, tsn);
                ChunkState::Abandoned
            }
            ChunkState::GapAcked => {
                count_gap_acked(&mut self.reported, |chunks| chunks - 1);
                ChunkState::Abandoned
            }
            ChunkState::NonRenegable | ChunkState::AbandonedOnTheWay | ChunkState::Abandoned => return 0,
        };
        chunk.state = state;
        std::mem::take(&mut chunk.payload).len()
    }

    /// A chunk that never leaves takes the TSN [`next_tsn`](Self::next_tsn): the end of a message that was abandoned before all of it had
    /// one.
    pub(crate) fn push_abandoned(&mut self, chunk: Chunk) {
        debug_assert_eq!(chunk.state, ChunkState::Abandoned);
        let tsn = self.next_tsn();
        bury(&mut self.reported, self.buries, tsn);
        self.chunks.push_back(chunk);
    }

    /// The receiver will not drop a chunk that gap ack blocks have reported: settles it and frees its payload after a last call of `look`.
    pub(super) fn settle_reported(&mut self, tsn: u64, look: impl FnOnce(&Chunk)) {
        let chunk = self.index(tsn).and_then(|index| self.chunks.get_mut(index));
        if let Some(chunk) = chunk.filter(|chunk| chunk.state == ChunkState::GapAcked) {
            look(chunk);
            chunk.state = ChunkState::NonRenegable;
            chunk.payload = Bytes::new();
        }
    }

    /// The peer passes over abandoned chunks one by one, and gap ack blocks report this one: it is settled, after a last look at it.
    #[cold]
    pub(super) fn settle_abandoned(&mut self, tsn: u64, look: impl FnOnce(&Chunk)) {
        let chunk = self.index(tsn).and_then(|index| self.chunks.get_mut(index));
        if let Some(chunk) = chunk.filter(|chunk| chunk.state.is_abandoned()) {
            look(chunk);
            lay_to_rest(&mut self.reported, tsn);
            chunk.state = ChunkState::NonRenegable;
            count_gap_acked(&mut self.reported, |chunks| chunks + 1);
        }
    }

    /// Records a retransmission of the chunk on `path`.
    pub(crate) fn resend(&mut self, tsn: u64, now: Instant, again: Transmission, path: PathId, immediate_ack: bool) {
        let Some(chunk) = self.index(tsn).and_then(|index| self.chunks.get_mut(index)) else { return };
        if let ChunkState::Lost(_) = chunk.state {
            self.lost.remove(chunk);
            chunk.path = path;
            self.in_flight.of_mut(chunk.path).add(chunk);
            chunk.state = ChunkState::InFlight;
        } else if !chunk.is_on(path) {
            self.in_flight.of_mut(chunk.path).remove(chunk);
            chunk.path = path;
            self.in_flight.of_mut(chunk.path).add(chunk);
        }
        chunk.sent_at = now;
        chunk.resent = Some(again);
        chunk.immediate_ack = immediate_ack;
        chunk.transmissions = chunk.transmissions.saturating_add(1);
        chunk.miss_indications = 0;
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.chunks.capacity()
    }

    fn index(&self, tsn: u64) -> Option<usize> {
        usize::try_from(tsn.checked_sub(self.first_tsn)?).ok()
    }
}
