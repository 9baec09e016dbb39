//! Measured delays compared with those of the simulator.

use std::time::Duration;

use festina_lab::figure::{DelayDistribution, Figure, Marker, PlotPoint, PointSeries};
use festina_lab::samples::Samples;
use festina_lab::summary::{PointSummary, Results};
use festina_models::statistics::DelayStatistics;

/// Stands before the name of a series or number of the simulator.
const SIMULATED: &str = "simulated ";

/// Where the simulator's distribution is drawn, from one delay to the next.
const STEP: f64 = 1.25;

/// The simulator's name for a series or a number.
pub(super) fn simulated(name: &str) -> String {
    format!("{SIMULATED}{name}")
}

/// Adds the named series and numbers of a simulation.
pub(super) fn add(samples: &mut Samples, simulation: &Samples, series: &[&str], numbers: &[&str]) {
    for name in series {
        if let Some(delays) = simulation.tallies().get(*name) {
            samples.set_tally(&simulated(name), delays.clone());
        }
    }
    for name in numbers {
        if let Some(value) = simulation.values().get(*name) {
            samples.set(&simulated(name), *value);
        }
    }
}

/// Whether two points differ in nothing but their senders.
pub(super) fn are_alike(one: &PointSummary, other: &PointSummary) -> bool {
    let rest = |summary: &PointSummary| -> Vec<_> {
        summary.point().values().iter().copied().filter(|(name, _)| *name != "sender").collect()
    };
    rest(one) == rest(other)
}

/// A figure for each set of points that differ only in their senders. `place` names their conditions.
pub(super) fn figures(title: &str, series: &str, results: &Results, place: fn(&PointSummary) -> String) -> Vec<Figure> {
    let mut places: Vec<Vec<&PointSummary>> = Vec::new();
    for summary in results.points() {
        match places.iter_mut().find(|points| are_alike(points[0], summary)) {
            Some(points) => points.push(summary),
            None => places.push(vec![summary]),
        }
    }
    places.iter().map(|points| figure(title, &place(points[0]), series, points)).collect()
}

/// A curve for each point's measured delays, and rings for the simulated ones.
fn figure(title: &str, conditions: &str, series: &str, points: &[&PointSummary]) -> Figure {
    let conditions = format!("{conditions}; curves measured, rings simulated");
    let mut distribution = DelayDistribution::new(title, &conditions).to_the_999th_permille();
    let mut rings = Vec::new();
    for summary in points {
        let Some(measured) = summary.series().get(series).filter(|series| series.all().count() > 0) else { continue };
        let name = summary.point().choice("sender");
        distribution.curve(name, measured.all());
        if let Some(simulated) = summary.series().get(&simulated(series)) {
            rings.push(PointSeries {
                marker: Marker::Ring,
                is_joined: false,
                ..PointSeries::new(&format!("{name}, simulated"), points_of(simulated.all()))
            });
        }
    }
    let figure = distribution.figure();
    rings.iter_mut().for_each(|series| series.points.retain(|point| point.x <= figure.x.high));
    Figure { points: rings, ..figure }
}

/// The share of longer delays at rising delays, while at least ten are longer.
fn points_of(delays: &DelayStatistics) -> Vec<PlotPoint> {
    let (Some(min), Some(max)) = (delays.min(), delays.max()) else { return Vec::new() };
    let least = 10.0 / delays.count().max(1) as f64;
    let ends = std::iter::successors(Some(min.mul_f64(1.02)), |delay: &Duration| Some(delay.mul_f64(STEP)));
    let ends = ends.take_while(|delay| *delay <= max);
    let points = ends.map(|delay| (delay.as_secs_f64() * 1e3, delays.share_later(delay)));
    points.filter(|(_, share)| *share >= least).map(|(x, y)| PlotPoint { x, y, whisker: None }).collect()
}
