//! Common parts of R12's experiments: its network and traffic (R12 §III-B), its senders, and the measured values.

mod chart;

use festina_models::record::Truth;
use festina_models::sctp_host::{Delivery, Important};
use festina_models::workload::Poisson;
use festina_netsim::QueueLimit;
use festina_recovery::Profile;
use festina_sctp::{Config, CongestionControl, Expiry, Limits, PartialReliability};
use festina_units::{ByteCount, Duration, Probability};

use crate::count::as_f64;
use crate::plan::{Point, Value};
use crate::samples::Samples;
use crate::scenario::contended::Contended;
use crate::scenario::mixture::Mixture;
use crate::summary::{PointSummary, Repeated, Results};

pub(super) use chart::chart;

/// Delay from the moment at which the application has an important message to its delivery. Undelivered messages have none.
pub(super) const IMPORTANT: &str = "important";
/// The same of the others.
pub(super) const NORMAL: &str = "normal";
/// Shares of these that were delivered.
pub(super) const IMPORTANT_DELIVERED: &str = "important delivered %";
pub(super) const NORMAL_DELIVERED: &str = "normal delivered %";
/// Packets and chunks of the sender.
const PACKETS: &str = "packets sent";
const FORWARD_TSNS: &str = "FORWARD-TSN sent";
const TIMEOUTS: &str = "timeouts";
const RESENT: &str = "chunks retransmitted";
/// Of the messages that left, the share whose first copy did not arrive.
pub(super) const FIRST_LOST: &str = "messages lost at first %";
/// Bytes of the sender's packets with their IP headers for each byte of payload.
pub(super) const OVERHEAD: &str = "bytes sent per byte";
const LOSS: &str = "packets dropped %";
/// Losses that the association has for each megabyte of its payload, and the greedy flows for each of theirs, whose packets are full.
pub(super) const LOSSES_PER_MB: &str = "packets lost per MB";
pub(super) const TCP_LOSSES_PER_MB: &str = "TCP segments lost per MB";
const TCP_SEGMENT_BYTES: f64 = 1_448.0;
const TCP: &str = "TCP Mbit/s";
/// The mean delay of important messages in the last third of the run, over that in the first third: above 1 if messages queue up while it lasts.
pub(super) const LAST_OVER_FIRST: &str = "important delay last over first third";

/// MTU 1500 less the IPv4 header.
const PACKET_BYTES_MAX: usize = 1_480;
const IPV4_BYTES: u64 = 20;
/// What chunks fill of a packet.
pub(super) const CHUNK_BYTES_MAX: usize = PACKET_BYTES_MAX - COMMON_HEADER_BYTES;
const COMMON_HEADER_BYTES: usize = 12;
/// Large enough for every message that waits.
const SEND_BUFFER_BYTES: usize = 64 << 20;
/// What FreeBSD 8.2 takes of messages until they are acknowledged: an eighth of the mbuf clusters that it has with 768 MB of memory or more
/// (`sctp_init`, `tunable_mbinit`, `init_param2`), and by default as much payload as fits into SB_MAX, 256 KiB, with the overhead of clusters.
const FREEBSD_CHUNKS: u64 = 3_200;
const FREEBSD_SEND_BUFFER: ByteCount = ByteCount::from_bytes(233_016);

/// The sender that R12 measured.
pub(super) const OF_2012: &str = "2012";
/// The same with what R12 proposes.
pub(super) const NR_SACK: &str = "2012+nr-sack";
/// The sender that R12 measured, with the chunk that R12 §IV and R15 mention and do not specify (docs/enhanced-forward-tsn.md).
pub(super) const ENHANCED: &str = "2012+e-forward-tsn";
/// The same with NR-SACK as well.
pub(super) const BOTH: &str = "2012+both";
/// Beyond: messages that expire in the send buffer never leave.
pub(super) const LATE_TSN: &str = "late-tsn";
/// Beyond: messages are abandoned at their deadline, on their way too.
pub(super) const DEADLINE: &str = "deadline";
/// Beyond: all of that with Festina's recovery and congestion control.
pub(super) const FESTINA: &str = "festina";
/// The same with E-FORWARD-TSN.
const FESTINA_ENHANCED: &str = "festina+e-forward-tsn";

const NORMALLY: &str = "normal";
const ON: &str = "on";
const RESENT_ONLY: &str = "resent";
/// A parameter of `r12-fig7`: whether messages that expire in the send buffer never leave, whichever sender it is.
pub(super) const LATE_BINDING: &str = "late_binding";

