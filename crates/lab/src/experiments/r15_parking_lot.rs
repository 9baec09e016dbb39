//! `r15-parking-lot`: messages of mixed importance through several bottlenecks in a row (R15, Paper VI §4.2.3).

use super::r12::{self};
use crate::experiment::{Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::summary::Results;

/// The delay of important messages behind one bottleneck and behind several.
#[derive(Clone, Copy, Debug)]
pub struct R15ParkingLot;

impl Experiment for R15ParkingLot {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/r15-parking-lot.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        r12::run(point, seed)
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        r12::BESIDE_DELAYS
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let chart = r12::chart(results, "Important messages through bottlenecks in a row", |summary| {
            let point = summary.point();
            let hops = point.count("hops");
            Some(format!("{}, {hops} in a row", point.choice("sender")))
        });
        chart.into_iter().collect()
    }
}
