//! Processes datagrams, and advances the handshake.

use core::net::SocketAddr;

use bytes::{Buf, Bytes, BytesMut};
use festina_sctp::{
    Association, AssociationState, Message, OutOfBandInit, PacketDropped, PathId, Ports, outstanding_tsns,
    reset_by_peer,
};
use festina_units::{Duration, EcnCodepoint, Instant};
use rustls::Side;

use super::moving::{Move, Moves};
use super::{CHALLENGE_DATAGRAM_BYTES, Hello, OVERHEAD_BYTES, SecureAssociation, further_ids};
use crate::channel::{AMPLIFICATION_MAX, Input, SPARE_BYTES_MAX, Use, answers};
use crate::error::{DatagramDropped, HandshakeError};
use crate::foreign::Foreign;
use crate::parameters::Parameters;
use crate::path::Path;
use crate::record::{OpenError, payload};
use crate::reset::token_of;
use crate::spare::next_id;
use crate::versions::read_versions;
use crate::wire::{Frame, Header, SHORT_OVERHEAD_BYTES, is_short, read_header};

/// Time during which a server recognises the client's last handshake bytes, to confirm them again.
const HANDSHAKE_KEYS_LIFETIME: Duration = Duration::from_secs(60);
/// Maximum number of answers of a half-open server. A client repeats its hello less often.
const ANSWERS_MAX: u32 = 32;
/// A SACK with three gaps, which may share the packet of repeated data.
const SACK_BYTES: usize = 28;
/// Packets with a connection ID whose place another one has taken may be late by this many times the retransmission timeout.
const LATE_RTOS: u32 = 3;
/// Chunk types (RFC 9260 §3.2).
const ABORT: u8 = 6;
const SHUTDOWN_ACK: u8 = 8;
const COOKIE_ACK: u8 = 11;
const SHUTDOWN_COMPLETE: u8 = 14;
/// The T bit of ABORT and SHUTDOWN COMPLETE (RFC 9260 §3.3.7, §3.3.13): the sender has no association any more.
pub(super) const TAG_REFLECTED: u8 = 1;

