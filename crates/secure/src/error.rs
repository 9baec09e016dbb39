//! Errors of the handshake and of datagrams.

use festina_sctp::PacketDropped;

use crate::bounds::{CHAIN_BYTES_MAX, CHAIN_LENGTH_MAX};
use crate::foreign::Foreign;
use crate::record::OpenError;
use crate::versions::Versions;
use crate::wire::HeaderError;

/// Code of a close frame: the acceptor refused the client's hello. An acceptor may choose codes of its own above it.
pub const REFUSED: u16 = 256;
/// Code of a close frame: the peer's parameters offer no association.
pub const UNUSABLE_PARAMETERS: u16 = 257;
/// Code of a close frame: no listener on the SCTP port.
pub const NO_SUCH_PORT: u16 = 258;
/// Code of a close frame: the endpoint has no room for another association.
pub const FULL: u16 = 259;
/// Code of a close frame: the handshake is longer than allowed.
pub const TOO_LONG: u16 = 260;
/// Lowest code of a close frame that is an application's own.
pub const APPLICATION_CODES: u16 = 512;

/// The reason why a handshake failed. There is no fallback to an unprotected association.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// TLS failed on this side: the peer's certificate is not trusted, for example.
    #[error("TLS: {error}")]
    Tls {
        /// rustls' error.
        error: rustls::Error,
        /// The alert that is sent to the peer (RFC 8446 §6.2).
        alert: Option<u8>,
    },
    /// Caller: the TLS settings lack `TLS13_AES_128_GCM_SHA256`, which protects the first packets.
    #[error("the TLS settings lack TLS13_AES_128_GCM_SHA256")]
    NoInitialSuite,
    /// Caller: the token is longer than 1,024 bytes, the hello with it and all protocols of ALPN is longer than allowed, or the packet limit leaves no
    /// room.
    #[error("the token, the list of protocols or the packet limit is out of range")]
    Settings,
    /// TLS failed on the peer's side. Until the client has read a ServerHello this is not authenticated, as with [`Refused`](Self::Refused).
    #[error("the peer sent the TLS alert {0}")]
    Alert(u8),
    /// The peer's application or endpoint refused. Until the client has read a ServerHello, anyone on the path may have forged it.
    #[error("the peer refused the association (code {0})")]
    Refused(u16),
    /// This side's acceptor refused.
    #[error("this side refused the association (code {0})")]
    RefusedLocally(u16),
    /// The peer's parameters are malformed, contradict its packets, or offer no usable association.
    #[error("the peer's parameters are malformed or do not belong to this handshake")]
    Parameters,
    /// The handshake of a side is longer than allowed: mostly because of its chain, which may have [`CHAIN_LENGTH_MAX`] certificates of
    /// [`CHAIN_BYTES_MAX`] bytes in all.
    #[error(
        "a side's handshake is longer than allowed: it has more than {} certificates, they have more than {} bytes, or its hello more than 8 KiB",
        CHAIN_LENGTH_MAX,
        CHAIN_BYTES_MAX
    )]
    TooLong,
    /// The peer speaks other versions. This is not authenticated, so anyone on the path may have forged it.
    #[error("the peer does not speak this version of the protocol but {0}")]
    Version(Versions),
    /// The handshake timed out.
    #[error("the peer did not complete the handshake{}", .0.map_or(String::new(), |foreign| format!("; it speaks {foreign}")))]
    NoAnswer(Option<Foreign>),
    /// An established connection ended because of its keys (RFC 9001 §6).
    #[error(transparent)]
    Keys(OpenError),
}

impl From<rustls::Error> for HandshakeError {
    fn from(error: rustls::Error) -> Self {
        Self::Tls { error, alert: None }
    }
}

impl HandshakeError {
    /// Returns the code of the close frame for the peer.
    pub(crate) fn close_code(&self) -> Option<u16> {
        /// The alert `internal_error` (RFC 8446 §6.2).
        const INTERNAL_ERROR: u8 = 80;
        match self {
            Self::Tls { alert, .. } => Some(alert.unwrap_or(INTERNAL_ERROR).into()),
            Self::Parameters => Some(UNUSABLE_PARAMETERS),
            Self::TooLong => Some(TOO_LONG),
            Self::RefusedLocally(code) => Some(*code),
            _ => None,
        }
    }

    /// Converts the code of the peer's close frame.
    pub(crate) fn of_close(code: u16) -> Self {
        u8::try_from(code).map_or(Self::Refused(code), Self::Alert)
    }
}

/// The reason why a datagram, or the rest of it, had no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatagramDropped {
    /// It does not begin with a packet of this format.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A packet is not authentic, is a duplicate, or breaks the rules of key updates.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It belongs to another connection, or its keys are not known yet or any more.
    #[error("the packet belongs to another connection or came at another time")]
    Unexpected,
    /// An authentic packet holds a malformed frame.
    #[error("the payload is no sequence of frames")]
    Frames,
    /// The association dropped the chunks.
    #[error(transparent)]
    Chunks(#[from] PacketDropped),
    /// The handshake failed on it; the association has the reason.
    #[error("the handshake failed")]
    Failed,
    /// The association is over.
    #[error("the association is over")]
    Closed,
    /// The endpoint has the maximum number of half-open handshakes.
    #[error("too many handshakes are half-open")]
    TooManyHalfOpen,
}
