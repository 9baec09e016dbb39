//! Packets that were lost, or merely overtaken by a copy of their data.
//!
//! If a copy arrives, the sender has to presume that the original was lost. The peer reports a duplicate when the
//! original arrives later. Without that report, overtaken packets would count as losses, losses would cause copies, and
//! each copy could overtake its original: a path that reorders would have copies of everything for ever.
//!
//! - A presumption is refuted when the peer has reported as many duplicates as there were further transmissions: then
//!   all of them arrived. If one was lost, or the report, the presumption stays.
//! - On a path without recent reordering a presumed loss counts at once. If it is refuted, it is taken back.
//! - On one with reordering it counts if it is not refuted within twice the time after which a missing packet is lost
//!   ([`Tolerance::lost_at`](crate::reordering::Tolerance::lost_at)). Even the first of such losses would cause copies
//!   for the time until its refutation.
//!
//! A peer that reports duplicates that it did not receive only hides its own losses. The memory is 64 packets.

use std::collections::VecDeque;

use festina_units::{Duration, Instant};

/// Presumed losses that are remembered; of more, the latest. A thin stream has fewer packets in two round trips.
const REMEMBERED: usize = 64;

/// A packet whose data arrived in a copy, as far as is known.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PresumedLoss {
    /// A number that rises by one from packet to packet.
    pub number: u64,
    /// When its data was last sent.
    pub sent: Instant,
    /// Transmissions of its data that neither the acknowledgement nor a reported duplicate accounts for.
    pub unreported: u8,
    /// All copies left with newer data, so only a packet sent later can have brought the first.
    pub is_piggybacked: bool,
}

/// A presumed loss that was none.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Refuted {
    /// As it was presumed.
    pub loss: PresumedLoss,
    /// It has counted as a loss, and is to be taken back.
    pub counted: bool,
}

/// The presumed losses of one path.
#[derive(Clone, Debug, Default)]
pub struct PresumedLosses {
    presumed: VecDeque<Presumed>,
}

#[derive(Copy, Clone, Debug)]
struct Presumed {
    loss: PresumedLoss,
    counts_at: Instant,
    counted: bool,
}

impl PresumedLosses {
    /// Records a presumed loss. `patience` is the time after which a missing packet is lost; `None` if the path does not
    /// reorder.
    pub fn presume(&mut self, now: Instant, loss: PresumedLoss, patience: Option<Duration>) {
        if self.presumed.len() == REMEMBERED {
            self.presumed.pop_front();
        }
        let counts_at = patience.map_or(now, |patience| loss.sent + patience.saturating_mul(2));
        self.presumed.push_back(Presumed { loss, counts_at, counted: false });
    }

    /// Returns the number of the next packet that counts as lost from `now` on; `None` if there is no further one.
    pub fn next_lost(&mut self, now: Instant) -> Option<u64> {
        let lost = self.presumed.iter_mut().find(|presumed| !presumed.counted && presumed.counts_at <= now)?;
        lost.counted = true;
        Some(lost.loss.number)
    }

