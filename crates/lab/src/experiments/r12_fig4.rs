//! `r12-fig4`: the inefficiency of FORWARD-TSN by load (R12 §III-C, Fig. 4).

use super::r12::{self, OF_2012};
use crate::experiment::{Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::summary::Results;

/// The delay of important messages by load and share.
#[derive(Clone, Copy, Debug)]
pub struct R12Fig4;

impl Experiment for R12Fig4 {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/r12-fig4.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        r12::run(point, seed)
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        r12::BESIDE_DELAYS
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let by_size = |size: &String| {
            let title = format!("Important messages beside TCP: mean size {size}");
            r12::chart(results, &title, |summary| {
                let point = summary.point();
                let is_shown = point.bytes("size").to_string() == *size && point.choice("sender") == OF_2012;
                is_shown.then(|| point.value("load").map_or_else(String::new, |load| format!("load {load}")))
            })
        };
        let by_sender = |load: &String| {
            let title = format!("Important messages beside TCP by sender: mean size 72 bytes, load {load}");
            r12::chart_by_sender(results, &title, |point| {
                point.bytes("size").bytes() == 72 && point.value("load").is_some_and(|value| value.to_string() == *load)
            })
        };
        let loads = r12::values(results, "load");
        let of_senders = loads.iter().filter_map(by_sender);
        r12::values(results, "size").iter().filter_map(by_size).chain(of_senders).collect()
    }
}
