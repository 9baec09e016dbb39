//! Puts a figure on the page.

mod bars;
mod legend;
mod pen;
mod places;
mod points;

pub(super) use pen::SCALE;

use super::label::{self, Placed};
use super::{Figure, FigureError};
use bars::Below;
use legend::Legend;
use pen::{Drawn, GRID, INK, MARK, MUTED, Pen, Point, Stroke, color_of, rounded, style};

/// Size as shown, in CSS pixels.
const WIDTH: i32 = 800;
const HEIGHT: i32 = 480;

/// What is left free at the sides, in CSS pixels.
const MARGIN: i32 = 20;

/// Top of the subtitle and height of its lines; middle of the legend below a subtitle of one line. In CSS pixels.
const SUBTITLE_TOP: i32 = 41;
const SUBTITLE_LINE: i32 = 17;
const SUBTITLE_FONT: i32 = 13;
const LEGEND_TOP: i32 = 74;

/// Where the axes lie, in CSS pixels. The top is counted from the legend's last row if there are no marks; the bottom holds
/// with one line below the horizontal axis.
const PLOT_LEFT: i32 = 64;
const PLOT_RIGHT: i32 = WIDTH - MARGIN;
const PLOT_BELOW_LEGEND: i32 = 46;
const PLOT_BOTTOM: i32 = HEIGHT - 50;
/// Height of the names of marks, in CSS pixels.
const MARK_NAMES: i32 = 16;

/// More curves than this have their names in the legend only.
const CURVE_NAMES_MAX: usize = 6;

/// Draws `figure`, whose axes have been checked.
pub(super) fn svg(figure: &Figure) -> Result<String, FigureError> {
    let mut text = String::new();
    {
        let page = Page::new(figure, Pen::new(&mut text, (WIDTH, HEIGHT))?);
        page.draw()?;
        page.pen.finish()?;
    }
    Ok(shown_at_its_size(&text, &figure.title))
}

/// Gives the canvas its size on the page and its name for screen readers.
fn shown_at_its_size(svg: &str, title: &str) -> String {
    let canvas_size = format!("width=\"{}\" height=\"{}\"", WIDTH * SCALE, HEIGHT * SCALE);
    let title = title.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let shown = format!("width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{title}\"");
    svg.replacen(&canvas_size, &shown, 1)
}

/// Translates axis values into canvas points.
struct Axes<'f> {
    figure: &'f Figure,
    area: label::Area,
}

impl Axes<'_> {
    /// The canvas point of a point in axis values; what lies outside is moved to the edge.
    fn point(&self, (x, y): (f64, f64)) -> Point {
        let label::Area { left, right, top, bottom } = self.area;
        let across = self.figure.x.place(x) * f64::from(right - left);
        let upwards = self.figure.y.place(y) * f64::from(bottom - top);
        (left + rounded(across), bottom - rounded(upwards))
    }
}

/// The room that the names of marks take.
fn mark_names(figure: &Figure) -> i32 {
    if figure.marks.is_empty() { 0 } else { MARK_NAMES }
}

struct Page<'f, 's> {
    figure: &'f Figure,
    pen: Pen<'s>,
    axes: Axes<'f>,
    subtitle: Vec<String>,
    legend: Legend,
    below: Option<Below<'f>>,
}

/// The subtitle, and what whiskers are if there are any.
fn with_whiskers(figure: &Figure) -> String {
    let of_points = figure.points.iter().flat_map(|series| &series.points).any(|point| point.whisker.is_some());
    let mut bars = figure.bars.iter().flat_map(|bars| &bars.groups).flat_map(|group| &group.bars);
    if of_points || bars.any(|bar| bar.whisker.is_some()) {
        format!("{}; whiskers: 95% intervals", figure.subtitle)
    } else {
        figure.subtitle.clone()
    }
}

impl<'f, 's> Page<'f, 's> {
    fn new(figure: &'f Figure, pen: Pen<'s>) -> Self {
        let subtitle = label::wrap(&with_whiskers(figure), SUBTITLE_FONT, WIDTH - 2 * MARGIN);
        let lines = i32::try_from(subtitle.len()).unwrap_or(1).max(1);
        let legend_top = LEGEND_TOP + (lines - 1) * SUBTITLE_LINE;
        let legend = Legend::of(figure, legend_top);
        let legend_end = legend_top + (legend.rows() - 1) * legend::ROW;
        let below = figure.bars.as_ref().map(|bars| Below::of(bars, (PLOT_RIGHT - PLOT_LEFT) * SCALE));
        let bottom = below.as_ref().map_or(PLOT_BOTTOM, |below| HEIGHT - 16 - below.height());
        let area = label::Area {
            left: PLOT_LEFT * SCALE,
            right: PLOT_RIGHT * SCALE,
            top: (legend_end + PLOT_BELOW_LEGEND + mark_names(figure)) * SCALE,
            bottom: bottom * SCALE,
        };
        Self { figure, pen, axes: Axes { figure, area }, subtitle, legend, below }
    }

