//! A collector on a disk that fails, tears and forgets, with a broker that loses answers, takes lines late, is away, and is there when the
//! collector dies: each line is once in the topic, in order, the files have the same lines, and no line is answered before it is in both.
//! In two runs of three, files are rotated and compressed meanwhile. The seed decides everything:
//!
//! ```text
//! TEST_SEEDS=17..18 cargo test -p festina-syslog --test syslog broker
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use festina_syslog::collector::{
    self, Broker, BrokerLine, BrokerOutput, Collector, Commit, CompressJob, FileOutput, Peer, Store,
};
use festina_syslog::config::{Compression, Format};
use festina_syslog::disk::{Crash, Faults, FaultyDisk};
use festina_syslog::line::Severity;
use festina_syslog::ranges::Ranges;
use festina_syslog::record::Record;
use festina_syslog::wire::{Packet, SenderId, Start};
use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::seeds;

fn hello(connection: u32) -> Packet {
    Packet::Hello { sender: SenderId([1; 16]), start: Start { epoch: 1, nonce: 1 }, connection, before: Vec::new() }
}

/// In fewer worlds, some events may be rare.
const WORLDS_MIN: u64 = 1_000;

/// What happened in all runs: a test in which it does not happen would show nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Events {
    /// The broker had taken the lines, and the collector did not hear it.
    unheard: u64,
    /// A request of a collector that had given it up arrived, and was refused.
    refused_late: u64,
    /// One arrived before anybody had taken over.
    taken_late: u64,
    /// The collector died while the broker decided.
    deaths: u64,
    /// The collector was stopped while the broker was away.
    ended: u64,
}

/// What the broker has.
struct Cluster {
    random: Xoshiro256PlusPlus,
    topic: Vec<u64>,
    last: BTreeMap<String, u64>,
    /// The epoch of the latest takeover.
    epoch: u64,
    /// A request whose client no longer waits for the answer.
    under_way: Option<(u64, String, u64, Vec<u64>)>,
    is_away: bool,
    is_kind: bool,
    events: Events,
}

impl Cluster {
    fn draw(&mut self, below: u64) -> u64 {
        self.random.next_u64() % below
    }

    fn take(&mut self, name: &str, number: u64, lines: &[u64]) {
        self.topic.extend(lines);
        self.last.insert(name.to_owned(), number);
    }

    /// A request that is under way arrives.
    fn arrive(&mut self) {
        if let Some((epoch, name, number, lines)) = self.under_way.take() {
            if epoch == self.epoch {
                self.events.taken_late += 1;
                self.take(&name, number, &lines);
            } else {
                self.events.refused_late += 1;
            }
        }
    }
}

/// A collector's way to the broker.
struct Client {
    cluster: Arc<Mutex<Cluster>>,
    disk: FaultyDisk,
    name: String,
    epoch: u64,
}

fn lock(cluster: &Mutex<Cluster>) -> MutexGuard<'_, Cluster> {
    cluster.lock().expect("no test has failed")
}

impl Client {
    /// Kills the collector while the broker works on its request.
    fn die(&self, cluster: &mut Cluster) {
        let crash = if cluster.draw(2) == 0 { Crash::Process } else { Crash::Power };
        cluster.events.deaths += 1;
        self.disk.crash(crash);
    }
}

impl Broker for Client {
    fn take_over(&mut self, name: &str) -> io::Result<Option<u64>> {
        let cluster = &mut *lock(&self.cluster);
        if self.disk.has_crashed() || cluster.is_away {
            return Err(io::Error::other("the broker cannot be reached"));
        }
        // A commit that was under way is finished now, or may still arrive later.
        if cluster.draw(3) == 0 {
            cluster.arrive();
        }
        cluster.epoch += 1;
        (self.name, self.epoch) = (name.to_owned(), cluster.epoch);
        match cluster.draw(12) {
            _ if cluster.is_kind => {}
            0 => return Err(io::Error::other("the answer is lost")),
            1 => {
                self.die(cluster);
                return Err(io::Error::other("the answer reaches a dead collector"));
            }
            _ => {}
        }
        Ok(cluster.last.get(name).copied())
    }

