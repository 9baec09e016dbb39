//! Making an association: INIT, INIT ACK, COOKIE ECHO, COOKIE ACK, and what happens when they cross or come late
//! (RFC 9260 §5).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use festina_units::{Duration, Instant};

use super::addresses::AddressBook;
use super::cookie::{Bearer, Cookie, CookieVerdict, PROLONGED_MAX, PeerParameters, Tags, TieTags, first_tsn};
use super::extensions::Extensions;
use super::multihoming::transport_address;
use super::negotiation::{InitFault, InitKind, PeerInit, new_addresses};
use super::packet::{header_to, lone_packet};
use super::paths::Paths;
use super::reply::{Due, Reply};
use super::retry::RetryTimer;
use super::state::State;
use super::{Association, Context, Ports, Purpose};
use crate::config::{Config, Limits, PeerRestart};
use crate::error::{ClosedReason, PacketDropped};
use crate::event::Event;
use crate::receive::Receiver;
use crate::wire::{
    CHUNK_HEADER_BYTES, COMMON_HEADER_BYTES, Cause, ChunkOut, CommonHeader, Init, InitOut, PacketBuilder, Parameter,
    Tsn,
};

/// Maximum size of a reply to an unverified source, as a multiple of the packet that it answers. Forged sources could otherwise amplify a flood. QUIC
/// has the same factor (RFC 9000 §8.1).
const AMPLIFICATION_MAX: usize = 3;

/// Maximum length of the cookie and of the reported parameters of an INIT ACK together, so that it fits into the smallest permitted packet.
const COOKIE_AND_REPORTS_BYTES_MAX: usize = 300;
/// Maximum length of the addresses in an INIT: eight IPv6 addresses.
const INIT_ADDRESSES_BYTES_MAX: usize = 160;
/// Length of the header of a parameter that reports another.
const PARAMETER_HEADER_BYTES: usize = 4;

/// What COOKIE ECHO means for an association that exists (RFC 9260 §5.2.4, Table 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CookieAction {
    /// A: the peer restarted.
    Restart,
    /// B: both sides began at once; the peer's tag is new.
    UpdatePeer,
    /// D: the expected cookie, or a repetition.
    Confirm,
    /// The cookie was created before the association's present peer became known. If its owner still exists, it has restarted in between and must ask
    /// for a new one, so that a restart (A) gives each incarnation tags and TSNs of its own. Table 12 has B here in ESTABLISHED, which would mix the
    /// TSNs of both, or nothing at all.
    Outdated,
    /// C, and all else that the table does not list.
    Discard,
}

impl Association {
    /// Sends INIT: the peer is asked for the association.
    pub(super) fn begin_handshake(&mut self, now: Instant) {
        let sending = &self.paths.primary().sending;
        // A path that is known to be slow has the time that its answer takes.
        let rto = sending.rto().max(self.context.config().timers.rto_initial);
        let t1 = RetryTimer::start(now, rto)
            .with_copies(sending.control_pace())
            .spread(self.context.retry_spread(self.tags.local, now));
        self.state = State::CookieWait { t1 };
        self.control.set(Due::INIT);
    }

    /// INIT for an association that exists (RFC 9260 §5.2.1, §5.2.2).
    pub(super) fn handle_init(&mut self, now: Instant, from: SocketAddr, init: &Init<'_>) {
        if let State::ShutdownAckSent { .. } = self.state {
            self.control.set(Due::SHUTDOWN_ACK);
            return;
        }
        let mut peer = match PeerInit::read(init, InitKind::Init, from.ip()) {
            Ok(peer) => peer,
            Err(InitFault::NoTag) => return,
            Err(fault) => return self.refuse_init(from, init, &fault.cause()),
        };
        let mut destination = from;
        if !matches!(self.state, State::CookieWait { .. }) {
            let added = new_addresses(init, from.ip(), |address| self.peer.has_address(&self.paths, address));
            if !added.is_empty() {
                return self.refuse_init(from, init, &Cause::RestartWithNewAddresses(&added));
            }
        } else if !self.paths.lead_to(from.ip()) {
            // Only the address that the application gave is confirmed, and the INIT must name it (RFC 9260 §5.2.1).
            destination = self.paths.first().remote;
            if !peer.addresses.contains(destination.ip()) {
                return;
            }
            peer.addresses.insert_first(from.ip());
        }
        let (ports, tag) = (self.ports, self.tags.local);
        let identity = if matches!(self.state, State::CookieWait { .. } | State::CookieEchoed { .. }) {
            let tie_tags = Some(TieTags::of_opening(&self.context, tag));
            Identity { ports, local_tag: tag, first_tsn: self.first_tsn, tie_tags }
        } else {
            let fresh = fresh_tag(&self.context, &[u64::from(tag), now.as_nanos(), u64::from(peer.tag)]);
            Identity::new(&self.context, ports, fresh, Some(TieTags::of(&self.context, self.tags)))
        };
        let room_bytes = answer_bytes_max(COMMON_HEADER_BYTES + init.chunk_bytes());
        let answer = init_ack(&self.context, now, destination.ip(), &identity, &peer, room_bytes);
        self.answer_init(destination, init, answer);
    }

