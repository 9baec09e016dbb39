//! How often a chunk is piggybacked, depending on the loss rate.
//!
//! A lost message arrives with the next of its piggybacked copies. Only if all of its transmissions are lost, the
//! sender has to detect that and retransmit it, and everything written meanwhile waits behind it. Let `p` be the
//! probability of a loss, `r` the number of copies, and `m` the number of messages per round trip. Then one message in
//! `1 / p^(r + 1)` needs a retransmission, and those written until it arrives wait with it: about a round trip after
//! the last copy, so `1 + m + r` messages in all. The share of messages that wait is
//!
//! > `(1 + m + r) · p^(r + 1)`
//!
//! The number of copies keeps this share below one in a thousand, so that the 99.9th percentile of the delay is that of
//! a copy. If `r` copies leave fewer than [`ENOUGH_PPM`] waiting, no chunk gets one more. If they leave more than
//! [`TOO_MANY_PPM`], all do. In between a fraction of the chunks does, in sixteenths, and the share stays below 700 in
//! a million. With losses of 1 % and five messages per round trip one copy is enough, with 5 % two to three are.
//! Without loss none is needed.
//!
//! The formula assumes independent losses. In a burst, copies in the packets of the burst are lost as well; the more
//! so, the denser the stream. So if losses were seen to come in bursts, a chunk gets one copy, at a distance at
//! which both are rarely lost ([`Bursts::distance`](crate::bursts::Bursts::distance)). If that is a round trip
//! away, it gets none: the sender knows of the loss by then.

use crate::loss_rate::LossShare;

/// Limits of the number of messages in a million that wait for a retransmission: up to the first one no further copy is
/// added, above the second one all chunks get another.
const ENOUGH_PPM: u64 = 500;
const TOO_MANY_PPM: u64 = 2_000;

/// Number of parts of the chunks among which fractional copies are divided.
const PARTS: u64 = 16;

/// Maximum number of messages per round trip that counts.
const MESSAGES_MAX: u32 = 64;

/// Number of piggybacked copies of a chunk: `whole` for each, and one more for `sixteenths` of the chunks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Piggyback {
    whole: u8,
    sixteenths: u8,
    /// Packets from a chunk to its copy.
    distance: u8,
}

impl Piggyback {
    /// No copies.
    pub const NONE: Self = Self { whole: 0, sixteenths: 0, distance: 1 };

    /// Creates the same number of copies for every chunk.
    #[must_use]
    pub fn always(piggyback: u8) -> Self {
        Self { whole: piggyback, ..Self::NONE }
    }

    /// Returns the number of copies required by this loss rate on a stream of `bursts_per_rtt`, at most `copies_max` for
    /// each chunk.
    #[must_use]
    pub fn against(loss: LossShare, bursts_per_rtt: u32, copies_max: u8) -> Self {
        let messages = u64::from(bursts_per_rtt.min(MESSAGES_MAX));
        let mut all_lost_ppb = 1_000_000_000;
        for piggyback in 0..copies_max {
            all_lost_ppb = all_lost_ppb * u64::from(loss.lost) / u64::from(loss.all.max(1));
            let waiting_ppm = all_lost_ppb * (1 + messages + u64::from(piggyback)) / 1_000;
            let sixteenths = waiting_ppm.saturating_sub(ENOUGH_PPM) * PARTS / (TOO_MANY_PPM - ENOUGH_PPM);
            match u8::try_from(sixteenths) {
                Ok(sixteenths) if u64::from(sixteenths) < PARTS => {
                    return Self { whole: piggyback, sixteenths, distance: 1 };
                }
                _ => {}
            }
        }
        Self::always(copies_max)
    }

    /// Creates one copy for every chunk, `distance` packets behind it on a stream of `bursts_per_rtt`, if it is less than
    /// a round trip away and `copies_max` permits one.
    #[must_use]
    pub fn beyond_bursts(distance: u8, bursts_per_rtt: u32, copies_max: u8) -> Self {
        let is_in_time = u32::from(distance) < bursts_per_rtt;
        if is_in_time { Self { whole: copies_max.min(1), sixteenths: 0, distance } } else { Self::NONE }
    }

