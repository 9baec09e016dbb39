//! The lines of one priority on their way to the collector.
//!
//! Some are in memory, the window: sent, or about to be. The others are only on disk until there is room: later ones, and those from before the
//! start that a collector may have which has not welcomed the relay since.
//!
//! A line belongs to the collector to which it was sent first, and is sent to no other, unless it [is to be repeated](Lane::repeat).

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;

use bytes::Bytes;

use super::Counters;
use crate::disk::Disk;
use crate::line::Severity;
use crate::ranges::Ranges;
use crate::record::{self, MARK_UNORDERED, Record, SLOTS};
use crate::spool::{Cursor, Spool, Stored, SyncJob};
use crate::wire;

/// Bytes of lines of one priority in memory.
const WINDOW_BYTES_MAX: usize = 8 << 20;

/// Maximum bytes of a message of several lines: it fits into one packet of the transport.
const MESSAGE_BYTES: usize = 1_150;

/// Collectors are sent the settled numbers each time this fraction of a window has been used.
const TELL_ONE_IN: u64 = 4;

/// Failed reads in a row until what cannot be read counts as lost.
const READ_FAILURES_MAX: u32 = 100;

/// A line in the window.
struct Waiting {
    bytes: Bytes,
    queue: u8,
    severity: Severity,
    taken_us: u64,
    /// The collector to which it was sent, and that may have it: no other may get it.
    owner: Option<usize>,
}

/// Read position among the lines that are only on disk.
struct Behind {
    cursor: Cursor,
    seen: Ranges,
    failures: u32,
}

/// A message for the transport.
#[derive(Clone, PartialEq, Eq)]
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

/// Streams of each priority: one per slot and one for unordered lines, and the same number for copies.
pub const STREAMS: u8 = 2 * (SLOTS + 1);

/// What stands between the stream of a slot and that of its copies.
const COPIES: u8 = SLOTS + 1;

/// Maximum number of lines in the window for copies to be sent, so that a backlog is never copied.
const COPY_WINDOW_MAX: usize = 64;

/// Returns the stream of a queue's lines, apart from copies. Each group of sources has a queue. Unordered lines have one more per group if sources
/// are spread over collectors; otherwise all of these share the first.
fn slot_of(queue: u8) -> u8 {
    queue.min(SLOTS)
}

/// Numbers to send, by queue. Some may have been settled meanwhile, or sent otherwise.
#[derive(Default)]
struct Queues {
    numbers: BTreeMap<u8, VecDeque<u64>>,
    /// Queues that are not empty, in the order of their turns.
    ready: VecDeque<u8>,
}

impl Queues {
    fn push(&mut self, sequence: u64, queue: u8) {
        let numbers = self.numbers.entry(queue).or_default();
        if numbers.is_empty() {
            self.ready.push_back(queue);
        }
        numbers.push_back(sequence);
    }

    fn clear(&mut self) {
        self.numbers.clear();
        self.ready.clear();
    }
}

/// What concerns one of the collectors.
#[derive(Default)]
struct Towards {
    /// It is away, and its lines take no room from those of others.
    away: bool,
    /// Lines that it may have and is to get again.
    again: Queues,
    /// By slot: all its lines of this association below this number were copied, or were settled when later ones were.
    copied: Vec<u64>,
    /// Those in the window that it may have.
    load: Load,
    /// Lines found at the start that only this collector can have.
    held: Ranges,
}

/// Lines in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    lines: usize,
    bytes: usize,
}

/// State of the lines from before the start.
pub(super) struct Past {
    /// They need no more work.
    pub(super) settled: Ranges,
    /// For each collector, the lines that no other collector can have.
    pub(super) held: Vec<Ranges>,
    /// Collectors that may have any of the others, one bit each.
    pub(super) doubt: u8,
}

/// Bounds of one priority.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneLimits {
    pub(super) segment_bytes: u64,
    pub(super) window_lines_max: usize,
    /// Whether sources are spread over collectors.
    pub(super) spread: bool,
}

