//! `reordering`: what recovery costs where nothing is lost but order and regularity, and what tolerance of it costs.

use festina_netsim::{Jitter, JitterShape, LossModel, Reordering as Overtaking};

use crate::experiment::{Check, Description, Experiment};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::Sender;
use crate::scenario::fate::{self, avoidable_share};
use crate::summary::Results;

/// The largest share of `festina`'s packets that may be avoidable spurious retransmissions: in order, with up to 1 % of
/// the packets reordered, and with jitter.
const AVOIDABLE_MAX: [f64; 3] = [0.01, 0.04, 0.05];

/// Reordering and jitter.
#[derive(Clone, Copy, Debug)]
pub struct Reordering;

impl Experiment for Reordering {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/reordering.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let mut stream = Sender::stream(point);
        for link in [&mut stream.forward, &mut stream.backward] {
            link.loss = LossModel::Independent(point.probability("loss"));
            link.reordering =
                Overtaking { probability: point.probability("reordered"), hold_back: point.duration("held_back") };
            let std_dev = point.duration("jitter").mul_f64(std::f64::consts::FRAC_1_SQRT_2);
            if !std_dev.is_zero() {
                link.jitter = Jitter { shape: JitterShape::Normal { std_dev }, keeps_order: false };
            }
        }
        fate::samples(&stream.run(seed))
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let [ordered, reordered, jittery] = AVOIDABLE_MAX;
        vec![
            fate::delivered_check(results),
            avoidable_check(results, "in order and without jitter", ordered, |share, jitter| share == 0.0 && !jitter),
            avoidable_check(results, "with up to 1% reordered", reordered, |share, jitter| {
                share > 0.0 && share <= 0.01 && !jitter
            }),
            avoidable_check(results, "with jitter", jittery, |share, jitter| share == 0.0 && jitter),
        ]
    }
}

/// Whether `festina` keeps to its limit at the points that `applies` picks by their share of reordered packets and by
/// whether there is jitter.
fn avoidable_check(results: &Results, when: &str, limit: f64, applies: impl Fn(f64, bool) -> bool) -> Check {
    let percent = limit * 100.0;
    let statement =
        format!("festina {when}: avoidable spurious retransmissions are at most {percent:.0}% of its packets.");
    let picked = results.points().iter().filter(|summary| {
        let point = summary.point();
        let reordered = point.probability("reordered").as_fraction();
        point.choice("sender") == "festina" && applies(reordered, !point.duration("jitter").is_zero())
    });
    let worst = picked
        .map(|summary| (avoidable_share(summary), results.plan().label(summary.point())))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match worst {
        None => Check::skipped(statement, "festina at such a point"),
        Some((share, at)) => Check::new(statement, share <= limit, format!("at most {:.2}%, at {at}", share * 100.0)),
    }
}
