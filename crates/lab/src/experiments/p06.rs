//! What Tables 2 and 3 of Pedersen et al. 2006 share: the stream, the readings of the text, and published numbers beside ours.

use std::time::Duration;

use festina_models::record::Truth;
use festina_netsim::{Jitter, JitterShape};
use festina_recovery::profile::Rules;
use festina_recovery::rto_restart::TimerRestart;
use festina_recovery::rtt::{RttClock, RttSampling};
use festina_recovery::{Mechanisms, Profile};
use festina_sctp::RetransmissionCause;
use festina_units::{ByteCount, Probability};

use crate::experiment::Comparison;
use crate::plan::{Kind, Parameter, Point};
use crate::samples::Samples;
use crate::scenario::{CAUSES, Ordinal, Retransmissions, Stack, ThinStream, cause_name, record_retransmissions};
use crate::summary::{PointSummary, Repeated};

/// Hosts, wires and the emulator delay packets even where the table says 0 ms: so long, each way.
const HOST_DELAY: Duration = Duration::from_micros(200);
/// What a published number of delays is compared by.
const QUANTITIES: [Quantity; 4] = [Quantity::Number, Quantity::Min, Quantity::Max, Quantity::Mean];
/// How many bytes a write has.
const SIZE: ByteCount = ByteCount::from_bytes(100);

/// How lksctp is built from what the paper says; [`Reading::Kernel`] is what its Table 2 shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// As the kernel of that time was and Table 2 shows it.
    Kernel,
    /// A SACK restarts the timer whatever it acknowledges ("some, but not all", §4.2.1), so gap reports do as well.
    GapsRestart,
    /// A chunk that was sent again is measured all the same, from its first transmission on (§3.2, §5).
    AmbiguousSamples,
    /// After a timeout nothing leaves but its retransmission until something is acknowledged (RFC 2960 §7.2.3).
    OnePacket,
    /// Round-trip times are averaged without loss of precision.
    ExactClock,
}

impl Reading {
    /// The names for a plan.
    const NAMES: &'static [&'static str] =
        &["kernel", "gaps-restart-timer", "ambiguous-samples", "one-packet-after-timeout", "exact-clock"];

    fn named(name: &str) -> Self {
        let all = [Self::Kernel, Self::GapsRestart, Self::AmbiguousSamples, Self::OnePacket, Self::ExactClock];
        let place = Self::NAMES.iter().position(|known| *known == name);
        all[place.expect("the plan takes no other names")]
    }

    /// What is different in a set of rules.
    fn apply(self, rules: &mut Rules) {
        rules.rtt_sampling = RttSampling::Unambiguous;
        match self {
            Self::Kernel => {}
            Self::GapsRestart => rules.timer_restart = TimerRestart::AnyAcked,
            Self::AmbiguousSamples => rules.rtt_sampling = RttSampling::FirstAcknowledgement,
            Self::OnePacket => rules.one_packet_after_timeout = true,
            Self::ExactClock => rules.rtt_clock = RttClock::Nanoseconds,
        }
    }
}

/// lksctp, unmodified, by the reading of a point.
pub(super) fn lksctp(point: &Point) -> Mechanisms {
    let mut mechanisms = Profile::Lksctp2006.mechanisms();
    let reading = Reading::named(point.choice("reading"));
    reading.apply(&mut mechanisms.normal);
    mechanisms.thin = mechanisms.normal;
    mechanisms
}

/// What a plan can set about the stream, its path and the reading of the text.
pub(super) fn parameters() -> Vec<Parameter> {
    let parameter = |name, about, kind| Parameter { name, about, kind };
    let ms = Duration::from_millis;
    let loss = Probability::ZERO..=Probability::from_percent(50);
    vec![
        parameter("rtt", "the round-trip time that the emulator adds", Kind::Duration(ms(0)..=ms(10_000))),
        parameter("loss", "how probably a packet is lost", Kind::Probability(loss)),
        parameter("lost", "which packets are lost", Kind::Choice(&["data-and-sacks", "data"])),
        parameter("jitter", "how much longer than others a packet may take", Kind::Duration(ms(0)..=ms(1_000))),
        parameter("interval", "how often the application writes", Kind::Duration(ms(1)..=ms(60_000))),
        parameter("reading", "how lksctp is built from the text", Kind::Choice(Reading::NAMES)),
        parameter("duration", "for how long it writes", Kind::Duration(ms(1_000)..=ms(86_400_000))),
    ]
}

/// Runs the stream of §3 at a point.
pub(super) fn run(point: &Point, mechanisms: Mechanisms, sack_delay: Duration, seed: u64) -> Samples {
    let [rtt, interval, duration] = ["rtt", "interval", "duration"].map(|name| point.duration(name));
    let loss = point.probability("loss");
    let backward = if point.choice("lost") == "data" { Probability::ZERO } else { loss };
    let stack = Stack::sctp(mechanisms, sack_delay);
    let stream = ThinStream::periodic(stack, interval, SIZE, duration, rtt + 2 * HOST_DELAY);
    let mut stream = stream.with_loss(loss, backward);
    let range = point.duration("jitter") / 2;
    if !range.is_zero() {
        let jitter = Jitter { shape: JitterShape::Uniform { range }, keeps_order: true };
        for link in [&mut stream.forward, &mut stream.backward] {
            (link.delay, link.jitter) = (link.delay + range, jitter);
        }
    }
    let run = stream.run(seed);
    measure(run.record.truth())
}

