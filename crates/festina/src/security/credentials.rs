//! The own certificate chain and key in the form that rustls takes.

use std::sync::{Arc, LazyLock};

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::{Identity, SecurityError, provider};

/// The credentials of a side without an identity, the same for all endpoints: sessions are bound to them.
pub(super) static NO_CREDENTIALS: LazyLock<Arc<Credentials>> = LazyLock::new(|| Arc::new(Credentials(None)));

/// What this side shows to its peers, in both roles.
#[derive(Debug)]
pub(super) struct Credentials(Option<Arc<CertifiedKey>>);

impl Identity {
    /// The same for all clones.
    pub(super) fn credentials(&self) -> Result<Arc<Credentials>, SecurityError> {
        if let Some(credentials) = self.credentials.get() {
            return Ok(Arc::clone(credentials));
        }
        let key = CertifiedKey::from_der(self.chain.clone(), self.key.clone_key(), &provider());
        let credentials = Arc::new(Credentials(Some(Arc::new(key.map_err(SecurityError::of_tls)?))));
        Ok(Arc::clone(self.credentials.get_or_init(|| credentials)))
    }
}

impl ResolvesClientCert for Credentials {
    fn resolve(&self, _root_hint_subjects: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.clone()
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

impl ResolvesServerCert for Credentials {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.clone()
    }
}
