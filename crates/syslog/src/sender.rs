//! The relay's reliable half, without sockets: lines come in, messages for the collector come out, its answers settle them.
//!
//! Order of calls: [`Sender::open`]; then [`take`](Sender::take) for each line, [`flush`](Sender::flush) after those that came together, and
//! [`sync`](Sender::sync) every few milliseconds, whether or not there is a collector. With each new association: send what [`connected`](Sender::connected) returns, give what comes back to
//! [`handle`](Sender::handle), and send what [`next_message`](Sender::next_message) returns after every call.
//!
//! The document `docs/syslog.md` says why a line is once in the output.

mod lane;

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use festina_units::{Duration, duration};
use thiserror::Error;

use crate::delays::Delays;
use crate::disk::{Disk, read_whole, replace};
use crate::policy::PRIORITIES;
use crate::ranges::Ranges;
use crate::record::Record;
use crate::spool::{SyncJob, Synced};
use crate::wire::{Packet, SenderId, WireError};
use lane::{Lane, LaneLimits};

pub use lane::{Outgoing, STREAMS};

/// How many numbers each start of a relay may use for each priority: at a million lines a second they last 12 days; then it has to be
/// started again.
const NUMBERS_PER_EPOCH_BITS: u32 = 40;

/// Files of a spool, at least: what is shed at once is at most this part of it.
const SEGMENTS_MIN: u64 = 64;

/// The largest file of a spool.
const SEGMENT_BYTES_MAX: u64 = 4 << 20;

/// Bounds of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderLimits {
    /// Bytes of the spool on disk.
    pub bytes_max: u64,
    /// How long a line is kept.
    pub age_max: Duration,
    /// Lines of one priority in memory; more wait on disk alone.
    pub window_lines_max: usize,
}

impl SenderLimits {
    /// How many lines of one priority may be under way, unless tests ask for less.
    pub const WINDOW_LINES_MAX: usize = 16_384;
}

/// What has become of lines. All of them were [taken](Sender::take), or found on disk at the start.
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
    /// How long those took from their receipt, by severity.
    pub delays: [Delays; 8],
    /// Given up because the spool was full.
    pub shed_full: u64,
    /// Given up because they were too old.
    pub shed_old: u64,
    /// Given up because neither disk nor memory took them.
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
    /// It says what only relays say.
    #[error("the peer answers as a relay does: it is no collector")]
    NoCollector,
    /// It has lines that this relay has not sent yet.
    #[error(
        "the collector has lines that this spool does not know: an older copy of the spool was put back; remove the spool and its lines will be sent as new ones"
    )]
    Ahead,
}

/// Lines on their way to a collector that are kept until it has them.
pub struct Sender<D: Disk> {
    id: SenderId,
    epoch: u32,
    connection: u32,
    lanes: Vec<Lane<D>>,
    bytes_max: u64,
    age_max: Duration,
    welcomed: bool,
    counters: Counters,
}

/// Waits for the disk, in any thread.
pub struct SyncJobs<D: Disk>(Vec<(usize, SyncJob<D>)>);

/// What the disk has answered.
pub struct SyncResults(Vec<(usize, Synced)>);

impl<D: Disk> SyncJobs<D> {
    /// Whether there is nothing to wait for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits.
    pub fn run(self) -> SyncResults {
        SyncResults(self.0.into_iter().map(|(index, job)| (index, job.run())).collect())
    }
}

/// The name of the file that holds who the sender is and how often it was started.
const IDENTITY: &str = "identity";

