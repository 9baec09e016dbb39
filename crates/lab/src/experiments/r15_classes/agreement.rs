//! How well two divisions of the same things agree.

use std::collections::BTreeMap;

use crate::count::as_f64;

/// The adjusted Rand index (Hubert and Arabie 1985): pairs that both divisions put together, over what chance would, so that 1 is the same
/// division and 0 is what chance gives. Two divisions that put everything together agree.
pub(super) fn adjusted_rand_index(one: &[usize], other: &[usize]) -> f64 {
    let pairs = |count: u64| as_f64(count) * (as_f64(count) - 1.0) / 2.0;
    let sum = |counts: BTreeMap<(usize, usize), u64>| counts.into_values().map(pairs).sum::<f64>();
    let both = sum(counts(one.iter().copied().zip(other.iter().copied())));
    let [of_one, of_other] = [one, other].map(|labels| sum(counts(labels.iter().map(|label| (*label, 0)))));
    let expected = of_one * of_other / pairs(one.len() as u64).max(1.0);
    let most = f64::midpoint(of_one, of_other);
    if (most - expected).abs() < 1e-12 { 1.0 } else { (both - expected) / (most - expected) }
}

fn counts(labels: impl Iterator<Item = (usize, usize)>) -> BTreeMap<(usize, usize), u64> {
    let mut counts = BTreeMap::new();
    for label in labels {
        *counts.entry(label).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_division_under_other_names_agrees_and_one_that_crosses_it_does_not() {
        let index = |one: &[usize], other: &[usize]| adjusted_rand_index(one, other);
        assert!((index(&[0, 0, 1, 1, 2], &[7, 7, 3, 3, 1]) - 1.0).abs() < 1e-12);
        assert!((index(&[0, 0, 0], &[1, 1, 1]) - 1.0).abs() < 1e-12);
        // No pair is together in both, where chance would put (2 · 2) / 6 = 2/3 of a pair: (0 - 2/3) / (2 - 2/3).
        assert!((index(&[0, 0, 1, 1], &[0, 1, 0, 1]) + 0.5).abs() < 1e-12);
    }
}
