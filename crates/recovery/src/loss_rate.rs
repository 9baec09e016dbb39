//! The loss rate of a path, recently and in the long run.
//!
//! The thin-stream detector uses the estimator of P10 §5.1, which counts a packet as lost when three SACKs report it
//! missing; a stream with one packet per round trip sees no three. This estimator uses the sender's final judgement of
//! each packet instead: whether its first transmission arrived. It keeps two horizons, and so distinguishes a rise from
//! a path with a steady loss rate.

use festina_units::Duration;

/// Outcomes in the recent horizon.
const RECENT: u32 = u64::BITS;

/// Outcomes after which the long-run counters are halved.
const LONG_RUN: u32 = 1_024;

/// Deliveries assumed in the long run at the start, so that a first loss is not "100 %".
const PRIOR: u32 = PRIOR_KNOWN as u32;
const PRIOR_KNOWN: u16 = 16;

/// After this time prior knowledge counts for a quarter.
const FADED_AFTER: Duration = Duration::from_secs(600);

/// Minimum number of recent losses for the recent rate to outweigh the long run.
const RECENT_NEWS_MIN: u32 = 2;

/// Minimum number of recent losses for a rise. Fewer are often chance.
const RISE_LOSSES_MIN: u32 = 8;

/// Factor by which the recent rate must exceed the long-run rate for a rise.
const RISE_FACTOR: u64 = 3;

/// A share of packets as a fraction of two counts.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LossShare {
    /// Packets whose first transmission was lost.
    pub lost: u32,
    /// All packets; never zero.
    pub all: u32,
}

impl LossShare {
    /// Returns whether `packets_per_thousand_rtts` exceeds the rate of a conforming TCP flow on a path with this loss:
    /// 1000·sqrt(3 / (2·p)) packets in a thousand round trips (Mathis et al. 1997, for a receiver that acknowledges
    /// every packet). Without loss no rate exceeds it.
    #[must_use]
    pub fn exceeds_tcp(self, packets_per_thousand_rtts: u32) -> bool {
        let rate = u128::from(packets_per_thousand_rtts);
        rate * rate * 2 * u128::from(self.lost) > 3_000_000 * u128::from(self.all)
    }

    /// Returns the highest rate that does not exceed it.
    #[must_use]
    pub fn tcp_packets_per_thousand_rtts(self) -> u32 {
        let squared = (1_500_000 * u64::from(self.all)).checked_div(self.lost.into());
        squared.and_then(|squared| u32::try_from(squared.isqrt()).ok()).unwrap_or(u32::MAX)
    }
}

impl LossShare {
    /// Returns whether it is less than one packet in two thousand: then it does not affect the 99.9th percentile.
    #[must_use]
    pub fn is_negligible(self) -> bool {
        u64::from(self.lost) * 2_000 < u64::from(self.all)
    }

    /// Returns whether there are losses, and one more would make them more than one packet in fifty. Then one message in
    /// 2,500 or more is lost together with its retransmission. That affects the 99.9th percentile from 3.2 % on, but the
    /// estimate comes from few packets, and while losses are rare, so are retransmissions.
    #[must_use]
    pub fn takes_pairs(self) -> bool {
        self.lost > 0 && (u64::from(self.lost) + 1) * 50 > u64::from(self.all)
    }
}

/// Knowledge of the loss on a path for a later estimator: after a rest, or in the next association with the same
/// destination. It has the weight of the outcomes on which it is based.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct KnownLoss {
    lost: u16,
    all: u16,
}

impl Default for KnownLoss {
    fn default() -> Self {
        LossRate::new().known()
    }
}

impl KnownLoss {
    /// Returns the knowledge after `age`, during which the path may have changed: after ten minutes it counts for a
    /// quarter, before that proportionally more.
    #[must_use]
    pub fn aged(self, age: Duration) -> Self {
        let forgotten = u64::try_from(age.min(FADED_AFTER).as_millis()).unwrap_or(u64::MAX);
        let whole = u64::try_from(4 * FADED_AFTER.as_millis()).unwrap_or(u64::MAX);
        let left = whole - 3 * forgotten;
        // The assumed deliveries at the start do not fade.
        let scaled = |count: u64| u16::try_from((count * left + whole / 2) / whole).unwrap_or(u16::MAX);
        let seen = u64::from(self.all).saturating_sub(PRIOR.into());
        Self { lost: scaled(self.lost.into()), all: scaled(seen).saturating_add(PRIOR_KNOWN) }
    }
}

