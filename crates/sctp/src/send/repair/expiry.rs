//! T3-rtx (RFC 9260 §6.3.2, §6.3.3) and the silence that paces probes: the effects of an expiry, and the next deadline.

use festina_recovery::loss_timer::{TimerDecision, decide};
use festina_recovery::probe::Probe;
use festina_recovery::profile::LossDetection;
use festina_units::{Duration, Instant, OptionalInstant};

use super::bundling::SILENT_TURN_PARTS;
use super::verdict::Findings;
use super::{Repair, Verdict, WindowVerdict, overdue};
use crate::congestion::CongestionSign;
use crate::event::RetransmissionCause;
use crate::outstanding::{Chunk, ChunkState, Ledger};
use crate::send::flight::Flight;
use crate::send::limits::{PathLimits, Release};

/// Why chunks in flight are retransmitted in one packet, although none counts as lost: for all reasons but the last, those sent with COOKIE ECHO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlightAgain {
    /// Redundancy asks for a copy. An acknowledgement says nothing of a loss then.
    Uncalled,
    /// The answer is overdue.
    Overdue,
    /// The path was silent for seconds: the window restarts as after T3-rtx.
    PathBroken,
    /// The peer may have left the address to which they were sent: the earliest ones, as many as have room.
    Elsewhere { room_bytes: u16 },
}

/// The retransmission timer of the outstanding chunks.
#[derive(Debug, Default)]
pub(super) struct LossTimers {
    /// T3-rtx, if it runs.
    t3: Option<Running>,
    /// When the last probe left, if nothing was acknowledged since.
    silent_since: OptionalInstant,
    /// When the peer last acknowledged something.
    heard_at: OptionalInstant,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) started: Instant,
    pub(super) expires: Instant,
}

impl LossTimers {
    /// T3-rtx, if it runs.
    pub(super) fn t3(&self) -> Option<Running> {
        self.t3
    }

    pub(super) fn start(&mut self, now: Instant, interval: Duration) {
        self.restart(now, now + interval);
    }

    /// T3-rtx starts again and expires at `expires`.
    pub(super) fn restart(&mut self, now: Instant, expires: Instant) {
        self.t3 = Some(Running { started: now, expires });
    }

    /// T3-rtx expired. Returns its duration.
    pub(super) fn take_expired(&mut self) -> Option<Duration> {
        self.t3.take().map(|timer| timer.expires - timer.started)
    }

    /// A probe left.
    pub(super) fn probed(&mut self, now: Instant) {
        self.silent_since = now.into();
    }

    /// The peer acknowledged something.
    pub(super) fn heard(&mut self, now: Instant) {
        self.silent_since = OptionalInstant::NONE;
        self.heard_at = now.into();
    }

    /// Returns whether the peer is silent: a probe left a while ago, and the peer has acknowledged nothing for longer than a round trip. While
    /// acknowledgements keep coming, those of a dense stream are only late, and the whole flight behind a queue would lengthen it.
    pub(super) fn is_silent(&self, now: Instant, srtt: Duration) -> bool {
        let part = srtt / SILENT_TURN_PARTS;
        self.silent_since.get().is_some_and(|since| now - since >= part)
            && self.heard_at.get().is_none_or(|heard_at| now - heard_at >= srtt + part)
    }

    /// When the last probe left, if nothing was acknowledged since.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        self.silent_since.get()
    }

    /// Nothing is outstanding.
    pub(super) fn stop(&mut self) {
        *self = Self { heard_at: self.heard_at, ..Self::default() };
    }
}

/// What expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerExpiry {
    /// T3-rtx.
    Timeout {
        /// Whether it counts as an error of the path and the association (RFC 9260 §8.1): not if the peer does answer and keeps
        /// its window closed (RFC 9260 §6.1 rule A).
        counts: bool,
    },
    /// A probe ahead of T3-rtx, which increments no error counter.
    Probe,
}

