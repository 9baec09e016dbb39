//! One run: the flow under test, its rival, and the thin streams.
//!
//! ```text
//! sender ──┐                   ┌── its receiver      bulk, and a thin stream within
//! thin   ──┼─ left ───── right ┼── its receiver      a thin stream beside
//! rival  ──┘     bottleneck    └── its receiver      bulk
//! ```

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::sctp_host::{CompanionDelivery, companion_deliveries};
use festina_models::workload::{Periodic, Workload};
use festina_netsim::{
    Duplex, Jitter, JitterShape, LinkConfig, LinkCounters, LinkId, LossModel, NodeId, QueueLimit, RandomStream,
    Reordering, Simulation, Topology,
};
use festina_recovery::Profile;
use festina_units::{Bandwidth, ByteCount, Duration, Instant, Probability};

use super::flow::{Flow, PACKET_BYTES, Period};
use crate::count::as_f64;
use crate::scenario::fairness::bytes_received;
use crate::scenario::{Stack, StreamRecord, Traffic};

/// The thin streams: a message of this size at this interval.
const THIN: Periodic = Periodic { interval: Duration::from_millis(100), size: ByteCount::from_bytes(100) };
/// Handshakes are over by then.
const STARTS_AT: Instant = Instant::from_secs(2);
/// With a rival, either begins at random within this time.
const START_SPREAD: Duration = Duration::from_secs(2);
/// What arrived is counted this often.
pub(super) const SLICE: Duration = Duration::from_millis(100);
/// Step of the wait at the end for messages of thin streams that are in flight.
const DRAIN_STEP: Duration = Duration::from_secs(5);
/// Maximum duration of that wait.
const DRAIN_MAX: Duration = Duration::from_secs(120);

/// The parameters of one run.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    pub(super) flow: Flow,
    pub(super) rival: Option<Flow>,
    /// Of the bottleneck, each way.
    pub(super) rate: Bandwidth,
    /// Without queues.
    pub(super) rtt: Duration,
    /// How many packets may wait in front of the bottleneck, each way.
    pub(super) queue_packets: usize,
    /// How probably the bottleneck loses a packet towards the receivers.
    pub(super) loss: Probability,
    /// Which packets towards the receivers are overtaken.
    pub(super) reordering: Reordering,
    /// How long the flows write.
    pub(super) duration: Duration,
    /// How much of it is over before thin messages and lost packets count.
    pub(super) warm_up: Duration,
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Transferred {
    /// Payload that the flow's receiver got, slice by slice from the start on.
    pub(super) bytes: Vec<u64>,
    /// The same of the rival; empty without one.
    pub(super) rival_bytes: Vec<u64>,
    /// The thin messages on the association of the flow that were due after the warm-up; none with TCP.
    pub(super) within: Vec<CompanionDelivery>,
    /// Those of an association of their own.
    pub(super) beside: Vec<CompanionDelivery>,
    /// Shares of the packets offered to the bottleneck after the warm-up that it dropped or lost.
    pub(super) loss: f64,
}

impl Transfer {
    /// Whether runs with different seeds differ.
    pub(super) fn is_random(&self) -> bool {
        self.rival.is_some() || self.loss > Probability::ZERO || self.reordering.probability > Probability::ZERO
    }

    /// Runs it. The same seed gives the same run.
    pub(super) fn run(&self, seed: u64) -> Transferred {
        let (topology, link, pairs) = self.topology();
        let stops_at = STARTS_AT + self.duration;
        let hosts = self.hosts(&pairs, seed, stops_at);
        let mut simulation: Simulation<Packet, Host> = Simulation::new(topology, hosts, seed);
        let measured_from = STARTS_AT + self.warm_up;
        let mut counts: Vec<Vec<u64>> = vec![Vec::new(); pairs.len()];
        let mut counters = LinkCounters::default();
        let mut now = STARTS_AT;
        while now < stops_at {
            simulation.run_until(now);
            if now <= measured_from {
                counters = simulation.link_counters(link);
            }
            let before: Vec<u64> = pairs.iter().map(|&[_, to]| bytes_received(simulation.node(to))).collect();
            now += SLICE;
            simulation.run_until(now);
            for ((counts, &[_, to]), before) in counts.iter_mut().zip(&pairs).zip(before) {
                counts.push(bytes_received(simulation.node(to)) - before);
            }
        }
        let loss = loss(&counters, &simulation.link_counters(link));
        let [within, beside] = drained(&mut simulation, &pairs, stops_at).map(|mut thin| {
            thin.retain(|delivery| delivery.due_at >= measured_from);
            thin
        });
        let mut counts = counts.into_iter();
        let bytes = counts.next().unwrap_or_default();
        Transferred { bytes, rival_bytes: counts.nth(1).unwrap_or_default(), within, beside, loss }
    }

