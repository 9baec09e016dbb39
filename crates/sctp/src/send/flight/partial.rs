//! Partial reliability (RFC 3758, RFC 7496): when messages are abandoned, and how the peer is notified.
//!
//! A message is abandoned at the end of its lifetime, when it would exceed its number of retransmissions, for one of higher priority in a full
//! buffer, or for a newer one with its key. If nothing of it was sent, this costs no TSN, SSN or packet. Otherwise all fragments are abandoned
//! together, and FORWARD-TSN moves the peer past them. If the peer does not support that, partly sent messages stay reliable.

mod apart;
mod forward;
mod protection;
mod succession;
mod tracked;

use std::collections::BTreeMap;

use bytes::Bytes;
use festina_units::Instant;

use super::{Flight, PathTerms};
use crate::error::SendError;
use crate::event::{AbandonReason, Events, RetransmissionCause};
use crate::message::{Message, MessageId};
use crate::outstanding::{Chunk, ChunkState, Form, MessageSlot, PathId};
use crate::send::messages::OutboundMessage;
use crate::send::queue::Room;
use crate::send::scheduler::Unsent;
use crate::stats::AbandonedStats;
use crate::wire::{Framing, PacketBuilder, StreamId, Tsn};
use forward::Forward;
use succession::StateKey;
use tracked::{Marks, Tracked};

/// The memory of partial reliability. It exists once a message was not wholly reliable: most associations send reliable messages only.
#[derive(Debug, Default)]
pub(in crate::send) struct Partial {
    tracked: Tracked,
    forward: Forward,
    counts: AbandonedCounts,
}

/// Abandoned messages, in all and by stream.
#[derive(Debug, Default)]
struct AbandonedCounts {
    all: AbandonedStats,
    /// At most one entry for each stream that the peer allows.
    streams: BTreeMap<StreamId, AbandonedStats>,
    /// Those that the end of the association left partly sent.
    sent_at_end: u64,
    /// Payload bytes of abandoned messages, less those that were acknowledged behind a lost fragment.
    bytes: u64,
}

/// What a message past its lifetime waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outlook {
    /// Nothing: a part of it would have to leave, or its lifetime counts wherever it is.
    None,
    /// The acknowledgement of the chunk last sent at `departure`.
    Answer { departure: Instant },
    /// The peer has all of it, as far as it says.
    Arrived,
}

impl Outlook {
    /// Adds the expected acknowledgement of a chunk sent at `sent_at`.
    fn or_answer(self, sent_at: Instant) -> Self {
        match self {
            Self::Answer { departure } => Self::Answer { departure: departure.max(sent_at) },
            Self::None | Self::Arrived => Self::Answer { departure: sent_at },
        }
    }
}

impl Partial {
    /// Nothing is queued or outstanding any more. The counts stay.
    pub(in crate::send) fn clear(&mut self) {
        self.tracked.clear();
        self.forward.clear();
    }

    /// A message is settled or abandoned. Returns whether to report its delivery.
    #[cold]
    pub(in crate::send) fn forget(&mut self, slot: MessageSlot) -> bool {
        self.tracked.remove(slot)
    }

    /// Abandoned messages, by policy.
    pub(in crate::send) fn abandoned(&self) -> AbandonedStats {
        self.counts.all
    }

    /// Abandoned messages that were sent at least in part, for any reason.
    pub(in crate::send) fn abandoned_sent(&self) -> u64 {
        self.counts.all.total().sent + self.counts.sent_at_end
    }

    /// The association ended, and a partly sent message with it.
    pub(in crate::send) fn note_sent_at_end(&mut self) {
        self.counts.sent_at_end += 1;
    }

    /// Payload bytes of abandoned messages, less those that were acknowledged behind a lost fragment.
    pub(in crate::send) fn abandoned_bytes(&self) -> u64 {
        self.counts.bytes
    }

    /// As [`abandoned`](Self::abandoned), of one stream.
    pub(in crate::send) fn abandoned_on(&self, stream: StreamId) -> AbandonedStats {
        self.counts.streams.get(&stream).copied().unwrap_or_default()
    }

    /// Returns whether FORWARD-TSN is reason enough for a packet.
    pub(in crate::send) fn is_forward_due(&self, now: Instant) -> bool {
        self.forward.is_due(now)
    }

    /// The highest TSN skipped by a FORWARD-TSN; 0 if none was.
    pub(in crate::send) fn forwarded(&self) -> u64 {
        self.forward.told
    }

