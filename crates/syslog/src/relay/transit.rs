//! Time in flight of messages, according to the transport's acknowledgements.
//!
//! The transport takes no RTT sample from retransmitted data (RFC 9260 §6.3.1, C5), and it retransmits much into a growing queue. Its RTT may then be
//! that of an empty network for seconds while everything waits. The age of the oldest unacknowledged message is always known.

use std::collections::VecDeque;

/// Maximum number of remembered send times. Further messages count as part of the last.
const DEPARTURES_MAX: usize = 4_096;

/// Send times of messages.
#[derive(Debug, Default)]
pub(super) struct Transit {
    /// Numbers of messages sent, with the time in microseconds.
    departures: VecDeque<(u64, u64)>,
    took_us: u64,
}

impl Transit {
    /// Records that `sent` messages were sent so far.
    pub(super) fn left(&mut self, sent: u64, now_us: u64) {
        let full = self.departures.len() >= DEPARTURES_MAX;
        match self.departures.back_mut() {
            Some(last) if full => last.0 = last.0.max(sent),
            Some(last) if last.0 >= sent => {}
            _ => self.departures.push_back((sent, now_us)),
        }
    }

    /// Returns the age of the oldest message in flight, in microseconds, if `decided` messages have arrived or were abandoned. Their order is
    /// ignored: while one is repaired and others arrive, it counts as the latest.
    pub(super) fn age_us(&mut self, decided: u64, now_us: u64) -> u64 {
        while let Some(&(_, left_us)) = self.departures.front().filter(|(sent, _)| *sent <= decided) {
            self.took_us = now_us.saturating_sub(left_us);
            self.departures.pop_front();
        }
        self.departures.front().map_or(0, |(_, left_us)| now_us.saturating_sub(*left_us))
    }

    /// Returns how long the last decided message took, in microseconds.
    pub(super) fn took_us(&self) -> u64 {
        self.took_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_message_that_is_not_decided_says_how_long_it_takes() {
        let mut transit = Transit::default();
        assert_eq!(transit.age_us(0, 1_000), 0);
        transit.left(2, 1_000);
        transit.left(2, 5_000);
        transit.left(3, 9_000);
        assert_eq!(transit.age_us(0, 10_000), 9_000);
        assert_eq!(transit.age_us(1, 10_000), 9_000);
        assert_eq!(transit.age_us(2, 10_000), 1_000);
        assert_eq!(transit.age_us(3, 12_000), 0);
        assert_eq!(transit.took_us(), 3_000);
    }

    #[test]
    fn it_remembers_no_more_than_it_may_and_forgets_no_message_that_is_under_way() {
        let mut transit = Transit::default();
        let all = 2 * DEPARTURES_MAX as u64;
        (1..=all).for_each(|sent| transit.left(sent, sent));
        assert_eq!(transit.departures.len(), DEPARTURES_MAX);
        assert!(transit.age_us(all - 1, all + 5) >= 5);
        assert_eq!(transit.age_us(all, all + 5), 0);
    }
}
