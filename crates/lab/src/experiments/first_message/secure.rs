//! Hosts whose associations are encrypted, by the endpoint that ships: real TLS and real packets.
//!
//! The key shares of TLS come from the operating system, so the bytes of packets differ from run to run. Nothing else does: signatures
//! (Ed25519), tickets and all other fields have constant lengths, connection IDs and all random numbers of the core come from the
//! seed, and no decision of either end depends on an encrypted byte.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use festina_endpoint::endpoint::{AssociationId, EndpointEvent, Setup};
use festina_endpoint::{Channel, Datagram, Endpoint, Protocols};
use festina_models::agenda::Agenda;
use festina_models::packet::{Packet, Payload};
use festina_netsim::{Node, NodeId, RandomStream};
use festina_sctp::{Config, Context, Message, Ports};
use festina_secure::OVERHEAD_BYTES;
use festina_secure::wire::ConnectionId;
use festina_units::{Duration, Instant};

use super::credentials::{Credentials, random_bytes};

/// Where the peer seems to be: each host has one.
pub(super) const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9_899));
/// The SCTP port of the server.
pub(super) const PORT: u16 = 5_000;
/// The SCTP port of the client's first association; each has its own.
pub(super) const FIRST_PORT: u16 = 5_001;

/// When a client's application writes messages. Its association begins with the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writing {
    pub(super) next_at: Option<Instant>,
    /// Pause between messages, and when the last is written; `None` for a single one.
    pub(super) every: Option<(Duration, Instant)>,
    pub(super) bytes: usize,
}

/// A host with encrypted associations.
pub(super) struct SecureHost {
    node: NodeId,
    peer: NodeId,
    context: Arc<Context>,
    random: RandomStream,
    endpoint: Endpoint,
    now: Instant,
    role: Role,
    packets_sent: u64,
    buffer: Vec<u8>,
}

enum Role {
    Client {
        credentials: Arc<Credentials>,
        resumes: bool,
        knows: bool,
        slots: Vec<Slot>,
        /// When their applications write.
        agenda: Agenda<usize>,
    },
    /// With the first delivery of each association, by the connection ID that its client chose.
    Server { delivered: BTreeMap<ConnectionId, Instant> },
}

/// An association of a client, and its application.
struct Slot {
    association: Option<AssociationId>,
    /// The connection ID that the client chose for the server.
    original: Option<ConnectionId>,
    begun_at: Instant,
    writing: Writing,
}

impl SecureHost {
    fn new(
        [node, peer]: [NodeId; 2],
        seed: u64,
        config: &Config,
        role: Role,
        credentials: Option<&Credentials>,
    ) -> Self {
        let mut config = config.clone();
        config.limits.packet_bytes_max -= OVERHEAD_BYTES;
        config.message_events = false;
        let mut random = RandomStream::new(seed, &format!("secure host {}", node.0));
        let context = Context::new(config, random_bytes(&mut random)).expect("the settings are within their ranges");
        let listener = credentials
            .map(|credentials| credentials.listener(&context, &mut random).expect("the settings are those of TLS 1.3"));
        // Handshakes take no time here.
        let cpu_time = || Duration::ZERO;
        let protocols = Protocols::Encrypted;
        let setup = Setup { context: Arc::clone(&context), protocols, listener, secret: [0; 16], cpu_time };
        let mut endpoint = Endpoint::new(setup);
        endpoint.listen(PORT).expect("it is not port 0");
        endpoint.tell_early();
        Self { node, peer, context, random, endpoint, now: Instant::ZERO, role, packets_sent: 0, buffer: Vec::new() }
    }

    /// A client. With `resumes`, each association resumes a session and sends its first message with the hello. With `knows`, each but the
    /// first begins with the path state of the first.
    pub(super) fn client(
        ends: [NodeId; 2],
        seed: u64,
        config: &Config,
        credentials: &Arc<Credentials>,
        (resumes, knows): (bool, bool),
    ) -> Self {
        let credentials = Arc::clone(credentials);
        let role = Role::Client { credentials, resumes, knows, slots: Vec::new(), agenda: Agenda::default() };
        Self::new(ends, seed, config, role, None)
    }

    /// A server that admits everyone.
    pub(super) fn server(ends: [NodeId; 2], seed: u64, config: &Config, credentials: &Credentials) -> Self {
        Self::new(ends, seed, config, Role::Server { delivered: BTreeMap::new() }, Some(credentials))
    }

    /// Adds an association to begin.
    #[must_use]
    pub(super) fn with_writing(mut self, writing: Writing) -> Self {
        if let Role::Client { slots, agenda, .. } = &mut self.role {
            agenda.add(writing.next_at, slots.len());
            slots.push(Slot { association: None, original: None, begun_at: Instant::ZERO, writing });
        }
        self
    }