/// Important messages over their share, a curve for each sender, at the points that are shown. `None` if they have one sender alone.
pub(super) fn chart_by_sender(
    results: &Results,
    title: &str,
    is_shown: impl Fn(&Point) -> bool,
) -> Option<crate::figure::Figure> {
    let figure = chart(results, title, |summary| {
        let point = summary.point();
        is_shown(point).then(|| point.choice("sender").to_owned())
    })?;
    (figure.points.len() > 1).then_some(figure)
}

/// Whether the sender has Festina's loss recovery and congestion control.
fn is_festina(sender: &str) -> bool {
    matches!(sender, FESTINA | FESTINA_ENHANCED)
}

/// The settings of both ends.
pub(super) fn ends(sender: &str) -> [Config; 2] {
    let partial_reliability = PartialReliability {
        expiry: match sender {
            OF_2012 | NR_SACK | ENHANCED | BOTH => Expiry::WhenMissing,
            LATE_TSN => Expiry::BeforeTransmission,
            DEADLINE => Expiry::AtOnce,
            _ => Expiry::WhenOverdue,
        },
        nr_sack: !matches!(sender, OF_2012 | ENHANCED),
        enhanced_forward_tsn: matches!(sender, ENHANCED | BOTH | FESTINA_ENHANCED),
    };
    let profile = if is_festina(sender) { Profile::Festina } else { Profile::Rfc9260 };
    [profile, Profile::Rfc9260].map(|profile| {
        let mut config = Config { partial_reliability, peer_timeout: None, ..Config::published(profile) };
        if profile != Profile::Festina {
            config.congestion = CongestionControl::Rfc4960;
        }
        limit(&mut config);
        config
    })
}

/// Packets of the network's size, and room for every message that waits.
pub(super) fn limit(config: &mut Config) {
    config.limits.packet_bytes_max = PACKET_BYTES_MAX;
    config.limits.send_buffer_bytes = SEND_BUFFER_BYTES;
}

/// The settings of FreeBSD 8.2 for messages of this size.
pub(super) fn limit_as_freebsd(config: &mut Config, size: ByteCount) {
    take(config, size, FREEBSD_CHUNKS, FREEBSD_SEND_BUFFER);
}

/// Makes the application wait while this number of messages of this size, or this number of bytes, is not acknowledged.
fn take(config: &mut Config, size: ByteCount, messages: u64, send_buffer: ByteCount) {
    let messages = messages.min(send_buffer.bytes() / size.bytes().max(1)).max(1);
    let message_bytes = size.bytes().saturating_add(Limits::MESSAGE_OVERHEAD_BYTES as u64);
    let buffer_bytes = message_bytes.saturating_mul(messages).min(SEND_BUFFER_BYTES as u64);
    config.limits.send_buffer_bytes = usize::try_from(buffer_bytes).unwrap_or(SEND_BUFFER_BYTES);
    // It continues as soon as another one fits.
    config.limits.send_low_water_bytes =
        usize::try_from(buffer_bytes.saturating_sub(message_bytes)).unwrap_or_default();
}

/// Whether messages wait until they fill a packet. Festina's never do.
fn gathers(point: &Point) -> bool {
    point.choice("nagle") == ON && !is_festina(point.choice("sender"))
}

/// What a point describes.
pub(super) fn mixture(point: &Point) -> Mixture {
    let [mut sender, receiver] = ends(point.choice("sender"));
    let (size, rate) = (point.bytes("size"), point.bandwidth("rate"));
    // A fifth of the bottleneck.
    let load = f64::from(point.probability("load").ppb()) / 1e9;
    let load_bps = load * as_f64(rate.bits_per_second()) / 5.0;
    let seconds = |bytes: ByteCount| Duration::from_secs_f64(as_f64(bytes.bytes() * 8) / load_bps.max(1.0));
    let is_fixed = point.choice("sizes") != NORMALLY;
    if point.choice("gives_up") == RESENT_ONLY && sender.partial_reliability.expiry == Expiry::WhenMissing {
        sender.partial_reliability.expiry = Expiry::BeforeRetransmission;
    }
    if point.value(LATE_BINDING).is_some() && point.choice(LATE_BINDING) == ON {
        let expires_late =
            matches!(sender.partial_reliability.expiry, Expiry::WhenMissing | Expiry::BeforeRetransmission);
        if expires_late {
            sender.partial_reliability.expiry = Expiry::BeforeTransmission;
        }
    }
    if !is_festina(point.choice("sender")) {
        take(&mut sender, size, point.count("unacknowledged"), point.bytes("send_buffer"));
    }
    Mixture {
        sender,
        receiver,
        workload: Poisson {
            interval_mean: seconds(size),
            size,
            size_deviation: if is_fixed { ByteCount::ZERO } else { ByteCount::from_bytes(size.bytes() / 5) },
        },
        delivery: Delivery {
            unordered: true,
            lifetime: Some(point.duration("lifetime_normal")),
            important: Some(Important {
                share: point.probability("important"),
                lifetime: Some(point.duration("lifetime_important")),
            }),
            gathers: gathers(point).then_some(CHUNK_BYTES_MAX),
            replaces: false,
        },
        duration: seconds(point.bytes("volume")),
        network: network(point, Probability::ZERO),
    }
}

