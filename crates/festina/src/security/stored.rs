//! Keys and known peers in files, as SSH keeps them.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

use super::{Fingerprint, Identity, SecurityError, Trust};

/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Caller or system: why a file with a key or with known peers cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoredError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file contains no certificates or no key, although it should.
    #[error("cannot use {}: {source}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: SecurityError,
    },
    /// A line of a list of known peers has no fingerprint.
    #[error("line {line} of {} has no fingerprint", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its number, from 1.
        line: usize,
    },
    /// Caller: a peer's name is empty, has white space, or begins with `#`.
    #[error("a list of known peers cannot hold the name {name:?}")]
    Name {
        /// The name.
        name: String,
    },
    /// A peer has another key than before.
    #[error(transparent)]
    Changed(#[from] ChangedKey),
}

/// Peer: it has another key than the known one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the key of {name} has changed: it was sha256:{known} and is sha256:{seen}. An attacker may be impersonating it"
)]
#[non_exhaustive]
pub struct ChangedKey {
    /// The peer, as the application calls it.
    pub name: String,
    /// The fingerprint of the known key.
    pub known: Fingerprint,
    /// The fingerprint of the key that was seen.
    pub seen: Fingerprint,
}

impl Identity {
    /// Reads the certificate chain and the key from one PEM file. If there is none, creates a self-signed identity for `name` and stores it in a file
    /// that only its owner can read (mode 0600 on Unix). Processes that do so at the same time get the same identity. Missing folders are made.
    ///
    /// # Errors
    /// The file cannot be read or written, or holds something else.
    pub fn from_file_or_new(path: &Path, name: &str) -> Result<Self, StoredError> {
        let pem = match read(path)? {
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

/// Has the name of a new file survive a power cut.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// A name for a file that becomes the file `path` once it is whole.
fn draft_of(path: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    draft.into()
}

/// Writes a file that only its owner can read.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    // A file of an earlier process with this number keeps its mode.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = private(OpenOptions::new().write(true).create_new(true)).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Gives files that are created the mode 0600.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// The contents of a file; `None` if there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>, StoredError> {
    let failed = |source| StoredError::Read { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(failed(io::Error::other("it is longer than 1 MiB")));
    }
    Ok(Some(bytes))
}

/// The contents of a file that has to be there.
fn read_present(path: &Path) -> Result<Vec<u8>, StoredError> {
    read(path)?.ok_or_else(|| StoredError::Read { path: path.to_owned(), source: ErrorKind::NotFound.into() })
}

/// A list of known peers in a text file: in each line the name of a peer, a space and its fingerprint. Lines that begin with `#` are comments. Of
/// several lines with the same name the last one counts.
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
        let known = self.key_in(&self.text()?, name)?;
        let state = Arc::new(Mutex::new(Familiarity { known, seen: None }));
        Ok(Acquaintance { name: name.to_owned(), peers: self.clone(), state })
    }

