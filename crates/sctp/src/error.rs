//! Errors, one enum per operation; each variant states who caused the error.

use core::fmt;

use bytes::Bytes;
use thiserror::Error;

use crate::message::Message;
use crate::wire::StreamId;

/// A message that was not accepted, and why.
#[derive(Clone, PartialEq, Eq)]
pub struct SendError {
    /// The message, unchanged.
    pub message: Message,
    /// The reason.
    pub kind: SendErrorKind,
}

/// Why a message was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendErrorKind {
    /// Temporary: the send buffer is full. Wait for [`Event::Writable`](crate::Event::Writable).
    BufferFull,
    /// Caller: an empty message cannot be sent over SCTP (RFC 9260 §3.3.1).
    Empty,
    /// Caller: longer than `Limits::message_bytes_max`, or than the peer's receive buffer (see `Limits::exceeds_peer_buffer`).
    TooLong {
        /// The limit.
        bytes_max: usize,
    },
    /// Caller: the stream was not negotiated.
    NoSuchStream {
        /// Outbound streams of the association.
        streams: u16,
    },
    /// Temporary: the stream is being reset and takes no messages until the peer has answered. Wait for
    /// [`Event::StreamsReset`](crate::Event::StreamsReset) or [`Event::StreamRequestFailed`](crate::Event::StreamRequestFailed).
    StreamResetting,
    /// The association is shutting down or has ended.
    Closed,
}

impl SendError {
    /// Returns the error about a message.
    #[must_use]
    pub fn new(message: Message, kind: SendErrorKind) -> Self {
        Self { message, kind }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, kind } = self;
        match kind {
            SendErrorKind::BufferFull => write!(f, "the send buffer is full"),
            SendErrorKind::Empty => write!(f, "an empty message cannot be sent"),
            SendErrorKind::TooLong { bytes_max } => {
                write!(f, "the message has {} bytes, but at most {bytes_max} are allowed", message.payload.len())
            }
            SendErrorKind::NoSuchStream { streams } => {
                write!(f, "stream {} does not exist: {streams} streams were negotiated", message.stream.0)
            }
            SendErrorKind::StreamResetting => write!(f, "stream {} is being reset", message.stream.0),
            SendErrorKind::Closed => write!(f, "the association accepts no more messages"),
        }
    }
}

impl core::error::Error for SendError {}

/// Why streams cannot be changed (RFC 6525).
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReconfigureError {
    /// Caller: the handshake is not complete, or the shutdown has begun.
    #[error("streams can only be changed while the association is established")]
    NotEstablished,
    /// Peer: it does not support stream reconfiguration.
    #[error("the peer does not support stream reconfiguration")]
    NotSupported,
    /// Caller: there is no such stream.
    #[error("stream {} does not exist: there are {streams} streams", .stream.0)]
    NoSuchStream {
        /// The stream.
        stream: StreamId,
        /// Streams in that direction.
        streams: u16,
    },
    /// Caller: the total would exceed 65,535.
    #[error("the association would have more than 65,535 streams")]
    TooManyStreams,
}

/// Why an association ended.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClosedReason {
    /// Both sides have shut down gracefully (RFC 9260 §9.2).
    #[error("shut down gracefully")]
    Shutdown,
    /// This side called `abort`.
    #[error("aborted by this side")]
    AbortedLocally,
    /// Peer: it sent ABORT.
    #[error("aborted by the peer{}", cause_text(*.code, .info))]
    AbortedByPeer {
        /// The first error cause code, 0 if there was none (RFC 9260 §3.3.10).
        code: u16,
        /// That cause's bytes, at most 64 of them.
        info: Bytes,
    },
    /// Peer: it violated the protocol, and was sent an ABORT with this text.
    #[error("the peer violated the protocol: {0}")]
    ProtocolViolation(&'static str),
    /// Peer: it lost its state and set the association up again, which `PeerRequests::restart` does not allow.
    #[error("the peer restarted")]
    PeerRestarted,
    /// Network: the handshake got no answer.
    #[error("the peer did not answer the handshake")]
    HandshakeTimeout,
    /// Network: the peer stopped answering (RFC 9260 §8.1).
    #[error("the peer stopped answering")]
    PeerUnreachable,
    /// Peer: it has lost its state, and its stateless reset proves so (RFC 9000 §10.3). Only encrypted associations can be reset.
    #[error("the peer has lost its state, and reset the association")]
    PeerReset,
    /// Network or peer: an orderly shutdown did not finish in time. Either the peer acknowledged too little of the remaining data within
    /// `Timers::shutdown_stall`, or the time since SHUTDOWN exceeded `Timers::shutdown_guard` (T5, RFC 9260 §9.2).
    #[error("the shutdown did not finish in time")]
    ShutdownTimeout,
}

festina_units::debug_is_display!(SendError, ReconfigureError, ClosedReason);

/// Why a packet was dropped without effect.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PacketDropped {
    /// Network: too short or its checksum is wrong.
    #[error(transparent)]
    Damaged(#[from] crate::wire::PacketError),
    /// Peer or other sender: the ports are not this association's.
    #[error("the packet's ports are not this association's")]
    WrongPorts,
    /// Peer or other sender: the verification tag is wrong (RFC 9260 §8.5).
    #[error("the verification tag is wrong")]
    WrongTag,
    /// Other sender: the packet comes from an address that is not the peer's.
    #[error("the packet's source is none of the peer's addresses")]
    WrongAddress,
    /// The association has ended.
    #[error("the association has ended")]
    Closed,
    /// Peer or other sender: the chunk does not fit the state, and is ignored as the RFC requires.
    #[error("unexpected {0}")]
    Unexpected(&'static str),
}

/// The peer violated the protocol in a way that ends the association; the text goes into the ABORT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct ProtocolViolation(pub(crate) &'static str);

/// Names the cause of an ABORT (RFC 9260 §3.3.10) and quotes the peer's text, with control characters escaped.
fn cause_text(code: u16, info: &[u8]) -> String {
    let name = match code {
        // There was no cause, or the peer's application ended the association.
        0 | 12 => "",
        1 => "invalid stream identifier",
        2 => "missing mandatory parameter",
        3 => "stale cookie",
        4 => "out of resource",
        5 => "unresolvable address",
        6 => "unrecognized chunk type",
        7 => "invalid mandatory parameter",
        8 => "unrecognized parameters",
        9 => "no user data",
        10 => "cookie received while shutting down",
        11 => "restart with new addresses",
        13 => "protocol violation",
        _ => "unknown",
    };
    let mut text = if name.is_empty() { String::new() } else { format!(": {name} (cause {code})") };
    if matches!(code, 12 | 13) && !info.is_empty() {
        text.push_str(&format!(": {:?}", String::from_utf8_lossy(info)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abort_is_told_by_the_name_of_its_cause_and_the_peers_words_command_no_terminal() {
        let told = |code, info: &'static [u8]| {
            ClosedReason::AbortedByPeer { code, info: Bytes::from_static(info) }.to_string()
        };
        assert_eq!(told(12, b"kicked"), "aborted by the peer: \"kicked\"");
        assert_eq!(told(12, b""), "aborted by the peer");
        assert_eq!(told(0, b""), "aborted by the peer");
        assert_eq!(told(4, b""), "aborted by the peer: out of resource (cause 4)");
        assert_eq!(
            told(13, b"\x1b[2J\xff"),
            "aborted by the peer: protocol violation (cause 13): \"\\u{1b}[2J\u{fffd}\""
        );
        assert_eq!(told(77, b"\x1b"), "aborted by the peer: unknown (cause 77)");
    }
}
