//! A host with TCP connections of the model, each with a workload to send or as the receiver of one.
//!
//! A workload is carried by one connection, or by a new connection for each write if the published set-up does that
//! (web clients, mice). Messages are parts of the stream: a message has arrived when its last byte can be read.

mod connection;
mod truth;

pub use truth::{TcpRecord, observe};

use std::collections::{BTreeMap, VecDeque};

use festina_netsim::{Node, NodeId};
use festina_units::{Duration, EcnCodepoint, Instant};

use crate::agenda::Agenda;
use crate::packet::{Packet, Payload, TcpPacket};
use crate::tcp::{Flags, Segment, TcpConfig, TcpCounters};
use crate::workload::{Source, Trigger, Workload};
use connection::{Connection, Ending, Traffic};

/// The port on which a host listens.
pub const TCP_PORT: u16 = 80;
/// The ports of connections that a host opens, taken in turn.
const CLIENT_PORTS: std::ops::Range<u16> = 10_000..60_000;

/// Local and peer port.
type PortPair = (u16, u16);

/// A host with one or many TCP connections.
#[derive(Debug)]
pub struct TcpHost {
    node: NodeId,
    seed: u64,
    accepts: Option<TcpConfig>,
    is_logging: bool,
    wake_up: Duration,
    flows: Vec<Flow>,
    /// `None`: free for the next connection.
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    by_ports: BTreeMap<(NodeId, PortPair), usize>,
    agenda: Agenda<Slot>,
    ready: VecDeque<usize>,
    replies: VecDeque<Packet>,
    next_port: u16,
    totals: TcpTotals,
}

/// Whose deadline it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    /// A flow opens a connection.
    Flow(usize),
    Connection(usize),
}

/// A workload to send over TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpSender {
    /// The host to talk to; it must [`listen`](TcpHost::listening).
    pub peer: NodeId,
    /// Settings of this side's connections.
    pub config: TcpConfig,
    /// The workload of the application.
    pub workload: Workload,
    /// When the connection is opened, if there is one for all writes.
    pub connects_at: Instant,
    /// When the workload begins.
    pub starts_at: Instant,
    /// When the application stops writing.
    pub stops_at: Option<Instant>,
}

/// Counters of a host's finished connections, and the bytes received over all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpTotals {
    /// Connections opened by this host.
    pub opened: u64,
    /// Connections that ended gracefully, opened by either side.
    pub finished: u64,
    /// Connections given up because the peer did not answer.
    pub failed: u64,
    /// Bytes that arrived in order, over all connections.
    pub bytes_received: u64,
}

#[derive(Debug)]
struct Flow {
    sender: TcpSender,
    /// The writes, if each opens a connection; else the one connection has them.
    transfers: Option<Source>,
    /// The connection that carries the flow, or its latest transfer.
    connection: Option<usize>,
    /// The source while its one connection is still to be opened.
    writes: Option<Source>,
}

impl TcpSender {
    /// Creates a flow whose workload starts one second after the start of the simulation and has no end. The connection
    /// is opened at once.
    #[must_use]
    pub fn new(peer: NodeId, config: TcpConfig, workload: Workload) -> Self {
        let (connects_at, starts_at) = (Instant::ZERO, Instant::from_secs(1));
        Self { peer, config, workload, connects_at, starts_at, stops_at: None }
    }

    /// The writes of the application if this is flow number `flow` of a host, whether or not its connection comes up.
    #[must_use]
    pub fn source(&self, node: NodeId, seed: u64, flow: usize) -> Source {
        let name = format!("tcp host {}/flow {flow}", node.0);
        Source::new(&self.workload, seed, &name, self.starts_at, self.stops_at)
    }
}

