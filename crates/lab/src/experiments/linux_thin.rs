//! `linux-thin`: thin streams over models of Linux's stacks beside the real kernel.

mod recorded;

use festina_models::tcp::TcpConfig;
use festina_netsim::{LossModel, PacketGilbertElliott, RandomStream};
use festina_recovery::profile::Rules;
use festina_recovery::rtt::RttClock;
use festina_recovery::thin::ThinDetection;
use festina_recovery::{Mechanisms, Profile};
use festina_units::{ByteCount, Duration, Probability};

use crate::count::as_f64;
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::{Color, DelayDistribution, Figure, Marker, PlotPoint, PointSeries};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::{Stack, StreamRecord, ThinStream};
use crate::scoreboard::Entry;
use crate::summary::{PointSummary, Repeated, Results};
use festina_models::statistics::DelayStatistics;
use recorded::{RECORDED, Run};

/// The series of all delays.
const DELIVERY: &str = "delivery";
const DATA_SEGMENTS: &str = "data segments";
const FAST: &str = "fast retransmissions";
const TIMEOUTS: &str = "timeouts";
const PROBES: &str = "tail loss probes";

/// The stacks of the simulator, and the recorded one that each is held against.
const STACKS: [(&str, &str); 7] = [
    ("tcp", "tcp"),
    ("tcp-thin", "tcp-thin"),
    ("tcp-thin-rto-min-50ms", "tcp-thin-rto-min-50ms"),
    ("lksctp-6.1", "sctp"),
    ("lksctp-6.1-no-sack-delay", "sctp-no-sack-delay"),
    ("lksctp-6.1-rto-min-200ms", "sctp-rto-min-200ms"),
    ("rfc9260", "sctp"),
];

const LOSSES: [&str; 3] = ["1%", "5%", "bursts"];
/// The stacks in the figures, in the colours that curves have in this order.
const DRAWN: [(&str, Color); 3] =
    [("lksctp-6.1", Color::Gray), ("tcp", Color::Orange), ("tcp-thin-rto-min-50ms", Color::Blue)];

const INTERVAL: Duration = Duration::from_millis(250);
const SIZE: ByteCount = ByteCount::from_bytes(100);
/// A hair above 100 ms, as in any real network: Linux rounds times up to ticks of 4 ms, and a round-trip time that is a whole
/// number of them would make each timeout one tick shorter.
const RTT: Duration = Duration::from_micros(100_002);
/// Messages at the start that do not count, as in the recorded runs: ten seconds.
const WARM_UP_MESSAGES: usize = 40;

/// Delays for which the share of later messages is compared. None is close to where many delays lie.
const LATER_THAN_MS: [u64; 5] = [75, 300, 500, 700, 1_000];
const QUANTILES: [f64; 2] = [0.99, 0.999];
/// How far a share of late messages may lie from the recorded one at random losses, beside what chance makes.
const TOLERANCE: f64 = 0.1;
/// The same for bursts.
const BURSTS_TOLERANCE: f64 = 0.25;
/// Number of messages that one loss delays, approximately: late messages come in groups.
const MESSAGES_PER_LOSS: f64 = 4.0;
/// Recorded retransmissions for each thousand segments below which they are too few to compare.
const RATE_MIN: f64 = 0.2;
/// Recorded shares below this are too few messages to compare.
const SHARE_MIN: f64 = 0.0005;

/// Thin streams over Linux's stacks.
#[derive(Clone, Copy, Debug)]
pub struct LinuxThin;

