//! What goes into the next packet (RFC 9260 §6.1, §6.10): lost chunks in TSN order, then companions that ride along, then new data.

use bytes::Bytes;
use festina_recovery::profile::{ImmediateSack, Rules};
use festina_recovery::tlp::ProbeContent;
use festina_units::Instant;

use super::Sender;
use super::companions::Companions;
use super::fragment::piece_bytes;
use super::round_trip::Again;
use crate::event::{Event, Events, RetransmissionCause};
use crate::message::MessageId;
use crate::outstanding::{CHUNKS_MAX, Chunk, ChunkState, Piece, SentAs};
use crate::wire::{DATA_HEADER_BYTES, PacketBuilder, Ssn};

/// Why a packet may leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Licence {
    /// It may not.
    Nothing,
    /// The probe timer expired: one packet of outstanding chunks, regardless of cwnd.
    Probe,
    /// A tail loss probe: one packet, regardless of cwnd, with new data if the peer's window takes it, else with the last chunk.
    TailProbe(ProbeContent),
    /// The copy of a packet is due, regardless of cwnd.
    Copy { first_tsn: u64, last_tsn: u64 },
    /// A loss was just found: one packet of lost chunks, regardless of cwnd (RFC 9260 §6.3.3 E3, §7.2.4).
    Urgent(RetransmissionCause),
    /// There are lost chunks and cwnd has room (rule C).
    Retransmission,
    /// There is new data, and cwnd, burst limit and the peer's window have room (rules A, B, D).
    NewData,
}

impl Licence {
    /// What a chunk in this state leaves again for.
    fn sent_as(self, state: ChunkState, cause: RetransmissionCause) -> SentAs {
        match (state, self, cause) {
            (ChunkState::Lost(_), _, _) => SentAs::Repair,
            (_, Self::TailProbe(_), _) => SentAs::TailProbe,
            (_, _, RetransmissionCause::Probe) => SentAs::Probe,
            (_, _, RetransmissionCause::Copy) => SentAs::Copy,
            _ => SentAs::Companion,
        }
    }
}

/// What was put into a packet.
#[derive(Clone, Copy, Debug, Default)]
struct Loaded {
    chunks: usize,
    new_chunks: usize,
    bytes: usize,
    new_bytes: usize,
    /// Part of a message only.
    has_fragment: bool,
    tsn_highest: u64,
    earliest_resent: bool,
}

impl Sender {
    /// Whether [`fill`](Self::fill) has something to do. It may still write nothing: if all that was queued has expired by now, or
    /// if the next chunk needs an emptier packet than the one given.
    pub(crate) fn can_send(&self, now: Instant) -> bool {
        self.licence() != Licence::Nothing || self.buffer.front_is_stale(now, self.streams.count)
    }

    /// Fills a packet behind the control chunks that it may hold already; one call per packet. Returns the DATA chunks written.
    pub(crate) fn fill(&mut self, now: Instant, packet: &mut PacketBuilder<'_>, events: &mut Events) -> usize {
        if self.drop_stale(now, events) {
            // What comes next may not fit into the peer's window: then that is to be probed.
            self.update_timers(now);
        }
        let licence = self.licence();
        if licence == Licence::Nothing {
            return 0;
        }
        let new_data = match licence {
            Licence::TailProbe(content) => content == ProbeContent::NewData,
            Licence::NewData => true,
            _ => self.allows_new_data(),
        };
        let mut loaded = Loaded::default();
        let companions = self.companions(now, licence, new_data, packet.remaining());
        let lost_may_leave = licence != Licence::NewData || self.ledger.lost().chunks == 0;
        if lost_may_leave {
            self.resend(now, licence, companions, packet, events, &mut loaded);
        }
        if new_data && (self.ledger.lost().chunks == 0 || self.recovery.held_back().1) {
            self.send_new(now, packet, events, &mut loaded);
        }
        if loaded.chunks > 0 {
            self.packet_left(now, licence, loaded);
        }
        loaded.chunks
    }

    /// Payload bytes of the next new chunk in an empty packet.
    pub(super) fn next_piece_bytes(&self) -> Option<usize> {
        self.buffer.front().map(|message| message.payload.len().min(self.sizes.payload))
    }

    fn licence(&self) -> Licence {
        if self.timer.probe_due {
            Licence::Probe
        } else if let Some(content) = self.timer.tail_due {
            Licence::TailProbe(content)
        } else if let Some((first_tsn, last_tsn)) = self.timer.copy_due {
            Licence::Copy { first_tsn, last_tsn }
        } else if self.ledger.lost().chunks == 0 {
            if self.allows_new_data() { Licence::NewData } else { Licence::Nothing }
        } else if let Some(cause) = self.repair.packet_due {
            Licence::Urgent(cause)
        } else if let (true, new_data_first) = self.recovery.held_back() {
            if new_data_first && self.allows_new_data() { Licence::NewData } else { Licence::Nothing }
        } else if self.congestion.allows(self.ledger.in_flight().bytes) {
            Licence::Retransmission
        } else {
            Licence::Nothing
        }
    }

