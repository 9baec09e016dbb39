use std::collections::VecDeque;

use festina_units::{Bandwidth, ByteCount};

use super::*;
use crate::link::tests::hostile;
use crate::link::{Admission, LinkConfig};
use crate::loss::LossModel;
use crate::queue::{FqCoDelConfig, QueueDiscipline, QueueLimit};
use crate::random::RandomStream;
use crate::topology::{Duplex, Path};

const MS: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Packet {
    destination: NodeId,
    number: u64,
    bytes: u64,
    flow: u64,
    is_damaged: bool,
}

impl LinkPacket for Packet {
    fn size(&self) -> ByteCount {
        ByteCount::from_bytes(self.bytes)
    }

    fn corrupt(&mut self, _entropy: u64) {
        self.is_damaged = true;
    }

    fn flow(&self) -> u64 {
        self.flow
    }
}

impl SimPacket for Packet {
    fn destination(&self) -> NodeId {
        self.destination
    }
}

/// Sends scheduled packets, and records received ones.
#[derive(Debug, Default)]
struct Script {
    to_send: VecDeque<(Instant, Packet)>,
    received: Vec<(Instant, Packet)>,
}

impl Node<Packet> for Script {
    fn handle_packet(&mut self, now: Instant, packet: Packet) {
        self.received.push((now, packet));
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let is_due = self.to_send.front().is_some_and(|(at, _)| *at <= now);
        if is_due { self.to_send.pop_front().map(|(_, packet)| packet) } else { None }
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.to_send.front().map(|(at, _)| *at)
    }
}

fn packet(destination: NodeId, number: u64, bytes: u64) -> Packet {
    Packet { destination, number, bytes, flow: 0, is_damaged: false }
}

fn rate(bits_per_second: u64) -> Option<Bandwidth> {
    Some(Bandwidth::from_bits_per_second(bits_per_second))
}

/// One link of 8 Mbit/s, on which a byte takes a microsecond, and 50 ms.
fn slow_link() -> LinkConfig {
    LinkConfig { rate: rate(8_000_000), delay: 50 * MS, ..LinkConfig::default() }
}

fn one_hop(config: LinkConfig) -> Path {
    Topology::path(&[Duplex::symmetric(config)])
}

/// Sends a schedule over a path and returns the arrivals.
fn run_path(path: Path, schedule: Vec<(Instant, Packet)>, seed: u64) -> Vec<(Instant, Packet)> {
    let sender = Script { to_send: schedule.into(), ..Script::default() };
    let receiver = path.receiver;
    let mut simulation = Simulation::new(path.topology, vec![sender, Script::default()], seed);
    simulation.run_until(Instant::from_secs(100_000));
    simulation.node(receiver).received.clone()
}

#[test]
fn each_hop_adds_exactly_its_transmission_and_its_delay() {
    let hop = Duplex::symmetric(slow_link());
    let path = Topology::path(&[hop.clone(), hop.clone(), hop]);
    let receiver = path.receiver;
    let schedule = (0..3).map(|number| (Instant::ZERO, packet(receiver, number, 1_000))).collect();
    let arrivals = run_path(path, schedule, 1);
    let times: Vec<_> = arrivals.iter().map(|(at, packet)| (at.as_nanos() / 1_000, packet.number)).collect();
    // Three transmissions of 1 ms and three delays of 50 ms; the others follow at the rate.
    assert_eq!(times, [(153_000, 0), (154_000, 1), (155_000, 2)]);
}

#[test]
fn a_new_loss_model_applies_from_the_time_it_is_set() {
    let path = one_hop(slow_link());
    let schedule = (0..4).map(|number| (Instant::from_secs(number), packet(path.receiver, number, 1_000)));
    let sender = Script { to_send: schedule.collect(), ..Script::default() };
    let (receiver, forward) = (path.receiver, path.topology.route(path.sender, path.receiver).expect("a way")[0]);
    let mut simulation = Simulation::new(path.topology, vec![sender, Script::default()], 1);
    simulation.run_until(Instant::from_millis(1_500));
    simulation.set_loss(forward, LossModel::Exact(vec![0]));
    simulation.run_until(Instant::from_secs(10));
    let numbers: Vec<u64> = simulation.node(receiver).received.iter().map(|(_, packet)| packet.number).collect();
    assert_eq!(numbers, [0, 1, 3], "the model counts from the time it was set");
}

