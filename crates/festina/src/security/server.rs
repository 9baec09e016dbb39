//! Encryption of a server.

use std::fmt;
use std::sync::Arc;

use festina_secure::sessions::ServerSessions;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    NoClientAuth, NoServerSessionStorage, ResolvesServerCert, StoresServerSessions, WebPkiClientVerifier,
};
use rustls::version::TLS13;
use rustls::{RootCertStore, ServerConfig};

use super::client::ClientSecurity;
use super::credentials::{ShownTo, checked_identity};
use super::settings::{KeyLogging, checked_alpn, common_settings, pinned, raw_keys_have_no_roots, store};
use super::{Decision, Identity, SecurityError, Trust, TrustKind, platform, provider};

/// Sessions that a server remembers for resumption.
const SESSIONS_MAX: usize = 4_096;

/// TLS settings of a server: its identity, and the clients that it trusts. Each method takes the settings and returns them with one changed; they are
/// checked when an endpoint is opened.
///
/// An [`Identity`] becomes such settings by itself. Clients are then anonymous.
#[derive(Clone)]
#[must_use]
pub struct ServerSecurity {
    shown: Shown,
    client_trust: Option<Trust>,
    alpn: Vec<Vec<u8>>,
    early_messages: bool,
    plain_clients: bool,
    key_log: Option<KeyLogging>,
    client: Option<Box<ClientSecurity>>,
}

/// The certificates that clients see.
#[derive(Clone)]
enum Shown {
    Identity(Identity),
    Custom(Arc<ServerConfig>),
}

/// Settings of a server in the form that rustls takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerTls {
    /// All but the first are for clients that want another kind of keys.
    pub(crate) configs: Vec<Arc<ServerConfig>>,
    /// Listeners take plain SCTP as well.
    pub(crate) plain_clients: bool,
    /// From which the key of stateless resets follows.
    pub(crate) identity: Option<Identity>,
}

impl From<Identity> for ServerSecurity {
    fn from(identity: Identity) -> Self {
        Self::new(identity)
    }
}

impl ServerSecurity {
    /// Settings with this certificate or raw public key, which is shown to all clients.
    pub fn new(identity: Identity) -> Self {
        Self::showing(Shown::Identity(identity))
    }

    /// Uses settings of rustls 0.23 as they are, such as another verifier, session store or cryptography. All other settings are ignored, except for
    /// [`with_client`](Self::with_client). TLS 1.3 must be among the versions, and `TLS13_AES_128_GCM_SHA256` among the cipher suites.
    pub fn from_rustls(config: Arc<ServerConfig>) -> Self {
        Self::showing(Shown::Custom(config))
    }

    fn showing(shown: Shown) -> Self {
        let (early_messages, plain_clients) = (false, false);
        Self { shown, client_trust: None, alpn: Vec::new(), early_messages, plain_clients, key_log: None, client: None }
    }

    /// Lets the endpoint connect as well, as a client with these settings: peer to peer. Without them [`Endpoint::connect`](crate::Endpoint::connect)
    /// fails.
    ///
    /// ```
    /// use festina::ServerConfig;
    /// use festina::security::{ClientSecurity, Fingerprint, Identity, SecurityError, ServerSecurity, Trust};
    ///
    /// fn peer(own: Identity, friends: Vec<Fingerprint>) -> ServerConfig {
    ///     let trust = Trust::fingerprints(friends);
    ///     let client = ClientSecurity::new(trust.clone()).with_identity(own.clone());
    ///     ServerConfig::new(ServerSecurity::new(own).with_client_trust(trust).with_client(client))
    /// }
    /// ```
    pub fn with_client(mut self, client: impl Into<ClientSecurity>) -> Self {
        self.client = Some(Box::new(client.into()));
        self
    }

    /// Clients must have a certificate, one that is trusted. By default, clients are anonymous. Sessions are not resumed then, so that the trust is
    /// asked each time.
    pub fn with_client_trust(mut self, trust: Trust) -> Self {
        self.client_trust = Some(trust);
        self
    }

    /// The listeners take early messages: [`ConnectOptions::early_message`](crate::ConnectOptions::early_message). Anyone on the path can copy
    /// them. A copy that arrives first is delivered, and the client sends the message again.
    pub fn with_early_messages(mut self) -> Self {
        self.early_messages = true;
        self
    }

    /// The listeners accept plain SCTP as well, on the same UDP port: [`is_encrypted`](crate::Association::is_encrypted) tells which one an association
    /// is. Nothing authenticates plain clients, and others can read and change their messages. A listener whose options hold
    /// requests or handle early messages refuses them; to [`decide`](crate::ListenOptions::decide) they show no token. Cannot be combined with
    /// [`with_client_trust`](Self::with_client_trust) or [`with_alpn`](Self::with_alpn).
    pub fn with_plain_clients(mut self) -> Self {
        self.plain_clients = true;
        self
    }

