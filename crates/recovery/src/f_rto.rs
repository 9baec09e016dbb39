//! F-RTO for SCTP (RFC 4138), in its form for selective acknowledgements (§3): detects spurious retransmission
//! timeouts.
//!
//! After a timeout a sender retransmits everything outstanding, and every following acknowledgement appears to answer
//! that. F-RTO retransmits only one packet, then sends *new* data, and watches the older chunks that were sent once. If
//! one of them is acknowledged next, it was in transit all the time, and the timeout was spurious.
//!
//! 1. T3-rtx expires: retransmit one packet according to RFC 9260 §6.3.3, and call [`FRto::timed_out`]. As long as
//!    [`FRto::is_undecided`], retransmit nothing more.
//! 2. For each SACK, act on the result of [`FRto::acked`].
//!
//! | result | action of the sender |
//! |---|---|
//! | [`FRtoStep::Wait`] | nothing |
//! | [`FRtoStep::SendNewData`] | sends up to two packets of new data |
//! | [`FRtoStep::Spurious`] | considers no chunk lost because of the timeout, undoes the cut ([`crate::undo::CutHistory::timeout_was_spurious`]) and the backoff, sends new data |
//! | [`FRtoStep::Genuine`] | continues with RFC 9260 §6.3.3 and §7.2.1: the marked chunks as cwnd allows |
//! | [`FRtoStep::Undecided`] | the same, for lack of proof |
//!
//! SCTP differs from TCP in two ways. A packet carries several chunks, so the evidence is taken from chunks that were
//! in *no* retransmission; and a retransmission may go to another address of the peer (§5), after which the order of
//! arrival proves nothing.

/// The inputs of F-RTO when the retransmission timer has expired.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// The highest TSN sent so far ("recover").
    pub highest_sent: u64,
    /// The highest TSN in the packet that is retransmitted now.
    pub highest_retransmitted: u64,
    /// Whether chunks are outstanding that the packet does not carry; without any no proof is possible.
    pub others_outstanding: bool,
    /// Whether the recovery from an earlier timeout is still in progress.
    pub in_timeout_recovery: bool,
    /// Whether the packet takes the same path as the chunks before.
    pub same_path: bool,
}

/// The contents of a SACK, after it was applied.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FRtoAck {
    /// The cumulative TSN ack.
    pub cumulative: u64,
    /// Whether the cumulative TSN ack advanced.
    pub advanced: bool,
    /// Whether it acknowledged, for the first time, a chunk that was sent once, before the timeout.
    pub acked_sent_once: bool,
    /// Whether it acknowledged a chunk that was first sent after the timeout.
    pub acked_new: bool,
    /// Whether there is new data that fits the peer's window.
    pub new_data_sendable: bool,
}

/// The action after a SACK.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum FRtoStep {
    /// Nothing is known yet, or F-RTO is not active.
    Wait,
    /// The retransmission was acknowledged; new data is to provide the proof.
    SendNewData,
    /// The timeout was spurious.
    Spurious,
    /// The timeout was genuine.
    Genuine,
    /// There is no proof for either.
    Undecided,
}

/// The steps of RFC 4138 §3.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct FRto {
    state: State,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// Step 2: waiting for the acknowledgement of the retransmission.
    Retransmitted { highest_sent: u64, highest_retransmitted: u64 },
    /// Step 3: new data was sent, the next acknowledgement decides.
    NewDataSent { highest_sent: u64 },
}

