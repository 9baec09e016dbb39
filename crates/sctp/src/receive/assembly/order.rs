//! Which message of a stream is due (RFC 9260 §6.5, §6.6; RFC 8260 §2.2). SSNs and MIDs alone make the order: a message that was skipped
//! may come with a later TSN.

use std::collections::BTreeMap;

use super::cost::{WAITING_ENTRY_BYTES, packet_bytes, table_bytes, table_growth_bytes_max};
use super::ready::{Held, Ready};
use super::{Piece, Place};
use crate::bounds::{MID_AHEAD_MAX, SSN_AHEAD_MAX};
use crate::stream_table::StreamTable;
use crate::wire::{SkippedRun, StreamId};

/// An SSN or a MID: wraps, and compares by serial arithmetic (RFC 9260 §1.6).
pub(super) trait Number: Copy + Default + Into<u32> + Ord {
    /// Half of the number space: any number that lies so far ahead or further is behind.
    const SPAN: u32;
    /// The error if a number names two messages.
    const USED_TWICE: &str;
    const MIN: Self;
    const MAX: Self;
    fn of(number: u32) -> Self;
    /// Distance above `other`, modulo its range.
    fn above(self, other: Self) -> u32;
    fn next(self) -> Self;
}

impl Number for u16 {
    const SPAN: u32 = SSN_AHEAD_MAX as u32 + 1;
    const USED_TWICE: &str = "a stream sequence number was used twice";
    const MIN: Self = Self::MIN;
    const MAX: Self = Self::MAX;

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "an SSN has 16 bits")]
    fn of(number: u32) -> Self {
        number as Self
    }

    #[inline]
    fn above(self, other: Self) -> u32 {
        self.wrapping_sub(other).into()
    }

    #[inline]
    fn next(self) -> Self {
        self.wrapping_add(1)
    }
}

impl Number for u32 {
    const SPAN: u32 = MID_AHEAD_MAX + 1;
    const USED_TWICE: &str = "a message identifier was used twice";
    const MIN: Self = Self::MIN;
    const MAX: Self = Self::MAX;

    fn of(number: u32) -> Self {
        number
    }

    fn above(self, other: Self) -> u32 {
        self.wrapping_sub(other)
    }

    fn next(self) -> Self {
        self.wrapping_add(1)
    }
}

/// When a message of a stream may be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    Later,
    /// It was skipped: it is dropped.
    Past,
}

/// An entry for a number that is not due yet.
#[derive(Debug)]
enum Waiting<N> {
    Message(Held),
    /// Messages up to this number will not come.
    Skipped {
        last: N,
    },
}

/// The numbers that are due, and messages that wait for an earlier one of their stream.
///
/// Memory: everything in here counts towards the receive window, except the first 16 KiB of the table of streams. [`Ready`] holds the
/// count, since what waits goes there.
#[derive(Debug, Default)]
pub(super) struct Order<N> {
    /// By stream and number. Empty unless something was lost or reordered. A message may lie within a run that was skipped: it arrived
    /// nevertheless.
    waiting: BTreeMap<(StreamId, N), Waiting<N>>,
    /// The number that is due, per stream.
    next: StreamTable<N>,
}

