//! The life of packets over time: when each number was sent, lost, sent again and acknowledged.

use std::time::Duration;

use super::{Axis, Color, Curve, Figure, Marker, Note, PlotPoint, PointSeries, Tick, Unit};
use crate::count::as_f64;

/// Builds a [`Figure`] with the time across and packet numbers (TSNs, segments) upwards.
///
/// ```
/// use std::time::Duration;
/// use festina_lab::figure::{Happening, TimeSequence};
///
/// let at = Duration::from_millis;
/// let mut sequence = TimeSequence::new("A lost packet", "RTT 100 ms", "TSN");
/// sequence.count_from(at(250), "time since packet 2 left");
/// sequence.packet(at(0), 1, Happening::Sent);
/// sequence.packet(at(250), 2, Happening::Lost);
/// sequence.acknowledged(at(100), 1);
/// sequence.packet(at(480), 2, Happening::Retransmitted);
/// sequence.note(at(480), 2, "probe");
/// sequence.acknowledged(at(580), 2);
/// assert!(sequence.figure().to_svg()?.contains("retransmitted"));
/// # Ok::<(), festina_lab::figure::FigureError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TimeSequence {
    title: String,
    subtitle: String,
    time_label: String,
    number_label: String,
    zero: Duration,
    end: Duration,
    packets: Vec<(Duration, u64, Happening)>,
    acknowledged: Vec<(Duration, u64)>,
    delivered: Vec<(Duration, u64)>,
    notes: Vec<(Duration, u64, String)>,
}

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// It was sent for the first time.
    Sent,
    /// First transmission, lost.
    Lost,
    /// Retransmission.
    Retransmitted,
    /// Retransmission, lost.
    RetransmissionLost,
    /// Retransmission of a packet that had arrived, or was about to.
    Spurious,
    /// The same, but on purpose: nothing had called for it.
    Copied,
    /// It was copied so, and the copy was lost.
    CopyLost,
}

/// In the order of the legend.
const HAPPENINGS: [(Happening, &str, Marker, Color); 7] = [
    (Happening::Sent, "sent", Marker::Dot, Color::Blue),
    (Happening::Lost, "sent, lost", Marker::Cross, Color::Vermilion),
    (Happening::Retransmitted, "retransmitted", Marker::Triangle, Color::Green),
    (Happening::RetransmissionLost, "retransmitted, lost", Marker::Plus, Color::Vermilion),
    (Happening::Spurious, "retransmitted needlessly", Marker::Diamond, Color::Pink),
    (Happening::Copied, "copied", Marker::Ring, Color::Sky),
    (Happening::CopyLost, "copied, lost", Marker::Plus, Color::Sky),
];

/// Up to this many numbers are each written next to their axis.
const NUMBERS_WRITTEN_MAX: u64 = 16;

impl TimeSequence {
    /// Creates a figure without packets, whose time counts from zero. `number_label` is the label of the numbers.
    pub fn new(title: &str, subtitle: &str, number_label: &str) -> Self {
        Self {
            title: title.to_owned(),
            subtitle: subtitle.to_owned(),
            time_label: "time".to_owned(),
            number_label: number_label.to_owned(),
            zero: Duration::ZERO,
            end: Duration::ZERO,
            packets: Vec::new(),
            acknowledged: Vec::new(),
            delivered: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The horizontal axis has its zero at `zero`, and the name `time_label`, which says what happened then.
    pub fn count_from(&mut self, zero: Duration, time_label: &str) {
        self.zero = zero;
        time_label.clone_into(&mut self.time_label);
    }

    /// Extends the figure at least to `end`.
    pub fn lasts_until(&mut self, end: Duration) {
        self.end = end;
    }

    /// Marks what happened to packet `number`, which left at `at`.
    pub fn packet(&mut self, at: Duration, number: u64, happening: Happening) {
        self.packets.push((at, number, happening));
    }

    /// At `at` the sender learnt that all packets up to and including `number` have arrived. Calls are in the order of
    /// time.
    pub fn acknowledged(&mut self, at: Duration, number: u64) {
        self.acknowledged.push((at, number));
    }

    /// At `at` the receiving application had all up to and including `number`. Calls are in the order of time.
    pub fn delivered(&mut self, at: Duration, number: u64) {
        self.delivered.push((at, number));
    }

    /// Adds an annotation next to a packet.
    pub fn note(&mut self, at: Duration, number: u64, text: &str) {
        self.notes.push((at, number, text.to_owned()));
    }

    /// The figure, its axes chosen so that everything is seen.
    pub fn figure(self) -> Figure {
        let known = || self.acknowledged.iter().chain(&self.delivered);
        let times = self.packets.iter().map(|(at, ..)| *at).chain(known().map(|(at, _)| *at));
        let numbers = || self.packets.iter().map(|(_, number, _)| *number).chain(known().map(|(_, number)| *number));
        let latest = times.fold(self.end, Duration::max);
        let (lowest, highest) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(1));
        // Room for half a point at both ends.
        let margin_ms = milliseconds(latest).max(1.0) * 0.02;
        let ends = [self.since_zero_ms(Duration::ZERO) - margin_ms, self.since_zero_ms(latest).max(1.0) + margin_ms];
        let x = Axis::linear(&self.time_label, ends[0], ends[1], Unit::Milliseconds);
        let mut figure = Figure::new(&self.title, &self.subtitle, x, number_axis(&self.number_label, lowest, highest));
        for (name, known) in [("acknowledged", &self.acknowledged), ("delivered, in order", &self.delivered)] {
            if !known.is_empty() {
                figure.curves.push(Curve { name: name.to_owned(), points: self.steps(known, latest) });
            }
        }
        figure.has_curve_names = false;
        let place = |at: Duration, number: u64| (self.since_zero_ms(at), as_f64(number));
        for (happening, name, marker, color) in HAPPENINGS {
            let packets = self.packets.iter().filter(|(.., what)| *what == happening);
            let places = packets.map(|(at, number, _)| place(*at, *number));
            let points: Vec<PlotPoint> = places.map(|(x, y)| PlotPoint { x, y, whisker: None }).collect();
            if !points.is_empty() {
                let (name, color) = (name.to_owned(), Some(color));
                figure.points.push(PointSeries {
                    name,
                    marker,
                    color,
                    is_joined: false,
                    has_whiskers_across: false,
                    points,
                });
            }
        }
        let note = |(at, number, text): &(Duration, u64, String)| {
            let (x, y) = place(*at, *number);
            Note { x, y, text: text.clone() }
        };
        figure.notes = self.notes.iter().map(note).collect();
        figure
    }

    /// A line that stays level until more is known to have arrived, up to `end`.
    fn steps(&self, known: &[(Duration, u64)], end: Duration) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (at, number) in known {
            let (x, y) = (self.since_zero_ms(*at), as_f64(*number));
            if let Some((_, before)) = points.last().copied() {
                points.push((x, before));
            }
            points.push((x, y));
        }
        if let Some((_, last)) = points.last().copied() {
            points.push((self.since_zero_ms(end), last));
        }
        points
    }

