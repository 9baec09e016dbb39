//! Positions in followed files that survive a restart: a line of a file is in the spool or is read again, never neither and never both.
//!
//! An entry is written after the lines before its position are in the files of the spool, and before any of them is sent. It also holds the
//! number that each priority's next line gets then. So after `kill -9` the spool may hold lines behind the position, but they have greater numbers
//! and the same source: they are found, and not taken again when they are read again.
//!
//! A power cut may keep an entry and lose the lines before it. So only entries that were written after the spool was synced count when the machine
//! was started since. Lines that were sent after that entry are read and sent again: these may be twice.

use std::io;
use std::path::{Path, PathBuf};

use bytes::{Buf as _, BufMut as _};

use crate::disk::{Disk, DiskFile, read_whole, replace};
use crate::policy::PRIORITIES;
use crate::spool::checksum;

/// The name of the file in the folder of the spool.
const NAME: &str = "positions";

/// Size beyond which the file is rewritten with the latest entries.
const BYTES_MAX: usize = 1 << 20;

/// The longest file that is read.
const READ_BYTES_MAX: usize = 4 << 20;

/// Maximum number of lines after which the entry of a file that does not grow is rewritten; bounds the search at a start.
const NUMBERS_MAX: u64 = 65_536;

/// Maximum number of bytes that a [`Tail`] covers.
pub(crate) const TAIL_BYTES: usize = 256;

/// The version of the entries.
const VERSION: u8 = 2;

/// The version whose entries have the first bytes of each file, which are ignored, in place of the [`Tail`].
const VERSION_WITHOUT_TAILS: u8 = 1;

/// For each priority, the number of its next line.
pub(crate) type Numbers = [u64; PRIORITIES as usize];

/// A file, identified without its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId {
    /// When it was made, in nanoseconds since 1970; 0 if the file system does not say. Inodes are used again, times are not.
    pub(crate) born_ns: u64,
    /// Device.
    pub(crate) device: u64,
    /// Inode.
    pub(crate) inode: u64,
}

/// The read position in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedFile {
    /// Which file.
    pub(crate) id: FileId,
    /// Number of bytes whose lines were taken.
    pub(crate) offset: u64,
    /// The rest of the line at the offset is no line: the line was too long, and its beginning was taken.
    pub(crate) in_cut_line: bool,
    /// It had the name no more.
    pub(crate) is_rotated: bool,
    /// It was read to its end and closed.
    pub(crate) is_finished: bool,
    /// When it was changed last, as its file system says.
    pub(crate) modified_ns: u64,
    /// The bytes before the offset.
    pub(crate) tail: Tail,
}

impl SavedFile {
    /// Returns the position without its file, which cannot be opened any more: its copies are known by the bytes before it.
    pub(crate) fn lost(self) -> Self {
        Self { id: FileId::default(), is_rotated: true, is_finished: true, ..self }
    }
}

/// Checksum of the last bytes before an offset, to detect that a file was rewritten, and to recognise its copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    /// 0 if the bytes are unknown.
    length: u32,
    sum: u32,
}

impl Tail {
    /// The tail of a file that has these bytes before an offset.
    pub(crate) fn of(before: &[u8]) -> Self {
        let bytes = &before[before.len().saturating_sub(TAIL_BYTES)..];
        Self { length: u32::try_from(bytes.len()).unwrap_or_default(), sum: checksum(bytes) }
    }

    /// Whether the bytes are unknown, or there are none.
    pub(crate) fn is_empty(self) -> bool {
        self.length == 0
    }

    /// Whether it has as many bytes as a tail can have: no other text has it by accident.
    pub(crate) fn is_full(self) -> bool {
        usize::try_from(self.length).is_ok_and(|length| length == TAIL_BYTES)
    }
}

/// The read position of a file input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Files of the input, the oldest first.
    pub(crate) files: Vec<SavedFile>,
    /// Other files in the directory, which are not read.
    pub(crate) known: Vec<FileId>,
}

/// A position, and the numbers that lines before it are below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The position.
    pub(crate) position: Position,
    /// The numbers.
    pub(crate) numbers: Numbers,
}

/// One input.
struct Input {
    key: u64,
    /// The entry on disk.
    written: Option<Entry>,
    safe: Option<Entry>,
}

/// The file with the positions of all inputs.
pub(crate) struct Positions<D: Disk> {
    disk: D,
    directory: PathBuf,
    /// Which run of the machine this is; 0 if it is not known.
    boot: u64,
    inputs: Vec<Input>,
    /// `None` if it has to be rewritten.
    file: Option<D::File>,
    length: usize,
    unsynced: bool,
}

