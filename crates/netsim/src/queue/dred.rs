//! Derivative random drop: RED without an average, as used by Goel et al. 2002 (section 3.2) and implemented in NIST
//! Net.
//!
//! According to the paper, a tenth of the packets is marked as soon as the queue exceeds `drdmin`, the share then
//! rises, and packets are dropped when the queue exceeds `drdcongest`. The paper does not state where the rise ends. In
//! NIST Net and here it ends at 95 % when the queue reaches `drdmax`. Probabilities are parts per billion.

use festina_units::{ByteCount, Probability};

use super::Verdict;
use crate::random::RandomStream;

/// Parameters of DRED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DredConfig {
    /// `drdmin`: signals start when the queue is longer than this, with the probability
    /// [`probability_min`](Self::probability_min).
    pub bytes_min: ByteCount,
    /// `drdmax`: queue length at which the probability has risen to [`probability_max`](Self::probability_max), where
    /// it stays.
    pub bytes_max: ByteCount,
    /// `drdcongest`: when the queue is longer than this, packets are dropped even if they could be marked.
    pub bytes_congested: ByteCount,
    /// Probability of a signal just above `drdmin`.
    pub probability_min: Probability,
    /// Probability of a signal from `drdmax` on.
    pub probability_max: Probability,
}

impl DredConfig {
    /// The values of Goel et al. 2002: `drdmin`, `drdmax` and `drdcongest` are 1, 2 and 2 times the product of
    /// bandwidth and delay.
    pub fn goel_2002(bandwidth_delay_product: ByteCount) -> Self {
        let twice = bandwidth_delay_product + bandwidth_delay_product;
        Self {
            bytes_min: bandwidth_delay_product,
            bytes_max: twice,
            bytes_congested: twice,
            probability_min: Probability::from_percent(10),
            probability_max: Probability::from_percent(95),
        }
    }
}

#[derive(Debug)]
pub(super) struct Dred {
    config: DredConfig,
    random: RandomStream,
}

impl Dred {
    pub(super) fn new(config: DredConfig, random: RandomStream) -> Self {
        Self { config, random }
    }

    /// Decides about a packet that finds `waiting` in the queue.
    pub(super) fn decide(&mut self, waiting: ByteCount) -> Verdict {
        // Drawn for every packet, so that the position in the stream is the packet's number.
        let is_signalled = self.random.chance(self.signal_probability(waiting));
        match (is_signalled, waiting > self.config.bytes_congested) {
            (false, _) => Verdict::Admit,
            (true, false) => Verdict::Signal,
            (true, true) => Verdict::Drop,
        }
    }

    fn signal_probability(&self, waiting: ByteCount) -> Probability {
        let DredConfig { bytes_min, bytes_max, probability_min, probability_max, .. } = self.config;
        if waiting <= bytes_min {
            return Probability::ZERO;
        }
        if waiting >= bytes_max {
            return probability_max;
        }
        let rise_ppb = u128::from(probability_max.ppb().saturating_sub(probability_min.ppb()));
        let above = u128::from((waiting - bytes_min).bytes());
        let span = u128::from((bytes_max - bytes_min).bytes());
        let added_ppb = u32::try_from(rise_ppb * above / span).unwrap_or(u32::MAX);
        Probability::from_ppb(probability_min.ppb().saturating_add(added_ppb))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BDP: u64 = 100_000;

    fn shares_percent(waiting: u64) -> (u32, u32) {
        let config = DredConfig::goel_2002(ByteCount::from_bytes(BDP));
        let mut dred = Dred::new(config, RandomStream::new(1, "dred"));
        let (mut signalled, mut dropped) = (0, 0);
        for _ in 0..100_000 {
            match dred.decide(ByteCount::from_bytes(waiting)) {
                Verdict::Admit => {}
                Verdict::Signal => signalled += 1,
                Verdict::Drop => dropped += 1,
            }
        }
        let percent = |count: u32| (count + 500) / 1_000;
        (percent(signalled), percent(dropped))
    }

    #[test]
    fn a_queue_up_to_the_bandwidth_delay_product_is_left_alone() {
        assert_eq!(shares_percent(BDP), (0, 0));
    }

    #[test]
    fn a_tenth_is_marked_just_above_it_and_more_the_longer_the_queue() {
        assert_eq!(shares_percent(BDP + 1), (10, 0));
        let (half_way, dropped) = shares_percent(BDP * 3 / 2);
        assert!((52..=53).contains(&half_way), "{half_way}");
        assert_eq!(dropped, 0);
        assert_eq!(shares_percent(BDP * 2), (95, 0));
    }

    #[test]
    fn above_twice_the_product_packets_are_dropped() {
        assert_eq!(shares_percent(BDP * 2 + 1), (0, 95));
    }
}
