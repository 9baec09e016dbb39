//! The effects of an acknowledgement on repair, in a fixed order.

use festina_recovery::fast_retransmit::FastRetransmit;
use festina_recovery::probe::Probe;
use festina_recovery::profile::LossDetection;
use festina_recovery::rack::AckSummary;
use festina_recovery::rto_restart::SackArrival;
use festina_recovery::spurious::answers_earlier;
use festina_recovery::tail_probe::TlpAck;
use festina_recovery::undo::{RepairAck, UndoTerms, Window};
use festina_units::{Duration, Instant};

use super::round_trip::AckNews;
use super::verdict::Findings;
use super::{Repair, Verdict};
use crate::event::{Event, Events, ProtocolEvent};
use crate::outstanding::{Arrival, ChunkState, Credit, Digest, Ledger, PATHS_MAX, PathId, SackTerms, duplicates};
use crate::send::flight::Flight;
use crate::send::limits::{PathLimits, Release};
use crate::wire::Sack;

impl Repair {
    /// How the ledger is to read the acknowledgement at hand.
    pub(in crate::send) fn terms(&mut self, now: Instant, flight: &Flight, limits: &PathLimits) -> SackTerms {
        self.detectors();
        let rules = self.rules();
        SackTerms {
            // A stack that retransmits fast again and again has no fast recovery.
            in_fast_recovery: self.recovery.lasts && !rules.fast_retransmit.repeats,
            fast_retransmit: self.counted_misses(),
            overtaken_after: self.overtaken_after(now),
            early_retransmit: rules.early_retransmit && !limits.allows_new_data(flight),
            sends_copies: rules.probe != Probe::Off || self.sends_copies(),
        }
    }

    /// Number of miss indications that prove a loss. None with RACK, which judges by time.
    fn counted_misses(&self) -> Option<FastRetransmit> {
        let rules = self.rules();
        match rules.loss_detection {
            LossDetection::Counted | LossDetection::Tolerant => Some(rules.fast_retransmit),
            LossDetection::Rack => None,
        }
    }

    /// A chunk that left later than this may just have been overtaken, or a sum may yet repair it; `None`: on this path nothing is overtaken, or the
    /// rules do not care.
    fn overtaken_after(&self, now: Instant) -> Option<Instant> {
        // The sum is in the packet whose acknowledgement reports the chunk missing for the last time, or right behind it.
        let sums_after = Some(self.sums_take()).filter(|takes| !takes.is_zero()).map(|takes| takes * 3 / 4);
        let sums_after = sums_after.zip(self.rtt.srtt()).map(|(takes, srtt)| srtt + takes);
        let patience = self.patience(now).filter(|_| self.tolerates_reordering());
        Some(now - patience.max(sums_after)?)
    }

    /// Returns the time after which a missing chunk is lost; `None` if packets are not overtaken on this path.
    fn patience(&self, now: Instant) -> Option<Duration> {
        let (reordering, srtt) = (self.reordering.as_ref()?, self.rtt.srtt()?);
        reordering.tolerance(now, srtt).map(|tolerance| tolerance.lost_at(now, srtt) - now)
    }

    fn tolerates_reordering(&self) -> bool {
        self.rules().loss_detection == LossDetection::Tolerant
    }

    fn sends_copies(&self) -> bool {
        self.book.is_thin() && self.redundancy.is_some()
    }

    /// The chunks that were acknowledged for the first time. One that was last sent on another path measures nothing here.
    #[inline]
    fn take_arrivals(&mut self, now: Instant, digest: &Digest, path: PathId) {
        for arrival in &digest.singles.in_doubt {
            if PATHS_MAX == 1 || arrival.path == path {
                self.take_arrival_in_doubt(now, arrival, digest.singles.next_tsn);
            } else if self.round_trip.timed_tsn() == Some(arrival.tsn) {
                self.round_trip.forget();
            }
        }
        if let Some(detectors) = &mut self.detectors
            && let Some(run) = digest.credits.of(path).last_run()
        {
            detectors.by_time.run_acked(now, run);
        }
    }

    fn take_arrival_in_doubt(&mut self, now: Instant, arrival: &Arrival, next_tsn: u64) {
        if arrival.was_missed || arrival.fast_retransmitted {
            self.learn_reordering(now, arrival);
        }
        let Some(detectors) = &mut self.detectors else { return };
        if arrival.transmissions > 1 {
            detectors.by_time.copy_acked(now, arrival);
            detectors.spurious.repair_acked(&RepairAck {
                sequence: arrival.tsn,
                transmissions: arrival.transmissions.into(),
                answers_earlier: answers_earlier(now, arrival.sent_at, self.rtt.rtt_min()),
                next_sequence: next_tsn,
            });
        }
    }

