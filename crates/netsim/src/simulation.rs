//! Hosts on a topology, driven through simulated time.
//!
//! One event carries a packet over one hop: a link computes the arrival when a packet's transmission starts, and the
//! agenda contains only the next arrival of each link and the next deadline of each host. Packets are moved from queue
//! to wire to queue, never copied. Once the buffers have grown nothing is allocated.

use festina_units::{Duration, Instant};

use crate::kernel::Agenda;
use crate::link::{Link, LinkCounters, LinkPacket};
use crate::loss::LossModel;
use crate::probe::{Probes, QueueProbeId, QueueSample, ThroughputProbeId, ThroughputSeries};
use crate::tap::{NoTap, Tap};
use crate::topology::{LinkId, NodeId, Routes, Topology};

/// Maximum number of events and transmissions at the same instant. A host that exceeds it has a deadline that does not
/// move, or sends packets without end.
pub const ACTIONS_AT_ONE_INSTANT_MAX: u64 = 10_000_000;

/// The interface of a packet to the simulator, beyond that to links.
pub trait SimPacket: LinkPacket {
    /// Returns the host that the packet is addressed to.
    fn destination(&self) -> NodeId;
}

/// A host: a state machine without a clock. After every mutation the simulation takes all packets that
/// [`poll_transmit`](Self::poll_transmit) returns and then asks for the deadline.
pub trait Node<P> {
    /// Called when the simulation starts.
    fn start(&mut self, _now: Instant) {}

    /// Handles a packet that has arrived at this host.
    fn handle_packet(&mut self, now: Instant, packet: P);

    /// Called when the deadline is reached.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns the next packet to send; it is routed by its destination.
    fn poll_transmit(&mut self, now: Instant) -> Option<P>;

    /// Returns when [`handle_timeout`](Self::handle_timeout) is to be called next. A deadline in the past is handled at
    /// once.
    fn poll_deadline(&self) -> Option<Instant>;
}

/// A running simulation: the same topology, hosts and seed give the same events, in the same order, on every machine.
///
/// `N` is the type of all hosts (an enum, if there are several kinds), and `T` [observes](Tap) the links.
#[derive(Debug)]
pub struct Simulation<P, N, T = NoTap> {
    topology: Topology,
    routes: Routes,
    now: Instant,
    has_started: bool,
    /// Slots: the nodes, then the links, then the probes.
    agenda: Agenda,
    /// By node; routers have none.
    hosts: Vec<Option<N>>,
    /// Hosts that the caller may have changed since the last event.
    touched: Vec<NodeId>,
    links: Vec<Link<P>>,
    /// The far end of each link.
    link_ends: Vec<NodeId>,
    probes: Probes,
    tap: T,
    counters: SimulationCounters,
    actions_at_this_instant: u64,
}

/// Counters of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SimulationCounters {
    /// Number of links crossed by packets.
    pub hops: u64,
    /// Number of agenda entries processed.
    pub events: u64,
    /// Packets dropped because no route leads from their node to their destination, which may be the sender itself.
    pub unroutable: u64,
}

impl<P: SimPacket, N: Node<P>> Simulation<P, N> {
    /// Creates a simulation at time zero. `nodes` are the hosts of the topology, in the order of
    /// [`Topology::host_ids`]. The routes take eight bytes for each pair of a host and a router.
    ///
    /// # Panics
    /// If the number of nodes differs from the number of hosts.
    pub fn new(topology: Topology, nodes: Vec<N>, seed: u64) -> Self {
        Self::with_tap(topology, nodes, seed, NoTap)
    }
}

impl<P: SimPacket, N: Node<P>, T: Tap<P>> Simulation<P, N, T> {
    /// Like [`Simulation::new`], with a tap that observes the links.
    ///
    /// # Panics
    /// If the number of nodes differs from the number of hosts.
    pub fn with_tap(topology: Topology, nodes: Vec<N>, seed: u64, tap: T) -> Self {
        assert_eq!(nodes.len(), topology.host_ids().count(), "every host of the topology needs one node");
        let mut hosts: Vec<Option<N>> = (0..topology.node_count()).map(|_| None).collect();
        for (id, node) in topology.host_ids().zip(nodes) {
            hosts[id.0 as usize] = Some(node);
        }
        let links: Vec<_> =
            topology.links().iter().map(|link| Link::new(link.config.clone(), seed, &link.name)).collect();
        Self {
            routes: Routes::new(&topology),
            now: Instant::ZERO,
            has_started: false,
            agenda: Agenda::new(hosts.len() + links.len() + 1),
            hosts,
            touched: Vec::new(),
            link_ends: topology.links().iter().map(|link| link.to).collect(),
            probes: Probes::new(links.len()),
            links,
            topology,
            tap,
            counters: SimulationCounters::default(),
            actions_at_this_instant: 0,
        }
    }

