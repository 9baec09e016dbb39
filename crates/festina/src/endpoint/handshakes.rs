//! Handshakes of strangers with an encrypted endpoint.
//!
//! TLS costs a server about 100 µs per client, so the endpoint runs few handshakes in one turn of the driver, between which packets of associations
//! are received, and a bounded number per second. No lock is held meanwhile. Packets of handshakes that have begun and hellos wait in two short
//! queues, which take turns. Beyond the limits the listener answers hellos by a retry without state, so that clients prove their addresses.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use festina_sctp::{self as sctp, Message, Transmit};
use festina_secure::wire::{ConnectionId, Header, LongHeader, destination_id, is_short, read_header};
use festina_secure::{Incoming, Listener, Path, SecureAssociation};
use festina_units::{EcnCodepoint, Instant};

use super::accept::Place;
use super::demux::{Origin, network};
use super::driver::Datagram;
use super::options::Request;
use super::outbox::Outbox;
use super::requests::Held;
use super::secure::Verdict;
use super::shared::Shared;
use super::strays::{self, Allowance};
use crate::association::Secure;

/// Packets for which TLS runs in one turn of the driver.
const TLS_PER_TURN: usize = 4;
/// Packets of strangers handled in one turn. During a flood, most cost a retry.
const HANDLED_PER_TURN: usize = 64;
/// Packets that wait for a later turn, in each of two queues.
const WAITING_MAX: usize = 256;
/// Half-open associations of one IPv4 address or IPv6 /64 network that have proved their address, so that few hosts cannot take all places.
const HALF_OPEN_PER_NETWORK_MAX: usize = 64;
/// The same for an IPv6 /48, which a site may have for itself (RFC 6177 §2).
const HALF_OPEN_PER_SITE_MAX: usize = 4 * HALF_OPEN_PER_NETWORK_MAX;
/// Datagrams handled for one half-open association, which is then forgotten: an attacker's cost little each, but without end. A client with a
/// certificate chain of 32 KiB needs 28, and sends them at most seven times within [`HALF_OPEN_LIFETIME`](festina_secure::HALF_OPEN_LIFETIME).
const DATAGRAMS_PER_HALF_OPEN_MAX: u16 = 256;
/// How many other strays are admitted for each handshake.
const STRAYS_PER_HANDSHAKE: u32 = 20;

/// The reason that a client of plain SCTP reports.
pub(super) const ENCRYPTED_ONLY: &[u8] = b"this endpoint speaks only encrypted associations";

/// Half-open associations and the packets for them.
#[derive(Debug)]
pub(super) struct Handshakes {
    /// `None` if the endpoint only connects.
    listener: Option<Listener>,
    half_open: HashMap<ConnectionId, HalfOpen>,
    /// By the ID that the client chose, and its address.
    by_origin: HashMap<Origin, ConnectionId>,
    /// Half-open associations by the client's networks, without those that have not proved their address.
    by_network: HashMap<Network, usize>,
    deadlines: BTreeSet<(Instant, ConnectionId)>,
    known: VecDeque<Datagram>,
    strangers: VecDeque<Datagram>,
    /// Handshakes whose requests the application has decided on.
    decided: VecDeque<ConnectionId>,
    /// The next packet is taken from `strangers` if one waits there, the one after it from `known`.
    is_strangers_turn: bool,
    allowance: Allowance,
    /// Stateless resets.
    resets: Allowance,
    /// One site gets half of the allowance, since handshakes that fail at once keep no places. 256 allowances, by a byte of a keyed hash.
    by_site: (RandomState, Box<[Allowance]>),
    /// The rest of the limits of a turn: packets for which TLS runs, and packets.
    left: (usize, usize),
}

/// A handshake that has begun.
#[derive(Debug)]
struct HalfOpen {
    association: SecureAssociation,
    origin: Option<Origin>,
    /// The client's networks, if the client has proved its address.
    networks: Option<[Network; 2]>,
    /// The request that waits for the application's decision.
    held: Option<Arc<Held>>,
    admitted: Option<Admitted>,
    early: VecDeque<Message>,
    deadline: Instant,
    /// Datagrams handled.
    datagrams: u16,
}

