//! Lines, shapes and text on the canvas.
//!
//! Everything is drawn on a canvas of four times the size and shown at a quarter, because the drawing library counts in
//! whole pixels and thin, steep curves would look ragged.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::Color as _;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontFamily, FontStyle, FontTransform, RGBColor, ShapeStyle, TextStyle};

use crate::figure::{Color, FigureError};

/// Canvas units for one CSS pixel.
pub(in crate::figure) const SCALE: i32 = 4;

pub(super) const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
pub(super) const MUTED: RGBColor = RGBColor(0x5c, 0x66, 0x70);
pub(super) const GRID: RGBColor = RGBColor(0xe6, 0xe9, 0xec);
pub(super) const MARK: RGBColor = RGBColor(0x9a, 0xa3, 0xad);

pub(super) const COLORS: [RGBColor; 7] = [
    RGBColor(0x6b, 0x72, 0x7a),
    RGBColor(0xd9, 0x8b, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xc2, 0x5f, 0x9a),
    RGBColor(0xc4, 0x4e, 0x00),
    RGBColor(0x3a, 0xa0, 0xd8),
];

const FONT: FontFamily<'static> = FontFamily::Name("Helvetica Neue, Helvetica, Arial, sans-serif");

/// A point of the canvas, in canvas units.
pub(super) type Point = (i32, i32);
pub(super) type Drawn = Result<(), FigureError>;

/// What draws on the canvas.
pub(super) struct Pen<'a> {
    canvas: DrawingArea<SVGBackend<'a>, Shift>,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stroke {
    pub(super) color: RGBColor,
    /// In canvas units.
    pub(super) width: i32,
    /// Lengths of line and gap, in canvas units; `None` for a line without gaps.
    pub(super) dashes: Option<(i32, i32)>,
}

impl Stroke {
    /// A solid line of `width_px` CSS pixels.
    pub(super) fn solid(color: RGBColor, width_px: i32) -> Self {
        Self { color, width: width_px * SCALE, dashes: None }
    }

    /// The line of the curve or the points at `index`: after all colours have been used, they come again dashed, then
    /// dotted.
    pub(super) fn of(index: usize, width_px: i32) -> Self {
        let dashes = match index / COLORS.len() {
            0 => None,
            1 => Some((7 * SCALE, 4 * SCALE)),
            _ => Some((2 * SCALE, 3 * SCALE)),
        };
        Self { dashes, ..Self::solid(color_of(index), width_px) }
    }
}

/// The colour at `index`, over and over.
pub(super) fn color_of(index: usize) -> RGBColor {
    COLORS.get(index % COLORS.len()).copied().unwrap_or(INK)
}

impl From<Color> for RGBColor {
    fn from(color: Color) -> Self {
        color_of(match color {
            Color::Gray => 0,
            Color::Orange => 1,
            Color::Blue => 2,
            Color::Green => 3,
            Color::Pink => 4,
            Color::Vermilion => 5,
            Color::Sky => 6,
        })
    }
}

/// Two thirds of the way from `color` to white.
pub(super) fn lighter(color: RGBColor) -> RGBColor {
    let light = |part: u8| part + (255 - part) / 3 * 2;
    RGBColor(light(color.0), light(color.1), light(color.2))
}

impl<'a> Pen<'a> {
    /// A white canvas of this size in CSS pixels, whose SVG goes to `svg`.
    pub(super) fn new(svg: &'a mut String, (width_px, height_px): (i32, i32)) -> Result<Self, FigureError> {
        let size = [width_px, height_px].map(|pixels| (pixels * SCALE).unsigned_abs());
        let canvas = SVGBackend::with_string(svg, size.into()).into_drawing_area();
        canvas.fill(&WHITE).map_err(drawing)?;
        Ok(Self { canvas })
    }

    pub(super) fn finish(&self) -> Drawn {
        self.canvas.present().map_err(drawing)
    }

    pub(super) fn line(&self, points: &[Point], stroke: Stroke) -> Drawn {
        match stroke.dashes {
            None => self.unbroken(points.to_vec(), stroke),
            Some((on, off)) => dashes(points, on, off).into_iter().try_for_each(|dash| self.unbroken(dash, stroke)),
        }
    }

    fn unbroken(&self, points: Vec<Point>, stroke: Stroke) -> Drawn {
        let stroke_width = stroke.width.unsigned_abs();
        let style = ShapeStyle { color: stroke.color.to_rgba(), filled: false, stroke_width };
        self.canvas.draw(&PathElement::new(points, style)).map_err(drawing)
    }

    pub(super) fn filled(&self, corners: Vec<Point>, color: RGBColor) -> Drawn {
        self.canvas.draw(&Polygon::new(corners, color.filled())).map_err(drawing)
    }

