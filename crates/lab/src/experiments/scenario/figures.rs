//! What the probes of a plan show, a figure each.

use std::time::Duration;

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::record::Truth;
use festina_netsim::{LinkId, NodeId, Simulation};
use festina_units::Instant;

use super::course::{Course, received};
use super::flow::Group;
use super::key;
use super::keys::ALL;
use crate::count::as_f64;
use crate::experiment::Objection;
use crate::figure::{Axis, Curve, DelayDistribution, Figure, TimeSequence, Unit};
use crate::plan::{Plan, Point};
use crate::scenario::StreamRecord;
use crate::scenario::fate;
use crate::summary::Results;

const QUEUE: &str = "queue";
const CWND: &str = "cwnd";
const GOODPUT: &str = "goodput";
const DELAY: &str = "delay";
const SEQUENCE: &str = "sequence";
/// What can be plotted.
pub(super) const PLOTS: &[&str] = &[QUEUE, CWND, GOODPUT, DELAY, SEQUENCE];

/// Maximum number of curves in a figure.
const CURVES_MAX: usize = 6;
/// Maximum number of points with a figure over time.
const POINTS_MAX: usize = 4;
/// Maximum number of samples of a curve.
const SAMPLES_MAX: u32 = 100_000;

/// One probe at one point.
struct Probe {
    name: &'static str,
    plots: &'static str,
    of: &'static str,
    interval: Duration,
    from: Instant,
    until: Instant,
}

impl Probe {
    fn of(point: &Point, name: &'static str) -> Self {
        let key = |of: &str| key("probes", name, of);
        let ends_at = Instant::ZERO + point.duration("duration");
        let until = Instant::ZERO + point.duration(&key("until"));
        Self {
            name,
            plots: point.choice(&key("plots")),
            of: point.choice(&key("of")),
            interval: point.duration(&key("interval")),
            from: Instant::ZERO + point.duration(&key("from")),
            until: if until == Instant::ZERO { ends_at } else { until.min(ends_at) },
        }
    }

    /// Whether the flows of a group are in the figure.
    fn is_about(&self, group: &Group) -> bool {
        self.of == ALL || self.of == group.name
    }
}

/// What makes no sense about the probes of a point whose links and flows do.
pub(super) fn objection(point: &Point) -> Option<Objection> {
    let course = Course::of(point);
    let (links, groups) = (&course.layout.links, &course.layout.groups);
    for name in point.tables("probes") {
        let probe = Probe::of(point, name);
        let objection = |of: &str, problem: String| Some(Objection { parameter: key("probes", name, of), problem });
        let known: Vec<&str> = if probe.plots == QUEUE {
            links.iter().map(|(name, _)| *name).collect()
        } else {
            groups.iter().map(|(group, _)| group.name).collect()
        };
        if probe.of != ALL && !known.contains(&probe.of) {
            let known = known.join(", ");
            return objection("of", format!("there is no \"{}\" to plot; expected {ALL} or one of {known}", probe.of));
        }
        if probe.from >= probe.until {
            return objection("from", "the plot would end before it begins; expected an earlier time".to_owned());
        }
        let steps = (probe.until - probe.from).as_nanos() / probe.interval.as_nanos().max(1);
        if steps > SAMPLES_MAX.into() {
            let problem = format!("there would be {steps} samples; expected at most {SAMPLES_MAX}");
            return objection("interval", problem);
        }
        if probe.plots == DELAY && !groups.iter().any(|(group, _)| probe.is_about(group) && !group.is_greedy()) {
            return objection("of", "greedy flows have no delays; expected others".to_owned());
        }
    }
    None
}

/// A figure per probe, for those over time one for each of the first points.
pub(super) fn figures(results: &Results) -> Vec<Figure> {
    let plan = results.plan();
    let points: Vec<&Point> = results.points().iter().map(crate::summary::PointSummary::point).collect();
    let Some(first) = points.first() else { return Vec::new() };
    let mut figures = Vec::new();
    for name in first.tables("probes") {
        if Probe::of(first, name).plots == DELAY {
            figures.extend(delays(results, name));
            continue;
        }
        figures.extend(points.iter().take(POINTS_MAX).filter_map(|point| over_time(plan, point, name)));
    }
    figures
}

