//! Loss recovery as in Linux 6.1: the states, and the transitions by acknowledgements and timers.
//!
//! Sources: RFC 8985 (RACK-TLP), 6937 (proportional rate reduction), 5682 (F-RTO), 3708 and 4015 (undo by
//! D-SACK and by timestamps), and Linux's behaviour where it departs from them. Simplified: ECN reduces cwnd at
//! once, the degree of reordering stays at three segments, the smallest RTT is that of the whole connection,
//! and duplicate ACKs are not compressed.

mod timers;
mod undo;

use festina_units::{Duration, Instant};

use self::undo::{Reduction, Undo};
use super::{
    Outgoing, Phase, Sender,
    ack::Progress,
    rack::{Delivery, Rack},
    scoreboard::DUP_THRESH,
};
use crate::tcp::event::Cause;

/// The additional state of Linux's loss recovery.
#[derive(Clone, Debug, Default)]
pub(super) struct LinuxRecovery {
    pub(super) rack: Rack,
    undo: Undo,
    reduction: Reduction,
    /// F-RTO examines whether the latest timeout was spurious.
    examines_timeout: bool,
    turn: Turn,
    /// Segments delivered so far, reported duplicates included.
    delivered: u64,
    /// Segments marked as lost by the acknowledgement or timer that is being handled.
    newly_lost: u32,
}

/// The segments that may be sent after an acknowledgement.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Turn {
    /// Lost segments first, then new data.
    #[default]
    Repairs,
    /// F-RTO tries new data first (RFC 5682 §3.1 step 2b); repairs if there is none.
    NewData,
    /// New data was sent: no repair until the next acknowledgement.
    NewDataOnly,
}

/// Whether RACK waits for segments that may only be reordered, and whether a retransmission was lost.
#[derive(Copy, Clone, Debug, Default)]
struct Marked {
    waits: bool,
    lost_again: bool,
}

impl LinuxRecovery {
    /// Segments delivered so far; never zero, which stands for "not known".
    pub(super) fn delivered(&self) -> u64 {
        self.delivered + 1
    }
}

impl Sender {
    /// Called before an acknowledgement is applied.
    pub(super) fn expect_delivery(&self, now: Instant, echo: Option<Instant>) -> Delivery {
        let rtt_min = self.timers.rtt.rtt_min().unwrap_or(Duration::ZERO);
        Delivery::new(now, echo, rtt_min, self.recovery.high, self.board.highest_sacked())
    }

    /// Called after an acknowledgement was applied to the scoreboard; `was_idle` says that nothing was outstanding.
    pub(super) fn recover_as_linux(&mut self, now: Instant, una_before: u64, was_idle: bool, progress: &Progress) {
        self.linux.turn = Turn::Repairs;
        self.linux.newly_lost = 0;
        let delivered_before = self.linux.delivered;
        self.linux.delivered += u64::from(progress.delivery.segments);
        self.linux.rack.reordering_seen |= progress.delivery.reordered;
        self.count_duplicate_report(una_before, progress);
        if !was_idle {
            self.linux.rack.adapt_window(progress.delivery.delivered_before, self.linux.delivered);
        }
        self.end_linux_probe(progress);
        let is_dubious = !(progress.has_news || progress.segments > 0)
            || progress.delivery.sacked > 0
            || progress.told_duplicate.is_some()
            || self.recovery.phase != Phase::Open;
        let waits = if was_idle { progress.told_duplicate.is_some() } else { is_dubious } && self.judge(now, progress);
        if was_idle {
            return;
        }
        if !waits && self.restarts_timer(now, progress) {
            self.set_transmission_timer(now);
        }
        let delivered = u32::try_from(self.linux.delivered - delivered_before).unwrap_or(u32::MAX);
        if self.recovery.phase == Phase::Fast {
            self.reduce_proportionally(delivered, progress.advanced);
        } else {
            self.grow(now, if progress.segments > 0 { delivered } else { 0 });
        }
    }

