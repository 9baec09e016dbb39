//! The order in which queued messages get their TSNs (RFC 8260 §3 describes schedulers by these names).

mod line;
mod streams;

use std::collections::VecDeque;

use bytes::Bytes;

use crate::config::StreamScheduler;
use crate::outstanding::MessageSlot;
use crate::preview::debug_with_preview;
use crate::wire::StreamId;
use streams::Streams;

/// Messages for which memory is kept while none is queued: enough for a thin stream.
const MESSAGES_KEPT: usize = 4;

/// Messages that the second step of growth makes room for, so that a burst costs few allocations. It is kept while burst follows burst.
const MESSAGES_SECOND: usize = 32;

/// The unsent rest of a message, which waits for its TSNs. They are assigned as late as possible, so that a message that expires here costs none (the
/// implementation note of RFC 9260 §11.1.5).
pub(super) struct Unsent {
    /// The payload without a TSN.
    pub(super) rest: Bytes,
    pub(super) message: MessageSlot,
    /// The number of the next fragment.
    pub(super) fragment: u32,
}

debug_with_preview!(Unsent, rest, [message, fragment]);

impl Unsent {
    pub(super) fn new(payload: Bytes, message: MessageSlot) -> Self {
        Self { rest: payload, message, fragment: 0 }
    }

    /// Returns whether a fragment has a TSN.
    #[inline]
    pub(super) fn has_tsn(&self) -> bool {
        self.fragment > 0
    }

    /// Cuts off the next piece, which is not the last one.
    fn cut(&mut self, bytes: usize) -> Piece {
        let fragment = self.fragment;
        self.fragment += 1;
        Piece { payload: self.rest.split_to(bytes), message: self.message, fragment, ends: false }
    }

    fn into_last_piece(self) -> Piece {
        let Self { rest, message, fragment } = self;
        Piece { payload: rest, message, fragment, ends: true }
    }
}

/// A turn: the next message, and how much of it is sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) message: MessageSlot,
    pub(super) bytes: usize,
}

/// The piece sent in one turn.
pub(super) struct Piece {
    pub(super) payload: Bytes,
    pub(super) message: MessageSlot,
    /// Which fragment of the message it is, from 0.
    pub(super) fragment: u32,
    /// It is the last one.
    pub(super) ends: bool,
}

debug_with_preview!(Piece, payload, [message, fragment, ends]);

/// Unsent messages, in the order in which they take turns.
#[derive(Debug)]
pub(super) enum Scheduler {
    /// One queue for all streams.
    FirstComeFirstServed(VecDeque<Unsent>),
    /// One queue per stream that has something to send.
    Streams(Box<Streams>),
}

impl Scheduler {
    pub(super) fn new(kind: StreamScheduler) -> Self {
        match kind {
            StreamScheduler::FirstComeFirstServed => Self::FirstComeFirstServed(VecDeque::new()),
            kind => Self::Streams(Box::new(Streams::new(kind))),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, stream: StreamId, message: Unsent) {
        match self {
            Self::FirstComeFirstServed(queue) => {
                if queue.len() == queue.capacity() {
                    grow(queue);
                }
                queue.push_back(message);
            }
            Self::Streams(streams) => streams.push(stream, message),
        }
    }

    /// Frees unused memory of the queue.
    pub(super) fn give_back_memory(&mut self) {
        self.shrink(0);
    }

    /// No burst is expected: shrinks to the memory of a thin stream, if the queue is empty.
    #[inline]
    pub(super) fn calm_down(&mut self) {
        self.shrink(MESSAGES_KEPT);
    }

    /// Capacity of the queue, if all streams share one.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        if let Self::FirstComeFirstServed(queue) = self { queue.capacity() } else { 0 }
    }

    #[inline]
    fn shrink(&mut self, messages_kept: usize) {
        if let Self::FirstComeFirstServed(queue) = self {
            shrink(queue, messages_kept);
        }
    }

    /// Sets a stream's priority or weight.
    pub(super) fn set_value(&mut self, stream: StreamId, value: u16) {
        if let Self::Streams(streams) = self {
            streams.set_value(stream, value);
        }
    }

    /// Limits the messages that may begin if pieces of several messages take turns: none longer than `chunk_bytes` may begin while all that have
    /// begun would exceed `begun_bytes_max`, unless none has.
    pub(super) fn bound(&mut self, chunk_bytes: usize, begun_bytes_max: usize) {
        if let Self::Streams(streams) = self {
            streams.bound(chunk_bytes, begun_bytes_max);
        }
    }

