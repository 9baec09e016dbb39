//! The collector's state on disk: the lines that it has, and the length of each file with them.
//!
//! The file `state` contains a snapshot, and a journal the changes since. Lines count once their journal entry is written: their files are synced
//! before it, and acknowledgements are sent after it is synced.
//!
//! With a broker, the entry only prepares the commit. The commit counts when a second entry confirms that the broker has the lines, or when the
//! broker itself confirms it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use bytes::{Buf as _, BufMut as _};

use super::OPEN_FILES_MAX;
use super::senders::{RANGES_IN_ALL_MAX, SENDERS_MAX, Senders};
use crate::disk::{Disk, DiskFile as _, read_whole, replace};
use crate::policy::PRIORITIES;
use crate::wire::{SenderId, Start};

/// A journal that is larger is replaced by a new state.
const JOURNAL_BYTES_MAX: u64 = 4 << 20;

/// The largest state that is read, and written.
const STATE_BYTES_MAX: usize = 256 << 20;

/// Files that wait to be compressed. Others stay as they are.
pub(super) const ROTATED_MAX: usize = 16_384;

/// Bytes in an entry of a span, of a start, and of a file with the longest possible name.
const SPAN_BYTES: usize = 41;
const START_BYTES: usize = 28;
const FILE_BYTES: usize = 12 + 4_096;

/// Everything that may be remembered after a checkpoint fits into a state that is read.
const _: () = {
    let spans = RANGES_IN_ALL_MAX + SENDERS_MAX * PRIORITIES as usize;
    let files = ROTATED_MAX + OPEN_FILES_MAX;
    assert!(spans * SPAN_BYTES + SENDERS_MAX * START_BYTES + files * FILE_BYTES + 1_024 < STATE_BYTES_MAX);
};

/// The collector's state on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) senders: Senders,
    /// Committed lengths of files. Files not listed count in full.
    pub(super) files: BTreeMap<PathBuf, u64>,
    /// The collector's name for a broker, once it needs one.
    pub(super) name: Option<Name>,
    /// Number of the last commit handed to a broker, regardless of its outcome.
    pub(super) number: u64,
    /// Files that have their number behind their name and are to be compressed.
    pub(super) rotated: BTreeSet<PathBuf>,
}

/// Drawn at random for a collector.
pub(super) type Name = [u8; 16];

/// A sender, a priority, a floor, and a first and a last number; if the first is above the last it is a floor alone.
pub(super) type EntrySpan = (SenderId, u8, u64, u64, u64);

/// One atomic change of the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) spans: Vec<EntrySpan>,
    /// The latest starts of relays.
    pub(super) starts: Vec<(SenderId, Start)>,
    pub(super) files: Vec<(PathBuf, u64)>,
    pub(super) step: Step,
    pub(super) name: Option<Name>,
    /// Files that are to be compressed from now on, or no longer.
    pub(super) rotated: Vec<(PathBuf, bool)>,
}

/// The steps of a commit in which a broker takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    /// No broker has a part in it.
    #[default]
    Alone,
    /// It counts if the broker has the commit of this number.
    Prepared(u64),
    /// Confirms that the broker has the commit of this number, so the prepared entry counts.
    Done(u64),
}

/// The state as read from disk.
#[derive(Default)]
pub(super) struct Found {
    pub(super) memory: Memory,
    /// A prepared commit that the broker may or may not have, with its number.
    pub(super) prepared: Option<(u64, Entry)>,
    generation: u64,
}

/// The memory's place on disk.
pub(super) struct Journal<D: Disk> {
    disk: D,
    directory: PathBuf,
    generation: u64,
    file: D::File,
    bytes: u64,
}

const STATE: &str = "state";

fn journal_name(generation: u64) -> String {
    format!("journal-{generation:016x}")
}

/// Reads the snapshot and the journal.
pub(super) fn read<D: Disk>(disk: &D, directory: &Path) -> io::Result<Found> {
    disk.create_directory(directory)?;
    let damaged =
        || io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", directory.join(STATE).display()));
    let mut found = Found::default();
    if let Some(bytes) = read_whole(disk, &directory.join(STATE), STATE_BYTES_MAX)? {
        let (entry, generation) = read_state(&bytes).ok_or_else(damaged)?;
        found.generation = generation;
        found.replay(entry);
    }
    let journal = directory.join(journal_name(found.generation));
    let journal = read_whole(disk, &journal, STATE_BYTES_MAX)?.unwrap_or_default();
    let mut rest = &journal[..];
    while let Some(entry) = read_checked(&mut rest).and_then(read_entry) {
        found.replay(entry);
    }
    Ok(found)
}

impl Found {
    fn replay(&mut self, entry: Entry) {
        match entry.step {
            Step::Prepared(number) => {
                self.memory.number = number;
                self.prepared = Some((number, entry));
                return;
            }
            Step::Done(number) => {
                self.memory.number = number;
                if let Some((_, prepared)) = self.prepared.take() {
                    apply(&mut self.memory, prepared);
                }
            }
            Step::Alone => {}
        }
        apply(&mut self.memory, entry);
    }
}

