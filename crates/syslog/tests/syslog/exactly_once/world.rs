//! A relay, one to three collectors, and all that befalls them.

mod extended;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use festina_syslog::collector::Peer;
use festina_syslog::disk::{Crash, Faults, FaultyDisk};
use festina_syslog::line::Severity;
use festina_syslog::policy::PRIORITIES;
use festina_syslog::record::{MARK_UNORDERED, Record};
use festina_syslog::sender::{Routing, Sender, SenderLimits, SyncJobs};
use festina_syslog::wire::Packet;
use festina_units::Duration;
use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::place::{Network, Place, read};
use extended::Extension;

const SOURCES: u64 = 5;

/// How much time passes with each step, in microseconds.
const STEP_US: u64 = 1_000;

/// Lines of the relay.
#[derive(Default)]
struct Kept {
    unwritten: BTreeSet<u64>,
    written: BTreeSet<u64>,
    /// They must not be lost.
    safe: BTreeSet<u64>,
    /// They were there when the relay started last.
    found: BTreeSet<u64>,
}

pub(crate) struct World {
    random: Xoshiro256PlusPlus,
    extension: Option<Extension>,
    seed: u64,
    now_us: u64,
    routing: Routing,
    relay_disk: FaultyDisk,
    relay: Sender<FaultyDisk>,
    places: Vec<Place>,
    peers: u64,
    /// The source of each line that was taken.
    lines: Vec<u64>,
    kept: Kept,
    syncing: Option<(SyncJobs<FaultyDisk>, BTreeSet<u64>)>,
    /// Lines that promise no order.
    late: BTreeSet<u64>,
    /// To which places the relay has sent lines of a source since its start.
    ways: BTreeMap<u64, BTreeSet<usize>>,
}

/// Counts of events, to check that the walk exercised them.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) lines: usize,
    pub(crate) safe: usize,
    pub(crate) in_order: usize,
    pub(crate) repeated: usize,
    /// With more than one collector, and how many of these have lines in them all.
    pub(crate) worlds_of_several: usize,
    pub(crate) places_used: usize,
    pub(crate) fresh_taken: u64,
    pub(crate) fresh_written: u64,
    /// Associations of strangers that were refused.
    pub(crate) refused: u64,
    /// Outputs that somebody moved.
    pub(crate) moved: u64,
}

