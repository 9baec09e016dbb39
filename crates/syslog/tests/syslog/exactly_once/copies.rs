//! Spools that are restored from a copy, and copies that are in use at the same time. They give equal numbers to different lines. Each line
//! that its relay counts as delivered is in the output, and all others are still in the spool.

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use festina_syslog::collector::Peer;
use festina_syslog::disk::{Crash, FaultyDisk};
use festina_syslog::line::Severity;
use festina_syslog::policy::PRIORITIES;
use festina_syslog::record::Record;
use festina_syslog::sender::{PeerError, Routing, Sender, SenderLimits, renew_identity};
use festina_units::Duration;
use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::place::{Place, read};

/// A relay of one of the copies.
struct Relay {
    disk: FaultyDisk,
    sender: Sender<FaultyDisk>,
    peer: Option<u64>,
    /// Lines that this process has taken.
    taken: BTreeSet<u64>,
    /// Why the collector refused it last.
    refused: Option<PeerError>,
}

struct World {
    random: Xoshiro256PlusPlus,
    place: Place,
    relays: Vec<Relay>,
    peers: u64,
    lines: u64,
}

fn open(disk: &FaultyDisk, random: [u8; 16]) -> Sender<FaultyDisk> {
    let routing = Routing {
        collectors: vec!["collector".to_owned()],
        spread: false,
        after: Duration::from_secs(1),
        repeat_after: None,
    };
    let limits = SenderLimits { bytes_max: 1 << 24, age_max: Duration::from_secs(3_600), window_lines_max: 64 };
    Sender::open(disk, Path::new("/spool"), limits, &routing, random, 1).expect("the disk works")
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            place: Place::new(seed, None),
            relays: Vec::new(),
            peers: 0,
            lines: 0,
        };
        let relay = world.start(FaultyDisk::new(seed));
        world.relays.push(relay);
        world
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random.next_u64() % below
    }

    /// Each start draws its own random number.
    fn start(&mut self, disk: FaultyDisk) -> Relay {
        let mut random = [0; 16];
        self.random.fill_bytes(&mut random);
        Relay { sender: open(&disk, random), disk, peer: None, taken: BTreeSet::new(), refused: None }
    }

    fn restart(&mut self, at: usize) {
        self.disconnect(at);
        self.relays[at].sender.sync().expect("the disk works");
        let disk = &self.relays[at].disk;
        disk.crash(Crash::Process);
        self.relays[at] = self.start(disk.restarted());
    }

    fn take(&mut self, at: usize) {
        let number = self.lines;
        self.lines += 1;
        let line = Bytes::from(format!("1 {number}"));
        let source = Bytes::from_static(b"source");
        let record = Record { sequence: 0, received_us: 1, marks: 0, severity: Severity::new(0), source, line };
        let relay = &mut self.relays[at];
        assert!(relay.sender.take(record, 0), "the disk works");
        relay.taken.insert(number);
    }

    fn disconnect(&mut self, at: usize) {
        self.relays[at].sender.disconnected(0, 1);
        if let Some(peer) = self.relays[at].peer.take() {
            self.place.gone(Peer(peer));
        }
    }

    /// Everything that a relay may send is sent, committed and answered.
    fn exchange(&mut self, at: usize) {
        let relay = &mut self.relays[at];
        let peer = *relay.peer.get_or_insert_with(|| {
            self.peers += 1;
            self.place.begin(Peer(self.peers));
            let hello = relay.sender.connected(0, 1);
            self.place.handle(Peer(self.peers), hello).expect("it makes sense");
            self.peers
        });
        let _ = relay.sender.sync();
        while let Some(message) = relay.sender.next_message(0, PRIORITIES) {
            self.place.handle(Peer(peer), message.payload).expect("it makes sense");
        }
        self.place.begin_commit();
        let Some(commit) = self.place.commits.pop_front() else { return };
        for (to, answer) in self.place.store.commit(commit).expect("the disk works") {
            // Answers for others are lost: their associations end.
            let at = self.relays.iter().position(|relay| relay.peer.map(Peer) == Some(to));
            let Some(at) = at else { continue };
            if let Err(error) = self.relays[at].sender.handle(0, answer, 1) {
                self.relays[at].refused = Some(error);
                self.disconnect(at);
            }
        }
    }

    /// The lines that a relay has taken and that are in no output are in its spool.
    fn check(&self, seed: u64) {
        let written: BTreeSet<u64> = self.place.output().iter().map(|line| read(line).1).collect();
        for (at, relay) in self.relays.iter().enumerate() {
            let missing = relay.taken.difference(&written).count() as u64;
            let kept = relay.sender.unsettled();
            assert!(missing <= kept, "seed {seed}, relay {at}: {missing} lines missing, {kept} kept");
        }
        assert_eq!(written.len(), self.place.output().len(), "seed {seed}: a line is there twice");
    }

    fn step(&mut self) {
        let at = usize::try_from(self.draw(self.relays.len() as u64)).expect("small");
        match self.draw(24) {
            0..=9 => self.take(at),
            10..=17 => self.exchange(at),
            18 => self.disconnect(at),
            19 | 20 => self.restart(at),
            21 if self.relays.len() < 4 => {
                // A copy of a spool while it is in use.
                let disk = self.relays[at].disk.copied();
                let copy = self.start(disk);
                self.relays.push(copy);
            }
            _ => {}
        }
    }
}

