//! Streams that compete for a bottleneck: P10 §6.3, and crowds of thin streams.
//!
//! ```text
//! sender 1 ──┐                   ┌── receiver 1
//! sender 2 ──┼─ left ───── right ┼── receiver 2
//! sender n ──┘     bottleneck    └── receiver n
//! ```

use std::collections::BTreeMap;

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::workload::Workload;
use festina_netsim::{
    Admission, Dumbbell, Duplex, Jitter, JitterShape, LinkConfig, LinkId, NodeId, QueueLimit, RandomStream, Simulation,
    Tap, ThroughputSeries, Topology,
};
use festina_units::{Bandwidth, Duration, Instant};

use super::{Stack, StreamRecord, Traffic};
use crate::count::as_f64;

/// Packets of a long transfer fill the queue in lockstep, which decides whose packets a drop-tail queue drops. Real hosts are not that regular, so
/// each packet takes up to this much longer to the bottleneck, without overtaking.
const HOST_DELAY_MAX: Duration = Duration::from_millis(4);
/// Time within which streams start, at random.
const START_SPREAD: Duration = Duration::from_secs(2);
/// Handshakes are complete by then.
const STARTS_AT: Instant = Instant::from_secs(5);
/// The queue is looked at this often.
const QUEUE_INTERVAL: Duration = Duration::from_millis(10);

/// Streams over one bottleneck, with nothing but delay before and behind it.
#[derive(Clone, Debug)]
pub struct Competition {
    /// The competitors.
    pub competitors: Vec<Competitor>,
    /// The rate of the bottleneck, each way.
    pub rate: Bandwidth,
    /// The round-trip time when nothing waits.
    pub rtt: Duration,
    /// Maximum number of packets that wait in front of the bottleneck.
    pub queue_packets: usize,
    /// Duration of the streams before the measurement.
    pub warm_up: Duration,
    /// Duration of the measurement.
    pub duration: Duration,
    /// The throughput is measured in intervals of this length.
    pub interval: Duration,
}

/// A pair of hosts with one or more streams between them.
#[derive(Clone, Debug)]
pub struct Competitor {
    /// What carries the streams.
    pub stack: Stack,
    /// The writes of each.
    pub workload: Workload,
    /// Number of streams.
    pub streams: u32,
}

/// What became of a [`Competition`] while it was measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Of each competitor, in their order.
    pub shares: Vec<Share>,
    /// Time-weighted average delay of packets in front of the bottleneck.
    pub queueing_delay_mean: Duration,
}

/// What one competitor got.
#[derive(Clone, Debug)]
pub struct Share {
    /// Payload bits per second that reached the application.
    pub goodput_bps: f64,
    /// Payload bytes that reached the application.
    pub payload_bytes: u64,
    /// Bits per second behind the bottleneck in each interval, headers included.
    pub throughput_bps: Vec<f64>,
    /// Packets towards the receiver that were offered to the bottleneck.
    pub packets_offered: u64,
    /// Packets of these that found no room.
    pub packets_dropped: u64,
    /// The truth about each stream, from its beginning.
    pub records: Vec<StreamRecord>,
}

impl Share {
    /// The share of the offered packets that found no room; zero if there were none.
    pub fn loss(&self) -> f64 {
        as_f64(self.packets_dropped) / as_f64(self.packets_offered.max(1))
    }

    /// Packets offered to the bottleneck for each byte of payload that reached the application.
    pub fn packets_per_byte(&self) -> f64 {
        as_f64(self.packets_offered) / as_f64(self.payload_bytes.max(1))
    }
}

