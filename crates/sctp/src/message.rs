//! Messages to send and received messages.

use bytes::Bytes;
use festina_units::{Duration, Instant};

use crate::preview::debug_with_preview;
use crate::wire::StreamId;

/// Identifies one message of one association in [`Event`](crate::Event)s; counts up from 0 in the order of `send` calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// When a message is sent a second time, in a packet of its own, before anything is known of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Duplicate {
    /// Immediately: against losses that are independent of each other.
    AtOnce,
    /// Half the mean time between the messages with its [key](Message::replacing) later, against losses in bursts; immediately while that time was not
    /// measured.
    HalfInterval,
}

impl Duplicate {
    /// All variants.
    pub const ALL: [Self; 2] = [Self::AtOnce, Self::HalfInterval];

    /// Returns the name in texts: `at-once` or `half-interval`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AtOnce => "at-once",
            Self::HalfInterval => "half-interval",
        }
    }
}

/// A message to send, with its delivery options.
///
/// The payload is reference-counted and copied once, into the packet that carries it.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    pub(crate) payload: Bytes,
    pub(crate) stream: StreamId,
    pub(crate) ppid: u32,
    pub(crate) unordered: bool,
    pub(crate) immediate_ack: bool,
    pub(crate) lifetime: Option<Duration>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) max_retransmissions: Option<u16>,
    pub(crate) priority: Option<u16>,
    pub(crate) key: Option<u64>,
    pub(crate) duplicate: Option<Duplicate>,
    pub(crate) confirm: bool,
}

debug_with_preview!(
    Message,
    payload,
    [
        stream,
        ppid,
        unordered,
        immediate_ack,
        lifetime,
        deadline,
        max_retransmissions,
        priority,
        key,
        duplicate,
        confirm
    ]
);

impl Message {
    /// Creates a reliable, ordered message on stream 0 with PPID 0. The payload has from 1 byte to the maximum message size of the configuration.
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
            duplicate: None,
            confirm: false,
        }
    }

    /// Sets the stream that carries the message (RFC 9260 §6.5); below the negotiated number of outbound streams.
    #[must_use]
    pub fn on_stream(mut self, stream: impl Into<StreamId>) -> Self {
        self.stream = stream.into();
        self
    }

    /// Sets the payload protocol identifier, which the peer's application gets unchanged (RFC 9260 §3.3.1).
    #[must_use]
    pub fn with_ppid(mut self, ppid: u32) -> Self {
        self.ppid = ppid;
        self
    }

    /// Delivers the message regardless of the stream's order (RFC 9260 §6.6).
    #[must_use]
    pub fn unordered(self) -> Self {
        self.unordered_if(true)
    }

    /// As [`unordered`](Self::unordered), or in the stream's order if `unordered` is false.
    #[must_use]
    pub fn unordered_if(mut self, unordered: bool) -> Self {
        self.unordered = unordered;
        self
    }

    /// Asks the peer to acknowledge the message at once (the I bit of RFC 7053), regardless of the profile.
    #[must_use]
    pub fn with_immediate_ack(mut self) -> Self {
        self.immediate_ack = true;
        self
    }

    /// Sets the lifetime, counted from `send`. A message that has not been sent by its end is abandoned (RFC 9260 §11.1.5, RFC 3758 §4.1). If the peer
    /// supports partial reliability, a message in flight is also abandoned, once its acknowledgement is overdue ([`Expiry`](crate::Expiry)). The
    /// `maxPacketLifeTime` of data channels. `None` removes it.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: impl Into<Option<Duration>>) -> Self {
        self.lifetime = lifetime.into();
        self
    }

    /// Sets a time for the same as [`with_lifetime`](Self::with_lifetime). The earlier of the two applies.
    #[must_use]
    pub fn with_deadline(mut self, deadline: impl Into<Option<Instant>>) -> Self {
        self.deadline = deadline.into();
        self
    }

    /// Sets the maximum retransmissions of each chunk of the message, for any reason. If one more would be needed, the message is abandoned (RFC 7496
    /// §3.1). 0 sends once; values above 254 mean no limit. No effect if the peer does not support partial reliability. The `maxRetransmits` of data
    /// channels.
    #[must_use]
    pub fn with_max_retransmissions(mut self, max_retransmissions: u16) -> Self {
        self.max_retransmissions = Some(max_retransmissions);
        self
    }

    /// Sets the priority; 0 is the highest. In a full send buffer the message may be abandoned for one with a lower number (RFC 7496 §3.3). A message
    /// without a priority is never abandoned for another, and replaces none.
    #[must_use]
    pub fn with_priority(mut self, priority: u16) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Names the state that the message updates: it replaces an older, unacknowledged message with the same key on its stream. A message in flight is
    /// abandoned if the peer supports partial reliability.
    #[must_use]
    pub fn replacing(mut self, key: u64) -> Self {
        self.key = Some(key);
        self
    }

    /// Sends the message twice if it fits into one packet, whose other messages are repeated with it. The second packet counts as a copy of the
    /// association's redundancy, though it does not wait for losses: it is not sent with `Redundancy::Off`, on a stream that is not thin, at signs of
    /// congestion, or if a newer message with the key was sent before. `None`, the default, sends no duplicate.
    #[must_use]
    pub fn with_duplicate(mut self, duplicate: impl Into<Option<Duplicate>>) -> Self {
        self.duplicate = duplicate.into();
        self
    }

    /// Sets whether [`Event::MessageDelivered`](crate::Event::MessageDelivered) reports the message even without `Config::message_events`.
    #[must_use]
    pub fn with_confirmation(mut self, confirm: bool) -> Self {
        self.confirm = confirm;
        self
    }
}

