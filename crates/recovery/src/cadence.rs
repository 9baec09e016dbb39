//! When the SACK of a packet comes if nobody asks for it: is the I bit (RFC 7053) worth a packet?
//!
//! A receiver delays a SACK until a second packet comes, until it has data of its own to send, or for 200 ms (RFC 9260 §6.2). The I bit
//! asks it not to. A sender that asks with each packet hears of every loss as early as it can, and doubles the number of packets on
//! the path. But the delay is often harmless:
//!
//! - If another packet follows soon, that one draws the SACK. A gap draws it at once, so a loss is reported when the next packet
//!   arrives, with or without the I bit. What is lost by not asking is at most the time to the next packet.
//! - If the application at the other end answers each message, the answer carries the SACK.
//!
//! If neither is to be expected, the packet asks. So does each packet while losses are not negligible, unless rides repair them: on a
//! dense stream the next packets bring what was lost long before a SACK could report it, and the sender need not hurry to hear of it.
//!
//! The sender predicts from what it has seen: the longest of the last gaps between its own packets, and whether its packets were
//! answered. If it is wrong, as it is when a stream ends, the probe that then asks may be needless. After a needless probe the sender
//! asks for a while.

use festina_units::{Duration, Instant};

use crate::redundancy::Rides;

/// The SACK delay of receivers: what RFC 9260 §6.2 recommends and all known stacks have. With longer gaps a SACK answers each packet anyway.
const SACK_DELAY: Duration = Duration::from_millis(200);

/// Gaps over which the longest is looked for, at least; twice as many at most.
const GAPS: u8 = 16;

/// Packets that leave within this time of each other are one burst.
const BURST_MAX: Duration = Duration::from_millis(1);

/// Gaps that must have been seen before any is predicted.
const GAPS_MIN: u8 = 8;

/// A predicted gap is the longest one and this part of it.
const GAP_MARGIN_PARTS: u32 = 8;

/// Packets in sequence that must have been answered before an answer is predicted.
const ANSWERS_MIN: u8 = 4;

/// The least time after a round trip within which an answer counts as one that was under way already.
const ANSWER_DELAY_MIN: Duration = Duration::from_millis(5);

/// While packets are lost, one of so many asks in any case: only its round trip is known to hold no delay of the SACK, and shows whether there is a
/// queue.
const MEASURED_EVERY: u8 = 8;

/// Packets that ask after the prediction was wrong.
const ASKS_AFTER_ERROR: u8 = 64;

/// What a sender has seen of its own packets and of the answers to them.
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
    /// The last packet was answered.
    is_answered: bool,
    /// Packets that are still to ask, whatever is predicted.
    asks: u8,
}

/// What decides beside the cadence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// The smoothed round-trip time, if any.
    pub srtt: Option<Duration>,
    /// Losses are negligible ([`crate::redundancy::CopyScheduler::is_lossless`]).
    pub is_lossless: bool,
    /// How often chunks ride along.
    pub rides: Rides,
}

