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
use festina_units::{Bandwidth, ByteCount, Duration, Probability};

use self::cells::KINDS;
use crate::assumption::{Assumption, chosen, fitted, stated};
use crate::count::as_f64;
use crate::experiment::{Check, Description, Experiment, Objection};
use crate::figure::Figure;
use crate::plan::{Kind, Parameter, Point};
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
/// Mice by the share that they take.
/// The streams over Festina.
const FESTINAS: [&str; 3] = ["festina", "festina-m13", "festina-target"];
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
}

/// A table's or figure's name, title, reference, question and plan.
struct Words {
    name: &'static str,
    title: &'static str,
    reference: &'static str,
    question: &'static str,
    plan: &'static str,
}

macro_rules! words {
    ($name:literal, $title:literal, $reference:literal, $question:literal) => {
        Words {
            name: $name,
            title: $title,
            reference: concat!("Goel et al. 2002, ", $reference),
            question: $question,
            plan: include_str!(concat!("../../../../experiments/", $name, ".toml")),
        }
    };
}

const WORDS: [Words; 11] = [
    words!(
        "g02-table1",
        "Packets within 200 and 500 ms",
        "Table 1 (§4.1)",
        "How many packets of a stream arrive in time when its send buffer follows cwnd?"
    ),
    words!(
        "g02-table2",
        "Mean latency from socket to socket",
        "Table 2 (§4.1)",
        "How late are the packets of a stream whose send buffer follows cwnd?"
    ),
    words!(
        "g02-table3",
        "Throughput over that of standard TCP",
        "Table 3 (§4.2)",
        "How much throughput does a send buffer that follows cwnd cost?"
    ),
    words!(
        "g02-fig3",
        "Latency over time: TCP and MIN_BUF(1,0)",
        "Fig. 3 (§4.1)",
        "How does the latency of both follow the load?"
    ),
    words!(
        "g02-fig4",
        "Latency over time: three MIN_BUF streams",
        "Fig. 4 (§4.1)",
        "How do A and B change the latency under load?"
    ),
    words!(
        "g02-fig5",
        "Distribution of the latency",
        "Fig. 5 (§4.1)",
        "How is the latency of the four streams distributed?"
    ),
    words!(
        "g02-fig6",
        "Latency in sender, network and receiver",
        "Fig. 6 (§4.3)",
        "Where does the latency of MIN_BUF(1,0) come from?"
    ),
    words!(
        "g02-fig7",
        "Throughput of the cross traffic with ECN",
        "Fig. 7 (§4.4)",
        "What do mice get of the bottleneck with ECN?"
    ),
    words!(
        "g02-fig8",
        "Latency over time with ECN: TCP and MIN_BUF(1,0)",
        "Fig. 8 (§4.4)",
        "How does the latency follow the load with ECN?"
    ),
    words!(
        "g02-fig9",
        "Latency over time with ECN: three MIN_BUF streams",
        "Fig. 9 (§4.4)",
        "Does ECN lower the peaks of the latency?"
    ),
    words!(
        "g02-fig10",
        "Distribution of the latency with ECN",
        "Fig. 10 (§4.4)",
        "How is the latency distributed with ECN?"
    ),
];

impl G02 {
    const fn of(part: Part) -> Self {
        Self { part }
    }

    /// Table 1.
    pub const TABLE1: Self = Self::of(Part::Table1);
    /// Table 2.
    pub const TABLE2: Self = Self::of(Part::Table2);
    /// Table 3.
    pub const TABLE3: Self = Self::of(Part::Table3);
    /// Fig. 3.
    pub const FIG3: Self = Self::of(Part::Fig3);
    /// Fig. 4.
    pub const FIG4: Self = Self::of(Part::Fig4);
    /// Fig. 5.
    pub const FIG5: Self = Self::of(Part::Fig5);
    /// Fig. 6.
    pub const FIG6: Self = Self::of(Part::Fig6);
    /// Fig. 7.
    pub const FIG7: Self = Self::of(Part::Fig7);
    /// Fig. 8.
    pub const FIG8: Self = Self::of(Part::Fig8);
    /// Fig. 9.
    pub const FIG9: Self = Self::of(Part::Fig9);
    /// Fig. 10.
    pub const FIG10: Self = Self::of(Part::Fig10);

    fn words(self) -> &'static Words {
        &WORDS[self.part as usize]
    }
}

