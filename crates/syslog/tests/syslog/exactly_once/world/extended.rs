//! Additions to half of the worlds: fresh lines, peers that are no relays, a writer that sleeps until it is woken, outputs that somebody moves, and
//! a wall clock that jumps.

use bytes::Bytes;
use festina_syslog::collector::Peer;
use festina_syslog::line::Severity;
use festina_syslog::record::Record;
use festina_syslog::wire::{Packet, SenderId};
use festina_units::Duration;
use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::super::place::{FRESH, FreshNetwork};
use super::{STEP_US, Tally, World};

/// The choices of an extended world, which change no others.
pub(super) struct Extension {
    random: Xoshiro256PlusPlus,
    fresh_taken: u64,
    refused: u64,
    moved: u64,
    /// Difference between the wall clock and the steady one, in microseconds.
    wall_offset_us: u64,
}

impl Extension {
    /// Some worlds stay as they were, so that seeds that once found a fault still do.
    pub(super) fn new(seed: u64) -> Option<Self> {
        let random = Xoshiro256PlusPlus::seed_from_u64(!seed);
        (seed / 16 % 2 == 1).then_some(Self { random, fresh_taken: 0, refused: 0, moved: 0, wall_offset_us: 0 })
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random.next_u64() % below
    }

    fn draw_index(&mut self) -> usize {
        usize::try_from(self.draw(97)).expect("small")
    }
}

/// Messages of peers that are no relays, or no honest ones.
fn strange_message(choice: u64, random: u64) -> Bytes {
    let sender = SenderId([9; 16]);
    match choice {
        // Fresh lines before a hello.
        0 => Bytes::from_static(b"\x03"),
        1 => Packet::Lines { priority: 0, floor: 0, records: Vec::new() }.encode(),
        2 => Packet::Acks { fresh: 1, fresh_messages: 1, spans: Vec::new() }.encode(),
        3 => Packet::HelloFresh { sender }.encode(),
        4 => Packet::Settled(Vec::new()).encode(),
        5 => Bytes::new(),
        _ => Bytes::copy_from_slice(&random.to_le_bytes()),
    }
}

impl World {
    pub(super) fn step_extension(&mut self) {
        let Some(mut extension) = self.extension.take() else { return };
        let at = extension.draw_index() % self.places.len();
        match extension.draw(20) {
            0..=3 => self.take_fresh(&mut extension, at),
            4 => self.connect_fresh(at),
            5 if extension.draw(8) == 0 => self.disconnect_fresh(at),
            6..=9 => self.send_fresh(at),
            10..=13 => {
                let (first, which) = (extension.draw(3) == 0, extension.draw_index());
                self.places[at].deliver_fresh(first, which);
            }
            14..=15 => self.answer_fresh(at),
            16 => self.lose_fresh(&mut extension, at),
            17 => self.strange_peer(&mut extension, at),
            18 if extension.draw(6) == 0 => extension.moved += u64::from(self.places[at].move_output()),
            // Years forwards or back, within 30 years.
            19 if extension.draw(6) == 0 => extension.wall_offset_us = extension.draw(1 << 50),
            _ => {}
        }
        self.places.iter().for_each(|place| place.check_moved(self.seed));
        for place in &self.places {
            let counts = place.fresh.queue.counts(0);
            let fate = counts.delivered + counts.abandoned + counts.shed + counts.underway;
            assert_eq!(fate, place.fresh.taken, "seed {}: {counts:?}", self.seed);
        }
        self.extension = Some(extension);
    }

    /// The time as the wall clock says.
    pub(super) fn wall_us(&self) -> u64 {
        self.now_us + self.extension.as_ref().map_or(0, |extension| extension.wall_offset_us)
    }

    fn take_fresh(&mut self, extension: &mut Extension, at: usize) {
        let number = extension.fresh_taken;
        extension.fresh_taken += 1;
        let record = Record {
            sequence: 0,
            received_us: self.now_us,
            marks: 0,
            severity: Severity::new(6),
            source: Bytes::from_static(b"fresh"),
            line: Bytes::from(format!("{FRESH}{number}")),
        };
        let lifetime = (extension.draw(2) == 0).then_some(Duration::from_micros(100 * STEP_US));
        let fresh = &mut self.places[at].fresh;
        fresh.queue.take(&record, 1, lifetime, None, self.now_us);
        fresh.taken += 1;
    }

