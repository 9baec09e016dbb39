//! `p10-fig13`: game traffic over the Internet, four ways to recover from loss (P10 §6.4, Fig. 13 and Table 2).

mod access;
mod checks;
mod setups;

use std::collections::BTreeSet;
use std::time::Duration;

use festina_netsim::{GilbertElliott, Jitter, JitterShape, LinkConfig, LossModel};
use festina_sctp::RetransmissionCause;
use festina_units::Probability;

use crate::count::as_f64;
use crate::experiment::{Check, Description, Experiment};
use crate::figure::{Axis, Curve, DelayDistribution, Figure, Mark, Unit};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::{GameReplay, MachineRun, Readings};
use crate::scoreboard::Entry;
use crate::summary::{PointSummary, Results};
pub use access::P10Fig14;
use setups::Setup;

/// The paper's vertical axis begins about there: below, all set-ups are alike.
const FIGURE_FROM: f64 = 0.999;

/// A pause in which only a timer can repair a loss: as long as the RTO of unmodified stacks.
const IDLE_FROM: Duration = Duration::from_secs(1);

/// With a loss of 0.075%, the paper's range from 0.9992 to 0.9995 covers the first third of the lost packets; its middle lies at a sixth.
const EARLY_PART: usize = 6;

/// Of the lost packets of FreeBSD with early fast retransmit, the share that is first sent again by a fast retransmission: of those sent before the first
/// timeout of their association, and of the others, whose congestion window has collapsed.
const EARLY_OPEN: &str = "repaired fast before a timeout %";
const EARLY_COLLAPSED: &str = "repaired fast after a timeout %";

/// Orders of the gaps between messages.
const INDEPENDENT: &str = "independent";
const BURSTS: &str = "bursts";

/// Replayed traffic of Anarchy Online over a long path with little, bursty loss.
#[derive(Clone, Copy, Debug)]
pub struct P10Fig13;

impl Experiment for P10Fig13 {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/p10-fig13.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let readings = Readings::of(point);
        let replay = GameReplay {
            machines: Setup::ALL.iter().map(|setup| setup.config(&readings)).collect(),
            receiver: setups::receiver(point.duration("sack_delay")),
            players: u32::try_from(point.count("players")).unwrap_or(u32::MAX),
            duration: point.duration("duration"),
            is_bursty: point.choice("gaps") == BURSTS,
            path: path(point),
        };
        let mut samples = Samples::new();
        for (setup, run) in Setup::ALL.iter().zip(replay.run(seed)) {
            note(&mut samples, *setup, &run);
            if *setup == Setup::FreeBsdEfr {
                note_collapse(&mut samples, &run);
            }
        }
        samples
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        results.points().first().map(checks::scoreboard).unwrap_or_default()
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let at = |gaps| results.matching(&[("gaps", gaps)]).next();
        let first = results.points().first();
        let mut checks: Vec<Check> = first.map(checks::maxima_by_chance_check).into_iter().collect();
        for (gaps, words) in [(INDEPENDENT, "with independent gaps"), (BURSTS, "with bursts of short gaps")] {
            checks.extend(at(gaps).map(|point| checks::timer_fix_check(point).under(words)));
        }
        checks
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let Some(first) = results.points().first() else { return Vec::new() };
        let subtitle = results.plan().conditions();
        let mut tail = DelayDistribution::new(results.plan().title(), &subtitle);
        for setup in Setup::ALL {
            if let Some(arrival) = first.series().get(&setup.arrival()) {
                tail.curve(setup.name(), arrival.all());
            }
        }
        let mut tail = tail.figure();
        tail.y.label = "share of messages that arrive later".to_owned();
        vec![published_figure(first, &subtitle), tail]
    }
}

/// Either way of the path.
fn path(point: &Point) -> LinkConfig {
    let loss_in_bad = point.probability("loss_in_burst");
    let mean_bad = point.duration("burst");
    let bad_share = (point.probability("loss").as_fraction() / loss_in_bad.as_fraction()).min(1.0);
    let mean_good = mean_bad.mul_f64((1.0 - bad_share) / bad_share);
    let std_dev = point.duration("jitter");
    LinkConfig {
        delay: point.duration("rtt") / 2,
        jitter: Jitter { shape: JitterShape::Normal { std_dev }, keeps_order: true },
        loss: LossModel::GilbertElliott(GilbertElliott {
            mean_good,
            mean_bad,
            loss_in_good: Probability::ZERO,
            loss_in_bad,
        }),
        ..LinkConfig::default()
    }
}

