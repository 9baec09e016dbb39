//! Errors of the security settings, of files with keys, and of handshakes.

use std::io;
use std::path::PathBuf;

use festina_secure::{CHAIN_BYTES_MAX, CHAIN_LENGTH_MAX, Foreign, HandshakeError, TOO_LONG, UNUSABLE_PARAMETERS};
use thiserror::Error;

use super::Fingerprint;
use super::certificates::{alert_name, explain_tls_error, of_certificate};

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
    OtherProtocol(Foreign),
    /// Peer: it speaks other versions of the protocol of encrypted associations. Nothing authenticates that answer.
    #[error("it speaks other versions: {0}, and this endpoint speaks only encrypted associations")]
    OtherVersion(String),
    /// Peer or network: the handshake failed for another reason.
    #[error("{0}")]
    Handshake(String),
}

/// Caller or system: why a file with a key or with known peers cannot be used.
#[derive(Error)]
#[non_exhaustive]
pub enum StoredError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Every user of the system can read or change the file with the private key.
    #[error("{} holds a private key, and every user can read or change it: chmod 600, or remove it for a new key", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// The file contains no certificates or no key, although it should.
    #[error("cannot use {}: {source}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: SecurityError,
    },
    /// A line of a list of known peers has no fingerprint.
    #[error("line {line} of {} has no fingerprint", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its number, from 1.
        line: usize,
    },
    /// Caller: a peer's name is empty, has white space, or begins with `#`.
    #[error("a list of known peers cannot hold the name {name:?}")]
    Name {
        /// The name.
        name: String,
    },
    /// A peer has another key than before.
    #[error(transparent)]
    Changed(#[from] ChangedKey),
}

/// Peer: it has another key than the known one.
#[derive(Clone, PartialEq, Eq, Error)]
#[error(
    "the key of {name} has changed: it was sha256:{known} and is sha256:{seen}. An attacker may be impersonating it"
)]
#[non_exhaustive]
pub struct ChangedKey {
    /// The peer, as the application calls it.
    pub name: String,
    /// The fingerprint of the known key.
    pub known: Fingerprint,
    /// The fingerprint of the key that was seen.
    pub seen: Fingerprint,
}

festina_units::debug_is_display!(SecurityError, SecurityFailure, StoredError, ChangedKey);

impl SecurityError {
    pub(super) fn of_tls(error: rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(fault) => Self::Certificate(of_certificate(&fault)),
            rustls::Error::InconsistentKeys(_) => Self::PrivateKey(explain_tls_error(&error)),
            error => Self::Settings(explain_tls_error(&error)),
        }
    }
}

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
            HandshakeError::NoAnswer(Some(foreign)) => Self::OtherProtocol(*foreign),
            HandshakeError::Version(versions) => {
                versions.foreign().map_or_else(|| Self::OtherVersion(versions.to_string()), Self::OtherProtocol)
            }
            HandshakeError::NoInitialSuite | HandshakeError::Settings => Self::Settings(error.to_string()),
            error => Self::Handshake(error.to_string()),
        }
    }
}
