//! New data for the first duplicate acknowledgements, so that enough of them come for a fast
//! retransmission: limited transmit (RFC 3042).
//!
//! For a sender whose flight size counts segments until they are cumulatively acknowledged, as
//! TCP's without SACK does. An SCTP sender has it built in: a chunk in a gap ack block is not
//! outstanding any more (RFC 9260 §6.2.1), so that each such report makes room for as much new data.

/// How far, in segments, the flight may exceed cwnd (RFC 3042 §2).
pub const EXCESS_SEGMENTS_MAX: u32 = 2;

/// A sender that has received a duplicate acknowledgement.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// Duplicate acknowledgements in a row, this one included.
    pub duplicates: u32,
    /// The number of them that starts a fast retransmission.
    pub threshold: u32,
    /// With SACK: it reports something that was not known (RFC 3042 §2); without SACK: true.
    pub has_news: bool,
    /// Bytes sent and not cumulatively acknowledged.
    pub in_flight_bytes: u64,
    /// Congestion window, which limited transmit leaves alone.
    pub cwnd_bytes: u64,
    /// The peer's window beyond what is in flight.
    pub window_left_bytes: u64,
    /// The segment size.
    pub segment_bytes: u32,
}

/// Whether one segment of new data may leave although cwnd does not allow it (RFC 3042 §2).
#[must_use]
pub fn may_send(ack: &Duplicate) -> bool {
    let segment_bytes = u64::from(ack.segment_bytes);
    let limit_bytes = ack.cwnd_bytes.saturating_add(segment_bytes * u64::from(EXCESS_SEGMENTS_MAX));
    (1..ack.threshold).contains(&ack.duplicates)
        && ack.has_news
        && ack.window_left_bytes >= segment_bytes
        && ack.in_flight_bytes.saturating_add(segment_bytes) <= limit_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four full segments in flight, which fill cwnd; the first of them was lost.
    const FIRST: Duplicate = Duplicate {
        duplicates: 1,
        threshold: 3,
        has_news: true,
        in_flight_bytes: 4_000,
        cwnd_bytes: 4_000,
        window_left_bytes: 60_000,
        segment_bytes: 1_000,
    };

    #[test]
    fn rfc_3042_2_the_first_two_duplicates_release_one_new_segment_each() {
        assert!(may_send(&FIRST));
        assert!(may_send(&Duplicate { duplicates: 2, in_flight_bytes: 5_000, ..FIRST }));
        assert!(!may_send(&Duplicate { duplicates: 3, ..FIRST }), "the third starts a fast retransmission");
        assert!(!may_send(&Duplicate { duplicates: 0, ..FIRST }));
    }

    #[test]
    fn rfc_3042_2_the_flight_exceeds_the_window_by_two_segments_at_most() {
        assert!(!may_send(&Duplicate { duplicates: 2, in_flight_bytes: 5_001, ..FIRST }));
    }

    #[test]
    fn rfc_3042_2_the_peers_window_must_have_room() {
        assert!(!may_send(&Duplicate { window_left_bytes: 999, ..FIRST }));
    }

    #[test]
    fn rfc_3042_2_a_duplicate_that_reports_nothing_new_does_not_count() {
        assert!(!may_send(&Duplicate { has_news: false, ..FIRST }));
    }

    #[test]
    fn absurd_sizes_do_not_overflow() {
        let huge = Duplicate { in_flight_bytes: u64::MAX, segment_bytes: u32::MAX, cwnd_bytes: u64::MAX, ..FIRST };
        assert!(may_send(&Duplicate { window_left_bytes: u64::MAX, ..huge }));
    }
}
