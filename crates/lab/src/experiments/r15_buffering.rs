//! `r15-buffering`: what queues that count packets and what the headers of chunks do to small messages (R15 §3.6).

use super::r12::{self, OF_2012};
use crate::experiment::{Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::summary::Results;

/// Small messages in front of queues that count bytes or packets.
#[derive(Clone, Copy, Debug)]
pub struct R15Buffering;

impl Experiment for R15Buffering {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/r15-buffering.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        r12::run(point, seed)
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        &[r12::FIRST_LOST, r12::OVERHEAD]
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let chart = r12::chart(results, "Important messages by the queue's measure", |summary| {
            let point = summary.point();
            let (size, nagle) = (point.bytes("size"), point.choice("nagle"));
            let is_shown = point.choice("sender") == OF_2012;
            is_shown.then(|| format!("{size}, {} queue, nagle {nagle}", point.choice("buffering")))
        });
        chart.into_iter().collect()
    }
}
