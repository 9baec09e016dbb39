//! The loss detectors that only some rules use.

use festina_recovery::probe::Probe;
use festina_recovery::profile::{LossDetection, Rules, SpuriousResponse};

use super::overdue::Overdue;
use super::rack::LossByTime;
use super::tail::Tail;
use super::undo::SpuriousDetector;

/// The optional loss detectors with their state. On the heap, since most idle associations use none of them.
#[derive(Debug, Default)]
pub(super) struct Detectors {
    pub(super) by_time: LossByTime,
    pub(super) tail: Tail,
    pub(super) overdue: Overdue,
    pub(super) spurious: SpuriousDetector,
}

impl Detectors {
    pub(super) fn are_needed(rules: &Rules) -> bool {
        rules.loss_detection == LossDetection::Rack
            || rules.early_fast_retransmit.is_some()
            || matches!(rules.probe, Probe::TailLoss(_))
            || rules.spurious != SpuriousResponse::NONE
    }

    /// Stops the timers of detectors that the current rules do not use. A thin stream may have other rules than a thick one.
    pub(super) fn stop_disabled(&mut self, rules: &Rules) {
        if rules.loss_detection != LossDetection::Rack {
            self.by_time.stop();
        }
        if rules.early_fast_retransmit.is_none() {
            self.overdue.stop();
        }
        if !matches!(rules.probe, Probe::TailLoss(_)) {
            self.tail.stop();
        }
        if !rules.spurious.f_rto {
            self.spurious.believe_timeout();
        }
    }
}
