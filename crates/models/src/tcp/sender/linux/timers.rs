//! Linux's one timer for timeout, probe and reordering: at most one of the three is set.

use festina_recovery::tail_probe;
use festina_units::{Duration, Instant};

use super::super::{Phase, Sender, ack::Progress};
use crate::tcp::config::TailProbe;

/// Minimum time added to the timers of probes and reordering.
const TIMER_MARGIN: Duration = Duration::from_millis(2);
/// Doubled with each retry, this determines how long a connection is kept alive.
const LEAST_RTO: Duration = Duration::from_millis(200);
/// Timer value if the deadline has already passed.
const SOON: Duration = Duration::from_micros(1);

impl Sender {
    /// Returns whether an acknowledgement restarts the timer: it acknowledged something, or it measures an RTT longer
    /// than the age of the first segment.
    pub(super) fn restarts_timer(&self, now: Instant, progress: &Progress) -> bool {
        let measured_older = || {
            progress.sacked_sample.zip(self.board.first()).is_some_and(|(sampled, first)| {
                now.saturating_duration_since(sampled) > now.saturating_duration_since(first.last_sent)
            })
        };
        progress.segments > 0 || measured_older()
    }

    /// Sets the timer after an acknowledgement: to a probe if there may be one, else to the timeout.
    pub(super) fn set_transmission_timer(&mut self, now: Instant) {
        if !self.schedule_linux_probe(now, true) {
            self.rearm_timeout(now);
        }
    }

    /// Starts the timeout from now.
    pub(super) fn start_transmission_timer(&mut self, now: Instant) {
        self.start_rto(now);
        (self.timers.probe_at, self.timers.reordering_at) = (None, None);
    }

    /// Restarts the timeout. In place of a probe or the reordering timer it counts from the transmission of the first
    /// segment, else from now.
    pub(in crate::tcp::sender) fn rearm_timeout(&mut self, now: Instant) {
        let Some(first) = self.board.first() else {
            (self.timers.rto_at, self.timers.probe_at, self.timers.reordering_at) = (None, None, None);
            return;
        };
        if self.timers.probe_at.is_none() && self.timers.reordering_at.is_none() {
            self.start_transmission_timer(now);
            return;
        }
        let left = (first.last_sent + self.timers.rto(&self.config.rto)).saturating_duration_since(now);
        self.timers.rto_at = Some(self.config.rto.clock.expiry(now, left.max(SOON)));
        self.timers.rto_started = first.last_sent;
        (self.timers.probe_at, self.timers.reordering_at) = (None, None);
    }

    /// New data was sent; `was_idle` if nothing was outstanding before.
    pub(in crate::tcp::sender) fn new_data_left(&mut self, now: Instant, was_idle: bool) {
        if was_idle || self.timers.probe_at.is_some() {
            self.rearm_timeout(now);
        }
        self.schedule_linux_probe(now, false);
    }

    /// Sets the timer to a probe, if there may be one (RFC 8985 §7.2), but no later than the timeout; that counts
    /// from now if `advances_timeout`, else from when the first segment was sent.
    fn schedule_linux_probe(&mut self, now: Instant, advances_timeout: bool) -> bool {
        let Some(first) = self.board.first() else { return false };
        if self.recovery.phase != Phase::Open {
            return false;
        }
        let rto = self.timers.rto(&self.config.rto);
        let outstanding = self.board.outstanding();
        let Some(timeout) = (match (self.config.switches.tail_probe, self.timers.rtt.srtt()) {
            (TailProbe::Off, _) => None,
            (_, None) => Some(self.config.rto.initial),
            (TailProbe::Draft, Some(srtt)) => Some(tail_probe::draft_timeout(srtt, outstanding, self.config.rto.min)),
            // Linux: the allowance for a delayed ACK is the minimum RTO.
            (TailProbe::Rfc8985, Some(srtt)) => {
                let delayed_ack = self.config.rto.clock.round_up(self.config.rto.min);
                Some(2 * srtt + if outstanding == 1 { delayed_ack } else { TIMER_MARGIN })
            }
        }) else {
            return false;
        };
        let until_rto = if advances_timeout { rto } else { (first.last_sent + rto).saturating_duration_since(now) };
        let timeout = if until_rto.is_zero() { timeout } else { timeout.min(until_rto) };
        self.timers.probe_at = Some(self.config.rto.clock.expiry(now, timeout));
        (self.timers.rto_at, self.timers.reordering_at) = (None, None);
        true
    }

