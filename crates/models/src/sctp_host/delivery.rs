//! The delivery options of an application's messages.

use std::sync::Arc;

use bytes::Bytes;
use festina_netsim::RandomStream;
use festina_sctp::Message;
use festina_units::{Duration, Instant, Probability};

/// The delivery options of an application's messages. The default is reliably and in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Without regard to their order.
    pub unordered: bool,
    /// Lifetime of each; `None` is unlimited. Those that are [`important`](Self::important) have a lifetime of their own.
    pub lifetime: Option<Duration>,
    /// The important messages, if there are any.
    pub important: Option<Important>,
    /// Small messages wait while something is outstanding, until they fill a packet with room for this many bytes of
    /// chunks (Nagle's algorithm). Their lifetime passes meanwhile. The core has no such delay.
    pub gathers: Option<usize>,
    /// Each message updates the same state, and replaces the previous one while that is unacknowledged.
    pub replaces: bool,
}

/// Messages with a lifetime of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Important {
    /// Probability that a message is important.
    pub share: Probability,
    /// Lifetime of each; `None` is unlimited.
    pub lifetime: Option<Duration>,
}

/// Header size of a DATA chunk (RFC 9260 §3.3.1).
const DATA_HEADER_BYTES: u64 = 16;

/// The delivery options of one message after the other.
#[derive(Debug)]
pub(super) struct Deliveries {
    delivery: Delivery,
    importance: RandomStream,
    /// Whether each message is important. Later messages are drawn at random.
    listed: Option<Arc<[bool]>>,
    /// Number of messages so far.
    count: usize,
}

impl Deliveries {
    /// Returns which messages are important is determined by `seed` and `name`.
    pub(super) fn new(delivery: Delivery, seed: u64, name: &str) -> Self {
        let importance = RandomStream::new(seed, &format!("{name}/importance"));
        Self { delivery, importance, listed: None, count: 0 }
    }

    /// Like `self`, but the list determines which messages are important, up to its end.
    pub(super) fn listed(self, listed: Option<Arc<[bool]>>) -> Self {
        Self { listed, ..self }
    }

    /// The lifetime of the next message.
    pub(super) fn next_lifetime(&mut self) -> Option<Duration> {
        let Some(Important { share, lifetime }) = self.delivery.important else { return self.delivery.lifetime };
        let listed = self.listed.as_deref().and_then(|listed| listed.get(self.count)).copied();
        self.count += 1;
        let is_important = listed.unwrap_or_else(|| self.importance.chance(share));
        if is_important { lifetime } else { self.delivery.lifetime }
    }

    /// A message that the application has since `due_at`, with this lifetime.
    pub(super) fn message(&self, payload: Bytes, due_at: Instant, lifetime: Option<Duration>) -> Message {
        let deadline = lifetime.map(|lifetime| due_at.saturating_add(lifetime));
        let message = Message::new(payload).unordered_if(self.delivery.unordered).with_deadline(deadline);
        if self.delivery.replaces { message.replacing(0) } else { message }
    }

    /// Returns whether messages wait for others.
    pub(super) fn gathers(&self) -> bool {
        self.delivery.gathers.is_some()
    }

    /// Returns how many of the application's messages, with this many bytes of payload each, need not wait for more.
    pub(super) fn released(
        &self,
        payloads: impl ExactSizeIterator<Item = u64>,
        outstanding: impl FnOnce() -> bool,
    ) -> usize {
        let count = payloads.len();
        let Some(packet_bytes) = self.delivery.gathers else { return count };
        let mut gathered = 0;
        for (number, bytes) in payloads.enumerate() {
            gathered += DATA_HEADER_BYTES + bytes.next_multiple_of(4);
            if gathered > packet_bytes as u64 {
                // The messages before it fill a packet.
                return number.max(1);
            }
        }
        if outstanding() { 0 } else { count }
    }
}