/// A request that was admitted.
#[derive(Debug)]
struct Admitted {
    request: Box<Request>,
    /// The SCTP port.
    port: u16,
    /// For the association, once it is complete.
    place: Place,
}

/// Addresses that one host may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Network {
    /// An IPv4 address or an IPv6 /64.
    Host(IpAddr),
    /// An IPv4 address or an IPv6 /48.
    Site(IpAddr),
}

impl Network {
    /// Both networks of an address.
    fn both(address: IpAddr) -> [Self; 2] {
        let host = network(address);
        let site = match host {
            IpAddr::V4(_) => host,
            IpAddr::V6(host) => Ipv6Addr::from_bits(host.to_bits() >> 80 << 80).into(),
        };
        [Self::Host(host), Self::Site(site)]
    }

    fn half_open_max(self) -> usize {
        match self {
            Self::Host(_) => HALF_OPEN_PER_NETWORK_MAX,
            Self::Site(_) => HALF_OPEN_PER_SITE_MAX,
        }
    }
}

impl Handshakes {
    pub(super) fn new(listener: Option<Listener>, strays_per_second_max: u32) -> Self {
        let per_second = (strays_per_second_max / STRAYS_PER_HANDSHAKE).max(1);
        let by_site = (0..=u8::MAX).map(|_| Allowance::new(per_second.div_ceil(2))).collect();
        Self {
            listener,
            half_open: HashMap::new(),
            by_origin: HashMap::new(),
            by_network: HashMap::new(),
            deadlines: BTreeSet::new(),
            known: VecDeque::new(),
            strangers: VecDeque::new(),
            decided: VecDeque::new(),
            is_strangers_turn: false,
            allowance: Allowance::new(per_second),
            resets: Allowance::new(per_second),
            by_site: (RandomState::new(), by_site),
            left: (TLS_PER_TURN, HANDLED_PER_TURN),
        }
    }

    /// A new turn of the driver.
    pub(super) fn begin_turn(&mut self) {
        self.left = (TLS_PER_TURN, HANDLED_PER_TURN);
    }

    /// The handshake that a packet belongs to.
    fn id_of(&self, from: SocketAddr, packet: &[u8]) -> Option<ConnectionId> {
        let id = match read_header(packet).ok()? {
            Header::Long(LongHeader { destination: id, .. }) => self.by_origin.get(&(id, from)).copied().unwrap_or(id),
            Header::Short(id) => id,
        };
        self.half_open.contains_key(&id).then_some(id)
    }

    /// Whether the packet belongs to a handshake that has begun, and may wait.
    pub(super) fn knows(&self, from: SocketAddr, packet: &[u8]) -> bool {
        self.known.len() < WAITING_MAX && self.id_of(from, packet).is_some()
    }

    /// Whether a packet of a stranger may wait.
    pub(super) fn has_room(&self) -> bool {
        self.strangers.len() < WAITING_MAX
    }

    pub(super) fn push(&mut self, datagram: Datagram) {
        if self.knows(datagram.from, &datagram.packet) {
            self.known.push_back(datagram);
        } else if self.has_room() {
            self.strangers.push_back(datagram);
        }
    }

    /// Whether packets wait for another turn.
    pub(super) fn is_waiting(&self) -> bool {
        !self.known.is_empty() || !self.strangers.is_empty() || !self.decided.is_empty()
    }

    /// When [`expire`](Self::expire) is to be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// The next packet to handle: neither queue can hold up the other.
    fn pop(&mut self) -> Option<Datagram> {
        self.is_strangers_turn = !self.is_strangers_turn;
        let (mut first, mut second) = (&mut self.strangers, &mut self.known);
        if self.is_strangers_turn {
            core::mem::swap(&mut first, &mut second);
        }
        first.pop_front().or_else(|| second.pop_front())
    }

