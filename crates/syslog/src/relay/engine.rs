//! The task that moves lines: from inputs by policy into the spool and to the collector.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use festina::{Association, Duration};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;

use super::channel::{self, Channel, receive_any};
use super::intake::{Batch, FileBatch, Incoming, InputCounters, Queue};
use crate::clock;
use crate::disk::{DiskFile as _, RealDisk};
use crate::line::{read_header, read_worth};
use crate::notice::Notice;
use crate::policy::{Policy, Treatment};
use crate::positions::{Entry, Position, Positions};
use crate::record::{MARK_CUT, MARK_UNORDERED, MARK_UNPARSED, Record};
use crate::sender::{FreshCounts, Sender, Standing, SyncResults};
use crate::snapshot::{CollectorStanding, LostBefore, Paths, RelaySnapshot};

/// Minimum interval between two runs of the timed work.
const TICK_MIN: Duration = Duration::from_millis(2);

/// The time between two attempts to use a disk that fails, in microseconds.
const RETRY_AFTER_US: u64 = 500_000;

/// Time limit for the shutdown of an association.
const SHUTDOWN_TIME_MAX: Duration = Duration::from_secs(1);

/// Results of a sync of the spool, and of the positions after it.
type Synced = (SyncResults, io::Result<()>);

/// The event sources of the engine.
pub(super) struct Sources {
    pub(super) lines: mpsc::UnboundedReceiver<Batch>,
    pub(super) files: mpsc::Receiver<FileBatch>,
    pub(super) queue: Queue,
    /// New associations, with the numbers of their collectors.
    pub(super) connections: mpsc::Receiver<(usize, Association)>,
    /// Those for lines that are not repeated.
    pub(super) fresh_connections: mpsc::Receiver<(usize, Association)>,
    pub(super) policies: mpsc::Receiver<Policy>,
    pub(super) stop: oneshot::Receiver<Duration>,
}

pub(super) struct Engine {
    sender: Sender<RealDisk>,
    files: Files,
    policy: Policy,
    inputs: Arc<InputCounters>,
    published: Arc<Mutex<RelaySnapshot>>,
    notice: Notice,
    received: [u64; 8],
    dropped: u64,
    channels: Vec<Channel>,
    /// Collectors that were reported as gone.
    gone: Vec<bool>,
    unsynced: bool,
    /// A sync that another thread waits for.
    syncing: Option<JoinHandle<Synced>>,
    disk_fails: bool,
    /// Time before which a failed disk is not tried again.
    retry_us: u64,
}

/// Read positions of files.
struct Files {
    positions: Positions<RealDisk>,
    /// Lines before this position were taken, and that is not written down yet: no more lines of files are taken until it is.
    unrecorded: Option<(usize, Position)>,
    /// Positions that are durable when the pending sync ends.
    syncing: Vec<(usize, Entry)>,
}

/// Batches that were taken in part when the disk began to fail.
#[derive(Default)]
struct Rest {
    lines: Option<Batch>,
    files: Option<FileBatch>,
}

impl Rest {
    fn is_empty(&self) -> bool {
        self.lines.is_none() && self.files.is_none()
    }
}

impl Engine {
    pub(super) fn new(
        sender: Sender<RealDisk>,
        positions: Positions<RealDisk>,
        policy: Policy,
        inputs: Arc<InputCounters>,
        published: Arc<Mutex<RelaySnapshot>>,
        notice: Notice,
    ) -> Self {
        let collectors = sender.standings().len();
        Self {
            sender,
            files: Files { positions, unrecorded: None, syncing: Vec::new() },
            policy,
            inputs,
            published,
            notice,
            received: [0; 8],
            dropped: 0,
            channels: (0..collectors).map(Channel::new).collect(),
            gone: vec![false; collectors],
            // The first sync shows whether the disk has room for lines.
            unsynced: true,
            syncing: None,
            disk_fails: false,
            retry_us: 0,
        }
    }