    /// A duplicate that the receiver reports counts as delivered, and as one spurious retransmission.
    fn count_duplicate_report(&mut self, una_before: u64, progress: &Progress) {
        let Some((start, end)) = progress.told_duplicate else { return };
        self.linux.delivered += 1;
        let by_probe = self.probe.end == Some(end);
        if !by_probe {
            self.linux.rack.duplicate_was_told();
        }
        let of_sacked = self.board.is_resent_and_sacked(start, end);
        // The report is for a segment that was SACKed before: its copies arrived out of order.
        self.linux.rack.reordering_seen |= of_sacked && progress.delivery.sacked == 0;
        if of_sacked || end <= una_before {
            self.linux.undo.retransmission_was_needless(end);
        }
    }

    /// RFC 8985 §7.4.2, as far as an acknowledgement ends the episode of a probe.
    fn end_linux_probe(&mut self, progress: &Progress) {
        let Some(end) = self.probe.end.filter(|&end| self.una >= end) else { return };
        let told = progress.told_duplicate.is_some_and(|(_, told_end)| told_end == end);
        if !self.probe.repeated || told {
            self.probe.end = None;
        } else if self.una > end {
            self.begin_reduction();
            self.reduce();
            self.keep_open();
        } else if !progress.advanced && !progress.has_news && progress.delivery.sacked == 0 {
            self.probe.end = None;
        }
    }

    /// Changes the phase. Returns whether RACK waits for segments that may only be reordered.
    fn judge(&mut self, now: Instant, progress: &Progress) -> bool {
        if self.recovery.phase == Phase::Open {
            self.linux.undo.forget_retransmission();
        } else if self.recovery.phase == Phase::Fast && self.una >= self.recovery.high {
            self.end_fast_recovery(progress);
        }
        match self.recovery.phase {
            Phase::Fast => {
                if progress.advanced && self.undo_partially(progress) {
                    return false;
                }
                if self.undo_by_duplicates() {
                    self.try_to_open();
                }
                let marked = self.mark_overtaken(now);
                if self.recovery.phase != Phase::Fast && self.board.lost() > 0 {
                    self.enter_fast_recovery();
                }
                marked.waits
            }
            Phase::Timeout => {
                self.judge_after_timeout(progress);
                let marked = self.mark_overtaken(now);
                if self.recovery.phase == Phase::Timeout && !marked.lost_again {
                    return marked.waits;
                }
                self.open_or_recover(now, marked.waits)
            }
            Phase::Open | Phase::Disorder => self.open_or_recover(now, false),
        }
    }

    fn open_or_recover(&mut self, now: Instant, waits: bool) -> bool {
        if matches!(self.recovery.phase, Phase::Open | Phase::Disorder) {
            self.undo_by_duplicates();
        }
        let waits = self.mark_overtaken(now).waits || waits;
        if self.board.lost() > 0 {
            self.enter_fast_recovery();
        } else {
            self.try_to_open();
        }
        waits
    }

    /// An acknowledgement after a timeout: F-RTO (RFC 5682 §3.1, the version for SACK) and the end of the phase.
    fn judge_after_timeout(&mut self, progress: &Progress) {
        let recovered = self.una >= self.recovery.high;
        if progress.advanced && self.linux.undo.is_proven_spurious(progress.echo) {
            self.undo_timeout();
            return;
        }
        if self.linux.examines_timeout {
            if progress.delivery.original {
                self.undo_timeout();
                return;
            }
            let is_duplicate = !progress.advanced && !progress.has_news && progress.told_duplicate.is_none();
            if self.next > self.recovery.high {
                if progress.delivery.sacked > 0 || is_duplicate {
                    self.linux.examines_timeout = false;
                }
            } else if progress.advanced && !recovered {
                self.recovery.high = self.next;
                if self.unsent() > 0 && self.window_edge > self.next {
                    self.linux.turn = Turn::NewData;
                    return;
                }
                self.linux.examines_timeout = false;
            }
        }
        if recovered {
            self.end_recovery(progress);
        }
    }

