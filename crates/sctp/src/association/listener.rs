//! Answers packets that belong to no association: handshakes, without keeping anything (RFC 9260 §5.1), and those out of
//! the blue (§8.4).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use festina_units::{Duration, EcnCodepoint, Instant};

use super::Association;
use super::addresses::{ADDRESSES_MAX, all_named, is_unicast};
use super::context::{Context, Ports, address_words};
use super::cookie::{Bearer, Cookie, CookieVerdict, TieTags, addresses_in};
use super::handshake::{Identity, abort_packet, answer_bytes_max, fresh_tag, init_ack, stale_cookie};
use super::negotiation::{InitFault, InitKind, PeerInit};
use super::packet::lone_packet;
use crate::error::PacketDropped;
use crate::wire::{Cause, Chunk, ChunkOut, CommonHeader, Init, Packet};

/// The part of an endpoint that has no memory: it builds associations out of cookies, and nothing else.
#[derive(Debug)]
pub struct Listener {
    context: Arc<Context>,
    ports: Vec<u16>,
}

/// The result of a packet that matched no association.
#[derive(Debug)]
#[non_exhaustive]
pub enum Incoming {
    /// Nothing is to be done.
    Ignored(PacketDropped),
    /// One packet was appended to the reply buffer: send it to where the packet came from.
    Reply,
    /// A new association stands; drain it like any other.
    Accepted(Box<Association>),
}

/// A packet that matches no association.
struct Stray<'p> {
    now: Instant,
    from: SocketAddr,
    header: CommonHeader,
    bytes: &'p Bytes,
}

/// Whether the endpoint has room for another association.
#[derive(Clone, Copy)]
enum Room<'t> {
    /// There is room; the function returns whether a tag is in use.
    Free(&'t dyn Fn(u32) -> bool),
    /// There is no room.
    None,
}

