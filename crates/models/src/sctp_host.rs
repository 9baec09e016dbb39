//! The shipped SCTP core as a host of the simulator: many associations, each with a workload to send or as the receiver of one.
//!
//! The core is not modelled: every packet is the bytes that [`festina_sctp::Association`] wrote. The host adds the
//! demultiplexing that an endpoint does, the application that writes, and, if `Config::message_events` is set, a log of
//! every transmission and arrival, from which [`observe`] determines the fate of each message and whether each
//! retransmission was needed.

mod connection;
mod delivery;
mod truth;

pub use connection::Received;
pub use delivery::{Delivery, Important};
pub use truth::{AssociationRecord, CompanionDelivery, companion_deliveries, observe};

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use festina_netsim::{Node, NodeId, RandomStream};
use festina_sctp::wire;
use festina_sctp::{Config, ConfigError, Context, Incoming, Listener, Ports, Stats};
use festina_units::{EcnCodepoint, Instant};

use crate::agenda::Agenda;
use crate::packet::{Packet, Payload};
use crate::workload::{Source, Workload};
use connection::{Companion, Connection, Traffic};
use delivery::Deliveries;

/// The SCTP port on which a host listens.
pub const SCTP_PORT: u16 = 5000;
/// The stream of an association's second application, [`SctpSender::companion`]; all else is sent on stream 0.
pub const COMPANION_STREAM: u16 = 1;
/// The first port of associations that a host begins.
const CLIENT_PORT_FIRST: u16 = 10_000;

/// A host with one or many SCTP associations.
#[derive(Debug)]
pub struct SctpHost {
    node: NodeId,
    seed: u64,
    context: Arc<Context>,
    listener: Listener,
    connections: Vec<Connection>,
    /// Payload of the largest message; each message is a slice of it.
    zeros: Bytes,
    by_tag: BTreeMap<u32, usize>,
    by_ports: BTreeMap<(NodeId, PortPair), usize>,
    /// Deadlines of the connections.
    agenda: Agenda<usize>,
    /// Connections that may have packets to send, in the order in which they got them.
    ready: VecDeque<usize>,
    /// Answers to packets that belong to no association.
    replies: VecDeque<Packet>,
    /// Serial of the next answer, counted separately because no log needs it.
    reply_serial: u64,
}

/// Local and peer port.
type PortPair = (u16, u16);

/// An association to begin, and what to send over it. The association carries every write, also of workloads whose published set-up
/// opens a connection for each ([`Workload::is_transfer_per_write`]); use TCP for those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SctpSender {
    /// The host to talk to; it must [`listen`](SctpHost::listening).
    pub peer: NodeId,
    /// The workload of the application.
    pub workload: Workload,
    /// When the handshake begins.
    pub connects_at: Instant,
    /// When the workload begins; messages written before the handshake is done wait.
    pub starts_at: Instant,
    /// When the application stops writing.
    pub stops_at: Option<Instant>,
    /// Larger writes are divided into messages of this size; at most the core's `limits.message_bytes_max`.
    pub message_bytes_max: usize,
    /// How the messages of the workload are to be delivered. A message is a write or a part of one, and each has a lifetime of its own.
    pub delivery: Delivery,
    /// Which messages are important, in the order in which they are written, if [`delivery`](Self::delivery) has important ones. Messages beyond
    /// the list are drawn at random, and all of them if there is no list.
    pub important: Option<Arc<[bool]>>,
    /// Workload of a second application on the same association, with the same start and end: ordered messages on a
    /// stream of their own, [`COMPANION_STREAM`]. If both applications may write, the second writes first; where
    /// streams have priorities, it is also sent first. [`companion_deliveries`] reports the fate of its messages.
    pub companion: Option<Workload>,
    /// Number of an earlier association of the same host whose path state seeds this one, like the destination cache of
    /// an endpoint.
    pub knows_from: Option<usize>,
}

impl SctpSender {
    /// Creates a sender whose workload starts one second after the start of the simulation and has no end. The
    /// association is set up at once. Writes above 1,200 bytes become several messages.
    #[must_use]
    pub fn new(peer: NodeId, workload: Workload) -> Self {
        Self {
            peer,
            workload,
            connects_at: Instant::ZERO,
            starts_at: Instant::from_secs(1),
            stops_at: None,
            message_bytes_max: 1_200,
            delivery: Delivery::default(),
            important: None,
            companion: None,
            knows_from: None,
        }
    }

