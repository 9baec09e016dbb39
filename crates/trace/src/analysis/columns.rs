//! Reports as rows of a table: the same columns for CSV, JSON lines and record batches.

use std::fmt::Write as _;

use super::report::{PathTraffic, StreamReport};
use crate::histogram::Histogram;
use crate::protocol::Protocol;

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A finite number.
    Number(f64),
    /// Unknown or not applicable.
    Missing,
}

/// The type of a column's known values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Value::Text`].
    Text,
    /// [`Value::Count`].
    Count,
    /// [`Value::Number`].
    Number,
}

/// Returns the type of a column of [`COLUMNS`].
pub fn kind(name: &str) -> Kind {
    let is_text = ["protocol", "source", "destination"].contains(&name);
    let is_number = ["_ms", "_s", "_share"].iter().any(|unit| name.ends_with(unit)) || name.contains("_avg");
    match (is_text, is_number) {
        (true, _) => Kind::Text,
        (false, true) => Kind::Number,
        (false, false) => Kind::Count,
    }
}

/// The names of the columns, units included: `_ms` are milliseconds, `_s` seconds, `_share` shares from 0 to 1.
pub const COLUMNS: [&str; 53] = [
    "id",
    "protocol",
    "source",
    "source_port",
    "destination",
    "destination_port",
    "first_packet",
    "start_s",
    "duration_s",
    "packets",
    "payload_avg_bytes",
    "payload_min_bytes",
    "payload_max_bytes",
    "gap_avg_ms",
    "gap_median_ms",
    "gap_min_ms",
    "gap_max_ms",
    "gap_p1_ms",
    "gap_p99_ms",
    "packets_per_s",
    "bits_per_s",
    "thin_share",
    "few_in_flight_share",
    "in_flight_avg",
    "in_flight_max",
    "rtt_min_ms",
    "rtt_avg_ms",
    "rtt_max_ms",
    "loss_share",
    "retransmissions",
    "by_timeout",
    "by_fast",
    "by_probe",
    "bundled",
    "cause_unknown",
    "spurious",
    "out_of_order",
    "unseen_bytes",
    "probes",
    "abandoned",
    "sent_once",
    "sent_twice",
    "sent_three_times",
    "sent_more_often",
    "sent_most_times",
    "ack_delay_avg_ms",
    "ack_delay_p99_ms",
    "ack_delay_max_ms",
    "delivery_avg_ms",
    "delivery_p99_ms",
    "delivery_max_ms",
    "worst_packet",
    "worst_copies",
];

impl StreamReport {
    /// Returns the row, in the order of [`COLUMNS`].
    pub fn values(&self) -> Vec<Value> {
        let mut row = Vec::with_capacity(COLUMNS.len());
        self.identity(&mut row);
        self.shape(&mut row);
        self.fate(&mut row);
        row
    }

    fn identity(&self, row: &mut Vec<Value>) {
        let protocol = match (self.protocol, self.in_udp) {
            (Protocol::Tcp, _) => "tcp",
            (Protocol::Udp, _) => "udp",
            (Protocol::Sctp, false) => "sctp",
            (Protocol::Sctp, true) => "sctp-udp",
        };
        row.push(Value::Count(self.id));
        row.push(Value::Text(protocol.to_owned()));
        for end in [self.source, self.destination] {
            row.push(Value::Text(end.ip().to_string()));
            row.push(Value::Count(u64::from(end.port())));
        }
        row.push(Value::Count(self.traffic.first_packet));
        row.push(seconds(self.traffic.first_at.as_nanos()));
        row.push(Value::Number(self.traffic.duration().as_secs_f64()));
    }

    /// Appends the columns of P10 Table 1, and thinness.
    fn shape(&self, row: &mut Vec<Value>) {
        let (traffic, thinness) = (&self.traffic, &self.thinness);
        let sizes = &traffic.payload_bytes;
        row.push(Value::Count(sizes.count()));
        row.push(number(sizes.mean()));
        row.extend([sizes.min(), sizes.max()].map(count));
        let gaps = &traffic.gaps_ns;
        row.push(mean_ms(gaps));
        row.extend(
            [gaps.percentile(50.0), gaps.min(), gaps.max(), gaps.percentile(1.0), gaps.percentile(99.0)].map(ms),
        );
        row.extend(
            [traffic.packets_per_s(), traffic.bits_per_s(), thinness.share_thin(), thinness.share_few()].map(number),
        );
        row.push(number(thinness.in_flight.mean()));
        row.push(count(thinness.in_flight.max()));
    }