/// What kind of packet came out of the blue, in the order in which RFC 9260 §8.4 asks.
enum Kind<'p> {
    Silent(&'static str),
    Init(Init<'p>),
    CookieEcho(&'p [u8]),
    ShutdownAck,
    Other,
}

impl Listener {
    /// A listener on no port yet: every INIT is refused.
    pub fn new(context: &Arc<Context>) -> Self {
        Self { context: Arc::clone(context), ports: Vec::new() }
    }

    /// The endpoint has these addresses from now on.
    pub fn use_addresses(&mut self, addresses: &[IpAddr]) {
        self.context = self.context.with_addresses(addresses);
    }

    /// Accepts associations on an SCTP port from now on.
    pub fn listen(&mut self, port: u16) {
        if !self.ports.contains(&port) {
            self.ports.push(port);
        }
    }

    /// Refuses associations on an SCTP port from now on; those that stand are not touched.
    pub fn stop(&mut self, port: u16) {
        self.ports.retain(|&open| open != port);
    }

    /// Handles a packet that matches no association. `tag_in_use` returns whether a live association has this local tag.
    ///
    /// A reply is at most 3 times as long as the packet.
    pub fn handle_packet(
        &self,
        now: Instant,
        from: SocketAddr,
        packet: &Bytes,
        tag_in_use: &dyn Fn(u32) -> bool,
        reply: &mut Vec<u8>,
    ) -> Incoming {
        self.receive(now, from, packet, Room::Free(tag_in_use), reply)
    }

    /// As [`handle_packet`](Self::handle_packet), for an endpoint that accepts no more associations: an INIT, or a COOKIE ECHO with a valid cookie,
    /// is answered by an ABORT with the cause "Out of Resource" (RFC 9260 §5.1, §3.3.10.4).
    pub fn refuse_packet(&self, now: Instant, from: SocketAddr, packet: &Bytes, reply: &mut Vec<u8>) -> Incoming {
        self.receive(now, from, packet, Room::None, reply)
    }

    /// Appends an ABORT with this reason (RFC 9260 §3.3.10.12) to `reply` if the packet is an INIT, for an endpoint that takes no plain SCTP. The
    /// answer has at most three times the bytes of the packet. Returns `false`, without effect, for any other packet.
    #[must_use]
    pub fn refuse_init(from: SocketAddr, packet: &[u8], reason: &[u8], reply: &mut Vec<u8>) -> bool {
        let Ok(parsed) = Packet::parse(packet) else { return false };
        let Kind::Init(init) = classify(&parsed) else { return false };
        let header = CommonHeader { verification_tag: init.initiate_tag, ..reversed(&parsed.header) };
        let answer = abort_packet(header, false, &[Cause::UserInitiatedAbort(reason)]);
        let is_answered =
            init.initiate_tag != 0 && is_unicast(from.ip()) && answer.len() <= answer_bytes_max(packet.len());
        if is_answered {
            reply.extend_from_slice(&answer);
        }
        is_answered
    }

    fn receive(&self, now: Instant, from: SocketAddr, packet: &Bytes, room: Room<'_>, reply: &mut Vec<u8>) -> Incoming {
        let parsed = match Packet::parse(packet) {
            Ok(parsed) => parsed,
            Err(error) => return Incoming::Ignored(PacketDropped::Damaged(error)),
        };
        if !is_unicast(from.ip()) {
            return Incoming::Ignored(PacketDropped::Unexpected("packet from a non-unicast address"));
        }
        let stray = Stray { now, from, header: parsed.header, bytes: packet };
        let answer = match classify(&parsed) {
            Kind::Silent(what) => Err(PacketDropped::Unexpected(what)),
            Kind::Init(init) => self.answer_init(&stray, &init, room),
            Kind::CookieEcho(echoed) => match self.answer_cookie(&stray, echoed, room) {
                Ok(Opened::Association(association)) => return Incoming::Accepted(association),
                Ok(Opened::Answer(answer)) => Ok(answer),
                Err(dropped) => Err(dropped),
            },
            Kind::ShutdownAck => {
                Ok(lone_packet(reversed(&stray.header), &ChunkOut::ShutdownComplete { tag_reflected: true }))
            }
            Kind::Other => Ok(abort_packet(reversed(&stray.header), true, &[])),
        };
        match answer {
            Ok(bytes) if bytes.len() > answer_bytes_max(packet.len()) => {
                Incoming::Ignored(PacketDropped::Unexpected("packet that is far shorter than its answer"))
            }
            Ok(bytes) => {
                reply.extend_from_slice(&bytes);
                Incoming::Reply
            }
            Err(dropped) => Incoming::Ignored(dropped),
        }
    }

    fn answer_init(&self, stray: &Stray<'_>, init: &Init<'_>, room: Room<'_>) -> Result<Vec<u8>, PacketDropped> {
        let Stray { now, from, header, .. } = *stray;
        let to_tag = |tag| CommonHeader { verification_tag: tag, ..reversed(&header) };
        let peer = match PeerInit::read(init, InitKind::Init, from.ip()) {
            Ok(peer) => peer,
            Err(InitFault::NoTag) => return Err(PacketDropped::Unexpected("INIT with tag 0")),
            Err(fault) => return Ok(abort_packet(to_tag(init.initiate_tag), false, &[fault.cause()])),
        };
        if !self.ports.contains(&header.destination_port) {
            return Ok(abort_packet(to_tag(peer.tag), false, &[]));
        }
        let Room::Free(tag_in_use) = room else {
            return Ok(abort_packet(to_tag(peer.tag), false, &[Cause::OutOfResource]));
        };
        let ports = Ports { local: header.destination_port, peer: header.source_port };
        let local_tag = self.unused_tag(now, from, ports, peer.tag, tag_in_use);
        let identity = Identity::new(&self.context, ports, local_tag, None);
        Ok(init_ack(&self.context, now, from.ip(), &identity, &peer, answer_bytes_max(stray.bytes.len())))
    }

    /// A tag that no live association has, found without a random source or state.
    fn unused_tag(
        &self,
        now: Instant,
        from: SocketAddr,
        ports: Ports,
        peer_tag: u32,
        tag_in_use: &dyn Fn(u32) -> bool,
    ) -> u32 {
        const ATTEMPTS: u64 = 8;
        let [ip_low, ip_high, udp_port] = address_words(from);
        let ports = u64::from(ports.local) << 32 | u64::from(ports.peer);
        let tag = |attempt| {
            let tag_and_attempt = u64::from(peer_tag) << 32 | attempt;
            fresh_tag(&self.context, &[ip_low, ip_high, udp_port, ports, tag_and_attempt, now.as_nanos()])
        };
        // That all attempts hit live tags is out of the question; if they did, COOKIE ECHO would be refused.
        (0..ATTEMPTS).map(tag).find(|tag| !tag_in_use(*tag)).unwrap_or_else(|| tag(ATTEMPTS))
    }

    fn answer_cookie(&self, stray: &Stray<'_>, echoed: &[u8], room: Room<'_>) -> Result<Opened, PacketDropped> {
        let Stray { now, from, header, bytes } = *stray;
        let ports = Ports { local: header.destination_port, peer: header.source_port };
        let bearer = Bearer { tag: header.verification_tag, ports, address: from.ip() };
        let to_peer = |tag| CommonHeader { verification_tag: tag, ..reversed(&header) };
        let cookie = match Cookie::open(&self.context, now, &bearer, echoed) {
            CookieVerdict::Forged => return Err(PacketDropped::Unexpected("forged cookie")),
            CookieVerdict::Stale(cookie, staleness) => {
                return Ok(Opened::Answer(stale_cookie(to_peer(cookie.tags.peer), staleness)));
            }
            // The association that created it was abandoned.
            CookieVerdict::Valid(cookie)
                if cookie.tie_tags == Some(TieTags::of_opening(&self.context, cookie.tags.local)) =>
            {
                return Ok(Opened::Answer(stale_cookie(to_peer(cookie.tags.peer), Duration::ZERO)));
            }
            CookieVerdict::Valid(cookie) => cookie,
        };
        let has_room = match room {
            Room::Free(tag_in_use) => !tag_in_use(cookie.tags.local),
            Room::None => false,
        };
        if !has_room || !self.ports.contains(&ports.local) {
            let refusal = abort_packet(to_peer(cookie.tags.peer), false, &[Cause::OutOfResource]);
            return Ok(Opened::Answer(refusal));
        }
        let mut association = Box::new(Association::accept(now, &self.context, from, &cookie));
        // The cookie confirms the association created from it, and DATA may follow it in the packet. Packets with COOKIE ECHO are not ECN-capable.
        association.handle_packet(now, from, EcnCodepoint::NotCapable, bytes)?;
        Ok(Opened::Association(association))
    }
}

/// Returns the addresses by which the association is found that an INIT or a COOKIE ECHO from elsewhere belongs to: those that the INIT names, or that the
/// cookie holds (RFC 9260 §5.1.2 D). Nothing of the packet is verified, and any other has none.
pub fn named_addresses(packet: &[u8]) -> Vec<IpAddr> {
    let first = Packet::parse_unverified(packet).ok().and_then(|packet| packet.chunks().next());
    match first {
        Some(Ok(Chunk::Init(init))) => {
            all_named(&init).map(|(address, _)| address).filter(|&it| is_unicast(it)).take(ADDRESSES_MAX).collect()
        }
        Some(Ok(Chunk::CookieEcho(cookie))) => addresses_in(cookie),
        _ => Vec::new(),
    }
}

/// The result of a genuine cookie.
enum Opened {
    Association(Box<Association>),
    Answer(Vec<u8>),
}

fn classify<'p>(packet: &Packet<'p>) -> Kind<'p> {
    let mut first = None;
    let mut count = 0_usize;
    let mut shutdown_ack = false;
    for chunk in packet.chunks() {
        let Ok(chunk) = chunk else { break };
        count += 1;
        match chunk {
            Chunk::Abort(_) => return Kind::Silent("ABORT out of the blue"),
            Chunk::ShutdownComplete { .. } => return Kind::Silent("SHUTDOWN COMPLETE out of the blue"),
            Chunk::CookieAck => return Kind::Silent("COOKIE ACK out of the blue"),
            Chunk::Error(errors) if errors.causes().any(|cause| matches!(cause, Ok(Cause::StaleCookie { .. }))) => {
                return Kind::Silent("stale cookie error out of the blue");
            }
            Chunk::ShutdownAck => shutdown_ack = true,
            _ => {}
        }
        first.get_or_insert(chunk);
    }
    match first {
        None => Kind::Silent("packet without a whole chunk"),
        Some(Chunk::Init(init)) if packet.header.verification_tag == 0 && count == 1 => Kind::Init(init),
        Some(Chunk::Init(_)) => Kind::Silent("INIT with a verification tag or with company"),
        _ if packet.header.verification_tag == 0 => Kind::Silent("verification tag 0"),
        Some(Chunk::CookieEcho(cookie)) => Kind::CookieEcho(cookie),
        _ if shutdown_ack => Kind::ShutdownAck,
        _ => Kind::Other,
    }
}

/// The header of an answer that reflects the verification tag.
fn reversed(header: &CommonHeader) -> CommonHeader {
    CommonHeader {
        source_port: header.destination_port,
        destination_port: header.source_port,
        verification_tag: header.verification_tag,
    }
}
