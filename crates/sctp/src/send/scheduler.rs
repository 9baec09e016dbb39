//! Whose turn it is: the order in which queued messages get their TSNs (RFC 8260 §3 describes schedulers by these names).
//!
//! A message that has begun stays in front until its last fragment left, as the fragments of a message take consecutive TSNs.

use std::collections::{BTreeMap, VecDeque};

use super::queue::PendingMessage;
use crate::config::StreamScheduler;
use crate::wire::StreamId;

/// Messages for which memory is kept while none is queued: what a thin stream needs.
const MESSAGES_KEPT: usize = 4;

/// The queued messages in the order of their turns.
#[derive(Debug)]
pub(super) enum Scheduler {
    /// One queue for all streams.
    FirstComeFirstServed(VecDeque<PendingMessage>),
    /// One queue per stream that has something to send; the streams take turns, one message each.
    RoundRobin(Box<RoundRobin>),
}

#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    queues: BTreeMap<StreamId, VecDeque<PendingMessage>>,
    turns: VecDeque<StreamId>,
}

impl RoundRobin {
    fn push(&mut self, message: PendingMessage) {
        let queue = self.queues.entry(message.stream).or_default();
        if queue.is_empty() {
            self.turns.push_back(message.stream);
        }
        queue.push_back(message);
    }

    fn front(&self) -> Option<&PendingMessage> {
        self.queues.get(self.turns.front()?)?.front()
    }

    fn front_mut(&mut self) -> Option<&mut PendingMessage> {
        self.queues.get_mut(self.turns.front()?)?.front_mut()
    }

    fn pop(&mut self) {
        let Some(stream) = self.turns.pop_front() else { return };
        let Some(queue) = self.queues.get_mut(&stream) else { return };
        queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&stream);
        } else {
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
    pub(super) fn push(&mut self, message: PendingMessage) {
        match self {
            Self::FirstComeFirstServed(queue) => queue.push_back(message),
            Self::RoundRobin(streams) => streams.push(message),
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
    pub(super) fn front(&self) -> Option<&PendingMessage> {
        match self {
            Self::FirstComeFirstServed(queue) => queue.front(),
            Self::RoundRobin(streams) => streams.front(),
        }
    }

    /// As [`front`](Self::front).
    #[inline]
    pub(super) fn front_mut(&mut self) -> Option<&mut PendingMessage> {
        match self {
            Self::FirstComeFirstServed(queue) => queue.front_mut(),
            Self::RoundRobin(streams) => streams.front_mut(),
        }
    }

    /// Drops the front message; the turn passes on.
    #[inline]
    pub(super) fn pop(&mut self) {
        match self {
            Self::FirstComeFirstServed(queue) => {
                queue.pop_front();
                if queue.is_empty() && queue.capacity() > MESSAGES_KEPT {
                    *queue = VecDeque::new();
                }
            }
            Self::RoundRobin(streams) => streams.pop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::tests::pending;
    use super::*;

    fn order(kind: StreamScheduler, streams: &[u16]) -> Vec<u64> {
        let mut scheduler = Scheduler::new(kind);
        for (id, &stream) in (0..).zip(streams) {
            scheduler.push(pending(id, stream));
        }
        let next = || {
            let id = scheduler.front()?.id.0;
            scheduler.pop();
            Some(id)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn first_come_first_served_ignores_streams() {
        assert_eq!(order(StreamScheduler::FirstComeFirstServed, &[1, 1, 1, 2, 3]), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn round_robin_gives_each_stream_one_message_in_turn() {
        assert_eq!(order(StreamScheduler::RoundRobin, &[1, 1, 1, 2, 3, 3]), [0, 3, 4, 1, 5, 2]);
    }

    #[test]
    fn a_stream_that_joins_does_not_move_the_front() {
        for kind in [StreamScheduler::FirstComeFirstServed, StreamScheduler::RoundRobin] {
            let mut scheduler = Scheduler::new(kind);
            scheduler.push(pending(0, 7));
            scheduler.push(pending(1, 2));
            assert_eq!(scheduler.front().map(|message| message.id.0), Some(0), "{kind:?}");
            assert_eq!(scheduler.front_mut().map(|message| message.id.0), Some(0), "{kind:?}");
        }
    }

    #[test]
    fn an_emptied_queue_keeps_room_for_a_thin_stream_only() {
        let mut scheduler = Scheduler::new(StreamScheduler::FirstComeFirstServed);
        (0..100).for_each(|id| scheduler.push(pending(id, 0)));
        (0..100).for_each(|_| scheduler.pop());
        let Scheduler::FirstComeFirstServed(queue) = scheduler else { panic!("the kind does not change") };
        assert!(queue.capacity() <= MESSAGES_KEPT);
    }
}
