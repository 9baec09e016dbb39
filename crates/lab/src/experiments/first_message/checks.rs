//! What the first message must not exceed, and how dear that may be.

use std::time::Duration;

use serde_json::{Value, json};

use super::opening::{BYTES, PACKETS, SECURE, SECURE_EARLY};
use crate::evidence::{Bound, Estimate, Evidence, Judgement};
use crate::experiment::Check;
use crate::plan::Point;
use crate::scenario::fate::{self, DELIVERED, DELIVERY, MESSAGES, total};
use crate::summary::{PointSummary, Results};

/// Where the goals were set.
const AT: [(&str, &str); 2] = [("rtt", "100ms"), ("loss", "5%")];
/// Packets of both ends, over those with `rfc9260` in the same place.
const PACKETS_RATIO_MAX: f64 = 1.3;
/// Packets of both ends that encryption may add.
const SECURE_PACKETS_MAX: f64 = 2.0;
/// The series keep delays with three digits, so that one of exactly 150 ms is read as 150.1.
const RESOLUTION: f64 = 1.001;

/// A bound of quantiles in milliseconds.
struct Goal {
    sender: &'static str,
    destination: &'static str,
    size: &'static str,
    quantiles: &'static [(f64, f64)],
}

const GOALS: [Goal; 6] = [
    Goal {
        sender: "festina",
        destination: "new",
        size: "100B",
        quantiles: &[(0.9, 400.0), (0.99, 650.0), (0.999, 1_000.0)],
    },
    Goal { sender: "festina", destination: "known", size: "100B", quantiles: &[(0.99, 400.0), (0.999, 650.0)] },
    Goal { sender: "festina+spaced", destination: "new", size: "100B", quantiles: &[(0.99, 290.0), (0.999, 450.0)] },
    Goal { sender: "festina", destination: "new", size: "12kB", quantiles: &[(0.99, 700.0)] },
    Goal {
        sender: SECURE,
        destination: "new",
        size: "100B",
        quantiles: &[(0.5, 150.0), (0.9, 400.0), (0.99, 500.0), (0.999, 850.0)],
    },
    Goal { sender: SECURE_EARLY, destination: "new", size: "100B", quantiles: &[(0.5, 50.0), (0.99, 300.0)] },
];

impl Goal {
    fn check(&self, results: &Results) -> Check {
        let Self { sender, destination, size, quantiles } = self;
        let bounds: Vec<_> =
            quantiles.iter().map(|(share, most)| format!("{}% within {most} ms", share * 100.0)).collect();
        let [(_, rtt), (_, loss)] = AT;
        let statement = format!(
            "{sender}, {destination} destination, {size} at rtt {rtt}, loss {loss}: {} from connect to delivery.",
            bounds.join(", ")
        );
        let Some(summary) = find(results, sender, destination, size) else {
            return Check::skipped(statement, "these conditions");
        };
        let mut evidence = Evidence::new();
        for &(share, most) in *quantiles {
            // Undelivered messages are later than any bound.
            let later = 1.0
                - summary.series().get(DELIVERY).map_or(0.0, |series| {
                    let within = 1.0 - series.all().share_later(Duration::from_secs_f64(most * RESOLUTION / 1e3));
                    within * per_message(summary, DELIVERED)
                });
            let judgement = judge_share(later, total(summary, MESSAGES), 1.0 - share);
            let quantile = quantile_ms(summary, share).unwrap_or(f64::INFINITY);
            evidence.judged(judgement, format!("{quantile:.0} ms, {:.3}% later than {most}", later * 100.0));
        }
        evidence.check(statement)
    }
}

/// Judges whether at most the share `allowed` of all is late, by the 95% interval of the share that was seen. Delays lie at single values, so a
/// quantile jumps from one of them to the next by chance; the share does not.
fn judge_share(seen: f64, count: f64, allowed: f64) -> Judgement {
    let half_width = 1.96 * (seen * (1.0 - seen) / count).sqrt();
    Bound::LessThan(allowed).judge(&Estimate { mean: seen, half_width: Some(half_width), repetitions: 2 })
}

pub(super) fn checks(results: &Results) -> Vec<Check> {
    let mut checks = vec![fate::delivered_check(results), floor_check(results)];
    checks.extend(GOALS.iter().map(|goal| goal.check(results)));
    checks.push(packets_check(results));
    checks.push(secure_packets_check(results));
    checks
}

