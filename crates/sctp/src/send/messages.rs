//! The unsettled messages: the state of each that the queue and the ledger need.
//!
//! A message has a slot from `send` until its last chunk is acknowledged for good, or until it is abandoned. Queue and ledger refer to it by the
//! slot's number.

use festina_units::Instant;

use crate::config::Expiry;
use crate::event::AbandonReason;
use crate::message::{Duplicate, Message, MessageId};
use crate::outstanding::{Chunk, MessageSlot};
use crate::wire::{FragmentHeader, StreamId, Tsn};

/// Slots for which memory is kept while none is in use: enough for a thin stream.
pub(super) const SLOTS_KEPT: usize = 4;

/// Slots that the second step of growth makes room for, so that a burst costs few allocations. They are kept while burst follows burst.
const SLOTS_SECOND: usize = 32;

/// Ends the list of free slots.
const NO_SLOT: u32 = u32::MAX;

/// Stands for no limit of retransmissions. A chunk does not count further.
const NO_LIMIT: u8 = u8::MAX;

/// A message that was handed over and is not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutboundMessage {
    pub(super) id: MessageId,
    /// When it is not worth sending any more; [`Instant::MAX`] if it always is.
    pub(super) expires_at: Instant,
    pub(super) ppid: u32,
    /// Number of its unsettled pieces: each chunk with a TSN, and the unsent rest.
    pieces: u32,
    /// The low bits of the TSN of its last piece that has one. Without one, its key in the queue: the low bits of its identity, or of that of the
    /// message that it replaced.
    pub(super) last_tsn: u32,
    pub(super) stream: StreamId,
    /// Its MID, whose low bits are its SSN. Assigned with the first fragment, and meaningless before. Unordered messages in DATA chunks have none.
    pub(super) number: u32,
    /// Maximum number of retransmissions of a chunk.
    retransmissions_max: u8,
    /// When `expires_at` counts.
    expiry: Expiry,
    pub(super) fate: Fate,
    pub(super) unordered: bool,
    /// The application asks the peer not to delay its SACK.
    pub(super) immediate_ack: bool,
    pub(super) duplicate: Option<Duplicate>,
}

/// A message that has left its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) id: MessageId,
    pub(super) fate: Fate,
}

/// What partial reliability knows of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// No partial-reliability option needs it.
    Plain,
    /// It is found by its lifetime, its priority or its key.
    Tracked,
    /// It was abandoned after some of it had left. Its chunks wait for the peer to pass over them.
    Abandoned,
}

impl OutboundMessage {
    /// A message that was handed over just now, with its payload in one piece.
    pub(super) fn new(now: Instant, message: &Message, id: MessageId, expiry: Expiry) -> Self {
        let is_tracked = message.is_tracked();
        Self {
            id,
            expires_at: if is_tracked { message.expires_at(now) } else { Instant::MAX },
            ppid: message.ppid,
            pieces: 1,
            last_tsn: low_bits(id),
            stream: message.stream,
            number: 0,
            retransmissions_max: message
                .max_retransmissions
                .and_then(|limit| u8::try_from(limit).ok())
                .unwrap_or(NO_LIMIT),
            expiry,
            fate: if is_tracked { Fate::Tracked } else { Fate::Plain },
            unordered: message.unordered,
            immediate_ack: message.immediate_ack,
            duplicate: message.duplicate,
        }
    }

    /// Returns why a chunk with this many transmissions must not be sent again, if so (RFC 3758 §4.1, RFC 7496 §3.1).
    #[inline]
    pub(super) fn obstacle_again(&self, now: Instant, transmissions: u8) -> Option<AbandonReason> {
        if self.retransmissions_max != NO_LIMIT && transmissions > self.retransmissions_max {
            Some(AbandonReason::RetransmissionsExhausted)
        } else {
            (self.expires_at <= now).then_some(AbandonReason::Expired)
        }
    }

    /// When it is to be looked at though nothing leaves; [`Instant::MAX`] if never.
    pub(super) fn given_up_at(&self) -> Instant {
        match self.expiry {
            Expiry::WhenOverdue | Expiry::AtOnce => self.expires_at,
            Expiry::BeforeTransmission | Expiry::BeforeRetransmission | Expiry::WhenMissing => Instant::MAX,
        }
    }

    /// Returns whether its lifetime has ended and it is abandoned as soon as a chunk of it is missing below others that arrived.
    pub(super) fn is_over_if_missing(&self, now: Instant) -> bool {
        self.expiry == Expiry::WhenMissing && self.expires_at <= now
    }

    /// Returns whether it is kept past its end while its acknowledgement may yet come.
    pub(super) fn awaits_answer(&self) -> bool {
        self.expiry == Expiry::WhenOverdue
    }

    /// Returns why an unsent message must not be sent any more, if so; the peer accepts `streams` streams.
    #[inline]
    pub(super) fn obstacle(&self, now: Instant, has_tsn: bool, streams: u16) -> Option<AbandonReason> {
        if has_tsn {
            None
        } else if self.stream.0 >= streams {
            Some(AbandonReason::StreamRefused)
        } else {
            let counts = !matches!(self.expiry, Expiry::BeforeRetransmission | Expiry::WhenMissing);
            (counts && self.expires_at <= now).then_some(AbandonReason::Expired)
        }
    }

