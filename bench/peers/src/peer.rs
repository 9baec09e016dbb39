//! The interface of a stack to be measured and tested here.

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

/// One user message. Ordered delivery is promised only among the ordered messages of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Stream identifier.
    pub stream: u16,
    /// Payload protocol identifier. Some stacks carry only the ones of RFC 8831 (51 text, 53 binary), so use those.
    pub ppid: u32,
    /// Sent with the U bit. Not every stack reports it on receipt; then it is `false` there.
    pub unordered: bool,
    /// User data, never empty.
    pub payload: Bytes,
}

/// Why a message was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// The send buffer is full; try again after packets have been exchanged.
    #[error("the send buffer is full")]
    WouldBlock,
    /// The stack refuses the message for good, with its own words.
    #[error("refused: {0}")]
    Refused(String),
}

/// This stack has no way to send an ABORT chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("this stack has no way to send an ABORT chunk")]
pub struct AbortUnsupported;

/// Limits that are set alike in every stack, so that they do the same work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Largest SCTP packet in bytes, from the common header to the last chunk.
    pub packet_bytes_max: u32,
    /// Largest user message in bytes.
    pub message_bytes_max: u32,
    /// Advertised receiver window in bytes.
    pub receive_window_bytes: u32,
    /// A stream accepts messages until it holds this many bytes; whether a stack counts unsent or unacknowledged bytes is up to it.
    pub send_buffer_bytes: usize,
    /// Retransmit for ever instead of declaring the association dead: at 20 % loss the limits of RFC 9260 section 16 would rightly end some
    /// associations, which is not the subject of the test.
    pub persistent: bool,
}

impl Settings {
    /// For measurements: 1,400-byte packets, so that a 1,200-byte message is one chunk everywhere, and 256 KiB both of
    /// receiver window and of send buffer, so that no stack has more in flight than another.
    #[must_use]
    pub fn bulk() -> Self {
        Settings {
            packet_bytes_max: 1_400,
            message_bytes_max: 64 << 10,
            receive_window_bytes: 256 << 10,
            send_buffer_bytes: 256 << 10,
            persistent: false,
        }
    }

    /// For measurements over a path with delay: as [`Settings::bulk`], with 1 MiB of receiver window, so that hundreds of packets
    /// are under way, and 4 MiB of send buffer, so that a stack that counts more than user data there fills that window as well.
    #[must_use]
    pub fn bulk_with_delay() -> Self {
        Settings { receive_window_bytes: 1 << 20, send_buffer_bytes: 4 << 20, ..Settings::bulk() }
    }

    /// For interoperability: messages up to 1 MiB, and no limit of retransmissions.
    #[must_use]
    pub fn interop() -> Self {
        Settings {
            packet_bytes_max: 1_200,
            message_bytes_max: 2 << 20,
            receive_window_bytes: 4 << 20,
            send_buffer_bytes: 2 << 20,
            persistent: true,
        }
    }
}

/// One endpoint of one association, without sockets or clock. `now` is the virtual time since the start of the run and
/// never goes back.
///
/// After any call that takes `now`, drain [`Peer::poll_packet`] and [`Peer::receive`], then ask for [`Peer::deadline`].
pub trait Peer {
    /// Handles one SCTP packet.
    fn handle_packet(&mut self, now: Duration, packet: Bytes);

    /// The next SCTP packet to put on the wire.
    fn poll_packet(&mut self, now: Duration) -> Option<Bytes>;

    /// When [`Peer::handle_timeout`] is due.
    fn deadline(&self) -> Option<Duration>;

    /// Runs the timers that are due.
    fn handle_timeout(&mut self, now: Duration);

    /// Queues a message for reliable delivery.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] while the send buffer is full, [`SendError::Refused`] when the stack will never take it.
    fn send(&mut self, now: Duration, message: &Message) -> Result<(), SendError>;

    /// The next message delivered to the user.
    fn receive(&mut self, now: Duration) -> Option<Message>;

