//! Errors, one enum per operation; each says whose fault it is.

use core::fmt;

use bytes::Bytes;
use thiserror::Error;

use crate::message::Message;
use crate::wire::StreamId;

/// Why a message was not taken. Every variant hands the message back.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// Not now: the send buffer is full. Wait for [`Event::Writable`](crate::Event::Writable).
    #[error("the send buffer is full")]
    BufferFull(Message),
    /// Caller: an empty message cannot be sent over SCTP (RFC 9260 §3.3.1).
    #[error("an empty message cannot be sent")]
    Empty(Message),
    /// Caller: longer than `Limits::message_bytes_max`.
    #[error("the message has {} bytes, but at most {bytes_max} are allowed", .message.payload.len())]
    TooLong {
        /// The message.
        message: Message,
        /// The limit.
        bytes_max: usize,
    },
    /// Caller: the stream was not negotiated.
    #[error("stream {} does not exist: {streams} were negotiated", .message.stream.0)]
    NoSuchStream {
        /// The message.
        message: Message,
        /// Outbound streams of the association.
        streams: u16,
    },
    /// Not now: the stream is to begin anew, and takes no messages until the peer has answered. Wait for
    /// [`Event::StreamsReset`](crate::Event::StreamsReset) or [`Event::StreamRequestFailed`](crate::Event::StreamRequestFailed).
    #[error("stream {} is being reset", .0.stream.0)]
    StreamResetting(Message),
    /// The association is shutting down or over.
    #[error("the association takes no more messages")]
    Closed(Message),
}

impl SendError {
    /// The message that was not taken.
    pub fn into_message(self) -> Message {
        match self {
            Self::BufferFull(message)
            | Self::Empty(message)
            | Self::StreamResetting(message)
            | Self::Closed(message) => message,
            Self::TooLong { message, .. } | Self::NoSuchStream { message, .. } => message,
        }
    }
}

/// Why streams cannot be changed (RFC 6525).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReconfigureError {
    /// Caller: before the handshake is complete, or after the end has begun.
    #[error("streams can be changed while the association is established only")]
    NotEstablished,
    /// Peer: it does not support stream reconfiguration.
    #[error("the peer does not support stream reconfiguration")]
    NotSupported,
    /// Caller: there is no such stream.
    #[error("stream {} does not exist: there are {streams}", .stream.0)]
    NoSuchStream {
        /// The stream.
        stream: StreamId,
        /// Streams in that direction.
        streams: u16,
    },
    /// Caller: there would be more than 65,535.
    #[error("there would be more than 65,535 streams")]
    TooManyStreams,
}

/// Why an association ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClosedReason {
    /// Both sides finished in good order (RFC 9260 §9.2).
    #[error("shut down in good order")]
    Shutdown,
    /// This side called `abort`.
    #[error("aborted by this side")]
    AbortedLocally,
    /// Peer: it sent ABORT.
    #[error("aborted by the peer (cause {code}{})", Said(*code, info))]
    AbortedByPeer {
        /// The first error cause code, 0 if it named none (RFC 9260 §3.3.10).
        code: u16,
        /// That cause's bytes, at most 64 of them.
        info: Bytes,
    },
    /// Peer: it broke the protocol, and was sent an ABORT that says so.
    #[error("the peer violated the protocol: {0}")]
    ProtocolViolation(&'static str),
    /// Network: nobody answered the handshake.
    #[error("the peer did not answer the handshake")]
    HandshakeTimeout,
    /// Network: the peer stopped answering (RFC 9260 §8.1).
    #[error("the peer stopped answering")]
    PeerUnreachable,
    /// Network or peer: an orderly shutdown did not finish in time. Either the peer acknowledged too little of what was left for
    /// `Timers::shutdown_stall`, or the time from SHUTDOWN on exceeded `Timers::shutdown_guard` (T5, RFC 9260 §9.2).
    #[error("the shutdown did not finish in time")]
    ShutdownTimeout,
}

/// The text that a peer gave for its ABORT, if its cause holds one (RFC 9260 §3.3.10.12, §3.3.10.13) and it is a text.
struct Said<'a>(u16, &'a [u8]);

impl fmt::Display for Said<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const USER_INITIATED_ABORT: u16 = 12;
        const PROTOCOL_VIOLATION: u16 = 13;
        let &Self(code, info) = self;
        match core::str::from_utf8(info) {
            Ok(text) if !text.is_empty() && (USER_INITIATED_ABORT..=PROTOCOL_VIOLATION).contains(&code) => {
                write!(formatter, ": {text:?}")
            }
            _ => Ok(()),
        }
    }
}

/// Why a packet was dropped without effect.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PacketDropped {
    /// Network: too short or its checksum is wrong.
    #[error(transparent)]
    Damaged(#[from] crate::wire::PacketError),
    /// Peer or stranger: the ports are not this association's.
    #[error("the packet's ports are not this association's")]
    WrongPorts,
    /// Peer or stranger: the verification tag is wrong (RFC 9260 §8.5).
    #[error("the verification tag is wrong")]
    WrongTag,
    /// Stranger: the packet comes from an address that is none of the peer's.
    #[error("the packet's source is none of the peer's addresses")]
    WrongAddress,
    /// The association is over.
    #[error("the association is over")]
    Closed,
    /// Peer or stranger: the chunk does not fit the state, and is ignored as the RFC asks.
    #[error("unexpected {0}")]
    Unexpected(&'static str),
}

/// The peer broke the protocol in a way that ends the association; the text goes into the ABORT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct ProtocolViolation(pub(crate) &'static str);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_peer_says_for_its_abort_is_shown_if_it_is_a_text() {
        let shown = |code, info: &'static [u8]| {
            ClosedReason::AbortedByPeer { code, info: Bytes::from_static(info) }.to_string()
        };
        assert_eq!(shown(12, b"game \x1bover"), "aborted by the peer (cause 12: \"game \\u{1b}over\")");
        assert_eq!(shown(12, b""), "aborted by the peer (cause 12)");
        assert_eq!(shown(13, b"\xff"), "aborted by the peer (cause 13)");
        assert_eq!(shown(3, b"abcd"), "aborted by the peer (cause 3)");
    }
}
