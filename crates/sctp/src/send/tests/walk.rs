//! Random walks: a sender against a model of a receiver behind a path that loses, delays, reorders and duplicates.

use std::collections::{BTreeMap, BTreeSet};

use festina_recovery::profile::{Bundling, Rules, SpuriousResponse};

use super::*;

const MESSAGES: u64 = 60;
const STREAMS: u64 = 5;
/// Far more than any walk needs; a sender that is stuck or spins runs out of them.
const STEPS_MAX: usize = 50_000;

/// A pseudo-random sequence (SplitMix64).
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }

    /// One of these.
    pub(super) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.roll(of.len() as u64)).expect("below the length")]
    }
}

/// How often each fault happened.
#[derive(Debug, Default)]
struct Faults {
    lost_packets: u64,
    lost_sacks: u64,
    duplicated: u64,
    reordered: u64,
    reneged: u64,
    closed_windows: u64,
    spurious: u64,
    timeouts: u64,
    fast: u64,
}

/// What a receiver knows.
#[derive(Default)]
struct Peer {
    /// Every chunk that ever arrived, by TSN.
    chunks: BTreeMap<u32, Sent>,
    cumulative: u32,
    held: BTreeSet<u32>,
    duplicates: Vec<u32>,
    window_closed_until: Instant,
}

impl Peer {
    fn receive(&mut self, packet: &[Sent], now: Instant) {
        for chunk in packet {
            let known = self.chunks.entry(chunk.tsn).or_insert_with(|| chunk.clone());
            known.bits = known.bits.replace('I', "");
            let copy = Sent { bits: chunk.bits.replace('I', ""), ..chunk.clone() };
            assert_eq!(*known, copy, "a TSN never changes its contents");
            if chunk.tsn <= self.cumulative || self.held.contains(&chunk.tsn) {
                self.duplicates.push(chunk.tsn);
            } else if now >= self.window_closed_until {
                self.held.insert(chunk.tsn);
            }
        }
        while self.held.remove(&(self.cumulative + 1)) {
            self.cumulative += 1;
        }
    }

    fn gaps(&self) -> Vec<(u16, u16)> {
        let mut gaps: Vec<(u16, u16)> = Vec::new();
        for &tsn in &self.held {
            let offset = u16::try_from(tsn - self.cumulative).expect("a small flight");
            match gaps.last_mut() {
                Some((_, end)) if *end + 1 == offset => *end = offset,
                _ => gaps.push((offset, offset)),
            }
        }
        gaps
    }
}

#[derive(Debug)]
enum Arrival {
    Packet(Vec<Sent>),
    Sack { cumulative: u32, a_rwnd: u32, gaps: Vec<(u16, u16)>, duplicates: Vec<u32> },
}

struct Walk {
    rig: Rig,
    peer: Peer,
    dice: Dice,
    loss_percent: u64,
    on_the_way: BTreeMap<(Instant, u64), Arrival>,
    departures: u64,
    latest_arrival: Instant,
    highest_tsn: u32,
    delivered: Vec<u64>,
    faults: Faults,
}

impl Walk {
    fn new(seed: u64, mechanisms: Mechanisms) -> Self {
        let mut dice = Dice(seed);
        let loss_percent = [0, 2, 10, 40][usize::try_from(dice.roll(4)).expect("below four")];
        Self {
            rig: Rig::with(&config(mechanisms)),
            peer: Peer::default(),
            dice,
            loss_percent,
            on_the_way: BTreeMap::new(),
            departures: 0,
            latest_arrival: Instant::ZERO,
            highest_tsn: 0,
            delivered: Vec::new(),
            faults: Faults::default(),
        }
    }

