//! Every fault that the libraries can name, and real certificates with some of them.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{AlgorithmIdentifier, CertificateDer, ServerName};
use rustls::{CertRevocationListError, InvalidMessage, OtherError, PeerMisbehaved, RootCertStore};

use super::*;
use crate::security::{Identity, SecurityError};

const P521: &[u8] = include_bytes!("p521.pem");
const P521_KEY: &[u8] = include_bytes!("p521-key.pem");
const VERSION_1: &[u8] = include_bytes!("v1.pem");

const NOW: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(2_000_000_000));

fn certificate_faults() -> Vec<CertificateError> {
    use CertificateError as E;
    let (earlier, name) =
        (UnixTime::since_unix_epoch(Duration::from_secs(951_782_400)), || ServerName::try_from("a.test"));
    let id = || vec![1, 2];
    #[expect(deprecated, reason = "it is still a variant")]
    let old = E::UnsupportedSignatureAlgorithm;
    vec![
        old,
        E::BadEncoding,
        E::Expired,
        E::ExpiredContext { time: NOW, not_after: earlier },
        E::NotValidYet,
        E::NotValidYetContext { time: earlier, not_before: NOW },
        E::Revoked,
        E::UnhandledCriticalExtension,
        E::UnknownIssuer,
        E::UnknownRevocationStatus,
        E::ExpiredRevocationList,
        E::ExpiredRevocationListContext { time: NOW, next_update: earlier },
        E::BadSignature,
        E::UnsupportedSignatureAlgorithmContext {
            signature_algorithm_id: id(),
            supported_algorithms: vec![AlgorithmIdentifier::from_slice(&[1])],
        },
        E::UnsupportedSignatureAlgorithmForPublicKeyContext {
            signature_algorithm_id: id(),
            public_key_algorithm_id: id(),
        },
        E::NotValidForName,
        E::NotValidForNameContext {
            expected: name().expect("a name"),
            presented: vec!["DnsName(\"b.test\")".to_owned()],
        },
        E::InvalidPurpose,
        E::InvalidPurposeContext { required: ExtendedKeyPurpose::ServerAuth, presented: Vec::new() },
        E::InvalidPurposeContext { required: ExtendedKeyPurpose::ClientAuth, presented: Vec::new() },
        E::InvalidPurposeContext { required: ExtendedKeyPurpose::Other(vec![1, 2]), presented: Vec::new() },
        E::InvalidOcspResponse,
    ]
}

fn webpki_faults() -> Vec<webpki::Error> {
    use webpki::Error as E;
    vec![
        E::BadDer,
        E::BadDerTime,
        E::CaUsedAsEndEntity,
        E::CertDistrusted,
        E::CertExpired { time: NOW, not_after: NOW },
        E::CertNotValidYet { time: NOW, not_before: NOW },
        E::CertRevoked,
        E::CrlExpired { time: NOW, next_update: NOW },
        E::EmptyEkuExtension,
        E::EndEntityUsedAsCa,
        E::ExtensionValueInvalid,
        E::InvalidCertValidity,
        E::InvalidCrlNumber,
        E::InvalidNetworkMaskConstraint,
        E::InvalidSerialNumber,
        E::InvalidCrlSignatureForPublicKey,
        E::InvalidSignatureForPublicKey,
        E::IssuerNotCrlSigner,
        E::MalformedDnsIdentifier,
        E::MalformedExtensions,
        E::MalformedNameConstraint,
        E::MaximumNameConstraintComparisonsExceeded,
        E::MaximumPathBuildCallsExceeded,
        E::MaximumPathDepthExceeded,
        E::MaximumSignatureChecksExceeded,
        E::NameConstraintViolation,
        E::PathLenConstraintViolated,
        E::SignatureAlgorithmMismatch,
        E::TrailingData(webpki::DerTypeId::Certificate),
        E::UnknownIssuer,
        E::UnknownRevocationStatus,
        E::UnsupportedCertVersion,
        E::UnsupportedCriticalExtension,
        E::UnsupportedCrlIssuingDistributionPoint,
        E::UnsupportedCrlVersion,
        E::UnsupportedDeltaCrl,
        E::UnsupportedIndirectCrl,
        E::UnsupportedNameType,
        E::UnsupportedRevocationReason,
        E::UnsupportedRevocationReasonsPartitioning,
    ]
}

