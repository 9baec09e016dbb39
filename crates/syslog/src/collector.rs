//! The collector without sockets: it takes messages of relays, writes lines to files and returns acknowledgements.
//!
//! It has two halves, so that one thread can handle messages while another waits for the disk. Order of calls: [`open`]; [`Collector::handle`] for
//! each message and [`Collector::gone`] for each association that ends; repeatedly [`Collector::begin_commit`], whose result goes to
//! [`Store::commit`], which returns the answers to send. Commits reach the store in the order in which they were begun. After an error of the store
//! all state in memory is void: end all associations and open both again.

mod broker;
mod compress;
mod files;
mod inbox;
mod origins;
mod senders;
mod state;
mod store;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use festina_units::Duration;
use thiserror::Error;

use crate::disk::Disk;
use crate::record::Record;
use crate::render::{self, Format};
use crate::wire::{Packet, SenderId, Span, Start, WireError};
use files::Lines;
use origins::Arrivals;
use senders::{Senders, Strange};
use state::EntrySpan;
use store::Cause;

pub use broker::{Broker, BrokerLine, BrokerOutput};
pub use compress::{CompressJob, Compression};
pub use inbox::{Inbox, Link, Received, Taken};
pub use origins::Origin;
pub use store::{Commit, Store};

/// Files open at the same time. Those that were used longest ago are closed.
const OPEN_FILES_MAX: usize = 256;

/// Which association a message came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer(pub u64);

/// A file for lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOutput {
    /// Its name, with placeholders.
    pub template: String,
    /// Format of its lines.
    pub format: Format,
    /// Size beyond which a file is renamed and a new one started.
    pub rotate_bytes: Option<u64>,
    /// What becomes of a file that has its number.
    pub compression: Option<Compression>,
    /// Files that one origin may make at once. Lines for more go to a file of their own.
    pub new_files: u64,
}

impl FileOutput {
    /// [`new_files`](Self::new_files) unless the configuration says otherwise.
    pub const NEW_FILES_DEFAULT: u64 = 256;
}

/// Counters of a collector since it was opened; they survive a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectorCounters {
    /// Spooled lines that were written, by severity.
    pub reliable: [u64; 8],
    /// Lines that are not repeated and were written, by severity.
    pub fresh: [u64; 8],
    /// Spooled lines that came again and were not written again.
    pub duplicates: u64,
    /// Lines that a broker has taken.
    pub brokered: u64,
    /// Of those, lines that were cut because they were too long for it.
    pub brokered_cut: u64,
    /// Times that lines were made to survive a crash.
    pub commits: u64,
    /// Lines that are in another file than their own because their origin would have made too many files.
    pub overflowed: u64,
    /// Associations that were not welcomed because another copy of the relay's spool is in use.
    pub refused_copies: u64,
}

impl CollectorCounters {
    /// Adds what `more` counted.
    pub fn add(&mut self, more: &Self) {
        self.reliable.iter_mut().zip(more.reliable).for_each(|(sum, more)| *sum += more);
        self.fresh.iter_mut().zip(more.fresh).for_each(|(sum, more)| *sum += more);
        self.duplicates += more.duplicates;
        self.brokered += more.brokered;
        self.brokered_cut += more.brokered_cut;
        self.commits += more.commits;
        self.overflowed += more.overflowed;
        self.refused_copies += more.refused_copies;
    }
}

/// Why an association has to end: the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RelayError {
    /// It does not speak the protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The relay sent lines before its hello, or sent a second hello.
    #[error("the peer did not start with a relay's hello")]
    NoRelay,
    /// It leaves out more numbers than the gaps that can be remembered.
    #[error("the relay skips too many line numbers")]
    TooManyRanges,
    /// There are too many relays.
    #[error("too many relays")]
    TooManySenders,
}

/// State of one association.
struct Session {
    sender: SenderId,
    /// That of an association for lines that are not repeated is the least.
    incarnation: (u32, u32),
    /// The answer that it gets for its hello with the next commit.
    greeting: Option<Greeting>,
    fresh: u64,
    fresh_messages: u64,
    fresh_acked: u64,
    /// Lines to acknowledge with the next commit.
    spans: Vec<Span>,
}

/// The answer for a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Greeting {
    Welcome,
    /// The relay does not know the start of this epoch.
    Refusal(u32),
}

impl Session {
    fn new(sender: SenderId, incarnation: (u32, u32), greeting: Option<Greeting>) -> Self {
        Self { sender, incarnation, greeting, fresh: 0, fresh_messages: 0, fresh_acked: 0, spans: Vec::new() }
    }
}

