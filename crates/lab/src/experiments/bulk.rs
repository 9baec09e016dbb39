//! `bulk`: goodput of an association that always has data to send, alone and next to other flows, and its effect on thin streams.

mod figures;
pub(super) mod flow;
mod transfer;

use festina_models::sctp_host::CompanionDelivery;
use festina_netsim::Reordering;
use festina_sctp::StreamScheduler;
use festina_units::Duration;

use crate::count::as_f64;
use crate::experiment::{Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::summary::Results;
use flow::{Flow, PACKET_BYTES};
use transfer::{SLICE, Transfer, Transferred};

/// Payload after the warm-up.
const GOODPUT: &str = "goodput Mbit/s";
/// The goodput over the rate of the link.
const LINK_SHARE: &str = "share of the link %";
const RIVAL: &str = "goodput of the rival Mbit/s";
/// The goodput over half of what both flows have.
const FAIR_SHARE: &str = "share of the fair share";
/// Of both flows.
const JAIN: &str = "Jain's index";
/// How long it takes to come to 85 and 60 % of the link, in seconds; not there if it does not.
const TIME_TO_85: &str = "s to 85% of the link";
const TIME_TO_60: &str = "s to 60% of the link";
/// Whether it does: 1 or 0.
const REACHES_85: &str = "85% of the link reached";
const REACHES_60: &str = "60% of the link reached";
/// Of the packets offered to the bottleneck after the warm-up.
const LOSS: &str = "packets lost %";
const UNDELIVERED: &str = "undelivered thin messages";
/// From when a thin stream has a message to its delivery.
const WITHIN: &str = "thin within";
const BESIDE: &str = "thin beside";

/// A share of the link is reached when the goodput of this much time is above it.
const SPAN: Duration = Duration::from_secs(5);

/// No rival.
const NONE: &str = "none";
/// A rival like the sender.
const ITSELF: &str = "itself";
const RIVALS: &[&str] = &[NONE, flow::CUBIC, flow::NEW_RENO, ITSELF];

const QUEUES: &[&str] = &[
    "0.1 BDP",
    "0.2 BDP",
    "0.5 BDP",
    "1 BDP",
    "2 BDP",
    "4 BDP",
    "10 packets",
    "20 packets",
    "50 packets",
    "100 packets",
];

const IN_TURN: &str = "round-robin";

/// A greedy association.
#[derive(Clone, Copy, Debug)]
pub struct Bulk;

impl Experiment for Bulk {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/bulk.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let transfer = transfer(point);
        measured(&transfer, &transfer.run(seed))
    }

    fn is_random(&self, point: &Point) -> bool {
        transfer(point).is_random()
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        figures::figures(results)
    }
}

fn transfer(point: &Point) -> Transfer {
    let (rate, rtt) = (point.bandwidth("rate"), point.duration("rtt"));
    let bits_per_second = as_f64(rate.bits_per_second());
    let bdp_packets = bits_per_second * rtt.as_secs_f64() / f64::from(PACKET_BYTES * 8);
    let queue_packets = queue_packets(point.choice("queue"), bdp_packets);
    let path_bytes = (packets(bdp_packets) + as_count(queue_packets)) * u64::from(PACKET_BYTES);
    let in_turn = point.choice("scheduler") == IN_TURN;
    let scheduler = if in_turn { StreamScheduler::RoundRobin } else { StreamScheduler::FirstComeFirstServed };
    let flow = |name| Flow::named(name, scheduler, path_bytes);
    let volume_s = as_f64(point.bytes("volume").bytes() * 8) / bits_per_second;
    let duration = point.duration("duration").min(Duration::from_secs_f64(volume_s));
    Transfer {
        flow: flow(point.choice("sender")),
        rival: match point.choice("rival") {
            NONE => None,
            ITSELF => Some(flow(point.choice("sender"))),
            rival => Some(flow(rival)),
        },
        rate,
        rtt,
        queue_packets,
        loss: point.probability("loss"),
        reordering: Reordering { probability: point.probability("reordered"), hold_back: point.duration("held_back") },
        duration,
        warm_up: point.duration("warm_up").min(duration / 2),
    }
}

/// What one of [`QUEUES`] holds on a path that holds `bdp_packets`; at least one.
fn queue_packets(queue: &str, bdp_packets: f64) -> usize {
    let (number, unit) = queue.split_once(' ').expect("each queue has a number and a unit");
    let number: f64 = number.parse().expect("the number is one");
    let count = packets(if unit == "BDP" { number * bdp_packets } else { number });
    usize::try_from(count).expect("a queue fits into memory")
}

/// The nearest whole number of packets, at least one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates and times of a plan have limits")]
fn packets(count: f64) -> u64 {
    count.round().max(1.0) as u64
}

fn as_count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn measured(transfer: &Transfer, transferred: &Transferred) -> Samples {
    let rate = as_f64(transfer.rate.bits_per_second());
    let first = usize::try_from(transfer.warm_up.as_nanos() / SLICE.as_nanos()).unwrap_or(usize::MAX);
    let goodput = |bytes: &[u64]| mean_bps(bytes.get(first..).unwrap_or_default());
    let own = goodput(&transferred.bytes);
    let mut samples = Samples::new();
    samples.set(GOODPUT, own / 1e6);
    samples.set(LINK_SHARE, own / rate * 100.0);
    if transfer.rival.is_some() {
        let other = goodput(&transferred.rival_bytes);
        samples.set(RIVAL, other / 1e6);
        // Nothing at all is shared as unevenly as can be.
        let sum = own + other;
        samples.set(FAIR_SHARE, if sum > 0.0 { 2.0 * own / sum } else { 0.0 });
        samples.set(JAIN, if sum > 0.0 { sum.powi(2) / (2.0 * (own.powi(2) + other.powi(2))) } else { 0.0 });
    } else {
        for (name, reaches, share) in [(TIME_TO_85, REACHES_85, 0.85), (TIME_TO_60, REACHES_60, 0.6)] {
            let time = time_to(&transferred.bytes, share * rate);
            samples.set(reaches, if time.is_some() { 1.0 } else { 0.0 });
            if let Some(time) = time {
                samples.set(name, time.as_secs_f64());
            }
        }
    }
    samples.set(LOSS, transferred.loss * 100.0);
    let mut undelivered = 0_u32;
    for (name, deliveries) in [(WITHIN, &transferred.within), (BESIDE, &transferred.beside)] {
        for CompanionDelivery { due_at, delivered_at, .. } in deliveries {
            match delivered_at {
                Some(at) => samples.tally(name, *at - *due_at),
                None => undelivered += 1,
            }
        }
    }
    samples.set(UNDELIVERED, undelivered.into());
    samples
}

/// Bits per second over all these slices.
fn mean_bps(bytes: &[u64]) -> f64 {
    let slices = as_f64(bytes.len().max(1));
    as_f64(bytes.iter().sum::<u64>() * 8) / (slices * SLICE.as_secs_f64())
}

/// When the first [`SPAN`] with more than `bps` begins.
fn time_to(bytes: &[u64], bps: f64) -> Option<Duration> {
    let slices = usize::try_from(SPAN.as_nanos() / SLICE.as_nanos()).expect("a span has a few slices");
    let index = bytes.windows(slices).position(|span| mean_bps(span) > bps)?;
    Some(SLICE * u32::try_from(index).ok()?)
}

#[cfg(test)]
mod tests;
