//! What Fig. 8(a), 8(b) and 10 of Petlund et al. 2010 share: the groups side by side, their parameters, bars and checks.

use festina_units::{ByteCount, Duration};

use crate::experiment::Check;
use crate::figure::{Bar, BarChart, Figure, Unit};
use crate::plan::{Kind, Parameter, Point};
use crate::scenario::{Group, Ordinal, Retransmissions, Stack, TimerFix};
use crate::statistics::DelayStatistics;
use crate::summary::{PointSummary, Results};

/// The ordinals that the figures show.
pub(super) const SHOWN: [Ordinal; 3] = [Ordinal::First, Ordinal::Second, Ordinal::Third];
/// Fewer delays than this say nothing about a mean, a maximum or a share.
pub(super) const COUNT_MIN: u64 = 15;
/// The share that a 99th percentile leaves out must hold ten delays: with fewer, a retransmission timeout more or less decides it.
const COUNT_MIN_FOR_P99: u64 = 1_000;

/// Among fewer second retransmissions there may be none after two timeouts.
const COUNT_MIN_FOR_BACKOFF: u64 = 500;

/// What a plan can set about the streams, whatever the network.
pub(super) fn stream_parameters() -> Vec<Parameter> {
    let parameter = |name, about, kind| Parameter { name, about, kind };
    let ms = Duration::from_millis;
    let sizes = ByteCount::from_bytes(1)..=ByteCount::from_bytes(1_000);
    vec![
        parameter("group", "the transport, as the paper's figures name it", Kind::Choice(Group::NAMES)),
        parameter("rtt", "the round-trip time of the stream when nothing waits", Kind::Duration(ms(0)..=ms(10_000))),
        parameter("interval", "how often the application writes", Kind::Duration(ms(1)..=ms(60_000))),
        parameter("size", "the size of a message", Kind::Bytes(sizes)),
        parameter("duration", "for how long it writes", Kind::Duration(ms(1_000)..=ms(86_400_000))),
        parameter("sack_delay", "how long a receiver of SCTP delays its SACKs", Kind::Duration(ms(0)..=ms(500))),
        parameter("ack_delay", "how long a receiver of TCP delays its ACKs", Kind::Duration(ms(0)..=ms(500))),
        parameter("timer_fix", "which groups have the fix of the timer's restart", Kind::Choice(TimerFix::NAMES)),
    ]
}

/// The transport at a point.
pub(super) fn stack(point: &Point) -> Stack {
    let (group, delay) = group_and_delay(point);
    group.stack(TimerFix::named(point.choice("timer_fix")), delay)
}

/// The group, and how long its receiver delays acknowledgements.
pub(super) fn group_and_delay(point: &Point) -> (Group, Duration) {
    let group = Group::named(point.choice("group"));
    (group, point.duration(if group == Group::NewReno { "ack_delay" } else { "sack_delay" }))
}

/// The groups under the same conditions.
pub(super) struct Case<'r> {
    points: Vec<&'r PointSummary>,
}

impl<'r> Case<'r> {
    /// The points with these settings.
    pub(super) fn new(results: &'r Results, settings: &[(&str, impl AsRef<str>)]) -> Self {
        let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_ref())).collect();
        Self { points: results.matching(&settings).collect() }
    }

    /// The retransmissions of a group, if it was run under these conditions and no others.
    pub(super) fn group(&self, group: Group) -> Option<Retransmissions<'r>> {
        self.summary(group).map(Retransmissions::of)
    }

    /// All that was measured of a group.
    pub(super) fn summary(&self, group: Group) -> Option<&'r PointSummary> {
        let mut found = self.points.iter().filter(|summary| summary.point().choice("group") == group.name());
        match (found.next(), found.next()) {
            (Some(summary), None) => Some(summary),
            _ => None,
        }
    }

    fn delays(&self, group: Group, ordinal: Ordinal) -> Option<&'r DelayStatistics> {
        Some(self.group(group)?.delays(ordinal)?.all())
    }

    /// A measure of a group's retransmissions in milliseconds; `None` if there are too few to tell.
    pub(super) fn ms(&self, group: Group, ordinal: Ordinal, measure: Measure) -> Option<f64> {
        let delays = self.delays(group, ordinal)?;
        if delays.count() < measure.count_min() {
            return None;
        }
        let delay = match measure {
            Measure::Mean => delays.mean(),
            Measure::P99 => delays.quantile(0.99),
            Measure::Max => delays.max(),
        };
        delay.map(|delay| delay.as_secs_f64() * 1e3)
    }

    /// Whether, by each of `measures` and at each of `ordinals`, `better` is below `worse`; skips what has too few delays.
    pub(super) fn below(
        &self,
        statement: &str,
        better: Group,
        worse: Group,
        ordinals: &[Ordinal],
        measures: &[Measure],
    ) -> Check {
        self.compared(statement, better, worse, ordinals, measures, |better, worse| better < worse)
    }

    /// As [`below`](Self::below), with another relation.
    pub(super) fn compared(
        &self,
        statement: &str,
        left: Group,
        right: Group,
        ordinals: &[Ordinal],
        measures: &[Measure],
        holds: impl Fn(f64, f64) -> bool,
    ) -> Check {
        let mut seen = Vec::new();
        let mut all = true;
        for (&ordinal, &measure) in ordinals.iter().flat_map(|ordinal| measures.iter().map(move |it| (ordinal, it))) {
            let values = [left, right].map(|group| self.ms(group, ordinal, measure));
            if let [Some(left), Some(right)] = values {
                all &= holds(left, right);
                seen.push(format!("{} of the {} {left:.0} ms, {right:.0} ms", measure.name(), ordinal.name()));
            }
        }
        if seen.is_empty() {
            return Check::skipped(statement, "too few retransmissions, or the groups were not run");
        }
        Check::new(statement, all, format!("{} and {}: {}", left.title(), right.title(), seen.join("; ")))
    }

    /// Mean, 99th percentile and maximum by ordinal, a bar for each group.
    pub(super) fn bars(&self, title: &str, conditions: &str) -> Figure {
        let mut chart =
            BarChart::new(title, conditions, "from the first transmission to the retransmission", Unit::Milliseconds);
        let groups: Vec<Group> = Group::ALL.into_iter().filter(|group| self.summary(*group).is_some()).collect();
        chart.series = groups.iter().map(|group| group.title().to_owned()).collect();
        chart.markers = vec!["99%".to_owned(), "maximum".to_owned()];
        for ordinal in SHOWN {
            let bars = groups.iter().enumerate().map(|(series, &group)| {
                let ms = |measure| self.ms(group, ordinal, measure);
                let mean = self.delays(group, ordinal).and_then(DelayStatistics::mean).unwrap_or_default();
                Bar::new(series, mean.as_secs_f64() * 1e3).mark(ms(Measure::P99)).mark(ms(Measure::Max))
            });
            chart.group(&format!("{} retransmission", ordinal.name()), bars.collect());
        }
        chart.figure()
    }
}

