//! The figure: two intervals beside each other; below each other p99, p99.9 and bytes over the loss. A line for Festina and each of a few peers, which
//! its name, dashes and colour tell apart.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use super::record::Record;

/// The contenders that are drawn: Festina by default, and of each other stack the settings for low delay. Each with its dashes, and with a colour that
/// readers with any common colour vision deficiency tell from the others (after Okabe and Ito).
pub const DRAWN: [(&str, &str, &str); 7] = [
    ("festina", "", "#d55e00"),
    ("quinn-tuned", "9 3", "#0072b2"),
    ("kcp-best", "2 3", "#009e73"),
    ("enet-tuned", "9 3 2 3", "#a0527f"),
    ("dcsctp-tuned", "5 3", "#b07000"),
    ("sctp-proto-hasty", "14 4", "#555555"),
    ("pion-hasty", "9 3 2 3 2 3", "#332288"),
];
/// The intervals that are drawn, as far as they were measured.
const DRAWN_INTERVALS_MS: [u64; 3] = [20, 33, 250];

/// Sizes in CSS pixels.
const PANEL_WIDTH: f64 = 230.0;
const PANEL_HEIGHT: f64 = 190.0;
const LEFT: f64 = 74.0;
const TOP: f64 = 96.0;
/// For the names of the lines.
const GUTTER: f64 = 142.0;
/// Between two rows.
const GAP: f64 = 44.0;
const FONT: u32 = 14;
/// Between the names of two lines.
const NAMES_APART: f64 = 16.0;

const MS_TICKS: [f64; 9] = [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0];
const MS_MAX: f64 = 10_000.0;
/// The axis of delays begins slightly below the minimum delay, half a round trip.
const MS_MIN_SHARE: f64 = 0.45;
const BYTES_TICKS: [f64; 4] = [0.0, 200.0, 400.0, 600.0];
const BYTES_MAX: f64 = 650.0;

/// A row of the figure: its name, its number of a record and its axis.
type Row = (&'static str, fn(&Record) -> f64, Axis);

/// The vertical axis of a row.
#[derive(Clone, Copy)]
enum Axis {
    /// A logarithmic one, from one delay in ms to another.
    Ms(f64, f64),
    Bytes,
}

impl Axis {
    /// Returns the position of a value, between zero and one; values outside are put on the edge.
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Ms(low, high) => (value.clamp(low, high) / low).ln() / (high / low).ln(),
            Self::Bytes => value.clamp(0.0, BYTES_MAX) / BYTES_MAX,
        }
    }

    fn ticks(self) -> Vec<(f64, String)> {
        match self {
            Self::Ms(low, high) => {
                let shown = MS_TICKS.into_iter().filter(|ms| (low..=high).contains(ms));
                shown.map(|ms| (ms, format!("{ms} ms"))).collect()
            }
            Self::Bytes => BYTES_TICKS.map(|bytes| (bytes, format!("{bytes} B"))).to_vec(),
        }
    }
}

/// The figure as SVG, under this heading.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a few rows and columns")]
pub fn svg(heading: &str, records: &[Record]) -> String {
    let measured: BTreeSet<Duration> = records.iter().filter_map(|record| record.task.interval).collect();
    let intervals = DRAWN_INTERVALS_MS.map(Duration::from_millis).into_iter().filter(|it| measured.contains(it));
    let intervals: Vec<Duration> = intervals.collect();
    let rtt_ms = records.first().map_or(1.0, |record| record.task.round_trip.as_secs_f64() * 1e3);
    let is_drawn = |it: &&Record| {
        DRAWN.iter().any(|(name, ..)| it.contender == *name)
            && it.task.interval.is_some_and(|own| intervals.contains(&own))
    };
    let longest_ms = records.iter().filter(is_drawn).map(|it| it.delay.p999.ms).fold(2.0 * rtt_ms, f64::max);
    let delays = Axis::Ms(MS_MIN_SHARE * rtt_ms, longest_ms.min(MS_MAX));
    let rows: [Row; 3] = [
        ("p99", |record| record.delay.p99.ms, delays),
        ("p99.9", |record| record.delay.p999.ms, delays),
        ("bytes", |record| record.cost.bytes_of_both(), Axis::Bytes),
    ];
    let mut page = Page::default();
    page.words(16.0, 26.0, &format!("Thin streams of 100-byte messages, {heading}"), "start", 16);
    let note =
        "Delay from write to delivery (logarithmic), and bytes of both ends for each message with IP and UDP headers,";
    page.words(16.0, 46.0, note, "start", FONT);
    page.words(16.0, 63.0, "by the share of packets lost in each direction. Lower is better.", "start", FONT);
    for (column, interval) in intervals.iter().enumerate() {
        let left = LEFT + column as f64 * (PANEL_WIDTH + GUTTER);
        for (row, (name, value, axis)) in rows.into_iter().enumerate() {
            let corner = (left, TOP + row as f64 * (PANEL_HEIGHT + GAP));
            let head = format!("{name}, a message every {} ms", interval.as_millis());
            page.words(left, corner.1 - 8.0, &head, "start", FONT);
            let lines = lines(records, *interval, value);
            page.panel(corner, axis, column == 0, &lines);
        }
    }
    let height = TOP + rows.len() as f64 * (PANEL_HEIGHT + GAP);
    let width = LEFT + intervals.len().max(2) as f64 * (PANEL_WIDTH + GUTTER);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" font-family=\"sans-serif\" aria-label=\"Percentiles of delay and bytes of \
         thin streams by loss\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{}</svg>\n",
        page.text
    )
}