fn open_relay(disk: &FaultyDisk, seed: u64, routing: &Routing, now_us: u64) -> std::io::Result<Sender<FaultyDisk>> {
    let window_lines_max = [5, 20, 1_000][usize::try_from(seed % 3).expect("small")];
    let limits = SenderLimits { bytes_max: 128 << 10, age_max: Duration::from_secs(3_600), window_lines_max };
    Sender::open(disk, Path::new("/spool"), limits, routing, [7; 16], now_us)
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let relay_disk = FaultyDisk::new(seed);
        // One collector in every other world, or else two or three.
        let count = [1, 2, 1, 3][usize::try_from(seed % 4).expect("small")];
        let rotate_bytes = (seed / 4 % 2 == 1).then_some(700);
        let mut places: Vec<Place> = (1..=count).map(|number| Place::new(seed ^ number << 40, rotate_bytes)).collect();
        let extension = Extension::new(seed);
        places.iter_mut().for_each(|place| place.is_simple = extension.is_none());
        let routing = Routing {
            collectors: (0..places.len()).map(|number| format!("collector {number}")).collect(),
            spread: seed / 8 % 2 == 1,
            after: Duration::from_micros(30 * STEP_US),
            repeat_after: seed.is_multiple_of(5).then_some(Duration::from_micros(60 * STEP_US)),
        };
        Self {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            extension,
            seed,
            now_us: 1,
            relay: open_relay(&relay_disk, seed, &routing, 1).expect("the disk works"),
            routing,
            relay_disk,
            places,
            peers: 0,
            lines: Vec::new(),
            kept: Kept::default(),
            syncing: None,
            late: BTreeSet::new(),
            ways: BTreeMap::new(),
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random.next_u64() % below
    }

    fn draw_place(&mut self) -> usize {
        let count = self.places.len() as u64;
        usize::try_from(self.draw(count)).expect("small")
    }

    fn take_line(&mut self) {
        let (number, priority) = (self.lines.len() as u64, u8::try_from(self.draw(2)).expect("small"));
        // Equal sources have equal priorities here, so that one order is to be kept for each.
        let source = self.draw(SOURCES) * 2 + u64::from(priority);
        self.lines.push(source);
        let unordered = self.draw(8) == 0;
        if unordered {
            self.late.insert(number);
        }
        let record = Record {
            sequence: 0,
            received_us: self.wall_us(),
            marks: if unordered { MARK_UNORDERED } else { 0 },
            severity: Severity::new(priority),
            source: Bytes::from(format!("source {source}")),
            line: Bytes::from(format!("{source} {number}")),
        };
        if self.relay.take(record, priority) && !self.relay_disk.has_crashed() {
            self.kept.unwritten.insert(number);
        } else {
            self.late.insert(number);
        }
        if self.draw(2) == 0 && self.relay.flush().is_ok() {
            self.note_written();
        }
    }

    fn note_written(&mut self) {
        if !self.relay_disk.has_crashed() {
            self.kept.written.append(&mut self.kept.unwritten);
        }
    }

    /// Numbers that are in no output.
    fn missing_of(&self, numbers: &BTreeSet<u64>) -> Vec<u64> {
        let there: BTreeSet<u64> =
            self.places.iter().flat_map(|place| &place.committed).map(|line| read(line).1).collect();
        numbers.difference(&there).copied().collect()
    }

    /// A collector is away: lines that were there when the relay started may wait for it.
    fn note_absence(&mut self) {
        if self.places.len() > 1 {
            self.late.extend(self.missing_of(&self.kept.found));
        }
    }

    fn connect(&mut self, at: usize) {
        self.cut(at);
        self.peers += 1;
        let hello = self.relay.connected(at, self.now_us);
        self.places[at].begin(Peer(self.peers));
        self.places[at].network = Some(Network::new(self.peers, hello));
    }

    /// The relay gives an association up; the collector may not know it yet.
    fn cut(&mut self, at: usize) {
        self.relay.disconnected(at, self.now_us);
        if let Some(network) = self.places[at].network.take() {
            self.note_absence();
            if self.draw(2) == 0 {
                self.places[at].stale.push(network);
            } else {
                self.places[at].gone(Peer(network.peer));
            }
        }
    }

    fn send(&mut self, at: usize) {
        let message = self.relay.next_message(at, PRIORITIES);
        let settled = if self.draw(4) == 0 { self.relay.settled_elsewhere(at) } else { None };
        // Sooner or later, or never.
        let which = usize::try_from(self.draw(8)).expect("small");
        let place = &mut self.places[at];
        place.sent.extend(message.iter().map(|message| (message.priority, message.slot, message.last)));
        let copy = place.sent.get(place.sent.len().saturating_sub(which + 1)).copied();
        let copy = copy.filter(|_| which < 4);
        let copy = copy.and_then(|(priority, slot, last)| self.relay.copy(at, priority, slot, last));
        let Some(network) = &mut place.network else { return };
        network.forward.entry((0, 0)).or_default().extend(settled);
        for message in message.into_iter().chain(copy) {
            let Ok(Packet::Lines { records, .. }) = Packet::decode(message.payload.clone()) else { panic!("lines") };
            for record in records {
                let (source, _) = read(std::str::from_utf8(&record.line).expect("text"));
                self.ways.entry(source).or_default().insert(at);
            }
            network.push(message);
        }
    }

    /// A collector gets a message, of a stale association now and then.
    fn deliver(&mut self, at: usize) {
        let (choice, skip) = (self.draw(4), usize::try_from(self.draw(7)).expect("small"));
        self.places[at].deliver(choice == 0, skip);
    }

    fn commit(&mut self, at: usize) {
        if !self.places[at].commit() {
            self.reopen_collector(at);
        }
    }

    fn answer(&mut self, at: usize) {
        let message = self.places[at].network.as_mut().and_then(|network| network.backward.pop_front());
        if let Some(message) = message {
            self.relay.handle(at, message, self.now_us).expect("a collector makes sense");
        }
    }

    /// A collector begins again: after an error, or in a new process.
    fn reopen_collector(&mut self, at: usize) {
        self.relay.disconnected(at, self.now_us);
        if self.places[at].network.take().is_some() {
            self.note_absence();
        }
        self.places[at].reopen(self.seed);
    }

    fn reopen_relay(&mut self, crash: Crash) {
        self.syncing = None;
        self.kept.unwritten.clear();
        for at in 0..self.places.len() {
            self.cut(at);
        }
        if crash == Crash::Power {
            self.kept.written = self.kept.safe.clone();
        }
        // Where the lines of a source were that was moved, a relay that was killed does not know.
        let moved: Vec<u64> = self.ways.iter().filter(|(_, ways)| ways.len() > 1).map(|(source, _)| *source).collect();
        let all = (0..self.lines.len() as u64).collect();
        let missing = self.missing_of(&all).into_iter();
        self.late
            .extend(missing.filter(|number| moved.contains(&self.lines[usize::try_from(*number).expect("an index")])));
        self.ways.clear();
        for attempt in 0.. {
            if attempt == 20 {
                self.relay_disk.set_faults(Faults::default());
            }
            self.relay_disk = self.relay_disk.restarted();
            match open_relay(&self.relay_disk, self.seed, &self.routing, self.now_us) {
                Ok(relay) => {
                    self.relay = relay;
                    self.places.iter_mut().for_each(|place| place.fresh.restart());
                    break;
                }
                Err(_) => assert!(attempt < 30, "seed {}: it cannot be opened", self.seed),
            }
        }
        // Opening syncs the files. Data that was not safe may have survived all the same.
        self.kept.safe = self.kept.written.clone();
        self.kept.found = all;
    }

    fn misfortune(&mut self) {
        let crash = if self.draw(2) == 0 { Crash::Process } else { Crash::Power };
        let operations = u32::try_from(self.draw(12)).expect("small");
        let at = self.draw_place();
        let faults = match self.draw(4) {
            0 => Faults { error_one_in: 6, bytes_max: None },
            1 => Faults { error_one_in: 40, bytes_max: Some(if self.places.len() == 1 { 2_000 } else { 4_000 }) },
            _ => Faults::default(),
        };
        match self.draw(8) {
            0 => self.relay_disk.crash_after(operations, crash),
            1 => self.places[at].disk.crash_after(operations, crash),
            2 => self.relay_disk.set_faults(faults),
            3 => self.places[at].disk.set_faults(faults),
            4 => self.cut(at),
            5 => {
                self.relay_disk.crash(crash);
                self.notice_crashes(crash);
                self.places[at].disk.crash(crash);
                self.notice_crashes(crash);
            }
            6 => {
                // An orderly end.
                (0..self.places.len()).for_each(|at| self.cut(at));
                if self.syncing.is_some() {
                    self.sync_elsewhere();
                }
                let _ = self.relay.sync();
                self.relay.close();
                // It may have died of something else meanwhile.
                let crash = if self.relay_disk.has_crashed() { Crash::Power } else { Crash::Process };
                self.relay_disk.crash(crash);
                self.notice_crashes(crash);
            }
            _ => {
                self.cut(at);
                self.places[at].is_cut_off = true;
            }
        }
    }

    fn notice_crashes(&mut self, crash: Crash) {
        if self.relay_disk.has_crashed() {
            self.reopen_relay(crash);
        }
        for at in 0..self.places.len() {
            if self.places[at].disk.has_crashed() {
                self.reopen_collector(at);
            }
        }
    }

    /// Begins a sync, or ends the one that was begun.
    fn sync_elsewhere(&mut self) {
        match self.syncing.take() {
            None => {
                if let Ok(jobs) = self.relay.begin_sync() {
                    self.note_written();
                    self.syncing = Some((jobs, self.kept.written.clone()));
                }
            }
            Some((jobs, written)) => {
                let synced = jobs.run();
                if self.relay.end_sync(synced).is_ok() && !self.relay_disk.has_crashed() {
                    self.kept.safe.extend(written);
                }
            }
        }
    }

    /// Time passes, in steps or more at once.
    fn keep_time(&mut self, steps: u64) {
        self.now_us += steps * STEP_US;
        self.relay.keep_time(self.now_us);
        if self.relay.standings().iter().any(|standing| standing.is_gone) {
            self.note_absence();
            if self.routing.repeat_after.is_some() {
                let all = (0..self.lines.len() as u64).collect();
                self.late.extend(self.missing_of(&all));
            }
        }
    }

    pub(crate) fn step(&mut self) {
        let at = self.draw_place();
        let is_connected = self.places[at].network.is_some();
        match self.draw(26) {
            0..=5 => self.take_line(),
            6 => self.sync_elsewhere(),
            7 if self.syncing.is_none() => {
                let synced = self.relay.sync().is_ok() && !self.relay_disk.has_crashed();
                if synced {
                    self.note_written();
                }
                self.kept.safe = if synced { self.kept.written.clone() } else { std::mem::take(&mut self.kept.safe) };
            }
            8..=11 => self.send(at),
            12..=16 => self.deliver(at),
            17 => self.places[at].begin_commit(),
            18..=19 => self.commit(at),
            20..=21 => self.answer(at),
            22..=23 if !is_connected && !self.places[at].is_cut_off => self.connect(at),
            24 if self.draw(8) == 0 => self.places[at].is_cut_off = false,
            25 if self.draw(4) == 0 => self.misfortune(),
            _ => {}
        }
        self.step_extension();
        let steps = if self.draw(50) == 0 { 20 } else { 1 };
        self.keep_time(steps);
        // A crash within an operation may have been one of the power.
        self.notice_crashes(Crash::Power);
        let (counters, unsettled) = (*self.relay.counters(), self.relay.unsettled());
        let gone =
            counters.delivered + counters.shed_full + counters.shed_old + counters.shed_unspooled + counters.lost;
        assert_eq!(counters.found + counters.taken, gone + unsettled, "seed {}: {counters:?}", self.seed);
        assert_eq!((counters.shed_full, counters.shed_old), (0, 0), "seed {}", self.seed);
        // After a power cut the ledger may name a file whose lines a collector has that is away: those count as lost, and are in its output.
        assert!(counters.lost == 0 || self.places.len() > 1, "seed {}: {counters:?}", self.seed);
    }

    /// All is well again, and everything arrives.
    pub(crate) fn finish(&mut self) {
        self.relay_disk.set_faults(Faults::default());
        for place in &mut self.places {
            place.disk.set_faults(Faults::default());
            place.is_cut_off = false;
        }
        self.notice_crashes(Crash::Power);
        for _ in 0..20_000 {
            // As the relay does every few milliseconds.
            let _ = self.relay.sync();
            for at in 0..self.places.len() {
                if self.places[at].network.is_none() {
                    self.connect(at);
                }
                self.send(at);
                self.deliver(at);
                self.places[at].begin_commit();
                self.commit(at);
                self.answer(at);
                self.finish_fresh(at);
            }
            self.keep_time(1);
            self.notice_crashes(Crash::Power);
            let all_here = (0..self.places.len()).all(|at| self.relay.is_welcomed(at));
            let fresh_is_done = self.places.iter().all(|place| place.fresh.queue.counts(0).underway == 0);
            if all_here && self.relay.unsettled() == 0 && fresh_is_done {
                return;
            }
        }
        let fresh: Vec<_> = self.places.iter().map(|place| place.fresh.queue.counts(0)).collect();
        panic!("seed {}: {} lines do not arrive, {fresh:?}", self.seed, self.relay.unsettled());
    }

    /// Lines that are in more than one output. Where they came the second time they came late.
    fn repeated(&self) -> BTreeSet<u64> {
        let mut once = BTreeSet::new();
        let all = self.places.iter().flat_map(Place::output);
        all.map(|line| read(&line).1).filter(|&number| !once.insert(number)).collect()
    }

    pub(crate) fn check(&self, tally: &mut Tally) {
        self.check_fresh(tally);
        let (mut everywhere, repeated) = (BTreeSet::new(), self.repeated());
        for (at, place) in self.places.iter().enumerate() {
            let (mut seen, mut last) = (BTreeSet::new(), BTreeMap::new());
            for line in &place.output() {
                let (source, number) = read(line);
                assert!(seen.insert(number), "seed {}: line {number} is twice at {at}", self.seed);
                if !everywhere.insert(number) {
                    assert!(self.routing.repeat_after.is_some(), "seed {}: line {number} is twice", self.seed);
                    tally.repeated += 1;
                }
                if !self.late.contains(&number) && !repeated.contains(&number) {
                    tally.in_order += 1;
                    let before = last.insert(source, number);
                    assert!(
                        before.is_none_or(|before| before < number),
                        "seed {}: {before:?} {number} at {at}",
                        self.seed
                    );
                }
            }
        }
        if self.places.len() > 1 {
            tally.worlds_of_several += 1;
            tally.places_used += self.places.iter().filter(|place| !place.output().is_empty()).count();
        }
        let lost: Vec<_> = self.kept.safe.difference(&everywhere).collect();
        assert!(lost.is_empty(), "seed {}: lost {lost:?}", self.seed);
        tally.lines += self.lines.len();
        tally.safe += self.kept.safe.len();
    }
}
