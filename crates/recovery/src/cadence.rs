//! Deciding whether a packet requests its SACK with the I bit (RFC 7053), by predicting when the SACK would come
//! otherwise.
//!
//! A receiver delays a SACK until a second packet arrives, until it has data of its own to send, or for 200 ms (RFC
//! 9260 §6.2). The I bit asks it not to. A sender that sets the bit in each packet detects every loss as early as
//! possible, but doubles the number of packets on the path. Often the delay is harmless:
//!
//! - If another packet follows soon, that packet triggers the SACK. A gap triggers it at once, so a loss is reported
//!   when the next packet arrives, with or without the I bit. Omitting the bit costs at most the time to the next
//!   packet.
//! - If the application at the other end answers each message, the answer carries the SACK.
//!
//! If neither is expected, the packet sets the bit. So does each packet while losses are not negligible, unless copies or
//! a code in the next packets repair them: on a dense stream the next packets deliver lost chunks long before a SACK
//! could report the loss, so the sender has no need to detect it quickly.
//!
//! The prediction uses the longest of the last gaps between the sender's own packets, and whether its packets were
//! answered. If it is wrong, as it is when a stream ends, the resulting probe may be spurious. After a spurious probe
//! the sender sets the bit for a while.

use festina_units::{Duration, Instant};

/// The SACK delay of receivers: the recommendation of RFC 9260 §6.2, used by all known stacks. With longer gaps a SACK
/// answers each packet anyway.
const SACK_DELAY: Duration = Duration::from_millis(200);

/// Minimum number of gaps over which the longest is taken; at most twice as many.
const GAPS: u8 = 16;

/// Packets sent within this time of each other are one burst.
const BURST_MAX: Duration = Duration::from_millis(1);

/// Number of gaps that must be observed before any is predicted.
const GAPS_MIN: u8 = 8;

/// The prediction exceeds the longest gap by this fraction of it.
const GAP_MARGIN_PARTS: u32 = 8;

/// Number of consecutive answered packets before an answer is predicted.
const ANSWERS_MIN: u8 = 4;

/// Minimum time after a round trip during which an answer counts as one that was already on its way.
const ANSWER_DELAY_MIN: Duration = Duration::from_millis(5);

/// While packets are lost or protected, one packet in this many requests its SACK in any case: only its round trip is known to
/// exclude the SACK delay, and reveals a queue.
const MEASURED_EVERY: u8 = 8;

/// Number of packets that set the I bit after a wrong prediction.
const ASKS_AFTER_ERROR: u8 = 64;

/// The history of a sender's own packets and of the answers to them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cadence {
    last_sent: Option<Instant>,
    /// The longest gap of the current run of gaps, and of the run before it.
    gap_max: [Duration; 2],
    /// Gaps in the current run.
    gaps: u8,
    has_run: bool,
    /// The mean gap.
    gap_mean: Duration,
    /// Packets in sequence that were answered.
    answers: u8,
    /// Whether the last packet was answered.
    is_answered: bool,
    /// Number of packets that still set the I bit regardless of predictions.
    asks: u8,
}

/// The other inputs of the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// The smoothed round-trip time, if any.
    pub srtt: Option<Duration>,
    /// Losses are negligible ([`crate::redundancy::CopyScheduler::is_lossless`]).
    pub is_lossless: bool,
    /// Packets with new data after which a lost one is repaired without a retransmission; `None` if it is not.
    pub repaired_after: Option<u8>,
}

impl Cadence {
    /// Records that a packet with new data is sent.
    pub fn sent(&mut self, now: Instant) {
        self.asks = self.asks.saturating_sub(1);
        let Some(before) = self.last_sent.replace(now) else { return };
        let gap = now.saturating_duration_since(before);
        if gap < BURST_MAX {
            // Packets of one burst do not predict the next one. With a near peer, this may follow an answer, and will
            // be answered itself.
            self.is_answered = false;
            return;
        }
        if !self.is_answered {
            self.answers = 0;
        }
        self.is_answered = false;
        self.gap_mean = if self.has_gaps() { self.gap_mean - self.gap_mean / 8 + gap / 8 } else { gap };
        let [current, earlier] = self.gap_max;
        self.gap_max = [current.max(gap), earlier];
        self.gaps += 1;
        if self.gaps == GAPS {
            self.gap_max = [Duration::ZERO, self.gap_max[0]];
            self.gaps = 0;
            self.has_run = true;
        }
    }

    /// Records that a packet with data of the peer was received.
    pub fn heard(&mut self, now: Instant, srtt: Option<Duration>) {
        let Some((sent_at, srtt)) = self.last_sent.zip(srtt).filter(|_| !self.is_answered) else { return };
        let elapsed = now.saturating_duration_since(sent_at);
        let on_time = elapsed >= srtt - srtt / 8 && elapsed <= srtt + (srtt / 8).max(ANSWER_DELAY_MIN);
        if on_time {
            self.is_answered = true;
            self.answers = self.answers.saturating_add(1);
        }
    }

