//! The sending side of RFC 9260 as a state machine: messages and acknowledgements come in, DATA chunks and deadlines come out.
//!
//! It does not deal with handshakes, addresses or the receiving side; [`crate::association`] picks a path and asks it to fill packets.
//!
//! | module | purpose |
//! |---|---|
//! | [`queue`] | the send buffer: its contents, limit and low-water mark |
//! | [`backlog`] | the limit on unsent data, if it follows the congestion window |
//! | [`messages`] | each message until it is settled, with its lifetime |
//! | [`partial`] | decides which messages are abandoned, and sends FORWARD-TSN |
//! | [`scheduler`] | messages without a TSN, and the order of the streams |
//! | [`fragment`] | how much of a message goes into a packet |
//! | [`assemble`] | fills the next packet: retransmissions, bundled outstanding chunks, new data |
//! | [`acknowledge`] | applies a SACK to buffer, windows and events |
//! | [`marking`] | which packets are ECN-capable |
//! | [`timers`] | deadlines |
//! | [`window`] | the peer's receive window |
//! | [`streams`] | sequence numbers of each stream; streams being reset |
//! | [`path`] | state of one path: repair, congestion window, burst limit, packet sizes |
//! | [`repair`] | loss detection, probes and retransmissions |
//!
//! The chunks themselves live in [`crate::outstanding`], the congestion window in [`crate::congestion`].

mod acknowledge;
mod assemble;
mod backlog;
mod fragment;
mod marking;
mod messages;
mod partial;
mod path;
mod queue;
mod repair;
mod scheduler;
mod streams;
#[cfg(test)]
mod tests;
mod timers;
mod window;

use festina_recovery::Mechanisms;
use festina_units::{Duration, Instant};

pub(crate) use acknowledge::SackOutcome;
pub(crate) use assemble::Errand;
pub(crate) use path::{SendPath, SendPaths};
pub(crate) use repair::TimerExpiry;
pub(crate) use timers::FlightAgain;

use crate::config::Config;
use crate::error::SendError;
use crate::event::{AbandonReason, Event, Events};
use crate::message::{Message, MessageId};
use crate::outstanding::{ChunkState, Ledger};
use crate::stats::{AbandonedStats, RetransmittedStats, SentStats, Stats};
use crate::wire::{Framing, StreamId, Tsn};
use partial::{Abandoning, Partial};
use path::Pressure;
use queue::{Room, SendBuffer};
use repair::{Verdict, WindowVerdict};
use streams::{OutboundStreams, Streams};
use window::PeerWindow;

/// The sending side of one association, but for what belongs to a path: its methods take the [`SendPath`] or [`SendPaths`] that they concern.
///
/// Order of use: one of [`send`](Self::send), [`acknowledge`](Self::acknowledge), [`handle_timeout`](Self::handle_timeout) and their like;
/// then [`fill`](Self::fill) one packet after the other while there is an [`errand`](Self::errand) for it; then ask for the
/// [`deadline`](Self::deadline).
#[derive(Debug)]
pub(crate) struct Sender {
    buffer: SendBuffer,
    streams: OutboundStreams,
    ledger: Ledger,
    window: PeerWindow,
    partial: Option<Box<Partial>>,
    /// The peer supports FORWARD-TSN, or I-FORWARD-TSN with I-DATA.
    forwards: bool,
    /// The peer passes over abandoned chunks that lie apart, too.
    apart: bool,
    /// The chunk that carries messages.
    framing: Framing,
    /// No more messages will come.
    closing: bool,
    /// More chunks than a thin stream has were outstanding at some time since all was last acknowledged.
    is_burst: bool,
    counters: Counters,
}

/// Counters for [`SentStats`].
#[derive(Debug, Default)]
struct Counters {
    messages_acked: u64,
    messages_abandoned: u64,
    chunks: u64,
    retransmitted: RetransmittedStats,
    chunks_lost: u64,
    spurious: u64,
    timeouts: u64,
}

impl Counters {
    /// Counts the losses that repair found.
    fn note(&mut self, verdict: Verdict) {
        let Verdict { lost, found, .. } = verdict;
        self.chunks_lost = (self.chunks_lost + lost as u64).saturating_sub(found as u64);
    }

    /// Counts retransmissions that the peer reports as duplicates. The network may duplicate, too, so all retransmissions bound the count.
    fn note_spurious(&mut self, duplicates: usize) {
        if duplicates > 0 {
            self.spurious = self.spurious.saturating_add(duplicates as u64).min(self.retransmitted.total());
        }
    }
}

