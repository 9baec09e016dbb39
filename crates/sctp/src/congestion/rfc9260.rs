//! Slow start, congestion avoidance and what ends them, as RFC 9260 §7.2 has them for one path, and as RFC 4960 had them.

use festina_recovery::early_fast_retransmit::window_after;
use festina_units::{Duration, Instant};

use super::{Ack, CongestionSign, Controller, small};

/// Max.Burst (RFC 4960 §15).
const MAX_BURST: usize = 4;

/// Congestion control of one path.
#[derive(Debug)]
pub(crate) struct Rfc9260 {
    cwnd: usize,
    ssthresh: usize,
    partial_bytes_acked: usize,
    pmdcs: u32,
    /// The rules of RFC 4960: only SACKs that move the Cumulative TSN Ack Point let the window grow (§7.2.1, §7.2.2), and Max.Burst cuts
    /// it to the bytes that it allows to be sent (§6.1 D).
    of_2007: bool,
    /// Set by a timeout: one packet may be in flight until something is acknowledged (RFC 9260 §7.2.3).
    one_packet: bool,
}

impl Rfc9260 {
    /// Creates the controller of a path whose packets hold at most `pmdcs` bytes of DATA chunks (PMDCS, RFC 9260 §2.3). The initial window is
    /// `initial_window_bytes`, which depends on the address family (§7.2.1), limited to between two and four packets.
    pub(crate) fn new(pmdcs: usize, initial_window_bytes: usize) -> Self {
        Self {
            cwnd: (4 * pmdcs).min(initial_window_bytes.max(2 * pmdcs)),
            ssthresh: usize::MAX,
            partial_bytes_acked: 0,
            pmdcs: small(pmdcs),
            of_2007: false,
            one_packet: false,
        }
    }

    /// As [`new`](Self::new), with the rules of RFC 4960.
    pub(crate) fn of_2007(pmdcs: usize, initial_window_bytes: usize) -> Self {
        Self { of_2007: true, ..Self::new(pmdcs, initial_window_bytes) }
    }

    fn pmdcs(&self) -> usize {
        self.pmdcs as usize
    }

    fn slow_start(&mut self, acked: &Ack) {
        let fully_used = acked.in_flight_before >= self.cwnd;
        if fully_used && !acked.in_fast_recovery {
            self.cwnd += acked.bytes.min(self.pmdcs());
        }
    }

    /// Chunks reported as duplicates are not credited (RFC 9260 §7.2.2 would allow it): the peer could invent them.
    fn congestion_avoidance(&mut self, acked: &Ack) {
        self.partial_bytes_acked += acked.bytes;
        if self.partial_bytes_acked >= self.cwnd {
            if acked.in_flight_before < self.cwnd {
                self.partial_bytes_acked = self.cwnd;
            } else {
                self.partial_bytes_acked -= self.cwnd;
                self.cwnd += self.pmdcs();
            }
        }
    }

    /// RFC 4960 §6.1 D, by its formula. Slow start brings the window back, as in FreeBSD.
    fn keep_within_burst(&mut self, in_flight: usize) {
        let most = in_flight + MAX_BURST * self.pmdcs();
        if self.cwnd > most {
            self.ssthresh = self.ssthresh.max(self.cwnd);
            self.cwnd = most;
        }
    }

    fn halve_ssthresh(&mut self) {
        self.ssthresh = (self.cwnd / 2).max(4 * self.pmdcs());
        self.partial_bytes_acked = 0;
    }
}

impl Controller for Rfc9260 {
    fn cwnd(&self) -> usize {
        self.cwnd
    }

    fn ssthresh(&self) -> usize {
        self.ssthresh
    }

    fn allows(&self, in_flight: usize) -> bool {
        if self.one_packet { in_flight == 0 } else { in_flight < self.cwnd }
    }

    fn on_ack(&mut self, acked: &Ack) {
        if acked.bytes > 0 {
            self.one_packet = false;
        }
        if acked.bytes > 0 && (acked.cumulative_advanced || !self.of_2007) {
            if self.cwnd <= self.ssthresh {
                self.slow_start(acked);
            } else {
                self.congestion_avoidance(acked);
            }
        }
        if acked.all_acked {
            self.partial_bytes_acked = 0;
        }
        if self.of_2007 {
            self.keep_within_burst(acked.in_flight_before.saturating_sub(acked.bytes));
        }
    }

    /// The standard knows no marks; RFC 3168 §6.1.2 has them answered as losses are.
    fn on_congestion(&mut self, sign: CongestionSign) {
        match sign {
            CongestionSign::Loss | CongestionSign::EcnMark => {
                self.halve_ssthresh();
                self.cwnd = self.ssthresh;
            }
            CongestionSign::Timeout { one_packet, .. } => {
                self.halve_ssthresh();
                self.cwnd = self.pmdcs();
                self.one_packet = one_packet;
            }
            CongestionSign::Overdue => {
                let bytes = |size: usize| size as u64;
                let (cwnd, ssthresh) = window_after(bytes(self.cwnd), bytes(self.ssthresh), bytes(self.pmdcs()));
                let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
                (self.cwnd, self.ssthresh) = (size(cwnd), size(ssthresh));
            }
        }
    }

