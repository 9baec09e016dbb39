//! What became of originals and copies: round trips that Karn's rule would throw away, and losses
//! that the copies hide.
//!
//! When every message is sent twice, no acknowledgement is unambiguous by Karn's rule, the sender
//! measures nothing and misses every queue that builds up. But a receiver reports duplicate TSNs,
//! and that settles it:
//! - acknowledged sooner after the copy than any round trip: the original arrived;
//! - a duplicate is reported: both arrived, and since the original left first, the first
//!   acknowledgement was its;
//! - neither: only one of them arrived. The original is taken for lost, which errs to the safe side
//!   when in truth the copy was, or the SACK with the report.

use festina_units::{Duration, Instant};

/// Messages that are remembered: those of two round trips of the densest thin stream.
const MESSAGES_MAX: usize = 16;

/// What the fate of a pair tells.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PairNews {
    /// The original arrived, and its round trip took this long: a sample as good as any.
    OriginalArrived {
        /// From the first transmission to its acknowledgement.
        rtt: Duration,
    },
    /// The original was lost, unseen by the receiver: to be counted as a loss, and told to
    /// congestion control.
    OriginalLost,
}

/// The pairs whose fate is not settled, at most 16; more push out the oldest.
#[derive(Clone, Debug, Default)]
pub struct CopyLog {
    pairs: [Option<Pair>; MESSAGES_MAX],
    next: usize,
}

#[derive(Copy, Clone, Debug)]
struct Pair {
    sequence: u64,
    original_sent: Instant,
    copy_sent: Instant,
    acked: Option<Instant>,
}

impl CopyLog {
    /// A log without pairs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The only copy of a message left.
    pub fn copied(&mut self, sequence: u64, original_sent: Instant, copy_sent: Instant) {
        if let Some(slot) = self.pairs.get_mut(self.next) {
            *slot = Some(Pair { sequence, original_sent, copy_sent, acked: None });
        }
        self.next = (self.next + 1) % MESSAGES_MAX;
    }

    /// The message was sent a third time: nothing can be told of the pair any more.
    pub fn sent_again(&mut self, sequence: u64) {
        self.take(sequence);
    }

    /// The message was acknowledged for the first time, at `now`.
    pub fn acked(&mut self, now: Instant, sequence: u64, rtt_min: Option<Duration>) -> Option<PairNews> {
        let slot = self.slot(sequence)?;
        let pair = slot.as_mut()?;
        let arrived_before = rtt_min.is_some_and(|rtt_min| now.saturating_duration_since(pair.copy_sent) < rtt_min);
        if arrived_before {
            let rtt = now.saturating_duration_since(pair.original_sent);
            *slot = None;
            return Some(PairNews::OriginalArrived { rtt });
        }
        pair.acked.get_or_insert(now);
        None
    }

    /// The peer reports the message as a duplicate, after or with its acknowledgement.
    pub fn duplicate_reported(&mut self, now: Instant, sequence: u64) -> Option<PairNews> {
        let pair = self.take(sequence)?;
        let acked = pair.acked.unwrap_or(now);
        Some(PairNews::OriginalArrived { rtt: acked.saturating_duration_since(pair.original_sent) })
    }

    /// A pair that was acknowledged so long ago that a duplicate report would have come; to be asked
    /// after each acknowledgement, until there is none.
    ///
    /// The report is one spacing behind the acknowledgement; half a round trip is allowed on top.
    pub fn settled(&mut self, now: Instant, srtt: Duration) -> Option<PairNews> {
        let is_settled = |pair: &Pair| {
            let patience = pair.copy_sent.saturating_duration_since(pair.original_sent).saturating_add(srtt / 2);
            pair.acked.is_some_and(|acked| now.saturating_duration_since(acked) > patience)
        };
        let slot = self.pairs.iter_mut().find(|slot| slot.as_ref().is_some_and(is_settled))?;
        *slot = None;
        Some(PairNews::OriginalLost)
    }

    fn slot(&mut self, sequence: u64) -> Option<&mut Option<Pair>> {
        self.pairs.iter_mut().find(|slot| slot.is_some_and(|pair| pair.sequence == sequence))
    }

    fn take(&mut self, sequence: u64) -> Option<Pair> {
        self.slot(sequence)?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Message 7 left at 0, its copy at 10 ms.
    fn log() -> CopyLog {
        let mut log = CopyLog::new();
        log.copied(7, at(0), at(10));
        log
    }

    fn arrived_after(millis: u64) -> Option<PairNews> {
        Some(PairNews::OriginalArrived { rtt: Duration::from_millis(millis) })
    }

    #[test]
    fn an_acknowledgement_too_soon_for_the_copy_measures_the_original() {
        let mut log = log();
        assert_eq!(log.acked(at(100), 7, Some(RTT)), arrived_after(100));
        assert_eq!(log.duplicate_reported(at(110), 7), None, "it is settled");
        assert_eq!(log.settled(at(9_000), RTT), None);
    }

    #[test]
    fn a_duplicate_report_measures_the_original_even_if_a_queue_has_grown() {
        let mut log = log();
        assert_eq!(log.acked(at(140), 7, Some(RTT)), None);
        assert_eq!(log.duplicate_reported(at(150), 7), arrived_after(140));
    }

    #[test]
    fn a_duplicate_that_is_reported_with_the_acknowledgement_measures_as_well() {
        assert_eq!(log().duplicate_reported(at(150), 7), arrived_after(150));
    }

    #[test]
    fn without_a_duplicate_report_the_original_was_lost() {
        let mut log = log();
        assert_eq!(log.acked(at(110), 7, Some(RTT)), None);
        assert_eq!(log.settled(at(170), RTT), None);
        assert_eq!(log.settled(at(171), RTT), Some(PairNews::OriginalLost));
        assert_eq!(log.settled(at(171), RTT), None);
    }

    #[test]
    fn a_pair_that_is_not_acknowledged_stays_open() {
        assert_eq!(log().settled(at(9_000), RTT), None);
    }

    #[test]
    fn after_a_third_transmission_nothing_is_told() {
        let mut log = log();
        log.sent_again(7);
        assert_eq!(log.acked(at(100), 7, Some(RTT)), None);
        assert_eq!(log.duplicate_reported(at(110), 7), None);
    }

    #[test]
    fn the_seventeenth_pair_pushes_out_the_first() {
        let mut log = CopyLog::new();
        (1..=17).for_each(|sequence| log.copied(sequence, at(0), at(10)));
        assert_eq!(log.acked(at(100), 1, Some(RTT)), None);
        assert_eq!(log.acked(at(100), 2, Some(RTT)), arrived_after(100));
    }

    #[test]
    fn of_an_unknown_message_nothing_is_told() {
        assert_eq!(log().acked(at(100), 8, Some(RTT)), None);
        assert_eq!(log().duplicate_reported(at(100), 8), None);
    }
}
