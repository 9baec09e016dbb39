//! The sender's timers: retransmission, tail loss probe, zero window, cork.

use festina_recovery::{
    backoff::{Backoff, ExpirySeries},
    rto_restart::{SackArrival, TimerRestart},
    rtt::RttEstimator,
    tail_loss_probe,
};
use festina_units::{Duration, Instant};

use super::{Outgoing, Phase, Sender};
use crate::tcp::{
    config::{RtoConfig, RtoFloor, TailProbe},
    event::TcpEvent,
};

/// Timeouts in a row that stay linear on a thin stream (Linux, `TCP_THIN_LINEAR_RETRIES`).
const THIN_LINEAR_TIMEOUTS: u32 = 6;

/// Worst-case delayed acknowledgement that a probe timer allows for with one segment outstanding.
const PROBE_ACK_DELAY: Duration = Duration::from_millis(200);

/// Deadlines and what they are computed from.
#[derive(Clone, Debug)]
pub(in crate::tcp) struct Timers {
    pub(in crate::tcp) rtt: RttEstimator,
    /// Backoff.
    pub(super) series: ExpirySeries,
    /// Timeouts since `una` moved.
    pub(super) timeouts: u32,
    /// The timer has just expired, and nothing was retransmitted since.
    pub(super) expired_now: bool,
    pub(super) rto_at: Option<Instant>,
    pub(super) rto_started: Instant,
    pub(super) probe_at: Option<Instant>,
    /// The peer's window is closed: when to ask.
    pub(super) persist_at: Option<Instant>,
    persist_is_due: bool,
    /// When the cork lets a small segment go.
    pub(super) cork_at: Option<Instant>,
    /// It has; the segment leaves when cwnd and window admit it.
    pub(super) cork_expired: bool,
}

impl Timers {
    pub(super) fn new(rto_initial: Duration) -> Self {
        Self {
            rtt: RttEstimator::new(rto_initial),
            series: ExpirySeries::default(),
            timeouts: 0,
            expired_now: false,
            rto_at: None,
            rto_started: Instant::ZERO,
            probe_at: None,
            persist_at: None,
            persist_is_due: false,
            cork_at: None,
            cork_expired: false,
        }
    }

    /// The RTO without backoff (RFC 6298 §2).
    pub(super) fn rto_base(&self, config: &RtoConfig) -> Duration {
        match (config.floor, self.rtt.srtt(), self.rtt.rttvar()) {
            (RtoFloor::Variance, Some(srtt), Some(rttvar)) => {
                srtt.saturating_add(rttvar.saturating_mul(4).max(config.min)).min(config.max)
            }
            _ => self.rtt.rto(config.min, config.max),
        }
    }

    /// The RTO with backoff (RFC 6298 §5.5).
    pub(super) fn rto(&self, config: &RtoConfig) -> Duration {
        Backoff::Exponential.interval(self.rto_base(config), &self.series, config.max)
    }

    fn earliest(&self) -> Option<Instant> {
        [self.rto_at, self.probe_at, self.persist_at, self.cork_at].into_iter().flatten().min()
    }
}

impl Sender {
    /// When [`Self::handle_timeout`] shall be called.
    pub(in crate::tcp) fn deadline(&self) -> Option<Instant> {
        self.timers.earliest()
    }

    pub(super) fn start_rto(&mut self, now: Instant) {
        self.timers.rto_at = Some(now + self.timers.rto(&self.config.rto));
        self.timers.rto_started = now;
    }

    /// Arms the probe timer (RFC 8985 §7.2): SACK, open state, nothing SACKed, no probe in flight.
    pub(super) fn schedule_probe(&mut self, now: Instant) {
        if self.config.switches.tail_probe == TailProbe::Off
            || !self.config.sack
            || self.recovery.phase != Phase::Open
            || self.board.sacked() > 0
            || self.probe.end.is_some()
        {
            return;
        }
        let Some((rto_at, timeout)) = self.timers.rto_at.zip(self.probe_timeout(now)) else { return };
        let at =
            if self.config.switches.tail_probe_restart { self.restarted_probe_at(now, timeout) } else { now + timeout };
        self.timers.probe_at = Some(at.min(rto_at));
    }