    /// INIT ACK: echo its cookie (RFC 9260 §5.1 C).
    pub(super) fn handle_init_ack(
        &mut self,
        now: Instant,
        from: SocketAddr,
        init: &Init<'_>,
    ) -> Result<(), PacketDropped> {
        let State::CookieWait { t1 } = self.state else { return Err(PacketDropped::Unexpected("INIT ACK")) };
        let peer = match PeerInit::read(init, InitKind::InitAck, from.ip()) {
            Ok(peer) => peer,
            Err(fault) => {
                self.refuse_init_ack(from, init, &fault);
                return Ok(());
            }
        };
        let Some(cookie) = peer.cookie else { return Err(PacketDropped::Unexpected("INIT ACK without a cookie")) };
        // Without room for it, COOKIE ECHO would never leave, and DATA would leave alone.
        if cookie.len() > cookie_bytes_max(&self.context.config().limits) {
            self.refuse_init_ack(from, init, &InitFault::CookieTooLong);
            return Ok(());
        }
        let round_trip = t1.round_trip(now);
        self.adopt_peer(now, peer.tag, &peer.parameters, round_trip);
        self.peer.name_addresses(&self.paths, from.ip(), peer.addresses);
        if !peer.unrecognized.is_empty() {
            self.control.reply_with(|| Reply::UnrecognizedParameters(peer.unrecognized.concat().into()));
        }
        let t1 = self.t1_cookie(now, &t1, round_trip);
        self.state = State::CookieEchoed { t1, cookie: cookie[..].into() };
        self.control.set(Due::COOKIE_ECHO);
        Ok(())
    }

    /// Starts T1-cookie after INIT was answered within `round_trip`, if that is known. Early copies follow a round trip after COOKIE ECHO, so T1
    /// itself need not be shorter than RTO.Initial.
    pub(super) fn t1_cookie(&mut self, now: Instant, t1: &RetryTimer, round_trip: Option<Duration>) -> RetryTimer {
        let (rto_initial, spread) =
            (self.context.config().timers.rto_initial, self.context.retry_spread(self.tags.local, now));
        let sending = &mut self.paths.primary_mut().sending;
        let pace = match round_trip {
            Some(_) => sending.control_pace(),
            None => sending.bounded_control_pace(t1.round_trip_bounds(now)),
        };
        let rto = match (round_trip, pace) {
            (None, None) => rto_initial,
            (Some(_), None) => sending.rto(),
            // Where nothing was measured, this is by the longest possible round trip.
            (_, Some(_)) => sending.rto().max(rto_initial),
        };
        t1.next_chunk(now, rto).with_copies(pace).spread(spread)
    }

    /// COOKIE ECHO for an association that exists, also for one that [`Listener`](super::Listener) has just made of it.
    pub(super) fn handle_cookie_echo(
        &mut self,
        now: Instant,
        from: SocketAddr,
        header: &CommonHeader,
        echoed: &[u8],
    ) -> Result<(), PacketDropped> {
        // A cookie that was made for other ports, another tag or other addresses is none here.
        let bearer = Bearer { tag: header.verification_tag, ports: self.ports, address: from.ip() };
        let cookie = match Cookie::open(&self.context, now, &bearer, echoed) {
            CookieVerdict::Forged => return Err(PacketDropped::Unexpected("forged cookie")),
            CookieVerdict::Stale(cookie, staleness) if cookie.tags != self.tags => {
                return Err(self.refuse_cookie(from, &cookie, staleness));
            }
            CookieVerdict::Stale(cookie, _) | CookieVerdict::Valid(cookie) => cookie,
        };
        match self.cookie_action(&cookie) {
            CookieAction::Discard => Err(PacketDropped::Unexpected("late cookie")),
            CookieAction::Outdated => Err(self.refuse_cookie(from, &cookie, Duration::ZERO)),
            CookieAction::Restart => self.restart(now, from, cookie),
            CookieAction::UpdatePeer => {
                self.adopt_peer(now, cookie.tags.peer, &cookie.peer, None);
                self.peer.name_addresses(&self.paths, cookie.address, cookie.addresses);
                self.confirm(now);
                Ok(())
            }
            CookieAction::Confirm => {
                self.confirm(now);
                Ok(())
            }
        }
    }

