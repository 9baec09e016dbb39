//! Short flows and background traffic at a bottleneck.
//!
//! ```text
//! sender ──┐                   ┌── receiver
//! server ──┼─ left ───── right ┼── client 1
//!          ┘     bottleneck    └── client n, each with a delay of its own
//! ```

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::tcp_host::{TcpHost, TcpSender};
use festina_models::workload::{Greedy, Web, Workload};
use festina_netsim::{LinkId, NodeId, RandomStream, Simulation, Topology};
use festina_units::{Bandwidth, ByteCount, Duration, Instant};

use crate::experiments::r15;
use crate::scenario::bottleneck::{Bottleneck, Crossing};
use crate::scenario::{Stack, StreamRecord, Traffic, WebTraffic};

/// The background begins at once; the flows when it has settled.
const WARM_UP: Duration = Duration::from_secs(20);
/// How long before its write a flow's handshake begins.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Time after which an undelivered message counts as lost for good.
const DRAIN_MAX: Duration = Duration::from_secs(300);
/// The round-trip time of the last client of the background; those of the others lie evenly between zero and it.
const BACKGROUND_RTT_MAX: Duration = Duration::from_millis(400);
/// The longest flow, in packets.
const PACKETS_MAX: u64 = 10;

/// What else crosses the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Background {
    /// Responses to browsing clients (P10 §6.2).
    Web,
    /// Transfers without an end.
    Greedy,
}

impl Background {
    /// As a plan names them.
    pub(super) const NAMES: &[&str] = &["web", "greedy"];

    pub(super) fn of(name: &str) -> Self {
        if name == "web" { Self::Web } else { Self::Greedy }
    }

    fn clients(self) -> u32 {
        match self {
            Self::Web => 81,
            Self::Greedy => 12,
        }
    }

    fn workload(self) -> Workload {
        match self {
            Self::Web => Workload::Web(Web::default()),
            Self::Greedy => Workload::Greedy(Greedy { size: ByteCount::from_bytes(64_000) }),
        }
    }
}

/// The flows and their network.
#[derive(Clone, Debug)]
pub(super) struct Crowd {
    pub(super) stack: Stack,
    pub(super) background: Background,
    pub(super) rtt: Duration,
    pub(super) rate: Bandwidth,
    pub(super) queue_packets: usize,
    /// The mean time from one flow to the next.
    pub(super) interval: Duration,
    /// For how long flows begin.
    pub(super) duration: Duration,
}

/// What became of them.
#[derive(Clone, Debug)]
pub(super) struct CrowdRun {
    /// Of each flow.
    pub(super) records: Vec<StreamRecord>,
    /// Packets that were offered to the bottleneck while flows began.
    pub(super) offered_packets: u64,
    /// What of these found no room.
    pub(super) dropped_packets: u64,
}

/// Where everything is.
struct Layout {
    topology: Topology,
    bottleneck: LinkId,
    ends: [NodeId; 2],
    server: NodeId,
    clients: Vec<NodeId>,
}

impl Crowd {
    pub(super) fn run(&self, seed: u64) -> CrowdRun {
        let layout = self.layout();
        let starts_at = Instant::ZERO + WARM_UP;
        let stops_at = starts_at + self.duration;
        let mut hosts: Vec<Host> =
            self.stack.hosts_of_many(layout.ends[0], layout.ends[1], seed, &self.flows(seed, starts_at)).into();
        hosts.extend(self.background_hosts(&layout, seed, stops_at));
        let Layout { topology, bottleneck, ends: [from, to], .. } = layout;
        let mut simulation: Simulation<Packet, Host> = Simulation::new(topology, hosts, seed);
        let crossing = Crossing::run(&mut simulation, bottleneck, [starts_at, stops_at], DRAIN_MAX, |simulation| {
            StreamRecord::observe(simulation.node(from), simulation.node(to))
        });
        CrowdRun {
            offered_packets: crossing.counted(|counters| counters.offered),
            dropped_packets: crossing.counted(|counters| counters.queue_dropped),
            records: crossing.records,
        }
    }