/// A contender's numbers by the loss in percent, rising.
struct Line {
    name: &'static str,
    dashes: &'static str,
    color: &'static str,
    points: Vec<(u32, f64)>,
}

fn lines(records: &[Record], interval: Duration, value: fn(&Record) -> f64) -> Vec<Line> {
    let line = |(name, dashes, color): (&'static str, _, _)| {
        let own = records.iter().filter(|it| it.contender == name && it.task.interval == Some(interval));
        let mut points: Vec<(u32, f64)> = own.map(|record| (record.task.loss_percent, value(record))).collect();
        points.sort_by_key(|(loss, _)| *loss);
        Line { name, dashes, color, points }
    };
    DRAWN.map(line).into_iter().filter(|line| !line.points.is_empty()).collect()
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn put(&mut self, content: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{content}").expect("writing to a String cannot fail");
    }

    fn words(&mut self, x: f64, y: f64, words: &str, anchor: &str, size: u32) {
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"#222\">{words}</text>"
        ));
    }

    #[expect(clippy::cast_precision_loss, reason = "a few losses")]
    fn panel(&mut self, (left, top): (f64, f64), axis: Axis, is_leftmost: bool, lines: &[Line]) {
        let (right, bottom) = (left + PANEL_WIDTH, top + PANEL_HEIGHT);
        let height = |value: f64| bottom - axis.place(value) * PANEL_HEIGHT;
        for (tick, label) in axis.ticks() {
            let y = height(tick);
            self.put(format_args!("<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"#e4e4e4\"/>"));
            if is_leftmost {
                self.words(left - 6.0, y + 5.0, &label, "end", FONT);
            }
        }
        let losses: BTreeSet<u32> = lines.iter().flat_map(|line| &line.points).map(|(loss, _)| *loss).collect();
        // At even distances: most paths lose little.
        let step = PANEL_WIDTH / losses.len().saturating_sub(1).max(1) as f64;
        let across = |loss: u32| left + losses.range(..loss).count() as f64 * step;
        for loss in &losses {
            let x = across(*loss);
            self.put(format_args!("<path d=\"M{x:.1} {top:.1}V{bottom:.1}\" stroke=\"#e4e4e4\"/>"));
            self.words(x, bottom + 16.0, &format!("{loss} %"), "middle", FONT);
        }
        // Festina comes first, and is drawn last.
        for Line { name, dashes, color, points } in lines.iter().rev() {
            let corners: Vec<String> =
                points.iter().map(|(loss, value)| format!("{:.1} {:.1}", across(*loss), height(*value))).collect();
            let width = if *name == DRAWN[0].0 { 3.5 } else { 2.0 };
            self.put(format_args!(
                "<path d=\"M{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\" stroke-dasharray=\"{dashes}\"/>",
                corners.join("L")
            ));
        }
        self.names(right, [top, bottom], lines, height);
    }

    /// The name of each line at its end.
    fn names(&mut self, right: f64, [top, bottom]: [f64; 2], lines: &[Line], height: impl Fn(f64) -> f64) {
        let end = |line: &Line| line.points.last().map_or(bottom, |(_, value)| height(*value));
        let mut names: Vec<(f64, &Line)> = lines.iter().map(|line| (end(line), line)).collect();
        names.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let places = apart(names.iter().map(|(y, _)| *y), [top, bottom]);
        for ((y, line), place) in names.into_iter().zip(places) {
            let Line { name, color, .. } = line;
            let (near, far) = (right + 2.0, right + 16.0);
            self.put(format_args!("<path d=\"M{near:.1} {y:.1}L{far:.1} {place:.1}\" stroke=\"{color}\"/>"));
            self.put(format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{FONT}\" fill=\"{color}\">{name}</text>",
                far + 3.0,
                place + 5.0
            ));
        }
    }
}

/// Moves positions, which rise, as little as possible so that names there do not cover each other and stay between two bounds.
fn apart(positions: impl Iterator<Item = f64>, [top, bottom]: [f64; 2]) -> Vec<f64> {
    // Names that would touch form a group around their mean position.
    let mut groups: Vec<Vec<f64>> = Vec::new();
    for position in positions {
        let mut group = vec![position];
        while let Some(last) = groups.pop_if(|last| span(last, [top, bottom])[1] > span(&group, [top, bottom])[0]) {
            group = [last, group].concat();
        }
        groups.push(group);
    }
    let places = groups.iter().flat_map(|group| {
        let [first, _] = span(group, [top, bottom]);
        group.iter().scan(first, |next, _| {
            *next += NAMES_APART;
            Some(*next - NAMES_APART / 2.0)
        })
    });
    places.collect()
}

/// The upper and the lower edge of a group of names.
#[expect(clippy::cast_precision_loss, reason = "a few names")]
fn span(group: &[f64], [top, bottom]: [f64; 2]) -> [f64; 2] {
    let height = group.len() as f64 * NAMES_APART;
    let mean = group.iter().sum::<f64>() / group.len() as f64;
    let first = (mean - height / 2.0).min(bottom + NAMES_APART / 2.0 - height).max(top - NAMES_APART / 2.0);
    [first, first + height]
}