#[test]
fn a_restored_spool_loses_no_line_that_it_counts_as_delivered() {
    let mut world = World::new(1);
    let backup = world.relays[0].disk.copied();
    world.restart(0);
    for _ in 0..50 {
        world.take(0);
        world.exchange(0);
    }
    assert_eq!((world.place.output().len(), world.relays[0].sender.unsettled()), (50, 0));
    world.disconnect(0);
    // The relay goes on with the copy, and is started as often as it was.
    world.relays[0] = world.start(backup);
    for _ in 0..4 {
        for _ in 0..20 {
            world.take(0);
            world.exchange(0);
            world.check(1);
        }
        assert_eq!(world.relays[0].refused, Some(PeerError::OtherCopy));
        assert_eq!(world.place.output().len(), 50);
        world.restart(0);
    }
    assert_eq!(world.relays[0].sender.unsettled(), 80);
    // With an identity of its own its lines are those of a new relay.
    let disk = world.relays[0].disk.copied();
    renew_identity(&disk, Path::new("/spool"), [9; 16]).expect("the disk works");
    world.disconnect(0);
    world.relays[0] = world.start(disk.copied());
    for _ in 0..8 {
        world.exchange(0);
    }
    assert_eq!((world.place.output().len(), world.relays[0].sender.unsettled()), (130, 0));
}

#[test]
fn copies_of_a_relay_lose_no_line() {
    let (mut copies, mut refused, mut written) = (0, 0, 0);
    for seed in 0..400 {
        let mut world = World::new(seed);
        for _ in 0..300 {
            world.step();
            world.check(seed);
        }
        copies += world.relays.len() - 1;
        refused += world.relays.iter().filter(|relay| relay.refused == Some(PeerError::OtherCopy)).count();
        written += world.place.output().len();
        if world.relays.len() == 1 {
            assert_eq!(world.relays[0].refused, None, "seed {seed}: an honest relay");
        }
    }
    assert!(copies > 400 && refused > 100 && written > 1_000, "{copies} copies, {refused} refused, {written} written");
}

#[test]
fn a_relay_that_a_collector_has_not_seen_for_a_hundred_starts_is_welcomed() {
    let mut world = World::new(3);
    world.take(0);
    // Its welcome, and then its line.
    world.exchange(0);
    world.exchange(0);
    for _ in 0..100 {
        world.restart(0);
        world.take(0);
    }
    // The collector asks for the start that it knows, and gets it with the next association.
    for _ in 0..8 {
        world.exchange(0);
    }
    assert_eq!(world.relays[0].refused, Some(PeerError::AsksForStart(1)));
    assert_eq!((world.place.output().len(), world.relays[0].sender.unsettled()), (101, 0));
}
