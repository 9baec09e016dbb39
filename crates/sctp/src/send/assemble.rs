//! Fills the next packet (RFC 9260 §6.1, §6.10): lost chunks in TSN order, then bundled outstanding chunks, then new data.

use festina_recovery::profile::ImmediateSack;
use festina_units::{EcnCodepoint, Instant};

use super::loaded::Loaded;
use super::repair::{Again, Bundling, NewData, Order, Purpose};
use super::{SendPath, Sender};
use crate::event::{Event, Events, ProtocolEvent};
use crate::outstanding::{CHUNKS_KEPT, CHUNKS_MAX, Chunk, ChunkState};
use crate::wire::{COMMON_HEADER_BYTES, FragmentHeader, PacketBuilder};

/// The purpose of the next packet, as far as the sender knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Errand {
    order: Option<Order>,
    is_due: bool,
}

impl Errand {
    /// Returns whether it is reason enough for a packet. [`Sender::fill`] may still write nothing: if all that was queued has expired by now, or if
    /// the next chunk needs an emptier packet than the one given.
    pub(crate) fn is_due(self) -> bool {
        self.is_due
    }

    /// Returns whether the packet sends chunks in flight again, in case that they are lost, or lost ones of a thin stream.
    pub(crate) fn sends_again(self, is_thin: bool) -> bool {
        self.order.is_some_and(|order| match order.purpose {
            Purpose::Probe | Purpose::TailProbe(_) | Purpose::Copy(_) => true,
            Purpose::Urgent(_) | Purpose::Repair => is_thin,
            _ => false,
        })
    }

    /// Returns whether the packet is for new data.
    pub(crate) fn sends_new(self) -> bool {
        self.order.is_some_and(|order| order.purpose == Purpose::NewData)
    }
}

/// What [`Sender::fill`] did to a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filled {
    /// DATA chunks written.
    pub(crate) chunks: usize,
    /// Any of them leaves for the first time.
    pub(crate) has_new_data: bool,
    /// FORWARD-TSN was written.
    pub(crate) forwarded: bool,
    /// Whether routers may mark the packet.
    pub(crate) ecn: EcnCodepoint,
}

impl Sender {
    /// Returns the purpose of the next packet on `path`. Call once for each packet and pass the result to [`fill`](Self::fill).
    #[inline]
    pub(crate) fn errand(&self, now: Instant, path: &SendPath) -> Errand {
        // A side that only receives is asked after each packet.
        let has_nothing =
            self.flight.buffer.front().is_none() && self.flight.ledger.lost().chunks == 0 && !path.repair.owes_packet();
        let order = if has_nothing { None } else { self.order(now, path) };
        let forward_is_due = || self.flight.partial.as_ref().is_some_and(|partial| partial.is_forward_due(now));
        let moves_on = || !has_nothing && self.flight.front_is_stale(now) || forward_is_due();
        let is_due = order.is_some() || moves_on() && path.limits.duties.new_data;
        Errand { order, is_due }
    }

    fn order(&self, now: Instant, path: &SendPath) -> Option<Order> {
        path.repair.next(now, &self.flight, &path.limits)
    }

    /// Fills a packet that is sent by `path`, behind the control chunks that it may hold already, with FORWARD-TSN and DATA; one call per packet.
    pub(crate) fn fill(
        &mut self,
        now: Instant,
        path: &mut SendPath,
        mut errand: Errand,
        packet: &mut PacketBuilder<'_>,
        events: &mut Events,
    ) -> Filled {
        if self.abandon_before_packet(now, path, events) {
            errand.order = self.order(now, path);
        }
        let mut forwarded = self.flight.write_forward(now, || path.terms(), packet);
        let mut filled = self.fill_data(now, path, errand, packet, events);
        if filled.chunks == 0 && !forwarded {
            // A retransmission may turn out to be abandoned: then the packet carries the FORWARD-TSN instead.
            self.abandon_before_packet(now, path, events);
            forwarded = self.flight.write_forward(now, || path.terms(), packet);
        }
        if let Some(partial) = self.flight.partial.as_ref().filter(|_| forwarded) {
            let again = if filled.has_new_data { Again::BesideNewData } else { Again::Alone };
            path.repair.on_forward_left(now, |tsn| partial.has_told(tsn, self.flight.apart), again);
        }
        filled.forwarded = forwarded;
        filled
    }

    /// Abandons expired messages before a packet is filled. Returns whether there were any.
    #[inline]
    fn abandon_before_packet(&mut self, now: Instant, path: &mut SendPath, events: &mut Events) -> bool {
        let any = self.flight.abandon_what_is_over(now, || path.terms(), events);
        if any {
            self.flight.gave_up(now, || path.terms(), events);
            self.settle(now, path);
        }
        any
    }

