//! How few duplicate acknowledgements prove a loss when there is too little in flight for three of
//! them: early retransmit (RFC 5827).

/// Segments outstanding from which on three duplicate acknowledgements can come, so that the
/// threshold stays (RFC 5827 §3.1).
pub const EARLY_RETRANSMIT_SEGMENTS: u32 = 4;

/// The duplicate-acknowledgement threshold for a sender with `outstanding` segments in flight
/// (RFC 5827 §3.2, segment-based).
///
/// `sendable` says that new data could be sent (limited transmit, RFC 3042), which would bring
/// further duplicates; the threshold is `usual` then, and also with four or more segments or with
/// one, for which no duplicate can ever come.
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
    fn rfc_5827_3_1_new_data_that_can_be_sent_keeps_the_usual_threshold() {
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