impl<D: Disk> Positions<D> {
    /// Reads the positions of inputs with these names. `boot` stands for the time since the machine was started.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn open(disk: &D, directory: &Path, names: &[String], boot: u64) -> io::Result<Self> {
        let bytes = read_whole(disk, &directory.join(NAME), READ_BYTES_MAX)?.unwrap_or_default();
        let mut inputs: Vec<Input> =
            names.iter().map(|name| Input { key: key_of(name), written: None, safe: None }).collect();
        for (key, of_boot, is_safe, entry) in Entries(&bytes) {
            let counts = is_safe || (of_boot == boot && boot != 0);
            if let Some(input) = inputs.iter_mut().find(|input| input.key == key && counts) {
                if is_safe {
                    input.safe = Some(entry.clone());
                }
                input.written = Some(entry);
            }
        }
        let (disk, directory) = (disk.clone(), directory.to_owned());
        Ok(Self { disk, directory, boot, inputs, file: None, length: 0, unsynced: false })
    }

    /// Returns the position of an input; `None` if it was never read.
    pub(crate) fn get(&self, input: usize) -> Option<&Entry> {
        self.inputs[input].written.as_ref()
    }

    /// The lines before a position are in files of the spool, and below these numbers.
    ///
    /// # Errors
    /// The disk's. Then the position before counts.
    pub(crate) fn record(&mut self, input: usize, position: Position, numbers: Numbers) -> io::Result<()> {
        let entry = Entry { position, numbers };
        self.append(&[(input, false, &entry)])?;
        self.inputs[input].written = Some(entry);
        Ok(())
    }

    /// Writes down that lines up to these entries survive a power cut.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn record_safe(&mut self, synced: Vec<(usize, Entry)>) -> io::Result<()> {
        let entries: Vec<_> = synced.iter().map(|(input, entry)| (*input, true, entry)).collect();
        self.append(&entries)?;
        for (input, entry) in synced {
            self.inputs[input].safe = Some(entry);
        }
        Ok(())
    }

    /// Entries that are not yet known to survive a power cut.
    pub(crate) fn unsafe_entries(&self) -> Vec<(usize, Entry)> {
        let inputs = self.inputs.iter().enumerate().filter(|(_, input)| input.written != input.safe);
        inputs.filter_map(|(index, input)| input.written.clone().map(|entry| (index, entry))).collect()
    }

    /// Returns an input whose entry names outdated numbers: [`record`](Self::record) it again.
    pub(crate) fn outdated(&self, numbers: &Numbers) -> Option<(usize, Position)> {
        let is_far = |entry: &Entry| entry.numbers.iter().zip(numbers).any(|(old, new)| new - old > NUMBERS_MAX);
        let mut inputs = self.inputs.iter().enumerate();
        inputs.find_map(|(index, input)| {
            let entry = input.written.as_ref().filter(|entry| is_far(entry))?;
            Some((index, entry.position.clone()))
        })
    }

    /// A handle to sync the written entries, in any thread; `None` if all is synced. Pass the result to [`end_sync`](Self::end_sync).
    pub(crate) fn begin_sync(&mut self) -> Option<D::File> {
        if !self.unsynced {
            return None;
        }
        let Some(file) = &self.file else {
            // If that fails, the next sync tries again.
            self.unsynced = self.rewrite(&[]).is_err();
            return None;
        };
        let handle = file.handle().ok();
        self.unsynced = handle.is_none();
        handle
    }

    /// Whether entries wait for a sync that has not begun.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.unsynced
    }

    /// Syncs the written entries now. If that fails twice, the entries of the last sync count after a power cut.
    pub(crate) fn sync(&mut self) {
        if let Some(mut file) = self.begin_sync() {
            self.end_sync(&file.sync());
            self.begin_sync();
        }
    }

    /// Completes a sync. After a failure the system may have dropped any entry since the last one, and entries behind a gap cannot be read: all are
    /// written again.
    pub(crate) fn end_sync(&mut self, synced: &io::Result<()>) {
        if synced.is_err() {
            self.file = None;
            self.unsynced = true;
        }
    }

    fn append(&mut self, entries: &[(usize, bool, &Entry)]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for &(input, is_safe, entry) in entries {
            put(&mut bytes, self.inputs[input].key, self.boot, is_safe, entry);
        }
        if self.file.is_none() || self.length + bytes.len() > BYTES_MAX {
            return self.rewrite(&bytes);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        if let Err(error) = file.append(&bytes) {
            // Nothing can be read behind an entry that was torn.
            self.file = None;
            return Err(error);
        }
        self.length += bytes.len();
        self.unsynced = true;
        Ok(())
    }

    /// Writes the latest entries, and these behind them, into a new file in place of the old one.
    fn rewrite(&mut self, more: &[u8]) -> io::Result<()> {
        self.file = None;
        let mut bytes = Vec::new();
        for input in &self.inputs {
            input.safe.iter().for_each(|entry| put(&mut bytes, input.key, self.boot, true, entry));
            let newer = input.written.iter().filter(|_| input.written != input.safe);
            newer.for_each(|entry| put(&mut bytes, input.key, self.boot, false, entry));
        }
        bytes.extend_from_slice(more);
        replace(&self.disk, &self.directory, NAME, &bytes)?;
        self.file = Some(self.disk.append_to(&self.directory.join(NAME))?);
        self.length = bytes.len();
        Ok(())
    }
}

