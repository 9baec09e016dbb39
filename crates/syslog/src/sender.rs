//! The relay's reliable half, without sockets: it takes lines, returns messages for collectors, and settles lines by their answers.
//!
//! Order of calls: [`Sender::open`]; then [`take`](Sender::take) for each line, [`flush`](Sender::flush) after each batch, and [`sync`](Sender::sync)
//! and [`keep_time`](Sender::keep_time) every few milliseconds, with or without a collector. For each new association: send the result of
//! [`connected`](Sender::connected), pass received messages to [`handle`](Sender::handle), and send the results of
//! [`next_message`](Sender::next_message) after every call, and of [`settled_elsewhere`](Sender::settled_elsewhere) now and then. Collectors are
//! numbered in the order of [`Routing::collectors`].
//!
//! The document `docs/syslog.md` explains exactly-once delivery.

mod debug;
mod fresh;
mod identity;
mod lane;
mod positions;
mod reserve;
mod routes;
mod starts;
mod syncing;
mod whereabouts;

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use festina_units::{Duration, duration};
use thiserror::Error;

use crate::delays::Delays;
use crate::disk::Disk;
use crate::policy::PRIORITIES;
use crate::ranges::Ranges;
use crate::record::{Record, slot};
use crate::spool::UNWRITTEN_BYTES_MAX;
use crate::wire::{Packet, STARTS_MAX, SenderId, Span, Start, WireError};
use identity::Identity;
use lane::{Lane, LaneLimits, Past};
use reserve::Reserve;
use routes::Routes;
use whereabouts::{Held, Whereabouts};

pub(crate) use fresh::MESSAGE_BYTES as FRESH_MESSAGE_BYTES;
pub(crate) use fresh::MovedLine;
pub use fresh::{FreshCounts, FreshMessage, FreshQueue};
pub use identity::renew_identity;
pub use lane::{Outgoing, STREAMS};
pub use routes::{COLLECTORS_MAX, Routing};
pub use syncing::{SyncJobs, SyncResults};

/// Bits of the numbers that each start of a relay may use for each priority: at a million lines a second they last 12 days. Then the relay must be
/// restarted.
const NUMBERS_PER_EPOCH_BITS: u32 = 40;

/// Minimum number of files of a spool, so that one shedding step removes at most this fraction of it.
const SEGMENTS_MIN: u64 = 64;

/// The largest file of a spool.
const SEGMENT_BYTES_MAX: u64 = 4 << 20;

/// Interval in microseconds between updates of the state for several collectors, unless a collector has come or gone.
const LOOK_EVERY_US: u64 = 1_000_000;

/// Spans in one message at most.
const SPANS_MAX: usize = 4_096;

/// Bounds of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderLimits {
    /// Bytes of the spool on disk.
    pub bytes_max: u64,
    /// Maximum age of a line.
    pub age_max: Duration,
    /// Lines of one priority in memory; more wait on disk alone.
    pub window_lines_max: usize,
}

impl SenderLimits {
    /// Maximum number of lines of one priority in flight; tests may use less.
    pub const WINDOW_LINES_MAX: usize = 16_384;
}

/// Outcomes of lines that were [taken](Sender::take) or found on disk at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Found on disk at the start.
    pub found: u64,
    /// Taken.
    pub taken: u64,
    /// The collector has them.
    pub delivered: u64,
    /// The same by severity, without those that it had already when a relay started again.
    pub delivered_by_severity: [u64; 8],
    /// Delays of those from their receipt, by severity.
    pub delays: [Delays; 8],
    /// Dropped because the spool was full.
    pub shed_full: u64,
    /// Dropped because they were too old.
    pub shed_old: u64,
    /// Dropped because neither disk nor memory had room.
    pub shed_unspooled: u64,
    /// Damaged on disk.
    pub lost: u64,
    /// Failed reads and writes.
    pub disk_errors: u64,
}

