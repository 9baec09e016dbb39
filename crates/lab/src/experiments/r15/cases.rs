//! The senders side by side under the same conditions, and what R15 says of them as checks.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::Family;
use crate::count::as_f64;
use crate::experiment::{Check, Comparison};
use crate::summary::{PointSummary, Results};

/// What R15 found "in almost all cases" holds in at least this share of ours.
pub(crate) const ALMOST_ALL: f64 = 0.9;
/// Delays that lie closer together count as equal, in milliseconds: less than any network's clock tells.
const EQUAL_MS: f64 = 0.5;

/// A delay of each sender in each case: under each combination of the other parameters.
pub(crate) struct Cases<'a> {
    what: &'static str,
    cases: Vec<Case<'a>>,
}

/// One combination, and the delay of each sender.
pub(crate) struct Case<'a> {
    pub(crate) point: &'a PointSummary,
    label: String,
    delays: Vec<(&'static str, Delay)>,
}

/// The mean of a series of delays in milliseconds, over all and in each repetition.
struct Delay {
    ms: f64,
    each_ms: Vec<f64>,
}

impl Delay {
    /// Whether it is longer than another beyond what chance explains: by more than half the width of the 95% confidence
    /// interval of the difference, where there are repetitions. Each meets the same random numbers under each sender.
    fn is_longer_than(&self, other: &Self) -> bool {
        let differences: Vec<f64> = self.each_ms.iter().zip(&other.each_ms).map(|(one, other)| one - other).collect();
        self.ms - other.ms > half_width_95(&differences).max(EQUAL_MS)
    }
}

impl Case<'_> {
    /// The combination in words.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Each sender with its mean delay in milliseconds, in the order of the plan.
    pub(crate) fn delays_ms(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.delays.iter().map(|(name, delay)| (*name, delay.ms))
    }

    /// The mean delays of two senders in milliseconds.
    pub(crate) fn pair_ms(&self, [one, other]: [&str; 2]) -> Option<[f64; 2]> {
        Some([self.delay(one)?.ms, self.delay(other)?.ms])
    }

    fn delay(&self, sender: &str) -> Option<&Delay> {
        self.delays.iter().find(|(name, _)| *name == sender).map(|(_, delay)| delay)
    }

    /// Whether one sender is slower than another, if there are both.
    fn is_slower(&self, [one, other]: [&str; 2]) -> Option<bool> {
        Some(self.delay(one)?.is_longer_than(self.delay(other)?))
    }

    /// Those of `others` that are faster than a sender; `None` if one of them is missing.
    pub(crate) fn faster_than<'n>(&self, sender: &str, others: &[&'n str]) -> Option<Vec<&'n str>> {
        let slower: Option<Vec<bool>> = others.iter().map(|other| self.is_slower([sender, other])).collect();
        Some(others.iter().zip(slower?).filter(|(_, slower)| *slower).map(|(other, _)| *other).collect())
    }
}

impl<'a> Cases<'a> {
    /// By the means of a series. A mean of fewer than `delays_min` tells nothing and is left out.
    pub(crate) fn of(results: &'a Results, series: &'static str, delays_min: u64) -> Self {
        let swept: Vec<&str> = results.plan().swept().filter(|name| *name != "sender").collect();
        let mut cases: Vec<Case<'a>> = Vec::new();
        for point in results.points() {
            let Some(series) = point.series().get(series) else { continue };
            let Some(mean) = series.all().mean().filter(|_| series.all().count() >= delays_min) else { continue };
            let each_ms = series.mean_s().values().iter().map(|mean_s| mean_s * 1e3).collect();
            let delay = Delay { ms: mean.as_secs_f64() * 1e3, each_ms };
            let values = swept.iter().filter_map(|name| Some(format!("{name} {}", point.point().value(name)?)));
            let label = values.collect::<Vec<_>>().join(", ");
            let sender = point.point().choice("sender");
            match cases.iter_mut().find(|case| case.label == label) {
                Some(case) => case.delays.push((sender, delay)),
                None => cases.push(Case { point, label, delays: vec![(sender, delay)] }),
            }
        }
        Self { what: series, cases }
    }

    /// Only those that fulfil a condition.
    pub(crate) fn only(mut self, condition: impl Fn(&PointSummary) -> bool) -> Self {
        self.cases.retain(|case| condition(case.point));
        self
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Case<'a>> {
        self.cases.iter()
    }

    /// "All three enhancements outperform the standard TCP", and what came after them.
    pub(crate) fn standard_checks(&self, family: &Family) -> Vec<Check> {
        family.mechanisms().iter().map(|sender| self.standard_check(family, sender)).collect()
    }

    /// That a sender is faster than the standard on average.
    pub(crate) fn standard_check(&self, family: &Family, sender: &str) -> Check {
        let Self { what, .. } = self;
        let statement = format!("{}: {sender} is on average faster than {} ({what}).", family.name, family.standard);
        let Some([ours, standard]) = self.means_ms([sender, family.standard]) else {
            return Check::skipped(statement, LACKING);
        };
        let slower: Vec<_> =
            self.cases.iter().filter(|case| case.is_slower([sender, family.standard]) == Some(true)).collect();
        let mut seen = format!("{ours:.0} ms against {standard:.0} ms");
        if let Some(case) = slower.first() {
            seen += &format!("; slower in {} of {} cases, such as {}", slower.len(), self.cases.len(), case.label);
        }
        Check::new(statement, ours < standard - EQUAL_MS, seen)
    }

