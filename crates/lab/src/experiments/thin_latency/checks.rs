//! What real stacks reach in the same scenario, and what `festina` must reach.

use std::time::Duration;

use crate::experiment::{Check, Comparison};
use crate::plan::Point;
use crate::scenario::fate::{self, DELIVERY, MESSAGES, PACKETS_SENT, avoidable_share, total};
use crate::summary::{PointSummary, Results};

/// The conditions under which peers were measured.
const PEERS_AT: &str = "rtt 100ms, iat 250ms, loss 5%";
/// How far above the best other profile a quantile of `festina` may lie by chance: a share of it plus an absolute time.
const NOISE_SHARE: f64 = 0.03;
const NOISE: Duration = Duration::from_millis(1);
/// The largest share of packets that may be avoidable spurious retransmissions.
const AVOIDABLE_MAX: f64 = 0.01;

/// What `festina` must reach where the peers were measured.
struct Target {
    sender: &'static str,
    p99_ms_max: f64,
    p99_9_ms_max: f64,
    packets_per_message_max: f64,
}

/// By default, and with a copy of each message.
const TARGETS: [Target; 2] = [
    Target { sender: "festina", p99_ms_max: 158.0, p99_9_ms_max: 165.0, packets_per_message_max: 1.21 },
    Target { sender: "festina+spaced", p99_ms_max: 75.0, p99_9_ms_max: 170.0, packets_per_message_max: 2.15 },
];

impl Target {
    fn check(&self, results: &Results) -> Check {
        let Self { sender, p99_ms_max, p99_9_ms_max, packets_per_message_max } = self;
        let statement = format!(
            "{sender} at {PEERS_AT}: 99% of the messages within {p99_ms_max} ms, 99.9% within {p99_9_ms_max} ms, with at most \
             {packets_per_message_max} packets per message."
        );
        let Some(summary) = find(results, sender, PEERS_AT) else {
            return Check::skipped(statement, format!("{sender} at these conditions"));
        };
        let [p99, p99_9] = [0.99, 0.999].map(|share| ms(quantile(summary, share)).unwrap_or(f64::INFINITY));
        let packets = packets_per_message(summary);
        let holds = p99 <= *p99_ms_max && p99_9 <= *p99_9_ms_max && packets <= *packets_per_message_max;
        Check::new(statement, holds, format!("{p99:.1} ms, {p99_9:.1} ms, {packets:.3} packets"))
    }
}

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

pub(super) fn checks(results: &Results) -> Vec<Check> {
    let mut checks = vec![fate::delivered_check(results)];
    checks.extend(TARGETS.iter().map(|target| target.check(results)));
    let mut seen: Vec<String> = Vec::new();
    for summary in results.points() {
        let conditions = conditions(summary.point());
        if !seen.contains(&conditions) {
            checks.push(never_worse(results, &conditions));
            seen.push(conditions);
        }
    }
    checks.push(avoidable_check(results));
    checks
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

fn packets_per_message(summary: &PointSummary) -> f64 {
    total(summary, PACKETS_SENT) / total(summary, MESSAGES)
}

fn never_worse(results: &Results, at: &str) -> Check {
    let statement = format!("festina at {at}: p99 and p99.9 no worse than with any other profile.");
    let Some(ours) = find(results, "festina", at) else {
        return Check::skipped(statement, "festina at these conditions");
    };
    let others = results.points().iter().filter(|summary| {
        conditions(summary.point()) == at && !summary.point().choice("sender").starts_with("festina")
    });
    let mut best = [(Duration::MAX, ""); 2];
    for summary in others {
        for (best, share) in best.iter_mut().zip([0.99, 0.999]) {
            let candidate = (quantile(summary, share).unwrap_or(Duration::MAX), summary.point().choice("sender"));
            *best = (*best).min(candidate);
        }
    }
    let mut holds = true;
    let mut seen = Vec::new();
    for ((best, name), share) in best.into_iter().zip([0.99, 0.999]) {
        if best == Duration::MAX {
            return Check::skipped(statement, "another profile at these conditions");
        }
        let delay = quantile(ours, share).unwrap_or(Duration::MAX);
        holds &= delay <= best.mul_f64(1.0 + NOISE_SHARE) + NOISE;
        let [delay, best] = [delay, best].map(|delay| ms(Some(delay)).unwrap_or_default());
        seen.push(format!("p{} {delay:.1} ms against {best:.1} ms of {name}", share * 100.0));
    }
    Check::new(statement, holds, seen.join(", "))
}

fn avoidable_check(results: &Results) -> Check {
    let statement = "festina: avoidable spurious retransmissions are at most 1% of its packets.";
    let ours = results.points().iter().filter(|summary| summary.point().choice("sender") == "festina");
    let worst =
        ours.map(|summary| (avoidable_share(summary), conditions(summary.point()))).max_by(|a, b| a.0.total_cmp(&b.0));
    match worst {
        None => Check::skipped(statement, "festina"),
        Some((worst, at)) => Check::new(statement, worst <= AVOIDABLE_MAX, format!("{:.2}% at {at}", worst * 100.0)),
    }
}
