//! A narrow link between two routers, and hosts behind either.

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_netsim::{Duplex, LinkConfig, LinkCounters, LinkId, NodeId, QueueLimit, Simulation, Topology};
use festina_units::{Bandwidth, Duration, Instant};

use super::StreamRecord;

/// All links but the bottleneck.
const ACCESS_RATE: Bandwidth = Bandwidth::from_bits_per_second(100_000_000);

/// After the last write the network runs empty in steps of this size.
const DRAIN_STEP: Duration = Duration::from_secs(10);

/// The network as it is being built.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    pub(crate) topology: Topology,
    /// From left to right.
    pub(crate) link: LinkId,
    pub(crate) left: NodeId,
    pub(crate) right: NodeId,
}

impl Bottleneck {
    /// The link alone, with a queue of `queue_packets` each way.
    pub(crate) fn new(rate: Bandwidth, queue_packets: usize) -> Self {
        let narrow =
            LinkConfig { rate: Some(rate), queue: QueueLimit::packets(queue_packets), ..LinkConfig::default() };
        Self::with_link(narrow)
    }

    /// The link alone, the same each way.
    pub(crate) fn with_link(narrow: LinkConfig) -> Self {
        let mut topology = Topology::new();
        let [left, right] = topology.routers(["left", "right"]);
        let (link, _) = topology.duplex(left, right, Duplex::symmetric(narrow));
        Self { topology, link, left, right }
    }

    /// A host that sends, close to its router.
    pub(crate) fn source(&mut self, name: &str, router: NodeId) -> NodeId {
        let host = self.topology.host(name);
        self.topology.duplex(host, router, access(Duration::ZERO));
        host
    }

    /// Adds a receiving host. The link to it has the delays of a whole round trip of `rtt`.
    pub(crate) fn sink(&mut self, name: &str, router: NodeId, rtt: Duration) -> NodeId {
        let host = self.topology.host(name);
        self.topology.duplex(router, host, access(rtt));
        host
    }
}

fn access(rtt: Duration) -> Duplex {
    Duplex::symmetric(LinkConfig { rate: Some(ACCESS_RATE), delay: rtt / 2, ..LinkConfig::default() })
}

/// Results of streams that crossed a bottleneck.
#[derive(Clone, Debug)]
pub(crate) struct Crossing {
    pub(crate) records: Vec<StreamRecord>,
    before: LinkCounters,
    after: LinkCounters,
}

impl Crossing {
    /// Runs until all is delivered, at most `drain_max` longer than the streams write; the link is watched while they do.
    pub(crate) fn run(
        simulation: &mut Simulation<Packet, Host>,
        link: LinkId,
        [starts_at, stops_at]: [Instant; 2],
        drain_max: Duration,
        observe: impl Fn(&Simulation<Packet, Host>) -> Vec<StreamRecord>,
    ) -> Self {
        simulation.run_until(starts_at);
        let before = simulation.link_counters(link);
        simulation.run_until(stops_at);
        let after = simulation.link_counters(link);
        let mut drained = Duration::ZERO;
        loop {
            drained += DRAIN_STEP;
            simulation.run_until(stops_at + drained);
            let records = observe(simulation);
            if drained >= drain_max || records.iter().all(StreamRecord::is_delivered) {
                return Self { records, before, after };
            }
        }
    }

    /// Returns a counter of the link while the streams wrote.
    pub(crate) fn counted(&self, count: fn(&LinkCounters) -> u64) -> u64 {
        count(&self.after) - count(&self.before)
    }
}
