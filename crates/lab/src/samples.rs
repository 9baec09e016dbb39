//! What one run of one point measured.

use std::collections::BTreeMap;
use std::time::Duration;

use festina_units::Instant;

/// What one repetition of one point measured: delays, one by one, in named series, and named numbers.
///
/// A name is in lower case and has no comma, such as `first retransmission`; it appears in tables and files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    series: BTreeMap<String, Vec<Sample>>,
    values: BTreeMap<String, f64>,
}

/// The delay of one message or packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was handed to the sender, in the time of the simulation.
    pub sent_at: Instant,
    /// How long it took.
    pub delay: Duration,
}

impl Samples {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a delay to a series.
    ///
    /// # Panics
    /// If the name would not survive being written to a table: that is a bug of the experiment.
    pub fn record(&mut self, series: &str, sample: Sample) {
        if let Some(samples) = self.series.get_mut(series) {
            samples.push(sample);
        } else {
            self.series.insert(checked(series), vec![sample]);
        }
    }

    /// Sets a number, such as a throughput or a share.
    ///
    /// # Panics
    /// If the name would not survive being written to a table, or the number is infinite or none: that is a bug of the
    /// experiment.
    pub fn set(&mut self, name: &str, value: f64) {
        assert!(value.is_finite(), "{name} is a number, not {value}");
        self.values.insert(checked(name), value);
    }

    /// The series by name.
    pub fn series(&self) -> &BTreeMap<String, Vec<Sample>> {
        &self.series
    }

    /// The numbers by name.
    pub fn values(&self) -> &BTreeMap<String, f64> {
        &self.values
    }
}

fn checked(name: &str) -> String {
    let is_plain = !name.is_empty() && !name.contains(|c: char| c == ',' || c == '"' || c.is_control());
    assert!(is_plain, "a name has neither commas nor quotes nor line ends: {name:?}");
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_keep_the_order_in_which_they_were_recorded() {
        let sample = |ms| Sample { sent_at: Instant::from_millis(ms), delay: Duration::from_millis(2 * ms) };
        let mut samples = Samples::new();
        for ms in [3, 1, 2] {
            samples.record("a", sample(ms));
        }
        assert_eq!(samples.series()["a"], [sample(3), sample(1), sample(2)]);
    }

    #[test]
    #[should_panic(expected = "neither commas nor quotes")]
    fn a_name_that_would_break_a_table_is_a_bug() {
        Samples::new().set("a,b", 1.0);
    }

    #[test]
    #[should_panic(expected = "is a number, not NaN")]
    fn a_value_that_is_no_number_is_a_bug() {
        Samples::new().set("share", f64::NAN);
    }
}
