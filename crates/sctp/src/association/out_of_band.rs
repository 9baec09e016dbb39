//! Associations whose INITs are exchanged out of band: inside a handshake below SCTP that authenticates both sides, such as TLS parameters, or in SDP
//! (draft-hancke-tsvwg-snap).
//!
//! Both sides send an INIT, as when two endpoints open at once (RFC 9260 §5.2.1), and there is no cookie: the layer below verifies addresses. It also
//! detects errors, so checksums are neither written nor verified.
//!
//! The opening side may attach a *proof* that completes the handshake below, such as TLS's Finished. The proof takes the place of the state cookie:
//! it is the first chunk of every packet, T1-cookie repeats it, and any packet of the peer confirms it. In contrast to a cookie it does not limit the
//! data that follows, since the peer's identity is certain.

use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use festina_recovery::rtt::AssumedRoundTrip;
use festina_units::{Duration, EcnCodepoint, Instant};

use super::addresses::AddressBook;
use super::context::Purpose;
use super::cookie::{PeerParameters, Tags};
use super::handshake::{fresh_tag, write_init};
use super::negotiation::{InitKind, PeerInit};
use super::packet::header_to;
use super::reply::Due;
use super::retry::RetryTimer;
use super::state::State;
use super::{Association, Context, Ports, Transmit, cookie};
use crate::error::{ClosedReason, PacketDropped};
use crate::event::Event;
use crate::path_id::PathId;
use crate::send::{self, FlightAgain};
use crate::wire::{COMMON_HEADER_BYTES, Chunk, CommonHeader, Packet, PacketBuilder, TAG_REFLECTED, chunk_type};

/// Longest chunk that is read.
const INIT_BYTES_MAX: usize = 1_024;

/// A peer's INIT that was received out of band, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfBandInit {
    tag: u32,
    parameters: PeerParameters,
    addresses: AddressBook,
}

/// An INIT received out of band that leads to no association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutOfBandError {
    /// The bytes are not one INIT chunk with its header.
    #[error("the bytes are not an INIT chunk")]
    NotAnInit,
    /// A mandatory field is out of range (RFC 9260 §3.3.2), or a parameter is malformed.
    #[error("the INIT chunk offers no usable association")]
    Unusable,
}

impl OutOfBandInit {
    /// Reads an INIT chunk with its chunk header, as [`Context::init_chunk`] writes it, from a peer at this address. Addresses that it
    /// names are ignored if associations have one path.
    ///
    /// # Errors
    /// The peer sent something else, or an INIT that cannot be accepted.
    pub fn read(chunk: &[u8], from: SocketAddr) -> Result<Self, OutOfBandError> {
        if chunk.len() > INIT_BYTES_MAX {
            return Err(OutOfBandError::NotAnInit);
        }
        let packet = [&[0; COMMON_HEADER_BYTES], chunk].concat();
        let packet = Packet::parse_unverified(&packet).map_err(|_| OutOfBandError::NotAnInit)?;
        let mut chunks = packet.chunks();
        let (Some(Ok(Chunk::Init(init))), None) = (chunks.next(), chunks.next()) else {
            return Err(OutOfBandError::NotAnInit);
        };
        let peer = PeerInit::read(&init, InitKind::Init, from.ip()).map_err(|_| OutOfBandError::Unusable)?;
        Ok(Self { tag: peer.tag, parameters: peer.parameters, addresses: peer.addresses })
    }

    /// Takes over the addresses of a later INIT of this peer, which the layer below has kept secret. Returns `false`, without effect, if it is of another
    /// association.
    pub fn name_addresses(&mut self, later: Self) -> bool {
        let is_same = self.tag == later.tag;
        if is_same {
            self.addresses = later.addresses;
        }
        is_same
    }
}

impl Context {
    /// Returns the INIT chunk, with its chunk header, of the association that is made with the same nonce: by [`Association::connect`] or
    /// [`Association::accept_init`]. It names the addresses of this endpoint if it has several and the chunk is for a peer at `named_to`.
    #[must_use]
    pub fn init_chunk(&self, nonce: u64, named_to: Option<IpAddr>) -> Vec<u8> {
        let tag = fresh_tag(self, &[nonce]);
        let mut bytes = Vec::new();
        let mut packet = PacketBuilder::new(&mut bytes, header_to(Ports { local: 0, peer: 0 }, 0), INIT_BYTES_MAX);
        write_init(&mut packet, self, named_to, tag, cookie::first_tsn(self, tag));
        packet.finish_unchecked();
        bytes.split_off(COMMON_HEADER_BYTES.min(bytes.len()))
    }