    /// The settings with which the endpoint connects.
    pub(crate) fn client(&self) -> Option<&ClientSecurity> {
        self.client.as_deref()
    }

    /// The settings for rustls.
    pub(crate) fn build(&self) -> Result<ServerTls, SecurityError> {
        let identity = match &self.shown {
            Shown::Custom(config) => {
                return Ok(ServerTls { configs: vec![Arc::clone(config)], ..ServerTls::default() });
            }
            Shown::Identity(identity) => identity,
        };
        let configs = self.servers(identity)?;
        if self.client_trust.is_some() && self.early_messages {
            let problem = "early messages need sessions that are resumed, which skips the check of client certificates";
            return Err(SecurityError::Settings(problem.to_owned()));
        }
        if self.client_trust.is_some() && self.plain_clients {
            let problem = "clients are to be checked, but plain ones would be accepted unchecked";
            return Err(SecurityError::Settings(problem.to_owned()));
        }
        if !self.alpn.is_empty() && self.plain_clients {
            let problem = "clients are to agree on an application protocol, but plain ones have none";
            return Err(SecurityError::Settings(problem.to_owned()));
        }
        Ok(ServerTls { configs, plain_clients: self.plain_clients, identity: Some(identity.clone()) })
    }

    /// The settings for listening. A client with a raw key says so before it is asked for a key, so anonymous clients need two settings.
    fn servers(&self, identity: &Identity) -> Result<Vec<Arc<ServerConfig>>, SecurityError> {
        let verifiers: Vec<Arc<dyn ClientCertVerifier>> = match &self.client_trust {
            None => {
                let no_one: Decision = Arc::new(|_| false);
                vec![Arc::new(NoClientAuth), Arc::new(pinned(&no_one, true).with_anonymous_clients())]
            }
            Some(trust) => vec![match &trust.kind {
                TrustKind::Fingerprints(is_trusted) => Arc::new(pinned(is_trusted, trust.is_raw)),
                _ if trust.is_raw => return Err(raw_keys_have_no_roots()),
                TrustKind::Platform => signed_clients(platform::roots().map_err(SecurityError::Settings)?)?,
                TrustKind::Roots(roots) => signed_clients(Arc::new(store(roots)?))?,
            }],
        };
        let sessions: Arc<dyn StoresServerSessions> = match &self.client_trust {
            None => Arc::new(ServerSessions::new(SESSIONS_MAX)),
            Some(_) => Arc::new(NoServerSessionStorage {}),
        };
        let servers = verifiers.into_iter().map(|verifier| self.server(identity, verifier, &sessions).map(Arc::new));
        servers.collect()
    }

    fn server(
        &self,
        identity: &Identity,
        verifier: Arc<dyn ClientCertVerifier>,
        sessions: &Arc<dyn StoresServerSessions>,
    ) -> Result<ServerConfig, SecurityError> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(SecurityError::of_tls)?;
        let (credentials, raw_clients) = (checked_identity(identity)?, verifier.requires_raw_public_keys());
        let shown: Arc<dyn ResolvesServerCert> = match &self.client_trust {
            None => Arc::new(ShownTo { credentials, raw_clients }),
            Some(_) => credentials,
        };
        let mut config = builder.with_client_cert_verifier(verifier).with_cert_resolver(shown);
        config.alpn_protocols = checked_alpn(&self.alpn)?;
        config.session_storage = Arc::clone(sessions);
        if self.client_trust.is_some() {
            config.send_tls13_tickets = 0;
        }
        if self.early_messages {
            // The only value besides 0 that QUIC's rules allow (RFC 9001 §4.6.1).
            config.max_early_data_size = u32::MAX;
        }
        if let Some(key_log) = &self.key_log {
            config.key_log = key_log.open();
        }
        Ok(config)
    }
}

/// Verifies clients by roots.
fn signed_clients(roots: Arc<RootCertStore>) -> Result<Arc<dyn ClientCertVerifier>, SecurityError> {
    WebPkiClientVerifier::builder_with_provider(roots, provider())
        .build()
        .map_err(|error| SecurityError::Settings(error.to_string()))
}

common_settings!(ServerSecurity);

impl fmt::Debug for ServerSecurity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = match &self.shown {
            Shown::Identity(identity) => Some(identity),
            Shown::Custom(_) => None,
        };
        formatter
            .debug_struct("ServerSecurity")
            .field("identity", &identity)
            .field("client_trust", &self.client_trust)
            .field("early_messages", &self.early_messages)
            .field("plain_clients", &self.plain_clients)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
