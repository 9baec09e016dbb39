//! Common parts of Tables 2 and 3 of Pedersen et al. 2006: the stream, the readings of the text, and the comparison with published numbers.

use std::time::Duration;

use festina_models::record::Truth;
use festina_netsim::{Jitter, JitterShape};
use festina_recovery::profile::Rules;
use festina_recovery::rtt::RttClock;
use festina_recovery::{Mechanisms, Profile};
use festina_sctp::RetransmissionCause;
use festina_units::{ByteCount, Probability};

use crate::count::as_f64;
use crate::evidence::table::ChiSquare;
use crate::evidence::{Bound, Estimate};
use crate::plan::Point;
use crate::samples::Samples;
use crate::scenario::{
    CAUSES, Ordinal, Readings, Retransmissions, Stack, StreamRecord, ThinStream, Version, cause_name, note_waits,
    record_retransmissions,
};
use crate::scoreboard::Entry;
use crate::summary::{PointSummary, Repeated};

/// What a published number of delays is compared by.
const QUANTITIES: [Quantity; 5] = [Quantity::Number, Quantity::Min, Quantity::Max, Quantity::Mean, Quantity::Share];
/// How many bytes a write has.
const SIZE: ByteCount = ByteCount::from_bytes(100);
/// Shares agree with the table's unless chance explains their difference more rarely.
const P_AGREES: f64 = 0.05;
/// From the write to the delivery of messages whose first copy was lost.
pub(super) const REPAIR: &str = "delivery of lost messages";
/// From the write to the delivery of all messages, in the mean.
pub(super) const MEAN_DELIVERY: &str = "mean delivery (ms)";
/// The mean, the median and the longest RTO of the sender, without backoff.
pub(super) const MEAN_RTO: &str = "mean RTO (ms)";
pub(super) const MEDIAN_RTO: &str = "median RTO (ms)";
pub(super) const LONGEST_RTO: &str = "longest RTO (ms)";

/// lksctp, unmodified, by the readings of a point.
pub(super) fn lksctp(point: &Point) -> Mechanisms {
    let mut rules: Rules = Readings::of(point).lksctp(Version::Pedersen);
    rules.one_packet_after_timeout = point.choice("after_timeout") == "one-packet";
    if point.choice("clock") == "exact" {
        rules.rtt_clock = RttClock::Nanoseconds;
    }
    Mechanisms { normal: rules, thin: rules, ..Profile::Lksctp2006.mechanisms() }
}

/// Runs the stream of §3 at a point.
pub(super) fn run(point: &Point, stack: Stack, seed: u64) -> Samples {
    let [rtt, interval, duration] = ["rtt", "interval", "duration"].map(|name| point.duration(name));
    let loss = point.probability("loss");
    let backward = if point.choice("lost") == "data" { Probability::ZERO } else { loss };
    let stream = ThinStream::periodic(stack, interval, SIZE, duration, rtt + 2 * point.duration("host_delay"));
    let mut stream = stream.with_loss(loss, backward);
    let range = point.duration("jitter") / 2;
    if !range.is_zero() {
        let jitter = Jitter { shape: JitterShape::Uniform { range }, keeps_order: true };
        for link in [&mut stream.forward, &mut stream.backward] {
            (link.delay, link.jitter) = (link.delay + range, jitter);
        }
    }
    let run = stream.run(seed);
    let mut samples = measure(run.record.truth());
    let messages = || run.record.truth().messages.iter();
    for delay in messages().filter(|message| message.delivered_by != Some(0)).filter_map(|message| message.delay()) {
        samples.tally(REPAIR, delay);
    }
    if let Some(mean) = mean_ms(messages().filter_map(|message| message.delay())) {
        samples.set(MEAN_DELIVERY, mean);
    }
    let mut rtos: Vec<Duration> = match &run.record {
        StreamRecord::Sctp(record) => record.rtt_samples.iter().map(|sample| sample.rto).collect(),
        StreamRecord::Tcp(record) => record.rtos.iter().map(|(_, rto)| *rto).collect(),
    };
    if let Some(mean) = mean_ms(rtos.iter().copied()) {
        samples.set(MEAN_RTO, mean);
    }
    rtos.sort_unstable();
    if let (Some(median), Some(longest)) = (rtos.get(rtos.len() / 2), rtos.last()) {
        samples.set(MEDIAN_RTO, milliseconds(*median));
        samples.set(LONGEST_RTO, milliseconds(*longest));
    }
    samples
}

