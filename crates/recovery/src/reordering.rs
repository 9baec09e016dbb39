//! A learned tolerance of reordering: how long to wait for an overtaken packet.
//!
//! A thin stream acts on the first miss indication (P10 §5.4). On a path that reorders, that turns each overtaken
//! packet into a spurious retransmission. RACK (RFC 8985 §6.2) then waits for a quarter of a round trip or more, for
//! ever after the first reordering, however the path reorders. Here the wait is what recent reordering required, and it
//! is forgotten after a while:
//! - Without reordering there is no tolerance: the first indication counts.
//! - A packet that was reported missing and then arrives without having been retransmitted shows how late an overtaken
//!   packet is: its round-trip time less SRTT. This is zero where a packet ran ahead and made all others look missing,
//!   and the length of the detour where one was held up. The first indication is a bad origin for the measurement,
//!   since it comes earlier the denser the stream is. The sending time is a good one and needs no extra memory.
//! - A missing packet is lost once it is later than recently overtaken packets: the largest lateness of the last eight,
//!   from four on the second largest, so that one outlier (a lost SACK makes the next one look late) does not dominate
//!   for long. One overtaken packet in eight may be later and costs a spurious retransmission.
//! - Samples older than a minute do not count.
//!
//! A peer can make packets look overtaken by reporting false gaps. It achieves only that its own missing packets are
//! repaired later: the lateness is at most one SRTT, so a packet is lost at the latest two SRTT after it was sent, and
//! the packet count is at most [`PACKETS_MAX`]. Probes and the retransmission timer do not use the tolerance and limit
//! the wait independently. The memory is eight samples.

use festina_units::{Duration, Instant};

/// Number of samples kept.
const SAMPLES_MAX: usize = 8;

/// How long a sample counts.
pub const MEMORY: Duration = Duration::from_secs(60);

/// From this many samples on, the largest is treated as an outlier.
const OUTLIER_FROM: usize = 4;

/// Maximum displacement in packets that is learned.
pub const PACKETS_MAX: u32 = 64;

/// The tolerance required by the path's reordering.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Tolerance {
    /// How much later than SRTT the acknowledgement of an overtaken packet may be; at most SRTT.
    pub lateness: Duration,
    /// Number of packets that overtook a packet that still arrived; at most [`PACKETS_MAX`].
    pub packets: u32,
}

impl Tolerance {
    /// Returns when a packet that was reported missing is lost, if it was last sent at `sent` and is not acknowledged
    /// by then. A time in the past means immediately.
    #[must_use]
    pub fn lost_at(self, sent: Instant, srtt: Duration) -> Instant {
        sent + srtt + self.lateness
    }

    /// Returns the number of miss indications (or duplicate acknowledgements) that prove a loss for a sender that
    /// counts instead of measuring time; `usual` is the number without reordering.
    #[must_use]
    pub fn threshold(self, usual: u32) -> u32 {
        usual.max(self.packets.saturating_add(1))
    }
}

/// Learns the reordering of one path.
#[derive(Copy, Clone, Debug, Default)]
pub struct ReorderingEstimator {
    samples: [Option<Sample>; SAMPLES_MAX],
    /// Position of the next sample: that of the oldest.
    next: usize,
    /// The latest sample that was estimated from a duplicate report.
    guessed: Option<Instant>,
}

#[derive(Copy, Clone, Debug)]
struct Sample {
    seen: Instant,
    lateness: Duration,
    packets: u32,
}

impl ReorderingEstimator {
    /// Creates an estimator without samples.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that a packet that an earlier acknowledgement had reported missing was acknowledged at `now`, and that
    /// its first transmission arrived: it was sent once, or it was retransmitted and the acknowledgement came too soon
    /// for the second ([`crate::spurious::Verdict::TooEarly`]).
    ///
    /// `round_trip` is the time since that first transmission, `packets` the number of packets sent later but
    /// acknowledged before it; miss indications are a fair estimate.
    pub fn arrived_late(&mut self, now: Instant, round_trip: Duration, srtt: Duration, packets: u32) {
        self.push(Sample { seen: now, lateness: round_trip.saturating_sub(srtt), packets });
    }

