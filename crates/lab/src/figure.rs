//! Figures, drawn as SVG with real text.
//!
//! - [`DelayDistribution`] builds the distribution of delays, Festina's most frequent figure
//! - [`BarChart`] builds bars in groups, with marks and stacked shares
//! - [`TimeSequence`] builds the life of packets over time
//! - [`Figure`] is the contents of a figure: [axes](Axis), curves, points, bars, marked vertical lines
//! - `draw` puts it on the page; `label` finds free places for the names of curves

mod axis;
mod bars;
mod delay;
mod draw;
mod label;
mod sequence;

pub use axis::{Axis, Scale, Tick, Unit};
pub use bars::{Bar, BarChart, BarGroup, Bars, Segment};
pub use delay::{DelayDistribution, Threshold};
pub use sequence::{Happening, TimeSequence};

use thiserror::Error;

/// A figure. Its SVG is 800 by 480 and is meant to be read at that size or larger.
///
/// Colours are given in the order curves, points; after seven they repeat and lines are dashed.
///
/// ```
/// use festina_lab::figure::{Axis, Figure, PlotPoint, PointSeries, Unit};
///
/// let rtt = Axis::linear("round-trip time", 0.0, 400.0, Unit::Milliseconds);
/// let throughput = Axis::from_zero("throughput in Mbit/s", 9.4, Unit::Number);
/// let mut figure = Figure::new("Throughput", "four flows", rtt, throughput);
/// let points = [(50.0, 9.4), (100.0, 9.1), (400.0, 7.2)];
/// let points = points.map(|(x, y)| PlotPoint { x, y, whisker: Some((y - 0.4, y + 0.4)) });
/// figure.points.push(PointSeries::new("New Reno", points));
/// assert!(figure.to_svg()?.contains("New Reno"));
/// # Ok::<(), festina_lab::figure::FigureError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Figure {
    /// One line above the figure.
    pub title: String,
    /// One line below the title: the conditions.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves, drawn in this order.
    pub curves: Vec<Curve>,
    /// Whether each curve's name is also shown next to it; never with more than six curves.
    pub has_curve_names: bool,
    /// Points of several kinds, drawn in this order over the curves.
    pub points: Vec<PointSeries>,
    /// Bars, drawn below the curves.
    pub bars: Option<Bars>,
    /// Vertical lines behind everything else.
    pub marks: Vec<Mark>,
    /// Annotations in the figure.
    pub notes: Vec<Note>,
}

