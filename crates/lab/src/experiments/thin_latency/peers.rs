//! What real stacks reach in the same scenario.

use std::time::Duration;

use crate::experiment::Comparison;
use crate::plan::Point;
use crate::scenario::fate::DELIVERY;
use crate::summary::{PointSummary, Results};

/// The conditions under which peers were measured.
const PEERS_AT: &str = "rtt 100ms, iat 250ms, loss 5%";
/// The conditions of a point, without its sender.
pub(super) fn conditions(point: &Point) -> String {
    let values = ["rtt", "iat", "loss"].map(|name| {
        let value = point.value(name).expect("the experiment declares it");
        format!("{name} {value}")
    });
    values.join(", ")
}

/// A real stack, measured with another program over an emulated path: mean, p99, p99.9 in ms.
struct Peer {
    name: &'static str,
    profile: &'static str,
    quantiles_ms: [Option<f64>; 3],
}

/// Peers whose recovery one of our profiles stands for.
const PEERS: [Peer; 2] = [
    Peer { name: "usrsctp", profile: "rfc9260", quantiles_ms: [Some(151.0), Some(1_150.0), None] },
    Peer { name: "lksctp of Linux 6.1", profile: "rfc9260", quantiles_ms: [Some(147.0), Some(1_118.0), Some(1_921.0)] },
];

pub(super) fn comparisons(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for peer in &PEERS {
        let ours = find(results, peer.profile, PEERS_AT);
        for (what, published) in ["mean", "p99", "p99.9"].into_iter().zip(peer.quantiles_ms) {
            let Some(published) = published else { continue };
            let measured = ours.and_then(|summary| match what {
                "mean" => ms(summary.series().get(DELIVERY)?.all().mean()),
                "p99" => ms(quantile(summary, 0.99)),
                _ => ms(quantile(summary, 0.999)),
            });
            let what = format!("{what} delay of {}, {PEERS_AT}, beside {}", peer.name, peer.profile);
            comparisons.push(Comparison { what, unit: "ms", published, measured, why: None });
        }
    }
    comparisons
}

pub(super) fn find<'r>(results: &'r Results, sender: &str, at: &str) -> Option<&'r PointSummary> {
    results
        .points()
        .iter()
        .find(|summary| summary.point().choice("sender") == sender && conditions(summary.point()) == at)
}

fn quantile(summary: &PointSummary, quantile: f64) -> Option<Duration> {
    summary.series().get(DELIVERY)?.all().quantile(quantile)
}

fn ms(delay: Option<Duration>) -> Option<f64> {
    delay.map(|delay| delay.as_secs_f64() * 1e3)
}