    /// "The relative gain using TLP and RTOR is scenario dependent."
    pub(crate) fn dependence_check(&self, family: &Family) -> Check {
        let Family { name, rtor, tlp, .. } = family;
        let statement =
            format!("{name}: whether {rtor} or {tlp} is faster depends on the case: each is in some ({}).", self.what);
        let count = |pair| self.cases.iter().filter(|case| case.is_slower(pair) == Some(true)).count();
        let [restart, probe] = [count([tlp, rtor]), count([rtor, tlp])];
        if self.means_ms([rtor, tlp]).is_none() {
            return Check::skipped(statement, LACKING);
        }
        let seen = format!("{rtor} in {restart}, {tlp} in {probe} of {} cases", self.cases.len());
        Check::new(statement, restart > 0 && probe > 0, seen)
    }

    /// "TLPR provides the best performance in almost all cases", of `tlpr`.
    pub(crate) fn best_check(&self, family: &Family, tlpr: &str) -> Check {
        let others = [family.standard, family.rtor, family.tlp];
        self.fastest_check(family.name, tlpr, &others, "")
    }

    /// That none of `others` is faster than a sender in almost all cases, which `where_` describes further.
    pub(crate) fn fastest_check(&self, protocol: &str, sender: &str, others: &[&str], where_: &str) -> Check {
        let statement = format!(
            "{protocol}: none of {} is faster than {sender} in at least {:.0}% of the cases{where_} ({}).",
            others.join(", "),
            ALMOST_ALL * 100.0,
            self.what
        );
        let beaten: Vec<_> =
            self.cases.iter().filter_map(|case| Some((case, case.faster_than(sender, others)?))).collect();
        if beaten.is_empty() {
            return Check::skipped(statement, LACKING);
        }
        let best = beaten.iter().filter(|(_, by)| by.is_empty()).count();
        let mut seen = format!("in {best} of {}", beaten.len());
        if let Some((case, by)) = beaten.iter().find(|(_, by)| !by.is_empty()) {
            seen += &format!("; faster is {} at {}", by.join(" and "), case.label);
        }
        Check::new(statement, as_share(best, beaten.len()) >= ALMOST_ALL, seen)
    }

    /// How much less than the standard's the mean delay of a sender is over all cases, beside a published number.
    pub(crate) fn saving(&self, what: &str, published: f64, family: &Family, sender: &str, why: &str) -> Comparison {
        let means = self.means_ms([sender, family.standard]);
        let measured = means.map(|[ours, standard]| (1.0 - ours / standard) * 100.0);
        let what = format!("{what}, {} ({sender} against {})", family.name, family.standard);
        Comparison { what, unit: "%", published, measured, why: Some(why.to_owned()) }
    }

    /// The mean delays of two senders over the cases that have both.
    fn means_ms(&self, senders: [&str; 2]) -> Option<[f64; 2]> {
        let pairs: Vec<_> = self.cases.iter().filter_map(|case| case.pair_ms(senders)).collect();
        let mean = |index: usize| pairs.iter().map(|pair| pair[index]).sum::<f64>() / as_f64(pairs.len());
        (!pairs.is_empty()).then(|| [mean(0), mean(1)])
    }
}

const LACKING: &str = "the plan has not these senders, or too few delays to tell";

/// Half the width of the 95% confidence interval of the mean; zero below two values.
fn half_width_95(values: &[f64]) -> f64 {
    let count = as_f64(values.len());
    if count < 2.0 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let distribution = StudentsT::new(0.0, 1.0, count - 1.0).expect("scale one and a degree of freedom are sound");
    distribution.inverse_cdf(0.975) * (variance / count).sqrt()
}

/// How large a share of `all` it is.
pub(crate) fn as_share(of: usize, all: usize) -> f64 {
    as_f64(of) / as_f64(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay(each_ms: &[f64]) -> Delay {
        Delay { ms: each_ms.iter().sum::<f64>() / as_f64(each_ms.len()), each_ms: each_ms.to_vec() }
    }

    #[test]
    fn a_delay_is_longer_only_if_it_is_so_in_most_repetitions() {
        let base = delay(&[100.0, 300.0, 200.0, 400.0]);
        assert!(delay(&[111.0, 309.0, 212.0, 408.0]).is_longer_than(&base), "10 ms more each time");
        assert!(!delay(&[500.0, 300.0, 200.0, 400.0]).is_longer_than(&base), "once much more");
        assert!(!base.is_longer_than(&base));
    }

    #[test]
    fn without_repetitions_half_a_millisecond_decides() {
        assert!(delay(&[100.6]).is_longer_than(&delay(&[100.0])));
        assert!(!delay(&[100.4]).is_longer_than(&delay(&[100.0])));
    }

    #[test]
    fn the_interval_is_that_of_student() {
        assert!((half_width_95(&[1.0, 3.0]) - 12.7062).abs() < 1e-3);
        assert_eq!(half_width_95(&[5.0]), 0.0);
    }
}
