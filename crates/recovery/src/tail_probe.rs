//! The published tail loss probes (tail probes for short) as complete mechanisms: the draft's, the same with RTO
//! restart's logic (TLPR), and that of RFC 8985 §7.
//!
//! They differ from [`crate::probe`], Festina's own. They wait two round trips, send the *last* segment to provoke
//! selective acknowledgements instead of the overdue one, and hand over to the retransmission timer after one or two
//! probes.
//!
//! 1. Whenever new data was sent or the cumulative acknowledgement advanced: [`TlpRule::deadline`] returns the time of
//!    the probe; it replaces the retransmission timer. `None` leaves that timer unchanged.
//! 2. At that time: send what [`content`] returns, regardless of cwnd, report it to [`TailLossProbe::sent`], and
//!    restart the retransmission timer in full.
//! 3. On each acknowledgement: [`TailLossProbe::acked`] returns whether the probe repaired a loss that must be reported
//!    to congestion control.

use festina_units::{Duration, Instant};

use crate::{rto_restart::RTO_RESTART_PACKETS, rtt::CLOCK_GRANULARITY};

/// Number of consecutive probes that the draft allows before the retransmission timer takes over.
const DRAFT_PROBES_MAX: u8 = 2;

/// The published tail probes.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum TlpRule {
    /// draft-dukkipati-tcpm-tcp-loss-probe-01 with the timeout of R15 §3.4.2 Eq. 1.
    Draft,
    /// TLPR (R15 §3.4.2): as `Draft`, but like RTO restart the timer counts from the transmission of
    /// the earliest outstanding segment, not from the acknowledgement that restarts it.
    DraftWithRestart,
    /// RFC 8985 §7.
    Rfc8985,
}

/// The inputs of the timer when data was sent or an acknowledgement was applied.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TlpTerms {
    /// Time of that event.
    pub now: Instant,
    /// The smoothed round-trip time, if any.
    pub srtt: Option<Duration>,
    /// Segments (or packets) outstanding.
    pub outstanding: u32,
    /// Segments that could be sent but were not when the acknowledgement arrived (`prevunsnt` of RFC 7765 §4).
    pub unsent: u32,
    /// When the earliest outstanding segment was last sent.
    pub earliest_sent: Instant,
    /// Whether nothing is considered lost and no gap is known: TCP's Open state.
    pub is_open: bool,
    /// The longest delay of an acknowledgement by the receiver; 200 ms is the recommendation.
    pub ack_delay_max: Duration,
    /// When the retransmission timer would expire.
    pub timeout_at: Instant,
}

impl TlpRule {
    /// Returns when to send a probe, if one may be sent; never after [`TlpTerms::timeout_at`], nor before
    /// [`TlpTerms::now`] unless that is earlier still.
    #[must_use]
    pub fn deadline(self, probe: &TailLossProbe, terms: &TlpTerms) -> Option<Instant> {
        if terms.outstanding == 0 || !terms.is_open || !probe.is_allowed(self) {
            return None;
        }
        let deadline = match self {
            Self::Draft => terms.now + draft_timeout(terms.srtt?, terms.outstanding, terms.ack_delay_max),
            Self::DraftWithRestart => {
                terms.restarted(draft_timeout(terms.srtt?, terms.outstanding, terms.ack_delay_max))
            }
            Self::Rfc8985 => {
                let until_timeout = terms.timeout_at.saturating_duration_since(terms.now);
                terms.now + rfc8985_timeout(terms.srtt, terms.outstanding, terms.ack_delay_max, until_timeout)
            }
        };
        Some(deadline.min(terms.timeout_at))
    }
}

impl TlpTerms {
    /// RFC 7765 §4 for a timer of `timeout`.
    fn restarted(&self, timeout: Duration) -> Instant {
        let full = self.now + timeout;
        let early = self.earliest_sent + timeout;
        let few = self.outstanding.saturating_add(self.unsent) < RTO_RESTART_PACKETS;
        if few && early > self.now { early.min(full) } else { full }
    }
}

