//! Packets that belong to no association: which of them are looked at, and their answers.
//!
//! Any host can send them, from any address, so they get the time that associations leave. Packets beyond the limit are dropped by their first bytes
//! alone, without a checksum or a copy. Well-behaved peers retransmit dropped ones.

use std::fmt;
use std::net::SocketAddr;

use festina_sctp::wire::{Packet, chunk_type};
use festina_sctp::{self as sctp, Admission, Incoming, Transmit};
use festina_secure::wire::{HeaderError, read_header};
use festina_secure::write_plain_sctp;
use festina_units::{EcnCodepoint, Instant};

use crate::allowance::Allowance;
use crate::handshakes::{ENCRYPTED_ONLY, Handshakes};
use crate::owner::{Datagram, Owner};
use crate::protocols::Protocols;
use crate::request::PlainVerdict;

/// Strays looked at in one turn of the driver, so that timers and other tasks get theirs.
const STRAYS_PER_TURN: usize = 256;

/// How many more COOKIE ECHOs than other strays are looked at: most of those in a flood are forged, which costs no answer.
const COOKIES_PER_STRAY: u32 = 4;

/// The strays of a turn.
pub struct Strays<O: Owner> {
    protocols: Protocols,
    plain: Quota,
    cookie_allowance: Allowance,
    /// Those for the handshakes: a flood in one protocol takes nothing from the other.
    protected: Quota,
    waiting: Vec<Datagram>,
    /// Takes the place of `waiting` for protected packets.
    handshakes: Option<Box<Handshakes<O>>>,
}

/// How many strays of one protocol are looked at.
#[derive(Debug)]
struct Quota {
    allowance: Allowance,
    /// How many were admitted in this turn.
    admitted: usize,
}

impl<O: Owner> fmt::Debug for Strays<O> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Strays").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

impl<O: Owner> Strays<O> {
    /// Without any stray. The handshakes are there unless the endpoint is plain.
    pub fn new(admission: &Admission, protocols: Protocols, handshakes: Option<Box<Handshakes<O>>>) -> Self {
        let per_second = admission.strays_per_second_max;
        let quota = || Quota { allowance: Allowance::new(per_second), admitted: 0 };
        Self {
            protocols,
            plain: quota(),
            cookie_allowance: Allowance::new(per_second.saturating_mul(COOKIES_PER_STRAY)),
            protected: quota(),
            waiting: Vec::new(),
            handshakes,
        }
    }

    /// The protocols of the endpoint.
    pub fn protocols(&self) -> Protocols {
        self.protocols
    }

    /// A new turn of the driver.
    pub fn begin_turn(&mut self) {
        self.plain.admitted = 0;
        self.protected.admitted = 0;
        if let Some(handshakes) = &mut self.handshakes {
            handshakes.begin_turn();
        }
    }

