//! The user's key, the peers that the user has met, and the flags that replace them. Encryption is the default of all commands.

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use festina::security::{
    Acquaintance, ChangedKey, ClientSecurity, Fingerprint, Foreign, Identity, KnownPeers, SecurityFailure,
    ServerSecurity, StoredError, Trust,
};
use festina::{Association, ClientConfig, ConnectError, ConnectOptions, ServerConfig, Transport};

use crate::address::HostPort;
use crate::output;
use crate::usage::UsageError;

/// The file of the user's key.
const IDENTITY: &str = "identity.pem";

/// How to do without a list of known peers.
const WITHOUT_KNOWN_PEERS: &str =
    "give the server's key with --fingerprint or --ca, or leave out encryption with --plain";

/// The name in the certificate. Peers know it by its fingerprint.
const NAME: &str = "festina";

/// Whether associations are encrypted, and the own key.
#[derive(Clone, Debug, Args)]
pub(crate) struct IdentityArgs {
    /// Speak plain SCTP, as unmodified peers do: nothing is encrypted and no peer is authenticated
    #[arg(long)]
    plain: bool,
    /// Certificate chain of this side, as PEM, instead of the user's own key, which is created at its first use
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "plain")]
    cert: Option<PathBuf>,
    /// The private key of --cert, as PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

/// How a client knows the server.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerTrustArgs {
    #[command(flatten)]
    identity: IdentityArgs,
    /// The fingerprint of the server's key, as the server prints it. Without it, the server is trusted at its first use and has to keep its key
    #[arg(long, value_name = "SHA256", conflicts_with_all = ["plain", "ca"])]
    fingerprint: Option<Fingerprint>,
    /// Trust servers with a certificate of these authorities, as PEM, and with the right name
    #[arg(long, value_name = "FILE", conflicts_with = "plain")]
    ca: Option<PathBuf>,
    /// The name that the server's certificate must have; without it, the host as it is written here
    #[arg(long, value_name = "NAME", requires = "ca")]
    server_name: Option<String>,
}

/// Which clients a server admits.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdmissionArgs {
    #[command(flatten)]
    identity: IdentityArgs,
    /// Admit the client whose key has this fingerprint, as `festina key` prints it there; may be repeated
    #[arg(long, value_name = "SHA256", conflicts_with = "plain")]
    allow: Vec<Fingerprint>,
    /// Admit clients with a certificate of these authorities, as PEM
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plain", "allow", "allow_any"])]
    allow_ca: Option<PathBuf>,
    /// Admit every client that reaches this port
    #[arg(long, conflicts_with_all = ["plain", "allow"])]
    allow_any: bool,
}

impl IdentityArgs {
    /// The settings of a server for all clients, and its fingerprint if it encrypts.
    pub(crate) fn of_server(&self, transport: Transport) -> Result<(ServerConfig, Option<Fingerprint>)> {
        self.of_server_for(transport, None)
    }

    fn of_server_for(
        &self,
        transport: Transport,
        clients: Option<Trust>,
    ) -> Result<(ServerConfig, Option<Fingerprint>)> {
        if self.plain {
            return Ok((ServerConfig::plain().with_transport(transport), None));
        }
        let identity = self.read()?;
        let fingerprint = identity.fingerprint();
        let security = ServerSecurity::new(identity);
        let security = match clients {
            Some(clients) => security.with_client_trust(clients),
            None => security,
        };
        Ok((ServerConfig::new(security).with_transport(transport), Some(fingerprint)))
    }

    fn read(&self) -> Result<Identity> {
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Ok(Identity::from_pem_files(cert, key)?),
            _ => own_identity()
                .context("there is no key: give one with --cert and --key, or speak plain SCTP with --plain"),
        }
    }
}

