//! The connection to one collector: two associations, one of them for lines that are not repeated, and the measured state of the path.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Poll;

use festina::{Association, Duration, Message, ReceivedMessage};
use festina_units::duration;

use super::copies::Copies;
use super::fresh::{FreshLane, Others};
use super::gathering::Gathering;
use super::queue::Queue;
use crate::disk::RealDisk;
use crate::policy::PRIORITIES;
use crate::sender::{Outgoing, Sender};
use crate::transport;

/// Maximum number of messages passed to the transport at once.
const MESSAGES_AT_ONCE: usize = 32;

/// Bytes in the transport's send buffer, as it counts them, beyond which lines of lower priority wait, and beyond which all wait: this keeps room for
/// more important lines.
const BUFFER_BYTES: [u64; 2] = [2 << 20, 3 << 20];

/// Maximum time that a collector may leave everything unanswered before another may replace it.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// An event on one of the two associations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// Messages, or the end, of the association for important lines.
    Important { goes_on: bool },
    /// Messages, or the end, of the association for fresh lines.
    Fresh { goes_on: bool },
}

pub(super) struct Channel {
    /// The number of the collector.
    index: usize,
    association: Option<Association>,
    pub(super) fresh: FreshLane,
    queue: Queue,
    copies: Copies,
    gathering: Gathering,
    /// Messages for which the transport had no room.
    unsent: VecDeque<Message>,
    /// Received messages that were not handled yet.
    inbox: Vec<ReceivedMessage>,
    /// When it answered last, or had nothing to answer.
    heard_us: u64,
}

impl Channel {
    pub(super) fn new(index: usize) -> Self {
        Self {
            index,
            association: None,
            fresh: FreshLane::new(),
            queue: Queue::default(),
            copies: Copies::default(),
            gathering: Gathering::default(),
            unsent: VecDeque::new(),
            inbox: Vec::new(),
            heard_us: 0,
        }
    }

    /// Handles a new association for important lines, which replaces an older one.
    pub(super) fn begin(&mut self, association: Association, sender: &mut Sender<RealDisk>, now_us: u64) {
        self.end(sender, now_us);
        let hello = sender.connected(self.index, now_us);
        if association.try_send(Message::new(hello)).is_ok() {
            (self.queue, self.copies, self.gathering) = Default::default();
            (self.association, self.heard_us) = (Some(association), now_us);
        }
    }

    /// Handles the end of the association for important lines.
    pub(super) fn end(&mut self, sender: &mut Sender<RealDisk>, now_us: u64) -> Option<Association> {
        sender.disconnected(self.index, now_us);
        self.inbox.clear();
        self.unsent.clear();
        self.association.take()
    }

    /// Waits for a message of the collector; never ready without an association.
    async fn receive(&mut self) -> Came {
        let Self { association, fresh, inbox, .. } = self;
        tokio::select! {
            biased;
            goes_on = transport::receive(association.as_ref(), inbox) => Came::Important { goes_on },
            goes_on = fresh.receive() => Came::Fresh { goes_on },
        }
    }

    /// Handles an event. Returns a message for the operator, if there is one.
    pub(super) fn take(&mut self, came: Came, sender: &mut Sender<RealDisk>, now_us: u64) -> Option<String> {
        let goes_on = match came {
            Came::Fresh { goes_on } => {
                self.fresh.handle(goes_on);
                return None;
            }
            Came::Important { goes_on } => goes_on,
        };
        self.heard_us = now_us;
        for message in std::mem::take(&mut self.inbox) {
            if let Err(error) = sender.handle(self.index, message.into_payload(), now_us) {
                if let Some(association) = self.end(sender, now_us) {
                    association.abort("the collector's answer makes no sense");
                }
                return Some(format!("the association is ended: {error}"));
            }
        }
        if !goes_on {
            self.end(sender, now_us);
        }
        None
    }

    /// Sends as much as there is room for. Never waits: the task that calls it has more to do.
    pub(super) fn send(&mut self, sender: &mut Sender<RealDisk>, now_us: u64) {
        let mut others = Others::None;
        if let Some(association) = self.association.clone() {
            if !self.gathering.lasts(now_us) {
                self.send_reliable(&association, sender, now_us);
            }
            let stats = association.stats();
            self.queue.look(&stats.path, now_us);
            let waits = self.queue.is_long();
            self.gathering.look(waits, stats.sent.messages, self.queue.shortest_us(), now_us);
            self.send_copies(&association, sender, waits, now_us);
            others = match &stats.path {
                path if path.send_buffer_bytes > path.cwnd_bytes || self.queue.is_on_trial() => Others::WaitAlone,
                _ if waits => Others::Wait,
                _ => Others::None,
            };
        }
        self.fresh.send(others, now_us);
    }

