//! Common parts of Fig. 8(b), 9 and 10 of Petlund et al. 2010: the congested network, its parameters, and the results of a run.

use std::ops::RangeInclusive;

use festina_models::workload::{Periodic, Web, Workload};
use festina_units::{Bandwidth, Duration};

use super::p10_fig8::{DELIVERY, group_and_delay, stream_assumptions, stream_parameters, tcp_as_read};
use crate::assumption::{Assumption, chosen, stated};
use crate::count::as_f64;
use crate::evidence::Estimate;
use crate::plan::{Kind, Parameter, Point};
use crate::samples::Samples;
use crate::scenario::{Congested, CongestedRun, Readings, WebTraffic, tally_retransmissions};
use crate::scoreboard::Entry;
use crate::summary::{PointSummary, Results};

/// Loss of everything that was offered to the bottleneck.
const LOSS: &str = "loss at the bottleneck (%)";
/// Loss of what the streams sent for the first time.
const STREAM_LOSS: &str = "loss of first transmissions (%)";
const USE: &str = "use of the bottleneck (%)";

/// What a plan can set.
pub(super) fn parameters() -> Vec<Parameter> {
    let parameter = |name, about, kind| Parameter { name, about, kind };
    let ms = Duration::from_millis;
    let rates: RangeInclusive<Bandwidth> =
        Bandwidth::from_bits_per_second(100_000)..=Bandwidth::from_bits_per_second(1_000_000_000);
    let mut parameters = stream_parameters();
    parameters.extend([
        parameter("bundling", "what all modifications bundle: as P10 or as P06 has it", Kind::Choice(&["p10", "p06"])),
        parameter("streams", "how many such streams there are at a time", Kind::Count(1..=200)),
        parameter("bottleneck", "how fast the bottleneck is", Kind::Bandwidth(rates)),
        parameter("queue", "how many packets may wait in front of it", Kind::Count(1..=100_000)),
        parameter("clients", "how many web clients there are", Kind::Count(1..=1_000)),
        parameter(
            "web_interval",
            "the mean time from one request of a client to the next",
            Kind::Duration(ms(10)..=ms(60_000)),
        ),
        parameter(
            "web_rtt",
            "the longest round-trip time of a client; the others lie below",
            Kind::Duration(ms(0)..=ms(2_000)),
        ),
        parameter("web_tcp", "the congestion controller of the web traffic", Kind::Choice(&["cubic", "new-reno"])),
        parameter("web_ways", "which ways web traffic crosses the bottleneck", Kind::Choice(&["data", "both"])),
    ]);
    parameters
}

/// Where the values come from.
pub(super) fn assumptions() -> Vec<Assumption> {
    let mut assumptions = stream_assumptions();
    assumptions.extend([
        chosen("duration", "the paper's 2 hours (§6) over several streams at a time instead of one"),
        chosen("bundling", "§6.2 does not say whether the bundling of P06 §4.4 was among all modifications"),
        chosen("streams", "more samples in the same time, for a few hundredths of the bottleneck"),
        stated("bottleneck", "§6.2: 10 Mbit/s"),
        stated("queue", "§6.2: 100 packets"),
        stated("clients", "§6.2: 81"),
        stated("web_interval", "§6.2: 655 ms"),
        chosen("web_rtt", "§6.2: each client has a delay of its own; which is not told"),
        chosen("web_tcp", "CUBIC is the nearest to Linux 2.6.16's BIC").of(&["cubic"]),
        chosen("web_tcp", "shows how much it matters"),
        chosen("web_ways", "§6.2: a web server sends to its clients").of(&["data"]),
        chosen("web_ways", "as much traffic the other way, so that SACKs get lost, too; it shows how much it matters"),
    ]);
    assumptions
}

/// What the experiments say about the network: a macro, since `concat!` takes literals only.
macro_rules! p10_network {
    () => {
        "The streams cross a bottleneck of 10 Mbit/s with a queue of 100 packets, together with the traffic of a web server to \
         81 clients: sizes from a Pareto distribution from 1,000 bytes on with a mean of 9,200 and a cut at 64 MB, requests \
         after exponentially distributed gaps with a mean of 655 ms, a TCP connection for each response. That is stated. \
         Chosen are the round-trip times of the clients (evenly from 5 to 400 ms; the paper gave each a delay of its own), the \
         web's TCP (CUBIC, the nearest to the BIC of Linux 2.6.16), and that the responses all cross the bottleneck one way \
         (p10-fig9 has web traffic both ways, too). Several streams run side by side, which gives more \
         samples in the same time: 50 take 2.5% of the bottleneck at four messages a second, and the 30 of p10-fig10 take 7.5% at \
         twenty.\n\n\
         The sizes have such a heavy tail that the loss grows with the length of a test. The small packets of the streams, \
         which come one at a time, lose less than the bursts of the web traffic that fill the queue."
    };
}
pub(super) use p10_network;

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
