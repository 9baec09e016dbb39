//! How often a chunk is piggybacked, depending on the loss rate.
//!
//! A lost message arrives with the next of its rides. Only if all of its transmissions are lost, the sender has to
//! detect that and retransmit it, and everything written meanwhile waits behind it. Let `p` be the probability of a
//! loss, `r` the number of rides, and `m` the number of messages per round trip. Then one message in `1 / p^(r + 1)`
//! needs a retransmission, and those written until it arrives wait with it: about a round trip after the last ride, so
//! `1 + m + r` messages in all. The share of messages that wait is
//!
//! > `(1 + m + r) · p^(r + 1)`
//!
//! The number of rides keeps this share below one in a thousand, so that the 99.9th percentile of the delay is that of
//! a ride. While `r` rides leave fewer than [`ENOUGH_PPM`] waiting, no chunk gets one more; if they leave more than
//! [`TOO_MANY_PPM`], all do; in between a fraction of the chunks does, in sixteenths, and the share stays below 700 in
//! a million. With losses of 1 % and five messages per round trip one ride is enough, with 5 % two to three are,
//! without loss none is needed.
//!
//! The formula assumes independent losses. In a burst, rides in the packets of the burst are lost as well; the more so,
//! the denser the stream. Extra packets sent close behind cannot prevent that; after the burst a probe repairs the
//! loss.

use crate::loss_rate::LossShare;

/// Limits of the number of messages in a million that wait for a retransmission: up to the first one no further ride is
/// added, above the second one all chunks get another.
const ENOUGH_PPM: u64 = 500;
const TOO_MANY_PPM: u64 = 2_000;

/// Number of parts of the chunks among which fractional rides are divided.
const PARTS: u64 = 16;

/// Maximum number of messages per round trip that counts.
const MESSAGES_MAX: u32 = 64;

/// Number of rides of a chunk: `whole` for each, and one more for `sixteenths` of them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Rides {
    whole: u8,
    sixteenths: u8,
}

impl Rides {
    /// No rides.
    pub const NONE: Self = Self { whole: 0, sixteenths: 0 };

    /// Creates the same number of rides for every chunk.
    #[must_use]
    pub fn always(rides: u8) -> Self {
        Self { whole: rides, sixteenths: 0 }
    }

    /// Returns the rides required by this loss rate on a stream of `bursts_per_rtt`, at most `rides_max` for each
    /// chunk.
    #[must_use]
    pub fn against(loss: LossShare, bursts_per_rtt: u32, rides_max: u8) -> Self {
        let messages = u64::from(bursts_per_rtt.min(MESSAGES_MAX));
        let mut all_lost_ppb = 1_000_000_000;
        for rides in 0..rides_max {
            all_lost_ppb = all_lost_ppb * u64::from(loss.lost) / u64::from(loss.all.max(1));
            let waiting_ppm = all_lost_ppb * (1 + messages + u64::from(rides)) / 1_000;
            let sixteenths = waiting_ppm.saturating_sub(ENOUGH_PPM) * PARTS / (TOO_MANY_PPM - ENOUGH_PPM);
            match u8::try_from(sixteenths) {
                Ok(sixteenths) if u64::from(sixteenths) < PARTS => return Self { whole: rides, sixteenths },
                _ => {}
            }
        }
        Self::always(rides_max)
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Returns whether a chunk with this sequence number that has been sent `transmissions` times may be piggybacked
    /// again.
    #[must_use]
    pub fn allow(self, sequence: u64, transmissions: u8) -> bool {
        // Neighbours differ in their lowest bits: reversing the bits spreads them, and any sixteen consecutive numbers
        // have each value once.
        let [.., lowest] = sequence.to_be_bytes();
        let part = lowest.reverse_bits() >> 4;
        let rides = self.whole + u8::from(part < self.sixteenths);
        transmissions <= rides
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn percent(lost: u32) -> LossShare {
        LossShare { lost, all: 100 }
    }

    /// Rides of a thousand chunks.
    fn rides_per_thousand(rides: Rides) -> usize {
        let rides_of =
            |sequence: u64| (1..=10).take_while(|&transmissions| rides.allow(sequence, transmissions)).count();
        (0..1_000).map(rides_of).sum()
    }

    #[test]
    fn without_loss_nothing_rides_along() {
        assert_eq!(Rides::against(LossShare { lost: 0, all: 500 }, 10, 3), Rides::NONE);
        assert_eq!(rides_per_thousand(Rides::NONE), 0);
    }

    #[test]
    fn the_loss_rate_and_the_rate_of_messages_decide_how_many_rides_there_are() {
        let rides = |lost, messages| rides_per_thousand(Rides::against(percent(lost), messages, 3));
        assert!((1_000..1_300).contains(&rides(1, 5)), "{}", rides(1, 5));
        assert!((1_000..1_600).contains(&rides(1, 10)), "{}", rides(1, 10));
        assert!((1_600..2_001).contains(&rides(2, 5)), "{}", rides(2, 5));
        assert!((2_000..2_600).contains(&rides(5, 5)), "{}", rides(5, 5));
        assert_eq!(rides(10, 5), 3_000);
        assert_eq!(rides(50, 5), 3_000, "more are not allowed");
    }

    #[test]
    fn a_loss_in_many_thousand_packets_is_left_to_the_probe() {
        assert_eq!(Rides::against(LossShare { lost: 1, all: 20_000 }, 5, 3), Rides::NONE);
    }

    #[test]
    fn a_part_of_the_chunks_is_spread_evenly() {
        for sixteenths in 0..16 {
            let rides = Rides { whole: 1, sixteenths };
            for start in 0..40 {
                let more = (start..start + 16).filter(|&sequence| rides.allow(sequence, 2)).count();
                assert_eq!(more, usize::from(sixteenths));
            }
        }
        let half = Rides { whole: 0, sixteenths: 8 };
        assert!((0..100).all(|sequence| half.allow(sequence, 1) != half.allow(sequence + 1, 1)));
    }

    proptest! {
        #[test]
        fn more_loss_never_means_fewer_rides(lost in 0..1_000_u32, more in 0..1_000_u32, messages in 0..100_u32, max in 0..6_u8) {
            let share = |lost| LossShare { lost, all: 2_000 };
            let few = rides_per_thousand(Rides::against(share(lost), messages, max));
            let many = rides_per_thousand(Rides::against(share(lost + more), messages, max));
            prop_assert!(few <= many, "{few} > {many}");
            prop_assert!(many <= usize::from(max) * 1_000);
        }
    }
}