    /// Whether a packet that leaves now may hold new data, if nothing lost is left to be sent.
    pub(super) fn allows_new_data(&self) -> bool {
        let in_flight = self.ledger.in_flight();
        self.next_piece_bytes().is_some_and(|bytes| {
            self.burst.packets_left > 0
                && self.ledger.len() < CHUNKS_MAX
                && self.congestion.allows(in_flight.bytes)
                && self.window.allows(bytes, in_flight.payload_bytes)
        })
    }

    /// Whether new data still fits into the peer's window once all that was lost has left again.
    fn has_window_behind_lost(&self) -> bool {
        let outstanding = self.ledger.in_flight().payload_bytes + self.ledger.lost().payload_bytes;
        self.ledger.lost().chunks == 0
            || self.next_piece_bytes().is_some_and(|bytes| self.window.allows(bytes, outstanding))
    }

    fn companions(&self, now: Instant, licence: Licence, new_data: bool, room_bytes: usize) -> Companions {
        let rules = self.recovery.rules();
        let free = room_bytes.saturating_sub(self.ledger.lost().bytes);
        match licence {
            Licence::Probe => Companions::Probe {
                timeout: rules.probe.timeout(&self.recovery.rtt),
                silent: self.timer.silent_since.is_some(),
            },
            Licence::Copy { first_tsn, last_tsn } => Companions::Copy { first_tsn, last_tsn },
            Licence::TailProbe(ProbeContent::NewData) => Companions::None,
            Licence::TailProbe(ProbeContent::HighestOutstanding) => {
                Companions::Last { tsn: self.ledger.next_tsn().saturating_sub(1) }
            }
            Licence::Urgent(RetransmissionCause::Fast) if rules.bundling.into_fast_retransmit => {
                Companions::Bundled { room_bytes: free }
            }
            _ if new_data && self.has_window_behind_lost() => {
                let new_bytes = self.buffer.queued_chunk_bytes_max();
                let room_bytes = free.saturating_sub(new_bytes);
                if rules.bundling.with_new_data {
                    Companions::Bundled { room_bytes }
                } else if room_bytes <= DATA_HEADER_BYTES {
                    Companions::None
                } else {
                    self.recovery.redundant(now, room_bytes, new_bytes, self.timer.silent_since)
                }
            }
            _ => Companions::None,
        }
    }

    /// Sends lost chunks and their companions again, in TSN order as far as they fit.
    fn resend(
        &mut self,
        now: Instant,
        licence: Licence,
        mut companions: Companions,
        packet: &mut PacketBuilder<'_>,
        events: &mut Events,
        loaded: &mut Loaded,
    ) {
        let &Rules { immediate_sack, rtt_sampling: sampling, fast_restarts_timer, .. } = self.recovery.rules();
        let immediate = immediate_sack == ImmediateSack::Always;
        let again = if companions.ride_with_new_data() { Again::BesideNewData } else { Again::Alone };
        let alone = matches!(companions, Companions::None);
        let first = if alone { self.ledger.lost_from() } else { self.ledger.first_tsn() };
        for tsn in first..self.ledger.next_tsn() {
            if alone && self.ledger.lost().chunks == 0 {
                break;
            }
            let Some(chunk) = self.ledger.get(tsn) else { break };
            let cause = match chunk.state {
                // Rides along in the packet of the timeout only; in a later one it is what the packet is sent for.
                ChunkState::Lost(cause) if cause.is_bundled() && !matches!(licence, Licence::Urgent(_)) => {
                    Some(RetransmissionCause::Timeout)
                }
                ChunkState::Lost(cause) => Some(cause),
                ChunkState::InFlight => companions.admit(tsn, chunk, now),
                ChunkState::GapAcked => None,
            };
            let Some(cause) = cause else { continue };
            let header = chunk.header(tsn, immediate || chunk.immediate_ack);
            if !packet.data(&header, &chunk.payload) {
                break;
            }
            loaded.bytes += chunk.bytes();
            let id = chunk.message;
            let sent_as = licence.sent_as(chunk.state, cause);
            self.ledger.resend(tsn, now, sent_as);
            self.recovery.chunk_left(now, tsn);
            if sent_as == SentAs::Repair {
                self.note_repair(tsn);
            }
            self.round_trip.resent(tsn, now, sampling, again);
            self.count_retransmission(cause);
            events.push_message_event(|| Event::Retransmitted { id, tsn: header.tsn.0, cause, at: now });
            loaded.chunks += 1;
            loaded.tsn_highest = tsn;
            // Companions do not put T3-rtx off, or a stream of new data would do so for ever.
            let restarts_timer = match cause {
                // Early fast retransmits begin no fast recovery: with a peer that is silent, they would put T3-rtx off for ever.
                RetransmissionCause::Fast => fast_restarts_timer && self.repair.in_fast_recovery,
                cause => !cause.is_bundled() && cause != RetransmissionCause::Copy,
            };
            loaded.earliest_resent |= tsn == self.ledger.first_tsn() && restarts_timer;
        }
    }

