//! Round-trip time estimation (RFC 9260 §6.3.1) and the deviation that the probe timer uses.

use festina_units::Duration;

/// Clock granularity G of RFC 9260 §6.3.1 rule G1: the resolution of the drivers' timers.
pub const CLOCK_GRANULARITY: Duration = Duration::from_millis(1);

/// SRTT, RTTVAR and related estimates from unambiguous round-trip samples.
///
/// The caller applies Karn's rule: only a transmission whose acknowledgement cannot belong to another transmission may
/// be sampled (RFC 9260 §6.3.1 C5; [`crate::spurious::judge`] determines when an early acknowledgement gives a sample
/// after all). All arithmetic is in whole nanoseconds, with RTO.Alpha = 1/8 and RTO.Beta = 1/4 (RFC 9260 §16).
/// RTO.Alpha = 1/8 and RTO.Beta = 1/4 (RFC 9260 §16).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RttEstimator {
    rto_initial_ns: u64,
    srtt_ns: u64,
    rttvar_ns: u64,
    deviation_ns: u64,
    rtt_ns_min: u64,
    rtt_ns_latest: u64,
    /// Samples taken, counted up to [`DEVIATION_SAMPLES`] + 1.
    samples: u32,
    /// Whether SRTT, RTTVAR and the deviation were assumed, with no measurement since.
    assumed: bool,
}

/// Assumed values for a round trip that was not measured, or not recently.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AssumedRoundTrip {
    /// Substitute for SRTT.
    pub srtt: Duration,
    /// Substitute for RTTVAR.
    pub rttvar: Duration,
    /// Substitute for [`RttEstimator::deviation`].
    pub deviation: Duration,
}

impl AssumedRoundTrip {
    /// Returns the values after a first sample.
    #[must_use]
    pub fn once(rtt: Duration) -> Self {
        Self { srtt: rtt, rttvar: rtt / 2, deviation: rtt / 2 }
    }

    /// Returns the longest plausible round trip. A probe timer need allow for little more.
    #[must_use]
    pub fn at_most(rtt: Duration) -> Self {
        Self { deviation: rtt / 8, ..Self::once(rtt) }
    }

    /// Returns the knowledge of an estimator, measured or assumed.
    #[must_use]
    pub fn by(rtt: &RttEstimator) -> Option<Self> {
        Some(Self { srtt: rtt.srtt()?, rttvar: rtt.rttvar()?, deviation: rtt.deviation()? })
    }

    /// Returns the values after `silence`, during which the path may have changed: RTTVAR and the deviation are at
    /// least half of SRTT after ten minutes, and proportionally less before.
    #[must_use]
    pub fn widened(self, silence: Duration) -> Self {
        let share = silence.min(FORGOTTEN_AFTER).as_millis();
        let least_ns = u128::from(saturating_nanos(self.srtt)) * share / (2 * FORGOTTEN_AFTER.as_millis());
        let least = Duration::from_nanos(u64::try_from(least_ns).unwrap_or(u64::MAX));
        Self { rttvar: self.rttvar.max(least), deviation: self.deviation.max(least), ..self }
    }
}

/// After silence of this length the knowledge is no better than after a first sample.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// Shorter silences leave the measurements unchanged.
const STALE_FROM: Duration = Duration::from_secs(10);

/// A first sample that differs from the assumption by at most this fraction of it confirms it.
const CONFIRMED_PARTS: u64 = 4;

/// Samples over which the probe deviation averages.
const DEVIATION_SAMPLES: u32 = 16;