    /// Records that the expected SACK did not arrive in time although nothing was lost.
    pub fn was_wrong(&mut self) {
        self.asks = ASKS_AFTER_ERROR;
        self.answers = 0;
    }

    /// Returns the expected delay between the arrival of a packet sent now and its SACK. `None` if the delay is too
    /// long, so that the packet should set the I bit.
    #[must_use]
    pub fn sack_delay(&self, now: Instant, around: &Surroundings) -> Option<Duration> {
        if self.asks > 0 {
            return None;
        }
        let srtt = around.srtt?;
        let pause = self.last_sent.map_or(Duration::MAX, |before| now.saturating_duration_since(before));
        // After a pause longer than expected, the next gap cannot be predicted.
        let gap = self.gap_expected().filter(|&gap| pause <= gap);
        let is_protected = around.repaired_after.is_some();
        if (is_protected || !around.is_lossless) && self.gaps.is_multiple_of(MEASURED_EVERY) {
            return None;
        }
        if !around.is_lossless {
            let repaired_early = around.repaired_after.zip(self.gap_longest());
            return gap.filter(|_| {
                repaired_early.is_some_and(|(packets, gap)| gap.saturating_mul(packets.into()) <= srtt / 2)
            });
        }
        if self.is_always_answered() {
            return Some(Duration::ZERO);
        }
        gap.filter(|&gap| gap < SACK_DELAY)
    }

    /// Returns the longest delay of the SACK for a packet without the I bit, if no further packet triggers it.
    #[must_use]
    pub fn sack_delay_max(&self) -> Duration {
        match self.gap_expected().filter(|&gap| gap < SACK_DELAY) {
            Some(gap) => gap,
            None if self.is_always_answered() => Duration::ZERO,
            None => SACK_DELAY,
        }
    }

    fn is_always_answered(&self) -> bool {
        self.answers >= ANSWERS_MIN
    }

    /// Returns the bursts of packets per round trip, at least one.
    #[must_use]
    pub fn bursts_per_rtt(&self, srtt: Duration) -> u32 {
        if !self.has_gaps() {
            return 1;
        }
        let messages = srtt.as_nanos() / self.gap_mean.as_nanos().max(1);
        u32::try_from(messages).unwrap_or(u32::MAX).max(1)
    }

    /// Returns the mean time between bursts of packets, if more than one was observed.
    #[must_use]
    pub fn gap_mean(&self) -> Option<Duration> {
        self.has_gaps().then_some(self.gap_mean)
    }

    fn has_gaps(&self) -> bool {
        self.has_run || self.gaps > 0
    }

    /// Returns the longest of the last gaps, if enough were observed.
    fn gap_longest(&self) -> Option<Duration> {
        let [current, earlier] = self.gap_max;
        (self.has_run || self.gaps >= GAPS_MIN).then(|| current.max(earlier))
    }

