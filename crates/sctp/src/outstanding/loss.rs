//! Which chunks a SACK reports missing: the Highest TSN Newly Acknowledged rule (RFC 9260 §7.2.4).

use festina_units::Instant;

/// The parts of a SACK that miss indications depend on.
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

/// Returns whether a SACK can speak about the last transmission of a missing chunk: not if that left at `sent_at` as a copy, and nothing that
/// left later (`newest_acked`: at the latest) was acknowledged. Festina's own; RFC 9260 has no such test, as it makes no copies ahead
/// of a timeout.
pub(crate) fn is_overtaken(is_copy: bool, sent_at: Instant, newest_acked: Option<Instant>) -> bool {
    !is_copy || newest_acked.is_some_and(|newest| sent_at < newest)
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

    #[test]
    fn a_copy_is_missing_only_once_something_sent_after_it_has_arrived() {
        let at = Instant::from_millis;
        assert!(is_overtaken(false, at(5), None), "a first transmission is judged by its TSN alone");
        assert!(!is_overtaken(true, at(5), None));
        assert!(!is_overtaken(true, at(5), Some(at(5))));
        assert!(is_overtaken(true, at(5), Some(at(6))));
    }
}
