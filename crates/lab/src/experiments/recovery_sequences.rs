//! `recovery-sequences`: what each profile does about one lost message, packet by packet.

mod checks;
mod scene;

use crate::capture::Capture;
use crate::experiment::{Check, Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::{Captured, fate};
use crate::summary::Results;
use scene::Scene;

/// One scripted loss per point, and a time-sequence figure of it.
#[derive(Clone, Copy, Debug)]
pub struct RecoverySequences;

impl Experiment for RecoverySequences {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/recovery-sequences.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        fate::samples(&Scene::of(point).stream(seed).run(seed))
    }

    fn capture(&self, point: &Point, seed: u64) -> Option<Capture> {
        Some(Scene::of(point).stream(seed).capture(seed))
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        checks::checks(results)
    }

    /// One figure per point. Results have delays, not packets, so the first repetition is run once more; it takes milliseconds.
    fn figures(&self, results: &Results) -> Vec<Figure> {
        let seed = results.plan().repetition_seed(0);
        results.points().iter().filter_map(|summary| Scene::of(summary.point()).figure(seed)).collect()
    }
}
