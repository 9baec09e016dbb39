//! The figures of G02: latency and throughput over time, and distributions.

use festina_units::Duration;

use super::cells::{Cell, KINDS};
use super::{LATENCY, MEAN_MS, Part};
use crate::evidence::Estimate;
use crate::figure::{Axis, Curve, DelayDistribution, Figure, PlotPoint, PointSeries, Threshold, Unit};
use crate::summary::{PointSummary, Results};

/// What crosses the bottleneck.
pub(super) const TRAFFIC: [&str; 4] = ["media", "elephants", "mice", "constant bit rate"];
/// Parts of the profile.
const PARTS: usize = 80;

/// The name of a number of one part of the profile.
pub(super) fn at(name: &str, part: usize) -> String {
    format!("{name} in part {part:02}")
}

pub(super) fn figures(part: Part, results: &Results) -> Vec<Figure> {
    let over_time = |marking: &str, names: &[&str]| over_time(results, marking, names);
    match part {
        Part::Table1 | Part::Table2 | Part::Table3 => table(results),
        Part::Fig3 => over_time("off", &["std", "m10"]),
        Part::Fig4 => over_time("off", &["m10", "m13", "m20"]),
        Part::Fig6 => split(results),
        Part::Fig8 => over_time("dred", &["std", "m10"]),
        Part::Fig9 => over_time("dred", &["m10", "m13", "m20"]),
        Part::Fig5 => distributions(results, "off"),
        Part::Fig10 => distributions(results, "dred"),
        Part::Fig7 => traffic(results),
    }
}

/// The mean of a number of each part, over the repetitions.
fn curve(point: &PointSummary, name: &str, label: &str) -> Curve {
    let seconds = point.point().duration("duration").as_secs_f64();
    let points = (0..PARTS).zip(0_u32..).filter_map(|(part, count)| {
        let mean = Estimate::of(point.values().get(&at(name, part))?)?.mean;
        Some(((f64::from(count) + 0.5) * seconds / 80.0, mean))
    });
    Curve { name: label.to_owned(), points: points.collect() }
}

fn drawn(results: &Results, label: &str, unit: Unit, curves: Vec<Curve>) -> Figure {
    let values = || curves.iter().flat_map(|curve| &curve.points);
    let highest = values().map(|point| point.1).fold(0.0, f64::max);
    let last = values().map(|point| point.0).fold(0.0, f64::max);
    let x = Axis::from_zero("time in seconds", last, Unit::Number);
    let y = Axis::from_zero(label, highest, unit);
    Figure { curves, ..Figure::new(results.plan().title(), &results.plan().conditions(), x, y) }
}

fn over_time(results: &Results, marking: &str, kinds: &[&str]) -> Vec<Figure> {
    let cells = Cell::all(results, marking);
    let Some(cell) = cells.first() else { return Vec::new() };
    let points = || kinds.iter().filter_map(|kind| Some((*kind, cell.point(kind)?)));
    let longest = points().map(|(kind, point)| curve(point, "longest latency", kind)).collect();
    vec![drawn(results, "longest latency of each eightieth, mean over runs", Unit::Milliseconds, longest)]
}

fn split(results: &Results) -> Vec<Figure> {
    let cells = Cell::all(results, "off");
    let Some(point) = cells.first().and_then(|cell| cell.point("m10")) else { return Vec::new() };
    let mut distribution = DelayDistribution::new(results.plan().title(), &results.plan().conditions());
    for series in [super::SENDER, super::NETWORK, super::RECEIVER, LATENCY] {
        if let Some(summary) = point.series().get(series) {
            distribution.curve(series, summary.all());
        }
    }
    vec![distribution.figure()]
}

fn traffic(results: &Results) -> Vec<Figure> {
    let cells = Cell::all(results, "dred");
    let Some(point) = cells.first().and_then(|cell| cell.point("m10")) else { return Vec::new() };
    let curves = TRAFFIC.map(|name| curve(point, name, name)).to_vec();
    vec![drawn(results, "throughput in Mbit/s", Unit::Number, curves)]
}

fn distributions(results: &Results, marking: &str) -> Vec<Figure> {
    let figure = |cell: &Cell<'_>| {
        let mut distribution =
            DelayDistribution::new(&format!("Latency at {}", cell.name), &results.plan().conditions());
        for limit_ms in [200, 500] {
            distribution.threshold(Threshold::new(Duration::from_millis(limit_ms), &format!("{limit_ms} ms")));
        }
        for kind in KINDS {
            if let Some(summary) = cell.point(kind).and_then(|point| point.series().get(LATENCY)) {
                distribution.curve(kind, summary.all());
            }
        }
        distribution.figure()
    };
    Cell::all(results, marking).iter().map(figure).collect()
}

/// The means of all cells, one place for each.
fn table(results: &Results) -> Vec<Figure> {
    let cells = Cell::all(results, "off");
    let names: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
    let kinds = KINDS.into_iter().map(|kind| {
        let points = cells.iter().zip(0_u32..).filter_map(|(cell, place)| {
            let estimate = cell.estimate(kind, MEAN_MS)?;
            let whisker = estimate.interval().map(|[low, high]| (low, high));
            Some(PlotPoint { x: f64::from(place), y: estimate.mean, whisker })
        });
        PointSeries::new(kind, points)
    });
    let points: Vec<PointSeries> = kinds.filter(|series| !series.points.is_empty()).collect();
    let values = points.iter().flat_map(|series| &series.points);
    let highest = values.map(|point| point.whisker.map_or(point.y, |(_, high)| high)).fold(0.0, f64::max);
    if points.is_empty() {
        return Vec::new();
    }
    let x = Axis::categories("bottleneck and round-trip time", &names);
    let y = Axis::from_zero("mean latency", highest, Unit::Milliseconds);
    vec![Figure { points, ..Figure::new(results.plan().title(), &results.plan().conditions(), x, y) }]
}