/// Which acknowledgements measure the round-trip time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RttSampling {
    /// Karn's rule: a chunk that was sent more than once gives no measurement (RFC 9260 §6.3.1 C5).
    Unambiguous,
    /// The first SACK that acknowledges the timed chunk counts, measured from the chunk's first transmission, whether
    /// or not the chunk was retransmitted: the flaw of lksctp described in P06 §3.2, §3.3 and §5 and in P10 §7.
    ///
    /// It makes the RTO grow with every loss that a retransmission repairs. It also ends an exponential backoff as soon
    /// as a late SACK arrives (P06 §3.1), since a measurement does.
    FirstAcknowledgement,
    /// As `Unambiguous`; in addition a chunk that was sent more than once counts, from its first transmission, if the
    /// acknowledgement cannot answer a later one. There are two proofs: it followed the later one sooner than any round
    /// trip ever took, or the later ones were bundled with newer data that it does not acknowledge. Festina's own.
    /// Otherwise a sender that repeats chunks ahead of a timeout would measure next to nothing.
    Inferred,
}

/// The clock by which round-trip times are measured and averaged.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RttClock {
    /// Whole nanoseconds; RTTVAR is never below [`CLOCK_GRANULARITY`].
    Nanoseconds,
    /// Whole ticks of this length, as in lksctp in Linux 2.6, where a tick was 4 ms.
    ///
    /// Shifting right drops the fractions of a tick, so RTTVAR stops falling at three ticks at best and at seven at
    /// worst, and SRTT up to seven ticks above a steady round-trip time. The RTO stays 48 to 140 ms above it, where
    /// finer units would reduce the difference to a few.
    Ticks(Duration),
}

impl RttClock {
    /// A Linux kernel with 250 ticks per second, the default from 2.6.13 on.
    pub const LINUX_250_HZ: Self = Self::Ticks(Duration::from_millis(4));
}

impl RttEstimator {
    /// Creates an estimator without samples; `rto_initial` is RTO.Initial (RFC 9260 §6.3.1 C1).
    #[must_use]
    pub fn new(rto_initial: Duration) -> Self {
        Self {
            rto_initial_ns: saturating_nanos(rto_initial),
            srtt_ns: 0,
            rttvar_ns: 0,
            deviation_ns: 0,
            rtt_ns_min: u64::MAX,
            rtt_ns_latest: 0,
            samples: 0,
            assumed: false,
        }
    }

    /// Assumes a round trip until one is measured: a measurement of another association, an old one, or a bound.
    /// Festina's own.
    ///
    /// If the next sample differs by at most a quarter it confirms the assumption and counts as one of several;
    /// otherwise it counts as the first. Earlier samples are forgotten.
    pub fn assume(&mut self, assumed: AssumedRoundTrip) {
        let AssumedRoundTrip { srtt, rttvar, deviation } = assumed;
        *self = Self {
            srtt_ns: saturating_nanos(srtt),
            rttvar_ns: saturating_nanos(rttvar.max(CLOCK_GRANULARITY)),
            deviation_ns: saturating_nanos(deviation),
            assumed: true,
            ..Self::new(self.rto_initial())
        };
    }

    /// Assumes the longest of several possible round trips, from `shortest` to `longest`, when the answer cannot be
    /// attributed to one copy.
    pub fn assume_one_of(&mut self, shortest: Duration, longest: Duration) {
        self.assume(AssumedRoundTrip::at_most(longest));
        self.rtt_ns_min = saturating_nanos(shortest);
    }

    /// Returns the shortest and the longest possible round trip while it is one of several.
    #[must_use]
    pub fn possible(&self) -> Option<(Duration, Duration)> {
        let is_one_of = self.assumed && self.samples == 0 && self.rtt_ns_min < u64::MAX;
        is_one_of.then(|| (Duration::from_nanos(self.rtt_ns_min), Duration::from_nanos(self.srtt_ns)))
    }

    /// Records that nothing was measured for this long. After ten seconds earlier measurements are only assumptions.
    pub fn was_silent(&mut self, silence: Duration) {
        if silence >= STALE_FROM
            && let Some(known) = AssumedRoundTrip::by(self)
        {
            self.assume(known.widened(silence));
        }
    }

    /// Returns whether the round trip is assumed, with no measurement since.
    #[must_use]
    pub fn is_assumed(&self) -> bool {
        self.assumed
    }

