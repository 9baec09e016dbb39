//! Compares counts and means of a published table, which come from one run, with ours.

use statrs::distribution::{ChiSquared, ContinuousCDF, StudentsT};

use super::Estimate;
use crate::count::as_f64;
use crate::summary::Repeated;

/// The distance between two sets of counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChiSquare {
    /// The statistic of homogeneity.
    pub statistic: f64,
    /// Degrees of freedom.
    pub freedom: f64,
    /// How probable so large a statistic is if both have the same shares.
    pub p: f64,
}

impl ChiSquare {
    /// Compares the shares of classes in two samples. `None` if a sample is empty, fewer than two classes occur, or a class is so rare that less than
    /// one is expected in a sample: the statistic then has another distribution.
    pub fn of(one: &[f64], other: &[f64]) -> Option<Self> {
        let sums = [one.iter().sum::<f64>(), other.iter().sum::<f64>()];
        let all = sums[0] + sums[1];
        let classes: Vec<(f64, f64)> = one.iter().copied().zip(other.iter().copied()).collect();
        let occurring = classes.iter().filter(|(one, other)| one + other > 0.0);
        let freedom = as_f64(occurring.clone().count()) - 1.0;
        let is_too_rare = |(one, other): &(f64, f64)| (one + other) * sums[0].min(sums[1]) < all;
        if sums.contains(&0.0) || freedom < 1.0 || occurring.clone().any(is_too_rare) {
            return None;
        }
        let part = |seen: f64, sum: f64, both: f64| {
            let expected = both * sum / all;
            (seen - expected).powi(2) / expected
        };
        let statistic = occurring
            .map(|(one, other)| part(*one, sums[0], one + other) + part(*other, sums[1], one + other))
            .sum::<f64>();
        let p = ChiSquared::new(freedom).ok()?.sf(statistic);
        Some(Self { statistic, freedom, p })
    }
}

/// As `χ² = 3.1, 3 degrees of freedom, p = 0.38`.
impl std::fmt::Display for ChiSquare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { statistic, freedom, p } = self;
        let p = if *p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") };
        write!(f, "χ² = {statistic:.1}, {freedom:.0} degrees of freedom, {p}")
    }
}

/// A published number of one run among ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneRun {
    /// Distance of the published number from the mean of our runs, in standard deviations.
    pub z: f64,
    /// Ours over the published number, with an interval that holds the chance of both: the published run varies as ours do.
    pub ratio: Estimate,
    /// Half the width of the interval that holds 95% of single runs such as the published one, in the unit of the number.
    pub published_half_width: f64,
}

impl OneRun {
    /// Compares a published number with ours; `None` below two runs, if ours do not vary, or if zero was published.
    pub fn of(published: f64, ours: &Repeated) -> Option<Self> {
        let values = ours.values();
        let count = as_f64(values.len());
        let mean = ours.mean()?;
        if count < 2.0 || published == 0.0 {
            return None;
        }
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let deviation = (variance * (1.0 + 1.0 / count)).sqrt();
        if deviation == 0.0 {
            return None;
        }
        let t = StudentsT::new(0.0, 1.0, count - 1.0).ok()?.inverse_cdf(0.975);
        let half_width = Some((t * deviation / published).abs());
        Some(Self {
            z: (published - mean) / deviation,
            ratio: Estimate { mean: mean / published, half_width, repetitions: values.len() },
            published_half_width: t * variance.sqrt(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chi_square_is_that_of_a_contingency_table() {
        // The statistic of [[10, 20], [20, 10]] is 60/9, and its tail with one degree of freedom 0.0098.
        let test = ChiSquare::of(&[10.0, 20.0], &[20.0, 10.0]).expect("two classes");
        assert!((test.statistic - 60.0 / 9.0).abs() < 1e-9 && (test.p - 0.0098).abs() < 1e-4, "{test}");
        let same = ChiSquare::of(&[30.0, 60.0, 0.0], &[10.0, 20.0, 0.0]).expect("two classes occur");
        assert!(same.statistic.abs() < 1e-9 && (same.p - 1.0).abs() < 1e-9 && same.freedom == 1.0);
        assert_eq!(ChiSquare::of(&[], &[]), None);
        assert_eq!(ChiSquare::of(&[5.0], &[6.0]), None);
        // One event where 0.05 are expected proves nothing; hundreds where one is published do.
        assert_eq!(ChiSquare::of(&[633.0, 1.0], &[14_000.0, 0.0]), None);
        assert!(ChiSquare::of(&[633.0, 1.0], &[11_000.0, 3_000.0]).is_some_and(|test| test.p < 0.001));
    }

    #[test]
    fn a_published_run_is_as_uncertain_as_one_of_ours() {
        let ours: Repeated = [90.0, 100.0, 110.0, 100.0].into_iter().collect();
        let beside = OneRun::of(100.0, &ours).expect("they vary");
        assert!(beside.z.abs() < 1e-9 && (beside.ratio.mean - 1.0).abs() < 1e-9);
        // The standard deviation is 8.165, times the root of 1.25; t is 3.1824.
        assert!((beside.ratio.half_width.expect("four runs") - 3.1824 * 8.165 * 1.25f64.sqrt() / 100.0).abs() < 1e-3);
        assert!(OneRun::of(130.0, &ours).is_some_and(|far| (far.z - 30.0 / 9.129).abs() < 1e-2));
        assert_eq!(OneRun::of(100.0, &[100.0, 100.0].into_iter().collect()), None);
        assert_eq!(OneRun::of(100.0, &[90.0].into_iter().collect()), None);
    }
}
