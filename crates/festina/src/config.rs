//! Settings of an endpoint. Only methods are public, so that new settings do not break existing code.

mod admission;
mod expert;
mod transport;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use festina_sctp as sctp;
use festina_secure::OVERHEAD_BYTES;

pub use self::admission::Admission;
pub use self::expert::Expert;
pub use self::transport::Transport;
use crate::runtime::Runtime;
use crate::security::{ClientSecurity, ServerSecurity};

/// The smallest packet limit of the core.
const PACKET_BYTES_MIN: usize = 384;
/// The difference between the headers of IPv6 and IPv4.
const IPV4_SPARES_BYTES: usize = 20;

/// Settings of an endpoint that connects: [`Endpoint::client`](crate::Endpoint::client). By default associations are encrypted, and servers are
/// trusted whose certificate a certificate authority of the operating system has signed.
///
/// Such settings cannot open a server:
///
/// ```compile_fail,E0308
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use festina::{ClientConfig, Endpoint};
///
/// let server = Endpoint::server("127.0.0.1:0".parse()?, ClientConfig::default()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ClientConfig {
    transport: Transport,
    admission: Admission,
    other_addresses: Vec<IpAddr>,
    security: Option<ClientSecurity>,
    runtime: Option<Arc<dyn Runtime>>,
}

/// Settings of an endpoint that listens: [`Endpoint::server`](crate::Endpoint::server). It has an identity, or it is explicitly
/// [plain](ServerConfig::plain): there is no default.
///
/// Such settings cannot open a client:
///
/// ```compile_fail,E0308
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use festina::{Endpoint, ServerConfig};
///
/// let client = Endpoint::client("127.0.0.1:0".parse()?, ServerConfig::plain()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ServerConfig {
    transport: Transport,
    admission: Admission,
    other_addresses: Vec<IpAddr>,
    security: Option<ServerSecurity>,
    runtime: Option<Arc<dyn Runtime>>,
}

/// Settings of a client or of a server, for functions that open both: [`Endpoint::bind_on`](crate::Endpoint::bind_on) and
/// [`Endpoint::bind_raw`](crate::Endpoint::bind_raw).
#[derive(Clone, Debug)]
#[must_use]
pub struct EndpointConfig {
    transport: Transport,
    admission: Admission,
    pub(crate) other_addresses: Vec<IpAddr>,
    pub(crate) client: Option<ClientSecurity>,
    pub(crate) server: Option<ServerSecurity>,
    pub(crate) can_listen: bool,
    pub(crate) runtime: Option<Arc<dyn Runtime>>,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self::new(ClientSecurity::default())
    }
}

impl ClientConfig {
    /// Returns the default settings for encrypted associations with the servers that `security` trusts: a [`Trust`](crate::security::Trust), a
    /// [`Fingerprint`](crate::security::Fingerprint) or a [`ClientSecurity`].
    pub fn new(security: impl Into<ClientSecurity>) -> Self {
        Self::with(Some(security.into()))
    }

    /// Returns the default settings for plain SCTP, which unmodified peers understand: nothing is encrypted, and peers are not authenticated.
    pub fn plain() -> Self {
        Self::with(None)
    }

    /// Sets the maximum number of concurrent associations: 65,536 by default, at most 2²⁴.
    pub fn with_associations_max(mut self, associations: usize) -> Self {
        self.admission = self.admission.with_associations_max(associations);
        self
    }
}

impl ServerConfig {
    /// Returns the default settings for encrypted associations: `security` is an [`Identity`](crate::security::Identity) or a [`ServerSecurity`]. The
    /// endpoint accepts no unencrypted associations, except by [`ServerSecurity::with_plain_clients`].
    pub fn new(security: impl Into<ServerSecurity>) -> Self {
        Self::with(Some(security.into()))
    }

    /// Returns the default settings for plain SCTP, which unmodified peers understand: nothing is encrypted, and peers are not authenticated. Such an
    /// endpoint can connect as well.
    pub fn plain() -> Self {
        Self::with(None)
    }

    /// Sets the limits on peers.
    pub fn with_admission(mut self, admission: Admission) -> Self {
        self.admission = admission;
        self
    }

    /// Returns the limits on peers.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }
}

