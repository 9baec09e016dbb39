//! The sending half: send buffer, transmission, and the state that acknowledgements and timers change.

mod ack;
mod buffer;
mod limited_transmit;
mod linux;
mod rack;
mod scoreboard;
mod timers;

use festina_recovery::early_retransmit;
use festina_units::{Duration, Instant};

use self::{
    buffer::SendBuffer,
    linux::LinuxRecovery,
    scoreboard::{DUP_THRESH, Scoreboard, SegmentState, SentSegment},
    timers::Timers,
};
pub(super) use ack::Acknowledgement;

use super::{
    config::{LossRecovery, TcpConfig},
    congestion::Congestion,
    event::{Cause, EventQueue, TcpEvent},
};

/// In flight below which Linux calls a stream thin (`tcp-thin.txt`).
const THIN_SEGMENTS: u32 = 4;

/// The sending half of a connection.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    /// The negotiated settings.
    pub(super) config: TcpConfig,
    pub(super) events: EventQueue,
    pub(super) counters: TcpCounters,
    pub(super) congestion: Congestion,
    pub(super) timers: Timers,
    buffer: SendBuffer,
    board: Scoreboard,
    recovery: Recovery,
    linux: LinuxRecovery,
    probe: ProbeState,
    round: Round,
    /// First byte not yet acknowledged.
    una: u64,
    /// First byte not yet sent.
    next: u64,
    /// First byte that the peer's window does not admit.
    window_edge: u64,
    last_sent: Option<Instant>,
}

/// Counters of a connection.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Segments with new data.
    pub data_segments: u64,
    /// Retransmitted segments, by cause: timeouts and what followed them.
    pub retransmitted_timeout: u64,
    /// Retransmitted by fast retransmit and fast recovery.
    pub retransmitted_fast: u64,
    /// Retransmitted as a tail loss probe.
    pub retransmitted_probe: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Fast recoveries entered.
    pub fast_recoveries: u64,
    /// Reductions of cwnd because of ECN.
    pub ecn_reductions: u64,
}

/// Loss recovery (RFC 6582 §3.2, RFC 6675 §5).
#[derive(Clone, Debug, Default)]
struct Recovery {
    phase: Phase,
    /// `next` when the last recovery began: the "recover" of RFC 6582.
    high: u64,
    /// The first retransmission of a recovery ignores cwnd.
    first_is_due: bool,
    /// Rule 4 of `NextSeg` was used (RFC 6675 §4).
    rescued: bool,
    /// `una` when it began.
    una_at_start: u64,
    /// ECN marks below this report congestion for which cwnd was already reduced (RFC 3168 §6.1.2).
    reduced_through: u64,
    /// The next segment with new data reports that cwnd was reduced.
    confirms_reduction: bool,
}

/// The sender's view of the network.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// Something is missing, but not yet presumed lost (Linux only).
    Disorder,
    /// Fast recovery.
    Fast,
    /// Slow start after a timeout.
    Timeout,
}

/// The tail loss probe in flight (RFC 8985 §7).
#[derive(Clone, Debug, Default)]
struct ProbeState {
    /// The timer expired; the next poll sends the probe.
    due: bool,
    /// `TLP.end_seq`: the number whose acknowledgement ends the episode.
    end: Option<u64>,
    /// The probe was a retransmission.
    repeated: bool,
}

/// Whether cwnd is the limit (RFC 7661 in spirit, Linux's rule): the most that was in flight lately.
#[derive(Clone, Debug, Default)]
struct Round {
    end: u64,
    flight_max: u32,
}

/// A segment to send now.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) sequence: u64,
    pub(super) length_bytes: u32,
    pub(super) fin: bool,
    /// Only new data may carry ECT (RFC 3168 §6.1.5).
    pub(super) is_new: bool,
    pub(super) confirms_reduction: bool,
}

impl Sender {
    pub(super) fn cwnd_bytes(&self) -> u64 {
        u64::from(self.congestion.cwnd()) * u64::from(self.config.mss_bytes)
    }

    pub(super) fn new(config: TcpConfig) -> Self {
        Self {
            congestion: Congestion::new(config.congestion, config.growth, config.initial_window_segments),
            timers: Timers::new(config.rto.initial),
            buffer: SendBuffer::new(config.send_buffer),
            config,
            events: EventQueue::default(),
            counters: TcpCounters::default(),
            board: Scoreboard::default(),
            recovery: Recovery::default(),
            linux: LinuxRecovery::default(),
            probe: ProbeState::default(),
            round: Round::default(),
            una: 0,
            next: 0,
            window_edge: 0,
            last_sent: None,
        }
    }

    pub(super) fn close(&mut self) {
        self.buffer.closed = true;
    }