    /// The writes of the application if this is association number `association` of a host, whether or not it comes up.
    #[must_use]
    pub fn source(&self, node: NodeId, seed: u64, association: usize) -> Source {
        Source::new(&self.workload, seed, &name_of(node, association), self.starts_at, self.stops_at)
    }
}

impl SctpHost {
    /// Creates a host without associations. Its secret, tags and workloads are derived from the simulation's seed and
    /// the host's place in the topology. `config.message_events` decides whether the host logs the data for
    /// [`observe`].
    ///
    /// # Errors
    /// A setting of the core is out of range.
    pub fn new(node: NodeId, seed: u64, config: Config) -> Result<Self, ConfigError> {
        let mut random = RandomStream::new(seed, &format!("sctp host {}", node.0));
        let mut secret = [0; 16];
        for half in secret.as_chunks_mut::<8>().0 {
            *half = random.bits().to_le_bytes();
        }
        let zeros = Bytes::from(vec![0; config.limits.message_bytes_max.min(WRITE_BYTES_MAX)]);
        let context = Context::new(config, secret)?;
        Ok(Self {
            node,
            seed,
            listener: Listener::new(&context),
            context,
            connections: Vec::new(),
            zeros,
            by_tag: BTreeMap::new(),
            by_ports: BTreeMap::new(),
            agenda: Agenda::default(),
            ready: VecDeque::new(),
            replies: VecDeque::new(),
            reply_serial: 0,
        })
    }

    /// Accepts associations on [`SCTP_PORT`]; they receive.
    #[must_use]
    pub fn listening(mut self) -> Self {
        self.listener.listen(SCTP_PORT);
        self
    }

    /// Adds an association that sends. Associations are numbered in this order.
    ///
    /// # Panics
    /// Beyond 50,000 associations, for which there are no ports.
    #[must_use]
    pub fn with_sender(mut self, sender: &SctpSender) -> Self {
        let index = self.connections.len();
        let port = u16::try_from(index).ok().and_then(|index| CLIENT_PORT_FIRST.checked_add(index));
        let ports = Ports { local: port.expect("at most 50,000 associations per host"), peer: SCTP_PORT };
        let name = name_of(self.node, index);
        let source = sender.source(self.node, self.seed, index);
        let message_bytes_max = sender.message_bytes_max.clamp(1, self.zeros.len());
        let zeros = self.zeros.slice(..message_bytes_max);
        let companion = sender.companion.as_ref().map(|workload| {
            let name = format!("{name}/companion");
            let source = Source::new(workload, self.seed, &name, sender.starts_at, sender.stops_at);
            Companion::new(Traffic::new(source, zeros.clone(), Deliveries::new(Delivery::default(), self.seed, &name)))
        });
        let deliveries = Deliveries::new(sender.delivery, self.seed, &name).listed(sender.important.clone());
        let traffic = Traffic::new(source, zeros, deliveries);
        let is_logging = self.context.config().message_events;
        let mut connection = Connection::to_begin(sender.peer, ports, sender.connects_at, traffic, is_logging);
        connection.companion = companion;
        connection.knows_from = sender.knows_from;
        self.by_ports.insert((sender.peer, (ports.local, ports.peer)), index);
        self.connections.push(connection);
        self.reschedule(index);
        self
    }

    /// The host's place in the topology.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Returns the number of associations, including ended ones and those not set up yet.
    #[must_use]
    pub fn association_count(&self) -> usize {
        self.connections.len()
    }

    /// The core's counters of an association; `None` if it does not exist or has not begun.
    #[must_use]
    pub fn stats(&self, association: usize) -> Option<Stats> {
        self.connections.get(association)?.stats()
    }

    /// Payload bytes and messages that arrived over an association so far; zero if it does not exist.
    #[must_use]
    pub fn received(&self, association: usize) -> Received {
        self.connections.get(association).map_or_else(Received::default, Connection::received)
    }

