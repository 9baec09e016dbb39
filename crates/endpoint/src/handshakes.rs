//! Handshakes of strangers with an encrypted endpoint.
//!
//! A hello is judged by its port, token and server name before TLS reads it, because the answer costs a signature: 25 µs with Ed25519, 4 ms with
//! RSA-4096. So the endpoint measures the CPU time of handshakes, and they get shares of the time. Within a turn of the driver, TLS runs for
//! few packets, between which packets of associations are received. No lock is held meanwhile. Beyond the limits the listener answers hellos by a
//! retry without state, so that clients prove their addresses, and hellos with a proof wait.

mod budget;
mod half_open;
mod waiting;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use festina_sctp::{self as sctp, Transmit};
use festina_secure::wire::{ConnectionId, Header, LongHeader, destination_id, is_short, read_header};
use festina_secure::{Checked, HalfOpenLimits, Incoming, Listener, NO_SUCH_PORT, Path};
use festina_units::{Duration, EcnCodepoint, Instant};

use self::budget::{Budget, Payer};
use self::half_open::{HalfOpen, Wish};
use self::waiting::{Waiting, WaitingHello};
use crate::allowance::Allowance;
use crate::demux::{Origin, network};
use crate::owner::{Datagram, Owner};

/// Packets for which TLS runs in one turn of the driver.
const TLS_PER_TURN: usize = 4;
/// CPU time after which a turn runs no more TLS. One signature may take longer.
const TURN_TIME: Duration = Duration::from_micros(500);
/// Packets handled in one turn.
const HANDLED_PER_TURN: usize = 80;
/// Those of strangers among them. During a flood most cost a retry of 10 to 20 µs, and the socket's buffer must not overflow meanwhile.
const STRANGERS_PER_TURN: usize = 16;
/// Packets that wait for a later turn: of handshakes that have begun, and of strangers.
const WAITING_MAX: usize = 1_024;
/// From this age on, a half-open association makes room for a newcomer if all places are taken.
const OLD_AGE: Duration = Duration::from_secs(3);
/// Pause of the search for a place, which looks at all of them.
const FULL_PAUSE: Duration = Duration::from_millis(1);
/// Stateless resets in one second. Each costs an HMAC, and a client needs one.
const RESETS_PER_SECOND: u32 = 1_000;
/// Datagrams handled for one half-open association, which is then forgotten: an attacker's cost little each, but without end. A client with a
/// certificate chain of 8 KiB needs 7, and sends them at most seven times within [`HALF_OPEN_LIFETIME`](festina_secure::HALF_OPEN_LIFETIME).
const DATAGRAMS_PER_HALF_OPEN_MAX: u16 = 256;

/// The reason that a client of plain SCTP reports.
pub const ENCRYPTED_ONLY: &[u8] = b"this endpoint speaks only encrypted associations";

/// Half-open associations and the packets for them.
pub struct Handshakes<O: Owner> {
    /// `None` if the endpoint only connects.
    listener: Option<Listener>,
    half_open: HashMap<ConnectionId, HalfOpen<O>>,
    /// By the ID that the client chose, and its address.
    by_origin: HashMap<Origin, ConnectionId>,
    /// Half-open associations by the client's networks, without those that have not proved their address.
    by_network: HashMap<Network, usize>,
    deadlines: BTreeSet<(Instant, ConnectionId)>,
    known: VecDeque<Datagram>,
    strangers: VecDeque<Datagram>,
    hellos: Waiting,
    /// Until then no place is looked for: all are taken, and none is to be given up.
    full_until: Instant,
    /// Handshakes whose requests the application has decided on.
    decided: VecDeque<ConnectionId>,
    /// The next packet for TLS is taken from `hellos` if one may begin there, the one after it from `known`.
    is_hellos_turn: bool,
    budget: Budget,
    /// Stateless resets.
    resets: Allowance,
    /// The rest of the limits of a turn: packets for which TLS runs, and packets.
    left: (usize, usize),
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
}

impl<O: Owner> Handshakes<O> {
    /// Without any handshake. `listener` is there on an endpoint that accepts encrypted clients. `secret` spreads sites over shares of the CPU time
    /// that `measure` tells for this thread.
    pub fn new(listener: Option<Listener>, secret: [u8; 16], measure: fn() -> Duration) -> Self {
        Self {
            listener,
            half_open: HashMap::new(),
            by_origin: HashMap::new(),
            by_network: HashMap::new(),
            deadlines: BTreeSet::new(),
            known: VecDeque::new(),
            strangers: VecDeque::new(),
            hellos: Waiting::new(),
            full_until: Instant::ZERO,
            decided: VecDeque::new(),
            is_hellos_turn: false,
            budget: Budget::new(secret, measure),
            resets: Allowance::new(RESETS_PER_SECOND),
            left: (TLS_PER_TURN, HANDLED_PER_TURN),
        }
    }

