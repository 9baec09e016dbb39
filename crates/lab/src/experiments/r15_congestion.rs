//! `r15-congestion`: many short flows whose packets the queue of a busy bottleneck drops.

mod crowd;

use super::r15::{self, Cases, Cost, Family};
use crate::count::as_f64;
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::{DelayDistribution, Figure};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::summary::{Repeated, Results};
use crowd::{Background, Crowd};

/// From the write to the complete delivery, of every flow.
const ALL: &str = "completion";
/// The same of the flows whose last packet was lost.
const TAIL_LOST: &str = "completion after tail loss";
const FLOWS: &str = "flows";
const UNDELIVERED: &str = "undelivered";
const OFFERED: &str = "offered packets";
const DROPPED: &str = "dropped packets";

/// How many more packets a mechanism may send than the standard: RFC 7765 §5.2 cites R15 with no significant increase of
/// the load.
const MORE_PACKETS_MAX: f64 = 0.02;

/// Fewer delays of all runs together are no mean; how sure a mean of more is, its interval tells.
const DELAYS_MIN: u64 = 40;
/// The same of flows, for counts of packets.
const FLOWS_MIN: f64 = 2_000.0;

/// Tail loss by congestion.
#[derive(Clone, Copy, Debug)]
pub struct R15Congestion;

impl Experiment for R15Congestion {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/r15-congestion.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let crowd = Crowd {
            stack: r15::stack(point, point.duration("delayed_ack")),
            background: Background::of(point.choice("background")),
            rtt: point.duration("rtt"),
            rate: point.bandwidth("rate"),
            queue_packets: usize::try_from(point.count("queue")).unwrap_or(usize::MAX),
            interval: point.duration("interval"),
            duration: point.duration("duration"),
        };
        let run = crowd.run(seed);
        let mut samples = Samples::new();
        let (mut cost, mut undelivered) = (Cost::default(), 0);
        for record in &run.records {
            let truth = record.truth();
            cost.add(truth);
            let delays = truth.messages.iter().map(|message| Some(message.delivered_at? - message.due_at));
            let Some(completion) = delays.collect::<Option<Vec<_>>>().and_then(|delays| delays.into_iter().max())
            else {
                undelivered += 1;
                continue;
            };
            samples.tally(ALL, completion);
            if truth.messages.last().is_some_and(|last| last.delivered_by != Some(0)) {
                samples.tally(TAIL_LOST, completion);
            }
        }
        cost.set(&mut samples);
        samples.set(FLOWS, as_f64(u64::try_from(run.records.len()).unwrap_or(u64::MAX)));
        samples.set(UNDELIVERED, as_f64(undelivered));
        samples.set(OFFERED, as_f64(run.offered_packets));
        samples.set(DROPPED, as_f64(run.dropped_packets));
        samples
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let mut checks = Vec::new();
        let delays = Cases::of(results, TAIL_LOST, DELAYS_MIN);
        checks.push(delays.dependence_check(&Family::TCP));
        checks.push(delays.standard_check(&Family::SCTP, "festina"));
        for family in &Family::ALL {
            checks.extend(delays.standard_checks(family));
            checks.extend(family.restarted_probes().map(|tlpr| delays.best_check(family, tlpr)));
            checks.push(load_check(results, family));
        }
        checks.push(spurious_check(results));
        checks
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let conditions = results.plan().conditions();
        let mut figures = Vec::new();
        for family in &Family::ALL {
            for series in [TAIL_LOST, ALL] {
                let title = format!("{}: mean {series}", family.name);
                let label = |case: &r15::Case<'_>| case.label().to_owned();
                let delays = Cases::of(results, series, 1);
                figures.extend(r15::chart(&title, &conditions, series, &delays, family, label));
            }
            for background in Background::NAMES {
                let title = format!("{}: completion after tail loss beside {background} traffic", family.name);
                let mut distribution = DelayDistribution::new(&title, &conditions);
                let settings = [("background", *background)];
                let points = results.matching(&settings);
                for point in points.filter(|point| family.has(point.point().choice("sender"))) {
                    if let Some(series) = point.series().get(TAIL_LOST) {
                        distribution.curve(point.point().choice("sender"), series.all());
                    }
                }
                let mut figure = distribution.figure();
                figure.x.label = "from the write to the complete delivery".to_owned();
                figure.y.label = "share of flows that take longer".to_owned();
                figures.extend(Some(figure).filter(|figure| !figure.curves.is_empty()));
            }
        }
        figures
    }
}

/// A number of a sender, over all cases together.
fn sum(results: &Results, sender: &str, name: &str) -> Option<Repeated> {
    let points = results.points().iter().filter(|point| point.point().choice("sender") == sender);
    let each = points.filter_map(|point| point.values().get(name).cloned());
    each.reduce(|sum, next| sum.zip_with(&next, |one, other| one + other))
}

/// "Spurious retransmissions are more likely to take place" (§7).
fn spurious_check(results: &Results) -> Check {
    let per_packet = |sender: &str| {
        let pair = sum(results, sender, r15::SPURIOUS).zip(sum(results, sender, r15::PACKETS));
        pair.map(|(spurious, packets)| spurious.zip_with(&packets, |spurious, packets| spurious / packets * 1e3))
    };
    let mut evidence = Evidence::new();
    for sender in [Family::TCP.rtor, Family::TCP.tlp, Family::TCP.tlpr] {
        let pair = per_packet(sender).zip(per_packet(Family::TCP.standard));
        let more = pair.and_then(|(ours, standard)| Estimate::difference(&ours, 1.0, &standard));
        evidence.cell(format!("in 1,000 packets more with {sender}:"), more, Bound::MoreThan(0.0));
    }
    evidence.check("Each mechanism makes more retransmissions spurious than standard TCP.").id("more-spurious")
}

/// What the mechanisms cost the network.
fn load_check(results: &Results, family: &Family) -> Check {
    let statement = format!(
        "{}: no mechanism of R15 sends more than {:.0}% more data packets than {}.",
        family.name,
        MORE_PACKETS_MAX * 100.0,
        family.standard
    );
    let per_flow = |sender: &str| {
        let flows = sum(results, sender, FLOWS).filter(|flows| flows.sum() >= FLOWS_MIN)?;
        Some(sum(results, sender, r15::PACKETS)?.zip_with(&flows, |packets, flows| packets / flows))
    };
    let mut evidence = Evidence::new();
    for sender in family.mechanisms() {
        let ratio = per_flow(sender).zip(per_flow(family.standard));
        let ratio = ratio.and_then(|(ours, standard)| Estimate::ratio(&ours, &standard));
        evidence.cell(format!("{sender}, ratio"), ratio, Bound::LessThan(1.0 + MORE_PACKETS_MAX));
    }
    evidence.check(statement)
}
