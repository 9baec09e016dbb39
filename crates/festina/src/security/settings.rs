//! The settings of an endpoint, and their translation for rustls.

use std::fmt;
use std::sync::Arc;

use festina_secure::pinned::Pinned;
use festina_secure::sessions::{Resumption, ServerSessions};
use festina_secure::{ALPN_BYTES_MAX, CHAIN_BYTES_MAX, CHAIN_LENGTH_MAX};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    NoClientAuth, NoServerSessionStorage, ResolvesServerCert, StoresServerSessions, WebPkiClientVerifier,
};
use rustls::version::TLS13;
use rustls::{ClientConfig, KeyLog, KeyLogFile, RootCertStore, ServerConfig};

use super::bundle;
use super::credentials::{NO_CREDENTIALS, ShownTo};
use super::platform::{self, PlatformRoots};
use super::{Decision, Hex, Identity, SecurityError, Sessions, Trust, TrustKind, provider};
use crate::program;

/// Sessions that a server remembers for resumption.
const SESSIONS_MAX: usize = 4_096;
/// Servers whose sessions a client remembers, unless the application brings its own [`Sessions`].
const SERVERS_MAX: usize = 32;

/// TLS settings of an endpoint, for both roles. Each method takes the settings and returns them with one changed; they are checked when an
/// endpoint is bound.
///
/// Listening needs an [`Identity`]. Connecting trusts the roots of the operating system, unless another [`Trust`] in servers is set.
#[derive(Clone, Default)]
#[must_use]
pub struct Security {
    identity: Option<Identity>,
    server_trust: Option<Trust>,
    client_trust: Option<Trust>,
    alpn: Vec<Vec<u8>>,
    early_messages: bool,
    plain_clients: bool,
    sessions: Option<Sessions>,
    key_log: Option<KeyLogging>,
    custom: Option<TlsSettings>,
}

/// Where secrets are logged.
#[derive(Clone)]
enum KeyLogging {
    Env,
    Lines(Arc<dyn KeyLog>),
}

impl KeyLogging {
    fn open(&self) -> Arc<dyn KeyLog> {
        match self {
            Self::Env => Arc::new(KeyLogFile::new()),
            Self::Lines(lines) => Arc::clone(lines),
        }
    }
}

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

/// Settings in the form that rustls takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsSettings {
    pub(crate) client: Option<Arc<ClientConfig>>,
    /// The sessions of the client, unless its settings have their own.
    pub(crate) resumption: Option<Resumption>,
    /// Empty if the endpoint cannot listen. All but the first are for clients that want another kind of keys.
    pub(crate) server: Vec<Arc<ServerConfig>>,
    /// Connecting needs the roots of the operating system.
    pub(crate) needs_platform_roots: bool,
    /// Listeners take plain SCTP as well.
    pub(crate) plain_clients: bool,
    /// From which the key of stateless resets follows.
    pub(crate) identity: Option<Identity>,
}

impl Security {
    /// Settings without an identity, which trust the roots of the operating system to connect.
    pub fn new() -> Self {
        Self::default()
    }

    /// The own certificate: shown to all clients, and to servers that ask for one.
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// The servers that this side connects to. The default is [`Trust::platform_roots`].
    pub fn with_server_trust(mut self, trust: Trust) -> Self {
        self.server_trust = Some(trust);
        self
    }

    /// Clients must have a certificate, one that is trusted. By default, clients are anonymous. Sessions are not resumed then, so that the trust is
    /// asked each time.
    pub fn with_client_trust(mut self, trust: Trust) -> Self {
        self.client_trust = Some(trust);
        self
    }

    /// Application protocols (ALPN, RFC 7301) of 1 to 255 bytes, the preferred one first. If either side has some, both must have one in common:
    /// otherwise the handshake fails.
    pub fn with_alpn(mut self, protocols: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        self.alpn = protocols.into_iter().map(Into::into).collect();
        self
    }

    /// The listeners take early messages: [`ConnectOptions::early_message`](crate::ConnectOptions::early_message). Anyone on the path can copy
    /// them. A copy that arrives first is delivered, and the client sends the message again.
    pub fn with_early_messages(mut self) -> Self {
        self.early_messages = true;
        self
    }

    /// The listeners accept plain SCTP as well, on the same UDP port: [`is_encrypted`](crate::Association::is_encrypted) tells which one an association
    /// is. Nothing authenticates plain clients, and others can read and change their messages. A listener whose options hold requests or
    /// handle early messages refuses them; to [`decide`](crate::ListenOptions::decide) they show no token. Connecting is always encrypted. Cannot be combined with
    /// [`with_client_trust`](Self::with_client_trust) or [`with_alpn`](Self::with_alpn).
    pub fn with_plain_clients(mut self) -> Self {
        self.plain_clients = true;
        self
    }

    /// The sessions that this side resumes when it connects, shared with the other endpoints that use clones of them. The default is
    /// own sessions of the endpoint, with 32 servers. Sessions with a server are resumed by endpoints whose [`Trust`] in servers and whose
    /// [`Identity`] are clones of those of the endpoint that began them.
    pub fn with_sessions(mut self, sessions: Sessions) -> Self {
        self.sessions = Some(sessions);
        self
    }

    /// Appends the secrets of all associations to the file that the environment variable `SSLKEYLOGFILE` names. Everyone who can read the file
    /// can decrypt recorded associations. Without this call the variable has no effect.
    pub fn with_key_log_from_env(mut self) -> Self {
        self.key_log = Some(KeyLogging::Env);
        self
    }

