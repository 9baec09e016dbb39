//! Thin streams and web traffic in front of a bottleneck: P10 §6.2.
//!
//! ```text
//! sender 1 ──┐                         ┌── receiver 1
//! sender n ──┼─ left ─────────── right ┼── receiver n
//! web server ┘   10 Mbit/s, 100 packets ├── client 1
//!                                       └── client 81, each with a delay of its own
//! ```

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::record::Truth;
use festina_models::tcp::{CongestionControl, DelayedAck, RtoConfig, RtoFloor, Switches, TcpConfig};
use festina_models::tcp_host::{TcpHost, TcpSender, TcpTotals};
use festina_models::workload::{Web, Workload};
use festina_netsim::{LinkId, NodeId, Simulation, Topology};
use festina_units::{Bandwidth, Duration, Instant};

use super::bottleneck::{Bottleneck, Crossing};
use super::{Stack, StreamRecord, Traffic};

/// The streams' handshakes are complete by then.
const WEB_STARTS_AT: Instant = Instant::from_secs(5);
/// Time for the web traffic to build up before the streams write.
const WARM_UP: Duration = Duration::from_secs(20);
/// Time after which undelivered messages count as lost for good.
const DRAIN_MAX: Duration = Duration::from_secs(600);

/// Thin streams that share a bottleneck with responses of a web server.
#[derive(Clone, Debug)]
pub struct Congested {
    /// What carries the streams.
    pub stack: Stack,
    /// The writes of each stream.
    pub workload: Workload,
    /// Number of streams. They start one after the other within `spread`.
    pub streams: u32,
    /// Time within which all streams start: a period of the workload, so that their packets do not meet.
    pub spread: Duration,
    /// Duration of the writing.
    pub duration: Duration,
    /// The round-trip time of the streams when nothing waits.
    pub rtt: Duration,
    /// The rate of the bottleneck, each way.
    pub rate: Bandwidth,
    /// Maximum number of packets that wait in front of it.
    pub queue_packets: usize,
    /// What else crosses it.
    pub web: WebTraffic,
}

/// Web clients and how their server answers.
#[derive(Clone, Debug)]
pub struct WebTraffic {
    /// Number of clients.
    pub clients: u32,
    /// The requests of each client. The request itself is not simulated: the server opens a connection for each response.
    pub web: Web,
    /// The round-trip time of the last client when nothing waits; those of the others lie evenly between zero and it.
    pub rtt_max: Duration,
    /// The TCP of both sides.
    pub tcp: TcpConfig,
    /// Whether as much web traffic crosses the bottleneck the other way, so that acknowledgements get lost, too.
    pub is_both_ways: bool,
}

/// What became of it.
#[derive(Clone, Debug)]
pub struct CongestedRun {
    /// The truth about each stream.
    pub streams: Vec<StreamRecord>,
    /// Packets offered to the bottleneck, and dropped there, while the streams wrote.
    pub offered_packets: u64,
    /// Packets of these that the bottleneck's queue dropped.
    pub dropped_packets: u64,
    /// Bytes that the bottleneck delivered meanwhile.
    pub delivered_bytes: u64,
    /// Totals of the web server on the streams' side until the end.
    pub web: TcpTotals,
    /// Links that packets have crossed, for measurements of speed.
    pub hops: u64,
}

impl CongestedRun {
    /// The truth about all streams together. Messages and chunks are numbered within each stream.
    pub fn truth(&self) -> Truth {
        let mut all = Truth::default();
        for truth in self.streams.iter().map(StreamRecord::truth) {
            all.messages.extend_from_slice(&truth.messages);
            all.first_transmissions += truth.first_transmissions;
            all.retransmissions.extend_from_slice(&truth.retransmissions);
            all.duplicates_arrived += truth.duplicates_arrived;
        }
        all
    }
}