impl<D: Disk> Sender<D> {
    /// Opens the spool in a directory, which is made if there is none. A new spool gets the identity `new_id`, which has to be drawn at random.
    ///
    /// # Errors
    /// The disk's. Without its identity and a safe mark that it was started, a relay must not begin.
    pub fn open(disk: &D, directory: &Path, limits: SenderLimits, new_id: [u8; 16]) -> io::Result<Self> {
        disk.create_directory(directory)?;
        let (id, epoch) = next_epoch(disk, directory, new_id)?;
        let next = u64::from(epoch) << NUMBERS_PER_EPOCH_BITS;
        let SenderLimits { bytes_max, age_max, window_lines_max } = limits;
        let segment_bytes = (bytes_max / SEGMENTS_MIN).min(SEGMENT_BYTES_MAX);
        let limits = LaneLimits { segment_bytes, window_lines_max };
        let lanes = (0..PRIORITIES).map(|priority| Lane::open(disk.clone(), directory, priority, limits, next));
        let lanes: Vec<_> = lanes.collect::<io::Result<_>>()?;
        let found = lanes.iter().map(Lane::unsettled).sum();
        let counters = Counters { found, ..Counters::default() };
        let (connection, welcomed) = (0, false);
        Ok(Self { id, epoch, connection, lanes, bytes_max, age_max, welcomed, counters })
    }

    /// Takes a line; its number is set here. Returns whether the spool takes it: it is safe after the next [`sync`](Self::sync).
    pub fn take(&mut self, record: Record, priority: u8) -> bool {
        self.counters.taken += 1;
        let lane = &mut self.lanes[usize::from(priority.min(PRIORITIES - 1))];
        lane.take(record, &mut self.counters)
    }

    /// Writes what was taken, so that it outlives the process, though not a loss of power.
    ///
    /// # Errors
    /// The disk's; it is tried again with the next sync.
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

    /// Sheds what is too much or too old. The present is in microseconds since 1970.
    pub fn enforce_limits(&mut self, now_us: u64) {
        while self.spool_bytes() > self.bytes_max
            && let Some(lane) = self.lanes.iter_mut().rev().find(|lane| lane.spool.oldest().is_some())
        {
            self.counters.shed_full += lane.shed_oldest();
        }
        let age_us = duration::saturating_nanos(self.age_max) / 1_000;
        for lane in &mut self.lanes {
            while lane.spool.oldest().is_some_and(|oldest| oldest.newest_us.saturating_add(age_us) < now_us) {
                self.counters.shed_old += lane.shed_oldest();
            }
        }
    }

    /// Has everything taken so far survive a crash.
    ///
    /// # Errors
    /// The disk's; it is tried again with the next call.
    pub fn sync(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for lane in &mut self.lanes {
            if let Err(error) = lane.spool.sync() {
                self.counters.disk_errors += 1;
                result = Err(error);
            }
        }
        result
    }

