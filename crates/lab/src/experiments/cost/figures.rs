//! The figures: the price of a delay, the cost without loss, and the time that a sender needs to settle after losses begin.

use festina_units::{Duration, Probability};

use super::{BURSTS, CHANGE, INDEPENDENT, PAIRS, WINDOWS_MS, costs, window_name};
use crate::count::as_f64;
use crate::figure::{Axis, Curve, Figure, Note, PlotPoint, PointSeries, Unit};
use crate::scenario::fate::{BYTES_EACH, DELIVERY};
use crate::scenario::looks::{Look, default_sender, looks};
use crate::summary::{PointSummary, Results, SeriesSummary};

/// The intervals whose prices are drawn, in ms: a stream that is dense for a thin one, a game's, a chat's.
const DRAWN_IATS_MS: [u64; 4] = [20, 33, 50, 250];
/// The losses under which they are drawn, in percent.
const DRAWN_LOSSES_PERCENT: [u32; 2] = [1, 5];
/// The senders that are drawn over time and over the interval; all others would lie on top of each other.
const FEW: [&str; 6] = ["rfc9260", "rack", "festina+off", "festina+bundled", "festina+spaced", "festina"];

pub(super) fn figures(results: &Results) -> Vec<Figure> {
    let mut figures = Vec::new();
    for iat in intervals(results).into_iter().filter(|iat| DRAWN_IATS_MS.contains(&as_ms(*iat))) {
        let losses = DRAWN_LOSSES_PERCENT.map(|percent| (percent, INDEPENDENT)).into_iter();
        let losses = losses.chain([(5, BURSTS), (1, PAIRS), (5, PAIRS)]);
        figures.extend(
            losses.filter_map(|(percent, pattern)| prices(results, iat, Probability::from_percent(percent), pattern)),
        );
    }
    figures.extend(calm(results, 1, "bytes"));
    figures.extend(calm(results, 0, "packets"));
    let drawn = intervals(results).into_iter().filter(|iat| DRAWN_IATS_MS.contains(&as_ms(*iat)));
    figures.extend(drawn.filter_map(|iat| settling(results, iat)));
    figures
}

fn as_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn ms(delay: Duration) -> f64 {
    delay.as_secs_f64() * 1e3
}

/// The 99th percentile with its 95% confidence interval over the repetitions, in ms.
fn p99(delays: &SeriesSummary) -> Option<(f64, Option<(f64, f64)>)> {
    let (_, delay, each) = delays.quantiles().find(|(quantile, ..)| *quantile == 0.99)?;
    let delay = ms(delay?);
    let interval = each.half_width_95().map(|half| (delay - half * 1e3, delay + half * 1e3));
    Some((delay, interval))
}

/// A sender in a figure of prices.
struct Priced {
    name: &'static str,
    bytes: f64,
    p99_ms: f64,
}

/// The senders for which no other sender is both as cheap and as fast, cheapest first. Of equal ones, the first one counts.
fn front(senders: &[Priced]) -> Vec<&Priced> {
    let is_beaten = |(index, one): (usize, &Priced)| {
        senders.iter().enumerate().any(|(other_index, other)| {
            let is_equal = other.bytes == one.bytes && other.p99_ms == one.p99_ms;
            other.bytes <= one.bytes && other.p99_ms <= one.p99_ms && (!is_equal || other_index < index)
        })
    };
    let mut front: Vec<&Priced> =
        senders.iter().enumerate().filter(|(index, one)| !is_beaten((*index, *one))).map(|(_, one)| one).collect();
    front.sort_by(|one, other| one.bytes.total_cmp(&other.bytes));
    front
}

/// The price of delays at one interval and loss.
fn prices(results: &Results, iat: Duration, loss: Probability, pattern: &str) -> Option<Figure> {
    let title = format!("What a delay costs: a message every {} ms, {}", as_ms(iat), lost(loss, pattern));
    price_figure(results, &title, |sender| find(results, sender, iat, loss, pattern))
}