/// Settings of clients and servers alike.
macro_rules! common_settings {
    ($Config:ident, $Security:ident) => {
        impl $Config {
            fn with(security: Option<$Security>) -> Self {
                let (transport, admission) = (Transport::default(), Admission::default());
                Self { transport, admission, other_addresses: Vec::new(), security, runtime: None }
            }

            /// Sets the addresses of the endpoint besides the one that it is opened with: at most 7, of specific hosts, IPv4 and IPv6 mixed. A
            /// socket is opened for each, with the same UDP port, and peers learn them. Each address of a peer is a path of its own: see
            /// [`Transport::with_paths_max`]. With encryption only the peer can read them.
            pub fn with_other_addresses(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
                self.other_addresses = addresses.into_iter().collect();
                self
            }

            /// Sets the settings of associations.
            pub fn with_transport(mut self, transport: Transport) -> Self {
                self.transport = transport;
                self
            }

            /// Sets the runtime that the endpoint lives on. The default is the tokio runtime that the caller is inside.
            pub fn with_runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
                self.runtime = Some(runtime);
                self
            }

            /// Replaces the TLS settings.
            pub fn with_security(mut self, security: impl Into<$Security>) -> Self {
                self.security = Some(security.into());
                self
            }

            /// Returns the settings of associations.
            pub fn transport(&self) -> &Transport {
                &self.transport
            }

            /// Returns the TLS settings; `None` for plain SCTP.
            pub fn security(&self) -> Option<&$Security> {
                self.security.as_ref()
            }
        }
    };
}

common_settings!(ClientConfig, ClientSecurity);
common_settings!(ServerConfig, ServerSecurity);

impl From<ClientConfig> for EndpointConfig {
    fn from(ClientConfig { transport, admission, other_addresses, security, runtime }: ClientConfig) -> Self {
        Self { transport, admission, other_addresses, client: security, server: None, can_listen: false, runtime }
    }
}

impl From<ServerConfig> for EndpointConfig {
    fn from(ServerConfig { transport, admission, other_addresses, security, runtime }: ServerConfig) -> Self {
        let client = security.as_ref().and_then(ServerSecurity::client).cloned();
        Self { transport, admission, other_addresses, client, server: security, can_listen: true, runtime }
    }
}

impl EndpointConfig {
    pub(crate) fn is_encrypted(&self) -> bool {
        self.client.is_some() || self.server.is_some()
    }

    /// The addresses besides this one, which can be bound together with it.
    pub(crate) fn checked_others(&self, first: IpAddr) -> Result<Vec<IpAddr>, sctp::MultihomingError> {
        let all = [&[first], &self.other_addresses[..]].concat();
        if let Some(multihoming) = self.multihoming(&all).filter(|_| all.len() > 1) {
            multihoming.validate()?;
        }
        Ok(self.other_addresses.clone())
    }

    /// The settings of several paths for an endpoint with these addresses; `None` if its associations have one each.
    pub(crate) fn multihoming(&self, addresses: &[IpAddr]) -> Option<sctp::Multihoming> {
        let has_several = addresses.len() > 1;
        let default = sctp::Multihoming::default();
        let paths_max = self.transport.paths_max.unwrap_or(if has_several { default.paths_max } else { 1 });
        let addresses = if has_several { addresses.to_vec() } else { Vec::new() };
        let policy = self.transport.path_policy;
        (has_several || paths_max != 1).then_some(sctp::Multihoming { addresses, paths_max, policy, ..default })
    }

    /// The settings of the core for plain associations.
    pub(crate) fn plain_core(&self) -> sctp::Config {
        sctp::Config { admission: self.admission.0.clone(), ..self.transport.clone().into_core() }
    }

    /// The settings of the core for an endpoint at this address: room is left for the overhead of protected packets.
    pub(crate) fn core(&self, local: SocketAddr) -> sctp::Config {
        if !self.is_encrypted() {
            return self.plain_core();
        }
        // All peers have IPv4 addresses, whose header is shorter: a message of 1,200 bytes still fits into one packet by default.
        let spare_bytes = if local.is_ipv4() { IPV4_SPARES_BYTES } else { 0 };
        let mut core = self.transport.clone().into_core_for(true, spare_bytes);
        core.admission = self.admission.0.clone();
        let sctp::Limits { packet_bytes_max, packet_bytes_searched_max, .. } = &mut core.limits;
        for bytes in [packet_bytes_max].into_iter().chain(packet_bytes_searched_max) {
            *bytes = bytes.saturating_sub(OVERHEAD_BYTES).max(PACKET_BYTES_MIN.min(*bytes));
        }
        core.carrier.overhead_bytes = OVERHEAD_BYTES;
        core
    }
}

#[cfg(test)]
mod tests;
