//! Settings of an endpoint in one flat list, as C and Python set them. The words are those of the Rust interface.

#![forbid(unsafe_code)]

use std::net::{IpAddr, SocketAddr};

use festina::blocking::{Endpoint, OpenError};
use festina::security::{ClientSecurity, Identity, SecurityError, ServerSecurity, Sessions, Trust};
use festina::{Admission, BindError, ClientConfig, ConfigError, ServerConfig, Transport};

/// Settings of an endpoint, of either kind: a client's ignores those of listeners.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Settings of associations.
    pub transport: Transport,
    /// Limits on peers.
    pub admission: Admission,
    /// The addresses of the endpoint other than that which it is opened at.
    pub other_addresses: Vec<IpAddr>,
    /// Settings of encryption; `None` for plain SCTP.
    pub security: Option<Security>,
}

/// Settings of encryption.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// The own certificate or raw public key. Listening needs it.
    pub identity: Option<Identity>,
    /// Trusted servers. The default trusts the roots of the operating system.
    pub server_trust: Option<Trust>,
    /// Trusted clients. By default, clients are anonymous.
    pub client_trust: Option<Trust>,
    /// Application protocols, the preferred one first.
    pub alpn: Vec<String>,
    /// Whether listeners take early messages.
    pub early_messages: bool,
    /// Whether listeners accept plain SCTP as well.
    pub plain_clients: bool,
    /// Sessions that are resumed.
    pub sessions: Option<Sessions>,
    /// Whether secrets are appended to the file that `SSLKEYLOGFILE` names.
    pub key_log_from_env: bool,
}

impl Settings {
    /// Returns the default settings of encrypted associations.
    pub fn encrypted() -> Self {
        Self { security: Some(Security::default()), ..Self::default() }
    }

    /// Checks the range of every number.
    ///
    /// # Errors
    /// Names the first setting that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.transport.validate()?;
        self.admission.validate()
    }

    /// Opens a UDP socket that can only connect.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn client(self, address: SocketAddr) -> Result<Endpoint, OpenError> {
        let config = self.security.map_or_else(ClientConfig::plain, |security| ClientConfig::new(security.client()));
        let config = config.with_associations_max(self.admission.associations_max());
        let config = config.with_other_addresses(self.other_addresses);
        Endpoint::client(address, config.with_transport(self.transport))
    }

    /// Opens a UDP socket that can listen and connect.
    ///
    /// # Errors
    /// Encryption without an identity, and see [`OpenError`].
    pub fn server(self, address: SocketAddr) -> Result<Endpoint, OpenError> {
        let config = match self.security {
            None => ServerConfig::plain(),
            Some(security) => {
                ServerConfig::new(security.server().map_err(BindError::Security).map_err(OpenError::Bind)?)
            }
        };
        let config = config.with_other_addresses(self.other_addresses);
        Endpoint::server(address, config.with_transport(self.transport).with_admission(self.admission))
    }
}

impl Security {
    fn client(&self) -> ClientSecurity {
        let mut client = self.server_trust.clone().map_or_else(ClientSecurity::default, ClientSecurity::new);
        client = client.with_alpn(self.alpn.iter().map(String::as_str));
        if let Some(identity) = &self.identity {
            client = client.with_identity(identity.clone());
        }
        if let Some(sessions) = &self.sessions {
            client = client.with_sessions(sessions.clone());
        }
        if self.key_log_from_env { client.with_key_log_from_env() } else { client }
    }

    fn server(&self) -> Result<ServerSecurity, SecurityError> {
        let missing = || SecurityError::Settings("an encrypted server needs an identity".to_owned());
        let mut server = ServerSecurity::new(self.identity.clone().ok_or_else(missing)?).with_client(self.client());
        server = server.with_alpn(self.alpn.iter().map(String::as_str));
        if let Some(trust) = &self.client_trust {
            server = server.with_client_trust(trust.clone());
        }
        if self.early_messages {
            server = server.with_early_messages();
        }
        if self.plain_clients {
            server = server.with_plain_clients();
        }
        Ok(if self.key_log_from_env { server.with_key_log_from_env() } else { server })
    }
}
