//! The figures: each shows a number over one swept parameter, a line for each sender.

use super::{BESIDE, FAIR_SHARE, ITSELF, JAIN, LINK_SHARE, NONE, QUEUES, RIVALS, TIME_TO_60, TIME_TO_85, WITHIN};
use crate::count::as_f64;
use crate::figure::{Axis, Figure, PlotPoint, PointSeries, Unit};
use crate::plan::{Plan, Point, Value};
use crate::summary::{PointSummary, Repeated, Results, SeriesSummary};

/// The parameters whose first value a figure keeps unless it says otherwise.
const KEPT: [&str; 7] = ["rate", "rtt", "queue", "loss", "reordered", "rival", "scheduler"];

pub(super) fn figures(results: &Results) -> Vec<Figure> {
    let mut figures = Vec::new();
    let rates = values(results.plan(), "rate");
    for rate in &rates {
        let at = [("rate", rate.to_string())];
        figures.extend(Panel::new(results, "rtt", &at).draw("Goodput alone", "% of the link", LINK_SHARE));
    }
    for rate in &rates {
        let at = [("rate", rate.to_string())];
        figures.extend(Panel::new(results, "loss", &at).draw("Goodput under loss", "% of the link", LINK_SHARE));
    }
    for rtt in values(results.plan(), "rtt") {
        let at = [("rtt", rtt.to_string())];
        for (title, time) in [("Time to 85% of the link", TIME_TO_85), ("Time to 60% of the link", TIME_TO_60)] {
            figures.extend(Panel::new(results, "rate", &at).draw(title, "seconds; none where not reached", time));
        }
    }
    for rate in &rates {
        let at = [("rate", rate.to_string())];
        figures.extend(Panel::new(results, "queue", &at).draw("Goodput alone", "% of the link", LINK_SHARE));
    }
    figures.extend(Panel::new(results, "reordered", &[]).draw("Goodput under reordering", "% of the link", LINK_SHARE));
    for rival in RIVALS.iter().filter(|rival| **rival != NONE) {
        let at = [("rival", (*rival).to_owned())];
        let title = if *rival == ITSELF { "Share beside itself".to_owned() } else { format!("Share beside {rival}") };
        figures.extend(Panel::new(results, "queue", &at).draw(&title, "share of the fair share", FAIR_SHARE));
    }
    let at = [("rival", ITSELF.to_owned())];
    figures.extend(Panel::new(results, "queue", &at).draw("Jain's index beside itself", "Jain's index", JAIN));
    figures.extend(thin_figures(results));
    figures
}

/// The thin streams of each SCTP sender: over queues, over loss, beside rivals, and by scheduler.
fn thin_figures(results: &Results) -> Vec<Figure> {
    let mut figures = Vec::new();
    for sender in values(results.plan(), "sender") {
        for swept in ["queue", "loss", "rate", "rival", "scheduler"] {
            let panel = Panel::new(results, swept, &[("sender", sender.to_string())]);
            figures.extend(panel.draw_thin(&format!("Thin streams within and beside {sender}")));
        }
    }
    figures
}

/// The points of a figure: one parameter takes all its values, some have those that the figure asks for, and the others keep
/// their first.
struct Panel<'r> {
    results: &'r Results,
    swept: &'static str,
    fixed: Vec<(&'static str, String)>,
}

