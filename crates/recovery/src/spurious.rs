//! Detection of spurious retransmissions from duplicate reports and timing (in the manner of RFC 3708 and of Eifel
//! detection, RFC 3522).

use festina_units::{Duration, Instant};

/// The evidence about a retransmitted chunk when its acknowledgement has arrived.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Transmissions of the chunk, the first included.
    pub transmissions: u32,
    /// When it was last sent.
    pub last_sent: Instant,
    /// When it was acknowledged, cumulatively or in a gap ack block.
    pub acked: Instant,
    /// The smallest round-trip time measured, if any.
    pub rtt_min: Option<Duration>,
    /// Whether a SACK up to and including the acknowledging one reported the TSN as a duplicate (RFC 9260 §3.3.4).
    pub duplicate_reported: bool,
}

/// The verdict on the last retransmission of a chunk.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The chunk was sent once. A duplicate report then means that the network duplicated it.
    NotRetransmitted,
    /// There is no evidence against the retransmission.
    Needed,
    /// The acknowledgement followed the retransmission sooner than any round trip: it answers an earlier transmission,
    /// and waiting a little longer would have avoided the retransmission. A chunk sent twice then gives an unambiguous
    /// RTT sample, from its first transmission, despite Karn's rule.
    TooEarly,
    /// The receiver already had the chunk but this became known only after the retransmission: its earlier SACK was
    /// lost, or was undetectably late. A sender cannot avoid this.
    AckLost,
}

impl Verdict {
    /// Returns whether the retransmission delivered nothing new to the receiver.
    #[must_use]
    pub fn is_spurious(self) -> bool {
        matches!(self, Self::TooEarly | Self::AckLost)
    }
}

/// Returns whether an acknowledgement received at `acked` answers an earlier transmission than the last one, at
/// `last_sent`: it came sooner than any round trip. On real paths an answer may be a little quicker than any before it,
/// so only a sixteenth sooner is a proof.
#[must_use]
pub fn answers_earlier(acked: Instant, last_sent: Instant, rtt_min: Option<Duration>) -> bool {
    rtt_min.is_some_and(|rtt_min| acked.saturating_duration_since(last_sent) < rtt_min - rtt_min / 16)
}

/// Judges the last retransmission of an acknowledged chunk.
#[must_use]
pub fn judge(evidence: &Evidence) -> Verdict {
    if evidence.transmissions < 2 {
        Verdict::NotRetransmitted
    } else if answers_earlier(evidence.acked, evidence.last_sent, evidence.rtt_min) {
        Verdict::TooEarly
    } else if evidence.duplicate_reported {
        Verdict::AckLost
    } else {
        Verdict::Needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sent at 0, probed at 105 ms, acknowledged one round trip of 100 ms later.
    const REPAIRED: Evidence = Evidence {
        transmissions: 2,
        last_sent: Instant::from_millis(105),
        acked: Instant::from_millis(205),
        rtt_min: Some(Duration::from_millis(100)),
        duplicate_reported: false,
    };

    #[test]
    fn an_acknowledgement_one_round_trip_after_the_retransmission_means_it_was_needed() {
        assert_eq!(judge(&REPAIRED), Verdict::Needed);
        assert!(!judge(&REPAIRED).is_spurious());
    }

    #[test]
    fn a_duplicate_report_one_round_trip_later_means_that_the_first_sack_was_lost() {
        assert_eq!(judge(&Evidence { duplicate_reported: true, ..REPAIRED }), Verdict::AckLost);
    }

    #[test]
    fn an_acknowledgement_within_the_smallest_round_trip_time_answers_the_original() {
        let late_sack = Evidence { acked: Instant::from_millis(130), ..REPAIRED };
        assert_eq!(judge(&late_sack), Verdict::TooEarly);
        assert_eq!(judge(&Evidence { duplicate_reported: true, ..late_sack }), Verdict::TooEarly);
    }

    #[test]
    fn an_answer_a_sixteenth_sooner_than_any_round_trip_answers_an_earlier_transmission() {
        let at = Instant::from_micros;
        let rtt_min = Some(Duration::from_millis(100));
        assert!(answers_earlier(at(193_749), at(100_000), rtt_min));
        assert!(!answers_earlier(at(193_750), at(100_000), rtt_min), "as quick as answers may be");
        assert!(!answers_earlier(at(100_001), at(100_000), None), "nothing to compare it with");
    }

    #[test]
    fn a_chunk_sent_once_was_not_retransmitted_even_if_the_network_duplicated_it() {
        let once = Evidence { transmissions: 1, duplicate_reported: true, ..REPAIRED };
        assert_eq!(judge(&once), Verdict::NotRetransmitted);
    }

    #[test]
    fn without_a_round_trip_time_only_the_duplicate_report_counts() {
        let unmeasured = Evidence { rtt_min: None, acked: Instant::from_millis(106), ..REPAIRED };
        assert_eq!(judge(&unmeasured), Verdict::Needed);
        assert_eq!(judge(&Evidence { duplicate_reported: true, ..unmeasured }), Verdict::AckLost);
    }

    proptest! {
        #[test]
        fn any_times_give_a_verdict(
            sent in any::<u64>(),
            acked in any::<u64>(),
            rtt in any::<u64>(),
            transmissions in 2..=u32::MAX,
        ) {
            let verdict = judge(&Evidence {
                transmissions,
                last_sent: Instant::from_nanos(sent),
                acked: Instant::from_nanos(acked),
                rtt_min: Some(Duration::from_nanos(rtt)), duplicate_reported: true,
            });
            prop_assert!(verdict.is_spurious());
        }
    }
}
