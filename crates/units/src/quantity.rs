//! Parsing and printing decimal numbers with a unit, with integer arithmetic only.

use std::fmt;

use crate::ParseError;

/// The name of a unit and its size in base units.
pub(crate) type Unit = (&'static str, u128);

/// Parses `text` as a value that `fit` makes of a count of base units.
///
/// # Errors
/// If the text is not `expected`, like `example`, or if the count does not fit: it is too large then.
pub(crate) fn read<T>(
    text: &str,
    units: &[Unit],
    fit: impl FnOnce(u128) -> Option<T>,
    (expected, example): (&'static str, &'static str),
) -> Result<T, ParseError> {
    let count = parse(text, units).ok_or_else(|| ParseError::new(text, expected, example))?;
    fit(count).ok_or_else(|| ParseError::too_large(text, expected, example))
}

/// Parses `text`, a decimal number followed by the name of one of `units`, as a count of base units, at most [`u128::MAX`]. Blanks around the
/// number are allowed. Returns `None` if the text has another form, or is not a whole number of base units.
fn parse(text: &str, units: &[Unit]) -> Option<u128> {
    let text = text.trim();
    let number_len = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at_checked(number_len)?;
    let unit = unit.trim_start();
    let &(_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    scaled(number, factor)
}

/// Returns `number` times `factor` if that is a whole number.
fn scaled(number: &str, factor: u128) -> Option<u128> {
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (number, ""),
    };
    if whole.is_empty() {
        return None;
    }
    // Digits alone fail only by their number.
    let whole = whole.parse::<u128>().unwrap_or(u128::MAX).saturating_mul(factor);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        return Some(whole);
    }
    let denominator = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let numerator = fraction.parse::<u128>().ok()?.checked_mul(factor)?;
    if !numerator.is_multiple_of(denominator) {
        return None;
    }
    Some(whole.saturating_add(numerator / denominator))
}

/// Writes `value` base units exactly, as a decimal number of `unit`, whose factor is a power of ten.
pub(crate) fn write_decimal(f: &mut fmt::Formatter<'_>, value: u128, (name, factor): Unit) -> fmt::Result {
    let fraction = value % factor;
    if fraction == 0 {
        return f.pad(&format!("{}{name}", value / factor));
    }
    let width = factor.ilog10() as usize;
    let digits = format!("{fraction:0width$}");
    let digits = digits.trim_end_matches('0');
    f.pad(&format!("{}.{digits}{name}", value / factor))
}

/// Returns the last of `units`, in ascending order, that is not larger than `value`; the first if all are larger.
pub(crate) fn largest_not_above(value: u128, units: &[Unit], smallest: Unit) -> Unit {
    units.iter().rev().find(|(_, factor)| *factor <= value).copied().unwrap_or(smallest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: &[Unit] = &[("g", 1), ("kg", 1000)];

    #[test]
    fn a_fraction_is_exact_or_refused() {
        assert_eq!(parse("1.25kg", UNITS), Some(1250));
        assert_eq!(parse("1.2500000kg", UNITS), Some(1250));
        assert_eq!(parse("0.0001kg", UNITS), None);
        assert_eq!(parse("1.0g", UNITS), Some(1));
    }

    #[test]
    fn blanks_around_the_number_are_allowed() {
        assert_eq!(parse("  3 kg ", UNITS), Some(3000));
    }

    #[test]
    fn malformed_numbers_are_refused() {
        for text in ["", "kg", ".5kg", "5.kg", "1.2.3kg", "-1kg", "+1kg", "1e3g", "5", "5 lb", "5kg5", "½kg"] {
            assert_eq!(parse(text, UNITS), None, "{text}");
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_too_large() {
        let digits = "9".repeat(60);
        let read = |text: &str| read(text, UNITS, |grams| u64::try_from(grams).ok(), ("a mass", "1kg"));
        for text in [format!("{digits}kg"), format!("{}kg", u128::MAX), format!("{}g", u128::from(u64::MAX) + 1)] {
            let error = read(&text).expect_err("it does not fit").to_string();
            assert_eq!(error, format!("\"{text}\" is too large for a mass; write for example \"1kg\""));
        }
        assert!(read(&format!("0.{digits}kg")).is_err_and(|error| error.to_string().contains("is not a mass")));
    }
}
