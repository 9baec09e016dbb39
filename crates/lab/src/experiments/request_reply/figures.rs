//! The figures: packets of both ends, and the p99, of each kind of traffic.

use festina_units::{Duration, Probability};

use super::{EXCHANGE, EXCHANGES, MESSAGE, PACKETS, TRAFFIC_NAMES, per};
use crate::count::as_f64;
use crate::figure::{Axis, Figure, PlotPoint, PointSeries, Unit};
use crate::scenario::fate::MESSAGES;
use crate::scenario::looks::{Look, looks};
use crate::summary::{PointSummary, Results};

/// The senders that are drawn; all others would lie on top of each other.
const FEW: [&str; 6] = ["rfc9260", "rack", "festina+off", "festina+bundled", "festina+spaced", "festina"];
/// Senders stand side by side within this share of the room for one kind of traffic.
const SPREAD: f64 = 0.6;

pub(super) fn figures(results: &Results) -> Vec<Figure> {
    let mut losses: Vec<Probability> = Vec::new();
    for summary in results.points() {
        let loss = summary.point().probability("loss");
        if !losses.contains(&loss) {
            losses.push(loss);
        }
    }
    let ms = |delay: Duration| delay.as_secs_f64() * 1e3;
    let p99 = |summary: &PointSummary, series| summary.series().get(series)?.all().quantile(0.99).map(ms);
    let mut figures = Vec::new();
    for loss in losses {
        let packets = drawn(results, loss, |summary| {
            per(summary, PACKETS, EXCHANGES).or_else(|| Some(2.0 * per(summary, PACKETS, MESSAGES)?))
        });
        figures.extend(packets.map(|series| {
            let label = "packets of both ends for two messages, one each way";
            let axis = |highest| Axis::from_zero(label, highest, Unit::Number);
            figure(results, &format!("What both ends send for a message and its answer, {loss} lost"), axis, series)
        }));
        let delays = drawn(results, loss, |summary| p99(summary, EXCHANGE).or_else(|| p99(summary, MESSAGE)));
        figures.extend(delays.map(|series| {
            let label = "p99 of exchanges in ping-pong, of messages both ways";
            let axis = |highest: f64| Axis::log(label, 40.0_f64.min(highest / 2.0), highest * 1.3, Unit::Milliseconds);
            figure(results, &format!("How long it takes, {loss} lost"), axis, series)
        }));
    }
    figures
}

/// A series for each of a few senders, with a point for each kind of traffic; `None` if there are no points.
fn drawn(
    results: &Results,
    loss: Probability,
    value: impl Fn(&PointSummary) -> Option<f64>,
) -> Option<Vec<PointSeries>> {
    let looks: Vec<Look> = looks(results).into_iter().filter(|look| FEW.contains(&look.sender)).collect();
    let many = as_f64(looks.len().saturating_sub(1).max(1));
    let series = looks.iter().enumerate().map(|(index, Look { sender, marker, color })| {
        let aside = (as_f64(index) / many - 0.5) * SPREAD;
        let points = TRAFFIC_NAMES.iter().enumerate().filter_map(|(place, traffic)| {
            let y = value(find(results, sender, traffic, loss)?)?;
            Some(PlotPoint { x: as_f64(place) + aside, y, whisker: None })
        });
        PointSeries { marker: *marker, color: Some(*color), is_joined: false, ..PointSeries::new(sender, points) }
    });
    let series: Vec<PointSeries> = series.filter(|series| !series.points.is_empty()).collect();
    (!series.is_empty()).then_some(series)
}

fn figure(results: &Results, title: &str, axis: impl Fn(f64) -> Axis, series: Vec<PointSeries>) -> Figure {
    let values = series.iter().flat_map(|series| &series.points).map(|point| point.y);
    let highest = values.max_by(f64::total_cmp).unwrap_or(1.0);
    let traffic = Axis::categories("what the applications do", &TRAFFIC_NAMES);
    let mut figure = Figure::new(title, &results.plan().conditions(), traffic, axis(highest));
    figure.points = series;
    figure
}

/// The point of a sender.
fn find<'r>(results: &'r Results, sender: &str, traffic: &str, loss: Probability) -> Option<&'r PointSummary> {
    results.points().iter().find(|summary| {
        let point = summary.point();
        point.choice("sender") == sender && point.choice("traffic") == traffic && point.probability("loss") == loss
    })
}