#[test]
fn packets_leave_in_the_order_and_at_the_rate_of_the_bottleneck() {
    let path = one_hop(LinkConfig { queue: QueueLimit::packets(10_000), ..slow_link() });
    let receiver = path.receiver;
    let schedule = (0..5_000).map(|number| (Instant::from_micros(number), packet(receiver, number, 1_000))).collect();
    let arrivals = run_path(path, schedule, 1);
    for (number, (at, packet)) in (0..).zip(&arrivals) {
        assert_eq!((packet.number, *at), (number, Instant::from_millis(51 + number)));
    }
    assert_eq!(arrivals.len(), 5_000);
}

#[test]
fn the_same_seed_gives_the_same_arrivals_and_another_seed_others() {
    let run = |seed| {
        let path = one_hop(hostile());
        let receiver = path.receiver;
        let schedule = (0..20_000).map(|n| (Instant::from_micros(700 * n), packet(receiver, n, 1_000))).collect();
        run_path(path, schedule, seed)
    };
    let first = run(1);
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
    // The exact trace: it must be the same on every machine, and not change unnoticed from release to release.
    let hash = first.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, (at, packet)| {
        let mixed = hash ^ at.as_nanos() ^ (packet.number << 32) ^ (u64::from(packet.is_damaged) << 63);
        mixed.wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17)
    });
    assert_eq!(hash, TRACE_HASH, "{hash:#x}");
}

const TRACE_HASH: u64 = 0x591f_279c_6124_63d3;

