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

/// Side margin in CSS pixels.
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
/// Height of a row of names of marks, and the gap between two of them, in CSS pixels.
const MARK_NAMES: i32 = 16;
const MARK_GAP: i32 = 8;
/// The font of ticks, of the axes' names and of the marks' names.
const SMALL_FONT: i32 = 12;
/// Gap next to the label of a tick of the vertical axis, in CSS pixels.
const TICK_GAP: i32 = 8;
/// The largest and the smallest font of these labels, and of the title.
const TICK_FONTS: [i32; 2] = [SMALL_FONT, 9];
const TITLE_FONTS: [i32; 2] = [18, 12];

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
    /// Returns the canvas point of a point in axis values; points outside are moved to the edge.
    fn point(&self, (x, y): (f64, f64)) -> Point {
        let label::Area { left, right, top, bottom } = self.area;
        let across = self.figure.x.place(x) * f64::from(right - left);
        let upwards = self.figure.y.place(y) * f64::from(bottom - top);
        (left + rounded(across), bottom - rounded(upwards))
    }
}

/// The largest font of a range in which a text fits into a width in CSS pixels, also if it is bold or of wide characters.
fn font_within(text: &str, [largest, smallest]: [i32; 2], width: i32) -> i32 {
    let fits = |font: &i32| label::text_width(text, *font) * 11 / 10 <= width;
    (smallest..=largest).rev().find(fits).unwrap_or(smallest)
}

/// The title's font.
fn title_font(title: &str) -> i32 {
    font_within(title, TITLE_FONTS, WIDTH - 2 * MARGIN)
}

/// The font of a tick label of the vertical axis.
fn tick_font(label: &str) -> i32 {
    font_within(label, TICK_FONTS, PLOT_LEFT - TICK_GAP)
}

/// The middle of a text in the small font that should be at `center`, moved so that all of it is on the page. In canvas units.
fn on_the_page(text: &str, center: i32) -> i32 {
    let half = label::text_width(text, SMALL_FONT) * SCALE / 2 + SCALE;
    center.min(WIDTH * SCALE - half).max(half)
}

/// Where the name of a mark stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MarkName {
    /// Its middle, in canvas units.
    center: i32,
    /// Counted upwards from the plot.
    row: usize,
}

/// The names of marks: each in the lowest row where it covers none of the others.
fn mark_names(figure: &Figure) -> Vec<MarkName> {
    let across = |x: f64| PLOT_LEFT * SCALE + rounded(figure.x.place(x) * f64::from((PLOT_RIGHT - PLOT_LEFT) * SCALE));
    let mut order: Vec<usize> = (0..figure.marks.len()).collect();
    order.sort_by_key(|&index| across(figure.marks[index].x));
    let mut row_ends: Vec<i32> = Vec::new();
    let mut names = vec![MarkName { center: 0, row: 0 }; figure.marks.len()];
    for index in order {
        let mark = &figure.marks[index];
        let center = on_the_page(&mark.label, across(mark.x));
        let half = label::text_width(&mark.label, SMALL_FONT) * SCALE / 2;
        let is_free = |end: &i32| end + MARK_GAP * SCALE <= center - half;
        let row = row_ends.iter().position(is_free).unwrap_or_else(|| {
            row_ends.push(0);
            row_ends.len() - 1
        });
        row_ends[row] = center + half;
        names[index] = MarkName { center, row };
    }
    names
}

/// The room that the names of marks take, in CSS pixels.
fn mark_names_height(names: &[MarkName]) -> i32 {
    let rows = names.iter().map(|name| name.row + 1).max().unwrap_or(0);
    i32::try_from(rows).unwrap_or(0) * MARK_NAMES
}

struct Page<'f, 's> {
    figure: &'f Figure,
    pen: Pen<'s>,
    axes: Axes<'f>,
    subtitle: Vec<String>,
    legend: Legend,
    mark_names: Vec<MarkName>,
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
        let mark_names = mark_names(figure);
        let area = label::Area {
            left: PLOT_LEFT * SCALE,
            right: PLOT_RIGHT * SCALE,
            top: (legend_end + PLOT_BELOW_LEGEND + mark_names_height(&mark_names)) * SCALE,
            bottom: bottom * SCALE,
        };
        Self { figure, pen, axes: Axes { figure, area }, subtitle, legend, mark_names, below }
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