    /// Returns the number of packets from a chunk to its copy, at least one.
    #[must_use]
    pub fn distance(self) -> u8 {
        self.distance
    }

    /// Returns their mean number, in sixteenths.
    pub(super) fn sixteenths_each(self) -> u32 {
        16 * u32::from(self.whole) + u32::from(self.sixteenths)
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.whole == 0 && self.sixteenths == 0
    }

    /// Returns whether a chunk with this sequence number that has been sent `transmissions` times may be piggybacked
    /// again.
    #[must_use]
    pub fn allow(self, sequence: u64, transmissions: u8) -> bool {
        // Neighbours differ in their lowest bits: reversing the bits spreads them, and any sixteen consecutive numbers
        // have each value once.
        let [.., lowest] = sequence.to_be_bytes();
        let part = lowest.reverse_bits() >> 4;
        let piggyback = self.whole + u8::from(part < self.sixteenths);
        transmissions <= piggyback
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn percent(lost: u32) -> LossShare {
        LossShare { lost, all: 100 }
    }

    /// Number of copies of a thousand chunks.
    fn copies_per_thousand(piggyback: Piggyback) -> usize {
        let copies_of =
            |sequence: u64| (1..=10).take_while(|&transmissions| piggyback.allow(sequence, transmissions)).count();
        (0..1_000).map(copies_of).sum()
    }

    #[test]
    fn without_loss_nothing_is_piggybacked() {
        assert_eq!(Piggyback::against(LossShare { lost: 0, all: 500 }, 10, 3), Piggyback::NONE);
        assert_eq!(copies_per_thousand(Piggyback::NONE), 0);
    }

    #[test]
    fn the_loss_rate_and_the_rate_of_messages_decide_how_many_copies_there_are() {
        let piggyback = |lost, messages| copies_per_thousand(Piggyback::against(percent(lost), messages, 3));
        assert!((1_000..1_300).contains(&piggyback(1, 5)), "{}", piggyback(1, 5));
        assert!((1_000..1_600).contains(&piggyback(1, 10)), "{}", piggyback(1, 10));
        assert!((1_600..2_001).contains(&piggyback(2, 5)), "{}", piggyback(2, 5));
        assert!((2_000..2_600).contains(&piggyback(5, 5)), "{}", piggyback(5, 5));
        assert_eq!(piggyback(10, 5), 3_000);
        assert_eq!(piggyback(50, 5), 3_000, "more are not allowed");
    }

    #[test]
    fn a_loss_in_many_thousand_packets_is_left_to_the_probe() {
        assert_eq!(Piggyback::against(LossShare { lost: 1, all: 20_000 }, 5, 3), Piggyback::NONE);
    }

    #[test]
    fn a_part_of_the_chunks_is_spread_evenly() {
        for sixteenths in 0..16 {
            let piggyback = Piggyback { whole: 1, sixteenths, distance: 1 };
            for start in 0..40 {
                let more = (start..start + 16).filter(|&sequence| piggyback.allow(sequence, 2)).count();
                assert_eq!(more, usize::from(sixteenths));
            }
        }
        let half = Piggyback { sixteenths: 8, ..Piggyback::NONE };
        assert!((0..100).all(|sequence| half.allow(sequence, 1) != half.allow(sequence + 1, 1)));
    }

    #[test]
    fn beyond_a_burst_there_is_one_copy_if_a_retransmission_is_not_as_soon() {
        let copy = Piggyback::beyond_bursts(4, 10, 3);
        assert_eq!((copy.distance(), copies_per_thousand(copy)), (4, 1_000));
        assert!(Piggyback::beyond_bursts(4, 4, 3).is_none());
        assert!(Piggyback::beyond_bursts(4, 10, 0).is_none());
    }

    proptest! {
        #[test]
        fn more_loss_never_means_fewer_copies(lost in 0..1_000_u32, more in 0..1_000_u32, messages in 0..100_u32, max in 0..6_u8) {
            let share = |lost| LossShare { lost, all: 2_000 };
            let few = copies_per_thousand(Piggyback::against(share(lost), messages, max));
            let many = copies_per_thousand(Piggyback::against(share(lost + more), messages, max));
            prop_assert!(few <= many, "{few} > {many}");
            prop_assert!(many <= usize::from(max) * 1_000);
        }
    }
}