    fn cookie_action(&self, cookie: &Cookie) -> CookieAction {
        let local_matches = cookie.tags.local == self.tags.local;
        let peer_matches = cookie.tags.peer == self.tags.peer;
        let tie_matches = cookie.tie_tags == Some(TieTags::of(&self.context, self.tags));
        match (local_matches, peer_matches, &self.state) {
            (true, true, _) => CookieAction::Confirm,
            (false, false, _) if tie_matches => CookieAction::Restart,
            (true, false, State::CookieWait { .. }) => CookieAction::UpdatePeer,
            // The peer of the INIT ACK was not known yet: the cookie may be that of an earlier incarnation.
            (true, false, State::CookieEchoed { t1, .. }) if cookie.created_at >= t1.started_at() => {
                CookieAction::UpdatePeer
            }
            (true, false, _) => CookieAction::Outdated,
            (false, false, State::CookieWait { .. } | State::CookieEchoed { .. }) | (false, true, _) => {
                CookieAction::Discard
            }
            (false, false, _) => CookieAction::Outdated,
        }
    }

    /// Asks the owner of a stale cookie to request a new one (RFC 9260 §5.2.6). If no peer has its tag any more, the reply has no effect.
    fn refuse_cookie(&mut self, from: SocketAddr, cookie: &Cookie, staleness: Duration) -> PacketDropped {
        self.control.packet_to(Some(from), stale_cookie(header_to(self.ports, cookie.tags.peer), staleness));
        PacketDropped::Unexpected("stale cookie")
    }

    /// Enters ESTABLISHED if the handshake was on, and answers with COOKIE ACK.
    fn confirm(&mut self, now: Instant) {
        self.control.set(Due::COOKIE_ACK);
        if matches!(self.state, State::CookieWait { .. } | State::CookieEchoed { .. }) {
            self.enter_established(now, None);
        }
    }

    /// COOKIE ACK: the association stands (RFC 9260 §5.1 E).
    pub(super) fn handle_cookie_ack(&mut self, now: Instant) -> Result<(), PacketDropped> {
        let State::CookieEchoed { t1, .. } = self.state else { return Err(PacketDropped::Unexpected("COOKIE ACK")) };
        self.enter_established(now, t1.round_trip(now));
        Ok(())
    }

    /// The peer found its own cookie too old: ask for a new one (RFC 9260 §5.2.6, alternative 1).
    pub(super) fn handle_stale_cookie(&mut self, now: Instant) {
        if let State::CookieEchoed { mut t1, .. } = self.state {
            let retries = &self.context.config().retries;
            if t1.retransmissions >= retries.init_max {
                return self.close(ClosedReason::HandshakeTimeout);
            }
            t1.back_off(now, self.context.config().timers.rto_max);
            t1.without_copies();
            // A new tag keeps answers to the last attempt apart from those to this one. The first TSN stays, for DATA may have left
            // with COOKIE ECHO.
            let tag = fresh_tag(&self.context, &[u64::from(self.tags.local), now.as_nanos()]);
            self.tags = Tags { local: tag, peer: 0 };
            self.state = State::CookieWait { t1 };
            self.control.unset(Due::COOKIE_ECHO);
            self.control.set(Due::INIT);
        }
    }