impl Competition {
    /// Runs the competition. The same seed gives the same run.
    pub fn run(&self, seed: u64) -> Outcome {
        let Dumbbell { topology, senders, receivers, bottleneck, .. } = self.topology();
        let measured_from = STARTS_AT + self.warm_up;
        let stops_at = measured_from + self.duration;
        let pairs: Vec<_> = senders.into_iter().zip(receivers).collect();
        let hosts = self.hosts(&pairs, seed, stops_at);
        let counter = Counter { bottleneck, packets: BTreeMap::new() };
        let mut simulation: Simulation<Packet, Host, Counter> = Simulation::with_tap(topology, hosts, seed, counter);
        simulation.run_until(measured_from);
        let received_before: Vec<u64> = pairs.iter().map(|&(_, to)| bytes_received(simulation.node(to))).collect();
        simulation.tap_mut().packets.clear();
        let throughput = simulation.probe_throughput(bottleneck, self.interval);
        let queue = simulation.probe_queue(bottleneck, QUEUE_INTERVAL);
        simulation.run_until(stops_at);
        let shares = pairs.iter().zip(received_before).map(|(&(from, to), before)| {
            let bytes = bytes_received(simulation.node(to)) - before;
            let (packets_offered, packets_dropped) = simulation.tap().packets.get(&from).copied().unwrap_or_default();
            Share {
                goodput_bps: as_f64(bytes * 8) / self.duration.as_secs_f64(),
                payload_bytes: bytes,
                throughput_bps: self.throughput_bps(simulation.throughput(throughput), from),
                packets_offered,
                packets_dropped,
                records: StreamRecord::observe(simulation.node(from), simulation.node(to)),
            }
        });
        let shares = shares.collect();
        let samples = simulation.queue_samples(queue);
        let waiting_bytes: u64 = samples.iter().map(|sample| sample.bytes.bytes()).sum();
        let waiting_s = as_f64(waiting_bytes * 8) / as_f64(self.rate.bits_per_second());
        let queueing_delay_mean = Duration::from_secs_f64(waiting_s).div_f64(as_f64(samples.len().max(1)));
        Outcome { shares, queueing_delay_mean }
    }

    fn topology(&self) -> Dumbbell {
        let to_bottleneck = LinkConfig {
            delay: HOST_DELAY_MAX / 2,
            jitter: Jitter { shape: JitterShape::Uniform { range: HOST_DELAY_MAX / 2 }, keeps_order: true },
            ..LinkConfig::default()
        };
        let access = Duplex { forward: to_bottleneck, backward: LinkConfig::default() };
        let bottleneck = LinkConfig {
            rate: Some(self.rate),
            delay: self.rtt / 2,
            queue: QueueLimit::packets(self.queue_packets),
            ..LinkConfig::default()
        };
        // On the side of the receivers the forward direction leads to them: there the delay would be added a second time.
        let mut dumbbell = Topology::dumbbell(&[], Duplex::symmetric(bottleneck));
        let topology = &mut dumbbell.topology;
        let [left, right] =
            ["left", "right"].map(|name| topology.find(name).expect("a dumbbell has a router on each side"));
        for number in 1..=self.competitors.len() {
            let [sender, receiver] =
                [format!("sender{number}"), format!("receiver{number}")].map(|n| topology.host(&n));
            topology.duplex(sender, left, access.clone());
            topology.duplex(right, receiver, Duplex::default());
            dumbbell.senders.push(sender);
            dumbbell.receivers.push(receiver);
        }
        dumbbell
    }

    fn hosts(&self, pairs: &[(NodeId, NodeId)], seed: u64, stops_at: Instant) -> Vec<Host> {
        let mut starts = RandomStream::new(seed, "starts");
        let spread_ns = u64::try_from(START_SPREAD.as_nanos()).expect("it is a few seconds");
        let mut begin = || Duration::from_nanos(starts.below(spread_ns));
        let of_competitor = |(competitor, &(from, to)): (&Competitor, &(NodeId, NodeId))| {
            let traffic: Vec<Traffic> = (0..competitor.streams)
                .map(|_| Traffic {
                    workload: competitor.workload.clone(),
                    connects_at: Instant::ZERO + begin(),
                    starts_at: STARTS_AT + begin(),
                    stops_at,
                })
                .collect();
            competitor.stack.hosts_of_many(from, to, seed, &traffic)
        };
        self.competitors.iter().zip(pairs).flat_map(of_competitor).collect()
    }

    /// Returns the throughput of a host's streams in each interval, except an incomplete last one.
    fn throughput_bps(&self, series: &ThroughputSeries, sender: NodeId) -> Vec<f64> {
        let intervals = usize::try_from(self.duration.as_nanos() / self.interval.as_nanos().max(1)).unwrap_or(0);
        let mut bytes = vec![0; intervals];
        // The upper half of a flow's number is its sender.
        for flow in series.flows().filter(|flow| flow >> 32 == u64::from(sender.0)) {
            for (sum, more) in bytes.iter_mut().zip(series.bytes(flow)) {
                *sum += more.bytes();
            }
        }
        bytes.into_iter().map(|bytes| as_f64(bytes * 8) / self.interval.as_secs_f64()).collect()
    }
}

