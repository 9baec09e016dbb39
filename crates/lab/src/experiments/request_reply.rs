//! `request-reply`: packets, bytes and delays of applications that write at both ends.

mod exchange;
mod figures;
mod peer;

use festina_units::{Duration, Probability};
use serde_json::{Value, json};

use crate::count::as_f64;
use crate::experiment::{Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::fate::{BYTES_EACH, DELIVERED, MESSAGES, PACKETS_EACH, delays_row, ms, total};
use crate::scenario::{Sender, Stack};
use crate::summary::{PointSummary, Results};
use exchange::{Exchange, Pattern};

/// The series: every message, and from each request to its answer.
const MESSAGE: &str = "message";
const EXCHANGE: &str = "exchange";
/// What both ends sent together.
const PACKETS: &str = "packets of both ends";
const BYTES: &str = "bytes of both ends";
const EXCHANGES: &str = "exchanges";
/// The same for one exchange if there are any.
const PACKETS_PER_EXCHANGE: &str = "packets per exchange";

const PING_PONG: &str = "ping-pong";
const GAME: &str = "30Hz both ways";
/// The kinds of traffic that a plan can choose.
const TRAFFIC: [(&str, Pattern); 5] = [
    (PING_PONG, Pattern::PingPong { thinking: Duration::ZERO }),
    ("ping-pong 1ms", Pattern::PingPong { thinking: Duration::from_millis(1) }),
    ("ping-pong 5ms", Pattern::PingPong { thinking: Duration::from_millis(5) }),
    (GAME, Pattern::BothWays { interval: Duration::from_nanos(1_000_000_000 / 30) }),
    ("10Hz both ways", Pattern::BothWays { interval: Duration::from_millis(100) }),
];
const TRAFFIC_NAMES: [&str; 5] = [TRAFFIC[0].0, TRAFFIC[1].0, TRAFFIC[2].0, TRAFFIC[3].0, TRAFFIC[4].0];

/// Applications that write at both ends.
#[derive(Clone, Copy, Debug)]
pub struct RequestReply;

impl Experiment for RequestReply {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/request-reply.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let run = exchange(point).run(seed);
        let mut samples = Samples::new();
        for delay in run.messages.iter().flatten().flatten() {
            samples.tally(MESSAGE, *delay);
        }
        for delay in run.exchanges.iter().flatten() {
            samples.tally(EXCHANGE, *delay);
        }
        let messages = run.messages.iter().flatten().count();
        let [packets, bytes] = [run.packets, run.bytes].map(|of| as_f64(of[0] + of[1]));
        samples.set(MESSAGES, as_f64(messages));
        samples.set(DELIVERED, as_f64(run.messages.iter().flatten().flatten().count()));
        samples.set(PACKETS, packets);
        samples.set(BYTES, bytes);
        samples.set(PACKETS_EACH, packets / as_f64(messages.max(1)));
        samples.set(BYTES_EACH, bytes / as_f64(messages.max(1)));
        if !run.exchanges.is_empty() {
            samples.set(EXCHANGES, as_f64(run.exchanges.len()));
            samples.set(PACKETS_PER_EXCHANGE, packets / as_f64(run.exchanges.len()));
        }
        samples
    }

    fn is_random(&self, point: &Point) -> bool {
        point.probability("loss") > Probability::ZERO || matches!(pattern(point), Pattern::BothWays { .. })
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        figures::figures(results)
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        &[PACKETS_EACH, BYTES_EACH]
    }

    fn rows(&self, results: &Results) -> Vec<Value> {
        results.points().iter().map(row).collect()
    }
}

fn pattern(point: &Point) -> Pattern {
    let chosen = point.choice("traffic");
    TRAFFIC.iter().find(|(name, _)| *name == chosen).expect("a plan can choose only from these").1
}

fn exchange(point: &Point) -> Exchange {
    // A stack's receiver delays its SACKs; here both ends receive.
    let Stack::Sctp { receiver, .. } = Stack::sctp(Sender::of(point).mechanisms(), point.duration("sack_delay")) else {
        unreachable!("the stack is SCTP")
    };
    Exchange {
        config: *receiver,
        pattern: pattern(point),
        size: usize::try_from(point.bytes("size").bytes()).unwrap_or(usize::MAX),
        rtt: point.duration("rtt"),
        loss: point.probability("loss"),
        warm_up: point.duration("warm_up"),
        duration: point.duration("duration"),
    }
}

/// A number of a point over all repetitions, for each of another one.
fn per(summary: &PointSummary, what: &str, each: &str) -> Option<f64> {
    let each = total(summary, each);
    (each > 0.0).then(|| total(summary, what) / each)
}

/// One element of `results`.
fn row(summary: &PointSummary) -> Value {
    let point = summary.point();
    let delays = |name: &str| summary.series().contains_key(name).then(|| delays_row(summary, name));
    json!({
        "sender": point.choice("sender"),
        "traffic": point.choice("traffic"),
        "rtt_ms": ms(Some(point.duration("rtt"))),
        "loss": point.probability("loss").as_fraction(),
        "messages": total(summary, MESSAGES),
        "delivered": total(summary, DELIVERED),
        "packets_of_both_ends": total(summary, PACKETS),
        "bytes_of_both_ends": total(summary, BYTES),
        "packets_per_message": per(summary, PACKETS, MESSAGES),
        "bytes_per_message": per(summary, BYTES, MESSAGES),
        "packets_per_exchange": per(summary, PACKETS, EXCHANGES),
        "message_ms": delays(MESSAGE),
        "exchange_ms": delays(EXCHANGE),
    })
}
