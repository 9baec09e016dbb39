//! The statistics of a capture's streams as a page: P10's Table 1 and Fig. 1 for any capture, distributions of delays, and the life of the worst
//! streams.
//!
//! [`WhatIf`] simulates thin flows with another transport.
//!
//! The analysis itself is in `festina-trace`; this module draws it.

mod classes;
mod life;
mod what_if;

use std::fmt::Write as _;

use festina_trace::analysis::{Summary, Write};
use festina_trace::{Histogram, StreamReport};

use crate::count::as_f64;
use crate::figure::{Axis, Curve, DelayDistribution, Figure, FigureError, PlotPoint, PointSeries, Unit};
use crate::page::{document, escape};
use crate::report::html::table;
use festina_models::statistics::DelayStatistics;

pub use classes::{Class, Classes, Cluster, FEATURES, Features};
pub use life::Life;
pub use what_if::{Agreement, Certainty, FESTINA, Fate, PathEstimate, ThinFlow, ThinFlows, WhatIf};

/// Points of a figure with a point per stream; of more streams every n-th is drawn, the worst always.
const POINTS_MAX: usize = 400;
/// Rows of a table.
const ROWS_MAX: usize = 100;
/// P10 §3.1 draws this line: players notice.
const NOTICED_MS: f64 = 500.0;

/// A number of a stream.
type Measure = fn(&StreamReport) -> f64;

/// A page about a capture.
#[derive(Debug)]
pub struct TracePage<'a> {
    /// Name of the source.
    pub title: &'a str,
    /// Summary of the data read.
    pub summary: Summary,
    /// Counts of all streams.
    pub totals: &'a Totals,
    /// Streams, those with the longest delays first. Of very many, others are missing.
    pub streams: &'a [StreamReport],
    /// The life of some of them.
    pub lives: &'a [Life],
    /// What kept the capture from being read to its end.
    pub problem: Option<&'a str>,
}

/// Counts of the streams of a capture, whether their reports are kept or not.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    streams: u64,
    thin: u64,
    /// Streams whose delays are known.
    delayed: u64,
    noticed: u64,
    /// Delays of thin streams and of others.
    delays_ns: [Histogram; 2],
}

impl Totals {
    /// Counts a stream.
    pub fn add(&mut self, stream: &StreamReport) {
        let delays_ns = stream.delays.best_known_ns();
        let is_thin = is_thin(stream);
        self.streams += 1;
        self.thin += u64::from(is_thin);
        self.delayed += u64::from(delays_ns.count() > 0);
        self.noticed += u64::from(max_ms(stream) > NOTICED_MS);
        self.delays_ns[usize::from(!is_thin)].merge(delays_ns);
    }
}

