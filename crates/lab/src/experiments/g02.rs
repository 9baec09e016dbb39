//! `g02-table1` to `g02-table3` and `g02-fig3` to `g02-fig10`: a media stream whose send buffer follows cwnd (G02 §4).
//!
//! All are views of one scenario: Tables 1 to 3 and Fig. 3 to 6 without marks, Fig. 7 to 10 with ECN and DRED.

mod cells;
mod checks;
mod fair_share;
mod figures;
pub mod mice;

use festina_models::tcp::{MinBuf, SendBufferLimit};
use festina_sctp::SendBufferPolicy;
use festina_units::Duration;

use crate::count::as_f64;
use crate::experiment::{Check, Description, Experiment, Objection};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::{CrossTraffic, Media, MediaProfile, MediaRun, Split};
use crate::scoreboard::Entry;
use crate::summary::Results;

/// The series of the latencies.
pub const LATENCY: &str = "latency";
const SENDER: &str = "sender";
const NETWORK: &str = "network";
const RECEIVER: &str = "receiver";
/// The share of packets in time for a conversation.
pub const WITHIN_200: &str = "within 200 ms";
/// The share of packets within the larger bound of Table 1.
pub const WITHIN_500: &str = "within 500 ms";
/// Of all packets of a run.
pub const MEAN_MS: &str = "mean latency (ms)";
/// Of all packets of a run.
pub const MAX_MS: &str = "longest latency (ms)";
/// Of the media stream.
pub const THROUGHPUT: &str = "throughput (Mbit/s)";
/// Of all packets of a run.
pub const SENDER_MS: &str = "mean time in the send buffer (ms)";
/// Of all packets of a run.
pub const SENDER_P90_MS: &str = "p90 of the time in the send buffer (ms)";
const NETWORK_MS: &str = "mean time in the network (ms)";
const RECEIVER_MS: &str = "mean time in the receiver (ms)";
/// Queues without ECN: the fitted one, and the one from which DRED marks (§3.2).
const QUEUES: [(&str, &str); 2] =
    [("25%", "without ECN a quarter of the bandwidth-delay product may wait"), ("100%", "without ECN one may wait")];
/// Of all payload while all cross traffic is there.
pub const MICE_SHARE: &str = "share of the mice (%)";
/// Of the packets later than 200 ms, the share that a loss delayed: retransmitted, or kept back behind one that was.
const LATE_BY_LOSS: &str = "late packets delayed by a loss (%)";
/// The share of the offered packets that the bottleneck dropped.
const DROPPED: &str = "dropped at the bottleneck (%)";
/// The correlation of a second's mean latency with its throughput, while there is cross traffic.
const CORRELATION: &str = "correlation of latency and throughput";
/// How long data may wait in the buffers with a target.
const TARGET: Duration = Duration::from_millis(50);
/// The parts of the profile in which all cross traffic is there: 42 to 60 of 80.
pub const ALL_THERE: std::ops::Range<u32> = 42..60;
/// The parts in which there is cross traffic that has settled.
const LOADED: std::ops::Range<usize> = 7..75;

/// Which table or figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Table1,
    Table2,
    Table3,
    Fig3,
    Fig4,
    Fig5,
    Fig6,
    Fig7,
    Fig8,
    Fig9,
    Fig10,
}

/// A table or figure of G02 about a stream whose send buffer follows cwnd.
#[derive(Clone, Copy, Debug)]
pub struct G02 {
    part: Part,
    plan: &'static str,
}

/// A table or figure with its plan.
macro_rules! part {
    ($part:ident, $name:literal) => {
        G02 { part: Part::$part, plan: include_str!(concat!("../../../../experiments/", $name, ".toml")) }
    };
}

impl G02 {
    /// Table 1.
    pub const TABLE1: Self = part!(Table1, "g02-table1");
    /// Table 2.
    pub const TABLE2: Self = part!(Table2, "g02-table2");
    /// Table 3.
    pub const TABLE3: Self = part!(Table3, "g02-table3");
    /// Fig. 3.
    pub const FIG3: Self = part!(Fig3, "g02-fig3");
    /// Fig. 4.
    pub const FIG4: Self = part!(Fig4, "g02-fig4");
    /// Fig. 5.
    pub const FIG5: Self = part!(Fig5, "g02-fig5");
    /// Fig. 6.
    pub const FIG6: Self = part!(Fig6, "g02-fig6");
    /// Fig. 7.
    pub const FIG7: Self = part!(Fig7, "g02-fig7");
    /// Fig. 8.
    pub const FIG8: Self = part!(Fig8, "g02-fig8");
    /// Fig. 9.
    pub const FIG9: Self = part!(Fig9, "g02-fig9");
    /// Fig. 10.
    pub const FIG10: Self = part!(Fig10, "g02-fig10");
}