impl WebTraffic {
    /// TCP of Linux 2.6 as web servers and clients had it: SACK with FACK, timestamps, an initial window of three segments. Its
    /// congestion controller was BIC until 2.6.18; CUBIC, which followed it, is the nearest that the model has.
    pub fn linux_2_6() -> TcpConfig {
        TcpConfig { congestion: CongestionControl::Cubic, ..Self::sack_new_reno() }
    }

    /// As [`linux_2_6`](Self::linux_2_6), with New Reno's congestion avoidance.
    pub fn sack_new_reno() -> TcpConfig {
        TcpConfig {
            mss_bytes: 1_448,
            timestamps: true,
            delayed_ack: DelayedAck { delay: Duration::from_millis(40), quick_acks: 16, ..DelayedAck::default() },
            rto: RtoConfig { initial: Duration::from_secs(3), floor: RtoFloor::Variance, ..RtoConfig::default() },
            switches: Switches { fack: true, ..Switches::default() },
            ..TcpConfig::sack()
        }
    }
}

/// Where everything is.
struct Layout {
    topology: Topology,
    bottleneck: LinkId,
    /// A server and its clients for each way that web traffic takes, that of the streams first.
    web: Vec<(NodeId, Vec<NodeId>)>,
    streams: Vec<[NodeId; 2]>,
}

impl Congested {
    /// Runs the streams until all is delivered (ten minutes after the last write at the latest). The same seed gives the same
    /// run.
    pub fn run(&self, seed: u64) -> CongestedRun {
        let layout = self.layout();
        let starts_at = WEB_STARTS_AT + WARM_UP;
        let stops_at = starts_at + self.duration;
        let hosts = self.hosts(&layout, seed, starts_at, stops_at);
        let Layout { topology, bottleneck, web, streams } = layout;
        let mut simulation: Simulation<Packet, Host> = Simulation::new(topology, hosts, seed);
        let crossing = Crossing::run(&mut simulation, bottleneck, [starts_at, stops_at], DRAIN_MAX, |simulation| {
            let ends = streams.iter().map(|ends| ends.map(|end| simulation.node(end)));
            ends.flat_map(|[from, to]| StreamRecord::observe(from, to)).collect()
        });
        CongestedRun {
            offered_packets: crossing.counted(|counters| counters.offered),
            dropped_packets: crossing.counted(|counters| counters.queue_dropped),
            delivered_bytes: crossing.counted(|counters| counters.delivered_bytes.bytes()),
            streams: crossing.records,
            web: web
                .first()
                .and_then(|(server, _)| simulation.node(*server).as_tcp())
                .map_or_else(TcpTotals::default, TcpHost::totals),
            hops: simulation.counters().hops,
        }
    }

    fn layout(&self) -> Layout {
        let mut network = Bottleneck::new(self.rate, self.queue_packets);
        let (left, right) = (network.left, network.right);
        let ways =
            if self.web.is_both_ways { &[("", left, right), ("back_", right, left)][..] } else { &[("", left, right)] };
        let mut web = Vec::new();
        for &(prefix, near, far) in ways {
            let server = network.source(&format!("{prefix}server"), near);
            let clients = (1..=self.web.clients).map(|number| {
                let rtt = self.web.rtt_max * number / self.web.clients;
                network.sink(&format!("{prefix}client{number}"), far, rtt)
            });
            let clients = clients.collect();
            web.push((server, clients));
        }
        let streams = (1..=self.streams).map(|number| {
            let sender = network.source(&format!("sender{number}"), left);
            [sender, network.sink(&format!("receiver{number}"), right, self.rtt)]
        });
        let streams = streams.collect();
        Layout { topology: network.topology, bottleneck: network.link, web, streams }
    }

