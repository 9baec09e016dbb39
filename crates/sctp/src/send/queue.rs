//! The send buffer: the account of all that the application handed over, the messages, and what of them waits for TSNs.

use std::collections::BTreeMap;

use festina_units::Instant;

use super::backlog::{Backlog, Surroundings};
use super::fragment::piece_bytes;
use super::messages::{Fate, Left, Messages, OutboundMessage};
use super::scheduler::{Piece, Scheduler, Turn, Unsent};
use crate::config::{Config, Expiry, Limits};
use crate::congestion::small;
use crate::error::{SendError, SendErrorKind};
use crate::event::AbandonReason;
use crate::message::{Message, MessageId};
use crate::outstanding::MessageSlot;
use crate::wire::Framing;
use crate::wire::StreamId;

/// Queued and unacknowledged messages.
#[derive(Debug)]
pub(super) struct SendBuffer {
    scheduler: Scheduler,
    messages: Messages,
    /// Payload bytes queued or not yet acknowledged for good: at most the largest buffer and a message, 2 GiB.
    used_bytes: u32,
    /// Payload bytes that wait for TSNs.
    queued_bytes: u32,
    limits: SendLimits,
    /// At most eight million, given the cost of each in the largest buffer.
    queued_messages: u32,
    /// Messages that were abandoned and keep their slots until the peer has passed over them.
    abandoned_messages: u32,
    /// A message was refused for lack of room, and the application waits for a notification.
    was_full: bool,
    expiry: Expiry,
    /// The limit on unsent data, if it follows the window.
    backlog: Option<Box<Backlog>>,
}

/// Room made by abandoned messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) messages: u32,
    pub(super) payload_bytes: usize,
}

/// The settings of a send buffer. Half as large as `usize`: every association has them.
#[derive(Clone, Copy, Debug)]
struct SendLimits {
    buffer_bytes: u32,
    low_water_bytes: u32,
    message_bytes_max: u32,
}

impl SendLimits {
    fn new(limits: &Limits) -> Self {
        Self {
            buffer_bytes: small(limits.send_buffer_bytes),
            low_water_bytes: small(limits.send_low_water_bytes),
            message_bytes_max: small(limits.message_bytes_max),
        }
    }
}

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Where a message that waits as a whole stands in its queue: keys ascend.
fn queue_key(messages: &Messages) -> impl Fn(MessageSlot) -> u32 {
    |slot| messages.get(slot).map_or(0, |message| message.last_tsn)
}

fn cost_bytes(count: u32, payload_bytes: usize) -> usize {
    payload_bytes.saturating_add(size(count) * Limits::MESSAGE_OVERHEAD_BYTES)
}

