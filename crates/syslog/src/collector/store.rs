//! The collector's half that waits for the disk: lines to their files, then what there is now to the journal, one commit after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::disk::Disk;
use crate::render;
use crate::wire::{SenderId, Start};

use super::broker::{BrokerLine, Handover};
use super::compress::{self, CompressJob, Compression};
use super::files::{Files, Lines, regular_length};
use super::origins::{Allowance, Origin};
use super::senders::Senders;
use super::state::{self, Entry, EntrySpan, Journal, Memory, Step, apply};
use super::{BrokerOutput, CollectorCounters, FileOutput, Peer};

/// Lines and state changes that are committed atomically, with the answers to send afterwards.
#[derive(Debug, Default)]
pub struct Commit {
    pub(super) lines: Lines,
    /// For the broker, in the order in which they came.
    pub(super) broker_lines: Vec<BrokerLine>,
    pub(super) spans: Vec<EntrySpan>,
    pub(super) starts: Vec<(SenderId, Start)>,
    pub(super) counters: CollectorCounters,
    pub(super) answers: Vec<(Peer, Bytes)>,
    /// Causes of writes to files whose names depend on their lines.
    pub(super) causes: BTreeMap<PathBuf, Cause>,
    /// The time of the commit.
    pub(super) now_us: u64,
}

impl Commit {
    /// Whether it writes lines, and not only numbers of relays.
    pub(crate) fn has_lines(&self) -> bool {
        !self.lines.is_empty() || !self.broker_lines.is_empty()
    }

    /// The files that it writes to, and the bytes of each.
    pub(crate) fn line_bytes(&self) -> impl Iterator<Item = (&Path, usize)> {
        self.lines.iter().map(|(path, bytes)| (path.as_path(), bytes.len()))
    }
}

/// Why a file is written to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cause {
    /// Where the first of its lines came from.
    pub(super) origin: Origin,
    /// The output that the file belongs to.
    pub(super) output: usize,
}

/// The output files and the state on disk.
pub struct Store<D: Disk> {
    disk: D,
    journal: Journal<D>,
    memory: Memory,
    files: Files<D>,
    outputs: Vec<FileOutput>,
    broker: Option<Handover>,
    /// Rotated files to compress that [`take_jobs`](Self::take_jobs) has not returned yet.
    jobs: Vec<CompressJob<D>>,
    counters: CollectorCounters,
    new_files: Allowance,
    /// Files written to since the start. They may be created again if they were moved.
    familiar: BTreeSet<PathBuf>,
    /// An earlier commit failed: nothing may follow it.
    failed: bool,
}

/// Interval at which an origin that has used up its allowance may create one more file.
const NEW_FILE_EVERY_US: u64 = 1_000_000;

/// Names of files that are remembered. Beyond it all are forgotten, which costs those that were moved an allowance.
const FAMILIAR_MAX: usize = 65_536;

impl<D: Disk> Store<D> {
    pub(super) fn open(
        disk: D,
        directory: &Path,
        outputs: Vec<FileOutput>,
        broker: Option<BrokerOutput>,
    ) -> io::Result<Self> {
        let mut found = state::read(&disk, directory)?;
        let mut broker = broker.map(|output| {
            let name = *found.memory.name.get_or_insert(output.new_name);
            Handover::new(output.broker, name, found.memory.number)
        });
        // Without a broker the prepared lines can be dropped: they were not acknowledged, so relays send them again.
        if let (Some((number, entry)), Some(broker)) = (found.prepared.take(), &mut broker)
            && broker.last().map_err(unreachable)? == number
        {
            apply(&mut found.memory, entry);
        }
        let files = Files::recover(disk.clone(), &mut found.memory)?;
        let jobs = jobs(&disk, &outputs, &mut found.memory)?;
        let (journal, memory) = Journal::begin_anew(disk.clone(), directory, found)?;
        let counters = CollectorCounters::default();
        let (new_files, familiar) = (Allowance::new(NEW_FILE_EVERY_US), BTreeSet::new());
        Ok(Self { disk, journal, memory, files, outputs, broker, jobs, counters, new_files, familiar, failed: false })
    }

    pub(super) fn senders(&self) -> &Senders {
        &self.memory.senders
    }