pub(super) struct Lane<D: Disk> {
    priority: u8,
    pub(super) spool: Spool<D>,
    limits: LaneLimits,
    /// The number of the next line, and the first of those since the start.
    next: u64,
    first: u64,
    /// Numbers that need no more work: delivered, shed, or never used.
    settled: Ranges,
    window: BTreeMap<u64, Waiting>,
    load: Load,
    /// Offset of line dates from the sender's clock.
    pub(super) date_ahead_us: u64,
    /// Lines that were not sent to any collector.
    free: Queues,
    towards: Vec<Towards>,
    behind: Option<Behind>,
    /// Collectors that may have any line that was found and that none is known to hold, one bit each.
    doubt: u8,
    /// Some that were found were passed over when they were read: they wait for a collector.
    passed_over: bool,
    /// They are read again.
    again: Option<Behind>,
}

impl<D: Disk> Lane<D> {
    pub(super) fn open(
        disk: D,
        directory: &Path,
        priority: u8,
        limits: LaneLimits,
        next: u64,
        past: Past,
    ) -> io::Result<Self> {
        let mut found = Ranges::default();
        let mut first = u64::MAX;
        let spool = Spool::open(disk, directory, priority, limits.segment_bytes, |run_first, run_last| {
            first = first.min(run_first);
            found.insert(run_first, run_last);
        })?;
        let last = found.above().map(|(_, last)| last).max();
        if last.unwrap_or_default().max(found.floor().saturating_sub(1)) >= next {
            let problem = "the file identity is older than the lines: put the right one back, or move the folder away to begin with an empty spool";
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
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
        settled.raise(past.settled.floor().min(next));
        past.settled.above().for_each(|(start, end)| settled.insert(start, end.min(next - 1)));
        let away = past.held.len() > 1;
        let towards = past.held.into_iter().map(|held| Towards {
            away,
            copied: vec![0; usize::from(COPIES)],
            held,
            ..Towards::default()
        });
        let mut lane = Self {
            priority,
            spool,
            limits,
            next,
            first: next,
            settled,
            window: BTreeMap::new(),
            load: Load::default(),
            date_ahead_us: 0,
            free: Queues::default(),
            towards: towards.collect(),
            behind: None,
            doubt: past.doubt,
            passed_over: false,
            again: None,
        };
        lane.spool.remove_below(lane.settled.floor());
        lane.behind = (lane.unsettled() > 0).then(|| lane.whole_spool());
        Ok(lane)
    }

    /// Marks all files as unread, except for settled lines.
    fn whole_spool(&self) -> Behind {
        Behind { cursor: Cursor::default(), seen: self.settled.clone(), failures: 0 }
    }

    /// Lines that are not settled.
    pub(super) fn unsettled(&self) -> u64 {
        self.settled.missing(self.settled.floor(), self.next - 1)
    }

    /// Lines in memory that a collector may have.
    pub(super) fn sent_to(&self, collector: usize) -> usize {
        self.towards[collector].load.lines
    }

    /// The number of the next line.
    pub(super) fn next_number(&self) -> u64 {
        self.next
    }

    /// Lines that are in memory alone because the disk fails.
    pub(super) fn in_memory(&self) -> u64 {
        self.spool.doubtful_from().map_or(0, |from| self.settled.missing(from, self.next - 1))
    }

    /// Has all lines survive a crash that need it.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.spool.forget_settled(&self.settled);
        self.spool.sync()
    }

    /// Starts a [`sync`](Self::sync).
    pub(super) fn begin_sync(&mut self) -> io::Result<Option<SyncJob<D>>> {
        self.spool.forget_settled(&self.settled);
        self.spool.begin_sync()
    }

