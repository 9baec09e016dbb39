//! `p10-fig8b`: when a lost message is sent again over a congested bottleneck (P10 §6.2, Fig. 8(b)).

use super::p10_congested::{loss_entry, run};
use super::p10_fig8::Case;
use crate::experiment::{Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
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
        definition::of(include_str!("../../../../experiments/p10-fig8b.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        run(point, seed)
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        vec![loss_entry(results)]
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let title = "When a message is sent again beside web traffic: RTT 100 ms, a message every 250 ms";
        vec![Case::new(results, &ALL_POINTS).bars(title, &results.plan().conditions())]
    }
}
