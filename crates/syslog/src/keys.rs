//! Encryption between relay and collector: the own key, and the peers that are trusted.
//!
//! A key is created at the first start, in the directory of the state, unless the configuration names PEM files.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use festina::security::{
    Acquaintance, ChangedKey, Fingerprint, KnownPeers, Security, SecurityError, SecurityFailure, StoredError, Trust,
};
use festina::{Association, Config, ConnectError};
use thiserror::Error;

use crate::clock;
use crate::relay::Notice;
use crate::tls;

/// The file of the own key, in the state.
const KEY: &str = "identity.pem";

/// The file of the collectors that a relay has met, in its state.
const KNOWN_COLLECTORS: &str = "known_collectors";

/// Longest PEM file that is read.
const PEM_BYTES_MAX: u64 = 1 << 20;

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

/// Why a key, a certificate or a list of known collectors cannot be used.
#[derive(Debug, Error)]
pub enum KeyError {
    /// The own key, or known collectors.
    #[error(transparent)]
    Stored(#[from] StoredError),
    /// A PEM file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A PEM file has something else in it.
    #[error("cannot use {}: {source}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: SecurityError,
    },
}

/// The own identity, from PEM files or from the state, where it is created if it is missing.
///
/// # Errors
/// A file cannot be read or written, or is invalid.
fn own_identity(state: &Path, files: Option<&tls::Identity>) -> Result<festina::security::Identity, KeyError> {
    let Some(tls::Identity { certificate, key }) = files else {
        return Ok(festina::security::Identity::from_file_or_new(&state.join(KEY), "festina-syslog")?);
    };
    let (chain, private) = (read(certificate)?, read(key)?);
    festina::security::Identity::from_pem(&chain, &private)
        .map_err(|source| KeyError::Unusable { path: certificate.clone(), source })
}

fn roots(path: &Path) -> Result<Trust, KeyError> {
    Trust::roots_from_pem(&read(path)?).map_err(|source| KeyError::Unusable { path: path.to_owned(), source })
}

fn read(path: &Path) -> Result<Vec<u8>, KeyError> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(PEM_BYTES_MAX + 1).read_to_end(&mut bytes));
    let read = read.and_then(|_| match bytes.len() as u64 {
        0..=PEM_BYTES_MAX => Ok(()),
        _ => Err(std::io::Error::other("it is longer than 1 MiB")),
    });
    read.map(|()| bytes).map_err(|source| KeyError::Read { path: path.to_owned(), source })
}

impl<P> Protection<P> {
    /// The fingerprint of the own key, which is created if it is missing. `None` without encryption.
    ///
    /// # Errors
    /// A file cannot be read or written, or is invalid.
    pub fn fingerprint(&self, state: &Path) -> Result<Option<Fingerprint>, KeyError> {
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
    pub(crate) fn check_files(&self) -> Result<(), KeyError> {
        match self {
            Self::Encrypted { peers: Collectors::Authorities(path, _), .. } => roots(path).map(drop)?,
            Self::Encrypted { .. } | Self::Plain => {}
        }
        check_identity(self)
    }

    /// The client side of an association with a collector.
    pub(crate) fn client(&self, state: &Path, collector: SocketAddr, notice: &Notice) -> Result<Client, KeyError> {
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
                roots(path)?
            }
        };
        client.security = Some(Security::new().with_identity(identity).with_server_trust(trust));
        Ok(client)
    }
}

impl Protection<Relays> {
    /// Checks the files that it names.
    ///
    /// # Errors
    /// The first problem.
    pub(crate) fn check_files(&self) -> Result<(), KeyError> {
        match self {
            Self::Encrypted { peers: Relays::Authorities(path), .. } => roots(path).map(drop)?,
            Self::Encrypted { .. } | Self::Plain => {}
        }
        check_identity(self)
    }

