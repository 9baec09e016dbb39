//! Parsers of option values, and lists of names for help texts.

use std::fmt::Display;
use std::num::IntErrorKind;
use std::ops::RangeInclusive;
use std::time::Duration;

use festina_units::{ByteCount, duration};

pub(crate) use crate::usage::UsageError;

/// The names of all `items`, as in help texts: "a, b or c".
pub(crate) fn one_of(items: &[impl ToString]) -> String {
    listed(items, "or")
}

/// As [`one_of`], with `word` before the last name.
pub(crate) fn listed(items: &[impl ToString], word: &str) -> String {
    let names: Vec<String> = items.iter().map(ToString::to_string).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} {word} {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// Returns the name that is most similar to a mistyped one, by the same measure as for flags.
pub(crate) fn most_similar<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let rated = names.map(|name| (strsim::jaro(typed, name), name)).filter(|&(likeness, _)| likeness > 0.8);
    rated.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, name)| name)
}

/// Longer times could overflow the clock.
const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Reads a duration; zero is allowed.
pub(crate) fn any_duration(text: &str) -> Result<Duration, String> {
    match duration::parse(text).map_err(|error| error.to_string())? {
        duration if duration > DURATION_MAX => Err("it is longer than a year".to_owned()),
        duration => Ok(duration),
    }
}

/// Reads a size in this range: a number of bytes, or a number with a unit such as 64KiB.
pub(crate) fn size<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: TryFrom<u64> + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let bytes = match text.parse::<u64>() {
            Ok(bytes) => bytes,
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => return Err(too_large()),
            Err(_) => text.parse::<ByteCount>().map_err(|error| error.to_string())?.bytes(),
        };
        match T::try_from(bytes) {
            Ok(bytes) if range.contains(&bytes) => Ok(bytes),
            _ => Err(format!("{bytes} is not in {}..={}", range.start(), range.end())),
        }
    }
}

fn too_large() -> String {
    format!("it is too large: at most {} is possible", u64::MAX)
}

/// Reads a number above zero.
pub(crate) fn positive_number(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number @ 1..) => Ok(number),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Err(too_large()),
        _ => Err("it is no whole number above zero".to_owned()),
    }
}

/// Reads a duration above zero.
pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    match any_duration(text)? {
        Duration::ZERO => Err("it must be longer than zero".to_owned()),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_as_a_sentence_has_them() {
        assert_eq!(one_of(&["a", "b", "c"]), "a, b or c");
        assert_eq!(listed(&["a", "b"], "and"), "a and b");
        assert_eq!(one_of(&["a"]), "a");
    }

    #[test]
    fn a_number_that_is_too_large_is_called_so() {
        let digits = "9".repeat(20);
        for problem in [
            positive_number(&digits).expect_err("too large"),
            positive_duration(&format!("{digits}s")).expect_err("too large"),
            size(1..=9_u64)(&digits).expect_err("too large"),
            size(1..=9_u64)(&format!("{digits}kB")).expect_err("too large"),
        ] {
            assert!(problem.contains("is too large") && !problem.contains(" no "), "{problem}");
        }
        assert_eq!(positive_number("0"), Err("it is no whole number above zero".to_owned()));
    }
}