    /// The header to send one of its chunks with.
    #[inline]
    pub(super) fn header(&self, tsn: u64, chunk: &Chunk) -> FragmentHeader {
        FragmentHeader {
            tsn: Tsn::wrap(tsn),
            stream: self.stream,
            message: self.number,
            fragment: chunk.fragment,
            ppid: self.ppid,
            unordered: self.unordered,
            end: chunk.ends(),
            immediate: chunk.immediate_ack,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "far fewer messages than 2^31 wait at a time")]
fn low_bits(id: MessageId) -> u32 {
    id.0 as u32
}

#[derive(Clone, Copy, Debug)]
enum Slot {
    Used(OutboundMessage),
    Free { next: u32 },
}

/// The slots. Their number is bounded by the minimum cost of a message in the send buffer.
#[derive(Debug)]
pub(super) struct Messages {
    slots: Box<[Slot]>,
    /// The free slot that is used next; the others follow by `next`.
    free: u32,
    used: u32,
}

impl Messages {
    /// No messages, and no memory.
    pub(super) fn new() -> Self {
        Self { slots: Box::default(), free: NO_SLOT, used: 0 }
    }

    /// Number of messages.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.used
    }

    #[inline]
    pub(super) fn get(&self, slot: MessageSlot) -> Option<&OutboundMessage> {
        match self.slots.get(index(slot)) {
            Some(Slot::Used(message)) => Some(message),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: MessageSlot) -> Option<&mut OutboundMessage> {
        match self.slots.get_mut(index(slot)) {
            Some(Slot::Used(message)) => Some(message),
            _ => None,
        }
    }

    /// Gives a message a slot.
    #[inline]
    pub(super) fn insert(&mut self, message: OutboundMessage) -> MessageSlot {
        self.used += 1;
        if self.free == NO_SLOT {
            self.grow();
        }
        let slot = MessageSlot(self.free);
        if let Some(place) = self.slots.get_mut(index(slot))
            && let Slot::Free { next } = *place
        {
            self.free = next;
            *place = Slot::Used(message);
        }
        slot
    }

    /// One of the message's pieces was cut in two.
    #[inline]
    pub(super) fn split(&mut self, slot: MessageSlot) {
        if let Some(message) = self.get_mut(slot) {
            message.pieces += 1;
        }
    }

    /// Settles a piece of the message, acknowledged for good or abandoned. Returns the message if this was its last piece.
    #[inline]
    pub(super) fn settle_piece(&mut self, slot: MessageSlot) -> Option<Left> {
        let place = self.slots.get_mut(index(slot));
        debug_assert!(matches!(place, Some(Slot::Used(_))), "a piece of a message that has left");
        let place = place?;
        let Slot::Used(message) = place else { return None };
        message.pieces -= 1;
        if message.pieces > 0 {
            return None;
        }
        let left = Left { id: message.id, fate: message.fate };
        *place = Slot::Free { next: self.free };
        self.free = slot.0;
        self.used -= 1;
        self.shrink(SLOTS_SECOND);
        Some(left)
    }

    /// No burst is expected: shrinks to the memory of a thin stream, if there are no messages.
    #[inline]
    pub(super) fn calm_down(&mut self) {
        self.shrink(SLOTS_KEPT);
    }

    /// Gives back even the memory that a thin stream needs, if there are no messages.
    pub(super) fn give_back_memory(&mut self) {
        self.shrink(0);
    }

    /// Gives back the slots if they are more than `slots_kept` and none is in use.
    #[inline]
    fn shrink(&mut self, slots_kept: usize) {
        if self.used == 0 && self.slots.len() > slots_kept {
            self.forget_slots();
        }
    }

    #[cold]
    fn forget_slots(&mut self) {
        *self = Self::new();
    }

    /// Every slot is in use. Makes room for half as many more, so that at most a third of the slots is idle.
    #[cold]
    fn grow(&mut self) {
        let used = self.slots.len();
        let more = match used {
            0 => SLOTS_KEPT,
            1..SLOTS_SECOND => SLOTS_SECOND - used,
            SLOTS_SECOND.. => used / 2,
        };
        let number = |index: usize| u32::try_from(index).unwrap_or(NO_SLOT);
        let mut slots = Vec::with_capacity(used + more);
        slots.extend_from_slice(&self.slots);
        slots.extend((used + 1..used + more).map(|next| Slot::Free { next: number(next) }));
        slots.push(Slot::Free { next: NO_SLOT });
        self.slots = slots.into_boxed_slice();
        self.free = number(used);
    }

    /// Memory of a slot, including its share of idle ones.
    #[cfg(test)]
    pub(super) const SLOT_BYTES: usize = size_of::<Slot>() * 3 / 2;

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }
}

#[inline]
fn index(slot: MessageSlot) -> usize {
    usize::try_from(slot.0).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
