//! The own certificate chain and key in the form that rustls takes.

use std::sync::{Arc, LazyLock};

use festina_secure::{CHAIN_BYTES_MAX, CHAIN_LENGTH_MAX};
use rustls::client::ResolvesClientCert;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, SignatureScheme};

use super::certificates::unsupported_key;
use super::{Identity, SecurityError};

/// Kinds of keys (RFC 7250 §8). rustls does not export their names.
const X509: u8 = 0;
const RAW_PUBLIC_KEY: u8 = 2;

/// The credentials of a side without an identity, the same for all endpoints: sessions are bound to them.
pub(super) static NO_CREDENTIALS: LazyLock<Arc<Credentials>> =
    LazyLock::new(|| Arc::new(Credentials { key: None, is_raw: false }));

/// The certificates or the raw public key that this side shows, in both roles, and its private key.
#[derive(Debug)]
pub(super) struct Credentials {
    key: Option<Arc<CertifiedKey>>,
    is_raw: bool,
}

/// The public key of a private one, as SubjectPublicKeyInfo (RFC 5280 §4.1.2.7).
pub(super) fn public_key(key: &PrivateKeyDer<'_>) -> Result<CertificateDer<'static>, SecurityError> {
    let key = any_supported_type(key).map_err(|error| SecurityError::PrivateKey(error.to_string()))?;
    let public = key.public_key().ok_or_else(|| SecurityError::PrivateKey("it has no public key".to_owned()))?;
    Ok(CertificateDer::from(public.as_ref().to_vec()))
}

/// Returns whether DER begins as a SubjectPublicKeyInfo: a sequence of a sequence that begins with an object identifier, where a certificate has a
/// version or a number.
pub(super) fn is_raw_key(der: &[u8]) -> bool {
    fn contents(der: &[u8]) -> Option<&[u8]> {
        match der {
            [0x30, length, rest @ ..] if *length < 0x80 => Some(rest),
            [0x30, long, rest @ ..] => rest.get(usize::from(long & 0x7f)..),
            _ => None,
        }
    }
    contents(der).and_then(contents).is_some_and(|inner| inner.first() == Some(&0x06))
}

/// The credentials of an identity whose chain peers accept.
pub(super) fn checked_identity(identity: &Identity) -> Result<Arc<Credentials>, SecurityError> {
    let (length, bytes) = (identity.chain.len(), identity.chain_der().map(<[u8]>::len).sum::<usize>());
    if length > CHAIN_LENGTH_MAX || bytes > CHAIN_BYTES_MAX {
        let problem = format!(
            "the chain has {length} certificates of {bytes} bytes in all, but peers take at most {CHAIN_LENGTH_MAX} of {CHAIN_BYTES_MAX} bytes"
        );
        return Err(SecurityError::Certificate(problem));
    }
    identity.credentials()
}

impl Identity {
    /// The same for all clones.
    pub(super) fn credentials(&self) -> Result<Arc<Credentials>, SecurityError> {
        if let Some(credentials) = self.credentials.get() {
            return Ok(Arc::clone(credentials));
        }
        // For a raw key the chain is its public key, so the two fit.
        let key = any_supported_type(&self.key).map_err(|_| SecurityError::PrivateKey(unsupported_key()))?;
        let key = CertifiedKey::new(self.chain.clone(), key);
        match key.keys_match() {
            Err(error) if !self.is_raw && error != Error::InconsistentKeys(InconsistentKeys::Unknown) => {
                return Err(SecurityError::of_tls(error));
            }
            _ => {}
        }
        let credentials = Arc::new(Credentials { key: Some(Arc::new(key)), is_raw: self.is_raw });
        Ok(Arc::clone(self.credentials.get_or_init(|| credentials)))
    }
}

impl ResolvesClientCert for Credentials {
    fn resolve(&self, _root_hint_subjects: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.key.clone()
    }

    fn only_raw_public_keys(&self) -> bool {
        self.is_raw
    }

    fn has_certs(&self) -> bool {
        self.key.is_some()
    }
}

impl ResolvesServerCert for Credentials {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.key.clone()
    }

    fn only_raw_public_keys(&self) -> bool {
        self.is_raw
    }
}

/// [`Credentials`], shown only to clients that have raw keys for themselves, or only to all others. rustls compares kinds of keys after it has taken
/// the client's session or asked for another hello, so the settings that do not suit a client have to fail earlier.
#[derive(Debug)]
pub(super) struct ShownTo {
    pub(super) credentials: Arc<Credentials>,
    pub(super) raw_clients: bool,
}

impl ResolvesServerCert for ShownTo {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let kinds = client_hello.client_cert_types().unwrap_or_default();
        let has = |wanted| kinds.iter().any(|kind| u8::from(*kind) == wanted);
        let is_raw = has(RAW_PUBLIC_KEY) && !has(X509);
        self.credentials.key.clone().filter(|_| is_raw == self.raw_clients)
    }

    fn only_raw_public_keys(&self) -> bool {
        self.credentials.is_raw
    }
}
