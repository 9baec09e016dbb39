//! The messages that are found by their lifetime, their priority or their key.

use std::collections::{BTreeMap, BTreeSet};

use festina_units::{Duration, Instant};

use super::succession::{StateKey, Successions};
use crate::message::MessageId;
use crate::outstanding::MessageSlot;
use crate::wire::StreamId;

/// Indices of messages that are neither delivered nor abandoned. Each has at most one entry per message, so the send buffer bounds them.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    messages: BTreeMap<u32, Entry>,
    lifetimes: BTreeSet<(Instant, MessageId, u32)>,
    priorities: BTreeMap<(u16, MessageId), MessageSlot>,
    /// The newest message of each key.
    keys: BTreeMap<StateKey, MessageSlot>,
    successions: Successions,
}

/// How a message is found.
#[derive(Clone, Copy, Debug)]
struct Entry {
    id: MessageId,
    expires_at: Instant,
    priority: Option<u16>,
    key: Option<StateKey>,
    /// A newer message has its key, and it could not be abandoned.
    is_replaced: bool,
    confirm: bool,
}

/// Partial-reliability options of a message other than its lifetime.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    pub(super) key: Option<StateKey>,
    /// It may be evicted for one with a lower number.
    pub(super) priority: Option<u16>,
    /// Report its delivery, regardless of the other settings.
    pub(super) confirm: bool,
}

impl Tracked {
    /// A message was written `now` and waits to be sent.
    pub(super) fn insert(&mut self, now: Instant, slot: MessageSlot, expires_at: Instant, id: MessageId, marks: Marks) {
        let Marks { key, priority, confirm } = marks;
        if expires_at != Instant::MAX {
            self.lifetimes.insert((expires_at, id, slot.0));
        }
        if let Some(priority) = priority {
            self.priorities.insert((priority, id), slot);
        }
        if let Some(key) = key {
            self.successions.note(now, key);
            let older = self.keys.insert(key, slot);
            if let Some(older) = older.and_then(|older| self.messages.get_mut(&older.0)) {
                (older.key, older.is_replaced) = (None, true);
            }
        }
        self.messages.insert(slot.0, Entry { id, expires_at, priority, key, is_replaced: false, confirm });
    }

    /// A message is settled or abandoned. Returns whether to report its delivery.
    pub(super) fn remove(&mut self, slot: MessageSlot) -> bool {
        let Some(Entry { id, expires_at, priority, key, confirm, .. }) = self.messages.remove(&slot.0) else {
            return false;
        };
        self.lifetimes.remove(&(expires_at, id, slot.0));
        if let Some(priority) = priority {
            self.priorities.remove(&(priority, id));
        }
        if let Some(key) = key {
            self.keys.remove(&key);
        }
        confirm
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// When the next lifetime ends.
    pub(super) fn expires_at(&self) -> Option<Instant> {
        self.lifetimes.first().map(|&(expires_at, _, _)| expires_at)
    }

    /// Returns a message whose lifetime has ended, and forgets only its lifetime.
    pub(super) fn take_expired(&mut self, now: Instant) -> Option<MessageSlot> {
        if self.expires_at()? > now {
            return None;
        }
        self.lifetimes.pop_first().map(|(_, _, slot)| MessageSlot(slot))
    }

    /// The lifetime of a message that was taken off counts as ending `at`.
    pub(super) fn postpone(&mut self, slot: MessageSlot, at: Instant) {
        if let Some(entry) = self.messages.get_mut(&slot.0) {
            entry.expires_at = at;
            self.lifetimes.insert((at, entry.id, slot.0));
        }
    }

    /// The newest message with this key.
    pub(super) fn by_key(&self, stream: StreamId, key: u64) -> Option<MessageSlot> {
        self.keys.get(&StateKey { stream, key }).copied()
    }

    /// Returns whether a newer message has replaced this one, or will have at about `at`.
    pub(super) fn is_replaced_by(&self, slot: MessageSlot, at: Instant) -> bool {
        let is_near = |key| self.successions.is_next_near(key, at);
        self.messages.get(&slot.0).is_some_and(|entry| entry.is_replaced || entry.key.is_some_and(is_near))
    }

    /// Returns half the mean time between the messages with this one's key, if that was measured.
    pub(super) fn half_interval(&self, slot: MessageSlot) -> Option<Duration> {
        self.messages.get(&slot.0)?.key.and_then(|key| self.successions.half_interval(key))
    }

    /// Returns when the newest message of a key for which `counts` holds lacks its successor for too long.
    pub(super) fn states_end_at(&self, counts: impl Fn(MessageSlot) -> bool) -> Option<Instant> {
        self.successions.ends_at(|key| self.keys.get(&key).is_some_and(|&slot| counts(slot)))
    }

    /// Returns the newest messages of the keys that lack a successor for too long, each once.
    pub(super) fn take_ended(&mut self, now: Instant) -> Vec<MessageSlot> {
        self.successions.take_ended(now).filter_map(|key| self.keys.get(&key).copied()).collect()
    }

    /// The messages of lower priority, those of the lowest first and the last ones of these first.
    pub(super) fn below_priority(&self, priority: u16) -> impl Iterator<Item = MessageSlot> {
        let below = priority.checked_add(1).map(|next| self.priorities.range((next, MessageId(0))..));
        below.into_iter().flat_map(|below| below.rev()).map(|(_, &slot)| slot)
    }
}