/// A sentence without the name of the variant, and advice behind a semicolon.
fn assert_is_advice(text: &str, variant: &dyn Debug) {
    let variant = format!("{variant:?}");
    let name = variant.split(['(', ' ', '{']).next().unwrap_or_default();
    assert!(!text.contains(name) && !text.contains("Other"), "{name}: {text}");
    assert!(!text.contains(['{', '}', '"', '[', '\n']), "{name}: {text}");
    assert!(text.contains("; "), "there is nothing to do about {name}: {text}");
}

#[test]
fn each_fault_of_a_certificate_has_a_sentence_and_advice() {
    for fault in certificate_faults() {
        assert_is_advice(&of_certificate(&fault), &fault);
        assert_is_advice(&explain_tls_error(&Error::InvalidCertificate(fault.clone())), &fault);
    }
    for fault in webpki_faults() {
        assert_is_advice(&of_webpki(&fault), &fault);
        let wrapped = CertificateError::Other(OtherError(Arc::new(fault)));
        assert_is_advice(&of_certificate(&wrapped), &webpki_of(&wrapped));
    }
}

fn webpki_of(error: &CertificateError) -> &webpki::Error {
    let CertificateError::Other(OtherError(cause)) = error else { panic!("{error:?}") };
    cause.downcast_ref().expect("it is one of webpki")
}

#[test]
fn settings_that_cannot_be_used_are_explained_in_sentences() {
    for (error, expected) in [
        (Error::InvalidCertificate(CertificateError::BadEncoding), "it is no well-formed X.509 certificate; create"),
        (
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch),
            "the private key is not that of the certificate; give",
        ),
        (Error::FailedToGetRandomBytes, "the system provides no random numbers"),
    ] {
        let text = SecurityError::of_tls(error).to_string();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn no_error_of_tls_shows_the_names_of_its_variants() {
    let errors = [
        Error::NoCertificatesPresented,
        Error::DecryptError,
        Error::PeerIncompatible(PeerIncompatible::NoSignatureSchemesInCommon),
        Error::PeerIncompatible(PeerIncompatible::ServerRejectedEncryptedClientHello(None)),
        Error::PeerMisbehaved(PeerMisbehaved::SelectedUnofferedCipherSuite),
        Error::InvalidMessage(InvalidMessage::MissingData("x")),
        Error::InvalidCertRevocationList(CertRevocationListError::BadSignature),
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch),
        Error::InconsistentKeys(InconsistentKeys::Unknown),
        Error::AlertReceived(rustls::AlertDescription::CertificateExpired),
        Error::Other(OtherError(Arc::new(webpki::Error::CaUsedAsEndEntity))),
        Error::FailedToGetCurrentTime,
        Error::PeerSentOversizedRecord,
    ];
    for error in errors {
        let text = explain_tls_error(&error);
        assert!(!text.contains(['{', '}', '"']) && !text.contains("Other"), "{text}");
        let camel = text.as_bytes().windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
        assert!(!camel, "{text}");
    }
    let broken = explain_tls_error(&Error::PeerMisbehaved(PeerMisbehaved::SelectedUnofferedCipherSuite));
    assert_eq!(broken, "the peer breaks a rule of TLS: selected unoffered cipher suite");
}

#[test]
fn names_of_certificates_are_few_short_and_printable() {
    let presented: Vec<String> =
        (0..1_000).map(|n| format!("DnsName(\"\u{1b}[2J{n}{}\")", "x".repeat(10_000))).collect();
    let text = wrong_name("a.test", &presented);
    assert!(text.len() < 1_000 && text.contains("996 more") && text.is_ascii(), "{text}");
    assert!(!text.contains('\u{1b}'));
    assert!(wrong_name("a.test", &[]).contains("but for none"));
    let address = wrong_name("192.0.2.1", &["IpAddress(192.0.2.2)".to_owned()]);
    assert!(address.contains("but for 192.0.2.2 alone"), "{address}");
}

