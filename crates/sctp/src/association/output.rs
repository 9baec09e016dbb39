//! Puts packets together: control chunks first, then SACK, then DATA (RFC 9260 §6.10).

use std::net::SocketAddr;

use festina_units::{EcnCodepoint, Instant};

use super::control::write_shutdown;
use super::extensions::Extensions;
use super::handshake::write_init;
use super::packet::header_to;
use super::paths::Freight;
use super::reply::Due;
use super::state::State;
use super::{Association, Fragmentation, Transmit};
use crate::event::Event;
use crate::path_id::PathId;
use crate::send::Errand;
use crate::wire::{COMMON_HEADER_BYTES, ChunkOut, PacketBuilder};

/// When a packet is sent, and on which path.
type Departure = (Instant, PathId);

/// The length of a packet, 0 if nothing came of it, and its ECN field.
pub(super) type Written = (usize, EcnCodepoint);

impl Association {
    /// Appends the next packet to `buffer`, with or without its common header, if there is one to send now.
    #[inline]
    pub(super) fn write_packet(&mut self, now: Instant, has_header: bool, buffer: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(packet) = self.control.pop_packet() {
            let bytes = packet.bytes.get(if has_header { 0 } else { COMMON_HEADER_BYTES }..).unwrap_or_default();
            buffer.extend_from_slice(bytes);
            let destination = packet.destination.unwrap_or(self.paths.of(self.paths.repairs()).remote);
            return self.note_packet(destination, has_header, (bytes.len(), EcnCodepoint::NotCapable));
        }
        if let Some(transmit) = self.write_probe(now, has_header, buffer) {
            return Some(transmit);
        }
        if self.paths.are_several() {
            let (path, written) = self.build_on_any_path(now, has_header, buffer)?;
            return self.note_packet_on(path, has_header, written);
        }
        let errand = self.reason_to_write::<false>(now, PathId::PRIMARY)?;
        let written = self.build_packet::<false>((now, PathId::PRIMARY), errand, has_header, buffer);
        self.note_packet_on(PathId::PRIMARY, has_header, written)
    }

    /// Counts a packet, unless nothing came of it.
    #[inline]
    pub(super) fn note_packet(
        &mut self,
        destination: SocketAddr,
        has_header: bool,
        (len, ecn): Written,
    ) -> Option<Transmit> {
        (len > 0).then(|| {
            self.counters.packets_sent += 1;
            let header_bytes = if has_header { 0 } else { COMMON_HEADER_BYTES };
            self.counters.bytes_sent += (header_bytes + len) as u64;
            Transmit::new(destination, len, ecn)
        })
    }

    /// As [`note_packet`](Self::note_packet), for a packet of this path. One with a chunk that was cut before the packet size was lowered is fragmented.
    #[inline]
    fn note_packet_on(&mut self, path: PathId, has_header: bool, written: Written) -> Option<Transmit> {
        let (remote, packet_bytes_max) = {
            let path = self.paths.of(path);
            (path.remote, path.sending.packet_bytes_max())
        };
        let transmit = self.note_packet(remote, has_header, written)?;
        let header_bytes = if has_header { 0 } else { COMMON_HEADER_BYTES };
        let is_too_large = header_bytes + transmit.len > packet_bytes_max;
        Some(if is_too_large { Transmit { fragmentation: Fragmentation::Needed, ..transmit } } else { transmit })
    }

    /// Builds a packet on the first of several paths that has a reason for one.
    #[cold]
    #[inline(never)]
    fn build_on_any_path(
        &mut self,
        now: Instant,
        has_header: bool,
        buffer: &mut Vec<u8>,
    ) -> Option<(PathId, (usize, EcnCodepoint))> {
        if let Some((path, len)) = self.write_copy(buffer) {
            return Some((path, (len, EcnCodepoint::NotCapable)));
        }
        self.paths.ids().find_map(|path| {
            let errand = self.reason_to_write::<true>(now, path)?;
            let (may_stray, begin) = (self.may_stray(path), buffer.len());
            self.note_errand(path, errand);
            let written = self.build_packet::<true>((now, path), errand, has_header, buffer);
            let packet = buffer.get(begin..).filter(|_| written.0 > 0)?;
            if may_stray {
                self.share(now, path, errand, has_header, packet);
            }
            Some((path, written))
        })
    }