    /// Returns whether this TSN was named to the peer, by E-FORWARD-TSN if `apart`.
    pub(in crate::send) fn has_told(&self, tsn: u64, apart: bool) -> bool {
        self.forward.has_told(tsn, apart)
    }

    /// Number of FORWARD-TSNs sent.
    pub(in crate::send) fn forward_tsns(&self) -> u64 {
        self.forward.count
    }

    /// When a lifetime ends or FORWARD-TSN is due.
    pub(in crate::send) fn deadline(&self) -> Option<Instant> {
        Instant::earliest([self.tracked.expires_at(), self.forward.due_at])
    }

    /// The ledger changed: decides how far the peer is to be moved, and when FORWARD-TSN is sent.
    pub(in crate::send) fn judge_forward(&mut self, now: Instant, terms: PathTerms, flight: &Flight, by_ack: bool) {
        self.forward.look(now, terms, flight, by_ack);
    }

    /// Writes FORWARD-TSN if there is something to tell. Returns whether it did.
    pub(in crate::send) fn write_forward(
        &mut self,
        now: Instant,
        terms: PathTerms,
        flight: &Flight,
        packet: &mut PacketBuilder<'_>,
    ) -> bool {
        self.forward.join(now, terms, flight, packet)
    }

    /// Handles timers. If T3-rtx has expired (`t3`), the last FORWARD-TSN may be lost (C5).
    pub(in crate::send) fn handle_forward_timeout(&mut self, now: Instant, t3: bool) {
        self.forward.handle_timeout(now, t3);
    }

    fn count(&mut self, stream: StreamId, reason: AbandonReason, sent: bool) {
        self.counts.all.count(reason, sent);
        self.counts.streams.entry(stream).or_default().count(reason, sent);
    }
}

/// Abandoning messages. The functions return whether anything was abandoned; the caller handles the consequences.
impl Flight {
    /// Makes room for a message in a full buffer, if its key or its priority permits that others are abandoned, and queues it.
    ///
    /// # Errors
    /// There is no room. Nothing was abandoned then.
    #[cold]
    pub(in crate::send) fn push_partial(
        &mut self,
        now: Instant,
        message: Message,
        id: MessageId,
        events: &mut Events,
    ) -> Result<(), SendError> {
        let tracked = self.partial.as_ref().map(|partial| &partial.tracked);
        let replaced = message.key.and_then(|key| tracked?.by_key(message.stream, key));
        let replaced = replaced.filter(|&slot| self.may_give_up(slot));
        let freed = replaced.map(|slot| self.room_of(slot)).unwrap_or_default();
        let Some(victims) = self.victims(&message, replaced, freed) else {
            return Err(self.buffer.refuse(message));
        };
        for slot in victims {
            self.give_up(slot, AbandonReason::Evicted, events);
        }
        let key = message.key.map(|key| StateKey { stream: message.stream, key });
        let marks = Marks { key, priority: message.priority, confirm: message.confirm };
        let replaced_waits = replaced.filter(|&slot| self.buffer.waiting(slot).is_some_and(|unsent| !unsent.has_tsn()));
        let slot = match (replaced_waits, replaced) {
            (Some(older), _) => {
                let slot = self.buffer.push_in_place(now, message, id, older);
                self.give_up_unsent(older, AbandonReason::Replaced, events);
                slot
            }
            (None, older) => {
                if let Some(older) = older {
                    self.give_up(older, AbandonReason::Replaced, events);
                }
                self.buffer.push(now, message, id)
            }
        };
        if let Some(given_up_at) = self.buffer.message(slot).map(OutboundMessage::given_up_at) {
            self.partial.get_or_insert_default().tracked.insert(now, slot, given_up_at, id, marks);
        }
        Ok(())
    }

    /// Returns whether abandoning the message has an effect now.
    fn may_give_up(&self, slot: MessageSlot) -> bool {
        self.forwards || self.buffer.waiting(slot).is_some_and(|unsent| !unsent.has_tsn())
    }

    /// What abandoning the message would make free. One that has begun to leave keeps its slot for a while.
    fn room_of(&self, slot: MessageSlot) -> Room {
        let waiting = self.buffer.waiting(slot);
        let waiting_bytes = waiting.map_or(0, |unsent| unsent.rest.len());
        if waiting.is_some_and(|unsent| !unsent.has_tsn()) {
            return Room { messages: 1, payload_bytes: waiting_bytes };
        }
        let chunks = self.tsns_of(slot).into_iter().filter_map(|tsn| self.ledger.get(tsn));
        Room { messages: 0, payload_bytes: waiting_bytes + chunks.map(|chunk| chunk.payload.len()).sum::<usize>() }
    }