    fn count_retransmission(&mut self, cause: RetransmissionCause) {
        let counters = &mut self.counters.retransmitted;
        let counter = match cause {
            RetransmissionCause::Timeout => &mut counters.timeout,
            RetransmissionCause::Fast => &mut counters.fast,
            RetransmissionCause::ReportedBundled => &mut counters.reported_bundled,
            RetransmissionCause::Bundled => &mut counters.bundled,
            RetransmissionCause::Probe => &mut counters.probe,
            RetransmissionCause::Copy => &mut counters.copies,
        };
        *counter += 1;
    }

    /// Gives TSNs to queued messages as long as they fit into the packet and into the peer's window.
    fn send_new(&mut self, now: Instant, packet: &mut PacketBuilder<'_>, events: &mut Events, loaded: &mut Loaded) {
        while self.ledger.len() < CHUNKS_MAX {
            self.drop_stale(now, events);
            let Some(rest) = self.buffer.front().map(|message| message.payload.len()) else { break };
            let room = packet.remaining().saturating_sub(DATA_HEADER_BYTES);
            let Some(bytes) = piece_bytes(rest, room, self.sizes.payload) else { break };
            if !self.window.allows(bytes, self.ledger.in_flight().payload_bytes) {
                break;
            }
            let Some((mut chunk, begins)) = self.cut_chunk(bytes, now) else { break };
            let tsn = self.ledger.next_tsn();
            let immediate_sack = self.recovery.rules().immediate_sack;
            chunk.immediate_ack |= (self.closing || immediate_sack == ImmediateSack::Tail) && self.buffer.is_empty();
            let immediate = immediate_sack == ImmediateSack::Always || chunk.immediate_ack;
            let written = packet.data(&chunk.header(tsn, immediate), &chunk.payload);
            debug_assert!(written, "the piece was cut to the room in the packet");
            if let Some(id) = begins {
                events.push_message_event(|| Event::MessageSent { id, at: now });
            }
            loaded.bytes += chunk.bytes();
            loaded.new_bytes += chunk.bytes();
            loaded.has_fragment |= chunk.piece != Piece::Whole;
            self.ledger.push(chunk);
            self.recovery.chunk_left(now, tsn);
            self.round_trip.sent_new(tsn, now, self.recovery.rules().rtt_sampling);
            self.window.sent_new(tsn);
            self.counters.chunks += 1;
            loaded.chunks += 1;
            loaded.new_chunks += 1;
            loaded.tsn_highest = tsn;
        }
    }

    /// The next `bytes` of the message in front as a chunk, and the message's identity if they are its first.
    fn cut_chunk(&mut self, bytes: usize, now: Instant) -> Option<(Chunk, Option<MessageId>)> {
        let message = self.buffer.front_mut()?;
        let begins = !message.begun;
        if begins && !message.unordered {
            let next_ssn = self.streams.next_ssn.get_mut(message.stream);
            message.ssn = Ssn(*next_ssn);
            *next_ssn = next_ssn.wrapping_add(1);
        }
        let ends = bytes == message.payload.len();
        let mut chunk = Chunk {
            payload: Bytes::new(),
            message: message.id,
            sent_at: now,
            ppid: message.ppid,
            stream: message.stream,
            ssn: message.ssn,
            unordered: message.unordered,
            piece: Piece::new(begins, ends),
            immediate_ack: message.immediate_ack && ends,
            state: ChunkState::InFlight,
            transmissions: 1,
            miss_indications: 0,
            fast_retransmitted: false,
            sent_as: SentAs::First,
        };
        chunk.payload = self.buffer.take(bytes)?;
        let begun = begins.then_some(chunk.message);
        Some((chunk, begun))
    }

    /// A packet is complete: timers, limits and the thin-stream detector take note.
    fn packet_left(&mut self, now: Instant, licence: Licence, loaded: Loaded) {
        match licence {
            Licence::Probe => {
                self.timer.probe_due = false;
                self.timer.silent_since = Some(now);
            }
            Licence::Copy { .. } => self.timer.copy_due = None,
            Licence::TailProbe(content) => {
                self.timer.tail_due = None;
                self.tail_probe_left(content);
            }
            Licence::Urgent(cause) => {
                self.repair.packet_due = None;
                if cause == RetransmissionCause::Timeout {
                    self.timeout_packet_left(loaded.tsn_highest);
                }
            }
            Licence::Retransmission | Licence::NewData | Licence::Nothing => {}
        }
        self.last_sent_at = now;
        self.recovery.packet_sent(now, loaded.tsn_highest, loaded.bytes, loaded.new_bytes);
        self.recovery.refresh(self.window.probe().is_some(), self.ledger.len());
        if let Some(others) = loaded.new_chunks.checked_sub(1) {
            self.burst.packets_left = self.burst.packets_left.saturating_sub(1);
            self.recovery.new_data_sent(
                now,
                loaded.tsn_highest - others as u64,
                loaded.tsn_highest,
                !loaded.has_fragment,
            );
        }
        if !self.timer.is_running() || loaded.earliest_resent {
            self.timer.start(now, self.recovery.rto());
        }
        self.arm_published(now);
        self.update_deadlines(now);
    }
}