/// The p99 over the bytes of both ends, a point for each sender that `find` has a point of the plan for.
pub(in crate::experiments) fn price_figure<'r>(
    results: &'r Results,
    title: &str,
    find: impl Fn(&str) -> Option<&'r PointSummary>,
) -> Option<Figure> {
    let mut series = Vec::new();
    let mut priced = Vec::new();
    for Look { sender: name, marker, color } in looks(results) {
        let Some(summary) = find(name) else { continue };
        let Some((p99_ms, whisker)) = summary.series().get(DELIVERY).and_then(p99) else { continue };
        let Some(bytes) = summary.values().get(BYTES_EACH).and_then(|value| value.mean()) else { continue };
        priced.push(Priced { name, bytes, p99_ms });
        let points = [PlotPoint { x: bytes, y: p99_ms, whisker }];
        series.push(PointSeries { marker, color: Some(color), is_joined: false, ..PointSeries::new(name, points) });
    }
    let floor_ms = ms(results.points().first()?.point().duration("rtt")) / 2.0;
    let highest = priced.iter().map(|one| one.p99_ms).max_by(f64::total_cmp)?;
    let dearest = priced.iter().map(|one| one.bytes).max_by(f64::total_cmp)?;
    let mut figure = Figure::new(
        title,
        &format!("each point is a sender, bars are 95% intervals of p99; {}", results.plan().conditions()),
        Axis::from_zero("bytes of both ends per message, IP and UDP headers included", dearest * 1.05, Unit::Number),
        Axis::log("p99 of the delivery delay", floor_ms, (highest * 1.3).max(floor_ms * 4.0), Unit::Milliseconds),
    );
    let front = front(&priced);
    figure.curves.push(Curve { name: "the front".to_owned(), points: steps(&front, highest * 1.3, dearest * 1.05) });
    figure.has_curve_names = false;
    let is_named = |one: &&Priced| one.name == default_sender() || front.iter().any(|best| best.name == one.name);
    let named = priced.iter().filter(is_named);
    figure.notes = named.map(|one| Note { x: one.bytes, y: one.p99_ms, text: one.name.to_owned() }).collect();
    figure.points = series;
    Some(figure)
}

/// The line that has no sender below it or left of it.
fn steps(front: &[&Priced], highest: f64, dearest: f64) -> Vec<(f64, f64)> {
    let mut line: Vec<(f64, f64)> = Vec::new();
    let mut height = highest;
    for one in front {
        line.extend([(one.bytes, height), (one.bytes, one.p99_ms)]);
        height = one.p99_ms;
    }
    line.push((dearest, height));
    line
}

fn lost(loss: Probability, pattern: &str) -> String {
    let how = match pattern {
        BURSTS => " in bursts",
        PAIRS => " in pairs",
        _ => "",
    };
    format!("{loss} lost{how}")
}

/// The cost of a message without loss, over the interval.
fn calm(results: &Results, cost: usize, what: &str) -> Option<Figure> {
    let point = |summary: &PointSummary| PlotPoint {
        x: ms(summary.point().duration("iat")),
        y: costs(summary)[cost],
        whisker: None,
    };
    let intervals = intervals(results);
    let of = |name: &str| -> Vec<PlotPoint> {
        let found = intervals.iter().filter_map(|iat| find(results, name, *iat, Probability::ZERO, INDEPENDENT));
        found.map(point).collect()
    };
    let series = of_few(results, of);
    let most = series.iter().flat_map(|series| &series.points).map(|point| point.y).max_by(f64::total_cmp)?;
    let (first, last) = (intervals.first()?, intervals.last()?);
    let mut figure = Figure::new(
        &format!("What a message costs where nothing is lost, in {what}"),
        &results.plan().conditions(),
        Axis::log("time from one message to the next", ms(*first) / 1.2, ms(*last) * 1.2, Unit::Milliseconds),
        Axis::from_zero(&format!("{what} of both ends per message"), most, Unit::Number),
    );
    figure.points = series;
    Some(figure)
}

