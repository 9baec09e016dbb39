//! Faults of certificates and of TLS as sentences that say what to do. The libraries print the names of their variants instead.

use std::fmt::{self, Debug};

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error, ExtendedKeyPurpose, InconsistentKeys, PeerIncompatible};
use webpki::{EndEntityCert, KeyUsage};

/// Number of names of a certificate that a message lists.
const NAMES_MAX: usize = 4;

/// Length of a name in a message, in characters.
const NAME_CHARS_MAX: usize = 100;

const ALGORITHMS: &str =
    "use a key of ECDSA P-256 or P-384, Ed25519, or RSA with 2048 to 8192 bits, and signatures with SHA-256 or SHA-384";
const NEW_ONE: &str = "create a new one";

/// Returns why a certificate is not valid today. The dates of one that cannot be read are not checked.
pub(super) fn fault_of_dates(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    // The dates are checked first, and then there are no authorities.
    match certificate.verify_for_usage(&[], &[], &[], UnixTime::now(), KeyUsage::server_auth(), None, None) {
        Err(
            error @ (webpki::Error::CertExpired { .. }
            | webpki::Error::CertNotValidYet { .. }
            | webpki::Error::InvalidCertValidity),
        ) => Some(of_webpki(&error)),
        _ => None,
    }
}

/// Returns the cause of an error of TLS as a sentence, with advice if there is any.
pub fn explain_tls_error(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(fault) => format!("the certificate is not trusted: {}", of_certificate(fault)),
        Error::NoCertificatesPresented => "the peer showed no certificate; give it a certificate and a key".to_owned(),
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            "the private key is not that of the certificate; give the two files that belong together".to_owned()
        }
        Error::PeerIncompatible(reason) => of_incompatibility(reason),
        Error::AlertReceived(alert) => {
            let code = u8::from(*alert);
            format!("the peer ended the handshake with the TLS alert {code} ({})", alert_name(code))
        }
        Error::PeerMisbehaved(rule) => format!("the peer breaks a rule of TLS: {}", words(rule)),
        Error::InvalidMessage(fault) => format!("the peer sent a malformed TLS message: {}", words(fault)),
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            "the peer sent a TLS message at the wrong time".to_owned()
        }
        Error::InvalidCertRevocationList(fault) => format!("a revocation list cannot be used: {}", words(fault)),
        Error::InvalidEncryptedClientHello(fault) => {
            format!("the encrypted client hello cannot be used: {}", words(fault))
        }
        Error::FailedToGetCurrentTime => "the system does not tell the time".to_owned(),
        Error::FailedToGetRandomBytes => "the system provides no random numbers".to_owned(),
        Error::NoApplicationProtocol => "the sides have no application protocol in common".to_owned(),
        Error::General(text) => text.clone(),
        Error::Other(cause) => match cause.0.downcast_ref() {
            Some(fault) => of_webpki(fault),
            None => cause.0.to_string(),
        },
        // The rest has no data.
        other => words(other),
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

/// Returns the fault of a peer's certificate and advice, as the end of a sentence about it.
pub(super) fn of_certificate(fault: &CertificateError) -> String {
    let fixed = match fault {
        CertificateError::ExpiredContext { time, not_after } => return expired(*time, *not_after),
        CertificateError::NotValidYetContext { time, not_before } => return not_yet_valid(*time, *not_before),
        CertificateError::NotValidForNameContext { expected, presented } => {
            return wrong_name(&expected.to_str(), presented);
        }
        CertificateError::InvalidPurposeContext { required, .. } => return wrong_purpose(required),
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => return unsupported_algorithm(),
        CertificateError::ExpiredRevocationListContext { next_update, .. } => {
            return format!("the revocation list of its authority expired on {}; get a new list", day(*next_update));
        }
        CertificateError::Other(cause) => {
            return match cause.0.downcast_ref() {
                Some(fault) => of_webpki(fault),
                None => cause.0.to_string(),
            };
        }
        CertificateError::BadEncoding => "it is no well-formed X.509 certificate; create a new one",
        CertificateError::Expired => "it has expired; renew it",
        CertificateError::NotValidYet => "it is not valid yet; set the clock, or create a new one",
        CertificateError::Revoked => REVOKED,
        CertificateError::UnhandledCriticalExtension => CRITICAL_EXTENSION,
        CertificateError::UnknownIssuer => UNKNOWN_ISSUER,
        CertificateError::UnknownRevocationStatus => REVOCATION_UNKNOWN,
        CertificateError::ExpiredRevocationList => "the revocation list of its authority has expired; get a new list",
        CertificateError::BadSignature => BAD_SIGNATURE,
        CertificateError::NotValidForName => "it is not valid for the expected name; name the server as it does",
        CertificateError::InvalidPurpose => {
            "its extended key usage does not allow this use; create a new one that does"
        }
        CertificateError::InvalidOcspResponse => "its OCSP response is invalid; have the server fetch a new one",
        CertificateError::ApplicationVerificationFailure => "its fingerprint is not a trusted one",
        other => return unknown_fault(other),
    };
    fixed.to_owned()
}

