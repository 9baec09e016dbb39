//! Errors of the security settings, and of handshakes.

use festina_secure::{CHAIN_BYTES_MAX, CHAIN_LENGTH_MAX, Foreign, HandshakeError, TOO_LONG, UNUSABLE_PARAMETERS};
use thiserror::Error;

use super::certificates::{explain_tls_error, of_certificate};

/// Caller: why security settings cannot be used.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SecurityError {
    /// A certificate is missing or malformed.
    #[error("cannot use the certificate: {0}")]
    Certificate(String),
    /// The private key is missing, malformed, or not that of the certificate.
    #[error("cannot use the private key: {0}")]
    PrivateKey(String),
    /// A fingerprint is not written as 64 hexadecimal digits.
    #[error("a fingerprint has 64 hexadecimal digits")]
    Fingerprint,
    /// The settings contradict each other or lack something.
    #[error("the security settings cannot be used: {0}")]
    Settings(String),
}

/// Why no encrypted association was set up. There is no fallback to plain SCTP.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SecurityFailure {
    /// Caller: the endpoint's settings or the options of this association cannot be used.
    #[error("{0}")]
    Settings(String),
    /// Peer: this side does not trust its certificate.
    #[error("its certificate is not trusted: {0}")]
    Untrusted(String),
    /// Peer: it ended the handshake with a TLS alert (RFC 8446 §6.2).
    #[error("it ended the handshake with the TLS alert {code} ({meaning})")]
    Alert {
        /// The number of the alert.
        code: u8,
        /// The name of the alert, if it is known.
        meaning: &'static str,
    },
    /// Peer: its application refused, with this code.
    #[error("its application refused (code {0})")]
    Refused(u16),
    /// Peer: it answered in another protocol. Nothing authenticates that answer.
    #[error("it speaks {0}, and this endpoint speaks only encrypted associations")]
    OtherProtocol(String),
    /// Peer or network: the handshake failed for another reason.
    #[error("{0}")]
    Handshake(String),
}

festina_units::debug_is_display!(SecurityError, SecurityFailure);

impl SecurityError {
    pub(super) fn of_tls(error: rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(fault) => Self::Certificate(of_certificate(&fault)),
            rustls::Error::InconsistentKeys(_) => Self::PrivateKey(explain_tls_error(&error)),
            error => Self::Settings(explain_tls_error(&error)),
        }
    }
}

/// The name of the protocol that plain endpoints speak.
const PLAIN_SCTP: &str = "SCTP without encryption";

impl SecurityFailure {
    /// Returns whether the peer does not accept this side's certificate, or lacks it (RFC 8446 §6.2).
    pub fn is_refused_certificate(&self) -> bool {
        matches!(self, Self::Alert { code: 42..=49 | 51 | 116, .. })
    }

    /// Returns whether the peer does not know this side's certificate, or lacks it. The certificate may be in order: the peer has to admit it. Other
    /// [refused certificates](Self::is_refused_certificate) have a fault that the meaning of the alert names.
    pub fn is_unknown_certificate(&self) -> bool {
        // 51 also if another authority has the name of the trusted one.
        matches!(self, Self::Alert { code: 46 | 48 | 49 | 51 | 116, .. })
    }

    /// Returns whether the answer was that of a peer that speaks plain SCTP. Nothing authenticates the answer.
    pub fn is_plain_sctp(&self) -> bool {
        matches!(self, Self::OtherProtocol(name) if name.contains(PLAIN_SCTP))
    }

    /// The failure of a handshake.
    pub(crate) fn of(error: &HandshakeError) -> Self {
        use rustls::{Error, PeerIncompatible};
        const OTHER_KIND: Error = Error::PeerIncompatible(PeerIncompatible::IncorrectCertificateTypeExtension);
        match error {
            HandshakeError::Tls { error, .. } if *error == OTHER_KIND => Self::Untrusted(
                "it has another kind of key than expected: a certificate or a raw public key".to_owned(),
            ),
            HandshakeError::Tls { error: Error::InvalidCertificate(fault), .. } => {
                Self::Untrusted(of_certificate(fault))
            }
            HandshakeError::Tls { error, .. } => Self::Handshake(explain_tls_error(error)),
            HandshakeError::Alert(code) => Self::Alert { code: *code, meaning: alert_name(*code) },
            HandshakeError::Refused(TOO_LONG) => Self::Handshake(format!(
                "the handshake is longer than the peer allows: a chain has at most {CHAIN_LENGTH_MAX} certificates of {CHAIN_BYTES_MAX} bytes in all"
            )),
            HandshakeError::Refused(UNUSABLE_PARAMETERS) => {
                Self::Handshake("the peer finds no usable association in the parameters of this side".to_owned())
            }
            HandshakeError::Refused(code) => Self::Refused(*code),
            HandshakeError::NoAnswer(Some(foreign)) => Self::of_foreign(*foreign),
            HandshakeError::Version(versions) => Self::OtherProtocol(format!("other versions: {versions}")),
            HandshakeError::NoInitialSuite | HandshakeError::Settings => Self::Settings(error.to_string()),
            error => Self::Handshake(error.to_string()),
        }
    }

    /// The failure of a handshake in which the peer answered in another protocol.
    pub(crate) fn of_foreign(foreign: Foreign) -> Self {
        let name = match foreign {
            Foreign::Sctp => PLAIN_SCTP,
            Foreign::Dtls => "DTLS",
            Foreign::Stun => "STUN",
            Foreign::Quic => "QUIC",
            _ => "another protocol",
        };
        Self::OtherProtocol(name.to_owned())
    }
}

/// The names of RFC 8446 §6 for the alerts that a handshake of TLS 1.3 ends with.
pub(super) fn alert_name(code: u8) -> &'static str {
    match code {
        40 => {
            "handshake failure: the sides differ in the kind of key that they show and expect (certificate, raw public key or none), or have no \
             cipher suite in common"
        }
        42 => "bad certificate: the certificate of this side is malformed, or is not valid for its name",
        43 => {
            "unsupported certificate: the certificate of this side is not for this use, or of a kind that the peer does not support"
        }
        44 => "certificate revoked: create a new certificate for this side",
        45 => {
            "certificate expired: by the peer's clock, the certificate of this side has expired or is not valid yet; renew it, or set the clocks"
        }
        46 => "certificate unknown",
        47 => "illegal parameter",
        48 => "unknown certificate authority",
        49 => "access denied",
        50 => "decode error",
        51 => "decrypt error: a signature of this side is not that of the key that the peer expects",
        70 => "protocol version",
        80 => "internal error",
        109 => "missing extension",
        112 => "unrecognized name",
        116 => "a certificate is required",
        120 => "no application protocol in common",
        _ => "see RFC 8446",
    }
}
