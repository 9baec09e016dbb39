//! `p10-fig9`: why chunks are sent again, whether that was needed, and when (P10 §6.2, Fig. 9).

use festina_sctp::RetransmissionCause;

use super::p10_congested::{loss_entry, run};
use super::p10_fig8::{COUNT_MIN, Case, SHOWN};
use crate::evidence::{Bound, Estimate};
use crate::experiment::{Description, Experiment};
use crate::figure::{Bar, BarChart, Figure, Unit};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::{Group, Ordinal, Retransmissions};
use crate::scoreboard::Entry;
use crate::summary::{Repeated, Results};
use festina_models::statistics::DelayStatistics;

/// "A little more than 20%", and "around 75 percent" within a quarter. The bounds are ours.
const TIMEOUTS: [Bound; 2] = [Bound::Within(20.0, 25.0), Bound::Within(56.25, 93.75)];

/// The groups of the figure.
const GROUPS: [Group; 2] = [Group::Lksctp, Group::AllMods];

/// Causes and latencies of retransmissions beside web traffic.
#[derive(Clone, Copy, Debug)]
pub struct P10Fig9;

impl Experiment for P10Fig9 {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/p10-fig9.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        run(point, seed)
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        scoreboard(results)
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let case = Case::new(results, &stated(results));
        let conditions = results.plan().conditions();
        let mut figures = vec![share_bars(&case, &conditions), delay_bars(&case, &conditions)];
        let p06 = Case::new(results, &with(results, "bundling", "p06"));
        if p06.summary(Group::AllMods).is_some() {
            let mut figure = share_bars(&p06, &conditions);
            figure.title += ", with the bundling of P06";
            figures.push(figure);
        }
        figures
    }
}

/// A cause as the figure has it: both kinds of bundling are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Timeout,
    Fast,
    Bundled,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Timeout, Self::Fast, Self::Bundled];

    fn title(self) -> &'static str {
        ["timeout", "fast retransmission", "bundled"][self as usize]
    }

    /// As it stands below a bar in the paper.
    fn label(self) -> &'static str {
        ["TO", "FR", "B"][self as usize]
    }

    fn causes(self) -> &'static [RetransmissionCause] {
        match self {
            Self::Timeout => &[RetransmissionCause::Timeout],
            Self::Fast => &[RetransmissionCause::Fast],
            Self::Bundled => &[RetransmissionCause::Bundled, RetransmissionCause::ReportedBundled],
        }
    }
}

/// How much of the retransmissions with one ordinal had one cause.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// Of all retransmissions with this ordinal.
    of_all: f64,
    /// The part of `of_all` that was spurious.
    spurious: f64,
}

impl Share {
    /// Returns `None` if there are too few retransmissions for a meaningful share.
    fn of(case: &Case<'_>, group: Group, ordinal: Ordinal, kind: Kind) -> Option<Self> {
        let all = case.group(group)?;
        if all.count(ordinal) < COUNT_MIN {
            return None;
        }
        let shares = kind.causes().iter().filter_map(|&cause| {
            let share = all.share_by(ordinal, cause)?;
            Some((share, share * all.spurious_share_by(ordinal, cause).unwrap_or(0.0)))
        });
        let (of_all, spurious) = shares.fold((0.0, 0.0), |sum, share| (sum.0 + share.0, sum.1 + share.1));
        Some(Self { of_all, spurious })
    }
}

/// What the paper states, where a plan varies it: the first value of each list.
fn stated(results: &Results) -> Vec<(&'static str, String)> {
    let first = |(name, values): &(&'static str, Vec<crate::plan::Value>)| Some((*name, values.first()?.to_string()));
    results.plan().sweep().iter().filter(|(name, _)| *name != "group").filter_map(first).collect()
}

/// The same but for one parameter.
fn with(results: &Results, name: &str, value: &str) -> Vec<(&'static str, String)> {
    let mut settings = stated(results);
    for setting in settings.iter_mut().filter(|(known, _)| *known == name) {
        value.clone_into(&mut setting.1);
    }
    settings
}

/// Shares in each repetition.
impl Case<'_> {
    /// The share of one kind among the retransmissions of an ordinal.
    fn share(&self, group: Group, ordinal: Ordinal, kind: Kind) -> Option<Repeated> {
        let all = self.enough(group, ordinal)?;
        all.share_in_each(ordinal, kind.causes())
    }

    fn enough(&self, group: Group, ordinal: Ordinal) -> Option<Retransmissions<'_>> {
        self.group(group).filter(|all| all.count(ordinal) >= COUNT_MIN)
    }
}

