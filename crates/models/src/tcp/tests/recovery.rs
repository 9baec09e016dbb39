//! Fast retransmit, fast recovery, SACK, timeouts, ECN.

use super::pipe::{Faults, Pipe, at};
use crate::tcp::{Cause, DelayedAck, RtoConfig, RtoFloor, Switches, TcpConfig, TcpEvent};

fn plain(config: TcpConfig) -> TcpConfig {
    TcpConfig { delayed_ack: DelayedAck::OFF, initial_window_segments: 10, ..config }
}

/// Ten full segments are sent at 1000 ms over a path of 100 ms.
fn ten_segments(config: TcpConfig, lost: &[u64]) -> Pipe {
    let mut pipe = Pipe::losing(plain(config), 50, lost);
    pipe.write_at(1000, 14_600);
    pipe.run_until(at(20_000));
    assert_eq!(pipe.server.bytes_delivered(), 14_600);
    pipe
}

#[test]
fn rfc_5681_3_2_three_duplicate_acks_start_a_fast_retransmit() {
    for config in [TcpConfig::new_reno(), TcpConfig::sack()] {
        let pipe = ten_segments(config, &[0]);
        assert_eq!(pipe.retransmissions(), [(1100, Cause::Fast)]);
        assert_eq!(pipe.delivered_at(14_600), 1150);
        assert_eq!(pipe.client.ssthresh_segments(), Some(5));
    }
}

#[test]
fn rfc_5681_3_2_two_duplicate_acks_do_not() {
    let mut pipe = Pipe::losing(plain(TcpConfig::sack()), 50, &[0]);
    pipe.write_at(1000, 3 * 1460);
    pipe.run_until(at(5000));
    assert_eq!(pipe.retransmissions().first().map(|&(_, cause)| cause), Some(Cause::Timeout));
}

#[test]
fn rfc_6582_3_2_a_partial_ack_retransmits_the_next_hole_one_each_round_trip() {
    let pipe = ten_segments(TcpConfig::new_reno(), &[0, 2, 4]);
    assert_eq!(pipe.retransmissions(), [(1100, Cause::Fast), (1200, Cause::Fast), (1300, Cause::Fast)]);
    assert_eq!(pipe.client.counters().fast_recoveries, 1);
    assert_eq!(pipe.client.ssthresh_segments(), Some(5), "one reduction for one window");
}

#[test]
fn rfc_6675_5_sack_repairs_several_losses_in_one_round_trip() {
    let pipe = ten_segments(TcpConfig::sack(), &[0, 2, 4]);
    assert_eq!(pipe.retransmissions(), [(1100, Cause::Fast); 3]);
    assert_eq!(pipe.delivered_at(14_600), 1150);
    assert_eq!(pipe.client.counters().fast_recoveries, 1);
}

#[test]
fn rfc_6675_4_the_scoreboard_sends_again_only_what_is_missing() {
    let pipe = ten_segments(TcpConfig::sack(), &[1, 3, 5]);
    assert!(!pipe.server_events.iter().any(|(_, event)| matches!(event, TcpEvent::DuplicateReceived { .. })));
    let again: Vec<_> = pipe.sent.iter().skip(10).map(|(_, segment)| segment.sequence / 1460).collect();
    assert_eq!(again, [1, 3, 5]);
}

#[test]
fn fack_believes_in_a_loss_three_segments_below_the_highest_sacked_one() {
    let fack = Switches { fack: true, ..Switches::default() };
    let lost: Vec<_> = (0..8).collect();
    let forward = ten_segments(TcpConfig { switches: fack, ..TcpConfig::sack() }, &lost);
    assert_eq!(forward.retransmissions().first(), Some(&(1100, Cause::Fast)));
    let counted = ten_segments(TcpConfig::sack(), &lost);
    assert_eq!(counted.retransmissions().first().map(|&(_, cause)| cause), Some(Cause::Timeout));
}

#[test]
fn rfc_3042_limited_transmit_sends_new_segments_on_the_first_two_duplicates() {
    let sent_at = |limited_transmit| {
        let switches = Switches { limited_transmit, ..Switches::default() };
        let config = TcpConfig { initial_window_segments: 3, switches, ..plain(TcpConfig::new_reno()) };
        let config = TcpConfig { initial_window_segments: 3, ..config };
        let mut pipe = Pipe::losing(config, 50, &[0]);
        pipe.write_at(1000, 20 * 1460);
        pipe.run_until(at(20_000));
        (pipe.sent_between(1100, 1101), pipe.retransmissions().first().copied())
    };
    assert_eq!(sent_at(true), (2, Some((1200, Cause::Fast))));
    assert_eq!(sent_at(false).0, 0);
    assert_eq!(sent_at(false).1.map(|(_, cause)| cause), Some(Cause::Timeout));
}

#[test]
fn rfc_6298_5_5_each_timeout_doubles_the_next() {
    let mut pipe = Pipe::losing(plain(TcpConfig::new_reno()), 50, &[0, 1, 2, 3, 4]);
    pipe.write_at(1000, 100);
    pipe.run_until(at(60_000));
    let times: Vec<_> = pipe.sent.iter().map(|(time, _)| time.as_nanos() / 1_000_000).collect();
    // SRTT 100 ms and RTTVAR 50 ms from the handshake: RTO 300 ms.
    assert_eq!(times, [1000, 1300, 1900, 3100, 5500, 10_300]);
    assert_eq!(pipe.delivered_at(100), 10_350);
}

