//! A row of P10 Table 1: of the writes, of the analysis of a capture, or of the paper.

use festina_models::workload::{Application, Write};
use festina_trace::StreamReport;
use festina_units::Duration;

use super::LEAST_MS;
use crate::count::as_f64;
use crate::evidence::{Bound, Estimate};
use crate::scoreboard::Published;
use crate::summary::Repeated;

/// How exactly the analysis knows a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    /// But for rounding.
    Exact,
    /// It is counted in buckets (`festina_trace::Histogram`).
    Bucket,
}

impl Precision {
    /// The share of runs in which the reported number agrees with the written one.
    pub(super) fn agreement(self, reported: &Repeated, written: &Repeated) -> Option<Estimate> {
        let margin = match self {
            Self::Exact => 1e-6,
            Self::Bucket => 0.008,
        };
        let agrees = |reported: f64, written: f64| (reported - written).abs() <= margin * written.abs();
        Estimate::of(&reported.zip_with(written, |reported, written| if agrees(reported, written) { 1.0 } else { 0.0 }))
    }
}

/// A column of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) precision: Precision,
}

const fn column(name: &'static str, unit: &'static str, precision: Precision) -> Column {
    Column { name, unit, precision }
}

/// The columns, in the order of the paper.
pub(super) const COLUMNS: [Column; 11] = [
    column("payload avg", "B", Precision::Exact),
    column("payload min", "B", Precision::Exact),
    column("payload max", "B", Precision::Exact),
    column("gap avg", "ms", Precision::Exact),
    column("gap median", "ms", Precision::Bucket),
    column("gap min", "ms", Precision::Exact),
    column("gap max", "ms", Precision::Exact),
    column("gap 1%", "ms", Precision::Bucket),
    column("gap 99%", "ms", Precision::Bucket),
    column("packets per second", "", Precision::Exact),
    column("bits per second", "", Precision::Exact),
];

impl Column {
    pub(super) fn written(&self) -> String {
        format!("{} written", self.name)
    }

    pub(super) fn reported(&self) -> String {
        format!("{} reported", self.name)
    }

    pub(super) fn is_of_sizes(&self) -> bool {
        self.name.starts_with("payload")
    }

    pub(super) fn is_of_gaps(&self) -> bool {
        self.name.starts_with("gap")
    }

    pub(super) fn is_bit_rate(&self) -> bool {
        self.name.starts_with("bits")
    }

    /// Under which words a published number stands.
    pub(super) fn group(&self) -> &'static str {
        if self.is_of_sizes() || self.is_of_gaps() { "sizes and gaps" } else { "rates" }
    }

    /// What the paper has in this column.
    pub(super) fn published(&self, application: Application) -> Option<Published> {
        let row = application.published();
        let [average, least, largest] = row.payload_bytes.map(as_f64);
        let gap = |us: Option<u64>| match us {
            Some(us) => Published::Value(as_f64(us) / 1e3),
            None => Published::Inequality(Bound::LessThan(LEAST_MS)),
        };
        let [packets, bits] = rates(application);
        Some(match self.name {
            "payload avg" => Published::Value(average),
            "payload min" => Published::Value(least),
            "payload max" => Published::Value(largest),
            "gap avg" => gap(row.mean_us),
            "gap median" => gap(row.median_us),
            "gap min" => gap(row.min_us),
            "gap max" => gap(row.max_us),
            "gap 1%" => gap(row.p1_us),
            "gap 99%" => gap(row.p99_us),
            "packets per second" if packets > 1_000.0 => Published::Inequality(Bound::MoreThan(1_000.0)),
            "packets per second" => Published::Value(packets),
            "bits per second" => Published::Value(bits),
            _ => return None,
        })
    }
}

/// Packets and bits per second of Table 1; more than a thousand packets stand for "> 1000".
fn rates(application: Application) -> [f64; 2] {
    match application {
        Application::Casa => [0.137, 269.0],
        Application::RemoteDesktop => [3.145, 4_497.0],
        Application::Skype => [29.412, 69e3],
        Application::Ssh => [3.096, 2_825.0],
        Application::AnarchyOnline => [1.582, 2_168.0],
        Application::WorldOfWarcraft => [3.185, 2_046.0],
        Application::YouTube => [111.111, 1_278e3],
        Application::Http => [f64::INFINITY, 14e6],
        Application::Ftp => [f64::INFINITY, 82e6],
    }
}

/// The numbers in the order of [`COLUMNS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row(pub(super) [f64; COLUMNS.len()]);

impl Row {
    /// Returns the row of at least two writes, which are one packet with a header each.
    pub(super) fn written(writes: &[Write], header_bytes: u64) -> Self {
        let sizes: Vec<u64> = writes.iter().map(|write| write.size.bytes()).collect();
        let mut gaps: Vec<Duration> = writes.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
        gaps.sort_unstable();
        let ms = |gap: Duration| gap.as_secs_f64() * 1e3;
        // The smallest gap that at least this percentage of the gaps do not exceed.
        let quantile = |percent: usize| ms(gaps[(percent * gaps.len()).div_ceil(100).max(1) - 1]);
        let total: Duration = gaps.iter().sum();
        let (packets, bytes) = (as_f64(sizes.len()), as_f64(sizes.iter().sum::<u64>()));
        let [least, largest] = [sizes.iter().min(), sizes.iter().max()].map(|size| as_f64(*size.expect("two writes")));
        Self([
            bytes / packets,
            least,
            largest,
            ms(total) / as_f64(gaps.len()),
            quantile(50),
            ms(gaps[0]),
            ms(gaps[gaps.len() - 1]),
            quantile(1),
            quantile(99),
            as_f64(gaps.len()) / total.as_secs_f64(),
            8.0 * (bytes + packets * as_f64(header_bytes)) / total.as_secs_f64(),
        ])
    }

    /// Returns the row that the analysis of a capture reports, with zero for unknown numbers.
    pub(super) fn reported(stream: &StreamReport) -> Self {
        let traffic = &stream.traffic;
        let (sizes, gaps) = (&traffic.payload_bytes, &traffic.gaps_ns);
        let whole = |number: Option<u64>| as_f64(number.unwrap_or(0));
        let ms = |ns: Option<u64>| whole(ns) / 1e6;
        Self([
            sizes.mean().unwrap_or(0.0),
            whole(sizes.min()),
            whole(sizes.max()),
            gaps.mean().unwrap_or(0.0) / 1e6,
            ms(gaps.percentile(50.0)),
            ms(gaps.min()),
            ms(gaps.max()),
            ms(gaps.percentile(1.0)),
            ms(gaps.percentile(99.0)),
            traffic.packets_per_s().unwrap_or(0.0),
            traffic.bits_per_s().unwrap_or(0.0),
        ])
    }
}
