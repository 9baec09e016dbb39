//! The life of packets over time: when each number was sent, lost, sent again and acknowledged.

use std::time::Duration;

use super::{Axis, Color, Curve, Figure, Marker, Note, PlotPoint, PointSeries, Unit};

/// Builds a [`Figure`] with the time across and packet numbers (TSNs, segments) upwards.
///
/// ```
/// use std::time::Duration;
/// use festina_lab::figure::{Happening, TimeSequence};
///
/// let at = Duration::from_millis;
/// let mut sequence = TimeSequence::new("A lost packet", "RTT 100 ms", "TSN");
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
    number_label: String,
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
    /// It was sent for the first time and lost on its way.
    Lost,
    /// It was sent once more.
    Retransmitted,
    /// It was sent once more and lost again.
    RetransmissionLost,
    /// It was sent once more though it had arrived, or was about to.
    Spurious,
    /// The same, but on purpose: nothing had called for it.
    Copied,
}

/// In the order of the legend.
const HAPPENINGS: [(Happening, &str, Marker, Color); 6] = [
    (Happening::Sent, "sent", Marker::Dot, Color::Blue),
    (Happening::Lost, "sent, lost", Marker::Cross, Color::Vermilion),
    (Happening::Retransmitted, "retransmitted", Marker::Triangle, Color::Green),
    (Happening::RetransmissionLost, "retransmitted, lost", Marker::Plus, Color::Vermilion),
    (Happening::Spurious, "retransmitted needlessly", Marker::Diamond, Color::Pink),
    (Happening::Copied, "copied", Marker::Ring, Color::Sky),
];

impl TimeSequence {
    /// A figure without packets yet. `number_label` says what the numbers are.
    pub fn new(title: &str, subtitle: &str, number_label: &str) -> Self {
        Self {
            title: title.to_owned(),
            subtitle: subtitle.to_owned(),
            number_label: number_label.to_owned(),
            packets: Vec::new(),
            acknowledged: Vec::new(),
            delivered: Vec::new(),
            notes: Vec::new(),
        }
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

    /// Writes something beside a packet.
    pub fn note(&mut self, at: Duration, number: u64, text: &str) {
        self.notes.push((at, number, text.to_owned()));
    }

    /// The figure, its axes chosen so that everything is seen.
    pub fn figure(self) -> Figure {
        let known = || self.acknowledged.iter().chain(&self.delivered);
        let times = self.packets.iter().map(|(at, ..)| *at).chain(known().map(|(at, _)| *at));
        let numbers = || self.packets.iter().map(|(_, number, _)| *number).chain(known().map(|(_, number)| *number));
        let latest_ms = times.max().map_or(1.0, milliseconds).max(1.0);
        let (lowest, highest) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(1));
        let span = as_f64(highest - lowest).max(1.0);
        let x = Axis::linear("time", 0.0, latest_ms * 1.05, Unit::Milliseconds);
        let y =
            Axis::linear(&self.number_label, as_f64(lowest) - 0.06 * span, as_f64(highest) + 0.06 * span, Unit::Count);
        let mut figure = Figure::new(&self.title, &self.subtitle, x, y);
        for (name, known) in [("acknowledged", &self.acknowledged), ("delivered", &self.delivered)] {
            if !known.is_empty() {
                figure.curves.push(Curve { name: name.to_owned(), points: steps(known) });
            }
        }
        figure.has_curve_names = false;
        for (happening, name, marker, color) in HAPPENINGS {
            let points: Vec<PlotPoint> = self
                .packets
                .iter()
                .filter(|(.., what)| *what == happening)
                .map(|(at, number, _)| PlotPoint { x: milliseconds(*at), y: as_f64(*number), whisker: None })
                .collect();
            if !points.is_empty() {
                let (name, color) = (name.to_owned(), Some(color));
                figure.points.push(PointSeries { name, marker, color, is_joined: false, points });
            }
        }
        figure.notes = self
            .notes
            .into_iter()
            .map(|(at, number, text)| Note { x: milliseconds(at), y: as_f64(number), text })
            .collect();
        figure
    }
}

/// A line that stays level until more is known to have arrived.
fn steps(acknowledged: &[(Duration, u64)]) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (at, number) in acknowledged {
        let (x, y) = (milliseconds(*at), as_f64(*number));
        if let Some((_, before)) = points.last().copied() {
            points.push((x, before));
        }
        points.push((x, y));
    }
    points
}

fn milliseconds(at: Duration) -> f64 {
    at.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "a figure has far fewer packets than 2^53, and only draws them")]
fn as_f64(number: u64) -> f64 {
    number as f64
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
        assert_eq!(figure.curves[0].points, [(50.0, 10.0), (300.0, 10.0), (300.0, 11.0)]);
        assert_eq!(figure.curves.len(), 1, "nothing is known of deliveries");
        assert!(figure.x.high > 300.0 && figure.y.low < 10.0 && figure.y.high > 11.0);
    }

    #[test]
    fn a_figure_without_packets_can_be_drawn() {
        assert!(TimeSequence::new("t", "s", "TSN").figure().to_svg().is_ok());
    }
}
