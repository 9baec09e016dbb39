//! How often refused fingerprints are reported.

use std::collections::VecDeque;

use festina_units::{Duration, Instant};

use super::Fingerprint;

/// Pause between two reports.
const PAUSE: Duration = Duration::from_secs(1);
/// Pause between two reports of one fingerprint.
const PAUSE_OF_SAME: Duration = Duration::from_secs(60);

/// The reports of the last minute: at most sixty.
#[derive(Debug, Default)]
pub(super) struct Reports(VecDeque<(Fingerprint, Instant)>);

impl Reports {
    /// Returns whether this fingerprint is to be reported now.
    pub(super) fn is_due(&mut self, seen: &Fingerprint, now: Instant) -> bool {
        while self.0.front().is_some_and(|(_, at)| now >= *at + PAUSE_OF_SAME) {
            self.0.pop_front();
        }
        let is_due =
            self.0.back().is_none_or(|(_, at)| now >= *at + PAUSE) && self.0.iter().all(|(told, _)| told != seen);
        if is_due {
            self.0.push_back((*seen, now));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_report_a_second_and_one_of_the_same_fingerprint_a_minute() {
        let mut reports = Reports::default();
        let mut due = |key, ms| reports.is_due(&Fingerprint([key; 32]), Instant::ZERO + Duration::from_millis(ms));
        assert_eq!([due(1, 0), due(2, 500), due(2, 1_000), due(1, 2_000)], [true, false, true, false]);
        assert_eq!([due(1, 59_999), due(1, 60_000), due(2, 60_999), due(2, 61_000)], [false, true, false, true]);
        for number in 0..=255 {
            due(number, 100_000 + 1_000 * u64::from(number));
        }
        assert_eq!(reports.0.len(), 60);
    }
}
