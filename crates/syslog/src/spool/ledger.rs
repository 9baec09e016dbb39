//! Lists the files of a priority and their numbers of lines, to detect files that others have removed, emptied or truncated: their lines count as
//! found, and as lost when they cannot be read.
//!
//! An entry is appended after each sync of a file that has grown. It is not synced, so after a power failure the ledger may miss some lines. The
//! entry for a removed file is synced before the removal: otherwise a power failure could make delivered lines count as lost.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use bytes::{Buf as _, BufMut as _};

use crate::disk::{Disk, DiskFile, read_whole, replace};

/// Bytes of an entry, with its checksum.
const ENTRY_BYTES: usize = 44;

/// Size beyond which the file is rewritten.
const BYTES_MAX: usize = 256 << 10;

/// The longest file that is read.
const READ_BYTES_MAX: usize = 64 << 20;

/// Contents of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Holding {
    pub(super) first: u64,
    pub(super) last: u64,
    /// None means that the file was removed.
    pub(super) lines: u64,
    /// When the last line was taken.
    pub(super) newest_us: u64,
}

/// The files of one priority, by number.
pub(super) struct Ledger<D: Disk> {
    disk: D,
    directory: PathBuf,
    name: String,
    holdings: BTreeMap<u64, Holding>,
    /// `None` if the file has to be rewritten.
    file: Option<D::File>,
    length: usize,
    /// When the last line was taken.
    pub(super) newest_us: u64,
    /// Lines of files that are not as they were left.
    pub(super) damaged: u64,
    /// Files that are missing, and the last number in each, until that is settled.
    pub(super) missing: Vec<(u64, u64)>,
}

impl<D: Disk> Ledger<D> {
    /// Reads the ledger, as far as it makes sense.
    pub(super) fn open(disk: D, directory: &Path, priority: u8) -> Self {
        let name = format!("ledger-{priority}");
        let bytes = read_whole(&disk, &directory.join(&name), READ_BYTES_MAX).ok().flatten().unwrap_or_default();
        let mut holdings = BTreeMap::new();
        for (number, holding) in bytes.chunks_exact(ENTRY_BYTES).map_while(decode) {
            put(&mut holdings, number, holding);
        }
        Self {
            disk,
            directory: directory.to_owned(),
            name,
            holdings,
            file: None,
            length: 0,
            newest_us: 0,
            damaged: 0,
            missing: Vec::new(),
        }
    }

    pub(super) fn get(&self, number: u64) -> Option<&Holding> {
        self.holdings.get(&number)
    }

    pub(super) fn holdings(&self) -> impl Iterator<Item = (u64, Holding)> + '_ {
        self.holdings.iter().map(|(&number, &holding)| (number, holding))
    }

    /// A file holds this now. What cannot be written is written with the next entry.
    pub(super) fn note(&mut self, number: u64, holding: Holding) {
        let before = self.holdings.get(&number).copied().unwrap_or_default();
        if before == holding {
            return;
        }
        put(&mut self.holdings, number, holding);
        if self.length + ENTRY_BYTES > BYTES_MAX {
            self.file = None;
        }
        match &mut self.file {
            Some(file) => {
                self.length += ENTRY_BYTES;
                if file.append(&encode(number, holding)).is_err() {
                    // Nothing can be read behind an entry that was torn.
                    self.file = None;
                }
            }
            None => {
                let _ = self.rewrite();
            }
        }
    }

    /// Records that a file is about to be removed, durably. If that cannot be written, drops the ledger: then it knows too little, and counts no
    /// delivered line as lost. Returns whether the file may be removed now.
    pub(super) fn forget(&mut self, number: u64) -> bool {
        self.note(number, Holding::default());
        if self.file.as_mut().is_some_and(|file| file.sync().is_ok()) {
            return true;
        }
        self.file = None;
        let removed = self.disk.remove(&self.directory.join(&self.name));
        let is_gone = removed.is_ok() || self.disk.is_file(&self.directory.join(&self.name)).is_ok_and(|is| !is);
        is_gone && self.disk.sync_directory(&self.directory).is_ok()
    }

    /// These are all files there are.
    pub(super) fn replace(&mut self, holdings: BTreeMap<u64, Holding>) {
        self.holdings = holdings;
        // A full disk must not keep a relay from starting, and a priority without lines needs no file.
        let _ = match self.holdings.is_empty() {
            true => self.disk.remove(&self.directory.join(&self.name)),
            false => self.rewrite(),
        };
    }

    fn rewrite(&mut self) -> io::Result<()> {
        self.file = None;
        let bytes: Vec<u8> = self.holdings.iter().flat_map(|(&number, &holding)| encode(number, holding)).collect();
        replace(&self.disk, &self.directory, &self.name, &bytes)?;
        self.file = Some(self.disk.append_to(&self.directory.join(&self.name))?);
        self.length = bytes.len();
        Ok(())
    }
}

fn put(holdings: &mut BTreeMap<u64, Holding>, number: u64, holding: Holding) {
    match holding.lines {
        0 => holdings.remove(&number),
        _ => holdings.insert(number, holding),
    };
}

fn encode(number: u64, holding: Holding) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ENTRY_BYTES);
    let Holding { first, last, lines, newest_us } = holding;
    [number, first, last, lines, newest_us].into_iter().for_each(|value| bytes.put_u64(value));
    bytes.put_u32(super::checksum(&bytes));
    bytes
}

fn decode(bytes: &[u8]) -> Option<(u64, Holding)> {
    let (mut body, mut sum) = bytes.split_at_checked(ENTRY_BYTES - 4)?;
    if super::checksum(body) != sum.get_u32() {
        return None;
    }
    let mut value = || body.try_get_u64().ok();
    let number = value()?;
    let holding = Holding { first: value()?, last: value()?, lines: value()?, newest_us: value()? };
    (holding.first <= holding.last && holding.last < u64::MAX).then_some((number, holding))
}
