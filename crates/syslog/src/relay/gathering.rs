//! Important lines that come one by one into a queue wait a little for each other.
//!
//! A line alone in a packet costs a third more than one among four, and a queue that counts packets is full of lines alone when a quarter of
//! its bytes are there. On a slow link that is the difference between a queue that goes away and one that grows. Where nothing waits, a
//! line leaves at once.

/// The shortest and the longest time that a line waits for others, in microseconds.
const PAUSE_US: (u64, u64) = (5_000, 50_000);

/// When the next important lines may leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gathering {
    until_us: u64,
    /// Messages that had left at the last look.
    sent: u64,
}

impl Gathering {
    /// Whether lines still wait for others.
    pub(super) fn lasts(&self, now_us: u64) -> bool {
        now_us < self.until_us
    }

    /// `sent` messages have left by now, over a path with this shortest round trip, into a queue or not: behind each of those into a
    /// queue, the next wait for half a round trip.
    pub(super) fn look(&mut self, into_queue: bool, sent: u64, shortest_us: Option<u64>, now_us: u64) {
        let left = std::mem::replace(&mut self.sent, sent) != sent;
        if !into_queue {
            self.until_us = 0;
        } else if left {
            self.until_us = now_us + (shortest_us.unwrap_or_default() / 2).clamp(PAUSE_US.0, PAUSE_US.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wait_for_each_other_behind_one_that_left_into_a_queue_and_never_without_one() {
        let mut gathering = Gathering::default();
        gathering.look(false, 1, Some(80_000), 1_000_000);
        assert!(!gathering.lasts(1_000_000));
        gathering.look(true, 2, Some(80_000), 1_000_000);
        assert!(gathering.lasts(1_039_999) && !gathering.lasts(1_040_000));
        gathering.look(true, 2, Some(80_000), 1_020_000);
        assert!(!gathering.lasts(1_040_000), "nothing has left since");
        gathering.look(false, 2, Some(80_000), 1_030_000);
        assert!(!gathering.lasts(1_030_000));
        gathering.look(true, 3, Some(100), 2_000_000);
        assert!(gathering.lasts(2_004_999) && !gathering.lasts(2_005_000));
    }
}
