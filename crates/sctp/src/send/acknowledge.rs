//! What an acknowledgement changes beyond the ledger (RFC 9260 §6.2.1, §6.3.2, §7.2).

use festina_units::Instant;

use super::Sender;
use super::queue::SendBuffer;
use super::round_trip::AckNews;
use crate::congestion::Acked;
use crate::error::ProtocolViolation;
use crate::event::{Event, Events, RetransmissionCause};
use crate::outstanding::{AckReport, Chunk, ChunkState, Progress, SackTerms};
use crate::stats::SentStats;
use crate::wire::{Sack, Tsn};

/// What the association needs to know of an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SackOutcome {
    /// The error counters start again: something was acknowledged for the first time (RFC 9260 §8.1), or the peer answers
    /// probes of its closed window (RFC 9260 §6.1 rule A).
    pub(crate) peer_alive: bool,
}

impl Sender {
    /// Applies a SACK. One that is older than what is known changes nothing.
    ///
    /// Tells [`Event::MessageDelivered`], [`Event::Writable`] and [`Event::Drained`].
    ///
    /// # Errors
    /// Peer: it acknowledged a TSN that was never sent.
    pub(crate) fn handle_sack(
        &mut self,
        now: Instant,
        sack: &Sack<'_>,
        events: &mut Events,
    ) -> Result<SackOutcome, ProtocolViolation> {
        let terms = SackTerms {
            // A stack that retransmits fast again and again knows no fast recovery.
            in_fast_recovery: self.repair.in_fast_recovery && !self.recovery.rules().fast_retransmit.repeats,
            fast_retransmit: self.recovery.counted_misses(),
            overtaken_after: self.recovery.overtaken_after(now),
            early_retransmit: self.recovery.rules().early_retransmit && !self.allows_new_data(),
            sends_copies: self.recovery.sends_copies(),
        };
        let Self { ledger, buffer, counters, recovery, .. } = self;
        recovery.published();
        let acked = |chunk: &Chunk, progress: Progress| {
            if progress.is_new {
                recovery.chunk_acked(now, chunk, progress);
            }
            if progress.is_settled {
                settle(now, chunk, buffer, counters, events);
            }
        };
        let Some(mut report) = ledger.apply_sack(sack, terms, acked)? else { return Ok(SackOutcome::default()) };
        self.recovery.observe_sack(sack, self.ledger.first_tsn() - 1);
        report.duplicate_of_resent = self.count_spurious(sack);
        let lost_first_copies = self.recovery.acknowledged(now, &report, sack.duplicates().count());
        self.cut_for_unseen_loss(&report, lost_first_copies);
        self.window.told(sack.a_rwnd);
        self.window.handle_sack(self.ledger.first_tsn());
        // A duplicate may tell which copy it was that an earlier SACK acknowledged, and so how long the round trip took.
        let first_tsn = self.ledger.first_tsn();
        let timed_tsn = self.round_trip.timed_tsn();
        let mut timed_is_duplicate = false;
        for tsn in sack.duplicates().map(|duplicate| duplicate.unwrap(first_tsn)) {
            timed_is_duplicate |= Some(tsn) == timed_tsn;
            if let Some(rtt) = self.round_trip.duplicate_reported(tsn) {
                self.take_round_trip(now, rtt, events);
            }
        }
        Ok(self.acknowledged(now, report, timed_is_duplicate, events))
    }

    /// Applies the cumulative TSN ack of a SHUTDOWN (RFC 9260 §9.2).
    ///
    /// # Errors
    /// As [`handle_sack`](Self::handle_sack).
    pub(crate) fn handle_cumulative_ack(
        &mut self,
        now: Instant,
        cumulative_tsn: Tsn,
        events: &mut Events,
    ) -> Result<SackOutcome, ProtocolViolation> {
        let Self { ledger, buffer, counters, .. } = self;
        let acked = |chunk: &Chunk, _| settle(now, chunk, buffer, counters, events);
        let Some(report) = ledger.acknowledge(cumulative_tsn, acked)? else { return Ok(SackOutcome::default()) };
        self.recovery.detector.sack(self.ledger.first_tsn() - 1, &[]);
        self.window.handle_sack(self.ledger.first_tsn());
        Ok(self.acknowledged(now, report, false, events))
    }

