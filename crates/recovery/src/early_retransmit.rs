//! Early retransmit (RFC 5827): a lower threshold of duplicate acknowledgements when too little is in flight for three
//! of them.

/// Number of outstanding segments from which on three duplicate acknowledgements are possible, so that the threshold is
/// unchanged (RFC 5827 §3.1).
pub const EARLY_RETRANSMIT_SEGMENTS: u32 = 4;

/// Returns the duplicate-acknowledgement threshold for a sender with `outstanding` segments in flight (RFC 5827 §3.2,
/// segment-based).
///
/// `sendable` is true if new data could be sent (limited transmit, RFC 3042), which would cause further duplicates; the
/// threshold is then `usual`, as it is with four or more segments or with one, for which no duplicate can arrive.
#[must_use]
pub fn threshold(outstanding: u32, sendable: bool, usual: u32) -> u32 {
    if sendable || !(2..EARLY_RETRANSMIT_SEGMENTS).contains(&outstanding) {
        usual
    } else {
        (outstanding - 1).min(usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rfc_5827_3_2_two_and_three_segments_need_one_and_two_duplicates() {
        assert_eq!(threshold(2, false, 3), 1);
        assert_eq!(threshold(3, false, 3), 2);
    }

    #[test]
    fn rfc_5827_3_2_four_segments_need_three_duplicates() {
        assert_eq!(threshold(4, false, 3), 3);
        assert_eq!(threshold(1, false, 3), 3);
    }

    #[test]
    fn rfc_5827_3_1_sendable_new_data_keeps_the_usual_threshold() {
        assert_eq!(threshold(2, true, 3), 3);
        assert_eq!(threshold(3, true, 3), 3);
    }

    proptest! {
        #[test]
        fn the_threshold_never_rises_nor_vanishes(
            outstanding in any::<u32>(),
            sendable in any::<bool>(),
            usual in 1..=u32::MAX,
        ) {
            let threshold = threshold(outstanding, sendable, usual);
            prop_assert!(threshold >= 1 && threshold <= usual);
        }
    }
}