/// What the figures show of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// The mean.
    Mean,
    /// The 99th percentile.
    P99,
    /// The maximum.
    Max,
}

impl Measure {
    fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P99 => "99%",
            Self::Max => "maximum",
        }
    }

    fn count_min(self) -> u64 {
        match self {
            Self::Mean | Self::Max => COUNT_MIN,
            Self::P99 => COUNT_MIN_FOR_P99,
        }
    }
}

/// What §6.1 says of Fig. 8(a), and §6.2 of Fig. 8(b) by calling it very similar: each modification against lksctp.
pub(super) fn modification_checks(case: &Case<'_>) -> Vec<Check> {
    use Measure::{Max, Mean, P99};
    use Ordinal::{First, Second};
    let lksctp = Group::Lksctp;
    vec![
        longest_check(case),
        case.compared(
            "Without exponential backoff mean and 99% of the 1st retransmission are only marginally lower: by less than a \
             tenth, and not higher by more than a hundredth.",
            Group::ModExpBo,
            lksctp,
            &[First],
            &[Mean, P99],
            |modified, plain| modified > plain * 0.9 && modified < plain * 1.01,
        ),
        case.below(
            "An RTO.Min of 200 ms lowers mean and 99%.",
            Group::ModMinRto,
            lksctp,
            &[First],
            &[Mean, P99],
        ),
        case.compared(
            "Fast retransmission on the first indication lowers mean and 99% drastically: at least by a fifth.",
            Group::ModFr,
            lksctp,
            &[First, Second],
            &[Mean, P99],
            |modified, plain| modified < plain * 0.8,
        ),
        case.below(
            "Its maximum is still high: for the 1st retransmission above that of all modifications.",
            Group::AllMods,
            Group::ModFr,
            &[First],
            &[Max],
        ),
        case.below(
            "All modifications together lower mean, 99% and maximum of every retransmission.",
            Group::AllMods,
            lksctp,
            &SHOWN,
            &[Mean, P99, Max],
        ),
        pronounced(case),
    ]
}

/// "A reduction in maximum latencies, especially for 2nd and 3rd retransmission."
fn longest_check(case: &Case<'_>) -> Check {
    let statement = "Without exponential backoff the longest of the 2nd and 3rd retransmissions takes less time.";
    let longest_ms = |group| {
        let all = case.group(group).filter(|all| all.count(Ordinal::Second) >= COUNT_MIN_FOR_BACKOFF)?;
        let longest =
            [Ordinal::Second, Ordinal::Third].into_iter().filter_map(|ordinal| all.delays(ordinal)?.all().max());
        longest.max().map(|longest| longest.as_secs_f64() * 1e3)
    };
    match longest_ms(Group::ModExpBo).zip(longest_ms(Group::Lksctp)) {
        Some((linear, doubling)) => {
            let seen = format!("{linear:.0} ms without exponential backoff, {doubling:.0} ms with lksctp");
            Check::new(statement, linear < doubling, seen)
        }
        None => Check::skipped(statement, "timeouts in a row are rare: too few second retransmissions to have some"),
    }
}

/// "Improvements from the modifications got more pronounced on the 2nd and 3rd retransmission."
fn pronounced(case: &Case<'_>) -> Check {
    let statement = "The later the retransmission, the more milliseconds all modifications together save in the mean.";
    let saved = SHOWN.iter().filter_map(|&ordinal| {
        let mean = |group| case.ms(group, ordinal, Measure::Mean);
        Some(mean(Group::Lksctp)? - mean(Group::AllMods)?)
    });
    let saved: Vec<f64> = saved.collect();
    if saved.len() < 2 {
        return Check::skipped(statement, "too few second retransmissions, or the groups were not run");
    }
    let seen: Vec<String> = saved.iter().map(|ms| format!("{ms:.0} ms")).collect();
    Check::new(statement, saved.is_sorted_by(|earlier, later| earlier < later), seen.join(", "))
}
