//! Messages of mixed importance over one association, beside greedy TCP flows: R12 §III-B, and R15's parking lot.
//!
//! ```text
//! sender ──┐                                                   ┌── receiver
//!          r0 ── bottleneck 1 ── r1 ── bottleneck 2 ── r2 ... rn
//! TCP 1 ───┘                     ├─── sinks of TCP 1
//!                                └─── TCP 2 ...
//! ```

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::record::Truth;
use festina_models::sctp_host::{AssociationRecord, Delivery, SctpHost, SctpSender, observe};
use festina_models::tcp::TcpConfig;
use festina_models::tcp_host::{TcpHost, TcpSender};
use festina_models::workload::{Greedy, Poisson, Workload};
use festina_netsim::{
    Duplex, Jitter, JitterShape, LinkConfig, LinkId, NodeId, QueueLimit, RandomStream, Simulation, Topology,
};
use festina_sctp::{Config, Stats};
use festina_units::{Bandwidth, ByteCount, Duration, Instant};

use super::fairness::bytes_received;
use crate::count::as_f64;

/// Before the messages begin, the TCP flows have filled the queue.
const STARTS_AT: Instant = Instant::from_secs(10);
/// The TCP flows begin within this time.
const START_SPREAD: Duration = Duration::from_secs(2);
/// After the last write it is looked so often whether the sender has something left.
const DRAIN_STEP: Duration = Duration::from_secs(5);
/// What is not settled then counts as not delivered.
const DRAIN_MAX: Duration = Duration::from_secs(300);
/// All links but the bottlenecks.
const ACCESS_RATE: Bandwidth = Bandwidth::from_bits_per_second(100_000_000);
/// A full packet, which takes the bottleneck for as long as packets are shifted against each other.
const PACKET_BYTES: u64 = 1_500;

/// Messages of mixed importance through one bottleneck or several in a row, each with TCP flows of its own.
#[derive(Clone, Debug)]
pub(crate) struct Mixture {
    pub(crate) sender: Config,
    pub(crate) receiver: Config,
    pub(crate) workload: Poisson,
    pub(crate) delivery: Delivery,
    /// How long messages are written.
    pub(crate) duration: Duration,
    /// How many bottlenecks there are.
    pub(crate) hops: u64,
    /// The rate of each.
    pub(crate) rate: Bandwidth,
    /// What may wait in front of each.
    pub(crate) queue: QueueLimit,
    /// The round-trip time of all flows when nothing waits.
    pub(crate) rtt: Duration,
    /// Greedy TCP flows over each bottleneck.
    pub(crate) greedy: u64,
}

/// What became of it.
#[derive(Clone, Debug)]
pub(crate) struct MixtureRun {
    pub(crate) truth: Truth,
    /// The sending core's own counters.
    pub(crate) sender: Stats,
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

impl Mixture {
    /// Runs it until the sender has settled all messages. The same seed gives the same run.
    pub(crate) fn run(&self, seed: u64) -> MixtureRun {
        let layout = self.layout();
        let stops_at = STARTS_AT + self.duration;
        let hosts = self.hosts(&layout, seed, stops_at);
        let Layout { topology, bottlenecks, ends: [from, to], tcp } = layout;
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
        let record = drained(&mut simulation, [from, to], stops_at);
        let [offered, dropped] = [0, 1].map(|index| after[index] - before[index]);
        MixtureRun {
            dropped: as_f64(dropped) / as_f64(offered.max(1)),
            tcp_bps: as_f64((tcp_after - tcp_before) * 8) / self.duration.as_secs_f64() / as_f64(self.hops.max(1)),
            truth: record.truth,
            sender: record.sender,
        }
    }

    fn layout(&self) -> Layout {
        let mut topology = Topology::new();
        let names: Vec<String> = (0..=self.hops).map(|number| format!("router{number}")).collect();
        let routers: Vec<NodeId> = names.iter().map(|name| topology.router(name)).collect();
        let narrow = LinkConfig { rate: Some(self.rate), queue: self.queue, ..LinkConfig::default() };
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

    /// Flows without any randomness would fill a queue in step, which decides whom it drops: each packet reaches the bottleneck later by
    /// up to the time of one packet there, without overtaking.
    fn shifting(&self) -> LinkConfig {
        let packet_s = as_f64(PACKET_BYTES * 8) / as_f64(self.rate.bits_per_second());
        let range = Duration::from_secs_f64(packet_s) / 2;
        let jitter = Jitter { shape: JitterShape::Uniform { range }, keeps_order: true };
        LinkConfig { jitter, ..access(range) }
    }

    /// In the order in which [`layout`](Self::layout) adds them.
    fn hosts(&self, layout: &Layout, seed: u64, stops_at: Instant) -> Vec<Host> {
        let [from, to] = layout.ends;
        let host = |node, config: &Config| {
            let config = Config { message_events: true, ..config.clone() };
            SctpHost::new(node, seed, config).expect("the experiment's settings are within their ranges")
        };
        let writing = SctpSender {
            starts_at: STARTS_AT,
            stops_at: Some(stops_at),
            delivery: self.delivery,
            ..SctpSender::new(to, Workload::Poisson(self.workload))
        };
        let mut starts = RandomStream::new(seed, "starts");
        let spread_ns = u64::try_from(START_SPREAD.as_nanos()).expect("it is a few seconds");
        let mut hosts = vec![Host::from(host(from, &self.sender).with_sender(&writing))];
        for &[server, client] in &layout.tcp {
            let flows = (0..self.greedy).fold(TcpHost::new(server, seed), |flows, _| {
                let starts_at = Instant::ZERO + Duration::from_nanos(starts.below(spread_ns));
                flows.with_sender(TcpSender {
                    peer: client,
                    config: greedy_tcp(),
                    workload: Workload::Greedy(Greedy { size: ByteCount::from_bytes(64_000) }),
                    connects_at: starts_at,
                    starts_at,
                    stops_at: None,
                })
            });
            hosts.push(flows.into());
            hosts.push(TcpHost::new(client, seed).listening(greedy_tcp()).into());
        }
        hosts.push(host(to, &self.receiver).listening().into());
        hosts
    }
}

/// New Reno with SACK and timestamps.
fn greedy_tcp() -> TcpConfig {
    TcpConfig { mss_bytes: 1_448, timestamps: true, ..TcpConfig::sack() }
}

fn access(delay: Duration) -> LinkConfig {
    LinkConfig { rate: Some(ACCESS_RATE), delay, ..LinkConfig::default() }
}

/// Runs on until the sender has nothing left, or for too long.
fn drained(simulation: &mut Simulation<Packet, Host>, [from, to]: [NodeId; 2], stops_at: Instant) -> AssociationRecord {
    let mut drained = Duration::ZERO;
    loop {
        drained += DRAIN_STEP;
        simulation.run_until(stops_at + drained);
        let ends = [from, to].map(|node| simulation.node(node).as_sctp().expect("both ends are of SCTP"));
        let is_settled = ends[0].stats(0).is_none_or(|stats| stats.path.send_buffer_bytes == 0);
        if is_settled || drained >= DRAIN_MAX {
            return observe(ends[0], ends[1]).pop().expect("the association was begun and accepted");
        }
    }
}
