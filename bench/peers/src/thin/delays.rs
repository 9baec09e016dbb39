//! Percentiles of delays, and between what bounds they lie.

use std::time::Duration;

/// Number of standard deviations that contain 95 % of a normal distribution.
const DEVIATIONS: f64 = 1.96;

/// Delays in the order in which the messages were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delays {
    /// `None` where a message never came.
    delays: Vec<Option<Duration>>,
}

/// A percentile in ms, and the bounds between which it lies with 95 % confidence. Messages that never came count as infinite.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Percentile {
    /// The percentile of the sample.
    pub ms: f64,
    /// The lower bound.
    pub low_ms: f64,
    /// The upper bound.
    pub high_ms: f64,
}

impl Extend<Option<Duration>> for Delays {
    fn extend<I: IntoIterator<Item = Option<Duration>>>(&mut self, delays: I) {
        self.delays.extend(delays);
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranks and counts far below 2^52, never below zero"
)]
impl Delays {
    /// Messages that came.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delays.iter().flatten().count() as u64
    }

    /// Mean of the messages that came, in ms; zero if none did.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        let sum: f64 = self.delays.iter().flatten().map(|delay| milliseconds(Some(*delay))).sum();
        sum / self.delivered().max(1) as f64
    }

    /// The longest, in ms.
    #[must_use]
    pub fn max_ms(&self) -> f64 {
        self.delays.iter().map(|delay| milliseconds(*delay)).fold(0.0, f64::max)
    }

    /// Returns the delay that a share of the messages does not exceed.
    ///
    /// The bounds are those of the binomial distribution of the rank, for the number of independent observations. Late messages come in groups, since
    /// one loss delays all later ones, and a group counts as one observation.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Percentile {
        let mut sorted: Vec<f64> = self.delays.iter().map(|delay| milliseconds(*delay)).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let at = |rank: f64| sorted.get((rank.max(1.0) as usize).min(sorted.len()).saturating_sub(1)).copied();
        let rank = (share * count).ceil();
        let ms = at(rank).unwrap_or(0.0);
        let half = DEVIATIONS * (self.group_above(ms) * count * share * (1.0 - share)).sqrt();
        let low_ms = at((rank - half).floor()).unwrap_or(0.0);
        let high_ms = at((rank + half).ceil()).unwrap_or(0.0);
        Percentile { ms, low_ms, high_ms }
    }

    /// Returns the average number of consecutive messages above `ms`; one if there are none.
    fn group_above(&self, ms: f64) -> f64 {
        let late = |delay: &Option<Duration>| milliseconds(*delay) > ms;
        let count = self.delays.iter().filter(|delay| late(delay)).count();
        let groups =
            self.delays.chunk_by(|a, b| late(a) == late(b)).filter(|run| run.first().is_some_and(late)).count();
        count.max(1) as f64 / groups.max(1) as f64
    }
}

fn milliseconds(delay: Option<Duration>) -> f64 {
    delay.map_or(f64::INFINITY, |delay| delay.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(ms: impl IntoIterator<Item = u64>) -> Delays {
        let mut delays = Delays::default();
        delays.extend(ms.into_iter().map(|ms| Some(Duration::from_millis(ms))));
        delays
    }

    #[test]
    fn a_percentile_is_the_smallest_delay_that_the_share_does_not_exceed() {
        let hundred = delays(1..=100);
        for (share, ms) in [(0.5, 50.0), (0.99, 99.0), (0.999, 100.0)] {
            assert!((hundred.percentile(share).ms - ms).abs() < 1e-9, "{share}");
        }
        assert!((hundred.mean_ms() - 50.5).abs() < 1e-9);
        assert!((hundred.max_ms() - 100.0).abs() < 1e-9);
    }

    #[test]
    fn late_messages_in_groups_say_less_than_the_same_number_alone() {
        let late = |group: u64| {
            delays((0..10_000).map(|number| if number % (50 * group) < group { 200 + number % 97 } else { 50 }))
        };
        let (alone, grouped) = (late(1).percentile(0.99), late(10).percentile(0.99));
        assert!(grouped.high_ms - grouped.low_ms > alone.high_ms - alone.low_ms, "{alone:?} {grouped:?}");
        assert!(alone.low_ms <= alone.ms && alone.ms <= alone.high_ms);
    }

    #[test]
    fn a_message_that_never_came_is_later_than_all() {
        let mut some = delays([50; 98]);
        some.extend([None, None]);
        assert_eq!(some.delivered(), 98);
        assert!(some.percentile(0.99).ms.is_infinite() && some.max_ms().is_infinite());
        assert!((some.percentile(0.98).ms - 50.0).abs() < 1e-9 && (some.mean_ms() - 50.0).abs() < 1e-9);
    }
}
