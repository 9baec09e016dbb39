//! The means by which a thin stream repairs losses ahead of a retransmission: copies or a code, and how much of them.
//!
//! Let `p` be the loss rate and `e` the share of messages that may wait longer ([`TAIL_PPM`]): with less than one in a thousand the 99.9th
//! percentile of the delay is that of the means. All of it is for losses that are independent, and for four or eight messages in a repair symbol.
//!
//! | condition | means |
//! |---|---|
//! | losses in a row | one copy behind the burst ([`Bursts::distance`](crate::bursts::Bursts::distance)), none if that is a round trip away |
//! | the peer does not decode, fewer than three messages are sent per round trip, they are large, or bursts are likely | copies in the next packets ([`Piggyback::against`]) |
//! | a TCP flow would send that many packets | repair symbols in packets of their own, one for 1 to 2 messages: less than `e` wait beyond the next packet |
//! | `p² <= 0.00055` | in each packet 1 to 2 repair symbols: less than `e` wait for the second next packet |
//! | `p² >= 0.0018`, `2p³ < e` | the same, less than `e` wait for the third |
//! | else | copies |
//!
//! Of these the one that costs the fewest bytes is taken. A packet of its own costs its headers, but no acknowledgement. It is one packet more,
//! so it is left out where the path shows congestion. Between the two rows for `p²` copies take an interval less, or nearly as many bytes.
//!
//! A stream's loss is known only roughly, and a code for a lower one leaves more messages waiting than one for a higher one spares: `p` is one loss
//! more than was seen. A code takes the place of copies where it saves a sixteenth of their bytes, and keeps it as long as it saves any, while `p²`
//! is up to `e` or from 0.0014 on, up to `2p³ = 2e`, and for 2,000 packets after the last loss.
//!
//! A message that is lost arrives with the next repair symbol, if no second one is missing in its window. With one symbol for each message this fails
//! if the message before it or the next packet is lost as well: `2p²`. With two, only the next packet matters, `p²`, and the second next packet
//! brings enough for both: `2p³` are later. With a fraction `f` of packets that hold two, `(2 - f)p²` and `(1 - f)p² + 2p³`. With packets of their own
//! and a fraction `u` of messages that none follows directly, `3up²` wait beyond the next packet, messages behind a lost one included, and beyond a
//! third `(9u - 2)p²`, since two of them then follow each other; `4p³` more if all in a row are lost.

use super::{Budget, Piggyback};
use crate::loss_rate::LossShare;

/// Share of the messages that may wait longer than the means need, in a million. The 99.9th percentile allows for a thousand, but the loss rate is
/// estimated.
const TAIL_PPM: u64 = 700;
const MILLION: u64 = 1_000_000;

/// Share of lost pairs, in a million, up to which a code in the next packet takes the place of copies, and from which on one in the next two does; and
/// the limits up to and from which it stays.
const NEAR_PPM: [u64; 2] = [550, TAIL_PPM];
const FAR_PPM: [u64; 2] = [1_800, 1_400];

/// Parts of a repair symbol in which rates are counted.
pub const RATE_PARTS: u32 = 16;
const PARTS: u64 = RATE_PARTS as u64;

/// Messages in a repair symbol: the losses of one round are repaired in few packets, and a larger window has more losses at once. Where the third
/// packet may be needed, a message that left the window would wait for a retransmission, with all that follow it in a round trip.
const WINDOW: usize = 4;
const FAR_WINDOW: usize = 8;

/// Bytes of new chunks in a packet that has room for a repair symbol or copy besides.
const CHUNK_BYTES_MAX: u32 = 600;

/// Bytes of a packet without its chunks: headers of IPv4, UDP and SCTP.
const PACKET_BYTES: u32 = 40;

/// With fewer packets per round trip a retransmission is about as early as the packet after the next.
const BURSTS_PER_RTT_MIN: u32 = 2;

/// With fewer packets per round trip probes have no time to wait for a repair symbol.
const CODED_BURSTS_PER_RTT_MIN: u32 = 3;

