//! The file system as a follower uses it. A test replaces it, and changes it between any two calls.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirEntryExt as _, FileExt, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use festina_units::duration;

use crate::disk::NONBLOCK;
use crate::positions::{FileId, TAIL_BYTES};

/// Maximum number of links on the way to a file.
const LINKS_MAX: usize = 8;

/// Properties of a file at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::relay) struct Stat {
    /// Identifies the file under any name. If the file system records no birth time, a reused inode number looks like the same file.
    pub(super) id: FileId,
    pub(super) length: u64,
    pub(super) modified_ns: u64,
    /// Number of its names.
    pub(super) links: u64,
    pub(super) is_file: bool,
    pub(super) is_link: bool,
}

/// Files to read.
pub(in crate::relay) trait Tree {
    type File: TreeFile;

    /// Opens a file for reading, without waiting for the other end of a FIFO.
    fn open(&self, path: &Path) -> io::Result<Self::File>;

    /// Returns the properties of a file; those of its target if it is a link.
    fn stat(&self, path: &Path) -> io::Result<Stat>;

    /// Returns the properties of a file or of a link.
    fn stat_name(&self, path: &Path) -> io::Result<Stat>;

    /// Returns at most `names_max` names in a folder, with inode numbers.
    fn names(&self, folder: &Path, names_max: usize) -> io::Result<Vec<(OsString, u64)>>;

    /// Returns the path of a file without links in it, whether there is one or not.
    fn target(&self, path: &Path) -> io::Result<PathBuf>;
}

/// An open file.
pub(in crate::relay) trait TreeFile {
    /// Returns the properties of the file.
    fn stat(&self) -> io::Result<Stat>;

    /// Reads bytes from `offset` on. Returns their number, 0 at the end.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// The system's files.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::relay) struct RealTree;

impl Tree for RealTree {
    type File = File;

    fn open(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path)
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        path.metadata().map(|metadata| stat_of(&metadata))
    }

    fn stat_name(&self, path: &Path) -> io::Result<Stat> {
        path.symlink_metadata().map(|metadata| stat_of(&metadata))
    }

    fn names(&self, folder: &Path, names_max: usize) -> io::Result<Vec<(OsString, u64)>> {
        let entries = folder.read_dir()?.take(names_max).flatten();
        Ok(entries.map(|entry| (entry.file_name(), entry.ino())).collect())
    }

    fn target(&self, path: &Path) -> io::Result<PathBuf> {
        let mut target = path.to_owned();
        for _ in 0..LINKS_MAX {
            let Ok(next) = fs::read_link(&target) else { break };
            target = folder_of(&target).join(next);
        }
        let name = target.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        Ok(fs::canonicalize(folder_of(&target))?.join(name))
    }
}

impl TreeFile for File {
    fn stat(&self) -> io::Result<Stat> {
        self.metadata().map(|metadata| stat_of(&metadata))
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, offset)
    }
}

fn stat_of(metadata: &Metadata) -> Stat {
    let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let born_ns = born.map(duration::saturating_nanos).unwrap_or_default();
    let [seconds, nanos] =
        [metadata.mtime(), metadata.mtime_nsec()].map(|value| u64::try_from(value).unwrap_or_default());
    Stat {
        id: FileId { device: metadata.dev(), inode: metadata.ino(), born_ns },
        length: metadata.len(),
        modified_ns: seconds.saturating_mul(1_000_000_000).saturating_add(nanos),
        links: metadata.nlink(),
        is_file: metadata.is_file(),
        is_link: metadata.is_symlink(),
    }
}

/// The folder of a file.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// Opens a regular file. Returns `None` if there is none of this name.
pub(super) fn open_file<T: Tree>(tree: &T, path: &Path) -> io::Result<Option<(T::File, Stat)>> {
    match tree.open(path).and_then(|file| file.stat().map(|stat| (file, stat))) {
        Ok((file, stat)) if stat.is_file => Ok(Some((file, stat))),
        Ok(_) => Err(io::Error::other("not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads at most `length` bytes before an offset. Returns `None` if the file ends earlier.
pub(super) fn bytes_before<F: TreeFile>(file: &F, offset: u64, length: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; usize::try_from(offset).map_or(length, |offset| offset.min(length))];
    let (start, mut read) = (offset - bytes.len() as u64, 0);
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], start + read as u64) {
            Ok(0) => return Ok(None),
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(bytes))
}

/// Whether a file has the same bytes as another before an offset.
pub(super) fn share_bytes<F: TreeFile>(one: &F, other: &F, offset: u64) -> io::Result<bool> {
    let bytes = bytes_before(one, offset, TAIL_BYTES)?;
    Ok(offset > 0 && bytes.is_some() && bytes == bytes_before(other, offset, TAIL_BYTES)?)
}

/// Whether a file is a copy of another, which may have grown since. An empty file is no copy.
pub(super) fn is_copy<F: TreeFile>(copy: &F, stat: &Stat, of: &F) -> bool {
    of.stat().is_ok_and(|original| stat.length <= original.length)
        && share_bytes(copy, of, stat.length).unwrap_or_default()
}
