//! The task that moves lines: from inputs by policy into the spool and to the collector.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use festina::{Association, ClosedReason, Duration, Message, ReceivedMessage};
use festina_units::duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::Notice;
use super::input::{Batch, Incoming, InputCounters};
use crate::clock;
use crate::disk::RealDisk;
use crate::line::read_header;
use crate::policy::{PRIORITIES, Policy, Treatment};
use crate::record::{MARK_CUT, MARK_UNORDERED, MARK_UNPARSED, Record};
use crate::sender::{Sender, SyncResults};
use crate::snapshot::RelaySnapshot;
use crate::{transport, wire};

/// Messages given to the transport at once.
const MESSAGES_AT_ONCE: usize = 32;

/// Bytes in the transport's send buffer beyond which fresh lines are shed, reliable ones of lower priority wait, and all wait: there is
/// always room for what is more important.
const BUFFER_BYTES: [u64; 3] = [1 << 20, 2 << 20, 3 << 20];

/// Fresh lines that wait for an association.
const PARKED_MAX: usize = 4_096;

/// The shortest time between two looks at what has to be done by the clock.
const TICK_MIN: Duration = Duration::from_millis(2);

/// What the engine listens to.
pub(super) struct Sources {
    pub(super) lines: mpsc::UnboundedReceiver<Batch>,
    pub(super) connections: mpsc::Receiver<Association>,
    pub(super) policies: mpsc::Receiver<Policy>,
    pub(super) stop: oneshot::Receiver<Duration>,
}

/// A fresh line without an association.
struct Parked {
    message: Message,
    expires_us: u64,
}

/// What happened to fresh lines.
#[derive(Debug, Default)]
struct Fresh {
    /// Given to the present association.
    sent: u64,
    /// What became of those of earlier associations.
    delivered_before: u64,
    abandoned_before: u64,
    shed: u64,
    expired_parked: u64,
}

