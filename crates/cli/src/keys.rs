//! The user's key and the peers that the user has met, as SSH keeps them.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use festina::Config;
use festina::security::{Fingerprint, Identity, Security, Trust};

use crate::output;

/// The name in the certificate. Peers know it by its fingerprint.
const NAME: &str = "festina";
/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Whether associations are encrypted.
#[derive(Debug, Args)]
pub(crate) struct SecurityArgs {
    /// Encrypt with TLS 1.3; the peer needs --secure as well. The key is created at its first use
    #[arg(long)]
    secure: bool,
    /// Speak plain SCTP, as unmodified peers do: nothing is encrypted. This is the default
    #[arg(long, conflicts_with = "secure")]
    plain: bool,
}

/// How a client knows the server.
#[derive(Debug, Args)]
pub(crate) struct ServerTrustArgs {
    #[command(flatten)]
    security: SecurityArgs,
    /// The fingerprint that the peer's key must have, as `festina listen --secure` prints it; without it, the peer is trusted at its first use
    /// and has to keep its key
    #[arg(long, value_name = "SHA256", requires = "secure")]
    fingerprint: Option<Fingerprint>,
}

impl SecurityArgs {
    /// The settings of a listener, and its fingerprint if it encrypts.
    pub(crate) fn of_listener(&self, config: Config) -> Result<(Config, Option<Fingerprint>)> {
        if !self.secure {
            return Ok((config, None));
        }
        let identity = own_identity(&folder()?)?;
        let fingerprint = identity.fingerprint();
        Ok((config.with_security(Security::new().with_identity(identity)), Some(fingerprint)))
    }
}

impl ServerTrustArgs {
    /// The settings of a client of a peer that the user calls `name`, and the judge of its key if it encrypts.
    pub(crate) fn of_client(&self, config: Config, name: &str) -> Result<(Config, Option<Acquaintance>)> {
        if !self.security.secure {
            return Ok((config, None));
        }
        let folder = folder()?;
        let identity = own_identity(&folder)?;
        let acquaintance = match self.fingerprint {
            Some(fingerprint) => Acquaintance::pinned(name, fingerprint),
            None => Acquaintance::read(name, folder.join("known_peers"))?,
        };
        let security = Security::new().with_identity(identity).with_server_trust(acquaintance.trust());
        Ok((config.with_security(security), Some(acquaintance)))
    }
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

/// Reads the user's key, or creates it.
fn own_identity(folder: &Path) -> Result<Identity> {
    let path = folder.join("identity.pem");
    let pem = match read(&path)? {
        Some(pem) => pem,
        None => {
            create_key(folder, &path)?;
            read(&path)?.with_context(|| format!("{} has vanished", path.display()))?
        }
    };
    Identity::from_pem(pem.as_bytes(), pem.as_bytes()).with_context(|| format!("cannot use {}", path.display()))
}

/// Creates the key, unless another process does so at the same time. The file appears whole.
fn create_key(folder: &Path, path: &Path) -> Result<()> {
    let cannot = || format!("cannot create {}", path.display());
    std::fs::create_dir_all(folder).with_context(cannot)?;
    let draft = folder.join(format!("identity.pem.{}", std::process::id()));
    let written = private_file(&draft).and_then(|mut file| {
        let identity = Identity::self_signed(NAME).map_err(std::io::Error::other)?;
        file.write_all(identity.to_pem().as_bytes())?;
        file.sync_all()
    });
    let linked = written.and_then(|()| std::fs::hard_link(&draft, path));
    let removed = std::fs::remove_file(&draft);
    match linked {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error).with_context(cannot),
        Ok(()) => output::notice(&format!("created the key {}", path.display())),
    }
    removed.with_context(|| format!("cannot remove {}", draft.display()))
}

/// A new file that only its owner can read.
fn private_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The contents of a file; `None` if there is none.
fn read(path: &Path) -> Result<Option<String>> {
    let cannot = || format!("cannot read {}", path.display());
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(cannot),
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).with_context(cannot)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        bail!("{} is too long", path.display());
    }
    Ok(Some(text))
}

/// What the user knows of one peer.
#[derive(Clone, Debug)]
pub(crate) struct Acquaintance {
    name: String,
    known: Option<Fingerprint>,
    /// The file to which a new peer is added; `None` if the user has given the fingerprint.
    file: Option<PathBuf>,
    seen: Arc<Mutex<Option<Fingerprint>>>,
}

