//! Axes: positions of values, and labelled ticks.

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Quantity of the axis, with its unit.
    pub label: String,
    /// How distances on the axis correspond to values.
    pub scale: Scale,
    /// The value at the start; above zero on a logarithmic axis.
    pub low: f64,
    /// The value at the end; above `low`.
    pub high: f64,
    /// The labelled ticks.
    pub ticks: Vec<Tick>,
}

/// How distances on an axis correspond to values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal distances are equal differences.
    Linear,
    /// Equal distances are equal ratios.
    Log,
}

/// A labelled tick.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Where.
    pub value: f64,
    /// Text of the label.
    pub label: String,
}

/// How the values of an axis are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// As they are.
    Number,
    /// Whole numbers only.
    Count,
    /// Milliseconds, written as `250 ms`, from a second as `1.5 s`.
    Milliseconds,
    /// Shares from 0 to 1, written as `25%`.
    Share,
}

/// Approximate number of ticks of a linear axis.
const TICKS: f64 = 6.0;
/// A logarithmic axis of more decades than this shows the powers of ten only.
const FINE_DECADES_MAX: f64 = 3.5;

impl Axis {
    /// Creates a linear axis with round ticks.
    pub fn linear(label: &str, low: f64, high: f64, unit: Unit) -> Self {
        Self { label: label.to_owned(), scale: Scale::Linear, low, high, ticks: linear_ticks(low, high, unit) }
    }

    /// A linear axis from zero to a round value that is not below `highest`.
    pub fn from_zero(label: &str, highest: f64, unit: Unit) -> Self {
        let highest = if highest.is_finite() && highest > 0.0 { highest } else { 1.0 };
        let step = round_step(highest / TICKS, unit);
        Self::linear(label, 0.0, (highest / step).ceil() * step, unit)
    }

    /// Creates a logarithmic axis with ticks at 1, 2 and 5 times the powers of ten; only at the powers if there would be too many.
    pub fn log(label: &str, low: f64, high: f64, unit: Unit) -> Self {
        Self { label: label.to_owned(), scale: Scale::Log, low, high, ticks: log_ticks(low, high, unit) }
    }

    /// A linear axis with a name at 0, 1, 2 and so on, and half a step of room at both ends.
    pub fn categories(label: &str, names: &[&str]) -> Self {
        let ticks: Vec<Tick> = (0u32..)
            .zip(names)
            .map(|(place, name)| Tick { value: f64::from(place), label: (*name).to_owned() })
            .collect();
        let high = ticks.last().map_or(0.0, |tick| tick.value) + 0.5;
        Self { label: label.to_owned(), scale: Scale::Linear, low: -0.5, high, ticks }
    }

    /// Whether the axis rises and, if it is logarithmic, does so from above zero.
    pub(super) fn is_sound(&self) -> bool {
        let starts = match self.scale {
            Scale::Linear => self.low.is_finite(),
            Scale::Log => self.low > 0.0,
        };
        starts && self.low < self.high && self.high.is_finite()
    }

    /// Returns the position of `value` between the start (0) and the end (1). Values outside are moved to the edge.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.log10() - self.low.log10()) / (self.high.log10() - self.low.log10()),
        }
    }
}

fn linear_ticks(low: f64, high: f64, unit: Unit) -> Vec<Tick> {
    let step = round_step((high - low) / TICKS, unit);
    if !(step.is_finite() && step > 0.0) {
        return Vec::new();
    }
    // Half a millionth of a step more, for sums of steps are not exact.
    let within = |value: &f64| *value <= high + step * 5e-7;
    let first = (low / step - 5e-7).ceil();
    (0u32..)
        .map(|number| (first + f64::from(number)) * step)
        .take_while(within)
        .map(|value| Tick { value, label: unit.text(value, step) })
        .collect()
}

/// 1, 2 or 5 times a power of ten, not below `least`; of counts not below one.
fn round_step(least: f64, unit: Unit) -> f64 {
    let least = if unit == Unit::Count { least.max(1.0) } else { least };
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| *step >= least * 0.999).unwrap_or(least)
}

