//! One point of the plan, measured on two hosts that exist for as long as that takes.

use std::net::{TcpListener, UdpSocket};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use festina_emulate::TunCounters;
use festina_emulate::hosts::Hosts;
use festina_lab::plan::Point;
use festina_lab::samples::Samples;
use festina_minbuf::{MinBuf, SendBufferLimit, SenderShare};
use festina_netsim::{LinkConfig, QueueLimit};
use festina_units::Bandwidth;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::hosts::{at_work, milliseconds, prepare, server_address};
use super::super::lateness;
use super::receiver::{Received, receive};
use super::sender::{CrossTraffic, Limit, Load};
use super::{
    ALL_THERE, DROPPED, ELEPHANTS_MBITS, LATENCY, MAX_MS, MEAN_MS, MICE_MBITS, MICE_SHARE, OVER_BUDGET, Profile,
    SENDER_MS, SENDER_P90_MS, THROUGHPUT, WITHIN_200, WITHIN_500, mice,
};

/// The ports on the receiver's host, which is used by this run alone.
const PORT: u16 = 7_000;
const DATAGRAM_PORT: u16 = 7_001;
/// The packets that queues in packets are counted in.
const PACKET_BYTES: u128 = 1_500;
/// The fewest packets that a queue holds.
const QUEUE_PACKETS_MIN: u128 = 4;
/// How long data may wait in the buffer with a target.
const TARGET: Duration = Duration::from_millis(50);
/// Both hosts are running before the profile begins.
const LEAD: Duration = Duration::from_millis(100);

/// Measures a point once: the seed decides when flows begin.
pub(in crate::real) fn measure(point: &Point, seed: u64) -> Result<Samples> {
    let hosts = Hosts::create(links(point), seed, None)?;
    prepare(&hosts, &[])?;
    let bound = hosts.server().run(|| {
        // The datagrams' socket fills up, and nothing comes back for them.
        Ok::<_, std::io::Error>((
            TcpListener::bind(server_address(PORT))?,
            UdpSocket::bind(server_address(DATAGRAM_PORT))?,
        ))
    });
    let (listener, _datagrams) = bound.context("cannot enter a namespace")?.context("cannot listen")?;
    let profile = Profile { begins: Instant::now() + LEAD, lasts: point.duration("duration") };
    let load = Load {
        to: server_address(PORT),
        datagrams_to: server_address(DATAGRAM_PORT),
        profile,
        limit: limit(point),
        congestion: point.choice("congestion"),
        cross: cross_traffic(point),
        seed,
    };
    let (alive, sender) = oneshot::channel();
    let (received, share) = thread::scope(|scope| {
        let receiving = scope.spawn(|| at_work(receive(listener, profile, sender)));
        let sent = hosts.client().run(|| at_work(load.send())).map_err(anyhow::Error::from).flatten();
        if sent.is_ok() {
            // The receiver cannot have gone unless it failed, which it says itself.
            let _ = alive.send(());
        } else {
            drop(alive);
        }
        let received = receiving.join().unwrap_or_else(|_| Err(anyhow!("the receiver panicked")));
        (received, sent)
    });
    let (share, received) = (share.context("the sender failed")?, received.context("the receiver failed")?);
    let counters = hosts.stop().context("the emulation failed")?;
    let mut samples = Samples::new();
    note_stream(&mut samples, &received, share.as_ref());
    note_surroundings(&mut samples, &received, &counters, profile.lasts);
    samples.set(MICE_SHARE, mice_percent(&received, load.cross.constant, profile.lasts));
    Ok(samples)
}

/// The bottleneck there, and the way back.
fn links(point: &Point) -> (LinkConfig, LinkConfig) {
    let (rate, rtt) = (point.bandwidth("rate"), point.duration("rtt"));
    let bdp_bytes = u128::from(rate.bits_per_second()) * rtt.as_nanos() / 8_000_000_000;
    let packets = bdp_bytes * u128::from(point.probability("queue").ppb()) / 1_000_000_000 / PACKET_BYTES;
    let packets = usize::try_from(packets.max(QUEUE_PACKETS_MIN)).unwrap_or(usize::MAX);
    let back = LinkConfig { delay: rtt / 2, ..LinkConfig::default() };
    (LinkConfig { rate: Some(rate), queue: QueueLimit::packets(packets), ..back.clone() }, back)
}

fn limit(point: &Point) -> Limit {
    let min_buf = |windows, extra_packets| Limit::Library(SendBufferLimit::MinBuf(MinBuf { windows, extra_packets }));
    match point.choice("stream") {
        "m10" => min_buf(1, 0),
        "m13" => min_buf(1, 3),
        "m20" => min_buf(2, 0),
        "target" => Limit::Library(SendBufferLimit::Target(TARGET)),
        "lowat-16k" => Limit::Kernel { lowat_bytes: Some(16 << 10) },
        "lowat-128k" => Limit::Kernel { lowat_bytes: Some(128 << 10) },
        _ => Limit::Kernel { lowat_bytes: None },
    }
}

fn cross_traffic(point: &Point) -> CrossTraffic {
    let bits = u128::from(point.bandwidth("rate").bits_per_second()) * u128::from(point.probability("constant").ppb());
    CrossTraffic {
        elephants: point.count("elephants"),
        mice: mice::count(point).unwrap_or_default().into(),
        mouse_bytes: usize::try_from(point.bytes("mouse").bytes()).unwrap_or(usize::MAX),
        constant: Bandwidth::from_bits_per_second(u64::try_from(bits / 1_000_000_000).unwrap_or(u64::MAX)),
        spread: point.duration("spread"),
    }
}

