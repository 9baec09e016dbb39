//! Packets that belong to no association: which of them are looked at, and their answers.
//!
//! Any host can send them, from any address, so they get the time that associations leave. Packets beyond the limit are dropped by their first bytes
//! alone, without a checksum or a copy. Well-behaved peers retransmit dropped ones.

use std::net::SocketAddr;
use std::sync::Arc;

use festina_sctp::Admission;
use festina_sctp::wire::{Packet, chunk_type};
use festina_secure::wire::{HeaderError, read_header};
use festina_units::{Duration, Instant};

use super::driver::Datagram;
use super::handshakes::Handshakes;
use super::outbox::Outbox;
use super::secure::Protocols;
use super::shared::Shared;
use super::socket::{Socket, count};
use crate::clock;

/// Strays looked at in one turn of the driver, so that timers and other tasks get theirs.
const STRAYS_PER_TURN: usize = 256;

/// How many more COOKIE ECHOs than other strays are looked at: most of those in a flood are forged, which costs no answer.
const COOKIES_PER_STRAY: u32 = 4;

/// The strays of a turn.
#[derive(Debug)]
pub(super) struct Strays {
    protocols: Protocols,
    plain: Quota,
    cookie_allowance: Allowance,
    /// Those for the handshakes: a flood in one protocol takes nothing from the other.
    protected: Quota,
    waiting: Vec<Datagram>,
    answers: Outbox,
    /// Takes the place of `waiting` for protected packets.
    handshakes: Option<Box<Handshakes>>,
}

/// How many strays of one protocol are looked at.
#[derive(Debug)]
struct Quota {
    allowance: Allowance,
    /// How many were admitted in this turn.
    admitted: usize,
}

impl Strays {
    pub(super) fn new(admission: &Admission, protocols: Protocols, handshakes: Option<Box<Handshakes>>) -> Self {
        let per_second = admission.strays_per_second_max;
        let quota = || Quota { allowance: Allowance::new(per_second), admitted: 0 };
        Self {
            protocols,
            plain: quota(),
            cookie_allowance: Allowance::new(per_second.saturating_mul(COOKIES_PER_STRAY)),
            protected: quota(),
            waiting: Vec::new(),
            answers: Outbox::default(),
            handshakes,
        }
    }

    /// A new turn of the driver.
    pub(super) fn begin_turn(&mut self) {
        self.plain.admitted = 0;
        self.protected.admitted = 0;
        if let Some(handshakes) = &mut self.handshakes {
            handshakes.begin_turn();
        }
    }

    /// Whether a stray is looked at; [`Strays::push`] follows.
    pub(super) fn admit(&mut self, now: Instant, from: SocketAddr, packet: &[u8]) -> bool {
        if self.handshakes.as_ref().is_some_and(|handshakes| handshakes.knows(from, packet)) {
            return true;
        }
        let is_protected = self.protocols.expects_handshake(packet);
        let quota = if is_protected { &mut self.protected } else { &mut self.plain };
        let has_room = self.handshakes.as_ref().is_none_or(|handshakes| handshakes.has_room());
        if quota.admitted >= STRAYS_PER_TURN || is_protected && !has_room {
            return false;
        }
        let allowance = match Packet::first_chunk_type(packet) {
            Some(chunk_type::COOKIE_ECHO) if !is_protected => &mut self.cookie_allowance,
            _ => &mut quota.allowance,
        };
        let admitted = allowance.take(now);
        quota.admitted += usize::from(admitted);
        admitted
    }

    pub(super) fn push(&mut self, datagram: Datagram) {
        match &mut self.handshakes {
            Some(handshakes)
                if self.protocols.expects_handshake(&datagram.packet)
                    || handshakes.knows(datagram.from, &datagram.packet) =>
            {
                handshakes.push(datagram);
            }
            _ => self.waiting.push(datagram),
        }
    }

