//! Durations and sizes counted in buckets that grow with the value.

/// Each power of two is divided into half as many buckets, so that the middle of a bucket is within 1/128 of its values.
const DIVISIONS_LOG2: u32 = 7;
const DIVISIONS: u64 = 1 << DIVISIONS_LOG2;

/// A histogram of values. Percentiles are exact within 0.8 %; count, sum, minimum and maximum are exact.
///
/// Only buckets that hold something take memory, 8 bytes each, and there are fewer than 7,500 of them: a thin stream has some dozens.
///
/// ```
/// use festina_trace::Histogram;
///
/// let mut histogram = Histogram::default();
/// for value in 1..=1000 {
///     histogram.record(value);
/// }
/// assert_eq!((histogram.min(), histogram.max(), histogram.mean()), (Some(1), Some(1000), Some(500.5)));
/// assert!(histogram.percentile(99.0).is_some_and(|value| (986..=994).contains(&value)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Bucket and count, by bucket.
    buckets: Vec<(u32, u32)>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Histogram {
    /// Counts a value, in any unit.
    pub fn record(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        self.add(bucket_of(value), 1);
    }

    /// Counts all values of another histogram too.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        for &(bucket, count) in &other.buckets {
            self.add(bucket, count);
        }
    }

    fn add(&mut self, bucket: u32, count: u32) {
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => {
                if let Some((_, counted)) = self.buckets.get_mut(at) {
                    *counted = counted.saturating_add(count);
                }
            }
            Err(at) => {
                if self.buckets.is_empty() {
                    // Many streams have a single value.
                    self.buckets.reserve_exact(1);
                }
                self.buckets.insert(at, (bucket, count));
            }
        }
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean of all values.
    #[expect(clippy::cast_precision_loss, reason = "for reports")]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The smallest value that at least `percent` of all values do not exceed, as the middle of its bucket.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let wanted = rank(percent, self.count)?;
        let mut below = 0;
        for &(bucket, count) in &self.buckets {
            below += u64::from(count);
            if below >= wanted {
                return Some(middle_of(bucket).clamp(self.min, self.max));
            }
        }
        Some(self.max)
    }

    /// Returns the share of values up to each bucket, for a curve: the middle of the bucket and the share, both
    /// ascending.
    #[expect(clippy::cast_precision_loss, reason = "for figures")]
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, f64)> {
        let total = self.count.max(1) as f64;
        self.buckets.iter().scan(0u64, move |below, &(bucket, count)| {
            *below += u64::from(count);
            Some((middle_of(bucket).clamp(self.min, self.max), *below as f64 / total))
        })
    }
}

/// Returns the rank of a percentile, counted from one; `None` if there is no value.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bounded by count"
)]
fn rank(percent: f64, count: u64) -> Option<u64> {
    (count > 0).then(|| ((percent / 100.0 * count as f64).ceil() as u64).clamp(1, count))
}

/// Returns the bucket of a value. Values below 128 have a bucket each.
#[expect(clippy::cast_possible_truncation, reason = "at most 58 powers of two with 128 buckets each")]
fn bucket_of(value: u64) -> u32 {
    let Some(shift) = (value >> DIVISIONS_LOG2).checked_ilog2().map(|log| log + 1) else {
        return value as u32;
    };
    // The value shifted lies between 64 and 128: its power of two is implied by the shift.
    (u64::from(shift) * (DIVISIONS / 2) + (value >> shift)) as u32
}

fn middle_of(bucket: u32) -> u64 {
    let bucket = u64::from(bucket);
    if bucket < DIVISIONS {
        return bucket;
    }
    let shift = bucket / (DIVISIONS / 2) - 1;
    let low = (bucket - shift * (DIVISIONS / 2)) << shift;
    low + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_has_no_statistics() {
        let empty = Histogram::default();
        assert_eq!((empty.min(), empty.mean(), empty.percentile(50.0)), (None, None, None));
    }

    proptest! {
        #[test]
        fn every_value_is_close_to_the_middle_of_its_bucket(value in any::<u64>()) {
            let value = value >> (value % 60);
            let middle = middle_of(bucket_of(value));
            prop_assert!(middle.abs_diff(value) <= value / 128 + u64::from(value >= 128), "{value} in {middle}");
        }

        #[test]
        fn percentiles_are_those_of_the_sorted_values(mut values in proptest::collection::vec(0u64..1 << 40, 1..200)) {
            let mut halves = [Histogram::default(), Histogram::default()];
            for (index, value) in values.iter().enumerate() {
                halves[index % 2].record(*value);
            }
            let [mut all, second] = halves;
            all.merge(&second);
            values.sort_unstable();
            prop_assert_eq!(all.count(), values.len() as u64);
            prop_assert_eq!((all.min(), all.max()), (values.first().copied(), values.last().copied()));
            for percent in [0.0, 1.0, 50.0, 99.0, 100.0] {
                let exact = values[usize::try_from(rank(percent, values.len() as u64).expect("not empty")).expect("an index") - 1];
                let told = all.percentile(percent).expect("not empty");
                prop_assert!(told.abs_diff(exact) <= exact / 128 + 1, "{told} for {exact}");
            }
        }
    }
}
