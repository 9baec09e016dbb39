//! The effect of a SACK on the running retransmission timer: RFC 9260 §6.3.2 R3, P10 §5.2 and RTO restart (RFC 7765).

use festina_units::{Duration, Instant};

/// The rule for restarting the retransmission timer on a SACK while data stays outstanding.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum TimerRestart {
    /// A SACK that acknowledges the earliest outstanding TSN restarts the full RTO (RFC 9260 §6.3.2
    /// R3).
    EarliestAcked,
    /// A SACK that acknowledges any outstanding chunk restarts the full RTO, as P06 §4.2.1 and P10
    /// §5.2 describe lksctp.
    AnyAcked,
    /// As `AnyAcked`, but the new timer is shorter by the time since the old one was started (P06
    /// §4.2.1, P10 §5.2).
    SinceTimerStart,
    /// RTO restart: as `EarliestAcked`, but with fewer than four packets outstanding or unsent the
    /// new timer is shorter by the age of the earliest outstanding packet (RFC 7765 §4, R15
    /// §3.4.1).
    SinceEarliestSent,
}

/// RFC 7765 §4: number of packets (rrthresh) from which on the full RTO is used, since fast retransmit can work then.
pub const RTO_RESTART_PACKETS: u32 = 4;

/// The inputs of the restart rules after a SACK has been applied and while data is still outstanding.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SackArrival {
    /// Arrival time of the SACK.
    pub now: Instant,
    /// The current retransmission timeout, backoff included.
    pub rto: Duration,
    /// Whether the SACK newly acknowledged the earliest outstanding TSN.
    pub earliest_acked: bool,
    /// Whether the SACK newly acknowledged any chunk.
    pub any_acked: bool,
    /// When the running timer was started or last restarted.
    pub timer_started: Instant,
    /// Time of the last transmission of the chunk that is now the earliest outstanding one.
    pub earliest_sent: Instant,
    /// Packets (or, failing that, chunks) outstanding now.
    pub outstanding: u32,
    /// Packets that were ready to be sent but unsent when the SACK arrived (`prevunsnt` of RFC 7765 §4).
    pub unsent: u32,
}

impl TimerRestart {
    /// Returns when the retransmission timer is to expire after this SACK; `None` leaves it unchanged.
    ///
    /// A restarted timer counts as started at [`SackArrival::now`]. An expiry in the past is due immediately.
    #[must_use]
    pub fn expiry(self, sack: &SackArrival) -> Option<Instant> {
        let full = sack.now + sack.rto;
        match self {
            Self::EarliestAcked => sack.earliest_acked.then_some(full),
            Self::AnyAcked => sack.any_acked.then_some(full),
            Self::SinceTimerStart => sack.any_acked.then(|| (sack.timer_started + sack.rto).max(sack.now).min(full)),
            Self::SinceEarliestSent => sack.earliest_acked.then(|| {
                let early = sack.earliest_sent + sack.rto;
                let few = sack.outstanding.saturating_add(sack.unsent) < RTO_RESTART_PACKETS;
                if few && early > sack.now { early.min(full) } else { full }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// R15 Figure 3, right: three packets at 0, 10 and 20 ms; the SACK of the first two comes at
    /// 110 ms; RTO 1 s.
    const TAIL_LOSS: SackArrival = SackArrival {
        now: Instant::from_millis(110),
        rto: Duration::from_secs(1),
        earliest_acked: true,
        any_acked: true,
        timer_started: Instant::ZERO,
        earliest_sent: Instant::from_millis(20),
        outstanding: 1,
        unsent: 0,
    };

    #[test]
    fn rfc_9260_6_3_2_r3_restarts_the_full_rto_when_the_earliest_tsn_is_acked() {
        assert_eq!(TimerRestart::EarliestAcked.expiry(&TAIL_LOSS), Some(at(1110)));
        let gap_only = SackArrival { earliest_acked: false, ..TAIL_LOSS };
        assert_eq!(TimerRestart::EarliestAcked.expiry(&gap_only), None);
    }

    #[test]
    fn p06_4_2_1_lksctp_restarts_the_full_rto_when_any_chunk_is_acked() {
        let gap_only = SackArrival { earliest_acked: false, ..TAIL_LOSS };
        assert_eq!(TimerRestart::AnyAcked.expiry(&gap_only), Some(at(1110)));
        let nothing = SackArrival { earliest_acked: false, any_acked: false, ..TAIL_LOSS };
        assert_eq!(TimerRestart::AnyAcked.expiry(&nothing), None);
    }

    #[test]
    fn p10_5_2_the_time_since_the_old_timer_was_started_is_subtracted() {
        assert_eq!(TimerRestart::SinceTimerStart.expiry(&TAIL_LOSS), Some(at(1000)));
        let second = SackArrival { now: at(150), timer_started: at(110), ..TAIL_LOSS };
        assert_eq!(TimerRestart::SinceTimerStart.expiry(&second), Some(at(1110)));
    }

    #[test]
    fn p10_5_2_a_timer_that_should_have_expired_is_due_at_once() {
        let shrunk = SackArrival { rto: Duration::from_millis(100), ..TAIL_LOSS };
        assert_eq!(TimerRestart::SinceTimerStart.expiry(&shrunk), Some(at(110)));
    }

    #[test]
    fn rfc_7765_4_the_age_of_the_earliest_outstanding_packet_is_subtracted() {
        assert_eq!(TimerRestart::SinceEarliestSent.expiry(&TAIL_LOSS), Some(at(1020)));
    }

    #[test]
    fn rfc_7765_4_four_packets_outstanding_or_unsent_keep_the_full_rto() {
        let restart = |outstanding, unsent| {
            TimerRestart::SinceEarliestSent.expiry(&SackArrival { outstanding, unsent, ..TAIL_LOSS })
        };
        assert_eq!(restart(3, 0), Some(at(1020)));
        assert_eq!(restart(4, 0), Some(at(1110)));
        assert_eq!(restart(2, 2), Some(at(1110)));
    }

    #[test]
    fn rfc_7765_4_a_packet_older_than_the_rto_gets_the_full_rto() {
        let old = SackArrival { rto: Duration::from_millis(90), ..TAIL_LOSS };
        assert_eq!(TimerRestart::SinceEarliestSent.expiry(&old), Some(at(200)));
    }

    proptest! {
        #[test]
        fn no_rule_waits_longer_than_the_full_rto_or_fires_in_the_past(
            now in any::<u64>(),
            rto in any::<u64>(),
            started in any::<u64>(),
            sent in any::<u64>(),
            outstanding in any::<u32>(),
        ) {
            let sack = SackArrival {
                now: Instant::from_nanos(now),
                rto: Duration::from_nanos(rto),
                earliest_acked: true,
                any_acked: true,
                timer_started: Instant::from_nanos(started),
                earliest_sent: Instant::from_nanos(sent),
                outstanding,
                unsent: 0,
            };
            for rule in [
                TimerRestart::AnyAcked,
                TimerRestart::SinceTimerStart,
                TimerRestart::SinceEarliestSent,
            ] {
                let expiry = rule.expiry(&sack).expect("the SACK acknowledged something");
                prop_assert!(expiry >= sack.now && expiry <= sack.now + sack.rto);
            }
        }
    }
}
