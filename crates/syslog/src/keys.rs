//! Encryption between relay and collector: the own key, and the peers that are trusted.
//!
//! A key is created at the first start, in the directory of the state, unless the configuration names PEM files.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use festina::security::{
    Acquaintance, ChangedKey, ClientSecurity, Fingerprint, Foreign, Identity, KnownPeers, SecurityFailure,
    ServerSecurity, StoredError, Trust,
};
use festina::{Association, ClientConfig, ConnectError, ServerConfig, Transport};

use crate::notice::Notice;
use crate::tls;

/// The file of the own key, in the state.
const KEY: &str = "identity.pem";

/// The file of the collectors that a relay has met, in its state.
const KNOWN_COLLECTORS: &str = "known_collectors";

/// How associations are protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protection<P> {
    /// Not at all.
    Plain,
    /// By TLS 1.3.
    Encrypted {
        /// PEM files of the own certificate and key. By default, a key in the state.
        identity: Option<tls::Identity>,
        /// Trusted peers.
        peers: P,
    },
}

impl<P: Default> Default for Protection<P> {
    fn default() -> Self {
        Self::Encrypted { identity: None, peers: P::default() }
    }
}

/// The collectors that a relay trusts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Collectors {
    /// The first key of each address, from then on only that one.
    #[default]
    FirstUse,
    /// These keys.
    Fingerprints(Vec<Fingerprint>),
    /// Certificates of the authorities in a PEM file, with this name; without it, with the IP address.
    Authorities(PathBuf, Option<String>),
}

/// The relays that a collector admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relays {
    /// Those with these keys.
    Fingerprints(Vec<Fingerprint>),
    /// Those with certificates of the authorities in a PEM file.
    Authorities(PathBuf),
    /// All.
    Any,
}

impl Default for Relays {
    fn default() -> Self {
        Self::Fingerprints(Vec::new())
    }
}

/// The own identity, from PEM files or from the state, where it is created if it is missing.
///
/// # Errors
/// A file cannot be read or written, or is invalid.
fn own_identity(state: &Path, files: Option<&tls::Identity>) -> Result<Identity, StoredError> {
    match files {
        Some(tls::Identity { certificate, key }) => Identity::from_pem_files(certificate, key),
        None => Identity::from_file_or_new(&state.join(KEY), "festina-syslog"),
    }
}

impl<P> Protection<P> {
    /// The fingerprint of the own key, which is created if it is missing. `None` without encryption.
    ///
    /// # Errors
    /// A file cannot be read or written, or is invalid.
    pub fn fingerprint(&self, state: &Path) -> Result<Option<Fingerprint>, StoredError> {
        match self {
            Self::Plain => Ok(None),
            Self::Encrypted { identity, .. } => Ok(Some(own_identity(state, identity.as_ref())?.fingerprint())),
        }
    }
}

impl Protection<Collectors> {
    /// Checks the files that it names.
    ///
    /// # Errors
    /// The first problem.
    pub(crate) fn check_files(&self) -> Result<(), StoredError> {
        match self {
            Self::Encrypted { peers: Collectors::Authorities(path, _), identity } => {
                check_authorities(path, identity.as_ref())?;
            }
            Self::Encrypted { .. } | Self::Plain => {}
        }
        check_identity(self)
    }

    /// The client side of an association with a collector.
    pub(crate) fn client(&self, state: &Path, collector: SocketAddr, notice: &Notice) -> Result<Client, StoredError> {
        let notice = notice.clone();
        let mut client = Client { collector, notice, security: None, server_name: None, known: None, own: None };
        let Self::Encrypted { identity, peers } = self else { return Ok(client) };
        let identity = own_identity(state, identity.as_ref())?;
        client.own = Some(identity.fingerprint());
        let trust = match peers {
            Collectors::FirstUse => {
                let known = KnownPeers::new(state.join(KNOWN_COLLECTORS)).find(&collector.to_string())?;
                client.known.insert(known).trust()
            }
            Collectors::Fingerprints(list) => Trust::fingerprints(list.clone()),
            Collectors::Authorities(path, name) => {
                client.server_name.clone_from(name);
                Trust::roots_from_file(path)?
            }
        };
        client.security = Some(ClientSecurity::new(trust).with_identity(identity));
        Ok(client)
    }
}

impl Protection<Relays> {
    /// Checks the files that it names.
    ///
    /// # Errors
    /// The first problem.
    pub(crate) fn check_files(&self) -> Result<(), StoredError> {
        match self {
            Self::Encrypted { peers: Relays::Authorities(path), identity } => {
                check_authorities(path, identity.as_ref())?;
            }
            Self::Encrypted { .. } | Self::Plain => {}
        }
        check_identity(self)
    }

