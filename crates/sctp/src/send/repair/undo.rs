//! Detects spurious timeouts (F-RTO, RFC 4138) and spurious cuts of cwnd, to undo the latter (RFC 4015).

use festina_recovery::f_rto::{FRto, FRtoAck, FRtoStep, Timeout};
use festina_recovery::undo::{CutHistory, RepairAck, UndoTerms, Window};

use crate::outstanding::Credit;
use crate::send::limits::Release;

/// Packets of new data that leave to find out whether a timeout was spurious (RFC 4138 §3).
const NEW_PACKETS: u32 = 2;

/// State for judging the last timeout and the last cut.
#[derive(Debug, Default)]
pub(super) struct SpuriousDetector {
    f_rto: FRto,
    /// The highest TSN that was outstanding at the timeout.
    highest_sent: u64,
    /// New data is sent before lost chunks.
    new_data_first: bool,
    cuts: CutHistory,
}

impl SpuriousDetector {
    /// Stops checking whether the timeout was spurious.
    pub(super) fn believe_timeout(&mut self) {
        self.f_rto = FRto::new();
        self.new_data_first = false;
    }

    /// Returns whether lost chunks wait until F-RTO has decided whether the timeout was spurious.
    pub(super) fn holds_back(&self) -> bool {
        self.f_rto.is_undecided()
    }

    /// Returns whether new data leaves meanwhile.
    pub(super) fn wants_new_data(&self) -> bool {
        self.new_data_first
    }

    /// The packet that T3-rtx asked for left.
    pub(super) fn timeout_packet_left(&mut self, timeout: &Timeout) {
        self.highest_sent = timeout.highest_sent;
        self.f_rto.timed_out(timeout);
    }

    /// An acknowledgement was applied (RFC 4138 §3). Returns whether the timeout was spurious, and the data that may be sent.
    pub(super) fn acked(
        &mut self,
        (cumulative, advanced): (u64, bool),
        credit: &Credit,
        new_data_sendable: bool,
    ) -> (bool, Release) {
        let step = self.f_rto.acked(&FRtoAck {
            cumulative,
            advanced,
            acked_sent_once: credit.lowest_acked_once.is_some_and(|tsn| tsn <= self.highest_sent),
            acked_new: credit.highest_acked.is_some_and(|highest| highest.tsn > self.highest_sent),
            new_data_sendable,
        });
        self.new_data_first = match step {
            FRtoStep::Wait => self.new_data_first && self.holds_back(),
            step => step == FRtoStep::SendNewData,
        };
        let release = match step {
            FRtoStep::SendNewData => Release::Packets(NEW_PACKETS),
            _ if self.new_data_first => Release::Same,
            _ => Release::Usual,
        };
        (step == FRtoStep::Spurious, release)
    }

    /// The window is about to be cut.
    pub(super) fn cut(&mut self, before: Window, in_flight_bytes: u64, same_recovery: bool) {
        self.cuts.cut(before, in_flight_bytes, same_recovery);
    }

    /// The path is congested, regardless of the outcome of the repairs.
    pub(super) fn believe_cut(&mut self) {
        self.cuts.stands();
    }

    /// A chunk marked as lost was retransmitted.
    pub(super) fn repaired(&mut self, tsn: u64) {
        self.cuts.repaired(tsn);
    }

    /// A chunk that left more than once was acknowledged for the first time.
    pub(super) fn repair_acked(&mut self, ack: &RepairAck) {
        self.cuts.acked(ack);
    }

    /// A duplicate is reported.
    pub(super) fn duplicate_reported(&mut self, tsn: u64) {
        self.cuts.duplicate_reported(tsn);
    }

    /// Returns whether a cut of the window may yet be undone.
    pub(super) fn may_undo_cut(&self) -> bool {
        self.cuts.is_open()
    }

    /// An acknowledgement was applied: the window to restore, if all repairs since the last cut were needless.
    pub(super) fn judge_repairs(&mut self, first_tsn: u64, losses_wait: bool, terms: &UndoTerms) -> Option<Window> {
        self.cuts.judge(first_tsn, losses_wait, terms)
    }

    /// The last timeout was spurious: the window to restore.
    pub(super) fn timeout_was_spurious(&mut self, terms: &UndoTerms) -> Option<Window> {
        self.cuts.timeout_was_spurious(terms)
    }
}
