//! Messages as the application sees them: what goes in, what comes out.

use bytes::Bytes;
use festina_units::Duration;

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
    /// Ask the peer to acknowledge at once (the I bit of RFC 7053), whatever the profile does by itself.
    pub immediate_ack: bool,
    /// How long the message is worth sending: one that got no TSN by then is abandoned (the lifetime of RFC 9260 §11.1.5).
    pub lifetime: Option<Duration>,
}

impl Message {
    /// An ordered message on stream 0 with PPID 0 and no lifetime.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self {
            payload: payload.into(),
            stream: StreamId(0),
            ppid: 0,
            unordered: false,
            immediate_ack: false,
            lifetime: None,
        }
    }

    /// The same message on another stream.
    #[must_use]
    pub fn on_stream(mut self, stream: u16) -> Self {
        self.stream = StreamId(stream);
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

    /// The same message, abandoned when it could not be sent within `lifetime` of the call to `send`.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
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
}
