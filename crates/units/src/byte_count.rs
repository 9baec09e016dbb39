//! Byte counts.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Sub, SubAssign};
use core::str::FromStr;

use crate::ParseError;
use crate::quantity::{self, Unit};

/// Units in the order in which printing tries them: the first that divides the value is used.
const UNITS: &[Unit] = &[
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// An amount of data in bytes. Parsed and printed with a unit: `64KiB`, `1200B`, `1MB`.
///
/// The operators saturate, so a byte counter never panics and never wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteCount(u64);

impl ByteCount {
    /// Zero bytes.
    pub const ZERO: Self = Self(0);

    /// The largest representable amount; as a limit it is never reached.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates an amount of `bytes` bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns the number of bytes in a buffer of length `len`.
    pub const fn from_len(len: usize) -> Self {
        // `usize` has at most 64 bits on every target that Rust supports, so the cast is lossless.
        Self(len as u64)
    }

    /// Returns the amount in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl Add for ByteCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for ByteCount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for ByteCount {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for ByteCount {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for ByteCount {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::ZERO, Add::add)
    }
}

impl FromStr for ByteCount {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let expected = ("a byte count in B, kB, MB, GB, KiB, MiB or GiB", "64KiB");
        quantity::read(text, UNITS, |bytes| u64::try_from(bytes).ok().map(Self), expected)
    }
}

/// Prints a whole number of the largest binary unit that divides the amount, otherwise of the largest such decimal
/// unit.
impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = u128::from(self.0);
        for (name, factor) in UNITS {
            if bytes != 0 && bytes.is_multiple_of(*factor) {
                return f.pad(&format!("{}{name}", bytes / factor));
            }
        }
        f.pad("0B")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, bytes) in [
            ("0B", 0),
            ("1200B", 1_200),
            ("1.2kB", 1_200),
            ("64KiB", 65_536),
            ("1.5KiB", 1_536),
            ("1MB", 1_000_000),
            ("3MiB", 3_145_728),
            ("2GB", 2_000_000_000),
            ("1GiB", 1_073_741_824),
        ] {
            assert_eq!(text.parse(), Ok(ByteCount::from_bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn whole_units_are_printed() {
        for (bytes, text) in
            [(0, "0B"), (1_200, "1200B"), (65_536, "64KiB"), (73_000, "73kB"), (1_000_000, "1MB"), (1 << 20, "1MiB")]
        {
            assert_eq!(ByteCount::from_bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn the_error_names_the_text_and_the_expected_form() {
        let error = "64kib".parse::<ByteCount>().expect_err("units are case-sensitive");
        assert_eq!(
            error.to_string(),
            "\"64kib\" is not a byte count in B, kB, MB, GB, KiB, MiB or GiB; \
             write for example \"64KiB\""
        );
        assert!("0.3B".parse::<ByteCount>().is_err());
    }

    #[test]
    fn arithmetic_saturates() {
        let one = ByteCount::from_bytes(1);
        assert_eq!(ByteCount::MAX + one, ByteCount::MAX);
        assert_eq!(ByteCount::ZERO - one, ByteCount::ZERO);
        assert_eq!([one, one].into_iter().sum::<ByteCount>(), ByteCount::from_len(2));
    }

    proptest! {
        #[test]
        fn printing_and_parsing_round_trip(bytes: u64) {
            let count = ByteCount::from_bytes(bytes);
            prop_assert_eq!(count.to_string().parse(), Ok(count));
        }
    }
}