    /// Handles packets that wait, as far as the turn allows. Returns the number of packets that had no effect.
    pub(super) fn handle(&mut self, now: Instant, shared: &Arc<Shared>, answers: &mut Outbox) -> usize {
        let mut dropped = 0;
        if !self.half_open.is_empty() {
            shared.take_decided(&mut self.decided);
        }
        while self.left.0 > 0
            && let Some(id) = self.decided.pop_front()
        {
            if let Some(half_open) = self.half_open.remove(&id) {
                self.left.0 -= 1;
                self.advance(now, id, half_open, shared, answers);
            }
        }
        while self.left.0 > 0 && self.left.1 > 0 {
            let Some(datagram) = self.pop() else { break };
            self.left.1 -= 1;
            // A packet before it may have completed the handshake, or it answers this side's hello in another protocol.
            let by_remote =
                || shared.find_by_remote(datagram.from).filter(|_| destination_id(&datagram.packet).is_err());
            if let Some(association) = shared.find_protected(datagram.from, &datagram.packet).or_else(by_remote) {
                dropped += association.handle_packets(now, std::iter::once(datagram));
                continue;
            }
            if answers.is_full() {
                strays::send(answers, &shared.socket);
            }
            dropped += usize::from(!self.handle_one(now, datagram, shared, answers));
        }
        dropped
    }

    /// Returns whether the packet had an effect.
    fn handle_one(&mut self, now: Instant, datagram: Datagram, shared: &Arc<Shared>, answers: &mut Outbox) -> bool {
        let Datagram { from, source, ecn, packet } = datagram;
        let path = Path { remote: from, local: source };
        let before = answers.buffer().len();
        let reply = |answers: &mut Outbox| {
            let len = answers.buffer().len() - before;
            let transmit = Transmit { destination: from, len, ecn: EcnCodepoint::NotCapable };
            answers.push(&transmit, source, shared.socket.segments_max());
            true
        };
        if let Some(id) = self.id_of(from, &packet) {
            let Some(mut half_open) = self.half_open.remove(&id) else { return false };
            let before = half_open.association.handshake_bytes_read();
            let result = half_open.association.handle_datagram(now, path, ecn, packet);
            self.left.0 -= usize::from(half_open.association.handshake_bytes_read() > before);
            half_open.datagrams += 1;
            self.advance(now, id, half_open, shared, answers);
            return result.is_ok();
        }
        let Some(listener) = &mut self.listener else { return false };
        // The ports of an INIT may look like the first bytes of a protected packet.
        let is_foreign = destination_id(&packet).is_err();
        if is_foreign && sctp::Listener::refuse_init(from, &packet, ENCRYPTED_ONLY, answers.buffer()) {
            return reply(answers);
        }
        // Resets cost no state, so one allowance for all is enough.
        if is_short(&packet) && !self.resets.take(now) {
            return false;
        }
        // Without an allowance the listener asks for a proof of the address, and takes none that has one.
        let networks = Network::both(from.ip());
        let has_room =
            |network: &Network| self.by_network.get(network).is_none_or(|count| *count < network.half_open_max());
        let (random, by_site) = &mut self.by_site;
        let [slot, ..] = random.hash_one(networks[1]).to_le_bytes();
        let site = &mut by_site[usize::from(slot)];
        let may_begin = networks.iter().all(has_room) && self.allowance.is_left(now) && site.is_left(now);
        let half_open = if may_begin { self.half_open.len() } else { usize::MAX };
        match listener.handle_datagram(now, path, packet, half_open, answers.buffer()) {
            Incoming::HalfOpen(association) => {
                self.left.0 -= 1;
                self.allowance.take(now);
                // Others can be blamed for hellos without a proof.
                if association.is_address_proved() {
                    site.take(now);
                }
                self.begin(now, *association, shared, answers);
                true
            }
            Incoming::Reply => reply(answers),
            _ => false,
        }
    }

    fn begin(&mut self, now: Instant, association: SecureAssociation, shared: &Arc<Shared>, answers: &mut Outbox) {
        let id = association.id();
        let origin = association.origin();
        if let Some(origin) = origin {
            self.by_origin.insert(origin, id);
        }
        let half_open = HalfOpen {
            association,
            origin,
            networks: None,
            held: None,
            admitted: None,
            early: VecDeque::new(),
            deadline: Instant::MAX,
            datagrams: 1,
        };
        self.advance(now, id, half_open, shared, answers);
    }

