//! Hellos that wait for CPU time or for a place. One site's many do not keep those of others waiting.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use festina_secure::wire::ConnectionId;
use festina_units::{Duration, Instant};

use super::budget::Payer;
use crate::demux::Origin;
use crate::owner::Datagram;

/// Hellos that wait: a crowd that comes at once.
const HELLOS_MAX: usize = 4_096;
/// Bytes of them.
const BYTES_MAX: usize = 8 << 20;
/// Further datagrams of a hello: with a long token or chain it takes several.
const FURTHER_MAX: usize = 3;
/// A client repeats its hello earlier than this, or has given up.
const LIFETIME: Duration = Duration::from_secs(10);

/// A hello that may begin a handshake.
#[derive(Debug)]
pub(super) struct WaitingHello {
    /// The connection ID that the client chose.
    pub(super) original: ConnectionId,
    pub(super) datagram: Datagram,
    /// Those that came after it from the same client, which may be the rest of the hello or repetitions.
    pub(super) further: Vec<Datagram>,
    pub(super) received_at: Instant,
}

impl WaitingHello {
    fn origin(&self) -> Origin {
        (self.original, self.datagram.from)
    }

    fn bytes(&self) -> usize {
        self.datagram.packet.len() + self.further.iter().map(|datagram| datagram.packet.len()).sum::<usize>()
    }
}

/// The hellos of all sites, each in its order, and those of clients that have not proved their addresses. They take turns.
#[derive(Debug)]
pub(super) struct Waiting {
    by_payer: BTreeMap<Payer, VecDeque<WaitingHello>>,
    /// The clients, each with the further datagrams of its hello.
    origins: HashMap<Origin, Vec<Datagram>>,
    bytes: usize,
    /// Whose turn was the last.
    last: Payer,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self { by_payer: BTreeMap::new(), origins: HashMap::new(), bytes: 0, last: Payer::Unproved }
    }

    /// Adds a hello, or a further datagram of one. If there are too many, the oldest of the largest site is dropped.
    pub(super) fn push(&mut self, payer: Payer, mut hello: WaitingHello) {
        match self.origins.entry(hello.origin()) {
            Entry::Occupied(known) => {
                let (further, datagram) = (known.into_mut(), hello.datagram);
                if further.len() >= FURTHER_MAX || further.iter().any(|other| other.packet == datagram.packet) {
                    return;
                }
                self.bytes += datagram.packet.len();
                further.push(datagram);
            }
            Entry::Vacant(unknown) => {
                self.bytes += hello.bytes();
                unknown.insert(std::mem::take(&mut hello.further));
                self.by_payer.entry(payer).or_default().push_back(hello);
            }
        }
        while self.origins.len() > HELLOS_MAX || self.bytes > BYTES_MAX {
            let largest = self.by_payer.iter().max_by_key(|(_, hellos)| hellos.len()).map(|(payer, _)| *payer);
            let Some(payer) = largest else { return };
            self.pop_from(payer);
        }
    }

    /// Those with hellos, in the order of their turns.
    pub(super) fn payers(&self) -> impl Iterator<Item = Payer> {
        let later = self.by_payer.range((Excluded(self.last), Unbounded));
        later.chain(self.by_payer.range(..=self.last)).map(|(payer, _)| *payer)
    }

    /// The number of hellos of one of them.
    pub(super) fn count(&self, payer: Payer) -> usize {
        self.by_payer.get(&payer).map_or(0, VecDeque::len)
    }

    /// Takes the first hello of one of them, whose turn is over.
    pub(super) fn pop(&mut self, payer: Payer) -> Option<WaitingHello> {
        self.last = payer;
        self.pop_from(payer)
    }

    fn pop_from(&mut self, payer: Payer) -> Option<WaitingHello> {
        let hellos = self.by_payer.get_mut(&payer)?;
        let mut hello = hellos.pop_front();
        if hellos.is_empty() {
            self.by_payer.remove(&payer);
        }
        if let Some(hello) = &mut hello {
            hello.further = self.origins.remove(&hello.origin()).unwrap_or_default();
            self.bytes -= hello.bytes();
        }
        hello
    }

    /// Drops the hellos of clients that have given up.
    pub(super) fn expire(&mut self, now: Instant) {
        let payers: Vec<Payer> = self.payers().collect();
        for payer in payers {
            let first_at = |waiting: &Self| Some(waiting.by_payer.get(&payer)?.front()?.received_at);
            while first_at(self).is_some_and(|at| now.saturating_duration_since(at) > LIFETIME) {
                self.pop_from(payer);
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

    fn hello(number: u64, bytes: usize) -> WaitingHello {
        let from = SocketAddr::from(([192, 0, 2, 1], 9_899));
        let packet = BytesMut::zeroed(bytes);
        let datagram = Datagram { from, source: None, ecn: EcnCodepoint::NotCapable, packet };
        let received_at = Instant::from_secs(3_600) + Duration::from_millis(number);
        WaitingHello { original: ConnectionId(number.to_be_bytes()), datagram, further: Vec::new(), received_at }
    }

    #[test]
    fn sites_take_turns_and_the_largest_one_loses_its_oldest_when_there_are_too_many() {
        let mut waiting = Waiting::new();
        for number in 0..5_000 {
            waiting.push(Payer::Site(7), hello(number, 300));
        }
        for number in 5_000..5_003 {
            waiting.push(Payer::Site(9), hello(number, 300));
        }
        assert_eq!((waiting.origins.len(), waiting.bytes), (HELLOS_MAX, 300 * HELLOS_MAX));
        let order = std::iter::from_fn(|| {
            let payer = waiting.payers().next()?;
            waiting.pop(payer).map(|hello| u64::from_be_bytes(hello.original.0))
        });
        let order: Vec<_> = order.collect();
        assert_eq!(order[..7], [907, 5_000, 908, 5_001, 909, 5_002, 910]);
        assert_eq!((order.len(), waiting.bytes, waiting.by_payer.len()), (HELLOS_MAX, 0, 0));
    }

    #[test]
    fn a_few_different_datagrams_of_a_client_wait_together_and_count() {
        let mut waiting = Waiting::new();
        for bytes in [1_000, 200, 200, 300, 400, 500] {
            waiting.push(Payer::Site(7), hello(1, bytes));
        }
        assert_eq!((waiting.count(Payer::Site(7)), waiting.bytes), (1, 1_900));
        let first = waiting.pop(Payer::Site(7)).expect("it waits");
        let lengths: Vec<usize> = first.further.iter().map(|datagram| datagram.packet.len()).collect();
        assert_eq!((first.datagram.packet.len(), lengths, waiting.bytes), (1_000, vec![200, 300, 400], 0));
        waiting.push(Payer::Site(7), first);
        assert_eq!((waiting.bytes, waiting.pop(Payer::Site(7)).map(|hello| hello.further.len())), (1_900, Some(3)));
    }

    #[test]
    fn long_hellos_and_old_ones_make_room() {
        let mut waiting = Waiting::new();
        for number in 0..200 {
            waiting.push(Payer::Site(1), hello(number, 64 << 10));
        }
        assert!(waiting.bytes <= BYTES_MAX && waiting.origins.len() == 128);
        waiting.expire(Instant::from_secs(3_600) + LIFETIME + Duration::from_millis(150));
        assert_eq!(waiting.pop(Payer::Site(1)).map(|hello| hello.original), Some(ConnectionId(150_u64.to_be_bytes())));
    }
}
