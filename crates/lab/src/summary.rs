//! From repetitions to means, confidence intervals and percentiles.

use std::collections::BTreeMap;
use std::time::Duration;

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::count::as_f64;
use crate::plan::{Plan, Point};
use crate::samples::Samples;
use crate::statistics::DelayStatistics;

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

    /// What was run.
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
}

impl PointSummary {
    pub(crate) fn new(point: Point) -> Self {
        Self { point, series: BTreeMap::new(), values: BTreeMap::new() }
    }

    /// Adds what one repetition measured.
    pub(crate) fn add(&mut self, samples: &Samples) {
        for (name, samples) in samples.series() {
            let mut delays = DelayStatistics::new();
            for sample in samples {
                delays.record(sample.delay);
            }
            self.series.entry(name.clone()).or_default().add(&delays);
        }
        for (name, tally) in samples.tallies() {
            self.series.entry(name.clone()).or_default().add(tally);
        }
        for (name, value) in samples.values() {
            self.values.entry(name.clone()).or_default().add(*value);
        }
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
}

impl SeriesSummary {
    fn add(&mut self, delays: &DelayStatistics) {
        self.all.merge(delays);
        if let Some(mean) = delays.mean() {
            self.mean_s.add(mean.as_secs_f64());
        }
        for (repeated, quantile) in self.quantiles_s.iter_mut().zip(QUANTILES) {
            if let Some(delay) = delays.quantile(quantile) {
                repeated.add(delay.as_secs_f64());
            }
        }
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
}

impl FromIterator<f64> for Repeated {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self { values: values.into_iter().collect() }
    }
}

impl Repeated {
    fn add(&mut self, value: f64) {
        self.values.push(value);
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
        let mean = self.mean()?;
        let count = as_f64(self.values.len());
        let freedom = count - 1.0;
        if freedom < 1.0 {
            return None;
        }
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        let distribution = StudentsT::new(0.0, 1.0, freedom).expect("scale one and a degree of freedom are sound");
        Some(distribution.inverse_cdf(0.975) * (squares / freedom / count).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use festina_units::Instant;

    use super::*;
    use crate::experiments::Md1;
    use crate::plan::Scale;
    use crate::samples::Sample;

    fn repeated(values: &[f64]) -> Repeated {
        Repeated { values: values.to_vec() }
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