/// The options of a message.
impl Message {
    /// Returns the payload.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// Returns the payload and drops the options.
    #[must_use]
    pub fn into_payload(self) -> Bytes {
        self.payload
    }

    /// Returns the stream.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Returns the payload protocol identifier.
    #[must_use]
    pub fn ppid(&self) -> u32 {
        self.ppid
    }

    /// Returns whether the message is delivered regardless of the stream's order.
    #[must_use]
    pub fn is_unordered(&self) -> bool {
        self.unordered
    }

    /// Returns whether the peer is to acknowledge the message at once.
    #[must_use]
    pub fn has_immediate_ack(&self) -> bool {
        self.immediate_ack
    }

    /// Returns the lifetime, counted from `send`.
    #[must_use]
    pub fn lifetime(&self) -> Option<Duration> {
        self.lifetime
    }

    /// Returns the time at which the message is abandoned.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the maximum retransmissions.
    #[must_use]
    pub fn max_retransmissions(&self) -> Option<u16> {
        self.max_retransmissions
    }

    /// Returns the priority.
    #[must_use]
    pub fn priority(&self) -> Option<u16> {
        self.priority
    }

    /// Returns the key by which the message replaces an older one.
    #[must_use]
    pub fn key(&self) -> Option<u64> {
        self.key
    }

    /// Returns when a duplicate is sent, if one is.
    #[must_use]
    pub fn duplicate(&self) -> Option<Duplicate> {
        self.duplicate
    }

    /// Returns whether an event reports the delivery.
    #[must_use]
    pub fn has_confirmation(&self) -> bool {
        self.confirm
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

/// A complete message from the peer. As a [`Message`], it is sent back with the same stream, identifier and order.
#[derive(Clone, PartialEq, Eq)]
pub struct ReceivedMessage {
    pub(crate) payload: Bytes,
    pub(crate) stream: StreamId,
    pub(crate) ppid: u32,
    pub(crate) unordered: bool,
    pub(crate) restarts: u8,
}

impl ReceivedMessage {
    /// Returns the payload. If the message arrived in one chunk, this may be a slice that keeps the whole packet in memory. It is a copy if the packet
    /// is larger than 2 KiB and the payload less than half of it.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// Returns the payload and drops the rest.
    #[must_use]
    pub fn into_payload(self) -> Bytes {
        self.payload
    }

    /// Returns the stream that carried the message.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Returns the payload protocol identifier of its first chunk.
    #[must_use]
    pub fn ppid(&self) -> u32 {
        self.ppid
    }

    /// Returns whether it was delivered regardless of the stream's order.
    #[must_use]
    pub fn is_unordered(&self) -> bool {
        self.unordered
    }

    /// Returns the number of restarts of the peer before it sent the message, modulo 256; initially 0. If the number differs from that of the previous
    /// message, the peer has lost its state and restarted the association ([`Event::PeerRestarted`](crate::Event::PeerRestarted)).
    #[must_use]
    pub fn restarts(&self) -> u8 {
        self.restarts
    }
}

impl From<ReceivedMessage> for Message {
    /// A message with the same payload, stream, identifier and order.
    fn from(received: ReceivedMessage) -> Self {
        let ReceivedMessage { payload, stream, ppid, unordered, .. } = received;
        Self::new(payload).on_stream(stream).with_ppid(ppid).unordered_if(unordered)
    }
}

impl From<Message> for ReceivedMessage {
    /// The message as its peer receives it, for tests of programs.
    fn from(message: Message) -> Self {
        let Message { payload, stream, ppid, unordered, .. } = message;
        Self { payload, stream, ppid, unordered, restarts: 0 }
    }
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