    fn connect_fresh(&mut self, at: usize) {
        if self.places[at].is_cut_off || self.places[at].fresh.network.is_some() {
            return;
        }
        self.peers += 1;
        let hello = Some(self.places[at].fresh.queue.connected(self.relay.id()));
        self.places[at].begin(Peer(self.peers));
        self.places[at].fresh.network = Some(FreshNetwork { peer: self.peers, hello, ..FreshNetwork::default() });
    }

    fn disconnect_fresh(&mut self, at: usize) {
        if let Some(network) = &self.places[at].fresh.network {
            let peer = Peer(network.peer);
            self.places[at].gone(peer);
            self.places[at].fresh.disconnect();
        }
    }

    fn send_fresh(&mut self, at: usize) {
        let now_us = self.now_us;
        let fresh = &mut self.places[at].fresh;
        let Some(network) = &mut fresh.network else { return };
        network.lines.extend(fresh.queue.next_message(network.acked, now_us).map(|message| message.payload));
    }

    /// The relay's transport gets an acknowledgement, and the relay an answer.
    fn answer_fresh(&mut self, at: usize) {
        let fresh = &mut self.places[at].fresh;
        let Some(network) = &mut fresh.network else { return };
        network.acked = network.received;
        if let Some(answer) = network.backward.pop_front() {
            fresh.queue.handle(answer).expect("a collector makes sense");
        }
        let (delivered, written) =
            (fresh.queue.counts(0).delivered + fresh.delivered_before, self.places[at].fresh_output());
        assert!(delivered <= written.len() as u64, "seed {}: {delivered} delivered, {written:?} written", self.seed);
    }

    /// The transport gives a message up.
    fn lose_fresh(&mut self, extension: &mut Extension, at: usize) {
        let Some(network) = &mut self.places[at].fresh.network else { return };
        if !network.lines.is_empty() {
            let which = extension.draw_index() % network.lines.len();
            network.lines.remove(which);
        }
    }

    /// A peer that is no relay connects, sends a few messages and goes.
    fn strange_peer(&mut self, extension: &mut Extension, at: usize) {
        self.peers += 1;
        let peer = Peer(self.peers);
        self.places[at].begin(peer);
        for _ in 0..=extension.draw(3) {
            let message = strange_message(extension.draw(8), extension.random.next_u64());
            extension.refused += u64::from(self.places[at].handle(peer, message).is_err());
        }
        self.places[at].gone(peer);
    }

    /// Everything that waits arrives, or is known to be lost.
    pub(super) fn finish_fresh(&mut self, at: usize) {
        if self.extension.is_none() {
            return;
        }
        self.connect_fresh(at);
        self.send_fresh(at);
        self.places[at].deliver_fresh(false, 0);
        self.answer_fresh(at);
        let counts = self.places[at].fresh.queue.counts(0);
        let fresh = &mut self.places[at].fresh;
        let Some(network) = &fresh.network else { return };
        // Only messages that the transport has given up are missing: the end of the association settles those.
        let is_idle = network.hello.is_none() && network.lines.is_empty() && !fresh.queue.has_waiting();
        if is_idle && counts.underway > 0 && (self.now_us / STEP_US).is_multiple_of(50) {
            self.disconnect_fresh(at);
        }
    }

    /// Each fresh line is at most once in all outputs.
    pub(super) fn check_fresh(&self, tally: &mut Tally) {
        let Some(extension) = &self.extension else { return };
        let mut written: Vec<u64> = self.places.iter().flat_map(super::Place::fresh_output).collect();
        let count = written.len();
        written.sort_unstable();
        written.dedup();
        assert_eq!(written.len(), count, "seed {}: a fresh line is there twice", self.seed);
        tally.fresh_taken += extension.fresh_taken;
        tally.fresh_written += count as u64;
        tally.refused += extension.refused;
        tally.moved += extension.moved;
    }
}
