//! `p06-table2`: why and when lksctp sends a lost message of a thin stream again (P06 §3, Table 2).

mod published;

use std::time::Duration;

use festina_sctp::RetransmissionCause;

use super::p06::{self, Published, Quantity};
use crate::evidence::Estimate;
use crate::experiment::{Description, Experiment};
use crate::figure::{Axis, Bar, BarChart, Figure, PlotPoint, PointSeries, Unit};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::{Fault, Group, Readings, Stack, cause_name};
use crate::scoreboard::Entry;
use crate::summary::{PointSummary, Results};

/// The classes of the table.
const CLASSES: [RetransmissionCause; 4] = [
    RetransmissionCause::Timeout,
    RetransmissionCause::Fast,
    RetransmissionCause::ReportedBundled,
    RetransmissionCause::Bundled,
];

/// How long Linux's TCP delays an acknowledgement.
const TCP_ACK_DELAY: Duration = Duration::from_millis(40);

/// First retransmissions of unmodified lksctp by cause.
#[derive(Clone, Copy, Debug)]
pub struct P06Table2;

impl Experiment for P06Table2 {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/p06-table2.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let readings = Readings::of(point);
        let transport = point.choice("transport");
        let is_tcp = (transport != "lksctp") != (readings.fault == Fault::Swapped);
        let stack = if is_tcp {
            let mut stack = Group::NewReno.stack(&readings, TCP_ACK_DELAY);
            if let Stack::Tcp { sender, receiver } = &mut stack {
                let has_sack = ["sack", "fack"].contains(&transport);
                (sender.sack, receiver.sack, sender.switches.fack) = (has_sack, has_sack, transport == "fack");
            }
            stack
        } else {
            let mut mechanisms = p06::lksctp(point);
            for rules in [&mut mechanisms.normal, &mut mechanisms.thin] {
                rules.bundling.into_timeout = point.choice("bundling") == "on";
            }
            readings.fault.in_stack(Stack::sctp(mechanisms, point.duration("sack_delay")))
        };
        p06::run(point, stack, seed)
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        let base = Base::of(results);
        let rows = published::TABLE.iter();
        rows.flat_map(|(rtt, lines)| {
            let ours = base.at(rtt);
            let fitted = move |line: &Published, quantity| published::fitted(rtt, line.cause, quantity);
            let row = format!("RTT {rtt}");
            let shares = p06::agreement(&row, lines, ours);
            let shares = match published::fitted_shares(rtt) {
                Some(how) => shares.fitted(how),
                None => shares,
            };
            let entries = lines.iter().flat_map(move |line| line.compare(&row, ours, fitted, published::why));
            entries.chain([shares])
        })
        .collect()
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let mut figures = vec![shares(results)];
        let by_loss = Axis::from_zero("mean share of timeouts", 1.0, Unit::Share);
        figures.extend(sensitivity(results, RetransmissionCause::Timeout, &["loss", "lost", "jitter"], by_loss));
        let by_reading = Axis::log("mean share of fast retransmissions", 0.005, 1.0, Unit::Share);
        figures.extend(sensitivity(
            results,
            RetransmissionCause::Fast,
            &["rtt_samples", "timer_restart", "after_timeout", "clock", "interval"],
            by_reading,
        ));
        figures
    }
}

/// The points at which nothing but the round-trip time is swept: everything else is as in the plan's first values.
struct Base<'r> {
    points: Vec<&'r PointSummary>,
}

impl<'r> Base<'r> {
    fn of(results: &'r Results) -> Self {
        Self { points: results.points().iter().filter(|summary| departures(results, summary).is_empty()).collect() }
    }

    fn at(&self, rtt: &str) -> Option<&'r PointSummary> {
        self.points.iter().find(|summary| rtt_of(summary) == rtt).copied()
    }
}

fn rtt_of(summary: &PointSummary) -> String {
    summary.point().value("rtt").map(|value| value.to_string()).unwrap_or_default()
}

