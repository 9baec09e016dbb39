//! One run of a point, and its measurements.

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_netsim::{LinkCounters, LinkId, NodeId, Simulation};
use festina_units::{Bandwidth, Duration, Instant};

use super::flow::Group;
use super::network::Layout;
use crate::capture::Capture;
use crate::count::as_f64;
use crate::plan::Point;
use crate::samples::Samples;
use crate::scenario::StreamRecord;
use crate::scenario::fairness::bytes_received;

/// The network of a point and its times.
#[derive(Clone, Debug)]
pub(super) struct Course {
    pub(super) layout: Layout,
    /// Earlier data does not count.
    pub(super) counts_from: Instant,
    /// When the flows end.
    pub(super) ends_at: Instant,
    /// How long messages that are under way then are waited for.
    drain: Duration,
}

/// A message: when the application had it, and when it arrived, if it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) due_at: Instant,
    pub(super) delivered_at: Option<Instant>,
}

impl Course {
    /// The course of a point to which nothing was objected.
    pub(super) fn of(point: &Point) -> Self {
        let layout = Layout::of(point).unwrap_or_else(|objection| panic!("the plan was checked: {objection:?}"));
        let [duration, warm_up, drain] = ["duration", "warm_up", "drain"].map(|name| point.duration(name));
        let ends_at = Instant::ZERO + duration;
        Self { layout, counts_from: (Instant::ZERO + warm_up).min(ends_at), ends_at, drain }
    }

    /// The network at time zero. Flows for which `is_logged` holds record the fate of their messages.
    pub(super) fn simulation(&self, seed: u64, is_logged: impl Fn(&Group) -> bool) -> Simulation<Packet, Host> {
        Simulation::new(self.layout.topology.clone(), self.hosts(seed, is_logged), seed)
    }

    fn hosts(&self, seed: u64, is_logged: impl Fn(&Group) -> bool) -> Vec<Host> {
        let groups = self.layout.groups.iter();
        groups.flat_map(|(group, pairs)| group.hosts(pairs, seed, is_logged(group))).collect()
    }

    /// Runs it as [`measure`](Self::measure) does, and returns the packets of all links.
    pub(super) fn capture(&self, seed: u64) -> Capture {
        let (topology, hosts) = (self.layout.topology.clone(), self.hosts(seed, |group| !group.is_greedy()));
        let capture = Capture::of(&topology);
        let mut simulation: Simulation<Packet, Host, Capture> = Simulation::with_tap(topology, hosts, seed, capture);
        simulation.run_until(self.ends_at + self.drain);
        simulation.into_tap()
    }

    /// Runs it. The same seed gives the same samples.
    pub(super) fn measure(&self, seed: u64) -> Samples {
        let mut simulation = self.simulation(seed, |group| !group.is_greedy());
        simulation.run_until(self.counts_from);
        let before = Counted::of(self, &simulation);
        simulation.run_until(self.ends_at);
        let after = Counted::of(self, &simulation);
        simulation.run_until(self.ends_at + self.drain);
        let mut samples = Samples::new();
        let seconds = (self.ends_at - self.counts_from).as_secs_f64().max(f64::MIN_POSITIVE);
        for (index, (group, pairs)) in self.layout.groups.iter().enumerate() {
            let bytes = after.bytes[index].iter().zip(&before.bytes[index]).map(|(after, before)| after - before);
            let goodput: Vec<f64> = bytes.map(|bytes| as_f64(bytes) * 8.0 / seconds / 1e6).collect();
            let sum: f64 = goodput.iter().sum();
            samples.set(&format!("{}: goodput Mbit/s", group.name), sum);
            let squares: f64 = goodput.iter().map(|one| one * one).sum();
            if goodput.len() > 1 && squares > 0.0 {
                samples.set(&format!("{}: Jain's index", group.name), sum * sum / (as_f64(goodput.len()) * squares));
            }
            if !group.is_greedy() {
                self.note_delays(&mut samples, group, pairs, seed, &simulation);
            }
        }
        for (index, (name, link)) in self.layout.links.iter().enumerate() {
            let rate = simulation.link(*link).config().mean_rate();
            note_link(&mut samples, name, [&before.links[index], &after.links[index]], rate, seconds);
        }
        samples
    }

    fn note_delays(
        &self,
        samples: &mut Samples,
        group: &Group,
        pairs: &[[NodeId; 2]],
        seed: u64,
        simulation: &Simulation<Packet, Host>,
    ) {
        let mut delivered = 0;
        for &[from, to] in pairs {
            for delivery in deliveries(simulation.node(from), simulation.node(to)) {
                if let Some(at) = delivery.delivered_at.filter(|_| delivery.due_at >= self.counts_from) {
                    samples.tally(group.name, at.saturating_duration_since(delivery.due_at));
                    delivered += 1;
                }
            }
        }
        // Also those of connections that never came up, which no host has noted.
        let due = group.messages_due(pairs, seed, &(self.counts_from..self.ends_at + self.drain));
        samples.set(&format!("{}: undelivered messages", group.name), as_f64(due.saturating_sub(delivered)));
    }
}

/// How the messages between two hosts fared; of datagrams only those that arrived.
pub(super) fn deliveries(from: &Host, to: &Host) -> Vec<Delivery> {
    if let Host::Udp(receiver) = to {
        let delivery = |arrival: &festina_models::udp_host::UdpArrival| Delivery {
            due_at: arrival.sent_at,
            delivered_at: Some(arrival.arrived_at),
        };
        return receiver.arrivals().iter().map(delivery).collect();
    }
    let records = StreamRecord::observe(from, to);
    let messages = records.iter().flat_map(|record| &record.truth().messages);
    messages.map(|message| Delivery { due_at: message.due_at, delivered_at: message.delivered_at }).collect()
}

/// Payload bytes that a flow's receiver got.
pub(super) fn received(simulation: &Simulation<Packet, Host>, [from, to]: [NodeId; 2]) -> u64 {
    match simulation.node(to) {
        Host::Udp(host) => host.received_from(from).bytes,
        host => bytes_received(host),
    }
}

/// The counters at one moment.
struct Counted {
    /// Of each flow of each group.
    bytes: Vec<Vec<u64>>,
    links: Vec<LinkCounters>,
}

impl Counted {
    fn of(course: &Course, simulation: &Simulation<Packet, Host>) -> Self {
        let flows = |pairs: &Vec<[NodeId; 2]>| pairs.iter().map(|&pair| received(simulation, pair)).collect();
        let link = |&(_, link): &(&str, LinkId)| simulation.link_counters(link);
        Self {
            bytes: course.layout.groups.iter().map(|(_, pairs)| flows(pairs)).collect(),
            links: course.layout.links.iter().map(link).collect(),
        }
    }
}

fn note_link(
    samples: &mut Samples,
    name: &str,
    [before, after]: [&LinkCounters; 2],
    rate: Option<Bandwidth>,
    seconds: f64,
) {
    let offered = as_f64((after.offered - before.offered).max(1));
    for (what, count) in [
        ("dropped", after.queue_dropped - before.queue_dropped),
        ("lost", after.lost - before.lost),
        ("marked", after.congestion_marked - before.congestion_marked),
    ] {
        samples.set(&format!("{name}: packets {what} %"), as_f64(count) / offered * 100.0);
    }
    if let Some(rate) = rate {
        let bits = as_f64((after.delivered_bytes - before.delivered_bytes).bytes() * 8);
        samples.set(&format!("{name}: load %"), bits / seconds / as_f64(rate.bits_per_second()) * 100.0);
    }
}
