//! Bulk transfers over the shipped core in virtual time: next to Linux's CUBIC (the TCP model's), next to itself, over
//! long fat paths, with random loss, and a short message right after the handshake.
//!
//! ```sh
//! cargo run -p festina-models --example bulk -- [CONGESTION CONTROL] [SCENARIO..]
//! ```
//!
//! The scenarios are `beside`, `itself`, `fast`, `long`, `lossy` and `short`; all of them without an argument.

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::sctp_host::{SctpHost, SctpSender};
use festina_models::tcp::TcpConfig;
use festina_models::tcp_host::{TcpHost, TcpSender};
use festina_models::workload::{Greedy, Periodic, Workload};
use festina_netsim::{Duplex, LinkConfig, LossModel, NodeId, QueueLimit, Simulation, Topology};
use festina_sctp::{Config, CongestionControl, Stats};
use festina_units::{ByteCount, Duration, Instant, Probability};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

/// A bottleneck; access links add 10 us each.
#[derive(Clone, Copy)]
struct Path {
    rate: &'static str,
    rtt_ms: u64,
    queue_packets: usize,
    loss_ppb: u32,
}

/// The stack of a sender.
#[derive(Clone, Copy, PartialEq)]
enum Stack {
    Sctp,
    Tcp,
}

struct Flows {
    simulation: Simulation<Packet, Host>,
    receivers: Vec<NodeId>,
    senders: Vec<NodeId>,
}

/// Buffers twice as large as the bandwidth-delay product of the longest path.
fn config() -> Config {
    let mut config = Config::default();
    if let Some(congestion) = std::env::args().skip(1).find_map(|name| name.parse::<CongestionControl>().ok()) {
        config.congestion = congestion;
    }
    config.limits.receive_buffer_bytes = 64 << 20;
    config.limits.send_buffer_bytes = 64 << 20;
    config.limits.send_low_water_bytes = 32 << 20;
    config
}

fn flows(path: Path, stacks: &[Stack], workload: &Workload, seed: u64) -> Flows {
    let rate = |text: &str| Some(text.parse().expect("a rate"));
    let access = LinkConfig {
        rate: rate("10Gbit/s"),
        delay: Duration::from_micros(10),
        queue: QueueLimit::packets(100_000),
        ..LinkConfig::default()
    };
    let back = LinkConfig {
        rate: rate(path.rate),
        delay: Duration::from_millis(path.rtt_ms / 2),
        queue: QueueLimit::packets(path.queue_packets),
        ..LinkConfig::default()
    };
    let loss = match path.loss_ppb {
        0 => LossModel::None,
        loss_ppb => LossModel::Independent(Probability::from_ppb(loss_ppb)),
    };
    let forth = LinkConfig { loss, ..back.clone() };
    let accesses = vec![Duplex::symmetric(access); stacks.len()];
    let dumbbell = Topology::dumbbell(&accesses, Duplex { forward: forth, backward: back });
    let tcp = TcpConfig { receive_buffer_bytes: 64 << 20, ..TcpConfig::linux() };
    let mut hosts: Vec<Host> = Vec::new();
    for (number, stack) in (0_u32..).zip(stacks) {
        let (sender, receiver) = (dumbbell.senders[number as usize], dumbbell.receivers[number as usize]);
        let starts_at = Instant::ZERO + Duration::from_millis(100 + 70 * seed) * number;
        match stack {
            Stack::Sctp => {
                let flow =
                    SctpSender { connects_at: starts_at, starts_at, ..SctpSender::new(receiver, workload.clone()) };
                hosts.push(SctpHost::new(sender, seed, config()).expect("valid").with_sender(&flow).into());
                hosts.push(SctpHost::new(receiver, seed, config()).expect("valid").listening().into());
            }
            Stack::Tcp => {
                let flow =
                    TcpSender { connects_at: starts_at, starts_at, ..TcpSender::new(receiver, tcp, workload.clone()) };
                hosts.push(TcpHost::new(sender, seed).with_sender(flow).into());
                hosts.push(TcpHost::new(receiver, seed).listening(tcp).into());
            }
        }
    }
    let simulation = Simulation::new(dumbbell.topology, hosts, seed);
    Flows { simulation, receivers: dumbbell.receivers, senders: dumbbell.senders }
}

impl Flows {
    fn bytes(&self) -> Vec<u64> {
        let received = |&node| match self.simulation.node(node) {
            Host::Sctp(host) => host.received(0).bytes,
            host => host.as_tcp().map_or(0, |host| host.totals().bytes_received),
        };
        self.receivers.iter().map(received).collect()
    }

    /// Goodput of each flow in Mbit/s from `from` to `until`.
    fn goodput(&mut self, from: u64, until: u64) -> Vec<f64> {
        self.simulation.run_until(Instant::from_secs(from));
        let before = self.bytes();
        self.simulation.run_until(Instant::from_secs(until));
        let rate = |(after, before): (u64, u64)| (after - before) as f64 * 8.0 / (until - from) as f64 / 1e6;
        self.bytes().into_iter().zip(before).map(rate).collect()
    }