impl SendBuffer {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            scheduler: Scheduler::new(config.scheduler),
            messages: Messages::new(),
            used_bytes: 0,
            queued_bytes: 0,
            limits: SendLimits::new(&config.limits),
            queued_messages: 0,
            abandoned_messages: 0,
            was_full: false,
            expiry: config.partial_reliability.expiry,
            backlog: Backlog::new(config.limits.send_buffer),
        }
    }

    /// Returns whether a message can be sent at all.
    #[inline]
    pub(super) fn fits(&self, message: &Message, streams: u16) -> bool {
        let bytes = message.payload.len();
        bytes > 0 && bytes <= size(self.limits.message_bytes_max) && message.stream.0 < streams
    }

    /// Why a message does not [fit](Self::fits). Caller: it cannot be sent at all.
    #[cold]
    pub(super) fn fault(&self, message: Message, streams: u16) -> SendError {
        let bytes_max = size(self.limits.message_bytes_max);
        let kind = match message.payload.len() {
            0 => SendErrorKind::Empty,
            bytes if bytes > bytes_max => SendErrorKind::TooLong { bytes_max },
            _ => SendErrorKind::NoSuchStream { streams },
        };
        SendError::new(message, kind)
    }

    /// Returns whether there is room for a message once others have `freed` theirs. One larger than the whole buffer is taken when the
    /// buffer is empty.
    #[inline]
    pub(super) fn has_room(&self, payload_bytes: usize, freed: Room) -> bool {
        let messages = self.messages.len() - freed.messages;
        let used_bytes = self.used_bytes() + payload_bytes - freed.payload_bytes;
        let fits = messages == 0 || cost_bytes(messages + 1, used_bytes) <= size(self.limits.buffer_bytes);
        fits && self.may_wait(payload_bytes, freed)
    }

    /// Returns whether a message fits into the limit on unsent data, if that follows the window.
    #[inline]
    fn may_wait(&self, payload_bytes: usize, freed: Room) -> bool {
        self.backlog.as_ref().is_none_or(|backlog| {
            let waiting = self.queued_chunk_bytes_max(Framing::IData).saturating_sub(freed.payload_bytes);
            backlog.takes(waiting, Framing::IData.chunk_bytes(payload_bytes))
        })
    }

    /// Whether missing chunks are checked for messages past their lifetimes.
    pub(super) fn looks_for_missing(&self) -> bool {
        self.expiry == Expiry::WhenMissing
    }

    /// Returns whether the limit on unsent data follows the window.
    #[inline]
    pub(super) fn follows_window(&self) -> bool {
        self.backlog.is_some()
    }

    /// Updates the limit on unsent data, if that follows the window.
    #[inline]
    pub(super) fn follow(&mut self, now: Instant, path: impl FnOnce() -> Surroundings) {
        if let Some(backlog) = &mut self.backlog {
            backlog.follow(now, path());
        }
    }

    /// A message finds no room.
    pub(super) fn refuse(&mut self, message: Message) -> SendError {
        self.was_full = true;
        SendError::new(message, SendErrorKind::BufferFull)
    }

    /// Takes a message in, behind those that wait.
    #[inline(always)]
    pub(super) fn push(&mut self, now: Instant, message: Message, id: MessageId) -> MessageSlot {
        let (stream, slot) = (message.stream, self.admit(now, &message, id));
        self.scheduler.push(stream, Unsent::new(message.payload, slot));
        slot
    }

    /// Queues a message in place of one without any TSN. Returns the slots of both.
    pub(super) fn push_in_place(
        &mut self,
        now: Instant,
        message: Message,
        id: MessageId,
        older: MessageSlot,
    ) -> MessageSlot {
        let (stream, slot) = (message.stream, self.admit(now, &message, id));
        let newer = Unsent::new(message.payload, slot);
        if let Some(older) = self.scheduler.replace(stream, older, newer, queue_key(&self.messages)) {
            let key = queue_key(&self.messages)(older.message);
            if let Some(message) = self.messages.get_mut(slot) {
                message.last_tsn = key;
            }
            self.count_sent(older.rest.len(), true);
            self.used_bytes -= small(older.rest.len());
        }
        slot
    }

    #[inline(always)]
    fn admit(&mut self, now: Instant, message: &Message, id: MessageId) -> MessageSlot {
        let bytes = message.payload.len();
        self.used_bytes += small(bytes);
        self.queued_messages += 1;
        self.queued_bytes += small(bytes);
        if let Some(backlog) = &mut self.backlog {
            backlog.took(now, bytes);
        }
        self.messages.insert(OutboundMessage::new(now, message, id, self.expiry))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queued_messages == 0
    }

    /// Payload bytes that wait for TSNs.
    pub(super) fn queued_bytes(&self) -> usize {
        size(self.queued_bytes)
    }

    /// Maximum bytes of the queued messages in packets if none is fragmented.
    pub(super) fn queued_chunk_bytes_max(&self, framing: Framing) -> usize {
        self.queued_bytes() + size(self.queued_messages) * framing.chunk_bytes(3)
    }

    /// Payload bytes queued or not yet acknowledged for good.
    pub(super) fn used_bytes(&self) -> usize {
        size(self.used_bytes)
    }

    /// The unsent rest of the message whose turn it is.
    pub(super) fn front(&self) -> Option<&Unsent> {
        self.scheduler.front()
    }

    /// A message that is not settled.
    #[inline]
    pub(super) fn message(&self, slot: MessageSlot) -> Option<&OutboundMessage> {
        self.messages.get(slot)
    }

    /// As [`message`](Self::message).
    #[inline]
    pub(super) fn message_mut(&mut self, slot: MessageSlot) -> Option<&mut OutboundMessage> {
        self.messages.get_mut(slot)
    }

    /// The next turn, in a packet with room for `room` payload bytes, if an empty packet has room for `full`. `None` if nothing
    /// waits, or if it waits for an emptier packet.
    #[inline]
    pub(super) fn turn(&self, room: usize, full: usize) -> Option<Turn> {
        let front = self.front()?;
        Some(Turn { message: front.message, bytes: piece_bytes(front.rest.len(), room, full)? })
    }

    /// The front message and why, if it must not be sent any more.
    pub(super) fn front_stale(&self, now: Instant, streams: u16) -> Option<(MessageSlot, AbandonReason)> {
        let front = self.scheduler.front()?;
        let reason = self.messages.get(front.message)?.obstacle(now, front.has_tsn(), streams)?;
        Some((front.message, reason))
    }

    /// What of a message waits for TSNs.
    pub(super) fn waiting(&self, slot: MessageSlot) -> Option<&Unsent> {
        self.scheduler.find(self.messages.get(slot)?.stream, slot, queue_key(&self.messages))
    }

    /// Counts the messages of each of these streams that wait for TSNs, as a whole or in part. Costs a look at all that wait.
    #[cold]
    pub(super) fn count_waiting(&self, streams: &mut BTreeMap<StreamId, u32>) {
        for unsent in self.scheduler.iter() {
            let stream = self.messages.get(unsent.message).map(|message| message.stream);
            if let Some(waiting) = stream.and_then(|stream| streams.get_mut(&stream)) {
                *waiting = waiting.saturating_add(1);
            }
        }
    }

    /// Removes the unsent rest of a message from the queue and from the accounting. Its piece stays.
    pub(super) fn withdraw(&mut self, slot: MessageSlot) -> Option<Unsent> {
        let (stream, waiting) = (self.messages.get(slot)?.stream, size(self.queued_messages));
        let unsent = self.scheduler.remove(stream, slot, waiting, queue_key(&self.messages))?;
        self.count_sent(unsent.rest.len(), true);
        self.used_bytes -= small(unsent.rest.len());
        Some(unsent)
    }

    /// Abandons a partly sent message with `payload_bytes` unacknowledged. It keeps its slot.
    pub(super) fn abandon(&mut self, slot: MessageSlot, payload_bytes: usize) {
        if let Some(message) = self.messages.get_mut(slot) {
            message.fate = Fate::Abandoned;
            self.abandoned_messages += 1;
            self.used_bytes -= small(payload_bytes);
        }
    }

    /// Messages that are neither delivered nor abandoned.
    pub(super) fn pending_messages(&self) -> u32 {
        self.messages.len() - self.abandoned_messages
    }

    /// Removes the front message from the queue. Returns its identity, and whether part of it has a TSN.
    pub(super) fn discard(&mut self) -> Option<(MessageId, bool)> {
        let front = self.scheduler.pop()?;
        self.count_sent(front.rest.len(), true);
        let id = self.messages.get(front.message)?.id;
        self.release(front.message, front.rest.len());
        Some((id, front.has_tsn()))
    }

    /// Removes the piece sent in this turn from the queue. It still counts until [`release`](Self::release). Whether pieces of several messages may
    /// alternate depends on their framing (`interleaves`).
    #[inline]
    pub(super) fn cut(&mut self, turn: Turn, interleaves: bool) -> Option<Piece> {
        let piece = self.scheduler.take(turn.bytes, interleaves)?;
        debug_assert_eq!(piece.message, turn.message, "the turn is the front's");
        if !piece.ends {
            self.messages.split(piece.message);
        }
        self.count_sent(piece.payload.len(), piece.ends);
        Some(piece)
    }

    /// A packet with new pieces is complete.
    #[inline]
    pub(super) fn packet_left(&mut self, now: Instant) {
        self.scheduler.packet_left();
        if let Some(backlog) = &mut self.backlog {
            backlog.packet_left(now, size(self.queued_bytes));
        }
    }

    /// Messages take turns piece by piece: limits the number of messages begun to those that the peer, which offers `peer_a_rwnd` bytes, can hold,
    /// including its cost per piece.
    pub(super) fn bound_begun(&mut self, chunk_bytes: usize, peer_a_rwnd: u32) {
        self.scheduler.bound(chunk_bytes, size(peer_a_rwnd / 2));
    }

    /// Sets a stream's value for the scheduler.
    pub(super) fn set_stream_value(&mut self, stream: StreamId, value: u16) {
        self.scheduler.set_value(stream, value);
    }

    /// No burst is expected: shrinks to the memory of a thin stream, if there are no messages.
    pub(super) fn calm_down(&mut self) {
        self.scheduler.calm_down();
        self.messages.calm_down();
    }

    /// Frees unused memory of the buffer.
    pub(super) fn give_back_memory(&mut self) {
        self.scheduler.give_back_memory();
        self.messages.give_back_memory();
    }

    /// Removes a piece from the accounting, acknowledged or abandoned. Returns the message if this was its last piece.
    #[inline]
    pub(super) fn release(&mut self, slot: MessageSlot, payload_bytes: usize) -> Option<Left> {
        self.used_bytes -= small(payload_bytes);
        let left = self.messages.settle_piece(slot)?;
        if left.fate == Fate::Abandoned {
            self.abandoned_messages -= 1;
        }
        Some(left)
    }

    /// Returns once, after there is room again, that the application must be notified.
    pub(super) fn take_writable(&mut self) -> bool {
        let writable = self.was_full
            && cost_bytes(self.messages.len(), self.used_bytes()) <= size(self.limits.low_water_bytes)
            && self.may_wait(size(self.limits.message_bytes_max), Room::default());
        self.was_full &= !writable;
        writable
    }

    fn count_sent(&mut self, payload_bytes: usize, ends: bool) {
        self.queued_bytes -= small(payload_bytes);
        self.queued_messages -= u32::from(ends);
    }

    /// Payload bytes of one stream that wait for TSNs.
    pub(super) fn queued_bytes_on(&self, stream: StreamId) -> usize {
        let is_on =
            |unsent: &&Unsent| self.messages.get(unsent.message).is_some_and(|message| message.stream == stream);
        self.scheduler.iter().filter(is_on).map(|unsent| unsent.rest.len()).sum()
    }

    /// The messages that wait for TSNs, as a whole or in part.
    #[cfg(test)]
    pub(super) fn unsent(&self) -> impl Iterator<Item = MessageSlot> {
        self.scheduler.iter().map(|unsent| unsent.message)
    }

    /// Messages that have a slot.
    #[cfg(test)]
    pub(super) fn slots_used(&self) -> usize {
        size(self.messages.len())
    }

    /// Capacity of the queue of messages.
    #[cfg(test)]
    pub(super) fn queue_capacity(&self) -> usize {
        self.scheduler.capacity()
    }

    /// Capacity of the slots.
    #[cfg(test)]
    pub(super) fn slots_capacity(&self) -> usize {
        self.messages.capacity()
    }
}