    /// Simulates all events up to and including `end`. An `end` in the past changes nothing.
    ///
    /// # Panics
    /// If more than [`ACTIONS_AT_ONE_INSTANT_MAX`] actions happen at the same instant, which is the fault of a host.
    pub fn run_until(&mut self, end: Instant) {
        self.begin();
        while let Some((at, slot)) = self.agenda.earliest()
            && at <= end
        {
            if at > self.now {
                self.now = at;
                self.actions_at_this_instant = 0;
            }
            self.count_action();
            self.counters.events += 1;
            self.agenda.begin(slot);
            self.dispatch(slot);
            self.agenda.finish();
        }
        self.now = self.now.max(end);
    }

    /// Returns the time of the next event, or `None` if there are no more events.
    pub fn poll_deadline(&mut self) -> Option<Instant> {
        self.begin();
        self.agenda.earliest().map(|(at, _)| at)
    }

    /// Returns the present instant.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the counters.
    pub fn counters(&self) -> SimulationCounters {
        self.counters
    }

    /// Returns the node of a host.
    ///
    /// # Panics
    /// If `host` is not a host of the topology.
    pub fn node(&self, host: NodeId) -> &N {
        self.hosts[host.0 as usize].as_ref().expect("`host` is a host of the topology")
    }

    /// Returns the node of a host for modification. Packets that it then wants to send are sent when the simulation
    /// continues, at the present instant.
    ///
    /// # Panics
    /// If `host` is not a host of the topology.
    pub fn node_mut(&mut self, host: NodeId) -> &mut N {
        if !self.touched.contains(&host) {
            self.touched.push(host);
        }
        self.hosts[host.0 as usize].as_mut().expect("`host` is a host of the topology")
    }

    /// Returns all nodes, in the order of [`Topology::host_ids`].
    pub fn nodes(&self) -> impl Iterator<Item = &N> {
        self.hosts.iter().flatten()
    }

    /// Returns a link.
    ///
    /// # Panics
    /// If `link` is not of the topology.
    pub fn link(&self, link: LinkId) -> &Link<P> {
        &self.links[link.0 as usize]
    }

    /// Returns the counters of a link.
    ///
    /// # Panics
    /// If `link` is not of the topology.
    pub fn link_counters(&self, link: LinkId) -> LinkCounters {
        self.link(link).counters()
    }

    /// Replaces the loss model of a link from now on ([`Link::set_loss`]).
    ///
    /// # Panics
    /// If `link` is not of the topology.
    pub fn set_loss(&mut self, link: LinkId, loss: LossModel) {
        self.links[link.0 as usize].set_loss(loss);
    }

    /// Returns the tap.
    pub fn tap(&self) -> &T {
        &self.tap
    }

    /// Returns the tap for modification.
    pub fn tap_mut(&mut self) -> &mut T {
        &mut self.tap
    }

    /// Ends the simulation and returns the tap.
    pub fn into_tap(self) -> T {
        self.tap
    }

    /// Samples the queue of `link` every `interval` from now on, starting immediately.
    ///
    /// # Panics
    /// If `link` is not of the topology, or the interval is zero.
    pub fn probe_queue(&mut self, link: LinkId, interval: Duration) -> QueueProbeId {
        assert!((link.0 as usize) < self.links.len(), "`link` is a link of the topology");
        let id = self.probes.add_queue(link, interval, self.now);
        self.agenda.set(self.probe_slot(), self.probes.deadline());
        id
    }

    /// Returns the samples of a queue probe.
    ///
    /// # Panics
    /// If the probe is of another simulation.
    pub fn queue_samples(&self, probe: QueueProbeId) -> &[QueueSample] {
        self.probes.queue_samples(probe)
    }

