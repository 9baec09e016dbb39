//! How fast the simulator runs four greedy TCP New Reno flows through a dumbbell: a bottleneck of 10 Mbit/s, 40 ms and 100
//! packets, access links of 1 Gbit/s and 10 us, segments of 1,448 bytes, 60 simulated seconds, the flows starting 0.1 s apart.
//!
//! ns-3 3.37 (Debian) needs 5.1 to 6.3 s for the same scenario and counts 226,201 hop transmissions, 36,000 to 45,000 a second.
//!
//! ```sh
//! cargo run --release -p festina-models --example four_flows
//! ```

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::tcp::TcpConfig;
use festina_models::tcp_host::{TcpHost, TcpSender};
use festina_models::workload::{Greedy, Workload};
use festina_netsim::{Duplex, LinkConfig, NodeId, QueueLimit, Simulation, Topology};
use festina_units::{ByteCount, Duration, Instant};

const SIMULATED: Duration = Duration::from_secs(60);
const FLOWS: u32 = 4;
const SEED: u64 = 1;
const REPETITIONS: u32 = 5;

fn simulation() -> (Simulation<Packet, Host>, Vec<NodeId>) {
    let link = |rate: &str, delay, packets| {
        let rate = Some(rate.parse().expect("a rate"));
        LinkConfig { rate, delay, queue: QueueLimit::packets(packets), ..LinkConfig::default() }
    };
    let access = Duplex::symmetric(link("1Gbit/s", Duration::from_micros(10), 1_000));
    let bottleneck = Duplex::symmetric(link("10Mbit/s", Duration::from_millis(40), 100));
    let dumbbell = Topology::dumbbell(&vec![access; 4], bottleneck);
    let config = TcpConfig { mss_bytes: 1_448, receive_buffer_bytes: 1 << 20, ..TcpConfig::new_reno() };
    let mut hosts: Vec<Host> = Vec::new();
    for ((&sender, &receiver), number) in dumbbell.senders.iter().zip(&dumbbell.receivers).zip(0..FLOWS) {
        let greedy = Workload::Greedy(Greedy { size: ByteCount::from_bytes(64 << 10) });
        let starts_at = Instant::ZERO + Duration::from_millis(100) * number;
        let flow = TcpSender { connects_at: starts_at, starts_at, ..TcpSender::new(receiver, config, greedy) };
        hosts.push(TcpHost::new(sender, SEED).with_sender(flow).into());
        hosts.push(TcpHost::new(receiver, SEED).listening(config).into());
    }
    (Simulation::new(dumbbell.topology, hosts, SEED), dumbbell.receivers)
}

#[expect(clippy::disallowed_methods, reason = "it measures wall time")]
fn main() {
    for _ in 0..REPETITIONS {
        let (mut simulation, receivers) = simulation();
        let began_at = std::time::Instant::now();
        simulation.run_until(Instant::ZERO + SIMULATED);
        let took = began_at.elapsed();
        let counters = simulation.counters();
        let received = |&node| simulation.node(node).as_tcp().map_or(0, |host| host.totals().bytes_received);
        let bytes: u64 = receivers.iter().map(received).sum();
        println!(
            "{} hop transmissions, {} events, goodput {:.2} Mbit/s, {:.1} ms: {:.2} million hop transmissions per second",
            counters.hops,
            counters.events,
            bytes as f64 * 8.0 / SIMULATED.as_secs_f64() / 1e6,
            took.as_secs_f64() * 1e3,
            counters.hops as f64 / took.as_secs_f64() / 1e6,
        );
    }
}
