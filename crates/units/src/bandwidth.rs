//! Bandwidth in bits per second.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::quantity::{self, Unit};
use crate::{ByteCount, ParseError};

const BIT_PER_SECOND: Unit = ("bit/s", 1);

const UNITS: &[Unit] = &[BIT_PER_SECOND, ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)];

/// A data rate in bits per second. Parsed and printed with a decimal unit: `10Mbit/s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(u64);

impl Bandwidth {
    /// Creates a rate of `bits` bits per second.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the rate in bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Returns the transmission time of `size` at this rate, rounded up to a whole nanosecond.
    ///
    /// At a rate of zero nothing is ever transmitted: the result is [`Duration::MAX`], which also stands for times that
    /// do not fit into 64-bit nanoseconds.
    pub fn transmission_time(self, size: ByteCount) -> Duration {
        const BIT_NANOS_PER_BYTE_SECOND: u128 = 8 * 1_000_000_000;
        if self.0 == 0 {
            return Duration::MAX;
        }
        let nanos = (u128::from(size.bytes()) * BIT_NANOS_PER_BYTE_SECOND).div_ceil(u128::from(self.0));
        u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
    }
}

impl FromStr for Bandwidth {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let expected = ("a bandwidth in bit/s, kbit/s, Mbit/s or Gbit/s", "10Mbit/s");
        quantity::read(text, UNITS, |bits| u64::try_from(bits).ok().map(Self), expected)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from(self.0);
        let unit = quantity::largest_not_above(bits, UNITS, BIT_PER_SECOND);
        quantity::write_decimal(f, bits, unit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_unit_is_read_and_printed() {
        for (text, bits) in [
            ("0bit/s", 0),
            ("56kbit/s", 56_000),
            ("10Mbit/s", 10_000_000),
            ("1.5Mbit/s", 1_500_000),
            ("2Gbit/s", 2_000_000_000),
        ] {
            let bandwidth = Bandwidth::from_bits_per_second(bits);
            assert_eq!(text.parse(), Ok(bandwidth));
            assert_eq!(bandwidth.to_string(), text);
        }
    }

    #[test]
    fn transmission_time_is_rounded_up() {
        let rate = Bandwidth::from_bits_per_second(3);
        assert_eq!(rate.transmission_time(ByteCount::from_bytes(1)), Duration::from_nanos(2_666_666_667));
        assert_eq!(
            Bandwidth::from_bits_per_second(8_000_000_000).transmission_time(ByteCount::from_bytes(1500)),
            Duration::from_nanos(1500)
        );
        assert_eq!(rate.transmission_time(ByteCount::ZERO), Duration::ZERO);
    }

    #[test]
    fn a_rate_of_zero_never_transmits() {
        assert_eq!(Bandwidth::from_bits_per_second(0).transmission_time(ByteCount::from_bytes(1)), Duration::MAX);
        assert_eq!(
            Bandwidth::from_bits_per_second(1).transmission_time(ByteCount::from_bytes(u64::MAX)),
            Duration::MAX
        );
    }

    #[test]
    fn the_error_names_the_text_and_the_expected_form() {
        let error = "10Mbps".parse::<Bandwidth>().expect_err("not our unit");
        assert_eq!(error.text(), "10Mbps");
        assert_eq!(error.example(), "10Mbit/s");
        assert!(error.to_string().contains("a bandwidth in bit/s"));
        assert!("20000000000Gbit/s".parse::<Bandwidth>().is_err());
    }

    proptest! {
        #[test]
        fn printing_and_parsing_round_trip(bits: u64) {
            let bandwidth = Bandwidth::from_bits_per_second(bits);
            prop_assert_eq!(bandwidth.to_string().parse(), Ok(bandwidth));
        }

        #[test]
        fn transmission_never_beats_the_rate(bits in 1u64.., bytes in 0u64..1_000_000_000) {
            let time = Bandwidth::from_bits_per_second(bits)
                .transmission_time(ByteCount::from_bytes(bytes));
            prop_assume!(time != Duration::MAX);
            prop_assert!(time.as_nanos() * u128::from(bits) >= u128::from(bytes) * 8_000_000_000);
        }
    }
}
