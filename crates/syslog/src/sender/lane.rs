//! The lines of one priority on their way to the collector.
//!
//! Some are in memory, the window: sent, or about to be. The others, which are all later ones, are only on disk until there is room.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;

use bytes::Bytes;

use crate::disk::Disk;
use crate::line::Severity;
use crate::ranges::Ranges;
use crate::record::{self, MARK_UNORDERED, Record, SLOTS};
use crate::spool::{Cursor, Spool, Stored};
use crate::wire;

use super::Counters;

/// Bytes of lines of one priority in memory.
const WINDOW_BYTES_MAX: usize = 8 << 20;

/// How long a message of several lines may get: it fits into one packet of the transport.
const MESSAGE_BYTES: usize = 1_150;

/// Failed reads in a row until what cannot be read counts as lost.
const READ_FAILURES_MAX: u32 = 100;

/// A line in the window.
struct Waiting {
    bytes: Bytes,
    slot: u8,
    severity: Severity,
    received_us: u64,
}

/// How far the lines that are only on disk were read.
struct Behind {
    cursor: Cursor,
    seen: Ranges,
    failures: u32,
}

/// A message for the transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The priority of its lines.
    pub priority: u8,
    /// Which of the streams of this priority, below [`STREAMS`].
    pub slot: u8,
    /// Whether it may overtake others of its stream.
    pub unordered: bool,
    /// The number of its last line.
    pub last: u64,
    /// The bytes.
    pub payload: Bytes,
}

/// Streams that each priority uses: one per slot, one for what needs no order, and as many for copies.
pub const STREAMS: u8 = 2 * (SLOTS + 1);

/// What stands between the stream of a slot and that of its copies.
const COPIES: u8 = SLOTS + 1;

/// Lines in the window, at most, for copies to be made: nobody copies a backlog.
const COPY_WINDOW_MAX: usize = 64;

/// Bounds of one priority.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneLimits {
    pub(super) segment_bytes: u64,
    pub(super) window_lines_max: usize,
}

pub(super) struct Lane<D: Disk> {
    priority: u8,
    pub(super) spool: Spool<D>,
    /// The number of the next line.
    next: u64,
    /// Numbers that need no more work: delivered, shed, or never used.
    settled: Ranges,
    window: BTreeMap<u64, Waiting>,
    window_bytes: usize,
    window_lines_max: usize,
    /// Numbers to send, by slot. Some may have been settled meanwhile.
    queues: Vec<VecDeque<u64>>,
    /// By slot: all lines of this association below this number were copied, or were settled when later ones were.
    copied: Vec<u64>,
    /// Slots whose queue is not empty, in the order of their turns.
    ready: VecDeque<u8>,
    behind: Option<Behind>,
}

impl<D: Disk> Lane<D> {
    pub(super) fn open(disk: D, directory: &Path, priority: u8, limits: LaneLimits, next: u64) -> io::Result<Self> {
        let mut found = Ranges::default();
        let mut first = u64::MAX;
        let spool = Spool::open(disk, directory, priority, limits.segment_bytes, |run_first, run_last| {
            first = first.min(run_first);
            found.insert(run_first, run_last);
        })?;
        let mut settled = Ranges::default();
        settled.raise(first.min(next));
        // Numbers between those that were found were delivered, shed, or never used.
        found.raise(settled.floor());
        let mut above = found.floor();
        for (start, end) in found.above() {
            settled.insert(above, start - 1);
            above = end + 1;
        }
        settled.insert(above, next - 1);
        let behind = (first < next).then(|| Behind { cursor: Cursor::default(), seen: settled.clone(), failures: 0 });
        Ok(Self {
            priority,
            spool,
            next,
            settled,
            window: BTreeMap::new(),
            window_bytes: 0,
            window_lines_max: limits.window_lines_max,
            queues: (0..COPIES).map(|_| VecDeque::new()).collect(),
            copied: vec![0; usize::from(COPIES)],
            ready: VecDeque::new(),
            behind,
        })
    }

    /// Lines that are not settled.
    pub(super) fn unsettled(&self) -> u64 {
        self.settled.missing(self.settled.floor(), self.next - 1)
    }

    /// Bytes of lines in memory.
    pub(super) fn window_bytes(&self) -> usize {
        self.window_bytes
    }

