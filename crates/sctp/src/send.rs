//! The sending side of RFC 9260 as a state machine: messages and acknowledgements come in, DATA chunks and deadlines come out.
//!
//! It knows nothing of handshakes, addresses or the receiving side; [`crate::association`] asks it to fill packets.
//!
//! | room | what it knows |
//! |---|---|
//! | [`queue`] | the send buffer: messages that have no TSN yet, limit and low-water mark |
//! | [`scheduler`] | whose message is next |
//! | [`fragment`] | how much of a message goes into a packet |
//! | [`assemble`] | what goes into the next packet: retransmissions, companions, new data |
//! | [`companions`] | which chunks ride along though they are not lost |
//! | [`departures`] | the chunks in the order in which they left |
//! | [`published`] | probes, judgements by time and timers that other stacks have |
//! | [`spurious`] | what to take back when a retransmission was needless |
//! | [`redundancy`] | how much may be spent on copies |
//! | [`acknowledge`] | what a SACK changes: window, recovery, timers, events |
//! | [`timers`] | T3-rtx and the probe that may take its place |
//! | [`window`] | the peer's receive window |
//! | [`round_trip`] | which chunk is timed |
//! | [`recovery`] | the measurements and mechanisms that the recovery decisions are made from |
//!
//! The chunks themselves live in [`crate::outstanding`], the congestion window in [`crate::congestion`].

mod acknowledge;
mod assemble;
mod companions;
mod departures;
mod fragment;
mod published;
mod queue;
mod recovery;
mod redundancy;
mod round_trip;
mod scheduler;
mod spurious;
#[cfg(test)]
mod tests;
mod timers;
mod window;

use std::sync::Arc;

use festina_recovery::Mechanisms;
use festina_units::{Duration, Instant};

pub(crate) use acknowledge::SackOutcome;
pub(crate) use timers::TimerExpiry;

use crate::config::Config;
use crate::congestion::{Congestion, Rfc9260};
use crate::error::SendError;
use crate::event::{AbandonReason, Event, Events, RetransmissionCause};
use crate::message::{Message, MessageId};
use crate::outstanding::Ledger;
use crate::stats::{SentStats, Stats};
use crate::stream_table::StreamTable;
use crate::wire::{COMMON_HEADER_BYTES, DATA_HEADER_BYTES, Tsn};
use queue::SendBuffer;
use recovery::Recovery;
use round_trip::RoundTrip;
use timers::LossTimer;
use window::PeerWindow;

/// The sending side of one association.
///
/// Order of use: one of [`send`](Self::send), [`handle_sack`](Self::handle_sack), [`handle_timeout`](Self::handle_timeout) and their like;
/// then [`fill`](Self::fill) one packet after the other while [`can_send`](Self::can_send); then ask for the
/// [`deadline`](Self::deadline).
#[derive(Debug)]
pub(crate) struct Sender {
    buffer: SendBuffer,
    streams: OutboundStreams,
    ledger: Ledger,
    congestion: Congestion,
    recovery: Recovery,
    round_trip: RoundTrip,
    repair: Repair,
    timer: LossTimer,
    window: PeerWindow,
    sizes: PacketSizes,
    burst: Burst,
    /// When DATA last left; the start, if it never did.
    last_sent_at: Instant,
    /// No more messages will come.
    closing: bool,
    counters: SentStats,
}

/// The next SSN of each stream that was used (RFC 9260 §6.5).
#[derive(Debug)]
struct OutboundStreams {
    count: u16,
    next_ssn: StreamTable<u16>,
}

/// What is being done about losses.
#[derive(Debug, Default)]
struct Repair {
    /// Fast recovery lasts until `cut_tsn` is acknowledged (RFC 9260 §7.2.4).
    in_fast_recovery: bool,
    /// The highest TSN that had been sent when cwnd was last cut.
    cut_tsn: u64,
    /// One packet of lost chunks may leave regardless of cwnd, for this reason (RFC 9260 §6.3.3 E3, §7.2.4).
    packet_due: Option<RetransmissionCause>,
}

/// What fits into a packet.
#[derive(Clone, Copy, Debug)]
struct PacketSizes {
    /// PMDCS: bytes of DATA chunks, headers included (RFC 9260 §2.3).
    chunks: usize,
    /// Payload of the one chunk that fills a packet.
    payload: usize,
    /// The part of the initial cwnd that depends on the address family (RFC 9260 §7.2.1).
    initial_window: usize,
}

impl PacketSizes {
    fn new(packet_bytes_max: usize, initial_window: usize) -> Self {
        let chunks = packet_bytes_max.saturating_sub(COMMON_HEADER_BYTES) & !3;
        Self { chunks, payload: chunks.saturating_sub(DATA_HEADER_BYTES), initial_window }
    }
}