/// Which run of the machine this is, as the kernel says; 0 if it does not.
pub(crate) fn this_boot() -> u64 {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or(0, |text| key_of(text.trim()))
}

fn key_of(name: &str) -> u64 {
    let reversed: Vec<u8> = name.bytes().rev().collect();
    u64::from(checksum(name.as_bytes())) << 32 | u64::from(checksum(&reversed))
}

fn put(bytes: &mut Vec<u8>, key: u64, boot: u64, is_safe: bool, entry: &Entry) {
    let start = bytes.len();
    bytes.put_u32(0);
    bytes.put_u8(VERSION);
    bytes.put_u64(key);
    bytes.put_u64(boot);
    bytes.put_u8(u8::from(is_safe));
    entry.numbers.iter().for_each(|number| bytes.put_u64(*number));
    bytes.put_u16(u16::try_from(entry.position.files.len()).unwrap_or(u16::MAX));
    for file in &entry.position.files {
        put_id(bytes, file.id);
        bytes.put_u64(file.offset);
        bytes.put_u8(marks_of(file));
        bytes.put_u64(file.modified_ns);
        bytes.put_u32(file.tail.length);
        bytes.put_u32(file.tail.sum);
    }
    entry.position.known.iter().for_each(|id| put_id(bytes, *id));
    let length = u32::try_from(bytes.len() - start - 4).unwrap_or(u32::MAX);
    bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    let sum = checksum(&bytes[start..]);
    bytes.put_u32(sum);
}

fn marks_of(file: &SavedFile) -> u8 {
    u8::from(file.in_cut_line) | u8::from(file.is_rotated) << 1 | u8::from(file.is_finished) << 2
}

fn put_id(bytes: &mut Vec<u8>, id: FileId) {
    bytes.put_u64(id.device);
    bytes.put_u64(id.inode);
    bytes.put_u64(id.born_ns);
}

/// Reads entries until one is torn or damaged.
struct Entries<'a>(&'a [u8]);

impl Iterator for Entries<'_> {
    type Item = (u64, u64, bool, Entry);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::try_from(self.0.get(..4)?.get_u32()).ok()?;
        let (whole, rest) = self.0.split_at_checked(length.checked_add(4)?)?;
        let (mut sum, rest) = rest.split_at_checked(4)?;
        if checksum(whole) != sum.get_u32() {
            return None;
        }
        self.0 = rest;
        take(&whole[4..])
    }
}

fn take(mut bytes: &[u8]) -> Option<(u64, u64, bool, Entry)> {
    let version = bytes.try_get_u8().ok().filter(|version| [VERSION_WITHOUT_TAILS, VERSION].contains(version))?;
    let (key, boot, is_safe) = (bytes.try_get_u64().ok()?, bytes.try_get_u64().ok()?, bytes.try_get_u8().ok()? != 0);
    let mut entry = Entry::default();
    for number in &mut entry.numbers {
        *number = bytes.try_get_u64().ok()?;
    }
    for _ in 0..bytes.try_get_u16().ok()? {
        let (id, offset, marks) = (take_id(&mut bytes)?, bytes.try_get_u64().ok()?, bytes.try_get_u8().ok()?);
        let modified_ns = bytes.try_get_u64().ok()?;
        let tail = Tail { length: bytes.try_get_u32().ok()?, sum: bytes.try_get_u32().ok()? };
        let tail = if version == VERSION { tail } else { Tail::default() };
        let [in_cut_line, is_rotated, is_finished] = [1, 2, 4].map(|mark| marks & mark != 0);
        entry.position.files.push(SavedFile { id, offset, in_cut_line, is_rotated, is_finished, modified_ns, tail });
    }
    while !bytes.is_empty() {
        entry.position.known.push(take_id(&mut bytes)?);
    }
    Some((key, boot, is_safe, entry))
}

fn take_id(bytes: &mut &[u8]) -> Option<FileId> {
    Some(FileId {
        device: bytes.try_get_u64().ok()?,
        inode: bytes.try_get_u64().ok()?,
        born_ns: bytes.try_get_u64().ok()?,
    })
}

#[cfg(test)]
mod tests;