/// Lines from relays: which of them are new, and what of them waits for the disk.
pub struct Collector {
    /// All numbers that have come, whether or not they are on disk.
    senders: Senders,
    outputs: Vec<FileOutput>,
    /// What lines look like for a broker, if there is one.
    broker: Option<Format>,
    /// Lines received since the last commit was begun.
    lines: Lines,
    causes: BTreeMap<PathBuf, Cause>,
    broker_lines: Vec<BrokerLine>,
    spans: Vec<EntrySpan>,
    starts: Vec<(SenderId, Start)>,
    counters: CollectorCounters,
    /// Bytes of messages since the last commit was begun.
    taken_bytes: usize,
    /// There are answers to send.
    has_work: bool,
    sessions: BTreeMap<Peer, Session>,
    /// The association that counts for each relay: that of its latest incarnation.
    current: BTreeMap<SenderId, Peer>,
    arrivals: Arrivals,
}

/// Opens the collector's state in a directory, creates the directory if it does not exist, and truncates output files to their committed length.
///
/// # Errors
/// I/O errors of the disk. Also if the stored state is damaged; continuing would then write lines twice.
pub fn open<D: Disk>(disk: D, directory: &Path, outputs: Vec<FileOutput>) -> io::Result<(Collector, Store<D>)> {
    open_with_broker(disk, directory, outputs, None)
}

/// As [`open`], with a broker that takes part in each commit.
///
/// # Errors
/// I/O errors of the disk. [`io::ErrorKind::InvalidData`] if the stored state is damaged or an outdated copy. [`io::ErrorKind::NotConnected`] if the
/// broker's last commit is needed and the broker does not answer: try again later.
pub fn open_with_broker<D: Disk>(
    disk: D,
    directory: &Path,
    outputs: Vec<FileOutput>,
    broker: Option<BrokerOutput>,
) -> io::Result<(Collector, Store<D>)> {
    let format = broker.as_ref().map(|output| output.format);
    let store = Store::open(disk, directory, outputs.clone(), broker)?;
    let collector = Collector {
        senders: store.senders().clone(),
        outputs,
        broker: format,
        lines: Lines::new(),
        causes: BTreeMap::new(),
        broker_lines: Vec::new(),
        spans: Vec::new(),
        starts: Vec::new(),
        counters: CollectorCounters::default(),
        taken_bytes: 0,
        has_work: false,
        sessions: BTreeMap::new(),
        current: BTreeMap::new(),
        arrivals: Arrivals::default(),
    };
    Ok((collector, store))
}

impl Collector {
    /// Registers an association. Associations without this call all have the same origin.
    pub fn begin(&mut self, peer: Peer, origin: Origin) {
        self.arrivals.origins.insert(peer, origin);
    }

    /// Sets the time since any fixed moment. It limits how fast an origin may cause files and new relays.
    pub fn keep_time(&mut self, now: Duration) {
        self.arrivals.now_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
    }

    /// Takes a message. Returns the lines that it brought and that were not here before, for outputs that are no files.
    ///
    /// # Errors
    /// If it makes no sense: the association has to end.
    pub fn handle(&mut self, peer: Peer, message: Bytes) -> Result<Vec<Record>, RelayError> {
        let bytes = message.len();
        self.take(peer, Packet::decode(message)?, bytes)
    }

    /// Takes a message of this many bytes that was read elsewhere, as [`handle`](Self::handle) does.
    ///
    /// # Errors
    /// If it makes no sense: the association has to end.
    pub fn take(&mut self, peer: Peer, packet: Packet, bytes: usize) -> Result<Vec<Record>, RelayError> {
        let taken = self.take_packet(peer, packet)?;
        self.taken_bytes += bytes;
        self.has_work = true;
        Ok(taken)
    }

    fn take_packet(&mut self, peer: Peer, packet: Packet) -> Result<Vec<Record>, RelayError> {
        match packet {
            Packet::Hello { sender, start, connection, before } => {
                self.handle_hello(peer, sender, start, connection, &before)?;
                Ok(Vec::new())
            }
            Packet::Lines { priority, floor, records } => self.handle_lines(peer, priority, floor, records),
            Packet::Settled(spans) => {
                self.handle_settled(peer, &spans)?;
                Ok(Vec::new())
            }
            Packet::HelloFresh { sender } => {
                if self.sessions.contains_key(&peer) {
                    return Err(RelayError::NoRelay);
                }
                self.sessions.insert(peer, Session::new(sender, (0, 0), None));
                Ok(Vec::new())
            }
            Packet::Fresh(records) => {
                let session = self.sessions.get_mut(&peer).ok_or(RelayError::NoRelay)?;
                session.fresh += records.len() as u64;
                session.fresh_messages += 1;
                records.iter().for_each(|record| self.counters.fresh[record.severity.index()] += 1);
                let sender = session.sender;
                self.write(&records, (peer, sender), None);
                Ok(records)
            }
            Packet::Welcome(_) | Packet::Refused { .. } | Packet::Acks { .. } => Err(RelayError::NoRelay),
        }
    }

