//! Other protocols in which a peer answers.

use std::fmt;

/// Another protocol that a peer spoke during a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Foreign {
    /// SCTP over UDP, with a correct checksum.
    Sctp,
    /// DTLS (RFC 7983).
    Dtls,
    /// STUN (RFC 7983).
    Stun,
    /// A long header of QUIC version 1.
    Quic,
    /// None of these.
    Unknown,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sctp => "SCTP without encryption",
            Self::Dtls => "DTLS",
            Self::Stun => "STUN",
            Self::Quic => "QUIC",
            Self::Unknown => "another protocol",
        })
    }
}

impl Foreign {
    /// Guesses the protocol of a datagram that is not of this format.
    #[must_use]
    pub fn of(datagram: &[u8]) -> Self {
        if festina_sctp::wire::Packet::parse(datagram).is_ok() {
            return Self::Sctp;
        }
        match datagram {
            [0..=3, ..] => Self::Stun,
            [20..=63, ..] => Self::Dtls,
            [192..=255, 0, 0, 0, 1, ..] => Self::Quic,
            _ => Self::Unknown,
        }
    }
}
