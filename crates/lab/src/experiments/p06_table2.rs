//! `p06-table2`: why and when lksctp sends a lost message of a thin stream again (P06 §3, Table 2).

mod published;
mod shape;

use std::time::Duration;

use festina_sctp::RetransmissionCause;

use super::p06::{self, Published, Quantity};
use crate::assumption::{Assumption, chosen, stated};
use crate::evidence::Estimate;
use crate::experiment::{Check, Description, Experiment};
use crate::figure::{Axis, Bar, BarChart, Figure, PlotPoint, PointSeries, Unit};
use crate::plan::{Kind, Parameter, Point};
use crate::samples::Samples;
use crate::scenario::{Fault, Group, Readings, Stack, cause_name};
use crate::scoreboard::Entry;
use crate::summary::{PointSummary, Repeated, Results};

/// The classes of the table.
const CLASSES: [RetransmissionCause; 4] = [
    RetransmissionCause::Timeout,
    RetransmissionCause::Fast,
    RetransmissionCause::ReportedBundled,
    RetransmissionCause::Bundled,
];

/// What carries the stream; all but the first are TCP.
const TRANSPORTS: &[&str] = &["lksctp", "new-reno", "sack", "fack"];

/// How long Linux's TCP delays an acknowledgement.
const TCP_ACK_DELAY: Duration = Duration::from_millis(40);

/// First retransmissions of unmodified lksctp by cause.
#[derive(Clone, Copy, Debug)]
pub struct P06Table2;

impl Experiment for P06Table2 {
    fn description(&self) -> Description {
        Description {
            name: "p06-table2",
            title: "Causes and delays of first retransmissions, unmodified lksctp",
            reference: "Pedersen, Griwodz and Halvorsen 2006, Table 2 (section 3)",
            about: "An application writes 100 bytes four times a second over lksctp of Linux 2.6.15, whose receiver delays SACKs by 200 ms. \
         Packets are lost at random. Of the first retransmission of each message the cause is noted, and the time since its \
         first transmission: a timeout; a fast retransmission; reported lost, but not often enough, when there was room beside \
         a timeout's retransmission; or put there uncalled for.\n\n\
         The paper tells neither the loss rate nor the duration nor which way packets are lost. Here 5% are lost each way for \
         half an hour, which gives about as many retransmissions as the table has and, as the ratio of its classes is not \
         free, fits its shares; the parameters loss and lost are swept as well, one at a time. That SACKs were lost follows from \
         the unsolicited bundling at a round-trip time of 0: the youngest message of four is unacknowledged when the timeout \
         comes only if it or its SACK was lost, and of 282 timeouts about a tenth had one; if data alone were lost it would be half as many.\n\n\
         Writes are 250 ms apart, as stated, although the fast retransmissions in the table come 1024 ms and one round-trip time after \
         the first transmission, which four intervals of 256 ms would give (interval). Sections 3.2 and 5 say that the first acknowledgement of a \
         chunk gives a round-trip time even if the chunk was resent. The sources of that kernel contradict this: in net/sctp/outqueue.c of Linux \
         2.6.15 to 2.6.17 a resent chunk gives none. So does the table: with such samples two to four times as many retransmissions would be fast \
         (rtt_samples). The text leaves open how lksctp was built otherwise: see the parameters timer_restart, after_timeout and clock.\n\n\
         Beside it the same stream runs over TCP: New Reno, which the paper compares in words, and with SACK and FACK. Linux's TCP also had \
         D-SACK and the Eifel algorithm, which this TCP has not.",
            plan: include_str!("../../../../experiments/p06-table2.toml"),
            question: "Why, and how late, does unmodified lksctp send a lost message of a thin stream again?",
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = p06::parameters();
        let kind = Kind::Choice(TRANSPORTS);
        parameters.push(Parameter { name: "transport", about: "what carries the stream", kind });
        let about = "whether the retransmission of a timeout takes other outstanding chunks along";
        parameters.push(Parameter { name: "bundling", about, kind: Kind::Choice(&["on", "off"]) });
        parameters
    }

    fn assumptions(&self) -> Vec<Assumption> {
        let mut assumptions = p06::assumptions();
        assumptions.push(stated("transport", "§3: lksctp and TCP New Reno; §3.2: SACK and FACK"));
        assumptions.push(stated("bundling", "§3.3: lksctp bundles the earliest outstanding chunks").of(&["on"]));
        assumptions.push(chosen("bundling", "shows its effect, which §3.3 and §3.4 describe"));
        assumptions.push(chosen("TCP delays acknowledgements by 40 ms", "Linux's least").beside_the_plan());
        assumptions
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

    fn checks(&self, results: &Results) -> Vec<Check> {
        shape::checks(&Base::of(results))
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
    /// The same over each TCP.
    tcp: Vec<(&'static str, Vec<&'r PointSummary>)>,
    /// The same without bundling.
    unbundled: Vec<&'r PointSummary>,
}

impl<'r> Base<'r> {
    fn of(results: &'r Results) -> Self {
        let with = |wanted: &[(&str, &str)]| {
            let is_so = |summary: &&PointSummary| {
                let departures = departures(results, summary);
                let departures: Vec<(&str, &str)> =
                    departures.iter().map(|(name, value)| (*name, value.as_str())).collect();
                departures == wanted
            };
            results.points().iter().filter(is_so).collect()
        };
        let tcp = TRANSPORTS.iter().skip(1).map(|name| (*name, with(&[("transport", name)]))).collect();
        Self { points: with(&[]), tcp, unbundled: with(&[("bundling", "off")]) }
    }

    fn at(&self, rtt: &str) -> Option<&'r PointSummary> {
        self.points.iter().find(|summary| rtt_of(summary) == rtt).copied()
    }

    /// The same without bundling into timeouts.
    fn unbundled_at(&self, rtt: &str) -> Option<&'r PointSummary> {
        self.unbundled.iter().find(|summary| rtt_of(summary) == rtt).copied()
    }

    /// The same with TCP New Reno.
    fn tcp_at(&self, rtt: &str) -> Option<&'r PointSummary> {
        self.transport_at("new-reno", rtt)
    }

    /// The same with any TCP.
    fn transport_at(&self, name: &str, rtt: &str) -> Option<&'r PointSummary> {
        let (_, points) = self.tcp.iter().find(|(known, _)| *known == name)?;
        points.iter().find(|summary| rtt_of(summary) == rtt).copied()
    }

    /// A quantity of one class at each of the table's round-trip times, in each repetition.
    fn over_rtts(&self, quantity: Quantity, cause: RetransmissionCause) -> Vec<(&'static str, Option<Repeated>)> {
        let rtts = published::TABLE.iter().map(|(rtt, _)| *rtt);
        rtts.map(|rtt| (rtt, self.at(rtt).and_then(|summary| quantity.each(summary, cause)))).collect()
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