#[cfg(test)]
mod tests {
    use festina_units::Duration;

    use super::*;

    fn buffer(limit_bytes: usize, low_water_bytes: usize) -> SendBuffer {
        let mut config = Config::default();
        config.limits.send_buffer_bytes = limit_bytes;
        config.limits.send_low_water_bytes = low_water_bytes;
        config.limits.message_bytes_max = 1_000;
        SendBuffer::new(&config)
    }

    fn offer(buffer: &mut SendBuffer, message: Message, id: u64) -> Result<(), SendError> {
        if !buffer.fits(&message, 10) {
            return Err(buffer.fault(message, 10));
        }
        if !buffer.has_room(message.payload.len(), Room::default()) {
            return Err(buffer.refuse(message));
        }
        buffer.push(Instant::ZERO, message, MessageId(id));
        Ok(())
    }

    fn push(buffer: &mut SendBuffer, bytes: usize) -> Result<(), SendError> {
        offer(buffer, Message::new(vec![7; bytes]), 0)
    }

    /// Discards the front message if it must not be sent any more.
    fn pop_stale(buffer: &mut SendBuffer, now: Instant, streams: u16) -> Option<(MessageId, AbandonReason)> {
        let (slot, reason) = buffer.front_stale(now, streams)?;
        buffer.withdraw(slot).expect("it waits");
        Some((buffer.release(slot, 0).expect("none of it has left").id, reason))
    }

