//! Takes packets in: checks them, and hands each chunk to the room that knows what to do (RFC 9260 §6, §8.5).

use std::net::SocketAddr;

use bytes::Bytes;
use festina_units::{EcnCodepoint, Instant};

use super::Association;
use super::cause_info;
use super::control::{Control, ECHO_BYTES_MAX};
use super::extensions::Extensions;
use super::packet::{Arrival, header_to, lone_packet};
use super::reply::Reply;
use super::state::State;
use crate::error::{ClosedReason, PacketDropped, ProtocolViolation};
use crate::event::Event;
use crate::outstanding::Acknowledgement;
use crate::path_id::PathId;
use crate::receive::{DataVerdict, ReceiveError, Receiver};
use crate::wire::{
    Abort, Cause, Chunk, ChunkOut, Chunks, CommonHeader, Data, EnhancedForwardTsn, Errors, ForwardTsn, Framing, IData,
    IForwardTsn, Packet, PacketError, RepairChunk, UnknownChunk,
};

/// Maximum bytes of a HEARTBEAT's information that fit into the smallest packet.
const LONE_INFO_BYTES_MAX: usize = 256;

/// Parses a packet whose integrity the layer below protects.
#[inline(never)]
pub(super) fn parse_protected(bytes: &[u8], is_unchecked: bool) -> Result<Packet<'_>, PacketError> {
    if is_unchecked { Packet::parse_unverified(bytes) } else { Packet::parse_protected(bytes) }
}

/// A chunk that moves the receiver past abandoned messages.
#[derive(Clone, Copy, Debug)]
enum Skip<'c> {
    Plain(&'c ForwardTsn<'c>),
    Interleaved(&'c IForwardTsn<'c>),
    Enhanced(&'c EnhancedForwardTsn<'c>),
}

impl<'c> Skip<'c> {
    fn as_unknown(self) -> UnknownChunk<'c> {
        match self {
            Self::Plain(forward) => forward.as_unknown(),
            Self::Interleaved(forward) => forward.as_unknown(),
            Self::Enhanced(forward) => forward.as_unknown(),
        }
    }
}

/// Whether the rest of the packet is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    Continue,
    Skip,
}