/// Counts the packets offered to the bottleneck, and dropped there, by sender.
#[derive(Debug)]
struct Counter {
    bottleneck: LinkId,
    packets: BTreeMap<NodeId, (u64, u64)>,
}

impl Tap<Packet> for Counter {
    fn watches(&self, link: LinkId) -> bool {
        link == self.bottleneck
    }

    fn offered(&mut self, _now: Instant, _link: LinkId, packet: &Packet, admission: Admission) {
        let (offered, dropped) = self.packets.entry(packet.source).or_default();
        *offered += 1;
        *dropped += u64::from(admission == Admission::QueueDropped);
    }

    fn delivered(&mut self, _now: Instant, _link: LinkId, _packet: &Packet) {}
}

/// Payload that a host's applications have got.
pub(crate) fn bytes_received(host: &Host) -> u64 {
    match host {
        Host::Sctp(host) => (0..host.association_count()).map(|index| host.received(index).bytes).sum(),
        Host::Tcp(host) => host.totals().bytes_received,
        Host::Udp(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use festina_models::tcp::TcpConfig;
    use festina_models::workload::{Greedy, Periodic};
    use festina_recovery::Profile;
    use festina_units::ByteCount;

    use super::*;

    fn competition(competitors: Vec<Competitor>) -> Competition {
        Competition {
            competitors,
            rate: Bandwidth::from_bits_per_second(1_000_000),
            rtt: Duration::from_millis(100),
            queue_packets: 20,
            warm_up: Duration::from_secs(10),
            duration: Duration::from_secs(60),
            interval: Duration::from_secs(2),
        }
    }

    fn greedy(stack: Stack) -> Competitor {
        let workload = Workload::Greedy(Greedy { size: ByteCount::from_bytes(1_000) });
        Competitor { stack, workload, streams: 1 }
    }

    fn sctp() -> Stack {
        Stack::sctp(Profile::Rfc9260.mechanisms(), Duration::from_millis(200))
    }

    #[test]
    fn greedy_streams_of_any_kind_fill_the_bottleneck_together() {
        let outcome = competition(vec![greedy(sctp()), greedy(Stack::tcp(TcpConfig::new_reno()))]).run(1);
        let goodput: f64 = outcome.shares.iter().map(|share| share.goodput_bps).sum();
        assert!((850_000.0..1_000_000.0).contains(&goodput), "{goodput}");
        let intervals = outcome.shares[0].throughput_bps.iter().zip(&outcome.shares[1].throughput_bps);
        let throughputs: Vec<f64> = intervals.map(|(one, other)| one + other).collect();
        assert_eq!(throughputs.len(), 30);
        assert!(throughputs.iter().all(|bps| *bps <= 1_010_000.0), "{throughputs:?}");
        assert!(outcome.shares.iter().all(|share| share.loss() > 0.0 && share.loss() < 0.1));
        assert!((10..300).contains(&outcome.queueing_delay_mean.as_millis()), "{:?}", outcome.queueing_delay_mean);
    }

    #[test]
    fn thin_streams_get_what_they_ask_for_and_each_has_its_record() {
        let periodic = Periodic { interval: Duration::from_millis(250), size: ByteCount::from_bytes(100) };
        let thin = Competitor { stack: sctp(), workload: Workload::Periodic(periodic), streams: 5 };
        let outcome = competition(vec![thin]).run(1);
        let [share] = outcome.shares.as_slice() else { panic!("there is one competitor") };
        assert_eq!(share.records.len(), 5);
        assert!((share.goodput_bps / 16_000.0 - 1.0).abs() < 0.02, "{}", share.goodput_bps);
        assert_eq!(share.packets_dropped, 0);
        assert_eq!(outcome.queueing_delay_mean.as_millis(), 0);
    }

    #[test]
    fn the_same_seed_gives_the_same_outcome() {
        let goodput =
            |seed| competition(vec![greedy(sctp()), greedy(sctp())]).run(seed).shares[0].goodput_bps.to_bits();
        assert_eq!(goodput(3), goodput(3));
        assert_ne!(goodput(3), goodput(4));
    }
}