impl FRto {
    /// Creates the state without a timeout.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether the sender must hold back further retransmissions.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        self.state != State::Idle
    }

    /// Records the expiry of the retransmission timer (step 1). Returns whether F-RTO is active: not for a timeout
    /// during the recovery from another one, not across paths, and not if the retransmitted packet carries everything
    /// outstanding.
    pub fn timed_out(&mut self, timeout: &Timeout) -> bool {
        let applies = timeout.others_outstanding && timeout.same_path && !timeout.in_timeout_recovery;
        let (highest_sent, highest_retransmitted) = (timeout.highest_sent, timeout.highest_retransmitted);
        self.state = if applies { State::Retransmitted { highest_sent, highest_retransmitted } } else { State::Idle };
        applies
    }

    /// Processes an applied SACK (steps 2 and 3).
    pub fn acked(&mut self, ack: &FRtoAck) -> FRtoStep {
        let step = match self.state {
            State::Idle => return FRtoStep::Wait,
            State::Retransmitted { highest_sent, highest_retransmitted } => {
                if !ack.advanced {
                    return FRtoStep::Wait;
                }
                let proves_nothing = ack.cumulative >= highest_sent || ack.cumulative < highest_retransmitted;
                if !proves_nothing && ack.new_data_sendable {
                    self.state = State::NewDataSent { highest_sent };
                    return FRtoStep::SendNewData;
                }
                FRtoStep::Undecided
            }
            State::NewDataSent { highest_sent } => {
                if ack.acked_new || ack.cumulative > highest_sent {
                    FRtoStep::Genuine
                } else if ack.acked_sent_once {
                    FRtoStep::Spurious
                } else {
                    return FRtoStep::Wait;
                }
            }
        };
        self.state = State::Idle;
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// TSNs 1 to 6 are outstanding; 1 and 2 are retransmitted in one packet.
    const TIMEOUT: Timeout = Timeout {
        highest_sent: 6,
        highest_retransmitted: 2,
        others_outstanding: true,
        in_timeout_recovery: false,
        same_path: true,
    };

    const ACK: FRtoAck =
        FRtoAck { cumulative: 2, advanced: true, acked_sent_once: false, acked_new: false, new_data_sendable: true };

    fn timed_out() -> FRto {
        let mut f_rto = FRto::new();
        assert!(f_rto.timed_out(&TIMEOUT));
        f_rto
    }

    /// The retransmission was acknowledged and new data sent.
    fn new_data_sent() -> FRto {
        let mut f_rto = timed_out();
        assert_eq!(f_rto.acked(&ACK), FRtoStep::SendNewData);
        f_rto
    }

    #[test]
    fn rfc_4138_3_older_chunks_that_were_sent_once_and_are_acknowledged_next_prove_a_spurious_timeout() {
        let mut f_rto = new_data_sent();
        assert!(f_rto.is_undecided());
        let original = FRtoAck { cumulative: 3, acked_sent_once: true, ..ACK };
        assert_eq!(f_rto.acked(&original), FRtoStep::Spurious);
        assert!(!f_rto.is_undecided());
        assert_eq!(f_rto.acked(&original), FRtoStep::Wait, "said once");
    }

    #[test]
    fn rfc_4138_3_new_data_that_is_acknowledged_before_the_older_chunks_proves_a_genuine_timeout() {
        let gap = FRtoAck { advanced: false, acked_new: true, ..ACK };
        assert_eq!(new_data_sent().acked(&gap), FRtoStep::Genuine);
        let both = FRtoAck { acked_sent_once: true, acked_new: true, ..ACK };
        assert_eq!(new_data_sent().acked(&both), FRtoStep::Genuine);
    }

    #[test]
    fn rfc_4138_3_an_acknowledgement_of_everything_proves_nothing() {
        assert_eq!(timed_out().acked(&FRtoAck { cumulative: 6, ..ACK }), FRtoStep::Undecided);
    }

    #[test]
    fn rfc_4138_3_without_new_data_there_is_no_proof() {
        assert_eq!(timed_out().acked(&FRtoAck { new_data_sendable: false, ..ACK }), FRtoStep::Undecided);
    }

    #[test]
    fn rfc_4138_5_a_part_of_the_retransmitted_packet_is_not_enough() {
        assert_eq!(timed_out().acked(&FRtoAck { cumulative: 1, ..ACK }), FRtoStep::Undecided);
    }

    #[test]
    fn rfc_4138_3_sacks_that_do_not_advance_are_waited_out() {
        let mut f_rto = timed_out();
        let gap = FRtoAck { cumulative: 0, advanced: false, acked_sent_once: true, ..ACK };
        assert_eq!(f_rto.acked(&gap), FRtoStep::Wait);
        assert_eq!(f_rto.acked(&ACK), FRtoStep::SendNewData);
        assert_eq!(f_rto.acked(&FRtoAck { advanced: false, ..ACK }), FRtoStep::Wait);
        assert!(f_rto.is_undecided());
    }

    #[test]
    fn rfc_4138_5_another_path_a_recovery_under_way_or_a_packet_with_everything_rule_it_out() {
        for timeout in [
            Timeout { same_path: false, ..TIMEOUT },
            Timeout { in_timeout_recovery: true, ..TIMEOUT },
            Timeout { others_outstanding: false, ..TIMEOUT },
        ] {
            let mut f_rto = timed_out();
            assert!(!f_rto.timed_out(&timeout), "{timeout:?}");
            assert!(!f_rto.is_undecided());
            assert_eq!(f_rto.acked(&ACK), FRtoStep::Wait);
        }
    }

    proptest! {
        #[test]
        fn a_spurious_verdict_always_follows_an_acknowledged_retransmission_and_an_original(
            acks in prop::collection::vec((0..9_u64, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()), 1..12),
        ) {
            let mut f_rto = timed_out();
            let mut sent_new = false;
            for (cumulative, advanced, acked_sent_once, acked_new, new_data_sendable) in acks {
                let ack = FRtoAck { cumulative, advanced, acked_sent_once, acked_new, new_data_sendable };
                match f_rto.acked(&ack) {
                    FRtoStep::SendNewData => {
                        prop_assert!(!sent_new && (2..6).contains(&cumulative));
                        sent_new = true;
                    }
                    FRtoStep::Spurious => prop_assert!(sent_new && acked_sent_once && !acked_new),
                    FRtoStep::Genuine => prop_assert!(sent_new),
                    FRtoStep::Undecided => prop_assert!(!sent_new),
                    FRtoStep::Wait => {}
                }
            }
        }
    }
}
