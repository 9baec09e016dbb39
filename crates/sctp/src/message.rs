//! Messages as the application sees them: what goes in, what comes out.

use bytes::Bytes;
use festina_units::{Duration, Instant};

use crate::wire::StreamId;

/// Identifies one message of one association in [`Event`](crate::Event)s; counts up from 0 in the order of `send` calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// One message to send, with its delivery options.
///
/// The payload is reference-counted: it is copied once, from here into the packet that carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The bytes to deliver; 1 byte up to `Limits::message_bytes_max`.
    pub payload: Bytes,
    /// The stream that carries the message (RFC 9260 §6.5); below the negotiated number of outbound streams.
    pub stream: StreamId,
    /// Payload protocol identifier, passed through to the peer's application untouched (RFC 9260 §3.3.1).
    pub ppid: u32,
    /// Deliver without regard to the order of the stream (RFC 9260 §6.6).
    pub unordered: bool,
    /// Asks the peer to acknowledge at once (the I bit of RFC 7053), regardless of the profile.
    pub immediate_ack: bool,
    /// How long the message is worth sending after `send`: then it is abandoned (RFC 9260 §11.1.5, RFC 3758 §4.1). If the peer supports
    /// partial reliability, so is one that is on its way, when its acknowledgement is overdue ([`Expiry`](crate::Expiry)). It never leaves
    /// for the first time later. The `maxPacketLifeTime` of data channels.
    pub lifetime: Option<Duration>,
    /// As `lifetime`, but a point in time. The earlier of the two holds.
    pub deadline: Option<Instant>,
    /// Maximum retransmissions of each chunk of the message, for any reason. If one more would be needed, the message is abandoned (RFC 7496 §3.1). 0
    /// sends once; values above 254 mean no limit. No effect if the peer does not support partial reliability. The `maxRetransmits` of data channels.
    pub max_retransmissions: Option<u16>,
    /// Lets the message be abandoned to make room in a full send buffer for one with a lower number; 0 is the most important
    /// (RFC 7496 §3.3). A message without a priority is never abandoned for another, and makes no other be abandoned.
    pub priority: Option<u16>,
    /// What the message tells the state of: it takes the place of an older message with the same key on its stream that is not
    /// acknowledged yet. One that is on its way is abandoned if the peer supports partial reliability.
    pub key: Option<u64>,
    /// Have [`Event::MessageDelivered`](crate::Event::MessageDelivered) reported, even without `Config::message_events`.
    pub confirm: bool,
}

impl Message {
    /// An ordered message on stream 0 with PPID 0, reliable.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self {
            payload: payload.into(),
            stream: StreamId(0),
            ppid: 0,
            unordered: false,
            immediate_ack: false,
            lifetime: None,
            deadline: None,
            max_retransmissions: None,
            priority: None,
            key: None,
            confirm: false,
        }
    }

    /// The same message on another stream.
    #[must_use]
    pub fn on_stream(mut self, stream: impl Into<StreamId>) -> Self {
        self.stream = stream.into();
        self
    }

    /// The same message with this payload protocol identifier.
    #[must_use]
    pub fn with_ppid(mut self, ppid: u32) -> Self {
        self.ppid = ppid;
        self
    }

    /// The same message, delivered without regard to the stream's order.
    #[must_use]
    pub fn unordered(mut self) -> Self {
        self.unordered = true;
        self
    }

    /// The same message, to be acknowledged at once.
    #[must_use]
    pub fn with_immediate_ack(mut self) -> Self {
        self.immediate_ack = true;
        self
    }

    /// The same message, abandoned `lifetime` after the call to `send`.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// The same message, abandoned at this time.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The same message, abandoned when it would have to leave more often again.
    #[must_use]
    pub fn with_max_retransmissions(mut self, max_retransmissions: u16) -> Self {
        self.max_retransmissions = Some(max_retransmissions);
        self
    }

    /// The same message, abandoned if a full send buffer needs its room for one with a lower number.
    #[must_use]
    pub fn with_priority(mut self, priority: u16) -> Self {
        self.priority = Some(priority);
        self
    }

    /// The same message, in place of an older one with this key on its stream.
    #[must_use]
    pub fn replacing(mut self, key: u64) -> Self {
        self.key = Some(key);
        self
    }

    /// When it is not worth sending any more if it is handed over `now`; [`Instant::MAX`] if it always is.
    pub(crate) fn expires_at(&self, now: Instant) -> Instant {
        let expires_at = self.lifetime.map_or(Instant::MAX, |lifetime| now.saturating_add(lifetime));
        self.deadline.map_or(expires_at, |deadline| deadline.min(expires_at))
    }

    /// Returns whether the sender must find the message before its turn.
    #[inline]
    pub(crate) fn is_tracked(&self) -> bool {
        let may_be_abandoned = self.lifetime.is_some() || self.deadline.is_some() || self.priority.is_some();
        may_be_abandoned || self.key.is_some() || self.confirm
    }
}

impl<Payload: Into<Bytes>> From<Payload> for Message {
    /// The same as [`Message::new`].
    fn from(payload: Payload) -> Self {
        Self::new(payload)
    }
}

/// One whole message as the peer's application sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// The bytes of the message. A message that came in one piece may be a slice of its packet and keep that packet in memory,
    /// but nothing else; one of less than half of a packet above 2 KiB is a copy of its own.
    pub payload: Bytes,
    /// The stream that carried it.
    pub stream: StreamId,
    /// Payload protocol identifier of its first chunk.
    pub ppid: u32,
    /// Whether it was delivered without regard to the stream's order.
    pub unordered: bool,
    /// How often the peer had restarted when it sent this, modulo 256: a message with another number than the one before it comes from a peer
    /// that has lost its state and made the association anew ([`Event::PeerRestarted`](crate::Event::PeerRestarted)). 0 as long as it has not.
    pub restarts: u8,
}