impl Experiment for LinuxThin {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/linux-thin.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let mut stream = ThinStream::periodic(stack(point), INTERVAL, SIZE, point.duration("duration"), RTT);
        stream.forward.loss = loss(point);
        stream.backward.loss = loss(point);
        let mut seeds = RandomStream::new(seed, "connections");
        let mut samples = Samples::new();
        let mut delays = DelayStatistics::new();
        let mut counted = [(DATA_SEGMENTS, 0), (FAST, 0), (TIMEOUTS, 0), (PROBES, 0)];
        for _ in 0..point.count("connections") {
            let record = stream.run(seeds.below(u64::MAX)).record;
            let measured = record.truth().messages.iter().skip(WARM_UP_MESSAGES);
            measured.filter_map(|message| message.delay()).for_each(|delay| delays.record(delay));
            if let StreamRecord::Tcp(record) = &record {
                let sender = &record.sender;
                let news =
                    [sender.data_segments, sender.retransmitted_fast, sender.timeouts, sender.retransmitted_probe];
                counted.iter_mut().zip(news).for_each(|((_, count), new)| *count += new);
            }
        }
        samples.set_tally(DELIVERY, delays);
        for (name, count) in counted.into_iter().filter(|_| point.choice("stack").starts_with("tcp")) {
            samples.set(name, as_f64(count));
        }
        samples
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        results
            .points()
            .iter()
            .filter_map(|summary| Some(compared(results, summary, recorded_run(summary)?)))
            .flatten()
            .collect()
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let mut checks = Vec::new();
        for (family, prefix) in [("TCP", "tcp"), ("lksctp", "lksctp")] {
            let points = |bursts: bool| {
                let chosen = move |summary: &&PointSummary| {
                    let point = summary.point();
                    point.choice("stack").starts_with(prefix) && (point.choice("loss") == "bursts") == bursts
                };
                results.points().iter().filter(chosen)
            };
            let statement = format!(
                "{family}, random losses: the shares of messages later than each of {LATER_THAN_MS:?} ms are the recorded \
                 ones within {:.0}% and chance.",
                TOLERANCE * 100.0
            );
            checks.push(share_check(results, statement, points(false), &LATER_THAN_MS, TOLERANCE));
            let statement = format!(
                "{family}, bursts: the shares of messages later than 75 and 300 ms are the recorded ones within {:.0}% and \
                 chance.",
                BURSTS_TOLERANCE * 100.0
            );
            checks.push(share_check(results, statement, points(true), &[75, 300], BURSTS_TOLERANCE));
        }
        checks.push(activity_check(results));
        checks
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        LOSSES.into_iter().filter_map(|loss| figure(results, loss)).collect()
    }
}

/// The simulated distributions at one kind of loss as curves, the recorded ones as points of the same colour.
fn figure(results: &Results, loss: &str) -> Option<Figure> {
    let conditions =
        format!("loss {loss} each way, 100 B every 250 ms, RTT 100 ms; curves simulated, rings the kernel");
    let mut distribution = DelayDistribution::new("Thin streams over Linux's stacks", &conditions);
    let mut rings = Vec::new();
    for (stack, color) in DRAWN {
        let Some(summary) = results.matching(&[("stack", stack), ("loss", loss)]).next() else { continue };
        let (Some(series), Some(run)) = (summary.series().get(DELIVERY), recorded_run(summary)) else { continue };
        distribution.curve(stack, series.all());
        let points = RECORDED.shares_later(run).filter(|&(_, share)| share > 0.0);
        let points = points.map(|(x, y)| PlotPoint { x, y, whisker: None });
        rings.push(PointSeries {
            marker: Marker::Ring,
            color: Some(color),
            is_joined: false,
            ..PointSeries::new(&format!("{stack}, the kernel"), points)
        });
    }
    if rings.is_empty() {
        return None;
    }
    Some(Figure { points: rings, ..distribution.figure() })
}