impl TracePage<'_> {
    /// The page as HTML that loads nothing from elsewhere.
    ///
    /// # Errors
    /// If a figure cannot be drawn.
    pub fn html(&self) -> Result<String, FigureError> {
        let mut body = format!("<h1>{}</h1>\n<p class=\"lead\">{}</p>\n", escape(self.title), escape(&self.lead()));
        if let Some(problem) = self.problem {
            let _ = writeln!(body, "<p><strong>Read only in part:</strong> {}</p>", escape(problem));
        }
        if let Some((delays, losses)) = self.per_stream() {
            let _ = writeln!(
                body,
                "<h2>Delays and losses of each stream (P10, Fig. 1)</h2>\n{}\n{}",
                delays.to_svg()?,
                losses.to_svg()?
            );
        }
        if let Some(distribution) = self.distribution() {
            let _ = writeln!(body, "<h2>How delays are distributed</h2>\n{}", distribution.to_svg()?);
        }
        let _ = writeln!(body, "<h2>The longest delays</h2>");
        for life in self.lives {
            let _ = writeln!(body, "{}", life.figure().to_svg()?);
        }
        body += &self.worst_table();
        let _ = writeln!(body, "<h2>Streams (P10, Table 1)</h2>\n{}", self.streams_table());
        Ok(document(self.title, &body))
    }

    /// The result in one or two sentences.
    pub fn lead(&self) -> String {
        let Totals { streams, thin, delayed, noticed, .. } = self.totals;
        let mut lead = format!(
            "Of {streams} streams with data in {} packets {thin} are thin for at least nine tenths of their time. Of {delayed} whose delays are known, \
             {noticed} had one above {NOTICED_MS} ms.",
            self.summary.packets,
        );
        if let Some(worst) = self.worst() {
            let delay = worst.delay().as_secs_f64() * 1e3;
            let _ = write!(
                lead,
                " The longest was {delay:.0} ms, of packet {}, which was sent {}.",
                worst.sent_packet,
                times(u64::from(worst.copies))
            );
        }
        lead
    }

    /// The result in one line, for a terminal.
    pub fn verdict(&self) -> String {
        let Totals { streams, thin, noticed, .. } = self.totals;
        let delays = match self.worst() {
            Some(worst) => {
                let longest = worst.delay().as_secs_f64() * 1e3;
                format!("{noticed} had delays above {NOTICED_MS} ms, the longest was {longest:.0} ms")
            }
            None => "no delay is known".to_owned(),
        };
        format!("{thin} of {streams} streams are thin, {delays}")
    }

    fn worst(&self) -> Option<&Write> {
        self.streams.iter().filter_map(|stream| stream.delays.worst.first()).max_by_key(|write| write.delay())
    }

    fn per_stream(&self) -> Option<(Figure, Figure)> {
        let mut streams: Vec<&StreamReport> =
            self.streams.iter().filter(|stream| stream.delays.best_known_ns().count() > 0).collect();
        streams.sort_by(|a, b| max_ms(b).total_cmp(&max_ms(a)));
        let step = streams.len().div_ceil(POINTS_MAX).max(1);
        let drawn: Vec<(f64, &StreamReport)> =
            (1..).map(f64::from).zip(streams.iter().copied()).step_by(step).collect();
        let highest = streams.first().map(|stream| max_ms(stream))?;
        let lowest = drawn.iter().map(|(_, stream)| mean_ms(stream)).fold(highest, f64::min).max(0.01);
        let count = streams.len().max(1);
        let x = || Axis::from_zero("stream, by its longest delay", count as f64, Unit::Count);
        let y = Axis::log("delay", (lowest / 2.0).min(100.0), (highest * 2.0).max(1_000.0), Unit::Milliseconds);
        let drawn_of = match self.totals.delayed {
            all if all == streams.len() as u64 => format!("{all} streams"),
            all => format!("the {} of {all} streams with the longest delays", streams.len()),
        };
        let mut delays = Figure::new("Delay of each stream", &drawn_of, x(), y);
        let series: [(&str, Measure); 3] = [("longest", max_ms), ("99 %", p99_ms), ("mean", mean_ms)];
        for (name, value) in series {
            let points =
                drawn.iter().map(|(x, stream)| PlotPoint { x: *x, y: value(stream).max(lowest / 2.0), whisker: None });
            delays.points.push(PointSeries { is_joined: false, ..PointSeries::new(name, points) });
        }
        let line = Curve { name: "500 ms".to_owned(), points: vec![(0.0, NOTICED_MS), (count as f64, NOTICED_MS)] };
        delays.curves.push(line);
        let loss = |stream: &StreamReport| stream.repair.loss().unwrap_or(0.0);
        let most = drawn.iter().map(|(_, stream)| loss(stream)).fold(0.01, f64::max);
        let mut losses =
            Figure::new("Loss of each stream", "in the same order", x(), Axis::from_zero("loss", most, Unit::Share));
        let points = drawn.iter().map(|(x, stream)| PlotPoint { x: *x, y: loss(stream), whisker: None });
        losses.points.push(PointSeries { is_joined: false, ..PointSeries::new("loss", points) });
        Some((delays, losses))
    }

    fn distribution(&self) -> Option<Figure> {
        let groups = ["thin streams", "other streams"].into_iter().zip(&self.totals.delays_ns);
        let is_empty = self.totals.delayed == 0;
        let mut distribution = DelayDistribution::new("Delays", "from the first transmission");
        for (name, delays) in groups {
            distribution.curve(name, &statistics(delays));
        }
        let mut figure = distribution.figure();
        figure.x.label = "delay".to_owned();
        figure.y.label = "share of writes that take longer".to_owned();
        (!is_empty).then_some(figure)
    }

    fn worst_table(&self) -> String {
        let mut worst: Vec<(&StreamReport, &Write)> = self
            .streams
            .iter()
            .flat_map(|stream| stream.delays.worst.iter().map(move |write| (stream, write)))
            .collect();
        worst.sort_by_key(|(_, write)| std::cmp::Reverse(write.delay()));
        let rows: Vec<Vec<String>> = worst
            .iter()
            .take(ROWS_MAX)
            .map(|(stream, write)| {
                vec![
                    escape(&ends(stream)),
                    format!("{:.1}", write.delay().as_secs_f64() * 1e3),
                    times(u64::from(write.copies)),
                    write.sent_packet.to_string(),
                    write.acknowledged_packet.to_string(),
                ]
            })
            .collect();
        let heading = ["stream", "delay in ms", "sent", "packet", "acknowledged by packet"].map(str::to_owned);
        table(&heading, &rows, 1)
    }

    fn streams_table(&self) -> String {
        let heading = [
            "stream",
            "packets",
            "payload avg",
            "min",
            "max",
            "gap avg ms",
            "median",
            "min",
            "max",
            "1 %",
            "99 %",
            "packets/s",
            "bit/s",
            "thin",
            "RTT min ms",
            "loss",
            "timeout",
            "fast",
            "probe",
            "bundled",
            "unknown",
            "spurious",
            "delay avg ms",
            "99 %",
            "max",
        ];
        let rows: Vec<Vec<String>> = self.streams.iter().take(ROWS_MAX).map(row).collect();
        let note = match self.totals.streams.saturating_sub(ROWS_MAX as u64) {
            0 => String::new(),
            more => format!("<p>{more} more are in the CSV file.</p>"),
        };
        table(&heading.map(str::to_owned), &rows, 1) + &note
    }
}