    /// Takes a line. Returns whether the spool takes it.
    pub(super) fn take(&mut self, mut record: Record, counters: &mut Counters) -> bool {
        let sequence = self.next;
        self.next += 1;
        record.sequence = sequence;
        let (bytes, end) = (record.encode(), self.spool.end());
        let spooled = self.spool.append(&bytes, sequence, record.received_us).is_ok();
        counters.disk_errors += u64::from(!spooled);
        if self.behind.is_none() && self.has_room(bytes.len()) {
            self.put(sequence, &record, bytes);
        } else if spooled {
            let seen = || {
                let mut seen = Ranges::default();
                seen.raise(sequence);
                seen
            };
            self.behind.get_or_insert_with(|| Behind { cursor: end, seen: seen(), failures: 0 });
        } else {
            // Neither the disk nor the memory takes it.
            self.settled.insert(sequence, sequence);
            counters.shed_unspooled += 1;
        }
        spooled
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.window.len() < self.window_lines_max && self.window_bytes + bytes <= WINDOW_BYTES_MAX
    }

    fn put(&mut self, sequence: u64, record: &Record, bytes: Bytes) {
        let slot = if record.marks & MARK_UNORDERED == 0 { record::slot(&record.source) } else { SLOTS };
        self.window_bytes += bytes.len();
        self.window
            .insert(sequence, Waiting { bytes, slot, severity: record.severity, received_us: record.received_us });
        self.enqueue(sequence, slot);
    }

    fn enqueue(&mut self, sequence: u64, slot: u8) {
        let queue = &mut self.queues[usize::from(slot)];
        if queue.is_empty() {
            self.ready.push_back(slot);
        }
        queue.push_back(sequence);
    }

    /// Everything in the window is to be sent, from the first line on.
    pub(super) fn send_again(&mut self) {
        self.ready.clear();
        self.copied.fill(0);
        self.queues.iter_mut().for_each(VecDeque::clear);
        let waiting: Vec<_> = self.window.iter().map(|(&sequence, waiting)| (sequence, waiting.slot)).collect();
        for (sequence, slot) in waiting {
            self.enqueue(sequence, slot);
        }
    }

    /// The next message, or `None` if all lines are sent, or those that are not cannot be read now.
    pub(super) fn next_message(&mut self, counters: &mut Counters) -> Option<Outgoing> {
        self.refill(counters);
        while let Some(slot) = self.ready.pop_front() {
            let queue = &mut self.queues[usize::from(slot)];
            let mut message = wire::begin_lines(self.priority, self.settled.floor());
            let mut before = None;
            while let Some(&sequence) = queue.front() {
                if let Some(waiting) = self.window.get(&sequence) {
                    let full = message.len() + waiting.bytes.len() > MESSAGE_BYTES;
                    if before.is_some_and(|before| full || before > sequence) {
                        break;
                    }
                    wire::put_record(&mut message, &waiting.bytes);
                    before = Some(sequence);
                }
                queue.pop_front();
            }
            if !queue.is_empty() {
                self.ready.push_back(slot);
            }
            if let Some(last) = before {
                let payload = message.freeze();
                return Some(Outgoing { priority: self.priority, slot, unordered: slot == SLOTS, last, payload });
            }
        }
        None
    }

    /// The lines of a slot up to `last` once more, on a stream of their own; `None` if there are none, or too many.
    ///
    /// The order of a source holds though two streams carry its lines: on the stream of copies each line comes behind all earlier ones of its
    /// slot that the collector had not answered for. So whichever stream brings a line, those before it are there.
    pub(super) fn copy(&mut self, slot: u8, last: u64) -> Option<Outgoing> {
        let from = *self.copied.get(usize::from(slot))?;
        if from > last || self.window.len() > COPY_WINDOW_MAX {
            return None;
        }
        let mut message = wire::begin_lines(self.priority, self.settled.floor());
        let mut lines = self.window.range(from..=last).filter(|(_, waiting)| waiting.slot == slot).peekable();
        lines.peek()?;
        // Up to `last` there may be lines that are only on disk: they were not copied.
        let mut copied = from;
        lines.for_each(|(sequence, waiting)| {
            wire::put_record(&mut message, &waiting.bytes);
            copied = sequence + 1;
        });
        self.copied[usize::from(slot)] = copied;
        let (priority, unordered) = (self.priority, slot == SLOTS);
        Some(Outgoing { priority, slot: slot + COPIES, unordered, last, payload: message.freeze() })
    }

