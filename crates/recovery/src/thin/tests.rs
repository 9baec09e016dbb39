use super::*;
use proptest::prelude::*;

const DYNAMIC: ThinDetection = ThinDetection::Dynamic { pttfr: 3 };
const RATE: ThinDetection = ThinDetection::DynamicRate { pttfr: 3 };
const SRTT: Option<Duration> = Some(Duration::from_millis(100));

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// A detector with packets of TSN 1 to `packets`, sent `gap_ms` apart from time zero on.
fn with_packets(packets: u64, gap_ms: u64) -> ThinDetector {
    let mut detector = ThinDetector::new();
    for tsn in 1..=packets {
        detector.packet_sent(at((tsn - 1) * gap_ms), tsn, true);
    }
    detector
}

#[test]
fn p10_figure_3_without_loss_four_packets_in_flight_are_thin_and_five_are_not() {
    assert!(with_packets(4, 0).is_thin(DYNAMIC, SRTT));
    assert!(!with_packets(5, 0).is_thin(DYNAMIC, SRTT));
}

#[test]
fn p10_figure_3_the_limit_grows_with_the_loss_rate() {
    // 4 / (1 - 0.05) = 4.2, 4 / (1 - 0.2) = 5, 4 / (1 - 0.5) = 8
    assert_eq!([limit(3, 5, 100), limit(3, 20, 100), limit(3, 50, 100)], [4, 5, 8]);
}

#[test]
fn a_loss_rate_of_one_does_not_make_every_stream_thin() {
    assert_eq!(limit(3, 100, 100), THIN_PACKETS_MAX);
    assert_eq!(limit(u8::MAX, 0, 100), THIN_PACKETS_MAX);
}

#[test]
fn the_static_rule_calls_fewer_packets_than_its_limit_thin() {
    let four = ThinDetection::Static { in_flight_below: 4 };
    assert!(with_packets(3, 0).is_thin(four, SRTT));
    assert!(!with_packets(4, 0).is_thin(four, SRTT));
    assert!(!ThinDetector::new().is_thin(ThinDetection::Never, SRTT));
}

#[test]
fn p10_5_1_a_packet_leaves_with_the_cumulative_ack_of_its_highest_tsn() {
    let mut detector = ThinDetector::new();
    detector.packet_sent(at(0), 3, true);
    detector.packet_sent(at(0), 6, true);
    detector.sack(2, &[]);
    assert_eq!(detector.in_flight(), 2);
    detector.sack(3, &[]);
    assert_eq!(detector.in_flight(), 1);
}

#[test]
fn p10_5_1_a_packet_leaves_with_the_gap_ack_of_its_highest_tsn() {
    let mut detector = with_packets(5, 0);
    detector.sack(0, &[(2, 2), (4, 5)]);
    assert_eq!(detector.in_flight(), 2);
}

#[test]
fn p06_4_1_a_packet_that_is_reported_missing_still_counts_as_in_flight() {
    let mut detector = with_packets(2, 0);
    for _ in 0..5 {
        detector.sack(0, &[(2, 2)]);
    }
    assert_eq!(detector.in_flight(), 1);
}

#[test]
fn p10_5_1_a_packet_is_lost_once_its_highest_tsn_was_in_a_gap_of_three_sacks() {
    let mut detector = with_packets(4, 0);
    detector.sack(0, &[(2, 2)]);
    detector.sack(0, &[(2, 3)]);
    assert_eq!(detector.loss_rate(), (0, LOSS_PRIOR_PACKETS + 2));
    detector.sack(0, &[(2, 4)]);
    assert_eq!(detector.loss_rate(), (1, LOSS_PRIOR_PACKETS + 4));
    // Its retransmission is acknowledged: one more packet was delivered, the lost one is not
    // counted again.
    detector.packet_sent(at(0), 1, false);
    detector.sack(4, &[]);
    assert_eq!(detector.loss_rate(), (1, LOSS_PRIOR_PACKETS + 5));
    assert_eq!(detector.in_flight(), 0);
}

#[test]
fn the_loss_rate_follows_the_last_few_hundred_packets() {
    let mut loss = LossRate::default();
    for _ in 0..2000 {
        loss.count(true);
    }
    assert!(u64::from(loss.lost) * 100 / u64::from(loss.all) >= 99);
    for _ in 0..2000 {
        loss.count(false);
    }
    assert!(u64::from(loss.lost) * 100 / u64::from(loss.all) <= 1);
}

#[test]
fn a_retransmission_behind_newer_packets_leaves_with_its_acknowledgement() {
    let mut detector = with_packets(2, 0);
    detector.packet_sent(at(0), 1, false);
    detector.sack(1, &[]);
    assert_eq!(detector.in_flight(), 1);
}

#[test]
fn a_timeout_empties_the_network() {
    let mut detector = with_packets(9, 0);
    assert!(!detector.is_thin(DYNAMIC, SRTT));
    detector.timed_out();
    assert!(detector.is_thin(DYNAMIC, SRTT));
    assert_eq!(detector.loss_rate(), (0, LOSS_PRIOR_PACKETS));
}

#[test]
fn an_idle_detector_holds_no_list() {
    let mut detector = with_packets(50, 0);
    detector.sack(50, &[]);
    detector.shrink();
    assert_eq!(detector.in_flight.capacity(), 0);
    assert!(size_of::<ThinDetector>() <= 176, "{}", size_of::<ThinDetector>());
}