    /// Calls `log` with each secret of all associations, as a line of a key log in the format of NSS that ends with a line feed, before the keys
    /// are used. With the lines anyone can decrypt recorded associations. The function runs in the middle of a handshake and should be quick.
    /// Of this and [`with_key_log_from_env`](Self::with_key_log_from_env) the last call counts.
    pub fn with_key_log(mut self, log: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.key_log = Some(KeyLogging::Lines(Arc::new(Lines(log))));
        self
    }

    /// Uses settings of rustls 0.23 as they are, such as other verifiers, session stores or cryptography: `client` to connect, `server` to listen.
    /// All other settings are ignored. TLS 1.3 must be among the versions, and `TLS13_AES_128_GCM_SHA256` among the cipher suites.
    pub fn from_rustls(client: Option<Arc<ClientConfig>>, server: Option<Arc<ServerConfig>>) -> Self {
        let server = server.into_iter().collect();
        let custom = TlsSettings { client, server, ..TlsSettings::default() };
        Self { custom: Some(custom), ..Self::default() }
    }

    /// The settings for rustls.
    pub(crate) fn build(&self) -> Result<TlsSettings, SecurityError> {
        if let Some(custom) = &self.custom {
            return Ok(custom.clone());
        }
        if self.alpn.iter().any(|protocol| !(1..=255).contains(&protocol.len())) {
            return Err(SecurityError::Settings("an application protocol has 1 to 255 bytes".to_owned()));
        }
        let alpn_bytes: usize = self.alpn.iter().map(|protocol| protocol.len() + 1).sum();
        if alpn_bytes > ALPN_BYTES_MAX {
            let problem = format!(
                "the application protocols have {alpn_bytes} bytes, with one each for the length, but at most {ALPN_BYTES_MAX} fit into a hello"
            );
            return Err(SecurityError::Settings(problem));
        }
        let chain = || self.identity.iter().flat_map(Identity::chain_der);
        let (chain_length, chain_bytes) = (chain().count(), chain().map(<[u8]>::len).sum::<usize>());
        if chain_length > CHAIN_LENGTH_MAX || chain_bytes > CHAIN_BYTES_MAX {
            let problem = format!(
                "the chain has {chain_length} certificates of {chain_bytes} bytes in all, but peers take at most {CHAIN_LENGTH_MAX} of {CHAIN_BYTES_MAX} bytes"
            );
            return Err(SecurityError::Certificate(problem));
        }
        let server_trust = self.server_trust.clone().unwrap_or_else(Trust::platform_roots);
        let needs_platform_roots = matches!(server_trust.kind, TrustKind::Platform);
        let verifier = server_trust.server_verifier()?;
        let client = self.client(&verifier)?;
        let Sessions(sessions) = self.sessions.clone().unwrap_or_else(|| Sessions::new(SERVERS_MAX));
        let server = self.identity.as_ref().map_or(Ok(Vec::new()), |identity| self.servers(identity))?;
        if self.client_trust.is_some() && server.is_empty() {
            return Err(SecurityError::Settings("clients are to be checked, but there is no identity".to_owned()));
        }
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
        Ok(TlsSettings {
            plain_clients: self.plain_clients,
            client: Some(Arc::new(client)),
            resumption: Some(Resumption { sessions, verifier }),
            server,
            needs_platform_roots,
            identity: self.identity.clone(),
        })
    }

    fn client(&self, verifier: &Arc<dyn ServerCertVerifier>) -> Result<ClientConfig, SecurityError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(SecurityError::of_tls)?;
        let identity = self.identity.as_ref().map_or(Ok(NO_CREDENTIALS.clone()), Identity::credentials)?;
        let mut config = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(verifier))
            .with_client_cert_resolver(identity);
        config.alpn_protocols.clone_from(&self.alpn);
        config.enable_early_data = true;
        if let Some(key_log) = &self.key_log {
            config.key_log = key_log.open();
        }
        Ok(config)
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
        let (credentials, raw_clients) = (identity.credentials()?, verifier.requires_raw_public_keys());
        let shown: Arc<dyn ResolvesServerCert> = match &self.client_trust {
            None => Arc::new(ShownTo { credentials, raw_clients }),
            Some(_) => credentials,
        };
        let mut config = builder.with_client_cert_verifier(verifier).with_cert_resolver(shown);
        config.alpn_protocols.clone_from(&self.alpn);
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

impl Trust {
    /// The verifier of servers, the same for all clones: sessions are bound to it.
    fn server_verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, SecurityError> {
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
fn pinned(is_trusted: &Decision, is_raw: bool) -> Pinned {
    let pinned = Pinned::deciding(provider(), Arc::clone(is_trusted));
    if is_raw { pinned.with_raw_public_keys() } else { pinned }
}

fn raw_keys_have_no_roots() -> SecurityError {
    SecurityError::Settings("no authority signs raw public keys: they are trusted by their fingerprints".to_owned())
}

/// Verifies clients by roots.
fn signed_clients(roots: Arc<RootCertStore>) -> Result<Arc<dyn ClientCertVerifier>, SecurityError> {
    WebPkiClientVerifier::builder_with_provider(roots, provider())
        .build()
        .map_err(|error| SecurityError::Settings(error.to_string()))
}

fn store(roots: &[rustls::pki_types::CertificateDer<'static>]) -> Result<RootCertStore, SecurityError> {
    let mut store = RootCertStore::empty();
    for (at, root) in roots.iter().enumerate() {
        bundle::check(root).map_err(|problem| bundle::damaged(at + 1, None, &problem))?;
        store.add(root.clone()).map_err(SecurityError::of_tls)?;
    }
    Ok(store)
}

impl fmt::Debug for Security {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Security")
            .field("identity", &self.identity)
            .field("server_trust", &self.server_trust)
            .field("client_trust", &self.client_trust)
            .field("early_messages", &self.early_messages)
            .field("plain_clients", &self.plain_clients)
            .finish_non_exhaustive()
    }
}
