//! Curves on logarithmic axes, drawn as SVG with real text.
//!
//! - [`DelayDistribution`] builds the figure that Festina shows most: who waits how long
//! - [`Figure`] is what is drawn: axes, curves, marked vertical lines
//! - `draw` puts it on the page; `label` finds free places for the curves' names

mod delay;
mod draw;
mod label;

pub use delay::{DelayDistribution, Threshold};

use thiserror::Error;

/// A figure with logarithmic axes. Its SVG is 800 by 480 and is meant to be read at that size or larger.
#[derive(Clone, Debug)]
pub struct Figure {
    /// One line above the figure.
    pub title: String,
    /// One line below the title: the conditions.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: LogAxis,
    /// The vertical axis.
    pub y: LogAxis,
    /// The curves, drawn in this order.
    pub curves: Vec<Curve>,
    /// Vertical lines behind the curves.
    pub marks: Vec<Mark>,
}

impl Figure {
    /// Draws the figure. The text stays text, so that it can be searched, copied and read aloud.
    ///
    /// # Errors
    /// If an axis has no extent or reaches zero, where a logarithm has no value.
    pub fn to_svg(&self) -> Result<String, FigureError> {
        for axis in [&self.x, &self.y] {
            if !(axis.low > 0.0 && axis.low < axis.high && axis.high.is_finite()) {
                return Err(FigureError::Axis { label: axis.label.clone(), low: axis.low, high: axis.high });
            }
        }
        draw::svg(self)
    }
}

/// A logarithmic axis.
#[derive(Clone, Debug)]
pub struct LogAxis {
    /// What the axis shows, with its unit.
    pub label: String,
    /// The value at the start; above zero.
    pub low: f64,
    /// The value at the end; above `low`.
    pub high: f64,
    /// Where a value is written beside the axis.
    pub ticks: Vec<Tick>,
}

/// A value written beside an axis.
#[derive(Clone, Debug)]
pub struct Tick {
    /// Where.
    pub value: f64,
    /// What is written.
    pub label: String,
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// What is written beside the curve and in the legend.
    pub name: String,
    /// The points in axis values, joined by straight lines. What lies outside the axes is drawn on their edge.
    pub points: Vec<(f64, f64)>,
}

/// A vertical line with a name.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Where on the horizontal axis.
    pub x: f64,
    /// What is written at its upper end.
    pub label: String,
}

/// Why a figure could not be drawn.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum FigureError {
    /// Caller: a logarithmic axis must rise from above zero.
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

    fn axis(low: f64, high: f64) -> LogAxis {
        LogAxis { label: "axis".to_owned(), low, high, ticks: vec![Tick { value: 10.0, label: "10".to_owned() }] }
    }

    fn figure() -> Figure {
        Figure {
            title: "Title & <more>".to_owned(),
            subtitle: "conditions".to_owned(),
            x: axis(1.0, 100.0),
            y: axis(0.1, 20.0),
            curves: vec![Curve { name: "steep \"one\"".to_owned(), points: vec![(2.0, 20.0), (50.0, 0.0)] }],
            marks: vec![Mark { x: 10.0, label: "limit".to_owned() }],
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
    fn the_same_figure_gives_the_same_bytes() {
        assert_eq!(figure().to_svg(), figure().to_svg());
    }

    #[test]
    fn an_axis_that_reaches_zero_or_does_not_rise_is_refused() {
        for (low, high) in [(0.0, 1.0), (-1.0, 1.0), (2.0, 2.0), (1.0, f64::INFINITY), (f64::NAN, 1.0)] {
            let refused = Figure { x: axis(low, high), ..figure() }.to_svg();
            assert!(matches!(refused, Err(FigureError::Axis { .. })), "{low}..{high}");
        }
    }
}