    /// As [`fill`](Self::fill), without FORWARD-TSN.
    pub(super) fn fill_data(
        &mut self,
        now: Instant,
        path: &mut SendPath,
        errand: Errand,
        packet: &mut PacketBuilder<'_>,
        events: &mut Events,
    ) -> Filled {
        let mut order = errand.order;
        if self.flight.drop_stale(now, events) {
            // The next chunk may not fit into the peer's window, which then has to be probed.
            self.settle(now, path);
            order = self.order(now, path);
        }
        let Some(order) = order else { return Filled::default() };
        let asks = path.repair.asks_for_sack(now) || path.limits.duties.asks;
        let bundling = path.repair.bundling(now, order, packet.remaining(), &self.flight, &path.limits);
        let is_lost = self.flight.ledger.lost().chunks > 0;
        let repairs = !matches!(order.purpose, Purpose::NewData | Purpose::Sums);
        let resends = if is_lost { repairs } else { !matches!(bundling, Bundling::None) };
        let mut loaded = if resends {
            self.resend(now, path, (order.purpose, asks), bundling, packet, events)
        } else {
            Loaded::default()
        };
        let new_data = match order.new_data {
            NewData::No => false,
            NewData::BehindLost => self.flight.ledger.lost().chunks == 0,
            NewData::Instead => true,
        };
        if new_data || order.purpose == Purpose::Sums {
            loaded.sum_bytes = path.repair.write_sums(now, new_data, &self.flight, &path.limits, packet);
        }
        if new_data {
            self.send_new(now, path, asks, packet, events, &mut loaded);
        }
        debug_assert!(
            loaded.chunks == 0 || loaded.new_chunks > 0 || order.purpose != Purpose::NewData,
            "a packet for new data without any would be sent repeatedly"
        );
        let mut ecn = EcnCodepoint::NotCapable;
        if loaded.chunks > 0 {
            let is_new = loaded.new_chunks == loaded.chunks;
            let marking = path.marking.as_mut();
            ecn = marking.map_or(ecn, |marking| marking.packet_leaves(loaded.tsn_highest, is_new));
            loaded.same_instant = path.last_sent_at == now;
            self.packet_left(now, path, order, &loaded);
            if loaded.new_chunks > 0 && self.flight.buffer.follows_window() {
                self.flight.follow_window(now, |ledger| path.surroundings(ledger));
                self.flight.report_room(events);
            }
        } else if loaded.sum_bytes > 0 {
            path.repair.on_sums_left(now, loaded.sum_bytes);
        } else if loaded.has_withheld && !loaded.is_full
            || matches!(order.purpose, Purpose::Elsewhere { .. } | Purpose::Sums)
        {
            path.repair.forgo(now, order);
        }
        // With a lost chunk sent again, those behind it have their turn, even if the congestion window admits no further packet.
        let exposed =
            self.flight.ledger.lost().chunks > 0 && self.flight.abandon_what_is_over(now, || path.terms(), events);
        if loaded.has_withheld || exposed {
            self.flight.gave_up(now, || path.terms(), events);
            self.settle(now, path);
        }
        Filled { chunks: loaded.chunks, has_new_data: loaded.new_chunks > 0, forwarded: false, ecn }
    }

    /// Sends lost chunks and those bundled with them again, in TSN order as far as they fit.
    fn resend(
        &mut self,
        now: Instant,
        path: &mut SendPath,
        (purpose, asks): (Purpose, bool),
        mut bundling: Bundling,
        packet: &mut PacketBuilder<'_>,
        events: &mut Events,
    ) -> Loaded {
        let mut loaded = Loaded::default();
        let again = if bundling.are_with_new_data() { Again::BesideNewData } else { Again::Alone };
        // Retransmissions and probes are worth an immediate SACK; piggybacked copies are no more urgent than the new data.
        let asks = match again {
            Again::BesideNewData => asks,
            Again::Alone => path.repair.rules().immediate_sack == ImmediateSack::Needed,
        };
        let alone = matches!(bundling, Bundling::None);
        let way = path.repair.way();
        let first = if alone { self.flight.ledger.first_lost() } else { self.flight.ledger.first_tsn() };
        for tsn in first..self.flight.ledger.next_tsn() {
            if alone && self.flight.ledger.lost().chunks == 0 {
                break;
            }
            let Some(chunk) = self.flight.ledger.get(tsn) else { break };
            let transmission = match chunk.state {
                ChunkState::Lost(cause) => Some(purpose.repair(cause)),
                ChunkState::InFlight => {
                    bundling.admit(tsn, chunk, now, || self.flight.is_worth_protecting(chunk, now, way))
                }
                ChunkState::GapAcked
                | ChunkState::NonRenegable
                | ChunkState::AbandonedOnTheWay
                | ChunkState::Abandoned => None,
            };
            let Some(transmission) = transmission else { continue };
            let cause = transmission.cause();
            let slot = chunk.message;
            let Some(message) = self.flight.buffer.message(slot) else { break };
            let obstacle = message.obstacle_again(now, chunk.transmissions).filter(|_| self.flight.forwards);
            if let Some(reason) = obstacle {
                loaded.has_withheld = true;
                if cause.is_called_for() {
                    self.flight.give_up(slot, reason, events);
                }
                continue;
            }
            let asked = chunk.immediate_ack && (again == Again::Alone || message.immediate_ack);
            let immediate_ack = asks || asked;
            let header = FragmentHeader { immediate: immediate_ack, ..message.header(tsn, chunk) };
            admit_large(chunk, path, &loaded, packet);
            if !packet.fragment(self.flight.framing, &header, &chunk.payload) {
                loaded.is_full = true;
                break;
            }
            let (id, chunk_bytes) = (message.id, chunk.bytes());
            loaded.count_again(chunk_bytes, transmission, again == Again::BesideNewData);
            self.flight.ledger.resend(tsn, now, transmission, path.limits.id, immediate_ack);
            path.marking.iter_mut().for_each(|marking| marking.resent(tsn));
            let restarts_timer = path.repair.on_resent(now, tsn, transmission, again, self.flight.ledger.next_tsn());
            self.counters.retransmitted.count(cause);
            let event = || ProtocolEvent::Retransmitted { id, tsn: header.tsn.0, cause, path: path.limits.id, at: now };
            events.push_message_event(|| Event::Protocol(event()));
            loaded.tsn_highest = tsn;
            loaded.earliest_resent |= tsn == self.flight.ledger.first_tsn() && restarts_timer;
        }
        loaded
    }

