//! The task that moves lines: from inputs by policy into the spool and to the collector.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use festina::{Association, ClosedReason, Duration, Message, PathStats, ReceivedMessage};
use festina_units::duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::Notice;
use super::copies::Copies;
use super::courtesy::ShortestRoundTrip;
use super::fresh::{FreshLane, Others};
use super::gathering::Gathering;
use super::input::{Batch, Incoming, InputCounters};
use super::transit::Transit;
use crate::clock;
use crate::disk::RealDisk;
use crate::line::{read_header, read_worth};
use crate::policy::{PRIORITIES, Policy, Treatment};
use crate::record::{MARK_CUT, MARK_UNORDERED, MARK_UNPARSED, Record};
use crate::sender::{Outgoing, Sender, SyncResults};
use crate::snapshot::{LostBefore, RelaySnapshot};
use crate::transport;

/// Messages given to the transport at once.
const MESSAGES_AT_ONCE: usize = 32;

/// Bytes in the transport's send buffer beyond which lines of lower priority wait, and all wait: there is always room for what is more
/// important.
const BUFFER_BYTES: [u64; 2] = [2 << 20, 3 << 20];

/// The shortest time between two looks at what has to be done by the clock.
const TICK_MIN: Duration = Duration::from_millis(2);

/// What the engine listens to.
pub(super) struct Sources {
    pub(super) lines: mpsc::UnboundedReceiver<Batch>,
    pub(super) connections: mpsc::Receiver<Association>,
    /// Those for lines that are not repeated.
    pub(super) fresh_connections: mpsc::Receiver<Association>,
    pub(super) policies: mpsc::Receiver<Policy>,
    pub(super) stop: oneshot::Receiver<Duration>,
}

pub(super) struct Engine {
    sender: Sender<RealDisk>,
    policy: Policy,
    inputs: Arc<InputCounters>,
    published: Arc<Mutex<RelaySnapshot>>,
    notice: Notice,
    received: [u64; 8],
    dropped: u64,
    fresh: FreshLane,
    shortest: ShortestRoundTrip,
    /// Of important lines.
    transit: Transit,
    copies: Copies,
    gathering: Gathering,
    unsynced: bool,
    /// Another thread waits for the disk.
    syncing: Option<JoinHandle<SyncResults>>,
    disk_fails: bool,
}

impl Engine {
    pub(super) fn new(
        sender: Sender<RealDisk>,
        policy: Policy,
        inputs: Arc<InputCounters>,
        published: Arc<Mutex<RelaySnapshot>>,
        notice: Notice,
    ) -> Self {
        Self {
            sender,
            policy,
            inputs,
            published,
            notice,
            received: [0; 8],
            dropped: 0,
            fresh: FreshLane::new(),
            shortest: ShortestRoundTrip::default(),
            transit: Transit::default(),
            copies: Copies::default(),
            gathering: Gathering::default(),
            unsynced: false,
            syncing: None,
            disk_fails: false,
        }
    }

    /// Works until it is asked to stop, and then until all is delivered or its patience ends.
    pub(super) async fn run(mut self, mut sources: Sources, sync_every: Duration) {
        let mut tick = tokio::time::interval(sync_every.max(TICK_MIN));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut association: Option<Association> = None;
        let (mut messages, mut fresh_messages) = (Vec::new(), Vec::new());
        let mut deadline = None;
        loop {
            tokio::select! {
                biased;
                patience = &mut sources.stop, if deadline.is_none() => {
                    deadline = Some(tokio::time::Instant::now() + patience.unwrap_or_default());
                    sources.lines.close();
                }
                Some(new) = sources.connections.recv() => {
                    self.end_association();
                    association = Some(new).filter(|new| self.begin_association(new));
                }
                received = receive(association.as_ref(), &mut messages) => {
                    if !self.take_answers(association.as_ref(), &received, &mut messages) {
                        association = None;
                    }
                }
                Some(new) = sources.fresh_connections.recv() => self.fresh.begin(new, self.sender.id()),
                received = self.fresh.receive(&mut fresh_messages) => self.fresh.handle(&received, &mut fresh_messages),
                synced = wait(&mut self.syncing) => self.end_sync(synced),
                _ = tick.tick() => self.keep_time(association.as_ref()),
                Some(policy) = sources.policies.recv() => self.policy = policy,
                Some(batch) = sources.lines.recv() => {
                    batch.lines.iter().for_each(|line| self.take_line(line));
                    // The next sync tries again, and speaks of what fails.
                    let _ = self.sender.flush();
                }
            }
            self.send(association.as_ref(), clock::now_us()).await;
            if let Some(deadline) = deadline {
                let now = self.publish(association.as_ref());
                let finished = sources.lines.is_empty() && now.spooled == 0 && now.underway == 0;
                if finished || tokio::time::Instant::now() >= deadline {
                    break;
                }
            }
        }
        self.finish(association).await;
    }