impl AdmissionArgs {
    /// The settings of a server for the clients that are admitted, and its fingerprint if it encrypts.
    pub(crate) fn of_server(&self, transport: Transport) -> Result<(ServerConfig, Option<Fingerprint>)> {
        let clients = match &self.allow_ca {
            Some(path) => Some(Trust::roots_from_file(path)?),
            None if self.identity.plain || self.allow_any => None,
            None if self.allow.is_empty() => return Err(UsageError::new(NO_CLIENTS).into()),
            None => Some(self.allowed()),
        };
        self.identity.of_server_for(transport, clients)
    }

    /// Trusts the named clients and reports others.
    fn allowed(&self) -> Trust {
        Trust::fingerprints_reporting(self.allow.iter().copied(), |seen| {
            output::complain(&format!("a client is refused; to admit it, add --allow sha256:{seen}"));
        })
    }
}

const NO_CLIENTS: &str = "no client is admitted: name each with --allow SHA256, where `festina key` on the client's host prints the \
                              fingerprint; or admit those of an authority with --allow-ca, or all with --allow-any";

impl ServerTrustArgs {
    /// The own side, for a server.
    pub(crate) fn identity(&self) -> &IdentityArgs {
        &self.identity
    }

    /// Returns the settings of a client of `server`, as the user wrote it.
    pub(crate) fn client(&self, transport: Transport, options: ConnectOptions, server: &HostPort) -> Result<Client> {
        let name = server.to_string();
        if self.identity.plain {
            let config = ClientConfig::plain().with_transport(transport);
            return Ok(Client { config, options, name, trust: ServerTrust::Plain, own: None });
        }
        let (trust, server_trust) = match (&self.ca, self.fingerprint) {
            (Some(path), _) => (Trust::roots_from_file(path)?, ServerTrust::Authorities),
            (None, Some(fingerprint)) => {
                let server = Acquaintance::pinned(&name, fingerprint);
                (server.trust(), ServerTrust::Pinned(server))
            }
            (None, None) => {
                let server = known_peers()?.find(&name).map_err(|error| match error {
                    StoredError::Read { .. } => anyhow!("{error}; {WITHOUT_KNOWN_PEERS}"),
                    error => error.into(),
                })?;
                (server.trust(), ServerTrust::FirstUse(server))
            }
        };
        let options = match (&self.ca, &self.server_name) {
            (None, _) => options,
            (Some(_), Some(name)) => options.server_name(name.as_str()),
            (Some(_), None) => options.server_name(server.host()),
        };
        // Few servers ask for it, and where no key can be stored, the others are still reached.
        let identity = match self.identity.read() {
            Err(error) if self.identity.cert.is_none() && is_without_storage(&error) => None,
            read => Some(read?),
        };
        let own = identity.as_ref().map(Identity::fingerprint);
        let security = ClientSecurity::new(trust);
        let security = match identity {
            Some(identity) => security.with_identity(identity),
            None => security,
        };
        let config = ClientConfig::new(security).with_transport(transport);
        Ok(Client { config, options, name, trust: server_trust, own })
    }
}

/// The settings of a client, and its trust in the server.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) config: ClientConfig,
    pub(crate) options: ConnectOptions,
    name: String,
    trust: ServerTrust,
    /// The fingerprint of the own key.
    own: Option<Fingerprint>,
}

#[derive(Clone, Debug)]
enum ServerTrust {
    Plain,
    Authorities,
    Pinned(Acquaintance),
    FirstUse(Acquaintance),
}

