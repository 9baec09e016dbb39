//! What Fig. 8(a), 8(b) and 10 of Petlund et al. 2010 share: the groups side by side, their parameters, bars and checks.

use festina_units::Duration;

use crate::evidence::Estimate;
use crate::figure::{Bar, BarChart, Figure, Unit};
use crate::plan::Point;
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