    /// Returns the predicted gap to the next packet.
    fn gap_expected(&self) -> Option<Duration> {
        self.gap_longest().map(|gap| gap.saturating_add(gap / GAP_MARGIN_PARTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    const QUIET: Surroundings =
        Surroundings { srtt: Some(Duration::from_millis(100)), is_lossless: true, repaired_after: None };

    const LOSSY: Surroundings = Surroundings { is_lossless: false, repaired_after: Some(1), ..QUIET };

    /// The prediction for a packet sent immediately after the last one.
    fn at_last(cadence: &Cadence, around: &Surroundings) -> Option<Duration> {
        cadence.sack_delay(cadence.last_sent.expect("a packet has left"), around)
    }

    /// A packet every `gap_ms`, `packets` in total.
    fn regular(gap_ms: u64, packets: u64) -> Cadence {
        let mut cadence = Cadence::default();
        (0..packets).for_each(|nth| cadence.sent(at(1_000 + nth * gap_ms)));
        cadence
    }

    #[test]
    fn a_packet_asks_until_it_is_known_that_others_follow() {
        assert_eq!(at_last(&regular(20, 8), &QUIET), None);
        assert_eq!(at_last(&regular(20, 9), &QUIET), Some(Duration::from_micros(22_500)));
        assert_eq!(at_last(&regular(20, 500), &QUIET), Some(Duration::from_micros(22_500)));
    }

    #[test]
    fn after_a_longer_pause_than_was_expected_a_packet_asks() {
        let cadence = regular(20, 50);
        let last = at(1_000 + 49 * 20);
        assert!(cadence.sack_delay(last + ms(22), &QUIET).is_some());
        assert_eq!(cadence.sack_delay(last + ms(23), &QUIET), None);
    }

    #[test]
    fn asking_costs_nothing_if_the_sack_delay_is_shorter_than_the_gap() {
        assert_eq!(at_last(&regular(170, 50), &QUIET), Some(Duration::from_micros(191_250)));
        assert_eq!(at_last(&regular(180, 50), &QUIET), None);
        assert_eq!(at_last(&regular(1_000, 50), &QUIET), None);
    }

    #[test]
    fn one_long_gap_is_remembered_for_sixteen_others_at_least() {
        let mut cadence = regular(20, 40);
        cadence.sent(at(10_000));
        for nth in 1..=16 {
            assert_eq!(at_last(&cadence, &QUIET), None, "{nth}");
            cadence.sent(at(10_000 + 20 * nth));
        }
        (17..=32).for_each(|nth| cadence.sent(at(10_000 + 20 * nth)));
        assert_eq!(at_last(&cadence, &QUIET), Some(Duration::from_micros(22_500)));
    }

    #[test]
    fn while_packets_are_lost_each_asks_unless_rides_come_well_within_a_round_trip() {
        let asking = (50..66).filter(|&packets| at_last(&regular(20, packets), &LOSSY).is_none()).count();
        assert_eq!(asking, 2, "one of eight measures the round trip");
        assert_eq!(at_last(&regular(20, 51), &LOSSY), Some(Duration::from_micros(22_500)));
        assert_eq!(at_last(&regular(50, 51), &LOSSY), Some(Duration::from_micros(56_250)));
        assert_eq!(at_last(&regular(51, 50), &LOSSY), None);
        let without_copies = Surroundings { repaired_after: None, ..LOSSY };
        assert_eq!(at_last(&regular(20, 50), &without_copies), None);
    }

    #[test]
    fn a_packet_with_an_expected_answer_does_not_ask() {
        let mut cadence = Cadence::default();
        for nth in 0..4 {
            cadence.sent(at(nth * 1_000));
            assert_eq!(at_last(&cadence, &QUIET), None);
            cadence.heard(at(nth * 1_000 + 103), QUIET.srtt);
        }
        assert_eq!(at_last(&cadence, &QUIET), Some(Duration::ZERO));
        assert_eq!(at_last(&cadence, &LOSSY), None, "while packets are lost, it does");
        cadence.sent(at(4_000));
        assert_eq!(at_last(&cadence, &QUIET), Some(Duration::ZERO));
        cadence.sent(at(5_000));
        assert_eq!(at_last(&cadence, &QUIET), None, "the one before was not answered");
    }

    #[test]
    fn a_packet_with_an_expected_answer_does_not_ask_even_if_the_peer_is_near() {
        let at = |micros: u64| Instant::ZERO + Duration::from_micros(micros);
        let near = Surroundings { srtt: Some(Duration::from_micros(20)), ..QUIET };
        let mut cadence = Cadence::default();
        for nth in 0..4 {
            cadence.sent(at(nth * 20));
            assert_eq!(at_last(&cadence, &near), None);
            cadence.heard(at(nth * 20 + 19), near.srtt);
        }
        assert_eq!(at_last(&cadence, &near), Some(Duration::ZERO));
        // A burst counts as one packet to be answered.
        (0..3).for_each(|nth| cadence.sent(at(100 + nth)));
        assert_eq!(at_last(&cadence, &near), Some(Duration::ZERO));
        cadence.sent(at(2_000));
        assert_eq!(at_last(&cadence, &near), None, "the burst was not answered");
    }

    #[test]
    fn data_received_too_early_or_too_late_is_no_answer() {
        for (delay_ms, is_answer) in [(80, false), (87, false), (88, true), (112, true), (113, false)] {
            let mut cadence = Cadence::default();
            for nth in 0..10 {
                cadence.sent(at(nth * 1_000));
                cadence.heard(at(nth * 1_000 + delay_ms), QUIET.srtt);
            }
            assert_eq!(at_last(&cadence, &QUIET).is_some(), is_answer, "{delay_ms} ms");
        }
    }

    #[test]
    fn after_a_wrong_prediction_packets_ask_for_a_while() {
        let mut cadence = regular(20, 50);
        cadence.was_wrong();
        for nth in 1..=64 {
            assert_eq!(at_last(&cadence, &QUIET), None);
            cadence.sent(at(2_000 + 20 * nth));
        }
        assert!(at_last(&cadence, &QUIET).is_some());
    }

    #[test]
    fn messages_per_round_trip_follow_the_mean_gap() {
        assert_eq!(Cadence::default().bursts_per_rtt(ms(100)), 1);
        assert_eq!(regular(20, 50).bursts_per_rtt(ms(100)), 5);
        assert_eq!(regular(250, 50).bursts_per_rtt(ms(100)), 1);
        assert_eq!(regular(1, 50).bursts_per_rtt(ms(100)), 100);
    }

    #[test]
    fn the_packets_of_a_burst_are_no_prediction() {
        assert_eq!(at_last(&regular(0, 50), &QUIET), None);
    }
}