impl Client {
    /// A client of plain servers.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        let (options, name) = (ConnectOptions::default(), String::new());
        Self { config: ClientConfig::plain(), options, name, trust: ServerTrust::Plain, own: None }
    }

    /// Remembers a new server to which an association came up, and says so.
    pub(crate) fn met(&self, association: &Association) -> Result<()> {
        let (ServerTrust::FirstUse(server), Some(peer)) = (&self.trust, association.peer_identity()) else {
            return Ok(());
        };
        let fingerprint = peer.fingerprint();
        let new = format!("met {} for the first time: sha256:{fingerprint}", self.name);
        match server.met(fingerprint) {
            Ok(false) => Ok(()),
            Ok(true) => {
                output::notice(&format!("{new}, remembered in {}", known_peers()?.path().display()));
                Ok(())
            }
            Err(StoredError::Changed(changed)) => {
                association.abort("the key is not the known one");
                Err(self.explain_change(&changed))
            }
            Err(error) => {
                output::complain(&format!("{new}, not remembered: {error}"));
                Ok(())
            }
        }
    }

    fn explain_change(&self, changed: &ChangedKey) -> anyhow::Error {
        anyhow!("{changed}. If you know why it has changed: festina key --forget {}", self.name)
    }

    /// Explains why there is no association, and says what to do.
    pub(crate) fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        // The reason in the ABORT of an encrypted endpoint.
        if matches!(self.trust, ServerTrust::Plain) && error.to_string().contains("speaks only encrypted associations")
        {
            return anyhow!("{error}; leave out --plain");
        }
        let Some(ConnectError::Security { failure, .. }) = error.downcast_ref() else { return error };
        match (failure, &self.trust, self.own) {
            (SecurityFailure::Untrusted(_), ServerTrust::FirstUse(server), _) => match server.changed() {
                Some(changed) => self.explain_change(&changed),
                None => error,
            },
            (SecurityFailure::Untrusted(_), ServerTrust::Pinned(server), _) => match server.changed() {
                Some(ChangedKey { name, known, seen, .. }) => {
                    anyhow!("{name} has the key sha256:{seen}, not sha256:{known} as --fingerprint says")
                }
                None => error,
            },
            (failure, _, Some(own)) if failure.is_unknown_certificate() => {
                anyhow!("{error}: the server does not admit this key; there, add --allow sha256:{own}")
            }
            (failure, _, None) if failure.is_unknown_certificate() => {
                anyhow!("{error}: give a key with --cert and --key, or set HOME or XDG_CONFIG_HOME")
            }
            (SecurityFailure::OtherProtocol(Foreign::Sctp), ..) => {
                anyhow!("{error}; --plain speaks SCTP without encryption. Nothing authenticates this answer")
            }
            _ => error,
        }
    }
}

/// Tells peers' users which key to expect.
pub(crate) fn show(fingerprint: Option<Fingerprint>) {
    if let Some(fingerprint) = fingerprint {
        output::notice(&format!("encrypted, own key sha256:{fingerprint}"));
    }
}

/// Whether the own key is missing because there is no place for it: the folder is unknown, cannot be written, or cannot be entered.
fn is_without_storage(error: &anyhow::Error) -> bool {
    let is_closed = || folder().is_ok_and(|folder| folder.join(IDENTITY).try_exists().is_err());
    folder().is_err() || matches!(error.downcast_ref(), Some(StoredError::Write { .. })) || is_closed()
}

/// The folder of the user's key and known peers.
fn folder() -> Result<PathBuf> {
    let of = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = match of("XDG_CONFIG_HOME").filter(|path| path.is_absolute()) {
        Some(base) => Some(base),
        None if cfg!(windows) => of("APPDATA"),
        None => of("HOME").map(|home| home.join(".config")),
    };
    Ok(base.context("cannot find the folder for keys: neither XDG_CONFIG_HOME nor HOME is set")?.join("festina"))
}

/// The user's key, created at its first use.
pub(crate) fn own_identity() -> Result<Identity> {
    let path = folder()?.join(IDENTITY);
    let is_new = !path.exists();
    let identity = Identity::from_file_or_new(&path, NAME)?;
    if is_new {
        // Of several processes at the first use one creates the key, and all read it.
        output::notice(&format!("this user's key is new: {}", path.display()));
    }
    Ok(identity)
}

/// The peers that the user has met.
pub(crate) fn known_peers() -> Result<KnownPeers> {
    let path = folder().context(WITHOUT_KNOWN_PEERS)?;
    Ok(KnownPeers::new(path.join("known_peers")))
}