/// Estimates the loss rate of one path from the outcomes of its packets, in constant memory.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LossRate {
    /// The last outcomes, the latest in the lowest bit; a set bit is a loss.
    recent: u64,
    recorded: u32,
    long_lost: u32,
    long_all: u32,
    /// Outcomes since the last loss; the maximum before the first one.
    since_loss: u32,
}

impl Default for LossRate {
    fn default() -> Self {
        Self { recent: 0, recorded: 0, long_lost: 0, long_all: PRIOR, since_loss: u32::MAX }
    }
}

impl LossRate {
    /// Creates an estimator without outcomes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an estimator that starts from prior knowledge.
    #[must_use]
    pub fn assuming(known: KnownLoss) -> Self {
        Self { long_lost: known.lost.into(), long_all: known.all.into(), ..Self::default() }
    }

    /// Returns the knowledge for a later estimator: the loss to be expected now.
    #[must_use]
    pub fn known(&self) -> KnownLoss {
        let LossShare { lost, all } = self.likely();
        // All counts are far smaller.
        let count = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
        KnownLoss { lost: count(lost), all: count(all.max(PRIOR)) }
    }

    /// Records that the first transmission of a packet was lost, including a loss that a redundant copy repaired
    /// unseen.
    ///
    /// The long run takes an outcome when it leaves the recent horizon, so the two never hold the same packet and a
    /// rise stands out.
    pub fn lost(&mut self) {
        self.arrived(1);
        self.recent |= 1;
        self.since_loss = 0;
    }

    /// Takes the latest loss back: a packet that was recorded as lost has arrived.
    pub fn was_late(&mut self) {
        if self.recent > 0 {
            self.recent &= self.recent - 1;
        } else {
            self.long_lost = self.long_lost.saturating_sub(1);
        }
    }

    /// Records that `count` first transmissions arrived.
    pub fn arrived(&mut self, count: u32) {
        self.since_loss = self.since_loss.saturating_add(count);
        let recorded = self.recorded.saturating_add(count);
        let leaving = recorded.saturating_sub(RECENT);
        if leaving > 0 {
            let known = leaving.min(self.recorded);
            let oldest = self.recent.checked_shr(self.recorded - known).unwrap_or(0);
            self.remember(oldest.count_ones(), leaving);
        }
        self.recent = self.recent.checked_shl(count).unwrap_or(0);
        self.recorded = recorded.min(RECENT);
    }

    /// Returns the share of the last 64 packets, or of all if there were fewer.
    #[must_use]
    pub fn recent(&self) -> LossShare {
        LossShare { lost: self.recent.count_ones(), all: self.recorded.max(1) }
    }

    /// Returns the share of all packets, older ones with decreasing weight; the estimate covers the last 512 to 1088.
    #[must_use]
    pub fn long_run(&self) -> LossShare {
        LossShare { lost: self.long_lost + self.recent.count_ones(), all: self.long_all + self.recorded }
    }

    /// Returns the expected loss of the next packets: that of the long run, unless the last 64 packets fared clearly
    /// worse. Two recent losses count as clearly worse if none were known, otherwise two more than twice the number
    /// expected from the long run.
    #[must_use]
    pub fn likely(&self) -> LossShare {
        let (long_run, recent) = (self.long_run(), self.recent.count_ones());
        let excess = u64::from(recent.saturating_sub(RECENT_NEWS_MIN)) * u64::from(self.long_all + self.recorded);
        let expected = u64::from(self.long_lost) * u64::from(2 * RECENT);
        if recent >= RECENT_NEWS_MIN && excess >= expected { LossShare { lost: recent, all: RECENT } } else { long_run }
    }