    /// Looks at those that wait. Some belong to an association after all: by their address, as a repeated INIT does, or because one
    /// before them made it. Returns the number of packets that had no effect on such an association.
    pub(super) fn handle(&mut self, now: Instant, shared: &Arc<Shared>) -> usize {
        let mut dropped = 0;
        for datagram in self.waiting.drain(..) {
            // Hellos of another version are answered with the known one.
            if let Some(handshakes) = &mut self.handshakes
                && matches!(read_header(&datagram.packet), Err(HeaderError::Version(_)))
                && Packet::parse(&datagram.packet).is_err()
            {
                handshakes.push(datagram);
                continue;
            }
            if let Some(association) = shared.find(datagram.from, &datagram.packet) {
                dropped += association.handle_packets(now, std::iter::once(datagram));
                continue;
            }
            // An answer to this side's hello in another protocol.
            if self.handshakes.is_some()
                && let Some(association) = shared.find_by_remote(datagram.from)
                && Packet::parse(&datagram.packet).is_err()
            {
                dropped += association.handle_packets(now, std::iter::once(datagram));
                continue;
            }
            let Datagram { from, source, packet, .. } = datagram;
            if self.answers.is_full() {
                send(&mut self.answers, &shared.socket);
            }
            shared.handle_stray(now, from, source, &packet.freeze(), &mut self.answers);
        }
        if let Some(handshakes) = &mut self.handshakes {
            dropped += handshakes.handle(now, shared, &mut self.answers);
        }
        dropped
    }

    /// Looks at those that were left for this turn, and at timers of handshakes. Returns whether some are left for the next turn.
    pub(super) fn finish_turn(&mut self, shared: &Arc<Shared>) -> bool {
        let Some(handshakes) = &mut self.handshakes else { return false };
        let dropped = handshakes.handle(clock::now(), shared, &mut self.answers);
        if dropped > 0 {
            count(&shared.counters.packets_dropped, dropped);
        }
        let now = clock::now();
        handshakes.expire(now, shared, &mut self.answers);
        if let Some(at) = handshakes.deadline(now) {
            shared.timers.ring_by(now, at);
        }
        handshakes.is_waiting(now)
    }

    /// The endpoint ends: clients whose handshakes are not complete are refused.
    pub(super) fn end(&mut self, socket: &Socket) {
        if let Some(handshakes) = &mut self.handshakes {
            handshakes.refuse_all(clock::now(), &mut self.answers, socket);
            self.flush(socket);
        }
    }

    /// Sends the answers.
    pub(super) fn flush(&mut self, socket: &Socket) {
        send(&mut self.answers, socket);
    }
}

/// An answer for which the socket has no room is lost: it is asked for again.
pub(super) fn send(answers: &mut Outbox, socket: &Socket) {
    let _blocked = answers.flush_to_strangers(socket);
    answers.clear();
}

/// A number per second, and a burst of a tenth of it: a token bucket that stores the time at which it was empty.
#[derive(Debug)]
pub(super) struct Allowance {
    /// How long it takes for one more.
    interval: Duration,
    /// The time that it takes to fill up.
    depth: Duration,
    /// The budget of all time before this is spent.
    settled_at: Instant,
}

impl Allowance {
    pub(super) fn new(per_second: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        let depth = Duration::from_millis(100).max(interval);
        Self { interval, depth, settled_at: Instant::ZERO }
    }