    /// Sends what there is room for.
    async fn send(&mut self, association: Option<&Association>, now_us: u64) {
        let mut others = Others::None;
        if let Some(association) = association {
            if !self.gathering.lasts(now_us) {
                self.send_reliable(association, now_us).await;
            }
            let stats = association.stats();
            self.transit.left(stats.sent.messages, now_us);
            let queued = self.has_queue(&stats.path, now_us);
            let age_us = self.transit.age_us(stats.sent.messages_acked + stats.sent.messages_abandoned, now_us);
            let waits = queued || self.shortest.is_too_old(age_us);
            self.gathering.look(waits, stats.sent.messages, self.shortest.us(), now_us);
            self.send_copies(association, waits, now_us).await;
            others = match &stats.path {
                path if path.send_buffer_bytes > path.cwnd_bytes => Others::WaitHere,
                _ if waits => Others::Wait,
                path if path.messages_pending > 0 => Others::Flow,
                _ => Others::None,
            };
        }
        self.fresh.send(others, &mut self.shortest, now_us).await;
    }

    async fn finish(mut self, association: Option<Association>) {
        if let Some(association) = association {
            // What has not arrived by then is in the spool.
            let _ = tokio::time::timeout(Duration::from_secs(1), association.shutdown()).await;
        }
        if self.syncing.is_some() {
            let synced = wait(&mut self.syncing).await;
            self.end_sync(synced);
        }
        let synced = self.sender.sync();
        self.tell_of_disk(synced);
        self.end_association();
        if let Some(association) = self.fresh.give_up() {
            let _ = tokio::time::timeout(Duration::from_secs(1), association.shutdown()).await;
        }
        self.publish(None);
    }

    fn begin_association(&mut self, association: &Association) -> bool {
        let hello = self.sender.connected();
        if association.try_send(Message::new(hello)).is_err() {
            self.sender.disconnected();
            return false;
        }
        (self.shortest, self.copies) = (ShortestRoundTrip::default(), Copies::default());
        (self.transit, self.gathering) = (Transit::default(), Gathering::default());
        true
    }

    fn end_association(&mut self) {
        self.sender.disconnected();
    }

