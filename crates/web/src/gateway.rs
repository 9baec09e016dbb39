//! All browsers of one UDP port: ICE-lite and DTLS, without sockets, clocks and threads.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use festina_units::{Duration, Instant};

use crate::dtls::{Certificate, CertificateError, HANDSHAKE_PATIENCE, Over, PACKET_BYTES_MAX, Said, Session};
use crate::sdp::{Answer, Offer, OfferError, SCTP_PORT};
use crate::snap::{COMMON_HEADER_BYTES, COOKIE_ACK, INIT_ACK, Snap};
use crate::stun::{BindingRequest, Transaction};
pub use crate::stun::{binding_request, binding_request_of};

/// A peer that was not heard for this long is gone. Browsers ask for consent every 5 s (RFC 7675 §5.1).
pub const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The active address of another peer may be taken over after this silence.
const QUIET: Duration = Duration::from_secs(10);
/// Addresses at which a peer is found, at most; the least recently named one is forgotten.
const ADDRESSES_MAX: usize = 4;
/// A deadline that was due is due again after this time at the earliest.
const TICK: Duration = Duration::from_millis(1);
/// Latest transactions of a peer, whose repetitions move nothing.
const TRANSACTIONS_MAX: usize = 16;
/// Before the handshake ends, at most this many times the bytes received are sent to a peer (RFC 9000 §8.1 has the same limit).
const AMPLIFICATION_MAX: usize = 3;
/// Packets that wait for [`Gateway::poll_packet`], at most.
const PACKETS_MAX: usize = 4_096;

/// A peer of a [`Gateway`]. It keeps its number when it moves to another address or network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(u64);

impl PeerId {
    /// Returns the address that stands for this peer in place of the changing one: unique, in a part of IPv6 that is never routed (RFC 6666), with
    /// a /64 of its own.
    pub fn label(self) -> SocketAddr {
        let [_, _, a, b, c, d, e, f] = self.0.to_be_bytes();
        let octets = [0x01, 0x00, a, b, c, d, e, f, 0, 0, 0, 0, 0, 0, 0, 1];
        SocketAddr::new(Ipv6Addr::from(octets).into(), SCTP_PORT)
    }

    /// Returns the peer that has this label.
    pub fn from_label(label: SocketAddr) -> Option<Self> {
        let IpAddr::V6(address) = label.ip() else { return None };
        let [0x01, 0x00, a, b, c, d, e, f, ..] = address.octets() else { return None };
        let id = Self(u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
        (id.label() == label).then_some(id)
    }

    /// Returns the number by which a browser names itself when it restarts ICE.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// Limits of a [`Gateway`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayLimits {
    /// Peers, with those that have not come yet. The oldest of the latter makes room for a new one.
    pub peers_max: usize,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self { peers_max: 65_536 }
    }
}

/// A datagram of the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The address of the peer.
    pub remote: SocketAddr,
    /// The own address that it is sent from, if the socket has several.
    pub local: Option<IpAddr>,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A change of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GatewayEvent {
    /// The DTLS handshake is complete, and the certificate was the one of the offer.
    Connected(PeerId),
    /// The peer is gone, and why. Nothing more is sent to it.
    Gone(PeerId, &'static str),
    /// The endpoint has answered the INIT of the offer, after [`Gateway::ask`]: a line that belongs at the end of the answer.
    Init(PeerId, String),
}

/// Counters of datagrams that a [`Gateway`] has ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayStats {
    /// Datagrams that belong to no peer, or are no STUN, DTLS or SCTP.
    pub strays: u64,
    /// Binding requests without the password.
    pub unauthenticated: u64,
    /// Datagrams not sent because too few bytes had come from an unproved address.
    pub withheld: u64,
    /// SCTP packets dropped because too many waited.
    pub packets_dropped: u64,
    /// Peers that made room for others before they came.
    pub displaced: u64,
}

/// Two ends of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    remote: SocketAddr,
    local: Option<IpAddr>,
}

