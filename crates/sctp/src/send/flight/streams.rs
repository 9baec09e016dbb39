//! The outgoing streams: the numbers of their messages, and those being reset (RFC 6525 §5.1.2). These take no messages from the request on, and
//! their numbers restart at 0 when the peer agrees.

use std::collections::{BTreeMap, BTreeSet};

use super::Flight;
use crate::stream_table::StreamTable;
use crate::wire::{Framing, StreamId};

/// The next number of each stream that was used.
#[derive(Debug)]
pub(in crate::send) struct OutboundStreams {
    count: u16,
    /// The handshake allowed fewer streams than were offered, and messages were queued before: some may be for streams that do not exist.
    may_refuse: bool,
    /// SSNs (RFC 9260 §6.5).
    next_ssn: StreamTable<u16>,
    /// Apart, since most associations have none.
    rare: Option<Box<Rare>>,
}

/// What few associations need to know of their streams.
#[derive(Debug, Default)]
struct Rare {
    /// MIDs instead of SSNs, with I-DATA. Ordered and unordered messages count apart (RFC 8260 §2.1).
    ordered: StreamTable<u32>,
    unordered: StreamTable<u32>,
    resetting: Resetting,
}

/// Streams that take no messages now.
#[derive(Debug, Default)]
struct Resetting {
    all: bool,
    /// Number of messages of each that wait for TSNs, as a whole or in part.
    waiting: BTreeMap<StreamId, u32>,
}

impl Resetting {
    #[cold]
    fn holds(&self, stream: StreamId) -> bool {
        self.all || self.waiting.contains_key(&stream)
    }

    #[cold]
    fn left(&mut self, stream: StreamId) {
        if let Some(waiting) = self.waiting.get_mut(&stream) {
            *waiting = waiting.saturating_sub(1);
        }
    }
}

impl OutboundStreams {
    pub(in crate::send) fn new(count: u16) -> Self {
        Self { count, may_refuse: false, next_ssn: StreamTable::new(), rare: None }
    }

    /// Number of streams that the peer accepts.
    pub(in crate::send) fn count(&self) -> u16 {
        self.count
    }

    /// The handshake has set the number of streams; `has_messages`: some were queued before.
    pub(in crate::send) fn establish(&mut self, count: u16, has_messages: bool) {
        self.may_refuse |= has_messages && count < self.count;
        self.count = count;
    }

    /// Returns whether messages may be queued for streams that do not exist.
    #[inline]
    pub(in crate::send) fn may_refuse(&self) -> bool {
        self.may_refuse
    }

    #[cfg(test)]
    pub(in crate::send) fn next_ssn_mut(&mut self, stream: StreamId) -> &mut u16 {
        self.next_ssn.get_mut(stream)
    }

    /// Restarts the numbering of every stream.
    pub(in crate::send) fn clear(&mut self) {
        self.next_ssn.clear();
        self.rare = None;
    }

    /// Returns the number of a message that is about to be sent.
    #[inline]
    pub(in crate::send) fn number(&mut self, framing: Framing, stream: StreamId, unordered: bool) -> u32 {
        match framing {
            Framing::Data if unordered => 0,
            Framing::Data => {
                let next = self.next_ssn.get_mut(stream);
                let number = *next;
                *next = next.wrapping_add(1);
                number.into()
            }
            Framing::IData => self.mid(stream, unordered),
        }
    }

    #[cold]
    fn mid(&mut self, stream: StreamId, unordered: bool) -> u32 {
        let Rare { ordered, unordered: others, .. } = &mut **self.rare.get_or_insert_default();
        let next = if unordered { others.get_mut(stream) } else { ordered.get_mut(stream) };
        let number = *next;
        *next = next.wrapping_add(1);
        number
    }

    /// A message waits for TSNs no more.
    #[inline]
    pub(in crate::send) fn left(&mut self, stream: StreamId) {
        if let Some(rare) = &mut self.rare {
            rare.resetting.left(stream);
        }
    }