impl Repair {
    /// When to call [`on_timeout`](Self::on_timeout).
    #[inline(always)]
    pub(in crate::send) fn deadline(&self, flight: &Flight, limits: &PathLimits) -> Option<Instant> {
        let redundancy = self.redundancy.as_ref();
        let copy = redundancy.and_then(|redundancy| redundancy.next_at()).filter(|_| !self.owed.copy);
        let coded = redundancy.filter(|redundancy| redundancy.codes && !self.owed.sums);
        let sums = coded.and_then(|redundancy| redundancy.sums_at());
        let judgement = self.detectors.as_ref().and_then(|detectors| detectors.by_time.at());
        // When a state in flight lacks its successor for too long, if it may get a copy then.
        let states = flight.partial.as_ref().filter(|_| self.redundancy.is_some() && self.is_thin());
        let state = states.and_then(|_| flight.states_end_at());
        let overdue = self.overdue_at(flight, limits).map(|(at, _)| at);
        let loss = self.next_expiry(flight, limits).map(TimerDecision::at);
        Instant::earliest([loss, copy, sums, judgement, overdue, state])
    }

    /// Handles the expired timers.
    pub(in crate::send) fn on_timeout(
        &mut self,
        now: Instant,
        flight: &mut Flight,
        limits: &PathLimits,
    ) -> (Verdict, Option<TimerExpiry>) {
        let same_recovery = self.recovery.lasts;
        let mut in_flight_bytes = limits.in_flight(flight).bytes;
        let mut findings = Findings::default();
        let mut lost = 0;
        let expiry = self.next_expiry(flight, limits).filter(|next| next.at() <= now).map(|next| match next {
            TimerDecision::Timeout { .. } => self.time_out(now, flight, limits, &mut findings, &mut lost),
            TimerDecision::Probe { .. } => self.probe(now, flight, limits),
        });
        let detected = self.handle_detectors(now, flight, limits, &mut findings);
        self.copy_last_states(now, flight);
        let release = if detected.is_some() || expiry.is_some() { Release::Usual } else { Release::Same };
        lost += detected.unwrap_or_default();
        let verdict = Verdict { lost, found: 0, window: findings.verdict(), release };
        if findings.timeout.is_none() {
            in_flight_bytes = limits.in_flight(flight).bytes;
        }
        self.note_cut(verdict.window, in_flight_bytes, same_recovery, flight, limits);
        (verdict, expiry)
    }

    /// The last states before a pause may get a copy: no successor will deliver their contents.
    fn copy_last_states(&mut self, now: Instant, flight: &mut Flight) {
        // Those that get none are done with, too: a state that leaves later, or a stream that is thin later, is not asked about again.
        let last = if flight.partial.is_some() { flight.take_last_states(now) } else { Vec::new() };
        for tsn in last {
            let redundancy = self.redundancy.as_mut().filter(|_| self.book.is_thin());
            if let (Some(redundancy), Some(chunk)) = (redundancy, flight.ledger.get(tsn)) {
                redundancy.plan_last(now, tsn, chunk.sent_at, &self.rtt);
            }
        }
    }

    /// RFC 9260 §6.3.3, rules E1 to E3. E4 follows when the retransmission leaves.
    fn time_out(
        &mut self,
        now: Instant,
        flight: &mut Flight,
        limits: &PathLimits,
        findings: &mut Findings,
        lost: &mut usize,
    ) -> TimerExpiry {
        let rto = self.rto();
        let waited = self.timers.take_expired().unwrap_or(rto);
        // An expiry that does not back off is no step of an exponential backoff either: a stream that ceases to be thin starts its backoff then (P10
        // §5.3).
        if self.rules().backoff.is_linear(&self.series) {
            self.series.probed(waited);
        } else {
            self.series.timed_out(waited);
        }
        if let Some(tsn) = flight.window.answered_probe() {
            flight.ledger.lose(tsn, RetransmissionCause::Timeout);
            return TimerExpiry::Timeout { counts: false };
        }
        *lost = flight.ledger.time_out(limits.id, now - rto, self.rules().bundling.into_timeout);
        findings.timeout = Some(CongestionSign::Timeout {
            one_packet: self.rules().one_packet_after_timeout,
            in_fast_recovery: self.recovery.lasts,
        });
        self.book.timed_out();
        (self.recovery.lasts, self.recovery.after_timeout) = (false, true);
        self.owed.repair = Some(RetransmissionCause::Timeout);
        self.abandon_tail_probe();
        TimerExpiry::Timeout { counts: true }
    }