    /// Takes what the collector said. Returns whether the association goes on.
    fn take_answers(
        &mut self,
        association: Option<&Association>,
        received: &Result<usize, ClosedReason>,
        messages: &mut Vec<ReceivedMessage>,
    ) -> bool {
        let now_us = clock::now_us();
        for message in messages.drain(..) {
            if let Err(error) = self.sender.handle(message.payload, now_us) {
                (self.notice)(&format!("the association is ended: {error}"));
                if let Some(association) = association {
                    association.abort("the collector's answer makes no sense");
                }
                self.end_association();
                return false;
            }
        }
        if received.is_err() {
            self.end_association();
        }
        received.is_ok()
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
                self.sender.take(record, priority);
            }
            Treatment::Fresh { priority, lifetime, retransmissions } => {
                self.fresh.take(&record, priority, lifetime, retransmissions);
            }
        }
    }

    /// Whether packets of this association wait too long in the network.
    fn has_queue(&mut self, path: &PathStats, now_us: u64) -> bool {
        let micros = |time| duration::saturating_nanos(time) / 1_000;
        let Some(srtt) = path.srtt else { return false };
        let queue_us = self.shortest.excess_us(micros(srtt), micros(path.rttvar), now_us);
        self.shortest.is_too_long(queue_us)
    }

    /// Sends the copies that are due.
    async fn send_copies(&mut self, association: &Association, queued: bool, now_us: u64) {
        let sent = association.stats().sent;
        // A chunk that was sent again unasked, a copy or a ride, says nothing of losses.
        let again = &sent.retransmitted;
        self.copies.look(sent.chunks, again.timeout + again.fast + again.probe + again.reported_bundled);
        if queued {
            self.copies.forbid();
        }
        while let Some(due) = self.copies.due(now_us) {
            if let Some(copy) = self.sender.copy(due.priority, due.slot, due.last)
                && association.send_many([message_of(copy)]).await.is_err()
            {
                return;
            }
        }
    }

    async fn send_reliable(&mut self, association: &Association, now_us: u64) {
        loop {
            let path = association.stats().path;
            let rtt_us = path.srtt.map_or(0, |srtt| duration::saturating_nanos(srtt) / 1_000);
            let buffered = path.send_buffer_bytes;
            let below = match buffered {
                bytes if bytes >= BUFFER_BYTES[1] => return,
                bytes if bytes >= BUFFER_BYTES[0] => 1,
                _ => PRIORITIES,
            };
            let outgoing = std::iter::from_fn(|| self.sender.next_message(below)).take(MESSAGES_AT_ONCE);
            let outgoing: Vec<_> = outgoing.collect();
            outgoing.iter().for_each(|message| self.copies.note(message, rtt_us, now_us));
            let messages: Vec<Message> = outgoing.into_iter().map(message_of).collect();
            // An association that has ended is noticed where its messages are received, and all is sent again over the next one.
            if messages.is_empty() || association.send_many(messages).await.is_err() {
                return;
            }
        }
    }

    fn keep_time(&mut self, association: Option<&Association>) {
        if self.unsynced && self.syncing.is_none() {
            self.begin_sync();
        }
        let now_us = clock::now_us();
        self.sender.enforce_limits(now_us);
        self.fresh.forget_expired(now_us);
        self.publish(association);
    }

    fn begin_sync(&mut self) {
        match self.sender.begin_sync() {
            Ok(jobs) => {
                self.unsynced = false;
                self.syncing = (!jobs.is_empty()).then(|| tokio::task::spawn_blocking(|| jobs.run()));
            }
            Err(error) => self.tell_of_disk(Err(error)),
        }
    }

    fn end_sync(&mut self, synced: SyncResults) {
        self.syncing = None;
        let synced = self.sender.end_sync(synced);
        self.unsynced |= synced.is_err();
        self.tell_of_disk(synced);
    }

    fn tell_of_disk(&mut self, synced: io::Result<()>) {
        match synced {
            Err(error) if !self.disk_fails => {
                self.disk_fails = true;
                (self.notice)(&format!(
                    "the spool cannot be written: {error}; lines are safe only once they are delivered"
                ));
            }
            Ok(()) if self.disk_fails => {
                self.disk_fails = false;
                (self.notice)("the spool can be written again");
            }
            _ => {}
        }
    }

    fn publish(&mut self, association: Option<&Association>) -> RelaySnapshot {
        let (counters, fresh) = (self.sender.counters(), self.fresh.counts());
        let stats = association.map(Association::stats).unwrap_or_default();
        let inputs = &self.inputs;
        let snapshot = RelaySnapshot {
            received: self.received,
            before: LostBefore {
                shed_at_input: inputs.shed_overrun.load(Ordering::Relaxed) + inputs.shed_rate.load(Ordering::Relaxed),
                lost_in_kernel: inputs.lost_in_kernel.load(Ordering::Relaxed),
            },
            found: counters.found,
            delivered: counters.delivered + fresh.delivered,
            dropped: self.dropped,
            abandoned: fresh.abandoned,
            shed: fresh.shed + counters.shed_full + counters.shed_old + counters.shed_unspooled,
            lost: counters.lost,
            spooled: self.sender.unsettled(),
            underway: fresh.underway,
            spool_bytes: self.sender.spool_bytes(),
            connected: self.sender.is_welcomed(),
            rtt_us: stats.path.srtt.map_or(0, |srtt| duration::saturating_nanos(srtt) / 1_000),
            disk_errors: counters.disk_errors,
            delays: counters.delays,
        };
        self.published.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&snapshot);
        snapshot
    }
}

fn message_of(outgoing: Outgoing) -> Message {
    let stream = transport::reliable_stream(outgoing.priority, outgoing.slot);
    Message { unordered: outgoing.unordered, ..Message::new(outgoing.payload).on_stream(stream) }
}

/// Messages of the collector; never ready without an association.
async fn receive(
    association: Option<&Association>,
    messages: &mut Vec<ReceivedMessage>,
) -> Result<usize, ClosedReason> {
    match association {
        Some(association) => association.recv_many(messages, MESSAGES_AT_ONCE).await,
        None => std::future::pending().await,
    }
}

/// What the disk has answered; never ready if nobody waits for it.
async fn wait(syncing: &mut Option<JoinHandle<SyncResults>>) -> SyncResults {
    match syncing {
        Some(task) => task.await.expect("a sync does not panic, and nobody aborts it"),
        None => std::future::pending().await,
    }
}