    /// The settings of a collector.
    pub(crate) fn server(
        &self,
        transport: Transport,
        state: &Path,
        notice: &Notice,
    ) -> Result<ServerConfig, StoredError> {
        let Self::Encrypted { identity, peers } = self else {
            return Ok(ServerConfig::plain().with_transport(transport));
        };
        let identity = own_identity(state, identity.as_ref())?;
        notice(&format!("encrypted, own key sha256:{}", identity.fingerprint()));
        let security = ServerSecurity::new(identity);
        let security = match peers {
            Relays::Any => security,
            Relays::Authorities(path) => security.with_client_trust(Trust::roots_from_file(path)?),
            Relays::Fingerprints(list) => {
                if list.is_empty() {
                    notice("no relay is admitted yet: list the fingerprints of their keys in [security], relays");
                }
                security.with_client_trust(admitting(list.clone(), notice.clone()))
            }
        };
        Ok(ServerConfig::new(security).with_transport(transport))
    }
}

/// Checks the certificates of authorities. Peers of the same authorities look at the dates of the own certificate.
fn check_authorities(path: &Path, identity: Option<&tls::Identity>) -> Result<(), StoredError> {
    drop(Trust::roots_from_file(path)?);
    identity.map_or(Ok(()), tls::Identity::check_dates)
}

fn check_identity<P>(protection: &Protection<P>) -> Result<(), StoredError> {
    match protection {
        // The key in the state is created at the start.
        Protection::Encrypted { identity: Some(files), .. } => own_identity(Path::new(""), Some(files)).map(drop),
        Protection::Encrypted { .. } | Protection::Plain => Ok(()),
    }
}

/// Trusts the listed relays and reports others.
fn admitting(list: Vec<Fingerprint>, notice: Notice) -> Trust {
    Trust::fingerprints_reporting(list, move |seen| {
        notice(&format!("a relay is refused; to admit it, add \"sha256:{seen}\" to relays in [security], and restart"));
    })
}

/// The client side of the associations with one collector. Clones share its known key.
#[derive(Clone)]
pub(crate) struct Client {
    collector: SocketAddr,
    notice: Notice,
    security: Option<ClientSecurity>,
    pub(crate) server_name: Option<String>,
    known: Option<Acquaintance>,
    own: Option<Fingerprint>,
}

impl Client {
    /// Returns the settings of an endpoint that connects to the collector.
    pub(crate) fn protect(&self, transport: Transport) -> ClientConfig {
        let config = self.security.clone().map_or_else(ClientConfig::plain, ClientConfig::new);
        config.with_transport(transport)
    }

    /// Remembers a new collector, and reports that.
    ///
    /// # Errors
    /// Another key has become known since the handshake.
    pub(crate) fn met(&self, association: &Association) -> Result<(), ChangedKey> {
        let (Some(known), Some(peer)) = (&self.known, association.peer_identity()) else { return Ok(()) };
        let fingerprint = peer.fingerprint();
        let new = format!("the key of the collector {} is new and is remembered", self.collector);
        match known.met(fingerprint) {
            Ok(false) => {}
            Ok(true) => (self.notice)(&format!("{new}: sha256:{fingerprint}")),
            Err(StoredError::Changed(changed)) => return Err(changed),
            Err(error) => (self.notice)(&format!("{new} until the next start only: sha256:{fingerprint}: {error}")),
        }
        Ok(())
    }

    /// Says why there is no association, and what to do.
    pub(crate) fn explain(&self, error: &ConnectError) -> String {
        let ConnectError::Security { failure, .. } = error else { return error.to_string() };
        let changed = self.known.as_ref().and_then(Acquaintance::changed);
        match (failure, changed, self.own) {
            (SecurityFailure::Untrusted(_), Some(changed), _) => {
                let name = &changed.name;
                format!(
                    "{changed}. If you know why it has changed, remove the line of {name} from {KNOWN_COLLECTORS} in the state and restart"
                )
            }
            (failure, _, Some(own)) if failure.is_unknown_certificate() => {
                format!(
                    "{error}: the collector does not admit this relay; add \"sha256:{own}\" to relays in its [security]"
                )
            }
            (SecurityFailure::OtherProtocol(Foreign::Sctp), ..) => {
                format!(
                    "{error}; plain = true in [security] has to be the same in both. Nothing authenticates this answer"
                )
            }
            _ => error.to_string(),
        }
    }
}