    fn depart(&mut self, arrival: Arrival) {
        if self.dice.percent(self.loss_percent) {
            match arrival {
                Arrival::Packet(_) => self.faults.lost_packets += 1,
                Arrival::Sack { .. } => self.faults.lost_sacks += 1,
            }
            return;
        }
        let arrives = self.rig.now + ms(30 + self.dice.roll(if self.dice.0.is_multiple_of(7) { 80 } else { 3 }));
        self.faults.reordered += u64::from(arrives < self.latest_arrival);
        self.latest_arrival = self.latest_arrival.max(arrives);
        if self.dice.percent(3)
            && let Arrival::Packet(packet) = &arrival
        {
            self.faults.duplicated += 1;
            self.departures += 1;
            self.on_the_way.insert((arrives + ms(5), self.departures), Arrival::Packet(packet.clone()));
        }
        self.departures += 1;
        self.on_the_way.insert((arrives, self.departures), arrival);
    }

    /// Sends everything that may leave, and checks each packet against cwnd.
    fn drain(&mut self) {
        while self.rig.can_send() {
            let packet = self.rig.packet();
            let Some(last) = packet.last() else { continue };
            let new: Vec<_> = packet.iter().map(|chunk| chunk.tsn).filter(|&tsn| tsn > self.highest_tsn).collect();
            let expected: Vec<_> = (self.highest_tsn + 1..).take(new.len()).collect();
            assert_eq!(new, expected, "no gap between TSNs");
            if !new.is_empty() {
                let path = self.rig.stats().path;
                assert!(path.in_flight_bytes < path.cwnd_bytes + CHUNKS_BYTES as u64, "rule B of RFC 9260 §6.1");
            }
            self.highest_tsn = self.highest_tsn.max(last.tsn);
            self.depart(Arrival::Packet(packet));
        }
        self.delivered.extend(self.rig.delivered());
    }

    fn arrive(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Packet(packet) => {
                if self.dice.percent(1) {
                    self.faults.closed_windows += 1;
                    self.peer.window_closed_until = self.rig.now + ms(self.dice.roll(3_000));
                }
                self.peer.receive(&packet, self.rig.now);
                if self.dice.percent(1)
                    && let Some(tsn) = self.peer.held.pop_last()
                {
                    self.faults.reneged += 1;
                    self.peer.duplicates.retain(|&duplicate| duplicate != tsn);
                }
                let closed = self.rig.now < self.peer.window_closed_until;
                let sack = Arrival::Sack {
                    cumulative: self.peer.cumulative,
                    a_rwnd: if closed { 0 } else { 20_000 },
                    gaps: self.peer.gaps(),
                    duplicates: std::mem::take(&mut self.peer.duplicates),
                };
                self.depart(sack);
            }
            Arrival::Sack { cumulative, a_rwnd, gaps, duplicates } => {
                self.rig.sack_full(cumulative, a_rwnd, &gaps, &duplicates);
            }
        }
    }

    /// One message joins the queue, somewhere between tiny and many packets long.
    fn submit(&mut self) {
        let len = match self.dice.roll(4) {
            0 => 1 + self.dice.roll(20_000),
            1 => 1 + self.dice.roll(2_000),
            _ => 1 + self.dice.roll(200),
        };
        let message = Message::new(vec![0; usize::try_from(len).expect("small")])
            .on_stream(u16::try_from(self.dice.roll(STREAMS)).expect("few streams"));
        self.rig.send(if self.dice.percent(30) { message.unordered() } else { message });
    }

    fn run(mut self) -> Faults {
        let mut submissions: Vec<_> = (0..MESSAGES).map(|_| self.rig.now + ms(self.dice.roll(4_000))).collect();
        submissions.sort_by(|a, b| b.cmp(a));
        for _ in 0..STEPS_MAX {
            self.drain();
            let next = [
                submissions.last().copied(),
                self.on_the_way.first_key_value().map(|((at, _), _)| *at),
                self.rig.deadline(),
            ];
            let Some(next) = Instant::earliest(next) else { return self.finish() };
            self.rig.check_slots();
            self.rig.now = self.rig.now.max(next);
            if submissions.last() == Some(&next) {
                submissions.pop();
                self.submit();
            } else if let Some(entry) = self.on_the_way.first_entry()
                && entry.key().0 <= next
            {
                let arrival = entry.remove();
                self.arrive(arrival);
            } else {
                self.rig.handle_timeout();
            }
        }
        panic!("stuck: {:?}", self.rig.sender);
    }

    /// Everything came to rest: every message arrived whole and in order, and the account is empty.
    fn finish(self) -> Faults {
        assert!(self.rig.sender.flight.is_drained());
        assert_eq!(self.peer.cumulative, self.highest_tsn);
        assert_eq!(self.delivered, (0..MESSAGES).collect::<Vec<_>>());
        let stats = self.rig.stats();
        assert_eq!(stats.sent.messages_acked, MESSAGES);
        assert_eq!((stats.path.in_flight_bytes, stats.path.send_buffer_bytes), (0, 0));
        let mut next_ssn = BTreeMap::new();
        let mut begun: Option<Sent> = None;
        for chunk in self.peer.chunks.into_values() {
            let (begins, ends) = (chunk.bits.contains('B'), chunk.bits.contains('E'));
            assert_eq!(begins, begun.is_none(), "fragments follow each other");
            let first = begun.get_or_insert_with(|| chunk.clone());
            assert_eq!((first.stream, first.ssn), (chunk.stream, chunk.ssn));
            if begins && !chunk.bits.contains('U') {
                let ssn: &mut u16 = next_ssn.entry(chunk.stream).or_default();
                assert_eq!(chunk.ssn, *ssn, "SSNs count up without a gap");
                *ssn += 1;
            }
            if ends {
                begun = None;
            }
        }
        assert_eq!(begun, None);
        Faults {
            spurious: stats.sent.spurious,
            timeouts: stats.sent.timeouts,
            fast: stats.sent.retransmitted.fast,
            ..self.faults
        }
    }
}

