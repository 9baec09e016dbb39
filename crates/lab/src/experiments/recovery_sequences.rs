//! `recovery-sequences`: what each profile does about one lost message, packet by packet.

mod scene;

use crate::capture::Capture;
use crate::experiment::{Description, Experiment};
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

    /// Exactly the packets that the point names are lost.
    fn is_random(&self, _point: &Point) -> bool {
        false
    }

    /// One figure per point. Results have delays, not packets, so the first repetition is run once more; it takes milliseconds.
    fn figures(&self, results: &Results) -> Vec<Figure> {
        let seed = results.plan().repetition_seed(0);
        results.points().iter().filter_map(|summary| Scene::of(summary.point()).figure(seed)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Verdict;
    use crate::plan::{Plan, Scale};
    use crate::summary::PointSummary;

    fn results(scale: Scale) -> Results {
        let plan = Plan::own(&RecoverySequences, scale);
        let seed = plan.repetition_seed(0);
        let summary = |point: Point| {
            let samples = RecoverySequences.run(&point, seed);
            let mut summary = PointSummary::new(point);
            summary.add(&samples);
            summary
        };
        let points = plan.points().into_iter().map(summary).collect();
        Results::new(plan, points)
    }

    #[test]
    fn all_statements_hold_and_none_lacks_data() {
        for check in RecoverySequences.all_checks(&results(Scale::Full)) {
            assert!(matches!(check.verdict, Verdict::Holds(_)), "{check:?}");
        }
    }

    #[test]
    fn each_point_has_a_figure_that_can_be_drawn() {
        let results = results(Scale::Quick);
        let figures = RecoverySequences.figures(&results);
        assert_eq!(figures.len(), results.points().len());
        for figure in figures {
            let svg = figure.to_svg().expect("its axes are sound");
            assert!(svg.contains("sent, lost") && svg.contains("delivered, in order"), "{}", figure.title);
        }
    }
}
