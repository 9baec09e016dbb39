//! Puts a figure on the page.
//!
//! Everything is drawn on a canvas of four times the size and shown at a quarter, because the drawing library counts in
//! whole pixels and thin, steep curves would look ragged.

use plotters::coord::types::RangedCoordf64;
use plotters::coord::{CoordTranslate, Shift};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontFamily, FontStyle, RGBColor, ShapeStyle, TextStyle};

use super::label::{self, Placed};
use super::{Figure, FigureError};

/// Size as shown, in CSS pixels.
const WIDTH: i32 = 800;
const HEIGHT: i32 = 480;

/// Canvas units for one CSS pixel.
pub(super) const SCALE: i32 = 4;

/// Where the axes lie, in CSS pixels.
const PLOT_LEFT: i32 = 64;
const PLOT_RIGHT: i32 = WIDTH - 20;
const PLOT_TOP: i32 = 136;
const PLOT_BOTTOM: i32 = HEIGHT - 50;

const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
const MUTED: RGBColor = RGBColor(0x5c, 0x66, 0x70);
const GRID: RGBColor = RGBColor(0xe6, 0xe9, 0xec);
const MARK: RGBColor = RGBColor(0x9a, 0xa3, 0xad);

/// Colours that stay apart for readers with any common colour vision deficiency (after Okabe and Ito), on white.
const CURVE_COLORS: [RGBColor; 7] = [
    RGBColor(0x6b, 0x72, 0x7a),
    RGBColor(0xd9, 0x8b, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xc2, 0x5f, 0x9a),
    RGBColor(0xc4, 0x4e, 0x00),
    RGBColor(0x3a, 0xa0, 0xd8),
];

const FONT: FontFamily<'static> = FontFamily::Name("Helvetica Neue, Helvetica, Arial, sans-serif");

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), FigureError>;

/// Draws `figure`, whose axes have been checked.
pub(super) fn svg(figure: &Figure) -> Result<String, FigureError> {
    let mut text = String::new();
    {
        let size = (canvas_extent(WIDTH), canvas_extent(HEIGHT));
        let canvas = SVGBackend::with_string(&mut text, size).into_drawing_area();
        canvas.fill(&WHITE).map_err(drawing)?;
        let page = Page { canvas, axes: Axes::new(figure) };
        page.draw(figure)?;
        page.canvas.present().map_err(drawing)?;
    }
    Ok(shown_at_its_size(&text, &figure.title))
}

fn canvas_extent(pixels: i32) -> u32 {
    (pixels * SCALE).unsigned_abs()
}

/// Gives the canvas its size on the page and its name for screen readers.
fn shown_at_its_size(svg: &str, title: &str) -> String {
    let canvas_size = format!("width=\"{}\" height=\"{}\"", WIDTH * SCALE, HEIGHT * SCALE);
    let title = title.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let shown = format!("width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{title}\"");
    svg.replacen(&canvas_size, &shown, 1)
}

/// Translates axis values into canvas points.
struct Axes {
    coordinates: Cartesian2d<RangedCoordf64, RangedCoordf64>,
    x_range: (f64, f64),
    y_range: (f64, f64),
}

impl Axes {
    fn new(figure: &Figure) -> Self {
        let (x, y) = (&figure.x, &figure.y);
        #[expect(clippy::reversed_empty_ranges, reason = "canvas coordinates grow downwards, values grow upwards")]
        let area = (PLOT_LEFT * SCALE..PLOT_RIGHT * SCALE, PLOT_BOTTOM * SCALE..PLOT_TOP * SCALE);
        Self {
            coordinates: Cartesian2d::new(x.low.log10()..x.high.log10(), y.low.log10()..y.high.log10(), area),
            x_range: (x.low, x.high),
            y_range: (y.low, y.high),
        }
    }

    /// The canvas point of a point in axis values; what lies outside is moved to the edge.
    fn point(&self, (x, y): (f64, f64)) -> (i32, i32) {
        let x = x.clamp(self.x_range.0, self.x_range.1).log10();
        let y = y.clamp(self.y_range.0, self.y_range.1).log10();
        self.coordinates.translate(&(x, y))
    }
}

struct Page<'a> {
    canvas: Canvas<'a>,
    axes: Axes,
}

