//! What real stacks reach in the same scenario.

use crate::evidence::Estimate;
use crate::plan::Point;
use crate::scenario::fate::DELIVERY;
use crate::scoreboard::Entry;
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

pub(super) fn scoreboard(results: &Results) -> Vec<Entry> {
    let mut entries = Vec::new();
    for peer in &PEERS {
        let delays = find(results, peer.profile, PEERS_AT).and_then(|summary| summary.series().get(DELIVERY));
        for (what, published) in ["mean", "p99", "p99.9"].into_iter().zip(peer.quantiles_ms) {
            let Some(published) = published else { continue };
            let seconds = delays.and_then(|delays| match what {
                "mean" => Some(delays.mean_s()),
                "p99" => delays.quantile_s(0.99),
                _ => delays.quantile_s(0.999),
            });
            let measured = seconds.and_then(Estimate::of).map(|seconds| seconds.times(1e3));
            let what = format!("{what} delay of {}, {PEERS_AT}, beside {}", peer.name, peer.profile);
            entries.push(Entry::value(what, "ms", published, measured));
        }
    }
    entries
}

pub(super) fn find<'r>(results: &'r Results, sender: &str, at: &str) -> Option<&'r PointSummary> {
    results
        .points()
        .iter()
        .find(|summary| summary.point().choice("sender") == sender && conditions(summary.point()) == at)
}