    /// Makes a commit durable. Returns the answers to send, with their recipients.
    ///
    /// # Errors
    /// I/O errors of the disk or the broker. Every later commit then fails too, and all state in memory is void.
    pub fn commit(&mut self, commit: Commit) -> io::Result<Vec<(Peer, Bytes)>> {
        if self.failed {
            return Err(io::Error::other("an earlier commit failed"));
        }
        let Commit { mut lines, broker_lines, spans, starts, counters, answers, causes, now_us } = commit;
        self.failed = true;
        self.files.forget_changed(&lines, &mut self.memory)?;
        let new = self.prepare(&mut lines, &causes, now_us)?;
        self.write((lines, new), &broker_lines, (spans, starts))?;
        self.failed = false;
        self.counters.add(&counters);
        Ok(answers)
    }

    /// Commits the present lengths of files that are written to for the first time. Lines that would make more files than their origin may, or
    /// whose file cannot be written, go to another one. Returns the files that are not there yet.
    fn prepare(
        &mut self,
        lines: &mut Lines,
        causes: &BTreeMap<PathBuf, Cause>,
        now_us: u64,
    ) -> io::Result<BTreeSet<PathBuf>> {
        let mut unknown = Vec::new();
        let mut redirected = Lines::new();
        for (path, length) in self.files.unknown(lines, &self.memory)? {
            let Some(&Cause { origin, output }) = causes.get(&path) else {
                unknown.push((path, length));
                continue;
            };
            let new_files = self.outputs[output].new_files;
            let is_allowed =
                length.is_some() || self.familiar.contains(&path) || self.new_files.take(origin, new_files, now_us);
            // Before the journal lists it: a name in a line must not stop the commit, nor the next start.
            if is_allowed && self.is_writable(&path)? {
                unknown.push((path, length));
            } else if let Some(bytes) = lines.remove(&path) {
                self.counters.overflowed += bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
                redirected.entry(self.overflow_of(output)?).or_default().extend(bytes);
            }
        }
        if !redirected.is_empty() {
            self.files.forget_changed(&redirected, &mut self.memory)?;
            let known = |path: &Path| unknown.iter().any(|(known, _)| known == path);
            let more = self.files.unknown(&redirected, &self.memory)?;
            let more: Vec<_> = more.into_iter().filter(|(path, _)| !known(path)).collect();
            unknown.extend(more);
            redirected.into_iter().for_each(|(path, bytes)| lines.entry(path).or_default().extend(bytes));
        }
        if self.familiar.len() + unknown.len() > FAMILIAR_MAX {
            self.familiar.clear();
        }
        self.familiar.extend(unknown.iter().map(|(path, _)| path.clone()).filter(|path| causes.contains_key(path)));
        let new = unknown.iter().filter(|(_, length)| length.is_none()).map(|(path, _)| path.clone()).collect();
        if !unknown.is_empty() {
            let files: Vec<_> = unknown.into_iter().map(|(path, length)| (path, length.unwrap_or_default())).collect();
            self.memory.files.extend(files.iter().cloned());
            // First of all: what such a file has now is all that counts of it, should this end half-way.
            self.journal.commit(&Entry { files, ..Entry::default() })?;
        }
        Ok(new)
    }

    fn is_writable(&self, path: &Path) -> io::Result<bool> {
        Ok(!self.journal.is_in_directory(path) && self.files.is_writable(path)?)
    }

    /// The overflow file of an output. A name in a line may have made it unusable; no name in a line contains a `+`.
    fn overflow_of(&self, output: usize) -> io::Result<PathBuf> {
        let template = &self.outputs[output].template;
        let [usual, other] = ["overflow", "overflow+"].map(|word| PathBuf::from(render::overflow_name(template, word)));
        Ok(if self.is_writable(&usual)? { usual } else { other })
    }

