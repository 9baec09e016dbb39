//! From repetitions to means, confidence intervals and percentiles.

use std::collections::BTreeMap;
use std::time::Duration;

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::count::as_f64;
use crate::plan::{Plan, Point};
use crate::samples::Samples;
use festina_models::statistics::DelayStatistics;

/// All that a complete run measured.
#[derive(Clone, Debug)]
pub struct Results {
    plan: Plan,
    points: Vec<PointSummary>,
}

impl Results {
    pub(crate) fn new(plan: Plan, points: Vec<PointSummary>) -> Self {
        Self { plan, points }
    }

    /// The plan of the run.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The points in the plan's order.
    pub fn points(&self) -> &[PointSummary] {
        &self.points
    }

    /// The points at which each of these parameters has this value, written as [`Value`](crate::plan::Value) prints it:
    /// `("rtt", "100ms")`.
    pub fn matching(&self, settings: &[(&str, &str)]) -> impl Iterator<Item = &PointSummary> {
        let has = |point: &Point, (name, text): &(&str, &str)| {
            point.value(name).is_some_and(|value| value.to_string() == *text)
        };
        self.points.iter().filter(move |summary| settings.iter().all(|setting| has(&summary.point, setting)))
    }
}

/// What all repetitions of a point measured.
#[derive(Clone, Debug)]
pub struct PointSummary {
    point: Point,
    series: BTreeMap<String, SeriesSummary>,
    values: BTreeMap<String, Repeated>,
    repetitions: u32,
}

impl PointSummary {
    pub(crate) fn new(point: Point) -> Self {
        Self { point, series: BTreeMap::new(), values: BTreeMap::new(), repetitions: 0 }
    }

    /// Adds what one repetition measured.
    pub(crate) fn add(&mut self, samples: &Samples) {
        let repetition = self.repetitions;
        for (name, samples) in samples.series() {
            let mut delays = DelayStatistics::new();
            for sample in samples {
                delays.record(sample.delay);
            }
            self.series.entry(name.clone()).or_default().add(repetition, &delays);
        }
        for (name, tally) in samples.tallies() {
            self.series.entry(name.clone()).or_default().add(repetition, tally);
        }
        for (name, value) in samples.values() {
            self.values.entry(name.clone()).or_default().add(repetition, *value);
        }
        self.repetitions += 1;
    }

    /// Number of repetitions.
    pub fn repetitions(&self) -> u32 {
        self.repetitions
    }

    /// Which point.
    pub fn point(&self) -> &Point {
        &self.point
    }

    /// The series of delays by name.
    pub fn series(&self) -> &BTreeMap<String, SeriesSummary> {
        &self.series
    }

    /// The numbers by name.
    pub fn values(&self) -> &BTreeMap<String, Repeated> {
        &self.values
    }
}

/// The quantiles that tables show.
pub const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// A series of delays over all repetitions.
#[derive(Clone, Debug, Default)]
pub struct SeriesSummary {
    all: DelayStatistics,
    mean_s: Repeated,
    quantiles_s: [Repeated; QUANTILES.len()],
    max_s: Repeated,
    counts: Repeated,
    /// The delays of the repetitions with few of them.
    few: BTreeMap<u32, Vec<(u64, u64)>>,
}

/// Repetitions with more delays than this have quantiles of their own.
const FEW: u64 = 200;

impl SeriesSummary {
    fn add(&mut self, repetition: u32, delays: &DelayStatistics) {
        if delays.count() <= FEW {
            self.few.insert(repetition, delays.buckets());
        }
        self.all.merge(delays);
        self.counts.add(repetition, as_f64(delays.count()));
        if let Some(mean) = delays.mean() {
            self.mean_s.add(repetition, mean.as_secs_f64());
        }
        if let Some(max) = delays.max() {
            self.max_s.add(repetition, max.as_secs_f64());
        }
        for (repeated, quantile) in self.quantiles_s.iter_mut().zip(QUANTILES) {
            if let Some(delay) = delays.quantile(quantile) {
                repeated.add(repetition, delay.as_secs_f64());
            }
        }
    }

