//! The certificate authorities that the operating system trusts.
//!
//! They are read as a list, and rustls checks chains against it. The operating system's own check is not used: it may ask servers for revocation
//! lists, and a handshake runs on the task that serves all associations of the endpoint.

use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::verify_tls13_signature;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::provider;

/// The roots, once they were read.
static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();

/// Returns whether the roots were read.
pub(crate) fn are_read() -> bool {
    ROOTS.get().is_some()
}

/// Returns the roots. They are read once per process, at the first successful call.
///
/// # Errors
/// The operating system has no usable root, for the reasons in the text.
pub(crate) fn roots() -> Result<Arc<RootCertStore>, String> {
    if let Some(roots) = ROOTS.get() {
        return Ok(roots.clone());
    }
    // No lock is held meanwhile: a process that is forked now would wait for it for ever.
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some systems also list certificates that rustls cannot read.
    let (usable, _unusable) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        let reasons: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        let reasons = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
        return Err(format!(
            "the operating system has no trusted certificate authorities, and no other trust is set{reasons}"
        ));
    }
    Ok(ROOTS.get_or_init(|| Arc::new(roots)).clone())
}

/// Verifies servers by the roots of the operating system, which are read when the first server is to be verified.
#[derive(Debug)]
pub(super) struct PlatformRoots;

impl ServerCertVerifier for PlatformRoots {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verifier = WebPkiServerVerifier::builder_with_provider(roots().map_err(Error::General)?, provider())
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not used".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