    /// Restarts the numbers of streams at 0; an empty slice means all.
    fn reset(&mut self, streams: &[StreamId]) {
        if streams.is_empty() {
            self.next_ssn.clear();
        }
        for &stream in streams {
            if self.next_ssn.get(stream) != 0 {
                *self.next_ssn.get_mut(stream) = 0;
            }
        }
        let Some(rare) = &mut self.rare else { return };
        if streams.is_empty() {
            rare.ordered.clear();
            rare.unordered.clear();
        }
        for &stream in streams {
            for mids in [&mut rare.ordered, &mut rare.unordered] {
                if mids.get(stream) != 0 {
                    *mids.get_mut(stream) = 0;
                }
            }
        }
    }

    /// Drops all resets, since the association has ended or restarted.
    pub(in crate::send) fn forget_resets(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.resetting = Resetting::default();
        }
    }

    /// Returns whether a stream takes no messages now.
    #[inline]
    pub(in crate::send) fn is_resetting(&self, stream: StreamId) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.resetting.holds(stream))
    }
}

/// The streams, as the association sees them.
impl Flight {
    /// The peer takes this many streams now.
    pub(crate) fn set_stream_count(&mut self, count: u16) {
        self.streams.count = count;
    }

    /// Sets a stream's value for the scheduler.
    pub(crate) fn set_stream_value(&mut self, stream: StreamId, value: u16) {
        self.buffer.set_stream_value(stream, value);
    }

    /// Streams are to be reset; none stand for all. Returns those that were not already, and whether that is all.
    pub(crate) fn begin_reset(&mut self, streams: &[StreamId]) -> (Vec<StreamId>, bool) {
        let resetting = &mut self.streams.rare.get_or_insert_default().resetting;
        let is_all = streams.is_empty() && !resetting.all;
        let mut fresh = BTreeMap::new();
        fresh.extend(streams.iter().filter(|&&stream| !resetting.holds(stream)).map(|&stream| (stream, 0)));
        if !fresh.is_empty() {
            self.buffer.count_waiting(&mut fresh);
        }
        resetting.waiting.extend(&fresh);
        resetting.all |= is_all;
        let fresh = fresh.into_keys().collect();
        (fresh, is_all)
    }

    /// Returns at most `max` of these streams that have no message waiting for a TSN, and the last TSN assigned. An empty list stands for all.
    pub(crate) fn drained_resets(
        &self,
        all: bool,
        streams: &BTreeSet<StreamId>,
        max: usize,
    ) -> Option<(Box<[StreamId]>, u64)> {
        let Resetting { waiting, .. } = &self.streams.rare.as_ref()?.resetting;
        let is_drained = |stream: &&StreamId| waiting.get(stream).is_none_or(|&waiting| waiting == 0);
        let drained: Box<[_]> =
            if all { Box::default() } else { streams.iter().filter(is_drained).take(max).copied().collect() };
        let is_ready = if all { self.buffer.is_empty() } else { !drained.is_empty() };
        is_ready.then(|| (drained, self.ledger.next_tsn() - 1))
    }

    /// Returns whether the peer has everything up to this TSN, and no FORWARD-TSN can be under way that names older messages.
    pub(crate) fn is_acknowledged(&self, last_tsn: u64) -> bool {
        self.ledger.first_tsn() > last_tsn.max(self.forwarded())
    }

    /// The peer has answered: the streams take messages again, with numbers from 0 on if it agreed (`performed`).
    pub(crate) fn end_reset(&mut self, streams: &[StreamId], performed: bool) {
        if performed {
            self.streams.reset(streams);
        }
        let Some(Rare { resetting, .. }) = self.streams.rare.as_deref_mut() else { return };
        for stream in streams {
            resetting.waiting.remove(stream);
        }
        resetting.all &= !streams.is_empty();
        if self.framing == Framing::Data && !resetting.all && resetting.waiting.is_empty() {
            self.streams.rare = None;
        }
    }
}