    /// Adopts the peer's parameters.
    pub(super) fn adopt_peer(
        &mut self,
        now: Instant,
        peer_tag: u32,
        parameters: &PeerParameters,
        round_trip: Option<Duration>,
    ) {
        let (outbound, inbound) = negotiated_streams(&self.context.config().limits, parameters);
        let agreed = Extensions::own(self.context.config()).common(parameters.extensions);
        let framing = agreed.framing();
        self.tags.peer = peer_tag;
        self.peer.extensions = parameters.extensions;
        self.peer.agreed = agreed;
        self.peer.first_tsn = parameters.first_tsn.0;
        self.peer.buffer_bytes = parameters.a_rwnd;
        self.streams = Streams { outbound, inbound };
        self.sender.flight.agree(framing, agreed.forwards(), agreed.forwards_apart());
        let path = &mut self.paths.primary_mut().sending;
        path.set_peer_decodes(agreed.contains(Extensions::REPAIR));
        self.sender.establish(now, path, parameters.a_rwnd, outbound, round_trip, &mut self.events);
        let config = self.context.config();
        match &mut self.receiver {
            // Messages received completely before the restart can still be read.
            Some(receiver) => receiver.reset_for_restart(config, parameters.first_tsn, inbound, framing),
            None => self.receiver = Some(Receiver::new(config, parameters.first_tsn, inbound, framing)),
        }
        if let Some(receiver) = &mut self.receiver {
            receiver.answer_batches(parameters.extensions.contains(Extensions::SPARSE_SACK));
            receiver.expect_skips(agreed.forwards());
        }
    }

    /// The handshake is complete.
    pub(super) fn enter_established(&mut self, now: Instant, round_trip: Option<Duration>) {
        self.state = State::Established;
        self.peer.answered = true;
        self.control.unset(Due::INIT);
        self.control.unset(Due::COOKIE_ECHO);
        if let Some(round_trip) = round_trip {
            let path = &mut self.paths.primary_mut().sending;
            self.sender.handle_round_trip(now, path, round_trip, &mut self.events);
        }
        self.begin_marking();
        self.paths.primary_mut().answered(now, &mut self.events);
        self.arm_heartbeats(now);
        self.open_paths(now);
        let Streams { outbound, inbound } = self.streams;
        self.events.push(Event::Established { outbound_streams: outbound, inbound_streams: inbound });
        if self.ending.requested {
            self.shutdown(now);
        }
    }

    /// Action A: the peer lost its state and came back (RFC 9260 §5.2.4).
    fn restart(&mut self, now: Instant, from: SocketAddr, cookie: Cookie) -> Result<(), PacketDropped> {
        if let State::ShutdownAckSent { .. } = self.state {
            self.control.set(Due::SHUTDOWN_ACK);
            self.control.reply_with(|| Reply::CookieWhileShuttingDown);
            return Ok(());
        }
        if self.context.config().peer_requests.restart == PeerRestart::End {
            self.close(ClosedReason::PeerRestarted);
            return Err(PacketDropped::Unexpected("restart of the peer"));
        }
        if let Some(receiver) = &mut self.receiver {
            receiver.peer_restarted();
        }
        self.control.clear();
        self.paths.close_others();
        // The destination of the INIT ACK is the only confirmed address (RFC 9260 §5.4).
        self.paths.first_mut().remote = transport_address(from, cookie.address);
        self.tags = cookie.tags;
        self.first_tsn = first_tsn(&self.context, cookie.tags.local);
        self.sender.flight.reset_for_restart(self.first_tsn, &mut self.events);
        for path in self.paths.iter_mut() {
            path.sending.reset_for_restart(now, self.context.config());
        }
        self.adopt_peer(now, cookie.tags.peer, &cookie.peer, None);
        self.peer.name_addresses(&self.paths, cookie.address, cookie.addresses);
        self.events.push(Event::PeerRestarted);
        self.control.set(Due::COOKIE_ACK);
        self.state = State::CookieWait { t1: RetryTimer::start(now, self.context.config().timers.rto_initial) };
        self.enter_established(now, None);
        if let Some(others) = &mut self.paths.others {
            others.probes.received_before = self.counters.bytes_received;
        }
        Ok(())
    }

    fn refuse_init(&mut self, from: SocketAddr, init: &Init<'_>, cause: &Cause<'_>) {
        self.answer_init(from, init, abort_packet(header_to(self.ports, init.initiate_tag), false, &[*cause]));
    }

