//! Detects packet losses despite piggybacked copies: a chunk whose packet was lost is acknowledged when the next packet brings its copy.
//!
//! The sender must learn of such a loss: congestion control reacts to it, and the number of copies follows the loss rate. Reports of duplicates
//! reveal it. If a chunk has arrived, the receiver reports a duplicate for each later packet with a copy; if its packet was lost, the first copy
//! causes no report. A SACK reports the duplicates since the previous one, and answers at most two packets (RFC 9260 §6.2). Further packets that it
//! acknowledges for the first time were answered by a lost SACK, whose duplicate reports are lost too. So a packet counts as lost if copies of its
//! chunk were in the packets that this SACK answers and not all of these caused a duplicate report. If copies overtook it, it is reported as a duplicate
//! later ([`PresumedLosses`](festina_recovery::presumed_loss::PresumedLosses)).

use festina_recovery::presumed_loss::PresumedLoss;
use festina_units::Instant;

use super::chunk::{Chunk, Transmission};

/// Packets that one acknowledgement may report for the first time so that all count; of more, the highest do. A thin stream has a few.
const PACKETS_MAX: usize = 8;

/// The highest packets that one acknowledgement reports for the first time and whose chunks were sent more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrivals {
    packets: [Packet; PACKETS_MAX],
    count: usize,
    /// The highest one asked for its SACK, which then answers no other.
    is_immediate: bool,
}

/// Packets that are presumed lost, each by the TSN of its last chunk.
pub(crate) type LostPackets = core::iter::Flatten<core::array::IntoIter<Option<PresumedLoss>, PACKETS_MAX>>;

/// A packet, by the highest chunk that left in it for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Packet {
    tsn: u64,
    sent_at: Instant,
    transmissions: u8,
    /// Number of later packets that carried a piggybacked copy; `None` if it was sent again in any other way.
    copies: Option<u8>,
    /// Sent again once, or last as a probe: all but the first transmission left a round trip apart, and not shortly behind one another.
    is_probed: bool,
    duplicates: u8,
}

impl Packet {
    fn presumed_loss(&self) -> PresumedLoss {
        PresumedLoss {
            number: self.tsn,
            sent: self.sent_at,
            unreported: self.transmissions.saturating_sub(1).saturating_sub(self.duplicates),
            is_piggybacked: self.copies.is_some(),
        }
    }
}

impl Arrivals {
    /// None at all.
    pub(crate) const NONE: Self = {
        let packet =
            Packet { tsn: 0, sent_at: Instant::ZERO, transmissions: 0, copies: None, is_probed: false, duplicates: 0 };
        Self { packets: [packet; PACKETS_MAX], count: 0, is_immediate: false }
    };

    /// A chunk is acknowledged for the first time; in ascending order of TSNs.
    #[inline]
    pub(super) fn acked(&mut self, tsn: u64, chunk: &Chunk) {
        let Chunk { sent_at, transmissions, resent, immediate_ack, .. } = *chunk;
        self.is_immediate = immediate_ack;
        if transmissions == 1 && self.count == 0 {
            return;
        }
        let is_piggybacked = matches!(resent, None | Some(Transmission::Bundled | Transmission::ReportedBundled));
        let copies = is_piggybacked.then(|| transmissions.saturating_sub(1));
        let is_probed = transmissions == 2 || matches!(resent, Some(Transmission::Probe | Transmission::ProbedBundled));
        let packet = Packet { tsn, sent_at, transmissions, copies, is_probed, duplicates: 0 };
        // Chunks that were first sent together are also piggybacked together.
        let last = self.count.checked_sub(1).and_then(|last| self.packets.get_mut(last));
        match last {
            Some(last) if last.sent_at == sent_at && last.transmissions == transmissions => *last = packet,
            _ => self.push(packet),
        }
    }

    fn push(&mut self, packet: Packet) {
        if self.count == PACKETS_MAX {
            self.packets.rotate_left(1);
            self.count -= 1;
        }
        if let Some(slot) = self.packets.get_mut(self.count) {
            *slot = packet;
            self.count += 1;
        }
    }

    /// A duplicate is reported.
    pub(super) fn duplicate(&mut self, tsn: u64) {
        let packets = self.packets.get_mut(..self.count).unwrap_or_default();
        if let Ok(index) = packets.binary_search_by_key(&tsn, |packet| packet.tsn)
            && let Some(packet) = packets.get_mut(index)
        {
            packet.duplicates = packet.duplicates.saturating_add(1);
        }
    }

