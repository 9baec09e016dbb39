//! The sending side of RFC 9260 as a state machine: messages and acknowledgements come in, DATA chunks and deadlines come out.
//!
//! It does not deal with handshakes, addresses or the receiving side; [`crate::association`] picks a path and asks it to fill packets.
//!
//! | module | purpose |
//! |---|---|
//! | [`flight`] | the messages until they are settled, with the rooms in which they are |
//! | [`queue`] | the send buffer: its contents, limit and low-water mark |
//! | [`backlog`] | the limit on unsent data, if it follows the congestion window |
//! | [`messages`] | each message until it is settled, with its lifetime |
//! | [`partial`] | decides which messages are abandoned, and sends FORWARD-TSN |
//! | [`scheduler`] | messages without a TSN, and the order of the streams |
//! | [`fragment`] | how much of a message goes into a packet |
//! | [`assemble`] | fills the next packet: retransmissions, bundled outstanding chunks, new data |
//! | [`marking`] | which packets are ECN-capable |
//! | [`timers`] | deadlines |
//! | [`window`] | the peer's receive window |
//! | [`streams`] | sequence numbers of each stream; streams being reset |
//! | [`path`] | state of one path: repair, congestion window, burst limit, packet sizes |
//! | [`repair`] | loss detection, probes and retransmissions |
//!
//! The chunks themselves live in [`crate::outstanding`], the congestion window in [`crate::congestion`].

mod assemble;
mod backlog;
mod flight;
mod fragment;
mod limits;
mod loaded;
mod marking;
mod messages;
mod path;
mod queue;
mod repair;
mod scheduler;
mod search;
#[cfg(test)]
mod tests;
mod timers;
mod window;

use festina_recovery::Mechanisms;
use festina_units::{Duration, Instant};

pub(crate) use assemble::Errand;
pub(crate) use limits::Duties;
pub(crate) use path::{SendPath, SendPaths};
pub(crate) use repair::{FlightAgain, TimerExpiry};
pub(crate) use search::{Probe, Search};

use crate::config::Config;
use crate::error::{ProtocolViolation, SendError};
use crate::event::{Event, Events};
use crate::message::{Message, MessageId};
use crate::outstanding::{Acknowledgement, ChunkState, Digest, PathId, PathSet};
use crate::stats::{RetransmittedStats, SentStats, Stats};
use crate::wire::Tsn;
use flight::Flight;
use limits::PathLimits;
use path::Pressure;
use repair::{Repair, Verdict};

/// The sending side of one association, but for what belongs to a path: its methods take the [`SendPath`] or [`SendPaths`] that they concern.
///
/// Order of use: one of [`send`](Self::send), [`acknowledge`](Self::acknowledge), [`handle_timeout`](Self::handle_timeout) and their like;
/// then [`fill`](Self::fill) one packet after the other while there is an [`errand`](Self::errand) for it; then ask for the
/// [`deadline`](Self::deadline).
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) flight: Flight,
    counters: Counters,
}

/// Counters for [`SentStats`].
#[derive(Debug, Default)]
struct Counters {
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
    sender.flight.ledger.first_tsn()..sender.flight.ledger.next_tsn()
}

/// The bytes that may be in the network on a path.
pub(crate) fn on_the_way_bytes(sender: &Sender, path: PathId) -> usize {
    sender.flight.ledger.on_the_way_bytes(path)
}

impl Sender {
    /// Creates a sender whose first chunk has the TSN `first_tsn`. The window and the streams can be set later by [`establish`](Self::establish).
    pub(crate) fn new(config: &Config, first_tsn: Tsn, peer_a_rwnd: u32, outbound_streams: u16) -> Self {
        Self { flight: Flight::new(config, first_tsn, peer_a_rwnd, outbound_streams), counters: Counters::default() }
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
        self.flight.window.told(peer_a_rwnd);
        self.flight.streams.establish(outbound_streams, !self.flight.buffer.is_empty());
        path.limits.sizes.set_framing(self.flight.framing);
        if self.flight.framing.alternates() {
            self.flight.buffer.bound_begun(path.limits.sizes.payload(), peer_a_rwnd);
        }
        self.flight.drop_stale(now, events);
        if let Some(rtt) = rtt_sample {
            path.repair.on_round_trip(now, path.limits.id, rtt, events);
        }
        self.settle(now, path);
    }

