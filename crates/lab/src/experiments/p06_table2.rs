//! `p06-table2`: why and when lksctp sends a lost message of a thin stream again (P06 §3, Table 2).

mod published;
mod shape;

use std::time::Duration;

use festina_sctp::RetransmissionCause;

use super::p06::{self, Quantity};
use crate::experiment::{Check, Comparison, Experiment};
use crate::figure::{Axis, Bar, BarChart, Curve, Figure, PlotPoint, PointSeries, Unit};
use crate::plan::{Kind, Parameter, Point};
use crate::samples::Samples;
use crate::scenario::cause_name;
use crate::summary::{PointSummary, Results};

/// The classes of the table.
const CLASSES: [RetransmissionCause; 4] = [
    RetransmissionCause::Timeout,
    RetransmissionCause::Fast,
    RetransmissionCause::ReportedBundled,
    RetransmissionCause::Bundled,
];

/// First retransmissions of unmodified lksctp by cause.
#[derive(Clone, Copy, Debug)]
pub struct P06Table2;

impl Experiment for P06Table2 {
    fn name(&self) -> &'static str {
        "p06-table2"
    }

    fn title(&self) -> &'static str {
        "Causes and delays of first retransmissions, unmodified lksctp"
    }

    fn reference(&self) -> &'static str {
        "Pedersen, Griwodz and Halvorsen 2006, Table 2 (section 3)"
    }

    fn about(&self) -> &'static str {
        "An application writes 100 bytes four times a second over lksctp of Linux 2.6.15, whose receiver delays SACKs by 200 ms. \
         Packets are lost at random. Of the first retransmission of each message the cause is noted, and the time since its \
         first transmission: a timeout; a fast retransmission; reported lost, but not often enough, when there was room beside \
         a timeout's retransmission; or put there uncalled for.\n\n\
         The paper tells neither the loss rate nor the duration nor which way packets are lost. Here 5% are lost each way for \
         half an hour, which gives about as many retransmissions as the table has and, as the ratio of its classes is not \
         free, fits its shares; the parameters loss and lost are swept as well, one at a time. That SACKs were lost follows from \
         the unsolicited bundling at a round-trip time of 0: the youngest message of four is unacknowledged when the timeout \
         comes only if it or its SACK was lost, and of 282 timeouts about a tenth had one; if data alone were lost it would be half as many.\n\n\
         Writes are 256 ms apart, not 250: the fast retransmissions in the table, triggered by the SACKs of the four messages \
         after the lost one, come 1024 ms and one round-trip time after the first transmission. (That kernel counted in \
         ticks of 4 ms and slept one tick longer than it was asked to.)\n\n\
         What the text says of lksctp was read in the light of the table, one reading at a time (see the parameter reading). \
         \"kernel\" is a timer that only the cumulative acknowledgement restarts, Karn's rule, a congestion window of a full \
         packet after a timeout, which does not hold small packets back, and averages of round-trip times in ticks of 4 ms. \
         The text says that the timer is restarted whenever some chunk is acknowledged, and that ambiguous round-trip times \
         are used; the table bears out neither. With the first there would be next to no timeouts; with the second, two to four \
         times as many fast retransmissions."
    }

    fn plan(&self) -> &'static str {
        include_str!("../../../../experiments/p06-table2.toml")
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = p06::parameters();
        let delays = Duration::ZERO..=Duration::from_millis(500);
        let about = "how long the receiver delays a SACK";
        parameters.push(Parameter { name: "sack_delay", about, kind: Kind::Duration(delays) });
        parameters
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        p06::run(point, p06::lksctp(point), point.duration("sack_delay"), seed)
    }

    fn comparisons(&self, results: &Results) -> Vec<Comparison> {
        let base = Base::of(results);
        let rows = published::TABLE.iter();
        rows.flat_map(|(rtt, lines)| {
            let ours = base.at(rtt);
            lines.iter().flat_map(move |line| line.compare(&format!("RTT {rtt}"), ours, published::why))
        })
        .collect()
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        shape::checks(&Base::of(results))
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let mut figures = vec![shares(results)];
        let by_loss = Axis::from_zero("share of timeouts", 1.0, Unit::Share);
        figures.extend(sensitivity(results, RetransmissionCause::Timeout, &["loss", "lost", "jitter"], by_loss));
        let by_reading = Axis::log("share of fast retransmissions", 0.005, 1.0, Unit::Share);
        figures.extend(sensitivity(results, RetransmissionCause::Fast, &["reading", "interval"], by_reading));
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

    /// A quantity of one class at each of the table's round-trip times; `None` unless all were run.
    fn over_rtts(&self, quantity: Quantity, cause: RetransmissionCause) -> Option<Vec<f64>> {
        published::TABLE.iter().map(|(rtt, _)| quantity.measured(self.at(rtt)?, cause)).collect()
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

/// The classes' shares, the paper's and ours.
fn shares(results: &Results) -> Figure {
    let mut chart = BarChart::new(
        "Causes of first retransmissions by round-trip time",
        &results.plan().conditions(),
        "share of first retransmissions",
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
            let ours = CLASSES.iter().map(|cause| Quantity::Share.measured(summary, *cause).unwrap_or_default());
            bars.push(
                ours.enumerate()
                    .fold(Bar::default().label("ours"), |bar, (class, percent)| bar.stack(class, percent / 100.0, 0.0)),
            );
        }
        chart.group(&format!("RTT {rtt}"), bars);
    }
    chart.figure()
}

/// The share of one class over the round-trip time, a curve for each value of `swept` that departs from the base; `None` if there
/// is no such value.
fn sensitivity(results: &Results, cause: RetransmissionCause, swept: &[&str], share_axis: Axis) -> Option<Figure> {
    let mut curves: Vec<Curve> = Vec::new();
    for summary in results.points() {
        let rtt_ms = summary.point().duration("rtt").as_secs_f64() * 1e3;
        let share = Quantity::Share.measured(summary, cause).unwrap_or_default() / 100.0;
        let name = match departures(results, summary).as_slice() {
            [] => "as compared".to_owned(),
            [(name, value)] if swept.contains(name) => format!("{name} {value}"),
            _ => continue,
        };
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push((rtt_ms, share)),
            None => curves.push(Curve { name, points: vec![(rtt_ms, share)] }),
        }
    }
    if curves.len() < 2 {
        return None;
    }
    let title = format!("First retransmissions by {}: sensitivity to {}", cause_name(cause), swept.join(", "));
    let x = Axis::linear("round-trip time", 0.0, 420.0, Unit::Milliseconds);
    let mut figure = Figure::new(&title, "unmodified lksctp; one parameter at a time", x, share_axis);
    figure.curves = curves;
    let paper = [0.0, 100.0, 200.0, 400.0].into_iter().zip(published::TABLE).filter_map(|(rtt_ms, (_, lines))| {
        let share = lines.iter().find(|line| line.cause == cause)?.share?;
        Some(PlotPoint { x: rtt_ms, y: share / 100.0, whisker: None })
    });
    figure.points.push(PointSeries { is_joined: false, ..PointSeries::new("paper", paper) });
    Some(figure)
}