/// Why a collector cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PeerError {
    /// It does not speak the protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// It sends packets that only relays send.
    #[error("the peer is a relay, not a collector")]
    NoCollector,
    /// It has lines of another copy of this spool.
    #[error(
        "the collector has lines of another copy of this spool, which assigned their numbers to other lines; the lines here are kept but not sent; \
         if the other copy is no longer in use, start the relay with --new-identity"
    )]
    OtherCopy,
    /// It wants to see an earlier start.
    #[error("the collector asks for start {0} of this relay; the next association will name it")]
    AsksForStart(u32),
    /// It has lines that this relay has not sent yet.
    #[error("the collector has lines that this relay has not sent")]
    Ahead,
}

/// Times of the clock that the sender is given, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// When limits were enforced last.
    looked_us: u64,
    /// Total running time of relays with this spool when it was opened, and the time of that.
    ran_us: u64,
    opened_us: u64,
    now_us: u64,
}

/// Lines on their way to collectors that are kept until one has them.
pub struct Sender<D: Disk> {
    disk: D,
    directory: PathBuf,
    id: SenderId,
    /// All starts that are remembered, the present one last.
    starts: Vec<Start>,
    connection: u32,
    lanes: Vec<Lane<D>>,
    bytes_max: u64,
    age_max: Duration,
    routes: Routes,
    receivers: Vec<Receiver>,
    /// Collectors that may have any of the lines found at the start, one bit each; all lines wait for their welcome.
    doubt: u8,
    awaited: u8,
    times: Times,
    counters: Counters,
    reserve: Reserve,
}

/// State of one collector.
struct Receiver {
    name: String,
    welcomed: bool,
    /// It is on disk that it may have any line from now on.
    is_open: bool,
    /// Lines that it acknowledged first.
    delivered: u64,
    /// For each priority: it knows of all numbers below this one that were settled elsewhere.
    told: Vec<u64>,
    /// The start that it asked for.
    asked: Option<Start>,
}

/// How it stands with a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its name.
    pub name: String,
    /// Whether it has welcomed this relay and the association still exists.
    pub is_here: bool,
    /// Whether it was away long enough for others to take its place.
    pub is_gone: bool,
    /// Whether others take its place: it is gone, or has been back for too short a while to be trusted.
    pub is_replaced: bool,
    /// Lines in memory that it may have and has not acknowledged.
    pub unanswered: u64,
    /// Lines that it acknowledged first.
    pub delivered: u64,
}

