//! The send buffer: messages that wait for their TSNs, and the account of all that the application handed over.

use bytes::Bytes;
use festina_units::Instant;

use super::scheduler::Scheduler;
use crate::config::{Config, Limits};
use crate::error::SendError;
use crate::event::AbandonReason;
use crate::message::{Message, MessageId};
use crate::outstanding::chunk_bytes;
use crate::wire::{Ssn, StreamId};

/// What a message costs besides its payload, queued or outstanding: its entry in a queue that has grown to twice what it holds. It
/// keeps a buffer full of one-byte messages from taking seventy times its limit.
pub(super) const MESSAGE_OVERHEAD_BYTES: usize = 128;

/// What is queued or not yet acknowledged, and the messages that wait.
#[derive(Debug)]
pub(super) struct SendBuffer {
    scheduler: Scheduler,
    queued: Queued,
    /// Queued or not yet acknowledged for good.
    used: Used,
    limit_bytes: usize,
    low_water_bytes: usize,
    message_bytes_max: usize,
    /// A message was refused for want of room, and the application waits to hear that there is some again.
    was_full: bool,
}

/// Sums over the messages that wait.
#[derive(Clone, Copy, Debug, Default)]
struct Queued {
    messages: u32,
    payload_bytes: usize,
}

/// What was handed over and is not settled yet.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    messages: u32,
    payload_bytes: usize,
}

impl Used {
    fn cost_bytes(self) -> usize {
        self.payload_bytes.saturating_add(messages(self.messages) * MESSAGE_OVERHEAD_BYTES)
    }
}