    /// Appends losses and their cost.
    fn fate(&self, row: &mut Vec<Value>) {
        let (repair, delays) = (&self.repair, &self.delays);
        row.push(ms(self.rtt_ns.min()));
        row.push(mean_ms(&self.rtt_ns));
        row.push(ms(self.rtt_ns.max()));
        row.push(number(repair.loss()));
        row.push(Value::Count(repair.retransmissions()));
        row.extend(repair.by_cause.map(Value::Count));
        let traffic = &self.traffic;
        let traffic = [traffic.unseen_bytes, traffic.probes];
        row.extend([repair.spurious, repair.out_of_order].into_iter().chain(traffic).map(Value::Count));
        row.push(Value::Count(repair.abandoned));
        let (few, more) = repair.sent_times.split_at(3);
        row.extend(few.iter().copied().map(Value::Count));
        row.push(Value::Count(more.iter().sum()));
        let most = repair.sent_times.iter().rposition(|count| *count > 0);
        row.push(count(most.map(|index| index as u64 + 1)));
        for histogram in [&delays.acknowledged_ns, &delays.delivered_ns] {
            row.push(mean_ms(histogram));
            row.extend([histogram.percentile(99.0), histogram.max()].map(ms));
        }
        let worst = delays.worst.first();
        row.push(count(worst.map(|write| write.sent_packet)));
        row.push(count(worst.map(|write| u64::from(write.copies))));
    }
}

fn count(value: Option<u64>) -> Value {
    value.map_or(Value::Missing, Value::Count)
}

fn number(value: Option<f64>) -> Value {
    value.filter(|value| value.is_finite()).map_or(Value::Missing, Value::Number)
}

#[expect(clippy::cast_precision_loss, reason = "for reports")]
fn ms(ns: Option<u64>) -> Value {
    number(ns.map(|ns| ns as f64 / 1e6))
}

#[expect(clippy::cast_precision_loss, reason = "for reports")]
fn seconds(ns: u64) -> Value {
    Value::Number(ns as f64 / 1e9)
}

fn mean_ms(histogram: &Histogram) -> Value {
    number(histogram.mean().map(|ns| ns / 1e6))
}

/// The first line of a CSV file (RFC 4180).
pub fn csv_header() -> String {
    COLUMNS.join(",")
}

/// A report as a line of CSV. No value of it needs quotes.
pub fn csv_line(report: &StreamReport) -> String {
    let values = report.values();
    let words: Vec<String> = values.iter().map(plain).collect();
    words.join(",")
}

/// A report as a JSON object in one line; missing values are `null`.
pub fn json_line(report: &StreamReport) -> String {
    let mut line = String::from("{");
    for (name, value) in COLUMNS.iter().zip(report.values()) {
        let separator = if line.len() > 1 { "," } else { "" };
        // Addresses and names of protocols contain no characters that JSON escapes.
        let _ = match value {
            Value::Text(text) => write!(line, "{separator}\"{name}\":\"{text}\""),
            Value::Missing => write!(line, "{separator}\"{name}\":null"),
            value => write!(line, "{separator}\"{name}\":{}", plain(&value)),
        };
    }
    if let [_, _, ..] = report.paths.as_slice() {
        line.push_str(",\"paths\":[");
        for (index, path) in report.paths.iter().enumerate() {
            let PathTraffic { source, destination, packets, bytes, chunks_first, chunks_again } = path;
            let separator = if index > 0 { "," } else { "" };
            let _ = write!(
                line,
                "{separator}{{\"source\":\"{source}\",\"destination\":\"{destination}\",\"packets\":{packets},\"bytes\":{bytes},\"chunks_first\":{chunks_first},\"chunks_again\":{chunks_again}}}"
            );
        }
        line.push(']');
    }
    line.push('}');
    line
}

/// Formats numbers with enough digits for a nanosecond in milliseconds.
fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Count(count) => count.to_string(),
        Value::Number(number) => format!("{number:.6}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        Value::Missing => String::new(),
    }
}
