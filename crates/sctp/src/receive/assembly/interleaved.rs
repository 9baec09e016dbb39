//! Messages in I-DATA chunks (RFC 8260 §2.2), which may be abandoned (§2.3).

use std::collections::BTreeMap;

use super::cost::{table_bytes, table_growth_bytes_max};
use super::order::{Number, Order};
use super::ready::Ready;
use super::run::Run;
use super::{Piece, Place, TOO_LONG};
use crate::stream_table::StreamTable;
use crate::wire::{IData, SkippedMessage, SkippedRun, StreamId};

const UNNUMBERED: &str = "a fragment that does not begin its message has the number 0";
const TWICE: &str = "a fragment of a message came twice";
const BEYOND_END: &str = "a fragment lies beyond the end of its message";

/// Distance of a MID above a skipped one at which the latter is forgotten: no chunk of it is in flight any more.
const FORGET_DISTANCE: u32 = 1 << 30;

/// A message under way. Ordered and unordered messages of a stream have numbers of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MessageKey {
    stream: StreamId,
    unordered: bool,
    mid: u32,
}

/// Fragments by message and FSN, and order by MID.
///
/// Time: a fragment costs a search among the runs of all messages; joining two runs moves the parts of the shorter one. Memory:
/// everything in here counts towards the receive window, as allocated, except the first 16 KiB of each table of streams;
/// [`Ready`] holds the count.
#[derive(Debug, Default)]
pub(in crate::receive) struct Interleaved {
    /// By message and first FSN. Those of one message lie apart.
    runs: BTreeMap<(MessageKey, u32), Box<Run>>,
    order: Order<u32>,
    /// One more than the MID below which all unordered messages of a stream were skipped, or 0 for none.
    unordered_floors: StreamTable<u64>,
}