/// The media stream: how late its packets were, and how long they waited in the send buffer.
fn note_stream(samples: &mut Samples, received: &Received, share: Option<&SenderShare>) {
    let delays = &received.delays;
    let count = delays.len().max(1) as f64;
    let within = |limit_ms| {
        let limit = Duration::from_millis(limit_ms);
        delays.iter().filter(|delay| **delay <= limit).count() as f64 / count
    };
    delays.iter().for_each(|delay| samples.tally(LATENCY, *delay));
    samples.set(WITHIN_200, within(200));
    samples.set(WITHIN_500, within(500));
    samples.set(MEAN_MS, delays.iter().copied().map(milliseconds).sum::<f64>() / count);
    samples.set(MAX_MS, milliseconds(delays.iter().copied().max().unwrap_or_default()));
    let Some(SenderShare { waited, late_packets, .. }) = share else { return };
    if let Some((mean, p90)) = waited.mean().zip(waited.quantile(900)) {
        samples.set(SENDER_MS, milliseconds(mean));
        samples.set(SENDER_P90_MS, milliseconds(p90));
    }
    if let Some(late) = late_packets {
        samples.set(OVER_BUDGET, *late as f64 * 100.0 / waited.packets().max(1) as f64);
    }
}

/// Throughput, and what the network did.
fn note_surroundings(samples: &mut Samples, received: &Received, counters: &TunCounters, lasts: Duration) {
    let mbits = |bytes: u64| bytes as f64 * 8.0 / 1e6 / lasts.as_secs_f64();
    samples.set(THROUGHPUT, mbits(received.media.bytes));
    samples.set(ELEPHANTS_MBITS, mbits(received.elephants.bytes));
    samples.set(MICE_MBITS, mbits(received.mice.bytes));
    let there = counters.forward;
    samples.set(DROPPED, there.queue_dropped as f64 * 100.0 / there.offered.max(1) as f64);
    lateness::note(samples, &counters.lateness);
}

/// The share of the mice while all cross traffic is there: of the payload read, and of the constant bit rate's as it is sent.
fn mice_percent(received: &Received, constant: Bandwidth, lasts: Duration) -> f64 {
    let crowded_s = lasts.as_secs_f64() * f64::from(ALL_THERE.end - ALL_THERE.start) / 80.0;
    let constant_bytes = constant.bits_per_second() as f64 / 8.0 * crowded_s;
    let Received { media, elephants, mice, .. } = received;
    let read_bytes = media.crowded_bytes + elephants.crowded_bytes + mice.crowded_bytes;
    mice.crowded_bytes as f64 * 100.0 / (read_bytes as f64 + constant_bytes).max(1.0)
}

#[cfg(test)]
mod tests {
    use festina_lab::plan::{Plan, Scale};

    use super::super::receiver::Volume;
    use super::*;
    use crate::real::kernel_tcp::Tables;

    #[test]
    fn the_network_is_the_simulators_a_bottleneck_with_a_quarter_of_the_product_in_front_of_it() {
        let points = Plan::own(&Tables, Scale::Full).points();
        let at = |rate: &str, rtt: &str| {
            let is_it = |point: &&Point| {
                point.value("rate").is_some_and(|value| value.to_string() == rate)
                    && point.value("rtt").is_some_and(|value| value.to_string() == rtt)
            };
            links(points.iter().find(is_it).expect("the plan has it"))
        };
        let (there, back) = at("30Mbit/s", "100ms");
        assert_eq!(there.queue, QueueLimit::packets(62));
        assert_eq!((there.delay, back.delay), (Duration::from_millis(50), Duration::from_millis(50)));
        assert_eq!((back.rate, there.rate.map(Bandwidth::bits_per_second)), (None, Some(30_000_000)));
        assert_eq!(at("12Mbit/s", "25ms").0.queue, QueueLimit::packets(6));
    }

    #[test]
    fn shares_and_means_are_those_of_the_packets_that_arrived() {
        let received = Received {
            delays: [100, 200, 300, 600].map(Duration::from_millis).to_vec(),
            media: Volume { bytes: 1_000_000, crowded_bytes: 200_000 },
            elephants: Volume { bytes: 0, crowded_bytes: 300_000 },
            mice: Volume { bytes: 0, crowded_bytes: 400_000 },
        };
        let mut samples = Samples::new();
        note_stream(&mut samples, &received, None);
        note_surroundings(&mut samples, &received, &TunCounters::default(), Duration::from_secs(4));
        let value = |name: &str| samples.values().get(name).copied();
        assert_eq!((value(WITHIN_200), value(WITHIN_500)), (Some(0.5), Some(0.75)));
        assert_eq!((value(MEAN_MS), value(MAX_MS), value(THROUGHPUT)), (Some(300.0), Some(600.0), Some(2.0)));
        assert_eq!(value(SENDER_P90_MS), None);
        // The constant bit rate has 100 kB in 0.9 s, the crowded part of 4 s.
        let share = mice_percent(&received, Bandwidth::from_bits_per_second(888_889), Duration::from_secs(4));
        assert!((share - 40.0).abs() < 0.01, "{share}");
    }
}