    /// Lowers the packet size of the path, because the system refuses a packet that is larger than `bytes`. Reported as
    /// [`Event::PacketSizeLimited`]; a size that is not below the present one changes nothing.
    ///
    /// Chunks that were cut before keep their TSN and their size (RFC 9260 §6.9): they are sent again in a packet that is larger than `bytes`,
    /// which then needs IP fragmentation.
    pub fn limit_packet_bytes(&mut self, bytes: usize) {
        let sending = &mut self.paths.primary_mut().sending;
        if sending.limit_packet_bytes(bytes) {
            let packet_bytes_max = sending.packet_bytes_max();
            self.events.push(Event::PacketSizeLimited { path: sending.id(), packet_bytes_max });
        }
    }

    /// Returns the sender's errand if a packet may be needed on this path. Drivers ask until there is none, so the usual negative answer is cheap.
    #[inline(always)]
    fn reason_to_write<const SEVERAL: bool>(&self, now: Instant, path: PathId) -> Option<Errand> {
        match self.state {
            State::Closed => None,
            State::CookieWait { .. } => self.control.is_set(Due::INIT).then(Errand::default),
            // Until COOKIE ACK arrives, only COOKIE ECHO with DATA that fits is sent (RFC 9260 §5.1 C), and the answer to a HEARTBEAT, which shows
            // that COOKIE ECHO has arrived (§8.3).
            State::CookieEchoed { .. } if !self.control.is_set(Due::COOKIE_ECHO) && !self.control.has_replies() => {
                if !self.peer.out_of_band {
                    return None;
                }
                let errand = self.sender.errand(now, &self.paths.one::<SEVERAL>(path).sending);
                errand.is_due().then_some(errand)
            }
            _ => {
                let Freight { control, sack, data } = self.paths.freight::<SEVERAL>(path, self.control.answers());
                let (id, path) = (path, self.paths.one::<SEVERAL>(path));
                let may_follow = data && self.data_may_follow();
                let errand = if may_follow { self.sender.errand(now, &path.sending) } else { Errand::default() };
                let has_reason = errand.is_due()
                    || self.control.wants_packet() && (control && self.control.is_any_due() || self.answers_on(id))
                    || path.heartbeat_ready() && (!SEVERAL || self.may_probe(now, id))
                    || sack && self.receiver.as_ref().is_some_and(|receiver| receiver.sack_wanted());
                has_reason.then_some(errand)
            }
        }
    }

    /// Returns whether the next packet may hold DATA.
    #[inline]
    fn data_may_follow(&self) -> bool {
        let opens = || self.control.is_set(Due::COOKIE_ECHO) || self.peer.out_of_band;
        self.state.sends_data() || self.state.is_cookie_echoed() && opens()
    }

    /// Returns the length of the packet, or 0 if nothing came of it, and whether routers may mark it.
    #[inline(never)]
    fn build_packet<const SEVERAL: bool>(
        &mut self,
        (now, path): Departure,
        errand: Errand,
        has_header: bool,
        buffer: &mut Vec<u8>,
    ) -> (usize, EcnCodepoint) {
        let packet_bytes_max = self.paths.one::<SEVERAL>(path).sending.packet_bytes_max();
        // With an INIT waiting, the peer's tag is not known yet (RFC 9260 §8.5.1 A).
        let is_init = matches!(self.state, State::CookieWait { .. });
        let header = header_to(self.ports, if is_init { 0 } else { self.tags.peer });
        let mut packet = if has_header {
            PacketBuilder::new(buffer, header, packet_bytes_max)
        } else {
            PacketBuilder::without_header(buffer, packet_bytes_max)
        };
        if is_init {
            self.control.unset(Due::INIT);
            let peer = self.paths.first().remote.ip();
            write_init(&mut packet, &self.context, Some(peer), self.tags.local, self.first_tsn);
            (packet.finish(), EcnCodepoint::NotCapable)
        } else {
            // The peer may have forgotten all that was agreed on when COOKIE ECHO comes (RFC 9653 §5.2).
            let is_opening = self.control.is_set(Due::COOKIE_ECHO);
            let ecn = self.write_chunks::<SEVERAL>((now, path), errand, &mut packet);
            let is_unchecked =
                self.peer.out_of_band || !is_opening && self.peer.agreed.contains(Extensions::ZERO_CHECKSUM);
            (if is_unchecked { packet.finish_unchecked() } else { packet.finish() }, ecn)
        }
    }

