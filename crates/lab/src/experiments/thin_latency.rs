//! `thin-latency`: how late the messages of a thin stream arrive, for every profile under the same losses.

mod checks;

use festina_units::{Duration, Probability};
use serde_json::{Value, json};

use super::cost::figures::price_figure;
use crate::capture::Capture;
use crate::experiment::{Check, Comparison, Description, Experiment};
use crate::figure::{DelayDistribution, Figure, Threshold};
use crate::plan::{Kind, Parameter, Point};
use crate::samples::Samples;
use crate::scenario::fate::{
    self, BYTES_EACH, BYTES_RETURNED, BYTES_SENT, COPIES, DELIVERED, DELIVERY, MESSAGES, PACKETS_EACH,
    PACKETS_RETURNED, PACKETS_SENT, SPURIOUS, SPURIOUS_UNAVOIDABLE, delays_row, ms, total,
};
use crate::scenario::{Sender, ThinStream};
use crate::summary::{PointSummary, Results};

/// The delivery delay of a thin stream under independent loss.
#[derive(Clone, Copy, Debug)]
pub struct ThinLatency;

impl Experiment for ThinLatency {
    fn description(&self) -> Description {
        Description {
            name: "thin-latency",
            title: "Delivery delay of a thin stream, by recovery profile",
            reference: "Festina's own; measured peers: real stacks in this scenario (see the comparisons)",
            about: "An application writes one small message every interval over one association. Each packet is lost with the same probability, in \
         both directions and independently of others. The receiver is unmodified: it delays SACKs by \
         200 ms unless the sender's I bit asks it not to (RFC 7053). The delay of a message runs from the moment at which \
         the application writes it to the moment at which the receiving application has it, so a message behind a lost \
         one waits for it. The floor is half the round-trip time.\n\n\
         A retransmission is spurious if an earlier copy of its chunk arrived. It is unavoidable if the receiver \
         acknowledged that copy in time and every packet that would have told the sender was lost: no sender can know. Copies \
         that ride in a packet that leaves anyway, or that a sender sends on purpose (redundancy), are not retransmissions \
         in this sense; they are counted as copies, and the bytes that they cost are in bytes sent. What both ends send, \
         handshake and heartbeats included, is given per message: packets, and bytes with the headers of SCTP, UDP and IP. The \
         experiment cost goes into that.\n\n\
         The parameters rtt, iat and loss are swept one at a time around the first value of each.",
            plan: include_str!("../../../../experiments/thin-latency.toml"),
            question: "",
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let loss = Kind::Probability(Probability::ZERO..=Probability::from_percent(50));
        let mut parameters = Sender::parameters();
        parameters.push(Parameter { name: "loss", about: "how probably a packet is lost, each way", kind: loss });
        parameters
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        fate::samples(&stream(point).run(seed))
    }

    fn capture(&self, point: &Point, seed: u64) -> Option<Capture> {
        Some(stream(point).capture(seed))
    }

    fn comparisons(&self, results: &Results) -> Vec<Comparison> {
        checks::comparisons(results)
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        checks::checks(results)
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let plan = results.plan();
        let Some(base) = results.points().first().map(|first| checks::conditions(first.point())) else {
            return Vec::new();
        };
        let mut distribution = DelayDistribution::new(plan.title(), &format!("{base}, {}", plan.conditions()));
        for (delay_ms, name) in [(100, "100 ms"), (1_000, "1 s")] {
            distribution.threshold(Threshold::new(Duration::from_millis(delay_ms), name));
        }
        for summary in results.points().iter().filter(|summary| checks::conditions(summary.point()) == base) {
            if let Some(delivery) = summary.series().get(DELIVERY) {
                distribution.curve(summary.point().choice("sender"), delivery.all());
            }
        }
        let find = |sender: &str| checks::find(results, sender, &base);
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
