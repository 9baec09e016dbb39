//! Proportional rate reduction (RFC 6937 §3): during the transition to a smaller window the sender continues in proportion to the arrivals, instead
//! of falling silent until enough has arrived.
//!
//! Only the part above the new window is implemented: it ends as soon as less than the window is in flight. From then on the window alone decides,
//! since pacing prevents bursts and a thin stream need not wait.

use std::num::NonZeroU32;

use super::small;

/// One reduction of the window. In bytes of DATA chunks, as everything here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reduction {
    /// In flight when it began, lost packets included (RecoverFS).
    flight: NonZeroU32,
    /// Bytes that may be sent although more than the window is in flight; negative after repairs, which ignore it.
    credit: i32,
}

impl Reduction {
    /// Starts with `flight` bytes in flight. `None` if there are none, so that the window alone decides.
    pub(super) fn new(flight: usize) -> Option<Self> {
        Some(Self { flight: NonZeroU32::new(small(flight))?, credit: 0 })
    }

    /// `bytes` arrived (prr_delivered), and `in_flight` remain. `None` if they fit into the window, which ends the reduction.
    pub(super) fn delivered(mut self, bytes: usize, in_flight: usize, window: usize) -> Option<Self> {
        let share = u64::from(small(bytes)) * u64::from(small(window)) / u64::from(self.flight.get());
        self.credit = self.credit.saturating_add(i32::try_from(share).unwrap_or(i32::MAX));
        (in_flight >= window).then_some(self)
    }

    /// `bytes` were sent (prr_out), retransmissions included, and `in_flight` is the new total. `None` if they fit into the window.
    pub(super) fn sent(mut self, bytes: usize, in_flight: usize, window: usize) -> Option<Self> {
        self.credit = self.credit.saturating_sub(i32::try_from(bytes).unwrap_or(i32::MAX));
        (in_flight >= window).then_some(self)
    }

    /// Returns whether a packet may be sent although more than the new window is in flight.
    pub(super) fn allows(&self) -> bool {
        self.credit > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc6937_3_seven_packets_leave_for_ten_that_arrive_evenly_spread() {
        let (mut reduction, mut in_flight) = (Reduction::new(20_000).unwrap(), 20_000);
        let mut left = Vec::new();
        for arrived in 1..=19 {
            in_flight -= 1_000;
            reduction = reduction.delivered(1_000, in_flight, 14_000).unwrap();
            if reduction.allows() {
                in_flight += 1_000;
                reduction = reduction.sent(1_000, in_flight, 14_000).unwrap();
                left.push(arrived);
            }
            assert!(!reduction.allows(), "no packet that arrives releases two");
        }
        assert_eq!(left, [1, 2, 3, 5, 6, 8, 9, 11, 12, 13, 15, 16, 18, 19]);
    }

    #[test]
    fn it_ends_when_what_is_on_the_way_fits_into_the_window() {
        let reduction = Reduction::new(20_000).unwrap();
        assert!(reduction.delivered(1_000, 14_000, 14_000).is_some());
        assert_eq!(reduction.delivered(1_000, 13_999, 14_000), None);
        assert_eq!(reduction.sent(1_000, 13_999, 14_000), None, "more was lost meanwhile");
    }

    #[test]
    fn rfc6937_3_what_left_as_a_repair_counts() {
        let reduction = Reduction::new(10_000).unwrap().sent(2_000, 10_000, 7_000).unwrap();
        let reduction = reduction.delivered(2_000, 8_000, 7_000).unwrap();
        assert!(!reduction.allows());
        let reduction = reduction.delivered(1_000, 7_000, 7_000).unwrap();
        assert!(reduction.allows(), "2,100 bytes may have left");
    }

    #[test]
    fn nothing_overflows_and_nothing_leaves_before_something_arrives() {
        let mut reduction = Reduction::new(usize::MAX).unwrap();
        assert!(!reduction.allows());
        for _ in 0..2 {
            reduction = reduction.delivered(usize::MAX, usize::MAX, usize::MAX).unwrap();
        }
        assert!(reduction.allows());
        for _ in 0..2 {
            reduction = reduction.sent(usize::MAX, usize::MAX, usize::MAX).unwrap();
        }
        assert!(!reduction.allows());
        assert_eq!(Reduction::new(0), None);
    }
}