/// The TSNs in use that are not acknowledged cumulatively.
pub(crate) fn outstanding_tsns(sender: &Sender) -> core::ops::Range<u64> {
    sender.ledger.first_tsn()..sender.ledger.next_tsn()
}

impl Sender {
    /// Creates a sender whose first chunk has the TSN `first_tsn`. The window and the streams can be set later by [`establish`](Self::establish).
    pub(crate) fn new(config: &Config, first_tsn: Tsn, peer_a_rwnd: u32, outbound_streams: u16) -> Self {
        Self {
            buffer: SendBuffer::new(config),
            streams: OutboundStreams::new(outbound_streams),
            ledger: new_ledger(first_tsn),
            window: PeerWindow::new(peer_a_rwnd),
            partial: None,
            forwards: false,
            apart: false,
            framing: Framing::Data,
            closing: false,
            is_burst: false,
            counters: Counters::default(),
        }
    }

    /// Sets the peer's limits, and the round-trip time of `path` if it was measured. Queued messages for streams that the peer did not allow are
    /// abandoned when their turn comes.
    pub(crate) fn establish(
        &mut self,
        now: Instant,
        path: &mut SendPath,
        peer_a_rwnd: u32,
        outbound_streams: u16,
        rtt_sample: Option<Duration>,
        events: &mut Events,
    ) {
        self.window.told(peer_a_rwnd);
        self.streams.establish(outbound_streams, !self.buffer.is_empty());
        path.sizes.set_framing(self.framing);
        if self.framing.alternates() {
            self.buffer.bound_begun(path.sizes.payload(), peer_a_rwnd);
        }
        self.drop_stale(now, events);
        if let Some(rtt) = rtt_sample {
            path.repair.on_round_trip(now, path.id, rtt, events);
        }
        self.settle(now, path);
    }

    /// Sets the results of the handshake: the chunk type for messages, and whether the peer can skip abandoned messages, also by single chunks
    /// (`apart`). [`establish`](Self::establish) follows.
    pub(crate) fn agree(&mut self, framing: Framing, forwards: bool, apart: bool) {
        if framing != self.framing {
            self.ledger.reframe(framing);
        }
        self.framing = framing;
        self.forwards = forwards;
        self.apart = apart;
        self.ledger.set_buries(apart);
    }

    /// Queues a message, which is to leave by `path`, where the peer has answered nothing for `silence`.
    ///
    /// # Errors
    /// Caller: the message cannot be sent, or not now.
    pub(crate) fn send(
        &mut self,
        (now, silence): (Instant, Duration),
        path: &mut SendPath,
        message: Message,
        id: MessageId,
        events: &mut Events,
    ) -> Result<(), SendError> {
        let was_empty = self.buffer.is_empty();
        self.buffer.follow(now, || path.surroundings(&self.ledger));
        if !self.buffer.fits(&message, self.streams.count()) {
            return Err(self.buffer.fault(message, self.streams.count()));
        }
        if self.streams.is_resetting(message.stream) {
            return Err(SendError::StreamResetting(message));
        }
        if self.is_drained() {
            path.was_silent(silence);
        }
        let abandoned_before = self.counters.messages_abandoned;
        if message.is_tracked() {
            self.abandoning().push_partial(now, message, id, events)?;
        } else if self.buffer.has_room(message.payload.len(), Room::default()) {
            self.buffer.push(now, message, id);
        } else {
            return Err(self.buffer.refuse(message));
        }
        if self.counters.messages_abandoned > abandoned_before {
            self.gave_up(now, path, events);
            self.settle(now, path);
        }
        if was_empty {
            path.burst.restart();
            if self.ledger.is_empty() && self.counters.chunks > 0 {
                // cwnd decays for the time that nothing was in flight (RFC 9260 §7.2.1). The initial window waits for its first use.
                let pressure = Pressure::Idle { now, idle: now - path.last_sent_at, rto: path.rto() };
                path.regulate(pressure, &self.buffer, &self.window, |_, _| Verdict::of(WindowVerdict::Keep));
            }
            self.settle(now, path);
        }
        Ok(())
    }

    /// The round-trip time of `path` was measured by other means than DATA: the handshake or a HEARTBEAT (RFC 9260 §8.3). A T3-rtx
    /// that runs keeps its expiry, but a probe may now precede it.
    pub(crate) fn handle_round_trip(&mut self, now: Instant, path: &mut SendPath, rtt: Duration, events: &mut Events) {
        path.repair.on_round_trip(now, path.id, rtt, events);
        path.repair.measured_undelayed(now, rtt);
        self.settle(now, path);
    }

