//! Measures how long data waits in the send buffer before its first transmission.

use std::collections::VecDeque;

use festina_units::{Duration, Instant};

/// Maximum number of writes remembered. Beyond it the newest are merged, as if they were written with the first of
/// them.
pub const MARKS_MAX: usize = 4096;

/// Measures the time from a write to its first transmission, from stream offsets in bytes.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    marks: VecDeque<Mark>,
    written: u64,
}

#[derive(Copy, Clone, Debug)]
struct Mark {
    end: u64,
    at: Instant,
}

/// A write, or several merged ones, sent completely.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Time from the write until its last byte was sent.
    pub waited: Duration,
    /// Its length.
    pub bytes: u64,
}

impl Waits {
    /// Creates a meter for a stream that starts at offset 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that the stream up to offset `end` was written at `now`.
    pub fn written(&mut self, now: Instant, end: u64) {
        let is_full = self.marks.len() >= MARKS_MAX;
        match self.marks.back_mut() {
            Some(last) if is_full || last.at == now => last.end = last.end.max(end),
            _ => self.marks.push_back(Mark { end, at: now }),
        }
    }

    /// Records that the stream up to offset `end` has been sent by `now`. Returns the next write that was sent
    /// completely; call until it returns `None`.
    pub fn sent(&mut self, now: Instant, end: u64) -> Option<Wait> {
        let mark = *self.marks.front().filter(|mark| mark.end <= end)?;
        self.marks.pop_front();
        let bytes = mark.end - core::mem::replace(&mut self.written, mark.end);
        Some(Wait { waited: now.saturating_duration_since(mark.at), bytes })
    }

    /// Returns how long the oldest incompletely sent write has waited by `now`.
    #[must_use]
    pub fn oldest(&self, now: Instant) -> Option<Duration> {
        self.marks.front().map(|mark| now.saturating_duration_since(mark.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(1_000 + millis)
    }

    #[test]
    fn a_write_has_left_when_its_last_byte_has() {
        let mut waits = Waits::new();
        waits.written(at(0), 1_000);
        waits.written(at(5), 2_500);
        assert_eq!(waits.sent(at(7), 999), None);
        assert_eq!(waits.sent(at(8), 2_000), Some(Wait { waited: Duration::from_millis(8), bytes: 1_000 }));
        assert_eq!(waits.sent(at(8), 2_000), None);
        assert_eq!(waits.oldest(at(10)), Some(Duration::from_millis(5)));
        assert_eq!(waits.sent(at(9), 2_500), Some(Wait { waited: Duration::from_millis(4), bytes: 1_500 }));
        assert_eq!(waits.oldest(at(10)), None);
    }

    #[test]
    fn memory_is_bounded_and_no_byte_is_forgotten() {
        let mut waits = Waits::new();
        let writes = 3 * MARKS_MAX as u64;
        for nth in 1..=writes {
            waits.written(at(nth), nth * 10);
        }
        assert_eq!(waits.marks.len(), MARKS_MAX);
        let left: u64 = std::iter::from_fn(|| waits.sent(at(100_000), writes * 10)).map(|wait| wait.bytes).sum();
        assert_eq!(left, writes * 10);
    }
}
