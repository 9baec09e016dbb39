//! CUBIC's window at given times, from the formulas of RFC 9438.

use super::*;

const PACKET: usize = 1_000;
const RTT: Duration = Duration::from_millis(100);

/// The window after each round trip of `rtt` for this long, and the times since the first acknowledgement.
fn windows(curve: &mut Curve, mut cwnd: usize, rtt: Duration, rounds: u32) -> Vec<(f64, usize)> {
    (0..rounds)
        .map(|round| {
            let began_at = Instant::from_secs(1) + rtt * round;
            let acks = u32::try_from(cwnd / PACKET).unwrap();
            for ack in 0..acks {
                cwnd = curve.grow(began_at + rtt * ack / acks, cwnd, PACKET, PACKET, rtt);
            }
            ((rtt * (round + 1)).as_secs_f64(), cwnd)
        })
        .collect()
}

#[test]
fn rfc9438_4_6_a_reduction_keeps_seven_tenths() {
    assert_eq!(Curve::default().reduce(100_000), 70_000);
}

#[test]
fn rfc9438_4_2_k_is_the_cube_root_of_the_reduction_over_c() {
    // K = cbrt((1000 - 700) / 0.4) = 9.0856 s.
    let epoch = Epoch::new(700_000, 1_000_000, PACKET);
    assert_eq!(epoch.k_ms, 9_085);
    assert_eq!(Epoch::new(700_000, 700_000, PACKET).k_ms, 0);
}

#[test]
fn rfc9438_4_2_the_window_is_a_cubic_function_of_time_around_its_plateau() {
    let epoch = Epoch::new(700_000, 1_000_000, PACKET);
    for seconds in 0..30_u32 {
        let expected = 1_000.0 + 0.4 * (f64::from(seconds) - 9.0856).powi(3);
        let window = epoch.window_at(Duration::from_secs(seconds.into()), PACKET) as f64 / 1_000.0;
        assert!((window - expected).abs() < 0.001 * expected, "after {seconds} s: {window} and not {expected}");
    }
}

#[test]
fn rfc9438_4_4_and_4_5_the_window_follows_the_function_below_and_above_the_plateau() {
    let mut curve = Curve::default();
    let cwnd = curve.reduce(1_000_000);
    let k = (300.0 / 0.4_f64).cbrt();
    for (time, cwnd) in windows(&mut curve, cwnd, RTT, 160) {
        let expected = 1_000.0 + 0.4 * (time - k).powi(3);
        let window = cwnd as f64 / 1_000.0;
        assert!((window - expected).abs() < 0.01 * expected, "after {time:.1} s: {window:.1} and not {expected:.1}");
    }
}

#[test]
fn rfc9438_4_2_one_round_trip_grows_the_window_by_half_at_most() {
    let mut curve = Curve::default();
    let mut cwnd = curve.reduce(10_000);
    curve.grow(Instant::from_secs(1), cwnd, PACKET, PACKET, RTT);
    let before = cwnd;
    for ack in 0..before / PACKET {
        let now = Instant::from_secs(1_000) + Duration::from_millis(ack as u64);
        cwnd = curve.grow(now, before, PACKET, PACKET, RTT);
        assert!(cwnd - before <= PACKET / 2 + 1, "{cwnd}");
    }
}

#[test]
fn rfc9438_4_3_on_a_short_path_the_window_grows_as_reno_s_would_by_alpha_up_to_the_old_window_and_by_one_above() {
    let mut curve = Curve::default();
    let cwnd = curve.reduce(100_000);
    let windows = windows(&mut curve, cwnd, Duration::from_millis(1), 70);
    // 30 packets at 9/17 of a packet per round trip take 57 of them.
    let after = |rounds: usize| windows[rounds - 1].1;
    assert!((79_500..=81_000).contains(&after(19)), "{}", after(19));
    assert!((98_500..=101_500).contains(&after(57)), "{}", after(57));
    let last_ten = after(70) - after(60);
    assert!((9_000..=10_500).contains(&last_ten), "{last_ten}");
}

#[test]
fn rfc9438_4_7_a_flow_that_has_not_reached_its_last_window_gives_way() {
    let mut curve = Curve::default();
    curve.reduce(100_000);
    curve.reduce(80_000);
    assert_eq!(curve.w_max, 68_000);
    curve.reduce(90_000);
    assert_eq!(curve.w_max, 90_000);
}

#[test]
fn rfc9438_4_8_after_a_timeout_the_next_epoch_begins_on_its_plateau() {
    let mut curve = Curve::default();
    assert_eq!(curve.restart(100_000), 70_000);
    curve.grow(Instant::from_secs(1), 70_000, PACKET, PACKET, RTT);
    let epoch = curve.epoch.as_ref().expect("it began");
    assert_eq!((epoch.k_ms, epoch.origin), (0, 70_000));
}

#[test]
fn rfc9438_5_8_time_in_which_the_application_limits_the_sender_does_not_count() {
    let mut curve = Curve::default();
    let cwnd = curve.reduce(1_000_000);
    let at = |seconds| Instant::from_secs(seconds);
    let early = curve.grow(at(10), cwnd, PACKET, PACKET, RTT);
    curve.pause();
    let later = curve.grow(at(1_000), early, PACKET, PACKET, RTT);
    assert_eq!(curve.epoch.as_ref().map(|epoch| epoch.elapsed), Some(Duration::ZERO));
    assert!(later - early < PACKET, "{early} to {later}");
}

#[test]
fn increases_below_a_byte_per_acknowledgement_add_up() {
    let mut curve = Curve::default();
    let mut cwnd = curve.reduce(10_000_000);
    let before = cwnd;
    for ack in 0..8_000_u64 {
        cwnd = curve.grow(Instant::from_secs(1) + Duration::from_micros(ack), cwnd, 100, PACKET, RTT);
    }
    assert!(cwnd > before + 4_000, "{before} to {cwnd}");
}

#[test]
fn the_cube_root_is_the_largest_whole_number_whose_cube_fits() {
    for (value, root) in [(0, 0), (1, 1), (7, 1), (8, 2), (26, 2), (27, 3), (1_000_000_000, 1_000)] {
        assert_eq!(cube_root(value), root, "{value}");
    }
    assert_eq!(cube_root(u128::MAX), (1 << 42) - 1);
}

#[test]
fn extreme_windows_and_times_do_not_overflow() {
    let mut curve = Curve::default();
    let mut cwnd = curve.reduce(usize::MAX / 8);
    for seconds in [0, 1, 1_000, 10_000_000, 10_000_000_000] {
        cwnd = curve.grow(Instant::from_secs(seconds), cwnd, usize::MAX / 1_000_000, 65_000, Duration::from_secs(60));
        cwnd = cwnd.min(usize::MAX / 8);
    }
}
