//! The live conversations, the longest silent one first.

use std::collections::HashMap;

use festina_units::Instant;

use super::order::Identifications;
use super::packet::Key;
use super::stream::Stream;

/// Maximum number of live conversations. They take a gigabyte if each end has sent a packet of data.
const LIVE_MAX: usize = 200_000;

/// A conversation of two ends.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) key: Key,
    /// Counts conversations.
    pub(super) number: u64,
    /// The stream of each end, from its first data on.
    pub(super) streams: [Option<Box<Stream>>; 2],
    /// The first number of each end, if its SYN or INIT was seen.
    pub(super) initial: [Option<u32>; 2],
    /// Both ends of TCP have offered SACK and timestamps.
    pub(super) offers: [bool; 2],
    /// The maximum segment size in each end's SYN.
    pub(super) segment_bytes_max: [Option<u16>; 2],
    /// When each end last opened or accepted the conversation, and how long the other took to answer.
    pub(super) opened_at: [Option<Instant>; 2],
    pub(super) answered_ns: [Option<u64>; 2],
    /// How each end numbers its packets.
    pub(super) identifications: [Identifications; 2],
    /// The sequence number up to which each end had sent, from its latest segment without data.
    pub(super) announced: [Option<(u32, Instant)>; 2],
    /// The latest acknowledgement of each end.
    pub(super) heard: [Option<Heard>; 2],
    pub(super) last_at: Instant,
    older: Option<u32>,
    newer: Option<u32>,
}

/// An acknowledgement of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) ack: u32,
    /// The receiver has no room, with any window scale.
    pub(super) is_full: bool,
}

/// A place in the table, valid until the conversation is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

/// All conversations, in a list from the longest silent to the latest active.
#[derive(Debug, Default)]
pub(super) struct Table {
    index: HashMap<Key, u32>,
    slots: Vec<Option<Conversation>>,
    free: Vec<u32>,
    oldest: Option<u32>,
    newest: Option<u32>,
    begun: u64,
}

impl Table {
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Conversation> {
        self.slots.iter().flatten()
    }

    pub(super) fn is_full(&self) -> bool {
        self.index.len() >= LIVE_MAX
    }

    /// Finds the conversation, and makes it the latest active one. A new one needs a free place.
    pub(super) fn hear(&mut self, key: Key, at: Instant) -> Slot {
        let slot = match self.index.get(&key) {
            Some(&slot) => {
                if self.newest != Some(slot) {
                    self.unlink(slot);
                    self.link(slot);
                }
                slot
            }
            None => self.insert(key),
        };
        let conversation = self.at_mut(slot);
        conversation.last_at = conversation.last_at.max(at);
        Slot(slot)
    }

    /// Returns the conversation in an occupied slot.
    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut Conversation {
        self.at_mut(slot.0)
    }

    /// Returns the longest silent one.
    pub(super) fn oldest(&self) -> Option<&Conversation> {
        self.oldest.and_then(|slot| self.slots.get(slot as usize)?.as_ref())
    }

    /// Removes the longest silent one.
    pub(super) fn pop_oldest(&mut self) -> Option<Conversation> {
        self.remove(Slot(self.oldest?))
    }

    /// Removes all of them, in the order in which they began, without a copy, since there may be the maximum number at
    /// the end.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Conversation> + use<> {
        let Self { mut slots, begun, .. } = std::mem::take(self);
        self.begun = begun;
        slots.sort_unstable_by_key(|slot| slot.as_ref().map(|conversation| conversation.number));
        slots.into_iter().flatten()
    }

    /// Removes any one.
    pub(super) fn remove(&mut self, Slot(slot): Slot) -> Option<Conversation> {
        self.unlink(slot);
        let conversation = self.slots.get_mut(slot as usize)?.take()?;
        self.index.remove(&conversation.key);
        self.free.push(slot);
        Some(conversation)
    }

    fn insert(&mut self, key: Key) -> u32 {
        self.begun += 1;
        let conversation = Conversation {
            key,
            number: self.begun,
            streams: [None, None],
            initial: [None, None],
            offers: [false, false],
            segment_bytes_max: [None, None],
            opened_at: [None, None],
            answered_ns: [None, None],
            identifications: [Identifications::default(); 2],
            announced: [None, None],
            heard: [None, None],
            last_at: Instant::ZERO,
            older: None,
            newer: None,
        };
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).expect("there are at most LIVE_MAX")
            }
        };
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = Some(conversation);
        }
        self.index.insert(key, slot);
        self.link(slot);
        slot
    }

    fn at_mut(&mut self, slot: u32) -> &mut Conversation {
        self.slots.get_mut(slot as usize).and_then(Option::as_mut).expect("linked slots are taken")
    }

    /// Puts a slot at the end of the list.
    fn link(&mut self, slot: u32) {
        let before = self.newest.replace(slot);
        let conversation = self.at_mut(slot);
        (conversation.older, conversation.newer) = (before, None);
        match before {
            Some(before) => self.at_mut(before).newer = Some(slot),
            None => self.oldest = Some(slot),
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Conversation { older, newer, .. } = *self.at_mut(slot);
        match older {
            Some(older) => self.at_mut(older).newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.at_mut(newer).older = older,
            None => self.newest = older,
        }
    }
}
