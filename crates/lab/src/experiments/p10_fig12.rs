//! `p10-fig12`: throughput of a greedy stream next to a stream of modified SCTP (P10 §6.3, Fig. 12).

use festina_models::workload::{Cbr, Greedy, Workload};
use festina_units::{ByteCount, Duration};

use crate::count::as_f64;
use crate::evidence::{Bound, Estimate};
use crate::experiment::{Description, Experiment};
use crate::figure::{Axis, Figure, PlotPoint, PointSeries, Unit};
use crate::plan::{Point, Value, definition};
use crate::samples::Samples;
use crate::scenario::{Competition, Competitor, Fault, Group, Readings};
use crate::scoreboard::Entry;
use crate::summary::{PointSummary, Repeated, Results};

const TESTED: &str = "tested kbit/s";
const GREEDY: &str = "greedy kbit/s";
const LOSS: &str = "loss of the tested stream";
const PACKETS: &str = "packets for each message of the tested stream";

/// The streams that are tested: the names of [`Group`].
pub(super) const TESTED_STREAMS: [&str; 2] = ["lksctp", "all-mods"];
/// From this rate on the paper's modifications are off.
const THICK_FROM_KBIT_S: f64 = 400.0;

/// Throughput of a stream of lksctp or modified SCTP and of the greedy stream beside it.
#[derive(Clone, Copy, Debug)]
pub struct P10Fig12;

impl Experiment for P10Fig12 {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/p10-fig12.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let outcome = beside_greedy(point, point.duration("duration")).run(seed);
        let [tested, greedy] = outcome.shares.as_slice() else { unreachable!("two streams compete") };
        let mut samples = Samples::new();
        samples.set(TESTED, tested.goodput_bps / 1e3);
        samples.set(GREEDY, greedy.goodput_bps / 1e3);
        samples.set(LOSS, tested.loss());
        samples.set(PACKETS, tested.packets_per_byte() * as_f64(point.bytes("size").bytes()));
        samples
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (value, what, bound) in [
            (TESTED, "modified over unmodified stream", Bound::LessThan(1.0)),
            (GREEDY, "greedy stream beside the modified one over that beside the other", Bound::MoreThan(1.0)),
        ] {
            for Difference { condition, ratio, .. } in
                differences(results, value).into_iter().filter(|it| it.is_base && it.kbit_s >= THICK_FROM_KBIT_S)
            {
                entries.push(Entry::inequality(format!("{what}, {condition}"), "", bound, ratio));
            }
        }
        entries
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        vec![
            figure(results, TESTED, "Throughput of the stream that tries to send at a rate", ""),
            figure(results, GREEDY, "Throughput of the greedy stream beside it", "beside "),
        ]
    }
}

/// The tested stream, then the greedy one; throughput in intervals of `interval`.
pub(super) fn beside_greedy(point: &Point, interval: Duration) -> Competition {
    let sound = Readings { fault: Fault::None, ..Readings::of(point) };
    let tested = point.choice("tested");
    // The deliberate fault is in the modified stream; swapped, it is in the greedy one.
    let fault = if tested == TESTED_STREAMS[1] { Fault::of(point) } else { Fault::None };
    let stack = |name| Group::named(name).stack(&sound, point.duration("sack_delay"));
    let cbr = Workload::Cbr(Cbr { rate: point.bandwidth("rate"), size: point.bytes("size") });
    let greedy = Workload::Greedy(Greedy { size: ByteCount::from_bytes(1_000) });
    let [tested_workload, other_workload] = if fault == Fault::Swapped { [greedy, cbr] } else { [cbr, greedy] };
    Competition {
        competitors: vec![
            Competitor { stack: fault.in_stack(stack(tested)), workload: tested_workload, streams: 1 },
            Competitor { stack: stack("lksctp"), workload: other_workload, streams: 1 },
        ],
        rate: point.bandwidth("bottleneck"),
        rtt: point.duration("rtt"),
        queue_packets: usize::try_from(point.count("queue")).unwrap_or(usize::MAX),
        warm_up: Duration::from_secs(20),
        duration: point.duration("duration"),
        interval,
    }
}

