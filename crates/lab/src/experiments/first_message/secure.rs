//! Hosts whose associations are encrypted, by the layer that ships: real TLS and real packets.
//!
//! The key shares of TLS come from the operating system, so the bytes of packets differ from run to run. Nothing else does: signatures
//! (Ed25519), tickets and all other fields have constant lengths, connection IDs and all random numbers of the core come from the
//! seed, and no decision of either end depends on an encrypted byte.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use festina_models::agenda::Agenda;
use festina_models::packet::{Packet, Payload};
use festina_netsim::{Node, NodeId, RandomStream};
use festina_sctp::{Config, Context, Message, Ports};
use festina_secure::wire::{ConnectionId, destination_id};
use festina_secure::{Incoming, Listener, OVERHEAD_BYTES, SecureAssociation};
use festina_units::{Duration, Instant};

use super::credentials::{Credentials, random_bytes};

/// Where the peer seems to be: each host has one.
pub(super) const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9_899));
/// All associations have the same: connection IDs tell them apart.
pub(super) const PORTS: Ports = Ports { local: 5_001, peer: 5_000 };

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
    role: Role,
    slots: Vec<Slot>,
    by_id: BTreeMap<ConnectionId, usize>,
    /// Deadlines of the associations.
    agenda: Agenda<usize>,
    /// Those that may have packets to send.
    ready: VecDeque<usize>,
    buffer: Vec<u8>,
}

enum Role {
    Client {
        credentials: Arc<Credentials>,
        resumes: bool,
        knows: bool,
    },
    /// With the first delivery of each association, by the connection ID that its client chose.
    Server {
        listener: Box<Listener>,
        delivered: BTreeMap<ConnectionId, Instant>,
    },
}

/// An association, and on a client its application.
struct Slot {
    association: Option<Box<SecureAssociation>>,
    /// The connection ID that the client chose for the server.
    original: Option<ConnectionId>,
    begun_at: Instant,
    writing: Writing,
    packets_sent: u64,
    deadline: Option<Instant>,
}

const NO_WRITING: Writing = Writing { next_at: None, every: None, bytes: 0 };

impl SecureHost {
    fn new(
        node: NodeId,
        peer: NodeId,
        seed: u64,
        config: &Config,
        role: impl FnOnce(&Arc<Context>, &mut RandomStream) -> Role,
    ) -> Self {
        let mut config = config.clone();
        config.limits.packet_bytes_max -= OVERHEAD_BYTES;
        config.message_events = false;
        let mut random = RandomStream::new(seed, &format!("secure host {}", node.0));
        let context = Context::new(config, random_bytes(&mut random)).expect("the settings are within their ranges");
        let role = role(&context, &mut random);
        Self {
            node,
            peer,
            context,
            random,
            role,
            slots: Vec::new(),
            by_id: BTreeMap::new(),
            agenda: Agenda::default(),
            ready: VecDeque::new(),
            buffer: Vec::new(),
        }
    }

    /// A client. With `resumes`, each association resumes a session and sends its first message with the hello. With `knows`, each but the
    /// first begins with the path state of the first.
    pub(super) fn client(
        [node, peer]: [NodeId; 2],
        seed: u64,
        config: &Config,
        credentials: &Arc<Credentials>,
        (resumes, knows): (bool, bool),
    ) -> Self {
        let credentials = Arc::clone(credentials);
        Self::new(node, peer, seed, config, |_, _| Role::Client { credentials, resumes, knows })
    }

    /// A server that admits everyone.
    pub(super) fn server([node, peer]: [NodeId; 2], seed: u64, config: &Config, credentials: &Credentials) -> Self {
        Self::new(node, peer, seed, config, |context, random| {
            let listener = credentials.listener(context, random).expect("the settings are those of TLS 1.3");
            Role::Server { listener: Box::new(listener), delivered: BTreeMap::new() }
        })
    }

    /// Adds an association to begin.
    #[must_use]
    pub(super) fn with_writing(mut self, writing: Writing) -> Self {
        self.add(Instant::ZERO, None, None, writing);
        self
    }

    fn add(
        &mut self,
        begun_at: Instant,
        association: Option<Box<SecureAssociation>>,
        original: Option<ConnectionId>,
        writing: Writing,
    ) -> usize {
        let index = self.slots.len();
        self.slots.push(Slot { association, original, begun_at, writing, packets_sent: 0, deadline: None });
        self.reschedule(index);
        index
    }

    /// The delay from `connect` to the delivery for each association that writes a single message, in the order in which they were added. `None`
    /// if it was not delivered. `self` is the client.
    pub(super) fn delays(&self, server: &Self) -> Vec<Option<Duration>> {
        let Role::Server { delivered, .. } = &server.role else { return Vec::new() };
        let openings = self.slots.iter().filter(|slot| slot.writing.every.is_none());
        openings.map(|slot| Some(*delivered.get(slot.original.as_ref()?)? - slot.begun_at)).collect()
    }