    /// Bytes in the send buffer, sent or not.
    pub(super) fn buffered(&self) -> u64 {
        self.buffer.written.saturating_sub(self.una)
    }

    fn unsent(&self) -> u64 {
        self.buffer.written.saturating_sub(self.next)
    }

    pub(super) fn written(&self) -> u64 {
        self.buffer.written
    }

    pub(super) fn sent(&self) -> u64 {
        self.next.min(self.buffer.written)
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.una.min(self.buffer.written)
    }

    pub(super) fn sacked(&self) -> u32 {
        self.board.sacked()
    }

    /// Returns whether the stream and its FIN were acknowledged.
    pub(super) fn finished(&self) -> bool {
        self.buffer.closed && self.una > self.buffer.written
    }

    fn fin_is_unsent(&self) -> bool {
        self.buffer.closed && self.next == self.buffer.written
    }

    /// Sequence number of a segment without data: the next byte.
    pub(super) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// The handshake ended: the peer's window and, if the SYN was not sent twice, an RTT sample.
    pub(super) fn open(&mut self, window_bytes: u64, rtt: Option<Duration>) {
        self.window_edge = window_bytes;
        match rtt {
            Some(rtt) => self.timers.sample(rtt, self.una, self.next, &self.config.rto),
            None => self.congestion.syn_was_lost(),
        }
    }

    /// Linux's thin stream: fewer than four segments outstanding, and a loss has ended the first slow
    /// start.
    fn is_thin(&self) -> bool {
        self.board.outstanding() < THIN_SEGMENTS && self.congestion.ssthresh().is_some()
    }

