//! Small files that several processes share: reading, replacing and locking them takes limited time and memory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;

use festina_units::Duration;

use super::failure::StoredError;
use crate::clock;

/// Longest file that is read.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;

/// Longest wait for a lock, which others keep for as long as it takes to read and write a short file.
const LOCK_TIME_MAX: Duration = Duration::from_secs(1);

/// Interval between attempts to get a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Has the name of a new file survive a power cut.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// A name for a file that becomes the file `path` once it is whole.
pub(super) fn draft_of(path: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    draft.into()
}

/// Writes a file that only its owner can read.
pub(super) fn write_private(path: &Path, text: &str) -> io::Result<()> {
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
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Returns whether every user of the system can read or write the file.
pub(super) fn is_exposed(path: &Path) -> bool {
    #[cfg(unix)]
    let is_exposed = |metadata: std::fs::Metadata| std::os::unix::fs::MetadataExt::mode(&metadata) & 0o006 != 0;
    #[cfg(not(unix))]
    let is_exposed = |_| false;
    std::fs::metadata(path).is_ok_and(is_exposed)
}

/// Locks the file for this process alone.
///
/// # Errors
/// Another process keeps the lock for [`LOCK_TIME_MAX`].
pub(super) fn lock(file: &File) -> io::Result<()> {
    let end = clock::now() + LOCK_TIME_MAX;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if clock::now() < end => sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(ErrorKind::TimedOut, "another process keeps its lock"));
            }
        }
    }
}

/// The contents of a file that this program keeps; `None` if there is none. Opening a FIFO would wait for its other end.
pub(super) fn read_state(path: &Path) -> Result<Option<Vec<u8>>, StoredError> {
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(StoredError::Read { path: path.to_owned(), source: io::Error::other("it is no regular file") });
    }
    read(path)
}

/// The contents of a file; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, StoredError> {
    match read_present(path) {
        Err(StoredError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        contents => contents.map(Some),
    }
}

/// The contents of a file that has to be there.
pub(super) fn read_present(path: &Path) -> Result<Vec<u8>, StoredError> {
    let failed = |source| StoredError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(failed(io::Error::other("it is longer than 1 MiB")));
    }
    Ok(bytes)
}
