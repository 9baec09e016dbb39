//! The lines that a collector has, by relay, and limits of what relays may have it remember.

use std::collections::BTreeMap;

use super::RelayError;
use super::origins::Origin;
use crate::policy::PRIORITIES;
use crate::ranges::Ranges;
use crate::wire::{RANGES_MAX, SenderId, Start};

/// Relays that a collector remembers.
pub(super) const SENDERS_MAX: usize = 65_536;

/// Ranges of all relays together. Beyond it each may still have [`SHARE`].
const ALL_RANGES_MAX: usize = 1 << 20;

/// Ranges of all relays of one origin together. Beyond it each may still have [`SHARE`].
const ORIGIN_RANGES_MAX: usize = ALL_RANGES_MAX / 8;

/// Ranges that a relay may have, however many others have.
const SHARE: usize = 16;

/// Ranges of all relays, at most.
pub(super) const RANGES_IN_ALL_MAX: usize = ALL_RANGES_MAX + SENDERS_MAX * SHARE;

/// Numbers of lines by sender and priority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Senders {
    known: BTreeMap<SenderId, Known>,
    /// Ranges of all of them.
    ranges: usize,
    /// Ranges of those that have connected since the start, by the origin of their latest hello.
    of_origins: BTreeMap<Origin, usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    lanes: Vec<Ranges>,
    /// The latest start. Numbers of a relay that does not know it may be those of other lines.
    start: Option<Start>,
    /// The latest start is in a commit.
    is_saved: bool,
    origin: Option<Origin>,
}

fn nothing() -> Vec<Ranges> {
    vec![Ranges::default(); usize::from(PRIORITIES)]
}

impl Known {
    fn ranges(&self) -> usize {
        self.lanes.iter().map(Ranges::len).sum()
    }
}

impl Senders {
    fn entry(&mut self, sender: SenderId) -> &mut Known {
        self.known.entry(sender).or_insert_with(|| Known {
            lanes: nothing(),
            start: None,
            is_saved: true,
            origin: None,
        })
    }

    /// Checks a hello and records its start.
    ///
    /// # Errors
    /// If the hello does not name the start that is known, or if there are too many relays.
    pub(super) fn greet(
        &mut self,
        (sender, origin): (SenderId, Origin),
        start: Start,
        before: &[Start],
    ) -> Result<(), Strange> {
        let known = self.known.get(&sender);
        if known.is_none() && self.known.len() >= SENDERS_MAX {
            return Err(Strange::TooMany);
        }
        let latest = known.and_then(|known| known.start);
        match latest {
            Some(latest) if latest == start => {
                self.set_origin(sender, origin);
                return Ok(());
            }
            Some(latest) if latest.epoch >= start.epoch || !before.contains(&latest) => {
                return Err(Strange::Unknown(latest.epoch));
            }
            _ => {}
        }
        let known = self.entry(sender);
        (known.start, known.is_saved) = (Some(start), false);
        self.set_origin(sender, origin);
        Ok(())
    }

    fn set_origin(&mut self, sender: SenderId, origin: Origin) {
        let known = self.entry(sender);
        let (ranges, before) = (known.ranges(), known.origin.replace(origin));
        before.into_iter().for_each(|before| self.count_ranges(before, ranges, 0));
        self.count_ranges(origin, 0, ranges);
    }

    /// The relays of an origin have other ranges than before.
    fn count_ranges(&mut self, origin: Origin, before: usize, after: usize) {
        let of_origin = self.of_origins.entry(origin).or_default();
        *of_origin = *of_origin + after - before;
        if *of_origin == 0 {
            self.of_origins.remove(&origin);
        }
    }

    /// Whether nothing of a relay is in any commit yet.
    pub(super) fn is_new(&self, sender: SenderId) -> bool {
        let is_empty = |known: &Known| known.lanes.iter().all(|lane| lane.floor() == 0 && lane.is_empty());
        self.known.get(&sender).is_none_or(|known| !known.is_saved && is_empty(known))
    }

    /// The start of a relay that is to be committed with its first lines.
    pub(super) fn take_unsaved(&mut self, sender: SenderId) -> Option<Start> {
        let known = self.known.get_mut(&sender)?;
        if std::mem::replace(&mut known.is_saved, true) { None } else { known.start }
    }

    /// Remembers a start that was committed.
    pub(super) fn set_start(&mut self, sender: SenderId, start: Start) {
        let known = self.entry(sender);
        (known.start, known.is_saved) = (Some(start), true);
    }

    /// Forgets a relay that has gone without lines.
    pub(super) fn forget_empty(&mut self, sender: SenderId) {
        if self.is_new(sender) {
            self.known.remove(&sender);
        }
    }

    /// Whether a relay may add this many ranges.
    ///
    /// # Errors
    /// If not.
    pub(super) fn check_room(&self, sender: SenderId, ranges: usize) -> Result<(), RelayError> {
        let held = self.known.get(&sender).map_or(0, Known::ranges);
        let origin = self.known.get(&sender).and_then(|known| known.origin);
        let of_origin = origin.and_then(|origin| self.of_origins.get(&origin)).copied().unwrap_or_default();
        let free = ALL_RANGES_MAX.saturating_sub(self.ranges).min(ORIGIN_RANGES_MAX.saturating_sub(of_origin));
        let most = RANGES_MAX.min((held + free).max(SHARE));
        if held + ranges > most { Err(RelayError::TooManyRanges) } else { Ok(()) }
    }

    /// Changes the numbers of a relay.
    pub(super) fn edit<T>(&mut self, sender: SenderId, edit: impl FnOnce(&mut [Ranges]) -> T) -> T {
        let known = self.entry(sender);
        let before = known.ranges();
        let result = edit(&mut known.lanes);
        let (after, origin) = (known.ranges(), known.origin);
        self.ranges = self.ranges + after - before;
        origin.into_iter().for_each(|origin| self.count_ranges(origin, before, after));
        result
    }

    /// The numbers of a relay.
    pub(super) fn lanes(&self, sender: SenderId) -> Vec<Ranges> {
        self.known.get(&sender).map_or_else(nothing, |known| known.lanes.clone())
    }

    /// All numbers, by sender and priority.
    pub(super) fn all(&self) -> impl Iterator<Item = (SenderId, u8, &Ranges)> {
        self.known.iter().flat_map(|(&sender, known)| {
            (0_u8..).zip(&known.lanes).map(move |(priority, ranges)| (sender, priority, ranges))
        })
    }

    /// The latest start of each relay.
    pub(super) fn starts(&self) -> impl Iterator<Item = (SenderId, Start)> {
        self.known.iter().filter_map(|(&sender, known)| Some((sender, known.start?)))
    }
}

/// Why a hello is not welcomed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strange {
    /// The relay does not know the start of this epoch.
    Unknown(u32),
    /// There are too many relays.
    TooMany,
}
