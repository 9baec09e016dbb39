//! Verifiers for peers without a certificate authority: a peer is known by the SHA-256 fingerprint of its self-signed certificate, or of its
//! raw public key (RFC 7250).

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::record::initial_suite;

/// The SHA-256 hash of a certificate, or of a raw public key.
pub type Fingerprint = [u8; 32];

/// Returns the fingerprint of a certificate or of a raw public key. `None` if the provider lacks SHA-256.
#[must_use]
pub fn fingerprint(provider: &CryptoProvider, certificate: &CertificateDer<'_>) -> Option<Fingerprint> {
    let hash = initial_suite(provider)?.common.hash_provider.hash(certificate);
    hash.as_ref().try_into().ok()
}

/// Decides whether a fingerprint is trusted.
pub type Decision = dyn Fn(&Fingerprint) -> bool + Send + Sync;

/// Verifier of peers with trusted fingerprints, in either role. A client without a certificate is not trusted. Names, dates and chains are not checked.
#[derive(Clone)]
pub struct Pinned {
    provider: Arc<CryptoProvider>,
    is_trusted: Arc<Decision>,
    raw_public_keys: bool,
    asks_clients: bool,
}

impl core::fmt::Debug for Pinned {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Pinned").field("raw_public_keys", &self.raw_public_keys).finish_non_exhaustive()
    }
}

impl Pinned {
    /// Trusts self-signed certificates with these fingerprints.
    #[must_use]
    pub fn new(provider: Arc<CryptoProvider>, fingerprints: Vec<Fingerprint>) -> Self {
        Self::deciding(provider, Arc::new(move |seen: &Fingerprint| fingerprints.contains(seen)))
    }

    /// Trusts the fingerprints for which `is_trusted` returns true. It is called in the middle of a handshake and must be quick.
    #[must_use]
    pub fn deciding(provider: Arc<CryptoProvider>, is_trusted: Arc<Decision>) -> Self {
        Self { provider, is_trusted, raw_public_keys: false, asks_clients: true }
    }

    /// Expects raw public keys instead of certificates.
    #[must_use]
    pub fn with_raw_public_keys(mut self) -> Self {
        self.raw_public_keys = true;
        self
    }

    /// Asks clients for nothing: they are anonymous. With raw public keys, it suits clients that have one.
    #[must_use]
    pub fn with_anonymous_clients(mut self) -> Self {
        self.asks_clients = false;
        self
    }

    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let is_known = fingerprint(&self.provider, certificate).is_some_and(|seen| (self.is_trusted)(&seen));
        if is_known { Ok(()) } else { Err(CertificateError::ApplicationVerificationFailure.into()) }
    }

    /// TLS 1.3's proof that the peer has the private key.
    fn verify(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        if self.raw_public_keys {
            let key = SubjectPublicKeyInfoDer::from(certificate.as_ref());
            verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
        } else {
            verify_tls13_signature(message, certificate, signature, algorithms)
        }
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// TLS 1.2 is never spoken.
fn no_tls12() -> Error {
    Error::General("TLS 1.2 is not used".to_owned())
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.raw_public_keys
    }
}

impl ClientCertVerifier for Pinned {
    fn offer_client_auth(&self) -> bool {
        self.asks_clients
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.raw_public_keys
    }
}