    /// Adds an unambiguous round-trip time (RFC 9260 §6.3.1 C2, C3, G1).
    pub fn sample(&mut self, rtt: Duration) {
        let rtt_ns = saturating_nanos(rtt);
        self.rtt_ns_latest = rtt_ns;
        // An assumed bound is not a measurement.
        self.rtt_ns_min = if self.samples == 0 { rtt_ns } else { self.rtt_ns_min.min(rtt_ns) };
        // C3: RTTVAR and the deviation are updated with SRTT as it was before this sample.
        let error_ns = self.srtt_ns.abs_diff(rtt_ns);
        let confirms = core::mem::take(&mut self.assumed) && error_ns <= self.srtt_ns / CONFIRMED_PARTS;
        match self.samples {
            0 if confirms => {
                self.rttvar_ns = weigh(self.rttvar_ns, error_ns, 4);
                self.srtt_ns = weigh(self.srtt_ns, rtt_ns, 8);
                self.deviation_ns = match rtt_ns / 8 {
                    least if self.deviation_ns > least => error_ns.max(least),
                    _ => weigh(self.deviation_ns, error_ns, 4),
                };
                self.samples = 1;
            }
            0 => {
                self.srtt_ns = rtt_ns;
                self.rttvar_ns = rtt_ns / 2;
                self.deviation_ns = rtt_ns / 2;
            }
            earlier => {
                self.rttvar_ns = weigh(self.rttvar_ns, error_ns, 4);
                self.srtt_ns = weigh(self.srtt_ns, rtt_ns, 8);
                self.deviation_ns = match earlier {
                    1 => error_ns.max(rtt_ns / 8),
                    _ => weigh(self.deviation_ns, error_ns, earlier.min(DEVIATION_SAMPLES).into()),
                };
            }
        }
        self.samples = (self.samples + 1).min(DEVIATION_SAMPLES + 1);
        // G1: a clock with ticks of G reads any smaller variance as zero, and zero becomes G.
        self.rttvar_ns = self.rttvar_ns.max(saturating_nanos(CLOCK_GRANULARITY));
    }

    /// Adds a round-trip time measured with the given clock. Counted in ticks, SRTT and RTTVAR lose their fractions;
    /// the deviation, the smallest and the latest sample stay exact.
    pub fn sample_by(&mut self, clock: RttClock, rtt: Duration) {
        let RttClock::Ticks(tick) = clock else { return self.sample(rtt) };
        let tick_ns = saturating_nanos(tick).max(1);
        let ticks = |nanos: u64| nanos / tick_ns;
        // To the nearest tick: the average result of two readings of a coarse clock.
        let measured = ticks(saturating_nanos(rtt).saturating_add(tick_ns / 2));
        let (srtt, rttvar) = (ticks(self.srtt_ns), ticks(self.rttvar_ns));
        let confirms = self.assumed && self.srtt_ns.abs_diff(saturating_nanos(rtt)) <= self.srtt_ns / CONFIRMED_PARTS;
        let (srtt, rttvar) = match self.samples {
            0 if !confirms => (measured, measured >> 1),
            _ => (srtt - (srtt >> 3) + (measured >> 3), rttvar - (rttvar >> 2) + (srtt.abs_diff(measured) >> 2)),
        };
        self.sample(rtt);
        self.srtt_ns = srtt.saturating_mul(tick_ns);
        self.rttvar_ns = rttvar.max(1).saturating_mul(tick_ns);
    }

    /// Returns RTO.Initial.
    #[must_use]
    pub fn rto_initial(&self) -> Duration {
        Duration::from_nanos(self.rto_initial_ns)
    }