    /// Runs until stopped, and then until everything is delivered or its patience ends.
    pub(super) async fn run(mut self, mut sources: Sources, sync_every: Duration) {
        let mut tick = tokio::time::interval(sync_every.max(TICK_MIN));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut deadline, mut turn) = (None, 0);
        let mut rest = Rest::default();
        loop {
            let takes_files = self.files.unrecorded.is_none() && !self.disk_fails;
            let takes_lines = !self.disk_fails || self.sender.has_room();
            sources.queue.withhold(self.disk_fails && !self.sender.is_any_welcomed());
            tokio::select! {
                biased;
                patience = &mut sources.stop, if deadline.is_none() => {
                    deadline = Some(tokio::time::Instant::now() + patience.unwrap_or_default());
                    sources.lines.close();
                }
                Some((index, new)) = sources.connections.recv() => {
                    self.channels[index].begin(new, &mut self.sender, clock::steady_us());
                }
                (index, came) = receive_any(&mut self.channels, turn) => {
                    turn = index + 1;
                    let problem = self.channels[index].take(came, &mut self.sender, clock::steady_us());
                    problem.iter().for_each(|problem| (self.notice)(problem));
                }
                Some((index, new)) = sources.fresh_connections.recv() => {
                    self.channels[index].fresh.begin(new, self.sender.id());
                }
                synced = wait(&mut self.syncing) => self.end_sync(synced),
                _ = tick.tick() => self.keep_time(),
                Some(policy) = sources.policies.recv() => self.policy = policy,
                Some(batch) = next(&mut rest.files, sources.files.recv()), if takes_files => {
                    rest.files = self.take_files(batch);
                }
                Some(batch) = next(&mut rest.lines, sources.lines.recv()), if takes_lines => {
                    rest.lines = self.take_batch(batch);
                }
            }
            let now_us = clock::steady_us();
            for channel in &mut self.channels {
                channel.send(&mut self.sender, now_us);
            }
            if let Some(deadline) = deadline {
                let now = self.publish();
                let finished = sources.lines.is_empty()
                    && sources.files.is_empty()
                    && rest.is_empty()
                    && now.spooled == 0
                    && now.underway == 0;
                if finished || tokio::time::Instant::now() >= deadline {
                    break;
                }
            }
        }
        self.finish(sources, rest).await;
    }

    async fn finish(mut self, mut sources: Sources, mut rest: Rest) {
        sources.lines.close();
        while let Some(batch) = rest.lines.take().or_else(|| sources.lines.try_recv().ok()) {
            batch.lines.iter().for_each(|line| self.take_line(line));
        }
        let now_us = clock::steady_us();
        // Lines that have not arrived by then remain in the spool.
        let important = self.channels.iter_mut().filter_map(|channel| channel.end(&mut self.sender, now_us));
        shut_down(important.collect()).await;
        if self.syncing.is_some() {
            let synced = wait(&mut self.syncing).await;
            self.end_sync(synced);
        }
        let synced = self.sender.sync();
        self.record();
        if synced.is_ok() {
            let entries = self.files.positions.unsafe_entries();
            // If that fails, these lines are read and sent again after a power failure.
            let _ = self.files.positions.record_safe(entries);
            self.files.positions.sync();
        }
        self.tell_of_disk(synced);
        let lost = self.sender.in_memory();
        if lost > 0 {
            (self.notice)(&format!(
                "{lost} reliable lines are lost: the spool could not be written and no collector has answered for them"
            ));
        }
        self.sender.close();
        let fresh = self.channels.iter_mut().filter_map(|channel| channel.fresh.give_up());
        shut_down(fresh.collect()).await;
        self.publish();
    }

    /// Takes lines of a file. They are in files of the spool, and that is written down, before any of them is sent. Returns the rest if the
    /// disk fails.
    fn take_files(&mut self, mut batch: FileBatch) -> Option<FileBatch> {
        self.take_lines(&mut batch.lines);
        if !batch.lines.is_empty() {
            return Some(batch);
        }
        self.files.unrecorded = Some((batch.index, batch.position));
        self.record();
        None
    }

    /// Takes lines and writes them. Returns the rest if the disk fails.
    fn take_batch(&mut self, mut batch: Batch) -> Option<Batch> {
        self.take_lines(&mut batch.lines);
        (!batch.lines.is_empty()).then_some(batch)
    }

    /// Takes and writes lines up to the first failure: those taken until then fit into the reserve. While the disk is known to fail, all are
    /// taken.
    fn take_lines(&mut self, lines: &mut Vec<Incoming>) {
        let has_failed = |engine: &Self| engine.sender.is_failing() && !engine.disk_fails;
        let taken = lines.iter().take_while(|line| {
            let may_take = !has_failed(self);
            if may_take {
                self.take_line(line);
            }
            may_take
        });
        let taken = taken.count();
        lines.drain(..taken);
        self.flush();
    }

    /// Writes the lines taken, so that a failure shows before more are taken. Returns whether that succeeded.
    fn flush(&mut self) -> bool {
        let flushed = self.sender.flush();
        let is_written = flushed.is_ok();
        if !is_written && !self.disk_fails {
            self.tell_of_disk(flushed);
            // A full disk has a reserve, which the next sync uses.
            self.retry_us = 0;
        }
        is_written
    }

    /// Records the read positions of files, if the spool has the lines.
    fn record(&mut self) {
        let Some((index, position)) = self.files.unrecorded.clone() else { return };
        if self.flush() {
            match self.files.positions.record(index, position, self.sender.numbers()) {
                Ok(()) => self.files.unrecorded = None,
                Err(error) => self.tell_of_disk(Err(error)),
            }
        }
        // Positions are synced after lines.
        self.unsynced = true;
    }

    fn take_line(&mut self, incoming: &Incoming) {
        let read = if self.policy.asks_for_app() { read_header } else { read_worth };
        let header = read(&incoming.line);
        let treatment = self.policy.treatment(&header, &incoming.line);
        self.received[header.severity.index()] += 1;
        let mut record = Record {
            sequence: 0,
            received_us: incoming.received_us,
            marks: u8::from(incoming.cut) * MARK_CUT + u8::from(!header.parsed) * MARK_UNPARSED,
            severity: header.severity,
            source: incoming.source.slice(..incoming.source.len().min(255)),
            line: incoming.line.clone(),
        };
        match treatment {
            Treatment::Drop => self.dropped += 1,
            Treatment::Reliable { priority, ordered } => {
                record.marks += u8::from(!ordered) * MARK_UNORDERED;
                self.unsynced = true;
                self.sender.set_time(incoming.arrived_us);
                self.sender.take(record, priority);
            }
            Treatment::Fresh { priority, lifetime, retransmissions } => {
                let channel = &mut self.channels[self.sender.target_now(&record.source)];
                channel.fresh.take(&record, priority, lifetime, retransmissions, incoming.arrived_us);
            }
        }
    }

    fn keep_time(&mut self) {
        let now_us = clock::steady_us();
        if self.unsynced && self.syncing.is_none() && self.retry_us <= now_us {
            self.record();
            self.begin_sync();
        }
        if self.files.unrecorded.is_none() {
            self.files.unrecorded = self.files.positions.outdated(&self.sender.numbers());
            // The next sync records it; until then no file is read.
            self.unsynced |= self.files.unrecorded.is_some();
        }
        self.sender.enforce_limits(now_us);
        self.sender.set_date(clock::date_us());
        self.sender.keep_time(now_us);
        self.channels.iter_mut().for_each(|channel| channel.fresh.forget_expired(now_us));
        if self.channels.len() > 1 {
            self.mind_collectors(now_us);
        }
        self.publish();
    }

    /// Updates the state of several collectors.
    fn mind_collectors(&mut self, now_us: u64) {
        self.channels.iter_mut().for_each(|channel| channel.keep_time(&mut self.sender, now_us));
        let is_any_here = (0..self.channels.len()).any(|index| self.sender.is_welcomed(index));
        for index in 0..self.channels.len() {
            if is_any_here && !self.sender.is_welcomed(index) && self.channels[index].fresh.has_waiting() {
                channel::hand_over(&mut self.channels, index, |source| self.sender.target_now(source));
            }
        }
        for (Standing { name, is_gone, unanswered, .. }, told) in self.sender.standings().iter().zip(&mut self.gone) {
            if std::mem::replace(told, *is_gone) != *is_gone {
                (self.notice)(&match is_gone {
                    true => format!(
                        "the collector {name} is gone: others take its place, and {unanswered} lines that it may have wait for it"
                    ),
                    false => format!("the collector {name} is back"),
                });
            }
        }
    }

    fn begin_sync(&mut self) {
        let synced = self.files.positions.unsafe_entries();
        match self.sender.begin_sync() {
            Ok(jobs) => {
                // Not before: if the spool cannot begin, the positions still have to be synced.
                let positions = self.files.positions.begin_sync();
                self.unsynced = self.files.positions.is_unsynced();
                if jobs.is_empty() && positions.is_none() {
                    self.end_sync_of_files(synced);
                    if self.files.unrecorded.is_none() {
                        self.tell_of_disk(Ok(()));
                    }
                    return;
                }
                self.files.syncing = synced;
                self.syncing = Some(tokio::task::spawn_blocking(|| {
                    (jobs.run(), positions.map_or(Ok(()), |mut file| file.sync()))
                }));
            }
            Err(error) => self.tell_of_disk(Err(error)),
        }
    }

    fn end_sync(&mut self, (synced, positions): Synced) {
        self.syncing = None;
        let entries = std::mem::take(&mut self.files.syncing);
        self.files.positions.end_sync(&positions);
        let synced = self.sender.end_sync(synced);
        self.unsynced |= synced.is_err() || positions.is_err();
        if synced.is_ok() {
            self.end_sync_of_files(entries);
        }
        self.tell_of_disk(synced);
    }

    /// Lines up to these entries are synced.
    fn end_sync_of_files(&mut self, entries: Vec<(usize, Entry)>) {
        if !entries.is_empty() {
            // If that fails, the previous entry counts after a power failure.
            let _ = self.files.positions.record_safe(entries);
            self.unsynced = true;
        }
    }

    fn tell_of_disk(&mut self, synced: io::Result<()>) {
        if synced.is_err() {
            self.retry_us = clock::steady_us() + RETRY_AFTER_US;
        }
        match synced {
            Err(error) if !self.disk_fails => {
                self.disk_fails = true;
                (self.notice)(&format!(
                    "the spool cannot be written: {error}; inputs are held back unless a collector takes their lines"
                ));
            }
            Ok(()) if self.disk_fails => {
                self.disk_fails = false;
                (self.notice)("the spool can be written again");
            }
            _ => {}
        }
    }

    fn publish(&mut self) -> RelaySnapshot {
        let counters = self.sender.counters();
        let of_each: Vec<FreshCounts> = self.channels.iter().map(|channel| channel.fresh.counts()).collect();
        let fresh = of_each.iter().fold(FreshCounts::default(), |sum, counts| sum.plus(counts));
        let inputs = &self.inputs;
        let standings = self.sender.standings().into_iter().zip(&self.channels).zip(of_each);
        let collectors: Vec<_> = standings
            .map(|((standing, channel), fresh)| CollectorStanding {
                address: standing.name,
                connected: standing.is_here,
                gone: standing.is_replaced,
                delivered: standing.delivered + fresh.delivered,
                unanswered: standing.unanswered,
                rtt_us: channel.rtt_us().unwrap_or_default(),
            })
            .collect();
        let snapshot = RelaySnapshot {
            received: self.received,
            before: LostBefore {
                shed_at_input: inputs.shed_overrun.load(Ordering::Relaxed) + inputs.shed_rate.load(Ordering::Relaxed),
                lost_in_kernel: inputs.lost_in_kernel.load(Ordering::Relaxed),
                framing_errors: inputs.framing_errors.load(Ordering::Relaxed),
                refused_connections: inputs.refused_connections.load(Ordering::Relaxed),
                accept_errors: inputs.accept_errors.load(Ordering::Relaxed),
                file_losses: inputs.file_losses.load(Ordering::Relaxed),
            },
            found: counters.found,
            delivered: counters.delivered + fresh.delivered,
            dropped: self.dropped,
            abandoned: fresh.abandoned,
            shed: fresh.shed + counters.shed_full + counters.shed_old + counters.shed_unspooled,
            lost: counters.lost,
            spooled: self.sender.unsettled(),
            in_memory: self.sender.in_memory(),
            underway: fresh.underway,
            spool_bytes: self.sender.spool_bytes(),
            paths: Paths {
                connected: collectors.iter().any(|one| one.connected),
                rtt_us: collectors.iter().map(|one| one.rtt_us).find(|rtt_us| *rtt_us > 0).unwrap_or_default(),
                collectors,
            },
            disk_errors: counters.disk_errors,
            delays: counters.delays,
        };
        self.published.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&snapshot);
        snapshot
    }
}

/// Shuts down associations within the time limit.
async fn shut_down(associations: Vec<Association>) {
    let mut ends = JoinSet::new();
    for association in associations {
        ends.spawn(async move { tokio::time::timeout(SHUTDOWN_TIME_MAX, association.shutdown()).await });
    }
    while ends.join_next().await.is_some() {}
}

/// The rest of a batch, or the next one.
async fn next<B>(rest: &mut Option<B>, next: impl Future<Output = Option<B>>) -> Option<B> {
    match rest.take() {
        Some(batch) => Some(batch),
        None => next.await,
    }
}

/// Waits for the result of a sync; never ready if none is under way.
async fn wait(syncing: &mut Option<JoinHandle<Synced>>) -> Synced {
    match syncing {
        Some(task) => task.await.expect("a sync neither panics nor is aborted"),
        None => std::future::pending().await,
    }
}