impl Experiment for G02 {
    fn description(&self) -> Description {
        definition::of(self.plan).description
    }

    fn runs_as(&self) -> &'static str {
        "g02"
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let run = profile(point).run(seed);
        let mut samples = Samples::new();
        note_messages(&mut samples, &run, point.duration("duration"));
        note_late(&mut samples, &run, point);
        note_profile(&mut samples, &run, point.duration("duration"));
        samples
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        &[WITHIN_200, MEAN_MS, THROUGHPUT]
    }

    fn objection(&self, point: &Point) -> Option<Objection> {
        mice::objection(mice::count(point))
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        checks::scoreboard(self.part, results)
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        match self.part {
            Part::Table2 => vec![checks::steadier(results)],
            Part::Fig7 => fair_share::checks(results),
            _ => Vec::new(),
        }
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        figures::figures(self.part, results)
    }
}

fn profile(point: &Point) -> MediaProfile {
    let min_buf = |windows, extra_packets| Media::Tcp(SendBufferLimit::MinBuf(MinBuf { windows, extra_packets }));
    let ppm = |name| u64::from(point.probability(name).ppb() / 1_000);
    let count = |name| u32::try_from(point.count(name)).unwrap_or(u32::MAX);
    let send_buffer = point.bytes("send_buffer");
    MediaProfile {
        media: match point.choice("stream") {
            "m10" => min_buf(1, 0),
            "m13" => min_buf(1, 3),
            "m20" => min_buf(2, 0),
            "target" => Media::Tcp(SendBufferLimit::Target(TARGET)),
            "festina" => Media::Festina(SendBufferPolicy::Fixed),
            "festina-m13" => Media::Festina(SendBufferPolicy::FollowsWindow { windows: 1, extra_packets: 3 }),
            "festina-target" => Media::Festina(SendBufferPolicy::Target(TARGET)),
            _ => Media::Tcp(SendBufferLimit::Bytes(send_buffer.bytes())),
        },
        rate: point.bandwidth("rate"),
        rtt: point.duration("rtt"),
        queue_ppm: ppm("queue"),
        marks: point.choice("marking") == "dred",
        wake_up: point.duration("wake_up"),
        duration: point.duration("duration"),
        cross: CrossTraffic {
            elephants: count("elephants"),
            mice: mice::count(point).unwrap_or_default(),
            mouse: point.bytes("mouse"),
            constant_ppm: ppm("constant"),
            send_buffer,
            spread: point.duration("spread"),
        },
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Latency: whole, split, and by the part of the profile in which a packet was read.
fn note_messages(samples: &mut Samples, run: &MediaRun, duration: Duration) {
    let splits = run.messages.iter().filter_map(|message| Some((message.delivered_at?, Split::of(message)?)));
    let (mut totals, mut in_buffer, mut by_part) = (Vec::new(), Vec::new(), [(0.0_f64, 0_u64, 0.0_f64); 80]);
    let mut sums = [0.0; 3];
    for (read_at, split) in splits {
        let total = milliseconds(split.total());
        samples.tally(LATENCY, split.total());
        for (series, time) in [(SENDER, split.sender), (NETWORK, split.network), (RECEIVER, split.receiver)] {
            samples.tally(series, time);
        }
        for (sum, time) in sums.iter_mut().zip([split.sender, split.network, split.receiver]) {
            *sum += milliseconds(time);
        }
        totals.push(total);
        in_buffer.push(split.sender);
        let part = u128::from(read_at.as_nanos()) * 80 / duration.as_nanos().max(1);
        let (sum, count, longest) = &mut by_part[usize::try_from(part).unwrap_or(79).min(79)];
        (*sum, *count, *longest) = (*sum + total, *count + 1, longest.max(total));
    }
    let count = as_f64(totals.len().max(1));
    let share = |within_ms: f64| as_f64(totals.iter().filter(|&&total| total <= within_ms).count()) / count;
    samples.set(WITHIN_200, share(200.0));
    samples.set(WITHIN_500, share(500.0));
    samples.set(MEAN_MS, totals.iter().sum::<f64>() / count);
    samples.set(MAX_MS, totals.iter().copied().fold(0.0, f64::max));
    for (name, sum) in [SENDER_MS, NETWORK_MS, RECEIVER_MS].into_iter().zip(sums) {
        samples.set(name, sum / count);
    }
    in_buffer.sort_unstable();
    let p90 = in_buffer.get(in_buffer.len() * 9 / 10).copied().unwrap_or_default();
    samples.set(SENDER_P90_MS, milliseconds(p90));
    let loaded = by_part.iter().zip(&run.media_bytes).take(LOADED.end).skip(LOADED.start);
    let loaded = loaded.filter(|((_, count, _), _)| *count > 0);
    let loaded: Vec<_> = loaded.map(|((sum, count, _), bytes)| (sum / as_f64(*count), as_f64(*bytes))).collect();
    if let Some(correlation) = correlation(&loaded) {
        samples.set(CORRELATION, correlation);
    }
    for (part, (sum, count, longest)) in by_part.into_iter().enumerate().filter(|(_, (_, count, _))| *count > 0) {
        samples.set(&figures::at("mean latency", part), sum / as_f64(count));
        samples.set(&figures::at("longest latency", part), longest);
    }
}

/// Which packets later than 200 ms a loss delayed: those that waited in the receiver for another one, and those that were in the network for
/// longer than half a round trip and the longest queue without marks.
fn note_late(samples: &mut Samples, run: &MediaRun, point: &Point) {
    const SLACK: Duration = Duration::from_millis(2);
    let rtt = point.duration("rtt");
    let queue = Duration::from_secs_f64(rtt.as_secs_f64() * f64::from(point.probability("queue").ppb()) / 1e9);
    let late = run.messages.iter().filter_map(Split::of).filter(|split| milliseconds(split.total()) > 200.0);
    let late: Vec<Split> = late.collect();
    let is_by_loss = |split: &&Split| split.receiver > SLACK || split.network > rtt / 2 + queue + SLACK;
    if !late.is_empty() {
        let by_loss = late.iter().filter(is_by_loss).count();
        samples.set(LATE_BY_LOSS, as_f64(by_loss) / as_f64(late.len()) * 100.0);
    }
}

/// Pearson's correlation; `None` if either does not vary.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let count = as_f64(pairs.len());
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|pair| of(pair.0 - x, pair.1 - y)).sum::<f64>();
    let product = sum(&|x, _| x * x) * sum(&|_, y| y * y);
    (product > 0.0).then(|| sum(&|x, y| x * y) / product.sqrt())
}

