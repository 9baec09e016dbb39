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
    pub(super) fn lines(log: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self::Lines(Arc::new(Lines(log)))
    }

    pub(super) fn open(&self) -> Arc<dyn KeyLog> {
        match self {
            Self::Env => Arc::new(KeyLogFile::new()),
            Self::Lines(lines) => Arc::clone(lines),
        }
    }
}

/// Settings of clients and servers alike.
macro_rules! common_settings {
    ($Security:ident) => {
        impl $Security {
            /// Application protocols (ALPN, RFC 7301) of 1 to 255 bytes, the preferred one first. If either side has some, both must have one in common:
            /// otherwise the handshake fails.
            pub fn with_alpn(mut self, protocols: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
                self.alpn = protocols.into_iter().map(Into::into).collect();
                self
            }

            /// Appends the secrets of all associations to the file that the environment variable `SSLKEYLOGFILE` names. Everyone who can read the file
            /// can decrypt recorded associations. Without this call the variable has no effect.
            pub fn with_key_log_from_env(mut self) -> Self {
                self.key_log = Some($crate::security::settings::KeyLogging::Env);
                self
            }

            /// Calls `log` with each secret of all associations, as a line of a key log in the format of NSS that ends with a line feed, before the keys
            /// are used. With the lines anyone can decrypt recorded associations. The function runs in the middle of a handshake and should be quick.
            /// Of this and [`with_key_log_from_env`](Self::with_key_log_from_env) the last call counts.
            pub fn with_key_log(mut self, log: impl Fn(&str) + Send + Sync + 'static) -> Self {
                self.key_log = Some($crate::security::settings::KeyLogging::lines(log));
                self
            }
        }
    };
}

pub(super) use common_settings;

/// Writes secrets as lines.
struct Lines<F>(F);

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