impl Interleaved {
    #[inline(never)]
    pub(super) fn take(&mut self, piece: &IData<'_>, place: &Place<'_>, ready: &mut Ready) -> Result<(), &'static str> {
        let key = MessageKey { stream: piece.stream(), unordered: piece.unordered(), mid: piece.number() };
        if key.unordered && self.is_skipped_unordered(key) {
            return Ok(());
        }
        if piece.beginning() && piece.end() {
            place.check_length(piece.payload().len())?;
            if !self.runs.is_empty() && self.runs.range(key.all()).next().is_some() {
                return Err(TWICE);
            }
            return self.order.take(piece, place, ready);
        }
        if !key.unordered && !self.order.is_awaited(key.stream, key.mid, place.has_skipped())? {
            return Ok(());
        }
        if let Some(run) = self.take_fragment(key, piece, place, ready)? {
            let number = run.number;
            self.order.take_assembled(run.assemble(), number, place.has_skipped(), ready)?;
        }
        Ok(())
    }

    /// Takes a fragment. Returns the message that it completes.
    fn take_fragment(
        &mut self,
        key: MessageKey,
        piece: &IData<'_>,
        place: &Place<'_>,
        ready: &mut Ready,
    ) -> Result<Option<Run>, &'static str> {
        let fsn = piece.fsn();
        if fsn == 0 && !piece.beginning() {
            return Err(UNNUMBERED);
        }
        // No fragment is empty.
        if fsn >= place.message_bytes_max {
            return Err(TOO_LONG);
        }
        let below = self.runs.range((key, 0)..(key, fsn)).next_back();
        let below = below.map(|(&(_, first), run)| (first, run.next(), run.ends));
        let above = self.runs.range((key, fsn)..=(key, u32::MAX)).next().map(|(&(_, first), _)| first);
        match (below, above) {
            (Some((_, next, _)), _) if next > u64::from(fsn) => return Err(TWICE),
            (_, Some(first)) if first == fsn => return Err(TWICE),
            (Some((_, _, true)), _) => return Err(BEYOND_END),
            (_, Some(_)) if piece.end() => return Err(BEYOND_END),
            _ => {}
        }
        let below =
            below.filter(|&(_, next, _)| next == u64::from(fsn)).and_then(|(first, ..)| self.remove(key, first, ready));
        let mut run = below.unwrap_or_else(|| Box::new(Run::new(fsn.into(), piece)));
        run.push(piece, place);
        if above == Some(fsn + 1)
            && let Some(above) = self.remove(key, fsn + 1, ready)
        {
            run.join(*above, place)?;
        }
        place.check_length(run.payload_bytes())?;
        if run.is_whole() {
            return Ok(Some(*run));
        }
        ready.hold_more(run.cost_bytes());
        let first = u32::try_from(run.first).unwrap_or(fsn);
        self.runs.insert((key, first), run);
        Ok(None)
    }

    fn remove(&mut self, key: MessageKey, first: u32, ready: &mut Ready) -> Option<Box<Run>> {
        let run = self.runs.remove(&(key, first))?;
        ready.hold_less(run.cost_bytes());
        Some(run)
    }

    /// Whether the message of this number is the next of its stream.
    pub(super) fn is_next(&self, stream: StreamId, number: u32) -> bool {
        self.order.is_next(stream, number)
    }

    pub(super) fn forward_growth_bytes_max(&self, streams: (usize, u16)) -> usize {
        self.order.growth_bytes_max(streams) + table_growth_bytes_max(&self.unordered_floors, streams)
    }

    /// Passes over the messages listed. Costs as much as is dropped or becomes due.
    pub(super) fn forward(&mut self, streams: impl Iterator<Item = SkippedMessage>, ready: &mut Ready) {
        for SkippedMessage { stream, unordered, mid } in streams {
            let last = MessageKey { stream, unordered, mid: mid.0 };
            self.drop_runs_up_to(last, ready);
            if unordered {
                self.raise_floor(last, ready);
            } else {
                self.order.forward(stream, mid.0, ready);
            }
        }
    }

    /// Passes over the messages of a run, and no earlier ones. Costs as much as is dropped or becomes due. All that was outstanding of them
    /// counts as received by now, so no fragment will come.
    pub(super) fn skip(&mut self, run: &SkippedRun, ready: &mut Ready) {
        let at = |mid| MessageKey { stream: run.stream, unordered: run.unordered, mid };
        let last = run.first.wrapping_add(run.more.into());
        if run.first <= last {
            self.drop_runs_between(at(run.first), at(last), ready);
        } else {
            self.drop_runs_between(at(run.first), at(u32::MAX), ready);
            self.drop_runs_between(at(0), at(last), ready);
        }
        if !run.unordered {
            self.order.skip(run, ready);
        }
    }

    /// Resets the stream. All earlier data has arrived, so incomplete messages will never be complete.
    pub(super) fn reset_stream(&mut self, stream: StreamId, ready: &mut Ready) {
        for unordered in [false, true] {
            let at = |mid| MessageKey { stream, unordered, mid };
            self.drop_runs_between(at(0), at(u32::MAX), ready);
        }
        if self.unordered_floors.get(stream) != 0 {
            *self.unordered_floors.get_mut(stream) = 0;
        }
        self.order.reset(stream, ready);
    }

    /// As [`reset_stream`](Self::reset_stream), all streams.
    pub(super) fn reset_all_streams(&mut self, ready: &mut Ready) {
        let at = |stream, unordered, mid| MessageKey { stream: StreamId(stream), unordered, mid };
        self.drop_runs_between(at(0, false, 0), at(u16::MAX, true, u32::MAX), ready);
        ready.hold_less(self.floor_bytes());
        self.unordered_floors.clear();
        self.order.reset_all(ready);
    }

    /// Drops the held fragments of messages of the same stream and kind up to this one, by serial arithmetic.
    fn drop_runs_up_to(&mut self, last: MessageKey, ready: &mut Ready) {
        let lowest = last.mid.wrapping_sub(u32::SPAN - 1);
        let at = |mid| MessageKey { mid, ..last };
        if lowest <= last.mid {
            self.drop_runs_between(at(lowest), last, ready);
        } else {
            self.drop_runs_between(at(lowest), at(u32::MAX), ready);
            self.drop_runs_between(at(0), last, ready);
        }
    }

    fn drop_runs_between(&mut self, lowest: MessageKey, highest: MessageKey, ready: &mut Ready) {
        while let Some((&(key, first), _)) = self.runs.range((lowest, 0)..=(highest, u32::MAX)).next() {
            self.remove(key, first, ready);
        }
    }

    /// Remembers which unordered messages were skipped: a fragment of one may still come.
    fn raise_floor(&mut self, last: MessageKey, ready: &mut Ready) {
        if self.floor(last.stream).is_some_and(|floor| last.mid.above(floor) >= u32::SPAN) {
            return;
        }
        let before_bytes = self.floor_bytes();
        *self.unordered_floors.get_mut(last.stream) = u64::from(last.mid.wrapping_add(1)) + 1;
        ready.hold_more(self.floor_bytes());
        ready.hold_less(before_bytes);
    }

    /// The MID below which all unordered messages of a stream were skipped, if any were.
    fn floor(&self, stream: StreamId) -> Option<u32> {
        self.unordered_floors.get(stream).checked_sub(1).and_then(|floor| u32::try_from(floor).ok())
    }

    fn floor_bytes(&self) -> usize {
        table_bytes(&self.unordered_floors)
    }

    /// Whether an unordered message was skipped.
    fn is_skipped_unordered(&mut self, key: MessageKey) -> bool {
        let Some(floor) = self.floor(key.stream) else { return false };
        let ahead = key.mid.above(floor);
        if (FORGET_DISTANCE..u32::SPAN).contains(&ahead) {
            *self.unordered_floors.get_mut(key.stream) = 0;
        }
        ahead >= u32::SPAN
    }
}

impl MessageKey {
    /// The keys of all its runs.
    fn all(self) -> core::ops::RangeInclusive<(Self, u32)> {
        (self, 0)..=(self, u32::MAX)
    }
}