#[derive(Debug)]
struct Peer {
    ufrag: String,
    password: String,
    remote_ufrag: String,
    fingerprint: [u8; 32],
    /// Where it was found, the least recently named first.
    ways: Vec<Way>,
    /// Where packets are sent.
    active: Option<Way>,
    transactions: VecDeque<Transaction>,
    session: Option<Session>,
    heard: Instant,
    /// When it is looked at next. Its time may be later by then: each packet moves that, and this only an earlier one.
    deadline: Instant,
    /// Bytes that may still be sent before the handshake ends.
    credit: usize,
    snap: Snap,
    message_bytes_max: usize,
}

/// All browsers of one UDP port.
#[derive(Debug)]
pub struct Gateway {
    certificate: Certificate,
    limits: GatewayLimits,
    addresses: Vec<SocketAddr>,
    last_id: u64,
    peers: BTreeMap<PeerId, Peer>,
    /// Those without a complete handshake, the oldest first.
    waiting: BTreeSet<PeerId>,
    by_ufrag: HashMap<String, PeerId>,
    by_address: HashMap<SocketAddr, PeerId>,
    deadlines: BTreeSet<(Instant, PeerId)>,
    output: Output,
}

/// Datagrams, packets and events that wait to be polled.
#[derive(Debug, Default)]
struct Output {
    datagrams: VecDeque<Datagram>,
    packets: VecDeque<(PeerId, Vec<u8>)>,
    events: VecDeque<GatewayEvent>,
    stats: GatewayStats,
}

impl Gateway {
    /// Returns a gateway that names `addresses` to browsers. Both times are the present: DTLS counts on the standard library's clock.
    ///
    /// # Errors
    /// If the system has no random numbers for a certificate.
    pub fn new(
        now: Instant,
        clock: std::time::Instant,
        addresses: Vec<SocketAddr>,
        limits: GatewayLimits,
    ) -> Result<Self, CertificateError> {
        Ok(Self {
            certificate: Certificate::new(now, clock)?,
            limits,
            addresses,
            last_id: 0,
            peers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            by_ufrag: HashMap::new(),
            by_address: HashMap::new(),
            deadlines: BTreeSet::new(),
            output: Output::default(),
        })
    }

    /// Answers a browser's offer (SDP) and expects the browser for 20 seconds.
    ///
    /// # Errors
    /// [`OfferError`] if the offer is not that of a data channel.
    pub fn answer(&mut self, now: Instant, offer: &str) -> Result<(PeerId, String), OfferError> {
        let offer = Offer::parse(offer)?;
        if self.peers.len() >= self.limits.peers_max {
            match self.waiting.first().copied() {
                Some(oldest) => {
                    self.output.stats.displaced += 1;
                    self.remove(oldest, "others have come in the meantime");
                }
                None => return Err(OfferError::TooMany),
            }
        }
        self.last_id += 1;
        let id = PeerId(self.last_id);
        let deadline = now + HANDSHAKE_PATIENCE;
        let (ufrag, password) = (secret::<8>(), secret::<24>());
        let answer = self.write_answer(id, &offer, &ufrag, &password);
        self.by_ufrag.insert(ufrag.clone(), id);
        self.waiting.insert(id);
        self.deadlines.insert((deadline, id));
        let Offer { ufrag: remote_ufrag, fingerprint, init, message_bytes_max, .. } = offer;
        let peer = Peer {
            ufrag,
            password,
            remote_ufrag,
            fingerprint,
            ways: Vec::new(),
            active: None,
            transactions: VecDeque::new(),
            session: None,
            heard: now,
            deadline,
            credit: 0,
            snap: Snap::offered(init.as_deref()),
            message_bytes_max,
        };
        self.peers.insert(id, peer);
        Ok((id, answer))
    }