    /// The delay from `connect` to the delivery for each association that writes a single message, in the order in which they were added. `None`
    /// if it was not delivered. `self` is the client.
    pub(super) fn delays(&self, server: &Self) -> Vec<Option<Duration>> {
        let (Role::Client { slots, .. }, Role::Server { delivered }) = (&self.role, &server.role) else {
            return Vec::new();
        };
        let openings = slots.iter().filter(|slot| slot.writing.every.is_none());
        openings.map(|slot| Some(*delivered.get(slot.original.as_ref()?)? - slot.begun_at)).collect()
    }

    /// Begins the associations of a client that have not begun, and writes the messages that are due.
    fn write_due(&mut self, now: Instant) {
        let Role::Client { credentials, resumes, knows, slots, agenda } = &mut self.role else { return };
        while let Some(index) = agenda.pop_due(now) {
            if slots[index].association.is_none() {
                if *resumes {
                    credentials.meet(now, &self.context, &mut self.random);
                }
                let teacher = slots[0].association.filter(|_| *knows);
                let known = teacher.and_then(|teacher| self.endpoint.association(teacher)?.path_knowledge(now));
                let random = random_bytes(&mut self.random);
                let (_, original) = random.split_last_chunk().expect("an ID has fewer bytes");
                let local = u16::try_from(index).ok().and_then(|index| FIRST_PORT.checked_add(index));
                let ports = Ports { local: local.expect("a port for each association"), peer: PORT };
                let begun = self.endpoint.connect(now, credentials.request(random, ports, known.as_ref()));
                let slot = &mut slots[index];
                slot.association = Some(begun.expect("there is room, and the settings are those of TLS 1.3"));
                (slot.original, slot.begun_at) = (Some(ConnectionId(*original)), now);
            }
            let Slot { association: Some(association), writing, .. } = &mut slots[index] else { continue };
            while let Some(at) = writing.next_at.filter(|&at| at <= now) {
                let message = Message::new(vec![0; writing.bytes]);
                self.endpoint.change(*association, |core| {
                    // A session that allows it is there only if the client resumes.
                    let early = core.secure_mut().map(|secure| secure.channel_mut().send_early(message));
                    if let Some(Err(message)) = early {
                        core.send(now, message).expect("the send buffer has room");
                    }
                });
                writing.next_at = writing.every.map(|(pause, _)| at + pause);
                writing.next_at = writing.next_at.filter(|&next| writing.every.is_some_and(|(_, end)| next < end));
            }
            agenda.add(writing.next_at, index);
        }
    }

    /// Takes messages and events. Returns whether there were any.
    fn attend(&mut self, now: Instant) -> bool {
        let mut is_busy = false;
        while let Some(event) = self.endpoint.poll_event() {
            is_busy = true;
            let first = match event {
                EndpointEvent::Early((original, _), _) => Some(original),
                EndpointEvent::Accepted(id) | EndpointEvent::Association(id, _) => {
                    self.endpoint.accept(PORT);
                    let messages = std::iter::from_fn(|| self.endpoint.poll_message(id)).count();
                    let origin = self.endpoint.association(id).and_then(Channel::origin);
                    origin.filter(|_| messages > 0).map(|(original, _)| original)
                }
                _ => None,
            };
            if let (Role::Server { delivered }, Some(original)) = (&mut self.role, first) {
                delivered.entry(original).or_insert(now);
            }
        }
        is_busy
    }
}

impl Node<Packet> for SecureHost {
    fn handle_packet(&mut self, now: Instant, packet: Packet) {
        self.now = now;
        let Payload::Secure(bytes) = packet.payload else { return };
        let packet = Datagram { from: ADDRESS, source: None, ecn: packet.ecn, packet: BytesMut::from(&bytes[..]) };
        self.endpoint.handle_datagram(now, packet);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.endpoint.handle_timeout(now);
        self.write_due(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        loop {
            self.buffer.clear();
            if let Some((transmit, _)) = self.endpoint.poll_transmit(now, &mut self.buffer) {
                let serial = self.packets_sent;
                self.packets_sent += 1;
                return Some(Packet {
                    source: self.node,
                    destination: self.peer,
                    flow: self.node.0.into(),
                    serial,
                    ecn: transmit.ecn,
                    payload: Payload::Secure(Bytes::copy_from_slice(&self.buffer)),
                });
            }
            if !self.attend(now) {
                return None;
            }
        }
    }

    fn poll_deadline(&self) -> Option<Instant> {
        let writing = match &self.role {
            Role::Client { agenda, .. } => agenda.earliest(),
            Role::Server { .. } => None,
        };
        Instant::earliest([writing, self.endpoint.poll_deadline(self.now)])
    }
}