impl<N: Number> Order<N> {
    /// Takes a piece that holds a whole message.
    ///
    /// # Errors
    /// The peer used a number twice.
    #[inline]
    pub(super) fn take(
        &mut self,
        piece: &impl Piece,
        place: &Place<'_>,
        ready: &mut Ready,
    ) -> Result<(), &'static str> {
        let (stream, number, unordered) = (piece.stream(), N::of(piece.number()), piece.unordered());
        let turn = if unordered { Turn::Now } else { self.turn(stream, number, place.has_skipped(), ready)? };
        match turn {
            Turn::Now => {
                ready.push_piece(piece, place);
                if !unordered {
                    self.release_waiting(stream, ready);
                }
                Ok(())
            }
            Turn::Later => {
                let (payload, charge_bytes) = place.payload_to_hold(piece.payload());
                self.wait(Held::new(piece.message(payload), charge_bytes), number, ready)
            }
            Turn::Past => Ok(()),
        }
    }

    /// Takes a message that was put together from fragments.
    ///
    /// # Errors
    /// The peer used a number twice.
    pub(super) fn take_assembled(
        &mut self,
        held: Held,
        number: u32,
        has_skipped: bool,
        ready: &mut Ready,
    ) -> Result<(), &'static str> {
        let (stream, number) = (held.message.stream, N::of(number));
        if held.message.unordered {
            ready.push(held);
            return Ok(());
        }
        match self.turn(stream, number, has_skipped, ready)? {
            Turn::Now => {
                ready.push(held);
                self.release_waiting(stream, ready);
                Ok(())
            }
            Turn::Later => self.wait(held, number, ready),
            Turn::Past => Ok(()),
        }
    }

    /// Determines whose turn it is, and counts the message if it is its own. If the peer `has_skipped` messages, a number that lies behind may be one
    /// of them.
    #[inline]
    fn turn(
        &mut self,
        stream: StreamId,
        number: N,
        has_skipped: bool,
        ready: &mut Ready,
    ) -> Result<Turn, &'static str> {
        if !self.next.is_flat(stream) {
            self.enter_stream(stream, ready);
        }
        let next = self.next.get_mut(stream);
        let ahead = number.above(*next);
        if ahead == 0 {
            *next = next.next();
            Ok(Turn::Now)
        } else if ahead < N::SPAN {
            Ok(Turn::Later)
        } else if has_skipped {
            Ok(Turn::Past)
        } else {
            Err(N::USED_TWICE)
        }
    }

    /// Whether a fragment of this message belongs to one that is still to come.
    ///
    /// # Errors
    /// The peer used a number twice.
    pub(super) fn is_awaited(&self, stream: StreamId, number: u32, has_skipped: bool) -> Result<bool, &'static str> {
        let number = N::of(number);
        if number.above(self.next.get(stream)) >= N::SPAN {
            return if has_skipped { Ok(false) } else { Err(N::USED_TWICE) };
        }
        match self.waiting.get(&(stream, number)) {
            Some(Waiting::Message(_)) => Err(N::USED_TWICE),
            Some(Waiting::Skipped { .. }) => Ok(false),
            None => Ok(true),
        }
    }

    /// Whether the message of this number is the next of its stream.
    pub(super) fn is_next(&self, stream: StreamId, number: u32) -> bool {
        self.next.get(stream) == N::of(number)
    }

    /// Adds the stream to the table if it is new, and counts the growth of the table.
    #[cold]
    fn enter_stream(&mut self, stream: StreamId, ready: &mut Ready) {
        let before_bytes = self.table_bytes();
        self.next.get_mut(stream);
        ready.hold_more(self.table_bytes());
        ready.hold_less(before_bytes);
    }

    fn table_bytes(&self) -> usize {
        table_bytes(&self.next)
    }

    /// Keeps a message until its turn comes.
    fn wait(&mut self, held: Held, number: N, ready: &mut Ready) -> Result<(), &'static str> {
        ready.hold_more(held.charge() + WAITING_ENTRY_BYTES);
        let stream = held.message.stream;
        match self.waiting.insert((stream, number), Waiting::Message(held)) {
            None => Ok(()),
            Some(Waiting::Message(_)) => Err(N::USED_TWICE),
            Some(Waiting::Skipped { last }) => {
                ready.hold_less(WAITING_ENTRY_BYTES);
                if number != last {
                    self.wait_for_skipped(stream, number.next(), last, ready);
                }
                Ok(())
            }
        }
    }

    /// A message has become ready: queues those that waited for it.
    #[inline]
    fn release_waiting(&mut self, stream: StreamId, ready: &mut Ready) {
        if !self.waiting.is_empty() {
            self.release_from(stream, ready);
        }
    }

    fn release_from(&mut self, stream: StreamId, ready: &mut Ready) {
        loop {
            let next = self.next.get(stream);
            let Some(mut last) = self.release(stream, next, ready) else { return };
            if last != next {
                last = self.release_through(stream, last, ready);
            }
            *self.next.get_mut(stream) = last.next();
        }
    }

    /// Queues the messages of a stream that wait up to `last`. Returns `last`, or the end of a skipped run that begins before it and ends behind it.
    fn release_through(&mut self, stream: StreamId, mut last: N, ready: &mut Ready) -> N {
        let next = self.next.get(stream);
        while let Some(number) = self.first_waiting(stream, next)
            && number.above(next) <= last.above(next)
        {
            let settled = self.release(stream, number, ready);
            last = settled.filter(|settled| settled.above(next) > last.above(next)).unwrap_or(last);
        }
        last
    }

    /// Queues a message that waits, or takes a skipped run that begins here. Returns the last number that this settles, if any.
    fn release(&mut self, stream: StreamId, number: N, ready: &mut Ready) -> Option<N> {
        match self.waiting.remove(&(stream, number))? {
            Waiting::Message(held) => {
                ready.hold_less(held.charge() + WAITING_ENTRY_BYTES);
                ready.push(held);
                Some(number)
            }
            Waiting::Skipped { last } => {
                ready.hold_less(WAITING_ENTRY_BYTES);
                Some(last)
            }
        }
    }

    /// The peer has skipped these messages, and no earlier ones of their stream. What waits for them becomes due when its turn comes. Numbers
    /// that lie behind already, or too far ahead, mean nothing.
    pub(super) fn skip(&mut self, run: &SkippedRun, ready: &mut Ready) {
        let next = self.next.get(run.stream);
        let (mut first, last) = (N::of(run.first), N::of(run.first.wrapping_add(run.more.into())));
        if last.above(next) >= N::SPAN {
            return;
        }
        if first.above(next) > last.above(next) {
            first = next;
        }
        if first == next {
            self.forward(run.stream, last.into(), ready);
        } else {
            self.wait_for_skipped(run.stream, first, last, ready);
        }
    }

    /// Notes that the messages from `first` to `last` will not come; none of them is due.
    fn wait_for_skipped(&mut self, stream: StreamId, mut first: N, last: N, ready: &mut Ready) {
        let next = self.next.get(stream);
        while let Some(waiting) = self.waiting.get_mut(&(stream, first)) {
            match waiting {
                Waiting::Message(_) if first == last => return,
                Waiting::Message(_) => first = first.next(),
                Waiting::Skipped { last: known } => {
                    if known.above(next) < last.above(next) {
                        *known = last;
                    }
                    return;
                }
            }
        }
        ready.hold_more(WAITING_ENTRY_BYTES);
        self.waiting.insert((stream, first), Waiting::Skipped { last });
    }

    /// Maximum growth of [`Self::table_bytes`] when `streams.0` more streams are used, of `streams.1` in all.
    pub(super) fn growth_bytes_max(&self, streams: (usize, u16)) -> usize {
        table_growth_bytes_max(&self.next, streams)
    }

    /// The peer has skipped messages up to `last`. Those among them that wait become due, and so do those behind. A number that lies
    /// behind already means nothing. Costs as much as becomes due.
    pub(super) fn forward(&mut self, stream: StreamId, last: u32, ready: &mut Ready) {
        self.forward_over(stream, last, 0, ready);
    }

    /// As [`forward`](Self::forward), together with `passed` TSNs. At most as many messages lie ahead; a peer that has up to 65,535 chunks
    /// outstanding, as RFC 9260 §6.1 allows, may skip more than half of the number space.
    pub(super) fn forward_over(&mut self, stream: StreamId, last: u32, passed: u64, ready: &mut Ready) {
        let (last, next) = (N::of(last), self.next.get(stream));
        let span = u64::from(N::SPAN).max(passed.min(u16::MAX.into()));
        if u64::from(last.above(next)) >= span {
            return;
        }
        if !self.next.is_flat(stream) {
            self.enter_stream(stream, ready);
        }
        let last = self.release_through(stream, last, ready);
        *self.next.get_mut(stream) = last.next();
        self.release_waiting(stream, ready);
    }

    /// Resets the stream to number 0. Waiting messages become due in their order: no other can precede them.
    pub(super) fn reset(&mut self, stream: StreamId, ready: &mut Ready) {
        let next = self.next.get(stream);
        while let Some(number) = self.first_waiting(stream, next) {
            self.release(stream, number, ready);
        }
        if next != N::default() {
            *self.next.get_mut(stream) = N::default();
        }
    }

    /// As [`reset`](Self::reset), all streams.
    pub(super) fn reset_all(&mut self, ready: &mut Ready) {
        while let Some((&(stream, _), _)) = self.waiting.first_key_value() {
            self.reset(stream, ready);
        }
        ready.hold_less(self.table_bytes());
        self.next.clear();
    }

    /// The first message of a stream that waits, counted from the one that is due.
    fn first_waiting(&self, stream: StreamId, next: N) -> Option<N> {
        let above = self.waiting.range((stream, next)..=(stream, N::MAX));
        let wrapped = self.waiting.range((stream, N::MIN)..(stream, next));
        above.chain(wrapped).map(|(&(_, number), _)| number).next()
    }
}

