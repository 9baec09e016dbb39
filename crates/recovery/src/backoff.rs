//! The wait after an unanswered timeout: exponential backoff, or linear timeouts with a cap in time.

use festina_units::Duration;

/// Growth of the retransmission timer while no answer arrives.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// Each timeout doubles the next one (RFC 9260 §6.3.3 E2).
    Exponential,
    /// The timer does not grow (P10 §5.3) until `linear_for` has been spent waiting; after that it doubles.
    ///
    /// P10 has no cap: use [`Duration::MAX`] for its rule. The cap is Festina's: a thin stream is harmless, but a path
    /// that has been silent for seconds is broken or badly congested, and a crowd of thin streams must not flood it.
    Linear {
        /// Waiting time after which the doubling starts.
        linear_for: Duration,
    },
}

impl Backoff {
    /// Returns the next timer value, for a timer of `base` without backoff and the expiries in `series`; never above
    /// `max`, unless `base` itself is.
    #[must_use]
    pub fn interval(self, base: Duration, series: &ExpirySeries, max: Duration) -> Duration {
        let grown = match self {
            Self::Exponential => 2_u32.checked_pow(series.timeouts).and_then(|factor| base.checked_mul(factor)),
            // The next wait is as long as all waits since the linear phase ended. That doubles the timer each time,
            // without a count of the linear expiries.
            Self::Linear { linear_for } => Some(base.max(series.waited.saturating_sub(linear_for))),
        };
        grown.unwrap_or(Duration::MAX).min(max).max(base)
    }

    /// Returns whether timers still run without growing.
    #[must_use]
    pub fn is_linear(self, series: &ExpirySeries) -> bool {
        match self {
            Self::Exponential => false,
            Self::Linear { linear_for } => series.waited < linear_for,
        }
    }
}

/// The timer expiries since the last round-trip measurement.
///
/// Only an unambiguous measurement ends the series (RFC 9260 §6.3.3, after E4). That is vital for linear timeouts: if
/// the round-trip time rises above the timer, each message is retransmitted, none can be measured, and only a growing
/// timer breaks the cycle. Waiting time is counted, not wall time, so the pauses of a quiet application do not count.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpirySeries {
    timeouts: u32,
    waited: Duration,
}

impl ExpirySeries {
    /// Records that the retransmission timer expired after `interval`.
    pub fn timed_out(&mut self, interval: Duration) {
        self.timeouts = self.timeouts.saturating_add(1);
        self.waited = self.waited.saturating_add(interval);
    }

    /// Records that a probe was sent after waiting for `interval`. It is not a timeout, but the waiting time counts.
    pub fn probed(&mut self, interval: Duration) {
        self.waited = self.waited.saturating_add(interval);
    }

    /// Ends the series: a round-trip time was measured.
    pub fn measured(&mut self) {
        *self = Self::default();
    }

    /// Returns the number of retransmission timeouts in this series, without probes.
    #[must_use]
    pub fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// Returns the time spent waiting for timers that expired in this series.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// The timer values on a path that never answers.
    fn silence(backoff: Backoff, base: Duration, timeouts: usize) -> Vec<u128> {
        let mut series = ExpirySeries::default();
        let mut intervals = Vec::new();
        for _ in 0..timeouts {
            let interval = backoff.interval(base, &series, MINUTE);
            intervals.push(interval.as_millis());
            series.timed_out(interval);
        }
        intervals
    }

    #[test]
    fn rfc_9260_6_3_3_e2_each_timeout_doubles_the_next_up_to_the_maximum() {
        let intervals = silence(Backoff::Exponential, ms(1000), 8);
        assert_eq!(intervals, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
    }

    #[test]
    fn p10_5_3_linear_timeouts_do_not_grow() {
        let intervals = silence(Backoff::Linear { linear_for: Duration::MAX }, ms(200), 100);
        assert!(intervals.iter().all(|&interval| interval == 200));
    }

    #[test]
    fn after_three_seconds_of_linear_timeouts_the_timer_doubles() {
        let intervals = silence(Backoff::Linear { linear_for: Duration::from_secs(3) }, ms(1000), 10);
        assert_eq!(intervals, [1000, 1000, 1000, 1000, 1000, 2000, 4000, 8000, 16_000, 32_000]);
    }

    #[test]
    fn probes_use_up_the_linear_time_but_are_no_timeouts() {
        let backoff = Backoff::Linear { linear_for: Duration::from_secs(3) };
        let mut series = ExpirySeries::default();
        for _ in 0..29 {
            assert!(backoff.is_linear(&series));
            series.probed(ms(105));
        }
        assert!(!backoff.is_linear(&series));
        assert_eq!(series.timeouts(), 0);
        assert_eq!(backoff.interval(ms(200), &series, MINUTE), ms(200));
        assert_eq!(Backoff::Exponential.interval(ms(200), &series, MINUTE), ms(200));
    }

    #[test]
    fn a_measurement_ends_the_series() {
        let mut series = ExpirySeries::default();
        series.timed_out(MINUTE);
        series.measured();
        assert_eq!(Backoff::Exponential.interval(ms(1000), &series, MINUTE), ms(1000));
        assert_eq!(series.waited(), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn no_series_overflows_and_no_timer_shrinks(
            base_ns in any::<u64>(),
            waited_ns in any::<u64>(),
            timeouts in any::<u32>(),
            linear_ns in any::<u64>(),
        ) {
            let base = Duration::from_nanos(base_ns);
            let mut series = ExpirySeries { timeouts, waited: Duration::from_nanos(waited_ns) };
            series.timed_out(Duration::MAX);
            let linear = Backoff::Linear { linear_for: Duration::from_nanos(linear_ns) };
            for backoff in [Backoff::Exponential, linear] {
                let interval = backoff.interval(base, &series, MINUTE);
                prop_assert!(interval >= base);
                prop_assert!(interval <= base.max(MINUTE));
            }
        }
    }
}