    /// In the order in which [`layout`](Self::layout) adds them.
    fn hosts(&self, layout: &Layout, seed: u64, starts_at: Instant, stops_at: Instant) -> Vec<Host> {
        let WebTraffic { web, tcp, .. } = self.web;
        let mut hosts = Vec::new();
        for (node, clients) in &layout.web {
            let mut server = TcpHost::new(*node, seed);
            for &peer in clients {
                server = server.with_sender(TcpSender {
                    peer,
                    config: tcp,
                    workload: Workload::Web(web),
                    connects_at: WEB_STARTS_AT,
                    starts_at: WEB_STARTS_AT,
                    stops_at: Some(stops_at),
                });
            }
            hosts.push(Host::from(server));
            hosts.extend(clients.iter().map(|&client| Host::from(TcpHost::new(client, seed).listening(tcp))));
        }
        for (number, &[from, to]) in (0..).zip(&layout.streams) {
            let traffic = Traffic {
                workload: self.workload.clone(),
                connects_at: Instant::ZERO,
                starts_at: starts_at + self.spread * number / self.streams,
                stops_at,
            };
            hosts.extend(self.stack.hosts(from, to, seed, &traffic));
        }
        hosts
    }
}

#[cfg(test)]
mod tests {
    use festina_models::workload::Periodic;
    use festina_units::ByteCount;

    use super::*;
    use crate::scenario::{Group, Readings};

    fn congested(rate_bits_per_second: u64) -> Congested {
        let interval = Duration::from_millis(250);
        Congested {
            stack: Group::Lksctp.stack(&Readings::DEFAULT, Duration::ZERO),
            workload: Workload::Periodic(Periodic { interval, size: ByteCount::from_bytes(100) }),
            streams: 3,
            spread: interval,
            duration: Duration::from_secs(30),
            rtt: Duration::from_millis(100),
            rate: Bandwidth::from_bits_per_second(rate_bits_per_second),
            queue_packets: 100,
            web: WebTraffic {
                clients: 81,
                web: Web::default(),
                rtt_max: Duration::from_millis(400),
                tcp: WebTraffic::linux_2_6(),
                is_both_ways: false,
            },
        }
    }

    #[test]
    fn the_web_traffic_fills_the_bottleneck_and_makes_it_drop_packets() {
        let run = congested(10_000_000).run(1);
        let utilisation = run.delivered_bytes as f64 * 8.0 / 30.0 / 10e6;
        assert!(utilisation > 0.6 && utilisation <= 1.0, "{utilisation}");
        assert!(run.dropped_packets > 0 && run.dropped_packets < run.offered_packets / 5);
        // One response per client and 655 ms, from the start of the web traffic on.
        let responses = 81.0 * 50.0 / 0.655;
        assert!((run.web.opened as f64 / responses - 1.0).abs() < 0.05, "{}", run.web.opened);
        assert!(run.web.finished + run.web.failed <= run.web.opened);
    }

    #[test]
    fn every_message_of_every_stream_arrives_and_a_wide_bottleneck_delays_none() {
        for (rate, latest_ms) in [(10_000_000, None), (1_000_000_000, Some(51))] {
            let run = congested(rate).run(1);
            let truth = run.truth();
            assert_eq!((run.streams.len(), truth.messages.len()), (3, 3 * 120));
            let delays: Vec<_> = truth.messages.iter().filter_map(|message| message.delay()).collect();
            assert_eq!(delays.len(), truth.messages.len());
            assert!(delays.iter().all(|delay| *delay >= Duration::from_millis(50)));
            if let Some(latest_ms) = latest_ms {
                assert!(delays.iter().all(|delay| *delay <= Duration::from_millis(latest_ms)));
                assert_eq!(truth.retransmissions, []);
            }
        }
    }

    #[test]
    fn web_traffic_both_ways_loses_acknowledgements_too() {
        let way_back = |is_both_ways| {
            let mut congested = congested(10_000_000);
            congested.web.is_both_ways = is_both_ways;
            let truth = congested.run(1).truth();
            // If every packet of the stream arrives and is answered, only a lost SACK can cause a copy of a delivered message.
            truth.duplicates_arrived
        };
        assert!(way_back(true) > way_back(false));
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let [first, second, other] = [3, 3, 4].map(|seed| congested(10_000_000).run(seed));
        assert_eq!(first.streams, second.streams);
        assert_eq!((first.hops, first.dropped_packets), (second.hops, second.dropped_packets));
        assert_ne!(first.hops, other.hops);
    }
}
