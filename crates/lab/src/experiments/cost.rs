//! `cost`: the packets and bytes of both ends that a sender spends on a thin stream, against the delay that they buy; and `repair`, the same over the
//! kinds of loss that a sender has to repair.

pub(super) mod figures;
mod stream;

use std::ops::Range;

use festina_netsim::{LossModel, RandomStream};
use festina_units::{Duration, Probability};
use serde_json::{Value, json};

use crate::count::as_f64;
use crate::experiment::{Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::fate::{BYTES_EACH, DELIVERED, DELIVERY, MESSAGES, PACKETS_EACH, delays_row, ms, total};
use crate::scenario::{Sender, Stack};
use crate::summary::{PointSummary, Results};
use stream::{Priced, Sent, bursts, independent};

/// What each end sent for the messages.
const PACKETS_THERE: &str = "packets there";
const PACKETS_BACK: &str = "packets back";
const BYTES_THERE: &str = "bytes there";
const BYTES_BACK: &str = "bytes back";

const INDEPENDENT: &str = "independent";
const BURSTS: &str = "bursts";
const PAIRS: &str = "pairs";
const CHANGE: &str = "change";

/// For how long messages are written after losses have begun.
const CHANGED_FOR: Duration = Duration::from_secs(10);
/// The times after the change, in milliseconds, whose messages make a series each.
const WINDOWS_MS: [Range<u64>; 5] = [0..500, 500..1_000, 1_000..2_000, 2_000..5_000, 5_000..10_000];

/// What a thin stream costs.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    plan: &'static str,
}

impl Cost {
    /// `cost`: every sender.
    pub const COST: Self = Self { plan: include_str!("../../../../experiments/cost.toml") };
    /// `repair`: ways to repair losses, by interval, loss, burst and round-trip time.
    pub const REPAIR: Self = Self { plan: include_str!("../../../../experiments/repair.toml") };
}

impl Experiment for Cost {
    fn description(&self) -> Description {
        definition::of(self.plan).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        if point.choice("pattern") == CHANGE { changes(point, seed) } else { steady(point, seed) }
    }

    fn is_random(&self, point: &Point) -> bool {
        point.probability("loss") > Probability::ZERO
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

/// The stream of a point under a lasting loss.
fn priced(point: &Point) -> Priced {
    let loss = point.probability("loss");
    let loss = match point.choice("pattern") {
        BURSTS => bursts(loss, point.duration("burst")),
        PAIRS => bursts(loss, point.duration("iat") * 2),
        _ => independent(loss),
    };
    let messages = u32::try_from(point.count("messages")).unwrap_or(u32::MAX);
    Priced {
        stack: Stack::sctp(Sender::of(point).mechanisms(), point.duration("sack_delay")),
        interval: point.duration("iat"),
        size: point.bytes("size"),
        rtt: point.duration("rtt"),
        loss_before: loss.clone(),
        loss,
        warm_up: point.duration("warm_up"),
        duration: point.duration("iat") * messages,
    }
}

/// One long run.
fn steady(point: &Point, seed: u64) -> Samples {
    let price = priced(point).run(seed);
    let mut samples = Samples::new();
    for delay in price.messages.iter().filter_map(|(_, delay)| *delay) {
        samples.tally(DELIVERY, delay);
    }
    let delivered = price.messages.iter().filter(|(_, delay)| delay.is_some()).count();
    set_costs(&mut samples, [price.messages.len(), delivered], price.there, price.back);
    samples
}

/// Many short runs in which losses begin.
fn changes(point: &Point, seed: u64) -> Samples {
    let priced = Priced { loss_before: LossModel::None, duration: CHANGED_FOR, ..priced(point) };
    let mut seeds = RandomStream::new(seed, "trials");
    let mut samples = Samples::new();
    let (mut counts, mut there, mut back) = ([0, 0], Sent::default(), Sent::default());
    for _ in 0..point.count("trials") {
        let price = priced.run(seeds.bits());
        there += price.there;
        back += price.back;
        for (after, delay) in price.messages {
            counts[0] += 1;
            let Some(delay) = delay else { continue };
            counts[1] += 1;
            samples.tally(DELIVERY, delay);
            let is_in = |window: &&Range<u64>| window.contains(&u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
            if let Some(window) = WINDOWS_MS.iter().find(is_in) {
                samples.tally(&window_name(window), delay);
            }
        }
    }
    set_costs(&mut samples, counts, there, back);
    samples
}

/// The series of the messages that were due so long after the change.
fn window_name(window: &Range<u64>) -> String {
    let seconds = |ms: u64| as_f64(ms) / 1e3;
    format!("{} to {} s after", seconds(window.start), seconds(window.end))
}

fn set_costs(samples: &mut Samples, [messages, delivered]: [usize; 2], there: Sent, back: Sent) {
    let each = as_f64(messages.max(1));
    for (name, value) in [
        (MESSAGES, as_f64(messages)),
        (DELIVERED, as_f64(delivered)),
        (PACKETS_THERE, as_f64(there.packets)),
        (PACKETS_BACK, as_f64(back.packets)),
        (BYTES_THERE, as_f64(there.bytes)),
        (BYTES_BACK, as_f64(back.bytes)),
        (PACKETS_EACH, as_f64(there.packets + back.packets) / each),
        (BYTES_EACH, as_f64(there.bytes + back.bytes) / each),
    ] {
        samples.set(name, value);
    }
}

/// What a point costs for one message: packets and bytes of both ends.
fn costs(summary: &PointSummary) -> [f64; 2] {
    let each = |there, back| (total(summary, there) + total(summary, back)) / total(summary, MESSAGES);
    [each(PACKETS_THERE, PACKETS_BACK), each(BYTES_THERE, BYTES_BACK)]
}

/// One element of `results`.
fn row(summary: &PointSummary) -> Value {
    let point = summary.point();
    let delays = |name: &str| {
        let mut row = delays_row(summary, name);
        row["messages"] = summary.series().get(name).map_or(0, |series| series.all().count()).into();
        row
    };
    let [packets, bytes] = costs(summary);
    let after: Vec<Value> = WINDOWS_MS
        .iter()
        .filter(|window| summary.series().contains_key(&window_name(window)))
        .map(|window| json!({ "from_ms": window.start, "to_ms": window.end, "delivery_ms": delays(&window_name(window)) }))
        .collect();
    json!({
        "sender": point.choice("sender"),
        "rtt_ms": ms(Some(point.duration("rtt"))),
        "iat_ms": ms(Some(point.duration("iat"))),
        "loss": point.probability("loss").as_fraction(),
        "pattern": point.choice("pattern"),
        "messages": total(summary, MESSAGES),
        "delivered": total(summary, DELIVERED),
        "packets_there": total(summary, PACKETS_THERE),
        "packets_back": total(summary, PACKETS_BACK),
        "bytes_there": total(summary, BYTES_THERE),
        "bytes_back": total(summary, BYTES_BACK),
        "packets_per_message": packets,
        "bytes_per_message": bytes,
        "delivery_ms": delays(DELIVERY),
        "after_the_change": after,
    })
}
