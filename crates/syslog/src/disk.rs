//! The file operations of spool and store, so that tests can replace the disk by one that fails, tears writes and loses data.
//!
//! After a crash, bytes are safe if [`DiskFile::sync`] had returned without an error, and names if [`Disk::sync_directory`] had. After an error of
//! `sync` any of the bytes since the previous sync may be lost.

mod faulty;
mod real;

use std::io;
use std::path::Path;

pub use faulty::{Crash, Faults, FaultyDisk};
pub(crate) use real::NONBLOCK;
pub use real::RealDisk;

/// A place for files.
pub trait Disk: Clone + Send + 'static {
    /// An open file.
    type File: DiskFile;

    /// Opens a file for writing at its end, and makes it if there is none.
    ///
    /// # Errors
    /// The system's.
    fn append_to(&self, path: &Path) -> io::Result<Self::File>;

    /// Reads up to `bytes_max` bytes from `offset` on; fewer only at the end.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, path: &Path, offset: u64, bytes_max: usize) -> io::Result<Vec<u8>>;

    /// The length in bytes, or `None` if there is no such file.
    ///
    /// # Errors
    /// The system's.
    fn length(&self, path: &Path) -> io::Result<Option<u64>>;

    /// Whether there is a regular file with this name.
    ///
    /// # Errors
    /// The system's.
    fn is_file(&self, path: &Path) -> io::Result<bool>;

    /// Shortens a file to this length in bytes.
    ///
    /// # Errors
    /// The system's.
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()>;

    /// Gives a file another name, in place of any file that has it.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. A missing file is not an error.
    ///
    /// # Errors
    /// I/O errors of the system.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// The system's.
    fn names(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Makes a directory and those above it, and has their names survive a crash.
    ///
    /// # Errors
    /// The system's.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Has the names in a directory survive a crash.
    ///
    /// # Errors
    /// The system's.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// The relation between an open file and the name by which it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// The name leads to the file, which has this length in bytes.
    Kept(u64),
    /// The name leads to another file or to none. This one has another name.
    Moved,
    /// The file has no name: it cannot be opened again.
    Removed,
}

/// An open file that grows at its end.
pub trait DiskFile: Send + Sized + 'static {
    /// Another handle of the same file, to sync it in another thread.
    ///
    /// # Errors
    /// The system's.
    fn handle(&self) -> io::Result<Self>;

    /// Writes all bytes at the end. After an error any number of them may have been written.
    ///
    /// # Errors
    /// The system's.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the written data durable.
    ///
    /// # Errors
    /// I/O errors of the system.
    fn sync(&mut self) -> io::Result<()>;

    /// Looks whether the file still has the name by which it was opened.
    ///
    /// # Errors
    /// The system's.
    fn naming(&self, path: &Path) -> io::Result<Naming>;
}

/// Reads a whole file of at most `bytes_max` bytes; `None` if there is none.
///
/// # Errors
/// The system's, and [`io::ErrorKind::FileTooLarge`].
pub(crate) fn read_whole<D: Disk>(disk: &D, path: &Path, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
    let Some(length) = disk.length(path)? else { return Ok(None) };
    match usize::try_from(length) {
        Ok(length) if length <= bytes_max => disk.read_at(path, 0, length).map(Some),
        _ => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

/// Replaces a file atomically: after a crash, either the old or the new contents are there. `path` lies in `directory`.
///
/// # Errors
/// I/O errors of the system. Either contents may then be there after a crash.
pub(crate) fn replace<D: Disk>(disk: &D, directory: &Path, name: &str, contents: &[u8]) -> io::Result<()> {
    let (draft, path) = (directory.join(format!("{name}.new")), directory.join(name));
    disk.remove(&draft)?;
    let mut file = disk.append_to(&draft)?;
    file.append(contents)?;
    file.sync()?;
    disk.rename(&draft, &path)?;
    disk.sync_directory(directory)
}