    /// Returns the packets that are presumed lost, each by the TSN of its last chunk, as far as can be known. `answers_earlier`: the acknowledgement
    /// came too soon after the last transmission of the chunk with the highest TSN to be an answer to that. `is_answered`: a transmission at this time
    /// may be answered by now. `carrier`: the first TSN of the packet that carried the only
    /// copy of a chunk, if it was not the next packet.
    pub(crate) fn lost(
        &self,
        answers_earlier: bool,
        is_answered: impl Fn(Instant) -> bool,
        carrier: impl Fn(u64) -> Option<u64>,
    ) -> LostPackets {
        let packets = self.packets.get(..self.count).unwrap_or_default();
        // Had the highest arrived as a piggybacked copy, a higher chunk would have arrived with it.
        let is_lost = |highest: &Packet| highest.copies.is_none() && highest.duplicates == 0 && !answers_earlier;
        let mut lost = [None; PACKETS_MAX];
        let mut answered = [None, None];
        for ((index, packet), lost) in packets.iter().enumerate().zip(&mut lost).rev() {
            let has_arrived = match packet.copies {
                _ if index + 1 == packets.len() => !is_lost(packet),
                Some(copies) => {
                    let copies = copies.saturating_sub(u8::from(!is_answered(packet.sent_at)));
                    let carried = |&&above: &&usize| match carrier(packet.tsn) {
                        Some(first_tsn) => is_first_chunk_of(packets, above, first_tsn),
                        None => above - index <= usize::from(copies),
                    };
                    usize::from(packet.duplicates) >= answered.iter().flatten().filter(carried).count()
                }
                None => packet.duplicates > 0 || packet.is_probed && !is_answered(packet.sent_at),
            };
            *lost = (!has_arrived).then(|| packet.presumed_loss());
            if index + 1 == packets.len() {
                answered[0] = has_arrived.then_some(index);
            } else if has_arrived && !self.is_immediate && answered[1].is_none() {
                answered[1] = Some(index);
            }
        }
        lost.into_iter().flatten()
    }
}

/// Returns whether the chunk left for the first time in this packet, as far as the packets that are listed show.
fn is_first_chunk_of(packets: &[Packet], index: usize, tsn: u64) -> bool {
    let below = index.checked_sub(1).and_then(|below| packets.get(below));
    packets.get(index).is_some_and(|packet| tsn <= packet.tsn) && below.is_none_or(|below| below.tsn < tsn)
}

#[cfg(test)]
mod tests {
    use festina_units::Duration;
    use proptest::prelude::*;

    use super::*;

    fn at(nth: u64) -> Instant {
        Instant::from_secs(100) + Duration::from_millis(20 * nth)
    }

    fn chunk(nth: u64, copies: u8) -> Chunk {
        let resent = (copies > 0).then_some(Transmission::Bundled);
        Chunk { transmissions: 1 + copies, resent, ..Chunk::for_test(at(nth + u64::from(copies))) }
    }

    /// Returns the evidence of a SACK that acknowledges these packets, each with one new chunk that is also in the next `copies` packets, and answers
    /// the last `answered` of those that arrived. Earlier chunks were acknowledged before.
    fn arrivals(arrived: &[bool], answered: usize, copies: u8) -> Arrivals {
        let mut arrivals = Arrivals::default();
        (0..arrived.len()).for_each(|nth| arrivals.acked(nth as u64, &chunk(nth as u64, copies)));
        let came: Vec<usize> = (0..arrived.len()).filter(|&nth| arrived[nth]).collect();
        for &nth in came.iter().rev().take(answered) {
            for tsn in nth.saturating_sub(copies.into())..nth {
                // The chunk came before if any packet that held it did.
                if arrived[tsn..nth].contains(&true) {
                    arrivals.duplicate(tsn as u64);
                }
            }
        }
        arrivals
    }

    fn lost(arrivals: &Arrivals) -> usize {
        arrivals.lost(false, |_| true, |_| None).count()
    }

    #[test]
    fn without_rides_there_is_nothing_to_find_out() {
        assert_eq!(lost(&arrivals(&[true, true], 2, 0)), 0);
    }

