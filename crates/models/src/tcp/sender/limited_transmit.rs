//! New data for the first duplicate acknowledgements, so that enough of them come for a fast
//! retransmission: limited transmit (RFC 3042).
//!
//! For a sender whose flight size counts segments until they are cumulatively acknowledged, as
//! TCP's does before recovery. An SCTP sender has it built in: a chunk in a gap ack block is not
//! outstanding any more (RFC 9260 §6.2.1), so that each such report makes room for as much new data.

/// How far, in segments, the flight may exceed cwnd (RFC 3042 §2).
const EXCESS_SEGMENTS_MAX: u32 = 2;

/// Returns by how many segments the flight may exceed cwnd now, for new data only (RFC 3042 §2): one for each of the
/// first two duplicate acknowledgements, after `duplicates` consecutive ones. One that starts a fast retransmission,
/// the `threshold`th, allows no more than those before it. With SACK, only acknowledgements that report something new
/// count.
pub(super) fn excess_segments(duplicates: u32, threshold: u32) -> u32 {
    duplicates.min(EXCESS_SEGMENTS_MAX).min(threshold.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_3042_2_the_first_two_duplicates_release_one_new_segment_each() {
        let allowed: Vec<u32> = (0..6).map(|duplicates| excess_segments(duplicates, 3)).collect();
        assert_eq!(allowed, [0, 1, 2, 2, 2, 2]);
    }

    #[test]
    fn a_duplicate_that_starts_a_fast_retransmission_releases_nothing() {
        assert_eq!(excess_segments(1, 1), 0, "early retransmit with two segments in flight");
        assert_eq!(excess_segments(2, 2), 1);
        assert_eq!(excess_segments(1, 0), 0);
    }
}
