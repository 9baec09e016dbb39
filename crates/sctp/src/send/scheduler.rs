//! Whose turn it is: the order in which queued messages get their TSNs (RFC 8260 §3 describes schedulers by these names).

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::config::StreamScheduler;
use crate::outstanding::MessageSlot;
use crate::wire::StreamId;

/// Messages for which memory is kept while none is queued: what a thin stream needs.
const MESSAGES_KEPT: usize = 4;

/// Messages that the second step of growth makes room for, so that a burst costs few allocations.
const MESSAGES_SECOND: usize = 32;

/// A message, or what is left of one, that waits for its TSNs. It gets them as late as possible, so that one that expires here
/// costs none (the implementation note of RFC 9260 §11.1.5).
#[derive(Debug)]
pub(super) struct Unsent {
    /// What has no TSN yet.
    pub(super) rest: Bytes,
    pub(super) message: MessageSlot,
    /// The number of the next fragment.
    pub(super) fragment: u32,
}

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

/// A turn: which message is next, and how much of it leaves at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) message: MessageSlot,
    pub(super) bytes: usize,
}

/// What leaves in one turn.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) payload: Bytes,
    pub(super) message: MessageSlot,
    /// Which fragment of the message it is, from 0.
    pub(super) fragment: u32,
    /// It is the last one.
    pub(super) ends: bool,
}

/// What is unsent, in the order of the turns.
#[derive(Debug)]
pub(super) enum Scheduler {
    /// One queue for all streams.
    FirstComeFirstServed(VecDeque<Unsent>),
    /// One queue per stream that has something to send; the streams take turns.
    RoundRobin(Box<RoundRobin>),
}

#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    queues: BTreeMap<StreamId, VecDeque<Unsent>>,
    turns: VecDeque<StreamId>,
}

impl RoundRobin {
    fn push(&mut self, stream: StreamId, message: Unsent) {
        let queue = self.queues.entry(stream).or_default();
        if queue.is_empty() {
            self.turns.push_back(stream);
        }
        queue.push_back(message);
    }

    fn front(&self) -> Option<&Unsent> {
        self.queues.get(self.turns.front()?)?.front()
    }

    fn front_mut(&mut self) -> Option<&mut Unsent> {
        self.queues.get_mut(self.turns.front()?)?.front_mut()
    }

    fn pop(&mut self) -> Option<Unsent> {
        let stream = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&stream)?;
        let message = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&stream);
        } else {
            self.turns.push_back(stream);
        }
        message
    }

    /// Takes a message out of the queue of its stream. The turns of the others stay as they are.
    fn remove(&mut self, stream: StreamId, message: MessageSlot) -> Option<Unsent> {
        let queue = self.queues.get_mut(&stream)?;
        let removed = queue.remove(position(queue, message)?);
        if queue.is_empty() {
            self.queues.remove(&stream);
            self.turns.retain(|&turn| turn != stream);
        }
        removed
    }

    /// The next stream is in front.
    fn pass_turn(&mut self) {
        if let Some(stream) = self.turns.pop_front() {
            self.turns.push_back(stream);
        }
    }
}

impl Scheduler {
    pub(super) fn new(kind: StreamScheduler) -> Self {
        match kind {
            StreamScheduler::FirstComeFirstServed => Self::FirstComeFirstServed(VecDeque::new()),
            StreamScheduler::RoundRobin => Self::RoundRobin(Box::default()),
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
            Self::RoundRobin(streams) => streams.push(stream, message),
        }
    }

    /// Gives back what the queue does not need now.
    pub(super) fn give_back_memory(&mut self) {
        if let Self::FirstComeFirstServed(queue) = self
            && queue.is_empty()
        {
            *queue = VecDeque::new();
        }
    }

    /// The message whose turn it is.
    #[inline]
    pub(super) fn front(&self) -> Option<&Unsent> {
        match self {
            Self::FirstComeFirstServed(queue) => queue.front(),
            Self::RoundRobin(streams) => streams.front(),
        }
    }

    #[inline]
    fn front_mut(&mut self) -> Option<&mut Unsent> {
        match self {
            Self::FirstComeFirstServed(queue) => queue.front_mut(),
            Self::RoundRobin(streams) => streams.front_mut(),
        }
    }

    /// The next `bytes` of the message in front leave. The turn passes on with the last piece of a message. With `interleaves`, it
    /// does so with every piece, if the streams take turns.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize, interleaves: bool) -> Option<Piece> {
        let front = self.front_mut()?;
        if bytes >= front.rest.len() {
            return self.pop().map(Unsent::into_last_piece);
        }
        let piece = front.cut(bytes);
        if interleaves && let Self::RoundRobin(streams) = self {
            streams.pass_turn();
        }
        Some(piece)
    }

    /// The message in front leaves the queue; the turn passes on.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Unsent> {
        match self {
            Self::FirstComeFirstServed(queue) => {
                let message = queue.pop_front();
                if queue.is_empty() && queue.capacity() > MESSAGES_KEPT {
                    *queue = VecDeque::new();
                }
                message
            }
            Self::RoundRobin(streams) => streams.pop(),
        }
    }

    /// Takes a message out of the queue, wherever it stands. Costs a look at all that wait before it on its stream, or on all with
    /// [`FirstComeFirstServed`](Self::FirstComeFirstServed).
    pub(super) fn remove(&mut self, stream: StreamId, message: MessageSlot) -> Option<Unsent> {
        match self {
            Self::FirstComeFirstServed(queue) => queue.remove(position(queue, message)?),
            Self::RoundRobin(streams) => streams.remove(stream, message),
        }
    }

    /// A message that waits.
    pub(super) fn find(&self, stream: StreamId, message: MessageSlot) -> Option<&Unsent> {
        let queue = match self {
            Self::FirstComeFirstServed(queue) => queue,
            Self::RoundRobin(streams) => streams.queues.get(&stream)?,
        };
        queue.get(position(queue, message)?)
    }

    /// Puts a message in the place of one that waits. Returns that one.
    pub(super) fn replace(&mut self, stream: StreamId, message: MessageSlot, newer: Unsent) -> Option<Unsent> {
        let queue = match self {
            Self::FirstComeFirstServed(queue) => queue,
            Self::RoundRobin(streams) => streams.queues.get_mut(&stream)?,
        };
        let place = position(queue, message)?;
        Some(std::mem::replace(queue.get_mut(place)?, newer))
    }

    /// What waits, in no particular order.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Unsent> {
        let (one, many) = match self {
            Self::FirstComeFirstServed(queue) => (Some(queue), None),
            Self::RoundRobin(streams) => (None, Some(streams.queues.values())),
        };
        one.into_iter().chain(many.into_iter().flatten()).flatten()
    }
}

fn position(queue: &VecDeque<Unsent>, message: MessageSlot) -> Option<usize> {
    queue.iter().position(|unsent| unsent.message == message)
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

    #[test]
    fn an_emptied_queue_keeps_room_for_a_thin_stream_only() {
        let mut scheduler = Scheduler::new(StreamScheduler::FirstComeFirstServed);
        (0..100).for_each(|number| scheduler.push(StreamId(0), unsent(number, 10)));
        (0..100).for_each(|_| drop(scheduler.pop()));
        let Scheduler::FirstComeFirstServed(queue) = scheduler else { panic!("the kind does not change") };
        assert!(queue.capacity() <= MESSAGES_KEPT);
    }
}
