//! State for undoing a reduction of cwnd, and for reducing it in proportion to delivered data.

use festina_units::{Duration, Instant};

/// A reduction that may turn out to be unnecessary.
#[derive(Clone, Debug, Default)]
pub(super) struct Undo {
    /// `una` when it began; `None` if there is nothing to undo.
    marker: Option<u64>,
    /// Retransmissions that were not reported as duplicates; `None` before the first.
    unreported: Option<u32>,
    /// Time of the first retransmission.
    first_retransmission: Option<Instant>,
    /// cwnd in segments and ssthresh before the reduction.
    before: Option<(u32, Option<u64>)>,
}

impl Undo {
    /// A recovery begins with `retransmissions` in flight.
    pub(super) fn begin(&mut self, una: u64, retransmissions: u32) {
        self.marker = Some(una);
        self.unreported = (retransmissions > 0).then_some(retransmissions);
        self.before = None;
    }

    /// Saves cwnd and ssthresh for an undo.
    pub(super) fn remember(&mut self, cwnd_segments: u32, ssthresh: Option<u64>) {
        self.before = Some((cwnd_segments, ssthresh));
    }

    pub(super) fn retransmitted(&mut self, now: Instant) {
        self.first_retransmission.get_or_insert(now);
        self.unreported = Some(self.unreported.unwrap_or(0) + 1);
    }

    /// Returns the time since the first retransmission.
    pub(super) fn retransmitting_for(&self, now: Instant) -> Duration {
        self.first_retransmission.map_or(Duration::ZERO, |first| now.saturating_duration_since(first))
    }

    pub(super) fn forget_retransmission(&mut self) {
        self.first_retransmission = None;
    }

    /// A duplicate that ends at `end` was reported.
    pub(super) fn retransmission_was_needless(&mut self, end: u64) {
        if self.marker.is_some_and(|marker| end > marker) {
            self.unreported = self.unreported.map(|count| count.saturating_sub(1));
        }
    }

    pub(super) fn is_possible(&self) -> bool {
        self.marker.is_some()
    }

    /// Returns whether every retransmission was reported as a duplicate.
    pub(super) fn all_were_needless(&self) -> bool {
        self.is_possible() && self.unreported == Some(0)
    }

    /// Returns whether the echoed timestamp belongs to a segment sent before the first retransmission, if there was one
    /// at all (RFC 4015).
    pub(super) fn is_older_than_retransmission(&self, echo: Option<Instant>) -> bool {
        match (self.first_retransmission, echo) {
            (None, _) => true,
            (Some(retransmitted), Some(echo)) => echo < retransmitted,
            (Some(_), None) => false,
        }
    }

    pub(super) fn is_proven_spurious(&self, echo: Option<Instant>) -> bool {
        self.is_possible() && (self.unreported == Some(0) || self.is_older_than_retransmission(echo))
    }

    /// Ends the undo; returns the cwnd and ssthresh to restore.
    pub(super) fn end(&mut self) -> Option<(u32, Option<u64>)> {
        self.marker = None;
        self.before
    }
}

/// Proportional rate reduction (RFC 6937): the segments delivered and sent since it started.
#[derive(Clone, Debug, Default)]
pub(super) struct Reduction {
    cwnd_before: u32,
    delivered: u32,
    sent: u32,
}

impl Reduction {
    pub(super) fn new(cwnd_segments: u32) -> Self {
        Self { cwnd_before: cwnd_segments, delivered: 0, sent: 0 }
    }

    pub(super) fn sent(&mut self, segments: u32) {
        self.sent = self.sent.saturating_add(segments);
    }

    /// Returns how many segments may be sent after `delivered` more; `None` changes nothing. At least one is sent when
    /// the reduction begins.
    pub(super) fn allowance(
        &mut self,
        delivered: u32,
        in_flight: u32,
        ssthresh: u32,
        may_speed_up: bool,
    ) -> Option<u32> {
        if delivered == 0 || self.cwnd_before == 0 {
            return None;
        }
        self.delivered = self.delivered.saturating_add(delivered);
        let allowance = if in_flight > ssthresh {
            let share = u64::from(ssthresh) * u64::from(self.delivered);
            let share = u32::try_from(share.div_ceil(u64::from(self.cwnd_before))).unwrap_or(u32::MAX);
            share.saturating_sub(self.sent)
        } else {
            let owed = self.delivered.saturating_sub(self.sent).max(delivered) + u32::from(may_speed_up);
            owed.min(ssthresh - in_flight)
        };
        Some(allowance.max(u32::from(self.sent == 0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_6937_3_cwnd_falls_in_proportion_to_what_is_delivered_and_ends_at_ssthresh() {
        let (cwnd, ssthresh) = (20, 14);
        let mut reduction = Reduction::new(cwnd);
        // One of 20 is lost; each acknowledgement delivers one of the 19 others.
        let (mut in_flight, mut sent) = (19, 0);
        for _ in 0..19 {
            in_flight -= 1;
            let allowance = reduction.allowance(1, in_flight, ssthresh, false).expect("something was delivered");
            reduction.sent(allowance);
            (in_flight, sent) = (in_flight + allowance, sent + allowance);
        }
        assert_eq!(in_flight, ssthresh);
        assert_eq!(sent, 14);
    }

    #[test]
    fn linux_sends_at_least_one_segment_when_a_reduction_begins_and_nothing_when_nothing_is_delivered() {
        let mut reduction = Reduction::new(10);
        assert_eq!(reduction.allowance(0, 9, 7, false), None);
        assert_eq!(reduction.allowance(1, 9, 1, false), Some(1));
    }

    #[test]
    fn an_undo_needs_a_report_for_every_retransmission_or_an_echo_from_before_the_first() {
        let at = Instant::from_millis;
        let mut undo = Undo::default();
        undo.begin(1_000, 0);
        undo.remember(10, None);
        undo.retransmitted(at(50));
        undo.retransmitted(at(60));
        assert!(undo.is_proven_spurious(Some(at(49))) && !undo.is_proven_spurious(Some(at(50))));
        undo.retransmission_was_needless(1_100);
        undo.retransmission_was_needless(900);
        assert!(!undo.all_were_needless(), "one report is for something older");
        undo.retransmission_was_needless(1_200);
        assert!(undo.all_were_needless());
        assert_eq!(undo.end(), Some((10, None)));
        assert!(!undo.is_possible());
    }
}