    fn commit(&mut self, number: u64, lines: &[BrokerLine]) -> io::Result<()> {
        let cluster = &mut *lock(&self.cluster);
        let numbers: Vec<u64> = lines.iter().map(|line| line.number.expect("all have one").1).collect();
        assert!(!self.disk.has_crashed(), "a dead collector hands nothing over");
        if cluster.is_away || self.epoch != cluster.epoch {
            return Err(io::Error::other("the broker cannot be reached"));
        }
        cluster.arrive();
        let outcome = if cluster.is_kind { 9 } else { cluster.draw(10) };
        match outcome {
            // Refused, or lost on the way.
            0 => {}
            1 => {
                cluster.under_way = Some((self.epoch, self.name.clone(), number, numbers));
                if cluster.draw(2) == 0 {
                    self.die(cluster);
                }
            }
            2 => {
                cluster.events.unheard += 1;
                cluster.take(&self.name, number, &numbers);
            }
            3 => {
                cluster.take(&self.name, number, &numbers);
                self.die(cluster);
            }
            4 => self.die(cluster),
            _ => {
                cluster.take(&self.name, number, &numbers);
                return Ok(());
            }
        }
        Err(io::Error::other("no answer"))
    }

    fn pause(&mut self, _: &io::Error) -> bool {
        let cluster = &mut *lock(&self.cluster);
        match cluster.draw(8) {
            0 => cluster.arrive(),
            1 => cluster.is_away = false,
            2 if !cluster.is_kind => {
                cluster.events.ended += 1;
                return false;
            }
            _ => {}
        }
        !self.disk.has_crashed()
    }
}

struct World {
    random: Xoshiro256PlusPlus,
    seed: u64,
    disk: FaultyDisk,
    cluster: Arc<Mutex<Cluster>>,
    front: Collector,
    store: Store<FaultyDisk>,
    commits: VecDeque<Commit>,
    jobs: VecDeque<CompressJob<FaultyDisk>>,
    /// Drawn for each collector that is opened; only the first may count.
    names: u8,
    relay: Relay,
}

/// Lines 1 to `taken`, and what of them was answered for.
#[derive(Default)]
struct Relay {
    taken: u64,
    peer: u64,
    is_welcomed: bool,
    sent: u64,
    settled: Ranges,
}

const OUTPUT: &str = "/out/lines";

fn record(sequence: u64) -> Record {
    Record {
        sequence,
        received_us: sequence,
        marks: 0,
        severity: Severity::new(3),
        source: Bytes::from(format!("source {}", sequence % 3)),
        line: Bytes::from(sequence.to_string()),
    }
}

/// How the files of a run are compressed, if they are.
fn compression(seed: u64) -> Option<Compression> {
    [None, Some(Compression::Gzip), Some(Compression::Zstd)][usize::try_from(seed % 3).expect("small")]
}

fn open(
    disk: &FaultyDisk,
    cluster: &Arc<Mutex<Cluster>>,
    seed: u64,
    name: u8,
) -> io::Result<(Collector, Store<FaultyDisk>)> {
    let compression = compression(seed);
    let rotate_bytes = compression.map(|_| 40);
    let output =
        FileOutput { template: OUTPUT.to_owned(), format: Format::Raw, rotate_bytes, compression, new_files: 4 };
    let client = Client { cluster: Arc::clone(cluster), disk: disk.clone(), name: String::new(), epoch: 0 };
    let broker = BrokerOutput { broker: Box::new(client), format: Format::Raw, new_name: [name; 16] };
    collector::open_with_broker(disk.clone(), Path::new("/state"), vec![output], Some(broker))
}