impl Place<'_> {
    /// The payload in a form that may be held for long, and its cost.
    pub(super) fn payload_to_hold(&self, payload: &[u8]) -> (bytes::Bytes, usize) {
        let packet_len = self.packet.len();
        if self.fill.has_room_for_slice(payload.len(), packet_len) {
            (self.packet.slice_ref(payload), packet_bytes(packet_len))
        } else {
            (bytes::Bytes::copy_from_slice(payload), payload.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::TABLE_BYTES_FREE;

    use super::*;

    #[test]
    fn a_table_of_streams_that_has_grown_large_counts() {
        let (mut order, mut ready) = (Order::<u16>::default(), Ready::default());
        for stream in 0..=u16::MAX {
            order.turn(StreamId(stream), 0, false, &mut ready).unwrap();
        }
        assert_eq!(ready.held_bytes(), (128 << 10) - TABLE_BYTES_FREE);
        ready.restart();
        assert_eq!(ready.held_bytes(), 0);
    }

    #[test]
    fn a_number_half_a_turn_ahead_is_behind() {
        let mut ready = Ready::default();
        let mut order = Order::<u16>::default();
        assert_eq!(order.turn(StreamId(0), 1 << 15, false, &mut ready), Err(u16::USED_TWICE));
        assert_eq!(order.turn(StreamId(0), (1 << 15) - 1, false, &mut ready), Ok(Turn::Later));
        let mut order = Order::<u32>::default();
        assert_eq!(order.turn(StreamId(0), 1 << 31, false, &mut ready), Err(u32::USED_TWICE));
        assert_eq!(order.turn(StreamId(0), (1 << 31) - 1, false, &mut ready), Ok(Turn::Later));
    }

    #[test]
    fn a_number_that_lies_behind_is_dropped_once_messages_were_skipped() {
        assert_eq!(Order::<u32>::default().turn(StreamId(0), u32::MAX, true, &mut Ready::default()), Ok(Turn::Past));
    }
}