    /// Nothing is taken for lost: cwnd stays, and the retransmission timer starts again.
    fn probe(&mut self, now: Instant, flight: &Flight, limits: &PathLimits) -> TimerExpiry {
        if matches!(self.rules().probe, Probe::TailLoss(_)) {
            self.owed.tail_probe = true;
        } else {
            let timeout = self.rules().probe.timeout(&self.rtt).unwrap_or_default();
            self.series.probed(now - self.probe_reference(flight, limits, timeout));
            self.owed.probe = true;
        }
        self.timers.start(now, self.rto());
        TimerExpiry::Probe
    }

    /// Chunks in flight are retransmitted in one packet. None is marked as lost.
    pub(in crate::send) fn repeat_flight(&mut self, now: Instant, reason: FlightAgain, ledger: &Ledger) {
        if let FlightAgain::Elsewhere { room_bytes } = reason {
            self.owed.elsewhere = Some(room_bytes);
        } else if ledger.in_flight().chunks > 0 {
            if reason == FlightAgain::Uncalled {
                // Or the window would be cut for a copy that was needed, once it is acknowledged without being reported as a duplicate.
                self.recovery.cut_tsn = ledger.next_tsn() - 1;
            }
            // In silence all chunks join a probe, however young.
            self.timers.probed(now);
            self.owed.probe = true;
        }
    }

    /// Judges losses by time and by lateness, if it is time to. Returns the number of chunks found lost.
    fn handle_detectors(
        &mut self,
        now: Instant,
        flight: &mut Flight,
        limits: &PathLimits,
        findings: &mut Findings,
    ) -> Option<usize> {
        let late = self.overdue_at(flight, limits).filter(|&(at, _)| at <= now);
        let by_time = self.detectors()?.by_time.take_due(now);
        let mut lost = 0;
        if by_time {
            lost += self.judge_by_time(now, flight, limits);
            findings.loss |= self.enter_recovery(lost, &flight.ledger);
        }
        if let Some((_, delay)) = late {
            let marked = overdue::mark(now, delay, &mut flight.ledger, limits.id, limits.congestion.cwnd() as u64);
            if marked > 0 {
                self.owed.repair = Some(RetransmissionCause::Fast);
                findings.overdue = true;
                lost += marked;
            }
            self.arm(now);
        }
        (by_time || late.is_some()).then_some(lost)
    }

    pub(super) fn judge_by_time(&mut self, now: Instant, flight: &mut Flight, limits: &PathLimits) -> usize {
        if self.rules().loss_detection != LossDetection::Rack {
            return 0;
        }
        let (in_recovery, srtt) = (self.recovery.lasts || self.recovery.after_timeout, self.rtt.srtt());
        let Some(detectors) = self.detectors() else { return 0 };
        detectors.by_time.judge(now, in_recovery, srtt, (&mut flight.ledger, limits.id))
    }

    /// Enters fast recovery for `lost_chunks` newly lost chunks, unless it is active (RFC 9260 §7.2.4). Returns whether to cut the window.
    pub(super) fn enter_recovery(&mut self, lost_chunks: usize, ledger: &Ledger) -> bool {
        let begins = lost_chunks > 0 && !self.recovery.lasts;
        if begins {
            self.recovery.lasts = true;
            self.owed.repair = Some(RetransmissionCause::Fast);
            self.abandon_tail_probe();
        }
        begins && !self.was_cut_for_mark(ledger)
    }

    /// T3-rtx expired or a fast recovery begins, which now judge losses.
    fn abandon_tail_probe(&mut self) {
        if let Some(detectors) = self.detectors() {
            detectors.tail.abandon();
        }
    }

    /// Records the window before it is cut, to restore it if the cut proves spurious.
    pub(super) fn note_cut(
        &mut self,
        verdict: WindowVerdict,
        in_flight_bytes: usize,
        same_recovery: bool,
        flight: &Flight,
        limits: &PathLimits,
    ) {
        let WindowVerdict::Cut(CongestionSign::Loss | CongestionSign::Timeout { .. }) = verdict else { return };
        self.recovery.cut_tsn = flight.ledger.next_tsn() - 1;
        self.recovery.cut_for_mark = false;
        if self.rules().spurious.undo
            && let Some(spurious) = self.spurious()
        {
            spurious.cut(limits.window(), in_flight_bytes as u64, same_recovery);
        }
    }

