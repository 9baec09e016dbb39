//! The figure of delays: for each delay the share of messages that took longer.

use std::time::Duration;

use super::{Axis, Curve, Figure, Mark, Scale, Tick, Unit};
use festina_models::statistics::DelayStatistics;

/// Builds a [`Figure`] from delays: horizontally the delay, vertically the share of messages that are later, both
/// logarithmic, so that the rare late messages that spoil an interactive application are as visible as the usual ones.
#[derive(Clone, Debug)]
pub struct DelayDistribution {
    title: String,
    subtitle: String,
    thresholds: Vec<Threshold>,
    curves: Vec<Curve>,
    delay_ms_range: Option<(f64, f64)>,
    /// The longest 99.9th percentile, if the axis is to end there.
    end_ms: Option<f64>,
    count_max: u64,
    /// Of the curve with the fewest delays.
    count_min: Option<u64>,
}

/// A delay that is marked with a vertical line.
#[derive(Clone, Debug)]
pub struct Threshold {
    delay: Duration,
    label: String,
}

impl Threshold {
    /// A line at `delay` with `label` at its upper end.
    pub fn new(delay: Duration, label: &str) -> Self {
        Self { delay, label: label.to_owned() }
    }
}

impl DelayDistribution {
    /// A figure without curves yet.
    pub fn new(title: &str, subtitle: &str) -> Self {
        Self {
            title: title.to_owned(),
            subtitle: subtitle.to_owned(),
            thresholds: Vec::new(),
            curves: Vec::new(),
            delay_ms_range: None,
            end_ms: None,
            count_max: 1,
            count_min: None,
        }
    }

    /// Ends the axis at the longest 99.9th percentile of all curves, or at the last marked delay. Otherwise one message of half a minute would press
    /// all others into a corner. Longer delays are not drawn.
    pub fn to_the_999th_permille(mut self) -> Self {
        self.end_ms = Some(0.0);
        self
    }

    /// Marks a delay.
    pub fn threshold(&mut self, threshold: Threshold) {
        self.thresholds.push(threshold);
    }

    /// Adds the curve of `delays`; nothing is added if there are none. It falls in steps from all messages at the shortest
    /// delay to none at the longest, where it meets the lower edge.
    pub fn curve(&mut self, name: &str, delays: &DelayStatistics) {
        let (Some(min), Some(max)) = (delays.min(), delays.max()) else {
            return;
        };
        let mut share = 1.0;
        let mut points = vec![(milliseconds(min), share)];
        for step in delays.shares_later() {
            let delay_ms = milliseconds(step.delay);
            points.push((delay_ms, share));
            share = step.share;
            points.push((delay_ms, share));
        }
        self.curves.push(Curve { name: name.to_owned(), points });
        let (low, high) = self.delay_ms_range.unwrap_or((f64::INFINITY, 0.0));
        self.delay_ms_range = Some((low.min(milliseconds(min)), high.max(milliseconds(max))));
        if let (Some(end_ms), Some(late)) = (&mut self.end_ms, delays.quantile(0.999)) {
            *end_ms = end_ms.max(milliseconds(late));
        }
        self.count_max = self.count_max.max(delays.count());
        self.count_min = Some(self.count_min.map_or(delays.count(), |least| least.min(delays.count())));
    }

    /// The figure, its axes chosen so that every curve and every marked delay is seen.
    pub fn figure(mut self) -> Figure {
        if let (Some(end_ms), Some((_, high))) = (self.end_ms, &mut self.delay_ms_range) {
            *high = high.min(end_ms);
        }
        let thresholds_ms = self.thresholds.iter().map(|threshold| milliseconds(threshold.delay));
        let (low, high) = thresholds_ms.fold(self.delay_ms_range.unwrap_or((10.0, 1000.0)), |(low, high), delay_ms| {
            (low.min(delay_ms), high.max(delay_ms))
        });
        // A logarithmic axis has no place for the delay 0 of a capture with coarse time stamps.
        let low = low.max(LEAST_MS);
        // Room at both sides so that no curve runs along the frame and the last threshold's name fits.
        let (left, high) = (low * 0.8, high.max(low) * 1.6);
        let x = Axis::log("delivery delay", left, high, Unit::Milliseconds);
        for curve in &mut self.curves {
            curve.points.retain(|&(delay_ms, _)| delay_ms <= high);
            curve.points.iter_mut().for_each(|(delay_ms, _)| *delay_ms = delay_ms.max(low));
        }
        let marks = self.thresholds.into_iter();
        let subtitle = match self.count_min {
            Some(least) if least == self.count_max => format!("{}; n = {least} a curve", self.subtitle),
            Some(least) => format!("{}; n = {least} to {} a curve", self.subtitle, self.count_max),
            None => self.subtitle,
        };
        Figure {
            curves: self.curves,
            marks: marks.map(|mark| Mark { x: milliseconds(mark.delay), label: mark.label }).collect(),
            ..Figure::new(&self.title, &subtitle, x, share_axis(self.count_max))
        }
    }
}

