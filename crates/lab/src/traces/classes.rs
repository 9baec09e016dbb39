//! Kinds of flows: hierarchical agglomerative clustering on named features, as in R15's Paper I for flows of a backbone.
//!
//! The paper's text is not public; its features, its measure of similarity and the bounds of its six classes are not known. Features and bounds here
//! are chosen. Logarithms of sizes, times and rates are scaled to the same mean and deviation; clusters merge by Ward's method; the silhouette
//! determines the number of clusters.

mod dendrogram;
mod features;

use kodama::{Method, Step, linkage};

pub use features::{Class, FEATURES, Features};

use crate::count::as_f64;

/// Flows that are clustered; more are given to the nearest centre afterwards.
const CLUSTERED_MAX: usize = 2_000;
/// The most clusters that are tried.
const CLUSTERS_MAX: usize = 12;
/// Below this mean silhouette there is no structure to speak of (Kaufman and Rousseeuw 1990, Table 4 of chapter 2).
const SILHOUETTE_MIN: f64 = 0.25;

/// A point whose coordinates have the mean 0 and the deviation 1.
type Point = [f64; FEATURES.len()];

/// A cluster of flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Number of flows.
    pub flows: usize,
    /// The median of each feature.
    pub centre: Features,
    /// The class that such a flow belongs to.
    pub class: Class,
}

/// What kinds of flows there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    /// The largest first.
    pub clusters: Vec<Cluster>,
    /// For each flow, in the order in which they were given, its cluster.
    pub of_flow: Vec<usize>,
    /// The mean silhouette of each division that was tried, from two clusters on.
    pub silhouettes: Vec<f64>,
    /// The dendrogram.
    pub svg: String,
}

impl Classes {
    /// Divides flows into clusters. Their order makes no difference. `None` of fewer than three flows.
    pub fn of(flows: &[Features]) -> Option<Self> {
        if flows.len() < 3 {
            return None;
        }
        // In an order that only depends on the properties of the flows.
        let mut order: Vec<usize> = (0..flows.len()).collect();
        order.sort_by(|one, other| flows[*one].compare(&flows[*other]));
        let step = flows.len().div_ceil(CLUSTERED_MAX);
        let sample: Vec<usize> = order.iter().copied().step_by(step).collect();
        let scaled = scaled(flows, &sample);
        let points: Vec<Point> = sample.iter().map(|flow| scaled[*flow]).collect();
        let distances = distances(&points);
        let dendrogram = linkage(&mut distances.clone(), points.len(), Method::Ward);
        let tried = (2..=CLUSTERS_MAX.min(points.len() - 1)).map(|count| cut(dendrogram.steps(), points.len(), count));
        let silhouettes: Vec<f64> = tried.map(|labels| silhouette(&distances, &labels)).collect();
        let count = best(&silhouettes);
        let labels = cut(dendrogram.steps(), points.len(), count);
        let centres = centres(&points, &labels, count);
        let mut nearest: Vec<usize> = scaled.iter().map(|point| nearest(&centres, point)).collect();
        for (flow, label) in sample.iter().zip(&labels) {
            nearest[*flow] = *label;
        }
        let (clusters, of_flow) = described(flows, &nearest, count);
        let svg = dendrogram::svg(dendrogram.steps(), points.len(), count);
        Some(Self { clusters, of_flow, silhouettes, svg })
    }
}

/// One more than none if no division is good enough.
fn best(silhouettes: &[f64]) -> usize {
    let best = silhouettes.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
    best.filter(|(_, mean)| **mean >= SILHOUETTE_MIN).map_or(1, |(index, _)| index + 2)
}

/// Coordinates of all flows, scaled by the mean and the deviation of the sample.
fn scaled(flows: &[Features], sample: &[usize]) -> Vec<Point> {
    let raw: Vec<Point> = flows.iter().map(Features::coordinates).collect();
    let count = as_f64(sample.len());
    let mut scale = [(0.0, 1.0); FEATURES.len()];
    for (index, scale) in scale.iter_mut().enumerate() {
        let mean = sample.iter().map(|flow| raw[*flow][index]).sum::<f64>() / count;
        let variance = sample.iter().map(|flow| (raw[*flow][index] - mean).powi(2)).sum::<f64>() / count;
        // A feature that all flows share is ignored.
        *scale = (mean, if variance > 1e-12 { variance.sqrt() } else { f64::INFINITY });
    }
    let point = |raw: &Point| std::array::from_fn(|index| (raw[index] - scale[index].0) / scale[index].1);
    raw.iter().map(point).collect()
}

