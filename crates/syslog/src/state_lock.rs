//! One process at a time changes a directory of state: a second relay or collector with the same one ends before it changes anything.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use festina_units::Duration;
use tokio::time::Instant;

use crate::disk::{Disk as _, NONBLOCK, RealDisk};

/// The file in the directory that is locked. The lock ends with the process that has it.
const FILE: &str = "lock";

/// A relay or collector that ends may still have the lock for this long.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Interval between attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// The right to change a directory of state, until it is dropped.
#[derive(Debug)]
pub(crate) struct StateLock {
    _file: File,
}

impl StateLock {
    /// Takes the lock, and creates the directory if it is missing.
    ///
    /// # Errors
    /// Another process has the lock, or the system's.
    pub(crate) async fn take(directory: &Path) -> io::Result<Self> {
        let end = Instant::now() + WAIT_MAX;
        loop {
            match Self::try_take(directory) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < end => {
                    tokio::time::sleep(PAUSE).await;
                }
                taken => return taken,
            }
        }
    }

    /// Takes the lock without waiting.
    ///
    /// # Errors
    /// As of [`take`](Self::take); [`io::ErrorKind::WouldBlock`] if another process has the lock.
    pub(crate) fn try_take(directory: &Path) -> io::Result<Self> {
        RealDisk.create_directory(directory)?;
        let file = open(directory, true)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => {
                let problem = "a running relay or collector uses it; stop that one, or give this one another state";
                Err(io::Error::new(io::ErrorKind::WouldBlock, problem))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Returns whether a process has the lock. Changes nothing.
    pub(crate) fn is_taken(directory: &Path) -> bool {
        open(directory, false).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }
}

fn open(directory: &Path, create: bool) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = OpenOptions::new();
    // Another user must not be able to take the lock.
    options.read(true).write(true).create(create).mode(0o600).custom_flags(NONBLOCK);
    options.open(directory.join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Directory;

    #[tokio::test]
    async fn one_at_a_time_has_a_state() {
        let directory = Directory::new();
        let state = directory.0.join("state");
        assert!(!StateLock::is_taken(&state) && !state.exists());
        let lock = StateLock::take(&state).await.expect("it is free");
        assert!(StateLock::is_taken(&state));
        let error = StateLock::try_take(&state).expect_err("it is taken").to_string();
        assert!(error.contains("a running relay or collector uses it"), "{error}");
        drop(lock);
        assert!(!StateLock::is_taken(&state));
        StateLock::take(&state).await.expect("it is free again");
    }
}
