//! `r12-fig7`: what NR-SACK does for messages of mixed importance (R12 §IV, Fig. 7).

use super::r12::{self, LATE_BINDING};
use crate::experiment::{Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::summary::Results;

/// The delay of important messages with and without NR-SACK.
#[derive(Clone, Copy, Debug)]
pub struct R12Fig7;

impl Experiment for R12Fig7 {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/r12-fig7.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        r12::run(point, seed)
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        r12::BESIDE_DELAYS
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let figure = |size: &str, load: &str| {
            let title = format!("Important messages beside TCP: mean size {size}, load {load}");
            r12::chart(results, &title, |summary| {
                let point = summary.point();
                let is = |name: &str, value: &str| point.value(name).is_some_and(|it| it.to_string() == value);
                (is("size", size) && is("load", load) && is(LATE_BINDING, "off"))
                    .then(|| point.choice("sender").to_owned())
            })
        };
        let mut figures = Vec::new();
        for size in r12::values(results, "size") {
            figures.extend(loads(results, &size).iter().filter_map(|load| figure(&size, load)));
        }
        figures
    }
}

/// The loads that there are with messages of a size.
fn loads(results: &Results, size: &str) -> Vec<String> {
    let loads = r12::values(results, "load");
    loads.into_iter().filter(|load| results.matching(&[("size", size), ("load", load)]).next().is_some()).collect()
}