/// What one machine's run gives.
fn note(samples: &mut Samples, setup: Setup, run: &MachineRun) {
    let (mut spurious, mut repairs) = (0u64, Vec::new());
    for truth in &run.associations {
        let fast = truth.retransmissions.iter().filter(|resent| resent.cause == RetransmissionCause::Fast);
        let fast: BTreeSet<(u32, u32)> = fast.map(|resent| (resent.sequence, resent.ordinal)).collect();
        for (index, message) in truth.messages.iter().enumerate() {
            let (Some(left_at), Some(arrived_at)) = (message.left_at, message.arrived_at) else { continue };
            let delay = arrived_at.saturating_duration_since(left_at);
            samples.tally(&setup.arrival(), delay);
            samples.tally(&setup.delivery(), message.delay().unwrap_or(delay));
            if message.delivered_by.is_some_and(|copy| copy > 0) {
                samples.tally(&setup.repair(), delay);
                repairs.push(delay);
                if message.delivered_by.is_some_and(|copy| fast.contains(&(message.sequence, copy))) {
                    samples.tally(&setup.fast_repair(), delay);
                }
                let next = truth.messages.get(index + 1);
                if next.is_none_or(|next| next.due_at.saturating_duration_since(left_at) >= IDLE_FROM) {
                    samples.tally(&setup.idle_repair(), delay);
                }
            }
        }
        spurious += truth.retransmissions.iter().map(|resent| u64::from(resent.is_spurious())).sum::<u64>();
    }
    repairs.sort_unstable();
    if let Some(early) = repairs.get(repairs.len() / EARLY_PART) {
        samples.set(&setup.early_repair(), early.as_secs_f64() * 1e3);
    }
    let sent = as_f64(run.packets_sent.max(1));
    samples.set(&setup.loss(), as_f64(run.packets_lost) / sent * 100.0);
    samples.set(&setup.spurious(), as_f64(spurious) / sent * 100.0);
    samples.set(&setup.packets(), sent);
}

/// How losses are first repaired, before and after a timeout has collapsed the window.
fn note_collapse(samples: &mut Samples, run: &MachineRun) {
    let mut counts = [[0u64; 2]; 2];
    for truth in &run.associations {
        let timeouts = truth.retransmissions.iter().filter(|resent| resent.cause == RetransmissionCause::Timeout);
        let collapses_at = timeouts.map(|resent| resent.at).min();
        for resent in truth.retransmissions.iter().filter(|resent| resent.ordinal == 1 && !resent.is_spurious()) {
            let is_collapsed = collapses_at.is_some_and(|at| resent.first_sent_at >= at);
            let count = &mut counts[usize::from(is_collapsed)];
            count[0] += 1;
            count[1] += u64::from(resent.cause == RetransmissionCause::Fast);
        }
    }
    for ([all, fast], name) in counts.into_iter().zip([EARLY_OPEN, EARLY_COLLAPSED]) {
        if all > 0 {
            samples.set(name, as_f64(fast) / as_f64(all) * 100.0);
        }
    }
}

/// The paper's figure: the upper end of the cumulative distribution.
fn published_figure(point: &PointSummary, subtitle: &str) -> Figure {
    let mut last_ms = 0f64;
    let mut curves = Vec::new();
    for setup in Setup::published() {
        let Some(arrival) = point.series().get(&setup.arrival()) else { continue };
        let mut points = Vec::new();
        let mut arrived = 0.0;
        for step in arrival.all().shares_later() {
            let delay_ms = step.delay.as_secs_f64() * 1e3;
            points.push((delay_ms, arrived));
            arrived = 1.0 - step.share;
            points.push((delay_ms, arrived));
            last_ms = last_ms.max(delay_ms);
        }
        points.retain(|(_, share)| *share >= FIGURE_FROM);
        curves.push(Curve { name: setup.name().to_owned(), points });
    }
    let marks = published_maxima(point);
    last_ms = marks.iter().map(|mark| mark.x).fold(last_ms, f64::max);
    let x = Axis::from_zero("arrival after the message first left, all runs", last_ms, Unit::Milliseconds);
    let y = Axis::linear("share of messages that have arrived", FIGURE_FROM, 1.0, Unit::Share);
    let mut figure = Figure::new("The last thousandth: arrival times of game traffic", subtitle, x, y);
    figure.curves = curves;
    figure.marks = marks;
    figure
}

/// The maxima of Table 2, as far beyond our mean as they are beyond the paper's, whose clocks were not in step.
fn published_maxima(point: &PointSummary) -> Vec<Mark> {
    let mark = |setup: Setup| {
        let row = setup.table_2()?;
        let mean = point.series().get(&setup.arrival())?.all().mean()?;
        let x = row.max_ms - row.mean_ms + mean.as_secs_f64() * 1e3;
        Some(Mark { x, label: format!("paper: {}", setup.name()) })
    };
    Setup::published().filter_map(mark).collect()
}