    /// A chunk that was acknowledged now may show how late overtaken packets are: one that was reported missing arrived, or its fast
    /// retransmission turned out needless.
    fn learn_reordering(&mut self, now: Instant, arrival: &Arrival) {
        let Some(srtt) = self.rtt.srtt() else { return };
        let age = now - arrival.sent_at;
        let arrived_late = arrival.transmissions == 1 && arrival.was_missed;
        let needless = arrival.is_first_resend
            && arrival.fast_retransmitted
            && answers_earlier(now, arrival.sent_at, self.rtt.rtt_min());
        if !(arrived_late || needless) || !self.tolerates_reordering() || !self.measures {
            return;
        }
        let reordering = self.reordering.get_or_insert_default();
        if arrived_late {
            reordering.arrived_late(now, age, srtt, 1);
        } else {
            reordering.retransmitted_needlessly(now, srtt);
        }
    }

    /// The duplicates that are reported. Returns whether the chunk that is timed is among them, and the round-trip time that one of them
    /// settles: it reports which transmission an earlier SACK acknowledged.
    fn take_duplicates(&mut self, now: Instant, sack: &Sack<'_>, first_tsn: u64) -> (bool, Option<Duration>) {
        self.take_late_packets(now, sack, first_tsn);
        let (mut is_timed, mut rtt) = (false, None);
        for tsn in duplicates(sack, first_tsn) {
            if let Some(detectors) = &mut self.detectors {
                detectors.spurious.duplicate_reported(tsn);
            }
            is_timed |= Some(tsn) == self.round_trip.timed_tsn();
            rtt = self.round_trip.duplicate_reported(tsn).or(rtt);
        }
        (is_timed, rtt)
    }

    /// The duplicates that an acknowledgement reports, even if a later one overtook it: packets that were presumed lost may be among them.
    pub(in crate::send) fn take_late_packets(&mut self, now: Instant, sack: &Sack<'_>, first_tsn: u64) {
        let (Some(redundancy), Some(srtt)) = (&mut self.redundancy, self.rtt.srtt()) else { return };
        for loss in duplicates(sack, first_tsn).filter_map(|tsn| redundancy.duplicate_reported(tsn)) {
            // A retransmission may also have been needless for another reason.
            if loss.is_piggybacked {
                self.reordering.get_or_insert_default().arrived_late(now, now - loss.sent, srtt, 1);
            }
        }
    }

    /// An acknowledgement was applied to the ledger, and the growth that it earned to the window (the note of RFC 9260 §7.2.4).
    pub(in crate::send) fn on_ack(
        &mut self,
        now: Instant,
        sack: Option<&Sack<'_>>,
        digest: &Digest,
        flight: &mut Flight,
        limits: &PathLimits,
        events: &mut Events,
    ) -> Verdict {
        let credit = digest.credits.of(limits.id);
        self.take_arrivals(now, digest, limits.id);
        let duplicates = sack
            .filter(|_| digest.duplicates.reported > 0)
            .map(|sack| self.take_duplicates(now, sack, flight.ledger.first_tsn()));
        if digest.window_opened {
            // It answers, and backing off ends.
            self.series.measured();
        }
        self.book.acknowledged(sack, flight.ledger.first_tsn() - 1);
        let mut findings = Findings { needless: self.judge_repairs(credit, flight, limits), ..Findings::default() };
        findings.repaired_unseen = self.repaired_unseen(now, digest, credit);
        self.take_round_trips(now, (limits.id, credit), duplicates.unwrap_or_default(), &flight.ledger, events);
        let lost = credit.lost_chunks + self.detect_losses(now, digest, flight, limits, &mut findings);
        findings.loss = self.enter_recovery(lost, &flight.ledger);
        let (found, release) = self.detect_spurious_timeout(digest, flight, limits, &mut findings);
        if credit.acked_bytes > 0 || credit.abandoned_acked {
            self.timers.heard(now);
        }
        let verdict = Verdict { lost, found, window: findings.verdict(), release };
        self.note_cut(verdict.window, limits.in_flight(flight).bytes, false, flight, limits);
        self.judge_rules(flight);
        self.restart_t3(now, digest, flight, limits);
        self.arm(now);
        self.tidy(now, flight, limits);
        verdict
    }

    /// Were all repairs since the last cut needless? Returns the window to restore.
    fn judge_repairs(&mut self, credit: &Credit, flight: &Flight, limits: &PathLimits) -> Option<Window> {
        if !self.detectors.as_ref()?.spurious.may_undo_cut() || !self.rules().spurious.undo {
            return None;
        }
        let terms = undo_terms(credit, flight, limits);
        let (first_tsn, losses_wait) = (flight.ledger.first_tsn(), flight.ledger.lost().chunks > 0);
        let restored = self.spurious()?.judge_repairs(first_tsn, losses_wait, &terms);
        self.recovery.lasts &= restored.is_none();
        self.recovery.after_timeout &= restored.is_none();
        restored
    }