fn stack(point: &Point) -> Stack {
    let sack_delay = Duration::from_millis(200);
    let lksctp = |rto_min, sack_delay| {
        let rules = Rules {
            rto_min,
            fast_restarts_timer: false,
            one_packet_after_timeout: false,
            rtt_clock: RttClock::LINUX_250_HZ,
            ..Rules::RFC9260
        };
        let standard = Profile::Rfc9260.mechanisms();
        let mechanisms = Mechanisms { thin_detection: ThinDetection::Never, normal: rules, thin: rules, ..standard };
        Stack::sctp(mechanisms, sack_delay)
    };
    let mut tcp = TcpConfig::linux();
    match point.choice("stack") {
        "tcp" => {}
        "tcp-thin" => tcp.switches.thin_linear_timeouts = true,
        "tcp-thin-rto-min-50ms" => {
            tcp.switches.thin_linear_timeouts = true;
            tcp.rto.min = Duration::from_millis(50);
        }
        "lksctp-6.1" => return lksctp(Duration::from_secs(1), sack_delay),
        "lksctp-6.1-no-sack-delay" => return lksctp(Duration::from_secs(1), Duration::ZERO),
        "lksctp-6.1-rto-min-200ms" => return lksctp(Duration::from_millis(200), Duration::ZERO),
        _ => return Stack::sctp(Profile::Rfc9260.mechanisms(), sack_delay),
    }
    Stack::tcp(tcp)
}

fn loss(point: &Point) -> LossModel {
    match point.choice("loss") {
        "1%" => LossModel::Independent(Probability::from_percent(1)),
        "5%" => LossModel::Independent(Probability::from_percent(5)),
        _ => LossModel::PacketGilbertElliott(PacketGilbertElliott {
            good_to_bad: Probability::from_ppb(26_300_000),
            bad_to_good: Probability::from_percent(50),
            loss_in_good: Probability::ZERO,
            loss_in_bad: Probability::ONE,
        }),
    }
}

/// Returns the recording of a point.
fn recorded_run(summary: &PointSummary) -> Option<&'static Run> {
    let point = summary.point();
    let (_, recorded) = STACKS.iter().find(|(name, _)| *name == point.choice("stack"))?;
    RECORDED.run(recorded, point.choice("loss"))
}

/// All recorded numbers of a point beside ours.
fn compared(results: &Results, summary: &PointSummary, run: &Run) -> Vec<Entry> {
    let label = results.plan().label(summary.point());
    let series = summary.series().get(DELIVERY);
    let mut entries = Vec::new();
    let mut add = |what: String, unit, published: f64, measured: Option<Estimate>| {
        let entry = Entry::value(format!("{what}, {label}"), unit, published, measured);
        let is_missed = entry.word() == "missed";
        entries.push(if is_missed { entry.because(why(summary.point(), &what)) } else { entry });
    };
    for than_ms in LATER_THAN_MS {
        let Some(share) = RECORDED.share_later(run, than_ms).filter(|&share| share >= SHARE_MIN) else { continue };
        let measured = series.map(|series| {
            let ours = series.all().share_later(Duration::from_millis(than_ms)) * 100.0;
            let half_width = Some(1.96 * ours * chance(share, series.all().count()).sqrt());
            Estimate { mean: ours, half_width, repetitions: series.counts().values().len() }
        });
        add(format!("later than {than_ms} ms"), "%", share * 100.0, measured);
    }
    let ms = |seconds: &Repeated| Estimate::of(seconds).map(|seconds| seconds.times(1e3));
    add("mean".to_owned(), "ms", run.mean_ms, series.and_then(|series| ms(series.mean_s())));
    for quantile in QUANTILES {
        let Some(recorded_ms) = RECORDED.quantile_ms(run, quantile) else { continue };
        let measured = series.and_then(|series| ms(series.quantile_s(quantile)?));
        add(format!("p{}", quantile * 100.0), "ms", recorded_ms, measured);
    }
    let is_counted = summary.values().contains_key(DATA_SEGMENTS);
    for (name, recorded) in activity(run).into_iter().filter(|&(_, recorded)| is_counted && recorded >= RATE_MIN) {
        add(format!("{name} per thousand segments"), "", recorded, per_thousand(summary, name));
    }
    entries
}

/// The relative variance of a share of late messages, which come in groups.
fn chance(share: f64, messages: u64) -> f64 {
    MESSAGES_PER_LOSS / (share * as_f64(messages))
}

