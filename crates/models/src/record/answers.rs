//! The receiver's answers and their fate: whether the sender could have known that data had arrived.

use festina_units::{Duration, Instant};

use super::arrivals_by_serial;
use super::log::Log;

/// The packets that the receiver of the data sent, in the order in which they left.
pub(super) struct Answers {
    /// When each left, and when it arrived at the sender of the data, if it did.
    packets: Vec<(Instant, Option<Instant>)>,
    /// The shortest delay of a packet on the way back.
    way_back_min: Duration,
}

impl Answers {
    /// Collects the answers to the packets in `sent`, from the logs of both sides.
    pub(super) fn of(sent: &Log, received: &Log) -> Self {
        let arrivals = arrivals_by_serial(sent);
        let arrival = |serial: u64| *arrivals.get(usize::try_from(serial).ok()?)?;
        let packets: Vec<_> = received.departures.iter().map(|&(serial, at)| (at, arrival(serial))).collect();
        let ways = packets.iter().filter_map(|&(left, arrived)| Some(arrived?.saturating_duration_since(left)));
        Self { way_back_min: ways.min().unwrap_or_default(), packets }
    }

    /// Returns whether only loss kept the sender from knowing at `at` that data had arrived at `arrived`: at least one
    /// answer was sent early enough, and all such answers were lost.
    pub(super) fn were_lost(&self, arrived: Instant, at: Instant) -> bool {
        let first = self.packets.partition_point(|&(left, _)| left < arrived);
        let mut in_time =
            self.packets[first..].iter().take_while(|&&(left, _)| left + self.way_back_min <= at).peekable();
        in_time.peek().is_some() && in_time.all(|&(_, arrived)| arrived.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Answers that leave at these milliseconds and take 50 ms if they are not lost.
    fn answers(of: &[(u64, bool)]) -> Answers {
        let (mut sent, mut received) = (Log::default(), Log::default());
        for (serial, &(left_ms, arrives)) in (0..).zip(of) {
            received.departed(ms(left_ms), serial);
            if arrives {
                sent.arrived(ms(left_ms + 50), serial);
            }
        }
        Answers::of(&sent, &received)
    }

    #[test]
    fn the_only_answer_was_lost() {
        assert!(answers(&[(0, true), (100, false)]).were_lost(ms(100), ms(150)));
    }

    #[test]
    fn an_answer_that_the_sender_could_not_have_yet_is_no_excuse() {
        assert!(!answers(&[(0, true), (100, false)]).were_lost(ms(100), ms(149)));
        assert!(!answers(&[(0, true), (300, true)]).were_lost(ms(100), ms(200)), "the receiver delayed its answer");
    }

    #[test]
    fn one_answer_that_came_through_was_enough_to_know() {
        assert!(!answers(&[(0, true), (100, false), (120, true)]).were_lost(ms(100), ms(170)));
        assert!(answers(&[(0, true), (100, false), (120, true)]).were_lost(ms(100), ms(169)));
    }
}
