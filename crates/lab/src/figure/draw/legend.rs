//! The legend: a sample of each line, point and bar with its name, in the necessary number of rows.

use plotters::style::RGBColor;

use super::pen::{Drawn, INK, Pen, Point, SCALE, Stroke, color_of, style};
use super::places;
use super::{MARGIN, WIDTH, bars, points};
use crate::figure::{Figure, Marker, label};

/// Distance between rows, in CSS pixels.
pub(super) const ROW: i32 = 21;
/// Width of a sample, gap behind it, gap between entries, in CSS pixels.
const SAMPLE: i32 = 29;
const GAP: i32 = 6;
const BETWEEN: i32 = 22;
const FONT_SIZE: i32 = 13;

/// What stands in front of a name.
enum Sample {
    Line(Stroke),
    Points { marker: Marker, color: RGBColor, line: Option<Stroke> },
    Bar(RGBColor),
    Hatched,
}

/// The entries with their places.
pub(super) struct Legend {
    entries: Vec<(Sample, String, Point)>,
    rows: i32,
}

impl Legend {
    /// `top` is the middle of the first row, in CSS pixels.
    pub(super) fn of(figure: &Figure, top: i32) -> Self {
        let mut legend = Self { entries: Vec::new(), rows: 0 };
        let mut x = MARGIN;
        for (sample, name) in samples(figure) {
            let width = SAMPLE + GAP + label::text_width(&name, FONT_SIZE);
            if legend.rows == 0 || (x + width > WIDTH - MARGIN && x > MARGIN) {
                legend.rows += 1;
                x = MARGIN;
            }
            legend.entries.push((sample, name, (x, top + (legend.rows - 1) * ROW)));
            x += width + BETWEEN;
        }
        legend
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> i32 {
        self.rows
    }

    pub(super) fn draw(&self, pen: &Pen<'_>) -> Drawn {
        for (sample, name, (x, y)) in &self.entries {
            let at = |dx: i32, dy: i32| ((x + dx) * SCALE, (y + dy) * SCALE);
            let across = [at(0, 0), at(SAMPLE, 0)];
            match sample {
                Sample::Line(stroke) => pen.line(&across, *stroke)?,
                Sample::Points { marker, color, line } => {
                    if let Some(stroke) = line {
                        pen.line(&across, *stroke)?;
                    }
                    points::marker(pen, at(SAMPLE / 2, 0), *marker, *color)?;
                }
                Sample::Bar(color) => pen.rectangle(at(6, -6), at(SAMPLE - 7, 6), *color)?,
                Sample::Hatched => bars::hatched(pen, at(6, -6), at(SAMPLE - 7, 6), color_of(0))?,
            }
            pen.text(name, at(SAMPLE + GAP, 0), &style(FONT_SIZE, INK).middle())?;
        }
        Ok(())
    }
}

fn samples(figure: &Figure) -> Vec<(Sample, String)> {
    let mut samples = Vec::new();
    if let Some(bars) = &figure.bars {
        let colors = bars.series.iter().enumerate();
        samples.extend(colors.map(|(index, name)| (Sample::Bar(color_of(index)), name.clone())));
        samples.extend(bars.hatched.iter().map(|name| (Sample::Hatched, name.clone())));
        let markers = bars.markers.iter().enumerate();
        samples.extend(markers.map(|(index, name)| {
            let marker = bars::marker_of(index);
            (Sample::Points { marker, color: INK, line: None }, name.clone())
        }));
    }
    let curves = figure.curves.iter().zip(places::of(figure));
    samples.extend(curves.map(|(curve, place)| (Sample::Line(Stroke::of(place, 3)), curve.name.clone())));
    for (index, series) in figure.points.iter().enumerate() {
        let stroke = points::stroke(figure, index, series);
        let line = series.is_joined.then_some(stroke);
        samples.push((Sample::Points { marker: series.marker, color: stroke.color, line }, series.name.clone()));
    }
    samples
}
