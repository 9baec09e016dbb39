//! `r12-fig3`: the inefficiency of FORWARD-TSN by message size (R12 §III-C, Fig. 3).

use super::r12::{self, OF_2012};
use crate::experiment::{Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::summary::Results;

/// The delay of important messages by message size and share.
#[derive(Clone, Copy, Debug)]
pub struct R12Fig3;

impl Experiment for R12Fig3 {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/r12-fig3.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        r12::run(point, seed)
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        r12::BESIDE_DELAYS
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let by_sizes = |sizes: &String| {
            let title = format!("Important messages beside TCP, sizes {sizes}");
            r12::chart(results, &title, |summary| {
                let point = summary.point();
                let is_shown = point.choice("sizes") == sizes && point.choice("sender") == OF_2012;
                is_shown.then(|| format!("mean size {}", point.bytes("size")))
            })
        };
        let senders = r12::chart_by_sender(results, "Important messages beside TCP by sender, 72 bytes", |point| {
            point.bytes("size").bytes() == 72 && point.choice("sizes") == "fixed"
        });
        r12::values(results, "sizes").iter().filter_map(by_sizes).chain(senders).collect()
    }
}