    /// Takes one, if one is left.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let settled_at = self.settled_at.max(now.saturating_sub(self.depth)) + self.interval;
        let left = settled_at <= now;
        if left {
            self.settled_at = settled_at;
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use festina_sctp::Transmit;
    use festina_units::EcnCodepoint;

    use super::*;

    fn taken(allowance: &mut Allowance, at: Instant, attempts: usize) -> usize {
        (0..attempts).filter(|_| allowance.take(at)).count()
    }

    #[test]
    fn an_allowance_gives_a_tenth_at_once_and_then_what_time_brings() {
        let mut allowance = Allowance::new(20_000);
        let begin = Instant::from_secs(3_600);
        assert_eq!(taken(&mut allowance, begin, 10_000), 2_000);
        assert_eq!(taken(&mut allowance, begin + Duration::from_millis(1), 10_000), 20);
        let later: usize = (2..1_002).map(|ms| taken(&mut allowance, begin + Duration::from_millis(ms), 1_000)).sum();
        assert_eq!(later, 20_000, "in one second");
        assert_eq!(taken(&mut allowance, begin + Duration::from_secs(60), 10_000), 2_000, "it does not save up more");
    }

    #[test]
    fn the_smallest_allowance_lets_one_through_now_and_then() {
        let mut allowance = Allowance::new(1);
        let begin = Instant::from_secs(3_600);
        assert_eq!(taken(&mut allowance, begin, 5), 1);
        assert_eq!(taken(&mut allowance, begin + Duration::from_millis(900), 5), 0);
        assert_eq!(taken(&mut allowance, begin + Duration::from_secs(1), 5), 1);
    }

    #[test]
    fn a_flood_in_one_protocol_takes_nothing_from_the_other() {
        let admission = Admission { strays_per_second_max: 1_000, ..Admission::default() };
        let (now, from) = (Instant::from_secs(3_600), SocketAddr::from(([192, 0, 2, 1], 9_899)));
        let init = [&[0xc0, 1, 2, 3, 0, 0, 0, 0, 9, 9, 9, 9, chunk_type::INIT, 0, 0, 4][..], &[0; 40]].concat();
        let hello = [&[0xc0][..], b"FST\x01", &[8; 9], &[8; 9], &[0, 30], &[0; 40]].concat();
        for (first, second) in [(&init, &hello), (&hello, &init)] {
            let handshakes = Some(Box::new(Handshakes::new(None)));
            let mut strays = Strays::new(&admission, Protocols::Both, handshakes);
            let mut admitted = |packet: &[u8]| (0..1_000).filter(|_| strays.admit(now, from, packet)).count();
            assert_eq!([admitted(first), admitted(second), admitted(first)], [100, 100, 0]);
        }
    }

    #[tokio::test]
    async fn a_refused_answer_to_a_stranger_concerns_no_association() {
        let socket = Socket::bind_udp("127.0.0.1:0".parse().unwrap()).unwrap();
        std::future::poll_fn(|context| socket.poll_writable(context)).await.unwrap();
        // The system sends nothing to port 0.
        let destination = "127.0.0.1:0".parse().unwrap();
        let answer = || {
            let mut answers = Outbox::default();
            answers.buffer().extend_from_slice(b"answer");
            answers.push(&Transmit { destination, len: 6, ecn: EcnCodepoint::NotCapable }, None, 1);
            answers
        };
        send(&mut answer(), &socket);
        assert!(!socket.refusals.is_waiting());
        answer().flush(&socket).unwrap();
        assert!(socket.refusals.is_waiting(), "those to peers are noted");
    }

    #[test]
    fn a_turn_admits_a_bounded_number_and_cookies_have_an_allowance_of_their_own() {
        let admission = Admission { strays_per_second_max: 1_000, ..Admission::default() };
        let (mut strays, now) = (Strays::new(&admission, Protocols::Plain, None), Instant::from_secs(3_600));
        let packet = |chunk_type| [&[0; 12][..], &[chunk_type, 0, 0, 4]].concat();
        let (init, cookie_echo) = (packet(1), packet(10));
        let from = SocketAddr::from(([192, 0, 2, 1], 9_899));
        let admitted =
            |strays: &mut Strays, packet: &[u8]| (0..1_000).filter(|_| strays.admit(now, from, packet)).count();
        assert_eq!(admitted(&mut strays, &init), 100);
        assert_eq!(admitted(&mut strays, &cookie_echo), STRAYS_PER_TURN - 100);
        strays.begin_turn();
        assert_eq!(admitted(&mut strays, &init), 0, "time has not brought more");
        assert_eq!(admitted(&mut strays, &cookie_echo), 400 - (STRAYS_PER_TURN - 100));
    }
}
