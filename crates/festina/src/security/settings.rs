//! Settings that clients and servers have in common, and their translation for rustls.

use std::fmt;
use std::sync::Arc;

use festina_secure::ALPN_BYTES_MAX;
use festina_secure::pinned::Pinned;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::{KeyLog, KeyLogFile, RootCertStore};

use super::bundle;
use super::platform::PlatformRoots;
use super::{Decision, Hex, SecurityError, Trust, TrustKind, provider};
use crate::program;

/// Where secrets are logged.
#[derive(Clone)]
pub(super) enum KeyLogging {
    Env,
    Lines(Arc<dyn KeyLog>),
}

impl KeyLogging {
    pub(super) fn open(&self) -> Arc<dyn KeyLog> {
        match self {
            Self::Env => Arc::new(KeyLogFile::new()),
            Self::Lines(lines) => Arc::clone(lines),
        }
    }
}

/// Writes secrets as lines.
pub(super) struct Lines<F>(pub(super) F);

impl<F: Fn(&str) + Send + Sync> KeyLog for Lines<F> {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let line = format!("{label} {} {}\n", Hex(client_random), Hex(secret));
        program::call("key log", (), || (self.0)(&line));
    }
}

impl<F> fmt::Debug for Lines<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Lines")
    }
}

/// The application protocols in the form that rustls takes.
pub(super) fn checked_alpn(alpn: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, SecurityError> {
    if alpn.iter().any(|protocol| !(1..=255).contains(&protocol.len())) {
        return Err(SecurityError::Settings("an application protocol has 1 to 255 bytes".to_owned()));
    }
    let alpn_bytes: usize = alpn.iter().map(|protocol| protocol.len() + 1).sum();
    if alpn_bytes > ALPN_BYTES_MAX {
        let problem = format!(
            "the application protocols have {alpn_bytes} bytes, with one each for the length, but at most {ALPN_BYTES_MAX} fit into a hello"
        );
        return Err(SecurityError::Settings(problem));
    }
    Ok(alpn.to_vec())
}

impl Trust {
    /// The verifier of servers, the same for all clones: sessions are bound to it.
    pub(super) fn server_verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, SecurityError> {
        if let Some(verifier) = self.server_verifier.get() {
            return Ok(Arc::clone(verifier));
        }
        let verifier: Arc<dyn ServerCertVerifier> = match &self.kind {
            TrustKind::Platform | TrustKind::Roots(_) if self.is_raw => return Err(raw_keys_have_no_roots()),
            TrustKind::Platform => Arc::new(PlatformRoots),
            TrustKind::Roots(roots) => {
                let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store(roots)?), provider());
                verifier.build().map_err(|error| SecurityError::Settings(error.to_string()))?
            }
            TrustKind::Fingerprints(is_trusted) => Arc::new(pinned(is_trusted, self.is_raw)),
        };
        Ok(Arc::clone(self.server_verifier.get_or_init(|| verifier)))
    }
}

/// Verifies peers by fingerprints.
pub(super) fn pinned(is_trusted: &Decision, is_raw: bool) -> Pinned {
    let pinned = Pinned::deciding(provider(), Arc::clone(is_trusted));
    if is_raw { pinned.with_raw_public_keys() } else { pinned }
}

pub(super) fn raw_keys_have_no_roots() -> SecurityError {
    SecurityError::Settings("no authority signs raw public keys: they are trusted by their fingerprints".to_owned())
}

pub(super) fn store(roots: &[rustls::pki_types::CertificateDer<'static>]) -> Result<RootCertStore, SecurityError> {
    let mut store = RootCertStore::empty();
    for (at, root) in roots.iter().enumerate() {
        bundle::check(root).map_err(|problem| bundle::damaged(at + 1, None, &problem))?;
        store.add(root.clone()).map_err(SecurityError::of_tls)?;
    }
    Ok(store)
}