    /// Whether a stray is looked at; [`Strays::push`] follows.
    pub fn admit(&mut self, now: Instant, from: SocketAddr, packet: &[u8]) -> bool {
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

    /// Leaves an admitted packet for [`handle`](Self::handle).
    pub fn push(&mut self, datagram: Datagram) {
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
    /// before them made it. Returns the number of packets that had no effect.
    pub fn handle(&mut self, now: Instant, owner: &mut O) -> usize {
        let mut dropped = 0;
        for datagram in std::mem::take(&mut self.waiting) {
            dropped += self.handle_one(now, datagram, owner);
        }
        dropped + self.handle_handshakes(now, owner)
    }

    /// Goes on with the handshakes, as far as the turn allows. Returns the number of packets that had no effect.
    pub fn handle_handshakes(&mut self, now: Instant, owner: &mut O) -> usize {
        self.handshakes.as_mut().map_or(0, |handshakes| handshakes.handle(now, owner))
    }

    /// Returns the number of packets that had no effect.
    fn handle_one(&mut self, now: Instant, datagram: Datagram, owner: &mut O) -> usize {
        let (from, packet) = (datagram.from, &datagram.packet);
        // Hellos of another version are answered with the known one.
        if let Some(handshakes) = &mut self.handshakes
            && matches!(read_header(packet), Err(HeaderError::Version(_)))
            && Packet::parse(packet).is_err()
        {
            handshakes.push(datagram);
            return 0;
        }
        let protocols = self.protocols;
        let found = owner.demux(|demux| {
            // Or an answer to this side's hello in another protocol.
            let is_foreign = protocols != Protocols::Plain && Packet::parse(packet).is_err();
            let by_remote = || demux.find_by_remote(from).filter(|_| is_foreign);
            demux.find(protocols, from, packet).or_else(by_remote).cloned()
        });
        match found {
            Some(association) => owner.deliver(now, &association, datagram),
            None => usize::from(!self.answer(now, datagram, owner)),
        }
    }

    /// Answers a packet that belongs to no association: a plain handshake's, or one out of the blue (RFC 9260 §8.4). Returns whether it had an effect.
    fn answer(&self, now: Instant, datagram: Datagram, owner: &mut O) -> bool {
        let Datagram { from, source, packet, .. } = datagram;
        let packet = packet.freeze();
        let reply = |len| Transmit::new(from, len, EcnCodepoint::NotCapable);
        let answer_if = |owner: &mut O, write: &dyn Fn(&mut Vec<u8>) -> bool| {
            owner.answer(source, |buffer| {
                let before = buffer.len();
                write(buffer).then(|| reply(buffer.len() - before))
            })
        };
        let is_plain = self.protocols == Protocols::Plain;
        if is_plain && from.port() != 0 && answer_if(owner, &|buffer| write_plain_sctp(&packet, buffer)) {
            return true;
        }
        let Ok(header) = Packet::peek(&packet) else { return false };
        let asks = matches!(Packet::first_chunk_type(&packet), Some(chunk_type::INIT | chunk_type::COOKIE_ECHO));
        let verdict = if asks { owner.judge_plain(from, header.destination_port) } else { PlainVerdict::Admit };
        let is_admitted = match verdict {
            PlainVerdict::Admit => true,
            PlainVerdict::Refuse => false,
            PlainVerdict::Ignore => return false,
            PlainVerdict::Full => return true,
            PlainVerdict::EncryptedOnly => {
                answer_if(owner, &|buffer| sctp::Listener::refuse_init(from, &packet, ENCRYPTED_ONLY, buffer));
                return true;
            }
        };
        let mut accepted = None;
        let has_answer = owner.answer_plain(source, |listener, tag_in_use, buffer| {
            let before = buffer.len();
            let incoming = if is_admitted {
                listener.handle_packet(now, from, &packet, tag_in_use, buffer)
            } else {
                listener.refuse_packet(now, from, &packet, buffer)
            };
            match incoming {
                Incoming::Reply => return Some(reply(buffer.len() - before)),
                Incoming::Accepted(association) => accepted = Some(association),
                _ => {}
            }
            None
        });
        match accepted {
            Some(association) => owner.adopt_plain(*association, source),
            None => has_answer,
        }
    }

    /// Returns whether packets wait that can be handled now.
    pub fn is_waiting(&self, now: Instant) -> bool {
        self.handshakes.as_ref().is_some_and(|handshakes| handshakes.is_waiting(now))
    }

    /// When [`expire`](Self::expire) is to be called, or a packet that waits can be handled.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        self.handshakes.as_ref().and_then(|handshakes| handshakes.deadline(now))
    }

    /// Calls the timers of handshakes.
    pub fn expire(&mut self, now: Instant, owner: &mut O) {
        if let Some(handshakes) = &mut self.handshakes {
            handshakes.expire(now, owner);
        }
    }

    /// The endpoint ends: clients whose handshakes are not complete are refused.
    pub fn end(&mut self, now: Instant, owner: &mut O) {
        if let Some(handshakes) = &mut self.handshakes {
            handshakes.refuse_all(now, owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use festina_units::Duration;

    use super::*;
    use crate::endpoint::House;

    #[test]
    fn a_flood_in_one_protocol_takes_nothing_from_the_other() {
        let admission = Admission { strays_per_second_max: 1_000, ..Admission::default() };
        let (now, from) = (Instant::from_secs(3_600), SocketAddr::from(([192, 0, 2, 1], 9_899)));
        let init = [&[0xc0, 1, 2, 3, 0, 0, 0, 0, 9, 9, 9, 9, chunk_type::INIT, 0, 0, 4][..], &[0; 40]].concat();
        let hello = [&[0xc0][..], b"FST\x01", &[8; 9], &[8; 9], &[0, 30], &[0; 40]].concat();
        for (first, second) in [(&init, &hello), (&hello, &init)] {
            let handshakes = Some(Box::new(Handshakes::<House>::new(None, [7; 16], || Duration::ZERO)));
            let mut strays = Strays::new(&admission, Protocols::Both, handshakes);
            let mut admitted = |packet: &[u8]| (0..1_000).filter(|_| strays.admit(now, from, packet)).count();
            assert_eq!([admitted(first), admitted(second), admitted(first)], [100, 100, 0]);
        }
    }

    #[test]
    fn a_turn_admits_a_bounded_number_and_cookies_have_an_allowance_of_their_own() {
        let admission = Admission { strays_per_second_max: 1_000, ..Admission::default() };
        let (mut strays, now) = (Strays::<House>::new(&admission, Protocols::Plain, None), Instant::from_secs(3_600));
        let packet = |chunk_type| [&[0; 12][..], &[chunk_type, 0, 0, 4]].concat();
        let (init, cookie_echo) = (packet(1), packet(10));
        let from = SocketAddr::from(([192, 0, 2, 1], 9_899));
        let admitted =
            |strays: &mut Strays<House>, packet: &[u8]| (0..1_000).filter(|_| strays.admit(now, from, packet)).count();
        assert_eq!(admitted(&mut strays, &init), 100);
        assert_eq!(admitted(&mut strays, &cookie_echo), STRAYS_PER_TURN - 100);
        strays.begin_turn();
        assert_eq!(admitted(&mut strays, &init), 0, "time has not brought more");
        assert_eq!(admitted(&mut strays, &cookie_echo), 400 - (STRAYS_PER_TURN - 100));
    }
}