impl Association {
    /// One packet from the network. Its chunks lie in `bytes`.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        (from, ecn): (SocketAddr, EcnCodepoint),
        bytes: &Bytes,
        packet: &Packet<'_>,
    ) -> Result<(), PacketDropped> {
        if matches!(self.state, State::Closed) {
            return Err(PacketDropped::Closed);
        }
        let header = packet.header;
        if header.source_port != self.ports.peer || header.destination_port != self.ports.local {
            return Err(PacketDropped::WrongPorts);
        }
        let mut chunks = packet.chunks();
        let Some(Ok(first)) = chunks.next() else {
            return Err(PacketDropped::Unexpected("packet without a whole chunk"));
        };
        // Such a packet is dropped before anything of it takes effect (RFC 9260 §6.10).
        if stands_alone(&first) && chunks.next().is_some() {
            return Err(PacketDropped::Unexpected("company of a chunk that must stand alone"));
        }
        let path = self.paths.to(from);
        if path.is_none_or(|path| !self.paths.of(path).is_confirmed()) {
            check_source(&self.state, &first, || self.peer.has_address(&self.paths, from.ip()))?;
        }
        self.check_tag(&header, &first)?;
        if self.peer.out_of_band {
            self.check_out_of_band(now, &first)?;
        }
        let (tag, path) = (header.verification_tag, path.unwrap_or(PathId::PRIMARY));
        if self.paths.are_several() {
            self.came_by(path);
        }
        let (had_data, had_sack, had_ecne) = (false, false, false);
        let mut arrival = Arrival { now, from, path, ecn, tag, bytes, had_data, had_sack, had_ecne };
        let result = match first {
            Chunk::Init(init) => {
                self.handle_init(now, from, &init);
                return Ok(());
            }
            Chunk::InitAck(init) => return self.handle_init_ack(now, from, &init),
            Chunk::ShutdownComplete { .. } => return self.handle_shutdown_complete(),
            Chunk::CookieEcho(cookie) => {
                self.handle_cookie_echo(now, from, &header, cookie)?;
                self.walk_chunks(&mut arrival, chunks)
            }
            first => match self.handle_chunk(&mut arrival, &first) {
                Ok(Rest::Continue) => self.walk_chunks(&mut arrival, chunks),
                result => result.map(drop),
            },
        };
        // A chunk that arrives may be the last that a sum was waiting for.
        if arrival.had_data && self.peer.agreed.contains(Extensions::REPAIR) {
            self.handle_recovered(&mut arrival);
        }
        self.conclude(&arrival);
        result
    }

    fn walk_chunks(&mut self, arrival: &mut Arrival<'_>, mut chunks: Chunks<'_>) -> Result<(), PacketDropped> {
        loop {
            let rest = match chunks.next_data() {
                Some(data) => self.handle_data(arrival, &data),
                None => match chunks.next() {
                    Some(Ok(chunk)) => self.handle_chunk(arrival, &chunk)?,
                    // A chunk that is cut short or malformed is dropped with all behind it (RFC 9260 §6.10).
                    Some(Err(_)) | None => return Ok(()),
                },
            };
            if rest == Rest::Skip {
                return Ok(());
            }
        }
    }

    /// The rules of RFC 9260 §8.5 and §8.5.1, which depend on the first chunk.
    fn check_tag(&mut self, header: &CommonHeader, first: &Chunk<'_>) -> Result<(), PacketDropped> {
        let tag = header.verification_tag;
        let accepted = match first {
            Chunk::Init(_) => tag == 0,
            // The cookie itself says for which tag it was made.
            Chunk::CookieEcho(_) => true,
            Chunk::Abort(Abort { tag_reflected, .. }) | Chunk::ShutdownComplete { tag_reflected } => {
                self.tags.fit_end(tag, *tag_reflected)
            }
            Chunk::ShutdownAck if matches!(self.state, State::CookieWait { .. } | State::CookieEchoed { .. }) => {
                // Of an association that is no more: answered as out of the blue (RFC 9260 §8.5.1 E, §9.2).
                let complete = ChunkOut::ShutdownComplete { tag_reflected: true };
                self.control.packet(lone_packet(header_to(self.ports, tag), &complete));
                return Err(PacketDropped::Unexpected("SHUTDOWN ACK"));
            }
            _ => tag == self.tags.local,
        };
        if accepted { Ok(()) } else { Err(PacketDropped::WrongTag) }
    }

    fn handle_chunk(&mut self, arrival: &mut Arrival<'_>, chunk: &Chunk<'_>) -> Result<Rest, PacketDropped> {
        let now = arrival.now;
        match chunk {
            Chunk::Data(data) => return Ok(self.handle_data(arrival, data)),
            Chunk::Sack(sack) => {
                // No receiver has reason to send two at once (RFC 9260 §6.2), and each costs a walk over the outstanding chunks.
                let is_first = !core::mem::replace(&mut arrival.had_sack, true);
                if is_first && self.state.takes_sack() {
                    self.acknowledge(now, Acknowledgement::sack(sack));
                }
            }
            Chunk::Heartbeat(heartbeat) => {
                if self.state.answers_heartbeats() && heartbeat.info.len() <= ECHO_BYTES_MAX {
                    self.answer_heartbeat(arrival, heartbeat.info);
                }
            }
            Chunk::HeartbeatAck(heartbeat) => self.handle_heartbeat_ack(now, heartbeat.info),
            Chunk::Abort(abort) => {
                if !self.tags.fit_end(arrival.tag, abort.tag_reflected) {
                    return Err(PacketDropped::WrongTag);
                }
                self.handle_abort(abort);
                return Ok(Rest::Skip);
            }
            Chunk::Shutdown(shutdown) => self.handle_shutdown(now, shutdown.cumulative_tsn)?,
            Chunk::ShutdownAck => self.handle_shutdown_ack()?,
            Chunk::Error(errors) => self.handle_errors(now, errors),
            Chunk::CookieAck => {
                // A late or repeated COOKIE ACK is ignored (RFC 9260 §5.2.5), but the chunks after it are processed.
                let _late = self.handle_cookie_ack(now);
            }
            // The chunks before it have taken effect; the rest of the packet is dropped.
            Chunk::Init(_) | Chunk::InitAck(_) | Chunk::CookieEcho(_) | Chunk::ShutdownComplete { .. } => {
                return Err(PacketDropped::Unexpected("chunk that must be first, behind another chunk"));
            }
            Chunk::IData(data) => return Ok(self.handle_i_data(arrival, data)),
            Chunk::ForwardTsn(forward) => return Ok(self.handle_forward_tsn(arrival, Skip::Plain(forward))),
            Chunk::IForwardTsn(forward) => return Ok(self.handle_forward_tsn(arrival, Skip::Interleaved(forward))),
            Chunk::EnhancedForwardTsn(forward) => return Ok(self.handle_forward_tsn(arrival, Skip::Enhanced(forward))),
            Chunk::NrSack(sack) if !self.peer.agreed.contains(Extensions::NR_SACK) => {
                return Ok(handle_unknown(&mut self.control, &sack.as_unknown()));
            }
            Chunk::NrSack(sack) => {
                let is_first = !core::mem::replace(&mut arrival.had_sack, true);
                if is_first && self.state.takes_sack() {
                    let mut both = Vec::new();
                    let (merged, non_renegable) = (sack.as_sack(&mut both), sack.nr_gap_ack_block_bytes());
                    self.acknowledge(now, Acknowledgement { non_renegable, ..Acknowledgement::sack(&merged) });
                }
            }
            Chunk::ReConfig(chunk) if !self.peer.agreed.contains(Extensions::RE_CONFIG) => {
                return Ok(handle_unknown(&mut self.control, &chunk.as_unknown()));
            }
            Chunk::ReConfig(chunk) => {
                if self.state.sends_data() {
                    self.handle_re_config(now, chunk);
                }
            }
            Chunk::Repair(repair) if !self.peer.agreed.contains(Extensions::REPAIR) => {
                return Ok(handle_unknown(&mut self.control, &repair.as_unknown()));
            }
            Chunk::Repair(repair) => return Ok(self.handle_repair(arrival, repair)),
            // Without agreement on ECN these chunks are of unknown type, which ends the packet (RFC 9260 §3.2).
            Chunk::Ecne(_) | Chunk::Cwr(_) if !self.peer.agreed.contains(Extensions::ECN) => return Ok(Rest::Skip),
            Chunk::Ecne(tsn) => self.handle_ecne(arrival, *tsn),
            Chunk::Cwr(tsn) => self.handle_cwr(*tsn),
            Chunk::Unknown(unknown) => return Ok(handle_unknown(&mut self.control, unknown)),
        }
        Ok(if matches!(self.state, State::Closed) { Rest::Skip } else { Rest::Continue })
    }

    /// A HEARTBEAT is answered to its source (RFC 9260 §8.3).
    fn answer_heartbeat(&mut self, arrival: &Arrival<'_>, info: &[u8]) {
        let is_on_path = self.paths.to(arrival.from).is_some();
        if is_on_path || self.peer.out_of_band || info.len() > LONE_INFO_BYTES_MAX {
            self.control.reply_with(|| Reply::HeartbeatAck { path: arrival.path, info: info.into() });
        } else {
            let header = header_to(self.ports, self.tags.peer);
            self.control.packet_to(Some(arrival.from), lone_packet(header, &ChunkOut::HeartbeatAck { info }));
        }
    }

    fn handle_data(&mut self, arrival: &mut Arrival<'_>, data: &Data<'_>) -> Rest {
        let Some(receiver) = self.receiver.as_mut().filter(|_| self.state.takes_data()) else {
            return Rest::Continue;
        };
        let verdict = receiver.handle_data(data, arrival.bytes);
        if let Ok(DataVerdict::Accepted) = verdict {
            arrival.had_data = true;
            return Rest::Continue;
        }
        self.conclude_data(arrival, verdict)
    }

    fn handle_i_data(&mut self, arrival: &mut Arrival<'_>, data: &IData<'_>) -> Rest {
        if self.peer.agreed.framing() != Framing::IData {
            return handle_unknown(&mut self.control, &data.as_unknown());
        }
        let Some(receiver) = self.receiver.as_mut().filter(|_| self.state.takes_data()) else {
            return Rest::Continue;
        };
        let verdict = receiver.handle_i_data(data, arrival.bytes);
        self.conclude_data(arrival, verdict)
    }

    /// Handles a sum of the peer's chunks, or its report of chunks that it has computed. In the states that accept DATA and SACK.
    fn handle_repair(&mut self, arrival: &mut Arrival<'_>, repair: &RepairChunk<'_>) -> Rest {
        if !repair.sum().is_empty() {
            if let Some(receiver) = self.receiver.as_mut().filter(|_| self.state.takes_data()) {
                receiver.handle_repair(repair);
                return self.handle_recovered(arrival);
            }
        } else if self.state.takes_sack() {
            self.sender.handle_recovered(&mut self.paths, repair.first, repair.mask);
        }
        Rest::Continue
    }

    /// Handles the chunks that were computed as if each had arrived in a packet of its own.
    fn handle_recovered(&mut self, arrival: &mut Arrival<'_>) -> Rest {
        while let Some(bytes) = self.receiver.as_mut().and_then(Receiver::poll_recovered) {
            let mut apart = Arrival { bytes: &bytes, ..*arrival };
            let chunk = Packet::of_chunks(header_to(self.ports, arrival.tag), &bytes).chunks().next();
            let rest = match chunk {
                Some(Ok(Chunk::Data(data))) => self.handle_data(&mut apart, &data),
                Some(Ok(Chunk::IData(data))) => self.handle_i_data(&mut apart, &data),
                _ => Rest::Continue,
            };
            arrival.had_data |= apart.had_data;
            if rest == Rest::Skip {
                return rest;
            }
        }
        Rest::Continue
    }

    /// Handles FORWARD-TSN, I-FORWARD-TSN and E-FORWARD-TSN in the states that accept DATA or I-DATA (RFC 3758 §3.6, RFC 8260 §2.3.1). I-FORWARD-TSN
    /// is also accepted from a peer that has announced FORWARD-TSN alone: Linux sends it without listing it, and abandoned messages would
    /// otherwise block their streams.
    fn handle_forward_tsn(&mut self, arrival: &mut Arrival<'_>, skip: Skip<'_>) -> Rest {
        let agreed = self.peer.agreed;
        let interleaves = agreed.framing() == Framing::IData;
        let has_agreed = match skip {
            Skip::Plain(_) => agreed.contains(Extensions::FORWARD_TSN),
            Skip::Interleaved(_) => {
                interleaves && (agreed.contains(Extensions::I_FORWARD_TSN) || agreed.contains(Extensions::FORWARD_TSN))
            }
            Skip::Enhanced(_) => agreed.forwards_apart(),
        };
        if !has_agreed {
            return handle_unknown(&mut self.control, &skip.as_unknown());
        }
        if interleaves && matches!(skip, Skip::Plain(_)) {
            self.violated(ProtocolViolation("FORWARD-TSN where I-DATA was agreed on"));
            return Rest::Skip;
        }
        if let Some(receiver) = self.receiver.as_mut().filter(|_| self.state.takes_data()) {
            arrival.had_data = true;
            let packet_bytes = arrival.bytes.len();
            match skip {
                Skip::Plain(forward) => receiver.handle_forward_tsn(forward, packet_bytes),
                Skip::Interleaved(forward) => receiver.handle_i_forward_tsn(forward, packet_bytes),
                Skip::Enhanced(forward) => receiver.handle_enhanced_forward_tsn(forward, packet_bytes),
            }
        }
        Rest::Continue
    }

    /// Applies the outcome of a DATA or I-DATA chunk.
    fn conclude_data(&mut self, arrival: &mut Arrival<'_>, verdict: Result<DataVerdict, ReceiveError>) -> Rest {
        match verdict {
            Ok(verdict) => {
                arrival.had_data = true;
                if let DataVerdict::InvalidStream(stream) = verdict {
                    self.control.reply_with(|| Reply::InvalidStream(stream));
                }
                Rest::Continue
            }
            Err(ReceiveError::NoUserData { tsn }) => {
                self.abort_with(Cause::NoUserData(tsn), ClosedReason::ProtocolViolation("DATA without user data"));
                Rest::Skip
            }
            Err(ReceiveError::ProtocolViolation(text)) => {
                self.violated(ProtocolViolation(text));
                Rest::Skip
            }
        }
    }

    /// Handles a SACK, an NR-SACK or the cumulative TSN of a SHUTDOWN. pion, rtc-sctp and sctp-proto put one of their own TSNs into SHUTDOWN. A TSN
    /// there that was never sent is therefore ignored instead of ending the association; SACKs report the arrivals.
    pub(super) fn acknowledge(&mut self, now: Instant, acknowledgement: Acknowledgement<'_>) {
        let result = if self.paths.are_several() {
            self.acknowledge_on_several(now, acknowledgement)
        } else {
            let Self { sender, paths, events, .. } = self;
            let path = paths.first_mut();
            let result = sender.acknowledge(now, &mut path.sending, acknowledgement, events);
            result.map(|answered| {
                if answered.contains(PathId::PRIMARY) {
                    path.answered(now, events);
                }
            })
        };
        match result {
            Err(violation) if acknowledgement.sack.is_some() => return self.violated(violation),
            Ok(()) | Err(_) => {}
        }
        if self.state.drains() {
            self.advance_shutdown(now);
        }
        if self.control.reconfiguration.is_some() {
            self.advance_reconfiguration(now);
        }
    }

    fn violated(&mut self, ProtocolViolation(text): ProtocolViolation) {
        self.abort_with(Cause::ProtocolViolation(text.as_bytes()), ClosedReason::ProtocolViolation(text));
    }

    fn handle_abort(&mut self, abort: &Abort<'_>) {
        if abort.tag_reflected && matches!(self.state, State::ShutdownAckSent { .. }) {
            // All was delivered both ways, and the peer has already forgotten: SHUTDOWN COMPLETE was lost or overtaken.
            return self.close(ClosedReason::Shutdown);
        }
        let cause = abort.causes().next().and_then(Result::ok);
        let code = cause.as_ref().map_or(0, Cause::code);
        let info = cause.as_ref().map_or_else(Bytes::new, cause_info);
        self.close(ClosedReason::AbortedByPeer { code, info });
    }

    fn handle_errors(&mut self, now: Instant, errors: &Errors<'_>) {
        for cause in errors.causes() {
            if self.is_closed() {
                // By a stale cookie before this cause.
                return;
            }
            match cause {
                Ok(Cause::StaleCookie { .. }) => self.handle_stale_cookie(now),
                Ok(cause) => self.events.push_peer_error(cause.code(), || cause_info(&cause)),
                Err(_) => return,
            }
        }
    }

    /// Decisions made once per packet.
    fn conclude(&mut self, arrival: &Arrival<'_>) {
        if matches!(self.state, State::Closed) {
            return;
        }
        if arrival.had_data {
            self.note_mark(arrival);
        }
        if arrival.had_data
            && let Some(receiver) = &mut self.receiver
        {
            receiver.packet_done(arrival.now);
            self.paths.of_mut(arrival.path).sending.peer_data_came(arrival.now);
            if let Some(others) = &mut self.paths.others {
                others.note_data(arrival.path);
            }
            while let Some(stream) = receiver.poll_overrun() {
                self.events.push(Event::StreamDiscarded { stream });
            }
            if receiver.has_message() && !core::mem::replace(&mut self.readable_told, true) {
                self.events.push(Event::Readable);
            }
        }
        self.paths.of_mut(arrival.path).heard(arrival.now, arrival.from);
        if matches!(self.state, State::ShutdownSent { .. }) {
            self.hear_while_shutting_down(arrival.now, arrival.path, arrival.had_data);
        }
    }
}