    /// Draws title, subtitle, label of the vertical axis, and legend.
    fn heading(&self) -> Drawn {
        let Self { figure, pen, .. } = self;
        pen.text(&figure.title, (MARGIN * SCALE, 16 * SCALE), &style(title_font(&figure.title), INK).bold())?;
        let mut y = SUBTITLE_TOP;
        for line in &self.subtitle {
            pen.text(line, (MARGIN * SCALE, y * SCALE), &style(SUBTITLE_FONT, MUTED))?;
            y += SUBTITLE_LINE;
        }
        self.legend.draw(pen)?;
        let y = self.axes.area.top - (24 + mark_names_height(&self.mark_names)) * SCALE;
        pen.text(&figure.y.label, (MARGIN * SCALE, y), &style(SMALL_FONT, MUTED))
    }

    fn grid(&self) -> Drawn {
        let Self { figure, pen, axes, .. } = self;
        let label::Area { left, right, top, bottom } = axes.area;
        let line = |from, to, color| pen.line(&[from, to], Stroke::solid(color, 1));
        for tick in &figure.y.ticks {
            let (_, y) = axes.point((figure.x.low, tick.value));
            line((left, y), (right, y), GRID)?;
            let style = style(tick_font(&tick.label), MUTED).right().middle();
            pen.text(&tick.label, (left - TICK_GAP * SCALE, y), &style)?;
        }
        for tick in &figure.x.ticks {
            let (x, _) = axes.point((tick.value, figure.y.low));
            line((x, bottom), (x, bottom + 5 * SCALE), MUTED)?;
            let center = on_the_page(&tick.label, x);
            pen.text(&tick.label, (center, bottom + 9 * SCALE), &style(SMALL_FONT, MUTED).center())?;
        }
        line((left, bottom), (right, bottom), MUTED)?;
        let below = (right, (HEIGHT - 22) * SCALE);
        pen.text(&figure.x.label, below, &style(SMALL_FONT, MUTED).right())?;
        line((left, top), (left, bottom), GRID)
    }

    fn marks(&self) -> Drawn {
        let label::Area { top, bottom, .. } = self.axes.area;
        for (mark, name) in self.figure.marks.iter().zip(&self.mark_names) {
            let (x, _) = self.axes.point((mark.x, self.figure.y.high));
            let stroke = Stroke { dashes: Some((4 * SCALE, 4 * SCALE)), ..Stroke::solid(MARK, 1) };
            self.pen.line(&[(x, top), (x, bottom)], stroke)?;
            let row = i32::try_from(name.row + 1).unwrap_or(1);
            let place = (name.center, top - row * MARK_NAMES * SCALE);
            self.pen.text(&mark.label, place, &style(SMALL_FONT, MUTED).center())?;
        }
        Ok(())
    }

    /// Draws the names of curves, and the annotations.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Axis, Mark, Unit};

    #[test]
    fn a_long_title_gets_a_font_in_which_it_fits_and_a_short_one_the_largest() {
        assert_eq!(title_font("Throughput"), 18);
        let long = "When a message is sent again beside web traffic: RTT 100 ms, a message every 250 ms";
        let font = title_font(long);
        assert!((12..18).contains(&font) && label::text_width(long, font) < WIDTH - 2 * MARGIN, "{font}");
    }

    #[test]
    fn names_of_marks_that_would_cover_each_other_stand_in_rows_and_all_of_them_on_the_page() {
        let x = Axis::from_zero("arrival", 5.0, Unit::Number);
        let y = Axis::linear("share", 0.0, 1.0, Unit::Share);
        let mark = |x, label: &str| Mark { x, label: label.to_owned() };
        let marks = vec![
            mark(4.99, "paper: the last of all"),
            mark(1.3, "paper: another"),
            mark(1.2, "paper: one"),
            mark(3.0, "far"),
        ];
        let names = mark_names(&Figure { marks, ..Figure::new("title", "", x, y) });
        assert_eq!(names.iter().map(|name| name.row).collect::<Vec<_>>(), [0, 1, 0, 0]);
        let half = label::text_width("paper: the last of all", SMALL_FONT) * SCALE / 2;
        assert!(names[0].center + half <= WIDTH * SCALE, "{names:?}");
        assert_eq!(mark_names_height(&names), 2 * MARK_NAMES);
    }

    #[test]
    fn a_long_label_beside_the_vertical_axis_is_written_smaller() {
        let long = "0.0000001%";
        assert_eq!(tick_font("0.01%"), SMALL_FONT);
        assert!(tick_font(long) < SMALL_FONT && label::text_width(long, tick_font(long)) <= PLOT_LEFT - TICK_GAP);
    }

    #[test]
    fn the_label_of_a_tick_at_the_edge_is_moved_inwards() {
        let edge = PLOT_RIGHT * SCALE;
        assert!(on_the_page("250 ms", edge) < edge);
        assert_eq!(on_the_page("1", edge), edge);
    }
}
