//! The connection to one collector: two associations, one of them for lines that are not repeated, and the measured state of the path.

use std::pin::Pin;
use std::task::Poll;

use festina::{Association, ClosedReason, Duration, Message, PathStats, ReceivedMessage};
use festina_units::duration;

use super::copies::Copies;
use super::delay_window::ShortestRoundTrip;
use super::fresh::{FreshLane, Others};
use super::gathering::Gathering;
use super::patience::Patience;
use super::transit::Transit;
use crate::disk::RealDisk;
use crate::policy::PRIORITIES;
use crate::sender::{Outgoing, Sender};
use crate::transport;

/// Maximum number of messages passed to the transport, or received from it, at once.
const MESSAGES_AT_ONCE: usize = 32;

/// Bytes in the transport's send buffer beyond which lines of lower priority wait, and beyond which all wait: this keeps room for more important
/// lines.
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
    shortest: ShortestRoundTrip,
    /// Of important lines.
    transit: Transit,
    copies: Copies,
    gathering: Gathering,
    patience: Patience,
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
            shortest: ShortestRoundTrip::default(),
            transit: Transit::default(),
            copies: Copies::default(),
            gathering: Gathering::default(),
            patience: Patience::default(),
            inbox: Vec::new(),
            heard_us: 0,
        }
    }

    /// Handles a new association for important lines, which replaces an older one.
    pub(super) fn begin(&mut self, association: Association, sender: &mut Sender<RealDisk>, now_us: u64) {
        self.end(sender, now_us);
        let hello = sender.connected(self.index, now_us);
        if association.try_send(Message::new(hello)).is_ok() {
            (self.shortest, self.copies) = (ShortestRoundTrip::default(), Copies::default());
            (self.transit, self.gathering, self.patience) = Default::default();
            (self.association, self.heard_us) = (Some(association), now_us);
        }
    }

    /// Handles the end of the association for important lines.
    pub(super) fn end(&mut self, sender: &mut Sender<RealDisk>, now_us: u64) -> Option<Association> {
        sender.disconnected(self.index, now_us);
        self.inbox.clear();
        self.association.take()
    }

    /// Waits for a message of the collector; never ready without an association.
    async fn receive(&mut self) -> Came {
        let Self { association, fresh, inbox, .. } = self;
        tokio::select! {
            biased;
            received = receive(association.as_ref(), inbox) => Came::Important { goes_on: received.is_ok() },
            received = fresh.receive() => Came::Fresh { goes_on: received.is_ok() },
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
            if let Err(error) = sender.handle(self.index, message.payload, now_us) {
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

    /// Sends as much as there is room for.
    pub(super) async fn send(&mut self, sender: &mut Sender<RealDisk>, now_us: u64) {
        let mut others = Others::None;
        if let Some(association) = self.association.clone() {
            if !self.gathering.lasts(now_us) {
                self.send_reliable(&association, sender, now_us).await;
            }
            let stats = association.stats();
            self.transit.left(stats.sent.messages, now_us);
            let queued = self.has_queue(&stats.path, now_us);
            let age_us = self.transit.age_us(stats.sent.messages_acked + stats.sent.messages_abandoned, now_us);
            let waits = queued || self.shortest.is_too_old(age_us);
            let was_late = self.shortest.is_too_old(self.transit.took_us());
            if let Some(mechanisms) = self.patience.look(waits, was_late, || association.mechanisms()) {
                association.set_mechanisms(mechanisms);
            }
            self.gathering.look(waits, stats.sent.messages, self.shortest.us(), now_us);
            self.send_copies(&association, sender, waits, now_us).await;
            others = match &stats.path {
                path if path.send_buffer_bytes > path.cwnd_bytes => Others::WaitHere,
                _ if waits => Others::Wait,
                path if path.messages_pending > 0 => Others::Flow,
                _ => Others::None,
            };
        }
        self.fresh.send(others, &mut self.shortest, now_us).await;
    }

    /// Whether packets of this association wait too long in the network.
    fn has_queue(&mut self, path: &PathStats, now_us: u64) -> bool {
        let micros = |time| duration::saturating_nanos(time) / 1_000;
        let Some(srtt) = path.srtt else { return false };
        let queue_us = self.shortest.excess_us(micros(srtt), micros(path.rttvar), now_us);
        self.shortest.is_too_long(queue_us)
    }

    /// Sends the copies that are due.
    async fn send_copies(
        &mut self,
        association: &Association,
        sender: &mut Sender<RealDisk>,
        queued: bool,
        now_us: u64,
    ) {
        let sent = association.stats().sent;
        // Proactive copies do not indicate losses.
        let again = &sent.retransmitted;
        self.copies.look(sent.chunks, again.timeout + again.fast + again.probe + again.reported_bundled);
        if queued {
            self.copies.forbid();
        }
        while let Some(due) = self.copies.due(now_us) {
            if let Some(copy) = sender.copy(self.index, due.priority, due.slot, due.last)
                && association.send_many([message_of(copy)]).await.is_err()
            {
                return;
            }
        }
    }

    async fn send_reliable(&mut self, association: &Association, sender: &mut Sender<RealDisk>, now_us: u64) {
        loop {
            let path = association.stats().path;
            let rtt_us = path.srtt.map_or(0, |srtt| duration::saturating_nanos(srtt) / 1_000);
            let buffered = path.send_buffer_bytes;
            let below = match buffered {
                bytes if bytes >= BUFFER_BYTES[1] => return,
                bytes if bytes >= BUFFER_BYTES[0] => 1,
                _ => PRIORITIES,
            };
            let outgoing = std::iter::from_fn(|| sender.next_message(self.index, below)).take(MESSAGES_AT_ONCE);
            let outgoing: Vec<_> = outgoing.collect();
            outgoing.iter().for_each(|message| self.copies.note(message, rtt_us, now_us));
            let messages: Vec<Message> = outgoing.into_iter().map(message_of).collect();
            // The end of an association is noticed where its messages are received, and everything is sent again over the next one.
            if messages.is_empty() || association.send_many(messages).await.is_err() {
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
    Message { unordered: outgoing.unordered, ..Message::new(outgoing.payload).on_stream(stream) }
}

/// Messages of the collector; never ready without an association.
pub(super) async fn receive(
    association: Option<&Association>,
    messages: &mut Vec<ReceivedMessage>,
) -> Result<usize, ClosedReason> {
    match association {
        Some(association) => match association.recv_many(messages, MESSAGES_AT_ONCE).await? {
            0 => Err(ClosedReason::Shutdown),
            count => Ok(count),
        },
        None => std::future::pending().await,
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
