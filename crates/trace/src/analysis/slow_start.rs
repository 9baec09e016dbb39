//! The beginning of a stream: the data of each round trip of slow start, and the end of slow start.

/// Maximum number of rounds that are recorded. After this number, a window of ten segments exceeds the capacity of any
/// path.
const ROUNDS_MAX: usize = 24;
/// A round with less than this part of the one before has not grown: slow start doubles, or with delayed acknowledgements adds a half
/// (RFC 5681 §3.1).
const GROWTH_MIN_PERCENT: u64 = 125;

/// The reason why slow start ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlowStartExit {
    /// The stream ended first.
    Ended,
    /// There was a retransmission.
    Loss,
    /// The sender sent hardly more than in the round before: the application had no more data, or a window was full.
    NoGrowth,
}

impl SlowStartExit {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::Ended, Self::Loss, Self::NoGrowth];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Loss => "loss",
            Self::NoGrowth => "no growth",
        }
    }
}

/// The beginning of a stream, in rounds. A round begins with the acknowledgement that ends the one before, and ends with the first
/// acknowledgement of something that was sent in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowStart {
    /// Bytes sent for the first time in each round; the first is the initial window, as far as the application filled
    /// it.
    pub round_bytes: Vec<u64>,
    /// The beginning of the conversation is in the capture. Otherwise the other fields are empty.
    pub is_whole: bool,
    exit: Option<SlowStartExit>,
    /// Bytes of the current round.
    bytes: u64,
    /// Data above was sent in the current round.
    begin: u64,
    has_not_grown: bool,
}

impl SlowStart {
    pub(super) fn new(is_whole: bool, start: u64) -> Self {
        Self { is_whole, begin: start, ..Self::default() }
    }

    /// Returns the reason why it ended.
    pub fn exit(&self) -> SlowStartExit {
        self.exit.unwrap_or(SlowStartExit::Ended)
    }

    /// The bytes of the first round; `None` if nothing was sent.
    pub fn initial_window_bytes(&self) -> Option<u64> {
        self.round_bytes.first().copied()
    }

    /// Returns the number of round trips of a transfer whose window begins with this many bytes and doubles in each:
    /// ⌈log₂(S / W + 1)⌉. The standard formula, without loss and limits of rate. 0 if there are no bytes.
    ///
    /// ```
    /// use festina_trace::analysis::SlowStart;
    ///
    /// assert_eq!(SlowStart::rounds_of(14_600, 14_600), 1);
    /// assert_eq!(SlowStart::rounds_of(100_000, 14_600), 3);
    /// ```
    pub fn rounds_of(bytes: u64, initial_window_bytes: u64) -> u32 {
        let mut rounds = 0;
        let (mut sent, mut window) = (0u64, initial_window_bytes.max(1));
        while sent < bytes {
            sent = sent.saturating_add(window);
            window = window.saturating_mul(2);
            rounds += 1;
        }
        rounds
    }

    /// Data was sent for the first time.
    pub(super) fn sent(&mut self, bytes: u32) {
        if self.exit.is_none() && self.has_not_grown {
            self.exit = Some(SlowStartExit::NoGrowth);
        }
        self.bytes += u64::from(bytes);
    }

    /// Data was retransmitted.
    pub(super) fn sent_again(&mut self) {
        self.exit.get_or_insert(SlowStartExit::Loss);
    }

    /// All below `through` is acknowledged, and `highest` is the end of the sent data.
    pub(super) fn acknowledged(&mut self, through: u64, highest: u64) {
        if self.exit.is_some() || through <= self.begin {
            return;
        }
        self.end_round();
        self.begin = highest;
        if self.round_bytes.len() == ROUNDS_MAX {
            self.exit = Some(SlowStartExit::NoGrowth);
        }
    }

    /// The stream is over.
    pub(super) fn finish(&mut self) {
        if self.exit.is_none() && self.bytes > 0 {
            self.end_round();
        }
    }

    fn end_round(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.has_not_grown = self
            .round_bytes
            .last()
            .is_some_and(|before| bytes.saturating_mul(100) < before.saturating_mul(GROWTH_MIN_PERCENT));
        if bytes > 0 {
            self.round_bytes.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a transfer in segments of 1,000 bytes, with a window that doubles.
    fn transfer(segments: u64, initial: u64) -> SlowStart {
        let mut slow_start = SlowStart::new(true, 0);
        let (mut sent, mut acknowledged, mut window) = (0, 0, initial);
        while acknowledged < segments {
            while sent < segments && sent - acknowledged < window {
                slow_start.sent(1_000);
                sent += 1;
            }
            // Each segment is acknowledged separately, and allows two more.
            acknowledged += 1;
            window += 1;
            slow_start.acknowledged(acknowledged * 1_000, sent * 1_000);
        }
        slow_start.finish();
        slow_start
    }

    #[test]
    fn a_transfer_within_slow_start_takes_the_rounds_of_the_closed_form() {
        for (segments, initial) in [(1, 10), (10, 10), (11, 10), (30, 10), (31, 10), (500, 10), (500, 3)] {
            let found = transfer(segments, initial);
            assert_eq!(found.exit(), SlowStartExit::Ended, "{segments} {initial}");
            assert_eq!(found.initial_window_bytes(), Some(1_000 * segments.min(initial)));
            let expected = SlowStart::rounds_of(1_000 * segments, 1_000 * initial);
            assert_eq!(found.round_bytes.len(), usize::try_from(expected).expect("few"), "{segments} {initial}");
            assert_eq!(found.round_bytes.iter().sum::<u64>(), 1_000 * segments);
        }
    }

    #[test]
    fn a_retransmission_or_a_round_that_does_not_grow_ends_it() {
        let mut lossy = SlowStart::new(true, 0);
        lossy.sent(1_000);
        lossy.sent_again();
        lossy.acknowledged(1_000, 1_000);
        assert_eq!(lossy.exit(), SlowStartExit::Loss);
        let mut thin = SlowStart::new(true, 0);
        for number in 1..=3 {
            thin.sent(100);
            thin.acknowledged(number * 100, number * 100);
        }
        assert_eq!((thin.exit(), thin.round_bytes), (SlowStartExit::NoGrowth, vec![100, 100]));
    }
}