    /// Hands the INIT of the peer's offer to the endpoint, as a packet of the peer: `false` if there was none. [`GatewayEvent::Init`] follows.
    pub fn ask(&mut self, id: PeerId) -> bool {
        let Some(peer) = self.peers.get_mut(&id) else { return false };
        match std::mem::take(&mut peer.snap) {
            Snap::Offered(packet) if self.output.packets.len() < PACKETS_MAX => {
                peer.snap = Snap::Asked;
                self.output.packets.push_back((id, packet));
                true
            }
            _ => false,
        }
    }

    /// The answer to an INIT came too late for the answer to the offer: the browser's own handshake follows.
    pub fn forget_init(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.snap = Snap::Off;
        }
    }

    /// Answers an offer by which a peer restarts ICE (RFC 8445 §2.4), such as after a change of networks. DTLS and SCTP go on.
    ///
    /// # Errors
    /// [`OfferError`] also if there is no such peer with the offer's certificate.
    pub fn restart(&mut self, peer: u64, offer: &str) -> Result<String, OfferError> {
        let (id, offer) = (PeerId(peer), Offer::parse(offer)?);
        let known = self.peers.get_mut(&id).filter(|peer| peer.fingerprint == offer.fingerprint);
        let peer = known.ok_or(OfferError::UnknownPeer)?;
        let (ufrag, password) = (secret::<8>(), secret::<24>());
        self.by_ufrag.remove(&peer.ufrag);
        self.by_ufrag.insert(ufrag.clone(), id);
        peer.ufrag.clone_from(&ufrag);
        peer.password.clone_from(&password);
        peer.remote_ufrag.clone_from(&offer.ufrag);
        Ok(self.write_answer(id, &offer, &ufrag, &password))
    }

    fn write_answer(&self, id: PeerId, offer: &Offer, ufrag: &str, password: &str) -> String {
        let (fingerprint, addresses) = (self.certificate.fingerprint, &self.addresses);
        offer.answer(&Answer { session: id.0, ufrag, password, fingerprint, addresses })
    }

    /// Handles a datagram, by the kinds of RFC 7983.
    pub fn handle_datagram(&mut self, now: Instant, remote: SocketAddr, local: Option<IpAddr>, bytes: &[u8]) {
        let way = Way { remote, local };
        let handled = match bytes.first() {
            Some(0..=3) => self.handle_stun(now, way, bytes),
            Some(20..=63) => self.handle_dtls(now, way, bytes),
            _ => None,
        };
        if handled.is_none() {
            self.output.stats.strays += 1;
        }
    }

    fn handle_stun(&mut self, now: Instant, way: Way, bytes: &[u8]) -> Option<()> {
        let request = BindingRequest::parse(bytes)?;
        let id = *self.by_ufrag.get(request.username.0)?;
        let peer = self.peers.get_mut(&id)?;
        if request.username.1 != peer.remote_ufrag || !request.is_by(&peer.password) {
            self.output.stats.unauthenticated += 1;
            return Some(());
        }
        // Somebody with credentials of their own cannot take over the address of another peer.
        let owner = self.by_address.get(&way.remote).copied().filter(|owner| *owner != id);
        if owner.and_then(|owner| self.peers.get(&owner)).is_some_and(|owner| owner.holds(way, now)) {
            return None;
        }
        let peer = self.peers.get_mut(&id)?;
        let answer = request.answer(way.remote, &peer.password);
        // It is shorter than a request.
        let answered = answer.len().min(bytes.len());
        self.output.datagrams.push_back(Datagram { remote: way.remote, local: way.local, bytes: answer });
        if !request.is_acceptable() || peer.transactions.contains(&request.transaction) {
            return Some(());
        }
        if peer.transactions.len() == TRANSACTIONS_MAX {
            peer.transactions.pop_front();
        }
        peer.transactions.push_back(request.transaction);
        peer.heard = now;
        peer.credit = peer.credit.saturating_add(bytes.len() * AMPLIFICATION_MAX - answered);
        peer.ways.retain(|known| known.remote != way.remote);
        if peer.ways.len() == ADDRESSES_MAX {
            let forgotten = peer.ways.remove(0);
            self.by_address.remove(&forgotten.remote);
        }
        peer.ways.push(way);
        if request.use_candidate || peer.active.is_none() {
            peer.active = Some(way);
        }
        if let Some(previous) = self.by_address.insert(way.remote, id).filter(|previous| *previous != id)
            && let Some(previous) = self.peers.get_mut(&previous)
        {
            previous.ways.retain(|known| known.remote != way.remote);
            previous.active =
                previous.active.filter(|active| active.remote != way.remote).or(previous.ways.last().copied());
        }
        Some(())
    }

    fn handle_dtls(&mut self, now: Instant, way: Way, bytes: &[u8]) -> Option<()> {
        let id = *self.by_address.get(&way.remote)?;
        let peer = self.peers.get_mut(&id)?;
        peer.credit = peer.credit.saturating_add(bytes.len() * AMPLIFICATION_MAX);
        let session = peer.session.get_or_insert_with(|| Session::new(now, &self.certificate, peer.fingerprint));
        let was_connected = session.is_connected();
        // Answers to the handshake go to where it comes from, which may be before ICE has chosen.
        let to = if was_connected { peer.active } else { Some(way) };
        let mut heard = false;
        let say = |said: Said<'_>| {
            heard |= matches!(said, Said::Packet(_));
            // Before the packets that follow.
            if said == Said::Connected
                && let Snap::Answered(echo) = std::mem::take(&mut peer.snap)
            {
                self.output.packets.push_back((id, echo));
            }
            self.output.take(id, said, to, (!was_connected).then_some(&mut peer.credit));
        };
        let handled = session.handle_datagram(now, &self.certificate, bytes, say);
        if heard {
            peer.heard = now;
        }
        if !was_connected && session.is_connected() {
            self.waiting.remove(&id);
        }
        self.settle(now, id, handled);
        Some(())
    }

    /// Sends an SCTP packet to a peer.
    pub fn send(&mut self, now: Instant, id: PeerId, packet: &[u8]) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if let Some(init) = peer.snap.take_answer(packet) {
            self.output.events.push_back(GatewayEvent::Init(id, format!("a=sctp-init:{init}\r\n")));
            return;
        }
        let Some(session) = &mut peer.session else { return };
        // A browser waits a second before it asks again.
        let copies = if matches!(packet.get(COMMON_HEADER_BYTES), Some(&(INIT_ACK | COOKIE_ACK))) { 2 } else { 1 };
        let mut sent = Ok(());
        for _ in 0..copies {
            sent = sent.and_then(|()| {
                session.send(&self.certificate, packet, |said| self.output.take(id, said, peer.active, None))
            });
        }
        self.settle(now, id, sent);
    }

    /// Returns the number of bytes of the largest SCTP packet.
    pub fn packet_bytes_max(&self) -> usize {
        PACKET_BYTES_MAX
    }

    /// Closes the DTLS association of a peer and forgets the peer.
    pub fn close(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(&id)
            && let Some(session) = &mut peer.session
        {
            session.close(&self.certificate, |said| self.output.take(id, said, peer.active, None));
        }
        self.remove(id, "this side has closed the connection");
    }

    /// Handles the deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(deadline, id)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.pop_first();
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            peer.deadline = Instant::MAX;
            if peer.heard + SILENCE_MAX <= now {
                self.remove(id, "the peer is silent");
                continue;
            }
            let Some(session) = &mut peer.session else {
                self.remove(id, "the peer did not come");
                continue;
            };
            let credit = (!session.is_connected()).then_some(&mut peer.credit);
            let (to, mut credit) = (peer.active, credit);
            let say = |said: Said<'_>| self.output.take(id, said, to, credit.as_deref_mut());
            let handled = session.handle_timeout(now, &self.certificate, say);
            self.settle(now, id, handled);
        }
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is to be called.
    pub fn poll_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Returns the next datagram to send.
    pub fn poll_datagram(&mut self) -> Option<Datagram> {
        self.output.datagrams.pop_front()
    }

    /// Returns the next SCTP packet of a peer.
    pub fn poll_packet(&mut self) -> Option<(PeerId, Vec<u8>)> {
        self.output.packets.pop_front()
    }

    /// Returns the number of packets that wait for [`poll_packet`](Self::poll_packet).
    pub fn packets(&self) -> usize {
        self.output.packets.len()
    }

    /// Returns the next change of a peer.
    pub fn poll_event(&mut self) -> Option<GatewayEvent> {
        self.output.events.pop_front()
    }

    /// Returns the address to which packets for a peer are sent now.
    pub fn remote_addr(&self, id: PeerId) -> Option<SocketAddr> {
        self.peers.get(&id)?.active.map(|way| way.remote)
    }

    /// Returns the number of bytes of the largest message that a peer takes, by its offer.
    pub fn message_bytes_max(&self, id: PeerId) -> Option<usize> {
        Some(self.peers.get(&id)?.message_bytes_max)
    }

    /// Returns whether there is such a peer.
    pub fn contains(&self, id: PeerId) -> bool {
        self.peers.contains_key(&id)
    }

    /// Returns the number of peers, with those that have not come yet.
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    /// Returns counters of ignored datagrams.
    pub fn stats(&self) -> GatewayStats {
        self.output.stats
    }

    /// Keeps the books of a peer after its session was used.
    fn settle(&mut self, now: Instant, id: PeerId, handled: Result<(), Over>) {
        if let Err(Over(reason)) = handled {
            return self.remove(id, reason);
        }
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some(session) = &peer.session else { return };
        let silence = peer.heard + SILENCE_MAX;
        let deadline = session.deadline.map_or(silence, |deadline| deadline.max(now + TICK).min(silence));
        if deadline < peer.deadline {
            self.deadlines.remove(&(peer.deadline, id));
            self.deadlines.insert((deadline, id));
            peer.deadline = deadline;
        }
    }

    fn remove(&mut self, id: PeerId, reason: &'static str) {
        let Some(peer) = self.peers.remove(&id) else { return };
        self.by_ufrag.remove(&peer.ufrag);
        for way in &peer.ways {
            self.by_address.remove(&way.remote);
        }
        self.waiting.remove(&id);
        self.deadlines.remove(&(peer.deadline, id));
        self.output.events.push_back(GatewayEvent::Gone(id, reason));
    }
}

