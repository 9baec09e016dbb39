//! Waiting until failed outputs can be written again. Opening files shows little: a full disk still has room for names. So the amount that could not be
//! written is written to the same directories, and removed, before relays may connect again.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::collector::Commit;
use crate::disk::{Disk, DiskFile as _};

/// The file in a directory that shows whether there is room. One left by a process that was killed is replaced.
const FILE: &str = ".festina-room";

/// Bytes of a commit without lines, and what the journal needs.
const BYTES_MIN: usize = 64 << 10;

/// Bytes that a commit needs in each directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Room(BTreeMap<PathBuf, usize>);

impl Room {
    /// The room for a commit of a collector with this directory of state.
    pub(super) fn for_commit(commit: &Commit, state: &Path) -> Self {
        let mut room = BTreeMap::from([(state.to_owned(), BYTES_MIN)]);
        for (path, bytes) in commit.line_bytes() {
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            match room.get_mut(directory) {
                Some(all) => *all += bytes,
                None => drop(room.insert(directory.to_owned(), bytes)),
            }
        }
        Self(room)
    }

    /// Writes that much to each directory, makes it durable and removes it.
    ///
    /// # Errors
    /// The disk's.
    pub(super) fn check<D: Disk>(&self, disk: &D) -> io::Result<()> {
        // All at once: directories may share a disk.
        let written = self.0.iter().try_for_each(|(directory, bytes)| {
            let path = directory.join(FILE);
            disk.create_directory(directory)?;
            disk.remove(&path)?;
            let mut file = disk.append_to(&path)?;
            file.append(&vec![0; *bytes])?;
            file.sync()
        });
        let removed = self.0.keys().map(|directory| disk.remove(&directory.join(FILE)));
        written.and(removed.collect())
    }
}