impl Experiment for G02 {
    fn description(&self) -> Description {
        Description {
            name: self.words().name,
            title: self.words().title,
            reference: self.words().reference,
            about: "A server writes packets to a client as fast as its send buffer takes them, through a bottleneck that 15 elephants, mice of \
         20 KB and constant bit rate come to share and leave again within 80 s. There are as many mice as take about 30% of the bottleneck, \
         and with ECN about 50%, as the paper tuned them; a table has their number for each rate and round-trip time (mice_by). The paper had 80 for 30 \
         Mbit/s and 100 ms, which take 62% here. Measured is the time from the write to the moment at \
         which the client can read. Standard TCP's send buffer has a fixed size; MIN_BUF(A,B)'s holds A windows and B packets; the \
         one called target chooses A and B for 50 ms in the buffer and is not the paper's. festina is an association of the profile \
         festina with a buffer of fixed size, festina-m13 and festina-target have Config::send_buffer.\n\n\
         The paper sets the bottleneck's rate by the length of a queue that it does not tell. Here the bottleneck has the rate, \
         and the queue is a share of the bandwidth-delay product that was fitted to the mean latency of MIN_BUF(1,0). Receivers \
         DRED marks from one product on, so what ECN changes is compared with that queue as well. Receivers \
         R1 and R2 of the paper, which share all of the path, are one here for each kind of traffic, so that each is counted.\n\n\
         The paper explains the throughput that MIN_BUF(1,0) loses by wake-ups that come late. How late is not told: here the server \
         writes 1 ms after there is room (see wake_up). At 0 all MIN_BUF streams send the same packets at the same times.",
            plan: self.words().plan,
            question: self.words().question,
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let parameter = |name, about, kind| Parameter { name, about, kind };
        let ms = Duration::from_millis;
        let rates = Bandwidth::from_bits_per_second(1_000_000)..=Bandwidth::from_bits_per_second(1_000_000_000);
        let share = |percent| Probability::from_percent(1)..=Probability::from_percent(percent);
        let bytes = |from, to| Kind::Bytes(ByteCount::from_bytes(from)..=ByteCount::from_bytes(to));
        vec![
            parameter("stream", "how the media stream's send buffer is limited", Kind::Choice(&KINDS)),
            parameter("marking", "what routers do: off, or ECN with DRED", Kind::Choice(&["off", "dred"])),
            parameter("rate", "how fast the bottleneck is", Kind::Bandwidth(rates)),
            parameter("rtt", "the round-trip time when nothing waits", Kind::Duration(ms(1)..=ms(1_000))),
            parameter(
                "queue",
                "what may wait without marks, as a share of the bandwidth-delay product",
                Kind::Probability(share(100)),
            ),
            parameter(
                "wake_up",
                "how long the server needs to write after it was woken",
                Kind::Duration(ms(0)..=ms(1_000)),
            ),
            parameter("duration", "how long the profile lasts", Kind::Duration(ms(1_000)..=ms(3_600_000))),
            parameter("send_buffer", "the send buffer of standard TCP", bytes(10_000, 10_000_000)),
            parameter("elephants", "how many there are", Kind::Count(0..=1_000)),
            parameter(
                "mice_by",
                "share: as many mice as take 30% of the bottleneck without marks and 50% with; count: the number in mice",
                Kind::Choice(&[mice::BY_SHARE, "count"]),
            ),
            parameter("mice", "how many there are, if mice_by is count", Kind::Count(0..=1_000)),
            parameter("mouse", "what each of them transfers", bytes(100, 10_000_000)),
            parameter("constant", "the share of the rate that constant bit rate takes", Kind::Probability(share(90))),
            parameter("spread", "within which time flows of a kind begin", Kind::Duration(ms(1)..=ms(10_000))),
        ]
    }

    fn assumptions(&self) -> Vec<Assumption> {
        vec![
            chosen("stream", "not in the paper: a limit in time").of(&["target"]),
            chosen("stream", "not in the paper: an association, whose server writes at once when there is room")
                .of(&FESTINAS),
            stated("stream", "§2.2: the streams that the paper compares"),
            stated("marking", "§3.2: tail drop, or ECN with DRED"),
            stated("rate", "§3.2: 12 and 30 Mbit/s"),
            stated("rtt", "§3.2: 25, 50 and 100 ms"),
            fitted("queue", "the mean latency of MIN_BUF(1,0), Table 2; the paper does not tell its queues")
                .of(&["25%"]),
            chosen("queue", "DRED marks from one bandwidth-delay product on; it shows how much this matters"),
            chosen(
                "wake_up",
                "§4.2 blames late wake-ups for lost throughput and does not tell how late; a tenth of Linux 2.4's tick",
            ),
            stated("duration", "§4.1: about 80 s"),
            chosen(
                "send_buffer",
                "§2 has 64 KB as the least of current kernels; which one the experiments had is not told; here 45 whole packets",
            ),
            stated("elephants", "§4.1: 15"),
            stated("mice_by", "§4.1: as many as take about 30% of the bandwidth; §4.4: tuned to 50% with ECN")
                .of(&[mice::BY_SHARE]),
            chosen("mice_by", "for §4.4: how many it takes with and without ECN").of(&["count"]),
            chosen("mice", "around the 80 of §4.1, which take 62% here"),
            stated("mouse", "§4.1: 20 KB"),
            stated("constant", "§4.1: 10%"),
            chosen("spread", "flows do not begin at the same instant; it makes repetitions differ"),
            chosen("the congestion control is New Reno with SACK and FACK", "Linux 2.4 had it; §3: SACK")
                .beside_the_plan(),
        ]
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
        checks::checks(self.part, results)
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
