//! The data that was sent and not acknowledged: ranges of sequence numbers, in order.
//!
//! A range is the data of one TCP segment, or one DATA chunk, whose TSN counts as a range of one.

use std::collections::VecDeque;

use festina_units::Instant;

/// Maximum number of ranges; the oldest are forgotten first. Only a capture without acknowledgements reaches it, or a
/// path that holds 80 megabytes.
const RANGES_MAX: usize = 1 << 16;
/// A list with this many does not grow while all streams together have no room.
pub(super) const RANGES_FEW: usize = 8;

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
    /// The sender has abandoned the message.
    pub(super) is_abandoned: bool,
    /// When the application's write that includes this range was first sent.
    pub(super) write: Copy,
    /// The write ends here.
    pub(super) ends_write: bool,
    pub(super) bytes: u32,
    /// The number of segments on the wire.
    pub(super) segments: u64,
}

impl Range {
    /// Returns the segments that are neither acknowledged nor reported as received, nor abandoned.
    fn in_flight(&self) -> u64 {
        if self.is_reported || self.is_abandoned { 0 } else { self.segments }
    }

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
    /// The path that it left by, among those of the sender.
    pub(super) path: u8,
}

/// Returns memory of a list that has become short.
pub(super) fn shrink<T>(list: &mut VecDeque<T>) {
    const SHORT: usize = 64;
    if list.capacity() > SHORT && list.len() < list.capacity() / 4 {
        list.shrink_to(list.len() * 2);
    }
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
    in_flight: u64,
    /// All streams together have room for more.
    pub(super) may_grow: bool,
}

impl Outstanding {
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the number of ranges for which memory is allocated.
    pub(super) fn held(&self) -> usize {
        self.ranges.capacity()
    }

    /// Returns the number of segments that are neither acknowledged nor reported as received, nor abandoned.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    fn has_room(&self) -> bool {
        self.ranges.len() < if self.may_grow { RANGES_MAX } else { RANGES_FEW }
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut Range> {
        self.ranges.back_mut()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Range> {
        self.ranges.iter_mut()
    }

    /// Inserts a range at its place.
    pub(super) fn insert(&mut self, range: Range) {
        if !self.has_room()
            && let Some(forgotten) = self.ranges.pop_front()
        {
            self.in_flight -= forgotten.in_flight();
        }
        self.in_flight += range.in_flight();
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
        let has_room = self.has_room();
        let index = self.ranges.partition_point(|range| range.end <= at);
        let Some(range) = self.ranges.get_mut(index).filter(|range| range.start < at) else { return };
        let mut rest = *range;
        self.in_flight -= range.in_flight();
        let bytes_before = u32::try_from(at - range.start).unwrap_or(u32::MAX).min(range.bytes);
        // A part has its share of the segments, and one at least.
        let segment_bytes = (range.end - range.start).div_ceil(range.segments.max(1));
        (range.end, range.bytes, range.ends_write) = (at, bytes_before, false);
        range.segments = (at - range.start).div_ceil(segment_bytes);
        self.in_flight += range.in_flight();
        (rest.start, rest.bytes) = (at, rest.bytes - bytes_before);
        rest.segments = (rest.end - at).div_ceil(segment_bytes);
        if has_room {
            self.in_flight += rest.in_flight();
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
        self.in_flight -= range.in_flight();
        shrink(&mut self.ranges);
        Some(range)
    }

    /// Marks the range as received; `each` gets the parts that were not before, without the abandoned ones: their receiver
    /// may report them without having them.
    pub(super) fn report(&mut self, start: u64, end: u64, mut each: impl FnMut(&Range)) {
        for index in self.within(start, end) {
            if let Some(range) = self.ranges.get_mut(index).filter(|range| !range.is_reported) {
                self.in_flight -= range.in_flight();
                range.is_reported = true;
                if !range.is_abandoned {
                    each(range);
                }
            }
        }
    }

    /// Marks the ranges as abandoned that were not reported as received, and the rest of their messages.
    pub(super) fn abandon(&mut self, start: u64, end: u64) {
        // Where the rest of an abandoned message begins, and when its first part was sent.
        let mut rest: Option<(u64, Copy)> = None;
        for index in self.within(start, end).start.. {
            let Some(range) = self.ranges.get_mut(index) else { return };
            let is_rest = rest == Some((range.start, range.write));
            if range.start >= end && !is_rest {
                return;
            }
            let is_abandoned = is_rest || !range.is_reported;
            self.in_flight -= range.in_flight();
            range.is_abandoned |= is_abandoned;
            self.in_flight += range.in_flight();
            rest = (is_abandoned && !range.ends_write).then_some((range.end, range.write));
        }
    }
}
