//! Parses and prints [`Duration`] as text with a unit: `10us`, `250ms`, `1.5s`, `2m`, `1h`.

use core::fmt;
use core::time::Duration;

use crate::ParseError;
use crate::quantity::{self, Unit};

const NANOSECOND: Unit = ("ns", 1);
const SECOND: Unit = ("s", 1_000_000_000);
const MINUTE: Unit = ("m", 60 * 1_000_000_000);
const HOUR: Unit = ("h", 3_600 * 1_000_000_000);

/// Units for durations with a fraction, as ascending powers of ten.
const DECIMAL_UNITS: &[Unit] = &[NANOSECOND, ("us", 1_000), ("ms", 1_000_000), SECOND];

const ALL_UNITS: &[Unit] =
    &[NANOSECOND, ("us", 1_000), ("µs", 1_000), ("ms", 1_000_000), SECOND, MINUTE, ("min", MINUTE.1), HOUR];

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// Parses a duration such as `250ms`, `1.5s`, `10us`, `2m` or `1h`; a plain `0` needs no unit.
///
/// # Errors
/// If the text is not a number with one of the units ns, us, ms, s, m and h, is not a whole number of nanoseconds, or
/// exceeds [`Duration::MAX`].
pub fn parse(text: &str) -> Result<Duration, ParseError> {
    if text.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    quantity::read(text, ALL_UNITS, from_nanos, ("a duration in ns, us, ms, s, m or h", "250ms"))
}

/// Returns a value that prints `duration` exactly, so that [`parse`] returns the same duration.
///
/// Whole hours and whole minutes are printed as such. Everything else is printed in the largest of s, ms, us and ns
/// that is not longer than the duration, with as many decimals as needed.
pub fn display(duration: Duration) -> impl fmt::Display {
    DisplayDuration(duration)
}

/// Returns `duration` in nanoseconds, at most `u64::MAX` (584 years).
pub fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

struct DisplayDuration(Duration);

impl fmt::Display for DisplayDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        if nanos == 0 {
            return f.pad("0s");
        }
        for (name, factor) in [HOUR, MINUTE] {
            if nanos.is_multiple_of(factor) {
                return f.pad(&format!("{}{name}", nanos / factor));
            }
        }
        let unit = quantity::largest_not_above(nanos, DECIMAL_UNITS, NANOSECOND);
        quantity::write_decimal(f, nanos, unit)
    }
}

fn from_nanos(nanos: u128) -> Option<Duration> {
    let secs = u64::try_from(nanos / NANOS_PER_SEC).ok()?;
    let subsec_nanos = u32::try_from(nanos % NANOS_PER_SEC).ok()?;
    Some(Duration::new(secs, subsec_nanos))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, expected) in [
            ("7ns", Duration::from_nanos(7)),
            ("10us", Duration::from_micros(10)),
            ("10µs", Duration::from_micros(10)),
            ("250ms", Duration::from_millis(250)),
            ("1.5s", Duration::from_millis(1_500)),
            ("0.1 s", Duration::from_millis(100)),
            ("2m", Duration::from_secs(120)),
            ("2min", Duration::from_secs(120)),
            ("1h", Duration::from_secs(3_600)),
            ("0", Duration::ZERO),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn the_shortest_exact_text_is_printed() {
        for (duration, expected) in [
            (Duration::ZERO, "0s"),
            (Duration::from_nanos(1_500), "1.5us"),
            (Duration::from_millis(250), "250ms"),
            (Duration::from_millis(1_500), "1.5s"),
            (Duration::from_secs(90), "90s"),
            (Duration::from_secs(120), "2m"),
            (Duration::from_secs(7_200), "2h"),
        ] {
            assert_eq!(display(duration).to_string(), expected);
        }
        assert_eq!(format!("{:>8}", display(Duration::from_millis(5))), "     5ms");
    }

    #[test]
    fn the_error_names_the_text_and_the_expected_form() {
        let error = parse("5 parsecs").expect_err("a parsec is not a unit of time");
        assert_eq!(
            error.to_string(),
            "\"5 parsecs\" is not a duration in ns, us, ms, s, m or h; write for example \"250ms\""
        );
        assert!(parse("0.5ns").is_err());
        assert!(parse("18446744073709551616s").is_err());
    }

    #[test]
    fn nanoseconds_saturate_instead_of_wrapping() {
        assert_eq!(saturating_nanos(Duration::from_secs(1)), 1_000_000_000);
        assert_eq!(saturating_nanos(Duration::MAX), u64::MAX);
    }

    proptest! {
        #[test]
        fn printing_and_parsing_round_trip(secs: u64, nanos in 0u32..1_000_000_000) {
            let duration = Duration::new(secs, nanos);
            prop_assert_eq!(parse(&display(duration).to_string()), Ok(duration));
        }

        #[test]
        fn short_durations_round_trip(nanos in 0u64..100_000_000_000) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&display(duration).to_string()), Ok(duration));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,40}") {
            let _ = parse(&text);
        }
    }
}