    /// Returns the next segment that may be sent, if any.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Outgoing> {
        self.buffer.advance(now);
        if self.probe.due {
            self.probe.due = false;
            return self.probe(now);
        }
        if self.is_linux() {
            return self.poll_linux(now);
        }
        let may_repair = self.recovery.first_is_due || self.board.in_flight() < self.congestion.cwnd();
        if may_repair && let Some(index) = self.board.next_lost() {
            self.recovery.first_is_due = false;
            let cause = self.repair_cause();
            return self.retransmit(now, index, cause);
        }
        if let Some(length_bytes) = self.new_segment_length(now) {
            return Some(self.send_new(now, length_bytes));
        }
        if self.recovery.phase == Phase::Fast && may_repair && self.config.sack {
            let index = self.board.next_doubtful().or_else(|| self.rescue())?;
            return self.retransmit(now, index, Cause::Fast);
        }
        None
    }

    /// Returns whether losses are detected and repaired as in Linux, which requires SACK.
    fn is_linux(&self) -> bool {
        self.config.recovery == LossRecovery::Linux && self.config.sack
    }

    /// The reason for retransmitting a segment marked as lost now.
    fn repair_cause(&mut self) -> Cause {
        let expired_now = core::mem::take(&mut self.timers.expired_now);
        match self.recovery.phase {
            Phase::Timeout if expired_now => Cause::Timeout,
            Phase::Timeout => Cause::AfterTimeout,
            Phase::Open | Phase::Disorder | Phase::Fast => Cause::Fast,
        }
    }

    /// Rule 4 of `NextSeg` (RFC 6675 §4): once in a recovery the last segment, if nothing else can be
    /// sent, so that its loss does not end in a timeout. Unlike the RFC's rule ours waits for a partial
    /// acknowledgement, before which the last segment's own SACK is mostly still on its way.
    fn rescue(&mut self) -> Option<usize> {
        let index = self.board.last_index()?;
        let last = self.board.get(index)?;
        let waits = self.una == self.recovery.una_at_start;
        if waits || self.recovery.rescued || last.state != SegmentState::Sent || last.end > self.recovery.high {
            return None;
        }
        self.recovery.rescued = true;
        Some(index)
    }

    /// Returns the length of the segment with new data that may be sent now, 0 for a mere FIN.
    fn new_segment_length(&mut self, now: Instant) -> Option<u32> {
        let unsent = self.unsent();
        if unsent == 0 && !self.fin_is_unsent() {
            return None;
        }
        if self.board.is_empty() {
            self.restart_after_idle(now);
        }
        if self.flight_before_new_data() >= self.congestion.cwnd() {
            return None;
        }
        let admitted = unsent.min(self.window_edge.saturating_sub(self.next));
        if admitted == 0 && !(unsent == 0 && self.fin_is_unsent()) {
            self.persist(now);
            return None;
        }
        let mss = u64::from(self.config.mss_bytes);
        if admitted < mss && !self.buffer.closed && self.small_segment_waits() {
            return None;
        }
        u32::try_from(admitted.min(mss)).ok()
    }

    /// Returns the pipe that counts for new data. Before recovery, duplicate ACKs allow two more segments with limited
    /// transmit (RFC 3042) and none without.
    fn flight_before_new_data(&self) -> u32 {
        match self.recovery.phase {
            Phase::Open if !self.is_linux() => {
                let duplicates = if self.config.switches.limited_transmit { self.board.delivered_above() } else { 0 };
                self.board.outstanding() - limited_transmit::excess_segments(duplicates, DUP_THRESH)
            }
            _ => self.board.in_flight(),
        }
    }

    /// Returns whether Nagle's algorithm holds a small segment back.
    fn small_segment_waits(&self) -> bool {
        self.config.switches.nagle && !self.board.is_empty()
    }

    /// cwnd falls back to the initial window after an idle RTO (RFC 5681 §4.1).
    fn restart_after_idle(&mut self, now: Instant) {
        if let Some(last_sent) = self.last_sent
            && now.saturating_duration_since(last_sent) > self.timers.rto_base(&self.config.rto)
        {
            self.congestion.restart_after_idle();
        }
    }

    fn send_new(&mut self, now: Instant, length_bytes: u32) -> Outgoing {
        let start = self.next;
        let data_end = start + u64::from(length_bytes);
        let fin = self.buffer.closed && data_end == self.buffer.written;
        let end = data_end + u64::from(fin);
        let was_idle = self.board.is_empty();
        self.board.push(SentSegment {
            start,
            end,
            last_sent: now,
            transmissions: 1,
            state: SegmentState::Sent,
            delivered_before: self.linux.delivered(),
            data_end,
        });
        self.next = end;
        self.last_sent = Some(now);
        self.timers.persist_at = None;
        self.round.flight_max = self.round.flight_max.max(self.board.outstanding());
        self.counters.data_segments += 1;
        self.buffer_drained(now);
        if self.is_linux() {
            self.new_data_left(now, was_idle);
        } else {
            if self.timers.rto_at.is_none() {
                self.start_rto(now);
            }
            self.schedule_probe(now);
        }
        Outgoing {
            sequence: start,
            length_bytes,
            fin,
            is_new: true,
            confirms_reduction: core::mem::take(&mut self.recovery.confirms_reduction),
        }
    }

    fn retransmit(&mut self, now: Instant, index: usize, cause: Cause) -> Option<Outgoing> {
        if self.config.switches.collapses_retransmissions {
            self.board.collapse(index, self.config.mss_bytes);
        }
        let segment = self.board.resend(index, now, self.linux.delivered(), cause != Cause::Probe)?;
        match cause {
            Cause::Timeout | Cause::AfterTimeout => self.counters.retransmitted_timeout += 1,
            Cause::Fast => self.counters.retransmitted_fast += 1,
            Cause::Probe => self.counters.retransmitted_probe += 1,
        }
        let length_bytes = u32::try_from(segment.data_end - segment.start).unwrap_or(u32::MAX);
        let (sequence, transmissions) = (segment.start, segment.transmissions);
        self.events.push(TcpEvent::Retransmitted { sequence, length_bytes, cause, transmissions });
        self.last_sent = Some(now);
        if self.is_linux() {
            self.repair_left(now, index, cause);
        // RFC 6298 §5.1, and RFC 6675 §5.1 allows a restart when the first segment is retransmitted.
        } else if self.timers.rto_at.is_none() || (index == 0 && cause == Cause::Fast) {
            self.start_rto(now);
        }
        Some(Outgoing {
            sequence,
            length_bytes,
            fin: segment.end > segment.data_end,
            is_new: false,
            confirms_reduction: false,
        })
    }

    /// The tail loss probe: new data if the window admits it, else the last segment (RFC 8985 §7.3).
    fn probe(&mut self, now: Instant) -> Option<Outgoing> {
        let mss = u64::from(self.config.mss_bytes);
        let admitted = self.unsent().min(self.window_edge.saturating_sub(self.next)).min(mss);
        let outgoing = match u32::try_from(admitted) {
            Ok(length_bytes) if length_bytes > 0 => {
                self.probe.repeated = false;
                self.send_new(now, length_bytes)
            }
            _ => {
                let index = self.board.last_index()?;
                self.probe.repeated = true;
                self.retransmit(now, index, Cause::Probe)?
            }
        };
        self.probe.end = Some(self.next);
        self.timers.probe_at = None;
        self.start_rto(now);
        Some(outgoing)
    }

    /// Duplicate ACKs that start a fast retransmit now.
    fn loss_threshold(&self) -> u32 {
        let switches = &self.config.switches;
        if switches.early_retransmit {
            let sendable = self.unsent() > 0 && self.window_edge > self.next;
            return early_retransmit::threshold(self.board.outstanding(), sendable, DUP_THRESH);
        }
        DUP_THRESH
    }
}
