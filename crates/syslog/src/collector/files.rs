//! The files that lines are written to.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::io::ErrorKind::{
    AlreadyExists, InvalidFilename, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem,
};
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile as _, Naming};

use super::state::Memory;
use super::{OPEN_FILES_MAX, compress};

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
        for (path, committed) in std::mem::take(&mut memory.files) {
            directories.insert(directory_of(&path).to_owned());
            // The name may lead to something else by now, which is unknown.
            let Some(length) = regular_length(&disk, &path)? else { continue };
            if length > committed {
                disk.truncate(&path, committed)?;
                disk.append_to(&path)?.sync()?;
            } else if unless_path_fails(disk.append_to(&path).and_then(|mut file| file.sync()))?.is_none() {
                continue;
            }
            // A file that is shorter was changed on purpose by an operator. A sync that failed may have shortened it in memory only.
            memory.files.insert(path, length.min(committed));
        }
        directories.iter().try_for_each(|directory| unless_path_fails(disk.sync_directory(directory)).map(drop))?;
        Ok(Self { disk, open: BTreeMap::new(), commits: 0 })
    }

    /// Closes files that were moved, removed or changed by others, and forgets their lengths, so that they are unknown again.
    pub(super) fn forget_changed(&mut self, lines: &Lines, memory: &mut Memory) -> io::Result<()> {
        for path in lines.keys() {
            let is_as_left = match (self.open.get(path), memory.files.get(path)) {
                (Some(open), _) => open.file.naming(path)? == Naming::Kept(open.length),
                (None, Some(&length)) => regular_length(&self.disk, path)? == Some(length),
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
        unknown.map(|path| Ok((path.clone(), regular_length(&self.disk, path)?))).collect()
    }

    /// Whether lines can be appended to a file: the name leads to a regular file, or one can be created, and is.
    pub(super) fn is_writable(&self, path: &Path) -> io::Result<bool> {
        let opened = self.disk.create_directory(directory_of(path)).and_then(|()| {
            let is_other = self.disk.length(path)?.is_some() && !self.disk.is_file(path)?;
            if is_other { Err(IsADirectory.into()) } else { self.disk.append_to(path) }
        });
        Ok(unless_path_fails(opened)?.is_some())
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
            let written = open.file.append(&bytes).and_then(|()| open.file.sync());
            written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
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
        let used: BTreeSet<u32> = others.iter().filter_map(|other| compress::number_of(name, other)).collect();
        // After the highest number the lowest free one follows: no file is replaced.
        let next = used.last().map_or(Some(1), |last| last.checked_add(1));
        let number = next.or_else(|| (1..=u32::MAX).find(|number| !used.contains(number)));
        let number = number.ok_or_else(|| io::Error::new(AlreadyExists, "all numbers of rotated files are in use"))?;
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

/// Returns `None` if this path alone cannot be used: it is missing, protected, too long, or something other than a regular file.
fn unless_path_fails<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result.map_err(|error| (error.kind(), error)) {
        Ok(value) => Ok(Some(value)),
        Err((
            AlreadyExists | InvalidFilename | IsADirectory | NotADirectory | NotFound | PermissionDenied
            | ReadOnlyFilesystem,
            _,
        )) => Ok(None),
        Err((_, error)) => Err(error),
    }
}

/// The length of a regular file; `None` if there is none that can be found.
pub(super) fn regular_length<D: Disk>(disk: &D, path: &Path) -> io::Result<Option<u64>> {
    match unless_path_fails(disk.is_file(path))? {
        Some(true) => Ok(unless_path_fails(disk.length(path))?.flatten()),
        _ => Ok(None),
    }
}

/// Makes the names in a directory durable. Otherwise a moved file could get its name back after a crash, and would be truncated to the length of the
/// file that replaced it.
fn sync_names<D: Disk>(disk: &D, directory: &Path) -> io::Result<()> {
    // If another file has taken the name of the directory, the files in it are gone.
    unless_path_fails(disk.create_directory(directory).and_then(|()| disk.sync_directory(directory))).map(drop)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| *directory != Path::new("")).unwrap_or(Path::new("."))
}
