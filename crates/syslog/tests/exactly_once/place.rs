//! A collector over a disk that fails, and the network between it and the relay.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use festina_syslog::collector::{self, Collector, Commit, FileOutput, Peer, Store};
use festina_syslog::config::Format;
use festina_syslog::disk::{Faults, FaultyDisk};
use festina_syslog::sender::Outgoing;

/// An association: what is under way in it.
#[derive(Default)]
pub(crate) struct Network {
    pub(crate) peer: u64,
    pub(crate) forward: BTreeMap<(u8, u8), VecDeque<Bytes>>,
    pub(crate) backward: VecDeque<Bytes>,
}

/// A collector, and how the relay reaches it.
pub(crate) struct Place {
    pub(crate) disk: FaultyDisk,
    pub(crate) front: Collector,
    pub(crate) store: Store<FaultyDisk>,
    pub(crate) commits: VecDeque<Commit>,
    pub(crate) network: Option<Network>,
    /// Associations that the relay has given up and the collector has not: they may still deliver.
    pub(crate) stale: Vec<Network>,
    /// Nobody reaches it.
    pub(crate) is_cut_off: bool,
    /// Priority, slot and last number of messages of lines.
    pub(crate) sent: Vec<(u8, u8, u64)>,
    /// What was in the output at the last commit.
    pub(crate) committed: Vec<String>,
    pub(crate) rotate_bytes: Option<u64>,
}

impl Network {
    pub(crate) fn new(peer: u64, hello: Bytes) -> Self {
        let mut network = Self { peer, ..Self::default() };
        network.forward.entry((0, 0)).or_default().push_back(hello);
        network
    }

    /// A message leaves, and overtakes others if it may.
    pub(crate) fn push(&mut self, message: Outgoing) {
        let queue = self.forward.entry((message.priority + 1, message.slot)).or_default();
        if message.unordered && queue.len() > 1 {
            queue.insert(1, message.payload);
        } else {
            queue.push_back(message.payload);
        }
    }
}

/// Where the collector writes.
const OUTPUT: &str = "/out/lines.log";

fn open_collector(disk: &FaultyDisk, rotate_bytes: Option<u64>) -> std::io::Result<(Collector, Store<FaultyDisk>)> {
    let template = OUTPUT.to_owned();
    let output = FileOutput { template, format: Format::Raw, rotate_bytes, compression: None };
    collector::open(disk.clone(), Path::new("/state"), vec![output])
}

impl Place {
    /// `rotate_bytes`: a larger file of lines gets another name.
    pub(crate) fn new(seed: u64, rotate_bytes: Option<u64>) -> Self {
        let disk = FaultyDisk::new(seed);
        let (front, store) = open_collector(&disk, rotate_bytes).expect("the disk works");
        Self {
            disk,
            front,
            store,
            commits: VecDeque::new(),
            network: None,
            stale: Vec::new(),
            is_cut_off: false,
            sent: Vec::new(),
            committed: Vec::new(),
            rotate_bytes,
        }
    }

    /// The lines of the output, rotated files first.
    pub(crate) fn output(&self) -> Vec<String> {
        let mut paths = self.disk.paths();
        paths.retain(|path| path.starts_with("/out"));
        // "lines.log" is the last of "lines.log.000001" and its like.
        let current = PathBuf::from(OUTPUT);
        paths.retain(|path| *path != current);
        paths.push(current);
        let contents = paths.iter().filter_map(|path| self.disk.contents(path));
        let text = String::from_utf8(contents.flatten().collect()).expect("text");
        text.lines().map(str::to_owned).collect()
    }

    /// It gets a message, of a stale association if that was chosen.
    pub(crate) fn deliver(&mut self, is_stale: bool, skip: usize) {
        let network = if is_stale { self.stale.last_mut() } else { self.network.as_mut() };
        let Some(network) = network else { return };
        let first = network.forward.get_mut(&(0, 0)).and_then(VecDeque::pop_front);
        let waiting = network.forward.values_mut().filter(|queue| !queue.is_empty()).count();
        let mut others = network.forward.values_mut().filter(|queue| !queue.is_empty());
        let message = first.or_else(|| others.nth(skip % waiting.max(1)).and_then(VecDeque::pop_front));
        let peer = Peer(network.peer);
        if let Some(message) = message {
            self.front.handle(peer, message).expect("a relay makes sense");
        } else if is_stale {
            self.stale.pop();
            self.front.gone(peer);
        }
    }

    pub(crate) fn begin_commit(&mut self) {
        self.commits.push_back(self.front.begin_commit());
    }

    /// The store does the oldest commit, if any waits. Returns whether it still works.
    pub(crate) fn commit(&mut self) -> bool {
        let Some(commit) = self.commits.pop_front() else { return true };
        let result = self.store.commit(commit);
        if self.disk.has_crashed() {
            return true;
        }
        let Ok(answers) = result else { return false };
        self.committed = self.output();
        for (peer, message) in answers {
            if let Some(network) = self.network.as_mut().filter(|network| Peer(network.peer) == peer) {
                network.backward.push_back(message);
            }
        }
        true
    }

    /// It begins again, and what it had committed is there.
    pub(crate) fn reopen(&mut self, seed: u64) {
        self.commits.clear();
        self.stale.clear();
        for attempt in 0.. {
            if attempt == 20 {
                self.disk.set_faults(Faults::default());
            }
            self.disk = self.disk.restarted();
            match open_collector(&self.disk, self.rotate_bytes) {
                Ok(opened) => {
                    (self.front, self.store) = opened;
                    break;
                }
                Err(_) => assert!(attempt < 30, "seed {seed}: it cannot be opened"),
            }
        }
        let output = self.output();
        assert!(output.starts_with(&self.committed), "seed {seed}: {:?} {output:?}", self.committed);
        self.committed = output;
    }
}

/// The source and the number of a line of an output.
pub(crate) fn read(line: &str) -> (u64, u64) {
    let (source, number) = line.split_once(' ').expect("two words");
    (source.parse().expect("a number"), number.parse().expect("a number"))
}