    fn stats(&self, flow: usize) -> Option<Stats> {
        self.simulation.node(self.senders[flow]).as_sctp().and_then(|host| host.stats(0))
    }

    fn print_stats(&self, flow: usize) {
        if let Some(stats) = self.stats(flow) {
            let (sent, path) = (stats.sent, stats.path);
            println!(
                "    {} packets, {} lost chunks, {} timeouts, {} fast, {} spurious; cwnd {} kB, srtt {:.1} ms",
                sent.packets,
                sent.chunks_lost,
                sent.timeouts,
                sent.retransmitted.fast,
                sent.spurious,
                path.cwnd_bytes / 1_000,
                path.srtt.unwrap_or_default().as_secs_f64() * 1e3,
            );
        }
    }
}

fn greedy() -> Workload {
    Workload::Greedy(Greedy { size: ByteCount::from_bytes(60 << 10) })
}

const MEDIUM: Path = Path { rate: "10Mbit/s", rtt_ms: 40, queue_packets: 100, loss_ppb: 0 };

/// One flow next to one of Linux's: its share, where 1 is fair.
fn beside() {
    for queue_packets in [100, 20] {
        for seed in SEEDS {
            let path = Path { queue_packets, ..MEDIUM };
            let mut flows = flows(path, &[Stack::Sctp, Stack::Tcp], &greedy(), seed);
            let goodput = flows.goodput(10, 130);
            let share = 2.0 * goodput[0] / (goodput[0] + goodput[1]);
            println!("beside CUBIC, queue {queue_packets}, seed {seed}: share {share:.2}, {goodput:.2?} Mbit/s");
            flows.print_stats(0);
        }
    }
}

/// Two to eight flows on one bottleneck: Jain's index.
fn itself() {
    for (count, queue_packets) in [(2, 100), (2, 20), (4, 100), (8, 100)] {
        let path = Path { queue_packets, ..MEDIUM };
        let mut flows = flows(path, &vec![Stack::Sctp; count], &greedy(), 1);
        let goodput = flows.goodput(10, 130);
        let (sum, squares) = goodput.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        let jain = sum * sum / (count as f64 * squares);
        println!("{count} flows, queue {queue_packets}: Jain {jain:.3}, {sum:.2} Mbit/s, {goodput:.2?}");
        flows.print_stats(0);
    }
}

fn alone(name: &str, path: Path, stack: Stack, spans: &[(u64, u64)]) {
    let mut flows = flows(path, &[stack], &greedy(), 1);
    for &(from, until) in spans {
        println!("{name}, {from} s to {until} s: {:.1?} Mbit/s", flows.goodput(from, until));
        flows.print_stats(0);
    }
}

fn fast() {
    let path = Path { rate: "1Gbit/s", rtt_ms: 40, queue_packets: 1_000, loss_ppb: 0 };
    alone("1 Gbit/s, 40 ms", path, Stack::Sctp, &[(0, 1), (1, 2), (2, 5), (5, 10), (10, 20)]);
}

fn long() {
    let path = Path { rate: "100Mbit/s", rtt_ms: 200, queue_packets: 500, loss_ppb: 0 };
    alone("100 Mbit/s, 200 ms", path, Stack::Sctp, &[(0, 2), (2, 5), (5, 10), (10, 20), (20, 30)]);
}

fn lossy() {
    for seed in SEEDS {
        for (name, stack) in [("SCTP", Stack::Sctp), ("TCP", Stack::Tcp)] {
            let path = Path { rate: "50Mbit/s", rtt_ms: 40, queue_packets: 200, loss_ppb: 1_000_000 };
            let mut flows = flows(path, &[stack], &greedy(), seed);
            println!("50 Mbit/s, 40 ms, 0.1 % loss, {name}, seed {seed}: {:.1?} Mbit/s", flows.goodput(0, 60));
            flows.print_stats(0);
        }
    }
}

/// 12,000 bytes right after the handshake: when they have arrived.
fn short() {
    let workload =
        Workload::Periodic(Periodic { size: ByteCount::from_bytes(12_000), interval: Duration::from_secs(1_000) });
    let path = Path { rate: "100Mbit/s", rtt_ms: 40, queue_packets: 100, loss_ppb: 0 };
    for stack in [Stack::Sctp, Stack::Tcp] {
        let mut flows = flows(path, &[stack], &workload, 1);
        for millis in 0..1_000 {
            flows.simulation.run_until(Instant::from_millis(millis));
            if flows.bytes()[0] >= 12_000 {
                println!("12,000 bytes at once: there {millis} ms after INIT or SYN");
                break;
            }
        }
    }
}

fn main() {
    let scenarios: [(&str, fn()); 6] =
        [("beside", beside), ("itself", itself), ("fast", fast), ("long", long), ("lossy", lossy), ("short", short)];
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let all = !chosen.iter().any(|choice| scenarios.iter().any(|(name, _)| name == choice));
    for (name, run) in scenarios {
        if all || chosen.iter().any(|choice| choice == name) {
            run();
        }
    }
}
