//! The sending side of RFC 9260 as a state machine: messages and acknowledgements come in, DATA chunks and deadlines come out.
//!
//! It knows nothing of handshakes, addresses or the receiving side; [`crate::association`] asks it to fill packets.
//!
//! | room | what it knows |
//! |---|---|
//! | [`queue`] | the send buffer: limit and low-water mark, and what it holds |
//! | [`messages`] | each message until it is settled; how long it is worth sending |
//! | [`scheduler`] | what has no TSN yet, and whose turn it is |
//! | [`fragment`] | how much of a message goes into a packet |
//! | [`assemble`] | what goes into the next packet: retransmissions, companions, new data |
//! | [`acknowledge`] | what a SACK changes: buffer, windows, events |
//! | [`timers`] | deadlines |
//! | [`window`] | the peer's receive window |
//! | [`repair`] | what is lost, when to ask, what leaves again |
//!
//! The chunks themselves live in [`crate::outstanding`], the congestion window in [`crate::congestion`].

mod acknowledge;
mod assemble;
mod fragment;
mod messages;
mod queue;
mod repair;
mod scheduler;
#[cfg(test)]
mod tests;
mod timers;
mod window;

use std::sync::Arc;

use festina_recovery::Mechanisms;
use festina_units::{Duration, Instant};

pub(crate) use acknowledge::SackOutcome;
pub(crate) use repair::TimerExpiry;

use crate::config::Config;
use crate::congestion::{Ack, Congestion};
use crate::error::SendError;
use crate::event::{AbandonReason, Event, Events};
use crate::message::{Message, MessageId};
use crate::outstanding::Ledger;
use crate::stats::{SentStats, Stats};
use crate::stream_table::StreamTable;
use crate::wire::{COMMON_HEADER_BYTES, DATA_HEADER_BYTES, Tsn};
use queue::SendBuffer;
use repair::{Release, Repair, Verdict, View, WindowVerdict};
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
    repair: Repair,
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

