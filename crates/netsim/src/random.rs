//! Named random streams and integer-only samplers.
//!
//! Each component of a simulation draws from its own stream, which depends only on the seed and the stream's name. So
//! adding or removing a component does not change the numbers of any other. The samplers use no floating point, so they
//! agree on every machine.

use festina_units::{Duration, Probability, duration};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A sequence of random numbers determined by a seed and a name (xoshiro256++).
#[derive(Debug, Clone)]
pub struct RandomStream(Xoshiro256PlusPlus);

impl RandomStream {
    /// Creates the stream called `name` of `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        let state = mix(mix(seed) ^ fnv_1a(name.as_bytes()));
        Self(Xoshiro256PlusPlus::seed_from_u64(state))
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a uniform number in `0..n`, without bias; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // Lemire 2019: the high half of a 64 x 64 bit product is uniform if the low halves that would make some results
        // too frequent are rejected.
        let refused_below = n.wrapping_neg().checked_rem(n).unwrap_or(0);
        loop {
            let (high, low) = wide_product(self.bits(), n);
            if low >= refused_below {
                return high;
            }
        }
    }

    /// Returns true with this probability. Always takes exactly one sample.
    pub fn chance(&mut self, probability: Probability) -> bool {
        self.below(PARTS_PER_BILLION) < u64::from(probability.ppb())
    }

    /// Returns a uniform number of nanoseconds in `-range..=range`.
    pub fn symmetric_nanos(&mut self, range: Duration) -> i64 {
        let range = i64_nanos(range);
        let span = range.unsigned_abs().saturating_mul(2).saturating_add(1);
        range.saturating_sub_unsigned(self.below(span))
    }

    /// Returns a duration from the exponential distribution with this mean.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        let nanos = u128::from(duration::saturating_nanos(mean)) * u128::from(self.standard_exponential_q32());
        Duration::from_nanos(u64::try_from(nanos >> 32).unwrap_or(u64::MAX))
    }

    /// Returns nanoseconds from the normal distribution with mean zero and this standard deviation.
    pub fn normal_nanos(&mut self, std_dev: Duration) -> i64 {
        // Kahn's rejection: an exponential X kept with probability exp(-(X-1)^2/2) is half a normal.
        let magnitude_q32 = loop {
            let x = self.standard_exponential_q32();
            let y = self.standard_exponential_q32();
            let from_one = u128::from(x.abs_diff(1 << 32));
            if u128::from(y) << 33 >= from_one * from_one {
                break x;
            }
        };
        let nanos = (u128::from(duration::saturating_nanos(std_dev)) * u128::from(magnitude_q32)) >> 32;
        let magnitude = i64::try_from(nanos).unwrap_or(i64::MAX);
        if self.bits() >> 63 == 0 { magnitude } else { -magnitude }
    }

    /// Returns a sample of the exponential distribution with mean one, in units of 2^-32: minus the natural logarithm
    /// of a uniform number in (0, 1].
    fn standard_exponential_q32(&mut self) -> u64 {
        const LN_2_Q32: u64 = 2_977_044_472;
        let Some(uniform) = self.bits().checked_add(1) else {
            return 0; // -ln 1
        };
        let minus_log2_q32 = (64 << 32) - log2_q32(uniform);
        let (high, low) = wide_product(minus_log2_q32, LN_2_Q32);
        high << 32 | low >> 32
    }
}

const PARTS_PER_BILLION: u64 = 1_000_000_000;

/// Returns the base-2 logarithm of `x`, which is not zero, in units of 2^-32, rounded down.
fn log2_q32(x: u64) -> u64 {
    let integer_part = u64::from(x.ilog2());
    // One squaring doubles the logarithm and thereby shifts its next binary digit before the point.
    let mut mantissa_q63 = x << x.leading_zeros();
    let mut fraction_q32 = 0;
    for _ in 0..32 {
        let (high, low) = wide_product(mantissa_q63, mantissa_q63);
        let at_least_two = high >> 63;
        fraction_q32 = fraction_q32 << 1 | at_least_two;
        mantissa_q63 = if at_least_two == 1 { high } else { high << 1 | low >> 63 };
    }
    integer_part << 32 | fraction_q32
}

/// Splits a product into its high and low 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "the truncation separates the halves")]
fn wide_product(a: u64, b: u64) -> (u64, u64) {
    let product = u128::from(a) * u128::from(b);
    ((product >> 64) as u64, product as u64)
}

