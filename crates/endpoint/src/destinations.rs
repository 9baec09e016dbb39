//! Cached path state per destination, for later associations to the same one (RFC 9040).
//!
//! Only associations that this side initiated and whose handshake was completed are cached. So a peer cannot decide which entries are kept or
//! evicted, and this side's retransmission times reveal nothing that the peer does not know.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use festina_sctp::{DestinationMemory, PathKnowledge};
use festina_units::Instant;

/// A bounded memory of destinations. The one that was left or asked for longest ago goes first.
#[derive(Debug)]
pub struct Destinations {
    limits: DestinationMemory,
    known: HashMap<SocketAddr, Known>,
    /// The destinations by their last use, the oldest first.
    by_use: BTreeMap<u64, SocketAddr>,
    uses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    knowledge: PathKnowledge,
    learned_at: Instant,
    last_use: u64,
}

impl Destinations {
    /// An empty memory.
    pub fn new(limits: DestinationMemory) -> Self {
        Self { limits, known: HashMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    /// Stores the path state of an association to `destination` that has ended.
    pub fn learn(&mut self, now: Instant, destination: SocketAddr, knowledge: PathKnowledge) {
        if self.limits.destinations_max == 0 {
            return;
        }
        self.forget(destination);
        if self.known.len() >= self.limits.destinations_max
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.known.remove(&oldest);
        }
        let last_use = self.next_use(destination);
        self.known.insert(destination, Known { knowledge, learned_at: now, last_use });
    }

    /// Returns the cached state of the path to `destination`, weighted by its age.
    pub fn recall(&mut self, now: Instant, destination: SocketAddr) -> Option<PathKnowledge> {
        let Known { knowledge, learned_at, .. } = *self.known.get(&destination)?;
        self.forget(destination);
        let age = now.saturating_duration_since(learned_at);
        if age > self.limits.lifetime {
            return None;
        }
        let last_use = self.next_use(destination);
        self.known.insert(destination, Known { knowledge, learned_at, last_use });
        Some(knowledge.aged(age))
    }

    fn forget(&mut self, destination: SocketAddr) {
        if let Some(known) = self.known.remove(&destination) {
            self.by_use.remove(&known.last_use);
        }
    }

    fn next_use(&mut self, destination: SocketAddr) -> u64 {
        self.uses += 1;
        self.by_use.insert(self.uses, destination);
        self.uses
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use festina_sctp::{Association, Config, Context, Incoming, Listener, Ports};
    use festina_units::{Duration, EcnCodepoint};

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_secs(1_000 + seconds)
    }

    fn destination(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn memory(destinations_max: usize) -> Destinations {
        Destinations::new(DestinationMemory { destinations_max, lifetime: Duration::from_secs(600) })
    }

    /// The path state of an association whose handshake measured this round trip.
    fn knowledge(round_trip: Duration) -> PathKnowledge {
        let context: Arc<Context> =
            Context::new(Config::default(), [7; 16]).expect("the default settings are in range");
        let mut listener = Listener::new(&context);
        listener.listen(5_000);
        let [client, server] = [destination(1), destination(2)];
        let ports = Ports { local: 5_001, peer: 5_000 };
        let mut now = at(0);
        let mut association = Association::connect(now, &context, server, ports, 1);
        let mut accepted: Option<Association> = None;
        while association.path_knowledge(now).is_none() {
            let (mut packet, mut reply) = (Vec::new(), Vec::new());
            association.poll_transmit(now, &mut packet).expect("the handshake goes on");
            let packet = Bytes::from(packet);
            if let Incoming::Accepted(core) = listener.handle_packet(now, client, &packet, &|_| false, &mut reply) {
                accepted.insert(*core).poll_transmit(now, &mut reply).expect("COOKIE ACK");
            }
            now += round_trip;
            association
                .handle_packet(now, server, EcnCodepoint::NotCapable, &reply.into())
                .expect("the answer is welcome");
        }
        association.path_knowledge(now).expect("the loop ends with it")
    }

    const MS_20: Duration = Duration::from_millis(20);

    #[test]
    fn what_was_learned_of_a_destination_is_recalled_until_its_time_is_over() {
        let (mut memory, known) = (memory(10), knowledge(MS_20));
        assert_eq!(known.srtt(), MS_20);
        memory.learn(at(0), destination(1), known);
        assert_eq!(memory.recall(at(0), destination(1)), Some(known));
        assert_eq!(memory.recall(at(600), destination(1)), Some(known.aged(Duration::from_secs(600))));
        assert_eq!(memory.recall(at(0), destination(2)), None, "another port may be another host behind a NAT");
        assert_eq!(memory.recall(at(601), destination(1)), None);
        assert!(memory.known.is_empty() && memory.by_use.is_empty());
    }

    #[test]
    fn asking_does_not_make_what_is_known_any_younger() {
        let (mut memory, known) = (memory(10), knowledge(MS_20));
        memory.learn(at(0), destination(1), known);
        (1..600).for_each(|second| assert!(memory.recall(at(second), destination(1)).is_some()));
        assert_eq!(memory.recall(at(601), destination(1)), None);
    }

    #[test]
    fn the_destination_that_was_used_longest_ago_makes_room() {
        let (mut memory, known) = (memory(3), knowledge(MS_20));
        (1..=3).for_each(|port| memory.learn(at(0), destination(port), known));
        assert!(memory.recall(at(1), destination(1)).is_some());
        memory.learn(at(2), destination(4), known);
        let left: Vec<u16> = (1..=4).filter(|&port| memory.recall(at(3), destination(port)).is_some()).collect();
        assert_eq!(left, [1, 3, 4]);
        (0..10_000).for_each(|port| memory.learn(at(4), destination(port), known));
        assert_eq!((memory.known.len(), memory.by_use.len()), (3, 3));
    }

    #[test]
    fn a_memory_of_no_destinations_is_switched_off() {
        let mut memory = memory(0);
        memory.learn(at(0), destination(1), knowledge(MS_20));
        assert_eq!(memory.recall(at(0), destination(1)), None);
    }
}