    /// Returns whether a copy, a probe or a sum repaired a loss before it was detected: congestion control is then told of the loss as of any other, once
    /// per window (as for the probes of RFC 8985 §7.4).
    ///
    /// A retransmitted chunk counts as lost at first if nothing shows that its first copy arrived. This errs on the safe side if only an
    /// acknowledgement was lost.
    fn repaired_unseen(&mut self, now: Instant, digest: &Digest, credit: &Credit) -> bool {
        let rtt = &self.rtt;
        let is_answer_to_earlier =
            credit.highest_acked.filter(|highest| highest.transmissions > 1).is_some_and(|highest| {
                let first_sent_at = self.round_trip.timed_since(highest.tsn);
                answers_earlier(now, highest.sent_at, rtt.rtt_min())
                    || first_sent_at.is_some_and(|at| answers_first(now, at, highest.sent_at, rtt.possible()))
            });
        let (srtt, patience) = (rtt.srtt(), self.patience(now));
        let carrier = |tsn| self.redundancy.as_ref().and_then(|redundancy| redundancy.carrier(tsn));
        let is_answered = |sent_at| !answers_earlier(now, sent_at, rtt.rtt_min());
        let presumed = credit.arrivals.lost(is_answer_to_earlier, is_answered, carrier);
        let mut lost = presumed.clone().map(|loss| loss.number).max();
        if let Some(redundancy) = self.redundancy.as_mut().filter(|_| self.book.is_thin()) {
            lost = redundancy.acknowledged(now, credit.acked_chunks, presumed, patience, srtt);
            if digest.duplicates.of_probes > 0 {
                redundancy.probed_needlessly();
            }
        }
        let is_news = credit.highest_copy.max(lost).is_some_and(|tsn| tsn > self.recovery.cut_tsn);
        let may_repair_unseen = matches!(self.rules().probe, Probe::RoundTrip { .. }) || self.sends_copies();
        lost.is_some() && is_news && !self.recovery.lasts && may_repair_unseen
    }

    fn take_round_trips(
        &mut self,
        now: Instant,
        (path, credit): (PathId, &Credit),
        (timed_is_duplicate, rtt): (bool, Option<Duration>),
        ledger: &Ledger,
        events: &mut Events,
    ) {
        if let Some(rtt) = rtt.filter(|_| self.measures) {
            self.on_round_trip(now, path, rtt, events);
            // Only retransmitted chunks asked for their SACK.
            self.measured_undelayed(now, rtt);
        }
        let newest = credit.highest_acked.map(|highest| highest.tsn).max(credit.highest_passed);
        let was_abandoned = |tsn| ledger.get(tsn).is_some_and(|chunk| chunk.state == ChunkState::Abandoned);
        if self.round_trip.timed_tsn().is_some_and(|tsn| newest != Some(tsn) && was_abandoned(tsn)) {
            self.round_trip.forget();
        }
        let is_acked = |tsn| {
            ledger.get(tsn).is_none_or(|chunk| {
                matches!(chunk.state, ChunkState::GapAcked | ChunkState::NonRenegable | ChunkState::Abandoned)
            })
        };
        let news = AckNews { now, highest_acked: newest, rtt_min: self.rtt.rtt_min(), timed_is_duplicate };
        let sample = self.round_trip.take_sample(&news, is_acked);
        if !self.measures {
            // A duplicate that this path reports later would settle the round trip of the other one.
            self.round_trip.leave_unsettled();
        } else if let Some(sample) = sample {
            self.on_round_trip(now, path, sample.rtt, events);
            if sample.is_undelayed {
                self.measured_undelayed(now, sample.rtt);
            }
        }
    }

    /// A round-trip time was measured.
    pub(in crate::send) fn on_round_trip(&mut self, now: Instant, path: PathId, rtt: Duration, events: &mut Events) {
        self.measured(rtt);
        self.redundancy.iter_mut().for_each(|redundancy| redundancy.timed());
        events.push_message_event(|| {
            let srtt = self.rtt.srtt().unwrap_or(rtt);
            Event::Protocol(ProtocolEvent::RoundTripMeasured { path, at: now, rtt, srtt, rto: self.rto() })
        });
    }

