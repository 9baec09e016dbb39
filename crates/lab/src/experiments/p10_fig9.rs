//! `p10-fig9`: why chunks are sent again, whether that was needed, and when (P10 §6.2, Fig. 9).

use festina_sctp::RetransmissionCause;

use super::p10_congested::{assumptions, loss_entry, p10_network, parameters, run};
use super::p10_fig8::{COUNT_MIN, Case, Measure, SHOWN};
use crate::assumption::Assumption;
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::{Bar, BarChart, Figure, Unit};
use crate::plan::{Parameter, Point};
use crate::samples::Samples;
use crate::scenario::{Group, Ordinal, Retransmissions};
use crate::scoreboard::Entry;
use crate::summary::{Repeated, Results};
use festina_models::statistics::DelayStatistics;

/// How else the open parameters can be read.
const OTHERWISE: [(&str, &str, &str); 4] = [
    ("sack_delay", "200ms", "SACKs are delayed"),
    ("timer_fix", "as-worded", "the fix of the timer is as worded"),
    ("bundling", "p06", "all modifications bundle as in P06"),
    ("web_ways", "both", "SACKs are lost, too"),
];
/// "A little more than 20%", and "around 75 percent" within a quarter. The bounds are ours.
const TIMEOUTS: [Bound; 2] = [Bound::Within(20.0, 25.0), Bound::Within(56.25, 93.75)];

/// The groups of the figure.
const GROUPS: [Group; 2] = [Group::Lksctp, Group::AllMods];

/// Causes and latencies of retransmissions beside web traffic.
#[derive(Clone, Copy, Debug)]
pub struct P10Fig9;

