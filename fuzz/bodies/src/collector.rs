//! Arbitrary peers of a collector, honest or not, on a disk that crashes: no line is written twice, every acknowledged
//! line is kept, and a refused peer does not affect the lines of others.

use std::collections::BTreeMap;
use std::path::Path;

use arbitrary::Arbitrary;
use bytes::Bytes;
use festina_syslog::collector::{self, FileOutput, Inbox, Link, Origin, Peer, Received, Store};
use festina_syslog::config::Format;
use festina_syslog::disk::{Crash, FaultyDisk};
use festina_syslog::line::Severity;
use festina_syslog::policy::PRIORITIES;
use festina_syslog::ranges::Ranges;
use festina_syslog::record::Record;
use festina_syslog::wire::{Packet, SenderId, Span, Start};

use crate::read;

const OUTPUT: &str = "/out/lines";

/// Number of peers and of relays: few, so that they collide.
const PEERS: u8 = 6;
const SENDERS: u8 = 3;

/// Maximum number of operations.
const OPERATIONS_MAX: usize = 200;

#[derive(Arbitrary, Debug)]
enum Operation {
    Raw { peer: u8, message: Vec<u8> },
    Hello { peer: u8, sender: u8, epoch: u8, nonce: u8, connection: u8, knows_earlier: bool },
    Lines { peer: u8, priority: u8, floor: u8, first: u8, count: u8, step: u8 },
    Settled { peer: u8, priority: u8, first: u8, count: u8 },
    HelloFresh { peer: u8, sender: u8 },
    Fresh { peer: u8 },
    End { peer: u8 },
    Commit,
    Crash { power: bool, after: u8 },
    Move,
}

#[derive(Clone)]
struct End;

impl Link for End {
    fn send(&self, _: Bytes) -> bool {
        true
    }

    fn abort(&self, _: &str) {}
}

struct World {
    disk: FaultyDisk,
    inbox: Inbox<End>,
    store: Store<FaultyDisk>,
    /// Associations that have begun, with the relay that each has named.
    peers: BTreeMap<u8, Option<u8>>,
    /// Numbers that a relay has called settled: they need not be written.
    settled: BTreeMap<(u8, u8), Ranges>,
    committed: String,
    fresh: u64,
    writer_sleeps: bool,
}

fn open(disk: &FaultyDisk) -> std::io::Result<(Inbox<End>, Store<FaultyDisk>)> {
    let output = FileOutput {
        template: OUTPUT.to_owned(),
        format: Format::Raw,
        rotate_bytes: Some(400),
        compression: None,
        new_files: 4,
    };
    let (collector, store) = collector::open(disk.clone(), Path::new("/state"), vec![output])?;
    Ok((Inbox::new(Some(collector)), store))
}

fn id(sender: u8) -> SenderId {
    SenderId([sender; 16])
}

fn record(sequence: u64, line: String) -> Record {
    let source = Bytes::from_static(b"source");
    Record { sequence, received_us: 0, marks: 0, severity: Severity::new(3), source, line: Bytes::from(line) }
}

impl World {
    fn new() -> Self {
        let disk = FaultyDisk::new(1);
        let (inbox, store) = open(&disk).expect("the disk works");
        Self {
            disk,
            inbox,
            store,
            peers: BTreeMap::new(),
            settled: BTreeMap::new(),
            committed: String::new(),
            fresh: 0,
            writer_sleeps: false,
        }
    }

    fn output(&self) -> String {
        let mut paths = self.disk.paths();
        paths.retain(|path| path.starts_with("/out"));
        // The name without a number is the latest.
        paths.sort_by_key(|path| (path == Path::new(OUTPUT), path.clone()));
        let contents = paths.iter().filter_map(|path| self.disk.contents(path));
        String::from_utf8(contents.flatten().collect()).expect("text")
    }

    fn give(&mut self, peer: u8, message: Bytes) {
        let peer = peer % PEERS;
        if !self.peers.contains_key(&peer) {
            self.inbox.begin(Peer(peer.into()), Origin::default(), End);
            self.peers.insert(peer, None);
        }
        let taken = self.inbox.take(Peer(peer.into()), vec![Received::new(message)], |_| {});
        self.writer_sleeps &= !taken.wakes_writer;
        if !taken.goes_on {
            self.peers.remove(&peer);
        }
    }

    fn settle(&mut self, peer: u8, priority: u8, first: u64, last: u64) {
        if let Some(Some(sender)) = self.peers.get(&(peer % PEERS)) {
            self.settled.entry((*sender, priority)).or_default().insert(first, last);
        }
    }

    fn commit(&mut self) {
        if self.writer_sleeps {
            return;
        }
        let Some(commit) = self.inbox.next_commit() else {
            self.writer_sleeps = true;
            return;
        };
        match self.store.commit(commit) {
            Ok(answers) => {
                self.committed = self.output();
                answers.into_iter().for_each(|(peer, answer)| self.check_answer(peer, answer));
            }
            Err(_) => self.restart(),
        }
    }