    /// The next piece of the message in front.
    fn cut(buffer: &mut SendBuffer, bytes: usize) -> Piece {
        let turn = buffer.turn(bytes, bytes).expect("a message waits");
        assert_eq!(turn.bytes, bytes);
        buffer.cut(turn, false).expect("it is in front")
    }

    #[test]
    fn messages_that_cannot_be_sent_are_handed_back() {
        let mut buffer = buffer(100, 50);
        assert!(matches!(push(&mut buffer, 0), Err(SendError { kind: SendErrorKind::Empty, .. })));
        assert!(matches!(
            push(&mut buffer, 1_001),
            Err(SendError { kind: SendErrorKind::TooLong { bytes_max: 1_000 }, .. })
        ));
        let message = Message::new("x").on_stream(10);
        let refused = offer(&mut buffer, message.clone(), 0);
        assert_eq!(refused, Err(SendError::new(message, SendErrorKind::NoSuchStream { streams: 10 })));
        assert_eq!(buffer.used_bytes(), 0);
    }

    /// Returns the buffer size needed for `messages` with `payload_bytes` in all.
    const fn cost(messages: usize, payload_bytes: usize) -> usize {
        messages * Limits::MESSAGE_OVERHEAD_BYTES + payload_bytes
    }

    #[test]
    fn the_limit_counts_what_is_queued_and_what_is_unacknowledged() {
        let mut buffer = buffer(cost(2, 100), 50);
        assert_eq!(push(&mut buffer, 60), Ok(()));
        assert_eq!(cut(&mut buffer, 60).payload.len(), 60);
        assert_eq!((buffer.queued_bytes(), buffer.used_bytes()), (0, 60));
        assert!(matches!(push(&mut buffer, 41), Err(SendError { kind: SendErrorKind::BufferFull, .. })));
        assert_eq!(push(&mut buffer, 40), Ok(()));
    }