    /// Returns the smoothed round-trip time, once there is a sample or an assumption.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.known(self.srtt_ns)
    }

    /// Returns RTTVAR, once there is a sample or an assumption.
    #[must_use]
    pub fn rttvar(&self) -> Option<Duration> {
        self.known(self.rttvar_ns)
    }

    /// Returns the mean deviation for the probe timer, once there is a sample or an assumption. The rule is Festina's
    /// own.
    ///
    /// RTTVAR looks back over few samples and remembers its first guess (half of the first sample) for about twelve:
    /// right for a timeout that collapses cwnd, but too slow and unsteady for a probe that costs one small packet. Here
    /// the guess is replaced by the second sample, which counts for at least an eighth of the RTT. After that it is the
    /// mean of the samples, with weight 1/16 for a new sample once there are that many. There is no granularity floor.
    #[must_use]
    pub fn deviation(&self) -> Option<Duration> {
        self.known(self.deviation_ns)
    }

    /// Returns the smallest sample.
    #[must_use]
    pub fn rtt_min(&self) -> Option<Duration> {
        (self.samples > 0).then(|| Duration::from_nanos(self.rtt_ns_min))
    }

    /// Returns the latest sample.
    #[must_use]
    pub fn rtt_latest(&self) -> Option<Duration> {
        (self.samples > 0).then(|| Duration::from_nanos(self.rtt_ns_latest))
    }

    /// Returns the RTO: SRTT + 4·RTTVAR (RFC 9260 §6.3.1 C3), or RTO.Initial without a sample (C1), between `min` (C6)
    /// and `max` (C7).
    ///
    /// For backoff see [`crate::backoff::Backoff::interval`]. If `min` exceeds `max`, `max` wins.
    #[must_use]
    pub fn rto(&self, min: Duration, max: Duration) -> Duration {
        let rto_ns = match self.samples {
            0 if !self.assumed => self.rto_initial_ns,
            _ => self.srtt_ns.saturating_add(self.rttvar_ns.saturating_mul(4)),
        };
        Duration::from_nanos(rto_ns).max(min).min(max)
    }

    fn known(&self, nanos: u64) -> Option<Duration> {
        (self.samples > 0 || self.assumed).then(|| Duration::from_nanos(nanos))
    }
}

/// Returns the mean of `old` and `new` with weight 1/`parts` for `new`, rounded down, without overflow.
fn weigh(old: u64, new: u64, parts: u64) -> u64 {
    if new >= old { old + (new - old) / parts } else { old - (old - new).div_ceil(parts) }
}

fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_secs(60);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn estimator(samples: &[Duration]) -> RttEstimator {
        let mut estimator = RttEstimator::new(SECOND);
        for &rtt in samples {
            estimator.sample(rtt);
        }
        estimator
    }

    #[test]
    fn rfc_9260_6_3_1_c1_without_a_sample_the_rto_is_the_initial_one() {
        let estimator = estimator(&[]);
        assert_eq!(estimator.rto(ms(200), MINUTE), SECOND);
        assert_eq!(estimator.srtt(), None);
        assert_eq!(estimator.rtt_min(), None);
    }

    #[test]
    fn rfc_9260_6_3_1_c2_the_first_sample_sets_srtt_and_half_of_it_as_rttvar() {
        let estimator = estimator(&[ms(100)]);
        assert_eq!(estimator.srtt(), Some(ms(100)));
        assert_eq!(estimator.rttvar(), Some(ms(50)));
        assert_eq!(estimator.rto(Duration::ZERO, MINUTE), ms(300));
    }

    #[test]
    fn rfc_9260_6_3_1_c3_rttvar_is_updated_with_the_old_srtt() {
        let estimator = estimator(&[ms(100), ms(180)]);
        // RTTVAR = 3/4 * 50 + 1/4 * |100 - 180| = 57.5; SRTT = 7/8 * 100 + 1/8 * 180 = 110
        assert_eq!(estimator.rttvar(), Some(Duration::from_micros(57_500)));
        assert_eq!(estimator.srtt(), Some(ms(110)));
        assert_eq!(estimator.rto(Duration::ZERO, MINUTE), ms(340));
    }

    #[test]
    fn rfc_9260_6_3_1_c6_and_c7_the_rto_stays_between_its_bounds() {
        let estimator = estimator(&[ms(100); 50]);
        assert_eq!(estimator.rto(SECOND, MINUTE), SECOND);
        assert_eq!(estimator.rto(Duration::ZERO, ms(50)), ms(50));
    }

    #[test]
    fn rfc_9260_6_3_1_g1_an_rttvar_near_zero_becomes_the_clock_granularity() {
        let estimator = estimator(&[ms(100); 100]);
        assert_eq!(estimator.rttvar(), Some(CLOCK_GRANULARITY));
        assert_eq!(estimator.rto(Duration::ZERO, MINUTE), ms(104));
    }

    #[test]
    fn in_ticks_a_steady_round_trip_time_leaves_three_ticks_of_variance_and_seven_of_excess() {
        let mut estimator = RttEstimator::new(SECOND);
        estimator.sample_by(RttClock::LINUX_250_HZ, ms(600));
        assert_eq!((estimator.srtt(), estimator.rttvar()), (Some(ms(600)), Some(ms(300))));
        for _ in 0..200 {
            estimator.sample_by(RttClock::LINUX_250_HZ, ms(200));
        }
        // 50 ticks: SRTT stops at 55, for 55 - 55/8 + 50/8 = 55; |55 - 50|/4 = 1 keeps RTTVAR at 7, for 7 - 7/4 + 1 = 7.
        assert_eq!((estimator.srtt(), estimator.rttvar()), (Some(ms(220)), Some(ms(28))));
        for _ in 0..200 {
            estimator.sample_by(RttClock::LINUX_250_HZ, ms(220));
        }
        assert_eq!((estimator.srtt(), estimator.rttvar()), (Some(ms(220)), Some(ms(12))));
    }

    #[test]
    fn the_deviation_forgets_the_first_guess_at_the_second_sample() {
        assert_eq!(estimator(&[ms(100)]).deviation(), Some(ms(50)));
        let steady = estimator(&[ms(100), ms(100)]);
        assert_eq!(steady.deviation(), Some(Duration::from_micros(12_500)));
        assert_eq!(estimator(&[ms(100), ms(140)]).deviation(), Some(ms(40)));
    }

    #[test]
    fn the_deviation_is_the_mean_at_first_and_a_slow_average_later() {
        assert_eq!(estimator(&[ms(100), ms(180), ms(110)]).deviation(), Some(ms(40)));
        let mut settled = estimator(&[ms(100); 100]);
        let before = settled.deviation().expect("there is a sample");
        settled.sample(ms(260));
        let grown = settled.deviation().expect("there is a sample") - before;
        assert!(grown > Duration::from_micros(9_800) && grown <= ms(10), "{grown:?}");
    }

    #[test]
    fn a_round_trip_is_one_of_several_until_the_first_sample() {
        let mut estimator = RttEstimator::new(Duration::from_secs(1));
        assert_eq!(estimator.possible(), None);
        estimator.assume_one_of(ms(90), ms(300));
        assert_eq!((estimator.possible(), estimator.srtt()), (Some((ms(90), ms(300))), Some(ms(300))));
        assert_eq!(estimator.rtt_min(), None, "nothing was measured");
        estimator.sample(ms(310));
        assert_eq!((estimator.possible(), estimator.rtt_min()), (None, Some(ms(310))));
    }

    #[test]
    fn an_assumed_round_trip_stands_in_until_a_sample_comes() {
        let mut estimator = estimator(&[]);
        estimator.assume(AssumedRoundTrip::once(ms(100)));
        assert!(estimator.is_assumed());
        assert_eq!((estimator.srtt(), estimator.deviation()), (Some(ms(100)), Some(ms(50))));
        assert_eq!(estimator.rto(Duration::ZERO, MINUTE), ms(300));
        assert_eq!((estimator.rtt_min(), estimator.rtt_latest()), (None, None), "nothing was measured");
    }

    #[test]
    fn a_sample_near_the_assumed_round_trip_confirms_it_and_a_distant_one_takes_its_place() {
        let known = AssumedRoundTrip { srtt: ms(100), rttvar: ms(4), deviation: ms(2) };
        for (rtt, srtt, deviation) in [
            (108, ms(101), Duration::from_micros(3_500)),
            (104, Duration::from_micros(100_500), Duration::from_micros(2_500)),
            (200, ms(200), ms(100)),
        ] {
            let mut estimator = estimator(&[ms(30)]);
            estimator.assume(known);
            estimator.sample(ms(rtt));
            assert!(!estimator.is_assumed());
            assert_eq!((estimator.srtt(), estimator.deviation()), (Some(srtt), Some(deviation)), "{rtt} ms");
            assert_eq!(estimator.rtt_min(), Some(ms(rtt)), "earlier measurements are forgotten");
        }
    }

    #[test]
    fn an_assumption_as_after_a_first_sample_is_confirmed_as_by_a_second_one() {
        for rtt in [90, 100, 120] {
            let (mut assuming, measuring) = (RttEstimator::new(SECOND), estimator(&[ms(100), ms(rtt)]));
            assuming.assume(AssumedRoundTrip::once(ms(100)));
            assuming.sample(ms(rtt));
            assert_eq!(
                (assuming.srtt(), assuming.rttvar(), assuming.deviation()),
                (measuring.srtt(), measuring.rttvar(), measuring.deviation())
            );
        }
    }

    #[test]
    fn silence_widens_the_deviations_and_after_ten_minutes_they_are_as_after_one_sample() {
        let after = |seconds| {
            let mut estimator = estimator(&[ms(100); 200]);
            estimator.was_silent(Duration::from_secs(seconds));
            (estimator.is_assumed(), estimator.srtt(), estimator.deviation().unwrap_or_default().as_millis())
        };
        assert_eq!(after(9), (false, Some(ms(100)), 0));
        assert_eq!(after(60), (true, Some(ms(100)), 5));
        assert_eq!(after(600), (true, Some(ms(100)), 50));
        assert_eq!(after(1 << 60), (true, Some(ms(100)), 50));
        let mut unmeasured = RttEstimator::new(SECOND);
        unmeasured.was_silent(MINUTE);
        assert_eq!(unmeasured, RttEstimator::new(SECOND));
    }

    #[test]
    fn the_smallest_and_the_latest_sample_are_kept() {
        let estimator = estimator(&[ms(120), ms(90), ms(300)]);
        assert_eq!(estimator.rtt_min(), Some(ms(90)));
        assert_eq!(estimator.rtt_latest(), Some(ms(300)));
    }

    proptest! {
        #[test]
        fn any_samples_keep_srtt_between_their_extremes(
            nanos in prop::collection::vec(any::<u64>(), 1..40),
        ) {
            let samples: Vec<_> = nanos.iter().map(|&n| Duration::from_nanos(n)).collect();
            let estimator = estimator(&samples);
            let srtt = estimator.srtt().expect("there is a sample");
            // Rounding down costs less than a nanosecond per sample.
            let smallest = *samples.iter().min().expect("one sample");
            prop_assert!(srtt + Duration::from_nanos(40) >= smallest);
            prop_assert!(srtt <= *samples.iter().max().expect("one sample"));
            prop_assert!(estimator.rto(Duration::ZERO, Duration::MAX) >= srtt);
        }

        #[test]
        fn the_longest_durations_do_not_overflow(
            seconds in any::<u64>(),
            nanos in 0..1_000_000_000_u32,
        ) {
            let longest = Duration::new(seconds, nanos);
            let estimator = estimator(&[longest, Duration::ZERO, longest, Duration::MAX]);
            prop_assert!(estimator.rto(Duration::ZERO, MINUTE) <= MINUTE);
        }
    }
}