/// What decides about the protection of a thin stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Circumstances {
    /// Expected loss of the next packets.
    pub loss: LossShare,
    /// Number of packets from a chunk to a copy that rarely shares its burst, if losses come in bursts.
    pub burst_distance: Option<u8>,
    /// Whether losses hardly ever follow each other ([`Bursts::are_likely`](crate::bursts::Bursts::are_likely)).
    pub is_independent: bool,
    /// Packets with new data per round trip, at least one.
    pub bursts_per_rtt: u32,
    /// Bytes of new chunks in a packet.
    pub chunk_bytes: u32,
    /// Packets of their own that may be sent for each packet with new data, in parts of [`RATE_PARTS`]: none if the path shows congestion, and no
    /// more than leave the stream below a TCP flow.
    pub spare_packets: u32,
    /// Whether a code protects the stream now.
    pub is_coded: bool,
}

/// Protection of the chunks of a thin stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Copies in later packets; none of them if losses are negligible.
    Copies(Piggyback),
    /// Repair symbols.
    Code(Code),
}

/// A schedule of repair symbols.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Repair symbols for each packet with new data, in parts of [`RATE_PARTS`].
    pub rate: u32,
    /// They are sent at once, in packets of their own, instead of in the next packet with new data.
    pub own_packets: bool,
    /// Packets after which all but few losses are repaired.
    pub reach: u8,
}

impl Protection {
    /// No protection.
    pub const NONE: Self = Self::Copies(Piggyback::NONE);

    /// Returns the cheapest means of a budget that meet the target.
    #[must_use]
    pub fn adaptive(budget: Budget, around: &Circumstances) -> Self {
        let &Circumstances { loss, burst_distance, bursts_per_rtt, .. } = around;
        if let Some(distance) = burst_distance.filter(|_| !loss.is_negligible()) {
            return Self::Copies(Piggyback::beyond_bursts(distance, bursts_per_rtt, budget.piggybacked_max));
        }
        let copies = Piggyback::against(loss, bursts_per_rtt, budget.piggybacked_max);
        let is_unfit =
            loss.is_negligible() || bursts_per_rtt < CODED_BURSTS_PER_RTT_MIN || around.chunk_bytes > CHUNK_BYTES_MAX;
        if !budget.code || !around.is_independent || is_unfit {
            return Self::Copies(copies);
        }
        let copied_bytes = copies.sixteenths_each() * around.chunk_bytes;
        // Each change leaves a few messages to both means or to none.
        let bytes_max = if around.is_coded { copied_bytes } else { copied_bytes - copied_bytes / 16 };
        match Code::against(around).filter(|code| code.part_bytes(around.chunk_bytes) < bytes_max) {
            Some(code) => Self::Code(code),
            None => Self::Copies(copies),
        }
    }

    /// Returns the copies, if it consists of them.
    #[must_use]
    pub fn copies(self) -> Piggyback {
        match self {
            Self::Copies(copies) => copies,
            Self::Code(_) => Piggyback::NONE,
        }
    }

    /// Returns the code, if it consists of one.
    #[must_use]
    pub fn code(self) -> Option<Code> {
        match self {
            Self::Copies(_) => None,
            Self::Code(code) => Some(code),
        }
    }

    /// Returns the number of packets from a chunk to its first copy or repair symbol; `None` without protection.
    #[must_use]
    pub fn distance(self) -> Option<u8> {
        match self {
            Self::Copies(copies) => (!copies.is_none()).then(|| copies.distance()),
            Self::Code(_) => Some(1),
        }
    }

    /// Returns whether the next packet repairs most losses before a retransmission could, on a stream of `bursts_per_rtt`. A copy behind a
    /// burst does not count: retransmissions are lost in bursts, too.
    pub(super) fn is_ahead_of_resends(self, bursts_per_rtt: u32) -> bool {
        bursts_per_rtt >= BURSTS_PER_RTT_MIN && self.distance() == Some(1)
    }
}

