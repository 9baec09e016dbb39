//! The system's own files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::{Disk, DiskFile, Naming};

/// A FIFO that has no other end must not be waited for.
pub(crate) const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

/// The system's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    type File = File;

    fn append_to(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().append(true).create(true).custom_flags(NONBLOCK).open(path)
    }

    fn read_at(&self, path: &Path, offset: u64, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::with_capacity(bytes_max);
        file.take(bytes_max as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn length(&self, path: &Path) -> io::Result<Option<u64>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_file(&self, path: &Path) -> io::Result<bool> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(metadata.is_file()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).custom_flags(NONBLOCK).open(path)?;
        // Another file may have the name by now: it must not get a hole.
        if file.metadata()?.len() > length { file.set_len(length) } else { Ok(()) }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory)? {
            // Names that are no text are not ours.
            names.extend(entry?.file_name().into_string().ok());
        }
        names.sort();
        Ok(names)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        let above = path.parent().unwrap_or(Path::new(""));
        self.create_directory(above)?;
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => Err(error),
            _ => self.sync_directory(if above.as_os_str().is_empty() { Path::new(".") } else { above }),
        }
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

impl DiskFile for File {
    fn handle(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn naming(&self, path: &Path) -> io::Result<Naming> {
        let own = self.metadata()?;
        if own.nlink() == 0 {
            return Ok(Naming::Removed);
        }
        match fs::metadata(path) {
            Ok(named) if (named.dev(), named.ino()) == (own.dev(), own.ino()) => Ok(Naming::Kept(own.len())),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(Naming::Moved),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Directory;

    #[test]
    fn truncating_a_file_that_is_shorter_by_now_adds_no_hole() {
        let directory = Directory::new();
        let path = directory.0.join("lines.log");
        for (length, left) in [(100, 5), (5, 5), (2, 2)] {
            fs::write(&path, "lines").expect("it can be written");
            RealDisk.truncate(&path, length).expect("it can be truncated");
            assert_eq!(RealDisk.length(&path).expect("it is there"), Some(left));
        }
    }
}
