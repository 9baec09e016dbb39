//! Errors of this crate, one enum per operation; each variant states who caused the error. Errors during the life of an association come from the
//! core: [`SendError`](crate::SendError) and [`ClosedReason`](crate::ClosedReason).

use std::io;
use std::net::{IpAddr, SocketAddr};

use festina_sctp::{ClosedReason, ConfigError, MultihomingError, StreamId, StreamScheduler};
use festina_units::Duration;
use thiserror::Error;

use crate::security::{SecurityError, SecurityFailure};

/// Why an endpoint could not be opened.
#[derive(Error)]
#[non_exhaustive]
pub enum BindError {
    /// Caller: a setting is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Caller: there is no tokio runtime for the endpoint's driver, and the settings name no other [`runtime`](crate::runtime).
    #[error("there is no tokio runtime here")]
    NoRuntime,
    /// Caller: the tokio runtime was built without I/O.
    #[error("the tokio runtime has no I/O: build it with enable_io or enable_all")]
    RuntimeWithoutIo,
    /// Caller: the tokio runtime was built without timers.
    #[error("the tokio runtime has no timers: build it with enable_time or enable_all")]
    RuntimeWithoutTime,
    /// System: the socket could not be opened or set up, for instance because the address is in use or, for a raw socket,
    /// because the privilege is missing.
    #[error("cannot open a socket on {address}: {source}")]
    Socket {
        /// The requested address; the port is 0 for a raw socket.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// Caller: the address is none of several that the endpoint has.
    #[error("cannot remove the address {address}: {source}")]
    Removal {
        /// The address.
        address: IpAddr,
        /// Why.
        source: io::Error,
    },
    /// Caller: one of several addresses is that of no single host, or an IPv4 address written as an IPv6 one.
    #[error(transparent)]
    Addresses(MultihomingError),
    /// Caller: the security settings cannot be used.
    #[error(transparent)]
    Security(#[from] SecurityError),
    /// System: the operating system could not provide a timer.
    #[error("cannot create a timer: {0}")]
    Timer(#[source] io::Error),
    /// System: the operating system could not provide random numbers.
    #[error("cannot get random numbers from the operating system: {0}")]
    Randomness(#[source] io::Error),
}

impl From<MultihomingError> for BindError {
    fn from(error: MultihomingError) -> Self {
        match error {
            MultihomingError::OutOfRange(error) => Self::Config(error),
            error => Self::Addresses(error),
        }
    }
}

/// Why an SCTP port cannot be listened on.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Caller: port 0 is invalid.
    #[error("cannot listen on port 0")]
    PortZero,
    /// Caller: another listener of this endpoint uses the port.
    #[error("SCTP port {0} of this endpoint already has a listener")]
    PortInUse(u16),
    /// Caller: the endpoint was opened with the settings of a client, which has no identity to show.
    #[error("the endpoint is a client; one that listens is opened with Endpoint::server")]
    Client,
    /// Caller: the endpoint is plain, and the options are about requests or early messages.
    #[error("requests and early messages need an encrypted endpoint")]
    Plain,
    /// Caller: the endpoint was closed.
    #[error("the endpoint is closed")]
    EndpointClosed,
}

/// Why there is no message now.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TryRecvError {
    /// No message has arrived.
    #[error("no message has arrived")]
    Empty,
    /// The association has ended in another way than by a graceful shutdown, and the last message was taken.
    #[error("the association has ended: {0}")]
    Closed(ClosedReason),
}

impl TryRecvError {
    /// The result if there is no message. `closed` is the reason why the association has ended.
    pub(crate) fn without_message<T>(closed: Option<ClosedReason>) -> Result<Option<T>, Self> {
        match closed {
            None => Err(Self::Empty),
            Some(ClosedReason::Shutdown) => Ok(None),
            Some(reason) => Err(Self::Closed(reason)),
        }
    }
}

/// Caller: the stream already has a reader.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[error("stream {0} already has a reader")]
pub struct StreamTaken(pub StreamId);

/// Caller: the association's scheduler does not use this value of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the value has no effect: it belongs to the scheduler {needed:?}, and this endpoint uses {used:?} (Transport::with_scheduler)"
)]
pub struct WrongScheduler {
    /// The scheduler that uses the value.
    pub needed: StreamScheduler,
    /// The scheduler of the endpoint.
    pub used: StreamScheduler,
}