    #[test]
    fn tiny_messages_fill_the_buffer_by_what_they_cost_and_not_by_their_payload() {
        let mut buffer = buffer(10_000, 50);
        let taken = (0..).take_while(|_| push(&mut buffer, 1).is_ok()).count();
        assert_eq!(taken, 10_000 / (1 + Limits::MESSAGE_OVERHEAD_BYTES));
        let entries = size_of::<Unsent>() + size_of::<crate::outstanding::Chunk>();
        let grown = Messages::SLOT_BYTES + 2 * entries;
        assert!(2 * Limits::MESSAGE_OVERHEAD_BYTES >= grown, "{grown}: a queue may have grown to twice its length");
    }

    #[test]
    fn an_empty_buffer_takes_a_message_larger_than_itself() {
        let mut buffer = buffer(100, 50);
        assert_eq!(push(&mut buffer, 900), Ok(()));
        assert!(matches!(push(&mut buffer, 1), Err(SendError { kind: SendErrorKind::BufferFull, .. })));
    }

    #[test]
    fn writable_is_reported_once_at_the_low_water_mark_after_a_refusal() {
        let mut buffer = buffer(cost(1, 100), cost(1, 50));
        assert_eq!(push(&mut buffer, 100), Ok(()));
        assert!(push(&mut buffer, 1).is_err());
        let slots = [49, 1, 50].map(|bytes| cut(&mut buffer, bytes).message);
        buffer.release(slots[0], 49);
        assert!(!buffer.take_writable(), "51 bytes are still there");
        buffer.release(slots[1], 1);
        assert!(buffer.take_writable());
        assert!(!buffer.take_writable());
        assert_eq!(buffer.release(slots[2], 50).map(|message| message.id), Some(MessageId(0)));
        assert!(!buffer.take_writable(), "nothing was refused since");
        assert_eq!((buffer.used_bytes(), buffer.slots_used()), (0, 0));
    }

    #[test]
    fn a_message_expires_in_the_queue_unless_it_has_begun_section_11_1_5() {
        let mut buffer = buffer(1_000, 50);
        let message = Message::new(vec![7; 100]).with_lifetime(Duration::from_millis(10));
        assert_eq!(offer(&mut buffer, message, 3), Ok(()));
        assert_eq!(pop_stale(&mut buffer, Instant::from_millis(9), 10), None);
        cut(&mut buffer, 50);
        assert_eq!(pop_stale(&mut buffer, Instant::from_millis(10), 10), None, "the rest must follow");
        cut(&mut buffer, 50);
        let message = Message::new("late").with_lifetime(Duration::from_millis(10));
        assert_eq!(offer(&mut buffer, message, 4), Ok(()));
        let expired = Some((MessageId(4), AbandonReason::Expired));
        assert_eq!(pop_stale(&mut buffer, Instant::from_millis(10), 10), expired);
        assert_eq!((buffer.queued_bytes(), buffer.used_bytes()), (0, 100));
    }

    #[test]
    fn a_message_for_a_stream_that_the_peer_refused_is_dropped() {
        let mut buffer = buffer(100, 50);
        let message = Message::new("x").on_stream(9);
        assert_eq!(offer(&mut buffer, message, 5), Ok(()));
        assert_eq!(buffer.front_stale(Instant::ZERO, 10), None);
        let refused = Some((MessageId(5), AbandonReason::StreamRefused));
        assert_eq!(pop_stale(&mut buffer, Instant::ZERO, 9), refused);
    }
}