/// Checks that a packet from elsewhere than a confirmed path's address comes from an address of the peer, so that guessing tags is not enough without forging the
/// address too. In COOKIE-WAIT the peer has not named its addresses yet; COOKIE ECHO is bound to one by its cookie, and INIT names them again.
#[cold]
#[inline(never)]
fn check_source(state: &State, first: &Chunk<'_>, is_known: impl FnOnce() -> bool) -> Result<(), PacketDropped> {
    let is_open = matches!(state, State::CookieWait { .. }) || matches!(first, Chunk::Init(_) | Chunk::CookieEcho(_));
    // Packets with the peer's tag go to addresses that may be those of others, which would answer them so.
    let is_reflected = matches!(
        first,
        Chunk::Abort(Abort { tag_reflected: true, .. }) | Chunk::ShutdownComplete { tag_reflected: true }
    );
    if is_open || !is_reflected && is_known() { Ok(()) } else { Err(PacketDropped::WrongAddress) }
}

/// Reports a chunk of unknown type if its type asks for it (RFC 9260 §3.2).
fn handle_unknown(control: &mut Control, unknown: &UnknownChunk<'_>) -> Rest {
    let action = unknown.action();
    if action.reports() {
        let bytes = unknown.bytes();
        let reported = bytes.get(..ECHO_BYTES_MAX).unwrap_or(bytes);
        control.reply_with(|| Reply::UnrecognizedChunk(reported.into()));
    }
    if action.continues() { Rest::Continue } else { Rest::Skip }
}

/// Whether a chunk may not share a packet with others (RFC 9260 §6.10).
fn stands_alone(chunk: &Chunk<'_>) -> bool {
    matches!(chunk, Chunk::Init(_) | Chunk::InitAck(_) | Chunk::ShutdownComplete { .. })
}