    /// Returns whether [`likely`](Self::likely) counts no loss.
    #[must_use]
    pub fn is_lossless(&self) -> bool {
        self.recent == 0 && self.long_lost == 0
    }

    /// Returns the same, but while that is negligible one loss in the packets since the last one: the long run forgets it after
    /// 512 to 1088 packets, and on a path that loses one in 333 the next one then comes too soon in one case of eight.
    #[must_use]
    pub fn remembered(&self) -> LossShare {
        let likely = self.likely();
        if likely.is_negligible() { LossShare { lost: 1, all: self.since_loss.max(1) } } else { likely }
    }

    /// Returns whether the last 64 packets fared much worse than those before them: at least eight were lost, and at
    /// three times the earlier rate. The first 64 packets have no comparison. On a path with a steady loss of 5 %,
    /// chance causes this in fewer than one of 500 windows.
    #[must_use]
    pub fn is_rising(&self) -> bool {
        let recent = self.recent();
        let has_past = self.long_all >= PRIOR + RECENT;
        has_past
            && recent.lost >= RISE_LOSSES_MIN
            && u64::from(recent.lost) * u64::from(self.long_all)
                >= RISE_FACTOR * u64::from(self.long_lost) * u64::from(recent.all)
    }

    /// Moves the recent horizon into the long run, after the sender has reacted to a rise. Later packets are then
    /// compared with these.
    pub fn settle(&mut self) {
        self.remember(self.recent.count_ones(), self.recorded);
        self.recent = 0;
        self.recorded = 0;
    }