    #[inline(always)]
    fn write_chunks<const SEVERAL: bool>(
        &mut self,
        (now, id): Departure,
        errand: Errand,
        packet: &mut PacketBuilder<'_>,
    ) -> EcnCodepoint {
        let Freight { control, sack, data } = self.paths.freight::<SEVERAL>(id, self.control.answers());
        let data_may_follow = data && self.data_may_follow();
        let mut optional_bytes = None;
        if let State::CookieEchoed { cookie, .. } = &self.state
            && (self.control.is_set(Due::COOKIE_ECHO) || self.peer.out_of_band)
        {
            packet.chunk(&ChunkOut::CookieEcho(cookie));
            optional_bytes = (!self.control.is_set(Due::COOKIE_ECHO)).then(|| packet.remaining());
            self.control.unset(Due::COOKIE_ECHO);
        }
        let ends_handshake = control && self.control.is_set(Due::COOKIE_ACK) && packet.chunk(&ChunkOut::CookieAck);
        if ends_handshake {
            self.control.unset(Due::COOKIE_ACK);
        }
        if self.control.has_replies() {
            self.control.write_replies(packet, |reply| self.paths.answer_on(reply.path(), id));
        }
        if control && self.control.is_set(Due::RE_CONFIG) {
            self.write_reconfiguration(now, id, packet);
        }
        if let Some(marks) = self.control.marks().filter(|_| control) {
            marks.write_cwr(packet);
        }
        if self.paths.one::<SEVERAL>(id).heartbeat_ready() && (!SEVERAL || self.may_probe(now, id)) {
            self.write_heartbeat(now, id, packet);
        }
        let path = self.paths.one_mut::<SEVERAL>(id);
        if let Some(receiver) = &mut self.receiver
            && sack
            && (receiver.sack_wanted() || receiver.sack_useful() && errand.is_due())
        {
            if let Some(marks) = self.control.marks() {
                marks.write_ecne(packet);
            }
            receiver.write_sack(self.peer.agreed.contains(Extensions::NR_SACK), packet);
        }
        let mut ecn = EcnCodepoint::NotCapable;
        if data_may_follow && (errand.is_due() || !SEVERAL || path.sending.duties().new_data) {
            let mut filled = self.sender.fill(now, &mut path.sending, errand, packet, &mut self.events);
            if filled.chunks == 0 && optional_bytes == Some(packet.remaining()) {
                // The next piece of a message needs the room of a proof that need not be sent again now.
                packet.clear();
                filled = self.sender.fill(now, &mut path.sending, errand, packet, &mut self.events);
            }
            if filled.has_new_data {
                path.used(now);
            } else if filled.chunks > 0 || filled.forwarded {
                path.asked(now);
            }
            ecn = filled.ecn;
        }
        self.advance_ends((now, id), control, packet);
        if control {
            self.write_shutdown_chunks(now, id, packet);
        }
        if ends_handshake {
            // Marking starts after COOKIE ACK, so that a path that drops ECN-capable packets does not drop COOKIE ACK.
            self.begin_marking();
            return EcnCodepoint::NotCapable;
        }
        ecn
    }

    /// The last message that SHUTDOWN or a reset waited for may just have expired unsent. Control chunks stand in front of DATA.
    #[inline]
    fn advance_ends(&mut self, (now, id): Departure, control: bool, packet: &mut PacketBuilder<'_>) {
        if self.control.reconfiguration.is_some() {
            self.advance_reconfiguration(now);
            if control && packet.is_empty() && self.control.is_set(Due::RE_CONFIG) {
                self.write_reconfiguration(now, id, packet);
            }
        }
        if self.state.drains() {
            self.advance_shutdown(now);
        }
    }

    #[inline]
    fn write_heartbeat(&mut self, now: Instant, id: PathId, packet: &mut PacketBuilder<'_>) {
        let (rto, probe_bytes) = (self.paths.first().sending.rto(), self.probe_bytes());
        let is_suspected = self.paths.is_suspected(id);
        let path = self.paths.of_mut(id);
        let wait = path.heartbeat_wait(now, self.context.config(), is_suspected);
        let nonce = path.heartbeat_sent(now, wait, &self.context, self.tags.local);
        packet.chunk(&ChunkOut::Heartbeat { info: &nonce.to_be_bytes() });
        if let Some(others) = &mut self.paths.others {
            others.note_probe(now, id, rto, probe_bytes);
        }
    }

    fn write_shutdown_chunks(&mut self, now: Instant, path: PathId, packet: &mut PacketBuilder<'_>) {
        if self.control.is_set(Due::SHUTDOWN)
            && let Some(receiver) = &self.receiver
            && write_shutdown(packet, receiver.cumulative_tsn())
        {
            self.control.unset(Due::SHUTDOWN);
            self.paths.of_mut(path).asked(now);
        }
        if self.control.is_set(Due::SHUTDOWN_ACK) && packet.chunk(&ChunkOut::ShutdownAck) {
            self.control.unset(Due::SHUTDOWN_ACK);
            self.paths.of_mut(path).asked(now);
        }
    }
}