    /// The sender and its receiver, those of the thin stream, and those of the rival.
    fn topology(&self) -> (Topology, LinkId, Vec<[NodeId; 2]>) {
        let narrow = LinkConfig {
            rate: Some(self.rate),
            delay: self.rtt / 2,
            queue: QueueLimit::packets(self.queue_packets),
            ..LinkConfig::default()
        };
        let loss = if self.loss > Probability::ZERO { LossModel::Independent(self.loss) } else { LossModel::None };
        let forward = LinkConfig { loss, reordering: self.reordering, ..narrow.clone() };
        let mut topology = Topology::new();
        let [left, right] = topology.routers(["left", "right"]);
        let (link, _) = topology.duplex(left, right, Duplex { forward, backward: narrow });
        let names = [["sender", "receiver"], ["thin", "thin receiver"], ["rival", "rival receiver"]];
        let count = if self.rival.is_some() { 3 } else { 2 };
        let pairs = names.into_iter().take(count).map(|names| {
            let [from, to] = topology.hosts(names);
            topology.duplex(from, left, Duplex { forward: self.access(), backward: LinkConfig::default() });
            topology.duplex(right, to, Duplex::default());
            [from, to]
        });
        let pairs = pairs.collect();
        (topology, link, pairs)
    }

    /// Two flows without any randomness fill a queue in step, which decides whom it drops. With a rival each packet takes up to the
    /// time of one packet on the bottleneck longer, without overtaking.
    fn access(&self) -> LinkConfig {
        if self.rival.is_none() {
            return LinkConfig::default();
        }
        let packet_s = f64::from(PACKET_BYTES * 8) / as_f64(self.rate.bits_per_second());
        let range = Duration::from_secs_f64(packet_s) / 2;
        let jitter = Jitter { shape: JitterShape::Uniform { range }, keeps_order: true };
        LinkConfig { delay: range, jitter, ..LinkConfig::default() }
    }

    fn hosts(&self, pairs: &[[NodeId; 2]], seed: u64, stops_at: Instant) -> Vec<Host> {
        let mut starts = RandomStream::new(seed, "starts");
        let spread_ns = u64::try_from(START_SPREAD.as_nanos()).expect("it is a few seconds");
        let mut period = || {
            let later =
                if self.rival.is_some() { Duration::from_nanos(starts.below(spread_ns)) } else { Duration::ZERO };
            Period { starts_at: STARTS_AT + later, stops_at }
        };
        let thin = || Workload::Periodic(THIN);
        let mut hosts = Vec::from(self.flow.hosts(pairs[0], seed, period(), thin()));
        let [from, to] = pairs[1];
        let traffic = Traffic {
            workload: thin(),
            connects_at: Instant::ZERO,
            starts_at: STARTS_AT + THIN.interval / 2,
            stops_at,
        };
        hosts.extend(self.thin_stack().hosts(from, to, seed, &traffic));
        if let (Some(rival), Some(&pair)) = (&self.rival, pairs.get(2)) {
            hosts.extend(rival.hosts(pair, seed, period(), thin()));
        }
        hosts
    }

    /// The thin stream's own association recovers as the flow under test does; next to TCP it is `festina`.
    fn thin_stack(&self) -> Stack {
        let mechanisms = self.flow.sctp().map_or(Profile::Festina.mechanisms(), |config| config.mechanisms);
        Stack::sctp(mechanisms, Duration::from_millis(200))
    }
}

/// The share of the packets offered between two counts that was dropped or lost.
fn loss(before: &LinkCounters, after: &LinkCounters) -> f64 {
    let gone = |counters: &LinkCounters| counters.queue_dropped + counters.lost;
    as_f64(gone(after) - gone(before)) / as_f64((after.offered - before.offered).max(1))
}

/// The fate of all messages of the thin streams, within the bulk association and beside it, once the last has arrived or is given up.
fn drained(
    simulation: &mut Simulation<Packet, Host>,
    pairs: &[[NodeId; 2]],
    stops_at: Instant,
) -> [Vec<CompanionDelivery>; 2] {
    let mut drained = Duration::ZERO;
    loop {
        drained += DRAIN_STEP;
        simulation.run_until(stops_at + drained);
        let ends = |index: usize| pairs[index].map(|node| simulation.node(node));
        let within = match ends(0).map(Host::as_sctp) {
            [Some(sender), Some(receiver)] => companion_deliveries(sender, receiver),
            _ => Vec::new(),
        };
        let [from, to] = ends(1);
        let records = StreamRecord::observe(from, to);
        let messages = records.iter().flat_map(|record| &record.truth().messages);
        let beside: Vec<CompanionDelivery> = messages
            .map(|message| CompanionDelivery {
                due_at: message.due_at,
                left_at: message.left_at,
                delivered_at: message.delivered_at,
            })
            .collect();
        let is_over = within.iter().chain(&beside).all(|delivery| delivery.delivered_at.is_some());
        if is_over || drained >= DRAIN_MAX {
            return [within, beside];
        }
    }
}