fn distance(one: &Point, other: &Point) -> f64 {
    one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

/// The distances of all pairs, row by row above the diagonal.
fn distances(points: &[Point]) -> Vec<f64> {
    let rows = points.iter().enumerate();
    rows.flat_map(|(index, one)| points[index + 1..].iter().map(move |other| distance(one, other))).collect()
}

/// The cluster of each point if the dendrogram is cut where there are `count` of them. Numbers follow the points.
fn cut(steps: &[Step<f64>], points: usize, count: usize) -> Vec<usize> {
    let mut parents: Vec<usize> = (0..points + steps.len()).collect();
    for (index, step) in steps.iter().take(points.saturating_sub(count)).enumerate() {
        parents[step.cluster1] = points + index;
        parents[step.cluster2] = points + index;
    }
    let root = |mut node: usize| {
        while parents[node] != node {
            node = parents[node];
        }
        node
    };
    let mut known = Vec::new();
    let number = |root: usize| match known.iter().position(|other| *other == root) {
        Some(number) => number,
        None => {
            known.push(root);
            known.len() - 1
        }
    };
    (0..points).map(root).map(number).collect()
}

/// The mean of (b − a) / max(a, b): a is a point's mean distance to its own cluster, b that to the nearest other one (Rousseeuw 1987).
fn silhouette(distances: &[f64], labels: &[usize]) -> f64 {
    let clusters = labels.iter().max().map_or(0, |most| most + 1);
    let mut sizes = vec![0usize; clusters];
    labels.iter().for_each(|label| sizes[*label] += 1);
    let mut sums = vec![0.0; labels.len() * clusters];
    let pairs = (0..labels.len()).flat_map(|one| (one + 1..labels.len()).map(move |other| (one, other)));
    for ((one, other), distance) in pairs.zip(distances) {
        sums[one * clusters + labels[other]] += distance;
        sums[other * clusters + labels[one]] += distance;
    }
    let of_point = |(point, own): (usize, &usize)| {
        if sizes[*own] < 2 {
            return 0.0;
        }
        let within = sums[point * clusters + own] / as_f64(sizes[*own] - 1);
        let others = (0..clusters).filter(|cluster| cluster != own);
        let between = others.map(|cluster| sums[point * clusters + cluster] / as_f64(sizes[cluster]));
        let between = between.fold(f64::INFINITY, f64::min);
        let larger = within.max(between);
        if larger > 0.0 { (between - within) / larger } else { 0.0 }
    };
    labels.iter().enumerate().map(of_point).sum::<f64>() / as_f64(labels.len().max(1))
}

fn centres(points: &[Point], labels: &[usize], count: usize) -> Vec<Point> {
    let mut sums = vec![([0.0; FEATURES.len()], 0usize); count];
    for (point, label) in points.iter().zip(labels) {
        let (sum, members) = &mut sums[*label];
        sum.iter_mut().zip(point).for_each(|(sum, value)| *sum += value);
        *members += 1;
    }
    sums.into_iter().map(|(sum, members)| sum.map(|value| value / as_f64(members.max(1)))).collect()
}

fn nearest(centres: &[Point], point: &Point) -> usize {
    let distances = centres.iter().map(|centre| distance(centre, point)).enumerate();
    distances.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(index, _)| index)
}

/// The clusters, the largest first, and which of them each flow is in.
fn described(flows: &[Features], labels: &[usize], count: usize) -> (Vec<Cluster>, Vec<usize>) {
    let mut clusters: Vec<(usize, Cluster)> = (0..count)
        .map(|label| {
            let members: Vec<&Features> =
                flows.iter().zip(labels).filter(|(_, of)| **of == label).map(|(flow, _)| flow).collect();
            let centre = Features::median(&members);
            (label, Cluster { flows: members.len(), class: centre.class(), centre })
        })
        .collect();
    clusters.sort_by(|(_, a), (_, b)| b.flows.cmp(&a.flows).then_with(|| a.centre.compare(&b.centre)));
    let mut places = vec![0; count];
    for (place, (label, _)) in clusters.iter().enumerate() {
        places[*label] = place;
    }
    (clusters.into_iter().map(|(_, cluster)| cluster).collect(), labels.iter().map(|label| places[*label]).collect())
}

#[cfg(test)]
mod tests;
