//! Detects whether important lines wait in a queue of the network, and how rarely fresh packets are then sent.

use festina::PathStats;
use festina_units::duration;

/// A queue of this many microseconds is harmless for any round trip.
const HARMLESS_US: u64 = 10_000;

/// How long the shortest round trip stays valid without a similar one, in microseconds.
const MEMORY_US: u64 = 60_000_000;

/// Duration of a [trial](Trial) in microseconds.
const TRIAL_US: u64 = 5_000_000;

/// Interval between fresh packets while important lines wait, in microseconds: even one packet per round trip would fill a slow link.
const REST_US: u64 = 1_000_000;

/// The interval doubles up to this value, in microseconds.
const REST_US_MAX: u64 = 8_000_000;

/// The queue of a path, according to its round trips.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    shortest_us: Option<u64>,
    latest_us: u64,
    /// When a round trip was last about as short as the shortest.
    seen_us: u64,
    trial: Option<Trial>,
}

/// A time without fresh packets, after [`MEMORY_US`] of longer round trips. Either there is a standing queue, or the path has become longer. A sender
/// that mistakes a queue for a longer path lets it grow again and again, so the shortest round trip of this time is the new reference.
#[derive(Clone, Copy, Debug)]
struct Trial {
    began_us: u64,
    shortest_us: u64,
}

impl Queue {
    /// Takes the latest round trip of a path.
    pub(super) fn look(&mut self, path: &PathStats, now_us: u64) {
        let Some(latest) = path.rtt_latest else { return };
        let latest_us = duration::saturating_nanos(latest) / 1_000;
        let shortest_us = self.shortest_us.map_or(latest_us, |shortest| shortest.min(latest_us));
        (self.shortest_us, self.latest_us) = (Some(shortest_us), latest_us);
        if latest_us - shortest_us <= HARMLESS_US {
            (self.seen_us, self.trial) = (now_us, None);
        } else if let Some(trial) = &mut self.trial {
            trial.shortest_us = trial.shortest_us.min(latest_us);
            if now_us.saturating_sub(trial.began_us) >= TRIAL_US {
                (self.shortest_us, self.seen_us, self.trial) = (Some(trial.shortest_us), now_us, None);
            }
        } else if now_us.saturating_sub(self.seen_us) >= MEMORY_US {
            self.trial = Some(Trial { began_us: now_us, shortest_us: latest_us });
        }
    }

    /// Returns the shortest round trip in microseconds, if any was measured.
    pub(super) fn shortest_us(&self) -> Option<u64> {
        self.shortest_us
    }

    /// Returns whether the latest round trip exceeds the shortest by more than half.
    pub(super) fn is_long(&self) -> bool {
        self.shortest_us.is_some_and(|shortest| self.latest_us - shortest > HARMLESS_US.max(shortest / 2))
    }

    /// Returns whether fresh lines pause, to measure the round trip without them.
    pub(super) fn is_on_trial(&self) -> bool {
        self.trial.is_some()
    }
}

/// The rest of fresh lines between two packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    sent_us: u64,
    rest_us: u64,
}

impl Rest {
    /// Returns whether no fresh packet may be sent now; `waits` if important lines wait.
    pub(super) fn lasts(&self, waits: bool, now_us: u64) -> bool {
        waits && now_us.saturating_sub(self.sent_us) < self.rest_us.max(REST_US)
    }

