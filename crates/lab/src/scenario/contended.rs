//! One bottleneck or several in a row, each with greedy TCP flows of its own: R12 §III-B, and R15's parking lot.
//!
//! ```text
//! sender ──┐                                                   ┌── receiver
//!          r0 ── bottleneck 1 ── r1 ── bottleneck 2 ── r2 ... rn
//! TCP 1 ───┘                     ├─── sinks of TCP 1
//!                                └─── TCP 2 ...
//! ```

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::tcp::TcpConfig;
use festina_models::tcp_host::{TcpHost, TcpSender};
use festina_models::workload::{Greedy, Workload};
use festina_netsim::{
    Duplex, Jitter, JitterShape, LinkConfig, LinkId, LossModel, NodeId, QueueLimit, RandomStream, Simulation, Topology,
};
use festina_units::{Bandwidth, ByteCount, Duration, Instant, Probability};

use super::fairness::bytes_received;
use crate::count::as_f64;

/// The TCP flows have filled the queue by then.
pub(crate) const STARTS_AT: Instant = Instant::from_secs(10);
/// Time within which the TCP flows start.
const START_SPREAD: Duration = Duration::from_secs(2);
/// After the last write it is looked so often whether the sender has something left.
const DRAIN_STEP: Duration = Duration::from_secs(5);
/// Time after which unsettled messages count as not delivered.
const DRAIN_MAX: Duration = Duration::from_secs(300);
/// All links but the bottlenecks.
const ACCESS_RATE: Bandwidth = Bandwidth::from_bits_per_second(100_000_000);
/// A full packet, which takes the bottleneck for as long as packets are shifted against each other.
const PACKET_BYTES: u64 = 1_500;

/// Bottlenecks in a row, and the TCP flows over each.
#[derive(Clone, Debug)]
pub(crate) struct Contended {
    /// Number of bottlenecks.
    pub(crate) hops: u64,
    /// The rate of each.
    pub(crate) rate: Bandwidth,
    /// Queue limit of each.
    pub(crate) queue: QueueLimit,
    /// How probably each loses a packet by chance, each way.
    pub(crate) loss: Probability,
    /// The round-trip time of all flows when nothing waits.
    pub(crate) rtt: Duration,
    /// Greedy TCP flows over each bottleneck.
    pub(crate) greedy: u64,
}

/// What became of it.
#[derive(Clone, Debug)]
pub(crate) struct ContendedRun<T> {
    /// The observations at both ends.
    pub(crate) observed: T,
    /// Share of the packets offered to all bottlenecks while messages were written that found no room.
    pub(crate) dropped: f64,
    /// Goodput of the TCP flows meanwhile, per bottleneck.
    pub(crate) tcp_bps: f64,
}

/// Where everything is.
struct Layout {
    topology: Topology,
    bottlenecks: Vec<LinkId>,
    ends: [NodeId; 2],
    /// Servers and sinks of the TCP flows, by bottleneck.
    tcp: Vec<[NodeId; 2]>,
}

impl Contended {
    /// Runs it while messages are written from [`STARTS_AT`] for a time, and then on until `is_settled` says so of both ends, or for too
    /// long. `hosts` makes both ends at their places; they write until the given time. The same seed gives the same run.
    pub(crate) fn run<T>(
        &self,
        seed: u64,
        duration: Duration,
        hosts: impl FnOnce([NodeId; 2], Instant) -> [Host; 2],
        is_settled: impl Fn([&Host; 2]) -> bool,
        observe: impl FnOnce([&Host; 2]) -> T,
    ) -> ContendedRun<T> {
        let layout = self.layout();
        let stops_at = STARTS_AT + duration;
        let [sender, receiver] = hosts(layout.ends, stops_at);
        let hosts = self.hosts(&layout.tcp, seed, sender, receiver);
        let Layout { topology, bottlenecks, ends, tcp } = layout;
        let mut simulation: Simulation<Packet, Host> = Simulation::new(topology, hosts, seed);
        let counted = |simulation: &Simulation<Packet, Host>| {
            let links = bottlenecks.iter().map(|&link| simulation.link_counters(link));
            let drops =
                links.fold([0, 0], |[offered, dropped], link| [offered + link.offered, dropped + link.queue_dropped]);
            (drops, tcp.iter().map(|&[_, sink]| bytes_received(simulation.node(sink))).sum::<u64>())
        };
        simulation.run_until(STARTS_AT);
        let (before, tcp_before) = counted(&simulation);
        simulation.run_until(stops_at);
        let (after, tcp_after) = counted(&simulation);
        let mut drained = Duration::ZERO;
        while drained < DRAIN_MAX {
            drained += DRAIN_STEP;
            simulation.run_until(stops_at + drained);
            if is_settled(ends.map(|end| simulation.node(end))) {
                break;
            }
        }
        let [offered, dropped] = [0, 1].map(|index| after[index] - before[index]);
        ContendedRun {
            observed: observe(ends.map(|end| simulation.node(end))),
            dropped: as_f64(dropped) / as_f64(offered.max(1)),
            tcp_bps: as_f64((tcp_after - tcp_before) * 8) / duration.as_secs_f64() / as_f64(self.hops.max(1)),
        }
    }

