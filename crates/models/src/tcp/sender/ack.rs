//! The effects of an acknowledgement on the sender.

use festina_recovery::{
    fast_retransmit::FastRetransmit,
    rto_restart::{SackArrival, TimerRestart},
};
use festina_units::{Duration, Instant};

use super::{Phase, Sender, rack::Delivery};
use crate::tcp::{
    event::TcpEvent,
    segment::{SackBlocks, Segment},
};

/// The acknowledgement in a segment.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp) struct Acknowledgement {
    ack: u64,
    window_edge: u64,
    sack: SackBlocks,
    /// The segment carries data or a FIN, so it is no duplicate ACK.
    has_data: bool,
    /// ECN echo.
    congestion_echoed: bool,
    /// Echoed timestamp.
    echo: Option<Instant>,
}

/// The changes made by an acknowledgement.
pub(super) struct Progress {
    /// Segments that left the scoreboard.
    pub(super) segments: u32,
    pub(super) advanced: bool,
    pub(super) duplicate: bool,
    /// The duplicate that was reported (RFC 2883).
    pub(super) told_duplicate: Option<(u64, u64)>,
    /// The peer's window opened, or the segment carries data, so it is no sign of a loss.
    pub(super) has_news: bool,
    /// Echoed timestamp.
    pub(super) echo: Option<Instant>,
    /// The RTT was measured by a SACK of a segment sent at that time.
    pub(super) sacked_sample: Option<Instant>,
    /// The delivered segments, as input of RACK.
    pub(super) delivery: Delivery,
}

impl Acknowledgement {
    pub(in crate::tcp) fn of(segment: &Segment) -> Self {
        Self {
            ack: segment.ack,
            window_edge: segment.ack.saturating_add(segment.window_bytes),
            sack: segment.sack,
            has_data: segment.end() > segment.sequence,
            congestion_echoed: segment.flags.ece,
            echo: segment.timestamps.and_then(|timestamps| timestamps.echo),
        }
    }
}

impl Sender {
    /// Applies the acknowledgement of a segment that arrived at `now`.
    pub(in crate::tcp) fn handle_ack(&mut self, now: Instant, ack: &Acknowledgement) {
        // RFC 9293 §3.10.7.4: unsent data cannot be acknowledged.
        if ack.ack > self.next {
            return;
        }
        self.buffer.advance(now);
        let unsent_before = self.unsent();
        let una_before = self.una;
        let was_idle = self.board.is_empty();
        let progress = self.apply(now, ack);
        if self.is_linux() {
            if self.config.ecn && ack.congestion_echoed {
                self.congestion_was_echoed();
            }
            self.recover_as_linux(now, una_before, was_idle, &progress);
        } else {
            self.end_probe_episode(ack.ack, &progress);
            self.recover_by_standard(now, ack, &progress, unsent_before);
        }
        if progress.advanced {
            self.events.push(TcpEvent::Acknowledged { through: self.acknowledged() });
        }
        self.wake_writer();
    }

    /// Loss recovery and congestion control of the RFCs.
    fn recover_by_standard(&mut self, now: Instant, ack: &Acknowledgement, progress: &Progress, unsent_before: u64) {
        self.change_phase(ack.ack, progress);
        if self.config.ecn && ack.congestion_echoed {
            self.congestion_was_echoed();
        }
        self.find_losses(progress);
        self.grow(now, progress.segments);
        self.rearm(now, progress, unsent_before);
    }

    /// Updates window, scoreboard and RTT.
    fn apply(&mut self, now: Instant, ack: &Acknowledgement) -> Progress {
        let window_moved = ack.window_edge > self.window_edge;
        self.window_edge = self.window_edge.max(ack.window_edge);
        let sacked_before = self.board.sacked();
        let mut delivery = self.expect_delivery(now, ack.echo);
        let told_duplicate = ack.sack.duplicate(ack.ack).filter(|_| self.config.sack);
        let (rack, board) = (&mut self.linux.rack, &mut self.board);
        let sack_sample = if self.config.sack {
            board.apply_sack(&ack.sack, |segment| delivery.see(rack, segment, true))
        } else {
            None
        };
        let newly_sacked = board.sacked() > sacked_before;
        let advanced = ack.ack > self.una;
        let acked = if advanced {
            board.acknowledge(ack.ack, |segment| delivery.see(rack, segment, false))
        } else {
            Default::default()
        };
        // RFC 5681 §2; with SACK only news counts (RFC 6675 §2).
        let duplicate = !advanced
            && ack.ack == self.una
            && !self.board.is_empty()
            && if self.config.sack { newly_sacked } else { !ack.has_data && !window_moved };
        let sacked_sample =
            sack_sample.map(|sample| if self.is_linux() { sample.first_sent } else { sample.last_sent });
        let sample = acked.earliest_sent.or(sacked_sample).or(ack.echo.filter(|_| advanced));
        if advanced {
            self.una = ack.ack;
            self.timers.timeouts = 0;
        }
        if let Some(sent) = sample {
            let rtt = now.saturating_duration_since(sent);
            self.timers.sample(rtt, self.una, self.next, &self.config.rto);
            self.timers.series.measured();
        }
        let has_news = ack.has_data || window_moved;
        let (segments, echo) = (acked.segments, ack.echo);
        Progress { segments, advanced, duplicate, told_duplicate, has_news, echo, sacked_sample, delivery }
    }