/// The p99 of the messages after losses began, by when they were due, and under lasting losses.
fn settling(results: &Results, iat: Duration) -> Option<Figure> {
    let loss = results.points().iter().find(|summary| summary.point().choice("pattern") == CHANGE)?;
    let loss = loss.point().probability("loss");
    let mut names: Vec<String> = WINDOWS_MS.iter().map(window_name).collect();
    let of = |name: &str| -> Vec<PlotPoint> {
        let at = |pattern, series: &str| find(results, name, iat, loss, pattern)?.series().get(series).and_then(p99);
        let after = WINDOWS_MS.iter().map(|window| at(CHANGE, &window_name(window)));
        let delays = after.chain([at(INDEPENDENT, DELIVERY)]).enumerate();
        let shown =
            delays.filter_map(|(place, delay)| delay.map(|(y, whisker)| PlotPoint { x: as_f64(place), y, whisker }));
        shown.collect()
    };
    let series = of_few(results, of);
    let highest = series.iter().flat_map(|series| &series.points).map(|point| point.y).max_by(f64::total_cmp)?;
    names.push("lasting".to_owned());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let floor_ms = ms(results.points().first()?.point().duration("rtt")) / 2.0;
    let mut figure = Figure::new(
        &format!("After losses have begun: a message every {} ms, {} from then on", as_ms(iat), lost(loss, CHANGE)),
        &format!("bars are 95% intervals; {}", results.plan().conditions()),
        Axis::categories("when the message was due, after the change; lasting losses on the right", &names),
        Axis::log("p99 of the delivery delay", floor_ms * 0.8, (highest * 1.3).max(floor_ms * 4.0), Unit::Milliseconds),
    );
    figure.points = series;
    Some(figure)
}

/// A series for each of a few senders that the plan has, with the looks of the other figures.
fn of_few(results: &Results, points: impl Fn(&str) -> Vec<PlotPoint>) -> Vec<PointSeries> {
    let drawn = looks(results).into_iter().filter(|look| FEW.contains(&look.sender));
    let series = drawn.map(|Look { sender, marker, color }| PointSeries {
        marker,
        color: Some(color),
        ..PointSeries::new(sender, points(sender))
    });
    series.filter(|series| !series.points.is_empty()).collect()
}

/// The point of a sender.
fn find<'r>(
    results: &'r Results,
    sender: &str,
    iat: Duration,
    loss: Probability,
    pattern: &str,
) -> Option<&'r PointSummary> {
    results.points().iter().find(|summary| {
        let point = summary.point();
        point.choice("sender") == sender
            && point.duration("iat") == iat
            && point.probability("loss") == loss
            && point.choice("pattern") == pattern
    })
}

/// The intervals of the plan, rising.
fn intervals(results: &Results) -> Vec<Duration> {
    let mut intervals: Vec<Duration> = results.points().iter().map(|point| point.point().duration("iat")).collect();
    intervals.sort_unstable();
    intervals.dedup();
    intervals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_has_who_is_beaten_by_nobody_and_of_equals_the_first() {
        let one = |name, bytes, p99_ms| Priced { name, bytes, p99_ms };
        let senders = [
            one("dear", 400.0, 60.0),
            one("slow", 150.0, 900.0),
            one("as slow", 150.0, 900.0),
            one("worse", 410.0, 60.0),
        ];
        let names: Vec<&str> = front(&senders).iter().map(|one| one.name).collect();
        assert_eq!(names, ["slow", "dear"]);
    }

    #[test]
    fn the_line_of_the_front_goes_down_in_steps() {
        let best = [Priced { name: "a", bytes: 1.0, p99_ms: 9.0 }, Priced { name: "b", bytes: 3.0, p99_ms: 5.0 }];
        let line = steps(&best.iter().collect::<Vec<_>>(), 10.0, 4.0);
        assert_eq!(line, [(1.0, 10.0), (1.0, 9.0), (3.0, 9.0), (3.0, 5.0), (4.0, 5.0)]);
    }
}