    fn connection_of(&self, from: NodeId, packet: &[u8]) -> Option<usize> {
        let header = wire::Packet::peek(packet).ok()?;
        let ports = (header.destination_port, header.source_port);
        let by_tag = self.by_tag.get(&header.verification_tag);
        by_tag.or_else(|| self.by_ports.get(&(from, ports))).copied()
    }

    /// Gives a packet that belongs to no association to the listener.
    fn handle_stray(&mut self, now: Instant, from: NodeId, serial: u64, bytes: &Bytes) {
        let mut reply = Vec::new();
        let Self { listener, by_tag, .. } = self;
        match listener.handle_packet(now, address(from), bytes, &|tag| by_tag.contains_key(&tag), &mut reply) {
            Incoming::Reply => {
                let payload = Payload::Sctp(Bytes::from(reply));
                let flow = listener_flow(self.node);
                let packet = Packet {
                    source: self.node,
                    destination: from,
                    flow,
                    serial: self.reply_serial,
                    ecn: EcnCodepoint::NotCapable,
                    payload,
                };
                self.reply_serial += 1;
                self.replies.push_back(packet);
            }
            Incoming::Accepted(association) => {
                let index = self.connections.len();
                let is_logging = self.context.config().message_events;
                let ports = association.ports();
                self.by_tag.insert(association.local_tag(), index);
                self.by_ports.insert((from, (ports.local, ports.peer)), index);
                let mut connection = Connection::accepted(from, association, is_logging);
                connection.note_arrival(now, serial);
                connection.digest(now);
                self.connections.push(connection);
                self.ready.push_back(index);
            }
            _ => {}
        }
    }

    /// Brings the agenda up to date after a connection has changed.
    fn reschedule(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let (old, new) = connection.move_deadline();
        self.agenda.shift(index, old, new);
    }
}

impl Node<Packet> for SctpHost {
    fn handle_packet(&mut self, now: Instant, packet: Packet) {
        let Payload::Sctp(bytes) = &packet.payload else { return };
        let known = self.connection_of(packet.source, bytes).filter(|&index| !self.connections[index].is_closed());
        match known {
            Some(index) => {
                // Answers of a listener are numbered separately, and no log needs them.
                let serial = (packet.flow != listener_flow(packet.source)).then_some(packet.serial);
                self.connections[index].handle_packet(now, serial, packet.ecn, bytes);
                self.ready.push_back(index);
            }
            None => self.handle_stray(now, packet.source, packet.serial, bytes),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        // Each due connection acts once; its new deadline is read when it has sent all its packets.
        while let Some(index) = self.agenda.pop_due(now) {
            let teacher = self.connections[index].knows_from.and_then(|teacher| self.connections.get(teacher));
            let known = teacher.and_then(|teacher| teacher.path_knowledge(now));
            let connection = &mut self.connections[index];
            if let Some(tag) = connection.handle_timeout(now, &self.context, index, known.as_ref()) {
                self.by_tag.insert(tag, index);
            }
            self.ready.push_back(index);
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        if let Some(reply) = self.replies.pop_front() {
            return Some(reply);
        }
        while let Some(&index) = self.ready.front() {
            if let Some(packet) = self.connections[index].poll_transmit(now, self.node) {
                return Some(packet);
            }
            self.ready.pop_front();
            self.reschedule(index);
        }
        None
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.agenda.earliest()
    }
}

/// The flow of the answers that belong to no association.
fn listener_flow(node: NodeId) -> u64 {
    u64::from(node.0) << 32
}

/// The name of an association's random numbers.
fn name_of(node: NodeId, association: usize) -> String {
    format!("sctp host {}/association {association}", node.0)
}

/// The address by which the core knows a host.
fn address(node: NodeId) -> SocketAddr {
    let [_, high, middle, low] = node.0.saturating_add(1).to_be_bytes();
    SocketAddr::from((Ipv4Addr::new(10, high, middle, low), ENCAPSULATION_PORT))
}

/// The core needs socket addresses; the model carries SCTP directly over IP, so the port has no meaning.
const ENCAPSULATION_PORT: u16 = 9899;
/// Maximum number of bytes written as one message.
const WRITE_BYTES_MAX: usize = 1 << 27;