    /// A new turn of the driver.
    pub fn begin_turn(&mut self) {
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
    pub fn knows(&self, from: SocketAddr, packet: &[u8]) -> bool {
        self.known.len() < WAITING_MAX && self.id_of(from, packet).is_some()
    }

    /// Whether a packet of a stranger may wait.
    pub fn has_room(&self) -> bool {
        self.strangers.len() < WAITING_MAX
    }

    /// Leaves a packet of a handshake or a stranger for [`handle`](Self::handle). Those beyond the limits are dropped.
    pub fn push(&mut self, datagram: Datagram) {
        if self.knows(datagram.from, &datagram.packet) {
            self.known.push_back(datagram);
        } else if self.has_room() {
            self.strangers.push_back(datagram);
        }
    }

    /// Whether packets wait that can be handled now.
    pub fn is_waiting(&self, now: Instant) -> bool {
        !self.strangers.is_empty()
            || !self.decided.is_empty()
            || self.known.iter().any(|datagram| self.budget.is_left(now, self.payer(datagram.from.ip())))
            || self.next_payer(now).is_some()
    }

    /// When [`expire`](Self::expire) is to be called, or a packet that waits can be handled.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let known = self.known.iter().map(|datagram| self.budget.left_at(self.payer(datagram.from.ip())));
        let hellos = self.hellos.payers().map(|payer| self.budget.left_at(payer).max(self.full_until));
        let expires_at = self.deadlines.first().map(|(at, _)| *at);
        known.chain(hellos).filter(|at| *at > now).chain(expires_at).min()
    }

    fn payer(&self, address: IpAddr) -> Payer {
        let [_, site] = Network::both(address);
        Payer::Site(self.budget.slot(site))
    }

    /// The one whose first hello may begin.
    fn next_payer(&self, now: Instant) -> Option<Payer> {
        self.hellos.payers().filter(|_| now >= self.full_until).find(|payer| self.budget.is_left(now, *payer))
    }

    fn pop_known(&mut self, now: Instant) -> Option<Datagram> {
        let may_run = |datagram: &Datagram| self.budget.is_left(now, self.payer(datagram.from.ip()));
        let at = self.known.iter().position(may_run)?;
        self.known.remove(at)
    }

    fn pop_hello(&mut self, now: Instant) -> Option<(Payer, WaitingHello)> {
        let payer = self.next_payer(now)?;
        self.hellos.pop(payer).map(|hello| (payer, hello))
    }

    /// Handles packets that wait, as far as the turn allows. Returns the number of packets that had no effect.
    pub fn handle(&mut self, now: Instant, owner: &mut O) -> usize {
        let mut dropped = 0;
        if !self.half_open.is_empty() {
            owner.take_decided(&mut self.decided);
            if owner.take_withdrawal() {
                let refused = self.half_open.iter().filter(|(_, half_open)| half_open.is_withdrawn());
                self.decided.extend(refused.map(|(id, _)| *id));
            }
        }
        while self.left.0 > 0
            && let Some(id) = self.decided.pop_front()
        {
            if let Some(half_open) = self.half_open.remove(&id) {
                let payer = self.payer(half_open.association.remote().ip());
                self.run(now, payer, |handshakes| {
                    handshakes.advance(now, id, half_open, owner);
                    ((), true)
                });
            }
        }
        self.hellos.expire(now);
        // Strangers come first: most cost little, and their hellos wait.
        while self.left.1 > HANDLED_PER_TURN - STRANGERS_PER_TURN
            && let Some(datagram) = self.strangers.pop_front()
        {
            dropped += self.handle_datagram(now, datagram, owner);
        }
        while self.left.0 > 0 && self.left.1 > 0 {
            self.is_hellos_turn = !self.is_hellos_turn;
            let hello = if self.is_hellos_turn { self.pop_hello(now) } else { None };
            if hello.is_none()
                && let Some(datagram) = self.pop_known(now)
            {
                dropped += self.handle_datagram(now, datagram, owner);
                continue;
            }
            let Some((payer, hello)) = hello.or_else(|| self.pop_hello(now)) else { break };
            dropped += usize::from(!self.begin(now, payer, hello, owner));
        }
        dropped
    }