impl<D: Disk> Journal<D> {
    /// Starts a new journal after the one that was read.
    pub(super) fn begin_anew(disk: D, directory: &Path, found: Found) -> io::Result<(Self, Memory)> {
        let journal = Self::begin(disk, directory, found.generation + 1, &found.memory)?;
        Ok((journal, found.memory))
    }

    /// Writes the whole state and starts a journal after it.
    fn begin(disk: D, directory: &Path, generation: u64, memory: &Memory) -> io::Result<Self> {
        let spans = memory.senders.all().flat_map(|(sender, priority, ranges)| {
            let floor = ranges.floor();
            let floors = (floor > 0).then_some((sender, priority, floor, 1, 0));
            floors.into_iter().chain(ranges.above().map(move |(first, last)| (sender, priority, floor, first, last)))
        });
        let entry = Entry {
            spans: spans.collect(),
            starts: memory.senders.starts().collect(),
            files: memory.files.iter().map(|(path, &length)| (path.clone(), length)).collect(),
            step: if memory.number > 0 { Step::Done(memory.number) } else { Step::Alone },
            name: memory.name,
            rotated: memory.rotated.iter().map(|path| (path.clone(), true)).collect(),
        };
        let mut contents = generation.to_be_bytes().to_vec();
        contents.extend_from_slice(&encode(&entry));
        if contents.len() + CHECK_BYTES > STATE_BYTES_MAX {
            // The old state can be read, this one could not.
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let path = directory.join(journal_name(generation));
        disk.remove(&path)?;
        replace(&disk, directory, STATE, &checked(&contents))?;
        let file = disk.append_to(&path)?;
        disk.sync_directory(directory)?;
        // Earlier generations are no longer needed; one that cannot be removed is harmless.
        for name in disk.names(directory)? {
            if name.starts_with("journal-") && name != journal_name(generation) {
                let _ = disk.remove(&directory.join(name));
            }
        }
        Ok(Self { disk, directory: directory.to_owned(), generation, file, bytes: 0 })
    }

    /// Adds to the memory, on disk: after this it survives a crash.
    pub(super) fn commit(&mut self, entry: &Entry) -> io::Result<()> {
        self.note(entry)?;
        self.file.sync()
    }

    /// Adds to the memory what need not survive a crash of the machine.
    pub(super) fn note(&mut self, entry: &Entry) -> io::Result<()> {
        let bytes = checked(&encode(entry));
        if self.bytes + bytes.len() as u64 > STATE_BYTES_MAX as u64 {
            // A longer journal would not be read.
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.file.append(&bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Whether a path is in the directory of the state.
    pub(super) fn is_in_directory(&self, path: &Path) -> bool {
        path.starts_with(&self.directory)
    }

    /// Whether it is time for a [`checkpoint`](Self::checkpoint).
    pub(super) fn is_long(&self) -> bool {
        self.bytes > JOURNAL_BYTES_MAX
    }

    /// Writes the whole memory in place of all entries.
    pub(super) fn checkpoint(&mut self, memory: &Memory) -> io::Result<()> {
        *self = Self::begin(self.disk.clone(), &self.directory, self.generation + 1, memory)?;
        Ok(())
    }
}

pub(super) fn apply(memory: &mut Memory, entry: Entry) {
    for (sender, priority, floor, first, last) in entry.spans {
        memory.senders.edit(sender, |lanes| {
            let ranges = &mut lanes[usize::from(priority)];
            ranges.raise(floor);
            ranges.insert(first, last);
        });
    }
    entry.starts.iter().for_each(|&(sender, start)| memory.senders.set_start(sender, start));
    memory.files.extend(entry.files);
    memory.name = entry.name.or(memory.name);
    for (path, waits) in entry.rotated {
        if waits {
            memory.rotated.insert(path);
        } else {
            memory.rotated.remove(&path);
        }
    }
}

/// A bit of the count of spans: more stands behind it than spans and files. Without it an entry is as it was before there were brokers.
const MORE: u32 = 1 << 31;

/// A bit of the step: starts of relays stand behind the rotated files.
const STARTS: u8 = 1 << 7;

fn encode(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    let spans = u32::try_from(entry.spans.len()).unwrap_or(u32::MAX) & !MORE;
    if entry.step == Step::Alone && entry.name.is_none() && entry.rotated.is_empty() && entry.starts.is_empty() {
        bytes.put_u32(spans);
    } else {
        bytes.put_u32(spans | MORE);
        put_more(&mut bytes, entry);
    }
    for (sender, priority, floor, first, last) in &entry.spans {
        bytes.put_slice(&sender.0);
        bytes.put_u8(*priority);
        bytes.put_u64(*floor);
        bytes.put_u64(*first);
        bytes.put_u64(*last);
    }
    for (path, length) in &entry.files {
        bytes.put_u64(*length);
        put_path(&mut bytes, path);
    }
    bytes
}

fn put_more(bytes: &mut Vec<u8>, entry: &Entry) {
    let (step, number) = match entry.step {
        Step::Alone => (0, 0),
        Step::Prepared(number) => (1, number),
        Step::Done(number) => (2, number),
    };
    bytes.put_u8(if entry.starts.is_empty() { step } else { step | STARTS });
    bytes.put_u64(number);
    bytes.put_u8(u8::from(entry.name.is_some()));
    bytes.put_slice(&entry.name.unwrap_or_default());
    bytes.put_u32(u32::try_from(entry.rotated.len()).unwrap_or(u32::MAX));
    for (path, waits) in &entry.rotated {
        bytes.put_u8(u8::from(*waits));
        put_path(bytes, path);
    }
    if !entry.starts.is_empty() {
        bytes.put_u32(u32::try_from(entry.starts.len()).unwrap_or(u32::MAX));
    }
    for (sender, start) in &entry.starts {
        bytes.put_slice(&sender.0);
        bytes.put_u32(start.epoch);
        bytes.put_u64(start.nonce);
    }
}

fn put_path(bytes: &mut Vec<u8>, path: &Path) {
    let name = path.as_os_str().as_encoded_bytes();
    bytes.put_u32(u32::try_from(name.len()).unwrap_or(u32::MAX));
    bytes.put_slice(name);
}

fn read_entry(mut bytes: &[u8]) -> Option<Entry> {
    let mut entry = Entry::default();
    let spans = bytes.try_get_u32().ok()?;
    if spans & MORE != 0 {
        read_more(&mut bytes, &mut entry)?;
    }
    for _ in 0..spans & !MORE {
        let mut sender = [0; 16];
        bytes.try_copy_to_slice(&mut sender).ok()?;
        let priority = bytes.try_get_u8().ok().filter(|&priority| priority < PRIORITIES)?;
        let (floor, first, last) = (bytes.try_get_u64().ok()?, bytes.try_get_u64().ok()?, bytes.try_get_u64().ok()?);
        entry.spans.push((SenderId(sender), priority, floor, first, last));
    }
    while !bytes.is_empty() {
        let length = bytes.try_get_u64().ok()?;
        entry.files.push((read_path(&mut bytes)?, length));
    }
    Some(entry)
}

fn read_more(bytes: &mut &[u8], entry: &mut Entry) -> Option<()> {
    let (step, number) = (bytes.try_get_u8().ok()?, bytes.try_get_u64().ok()?);
    entry.step = match step & !STARTS {
        0 => Step::Alone,
        1 => Step::Prepared(number),
        2 => Step::Done(number),
        _ => return None,
    };
    let (is_named, mut name) = (bytes.try_get_u8().ok()? == 1, Name::default());
    bytes.try_copy_to_slice(&mut name).ok()?;
    entry.name = is_named.then_some(name);
    for _ in 0..bytes.try_get_u32().ok()? {
        let waits = bytes.try_get_u8().ok()? == 1;
        entry.rotated.push((read_path(bytes)?, waits));
    }
    let starts = if step & STARTS == 0 { 0 } else { bytes.try_get_u32().ok()? };
    for _ in 0..starts {
        let mut sender = [0; 16];
        bytes.try_copy_to_slice(&mut sender).ok()?;
        let start = Start { epoch: bytes.try_get_u32().ok()?, nonce: bytes.try_get_u64().ok()? };
        entry.starts.push((SenderId(sender), start));
    }
    Some(())
}

/// Names come from a template that is text.
fn read_path(bytes: &mut &[u8]) -> Option<PathBuf> {
    let name_bytes = usize::try_from(bytes.try_get_u32().ok()?).ok()?;
    let (name, rest) = bytes.split_at_checked(name_bytes)?;
    *bytes = rest;
    Some(PathBuf::from(std::str::from_utf8(name).ok()?))
}

fn read_state(mut bytes: &[u8]) -> Option<(Entry, u64)> {
    let mut contents = read_checked(&mut bytes)?;
    let generation = contents.try_get_u64().ok()?;
    Some((read_entry(contents)?, generation))
}

/// Bytes of length and checksum.
const CHECK_BYTES: usize = 8;

/// The bytes behind their length and checksum.
fn checked(bytes: &[u8]) -> Vec<u8> {
    let mut checked = Vec::with_capacity(bytes.len() + CHECK_BYTES);
    checked.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    checked.put_u32(checksum(bytes));
    checked.put_slice(bytes);
    checked
}

/// The bytes of the next entry, if it is whole.
fn read_checked<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, sum) = (rest.try_get_u32().ok()?, rest.try_get_u32().ok()?);
    let (bytes, behind) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = behind;
    (checksum(bytes) == sum).then_some(bytes)
}

fn checksum(bytes: &[u8]) -> u32 {
    u32::try_from(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes)).unwrap_or_default()
}