    fn write(
        &mut self,
        (lines, new): (Lines, BTreeSet<PathBuf>),
        broker_lines: &[BrokerLine],
        (spans, starts): (Vec<EntrySpan>, Vec<(SenderId, Start)>),
    ) -> io::Result<()> {
        let files = self.files.write(lines, &new, &self.memory)?;
        if files.is_empty() && spans.is_empty() && starts.is_empty() && broker_lines.is_empty() {
            return Ok(());
        }
        let mut entry = Entry { spans, starts, files: files.clone(), ..Entry::default() };
        match &mut self.broker {
            Some(broker) if !broker_lines.is_empty() => {
                self.memory.number += 1;
                entry.step = Step::Prepared(self.memory.number);
                self.journal.commit(&entry)?;
                broker.hand(self.memory.number, broker_lines)?;
                self.journal.note(&Entry { step: Step::Done(self.memory.number), ..Entry::default() })?;
            }
            _ => self.journal.commit(&entry)?,
        }
        self.counters.commits += 1;
        apply(&mut self.memory, entry);
        self.tidy(&files)
    }

    /// Rotates files that have become too large, and forgets what need not be remembered.
    fn tidy(&mut self, written: &[(PathBuf, u64)]) -> io::Result<()> {
        for (path, length) in written {
            let outputs = self.outputs.iter().filter(|output| output.writes(path));
            // Two outputs may share a file; the smaller limit counts.
            if !outputs.filter_map(|output| output.rotate_bytes).any(|limit| *length >= limit) {
                continue;
            }
            let numbered = self.files.numbered(path)?;
            if let Some(compression) = compression_of(&self.outputs, path)
                && self.memory.rotated.len() < state::ROTATED_MAX
            {
                // Recorded before the rename, so that a crash in between does not lose the job.
                self.note_rotated(&numbered, true)?;
                self.jobs.push(CompressJob { disk: self.disk.clone(), path: numbered.clone(), compression });
            }
            self.files.rotate(path, &numbered)?;
            self.memory.files.remove(path);
        }
        if self.journal.is_long() {
            let files = &self.files;
            self.memory.files.retain(|path, _| files.is_open(path));
            self.journal.checkpoint(&self.memory)?;
        }
        Ok(())
    }

    fn note_rotated(&mut self, path: &Path, waits: bool) -> io::Result<()> {
        let entry = Entry { rotated: vec![(path.to_owned(), waits)], ..Entry::default() };
        if waits {
            self.journal.commit(&entry)?;
        } else {
            self.journal.note(&entry)?;
        }
        apply(&mut self.memory, entry);
        Ok(())
    }

    /// Closes all files, since they may have been moved. They are opened again by their names.
    pub fn reopen_files(&mut self) {
        self.files.close_all();
    }

    /// Returns new compression jobs, each once. Report finished ones to [`compressed`](Self::compressed).
    pub fn take_jobs(&mut self) -> Vec<CompressJob<D>> {
        std::mem::take(&mut self.jobs)
    }

    /// A file is compressed and need not be remembered.
    ///
    /// # Errors
    /// As of [`commit`](Self::commit).
    pub fn compressed(&mut self, path: &Path) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier commit failed"));
        }
        self.failed = true;
        self.note_rotated(path, false)?;
        self.failed = false;
        Ok(())
    }

    /// Counts of the lines committed since the store was opened.
    pub fn counters(&self) -> &CollectorCounters {
        &self.counters
    }
}

/// The compression of a file after its rotation.
fn compression_of(outputs: &[FileOutput], path: &Path) -> Option<Compression> {
    outputs.iter().filter(|output| output.writes(path)).find_map(|output| output.compression)
}

/// Compression jobs left by an earlier process. Discards those that are done, were never renamed, or are no longer wanted.
fn jobs<D: Disk>(disk: &D, outputs: &[FileOutput], memory: &mut Memory) -> io::Result<Vec<CompressJob<D>>> {
    let mut jobs = Vec::new();
    for path in std::mem::take(&mut memory.rotated) {
        let compression = compress::unrotated(&path).and_then(|path| compression_of(outputs, &path));
        if let Some(compression) = compression
            && regular_length(disk, &path)?.is_some()
        {
            memory.rotated.insert(path.clone());
            jobs.push(CompressJob { disk: disk.clone(), path, compression });
        }
    }
    Ok(jobs)
}

/// Nothing is wrong here: a broker that does not answer yet.
fn unreachable(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::InvalidData { error } else { io::Error::new(io::ErrorKind::NotConnected, error) }
}
