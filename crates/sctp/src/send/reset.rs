//! Streams that begin anew (RFC 6525 §5.1.2): they take no messages from the wish on, and their numbers begin at 0 when the peer agrees.

use std::collections::{BTreeMap, BTreeSet};

use super::{OutboundStreams, Rare, Sender};
use crate::wire::{Framing, StreamId};

/// Streams that take no messages now.
#[derive(Debug, Default)]
pub(super) struct Resetting {
    all: bool,
    /// How many messages of each wait for TSNs, as a whole or in part.
    waiting: BTreeMap<StreamId, u32>,
}

impl Resetting {
    fn holds(&self, stream: StreamId) -> bool {
        self.all || self.waiting.contains_key(&stream)
    }
}

impl OutboundStreams {
    /// A message waits for TSNs no more.
    #[cold]
    pub(super) fn left(&mut self, stream: StreamId) {
        let waiting = self.rare.as_mut().and_then(|rare| rare.resetting.waiting.get_mut(&stream));
        if let Some(waiting) = waiting {
            *waiting = waiting.saturating_sub(1);
        }
    }

    /// Numbers begin at 0 again; no streams stand for all.
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

    /// The association is over or begins anew.
    pub(super) fn forget_resets(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.resetting = Resetting::default();
        }
    }
}

impl Sender {
    /// Streams are to be reset; none stand for all. Returns those that were not already, and whether that is all.
    pub(crate) fn begin_reset(&mut self, streams: &[StreamId]) -> (Vec<StreamId>, bool) {
        let Self { streams: outbound, buffer, .. } = self;
        let resetting = &mut outbound.rare.get_or_insert_default().resetting;
        let is_all = streams.is_empty() && !resetting.all;
        let mut fresh = BTreeMap::new();
        fresh.extend(streams.iter().filter(|&&stream| !resetting.holds(stream)).map(|&stream| (stream, 0)));
        if !fresh.is_empty() {
            buffer.count_waiting(&mut fresh);
        }
        resetting.waiting.extend(&fresh);
        resetting.all |= is_all;
        let fresh = fresh.into_keys().collect();
        (fresh, is_all)
    }

    /// Returns whether a stream takes no messages now.
    #[cold]
    pub(super) fn is_resetting(&self, stream: StreamId) -> bool {
        self.streams.rare.as_ref().is_some_and(|rare| rare.resetting.holds(stream))
    }

    /// At most `max` of these streams of which nothing waits for a TSN, and the last TSN that was given. An empty list stands for all.
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

    /// The peer takes this many streams now.
    pub(crate) fn set_streams(&mut self, count: u16) {
        self.streams.count = count;
    }
}
