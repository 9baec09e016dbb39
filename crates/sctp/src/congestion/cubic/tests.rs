//! The window in slow start, on losses, timeouts and their undoing, and when the application leaves it unused.

use super::*;

const PMDCS: usize = 1_000;
const RTT: Duration = Duration::from_millis(50);
const RTO: Duration = Duration::from_secs(1);

/// A path of this controller on which time goes by.
struct Rig {
    path: Cubic,
    now: Instant,
}

fn timeout() -> CongestionSign {
    CongestionSign::Timeout { one_packet: true, in_fast_recovery: false }
}

impl Rig {
    /// Clocks may begin at any time: that of the sockets begins after an hour.
    fn new() -> Self {
        Self { path: Cubic::new(PMDCS), now: Instant::from_secs(3_600) }
    }

    fn in_congestion_avoidance(cwnd: usize) -> Self {
        let mut rig = Self::new();
        rig.path.cwnd = small(cwnd);
        rig.path.on_sent(PMDCS, cwnd);
        rig.path.on_congestion(CongestionSign::Loss);
        rig
    }

    /// One round trip with at most `used` bytes on the way, each packet acknowledged with this round-trip time.
    fn round(&mut self, used: usize, rtt: Duration) {
        let sent_at = self.now;
        let packets = used.min(self.path.cwnd()).div_ceil(PMDCS).max(1);
        (1..=packets).for_each(|packet| self.path.on_sent(PMDCS, packet * PMDCS));
        self.now += rtt;
        for left in (0..packets).rev() {
            let ack = self.ack((left + 1) * PMDCS);
            self.path.on_ack(&Ack { sent_at: Some(sent_at), rtt: Some(rtt), srtt: Some(rtt), ..ack });
            // The next packets belong to the next round.
            self.now += Duration::from_nanos(1);
        }
    }

    /// A packet is acknowledged, outside of fast recovery.
    fn ack(&self, in_flight_before: usize) -> Ack {
        Ack {
            now: self.now,
            bytes: PMDCS,
            in_flight_before,
            sent_at: Some(self.now),
            rtt: Some(RTT),
            srtt: Some(RTT),
            in_fast_recovery: false,
            cumulative_advanced: true,
            all_acked: in_flight_before <= PMDCS,
        }
    }

    fn full_round(&mut self) {
        self.round(usize::MAX, RTT);
    }

    fn cwnd(&self) -> usize {
        self.path.cwnd()
    }
}

#[test]
fn rfc6928_2_the_initial_window_is_ten_packets_but_not_above_14600_bytes_unless_two_packets_are() {
    assert_eq!(Cubic::new(1_220).cwnd(), 12_200);
    assert_eq!(Cubic::new(1_440).cwnd(), 14_400);
    assert_eq!(Cubic::new(4_000).cwnd(), 14_600);
    assert_eq!(Cubic::new(9_000).cwnd(), 18_000);
}

#[test]
fn slow_start_doubles_the_window_each_round_trip() {
    let mut rig = Rig::new();
    for expected in [20_000, 40_000, 80_000] {
        rig.full_round();
        assert_eq!(rig.cwnd(), expected);
    }
}

#[test]
fn a_pause_after_the_first_round_trip_leaves_the_window_alone() {
    let mut rig = Rig::new();
    rig.full_round();
    rig.path.on_idle(rig.now + RTO, RTO, RTO);
    assert_eq!(rig.cwnd(), 20_000);
}

#[test]
fn rfc9406_slow_start_ends_without_a_loss_when_the_round_trip_time_keeps_growing() {
    let mut rig = Rig::new();
    rig.full_round();
    rig.full_round();
    let before = rig.cwnd();
    for extra in 1..=7_u64 {
        rig.round(usize::MAX, RTT + Duration::from_millis(10 * extra));
    }
    assert!(rig.path.ssthresh() <= rig.cwnd(), "congestion avoidance");
    assert!(rig.cwnd() < 8 * before, "{before} to {}", rig.cwnd());
}

#[test]
fn rfc7661_a_window_does_not_grow_beyond_twice_what_is_used() {
    let mut rig = Rig::new();
    (0..50).for_each(|_| rig.round(4_000, RTT));
    assert_eq!(rig.cwnd(), 10_000, "a thin stream leaves it alone");
    assert!(rig.path.history.is_none(), "and needs no memory");
    (0..50).for_each(|_| rig.round(8_000, RTT));
    assert_eq!(rig.cwnd(), 16_000);
}

#[test]
fn congestion_avoidance_does_not_grow_a_window_that_is_not_used() {
    let mut rig = Rig::in_congestion_avoidance(100_000);
    (0..4).for_each(|_| rig.round(30_000, RTT));
    let before = rig.cwnd();
    (0..50).for_each(|_| rig.round(30_000, RTT));
    assert_eq!(rig.cwnd(), before);
    (0..50).for_each(|_| rig.full_round());
    assert!(rig.cwnd() > before);
}

