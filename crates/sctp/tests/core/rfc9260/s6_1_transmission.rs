//! §6.1 and §6.2.1: when the data sender may send, and its handling of a SACK.

use festina_sctp::{AssociationState, ClosedReason, Event, PathId};
use festina_units::Duration;

use super::packet::{ABORT, Init};
use super::peer::{PEER_WINDOW, PMDCS, Peer, config, init_ack, ms};

/// Established with a peer that advertises this window.
fn with_window(a_rwnd: u32) -> Peer {
    let mut config = config();
    config.limits.exceeds_peer_buffer = true;
    Peer::serving(config, &Init { a_rwnd, ..init_ack() })
}

/// One message acknowledged as the peer closed its window, some time after the handshake, and two full packets waiting.
fn window_closed() -> Peer {
    let mut peer = Peer::established();
    peer.wait(ms(700));
    peer.send("x");
    peer.take();
    peer.ack_window(1, 0);
    peer.send_full(2);
    peer.nothing_sent();
    peer
}

#[test]
fn s6_1_a_no_new_data_leaves_that_the_peers_window_has_no_room_for() {
    let mut peer = with_window(3_000);
    peer.send_full(4);
    assert_eq!(peer.take_tsns(), [[1], [2]], "592 bytes are left");
    peer.ack_window(2, 3_000);
    assert_eq!(peer.take_tsns(), [[3], [4]]);
}

#[test]
fn s6_2_1_d_the_window_is_what_the_sack_says_less_what_is_outstanding() {
    let mut peer = Peer::established();
    peer.send_full(6);
    assert_eq!(peer.take_tsns(), [[1], [2], [3], [4]]);
    let outstanding = 3 * 1_204;
    peer.ack_window(1, outstanding + 1_204 + 600);
    assert_eq!(peer.take_tsns(), [[5]], "the congestion window would have let two go");
}

#[test]
fn s6_1_a_a_closed_window_is_probed_after_one_rto_with_one_chunk() {
    let mut peer = window_closed();
    assert_eq!(peer.wait_for_packet(), Duration::from_secs(1));
    assert_eq!(peer.take_tsns(), [[2]]);
}

#[test]
fn s6_1_a_the_pause_between_window_probes_grows_and_answered_probes_never_kill_the_association() {
    let mut peer = window_closed();
    let mut pauses = Vec::new();
    for _ in 0..30 {
        pauses.push(peer.wait_for_packet().as_secs());
        assert_eq!(peer.take_tsns(), [[2]], "the same chunk, and it alone");
        peer.ack_window(1, 0);
        peer.nothing_sent();
    }
    assert_eq!((pauses[0], pauses[29]), (1, 60));
    let exponential = pauses[1..].windows(2).all(|pair| pair[1] == (2 * pair[0]).min(60));
    assert!(exponential, "{pauses:?}");
    assert_eq!(peer.state(), AssociationState::Established);
    assert!(!peer.events.contains(&Event::PathReachable { path: PathId::PRIMARY, reachable: false }));
}

#[test]
fn s6_1_a_when_the_window_opens_again_data_flows() {
    let mut peer = window_closed();
    peer.wait_for_packet();
    peer.take();
    peer.ack_window(1, 0);
    peer.ack_window(2, PEER_WINDOW);
    assert_eq!(peer.take_tsns(), [[3]]);
    peer.ack(3);
    assert!(peer.events.contains(&Event::Drained));
}

#[test]
fn s6_1_a_a_window_update_lets_data_flow_without_a_probe() {
    let mut peer = window_closed();
    peer.ack_window(1, PEER_WINDOW);
    assert_eq!(peer.take_tsns(), [[2], [3]]);
}

#[test]
fn s6_1_a_no_window_probe_leaves_while_data_is_outstanding() {
    let mut peer = Peer::established();
    peer.send_full(3);
    peer.take();
    peer.send_full(1);
    peer.take();
    peer.ack_window(3, 0);
    peer.send_full(1);
    peer.wait(ms(900));
    peer.nothing_sent();
}

#[test]
fn s6_1_a_small_windows_are_not_filled_with_small_fragments() {
    let mut peer = with_window(1_500);
    peer.send(vec![1; 5_000]);
    assert_eq!(peer.take_tsns(), [[1]]);
    peer.ack_window(1, 100);
    peer.nothing_sent();
    peer.ack_window(1, 1_500);
    let sent = peer.take_one();
    assert_eq!(sent.data()[0].payload.len(), 1_204, "silly window syndrome (RFC 1122 §4.2.3.4)");
}

#[test]
fn s6_1_b_no_more_than_cwnd_is_outstanding_but_for_one_packet() {
    for len in [1, 100, 700, 1_204] {
        let mut peer = Peer::established();
        for _ in 0..400 {
            peer.send(vec![0; len]);
        }
        let chunks = peer.take().iter().map(|sent| sent.data().len()).sum::<usize>();
        let outstanding = chunks * (16 + len).next_multiple_of(4);
        let cwnd = usize::try_from(peer.association().stats().path.cwnd_bytes).expect("small");
        assert!(outstanding >= cwnd, "{outstanding} of {cwnd} bytes were used");
        assert!(outstanding < cwnd + PMDCS, "{outstanding} of {cwnd} bytes");
    }
}

