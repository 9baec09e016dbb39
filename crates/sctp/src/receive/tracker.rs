//! Which TSNs have arrived: the cumulative TSN and the ranges above it (RFC 9260 §3.3.4).

use std::collections::VecDeque;

use crate::bounds::TSN_SPAN_MAX;
use crate::wire::Tsn;

/// Maximum number of separate ranges above the cumulative TSN; a chunk that would start another one is dropped. A SACK of one packet cannot report
/// that many.
pub(super) const RANGES_MAX: usize = 1_024;

/// Every TSN up to `cumulative` has arrived, and those in `ranges`.
///
/// Memory: 16 bytes per range, at most [`RANGES_MAX`], none while there is no gap. Time per chunk: constant in order and at
/// the upper end, a binary search and a move within `ranges` elsewhere.
#[derive(Debug)]
pub(super) struct Tracker {
    cumulative: u64,
    /// Ascending; between two of them, and below the first, at least one TSN is missing.
    ranges: VecDeque<Range>,
}

/// Both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u64,
    last: u64,
}

/// The tracker's state of a TSN before it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It arrived before.
    Received,
    /// Too far ahead, or one range too many.
    OutOfReach,
    /// It is new, and may be recorded.
    New(Spot),
}

/// Where a new TSN goes, and which of its neighbours are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// The TSN.
    pub(super) tsn: u64,
    /// Whether it is the one after the cumulative TSN, so that every TSN below it has arrived.
    pub(super) is_next: bool,
    /// Whether the TSN before it has arrived.
    pub(super) before_received: bool,
    /// Whether the TSN after it has arrived.
    pub(super) after_received: bool,
    /// The number of ranges below it.
    index: usize,
}

impl Tracker {
    /// A tracker that waits for `first_tsn`.
    pub(super) fn new(first_tsn: Tsn) -> Self {
        Self { cumulative: (1 << 32) + u64::from(first_tsn.0) - 1, ranges: VecDeque::new() }
    }

    /// The highest TSN up to which all have arrived.
    pub(super) fn cumulative(&self) -> u64 {
        self.cumulative
    }