    /// Sets the timer for segments that may only be reordered.
    pub(super) fn wait_for_reordering(&mut self, now: Instant, patience: Duration) {
        let timeout = (patience + TIMER_MARGIN).min(self.timers.rto(&self.config.rto));
        self.timers.reordering_at = Some(self.config.rto.clock.expiry(now, timeout));
        (self.timers.rto_at, self.timers.probe_at) = (None, None);
    }

    /// Handles the timer, if it is due. Returns false if the connection has failed.
    pub(in crate::tcp::sender) fn handle_linux_timeout(&mut self, now: Instant) -> bool {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.timers.reordering_at) {
            self.reordering_is_over(now);
        } else if is_due(self.timers.probe_at) {
            if self.probe.end.is_some() {
                self.rearm_timeout(now);
            } else {
                // The segment that is sent next sets the timer.
                self.timers.probe_at = None;
                self.probe.due = true;
            }
        } else if is_due(self.timers.rto_at) {
            return self.time_out_as_linux(now);
        }
        true
    }

    /// Returns whether the connection stays alive: for as long as doubling the minimum RTO, as often as retries are
    /// allowed, would take since the first retransmission, regardless of the actual timeouts.
    pub(in crate::tcp::sender) fn may_time_out_again(&self, now: Instant) -> bool {
        let rto = &self.config.rto;
        let doubled = |retries| LEAST_RTO.saturating_mul(2_u32.saturating_pow(retries)).min(rto.max);
        let patience = (0..=rto.retries_max).map(doubled).fold(Duration::ZERO, Duration::saturating_add);
        self.linux.undo.retransmitting_for(now) < patience
    }

    /// RFC 8985 §6.3: the expected acknowledgement did not arrive.
    fn reordering_is_over(&mut self, now: Instant) {
        self.linux.newly_lost = 0;
        self.linux.turn = super::Turn::Repairs;
        self.give_up_overtaken(now);
        if self.linux.newly_lost > 0 && self.recovery.phase != Phase::Fast {
            self.enter_fast_recovery();
            self.reduce_proportionally(1, false);
        }
        self.rearm_timeout(now);
    }

    /// The retransmission timer expired: segments that RACK does not presume in flight are lost; ssthresh falls once
    /// for a window, and F-RTO begins (RFC 5682 §3.1 step 1).
    fn time_out_as_linux(&mut self, now: Instant) -> bool {
        self.timers.rto_at = None;
        let repeats = self.timers.timeouts > 0;
        if !self.count_timeout(now) {
            return false;
        }
        let phase = self.recovery.phase;
        let rack = &self.linux.rack;
        self.board
            .mark_lost_if(|index, segment| Some(index == 0 || rack.patience(now, segment, Duration::ZERO).is_zero()));
        let is_new = matches!(phase, Phase::Open | Phase::Disorder);
        if is_new || self.recovery.high <= self.una || (phase == Phase::Timeout && !repeats) {
            let before = (self.congestion.cwnd(), self.congestion.undo_ssthresh());
            self.congestion.lower_ssthresh();
            self.congestion.end_epoch();
            self.begin_undo();
            self.linux.undo.remember(before.0, before.1);
        }
        self.congestion.set_cwnd(self.board.in_flight() + 1);
        self.recovery.phase = Phase::Timeout;
        self.recovery.high = self.next;
        self.recovery.reduced_through = self.next;
        self.probe = Default::default();
        self.linux.examines_timeout = is_new || repeats;
        self.linux.turn = super::Turn::Repairs;
        self.timers.expired_now = true;
        self.back_off();
        self.start_transmission_timer(now);
        true
    }
}
