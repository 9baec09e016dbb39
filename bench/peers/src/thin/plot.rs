//! The figure: one panel for each IAT and loss, bytes across and a percentile upwards, each stack with a marker of its own.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use super::contender::{Contender, Promise, Role};
use super::record::Record;

/// Sizes in CSS pixels.
const PANEL_WIDTH: f64 = 220.0;
const PANEL_HEIGHT: f64 = 150.0;
const GAP: f64 = 14.0;
const LEFT: f64 = 96.0;
const LEGEND_ROW: f64 = 18.0;
const LEGEND_COLUMNS: usize = 5;
const LEGEND_COLUMN: f64 = 280.0;
const LEGEND_TOP: f64 = 66.0;
/// Between the two halves of the figure, for the names of their columns.
const HEADING: f64 = 54.0;

/// Tick values of the axes.
const BYTES_TICKS: [f64; 5] = [150.0, 200.0, 300.0, 400.0, 600.0];
const MS_TICKS: [f64; 8] = [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 5_000.0];

/// Colours by stack, which stay apart for readers with any common colour vision deficiency (after Okabe and Ito).
const COLORS: [(&str, &str); 9] = [
    ("festina", "#d55e00"),
    ("quinn", "#0072b2"),
    ("kcp", "#009e73"),
    ("rusty_enet", "#cc79a7"),
    ("dcsctp", "#e69f00"),
    ("rtc-sctp", "#56b4e9"),
    ("sctp-proto", "#666666"),
    ("noq", "#332288"),
    ("pion", "#882255"),
];
/// The forms within one colour.
const FORMS: [Form; 7] = [Form::Dot, Form::Ring, Form::Square, Form::Triangle, Form::Diamond, Form::Plus, Form::Cross];

#[derive(Clone, Copy)]
enum Form {
    Dot,
    Ring,
    Square,
    Triangle,
    Diamond,
    Plus,
    Cross,
}

/// A logarithmic axis.
#[derive(Clone, Copy)]
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// Returns the position of a value, between zero and one; values outside are put on the edge.
    fn place(self, value: f64) -> f64 {
        let log = |value: f64| value.clamp(self.low, self.high).ln();
        (log(value) - self.low.ln()) / (self.high.ln() - self.low.ln())
    }
}

const BYTES: Axis = Axis { low: 140.0, high: 800.0 };
const MS_MAX: f64 = 6_000.0;
/// The vertical axis begins slightly below the minimum delay, half a round trip.
const MS_MIN_SHARE: f64 = 0.45;

/// The figure as SVG, under this heading. Panels without loss are left out: there all delays are the same but for the clocks of some stacks.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a few rows and columns")]
pub fn svg(heading: &str, contenders: &[Contender], records: &[Record]) -> String {
    let streams = || records.iter().filter(|record| record.task.interval.is_some() && record.task.loss_percent > 0);
    let intervals: BTreeSet<Duration> = streams().filter_map(|record| record.task.interval).collect();
    let losses: BTreeSet<u32> = streams().map(|record| record.task.loss_percent).collect();
    let shown: Vec<&Contender> =
        contenders.iter().filter(|contender| streams().any(|record| record.contender == contender.name)).collect();
    let half = losses.len() as f64 * (PANEL_HEIGHT + GAP);
    let top = LEGEND_TOP + shown.len().div_ceil(LEGEND_COLUMNS) as f64 * LEGEND_ROW;
    let width = LEFT + intervals.len().max(6) as f64 * (PANEL_WIDTH + GAP) + GAP;
    let rtt_ms = records.first().map_or(1.0, |record| record.task.round_trip.as_secs_f64() * 1e3);
    let mut page = Page { text: String::new(), ms: Axis { low: MS_MIN_SHARE * rtt_ms, high: MS_MAX } };
    page.heading(heading, &shown);
    for (index, (name, percentile)) in [("p99", p99 as Percentile), ("p99.9", p999)].into_iter().enumerate() {
        let top = top + index as f64 * (half + HEADING) + HEADING;
        for (column, interval) in intervals.iter().enumerate() {
            let left = LEFT + column as f64 * (PANEL_WIDTH + GAP);
            let head = format!("{name}, IAT {} ms", interval.as_millis());
            page.words(left + PANEL_WIDTH / 2.0, top - 10.0, &head, "middle", 14);
            for (row, loss) in losses.iter().enumerate() {
                let corner = (left, top + row as f64 * (PANEL_HEIGHT + GAP));
                page.panel(corner, column == 0, row + 1 == losses.len());
                let here =
                    |record: &&Record| record.task.interval == Some(*interval) && record.task.loss_percent == *loss;
                let points = streams().filter(here).filter_map(|record| {
                    let place = shown.iter().position(|contender| contender.name == record.contender)?;
                    Some((look(&shown, place), record.cost.bytes_of_both(), percentile(record)))
                });
                // Festina's default comes first, and is drawn last.
                let points: Vec<(Look, f64, f64)> = points.collect();
                points.into_iter().rev().for_each(|(look, bytes, ms)| page.point(corner, look, bytes, ms));
                page.words(corner.0 + PANEL_WIDTH - 6.0, corner.1 + 16.0, &format!("loss {loss} %"), "end", 12);
            }
        }
    }
    let height = top + 2.0 * (half + HEADING) + 30.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" font-family=\"sans-serif\" aria-label=\"Bytes and percentiles of delay of \
         thin streams\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{}</svg>\n",
        page.text
    )
}