    /// Records that the peer has reported a duplicate of this packet's data. Returns the presumed loss if that refutes it.
    pub fn duplicate_reported(&mut self, number: u64) -> Option<Refuted> {
        let index = self.presumed.iter().rposition(|presumed| presumed.loss.number == number)?;
        let presumed = self.presumed.get_mut(index)?;
        presumed.loss.unreported = presumed.loss.unreported.saturating_sub(1);
        if presumed.loss.unreported > 0 {
            return None;
        }
        self.presumed.remove(index).map(|Presumed { loss, counted, .. }| Refuted { loss, counted })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::redundancy::{CopyScheduler, Redundancy, StreamShape};

    const PATIENCE: Option<Duration> = Some(Duration::from_millis(130));

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn loss(number: u64, unreported: u8) -> PresumedLoss {
        PresumedLoss { number, sent: at(10 * number), unreported, is_piggybacked: true }
    }

    #[test]
    fn a_loss_counts_at_once_and_is_taken_back_when_all_transmissions_are_known_to_have_arrived() {
        let mut losses = PresumedLosses::default();
        losses.presume(at(100), loss(1, 2), None);
        assert_eq!((losses.next_lost(at(100)), losses.next_lost(at(100))), (Some(1), None));
        assert_eq!(losses.duplicate_reported(1), None, "the original or the second copy was lost");
        assert_eq!(losses.duplicate_reported(2), None);
        assert_eq!(losses.duplicate_reported(1), Some(Refuted { loss: loss(1, 0), counted: true }));
        assert_eq!(losses.duplicate_reported(1), None);
    }

    #[test]
    fn where_packets_are_reordered_a_loss_counts_when_its_refutation_is_long_overdue() {
        let mut losses = PresumedLosses::default();
        (1..=2).for_each(|number| losses.presume(at(100), loss(number, 1), PATIENCE));
        assert_eq!(losses.next_lost(at(269)), None);
        assert_eq!(losses.duplicate_reported(2), Some(Refuted { loss: loss(2, 0), counted: false }));
        assert_eq!((losses.next_lost(at(270)), losses.next_lost(at(1_000))), (Some(1), None));
    }

    /// A stream of three thousand messages, one every 10 ms, over a round trip of 100 ms and `jitter_ms` of jitter. A few early ones
    /// are lost, and one in `lost_one_in` later. The copies that the scheduler asks for leave with the next messages. Returns
    /// the number of copies of the last thousand messages.
    fn copies_in_the_end(jitter_ms: u64, lost_one_in: Option<u64>, mut random: impl FnMut() -> u64) -> u64 {
        const MESSAGES: u64 = 3_000;
        const STREAM: StreamShape = StreamShape { bursts_per_rtt: 10, chunk_bytes: 116 };
        let (mut scheduler, mut losses) = (CopyScheduler::new(Redundancy::ADAPTIVE_COPIES), PresumedLosses::default());
        // When a duplicate of a message is reported.
        let (mut reports, mut copied, mut is_reordered) = (Vec::<(u64, u64)>::new(), 0, false);
        for number in 1..=MESSAGES {
            let now_ms = 10 * number;
            while let Some(number) = reports.pop_if(|report| report.0 <= now_ms).map(|report| report.1) {
                let Some(refuted) = losses.duplicate_reported(number) else { continue };
                if refuted.counted {
                    scheduler.was_late(number);
                } else {
                    scheduler.arrived(1);
                }
                is_reordered = true;
            }
            while let Some(number) = losses.next_lost(at(now_ms)) {
                scheduler.lost(at(now_ms), None);
                scheduler.lost_packet(number);
            }
            let piggyback = scheduler.protection(at(now_ms), None, STREAM).copies();
            let copies = (1..=3).take_while(|&transmissions| piggyback.allow(number, transmissions)).count() as u64;
            copied += if number > MESSAGES - 1_000 { copies } else { 0 };
            let is_lost =
                (50..=52).contains(&number) || lost_one_in.is_some_and(|one_in| random().is_multiple_of(one_in));
            let mut acked: Vec<u64> =
                (u64::from(is_lost)..=copies).map(|nth| now_ms + 10 * nth + 100 + random() % (jitter_ms + 1)).collect();
            let original = acked.first().copied().filter(|_| !is_lost);
            acked.sort_unstable();
            if original.is_some() && original == acked.first().copied() {
                scheduler.arrived(1);
                continue;
            }
            let loss = PresumedLoss {
                sent: at(now_ms + 10 * copies),
                ..loss(number, u8::try_from(copies.max(1)).expect("at most three"))
            };
            losses.presume(at(now_ms), loss, is_reordered.then_some(Duration::from_millis(100 + jitter_ms)));
            reports.extend(acked.into_iter().skip(1).map(|acked| (acked, number)));
            reports.sort_unstable_by(|left, right| right.cmp(left));
        }
        copied
    }

    proptest! {
        #[test]
        fn jitter_sustains_no_copies_and_losses_do(mut state in any::<u64>(), jitter_ms in 0..80_u64) {
            let mut random = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state >> 33
            };
            let needless = copies_in_the_end(jitter_ms, None, &mut random);
            prop_assert!(needless <= 30, "{needless} copies of a thousand messages");
            let needed = copies_in_the_end(jitter_ms, Some(20), &mut random);
            prop_assert!(needed >= 1_000, "{needed} copies of a thousand messages");
        }
    }
}