    /// Records that a packet was retransmitted because of miss indications and the peer reports it as a duplicate, but
    /// the arrival time of its first transmission is unknown.
    ///
    /// The tolerance was too small by an unknown amount: it grows by a quarter of SRTT (the step of RFC 8985 §6.2) and
    /// one packet, at most once per SRTT.
    pub fn retransmitted_needlessly(&mut self, now: Instant, srtt: Duration) {
        if self.guessed.is_some_and(|guessed| now.saturating_duration_since(guessed) < srtt) {
            return;
        }
        self.guessed = Some(now);
        let (lateness, packets) = self.ranked(now).unwrap_or_default();
        let sample =
            Sample { seen: now, lateness: lateness.saturating_add(srtt / 4), packets: packets.saturating_add(1) };
        // An estimate must not be dismissed as an outlier by the samples that made the tolerance too small.
        self.push(sample);
        if self.recent(now).count() >= OUTLIER_FROM {
            self.push(sample);
        }
    }

    /// Returns the tolerance; `None` if nothing was overtaken for a minute: then the first indication counts.
    #[must_use]
    pub fn tolerance(&self, now: Instant, srtt: Duration) -> Option<Tolerance> {
        let (lateness, packets) = self.ranked(now)?;
        // Neither SRTT nor past lateness is an exact forecast: add an eighth, and a sixteenth of SRTT.
        let allowed = lateness.saturating_add(lateness / 8).saturating_add(srtt / 16);
        Some(Tolerance { lateness: allowed.min(srtt), packets: packets.min(PACKETS_MAX) })
    }

    /// Assumes recently overtaken packets that arrived `lateness` later than SRTT.
    pub fn assume(&mut self, now: Instant, lateness: Duration) {
        self.push(Sample { seen: now, lateness, packets: 1 });
    }

    /// Returns how much later than SRTT overtaken packets arrived in the last minute; `None` if nothing was overtaken.
    #[must_use]
    pub fn lateness(&self, now: Instant) -> Option<Duration> {
        self.ranked(now).map(|(lateness, _)| lateness)
    }

    fn push(&mut self, sample: Sample) {
        if let Some(slot) = self.samples.get_mut(self.next) {
            *slot = Some(sample);
        }
        self.next = (self.next + 1) % SAMPLES_MAX;
    }

    fn recent(&self, now: Instant) -> impl Iterator<Item = &Sample> {
        self.samples.iter().flatten().filter(move |sample| now.saturating_duration_since(sample.seen) <= MEMORY)
    }

    /// Returns the lateness and the packets that count, ranked independently.
    fn ranked(&self, now: Instant) -> Option<(Duration, u32)> {
        let (mut lateness, mut packets) = (TopTwo::default(), TopTwo::default());
        for sample in self.recent(now) {
            lateness.push(sample.lateness);
            packets.push(sample.packets);
        }
        Some((lateness.ranked()?, packets.ranked()?))
    }
}

/// The two largest values of a series, and its length.
#[derive(Copy, Clone, Debug, Default)]
struct TopTwo<T> {
    largest: Option<T>,
    second: Option<T>,
    count: usize,
}

impl<T: Copy + Ord> TopTwo<T> {
    fn push(&mut self, value: T) {
        self.count += 1;
        if Some(value) > self.largest {
            self.second = self.largest.replace(value);
        } else {
            self.second = self.second.max(Some(value));
        }
    }

