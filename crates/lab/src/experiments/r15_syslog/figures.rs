//! Figures of log lines by class.

use super::super::r12;
use super::{IMPORTANT, IMPORTANT_LOST, NORMAL, NORMAL_LOST, fraction};
use crate::figure::{Axis, Bar, BarChart, Figure, PlotPoint, PointSeries, Unit};
use crate::summary::{PointSummary, Repeated, Results, SeriesSummary};

/// What a figure over the rate of loss shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OverLoss {
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

/// Delays and losses of both classes over the rate of loss, a figure for each at each load.
pub(super) fn over_loss(results: &Results) -> Vec<Figure> {
    let shown = [
        OverLoss::Average(IMPORTANT),
        OverLoss::Average(NORMAL),
        OverLoss::Late(IMPORTANT),
        OverLoss::Percentage(IMPORTANT_LOST),
        OverLoss::Percentage(NORMAL_LOST),
    ];
    let mut figures = Vec::new();
    for load in r12::values(results, "load") {
        for what in shown {
            let title = format!("Log lines of 250 bytes at {load} load");
            let is_meant =
                |summary: &PointSummary| summary.point().value("load").is_some_and(|it| it.to_string() == load);
            figures.extend(by_loss(results, &title, what, is_meant));
        }
    }
    figures
}

/// A curve for each sender over the rate of loss, with 95% intervals, at the points that are meant. `None` if there are none.
fn by_loss(results: &Results, title: &str, what: OverLoss, is_meant: impl Fn(&PointSummary) -> bool) -> Option<Figure> {
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

/// The average delays of both classes with 95% intervals: a figure for the points that have the same values of these parameters, with a group of bars for
/// each sender.
pub(super) fn bars(results: &Results, names: &[&str]) -> Vec<Figure> {
    let mut charts: Vec<(String, BarChart)> = Vec::new();
    for summary in results.points() {
        let values = names.iter().filter_map(|name| Some(format!("{name} {}", summary.point().value(name)?)));
        let words = values.collect::<Vec<_>>().join(", ");
        let known = charts.iter().position(|(known, _)| *known == words);
        let place = known.unwrap_or_else(|| {
            let title = format!("Log lines beside TCP: {words}");
            let mut chart = BarChart::new(&title, &results.plan().conditions(), "average delay", Unit::Milliseconds);
            chart.series = [IMPORTANT, NORMAL].map(str::to_owned).to_vec();
            charts.push((words, chart));
            charts.len() - 1
        });
        let bars = [IMPORTANT, NORMAL].into_iter().enumerate();
        let bars = bars.filter_map(|(index, class)| bar(index, summary.series().get(class)?.mean_s()));
        charts[place].1.group(summary.point().choice("sender"), bars.collect());
    }
    charts.into_iter().map(|(_, chart)| chart.figure()).collect()
}

fn bar(series: usize, delays: &Repeated) -> Option<Bar> {
    let mean = delays.mean()? * 1e3;
    let bar = Bar::new(series, mean);
    let half = delays.half_width_95().map(|half| half * 1e3);
    Some(half.map_or(bar.clone(), |half| bar.whisker((mean - half).max(0.0), mean + half)))
}
