//! Lines that are only worth sending while they are fresh: they wait here, least important last, until their association takes them.

use std::collections::VecDeque;

use bytes::Bytes;
use festina::{Association, ClosedReason, Duration, Message, ReceivedMessage, Stats};
use festina_units::duration;

use super::channel::receive;
use super::courtesy::{Courtesy, Look, ShortestRoundTrip};
use super::transit::Transit;
use crate::policy::PRIORITIES;
use crate::record::Record;
use crate::transport;
use crate::wire::{self, Packet, SenderId};

/// Bytes of lines that wait. Beyond it the oldest of the least important are shed.
const QUEUE_BYTES_MAX: usize = 4 << 20;

/// How long a message of several lines may get: it fits into one packet of the transport.
const MESSAGE_BYTES: usize = 1_150;

/// Lines whose lifetimes end this far apart may share a message, in microseconds. The first to expire decides.
const EXPIRY_SPREAD_US: u64 = 5_000;

/// Messages given to the transport at once.
const MESSAGES_AT_ONCE: usize = 64;

/// Important messages on the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// There are none.
    None,
    /// They are under way.
    Flow,
    /// They wait in a queue.
    Wait,
    /// They wait for their congestion window: whatever else leaves now takes their place.
    WaitHere,
}

/// A line that waits.
struct Waiting {
    record: Bytes,
    expires_us: u64,
    retransmissions: Option<u16>,
}

/// What has become of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FreshCounts {
    pub(super) delivered: u64,
    pub(super) abandoned: u64,
    pub(super) shed: u64,
    /// Not decided yet.
    pub(super) underway: u64,
}

impl FreshCounts {
    /// Those of two.
    pub(super) fn plus(self, more: &Self) -> Self {
        Self {
            delivered: self.delivered + more.delivered,
            abandoned: self.abandoned + more.abandoned,
            shed: self.shed + more.shed,
            underway: self.underway + more.underway,
        }
    }
}

/// Lines and messages.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    lines: u64,
    messages: u64,
}

pub(super) struct FreshLane {
    association: Option<Association>,
    queues: Vec<VecDeque<Waiting>>,
    queued_bytes: usize,
    /// Of the present association.
    sent: Amount,
    delivered: Amount,
    /// What became of those of earlier associations.
    delivered_before: u64,
    abandoned_before: u64,
    shed: u64,
    expired: u64,
    courtesy: Courtesy,
    transit: Transit,
    /// What came and was not looked at yet.
    inbox: Vec<ReceivedMessage>,
}

impl FreshLane {
    pub(super) fn new() -> Self {
        Self {
            association: None,
            queues: (0..PRIORITIES).map(|_| VecDeque::new()).collect(),
            queued_bytes: 0,
            sent: Amount::default(),
            delivered: Amount::default(),
            delivered_before: 0,
            abandoned_before: 0,
            shed: 0,
            expired: 0,
            courtesy: Courtesy::new(),
            transit: Transit::default(),
            inbox: Vec::new(),
        }
    }

    /// There is a new association; an older one is over.
    pub(super) fn begin(&mut self, association: Association, sender: SenderId) {
        self.end();
        if association.try_send(Message::new(Packet::HelloFresh { sender }.encode())).is_ok() {
            (self.courtesy, self.transit) = (Courtesy::new(), Transit::default());
            self.association = Some(association);
        }
    }

    /// The association is over: what it did not deliver is abandoned.
    pub(super) fn end(&mut self) {
        self.association = None;
        self.inbox.clear();
        self.delivered_before += self.delivered.lines;
        self.abandoned_before += self.sent.lines - self.delivered.lines;
        (self.sent, self.delivered) = (Amount::default(), Amount::default());
    }

    /// What waits will not be sent any more.
    pub(super) fn give_up(&mut self) -> Option<Association> {
        let association = self.association.take();
        self.end();
        self.expired += self.queues.iter_mut().map(|queue| queue.drain(..).count() as u64).sum::<u64>();
        self.queued_bytes = 0;
        association
    }