    /// Whether no TSN above the cumulative one has arrived.
    pub(super) fn is_contiguous(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of gap ack blocks.
    #[inline]
    pub(super) fn gaps(&self) -> usize {
        self.ranges.len()
    }

    /// Looks a TSN up.
    #[inline]
    pub(super) fn place(&self, tsn: u64) -> Place {
        if tsn <= self.cumulative {
            return Place::Received;
        }
        let is_next = tsn == self.cumulative + 1;
        if is_next && self.ranges.is_empty() {
            return Place::New(Spot { tsn, is_next, before_received: true, after_received: false, index: 0 });
        }
        self.place_among_ranges(tsn, is_next)
    }

    fn place_among_ranges(&self, tsn: u64, is_next: bool) -> Place {
        if tsn - self.cumulative > u64::from(TSN_SPAN_MAX) {
            return Place::OutOfReach;
        }
        let index = match self.ranges.back() {
            Some(highest) if tsn < highest.first => self.ranges.partition_point(|range| range.first <= tsn),
            _ => self.ranges.len(),
        };
        let below = index.checked_sub(1).and_then(|index| self.ranges.get(index));
        if below.is_some_and(|range| tsn <= range.last) {
            return Place::Received;
        }
        let before_received = is_next || below.is_some_and(|range| range.last + 1 == tsn);
        let after_received = self.ranges.get(index).is_some_and(|range| range.first == tsn + 1);
        if !before_received && !after_received && self.ranges.len() >= RANGES_MAX {
            return Place::OutOfReach;
        }
        Place::New(Spot { tsn, is_next, before_received, after_received, index })
    }

    /// Records a new TSN. `spot` must be what [`Tracker::place`] has just said.
    #[inline]
    pub(super) fn record(&mut self, spot: Spot) {
        if spot.is_next {
            self.cumulative = spot.tsn;
            if spot.after_received {
                self.advance_over_first_range();
            }
        } else {
            self.record_above_gap(spot);
        }
    }

    /// Everything up to `new_cumulative` counts as received. Returns whether that is news. Costs as much as the ranges that are passed.
    pub(super) fn forward(&mut self, new_cumulative: u64) -> bool {
        if new_cumulative <= self.cumulative {
            return false;
        }
        self.cumulative = new_cumulative;
        while self.ranges.front().is_some_and(|range| range.last <= new_cumulative) {
            self.ranges.pop_front();
        }
        if self.ranges.front().is_none_or(|range| range.first <= new_cumulative + 1) {
            self.advance_over_first_range();
        }
        true
    }

    /// The TSNs from `first` to `last` count as received. Returns whether any of them is new; `None` if they would begin one range too many.
    /// Costs as much as the ranges that they join.
    pub(super) fn pass_over(&mut self, first: u64, last: u64) -> Option<bool> {
        if first <= self.cumulative + 1 {
            return Some(self.forward(last));
        }
        let below = self.ranges.partition_point(|range| range.last + 1 < first);
        let joined = self.ranges.partition_point(|range| range.first <= last + 1).saturating_sub(below);
        let lowest = self.ranges.get(below).copied().filter(|_| joined > 0);
        let Some(lowest) = lowest else {
            let has_room = self.ranges.len() < RANGES_MAX;
            if has_room {
                self.ranges.insert(below, Range { first, last });
            }
            return has_room.then_some(true);
        };
        let highest = self.ranges.get(below + joined - 1).copied().unwrap_or(lowest);
        let range = Range { first: first.min(lowest.first), last: last.max(highest.last) };
        self.ranges.drain(below + 1..below + joined);
        if let Some(place) = self.ranges.get_mut(below) {
            *place = range;
        }
        Some(range != lowest)
    }

    /// Where the TSN after the cumulative one goes while there is no gap.
    #[cfg(test)]
    pub(super) fn next_spot(&self) -> Spot {
        match self.place(self.cumulative + 1) {
            Place::New(spot) => spot,
            other => panic!("{other:?}"),
        }
    }

    fn advance_over_first_range(&mut self) {
        if let Some(range) = self.ranges.pop_front() {
            self.cumulative = range.last;
        }
        if self.ranges.is_empty() {
            self.ranges = VecDeque::new();
        }
    }

    fn record_above_gap(&mut self, spot: Spot) {
        let Spot { tsn, before_received, after_received, index, .. } = spot;
        let last = if after_received { self.ranges.get(index).map_or(tsn, |above| above.last) } else { tsn };
        if before_received {
            if let Some(below) = index.checked_sub(1).and_then(|index| self.ranges.get_mut(index)) {
                below.last = last;
            }
            if after_received {
                self.ranges.remove(index);
            }
        } else if after_received {
            if let Some(above) = self.ranges.get_mut(index) {
                above.first = tsn;
            }
        } else {
            self.ranges.insert(index, Range { first: tsn, last });
        }
    }

    /// The gap ack blocks as offsets from the cumulative TSN, lowest first (RFC 9260 §3.3.4).
    pub(super) fn gap_ack_blocks(&self) -> impl Iterator<Item = (u16, u16)> {
        // TSN_SPAN_MAX keeps every offset in range. Were it not so, ending the list would still tell nothing untrue.
        self.ranges.iter().map_while(|range| {
            let first = u16::try_from(range.first - self.cumulative).ok()?;
            let last = u16::try_from(range.last - self.cumulative).ok()?;
            Some((first, last))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const BASE: u64 = 1 << 32;

    #[test]
    fn without_a_gap_the_tracker_owns_no_memory() {
        let mut tracker = Tracker::new(Tsn(1));
        for tsn in [3, 5, 2, 4, 1] {
            let Place::New(spot) = tracker.place(BASE + tsn) else { panic!("TSN {tsn} is new") };
            tracker.record(spot);
        }
        assert_eq!(tracker.cumulative(), BASE + 5);
        assert_eq!(tracker.ranges.capacity(), 0);
    }

    #[test]
    fn blocks_that_would_begin_a_range_too_many_are_not_recorded_and_others_are() {
        let mut tracker = Tracker::new(Tsn(1));
        for range in 1..=RANGES_MAX as u64 {
            assert_eq!(tracker.pass_over(BASE + 2 * range, BASE + 2 * range), Some(true));
        }
        let (gaps, beyond) = (tracker.gaps(), BASE + 3 * RANGES_MAX as u64);
        assert_eq!((gaps, tracker.pass_over(beyond, beyond)), (RANGES_MAX, None));
        assert_eq!((tracker.pass_over(BASE + 3, BASE + 3), tracker.gaps()), (Some(true), RANGES_MAX - 1));
        assert_eq!((tracker.pass_over(BASE + 1, beyond), tracker.gaps()), (Some(true), 0));
        assert_eq!(tracker.cumulative(), beyond);
    }

    proptest! {
        #[test]
        fn a_tracker_that_is_moved_forward_agrees_with_a_plain_set(
            steps in vec((any::<bool>(), 1..200u64), 1..200),
            jump in prop_oneof![Just(0), Just(1 << 31)],
        ) {
            let mut tracker = Tracker::new(Tsn(1));
            let mut set = BTreeSet::new();
            let mut cumulative = BASE;
            for (is_forward, tsn) in steps {
                if is_forward {
                    prop_assert_eq!(tracker.forward(BASE + tsn), BASE + tsn > cumulative);
                    cumulative = cumulative.max(BASE + tsn);
                } else if let Place::New(spot) = tracker.place(BASE + tsn) {
                    tracker.record(spot);
                    prop_assert!(BASE + tsn > cumulative && set.insert(BASE + tsn));
                }
                while set.contains(&(cumulative + 1)) {
                    cumulative += 1;
                }
                set.retain(|&tsn| tsn > cumulative);
                prop_assert_eq!(tracker.cumulative(), cumulative);
                prop_assert!(tracker.ranges.iter().flat_map(|range| range.first..=range.last).eq(set.iter().copied()));
            }
            prop_assert_eq!(tracker.forward(cumulative + jump + 300), true);
            prop_assert_eq!((tracker.cumulative(), tracker.ranges.capacity()), (cumulative + jump + 300, 0));
        }

        #[test]
        fn a_tracker_that_passes_over_blocks_agrees_with_a_plain_set(
            steps in vec((any::<bool>(), 1..200u64, 0..12u64), 1..200),
        ) {
            let mut tracker = Tracker::new(Tsn(1));
            let mut set = BTreeSet::from([BASE]);
            for (is_block, tsn, more) in steps {
                let (first, last) = (BASE + tsn, BASE + tsn + more);
                if is_block {
                    let is_new = (first..=last).any(|tsn| !set.contains(&tsn));
                    prop_assert_eq!(tracker.pass_over(first, last), Some(is_new));
                    set.extend(first..=last);
                } else if let Place::New(spot) = tracker.place(first) {
                    tracker.record(spot);
                    prop_assert!(set.insert(first));
                }
                let known = (BASE..=tracker.cumulative())
                    .chain(tracker.ranges.iter().flat_map(|range| range.first..=range.last));
                prop_assert!(known.eq(set.iter().copied()));
                let separate = tracker.ranges.iter().map(|range| range.first - 1).all(|tsn| !set.contains(&tsn));
                prop_assert!(separate);
            }
        }

        #[test]
        fn the_tracker_agrees_with_a_plain_set(tsns in vec(1..200u64, 1..400)) {
            let mut tracker = Tracker::new(Tsn(1));
            let mut set = BTreeSet::from([BASE]);
            for tsn in tsns {
                let tsn = BASE + tsn;
                match tracker.place(tsn) {
                    Place::New(spot) => {
                        prop_assert_eq!(spot.before_received, set.contains(&(tsn - 1)));
                        prop_assert_eq!(spot.after_received, set.contains(&(tsn + 1)));
                        prop_assert_eq!(spot.is_next, tsn == tracker.cumulative() + 1);
                        prop_assert!(set.insert(tsn));
                        tracker.record(spot);
                    }
                    Place::Received => prop_assert!(set.contains(&tsn)),
                    Place::OutOfReach => panic!("{tsn} is within reach"),
                }
                let known = (BASE..=tracker.cumulative())
                    .chain(tracker.ranges.iter().flat_map(|range| range.first..=range.last));
                prop_assert!(known.eq(set.iter().copied()));
                let separate = tracker.ranges.iter().map(|range| range.first - 1).all(|tsn| !set.contains(&tsn));
                prop_assert!(separate);
            }
        }
    }
}