/// Max.Burst: how many packets with new data one event may release (RFC 9260 §6.1 rule D).
#[derive(Clone, Copy, Debug)]
struct Burst {
    packets_max: u32,
    packets_left: u32,
}

impl Burst {
    fn restart(&mut self) {
        self.packets_left = self.packets_max;
    }
}

impl Sender {
    /// A sender whose first chunk has the TSN `first_tsn`; `mechanisms` stand in for those of `config`. The window and the streams can be filled in by
    /// [`establish`](Self::establish).
    pub(crate) fn new(
        now: Instant,
        config: &Config,
        mechanisms: Arc<Mechanisms>,
        first_tsn: Tsn,
        peer_a_rwnd: u32,
        outbound_streams: u16,
        initial_window_bytes: usize,
    ) -> Self {
        let sizes = PacketSizes::new(config.limits.packet_bytes_max, initial_window_bytes);
        let packets_max = config.limits.burst_packets_max.max(1);
        Self {
            buffer: SendBuffer::new(config),
            streams: OutboundStreams { count: outbound_streams, next_ssn: StreamTable::new() },
            ledger: new_ledger(first_tsn),
            congestion: Congestion::Rfc9260(Rfc9260::new(sizes.chunks, sizes.initial_window)),
            recovery: Recovery::new(config, mechanisms),
            round_trip: RoundTrip::default(),
            repair: Repair::default(),
            timer: LossTimer::default(),
            window: PeerWindow::new(peer_a_rwnd),
            sizes,
            burst: Burst { packets_max, packets_left: packets_max },
            last_sent_at: now,
            closing: false,
            counters: SentStats::default(),
        }
    }

    /// What the peer allows is known, and the round-trip time if it could be measured. Queued messages for streams that the peer did
    /// not allow are abandoned when their turn comes.
    pub(crate) fn establish(
        &mut self,
        now: Instant,
        peer_a_rwnd: u32,
        outbound_streams: u16,
        rtt_sample: Option<Duration>,
        events: &mut Events,
    ) {
        self.window.told(peer_a_rwnd);
        self.streams.count = outbound_streams;
        self.drop_stale(now, events);
        if let Some(rtt) = rtt_sample {
            self.take_round_trip(now, rtt, events);
        }
        self.update_timers(now);
    }

    fn take_round_trip(&mut self, now: Instant, rtt: Duration, events: &mut Events) {
        self.recovery.sample(now, rtt);
        events.push_message_event(|| {
            let srtt = self.recovery.rtt.srtt().unwrap_or(rtt);
            Event::RoundTripMeasured { at: now, rtt, srtt, rto: self.recovery.rto() }
        });
    }

    /// Queues a message.
    ///
    /// # Errors
    /// Caller: the message cannot be sent, or not now.
    pub(crate) fn send(&mut self, now: Instant, message: Message, id: MessageId) -> Result<(), SendError> {
        let was_empty = self.buffer.is_empty();
        self.buffer.push(now, message, id, self.streams.count)?;
        self.counters.messages += 1;
        if was_empty {
            self.burst.restart();
            self.decay_idle_window(now);
            self.update_timers(now);
        }
        Ok(())
    }

    /// A round-trip time was measured by other means than DATA: the handshake or a HEARTBEAT (RFC 9260 §8.3). A T3-rtx that runs
    /// keeps its expiry, but a probe may now precede it.
    pub(crate) fn handle_round_trip(&mut self, now: Instant, rtt: Duration, events: &mut Events) {
        self.take_round_trip(now, rtt, events);
        self.update_timers(now);
    }

    /// No more messages will come: the last chunk asks for a SACK without delay (RFC 7053 §4, SHUTDOWN-PENDING).
    pub(crate) fn closing(&mut self) {
        self.closing = true;
    }

    /// Changes the loss-recovery mechanisms of the living association.
    pub(crate) fn set_mechanisms(&mut self, now: Instant, mechanisms: &Mechanisms) {
        self.recovery.set_mechanisms(mechanisms);
        self.update_timers(now);
    }

    /// The loss-recovery mechanisms.
    pub(crate) fn mechanisms(&self) -> &Mechanisms {
        self.recovery.mechanisms()
    }

    /// Nothing queued and nothing outstanding: SHUTDOWN may go.
    pub(crate) fn is_drained(&self) -> bool {
        self.buffer.is_empty() && self.ledger.is_empty()
    }

    /// Payload bytes that are queued or not acknowledged yet.
    pub(crate) fn left_bytes(&self) -> usize {
        self.buffer.used_bytes()
    }

    /// Gives back memory, if nothing is queued or outstanding.
    pub(crate) fn give_back_memory(&mut self) {
        if self.is_drained() {
            self.buffer.give_back_memory();
            self.ledger.give_back_memory();
            self.recovery.give_back_memory();
        }
    }

