//! `p10-fig1`: delays and losses of each stream of a game server, from a capture of known truth (P10 Fig. 1).

mod six_losses;
mod streams;

use festina_models::tcp::TcpConfig;
use festina_models::workload::{Application, Workload};
use festina_netsim::{Duplex, GilbertElliott, LinkConfig, LossModel, RandomStream};
use festina_units::{Duration, Instant, Probability};

use crate::count::as_f64;
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::{Axis, Curve, Figure, PlotPoint, PointSeries, Unit};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::CaptureFlaw;
use crate::scenario::server::{Carrier, Packets, ServedFlow, Server};
use crate::scoreboard::Entry;
use crate::summary::{PointSummary, Results};
use streams::{Fate, fates};

/// P10's line: players of such games notice.
const NOTICED: Duration = Duration::from_millis(500);
/// "Slightly below 1%" (P06 §2).
const STATED_LOSS: &str = "0.9%";
/// Connections open within this time, and games begin after it.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);
const STARTS_AT: Instant = Instant::from_secs(30);
/// No path loses more.
const LOSS_PPB_MAX: u64 = 300_000_000;
/// Number of parts into which the streams are divided by rank for the figure.
const PARTS: usize = 10;

const LONGEST_RIGHT: &str = "longest delay right";
const REST_RIGHT: &str = "mean and 99% right";
const COPIES_RIGHT: &str = "copies of the longest right";
const LOSS_REPORTED: &str = "loss reported";
const LOSS_TRUE: &str = "loss";
const LOSS_AND_SPURIOUS: &str = "loss and spurious retransmissions";
const ABOVE: &str = "streams above 500 ms";
const ABOVE_LITTLE_LOSS: &str = "streams above 500 ms of those with less than the median loss";
const LONGEST_S: &str = "longest delay in s";
const MOST_COPIES: &str = "copies of the longest delay";

/// Numbers that are drawn for each part of the streams, worst first.
const DRAWN: [&str; 5] = ["longest", "99%", "mean", "loss reported", "loss"];

/// Fig. 1 of the paper, from captures whose truth is known.
#[derive(Clone, Copy, Debug)]
pub struct P10Fig1;

impl Experiment for P10Fig1 {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/p10-fig1.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let run = server(point, seed).run(seed);
        let fault = point.choice("fault");
        let at_server = match (fault, CaptureFlaw::named(fault)) {
            (ONE_WAY, _) => of_server(run.at_server),
            (_, Some(flaw)) => flaw.in_packets(run.at_server),
            _ => run.at_server,
        };
        samples(&fates(&run.truths, &at_server, &run.at_clients))
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        let of = |name: &'static str| {
            results
                .matching(&[("loss", STATED_LOSS)])
                .map(move |summary| (summary, summary.values().get(name).and_then(Estimate::of)))
        };
        let label = |summary: &PointSummary| results.plan().label(summary.point());
        let above = of(ABOVE).map(|(summary, measured)| {
            let what = format!("streams with delays above 500 ms: {}", label(summary));
            let measured = measured.map(|share| share.times(100.0));
            Entry::value(what, "%", 50.0, measured)
        });
        let longest = of(LONGEST_S)
            .map(|(summary, measured)| Entry::value(format!("longest delay: {}", label(summary)), "s", 67.0, measured));
        above.chain(longest).collect()
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let check = |statement: &str, name: &str, bound: Bound| {
            let mut evidence = Evidence::new();
            for summary in results.points() {
                let estimate = summary.values().get(name).and_then(Estimate::of);
                evidence.cell(format!("{}:", results.plan().label(summary.point())), estimate, bound);
            }
            evidence.check(statement)
        };
        let [mut losses, mut unproven] = [Evidence::new(), Evidence::new()];
        for summary in results.points() {
            let what = results.plan().label(summary.point());
            let over = |name: &str| Estimate::ratio(summary.values().get(LOSS_REPORTED)?, summary.values().get(name)?);
            if summary.point().choice("stack") == "linux" {
                losses.cell(format!("{what}, ratio:"), over(LOSS_TRUE), Bound::about(1.0, 0.05));
            } else {
                unproven.cell(format!("{what}, over the losses:"), over(LOSS_TRUE), Bound::MoreThan(0.95));
                let most = over(LOSS_AND_SPURIOUS);
                unproven.cell(
                    format!("{what}, over losses and spurious retransmissions:"),
                    most,
                    Bound::LessThan(1.05),
                );
            }
        }
        let nearly_all = Bound::MoreThan(0.98);
        vec![
            check(
                "Streams with less than the median loss have delays above 500 ms, too.",
                ABOVE_LITTLE_LOSS,
                Bound::MoreThan(0.0),
            ).id("little-loss"),
            six_losses::check(),
            check(
                "Festina's analysis finds the longest delay of 98% of all streams within a millisecond.",
                LONGEST_RIGHT,
                nearly_all,
            ),
            check("Festina's analysis finds mean and 99% within a hundredth, of 98%.", REST_RIGHT, nearly_all),
            check(
                "Festina's analysis finds how often the message with the longest delay was sent, of 98%.",
                COPIES_RIGHT,
                nearly_all,
            ),
            losses.check("Festina's analysis finds the losses of all streams of Linux's TCP together within a twentieth."),
            unproven.check(
                "Festina's analysis finds losses of New Reno that lie between the path's and those with the spurious retransmissions, \
                 which nothing proves.",
            ),
        ]
    }

    fn lists_values(&self) -> bool {
        true
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        results
            .points()
            .iter()
            .flat_map(|summary| [delays_figure(results, summary), losses_figure(results, summary)])
            .collect()
    }
}