/// The bottlenecks of a point, and what else crosses them.
pub(super) fn network(point: &Point, loss: Probability) -> Contended {
    let queue = point.bytes("queue");
    let packets = usize::try_from(queue.bytes().div_ceil(1_500)).unwrap_or(usize::MAX);
    Contended {
        hops: point.count("hops"),
        rate: point.bandwidth("rate"),
        queue: if point.choice("buffering") == "bytes" {
            QueueLimit::bytes_as_dummynet(queue)
        } else {
            QueueLimit::packets(packets)
        },
        loss,
        rtt: point.duration("rtt"),
        greedy: point.count("flows"),
    }
}

/// Runs a point.
pub(super) fn run(point: &Point, seed: u64) -> Samples {
    let run = mixture(point).run(seed);
    let important = Some(point.duration("lifetime_important"));
    let mut samples = Samples::new();
    let mut counts = [[0_u64; 2]; 2];
    for message in &run.truth.messages {
        let (series, class) = if message.lifetime == important { (IMPORTANT, 0) } else { (NORMAL, 1) };
        counts[class][0] += 1;
        if let Some(delivered_at) = message.delivered_at {
            counts[class][1] += 1;
            samples.tally(series, delivered_at - message.due_at);
        }
    }
    for ([written, delivered], name) in counts.into_iter().zip([IMPORTANT_DELIVERED, NORMAL_DELIVERED]) {
        if written > 0 {
            samples.set(name, as_f64(delivered) / as_f64(written) * 100.0);
        }
    }
    if let Some(ratio) = last_over_first(&run.truth, important) {
        samples.set(LAST_OVER_FIRST, ratio);
    }
    let arrived = run.truth.messages.iter().filter(|message| message.delivered_by == Some(0)).count();
    let payload: usize = run.truth.messages.iter().map(|message| message.bytes).sum();
    let sent = &run.sender.sent;
    let left = as_f64(run.truth.first_transmissions).max(1.0);
    samples.set(FIRST_LOST, (1.0 - as_f64(arrived) / left) * 100.0);
    samples.set(OVERHEAD, as_f64(sent.bytes + sent.packets * IPV4_BYTES) / as_f64(payload).max(1.0));
    samples.set(PACKETS, as_f64(sent.packets));
    samples.set(FORWARD_TSNS, as_f64(sent.forward_tsns));
    samples.set(TIMEOUTS, as_f64(sent.timeouts));
    samples.set(RESENT, as_f64(run.truth.retransmissions.len()));
    samples.set(LOSS, run.dropped * 100.0);
    let lost_packets = as_f64(sent.packets) * (1.0 - as_f64(arrived) / left);
    samples.set(LOSSES_PER_MB, lost_packets / as_f64(payload).max(1.0) * 1e6);
    samples.set(TCP_LOSSES_PER_MB, run.dropped / TCP_SEGMENT_BYTES * 1e6);
    samples.set(TCP, run.tcp_bps / 1e6);
    samples
}

/// The mean delay of the last third of the delivered messages with this lifetime, by when they were due, over that of the first third.
fn last_over_first(truth: &Truth, lifetime: Option<Duration>) -> Option<f64> {
    let delivered = truth.messages.iter().filter(|message| message.lifetime == lifetime);
    let delays: Vec<f64> =
        delivered.filter_map(|message| Some((message.delivered_at? - message.due_at).as_secs_f64())).collect();
    let third = delays.len() / 3;
    let mean = |delays: &[f64]| delays.iter().sum::<f64>() / as_f64(delays.len());
    let ratio = mean(delays.get(delays.len() - third..)?) / mean(delays.get(..third)?);
    ratio.is_finite().then_some(ratio)
}

/// Numbers shown next to the delays of a point.
pub(super) const BESIDE_DELAYS: &[&str] = &[IMPORTANT_DELIVERED, NORMAL_DELIVERED, FORWARD_TSNS, TIMEOUTS, LOSS];

/// The average delay of important messages, in seconds, once per repetition.
pub(super) fn average(summary: &PointSummary) -> Option<&Repeated> {
    summary.series().get(IMPORTANT).map(crate::summary::SeriesSummary::mean_s)
}

/// The values that a parameter has in a run, in the order of the plan.
pub(super) fn values(results: &Results, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for value in
        results.points().iter().filter_map(|summary| summary.point().value(name)).map(|it: Value| it.to_string())
    {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}
