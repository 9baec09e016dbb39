//! A limit of events per second.

use festina_units::{Duration, Instant};

/// A number per second, and a burst of a tenth of it: a token bucket that stores the time at which it is full.
#[derive(Debug)]
pub struct Allowance {
    /// How long it takes for one more.
    interval: Duration,
    /// The time that it takes to fill up.
    depth: Duration,
    /// When the bucket is full if nothing more is taken. A full one has a time in the past, so no time before the epoch is needed.
    full_at: Instant,
}

impl Allowance {
    /// A full bucket.
    pub fn new(per_second: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        let depth = Duration::from_millis(100).max(interval);
        Self { interval, depth, full_at: Instant::ZERO }
    }

    /// Takes one, if one is left.
    pub fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + self.interval;
        let left = full_at <= now + self.depth;
        if left {
            self.full_at = full_at;
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(allowance: &mut Allowance, at: Instant, attempts: usize) -> usize {
        (0..attempts).filter(|_| allowance.take(at)).count()
    }

    #[test]
    fn an_allowance_gives_a_tenth_at_once_and_then_what_time_brings() {
        let mut allowance = Allowance::new(20_000);
        let begin = Instant::from_secs(3_600);
        assert_eq!(taken(&mut allowance, begin, 10_000), 2_000);
        assert_eq!(taken(&mut allowance, begin + Duration::from_millis(1), 10_000), 20);
        let later: usize = (2..1_002).map(|ms| taken(&mut allowance, begin + Duration::from_millis(ms), 1_000)).sum();
        assert_eq!(later, 20_000, "in one second");
        assert_eq!(taken(&mut allowance, begin + Duration::from_secs(60), 10_000), 2_000, "it does not save up more");
    }

    #[test]
    fn a_new_allowance_is_full_at_any_time() {
        for begin in [0, 1, 1_000_000, 99_999_999, 3_600_000_000_000].map(Instant::from_nanos) {
            for (per_second, burst) in [(1, 1), (10, 1), (1_000, 100), (20_000, 2_000)] {
                let mut allowance = Allowance::new(per_second);
                assert_eq!(taken(&mut allowance, begin, 10_000), burst, "{per_second} per second at {begin:?}");
            }
        }
    }

    #[test]
    fn the_smallest_allowance_lets_one_through_now_and_then() {
        let mut allowance = Allowance::new(1);
        let begin = Instant::from_secs(3_600);
        assert_eq!(taken(&mut allowance, begin, 5), 1);
        assert_eq!(taken(&mut allowance, begin + Duration::from_millis(900), 5), 0);
        assert_eq!(taken(&mut allowance, begin + Duration::from_secs(1), 5), 1);
    }
}
