//! What the first message must not exceed, and how dear that may be.

use std::time::Duration;

use serde_json::{Value, json};

use super::opening::{BYTES, PACKETS, SECURE, SECURE_EARLY};
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::Check;
use crate::plan::Point;
use crate::scenario::fate::{DELIVERED, DELIVERY, MESSAGES, total};
use crate::summary::{PointSummary, Results};

/// Where the goals were set.
const AT: [(&str, &str); 2] = [("rtt", "100ms"), ("loss", "5%")];
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
            let quantile = quantile_ms(summary, share).unwrap_or(f64::INFINITY);
            let what = format!("{}% within {quantile:.0} ms, % later than {most} ms:", share * 100.0);
            evidence.cell(what, percentage(later, total(summary, MESSAGES)), Bound::LessThan(100.0 * (1.0 - share)));
        }
        evidence.check(statement)
    }
}

/// The share of independent associations in percent, with its 95% interval. Delays lie at single values, so a quantile jumps from one of them to the
/// next by chance; the share does not.
fn percentage(share: f64, count: f64) -> Option<Estimate> {
    let half_width = 1.96 * (share * (1.0 - share) / count).sqrt();
    let repetitions = format!("{count:.0}").parse().ok()?;
    Some(Estimate { mean: 100.0 * share, half_width: Some(100.0 * half_width), repetitions })
}

pub(super) fn checks(results: &Results) -> Vec<Check> {
    GOALS.iter().map(|goal| goal.check(results)).collect()
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
    use crate::evidence::Judgement;

    #[test]
    fn a_share_that_chance_explains_is_undecided() {
        let cases = [
            (0.0, Judgement::Holds),
            (0.008, Judgement::Holds),
            (0.0105, Judgement::Undecided),
            (0.013, Judgement::Broken),
        ];
        for (seen, expected) in cases {
            let estimate = percentage(seen, 20_000.0).expect("a count");
            assert_eq!(Bound::LessThan(1.0).judge(&estimate), expected, "{seen}");
        }
    }
}
