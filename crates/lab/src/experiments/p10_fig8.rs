//! What Fig. 8(a), 8(b) and 10 of Petlund et al. 2010 share: the groups side by side, their parameters, bars and checks.

use festina_sctp::RetransmissionCause;
use festina_units::{ByteCount, Duration};

use crate::assumption::{Assumption, chosen, stated};
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::Check;
use crate::figure::{Bar, BarChart, Figure, Unit};
use crate::plan::{Kind, Parameter, Point};
use crate::scenario::{Group, Ordinal, Readings, Retransmissions, Stack};
use crate::summary::{PointSummary, Repeated, Results};
use festina_models::statistics::DelayStatistics;

/// From the write of a message to its delivery.
pub(super) const DELIVERY: &str = "delivery";
/// The ordinals that the figures show.
pub(super) const SHOWN: [Ordinal; 3] = [Ordinal::First, Ordinal::Second, Ordinal::Third];
/// Fewer delays than this say nothing about a mean, a maximum or a share.
pub(super) const COUNT_MIN: u64 = 15;
/// A repetition with fewer delays has no 99th percentile.
const COUNT_MIN_FOR_P99: u64 = 100;

/// Parameters of the streams, which do not depend on the network.
pub(super) fn stream_parameters() -> Vec<Parameter> {
    let parameter = |name, about, kind| Parameter { name, about, kind };
    let ms = Duration::from_millis;
    let sizes = ByteCount::from_bytes(1)..=ByteCount::from_bytes(1_000);
    let mut parameters = vec![
        parameter("group", "the transport, as the paper's figures name it", Kind::Choice(Group::NAMES)),
        parameter("rtt", "the round-trip time of the stream when nothing waits", Kind::Duration(ms(0)..=ms(10_000))),
        parameter("interval", "how often the application writes", Kind::Duration(ms(1)..=ms(60_000))),
        parameter("size", "the size of a message", Kind::Bytes(sizes)),
        parameter("duration", "for how long it writes", Kind::Duration(ms(1_000)..=ms(86_400_000))),
        parameter("sack_delay", "how long a receiver of SCTP delays its SACKs", Kind::Duration(ms(0)..=ms(500))),
        parameter("ack_delay", "how long a receiver of TCP delays its ACKs", Kind::Duration(ms(0)..=ms(500))),
        parameter(
            "tcp_retransmission",
            "whether a retransmission of TCP takes the small segments behind it along",
            Kind::Choice(&["alone", "with-next"]),
        ),
    ];
    parameters.extend(Readings::parameters());
    parameters
}

/// Where the values of the streams come from.
pub(super) fn stream_assumptions() -> Vec<Assumption> {
    let mut assumptions = vec![
        stated("group", "Fig. 8"),
        stated("rtt", "§6: 0 to 400 ms"),
        stated("interval", "§6: 50 to 250 ms"),
        stated("size", "Fig. 8: 100 bytes"),
        stated("sack_delay", "Fig. 8: delayed ACKs were off for all experiments").of(&["0s"]),
        chosen("sack_delay", "§6.1 explains a result by delayed SACKs; §4: 200 ms"),
        stated("ack_delay", "Fig. 8: delayed ACKs were off"),
        chosen("tcp_retransmission", "the paper does not say; by Linux's default it is with-next").of(&["with-next"]),
        chosen("tcp_retransmission", "the paper does not say"),
    ];
    assumptions.extend(Readings::ASSUMPTIONS);
    assumptions
}

/// The transport at a point.
pub(super) fn stack(point: &Point) -> Stack {
    let (group, delay) = group_and_delay(point);
    tcp_as_read(point, group.stack(&Readings::of(point), delay))
}

