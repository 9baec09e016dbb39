//! Two connections and a pipe that delays, loses, marks, duplicates and reorders.

use std::collections::{BTreeMap, BTreeSet};

use festina_units::{Duration, EcnCodepoint, Instant};

use crate::tcp::{Cause, Segment, TcpConfig, TcpConnection, TcpEvent};

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// The faults of the pipe.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    /// Ordinals, from 0, of the client's transmissions with data that are lost.
    pub(super) lost: BTreeSet<u64>,
    /// Ordinals that are marked.
    pub(super) marked: BTreeSet<u64>,
    /// Every SYN up to this ordinal is lost.
    pub(super) syns_lost: u64,
    pub(super) loss_ppm: u64,
    pub(super) ack_loss_ppm: u64,
    pub(super) duplication_ppm: u64,
    /// Extra delay, up to this, of each segment.
    pub(super) jitter: Duration,
    pub(super) seed: u64,
}

#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) client: TcpConnection,
    pub(super) server: TcpConnection,
    pub(super) now: Instant,
    pub(super) one_way: Duration,
    pub(super) faults: Faults,
    /// The client's segments except bare ACKs, with the time.
    pub(super) sent: Vec<(Instant, Segment)>,
    /// The server's segments.
    pub(super) answers: Vec<(Instant, Segment)>,
    pub(super) client_events: Vec<(Instant, TcpEvent)>,
    pub(super) server_events: Vec<(Instant, TcpEvent)>,
    /// The client always writes as much as the send buffer takes.
    pub(super) greedy: bool,
    travelling: BTreeMap<(Instant, u64), (bool, Segment)>,
    serial: u64,
    syns: u64,
    random: u64,
}

impl Pipe {
    pub(super) fn new(config: TcpConfig, one_way_millis: u64, faults: Faults) -> Self {
        Self {
            client: TcpConnection::client(config),
            server: TcpConnection::server(config),
            now: Instant::ZERO,
            one_way: ms(one_way_millis),
            random: faults.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            faults,
            sent: Vec::new(),
            answers: Vec::new(),
            client_events: Vec::new(),
            server_events: Vec::new(),
            greedy: false,
            travelling: BTreeMap::new(),
            serial: 0,
            syns: 0,
        }
    }

    /// As `new`, and losing the client's data transmissions with these ordinals.
    pub(super) fn losing(config: TcpConfig, one_way_millis: u64, lost: &[u64]) -> Self {
        Self::new(config, one_way_millis, Faults { lost: lost.iter().copied().collect(), ..Faults::default() })
    }

    /// Runs everything up to and at `until`.
    pub(super) fn run_until(&mut self, until: Instant) {
        self.drain();
        while let Some(next) = self.next_time().filter(|&next| next <= until) {
            self.now = self.now.max(next);
            while let Some((&key, _)) = self.travelling.first_key_value().filter(|((time, _), _)| *time <= self.now) {
                let (to_server, segment) = self.travelling.remove(&key).expect("it was just seen");
                let end = if to_server { &mut self.server } else { &mut self.client };
                end.handle_segment(self.now, &segment);
                self.drain();
            }
            for end in [&mut self.client, &mut self.server] {
                if end.poll_deadline().is_some_and(|deadline| deadline <= self.now) {
                    end.handle_timeout(self.now);
                }
            }
            self.drain();
            for end in [&self.client, &self.server] {
                assert!(
                    end.poll_deadline().is_none_or(|deadline| deadline > self.now),
                    "a timer that is due stays: {end:?}"
                );
            }
        }
        self.now = self.now.max(until);
    }

    fn next_time(&self) -> Option<Instant> {
        let first = self.travelling.keys().next().map(|&(time, _)| time);
        Instant::earliest([first, self.client.poll_deadline(), self.server.poll_deadline()])
    }

    /// The client writes at `at_millis`.
    pub(super) fn write_at(&mut self, at_millis: u64, bytes: u64) -> u64 {
        self.run_until(at(at_millis));
        let taken = self.client.write(bytes);
        self.drain();
        taken
    }

    /// Sends the pending segments of both ends, and collects their events.
    pub(super) fn drain(&mut self) {
        loop {
            if self.greedy {
                self.client.write(u64::MAX / 4);
            }
            let mut idle = true;
            while let Some(segment) = self.client.poll_transmit(self.now) {
                idle = false;
                self.carry(true, segment);
            }
            while let Some(segment) = self.server.poll_transmit(self.now) {
                idle = false;
                self.carry(false, segment);
            }
            while let Some(event) = self.client.poll_event() {
                self.client_events.push((self.now, event));
            }
            while let Some(event) = self.server.poll_event() {
                self.server_events.push((self.now, event));
            }
            if idle {
                return;
            }
        }
    }

    fn carry(&mut self, to_server: bool, mut segment: Segment) {
        let lost = if segment.flags.syn {
            self.syns += 1;
            self.syns <= self.faults.syns_lost
        } else if to_server && segment.end() > segment.sequence {
            let ordinal = self.sent.len() as u64;
            self.sent.push((self.now, segment));
            if self.faults.marked.contains(&ordinal) {
                assert_eq!(segment.ecn, EcnCodepoint::Capable);
                segment.ecn = EcnCodepoint::CongestionExperienced;
            }
            self.faults.lost.contains(&ordinal) || self.chance(self.faults.loss_ppm)
        } else if to_server {
            self.chance(self.faults.ack_loss_ppm)
        } else {
            self.answers.push((self.now, segment));
            self.chance(self.faults.ack_loss_ppm)
        };
        let copies = 1 + u64::from(self.chance(self.faults.duplication_ppm));
        for _ in 0..if lost { 0 } else { copies } {
            let jitter_ns = u64::try_from(self.faults.jitter.as_nanos()).expect("short");
            let extra = Duration::from_nanos(self.draw().checked_rem(jitter_ns).unwrap_or(0));
            self.serial += 1;
            self.travelling.insert((self.now + self.one_way + extra, self.serial), (to_server, segment));
        }
    }

    fn chance(&mut self, ppm: u64) -> bool {
        ppm > 0 && self.draw() % 1_000_000 < ppm
    }

    /// Xorshift.
    pub(super) fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// Times and causes of the client's retransmissions.
    pub(super) fn retransmissions(&self) -> Vec<(u64, Cause)> {
        self.client_events
            .iter()
            .filter_map(|(time, event)| match event {
                TcpEvent::Retransmitted { cause, .. } => Some((time.as_nanos() / 1_000_000, *cause)),
                _ => None,
            })
            .collect()
    }

    /// Returns when the server had every byte below `through`, in whole milliseconds.
    pub(super) fn delivered_at(&self, through: u64) -> u64 {
        self.server_events
            .iter()
            .find_map(|(time, event)| match event {
                TcpEvent::Delivered { through: delivered } if *delivered >= through => {
                    Some(time.as_nanos() / 1_000_000)
                }
                _ => None,
            })
            .unwrap_or_else(|| panic!("byte {through} was not delivered; {:?}", self.client_events))
    }

    /// Data segments that the client sent from `from_millis` up to before `to_millis`.
    pub(super) fn sent_between(&self, from_millis: u64, to_millis: u64) -> usize {
        self.sent.iter().filter(|(time, _)| (at(from_millis)..at(to_millis)).contains(time)).count()
    }
}