fn i64_nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// The FNV-1a hash (64 bits), used only to distinguish names.
fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The finalizer of SplitMix64: a bijection in which every input bit affects every output bit.
fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: u32 = 100_000;

    fn stream() -> RandomStream {
        RandomStream::new(42, "test")
    }

    #[test]
    fn a_stream_depends_on_seed_and_name_only() {
        let numbers = |seed, name| {
            let mut stream = RandomStream::new(seed, name);
            [stream.bits(), stream.bits(), stream.bits()]
        };
        assert_eq!(numbers(1, "loss"), numbers(1, "loss"));
        assert_ne!(numbers(1, "loss"), numbers(2, "loss"));
        assert_ne!(numbers(1, "loss"), numbers(1, "delay"));
        assert_ne!(numbers(0, ""), numbers(1, ""));
    }

    #[test]
    fn the_numbers_are_the_same_on_every_machine_and_release() {
        let mut stream = stream();
        let drawn = (
            stream.bits(),
            stream.below(1_000),
            stream.exponential(Duration::from_secs(1)).as_nanos(),
            stream.normal_nanos(Duration::from_secs(1)),
        );
        assert_eq!(drawn, (9_378_576_673_521_880_717, 512, 490_994_163, 538_370_362));
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut stream = stream();
        let mut hits = [0u32; 7];
        for _ in 0..SAMPLES {
            hits[usize::try_from(stream.below(7)).expect("less than seven")] += 1;
        }
        let expected = SAMPLES / 7;
        for hit in hits {
            assert!(hit.abs_diff(expected) < expected / 20, "{hits:?}");
        }
        assert_eq!(stream.below(0), 0);
        assert_eq!(stream.below(1), 0);
    }

    #[test]
    fn chance_obeys_its_probability_and_is_sure_at_the_ends() {
        let mut stream = stream();
        let hits = (0..SAMPLES).filter(|_| stream.chance(Probability::from_percent(5))).count();
        assert!((4_800..5_200).contains(&hits), "{hits}");
        assert!((0..1_000).all(|_| stream.chance(Probability::ONE)));
        assert!(!(0..1_000).any(|_| stream.chance(Probability::ZERO)));
    }

    #[test]
    fn log2_is_exact_at_powers_of_two_and_close_between() {
        assert_eq!(log2_q32(1), 0);
        assert_eq!(log2_q32(1 << 40), 40 << 32);
        for x in [3u64, 10, 12_345, u64::MAX] {
            let exact = (x as f64).log2() * 4_294_967_296.0;
            assert!((log2_q32(x) as f64 - exact).abs() < 256.0, "{x}");
        }
    }

    #[test]
    fn exponential_samples_have_the_mean_and_the_median_of_the_distribution() {
        let mut stream = stream();
        let mean = Duration::from_millis(100);
        let mut samples: Vec<_> = (0..SAMPLES).map(|_| stream.exponential(mean)).collect();
        samples.sort();
        let sum: Duration = samples.iter().sum();
        let average_us = (sum / SAMPLES).as_micros();
        assert!((99_000..101_000).contains(&average_us), "{average_us}");
        let median_us = samples[samples.len() / 2].as_micros();
        assert!((68_300..70_300).contains(&median_us), "{median_us}");
    }

    #[test]
    fn normal_samples_have_the_shares_of_the_distribution() {
        let mut stream = stream();
        let std_dev = Duration::from_nanos(1_000_000);
        let samples: Vec<i64> = (0..SAMPLES).map(|_| stream.normal_nanos(std_dev)).collect();
        let mean = samples.iter().sum::<i64>() / i64::from(SAMPLES);
        assert!(mean.abs() < 10_000, "{mean}");
        for (sigmas, expected) in [(1, 68_270), (2, 95_450), (3, 99_730)] {
            let within = samples.iter().filter(|sample| sample.abs() <= sigmas * 1_000_000).count();
            assert!(within.abs_diff(expected) < 500, "{sigmas} sigma: {within}");
        }
    }

    #[test]
    fn symmetric_samples_stay_in_range_and_reach_both_ends() {
        let mut stream = stream();
        let samples: Vec<i64> = (0..1_000).map(|_| stream.symmetric_nanos(Duration::from_nanos(3))).collect();
        assert_eq!(samples.iter().min(), Some(&-3));
        assert_eq!(samples.iter().max(), Some(&3));
        assert_eq!(stream.symmetric_nanos(Duration::ZERO), 0);
    }

    #[test]
    fn extreme_parameters_saturate() {
        let mut stream = stream();
        for _ in 0..100 {
            assert!(stream.exponential(Duration::MAX) > Duration::from_secs(1));
            assert_eq!(stream.exponential(Duration::ZERO), Duration::ZERO);
            assert_ne!(stream.normal_nanos(Duration::MAX), 0);
            let _ = stream.symmetric_nanos(Duration::MAX);
        }
    }
}
