//! The files that lines are written to.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile as _};

use super::compress;
use super::state::Memory;

/// Files open at the same time. Those that were used longest ago are closed.
const OPEN_FILES_MAX: usize = 256;

/// What is to be written, by file.
pub(super) type Lines = BTreeMap<PathBuf, Vec<u8>>;

struct Open<D: Disk> {
    file: D::File,
    length: u64,
    /// The commit that used it last.
    used: u64,
}

/// Open files.
pub(super) struct Files<D: Disk> {
    disk: D,
    open: BTreeMap<PathBuf, Open<D>>,
    /// Closed with all that they have committed.
    closed: Vec<PathBuf>,
    commits: u64,
}

impl<D: Disk> Files<D> {
    /// Takes the files as they were committed: what stands behind that was never acknowledged and is removed.
    pub(super) fn recover(disk: D, memory: &mut Memory) -> io::Result<Self> {
        for (path, committed) in &mut memory.files {
            let length = disk.length(path)?.unwrap_or_default();
            if length > *committed {
                disk.truncate(path, *committed)?;
                disk.append_to(path)?.sync()?;
            }
            // Whoever shortened or removed a file meant it.
            *committed = length.min(*committed);
        }
        Ok(Self { disk, open: BTreeMap::new(), closed: Vec::new(), commits: 0 })
    }

    /// Files that will be written to for the first time, with their present lengths: these have to be committed before.
    pub(super) fn unknown(&self, lines: &Lines, memory: &Memory) -> io::Result<Vec<(PathBuf, u64)>> {
        let unknown = lines.keys().filter(|path| !memory.files.contains_key(*path));
        unknown.map(|path| Ok((path.clone(), self.disk.length(path)?.unwrap_or_default()))).collect()
    }

    /// Writes and syncs these lines. Returns the new lengths.
    pub(super) fn write(&mut self, lines: Lines, memory: &Memory) -> io::Result<Vec<(PathBuf, u64)>> {
        self.commits += 1;
        let mut lengths = Vec::new();
        for (path, bytes) in lines {
            if !self.open.contains_key(&path) {
                let length = memory.files.get(&path).copied().unwrap_or_default();
                let file = self.create(&path)?;
                self.open.insert(path.clone(), Open { file, length, used: 0 });
            }
            let open = self.open.get_mut(&path).expect("it was put there");
            open.file.append(&bytes)?;
            open.file.sync()?;
            open.length += bytes.len() as u64;
            open.used = self.commits;
            lengths.push((path, open.length));
        }
        while self.open.len() > OPEN_FILES_MAX {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.used).map(|(path, _)| path.clone());
            if let Some(path) = oldest {
                self.open.remove(&path);
                self.closed.push(path);
            }
        }
        Ok(lengths)
    }

    fn create(&self, path: &Path) -> io::Result<D::File> {
        if self.disk.length(path)?.is_some() {
            return self.disk.append_to(path);
        }
        let directory = directory_of(path);
        self.disk.create_directory(directory)?;
        let file = self.disk.append_to(path)?;
        self.disk.sync_directory(directory)?;
        Ok(file)
    }

    /// Files that were closed since the last call. They count in full, so that they need not be remembered.
    pub(super) fn take_closed(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.closed).into_iter().filter(|path| !self.open.contains_key(path)).collect()
    }

    /// What a file will be called once it has a number behind its name.
    pub(super) fn numbered(&self, path: &Path) -> io::Result<PathBuf> {
        let directory = directory_of(path);
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("lines");
        let others = self.disk.names(directory)?;
        let number = others.iter().filter_map(|other| compress::number_of(name, other)).max();
        let number = number.unwrap_or_default().saturating_add(1);
        Ok(directory.join(format!("{name}.{number:06}")))
    }

    /// Gives a file that was committed its numbered name. The next one of its old name is unknown, and its length is
    /// committed before it is written.
    pub(super) fn rotate(&mut self, path: &Path, numbered: &Path) -> io::Result<()> {
        self.open.remove(path);
        self.disk.rename(path, numbered)?;
        self.disk.sync_directory(directory_of(path))
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| *directory != Path::new("")).unwrap_or(Path::new("."))
}