    /// The retransmission timeout, backoff included.
    pub(crate) fn rto(&self) -> Duration {
        self.recovery.rto()
    }

    /// Fills in the sending side's counters, but for packets and their bytes, and the path's gauges.
    pub(crate) fn fill_stats(&self, stats: &mut Stats) {
        let SentStats { packets, bytes, .. } = stats.sent;
        stats.sent = SentStats { packets, bytes, ..self.counters.clone() };
        let in_flight = self.ledger.in_flight();
        let path = &mut stats.path;
        path.srtt = self.recovery.rtt.srtt();
        path.rttvar = self.recovery.rtt.rttvar().unwrap_or_default();
        path.rto = self.recovery.rto();
        path.cwnd_bytes = self.congestion.cwnd() as u64;
        path.ssthresh_bytes = self.congestion.ssthresh() as u64;
        path.in_flight_bytes = in_flight.bytes as u64;
        path.in_flight_packets = u32::try_from(self.recovery.detector.in_flight()).unwrap_or(u32::MAX);
        path.peer_window_bytes = self.window.available_bytes(in_flight.payload_bytes) as u64;
        path.send_buffer_bytes = self.buffer.used_bytes() as u64;
        path.thin = self.recovery.is_thin();
    }

    /// The association is over: every message that was not acknowledged is abandoned.
    pub(crate) fn fail_all(&mut self, events: &mut Events) {
        let mut failed = Vec::new();
        while let Some((id, bytes, is_end)) =
            self.ledger.pop(|chunk| (chunk.message, chunk.payload.len(), chunk.piece.is_end()))
        {
            self.buffer.release(bytes, is_end);
            failed.push((id, AbandonReason::UnacknowledgedAtEnd));
        }
        while let Some(message) = self.buffer.front() {
            let reason = if message.begun { AbandonReason::UnacknowledgedAtEnd } else { AbandonReason::UnsentAtEnd };
            failed.push((message.id, reason));
            self.buffer.discard();
        }
        // Streams that take turns leave them out of order.
        failed.sort_unstable_by_key(|&(id, _)| id);
        failed.dedup_by_key(|&mut (id, _)| id);
        self.counters.messages_abandoned += failed.len() as u64;
        for (id, reason) in failed {
            events.push_abandoned(id, reason);
        }
        self.timer = LossTimer::default();
        self.window.opened();
    }

    /// The peer restarted (RFC 9260 §5.2.4 A): what was not acknowledged has failed, and sending starts anew once
    /// [`establish`](Self::establish) tells what the peer allows.
    pub(crate) fn reset_for_restart(&mut self, now: Instant, config: &Config, first_tsn: Tsn, events: &mut Events) {
        self.fail_all(events);
        self.streams.next_ssn.clear();
        self.ledger = new_ledger(first_tsn);
        self.congestion = Congestion::Rfc9260(Rfc9260::new(self.sizes.chunks, self.sizes.initial_window));
        self.recovery.reset(config.timers.rto_initial);
        self.round_trip = RoundTrip::default();
        self.repair = Repair::default();
        self.window = PeerWindow::new(0);
        self.burst.restart();
        self.last_sent_at = now;
        self.closing = false;
    }

    /// Lets cwnd decay for the time that nothing was on the way (RFC 9260 §7.2.1). The initial window waits for its first use.
    fn decay_idle_window(&mut self, now: Instant) {
        if self.ledger.is_empty() && self.counters.chunks > 0 {
            let rto_count = (now - self.last_sent_at).as_nanos() / self.recovery.rto().as_nanos().max(1);
            self.congestion.on_idle(u64::try_from(rto_count).unwrap_or(u64::MAX));
        }
    }

    /// Drops the messages in front that must not be sent any more. Whether there were any.
    #[inline]
    fn drop_stale(&mut self, now: Instant, events: &mut Events) -> bool {
        let is_stale = self.buffer.front_is_stale(now, self.streams.count);
        if is_stale {
            self.drop_all_stale(now, events);
        }
        is_stale
    }

    #[cold]
    fn drop_all_stale(&mut self, now: Instant, events: &mut Events) {
        while let Some((id, reason)) = self.buffer.pop_stale(now, self.streams.count) {
            self.counters.messages_abandoned += 1;
            events.push_abandoned(id, reason);
            if self.is_drained() {
                events.push(Event::Drained);
            }
            if self.buffer.take_writable() {
                events.push(Event::Writable);
            }
        }
    }
}

/// TSNs are unwrapped from here on, far enough from zero that a predecessor always exists.
fn new_ledger(first_tsn: Tsn) -> Ledger {
    Ledger::new((1 << 32) + u64::from(first_tsn.0))
}
