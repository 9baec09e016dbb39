//! Lines that are only worth sending while they are fresh: they wait here in the order of their priority until their association takes them.

use std::collections::VecDeque;

use bytes::Bytes;
use festina::{Association, Duration, Message, ReceivedMessage, Stats};

use super::queue::Rest;
use crate::record::Record;
use crate::sender::{FRESH_MESSAGE_BYTES, FreshCounts, FreshMessage, FreshQueue, MovedLine};
use crate::transport;
use crate::wire::SenderId;

/// Maximum number of messages passed to the transport at once.
const MESSAGES_AT_ONCE: usize = 64;

/// Maximum number of bytes in the transport: more would not fit into its send buffer.
const BYTES_MAX: u64 = 3 << 20;

/// Important messages on the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// None waits.
    None,
    /// They wait in a queue.
    Wait,
    /// They wait for their congestion window, or measure the round trip: any packet sent now would delay or falsify that.
    WaitAlone,
}

pub(super) struct FreshLane {
    association: Option<Association>,
    queue: FreshQueue,
    rest: Rest,
    /// Messages for which the transport had no room.
    unsent: VecDeque<Message>,
    /// Received messages that were not handled yet.
    inbox: Vec<ReceivedMessage>,
}

impl FreshLane {
    pub(super) fn new() -> Self {
        Self {
            association: None,
            queue: FreshQueue::new(),
            rest: Rest::default(),
            unsent: VecDeque::new(),
            inbox: Vec::new(),
        }
    }

    /// Handles a new association, which replaces an older one.
    pub(super) fn begin(&mut self, association: Association, sender: SenderId) {
        self.end();
        if association.try_send(Message::new(self.queue.connected(sender))).is_ok() {
            (self.association, self.rest) = (Some(association), Rest::default());
        }
    }

    /// Handles the end of the association: lines that it did not deliver are abandoned.
    pub(super) fn end(&mut self) {
        self.association = None;
        self.inbox.clear();
        self.unsent.clear();
        self.queue.disconnected();
    }

    /// Abandons all waiting lines.
    pub(super) fn give_up(&mut self) -> Option<Association> {
        let association = self.association.take();
        self.end();
        self.queue.give_up();
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
        self.queue.take(record, priority, lifetime, retransmissions, arrived_us);
    }

    /// Whether lines wait for the association to take them.
    pub(super) fn has_waiting(&self) -> bool {
        self.queue.has_waiting()
    }

    /// Takes all lines that wait for the association, each with its source.
    pub(super) fn drain(&mut self) -> Vec<(Bytes, MovedLine)> {
        let mut lines = Vec::new();
        self.queue.drain(|source, line| lines.push((source, line)));
        lines
    }

    /// Adds a line of another lane.
    pub(super) fn put(&mut self, line: MovedLine) {
        line.put_into(&mut self.queue);
    }

    /// Sends as much as the congestion window takes, or a packet now and then while important lines wait. Bytes beyond the window would wait in the
    /// transport, where they can no longer be reordered or dropped.
    pub(super) fn send(&mut self, others: Others, now_us: u64) {
        let Some(association) = self.association.clone() else { return };
        let waits = others == Others::Wait;
        if others == Others::WaitAlone || self.rest.lasts(waits, now_us) {
            return;
        }
        // The end of an association is noticed where its messages are received.
        while association.try_send_many(&mut self.unsent).is_ok() {
            let Stats { path, sent, .. } = association.stats();
            let mut used = path.send_buffer_bytes;
            let bytes_max = if waits { 0 } else { path.cwnd_bytes.min(BYTES_MAX) };
            while self.unsent.len() < MESSAGES_AT_ONCE
                && (used == 0 || used + FRESH_MESSAGE_BYTES as u64 <= bytes_max)
                && let Some(message) = self.queue.next_message(sent.messages_acked, now_us)
            {
                used += message.payload.len() as u64;
                self.unsent.push_back(message_of(message));
            }
            if self.unsent.is_empty() {
                return;
            }
            self.rest.sent(waits, now_us);
        }
    }

    /// Abandons lines whose lifetime has ended.
    pub(super) fn forget_expired(&mut self, now_us: u64) {
        self.queue.forget_expired(now_us);
    }

    /// Waits for messages of the collector. Returns `false` if its association has ended; never ready without one.
    pub(super) async fn receive(&mut self) -> bool {
        transport::receive(self.association.as_ref(), &mut self.inbox).await
    }

    /// Handles received messages, or the end of the association.
    pub(super) fn handle(&mut self, goes_on: bool) {
        for message in std::mem::take(&mut self.inbox) {
            if self.queue.handle(message.into_payload()).is_err()
                && let Some(association) = &self.association
            {
                association.abort("the collector's answer makes no sense");
            }
        }
        if !goes_on {
            self.end();
        }
    }

    /// Returns the fate of all lines.
    pub(super) fn counts(&self) -> FreshCounts {
        let given_up =
            self.association.as_ref().map(|association| association.stats().abandoned.total()).unwrap_or_default();
        self.queue.counts(given_up.sent + given_up.unsent)
    }
}

fn message_of(fresh: FreshMessage) -> Message {
    let FreshMessage { priority, lifetime, retransmissions, payload } = fresh;
    let message = Message::new(payload).on_stream(transport::fresh_stream(priority)).unordered();
    let message = message.with_priority(u16::from(priority)).with_lifetime(lifetime);
    message.with_max_retransmissions(retransmissions.unwrap_or(u16::MAX))
}