    fn layout(&self) -> Layout {
        let mut network = Bottleneck::new(self.rate, self.queue_packets);
        let (left, right) = (network.left, network.right);
        let sender = network.source("sender", left);
        let ends = [sender, network.sink("receiver", right, self.rtt)];
        let server = network.source("server", left);
        let count = self.background.clients();
        let clients = (1..=count)
            .map(|number| network.sink(&format!("client{number}"), right, BACKGROUND_RTT_MAX * number / count));
        let clients = clients.collect();
        Layout { topology: network.topology, bottleneck: network.link, ends, server, clients }
    }

    /// The flows in the order in which they begin: the same for every sender.
    fn flows(&self, seed: u64, starts_at: Instant) -> Vec<Traffic> {
        let [mut gaps, mut lengths] = ["gaps", "lengths"].map(|of| RandomStream::new(seed, &format!("flows/{of}")));
        let bytes = r15::packet_bytes(&self.stack);
        let mut flows = Vec::new();
        let mut begins_at = starts_at;
        loop {
            begins_at += gaps.exponential(self.interval);
            if begins_at >= starts_at + self.duration {
                return flows;
            }
            let packets = 1 + lengths.below(PACKETS_MAX);
            flows.push(Traffic {
                workload: r15::writes(&[(Duration::ZERO, bytes * packets)], bytes),
                connects_at: begins_at.saturating_sub(HANDSHAKE),
                starts_at: begins_at,
                stops_at: begins_at + Duration::from_nanos(1),
            });
        }
    }

    /// The server and its clients, in this order.
    fn background_hosts(&self, layout: &Layout, seed: u64, stops_at: Instant) -> Vec<Host> {
        let config = WebTraffic::linux_2_6();
        let mut server = TcpHost::new(layout.server, seed);
        for (number, &peer) in (0..).zip(&layout.clients) {
            // Transfers do not all begin at once.
            let begins_at = Instant::ZERO + Duration::from_millis(100) * number;
            server = server.with_sender(TcpSender {
                peer,
                config,
                workload: self.background.workload(),
                connects_at: begins_at,
                starts_at: begins_at,
                stops_at: Some(stops_at),
            });
        }
        let clients = layout.clients.iter().map(|&client| TcpHost::new(client, seed).listening(config));
        std::iter::once(server).chain(clients).map(Host::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use festina_models::tcp::TcpConfig;
    use festina_recovery::Profile;

    use super::*;

    fn crowd(stack: Stack, background: Background) -> Crowd {
        Crowd {
            stack,
            background,
            rtt: Duration::from_millis(100),
            rate: Bandwidth::from_bits_per_second(10_000_000),
            queue_packets: 100,
            interval: Duration::from_millis(100),
            duration: Duration::from_secs(10),
        }
    }

    #[test]
    fn the_background_makes_the_bottleneck_drop_packets_and_some_flows_lose_their_tail() {
        let run = crowd(Stack::tcp(TcpConfig::sack()), Background::Greedy).run(1);
        assert!((70..140).contains(&run.records.len()), "{}", run.records.len());
        assert!(run.dropped_packets > 0 && run.dropped_packets < run.offered_packets / 5);
        let lost_tail = run.records.iter().filter(|record| {
            let last = record.truth().messages.last();
            last.is_some_and(|last| last.delivered_by != Some(0))
        });
        assert!((1..50).contains(&lost_tail.count()));
    }

    #[test]
    fn every_flow_is_delivered_beside_either_background() {
        let sctp = Stack::sctp(Profile::Rfc9260.mechanisms(), Duration::from_millis(200));
        for background in [Background::Web, Background::Greedy] {
            let run = crowd(sctp.clone(), background).run(1);
            assert!(run.records.len() > 70);
            assert!(run.records.iter().all(StreamRecord::is_delivered), "{background:?}");
        }
    }

    #[test]
    fn the_same_flows_begin_at_the_same_times_whoever_sends_them() {
        let begin = |stack| {
            let flows = crowd(stack, Background::Web).flows(7, Instant::from_secs(20));
            flows.into_iter().map(|flow| flow.starts_at).collect::<Vec<_>>()
        };
        let sctp = Stack::sctp(Profile::Festina.mechanisms(), Duration::ZERO);
        assert_eq!(begin(sctp), begin(Stack::tcp(TcpConfig::sack())));
    }
}