    /// The message whose turn it is.
    #[inline]
    pub(super) fn front(&self) -> Option<&Unsent> {
        match self {
            Self::FirstComeFirstServed(queue) => queue.front(),
            Self::Streams(streams) => streams.front(),
        }
    }

    /// The next `bytes` of the message in front leave. The turn passes on with the last piece of a message. With `interleaves`, it
    /// may do so with every piece.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize, interleaves: bool) -> Option<Piece> {
        match self {
            Self::FirstComeFirstServed(queue) => {
                let front = queue.front_mut()?;
                if bytes >= front.rest.len() {
                    return pop_front(queue).map(Unsent::into_last_piece);
                }
                Some(front.cut(bytes))
            }
            Self::Streams(streams) => streams.take(bytes, interleaves),
        }
    }

    /// A packet with new pieces is complete.
    #[inline]
    pub(super) fn packet_left(&mut self) {
        if let Self::Streams(streams) = self {
            streams.packet_left();
        }
    }

    /// The message in front leaves the queue.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Unsent> {
        match self {
            Self::FirstComeFirstServed(queue) => pop_front(queue),
            Self::Streams(streams) => streams.pop(),
        }
    }

    /// Removes a message from any place in the queue. `messages` are queued in all, and `key` returns the place of each in its queue.
    pub(super) fn remove(
        &mut self,
        stream: StreamId,
        message: MessageSlot,
        messages: usize,
        key: impl Fn(MessageSlot) -> u32,
    ) -> Option<Unsent> {
        match self {
            Self::FirstComeFirstServed(queue) => match line::find(queue, message, &key)? {
                0 => self.pop(),
                place => line::take_out(queue, place, key(message), messages.saturating_sub(1)),
            },
            Self::Streams(streams) => streams.remove(stream, message, key),
        }
    }

    /// A message that waits.
    pub(super) fn find(
        &self,
        stream: StreamId,
        message: MessageSlot,
        key: impl Fn(MessageSlot) -> u32,
    ) -> Option<&Unsent> {
        let queue = match self {
            Self::FirstComeFirstServed(queue) => queue,
            Self::Streams(streams) => streams.queue(stream)?,
        };
        queue.get(line::find(queue, message, key)?)
    }

    /// Puts a message in the place of one that waits as a whole, and is to have its key. Returns that one.
    pub(super) fn replace(
        &mut self,
        stream: StreamId,
        message: MessageSlot,
        newer: Unsent,
        key: impl Fn(MessageSlot) -> u32,
    ) -> Option<Unsent> {
        match self {
            Self::FirstComeFirstServed(queue) => {
                let place = line::find(queue, message, key)?;
                Some(std::mem::replace(queue.get_mut(place)?, newer))
            }
            Self::Streams(streams) => streams.replace(stream, message, newer, key),
        }
    }

    /// What waits, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Unsent> {
        let (one, many) = match self {
            Self::FirstComeFirstServed(queue) => (Some(queue), None),
            Self::Streams(streams) => (None, Some(streams.queues())),
        };
        one.into_iter().chain(many.into_iter().flatten()).flat_map(line::messages)
    }
}

/// Takes the first message, and frees the memory of a past burst.
#[inline(always)]
fn pop_front(queue: &mut VecDeque<Unsent>) -> Option<Unsent> {
    let message = queue.pop_front();
    if line::begins_with_gap(queue) {
        line::trim(queue);
    }
    shrink(queue, MESSAGES_SECOND);
    message
}

#[inline]
fn shrink(queue: &mut VecDeque<Unsent>, messages_kept: usize) {
    if queue.is_empty() && queue.capacity() > messages_kept {
        *queue = VecDeque::new();
    }
}

