//! The messages that are found by their lifetime, their priority or their key.

use std::collections::{BTreeMap, BTreeSet};

use festina_units::Instant;

use crate::message::MessageId;
use crate::outstanding::MessageSlot;
use crate::send::messages::OutboundMessage;
use crate::wire::StreamId;

/// Indices of messages that are neither delivered nor abandoned. Each has at most one entry per message, so the send buffer bounds them.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    lifetimes: BTreeSet<(Instant, MessageId, u32)>,
    priorities: BTreeMap<(u16, MessageId), MessageSlot>,
    /// The newest message of each key.
    keys: BTreeMap<(StreamId, u64), MessageSlot>,
    /// The keys of those messages.
    keyed: BTreeMap<u32, u64>,
    /// Messages whose delivery is reported whatever else is.
    confirmed: BTreeSet<u32>,
}

/// How a message is found beside its lifetime.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    pub(super) key: Option<u64>,
    /// It has a priority, and may be evicted.
    pub(super) evictable: bool,
    /// Its delivery is reported whatever else is.
    pub(super) confirm: bool,
}

impl Tracked {
    /// A message waits to be sent.
    pub(super) fn insert(&mut self, slot: MessageSlot, message: &OutboundMessage, marks: Marks) {
        let Marks { key, evictable, confirm } = marks;
        if confirm {
            self.confirmed.insert(slot.0);
        }
        if message.expires_at != Instant::MAX {
            self.lifetimes.insert((message.expires_at, message.id, slot.0));
        }
        if evictable {
            self.priorities.insert((message.priority, message.id), slot);
        }
        if let Some(key) = key {
            if let Some(older) = self.keys.insert((message.stream, key), slot) {
                self.keyed.remove(&older.0);
            }
            self.keyed.insert(slot.0, key);
        }
    }

    /// A message is settled or given up. Returns whether its delivery is to be reported.
    pub(super) fn remove(&mut self, slot: MessageSlot, message: &OutboundMessage) -> bool {
        self.lifetimes.remove(&(message.expires_at, message.id, slot.0));
        self.priorities.remove(&(message.priority, message.id));
        if let Some(key) = self.keyed.remove(&slot.0) {
            self.keys.remove(&(message.stream, key));
        }
        self.confirmed.remove(&slot.0)
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// When the next lifetime ends.
    pub(super) fn expires_at(&self) -> Option<Instant> {
        self.lifetimes.first().map(|&(expires_at, _, _)| expires_at)
    }

    /// Takes a message off whose lifetime has ended. Only its lifetime is forgotten.
    pub(super) fn take_expired(&mut self, now: Instant) -> Option<MessageSlot> {
        if self.expires_at()? > now {
            return None;
        }
        self.lifetimes.pop_first().map(|(_, _, slot)| MessageSlot(slot))
    }

    /// The newest message with this key.
    pub(super) fn by_key(&self, stream: StreamId, key: u64) -> Option<MessageSlot> {
        self.keys.get(&(stream, key)).copied()
    }

    /// The messages of lower priority, those of the lowest first and the last ones of these first.
    pub(super) fn below_priority(&self, priority: u16) -> impl Iterator<Item = MessageSlot> {
        let below = priority.checked_add(1).map(|next| self.priorities.range((next, MessageId(0))..));
        below.into_iter().flat_map(|below| below.rev()).map(|(_, &slot)| slot)
    }
}