/// What presses on the congestion window.
#[derive(Clone, Copy, Debug)]
enum Pressure {
    /// An acknowledgement, told before a loss that it reveals (the note of RFC 9260 §7.2.4).
    Acked(Ack),
    /// What repair found.
    Found(WindowVerdict),
    /// New data comes after nothing was on the way for `idle` (RFC 9260 §7.2.1).
    Idle { now: Instant, idle: Duration, rto: Duration },
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
    /// A sender that is paced needs no other limit.
    fn new(config: &Config, congestion: &Congestion) -> Self {
        let packets_max = if congestion.is_paced() { u32::MAX } else { config.limits.burst_packets_max.max(1) };
        Self { packets_max, packets_left: packets_max }
    }

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
        let congestion = Congestion::new(config.congestion, sizes.chunks, sizes.initial_window);
        Self {
            buffer: SendBuffer::new(config),
            streams: OutboundStreams { count: outbound_streams, next_ssn: StreamTable::new() },
            ledger: new_ledger(first_tsn),
            burst: Burst::new(config, &congestion),
            congestion,
            repair: Repair::new(config, mechanisms),
            window: PeerWindow::new(peer_a_rwnd),
            sizes,
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
            self.repair.on_round_trip(now, rtt, events);
        }
        self.settle(now);
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
            self.settle(now);
        }
        Ok(())
    }

    /// A round-trip time was measured by other means than DATA: the handshake or a HEARTBEAT (RFC 9260 §8.3). A T3-rtx that runs
    /// keeps its expiry, but a probe may now precede it.
    pub(crate) fn handle_round_trip(&mut self, now: Instant, rtt: Duration, events: &mut Events) {
        self.repair.on_round_trip(now, rtt, events);
        self.settle(now);
    }

    /// No more messages will come: the last chunk asks for a SACK without delay (RFC 7053 §4, SHUTDOWN-PENDING).
    pub(crate) fn closing(&mut self) {
        self.closing = true;
    }

    /// Changes the loss-recovery mechanisms of the living association.
    pub(crate) fn set_mechanisms(&mut self, now: Instant, mechanisms: &Mechanisms) {
        self.repair.set_mechanisms(mechanisms);
        self.settle(now);
    }

    /// The loss-recovery mechanisms.
    pub(crate) fn mechanisms(&self) -> &Mechanisms {
        self.repair.mechanisms()
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
            self.repair.give_back_memory();
            self.congestion.give_back_memory();
        }
    }

    /// The retransmission timeout, backoff included.
    pub(crate) fn rto(&self) -> Duration {
        self.repair.rto()
    }

    /// Fills in the sending side's counters, but for packets and their bytes, and the path's gauges.
    pub(crate) fn fill_stats(&self, stats: &mut Stats) {
        let SentStats { packets, bytes, .. } = stats.sent;
        stats.sent = SentStats { packets, bytes, ..self.counters.clone() };
        let in_flight = self.ledger.in_flight();
        let path = &mut stats.path;
        path.srtt = self.repair.rtt().srtt();
        path.rttvar = self.repair.rtt().rttvar().unwrap_or_default();
        path.rto = self.repair.rto();
        path.cwnd_bytes = self.congestion.cwnd() as u64;
        path.ssthresh_bytes = self.congestion.ssthresh() as u64;
        path.in_flight_bytes = in_flight.bytes as u64;
        path.in_flight_packets = self.repair.packets_in_flight();
        path.peer_window_bytes = self.window.available_bytes(in_flight.payload_bytes) as u64;
        path.send_buffer_bytes = self.buffer.used_bytes() as u64;
        path.thin = self.repair.is_thin();
    }

    /// The association is over: every message that was not acknowledged is abandoned.
    pub(crate) fn fail_all(&mut self, events: &mut Events) {
        let mut failed = Vec::new();
        while let Some((slot, bytes)) = self.ledger.pop(|chunk| (chunk.message, chunk.payload.len())) {
            let id = self.buffer.message(slot).map(|message| message.id);
            failed.extend(id.map(|id| (id, AbandonReason::UnacknowledgedAtEnd)));
            self.buffer.release(slot, bytes);
        }
        while let Some((id, has_tsn)) = self.buffer.discard() {
            let reason = if has_tsn { AbandonReason::UnacknowledgedAtEnd } else { AbandonReason::UnsentAtEnd };
            failed.push((id, reason));
        }
        // Streams that take turns leave them out of order.
        failed.sort_unstable_by_key(|&(id, _)| id);
        failed.dedup_by_key(|&mut (id, _)| id);
        self.counters.messages_abandoned += failed.len() as u64;
        for (id, reason) in failed {
            events.push_abandoned(id, reason);
        }
        self.repair.stop();
        self.window.opened();
    }

    /// The peer restarted (RFC 9260 §5.2.4 A): what was not acknowledged has failed, and sending starts anew once
    /// [`establish`](Self::establish) tells what the peer allows.
    pub(crate) fn reset_for_restart(&mut self, now: Instant, config: &Config, first_tsn: Tsn, events: &mut Events) {
        self.fail_all(events);
        self.streams.next_ssn.clear();
        self.ledger = new_ledger(first_tsn);
        self.congestion = Congestion::new(config.congestion, self.sizes.chunks, self.sizes.initial_window);
        self.repair.reset(config);
        self.window = PeerWindow::new(0);
        self.burst.restart();
        self.last_sent_at = now;
        self.closing = false;
    }

    /// What repair sees of the other rooms.
    fn view(&self) -> View<'_> {
        let Self { buffer, window, congestion, sizes, burst, .. } = self;
        View { buffer, window, congestion, sizes: *sizes, burst_packets: burst.packets_left }
    }

    /// Repair, the ledger that it marks, and what it sees of the other rooms.
    fn split(&mut self) -> (&mut Repair, &mut Ledger, View<'_>) {
        let Self { repair, ledger, buffer, window, congestion, sizes, burst, .. } = self;
        (repair, ledger, View { buffer, window, congestion, sizes: *sizes, burst_packets: burst.packets_left })
    }

    /// Does what repair found.
    fn obey(&mut self, verdict: Verdict) {
        let Verdict { lost, found, window, release } = verdict;
        self.counters.chunks_lost = (self.counters.chunks_lost + lost as u64).saturating_sub(found as u64);
        match release {
            Release::Same => {}
            Release::Usual => self.burst.restart(),
            Release::Packets(packets) => self.burst.packets_left = packets.min(self.burst.packets_max),
        }
        self.regulate(Pressure::Found(window));
    }

    /// The one place that moves cwnd.
    fn regulate(&mut self, pressure: Pressure) {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        match pressure {
            Pressure::Acked(ack) => self.congestion.on_ack(&ack),
            Pressure::Found(WindowVerdict::Keep) => {}
            Pressure::Found(WindowVerdict::Cut(sign)) => self.congestion.on_congestion(sign),
            Pressure::Found(WindowVerdict::Undo(window)) => {
                self.congestion.undo(bytes(window.cwnd_bytes), bytes(window.ssthresh_bytes));
            }
            Pressure::Idle { now, idle, rto } => self.congestion.on_idle(now, idle, rto),
        }
    }

    /// Lets cwnd decay for the time that nothing was on the way (RFC 9260 §7.2.1). The initial window waits for its first use.
    fn decay_idle_window(&mut self, now: Instant) {
        if self.ledger.is_empty() && self.counters.chunks > 0 {
            self.regulate(Pressure::Idle { now, idle: now - self.last_sent_at, rto: self.repair.rto() });
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
