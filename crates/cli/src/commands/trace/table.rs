//! Tables for a terminal of 80 columns.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use festina_lab::traces::{TracePage, times};
use festina_trace::analysis::Summary;
use festina_trace::{Cause, Histogram, StreamReport};

/// The width of everything.
pub(super) const COLUMNS: usize = 80;
/// The width of a stream's ends.
pub(super) const ENDS: usize = 36;
/// The width of a stream's ends in the table of repairs.
const REPAIRED: usize = 17;
/// Rows of the table of ports.
const PORTS_MAX: usize = 10;

/// The report on a capture, with the first `top` streams.
pub(super) fn text(page: &TracePage<'_>, ports: &Ports, top: usize) -> String {
    let streams = page.streams;
    let mut text = heading(page.title, &page.summary);
    if streams.is_empty() {
        return text + "\nNo stream carries data.";
    }
    let _ = writeln!(text, "{}\n", page.verdict());
    text += &ports.text();
    text += &shapes(streams, top);
    text += &repairs(streams, top);
    text += &worst(streams, top);
    text.trim_end().to_owned()
}

fn heading(name: &str, summary: &Summary) -> String {
    let Summary { packets, packets_again, conversations, conversations_without_data, .. } = summary;
    let Summary { conversations_retired, streams, .. } = summary;
    let mut text = format!("{name}\n{packets} packets, {conversations} conversations, {streams} streams with data\n");
    if *conversations_without_data > 0 || *conversations_retired > 0 {
        let _ = writeln!(
            text,
            "{conversations_without_data} conversations without data, {conversations_retired} given up after silence"
        );
    }
    for unread in unread(summary) {
        let _ = writeln!(text, "{unread}");
    }
    if *packets_again > 0 {
        let _ = writeln!(text, "{packets_again} packets are duplicates in the capture and are left out");
    }
    text
}