    #[test]
    fn a_lost_packet_is_found_though_the_next_one_brought_its_chunk() {
        for copies in 1..=3 {
            assert_eq!(lost(&arrivals(&[true, true], 2, copies)), 0, "{copies}");
            assert_eq!(lost(&arrivals(&[false, true], 2, copies)), 1, "{copies}");
            assert_eq!(lost(&arrivals(&[false, true, true], 2, copies)), 1, "{copies}");
            assert_eq!(lost(&arrivals(&[true, false, true], 2, copies)), 1, "{copies}");
        }
    }

    #[test]
    fn a_copy_beyond_a_burst_shows_only_in_its_own_packet_that_one_was_lost() {
        for (newest, duplicates, lost) in [(3, 0, 0), (4, 0, 1), (4, 1, 0)] {
            let mut arrivals = Arrivals::default();
            [0, newest].iter().for_each(|&nth| arrivals.acked(nth, &chunk(nth, 1)));
            (0..duplicates).for_each(|_| arrivals.duplicate(0));
            assert_eq!(
                arrivals.lost(false, |_| true, |tsn| Some(tsn + 4)).count(),
                lost,
                "{duplicates} duplicates, with {newest}"
            );
        }
    }

    #[test]
    fn a_lost_sack_is_no_lost_packet() {
        for copies in 1..=3 {
            assert_eq!(lost(&arrivals(&[true; 4], 2, copies)), 0, "{copies}");
            assert_eq!(lost(&arrivals(&[true; 6], 2, copies)), 0, "{copies}");
            let asked = Arrivals { is_immediate: true, ..arrivals(&[true; 3], 1, copies) };
            assert_eq!(lost(&asked), 0, "{copies}");
        }
    }

    #[test]
    fn chunks_of_one_packet_count_once() {
        let mut arrivals = Arrivals::default();
        (0..3).for_each(|tsn| arrivals.acked(tsn, &chunk(0, 1)));
        arrivals.acked(3, &chunk(1, 1));
        assert_eq!(lost(&arrivals), 1);
        (0..3).for_each(|tsn| arrivals.duplicate(tsn));
        assert_eq!(lost(&arrivals), 0);
    }

    #[test]
    fn a_chunk_that_left_again_alone_counts_as_lost_unless_something_proves_the_contrary() {
        let probed = Chunk { transmissions: 2, resent: Some(Transmission::Probe), ..Chunk::for_test(at(5)) };
        let mut arrivals = Arrivals::default();
        arrivals.acked(1, &probed);
        assert_eq!((lost(&arrivals), arrivals.lost(true, |_| true, |_| None).count()), (1, 0));
        arrivals.duplicate(1);
        assert_eq!(lost(&arrivals), 0);
    }

    #[test]
    fn a_transmission_that_cannot_be_answered_yet_is_not_expected_to_show() {
        for (transmissions, resent, duplicates) in [(2, Transmission::Probe, 0), (3, Transmission::Bundled, 1)] {
            let mut arrivals = Arrivals::default();
            let first = Chunk { transmissions, resent: Some(resent), ..Chunk::for_test(at(5)) };
            arrivals.acked(1, &first);
            arrivals.acked(2, &chunk(2, 0));
            arrivals.acked(3, &chunk(3, 0));
            (0..duplicates).for_each(|_| arrivals.duplicate(1));
            let of = |is_answered: bool| arrivals.lost(false, |_| is_answered, |_| None).count();
            assert_eq!((of(true), of(false)), (1, 0), "{resent:?}");
        }
        // Its first retransmission may be answered.
        let repeated = Chunk { transmissions: 3, resent: Some(Transmission::Repeated), ..Chunk::for_test(at(5)) };
        let mut arrivals = Arrivals::default();
        arrivals.acked(1, &repeated);
        arrivals.acked(2, &chunk(2, 0));
        assert_eq!(arrivals.lost(false, |_| false, |_| None).count(), 1);
    }

    proptest! {
        #[test]
        fn every_loss_is_found_among_the_packets_that_a_sack_answers(first in 0..4_usize, second in 0..4_usize, copies in 1..4_u8) {
            // More losses in a row than copies leave a gap, and no cumulative acknowledgement.
            let (first, second) = (first.min(copies.into()), second.min(copies.into()));
            let arrived = [vec![false; first], vec![true], vec![false; second], vec![true]].concat();
            prop_assert_eq!(lost(&arrivals(&arrived, 2, copies)), first + second);
        }
    }
}