impl Peer {
    /// Whether packets of this address belong to this peer alone.
    fn holds(&self, way: Way, now: Instant) -> bool {
        let is_connected = self.session.as_ref().is_some_and(Session::is_connected);
        is_connected && self.active.is_some_and(|active| active.remote == way.remote) && now < self.heard + QUIET
    }
}

impl Output {
    /// Takes what a session says; `credit` are the bytes that may be sent, if they are limited.
    fn take(&mut self, id: PeerId, said: Said<'_>, to: Option<Way>, credit: Option<&mut usize>) {
        match said {
            Said::Datagram(bytes) => {
                let Some(Way { remote, local }) = to else { return };
                if let Some(credit) = credit {
                    match credit.checked_sub(bytes.len()) {
                        Some(left) => *credit = left,
                        None => {
                            self.stats.withheld += 1;
                            return;
                        }
                    }
                }
                self.datagrams.push_back(Datagram { remote, local, bytes: bytes.to_vec() });
            }
            Said::Packet(_) if self.packets.len() >= PACKETS_MAX => self.stats.packets_dropped += 1,
            Said::Packet(packet) => self.packets.push_back((id, packet.to_vec())),
            Said::Connected => self.events.push_back(GatewayEvent::Connected(id)),
        }
    }
}

/// Random characters that ICE allows, each of 5 bits.
fn secret<const LENGTH: usize>() -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut random = [0; LENGTH];
    getrandom::fill(&mut random).expect("the system has random numbers");
    random.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect()
}
