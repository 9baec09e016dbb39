//! Groups important lines that are sent into a queue one by one.
//!
//! A line alone in a packet costs a third more than one of four in a packet, and a queue that counts packets is full of single lines when it has a
//! quarter of its bytes. On a slow link that decides whether a queue drains or grows. Without a queue a line is sent at once.

/// Minimum and maximum time that a line waits for others, in microseconds.
const PAUSE_US: (u64, u64) = (5_000, 50_000);

/// When the next important lines may be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gathering {
    until_us: u64,
    /// Messages sent up to the last update.
    sent: u64,
}

impl Gathering {
    /// Whether lines still wait for others.
    pub(super) fn lasts(&self, now_us: u64) -> bool {
        now_us < self.until_us
    }

    /// Updates the state: `sent` messages were sent so far over a path with this shortest round trip, into a queue or not. After each message into a
    /// queue, the next ones wait for half a round trip.
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
