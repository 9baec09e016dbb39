//! `bursts`: how late messages arrive when losses come in bursts, against the floor that the bursts themselves set.

use std::sync::Arc;

use festina_netsim::{GilbertElliott, LossModel, RandomStream};
use festina_units::{Duration, Instant, Probability};

use crate::experiment::{Description, Experiment};
use crate::figure::{DelayDistribution, Figure};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::Sender;
use crate::scenario::fate::{self, DELIVERY};
use crate::summary::Results;

/// The series of the least delays that the outages leave possible.
const FLOOR: &str = "floor";

/// Loss in bursts: a Gilbert-Elliott channel in time.
#[derive(Clone, Copy, Debug)]
pub struct Bursts;

impl Experiment for Bursts {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/bursts.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let mut stream = Sender::stream(point);
        let [forward, backward] = ["forward", "backward"].map(|way| outages(point, seed, way));
        stream.forward.loss = LossModel::Outages(Arc::clone(&forward));
        stream.backward.loss = LossModel::Outages(backward);
        let run = stream.run(seed);
        let mut samples = fate::samples(&run);
        for message in &run.record.truth().messages {
            samples.tally(FLOOR, good_from(&forward, message.due_at) + point.duration("rtt") / 2 - message.due_at);
        }
        samples
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let mut intervals: Vec<Duration> = results.points().iter().map(|point| point.point().duration("iat")).collect();
        intervals.dedup();
        intervals.sort_unstable();
        intervals.dedup();
        intervals.into_iter().map(|iat| figure(results, iat)).collect()
    }
}

/// When the link that goes `way` is bad.
fn outages(point: &Point, seed: u64, way: &str) -> Arc<[std::ops::Range<Instant>]> {
    let bad = point.probability("bad").as_fraction();
    let mean_bad = point.duration("iat") * u32::try_from(point.count("bad_mean")).unwrap_or(u32::MAX);
    let channel = GilbertElliott {
        mean_good: mean_bad.mul_f64(1.0 / bad - 1.0),
        mean_bad,
        loss_in_good: Probability::ZERO,
        loss_in_bad: Probability::ONE,
    };
    // Long enough for all repairs after the last message.
    let end = Instant::ZERO + point.duration("duration") + Duration::from_secs(1_000);
    channel.outages(end, &mut RandomStream::new(seed, &format!("{way} channel")))
}

/// The first moment from `from` on at which no outage is.
fn good_from(outages: &[std::ops::Range<Instant>], from: Instant) -> Instant {
    let next = outages.partition_point(|outage| outage.end <= from);
    outages.get(next).filter(|outage| outage.contains(&from)).map_or(from, |outage| outage.end)
}

/// The distribution of each sender's delays at one interval, and the floor.
fn figure(results: &Results, iat: Duration) -> Figure {
    let points: Vec<_> = results.points().iter().filter(|point| point.point().duration("iat") == iat).collect();
    let label =
        points.first().and_then(|point| point.point().value("iat")).map_or_else(String::new, |iat| iat.to_string());
    let plan = results.plan();
    let mut distribution = DelayDistribution::new(plan.title(), &format!("iat {label}, {}", plan.conditions()));
    let floor = points.first().and_then(|point| point.series().get(FLOOR));
    for (name, series) in floor
        .map(|floor| ("floor", floor))
        .into_iter()
        .chain(points.iter().filter_map(|point| Some((point.point().choice("sender"), point.series().get(DELIVERY)?))))
    {
        distribution.curve(name, series.all());
    }
    distribution.figure()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_waits_for_the_end_of_an_outage() {
        let ms = Instant::from_millis;
        let outages = [ms(10)..ms(20), ms(30)..ms(40)];
        for (from, good) in [(0, 0), (9, 9), (10, 20), (19, 20), (20, 20), (35, 40), (40, 40)] {
            assert_eq!(good_from(&outages, ms(from)), ms(good), "{from} ms");
        }
    }
}