    /// The TSNs of a message's chunks that are outstanding.
    fn tsns_of(&self, slot: MessageSlot) -> Vec<u64> {
        let Some(message) = self.buffer.message(slot) else { return Vec::new() };
        let mut tsns = Vec::new();
        let mut tsn = Tsn(message.last_tsn).unwrap(self.ledger.first_tsn());
        while let Some(chunk) = self.ledger.get(tsn) {
            if chunk.message == slot {
                tsns.push(tsn);
                if chunk.fragment == 0 {
                    break;
                }
            }
            tsn -= 1;
        }
        tsns
    }

    /// Returns the messages to evict to make room for `message`, which replaces `replaced`; `None` if there are too few. Those of the lowest priority
    /// come first, and among them the last ones, which are the least sent.
    fn victims(&self, message: &Message, replaced: Option<MessageSlot>, freed: Room) -> Option<Vec<MessageSlot>> {
        let (bytes, mut freed) = (message.payload.len(), freed);
        let mut victims = Vec::new();
        let mut lower = message
            .priority
            .zip(self.partial.as_ref())
            .map(|(priority, partial)| partial.tracked.below_priority(priority).filter(|&slot| Some(slot) != replaced));
        while !self.buffer.has_room(bytes, freed) {
            let slot = lower.as_mut()?.next()?;
            let room = self.room_of(slot);
            if room.payload_bytes == 0 || !self.may_give_up(slot) {
                continue;
            }
            freed.messages += room.messages;
            freed.payload_bytes += room.payload_bytes;
            victims.push(slot);
        }
        Some(victims)
    }

    /// Abandons the messages in front that must not be sent any more.
    #[cold]
    pub(in crate::send) fn give_up_what_is_stale(&mut self, now: Instant, events: &mut Events) {
        while let Some((slot, reason)) = self.buffer.front_stale(now, self.streams.count()) {
            self.give_up(slot, reason, events);
        }
    }

    /// Abandons a message, all its fragments together, those that have no TSN yet among them.
    pub(in crate::send) fn give_up(&mut self, slot: MessageSlot, reason: AbandonReason, events: &mut Events) {
        let Some(unsent) = self.buffer.withdraw(slot) else {
            return self.give_up_sent(slot, None, reason, events);
        };
        if let Some(&OutboundMessage { stream, .. }) = self.buffer.message(slot) {
            self.streams.left(stream);
        }
        self.count_bytes(unsent.rest.len());
        if unsent.has_tsn() {
            self.give_up_sent(slot, Some(&unsent), reason, events);
        } else {
            self.give_up_unsent(slot, reason, events);
        }
    }

    /// Abandons a message without any TSN and without unsent data.
    fn give_up_unsent(&mut self, slot: MessageSlot, reason: AbandonReason, events: &mut Events) {
        if let Some(message) = self.buffer.message(slot).copied() {
            self.forget(slot);
            self.buffer.release(slot, 0);
            self.count_abandoned(&message, reason, false, events);
        }
    }

    /// Abandons a partly sent message; `unsent` is the rest.
    fn give_up_sent(&mut self, slot: MessageSlot, unsent: Option<&Unsent>, reason: AbandonReason, events: &mut Events) {
        let Some(message) = self.buffer.message(slot).copied() else { return };
        self.forget(slot);
        let tsns = self.tsns_of(slot);
        // The peer discards the fragments that it acknowledged.
        let first_left = tsns.last().and_then(|&tsn| self.ledger.get(tsn)).map(|chunk| chunk.fragment);
        let taken = first_left.or(unsent.map(|unsent| unsent.fragment)).unwrap_or(0) as usize;
        let payload_bytes = tsns.into_iter().map(|tsn| self.ledger.abandon(tsn)).sum();
        self.buffer.abandon(slot, payload_bytes);
        self.count_bytes(payload_bytes + taken * self.ledger.longest_bytes());
        if let Some(&Unsent { fragment, .. }) = unsent {
            // The peer may have everything that has left, and would wait for the end.
            self.ledger.push_abandoned(Chunk { fragment, ..end_of(slot, self.framing) });
        }
        self.count_abandoned(&message, reason, true, events);
    }

    fn forget(&mut self, slot: MessageSlot) {
        if let Some(partial) = &mut self.partial {
            partial.forget(slot);
        }
    }

    fn count_bytes(&mut self, payload_bytes: usize) {
        self.partial.get_or_insert_default().counts.bytes += payload_bytes as u64;
    }