    /// What follows a packet or a timer: the request is decided on, datagrams are sent, and the association is passed on, kept or forgotten.
    fn advance(
        &mut self,
        now: Instant,
        id: ConnectionId,
        mut half_open: HalfOpen,
        shared: &Arc<Shared>,
        answers: &mut Outbox,
    ) {
        // Others can be blamed for hellos without a proof, whose number the listener limits in all.
        if half_open.networks.is_none() && half_open.association.is_address_proved() {
            let networks = Network::both(half_open.association.remote().ip());
            half_open.networks = Some(networks);
            for network in networks {
                *self.by_network.entry(network).or_default() += 1;
            }
        }
        let is_wanted = half_open.datagrams <= DATAGRAMS_PER_HALF_OPEN_MAX && half_open.decide(now, id, shared);
        while let Some(transmit) = half_open.association.poll_transmit(now, answers.buffer()) {
            answers.push(&transmit, half_open.association.source(), shared.socket.segments_max());
        }
        self.deadlines.remove(&(half_open.deadline, id));
        let is_complete = half_open.association.association().is_some();
        if is_wanted && !is_complete && !half_open.association.is_finished(now) {
            half_open.deadline = half_open.association.poll_deadline().unwrap_or(Instant::MAX);
            self.deadlines.insert((half_open.deadline, id));
            self.half_open.insert(id, half_open);
            return;
        }
        if let Some(origin) = half_open.origin {
            self.by_origin.remove(&origin);
        }
        for network in half_open.networks.into_iter().flatten() {
            if let Some(count) = self.by_network.get_mut(&network) {
                *count -= 1;
                if *count == 0 {
                    self.by_network.remove(&network);
                }
            }
        }
        let HalfOpen { association, admitted, early, .. } = half_open;
        let Some(Admitted { request, port, place }) = admitted else { return };
        if let Some(secure) = Secure::new(association, Some(request), early) {
            shared.adopt_protected(secure, (port, &place));
        }
    }

    /// Forgets handshakes whose time is over.
    pub(super) fn expire(&mut self, now: Instant, shared: &Arc<Shared>, answers: &mut Outbox) {
        while let Some(&(at, id)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            if let Some(mut half_open) = self.half_open.remove(&id) {
                half_open.association.handle_timeout(now);
                self.advance(now, id, half_open, shared, answers);
            }
        }
    }
}

impl HalfOpen {
    /// Decides on the client's request once it is there, and takes its early messages. Returns `false` if the handshake is to be forgotten.
    fn decide(&mut self, now: Instant, id: ConnectionId, shared: &Arc<Shared>) -> bool {
        let held = self.held.as_ref().map(|held| held.verdict());
        if held == Some(Verdict::Hold) {
            return true;
        }
        if let Some(hello) = self.association.hello() {
            let port = hello.ports.local;
            let request = Box::new(Request {
                remote: self.association.remote(),
                token: hello.token.clone(),
                server_name: hello.server_name.clone(),
                alpn: hello.alpn.clone(),
                is_address_proved: hello.is_address_proved,
            });
            let verdict = match held {
                None => shared.judge(&request, port),
                Some(Verdict::Admit) => shared.judge_accepted(&request, port),
                Some(verdict) => verdict,
            };
            match verdict {
                Verdict::Admit => {
                    let Some(place) = shared.keep_place(port) else { return false };
                    self.admitted = Some(Admitted { request, port, place });
                    self.association.admit(now);
                }
                Verdict::Refuse(code) => self.association.refuse(code),
                Verdict::Ignore => return false,
                Verdict::Hold => {
                    self.held = shared.hold(id, *request, port);
                    return self.held.is_some();
                }
            }
        }
        let Some(Admitted { request, port, .. }) = &self.admitted else { return true };
        while let Some(message) = self.association.poll_early() {
            self.early.extend(shared.offer_early(request, *port, message));
        }
        true
    }
}

#[cfg(test)]
mod tests;