    /// The longest delay of each repetition, in seconds.
    pub fn max_s(&self) -> &Repeated {
        &self.max_s
    }

    /// Number of delays in each repetition.
    pub fn counts(&self) -> &Repeated {
        &self.counts
    }

    /// One of [`QUANTILES`] in each repetition, in seconds; `None` for any other.
    pub fn quantile_s(&self, quantile: f64) -> Option<&Repeated> {
        let place = QUANTILES.iter().position(|known| (known - quantile).abs() < 1e-9)?;
        self.quantiles_s.get(place)
    }

    /// A quantile in each group of `size` repetitions in a row, in seconds, numbered from 0: that of their delays together, or the mean of theirs if
    /// one of the series has many. The last group takes the rest along.
    pub(crate) fn quantile_of_groups_s(&self, quantile: f64, size: u32, repetitions: u32) -> Option<Repeated> {
        let is_rare = self.few.len() == self.counts.values().len();
        let each = self.quantile_s(quantile)?;
        let mut of_groups = Repeated::default();
        let groups = repetitions / size;
        for group in 0..groups {
            let end = if group + 1 == groups { repetitions } else { (group + 1) * size };
            let mut delays = DelayStatistics::new();
            for (delay_ns, count) in self.few.range(group * size..end).flat_map(|(_, buckets)| buckets) {
                (0..*count).for_each(|_| delays.record(Duration::from_nanos(*delay_ns)));
            }
            let own: Repeated = (group * size..end).filter_map(|repetition| each.at(repetition)).collect();
            let found = if is_rare { delays.quantile(quantile).map(|delay| delay.as_secs_f64()) } else { own.mean() };
            found.into_iter().for_each(|found| of_groups.add(group, found));
        }
        Some(of_groups)
    }

    /// The delays of all repetitions together.
    pub fn all(&self) -> &DelayStatistics {
        &self.all
    }

    /// The mean delay of each repetition, in seconds.
    pub fn mean_s(&self) -> &Repeated {
        &self.mean_s
    }

    /// Each of [`QUANTILES`] with the delay, over all repetitions together, that this share does not exceed, and with
    /// that of each repetition, in seconds, for its confidence.
    pub fn quantiles(&self) -> impl Iterator<Item = (f64, Option<Duration>, &Repeated)> {
        QUANTILES
            .into_iter()
            .zip(&self.quantiles_s)
            .map(|(quantile, each)| (quantile, self.all.quantile(quantile), each))
    }
}

/// A number, once per repetition that has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repeated {
    values: Vec<f64>,
    /// The repetition of each value, rising.
    repetitions: Vec<u32>,
}

/// The numbers of the first repetitions.
impl FromIterator<f64> for Repeated {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let (repetitions, values) = (0..).zip(values).unzip();
        Self { values, repetitions }
    }
}

impl Repeated {
    fn add(&mut self, repetition: u32, value: f64) {
        self.values.push(value);
        self.repetitions.push(repetition);
    }