#[test]
fn s6_1_with_a_full_window_messages_are_taken_and_wait() {
    let mut peer = Peer::established();
    peer.send_full(4);
    peer.take();
    peer.send_full(10);
    peer.nothing_sent();
    peer.ack(1);
    assert_eq!(peer.take_tsns().concat()[0], 5);
}

#[test]
fn s6_1_c_chunks_marked_for_retransmission_leave_before_new_data() {
    let mut peer = Peer::established();
    peer.send_full(8);
    peer.take();
    peer.wait_for_packet();
    assert_eq!(peer.take_tsns(), [[1]]);
    peer.ack(1);
    assert_eq!(peer.take_tsns(), [[2], [3]]);
    peer.ack(3);
    assert_eq!(peer.take_tsns().concat()[..2], [4, 5]);
}

#[test]
fn s6_1_d_an_acknowledgement_releases_no_more_than_max_burst_packets() {
    let mut peer = Peer::established();
    peer.send_full(60);
    peer.take();
    for acked in 1..16 {
        peer.ack(acked);
    }
    let outstanding = peer.take_tsns().concat().into_iter().max().expect("sent");
    assert!(peer.association().stats().path.cwnd_bytes > 8 * 1_220);
    peer.ack(outstanding);
    let burst = peer.take().len();
    assert!((1..=4).contains(&burst), "{burst} packets");
}

#[test]
fn s6_2_1_d_a_sack_older_than_the_last_is_dropped() {
    let mut peer = Peer::established();
    peer.send("a");
    peer.send("b");
    peer.take();
    peer.ack(2);
    peer.ack_window(1, 0);
    peer.send("c");
    assert_eq!(peer.take_tsns(), [[3]], "its closed window did not count");
}

#[test]
fn s6_2_1_d_what_the_receiver_reneged_on_is_sent_again() {
    let mut peer = Peer::established();
    peer.send_full(3);
    peer.take();
    peer.ack_gaps(0, &[(2, 3)]);
    peer.ack(1);
    assert!(!peer.events.contains(&Event::Drained));
    let mut again = Vec::new();
    while again.len() < 2 {
        assert!(peer.wait_for_packet() <= Duration::from_secs(2));
        again.extend(peer.take_tsns().concat());
        let last = *again.last().expect("something was sent");
        peer.ack(last);
    }
    assert_eq!(again, [2, 3]);
    assert!(peer.events.contains(&Event::Drained));
}

#[test]
fn s6_3_2_r4_reneging_starts_t3() {
    let mut peer = Peer::established();
    peer.send("a");
    peer.send("b");
    peer.take();
    peer.ack_gaps(0, &[(2, 2)]);
    peer.wait(ms(700));
    peer.ack(1);
    assert_eq!(peer.wait_for_packet(), Duration::from_secs(1).max(rto(&mut peer)));
    assert_eq!(peer.take_tsns(), [[2]]);
}

/// The retransmission timeout before its last doubling.
fn rto(peer: &mut Peer) -> Duration {
    peer.association().stats().path.rto / 2
}

#[test]
fn s6_7_a_cumulative_acknowledgement_frees_the_send_buffer() {
    let mut peer = Peer::established();
    peer.send_full(2);
    peer.take();
    peer.ack(1);
    assert_eq!(peer.association().stats().path.send_buffer_bytes, 1_204);
    peer.ack(2);
    assert_eq!(peer.association().stats().path.send_buffer_bytes, 0);
}

#[test]
fn s12_4_a_sack_of_a_tsn_that_was_never_sent_aborts_the_association() {
    for (cumulative, blocks) in [(3, vec![]), (0, vec![(2, 3)]), (0, vec![(3, 3)])] {
        let mut peer = Peer::established();
        peer.send("a");
        peer.send("b");
        peer.take();
        peer.ack_gaps(cumulative, &blocks);
        assert_eq!(peer.take_one().kinds(), [ABORT], "{cumulative} {blocks:?}");
        assert!(matches!(peer.closed(), Some(ClosedReason::ProtocolViolation(_))));
    }
}

#[test]
fn s6_1_no_more_messages_of_a_stream_are_in_the_send_window_than_ssns_tell_apart() {
    let mut roomy = config();
    roomy.limits.send_buffer_bytes = 64 << 20;
    let mut peer = Peer::serving(roomy, &init_ack());
    let mut highest = 0;
    for _ in 0..340 {
        for _ in 0..100 {
            peer.send("s");
        }
        highest = peer.take_tsns().concat().into_iter().fold(highest, u32::max);
        peer.ack_gaps(0, &[(2, highest)]);
    }
    assert_eq!(highest, 32_767, "the window lets them go, and the first is not acknowledged yet: half of the SSNs");
    peer.ack(highest);
    assert_eq!(peer.take_tsns().concat().first(), Some(&32_768));
}

#[test]
fn s6_data_is_acknowledged_by_a_sack_in_the_pending_state_too() {
    let mut peer = Peer::established();
    peer.send("a");
    peer.shutdown();
    peer.take();
    assert_eq!(peer.state(), AssociationState::ShutdownPending);
    peer.ack(1);
    assert_eq!(peer.state(), AssociationState::ShutdownSent);
}