    /// The handshake is complete: chunks may leave by another path, as both ends have agreed.
    pub(crate) fn agree_on(&self, path: &mut SendPath, peer_decodes: bool, marks: bool) {
        path.limits.sizes.set_framing(self.flight.framing);
        path.set_peer_decodes(peer_decodes);
        if marks {
            path.begin_marking();
        }
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
        let (was_empty, was_drained) = (self.flight.buffer.is_empty(), self.flight.is_drained());
        let abandoned_before = self.flight.messages_abandoned;
        self.flight.follow_window(now, |ledger| path.surroundings(ledger));
        self.flight.push(now, message, id, events)?;
        if was_drained {
            path.was_silent(silence);
        }
        if self.flight.messages_abandoned > abandoned_before {
            self.flight.gave_up(now, || path.terms(), events);
            self.settle(now, path);
        }
        if was_empty {
            path.limits.burst.restart();
            if self.flight.ledger.is_empty() && self.counters.chunks > 0 {
                // cwnd decays for the time that nothing was in flight (RFC 9260 §7.2.1). The initial window waits for its first use.
                let pressure = Pressure::Idle { now, idle: now - path.last_sent_at, rto: path.rto() };
                path.regulate(pressure, |_, _| Verdict::default());
            }
            self.settle(now, path);
        }
        Ok(())
    }

    /// The round-trip time of `path` was measured by other means than DATA: the handshake or a HEARTBEAT (RFC 9260 §8.3). A T3-rtx
    /// that runs keeps its expiry, but a probe may now precede it.
    pub(crate) fn handle_round_trip(&mut self, now: Instant, path: &mut SendPath, rtt: Duration, events: &mut Events) {
        path.repair.on_round_trip(now, path.limits.id, rtt, events);
        path.repair.measured_undelayed(now, rtt);
        self.settle(now, path);
    }

    /// Handles the peer's report that a packet with this TSN was marked (ECNE). The window is cut once per round trip. Returns whether the TSN was
    /// ever sent, so that there is something to answer.
    pub(crate) fn handle_mark(&mut self, now: Instant, paths: &mut impl SendPaths, tsn: Tsn) -> bool {
        let tsn = tsn.unwrap(self.flight.ledger.next_tsn());
        if tsn >= self.flight.ledger.next_tsn() {
            return false;
        }
        let path = paths.of(self.flight.ledger.get(tsn).map_or(PathId::PRIMARY, |chunk| chunk.path));
        let judge = |repair: &mut Repair, _: &PathLimits| Verdict::of(repair.on_mark(tsn, &self.flight.ledger));
        path.regulate(Pressure::None, judge);
        self.flight.follow_window(now, |ledger| path.surroundings(ledger));
        self.settle(now, path);
        true
    }

    /// Applies an acknowledgement, and credits each path with the chunks last sent on it (RFC 9260 §7.2.1). One that is older than the
    /// latest only shows which packets arrived late. Returns the paths that it shows to work.
    ///
    /// Reports [`Event::MessageDelivered`], [`Event::Writable`] and [`Event::Drained`].
    ///
    /// # Errors
    /// Peer: it acknowledged a TSN that was never sent, or something is missing again that was to be kept for good.
    pub(crate) fn acknowledge(
        &mut self,
        now: Instant,
        paths: &mut impl SendPaths,
        acknowledgement: Acknowledgement<'_>,
        events: &mut Events,
    ) -> Result<PathSet, ProtocolViolation> {
        let path = paths.primary();
        let terms = path.repair.terms(now, &self.flight, &path.limits);
        let mut digest = Digest::default();
        if !self.flight.apply(now, acknowledgement, terms, &mut digest, events)? {
            let first_tsn = self.flight.ledger.first_tsn();
            if let Some(sack) = acknowledgement.sack {
                paths.all().for_each(|path| path.repair.take_late_packets(now, sack, first_tsn));
            }
            return Ok(PathSet::default());
        }
        self.counters.note_spurious(digest.duplicates.of_resent);
        let were_missing = self.flight.buffer.looks_for_missing() && self.flight.give_up_what_is_missing(now, events);
        for path in paths.all() {
            let verdict = path.react(now, acknowledgement.sack, &digest, &mut self.flight, events);
            self.counters.note(verdict);
        }
        if digest.cumulative_advanced && self.flight.buffer.is_empty() && self.flight.ledger.is_empty() {
            self.flight.drained(events);
        }
        let answered = digest.answered;
        self.flight.ledger.finish(&mut digest);
        let path = paths.primary();
        self.flight.follow_window(now, |ledger| path.surroundings(ledger));
        if self.flight.buffer.take_writable() {
            events.push(Event::Writable);
        }
        self.flight.drop_stale(now, events);
        if self.flight.abandon_what_is_over(now, || path.terms(), events) || were_missing {
            self.flight.gave_up(now, || path.terms(), events);
            paths.all().for_each(|path| self.settle(now, path));
        }
        let path = paths.primary();
        self.flight.judge_forward(now, || path.terms(), true);
        self.flight.update_window(now, path.limits.sizes.payload(), || path.rto());
        self.flight.window.note_closed(now);
        Ok(answered)
    }

    /// Returns whether an acknowledgement before has reported the chunk as received.
    pub(crate) fn is_acknowledged(&self, tsn: Tsn) -> bool {
        let chunk = self.flight.ledger.get(tsn.unwrap(self.flight.ledger.first_tsn()));
        chunk.is_none_or(|chunk| matches!(chunk.state, ChunkState::GapAcked | ChunkState::NonRenegable))
    }