    /// Answers an INIT during an association; its source may be forged.
    fn answer_init(&mut self, destination: SocketAddr, init: &Init<'_>, answer: Vec<u8>) {
        if answer.len() <= answer_bytes_max(COMMON_HEADER_BYTES + init.chunk_bytes()) {
            self.control.packet_to(Some(destination), answer);
        }
    }

    fn refuse_init_ack(&mut self, from: SocketAddr, init: &Init<'_>, fault: &InitFault) {
        if *fault == InitFault::NoTag {
            // With no tag of the peer's to use, its packet's is reflected (RFC 9260 §3.3.3).
            self.control.packet(abort_packet(header_to(self.ports, self.tags.local), true, &[fault.cause()]));
        } else {
            self.refuse_init(from, init, &fault.cause());
        }
        if *fault != InitFault::WindowTooSmall {
            self.close(ClosedReason::ProtocolViolation("unusable INIT ACK"));
        }
    }
}

/// Writes INIT.
///
/// It names the own addresses if it goes to `peer`, and none if it is exchanged out of band.
pub(super) fn write_init(
    packet: &mut PacketBuilder<'_>,
    context: &Context,
    peer: Option<IpAddr>,
    tag: u32,
    first_tsn: Tsn,
) -> bool {
    let config = context.config();
    let own = Extensions::own(config);
    let chunk_types = own.chunk_types();
    let mut parameters: Vec<_> = peer.map_or_else(Vec::new, |peer| context.named_to(peer, INIT_ADDRESSES_BYTES_MAX));
    parameters.extend(Extensions::announce(&chunk_types).chain(own.announce_by_parameter()));
    packet.chunk(&ChunkOut::Init(own_init(config, tag, first_tsn, &parameters)))
}

/// Streams that the two sides may send on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streams {
    pub(super) outbound: u16,
    pub(super) inbound: u16,
}

/// The peer's parameters that are still needed.
#[derive(Debug, Default)]
pub(super) struct PeerTraits {
    pub(super) extensions: Extensions,
    /// The extensions that both sides have announced; none before the handshake.
    pub(super) agreed: Extensions,
    /// Its addresses besides that of the primary path.
    pub(super) addresses: AddressBook,
    /// A handshake with it was completed.
    pub(super) answered: bool,
    /// Its INIT was received out of band.
    pub(super) out_of_band: bool,
    /// Its first TSN, from which its requests to change streams are counted.
    pub(super) first_tsn: u32,
    /// The receive window that it advertised first: its receive buffer. 0 before that.
    pub(super) buffer_bytes: u32,
}

impl PeerTraits {
    /// Takes over the addresses that an INIT or INIT ACK from `source` named, in place of those named before.
    pub(super) fn name_addresses(&mut self, paths: &Paths, source: IpAddr, named: AddressBook) {
        self.addresses = named;
        if !paths.lead_to(source) {
            self.addresses.insert_first(source);
        }
    }

    /// Returns whether an address is one of the peer's.
    pub(super) fn has_address(&self, paths: &Paths, address: IpAddr) -> bool {
        paths.lead_to(address) || self.addresses.contains(address)
    }
}

/// The tags that this side uses in an INIT ACK.
pub(super) struct Identity {
    pub(super) ports: Ports,
    pub(super) local_tag: u32,
    first_tsn: Tsn,
    pub(super) tie_tags: Option<TieTags>,
}

impl Identity {
    /// That of an association to come.
    pub(super) fn new(context: &Context, ports: Ports, local_tag: u32, tie_tags: Option<TieTags>) -> Self {
        Self { ports, local_tag, first_tsn: first_tsn(context, local_tag), tie_tags }
    }
}

/// A tag other than 0, beyond guessing (RFC 9260 §5.3.1).
pub(super) fn fresh_tag(context: &Context, input: &[u64]) -> u32 {
    context.derive_u32(Purpose::LocalTag, input).max(1)
}

/// Maximum bytes of the reply to a packet of `packet_bytes` from an unverified source.
pub(super) fn answer_bytes_max(packet_bytes: usize) -> usize {
    packet_bytes.saturating_mul(AMPLIFICATION_MAX)
}

/// Streams in both directions: the smaller of what one wants and the other allows (RFC 9260 §5.1.1).
fn negotiated_streams(limits: &Limits, peer: &PeerParameters) -> (u16, u16) {
    (limits.outbound_streams.min(peer.inbound_streams), limits.inbound_streams.min(peer.outbound_streams))
}

