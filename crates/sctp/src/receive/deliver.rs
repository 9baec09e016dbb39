//! The order of delivery within each stream (RFC 9260 §6.5, §6.6), and the queue to the application.

use std::collections::{BTreeMap, VecDeque};

use super::window::CHUNK_OVERHEAD_BYTES;
use crate::message::ReceivedMessage;
use crate::stream_table::StreamTable;
use crate::wire::{Ssn, StreamId};

/// The first SSN of every stream, unwrapped: one whole turn up, so that an SSN behind it stays above zero.
const FIRST_SSN: u64 = 1 << 16;

/// How much of the queue's capacity outlives the queue's running empty, in messages: what one packet of small messages needs.
const IDLE_CAPACITY_MAX: usize = 16;

/// Whole messages: those that the application can have, and those that wait for an earlier one of their stream.
///
/// Memory: everything in here counts towards the receive window. A stream costs eight bytes (and its page of the table) once
/// an ordered message has come on it.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    ready: VecDeque<ReceivedMessage>,
    /// By stream and unwrapped SSN. Empty unless something was lost or reordered.
    waiting: BTreeMap<(StreamId, u64), ReceivedMessage>,
    /// How many ordered messages have become ready, per stream.
    ordered: StreamTable<u64>,
    bytes: usize,
}

impl Delivery {
    /// Takes a whole message. SSNs alone make the order: one that was skipped may come with a later TSN.
    ///
    /// # Errors
    /// The peer used an SSN twice.
    #[inline]
    pub(super) fn take(&mut self, message: ReceivedMessage, ssn: Ssn) -> Result<(), &'static str> {
        self.bytes += cost_bytes(&message);
        if message.unordered {
            self.ready.push_back(message);
            return Ok(());
        }
        let stream = message.stream;
        let delivered = self.ordered.get_mut(stream);
        let next = FIRST_SSN + *delivered;
        let ssn = ssn.unwrap(next);
        if ssn == next {
            *delivered += 1;
            self.ready.push_back(message);
            if !self.waiting.is_empty() {
                self.release_waiting(stream);
            }
            Ok(())
        } else if ssn < next {
            Err("a stream sequence number was used twice")
        } else {
            match self.waiting.insert((stream, ssn), message) {
                None => Ok(()),
                Some(_) => Err("a stream sequence number was used twice"),
            }
        }
    }

    fn release_waiting(&mut self, stream: StreamId) {
        let delivered = self.ordered.get_mut(stream);
        while let Some(message) = self.waiting.remove(&(stream, FIRST_SSN + *delivered)) {
            *delivered += 1;
            self.ready.push_back(message);
        }
    }

    /// The next message for the application.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<ReceivedMessage> {
        let message = self.ready.pop_front()?;
        self.bytes -= cost_bytes(&message);
        if self.ready.is_empty() && self.ready.capacity() > IDLE_CAPACITY_MAX {
            self.ready = VecDeque::new();
        }
        Some(message)
    }

    /// Whether the application can have a message.
    #[inline]
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// What is held, with the overhead of each message.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back what the queue does not need now.
    pub(super) fn give_back_memory(&mut self) {
        if self.ready.is_empty() {
            self.ready = VecDeque::new();
        }
    }

    #[cfg(test)]
    pub(super) fn ready_capacity(&self) -> usize {
        self.ready.capacity()
    }

    /// All streams begin anew. What is ready stays: it has been acknowledged and is complete.
    pub(super) fn restart(&mut self) {
        self.waiting.clear();
        self.ordered.clear();
        self.bytes = self.ready.iter().map(cost_bytes).sum();
    }
}

fn cost_bytes(message: &ReceivedMessage) -> usize {
    message.payload.len() + CHUNK_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(unordered: bool) -> ReceivedMessage {
        ReceivedMessage { payload: "x".into(), stream: StreamId(0), ppid: 0, unordered }
    }

    #[test]
    fn a_queue_that_was_long_gives_its_memory_back_when_it_runs_empty() {
        let mut delivery = Delivery::default();
        for ssn in 0..100 {
            delivery.take(message(false), Ssn(ssn)).unwrap();
        }
        while delivery.pop().is_some() {}
        assert_eq!(delivery.ready_capacity(), 0);
    }

    #[test]
    fn a_short_queue_keeps_its_memory_for_the_next_message_until_it_is_told_to_give_it_back() {
        let mut delivery = Delivery::default();
        delivery.take(message(false), Ssn(0)).unwrap();
        delivery.give_back_memory();
        delivery.pop().unwrap();
        assert!((1..=IDLE_CAPACITY_MAX).contains(&delivery.ready_capacity()));
        delivery.give_back_memory();
        assert_eq!(delivery.ready_capacity(), 0);
    }

    #[test]
    fn unordered_messages_touch_no_stream() {
        let mut delivery = Delivery::default();
        delivery.take(message(true), Ssn(9)).unwrap();
        assert_eq!(delivery.ordered.get(StreamId(0)), None);
        assert_eq!(delivery.held_bytes(), 1 + CHUNK_OVERHEAD_BYTES);
    }
}