impl Cadence {
    /// A packet with new data leaves.
    pub fn sent(&mut self, now: Instant) {
        self.asks = self.asks.saturating_sub(1);
        let Some(before) = self.last_sent.replace(now) else { return };
        let gap = now.saturating_duration_since(before);
        if gap < BURST_MAX {
            // Packets of one burst say nothing of when the next one comes. Where the peer is near, this may follow an answer, and will be
            // answered itself.
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

    /// A packet with data of the peer came.
    pub fn heard(&mut self, now: Instant, srtt: Option<Duration>) {
        let Some((sent_at, srtt)) = self.last_sent.zip(srtt).filter(|_| !self.is_answered) else { return };
        let elapsed = now.saturating_duration_since(sent_at);
        let on_time = elapsed >= srtt - srtt / 8 && elapsed <= srtt + (srtt / 8).max(ANSWER_DELAY_MIN);
        if on_time {
            self.is_answered = true;
            self.answers = self.answers.saturating_add(1);
        }
    }

    /// The SACK that was expected did not come in time, though nothing was lost.
    pub fn was_wrong(&mut self) {
        self.asks = ASKS_AFTER_ERROR;
        self.answers = 0;
    }

    /// How long after the arrival of a packet that leaves now its SACK is to be expected to leave. `None`: long after, so that the packet is to ask for it.
    #[must_use]
    pub fn sack_delay(&self, now: Instant, around: &Surroundings) -> Option<Duration> {
        if self.asks > 0 {
            return None;
        }
        let srtt = around.srtt?;
        let pause = self.last_sent.map_or(Duration::MAX, |before| now.saturating_duration_since(before));
        // After a longer pause than was expected, nobody knows what follows.
        let gap = self.gap_expected().filter(|&gap| pause <= gap);
        if !around.is_lossless {
            if self.gaps.is_multiple_of(MEASURED_EVERY) {
                return None;
            }
            let repaired_early = !around.rides.is_none() && self.gap_longest().is_some_and(|gap| gap <= srtt / 2);
            return gap.filter(|_| repaired_early);
        }
        if self.is_always_answered() {
            return Some(Duration::ZERO);
        }
        gap.filter(|&gap| gap < SACK_DELAY)
    }

    /// How long the SACK for a packet that did not ask for it may take after the packet's arrival, if no further packet draws it.
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

    /// Bursts of packets per round trip, at least one.
    #[must_use]
    pub fn bursts_per_rtt(&self, srtt: Duration) -> u32 {
        if !self.has_gaps() {
            return 1;
        }
        let messages = srtt.as_nanos() / self.gap_mean.as_nanos().max(1);
        u32::try_from(messages).unwrap_or(u32::MAX).max(1)
    }

    fn has_gaps(&self) -> bool {
        self.has_run || self.gaps > 0
    }

    /// The longest of the last gaps, if there were enough.
    fn gap_longest(&self) -> Option<Duration> {
        let [current, earlier] = self.gap_max;
        (self.has_run || self.gaps >= GAPS_MIN).then(|| current.max(earlier))
    }

    /// When the next packet is to be expected.
    fn gap_expected(&self) -> Option<Duration> {
        self.gap_longest().map(|gap| gap.saturating_add(gap / GAP_MARGIN_PARTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss_rate::LossShare;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    const QUIET: Surroundings =
        Surroundings { srtt: Some(Duration::from_millis(100)), is_lossless: true, rides: Rides::NONE };

    fn lossy(messages: u32) -> Surroundings {
        Surroundings {
            is_lossless: false,
            rides: Rides::against(LossShare { lost: 5, all: 100 }, messages, 3),
            ..QUIET
        }
    }

    /// What is expected of a packet that leaves at once after the last one.
    fn at_last(cadence: &Cadence, around: &Surroundings) -> Option<Duration> {
        cadence.sack_delay(cadence.last_sent.expect("a packet has left"), around)
    }

    /// A packet every `gap_ms` until that many have left.
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
    fn where_the_receivers_delay_is_shorter_than_the_gap_asking_costs_nothing() {
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
        let asking = (50..66).filter(|&packets| at_last(&regular(20, packets), &lossy(5)).is_none()).count();
        assert_eq!(asking, 2, "one of eight measures the round trip");
        assert_eq!(at_last(&regular(20, 51), &lossy(5)), Some(Duration::from_micros(22_500)));
        assert_eq!(at_last(&regular(50, 51), &lossy(2)), Some(Duration::from_micros(56_250)));
        assert_eq!(at_last(&regular(51, 50), &lossy(2)), None);
        let without_rides = Surroundings { rides: Rides::NONE, ..lossy(5) };
        assert_eq!(at_last(&regular(20, 50), &without_rides), None);
    }

    #[test]
    fn a_packet_that_will_be_answered_does_not_ask() {
        let mut cadence = Cadence::default();
        for nth in 0..4 {
            cadence.sent(at(nth * 1_000));
            assert_eq!(at_last(&cadence, &QUIET), None);
            cadence.heard(at(nth * 1_000 + 103), QUIET.srtt);
        }
        assert_eq!(at_last(&cadence, &QUIET), Some(Duration::ZERO));
        assert_eq!(at_last(&cadence, &lossy(1)), None, "while packets are lost, it does");
        cadence.sent(at(4_000));
        assert_eq!(at_last(&cadence, &QUIET), Some(Duration::ZERO));
        cadence.sent(at(5_000));
        assert_eq!(at_last(&cadence, &QUIET), None, "the one before was not answered");
    }

    #[test]
    fn a_packet_that_will_be_answered_does_not_ask_however_near_the_peer_is() {
        let at = |micros: u64| Instant::ZERO + Duration::from_micros(micros);
        let near = Surroundings { srtt: Some(Duration::from_micros(20)), ..QUIET };
        let mut cadence = Cadence::default();
        for nth in 0..4 {
            cadence.sent(at(nth * 20));
            assert_eq!(at_last(&cadence, &near), None);
            cadence.heard(at(nth * 20 + 19), near.srtt);
        }
        assert_eq!(at_last(&cadence, &near), Some(Duration::ZERO));
        // A burst is one thing to be answered.
        (0..3).for_each(|nth| cadence.sent(at(100 + nth)));
        assert_eq!(at_last(&cadence, &near), Some(Duration::ZERO));
        cadence.sent(at(2_000));
        assert_eq!(at_last(&cadence, &near), None, "the burst was not answered");
    }

    #[test]
    fn what_comes_too_early_or_too_late_is_no_answer() {
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