impl TcpHost {
    /// Creates a host without connections. Its workloads are derived from the simulation's seed and the host's place in
    /// the topology.
    #[must_use]
    pub fn new(node: NodeId, seed: u64) -> Self {
        Self {
            node,
            seed,
            accepts: None,
            is_logging: false,
            wake_up: Duration::ZERO,
            flows: Vec::new(),
            connections: Vec::new(),
            free: Vec::new(),
            by_ports: BTreeMap::new(),
            agenda: Agenda::default(),
            ready: VecDeque::new(),
            replies: VecDeque::new(),
            next_port: CLIENT_PORTS.start,
            totals: TcpTotals::default(),
        }
    }

    /// Logs the data that [`observe`] needs.
    #[must_use]
    pub fn logging(mut self) -> Self {
        self.is_logging = true;
        self
    }

    /// Sets the time between room in the send buffer and the write of an application that waited for it: the machine's
    /// time to wake it.
    #[must_use]
    pub fn waking_after(mut self, delay: Duration) -> Self {
        self.wake_up = delay;
        self
    }

    /// Accepts connections on [`TCP_PORT`]; they receive, and close when the peer has.
    #[must_use]
    pub fn listening(mut self, config: TcpConfig) -> Self {
        self.accepts = Some(config);
        self
    }

    /// Adds a flow. Flows are numbered in this order.
    #[must_use]
    pub fn with_sender(mut self, sender: TcpSender) -> Self {
        let index = self.flows.len();
        let source = sender.source(self.node, self.seed, index);
        let opens_per_write = sender.workload.is_transfer_per_write();
        let opens_at = if opens_per_write { source.next_at() } else { Some(sender.connects_at) };
        let (transfers, writes) = if opens_per_write { (Some(source), None) } else { (None, Some(source)) };
        self.flows.push(Flow { sender, transfers, connection: None, writes });
        self.agenda.add(opens_at, Slot::Flow(index));
        self
    }

    /// The host's place in the topology.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn totals(&self) -> TcpTotals {
        self.totals
    }

    /// The counters of a flow's connection; `None` if there is no such flow or its connection is not open.
    #[must_use]
    pub fn counters(&self, flow: usize) -> Option<TcpCounters> {
        self.connection_of(flow).map(Connection::counters)
    }

    /// The congestion window of a flow's connection, in bytes; `None` if there is no such flow or its connection is not open.
    #[must_use]
    pub fn cwnd_bytes(&self, flow: usize) -> Option<u64> {
        self.connection_of(flow).map(Connection::cwnd_bytes)
    }

    fn connection_of(&self, flow: usize) -> Option<&Connection> {
        self.connections.get(self.flows.get(flow)?.connection?)?.as_ref()
    }

    /// Opens the connections that a flow is due to open, and records when the next is due.
    fn open_due(&mut self, now: Instant, index: usize) {
        let flow = &mut self.flows[index];
        let (peer, config) = (flow.sender.peer, flow.sender.config);
        if let Some(source) = flow.writes.take() {
            let opened = self.open(peer, config, Traffic::from_source(source, self.wake_up));
            self.flows[index].connection = opened;
            return;
        }
        let Some(source) = &mut flow.transfers else { return };
        let Some((due_at, write)) = source.take_due(now) else { return };
        // The next transfer of a mouse waits until this one is over.
        let follows_clock = source.trigger() == Trigger::Clock;
        let next_at = if follows_clock { source.next_at() } else { None };
        let ending = if follows_clock { Ending::Close } else { Ending::CloseThenNext { flow: index } };
        let opened = self.open(peer, config, Traffic::transfer(due_at, write.size.bytes(), ending));
        self.flows[index].connection = opened;
        self.agenda.add(next_at, Slot::Flow(index));
    }

    /// Opens a connection; `None` if no port is free.
    fn open(&mut self, peer: NodeId, config: TcpConfig, traffic: Traffic) -> Option<usize> {
        let ports = (0..CLIENT_PORTS.len()).find_map(|_| {
            let port = self.next_port;
            self.next_port = if port + 1 == CLIENT_PORTS.end { CLIENT_PORTS.start } else { port + 1 };
            (!self.by_ports.contains_key(&(peer, (port, TCP_PORT)))).then_some((port, TCP_PORT))
        })?;
        self.totals.opened += 1;
        Some(self.add(Connection::client(peer, ports, config, traffic, self.is_logging)))
    }

    fn add(&mut self, connection: Connection) -> usize {
        let key = (connection.peer(), connection.ports());
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.connections[index] = Some(connection);
        self.by_ports.insert(key, index);
        self.ready.push_back(index);
        index
    }

    /// Updates the deadline of a connection that has sent all its segments, or removes the connection.
    fn settle(&mut self, now: Instant, index: usize) {
        let Some(connection) = &mut self.connections[index] else { return };
        self.totals.bytes_received += connection.take_received();
        let is_over = connection.is_over();
        let (old, new) = connection.move_deadline();
        self.agenda.shift(Slot::Connection(index), old, new.filter(|_| !is_over));
        if !is_over {
            return;
        }
        if let Some(flow) = connection.next_transfer_of() {
            self.agenda.add(Some(now), Slot::Flow(flow));
        }
        let counter = if connection.has_failed() { &mut self.totals.failed } else { &mut self.totals.finished };
        *counter += 1;
        self.by_ports.remove(&(connection.peer(), connection.ports()));
        self.connections[index] = None;
        self.free.push(index);
    }

    /// A segment for no connection: opens one, or is a FIN whose acknowledgement got lost (the part of TIME-WAIT that matters).
    fn handle_stray(&mut self, now: Instant, packet: &Packet, tcp: &TcpPacket) {
        let ports = (tcp.destination_port, tcp.source_port);
        let segment = segment_of(packet, tcp);
        if let Some(config) = self.accepts.filter(|_| segment.flags.syn && !segment.flags.ack && ports.0 == TCP_PORT) {
            let mut connection = Connection::server(packet.source, ports, config, self.is_logging);
            connection.handle_segment(now, packet.serial, &segment);
            self.add(connection);
        } else if segment.flags.fin {
            let answer = Segment {
                sequence: segment.ack,
                length_bytes: 0,
                flags: Flags { ack: true, ..Flags::default() },
                ack: segment.end(),
                ecn: EcnCodepoint::NotCapable,
                ..segment
            };
            // No log needs the serial of an answer.
            self.replies.push_back(connection::packet(self.node, packet.source, ports, 0, answer));
        }
    }
}

