//! `p10-fig11`: variation of a greedy stream's throughput next to a stream of modified SCTP (P10 §6.3, Fig. 11).

use festina_units::duration;

use super::p10_fig12::{beside_greedy, condition, pairs};
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::{Axis, Figure, PlotPoint, PointSeries, Unit};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::summary::{PointSummary, Results};

const MEAN: &str = "greedy kbit/s";
/// Step between the quantiles that describe the distribution, in per cent.
const STEP_PERCENT: usize = 5;
/// How far two distributions may lie apart on average, in per cent of their mean: hardly seen in the figure. The bound is ours.
const DISTANCE_MAX_PERCENT: f64 = 5.0;

/// The distribution of a greedy stream's throughput in short intervals.
#[derive(Clone, Copy, Debug)]
pub struct P10Fig11;

impl Experiment for P10Fig11 {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/p10-fig11.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let outcome = beside_greedy(point, point.duration("interval")).run(seed);
        let mut throughput_bps = outcome.shares.last().map(|greedy| greedy.throughput_bps.clone()).unwrap_or_default();
        throughput_bps.sort_unstable_by(f64::total_cmp);
        let mut samples = Samples::new();
        for percent in (0..=100).step_by(STEP_PERCENT) {
            let rank = (throughput_bps.len() * percent / 100).min(throughput_bps.len().saturating_sub(1));
            let bps = throughput_bps.get(rank).copied().unwrap_or_default();
            samples.set(&quantile_name(percent), bps / 1e3);
        }
        samples.set(MEAN, outcome.shares.last().map_or(0.0, |greedy| greedy.goodput_bps / 1e3));
        samples
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let mut evidence = Evidence::new();
        for [lksctp, modified] in pairs(results) {
            let what = format!("% of the mean at {}:", condition(results, lksctp));
            evidence.cell(what, distance(lksctp, modified), Bound::Within(0.0, DISTANCE_MAX_PERCENT));
        }
        vec![evidence.check(
            "The throughput of the greedy stream has the same distribution beside the modified and beside the unmodified stream: they \
             lie at most 5% of the mean apart.",
        ).id("moment-to-moment")]
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let pairs = pairs(results);
        let rate = |summary: &PointSummary| summary.point().bandwidth("rate");
        let shown = pairs.first().map(|[first, _]| rate(first));
        pairs.iter().filter(|[lksctp, _]| Some(rate(lksctp)) == shown).map(|pair| figure(results, pair)).collect()
    }
}

fn quantile_name(percent: usize) -> String {
    format!("greedy kbit/s {percent:03}%")
}

/// The distribution at a point: each quantile with its share, its whisker the interval of its mean over runs.
fn quantiles(summary: &PointSummary) -> Vec<PlotPoint> {
    let of = |percent| {
        let quantile = summary.values().get(&quantile_name(percent))?;
        let mean = quantile.mean()?;
        let whisker = quantile.half_width_95().map(|half| ((mean - half).max(0.0), mean + half));
        Some(PlotPoint { x: mean, y: share(percent), whisker })
    };
    (0..=100).step_by(STEP_PERCENT).filter_map(of).collect()
}

fn share(percent: usize) -> f64 {
    f64::from(u32::try_from(percent).unwrap_or(100)) / 100.0
}

/// The mean distance of the quantiles in per cent of the mean, the extremes, which are single intervals, left out. Its interval is that
/// of the jackknife: each repetition is left out once.
fn distance(one: &PointSummary, other: &PointSummary) -> Option<Estimate> {
    let repetitions = one.repetitions().min(other.repetitions());
    let all = distance_without(one, other, None)?;
    let count = f64::from(repetitions);
    let pseudo: Option<Vec<f64>> = (0..repetitions)
        .map(|left_out| Some(count * all - (count - 1.0) * distance_without(one, other, Some(left_out))?))
        .collect();
    let jackknife = pseudo.filter(|values| values.len() > 1).and_then(|values| Estimate::of_values(&values));
    let half_width = jackknife.and_then(|estimate| estimate.half_width);
    // A distance is never negative, so its interval is not either.
    let half_width = half_width.map(|half| half.min(all));
    Some(Estimate { mean: all, half_width, repetitions: usize::try_from(repetitions).unwrap_or(usize::MAX) })
}

fn distance_without(one: &PointSummary, other: &PointSummary, left_out: Option<u32>) -> Option<f64> {
    let (mut apart, mut sum) = (0.0, 0.0);
    for percent in (STEP_PERCENT..100).step_by(STEP_PERCENT) {
        let means = [one, other].map(|summary| {
            let values = summary.values().get(&quantile_name(percent))?;
            let kept = (0..summary.repetitions()).filter(|repetition| Some(*repetition) != left_out);
            let kept: Vec<f64> = kept.filter_map(|repetition| values.at(repetition)).collect();
            Estimate::of_values(&kept).map(|estimate| estimate.mean)
        });
        let [one, other] = [means[0]?, means[1]?];
        apart += (one - other).abs();
        sum += one;
    }
    (sum > 0.0).then(|| apart / sum * 100.0)
}

fn figure(results: &Results, pair: &[&PointSummary; 2]) -> Figure {
    let [lksctp, _] = pair;
    let series = pair
        .iter()
        .zip(["beside lksctp", "beside modified lksctp"])
        .map(|(summary, name)| PointSeries { has_whiskers_across: true, ..PointSeries::new(name, quantiles(summary)) });
    let series = PointSeries::told_apart(series.collect());
    let points = series.iter().flat_map(|series| &series.points);
    let top = points.map(|point| point.whisker.map_or(point.x, |(_, high)| high)).fold(0.0, f64::max);
    let interval = lksctp.point().duration("interval");
    let label =
        format!("throughput of the greedy stream within {}, mean over runs, in kbit/s", duration::display(interval));
    let x = Axis::from_zero(&label, top, Unit::Number);
    let y = Axis::linear("share of the intervals with less", 0.0, 1.0, Unit::Share);
    let words = [condition(results, lksctp), results.plan().conditions()];
    let conditions = words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join("; ");
    let mut figure = Figure::new(results.plan().title(), &conditions, x, y);
    figure.points = series;
    figure
}