    /// Returns the number of packets that had no effect.
    fn handle_datagram(&mut self, now: Instant, datagram: Datagram, owner: &mut O) -> usize {
        self.left.1 -= 1;
        // A packet before it may have completed the handshake, or it answers this side's hello in another protocol.
        let association = owner.demux(|demux| {
            let by_remote =
                || demux.find_by_remote(datagram.from).filter(|_| destination_id(&datagram.packet).is_err());
            demux.find_protected(datagram.from, &datagram.packet).or_else(by_remote).cloned()
        });
        match association {
            Some(association) => owner.deliver(now, &association, datagram),
            None => usize::from(!self.handle_one(now, datagram, owner)),
        }
    }

    /// Does work that may run TLS, and charges its CPU time if it says so.
    fn run<R>(&mut self, now: Instant, payer: Payer, work: impl FnOnce(&mut Self) -> (R, bool)) -> R {
        let measure = self.budget.measure;
        let before = measure();
        let (result, has_run) = work(self);
        let cost = measure().saturating_sub(before);
        if has_run {
            self.budget.charge(now, payer, cost);
            self.left.0 = if cost < TURN_TIME { self.left.0.saturating_sub(1) } else { 0 };
        }
        result
    }

    /// Returns whether the packet had an effect.
    fn handle_one(&mut self, now: Instant, datagram: Datagram, owner: &mut O) -> bool {
        if let Some(id) = self.id_of(datagram.from, &datagram.packet) {
            return self.handle_known(now, id, datagram, owner);
        }
        let Datagram { from, source, packet, .. } = &datagram;
        let reply = |len| Transmit::new(*from, len, EcnCodepoint::NotCapable);
        let Some(listener) = &mut self.listener else { return false };
        // The ports of an INIT may look like the first bytes of a protected packet.
        let is_foreign = destination_id(packet).is_err();
        let refuse = |buffer: &mut Vec<u8>| {
            let before = buffer.len();
            let is_init = sctp::Listener::refuse_init(*from, packet, ENCRYPTED_ONLY, buffer);
            is_init.then(|| reply(buffer.len() - before))
        };
        if is_foreign && from.port() != 0 && owner.answer(*source, refuse) {
            return true;
        }
        // Resets cost no state, so one allowance for all is enough.
        if is_short(packet) && !self.resets.take(now) {
            return false;
        }
        // Without CPU time for clients that have not proved their addresses, the listener asks for a proof.
        let may_begin = self.budget.is_left(now, Payer::Unproved);
        let half_open = self.half_open.len() + self.hellos.count(Payer::Unproved);
        let half_open = if may_begin { half_open } else { usize::MAX };
        let path = Path { remote: *from, local: *source };
        let mut hello = None;
        let has_answer = owner.answer(*source, |buffer| {
            let before = buffer.len();
            match listener.check(now, path, packet, half_open, buffer) {
                Checked::Hello { original, is_proved } => hello = Some((original, is_proved)),
                Checked::Reply => return Some(reply(buffer.len() - before)),
                _ => {}
            }
            None
        });
        let Some((original, is_proved)) = hello else { return has_answer };
        let payer = if is_proved { self.payer(from.ip()) } else { Payer::Unproved };
        self.hellos.push(payer, WaitingHello { original, datagram, further: Vec::new(), received_at: now });
        true
    }

    fn handle_known(&mut self, now: Instant, id: ConnectionId, datagram: Datagram, owner: &mut O) -> bool {
        let Some(mut half_open) = self.half_open.remove(&id) else { return false };
        let Datagram { from, source, ecn, packet } = datagram;
        let path = Path { remote: from, local: source };
        let payer = self.payer(from.ip());
        let before = half_open.association.handshake_bytes_read();
        half_open.datagrams += 1;
        self.run(now, payer, |handshakes| {
            let result = half_open.association.handle_datagram(now, path, ecn, packet);
            let reads =
                half_open.association.handshake_bytes_read() > before || half_open.association.hello().is_some();
            handshakes.advance(now, id, half_open, owner);
            (result.is_ok(), reads)
        })
    }

    /// Begins the handshake of a hello, or keeps it waiting for a place. Returns whether it had an effect.
    fn begin(&mut self, now: Instant, payer: Payer, hello: WaitingHello, owner: &mut O) -> bool {
        if self.half_open.len() >= HalfOpenLimits::default().total_max {
            let Some(id) = self.victim(now, Network::both(hello.datagram.from.ip()), |_| true) else {
                self.full_until = now + FULL_PAUSE;
                self.hellos.push(payer, hello);
                return true;
            };
            self.forget(id, owner);
        }
        self.left.1 -= 1;
        let WaitingHello { original, datagram: Datagram { from, source, packet, .. }, further, .. } = hello;
        let (path, is_proved) = (Path { remote: from, local: source }, payer != Payer::Unproved);
        self.run(now, payer, |handshakes| {
            let Some(listener) = &mut handshakes.listener else { return (false, false) };
            if let Some(context) = owner.take_readdressed() {
                listener.use_addresses(&context);
            }
            let Incoming::HalfOpen(association) = listener.begin(now, path, (original, is_proved), packet) else {
                return (false, true);
            };
            let (id, half_open) = (association.id(), HalfOpen::new(now, *association));
            if let Some(origin) = half_open.origin {
                handshakes.by_origin.insert(origin, id);
            }
            let room = WAITING_MAX.saturating_sub(handshakes.known.len());
            handshakes.known.extend(further.into_iter().take(room));
            handshakes.advance(now, id, half_open, owner);
            (true, true)
        })
    }

