//! A collector over a disk that fails, and the network between it and the relay.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use festina_syslog::collector::{
    self, Collector, Commit, FileOutput, Inbox, Link, Origin, Peer, Received, RelayError, Store,
};
use festina_syslog::config::Format;
use festina_syslog::disk::{Faults, FaultyDisk};
use festina_syslog::sender::{FreshQueue, Outgoing};

/// An association and the packets under way in it.
#[derive(Default)]
pub(crate) struct Network {
    pub(crate) peer: u64,
    pub(crate) forward: BTreeMap<(u8, u8), VecDeque<Bytes>>,
    pub(crate) backward: VecDeque<Bytes>,
}

/// An association for fresh lines. Any packet may be lost or overtaken: the first message is delivered at any time.
#[derive(Default)]
pub(crate) struct FreshNetwork {
    pub(crate) peer: u64,
    pub(crate) hello: Option<Bytes>,
    pub(crate) lines: VecDeque<Bytes>,
    /// Messages that the collector's transport has received, and those of them that the relay's transport knows of.
    pub(crate) received: u64,
    pub(crate) acked: u64,
    pub(crate) backward: VecDeque<Bytes>,
}

/// The relay's fresh lines for one collector.
#[derive(Default)]
pub(crate) struct Fresh {
    pub(crate) queue: FreshQueue,
    pub(crate) network: Option<FreshNetwork>,
    /// Lines that this process of the relay has taken.
    pub(crate) taken: u64,
    /// Lines that earlier processes have counted as delivered.
    pub(crate) delivered_before: u64,
}

impl Fresh {
    /// Ends the relay's process.
    pub(crate) fn restart(&mut self) {
        self.delivered_before += self.queue.counts(0).delivered;
        (self.queue, self.network, self.taken) = Default::default();
    }

    pub(crate) fn disconnect(&mut self) {
        self.queue.disconnected();
        self.network = None;
    }
}

/// The collector's end of an association. Answers go their own way here.
#[derive(Clone)]
pub(crate) struct End;

impl Link for End {
    fn send(&self, _: Bytes) -> bool {
        true
    }

    fn abort(&self, _: &str) {}
}

/// A collector, and how the relay reaches it.
pub(crate) struct Place {
    pub(crate) disk: FaultyDisk,
    inbox: Inbox<End>,
    /// The thread that writes was woken and has not found the inbox empty since.
    writer_is_awake: bool,
    /// The writer is always awake, and takes commits that are empty.
    pub(crate) is_simple: bool,
    pub(crate) fresh: Fresh,
    pub(crate) store: Store<FaultyDisk>,
    pub(crate) commits: VecDeque<Commit>,
    pub(crate) network: Option<Network>,
    /// Associations that the relay has given up and the collector has not: they may still deliver.
    pub(crate) stale: Vec<Network>,
    /// The collector cannot be reached.
    pub(crate) is_cut_off: bool,
    /// Priority, slot and last number of messages of lines.
    pub(crate) sent: Vec<(u8, u8, u64)>,
    /// Lines in the output at the last commit.
    pub(crate) committed: Vec<String>,
    pub(crate) rotate_bytes: Option<u64>,
    /// Files that somebody has moved, with their lengths then: nothing is added to them.
    moved: Vec<(PathBuf, usize)>,
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

/// The beginning of fresh lines; a number follows.
pub(crate) const FRESH: &str = "fresh ";

/// Where the collector writes.
const OUTPUT: &str = "/out/lines.log";

fn open_collector(disk: &FaultyDisk, rotate_bytes: Option<u64>) -> std::io::Result<(Collector, Store<FaultyDisk>)> {
    let template = OUTPUT.to_owned();
    let output = FileOutput { template, format: Format::Raw, rotate_bytes, compression: None, new_files: 4 };
    collector::open(disk.clone(), Path::new("/state"), vec![output])
}

impl Place {
    /// `rotate_bytes`: a larger file of lines gets another name.
    pub(crate) fn new(seed: u64, rotate_bytes: Option<u64>) -> Self {
        let disk = FaultyDisk::new(seed);
        let (front, store) = open_collector(&disk, rotate_bytes).expect("the disk works");
        Self {
            disk,
            inbox: Inbox::new(Some(front)),
            writer_is_awake: true,
            is_simple: false,
            fresh: Fresh::default(),
            store,
            commits: VecDeque::new(),
            network: None,
            stale: Vec::new(),
            is_cut_off: false,
            sent: Vec::new(),
            committed: Vec::new(),
            rotate_bytes,
            moved: Vec::new(),
        }
    }

    /// Gives the collector a message.
    pub(crate) fn handle(&mut self, peer: Peer, message: Bytes) -> Result<(), RelayError> {
        let taken = self.inbox.take(peer, vec![Received::new(message)], |_| {});
        self.writer_is_awake |= taken.wakes_writer;
        taken.refused.map_or(Ok(()), Err)
    }