/// What other than the round-trip time is not as in the plan's first values.
fn departures(results: &Results, summary: &PointSummary) -> Vec<(&'static str, String)> {
    let values = summary.point().values().iter().zip(results.plan().sweep());
    let departs = values.filter(|((name, value), (_, values))| *name != "rtt" && values.first() != Some(value));
    departs.map(|((name, value), _)| (*name, value.to_string())).collect()
}

/// The mean share of a class over the runs, in per cent.
fn mean_share(summary: &PointSummary, cause: RetransmissionCause) -> f64 {
    Quantity::Share.measured(summary, cause).map_or(0.0, |share: Estimate| share.mean)
}

/// The classes' shares, the paper's and ours.
fn shares(results: &Results) -> Figure {
    let mut chart = BarChart::new(
        "Causes of first retransmissions by round-trip time",
        &results.plan().conditions(),
        "mean share of first retransmissions",
        Unit::Share,
    );
    chart.series = CLASSES.iter().map(|cause| cause_name(*cause).to_owned()).collect();
    let base = Base::of(results);
    for (rtt, lines) in published::TABLE {
        let paper = lines.iter().filter_map(|line| line.share).enumerate();
        let mut bars = vec![
            paper.fold(Bar::default().label("paper"), |bar, (class, percent)| bar.stack(class, percent / 100.0, 0.0)),
        ];
        if let Some(summary) = base.at(rtt) {
            let ours = CLASSES.iter().map(|cause| mean_share(summary, *cause)).enumerate();
            let bar =
                ours.fold(Bar::default().label("ours"), |bar, (class, percent)| bar.stack(class, percent / 100.0, 0.0));
            // The interval of the lowest part, the timeouts.
            let timeouts = Quantity::Share.measured(summary, CLASSES[0]).and_then(|share| share.times(0.01).interval());
            bars.push(timeouts.map_or(bar.clone(), |[low, high]| bar.whisker(low, high)));
        }
        chart.group(&format!("RTT {rtt}"), bars);
    }
    chart.figure()
}

/// The share of one class over the round-trip time, a curve for each value of `swept` that departs from the base; `None` if there
/// is no such value.
fn sensitivity(results: &Results, cause: RetransmissionCause, swept: &[&str], share_axis: Axis) -> Option<Figure> {
    let mut series: Vec<PointSeries> = Vec::new();
    for summary in results.points() {
        let Some(share) = Quantity::Share.measured(summary, cause).map(|share| share.times(0.01)) else { continue };
        let name = match departures(results, summary).as_slice() {
            [] => "as compared".to_owned(),
            [(name, value)] if swept.contains(name) => format!("{name} {value}"),
            _ => continue,
        };
        let x = summary.point().duration("rtt").as_secs_f64() * 1e3;
        let point = PlotPoint { x, y: share.mean, whisker: share.interval().map(|[low, high]| (low, high)) };
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(PointSeries::new(&name, [point])),
        }
    }
    if series.len() < 2 {
        return None;
    }
    let title = format!("First retransmissions by {}: sensitivity to {}", cause_name(cause), swept.join(", "));
    let x = Axis::linear("round-trip time", 0.0, 420.0, Unit::Milliseconds);
    let runs = results.plan().repetitions();
    let subtitle = format!("unmodified lksctp; one parameter at a time; mean of {runs} runs");
    let mut figure = Figure::new(&title, &subtitle, x, share_axis);
    let paper = [0.0, 100.0, 200.0, 400.0].into_iter().zip(published::TABLE).filter_map(|(rtt_ms, (_, lines))| {
        let share = lines.iter().find(|line| line.cause == cause)?.share?;
        Some(PlotPoint { x: rtt_ms, y: share / 100.0, whisker: None })
    });
    series.push(PointSeries { is_joined: false, ..PointSeries::new("paper", paper) });
    figure.points = PointSeries::told_apart(series);
    Some(figure)
}
