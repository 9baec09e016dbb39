//! Decides which packets routers may mark instead of dropping them (ECT, RFC 3168 §5), and whether the path carries such packets at all.
//!
//! Some paths drop ECN-capable packets. So at most [`TRIES`] of the first packets with new data carry the codepoint until one of them is acknowledged
//! without a retransmission; retransmissions meanwhile go without it and get through. From then on every packet with data is ECN-capable,
//! retransmissions too: RFC 3168 §6.1.5 excludes them for fear of forged segments, which the verification tag prevents here. After a timeout the test
//! starts again.

use festina_units::EcnCodepoint;

use crate::wire::Tsn;

/// Packets that may be lost to the test: a path that drops every one costs as many repairs, and a path that loses 5 % of all packets fails it in one
/// of 160,000 cases.
const TRIES: u8 = 4;

/// The ECN-capable packets of one path whose ends have both agreed to ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marking {
    /// Packets that may yet try.
    tries: u8,
    is_proven: bool,
    /// The last TSN in the latest packet that tried.
    tried: u32,
    /// Whether it is neither acknowledged nor retransmitted yet.
    is_open: bool,
}

impl Marking {
    /// Both ends support ECN, and the handshake is complete.
    pub(super) fn begin() -> Self {
        Self { tries: TRIES, is_proven: false, tried: 0, is_open: false }
    }

    /// A packet with data leaves, up to this TSN; `is_new`: none of its chunks has left before.
    #[inline]
    pub(super) fn packet_leaves(&mut self, tsn: u64, is_new: bool) -> EcnCodepoint {
        if self.is_proven {
            return EcnCodepoint::Capable;
        }
        if self.tries == 0 || !is_new {
            return EcnCodepoint::NotCapable;
        }
        self.tries -= 1;
        (self.tried, self.is_open) = (wrapped(tsn), true);
        EcnCodepoint::Capable
    }

    /// A chunk with this TSN is retransmitted.
    #[inline]
    pub(super) fn resent(&mut self, tsn: u64) {
        self.is_open &= self.tried != wrapped(tsn);
    }

    /// All below `first_tsn` is acknowledged.
    #[inline]
    pub(super) fn acked(&mut self, first_tsn: u64) {
        if self.is_open && wrapped(first_tsn).wrapping_sub(self.tried).cast_signed() > 0 {
            (self.is_proven, self.is_open) = (true, false);
        }
    }

    /// T3-rtx expired.
    pub(super) fn timed_out(&mut self) {
        if self.is_proven {
            *self = Self::begin();
        }
    }
}

/// The TSN as on the wire: the outstanding TSNs fit into half of that space.
fn wrapped(tsn: u64) -> u32 {
    Tsn::wrap(tsn).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_delivers_such_a_packet_is_used_for_all_from_then_on() {
        let mut marking = Marking::begin();
        assert_eq!(marking.packet_leaves(u64::from(u32::MAX), true), EcnCodepoint::Capable);
        marking.acked(u64::from(u32::MAX));
        assert_eq!(marking.packet_leaves(7, false), EcnCodepoint::NotCapable, "it is not acknowledged yet");
        marking.acked(1 << 32);
        assert_eq!(marking.packet_leaves(1 << 32, false), EcnCodepoint::Capable);
    }

    #[test]
    fn a_path_that_drops_such_packets_costs_four_of_them() {
        let mut marking = Marking::begin();
        for tsn in 1..10 {
            let expected = if tsn <= 4 { EcnCodepoint::Capable } else { EcnCodepoint::NotCapable };
            assert_eq!(marking.packet_leaves(tsn, true), expected);
            marking.resent(tsn);
            assert_eq!(marking.packet_leaves(tsn, false), EcnCodepoint::NotCapable);
            marking.acked(tsn + 1);
            marking.timed_out();
        }
    }

    #[test]
    fn after_a_timeout_the_path_has_to_prove_itself_anew() {
        let mut marking = Marking::begin();
        marking.packet_leaves(1, true);
        marking.acked(2);
        marking.timed_out();
        assert_eq!(marking.packet_leaves(2, false), EcnCodepoint::NotCapable);
        assert_eq!(marking.packet_leaves(3, true), EcnCodepoint::Capable);
        marking.acked(4);
        assert_eq!(marking.packet_leaves(2, false), EcnCodepoint::Capable);
    }
}