    /// RFC 8985 §7.4.2: a probe that repaired an otherwise undetected loss is a sign of congestion.
    fn end_probe_episode(&mut self, ack: u64, progress: &Progress) {
        let Some(end) = self.probe.end.filter(|&end| ack >= end) else { return };
        if !self.probe.repeated || progress.told_duplicate.is_some() {
            self.probe.end = None;
        } else if ack > end {
            self.probe.end = None;
            self.reduce();
        } else if !progress.advanced && !progress.duplicate {
            self.probe.end = None;
        }
    }

    /// Ends recoveries.
    fn change_phase(&mut self, ack: u64, progress: &Progress) {
        if !progress.advanced {
            return;
        }
        match self.recovery.phase {
            Phase::Open | Phase::Disorder => self.board.forget_duplicates(),
            Phase::Fast | Phase::Timeout if ack >= self.recovery.high => {
                self.recovery.phase = Phase::Open;
                self.recovery.first_is_due = false;
                self.board.forget_duplicates();
            }
            // RFC 6582 §3.2 step 3: a partial acknowledgement shows the next loss.
            Phase::Fast => {
                self.board.mark_first_lost();
                self.recovery.first_is_due = !self.config.sack && self.board.lost() > 0;
            }
            Phase::Timeout => {}
        }
    }

    /// Counts duplicates and begins fast recovery.
    fn find_losses(&mut self, progress: &Progress) {
        if !self.config.sack && progress.duplicate && self.recovery.phase != Phase::Timeout {
            self.board.count_duplicate();
        }
        if self.board.delivered_above() == 0 || self.recovery.phase == Phase::Timeout && !self.config.sack {
            return;
        }
        let threshold = self.loss_threshold();
        if self.config.sack {
            self.board.mark_lost_below_sacked(threshold, self.config.switches.fack);
        } else if self.recovery.phase == Phase::Open && self.una >= self.recovery.high {
            let rule = FastRetransmit { threshold: u8::try_from(threshold).unwrap_or(u8::MAX), repeats: false };
            let indications = u8::try_from(self.board.delivered_above()).unwrap_or(u8::MAX);
            if rule.is_lost(indications, false) {
                self.board.mark_first_lost();
            }
        }
        if self.recovery.phase == Phase::Open && self.board.lost() > 0 {
            self.reduce();
            self.recovery.phase = Phase::Fast;
            self.recovery.high = self.next;
            self.recovery.first_is_due = true;
            self.recovery.rescued = false;
            self.recovery.una_at_start = self.una;
            self.timers.probe_at = None;
            self.probe = Default::default();
            self.counters.fast_recoveries += 1;
        }
    }

    /// RFC 3168 §6.1.2: one reduction for each window of data. Something above that window has to be
    /// acknowledged first, since only that tells the receiver to stop its echo.
    fn congestion_was_echoed(&mut self) {
        let may_reduce = matches!(self.recovery.phase, Phase::Open | Phase::Disorder);
        if may_reduce && self.una > self.recovery.reduced_through {
            self.reduce();
            self.counters.ecn_reductions += 1;
        }
    }

    pub(super) fn reduce(&mut self) {
        self.congestion.reduce(self.board.outstanding());
        self.recovery.reduced_through = self.next;
        self.recovery.confirms_reduction = self.config.ecn;
    }

    /// Slow start and congestion avoidance, if cwnd was the limit.
    pub(super) fn grow(&mut self, now: Instant, segments: u32) {
        if segments > 0 && self.recovery.phase != Phase::Fast {
            let flight = self.round.flight_max;
            let cwnd = self.congestion.cwnd();
            let limited =
                if self.congestion.in_slow_start() { cwnd < flight.saturating_mul(2) } else { cwnd <= flight };
            if limited {
                let srtt = self.timers.rtt.srtt().unwrap_or(Duration::ZERO);
                self.congestion.acknowledged(now, segments, srtt);
            }
        }
        if self.una >= self.round.end {
            self.round.end = self.next;
            self.round.flight_max = self.board.outstanding();
        }
    }

    /// The retransmission timer and the probe timer after an acknowledgement.
    fn rearm(&mut self, now: Instant, progress: &Progress, unsent_before: u64) {
        let Some(first) = self.board.first() else {
            self.timers.rto_at = None;
            self.timers.probe_at = None;
            return;
        };
        let mss = u64::from(self.config.mss_bytes).max(1);
        let rule = if self.config.switches.rto_restart {
            TimerRestart::SinceEarliestSent
        } else {
            TimerRestart::EarliestAcked
        };
        let expiry = rule.expiry(&SackArrival {
            now,
            rto: self.timers.rto(&self.config.rto),
            earliest_acked: progress.advanced,
            any_acked: progress.advanced || progress.duplicate,
            timer_started: self.timers.rto_started,
            earliest_sent: first.last_sent,
            outstanding: self.board.outstanding(),
            unsent: u32::try_from(unsent_before.div_ceil(mss)).unwrap_or(u32::MAX),
        });
        if let Some(expiry) = expiry {
            self.timers.rto_at = Some(expiry);
            self.timers.rto_started = now;
            self.timers.probe_at = None;
            self.schedule_probe(now);
        } else if self.board.sacked() > 0 {
            self.timers.probe_at = None;
        }
    }
}