    /// An association begins.
    pub(crate) fn begin(&mut self, peer: Peer) {
        self.inbox.begin(peer, Origin::default(), End);
    }

    /// An association ends.
    pub(crate) fn gone(&mut self, peer: Peer) {
        self.inbox.end(peer);
    }

    /// The reliable lines of the output, rotated files first.
    pub(crate) fn output(&self) -> Vec<String> {
        let mut lines = self.all_output();
        lines.retain(|line| !line.starts_with(FRESH));
        lines
    }

    /// The numbers of the fresh lines of the output. The last line may be half written, until the collector begins again.
    pub(crate) fn fresh_output(&self) -> Vec<u64> {
        let lines = self.all_output();
        lines.iter().filter_map(|line| line.strip_prefix(FRESH)?.parse().ok()).collect()
    }

    fn all_output(&self) -> Vec<String> {
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
        let first_waits = !self.is_simple && skip % 2 == 1;
        let first = network.forward.get_mut(&(0, 0)).filter(|_| !first_waits).and_then(VecDeque::pop_front);
        let waiting = network.forward.values_mut().filter(|queue| !queue.is_empty()).count();
        let mut others = network.forward.values_mut().filter(|queue| !queue.is_empty());
        let message = first.or_else(|| others.nth(skip % waiting.max(1)).and_then(VecDeque::pop_front));
        let peer = Peer(network.peer);
        if let Some(message) = message {
            self.handle(peer, message).expect("an honest relay is not refused");
        } else if is_stale {
            self.stale.pop();
            self.gone(peer);
        }
    }

    /// Delivers a message of the association for fresh lines: the first one, or one of the others.
    pub(crate) fn deliver_fresh(&mut self, is_first: bool, which: usize) {
        let Some(network) = &mut self.fresh.network else { return };
        let line = |lines: &mut VecDeque<Bytes>| lines.remove(which % lines.len().max(1));
        let message = match is_first {
            true => network.hello.take().or_else(|| line(&mut network.lines)),
            false => line(&mut network.lines).or_else(|| network.hello.take()),
        };
        let peer = Peer(network.peer);
        if let Some(message) = message {
            network.received += 1;
            self.handle(peer, message).expect("an honest relay is not refused");
        }
    }

    /// The writer takes a commit, if it was woken for one.
    pub(crate) fn begin_commit(&mut self) {
        if self.is_simple {
            self.commits.push_back(self.inbox.next_commit().unwrap_or_default());
        } else if self.writer_is_awake {
            let commit = self.inbox.next_commit();
            self.writer_is_awake = commit.is_some();
            self.commits.extend(commit);
        }
    }

    /// Somebody moves the output away, as logrotate does.
    pub(crate) fn move_output(&mut self) -> bool {
        let length = self.disk.contents(Path::new(OUTPUT)).map_or(0, |bytes| bytes.len());
        if length == 0 || self.disk.has_crashed() {
            return false;
        }
        let paths = self.disk.paths();
        let numbers =
            paths.iter().filter_map(|path| path.to_str()?.strip_prefix(OUTPUT)?.strip_prefix('.')?.parse().ok());
        let to = PathBuf::from(format!("{OUTPUT}.{:06}", numbers.max().unwrap_or(0_u32) + 1));
        self.disk.move_by_hand(0, Path::new(OUTPUT), Some(&to));
        self.moved.push((to, length));
        true
    }

    /// Lines are in the file that has the name at that time.
    pub(crate) fn check_moved(&self, seed: u64) {
        for (path, length) in self.moved.iter().filter(|_| !self.disk.has_crashed()) {
            let now = self.disk.contents(path).map_or(0, |bytes| bytes.len());
            assert_eq!(now, *length, "seed {seed}: {}", path.display());
        }
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
            } else if let Some(network) = self.fresh.network.as_mut().filter(|network| Peer(network.peer) == peer) {
                network.backward.push_back(message);
            }
        }
        true
    }

    /// Restarts the collector and checks that its committed lines are there.
    pub(crate) fn reopen(&mut self, seed: u64) {
        self.commits.clear();
        self.stale.clear();
        self.fresh.disconnect();
        self.writer_is_awake = true;
        for attempt in 0.. {
            if attempt == 20 {
                self.disk.set_faults(Faults::default());
            }
            self.disk = self.disk.restarted();
            match open_collector(&self.disk, self.rotate_bytes) {
                Ok((front, store)) => {
                    (self.inbox, self.store) = (Inbox::new(Some(front)), store);
                    break;
                }
                Err(_) => assert!(attempt < 30, "seed {seed}: it cannot be opened"),
            }
        }
        // A crash of the machine may have undone a move.
        let disk = &self.disk;
        self.moved.retain(|(path, _)| disk.contents(path).is_some());
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