    fn draw(&self) -> Drawn {
        let (figure, pen) = (self.figure, &self.pen);
        self.heading()?;
        self.grid()?;
        self.marks()?;
        if let Some(below) = &self.below {
            below.draw(pen, &self.axes, figure)?;
        }
        let paths: Vec<Vec<Point>> = figure.curves.iter().map(|curve| self.path(&curve.points)).collect();
        for (index, (path, place)) in paths.iter().zip(places::of(figure)).enumerate() {
            // The last curve is the one that the figure is about.
            let is_subject = figure.points.is_empty() && index + 1 == paths.len();
            pen.line(path, Stroke::of(place, if is_subject { 3 } else { 2 }))?;
        }
        points::draw(pen, &self.axes, figure)?;
        self.names(&paths)
    }

    /// Title, subtitle, what the vertical axis shows, and the legend.
    fn heading(&self) -> Drawn {
        let Self { figure, pen, .. } = self;
        pen.text(&figure.title, (MARGIN * SCALE, 16 * SCALE), &style(18, INK).bold())?;
        let mut y = SUBTITLE_TOP;
        for line in &self.subtitle {
            pen.text(line, (MARGIN * SCALE, y * SCALE), &style(SUBTITLE_FONT, MUTED))?;
            y += SUBTITLE_LINE;
        }
        self.legend.draw(pen)?;
        let y = self.axes.area.top - (24 + mark_names(figure)) * SCALE;
        pen.text(&figure.y.label, (MARGIN * SCALE, y), &style(12, MUTED))
    }

    fn grid(&self) -> Drawn {
        let Self { figure, pen, axes, .. } = self;
        let label::Area { left, right, top, bottom } = axes.area;
        let line = |from, to, color| pen.line(&[from, to], Stroke::solid(color, 1));
        for tick in &figure.y.ticks {
            let (_, y) = axes.point((figure.x.low, tick.value));
            line((left, y), (right, y), GRID)?;
            pen.text(&tick.label, (left - 8 * SCALE, y), &style(12, MUTED).right().middle())?;
        }
        for tick in &figure.x.ticks {
            let (x, _) = axes.point((tick.value, figure.y.low));
            line((x, bottom), (x, bottom + 5 * SCALE), MUTED)?;
            pen.text(&tick.label, (x, bottom + 9 * SCALE), &style(12, MUTED).center())?;
        }
        line((left, bottom), (right, bottom), MUTED)?;
        let below = (right, (HEIGHT - 22) * SCALE);
        pen.text(&figure.x.label, below, &style(12, MUTED).right())?;
        line((left, top), (left, bottom), GRID)
    }

    fn marks(&self) -> Drawn {
        let label::Area { top, bottom, .. } = self.axes.area;
        for mark in &self.figure.marks {
            let (x, _) = self.axes.point((mark.x, self.figure.y.high));
            let stroke = Stroke { dashes: Some((4 * SCALE, 4 * SCALE)), ..Stroke::solid(MARK, 1) };
            self.pen.line(&[(x, top), (x, bottom)], stroke)?;
            self.pen.text(&mark.label, (x, top - MARK_NAMES * SCALE), &style(12, MUTED).center())?;
        }
        Ok(())
    }

    /// The names beside the curves, and the notes.
    fn names(&self, paths: &[Vec<Point>]) -> Drawn {
        let Self { figure, pen, axes, .. } = self;
        let mark_xs: Vec<i32> = figure.marks.iter().map(|mark| axes.point((mark.x, figure.y.low)).0).collect();
        if figure.has_curve_names && figure.curves.len() <= CURVE_NAMES_MAX {
            let names: Vec<&str> = figure.curves.iter().map(|curve| curve.name.as_str()).collect();
            let places = places::of(figure);
            for Placed { index, at } in label::place(&names, paths, &mark_xs, &axes.area) {
                let name = names.get(index).copied().unwrap_or_default();
                pen.text(
                    name,
                    at,
                    &style(label::FONT_SIZE, color_of(places.get(index).copied().unwrap_or(index))).bold().middle(),
                )?;
            }
        }
        let texts: Vec<(&str, Point)> =
            figure.notes.iter().map(|note| (note.text.as_str(), axes.point((note.x, note.y)))).collect();
        let points = figure.points.iter().flat_map(|series| &series.points);
        let points: Vec<Point> = points.map(|point| axes.point((point.x, point.y))).collect();
        for ((text, _), to) in texts.iter().zip(label::beside(&texts, &points, paths, &axes.area)) {
            pen.text(text, to, &style(label::FONT_SIZE, INK).middle())?;
        }
        Ok(())
    }

    /// The canvas points of a curve, without those that would fall onto the one before.
    fn path(&self, points: &[(f64, f64)]) -> Vec<Point> {
        let mut path: Vec<Point> = points.iter().map(|point| self.axes.point(*point)).collect();
        path.dedup();
        path
    }
}