    /// Marks the segments that RACK presumes lost. Sets the timer for reordering if some others may still arrive.
    fn mark_overtaken(&mut self, now: Instant) -> Marked {
        if !core::mem::take(&mut self.linux.rack.advanced) {
            return Marked::default();
        }
        let (lost_again, patience) = self.give_up_overtaken(now);
        if let Some(patience) = patience {
            self.wait_for_reordering(now, patience);
        }
        Marked { waits: patience.is_some(), lost_again }
    }

    /// Marks segments as lost. Returns whether a retransmission is among them, and how long the rest may take.
    fn give_up_overtaken(&mut self, now: Instant) -> (bool, Option<Duration>) {
        let is_certain =
            matches!(self.recovery.phase, Phase::Fast | Phase::Timeout) || self.board.sacked() >= DUP_THRESH;
        let rtt_min = self.timers.rtt.rtt_min().unwrap_or(Duration::ZERO);
        let window = self.linux.rack.window(is_certain, rtt_min, self.timers.rtt.srtt().unwrap_or(Duration::ZERO));
        let rack = &self.linux.rack;
        let lost_before = self.board.lost();
        let mut longest: Option<Duration> = None;
        // Without retransmissions in flight, the segments after this one were also sent after it.
        let in_order = self.board.resent() == 0;
        let lost_again = self.board.mark_lost_if(|_, segment| {
            if !rack.is_overtaken(segment) {
                return if in_order && segment.transmissions == 1 { None } else { Some(false) };
            }
            let patience = rack.patience(now, segment, window);
            if patience.is_zero() {
                return Some(true);
            }
            longest = longest.max(Some(patience));
            Some(false)
        });
        self.linux.newly_lost += self.board.lost() - lost_before;
        (lost_again, longest)
    }

    fn enter_fast_recovery(&mut self) {
        if !self.has_retransmitted() {
            self.linux.undo.forget_retransmission();
        }
        self.begin_undo();
        if self.recovery.phase != Phase::Fast {
            self.linux.undo.remember(self.congestion.cwnd(), self.congestion.undo_ssthresh());
            self.begin_reduction();
            self.congestion.lower_ssthresh();
            self.recovery.reduced_through = self.next;
            self.recovery.confirms_reduction = self.config.ecn;
        }
        self.recovery.phase = Phase::Fast;
        self.counters.fast_recoveries += 1;
    }

    fn begin_undo(&mut self) {
        let probes = u32::from(self.probe.end.is_some() && self.probe.repeated);
        self.linux.undo.begin(self.una, self.board.resent() + probes);
    }

    fn begin_reduction(&mut self) {
        self.recovery.high = self.next;
        self.probe.end = None;
        self.linux.reduction = Reduction::new(self.congestion.cwnd());
    }

    /// Proportional rate reduction (RFC 6937 §3 with the slow start reduction bound).
    fn reduce_proportionally(&mut self, delivered: u32, advanced: bool) {
        let ssthresh = self.congestion.ssthresh().and_then(|ssthresh| u32::try_from(ssthresh).ok()).unwrap_or(u32::MAX);
        let in_flight = self.board.in_flight();
        let may_speed_up = advanced && self.linux.newly_lost == 0;
        if let Some(allowance) = self.linux.reduction.allowance(delivered, in_flight, ssthresh, may_speed_up) {
            self.congestion.set_cwnd(in_flight.saturating_add(allowance));
        }
    }

    /// A phase ended because everything sent before it was acknowledged.
    fn end_fast_recovery(&mut self, progress: &Progress) {
        self.end_recovery(progress);
        // Not if it was undone.
        if self.linux.undo.is_possible()
            && let Some(ssthresh) = self.congestion.ssthresh()
        {
            self.congestion.set_cwnd(u32::try_from(ssthresh).unwrap_or(u32::MAX));
        }
    }

