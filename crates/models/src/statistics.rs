//! Statistics of delays.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Significant decimal digits that the histogram keeps: every percentile is within 0.1% of the true one.
const SIGNIFICANT_DIGITS: u8 = 3;

/// The distribution of delays. Count, mean, standard deviation, minimum and maximum are exact to the nanosecond;
/// percentiles are within 0.1%. Memory does not grow with the number of delays.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayStatistics {
    histogram_ns: Histogram<u64>,
    sum_ns: u128,
    sum_of_squares_s2: f64,
    min: Option<Duration>,
    max: Option<Duration>,
}

impl Default for DelayStatistics {
    fn default() -> Self {
        Self::new()
    }
}

impl DelayStatistics {
    /// No delays yet.
    pub fn new() -> Self {
        let histogram_ns = Histogram::new(SIGNIFICANT_DIGITS)
            .expect("three significant digits are within the histogram's range of 0 to 5");
        Self { histogram_ns, sum_ns: 0, sum_of_squares_s2: 0.0, min: None, max: None }
    }

    /// Adds one delay. Delays above 584 years count as 584 years.
    pub fn record(&mut self, delay: Duration) {
        let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        self.histogram_ns.record(delay_ns).expect("a histogram that resizes itself takes every value that has 64 bits");
        self.sum_ns += u128::from(delay_ns);
        self.sum_of_squares_s2 += delay.as_secs_f64().powi(2);
        self.min = Some(self.min.map_or(delay, |min| min.min(delay)));
        self.max = Some(self.max.map_or(delay, |max| max.max(delay)));
    }

    /// Adds all delays of `other`. Merging in the same order gives the same result to the last bit.
    pub fn merge(&mut self, other: &Self) {
        self.histogram_ns
            .add(&other.histogram_ns)
            .expect("a histogram that resizes itself takes every other one of the same precision");
        self.sum_ns += other.sum_ns;
        self.sum_of_squares_s2 += other.sum_of_squares_s2;
        self.min = self.min.into_iter().chain(other.min).min();
        self.max = self.max.max(other.max);
    }

    /// Delays that were written down as [`sums`](Self::sums) and [`buckets`](Self::buckets); equal to those that were
    /// written down. `None` if the two do not belong together.
    pub fn from_parts(sums: Sums, buckets: impl IntoIterator<Item = (u64, u64)>) -> Option<Self> {
        let mut statistics = Self::new();
        for (delay_ns, count) in buckets {
            statistics.histogram_ns.record_n(delay_ns, count).ok()?;
        }
        statistics.sum_ns = sums.sum_ns;
        statistics.sum_of_squares_s2 = sums.sum_of_squares_s2;
        statistics.min = Some(Duration::from_nanos(sums.min_ns));
        statistics.max = Some(Duration::from_nanos(sums.max_ns));
        (statistics.count() > 0 && sums.min_ns <= sums.max_ns).then_some(statistics)
    }

    /// The values kept exactly in addition to the histogram; `None` without delays.
    pub fn sums(&self) -> Option<Sums> {
        let nanos = |delay: Duration| u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        Some(Sums {
            sum_ns: self.sum_ns,
            sum_of_squares_s2: self.sum_of_squares_s2,
            min_ns: nanos(self.min?),
            max_ns: nanos(self.max?),
        })
    }

    /// The histogram: ascending delays in nanoseconds, each the longest of its bucket, with counts.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.histogram_ns
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
            .collect()
    }

    /// Number of recorded delays.
    pub fn count(&self) -> u64 {
        self.histogram_ns.len()
    }

    /// The arithmetic mean; `None` without delays.
    pub fn mean(&self) -> Option<Duration> {
        let mean_ns = self.sum_ns.checked_div(u128::from(self.count()))?;
        u64::try_from(mean_ns).ok().map(Duration::from_nanos)
    }

    /// The standard deviation of the population, which `ping` prints as "mdev"; `None` without delays.
    pub fn standard_deviation(&self) -> Option<Duration> {
        let mean_s = self.mean()?.as_secs_f64();
        let variance_s2 = self.sum_of_squares_s2 / as_f64(self.count()) - mean_s.powi(2);
        // Rounding may leave a tiny negative variance when all delays are equal.
        Some(Duration::from_secs_f64(variance_s2.max(0.0).sqrt()))
    }

    /// The shortest delay; `None` without delays.
    pub fn min(&self) -> Option<Duration> {
        self.min
    }

    /// The longest delay; `None` without delays.
    pub fn max(&self) -> Option<Duration> {
        self.max
    }

    /// The delay that a share of `quantile` (0.99 for the 99th percentile) of all delays does not exceed; `None`
    /// without delays.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let (min, max) = (self.min?, self.max?);
        let delay = Duration::from_nanos(self.histogram_ns.value_at_quantile(quantile));
        // A bucket reports its upper edge, which may lie beyond its longest delay.
        Some(delay.clamp(min, max))
    }

    /// The share of all delays that are longer than `than`, from 0 to 1; 1 without delays.
    pub fn share_later(&self, than: Duration) -> f64 {
        let shares = self.shares_later();
        let below = shares.partition_point(|share| share.delay <= than);
        below.checked_sub(1).and_then(|index| shares.get(index)).map_or(1.0, |share| share.share)
    }

    /// The complementary cumulative distribution: for each delay that occurred, rising, the share of all delays that
    /// are longer. The last point's share is zero.
    pub fn shares_later(&self) -> Vec<ShareLater> {
        let (Some(min), Some(max)) = (self.min, self.max) else {
            return Vec::new();
        };
        let count = self.count();
        let mut later = count;
        self.histogram_ns
            .iter_recorded()
            .map(|step| {
                later -= step.count_since_last_iteration();
                let delay = Duration::from_nanos(step.value_iterated_to());
                ShareLater { delay: delay.clamp(min, max), share: as_f64(later) / as_f64(count) }
            })
            .collect()
    }
}