    fn handle_hello(
        &mut self,
        peer: Peer,
        sender: SenderId,
        start: Start,
        connection: u32,
        before: &[Start],
    ) -> Result<(), RelayError> {
        if self.sessions.contains_key(&peer) {
            return Err(RelayError::NoRelay);
        }
        let incarnation = (start.epoch, connection);
        match self.senders.greet((sender, self.arrivals.origin(peer)), start, before) {
            Ok(()) => {
                let before = self.current.get(&sender).and_then(|before| self.sessions.get(before));
                if before.is_none_or(|before| before.incarnation < incarnation) {
                    self.current.insert(sender, peer);
                }
                self.sessions.insert(peer, Session::new(sender, incarnation, Some(Greeting::Welcome)));
            }
            // Lines of this association do not count. The relay ends it when it gets the answer.
            Err(Strange::Unknown(epoch)) => {
                self.counters.refused_copies += 1;
                self.sessions.insert(peer, Session::new(sender, incarnation, Some(Greeting::Refusal(epoch))));
            }
            Err(Strange::TooMany) => return Err(RelayError::TooManySenders),
        }
        Ok(())
    }

    /// Checks that a relay may be remembered with this many more ranges.
    fn admit(&mut self, peer: Peer, sender: SenderId, ranges: usize) -> Result<(), RelayError> {
        self.senders.check_room(sender, ranges)?;
        let is_admitted = !self.senders.is_new(sender) || self.arrivals.introduce(peer);
        if is_admitted { Ok(()) } else { Err(RelayError::TooManySenders) }
    }

    /// Adds numbers of a relay to the next commit, and with the first of a start the start.
    fn note_start(&mut self, sender: SenderId) {
        self.starts.extend(self.senders.take_unsaved(sender).map(|start| (sender, start)));
    }

    fn handle_lines(
        &mut self,
        peer: Peer,
        priority: u8,
        floor: u64,
        records: Vec<Record>,
    ) -> Result<Vec<Record>, RelayError> {
        let sender = self.sessions.get(&peer).ok_or(RelayError::NoRelay)?.sender;
        // A later incarnation repeats the lines that an earlier one had in flight, in their order.
        if self.current.get(&sender) != Some(&peer) {
            return Ok(Vec::new());
        }
        let gaps = records.windows(2).filter(|pair| pair[0].sequence + 1 != pair[1].sequence).count();
        self.admit(peer, sender, gaps + 1)?;
        let Self { senders, spans, counters, sessions, .. } = self;
        let session = sessions.get_mut(&peer).expect("it was looked up");
        let new = senders.edit(sender, |lanes| {
            let ranges = &mut lanes[usize::from(priority)];
            ranges.raise(floor);
            let mut new = Vec::with_capacity(records.len());
            for record in records {
                let number = record.sequence;
                let span = Span { priority, first: number, last: number };
                match session.spans.last_mut() {
                    Some(last) if last.priority == priority && last.last + 1 == number => last.last = number,
                    _ => session.spans.push(span),
                }
                if ranges.contains(number) {
                    counters.duplicates += 1;
                    continue;
                }
                ranges.insert(number, number);
                match spans.last_mut() {
                    Some((of, lane, _, _, last)) if (*of, *lane, *last + 1) == (sender, priority, number) => {
                        *last = number;
                    }
                    _ => spans.push((sender, priority, floor, number, number)),
                }
                new.push(record);
            }
            new
        });
        self.note_start(sender);
        new.iter().for_each(|record| self.counters.reliable[record.severity.index()] += 1);
        self.write(&new, (peer, sender), Some(priority));
        Ok(new)
    }

