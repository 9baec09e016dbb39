//! The relay's other half, without sockets: lines that are sent once, as long as they are fresh, in messages for one collector.
//!
//! Order of calls: with each new association, send what [`connected`](FreshQueue::connected) returns on stream 0; then send what
//! [`next_message`](FreshQueue::next_message) returns, and give answers to [`handle`](FreshQueue::handle).

use std::collections::VecDeque;

use bytes::Bytes;
use festina_units::{Duration, duration};

use super::PeerError;
use crate::policy::PRIORITIES;
use crate::record::Record;
use crate::wire::{self, Packet, SenderId};

/// Bytes of lines that wait. Beyond it the oldest of the least important are shed.
const QUEUE_BYTES_MAX: usize = 4 << 20;

/// Maximum length of a message of several lines: it fits into one packet of the transport.
pub(crate) const MESSAGE_BYTES: usize = 1_150;

/// Maximum difference between the ends of the lifetimes of lines in one message, in microseconds. The first to expire decides.
const EXPIRY_SPREAD_US: u64 = 5_000;

/// A line that waits.
struct Waiting {
    record: Bytes,
    expires_us: u64,
    retransmissions: Option<u16>,
}

/// The fate of fresh lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreshCounts {
    /// The collector has written them.
    pub delivered: u64,
    /// Too old, too often repeated, or the association ended first.
    pub abandoned: u64,
    /// Dropped because too many waited.
    pub shed: u64,
    /// Waiting or sent, and not answered.
    pub underway: u64,
}

impl FreshCounts {
    /// Returns the sum of two.
    #[must_use]
    pub fn plus(self, more: &Self) -> Self {
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

/// A message of fresh lines for the transport, unordered.
#[derive(Clone, PartialEq, Eq)]
pub struct FreshMessage {
    /// The priority of its lines.
    pub priority: u8,
    /// Time limit for its delivery; `None` means no limit.
    pub lifetime: Option<Duration>,
    /// Maximum number of retransmissions; `None` means no limit.
    pub retransmissions: Option<u16>,
    /// The bytes.
    pub payload: Bytes,
}

/// Fresh lines for one collector.
pub struct FreshQueue {
    queues: Vec<VecDeque<Waiting>>,
    queued_bytes: usize,
    /// Whether the collector's transport has acknowledged this association's first message, which identifies the relay.
    introduced: bool,
    /// Of the present association.
    sent: Amount,
    delivered: Amount,
    /// Of earlier associations.
    delivered_before: u64,
    abandoned_before: u64,
    shed: u64,
    expired: u64,
}

impl FreshQueue {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self {
            queues: (0..PRIORITIES).map(|_| VecDeque::new()).collect(),
            queued_bytes: 0,
            introduced: false,
            sent: Amount::default(),
            delivered: Amount::default(),
            delivered_before: 0,
            abandoned_before: 0,
            shed: 0,
            expired: 0,
        }
    }

    /// Starts a new association, which replaces an older one. Returns its first message.
    pub fn connected(&mut self, sender: SenderId) -> Bytes {
        self.disconnected();
        Packet::HelloFresh { sender }.encode()
    }

    /// Ends the association: lines that it did not deliver are abandoned.
    pub fn disconnected(&mut self) {
        self.introduced = false;
        self.delivered_before += self.delivered.lines;
        self.abandoned_before += self.sent.lines - self.delivered.lines;
        (self.sent, self.delivered) = (Amount::default(), Amount::default());
    }

    /// Abandons all lines that wait.
    pub fn give_up(&mut self) {
        self.disconnected();
        self.expired += self.queues.iter_mut().map(|queue| queue.drain(..).count() as u64).sum::<u64>();
        self.queued_bytes = 0;
    }

    /// Takes a line that arrived at a time in microseconds, by the clock that this queue is given.
    pub fn take(
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

    /// Whether lines wait to be sent.
    pub fn has_waiting(&self) -> bool {
        self.queued_bytes > 0
    }

    /// Moves all lines that wait to other queues. `put` gets each with its source, and calls [`MovedLine::put_into`].
    pub(crate) fn drain(&mut self, mut put: impl FnMut(Bytes, MovedLine)) {
        self.queued_bytes = 0;
        for (priority, queue) in (0_u8..).zip(&mut self.queues) {
            for waiting in queue.drain(..) {
                let source = Record::decode(&waiting.record).map_or_else(Bytes::new, |record| record.source);
                put(source, MovedLine { priority, waiting });
            }
        }
    }

    /// Returns the next message, of at most this many bytes unless it has one line. `messages_acked` is the number of messages of this association
    /// that the collector's transport has acknowledged.
    ///
    /// Nothing is returned before the first message is acknowledged. Fresh lines would overtake it if its packet is lost, and a collector refuses
    /// lines of an association that has not identified itself.
    pub fn next_message(&mut self, messages_acked: u64, now_us: u64) -> Option<FreshMessage> {
        self.introduced |= messages_acked > 0;
        self.forget_expired(now_us);
        if !self.introduced {
            return None;
        }
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
        self.sent.lines += lines;
        self.sent.messages += 1;
        let lifetime =
            (expires_us != u64::MAX).then(|| Duration::from_micros(expires_us.saturating_sub(now_us).max(1)));
        Some(FreshMessage { priority, lifetime, retransmissions, payload: payload.freeze() })
    }

    /// Abandons lines whose lifetime has ended. Each queue is nearly in the order of expiry.
    pub fn forget_expired(&mut self, now_us: u64) {
        for queue in &mut self.queues {
            while queue.front().is_some_and(|waiting| waiting.expires_us <= now_us) {
                let expired = queue.pop_front();
                self.queued_bytes -= expired.map_or(0, |expired| expired.record.len());
                self.expired += 1;
            }
        }
    }

    /// Takes a message of the collector.
    ///
    /// # Errors
    /// If it makes no sense: the association has to end.
    pub fn handle(&mut self, message: Bytes) -> Result<(), PeerError> {
        let Packet::Acks { fresh, fresh_messages, .. } = Packet::decode(message)? else {
            return Err(PeerError::NoCollector);
        };
        let (lines, messages) = (fresh.min(self.sent.lines), fresh_messages.min(self.sent.messages));
        self.delivered = Amount { lines, messages };
        Ok(())
    }

    /// Returns the fate of all lines. `given_up` counts messages of this association that the transport has abandoned. Their number of lines is
    /// unknown, so they count as many as unanswered ones on average.
    pub fn counts(&self, given_up: u64) -> FreshCounts {
        let open = Amount {
            lines: self.sent.lines - self.delivered.lines,
            messages: self.sent.messages - self.delivered.messages,
        };
        let abandoned_messages = given_up.min(open.messages);
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

impl Default for FreshQueue {
    fn default() -> Self {
        Self::new()
    }
}

/// A line that moves from one queue to another.
pub(crate) struct MovedLine {
    priority: u8,
    waiting: Waiting,
}

impl MovedLine {
    /// Puts the line into a queue.
    pub(crate) fn put_into(self, queue: &mut FreshQueue) {
        queue.put(self.priority, self.waiting);
    }
}