#[test]
fn rfc9438_4_6_a_loss_keeps_seven_tenths_but_not_below_four_packets() {
    let mut rig = Rig::in_congestion_avoidance(100_000);
    assert_eq!((rig.cwnd(), rig.path.ssthresh()), (70_000, 70_000));
    (0..20).for_each(|_| rig.path.on_congestion(CongestionSign::Loss));
    assert_eq!((rig.cwnd(), rig.path.ssthresh()), (4_000, 4_000), "RFC 9260 §7.2.3");
}

#[test]
fn rfc4828_small_packets_grow_the_window_by_what_makes_up_for_their_size() {
    assert_eq!(growth_bytes(1_220), 1_747);
    assert_eq!(growth_bytes(1_460), 1_460);
    assert_eq!(growth_bytes(8_960), 8_960);
    assert_eq!(growth_bytes(372), growth_bytes(1_200));
}

#[test]
fn rfc6937_3_the_sender_does_not_fall_silent_while_the_window_comes_down() {
    let mut rig = Rig::in_congestion_avoidance(100_000);
    let mut in_flight = rig.cwnd();
    rig.path.on_sent(PMDCS, in_flight);
    rig.path.on_congestion(CongestionSign::Loss);
    let window = rig.cwnd();
    let (mut silent, mut silent_max, mut left) = (0, 0, 0);
    for _ in 0..69 {
        let fast_recovery = Ack { in_fast_recovery: true, ..rig.ack(in_flight) };
        rig.path.on_ack(&fast_recovery);
        in_flight -= PMDCS;
        silent += 1;
        while rig.path.allows(in_flight) {
            in_flight += PMDCS;
            rig.path.on_sent(PMDCS, in_flight);
            (silent, left) = (0, left + 1);
        }
        silent_max = silent_max.max(silent);
    }
    assert!(silent_max <= 1, "{silent_max} packets arrived before the next one left");
    assert!((47..=49).contains(&left), "{left}: seven tenths");
    assert!((window - PMDCS..=window + PMDCS).contains(&in_flight), "{in_flight} and {window}");
}

#[test]
fn a_reduction_ends_with_fast_recovery_a_timeout_or_an_undo() {
    let ends: [fn(&mut Rig); 3] =
        [|rig| rig.path.on_recovered(), |rig| rig.path.on_congestion(timeout()), |rig| rig.path.undo(70_000, 70_000)];
    for end in ends {
        let mut rig = Rig::in_congestion_avoidance(100_000);
        rig.path.on_ack(&Ack { in_fast_recovery: true, ..rig.ack(100_000) });
        assert!(rig.path.allows(99_000));
        end(&mut rig);
        assert!(!rig.path.allows(99_000));
    }
}

#[test]
fn a_mark_reduces_the_window_as_a_loss_does() {
    let mut rig = Rig::in_congestion_avoidance(100_000);
    rig.path.on_congestion(CongestionSign::EcnMark);
    assert_eq!(rig.cwnd(), 49_000);
}

#[test]
fn after_a_mark_the_sender_sends_on_while_it_comes_down_without_a_fast_recovery_and_grows_again_when_it_has() {
    let mut rig = Rig::in_congestion_avoidance(100_000);
    let mut in_flight = 70_000;
    rig.path.on_sent(PMDCS, in_flight);
    rig.path.on_congestion(CongestionSign::EcnMark);
    let mut left = 0;
    while in_flight > 50_000 {
        rig.path.on_ack(&Ack { bytes: PMDCS, in_flight_before: in_flight, ..rig.ack(100_000) });
        in_flight -= PMDCS;
        if rig.path.allows(in_flight) {
            in_flight += PMDCS;
            rig.path.on_sent(PMDCS, in_flight);
            left += 1;
        }
        assert_eq!(rig.cwnd(), 49_000);
    }
    assert!((40..=47).contains(&left), "{left}: seven tenths of what arrived");
    (0..4).for_each(|_| rig.full_round());
    assert!(rig.cwnd() > 49_000);
}

#[test]
fn rfc9438_4_8_a_timeout_leaves_one_packet_and_slow_start_up_to_seven_tenths() {
    let mut rig = Rig::in_congestion_avoidance(100_000);
    rig.path.on_congestion(timeout());
    assert_eq!((rig.cwnd(), rig.path.ssthresh()), (1_000, 49_000));
    assert!(rig.path.allows(0) && !rig.path.allows(100), "one packet until an acknowledgement (RFC 9260 §7.2.3)");
    rig.path.on_congestion(timeout());
    assert_eq!(rig.path.ssthresh(), 49_000, "a second timeout says nothing new");
    for expected in [2_000, 4_000, 8_000, 16_000, 32_000, 49_000] {
        rig.full_round();
        assert_eq!(rig.cwnd(), expected);
    }
}

