//! What an acknowledgement changes beyond the ledger (RFC 9260 §6.2.1, §6.3.2, §7.2).

use festina_units::{Duration, Instant};

use super::Sender;
use super::queue::SendBuffer;
use super::recovery::Recovery;
use super::round_trip::{AckNews, RoundTrip};
use crate::congestion::Acked;
use crate::error::ProtocolViolation;
use crate::event::{Event, Events, RetransmissionCause};
use crate::outstanding::{Acknowledgement, Chunk, ChunkState, Digest, Observer, Progress, SackTerms};
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
    /// Reports [`Event::MessageDelivered`], [`Event::Writable`] and [`Event::Drained`].
    ///
    /// # Errors
    /// Peer: it acknowledged a TSN that was never sent.
    pub(crate) fn handle_sack(
        &mut self,
        now: Instant,
        sack: &Sack<'_>,
        events: &mut Events,
    ) -> Result<SackOutcome, ProtocolViolation> {
        self.apply(now, Acknowledgement { cumulative_tsn: sack.cumulative_tsn, sack: Some(sack) }, events)
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
        self.apply(now, Acknowledgement { cumulative_tsn, sack: None }, events)
    }

    fn apply(
        &mut self,
        now: Instant,
        acknowledgement: Acknowledgement<'_>,
        events: &mut Events,
    ) -> Result<SackOutcome, ProtocolViolation> {
        let terms = SackTerms {
            // A stack that retransmits fast again and again has no fast recovery.
            in_fast_recovery: self.repair.in_fast_recovery && !self.recovery.rules().fast_retransmit.repeats,
            fast_retransmit: self.recovery.counted_misses(),
            overtaken_after: self.recovery.overtaken_after(now),
            early_retransmit: self.recovery.rules().early_retransmit && !self.allows_new_data(),
            sends_copies: self.recovery.sends_copies(),
        };
        let next_tsn = self.ledger.next_tsn();
        let Self { ledger, buffer, counters, recovery, round_trip, .. } = self;
        recovery.published();
        let mut reader = Reader {
            now,
            next_tsn,
            recovery,
            round_trip,
            buffer,
            counters,
            events,
            rtt: None,
            timed_is_duplicate: false,
        };
        let Some(digest) = ledger.apply(acknowledgement, terms, &mut reader)? else {
            return Ok(SackOutcome::default());
        };
        let Reader { rtt, timed_is_duplicate, .. } = reader;
        let cumulative = self.ledger.first_tsn() - 1;
        match acknowledgement.sack {
            Some(sack) => self.recovery.observe_sack(sack, cumulative),
            None => self.recovery.detector.sack(cumulative, &[]),
        }
        self.count_spurious(digest.duplicates.of_resent);
        self.judge_repairs(&digest);
        let lost_first_copies = self.recovery.acknowledged(now, &digest);
        self.cut_for_unseen_loss(&digest, lost_first_copies);
        if let Some(sack) = acknowledgement.sack {
            self.window.told(sack.a_rwnd);
        }
        self.window.handle_sack(self.ledger.first_tsn());
        if let Some(rtt) = rtt {
            self.take_round_trip(now, rtt, events);
        }
        Ok(self.acknowledged(now, digest, timed_is_duplicate, events))
    }

    fn acknowledged(
        &mut self,
        now: Instant,
        digest: Digest,
        timed_is_duplicate: bool,
        events: &mut Events,
    ) -> SackOutcome {
        let Self { ledger, round_trip, .. } = self;
        let is_acked = |tsn| ledger.get(tsn).is_none_or(|chunk| chunk.state == ChunkState::GapAcked);
        let news = AckNews {
            now,
            highest_acked: digest.highest_acked.map(|highest| highest.tsn),
            rtt_min: self.recovery.rtt.rtt_min(),
            timed_is_duplicate,
        };
        if let Some(rtt) = round_trip.take_sample(&news, is_acked) {
            self.take_round_trip(now, rtt, events);
        }
        let peer_alive = digest.acked_bytes > 0 || self.window.probe().is_some();
        self.update_congestion(now, &digest);
        self.suspect_timeout(&digest);
        self.resend_window_probe();
        if digest.acked_bytes > 0 {
            self.timer.silent_since = None;
        }
        if !self.recovery.held_back().1 {
            self.burst.restart();
        }
        self.recovery.refresh(self.window.probe().is_some(), self.ledger.len());
        self.restart_timer_after_sack(now, digest.cumulative_advanced, digest.acked_bytes > 0);
        self.arm_published(now);
        if digest.cumulative_advanced && self.is_drained() {
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
    fn update_congestion(&mut self, now: Instant, digest: &Digest) {
        self.congestion.on_acked(Acked {
            bytes: digest.acked_bytes,
            in_flight_before: digest.in_flight_bytes_before,
            in_fast_recovery: self.repair.in_fast_recovery,
            all_acked: self.ledger.is_empty(),
        });
        let first_tsn = self.ledger.first_tsn();
        let recovery_ended = self.repair.in_fast_recovery && self.repair.cut_tsn < first_tsn;
        self.repair.in_fast_recovery &= !recovery_ended;
        let judged_lost = self.judge_after_ack(now, digest, recovery_ended);
        self.enter_recovery(digest.lost_chunks + judged_lost);
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
    fn cut_for_unseen_loss(&mut self, digest: &Digest, lost_first_copies: usize) {
        let is_news = digest.highest_copy.is_some_and(|tsn| tsn > self.repair.cut_tsn);
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

    /// Counts retransmissions that the peer reports as duplicates. The network may duplicate, too, so all retransmissions bound the count.
    fn count_spurious(&mut self, duplicates: usize) {
        let spurious = self.counters.spurious.saturating_add(duplicates as u64);
        self.counters.spurious = spurious.min(self.counters.retransmitted.total());
    }
}

/// Passes on what an acknowledgement says of single chunks.
struct Reader<'s> {
    now: Instant,
    next_tsn: u64,
    recovery: &'s mut Recovery,
    round_trip: &'s mut RoundTrip,
    buffer: &'s mut SendBuffer,
    counters: &'s mut SentStats,
    events: &'s mut Events,
    /// A duplicate reports which transmission an earlier SACK acknowledged, and so how long the round trip took.
    rtt: Option<Duration>,
    /// The chunk that is timed is among the duplicates.
    timed_is_duplicate: bool,
}

impl Observer for Reader<'_> {
    #[inline]
    fn acked(&mut self, chunk: &Chunk, progress: Progress) {
        if progress.is_new {
            self.recovery.chunk_acked(self.now, chunk, progress, self.next_tsn);
        }
        if progress.is_settled {
            settle(self.now, chunk, self.buffer, self.counters, self.events);
        }
    }

    fn duplicate(&mut self, tsn: u64) {
        self.timed_is_duplicate |= Some(tsn) == self.round_trip.timed_tsn();
        self.rtt = self.round_trip.duplicate_reported(tsn).or(self.rtt);
        self.recovery.duplicate_reported(tsn);
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
