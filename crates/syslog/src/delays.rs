//! Histograms of line delays, as Prometheus has them, in constant memory.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// The longest delay of each class but the last, in microseconds.
pub const BOUNDS_US: [u64; 15] = [
    1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000,
    10_000_000, 20_000_000, 60_000_000,
];

/// Delays of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delays {
    /// Lines by class; the last is for what took longer than all bounds.
    counts: [u64; BOUNDS_US.len() + 1],
    sum_us: u64,
}

impl Delays {
    /// A line took this many microseconds.
    pub fn note(&mut self, delay_us: u64) {
        let class = BOUNDS_US.partition_point(|bound_us| *bound_us < delay_us);
        self.counts[class] += 1;
        self.sum_us = self.sum_us.saturating_add(delay_us);
    }

    /// Adds what `more` counted.
    pub fn add(&mut self, more: &Self) {
        self.counts.iter_mut().zip(more.counts).for_each(|(sum, more)| *sum += more);
        self.sum_us = self.sum_us.saturating_add(more.sum_us);
    }

    /// Number of lines counted.
    pub fn lines(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the smallest bound, in microseconds, that this percentage of lines did not exceed. `None` without lines, or if the delay lies beyond
    /// all bounds.
    pub fn percentile_us(&self, percent: u64) -> Option<u64> {
        // Lines that have to lie within, rounded up.
        let wanted = (u128::from(self.lines()) * u128::from(percent)).div_ceil(100);
        let mut within = 0_u128;
        let reached = |count: &u64| {
            within += u128::from(*count);
            within >= wanted && wanted > 0
        };
        BOUNDS_US.get(self.counts.iter().position(reached)?).copied()
    }

    /// The lines of a histogram for Prometheus (text format 0.0.4), without its type; `label` is one label with its value.
    pub(crate) fn put(&self, text: &mut String, name: &str, label: &str) {
        let mut below = 0;
        for (bound_us, count) in BOUNDS_US.iter().zip(&self.counts) {
            below += count;
            let _ = writeln!(text, "{name}_bucket{{{label},le=\"{}\"}} {below}", seconds(*bound_us));
        }
        let lines = self.lines();
        let _ = writeln!(text, "{name}_bucket{{{label},le=\"+Inf\"}} {lines}");
        let _ = writeln!(text, "{name}_sum{{{label}}} {}", seconds(self.sum_us));
        let _ = writeln!(text, "{name}_count{{{label}}} {lines}");
    }
}

/// Microseconds as seconds, without needless zeros.
fn seconds(us: u64) -> String {
    let (whole, rest) = (us / 1_000_000, us % 1_000_000);
    if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:06}").trim_end_matches('0').to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_counts_in_the_first_class_whose_bound_it_does_not_exceed() {
        let mut delays = Delays::default();
        [0, 1_000, 1_001, 60_000_000, 60_000_001].into_iter().for_each(|delay_us| delays.note(delay_us));
        assert_eq!((delays.counts[0], delays.counts[1], delays.counts[14], delays.counts[15]), (2, 1, 1, 1));
        assert_eq!((delays.lines(), delays.sum_us), (5, 120_002_002));
    }

    #[test]
    fn a_percentile_is_a_bound_that_so_many_lines_did_not_exceed() {
        let mut delays = Delays::default();
        assert_eq!(delays.percentile_us(50), None);
        (0..99).for_each(|_| delays.note(4_000));
        delays.note(70_000);
        assert_eq!((delays.percentile_us(50), delays.percentile_us(99)), (Some(5_000), Some(5_000)));
        assert_eq!(delays.percentile_us(100), Some(100_000));
        delays.note(u64::MAX);
        assert_eq!(delays.percentile_us(100), None);
    }

    #[test]
    fn prometheus_reads_cumulated_counts_and_seconds() {
        let mut delays = Delays::default();
        [500, 1_500, 70_000_000].into_iter().for_each(|delay_us| delays.note(delay_us));
        let mut text = String::new();
        delays.put(&mut text, "d", "severity=\"err\"");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "d_bucket{severity=\"err\",le=\"0.001\"} 1");
        assert_eq!(lines[1], "d_bucket{severity=\"err\",le=\"0.002\"} 2");
        assert_eq!(lines[14], "d_bucket{severity=\"err\",le=\"60\"} 2");
        assert_eq!(lines[15], "d_bucket{severity=\"err\",le=\"+Inf\"} 3");
        assert_eq!(lines[16], "d_sum{severity=\"err\"} 70.002");
        assert_eq!(lines[17], "d_count{severity=\"err\"} 3");
    }
}
