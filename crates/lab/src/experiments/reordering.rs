//! `reordering`: what recovery costs where nothing is lost but order and regularity, and what tolerance of it costs.

use festina_netsim::{Jitter, JitterShape, LossModel, Reordering as Overtaking};

use crate::experiment::{Description, Experiment};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::Sender;
use crate::scenario::fate;

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
}