    /// What follows a packet or a timer: the request is decided on, datagrams are sent, and the association is passed on, kept or forgotten.
    fn advance(&mut self, now: Instant, id: ConnectionId, mut half_open: HalfOpen<O>, owner: &mut O) {
        // Others can be blamed for hellos without a proof, whose number the listener limits in all.
        if half_open.networks.is_none() && half_open.association.is_address_proved() {
            let networks = Network::both(half_open.association.remote().ip());
            half_open.networks = Some(networks);
            for network in networks {
                *self.by_network.entry(network).or_default() += 1;
            }
        }
        let is_wanted = half_open.datagrams <= DATAGRAMS_PER_HALF_OPEN_MAX
            && match half_open.decide(now, id, owner) {
                Wish::Keep => true,
                Wish::Forget => false,
                Wish::Place(port) => {
                    let networks = half_open.networks;
                    let victim = networks.and_then(|at| self.victim(now, at, |other| other.has_place(port)));
                    victim.is_some_and(|victim| {
                        self.forget(victim, owner);
                        matches!(half_open.decide(now, id, owner), Wish::Keep)
                    })
                }
            };
        half_open.send(now, owner);
        self.deadlines.remove(&(half_open.deadline, id));
        let is_complete = half_open.association.association().is_some();
        if is_wanted && !is_complete && !half_open.association.is_finished(now) {
            half_open.deadline = half_open.association.poll_deadline().unwrap_or(Instant::MAX);
            self.deadlines.insert((half_open.deadline, id));
            self.half_open.insert(id, half_open);
            return;
        }
        self.unlist(&half_open);
        half_open.adopt(owner);
    }

    /// The half-open association that makes room for a client: the oldest of the largest site among those that have more than the client's, or are old.
    fn victim(
        &self,
        now: Instant,
        [own_host, own_site]: [Network; 2],
        is_candidate: impl Fn(&HalfOpen<O>) -> bool,
    ) -> Option<ConnectionId> {
        let count = |network: Network| self.by_network.get(&network).copied().unwrap_or_default();
        let own = (count(own_host), count(own_site));
        let rank = |half_open: &HalfOpen<O>| {
            let [host, site] = half_open.networks?;
            let (in_host, in_site) = (count(host), count(site));
            let is_of_larger = if site == own_site { in_host > own.0 } else { in_site > own.1 };
            let is_old = now.saturating_duration_since(half_open.begun_at) >= OLD_AGE && !half_open.is_held();
            (is_of_larger || is_old).then_some((in_site, in_host, std::cmp::Reverse(half_open.begun_at)))
        };
        let candidates = self.half_open.iter().filter(|(_, half_open)| is_candidate(half_open));
        let (_, id) = candidates.filter_map(|(id, half_open)| Some((rank(half_open)?, *id))).max()?;
        Some(id)
    }

    /// Forgets a handshake that makes room for another one. Its client gets no answer any more.
    fn forget(&mut self, id: ConnectionId, owner: &mut O) {
        if let Some(half_open) = self.half_open.remove(&id) {
            owner.note_forgotten(half_open.association.remote());
            self.deadlines.remove(&(half_open.deadline, id));
            self.unlist(&half_open);
        }
    }

    fn unlist(&mut self, half_open: &HalfOpen<O>) {
        self.full_until = Instant::ZERO;
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
    }

    /// The endpoint ends: the clients of all handshakes learn that nothing listens any more.
    pub fn refuse_all(&mut self, now: Instant, owner: &mut O) {
        for (_, mut half_open) in self.half_open.drain() {
            half_open.association.refuse(NO_SUCH_PORT);
            half_open.send(now, owner);
        }
        self.by_origin.clear();
        self.by_network.clear();
        self.deadlines.clear();
        self.full_until = Instant::ZERO;
    }

    /// Forgets handshakes whose time is over.
    pub fn expire(&mut self, now: Instant, owner: &mut O) {
        while let Some(&(at, id)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            if let Some(mut half_open) = self.half_open.remove(&id) {
                half_open.association.handle_timeout(now);
                self.advance(now, id, half_open, owner);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
