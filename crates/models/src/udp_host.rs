//! A host that sends datagrams and counts received ones: cross traffic, and the lower bound of any transport's delay.

use std::collections::BTreeMap;
use std::ops::Range;

use festina_netsim::{Node, NodeId};
use festina_units::{Duration, EcnCodepoint, Instant};

use crate::packet::{Datagram, Packet, Payload};
use crate::workload::{Source, Trigger, Workload};

/// The largest datagram payload that fits into an Ethernet frame over IPv4.
pub const DATAGRAM_BYTES_MAX: u32 = 1_472;

/// A host that sends workloads as datagrams, regardless of the state of the network, and counts received ones.
#[derive(Debug)]
pub struct UdpHost {
    node: NodeId,
    seed: u64,
    flows: Vec<Flow>,
    received: BTreeMap<NodeId, UdpReceived>,
    /// Every intact datagram, if they are logged.
    log: Option<Vec<UdpArrival>>,
}

/// A datagram that arrived intact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpArrival {
    /// The host that sent it.
    pub source: NodeId,
    /// When the application wrote it.
    pub sent_at: Instant,
    /// When it arrived.
    pub arrived_at: Instant,
}

/// A flow of datagrams.
#[derive(Debug)]
struct Flow {
    peer: NodeId,
    source: Source,
    /// The rest of a write that takes more than one datagram, and its due time.
    pending: Option<(Instant, u64)>,
    sent: u64,
    sent_bytes: u64,
}

/// Counters of datagrams from another host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UdpReceived {
    /// Intact datagrams.
    pub datagrams: u64,
    /// Their user data.
    pub bytes: u64,
    /// Datagrams with a wrong checksum.
    pub corrupted: u64,
    /// Sum of their delays; divided by `datagrams` it is the mean.
    pub delay_sum: Duration,
    /// The longest delay.
    pub delay_max: Duration,
}

impl UdpHost {
    /// Creates a host that sends nothing. Its workloads are derived from the simulation's seed and the host's place in
    /// the topology.
    #[must_use]
    pub fn new(node: NodeId, seed: u64) -> Self {
        Self { node, seed, flows: Vec::new(), received: BTreeMap::new(), log: None }
    }

    /// Adds a flow that sends from `starts_at` until before `stops_at`. Writes that do not fit into one datagram become several.
    ///
    /// # Panics
    /// If the workload does not follow the clock, as a UDP sender gets no feedback about room or arrivals.
    #[must_use]
    pub fn with_flow(
        mut self,
        peer: NodeId,
        workload: &Workload,
        starts_at: Instant,
        stops_at: Option<Instant>,
    ) -> Self {
        assert_eq!(workload.trigger(), Trigger::Clock, "UDP gives no feedback to write by");
        let source = Source::new(workload, self.seed, &name_of(self.node, self.flows.len()), starts_at, stops_at);
        self.flows.push(Flow { peer, source, pending: None, sent: 0, sent_bytes: 0 });
        self
    }

    /// The writes of the first flow of a host: what its application wants to send.
    #[must_use]
    pub fn first_source(node: NodeId, seed: u64, workload: &Workload, span: &Range<Instant>) -> Source {
        Source::new(workload, seed, &name_of(node, 0), span.start, Some(span.end))
    }

    /// Logs every received datagram.
    #[must_use]
    pub fn logging(mut self) -> Self {
        self.log = Some(Vec::new());
        self
    }

    /// Returns the intact datagrams in the order of their arrival; empty unless the host is [`logging`](Self::logging).
    #[must_use]
    pub fn arrivals(&self) -> &[UdpArrival] {
        self.log.as_deref().unwrap_or_default()
    }

    /// The host's place in the topology.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Datagrams and bytes of user data that were sent, over all flows.
    #[must_use]
    pub fn sent(&self) -> (u64, u64) {
        self.flows.iter().fold((0, 0), |(count, bytes), flow| (count + flow.sent, bytes + flow.sent_bytes))
    }

    /// Returns the counters of datagrams from another host.
    #[must_use]
    pub fn received_from(&self, peer: NodeId) -> UdpReceived {
        self.received.get(&peer).copied().unwrap_or_default()
    }
}

impl Node<Packet> for UdpHost {
    fn handle_packet(&mut self, now: Instant, packet: Packet) {
        let Payload::Udp(datagram) = packet.payload else { return };
        let received = self.received.entry(packet.source).or_default();
        if datagram.is_corrupted {
            received.corrupted += 1;
            return;
        }
        let delay = now.saturating_duration_since(datagram.sent_at);
        received.datagrams += 1;
        received.bytes += u64::from(datagram.bytes);
        received.delay_sum = received.delay_sum.saturating_add(delay);
        received.delay_max = received.delay_max.max(delay);
        if let Some(log) = &mut self.log {
            log.push(UdpArrival { source: packet.source, sent_at: datagram.sent_at, arrived_at: now });
        }
    }

    /// Nothing is done here: due datagrams are sent by `poll_transmit`.
    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let (node, mut flows) = (self.node, (0..).zip(&mut self.flows));
        flows.find_map(|(index, flow)| flow.poll_datagram(now, node, index))
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.flows.iter().filter_map(|flow| flow.source.next_at()).min()
    }
}

/// The name of a flow's random numbers.
fn name_of(node: NodeId, flow: usize) -> String {
    format!("udp host {}/flow {flow}", node.0)
}

impl Flow {
    fn poll_datagram(&mut self, now: Instant, node: NodeId, index: u64) -> Option<Packet> {
        let due = self.pending.take().or_else(|| {
            let (at, write) = self.source.take_due(now)?;
            Some((at, write.size.bytes()))
        });
        let (sent_at, left) = due?;
        let bytes = u32::try_from(left).unwrap_or(u32::MAX).min(DATAGRAM_BYTES_MAX);
        if left > u64::from(bytes) {
            self.pending = Some((sent_at, left - u64::from(bytes)));
        }
        let serial = self.sent;
        self.sent += 1;
        self.sent_bytes += u64::from(bytes);
        Some(Packet {
            source: node,
            destination: self.peer,
            flow: u64::from(node.0) << 32 | index,
            serial,
            ecn: EcnCodepoint::NotCapable,
            payload: Payload::Udp(Datagram { bytes, sent_at, is_corrupted: false }),
        })
    }
}