impl SecureAssociation {
    /// Processes a datagram that arrived on this path with this ECN field, and decrypts it in place. The peer's address alone is a path too, on a host that
    /// has one address. Messages are kept by reference, so `datagram` should own little more than its bytes.
    ///
    /// # Errors
    /// The reason why the datagram, or the rest of it, had no effect. If that ended the association, [`failure`](Self::failure) has details.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: impl Into<Path>,
        ecn: EcnCodepoint,
        mut datagram: BytesMut,
    ) -> Result<(), DatagramDropped> {
        let from = from.into();
        let is_elsewhere = self.half_open.is_some() && from.remote != self.ends.remote;
        let elsewhere = is_elsewhere.then_some(from);
        let result = self.channel.handle_datagram(&mut datagram, elsewhere, (now, &self.context));
        if matches!(result, Err(DatagramDropped::Open(OpenError::Duplicate))) {
            self.note_duplicate(now, from, &datagram);
        }
        if self.channel.side() == Side::Client && !self.is_adopted {
            self.look_for_foreign(&result, &datagram);
        }
        if matches!(result, Err(DatagramDropped::Unexpected)) && self.is_reset(&datagram) {
            return Ok(());
        }
        let input = result.inspect_err(|_| self.note_failure(now))?;
        if self.half_open.is_some() && from.remote == self.ends.remote {
            // The client is answered from the address that it wrote to.
            (self.ends.local, self.ends.sent_from) = (from.local, from.local);
        } else if self.is_adopted && self.context.addresses().len() > 1 {
            // From here on the caller knows where packets of the peer arrive.
            self.ends.local = None;
        }
        match self.channel.side() {
            Side::Client => self.advance_client(now),
            Side::Server => self.advance_server(now, from.remote, &input),
        }
        self.note_failure(now);
        if self.channel.error().is_some() {
            return Err(DatagramDropped::Failed);
        }
        self.take_early(input.early);
        if input.destination == Some(Use::Next) {
            let rto = self.core.as_ref().and_then(|core| core.path_stats().next()).map(|path| path.rto);
            self.channel.advance(now, &self.context, rto.unwrap_or_default() * LATE_RTOS);
        }
        let is_former = input.destination == Some(Use::Former);
        let moving = self.look_for_move(now, from, datagram.len(), (input.is_newest, is_former));
        let Some(range) = input.chunks else { return Ok(()) };
        datagram.truncate(range.end);
        datagram.advance(range.start);
        let delivered = self.deliver(now, from, ecn, datagram.freeze());
        if let (Some((path, room_bytes)), Some(core)) = (moving, &mut self.core) {
            core.send_earliest_again(now, path, room_bytes);
        }
        delivered
    }

    /// Ends the association if a datagram with another connection ID is the server's reset. Returns whether it is.
    fn is_reset(&mut self, datagram: &[u8]) -> bool {
        let (Some(claimed), Some(token)) = (token_of(datagram), self.reset_token()) else { return false };
        // In constant time, since anyone may try.
        let difference = claimed.iter().zip(token).fold(0, |sum, (one, other)| sum | (one ^ other));
        let is_reset = core::hint::black_box(difference) == 0;
        if is_reset && let Some(core) = self.core.as_mut().filter(|core| !core.is_closed()) {
            reset_by_peer(core);
            self.has_ended = true;
        }
        is_reset
    }

    /// Takes early messages, which have the same limits as others. If one exceeds them, the client sends all of them again once the handshake is complete.
    pub(super) fn take_early(&mut self, messages: Vec<Message>) {
        let limits = &self.context.config().limits;
        let fits = |message: &Message| {
            message.payload().len() <= limits.message_bytes_max && message.stream().0 < limits.inbound_streams
        };
        if messages.iter().all(fits) {
            self.early.received.extend(messages);
        } else {
            self.channel.refuse_early();
        }
    }

    /// Another protocol may answer a hello. Nothing authenticates that, so only a version negotiation with this client's connection IDs ends
    /// the attempt.
    fn look_for_foreign(&mut self, result: &Result<Input, DatagramDropped>, datagram: &[u8]) {
        let Err(DatagramDropped::Header(_)) = result else { return };
        let ids = self.channel.ids();
        match read_versions(datagram, ids.local, ids.original) {
            Some(versions) if !self.channel.has_answer() => self.channel.fail(HandshakeError::Version(versions)),
            _ => self.foreign = Some(Foreign::of(datagram)),
        }
    }

    /// The association ends with its channel.
    pub(super) fn note_failure(&mut self, now: Instant) {
        if self.channel.error().is_none() {
            return;
        }
        if let Some(core) = self.core.as_mut().filter(|core| !core.is_closed()) {
            core.abort(b"the protected channel failed");
        }
        // As for a client that was refused.
        self.has_ended |= self.half_open.as_ref().is_some_and(|half_open| half_open.answered_at.is_none());
        self.linger(now);
    }

    fn advance_client(&mut self, now: Instant) {
        let Some(core) = &mut self.core else { return };
        if self.channel.take_change() {
            core.repeat_init(now);
        }
        if self.is_adopted || !self.channel.is_complete() {
            return;
        }
        let ids = self.channel.ids();
        let init = self.channel.peer_parameters().and_then(|parameters| {
            let is_ours =
                parameters.original_destination == Some(ids.original) && parameters.initial_source == ids.peer;
            let init = OutOfBandInit::read(&parameters.init, self.ends.remote).ok().filter(|_| is_ours);
            init.map(|init| (init, parameters)).ok_or(HandshakeError::Parameters)
        });
        let (init, parameters) = match init {
            Ok(known) => known,
            Err(error) => return self.channel.fail(error),
        };
        self.channel.set_reset_token(parameters.reset_token);
        if let Some(spare) = parameters.spare.filter(|_| !self.context.is_multihomed()) {
            self.channel.take_first_spare(spare);
            self.channel.send_first_spare(next_id(&self.context, ids.local));
        }
        self.channel.limit_datagram_bytes(parameters.datagram_bytes_max);
        core.limit_packet_bytes(self.channel.wanted_bytes_max() - OVERHEAD_BYTES);
        // A COOKIE ECHO of this length keeps room for the last handshake bytes, which take its place.
        let (nonce, own) = (u64::from_be_bytes(ids.local.0), further_ids(&self.context, ids.local));
        let further: Vec<_> = own.collect();
        if let Some(of_peer) = parameters.further_ids {
            self.channel.send_further(of_peer);
            if self.context.addresses().len() > 1 {
                let (ids, mut frame): (Vec<_>, _) = (further.iter().flat_map(|id| id.0).collect(), Vec::new());
                let init = self.context.init_chunk(nonce, Some(self.ends.remote.ip()));
                Frame::Addresses { ids: &ids, init: &init }.write(&mut frame);
                self.channel.send_addresses(frame);
            }
        }
        self.channel.take_further(further);
        let proof = vec![0; self.channel.proof_bytes().saturating_sub(4)];
        self.is_adopted = core.adopt_init(now, &init, Some(&proof));
        let sent = core::mem::take(&mut self.early.sent);
        if usize::from(self.channel.early_received()) < sent.len() {
            for message in sent {
                // If the buffer is full or the stream was not negotiated, the message is treated as one that expired unsent.
                let _not_sent = core.send(now, message);
            }
        }
    }

    fn advance_server(&mut self, now: Instant, from: SocketAddr, input: &Input) {
        let Some(half_open) = &mut self.half_open else {
            if input.is_repeated
                && let Some(core) = &mut self.core
            {
                core.confirm_again();
            }
            return;
        };
        if let Some(token) = &input.token
            && half_open.proofs.is_valid(now, from, self.channel.ids().original, token)
        {
            self.channel.verify_address();
        }
        if self.channel.is_complete() {
            return self.establish(now);
        }
        if half_open.hello.is_none() {
            match self.read_offer() {
                Ok(Some(hello)) => self.set_hello(hello),
                Ok(None) => {}
                Err(error) => self.channel.fail(error),
            }
        } else if self.channel.has_hello_retry() || input.is_repeated {
            self.answer(now);
        }
    }

    /// The hello once it is complete, before TLS has read it.
    fn read_offer(&mut self) -> Result<Option<(Hello, OutOfBandInit)>, HandshakeError> {
        let Some(offer) = self.channel.tls().offer() else { return Ok(None) };
        let parameters = Parameters::read(&offer.parameters).map_err(|_| HandshakeError::Parameters)?;
        let init = OutOfBandInit::read(&parameters.init, self.ends.remote).map_err(|_| HandshakeError::Parameters)?;
        let (Some((client, server)), true) = (parameters.ports, parameters.initial_source == self.channel.ids().peer)
        else {
            return Err(HandshakeError::Parameters);
        };
        let hello = Hello {
            token: parameters.token,
            ports: Ports { local: server, peer: client },
            server_name: offer.server_name.clone(),
            alpn: offer.alpn.clone(),
            is_address_proved: self.is_address_proved(),
        };
        self.channel.limit_datagram_bytes(parameters.datagram_bytes_max);
        Ok(Some((hello, init)))
    }

    fn set_hello(&mut self, hello: (Hello, OutOfBandInit)) {
        self.ports = hello.0.ports;
        if let Some(half_open) = &mut self.half_open {
            half_open.hello = Some(hello);
        }
    }

    /// Sends the server's handshake bytes, or a retry if the client's address is not proved and they are too long for that.
    pub(super) fn answer(&mut self, now: Instant) {
        let Some(half_open) = self.half_open.as_mut().filter(|half_open| half_open.is_admitted) else { return };
        if half_open.answers >= ANSWERS_MAX {
            return;
        }
        if self.channel.has_hello_retry() {
            // TLS asks for another hello before it reads the parameters (RFC 8446 §4.1.4).
            self.channel.queue_answer();
            return;
        }
        half_open.answers += 1;
        if self.channel.queue_answer() {
            half_open.answered_at = (half_open.answers == 1).then_some(now);
        } else {
            half_open.answers -= 1;
            self.queue_retry(now);
        }
    }

    /// Asks for a proof of the address from which the latest datagram came.
    pub(super) fn queue_retry(&mut self, now: Instant) {
        let to = self.path().remote;
        if let Some(half_open) = &self.half_open {
            let token = half_open.proofs.token(now, to, self.channel.ids().original);
            self.channel.queue_retry(now, &token);
        }
    }

    /// The client is authenticated.
    fn establish(&mut self, now: Instant) {
        let Some(half_open) = self.half_open.take() else { return };
        let Some((hello, mut init)) = half_open.hello.filter(|_| half_open.is_admitted) else {
            return self.channel.fail(HandshakeError::Parameters);
        };
        if let Some(named) = self.channel.take_addresses() {
            let named = OutOfBandInit::read(&named, self.ends.remote);
            if !named.is_ok_and(|named| init.name_addresses(named)) {
                return self.channel.fail(HandshakeError::Parameters);
            }
        }
        self.channel.take_further(further_ids(&self.context, self.channel.ids().local).collect());
        if self.context.is_multihomed() {
            self.channel.keep_ids();
        }
        let round_trip = half_open.answered_at.map(|at| now.saturating_duration_since(at));
        let to = (self.ends.remote, hello.ports);
        let mut core = Association::accept_init(now, &self.context, to, half_open.nonce, &init, round_trip);
        core.limit_packet_bytes(self.channel.wanted_bytes_max() - OVERHEAD_BYTES);
        self.core = Some(Box::new(core));
        self.look_for_several_paths();
        // If the last bytes of the client came from elsewhere, it has to show that it receives there.
        self.channel.end_aside();
        self.moves = Some(Box::new(Moves::new(self.channel.ids().local, half_open.resets)));
        self.is_adopted = true;
        self.channel.release_list(now);
        self.handshake_ends_at = Some(now + HANDSHAKE_KEYS_LIFETIME);
    }

    /// An authentic datagram may come from another address than those before, or to another one. If it is the newest and the first one on its path, returns
    /// the path of the core that may lead there now, and the bytes of chunks that may be sent there behind the challenge.
    ///
    /// An address that the client has not named may take the place of the first path's. A client that has named several may use another port at each
    /// that is confirmed, since packets to one that is not may be unwanted.
    ///
    /// A packet with a former connection ID is late: it may come from the path in use, but makes no candidate.
    fn look_for_move(
        &mut self,
        now: Instant,
        from: Path,
        bytes: usize,
        (is_newest, is_former): (bool, bool),
    ) -> Option<(PathId, u16)> {
        let to = self.channel.id_elsewhere().filter(|_| !is_former);
        // Most clients need no state for a server that does not move.
        if self.moves.is_none() && to.is_none() && (from.remote == self.ends.remote || !self.may_follow(from)) {
            return None;
        }
        let (id, from) = self.arrival(from);
        let (_, home) = self.arrival(self.path());
        let core = self.core.as_ref().filter(|core| !core.is_closed())?;
        let moves = self.moves.get_or_insert_with(|| Box::new(Moves::new(self.channel.ids().local, None)));
        if id != PathId::PRIMARY && !core.is_confirmed(id) || is_former && from != home {
            return None;
        }
        let home = if id == PathId::PRIMARY { home } else { core.destination(id).into() };
        let round_trip = || core.path_stats().nth(id.index())?.srtt;
        if !moves.heard(now, ((id, home), round_trip), (from, bytes), (is_newest, to)) {
            return None;
        }
        let spare_bytes = to.map_or(0, |_| SPARE_BYTES_MAX);
        let beside_bytes = CHALLENGE_DATAGRAM_BYTES + spare_bytes + SHORT_OVERHEAD_BYTES + SACK_BYTES;
        Some((id, u16::try_from((bytes * AMPLIFICATION_MAX).saturating_sub(beside_bytes)).unwrap_or(u16::MAX)))
    }

    /// Returns whether a client may follow its server to this address, which is none of a path.
    #[cold]
    fn may_follow(&self, from: Path) -> bool {
        let id = self.path_to(from.remote);
        self.is_confirmed && self.core.as_ref().is_some_and(|core| core.destination(id) != from.remote)
    }

    /// Returns the path of the core on which a datagram came, and its addresses. Its own address does not count on a client, and if the caller chooses
    /// it for packets there.
    fn arrival(&self, from: Path) -> (PathId, Path) {
        let id = self.path_to(from.remote);
        let is_client = self.channel.side() == Side::Client;
        let is_chosen = is_client || id != PathId::PRIMARY || self.context.addresses().len() > 1;
        (id, Path { local: from.local.filter(|_| !is_chosen), ..from })
    }

    /// An authentic packet has arrived again. It shows no more than that packets arrive on this path, and the nonces in it: a copy of a tap may have
    /// overtaken it.
    fn note_duplicate(&mut self, now: Instant, from: Path, datagram: &[u8]) {
        let use_of = |id| self.channel.use_of(id, now, &self.context);
        let is_former = matches!(read_header(datagram), Ok(Header::Short(id)) if use_of(id) == Some(Use::Former));
        self.look_for_move(now, from, datagram.len(), (false, is_former));
        if let Some(chunks) = payload(datagram).filter(|_| is_short(datagram)) {
            self.follow_answers(now, from, chunks);
        }
    }

    /// Sends on another path from now on, if the client has just returned a nonce that was sent there.
    fn follow_answers(&mut self, now: Instant, from: Path, chunks: &[u8]) {
        let (_, from) = self.arrival(from);
        let Some(moves) = &mut self.moves else { return };
        let nonces: Vec<u64> = answers(chunks).collect();
        if let Some(moved) = moves.answered(now, from, &nonces) {
            self.follow(now, moved);
        }
    }

    /// Sends what a path of the core carries elsewhere from now on.
    pub(super) fn follow(&mut self, now: Instant, moved: Move) {
        let Move { id, path: Path { remote, local }, round_trip, to } = moved;
        if let Some(to) = to {
            self.channel.settle(to);
        }
        if id == PathId::PRIMARY {
            self.ends.local = local;
        }
        if let Some(core) = self.core.as_mut().filter(|core| core.destination(id) != remote) {
            core.move_to(now, id, remote, round_trip);
        }
    }

    /// Gives the chunks of an authentic packet to the association.
    fn deliver(
        &mut self,
        now: Instant,
        from: Path,
        ecn: EcnCodepoint,
        mut chunks: Bytes,
    ) -> Result<(), DatagramDropped> {
        self.follow_answers(now, from, &chunks);
        // Anyone on the path can pass on a challenge that was sent to another address, but not in the name of the server from there.
        let path = self.path_to(from.remote);
        let of_server = self.core.as_ref().filter(|core| core.destination(path) == from.remote).map(|_| path);
        let late = self.channel.take_late(&chunks, of_server).inspect_err(|_| self.note_failure(now))?;
        chunks.advance(late);
        self.follow_names(now);
        if chunks.is_empty() && self.channel.side() == Side::Client && !self.is_confirmed {
            // A challenge alone shows as well that the server has this side's last handshake bytes.
            chunks = Bytes::from_static(&[COOKIE_ACK, 0, 0, 4]);
        }
        let Some(core) = self.core.as_mut().filter(|_| self.is_adopted && !chunks.is_empty()) else { return Ok(()) };
        if core.is_closed() {
            self.answer_late(path, &chunks);
            return Err(DatagramDropped::Chunks(PacketDropped::Closed));
        }
        // The channel authenticates the sender at any address.
        core.handle_chunks(now, path, ecn, &chunks)?;
        self.channel.note_outstanding(outstanding_tsns(core));
        if self.channel.side() == Side::Client && !self.is_confirmed {
            // The server has this side's last handshake bytes, since it has sent chunks.
            self.is_confirmed = core.state() != AssociationState::CookieEchoed;
            if self.is_confirmed {
                self.channel.forget_handshake();
                self.channel.release_list(now);
                self.look_for_several_paths();
            }
        }
        if self.is_closed() {
            self.linger(now);
        }
        Ok(())
    }

    /// Packets of either side may take several paths.
    pub(super) fn look_for_several_paths(&mut self) {
        let are_several = self.core.as_ref().is_some_and(|core| core.paths().nth(1).is_some());
        if are_several || self.context.addresses().len() > 1 {
            self.channel.expect_several_paths();
        }
    }

    /// Answers a peer that has missed the end, once for each of its packets (RFC 9260 §8.4).
    fn answer_late(&mut self, path: PathId, chunks: &[u8]) {
        let answer = match chunks.first() {
            Some(&SHUTDOWN_ACK) => SHUTDOWN_COMPLETE,
            Some(&(ABORT | SHUTDOWN_COMPLETE)) | None => return,
            Some(_) => ABORT,
        };
        if self.ends_at.is_some() {
            self.late_answer = Some((answer, path));
        }
    }
}