#[test]
fn the_rto_s_floor_bounds_the_timeout_or_with_linux_its_variance_term() {
    let first_timeout = |floor| {
        let rto = RtoConfig { floor, ..RtoConfig::default() };
        let mut pipe = Pipe::losing(TcpConfig { rto, ..plain(TcpConfig::sack()) }, 50, &[100]);
        (0..101).for_each(|write| {
            pipe.write_at(1000 + write * 200, 100);
        });
        pipe.run_until(at(60_000));
        pipe.retransmissions().first().map(|&(time, _)| time - 21_000)
    };
    assert_eq!(first_timeout(RtoFloor::Timeout), Some(200));
    assert_eq!(first_timeout(RtoFloor::Variance), Some(300));
}

#[test]
fn linux_thin_linear_timeouts_do_not_double_for_six_times() {
    let times = |thin_linear_timeouts| {
        let switches = Switches { thin_linear_timeouts, ..Switches::default() };
        // The first loss ends the first slow start, during which Linux calls no stream thin.
        let lost = [0, 2, 3, 4, 5, 6, 7, 8, 9];
        let mut pipe = Pipe::losing(TcpConfig { switches, ..plain(TcpConfig::sack()) }, 50, &lost);
        pipe.write_at(1000, 100);
        for write in 0..40 {
            pipe.run_until(at(2000 + write * 10));
        }
        pipe.write_at(5000, 100);
        pipe.run_until(at(300_000));
        let times: Vec<_> = pipe.sent.iter().skip(2).map(|(time, _)| time.as_nanos() / 1_000_000).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
    };
    let linear = times(true);
    assert!(linear[1..6].iter().all(|&gap| gap == linear[1]), "{linear:?}");
    assert_eq!(linear[7], 2 * linear[6]);
    let doubling = times(false);
    assert!(doubling.windows(2).all(|pair| pair[1] == 2 * pair[0]), "{doubling:?}");
}

#[test]
fn rfc_5827_3_early_retransmit_needs_one_duplicate_less_than_is_outstanding() {
    for segments in [2, 3] {
        let switches = Switches { early_retransmit: true, ..Switches::default() };
        for base in [TcpConfig::new_reno(), TcpConfig::sack()] {
            let mut pipe = Pipe::losing(TcpConfig { switches, ..plain(base) }, 50, &[0]);
            pipe.write_at(1000, segments * 1460);
            pipe.run_until(at(5000));
            assert_eq!(pipe.retransmissions(), [(1100, Cause::Fast)], "{segments} segments");
        }
    }
}

#[test]
fn rfc_3168_6_1_2_marks_reduce_cwnd_once_a_window_and_lose_nothing() {
    let config = TcpConfig { ecn: true, ..plain(TcpConfig::sack()) };
    let faults = Faults { marked: [3, 5, 7].into(), ..Faults::default() };
    let mut pipe = Pipe::new(config, 50, faults);
    pipe.write_at(1000, 60 * 1460);
    pipe.run_until(at(9000));
    let counters = pipe.client.counters();
    assert_eq!((counters.ecn_reductions, counters.retransmitted_fast, counters.timeouts), (1, 0, 0));
    assert_eq!(pipe.sent.iter().filter(|(_, segment)| segment.flags.cwr).count(), 1);
    let echoes = pipe.answers.iter().filter(|(_, segment)| segment.flags.ece && !segment.flags.syn).count();
    assert!(echoes > 3, "the echo stays until the sender confirms: {echoes}");
    assert!(pipe.answers.last().is_some_and(|(_, segment)| !segment.flags.ece));
}

#[test]
fn linux_collapses_small_segments_when_it_retransmits() {
    let sent_again = |collapses_retransmissions| {
        let switches = Switches { collapses_retransmissions, ..Switches::default() };
        let mut pipe = Pipe::losing(TcpConfig { switches, ..plain(TcpConfig::new_reno()) }, 50, &[0, 1, 2]);
        [1000, 1010, 1020].into_iter().for_each(|millis| {
            pipe.write_at(millis, 100);
        });
        pipe.run_until(at(9000));
        assert_eq!(pipe.server.bytes_delivered(), 300);
        pipe.sent.get(3).map(|(_, segment)| segment.length_bytes)
    };
    assert_eq!(sent_again(true), Some(300));
    assert_eq!(sent_again(false), Some(100));
}

#[test]
fn rfc_2883_a_duplicate_is_told_to_the_sender_and_to_the_statistics() {
    let mut pipe = Pipe::new(plain(TcpConfig::sack()), 50, Faults { duplication_ppm: 1_000_000, ..Faults::default() });
    pipe.write_at(1000, 1460);
    pipe.run_until(at(2000));
    assert!(pipe.server_events.contains(&(at(1050), TcpEvent::DuplicateReceived { sequence: 0, length_bytes: 1460 })));
    assert!(pipe.answers.iter().any(|(_, segment)| segment.sack.duplicate(segment.ack) == Some((0, 1460))));
    assert_eq!(pipe.client.counters().retransmitted_fast, 0);
}