    pub(super) fn next_expiry(&self, flight: &Flight, limits: &PathLimits) -> Option<TimerDecision> {
        let timeout_at = self.timers.t3()?.expires;
        let rules = self.rules();
        if matches!(rules.probe, Probe::TailLoss(_)) && !self.owed.tail_probe {
            let probe = self.tail_at(flight, limits).map(|at| TimerDecision::Probe { at: at.min(timeout_at) });
            return Some(probe.unwrap_or(TimerDecision::Timeout { at: timeout_at }));
        }
        if self.owed.probe || limits.in_flight(flight).chunks == 0 {
            return Some(TimerDecision::Timeout { at: timeout_at });
        }
        Some(decide(
            rules,
            &self.rtt,
            &self.series,
            |timeout| self.probe_reference(flight, limits, timeout),
            timeout_at,
        ))
    }

    /// From when on the probe timer runs: the longest unanswered transmission, but in silence at least the last probe, so that one
    /// packet per round trip probes for everything.
    fn probe_reference(&self, flight: &Flight, limits: &PathLimits, timeout: Duration) -> Instant {
        let delay_max = self.redundancy.as_ref().map_or(Duration::ZERO, |redundancy| redundancy.sack_delay_max());
        let oldest = answered_from(flight.ledger.iter_on(limits.id), delay_max, timeout).unwrap_or_default();
        match self.timers.silent_since() {
            // A sum may yet repair it, or probes were needless.
            None => oldest + self.probe_delay(timeout),
            // Without an answer to the last probe no sum helps.
            Some(probed_at) => oldest.max(probed_at),
        }
    }
}

/// Returns the start of the `timeout` within which the first unanswered chunk must be acknowledged. If a packet did not ask for its SACK, the next
/// packet triggers it. If that packet was not sent within `delay_max` of its expected time, the stream has ended, and only a probe can trigger the
/// SACK.
fn answered_from<'l>(
    chunks: impl DoubleEndedIterator<Item = &'l Chunk>,
    delay_max: Duration,
    timeout: Duration,
) -> Option<Instant> {
    let (mut first, mut departure, mut next_departure) = (None, None, None);
    // Of a later packet that asked for its SACK.
    let mut asked_at: Option<Instant> = None;
    let mut last = None;
    for chunk in chunks.rev() {
        // Chunks that left in one packet say the same.
        let terms = (chunk.sent_at, chunk.immediate_ack, chunk.state == ChunkState::InFlight);
        if last.replace(terms) == Some(terms) {
            continue;
        }
        if departure.is_none_or(|departure| chunk.sent_at < departure) {
            next_departure = departure.replace(chunk.sent_at);
        }
        if chunk.immediate_ack {
            asked_at = Some(asked_at.map_or(chunk.sent_at, |asked_at| asked_at.min(chunk.sent_at)));
        }
        if chunk.state != ChunkState::InFlight {
            continue;
        }
        let drawn_at = match (next_departure, asked_at) {
            _ if chunk.immediate_ack => chunk.sent_at,
            (None, None) => chunk.sent_at + delay_max.saturating_sub(timeout),
            (next, asked_at) => {
                let drawn_at = Instant::earliest([next, asked_at]).unwrap_or(chunk.sent_at);
                drawn_at.clamp(chunk.sent_at, chunk.sent_at + delay_max)
            }
        };
        first = Some(first.map_or(drawn_at, |first: Instant| first.min(drawn_at)));
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two chunks of one instant the first asked for its SACK.
    #[test]
    fn a_chunk_that_asked_for_its_sack_counts_though_one_behind_it_in_its_packet_did_not() {
        let (now, delay_max, timeout) = (Instant::from_secs(1), Duration::from_millis(200), Duration::from_millis(100));
        let mut ledger = Ledger::new(1);
        ledger.push(Chunk { immediate_ack: true, ..Chunk::for_test(now) });
        ledger.push(Chunk::for_test(now));
        assert_eq!(answered_from(ledger.iter(), delay_max, timeout), Some(now));
        ledger.gap_ack(1);
        assert_eq!(answered_from(ledger.iter(), delay_max, timeout), Some(now + delay_max - timeout));
    }
}
