//! T3-rtx (RFC 9260 §6.3.2, §6.3.3) and the probe that takes its place on thin streams.

use festina_recovery::loss_timer::{TimerDecision, decide};
use festina_recovery::rto_restart::SackArrival;
use festina_recovery::tail_loss_probe::Probe;
use festina_recovery::tlp::ProbeContent;
use festina_units::{Duration, Instant};

use super::{Repair, Sender};
use crate::event::{Events, RetransmissionCause};
use crate::outstanding::{Chunk, ChunkState};

/// What expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerExpiry {
    /// T3-rtx.
    Timeout {
        /// Whether it counts as an error of the path and the association (RFC 9260 §8.1): not if the peer does answer and keeps
        /// its window closed (RFC 9260 §6.1 rule A).
        counts: bool,
    },
    /// A probe ahead of T3-rtx, which counts against nobody.
    Probe,
}

/// The timers of the outstanding chunks.
#[derive(Debug, Default)]
pub(super) struct LossTimer {
    /// T3-rtx, if it runs.
    running: Option<Running>,
    /// What expires next.
    next: Option<TimerDecision>,
    /// A probe packet is to leave.
    pub(super) probe_due: bool,
    /// A tail loss probe with this content is to leave.
    pub(super) tail_due: Option<ProbeContent>,
    /// A copy of the chunks from the first to the second of these TSNs is to leave.
    pub(super) copy_due: Option<(u64, u64)>,
    /// When the last probe left, if nothing was acknowledged since.
    pub(super) silent_since: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    started: Instant,
    expires: Instant,
}

impl LossTimer {
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(super) fn timeout_at(&self) -> Option<Instant> {
        self.running.map(|running| running.expires)
    }

    pub(super) fn start(&mut self, now: Instant, interval: Duration) {
        self.running = Some(Running { started: now, expires: now + interval });
    }
}

