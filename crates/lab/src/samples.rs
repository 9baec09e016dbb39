//! What one run of one point measured.

use std::collections::BTreeMap;
use std::time::Duration;

use festina_units::Instant;

use festina_models::statistics::DelayStatistics;

/// Measurements of one repetition of one point: delays in named series, and named numbers.
///
/// A series is either [recorded](Self::record), which keeps every delay, or [tallied](Self::tally), which counts equal delays, for series of very
/// many messages. Tables and figures treat both alike.
///
/// A name is in lower case and has no comma, such as `first retransmission`; it appears in tables and files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    series: BTreeMap<String, Vec<Sample>>,
    tallies: BTreeMap<String, DelayStatistics>,
    values: BTreeMap<String, f64>,
}

/// The delay of one message or packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was handed to the sender, in the time of the simulation.
    pub sent_at: Instant,
    /// The delay.
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
    /// If the name would not survive being written to a table, or the series is tallied: that is a bug of the experiment.
    pub fn record(&mut self, series: &str, sample: Sample) {
        if let Some(samples) = self.series.get_mut(series) {
            samples.push(sample);
        } else {
            assert!(!self.tallies.contains_key(series), "{series} is either recorded or tallied");
            self.series.insert(checked(series), vec![sample]);
        }
    }

    /// Counts a delay into the histogram of a series, without keeping when it was sent. Percentiles are within 0.1%, the
    /// rest is exact; the size in memory and on disk does not grow with the number of delays.
    ///
    /// # Panics
    /// If the name would not survive being written to a table, or the series is recorded: that is a bug of the experiment.
    pub fn tally(&mut self, series: &str, delay: Duration) {
        if let Some(tally) = self.tallies.get_mut(series) {
            tally.record(delay);
        } else {
            let mut tally = DelayStatistics::new();
            tally.record(delay);
            self.set_tally(series, tally);
        }
    }

    /// Sets a series to delays that were gathered elsewhere, as if each had been [tallied](Self::tally).
    ///
    /// # Panics
    /// As [`tally`](Self::tally).
    pub fn set_tally(&mut self, series: &str, delays: DelayStatistics) {
        assert!(!self.series.contains_key(series), "{series} is either recorded or tallied");
        self.tallies.insert(checked(series), delays);
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

    /// The recorded series by name.
    pub fn series(&self) -> &BTreeMap<String, Vec<Sample>> {
        &self.series
    }

    /// The tallied series by name.
    pub fn tallies(&self) -> &BTreeMap<String, DelayStatistics> {
        &self.tallies
    }

    /// The numbers by name.
    pub fn values(&self) -> &BTreeMap<String, f64> {
        &self.values
    }
}

/// Whether a name survives being written to a table.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c == ',' || c == '"' || c.is_control())
}

fn checked(name: &str) -> String {
    assert!(is_plain(name), "a name has neither commas nor quotes nor line ends: {name:?}");
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
    fn a_tally_counts_without_keeping() {
        let mut samples = Samples::new();
        for delay_ms in [10, 10, 30] {
            samples.tally("a", Duration::from_millis(delay_ms));
        }
        assert!(samples.series().is_empty());
        let tally = &samples.tallies()["a"];
        assert_eq!((tally.count(), tally.max()), (3, Some(Duration::from_millis(30))));
    }

    #[test]
    #[should_panic(expected = "a is either recorded or tallied")]
    fn a_series_is_not_both_recorded_and_tallied() {
        let mut samples = Samples::new();
        samples.tally("a", Duration::ZERO);
        samples.record("a", Sample { sent_at: Instant::ZERO, delay: Duration::ZERO });
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