/// TCP retransmits as the plan says; SCTP stays as it is.
pub(super) fn tcp_as_read(point: &Point, mut stack: Stack) -> Stack {
    if let Stack::Tcp { sender, .. } = &mut stack {
        sender.switches.collapses_retransmissions = point.choice("tcp_retransmission") == "with-next";
    }
    stack
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
        if delays.count() < measure.count_min(self.summary(group)?.repetitions()) {
            return None;
        }
        let delay = match measure {
            Measure::Mean => delays.mean(),
            Measure::P99 => delays.quantile(0.99),
            Measure::Max => delays.max(),
        };
        delay.map(|delay| delay.as_secs_f64() * 1e3)
    }

    /// The same in each repetition.
    pub(super) fn repeated_ms(&self, group: Group, ordinal: Ordinal, measure: Measure) -> Option<Repeated> {
        let delays = self.group(group)?.delays(ordinal)?;
        if delays.all().count() < measure.count_min(self.summary(group)?.repetitions()) {
            return None;
        }
        let seconds = match measure {
            Measure::Mean => delays.mean_s(),
            Measure::P99 => delays.quantile_s(0.99)?,
            Measure::Max => delays.max_s(),
        };
        Some(seconds.map(|seconds| seconds * 1e3))
    }

    /// How many times as long one takes as the other, over paired repetitions.
    pub(super) fn ratio(
        &self,
        ordinal: Ordinal,
        (over, measure): (Group, Measure),
        (under, under_measure): (Group, Measure),
    ) -> Option<Estimate> {
        let over = self.repeated_ms(over, ordinal, measure)?;
        Estimate::ratio(&over, &self.repeated_ms(under, ordinal, under_measure)?)
    }

    /// Judges the ratio of two groups by each of `measures` at each of `ordinals`.
    pub(super) fn compared(
        &self,
        statement: &str,
        [left, right]: [Group; 2],
        ordinals: &[Ordinal],
        measures: &[Measure],
        bound: Bound,
    ) -> Check {
        let mut evidence = Evidence::new();
        for (&ordinal, &measure) in ordinals.iter().flat_map(|ordinal| measures.iter().map(move |it| (ordinal, it))) {
            let pair = [left, right].map(|group| self.repeated_ms(group, ordinal, measure));
            let mut what = format!("{} of the {}", measure.name(), ordinal.name());
            if let [Some(left), Some(right)] = &pair {
                if left == right && !matches!(bound, Bound::Within(..)) {
                    // What tells the groups apart never came into play.
                    evidence.left_out(format!("{what} (every run is the same with both)"));
                    continue;
                }
                if let Some((left, right)) = left.mean().zip(right.mean()) {
                    what += &format!(" {left:.0} over {right:.0} ms,");
                }
            }
            evidence.cell(what, self.ratio(ordinal, (left, measure), (right, measure)), bound);
        }
        evidence.check(statement)
    }

    /// That by each measure one group is below the other.
    pub(super) fn below(&self, statement: &str, pair: [Group; 2], ordinals: &[Ordinal], measures: &[Measure]) -> Check {
        self.compared(statement, pair, ordinals, measures, Bound::LessThan(1.0))
    }

    /// Mean, 99th percentile and maximum by ordinal, a bar for each group.
    pub(super) fn bars(&self, title: &str, conditions: &str) -> Figure {
        let mut chart = BarChart::new(
            title,
            conditions,
            "mean from the first transmission to the retransmission",
            Unit::Milliseconds,
        );
        let groups: Vec<Group> = Group::ALL.into_iter().filter(|group| self.summary(*group).is_some()).collect();
        chart.series = groups.iter().map(|group| group.title().to_owned()).collect();
        chart.markers = vec!["99%".to_owned(), "maximum".to_owned()];
        for ordinal in SHOWN {
            let bars = groups.iter().enumerate().map(|(series, &group)| {
                let ms = |measure| self.ms(group, ordinal, measure);
                let mean = self.delays(group, ordinal).and_then(DelayStatistics::mean).unwrap_or_default();
                let bar = Bar::new(series, mean.as_secs_f64() * 1e3).mark(ms(Measure::P99)).mark(ms(Measure::Max));
                let mean = self.repeated_ms(group, ordinal, Measure::Mean);
                match mean.and_then(|mean| Estimate::of(&mean)?.interval()) {
                    Some([low, high]) => bar.whisker(low, high),
                    None => bar,
                }
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
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P99 => "99%",
            Self::Max => "maximum",
        }
    }

    /// Minimum number of delays in this many repetitions together.
    fn count_min(self, repetitions: u32) -> u64 {
        match self {
            Self::Mean | Self::Max => COUNT_MIN,
            Self::P99 => COUNT_MIN_FOR_P99 * u64::from(repetitions),
        }
    }
}

/// "Marginally reduced": by less than a tenth, and not raised by more than a hundredth. The bound is ours.
const MARGINALLY: Bound = Bound::Within(0.9, 1.01);
/// "Drastically improved": at least by a fifth. The bound is ours.
const DRASTICALLY: Bound = Bound::LessThan(0.8);

/// What §6.1 says of each modification against lksctp; §6.2 calls Fig. 8(b) very similar.
pub(super) fn modification_checks(case: &Case<'_>) -> Vec<Check> {
    use Measure::{Max, Mean, P99};
    use Ordinal::{Second, Third};
    let against_lksctp = |group| [group, Group::Lksctp];
    vec![
        case.below(
            "Without exponential backoff the maximum of the 2nd and 3rd retransmission is lower.",
            against_lksctp(Group::ModExpBo),
            &[Second, Third],
            &[Max],
        ).id("no-backoff-maximum"),
        case.compared(
            "Without exponential backoff mean and 99% are only marginally lower: by less than a tenth, and not higher by more than a \
             hundredth.",
            against_lksctp(Group::ModExpBo),
            &SHOWN,
            &[Mean, P99],
            MARGINALLY,
        ).id("no-backoff-mean"),
        case.below("An RTO.Min of 200 ms lowers mean and 99%.", against_lksctp(Group::ModMinRto), &SHOWN, &[Mean, P99]).id("min-rto"),
        case.compared(
            "Fast retransmission on the first indication lowers mean and 99% drastically: at least by a fifth.",
            against_lksctp(Group::ModFr),
            &SHOWN,
            &[Mean, P99],
            DRASTICALLY,
        ).id("fast"),
        case.compared(
            "Its maximum is still high: above that of all modifications.",
            [Group::ModFr, Group::AllMods],
            &SHOWN,
            &[Max],
            Bound::MoreThan(1.0),
        ).id("fast-maximum"),
        case.below(
            "All modifications together lower mean, 99% and maximum of every retransmission.",
            against_lksctp(Group::AllMods),
            &SHOWN,
            &[Mean, P99, Max],
        ).id("all-modifications"),
        pronounced(case),
        costs_little(case),
        collapses_more(case),
    ]
}

/// How many retransmissions by these causes there are for each message.
fn per_message(case: &Case<'_>, group: Group, causes: &[RetransmissionCause]) -> Option<Repeated> {
    let messages = case.summary(group)?.series().get(DELIVERY)?.counts();
    let all = case.group(group)?;
    let counts = Ordinal::ALL.into_iter().filter_map(|ordinal| all.counts_in_each(ordinal, causes));
    let sum = counts
        .reduce(|sum, next| sum.with_each(|repetition, count| count + next.at(repetition).unwrap_or_default()))?;
    Some(sum.zip_with(messages, |sent, messages| sent / messages))
}

/// "More frequently collapsed congestion windows" (§6.5, §7.4): each timeout sets the window to one packet.
fn collapses_more(case: &Case<'_>) -> Check {
    let timeouts = |group| per_message(case, group, &[RetransmissionCause::Timeout]);
    let pair = timeouts(Group::AllMods).zip(timeouts(Group::Lksctp));
    let ratio = pair.and_then(|(modified, plain)| Estimate::ratio(&modified, &plain));
    let mut evidence = Evidence::new();
    evidence.cell("timeouts, all modifications over lksctp:", ratio, Bound::MoreThan(1.0));
    evidence.check("The window collapses more often with all modifications than with lksctp.").id("collapses-more")
}

/// "A slightly increased bandwidth requirement" (§6.4): the maximum number of additional retransmissions per message. The bound is ours.
const SLIGHTLY_MORE: f64 = 0.1;

/// What all modifications cost: retransmissions that take a packet of their own.
fn costs_little(case: &Case<'_>) -> Check {
    let causes = [RetransmissionCause::Timeout, RetransmissionCause::Fast];
    let pair = per_message(case, Group::AllMods, &causes).zip(per_message(case, Group::Lksctp, &causes));
    let more = pair.and_then(|(modified, plain)| Estimate::difference(&modified, 1.0, &plain));
    let mut evidence = Evidence::new();
    evidence.cell("more for each message:", more, Bound::LessThan(SLIGHTLY_MORE));
    evidence.check(
        "All modifications need slightly more bandwidth than lksctp: at most a retransmission more for ten messages.",
    ).id("costs-little")
}

/// "Improvements from the modifications got more pronounced on the 2nd and 3rd retransmission."
fn pronounced(case: &Case<'_>) -> Check {
    let saved = |ordinal| {
        let mean = |group| case.repeated_ms(group, ordinal, Measure::Mean);
        Some(mean(Group::Lksctp)?.zip_with(&mean(Group::AllMods)?, |plain, modified| plain - modified))
    };
    let mut evidence = Evidence::new();
    for pair in SHOWN.windows(2) {
        let [earlier, later] = [pair[0], pair[1]];
        let more =
            saved(earlier).zip(saved(later)).and_then(|(before, after)| Estimate::difference(&after, 1.0, &before));
        let what = format!("ms saved at the {} less those at the {}:", later.name(), earlier.name());
        evidence.cell(what, more, Bound::MoreThan(0.0));
    }
    evidence
        .check("The later the retransmission, the more milliseconds all modifications together save in the mean.")
        .id("later-more")
}

/// "Each individual modification improves upon lksctp", and "the relative magnitude of the improvements tends to increase with the
/// number of retransmissions" (§6.2).
pub(super) fn relative_checks(case: &Case<'_>) -> [Check; 2] {
    let groups = [Group::ModExpBo, Group::ModMinRto, Group::ModFr, Group::AllMods];
    let (mut each, mut tends) = (Evidence::new(), Evidence::new());
    let relative = |group, ordinal| {
        let mean = |group| case.repeated_ms(group, ordinal, Measure::Mean);
        Some(mean(group)?.zip_with(&mean(Group::Lksctp)?, |modified, plain| modified / plain))
    };
    for group in groups {
        for ordinal in SHOWN {
            let what = format!("{} of the {}: ratio", group.title(), ordinal.name());
            let mean = |group| case.repeated_ms(group, ordinal, Measure::Mean);
            if mean(group).is_some() && mean(group) == mean(Group::Lksctp) {
                // What tells the groups apart never came into play.
                each.left_out(format!("{what} (every run is the same with both)"));
                continue;
            }
            let ratio = case.ratio(ordinal, (group, Measure::Mean), (Group::Lksctp, Measure::Mean));
            each.cell(what, ratio, Bound::LessThan(1.0));
        }
    }
    let over_groups = |ordinal| {
        let ratios: Option<Vec<Repeated>> = groups.into_iter().map(|group| relative(group, ordinal)).collect();
        ratios?
            .into_iter()
            .reduce(|sum, ratio| sum.zip_with(&ratio, |one, other| one + other))
            .map(|sum| sum.map(|it| it / 4.0))
    };
    for pair in SHOWN.windows(2) {
        let [earlier, later] = [pair[0], pair[1]];
        let change = over_groups(earlier).zip(over_groups(later));
        let change = change.and_then(|(before, after)| Estimate::difference(&after, 1.0, &before));
        let what = format!("mean ratio to lksctp at the {} less that at the {}:", later.name(), earlier.name());
        tends.cell(what, change, Bound::LessThan(0.0));
    }
    [
        each.check("Each modification alone lowers the mean of every retransmission.").id("each-alone"),
        tends
            .check("Relative to lksctp, the modifications improve later retransmissions more, on average over them.")
            .id("relative"),
    ]
}