    fn count_abandoned(&mut self, message: &OutboundMessage, reason: AbandonReason, sent: bool, events: &mut Events) {
        self.messages_abandoned += 1;
        self.partial.get_or_insert_default().count(message.stream, reason, sent);
        events.push_abandoned(message.id, reason, sent);
    }

    /// Abandons expired messages that have a chunk missing below the highest reported one
    /// ([`Expiry::WhenMissing`](crate::Expiry::WhenMissing)). Returns whether there were any.
    #[cold]
    pub(in crate::send) fn give_up_what_is_missing(&mut self, now: Instant, events: &mut Events) -> bool {
        let last = self.ledger.last_reported().filter(|_| self.forwards).unwrap_or_default();
        let mut any = false;
        for tsn in self.ledger.first_tsn()..last {
            let chunk = self.ledger.get(tsn).filter(|chunk| chunk.state == ChunkState::InFlight);
            let Some(slot) = chunk.map(|chunk| chunk.message) else { continue };
            if self.buffer.message(slot).is_some_and(|message| message.is_over_if_missing(now)) {
                // The network does not carry it any more.
                self.ledger.lose(tsn, RetransmissionCause::Fast);
                self.give_up(slot, AbandonReason::Expired, events);
                any = true;
            }
        }
        any
    }

    /// Abandons messages whose lifetime has ended, and those that would exceed their retransmissions. Returns whether there were any.
    #[cold]
    #[inline(never)]
    pub(in crate::send) fn give_up_what_is_over(
        &mut self,
        now: Instant,
        terms: PathTerms,
        events: &mut Events,
    ) -> bool {
        let mut any = false;
        while let Some(slot) = self.partial.as_mut().and_then(|partial| partial.tracked.take_expired(now)) {
            if !self.may_give_up(slot) {
                continue;
            }
            let overdue_at = match self.outlook(slot) {
                Outlook::Arrived => continue,
                Outlook::Answer { departure } => departure + terms.patience,
                Outlook::None => now,
            };
            if overdue_at <= now {
                self.give_up(slot, AbandonReason::Expired, events);
                any = true;
            } else if let Some(partial) = &mut self.partial {
                partial.tracked.postpone(slot, overdue_at);
            }
        }
        self.give_up_lost(now, terms.packet_bytes, events) || any
    }

    /// Abandons messages with a lost chunk that may not be sent again, up to the first that may; if the peer passes over chunks that lie
    /// apart, up to those that fill the next packet. Returns whether there were any.
    fn give_up_lost(&mut self, now: Instant, packet_bytes: usize, events: &mut Events) -> bool {
        let (mut any, mut kept_bytes, mut tsn) = (false, 0, self.ledger.first_lost());
        while self.forwards && self.ledger.lost().chunks > 0 && kept_bytes < packet_bytes {
            let Some(chunk) = self.ledger.get(tsn) else { break };
            tsn += 1;
            if !matches!(chunk.state, ChunkState::Lost(_)) {
                continue;
            }
            let (slot, transmissions, bytes) = (chunk.message, chunk.transmissions, chunk.bytes());
            let message = self.buffer.message(slot);
            match message.and_then(|message| message.obstacle_again(now, transmissions)) {
                Some(reason) => {
                    self.give_up(slot, reason, events);
                    any = true;
                }
                None if self.apart => kept_bytes += bytes,
                None => break,
            }
        }
        any
    }

    /// Returns what a message past its lifetime waits for.
    fn outlook(&self, slot: MessageSlot) -> Outlook {
        let awaits_answer = self.buffer.message(slot).is_some_and(OutboundMessage::awaits_answer);
        if !awaits_answer || self.buffer.waiting(slot).is_some() {
            return Outlook::None;
        }
        let mut outlook = Outlook::Arrived;
        for chunk in self.tsns_of(slot).into_iter().filter_map(|tsn| self.ledger.get(tsn)) {
            match chunk.state {
                ChunkState::Lost(_) => return Outlook::None,
                ChunkState::InFlight => outlook = outlook.or_answer(chunk.sent_at),
                _ => {}
            }
        }
        outlook
    }
}

/// The end of an abandoned message, which never leaves.
fn end_of(message: MessageSlot, framing: Framing) -> Chunk {
    Chunk {
        payload: Bytes::new(),
        sent_at: Instant::ZERO,
        message,
        fragment: 0,
        form: Form::new(framing, true),
        immediate_ack: false,
        state: ChunkState::Abandoned,
        transmissions: 1,
        miss_indications: 0,
        fast_retransmitted: false,
        resent: None,
        path: PathId::PRIMARY,
    }
}
