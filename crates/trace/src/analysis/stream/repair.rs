//! Conclusions from acknowledgements about a sender's repair.

use festina_units::Instant;

use super::super::estimate::ns_between;
use super::super::outstanding::Range;
use super::super::report::Retransmission;
use super::{Ack, COPIES_JUDGED_MAX, Pending, Repair};

impl Repair {
    /// Returns whether an acknowledgement immediately answers the packet that first carried this range, because that packet also carried a
    /// duplicate.
    pub(super) fn is_answer_to(&self, range: &Range, ack: &Ack<'_>, base: u64) -> bool {
        let is_reported = |copy: &Retransmission| {
            ack.duplicates.iter().any(|&(start, end)| copy.start + base < end && start < copy.end + base)
        };
        let in_same_packet =
            self.pending.iter().rev().map(|pending| &pending.copy).filter(|copy| copy.packet == range.first.packet);
        !ack.duplicates.is_empty() && in_same_packet.take(COPIES_JUDGED_MAX).any(is_reported)
    }

    /// Ends the episode of a probe, during which there is no other one, if an acknowledgement covers more than the
    /// probe, reports the probe as a duplicate, or has no news (RFC 8985 §7.4.2).
    pub(super) fn end_probe(&mut self, ack: &Ack<'_>, has_news: bool) {
        let is_over = |end: &u64| {
            let is_duplicate = ack.duplicates.iter().any(|(_, until)| until == end);
            ack.through > *end || (ack.through == *end && (is_duplicate || !has_news))
        };
        self.probe_end = self.probe_end.filter(|end| !is_over(end));
    }

    /// The receiver reported a duplicate: one of the copies was unnecessary, and arrived at least half a round trip ago.
    pub(super) fn received_twice(&mut self, start: u64, end: u64, at: Instant, rtt_min_ns: Option<u64>) {
        let age_ns = rtt_min_ns.unwrap_or(0) / 10 * 9;
        let overlaps = |p: &Pending| p.copy.start < end && p.copy.end > start && !p.is_reported;
        let fits = |p: &&mut Pending| overlaps(p) && ns_between(p.copy.at, at) >= age_ns;
        let fitting = self.pending.iter_mut().rev().find(fits);
        let found = match fitting {
            Some(pending) => Some(pending),
            None => self.pending.iter_mut().find(|pending| overlaps(pending)),
        };
        if let Some(pending) = found {
            (pending.is_reported, pending.copy.is_spurious) = (true, true);
        }
    }
}