    /// Ends the association gracefully (RFC 9260 section 9.2).
    fn shutdown(&mut self, now: Duration);

    /// Aborts the association (RFC 9260 section 9.1).
    ///
    /// # Errors
    /// [`AbortUnsupported`] if the stack cannot.
    fn abort(&mut self, now: Duration) -> Result<(), AbortUnsupported>;

    /// The handshake is complete and the association has not ended.
    fn is_connected(&self) -> bool;

    /// The association has ended, gracefully or not.
    fn is_closed(&self) -> bool;

    /// Why the association ended other than by a graceful shutdown, if the stack reports it.
    fn error(&self) -> Option<String>;

    /// Whether the association ended by an ABORT that one of the two applications asked for; `None` if the stack does not tell.
    fn was_aborted(&self) -> Option<bool> {
        None
    }
}

/// When the sender may abandon a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Never.
    #[default]
    Reliable,
    /// After so long (RFC 7496 section 3: timed reliability).
    Lifetime(Duration),
    /// After this many retransmissions.
    Retransmissions(u16),
    /// For a message with a lower number, if the send buffer is full.
    Priority(u16),
    /// For a later message with the same key.
    Replacing(u64),
}

/// Reaction of a stack when the other side has reset a stream (RFC 8831 section 6.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InReturn {
    /// Nothing: that is for the application.
    Nothing,
    /// It resets its own side, too.
    Resets,
    /// The same, but it asks only once, and a request that is lost is lost for ever.
    ResetsOnce,
}

/// A peer that supports partial reliability and stream resets.
pub trait PartiallyReliable: Peer {
    /// Reaction of the stack when the other side has reset a stream.
    const IN_RETURN: InReturn;

    /// Whether messages may have lifetimes: the stack ends partly sent messages as in RFC 3758 section 3.5.
    const EXPIRES_BETWEEN_FRAGMENTS: bool;

    /// As [`Peer::send`], with a policy. Policies unknown to a stack are replaced by a retransmission limit.
    ///
    /// # Errors
    /// As [`Peer::send`].
    fn send_with(&mut self, now: Duration, message: &Message, policy: Policy) -> Result<(), SendError>;

    /// Resets outgoing streams (RFC 6525 section 5.1.2). No message waits on them.
    ///
    /// # Errors
    /// The stack's own words.
    fn reset(&mut self, now: Duration, streams: &[u16]) -> Result<(), String>;
}

/// A factory of endpoints that share everything associations of the stack can share (listening endpoint, configuration).
pub trait Stack {
    /// The endpoint type.
    type Peer: Peer;

    /// Name and version as they appear in reports.
    const NAME: &'static str;

    /// Whether the stack follows RFC 9260 sections 8.4 and 8.5.1 at the end of an association: it answers a stray SHUTDOWN ACK after it has closed,
    /// and accepts a SHUTDOWN COMPLETE with a reflected tag. Otherwise the loss of one SHUTDOWN COMPLETE leaves the other side open for ever.
    const ANSWERS_STRAYS: bool;

    /// Whether an endpoint that waits for SHUTDOWN COMPLETE reports an error if it receives an ABORT with a reflected tag instead, because the other
    /// side has ended and forgotten the association (RFC 9260 sections 8.4 and 8.5.1).
    const LATE_ABORT_IS_ERROR: bool;

    /// Whether `shutdown` waits for everything still queued (RFC 9260 section 9.2).
    const SHUTDOWN_DRAINS: bool;

    /// Whether [`Peer::abort`] is supported.
    const CAN_ABORT: bool;

    /// Sets the stack up with these limits.
    fn new(settings: &Settings) -> Self;

    /// An endpoint that connects; its INIT is ready to be polled.
    fn client(&mut self, now: Duration) -> Self::Peer;

    /// An endpoint that waits for an INIT.
    fn server(&mut self, now: Duration) -> Self::Peer;
}