/// Why a number of this point may differ, as far as known.
fn why(point: &Point, what: &str) -> &'static str {
    match (point.choice("stack"), point.choice("loss")) {
        ("tcp", "bursts") => {
            "a handful of connections that wait for minutes decide it, here and in the recorded runs, which differ by a \
             factor of two among themselves; and the real send buffer refused one write in eighteen, of just those connections"
        }
        ("rfc9260", "bursts") => {
            "after a timeout RFC 9260 keeps one packet in flight (section 7.2.3); netem's channel changes only with packets, so \
             it stays bad until the next timeout, while lksctp goes on sending new messages"
        }
        (_, "bursts") => {
            "the tail is made by few long outages of single connections: chance, here and in the recorded runs"
        }
        ("rfc9260", _) => {
            "lksctp does not restart T3-rtx for a fast retransmission and sends on after a timeout; lksctp-6.1 has both"
        }
        _ if what.starts_with('p') => {
            "the quantile lies between two clusters of delays, and a share of a thousandth decides"
        }
        _ => "not known",
    }
}

/// Recorded retransmissions and timeouts for each thousand data segments.
fn activity(run: &Run) -> Vec<(&'static str, f64)> {
    let counters = &run.counters;
    let each = [(PROBES, counters.probes), (FAST, Some(counters.fast)), (TIMEOUTS, Some(counters.timeouts))];
    each.into_iter()
        .filter_map(|(name, count)| Some((name, as_f64(count?) * 1e3 / as_f64(counters.data_segments))))
        .collect()
}

fn per_thousand(summary: &PointSummary, name: &str) -> Option<Estimate> {
    let ratio = Estimate::ratio(summary.values().get(name)?, summary.values().get(DATA_SEGMENTS)?)?;
    Some(ratio.times(1e3))
}

/// Judges the shares of late messages against the recorded ones. Both have the chance of the losses that caused these late messages.
fn share_check<'a>(
    results: &Results,
    statement: String,
    points: impl Iterator<Item = &'a PointSummary>,
    later_than_ms: &[u64],
    tolerance: f64,
) -> Check {
    let mut evidence = Evidence::new();
    for summary in points {
        let (Some(run), Some(series)) = (recorded_run(summary), summary.series().get(DELIVERY)) else { continue };
        for &than_ms in later_than_ms {
            let Some(recorded) = RECORDED.share_later(run, than_ms).filter(|share| *share >= SHARE_MIN) else {
                continue;
            };
            let deviation = Estimate {
                mean: series.all().share_later(Duration::from_millis(than_ms)) / recorded - 1.0,
                half_width: Some(
                    1.96 * (chance(recorded, series.all().count()) + chance(recorded, run.messages)).sqrt(),
                ),
                repetitions: usize::try_from(summary.repetitions()).unwrap_or(usize::MAX),
            };
            let what =
                format!("later than {than_ms} ms over recorded, less one ({}):", results.plan().label(summary.point()));
            evidence.cell(what, Some(deviation), Bound::Within(-tolerance, tolerance));
        }
    }
    evidence.check(statement)
}

fn activity_check(results: &Results) -> Check {
    let statement =
        "TCP probes, retransmits fast and times out as often as the kernel, within 15% at random losses of 5%.";
    let mut evidence = Evidence::new();
    for summary in results.points().iter().filter(|summary| summary.point().choice("loss") == "5%") {
        // Below one in a hundred segments chance decides.
        let recorded = recorded_run(summary).map(activity).unwrap_or_default();
        for (name, recorded) in recorded.into_iter().filter(|(_, recorded)| *recorded >= 9.0) {
            let ratio = per_thousand(summary, name).map(|ours| ours.times(1.0 / recorded));
            let what = format!("{name} over the kernel's ({}):", results.plan().label(summary.point()));
            evidence.cell(what, ratio, Bound::about(1.0, 0.15));
        }
    }
    evidence.check(statement)
}