    pub(super) fn rectangle(&self, from: Point, to: Point, color: RGBColor) -> Drawn {
        self.canvas.draw(&Rectangle::new([from, to], color.filled())).map_err(drawing)
    }

    /// A circle; `width` is that of its line, or `None` if it is filled.
    pub(super) fn circle(&self, at: Point, radius: i32, color: RGBColor, width: Option<i32>) -> Drawn {
        let style = match width {
            None => color.filled(),
            Some(width) => color.stroke_width(width.unsigned_abs()),
        };
        self.canvas.draw(&Circle::new(at, radius, style)).map_err(drawing)
    }

    pub(super) fn text(&self, text: &str, at: Point, style: &Style) -> Drawn {
        self.canvas.draw_text(text, &style.to_plotters(), at).map_err(drawing)
    }
}

/// Cuts a path into dashes.
fn dashes(path: &[Point], on: i32, off: i32) -> Vec<Vec<Point>> {
    let mut dashes = Vec::new();
    let mut dash: Vec<Point> = path.first().copied().into_iter().collect();
    let (mut is_on, mut left) = (true, f64::from(on));
    for pair in path.windows(2) {
        let (mut from, to) = (to_f64(pair[0]), to_f64(pair[1]));
        loop {
            let length = (to.0 - from.0).hypot(to.1 - from.1);
            if length <= left {
                left -= length;
                if is_on {
                    dash.push(pair[1]);
                }
                break;
            }
            let part = left / length;
            from = (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part);
            let turn = (rounded(from.0), rounded(from.1));
            if is_on {
                dash.push(turn);
                dashes.push(std::mem::take(&mut dash));
            } else {
                dash.push(turn);
            }
            is_on = !is_on;
            left = f64::from(if is_on { on } else { off });
        }
    }
    if dash.len() > 1 {
        dashes.push(dash);
    }
    dashes
}

fn to_f64((x, y): Point) -> (f64, f64) {
    (f64::from(x), f64::from(y))
}

/// The canvas unit nearest to `place`.
#[expect(clippy::cast_possible_truncation, reason = "the canvas is a few thousand units wide, and the cast saturates")]
pub(super) fn rounded(place: f64) -> i32 {
    place.round() as i32
}

/// How text is set: size in CSS pixels, colour, weight, and which point of it lies at the place given.
pub(super) struct Style {
    size: i32,
    color: RGBColor,
    font_style: FontStyle,
    anchor: Pos,
    transform: FontTransform,
}

/// Text that hangs from the place given, to its right.
pub(super) fn style(size: i32, color: RGBColor) -> Style {
    let anchor = Pos::new(HPos::Left, VPos::Top);
    Style { size, color, font_style: FontStyle::Normal, anchor, transform: FontTransform::None }
}

impl Style {
    pub(super) fn bold(mut self) -> Self {
        self.font_style = FontStyle::Bold;
        self
    }

    pub(super) fn center(mut self) -> Self {
        self.anchor.h_pos = HPos::Center;
        self
    }

    pub(super) fn right(mut self) -> Self {
        self.anchor.h_pos = HPos::Right;
        self
    }

    pub(super) fn middle(mut self) -> Self {
        self.anchor.v_pos = VPos::Center;
        self
    }

    /// Text that reads upwards and ends at the place given.
    pub(super) fn upwards(mut self) -> Self {
        self.transform = FontTransform::Rotate270;
        self.anchor = Pos::new(HPos::Right, VPos::Center);
        self
    }

    fn to_plotters(&self) -> TextStyle<'_> {
        // The SVG backend divides font sizes by 1.24.
        let size = f64::from(self.size * SCALE) * 1.24;
        let font = (FONT, size, self.font_style).into_font().transform(self.transform.clone());
        TextStyle::from(font).color(&self.color).pos(self.anchor)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn drawing<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> FigureError {
    FigureError::Drawing(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_have_their_length_and_go_around_corners() {
        let cut = dashes(&[(0, 0), (10, 0), (10, 100)], 20, 10);
        assert_eq!(cut[0], [(0, 0), (10, 0), (10, 10)]);
        assert_eq!(cut[1], [(10, 20), (10, 40)]);
        assert_eq!(cut.last().map(Vec::as_slice), Some([(10, 80), (10, 100)].as_slice()));
        assert!(dashes(&[], 1, 1).is_empty());
    }

    #[test]
    fn colours_come_again_dashed_so_that_twelve_lines_are_told_apart() {
        let strokes: Vec<_> = (0..12).map(|index| Stroke::of(index, 2)).map(|s| (s.color, s.dashes)).collect();
        assert!(strokes.iter().enumerate().all(|(index, stroke)| !strokes[..index].contains(stroke)));
    }
}
