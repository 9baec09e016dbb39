//! Messages of a burst wait for each other.

use festina_units::{Duration, Instant};

/// A message that follows the one before it within this time belongs to the same burst.
const GAP_MAX: Duration = Duration::from_micros(20);

/// Messages at the start of a burst that are sent at once.
const LONE_MAX: u32 = 8;

/// Messages that wait at most.
const HELD_MAX: u32 = 64;

/// Bytes of messages that wait at most: about what one system call carries.
const HELD_BYTES_MAX: usize = 48_000;

/// Time after which the next message sends all held-back ones along.
const WAIT_MAX: Duration = Duration::from_micros(50);

/// Decides which messages of a busy caller are held back for the next ones, so that they share packets and system calls.
///
/// A single message, and the first eight in quick succession, are sent at once. When a message is held back, the driver is woken, which sends all
/// messages that are still queued then.
#[derive(Debug, Default)]
pub(super) struct Burst {
    /// When the latest message came.
    last_at: Instant,
    /// Messages of the burst so far.
    messages: u32,
    held: u32,
    held_bytes: usize,
    /// When the first of those held came.
    held_since: Instant,
}

impl Burst {
    /// Counts a message. Returns whether it may wait.
    #[inline]
    pub(super) fn holds(&mut self, now: Instant, bytes: usize) -> bool {
        let is_next = now.saturating_duration_since(self.last_at) <= GAP_MAX;
        self.messages = if is_next { self.messages.saturating_add(1) } else { 1 };
        self.last_at = now;
        if self.messages <= LONE_MAX {
            return false;
        }
        if self.held == 0 {
            self.held_since = now;
        }
        self.held += 1;
        self.held_bytes += bytes;
        self.held < HELD_MAX
            && self.held_bytes < HELD_BYTES_MAX
            && now.saturating_duration_since(self.held_since) <= WAIT_MAX
    }

    /// Has the next message wait, however long earlier ones have waited.
    #[cfg(test)]
    pub(in crate::association) fn make_busy(&mut self) {
        self.release();
        (self.last_at, self.messages) = (Instant::MAX, LONE_MAX);
    }

    /// All that were held may leave.
    #[inline]
    pub(super) fn release(&mut self) {
        (self.held, self.held_bytes) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_secs(1) + Duration::from_micros(micros)
    }

    #[test]
    fn messages_with_pauses_between_them_never_wait() {
        let mut burst = Burst::default();
        assert!((0..1_000).all(|number| !burst.holds(at(21 * number), 100)));
    }

    #[test]
    fn the_first_of_a_burst_leave_at_once_and_the_rest_in_groups() {
        let mut burst = Burst::default();
        let held: Vec<bool> = (0..200)
            .map(|_| {
                let holds = burst.holds(at(0), 100);
                if !holds {
                    burst.release();
                }
                holds
            })
            .collect();
        let left: Vec<usize> = (0..held.len()).filter(|&index| !held[index]).collect();
        assert_eq!(left, [0, 1, 2, 3, 4, 5, 6, 7, 71, 135, 199]);
    }

    #[test]
    fn large_messages_wait_for_fewer_others() {
        let mut burst = Burst::default();
        (0..LONE_MAX).for_each(|_| assert!(!burst.holds(at(0), 1_200)));
        let held = (0..100).take_while(|_| burst.holds(at(0), 1_200)).count();
        assert_eq!((held + 1) * 1_200, HELD_BYTES_MAX);
    }

    #[test]
    fn a_message_that_comes_late_in_a_slow_burst_takes_the_held_ones_along() {
        let mut burst = Burst::default();
        let held: Vec<bool> = (0..12).map(|number| burst.holds(at(20 * number), 100)).collect();
        assert_eq!(held[8..], [true, true, true, false]);
    }
}