    /// Takes a line that arrived at a time in microseconds, by the clock that this lane is given.
    pub(super) fn take(
        &mut self,
        record: &Record,
        priority: u8,
        lifetime: Option<Duration>,
        retransmissions: Option<u16>,
        arrived_us: u64,
    ) {
        let lifetime_us = lifetime.map_or(u64::MAX, |lifetime| duration::saturating_nanos(lifetime) / 1_000);
        let expires_us = arrived_us.saturating_add(lifetime_us);
        self.put(priority, Waiting { record: record.encode(), expires_us, retransmissions });
    }

    fn put(&mut self, priority: u8, waiting: Waiting) {
        self.queued_bytes += waiting.record.len();
        self.queues[usize::from(priority.min(PRIORITIES - 1))].push_back(waiting);
        while self.queued_bytes > QUEUE_BYTES_MAX
            && let Some(shed) = self.queues.iter_mut().rev().find_map(VecDeque::pop_front)
        {
            self.queued_bytes -= shed.record.len();
            self.shed += 1;
        }
    }

    /// Whether lines wait for the association to take them.
    pub(super) fn has_waiting(&self) -> bool {
        self.queued_bytes > 0
    }

    /// Takes what waits for another association, and gives it to those that `target` says by their source.
    pub(super) fn hand_over(channels: &mut [super::channel::Channel], from: usize, target: impl Fn(&[u8]) -> usize) {
        let lane = &mut channels[from].fresh;
        lane.queued_bytes = 0;
        let queues: Vec<_> = lane.queues.iter_mut().map(std::mem::take).collect();
        for (priority, queue) in (0_u8..).zip(queues) {
            for waiting in queue {
                let to = Record::decode(&waiting.record).map_or(from, |record| target(&record.source));
                channels[to].fresh.put(priority, waiting);
            }
        }
    }

    /// Gives the association as much as may be under way, beside others on this path, whose round trips `shortest` remembers for both.
    pub(super) async fn send(&mut self, others: Others, shortest: &mut ShortestRoundTrip, now_us: u64) {
        let Some(association) = self.association.clone() else { return };
        let makes_room = others == Others::Wait || shortest.is_on_trial();
        // Important lines measure round trips without these. When there are none, these have to.
        let measures = shortest.is_on_trial() && others != Others::None;
        if others == Others::WaitHere || measures || self.courtesy.rests(makes_room, now_us) {
            return;
        }
        loop {
            let Stats { path: stats, sent, .. } = association.stats();
            let mut used = stats.send_buffer_bytes;
            if let Some(srtt) = stats.srtt {
                let micros = |time| duration::saturating_nanos(time) / 1_000;
                let queue_us = shortest.excess_us(micros(srtt), micros(stats.rttvar), now_us);
                let age_us = self.transit.age_us(sent.messages_acked + sent.messages_abandoned, now_us);
                // On a busy machine these take long without a queue: half of the time is forgiven, not so to important ones.
                let too_old = shortest.is_too_old(age_us / 2);
                let too_long = others == Others::Wait || shortest.is_too_long(queue_us) || too_old;
                let (rtt_us, took_long) = (micros(srtt).max(age_us), shortest.is_too_old(self.transit.took_us()));
                let shortest_us = shortest.us().unwrap_or(rtt_us);
                let messages = [sent.messages, sent.messages_acked, sent.messages_abandoned];
                let (used_bytes, cwnd_bytes, at_us) = (used, stats.cwnd_bytes, now_us);
                self.courtesy.move_window(Look {
                    rtt_us,
                    shortest_us,
                    too_long,
                    took_long,
                    has_others: others != Others::None,
                    used_bytes,
                    cwnd_bytes,
                    messages,
                    at_us,
                });
            }
            let mut messages = Vec::new();
            while messages.len() < MESSAGES_AT_ONCE
                && (used == 0 || used + MESSAGE_BYTES as u64 <= self.courtesy.window_bytes())
                && let Some((message, lines)) = self.next_message(now_us)
            {
                used += message.payload.len() as u64;
                self.sent.lines += lines;
                self.sent.messages += 1;
                messages.push(message);
            }
            if !messages.is_empty() {
                self.courtesy.left(makes_room, now_us);
            }
            // An association that has ended is noticed where its messages are received.
            if messages.is_empty() || association.send_many(messages).await.is_err() {
                return;
            }
            self.transit.left(association.stats().sent.messages, now_us);
        }
    }

