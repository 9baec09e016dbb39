//! The average delay of important messages over their share, a curve for each kind of point.

use super::average;
use crate::figure::{Axis, Figure, PlotPoint, PointSeries, Unit};
use crate::summary::{PointSummary, Results};

/// The average delay of important messages over their share at the points that `curve` gives a name, with 95% intervals. `None` if there
/// are none.
pub(in crate::experiments) fn chart(
    results: &Results,
    title: &str,
    curve: impl Fn(&PointSummary) -> Option<String>,
) -> Option<Figure> {
    let mut curves: Vec<PointSeries> = Vec::new();
    for summary in results.points() {
        let (Some(name), Some(delays)) = (curve(summary), average(summary)) else { continue };
        let Some(mean) = delays.mean() else { continue };
        let whisker = delays.half_width_95().map(|half| ((mean - half).max(0.0) * 1e3, (mean + half) * 1e3));
        let x = f64::from(summary.point().probability("important").ppb()) / 1e9;
        let place = PlotPoint { x, y: mean * 1e3, whisker };
        match curves.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(place),
            None => curves.push(PointSeries::new(&name, [place])),
        }
    }
    let highest = curves.iter().flat_map(|series| &series.points);
    let highest = highest.map(|point| point.whisker.map_or(point.y, |(_, high)| high)).fold(0.0, f64::max);
    let x = Axis::linear("share of important messages", 0.0, 1.0, Unit::Share);
    let y = Axis::from_zero("average delay of important messages", highest, Unit::Milliseconds);
    let mut figure = Figure::new(title, &results.plan().conditions(), x, y);
    figure.points = curves;
    (!figure.points.is_empty()).then_some(figure)
}
