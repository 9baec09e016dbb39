//! Which chunks a SACK reports missing: the Highest TSN Newly Acknowledged rule (RFC 9260 §7.2.4).

/// What a SACK said, as far as miss indications depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// The highest TSN that the SACK acknowledged for the first time, if above its cumulative TSN.
    pub(crate) highest_newly_acked: Option<u64>,
    /// The highest TSN in any of its gap ack blocks.
    pub(crate) highest_reported: Option<u64>,
    /// Whether the Cumulative TSN Ack Point moved.
    pub(crate) cumulative_advanced: bool,
    /// Whether the sender was in fast recovery.
    pub(crate) in_fast_recovery: bool,
}

/// The TSN below which every missing chunk gets a miss indication; `None` if none gets one.
pub(crate) fn missing_below(evidence: Evidence) -> Option<u64> {
    if evidence.in_fast_recovery && evidence.cumulative_advanced {
        evidence.highest_reported
    } else {
        evidence.highest_newly_acked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SACK: Evidence = Evidence {
        highest_newly_acked: Some(7),
        highest_reported: Some(9),
        cumulative_advanced: false,
        in_fast_recovery: false,
    };

    #[test]
    fn only_what_lies_below_the_highest_newly_acked_tsn_counts_section_7_2_4() {
        assert_eq!(missing_below(SACK), Some(7));
        assert_eq!(missing_below(Evidence { cumulative_advanced: true, ..SACK }), Some(7));
    }

    #[test]
    fn a_sack_that_acks_nothing_new_counts_against_nothing_section_7_2_4() {
        assert_eq!(missing_below(Evidence { highest_newly_acked: None, ..SACK }), None);
    }

    #[test]
    fn in_fast_recovery_an_advancing_sack_counts_against_all_missing_section_7_2_4() {
        let partial_ack = Evidence { in_fast_recovery: true, cumulative_advanced: true, ..SACK };
        assert_eq!(missing_below(partial_ack), Some(9));
        assert_eq!(missing_below(Evidence { highest_newly_acked: None, ..partial_ack }), Some(9));
    }

    #[test]
    fn in_fast_recovery_a_sack_that_does_not_advance_follows_the_rule_section_7_2_4() {
        assert_eq!(missing_below(Evidence { in_fast_recovery: true, ..SACK }), Some(7));
    }
}
