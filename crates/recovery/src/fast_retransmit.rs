//! The threshold at which gap reports prove a loss (RFC 9260 §7.2.4), and its lower value for thin streams (P10 §5.4).

/// The rule that turns miss indications of one chunk into a fast retransmission.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FastRetransmit {
    /// Required miss indications: 3 by RFC 9260 §7.2.4, 4 in the stack of P06 §3, 1 for a thin stream (P10 §5.4). Zero
    /// counts as 1.
    pub threshold: u8,
    /// Whether a chunk may be fast-retransmitted again after `threshold` further indications, as observed in P06 §3.1;
    /// there is no fast recovery then. RFC 9260 §7.2.4 rule 5 allows it once.
    pub repeats: bool,
}

impl FastRetransmit {
    /// RFC 9260 §7.2.4.
    pub const RFC9260: Self = Self { threshold: 3, repeats: false };

    /// Returns whether a chunk with `miss_indications` since its last transmission is to be fast-retransmitted now.
    #[must_use]
    pub fn is_lost(self, miss_indications: u8, already_fast_retransmitted: bool) -> bool {
        (self.repeats || !already_fast_retransmitted) && miss_indications >= self.threshold.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_9260_7_2_4_the_third_miss_indication_counts() {
        assert!(!FastRetransmit::RFC9260.is_lost(2, false));
        assert!(FastRetransmit::RFC9260.is_lost(3, false));
    }

    #[test]
    fn rfc_9260_7_2_4_rule_5_a_chunk_is_fast_retransmitted_once() {
        assert!(!FastRetransmit::RFC9260.is_lost(u8::MAX, true));
    }

    #[test]
    fn p06_3_1_every_fourth_report_triggers_again() {
        let lksctp = FastRetransmit { threshold: 4, repeats: true };
        assert!(!lksctp.is_lost(3, false));
        assert!(lksctp.is_lost(4, false));
        assert!(lksctp.is_lost(4, true));
    }

    #[test]
    fn p10_5_4_a_thin_stream_acts_on_the_first_indication() {
        let thin = FastRetransmit { threshold: 1, repeats: false };
        assert!(thin.is_lost(1, false));
        assert!(!thin.is_lost(0, false));
    }

    #[test]
    fn a_threshold_of_zero_still_needs_an_indication() {
        let zero = FastRetransmit { threshold: 0, repeats: true };
        assert!(!zero.is_lost(0, false));
        assert!(zero.is_lost(1, true));
    }
}