    /// Counts the bytes of each flow that pass `link` from now on, in bins of length `bin`.
    ///
    /// # Panics
    /// If `link` is not of the topology, the bin length is zero, or the link already has a throughput probe.
    pub fn probe_throughput(&mut self, link: LinkId, bin: Duration) -> ThroughputProbeId {
        self.probes.add_throughput(link, bin, self.now)
    }

    /// Returns the counts of a throughput probe.
    ///
    /// # Panics
    /// If the probe is of another simulation.
    pub fn throughput(&self, probe: ThroughputProbeId) -> &ThroughputSeries {
        self.probes.throughput(probe)
    }

    /// Starts the hosts on the first call, and sends packets of hosts that the caller has modified.
    fn begin(&mut self) {
        if !self.has_started {
            self.has_started = true;
            self.touched.clear();
            for index in 0..self.hosts.len() {
                if let Some(node) = &mut self.hosts[index] {
                    node.start(self.now);
                    self.drain(index);
                    self.update_node(index);
                }
            }
        }
        for host in std::mem::take(&mut self.touched) {
            self.drain(host.0 as usize);
            self.update_node(host.0 as usize);
        }
    }

    fn probe_slot(&self) -> usize {
        self.hosts.len() + self.links.len()
    }

    fn dispatch(&mut self, slot: usize) {
        if slot < self.hosts.len() {
            self.time_out(slot);
        } else if slot < self.probe_slot() {
            self.deliver(slot - self.hosts.len());
        } else {
            self.probes.sample(self.now, &mut self.links);
            self.agenda.set(slot, self.probes.deadline());
        }
    }

    fn time_out(&mut self, index: usize) {
        if let Some(node) = &mut self.hosts[index] {
            node.handle_timeout(self.now);
            self.drain(index);
            self.update_node(index);
        }
    }

    /// Takes the packets that have arrived at the end of a link.
    fn deliver(&mut self, link_index: usize) {
        let end = self.link_ends[link_index];
        let id = LinkId(u32::try_from(link_index).expect("links are numbered in 32 bits"));
        while let Some(packet) = self.links[link_index].poll_delivery(self.now) {
            self.counters.hops += 1;
            self.probes.note_delivery(link_index, self.now, &packet);
            if self.tap.watches(id) {
                self.tap.delivered(self.now, id, &packet);
            }
            self.arrive(end, packet);
        }
        self.update_link(link_index);
        if self.hosts[end.0 as usize].is_some() {
            self.update_node(end.0 as usize);
        }
    }

    fn arrive(&mut self, at: NodeId, packet: P) {
        match &mut self.hosts[at.0 as usize] {
            Some(node) if packet.destination() == at => {
                node.handle_packet(self.now, packet);
                self.drain(at.0 as usize);
            }
            Some(_) => self.counters.unroutable += 1,
            None => self.forward(at, packet),
        }
    }

    /// Sends all packets that a host wants to send.
    fn drain(&mut self, index: usize) {
        let id = NodeId(u32::try_from(index).expect("nodes are numbered in 32 bits"));
        while let Some(packet) = self.hosts[index].as_mut().and_then(|node| node.poll_transmit(self.now)) {
            self.count_action();
            self.forward(id, packet);
        }
    }

    /// Offers a packet to the link that leads from `node` to its destination.
    fn forward(&mut self, node: NodeId, packet: P) {
        let Some(id) = self.routes.next_link(node, packet.destination()) else {
            self.counters.unroutable += 1;
            return;
        };
        let index = id.0 as usize;
        if self.tap.watches(id) {
            let offered = packet.clone();
            let admission = self.links[index].send(self.now, packet);
            self.tap.offered(self.now, id, &offered, admission);
        } else {
            self.links[index].send(self.now, packet);
        }
        self.update_link(index);
    }

    fn update_link(&mut self, index: usize) {
        self.agenda.set(self.hosts.len() + index, self.links[index].poll_deadline());
    }

    fn update_node(&mut self, index: usize) {
        let deadline = self.hosts[index].as_ref().and_then(Node::poll_deadline);
        self.agenda.set(index, deadline.map(|at| at.max(self.now)));
    }

    fn count_action(&mut self) {
        self.actions_at_this_instant += 1;
        assert!(
            self.actions_at_this_instant <= ACTIONS_AT_ONE_INSTANT_MAX,
            "too many actions at the instant {}: a host's deadline does not move, or it sends without end",
            self.now
        );
    }
}

#[cfg(test)]
mod tests;