#[test]
fn days_are_those_of_the_calendar() {
    for (seconds, expected) in [
        (0, "1970-01-01"),
        (951_782_399, "2000-02-28"),
        (951_782_400, "2000-02-29"),
        (951_868_800, "2000-03-01"),
        (1_798_761_599, "2026-12-31"),
        (4_107_542_400, "2100-03-01"),
        (253_402_300_799, "9999-12-31"),
    ] {
        let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        assert_eq!(day(at).to_string(), expected);
    }
}

/// The explanation of a verifier with this root, for a server of this name.
fn refused(root: &[u8], certificate: &[u8]) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(root)).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().expect("a verifier");
    let name = ServerName::try_from("server.test").expect("a name");
    let verified = verifier.verify_server_cert(&CertificateDer::from(certificate), &[], &name, &[], NOW);
    let Err(Error::InvalidCertificate(fault)) = verified else { panic!("{verified:?}") };
    of_certificate(&fault)
}

#[test]
fn real_certificates_are_refused_with_their_fault() {
    let key = || KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
    let parameters = |name: &str| CertificateParams::new([name.to_owned()]).expect("a name");
    let mut authority = parameters("authority.test");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(rcgen::DnType::CommonName, "the authority");
    let authority = CertifiedIssuer::self_signed(authority, key()).expect("it signs");
    let refused_by = |change: &dyn Fn(&mut CertificateParams)| {
        let (mut server, own) = (parameters("server.test"), key());
        change(&mut server);
        let certificate = server.signed_by(&own, &authority).expect("it is signed");
        let identity =
            Identity::from_der([certificate.der().to_vec()], own.serialize_der()).expect("it is well-formed");
        (refused(authority.der(), certificate.der()), identity.check_dates())
    };
    let (fault, checked) = refused_by(&|server| server.not_after = rcgen::date_time_ymd(2001, 2, 3));
    let expected = "it expired on 2001-02-03; renew it, or set the clock of this host, which says ";
    assert_eq!(fault, format!("{expected}2033-05-18"));
    let checked = checked.expect_err("it has expired").to_string();
    assert!(checked.starts_with(&format!("cannot use the certificate: {expected}")), "{checked}");
    let (fault, checked) = refused_by(&|server| server.not_before = rcgen::date_time_ymd(2999, 1, 2));
    assert!(fault.starts_with("it is not valid before 2999-01-02; set the clock"), "{fault}");
    assert!(checked.is_err());
    let (fault, checked) = refused_by(&|server| server.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    assert!(fault.starts_with("it is the certificate of an authority (CA:TRUE)"), "{fault}");
    assert_eq!(checked, Ok(()));
    let only_clients = |server: &mut CertificateParams| {
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    };
    let (fault, checked) = refused_by(&only_clients);
    assert!(fault.contains("create a new one with serverAuth"), "{fault}");
    assert_eq!(checked, Ok(()));
    let (fault, _) = refused_by(&|server| *server = parameters("other.test"));
    assert!(fault.starts_with("it is not valid for the name server.test, but for other.test alone; "), "{fault}");
    let stranger = parameters("server.test").self_signed(&key()).expect("it signs");
    let fault = refused(authority.der(), stranger.der());
    assert!(fault.starts_with("no trusted root has signed it; "), "{fault}");
    let version_1 = CertificateDer::from_pem_slice(VERSION_1).expect("a certificate");
    let fault = refused(authority.der(), &version_1);
    assert!(fault.starts_with("it is not an X.509 certificate of version 3; "), "{fault}");
}

#[test]
fn the_kind_of_a_key_that_is_not_supported_is_named_with_those_that_are() {
    let p521 = CertificateDer::from_pem_slice(P521).expect("a certificate");
    let fault = refused(&p521, &p521);
    assert!(fault.contains("an algorithm that is not supported; use a key of ECDSA P-256"), "{fault}");
    let own = Identity::from_pem(P521, P521_KEY).and_then(|identity| identity.credentials().map(drop));
    let error = own.expect_err("it is not supported").to_string();
    assert!(error.contains("of a kind that is not supported; use a key of ECDSA P-256"), "{error}");
}