    /// Numbers that will never come, so that the gaps between those that do need not be remembered.
    fn handle_settled(&mut self, peer: Peer, settled: &[Span]) -> Result<(), RelayError> {
        let sender = self.sessions.get(&peer).ok_or(RelayError::NoRelay)?.sender;
        if self.current.get(&sender) != Some(&peer) {
            return Ok(());
        }
        if settled.is_empty() {
            return Ok(());
        }
        self.admit(peer, sender, settled.len())?;
        self.senders.edit(sender, |lanes| {
            settled.iter().for_each(|span| lanes[usize::from(span.priority)].insert(span.first, span.last));
        });
        self.spans.extend(settled.iter().map(|span| (sender, span.priority, 0, span.first, span.last)));
        self.note_start(sender);
        Ok(())
    }

    /// Lines that are not repeated have no priority here.
    fn write(&mut self, records: &[Record], (peer, sender): (Peer, SenderId), priority: Option<u8>) {
        if let Some(format) = self.broker {
            let lines = records.iter().map(|record| BrokerLine::new(record, format, sender, priority));
            let before = self.broker_lines.len();
            self.broker_lines.extend(lines);
            let added = &self.broker_lines[before..];
            self.counters.brokered += added.len() as u64;
            self.counters.brokered_cut += added.iter().filter(|line| line.is_cut).count() as u64;
        }
        let origin = self.arrivals.origin(peer);
        let rotates = self.outputs.iter().any(|output| output.rotate_bytes.is_some());
        for (number, output) in self.outputs.iter().enumerate() {
            if !output.template.contains('{') {
                let pending = self.lines.entry(PathBuf::from(&output.template)).or_default();
                records.iter().for_each(|record| render::render(record, output.format, pending));
                continue;
            }
            for record in records {
                let mut name = render::file_name(&output.template, record);
                // Names of rotated files are not for lines: such a file may be compressed and removed.
                if rotates && compress::is_rotated(&name) {
                    name.push('_');
                }
                let path = PathBuf::from(name);
                if !self.lines.contains_key(&path) {
                    self.causes.entry(path.clone()).or_insert(Cause { origin, output: number });
                }
                render::render(record, output.format, self.lines.entry(path).or_default());
            }
        }
    }

    /// Handles the end of an association.
    pub fn gone(&mut self, peer: Peer) {
        self.arrivals.origins.remove(&peer);
        if let Some(session) = self.sessions.remove(&peer)
            && self.current.get(&session.sender) == Some(&peer)
        {
            self.current.remove(&session.sender);
            self.senders.forget_empty(session.sender);
        }
    }

    /// Bytes of the messages that no commit has taken yet.
    pub fn taken_bytes(&self) -> usize {
        self.taken_bytes
    }

    /// Whether there is anything for a commit to do.
    pub fn has_work(&self) -> bool {
        self.has_work
    }

    /// All that has come and is in no commit yet, and the answers to it, which are true once the [store](Store) has done this commit and those
    /// before.
    pub fn begin_commit(&mut self) -> Commit {
        (self.taken_bytes, self.has_work) = (0, false);
        let mut answers = Vec::new();
        let Self { sessions, senders, .. } = self;
        for (&peer, session) in sessions {
            let greeting = session.greeting.take().map(|greeting| match greeting {
                Greeting::Welcome => Packet::Welcome(senders.lanes(session.sender)),
                Greeting::Refusal(epoch) => Packet::Refused { epoch },
            });
            answers.extend(greeting.map(|greeting| (peer, greeting.encode())));
            if session.fresh != session.fresh_acked || !session.spans.is_empty() {
                session.fresh_acked = session.fresh;
                let (fresh, fresh_messages) = (session.fresh, session.fresh_messages);
                let acks = Packet::Acks { fresh, fresh_messages, spans: std::mem::take(&mut session.spans) };
                answers.push((peer, acks.encode()));
            }
        }
        Commit {
            lines: std::mem::take(&mut self.lines),
            broker_lines: std::mem::take(&mut self.broker_lines),
            spans: std::mem::take(&mut self.spans),
            starts: std::mem::take(&mut self.starts),
            counters: std::mem::take(&mut self.counters),
            answers,
            causes: std::mem::take(&mut self.causes),
            now_us: self.arrivals.now_us,
        }
    }

    /// Relays that are connected.
    pub fn relays(&self) -> usize {
        self.current.len()
    }
}

impl FileOutput {
    /// Whether a file may belong to this output: its name starts and ends like the template.
    fn writes(&self, path: &Path) -> bool {
        let Some(name) = path.to_str() else { return false };
        match (self.template.split_once('{'), self.template.rsplit_once('}')) {
            (Some((start, _)), Some((_, end))) => name.starts_with(start) && name.ends_with(end),
            _ => name == self.template,
        }
    }
}

#[cfg(test)]
mod tests;