    /// Lines that are acknowledged are in the output.
    fn check_answer(&self, Peer(peer): Peer, answer: Bytes) {
        let Some(Some(sender)) = u8::try_from(peer).ok().and_then(|peer| self.peers.get(&peer)) else { return };
        let Ok(Packet::Acks { spans, .. }) = Packet::decode(answer) else { return };
        for Span { priority, first, last } in spans {
            for number in first..=last {
                let is_settled = self.settled.get(&(*sender, priority)).is_some_and(|settled| settled.contains(number));
                let line = format!("{sender} {priority} {number}\n");
                assert!(is_settled || self.committed.contains(&line), "{line:?} was answered for");
            }
        }
    }

    fn restart(&mut self) {
        if !self.disk.has_crashed() {
            self.disk.crash(Crash::Process);
        }
        self.disk = self.disk.restarted();
        (self.inbox, self.store) = open(&self.disk).expect("the state can be read");
        self.peers.clear();
        self.writer_sleeps = false;
        let output = self.output();
        assert!(output.starts_with(&self.committed), "{:?} {output:?}", self.committed);
        self.committed = output;
    }

    fn hello(&mut self, peer: u8, sender: u8, start: Start, connection: u8, knows_earlier: bool) {
        let earlier = |epoch: u32| (0..4).map(move |nonce| Start { epoch, nonce });
        let before = if knows_earlier { (0..start.epoch).flat_map(earlier).take(32).collect() } else { Vec::new() };
        let hello = Packet::Hello { sender: id(sender), start, connection: connection.into(), before };
        self.give(peer, hello.encode());
        if let Some(named @ None) = self.peers.get_mut(&(peer % PEERS)) {
            *named = Some(sender);
        }
    }

    fn act(&mut self, operation: Operation) {
        match operation {
            Operation::Raw { peer, message } => {
                let is_lines =
                    matches!(Packet::decode(Bytes::from(message.clone())), Ok(Packet::Lines { .. } | Packet::Fresh(_)));
                // Lines come from the other operations, which number them.
                if is_lines {
                    return;
                }
                // Everything of this relay may be settled by it.
                self.give(peer, Bytes::from(message));
                (0..PRIORITIES).for_each(|priority| self.settle(peer, priority, 0, u64::MAX - 1));
            }
            Operation::Hello { peer, sender, epoch, nonce, connection, knows_earlier } => {
                let start = Start { epoch: (epoch % 8).into(), nonce: (nonce % 4).into() };
                self.hello(peer, sender % SENDERS, start, connection, knows_earlier);
            }
            Operation::Lines { peer, priority, floor, first, count, step } => {
                let priority = priority % PRIORITIES;
                let Some(Some(sender)) = self.peers.get(&(peer % PEERS)).copied() else { return };
                let numbers = (0..u64::from(count % 16)).map(|at| u64::from(first) + at * u64::from(step % 3 + 1));
                let records = numbers.map(|number| record(number, format!("{sender} {priority} {number}"))).collect();
                if let Some(last) = u64::from(floor).checked_sub(1) {
                    self.settle(peer, priority, 0, last);
                }
                self.give(peer, Packet::Lines { priority, floor: floor.into(), records }.encode());
            }
            Operation::Settled { peer, priority, first, count } => {
                let (priority, first) = (priority % PRIORITIES, u64::from(first));
                let last = first + u64::from(count);
                self.settle(peer, priority, first, last);
                self.give(peer, Packet::Settled(vec![Span { priority, first, last }]).encode());
            }
            Operation::HelloFresh { peer, sender } => {
                self.give(peer, Packet::HelloFresh { sender: id(sender % SENDERS) }.encode());
            }
            Operation::Fresh { peer } => {
                self.fresh += 1;
                let line = format!("fresh {}", self.fresh);
                self.give(peer, Packet::Fresh(vec![record(0, line)]).encode());
            }
            Operation::End { peer } => {
                self.inbox.end(Peer((peer % PEERS).into()));
                self.peers.remove(&(peer % PEERS));
            }
            Operation::Commit => self.commit(),
            Operation::Crash { power, after } => {
                self.disk.crash_after((after % 16).into(), if power { Crash::Power } else { Crash::Process });
                self.commit();
                self.restart();
            }
            Operation::Move => {
                let paths = self.disk.paths();
                let number = |path: &Path| path.to_str()?.strip_prefix(OUTPUT)?.strip_prefix('.')?.parse().ok();
                let last = paths.iter().filter_map(|path| number(path)).max().unwrap_or(0_u32);
                let to = format!("{OUTPUT}.{:06}", last + 1);
                self.disk.move_by_hand(0, Path::new(OUTPUT), Some(Path::new(&to)));
            }
        }
    }
}

/// Runs one input.
///
/// # Panics
/// If an invariant is broken.
pub fn run(data: &[u8]) {
    let Some(operations) = read::<Vec<Operation>>(data) else { return };
    let mut world = World::new();
    for operation in operations.into_iter().take(OPERATIONS_MAX) {
        world.act(operation);
    }
    // At the end, an honest relay is served.
    (0..PEERS).for_each(|peer| world.act(Operation::End { peer }));
    world.hello(0, SENDERS, Start { epoch: 1, nonce: 9 }, 1, false);
    let honest = format!("{SENDERS} 0 1");
    let records = vec![record(1, honest.clone())];
    world.give(0, Packet::Lines { priority: 0, floor: 1, records }.encode());
    while !world.writer_sleeps {
        world.commit();
    }
    world.restart();
    let mut lines: Vec<&str> = world.committed.lines().collect();
    assert!(lines.contains(&honest.as_str()));
    let count = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), count, "a line is there twice");
}