/// Throughput of the stream and of the other flows at the bottleneck.
fn note_profile(samples: &mut Samples, run: &MediaRun, duration: Duration) {
    let part_s = duration.as_secs_f64() / 80.0;
    let mbits = |bytes: u64, seconds: f64| as_f64(bytes) * 8.0 / 1e6 / seconds;
    samples.set(THROUGHPUT, mbits(run.media_bytes.iter().sum(), part_s * 80.0));
    for (part, (media, cross)) in run.media_bytes.iter().zip(&run.cross_bytes).enumerate() {
        for (name, bytes) in figures::TRAFFIC.into_iter().zip([*media, cross[0], cross[1], cross[2]]) {
            samples.set(&figures::at(name, part), mbits(bytes, part_s));
        }
    }
    let all_there = || ALL_THERE.map(|part| part as usize);
    let all: u64 = all_there().map(|part| run.media_bytes[part] + run.cross_bytes[part].iter().sum::<u64>()).sum();
    let mice: u64 = all_there().map(|part| run.cross_bytes[part][1]).sum();
    samples.set(MICE_SHARE, as_f64(mice) / as_f64(all.max(1)) * 100.0);
    let of_offered = |packets: u64| as_f64(packets) / as_f64(run.offered_packets.max(1)) * 100.0;
    samples.set(DROPPED, of_offered(run.dropped_packets));
    samples.set("marked at the bottleneck (%)", of_offered(run.marked_packets));
}