/// Why an association could not be set up.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Caller: the peer's address or a port is unusable.
    #[error("cannot connect to {remote}: {problem}")]
    BadAddress {
        /// The requested address.
        remote: SocketAddr,
        /// The reason.
        problem: &'static str,
    },
    /// Caller or network: the name was not found, or none of its addresses can be reached from this endpoint.
    #[error("cannot look up {name:?}: {cause}")]
    NameNotFound {
        /// The requested name and port.
        name: String,
        /// The reason.
        cause: String,
    },
    /// Caller: an association with this peer and these ports already exists.
    #[error("SCTP port {port} is taken by another association with {remote}")]
    PortInUse {
        /// The peer.
        remote: SocketAddr,
        /// The requested local SCTP port.
        port: u16,
    },
    /// Caller: every local port is used by an association with this peer's port.
    #[error("no local SCTP port is left for another association with {remote}")]
    NoPortLeft {
        /// The peer.
        remote: SocketAddr,
    },
    /// Caller: the endpoint already has the maximum number of associations.
    #[error("the endpoint already has {associations_max} associations, the limit of its settings")]
    TooManyAssociations {
        /// The limit, `Admission::associations_max`.
        associations_max: usize,
    },
    /// Caller: the endpoint was closed.
    #[error("the endpoint is closed")]
    EndpointClosed,
    /// Caller: the result of this handshake was already taken.
    #[error("the association of this handshake was already taken")]
    ResultTaken,
    /// Peer: nothing listens on that SCTP port. It refused with an ABORT without a cause (RFC 9260 §8.4).
    #[error("{remote} refused the association: nothing listens on SCTP port {port}")]
    NotListening {
        /// The peer.
        remote: SocketAddr,
        /// The peer's SCTP port.
        port: u16,
    },
    /// Peer: it has no room for another association, or its listener rejected this one ([`Answer::Refuse`](crate::Answer::Refuse)). Its ABORT has the
    /// cause "Out of Resource" (RFC 9260 §3.3.10.4).
    #[error("{remote} is full: it refused the association (out of resource); try again later")]
    PeerFull {
        /// The peer.
        remote: SocketAddr,
    },
    /// Peer: it refused for another reason.
    #[error("{remote} refused the association: {reason}")]
    Refused {
        /// The peer.
        remote: SocketAddr,
        /// Always [`ClosedReason::AbortedByPeer`], with the peer's cause and text.
        reason: ClosedReason,
    },
    /// Caller or peer: no encrypted association came up. There is no fallback to plain SCTP.
    #[error("no encrypted association with {remote}: {failure}")]
    Security {
        /// The peer.
        remote: SocketAddr,
        /// The reason.
        failure: SecurityFailure,
    },
    /// System: this host cannot send to the address. It has no route, or is not allowed to, as with a broadcast address.
    #[error("cannot send to {remote}: {cause}")]
    CannotSend {
        /// The peer.
        remote: SocketAddr,
        /// The kind of error that the operating system reported.
        kind: io::ErrorKind,
        /// Its text.
        cause: String,
    },
    /// Network or peer: no answer in time.
    #[error("{remote} did not complete the handshake within {} ms", in_ms(*after))]
    Timeout {
        /// The peer.
        remote: SocketAddr,
        /// Duration of the attempt: the time limit, or less if Max.Init.Retransmits was reached first.
        after: Duration,
    },
    /// The association ended during the handshake for another reason.
    #[error("no association with {remote}: {reason}")]
    Ended {
        /// The peer.
        remote: SocketAddr,
        /// The reason.
        reason: ClosedReason,
    },
}

festina_units::debug_is_display!(BindError, ListenError, TryRecvError, StreamTaken, WrongScheduler, ConnectError);

/// A time limit in milliseconds, without the fraction of one that has whole ones.
pub(crate) fn in_ms(time: Duration) -> f64 {
    if time.as_millis() > 0 { time.as_millis() as f64 } else { time.as_micros() as f64 / 1e3 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking::{OpenError, WaitError};

    /// The line that `fn main() -> Result<(), E>` prints after "Error: ".
    fn printed(error: impl std::error::Error + 'static) -> String {
        format!("{:?}", Box::<dyn std::error::Error>::from(error))
    }

    #[test]
    fn main_prints_the_sentence_of_an_error() {
        let remote: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let timeout = ConnectError::Timeout { remote, after: Duration::from_secs(1) };
        let sentence = "127.0.0.1:9 did not complete the handshake within 1000 ms";
        assert_eq!(printed(timeout.clone()), sentence);
        let short = ConnectError::Timeout { remote, after: Duration::from_micros(1) };
        assert_eq!(printed(short), "127.0.0.1:9 did not complete the handshake within 0.001 ms");
        assert_eq!(printed(WaitError::Failed(timeout)), sentence);
        assert_eq!(printed(ListenError::PortZero), "cannot listen on port 0");
        let unsafe_settings = SecurityError::Settings("alas".to_owned());
        assert_eq!(printed(OpenError::Bind(unsafe_settings.into())), "the security settings cannot be used: alas");
        let ended = ClosedReason::AbortedByPeer { code: 12, info: b"enough"[..].into() };
        assert_eq!(printed(ended.clone()), ended.to_string());
    }
}
