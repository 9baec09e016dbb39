//! The recorded scenarios with the TCP model instead of the kernel's TCP.

use std::collections::BTreeMap;
use std::time::Duration;

use festina_models::host::Host;
use festina_models::packet::{Packet, Payload};
use festina_models::tcp::{CongestionControl, TailProbe, TcpConfig};
use festina_models::tcp_host::{TcpHost, TcpSender};
use festina_models::workload::{Greedy as GreedyWorkload, Replay, Workload};
use festina_netsim::{
    Admission, Duplex, LinkConfig, LinkId, LossModel, NodeId, QueueLimit, RandomStream, Simulation, Tap, Topology,
};
use festina_units::{Bandwidth, ByteCount, Instant};

use super::exact;
use super::recorded::{Greedy, Script};

/// From one flow's handshake to the next: a round trip, and the pause that the measurement made.
const STAGGER: Duration = Duration::from_millis(180);
/// The measurement's processes began a little sooner or later.
const STAGGER_SPREAD: Duration = Duration::from_millis(10);
/// Writes begin when the handshake is over: with the acknowledgement of the SYN under way.
const HANDSHAKE_MARGIN: Duration = Duration::from_millis(1);
/// For how long a script is run beyond its last write; all its retransmissions fall into this time.
const QUIET: Duration = Duration::from_secs(10);

/// What greedy flows did.
pub(super) struct GreedyRun {
    /// Of each flow.
    pub(super) goodput_mbit_s: Vec<f64>,
    /// Packets that the queue dropped.
    pub(super) dropped: u64,
}

/// Runs greedy flows through the bottleneck for as long as was recorded, counted from when the last has begun.
pub(super) fn greedy(recorded: &Greedy, delay: Duration, seed: u64) -> GreedyRun {
    let bottleneck = LinkConfig {
        rate: Some(Bandwidth::from_bits_per_second(recorded.rate_mbit_s * 1_000_000)),
        delay,
        queue: QueueLimit::packets(recorded.queue_packets),
        ..LinkConfig::default()
    };
    let access = vec![Duplex::symmetric(LinkConfig::default()); recorded.flows];
    let dumbbell = Topology::dumbbell(&access, Duplex::symmetric(bottleneck));
    let congestion = if recorded.congestion == "reno" { CongestionControl::NewReno } else { CongestionControl::Cubic };
    let config = TcpConfig { congestion, ..TcpConfig::linux() };
    let mut spread = RandomStream::new(seed, "starts");
    let mut hosts: Vec<Host> = Vec::new();
    let mut connects_at = Instant::ZERO;
    for (&sender, &receiver) in dumbbell.senders.iter().zip(&dumbbell.receivers) {
        let greedy = Workload::Greedy(GreedyWorkload { size: ByteCount::from_bytes(64 << 10) });
        let starts_at = connects_at + Duration::from_nanos(spread.below(nanos(STAGGER_SPREAD)));
        let flow = TcpSender { connects_at: starts_at, starts_at, ..TcpSender::new(receiver, config, greedy) };
        hosts.push(TcpHost::new(sender, seed).with_sender(flow).into());
        hosts.push(TcpHost::new(receiver, seed).listening(config).into());
        connects_at += STAGGER;
    }
    let mut simulation: Simulation<Packet, Host> = Simulation::new(dumbbell.topology, hosts, seed);
    let mut received_by = |until: Instant| -> Vec<u64> {
        simulation.run_until(until);
        let bytes = |&node| simulation.node(node).as_tcp().map_or(0, |host| host.totals().bytes_received);
        dumbbell.receivers.iter().map(bytes).collect()
    };
    let before = received_by(connects_at);
    let after = received_by(connects_at + Duration::from_secs(recorded.seconds));
    let mbit_s = |bytes: u64| exact(bytes) * 8e-6 / exact(recorded.seconds);
    GreedyRun {
        goodput_mbit_s: after.iter().zip(before).map(|(after, before)| mbit_s(after - before)).collect(),
        dropped: simulation.link_counters(dumbbell.bottleneck).queue_dropped,
    }
}

/// Runs a script and tells of each retransmission how long after the first transmission it left, in their order.
pub(super) fn script(recorded: &Script, delay: Duration, seed: u64) -> Vec<Duration> {
    let back = LinkConfig { delay, ..LinkConfig::default() };
    let forth = LinkConfig { loss: LossModel::Exact(recorded.lost.clone()), ..back.clone() };
    let path = Topology::path(&[Duplex { forward: forth, backward: back }]);
    let mut config = TcpConfig::linux();
    if !recorded.probes {
        config.switches.tail_probe = TailProbe::Off;
    }
    let writes = recorded.writes.iter().map(|&(ms, bytes)| (Duration::from_millis(ms), ByteCount::from_bytes(bytes)));
    let replay = Replay::new(writes).expect("the recorded writes are in order and none is empty");
    let starts_at = Instant::ZERO + delay * 2 + HANDSHAKE_MARGIN;
    let flow = TcpSender { starts_at, ..TcpSender::new(path.receiver, config, Workload::Replay(replay)) };
    let hosts: Vec<Host> = vec![
        TcpHost::new(path.sender, seed).with_sender(flow).into(),
        TcpHost::new(path.receiver, seed).listening(config).into(),
    ];
    let watch = Departures { from: path.sender, first: BTreeMap::new(), resent: Vec::new() };
    let mut simulation = Simulation::with_tap(path.topology, hosts, seed, watch);
    let last_ms = recorded.writes.last().map_or(0, |&(ms, _)| ms);
    simulation.run_until(starts_at + Duration::from_millis(last_ms) + QUIET);
    simulation.into_tap().resent
}

fn nanos(duration: Duration) -> u64 {
    festina_units::duration::saturating_nanos(duration)
}

/// Watches segments leave, as the measurement's tap did.
struct Departures {
    from: NodeId,
    /// When the segment that begins with this byte left for the first time.
    first: BTreeMap<u64, Instant>,
    resent: Vec<Duration>,
}

impl Tap<Packet> for Departures {
    fn watches(&self, _link: LinkId) -> bool {
        true
    }

    fn offered(&mut self, now: Instant, _link: LinkId, packet: &Packet, _admission: Admission) {
        let Payload::Tcp(tcp) = &packet.payload else { return };
        if packet.source != self.from || tcp.segment.length_bytes == 0 {
            return;
        }
        match self.first.get(&tcp.segment.sequence) {
            Some(first) => self.resent.push(now - *first),
            None => {
                self.first.insert(tcp.segment.sequence, now);
            }
        }
    }

    fn delivered(&mut self, _now: Instant, _link: LinkId, _packet: &Packet) {}
}