/// The contents of a probe.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum ProbeContent {
    /// The next segment of new data.
    NewData,
    /// The outstanding segment with the highest sequence number, again.
    HighestOutstanding,
}

/// Returns the contents of a probe, depending on whether new data is available and fits the peer's window (RFC 8985
/// §7.3, R15 §3.4.2).
#[must_use]
pub fn content(new_data_fits: bool) -> ProbeContent {
    if new_data_fits { ProbeContent::NewData } else { ProbeContent::HighestOutstanding }
}

/// The contents of an acknowledgement that concern the probe.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TlpAck {
    /// The lowest sequence number not cumulatively acknowledged, after this acknowledgement.
    pub earliest_outstanding: u64,
    /// Whether something was acknowledged for the first time.
    pub is_new: bool,
    /// Whether it reports the probe's segment as a duplicate.
    pub probe_duplicated: bool,
    /// Whether it acknowledges nothing new and shows no gap: without duplicate reports, this is the answer to the probe
    /// by a receiver that has everything.
    pub is_plain_duplicate: bool,
}

/// The outcome of a probe (RFC 8985 §7.4).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum TlpVerdict {
    /// No probe is in flight, or this acknowledgement does not determine its outcome.
    Open,
    /// Nothing was lost.
    NothingLost,
    /// The last segment had been lost and the probe replaced it: congestion control must respond, although the loss was
    /// not detected otherwise.
    Repaired,
}

/// The probe in flight and those before it (TLP.end_seq, TLP.is_retrans of RFC 8985 §7.1).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct TailLossProbe {
    in_flight: Option<InFlight>,
    consecutive: u8,
    /// Whether a probe was sent and no round trip has been measured since.
    unmeasured: bool,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct InFlight {
    /// The sequence number after the highest one sent.
    end: u64,
    is_retransmission: bool,
}

impl TailLossProbe {
    /// Creates the state before any probe.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether a probe may be sent: two in a row by the draft; by RFC 8985 §7.3 one at a time, and only with a
    /// round trip measured since the last one.
    #[must_use]
    pub fn is_allowed(&self, rule: TlpRule) -> bool {
        match rule {
            TlpRule::Draft | TlpRule::DraftWithRestart => self.consecutive < DRAFT_PROBES_MAX,
            TlpRule::Rfc8985 => self.in_flight.is_none() && !self.unmeasured,
        }
    }

    /// Records that a probe was sent; `next_sequence` is the sequence number after the highest one sent, including the
    /// probe's.
    pub fn sent(&mut self, content: ProbeContent, next_sequence: u64) {
        let is_retransmission = content == ProbeContent::HighestOutstanding;
        self.in_flight = Some(InFlight { end: next_sequence, is_retransmission });
        self.consecutive = self.consecutive.saturating_add(1);
        self.unmeasured = true;
    }

    /// Records that a round trip was measured.
    pub fn measured(&mut self) {
        self.unmeasured = false;
    }

    /// Abandons the probe: the retransmission timer expired, or another recovery started and now detects losses.
    pub fn abandon(&mut self) {
        self.in_flight = None;
    }

    /// Processes an applied acknowledgement (RFC 8985 §7.4.2).
    pub fn acked(&mut self, ack: &TlpAck) -> TlpVerdict {
        if ack.is_new {
            self.consecutive = 0;
        }
        let Some(probe) = self.in_flight.filter(|probe| ack.earliest_outstanding >= probe.end) else {
            return TlpVerdict::Open;
        };
        let verdict = if !probe.is_retransmission || ack.probe_duplicated {
            TlpVerdict::NothingLost
        } else if ack.earliest_outstanding > probe.end {
            TlpVerdict::Repaired
        } else if ack.is_plain_duplicate {
            TlpVerdict::NothingLost
        } else {
            // The original and the probe are acknowledged alike; the next acknowledgement distinguishes them.
            return TlpVerdict::Open;
        };
        self.in_flight = None;
        verdict
    }
}

