//! The files that lines are written to.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile as _, Naming};

use super::compress;
use super::state::Memory;

/// Files open at the same time. Those that were used longest ago are closed.
pub(super) const OPEN_FILES_MAX: usize = 256;

/// Lines to write, by file.
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
    commits: u64,
}

impl<D: Disk> Files<D> {
    /// Takes the files as they were committed: what stands behind that was never acknowledged and is removed.
    pub(super) fn recover(disk: D, memory: &mut Memory) -> io::Result<Self> {
        let mut directories = BTreeSet::new();
        for (path, committed) in &mut memory.files {
            let length = disk.length(path)?;
            if length.is_some_and(|length| length > *committed) {
                disk.truncate(path, *committed)?;
                disk.append_to(path)?.sync()?;
            } else if length.is_some() {
                // A sync that failed may have shortened it in memory only.
                ignore_others(disk.append_to(path).and_then(|mut file| file.sync()))?;
            }
            // A file that is shorter or missing was changed on purpose by an operator.
            *committed = length.unwrap_or_default().min(*committed);
            directories.insert(directory_of(path).to_owned());
        }
        directories.iter().try_for_each(|directory| ignore_others(disk.sync_directory(directory)))?;
        Ok(Self { disk, open: BTreeMap::new(), commits: 0 })
    }

    /// Closes files that were moved, removed or changed by others, and forgets their lengths, so that they are unknown again.
    pub(super) fn forget_changed(&mut self, lines: &Lines, memory: &mut Memory) -> io::Result<()> {
        for path in lines.keys() {
            let is_as_left = match (self.open.get(path), memory.files.get(path)) {
                (Some(open), _) => open.file.naming(path)? == Naming::Kept(open.length),
                (None, Some(&length)) => self.disk.length(path)? == Some(length),
                (None, None) => true,
            };
            if !is_as_left {
                self.open.remove(path);
                memory.files.remove(path);
                sync_names(&self.disk, directory_of(path))?;
            }
        }
        Ok(())
    }

    /// Closes all files. They are opened again by their names.
    pub(super) fn close_all(&mut self) {
        self.open.clear();
    }

    /// Files that are unknown: their present lengths have to be committed before they are written to. `None` if there is no such file.
    pub(super) fn unknown(&self, lines: &Lines, memory: &Memory) -> io::Result<Vec<(PathBuf, Option<u64>)>> {
        let unknown = lines.keys().filter(|path| !memory.files.contains_key(*path));
        unknown.map(|path| Ok((path.clone(), self.disk.length(path)?))).collect()
    }

    /// Writes and syncs these lines. `new` are files that are not there yet. Returns the new lengths.
    pub(super) fn write(
        &mut self,
        lines: Lines,
        new: &BTreeSet<PathBuf>,
        memory: &Memory,
    ) -> io::Result<Vec<(PathBuf, u64)>> {
        self.commits += 1;
        let (mut lengths, mut directories) = (Vec::new(), BTreeSet::new());
        for (path, bytes) in lines {
            if !self.open.contains_key(&path) {
                self.make_room();
                if new.contains(&path) {
                    let directory = directory_of(&path);
                    self.disk.create_directory(directory)?;
                    directories.insert(directory.to_owned());
                }
                let length = memory.files.get(&path).copied().unwrap_or_default();
                self.open.insert(path.clone(), Open { file: self.disk.append_to(&path)?, length, used: 0 });
            }
            let open = self.open.get_mut(&path).expect("it was put there");
            open.file.append(&bytes)?;
            open.file.sync()?;
            open.length += bytes.len() as u64;
            open.used = self.commits;
            if open.file.naming(&path)? == Naming::Removed {
                let problem = format!("{} was removed while lines were written to it", path.display());
                return Err(io::Error::new(NotFound, problem));
            }
            lengths.push((path, open.length));
        }
        directories.iter().try_for_each(|directory| self.disk.sync_directory(directory))?;
        Ok(lengths)
    }

    /// Closes the files that were used longest ago, which are synced, until there is room for one more.
    fn make_room(&mut self) {
        while self.open.len() >= OPEN_FILES_MAX {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.used).map(|(path, _)| path.clone());
            oldest.map(|path| self.open.remove(&path));
        }
    }

    /// Whether a file is open. The others count in full, so that they need not be remembered.
    pub(super) fn is_open(&self, path: &Path) -> bool {
        self.open.contains_key(path)
    }

    /// Returns the name of a file with the next number after it.
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

/// Ignores errors of files and directories that others have removed or protected: they are not written to any more.
fn ignore_others(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if matches!(error.kind(), NotFound | PermissionDenied | ReadOnlyFilesystem) => Ok(()),
        result => result,
    }
}

/// Makes the names in a directory durable. Otherwise a moved file could get its name back after a crash, and would be truncated to the length of the
/// file that replaced it.
fn sync_names<D: Disk>(disk: &D, directory: &Path) -> io::Result<()> {
    disk.create_directory(directory)?;
    disk.sync_directory(directory)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| *directory != Path::new("")).unwrap_or(Path::new("."))
}
