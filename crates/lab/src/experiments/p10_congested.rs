//! Common parts of Fig. 8(b), 9 and 10 of Petlund et al. 2010: the congested network, its parameters, and the results of a run.

use festina_models::workload::{Periodic, Web, Workload};

use super::p10_fig8::{DELIVERY, group_and_delay, tcp_as_read};
use crate::count::as_f64;
use crate::evidence::Estimate;
use crate::plan::Point;
use crate::samples::Samples;
use crate::scenario::{Congested, CongestedRun, Readings, WebTraffic, tally_retransmissions};
use crate::scoreboard::Entry;
use crate::summary::{PointSummary, Results};

/// Loss of everything that was offered to the bottleneck.
const LOSS: &str = "loss at the bottleneck (%)";
/// Loss of what the streams sent for the first time.
const STREAM_LOSS: &str = "loss of first transmissions (%)";
const USE: &str = "use of the bottleneck (%)";

/// Runs a point once.
pub(super) fn run(point: &Point, seed: u64) -> Samples {
    let run = congested(point).run(seed);
    let truth = run.truth();
    let mut samples = Samples::new();
    tally_retransmissions(&truth, &mut samples);
    for delay in truth.messages.iter().filter_map(|message| message.delay()) {
        samples.tally(DELIVERY, delay);
    }
    let lost = truth.messages.iter().filter(|message| message.delivered_by != Some(0)).count();
    samples.set(STREAM_LOSS, percent(lost as u64, truth.messages.len() as u64));
    samples.set(LOSS, percent(run.dropped_packets, run.offered_packets));
    samples.set(USE, utilisation_percent(point, &run));
    samples
}

fn congested(point: &Point) -> Congested {
    let (group, delay) = group_and_delay(point);
    let readings = Readings::of(point);
    let interval = point.duration("interval");
    let count_u32 = |name| u32::try_from(point.count(name)).unwrap_or(u32::MAX);
    Congested {
        stack: match point.choice("bundling") {
            "p06" => group.stack_with_bundling_of_p06(&readings, delay),
            _ => tcp_as_read(point, group.stack(&readings, delay)),
        },
        workload: Workload::Periodic(Periodic { interval, size: point.bytes("size") }),
        streams: count_u32("streams"),
        spread: interval,
        duration: point.duration("duration"),
        rtt: point.duration("rtt"),
        rate: point.bandwidth("bottleneck"),
        queue_packets: usize::try_from(point.count("queue")).unwrap_or(usize::MAX),
        web: WebTraffic {
            clients: count_u32("clients"),
            web: Web { interval_mean: point.duration("web_interval"), ..Web::default() },
            rtt_max: point.duration("web_rtt"),
            tcp: match point.choice("web_tcp") {
                "cubic" => WebTraffic::linux_2_6(),
                _ => WebTraffic::sack_new_reno(),
            },
            is_both_ways: point.choice("web_ways") == "both",
        },
    }
}

/// The paper's loss beside ours, where nothing departs from the plan's first values but the group.
pub(super) fn loss_entry(results: &Results) -> Entry {
    let is_base = |summary: &&PointSummary| {
        let mut sweep = results.plan().sweep().iter().filter(|(name, _)| *name != "group");
        sweep.all(|(name, values)| summary.point().value(name) == values.first().copied())
    };
    let base = results.points().iter().find(is_base);
    let loss = base.and_then(|summary| Estimate::of(summary.values().get(LOSS)?));
    Entry::value("average packet loss at the bottleneck", "%", 5.0, loss)
}

fn utilisation_percent(point: &Point, run: &CongestedRun) -> f64 {
    let bits_possible =
        as_f64(point.bandwidth("bottleneck").bits_per_second()) * point.duration("duration").as_secs_f64();
    as_f64(run.delivered_bytes) * 8.0 / bits_possible * 100.0
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { as_f64(part) / as_f64(whole) * 100.0 }
}