impl Figure {
    /// A figure with nothing but its axes.
    pub fn new(title: &str, subtitle: &str, x: Axis, y: Axis) -> Self {
        Self {
            title: title.to_owned(),
            subtitle: subtitle.to_owned(),
            x,
            y,
            curves: Vec::new(),
            has_curve_names: true,
            points: Vec::new(),
            bars: None,
            marks: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Draws the figure. The text stays text, so that it can be searched, copied and read aloud.
    ///
    /// # Errors
    /// If an axis has no extent, or is logarithmic and reaches zero, where a logarithm has no value.
    pub fn to_svg(&self) -> Result<String, FigureError> {
        for axis in [&self.x, &self.y] {
            if !axis.is_sound() {
                return Err(FigureError::Axis { label: axis.label.clone(), low: axis.low, high: axis.high });
            }
        }
        draw::svg(self)
    }
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Name next to the curve and in the legend.
    pub name: String,
    /// The points in axis values, joined by straight lines. Points outside the axes are drawn on their edge.
    pub points: Vec<(f64, f64)>,
}

/// Points of one kind.
#[derive(Clone, Debug)]
pub struct PointSeries {
    /// Name in the legend.
    pub name: String,
    /// The form of the points.
    pub marker: Marker,
    /// Their colour; if there is none, the next of all colours.
    pub color: Option<Color>,
    /// Whether a thin line joins them.
    pub is_joined: bool,
    /// Whether whiskers lie across, between two values of the horizontal axis.
    pub has_whiskers_across: bool,
    /// Where they are.
    pub points: Vec<PlotPoint>,
}

impl PointSeries {
    /// Joined dots.
    pub fn new(name: &str, points: impl IntoIterator<Item = PlotPoint>) -> Self {
        let points = points.into_iter().collect();
        Self {
            name: name.to_owned(),
            marker: Marker::Dot,
            color: None,
            is_joined: true,
            has_whiskers_across: false,
            points,
        }
    }

    /// The same series, each with a form of its own, so that colour is not the only key; after seven the forms come again.
    pub fn told_apart(mut series: Vec<Self>) -> Vec<Self> {
        let forms =
            [Marker::Dot, Marker::Triangle, Marker::Diamond, Marker::Cross, Marker::Ring, Marker::Plus, Marker::Dash];
        for (one, marker) in series.iter_mut().zip(forms.into_iter().cycle()) {
            one.marker = marker;
        }
        series
    }
}

/// A point in axis values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlotPoint {
    /// Across.
    pub x: f64,
    /// Upwards.
    pub y: f64,
    /// A thin line from a low to a high value, such as a confidence interval: upwards, unless the series has its whiskers across.
    pub whisker: Option<(f64, f64)>,
}

/// The form of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// A filled circle.
    Dot,
    /// A circle.
    Ring,
    /// An upright cross.
    Plus,
    /// A cross.
    Cross,
    /// A filled triangle.
    Triangle,
    /// A filled diamond.
    Diamond,
    /// A short horizontal line.
    Dash,
}

/// Colours that stay apart for readers with any common colour vision deficiency (after Okabe and Ito), on white.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// For reference curves.
    Gray,
    /// The second.
    Orange,
    /// The third.
    Blue,
    /// The fourth.
    Green,
    /// The fifth.
    Pink,
    /// The sixth.
    Vermilion,
    /// The seventh.
    Sky,
}

/// A vertical line with a name.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Where on the horizontal axis.
    pub x: f64,
    /// Label at its upper end.
    pub label: String,
}

/// An annotation next to a place in the figure.
#[derive(Clone, Debug)]
pub struct Note {
    /// Across.
    pub x: f64,
    /// Upwards.
    pub y: f64,
    /// The text.
    pub text: String,
}

