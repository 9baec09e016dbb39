//! What a collector remembers, on disk: which lines it has, and how long its files are with them.
//!
//! A file `state` holds all of it, and a journal what was added since. An entry of the journal is what makes lines count: its files were
//! synced before it is written, and acknowledgements leave after it is synced.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use bytes::{Buf as _, BufMut as _};

use crate::disk::{Disk, DiskFile as _, read_whole, replace};
use crate::policy::PRIORITIES;
use crate::ranges::Ranges;
use crate::wire::SenderId;

/// A journal that is larger is replaced by a new state.
const JOURNAL_BYTES_MAX: u64 = 4 << 20;

/// The largest state that is read: 1,000 senders with a thousand ranges for each priority.
const STATE_BYTES_MAX: usize = 256 << 20;

/// Numbers of lines by sender and priority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Senders(BTreeMap<SenderId, Vec<Ranges>>);

impl Senders {
    pub(super) fn ranges(&mut self, sender: SenderId) -> &mut Vec<Ranges> {
        self.0.entry(sender).or_insert_with(|| vec![Ranges::default(); usize::from(PRIORITIES)])
    }

    pub(super) fn knows(&self, sender: SenderId) -> bool {
        self.0.contains_key(&sender)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// What a collector has on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) senders: Senders,
    /// How long files are with the lines that count. Those that are not here count in full.
    pub(super) files: BTreeMap<PathBuf, u64>,
}

/// A sender, a priority, a floor, and a first and a last number; if the first is above the last it is a floor alone.
pub(super) type EntrySpan = (SenderId, u8, u64, u64, u64);

/// What is added to the memory at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) spans: Vec<EntrySpan>,
    pub(super) files: Vec<(PathBuf, u64)>,
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

impl<D: Disk> Journal<D> {
    /// Reads the memory, and begins a new journal.
    pub(super) fn open(disk: D, directory: &Path) -> io::Result<(Self, Memory)> {
        disk.create_directory(directory)?;
        let damaged =
            || io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", directory.join(STATE).display()));
        let (mut memory, generation) = match read_whole(&disk, &directory.join(STATE), STATE_BYTES_MAX)? {
            None => (Memory::default(), 0),
            Some(bytes) => {
                let (entry, generation) = read_state(&bytes).ok_or_else(damaged)?;
                let mut memory = Memory::default();
                apply(&mut memory, entry);
                (memory, generation)
            }
        };
        let journal =
            read_whole(&disk, &directory.join(journal_name(generation)), STATE_BYTES_MAX)?.unwrap_or_default();
        let mut rest = &journal[..];
        while let Some(entry) = read_checked(&mut rest).and_then(read_entry) {
            apply(&mut memory, entry);
        }
        let journal = Self::begin(disk, directory, generation + 1, &memory)?;
        Ok((journal, memory))
    }

    /// Writes the whole memory and begins a journal behind it.
    fn begin(disk: D, directory: &Path, generation: u64, memory: &Memory) -> io::Result<Self> {
        let spans = memory.senders.0.iter().flat_map(|(&sender, lanes)| {
            (0_u8..).zip(lanes).flat_map(move |(priority, ranges)| {
                let floor = ranges.floor();
                let floors = (floor > 0).then_some((sender, priority, floor, 1, 0));
                floors
                    .into_iter()
                    .chain(ranges.above().map(move |(first, last)| (sender, priority, floor, first, last)))
            })
        });
        let entry = Entry {
            spans: spans.collect(),
            files: memory.files.iter().map(|(path, &length)| (path.clone(), length)).collect(),
        };
        let mut contents = generation.to_be_bytes().to_vec();
        contents.extend_from_slice(&encode(&entry));
        let path = directory.join(journal_name(generation));
        disk.remove(&path)?;
        replace(&disk, directory, STATE, &checked(&contents))?;
        let file = disk.append_to(&path)?;
        disk.sync_directory(directory)?;
        // Those before are not needed any more. One that cannot be removed does no harm: its generation is over.
        for name in disk.names(directory)? {
            if name.starts_with("journal-") && name != journal_name(generation) {
                let _ = disk.remove(&directory.join(name));
            }
        }
        Ok(Self { disk, directory: directory.to_owned(), generation, file, bytes: 0 })
    }

    /// Adds to the memory, on disk: after this it survives a crash.
    pub(super) fn commit(&mut self, entry: &Entry) -> io::Result<()> {
        let bytes = checked(&encode(entry));
        self.file.append(&bytes)?;
        self.file.sync()?;
        self.bytes += bytes.len() as u64;
        Ok(())
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
        let ranges = &mut memory.senders.ranges(sender)[usize::from(priority)];
        ranges.raise(floor);
        ranges.insert(first, last);
    }
    memory.files.extend(entry.files);
}

fn encode(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u32(u32::try_from(entry.spans.len()).unwrap_or(u32::MAX));
    for (sender, priority, floor, first, last) in &entry.spans {
        bytes.put_slice(&sender.0);
        bytes.put_u8(*priority);
        bytes.put_u64(*floor);
        bytes.put_u64(*first);
        bytes.put_u64(*last);
    }
    for (path, length) in &entry.files {
        let name = path.as_os_str().as_encoded_bytes();
        bytes.put_u64(*length);
        bytes.put_u32(u32::try_from(name.len()).unwrap_or(u32::MAX));
        bytes.put_slice(name);
    }
    bytes
}

fn read_entry(mut bytes: &[u8]) -> Option<Entry> {
    let mut entry = Entry::default();
    for _ in 0..bytes.try_get_u32().ok()? {
        let mut sender = [0; 16];
        bytes.try_copy_to_slice(&mut sender).ok()?;
        let priority = bytes.try_get_u8().ok().filter(|&priority| priority < PRIORITIES)?;
        let (floor, first, last) = (bytes.try_get_u64().ok()?, bytes.try_get_u64().ok()?, bytes.try_get_u64().ok()?);
        entry.spans.push((SenderId(sender), priority, floor, first, last));
    }
    while !bytes.is_empty() {
        let length = bytes.try_get_u64().ok()?;
        let name_bytes = usize::try_from(bytes.try_get_u32().ok()?).ok()?;
        let (name, rest) = bytes.split_at_checked(name_bytes)?;
        bytes = rest;
        // Names come from a template that is text.
        entry.files.push((PathBuf::from(std::str::from_utf8(name).ok()?), length));
    }
    Some(entry)
}

fn read_state(mut bytes: &[u8]) -> Option<(Entry, u64)> {
    let mut contents = read_checked(&mut bytes)?;
    let generation = contents.try_get_u64().ok()?;
    Some((read_entry(contents)?, generation))
}

/// The bytes behind their length and checksum.
fn checked(bytes: &[u8]) -> Vec<u8> {
    let mut checked = Vec::with_capacity(bytes.len() + 8);
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