#[cold]
fn grow(queue: &mut VecDeque<Unsent>) {
    match queue.len() {
        0 => queue.reserve_exact(MESSAGES_KEPT),
        len if len < MESSAGES_SECOND => queue.reserve_exact(MESSAGES_SECOND - len),
        len => queue.reserve_exact(len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsent(number: u32, bytes: usize) -> Unsent {
        Unsent::new(Bytes::from(vec![7; bytes]), MessageSlot(number))
    }

    /// The messages of the pieces that leave when messages of `pieces` pieces each wait on `streams`.
    fn order(kind: StreamScheduler, interleaves: bool, pieces: usize, streams: &[u16]) -> Vec<u32> {
        let mut scheduler = Scheduler::new(kind);
        for (number, &stream) in (0..).zip(streams) {
            scheduler.push(StreamId(stream), unsent(number, 10 * pieces));
        }
        std::iter::from_fn(|| scheduler.take(10, interleaves)).map(|piece| piece.message.0).collect()
    }

    #[test]
    fn first_come_first_served_ignores_streams() {
        assert_eq!(order(StreamScheduler::FirstComeFirstServed, false, 1, &[1, 1, 1, 2, 3]), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn round_robin_gives_each_stream_one_message_in_turn() {
        assert_eq!(order(StreamScheduler::RoundRobin, false, 1, &[1, 1, 1, 2, 3, 3]), [0, 3, 4, 1, 5, 2]);
    }

    #[test]
    fn a_begun_message_keeps_its_turn_unless_pieces_interleave() {
        assert_eq!(order(StreamScheduler::FirstComeFirstServed, false, 2, &[1, 2]), [0, 0, 1, 1]);
        assert_eq!(order(StreamScheduler::RoundRobin, false, 2, &[1, 1, 2]), [0, 0, 2, 2, 1, 1]);
    }

    #[test]
    fn streams_take_turns_by_piece_if_pieces_interleave_and_a_stream_keeps_its_order_rfc_8260() {
        assert_eq!(order(StreamScheduler::RoundRobin, true, 2, &[1, 1, 2]), [0, 2, 0, 2, 1, 1]);
        assert_eq!(order(StreamScheduler::FirstComeFirstServed, true, 2, &[1, 2]), [0, 0, 1, 1]);
    }

    #[test]
    fn pieces_are_numbered_and_the_last_one_is_marked() {
        let mut scheduler = Scheduler::new(StreamScheduler::FirstComeFirstServed);
        scheduler.push(StreamId(0), unsent(0, 25));
        let piece = |piece: Piece| (piece.fragment, piece.payload.len(), piece.ends);
        let pieces: Vec<_> = std::iter::from_fn(|| scheduler.take(10, false)).map(piece).collect();
        assert_eq!(pieces, [(0, 10, false), (1, 10, false), (2, 5, true)]);
    }

    #[test]
    fn a_stream_that_joins_does_not_move_the_front() {
        for kind in [StreamScheduler::FirstComeFirstServed, StreamScheduler::RoundRobin] {
            let mut scheduler = Scheduler::new(kind);
            scheduler.push(StreamId(7), unsent(0, 10));
            scheduler.push(StreamId(2), unsent(1, 10));
            assert_eq!(scheduler.front().map(|unsent| unsent.message), Some(MessageSlot(0)), "{kind:?}");
            assert_eq!(scheduler.take(10, false).map(|piece| piece.message), Some(MessageSlot(0)), "{kind:?}");
        }
    }

    /// Returns the streams of the pieces of 10 bytes in the order sent, with `pieces_per_packet`, if messages wait as in (stream, pieces).
    fn streams(
        kind: StreamScheduler,
        interleaves: bool,
        pieces_per_packet: usize,
        waiting: &[(u16, usize)],
    ) -> Vec<u16> {
        let mut scheduler = Scheduler::new(kind);
        scheduler.set_value(StreamId(1), 9);
        scheduler.set_value(StreamId(2), 3);
        for (number, &(stream, pieces)) in (0..).zip(waiting) {
            scheduler.push(StreamId(stream), unsent(number, 10 * pieces));
        }
        let mut order = Vec::new();
        while let Some(piece) = scheduler.take(10, interleaves) {
            order.push(waiting[usize::try_from(piece.message.0).expect("few")].0);
            if order.len().is_multiple_of(pieces_per_packet) {
                scheduler.packet_left();
            }
        }
        order
    }

    #[test]
    fn rfc8260_3_3_round_robin_per_packet_fills_a_packet_from_one_stream() {
        let kind = StreamScheduler::RoundRobinPerPacket;
        let waiting = [(1, 1), (1, 1), (1, 1), (2, 1), (2, 1), (2, 1)];
        assert_eq!(streams(kind, false, 2, &waiting), [1, 1, 2, 2, 1, 2]);
        assert_eq!(streams(kind, true, 2, &[(1, 4), (2, 4)]), [1, 1, 2, 2, 1, 1, 2, 2]);
        assert_eq!(streams(kind, false, 2, &[(1, 3), (2, 2)]), [1, 1, 1, 2, 2], "a message in DATA is not broken into");
    }

    #[test]
    fn rfc8260_3_4_the_stream_with_the_lowest_value_comes_first() {
        let kind = StreamScheduler::Priority;
        assert_eq!(streams(kind, false, 1, &[(1, 1), (2, 1), (3, 1), (2, 1), (4, 1), (3, 1)]), [3, 4, 3, 2, 2, 1]);
        for (interleaves, expected) in [(false, [1, 1, 1, 7]), (true, [1, 7, 1, 1])] {
            let mut scheduler = Scheduler::new(kind);
            scheduler.set_value(StreamId(1), 5);
            scheduler.push(StreamId(1), unsent(1, 30));
            let first = scheduler.take(10, interleaves).map(|piece| piece.message.0);
            scheduler.push(StreamId(7), unsent(7, 10));
            let rest = std::iter::from_fn(|| scheduler.take(10, interleaves)).map(|piece| piece.message.0);
            assert_eq!(first.into_iter().chain(rest).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn rfc8260_3_5_streams_get_the_same_number_of_bytes_whatever_the_size_of_their_messages() {
        let waiting: Vec<_> = [(1, 4); 3].into_iter().chain([(3, 1); 12]).collect();
        let order = streams(StreamScheduler::FairCapacity, false, 1, &waiting);
        for (end, slack) in [(8, 4), (16, 4), (24, 0)] {
            let of_one = order[..end].iter().filter(|&&stream| stream == 1).count();
            assert!(of_one.abs_diff(end / 2) <= slack, "{order:?}");
        }
        let order = streams(StreamScheduler::FairCapacity, true, 1, &waiting);
        assert!(order.chunks(2).all(|pair| pair[0] != pair[1]), "{order:?}");
    }

    #[test]
    fn a_stream_that_runs_empty_and_comes_back_is_not_served_beyond_its_share() {
        let mut scheduler = Scheduler::new(StreamScheduler::FairCapacity);
        (0..40).for_each(|number| scheduler.push(StreamId(1), unsent(number, 10)));
        let mut of_two = 0;
        for _ in 0..40 {
            if scheduler.find(StreamId(2), MessageSlot(99), |slot| slot.0).is_none() {
                scheduler.push(StreamId(2), unsent(99, 40));
            }
            let piece = scheduler.take(40, false).expect("both wait");
            of_two += if piece.message == MessageSlot(99) { piece.payload.len() } else { 0 };
        }
        assert!((120..=520).contains(&of_two), "{of_two} bytes");
    }

    #[test]
    fn no_more_messages_begin_than_a_peer_can_hold_but_small_ones_always_do() {
        let mut scheduler = Scheduler::new(StreamScheduler::RoundRobin);
        scheduler.bound(10, 70);
        for (stream, bytes) in [(1, 40), (2, 30), (3, 20), (4, 10), (5, 200)] {
            scheduler.push(StreamId(stream), unsent(stream.into(), bytes));
        }
        let order: Vec<_> = std::iter::from_fn(|| scheduler.take(10, true)).map(|piece| piece.message.0).collect();
        assert_eq!(order[..9], [1, 2, 4, 1, 2, 1, 2, 3, 1], "the third waits until one has left whole");
        assert_eq!(
            order[9..].iter().filter(|&&message| message == 5).count(),
            20,
            "a long one leaves alone: {order:?}"
        );
    }

    /// So only the first of those that wait is looked at, however many there are.
    #[test]
    fn a_message_that_waits_to_begin_is_not_overtaken_by_shorter_ones_that_would_fit() {
        let mut scheduler = Scheduler::new(StreamScheduler::RoundRobin);
        scheduler.bound(10, 70);
        for (stream, bytes) in [(1, 40), (2, 50), (3, 20)] {
            scheduler.push(StreamId(stream), unsent(stream.into(), bytes));
        }
        let order: Vec<_> = std::iter::from_fn(|| scheduler.take(10, true)).map(|piece| piece.message.0).collect();
        assert_eq!(order, [1, 1, 1, 1, 2, 3, 2, 3, 2, 2, 2]);
    }

    #[test]
    fn rfc8260_3_6_streams_get_bytes_in_proportion_to_their_weight() {
        let waiting: Vec<_> = [(1, 90), (2, 30), (3, 10)].into_iter().collect();
        let order = streams(StreamScheduler::WeightedFairQueueing, true, 1, &waiting);
        let of = |stream: u16| order[..65].iter().filter(|&&other| other == stream).count();
        assert!((43..=47).contains(&of(1)) && (14..=16).contains(&of(2)) && (4..=6).contains(&of(3)), "{order:?}");
    }

    #[test]
    fn an_emptied_queue_keeps_room_for_a_thin_stream_only() {
        let mut scheduler = Scheduler::new(StreamScheduler::FirstComeFirstServed);
        (0..100).for_each(|number| scheduler.push(StreamId(0), unsent(number, 10)));
        (0..100).for_each(|_| drop(scheduler.pop()));
        let Scheduler::FirstComeFirstServed(queue) = scheduler else { panic!("the kind does not change") };
        assert!(queue.capacity() <= MESSAGES_KEPT);
    }
}