impl<D: Disk> Sender<D> {
    /// Opens the spool in a directory, and creates the directory if it does not exist. `random` must be drawn for each start: it marks the numbers
    /// assigned by this start, and becomes the identity of a new spool. Times are in microseconds of a monotonic clock, here and in all other
    /// methods.
    ///
    /// # Errors
    /// I/O errors of the disk. [`io::ErrorKind::InvalidData`] if the identity is damaged or does not match the lines. A relay must not start without
    /// its identity and a durable count of this start.
    pub fn open(
        disk: &D,
        directory: &Path,
        limits: SenderLimits,
        routing: &Routing,
        random: [u8; 16],
        now_us: u64,
    ) -> io::Result<Self> {
        disk.create_directory(directory)?;
        let Identity { id, epoch, whereabouts, starts } = identity::next(disk, directory, routing, random)?;
        let next = u64::from(epoch) << NUMBERS_PER_EPOCH_BITS;
        let SenderLimits { bytes_max, age_max, window_lines_max } = limits;
        let segment_bytes = (bytes_max / SEGMENTS_MIN).min(SEGMENT_BYTES_MAX);
        let limits = LaneLimits { segment_bytes, window_lines_max, spread: routing.spread };
        let mut doubt = doubt_of(whereabouts.as_ref(), routing);
        let lanes = (0..PRIORITIES).map(|priority| {
            let past = past_of(whereabouts.as_ref(), routing, priority, doubt);
            Lane::open(disk.clone(), directory, priority, limits, next, past)
        });
        let mut lanes: Vec<_> = lanes.collect::<io::Result<_>>()?;
        let ran_us = lanes.iter().map(|lane| lane.spool.newest_us()).max().unwrap_or_default();
        // Lines without an age count from now on.
        let ran_us = ran_us.max(1);
        lanes.iter_mut().for_each(|lane| lane.spool.date_from(ran_us));
        let found = lanes.iter().map(Lane::unsettled).sum();
        let may_have = doubt;
        if found == 0 {
            doubt = 0;
        }
        let told = || vec![0; usize::from(PRIORITIES)];
        let receivers = routing.collectors.iter().enumerate().map(|(index, name)| Receiver {
            name: name.clone(),
            welcomed: false,
            is_open: may_have & bit(index) != 0 || routing.collectors.len() == 1,
            delivered: 0,
            told: told(),
            asked: None,
        });
        let mut sender = Self {
            disk: disk.clone(),
            directory: directory.to_owned(),
            id,
            starts,
            connection: 0,
            lanes,
            bytes_max,
            age_max,
            routes: Routes::new(routing, now_us),
            receivers: receivers.collect(),
            doubt,
            awaited: 0,
            times: Times { looked_us: 0, ran_us, opened_us: now_us, now_us },
            counters: Counters { found, ..Counters::default() },
            reserve: Reserve::default(),
        };
        if sender.has_several() && found > 0 {
            let holds = |&index: &usize| sender.lanes.iter().any(|lane| !lane.held(index).is_empty());
            sender.awaited = (0..sender.receivers.len()).filter(holds).fold(doubt, |mask, index| mask | bit(index));
        }
        Ok(sender)
    }

    fn has_several(&self) -> bool {
        self.receivers.len() > 1
    }

    /// Takes a line; its number is set here. Returns whether the spool takes it: it is safe after the next [`sync`](Self::sync).
    pub fn take(&mut self, record: Record, priority: u8) -> bool {
        self.counters.taken += 1;
        let times = (self.times.now_us, self.own_us(self.times.now_us));
        let lane = &mut self.lanes[usize::from(priority.min(PRIORITIES - 1))];
        let is_spooled = lane.take(record, times, &mut self.counters);
        if self.lanes.iter().map(|lane| lane.spool.unwritten_bytes()).sum::<usize>() > UNWRITTEN_BYTES_MAX
            && !self.is_failing()
        {
            // The next sync tries again.
            let _ = self.flush();
        }
        is_spooled
    }

    /// Whether the disk has failed since the last sync. Lines that are taken nevertheless may not fit into the [reserve](Self::keep_reserve).
    pub fn is_failing(&self) -> bool {
        self.lanes.iter().any(|lane| lane.spool.is_doubtful())
    }

