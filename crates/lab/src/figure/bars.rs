//! Bars in groups: means with their percentiles and maxima, or shares stacked on each other.

use super::{Axis, Figure, Unit};

/// Builds a [`Figure`] of bars in groups.
///
/// ```
/// use festina_lab::figure::{Bar, BarChart, Unit};
///
/// let mut chart = BarChart::new("Delay until a loss was repaired", "5% loss", "delay", Unit::Milliseconds);
/// chart.series = vec!["first retransmission".to_owned(), "second".to_owned()];
/// chart.markers = vec!["99%".to_owned(), "maximum".to_owned()];
/// chart.group("lksctp", vec![Bar::new(0, 600.0).mark(1_050.0).mark(1_400.0), Bar::new(1, 1_900.0)]);
/// chart.group("all", vec![Bar::new(0, 190.0).mark(300.0).mark(410.0), Bar::new(1, 350.0)]);
/// assert!(chart.figure().to_svg()?.contains("lksctp"));
/// # Ok::<(), festina_lab::figure::FigureError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BarChart {
    /// One line above the figure.
    pub title: String,
    /// One line below the title: the conditions.
    pub subtitle: String,
    /// Meaning of the colours, in the order of the legend.
    pub series: Vec<String>,
    /// Meaning of the marks on bars, in the order of the legend; at most three can be distinguished.
    pub markers: Vec<String>,
    /// Meaning of the hatched parts of bars.
    pub hatched: Option<String>,
    value_label: String,
    unit: Unit,
    groups: Vec<BarGroup>,
}

/// Adjacent bars.
#[derive(Clone, Debug)]
pub struct BarGroup {
    /// Label below them.
    pub label: String,
    /// From left to right.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// Label below this bar; may be empty.
    pub label: String,
    /// From the bottom to the top.
    pub segments: Vec<Segment>,
    /// A thin line from a low to a high value, such as a confidence interval.
    pub whisker: Option<(f64, f64)>,
    /// Marked values, in the order of [`BarChart::markers`].
    pub marks: Vec<Option<f64>>,
}

/// A part of a bar.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Which of [`BarChart::series`] gives the colour.
    pub series: usize,
    /// How high the segment is.
    pub height: f64,
    /// The hatched part of the height, from its top.
    pub hatched: f64,
}

impl Bar {
    /// A plain bar in the colour of a series.
    pub fn new(series: usize, height: f64) -> Self {
        Self::default().stack(series, height, 0.0)
    }

    /// Puts a segment on top. Its upper part of height `hatched` is hatched.
    #[must_use]
    pub fn stack(mut self, series: usize, height: f64, hatched: f64) -> Self {
        self.segments.push(Segment { series, height, hatched });
        self
    }

    /// Writes something below the bar.
    #[must_use]
    pub fn label(mut self, label: &str) -> Self {
        label.clone_into(&mut self.label);
        self
    }

    /// Adds the mark of the next of [`BarChart::markers`]; `None` leaves it out.
    #[must_use]
    pub fn mark(mut self, value: impl Into<Option<f64>>) -> Self {
        self.marks.push(value.into());
        self
    }

    /// Draws a thin line from `low` to `high`.
    #[must_use]
    pub fn whisker(mut self, low: f64, high: f64) -> Self {
        self.whisker = Some((low, high));
        self
    }

    /// Where the bar ends.
    fn height(&self) -> f64 {
        self.segments.iter().map(|segment| segment.height).sum()
    }

    /// The highest of all that is drawn.
    fn top(&self) -> f64 {
        let whisker = self.whisker.map(|(_, high)| high);
        self.marks.iter().copied().chain([whisker]).flatten().fold(self.height(), f64::max)
    }
}

impl BarChart {
    /// Creates a chart without bars, whose vertical axis shows `value_label` in `unit`.
    pub fn new(title: &str, subtitle: &str, value_label: &str, unit: Unit) -> Self {
        Self {
            title: title.to_owned(),
            subtitle: subtitle.to_owned(),
            series: Vec::new(),
            markers: Vec::new(),
            hatched: None,
            value_label: value_label.to_owned(),
            unit,
            groups: Vec::new(),
        }
    }

    /// Adds a group at the right.
    pub fn group(&mut self, label: &str, bars: Vec<Bar>) {
        self.groups.push(BarGroup { label: label.to_owned(), bars });
    }

    /// The figure; its vertical axis shows all bars and marks.
    pub fn figure(self) -> Figure {
        let top = self.groups.iter().flat_map(|group| &group.bars).map(Bar::top).fold(0.0, f64::max);
        // Shares end at the whole, regardless of rounding.
        let y = if self.unit == Unit::Share && (0.9..1.001).contains(&top) {
            Axis::linear(&self.value_label, 0.0, 1.0, self.unit)
        } else {
            Axis::from_zero(&self.value_label, top, self.unit)
        };
        let names: Vec<&str> = self.groups.iter().map(|group| group.label.as_str()).collect();
        let mut x = Axis::categories("", &names);
        // The groups' names are set with the bars, in several lines if they are long.
        x.ticks.clear();
        let bars = Bars { series: self.series, markers: self.markers, hatched: self.hatched, groups: self.groups };
        Figure { bars: Some(bars), ..Figure::new(&self.title, &self.subtitle, x, y) }
    }
}

/// The bars of a [`Figure`]; group `n` stands at `n` on the horizontal axis.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Meaning of the colours, in the order of the legend.
    pub series: Vec<String>,
    /// Meaning of the marks on bars, in the order of the legend.
    pub markers: Vec<String>,
    /// Meaning of the hatched parts of bars.
    pub hatched: Option<String>,
    /// From left to right.
    pub groups: Vec<BarGroup>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_shows_every_mark_and_shares_end_at_the_whole() {
        let mut chart = BarChart::new("t", "s", "delay", Unit::Milliseconds);
        chart.group("a", vec![Bar::new(0, 100.0).mark(None).mark(730.0), Bar::new(0, 90.0).whisker(10.0, 200.0)]);
        assert_eq!(chart.figure().y.high, 800.0);
        let mut shares = BarChart::new("t", "s", "share", Unit::Share);
        shares.group("a", vec![Bar::new(0, 0.3).stack(1, 0.4, 0.2).stack(2, 0.299_999_9, 0.0)]);
        assert_eq!(shares.figure().y.high, 1.0);
    }
}
