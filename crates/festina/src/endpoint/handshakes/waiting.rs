//! Hellos with a proof of their address that wait for CPU time or for a place. One site's many do not keep those of others waiting.

use std::collections::{BTreeMap, HashSet, VecDeque};

use festina_secure::wire::ConnectionId;
use festina_units::{Duration, Instant};

use crate::endpoint::demux::Origin;
use crate::endpoint::driver::Datagram;

/// Hellos that wait: a crowd that comes at once.
const HELLOS_MAX: usize = 4_096;
/// Bytes of them.
const BYTES_MAX: usize = 8 << 20;
/// A client repeats its hello earlier than this, or has given up.
const LIFETIME: Duration = Duration::from_secs(10);

/// A hello whose address is proved.
#[derive(Debug)]
pub(super) struct ProvedHello {
    /// The connection ID that the client chose.
    pub(super) original: ConnectionId,
    pub(super) datagram: Datagram,
    pub(super) received_at: Instant,
}

impl ProvedHello {
    fn origin(&self) -> Origin {
        (self.original, self.datagram.from)
    }
}

/// The hellos of all sites, each in its order. Sites take turns.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    by_slot: BTreeMap<u8, VecDeque<ProvedHello>>,
    origins: HashSet<Origin>,
    bytes: usize,
    /// The slot whose turn it is.
    turn: u8,
}

impl Waiting {
    /// Adds a hello. A repeated one is dropped. If there are too many, the oldest of the largest site is.
    pub(super) fn push(&mut self, slot: u8, hello: ProvedHello) {
        if !self.origins.insert(hello.origin()) {
            return;
        }
        self.bytes += hello.datagram.packet.len();
        self.by_slot.entry(slot).or_default().push_back(hello);
        while self.origins.len() > HELLOS_MAX || self.bytes > BYTES_MAX {
            let largest = self.by_slot.iter().max_by_key(|(_, hellos)| hellos.len()).map(|(slot, _)| *slot);
            let Some(slot) = largest else { return };
            self.pop_from(slot);
        }
    }

    /// The sites with hellos, in the order of their turns.
    pub(super) fn slots(&self) -> impl Iterator<Item = u8> {
        self.by_slot.range(self.turn..).chain(self.by_slot.range(..self.turn)).map(|(slot, _)| *slot)
    }

    /// The first hello of a site.
    pub(super) fn first(&self, slot: u8) -> Option<&ProvedHello> {
        self.by_slot.get(&slot)?.front()
    }

    /// Takes the first hello of a site, whose turn is over.
    pub(super) fn pop(&mut self, slot: u8) -> Option<ProvedHello> {
        self.turn = slot.wrapping_add(1);
        self.pop_from(slot)
    }

    fn pop_from(&mut self, slot: u8) -> Option<ProvedHello> {
        let hellos = self.by_slot.get_mut(&slot)?;
        let hello = hellos.pop_front();
        if hellos.is_empty() {
            self.by_slot.remove(&slot);
        }
        if let Some(hello) = &hello {
            self.origins.remove(&hello.origin());
            self.bytes -= hello.datagram.packet.len();
        }
        hello
    }

    /// Drops the hellos of clients that have given up.
    pub(super) fn expire(&mut self, now: Instant) {
        let slots: Vec<u8> = self.slots().collect();
        for slot in slots {
            while self.first(slot).is_some_and(|hello| now.saturating_duration_since(hello.received_at) > LIFETIME) {
                self.pop_from(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use bytes::BytesMut;
    use festina_units::EcnCodepoint;

    use super::*;

    fn hello(number: u64, bytes: usize) -> ProvedHello {
        let from = SocketAddr::from(([192, 0, 2, 1], 9_899));
        let packet = BytesMut::zeroed(bytes);
        let datagram = Datagram { from, source: None, ecn: EcnCodepoint::NotCapable, packet };
        let received_at = Instant::from_secs(3_600) + Duration::from_millis(number);
        ProvedHello { original: ConnectionId(number.to_be_bytes()), datagram, received_at }
    }

    #[test]
    fn sites_take_turns_and_the_largest_one_loses_its_oldest_when_there_are_too_many() {
        let mut waiting = Waiting::default();
        for number in 0..5_000 {
            waiting.push(7, hello(number, 300));
        }
        waiting.push(7, hello(4_999, 300));
        for number in 5_000..5_003 {
            waiting.push(9, hello(number, 300));
        }
        assert_eq!((waiting.origins.len(), waiting.bytes), (HELLOS_MAX, 300 * HELLOS_MAX));
        let order = std::iter::from_fn(|| {
            let slot = waiting.slots().next()?;
            waiting.pop(slot).map(|hello| u64::from_be_bytes(hello.original.0))
        });
        let order: Vec<_> = order.collect();
        assert_eq!(order[..7], [907, 5_000, 908, 5_001, 909, 5_002, 910]);
        assert_eq!((order.len(), waiting.bytes, waiting.by_slot.len()), (HELLOS_MAX, 0, 0));
    }

    #[test]
    fn long_hellos_and_old_ones_make_room() {
        let mut waiting = Waiting::default();
        for number in 0..200 {
            waiting.push(1, hello(number, 64 << 10));
        }
        assert!(waiting.bytes <= BYTES_MAX && waiting.origins.len() == 128);
        waiting.expire(Instant::from_secs(3_600) + LIFETIME + Duration::from_millis(150));
        assert_eq!(waiting.first(1).map(|hello| hello.original), Some(ConnectionId(150_u64.to_be_bytes())));
    }
}
