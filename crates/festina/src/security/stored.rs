//! Keys and known peers in files, as SSH keeps them.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::failure::{ChangedKey, StoredError};
use super::files::{self, draft_of, private, read_present, read_state, sync_folder, write_private};
use super::peer_name::canonical;
use super::{Fingerprint, Identity, SecurityError, Trust};

impl Identity {
    /// Reads the certificate chain and the key from one PEM file. If there is none, creates a self-signed identity for `name` and stores it in a file
    /// that only its owner can read (mode 0600 on Unix). Processes that do so at the same time get the same identity. Missing folders are made.
    ///
    /// # Errors
    /// The file cannot be read or written, is no regular file, can be read or changed by every user, or holds something else.
    pub fn from_file_or_new(path: &Path, name: &str) -> Result<Self, StoredError> {
        let pem = match read_state(path)? {
            Some(_) if files::is_exposed(path) => return Err(StoredError::Exposed { path: path.to_owned() }),
            Some(pem) => pem,
            None => {
                create(path, name).map_err(|source| StoredError::Write { path: path.to_owned(), source })?;
                read_present(path)?
            }
        };
        Self::from_pem(&pem, &pem).map_err(unusable(path))
    }

    /// Reads the certificate chain from one PEM file and the key from another: [`from_pem`](Self::from_pem).
    ///
    /// # Errors
    /// A file cannot be read, or holds something else.
    pub fn from_pem_files(chain: &Path, key: &Path) -> Result<Self, StoredError> {
        Self::from_pem(&read_present(chain)?, &read_present(key)?).map_err(|source| {
            let at_fault = if matches!(source, SecurityError::PrivateKey(_)) { key } else { chain };
            unusable(at_fault)(source)
        })
    }
}

impl Fingerprint {
    /// Returns the fingerprint of the first certificate in a PEM file. Without one it is that of the first public key.
    ///
    /// # Errors
    /// The file cannot be read, or has neither.
    pub fn of_file(path: &Path) -> Result<Self, StoredError> {
        Self::of_pem(&read_present(path)?).map_err(unusable(path))
    }
}

impl Trust {
    /// Reads roots from a PEM file: [`roots_from_pem`](Self::roots_from_pem).
    ///
    /// # Errors
    /// The file cannot be read, or has no certificate.
    pub fn roots_from_file(path: &Path) -> Result<Self, StoredError> {
        Self::roots_from_pem(&read_present(path)?).map_err(unusable(path))
    }
}

fn unusable(path: &Path) -> impl FnOnce(SecurityError) -> StoredError {
    |source| StoredError::Unusable { path: path.to_owned(), source }
}

/// Creates an identity, unless another process does so at the same time. The file appears whole.
fn create(path: &Path, name: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let draft = draft_of(path);
    let linked = Identity::self_signed(name)
        .map_err(io::Error::other)
        .and_then(|identity| write_private(&draft, &identity.to_pem()))
        .and_then(|()| std::fs::hard_link(&draft, path));
    let removed = std::fs::remove_file(&draft);
    match linked {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => removed,
        Err(error) => Err(error),
        // A power cut must not take a key that peers know.
        Ok(()) => removed.and_then(|()| sync_folder(path)),
    }
}

/// A list of known peers in a text file: in each line the name of a peer, a space and its fingerprint. Lines that begin with `#` are comments. Of
/// several lines with the same name the last one counts.
///
/// A name that ends with a port names a host. Its spellings count as the same name: `Game.Example.:9899` and `game.example:9899`, `127.1:9899` and
/// `[::ffff:127.0.0.1]:9899`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPeers {
    path: PathBuf,
}

impl KnownPeers {
    /// The list in this file, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks a peer up, to be trusted at its first use. The name has no white space, and does not begin with `#`.
    ///
    /// # Errors
    /// The name cannot be stored, the file cannot be read, or the peer's line has no fingerprint.
    pub fn find(&self, name: &str) -> Result<Acquaintance, StoredError> {
        if name.is_empty() || name.starts_with('#') || name.contains(char::is_whitespace) {
            return Err(StoredError::Name { name: name.to_owned() });
        }
        let name = canonical(name);
        let known = self.key_in(&self.text()?, &name)?;
        let state = Arc::new(Mutex::new(Familiarity { known, seen: None }));
        Ok(Acquaintance { name, peers: self.clone(), state })
    }