    fn end_recovery(&mut self, progress: &Progress) {
        if self.linux.undo.is_proven_spurious(progress.echo) {
            self.undo_reduction(false);
        } else {
            self.linux.rack.recovery_ended();
        }
        self.recovery.phase = Phase::Open;
    }

    fn undo_timeout(&mut self) {
        self.undo_reduction(true);
        self.timers.timeouts = 0;
        self.recovery.phase = Phase::Open;
    }

    /// Handles a hole filled by segments presumed lost, before anything was retransmitted. Returns true if the recovery
    /// continues without marking more segments.
    fn undo_partially(&mut self, progress: &Progress) -> bool {
        if !self.linux.undo.is_possible() || !self.linux.undo.is_older_than_retransmission(progress.echo) {
            return false;
        }
        self.linux.rack.reordering_seen |= self.board.sacked() > 0;
        if self.board.resent() > 0 {
            return true;
        }
        if !self.has_retransmitted() {
            self.linux.undo.forget_retransmission();
        }
        self.undo_reduction(true);
        self.keep_open();
        false
    }

    /// Every retransmission was reported as a duplicate.
    fn undo_by_duplicates(&mut self) -> bool {
        let undoes = self.linux.undo.all_were_needless();
        if undoes {
            self.linux.rack.recovery_was_undone();
            self.undo_reduction(false);
        }
        undoes
    }

    fn undo_reduction(&mut self, takes_back_losses: bool) {
        if takes_back_losses {
            self.board.take_back_losses();
        }
        if let Some((cwnd, ssthresh)) = self.linux.undo.end() {
            self.congestion.undo(cwnd, ssthresh);
        }
        self.linux.rack.advanced = true;
    }

    fn try_to_open(&mut self) {
        if !self.has_retransmitted() {
            self.linux.undo.forget_retransmission();
        }
        self.keep_open();
    }

    fn keep_open(&mut self) {
        let is_disordered = self.board.sacked() > 0 || self.board.lost() > 0 || self.has_retransmitted();
        let phase = if is_disordered { Phase::Disorder } else { Phase::Open };
        if self.recovery.phase != phase {
            self.recovery.phase = phase;
            self.recovery.high = self.next;
        }
    }

    /// Retransmissions are in flight, or the first outstanding segment was sent more than once.
    fn has_retransmitted(&self) -> bool {
        self.board.resent() > 0 || self.board.first().is_some_and(|first| first.transmissions > 1)
    }

    /// Returns the next segment to send, apart from probes.
    pub(super) fn poll_linux(&mut self, now: Instant) -> Option<Outgoing> {
        if self.linux.turn == Turn::Repairs
            && self.board.in_flight() < self.congestion.cwnd()
            && let Some(index) = self.board.next_lost()
        {
            let cause = self.repair_cause();
            return self.retransmit(now, index, cause);
        }
        if let Some(length_bytes) = self.new_segment_length(now) {
            if self.linux.turn == Turn::NewData {
                self.linux.turn = Turn::NewDataOnly;
            }
            self.linux.reduction.sent(1);
            return Some(self.send_new(now, length_bytes));
        }
        if self.linux.turn == Turn::NewData {
            self.linux.turn = Turn::Repairs;
            self.linux.examines_timeout = false;
            return self.poll_linux(now);
        }
        None
    }

    /// A segment was retransmitted.
    pub(super) fn repair_left(&mut self, now: Instant, index: usize, cause: Cause) {
        if cause != Cause::Probe {
            self.linux.undo.retransmitted(now);
            self.linux.reduction.sent(1);
            if index == 0 && self.timers.reordering_at.is_none() {
                self.start_transmission_timer(now);
            }
        }
    }
}
