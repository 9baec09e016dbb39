//! Figures of log lines by class.

use super::checks::{Cell, Scope, words};
use super::{IMPORTANT, NORMAL, fraction};
use crate::figure::{Axis, Bar, BarChart, Figure, PlotPoint, PointSeries, Unit};
use crate::summary::{PointSummary, Repeated, Results, SeriesSummary};

/// What a figure over the rate of loss shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::experiments) enum OverLoss {
    /// The average delay of a series, in milliseconds.
    Average(&'static str),
    /// The 99th percentile of a series, in milliseconds: the mean of those of the repetitions.
    Late(&'static str),
    /// A number that is a percentage.
    Percentage(&'static str),
}

impl OverLoss {
    fn of(self, summary: &PointSummary) -> Option<Repeated> {
        let in_ms = |seconds: &Repeated| seconds.map(|seconds| seconds * 1e3);
        match self {
            Self::Average(series) => summary.series().get(series).map(SeriesSummary::mean_s).map(in_ms),
            Self::Late(series) => summary.series().get(series)?.quantile_s(0.99).map(in_ms),
            Self::Percentage(name) => Some(summary.values().get(name)?.map(|percent| percent / 100.0)),
        }
    }

    fn axis(self, highest: f64) -> Axis {
        match self {
            // Delays of milliseconds and of minutes stand side by side.
            Self::Average(series) => {
                Axis::log(&format!("average delay of {series} lines"), 30.0, highest.max(300.0), Unit::Milliseconds)
            }
            Self::Late(series) => {
                let label = format!("99th percentile of the delay of {series} lines");
                Axis::log(&label, 30.0, highest.max(300.0), Unit::Milliseconds)
            }
            Self::Percentage(name) => Axis::from_zero(name.trim_end_matches(" %"), highest.max(0.01), Unit::Share),
        }
    }
}

/// A curve for each sender over the rate of loss, with 95% intervals, at the points that are meant. `None` if there are none.
pub(in crate::experiments) fn over_loss(
    results: &Results,
    title: &str,
    what: OverLoss,
    is_meant: impl Fn(&PointSummary) -> bool,
) -> Option<Figure> {
    let mut curves: Vec<PointSeries> = Vec::new();
    for summary in results.points().iter().filter(|summary| is_meant(summary)) {
        let Some(values) = what.of(summary) else { continue };
        let Some(y) = values.mean() else { continue };
        let whisker = values.half_width_95().map(|half| ((y - half).max(0.0), y + half));
        let place = PlotPoint { x: fraction(summary.point(), "loss"), y, whisker };
        let name = summary.point().choice("sender");
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(place),
            None => curves.push(PointSeries::new(name, [place])),
        }
    }
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let highest = points().map(|point| point.whisker.map_or(point.y, |(_, high)| high)).fold(0.0, f64::max);
    let most = points().map(|point| point.x).fold(0.0, f64::max);
    let x = Axis::linear("packets lost each way", 0.0, most.max(0.01), Unit::Share);
    let mut figure = Figure::new(title, &results.plan().conditions(), x, what.axis(highest));
    figure.points = PointSeries::told_apart(curves);
    (!figure.points.is_empty()).then_some(figure)
}

/// The average delays of both classes, a figure for each cell with a group of bars for each sender, with 95% intervals.
pub(in crate::experiments) fn bars(scope: &Scope<'_>) -> Vec<Figure> {
    let conditions = scope.results.plan().conditions();
    let chart = |cell: &Cell| {
        let title = format!("Log lines beside TCP: {}", words(cell));
        let mut chart = BarChart::new(&title, &conditions, "average delay", Unit::Milliseconds);
        chart.series = [IMPORTANT, NORMAL].map(str::to_owned).to_vec();
        for summary in scope.points(cell) {
            let bars = [IMPORTANT, NORMAL].into_iter().enumerate();
            let bars = bars.filter_map(|(index, class)| bar(index, summary.series().get(class)?.mean_s()));
            chart.group(summary.point().choice("sender"), bars.collect());
        }
        chart.figure()
    };
    scope.cells().iter().map(chart).collect()
}

fn bar(series: usize, delays: &Repeated) -> Option<Bar> {
    let mean = delays.mean()? * 1e3;
    let bar = Bar::new(series, mean);
    let half = delays.half_width_95().map(|half| half * 1e3);
    Some(half.map_or(bar.clone(), |half| bar.whisker((mean - half).max(0.0), mean + half)))
}
