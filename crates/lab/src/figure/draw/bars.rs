//! Bars, their labels, and hatching.

use plotters::style::RGBColor;

use super::pen::{Drawn, INK, MUTED, Pen, Point, SCALE, Stroke, color_of, lighter, style};
use super::{Axes, points};
use crate::figure::{Bar, Bars, Figure, Marker, label};

/// The widest bar, and the share of a group's place that its bars fill.
const BAR_WIDTH_MAX: i32 = 40 * SCALE;
const FILLED_PERCENT: i32 = 78;
/// Distance of the lines of a hatching.
const HATCH: i32 = 6 * SCALE;
/// Font sizes of the labels below bars and groups, in CSS pixels.
const BAR_FONT: i32 = 11;
const GROUP_FONT: i32 = 12;
const GROUP_LINE: i32 = 15;

/// The marker at `index` of [`Bars::markers`].
pub(super) fn marker_of(index: usize) -> Marker {
    [Marker::Diamond, Marker::Dash, Marker::Ring][index.min(2)]
}

/// How the bars of a figure share the width, and their labels.
pub(super) struct Below<'f> {
    bars: &'f Bars,
    /// The place of one group, in canvas units.
    slot: i32,
    /// Whether the labels of single bars read upwards.
    is_upright: bool,
}

impl<'f> Below<'f> {
    /// `width` is that of the horizontal axis in canvas units.
    pub(super) fn of(bars: &'f Bars, width: i32) -> Self {
        let slot = width / i32::try_from(bars.groups.len().max(1)).unwrap_or(i32::MAX);
        let mut below = Self { bars, slot, is_upright: false };
        below.is_upright = bars.groups.iter().any(|group| {
            let room = below.pitch(group.bars.len()) / SCALE;
            group.bars.iter().any(|bar| label::text_width(&bar.label, BAR_FONT) > room)
        });
        below
    }

    /// Height of the labels below the axis, in CSS pixels.
    pub(super) fn height(&self) -> i32 {
        let lines = self.bars.groups.iter().map(|group| self.group_lines(&group.label).len()).max().unwrap_or(0);
        self.bar_labels_height() + i32::try_from(lines).unwrap_or(1) * GROUP_LINE
    }

    fn bar_labels_height(&self) -> i32 {
        let labels = self.bars.groups.iter().flat_map(|group| &group.bars).map(|bar| &bar.label);
        let longest = labels.map(|text| label::text_width(text, BAR_FONT)).max().unwrap_or(0);
        match (longest, self.is_upright) {
            (0, _) => 0,
            (_, true) => longest + 6,
            (_, false) => 16,
        }
    }

    /// Distance between neighbouring bars in a group of `bars`.
    fn pitch(&self, bars: usize) -> i32 {
        let bars = i32::try_from(bars.max(1)).unwrap_or(i32::MAX);
        (self.slot * FILLED_PERCENT / 100 / bars).min(BAR_WIDTH_MAX + BAR_WIDTH_MAX / 8)
    }

    /// Left and right of the bar at `index` of a group of `count` around `middle`.
    fn sides(&self, middle: i32, index: usize, count: usize) -> (i32, i32) {
        let pitch = self.pitch(count);
        let [index, count] = [index, count].map(|number| i32::try_from(number).unwrap_or(0));
        let left = middle - pitch * count / 2 + pitch * index;
        (left + pitch / 16, left + pitch - pitch / 16)
    }

    /// The label of a group in lines that fit above each other, broken at blanks.
    fn group_lines(&self, text: &str) -> Vec<String> {
        label::wrap(text, GROUP_FONT, self.slot / SCALE - 4)
    }

    /// Draws bars, marks and names.
    pub(super) fn draw(&self, pen: &Pen<'_>, axes: &Axes<'_>, figure: &Figure) -> Drawn {
        for (number, group) in (0u32..).zip(&self.bars.groups) {
            let (middle, bottom) = axes.point((f64::from(number), figure.y.low));
            for (index, bar) in group.bars.iter().enumerate() {
                let (left, right) = self.sides(middle, index, group.bars.len());
                bar_segments(pen, axes, figure, bar, (left, right))?;
                let center = left.midpoint(right);
                bar_marks(pen, axes, bar, center)?;
                let at = (center, bottom + 6 * SCALE);
                if self.is_upright {
                    pen.text(&bar.label, at, &style(BAR_FONT, MUTED).upwards())?;
                } else {
                    pen.text(&bar.label, at, &style(BAR_FONT, MUTED).center())?;
                }
            }
            let mut y = bottom + (8 + self.bar_labels_height()) * SCALE;
            for line in self.group_lines(&group.label) {
                pen.text(&line, (middle, y), &style(GROUP_FONT, INK).center())?;
                y += GROUP_LINE * SCALE;
            }
        }
        Ok(())
    }
}

fn bar_segments(pen: &Pen<'_>, axes: &Axes<'_>, figure: &Figure, bar: &Bar, (left, right): (i32, i32)) -> Drawn {
    let mut from = figure.y.low.max(0.0);
    let mut sum = 0.0;
    for segment in &bar.segments {
        sum += segment.height;
        let to = sum.max(from);
        let color = color_of(segment.series);
        let y = |value: f64| axes.point((0.0, value)).1;
        if to > from {
            let plain_to = (sum - segment.hatched).clamp(from, to);
            pen.rectangle((left, y(plain_to)), (right, y(from)), color)?;
            if plain_to < to {
                hatched(pen, (left, y(to)), (right, y(plain_to)), color)?;
            }
        }
        from = to;
    }
    Ok(())
}

fn bar_marks(pen: &Pen<'_>, axes: &Axes<'_>, bar: &Bar, x: i32) -> Drawn {
    let thin = Stroke::solid(INK, 1);
    let y = |value: f64| axes.point((0.0, value)).1;
    if let Some((low, high)) = bar.whisker {
        points::whisker(pen, [(x, y(high)), (x, y(low))], thin)?;
    }
    // A stem connects the bar to its highest mark.
    let top = bar.segments.iter().map(|segment| segment.height).sum();
    if let Some(highest) = bar.marks.iter().copied().flatten().reduce(f64::max).filter(|highest| *highest > top) {
        pen.line(&[(x, y(top)), (x, y(highest))], thin)?;
    }
    for (index, mark) in bar.marks.iter().enumerate() {
        if let Some(value) = mark {
            points::marker(pen, (x, y(*value)), marker_of(index), INK)?;
        }
    }
    Ok(())
}

/// A rectangle in a light `color` with diagonal lines in the full one.
pub(super) fn hatched(pen: &Pen<'_>, (left, top): Point, (right, bottom): Point, color: RGBColor) -> Drawn {
    pen.rectangle((left, top), (right, bottom), lighter(color))?;
    let (width, height) = (right - left, bottom - top);
    let mut start = HATCH;
    while start < width + height {
        // From the left or the bottom edge upwards to the right, until the top or the right edge.
        let (from_x, from_y) = if start <= height { (0, start) } else { (start - height, height) };
        let (to_x, to_y) = if start <= width { (start, 0) } else { (width, start - width) };
        let line = [(left + from_x, top + from_y), (left + to_x, top + to_y)];
        pen.line(&line, Stroke::solid(color, 1))?;
        start += HATCH;
    }
    let outline = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)];
    pen.line(&outline, Stroke::solid(color, 1))
}
