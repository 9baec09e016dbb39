//! `r15-slow-start`: rounds of transfers by a closed form, in the simulator, and as a capture shows them (R15, Paper II).

mod transfers;

use festina_models::tcp::{DelayedAck, TcpConfig};
use festina_units::{Bandwidth, Duration};

use crate::count::as_f64;
use crate::evidence::Estimate;
use crate::experiment::{Description, Experiment};
use crate::figure::{Axis, Curve, Figure, PlotPoint, PointSeries, Unit};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::summary::{PointSummary, Results};
use transfers::{Fate, fates};

/// Paths from this rate on are no limit: a round trip carries more than the largest transfer.
const FAST: Bandwidth = Bandwidth::from_bits_per_second(10_000_000_000);
/// Transfers up to this many bytes are small ones, and from that many on large ones.
const SMALL_BYTES_MAX: u64 = 100_000;
const LARGE_BYTES_MIN: u64 = 1_000_000;
/// Rounds that are drawn, by the closed form.
const ROUNDS_DRAWN: u32 = 12;

const SIMULATED_RIGHT: &str = "transfers that take the rounds of the closed form";
const READ_RIGHT: &str = "transfers whose rounds are read as they were";
const WINDOW_RIGHT: &str = "transfers whose initial window is read as it was";
const ENDED_READ: &str = "transfers read to end within slow start";
const ENDED_FORM: &str = "transfers that end within slow start by the closed form";
const SMALL_S: &str = "time of small transfers in s";
const LARGE_S: &str = "time of large transfers in s";

/// Transfers of all sizes from their beginning.
#[derive(Clone, Copy, Debug)]
pub struct R15SlowStart;

impl Experiment for R15SlowStart {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/r15-slow-start.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        samples(point, &fates(point, seed))
    }

    fn lists_values(&self) -> bool {
        true
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        vec![rounds_figure(results), ended_figure(results)]
    }
}

const DELAYED: &str = "rfc5681-delayed";
/// The sender begins with another window than the plan says; the path loses one of a hundred packets; the capture lacks packets.
const OTHER_WINDOW: &str = "other-window";
const LOSSY: &str = "lossy";

fn is_fast(point: &Point) -> bool {
    point.bandwidth("rate") >= FAST
}

/// The TCP of a stack at both ends.
fn config(stack: &str) -> TcpConfig {
    let delayed = DelayedAck { delay: Duration::from_millis(40), ..DelayedAck::default() };
    match stack {
        "rfc5681" => TcpConfig { delayed_ack: DelayedAck::OFF, ..TcpConfig::sack() },
        DELAYED => TcpConfig { delayed_ack: delayed, ..TcpConfig::sack() },
        _ => TcpConfig::linux(),
    }
}

fn samples(point: &Point, fates: &[Fate]) -> Samples {
    let mut samples = Samples::new();
    let share = |is_so: &dyn Fn(&Fate) -> bool| {
        as_f64(fates.iter().filter(|fate| is_so(fate)).count()) / as_f64(fates.len().max(1))
    };
    if is_fast(point) {
        samples.set(SIMULATED_RIGHT, share(&|fate| fate.simulated == Some(fate.by_form)));
        samples.set(READ_RIGHT, share(&|fate| fate.read.is_some() && fate.read == fate.simulated));
    }
    samples.set(WINDOW_RIGHT, share(&|fate| fate.first_round_read == Some(fate.first_round)));
    samples.set(ENDED_READ, share(&|fate| fate.read.is_some()));
    samples.set(ENDED_FORM, share(&|fate| fate.fits));
    let mut set_mean = |name: &str, values: Vec<f64>| {
        if !values.is_empty() {
            samples.set(name, values.iter().sum::<f64>() / as_f64(values.len()));
        }
    };
    let times = |is_meant: &dyn Fn(u64) -> bool| {
        let meant = fates.iter().filter(|fate| is_meant(fate.bytes));
        meant.filter_map(|fate| Some(fate.time?.as_secs_f64())).collect()
    };
    set_mean(SMALL_S, times(&|bytes| bytes <= SMALL_BYTES_MAX));
    set_mean(LARGE_S, times(&|bytes| bytes >= LARGE_BYTES_MIN));
    for rounds in 1..=ROUNDS_DRAWN {
        let meant = fates.iter().filter(|fate| fate.by_form == rounds);
        set_mean(&rounds_read(rounds), meant.filter_map(|fate| Some(f64::from(fate.read?))).collect());
    }
    samples
}

