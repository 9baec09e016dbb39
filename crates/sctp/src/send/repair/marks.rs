//! Effects of a congestion mark on repair: the window was cut, and there is nothing to retransmit (RFC 3168 §6.1.2).

use super::{Repair, WindowVerdict};
use crate::congestion::CongestionSign;
use crate::outstanding::Ledger;

impl Repair {
    /// The network marked the packet with this TSN: cuts the window, unless the packet was sent before the last cut. Earlier cuts become final, since
    /// the mark proves congestion.
    pub(in crate::send) fn on_mark(&mut self, tsn: u64, ledger: &Ledger) -> WindowVerdict {
        if let Some(detectors) = &mut self.detectors {
            detectors.spurious.believe_cut();
        }
        if self.recovery.lasts || tsn <= self.recovery.cut_tsn {
            return WindowVerdict::Keep;
        }
        self.recovery.cut_tsn = ledger.next_tsn() - 1;
        self.recovery.cut_for_mark = true;
        WindowVerdict::Cut(CongestionSign::EcnMark)
    }

    /// Returns whether the outstanding chunks were sent before the window was cut for a mark. A loss among them belongs to the same congestion event,
    /// for which the window is not cut twice.
    pub(super) fn was_cut_for_mark(&self, ledger: &Ledger) -> bool {
        self.recovery.cut_for_mark && ledger.first_tsn() <= self.recovery.cut_tsn
    }
}