    fn acknowledged(
        &mut self,
        now: Instant,
        report: AckReport,
        timed_is_duplicate: bool,
        events: &mut Events,
    ) -> SackOutcome {
        let Self { ledger, round_trip, .. } = self;
        let is_acked = |tsn| ledger.get(tsn).is_none_or(|chunk| chunk.state == ChunkState::GapAcked);
        let news = AckNews {
            now,
            highest_acked: report.highest_acked.map(|highest| highest.tsn),
            rtt_min: self.recovery.rtt.rtt_min(),
            timed_is_duplicate,
        };
        if let Some(rtt) = round_trip.take_sample(&news, is_acked) {
            self.take_round_trip(now, rtt, events);
        }
        let peer_alive = report.acked_bytes > 0 || self.window.probe().is_some();
        self.update_congestion(now, &report);
        self.suspect_timeout(&report);
        self.resend_window_probe();
        if report.acked_bytes > 0 {
            self.timer.silent_since = None;
        }
        if !self.recovery.held_back().1 {
            self.burst.restart();
        }
        self.recovery.refresh(self.window.probe().is_some(), self.ledger.len());
        self.restart_timer_after_sack(now, report.cumulative_advanced, report.acked_bytes > 0);
        self.arm_published(now);
        if report.cumulative_advanced && self.is_drained() {
            events.push(Event::Drained);
        }
        if self.buffer.take_writable() {
            events.push(Event::Writable);
        }
        self.drop_stale(now, events);
        self.update_deadlines(now);
        SackOutcome { peer_alive }
    }

    /// First the growth that the SACK earned, then the loss that it revealed (the note of RFC 9260 §7.2.4).
    fn update_congestion(&mut self, now: Instant, report: &AckReport) {
        self.congestion.on_acked(Acked {
            bytes: report.acked_bytes,
            in_flight_before: report.in_flight_bytes_before,
            in_fast_recovery: self.repair.in_fast_recovery,
            all_acked: self.ledger.is_empty(),
        });
        let first_tsn = self.ledger.first_tsn();
        let recovery_ended = self.repair.in_fast_recovery && self.repair.cut_tsn < first_tsn;
        self.repair.in_fast_recovery &= !recovery_ended;
        let judged_lost = self.judge_after_ack(now, report, recovery_ended);
        self.enter_recovery(report.lost_chunks + judged_lost);
    }

    /// So many chunks were found lost: fast recovery begins, unless it lasts already (RFC 9260 §7.2.4).
    pub(super) fn enter_recovery(&mut self, lost_chunks: usize) {
        self.counters.chunks_lost += lost_chunks as u64;
        if lost_chunks > 0 && !self.repair.in_fast_recovery {
            self.cut_window();
            self.repair.in_fast_recovery = true;
            self.repair.packet_due = Some(RetransmissionCause::Fast);
            self.abandon_tail_probe();
        }
    }

    /// A loss became known.
    pub(super) fn cut_window(&mut self) {
        self.note_cut();
        self.congestion.on_loss();
        self.repair.cut_tsn = self.ledger.next_tsn() - 1;
    }

    /// A copy or a probe that left while nothing was taken for lost was needed: congestion control hears of that loss as of any other,
    /// once per window (as for the probes of RFC 8985 §7.4).
    fn cut_for_unseen_loss(&mut self, report: &AckReport, lost_first_copies: usize) {
        let is_news = report.highest_copy.is_some_and(|tsn| tsn > self.repair.cut_tsn);
        if lost_first_copies > 0 && is_news && !self.repair.in_fast_recovery && self.recovery.repairs_unseen_losses() {
            self.cut_window();
        }
    }

    /// A probe of the closed window was dropped by the peer; as the window has opened, it leaves again without waiting for
    /// its backed-off timer.
    fn resend_window_probe(&mut self) {
        let Some(tsn) = self.window.probe() else { return };
        let fits = |payload_bytes| payload_bytes <= self.window.available_bytes(0);
        if self.ledger.get(tsn).is_some_and(|chunk| fits(chunk.payload.len())) {
            self.ledger.lose(tsn, RetransmissionCause::Probe);
            self.recovery.series.measured();
            self.window.opened();
        }
    }

    /// Counts the retransmissions that the peer reports as duplicates. A report for a chunk that was sent once is the network's
    /// doing; for one that is gone from the ledger nobody can tell, so the sum of retransmissions bounds the count. Whether there
    /// was any.
    fn count_spurious(&mut self, sack: &Sack<'_>) -> bool {
        let before = self.counters.spurious;
        for duplicate in sack.duplicates() {
            let tsn = duplicate.unwrap(self.ledger.first_tsn());
            let resent = match self.ledger.get(tsn) {
                Some(chunk) => chunk.transmissions > 1,
                None => tsn < self.ledger.first_tsn(),
            };
            if resent && self.counters.spurious < self.counters.retransmitted.total() {
                self.counters.spurious += 1;
                self.repair_was_needless();
            }
        }
        self.counters.spurious > before
    }
}

/// A chunk is acknowledged for good. Fragments are acknowledged in order, so the last one completes its message.
fn settle(now: Instant, chunk: &Chunk, buffer: &mut SendBuffer, counters: &mut SentStats, events: &mut Events) {
    buffer.release(chunk.payload.len(), chunk.piece.is_end());
    if chunk.piece.is_end() {
        counters.messages_acked += 1;
        events.push_message_event(|| Event::MessageDelivered { id: chunk.message, at: now });
    }
}