/// Why a figure could not be drawn.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum FigureError {
    /// Caller: an axis must rise, a logarithmic one from above zero.
    #[error("the axis \"{label}\" cannot go from {low} to {high}")]
    Axis {
        /// The axis's label.
        label: String,
        /// Its start.
        low: f64,
        /// Its end.
        high: f64,
    },
    /// The drawing library refused.
    #[error("the figure could not be drawn: {0}")]
    Drawing(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale, low: f64, high: f64) -> Axis {
        let ticks = vec![Tick { value: 10.0, label: "10".to_owned() }];
        Axis { label: "axis".to_owned(), scale, low, high, ticks }
    }

    fn figure() -> Figure {
        let (x, y) = (axis(Scale::Log, 1.0, 100.0), axis(Scale::Log, 0.1, 20.0));
        Figure {
            curves: vec![Curve { name: "steep \"one\"".to_owned(), points: vec![(2.0, 20.0), (50.0, 0.0)] }],
            marks: vec![Mark { x: 10.0, label: "limit".to_owned() }],
            ..Figure::new("Title & <more>", "conditions", x, y)
        }
    }

    #[test]
    fn the_svg_is_well_formed_and_its_text_is_text() {
        let svg = figure().to_svg().expect("the axes are sound");
        let document = roxmltree::Document::parse(&svg).expect("well-formed XML");
        let root = document.root_element();
        assert_eq!(root.attribute("aria-label"), Some("Title & <more>"));
        assert_eq!((root.attribute("width"), root.attribute("height")), (Some("800"), Some("480")));
        let texts: Vec<&str> = document
            .descendants()
            .filter(|node| node.has_tag_name("text"))
            .filter_map(|node| node.text().map(str::trim))
            .collect();
        for expected in ["Title & <more>", "conditions", "steep \"one\"", "limit", "10", "axis"] {
            assert!(texts.contains(&expected), "{expected} is missing in {texts:?}");
        }
    }

    #[test]
    fn a_whisker_across_lies_beside_its_point_and_another_one_above_and_below_it() {
        let ends = |has_whiskers_across| {
            let point = PlotPoint { x: 10.0, y: 5.0, whisker: Some((2.0, 15.0)) };
            let series = PointSeries { has_whiskers_across, ..PointSeries::new("points", [point]) };
            let svg = Figure { points: vec![series], curves: Vec::new(), ..figure() }.to_svg().expect("sound");
            let document = roxmltree::Document::parse(&svg).expect("well-formed XML");
            let lines = document.descendants().filter_map(|node| node.attribute("points").map(str::to_owned));
            lines.collect::<Vec<_>>()
        };
        let [upwards, across] = [ends(false), ends(true)];
        let drawn = |lines: &[String], others: &[String]| {
            let own = lines.iter().find(|line| !others.contains(line)).expect("they differ").clone();
            let places: Vec<i32> = own.split([',', ' ']).filter_map(|number| number.parse().ok()).collect();
            <[i32; 4]>::try_from(places).expect("a line has two ends")
        };
        let [x, low, same_x, high] = drawn(&upwards, &across);
        assert!(x == same_x && low > high, "{x},{low} {same_x},{high}");
        let [left, y, right, same_y] = drawn(&across, &upwards);
        assert!(y == same_y && left < right, "{left},{y} {right},{same_y}");
    }

    #[test]
    fn the_same_figure_gives_the_same_bytes() {
        assert_eq!(figure().to_svg(), figure().to_svg());
    }

    #[test]
    fn an_axis_that_does_not_rise_or_has_no_logarithm_is_refused() {
        for (scale, low, high) in [
            (Scale::Log, 0.0, 1.0),
            (Scale::Log, -1.0, 1.0),
            (Scale::Log, 2.0, 2.0),
            (Scale::Log, 1.0, f64::INFINITY),
            (Scale::Log, f64::NAN, 1.0),
            (Scale::Linear, 1.0, 0.0),
            (Scale::Linear, f64::NEG_INFINITY, 0.0),
        ] {
            let refused = Figure { x: axis(scale, low, high), ..figure() }.to_svg();
            assert!(matches!(refused, Err(FigureError::Axis { .. })), "{low}..{high}");
        }
        assert!(Figure { x: axis(Scale::Linear, -1.0, 0.0), ..figure() }.to_svg().is_ok());
    }

    #[test]
    fn a_legend_of_twelve_names_takes_rows_and_stays_on_the_page() {
        let curves = (0..12).map(|number| {
            let points = vec![(1.0, f64::from(number) + 1.0), (100.0, f64::from(number) + 2.0)];
            Curve { name: format!("a mechanism with a long name, number {number}"), points }
        });
        let svg = Figure { curves: curves.collect(), ..figure() }.to_svg().expect("the axes are sound");
        let document = roxmltree::Document::parse(&svg).expect("well-formed XML");
        let names: Vec<(i32, i32)> = document
            .descendants()
            .filter(|node| node.has_tag_name("text") && node.text().is_some_and(|text| text.contains("mechanism")))
            .map(|node| {
                let number = |name| node.attribute(name).and_then(|text| text.parse::<i32>().ok()).expect("a place");
                (number("x"), number("y"))
            })
            .collect();
        assert_eq!(names.len(), 12, "each name stands in the legend only");
        assert!(names.iter().all(|(x, y)| *x < 2_400 && *y < 1_000), "{names:?}");
        let rows: std::collections::BTreeSet<i32> = names.iter().map(|(_, y)| *y).collect();
        assert!(rows.len() > 3);
    }
}
