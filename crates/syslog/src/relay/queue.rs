//! Detects whether important lines wait in a queue of the network, and how rarely fresh packets are then sent.

use festina::{Duration, PathStats};
use festina_units::duration;

/// A queue of this many microseconds is harmless for any round trip.
const HARMLESS_US: u64 = 10_000;

/// How long the shortest round trip stays valid at least, in microseconds. While important lines wait, fresh ones add next to nothing to the queue, so
/// a round trip that stays long belongs to the path.
const MEMORY_US: u64 = 60_000_000;

/// Interval between fresh packets while important lines wait, in microseconds: even one packet per round trip would fill a slow link.
const REST_US: u64 = 1_000_000;

/// The interval doubles up to this value, in microseconds.
const REST_US_MAX: u64 = 8_000_000;

/// The queue of a path, according to its round trips.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    /// Shortest round trips of the present minute and of the one before, in microseconds.
    shortest_us: [Option<u64>; 2],
    minute_began_us: u64,
}

impl Queue {
    /// Returns the shortest round trip in microseconds, if any was measured.
    pub(super) fn shortest_us(&self) -> Option<u64> {
        self.shortest_us.into_iter().flatten().min()
    }

    /// Takes the smoothed round trip of a path, and returns whether even short round trips exceed the shortest by more than half. A standing queue
    /// lengthens all round trips, a busy machine only some.
    pub(super) fn is_long(&mut self, path: &PathStats, now_us: u64) -> bool {
        let Some(srtt) = path.srtt else { return false };
        let micros = |time: Duration| duration::saturating_nanos(time) / 1_000;
        let rtt_us = micros(srtt);
        if now_us.saturating_sub(self.minute_began_us) >= MEMORY_US {
            (self.shortest_us, self.minute_began_us) = ([None, self.shortest_us[0]], now_us);
        }
        self.shortest_us[0] = self.shortest_us[0].map(|shortest| shortest.min(rtt_us)).or(Some(rtt_us));
        let shortest = self.shortest_us().unwrap_or(rtt_us);
        rtt_us.saturating_sub(micros(path.rttvar)).saturating_sub(shortest) > HARMLESS_US.max(shortest / 2)
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

    use super::*;

    const SECOND_US: u64 = 1_000_000;

    fn path(rtt_us: u64, variation_us: u64) -> PathStats {
        let mut path = PathStats::default();
        (path.srtt, path.rttvar) = (Some(Duration::from_micros(rtt_us)), Duration::from_micros(variation_us));
        path
    }

    #[test]
    fn a_round_trip_that_varies_is_no_queue_and_one_that_stays_long_is() {
        let mut queue = Queue::default();
        assert!(!queue.is_long(&PathStats::default(), 0) && queue.shortest_us().is_none());
        // The variation after one measurement is half of it (RFC 9260 section 6.3.1 C2).
        assert!(!queue.is_long(&path(80_000, 40_000), 0));
        assert!(!queue.is_long(&path(150_000, 31_000), SECOND_US));
        assert!(!queue.is_long(&path(120_000, 0), 2 * SECOND_US));
        assert!(queue.is_long(&path(121_000, 0), 3 * SECOND_US));
        assert_eq!(queue.shortest_us(), Some(80_000));
        let mut short = Queue::default();
        assert!(!short.is_long(&path(200, 0), 0) && !short.is_long(&path(10_000, 0), 1));
        assert!(short.is_long(&path(10_300, 0), 2));
    }

    #[test]
    fn a_path_that_has_become_longer_is_believed_after_two_minutes() {
        let mut queue = Queue::default();
        assert!(!queue.is_long(&path(10_000, 0), 0));
        let long = |queue: &mut Queue, second| queue.is_long(&path(50_000, 0), second * SECOND_US);
        assert!((1..60).all(|second| long(&mut queue, second)));
        assert!((60..120).all(|second| long(&mut queue, second)));
        assert!(!long(&mut queue, 121));
        assert_eq!(queue.shortest_us(), Some(50_000));
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
        let (mut queue, mut srtt_us, mut owed) = (0_u64, 80_000, 0);
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
                // RFC 9260 section 6.3.1, C3 and C4.
                (srtt_us, measured_us) = ((srtt_us * 7 + rtt_us) / 8, now_us + rtt_us);
            }
            if fresh.front().is_some_and(|&answered_us| answered_us <= now_us) {
                fresh.pop_front();
            }
            let waits = seen.is_long(&path(srtt_us, 0), now_us);
            if fresh.is_empty() && !rest.lasts(waits, now_us) {
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
            assert!(longest.iter().all(|&longest_us| longest_us <= 120_000), "{percent} %: {longest:?}");
        }
    }
}
