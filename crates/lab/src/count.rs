//! Counts as numbers that can be divided.

/// The count as a floating-point number; exact below 2^53, which no run comes near.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53, and only reports use the result")]
pub(crate) fn as_f64(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_every_width_keep_their_value() {
        let numbers = [as_f64(7_u32), as_f64(7_u64), as_f64(7_usize)];
        assert!(numbers.iter().all(|number| number.total_cmp(&7.0).is_eq()), "{numbers:?}");
        assert!((as_f64((1_u64 << 53) - 1) - 9_007_199_254_740_991.0).abs() < 0.5);
    }
}
