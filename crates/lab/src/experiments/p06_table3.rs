//! `p06-table3`: what the enhancements for thin streams do to the first retransmission (P06 §4.5, Table 3).

use std::time::Duration;

use festina_recovery::profile::Rules;
use festina_recovery::rto_restart::TimerRestart;
use festina_recovery::{Mechanisms, Profile};
use festina_sctp::RetransmissionCause::{Fast, Timeout};

use super::p06::{self, Published, Quantity};
use crate::experiment::{Description, Experiment};
use crate::figure::{Bar, BarChart, Figure, Unit};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::{Fault, Readings, Stack, TimerFix, cause_name};
use crate::scoreboard::Entry;
use crate::summary::{PointSummary, Repeated, Results};

/// The table's steps; each has all that the one before it has.
const STEPS: &[&str] = &["orig", "reduced-rto-and-fr", "mod-timer-restart", "no-sack-delay"];

/// First retransmissions with more and more enhancements.
#[derive(Clone, Copy, Debug)]
pub struct P06Table3;

impl Experiment for P06Table3 {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/p06-table3.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let fault = Fault::of(point);
        let step = if fault == Fault::Swapped { STEPS.len() - 1 - step_of(point) } else { step_of(point) };
        let sack_delay = if step == STEPS.len() - 1 { Duration::ZERO } else { point.duration("sack_delay") };
        p06::run(point, fault.in_stack(Stack::sctp(mechanisms(point, step), sack_delay)), seed)
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        let rows = TABLE.iter().enumerate();
        rows.flat_map(|(step, lines)| {
            let ours = at(results, step);
            let fitted = move |line: &Published, quantity| what_was_fitted(step, line.cause, quantity);
            let shares = p06::agreement(STEPS[step], lines, ours);
            let total = f64::from(lines.iter().map(|line| line.number).sum::<u32>());
            let all =
                Entry::one_run(format!("{}, both, number", STEPS[step]), "", total, ours.and_then(numbers).as_ref());
            let all = if step == 0 { all.fitted(ROW_OF_TABLE_2) } else { all };
            lines.iter().flat_map(move |line| line.compare(STEPS[step], ours, fitted, why)).chain([shares, all])
        })
        .collect()
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let conditions = results.plan().conditions();
        let title = "Mean delay of the first retransmission by step";
        let mut means = BarChart::new(title, &conditions, "mean delay", Unit::Milliseconds);
        let title = "Number of first retransmissions by step";
        let mut numbers = BarChart::new(title, &conditions, "mean number in a run", Unit::Count);
        for (chart, quantity) in [(&mut means, Quantity::Mean), (&mut numbers, Quantity::Number)] {
            chart.series = ["paper", "ours"]
                .iter()
                .flat_map(|who| [Timeout, Fast].map(|cause| format!("{} ({who})", cause_name(cause))))
                .collect();
            for (step, lines) in TABLE.iter().enumerate() {
                let paper = lines.iter().filter_map(|line| line.value(quantity));
                let mut bars: Vec<Bar> = paper.enumerate().map(|(series, height)| Bar::new(series, height)).collect();
                for (series, cause) in [Timeout, Fast].into_iter().enumerate() {
                    let ours = at(results, step).and_then(|summary| quantity.measured(summary, cause));
                    let Some(ours) = ours else { continue };
                    let bar = Bar::new(2 + series, ours.mean);
                    bars.push(ours.interval().map_or(bar.clone(), |[low, high]| bar.whisker(low, high)));
                }
                chart.group(STEPS[step], bars);
            }
        }
        vec![means.figure(), numbers.figure()]
    }
}

/// The table; timeouts first.
const TABLE: [[Published; 2]; 4] = [
    [line(Timeout, 266, [996.2, 1460.1, 1144.6]), line(Fast, 35, [1228.4, 1740.7, 1274.2])],
    [line(Timeout, 197, [435.8, 732.0, 626.7]), line(Fast, 284, [460.3, 731.2, 472.3])],
    [line(Timeout, 331, [436.0, 696.0, 525.0]), line(Fast, 288, [460.2, 464.3, 462.3])],
    [line(Timeout, 633, [255.7, 448.0, 282.9]), line(Fast, 1, [463.0, 463.0, 463.0])],
];

const fn line(cause: festina_sctp::RetransmissionCause, number: u32, [min, max, mean]: [f64; 3]) -> Published {
    Published { cause, number, share: None, min_ms: min, max_ms: max, mean_ms: mean }
}

/// The table's first step is a row of Table 2.
const ROW_OF_TABLE_2: &str = "the row of Table 2 at 200 ms, which is scored there";

/// Returns the parameter that was fitted to a number of the table.
fn what_was_fitted(step: usize, cause: festina_sctp::RetransmissionCause, quantity: Quantity) -> Option<&'static str> {
    match (step, cause, quantity) {
        (0, ..) => Some(ROW_OF_TABLE_2),
        (1, Timeout, Quantity::Max) => Some("the removal of backoff from this step on was chosen on it"),
        (2, Timeout, Quantity::Min) => Some("timer_fix was chosen on it: no timeout took less than the RTO"),
        _ => None,
    }
}

/// Why a number is missed.
fn why(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Number => "A class of a single retransmission comes about by chance.",
        Quantity::Min | Quantity::Max => {
            "The extreme of a run is a single message. Without SACK delay a longer wait takes a round-trip time that \
             was measured by a late answer; with jitter of 4 ms (see the parameter) the longest of all runs is the paper's 448 ms."
        }
        Quantity::Share | Quantity::Mean => "It rests on few retransmissions in one run.",
    }
}

fn step_of(point: &Point) -> usize {
    let name = point.choice("step");
    STEPS.iter().position(|step| *step == name).expect("the plan takes no other names")
}

/// The first point of a step. The others of the step differ in parameters that are swept separately.
fn at(results: &Results, step: usize) -> Option<&PointSummary> {
    results.points().iter().find(|summary| step_of(summary.point()) == step)
}

fn mechanisms(point: &Point, step: usize) -> Mechanisms {
    let mut mechanisms = p06::lksctp(point);
    if step == 0 {
        return mechanisms;
    }
    let enhanced = Profile::Pedersen2006.mechanisms();
    let normal = mechanisms.normal;
    let thin = enhanced.thin;
    mechanisms.thin_detection = enhanced.thin_detection;
    mechanisms.thin = Rules { rto_min: thin.rto_min, fast_retransmit: thin.fast_retransmit, ..normal };
    if point.choice("backoff") == "removed" {
        mechanisms.thin.backoff = thin.backoff;
    }
    if step > 1 {
        mechanisms.thin.timer_restart = match Readings::of(point).timer_fix {
            TimerFix::AsWorded => TimerRestart::SinceTimerStart,
            TimerFix::WithMinRto | TimerFix::InAllModsOnly => TimerRestart::SinceEarliestSent,
            TimerFix::Nowhere => normal.timer_restart,
        };
    }
    mechanisms
}

/// Timeouts and fast retransmissions together.
fn numbers(step: &PointSummary) -> Option<Repeated> {
    let [timeouts, fast] = [Timeout, Fast].map(|cause| Quantity::Number.each(step, cause));
    Some(timeouts?.zip_with(&fast?, |one, other| one + other))
}
