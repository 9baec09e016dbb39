//! The recent minimum of a value, which notices that a path became longer.

use festina_units::{Duration, Instant};

/// The smallest duration seen during a sliding window, in constant memory.
///
/// Time is divided into periods of the window's length. The type keeps the smallest value of the current period and of
/// the previous one, so the result covers one to two windows. After a pause of two windows the old result stays until
/// the first new value replaces it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct WindowedMin {
    window: Duration,
    period_started: Instant,
    current: Option<Duration>,
    before: Option<Duration>,
}

impl WindowedMin {
    /// Creates a minimum that remembers values for at least `window`.
    #[must_use]
    pub fn new(window: Duration) -> Self {
        Self { window, period_started: Instant::ZERO, current: None, before: None }
    }

    /// Adds a value measured at `now`. Time that runs backwards counts as standing still.
    pub fn sample(&mut self, now: Instant, value: Duration) {
        let age = now.saturating_duration_since(self.period_started);
        if age >= self.window {
            let follows_at_once = age < self.window.saturating_mul(2);
            self.before = self.current.filter(|_| follows_at_once);
            self.current = None;
            self.period_started = now;
        }
        self.current = Some(self.current.map_or(value, |current| current.min(value)));
    }

    /// Returns the smallest value, once there is one.
    #[must_use]
    pub fn get(&self) -> Option<Duration> {
        match (self.before, self.current) {
            (Some(before), Some(current)) => Some(before.min(current)),
            (before, current) => current.or(before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: Duration = Duration::from_secs(10);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn after(samples: &[(u64, u64)]) -> Option<Duration> {
        let mut min = WindowedMin::new(WINDOW);
        for &(at_secs, millis) in samples {
            min.sample(Instant::from_secs(at_secs), ms(millis));
        }
        min.get()
    }

    #[test]
    fn without_a_value_there_is_no_smallest() {
        assert_eq!(after(&[]), None);
    }

    #[test]
    fn the_smallest_value_of_the_window_counts() {
        assert_eq!(after(&[(1, 100), (2, 80), (3, 120)]), Some(ms(80)));
    }

    #[test]
    fn a_value_is_remembered_for_one_window_and_forgotten_after_two() {
        assert_eq!(after(&[(100, 80), (109, 120), (110, 120), (119, 120)]), Some(ms(80)));
        assert_eq!(after(&[(100, 80), (109, 120), (110, 120), (120, 120)]), Some(ms(120)));
    }

    #[test]
    fn after_a_long_pause_only_the_new_value_counts() {
        assert_eq!(after(&[(100, 80), (120, 150)]), Some(ms(150)));
    }

    proptest! {
        #[test]
        fn the_answer_lies_between_the_minimum_of_one_window_and_of_two(
            steps in prop::collection::vec((0..7_000_u64, 1..1_000_u64), 1..60),
        ) {
            let (mut min, mut at_ms, mut seen) = (WindowedMin::new(WINDOW), 50_000, Vec::new());
            for (pause_ms, value) in steps {
                at_ms += pause_ms;
                min.sample(Instant::from_millis(at_ms), ms(value));
                seen.push((at_ms, ms(value)));
                let smallest_since = |oldest_ms: u64| {
                    seen.iter().filter(|&&(at_ms, _)| at_ms >= oldest_ms).map(|&(_, value)| value).min()
                };
                // A period starts with the first value in it, so that two periods last at most two windows and a pause.
                prop_assert!(min.get() <= smallest_since(at_ms - 2_000));
                prop_assert!(min.get() >= smallest_since(at_ms - 27_000));
            }
        }
    }
}