    fn remember(&mut self, lost: u32, all: u32) {
        self.long_lost += lost;
        self.long_all = self.long_all.saturating_add(all);
        while self.long_all >= LONG_RUN {
            self.long_lost /= 2;
            self.long_all /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `packets` outcomes with a loss at every `one_in`th.
    fn record(rate: &mut LossRate, lost: bool) {
        if lost { rate.lost() } else { rate.arrived(1) }
    }

    fn steady(rate: &mut LossRate, packets: u32, one_in: u32) {
        (1..=packets).for_each(|nth| record(rate, nth % one_in == 0));
    }

    #[test]
    fn before_the_first_packet_nothing_was_lost() {
        let rate = LossRate::new();
        assert_eq!(rate.recent(), LossShare { lost: 0, all: 1 });
        assert_eq!(rate.long_run(), LossShare { lost: 0, all: 16 });
        assert!(!rate.is_rising());
    }

    #[test]
    fn a_steady_loss_is_found_in_both_horizons() {
        let mut rate = LossRate::new();
        steady(&mut rate, 2_000, 20);
        assert_eq!(rate.recent(), LossShare { lost: 4, all: 64 });
        let long_run = rate.long_run();
        assert!(long_run.lost * 20 <= long_run.all + 60 && long_run.lost * 20 + 60 >= long_run.all, "{long_run:?}");
    }

    #[test]
    fn knowledge_of_the_loss_outlives_the_estimator_and_fades() {
        assert_eq!(LossRate::assuming(KnownLoss::default()), LossRate::new());
        let mut rate = LossRate::new();
        steady(&mut rate, 700, 20);
        let known = rate.known();
        assert_eq!(LossRate::assuming(known).likely(), rate.likely());
        assert_eq!(LossRate::assuming(known.aged(Duration::ZERO)).likely(), rate.likely());
        for (minutes, quarters) in [(0, 16), (5, 10), (10, 4), (60, 4)] {
            let LossShare { lost, all } = LossRate::assuming(known.aged(Duration::from_secs(60 * minutes))).likely();
            assert_eq!(lost, (rate.likely().lost * quarters + 8) / 16, "{minutes} minutes");
            assert_eq!(all, 16 + (700 * quarters + 8) / 16, "{minutes} minutes");
        }
    }

    #[test]
    fn the_end_of_loss_is_learned_after_as_many_packets_as_in_one_association() {
        let mut rate = LossRate::new();
        steady(&mut rate, 1_000, 20);
        let mut next = LossRate::assuming(rate.known());
        for rate in [&mut rate, &mut next] {
            (0..8_000).for_each(|_| rate.arrived(1));
            assert!(rate.likely().is_negligible(), "{rate:?}");
        }
    }

    #[test]
    fn a_loss_is_remembered_for_two_thousand_packets() {
        let mut rate = LossRate::new();
        assert!(rate.remembered().is_negligible());
        rate.lost();
        for _ in 0..2_000 {
            assert!(!rate.remembered().is_negligible(), "{rate:?}");
            rate.arrived(1);
        }
        assert!(rate.likely().is_negligible());
        rate.arrived(1);
        assert!(rate.remembered().is_negligible());
    }

    #[test]
    fn a_steady_loss_is_no_rise_however_high() {
        for one_in in [2, 3, 5, 10, 20, 100] {
            let mut rate = LossRate::new();
            for nth in 1..=2_000 {
                record(&mut rate, nth % one_in == 0);
                assert!(!rate.is_rising(), "one in {one_in}, packet {nth}");
            }
        }
    }

    #[test]
    fn a_loss_rate_that_goes_from_two_to_twenty_percent_is_a_rise() {
        let mut rate = LossRate::new();
        steady(&mut rate, 500, 50);
        assert!(!rate.is_rising());
        steady(&mut rate, 50, 5);
        assert!(rate.is_rising());
    }

    #[test]
    fn a_rise_that_was_acted_upon_is_the_new_normal() {
        let mut rate = LossRate::new();
        steady(&mut rate, 500, 50);
        steady(&mut rate, 50, 5);
        rate.settle();
        assert!(!rate.is_rising());
        assert_eq!(rate.recent(), LossShare { lost: 0, all: 1 });
        steady(&mut rate, 30, 5);
        assert!(!rate.is_rising());
    }

    #[test]
    fn at_five_percent_loss_a_conforming_flow_sends_five_and_a_half_packets_per_round_trip() {
        let five_percent = LossShare { lost: 5, all: 100 };
        assert!(!five_percent.exceeds_tcp(5_477));
        assert!(five_percent.exceeds_tcp(5_478));
        assert!(!LossShare { lost: 0, all: 1 }.exceeds_tcp(u32::MAX));
    }

    proptest! {
        #[test]
        fn many_arrivals_at_once_are_as_many_one_by_one(before in prop::collection::vec(any::<bool>(), 0..200), count in 0..300_u32) {
            let mut singly = LossRate::new();
            before.iter().for_each(|&lost| record(&mut singly, lost));
            let mut at_once = singly;
            (0..count).for_each(|_| singly.arrived(1));
            at_once.arrived(count);
            prop_assert_eq!(at_once, singly);
        }

        #[test]
        fn losses_that_are_taken_back_leave_the_same_counts_as_arrivals(
            outcomes in prop::collection::vec(any::<bool>(), 1..64),
            late in 0..64_usize,
        ) {
            let mut rate = LossRate::new();
            outcomes.iter().for_each(|&lost| record(&mut rate, lost));
            (0..late).for_each(|_| rate.was_late());
            let lost = u32::try_from(outcomes.iter().filter(|&&lost| lost).count().saturating_sub(late)).expect("few");
            let all = u32::try_from(outcomes.len()).expect("few");
            prop_assert_eq!(rate.recent(), LossShare { lost, all });
            rate.settle();
            rate.was_late();
            prop_assert_eq!(rate.long_run().lost, lost.saturating_sub(1));
        }

        #[test]
        fn any_outcomes_keep_the_counts_sound(
            outcomes in prop::collection::vec((any::<bool>(), any::<bool>()), 1..3_000),
        ) {
            let mut rate = LossRate::new();
            for (lost, settle) in outcomes {
                record(&mut rate, lost);
                if settle {
                    rate.settle();
                }
                for share in [rate.recent(), rate.long_run()] {
                    prop_assert!(share.all >= 1 && share.lost <= share.all);
                }
                prop_assert!(rate.long_run().all < LONG_RUN + 2 * RECENT);
            }
        }
    }
}