    /// No more messages will come: the last chunk asks for a SACK without delay (RFC 7053 §4, SHUTDOWN-PENDING).
    pub(crate) fn closing(&mut self) {
        self.closing = true;
    }

    /// Changes the loss-recovery mechanisms of a path in use.
    pub(crate) fn set_mechanisms(&mut self, now: Instant, path: &mut SendPath, mechanisms: &Mechanisms) {
        path.repair.set_mechanisms(mechanisms);
        self.settle(now, path);
    }

    /// Abandoned messages of one stream, by policy.
    pub(crate) fn abandoned_on(&self, stream: StreamId) -> AbandonedStats {
        self.partial.as_ref().map_or_else(Default::default, |partial| partial.abandoned_on(stream))
    }

    /// The streams: their number, the scheduler's values, and resets.
    pub(crate) fn streams(&mut self) -> Streams<'_> {
        let forwarded = self.partial.as_ref().map_or(0, |partial| partial.forwarded());
        let Self { streams, buffer, ledger, framing, .. } = self;
        Streams { outbound: streams, buffer, ledger, forwarded, framing: *framing }
    }

    /// Nothing queued and nothing outstanding: SHUTDOWN may go.
    pub(crate) fn is_drained(&self) -> bool {
        self.buffer.is_empty() && self.ledger.is_empty()
    }

    /// Payload bytes that are queued or not acknowledged yet, and their number with all bytes abandoned so far. Only an acknowledgement makes the latter
    /// smaller once no more messages come.
    pub(crate) fn left_bytes(&self) -> (usize, u64) {
        let left_bytes = self.buffer.used_bytes();
        (left_bytes, left_bytes as u64 + self.partial.as_ref().map_or(0, |partial| partial.abandoned_bytes()))
    }

    /// Gives back memory, if nothing is queued or outstanding.
    pub(crate) fn give_back_memory(&mut self, paths: &mut impl SendPaths) {
        if self.is_drained() {
            self.buffer.give_back_memory();
            self.ledger.give_back_memory();
            paths.all().for_each(SendPath::give_back_memory);
        }
    }

    /// Returns the sending side's counters, except those of packets, their bytes and the messages taken, and the gauges of `path`.
    pub(crate) fn stats_on(&self, path: &SendPath) -> Stats {
        let mut stats = Stats::default();
        let Counters { messages_acked, messages_abandoned, chunks, chunks_lost, spurious, timeouts, .. } =
            self.counters;
        stats.sent = SentStats {
            messages_acked,
            messages_abandoned,
            messages_abandoned_sent: self.partial.as_ref().map_or(0, |partial| partial.abandoned_sent()),
            chunks,
            retransmitted: self.counters.retransmitted.clone(),
            chunks_lost,
            spurious,
            timeouts,
            forward_tsns: self.partial.as_ref().map_or(0, |partial| partial.forward_tsns()),
            ..SentStats::default()
        };
        let in_flight = self.ledger.in_flight();
        let SendPath { repair, congestion, .. } = path;
        let gauges = &mut stats.path;
        gauges.id = path.id;
        gauges.srtt = repair.rtt().srtt();
        gauges.rttvar = repair.rtt().rttvar().unwrap_or_default();
        gauges.rto = repair.rto();
        gauges.cwnd_bytes = congestion.cwnd() as u64;
        gauges.ssthresh_bytes = congestion.ssthresh() as u64;
        gauges.in_flight_bytes = self.ledger.in_flight_by_path().of(path.id).bytes as u64;
        gauges.in_flight_packets = repair.packets_in_flight();
        gauges.in_fast_recovery = repair.in_fast_recovery();
        gauges.peer_window_bytes = self.window.available_bytes(in_flight.payload_bytes) as u64;
        gauges.peer_window_closed_since = self.window.closed_since();
        gauges.send_buffer_bytes = self.buffer.used_bytes() as u64;
        gauges.messages_pending = self.buffer.pending_messages().into();
        gauges.thin = repair.is_thin();
        stats.abandoned = self.partial.as_ref().map_or_else(Default::default, |partial| partial.abandoned());
        stats
    }

    /// The association has ended: abandons every unacknowledged message. The caller [stops](SendPath::stop) the paths.
    pub(crate) fn fail_all(&mut self, events: &mut Events) {
        let mut failed = Vec::new();
        while let Some((slot, bytes, state)) =
            self.ledger.pop(|chunk| (chunk.message, chunk.payload.len(), chunk.state))
        {
            if state == ChunkState::NonRenegable {
                continue;
            }
            let id = self.buffer.message(slot).map(|message| message.id);
            let is_news = !state.is_abandoned();
            failed.extend(id.filter(|_| is_news).map(|id| (id, AbandonReason::UnacknowledgedAtEnd)));
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
            let sent = reason == AbandonReason::UnacknowledgedAtEnd;
            if sent {
                self.partial.get_or_insert_default().note_sent_at_end();
            }
            events.push_abandoned(id, reason, sent);
        }
        if let Some(partial) = &mut self.partial {
            partial.clear();
        }
        self.streams.forget_resets();
        self.window.opened();
    }

    /// The peer restarted (RFC 9260 §5.2.4 A): unacknowledged messages have failed. Sending resumes when [`establish`](Self::establish) passes the
    /// peer's new limits. The caller [resets](SendPath::reset_for_restart) the paths.
    pub(crate) fn reset_for_restart(&mut self, first_tsn: Tsn, events: &mut Events) {
        self.fail_all(events);
        self.streams.clear();
        self.ledger = new_ledger(first_tsn);
        self.window = PeerWindow::new(0);
        self.closing = false;
    }

    /// The surroundings of repair changed. The last act of each mutation.
    fn settle(&mut self, now: Instant, path: &mut SendPath) {
        let (repair, view) = path.split(&self.buffer, &self.window);
        repair.settle(now, &self.ledger, &view);
        self.update_window(now, path);
    }

    /// Nothing may be outstanding while the next chunk waits for the peer's window: then that is to be probed.
    fn update_window(&mut self, now: Instant, path: &SendPath) {
        let blocked = self.ledger.is_empty()
            && path
                .view(&self.buffer, &self.window)
                .next_piece_bytes()
                .is_some_and(|bytes| bytes > self.window.available_bytes(0));
        self.window.update(blocked, || now + path.rto());
    }

    /// Returns whether the message in front must not be sent any more.
    #[inline]
    fn front_is_stale(&self, now: Instant) -> bool {
        let may_be_stale = !self.buffer.is_empty() && (self.partial.is_some() || self.streams.may_refuse());
        may_be_stale && self.buffer.front_stale(now, self.streams.count()).is_some()
    }

    /// Drops the messages in front that must not be sent any more. Whether there were any.
    #[inline]
    fn drop_stale(&mut self, now: Instant, events: &mut Events) -> bool {
        let is_stale = self.front_is_stale(now);
        if is_stale {
            self.abandoning().give_up_what_is_stale(now, events);
            self.report_room(events);
        }
        is_stale
    }

    /// Nothing is queued or outstanding any more: memory stays for a thin stream, and for another burst if this was one.
    fn drained(&mut self, events: &mut Events) {
        events.push(Event::Drained);
        if !std::mem::take(&mut self.is_burst) {
            self.buffer.calm_down();
            self.ledger.calm_down();
        }
    }

    /// Abandons messages.
    fn abandoning(&mut self) -> Abandoning<'_> {
        let Self { buffer, ledger, streams, partial, counters, framing, forwards, apart, .. } = self;
        let (framing, forwards, apart) = (*framing, *forwards, *apart);
        let messages_abandoned = &mut counters.messages_abandoned;
        Abandoning { buffer, ledger, streams, partial, messages_abandoned, framing, forwards, apart }
    }

    /// Abandons messages whose lifetime has ended, and those that would exceed their retransmissions. Returns whether there were any.
    #[inline]
    fn abandon_what_is_over(&mut self, now: Instant, path: &SendPath, events: &mut Events) -> bool {
        let may_be_over = self.partial.is_some() || self.ledger.lost().chunks > 0;
        may_be_over && self.abandoning().give_up_what_is_over(now, path, events)
    }

    /// Messages were abandoned: reports the free space, and decides whether a FORWARD-TSN is needed.
    fn gave_up(&mut self, now: Instant, path: &SendPath, events: &mut Events) {
        self.report_room(events);
        if let Some(partial) = &mut self.partial {
            partial.judge_forward(now, path, &self.ledger, (self.framing, self.apart), false);
        }
    }

    /// Messages were abandoned: reports the free space.
    fn report_room(&mut self, events: &mut Events) {
        if self.is_drained() {
            self.drained(events);
        }
        if self.buffer.take_writable() {
            events.push(Event::Writable);
        }
    }
}

/// TSNs are unwrapped from here on, far enough from zero that a predecessor always exists.
fn new_ledger(first_tsn: Tsn) -> Ledger {
    Ledger::new((1 << 32) + u64::from(first_tsn.0))
}
