//! §7.2: slow start, congestion avoidance, fast retransmit and fast recovery.

use festina_sctp::PathStats;
use festina_units::Duration;

use super::packet::Sack;
use super::peer::{PEER_WINDOW, Peer, config, init_ack, ms};

/// PMDCS as a byte count.
const PMDCS: u64 = super::peer::PMDCS as u64;

fn path(peer: &mut Peer) -> PathStats {
    peer.association().stats().path
}

fn cwnd(peer: &mut Peer) -> u64 {
    path(peer).cwnd_bytes
}

/// A peer of a busy sender: 200 full packets queued, and `acked` of them acknowledged one by one.
fn busy(acked: u32) -> Peer {
    let mut peer = Peer::established();
    peer.send_full(200);
    for tsn in 1..=acked {
        peer.ack(tsn);
    }
    peer
}

/// Small messages in packets of their own, all outstanding.
fn small(count: usize) -> Peer {
    let mut peer = Peer::established();
    for _ in 0..count {
        peer.send("small");
    }
    assert_eq!(peer.take().len(), count);
    peer
}

#[test]
fn s7_2_1_the_initial_window_is_4404_bytes_over_ipv4() {
    assert_eq!(cwnd(&mut Peer::established()), 4_404);
}

#[test]
fn s7_2_1_the_initial_window_is_4344_bytes_over_ipv6() {
    let mut peer = Peer::new(config());
    peer.address = "[2001:db8::1]:9899".parse().expect("it is an address");
    peer.connect(1);
    assert_eq!(cwnd(&mut peer), 4_344);
}

#[test]
fn s7_2_1_the_initial_window_is_four_chunks_if_they_are_small_and_two_if_they_are_large() {
    for (packet, expected) in [(512, 4 * 500), (9_012, 2 * 9_000)] {
        let mut settings = config();
        settings.limits.packet_bytes_max = packet;
        assert_eq!(cwnd(&mut Peer::serving(settings, &init_ack())), expected);
    }
}

#[test]
fn s7_2_1_the_initial_ssthresh_is_high() {
    assert!(path(&mut Peer::established()).ssthresh_bytes >= u64::from(PEER_WINDOW));
}

#[test]
fn s7_2_1_slow_start_grows_by_what_was_acknowledged_but_at_most_one_pmdcs() {
    let mut peer = Peer::established();
    let initial = cwnd(&mut peer);
    peer.send_full(20);
    peer.ack(1);
    assert_eq!(cwnd(&mut peer), initial + PMDCS);
    peer.ack(4);
    assert_eq!(cwnd(&mut peer), initial + 2 * PMDCS, "three packets acknowledged, one PMDCS gained");
}

#[test]
fn s7_2_1_slow_start_grows_by_less_if_less_was_acknowledged() {
    let mut peer = Peer::established();
    let initial = cwnd(&mut peer);
    for _ in 0..400 {
        peer.send("12345678");
    }
    peer.ack(1);
    assert_eq!(cwnd(&mut peer), initial + 24, "the chunk with its header: acknowledging in small pieces gains nothing");
}

#[test]
fn s7_2_1_the_window_does_not_grow_unless_it_is_full() {
    let mut peer = Peer::established();
    let initial = cwnd(&mut peer);
    for tsn in 1..20 {
        peer.send_full(1);
        peer.ack(tsn);
    }
    assert_eq!(cwnd(&mut peer), initial);
}

#[test]
fn s7_2_1_an_idle_window_is_halved_per_rto_down_to_four_chunks() {
    let mut peer = busy(40);
    let mut acked = 40;
    while path(&mut peer).in_flight_bytes > 0 {
        acked = peer.take_tsns().concat().into_iter().max().unwrap_or(acked);
        peer.ack(acked);
    }
    let before = cwnd(&mut peer);
    assert!(before > 16 * PMDCS);
    let rto = path(&mut peer).rto;
    peer.wait(rto * 3 / 2);
    peer.send("after a short pause");
    assert_eq!((cwnd(&mut peer), path(&mut peer).ssthresh_bytes), (before / 2, before));
    peer.ack(acked + 1);
    peer.wait(Duration::from_secs(60));
    peer.send("after a long pause");
    assert_eq!(cwnd(&mut peer), 4 * PMDCS);
}

