//! Packet-hops per second that the simulator processes on one core.
//!
//! Four hosts send packets of 1500 bytes at a constant rate through a dumbbell with a bottleneck of 10 Mbit/s and 40 ms, 98 %
//! loaded, and four hosts answer every packet with one of 40 bytes, as TCP would. Prints packet-hops per second of wall time.
//!
//! ```sh
//! cargo run --release -p festina-netsim --example hops
//! ```

use std::hint::black_box;

use festina_netsim::{Duplex, LinkConfig, LinkPacket, Node, NodeId, QueueLimit, SimPacket, Simulation, Topology};
use festina_units::{ByteCount, Duration, Instant};

const SIMULATED: Duration = Duration::from_secs(600);
const INTERVAL: Duration = Duration::from_nanos(4 * 1_224_490);
const REPETITIONS: u32 = 5;

/// About as large as a model's TCP segment.
#[derive(Debug, Clone)]
struct Packet {
    source: NodeId,
    destination: NodeId,
    bytes: u64,
    /// Stands in for the fields of a header.
    _header: [u64; 5],
}

impl LinkPacket for Packet {
    fn size(&self) -> ByteCount {
        ByteCount::from_bytes(self.bytes)
    }

    fn corrupt(&mut self, _entropy: u64) {}

    fn flow(&self) -> u64 {
        u64::from(self.source.0)
    }
}

impl SimPacket for Packet {
    fn destination(&self) -> NodeId {
        self.destination
    }
}

/// Sends at a constant rate, or answers received packets.
enum Host {
    Sender { next_at: Instant, packet: Packet, is_due: bool, answers: u64 },
    Receiver { own: NodeId, answer: Option<Packet> },
}

impl Node<Packet> for Host {
    fn handle_packet(&mut self, _now: Instant, packet: Packet) {
        match self {
            Self::Sender { answers, .. } => *answers += 1,
            Self::Receiver { own, answer } => {
                *answer = Some(Packet { destination: packet.source, source: *own, bytes: 40, ..packet });
            }
        }
    }

    fn handle_timeout(&mut self, _now: Instant) {
        if let Self::Sender { next_at, is_due, .. } = self {
            *is_due = true;
            *next_at += INTERVAL;
        }
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Packet> {
        match self {
            Self::Sender { packet, is_due, .. } => std::mem::take(is_due).then(|| packet.clone()),
            Self::Receiver { answer, .. } => answer.take(),
        }
    }

    fn poll_deadline(&self) -> Option<Instant> {
        match self {
            Self::Sender { next_at, .. } => Some(*next_at),
            Self::Receiver { .. } => None,
        }
    }
}

fn simulation() -> Simulation<Packet, Host> {
    let link = |rate: &str, delay, packets| LinkConfig {
        rate: Some(rate.parse().expect("a rate")),
        delay,
        queue: QueueLimit::packets(packets),
        ..LinkConfig::default()
    };
    let access = Duplex::symmetric(link("1Gbit/s", Duration::from_micros(10), 1_000));
    let bottleneck = Duplex::symmetric(link("10Mbit/s", Duration::from_millis(40), 100));
    let dumbbell = Topology::dumbbell(&vec![access; 4], bottleneck);
    let pairs = dumbbell.senders.iter().zip(&dumbbell.receivers);
    let mut nodes = Vec::new();
    for ((sender, receiver), offset) in pairs.zip(0..) {
        let packet = Packet { source: *sender, destination: *receiver, bytes: 1_500, _header: [0; 5] };
        let next_at = Instant::ZERO + INTERVAL * offset / 4;
        nodes.push(Host::Sender { next_at, packet, is_due: false, answers: 0 });
        nodes.push(Host::Receiver { own: *receiver, answer: None });
    }
    Simulation::new(dumbbell.topology, nodes, 1)
}

#[expect(clippy::disallowed_methods, reason = "it measures wall time")]
fn main() {
    for _ in 0..REPETITIONS {
        let mut simulation = simulation();
        let began_at = std::time::Instant::now();
        simulation.run_until(Instant::ZERO + SIMULATED);
        let took = began_at.elapsed();
        let counters = black_box(simulation.counters());
        println!(
            "{} hops, {} events, {} ms: {:.2} million packet-hops per second, {:.2} events per hop",
            counters.hops,
            counters.events,
            took.as_millis(),
            counters.hops as f64 / took.as_secs_f64() / 1e6,
            counters.events as f64 / counters.hops as f64,
        );
    }
}