    /// Begins the association of a client, if it has not begun, and writes the messages that are due.
    fn write_due(&mut self, now: Instant, index: usize) {
        let Role::Client { credentials, resumes, knows } = &self.role else { return };
        if self.slots[index].writing.next_at.is_none_or(|at| at > now) {
            return;
        }
        if self.slots[index].association.is_none() {
            if *resumes {
                credentials.meet(now, &self.context, &mut self.random);
            }
            let teacher = self.slots[0].association.as_ref().filter(|_| *knows);
            let known = teacher.and_then(|teacher| teacher.association()?.path_knowledge(now));
            let (association, original) = credentials.connect(now, &self.context, &mut self.random, known);
            self.by_id.insert(association.id(), index);
            let slot = &mut self.slots[index];
            (slot.association, slot.original, slot.begun_at) = (Some(Box::new(association)), Some(original), now);
        }
        let Slot { association: Some(association), writing, .. } = &mut self.slots[index] else { return };
        while let Some(at) = writing.next_at.filter(|&at| at <= now) {
            let message = Message::new(vec![0; writing.bytes]);
            // A session that allows it is there only if the client resumes.
            if let Err(message) = association.send_early(message) {
                association.send(now, message).expect("the send buffer has room");
            }
            writing.next_at = writing.every.map(|(pause, _)| at + pause);
            writing.next_at = writing.next_at.filter(|&next| writing.every.is_some_and(|(_, end)| next < end));
        }
    }

    /// Admits a client, and takes messages and events.
    fn attend(&mut self, now: Instant, index: usize) {
        let Slot { association: Some(association), original, .. } = &mut self.slots[index] else { return };
        association.admit(now);
        let mut messages = std::iter::from_fn(|| association.poll_early()).count();
        messages += std::iter::from_fn(|| association.poll_message()).count();
        while association.poll_event().is_some() {}
        if messages > 0
            && let (Role::Server { delivered, .. }, Some(original)) = (&mut self.role, *original)
        {
            delivered.entry(original).or_insert(now);
        }
    }

    /// Gives a datagram of no association to the listener.
    fn listen(&mut self, now: Instant, datagram: BytesMut) {
        let Role::Server { listener, .. } = &mut self.role else { return };
        // It answers only other versions, and clients that have to prove their address.
        let incoming = listener.handle_datagram(now, ADDRESS, datagram, 0, &mut Vec::new());
        if let Incoming::HalfOpen(association) = incoming {
            let (local, original) = (association.id(), association.origin().map(|(id, _)| id));
            let index = self.add(now, Some(association), original, NO_WRITING);
            self.by_id.extend([Some(local), original].into_iter().flatten().map(|id| (id, index)));
            self.attend(now, index);
            self.ready.push_back(index);
        }
    }

    /// Brings the agenda up to date after an association has changed.
    fn reschedule(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let timer = slot.association.as_ref().and_then(|association| association.poll_deadline());
        let new = Instant::earliest([timer, slot.writing.next_at]);
        let old = std::mem::replace(&mut slot.deadline, new);
        self.agenda.shift(index, old, new);
    }
}

impl Node<Packet> for SecureHost {
    fn handle_packet(&mut self, now: Instant, packet: Packet) {
        let Payload::Secure(bytes) = packet.payload else { return };
        let datagram = BytesMut::from(&bytes[..]);
        let known = destination_id(&datagram).ok().and_then(|id| self.by_id.get(&id).copied());
        let association = known.and_then(|index| self.slots[index].association.as_mut().map(|found| (index, found)));
        // A half-open one is forgotten after 30 s, and its client's next hello makes another.
        match association.filter(|(_, association)| !association.is_finished(now)) {
            Some((index, association)) => {
                // The core and the channel count dropped packets themselves.
                drop(association.handle_datagram(now, ADDRESS, packet.ecn, datagram));
                self.attend(now, index);
                self.ready.push_back(index);
            }
            None => self.listen(now, datagram),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(index) = self.agenda.pop_due(now) {
            self.slots[index].deadline = None;
            if let Some(association) = &mut self.slots[index].association {
                association.handle_timeout(now);
            }
            self.write_due(now, index);
            self.attend(now, index);
            self.ready.push_back(index);
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        while let Some(&index) = self.ready.front() {
            self.buffer.clear();
            let slot = &mut self.slots[index];
            let transmit = slot.association.as_mut().and_then(|found| found.poll_transmit(now, &mut self.buffer));
            if let Some(transmit) = transmit {
                let serial = slot.packets_sent;
                slot.packets_sent += 1;
                self.attend(now, index);
                return Some(Packet {
                    source: self.node,
                    destination: self.peer,
                    flow: u64::from(self.node.0) << 32 | index as u64,
                    serial,
                    ecn: transmit.ecn,
                    payload: Payload::Secure(Bytes::copy_from_slice(&self.buffer)),
                });
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