/// A sender in congestion avoidance with cwnd = 5 PMDCS and as much in flight; returns the first TSN in flight.
fn congestion_avoidance() -> (Peer, u32) {
    let mut peer = Peer::established();
    peer.send_full(60);
    peer.take();
    peer.wait_for_packet();
    let mut acked = 0;
    while cwnd(&mut peer) <= 4 * PMDCS {
        acked += 1;
        peer.ack(acked);
    }
    assert_eq!((cwnd(&mut peer), path(&mut peer).ssthresh_bytes), (5 * PMDCS, 4 * PMDCS));
    assert_eq!(path(&mut peer).in_flight_bytes, 5 * PMDCS);
    (peer, acked + 1)
}

#[test]
fn s7_2_2_congestion_avoidance_grows_by_one_pmdcs_per_window() {
    let (mut peer, first) = congestion_avoidance();
    let grown: Vec<_> = (first..first + 11)
        .map(|tsn| {
            peer.ack(tsn);
            cwnd(&mut peer) / PMDCS
        })
        .collect();
    assert_eq!(grown, [5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 7]);
}

#[test]
fn s7_2_2_congestion_avoidance_does_not_grow_when_the_window_is_not_used() {
    let (mut peer, first) = congestion_avoidance();
    let mut acked = first - 1;
    while path(&mut peer).in_flight_bytes > 0 {
        acked += 1;
        peer.ack(acked);
    }
    let before = cwnd(&mut peer);
    peer.take();
    for _ in 0..60 {
        peer.send_full(1);
        acked += 1;
        peer.ack(acked);
    }
    assert_eq!(cwnd(&mut peer), before);
}

#[test]
fn s7_2_4_the_third_missing_report_brings_a_fast_retransmission() {
    let mut peer = small(5);
    peer.ack_gaps(0, &[(2, 2)]);
    peer.ack_gaps(0, &[(2, 3)]);
    peer.nothing_sent();
    peer.ack_gaps(0, &[(2, 4)]);
    assert_eq!(peer.take_tsns(), [[1]]);
}

#[test]
fn s7_2_4_a_sack_that_acknowledges_nothing_new_is_no_missing_report() {
    let mut peer = small(5);
    for _ in 0..5 {
        peer.ack_gaps(0, &[(2, 2)]);
    }
    peer.nothing_sent();
}

#[test]
fn s7_2_4_only_tsns_below_the_highest_newly_acknowledged_count_as_missing() {
    let mut peer = small(10);
    peer.ack_gaps(0, &[(6, 6)]);
    peer.ack_gaps(0, &[(2, 2), (6, 6)]);
    peer.ack_gaps(0, &[(2, 3), (6, 6)]);
    assert_eq!(peer.take_tsns(), [[1]], "4 and 5 were reported once");
    peer.ack_gaps(0, &[(2, 3), (6, 7)]);
    peer.nothing_sent();
    peer.ack_gaps(0, &[(2, 3), (6, 8)]);
    assert_eq!(peer.take_tsns().concat(), [4, 5]);
}

#[test]
fn s7_2_4_in_fast_recovery_an_advance_of_the_cumulative_tsn_reports_all_missing_tsns() {
    let mut peer = small(12);
    peer.ack_gaps(0, &[(2, 2)]);
    peer.ack_gaps(0, &[(2, 3)]);
    peer.ack_gaps(0, &[(2, 4)]);
    assert_eq!(peer.take_tsns(), [[1]]);
    peer.ack_gaps(0, &[(2, 7), (9, 9)]);
    peer.ack_gaps(7, &[(9, 9)]);
    peer.nothing_sent();
    peer.ack_gaps(7, &[(9, 10)]);
    assert_eq!(peer.take_tsns(), [[8]]);
}

#[test]
fn s7_2_3_a_loss_halves_the_window_once_per_recovery() {
    let mut peer = busy(20);
    peer.ack_gaps(20, &[(22, 22)]);
    peer.ack_gaps(20, &[(22, 23)]);
    let before = cwnd(&mut peer);
    peer.ack_gaps(20, &[(22, 24)]);
    let after = path(&mut peer);
    assert_eq!(after.cwnd_bytes, after.ssthresh_bytes);
    let cut = before / 2..=(before + PMDCS) / 2;
    assert!(cut.contains(&after.cwnd_bytes), "{before} to {}, with or without growth first", after.cwnd_bytes);
    for last in 26..=30 {
        peer.ack_gaps(20, &[(22, 24), (26, last)]);
    }
    assert_eq!(cwnd(&mut peer), after.cwnd_bytes, "the loss of 25 belongs to the same recovery");
}

#[test]
fn s7_2_3_the_window_is_not_cut_below_four_chunks() {
    let mut peer = Peer::established();
    peer.send_full(4);
    for last in 2..=4 {
        peer.ack_gaps(0, &[(2, last)]);
    }
    let path = path(&mut peer);
    assert_eq!((path.cwnd_bytes, path.ssthresh_bytes), (4 * PMDCS, 4 * PMDCS));
}