/// A count of messages. The largest buffer holds eight million, by what each costs.
fn messages(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// A message, or what is left of one, that waits for its TSNs. It gets them as late as possible, so that one that expires here
/// costs none (the implementation note of RFC 9260 §11.1.5).
#[derive(Debug)]
pub(super) struct PendingMessage {
    /// What has not been sent yet.
    pub(super) payload: Bytes,
    pub(super) id: MessageId,
    /// [`Instant::MAX`] for never.
    pub(super) expires_at: Instant,
    pub(super) ppid: u32,
    pub(super) stream: StreamId,
    /// Given with the first fragment; until then without meaning.
    pub(super) ssn: Ssn,
    pub(super) unordered: bool,
    pub(super) immediate_ack: bool,
    /// A fragment has a TSN: the rest must follow, expired or not.
    pub(super) begun: bool,
}

impl PendingMessage {
    fn new(now: Instant, message: Message, id: MessageId) -> Self {
        Self {
            expires_at: message.lifetime.map_or(Instant::MAX, |lifetime| now + lifetime),
            payload: message.payload,
            id,
            ppid: message.ppid,
            stream: message.stream,
            ssn: Ssn(0),
            unordered: message.unordered,
            immediate_ack: message.immediate_ack,
            begun: false,
        }
    }

    /// Why it must not be sent any more, if so.
    fn obstacle(&self, now: Instant, streams: u16) -> Option<AbandonReason> {
        if self.begun {
            None
        } else if self.stream.0 >= streams {
            Some(AbandonReason::StreamRefused)
        } else if self.expires_at <= now {
            Some(AbandonReason::Expired)
        } else {
            None
        }
    }
}

impl SendBuffer {
    pub(super) fn new(config: &Config) -> Self {
        let Limits { send_buffer_bytes, send_low_water_bytes, message_bytes_max, .. } = config.limits;
        Self {
            scheduler: Scheduler::new(config.scheduler),
            queued: Queued::default(),
            used: Used::default(),
            limit_bytes: send_buffer_bytes,
            low_water_bytes: send_low_water_bytes,
            message_bytes_max,
            was_full: false,
        }
    }

    /// Takes a message in. A message larger than the whole buffer is taken when the buffer is empty.
    pub(super) fn push(
        &mut self,
        now: Instant,
        message: Message,
        id: MessageId,
        streams: u16,
    ) -> Result<(), SendError> {
        let bytes = message.payload.len();
        if bytes == 0 {
            return Err(SendError::Empty(message));
        }
        if bytes > self.message_bytes_max {
            return Err(SendError::TooLong { message, bytes_max: self.message_bytes_max });
        }
        if message.stream.0 >= streams {
            return Err(SendError::NoSuchStream { message, streams });
        }
        let used = Used { messages: self.used.messages + 1, payload_bytes: self.used.payload_bytes + bytes };
        if self.used.messages > 0 && used.cost_bytes() > self.limit_bytes {
            self.was_full = true;
            return Err(SendError::BufferFull(message));
        }
        self.used = used;
        self.queued.messages += 1;
        self.queued.payload_bytes += bytes;
        self.scheduler.push(PendingMessage::new(now, message, id));
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queued.messages == 0
    }

    /// Payload bytes that wait for TSNs.
    pub(super) fn queued_bytes(&self) -> usize {
        self.queued.payload_bytes
    }

    /// At most what the queued messages take in packets if none is fragmented.
    pub(super) fn queued_chunk_bytes_max(&self) -> usize {
        self.queued.payload_bytes + messages(self.queued.messages) * chunk_bytes(3)
    }

    /// Payload bytes queued or not yet acknowledged for good.
    pub(super) fn used_bytes(&self) -> usize {
        self.used.payload_bytes
    }

    /// The message whose turn it is.
    pub(super) fn front(&self) -> Option<&PendingMessage> {
        self.scheduler.front()
    }

    /// As [`front`](Self::front).
    pub(super) fn front_mut(&mut self) -> Option<&mut PendingMessage> {
        self.scheduler.front_mut()
    }

    /// Whether the front message will be dropped instead of sent.
    pub(super) fn front_is_stale(&self, now: Instant, streams: u16) -> bool {
        self.front().is_some_and(|message| message.obstacle(now, streams).is_some())
    }

    /// Discards the front message if it must not be sent any more.
    pub(super) fn pop_stale(&mut self, now: Instant, streams: u16) -> Option<(MessageId, AbandonReason)> {
        let message = self.front()?;
        let reason = message.obstacle(now, streams)?;
        let id = message.id;
        self.discard();
        Some((id, reason))
    }

    /// Takes the front message out of the buffer altogether.
    pub(super) fn discard(&mut self) {
        if let Some(rest) = self.take(usize::MAX) {
            self.release(rest.len(), true);
        }
    }

    /// Cuts the next `bytes` off the front message, which takes the message off the queue if that is all of it. They stay in the
    /// account until [`release`](Self::release).
    pub(super) fn take(&mut self, bytes: usize) -> Option<Bytes> {
        let message = self.scheduler.front_mut()?;
        if bytes < message.payload.len() {
            self.queued.payload_bytes -= bytes;
            message.begun = true;
            return Some(message.payload.split_to(bytes));
        }
        let payload = std::mem::take(&mut message.payload);
        self.scheduler.pop();
        self.queued.messages -= 1;
        self.queued.payload_bytes -= payload.len();
        Some(payload)
    }

    /// Gives back what the buffer does not need now.
    pub(super) fn give_back_memory(&mut self) {
        self.scheduler.give_back_memory();
    }

    /// A piece of a message leaves the account, acknowledged or given up; with the last one the message does.
    pub(super) fn release(&mut self, payload_bytes: usize, is_end: bool) {
        self.used.payload_bytes -= payload_bytes;
        self.used.messages -= u32::from(is_end);
    }

    /// Whether the application is to be told, now and once, that there is room again.
    pub(super) fn take_writable(&mut self) -> bool {
        let writable = self.was_full && self.used.cost_bytes() <= self.low_water_bytes;
        self.was_full &= !writable;
        writable
    }
}

#[cfg(test)]
pub(super) mod tests {
    use festina_units::Duration;

    use super::*;

    /// A message of ten bytes.
    pub(in crate::send) fn pending(id: u64, stream: u16) -> PendingMessage {
        PendingMessage::new(Instant::ZERO, Message::new("ten bytes!").on_stream(stream), MessageId(id))
    }

    fn buffer(limit_bytes: usize, low_water_bytes: usize) -> SendBuffer {
        let mut config = Config::default();
        config.limits.send_buffer_bytes = limit_bytes;
        config.limits.send_low_water_bytes = low_water_bytes;
        config.limits.message_bytes_max = 1_000;
        SendBuffer::new(&config)
    }

    fn push(buffer: &mut SendBuffer, bytes: usize) -> Result<(), SendError> {
        buffer.push(Instant::ZERO, Message::new(vec![7; bytes]), MessageId(0), 10)
    }

    #[test]
    fn messages_that_cannot_be_sent_are_handed_back() {
        let mut buffer = buffer(100, 50);
        assert!(matches!(push(&mut buffer, 0), Err(SendError::Empty(_))));
        assert!(matches!(push(&mut buffer, 1_001), Err(SendError::TooLong { bytes_max: 1_000, .. })));
        let message = Message::new("x").on_stream(10);
        let refused = buffer.push(Instant::ZERO, message.clone(), MessageId(0), 10);
        assert_eq!(refused, Err(SendError::NoSuchStream { message, streams: 10 }));
        assert_eq!(buffer.used_bytes(), 0);
    }

    /// What a buffer needs for `messages` with `payload_bytes` in all.
    const fn cost(messages: usize, payload_bytes: usize) -> usize {
        messages * MESSAGE_OVERHEAD_BYTES + payload_bytes
    }

    #[test]
    fn the_limit_counts_what_is_queued_and_what_is_unacknowledged() {
        let mut buffer = buffer(cost(2, 100), 50);
        assert_eq!(push(&mut buffer, 60), Ok(()));
        assert_eq!(buffer.take(60).map(|payload| payload.len()), Some(60));
        assert_eq!((buffer.queued_bytes(), buffer.used_bytes()), (0, 60));
        assert!(matches!(push(&mut buffer, 41), Err(SendError::BufferFull(_))));
        assert_eq!(push(&mut buffer, 40), Ok(()));
    }

    #[test]
    fn tiny_messages_fill_the_buffer_by_what_they_cost_and_not_by_their_payload() {
        let mut buffer = buffer(10_000, 50);
        let taken = (0..).take_while(|_| push(&mut buffer, 1).is_ok()).count();
        assert_eq!(taken, 10_000 / (1 + MESSAGE_OVERHEAD_BYTES));
        let per_message = size_of::<PendingMessage>().max(size_of::<crate::outstanding::Chunk>());
        assert!(MESSAGE_OVERHEAD_BYTES >= 2 * per_message, "a queue may have grown to twice what it holds");
    }

    #[test]
    fn an_empty_buffer_takes_a_message_larger_than_itself() {
        let mut buffer = buffer(100, 50);
        assert_eq!(push(&mut buffer, 900), Ok(()));
        assert!(matches!(push(&mut buffer, 1), Err(SendError::BufferFull(_))));
    }

    #[test]
    fn writable_is_reported_once_at_the_low_water_mark_after_a_refusal() {
        let mut buffer = buffer(cost(1, 100), cost(1, 50));
        assert_eq!(push(&mut buffer, 100), Ok(()));
        assert!(push(&mut buffer, 1).is_err());
        buffer.take(100);
        buffer.release(49, false);
        assert!(!buffer.take_writable(), "51 bytes are still there");
        buffer.release(1, false);
        assert!(buffer.take_writable());
        assert!(!buffer.take_writable());
        buffer.release(50, true);
        assert!(!buffer.take_writable(), "nothing was refused since");
        assert_eq!(buffer.used.cost_bytes(), 0);
    }

    #[test]
    fn a_message_expires_in_the_queue_unless_it_has_begun_section_11_1_5() {
        let mut buffer = buffer(1_000, 50);
        let message = Message::new(vec![7; 100]).with_lifetime(Duration::from_millis(10));
        assert_eq!(buffer.push(Instant::ZERO, message, MessageId(3), 10), Ok(()));
        assert_eq!(buffer.pop_stale(Instant::from_millis(9), 10), None);
        buffer.take(50);
        assert_eq!(buffer.pop_stale(Instant::from_millis(10), 10), None, "the rest must follow");
        buffer.take(50);
        let message = Message::new("late").with_lifetime(Duration::from_millis(10));
        assert_eq!(buffer.push(Instant::ZERO, message, MessageId(4), 10), Ok(()));
        let expired = Some((MessageId(4), AbandonReason::Expired));
        assert_eq!(buffer.pop_stale(Instant::from_millis(10), 10), expired);
        assert_eq!((buffer.queued_bytes(), buffer.used_bytes()), (0, 100));
    }

    #[test]
    fn a_message_for_a_stream_that_the_peer_refused_is_dropped() {
        let mut buffer = buffer(100, 50);
        let message = Message::new("x").on_stream(9);
        assert_eq!(buffer.push(Instant::ZERO, message, MessageId(5), 10), Ok(()));
        assert!(!buffer.front_is_stale(Instant::ZERO, 10));
        assert!(buffer.front_is_stale(Instant::ZERO, 9));
        let refused = Some((MessageId(5), AbandonReason::StreamRefused));
        assert_eq!(buffer.pop_stale(Instant::ZERO, 9), refused);
    }
}