/// The longest cookie that can be echoed: COOKIE ECHO must be the first chunk of its packet (RFC 9260 §5.1).
pub(super) fn cookie_bytes_max(limits: &Limits) -> usize {
    (limits.packet_bytes_max.saturating_sub(COMMON_HEADER_BYTES) & !3).saturating_sub(CHUNK_HEADER_BYTES)
}

fn own_init<'a>(config: &Config, tag: u32, first_tsn: Tsn, parameters: &'a [Parameter<'a>]) -> InitOut<'a> {
    InitOut {
        initiate_tag: tag,
        a_rwnd: u32::try_from(config.limits.receive_buffer_bytes).unwrap_or(u32::MAX),
        outbound_streams: config.limits.outbound_streams,
        inbound_streams: config.limits.inbound_streams,
        initial_tsn: first_tsn,
        parameters,
    }
}

/// A packet with INIT ACK and its cookie. Nothing is remembered of it here. Of the own addresses it names as many as fit into `room_bytes`.
pub(super) fn init_ack(
    context: &Arc<Context>,
    now: Instant,
    from: IpAddr,
    identity: &Identity,
    peer: &PeerInit,
    room_bytes: usize,
) -> Vec<u8> {
    let config = context.config();
    let cookie = Cookie {
        created_at: now,
        prolonged: peer.cookie_preservative.min(PROLONGED_MAX),
        tags: Tags { local: identity.local_tag, peer: peer.tag },
        tie_tags: identity.tie_tags,
        peer: peer.parameters,
        addresses: peer.addresses.clone(),
        ports: identity.ports,
        address: from,
    };
    let sealed = cookie.seal(context);
    // Other extensions would not be used, and the reply to a short INIT must be short.
    let common = Extensions::own(config).common(peer.parameters.extensions);
    let chunk_types = common.chunk_types();
    let mut parameters = vec![Parameter::StateCookie(&sealed)];
    parameters.extend(Extensions::announce(&chunk_types));
    parameters.extend(common.announce_by_parameter());
    let mut room_for_reports = COOKIE_AND_REPORTS_BYTES_MAX.saturating_sub(sealed.len());
    let fixed = parameters.len();
    parameters.extend(peer.unrecognized.iter().map_while(|bytes| {
        room_for_reports = room_for_reports.checked_sub(PARAMETER_HEADER_BYTES + bytes.len())?;
        Some(Parameter::UnrecognizedParameter(bytes))
    }));
    let packet = |parameters: &[Parameter<'_>]| {
        let init = InitOut {
            // Never more streams than the peer takes (RFC 9260 §3.3.3).
            outbound_streams: config.limits.outbound_streams.min(peer.parameters.inbound_streams),
            ..own_init(config, identity.local_tag, identity.first_tsn, parameters)
        };
        lone_packet(header_to(identity.ports, peer.tag), &ChunkOut::InitAck(init))
    };
    let bytes = packet(&parameters);
    let left_bytes = room_bytes.saturating_sub(bytes.len()).min(room_for_reports);
    let addresses = context.named_to(from, left_bytes);
    if addresses.is_empty() {
        return bytes;
    }
    parameters.splice(fixed..fixed, addresses);
    packet(&parameters)
}

/// A packet with ABORT.
pub(super) fn abort_packet(header: CommonHeader, tag_reflected: bool, causes: &[Cause<'_>]) -> Vec<u8> {
    lone_packet(header, &ChunkOut::Abort { tag_reflected, causes })
}

/// Returns a packet that reports a stale cookie and its staleness (RFC 9260 §3.3.10.3).
pub(super) fn stale_cookie(header: CommonHeader, staleness: Duration) -> Vec<u8> {
    let staleness_us = u32::try_from(staleness.as_micros()).unwrap_or(u32::MAX);
    lone_packet(header, &ChunkOut::Error { causes: &[Cause::StaleCookie { staleness_us }] })
}

/// The round trip from INIT ACK to COOKIE ECHO, as a listener can tell it from the cookie alone. A long one is not believed:
/// it may hold a retransmission (Karn's rule).
pub(super) fn cookie_round_trip(now: Instant, cookie: &Cookie, config: &Config) -> Option<Duration> {
    let round_trip = now.saturating_duration_since(cookie.created_at);
    (round_trip < config.timers.rto_initial / 2).then_some(round_trip)
}