/// What [`DelayStatistics`] keeps exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sums {
    /// The sum, in nanoseconds.
    pub sum_ns: u128,
    /// The sum of squares, in square seconds.
    pub sum_of_squares_s2: f64,
    /// The shortest delay, in nanoseconds.
    pub min_ns: u64,
    /// The longest delay, in nanoseconds.
    pub max_ns: u64,
}

/// A point of the complementary cumulative distribution of delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareLater {
    /// The delay.
    pub delay: Duration,
    /// The share, from 0 to 1, of all delays that are longer than `delay`.
    pub share: f64,
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn statistics_of_ms(delays_ms: impl IntoIterator<Item = u64>) -> DelayStatistics {
        let mut statistics = DelayStatistics::new();
        for delay_ms in delays_ms {
            statistics.record(Duration::from_millis(delay_ms));
        }
        statistics
    }

    #[test]
    fn nothing_is_said_about_no_delays() {
        let statistics = DelayStatistics::new();
        assert_eq!(statistics.count(), 0);
        assert_eq!(statistics.mean(), None);
        assert_eq!(statistics.standard_deviation(), None);
        assert_eq!(statistics.quantile(0.5), None);
        assert_eq!(statistics.max(), None);
        assert!(statistics.shares_later().is_empty());
    }

    #[test]
    fn mean_minimum_and_maximum_are_exact() {
        let mut statistics = DelayStatistics::new();
        for delay_ns in [1, 2, 999_999_999_999] {
            statistics.record(Duration::from_nanos(delay_ns));
        }
        assert_eq!(statistics.mean(), Some(Duration::from_nanos(333_333_333_334)));
        assert_eq!(statistics.min(), Some(Duration::from_nanos(1)));
        assert_eq!(statistics.max(), Some(Duration::from_nanos(999_999_999_999)));
    }

    #[test]
    fn standard_deviation_is_that_of_the_population() {
        let statistics = statistics_of_ms([2, 4, 4, 4, 5, 5, 7, 9]);
        let deviation = statistics.standard_deviation().expect("there are delays");
        assert!((deviation.as_secs_f64() - 0.002).abs() < 1e-9, "{deviation:?}");
        assert_eq!(statistics_of_ms([70; 1000]).standard_deviation().expect("there are delays").as_micros(), 0);
    }

    #[test]
    fn the_share_later_starts_at_the_shortest_delay_and_ends_at_the_longest_with_zero() {
        let points = statistics_of_ms([50, 50, 100, 400]).shares_later();
        assert_eq!(points.len(), 3);
        let shares: Vec<f64> = points.iter().map(|point| point.share).collect();
        assert_eq!(shares, [0.5, 0.25, 0.0]);
        assert_eq!(points[2].delay, Duration::from_millis(400));
    }

    #[test]
    fn merged_delays_are_as_if_recorded_together() {
        let mut merged = statistics_of_ms([5, 900]);
        merged.merge(&DelayStatistics::new());
        merged.merge(&statistics_of_ms([1, 20_000, 5]));
        let together = statistics_of_ms([5, 900, 1, 20_000, 5]);
        assert_eq!((merged.count(), merged.mean()), (together.count(), together.mean()));
        assert_eq!((merged.min(), merged.max()), (together.min(), together.max()));
        assert_eq!(merged.shares_later(), together.shares_later());
        assert_eq!(merged.standard_deviation(), together.standard_deviation());
        let mut from_nothing = DelayStatistics::new();
        from_nothing.merge(&together);
        assert_eq!((from_nothing.min(), from_nothing.max()), (together.min(), together.max()));
    }

    proptest! {
        #[test]
        fn percentiles_are_within_a_tenth_of_a_per_cent(
            mut delays_ns in proptest::collection::vec(1u64..100_000_000_000, 1..300),
            quantile in 0.0f64..=1.0,
        ) {
            let mut statistics = DelayStatistics::new();
            for delay_ns in &delays_ns {
                statistics.record(Duration::from_nanos(*delay_ns));
            }
            delays_ns.sort_unstable();
            // The same rank that the histogram counts up to.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of at most 300 delays")]
            let rank = ((quantile * delays_ns.len() as f64).ceil() as usize).max(1);
            let truth_ns = delays_ns[rank - 1] as f64;
            let told = statistics.quantile(quantile).expect("there are delays");
            prop_assert!((told.as_nanos() as f64 - truth_ns).abs() <= truth_ns * 0.001 + 1.0, "{told:?} for {truth_ns}");
        }

        #[test]
        fn what_was_written_down_in_parts_is_as_it_was(delays_ns in proptest::collection::vec(any::<u64>(), 1..100)) {
            let mut statistics = DelayStatistics::new();
            for delay_ns in delays_ns {
                statistics.record(Duration::from_nanos(delay_ns));
            }
            let sums = statistics.sums().expect("there are delays");
            let again = DelayStatistics::from_parts(sums, statistics.buckets()).expect("the parts belong together");
            prop_assert_eq!(again.shares_later(), statistics.shares_later());
            prop_assert_eq!(again, statistics);
        }

        #[test]
        fn shares_never_rise_with_the_delay(delays_ms in proptest::collection::vec(0u64..10_000, 1..200)) {
            let points = statistics_of_ms(delays_ms).shares_later();
            prop_assert!(points.windows(2).all(|pair| pair[0].delay <= pair[1].delay && pair[0].share > pair[1].share));
            prop_assert!(points.last().is_some_and(|last| last.share == 0.0));
        }
    }
}