fn row(stream: &StreamReport) -> Vec<String> {
    let traffic = &stream.traffic;
    let ms = |ns: Option<u64>| ns.map_or(String::new(), |ns| format!("{:.1}", ns as f64 / 1e6));
    let mean = |histogram: &Histogram| histogram.mean().map_or(String::new(), |ns| format!("{:.1}", ns / 1e6));
    let whole = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
    let share = |share: Option<f64>| share.map_or(String::new(), |share| format!("{:.1} %", 100.0 * share));
    let (sizes, gaps, delays) = (&traffic.payload_bytes, &traffic.gaps_ns, stream.delays.best_known_ns());
    let mut row = vec![escape(&ends(stream)), sizes.count().to_string()];
    row.push(sizes.mean().map_or(String::new(), |mean| format!("{mean:.0}")));
    row.extend([whole(sizes.min()), whole(sizes.max()), mean(gaps)]);
    row.extend([gaps.percentile(50.0), gaps.min(), gaps.max(), gaps.percentile(1.0), gaps.percentile(99.0)].map(ms));
    row.push(traffic.packets_per_s().map_or(String::new(), |rate| format!("{rate:.3}")));
    row.push(traffic.bits_per_s().map_or(String::new(), |rate| format!("{rate:.0}")));
    row.push(share(stream.thinness.share_thin()));
    row.push(ms(stream.rtt_ns.min()));
    row.push(share(stream.repair.loss()));
    row.extend(stream.repair.by_cause.iter().map(u64::to_string));
    row.push(stream.repair.spurious.to_string());
    row.extend([mean(delays), ms(delays.percentile(99.0)), ms(delays.max())]);
    row
}

/// The same delays where percentiles are finer.
fn statistics(delays_ns: &Histogram) -> DelayStatistics {
    let mut statistics = DelayStatistics::new();
    let mut recorded = 0;
    for (ns, share) in delays_ns.cumulative() {
        let upto = (share * as_f64(delays_ns.count())).round();
        while as_f64(recorded) < upto {
            statistics.record(std::time::Duration::from_nanos(ns));
            recorded += 1_u64;
        }
    }
    statistics
}

/// Thin for at least nine tenths of its time.
fn is_thin(stream: &StreamReport) -> bool {
    stream.thinness.share_thin().is_some_and(|share| share >= 0.9)
}

fn max_ms(stream: &StreamReport) -> f64 {
    stream.delays.best_known_ns().max().unwrap_or(0) as f64 / 1e6
}

fn p99_ms(stream: &StreamReport) -> f64 {
    stream.delays.best_known_ns().percentile(99.0).unwrap_or(0) as f64 / 1e6
}

fn mean_ms(stream: &StreamReport) -> f64 {
    stream.delays.best_known_ns().mean().unwrap_or(0.0) / 1e6
}

/// Sender and receiver of a stream.
pub fn ends(stream: &StreamReport) -> String {
    format!("{} > {}", stream.source, stream.destination)
}

/// A count in words.
pub fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}
