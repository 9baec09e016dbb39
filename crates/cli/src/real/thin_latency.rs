//! `thin-latency` with real sockets: thin streams over the library and over the kernel's TCP, compared with the simulator.

mod carriers;
mod checks;
mod simulated;

use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context as _, Result};
use festina_emulate::TunCounters;
use festina_emulate::hosts::Hosts;
use festina_lab::experiment::{Check, Description, Experiment};
use festina_lab::figure::Figure;
use festina_lab::plan::{Kind, Parameter, Point};
use festina_lab::samples::Samples;
use festina_lab::summary::{PointSummary, Results};
use festina_models::statistics::DelayStatistics;
use festina_netsim::{LinkConfig, LossModel};
use festina_sctp::Profile;
use festina_units::{ByteCount, Probability};

use super::{comparison, hosts, lateness};
use crate::compare::recorder::HEADER_BYTES;

/// What carries the streams.
const SENDERS: [&str; 7] =
    ["tcp", "tcp-thin", "tcp-thin-rto-min-50ms", "rfc9260", "rack", "festina", "festina-encrypted"];

/// The series of all delays.
const DELIVERY: &str = "delivery";
const MESSAGES: &str = "messages";
const MISSING: &str = "missing messages";
const UNEXPECTED: &str = "messages that arrived twice";
const PACKETS_EACH: &str = "packets per message";
const BYTES_EACH: &str = "bytes per message";

/// From the last handshake to the first message that counts: every stream has delivered one message by then.
const LEAD: Duration = Duration::from_secs(3);
/// Time after the last write for messages that are still missing.
const DRAIN_MAX: Duration = Duration::from_secs(60);

static ABOUT: LazyLock<String> = LazyLock::new(|| {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "Many streams at once, each with one small message every interval, between two hosts on this machine: network namespaces that exist for the \
         time of a run, joined by an emulated network that loses packets independently in both directions. rfc9260, rack and festina are associations of \
         the library over UDP sockets, unencrypted, with the profile of that name and a receiver with the profile rfc9260; festina-encrypted has the \
         library's defaults. tcp is the kernel's TCP, Linux {}, with CUBIC and without Nagle's rule; tcp-thin has TCP_THIN_LINEAR_TIMEOUTS, and \
         tcp-thin-rto-min-50ms a minimum RTO of 50 ms (tcp_rto_min_us) as well.\n\n\
         Each run is simulated as well: the same messages over the same network with other losses, over the SCTP core or the model of Linux's TCP. \
         The delay runs from the write to the read. A simulated write is up to a millisecond late, as a real one is.\n\n\
         The emulator says how late it delivered packets. Where more than one in a hundred was more than 0.5 ms late, in any run, nothing about delays is decided.",
        release.trim()
    )
});

/// Thin streams over real sockets.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThinLatency;

impl Experiment for ThinLatency {
    fn description(&self) -> Description {
        Description {
            name: "thin-latency",
            title: "Delivery delay of thin streams over real sockets",
            reference: "Festina's own, compared with the simulator",
            about: ABOUT.as_str(),
            plan: include_str!("../../../../experiments/real/thin-latency.toml"),
            question: "How late are the messages of thin streams over real sockets, and does the simulator agree?",
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let parameter = |name, about, kind| Parameter { name, about, kind };
        let ms = Duration::from_millis;
        let sizes = ByteCount::from_bytes(HEADER_BYTES as u64)..=ByteCount::from_bytes(1_000);
        let losses = Probability::ZERO..=Probability::from_percent(50);
        vec![
            parameter("sender", "what carries the streams", Kind::Choice(&SENDERS)),
            parameter("rtt", "the round-trip time", Kind::Duration(ms(1)..=ms(2_000))),
            parameter("iat", "the time from one message of a stream to the next", Kind::Duration(ms(1)..=ms(60_000))),
            parameter("loss", "how probably a packet is lost, each way", Kind::Probability(losses)),
            parameter("size", "the size of a message", Kind::Bytes(sizes)),
            parameter("streams", "how many there are at once", Kind::Count(1..=1_000)),
            parameter("duration", "for how long messages are written", Kind::Duration(ms(100)..=ms(3_600_000))),
            parameter("sack_delay", "the receiver's, of associations", Kind::Duration(Duration::ZERO..=ms(500))),
        ]
    }

    /// # Panics
    /// If the system refuses: call [`measure`] for the reason.
    fn run(&self, point: &Point, seed: u64) -> Samples {
        measure(point, seed).unwrap_or_else(|error| panic!("{error:#}"))
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        &[PACKETS_EACH, BYTES_EACH, MISSING, lateness::P99_MS]
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        checks::checks(results)
    }

    /// A figure for each network and interval.
    fn figures(&self, results: &Results) -> Vec<Figure> {
        comparison::figures("Thin streams over real sockets", DELIVERY, results, place)
    }
}

/// The conditions of a point in words, without its sender.
fn place(summary: &PointSummary) -> String {
    let text = |name| summary.point().value(name).map(|value| value.to_string()).unwrap_or_default();
    format!("{} every {}, RTT {}, {} loss each way", text("size"), text("iat"), text("rtt"), text("loss"))
}

/// The streams of a point.
#[derive(Clone, Copy, Debug)]
struct Streams {
    count: u32,
    messages_each: u32,
    interval: Duration,
    size: usize,
}

impl Streams {
    fn of(point: &Point) -> Self {
        let interval = point.duration("iat");
        let messages = point.duration("duration").as_nanos() / interval.as_nanos().max(1);
        Self {
            count: u32::try_from(point.count("streams")).unwrap_or(u32::MAX),
            // The last number is that of the message that warms a stream up.
            messages_each: u32::try_from(messages.max(1)).unwrap_or(u32::MAX - 1),
            interval,
            size: usize::try_from(point.bytes("size").bytes()).unwrap_or(usize::MAX),
        }
    }