/// The server's capture lacks the returning packets.
const ONE_WAY: &str = "one-way";

fn of_server(packets: Packets) -> Packets {
    packets.into_iter().filter(|(_, packet)| packet.get(12..16) == Some(&[10, 0, 0, 1])).collect()
}

fn server(point: &Point, seed: u64) -> Server {
    let config = if point.choice("stack") == "linux" { TcpConfig::linux() } else { TcpConfig::new_reno() };
    let players = u32::try_from(point.count("players")).unwrap_or(u32::MAX);
    let mut paths = RandomStream::new(seed, "paths");
    let flows = (0..players).map(|player| ServedFlow {
        connects_at: Instant::ZERO + CONNECTS_WITHIN * player / players,
        starts_at: STARTS_AT,
        writes: Workload::Application(Application::AnarchyOnline)
            .writes(seed, &format!("player {player}"))
            .take_while(|write| write.at < point.duration("duration"))
            .map(|write| (write.at, write.size))
            .collect(),
        path: path(point, &mut paths),
    });
    Server { carrier: Carrier::tcp(config), flows: flows.collect() }
}

/// A path with a round-trip time and a loss of its own.
fn path(point: &Point, random: &mut RandomStream) -> Duplex {
    let one_way_ns = u64::try_from(point.duration("rtt").as_nanos() / 2).unwrap_or(u64::MAX);
    let delay = Duration::from_nanos(one_way_ns / 2 + random.below(one_way_ns.max(1)));
    // The sampler scales by its mean, in any unit; here billionths.
    let mean = Duration::from_nanos(u64::from(point.probability("loss").ppb()));
    let ppb = u64::try_from(random.exponential(mean).as_nanos()).unwrap_or(u64::MAX).clamp(1, LOSS_PPB_MAX);
    let share = Probability::from_ppb(u32::try_from(ppb).unwrap_or(u32::MAX));
    let burst = Some(point.duration("burst")).filter(|burst| !burst.is_zero());
    let loss = match burst.and_then(|burst| GilbertElliott::bursts(share, burst)) {
        Some(bursts) => LossModel::GilbertElliott(bursts),
        None => LossModel::Independent(share),
    };
    Duplex::symmetric(LinkConfig { delay, loss, ..LinkConfig::default() })
}