    /// Returns a number beyond guessing for the layer below, such as a connection ID. It follows from the nonce of an association and `number`.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "64 bits of a hash are as good as all")]
    pub fn number_below(&self, nonce: u64, number: u8) -> u64 {
        self.derive(Purpose::NumberBelow, &[nonce, number.into()]) as u64
    }
}

/// Ends an association without a packet: the layer below has learned that the peer has lost its state. Only where INITs are exchanged out of band.
pub fn reset_by_peer(association: &mut Association) {
    if association.peer.out_of_band {
        association.close(ClosedReason::PeerReset);
    }
}

/// Returns the TSNs that were used and are not acknowledged cumulatively. They count on from the first one without wrapping.
pub fn outstanding_tsns(association: &Association) -> core::ops::Range<u64> {
    send::outstanding_tsns(&association.sender)
}

impl Association {
    /// Makes an association of a peer's INIT that was received out of band. This side's INIT is that of [`Context::init_chunk`] with the same
    /// nonce. The association is established and confirms the peer's proof with its first packet. `round_trip` is the time that the exchange
    /// took, if known.
    #[must_use]
    pub fn accept_init(
        now: Instant,
        context: &Arc<Context>,
        (remote, ports): (SocketAddr, Ports),
        nonce: u64,
        init: &OutOfBandInit,
        round_trip: Option<Duration>,
    ) -> Self {
        let tag = fresh_tag(context, &[nonce]);
        let mut association = Self::new(now, context, remote, ports, Tags { local: tag, peer: 0 });
        if let Some(round_trip) = round_trip {
            association.paths.primary_mut().sending.assume_round_trip(AssumedRoundTrip::once(round_trip));
        }
        association.peer.out_of_band = true;
        association.adopt_peer(now, init.tag, &init.parameters, None);
        association.adopt_addresses(init);
        association.control.set(Due::COOKIE_ACK);
        association.enter_established(now, None);
        association
    }

    /// Adopts a peer's INIT that was received out of band, in place of an INIT ACK. Returns `false`, without effect, unless this side's INIT
    /// is unanswered.
    ///
    /// Without a proof the association is established. With one, packets that start with a COOKIE ECHO that holds `proof` are sent until the
    /// peer is heard. A proof that is too long for a packet is left out: the COOKIE ECHO is empty then.
    pub fn adopt_init(&mut self, now: Instant, init: &OutOfBandInit, proof: Option<&[u8]>) -> bool {
        let State::CookieWait { t1 } = self.state else { return false };
        let round_trip = t1.round_trip(now);
        self.peer.out_of_band = true;
        self.control.unset(Due::INIT);
        self.adopt_peer(now, init.tag, &init.parameters, round_trip);
        self.adopt_addresses(init);
        let Some(proof) = proof else {
            self.enter_established(now, None);
            return true;
        };
        let room = super::handshake::cookie_bytes_max(&self.context.config().limits) / 2;
        let cookie = if proof.len() <= room { proof.into() } else { Box::default() };
        let t1 = self.t1_cookie(now, &t1, round_trip);
        self.state = State::CookieEchoed { t1, cookie };
        self.control.set(Due::COOKIE_ECHO);
        true
    }

    fn adopt_addresses(&mut self, init: &OutOfBandInit) {
        if self.context.is_multihomed() {
            self.peer.name_addresses(&self.paths, self.remote().ip(), init.addresses.clone());
        }
    }

    /// Sends INIT again at once, because the layer below had to start over, and measures the round trip from now.
    pub fn repeat_init(&mut self, now: Instant) {
        let spread = self.context.retry_spread(self.tags.local, now);
        if let State::CookieWait { t1 } = &mut self.state {
            let sending = &self.paths.primary().sending;
            let rto = sending.rto().max(self.context.config().timers.rto_initial);
            *t1 = t1.restarted(RetryTimer::start(now, rto).with_copies(sending.control_pace()).spread(spread));
            self.control.set(Due::INIT);
        }
    }