#[test]
fn s7_2_4_the_fast_retransmission_is_one_packet_that_ignores_cwnd() {
    let mut peer = busy(30);
    peer.take();
    for last in 33..=35 {
        only_new_data(&mut peer);
        peer.ack_gaps(30, &[(33, last)]);
    }
    assert!(path(&mut peer).in_flight_bytes > cwnd(&mut peer));
    let sent = peer.take_tsns();
    assert_eq!(sent, [[31]], "32 waits until cwnd allows");
    let mut later = Vec::new();
    let mut last = 35;
    while later.is_empty() {
        last += 1;
        peer.ack_gaps(30, &[(33, last)]);
        later = peer.take_tsns().concat();
    }
    assert_eq!(later[0], 32, "ahead of new data");
}

/// Asserts that all sent chunks are new data, and forgets them.
fn only_new_data(peer: &mut Peer) {
    let tsns = peer.take_tsns().concat();
    assert!(tsns.windows(2).all(|pair| pair[0] < pair[1]) && tsns.iter().all(|&tsn| tsn > 35), "{tsns:?}");
}

#[test]
fn s7_2_4_t3_restarts_when_the_earliest_chunk_is_fast_retransmitted() {
    let mut peer = small(5);
    peer.wait(ms(600));
    for last in 2..=4 {
        peer.ack_gaps(0, &[(2, last)]);
    }
    assert_eq!(peer.take_tsns(), [[1]]);
    let rto = path(&mut peer).rto;
    assert_eq!(peer.wait_for_packet(), rto);
    assert_eq!(peer.take_tsns(), [[1, 5]]);
}

#[test]
fn s7_2_4_t3_does_not_restart_when_another_chunk_is_fast_retransmitted() {
    let mut peer = small(8);
    for last in 2..=4 {
        peer.ack_gaps(0, &[(2, last)]);
    }
    assert_eq!(peer.take_tsns(), [[1]]);
    let rto = path(&mut peer).rto;
    peer.wait(ms(300));
    for last in 6..=8 {
        peer.ack_gaps(0, &[(2, 4), (6, last)]);
    }
    assert_eq!(peer.take_tsns(), [[5]]);
    assert_eq!(peer.wait_for_packet(), rto - ms(300));
}

#[test]
fn s7_2_4_a_chunk_is_fast_retransmitted_only_once() {
    let mut peer = small(12);
    for last in 2..=4 {
        peer.ack_gaps(0, &[(2, last)]);
    }
    assert_eq!(peer.take_tsns(), [[1]]);
    for last in 5..=12 {
        peer.ack_gaps(0, &[(2, last)]);
    }
    peer.nothing_sent();
    peer.wait_for_packet();
    assert_eq!(peer.take_tsns(), [[1]], "by T3");
}

#[test]
fn s7_2_4_fast_recovery_ends_when_all_that_was_outstanding_is_acknowledged() {
    let mut peer = busy(20);
    peer.ack_gaps(20, &[(22, 22)]);
    peer.ack_gaps(20, &[(22, 23)]);
    let exit = peer.take_tsns().concat().into_iter().max().expect("sent");
    peer.ack_gaps(20, &[(22, 24)]);
    let halved = cwnd(&mut peer);
    peer.ack(exit - 1);
    assert_eq!(cwnd(&mut peer), halved, "§7.2.1: no growth in fast recovery");
    peer.ack(exit);
    for last in exit + 2..=exit + 4 {
        peer.ack_gaps(exit, &[(exit + 2, last)]);
    }
    assert!(cwnd(&mut peer) < halved, "a loss after the exit is a new one");
}

#[test]
fn s7_2_4_growth_comes_before_the_cut_when_a_sack_brings_both() {
    let mut peer = busy(20);
    peer.take();
    for last in 23..=24 {
        peer.ack_gaps(20, &[(23, last)]);
    }
    let before = cwnd(&mut peer);
    peer.ack_gaps(21, &[(23, 25)]);
    assert_eq!(cwnd(&mut peer), (before + PMDCS) / 2);
}

#[test]
fn s7_2_3_a_duplicate_report_does_not_hurt_the_window() {
    let mut peer = small(3);
    let before = cwnd(&mut peer);
    let sack = Sack { duplicates: vec![peer.tsn(1); 3], ..peer.sack(3, PEER_WINDOW, &[]) };
    peer.give(&[sack.chunk()]);
    assert_eq!(cwnd(&mut peer), before);
}
