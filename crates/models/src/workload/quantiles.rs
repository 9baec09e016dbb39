//! Distributions given by their quantiles, and the exponential function, both on integers.

use festina_netsim::RandomStream;

/// A value at a cumulative probability in parts per million.
pub(super) type Knot = (u32, u64);

/// Parts per million in one.
const MILLION: u32 = 1_000_000;

/// A distribution whose quantile function is linear between knots. The first knot is at probability 0, the last at one million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quantiles(pub(super) &'static [Knot]);

impl Quantiles {
    /// A sample, by inversion of a uniform number with a resolution of 10^-12.
    pub(super) fn sample(self, random: &mut RandomStream) -> u64 {
        const STEPS: u64 = 1_000_000;
        let uniform = random.below(u64::from(MILLION) * STEPS);
        let above = self.0.partition_point(|&(probability, _)| u64::from(probability) * STEPS <= uniform);
        let (Some(&low), Some(&high)) = (self.0.get(above.saturating_sub(1)), self.0.get(above)) else {
            return self.0.last().map_or(0, |&(_, value)| value);
        };
        let into = u128::from(uniform - u64::from(low.0) * STEPS);
        let width = u128::from(high.0 - low.0) * u128::from(STEPS);
        // Rounded to the nearest, so that whole bytes keep the mean.
        let rise = (u128::from(high.1 - low.1) * into + width / 2) / width;
        low.1 + u64::try_from(rise).unwrap_or(u64::MAX)
    }
}

/// 2 to the power of `exponent` in units of 2^-32; saturates.
pub(super) fn exp2_q32(exponent_q32: u64) -> u64 {
    const LN_2_Q62: u128 = 3_196_577_161_300_663_915;
    let whole = exponent_q32 >> 32;
    if whole >= 31 {
        return u64::MAX;
    }
    let fraction_q32 = u128::from(exponent_q32 & 0xffff_ffff);
    let x_q62 = (LN_2_Q62 * fraction_q32) >> 32;
    // The series of e^x; x is below 0.7, so twenty terms are far below the last digit.
    let (mut sum, mut term) = (1u128 << 62, 1u128 << 62);
    for n in 1..20u128 {
        term = ((term * x_q62) >> 62) / n;
        sum += term;
    }
    u64::try_from(sum >> 30).unwrap_or(u64::MAX) << whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_exact_and_fractions_close() {
        for whole in 0..31 {
            assert_eq!(exp2_q32(whole << 32), 1 << (32 + whole));
        }
        for exponent in [0.5_f64, 0.123, 3.999, 15.96] {
            let scale = 4_294_967_296.0;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small positive test values")]
            let got = exp2_q32((exponent * scale) as u64) as f64 / scale;
            assert!((got / exponent.exp2() - 1.0).abs() < 1e-8, "{exponent}: {got}");
        }
        assert_eq!(exp2_q32(31 << 32), u64::MAX);
    }

    #[test]
    fn a_quantile_function_is_met_between_its_knots() {
        let quantiles = Quantiles(&[(0, 10), (500_000, 20), (500_001, 1_000), (1_000_000, 1_000)]);
        let mut random = RandomStream::new(1, "quantiles");
        let mut samples: Vec<u64> = (0..100_000).map(|_| quantiles.sample(&mut random)).collect();
        samples.sort_unstable();
        assert_eq!((samples[0], samples[99_999]), (10, 1_000));
        assert!(samples[25_000].abs_diff(15) <= 1, "{}", samples[25_000]);
        let at_most_20 = samples.partition_point(|&sample| sample <= 20);
        assert!(at_most_20.abs_diff(50_000) < 600, "{at_most_20}");
    }
}
