//! `md1`: the waiting time in front of a drop-tail link against the closed form.

use std::time::Duration;

use festina_netsim::{Admission, Link, LinkConfig, LinkPacket, QueueLimit, RandomStream};
use festina_units::{ByteCount, Instant};

use crate::count::as_f64;
use crate::experiment::{Comparison, Description, Experiment};
use crate::plan::{Point, definition};
use crate::samples::{Sample, Samples};
use crate::summary::{PointSummary, Results};

const WAITING: &str = "waiting";
const SHARE_WITHOUT_WAIT: &str = "share without wait";

/// The waiting time of packets of equal size that arrive at random (M/D/1).
#[derive(Clone, Copy, Debug)]
pub struct Md1;

impl Experiment for Md1 {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/md1.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let service = service_time(point);
        let gap_mean = service.div_f64(point.probability("load").as_fraction());
        let mut gaps = RandomStream::new(seed, "arrivals");
        let mut link = Link::new(link_config(point), seed, "link");
        let mut samples = Samples::new();
        let mut without_wait = 0u32;
        let mut now = Instant::ZERO;
        let mut collect = |link: &mut Link<Packet>, until: Instant| {
            while let Some((arrival, packet)) = link.poll_timed_delivery(until) {
                let waited = arrival.saturating_duration_since(packet.sent_at).saturating_sub(service);
                without_wait += u32::from(waited.is_zero());
                samples.record(WAITING, Sample { sent_at: packet.sent_at, delay: waited });
            }
        };
        for _ in 0..point.count("packets") {
            now += gaps.exponential(gap_mean);
            let admission = link.send(now, Packet { size: point.bytes("packet"), sent_at: now });
            assert_eq!(admission, Admission::Accepted, "the queue has room for a million packets, and nothing is lost");
            collect(&mut link, now);
        }
        collect(&mut link, Instant::MAX);
        samples.set(SHARE_WITHOUT_WAIT, f64::from(without_wait) / as_f64(point.count("packets")));
        samples
    }

    fn comparisons(&self, results: &Results) -> Vec<Comparison> {
        let mut comparisons = Vec::new();
        for summary in results.points() {
            let label = results.plan().label(summary.point());
            let comparison = |what: &str, unit, published, measured| Comparison {
                what: format!("{what}, {label}"),
                unit,
                published,
                measured,
                why: None,
            };
            let closed_form = ClosedForm::of(summary.point());
            let mean_us = mean_wait_s(summary).map(|mean_s| mean_s * 1e6);
            comparisons.push(comparison("mean waiting time", "µs", closed_form.mean_wait_s * 1e6, mean_us));
            let share = share_without_wait(summary);
            comparisons.push(comparison("share that does not wait", "", closed_form.share_without_wait, share));
        }
        comparisons
    }
}

/// A packet that is nothing but its size, and remembers when it set out.
#[derive(Clone, Copy, Debug)]
struct Packet {
    size: ByteCount,
    sent_at: Instant,
}

impl LinkPacket for Packet {
    fn size(&self) -> ByteCount {
        self.size
    }

    /// There is nothing in it to damage.
    fn corrupt(&mut self, _entropy: u64) {}
}

fn link_config(point: &Point) -> LinkConfig {
    LinkConfig {
        rate: Some(point.bandwidth("rate")),
        queue: QueueLimit::packets(QueueLimit::PACKETS_MAX),
        ..LinkConfig::default()
    }
}

fn service_time(point: &Point) -> Duration {
    point.bandwidth("rate").transmission_time(point.bytes("packet"))
}

/// What theory says.
struct ClosedForm {
    mean_wait_s: f64,
    share_without_wait: f64,
}

impl ClosedForm {
    fn of(point: &Point) -> Self {
        let load = point.probability("load").as_fraction();
        let mean_wait_s = service_time(point).as_secs_f64() * load / (2.0 * (1.0 - load));
        Self { mean_wait_s, share_without_wait: 1.0 - load }
    }
}

fn mean_wait_s(summary: &PointSummary) -> Option<f64> {
    summary.series().get(WAITING)?.mean_s().mean()
}

fn share_without_wait(summary: &PointSummary) -> Option<f64> {
    summary.values().get(SHARE_WITHOUT_WAIT)?.mean()
}