/// The distribution of the delays, a curve for each group and point.
fn delays(results: &Results, name: &'static str) -> Option<Figure> {
    let plan = results.plan();
    let mut distribution = DelayDistribution::new(plan.title(), &runs(plan));
    let curves = results.points().iter().flat_map(|summary| {
        let probe = Probe::of(summary.point(), name);
        let is_shown = move |series: &str| probe.of == ALL || probe.of == series;
        let series = summary.series().iter().filter(move |(series, _)| is_shown(series));
        series.map(move |(series, delays)| (summary.point(), series, delays))
    });
    let mut is_empty = true;
    for (point, series, delays) in curves.take(CURVES_MAX) {
        let swept = plan.swept().next().is_some();
        let name = if swept { format!("{series}, {}", short_label(plan, point)) } else { series.clone() };
        distribution.curve(&name, delays.all());
        is_empty = false;
    }
    (!is_empty).then(|| distribution.figure())
}

/// What tells a point from the others, without the tables' names.
fn short_label(plan: &Plan, point: &Point) -> String {
    let short = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let swept = plan.swept().filter_map(|name| Some(format!("{} {}", short(name), point.value(name)?)));
    swept.collect::<Vec<_>>().join(", ")
}

fn runs(plan: &Plan) -> String {
    let runs = if plan.repetitions() == 1 { "1 run".to_owned() } else { format!("{} runs", plan.repetitions()) };
    format!("{runs} of each point, {} scale, seed {}", plan.scale().name(), plan.seed())
}

/// What a probe shows of the first repetition of a point.
fn over_time(plan: &Plan, point: &Point, name: &'static str) -> Option<Figure> {
    let (course, probe) = (Course::of(point), Probe::of(point, name));
    let seed = plan.repetition_seed(0);
    let swept = if plan.swept().next().is_some() { format!("{}; ", short_label(plan, point)) } else { String::new() };
    let subtitle = format!("{swept}the first run, sampled every {}", festina_units::duration::display(probe.interval));
    let (label, curves) = match probe.plots {
        QUEUE => {
            let chosen = course.layout.links.iter().find(|(link, _)| probe.of == ALL || probe.of == *link);
            let (link, id) = *chosen?;
            (format!("packets that wait for {link}"), vec![queue(&course, &probe, seed, (link, id))])
        }
        CWND => ("congestion window in kB".to_owned(), cwnd(&course, &probe, seed)),
        GOODPUT => (format!("goodput in Mbit/s, {}", what_is_summed(&probe)), goodput(&course, &probe, seed)),
        _ => return sequence(plan, &course, &probe, seed),
    };
    let ends = [probe.from, probe.until].map(|at| (at - Instant::ZERO).as_secs_f64());
    let highest = curves.iter().flat_map(|curve| &curve.points).fold(0.0, |highest: f64, (_, y)| highest.max(*y));
    let x = Axis::linear("time in s", ends[0], ends[1], Unit::Number);
    let y = Axis::from_zero(&label, highest, Unit::Number);
    let title = format!("{}: {}", plan.title(), probe.name);
    let has_curve_names = false;
    Some(Figure { curves, has_curve_names, ..Figure::new(&title, &subtitle, x, y) })
}

fn what_is_summed(probe: &Probe) -> &'static str {
    if probe.of == ALL { "all flows of a kind together" } else { "each flow" }
}

/// Runs from sample to sample and gives each moment to `sample`.
fn step(
    simulation: &mut Simulation<Packet, Host>,
    probe: &Probe,
    mut sample: impl FnMut(f64, &Simulation<Packet, Host>),
) {
    let mut at = probe.from;
    while at <= probe.until {
        simulation.run_until(at);
        sample((at - Instant::ZERO).as_secs_f64(), simulation);
        at += probe.interval;
    }
}

fn queue(course: &Course, probe: &Probe, seed: u64, (name, link): (&str, LinkId)) -> Curve {
    let mut simulation = course.simulation(seed, |_| false);
    simulation.run_until(probe.from);
    let samples = simulation.probe_queue(link, probe.interval);
    simulation.run_until(probe.until);
    let samples = simulation.queue_samples(samples).iter();
    let points = samples.map(|sample| ((sample.at - Instant::ZERO).as_secs_f64(), as_f64(sample.packets)));
    Curve { name: name.to_owned(), points: points.collect() }
}