const UNKNOWN_ISSUER: &str =
    "no trusted root has signed it; trust the root of its authority, and have the server show all certificates between";
const REVOKED: &str = "its authority has revoked it; create a new one";
const CRITICAL_EXTENSION: &str =
    "it has a critical extension that is not supported; create a new one without this extension";
const REVOCATION_UNKNOWN: &str = "whether it is revoked is unknown; get the revocation list of its authority";
const BAD_SIGNATURE: &str = "it was not signed by the key of the trusted authority of this name; trust the present certificate of the authority, or \
     sign it again";

/// Returns the fault of a certificate that webpki refuses, and advice.
#[expect(deprecated, reason = "they are still variants")]
pub(super) fn of_webpki(error: &webpki::Error) -> String {
    use webpki::Error as E;
    let fixed = match error {
        E::CertExpired { time, not_after } => return expired(*time, *not_after),
        E::CertNotValidYet { time, not_before } => return not_yet_valid(*time, *not_before),
        E::CertNotValidForName(names) => return wrong_name(&names.expected.to_str(), &names.presented),
        E::RequiredEkuNotFound | E::RequiredEkuNotFoundContext(_) | E::EmptyEkuExtension => {
            "its extended key usage does not allow this use; create a new one with serverAuth for servers and clientAuth for clients"
        }
        E::UnsupportedSignatureAlgorithm
        | E::UnsupportedSignatureAlgorithmContext(_)
        | E::UnsupportedSignatureAlgorithmForPublicKey
        | E::UnsupportedSignatureAlgorithmForPublicKeyContext(_)
        | E::SignatureAlgorithmMismatch => return unsupported_algorithm(),
        E::CaUsedAsEndEntity => {
            "it is the certificate of an authority (CA:TRUE), which must not stand for a host; sign one for the host with it (CA:FALSE), or trust it \
             by its fingerprint"
        }
        E::EndEntityUsedAsCa => {
            "a certificate that is not of an authority has signed it; have an authority (CA:TRUE) sign it, or trust it by its fingerprint"
        }
        E::UnsupportedCertVersion => {
            "it is not an X.509 certificate of version 3; create a new one with extensions such as subjectAltName"
        }
        E::UnknownIssuer => UNKNOWN_ISSUER,
        E::InvalidSignatureForPublicKey => BAD_SIGNATURE,
        E::CertRevoked => REVOKED,
        E::CertDistrusted => "its key is known to be compromised; create a new key and a new certificate",
        E::UnsupportedCriticalExtension => CRITICAL_EXTENSION,
        E::InvalidCertValidity
        | E::BadDer
        | E::BadDerTime
        | E::TrailingData(_)
        | E::InvalidSerialNumber
        | E::ExtensionValueInvalid => "it is no well-formed X.509 certificate; create a new one",
        E::MalformedExtensions | E::MalformedDnsIdentifier | E::UnsupportedNameType => {
            "a name or extension in it is malformed; create a new one with the names in subjectAltName"
        }
        E::NameConstraintViolation
        | E::MalformedNameConstraint
        | E::InvalidNetworkMaskConstraint
        | E::MaximumNameConstraintComparisonsExceeded => {
            "the name constraints of its authority do not allow its names; have another authority sign it"
        }
        E::PathLenConstraintViolated | E::MaximumPathDepthExceeded => {
            "there are more certificates between it and its root than the root allows; have a closer authority sign it"
        }
        E::MaximumPathBuildCallsExceeded | E::MaximumSignatureChecksExceeded => {
            "its chain is too complex; have the server show the certificates between it and the root alone, in order"
        }
        E::UnknownRevocationStatus => REVOCATION_UNKNOWN,
        other => return of_revocation_list(other),
    };
    fixed.to_owned()
}