    /// Gives TSNs to queued messages as long as they fit into the packet and into the peer's window.
    fn send_new(
        &mut self,
        now: Instant,
        path: &mut SendPath,
        asks: bool,
        packet: &mut PacketBuilder<'_>,
        events: &mut Events,
        loaded: &mut Loaded,
    ) {
        let tail_asks = self.flight.closing || path.repair.rules().immediate_sack == ImmediateSack::Tail;
        while self.flight.ledger.len() < CHUNKS_MAX {
            self.flight.drop_stale(now, events);
            let room = packet.remaining().saturating_sub(self.flight.framing.header_bytes());
            let Some(turn) = self.flight.buffer.turn(room, path.limits.sizes.payload()) else { break };
            if !self.flight.window.allows(turn.bytes, self.flight.ledger.in_flight().payload_bytes) {
                break;
            }
            let tsn = self.flight.ledger.next_tsn();
            let Some((chunk, header)) = self.flight.cut_chunk(turn, now, path.limits.id, asks, tail_asks, events)
            else {
                break;
            };
            let written = packet.fragment(self.flight.framing, &header, &chunk.payload);
            debug_assert!(written, "the piece was cut to the room in the packet");
            loaded.bytes += chunk.bytes();
            loaded.new_bytes += chunk.bytes();
            loaded.has_fragment |= chunk.is_fragment();
            loaded.duplicate_after = loaded.duplicate_after.or_else(|| self.flight.duplicate_after(chunk.message));
            let asked = chunk.immediate_ack;
            self.flight.ledger.push(chunk);
            path.repair.on_first_sent(now, tsn, asked);
            path.repair.protect(now, tsn, &header, &self.flight.ledger);
            self.flight.window.sent_new(tsn);
            self.counters.chunks += 1;
            loaded.chunks += 1;
            loaded.new_chunks += 1;
            loaded.tsn_highest = tsn;
        }
    }

    /// A packet is complete.
    fn packet_left(&mut self, now: Instant, path: &mut SendPath, order: Order, loaded: &Loaded) {
        path.last_sent_at = now;
        if loaded.new_chunks > 0 {
            self.flight.is_burst |= self.flight.ledger.len() > CHUNKS_KEPT;
            path.limits.burst.spend();
            self.flight.buffer.packet_left(now);
        }
        let (in_flight, srtt) = (self.flight.ledger.on_the_way_bytes(path.limits.id), path.repair.rtt().srtt());
        // Bundled chunks and window probes were in flight already, and have limits of their own.
        path.limits.congestion.packet_left(now, loaded.new_bytes + loaded.repair_bytes, in_flight, srtt);
        path.repair.on_sent(now, order, loaded, &self.flight, &path.limits);
        if path.search.is_some() {
            let ledger = &self.flight.ledger;
            let transmissions = ledger.get(ledger.first_tsn()).map_or(0, |chunk| chunk.transmissions);
            note_size(now, path, loaded, transmissions);
        }
        self.flight.update_window(now, path.limits.sizes.payload(), || path.rto());
    }
}

/// The search for larger packets looks whether large ones are acknowledged.
#[cold]
fn note_size(now: Instant, path: &mut SendPath, loaded: &Loaded, transmissions: u8) {
    let (times, last) = (path.times(), loaded.tsn_highest);
    let tsns = last.saturating_sub(loaded.new_chunks as u64).saturating_add(1)..=last;
    let bytes = COMMON_HEADER_BYTES + loaded.bytes;
    // Beyond the present size the packet leaves in fragments.
    if let Some(search) = path.search.as_mut().filter(|_| bytes <= path.limits.sizes.packet()) {
        search.packet_left(now, bytes, tsns, transmissions, times);
    }
}

/// Makes room for a chunk that was cut before the packet size was lowered: its packet is to be fragmented by IP (RFC 9260 §6.9).
#[inline]
fn admit_large(chunk: &Chunk, path: &SendPath, loaded: &Loaded, packet: &mut PacketBuilder<'_>) {
    if loaded.chunks == 0 && chunk.payload.len() > path.limits.sizes.payload() {
        packet.admit(chunk.bytes());
    }
}