fn rounds_read(by_form: u32) -> String {
    format!("rounds read where the closed form gives {by_form}")
}

/// The points of Linux's TCP with the usual window, the slowest path first.
fn rates(results: &Results) -> Vec<&PointSummary> {
    let mut points: Vec<&PointSummary> =
        results.matching(&[("stack", "linux"), ("initial_window", "10")]).filter(|it| !is_fast(it.point())).collect();
    points.sort_by_key(|summary| summary.point().bandwidth("rate"));
    points
}

/// Rounds by the closed form across, rounds as read from the capture upwards.
fn rounds_figure(results: &Results) -> Figure {
    let fast = results.points().iter().filter(|summary| is_fast(summary.point()));
    let of = |summary: &PointSummary| {
        let points = (1..=ROUNDS_DRAWN).filter_map(|rounds| {
            let estimate = Estimate::of(summary.values().get(&rounds_read(rounds))?)?;
            let whisker = estimate.interval().map(|[low, high]| (low, high));
            Some(PlotPoint { x: f64::from(rounds), y: estimate.mean, whisker })
        });
        let (stack, window) = (summary.point().choice("stack"), summary.point().count("initial_window"));
        PointSeries::new(&format!("{stack}, window {window}"), points)
    };
    let points = PointSeries::told_apart(fast.map(of).collect());
    let highest = points.iter().flat_map(|series| &series.points).map(|point| point.y).fold(1.0, f64::max);
    let x = Axis::linear("rounds by the closed form", 0.0, f64::from(ROUNDS_DRAWN) + 0.5, Unit::Count);
    let y = Axis::from_zero("rounds as the capture shows them", highest, Unit::Count);
    let end = f64::from(ROUNDS_DRAWN).min(highest);
    let curves = vec![Curve { name: "closed form".to_owned(), points: vec![(0.0, 0.0), (end, end)] }];
    Figure { points, curves, ..Figure::new("Rounds of transfers over a fast path", &runs(results), x, y) }
}

/// The share of transfers that end within slow start, by rate.
fn ended_figure(results: &Results) -> Figure {
    let points = rates(results);
    let series = |name: &str, label: &str| {
        let points = points.iter().filter_map(|summary| {
            let estimate = Estimate::of(summary.values().get(name)?)?;
            let whisker = estimate.interval().map(|[low, high]| (low, high));
            Some(PlotPoint {
                x: as_f64(summary.point().bandwidth("rate").bits_per_second()) / 1e6,
                y: estimate.mean,
                whisker,
            })
        });
        PointSeries::new(label, points)
    };
    let names = [(ENDED_READ, "as the capture shows"), (ENDED_FORM, "by the closed form")];
    let series = PointSeries::told_apart(names.map(|(name, label)| series(name, label)).into());
    let rates: Vec<f64> = series.iter().flat_map(|it| &it.points).map(|point| point.x).collect();
    let [low, high] = [rates.iter().copied().fold(1.0, f64::min), rates.iter().copied().fold(10.0, f64::max)];
    let x = Axis::log("rate of the path in Mbit/s", low / 2.0, high * 2.0, Unit::Number);
    let y = Axis::linear("share of transfers that end within slow start", 0.0, 1.0, Unit::Share);
    Figure { points: series, ..Figure::new("Transfers that end within slow start", &runs(results), x, y) }
}

fn runs(results: &Results) -> String {
    let repetitions = results.points().first().map_or(0, PointSummary::repetitions);
    format!("means of {repetitions} runs")
}