fn walk_all(mechanisms: Mechanisms) -> Faults {
    let mut sum = Faults::default();
    for seed in 0..100 {
        let faults = Walk::new(seed, mechanisms).run();
        sum.lost_packets += faults.lost_packets;
        sum.lost_sacks += faults.lost_sacks;
        sum.duplicated += faults.duplicated;
        sum.reordered += faults.reordered;
        sum.reneged += faults.reneged;
        sum.closed_windows += faults.closed_windows;
        sum.spurious += faults.spurious;
        sum.timeouts += faults.timeouts;
        sum.fast += faults.fast;
    }
    let Faults { lost_packets, lost_sacks, duplicated, reordered, .. } = sum;
    let path = [lost_packets, lost_sacks, duplicated, reordered];
    let rest = [sum.reneged, sum.closed_windows, sum.spurious, sum.timeouts, sum.fast];
    assert!(path.iter().chain(&rest).all(|&count| count > 10), "every fault class happened: {sum:?}");
    sum
}

#[test]
fn every_profile_delivers_everything_through_any_fault() {
    for &profile in Profile::all() {
        walk_all(profile.mechanisms());
    }
}

#[test]
fn aggressive_bundling_delivers_everything_through_any_fault() {
    let mut mechanisms = Profile::Petlund2010.mechanisms();
    mechanisms.thin.bundling = Bundling { into_timeout: true, into_fast_retransmit: true, with_new_data: true };
    mechanisms.normal.bundling = Bundling { into_timeout: false, ..mechanisms.thin.bundling };
    walk_all(mechanisms);
}

#[test]
fn all_other_switches_at_once_deliver_everything_through_any_fault() {
    let rules = Rules {
        early_retransmit: true,
        early_fast_retransmit: Some(ms(20)),
        spurious: SpuriousResponse { f_rto: true, undo: true },
        ..Profile::Rack.mechanisms().normal
    };
    let thin =
        Rules { loss_detection: rules.loss_detection, spurious: rules.spurious, ..Profile::Festina.mechanisms().thin };
    for redundancy in [Redundancy::Off, Redundancy::SPACED] {
        walk_all(Mechanisms { normal: rules, thin, redundancy, ..Profile::Festina.mechanisms() });
    }
}

#[test]
fn the_same_seed_walks_the_same_way() {
    let walk = || format!("{:?}", Walk::new(11, Profile::Festina.mechanisms()).run());
    assert_eq!(walk(), walk());
}