    /// Writes the lines taken so far to the files. They then survive the end of the process, but not a loss of power.
    ///
    /// # Errors
    /// I/O errors of the disk. The next sync tries again.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for lane in &mut self.lanes {
            if let Err(error) = lane.spool.flush() {
                self.counters.disk_errors += 1;
                result = Err(error);
            }
        }
        result
    }

    /// Sheds lines beyond the limits of size and age. A line's age is the time that relays with this spool have run since it was taken.
    pub fn enforce_limits(&mut self, now_us: u64) {
        while self.spool_bytes() > self.bytes_max
            && let Some(lane) = self.lanes.iter_mut().rev().find(|lane| lane.spool.oldest().is_some())
        {
            self.counters.shed_full += lane.shed_oldest();
        }
        self.set_time(now_us);
        let (age_us, own_us) = (duration::saturating_nanos(self.age_max) / 1_000, self.own_us(now_us));
        for lane in &mut self.lanes {
            while lane.spool.oldest().is_some_and(|oldest| oldest.newest_us.saturating_add(age_us) < own_us) {
                self.counters.shed_old += lane.shed_oldest();
            }
        }
    }

    /// Handles a new association with a collector, which replaces an older one. Returns the first message for it.
    pub fn connected(&mut self, collector: usize, now_us: u64) -> Bytes {
        self.disconnected(collector, now_us);
        self.connection += 1;
        let (&start, before) = self.starts.split_last().expect("this start is there");
        let asked = self.receivers[collector].asked;
        let latest = before.iter().rev().filter(|start| Some(**start) != asked).take(STARTS_MAX - 1).copied();
        let before = asked.into_iter().chain(latest).collect();
        Packet::Hello { sender: self.id, start, connection: self.connection, before }.encode()
    }

    /// A collector knows a start that the hello did not name. It is asked for once, as hellos name the latest only.
    fn handle_refusal(&mut self, collector: usize, epoch: u32) -> PeerError {
        let receiver = &mut self.receivers[collector];
        let known = self.starts.iter().find(|start| start.epoch == epoch).copied();
        let is_news =
            known.is_some() && receiver.asked != known && Some(&epoch) != self.starts.last().map(|start| &start.epoch);
        receiver.asked = known;
        if is_news { PeerError::AsksForStart(epoch) } else { PeerError::OtherCopy }
    }

    /// Handles the end of the association with a collector.
    pub fn disconnected(&mut self, collector: usize, now_us: u64) {
        self.receivers[collector].welcomed = false;
        self.routes.left(collector, now_us);
        if self.has_several() {
            self.lanes.iter_mut().for_each(|lane| lane.left(collector));
        }
    }

    /// Takes a message of a collector.
    ///
    /// # Errors
    /// If it makes no sense: the association has to end.
    pub fn handle(&mut self, collector: usize, message: Bytes, now_us: u64) -> Result<(), PeerError> {
        match Packet::decode(message)? {
            Packet::Refused { epoch } => Err(self.handle_refusal(collector, epoch)),
            Packet::Welcome(settled) => self.handle_welcome(collector, &settled, now_us),
            Packet::Acks { spans, .. } => {
                for span in spans {
                    self.deliver(collector, usize::from(span.priority), (span.first, span.last), now_us)?;
                }
                Ok(())
            }
            _ => Err(PeerError::NoCollector),
        }
    }

    fn handle_welcome(&mut self, collector: usize, settled: &[Ranges], now_us: u64) -> Result<(), PeerError> {
        for (priority, ranges) in settled.iter().enumerate() {
            if ranges.floor() > 0 {
                self.deliver(collector, priority, (0, ranges.floor() - 1), now_us)?;
            }
            for span in ranges.above() {
                self.deliver(collector, priority, span, now_us)?;
            }
        }
        self.doubt &= !bit(collector);
        self.awaited &= !bit(collector);
        self.lanes.iter_mut().for_each(|lane| lane.welcomed(collector));
        self.routes.welcomed(collector, now_us);
        let receiver = &mut self.receivers[collector];
        receiver.welcomed = true;
        receiver.told.fill(0);
        // If that fails it is tried again, and until then the collector gets nothing.
        self.set_open(&[(collector, true)]);
        Ok(())
    }

    fn deliver(
        &mut self,
        collector: usize,
        priority: usize,
        (first, last): (u64, u64),
        now_us: u64,
    ) -> Result<(), PeerError> {
        let lane = self.lanes.get_mut(priority).filter(|lane| lane.knows(last)).ok_or(PeerError::Ahead)?;
        let before = self.counters.delivered;
        lane.deliver(first, last, now_us, &mut self.counters);
        self.receivers[collector].delivered += self.counters.delivered - before;
        Ok(())
    }

    /// The next message for a collector of a priority below `below`; the least first.
    pub fn next_message(&mut self, collector: usize, below: u8) -> Option<Outgoing> {
        let Self { lanes, routes, receivers, counters, .. } = self;
        let receiver = &receivers[collector];
        if !receiver.welcomed || !receiver.is_open || self.awaited != 0 {
            return None;
        }
        let takes = |queue| routes.target(queue) == Some(collector);
        lanes.iter_mut().take(usize::from(below)).find_map(|lane| lane.next_message(collector, takes, counters))
    }

    /// Returns a copy of the lines of a slot of a priority up to the number `last`, for a lossy path. `None` if the collector has them, or if they
    /// are too many. Priority, slot and `last` are those of a message of [`next_message`](Self::next_message) for this collector.
    pub fn copy(&mut self, collector: usize, priority: u8, slot: u8, last: u64) -> Option<Outgoing> {
        let welcomed = self.is_welcomed(collector);
        self.lanes.get_mut(usize::from(priority)).filter(|_| welcomed)?.copy(collector, slot, last)
    }

    /// Returns a message with the numbers that a collector will never get because other collectors have them, if there are enough of them.
    pub fn settled_elsewhere(&mut self, collector: usize) -> Option<Bytes> {
        let receiver = &mut self.receivers[collector];
        if !receiver.welcomed || self.routes.is_only() {
            return None;
        }
        let mut spans = Vec::new();
        for ((priority, lane), told) in (0..PRIORITIES).zip(&self.lanes).zip(&mut receiver.told) {
            *told = (*told).max(lane.settled().floor());
            if !lane.has_much_since(*told) {
                continue;
            }
            let reach = lane.reach();
            for (first, last) in lane.settled().above().take_while(|(first, _)| *first < reach) {
                let (first, last) = (first.max(*told), last.min(reach - 1));
                if first <= last && spans.len() < SPANS_MAX {
                    spans.push(Span { priority, first, last });
                    *told = last + 1;
                }
            }
        }
        (!spans.is_empty()).then(|| Packet::Settled(spans).encode())
    }

    /// Queues the result of [`settled_elsewhere`](Self::settled_elsewhere) again, after it could not be sent.
    pub fn tell_again(&mut self, collector: usize) {
        self.receivers[collector].told.fill(0);
    }

    /// Has time pass: collectors that stay away are gone some day, and those that have come back are trusted again.
    pub fn keep_time(&mut self, now_us: u64) {
        if !self.has_several() {
            return;
        }
        let news = self.routes.keep_time(now_us);
        self.awaited &= !(news.gone | news.repeat);
        for collector in (0..self.receivers.len()).filter(|&collector| news.repeat & bit(collector) != 0) {
            self.doubt &= !bit(collector);
            self.lanes.iter_mut().for_each(|lane| lane.repeat(collector));
        }
        if news == routes::News::default() && now_us.abs_diff(self.times.looked_us) < LOOK_EVERY_US {
            return;
        }
        self.times.looked_us = now_us;
        self.lanes.iter_mut().for_each(Lane::remove_settled);
        let wanted = self.receivers.iter().enumerate().map(|(index, receiver)| {
            let closes = self.routes.is_gone(index) && self.doubt & bit(index) == 0;
            (index, receiver.welcomed || (receiver.is_open && !closes))
        });
        let wanted: Vec<_> = wanted.collect();
        self.set_open(&wanted);
    }

    /// Closes the sender after all associations have ended. After the next start no line is in doubt, if this reaches the disk.
    pub fn close(&mut self) {
        let known = (0..self.receivers.len()).filter(|&index| self.doubt & bit(index) == 0);
        let wanted: Vec<_> = known.map(|index| (index, false)).collect();
        if self.has_several() {
            self.set_open(&wanted);
        }
    }

    /// Has it on disk which collectors may have any line from now on, if that changes.
    fn set_open(&mut self, wanted: &[(usize, bool)]) {
        let before: Vec<bool> = self.receivers.iter().map(|receiver| receiver.is_open).collect();
        wanted.iter().for_each(|&(index, is_open)| self.receivers[index].is_open = is_open);
        let changed = self.receivers.iter().zip(&before).any(|(receiver, before)| receiver.is_open != *before);
        if changed && self.save().is_err() {
            self.counters.disk_errors += 1;
            self.receivers.iter_mut().zip(before).for_each(|(receiver, before)| receiver.is_open = before);
        }
    }

    fn save(&self) -> io::Result<()> {
        let held = |index| self.lanes.iter().map(|lane| lane.held(index)).collect();
        let collectors = self.receivers.iter().enumerate().map(|(index, receiver)| Held {
            name: receiver.name.clone(),
            is_open: receiver.is_open,
            held: held(index),
        });
        let settled = self.lanes.iter().map(|lane| lane.settled().clone()).collect();
        let whereabouts = Whereabouts { settled, collectors: collectors.collect() };
        let bytes = whereabouts.encode().ok_or_else(|| io::Error::other("there are too many gaps between lines"))?;
        identity::write(&self.disk, &self.directory, self.id, self.epoch(), &bytes)
    }

    fn epoch(&self) -> u32 {
        self.starts.last().map_or(0, |start| start.epoch)
    }

    /// Whether a collector has welcomed this relay.
    pub fn is_welcomed(&self, collector: usize) -> bool {
        self.receivers[collector].welcomed
    }

    /// The collector for lines of a source that cannot wait: one that is there, if any is.
    pub fn target_now(&self, source: &[u8]) -> usize {
        self.routes.target_now(slot(source))
    }

    /// Lines in memory that a collector may have and has not acknowledged.
    pub fn unanswered(&self, collector: usize) -> u64 {
        self.lanes.iter().map(|lane| lane.sent_to(collector) as u64).sum()
    }

    /// How it stands with all collectors, in their order.
    pub fn standings(&self) -> Vec<Standing> {
        let receivers = self.receivers.iter().enumerate();
        let standing = receivers.map(|(index, receiver)| Standing {
            name: receiver.name.clone(),
            is_here: receiver.welcomed,
            is_gone: self.routes.is_gone(index),
            is_replaced: !self.routes.is_trusted(index),
            unanswered: self.unanswered(index),
            delivered: receiver.delivered,
        });
        standing.collect()
    }

    /// Returns the outcomes of lines. `found + taken` always equals the sum of `delivered`, `shed_full`, `shed_old`, `shed_unspooled`, `lost` and
    /// [`unsettled`](Self::unsettled).
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Lines that are kept for the collector.
    pub fn unsettled(&self) -> u64 {
        self.lanes.iter().map(Lane::unsettled).sum()
    }

    /// Returns the identity that collectors know this sender by.
    pub fn id(&self) -> SenderId {
        self.id
    }

    /// Bytes of the spool on disk.
    pub fn spool_bytes(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.spool.bytes()).sum()
    }
}

fn bit(collector: usize) -> u8 {
    1 << collector
}

/// Collectors that may have any line that is found and that none holds.
fn doubt_of(whereabouts: Option<&Whereabouts>, routing: &Routing) -> u8 {
    let is_open = |name: &String| {
        whereabouts.is_none_or(|known| known.collectors.iter().any(|one| one.is_open && one.name == *name))
    };
    let names = routing.collectors.iter().enumerate();
    names.filter(|(_, name)| is_open(name)).fold(0, |doubt, (index, _)| doubt | bit(index))
}

/// State of the lines of a priority that are about to be found on disk.
fn past_of(whereabouts: Option<&Whereabouts>, routing: &Routing, priority: u8, doubt: u8) -> Past {
    let of = |numbers: &[Ranges]| numbers.get(usize::from(priority)).cloned().unwrap_or_default();
    let held = |name: &String| {
        let known = whereabouts.and_then(|known| known.collectors.iter().find(|one| one.name == *name));
        known.map(|one| of(&one.held)).unwrap_or_default()
    };
    let settled = whereabouts.map(|known| of(&known.settled)).unwrap_or_default();
    Past { settled, held: routing.collectors.iter().map(held).collect(), doubt }
}

#[cfg(test)]
mod tests;