impl Acquaintance {
    fn pinned(name: &str, fingerprint: Fingerprint) -> Self {
        Self { name: name.to_owned(), known: Some(fingerprint), file: None, seen: Arc::default() }
    }

    /// Looks the peer up.
    fn read(name: &str, file: PathBuf) -> Result<Self> {
        let text = read(&file)?.unwrap_or_default();
        let mut known = None;
        for (line, number) in text.lines().zip(1..) {
            let mut fields = line.split_whitespace();
            if line.starts_with('#') || fields.next() != Some(name) {
                continue;
            }
            let fingerprint = fields.next().and_then(|field| field.parse().ok());
            let no_fingerprint = || format!("line {number} of {} has no fingerprint", file.display());
            known = Some(fingerprint.with_context(no_fingerprint)?);
        }
        Ok(Self { name: name.to_owned(), known, file: Some(file), seen: Arc::default() })
    }

    /// Trusts the known key, or any if the peer is new.
    fn trust(&self) -> Trust {
        let (known, seen) = (self.known, Arc::clone(&self.seen));
        Trust::deciding(move |fingerprint| {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(*fingerprint);
            known.is_none_or(|known| known == *fingerprint)
        })
    }

    /// Remembers a new peer to which an association came up, and says so.
    pub(crate) fn remember(&self, met: Fingerprint) -> Result<()> {
        let (None, Some(path)) = (self.known, &self.file) else { return Ok(()) };
        let cannot = || format!("cannot write {}", path.display());
        let ends_in_line = read(path)?.is_none_or(|text| text.is_empty() || text.ends_with('\n'));
        let separator = if ends_in_line { "" } else { "\n" };
        let mut file = OpenOptions::new().append(true).create(true).open(path).with_context(cannot)?;
        file.write_all(format!("{separator}{} sha256:{met}\n", self.name).as_bytes()).with_context(cannot)?;
        let name = &self.name;
        output::notice(&format!("met {name} for the first time: sha256:{met}, remembered in {}", path.display()));
        Ok(())
    }

    /// Explains a key that is not the known one.
    pub(crate) fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, Some(known), Some(seen)) = (&self.name, self.known, seen.filter(|seen| Some(*seen) != self.known))
        else {
            return error;
        };
        match &self.file {
            None => anyhow!("{name} has the key sha256:{seen}, not sha256:{known} as --fingerprint says"),
            Some(file) => anyhow!(
                "the key of {name} has changed: it was sha256:{known} and is sha256:{seen}. Somebody may be impersonating it. If \
                 you know why it has changed, remove its line from {} and try again",
                file.display()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(test: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("festina-keys-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        folder
    }

    #[test]
    fn the_key_is_created_once_and_only_its_owner_can_read_it() {
        let folder = scratch("key");
        let first = own_identity(&folder).expect("it is created").fingerprint();
        assert_eq!(own_identity(&folder).expect("it is read").fingerprint(), first);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(folder.join("identity.pem")).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        std::fs::write(folder.join("identity.pem"), "no key").expect("it can be written");
        let error = own_identity(&folder).expect_err("it is no key");
        assert!(format!("{error:#}").contains("identity.pem"), "{error:#}");
        std::fs::remove_dir_all(folder).expect("it can be removed");
    }

    #[test]
    fn known_peers_are_read_line_by_line() {
        let folder = scratch("known");
        let path = folder.join("known_peers");
        let key = own_identity(&folder).expect("it is created").fingerprint();
        std::fs::write(&path, format!("# comment\n\nother:1 nonsense\na.test:9899 sha256:{key}")).expect("written");
        let read = |name: &str| Acquaintance::read(name, path.clone());
        assert_eq!(read("a.test:9899").expect("sound").known, Some(key));
        assert_eq!(read("a.test:98").expect("sound").known, None);
        assert!(read("other:1").expect_err("not sound").to_string().contains("line 3"));
        read("b.test:1").expect("sound").remember(key).expect("it can be written");
        assert_eq!(read("b.test:1").expect("sound").known, Some(key));
        assert_eq!(read("a.test:9899").expect("sound").known, Some(key), "the last line had no end");
        std::fs::remove_dir_all(folder).expect("it can be removed");
    }
}
