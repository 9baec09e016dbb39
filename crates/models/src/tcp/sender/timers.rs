//! The sender's timers: retransmission, tail loss probe, zero window.

use festina_recovery::{
    backoff::{Backoff, ExpirySeries},
    rto_restart::{SackArrival, TimerRestart},
    rtt::RttEstimator,
    tail_probe,
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

/// Deadlines and the inputs of their computation.
#[derive(Clone, Debug)]
pub(in crate::tcp) struct Timers {
    pub(in crate::tcp) rtt: RttEstimator,
    variance: LinuxVariance,
    /// Backoff.
    pub(super) series: ExpirySeries,
    /// Timeouts since `una` moved.
    pub(super) timeouts: u32,
    /// The timer has just expired, and nothing was retransmitted since.
    pub(super) expired_now: bool,
    pub(super) rto_at: Option<Instant>,
    pub(super) rto_started: Instant,
    pub(super) probe_at: Option<Instant>,
    /// Until then RACK waits for segments that may be reordered.
    pub(super) reordering_at: Option<Instant>,
    /// Time of the next probe of the peer's closed window.
    pub(super) persist_at: Option<Instant>,
    persist_is_due: bool,
}

impl Timers {
    pub(super) fn new(rto_initial: Duration) -> Self {
        Self {
            rtt: RttEstimator::new(rto_initial),
            variance: LinuxVariance::default(),
            series: ExpirySeries::default(),
            timeouts: 0,
            expired_now: false,
            rto_at: None,
            rto_started: Instant::ZERO,
            probe_at: None,
            reordering_at: None,
            persist_at: None,
            persist_is_due: false,
        }
    }

    /// Records a round-trip time that was measured when everything below `una` was acknowledged and `next` was the next
    /// byte to be sent.
    pub(super) fn sample(&mut self, rtt: Duration, una: u64, next: u64, config: &RtoConfig) {
        self.variance.sample(rtt, self.rtt.srtt(), una, next, config.clock.round_up(config.min));
        self.rtt.sample(rtt);
    }

    /// The RTO without backoff (RFC 6298 §2).
    pub(super) fn rto_base(&self, config: &RtoConfig) -> Duration {
        match (config.floor, self.rtt.srtt()) {
            (RtoFloor::Variance, Some(srtt)) => {
                config.clock.round_up(srtt.saturating_add(self.variance.term())).min(config.max)
            }
            _ => self.rtt.rto(config.min, config.max),
        }
    }

    /// The RTO with backoff (RFC 6298 §5.5).
    pub(super) fn rto(&self, config: &RtoConfig) -> Duration {
        Backoff::Exponential.interval(self.rto_base(config), &self.series, config.max)
    }

    fn earliest(&self) -> Option<Instant> {
        Instant::earliest([self.rto_at, self.probe_at, self.reordering_at, self.persist_at])
    }
}

impl Sender {
    /// The RTO without backoff.
    pub(in crate::tcp) fn rto(&self) -> Duration {
        self.timers.rto_base(&self.config.rto)
    }

    /// Returns the time for the next call of [`Self::handle_timeout`].
    pub(in crate::tcp) fn deadline(&self) -> Option<Instant> {
        self.timers.earliest()
    }

    pub(super) fn start_rto(&mut self, now: Instant) {
        let rto = self.timers.rto(&self.config.rto);
        self.timers.rto_at = Some(self.config.rto.clock.expiry(now, rto));
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
            TailProbe::Draft => Some(tail_probe::draft_timeout(srtt?, outstanding, PROBE_ACK_DELAY)),
            TailProbe::Rfc8985 => {
                let until_rto = self.timers.rto_at?.saturating_duration_since(now);
                Some(tail_probe::rfc8985_timeout(srtt, outstanding, PROBE_ACK_DELAY, until_rto))
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

    /// The peer's window is closed and nothing is outstanding: probes it periodically (RFC 9293 §3.8.6.1).
    pub(super) fn persist(&mut self, now: Instant) {
        if self.board.is_empty() && self.timers.persist_at.is_none() {
            self.timers.persist_at = Some(now + self.timers.rto(&self.config.rto));
        }
    }

    /// Returns a segment without data, one byte below the expected sequence number, which the peer has to answer.
    pub(in crate::tcp) fn poll_persist(&mut self) -> Option<Outgoing> {
        if !core::mem::take(&mut self.timers.persist_is_due) {
            return None;
        }
        let sequence = self.una.saturating_sub(1);
        Some(Outgoing { sequence, length_bytes: 0, fin: false, is_new: false, confirms_reduction: false })
    }

    /// Handles due timers. Returns false if the connection has failed.
    pub(in crate::tcp) fn handle_timeout(&mut self, now: Instant) -> bool {
        self.buffer.advance(now);
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.timers.persist_at) {
            self.timers.series.timed_out(self.timers.rto(&self.config.rto));
            self.timers.persist_at = Some(now + self.timers.rto(&self.config.rto));
            self.timers.persist_is_due = true;
        }
        if self.is_linux() {
            return self.handle_linux_timeout(now);
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
        if !self.count_timeout(now) {
            return false;
        }
        self.congestion.time_out(self.board.outstanding(), self.timers.timeouts == 1);
        self.back_off();
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

    /// Counts and reports a timeout. Returns false if there were too many.
    pub(super) fn count_timeout(&mut self, now: Instant) -> bool {
        self.timers.timeouts += 1;
        self.counters.timeouts += 1;
        self.events.push(TcpEvent::TimedOut { timeouts: self.timers.timeouts });
        let may_go_on = if self.is_linux() {
            self.may_time_out_again(now)
        } else {
            self.timers.timeouts <= self.config.rto.retries_max
        };
        if !may_go_on {
            self.timers.rto_at = None;
        }
        may_go_on
    }

    /// The next timeout is twice as long (RFC 6298 §5.5), unless it is to stay as it is on a thin stream.
    pub(super) fn back_off(&mut self) {
        let linear =
            self.config.switches.thin_linear_timeouts && self.is_thin() && self.timers.timeouts <= THIN_LINEAR_TIMEOUTS;
        if linear {
            self.timers.series.measured();
        } else {
            self.timers.series.timed_out(self.timers.rto(&self.config.rto));
        }
    }
}

/// The RTO's variance term as Linux keeps it. All times are four times a mean deviation.
#[derive(Clone, Debug, Default)]
struct LinuxVariance {
    deviation_ns: u64,
    /// The largest of this round trip.
    deviation_ns_max: u64,
    term_ns: u64,
    /// Sequence number whose acknowledgement ends the round trip.
    round_end: u64,
}

impl LinuxVariance {
    /// Takes a sample, and the SRTT before it. A deviation counts a quarter, but only a thirty-second if the RTT fell;
    /// the term rises at once to the largest deviation and falls by a quarter each round trip, down to the RTO's
    /// minimum.
    fn sample(&mut self, rtt: Duration, srtt: Option<Duration>, una: u64, next: u64, rto_min: Duration) {
        let floor_ns = nanos(rto_min);
        let Some(srtt_ns) = srtt.map(nanos) else {
            self.deviation_ns = nanos(rtt).saturating_mul(2);
            self.term_ns = self.deviation_ns.max(floor_ns);
            self.deviation_ns_max = self.term_ns;
            self.round_end = next;
            return;
        };
        let error_ns = srtt_ns.abs_diff(nanos(rtt));
        let share_ns = self.deviation_ns / 4;
        if error_ns <= share_ns {
            self.deviation_ns -= share_ns - error_ns;
        } else if nanos(rtt) < srtt_ns {
            self.deviation_ns += (error_ns - share_ns) / 8;
        } else {
            self.deviation_ns += error_ns - share_ns;
        }
        self.deviation_ns_max = self.deviation_ns_max.max(self.deviation_ns);
        self.term_ns = self.term_ns.max(self.deviation_ns_max);
        if una > self.round_end {
            self.term_ns -= (self.term_ns - self.deviation_ns_max) / 4;
            self.round_end = next;
            self.deviation_ns_max = floor_ns;
        }
    }

    fn term(&self) -> Duration {
        Duration::from_nanos(self.term_ns)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_s_variance_rises_at_once_and_falls_by_a_quarter_of_the_excess_each_round_trip() {
        let ms = Duration::from_millis;
        let mut variance = LinuxVariance::default();
        let mut srtt = None;
        let mut take = |rtt, una, next| {
            variance.sample(ms(rtt), srtt, una, next, ms(200));
            srtt = Some(srtt.map_or(ms(rtt), |srtt: Duration| (srtt * 7 + ms(rtt)) / 8));
            variance.term()
        };
        assert_eq!(take(100, 0, 0), ms(200), "twice the first sample, at least the minimum");
        for number in 1..=20 {
            assert_eq!(take(100, number, number + 1), ms(200));
        }
        // A deviation of 250 ms, almost four times a quarter of it.
        let raised = take(350, 21, 22);
        assert!((ms(249)..=ms(251)).contains(&raised), "{raised:?}");
        let mut terms = vec![raised];
        for number in 22..40 {
            terms.push(take(100, number * 2, number * 2 + 1));
        }
        assert!(terms.windows(2).all(|pair| pair[1] <= pair[0]));
        assert!(terms[1] > ms(230) && terms.last().is_some_and(|&last| last < ms(205)), "{terms:?}");
    }
}