    /// The settings of a collector.
    pub(crate) fn server(&self, config: Config, state: &Path, notice: &Notice) -> Result<Config, KeyError> {
        let Self::Encrypted { identity, peers } = self else { return Ok(config) };
        let identity = own_identity(state, identity.as_ref())?;
        notice(&format!("encrypted, own key sha256:{}", identity.fingerprint()));
        let security = Security::new().with_identity(identity);
        let security = match peers {
            Relays::Any => security,
            Relays::Authorities(path) => security.with_client_trust(roots(path)?),
            Relays::Fingerprints(list) => {
                if list.is_empty() {
                    notice("no relay is admitted yet: list the fingerprints of their keys in [security], relays");
                }
                security.with_client_trust(admitting(list.clone(), notice.clone()))
            }
        };
        Ok(config.with_security(security))
    }
}

fn check_identity<P>(protection: &Protection<P>) -> Result<(), KeyError> {
    match protection {
        // The key in the state is created at the start.
        Protection::Encrypted { identity: Some(files), .. } => own_identity(Path::new(""), Some(files)).map(drop),
        Protection::Encrypted { .. } | Protection::Plain => Ok(()),
    }
}

/// Trusts the listed relays and reports others.
fn admitting(list: Vec<Fingerprint>, notice: Notice) -> Trust {
    let refusals = Refusals::default();
    Trust::deciding(move |seen| {
        let is_listed = list.contains(seen);
        if !is_listed && refusals.is_due(seen) {
            notice(&format!(
                "a relay is refused; to admit it, add \"sha256:{seen}\" to relays in [security], and restart"
            ));
        }
        is_listed
    })
}

/// The client side of the associations with one collector. Clones share its known key.
#[derive(Clone)]
pub(crate) struct Client {
    collector: SocketAddr,
    notice: Notice,
    security: Option<Security>,
    pub(crate) server_name: Option<String>,
    known: Option<Acquaintance>,
    own: Option<Fingerprint>,
}

impl Client {
    pub(crate) fn protect(&self, config: Config) -> Config {
        match &self.security {
            Some(security) => config.with_security(security.clone()),
            None => config,
        }
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
        if let Some(changed) = self.known.as_ref().and_then(Acquaintance::changed) {
            let name = &changed.name;
            return format!(
                "{changed}. If you know why it has changed, remove the line of {name} from {KNOWN_COLLECTORS} in the state and restart"
            );
        }
        match (error, self.own) {
            (
                ConnectError::Security { failure: SecurityFailure::Alert { code: 42..=49 | 51 | 116, .. }, .. },
                Some(own),
            ) => {
                format!(
                    "{error}: the collector does not admit this relay; add \"sha256:{own}\" to relays in its [security]"
                )
            }
            (ConnectError::Security { failure: SecurityFailure::OtherProtocol(_), .. }, _) => {
                format!("{error}; plain = true in [security] has to be the same in both")
            }
            _ => error.to_string(),
        }
    }
}

/// Refused keys that have been reported: at most one in a second, and the same one at most once in a minute, so that strangers do not fill a log.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<Option<(Fingerprint, u64)>>);

impl Refusals {
    /// Pause between reports of different keys, in microseconds.
    const PAUSE_US: u64 = 1_000_000;
    /// Pause between reports of the same key, in microseconds.
    const PAUSE_OF_SAME_US: u64 = 60_000_000;

    /// Returns whether the refusal of this key is to be reported now.
    pub fn is_due(&self, seen: &Fingerprint) -> bool {
        self.is_due_at(seen, clock::steady_us())
    }

    fn is_due_at(&self, seen: &Fingerprint, now_us: u64) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|(told, at_us)| {
            now_us.saturating_sub(at_us) >= if told == *seen { Self::PAUSE_OF_SAME_US } else { Self::PAUSE_US }
        });
        if due {
            *last = Some((*seen, now_us));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_reported_once_a_second_and_the_same_one_once_a_minute() {
        let refusals = Refusals::default();
        let due = |key, ms: u64| refusals.is_due_at(&Fingerprint([key; 32]), ms * 1_000);
        assert_eq!([due(1, 0), due(2, 500), due(2, 1_000), due(2, 2_500)], [true, false, true, false]);
        assert_eq!([due(2, 60_999), due(2, 61_000), due(1, 61_999), due(1, 62_000)], [false, true, false, true]);
    }
}
