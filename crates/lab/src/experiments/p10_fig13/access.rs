//! `p10-fig14`: the same game traffic from access networks, with and without the modifications (P10 §6.4, Fig. 14).

use super::setups::{self, Setup};
use super::{BURSTS, note, path};
use crate::experiment::{Description, Experiment};
use crate::figure::{DelayDistribution, Figure};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::{GameReplay, Readings};
use crate::summary::Results;

/// The machines of the figure.
const MACHINES: [Setup; 2] = [Setup::Modified, Setup::Lksctp];

/// Game traffic from three access networks.
#[derive(Clone, Copy, Debug)]
pub struct P10Fig14;

impl Experiment for P10Fig14 {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../../experiments/p10-fig14.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let readings = Readings::of(point);
        let replay = GameReplay {
            machines: MACHINES.iter().map(|setup| setup.config(&readings)).collect(),
            receiver: setups::receiver(point.duration("sack_delay")),
            players: u32::try_from(point.count("players")).unwrap_or(u32::MAX),
            duration: point.duration("duration"),
            is_bursty: point.choice("gaps") == BURSTS,
            path: path(point),
        };
        let mut samples = Samples::new();
        for (setup, run) in MACHINES.iter().zip(replay.run(seed)) {
            note(&mut samples, *setup, &run);
        }
        samples
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let mut tail = DelayDistribution::new(results.plan().title(), &results.plan().conditions());
        for point in results.points() {
            for setup in MACHINES {
                if let Some(arrival) = point.series().get(&setup.arrival()) {
                    let label = results.plan().label(point.point());
                    tail.curve(&format!("{}, {label}", setup.name()), arrival.all());
                }
            }
        }
        let mut tail = tail.figure();
        tail.y.label = "share of messages that arrive later".to_owned();
        vec![tail]
    }
}