impl Sender {
    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let loss = self.timer.next.map(TimerDecision::at);
        let copy = self.recovery.copy_at().filter(|_| self.timer.copy_due.is_none());
        let others = [self.window.deadline(), copy, self.recovery.published_at()];
        others.into_iter().chain([loss]).flatten().min()
    }

    /// Acts on what has expired.
    pub(crate) fn handle_timeout(&mut self, now: Instant, events: &mut Events) -> Option<TimerExpiry> {
        self.drop_stale(now, events);
        self.window.handle_timeout(now);
        let expiry = self.timer.next.filter(|next| next.at() <= now).map(|next| match next {
            TimerDecision::Timeout { .. } => self.time_out(now),
            TimerDecision::Probe { .. } => self.probe(now),
        });
        if self.handle_published_timeout(now) || expiry.is_some() {
            self.burst.restart();
        }
        self.update_timers(now);
        expiry
    }

    /// Lets the next copy leave whose time has come. It is not needed any more if all of its chunks arrived or left again meanwhile.
    fn make_due_copy(&mut self, now: Instant) {
        let is_original = |chunk: &Chunk| chunk.state == ChunkState::InFlight && chunk.transmissions == 1;
        while let Some((first_tsn, last_tsn)) = self.timer.copy_due.or_else(|| self.recovery.take_due_copy(now)) {
            let needed = (first_tsn..=last_tsn).any(|tsn| self.ledger.get(tsn).is_some_and(is_original));
            self.timer.copy_due = needed.then_some((first_tsn, last_tsn));
            if needed {
                break;
            }
            self.recovery.copy_saved();
        }
    }

    /// RFC 9260 §6.3.3, rules E1 to E3. E4 follows when the retransmission leaves.
    fn time_out(&mut self, now: Instant) -> TimerExpiry {
        let rto = self.recovery.rto();
        let waited = self.timer.running.take().map_or(rto, |timer| timer.expires - timer.started);
        self.recovery.timed_out(waited);
        if let Some(tsn) = self.window.probe()
            && self.window.take_answered()
        {
            self.ledger.lose(tsn, RetransmissionCause::Timeout);
            return TimerExpiry::Timeout { counts: false };
        }
        self.note_cut();
        let lost = self.ledger.time_out(now - rto, self.recovery.rules().bundling.into_timeout);
        self.counters.timeouts += 1;
        self.counters.chunks_lost += lost as u64;
        self.congestion.on_timeout(self.recovery.rules().one_packet_after_timeout);
        self.recovery.detector.timed_out();
        let cut_tsn = self.ledger.next_tsn() - 1;
        self.repair = Repair { in_fast_recovery: false, cut_tsn, packet_due: Some(RetransmissionCause::Timeout) };
        self.abandon_tail_probe();
        TimerExpiry::Timeout { counts: true }
    }

    /// Nothing is taken for lost: cwnd stays, and the retransmission timer starts again.
    fn probe(&mut self, now: Instant) -> TimerExpiry {
        if matches!(self.recovery.rules().probe, Probe::TailLoss(_)) {
            self.burst.restart();
            self.timer.tail_due = Some(self.tail_content());
        } else {
            let waited = now - self.timer_reference();
            self.recovery.series.probed(waited);
            self.timer.probe_due = true;
        }
        self.timer.start(now, self.recovery.rto());
        TimerExpiry::Probe
    }

    /// The rules R2 to R4 after an acknowledgement (RFC 9260 §6.3.2), or what the profile has instead of R3.
    pub(super) fn restart_timer_after_sack(&mut self, now: Instant, earliest_acked: bool, any_acked: bool) {
        let Some(earliest) = self.ledger.get(self.ledger.first_tsn()) else { return };
        let rto = self.recovery.rto();
        let Some(running) = self.timer.running else {
            self.timer.start(now, rto);
            return;
        };
        let arrival = SackArrival {
            now,
            rto,
            earliest_acked,
            any_acked,
            timer_started: running.started,
            earliest_sent: earliest.sent_at,
            outstanding: u32::try_from(self.recovery.detector.in_flight()).unwrap_or(u32::MAX),
            unsent: self.unsent_packets(),
        };
        if let Some(expires) = self.recovery.rules().timer_restart.expiry(&arrival) {
            self.timer.running = Some(Running { started: now, expires });
        }
    }

    /// Packets that what is queued would fill.
    pub(super) fn unsent_packets(&self) -> u32 {
        let unsent = self.buffer.queued_bytes().div_ceil(self.sizes.payload.max(1));
        u32::try_from(unsent).unwrap_or(u32::MAX)
    }

    /// Judges anew which rules hold and brings every deadline up to date. The last act of each mutation.
    pub(super) fn update_timers(&mut self, now: Instant) {
        self.recovery.refresh(self.window.probe().is_some(), self.ledger.len());
        self.update_deadlines(now);
    }

    /// As [`update_timers`](Self::update_timers), after one that has judged already.
    pub(super) fn update_deadlines(&mut self, now: Instant) {
        if self.ledger.lost().chunks == 0 {
            self.repair.packet_due = None;
        }
        self.timer.probe_due &= self.ledger.in_flight().chunks > 0;
        self.make_due_copy(now);
        if self.ledger.is_empty() {
            self.timer.running = None;
            self.timer.silent_since = None;
            self.timer.tail_due = None;
            self.recovery.shrink();
        }
        self.timer.next = self.next_expiry();
        let blocked = self.ledger.is_empty()
            && self.next_piece_bytes().is_some_and(|bytes| bytes > self.window.available_bytes(0));
        self.window.update(blocked, || now + self.recovery.rto());
    }

    fn next_expiry(&self) -> Option<TimerDecision> {
        let timeout_at = self.timer.running?.expires;
        let rules = self.recovery.rules();
        if matches!(rules.probe, Probe::TailLoss(_)) && self.timer.tail_due.is_none() {
            let probe = self.recovery.tail_at().map(|at| TimerDecision::Probe { at: at.min(timeout_at) });
            return Some(probe.unwrap_or(TimerDecision::Timeout { at: timeout_at }));
        }
        let probes = rules.probe.timeout(&self.recovery.rtt).is_some();
        if !probes || self.timer.probe_due || self.ledger.in_flight().chunks == 0 {
            return Some(TimerDecision::Timeout { at: timeout_at });
        }
        Some(decide(rules, &self.recovery.rtt, &self.recovery.series, self.timer_reference(), timeout_at))
    }

    /// From when on the probe timer runs: the longest unanswered transmission, but in silence at least the last probe, so that one
    /// packet per round trip probes for everything.
    fn timer_reference(&self) -> Instant {
        let in_flight = self.ledger.iter().filter(|chunk| chunk.state == ChunkState::InFlight);
        let oldest = in_flight.map(|chunk| chunk.sent_at).min().unwrap_or_default();
        self.timer.silent_since.map_or(oldest, |probed_at| oldest.max(probed_at))
    }
}
