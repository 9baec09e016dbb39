//! HyStart++ (RFC 9406): the first slow start ends when the round-trip time grows, before the queue overflows.
//!
//! There is no limit on the growth per acknowledgement (L = infinity in RFC 9406 §4.3), since packets are paced.

use festina_units::Duration;

/// RFC 9406 §4.3: the growth of the round-trip time that counts lies between these.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
/// It is this fraction of the round-trip time.
const MIN_RTT_DIVISOR: u32 = 8;
/// Samples in a round without which nothing is concluded.
const N_RTT_SAMPLE: u32 = 8;
/// Conservative slow start grows more slowly by this factor.
const CSS_GROWTH_DIVISOR: usize = 4;
/// Rounds of conservative slow start after which slow start ends.
const CSS_ROUNDS: u8 = 5;

/// The state of one slow start.
#[derive(Clone, Debug, Default)]
pub(super) struct HyStart {
    /// The smallest sample of the last round and of this one.
    last_round_min: Option<Duration>,
    round_min: Option<Duration>,
    samples: u32,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    SlowStart,
    /// CSS: the round-trip time grew; the next rounds show whether it stays.
    Conservative {
        /// The round-trip time at which it began; a smaller one shows that it was a mistake.
        baseline: Duration,
        /// Rounds so far, the one in which it began included.
        rounds: u8,
    },
}

impl HyStart {
    /// Starts a round, when the data sent at the start of the last one is acknowledged. Returns whether slow start has ended.
    pub(super) fn begin_round(&mut self) -> bool {
        self.last_round_min = self.round_min.take();
        self.samples = 0;
        match &mut self.phase {
            Phase::SlowStart => false,
            Phase::Conservative { rounds, .. } => {
                *rounds += 1;
                *rounds > CSS_ROUNDS
            }
        }
    }

    /// A round-trip time was measured in this round.
    pub(super) fn sample(&mut self, rtt: Duration) {
        let round_min = self.round_min.map_or(rtt, |min| min.min(rtt));
        self.round_min = Some(round_min);
        self.samples = self.samples.saturating_add(1);
        if self.samples < N_RTT_SAMPLE {
            return;
        }
        match (self.phase, self.last_round_min) {
            (Phase::SlowStart, Some(last_round_min)) => {
                let threshold = (last_round_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if round_min >= last_round_min + threshold {
                    self.phase = Phase::Conservative { baseline: round_min, rounds: 1 };
                }
            }
            (Phase::Conservative { baseline, .. }, _) if round_min < baseline => self.phase = Phase::SlowStart,
            _ => {}
        }
    }

    /// Returns the growth of the window for this many acknowledged bytes.
    pub(super) fn growth(&self, acked_bytes: usize) -> usize {
        match self.phase {
            Phase::SlowStart => acked_bytes,
            Phase::Conservative { .. } => acked_bytes / CSS_GROWTH_DIVISOR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A round with this many samples; whether slow start ended with it.
    fn round(hystart: &mut HyStart, rtt: Duration, samples: u32) -> bool {
        let over = hystart.begin_round();
        (0..samples).for_each(|_| hystart.sample(rtt));
        over
    }

    fn is_conservative(hystart: &HyStart) -> bool {
        hystart.growth(400) == 100
    }

    /// Returns whether conservative slow start begins when the round-trip time grows from one round to the next.
    fn begins(from: Duration, to: Duration) -> bool {
        let mut hystart = HyStart::default();
        round(&mut hystart, from, 8);
        round(&mut hystart, to, 8);
        is_conservative(&hystart)
    }

    #[test]
    fn rfc_9406_4_2_the_threshold_is_an_eighth_of_the_round_trip_between_4_and_16_ms() {
        assert!(!begins(ms(10), Duration::from_micros(13_999)));
        assert!(begins(ms(10), ms(14)));
        assert!(!begins(ms(80), Duration::from_micros(89_999)));
        assert!(begins(ms(80), ms(90)));
        assert!(!begins(ms(400), Duration::from_micros(415_999)));
        assert!(begins(ms(400), ms(416)));
    }

    #[test]
    fn rfc_9406_4_2_fewer_than_eight_samples_in_a_round_say_nothing() {
        let mut hystart = HyStart::default();
        round(&mut hystart, ms(50), 8);
        round(&mut hystart, ms(100), 7);
        assert!(!is_conservative(&hystart));
        hystart.sample(ms(100));
        assert!(is_conservative(&hystart));
    }

    #[test]
    fn rfc_9406_4_2_the_smallest_sample_of_a_round_counts() {
        let mut hystart = HyStart::default();
        round(&mut hystart, ms(50), 8);
        hystart.begin_round();
        hystart.sample(ms(51));
        (0..20).for_each(|_| hystart.sample(ms(90)));
        assert!(!is_conservative(&hystart));
    }

    #[test]
    fn rfc_9406_4_2_conservative_slow_start_grows_by_a_quarter_and_ends_after_five_rounds() {
        let mut hystart = HyStart::default();
        round(&mut hystart, ms(50), 8);
        round(&mut hystart, ms(60), 8);
        assert!(is_conservative(&hystart));
        for _ in 1..CSS_ROUNDS {
            assert!(!round(&mut hystart, ms(65), 8));
        }
        assert!(hystart.begin_round(), "the round in which it began counts");
    }

    #[test]
    fn rfc_9406_4_2_a_round_trip_below_the_baseline_resumes_slow_start() {
        let mut hystart = HyStart::default();
        round(&mut hystart, ms(50), 8);
        round(&mut hystart, ms(60), 8);
        round(&mut hystart, ms(59), 8);
        assert!(!is_conservative(&hystart));
        for _ in 0..10 {
            assert!(!round(&mut hystart, ms(59), 8), "and it does not end any more");
        }
    }
}