#[test]
fn the_list_is_bounded_and_forgets_the_oldest_packets() {
    let mut detector = with_packets(1000, 0);
    assert_eq!(detector.in_flight(), IN_FLIGHT_MAX);
    detector.sack(990, &[]);
    assert_eq!(detector.in_flight(), 10);
}

#[test]
fn an_outage_makes_a_thin_stream_thick_by_its_flight_but_not_by_its_rate() {
    let detector = with_packets(12, 50);
    assert!(!detector.is_thin(DYNAMIC, SRTT));
    assert!(detector.is_thin(RATE, SRTT));
}

#[test]
fn a_thick_stream_that_a_loss_has_stopped_stays_thick_by_its_rate() {
    let mut detector = with_packets(20, 1);
    detector.timed_out();
    assert!(!detector.is_thin(RATE, SRTT));
    assert!(detector.is_thin(DYNAMIC, SRTT));
    // Once it has sent slowly for a while it is thin.
    for tsn in 21..=24 {
        detector.packet_sent(at(tsn * 100), tsn, true);
    }
    assert!(detector.is_thin(RATE, SRTT));
}

#[test]
fn the_rate_rule_agrees_with_the_flight_rule_on_a_steady_stream() {
    for (gap_ms, thin) in [(25, true), (24, false), (10, false), (250, true)] {
        let mut detector = ThinDetector::new();
        for tsn in 1..=100 {
            let now = at(tsn * gap_ms);
            // Everything sent at least one round trip ago has been acknowledged.
            detector.sack(tsn.saturating_sub(100_u64.div_ceil(gap_ms)), &[]);
            detector.packet_sent(now, tsn, true);
        }
        assert_eq!(detector.is_thin(RATE, SRTT), thin, "gap {gap_ms} ms");
        assert_eq!(detector.is_thin(DYNAMIC, SRTT), thin, "gap {gap_ms} ms");
    }
}

#[test]
fn the_rate_rule_counts_new_data_only_and_needs_a_round_trip_time() {
    let mut detector = ThinDetector::new();
    for _ in 0..20 {
        detector.packet_sent(at(0), 1, false);
    }
    assert!(detector.is_thin(RATE, SRTT));
    assert!(!detector.is_thin(RATE, None));
}

#[test]
fn a_stream_of_many_small_packets_is_light_until_its_bytes_exceed_the_limit() {
    const LIGHT: ThinDetection = ThinDetection::Light { pttfr: 3, bytes_max: 4_344 };
    for (bytes, thin) in [(116, true), (350, true), (600, false)] {
        let mut detector = ThinDetector::new();
        for tsn in 1..=100 {
            detector.packet_sent(at(tsn * 10), tsn, true);
            detector.new_data_sent(at(tsn * 10), bytes, SRTT);
        }
        assert_eq!(detector.is_thin(LIGHT, SRTT), thin, "{bytes} bytes in each of ten packets per round trip");
        assert!(!detector.is_thin(RATE, SRTT));
        assert!(!detector.is_thin(LIGHT, None), "unmeasured: the packets in flight are too many");
    }
}

#[test]
fn few_packets_are_light_whatever_their_size() {
    let mut detector = ThinDetector::new();
    for tsn in 1..=3 {
        detector.packet_sent(at(tsn), tsn, true);
        detector.new_data_sent(at(tsn), 4_000, SRTT);
    }
    assert!(detector.is_thin(ThinDetection::Light { pttfr: 3, bytes_max: 4_344 }, SRTT));
}

proptest! {
    #[test]
    fn the_integer_limit_is_the_formula(
        lost in 0_u32..256,
        rest in 1_u32..256,
        pttfr in 0_u8..8,
        in_flight in 0..=THIN_PACKETS_MAX,
    ) {
        let all = lost + rest;
        // in_flight <= (pttfr + 1) / (1 - lost / all), multiplied out
        let thin = in_flight * u64::from(rest) <= (u64::from(pttfr) + 1) * u64::from(all);
        prop_assert_eq!(in_flight <= limit(pttfr, lost, all), thin);
    }

    #[test]
    fn any_history_stays_bounded(
        steps in prop::collection::vec(any::<(u64, bool, u64, u64)>(), 0..200),
        pttfr in any::<u8>(),
    ) {
        let mut detector = ThinDetector::new();
        for (tsn, new, first, last) in steps {
            detector.packet_sent(Instant::from_nanos(tsn), tsn, new);
            detector.sack(first, &[(first, last), (last, first)]);
            let rate = ThinDetection::DynamicRate { pttfr };
            let limit = usize::try_from(detector.limit(pttfr)).expect("the limit is small");
            let thin_in_any_window = detector.is_thin(rate, Some(Duration::MAX));
            let few_sent = usize::try_from(detector.recent.sent).expect("few") <= limit;
            prop_assert_eq!(thin_in_any_window, few_sent);
            prop_assert!(detector.in_flight() <= IN_FLIGHT_MAX);
            let (lost, all) = detector.loss_rate();
            prop_assert!(lost <= all && all < LOSS_WINDOW_PACKETS);
        }
    }
}

#[test]
fn once_a_retransmission_is_acknowledged_the_packets_in_flight_are_in_order_again() {
    let mut detector = ThinDetector::new();
    for tsn in [1, 2, 3, 2, 4, 5] {
        detector.packet_sent(Instant::ZERO, tsn, true);
    }
    assert!(!detector.is_above(0), "a packet may be behind one with a higher TSN");
    detector.sack(3, &[]);
    assert!(detector.is_above(3) && !detector.is_above(4));
    detector.sack(3, &[(5, 5)]);
    assert_eq!((detector.in_flight(), detector.is_above(3)), (1, true));
}
