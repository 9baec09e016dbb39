//! `fairness-crowd`: what a crowd of thin streams leaves to standard flows (the question that P10 §7.4 leaves open).

mod crowd;

use festina_models::tcp::TcpConfig;
use festina_models::workload::{Greedy, Periodic, Workload};
use festina_recovery::Profile;
use festina_units::{ByteCount, Duration};

use crate::count::as_f64;
use crate::experiment::{Description, Experiment};
use crate::figure::{Axis, Figure, PlotPoint, PointSeries, Unit};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::{Competition, Competitor, Share, Stack};
use crate::summary::Results;
use crowd::Crowd;

/// Payload of the standard flows, all together.
pub(crate) const STANDARD: &str = "standard Mbit/s";
const SCTP: &str = "SCTP Mbit/s";
const TCP: &str = "TCP Mbit/s";
/// Jain's index of the standard flows.
pub(crate) const JAIN: &str = "Jain's index of the standard flows";
/// Of the standard flows' packets.
pub(crate) const LOSS: &str = "loss of the standard flows %";
/// In front of the bottleneck.
pub(crate) const QUEUEING: &str = "queueing ms";
const CROWD_LOSS: &str = "loss of the crowd %";
const CROWD_PACKETS: &str = "packets for each message of the crowd";
const DELIVERY: &str = "delivery of the crowd's messages";

/// Thin streams by the hundred beside greedy SCTP and TCP.
#[derive(Clone, Copy, Debug)]
pub struct FairnessCrowd;

impl Experiment for FairnessCrowd {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/fairness-crowd.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let outcome = competition(point).run(seed);
        let (crowd, standard) = outcome.shares.split_first().expect("the crowd is the first competitor");
        let mut samples = Samples::new();
        // The first half of the standard flows is SCTP.
        let (sctp, tcp) = standard.split_at(standard.len() / 2);
        for (name, shares) in [(STANDARD, standard), (SCTP, sctp), (TCP, tcp)] {
            samples.set(name, shares.iter().map(|share| share.goodput_bps).sum::<f64>() / 1e6);
        }
        samples.set(JAIN, jains_index(standard));
        let [offered, dropped] = [|share: &Share| share.packets_offered, |share: &Share| share.packets_dropped]
            .map(|count| standard.iter().map(count).sum::<u64>());
        samples.set(LOSS, as_f64(dropped) / as_f64(offered.max(1)) * 100.0);
        samples.set(QUEUEING, outcome.queueing_delay_mean.as_secs_f64() * 1e3);
        samples.set(CROWD_LOSS, crowd.loss() * 100.0);
        samples.set(CROWD_PACKETS, crowd.packets_per_byte() * as_f64(point.bytes("size").bytes()));
        for truth in crowd.records.iter().map(|record| record.truth()) {
            for delay in truth.messages.iter().filter_map(|message| message.delay()) {
                samples.tally(DELIVERY, delay);
            }
        }
        samples
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        vec![
            figure(results, STANDARD, "Payload of all standard flows beside the crowd", "Mbit/s"),
            figure(results, LOSS, "Packets of the standard flows that find no room", "%"),
            figure(results, QUEUEING, "Waiting in front of the bottleneck", "ms"),
        ]
    }
}

/// The crowd, then the greedy flows.
fn competition(point: &Point) -> Competition {
    let sack_delay = point.duration("sack_delay");
    let periodic = Periodic { interval: point.duration("iat"), size: point.bytes("size") };
    let mut competitors = vec![Competitor {
        stack: Crowd::named(point.choice("crowd")).stack(sack_delay),
        workload: Workload::Periodic(periodic),
        streams: u32::try_from(point.count("streams")).unwrap_or(u32::MAX),
    }];
    for stack in [Stack::sctp(Profile::Rfc9260.mechanisms(), sack_delay), Stack::tcp(TcpConfig::sack())] {
        for _ in 0..point.count("pairs") {
            let greedy = Greedy { size: ByteCount::from_bytes(1_000) };
            competitors.push(Competitor { stack: stack.clone(), workload: Workload::Greedy(greedy), streams: 1 });
        }
    }
    let duration = point.duration("duration");
    Competition {
        competitors,
        rate: point.bandwidth("bottleneck"),
        rtt: point.duration("rtt"),
        queue_packets: usize::try_from(point.count("queue")).unwrap_or(usize::MAX),
        warm_up: Duration::from_secs(20),
        duration,
        interval: duration,
    }
}

/// 1 if all have the same, `1/n` if one has all.
fn jains_index(shares: &[Share]) -> f64 {
    let sum: f64 = shares.iter().map(|share| share.goodput_bps).sum();
    let squares: f64 = shares.iter().map(|share| share.goodput_bps.powi(2)).sum();
    if squares > 0.0 { sum.powi(2) / (squares * as_f64(shares.len())) } else { 0.0 }
}

/// A number over the size of the crowd, a line for each kind of crowd.
fn figure(results: &Results, value: &str, title: &str, unit: &str) -> Figure {
    let mut series: Vec<PointSeries> = Vec::new();
    let (mut top, mut most) = (0f64, 1f64);
    for summary in results.points() {
        let Some(repeated) = summary.values().get(value) else { continue };
        let Some(mean) = repeated.mean() else { continue };
        let whisker = repeated.half_width_95().map(|half| ((mean - half).max(0.0), mean + half));
        let x = as_f64(summary.point().count("streams"));
        (top, most) = (top.max(whisker.map_or(mean, |(_, high)| high)), most.max(x));
        let name = summary.point().choice("crowd");
        let point = PlotPoint { x, y: mean, whisker };
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(PointSeries::new(name, [point])),
        }
    }
    let x = Axis::log("thin streams", 0.8, most * 1.25, Unit::Number);
    let y = Axis::from_zero(&format!("mean of the runs in {unit}"), top, Unit::Number);
    let mut figure = Figure::new(title, &results.plan().conditions(), x, y);
    figure.points = PointSeries::told_apart(series);
    figure
}