    /// Reads lines that are only on disk as long as there is room for them.
    fn refill(&mut self, counters: &mut Counters) {
        while let Some(mut behind) = self.behind.take() {
            // With room for what one read gives at most.
            if self.window.len() >= self.window_lines_max.div_ceil(2) || self.window_bytes >= WINDOW_BYTES_MAX / 2 {
                self.behind = Some(behind);
                return;
            }
            // What waits to be written cannot be read, and must not count as lost.
            if self.spool.flush().is_err() {
                counters.disk_errors += 1;
                self.behind = Some(behind);
                return;
            }
            match self.spool.read(&mut behind.cursor) {
                Ok(records) if records.is_empty() => self.lose_unseen(&behind.seen, counters),
                Ok(records) => {
                    behind.failures = 0;
                    for Stored { record, bytes } in records {
                        let sequence = record.sequence;
                        if !behind.seen.contains(sequence) {
                            behind.seen.insert(sequence, sequence);
                            if !self.settled.contains(sequence) && !self.window.contains_key(&sequence) {
                                self.put(sequence, &record, bytes);
                            }
                        }
                    }
                    self.behind = Some(behind);
                }
                Err(_) => {
                    counters.disk_errors += 1;
                    behind.failures += 1;
                    if behind.failures > READ_FAILURES_MAX {
                        self.spool.skip_file(&mut behind.cursor);
                        behind.failures = 0;
                    }
                    self.behind = Some(behind);
                    return;
                }
            }
        }
    }

    /// All files were read, and these numbers were not in them: what is not settled otherwise was damaged on disk.
    fn lose_unseen(&mut self, seen: &Ranges, counters: &mut Counters) {
        let mut unseen = Vec::new();
        let mut above = seen.floor();
        for (start, end) in seen.above().chain([(self.next, self.next)]) {
            if above < start {
                unseen.push((above, start - 1));
            }
            above = end + 1;
        }
        for (first, last) in unseen {
            let kept: Vec<u64> = self.window.range(first..=last).map(|(&sequence, _)| sequence).collect();
            let mut from = first;
            for sequence in kept.into_iter().chain([last + 1]) {
                if from < sequence {
                    counters.lost += self.settled.missing(from, sequence - 1);
                    self.settled.insert(from, sequence - 1);
                }
                from = sequence + 1;
            }
        }
    }

    /// The collector has these numbers now, a time in microseconds since 1970. Of those in memory it is counted how long they took.
    pub(super) fn deliver(&mut self, first: u64, last: u64, now_us: u64, counters: &mut Counters) {
        if self.settled.missing(first, last) > 0 {
            for waiting in self.window.range(first..=last).map(|(_, waiting)| waiting) {
                let severity = waiting.severity.index();
                counters.delivered_by_severity[severity] += 1;
                counters.delays[severity].note(now_us.saturating_sub(waiting.received_us));
            }
        }
        counters.delivered += self.settle(first, last);
    }

    /// These numbers need no more work. Returns how many of them did until now.
    pub(super) fn settle(&mut self, first: u64, last: u64) -> u64 {
        let newly = self.settled.missing(first, last);
        if newly == 0 {
            return 0;
        }
        self.settled.insert(first, last);
        let inside: Vec<u64> = self.window.range(first..=last).map(|(&sequence, _)| sequence).collect();
        for sequence in inside {
            if let Some(waiting) = self.window.remove(&sequence) {
                self.window_bytes -= waiting.bytes.len();
            }
        }
        self.spool.remove_below(self.settled.floor());
        newly
    }

    /// Whether a peer may speak of this number.
    pub(super) fn knows(&self, sequence: u64) -> bool {
        sequence < self.next
    }

    /// Gives up the oldest file. Returns how many lines that had not been settled.
    pub(super) fn shed_oldest(&mut self) -> u64 {
        match self.spool.remove_oldest() {
            Some(segment) => self.settle(segment.first, segment.last),
            None => 0,
        }
    }
}
