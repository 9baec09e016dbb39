//! `r15-web`: pages of several objects over several connections, with losses that come in bursts.

mod page;

use std::sync::Arc;

use festina_netsim::{GilbertElliott, LinkConfig, LossModel, QueueLimit, RandomStream};
use festina_units::{Bandwidth, Duration, Instant, Probability};

use super::r15::{self, Cases, Cost, Family};
use crate::assumption::Assumption;
use crate::count::as_f64;
use crate::experiment::{Check, Description, Experiment};
use crate::figure::{DelayDistribution, Figure};
use crate::plan::{Kind, Parameter, Point};
use crate::samples::Samples;
use crate::scenario::Fault;
use crate::scenario::fate::total;
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
        Description {
            name: "r15-web",
            title: "Page load time under correlated loss, by mechanism",
            reference: "Rajiullah et al. 2015, web pages with correlated artificial loss (Paper III of the thesis, §3.3)",
            about: "A client loads a page of several objects over several persistent connections, opened beforehand. The first \
         object comes alone; when it has arrived, the client asks for the others, on each connection for one after the other. A \
         request takes half a round-trip time and is never lost. The page load time runs from the first request to the \
         delivery of the last object.\n\n\
         Losses are correlated: while the path is bad, all its packets are lost, either way; each way is bad for exponentially \
         distributed periods of its own, the same for all connections of a page and for every sender. Each connection has its share \
         of the rate to itself, so that connections do not disturb each other otherwise.\n\n\
         R15 used real pages, and its text states neither which nor the parameters of the loss. Sizes here are those of the \
         web traffic of Petlund et al. 2010 §6.2 (Pareto from 1,000 bytes on, median 1,927), cut off at 100 kB; 25 objects, 6 \
         connections (what browsers open to one server) and all else are our choice. The senders are those of r15-tail-loss.",
            plan: include_str!("../../../../experiments/r15-web.toml"),
            question: "How fast do web pages load under correlated loss with each mechanism?",
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let parameter = |name, about, kind| Parameter { name, about, kind };
        let ms = Duration::from_millis;
        let shares = Probability::from_ppb(1)..=Probability::from_percent(50);
        let rates = Bandwidth::from_bits_per_second(10_000)..=Bandwidth::from_bits_per_second(1_000_000_000);
        vec![
            parameter("sender", "TCP with a mechanism, or a profile of SCTP", Kind::Choice(r15::sender_names())),
            parameter("rtt", "the round-trip time", Kind::Duration(ms(1)..=ms(2_000))),
            parameter("bad", "for which share of the time each way is bad", Kind::Probability(shares)),
            parameter("bad_mean", "the mean length of a bad period", Kind::Duration(ms(1)..=ms(10_000))),
            parameter("rate", "the rate of each connection", Kind::Bandwidth(rates)),
            parameter("objects", "how many objects a page has", Kind::Count(1..=1_000)),
            parameter("connections", "over how many connections", Kind::Count(1..=100)),
            parameter("pages", "how many pages are loaded", Kind::Count(1..=100_000)),
            parameter("delayed_ack", "how long the receiver delays", Kind::Duration(Duration::ZERO..=ms(500))),
            Fault::parameter(),
        ]
    }

    fn assumptions(&self) -> Vec<Assumption> {
        r15::assumptions(&self.parameters())
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
        let missing: f64 = results.points().iter().map(|point| total(point, PAGES) - total(point, LOADED)).sum();
        let mut checks = vec![Check::new("Every page is loaded.", missing == 0.0, format!("{missing} are not"))];
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