    /// Ends or continues fast recovery, and runs RACK. Returns the number of chunks that it marked as lost.
    fn detect_losses(
        &mut self,
        now: Instant,
        digest: &Digest,
        flight: &mut Flight,
        limits: &PathLimits,
        findings: &mut Findings,
    ) -> usize {
        let acked_chunks = digest.credits.of(limits.id).acked_chunks;
        let (earliest, next) = (flight.ledger.first_tsn(), flight.ledger.next_tsn());
        let is_over = self.recovery.cut_tsn < earliest;
        let recovery_ended = is_over && (self.recovery.lasts || self.recovery.after_timeout);
        self.recovery.lasts &= !is_over;
        self.recovery.after_timeout &= !is_over;
        let in_recovery = self.recovery.lasts;
        let Some(detectors) = self.detectors() else { return 0 };
        if digest.reneged_chunks > 0 {
            detectors.by_time.chunks_returned();
        }
        detectors.by_time.ack_processed(&AckSummary {
            duplicate_reported: digest.duplicates.beside_tail_probes > 0,
            earliest_outstanding: earliest,
            next_sequence: next,
            recovery_ended,
        });
        let repaired = detectors.tail.repaired(&TlpAck {
            earliest_outstanding: earliest,
            is_new: acked_chunks > 0,
            probe_duplicated: digest.duplicates.of_tail_probes > 0,
            is_plain_duplicate: acked_chunks == 0 && flight.ledger.gap_acked_chunks() == 0,
        });
        findings.repaired_unseen |= repaired && !in_recovery;
        self.judge_by_time(now, flight, limits)
    }

    /// F-RTO (RFC 4138 §3). Returns the number of chunks that prove not to be lost, and the data that may be sent.
    fn detect_spurious_timeout(
        &mut self,
        digest: &Digest,
        flight: &mut Flight,
        limits: &PathLimits,
        findings: &mut Findings,
    ) -> (usize, Release) {
        let credit = digest.credits.of(limits.id);
        let (new_data_sendable, cumulative) = (limits.fits_window(flight), flight.ledger.first_tsn() - 1);
        let Some(spurious) = self.spurious() else { return (0, Release::Usual) };
        let (is_spurious, release) =
            spurious.acked((cumulative, digest.cumulative_advanced), credit, new_data_sendable);
        if !is_spurious {
            return (0, release);
        }
        let found = flight.ledger.find_all();
        self.series.measured();
        let terms = undo_terms(credit, flight, limits);
        let undoes = self.rules().spurious.undo;
        if let Some(detectors) = self.detectors() {
            detectors.by_time.chunks_returned();
            if undoes {
                let restored = detectors.spurious.timeout_was_spurious(&terms);
                findings.needless = findings.needless.or(restored);
            }
        }
        self.recovery.lasts &= findings.needless.is_none();
        self.recovery.after_timeout = false;
        (found, release)
    }

    /// The rules R2 to R4 (RFC 9260 §6.3.2), or the profile's replacement of R3.
    ///
    /// The earliest chunk of this path may be acknowledged behind one that another path has lost, without moving the Cumulative TSN Ack Point. This is
    /// certain if all that remain left after the timer was started.
    fn restart_t3(&mut self, now: Instant, digest: &Digest, flight: &Flight, limits: &PathLimits) {
        let Some(earliest) = flight.ledger.earliest_on(limits.id) else { return };
        let rto = self.rto();
        let Some(running) = self.timers.t3() else {
            self.timers.start(now, rto);
            return;
        };
        let any_acked = digest.credits.of(limits.id).acked_bytes > 0;
        let acked_behind_another = any_acked && !digest.cumulative_advanced && !flight.ledger.begins_on(limits.id);
        let earliest_acked = digest.cumulative_advanced
            || acked_behind_another && {
                let mut in_flight =
                    flight.ledger.iter_on(limits.id).filter(|chunk| chunk.state == ChunkState::InFlight);
                in_flight.next().is_none_or(|chunk| chunk.sent_at > running.started)
            };
        let arrival = SackArrival {
            now,
            rto,
            earliest_acked,
            any_acked,
            timer_started: running.started,
            earliest_sent: earliest.sent_at,
            outstanding: self.packets_in_flight(),
            unsent: limits.unsent_packets(flight),
        };
        if let Some(expires) = self.rules().timer_restart.expiry(&arrival) {
            self.timers.restart(now, expires);
        }
    }
}

/// Returns whether a chunk sent at `first_sent_at` and last retransmitted at `last_sent_at` was acknowledged for its first transmission, if the round
/// trip is one of several: the time since the first is about the longest of these, and that since the last is not the shortest.
fn answers_first(
    now: Instant,
    first_sent_at: Instant,
    last_sent_at: Instant,
    possible: Option<(Duration, Duration)>,
) -> bool {
    let is_about = |time: Duration, expected: Duration| time.abs_diff(expected) <= expected / 16;
    possible.is_some_and(|(shortest, longest)| {
        is_about(now - first_sent_at, longest) && !is_about(now - last_sent_at, shortest)
    })
}

fn undo_terms(credit: &Credit, flight: &Flight, limits: &PathLimits) -> UndoTerms {
    UndoTerms {
        window: limits.window(),
        in_flight_bytes: limits.in_flight(flight).bytes as u64,
        acked_bytes: credit.acked_bytes as u64,
        initial_window_bytes: limits.sizes.initial_window.into(),
    }
}
