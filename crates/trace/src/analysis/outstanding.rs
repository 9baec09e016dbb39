//! The data that was sent and not acknowledged: ranges of sequence numbers, in order.
//!
//! A range is the data of one TCP segment, or one DATA chunk, whose TSN counts as a range of one.

use std::collections::VecDeque;

use festina_units::Instant;

/// Maximum number of ranges; the oldest are forgotten first. Only a capture without acknowledgements reaches it, or a
/// path that holds 80 megabytes.
const RANGES_MAX: usize = 1 << 16;

/// Data first sent at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// Unwrapped; the end is exclusive.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) first: Copy,
    pub(super) latest: Copy,
    pub(super) copies: u32,
    /// Acknowledgements that reported something sent after the latest copy, while this was missing.
    pub(super) reports: u32,
    pub(super) is_reported: bool,
    /// When the application's write that includes this range was first sent.
    pub(super) write: Copy,
    /// The write ends here.
    pub(super) ends_write: bool,
    pub(super) bytes: u32,
}

impl Range {
    /// Returns the copy that an acknowledgement with this TSecr answers: the latest if it echoes that one, or else the
    /// first.
    pub(super) fn answered_copy(&self, echo: Option<u32>) -> Copy {
        let echoes_latest = echo.is_some_and(|echo| echo.wrapping_sub(self.latest.tsval).cast_signed() >= 0);
        if echoes_latest { self.latest } else { self.first }
    }
}

/// One transmission of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) at: Instant,
    /// The packet's number in its file.
    pub(super) packet: u64,
    /// TSval, or 0.
    pub(super) tsval: u32,
}

/// Makes room for one range in an empty list. In a capture with very many streams, most of them never have more, and by
/// default a list grows by four.
pub(super) fn reserve_first(ranges: &mut VecDeque<Range>) {
    if ranges.capacity() == 0 {
        ranges.reserve_exact(1);
    }
}

/// The ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct Outstanding {
    ranges: VecDeque<Range>,
    reported: usize,
}

impl Outstanding {
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the number of ranges that are neither acknowledged nor reported as received.
    pub(super) fn in_flight(&self) -> usize {
        self.ranges.len().saturating_sub(self.reported)
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut Range> {
        self.ranges.back_mut()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Range> {
        self.ranges.iter_mut()
    }

    /// Inserts a range at its place.
    pub(super) fn insert(&mut self, range: Range) {
        if self.ranges.len() == RANGES_MAX
            && let Some(forgotten) = self.ranges.pop_front()
        {
            self.reported -= usize::from(forgotten.is_reported);
        }
        let at = match self.ranges.back() {
            Some(last) if last.start > range.start => self.ranges.partition_point(|known| known.start < range.start),
            _ => self.ranges.len(),
        };
        reserve_first(&mut self.ranges);
        self.ranges.insert(at, range);
    }

    /// Returns the indexes of the ranges inside these bounds, after splitting those that overlap in part.
    pub(super) fn within(&mut self, start: u64, end: u64) -> std::ops::Range<usize> {
        self.cut(start);
        self.cut(end);
        let from = self.ranges.partition_point(|range| range.end <= start);
        let to = self.ranges.partition_point(|range| range.start < end);
        from..to.max(from)
    }

    /// Returns when the first data after `end` was sent, as far as the next ranges show.
    pub(super) fn earliest_above(&self, end: u64) -> Option<Instant> {
        const LOOKED_AT_MAX: usize = 64;
        let from = self.ranges.partition_point(|range| range.start < end);
        self.ranges.range(from..).take(LOOKED_AT_MAX).map(|range| range.first.at).min()
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Range> {
        self.ranges.get_mut(index)
    }

    fn cut(&mut self, at: u64) {
        let index = self.ranges.partition_point(|range| range.end <= at);
        let Some(range) = self.ranges.get_mut(index).filter(|range| range.start < at) else { return };
        let mut rest = *range;
        let bytes_before = u32::try_from(at - range.start).unwrap_or(u32::MAX).min(range.bytes);
        (range.end, range.bytes, range.ends_write) = (at, bytes_before, false);
        (rest.start, rest.bytes) = (at, rest.bytes - bytes_before);
        self.reported += usize::from(rest.is_reported);
        if self.ranges.len() < RANGES_MAX {
            self.ranges.insert(index + 1, rest);
        }
    }

    /// Takes the first range if it ends below `through`.
    pub(super) fn pop_below(&mut self, through: u64) -> Option<Range> {
        let first = self.ranges.front_mut()?;
        if first.start >= through {
            return None;
        }
        if first.end > through {
            self.cut(through);
        }
        let range = self.ranges.pop_front()?;
        self.reported -= usize::from(range.is_reported);
        Some(range)
    }

    /// Marks the range as received; `each` gets the parts that were not before.
    pub(super) fn report(&mut self, start: u64, end: u64, mut each: impl FnMut(&Range)) {
        for index in self.within(start, end) {
            if let Some(range) = self.ranges.get_mut(index).filter(|range| !range.is_reported) {
                range.is_reported = true;
                self.reported += 1;
                each(range);
            }
        }
    }
}
