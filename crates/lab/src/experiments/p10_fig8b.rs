//! `p10-fig8b`: when a lost message is sent again over a congested bottleneck (P10 §6.2, Fig. 8(b)).

use super::p10_congested::{assumptions, loss_entry, p10_network, parameters, run};
use super::p10_fig8::{Case, modification_checks, relative_checks};
use crate::assumption::Assumption;
use crate::experiment::{Check, Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Parameter, Point};
use crate::samples::Samples;
use crate::scoreboard::Entry;
use crate::summary::Results;

/// No setting leaves a point out.
const ALL_POINTS: [(&str, &str); 0] = [];

/// Retransmission delays of each modification of lksctp beside web traffic.
#[derive(Clone, Copy, Debug)]
pub struct P10Fig8b;

impl Experiment for P10Fig8b {
    fn description(&self) -> Description {
        Description {
            name: "p10-fig8b",
            title: "Delay of the 1st, 2nd and 3rd retransmission beside web traffic",
            reference: "Petlund et al. 2010, Fig. 8(b) (section 6.2)",
            about: concat!(
                "As p10-fig8a at a round-trip time of 100 ms and four messages a second, but packets get lost because web traffic \
             fills the queue in front of a bottleneck. The paper calls the results very similar to those with random loss: each \
             modification alone improves upon lksctp, and the more so the later the retransmission.\n\n",
                p10_network!(),
            ),
            plan: include_str!("../../../../experiments/p10-fig8b.toml"),
            question: "How much earlier does each modification of lksctp send a lost message again beside web traffic?",
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        parameters()
    }

    fn assumptions(&self) -> Vec<Assumption> {
        assumptions()
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        run(point, seed)
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        vec![loss_entry(results)]
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let case = Case::new(results, &ALL_POINTS);
        let mut checks = modification_checks(&case);
        checks.extend(relative_checks(&case));
        checks
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let title = "When a message is sent again beside web traffic: RTT 100 ms, a message every 250 ms";
        vec![Case::new(results, &ALL_POINTS).bars(title, &results.plan().conditions())]
    }
}