impl Code {
    /// Returns the cheapest code that meets the target; `None` if the losses are too many.
    fn against(around: &Circumstances) -> Option<Self> {
        let once = (u64::from(around.loss.lost) + 1) * MILLION / u64::from(around.loss.all.max(1));
        let twice = (once * once / MILLION).max(1);
        let thrice = twice * once / MILLION;
        let riding = |more: u64, reach: u8| {
            let rate = u32::try_from(PARTS + more.min(PARTS)).unwrap_or(RATE_PARTS);
            Self { rate, own_packets: false, reach }
        };
        let [near, far] = [NEAR_PPM, FAR_PPM].map(|[begins, stays]| if around.is_coded { stays } else { begins });
        let in_data = if twice <= near {
            Some(riding((2 * PARTS).saturating_sub(PARTS * TAIL_PPM / twice), 1))
        } else if twice < far {
            None
        } else {
            let late = 2 * thrice;
            let left = TAIL_PPM.checked_sub(late).or((around.is_coded && late <= 2 * TAIL_PPM).then_some(0));
            left.map(|left| riding(PARTS.saturating_sub(PARTS * left / twice), 2))
        };
        let own = Self::own(twice, thrice).filter(|own| own.rate <= around.spare_packets);
        own.into_iter().chain(in_data).min_by_key(|code| code.part_bytes(around.chunk_bytes))
    }

    /// Returns the cheapest schedule of packets of their own that meets the target.
    fn own(twice: u64, thrice: u64) -> Option<Self> {
        let left = PARTS * TAIL_PPM.checked_sub(4 * thrice)? / twice;
        // Of `n` parts of the messages that no repair symbol follows directly, `3n`, beyond a third `9n - 2`.
        let without = if left > PARTS { (left + 2 * PARTS) / 9 } else { left / 3 };
        let without = u32::try_from(without.min(PARTS / 2)).unwrap_or_default();
        Some(Self { rate: RATE_PARTS - without, own_packets: true, reach: 1 })
    }

    /// Returns the bytes that it costs for each packet with `chunk_bytes` of new data, in parts of [`RATE_PARTS`].
    fn part_bytes(self, chunk_bytes: u32) -> u32 {
        self.rate * (chunk_bytes + if self.own_packets { PACKET_BYTES } else { 0 })
    }