/// The left end of the axis: shorter delays are drawn there.
const LEAST_MS: f64 = 0.001;

/// From all messages down to the decade that holds a single one of `count`.
fn share_axis(count: u64) -> Axis {
    let decades = i32::try_from(count.max(2).ilog10() + 1).unwrap_or(i32::MAX);
    let ticks = (0..=decades)
        .map(|decade| {
            let label = match decade {
                0 => "all".to_owned(),
                1 => "10%".to_owned(),
                2 => "1%".to_owned(),
                _ => format!("0.{:0>width$}%", 1, width = usize::try_from(decade - 2).unwrap_or(1)),
            };
            Tick { value: 10f64.powi(-decade), label }
        })
        .collect();
    Axis {
        label: "share of messages that take longer".to_owned(),
        scale: Scale::Log,
        low: 10f64.powi(-decades),
        high: 1.0,
        ticks,
    }
}

fn milliseconds(delay: Duration) -> f64 {
    delay.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays_ms(delays: impl IntoIterator<Item = u64>) -> DelayStatistics {
        let mut statistics = DelayStatistics::new();
        for delay in delays {
            statistics.record(Duration::from_millis(delay));
        }
        statistics
    }

    #[test]
    fn an_axis_that_ends_at_the_999th_permille_leaves_out_the_one_message_that_is_later() {
        let delays = delays_ms((0..1_999).map(|_| 50).chain([30_000]));
        let end = |distribution: DelayDistribution| {
            let mut distribution = distribution;
            distribution.curve("c", &delays);
            let figure = distribution.figure();
            let drawn = figure.curves[0].points.iter().map(|&(delay_ms, _)| delay_ms).fold(0.0, f64::max);
            (figure.x.high, drawn)
        };
        let (high, drawn) = end(DelayDistribution::new("t", "s"));
        assert!(high > 30_000.0 && drawn > 29_000.0);
        let (high, drawn) = end(DelayDistribution::new("t", "s").to_the_999th_permille());
        assert!(high < 100.0 && drawn < 60.0, "{high} {drawn}");
    }

    #[test]
    fn the_curve_falls_in_steps_from_all_messages_to_none() {
        let mut distribution = DelayDistribution::new("t", "s");
        distribution.curve("a", &delays_ms([100, 200]));
        let figure = distribution.figure();
        let shares: Vec<f64> = figure.curves[0].points.iter().map(|point| point.1).collect();
        assert_eq!(shares, [1.0, 1.0, 0.5, 0.5, 0.0]);
    }

    #[test]
    fn the_axes_show_every_delay_every_threshold_and_a_single_message() {
        let mut distribution = DelayDistribution::new("t", "s");
        distribution.threshold(Threshold::new(Duration::from_secs(1), "1 s"));
        distribution.curve("a", &delays_ms((0..5_120).map(|number| 50 + number % 200)));
        let figure = distribution.figure();
        assert!(figure.x.low < 50.0 && figure.x.high > 1000.0);
        assert!(figure.y.low <= 1.0 / 5_120.0);
        let labels: Vec<&str> = figure.y.ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert_eq!(labels, ["all", "10%", "1%", "0.1%", "0.01%"]);
        assert_eq!(figure.x.ticks.last().map(|tick| tick.label.as_str()), Some("1 s"));
    }

    #[test]
    fn delays_of_zero_are_drawn_at_the_left_end() {
        for delays in [&[0, 0][..], &[0, 1, 2]] {
            let mut distribution = DelayDistribution::new("t", "s");
            distribution.curve("a", &delays_ms(delays.iter().copied()));
            let figure = distribution.figure();
            assert!(figure.curves[0].points.iter().all(|point| point.0 > figure.x.low));
            assert!(!figure.to_svg().unwrap().contains("inf"));
        }
    }

    #[test]
    fn no_delays_make_no_curve() {
        let mut distribution = DelayDistribution::new("t", "s");
        distribution.curve("a", &DelayStatistics::new());
        assert!(distribution.figure().curves.is_empty());
    }
}
