//! `p10-fig8a`: when a lost message is sent again over a path that loses packets at random (P10 §6.1, Fig. 8(a)).

use festina_units::Probability;

use super::p10_fig8::{Case, DELIVERY, stack};
use crate::capture::Capture;
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::{DelayDistribution, Figure};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::{Group, Ordinal, Retransmissions, ThinStream, note_waits, tally_retransmissions};
use crate::summary::{PointSummary, Results};

/// What the paper shows of its grid.
const SHOWN_CASE: [(&str, &str); 3] = [("rtt", "100ms"), ("loss", "5%"), ("interval", "250ms")];
/// What the text leaves open, as the plan has it first.
const OPEN: [(&str, &str); 3] = [("lost", "data"), ("sack_delay", "0s"), ("tcp_retransmission", "alone")];

/// The shown case with one open parameter read otherwise, or none.
fn shown(otherwise: Option<(&'static str, &'static str)>) -> Vec<(&'static str, &'static str)> {
    let open = OPEN.into_iter().map(|(name, value)| match otherwise {
        Some((other, otherwise)) if other == name => (name, otherwise),
        _ => (name, value),
    });
    SHOWN_CASE.into_iter().chain(open).collect()
}

/// Retransmission delays of each modification of lksctp under random loss.
#[derive(Clone, Copy, Debug)]
pub struct P10Fig8a;

impl Experiment for P10Fig8a {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/p10-fig8a.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let run = stream(point).run(seed);
        let mut samples = Samples::new();
        tally_retransmissions(run.record.truth(), &mut samples);
        note_waits(run.record.truth(), &mut samples);
        for delay in run.record.truth().messages.iter().filter_map(|message| message.delay()) {
            samples.tally(DELIVERY, delay);
        }
        samples
    }

    fn capture(&self, point: &Point, seed: u64) -> Option<Capture> {
        Some(stream(point).capture(seed))
    }

    /// The paper has no number in words.
    fn checks(&self, results: &Results) -> Vec<Check> {
        vec![trend_check(results).id("trends")]
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let case = Case::new(results, &shown(None));
        let conditions = results.plan().conditions();
        let mut delivery = DelayDistribution::new("Delivery delay of all messages", &conditions);
        for group in Group::ALL {
            let summary = case.summary(group).and_then(|summary| summary.series().get(DELIVERY));
            if let Some(series) = summary {
                delivery.curve(group.title(), series.all());
            }
        }
        let title = "When a message is sent again: RTT 100 ms, 5% loss, a message every 250 ms";
        vec![case.bars(title, &conditions), delivery.figure()]
    }
}

fn stream(point: &Point) -> ThinStream {
    let loss = point.probability("loss");
    let backward = if point.choice("lost") == "data" { Probability::ZERO } else { loss };
    let [interval, duration, rtt] = ["interval", "duration", "rtt"].map(|name| point.duration(name));
    ThinStream::periodic(stack(point), interval, point.bytes("size"), duration, rtt).with_loss(loss, backward)
}

/// Whether a stream has so few packets in flight that the modifications act: at most pttfr + 1 = 4 (§5.1).
fn is_thin(point: &Point) -> bool {
    point.duration("rtt") < 4 * point.duration("interval")
}

/// "The different tests all show the same trends."
fn trend_check(results: &Results) -> Check {
    let statement = "At every round-trip time, loss rate and interval at which the stream is thin, the mean 1st retransmission is earlier \
                     with all modifications than with lksctp.";
    let mut evidence = Evidence::new();
    let open = |group: Group| [OPEN.as_slice(), &[("group", group.name())]].concat();
    for plain in results.matching(&open(Group::Lksctp)).filter(|summary| is_thin(summary.point())) {
        let others = |summary: &PointSummary| -> Vec<_> {
            summary.point().values().iter().copied().filter(|(name, _)| *name != "group").collect()
        };
        let twin = results.matching(&open(Group::AllMods)).find(|all| others(all) == others(plain));
        let mean = |summary| Some(Retransmissions::of(summary).delays(Ordinal::First)?.mean_s());
        let ratio = twin.and_then(|all| Estimate::ratio(mean(all)?, mean(plain)?));
        evidence.cell(format!("ratio at {}:", results.plan().label(plain.point())), ratio, Bound::LessThan(1.0));
    }
    evidence.check(statement)
}