    fn messages(&self) -> u64 {
        u64::from(self.count) * u64::from(self.messages_each)
    }

    /// The time of a message since the first one of all: streams are spread evenly over the interval.
    fn due_at(&self, stream: u32, message: u32) -> Duration {
        self.interval * message + self.interval * stream / self.count.max(1)
    }
}

/// The packets of both directions.
#[derive(Clone, Copy, Debug)]
struct Sent {
    packets: u64,
    bytes: u64,
}

impl Sent {
    fn of(counters: &TunCounters) -> Self {
        let links = [counters.forward, counters.backward];
        Self {
            packets: links.iter().map(|link| link.offered).sum(),
            bytes: links.iter().map(|link| link.offered_bytes.bytes()).sum(),
        }
    }
}

/// What a run measured.
struct Measured {
    delays: DelayStatistics,
    unexpected: u64,
    before: Sent,
    after: Sent,
}

/// Measures a point once, and simulates it.
pub(super) fn measure(point: &Point, seed: u64) -> Result<Samples> {
    let streams = Streams::of(point);
    let link = LinkConfig {
        delay: point.duration("rtt") / 2,
        loss: LossModel::Independent(point.probability("loss")),
        ..LinkConfig::default()
    };
    let hosts = Hosts::create((link.clone(), link), seed, None)?;
    let rto_min = [("tcp_rto_min_us", "50000")];
    let more = if point.choice("sender") == "tcp-thin-rto-min-50ms" { &rto_min[..] } else { &[] };
    hosts::prepare(&hosts, more)?;
    let measured = match point.choice("sender") {
        sender @ ("tcp" | "tcp-thin" | "tcp-thin-rto-min-50ms") => carriers::tcp(&hosts, streams, sender != "tcp"),
        sender => carriers::library(&hosts, streams, profile(sender), sender == "festina-encrypted", point),
    }?;
    let lateness = hosts.stop().context("the emulation failed")?.lateness;
    let mut samples = Samples::new();
    let messages = streams.messages();
    samples.set(MESSAGES, messages as f64);
    samples.set(MISSING, messages.saturating_sub(measured.delays.count()) as f64);
    samples.set(UNEXPECTED, measured.unexpected as f64);
    let each = |total: u64| total as f64 / messages.max(1) as f64;
    samples.set(PACKETS_EACH, each(measured.after.packets - measured.before.packets));
    samples.set(BYTES_EACH, each(measured.after.bytes - measured.before.bytes));
    lateness::note(&mut samples, &lateness);
    samples.set_tally(DELIVERY, measured.delays);
    let simulation = simulated::delays(point, &streams, seed);
    let mut simulated = Samples::new();
    simulated.set_tally(DELIVERY, simulation);
    comparison::add(&mut samples, &simulated, &[DELIVERY], &[]);
    Ok(samples)
}

/// The profile of an association's sender.
fn profile(sender: &str) -> Profile {
    match sender {
        "rfc9260" => Profile::Rfc9260,
        "rack" => Profile::Rack,
        _ => Profile::Festina,
    }
}
