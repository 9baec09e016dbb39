//! `r15-web`: pages of several objects over several connections, with losses that come in bursts.

mod page;

use std::sync::Arc;

use festina_netsim::{GilbertElliott, LinkConfig, LossModel, QueueLimit, RandomStream};
use festina_units::{Duration, Instant, Probability};

use super::r15::{self, Cases, Cost, Family};
use crate::count::as_f64;
use crate::experiment::{Check, Description, Experiment};
use crate::figure::{DelayDistribution, Figure};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::summary::{PointSummary, Results};
use page::Page;

/// From the request of the first object to the delivery of the last.
const LOAD: &str = "page load";
const PAGES: &str = "pages";
const LOADED: &str = "loaded pages";
/// A mean of fewer pages tells nothing: only some of them meet a tail loss.
const PAGES_MIN: u64 = 100;
/// Room for all packets that a connection may send at once.
const QUEUE_PACKETS: usize = 1_000;
/// Outages are drawn for this long: longer than any page takes.
const OUTAGES_FOR: Duration = Duration::from_secs(300);

/// Page downloads.
#[derive(Clone, Copy, Debug)]
pub struct R15Web;

impl Experiment for R15Web {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/r15-web.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let stack = r15::stack(point, point.duration("delayed_ack"));
        let mut samples = Samples::new();
        let mut cost = Cost::default();
        let mut loaded = 0;
        let mut seeds = RandomStream::new(seed, "pages");
        for _ in 0..point.count("pages") {
            let seed = seeds.bits();
            let [forward, backward] = ["forward", "backward"].map(|way| link(point, seed, way));
            let page = Page {
                stack: stack.clone(),
                objects_bytes: page::object_sizes(seed, point.count("objects")),
                connections: usize::try_from(point.count("connections")).unwrap_or(usize::MAX),
                rtt: point.duration("rtt"),
                forward,
                backward,
            };
            if let Some(load) = page.load(seed, &mut cost) {
                samples.tally(LOAD, load);
                loaded += 1;
            }
        }
        cost.set(&mut samples);
        samples.set(PAGES, as_f64(point.count("pages")));
        samples.set(LOADED, as_f64(loaded));
        samples
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let mut checks = Vec::new();
        let loads = Cases::of(results, LOAD, PAGES_MIN);
        checks.push(loads.standard_check(&Family::SCTP, "festina"));
        for family in &Family::ALL {
            checks.extend(loads.standard_checks(family));
            checks.extend(family.restarted_probes().map(|tlpr| loads.best_check(family, tlpr)));
        }
        checks
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let conditions = results.plan().conditions();
        let mut figures = Vec::new();
        for family in &Family::ALL {
            let title = format!("{}: mean page load time", family.name);
            let label = |case: &r15::Case<'_>| case.label().to_owned();
            figures.extend(r15::chart(
                &title,
                &conditions,
                "page load time",
                &Cases::of(results, LOAD, 1),
                family,
                label,
            ));
            let Some(first) = results.points().first() else { continue };
            let title = format!("{}: page load time, {}", family.name, conditions_of(first));
            let mut distribution = DelayDistribution::new(&title, &conditions);
            let points = results.points().iter().filter(|point| conditions_of(point) == conditions_of(first));
            for point in points.filter(|point| family.has(point.point().choice("sender"))) {
                if let Some(series) = point.series().get(LOAD) {
                    distribution.curve(point.point().choice("sender"), series.all());
                }
            }
            let mut figure = distribution.figure();
            figure.x.label = "page load time".to_owned();
            figure.y.label = "share of pages that take longer".to_owned();
            figures.extend(Some(figure).filter(|figure| !figure.curves.is_empty()));
        }
        figures
    }
}

/// All but the sender of what the plan may sweep.
fn conditions_of(point: &PointSummary) -> String {
    let words =
        ["rtt", "bad", "bad_mean"].iter().filter_map(|name| Some(format!("{name} {}", point.point().value(name)?)));
    words.collect::<Vec<_>>().join(", ")
}

/// A connection's way to or from the client.
fn link(point: &Point, seed: u64, way: &str) -> LinkConfig {
    let mean_bad = point.duration("bad_mean");
    let channel = GilbertElliott {
        mean_good: mean_bad.mul_f64(1.0 / point.probability("bad").as_fraction() - 1.0),
        mean_bad,
        loss_in_good: Probability::ZERO,
        loss_in_bad: Probability::ONE,
    };
    let outages = channel.outages(Instant::ZERO + OUTAGES_FOR, &mut RandomStream::new(seed, &format!("{way} channel")));
    LinkConfig {
        rate: Some(point.bandwidth("rate")),
        delay: point.duration("rtt") / 2,
        queue: QueueLimit::packets(QUEUE_PACKETS),
        loss: LossModel::Outages(Arc::clone(&outages)),
        ..LinkConfig::default()
    }
}