    /// The link of a bottleneck, without delay.
    pub(crate) fn bottleneck(&self) -> LinkConfig {
        let loss = if self.loss == Probability::ZERO { LossModel::None } else { LossModel::Independent(self.loss) };
        LinkConfig { rate: Some(self.rate), queue: self.queue, loss, ..LinkConfig::default() }
    }

    fn layout(&self) -> Layout {
        let mut topology = Topology::new();
        let names: Vec<String> = (0..=self.hops).map(|number| format!("router{number}")).collect();
        let routers: Vec<NodeId> = names.iter().map(|name| topology.router(name)).collect();
        let narrow = self.bottleneck();
        let mut bottlenecks = Vec::new();
        let mut tcp = Vec::new();
        let source = |topology: &mut Topology, name: &str, router| {
            let host = topology.host(name);
            topology.duplex(host, router, Duplex { forward: self.shifting(), backward: access(Duration::ZERO) });
            host
        };
        let sink = |topology: &mut Topology, name: &str, router| {
            let host = topology.host(name);
            topology.duplex(router, host, Duplex::symmetric(access(self.rtt / 2)));
            host
        };
        let first = routers[0];
        let from = source(&mut topology, "sender", first);
        let mut last = first;
        for (number, pair) in routers.windows(2).enumerate() {
            let (link, _) = topology.duplex(pair[0], pair[1], Duplex::symmetric(narrow.clone()));
            bottlenecks.push(link);
            let server = source(&mut topology, &format!("server{number}"), pair[0]);
            tcp.push([server, sink(&mut topology, &format!("client{number}"), pair[1])]);
            last = pair[1];
        }
        let to = sink(&mut topology, "receiver", last);
        Layout { topology, bottlenecks, ends: [from, to], tcp }
    }

    /// Flows without any randomness would fill a queue in lockstep, which decides whose packets it drops. So each packet reaches the bottleneck later
    /// by up to the time of one packet there, without overtaking.
    fn shifting(&self) -> LinkConfig {
        let packet_s = as_f64(PACKET_BYTES * 8) / as_f64(self.rate.bits_per_second());
        let range = Duration::from_secs_f64(packet_s) / 2;
        let jitter = Jitter { shape: JitterShape::Uniform { range }, keeps_order: true };
        LinkConfig { jitter, ..access(range) }
    }

    /// In the order in which [`layout`](Self::layout) adds them.
    fn hosts(&self, tcp: &[[NodeId; 2]], seed: u64, sender: Host, receiver: Host) -> Vec<Host> {
        let mut starts = RandomStream::new(seed, "starts");
        let spread_ns = u64::try_from(START_SPREAD.as_nanos()).expect("it is a few seconds");
        let mut hosts = vec![sender];
        for &[server, client] in tcp {
            let flows = (0..self.greedy).fold(TcpHost::new(server, seed), |flows, _| {
                let starts_at = Instant::ZERO + Duration::from_nanos(starts.below(spread_ns));
                flows.with_sender(TcpSender {
                    peer: client,
                    config: tcp_of_2012(),
                    workload: Workload::Greedy(Greedy { size: ByteCount::from_bytes(64_000) }),
                    connects_at: starts_at,
                    starts_at,
                    stops_at: None,
                })
            });
            hosts.push(flows.into());
            hosts.push(TcpHost::new(client, seed).listening(tcp_of_2012()).into());
        }
        hosts.push(receiver);
        hosts
    }
}

/// New Reno with SACK and timestamps.
pub(crate) fn tcp_of_2012() -> TcpConfig {
    TcpConfig { mss_bytes: 1_448, timestamps: true, ..TcpConfig::sack() }
}

fn access(delay: Duration) -> LinkConfig {
    LinkConfig { rate: Some(ACCESS_RATE), delay, ..LinkConfig::default() }
}