    /// Begins what [`sync`](Self::sync) does, for another thread to wait for the disk. Give what it returns to [`end_sync`](Self::end_sync)
    /// before this is called again.
    ///
    /// # Errors
    /// The disk's; it is tried again with the next sync.
    pub fn begin_sync(&mut self) -> io::Result<SyncJobs<D>> {
        let mut jobs = Vec::new();
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            match lane.spool.begin_sync() {
                Ok(job) => jobs.extend(job.map(|job| (index, job))),
                Err(error) => {
                    self.counters.disk_errors += 1;
                    // Those that were begun are abandoned: whether they took place is not known.
                    self.lanes.iter_mut().for_each(|lane| lane.spool.doubt());
                    return Err(error);
                }
            }
        }
        Ok(SyncJobs(jobs))
    }

    /// The disk has answered. What was taken before [`begin_sync`](Self::begin_sync) survives a crash now.
    ///
    /// # Errors
    /// The disk's; it is tried again with the next sync.
    pub fn end_sync(&mut self, synced: SyncResults) -> io::Result<()> {
        let mut result = Ok(());
        for (index, synced) in synced.0 {
            if let Err(error) = self.lanes[index].spool.end_sync(synced) {
                self.counters.disk_errors += 1;
                result = Err(error);
            }
        }
        result
    }

    /// There is a new association; an older one is over. Returns the first message for it.
    pub fn connected(&mut self) -> Bytes {
        self.connection += 1;
        self.welcomed = false;
        Packet::Hello { sender: self.id, epoch: self.epoch, connection: self.connection }.encode()
    }

    /// The association is over.
    pub fn disconnected(&mut self) {
        self.welcomed = false;
    }

    /// Takes a message of the collector. The present is in microseconds since 1970.
    ///
    /// # Errors
    /// If it makes no sense: the association has to end.
    pub fn handle(&mut self, message: Bytes, now_us: u64) -> Result<(), PeerError> {
        match Packet::decode(message)? {
            Packet::Welcome(settled) => self.handle_welcome(&settled, now_us),
            Packet::Acks { spans, .. } => {
                for span in spans {
                    self.deliver(usize::from(span.priority), span.first, span.last, now_us)?;
                }
                Ok(())
            }
            _ => Err(PeerError::NoCollector),
        }
    }

    fn handle_welcome(&mut self, settled: &[Ranges], now_us: u64) -> Result<(), PeerError> {
        for (priority, ranges) in settled.iter().enumerate() {
            if ranges.floor() > 0 {
                self.deliver(priority, 0, ranges.floor() - 1, now_us)?;
            }
            for (first, last) in ranges.above() {
                self.deliver(priority, first, last, now_us)?;
            }
        }
        self.lanes.iter_mut().for_each(Lane::send_again);
        self.welcomed = true;
        Ok(())
    }

    fn deliver(&mut self, priority: usize, first: u64, last: u64, now_us: u64) -> Result<(), PeerError> {
        let lane = self.lanes.get_mut(priority).filter(|lane| lane.knows(last)).ok_or(PeerError::Ahead)?;
        lane.deliver(first, last, now_us, &mut self.counters);
        Ok(())
    }

    /// The next message to send of a priority below `below`; the least first.
    pub fn next_message(&mut self, below: u8) -> Option<Outgoing> {
        if !self.welcomed {
            return None;
        }
        self.lanes.iter_mut().take(usize::from(below)).find_map(|lane| lane.next_message(&mut self.counters))
    }

    /// The lines of a slot of a priority up to the number `last` once more, for a path that loses packets; `None` if the collector has them,
    /// or they are too many. Priority, slot and `last` are those of a message of [`next_message`](Self::next_message).
    pub fn copy(&mut self, priority: u8, slot: u8, last: u64) -> Option<Outgoing> {
        let lane = self.lanes.get_mut(usize::from(priority)).filter(|_| self.welcomed)?;
        lane.copy(slot, last)
    }

    /// Whether the collector has welcomed this relay.
    pub fn is_welcomed(&self) -> bool {
        self.welcomed
    }

    /// What has become of lines. At any time `found + taken` is the sum of `delivered`, `shed_full`, `shed_old`, `shed_unspooled`, `lost` and
    /// [`unsettled`](Self::unsettled).
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Lines that are kept for the collector.
    pub fn unsettled(&self) -> u64 {
        self.lanes.iter().map(Lane::unsettled).sum()
    }

    /// Who this is for the collector.
    pub fn id(&self) -> SenderId {
        self.id
    }

    /// Bytes of the spool on disk.
    pub fn spool_bytes(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.spool.bytes()).sum()
    }

    /// Bytes of lines in memory.
    pub fn memory_bytes(&self) -> usize {
        self.lanes.iter().map(Lane::window_bytes).sum()
    }
}

/// Reads who the sender is, or makes it `new_id`, and has it survive that it was started once more.
fn next_epoch<D: Disk>(disk: &D, directory: &Path, new_id: [u8; 16]) -> io::Result<(SenderId, u32)> {
    const IDENTITY_BYTES: usize = 20;
    let path: PathBuf = directory.join(IDENTITY);
    let (id, epoch) = match read_whole(disk, &path, 1_024)? {
        Some(bytes) => {
            let id = bytes.get(..16).and_then(|id| id.try_into().ok());
            let epoch = bytes.get(16..IDENTITY_BYTES).and_then(|epoch| epoch.try_into().ok()).map(u32::from_be_bytes);
            let whole = id.zip(epoch).filter(|_| bytes.len() == IDENTITY_BYTES);
            whole.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", path.display())))?
        }
        None => (new_id, 0),
    };
    // 24 bits of a number are left for it.
    let epoch = epoch + 1;
    if epoch >> (u64::BITS - NUMBERS_PER_EPOCH_BITS) != 0 {
        return Err(io::Error::other("the spool was opened too often: move it away"));
    }
    replace(disk, directory, IDENTITY, &[&id[..], &epoch.to_be_bytes()].concat())?;
    Ok((SenderId(id), epoch))
}