/// Without losses there is nothing to repair.
fn floor_check(results: &Results) -> Check {
    let statement = "Without losses 100 bytes take one and a half round-trip times with festina, and 12,000 bytes two and a half. Encrypted \
                     ones both take one and a half, and 100 bytes half a one in a resumed session.";
    let mut seen = 0;
    let mut worst: Option<(f64, String)> = None;
    for summary in results.matching(&[("loss", "0%")]) {
        let point = summary.point();
        if !point.choice("sender").starts_with("festina") {
            continue;
        }
        let round_trips = match (point.choice("sender"), point.bytes("size").bytes()) {
            (SECURE_EARLY, 100) => 0.5,
            (_, 100) | (SECURE | SECURE_EARLY, 12_000) => 1.5,
            (_, 12_000) => 2.5,
            _ => continue,
        };
        let Some(max) = summary.series().get(DELIVERY).and_then(|delays| delays.all().max()) else { continue };
        let excess = max.as_secs_f64() - round_trips * point.duration("rtt").as_secs_f64();
        seen += 1;
        if worst.as_ref().is_none_or(|(most, _)| excess > *most) {
            worst = Some((excess, point.choice("sender").to_owned()));
        }
    }
    match worst {
        None => Check::skipped(statement, "points without losses"),
        Some((excess, sender)) => {
            let text = format!("{:.1} ms more at most, with {sender}, at {seen} points", excess * 1e3);
            Check::new(statement, excess < 0.001, text)
        }
    }
}

fn packets_check(results: &Results) -> Check {
    let statement = format!(
        "festina sends at most {PACKETS_RATIO_MAX} times the packets of rfc9260 for 100 bytes to a new destination at rtt 100ms, \
         loss 5%."
    );
    let of = |sender| find(results, sender, "new", "100B").map(|summary| per_message(summary, PACKETS));
    let (Some(ours), Some(theirs)) = (of("festina"), of("rfc9260")) else {
        return Check::skipped(statement, "both at these conditions");
    };
    Check::new(statement, ours <= PACKETS_RATIO_MAX * theirs, format!("{ours:.2} and {theirs:.2} packets"))
}

fn secure_packets_check(results: &Results) -> Check {
    let statement = format!(
        "{SECURE} sends at most {SECURE_PACKETS_MAX} packets more than festina for 100 bytes to a new destination at rtt 100ms, \
         loss 5%."
    );
    let of = |sender| find(results, sender, "new", "100B").map(|summary| per_message(summary, PACKETS));
    let (Some(encrypted), Some(plain)) = (of(SECURE), of("festina")) else {
        return Check::skipped(statement, "both at these conditions");
    };
    Check::new(statement, encrypted - plain <= SECURE_PACKETS_MAX, format!("{encrypted:.2} and {plain:.2} packets"))
}

fn find<'r>(results: &'r Results, sender: &str, destination: &str, size: &str) -> Option<&'r PointSummary> {
    let [rtt, loss] = AT;
    results.matching(&[rtt, loss, ("sender", sender), ("destination", destination), ("size", size)]).next()
}

/// The path of a point.
pub(super) fn conditions(point: &Point) -> String {
    let values = ["rtt", "loss"].map(|name| {
        let value = point.value(name).expect("the experiment declares it");
        format!("{name} {value}")
    });
    values.join(", ")
}

fn per_message(summary: &PointSummary, name: &str) -> f64 {
    total(summary, name) / total(summary, MESSAGES)
}

fn quantile_ms(summary: &PointSummary, share: f64) -> Option<f64> {
    ms(summary.series().get(DELIVERY)?.all().quantile(share))
}

fn ms(delay: Option<Duration>) -> Option<f64> {
    delay.map(|delay| delay.as_secs_f64() * 1e3)
}

/// One element of `results`.
pub(super) fn row(summary: &PointSummary) -> Value {
    let point = summary.point();
    let quantile = |share| quantile_ms(summary, share);
    json!({
        "sender": point.choice("sender"),
        "rtt_ms": ms(Some(point.duration("rtt"))),
        "loss": point.probability("loss").as_fraction(),
        "size": point.bytes("size").bytes(),
        "destination": point.choice("destination"),
        "associations": total(summary, MESSAGES),
        "packets_per_association": per_message(summary, PACKETS),
        "bytes_per_association": per_message(summary, BYTES),
        "delivery_ms": {
            "p50": quantile(0.5),
            "p90": quantile(0.9),
            "p99": quantile(0.99),
            "p99_9": quantile(0.999),
            "max": ms(summary.series().get(DELIVERY).and_then(|delays| delays.all().max())),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_chance_explains_is_undecided() {
        let cases = [
            (0.0, Judgement::Holds),
            (0.008, Judgement::Holds),
            (0.0105, Judgement::Undecided),
            (0.013, Judgement::Broken),
        ];
        for (seen, expected) in cases {
            assert_eq!(judge_share(seen, 20_000.0, 0.01), expected, "{seen}");
        }
    }
}