    /// As [`handle_packet`](Self::handle_packet), for the chunks of a packet without the common header. The layer below has found the association and
    /// knows that the packet is the peer's, wherever it comes from: `path` is the one [to its source](Self::path_to), or the first.
    ///
    /// # Errors
    /// As [`handle_packet`](Self::handle_packet). INITs have to be exchanged out of band, and before.
    pub fn handle_chunks(
        &mut self,
        now: Instant,
        path: PathId,
        ecn: EcnCodepoint,
        chunks: &Bytes,
    ) -> Result<(), PacketDropped> {
        let from = self.destination(path);
        let Ports { local: destination_port, peer: source_port } = self.ports;
        // A peer without an association any more reflects the tag of this side's packets (RFC 9260 §8.5.1).
        let is_reflected = matches!(chunks[..],
            [chunk_type::ABORT | chunk_type::SHUTDOWN_COMPLETE, flags, ..] if flags & TAG_REFLECTED != 0);
        let verification_tag = if is_reflected { self.tags.peer } else { self.tags.local };
        let header = CommonHeader { source_port, destination_port, verification_tag };
        let result = if self.peer.out_of_band {
            self.receive(now, (from, ecn), chunks, &Packet::of_chunks(header, chunks))
        } else {
            Err(PacketDropped::Unexpected("chunks without a header before a handshake out of band"))
        };
        self.counters.note_received(COMMON_HEADER_BYTES + chunks.len(), result)
    }

    /// As [`poll_transmit`](Self::poll_transmit), but appends the chunks alone, without the common header. `None` before INITs were exchanged out of
    /// band.
    pub fn poll_chunks(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        if self.peer.out_of_band { self.write_packet(now, false, buffer) } else { None }
    }

    /// Sends the packets of this path to another address of the peer from now on, which the layer below has validated in `round_trip`. Another IP address is another path: its
    /// round trip, window and loss are unknown. Chunks in flight stay so, and are repaired by timers that are no longer than a fresh timeout. Reported as [`Event::PeerMoved`].
    /// Without effect if another path leads to that IP address.
    pub fn move_to(&mut self, now: Instant, path: PathId, remote: SocketAddr, round_trip: Duration) {
        let is_of_another = self.path_to(remote.ip()).is_some_and(|other| other != path);
        if self.is_closed() || !self.peer.out_of_band || is_of_another {
            return;
        }
        let Self { context, sender, paths, events, .. } = self;
        let path = paths.of_mut(path);
        path.move_to(remote, context.config(), round_trip);
        let id = path.sending.id();
        events.push(Event::PeerMoved { path: id, remote });
        // The peer has just answered, so a timeout that outages have backed off is too long.
        sender.handle_round_trip(now, &mut path.sending, round_trip, events);
        path.sending.shorten_timeout(now);
        path.confirm(events);
        paths.answered(now, id, events);
        self.close_left(now);
    }

    /// The peer may have left the address of this path: one packet is due at once that holds the earliest data in flight on it again, with at
    /// most `room_bytes` of chunks. Only where INITs are exchanged out of band.
    pub fn send_earliest_again(&mut self, now: Instant, path: PathId, room_bytes: u16) {
        if !self.is_closed() && self.peer.out_of_band {
            let elsewhere = FlightAgain::Elsewhere { room_bytes };
            self.sender.repeat_flight(now, &mut self.paths.of_mut(path).sending, elsewhere);
        }
    }

    /// Confirms a proof that was received again.
    pub fn confirm_again(&mut self) {
        if self.peer.out_of_band && self.state.sends_data() {
            self.control.set(Due::COOKIE_ACK);
        }
    }

    /// Checks the first chunk of a packet where INITs are exchanged out of band. Only then is the packet proof that the peer has this side's.
    #[cold]
    #[inline(never)]
    pub(super) fn check_out_of_band(&mut self, now: Instant, first: &Chunk<'_>) -> Result<(), PacketDropped> {
        if matches!(first, Chunk::Init(_) | Chunk::InitAck(_) | Chunk::CookieEcho(_)) {
            return Err(PacketDropped::Unexpected("handshake chunk after a handshake out of band"));
        }
        // The confirmation may be lost, and the packets after it are as good.
        let _already_established = self.handle_cookie_ack(now);
        Ok(())
    }
}