    /// Takes a line, at a time and at one of the sender's own clock. Returns whether the spool takes it.
    pub(super) fn take(&mut self, mut record: Record, times: (u64, u64), counters: &mut Counters) -> bool {
        let (taken_us, own_us) = times;
        let sequence = self.next;
        self.next += 1;
        record.sequence = sequence;
        let (bytes, end) = (record.encode(), self.spool.end());
        let spooled = self.spool.append(&bytes, sequence, own_us).is_ok();
        counters.disk_errors += u64::from(!spooled);
        if self.behind.is_none() && self.has_room(bytes.len()) {
            self.put(sequence, &record, bytes, None, taken_us);
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

    /// Lines in memory but for those that wait for a collector that is away.
    fn present(&self) -> Load {
        let away = self.towards.iter().filter(|towards| towards.away);
        away.fold(self.load, |load, towards| Load {
            lines: load.lines - towards.load.lines,
            bytes: load.bytes - towards.load.bytes,
        })
    }

    fn has_room(&self, bytes: usize) -> bool {
        let present = self.present();
        present.lines < self.limits.window_lines_max && present.bytes + bytes <= WINDOW_BYTES_MAX
    }

    fn put(&mut self, sequence: u64, record: &Record, bytes: Bytes, owner: Option<usize>, taken_us: u64) {
        let queue = match record.marks & MARK_UNORDERED {
            0 => record::slot(&record.source),
            _ if self.limits.spread => SLOTS + record::slot(&record.source),
            _ => SLOTS,
        };
        self.load.add(bytes.len());
        match owner.map(|owner| &mut self.towards[owner]) {
            None => self.free.push(sequence, queue),
            Some(towards) => {
                towards.load.add(bytes.len());
                towards.again.push(sequence, queue);
            }
        }
        let severity = record.severity;
        self.window.insert(sequence, Waiting { bytes, queue, severity, taken_us, owner });
    }

    /// Handles the welcome of a collector: settles the lines that it has, and queues its other lines again from the first on. Found lines are no
    /// longer in doubt for it.
    pub(super) fn welcomed(&mut self, collector: usize) {
        let towards = &mut self.towards[collector];
        towards.away = false;
        towards.copied.fill(0);
        towards.again.clear();
        let waiting = self.window.iter().filter(|(_, waiting)| waiting.owner == Some(collector));
        waiting.for_each(|(&sequence, waiting)| towards.again.push(sequence, waiting.queue));
        self.doubt &= !(1 << collector);
        self.look_again();
    }

    /// Handles the end of the association with one of several collectors.
    pub(super) fn left(&mut self, collector: usize) {
        self.towards[collector].away = true;
    }

    /// Lines that a collector may have are sent to others, too.
    pub(super) fn repeat(&mut self, collector: usize) {
        let towards = &mut self.towards[collector];
        (towards.load, towards.held) = (Load::default(), Ranges::default());
        towards.again.clear();
        for (&sequence, waiting) in self.window.iter_mut().filter(|(_, waiting)| waiting.owner == Some(collector)) {
            waiting.owner = None;
            self.free.push(sequence, waiting.queue);
        }
        self.doubt &= !(1 << collector);
        self.look_again();
    }

    /// Lines that were passed over may be wanted now.
    fn look_again(&mut self) {
        if std::mem::take(&mut self.passed_over) {
            self.again = Some(self.whole_spool());
        }
    }

    /// Lines that no other collector can have, as far as is known.
    pub(super) fn held(&self, collector: usize) -> Ranges {
        let mut held = Ranges::default();
        let found = self.towards[collector].held.above().filter(|&(first, last)| self.settled.missing(first, last) > 0);
        found.for_each(|(first, last)| held.insert(first, last));
        let waiting = self.window.iter().filter(|(_, waiting)| waiting.owner == Some(collector));
        waiting.for_each(|(&sequence, _)| held.insert(sequence, sequence));
        held
    }

    /// Whether enough numbers were assigned since `told` to send collectors the settled ones.
    pub(super) fn has_much_since(&self, told: u64) -> bool {
        self.next - told > self.limits.window_lines_max as u64 / TELL_ONE_IN
    }

    /// Removes settled files, including those behind files that are still needed.
    pub(super) fn remove_settled(&mut self) {
        self.spool.remove_settled(&self.settled);
    }

    /// Numbers that need no more work.
    pub(super) fn settled(&self) -> &Ranges {
        &self.settled
    }

    /// All numbers below this one are settled, or wait for a collector that is away.
    pub(super) fn reach(&self) -> u64 {
        let away = |owner: Option<usize>| owner.is_some_and(|owner| self.towards[owner].away);
        let here = self.window.iter().find(|(_, waiting)| !away(waiting.owner)).map(|(&sequence, _)| sequence);
        let unread = self.behind.iter().chain(&self.again).map(|behind| behind.seen.floor());
        here.into_iter().chain(unread).fold(self.next, u64::min)
    }

    /// Returns the next message for a collector. It `takes` lines of some queues if no other collector may have them. `None` if all is sent, or if
    /// the rest cannot be read now.
    pub(super) fn next_message(
        &mut self,
        collector: usize,
        takes: impl Fn(u8) -> bool,
        counters: &mut Counters,
    ) -> Option<Outgoing> {
        self.refill(counters);
        let mut again = std::mem::take(&mut self.towards[collector].again);
        let message = self.message_from(&mut again, collector, Some(collector), |_| true);
        self.towards[collector].again = again;
        if message.is_some() || self.towards[collector].load.lines >= self.limits.window_lines_max {
            return message;
        }
        let mut free = std::mem::take(&mut self.free);
        let message = self.message_from(&mut free, collector, None, takes);
        self.free = free;
        message
    }

    /// Returns a message with as many lines as fit from these queues, with the given owner.
    fn message_from(
        &mut self,
        queues: &mut Queues,
        collector: usize,
        owner: Option<usize>,
        takes: impl Fn(u8) -> bool,
    ) -> Option<Outgoing> {
        while let Some(place) = queues.ready.iter().position(|&queue| takes(queue)) {
            let queue = queues.ready.remove(place)?;
            let numbers = queues.numbers.get_mut(&queue)?;
            let mut message = wire::begin_lines(self.priority, self.settled.floor());
            let mut before = None;
            while let Some(&sequence) = numbers.front() {
                if let Some(waiting) = self.window.get_mut(&sequence).filter(|waiting| waiting.owner == owner) {
                    let full = message.len() + waiting.bytes.len() > MESSAGE_BYTES;
                    if before.is_some_and(|before| full || before > sequence) {
                        break;
                    }
                    wire::put_record(&mut message, &waiting.bytes);
                    before = Some(sequence);
                    if owner.is_none() {
                        waiting.owner = Some(collector);
                        self.towards[collector].load.add(waiting.bytes.len());
                    }
                }
                numbers.pop_front();
            }
            if !numbers.is_empty() {
                queues.ready.push_back(queue);
            }
            if let Some(last) = before {
                let (slot, payload) = (slot_of(queue), message.freeze());
                return Some(Outgoing { priority: self.priority, slot, unordered: slot == SLOTS, last, payload });
            }
        }
        None
    }

    /// Returns a copy of the lines of a slot up to `last`, on a separate stream; `None` if there are none, or too many.
    ///
    /// The order of a source holds although two streams carry its lines: on the stream of copies each line comes after all earlier ones of its slot
    /// that the collector had not acknowledged. So whichever stream delivers a line, those before it are there.
    pub(super) fn copy(&mut self, collector: usize, slot: u8, last: u64) -> Option<Outgoing> {
        let from = *self.towards[collector].copied.get(usize::from(slot))?;
        if from > last || self.present().lines > COPY_WINDOW_MAX {
            return None;
        }
        let mut message = wire::begin_lines(self.priority, self.settled.floor());
        let lines = self.window.range(from..=last).filter(|(_, waiting)| slot_of(waiting.queue) == slot);
        let mut lines = lines.filter(|(_, waiting)| waiting.owner == Some(collector)).peekable();
        lines.peek()?;
        // Up to `last` there may be lines that are only on disk: they were not copied.
        let mut copied = from;
        lines.for_each(|(sequence, waiting)| {
            wire::put_record(&mut message, &waiting.bytes);
            copied = sequence + 1;
        });
        self.towards[collector].copied[usize::from(slot)] = copied;
        let (priority, unordered) = (self.priority, slot == SLOTS);
        Some(Outgoing { priority, slot: slot + COPIES, unordered, last, payload: message.freeze() })
    }

    /// Reads lines that are only on disk as long as there is room for them: first those that were found and passed over.
    fn refill(&mut self, counters: &mut Counters) {
        if let Some(again) = self.again.take() {
            self.again = self.read_on(again, self.first, counters);
            if self.again.is_some() {
                return;
            }
        }
        if let Some(behind) = self.behind.take() {
            self.behind = self.read_on(behind, u64::MAX, counters);
        }
    }

    /// Reads lines with numbers below `end`. Returns the new position, or `None` if there are no more.
    fn read_on(&mut self, mut behind: Behind, end: u64, counters: &mut Counters) -> Option<Behind> {
        loop {
            // With room for what one read gives at most.
            let present = self.present();
            if present.lines >= self.limits.window_lines_max.div_ceil(2) || present.bytes >= WINDOW_BYTES_MAX / 2 {
                return Some(behind);
            }
            // What waits to be written cannot be read, and must not count as lost.
            if self.spool.flush().is_err() {
                counters.disk_errors += 1;
                return Some(behind);
            }
            match self.spool.read(&mut behind.cursor) {
                Ok(records) if records.first().is_none_or(|stored| stored.record.sequence >= end) => {
                    self.lose_unseen(&behind.seen, end.min(self.next), counters);
                    return None;
                }
                Ok(records) => {
                    behind.failures = 0;
                    for stored in records {
                        self.find(&mut behind.seen, stored);
                    }
                }
                Err(_) => {
                    counters.disk_errors += 1;
                    behind.failures += 1;
                    if behind.failures > READ_FAILURES_MAX {
                        self.spool.skip_file(&mut behind.cursor);
                        behind.failures = 0;
                    }
                    return Some(behind);
                }
            }
        }
    }

    /// Handles a line that was read. It enters the window if it is wanted there and may be sent to a collector.
    fn find(&mut self, seen: &mut Ranges, Stored { record, bytes }: Stored) {
        let sequence = record.sequence;
        if seen.contains(sequence) {
            return;
        }
        seen.insert(sequence, sequence);
        if self.settled.contains(sequence) || self.window.contains_key(&sequence) {
            return;
        }
        // Lines taken since the start and outside the window were not sent to any collector.
        let is_held = |towards: &Towards| sequence < self.first && towards.held.contains(sequence);
        let owner = self.towards.iter().position(is_held);
        let waits = match owner {
            Some(owner) => self.towards[owner].away,
            None => sequence < self.first && self.doubt != 0,
        };
        if waits {
            self.passed_over = true;
        } else {
            let taken_us = record.received_us.saturating_sub(self.date_ahead_us);
            self.put(sequence, &record, bytes, owner, taken_us);
        }
    }

    /// Counts unseen and unsettled lines below `end` as lost: all files up to there were read, so they were damaged on disk.
    fn lose_unseen(&mut self, seen: &Ranges, end: u64, counters: &mut Counters) {
        let mut unseen = Vec::new();
        let mut above = seen.floor();
        let known = seen.above().take_while(|&(start, _)| start < end);
        for (start, last) in known.chain([(end, end)]) {
            if above < start {
                unseen.push((above, start - 1));
            }
            above = last + 1;
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

    /// The collector now has these numbers; the time is in microseconds since 1970. Records the delays of those in memory.
    pub(super) fn deliver(&mut self, first: u64, last: u64, now_us: u64, counters: &mut Counters) {
        if self.settled.missing(first, last) > 0 {
            for waiting in self.window.range(first..=last).map(|(_, waiting)| waiting) {
                let severity = waiting.severity.index();
                counters.delivered_by_severity[severity] += 1;
                counters.delays[severity].note(now_us.saturating_sub(waiting.taken_us));
            }
        }
        counters.delivered += self.settle(first, last);
    }

    /// Settles these numbers. Returns how many of them were unsettled.
    pub(super) fn settle(&mut self, first: u64, last: u64) -> u64 {
        let newly = self.settled.missing(first, last);
        if newly == 0 {
            return 0;
        }
        self.settled.insert(first, last);
        let inside: Vec<u64> = self.window.range(first..=last).map(|(&sequence, _)| sequence).collect();
        for sequence in inside {
            if let Some(waiting) = self.window.remove(&sequence) {
                self.load.remove(waiting.bytes.len());
                if let Some(owner) = waiting.owner {
                    self.towards[owner].load.remove(waiting.bytes.len());
                }
            }
        }
        self.spool.remove_below(self.settled.floor());
        newly
    }

    /// Whether a peer may speak of this number.
    pub(super) fn knows(&self, sequence: u64) -> bool {
        sequence < self.next
    }

    /// Sheds the oldest file. Returns the number of unsettled lines in it.
    pub(super) fn shed_oldest(&mut self) -> u64 {
        match self.spool.remove_oldest() {
            Some(segment) => self.settle(segment.first, segment.last),
            None => 0,
        }
    }
}

impl Load {
    fn add(&mut self, bytes: usize) {
        self.lines += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: usize) {
        self.lines -= 1;
        self.bytes -= bytes;
    }
}