    /// The numbers of the repetitions that both have, in their order.
    pub fn paired<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (f64, f64)> + 'a {
        self.repetitions
            .iter()
            .zip(&self.values)
            .filter_map(|(repetition, value)| Some((*value, other.at(*repetition)?)))
    }

    /// Each number changed, such as into another unit.
    #[must_use]
    pub fn map(&self, change: impl Fn(f64) -> f64) -> Self {
        let values = self.values.iter().map(|value| change(*value)).collect();
        Self { values, repetitions: self.repetitions.clone() }
    }

    /// The number of a repetition, counted from zero; `None` if it has none.
    pub fn at(&self, repetition: u32) -> Option<f64> {
        let place = self.repetitions.binary_search(&repetition).ok()?;
        self.values.get(place).copied()
    }

    /// Each number changed, by its repetition.
    #[must_use]
    pub fn with_each(&self, change: impl Fn(u32, f64) -> f64) -> Self {
        let values = self.repetitions.iter().zip(&self.values).map(|(repetition, value)| change(*repetition, *value));
        Self { values: values.collect(), repetitions: self.repetitions.clone() }
    }

    /// Only the numbers for which `is_wanted` returns `true`.
    #[must_use]
    pub fn only(&self, is_wanted: impl Fn(f64) -> bool) -> Self {
        let pairs = self.repetitions.iter().zip(&self.values).filter(|(_, value)| is_wanted(**value));
        let (repetitions, values) = pairs.unzip();
        Self { values, repetitions }
    }

    /// A number of the repetitions that both have, from both.
    #[must_use]
    pub fn zip_with(&self, other: &Self, with: impl Fn(f64, f64) -> f64) -> Self {
        let mut zipped = Self::default();
        for (repetition, value) in self.repetitions.iter().zip(&self.values) {
            if let Some(other) = other.at(*repetition) {
                zipped.add(*repetition, with(*value, other));
            }
        }
        zipped
    }

    /// The numbers in the order of the repetitions.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The numbers of all repetitions together, such as of counts; zero if no repetition has the number.
    pub fn sum(&self) -> f64 {
        self.values.iter().fold(0.0, |sum, value| sum + value)
    }

    /// The mean; `None` if no repetition has the number.
    pub fn mean(&self) -> Option<f64> {
        (!self.values.is_empty()).then(|| self.sum() / as_f64(self.values.len()))
    }

    /// Half the width of the 95% confidence interval of the mean (Student's t, which takes the repetitions as independent
    /// and their numbers as about normal); `None` below two repetitions.
    pub fn half_width_95(&self) -> Option<f64> {
        half_width_95(&self.values)
    }
}

/// Half the width of the 95% confidence interval of the mean (Student's t); `None` below two values.
pub(crate) fn half_width_95(values: &[f64]) -> Option<f64> {
    let count = as_f64(values.len());
    let freedom = count - 1.0;
    if freedom < 1.0 {
        return None;
    }
    let t = student(freedom, ERROR / 2.0);
    let mean = values.iter().fold(0.0, |sum, value| sum + value) / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some(t * (squares / freedom / count).sqrt())
}

/// How probably a 95% interval misses.
const ERROR: f64 = 0.05;

/// How many times as wide as a 95% interval over `repetitions` each of `intervals` has to be, so that all of them together miss with at most 5%
/// (Bonferroni's correction).
pub(crate) fn widening(repetitions: usize, intervals: usize) -> f64 {
    let freedom = as_f64(repetitions) - 1.0;
    if freedom < 1.0 || intervals < 2 {
        return 1.0;
    }
    student(freedom, ERROR / 2.0 / as_f64(intervals)) / student(freedom, ERROR / 2.0)
}

/// What Student's t exceeds with this probability.
fn student(freedom: f64, probability: f64) -> f64 {
    let distribution = StudentsT::new(0.0, 1.0, freedom).expect("scale one and a degree of freedom are sound");
    distribution.inverse_cdf(1.0 - probability)
}

#[cfg(test)]
mod tests {
    use festina_units::Instant;

    use super::*;
    use crate::experiments::Md1;
    use crate::plan::Scale;
    use crate::samples::Sample;

    fn repeated(values: &[f64]) -> Repeated {
        values.iter().copied().collect()
    }

    #[test]
    fn numbers_are_paired_by_their_repetition() {
        let (mut one, mut other) = (Repeated::default(), Repeated::default());
        for (repetition, value) in [(0, 1.0), (2, 3.0), (3, 4.0)] {
            one.add(repetition, value);
        }
        for (repetition, value) in [(1, 20.0), (2, 30.0), (3, 40.0)] {
            other.add(repetition, value);
        }
        assert_eq!(one.paired(&other).collect::<Vec<_>>(), [(3.0, 30.0), (4.0, 40.0)]);
        assert_eq!(one.zip_with(&other, |one, other| other - one).values(), [27.0, 36.0]);
    }