fn scoreboard(results: &Results) -> Vec<Entry> {
    let case = Case::new(results, &stated(results));
    let [lksctp, _] = GROUPS;
    let entry = |(ordinal, bound): (Ordinal, Bound)| {
        let what = format!("timeouts among the {} retransmissions of lksctp", ordinal.name());
        Entry::inequality(what, "%", bound, percent(&case, lksctp, ordinal, Kind::Timeout))
    };
    let timeouts = [Ordinal::First, Ordinal::Second].into_iter().zip(TIMEOUTS).map(entry);
    std::iter::once(loss_entry(results)).chain(timeouts).collect()
}

/// The share of one kind in percent.
fn percent(case: &Case<'_>, group: Group, ordinal: Ordinal, kind: Kind) -> Option<Estimate> {
    Estimate::of(&case.share(group, ordinal, kind)?).map(|share| share.times(100.0))
}

/// A group of bars for each group and ordinal, a bar for each kind.
fn bars(case: &Case<'_>, chart: &mut BarChart, bar: impl Fn(Group, Ordinal, usize, Kind) -> Bar) {
    for group in GROUPS.into_iter().filter(|group| case.summary(*group).is_some()) {
        for ordinal in SHOWN {
            let bars = Kind::ALL.into_iter().enumerate().map(|(series, kind)| bar(group, ordinal, series, kind));
            chart.group(&format!("{} {}", group.title(), ordinal.name()), bars.collect());
        }
    }
}

fn share_bars(case: &Case<'_>, conditions: &str) -> Figure {
    let mut chart =
        BarChart::new("Causes of retransmissions", conditions, "mean share of the retransmissions", Unit::Share);
    chart.series = Kind::ALL.map(|kind| kind.title().to_owned()).to_vec();
    chart.hatched = Some("spurious".to_owned());
    chart.markers = vec!["paper".to_owned()];
    bars(case, &mut chart, |group, ordinal, series, kind| {
        let share = Share::of(case, group, ordinal, kind).unwrap_or(Share { of_all: 0.0, spurious: 0.0 });
        let bar = Bar::default().stack(series, share.of_all, share.spurious).label(kind.label());
        let bar = bar.mark(published_share(group, ordinal, kind));
        match case.share(group, ordinal, kind).and_then(|share| Estimate::of(&share)?.interval()) {
            Some([low, high]) => bar.whisker(low.max(0.0), high.min(1.0)),
            None => bar,
        }
    });
    chart.figure()
}

/// What the text says of the figure's bars.
fn published_share(group: Group, ordinal: Ordinal, kind: Kind) -> Option<f64> {
    match (group, ordinal, kind) {
        (Group::Lksctp, Ordinal::First, Kind::Timeout) => Some(0.2),
        (Group::Lksctp, Ordinal::Second, Kind::Timeout) => Some(0.75),
        _ => None,
    }
}

fn delay_bars(case: &Case<'_>, conditions: &str) -> Figure {
    let label = "mean from the first transmission to the retransmission";
    let mut chart = BarChart::new("Latencies of retransmissions by cause", conditions, label, Unit::Milliseconds);
    chart.series = Kind::ALL.map(|kind| kind.title().to_owned()).to_vec();
    chart.markers = vec!["99%".to_owned(), "maximum".to_owned()];
    bars(case, &mut chart, |group, ordinal, series, kind| {
        let delays = case.group(group).map(|all| delays(all, ordinal, kind)).unwrap_or_default();
        let ms = |delay: Option<std::time::Duration>| delay.map(|delay| delay.as_secs_f64() * 1e3);
        let mean = ms(delays.mean()).unwrap_or(0.0);
        let bar = Bar::new(series, mean).mark(ms(delays.quantile(0.99))).mark(ms(delays.max())).label(kind.label());
        match mean_interval_ms(case, group, ordinal, kind) {
            Some([low, high]) => bar.whisker(low, high),
            None => bar,
        }
    });
    chart.figure()
}

/// The interval of the mean delay over the repetitions, where one cause alone makes the kind.
fn mean_interval_ms(case: &Case<'_>, group: Group, ordinal: Ordinal, kind: Kind) -> Option<[f64; 2]> {
    let all = case.group(group)?;
    let mut found = kind.causes().iter().filter_map(|&cause| all.delays_by(ordinal, cause));
    let (Some(series), None) = (found.next(), found.next()) else { return None };
    Estimate::of(&series.mean_s().map(|seconds| seconds * 1e3))?.interval()
}

fn delays(all: Retransmissions<'_>, ordinal: Ordinal, kind: Kind) -> DelayStatistics {
    let mut delays = DelayStatistics::new();
    for series in kind.causes().iter().filter_map(|&cause| all.delays_by(ordinal, cause)) {
        delays.merge(series.all());
    }
    delays
}
