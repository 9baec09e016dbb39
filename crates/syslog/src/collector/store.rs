//! The collector's half that waits for the disk: lines to their files, then what there is now to the journal, one commit after the other.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::disk::Disk;

use super::files::Files;
use super::state::{Entry, EntrySpan, Journal, Memory, Senders, apply};
use super::{CollectorCounters, FileOutput, Peer};

/// What is to survive a crash as a whole or not at all, and what is to be said once it does.
#[derive(Debug, Default)]
pub struct Commit {
    pub(super) lines: BTreeMap<PathBuf, Vec<u8>>,
    pub(super) spans: Vec<EntrySpan>,
    pub(super) counters: CollectorCounters,
    pub(super) answers: Vec<(Peer, Bytes)>,
}

/// The files, and on disk what is in them.
pub struct Store<D: Disk> {
    journal: Journal<D>,
    memory: Memory,
    files: Files<D>,
    outputs: Vec<FileOutput>,
    counters: CollectorCounters,
    /// An earlier commit failed: nothing may follow it.
    failed: bool,
}

impl<D: Disk> Store<D> {
    pub(super) fn open(disk: D, directory: &Path, outputs: Vec<FileOutput>) -> io::Result<Self> {
        let (mut journal, mut memory) = Journal::open(disk.clone(), directory)?;
        let files = Files::recover(disk, &mut memory)?;
        journal.checkpoint(&memory)?;
        Ok(Self { journal, memory, files, outputs, counters: CollectorCounters::default(), failed: false })
    }

    pub(super) fn senders(&self) -> &Senders {
        &self.memory.senders
    }

    /// Makes it survive a crash. Returns what is to be sent to whom now that it does.
    ///
    /// # Errors
    /// The disk's. Then every later commit fails, too, and nothing in memory counts.
    pub fn commit(&mut self, commit: Commit) -> io::Result<Vec<(Peer, Bytes)>> {
        if self.failed {
            return Err(io::Error::other("an earlier commit failed"));
        }
        let Commit { lines, spans, counters, answers } = commit;
        self.failed = true;
        self.write(lines, spans)?;
        self.failed = false;
        self.counters.add(&counters);
        Ok(answers)
    }

    fn write(&mut self, lines: BTreeMap<PathBuf, Vec<u8>>, spans: Vec<EntrySpan>) -> io::Result<()> {
        let unknown = self.files.unknown(&lines, &self.memory)?;
        if !unknown.is_empty() {
            self.memory.files.extend(unknown.iter().cloned());
            // First of all: what such a file has now is all that counts of it, should this end half-way.
            self.journal.commit(&Entry { spans: Vec::new(), files: unknown })?;
        }
        let files = self.files.write(lines, &self.memory)?;
        if files.is_empty() && spans.is_empty() {
            return Ok(());
        }
        let entry = Entry { spans, files: files.clone() };
        self.journal.commit(&entry)?;
        self.counters.commits += 1;
        apply(&mut self.memory, entry);
        self.tidy(&files)
    }

    /// Rotates files that have become too large, and forgets what need not be remembered.
    fn tidy(&mut self, written: &[(PathBuf, u64)]) -> io::Result<()> {
        for (path, length) in written {
            // Two outputs may share a file; the smaller limit counts.
            if self.outputs.iter().filter_map(|output| output.limit_of(path)).any(|limit| *length >= limit) {
                self.files.rotate(path)?;
                self.memory.files.remove(path);
            }
        }
        if self.journal.is_long() {
            for path in self.files.take_closed() {
                self.memory.files.remove(&path);
            }
            self.journal.checkpoint(&self.memory)?;
        }
        Ok(())
    }

    /// What was committed since it was opened.
    pub fn counters(&self) -> &CollectorCounters {
        &self.counters
    }
}
