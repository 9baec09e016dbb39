//! `r15-classes`: flows of known kinds, clustered by what a capture shows of them (R15, Paper I).

mod agreement;
mod kinds;

use festina_models::tcp::TcpConfig;
use festina_netsim::{Duplex, LinkConfig, LossModel, QueueLimit, RandomStream};
use festina_trace::{Analyser, Finding, analyse};
use festina_units::{Duration, Instant};

use crate::count::as_f64;
use crate::evidence::Estimate;
use crate::experiment::{Description, Experiment};
use crate::figure::{Axis, Figure, PlotPoint, PointSeries, Unit};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::CaptureFlaw;
use crate::scenario::server::{Carrier, Packets, ServedFlow, Server, capture_file, client_at};
use crate::summary::{PointSummary, Results};
use crate::traces::{Classes, Features};
use agreement::adjusted_rand_index;
use kinds::Kind;

/// Flows begin within this time after the first.
const STARTS_WITHIN: Duration = Duration::from_secs(60);
/// Connections are open when their first write comes.
const CONNECTS_BEFORE: Duration = Duration::from_secs(2);
/// Queue limit in front of each path.
const QUEUE_PACKETS: usize = 100;
/// Numbers of clusters that the analysis tries.
const TRIED: std::ops::RangeInclusive<usize> = 2..=12;

const CLUSTERS: &str = "clusters";
const RAND_INDEX: &str = "adjusted rand index";
const NAMED_RIGHT: &str = "flows whose class has the name of their kind";
const MOVED: &str = "flows that another order moves";
const LEFT_OUT: &str = "flows of too few packets";

/// Clusters of generated flows.
#[derive(Clone, Copy, Debug)]
pub struct R15Classes;

impl Experiment for R15Classes {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/r15-classes.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let (server, kinds) = server(point, seed);
        let fault = point.choice("fault");
        let packets = server.run(seed).at_server;
        let packets = CaptureFlaw::named(fault).map_or(packets.clone(), |flaw| flaw.in_packets(packets));
        let mut flows = classified(&packets, &kinds);
        if fault == BLURRED {
            let mut random = RandomStream::new(seed, "blur");
            flows.iter_mut().for_each(|(_, features)| *features = kinds::blurred(features, &mut random));
        }
        samples(&flows, kinds.len() - flows.len())
    }

    fn lists_values(&self) -> bool {
        true
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        vec![silhouettes_figure(results)]
    }
}

/// Every number is multiplied by chance.
const BLURRED: &str = "blurred";
/// All flows are of one kind, regardless of their names.
const ALIKE: &str = "alike";

/// The server and the kind of each of its flows.
fn server(point: &Point, seed: u64) -> (Server, Vec<Kind>) {
    let count = usize::try_from(point.count("kinds")).unwrap_or(usize::MAX);
    let each = usize::try_from(point.count("flows")).unwrap_or(usize::MAX);
    let kinds: Vec<Kind> = Kind::ALL.into_iter().take(count).flat_map(|kind| std::iter::repeat_n(kind, each)).collect();
    let mut random = RandomStream::new(seed, "paths");
    let flows = kinds.iter().enumerate().map(|(number, &kind)| {
        let kind = if point.choice("fault") == ALIKE { Kind::Game } else { kind };
        let starts_ns = random.below(u64::try_from(STARTS_WITHIN.as_nanos()).unwrap_or(u64::MAX));
        let connects_at = Instant::from_nanos(starts_ns);
        let one_way_ns = u64::try_from(point.duration("rtt").as_nanos() / 2).unwrap_or(u64::MAX);
        let link = LinkConfig {
            rate: Some(kind.rate(&mut random)),
            delay: Duration::from_nanos(one_way_ns / 2 + random.below(one_way_ns.max(1))),
            queue: QueueLimit::packets(QUEUE_PACKETS),
            loss: LossModel::Independent(point.probability("loss")),
            ..LinkConfig::default()
        };
        ServedFlow {
            connects_at,
            starts_at: connects_at + CONNECTS_BEFORE,
            writes: kind.writes(seed, &format!("flow {number}")),
            path: Duplex::symmetric(link),
        }
    });
    (Server { carrier: Carrier::tcp(TcpConfig::linux()), flows: flows.collect() }, kinds)
}

/// The flows that the capture has, with their kinds; those of too few packets are left out.
fn classified(packets: &Packets, kinds: &[Kind]) -> Vec<(Kind, Features)> {
    let file = capture_file(packets).expect("memory does not fail");
    let mut flows = Vec::new();
    let (_, result) = analyse(file.as_slice(), Analyser::default(), |finding| {
        if let Finding::Stream(stream) = finding
            && let Some(kind) = client_at(stream.destination.ip()).and_then(|client| kinds.get(client))
        {
            flows.extend(Features::of(&stream).map(|features| (*kind, features)));
        }
    });
    result.expect("a sound capture");
    flows
}

fn samples(flows: &[(Kind, Features)], left_out: usize) -> Samples {
    let mut samples = Samples::new();
    samples.set(LEFT_OUT, as_f64(left_out));
    let features: Vec<Features> = flows.iter().map(|(_, features)| *features).collect();
    let backwards: Vec<Features> = features.iter().rev().copied().collect();
    let [Some(classes), Some(other)] = [&features, &backwards].map(|flows| Classes::of(flows)) else { return samples };
    samples.set(CLUSTERS, as_f64(classes.clusters.len()));
    let kinds: Vec<usize> = flows.iter().map(|(kind, _)| *kind as usize).collect();
    samples.set(RAND_INDEX, adjusted_rand_index(&kinds, &classes.of_flow));
    let pairs = || flows.iter().zip(&classes.of_flow);
    let is_right =
        |kind: Kind, cluster: usize| classes.clusters.get(cluster).is_some_and(|it| it.class == kind.class());
    let right = pairs().filter(|((kind, _), cluster)| is_right(*kind, **cluster)).count();
    samples.set(NAMED_RIGHT, as_f64(right) / as_f64(flows.len()));
    let moved = classes.of_flow.iter().zip(other.of_flow.iter().rev()).filter(|(one, other)| one != other).count();
    samples.set(MOVED, as_f64(moved));
    for (count, silhouette) in TRIED.zip(&classes.silhouettes) {
        samples.set(&silhouette_of(count), *silhouette);
    }
    samples
}

fn silhouette_of(clusters: usize) -> String {
    format!("silhouette of {clusters} clusters")
}

/// The mean silhouette of each number of clusters, for each number of kinds.
fn silhouettes_figure(results: &Results) -> Figure {
    let of = |summary: &PointSummary| {
        let points = TRIED.zip(2_u32..).filter_map(|(count, x)| {
            let estimate = Estimate::of(summary.values().get(&silhouette_of(count))?)?;
            Some(PlotPoint { x: f64::from(x), y: estimate.mean, whisker: estimate.interval().map(|[a, b]| (a, b)) })
        });
        PointSeries::new(&format!("{} kinds", summary.point().count("kinds")), points)
    };
    let points = PointSeries::told_apart(results.points().iter().map(of).collect());
    let x = Axis::linear("number of clusters", 1.0, 12.5, Unit::Count);
    let y = Axis::linear("mean silhouette", 0.0, 1.0, Unit::Number);
    let runs = results.points().first().map_or(0, PointSummary::repetitions);
    let subtitle = format!("means of {runs} runs; the highest decides");
    Figure { points, ..Figure::new("How many clusters the flows support", &subtitle, x, y) }
}
