//! A histogram of constant size for the time that data waited.

use festina_units::{Duration, duration::saturating_nanos};

/// Buckets per doubling: a quantile is at most a thirty-second too large.
const PER_DOUBLING_BITS: u32 = 5;
const PER_DOUBLING: u32 = 1 << PER_DOUBLING_BITS;
/// Number of doublings, starting at one microsecond: up to 67 s; the last bucket also counts longer times.
const DOUBLINGS: u32 = 26;
const BUCKETS: usize = ((DOUBLINGS + 1) * PER_DOUBLING) as usize;

/// A histogram of the time that packets waited in the send buffer before their first transmission.
#[derive(Clone, Debug)]
pub struct WaitHistogram {
    counts: Box<[u64; BUCKETS]>,
    packets: u64,
    total: Duration,
    longest: Duration,
}

impl Default for WaitHistogram {
    fn default() -> Self {
        let (total, longest) = (Duration::ZERO, Duration::ZERO);
        Self { counts: Box::new([0; BUCKETS]), packets: 0, total, longest }
    }
}

impl WaitHistogram {
    pub(crate) fn record(&mut self, waited: Duration, packets: u32) {
        self.counts[bucket(waited)] += u64::from(packets);
        self.packets += u64::from(packets);
        self.total = self.total.saturating_add(waited.saturating_mul(packets));
        self.longest = self.longest.max(waited);
    }

    /// Returns the number of packets counted.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the mean, or `None` if nothing was sent.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let nanos = self.total.as_nanos().checked_div(self.packets.into())?;
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// Returns the longest wait.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// Returns the wait that `per_mille` of a thousand packets did not exceed, at most a thirty-second too large;
    /// `None` if nothing was sent.
    #[must_use]
    pub fn quantile(&self, per_mille: u32) -> Option<Duration> {
        let wanted = (u128::from(self.packets) * u128::from(per_mille.min(1_000))).div_ceil(1_000);
        let mut so_far = 0;
        let index = self.counts.iter().position(|&count| {
            so_far += u128::from(count);
            count > 0 && so_far >= wanted
        })?;
        Some(upper_end(index).min(self.longest))
    }
}

fn bucket(waited: Duration) -> usize {
    let micros = saturating_nanos(waited) / 1_000;
    if micros < u64::from(PER_DOUBLING) {
        return usize::try_from(micros).unwrap_or(0);
    }
    let doubling = micros.ilog2();
    let within = (micros >> (doubling - PER_DOUBLING_BITS)) & u64::from(PER_DOUBLING - 1);
    let index = u64::from((doubling - PER_DOUBLING_BITS + 1) * PER_DOUBLING) + within;
    usize::try_from(index).unwrap_or(usize::MAX).min(BUCKETS - 1)
}

fn upper_end(index: usize) -> Duration {
    let index = u32::try_from(index + 1).unwrap_or(u32::MAX);
    if index <= PER_DOUBLING {
        return Duration::from_micros(index.into());
    }
    let (doubling, within) = (index / PER_DOUBLING - 1, index % PER_DOUBLING);
    Duration::from_micros(u64::from(PER_DOUBLING + within) << doubling)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_at_most_a_thirty_second_too_large() {
        let mut histogram = WaitHistogram::default();
        assert_eq!((histogram.mean(), histogram.quantile(500)), (None, None));
        for micros in 1..=20_000 {
            histogram.record(Duration::from_micros(micros), 1);
        }
        for per_mille in [1, 10, 500, 900, 990, 1_000] {
            let (exact, found) = (u64::from(per_mille) * 20, histogram.quantile(per_mille).expect("not empty"));
            let micros = u64::try_from(found.as_micros()).expect("small");
            assert!(exact <= micros && micros <= exact * 33 / 32 + 1, "{per_mille}: {exact} {micros}");
        }
        assert_eq!((histogram.packets(), histogram.longest()), (20_000, Duration::from_millis(20)));
        assert_eq!(histogram.mean(), Some(Duration::from_nanos(10_000_500)));
    }

    #[test]
    fn every_duration_has_a_bucket() {
        let mut histogram = WaitHistogram::default();
        for waited in [Duration::ZERO, Duration::from_secs(3_600), Duration::MAX] {
            histogram.record(waited, u32::MAX);
        }
        assert_eq!(histogram.quantile(100), Some(Duration::from_micros(1)));
        assert!(histogram.quantile(1_000) > Some(Duration::from_secs(60)));
    }
}