/// All retransmissions, and of the first ones the number, the shortest and the longest delay of each cause: a table tells of one
/// run, and the extremes of many runs lie further apart.
fn measure(truth: &Truth) -> Samples {
    let mut samples = Samples::new();
    record_retransmissions(truth, &mut samples);
    note_waits(truth, &mut samples);
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

/// The mean in milliseconds; `None` of nothing.
fn mean_ms(delays: impl Iterator<Item = Duration>) -> Option<f64> {
    let (sum, count) = delays.fold((0.0, 0_usize), |(sum, count), delay| (sum + milliseconds(delay), count + 1));
    (count > 0).then(|| sum / as_f64(count))
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

    /// What each run measured at a point.
    pub(super) fn each(self, summary: &PointSummary, cause: RetransmissionCause) -> Option<Repeated> {
        let first = Retransmissions::of(summary);
        match self {
            Self::Number | Self::Min | Self::Max => summary.values().get(&self.name(cause)).cloned(),
            Self::Share => Some(first.share_in_each(Ordinal::First, &[cause])?.map(|share| share * 100.0)),
            Self::Mean => Some(first.delays_by(Ordinal::First, cause)?.mean_s().map(|seconds| seconds * 1e3)),
        }
    }

    /// The mean of that over all runs.
    pub(super) fn measured(self, summary: &PointSummary, cause: RetransmissionCause) -> Option<Estimate> {
        Estimate::of(&self.each(summary, cause)?)
    }
}

/// How well the counts of classes agree with those of the table's one run: the probability of so large a χ² if both have the same shares.
pub(super) fn agreement(row: &str, lines: &[Published], ours: Option<&PointSummary>) -> Entry {
    let paper: Vec<f64> = lines.iter().map(|line| f64::from(line.number)).collect();
    let counts = ours.map(|summary| {
        let count = |line: &Published| Quantity::Number.each(summary, line.cause).map_or(0.0, |numbers| numbers.sum());
        lines.iter().map(count).collect::<Vec<f64>>()
    });
    let test = counts.and_then(|counts| ChiSquare::of(&paper, &counts));
    let told = test.map_or(String::new(), |test| format!(" ({test})"));
    let what = format!("{row}, probability of the classes' shares by chance{told}");
    Entry::inequality(what, "", Bound::MoreThan(P_AGREES), test.map(|test| Estimate::exact(test.p)))
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

    /// Compares every number of the line with ours, which may be unknown. `fitted` names the parameter that was fitted to a number, `why`
    /// explains missed ones.
    pub(super) fn compare(
        &self,
        row: &str,
        ours: Option<&PointSummary>,
        fitted: impl Fn(&Self, Quantity) -> Option<&'static str>,
        why: impl Fn(Quantity) -> &'static str,
    ) -> Vec<Entry> {
        let entry = |quantity: Quantity| {
            let what = format!("{row}, {}, {}", cause_name(self.cause), quantity.noun());
            let each = ours.and_then(|summary| quantity.each(summary, self.cause));
            let mut entry = Entry::one_run(what, quantity.unit(), self.value(quantity)?, each.as_ref());
            if entry.word() == "missed" {
                entry = entry.because(why(quantity));
            }
            Some(match fitted(self, quantity) {
                Some(how) => entry.fitted(how),
                None => entry,
            })
        };
        QUANTITIES.into_iter().filter_map(entry).collect()
    }
}