    /// The peer reports chunks that it has computed from sums, ahead of their acknowledgement: `first`, and those above it by `mask`.
    pub(crate) fn handle_recovered(&mut self, paths: &mut impl SendPaths, first: Tsn, mask: u16) {
        let first = first.unwrap(self.flight.ledger.next_tsn());
        for tsn in (0..u16::BITS).filter(|bit| mask >> bit & 1 == 1).map(|bit| first + u64::from(bit)) {
            let chunk = self.flight.ledger.get(tsn);
            if let Some(chunk) = chunk.filter(|chunk| matches!(chunk.state, ChunkState::InFlight | ChunkState::Lost(_)))
            {
                paths.of(chunk.path).repair.on_recovered(tsn);
            }
        }
    }

    /// A packet with data left by one of several paths, or its timer expired: the detectors of the others count it if they do (P06 §4.1).
    #[cold]
    pub(crate) fn count_elsewhere(&mut self, now: Instant, paths: &mut impl SendPaths, id: PathId, timed_out: bool) {
        let path = paths.of(id);
        let latest = path.repair.detector().latest();
        if !path.mechanisms().destinations.detector_shared {
            return;
        }
        for other in paths.all().filter(|other| other.id() != id) {
            let (detector, number) = (other.repair.detector(), id.0.saturating_add(1));
            match latest {
                _ if timed_out => detector.timed_out_elsewhere(number),
                Some(tsn_highest) => detector.packet_sent_elsewhere(tsn_highest, number),
                None => {}
            }
            self.settle(now, other);
        }
    }

    /// Changes the loss-recovery mechanisms of a path in use.
    pub(crate) fn set_mechanisms(&mut self, now: Instant, path: &mut SendPath, mechanisms: &Mechanisms) {
        path.repair.set_mechanisms(mechanisms);
        self.settle(now, path);
    }

    /// Gives back memory, if nothing is queued or outstanding.
    pub(crate) fn give_back_memory(&mut self, paths: &mut impl SendPaths) {
        if self.flight.is_drained() {
            self.flight.buffer.give_back_memory();
            self.flight.ledger.give_back_memory();
            paths.all().for_each(SendPath::give_back_memory);
        }
    }

    /// Returns the sending side's counters, except those of packets, their bytes and the messages taken, and the gauges of `path`.
    pub(crate) fn stats_on(&self, path: &SendPath) -> Stats {
        let mut stats = Stats::default();
        let Counters { chunks, chunks_lost, spurious, timeouts, .. } = self.counters;
        stats.sent = SentStats {
            messages_acked: self.flight.messages_acked,
            messages_abandoned: self.flight.messages_abandoned,
            messages_abandoned_sent: self.flight.partial.as_ref().map_or(0, |partial| partial.abandoned_sent()),
            chunks,
            retransmitted: self.counters.retransmitted.clone(),
            chunks_lost,
            spurious,
            timeouts,
            forward_tsns: self.flight.partial.as_ref().map_or(0, |partial| partial.forward_tsns()),
            ..SentStats::default()
        };
        let in_flight = self.flight.ledger.in_flight();
        let SendPath { repair, limits: PathLimits { id, congestion, sizes, .. }, .. } = path;
        let gauges = &mut stats.path;
        gauges.id = *id;
        gauges.srtt = repair.rtt().srtt();
        gauges.rtt_latest = repair.rtt().rtt_latest();
        gauges.rttvar = repair.rtt().rttvar().unwrap_or_default();
        gauges.rto = repair.rto();
        gauges.cwnd_bytes = congestion.cwnd() as u64;
        gauges.ssthresh_bytes = congestion.ssthresh() as u64;
        gauges.in_flight_bytes = self.flight.ledger.in_flight_by_path().of(*id).bytes as u64;
        gauges.in_flight_packets = repair.packets_in_flight();
        gauges.in_fast_recovery = repair.in_fast_recovery();
        gauges.peer_window_bytes = self.flight.window.available_bytes(in_flight.payload_bytes) as u64;
        gauges.peer_window_closed_since = self.flight.window.closed_since();
        gauges.send_buffer_bytes = self.flight.buffer.used_bytes() as u64;
        gauges.messages_pending = self.flight.buffer.pending_messages().into();
        gauges.thin = repair.is_thin();
        stats.packet_bytes_max = sizes.packet() as u64;
        stats.abandoned = self.flight.partial.as_ref().map_or_else(Default::default, |partial| partial.abandoned());
        stats
    }

    /// Bytes of queued messages that have not been sent.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.flight.buffer.queued_bytes()
    }

    /// The surroundings of repair changed. The last act of each mutation.
    fn settle(&mut self, now: Instant, path: &mut SendPath) {
        path.repair.settle(now, &self.flight, &path.limits);
        self.flight.update_window(now, path.limits.sizes.payload(), || path.rto());
    }
}