#[test]
fn another_link_elsewhere_changes_nothing() {
    let run = |has_more| {
        let mut topology = Topology::new();
        let [a, b] = topology.hosts(["a", "b"]);
        if has_more {
            let router = topology.router("elsewhere");
            topology.duplex(router, a, Duplex::symmetric(hostile()));
        }
        topology.duplex(a, b, Duplex::symmetric(hostile()));
        let to_send = (0..5_000).map(|n| (Instant::from_micros(900 * n), packet(b, n, 1_000))).collect();
        let nodes = vec![Script { to_send, ..Script::default() }, Script::default()];
        let mut simulation = Simulation::new(topology, nodes, 3);
        simulation.run_until(Instant::from_secs(10));
        simulation.node(b).received.clone()
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn the_mean_wait_of_poisson_arrivals_is_that_of_the_m_d_1_queue() {
    for (load_percent, count) in [(50, 200_000), (80, 400_000)] {
        let path = one_hop(LinkConfig { queue: QueueLimit::packets(100_000), ..slow_link() });
        let receiver = path.receiver;
        let mut random = RandomStream::new(5, "arrivals");
        let mut at = Instant::ZERO;
        let mut schedule = Vec::new();
        for number in 0..count {
            at += random.exponential(MS * 100 / load_percent);
            schedule.push((at, packet(receiver, number, 1_000)));
        }
        let sent: Vec<_> = schedule.iter().map(|(at, _)| *at).collect();
        let arrivals = run_path(path, schedule, 1);
        let waited: Duration = arrivals.iter().zip(&sent).map(|((at, _), sent)| *at - *sent - 51 * MS).sum();
        let mean_us = waited.as_micros() / u128::from(count);
        // rho / (2 (1 - rho)) services of 1 ms (Pollaczek and Khinchine).
        let closed_form_us = u128::from(1_000 * load_percent / (2 * (100 - load_percent)));
        let error_percent = mean_us.abs_diff(closed_form_us) * 100 / closed_form_us;
        assert!(error_percent < 3, "load {load_percent} %: {mean_us} us instead of {closed_form_us}");
    }
}

/// The longest wait of packets of flow 2, one of 100 bytes per 20 ms, concurrent with an overload by flow 1.
fn longest_wait_during_an_overload(discipline: QueueDiscipline) -> Duration {
    let path = one_hop(LinkConfig { discipline, queue: QueueLimit::packets(200), ..slow_link() });
    let receiver = path.receiver;
    let mut schedule: Vec<_> = (0..10_000)
        .map(|n| (Instant::from_micros(800 * n), Packet { flow: 1, ..packet(receiver, n, 1_000) }))
        .collect();
    let thin = (0..400).map(|n| (Instant::from_micros(20_000 * n + 7), Packet { flow: 2, ..packet(receiver, n, 100) }));
    schedule.extend(thin);
    schedule.sort_by_key(|(at, _)| *at);
    let arrivals = run_path(path, schedule, 1);
    let thin = arrivals.iter().filter(|(_, packet)| packet.flow == 2);
    let undisturbed = 50 * MS + MS / 10 + Duration::from_micros(7);
    let waits = thin.map(|(at, packet)| *at - Instant::from_millis(20 * packet.number) - undisturbed);
    waits.max().expect("some arrive")
}

#[test]
fn fq_codel_isolates_a_thin_flow_from_an_overload() {
    let shared = longest_wait_during_an_overload(QueueDiscipline::DropTail);
    assert!(shared > 150 * MS, "{shared:?}");
    // One packet in transmission, and the rest of the other flow's quantum.
    let isolated = longest_wait_during_an_overload(QueueDiscipline::FqCoDel(FqCoDelConfig::default()));
    assert!(isolated <= 3 * MS, "{isolated:?}");
}

#[test]
fn packets_reach_every_host_of_a_dumbbell_from_every_other() {
    let hop = Duplex::symmetric(LinkConfig { delay: MS, ..LinkConfig::default() });
    let pairs = Topology::dumbbell(&vec![hop.clone(); 3], hop);
    let hosts: Vec<_> = pairs.topology.host_ids().collect();
    let schedule = |from: NodeId| {
        let others = hosts.iter().filter(|to| **to != from);
        others.map(|to| (Instant::ZERO, packet(*to, u64::from(from.0), 100))).collect()
    };
    let nodes = hosts.iter().map(|from| Script { to_send: schedule(*from), ..Script::default() }).collect();
    let topology = pairs.topology.clone();
    let mut simulation = Simulation::new(pairs.topology, nodes, 1);
    simulation.run_until(Instant::from_secs(1));
    for to in &hosts {
        assert_eq!(simulation.node(*to).received.len(), hosts.len() - 1);
        for (at, packet) in &simulation.node(*to).received {
            let from = NodeId(u32::try_from(packet.number).expect("a node"));
            let hops = topology.route(from, *to).expect("there is a way").len();
            assert_eq!(*at, Instant::from_millis(hops as u64));
        }
    }
    assert_eq!(simulation.counters().unroutable, 0);
}

#[test]
fn packets_without_a_route_are_counted_and_dropped() {
    let mut path = one_hop(LinkConfig::default());
    let stranger = path.topology.host("stranger");
    let to_send = [stranger, path.sender, NodeId(99)].map(|to| (Instant::ZERO, packet(to, 0, 1))).into();
    let nodes = vec![Script { to_send, ..Script::default() }, Script::default(), Script::default()];
    let mut simulation = Simulation::new(path.topology, nodes, 1);
    simulation.run_until(Instant::from_secs(1));
    assert_eq!(simulation.counters(), SimulationCounters { unroutable: 3, hops: 0, events: 0 });
}

#[test]
fn a_host_modified_by_the_caller_sends_when_the_simulation_continues() {
    let path = one_hop(slow_link());
    let nodes = vec![Script::default(), Script::default()];
    let mut simulation = Simulation::new(path.topology, nodes, 1);
    simulation.run_until(Instant::from_secs(1));
    assert_eq!(simulation.poll_deadline(), None);
    simulation.node_mut(path.sender).to_send.push_back((Instant::ZERO, packet(path.receiver, 0, 1_000)));
    assert_eq!(simulation.poll_deadline(), Some(Instant::from_millis(1_051)));
    simulation.run_until(Instant::from_secs(2));
    assert_eq!(simulation.node(path.receiver).received.len(), 1);
    assert_eq!(simulation.now(), Instant::from_secs(2));
}

#[test]
fn one_event_carries_a_packet_over_one_hop() {
    let hop = Duplex::symmetric(LinkConfig { queue: QueueLimit::packets(10_000), ..slow_link() });
    let path = Topology::path(&[hop.clone(), hop.clone(), hop]);
    let (receiver, sender) = (path.receiver, path.sender);
    let to_send = (0..1_000).map(|n| (Instant::ZERO, packet(receiver, n, 1_000))).collect();
    let nodes = vec![Script { to_send, ..Script::default() }, Script::default()];
    let mut simulation = Simulation::new(path.topology, nodes, 1);
    simulation.run_until(Instant::from_secs(10));
    assert_eq!(simulation.counters(), SimulationCounters { hops: 3_000, events: 3_000, unroutable: 0 });
    assert_eq!(simulation.node(sender).to_send.len(), 0);
}

#[test]
fn an_overloaded_path_holds_at_most_the_capacity_of_queue_and_wire() {
    let path = one_hop(LinkConfig { queue: QueueLimit::packets(20), ..slow_link() });
    let (receiver, link) = (path.receiver, path.forward[0]);
    let to_send = (0..100_000).map(|n| (Instant::from_micros(100 * n), packet(receiver, n, 1_000))).collect();
    let nodes = vec![Script { to_send, ..Script::default() }, Script::default()];
    let mut simulation = Simulation::new(path.topology, nodes, 1);
    for tenth in 1..=100 {
        simulation.run_until(Instant::from_millis(100 * tenth));
        // 20 wait, one is being transmitted and 50 are in transit.
        assert!(simulation.link(link).packets_inside() <= 71);
    }
    assert_eq!(simulation.link_counters(link).offered, 100_000);
}

#[test]
#[should_panic(expected = "a host's deadline does not move")]
fn a_deadline_that_does_not_move_is_noticed() {
    struct Stuck;
    impl Node<Packet> for Stuck {
        fn handle_packet(&mut self, _now: Instant, _packet: Packet) {}
        fn handle_timeout(&mut self, _now: Instant) {}
        fn poll_transmit(&mut self, _now: Instant) -> Option<Packet> {
            None
        }
        fn poll_deadline(&self) -> Option<Instant> {
            Some(Instant::ZERO)
        }
    }
    let mut topology = Topology::new();
    topology.host("stuck");
    Simulation::new(topology, vec![Stuck], 1).run_until(Instant::from_secs(1));
}

#[test]
fn a_probe_of_a_queue_sees_it_fill_and_empty() {
    let path = one_hop(LinkConfig { queue: QueueLimit::packets(10), ..slow_link() });
    let (receiver, link) = (path.receiver, path.forward[0]);
    let to_send = (0..13).map(|n| (Instant::from_micros(500), packet(receiver, n, 1_000))).collect();
    let nodes = vec![Script { to_send, ..Script::default() }, Script::default()];
    let mut simulation = Simulation::new(path.topology, nodes, 1);
    let probe = simulation.probe_queue(link, MS);
    simulation.run_until(Instant::from_millis(20));
    let samples = simulation.queue_samples(probe);
    let packets: Vec<_> = samples.iter().map(|sample| sample.packets).collect();
    assert_eq!(packets, [0, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(samples[1].bytes, ByteCount::from_bytes(10_000));
    assert_eq!((samples[0].dropped, samples[1].dropped), (0, 2));
    assert_eq!(samples[20].at, Instant::from_millis(20));
}

#[test]
fn a_probe_of_throughput_counts_each_flow_in_its_bins() {
    let path = one_hop(slow_link());
    let (receiver, link) = (path.receiver, path.forward[0]);
    let to_send = (0..10).map(|n| (Instant::ZERO, Packet { flow: n % 2, ..packet(receiver, n, 1_000) })).collect();
    let nodes = vec![Script { to_send, ..Script::default() }, Script::default()];
    let mut simulation = Simulation::new(path.topology, nodes, 1);
    let probe = simulation.probe_throughput(link, 5 * MS);
    simulation.run_until(Instant::from_secs(1));
    let series = simulation.throughput(probe);
    assert_eq!(series.flows().collect::<Vec<_>>(), [0, 1]);
    let kilobytes = |flow| series.bytes(flow).iter().map(|bytes| bytes.bytes() / 1_000).collect::<Vec<_>>();
    // Packets arrive at 51, 52, ... 60 ms.
    assert_eq!(kilobytes(0), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3]);
    assert_eq!(kilobytes(1), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 1]);
    assert_eq!(series.uncounted(), ByteCount::ZERO);
}

#[test]
fn a_throughput_probe_reports_uncounted_bytes() {
    let path = one_hop(slow_link());
    let to_send = [(Instant::ZERO, packet(path.receiver, 0, 1_000))].into();
    let nodes = vec![Script { to_send, ..Script::default() }, Script::default()];
    let mut simulation = Simulation::new(path.topology, nodes, 1);
    // The packet arrives in bin 51,000,000.
    let probe = simulation.probe_throughput(path.forward[0], Duration::from_nanos(1));
    simulation.run_until(Instant::from_secs(1));
    assert_eq!(simulation.throughput(probe).uncounted(), ByteCount::from_bytes(1_000));
    assert_eq!(simulation.throughput(probe).flows().count(), 0);
}

/// Records the packets observed on one link.
struct Notes {
    link: LinkId,
    offered: Vec<(Instant, u64, Admission)>,
    delivered: Vec<(Instant, u64)>,
}

impl Tap<Packet> for Notes {
    fn watches(&self, link: LinkId) -> bool {
        link == self.link
    }

    fn offered(&mut self, now: Instant, link: LinkId, packet: &Packet, admission: Admission) {
        assert_eq!(link, self.link);
        self.offered.push((now, packet.number, admission));
    }

    fn delivered(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        assert_eq!(link, self.link);
        self.delivered.push((now, packet.number));
    }
}

#[test]
fn a_tap_observes_packets_that_enter_and_leave_only_its_link() {
    let second = LinkConfig { mtu: Some(ByteCount::from_bytes(1_000)), loss: LossModel::Exact(vec![1]), ..slow_link() };
    let path = Topology::path(&[Duplex::symmetric(slow_link()), Duplex::symmetric(second)]);
    let sizes = [1_000, 1_000, 1_001];
    let to_send = (0..).zip(sizes).map(|(n, bytes)| (Instant::ZERO, packet(path.receiver, n, bytes))).collect();
    let nodes = vec![Script { to_send, ..Script::default() }, Script::default()];
    let notes = Notes { link: path.forward[1], offered: Vec::new(), delivered: Vec::new() };
    let mut simulation = Simulation::with_tap(path.topology, nodes, 1, Some(notes));
    simulation.run_until(Instant::from_secs(1));
    assert_eq!(simulation.link_counters(path.forward[1]).too_large, 1);
    let notes = simulation.into_tap().expect("it was given");
    let us = Instant::from_micros;
    let offered =
        [(us(51_000), 0, Admission::Accepted), (us(52_000), 1, Admission::Lost), (us(53_001), 2, Admission::TooLarge)];
    assert_eq!(notes.offered, offered);
    assert_eq!(notes.delivered, [(us(102_000), 0)]);
}