/// All retransmissions, and of the first ones the number, the shortest and the longest delay of each cause: a table tells of one
/// run, and the extremes of many runs lie further apart.
fn measure(truth: &Truth) -> Samples {
    let mut samples = Samples::new();
    record_retransmissions(truth, &mut samples);
    for cause in CAUSES {
        let first = truth.retransmissions.iter().filter(|record| record.ordinal == 1 && record.cause == cause);
        let delays: Vec<f64> =
            first.map(|record| milliseconds(record.at.saturating_duration_since(record.first_sent_at))).collect();
        let min = delays.iter().copied().reduce(f64::min);
        let max = delays.iter().copied().reduce(f64::max);
        samples.set(&Quantity::Number.name(cause), u32::try_from(delays.len()).map_or(f64::MAX, f64::from));
        for (quantity, value) in [(Quantity::Min, min), (Quantity::Max, max)] {
            if let Some(value) = value {
                samples.set(&quantity.name(cause), value);
            }
        }
    }
    samples
}

fn milliseconds(delay: Duration) -> f64 {
    delay.as_secs_f64() * 1e3
}

/// What the tables say about the first retransmissions with one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    /// How many there were in a run.
    Number,
    /// Which part of all first retransmissions.
    Share,
    /// The shortest delay since the first transmission.
    Min,
    /// The longest.
    Max,
    /// The mean.
    Mean,
}

impl Quantity {
    fn noun(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Share => "share",
            Self::Min => "shortest",
            Self::Max => "longest",
            Self::Mean => "mean",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Number => "",
            Self::Share => "%",
            Self::Min | Self::Max | Self::Mean => "ms",
        }
    }

    /// The name of the number that a run sets.
    fn name(self, cause: RetransmissionCause) -> String {
        format!("{} of 1st retransmissions by {}", self.noun(), cause_name(cause))
    }

    /// What was measured at a point: for each run on average, but the mean and the share over all runs.
    pub(super) fn measured(self, summary: &PointSummary, cause: RetransmissionCause) -> Option<f64> {
        let first = Retransmissions::of(summary);
        match self {
            Self::Number | Self::Min | Self::Max => summary.values().get(&self.name(cause)).and_then(Repeated::mean),
            Self::Share => Some(first.share_by(Ordinal::First, cause)? * 100.0),
            Self::Mean => first.delays_by(Ordinal::First, cause)?.all().mean().map(milliseconds),
        }
    }

    /// Between what it lies from run to run, as a sentence; `None` if it is not known of each run.
    fn spread(self, summary: &PointSummary, cause: RetransmissionCause) -> Option<String> {
        let runs = summary.values().get(&self.name(cause))?.values();
        let low = runs.iter().copied().reduce(f64::min)?;
        let high = runs.iter().copied().reduce(f64::max)?;
        Some(format!(" In our {} runs it is {low:.0} to {high:.0}.", runs.len()))
    }
}

/// A line of a table: number of first retransmissions, shortest, longest and mean delay in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    pub(super) cause: RetransmissionCause,
    pub(super) number: u32,
    /// In percent, if the table tells it.
    pub(super) share: Option<f64>,
    pub(super) min_ms: f64,
    pub(super) max_ms: f64,
    pub(super) mean_ms: f64,
}

impl Published {
    /// One of its numbers.
    pub(super) fn value(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::Number => Some(f64::from(self.number)),
            Quantity::Share => self.share,
            Quantity::Min => Some(self.min_ms),
            Quantity::Max => Some(self.max_ms),
            Quantity::Mean => Some(self.mean_ms),
        }
    }

    /// Every number of the line beside ours, which may not be known; `why` explains what is missed.
    pub(super) fn compare(
        &self,
        row: &str,
        ours: Option<&PointSummary>,
        why: impl Fn(Quantity) -> &'static str,
    ) -> Vec<Comparison> {
        let quantities = [QUANTITIES.as_slice(), &[Quantity::Share]].concat();
        let comparison = |quantity: Quantity| {
            let mut comparison = Comparison {
                what: format!("{row}, {}, {}", cause_name(self.cause), quantity.noun()),
                unit: quantity.unit(),
                published: self.value(quantity)?,
                measured: ours.and_then(|summary| quantity.measured(summary, self.cause)),
                why: None,
            };
            if comparison.is_missed() == Some(true) {
                let spread = ours.and_then(|summary| quantity.spread(summary, self.cause));
                comparison.why = Some(format!("{}{}", why(quantity), spread.unwrap_or_default()));
            }
            Some(comparison)
        };
        quantities.into_iter().filter_map(comparison).collect()
    }
}