    fn ranked(self) -> Option<T> {
        if self.count >= OUTLIER_FROM { self.second } else { self.largest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SRTT: Duration = Duration::from_millis(100);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn lateness_ms(estimator: &ReorderingEstimator, now_ms: u64) -> Option<u128> {
        estimator.tolerance(at(now_ms), SRTT).map(|tolerance| tolerance.lateness.as_millis())
    }

    #[test]
    fn without_reordering_the_first_indication_counts() {
        assert_eq!(ReorderingEstimator::new().tolerance(at(1_000), SRTT), None);
    }

    #[test]
    fn a_packet_that_was_held_up_teaches_by_how_much() {
        let mut estimator = ReorderingEstimator::new();
        estimator.arrived_late(at(140), ms(140), SRTT, 2);
        let tolerance = estimator.tolerance(at(150), SRTT).expect("reordering was seen");
        assert_eq!(tolerance, Tolerance { lateness: Duration::from_micros(51_250), packets: 2 });
        assert_eq!(tolerance.lost_at(at(200), SRTT), Instant::from_micros(351_250));
    }

    #[test]
    fn if_a_packet_runs_ahead_the_others_are_lost_only_once_they_are_due() {
        let mut estimator = ReorderingEstimator::new();
        estimator.arrived_late(at(180), SRTT, SRTT, 1);
        let tolerance = estimator.tolerance(at(200), SRTT).expect("reordering was seen");
        assert_eq!(tolerance.lateness, Duration::from_micros(6_250));
    }

    #[test]
    fn one_outlier_among_four_does_not_rule() {
        let mut estimator = ReorderingEstimator::new();
        for round_trip in [180, 116, 116] {
            estimator.arrived_late(at(1_000), ms(round_trip), SRTT, 1);
        }
        assert_eq!(lateness_ms(&estimator, 1_000), Some(96));
        estimator.arrived_late(at(1_000), ms(116), SRTT, 1);
        assert_eq!(lateness_ms(&estimator, 1_000), Some(24));
    }

    #[test]
    fn two_equal_outliers_do_rule() {
        let mut estimator = ReorderingEstimator::new();
        for round_trip in [116, 180, 116, 180] {
            estimator.arrived_late(at(1_000), ms(round_trip), SRTT, 1);
        }
        assert_eq!(lateness_ms(&estimator, 1_000), Some(96));
    }

    #[test]
    fn samples_older_than_a_minute_are_forgotten() {
        let mut estimator = ReorderingEstimator::new();
        estimator.arrived_late(at(1_000), ms(140), SRTT, 1);
        estimator.arrived_late(at(31_000), ms(116), SRTT, 1);
        assert_eq!(lateness_ms(&estimator, 61_000), Some(51));
        assert_eq!(lateness_ms(&estimator, 61_001), Some(24));
        assert_eq!(lateness_ms(&estimator, 91_001), None);
    }

    #[test]
    fn a_needless_retransmission_widens_the_tolerance_once_per_round_trip() {
        let mut estimator = ReorderingEstimator::new();
        estimator.retransmitted_needlessly(at(1_000), SRTT);
        assert_eq!(lateness_ms(&estimator, 1_000), Some(34));
        estimator.retransmitted_needlessly(at(1_099), SRTT);
        assert_eq!(lateness_ms(&estimator, 1_099), Some(34));
        estimator.retransmitted_needlessly(at(1_100), SRTT);
        assert_eq!(lateness_ms(&estimator, 1_100), Some(62));
    }

    #[test]
    fn a_guess_is_no_outlier() {
        let mut estimator = ReorderingEstimator::new();
        for _ in 0..8 {
            estimator.arrived_late(at(1_000), SRTT, SRTT, 1);
        }
        assert_eq!(lateness_ms(&estimator, 1_000), Some(6));
        estimator.retransmitted_needlessly(at(1_000), SRTT);
        assert_eq!(lateness_ms(&estimator, 1_000), Some(34));
    }

    #[test]
    fn a_sender_that_counts_waits_for_one_packet_more_than_was_seen_to_overtake() {
        let tolerance = Tolerance { lateness: ms(0), packets: 5 };
        assert_eq!(tolerance.threshold(3), 6);
        assert_eq!(tolerance.threshold(9), 9);
    }

    proptest! {
        #[test]
        fn for_any_reports_of_a_peer_the_wait_stays_within_one_srtt_and_the_packet_limit(
            reports in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u32>(), any::<bool>()), 1..60),
            srtt in any::<u64>(),
            now in any::<u64>(),
        ) {
            let srtt = Duration::from_nanos(srtt);
            let mut estimator = ReorderingEstimator::new();
            for (seen, round_trip, packets, known) in reports {
                let seen = Instant::from_nanos(seen);
                if known {
                    estimator.arrived_late(seen, Duration::from_nanos(round_trip), srtt, packets);
                } else {
                    estimator.retransmitted_needlessly(seen, srtt);
                }
            }
            if let Some(tolerance) = estimator.tolerance(Instant::from_nanos(now), srtt) {
                prop_assert!(tolerance.lateness <= srtt);
                prop_assert!(tolerance.packets <= PACKETS_MAX);
            }
        }

        #[test]
        fn a_path_with_steady_detours_is_waited_for_after_its_first_one(
            detour_ms in 0..80_u64,
            later in 1..20_u64,
        ) {
            let mut estimator = ReorderingEstimator::new();
            for packet in 0..later {
                estimator.arrived_late(at(1_000 * packet), SRTT + ms(detour_ms), SRTT, 1);
                let tolerance = estimator.tolerance(at(1_000 * packet), SRTT).expect("reordering was seen");
                prop_assert!(tolerance.lost_at(at(0), SRTT) > at(100 + detour_ms));
            }
        }
    }
}