/// The flows that a probe shows one by one: the same number of each kind, as far as there are.
fn shown_flows<'c>(course: &'c Course, probe: &Probe) -> Vec<(String, [NodeId; 2])> {
    let groups: Vec<&'c (Group, Vec<[NodeId; 2]>)> =
        course.layout.groups.iter().filter(|(group, _)| probe.is_about(group)).collect();
    let each = (CURVES_MAX / groups.len().max(1)).max(1);
    let flows = groups.into_iter().flat_map(|(group, pairs)| {
        (1..).zip(pairs).take(each).map(move |(number, pair)| {
            (if pairs.len() == 1 { group.name.to_owned() } else { format!("{} {number}", group.name) }, *pair)
        })
    });
    flows.take(CURVES_MAX).collect()
}

fn cwnd(course: &Course, probe: &Probe, seed: u64) -> Vec<Curve> {
    let flows = shown_flows(course, probe);
    let mut curves: Vec<Curve> =
        flows.iter().map(|(name, _)| Curve { name: name.clone(), points: Vec::new() }).collect();
    let mut simulation = course.simulation(seed, |_| false);
    step(&mut simulation, probe, |at, simulation| {
        for (curve, (_, [from, _])) in curves.iter_mut().zip(&flows) {
            let cwnd_bytes = match simulation.node(*from) {
                Host::Sctp(host) => host.stats(0).map(|stats| stats.path.cwnd_bytes),
                Host::Tcp(host) => host.cwnd_bytes(0),
                Host::Udp(_) => None,
            };
            curve.points.extend(cwnd_bytes.map(|bytes| (at, as_f64(bytes) / 1e3)));
        }
    });
    curves.retain(|curve| !curve.points.is_empty());
    curves
}

/// Of all kinds of flows together each kind, of one kind each flow.
fn goodput(course: &Course, probe: &Probe, seed: u64) -> Vec<Curve> {
    let kinds: Vec<(String, Vec<[NodeId; 2]>)> = if probe.of == ALL {
        let groups = course.layout.groups.iter().take(CURVES_MAX);
        groups.map(|(group, pairs)| (group.name.to_owned(), pairs.clone())).collect()
    } else {
        shown_flows(course, probe).into_iter().map(|(name, pair)| (name, vec![pair])).collect()
    };
    let mut curves: Vec<Curve> =
        kinds.iter().map(|(name, _)| Curve { name: name.clone(), points: Vec::new() }).collect();
    let mut before: Vec<Option<u64>> = vec![None; kinds.len()];
    let mut simulation = course.simulation(seed, |_| false);
    let seconds = probe.interval.as_secs_f64();
    step(&mut simulation, probe, |at, simulation| {
        for ((curve, (_, pairs)), before) in curves.iter_mut().zip(&kinds).zip(&mut before) {
            let bytes: u64 = pairs.iter().map(|pair| received(simulation, *pair)).sum();
            if let Some(before) = before.replace(bytes) {
                // The mean over the interval stands in its middle.
                curve.points.push((at - seconds / 2.0, as_f64(bytes - before) * 8.0 / seconds / 1e6));
            }
        }
    });
    curves
}

/// The life of the messages of the first flow that the probe is about.
fn sequence(plan: &Plan, course: &Course, probe: &Probe, seed: u64) -> Option<Figure> {
    let (group, pairs) = course.layout.groups.iter().find(|(group, _)| probe.is_about(group))?;
    let &[from, to] = pairs.first()?;
    let mut simulation = course.simulation(seed, |other| other.name == group.name);
    // Packets sent at the end are to arrive.
    simulation.run_until(probe.until + Duration::from_secs(10));
    let records = StreamRecord::observe(simulation.node(from), simulation.node(to));
    let truth = records.first()?.truth();
    let title = format!("{}: {}", plan.title(), probe.name);
    let mut figure = TimeSequence::new(&title, &format!("the first flow of {}, the first run", group.name), "message");
    figure.count_from(Duration::ZERO, &format!("time since {} s", (probe.from - Instant::ZERO).as_secs_f64()));
    figure.lasts_until(probe.until - probe.from);
    draw(&mut figure, truth, probe);
    Some(figure.figure())
}

fn draw(figure: &mut TimeSequence, truth: &Truth, probe: &Probe) {
    let place = |at: Instant| (probe.from..=probe.until).contains(&at).then(|| at - probe.from);
    for message in &truth.messages {
        let number = u64::from(message.sequence);
        if let Some(at) = message.left_at.and_then(place) {
            figure.packet(at, number, fate::of_message(message));
        }
        if let Some(at) = message.delivered_at.and_then(place) {
            figure.delivered(at, number);
        }
    }
    for resent in &truth.retransmissions {
        if let Some(at) = place(resent.at) {
            figure.packet(at, resent.sequence.into(), fate::of_retransmission(resent));
        }
    }
}
