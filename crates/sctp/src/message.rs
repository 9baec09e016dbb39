//! Messages to send and received messages.

use bytes::Bytes;
use festina_units::{Duration, Instant};

use crate::preview::debug_with_preview;
use crate::wire::StreamId;

/// Identifies one message of one association in [`Event`](crate::Event)s; counts up from 0 in the order of `send` calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// A message to send, with its delivery options.
///
/// The payload is reference-counted and copied once, into the packet that carries it.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The payload: from 1 byte to the maximum message size of the configuration.
    pub payload: Bytes,
    /// The stream that carries the message (RFC 9260 §6.5); below the negotiated number of outbound streams.
    pub stream: StreamId,
    /// Payload protocol identifier, passed to the peer's application unchanged (RFC 9260 §3.3.1).
    pub ppid: u32,
    /// Deliver regardless of the order of the stream (RFC 9260 §6.6).
    pub unordered: bool,
    /// Asks the peer to acknowledge at once (the I bit of RFC 7053), regardless of the profile.
    pub immediate_ack: bool,
    /// Lifetime, counted from `send`. A message that has not been sent by its end is abandoned (RFC 9260 §11.1.5, RFC 3758 §4.1). If the peer
    /// supports partial reliability, a message in flight is also abandoned, once its acknowledgement is overdue ([`Expiry`](crate::Expiry)). The
    /// `maxPacketLifeTime` of data channels.
    pub lifetime: Option<Duration>,
    /// As `lifetime`, but a point in time. The earlier of the two applies.
    pub deadline: Option<Instant>,
    /// Maximum retransmissions of each chunk of the message, for any reason. If one more would be needed, the message is abandoned (RFC 7496 §3.1). 0
    /// sends once; values above 254 mean no limit. No effect if the peer does not support partial reliability. The `maxRetransmits` of data channels.
    pub max_retransmissions: Option<u16>,
    /// Priority; 0 is the highest. In a full send buffer the message may be abandoned for one with a lower number (RFC 7496 §3.3). A message without
    /// a priority is never abandoned for another, and replaces none.
    pub priority: Option<u16>,
    /// Key of the state that the message updates. It replaces an older, unacknowledged message with the same key on its stream. A message in flight
    /// is abandoned if the peer supports partial reliability.
    pub key: Option<u64>,
    /// Report [`Event::MessageDelivered`](crate::Event::MessageDelivered), even without `Config::message_events`.
    pub confirm: bool,
}

debug_with_preview!(
    Message,
    payload,
    [stream, ppid, unordered, immediate_ack, lifetime, deadline, max_retransmissions, priority, key, confirm]
);

impl Message {
    /// Creates a reliable, ordered message on stream 0 with PPID 0.
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

    /// Sets the stream.
    #[must_use]
    pub fn on_stream(mut self, stream: impl Into<StreamId>) -> Self {
        self.stream = stream.into();
        self
    }

    /// Sets the payload protocol identifier.
    #[must_use]
    pub fn with_ppid(mut self, ppid: u32) -> Self {
        self.ppid = ppid;
        self
    }

    /// Delivers the message regardless of the stream's order.
    #[must_use]
    pub fn unordered(mut self) -> Self {
        self.unordered = true;
        self
    }

    /// Asks the peer to acknowledge the message at once.
    #[must_use]
    pub fn with_immediate_ack(mut self) -> Self {
        self.immediate_ack = true;
        self
    }

    /// Abandons the message `lifetime` after the call to `send`.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Abandons the message at this time.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Abandons the message when it would need more than this many retransmissions.
    #[must_use]
    pub fn with_max_retransmissions(mut self, max_retransmissions: u16) -> Self {
        self.max_retransmissions = Some(max_retransmissions);
        self
    }

    /// Lets the message be abandoned if a full send buffer needs its room for one with a lower number.
    #[must_use]
    pub fn with_priority(mut self, priority: u16) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Replaces an older message with this key on its stream.
    #[must_use]
    pub fn replacing(mut self, key: u64) -> Self {
        self.key = Some(key);
        self
    }

    /// Returns when the message expires if it is passed to `send` at `now`; [`Instant::MAX`] if never.
    pub(crate) fn expires_at(&self, now: Instant) -> Instant {
        let expires_at = self.lifetime.map_or(Instant::MAX, |lifetime| now.saturating_add(lifetime));
        self.deadline.map_or(expires_at, |deadline| deadline.min(expires_at))
    }

    /// Returns whether the sender may have to find the message in its queue before it is sent.
    #[inline]
    pub(crate) fn is_tracked(&self) -> bool {
        let may_be_abandoned = self.lifetime.is_some() || self.deadline.is_some() || self.priority.is_some();
        may_be_abandoned || self.key.is_some() || self.confirm
    }
}

/// Payloads that are not copied. Each is a type of its own, so that other sources of messages can be added.
macro_rules! from_payload {
    ($($payload:ty),*) => {
        $(impl From<$payload> for Message {
            /// As [`Message::new`].
            fn from(payload: $payload) -> Self {
                Self::new(payload)
            }
        })*
    };
}

from_payload!(Bytes, Vec<u8>, String, &'static str, &'static [u8]);

/// A complete message from the peer.
#[derive(Clone, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// The payload. If the message arrived in one chunk, this may be a slice that keeps the whole packet in memory. It is a copy if the packet is
    /// larger than 2 KiB and the payload less than half of it.
    pub payload: Bytes,
    /// The stream that carried it.
    pub stream: StreamId,
    /// Payload protocol identifier of its first chunk.
    pub ppid: u32,
    /// Whether it was delivered regardless of the stream's order.
    pub unordered: bool,
    /// Number of restarts of the peer before it sent this, modulo 256; initially 0. If the number differs from that of the previous message, the peer
    /// has lost its state and restarted the association ([`Event::PeerRestarted`](crate::Event::PeerRestarted)).
    pub restarts: u8,
}

debug_with_preview!(ReceivedMessage, payload, [stream, ppid, unordered, restarts]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{SendError, SendErrorKind};

    #[test]
    fn debug_output_shows_the_length_and_eight_bytes_of_a_message_and_the_sentence_of_an_error() {
        let secret = "password correct horse battery staple";
        let payload = Bytes::from(secret.repeat(10_000));
        let message = Message::new(payload.clone());
        let received = ReceivedMessage { payload, stream: StreamId(1), ppid: 2, unordered: false, restarts: 0 };
        for kind in [SendErrorKind::BufferFull, SendErrorKind::TooLong { bytes_max: 1 }] {
            let error = SendError::new(message.clone(), kind);
            assert_eq!(format!("{error:?}"), error.to_string());
        }
        for text in [format!("{message:?}"), format!("{received:#?}")] {
            assert!(text.len() < 600 && text.contains("370000 bytes \"password\"..."), "{text}");
            assert!(!text.contains("correct"), "{text}");
        }
    }
}