/// The same point with the unmodified and with the modified stream.
pub(super) fn pairs(results: &Results) -> Vec<[&PointSummary; 2]> {
    let [lksctp, modified] = TESTED_STREAMS;
    let of = |name| results.points().iter().filter(move |summary| summary.point().choice("tested") == name);
    let twin = |one: &PointSummary| {
        let others = others(one.point());
        of(modified).find(move |other| self::others(other.point()) == others)
    };
    of(lksctp).filter_map(|summary| Some([summary, twin(summary)?])).collect()
}

/// The values of all parameters but the stream's.
fn others(point: &Point) -> Vec<(&'static str, Value)> {
    point.values().iter().copied().filter(|(name, _)| *name != "tested").collect()
}

/// What tells a pair from the others.
pub(super) fn condition(results: &Results, summary: &PointSummary) -> String {
    let swept = results.plan().swept().filter(|name| *name != "tested");
    let values = swept.filter_map(|name| summary.point().value(name).map(|value| format!("{name} {value}")));
    values.collect::<Vec<_>>().join(", ")
}

/// How many times as much of something there is with the modified stream.
struct Difference {
    condition: String,
    /// Every parameter but the rate has its first value.
    is_base: bool,
    kbit_s: f64,
    ratio: Option<Estimate>,
}

fn differences(results: &Results, value: &str) -> Vec<Difference> {
    let difference = |[lksctp, modified]: [&PointSummary; 2]| {
        let [before, after] = [lksctp, modified].map(|summary| summary.values().get(value));
        Difference {
            condition: condition(results, lksctp),
            is_base: is_base(results, lksctp.point()),
            kbit_s: kbit_s(lksctp.point()),
            ratio: after.zip(before).and_then(|(after, before)| Estimate::ratio(after, before)),
        }
    };
    pairs(results).into_iter().map(difference).collect()
}

/// Whether every parameter but the stream and its rate has the first value of the plan's list.
fn is_base(results: &Results, point: &Point) -> bool {
    let mut sweep = results.plan().sweep().iter();
    sweep.all(|(name, values)| ["tested", "rate"].contains(name) || point.value(name) == values.first().copied())
}

fn kbit_s(point: &Point) -> f64 {
    as_f64(point.bandwidth("rate").bits_per_second()) / 1e3
}

/// Mean and confidence interval over the rate at the first value of every other parameter.
fn figure(results: &Results, value: &str, title: &str, beside: &str) -> Figure {
    let mut top = 0f64;
    let mut series = Vec::new();
    for (tested, name) in TESTED_STREAMS.into_iter().zip(["lksctp", "modified lksctp"]) {
        let of_stream = |point: &Point| point.choice("tested") == tested && is_base(results, point);
        let points = results.points().iter().filter(|summary| of_stream(summary.point())).filter_map(|summary| {
            let repeated = summary.values().get(value)?;
            Some(plot_point(kbit_s(summary.point()), repeated.mean()?, repeated))
        });
        let mut points: Vec<PlotPoint> = points.collect();
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        top = points.iter().map(|point| point.y).fold(top, f64::max);
        series.push(PointSeries::new(&format!("{beside}{name}"), points));
    }
    let highest_rate = series.iter().flat_map(|series| &series.points).map(|point| point.x).fold(0.0, f64::max);
    let x = Axis::from_zero("rate that the stream tries to send at, in kbit/s", highest_rate, Unit::Number);
    let y = Axis::from_zero("mean throughput in kbit/s", top, Unit::Number);
    let first = results.points().first();
    let base =
        first.into_iter().flat_map(|first| results.plan().swept().map(move |name| (name, first.point().value(name))));
    let base = base.filter(|(name, _)| !["tested", "rate"].contains(name));
    let base: String = base.filter_map(|(name, value)| Some(format!("{name} {}, ", value?))).collect();
    let mut figure = Figure::new(title, &format!("{base}{}", results.plan().conditions()), x, y);
    figure.points = PointSeries::told_apart(series);
    figure
}

fn plot_point(x: f64, mean: f64, repeated: &Repeated) -> PlotPoint {
    let whisker = repeated.half_width_95().map(|half| (mean - half, mean + half));
    PlotPoint { x, y: mean, whisker }
}