    /// Removes a peer, and returns whether it was there. Its next key is then trusted at its first use.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn forget(&self, name: &str) -> Result<bool, StoredError> {
        if read_state(&self.path)?.is_none() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        let (text, name) = (self.text()?, canonical(name));
        let others: String = text.split_inclusive('\n').filter(|line| !is_line_of(line, &name)).collect();
        if others.len() == text.len() {
            return Ok(false);
        }
        // The path may be a link, which stays.
        let replaced = std::fs::canonicalize(&self.path).and_then(|path| {
            let draft = draft_of(&path);
            write_private(&draft, &others).and_then(|()| std::fs::rename(&draft, &path))
        });
        replaced.map_err(|source| StoredError::Write { path: self.path.clone(), source })?;
        Ok(true)
    }

    /// The whole list.
    fn text(&self) -> Result<String, StoredError> {
        String::from_utf8(read_state(&self.path)?.unwrap_or_default()).map_err(|error| StoredError::Read {
            path: self.path.clone(),
            source: io::Error::new(ErrorKind::InvalidData, error),
        })
    }

    /// The key of a peer in the text of a list.
    fn key_in(&self, text: &str, name: &str) -> Result<Option<Fingerprint>, StoredError> {
        let mut known = None;
        for (line, number) in text.lines().zip(1..).filter(|(line, _)| is_line_of(line, name)) {
            let fingerprint = line.split_whitespace().nth(1).and_then(|field| field.parse().ok());
            known = Some(fingerprint.ok_or_else(|| StoredError::Line { path: self.path.clone(), line: number })?);
        }
        Ok(known)
    }

    /// Adds a peer, unless it was added meanwhile. Returns whether it is new.
    fn add(&self, name: &str, fingerprint: Fingerprint) -> Result<bool, StoredError> {
        // Of two processes that meet a peer at the same time, the second one finds what the first one has written.
        let _lock = self.lock()?;
        let text = self.text()?;
        match self.key_in(&text, name)? {
            Some(known) if known == fingerprint => return Ok(false),
            Some(known) => return Err(ChangedKey { name: name.to_owned(), known, seen: fingerprint }.into()),
            None => {}
        }
        let separator = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        private(OpenOptions::new().append(true).create(true))
            .open(&self.path)
            .and_then(|mut file| file.write_all(format!("{separator}{name} sha256:{fingerprint}\n").as_bytes()))
            .map_err(|source| StoredError::Write { path: self.path.clone(), source })?;
        Ok(true)
    }

    /// Keeps other processes from changing the list until it is dropped. The list itself is replaced when a peer is forgotten, so the lock is on a
    /// file beside it.
    ///
    /// # Errors
    /// The lock cannot be had, also if another process keeps it for long.
    fn lock(&self) -> Result<File, StoredError> {
        let mut path = self.path.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let locked = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| {
            let file = private(OpenOptions::new().write(true).create(true).truncate(false)).open(&path)?;
            files::lock(&file)?;
            Ok(file)
        });
        locked.map_err(|source| StoredError::Write { path, source })
    }
}

/// `name` is in canonical form. That of the line may be older than this rule, or written by hand.
fn is_line_of(line: &str, name: &str) -> bool {
    !line.starts_with('#') && line.split_whitespace().next().is_some_and(|other| canonical(other) == name)
}

/// A server that is trusted at its first use and has to keep its key from then on. Clones share the known key.
///
/// ```no_run
/// use festina::security::{ClientSecurity, Identity, KnownPeers};
/// use festina::{ClientConfig, Endpoint};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let identity = Identity::from_file_or_new("client/identity.pem".as_ref(), "client")?;
/// let server = KnownPeers::new("client/known_peers").find("game.example:9899")?;
/// let security = ClientSecurity::new(server.trust()).with_identity(identity);
/// let endpoint = Endpoint::client("0.0.0.0:0".parse()?, ClientConfig::new(security)).await?;
/// let association = endpoint.connect("game.example:9899").await?;
/// if let Some(peer) = association.peer_identity() && server.met(peer.fingerprint())? {
///     println!("met game.example for the first time: sha256:{}", peer.fingerprint());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Acquaintance {
    name: String,
    peers: KnownPeers,
    state: Arc<Mutex<Familiarity>>,
}

#[derive(Clone, Copy, Debug)]
struct Familiarity {
    known: Option<Fingerprint>,
    /// The key that was shown last.
    seen: Option<Fingerprint>,
}

impl Acquaintance {
    /// A server with a known key, which is stored nowhere.
    pub fn pinned(name: &str, fingerprint: Fingerprint) -> Self {
        let state = Arc::new(Mutex::new(Familiarity { known: Some(fingerprint), seen: None }));
        Self { name: name.to_owned(), peers: KnownPeers::new(""), state }
    }

    fn state(&self) -> MutexGuard<'_, Familiarity> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the fingerprint of the known key.
    pub fn known(&self) -> Option<Fingerprint> {
        self.state().known
    }

    /// Trusts the known key, or any if there is none.
    pub fn trust(&self) -> Trust {
        let this = self.clone();
        Trust::deciding(move |fingerprint| {
            let mut state = this.state();
            state.seen = Some(*fingerprint);
            state.known.is_none_or(|known| known == *fingerprint)
        })
    }

    /// Remembers the key of a peer to which an association came up. Returns whether it is new. It is known to this value and its clones even if it
    /// cannot be written.
    ///
    /// # Errors
    /// The file cannot be written. Or another key has become known since the handshake: the association has to be aborted.
    pub fn met(&self, fingerprint: Fingerprint) -> Result<bool, StoredError> {
        {
            let mut state = self.state();
            match state.known {
                Some(known) if known == fingerprint => return Ok(false),
                Some(known) => {
                    return Err(ChangedKey { name: self.name.clone(), known, seen: fingerprint }.into());
                }
                None => state.known = Some(fingerprint),
            }
        }
        let added = self.peers.add(&self.name, fingerprint);
        if let Err(StoredError::Changed(change)) = &added {
            self.state().known = Some(change.known);
        }
        added
    }

    /// Returns the change if the key that was shown last is not the known one.
    pub fn changed(&self) -> Option<ChangedKey> {
        let Familiarity { known, seen } = *self.state();
        let (known, seen) = (known?, seen?);
        (known != seen).then(|| ChangedKey { name: self.name.clone(), known, seen })
    }
}

#[cfg(test)]
mod tests;