impl Experiment for P10Fig9 {
    fn description(&self) -> Description {
        Description {
            name: "p10-fig9",
            title: "Timeouts, fast retransmissions and bundling beside web traffic",
            reference: "Petlund et al. 2010, Fig. 9 (section 6.2)",
            about: concat!(
                "Each retransmission of lksctp and of lksctp with all modifications has a cause: its timer expired, enough reports \
             said that it was missing, or it was bundled into a packet that left anyway. It was spurious if an earlier copy \
             arrived sooner or later; the simulator knows. Beside the share of each cause stands the time since the first \
             transmission.\n\n\
             The caption of Fig. 8 says that delayed ACKs were off, and section 6.1 explains a result by delayed SACKs. Section 5.2 words the fix of \
             the timer's restart in a way that differs from its aim. The bundling of Pedersen et al. 2006, which puts unacknowledged chunks into \
             every packet with new ones, is not mentioned. Nor is it said whether web traffic crosses the bottleneck both ways, so that SACKs get \
             lost. Each is read otherwise as well, one at a time, and every check is judged under each reading. Round-trip times, samples of \
             resent chunks and the absence of the fix are shown beside them.\n\n",
                p10_network!(),
            ),
            plan: include_str!("../../../../experiments/p10-fig9.toml"),
            question: "Why does lksctp, as it was and with all modifications, send messages again beside web traffic, and is it needed?",
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        parameters()
    }

    fn assumptions(&self) -> Vec<Assumption> {
        assumptions()
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        run(point, seed)
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        scoreboard(results)
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let of = |settings: &[(&'static str, String)]| {
            let case = Case::new(results, settings);
            lksctp_checks(&case).into_iter().chain(modified_checks(&case))
        };
        let mut checks: Vec<Check> = of(&stated(results)).collect();
        for (name, value, words) in OTHERWISE {
            checks.extend(of(&with(results, name, value)).map(|check| check.under(words)));
        }
        checks.extend(rtt_checks(results));
        checks
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

    /// The share of those of one kind that were spurious.
    fn spurious(&self, group: Group, ordinal: Ordinal, kinds: &[Kind]) -> Option<Repeated> {
        let all = self.enough(group, ordinal)?;
        let causes: Vec<RetransmissionCause> = kinds.iter().flat_map(|kind| kind.causes()).copied().collect();
        all.spurious_in_each(ordinal, &causes)
    }

    fn enough(&self, group: Group, ordinal: Ordinal) -> Option<Retransmissions<'_>> {
        self.group(group).filter(|all| all.count(ordinal) >= COUNT_MIN)
    }
}

/// What each share of causes is worth as a cell.
fn dominates(case: &Case<'_>, group: Group, ordinal: Ordinal, kind: Kind, below: Option<Kind>) -> Evidence {
    let mut evidence = Evidence::new();
    for other in Kind::ALL.into_iter().filter(|other| *other != kind && Some(*other) != below) {
        let pair = case.share(group, ordinal, kind).zip(case.share(group, ordinal, other));
        let more = pair.and_then(|(one, other)| Estimate::difference(&one, 1.0, &other)).map(|it| it.times(100.0));
        evidence.cell(format!("points above {}:", other.title()), more, Bound::MoreThan(0.0));
    }
    if let Some(above) = below {
        let pair = case.share(group, ordinal, kind).zip(case.share(group, ordinal, above));
        let less = pair.and_then(|(one, other)| Estimate::difference(&other, 1.0, &one)).map(|it| it.times(100.0));
        evidence.cell(format!("points below {}:", above.title()), less, Bound::MoreThan(0.0));
    }
    evidence
}

/// A share that must be above a bound.
fn spurious_cell(case: &Case<'_>, group: Group, ordinal: Ordinal, kind: Kind, bound: f64) -> Evidence {
    let mut evidence = Evidence::new();
    let share = case.spurious(group, ordinal, &[kind]).and_then(|share| Estimate::of(&share));
    let what = format!("% of {} of the {}:", kind.title(), ordinal.name());
    evidence.cell(what, share.map(|share| share.times(100.0)), Bound::MoreThan(bound));
    evidence
}

/// That one number of the modified kernel is above or below that of lksctp.
fn against(
    case: &Case<'_>,
    statement: &str,
    number: impl Fn(&Case<'_>, Group, Ordinal) -> Option<Repeated>,
    ordinals: &[Ordinal],
    bound: Bound,
) -> Check {
    let [lksctp, all] = GROUPS;
    let mut evidence = Evidence::new();
    for &ordinal in ordinals {
        let pair = number(case, lksctp, ordinal).zip(number(case, all, ordinal));
        let change = pair.and_then(|(plain, modified)| Estimate::difference(&modified, 1.0, &plain));
        evidence.cell(
            format!("points more than lksctp at the {}:", ordinal.name()),
            change.map(|change| change.times(100.0)),
            bound,
        );
    }
    evidence.check(statement)
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

/// A share of timeouts that the text of Fig. 9 has as a number.
fn timeouts_check(case: &Case<'_>, ordinal: Ordinal, bound: Bound, statement: &str) -> Check {
    let mut evidence = Evidence::new();
    let what = format!("% of the {} retransmissions:", ordinal.name());
    evidence.cell(what, percent(case, GROUPS[0], ordinal, Kind::Timeout), bound);
    evidence.check(statement)
}

/// "For lksctp, we can see ..."
fn lksctp_checks(case: &Case<'_>) -> Vec<Check> {
    use Kind::{Bundled, Fast, Timeout};
    let [lksctp, _] = GROUPS;
    let [first, second, third] = SHOWN;
    let mut later = Evidence::new();
    let shares = case.share(lksctp, second, Timeout).zip(case.share(lksctp, first, Timeout));
    let more = shares.and_then(|(second, first)| Estimate::difference(&second, 1.0, &first));
    later.cell("points more:", more.map(|more| more.times(100.0)), Bound::MoreThan(0.0));
    let mut large = Evidence::new();
    for kind in [Fast, Bundled] {
        let share = case.spurious(lksctp, second, &[kind]).and_then(|share| Estimate::of(&share));
        let what = format!("% of {}:", kind.title());
        large.cell(what, share.map(|share| share.times(100.0)), Bound::MoreThan(LARGE_PERCENT));
    }
    vec![
        dominates(case, lksctp, first, Fast, None)
            .check("lksctp: fast retransmission is the dominant cause of the first retransmission.").id("lksctp-fast-first"),
        dominates(case, lksctp, first, Bundled, Some(Fast)).check("lksctp: bundled chunks are the second most common.").id("lksctp-bundled-second"),
        spurious_cell(case, lksctp, first, Bundled, 50.0)
            .check("lksctp: the majority of the bundled chunks among the first retransmissions is spurious.").id("lksctp-bundled-spurious"),
        timeouts_check(case, first, TIMEOUTS[0], "lksctp: timeouts are a little more than 20% of the first retransmissions: 25% at most.")
            .id("lksctp-first-20"),
        timeouts_check(case, second, TIMEOUTS[1], "lksctp: around 75% of the second retransmissions are timeouts: within a quarter.")
            .id("lksctp-second-75"),
        later.check("lksctp: the share of timeouts is larger among the second retransmissions.").id("lksctp-more-timeouts"),
        spurious_cell(case, lksctp, second, Timeout, 50.0)
            .check("lksctp: most timeouts among the second retransmissions are spurious.").id("lksctp-timeouts-spurious"),
        large.check(
            "lksctp: the share of spurious ones is also large among fast retransmissions and bundled chunks of the second: a \
             quarter at least.",
        ).id("lksctp-others-spurious"),
        dominates(case, lksctp, third, Timeout, None).check("lksctp: timeouts still dominate the third retransmissions.").id("lksctp-timeouts-third"),
    ]
}

/// "Large": a quarter. The bound is ours.
const LARGE_PERCENT: f64 = 25.0;

/// "The results from the experiments with a modified SCTP ..."
fn modified_checks(case: &Case<'_>) -> Vec<Check> {
    use Kind::{Bundled, Fast, Timeout};
    use Measure::{Max, Mean, P99};
    let [lksctp, all] = GROUPS;
    let [first, second, _] = SHOWN;
    let share = |kind| move |case: &Case<'_>, group, ordinal| case.share(group, ordinal, kind);
    let spurious = |case: &Case<'_>, group, ordinal| case.spurious(group, ordinal, &Kind::ALL);
    let mut slight = Evidence::new();
    let pair = case.share(all, first, Timeout).zip(case.share(lksctp, first, Timeout));
    let ratio = pair.and_then(|(modified, plain)| Estimate::ratio(&modified, &plain));
    slight.cell("share of timeouts, modified over lksctp:", ratio, Bound::Within(SLIGHTLY, 1.0));
    vec![
        slight.check(
            "All modifications: the share of timeouts among the first retransmissions is slightly lower than with lksctp: by at \
             most a quarter.",
        ).id("fewer-timeouts"),
        against(
            case,
            "All modifications: a smaller share of the first retransmissions is fast than with lksctp.",
            share(Fast),
            &[first],
            Bound::LessThan(0.0),
        ).id("fewer-fast"),
        dominates(case, all, first, Bundled, None)
            .check("All modifications: bundling is the major cause of the first retransmission.").id("bundling-first"),
        dominates(case, all, second, Timeout, None)
            .check("All modifications: timeouts still dominate the second retransmissions.").id("timeouts-second"),
        against(
            case,
            "All modifications: a larger share of the retransmissions is spurious than with lksctp.",
            spurious,
            &[first, second],
            Bound::MoreThan(0.0),
        ).id("more-spurious"),
        case.below(
            "All modifications: every retransmission comes earlier than with lksctp, in mean and 99%.",
            [all, lksctp],
            &SHOWN,
            &[Mean, P99],
        ).id("earlier"),
        case.below("All modifications: the maxima are lower than with lksctp.", [all, lksctp], &SHOWN, &[Max]).id("maxima"),
    ]
}

/// "Slightly": by at most a quarter. The bound is ours.
const SLIGHTLY: f64 = 0.75;

/// "Increasing the RTT increases retransmission times and the number of retransmissions due to fast retransmit."
fn rtt_checks(results: &Results) -> [Check; 2] {
    let mut rtts: Vec<(std::time::Duration, String)> = Vec::new();
    for (_, values) in results.plan().sweep().iter().filter(|(name, _)| *name == "rtt") {
        rtts.extend(values.iter().filter_map(|value| match value {
            crate::plan::Value::Duration(rtt) => Some((*rtt, value.to_string())),
            _ => None,
        }));
    }
    rtts.sort_unstable();
    let (mut times, mut numbers) = (Evidence::new(), Evidence::new());
    for pair in rtts.windows(2) {
        let [(_, lower), (_, higher)] = [&pair[0], &pair[1]];
        let [before, after] = [lower, higher].map(|rtt| Case::new(results, &with(results, "rtt", rtt)));
        for group in GROUPS {
            let means = [&before, &after].map(|case| case.repeated_ms(group, Ordinal::First, Measure::Mean));
            let fast =
                [&before, &after].map(|case| case.group(group)?.counts_in_each(Ordinal::First, Kind::Fast.causes()));
            let increase = |[before, after]: [Option<Repeated>; 2]| Estimate::difference(&after?, 1.0, &before?);
            let what = |unit| format!("{unit} more with {} at {higher} than at {lower}:", group.title());
            times.cell(what("ms"), increase(means), Bound::MoreThan(0.0));
            // Nothing is resent fast at either while three reports take longer than the timer.
            let some = |fast: &[Option<Repeated>; 2]| fast.iter().flatten().any(|counts| counts.sum() > 0.0);
            match some(&fast) {
                true => numbers.cell(what("in each run"), increase(fast), Bound::MoreThan(0.0)),
                false => numbers.left_out(what("none at either")),
            }
        }
    }
    [
        times.check("The longer the round-trip time, the later the first retransmissions in the mean.").id("rtt-later"),
        numbers
            .check("The longer the round-trip time, the more of the first retransmissions are fast ones.")
            .id("rtt-more-fast"),
    ]
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