    /// The next message and how many lines are in it.
    fn next_message(&mut self, now_us: u64) -> Option<(Message, u64)> {
        self.forget_expired(now_us);
        let (priority, queue) = (0_u8..).zip(&mut self.queues).find(|(_, queue)| !queue.is_empty())?;
        let mut payload = wire::begin_fresh();
        let (mut lines, mut first) = (0, None);
        while let Some(waiting) = queue.front() {
            let (expires_us, retransmissions) = *first.get_or_insert((waiting.expires_us, waiting.retransmissions));
            let alike = waiting.retransmissions == retransmissions
                && (expires_us..=expires_us.saturating_add(EXPIRY_SPREAD_US)).contains(&waiting.expires_us);
            if lines > 0 && (!alike || payload.len() + waiting.record.len() > MESSAGE_BYTES) {
                break;
            }
            wire::put_record(&mut payload, &waiting.record);
            self.queued_bytes -= waiting.record.len();
            lines += 1;
            queue.pop_front();
        }
        let (expires_us, retransmissions) = first?;
        let mut message = Message::new(payload.freeze()).on_stream(transport::fresh_stream(priority)).unordered();
        message = message.with_priority(u16::from(priority));
        message.lifetime =
            (expires_us != u64::MAX).then(|| Duration::from_micros(expires_us.saturating_sub(now_us).max(1)));
        message.max_retransmissions = retransmissions;
        Some((message, lines))
    }

    /// Gives up what has waited too long. In each queue lines come nearly in the order in which they expire.
    pub(super) fn forget_expired(&mut self, now_us: u64) {
        for queue in &mut self.queues {
            while queue.front().is_some_and(|waiting| waiting.expires_us <= now_us) {
                let expired = queue.pop_front();
                self.queued_bytes -= expired.map_or(0, |expired| expired.record.len());
                self.expired += 1;
            }
        }
    }

    /// Waits for what the collector says; never ready without an association.
    pub(super) async fn receive(&mut self) -> Result<usize, ClosedReason> {
        receive(self.association.as_ref(), &mut self.inbox).await
    }

    /// Takes what the collector said, and whether the association goes on.
    pub(super) fn handle(&mut self, goes_on: bool) {
        for message in std::mem::take(&mut self.inbox) {
            if let Ok(Packet::Acks { fresh, fresh_messages, .. }) = Packet::decode(message.payload) {
                let (lines, messages) = (fresh.min(self.sent.lines), fresh_messages.min(self.sent.messages));
                self.delivered = Amount { lines, messages };
            } else if let Some(association) = &self.association {
                association.abort("the collector's answer makes no sense");
            }
        }
        if !goes_on {
            self.end();
        }
    }

    /// What has become of the lines. Of messages that were given up the transport says how many they were, but not how many lines they had:
    /// while others are under way, they count as long as those on average.
    pub(super) fn counts(&self) -> FreshCounts {
        let given_up =
            self.association.as_ref().map(|association| association.stats().abandoned.total()).unwrap_or_default();
        let open = Amount {
            lines: self.sent.lines - self.delivered.lines,
            messages: self.sent.messages - self.delivered.messages,
        };
        let abandoned_messages = (given_up.sent + given_up.unsent).min(open.messages);
        let abandoned = match open.messages {
            0 => open.lines,
            messages => open.lines * abandoned_messages / messages,
        };
        let waiting = self.queues.iter().map(|queue| queue.len() as u64).sum::<u64>();
        FreshCounts {
            delivered: self.delivered_before + self.delivered.lines,
            abandoned: self.abandoned_before + self.expired + abandoned,
            shed: self.shed,
            underway: open.lines - abandoned + waiting,
        }
    }
}