    /// Sends the copies that are due.
    fn send_copies(&mut self, association: &Association, sender: &mut Sender<RealDisk>, queued: bool, now_us: u64) {
        let sent = association.stats().sent;
        // Proactive copies do not indicate losses.
        let again = &sent.retransmitted;
        self.copies.look(sent.chunks, again.timeout + again.fast + again.probe + again.reported_bundled);
        if queued {
            self.copies.forbid();
        }
        while association.try_send_many(&mut self.unsent).is_ok()
            && let Some(due) = self.copies.due(now_us)
        {
            self.unsent.extend(sender.copy(self.index, due.priority, due.slot, due.last).map(message_of));
        }
    }

    fn send_reliable(&mut self, association: &Association, sender: &mut Sender<RealDisk>, now_us: u64) {
        // The end of an association is noticed where its messages are received, and everything is sent again over the next one.
        while association.try_send_many(&mut self.unsent).is_ok() {
            let path = association.stats().path;
            let rtt_us = path.srtt.map_or(0, |srtt| duration::saturating_nanos(srtt) / 1_000);
            let mut buffered = path.send_buffer_bytes + path.messages_pending * transport::MESSAGE_OVERHEAD_BYTES;
            let below = match buffered {
                bytes if bytes >= BUFFER_BYTES[1] => return,
                bytes if bytes >= BUFFER_BYTES[0] => 1,
                _ => PRIORITIES,
            };
            while self.unsent.len() < MESSAGES_AT_ONCE
                && buffered < BUFFER_BYTES[1]
                && let Some(message) = sender.next_message(self.index, below)
            {
                buffered += message.payload.len() as u64 + transport::MESSAGE_OVERHEAD_BYTES;
                self.copies.note(&message, rtt_us, now_us);
                self.unsent.push_back(message_of(message));
            }
            if self.unsent.is_empty() {
                return;
            }
        }
    }

    /// With several collectors: sends this one the settled numbers, and ends the association if it leaves everything unanswered.
    pub(super) fn keep_time(&mut self, sender: &mut Sender<RealDisk>, now_us: u64) {
        let Some(association) = &self.association else { return };
        if let Some(settled) = sender.settled_elsewhere(self.index)
            && association.try_send(Message::new(settled)).is_err()
        {
            sender.tell_again(self.index);
        }
        if sender.is_welcomed(self.index) && sender.unanswered(self.index) == 0 {
            self.heard_us = now_us;
        } else if now_us.saturating_sub(self.heard_us) > duration::saturating_nanos(ANSWER_TIME_MAX) / 1_000 {
            association.abort("the collector does not answer");
            self.end(sender, now_us);
        }
    }

    /// Smoothed round-trip time in microseconds, if there is an association.
    pub(super) fn rtt_us(&self) -> Option<u64> {
        let srtt = self.association.as_ref()?.stats().path.srtt?;
        Some(duration::saturating_nanos(srtt) / 1_000)
    }
}

fn message_of(outgoing: Outgoing) -> Message {
    let stream = transport::reliable_stream(outgoing.priority, outgoing.slot);
    Message::new(outgoing.payload).on_stream(stream).unordered_if(outgoing.unordered)
}

/// Moves the fresh lines that wait for one collector to those that `target` chooses by their source.
pub(super) fn hand_over(channels: &mut [Channel], from: usize, target: impl Fn(&[u8]) -> usize) {
    for (source, line) in channels[from].fresh.drain() {
        let to = if source.is_empty() { from } else { target(&source) };
        channels[to].fresh.put(line);
    }
}

/// Waits for an event from any collector and returns it with the collector's index. Polls them round robin, starting at `first`.
pub(super) async fn receive_any(channels: &mut [Channel], first: usize) -> (usize, Came) {
    let count = channels.len();
    let mut waiting: Vec<Pin<Box<_>>> = channels.iter_mut().map(|channel| Box::pin(channel.receive())).collect();
    std::future::poll_fn(|context| {
        for index in (0..count).map(|step| (first + step) % count) {
            if let Poll::Ready(came) = waiting[index].as_mut().poll(context) {
                return Poll::Ready((index, came));
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests;