    fn undo(&mut self, cwnd: usize, ssthresh: usize) {
        (self.cwnd, self.ssthresh) = (cwnd, ssthresh);
        self.one_packet = false;
    }

    /// RFC 9260 §7.2.1: max(cwnd / 2, 4 * PMDCS) once per RTO, and ssthresh remembers the window before the first step. A window
    /// that is below the floor is raised to it; its ssthresh stays, since a threshold that low would end slow start at once.
    fn on_idle(&mut self, _now: Instant, idle: Duration, rto: Duration) {
        let rto_count = idle.as_nanos() / rto.as_nanos().max(1);
        if rto_count == 0 {
            return;
        }
        let floor = 4 * self.pmdcs();
        if self.cwnd > floor {
            self.ssthresh = self.cwnd;
        }
        let halvings = u32::try_from(rto_count).unwrap_or(u32::MAX);
        self.cwnd = self.cwnd.checked_shr(halvings).unwrap_or(0).max(floor);
    }

    fn set_packet_bytes(&mut self, packet_bytes: usize) {
        self.pmdcs = small(packet_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IPV6_WINDOW: usize = 4_344;
    const PMDCS: usize = 1_000;

    const RTO: Duration = Duration::from_secs(1);
    const LOSS: CongestionSign = CongestionSign::Loss;

    fn acked(bytes: usize, in_flight_before: usize) -> Ack {
        Ack {
            now: Instant::ZERO,
            bytes,
            in_flight_before,
            sent_at: None,
            rtt: None,
            srtt: None,
            in_fast_recovery: false,
            cumulative_advanced: true,
            all_acked: false,
        }
    }

    fn timeout(one_packet: bool) -> CongestionSign {
        CongestionSign::Timeout { one_packet, in_fast_recovery: false }
    }

    fn in_congestion_avoidance() -> Rfc9260 {
        Rfc9260 { cwnd: 5_000, ssthresh: 4_000, ..Rfc9260::new(PMDCS, IPV6_WINDOW) }
    }

    #[test]
    fn the_initial_window_is_between_two_and_four_packets_section_7_2_1() {
        assert_eq!(Rfc9260::new(500, IPV6_WINDOW).cwnd(), 2_000);
        assert_eq!(Rfc9260::new(1_220, IPV6_WINDOW).cwnd(), 4_344);
        assert_eq!(Rfc9260::new(1_440, IPV6_WINDOW).cwnd(), 4_344);
        assert_eq!(Rfc9260::new(9_000, IPV6_WINDOW).cwnd(), 18_000);
    }

    #[test]
    fn slow_start_grows_by_what_was_acked_but_at_most_one_packet_section_7_2_1() {
        let mut path = Rfc9260::new(PMDCS, IPV6_WINDOW);
        path.on_ack(&acked(300, 4_000));
        assert_eq!(path.cwnd(), 4_300);
        path.on_ack(&acked(3_000, 4_300));
        assert_eq!(path.cwnd(), 5_300);
    }

    #[test]
    fn slow_start_does_not_grow_a_window_that_is_not_fully_used_section_7_2_1() {
        let mut path = Rfc9260::new(PMDCS, IPV6_WINDOW);
        path.on_ack(&acked(1_000, 3_999));
        assert_eq!(path.cwnd(), 4_000);
    }

    #[test]
    fn slow_start_does_not_grow_during_fast_recovery_section_7_2_1() {
        let mut path = Rfc9260::new(PMDCS, IPV6_WINDOW);
        path.on_ack(&Ack { in_fast_recovery: true, ..acked(1_000, 4_000) });
        assert_eq!(path.cwnd(), 4_000);
    }

    #[test]
    fn rfc4960_7_2_only_a_sack_that_moves_the_cumulative_tsn_grows_the_window() {
        for (path, grows) in [
            (Rfc9260::new(PMDCS, IPV6_WINDOW), true),
            (Rfc9260::of_2007(PMDCS, IPV6_WINDOW), false),
            (in_congestion_avoidance(), true),
            (Rfc9260 { of_2007: true, ..in_congestion_avoidance() }, false),
        ] {
            let (cwnd, mut path) = (path.cwnd(), path);
            let gap = Ack { cumulative_advanced: false, ..acked(cwnd, 3 * cwnd) };
            path.on_ack(&gap);
            assert_eq!(path.cwnd() > cwnd, grows);
            path.on_ack(&Ack { cumulative_advanced: true, ..gap });
            assert!(path.cwnd() > cwnd);
        }
    }

    #[test]
    fn rfc4960_6_1_d_max_burst_cuts_a_window_that_is_not_used_and_slow_start_brings_it_back() {
        let mut path = Rfc9260 { of_2007: true, cwnd: 20_000, ssthresh: 10_000, ..in_congestion_avoidance() };
        path.on_ack(&acked(1_000, 17_000));
        assert_eq!((path.cwnd(), path.ssthresh()), (20_000, 10_000), "all of it may leave");
        path.on_ack(&acked(1_000, 7_000));
        assert_eq!((path.cwnd(), path.ssthresh()), (10_000, 20_000));
        path.on_ack(&acked(1_000, 10_000));
        assert_eq!(path.cwnd(), 11_000);
        let mut standard = Rfc9260 { cwnd: 20_000, ..in_congestion_avoidance() };
        standard.on_ack(&acked(1_000, 7_000));
        assert_eq!(standard.cwnd(), 20_000);
    }

    #[test]
    fn congestion_avoidance_adds_one_packet_per_acked_window_section_7_2_2() {
        let mut path = in_congestion_avoidance();
        for _ in 0..4 {
            path.on_ack(&acked(1_000, 5_000));
            assert_eq!(path.cwnd(), 5_000);
        }
        path.on_ack(&acked(1_000, 5_000));
        assert_eq!(path.cwnd(), 6_000);
        assert_eq!(path.partial_bytes_acked, 0);
    }

    #[test]
    fn congestion_avoidance_does_not_hoard_credit_while_the_window_is_not_used_section_7_2_2() {
        let mut path = in_congestion_avoidance();
        for _ in 0..20 {
            path.on_ack(&acked(1_000, 2_000));
        }
        assert_eq!((path.cwnd(), path.partial_bytes_acked), (5_000, 5_000));
    }

    #[test]
    fn partial_bytes_acked_starts_again_when_all_is_acked_section_7_2_2() {
        let mut path = in_congestion_avoidance();
        path.on_ack(&Ack { all_acked: true, ..acked(1_000, 1_000) });
        assert_eq!(path.partial_bytes_acked, 0);
    }

    #[test]
    fn a_loss_halves_the_window_but_not_below_four_packets_section_7_2_3() {
        let mut path = Rfc9260 { cwnd: 20_000, ..Rfc9260::new(PMDCS, IPV6_WINDOW) };
        path.on_congestion(LOSS);
        assert_eq!((path.cwnd(), path.ssthresh()), (10_000, 10_000));
        path.on_congestion(LOSS);
        path.on_congestion(LOSS);
        assert_eq!((path.cwnd(), path.ssthresh()), (4_000, 4_000));
    }

    #[test]
    fn a_timeout_leaves_one_packet_and_no_second_one_until_an_ack_section_7_2_3() {
        let mut path = Rfc9260 { cwnd: 20_000, ..Rfc9260::new(PMDCS, IPV6_WINDOW) };
        path.on_congestion(timeout(true));
        assert_eq!((path.cwnd(), path.ssthresh()), (1_000, 10_000));
        assert!(path.allows(0));
        assert!(!path.allows(100), "a small packet is on the way");
        path.on_ack(&acked(100, 100));
        assert!(path.allows(100));
        path.on_congestion(timeout(false));
        assert!(path.allows(999) && !path.allows(1_000), "cwnd alone limits");
    }

    #[test]
    fn a_packet_may_start_below_the_window_and_not_at_it_section_6_1_rule_b() {
        let path = Rfc9260::new(PMDCS, IPV6_WINDOW);
        assert!(path.allows(3_999));
        assert!(!path.allows(4_000));
    }

    #[test]
    fn an_idle_path_decays_to_four_packets_and_remembers_where_it_was_section_7_2_1() {
        let mut path = Rfc9260 { cwnd: 40_000, ..Rfc9260::new(PMDCS, IPV6_WINDOW) };
        path.on_idle(Instant::ZERO, Duration::ZERO, RTO);
        assert_eq!(path.cwnd(), 40_000);
        path.on_idle(Instant::ZERO, 2 * RTO, RTO);
        assert_eq!((path.cwnd(), path.ssthresh()), (10_000, 40_000));
        path.on_idle(Instant::ZERO, Duration::MAX, RTO);
        assert_eq!(path.cwnd(), 4_000);
    }

    #[test]
    fn an_idle_path_below_four_packets_restarts_at_four_in_slow_start_section_7_2_1() {
        let mut path = Rfc9260::new(PMDCS, IPV6_WINDOW);
        path.on_congestion(timeout(true));
        path.on_idle(Instant::ZERO, RTO, RTO);
        assert_eq!((path.cwnd(), path.ssthresh()), (4_000, 4_000));
    }
}
