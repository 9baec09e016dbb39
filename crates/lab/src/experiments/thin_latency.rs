//! `thin-latency`: how late the messages of a thin stream arrive, for every profile under the same losses.

mod peers;

use festina_units::Duration;
use serde_json::{Value, json};

use super::cost::figures::price_figure;
use crate::capture::Capture;
use crate::experiment::{Description, Experiment};
use crate::figure::{DelayDistribution, Figure, Threshold};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::fate::{
    self, BYTES_EACH, BYTES_RETURNED, BYTES_SENT, COPIES, DELIVERED, DELIVERY, MESSAGES, PACKETS_EACH,
    PACKETS_RETURNED, PACKETS_SENT, SPURIOUS, SPURIOUS_UNAVOIDABLE, delays_row, ms, total,
};
use crate::scenario::{Captured, Sender, ThinStream};
use crate::scoreboard::Entry;
use crate::summary::{PointSummary, Results};

/// The delivery delay of a thin stream under independent loss.
#[derive(Clone, Copy, Debug)]
pub struct ThinLatency;

impl Experiment for ThinLatency {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/thin-latency.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        fate::samples(&stream(point).run(seed))
    }

    fn capture(&self, point: &Point, seed: u64) -> Option<Capture> {
        Some(stream(point).capture(seed))
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        peers::scoreboard(results)
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let plan = results.plan();
        let Some(base) = results.points().first().map(|first| peers::conditions(first.point())) else {
            return Vec::new();
        };
        let mut distribution = DelayDistribution::new(plan.title(), &format!("{base}, {}", plan.conditions()));
        for (delay_ms, name) in [(100, "100 ms"), (1_000, "1 s")] {
            distribution.threshold(Threshold::new(Duration::from_millis(delay_ms), name));
        }
        for summary in results.points().iter().filter(|summary| peers::conditions(summary.point()) == base) {
            if let Some(delivery) = summary.series().get(DELIVERY) {
                distribution.curve(summary.point().choice("sender"), delivery.all());
            }
        }
        let find = |sender: &str| peers::find(results, sender, &base);
        let prices = price_figure(results, &format!("What a delay costs: {base}"), find);
        [distribution.figure()].into_iter().chain(prices).collect()
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        &[PACKETS_EACH, BYTES_EACH]
    }

    fn rows(&self, results: &Results) -> Vec<Value> {
        results.points().iter().map(row).collect()
    }
}

fn stream(point: &Point) -> ThinStream {
    let loss = point.probability("loss");
    Sender::stream(point).with_loss(loss, loss)
}

/// One element of `results`.
fn row(summary: &PointSummary) -> Value {
    let point = summary.point();
    let sender = Sender::of(point);
    json!({
        "profile": sender.profile(),
        "redundancy": sender.redundancy(),
        "rtt_ms": ms(Some(point.duration("rtt"))),
        "iat_ms": ms(Some(point.duration("iat"))),
        "loss": point.probability("loss").as_fraction(),
        "messages": total(summary, MESSAGES),
        "delivered": total(summary, DELIVERED),
        "packets_sent": total(summary, PACKETS_SENT),
        "bytes_sent": total(summary, BYTES_SENT),
        "packets_returned": total(summary, PACKETS_RETURNED),
        "bytes_returned": total(summary, BYTES_RETURNED),
        "packets_per_message": summary.values().get(PACKETS_EACH).and_then(|value| value.mean()),
        "bytes_per_message": summary.values().get(BYTES_EACH).and_then(|value| value.mean()),
        "copies": total(summary, COPIES),
        "delivery_ms": delays_row(summary, DELIVERY),
        "spurious": total(summary, SPURIOUS),
        "spurious_unavoidable": total(summary, SPURIOUS_UNAVOIDABLE),
    })
}