#[test]
fn rfc9438_4_9_a_reduction_without_cause_is_undone_with_the_curve() {
    let mut rig = Rig::in_congestion_avoidance(100_000);
    (0..40).for_each(|_| rig.full_round());
    let (cwnd, ssthresh) = (rig.cwnd(), rig.path.ssthresh());
    let mut other = Rig { path: Cubic::new(PMDCS), now: rig.now };
    let curve = rig.path.history.as_ref().unwrap().curve.clone();
    other.path.history = Some(Box::new(History { curve, ..History::default() }));
    (other.path.cwnd, other.path.ssthresh) = (small(cwnd), small(ssthresh));
    for sign in [CongestionSign::Loss, timeout()] {
        rig.path.on_congestion(sign);
        rig.path.undo(cwnd, ssthresh);
        assert_eq!((rig.cwnd(), rig.path.ssthresh()), (cwnd, ssthresh));
    }
    for _ in 0..40 {
        rig.full_round();
        other.full_round();
        let difference = rig.cwnd().abs_diff(other.cwnd());
        assert!(difference < PMDCS, "as if nothing had been: {} and {}", rig.cwnd(), other.cwnd());
    }
}

#[test]
fn a_timeout_during_fast_recovery_keeps_what_was_before_it() {
    let mut rig = Rig::in_congestion_avoidance(100_000);
    (0..100).for_each(|_| rig.full_round());
    let curve = rig.path.history.as_ref().unwrap().curve.clone();
    rig.path.on_congestion(CongestionSign::Loss);
    rig.path.on_congestion(CongestionSign::Timeout { one_packet: true, in_fast_recovery: true });
    assert_eq!(rig.path.history.as_ref().unwrap().before, Some(curve));
}

#[test]
fn rfc7661_a_window_survives_minutes_without_use_and_then_gives_way_step_by_step() {
    let mut rig = Rig::in_congestion_avoidance(200_000);
    rig.full_round();
    let (cwnd, began_at) = (rig.cwnd(), rig.now);
    let mut idle = |until: u64| {
        let now = began_at + Duration::from_secs(until);
        rig.path.on_idle(now, Duration::from_secs(100), RTO);
        rig.path.cwnd()
    };
    assert_eq!(idle(299), cwnd);
    assert_eq!(idle(301), cwnd / 2);
    assert_eq!(idle(500), cwnd / 2);
    assert_eq!(idle(100_000), 10_000);
    assert!(rig.path.ssthresh() >= cwnd / 4 * 3, "slow start back to it");
}

#[test]
fn rfc7661_a_loss_in_a_window_that_was_not_used_counts_from_what_was() {
    let mut rig = Rig::in_congestion_avoidance(400_000);
    rig.full_round();
    rig.path.on_idle(rig.now + RTO * 20, RTO * 20, RTO);
    assert!(rig.cwnd() > 250_000);
    rig.round(20_000, RTT);
    rig.path.on_congestion(CongestionSign::Loss);
    assert!((14_000..=28_000).contains(&rig.cwnd()), "{}", rig.cwnd());
}

#[test]
fn rfc9260_7_2_1_a_pause_raises_a_window_below_four_packets() {
    let mut rig = Rig::new();
    rig.path.on_congestion(timeout());
    rig.path.on_idle(rig.now, RTO / 2, RTO);
    assert_eq!(rig.cwnd(), 1_000);
    rig.path.on_idle(rig.now, RTO, RTO);
    assert_eq!(rig.cwnd(), 4_000);
}

#[test]
fn pacing_is_at_two_windows_per_round_trip_in_slow_start_and_at_five_quarters_after_it() {
    let (slow, avoiding) = (Rig::new(), Rig::in_congestion_avoidance(100_000));
    let rate = |rig: &Rig| rig.path.pacing_rate(RTT).map(|rate| rate.bytes as f64 / rate.per.as_secs_f64());
    assert_eq!(rate(&slow), Some(2.0 * 10_000.0 / 0.05));
    assert_eq!(rate(&avoiding), Some(1.25 * 70_000.0 / 0.05));
}

#[test]
fn an_idle_path_remembers_its_window_and_its_losses_and_nothing_else() {
    let mut rig = Rig::new();
    rig.full_round();
    rig.path.give_back_memory();
    assert_eq!(rig.cwnd(), 20_000);
    rig.path.on_idle(rig.now + 10 * UNUSED_MAX, 10 * UNUSED_MAX, RTO);
    rig.path.give_back_memory();
    assert!(rig.path.history.is_none(), "the window is the initial one again");
    rig.path.on_congestion(CongestionSign::Loss);
    rig.path.give_back_memory();
    assert!(rig.path.history.is_some());
    assert!(size_of::<History>() <= 160, "{}", size_of::<History>());
}