type Percentile = fn(&Record) -> f64;

fn p99(record: &Record) -> f64 {
    record.delay.p99.ms
}

fn p999(record: &Record) -> f64 {
    record.delay.p999.ms
}

/// How a contender is drawn.
#[derive(Clone, Copy)]
struct Look {
    color: &'static str,
    form: Form,
    size: f64,
}

fn look(shown: &[&Contender], place: usize) -> Look {
    let contender = shown[place];
    let family = |other: &Contender| COLORS.iter().position(|(stack, _)| other.stack.starts_with(stack)).unwrap_or(0);
    let own = family(contender);
    let within = shown[..place].iter().filter(|other| family(other) == own).count();
    let size = if contender.role == Role::Subject { 6.5 } else { 4.5 };
    Look { color: COLORS[own].1, form: FORMS[within % FORMS.len()], size }
}

struct Page {
    text: String,
    /// The vertical axis.
    ms: Axis,
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

    #[expect(clippy::cast_precision_loss, reason = "a few rows and columns")]
    fn heading(&mut self, heading: &str, shown: &[&Contender]) {
        self.words(20.0, 26.0, &format!("Thin streams of 100-byte messages, {heading}"), "start", 18);
        let axes = "Across: bytes of both ends for each message, with IP and UDP headers. Upwards: delay from write to delivery in ms. \
                    Both logarithmic; left and low is better. What never came, or lies outside, is on the edge.";
        self.words(20.0, 46.0, axes, "start", 13);
        for (place, contender) in shown.iter().enumerate() {
            let (row, column) = (place / LEGEND_COLUMNS, place % LEGEND_COLUMNS);
            let (x, y) = (28.0 + column as f64 * LEGEND_COLUMN, LEGEND_TOP + row as f64 * LEGEND_ROW);
            self.mark(look(shown, place), x, y);
            let remark = match contender.promise {
                Promise::Ordered => "",
                Promise::Unordered => " (without order)",
                Promise::Unreliable => " (unreliable)",
            };
            self.words(x + 12.0, y + 4.5, &format!("{}{remark}", contender.name), "start", 13);
        }
    }

    fn panel(&mut self, (left, top): (f64, f64), is_leftmost: bool, is_lowest: bool) {
        let (right, bottom) = (left + PANEL_WIDTH, top + PANEL_HEIGHT);
        let line = |x1: f64, y1: f64, x2: f64, y2: f64| {
            format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#e4e4e4\"/>")
        };
        let low = self.ms.low;
        for ms in MS_TICKS.into_iter().filter(|ms| *ms >= low) {
            let y = bottom - self.ms.place(ms) * PANEL_HEIGHT;
            self.put(format_args!("{}", line(left, y, right, y)));
            if is_leftmost {
                self.words(left - 6.0, y + 4.0, &format!("{ms:.0} ms"), "end", 12);
            }
        }
        for bytes in BYTES_TICKS {
            let x = left + BYTES.place(bytes) * PANEL_WIDTH;
            self.put(format_args!("{}", line(x, top, x, bottom)));
            if is_lowest {
                self.words(x, bottom + 15.0, &format!("{bytes:.0}"), "middle", 12);
            }
        }
        self.put(format_args!(
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{PANEL_WIDTH}\" height=\"{PANEL_HEIGHT}\" fill=\"none\" stroke=\"#999\"/>"
        ));
    }

    fn point(&mut self, (left, top): (f64, f64), look: Look, bytes: f64, ms: f64) {
        let (x, y) = (left + BYTES.place(bytes) * PANEL_WIDTH, top + (1.0 - self.ms.place(ms)) * PANEL_HEIGHT);
        self.mark(look, x, y);
    }

    fn mark(&mut self, Look { color, form, size: s }: Look, x: f64, y: f64) {
        let path = |d: String, is_filled: bool| {
            let fill = if is_filled { color } else { "none" };
            format!("<path d=\"{d}\" fill=\"{fill}\" stroke=\"{color}\" stroke-width=\"1.6\"/>")
        };
        let circle = |fill: &str| {
            format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{s}\" fill=\"{fill}\" stroke=\"{color}\" stroke-width=\"1.6\"/>"
            )
        };
        let w = 2.0 * s;
        let drawn = match form {
            Form::Dot => circle(color),
            Form::Ring => circle("none"),
            Form::Square => path(format!("M{:.1} {:.1}h{w}v{w}h-{w}z", x - s, y - s), false),
            Form::Triangle => path(format!("M{x:.1} {:.1}l{s} {w}h-{w}z", y - s), false),
            Form::Diamond => path(format!("M{x:.1} {:.1}l{s} {s}l-{s} {s}l-{s} -{s}z", y - s), false),
            Form::Plus => path(format!("M{:.1} {y:.1}h{w}M{x:.1} {:.1}v{w}", x - s, y - s), false),
            Form::Cross => path(format!("M{:.1} {:.1}l{w} {w}m-{w} 0l{w} -{w}", x - s, y - s), false),
        };
        self.put(format_args!("{drawn}"));
    }
}