fn samples(fates: &[Fate]) -> Samples {
    let mut samples = Samples::new();
    let share = |is_so: &dyn Fn(&Fate) -> bool, of: &[&Fate]| {
        as_f64(of.iter().filter(|fate| is_so(fate)).count()) / as_f64(of.len().max(1))
    };
    let mut all: Vec<&Fate> = fates.iter().collect();
    all.sort_by_key(|fate| std::cmp::Reverse(fate.longest));
    let sum = |of: &dyn Fn(&Fate) -> u64| fates.iter().map(of).sum::<u64>();
    let copies = as_f64(sum(&|fate| fate.copies).max(1));
    samples.set(LONGEST_RIGHT, share(&Fate::is_longest_right, &all));
    samples.set(REST_RIGHT, share(&Fate::is_rest_right, &all));
    samples.set(COPIES_RIGHT, share(&Fate::are_copies_right, &all));
    samples.set(LOSS_TRUE, as_f64(sum(&|fate| fate.lost)) / copies);
    samples.set(LOSS_AND_SPURIOUS, as_f64(sum(&|fate| fate.lost + fate.spurious)) / copies);
    samples.set(LOSS_REPORTED, as_f64(sum(&Fate::lost_as_reported)) / copies);
    let is_noticed = |fate: &Fate| fate.longest > NOTICED;
    samples.set(ABOVE, share(&is_noticed, &all));
    let mut by_loss = all.clone();
    by_loss.sort_by(|one, other| one.loss().total_cmp(&other.loss()));
    samples.set(ABOVE_LITTLE_LOSS, share(&is_noticed, &by_loss[..by_loss.len() / 2]));
    if let Some(worst) = all.first() {
        samples.set(LONGEST_S, worst.longest.as_secs_f64());
        samples.set(MOST_COPIES, f64::from(worst.longest_copies));
    }
    for part in 0..PARTS {
        let members = &all[part * all.len() / PARTS..(part + 1) * all.len() / PARTS];
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let numbers: [&dyn Fn(&Fate) -> f64; DRAWN.len()] = [
            &|fate| ms(fate.reported.map_or(Duration::ZERO, |it| it.longest)),
            &|fate| ms(fate.reported.map_or(Duration::ZERO, |it| it.ninety_nine)),
            &|fate| ms(fate.reported.map_or(Duration::ZERO, |it| it.mean)),
            &|fate| fate.reported.map_or(0.0, |it| it.loss),
            &|fate| fate.loss(),
        ];
        for (name, number) in DRAWN.iter().zip(numbers) {
            if !members.is_empty() {
                let mean = members.iter().map(|fate| number(fate)).sum::<f64>() / as_f64(members.len());
                samples.set(&of_part(name, part), mean);
            }
        }
    }
    samples
}

/// The name of a number of a tenth of the streams.
fn of_part(name: &str, part: usize) -> String {
    format!("{name} of tenth {part}")
}

fn series(summary: &PointSummary, name: &str, label: &str) -> PointSeries {
    let points = (0..PARTS).zip(0_u32..).filter_map(|(part, place)| {
        let estimate = Estimate::of(summary.values().get(&of_part(name, part))?)?;
        let whisker = estimate.interval().map(|[low, high]| (low.max(1e-5), high));
        Some(PlotPoint { x: (f64::from(place) + 0.5) / 10.0, y: estimate.mean, whisker })
    });
    PointSeries::new(label, points)
}

fn rank() -> Axis {
    Axis::linear("streams, by their longest delay, each a tenth", 0.0, 1.0, Unit::Share)
}

fn subtitle(results: &Results, summary: &PointSummary) -> String {
    format!("{}; means of {} runs", results.plan().label(summary.point()), summary.repetitions())
}

fn delays_figure(results: &Results, summary: &PointSummary) -> Figure {
    let names = [("longest", "longest"), ("99%", "99%"), ("mean", "mean")];
    let points = PointSeries::told_apart(names.map(|(name, label)| series(summary, name, label)).into());
    let ends = points.iter().flat_map(|series| &series.points).flat_map(|it| [it.y, it.whisker.map_or(it.y, |w| w.1)]);
    let highest = ends.fold(1_000.0, f64::max);
    let y = Axis::log("delay to delivery, as the capture shows it", 30.0, highest * 1.3, Unit::Milliseconds);
    let line = NOTICED.as_secs_f64() * 1e3;
    let curves = vec![Curve { name: "500 ms".to_owned(), points: vec![(0.0, line), (1.0, line)] }];
    Figure { points, curves, ..Figure::new("Delays of each stream", &subtitle(results, summary), rank(), y) }
}

fn losses_figure(results: &Results, summary: &PointSummary) -> Figure {
    let names = [("loss reported", "as the capture shows it"), ("loss", "of the path")];
    let points = PointSeries::told_apart(names.map(|(name, label)| series(summary, name, label)).into());
    let ends = points.iter().flat_map(|series| &series.points).map(|it| it.whisker.map_or(it.y, |whisker| whisker.1));
    let y = Axis::from_zero("loss", ends.fold(0.001, f64::max), Unit::Share);
    Figure { points, ..Figure::new("Losses of each stream", &subtitle(results, summary), rank(), y) }
}