    /// Returns the number of messages in a repair symbol.
    #[must_use]
    pub fn window(self) -> usize {
        if self.reach > 1 { FAR_WINDOW } else { WINDOW }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Messages of 100 bytes, `bursts_per_rtt` of them, where `lost` of a thousand packets are lost independently.
    fn around(lost: u32, bursts_per_rtt: u32) -> Circumstances {
        Circumstances {
            loss: LossShare { lost, all: 1_000 },
            burst_distance: None,
            is_independent: true,
            bursts_per_rtt,
            chunk_bytes: 116,
            spare_packets: 0,
            is_coded: false,
        }
    }

    fn code(around: &Circumstances) -> Option<(u32, bool, u8)> {
        Protection::adaptive(Budget::CODE, around).code().map(|code| (code.rate, code.own_packets, code.reach))
    }

    #[test]
    fn the_rate_follows_the_loss_and_the_code_ends_where_it_misses_the_target() {
        let rates = [0, 1, 5, 10, 20, 22, 25, 30, 40, 42, 50, 60, 69, 75, 200].map(|lost| code(&around(lost, 10)));
        let riding = |rate, reach| Some((rate, false, reach));
        let expected = [
            None,
            None,
            None,
            riding(16, 1),
            riding(23, 1),
            riding(27, 1),
            None,
            None,
            None,
            riding(28, 2),
            riding(30, 2),
            riding(31, 2),
            riding(32, 2),
            None,
            None,
        ];
        assert_eq!(rates, expected);
    }

    #[test]
    fn packets_of_their_own_cost_less_unless_messages_are_small_or_packets_cost_others() {
        let spared = |lost| Circumstances { spare_packets: 16, ..around(lost, 5) };
        let rates = [5, 10, 15, 20, 25, 30, 50].map(|lost| code(&spared(lost)).expect("a code").0);
        assert_eq!(rates, [8, 8, 8, 10, 12, 13, 16]);
        assert_eq!(code(&spared(10)), Some((8, true, 1)));
        assert_eq!(code(&Circumstances { chunk_bytes: 36, ..spared(10) }), Some((16, false, 1)));
        assert_eq!(code(&around(10, 5)), Some((16, false, 1)));
        assert_eq!(code(&around(10, 3)), None, "a copy for each costs as much as a sum in each packet");
        let fewer = Circumstances { spare_packets: 9, ..spared(20) };
        assert_eq!(code(&fewer), Some((23, false, 1)));
    }

    #[test]
    fn a_code_stays_where_it_would_not_begin() {
        for (lost, stays) in
            [(24, Some((31, false, 1))), (38, Some((26, false, 2))), (75, Some((32, false, 2))), (90, None)]
        {
            let kept = Circumstances { is_coded: true, ..around(lost, 10) };
            assert_eq!((code(&around(lost, 10)), code(&kept)), (None, stays), "{lost} of a thousand");
        }
    }

    #[test]
    fn bursts_sparse_streams_and_peers_that_do_not_decode_get_copies() {
        let five_percent = around(50, 10);
        let in_bursts = Circumstances { burst_distance: Some(4), ..five_percent };
        let behind = Piggyback::beyond_bursts(4, 10, 3);
        assert_eq!(Protection::adaptive(Budget::CODE, &in_bursts), Protection::Copies(behind));
        for (budget, around) in [
            (Budget::CODE, around(50, 2)),
            (Budget::CODE, Circumstances { is_independent: false, ..five_percent }),
            (Budget::CODE, Circumstances { chunk_bytes: 1_016, ..five_percent }),
            (Budget::PIGGYBACK, five_percent),
        ] {
            let copies = Piggyback::against(around.loss, around.bursts_per_rtt, 3);
            assert_eq!(Protection::adaptive(budget, &around), Protection::Copies(copies));
        }
        assert_eq!(Protection::adaptive(Budget::CODE, &around(0, 10)), Protection::NONE);
    }

    #[test]
    fn retransmissions_are_repeated_unless_the_next_packet_repairs_most_losses() {
        let of = |around: &Circumstances| Protection::adaptive(Budget::CODE, around);
        for (around, is_ahead) in [
            (around(50, 10), true),
            (around(200, 10), true),
            (around(50, 1), false),
            (around(0, 10), false),
            (Circumstances { burst_distance: Some(4), ..around(50, 10) }, false),
        ] {
            assert_eq!(of(&around).is_ahead_of_resends(around.bursts_per_rtt), is_ahead, "{around:?}");
        }
    }

    proptest! {
        #[test]
        fn the_code_costs_less_than_the_copies_that_it_replaces(
            lost in 0..400_u32,
            bursts_per_rtt in 1..64_u32,
            chunk_bytes in 20..1_220_u32,
            spare_packets in 0..32_u32,
            is_coded in any::<bool>(),
        ) {
            let around = Circumstances { chunk_bytes, spare_packets, is_coded, ..around(lost, bursts_per_rtt) };
            if let Protection::Code(code) = Protection::adaptive(Budget::CODE, &around) {
                let copies = Piggyback::against(around.loss, bursts_per_rtt, Budget::CODE.piggybacked_max);
                prop_assert!(code.part_bytes(chunk_bytes) < copies.sixteenths_each() * chunk_bytes);
                prop_assert!(!code.own_packets || code.rate <= spare_packets.min(RATE_PARTS));
                prop_assert!(code.rate >= RATE_PARTS / 2 && code.rate <= 2 * RATE_PARTS);
            }
        }
    }
}
