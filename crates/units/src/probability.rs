//! Probabilities in parts per billion.

use core::fmt;
use core::str::FromStr;

use crate::ParseError;
use crate::quantity::{self, Unit};

const PERCENT: Unit = ("%", 10_000_000);

const UNITS: &[Unit] = &[PERCENT, ("", PARTS_IN_ONE as u128)];

const PARTS_IN_ONE: u32 = 1_000_000_000;

/// A probability between zero and one, in parts per billion. Parsed from `5%` or `0.05`, printed as `5%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Probability(u32);

impl Probability {
    /// Probability 0.
    pub const ZERO: Self = Self(0);

    /// Probability 1.
    pub const ONE: Self = Self(PARTS_IN_ONE);

    /// Creates a probability of `ppb` parts per billion, at most [`Probability::ONE`].
    pub const fn from_ppb(ppb: u32) -> Self {
        if ppb > PARTS_IN_ONE { Self::ONE } else { Self(ppb) }
    }

    /// Creates a probability of `percent` per cent, at most [`Probability::ONE`].
    pub const fn from_percent(percent: u32) -> Self {
        Self::from_ppb(percent.saturating_mul(PARTS_IN_ONE / 100))
    }

    /// Returns the parts per billion, from 0 to 1,000,000,000.
    pub const fn ppb(self) -> u32 {
        self.0
    }

    /// Returns the probability as a fraction of one, for reports.
    pub fn as_fraction(self) -> f64 {
        f64::from(self.0) / f64::from(PARTS_IN_ONE)
    }
}

impl FromStr for Probability {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let fit = |ppb| u32::try_from(ppb).ok().filter(|ppb| *ppb <= PARTS_IN_ONE).map(Self);
        let expected = "a probability from 0% to 100%, or from 0 to 1, in whole parts per billion";
        quantity::read(text, UNITS, fit, (expected, "5%"))
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        quantity::write_decimal(f, u128::from(self.0), PERCENT)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn per_cent_and_fractions_are_read() {
        for (text, ppb) in [
            ("5%", 50_000_000),
            ("0.05", 50_000_000),
            ("0", 0),
            ("1", 1_000_000_000),
            ("100%", 1_000_000_000),
            ("0.0855%", 855_000),
            ("0.0000001%", 1),
        ] {
            assert_eq!(text.parse(), Ok(Probability::from_ppb(ppb)), "{text}");
        }
    }

    #[test]
    fn per_cent_are_printed() {
        assert_eq!(Probability::from_percent(5).to_string(), "5%");
        assert_eq!(Probability::from_ppb(855_000).to_string(), "0.0855%");
        assert_eq!(Probability::ONE.to_string(), "100%");
        assert_eq!(Probability::ZERO.to_string(), "0%");
    }

    #[test]
    fn values_above_one_are_clamped_in_code_and_rejected_in_text() {
        assert_eq!(Probability::from_ppb(u32::MAX), Probability::ONE);
        assert_eq!(Probability::from_percent(101), Probability::ONE);
        let error = "5".parse::<Probability>().expect_err("five is above one");
        assert_eq!(error.text(), "5");
        assert!(error.to_string().contains("from 0% to 100%"));
        assert!("100.1%".parse::<Probability>().is_err());
        assert!("0.00000000001".parse::<Probability>().is_err());
    }

    #[test]
    fn the_fraction_is_the_ppb_over_a_billion() {
        assert!((Probability::from_percent(5).as_fraction() - 0.05).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn printing_and_parsing_round_trip(ppb in 0u32..=1_000_000_000) {
            let probability = Probability::from_ppb(ppb);
            prop_assert_eq!(probability.to_string().parse(), Ok(probability));
        }
    }
}
