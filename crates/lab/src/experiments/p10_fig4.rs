//! `p10-fig4`: the RTO that a thin stream's sender calculates against the one that its path calls for (P10 §5.2, Fig. 4).

use std::time::Duration;

use festina_recovery::rtt::RttEstimator;
use festina_units::{Instant, Probability};

use crate::experiment::{Description, Experiment};
use crate::figure::{Axis, Curve, Figure, Unit};
use crate::plan::{Point, definition};
use crate::samples::{Sample, Samples};
use crate::scenario::{Fault, Group, Readings, Stack, StreamRecord, ThinStream};
use crate::summary::{PointSummary, Results};

const CALCULATED: &str = "calculated RTO";
const ACTUAL: &str = "actual RTO";
/// By how much a measured round-trip time is above that of the network.
const EXCESS: &str = "excess of the measured round-trip time";
/// How long lksctp delays a SACK.
const LKSCTP_SACK_DELAY: Duration = Duration::from_millis(200);
const RTO_MAX: Duration = Duration::from_secs(60);
/// How much of a run the figure shows.
const SHOWN: Duration = Duration::from_secs(60);
/// When the application begins (see [`ThinStream`]).
const STARTS_AT: Instant = Instant::from_secs(20);

/// Calculated and actual RTO with and without delayed SACKs.
#[derive(Clone, Copy, Debug)]
pub struct P10Fig4;

impl Experiment for P10Fig4 {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/p10-fig4.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let mut samples = Samples::new();
        for Calculated { at, calculated, actual, excess } in trace(point, seed) {
            for (name, delay) in [(CALCULATED, calculated), (ACTUAL, actual), (EXCESS, excess)] {
                samples.record(name, Sample { sent_at: at, delay });
            }
        }
        samples
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let plan = results.plan();
        let first_seed = plan.repetition_seed(0);
        // The parts of the figure, at each RTO.Min, without the other ways to lose packets and to measure.
        let first = |name| results.points().first().and_then(|summary| summary.point().value(name));
        let is_part = |summary: &&PointSummary| {
            ["lost", "rtt_samples"].into_iter().all(|name| summary.point().value(name) == first(name))
        };
        let parts: Vec<&PointSummary> = results.points().iter().filter(is_part).collect();
        let curves: Vec<[Curve; 2]> =
            parts.iter().map(|summary| over_time(&trace(summary.point(), first_seed))).collect();
        let rtos_ms = curves.iter().flatten().flat_map(|curve| &curve.points).map(|(_, rto_ms)| *rto_ms);
        // One scale for all parts, so that they can be compared.
        let highest_ms = rtos_ms.fold(0.0, f64::max);
        let part = |(summary, curves): (&PointSummary, [Curve; 2])| {
            let x = Axis::from_zero("seconds since the stream began", SHOWN.as_secs_f64(), Unit::Number);
            let y = Axis::from_zero("RTO", highest_ms, Unit::Milliseconds);
            let conditions = format!("{}; the first minute of the first run", plan.label(summary.point()));
            Figure { curves: curves.into(), ..Figure::new(plan.title(), &conditions, x, y) }
        };
        parts.into_iter().zip(curves).map(part).collect()
    }
}

/// An RTO that was calculated, and what the path called for at that time.
struct Calculated {
    at: Instant,
    calculated: Duration,
    actual: Duration,
    /// By how much the sample is above the round-trip time of the network.
    excess: Duration,
}

/// What the sender calculated at a point, in the order of its samples.
fn trace(point: &Point, seed: u64) -> Vec<Calculated> {
    let [rtt, interval, duration] = ["rtt", "interval", "duration"].map(|name| point.duration(name));
    let loss = point.probability("loss");
    let readings = Readings::of(point);
    // With the receivers mistaken for each other, the one that is to delay its SACKs does not, and the other does.
    let sack_delay = match point.duration("sack_delay") {
        delay if readings.fault != Fault::Swapped => delay,
        Duration::ZERO => LKSCTP_SACK_DELAY,
        _ => Duration::ZERO,
    };
    let mut stack = Group::ModMinRto.stack(&readings, sack_delay);
    if let Stack::Sctp { sender, .. } = &mut stack {
        sender.mechanisms.thin.rto_min = point.duration("rto_min");
    }
    let stream = ThinStream::periodic(stack, interval, point.bytes("size"), duration, rtt);
    let lost = |names: [&str; 2]| if names.contains(&point.choice("lost")) { loss } else { Probability::ZERO };
    let StreamRecord::Sctp(record) = stream.with_loss(lost(["both", "data"]), lost(["both", "sacks"])).run(seed).record
    else {
        unreachable!("the stack is SCTP")
    };
    let rto_min = point.duration("rto_min");
    let mut network = RttEstimator::new(rto_min);
    let sampled = record.rtt_samples.iter().filter(|sample| sample.at >= STARTS_AT);
    let calculated = sampled.map(|sample| {
        network.sample(rtt);
        let (actual, excess) = (network.rto(rto_min, RTO_MAX), sample.sample.saturating_sub(rtt));
        Calculated { at: sample.at, calculated: sample.rto, actual, excess }
    });
    calculated.collect()
}

/// The first minute of a trace. An RTO holds until the next one is calculated, so the curves are steps.
fn over_time(trace: &[Calculated]) -> [Curve; 2] {
    let mut curves = [CALCULATED, ACTUAL].map(|name| Curve { name: name.to_owned(), points: Vec::new() });
    for step in trace {
        let since_start = step.at.saturating_duration_since(STARTS_AT);
        if since_start > SHOWN {
            break;
        }
        for (curve, rto) in curves.iter_mut().zip([step.calculated, step.actual]) {
            if let Some((_, before_ms)) = curve.points.last().copied() {
                curve.points.push((since_start.as_secs_f64(), before_ms));
            }
            curve.points.push((since_start.as_secs_f64(), rto.as_secs_f64() * 1e3));
        }
    }
    curves
}