impl Page<'_> {
    fn draw(&self, figure: &Figure) -> Drawn {
        self.heading(figure)?;
        self.grid(figure)?;
        self.marks(figure)?;
        let paths: Vec<Vec<(i32, i32)>> = figure.curves.iter().map(|curve| self.path(&curve.points)).collect();
        for (index, path) in paths.iter().enumerate() {
            let width = if index + 1 == paths.len() { 3 } else { 2 };
            self.line(path.clone(), color_of(index), width * SCALE)?;
        }
        let names: Vec<&str> = figure.curves.iter().map(|curve| curve.name.as_str()).collect();
        let area = label::Area {
            left: PLOT_LEFT * SCALE,
            right: PLOT_RIGHT * SCALE,
            top: PLOT_TOP * SCALE,
            bottom: PLOT_BOTTOM * SCALE,
        };
        let mark_xs: Vec<i32> = figure.marks.iter().map(|mark| self.axes.point((mark.x, 1.0)).0).collect();
        for Placed { index, at } in label::place(&names, &paths, &mark_xs, &area) {
            let name = names.get(index).copied().unwrap_or_default();
            self.text(name, at, &style(13, color_of(index)).bold().left().middle())?;
        }
        Ok(())
    }

    /// Title, subtitle, what the vertical axis shows, and the legend.
    fn heading(&self, figure: &Figure) -> Drawn {
        self.text(&figure.title, scaled(20, 16), &style(18, INK).bold().left())?;
        self.text(&figure.subtitle, scaled(20, 41), &style(13, MUTED).left())?;
        let mut x = 20;
        for (index, curve) in figure.curves.iter().enumerate() {
            self.line(vec![scaled(x, 74), scaled(x + 22, 74)], color_of(index), 3 * SCALE)?;
            self.text(&curve.name, scaled(x + 28, 74), &style(13, INK).left().middle())?;
            x += 28 + label::text_width(&curve.name, 13) + 24;
        }
        self.text(&figure.y.label, scaled(20, PLOT_TOP - 40), &style(12, MUTED).left())
    }

    fn grid(&self, figure: &Figure) -> Drawn {
        let (left, right) = (PLOT_LEFT * SCALE, PLOT_RIGHT * SCALE);
        let (top, bottom) = (PLOT_TOP * SCALE, PLOT_BOTTOM * SCALE);
        for tick in &figure.y.ticks {
            let (_, y) = self.axes.point((figure.x.low, tick.value));
            self.line(vec![(left, y), (right, y)], GRID, SCALE)?;
            self.text(&tick.label, (left - 8 * SCALE, y), &style(12, MUTED).right().middle())?;
        }
        for tick in &figure.x.ticks {
            let (x, _) = self.axes.point((tick.value, figure.y.low));
            self.line(vec![(x, bottom), (x, bottom + 5 * SCALE)], MUTED, SCALE)?;
            self.text(&tick.label, (x, bottom + 9 * SCALE), &style(12, MUTED).center())?;
        }
        self.line(vec![(left, bottom), (right, bottom)], MUTED, SCALE)?;
        let below = (right, (HEIGHT - 22) * SCALE);
        self.text(&figure.x.label, below, &style(12, MUTED).right())?;
        self.line(vec![(left, top), (left, bottom)], GRID, SCALE)
    }

    fn marks(&self, figure: &Figure) -> Drawn {
        let (top, bottom) = (PLOT_TOP * SCALE, PLOT_BOTTOM * SCALE);
        for mark in &figure.marks {
            let (x, _) = self.axes.point((mark.x, figure.y.high));
            let mut y = top;
            while y < bottom {
                self.line(vec![(x, y), (x, (y + 4 * SCALE).min(bottom))], MARK, SCALE)?;
                y += 8 * SCALE;
            }
            self.text(&mark.label, (x, top - 16 * SCALE), &style(12, MUTED).center())?;
        }
        Ok(())
    }

    /// The canvas points of a curve, without those that would fall onto the one before.
    fn path(&self, points: &[(f64, f64)]) -> Vec<(i32, i32)> {
        let mut path: Vec<(i32, i32)> = points.iter().map(|point| self.axes.point(*point)).collect();
        path.dedup();
        path
    }

    fn line(&self, points: Vec<(i32, i32)>, color: RGBColor, stroke_width: i32) -> Drawn {
        let style = ShapeStyle { color: color.to_rgba(), filled: false, stroke_width: stroke_width.unsigned_abs() };
        self.canvas.draw(&PathElement::new(points, style)).map_err(drawing)
    }

    fn text(&self, text: &str, at: (i32, i32), style: &Style) -> Drawn {
        self.canvas.draw_text(text, &style.to_plotters(), at).map_err(drawing)
    }
}

/// How text is set: size in CSS pixels, colour, weight, and which point of it lies at the place given.
struct Style {
    size: i32,
    color: RGBColor,
    font_style: FontStyle,
    anchor: Pos,
}

fn style(size: i32, color: RGBColor) -> Style {
    Style { size, color, font_style: FontStyle::Normal, anchor: Pos::new(HPos::Left, VPos::Top) }
}

impl Style {
    fn bold(mut self) -> Self {
        self.font_style = FontStyle::Bold;
        self
    }

    fn left(mut self) -> Self {
        self.anchor.h_pos = HPos::Left;
        self
    }

    fn center(mut self) -> Self {
        self.anchor.h_pos = HPos::Center;
        self
    }

    fn right(mut self) -> Self {
        self.anchor.h_pos = HPos::Right;
        self
    }

    fn middle(mut self) -> Self {
        self.anchor.v_pos = VPos::Center;
        self
    }

    fn to_plotters(&self) -> TextStyle<'_> {
        // The SVG backend divides the size by 1.24 on its way out.
        let size = f64::from(self.size * SCALE) * 1.24;
        TextStyle::from((FONT, size, self.font_style).into_font()).color(&self.color).pos(self.anchor)
    }
}

fn scaled(x: i32, y: i32) -> (i32, i32) {
    (x * SCALE, y * SCALE)
}

fn color_of(index: usize) -> RGBColor {
    CURVE_COLORS.get(index % CURVE_COLORS.len()).copied().unwrap_or(INK)
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn drawing<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> FigureError {
    FigureError::Drawing(error.to_string())
}
