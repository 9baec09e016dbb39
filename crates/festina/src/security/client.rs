//! Encryption of a client.

use std::fmt;
use std::sync::Arc;

use festina_secure::sessions::Resumption;
use rustls::ClientConfig;
use rustls::version::TLS13;

use super::credentials::{NO_CREDENTIALS, checked_identity};
use super::settings::{KeyLogging, checked_alpn, common_settings};
use super::{Fingerprint, Identity, SecurityError, Sessions, Trust, TrustKind, provider};

/// Servers whose sessions a client remembers, unless the application brings its own [`Sessions`].
const SERVERS_MAX: usize = 32;

/// TLS settings of a client: the servers that it trusts, and its own identity if it has one. Each method takes the settings and returns them with one
/// changed; they are checked when an endpoint is opened. The default trusts [the roots of the operating system](Trust::platform_roots).
///
/// A [`Trust`] becomes such settings by itself, and so does the [`Fingerprint`] of the only trusted key.
#[derive(Clone)]
#[must_use]
pub struct ClientSecurity {
    trust: Trust,
    identity: Option<Identity>,
    alpn: Vec<Vec<u8>>,
    sessions: Option<Sessions>,
    key_log: Option<KeyLogging>,
    custom: Option<Arc<ClientConfig>>,
}

/// Settings of a client in the form that rustls takes.
#[derive(Clone, Debug)]
pub(crate) struct ClientTls {
    pub(crate) config: Arc<ClientConfig>,
    /// The sessions of the client, unless its settings have their own.
    pub(crate) resumption: Option<Resumption>,
    /// Connecting needs the roots of the operating system.
    pub(crate) needs_platform_roots: bool,
}

impl Default for ClientSecurity {
    fn default() -> Self {
        Self::new(Trust::platform_roots())
    }
}

impl From<Trust> for ClientSecurity {
    fn from(trust: Trust) -> Self {
        Self::new(trust)
    }
}

/// Trusts certificates with this fingerprint alone: [`Trust::fingerprints`].
impl From<Fingerprint> for ClientSecurity {
    fn from(fingerprint: Fingerprint) -> Self {
        Self::new(Trust::fingerprints([fingerprint]))
    }
}

impl ClientSecurity {
    /// Settings that trust these servers.
    pub fn new(trust: Trust) -> Self {
        Self { trust, identity: None, alpn: Vec::new(), sessions: None, key_log: None, custom: None }
    }

    /// Uses settings of rustls 0.23 as they are, such as another verifier, session store or cryptography. All other settings are ignored. TLS 1.3 must
    /// be among the versions, and `TLS13_AES_128_GCM_SHA256` among the cipher suites.
    pub fn from_rustls(config: Arc<ClientConfig>) -> Self {
        Self { custom: Some(config), ..Self::default() }
    }

    /// The own certificate, shown to servers that ask for one. By default, clients are anonymous.
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// The sessions that this side resumes when it connects, shared with the other endpoints that use clones of them. The default is
    /// own sessions of the endpoint, with 32 servers. Sessions with a server are resumed by endpoints whose [`Trust`] in servers and whose
    /// [`Identity`] are clones of those of the endpoint that began them.
    pub fn with_sessions(mut self, sessions: Sessions) -> Self {
        self.sessions = Some(sessions);
        self
    }

    /// The settings for rustls.
    pub(crate) fn build(&self) -> Result<ClientTls, SecurityError> {
        if let Some(custom) = &self.custom {
            return Ok(ClientTls { config: Arc::clone(custom), resumption: None, needs_platform_roots: false });
        }
        let verifier = self.trust.server_verifier()?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(SecurityError::of_tls)?;
        let identity = self.identity.as_ref().map_or(Ok(NO_CREDENTIALS.clone()), checked_identity)?;
        let mut config = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&verifier))
            .with_client_cert_resolver(identity);
        config.alpn_protocols = checked_alpn(&self.alpn)?;
        config.enable_early_data = true;
        if let Some(key_log) = &self.key_log {
            config.key_log = key_log.open();
        }
        let Sessions(sessions) = self.sessions.clone().unwrap_or_else(|| Sessions::new(SERVERS_MAX));
        Ok(ClientTls {
            config: Arc::new(config),
            resumption: Some(Resumption { sessions, verifier }),
            needs_platform_roots: matches!(self.trust.kind, TrustKind::Platform),
        })
    }
}

common_settings!(ClientSecurity);

impl fmt::Debug for ClientSecurity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("ClientSecurity");
        fields.field("trust", &self.trust).field("identity", &self.identity).finish_non_exhaustive()
    }
}