    /// Removes a peer, and returns whether it was there. Its next key is then trusted at its first use.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn forget(&self, name: &str) -> Result<bool, StoredError> {
        if read(&self.path)?.is_none() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        let text = self.text()?;
        let others: String = text.split_inclusive('\n').filter(|line| !is_line_of(line, name)).collect();
        if others.len() == text.len() {
            return Ok(false);
        }
        let draft = draft_of(&self.path);
        let replaced = write_private(&draft, &others).and_then(|()| std::fs::rename(&draft, &self.path));
        replaced.map_err(|source| StoredError::Write { path: self.path.clone(), source })?;
        Ok(true)
    }

    /// The whole list.
    fn text(&self) -> Result<String, StoredError> {
        String::from_utf8(read(&self.path)?.unwrap_or_default()).map_err(|error| StoredError::Read {
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
    fn lock(&self) -> Result<File, StoredError> {
        let mut path = self.path.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let locked = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| {
            let file = private(OpenOptions::new().write(true).create(true).truncate(false)).open(&path)?;
            file.lock()?;
            Ok(file)
        });
        locked.map_err(|source| StoredError::Write { path, source })
    }
}

fn is_line_of(line: &str, name: &str) -> bool {
    !line.starts_with('#') && line.split_whitespace().next() == Some(name)
}

/// A server that is trusted at its first use and has to keep its key from then on. Clones share the known key.
///
/// ```no_run
/// use festina::security::{Identity, KnownPeers, Security};
/// use festina::{Config, ConnectOptions, Endpoint};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let identity = Identity::from_file_or_new("client/identity.pem".as_ref(), "client")?;
/// let server = KnownPeers::new("client/known_peers").find("game.example:9899")?;
/// let security = Security::new().with_identity(identity).with_server_trust(server.trust());
/// let endpoint = Endpoint::bind("0.0.0.0:0".parse()?, Config::default().with_security(security)).await?;
/// let association = endpoint.connect_to("game.example:9899", ConnectOptions::default()).await?;
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
mod tests {
    use super::*;

    fn scratch(test: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("festina-stored-{}-{test}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn an_identity_is_created_once_and_only_its_owner_can_read_it() {
        let folder = scratch("identity");
        let path = folder.join("deeper/identity.pem");
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn({
                    let path = path.clone();
                    move || read_identity(&path)
                })
            })
            .collect();
        let seen: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(seen.iter().all(|fingerprint| *fingerprint == seen[0]), "{seen:?}");
        assert_eq!(std::fs::read_dir(folder.join("deeper")).unwrap().count(), 1, "no draft is left");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        std::fs::write(&path, "no key").unwrap();
        let error = Identity::from_file_or_new(&path, "a.test").unwrap_err();
        assert!(matches!(error, StoredError::Unusable { .. }), "{error}");
        std::fs::write(&path, vec![b' '; usize::try_from(FILE_BYTES_MAX).unwrap() + 1]).unwrap();
        let error = Identity::from_file_or_new(&path, "a.test").unwrap_err();
        assert!(matches!(error, StoredError::Read { .. }), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    fn read_identity(path: &Path) -> Fingerprint {
        Identity::from_file_or_new(path, "a.test").unwrap().fingerprint()
    }

    #[test]
    fn known_peers_are_read_line_by_line_and_forgotten() {
        let folder = scratch("known");
        std::fs::create_dir_all(&folder).unwrap();
        let peers = KnownPeers::new(folder.join("known_peers"));
        assert!(!peers.forget("a.test:9899").unwrap());
        let key = Fingerprint([7; 32]);
        std::fs::write(peers.path(), format!("# comment\n\nother:1 nonsense\na.test:9899 sha256:{key}")).unwrap();
        let known = |name: &str| peers.find(name).unwrap().known();
        assert_eq!(known("a.test:9899"), Some(key));
        assert_eq!(known("a.test:98"), None);
        assert!(matches!(peers.find("other:1"), Err(StoredError::Line { line: 3, .. })));
        assert!(peers.find("b.test:1").unwrap().met(key).unwrap());
        assert_eq!(known("b.test:1"), Some(key));
        assert_eq!(known("a.test:9899"), Some(key), "the last line had no end");
        for unusable in ["", "#a", "a b", "a\nb"] {
            assert!(matches!(peers.find(unusable), Err(StoredError::Name { .. })), "{unusable:?}");
        }
        assert!(peers.forget("a.test:9899").unwrap());
        assert_eq!((known("a.test:9899"), known("b.test:1")), (None, Some(key)));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_key_that_another_process_has_stored_meanwhile_counts() {
        let folder = scratch("meanwhile");
        let peers = KnownPeers::new(folder.join("known_peers"));
        let (genuine, forged) = (Fingerprint([1; 32]), Fingerprint([2; 32]));
        let [first, second, third] = [(); 3].map(|()| peers.find("a.test:1").unwrap());
        assert!(first.met(genuine).unwrap());
        assert!(matches!(second.met(forged), Err(StoredError::Changed(_))));
        assert_eq!(second.known(), Some(genuine));
        assert!(!third.met(genuine).unwrap());
        assert_eq!(std::fs::read_to_string(peers.path()).unwrap().lines().count(), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn clones_of_an_acquaintance_learn_its_key_together_and_refuse_another_one() {
        let folder = scratch("acquaintance");
        let peers = KnownPeers::new(folder.join("known_peers"));
        let (one, other) = (Fingerprint([1; 32]), Fingerprint([2; 32]));
        let first = peers.find("a.test:1").unwrap();
        let second = first.clone();
        assert!(first.met(one).unwrap());
        assert!(!second.met(one).unwrap());
        assert!(
            matches!(second.met(other), Err(StoredError::Changed(ChangedKey { known, seen, .. })) if (known, seen) == (one, other))
        );
        assert_eq!(std::fs::read_to_string(peers.path()).unwrap(), format!("a.test:1 sha256:{one}\n"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