    /// Records that a fresh packet was sent.
    pub(super) fn sent(&mut self, waits: bool, now_us: u64) {
        self.sent_us = now_us;
        self.rest_us = if waits { REST_US_MAX.min(2 * self.rest_us.max(REST_US)) } else { REST_US };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use festina::Duration;

    use super::*;

    const SECOND_US: u64 = 1_000_000;

    /// Shows the queue this round trip. Returns whether it is long.
    fn is_long(queue: &mut Queue, rtt_us: u64, now_us: u64) -> bool {
        let mut path = PathStats::default();
        path.rtt_latest = Some(Duration::from_micros(rtt_us));
        queue.look(&path, now_us);
        queue.is_long()
    }

    #[test]
    fn a_round_trip_half_as_long_again_is_a_queue_and_ten_milliseconds_are_none() {
        let mut queue = Queue::default();
        queue.look(&PathStats::default(), 0);
        assert!(!queue.is_long() && queue.shortest_us().is_none());
        assert!(!is_long(&mut queue, 80_000, 0) && !is_long(&mut queue, 120_000, 1));
        assert!(is_long(&mut queue, 120_001, 2) && !is_long(&mut queue, 100_000, 3));
        assert_eq!(queue.shortest_us(), Some(80_000));
        let mut short = Queue::default();
        assert!(!is_long(&mut short, 200, 0) && !is_long(&mut short, 10_200, 1) && is_long(&mut short, 10_201, 2));
    }

    #[test]
    fn a_path_that_has_become_longer_is_believed_when_a_pause_of_fresh_lines_makes_it_no_shorter() {
        let mut queue = Queue::default();
        is_long(&mut queue, 10_000, 0);
        assert!((1..60).all(|second| is_long(&mut queue, 50_000, second * SECOND_US) && !queue.is_on_trial()));
        assert!((60..65).all(|second| is_long(&mut queue, 50_000 - second, second * SECOND_US) && queue.is_on_trial()));
        assert!(!is_long(&mut queue, 50_000, 65 * SECOND_US) && !queue.is_on_trial());
        assert_eq!(queue.shortest_us(), Some(49_936));
    }

    #[test]
    fn a_trial_ends_as_soon_as_a_round_trip_is_as_short_as_before() {
        let mut queue = Queue::default();
        is_long(&mut queue, 80_000, 0);
        is_long(&mut queue, 300_000, 60 * SECOND_US);
        assert!(queue.is_on_trial());
        is_long(&mut queue, 89_000, 61 * SECOND_US);
        assert!(!queue.is_on_trial() && queue.shortest_us() == Some(80_000));
        is_long(&mut queue, 300_000, 120 * SECOND_US);
        assert!(!queue.is_on_trial(), "the next one is a minute away");
    }

    #[test]
    fn while_important_lines_wait_others_leave_a_second_apart_and_then_ever_further() {
        let mut rest = Rest::default();
        rest.sent(false, 5_000_000);
        assert!(rest.lasts(true, 5_900_000) && !rest.lasts(true, 6_000_000));
        assert!(!rest.lasts(false, 5_000_001));
        rest.sent(true, 6_000_000);
        assert!(rest.lasts(true, 7_900_000) && !rest.lasts(true, 8_000_000));
        (0..9).for_each(|_| rest.sent(true, 8_000_000));
        assert!(rest.lasts(true, 15_900_000) && !rest.lasts(true, 16_000_000));
        rest.sent(false, 16_000_000);
        assert!(!rest.lasts(true, 17_000_000));
    }

    /// Simulates ten minutes of a link of 250 kbit/s and 80 ms with a queue of 20 packets. Important lines take a share of it, each in a packet of
    /// 340 bytes, and fresh ones have one packet in flight. Returns the longest wait of an important line in each minute.
    fn ten_minutes_of_overload(percent: u64) -> Vec<u64> {
        const RATE: u64 = 31_250;
        let (mut seen, mut rest) = (Queue::default(), Rest::default());
        let (mut queue, mut latest_us, mut owed) = (0_u64, 80_000, 0);
        let mut longest = vec![0; 10];
        let (mut fresh, mut measured_us) = (VecDeque::new(), 0);
        for at_ms in 0..600_000_u64 {
            let now_us = 1_000_000_000 + at_ms * 1_000;
            queue = queue.saturating_sub(RATE / 1_000);
            owed += RATE * percent / 100;
            while owed >= 340 * 1_000 {
                (owed, queue) = (owed - 340 * 1_000, queue + 340);
            }
            queue = queue.min(20 * 340);
            let rtt_us = 80_000 + queue * 1_000_000 / RATE;
            if now_us >= measured_us {
                (latest_us, measured_us) = (rtt_us, now_us + rtt_us);
            }
            if fresh.front().is_some_and(|&answered_us| answered_us <= now_us) {
                fresh.pop_front();
            }
            let waits = is_long(&mut seen, latest_us, now_us);
            if fresh.is_empty() && !rest.lasts(waits, now_us) && !seen.is_on_trial() {
                rest.sent(waits, now_us);
                queue += 1_200;
                fresh.push_back(now_us + rtt_us);
            }
            let minute = &mut longest[usize::try_from(at_ms / 60_000).unwrap_or_default()];
            *minute = (*minute).max(rtt_us - 80_000);
        }
        longest
    }

    #[test]
    fn a_queue_that_stands_for_minutes_is_not_taken_for_the_path() {
        for percent in [90, 94, 96] {
            let longest = ten_minutes_of_overload(percent);
            assert!(longest.iter().all(|&longest_us| longest_us <= 100_000), "{percent} %: {longest:?}");
        }
    }
}