    fn probe_timeout(&self, now: Instant) -> Option<Duration> {
        let (srtt, outstanding) = (self.timers.rtt.srtt(), self.board.outstanding());
        match self.config.switches.tail_probe {
            TailProbe::Off => None,
            TailProbe::Draft => Some(tail_loss_probe::draft_timeout(srtt?, outstanding, PROBE_ACK_DELAY)),
            TailProbe::Rfc8985 => {
                let until_rto = self.timers.rto_at?.saturating_duration_since(now);
                Some(tail_loss_probe::rfc8985_timeout(srtt, outstanding, PROBE_ACK_DELAY, until_rto))
            }
        }
    }

    /// TLPR: the rule of RTO restart, applied to the probe timer (R15 §3.4.2).
    fn restarted_probe_at(&self, now: Instant, timeout: Duration) -> Instant {
        let mss = u64::from(self.config.mss_bytes).max(1);
        let arrival = SackArrival {
            now,
            rto: timeout,
            earliest_acked: true,
            any_acked: true,
            timer_started: self.timers.rto_started,
            earliest_sent: self.board.first().map_or(now, |first| first.last_sent),
            outstanding: self.board.outstanding(),
            unsent: u32::try_from(self.unsent().div_ceil(mss)).unwrap_or(u32::MAX),
        };
        TimerRestart::SinceEarliestSent.expiry(&arrival).unwrap_or(now + timeout)
    }

    /// The peer's window is closed and nothing is outstanding: ask now and then (RFC 9293 §3.8.6.1).
    pub(super) fn persist(&mut self, now: Instant) {
        if self.board.is_empty() && self.timers.persist_at.is_none() {
            self.timers.persist_at = Some(now + self.timers.rto(&self.config.rto));
        }
    }

    /// A segment without data, one byte below what the peer expects, that it has to answer.
    pub(in crate::tcp) fn poll_persist(&mut self) -> Option<Outgoing> {
        if !core::mem::take(&mut self.timers.persist_is_due) {
            return None;
        }
        let sequence = self.una.saturating_sub(1);
        Some(Outgoing { sequence, length_bytes: 0, fin: false, is_new: false, confirms_reduction: false })
    }

    /// Handles what is due. Returns false if the connection has failed.
    pub(in crate::tcp) fn handle_timeout(&mut self, now: Instant) -> bool {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.timers.persist_at) {
            self.timers.series.timed_out(self.timers.rto(&self.config.rto));
            self.timers.persist_at = Some(now + self.timers.rto(&self.config.rto));
            self.timers.persist_is_due = true;
        }
        if is_due(self.timers.cork_at) {
            self.timers.cork_at = None;
            self.timers.cork_expired = true;
        }
        if is_due(self.timers.probe_at) {
            self.timers.probe_at = None;
            self.probe.due = true;
            // The probe takes the place of a timeout that is due at the same time (RFC 8985 §7.2).
            self.start_rto(now);
        } else if is_due(self.timers.rto_at) {
            return self.time_out(now);
        }
        true
    }

    /// The retransmission timer expired (RFC 6298 §5.4 to §5.6, RFC 5681 §3.1).
    fn time_out(&mut self, now: Instant) -> bool {
        self.timers.timeouts += 1;
        self.counters.timeouts += 1;
        self.events.push(TcpEvent::TimedOut { timeouts: self.timers.timeouts });
        if self.timers.timeouts > self.config.rto.retries_max {
            self.timers.rto_at = None;
            return false;
        }
        self.congestion.time_out(self.board.outstanding(), self.timers.timeouts == 1);
        let linear =
            self.config.switches.thin_linear_timeouts && self.is_thin() && self.timers.timeouts <= THIN_LINEAR_TIMEOUTS;
        if linear {
            self.timers.series.measured();
        } else {
            self.timers.series.timed_out(self.timers.rto(&self.config.rto));
        }
        self.recovery.phase = Phase::Timeout;
        self.recovery.high = self.next;
        self.recovery.reduced_through = self.next;
        self.probe = Default::default();
        self.timers.probe_at = None;
        self.timers.expired_now = true;
        self.board.mark_all_lost();
        self.start_rto(now);
        true
    }
}
