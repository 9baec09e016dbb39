//! `md1`: the waiting time in front of a drop-tail link against the closed form.

use std::time::Duration;

use festina_netsim::{Admission, Link, LinkConfig, LinkPacket, QueueLimit, RandomStream};
use festina_units::{ByteCount, Instant};

use crate::count::as_f64;
use crate::evidence::Estimate;
use crate::experiment::{Description, Experiment};
use crate::plan::{Point, definition};
use crate::samples::{Sample, Samples};
use crate::scoreboard::Entry;
use crate::summary::Results;

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

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        let entries = results.points().iter().flat_map(|summary| {
            let label = results.plan().label(summary.point());
            let closed_form = ClosedForm::of(summary.point());
            let mean_us = summary.series().get(WAITING).map(|waits| waits.mean_s().map(|mean_s| mean_s * 1e6));
            let mean_us = mean_us.as_ref().and_then(Estimate::of);
            let share = summary.values().get(SHARE_WITHOUT_WAIT).and_then(Estimate::of);
            [
                Entry::value(format!("mean waiting time, {label}"), "µs", closed_form.mean_wait_s * 1e6, mean_us),
                Entry::value(format!("share that does not wait, {label}"), "", closed_form.share_without_wait, share),
            ]
        });
        entries.collect()
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