/// Describes the packets of a capture that were not read, or not decrypted, and streams that the capture shows only in part, if there are any.
pub(super) fn unread(summary: &Summary) -> impl Iterator<Item = String> {
    let Summary { packets, packets_other, packets_encrypted, streams, .. } = *summary;
    let of_streams = [
        (
            summary.streams_one_way,
            "have no acknowledgement in the capture: their packets in flight and delays are unknown",
        ),
        (summary.streams_incomplete, "are incomplete: the capture lacks data that was acknowledged"),
        (
            summary.streams_behind_loss,
            "were captured behind their losses, as at a receiver: causes are unknown, and delays too short",
        ),
    ];
    let of_streams = of_streams.into_iter().filter(|(count, _)| *count > 0);
    [
        (
            packets_other,
            "not read: not TCP, UDP or SCTP, of other link types, without their headers, or fragments of incomplete packets",
        ),
        (
            packets_encrypted,
            "not decrypted and count as UDP: their secrets are unknown (--keys), or they are incomplete",
        ),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(move |(count, what)| format!("{count} of {packets} packets were {what}"))
    .chain(of_streams.map(move |(count, state)| format!("{count} of {streams} streams {state}")))
}

/// Sums over all streams by application port: the smaller one of both ends.
#[derive(Default)]
pub(super) struct Ports(BTreeMap<u16, Port>);

#[derive(Default)]
struct Port {
    streams: u64,
    sizes: Mean,
    gaps_ns: Mean,
    delays_ns: Histogram,
    copies: u64,
    again: u64,
}

/// The part of a histogram that a mean needs.
#[derive(Default)]
struct Mean {
    count: u64,
    sum: f64,
}

impl Mean {
    fn add(&mut self, values: &Histogram) {
        self.count += values.count();
        self.sum += values.mean().unwrap_or(0.0) * values.count() as f64;
    }

    fn value(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

impl Ports {
    pub(super) fn add(&mut self, stream: &StreamReport) {
        let port = self.0.entry(stream.source.port().min(stream.destination.port())).or_default();
        port.streams += 1;
        port.sizes.add(&stream.traffic.payload_bytes);
        port.gaps_ns.add(&stream.traffic.gaps_ns);
        port.delays_ns.merge(stream.delays.best_known_ns());
        port.copies += stream.repair.first_copies + stream.repair.retransmissions();
        port.again += stream.repair.retransmissions();
    }

    /// A row for each of the ports with the most packets.
    fn text(&self) -> String {
        let mut rows: Vec<(&u16, &Port)> = self.0.iter().collect();
        rows.sort_by_key(|(port, row)| (std::cmp::Reverse(row.sizes.count), **port));
        let mut text = format!(
            "{:>6} {:>8} {:>9} {:>8} {:>9} {:>7} {:>8} {:>8} {:>8}\n",
            "port", "streams", "packets", "payload", "gap ms", "resent", "mean ms", "p99 ms", "max ms"
        );
        for (port, row) in rows.iter().take(PORTS_MAX) {
            let resent = if row.copies == 0 { String::new() } else { percent(row.again as f64 / row.copies as f64) };
            let _ = writeln!(
                text,
                "{port:>6} {:>8} {:>9} {:>8} {:>9} {resent:>7} {:>8} {:>8} {:>8}",
                row.streams,
                row.sizes.count,
                row.sizes.value().map_or(String::new(), |mean| format!("{mean:.0}")),
                row.gaps_ns.value().map_or(String::new(), |ns| short(ns / 1e6)),
                row.delays_ns.mean().map_or(String::new(), |ns| short(ns / 1e6)),
                ms(row.delays_ns.percentile(99.0)),
                ms(row.delays_ns.max()),
            );
        }
        text + "\n"
    }
}

/// Sizes and gaps of streams, and for how long they are thin.
fn shapes(streams: &[StreamReport], top: usize) -> String {
    let mut text = format!(
        "{:<ENDS$} {:>7} {:>5} {:>8} {:>7} {:>5} {:>6}\n",
        "stream, longest delay first", "packets", "bytes", "gap ms", "p99", "thin", "RTT ms"
    );
    for stream in streams.iter().take(top) {
        let traffic = &stream.traffic;
        let _ = writeln!(
            text,
            "{:<ENDS$} {:>7} {:>5} {:>8} {:>7} {:>5} {:>6}",
            ends(stream, ENDS),
            traffic.payload_bytes.count(),
            traffic.payload_bytes.mean().map_or(String::new(), |mean| format!("{mean:.0}")),
            traffic.gaps_ns.mean().map_or(String::new(), |ns| short(ns / 1e6)),
            ms(traffic.gaps_ns.percentile(99.0)),
            stream.thinness.share_thin().map_or(String::new(), |share| format!("{:.0} %", 100.0 * share)),
            ms(stream.rtt_ns.min()),
        );
        for path in stream.paths.iter().filter(|_| stream.paths.len() > 1) {
            let pair = format!("  {} > {}", path.source, path.destination);
            let _ = writeln!(
                text,
                "{pair:<ENDS$} {:>7} {} of {} chunks sent again",
                path.packets,
                path.chunks_again,
                path.chunks_first + path.chunks_again
            );
        }
    }
    text + "\n"
}

/// Retransmissions, their causes and their cost.
fn repairs(streams: &[StreamReport], top: usize) -> String {
    let streams: Vec<&StreamReport> =
        streams.iter().filter(|s| s.delays.best_known_ns().count() > 0).take(top).collect();
    if streams.is_empty() {
        return String::new();
    }
    let [timeout, fast, probe, bundled, unknown] = Cause::ALL.map(Cause::name);
    let mut text = format!(
        "{:<REPAIRED$} {:>6} {timeout:>7} {fast:>5} {probe:>5} {bundled:>7} {unknown:>7} {:>5} {:>6} {:>6}\n",
        "stream", "loss", "spur.", "p99 ms", "max ms"
    );
    for stream in streams {
        let [timeout, fast, probe, bundled, unknown] = stream.repair.by_cause;
        let delays = stream.delays.best_known_ns();
        let name = ends(stream, REPAIRED);
        let _ = writeln!(
            text,
            "{name:<REPAIRED$} {:>6} {timeout:>7} {fast:>5} {probe:>5} {bundled:>7} {unknown:>7} {:>5} {:>6} {:>6}",
            stream.repair.loss().map_or(String::new(), percent),
            stream.repair.spurious,
            ms(delays.percentile(99.0)),
            ms(delays.max()),
        );
    }
    text + "\n"
}

/// The longest delays with the numbers of their packets, to look at them in Wireshark.
fn worst(streams: &[StreamReport], top: usize) -> String {
    let mut worst: Vec<_> =
        streams.iter().flat_map(|stream| stream.delays.worst.iter().map(move |write| (stream, write))).collect();
    if worst.is_empty() {
        return String::new();
    }
    worst.sort_by_key(|(stream, write)| (std::cmp::Reverse(write.delay()), stream.id));
    let mut text = format!("{:>9}  {:<10} {:>9} {:>9}  stream\n", "delay ms", "sent", "packet", "acked by");
    for (stream, write) in worst.into_iter().take(top) {
        let _ = writeln!(
            text,
            "{:>9}  {:<10} {:>9} {:>9}  {}",
            short(write.delay().as_secs_f64() * 1e3),
            times(u64::from(write.copies)),
            write.sent_packet,
            write.acknowledged_packet,
            ends(stream, ENDS)
        );
    }
    text
}

/// The sender and the receiver, cut to the width of a column.
pub(super) fn ends(stream: &StreamReport, columns: usize) -> String {
    let whole = festina_lab::traces::ends(stream);
    if whole.len() <= columns { whole } else { whole.chars().take(columns - 1).chain(['…']).collect() }
}

pub(super) fn ms(ns: Option<u64>) -> String {
    ns.map_or(String::new(), |ns| short(ns as f64 / 1e6))
}

/// Three digits or more.
pub(super) fn short(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 100.0 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

// The widest line is that of the longest delays.
const _: () = assert!(9 + 2 + 10 + 1 + 9 + 1 + 9 + 2 + ENDS <= COLUMNS);