fn log_ticks(low: f64, high: f64, unit: Unit) -> Vec<Tick> {
    let steps: &[f64] = if (high / low).log10() > FINE_DECADES_MAX { &[1.0] } else { &[1.0, 2.0, 5.0] };
    (-12..=12)
        .flat_map(|exponent| steps.iter().map(move |step| step * 10f64.powi(exponent)))
        .filter(|value| (low * 0.999_999..=high * 1.000_001).contains(value))
        .map(|value| Tick { value, label: unit.text(value, value) })
        .collect()
}

impl Unit {
    /// Formats a value with as many decimals as steps of `step` need.
    fn text(self, value: f64, step: f64) -> String {
        match self {
            Self::Number | Self::Count => decimal(value, step),
            Self::Share => format!("{}%", decimal(value * 100.0, step * 100.0)),
            Self::Milliseconds if value.abs() >= 999.5 => format!("{} s", decimal(value / 1000.0, step / 1000.0)),
            Self::Milliseconds if value == 0.0 => "0".to_owned(),
            Self::Milliseconds if value.abs() >= 0.95 => format!("{} ms", decimal(value, step)),
            Self::Milliseconds => format!("{} us", decimal(value * 1000.0, step * 1000.0)),
        }
    }
}

fn decimal(value: f64, step: f64) -> String {
    let mut decimals = 0;
    while decimals < 12 && {
        let scaled = step * 10f64.powi(decimals);
        (scaled - scaled.round()).abs() > 1e-6 * scaled.max(1e-12)
    } {
        decimals += 1;
    }
    // Zero has no sign.
    let value = if value.abs() < step.abs() * 1e-6 { 0.0 } else { value };
    let text = format!("{value:.*}", usize::try_from(decimals).unwrap_or(0));
    match text.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|digit| digit == b'0') => whole.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn a_linear_axis_has_round_values_beside_it() {
        let axis = |low, high, unit| Axis::linear("", low, high, unit);
        assert_eq!(labels(&axis(0.0, 1.0, Unit::Share)), ["0%", "20%", "40%", "60%", "80%", "100%"]);
        assert_eq!(labels(&axis(0.0, 2_500.0, Unit::Milliseconds)), ["0", "500 ms", "1 s", "1.5 s", "2 s", "2.5 s"]);
        assert_eq!(labels(&axis(-0.3, 0.3, Unit::Number)), ["-0.3", "-0.2", "-0.1", "0", "0.1", "0.2", "0.3"]);
        assert_eq!(labels(&axis(17.0, 41.0, Unit::Number)), ["20", "25", "30", "35", "40"]);
        assert_eq!(labels(&axis(17.5, 20.1, Unit::Count)), ["18", "19", "20"]);
        assert_eq!(labels(&axis(0.0, 0.02, Unit::Share)), ["0%", "0.5%", "1%", "1.5%", "2%"]);
    }

    #[test]
    fn an_axis_from_zero_ends_at_a_round_value_that_is_high_enough() {
        for (highest, end) in [(0.93, 1.0), (1.0, 1.0), (1_234.0, 1_500.0), (7.0, 8.0), (0.0, 1.0)] {
            let axis = Axis::from_zero("", highest, Unit::Number);
            assert!((axis.high - end).abs() < 1e-9, "{highest}: {}", axis.high);
        }
    }

    #[test]
    fn a_logarithmic_axis_thins_its_values_out() {
        assert_eq!(labels(&Axis::log("", 0.9, 25.0, Unit::Milliseconds)), ["1 ms", "2 ms", "5 ms", "10 ms", "20 ms"]);
        assert_eq!(
            labels(&Axis::log("", 0.001, 1_000.0, Unit::Milliseconds)),
            ["1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s"]
        );
        assert_eq!(labels(&Axis::log("", 0.01, 1.0, Unit::Share)), ["1%", "2%", "5%", "10%", "20%", "50%", "100%"]);
    }

    #[test]
    fn values_have_their_places_and_what_lies_outside_is_moved_to_the_edge() {
        let linear = Axis::linear("", 0.0, 10.0, Unit::Number);
        let log = Axis::log("", 1.0, 100.0, Unit::Number);
        for (axis, value, place) in [(&linear, 2.5, 0.25), (&log, 10.0, 0.5), (&linear, 11.0, 1.0), (&log, 0.0, 0.0)] {
            assert!((axis.place(value) - place).abs() < 1e-12, "{value}");
        }
        let names = Axis::categories("", &["a", "b"]);
        assert_eq!((names.place(0.0), names.place(1.0)), (0.25, 0.75));
    }
}