impl Node<Packet> for TcpHost {
    fn handle_packet(&mut self, now: Instant, packet: Packet) {
        let Payload::Tcp(tcp) = &packet.payload else { return };
        if tcp.is_corrupted {
            return;
        }
        let key = (packet.source, (tcp.destination_port, tcp.source_port));
        let index = self.by_ports.get(&key).copied();
        match index.and_then(|index| Some((index, self.connections[index].as_mut()?))) {
            Some((index, connection)) => {
                connection.handle_segment(now, packet.serial, &segment_of(&packet, tcp));
                self.ready.push_back(index);
            }
            None => self.handle_stray(now, &packet, tcp),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        // Each due connection acts once; its new deadline is requested when it has sent all its pending segments.
        while let Some(slot) = self.agenda.pop_due(now) {
            match slot {
                Slot::Flow(index) => self.open_due(now, index),
                Slot::Connection(index) => {
                    if let Some(connection) = &mut self.connections[index] {
                        connection.handle_timeout(now);
                        self.ready.push_back(index);
                    }
                }
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        if let Some(reply) = self.replies.pop_front() {
            return Some(reply);
        }
        while let Some(&index) = self.ready.front() {
            let connection = self.connections[index].as_mut();
            if let Some(packet) = connection.and_then(|connection| connection.poll_transmit(now, self.node)) {
                return Some(packet);
            }
            self.ready.pop_front();
            self.settle(now, index);
        }
        None
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.agenda.earliest()
    }
}

/// The segment with the ECN field that the network left in the IP header.
fn segment_of(packet: &Packet, tcp: &TcpPacket) -> Segment {
    Segment { ecn: packet.ecn, ..tcp.segment }
}
