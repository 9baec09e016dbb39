//! What follows when retransmissions turn out to have been needless: F-RTO (RFC 4138) and undoing the cut of the window (RFC 4015).

use festina_recovery::f_rto::{FRto, FRtoAck, FRtoStep, Timeout};
use festina_recovery::undo::{CutHistory, UndoTerms, Window};

use super::Sender;
use crate::outstanding::{Chunk, Digest, Progress};

/// Packets of new data that leave to find out whether a timeout was spurious (RFC 4138 §3).
const NEW_PACKETS: u32 = 2;

/// What is remembered of the last timeout and the last cut.
#[derive(Debug, Default)]
pub(super) struct Suspicion {
    f_rto: FRto,
    /// The highest TSN that was outstanding at the timeout.
    highest_sent: u64,
    /// Of what the acknowledgement at hand tells for the first time: something sent before the timeout, and once.
    acked_sent_once: bool,
    /// Of what the acknowledgement at hand tells for the first time: something sent after the timeout.
    acked_new: bool,
    /// New data leaves ahead of what is taken for lost.
    pub(super) new_data_first: bool,
    pub(super) cuts: CutHistory,
}

impl Suspicion {
    /// A chunk was acknowledged for the first time.
    pub(super) fn acked(&mut self, chunk: &Chunk, progress: Progress) {
        self.acked_new |= progress.tsn > self.highest_sent;
        self.acked_sent_once |= progress.tsn <= self.highest_sent && chunk.transmissions == 1;
    }

    /// Nobody will find out whether the timeout was spurious.
    pub(super) fn believe_timeout(&mut self) {
        self.f_rto = FRto::new();
        self.new_data_first = false;
    }

    /// What was taken for lost waits until it is known whether the timeout was spurious.
    pub(super) fn holds_back(&self) -> bool {
        self.f_rto.is_undecided()
    }
}

impl Sender {
    /// The window is about to be cut.
    pub(super) fn note_cut(&mut self) {
        let (before, in_flight) = (self.window_now(), self.ledger.in_flight().bytes as u64);
        let same_recovery = self.repair.in_fast_recovery;
        if self.recovery.rules().spurious.undo
            && let Some(suspicion) = self.recovery.suspicion()
        {
            suspicion.cuts.cut(before, in_flight, same_recovery);
        }
    }

    /// A chunk that was taken for lost left again.
    pub(super) fn note_repair(&mut self, tsn: u64) {
        if let Some(suspicion) = self.recovery.suspicion() {
            suspicion.cuts.repaired(tsn);
        }
    }

    /// The packet that T3-rtx asked for left; `highest_tsn` is the highest in it.
    pub(super) fn timeout_packet_left(&mut self, highest_tsn: u64) {
        let timeout = Timeout {
            highest_sent: self.ledger.next_tsn() - 1,
            highest_retransmitted: highest_tsn,
            others_outstanding: self.ledger.lost().chunks > 0,
            in_timeout_recovery: self.recovery.series.timeouts() > 1,
            same_path: true,
        };
        if self.recovery.rules().spurious.f_rto
            && let Some(suspicion) = self.recovery.suspicion()
        {
            suspicion.highest_sent = timeout.highest_sent;
            suspicion.f_rto.timed_out(&timeout);
        }
    }

    /// An acknowledgement was applied (RFC 4138 §3).
    pub(super) fn suspect_timeout(&mut self, digest: &Digest) {
        let in_flight = self.ledger.in_flight().payload_bytes;
        let new_data_sendable = self.next_piece_bytes().is_some_and(|bytes| self.window.allows(bytes, in_flight));
        let cumulative = self.ledger.first_tsn() - 1;
        let Some(suspicion) = self.recovery.suspicion() else { return };
        let step = suspicion.f_rto.acked(&FRtoAck {
            cumulative,
            advanced: digest.cumulative_advanced,
            acked_sent_once: suspicion.acked_sent_once,
            acked_new: suspicion.acked_new,
            new_data_sendable,
        });
        (suspicion.acked_sent_once, suspicion.acked_new) = (false, false);
        suspicion.new_data_first = match step {
            FRtoStep::Wait => suspicion.new_data_first && suspicion.holds_back(),
            step => step == FRtoStep::SendNewData,
        };
        match step {
            FRtoStep::SendNewData => self.burst.packets_left = NEW_PACKETS.min(self.burst.packets_max),
            FRtoStep::Spurious => self.timeout_was_spurious(digest),
            FRtoStep::Wait | FRtoStep::Genuine | FRtoStep::Undecided => {}
        }
    }

    fn timeout_was_spurious(&mut self, digest: &Digest) {
        let found = self.ledger.find_all() as u64;
        if let Some(published) = self.recovery.published() {
            published.chunks_returned();
        }
        self.counters.chunks_lost = self.counters.chunks_lost.saturating_sub(found);
        self.recovery.series.measured();
        let terms = self.undo_terms(digest.acked_bytes);
        self.undo_cut(|cuts| cuts.timeout_was_spurious(&terms));
    }

    /// An acknowledgement was applied: were all repairs since the last cut needless?
    #[inline]
    pub(super) fn judge_repairs(&mut self, digest: &Digest) {
        if !self.recovery.doubts_a_cut() {
            return;
        }
        let terms = self.undo_terms(digest.acked_bytes);
        let (first_tsn, losses_wait) = (self.ledger.first_tsn(), self.ledger.lost().chunks > 0);
        self.undo_cut(|cuts| cuts.judge(first_tsn, losses_wait, &terms));
    }

    fn undo_cut(&mut self, ask: impl FnOnce(&mut CutHistory) -> Option<Window>) {
        if !self.recovery.rules().spurious.undo {
            return;
        }
        let Some(window) = self.recovery.suspicion().and_then(|suspicion| ask(&mut suspicion.cuts)) else { return };
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        self.congestion.restore(bytes(window.cwnd_bytes), bytes(window.ssthresh_bytes));
        self.repair.in_fast_recovery = false;
    }

    fn undo_terms(&self, acked_bytes: usize) -> UndoTerms {
        UndoTerms {
            window: self.window_now(),
            in_flight_bytes: self.ledger.in_flight().bytes as u64,
            acked_bytes: acked_bytes as u64,
            initial_window_bytes: self.sizes.initial_window as u64,
        }
    }

    fn window_now(&self) -> Window {
        Window { cwnd_bytes: self.congestion.cwnd() as u64, ssthresh_bytes: self.congestion.ssthresh() as u64 }
    }
}