    fn since_zero_ms(&self, at: Duration) -> f64 {
        milliseconds(at) - milliseconds(self.zero)
    }
}

/// Creates an axis with room above and below, and with a tick for every number if there are few.
fn number_axis(label: &str, lowest: u64, highest: u64) -> Axis {
    let margin = 0.06 * as_f64(highest - lowest).max(1.0);
    let mut axis = Axis::linear(label, as_f64(lowest) - margin, as_f64(highest) + margin, Unit::Count);
    if highest - lowest < NUMBERS_WRITTEN_MAX {
        let tick = |number: u64| Tick { value: as_f64(number), label: number.to_string() };
        axis.ticks = (lowest..=highest).map(tick).collect();
    }
    axis
}

fn milliseconds(at: Duration) -> f64 {
    at.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_happened_is_in_the_legend_and_the_acknowledged_line_goes_in_steps() {
        let at = Duration::from_millis;
        let mut sequence = TimeSequence::new("t", "s", "TSN");
        sequence.packet(at(0), 10, Happening::Sent);
        sequence.packet(at(100), 11, Happening::Lost);
        sequence.acknowledged(at(50), 10);
        sequence.acknowledged(at(300), 11);
        let figure = sequence.figure();
        let names: Vec<&str> = figure.points.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["sent", "sent, lost"]);
        assert_eq!(figure.curves[0].points, [(50.0, 10.0), (300.0, 10.0), (300.0, 11.0), (300.0, 11.0)]);
        assert_eq!(figure.curves.len(), 1, "nothing is known of deliveries");
        assert!(figure.x.high > 300.0 && figure.y.low < 10.0 && figure.y.high > 11.0);
    }

    #[test]
    fn time_may_count_from_any_moment_and_a_line_goes_on_to_the_latest_one() {
        let at = Duration::from_millis;
        let mut sequence = TimeSequence::new("t", "s", "TSN");
        sequence.count_from(at(100), "time since the loss");
        sequence.packet(at(0), 10, Happening::Sent);
        sequence.packet(at(100), 11, Happening::Lost);
        sequence.packet(at(400), 12, Happening::Sent);
        sequence.delivered(at(50), 10);
        sequence.lasts_until(at(450));
        sequence.note(at(100), 11, "a note");
        let figure = sequence.figure();
        assert_eq!(figure.curves[0].points, [(-50.0, 10.0), (350.0, 10.0)]);
        let lost = figure.points.iter().find(|series| series.name == "sent, lost").expect("one is lost");
        assert_eq!((lost.points[0].x, figure.notes[0].x), (0.0, 0.0));
        assert!(figure.x.low < -100.0 && figure.x.high > 350.0 && figure.x.label == "time since the loss");
    }

    #[test]
    fn each_of_a_few_numbers_is_written_beside_its_axis() {
        let written = |lowest, highest| number_axis("TSN", lowest, highest).ticks.len();
        assert_eq!((written(7, 7), written(10, 19), written(10, 20)), (1, 10, 11));
        assert!(written(0, 100) < 20);
    }

    #[test]
    fn a_figure_without_packets_can_be_drawn() {
        assert!(TimeSequence::new("t", "s", "TSN").figure().to_svg().is_ok());
    }
}