/// Returns the contents of a file, compressed or not.
fn read(path: &Path, bytes: &[u8]) -> String {
    let (mut text, mut rest) = (String::new(), bytes);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => {
            flate2::read::MultiGzDecoder::new(rest).read_to_string(&mut text).expect("it is whole");
        }
        Some("zst") => {
            while !rest.is_empty() {
                let decoder = ruzstd::decoding::StreamingDecoder::new(&mut rest);
                decoder.expect("it is whole").read_to_string(&mut text).expect("it is whole");
            }
        }
        _ => text.push_str(std::str::from_utf8(rest).expect("text")),
    }
    text
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = FaultyDisk::new(seed);
        let cluster = Cluster {
            random: Xoshiro256PlusPlus::seed_from_u64(!seed),
            topic: Vec::new(),
            last: BTreeMap::new(),
            epoch: 0,
            under_way: None,
            is_away: false,
            is_kind: false,
            events: Events::default(),
        };
        let cluster = Arc::new(Mutex::new(cluster));
        let (front, store) = open(&disk, &cluster, seed, 1).expect("the disk works");
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let relay = Relay { settled: first_is_settled(), ..Relay::default() };
        let (commits, jobs) = (VecDeque::new(), VecDeque::new());
        Self { random, seed, disk, cluster, front, store, commits, jobs, names: 1, relay }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random.next_u64() % below
    }

    fn connect(&mut self) {
        self.front.gone(Peer(self.relay.peer));
        self.relay.peer += 1;
        (self.relay.is_welcomed, self.relay.sent) = (false, 0);
        let connection = u32::try_from(self.relay.peer).expect("small");
        let hello = hello(connection);
        self.front.handle(Peer(self.relay.peer), hello.encode()).expect("a hello");
    }

    /// A few of the lines that were not answered for, in their order.
    fn send(&mut self) {
        let count = 1 + usize::try_from(self.draw(4)).expect("small");
        if !self.relay.is_welcomed {
            return;
        }
        let relay = &self.relay;
        let open = (relay.sent + 1..=relay.taken).filter(|&number| !relay.settled.contains(number));
        let records: Vec<Record> = open.take(count).map(record).collect();
        let Some(last) = records.last() else { return };
        self.relay.sent = last.sequence;
        let lines = Packet::Lines { priority: 0, floor: self.relay.settled.floor(), records };
        self.front.handle(Peer(self.relay.peer), lines.encode()).expect("lines");
    }

    fn commit(&mut self) {
        let Some(commit) = self.commits.pop_front() else { return };
        let result = self.store.commit(commit);
        match result {
            Ok(answers) if !self.disk.has_crashed() => {
                answers.into_iter().for_each(|(peer, answer)| self.answer(peer, answer));
            }
            _ => self.reopen(),
        }
    }

    fn answer(&mut self, peer: Peer, answer: Bytes) {
        let before = self.relay.settled.clone();
        match Packet::decode(answer).expect("an answer") {
            Packet::Welcome(ranges) if peer == Peer(self.relay.peer) => {
                self.relay.is_welcomed = true;
                self.relay.settled.raise(ranges[0].floor());
                ranges[0].above().for_each(|(first, last)| self.relay.settled.insert(first, last));
            }
            Packet::Acks { spans, .. } => {
                spans.iter().for_each(|span| self.relay.settled.insert(span.first, span.last));
            }
            _ => {}
        }
        let file = self.file();
        let topic = &lock(&self.cluster).topic;
        for number in (1..=self.relay.taken).filter(|&number| !before.contains(number)) {
            if self.relay.settled.contains(number) {
                let is_there = topic.contains(&number) && file.contains(&number);
                assert!(is_there, "seed {}: {number} is answered for, and not everywhere", self.seed);
            }
        }
    }

    /// The lines of all files: those with a number first. Of one that is there twice, being compressed, each counts alone.
    fn file(&self) -> Vec<u64> {
        let mut paths = self.disk.paths();
        paths.retain(|path| path.starts_with("/out") && path.extension() != Some("new".as_ref()));
        let rotated = paths.clone();
        // Compressed, and not removed yet.
        paths.retain(|path| {
            let is_twice =
                ["gz", "zst"].map(|suffix| rotated.contains(&PathBuf::from(format!("{}.{suffix}", path.display()))));
            !is_twice.contains(&true)
        });
        // "lines" is the last of "lines.000001" and its like.
        paths.retain(|path| *path != Path::new(OUTPUT));
        paths.push(OUTPUT.into());
        let texts = paths.iter().map(|path| read(path, &self.disk.contents(path).unwrap_or_default()));
        let text: String = texts.collect();
        text.lines().map(|line| line.parse().expect("a number")).collect()
    }

    /// One of the files that wait is compressed.
    fn compress(&mut self) {
        self.jobs.extend(self.store.take_jobs());
        let Some(job) = self.jobs.pop_front() else { return };
        if job.run(|| false).is_err() {
            self.jobs.push_back(job);
        } else if self.store.compressed(job.path()).is_err() {
            self.reopen();
        }
    }

    /// The collector begins again: after an error, or in a new process.
    fn reopen(&mut self) {
        self.commits.clear();
        self.jobs.clear();
        for attempt in 0.. {
            if attempt == 40 {
                self.be_kind();
            }
            self.disk = self.disk.restarted();
            self.names += 1;
            if let Ok(opened) = open(&self.disk, &self.cluster, self.seed, self.names) {
                (self.front, self.store) = opened;
                break;
            }
            assert!(attempt < 60, "seed {}: it cannot be opened", self.seed);
            let mut cluster = lock(&self.cluster);
            if cluster.draw(4) == 0 {
                cluster.is_away = false;
            }
        }
        self.connect();
    }

    fn be_kind(&self) {
        self.disk.set_faults(Faults::default());
        let mut cluster = lock(&self.cluster);
        (cluster.is_kind, cluster.is_away) = (true, false);
    }

    fn misfortune(&mut self) {
        let crash = if self.draw(2) == 0 { Crash::Process } else { Crash::Power };
        let operations = u32::try_from(self.draw(12)).expect("small");
        match self.draw(6) {
            0 | 1 => self.disk.crash_after(operations, crash),
            2 => self.disk.set_faults(Faults { error_one_in: 20, bytes_max: None }),
            3 => self.disk.set_faults(Faults::default()),
            4 => lock(&self.cluster).is_away = true,
            _ => self.disk.crash(crash),
        }
    }

    fn step(&mut self) {
        match self.draw(16) {
            0..=4 => self.relay.taken += 1 + self.draw(3),
            5..=8 => self.send(),
            9..=10 => self.commits.push_back(self.front.begin_commit()),
            11..=12 => self.commit(),
            13 => self.compress(),
            14 if self.draw(4) == 0 => self.connect(),
            15 if self.draw(4) == 0 => self.misfortune(),
            _ => lock(&self.cluster).arrive(),
        }
        if self.disk.has_crashed() {
            self.reopen();
        }
    }

    /// All is well again, and everything arrives.
    fn finish(&mut self) {
        for _ in 0..10_000 {
            self.be_kind();
            self.send();
            self.commits.push_back(self.front.begin_commit());
            self.commit();
            if self.disk.has_crashed() {
                self.reopen();
            }
            self.compress();
            if self.relay.settled.floor() > self.relay.taken && self.jobs.is_empty() {
                return;
            }
        }
        panic!("seed {}: {:?} of {}", self.seed, self.relay.settled, self.relay.taken);
    }

    fn check(&self) {
        let all: Vec<u64> = (1..=self.relay.taken).collect();
        assert_eq!(lock(&self.cluster).topic, all, "seed {}: the topic", self.seed);
        assert_eq!(self.file(), all, "seed {}: the files", self.seed);
        let mut others = self.disk.paths();
        others.retain(|path| path.starts_with("/out") && *path != Path::new(OUTPUT));
        let suffix =
            compression(self.seed).map(|compression| if compression == Compression::Gzip { "gz" } else { "zst" });
        let is_compressed = |path: &PathBuf| path.extension().and_then(|extension| extension.to_str()) == suffix;
        assert!(others.iter().all(is_compressed), "seed {}: {others:?}", self.seed);
    }
}