impl<'r> Panel<'r> {
    fn new(results: &'r Results, swept: &'static str, at: &[(&'static str, String)]) -> Self {
        let is_free = |name: &&str| *name != swept && at.iter().all(|(set, _)| set != name);
        let first = |name| Some((name, values(results.plan(), name).first()?.to_string()));
        let kept = KEPT.into_iter().filter(is_free).filter_map(first);
        Self { results, swept, fixed: at.iter().cloned().chain(kept).collect() }
    }

    /// What the horizontal axis shows, from the smallest on; a plan may begin with another.
    fn order(&self) -> Vec<Value> {
        let mut order = values(self.results.plan(), self.swept);
        order.sort_by_key(|value| match value {
            Value::Duration(duration) => duration.as_nanos(),
            Value::Bandwidth(rate) => rate.bits_per_second().into(),
            Value::Probability(share) => share.ppb().into(),
            Value::Choice(text) => QUEUES.iter().position(|queue| queue == text).unwrap_or_default() as u128,
            _ => 0,
        });
        order
    }

    /// Points with their place on the horizontal axis.
    fn points(&self) -> Vec<(f64, &'r PointSummary)> {
        let settings: Vec<(&str, &str)> = self.fixed.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let order = self.order();
        let place = |point: &Point| order.iter().position(|value| Some(*value) == point.value(self.swept));
        let matching = self.results.matching(&settings);
        let mut points: Vec<_> =
            matching.filter_map(|summary| Some((as_f64(place(summary.point())?), summary))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    /// A line for each sender; `None` if there is but one place on the axis, or nothing to draw.
    fn draw(&self, title: &str, unit: &str, value: &str) -> Option<Figure> {
        let mut series: Vec<PointSeries> = Vec::new();
        for (x, summary) in self.points() {
            let Some(point) = summary.values().get(value).and_then(|repeated| plotted(x, repeated, 1.0)) else {
                continue;
            };
            add(&mut series, summary.point().choice("sender"), point);
        }
        self.figure(title, unit, series)
    }

    /// Median, 99th percentile and maximum of both thin streams.
    fn draw_thin(&self, title: &str) -> Option<Figure> {
        let mut series: Vec<PointSeries> = Vec::new();
        for (x, summary) in self.points() {
            for name in [WITHIN, BESIDE] {
                let Some(delays) = summary.series().get(name) else { continue };
                for (quantile, text) in [(0.5, "p50"), (0.99, "p99")] {
                    let of = delays.quantiles().find(|(at, ..)| at.total_cmp(&quantile).is_eq());
                    if let Some(point) = of.and_then(|(.., each)| plotted(x, each, 1e3)) {
                        add(&mut series, &format!("{name}, {text}"), point);
                    }
                }
                if let Some(y) = max_ms(delays) {
                    add(&mut series, &format!("{name}, max"), PlotPoint { x, y, whisker: None });
                }
            }
        }
        // Without the stream within there is nothing to compare.
        series.iter().any(|series| series.name.starts_with(WITHIN)).then_some(())?;
        let mut figure = self.figure(title, "delay in ms", series)?;
        figure.subtitle += "; max of all runs";
        Some(figure)
    }

    fn figure(&self, title: &str, unit: &str, series: Vec<PointSeries>) -> Option<Figure> {
        let order: Vec<String> = self.order().iter().map(Value::to_string).collect();
        if order.len() < 2 || series.is_empty() {
            return None;
        }
        let names: Vec<&str> = order.iter().map(String::as_str).collect();
        let mut x = Axis::categories(self.swept, &names);
        x.label = match self.swept {
            "rtt" => "round-trip time without queues".to_owned(),
            "rate" => "rate of the bottleneck".to_owned(),
            "loss" => "packets lost at random".to_owned(),
            "reordered" => "packets held back".to_owned(),
            swept => swept.to_owned(),
        };
        let top =
            series.iter().flat_map(|series| &series.points).map(|point| point.whisker.map_or(point.y, |(_, to)| to));
        let y = Axis::from_zero(unit, top.fold(0.0, f64::max), Unit::Number);
        let fixed: Vec<String> = self.fixed.iter().filter(|(name, _)| *name != "sender").map(setting).collect();
        let runs = self.results.plan().repetitions();
        let subtitle = format!("{}; mean and 95% interval, n = {runs}, or 1 where nothing is random", fixed.join(", "));
        let mut figure = Figure::new(title, &subtitle, x, y);
        figure.points = PointSeries::told_apart(series);
        Some(figure)
    }
}

fn setting((name, text): &(&'static str, String)) -> String {
    format!("{name} {text}")
}

fn values(plan: &Plan, name: &str) -> Vec<Value> {
    plan.sweep().iter().find(|(known, _)| *known == name).map(|(_, values)| values.clone()).unwrap_or_default()
}

fn plotted(x: f64, repeated: &Repeated, factor: f64) -> Option<PlotPoint> {
    let mean = repeated.mean()?;
    let whisker = repeated.half_width_95().map(|half| ((mean - half).max(0.0) * factor, (mean + half) * factor));
    Some(PlotPoint { x, y: mean * factor, whisker })
}

fn max_ms(delays: &SeriesSummary) -> Option<f64> {
    Some(delays.all().max()?.as_secs_f64() * 1e3)
}

fn add(series: &mut Vec<PointSeries>, name: &str, point: PlotPoint) {
    match series.iter_mut().find(|series| series.name == name) {
        Some(series) => series.points.push(point),
        None => series.push(PointSeries::new(name, [point])),
    }
}
