//! `scenario`: any links and flows that a plan describes, without an experiment of its own.

mod course;
mod figures;
mod flow;
mod idle;
mod keys;
mod network;

use festina_units::ByteCount;

use crate::capture::Capture;
use crate::experiment::{Check, Description, Experiment, Objection};
use crate::figure::Figure;
use crate::plan::{Point, Table, definition};
use crate::samples::Samples;
use crate::summary::Results;
use course::Course;
use network::Layout;

/// A network and its flows, by plan alone.
#[derive(Clone, Copy, Debug)]
pub struct Scenario;

impl Experiment for Scenario {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/scenario.toml")).description
    }

    fn tables(&self) -> Vec<Table> {
        keys::tables()
    }

    fn objection(&self, point: &Point) -> Option<Objection> {
        if point.duration("warm_up") >= point.duration("duration") {
            let problem = "nothing would count; expected less than the duration".to_owned();
            return Some(Objection { parameter: "warm_up".to_owned(), problem });
        }
        Layout::of(point).err().or_else(|| figures::objection(point))
    }

    fn idle(&self, point: &Point) -> Vec<Objection> {
        idle::objections(point)
    }

    fn memory(&self, point: &Point) -> ByteCount {
        Layout::of(point).map_or(ByteCount::ZERO, |layout| layout.memory())
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        Course::of(point).measure(seed)
    }

    fn capture(&self, point: &Point, seed: u64) -> Option<Capture> {
        Some(Course::of(point).capture(seed))
    }

    fn checks(&self, _results: &Results) -> Vec<Check> {
        Vec::new()
    }

    fn lists_values(&self) -> bool {
        true
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        figures::figures(results)
    }
}

/// The key of a table at a point, under its whole name.
fn key(kind: &str, table: &str, name: &str) -> String {
    format!("{kind}.{table}.{name}")
}

#[cfg(test)]
mod tests;