/// Numbers begin at 1.
fn first_is_settled() -> Ranges {
    let mut ranges = Ranges::default();
    ranges.raise(1);
    ranges
}

#[test]
fn whatever_crashes_and_is_lost_each_line_is_once_in_the_topic_and_in_the_file() {
    let mut all = Events::default();
    let seeds = seeds::extent(0..1_000, 0..4_000);
    let worlds = seeds.end - seeds.start;
    for seed in seeds {
        let mut world = World::new(seed);
        world.connect();
        for _ in 0..300 {
            world.step();
        }
        world.finish();
        world.check();
        let events = lock(&world.cluster).events;
        all.unheard += events.unheard;
        all.refused_late += events.refused_late;
        all.taken_late += events.taken_late;
        all.deaths += events.deaths;
        all.ended += events.ended;
    }
    let least = [all.unheard, all.refused_late, all.taken_late, all.deaths, all.ended].into_iter().min();
    assert!(worlds < WORLDS_MIN || least > Some(worlds / 10), "{all:?}");
}

#[test]
fn a_state_that_was_put_back_from_a_copy_is_refused() {
    let mut world = World::new(1);
    world.be_kind();
    world.connect();
    let old = FaultyDisk::new(1);
    let (_, old_store) = open(&old, &world.cluster, 1, 1).expect("the disk works");
    drop(old_store);
    world.relay.taken = 3;
    world.finish();
    // Another collector of the same name without the commits: its lines may already be in the topic.
    let (mut front, mut store) = open(&old, &world.cluster, 1, 9).expect("the disk works");
    front.handle(Peer(1), hello(99).encode()).expect("a hello");
    front.handle(Peer(1), Packet::Lines { priority: 0, floor: 0, records: vec![record(1)] }.encode()).expect("lines");
    let problem = store.commit(front.begin_commit()).expect_err("it is refused").to_string();
    assert!(problem.contains("restored from an older copy"), "{problem}");
    assert_eq!(lock(&world.cluster).topic.len(), 3);
}