pub(super) struct Engine {
    sender: Sender<RealDisk>,
    policy: Policy,
    inputs: Arc<InputCounters>,
    published: Arc<Mutex<RelaySnapshot>>,
    notice: Notice,
    received: [u64; 8],
    dropped: u64,
    fresh: Fresh,
    parked: VecDeque<Parked>,
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
            fresh: Fresh::default(),
            parked: VecDeque::new(),
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
        let mut messages = Vec::new();
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
                synced = wait(&mut self.syncing) => self.end_sync(synced),
                _ = tick.tick() => self.keep_time(association.as_ref()),
                Some(policy) = sources.policies.recv() => self.policy = policy,
                Some(batch) = sources.lines.recv() => {
                    for line in &batch.lines {
                        self.take_line(line, association.as_ref());
                    }
                }
            }
            if let Some(association) = &association {
                self.send_reliable(association).await;
            }
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
        self.fresh.expired_parked += self.parked.len() as u64;
        self.parked.clear();
        self.publish(None);
    }

    fn begin_association(&mut self, association: &Association) -> bool {
        let hello = self.sender.connected();
        if association.try_send(Message::new(hello)).is_err() {
            self.sender.disconnected();
            return false;
        }
        let now_us = clock::now_us();
        for parked in std::mem::take(&mut self.parked) {
            if parked.expires_us > now_us {
                let left = Duration::from_micros(parked.expires_us - now_us);
                self.send_fresh(parked.message.with_lifetime(left), Some(association), parked.expires_us);
            } else {
                self.fresh.expired_parked += 1;
            }
        }
        true
    }

    fn end_association(&mut self) {
        let delivered = self.sender.fresh_delivered().min(self.fresh.sent);
        self.fresh.delivered_before += delivered;
        self.fresh.abandoned_before += self.fresh.sent - delivered;
        self.fresh.sent = 0;
        self.sender.disconnected();
    }

    /// Takes what the collector said. Returns whether the association goes on.
    fn take_answers(
        &mut self,
        association: Option<&Association>,
        received: &Result<usize, ClosedReason>,
        messages: &mut Vec<ReceivedMessage>,
    ) -> bool {
        for message in messages.drain(..) {
            if let Err(error) = self.sender.handle(message.payload) {
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

    fn take_line(&mut self, incoming: &Incoming, association: Option<&Association>) {
        let header = read_header(&incoming.line);
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
                let stream = transport::fresh_stream(priority);
                let mut message = Message::new(wire::fresh(&record)).on_stream(stream).unordered();
                message = message.with_priority(u16::from(priority));
                message.lifetime = lifetime;
                message.max_retransmissions = retransmissions;
                let lifetime_us = lifetime.map_or(u64::MAX, |lifetime| duration::saturating_nanos(lifetime) / 1_000);
                self.send_fresh(message, association, incoming.received_us.saturating_add(lifetime_us));
            }
        }
    }

    fn send_fresh(&mut self, message: Message, association: Option<&Association>, expires_us: u64) {
        let Some(association) = association else {
            if self.parked.len() >= PARKED_MAX {
                self.parked.pop_front();
                self.fresh.shed += 1;
            }
            self.parked.push_back(Parked { message, expires_us });
            return;
        };
        let full = association.stats().path.send_buffer_bytes >= BUFFER_BYTES[0];
        if !full && association.try_send(message).is_ok() {
            self.fresh.sent += 1;
        } else {
            self.fresh.shed += 1;
        }
    }

    async fn send_reliable(&mut self, association: &Association) {
        loop {
            let buffered = association.stats().path.send_buffer_bytes;
            let below = match buffered {
                bytes if bytes >= BUFFER_BYTES[2] => return,
                bytes if bytes >= BUFFER_BYTES[1] => 1,
                _ => PRIORITIES,
            };
            let outgoing = std::iter::from_fn(|| self.sender.next_message(below)).take(MESSAGES_AT_ONCE);
            let messages: Vec<Message> = outgoing
                .map(|outgoing| Message {
                    unordered: outgoing.unordered,
                    ..Message::new(outgoing.payload)
                        .on_stream(transport::reliable_stream(outgoing.priority, outgoing.slot))
                })
                .collect();
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
        while self.parked.front().is_some_and(|parked| parked.expires_us <= now_us) {
            self.parked.pop_front();
            self.fresh.expired_parked += 1;
        }
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
        let (counters, fresh) = (self.sender.counters(), &self.fresh);
        let stats = association.map(Association::stats).unwrap_or_default();
        let given_up = stats.abandoned.total();
        let fresh_delivered = self.sender.fresh_delivered().min(fresh.sent);
        let abandoned = (given_up.sent + given_up.unsent).min(fresh.sent - fresh_delivered);
        let inputs = &self.inputs;
        let snapshot = RelaySnapshot {
            received: self.received,
            shed_at_input: inputs.shed_overrun.load(Ordering::Relaxed) + inputs.shed_rate.load(Ordering::Relaxed),
            lost_in_kernel: inputs.lost_in_kernel.load(Ordering::Relaxed),
            found: counters.found,
            delivered: counters.delivered + fresh.delivered_before + fresh_delivered,
            dropped: self.dropped,
            abandoned: fresh.abandoned_before + fresh.expired_parked + abandoned,
            shed: fresh.shed + counters.shed_full + counters.shed_old + counters.shed_unspooled,
            lost: counters.lost,
            spooled: self.sender.unsettled(),
            underway: fresh.sent - fresh_delivered - abandoned + self.parked.len() as u64,
            spool_bytes: self.sender.spool_bytes(),
            connected: self.sender.is_welcomed(),
            rtt_us: stats.path.srtt.map_or(0, |srtt| duration::saturating_nanos(srtt) / 1_000),
            disk_errors: counters.disk_errors,
        };
        self.published.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&snapshot);
        snapshot
    }
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