/// Returns the probe timeout of the draft as given by R15 §3.4.2 Eq. 1, for `outstanding` segments and the worst-case
/// delayed-acknowledgement timer (200 ms recommended). Never less than [`CLOCK_GRANULARITY`], as [`rfc8985_timeout`].
#[must_use]
pub fn draft_timeout(srtt: Duration, outstanding: u32, delayed_ack_max: Duration) -> Duration {
    let two_srtt = srtt.saturating_mul(2);
    if outstanding > 1 {
        two_srtt.max(Duration::from_millis(10))
    } else {
        two_srtt.max(srtt.saturating_add(srtt / 2).saturating_add(delayed_ack_max)).max(CLOCK_GRANULARITY)
    }
}

/// Returns the probe timeout of RFC 8985 §7.2, for `outstanding` segments; `until_rto` is the remaining time of the
/// retransmission timer. Two round trips of zero count as [`CLOCK_GRANULARITY`]: a probe due as soon as its data was
/// sent would be useless.
#[must_use]
pub fn rfc8985_timeout(
    srtt: Option<Duration>,
    outstanding: u32,
    ack_delay_max: Duration,
    until_rto: Duration,
) -> Duration {
    let ack_delay = if outstanding == 1 { ack_delay_max } else { Duration::ZERO };
    let timeout = match srtt {
        Some(srtt) => srtt.saturating_mul(2).saturating_add(ack_delay).max(CLOCK_GRANULARITY),
        None => Duration::from_secs(1),
    };
    timeout.min(until_rto)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Three segments at 0, 10 and 20 ms; the first two are acknowledged at 110 ms.
    const TERMS: TlpTerms = TlpTerms {
        now: Instant::from_millis(110),
        srtt: Some(Duration::from_millis(100)),
        outstanding: 1,
        unsent: 0,
        earliest_sent: Instant::from_millis(20),
        is_open: true,
        ack_delay_max: Duration::from_millis(200),
        timeout_at: Instant::from_millis(1_110),
    };

    const ACK: TlpAck =
        TlpAck { earliest_outstanding: 11, is_new: true, probe_duplicated: false, is_plain_duplicate: false };

    fn deadline(rule: TlpRule, terms: TlpTerms) -> Option<Instant> {
        rule.deadline(&TailLossProbe::new(), &terms)
    }

    /// Segment 10, the last one, was sent again as a probe.
    fn probed() -> TailLossProbe {
        let mut probe = TailLossProbe::new();
        probe.sent(ProbeContent::HighestOutstanding, 11);
        probe
    }

    #[test]
    fn r15_3_4_2_the_draft_counts_from_the_acknowledgement() {
        assert_eq!(deadline(TlpRule::Draft, TERMS), Some(at(110 + 350)));
        assert_eq!(deadline(TlpRule::Draft, TlpTerms { outstanding: 2, ..TERMS }), Some(at(110 + 200)));
    }

    #[test]
    fn r15_3_4_2_tlpr_counts_from_the_earliest_outstanding_transmission() {
        assert_eq!(deadline(TlpRule::DraftWithRestart, TERMS), Some(at(20 + 350)));
        let two = TlpTerms { outstanding: 2, ..TERMS };
        assert_eq!(deadline(TlpRule::DraftWithRestart, two), Some(at(20 + 200)));
    }

    #[test]
    fn tlpr_leaves_four_segments_and_overdue_ones_to_the_full_timer_as_rto_restart_does() {
        let four = TlpTerms { outstanding: 3, unsent: 1, ..TERMS };
        assert_eq!(deadline(TlpRule::DraftWithRestart, four), deadline(TlpRule::Draft, four));
        let old = TlpTerms { now: at(900), ..TERMS };
        assert_eq!(deadline(TlpRule::DraftWithRestart, old), deadline(TlpRule::Draft, old));
    }

    #[test]
    fn rfc_8985_7_2_two_round_trips_and_the_delay_of_an_acknowledgement_for_a_single_segment() {
        assert_eq!(deadline(TlpRule::Rfc8985, TERMS), Some(at(110 + 400)));
        assert_eq!(deadline(TlpRule::Rfc8985, TlpTerms { outstanding: 2, ..TERMS }), Some(at(110 + 200)));
        let unmeasured = TlpTerms { srtt: None, timeout_at: at(3_000), ..TERMS };
        assert_eq!(deadline(TlpRule::Rfc8985, unmeasured), Some(at(1_110)));
        assert_eq!(deadline(TlpRule::Draft, unmeasured), None);
    }

    #[test]
    fn no_probe_comes_after_the_retransmission_timeout() {
        let soon = TlpTerms { timeout_at: at(200), ..TERMS };
        for rule in [TlpRule::Draft, TlpRule::DraftWithRestart, TlpRule::Rfc8985] {
            assert_eq!(deadline(rule, soon), Some(at(200)));
        }
    }

    #[test]
    fn r15_3_4_2_there_is_no_probe_outside_the_open_state_or_with_nothing_outstanding() {
        for rule in [TlpRule::Draft, TlpRule::DraftWithRestart, TlpRule::Rfc8985] {
            assert_eq!(deadline(rule, TlpTerms { is_open: false, ..TERMS }), None);
            assert_eq!(deadline(rule, TlpTerms { outstanding: 0, ..TERMS }), None);
        }
    }

    #[test]
    fn no_probe_is_due_at_once_though_a_round_trip_takes_no_time_and_the_answer_is_not_delayed() {
        let terms =
            TlpTerms { srtt: Some(Duration::ZERO), ack_delay_max: Duration::ZERO, earliest_sent: TERMS.now, ..TERMS };
        for rule in [TlpRule::Draft, TlpRule::DraftWithRestart, TlpRule::Rfc8985] {
            for outstanding in 1..4 {
                let due = deadline(rule, TlpTerms { outstanding, ..terms });
                assert!(due.is_some_and(|due| due >= terms.now + CLOCK_GRANULARITY), "{rule:?}, {outstanding}");
            }
        }
    }

    #[test]
    fn a_probe_prefers_new_data() {
        assert_eq!(content(true), ProbeContent::NewData);
        assert_eq!(content(false), ProbeContent::HighestOutstanding);
    }

    #[test]
    fn the_draft_allows_two_probes_in_a_row() {
        let mut probe = probed();
        assert!(probe.is_allowed(TlpRule::Draft));
        probe.sent(ProbeContent::HighestOutstanding, 11);
        assert!(!probe.is_allowed(TlpRule::DraftWithRestart));
        probe.acked(&ACK);
        assert!(probe.is_allowed(TlpRule::Draft));
    }

    #[test]
    fn rfc_8985_7_3_one_probe_is_in_flight_and_the_next_needs_a_measurement() {
        let mut probe = probed();
        assert!(!probe.is_allowed(TlpRule::Rfc8985));
        probe.abandon();
        assert!(!probe.is_allowed(TlpRule::Rfc8985));
        probe.measured();
        assert!(probe.is_allowed(TlpRule::Rfc8985));
    }

    #[test]
    fn rfc_8985_7_4_new_data_as_a_probe_hides_no_loss() {
        let mut probe = TailLossProbe::new();
        probe.sent(ProbeContent::NewData, 12);
        assert_eq!(probe.acked(&ACK), TlpVerdict::Open);
        assert_eq!(probe.acked(&TlpAck { earliest_outstanding: 12, ..ACK }), TlpVerdict::NothingLost);
    }

    #[test]
    fn rfc_8985_7_4_a_duplicate_report_means_that_nothing_was_lost() {
        assert_eq!(probed().acked(&TlpAck { probe_duplicated: true, ..ACK }), TlpVerdict::NothingLost);
    }

    #[test]
    fn rfc_8985_7_4_without_selective_reports_a_second_plain_acknowledgement_means_the_same() {
        let mut probe = probed();
        assert_eq!(probe.acked(&ACK), TlpVerdict::Open);
        let again = TlpAck { is_new: false, is_plain_duplicate: true, ..ACK };
        assert_eq!(probe.acked(&again), TlpVerdict::NothingLost);
    }

    #[test]
    fn rfc_8985_7_4_later_data_acknowledged_without_a_duplicate_report_means_a_repaired_loss() {
        let mut probe = probed();
        assert_eq!(probe.acked(&ACK), TlpVerdict::Open);
        assert_eq!(probe.acked(&TlpAck { earliest_outstanding: 12, ..ACK }), TlpVerdict::Repaired);
        assert_eq!(probe.acked(&TlpAck { earliest_outstanding: 13, ..ACK }), TlpVerdict::Open, "said once");
    }

    #[test]
    fn r15_equation_1_with_several_segments_outstanding() {
        assert_eq!(draft_timeout(ms(100), 2, ms(200)), ms(200));
        assert_eq!(draft_timeout(ms(3), 2, ms(200)), ms(10));
    }

    #[test]
    fn r15_equation_1_with_one_segment_outstanding_allows_for_a_delayed_ack() {
        assert_eq!(draft_timeout(ms(100), 1, ms(200)), ms(350));
        assert_eq!(draft_timeout(ms(1000), 1, ms(200)), ms(2000));
    }

    #[test]
    fn rfc_8985_7_2_two_srtt_plus_the_ack_delay_for_one_segment_but_never_after_the_rto() {
        assert_eq!(rfc8985_timeout(Some(ms(100)), 3, ms(200), ms(1000)), ms(200));
        assert_eq!(rfc8985_timeout(Some(ms(100)), 1, ms(200), ms(1000)), ms(400));
        assert_eq!(rfc8985_timeout(None, 1, ms(200), ms(3000)), ms(1000));
        assert_eq!(rfc8985_timeout(Some(ms(100)), 1, ms(200), ms(300)), ms(300));
        assert_eq!(rfc8985_timeout(Some(Duration::ZERO), 2, ms(200), ms(300)), ms(1), "not at once");
        assert_eq!(rfc8985_timeout(Some(Duration::ZERO), 1, ms(0), ms(300)), ms(1));
    }

    proptest! {
        #[test]
        fn no_formula_overflows(srtt in any::<u64>(), delay in any::<u64>(), outstanding in any::<u32>()) {
            let (srtt, delay) = (Duration::from_nanos(srtt), Duration::new(delay, 0));
            prop_assert!(draft_timeout(srtt, outstanding, delay) >= srtt);
            prop_assert!(rfc8985_timeout(Some(srtt), outstanding, delay, delay) <= delay);
        }

        #[test]
        fn tlpr_never_waits_longer_than_the_draft_and_no_rule_fires_in_the_past(
            now in any::<u64>(),
            sent in any::<u64>(),
            srtt in any::<u64>(),
            until_timeout in any::<u64>(),
            outstanding in 1..8_u32,
        ) {
            let now = Instant::from_nanos(now);
            let terms = TlpTerms {
                now,
                srtt: Some(Duration::from_nanos(srtt)),
                outstanding,
                earliest_sent: Instant::from_nanos(sent),
                timeout_at: now + Duration::from_nanos(until_timeout),
                ..TERMS
            };
            let draft = deadline(TlpRule::Draft, terms).expect("allowed");
            let restarted = deadline(TlpRule::DraftWithRestart, terms).expect("allowed");
            prop_assert!(now <= restarted && restarted <= draft && draft <= terms.timeout_at);
            prop_assert!(deadline(TlpRule::Rfc8985, terms).expect("allowed") >= now);
        }
    }
}