/// Returns the fault of the revocation list by which webpki refuses a certificate, and advice.
#[expect(deprecated, reason = "they are still variants")]
fn of_revocation_list(error: &webpki::Error) -> String {
    use webpki::Error as E;
    match error {
        E::CrlExpired { next_update, .. } => {
            format!("the revocation list of its authority expired on {}; get a new list", day(*next_update))
        }
        E::InvalidCrlNumber
        | E::InvalidCrlSignatureForPublicKey
        | E::IssuerNotCrlSigner
        | E::UnsupportedCrlIssuingDistributionPoint
        | E::UnsupportedCrlVersion
        | E::UnsupportedDeltaCrl
        | E::UnsupportedIndirectCrl
        | E::UnsupportedRevocationReason
        | E::UnsupportedRevocationReasonsPartitioning
        | E::UnsupportedCrlSignatureAlgorithm
        | E::UnsupportedCrlSignatureAlgorithmContext(_)
        | E::UnsupportedCrlSignatureAlgorithmForPublicKey
        | E::UnsupportedCrlSignatureAlgorithmForPublicKeyContext(_) => {
            format!("the revocation list of its authority cannot be used ({}); get a new list", words(error))
        }
        other => unknown_fault(other),
    }
}

/// A fault that a later version of a library may add.
fn unknown_fault(fault: &impl Debug) -> String {
    format!("it was refused ({}); {NEW_ONE}", words(fault))
}

fn expired(now: UnixTime, not_after: UnixTime) -> String {
    format!("it expired on {}; renew it, or set the clock of this host, which says {}", day(not_after), day(now))
}

fn not_yet_valid(now: UnixTime, not_before: UnixTime) -> String {
    let (from, now) = (day(not_before), day(now));
    format!("it is not valid before {from}; set the clock of this host, which says {now}, or {NEW_ONE}")
}

/// Why a private key of this side cannot be used.
pub(super) fn unsupported_key() -> String {
    format!("it is malformed, or of a kind that is not supported; {ALGORITHMS}")
}

fn unsupported_algorithm() -> String {
    format!("its key or its signature uses an algorithm that is not supported; {ALGORITHMS}")
}

fn wrong_purpose(required: &ExtendedKeyPurpose) -> String {
    let purpose = match required {
        ExtendedKeyPurpose::ClientAuth => "clientAuth, as clients need",
        ExtendedKeyPurpose::ServerAuth => "serverAuth, as servers need",
        ExtendedKeyPurpose::Other(_) => "the required purpose",
    };
    format!("its extended key usage does not allow this use; create a new one with {purpose}")
}

fn wrong_name(expected: &str, presented: &[String]) -> String {
    let mut names: Vec<_> = presented.iter().take(NAMES_MAX).map(|name| inner(name)).collect();
    if presented.len() > NAMES_MAX {
        names.push(format!("{} more", presented.len() - NAMES_MAX));
    }
    let only = if names.is_empty() { "for none".to_owned() } else { format!("for {} alone", names.join(", ")) };
    format!(
        "it is not valid for the name {}, but {only}; name the server as its certificate does, or create a new one with this name in subjectAltName",
        inner(expected)
    )
}

/// The name in webpki's `DnsName("name")`, as printable text.
fn inner(name: &str) -> String {
    let inner = name.split_once('(').map_or(name, |(_, inner)| inner.strip_suffix(')').unwrap_or(inner));
    let printable = inner.trim_matches('"').chars().take(NAME_CHARS_MAX);
    printable.map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect()
}

/// The name of a variant as words: `UnknownIssuer` is "unknown issuer".
fn words(variant: &impl Debug) -> String {
    let text = format!("{variant:?}");
    let name = text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let mut words = String::new();
    for (index, c) in name.chars().enumerate() {
        if c.is_ascii_uppercase() && index > 0 {
            words.push(' ');
        }
        words.push(c.to_ascii_lowercase());
    }
    words
}

fn of_incompatibility(reason: &PeerIncompatible) -> String {
    match reason {
        PeerIncompatible::NoSignatureSchemesInCommon
        | PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon => {
            format!("the peer supports no signature that the key of this side can make; {ALGORITHMS}")
        }
        PeerIncompatible::IncorrectCertificateTypeExtension | PeerIncompatible::UnsolicitedCertificateTypeExtension => {
            "the sides differ in the kind of key that they show and expect: a certificate or a raw public key"
                .to_owned()
        }
        PeerIncompatible::NoCipherSuitesInCommon => "the sides have no cipher suite in common".to_owned(),
        PeerIncompatible::NoKxGroupsInCommon => "the sides have no key exchange group in common".to_owned(),
        other => format!("the peer does not speak a common version of TLS: {}", words(other)),
    }
}

/// A day of the calendar in UTC.
fn day(at: UnixTime) -> impl fmt::Display {
    // The algorithm counts from a 1 March, so that leap days come last in its years of 400 * 365.2425 days.
    let days = at.as_secs() / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests;