    #[test]
    fn the_confidence_interval_is_that_of_student() {
        // t(0.975) is 12.7062 for 1, 2.7764 for 4 and 2.2622 for 9 degrees of freedom.
        let half = |values: &[f64]| repeated(values).half_width_95().expect("there are repetitions");
        assert!((half(&[1.0, 3.0]) - 12.7062).abs() < 1e-3);
        assert!((half(&[1.0, 2.0, 3.0, 4.0, 5.0]) - 2.7764 * (2.5f64 / 5.0).sqrt()).abs() < 1e-3);
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert!((half(&ten) - 2.2622 * (55.0f64 / 6.0 / 10.0).sqrt()).abs() < 1e-3);
    }

    #[test]
    fn one_repetition_has_a_mean_but_no_interval_and_none_has_neither() {
        assert_eq!(repeated(&[4.0]).mean(), Some(4.0));
        assert_eq!(repeated(&[4.0]).half_width_95(), None);
        assert_eq!((repeated(&[]).mean(), repeated(&[]).sum()), (None, 0.0));
        assert_eq!(repeated(&[4.0, 1.0]).sum(), 5.0);
        assert_eq!(repeated(&[7.0, 7.0]).half_width_95(), Some(0.0));
        // t(0.975) and t(0.9975), 29 degrees of freedom: 2.0452 and 3.0380; t(0.995), 9: 3.2498.
        assert!((widening(30, 10) - 3.0380 / 2.0452).abs() < 1e-3);
        assert!((widening(10, 5) - 3.2498 / 2.2622).abs() < 1e-3);
        assert_eq!([widening(30, 1), widening(1, 9)], [1.0, 1.0]);
    }

    #[test]
    fn points_are_found_by_what_their_parameters_are_set_to() {
        let plan = Plan::own(&Md1, Scale::Quick);
        let points = plan.points().into_iter().map(PointSummary::new).collect();
        let results = Results::new(plan, points);
        assert_eq!(results.matching(&[]).count(), 3);
        assert_eq!(results.matching(&[("rate", "10Mbit/s"), ("load", "50%")]).count(), 1);
        assert_eq!(results.matching(&[("load", "51%")]).count(), 0);
        assert_eq!(results.matching(&[("lode", "50%")]).count(), 0);
    }

    #[test]
    fn tallied_delays_are_summarized_like_recorded_ones() {
        let mut samples = Samples::new();
        for delay_ms in [10, 20, 3_000] {
            let delay = Duration::from_millis(delay_ms);
            samples.record("recorded", Sample { sent_at: Instant::ZERO, delay });
            samples.tally("tallied", delay);
        }
        let mut point = PointSummary::new(Plan::own(&Md1, Scale::Quick).points()[0].clone());
        point.add(&samples);
        point.add(&samples);
        let [recorded, tallied] = ["recorded", "tallied"].map(|name| &point.series()[name]);
        assert_eq!((recorded.all(), recorded.mean_s()), (tallied.all(), tallied.mean_s()));
        assert_eq!(recorded.quantiles().collect::<Vec<_>>(), tallied.quantiles().collect::<Vec<_>>());
        assert_eq!(tallied.all().count(), 6);
    }

    #[test]
    fn percentiles_are_those_of_all_repetitions_together() {
        let repetition = |delays_ms: &[u64]| {
            let mut samples = Samples::new();
            for delay_ms in delays_ms {
                samples.record("s", Sample { sent_at: Instant::ZERO, delay: Duration::from_millis(*delay_ms) });
            }
            samples
        };
        let mut point = PointSummary::new(Plan::own(&Md1, Scale::Quick).points()[0].clone());
        for samples in [repetition(&[10; 99]), repetition(&[1000])] {
            point.add(&samples);
        }
        let summary = &point.series()["s"];
        assert_eq!(summary.all().count(), 100);
        assert_eq!(summary.all().mean(), Some(Duration::from_micros(19_900)));
        let (_, median, each) = summary.quantiles().next().expect("the median is the first");
        assert_eq!(median.expect("there are delays").as_millis(), 10);
        assert!((each.mean().expect("two repetitions") - 0.505).abs() < 1e-3, "each repetition has its own median");
    }
}
