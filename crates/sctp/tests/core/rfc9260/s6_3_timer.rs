//! §6.3: RTT, RTO and T3-rtx, seen through the times of retransmissions.

use festina_sctp::{ClosedReason, Event, Message};
use festina_units::Duration;

use super::packet::cookie_echo;
use super::peer::{Peer, config, init_ack, ms, offer};

/// Established without a measurement of the round trip.
fn unmeasured() -> Peer {
    Peer::unmeasured(config())
}

/// Sends a message and acknowledges it after `rtt`; `tsn` counts the messages from 1.
fn round_trip(peer: &mut Peer, tsn: u32, rtt: Duration) {
    peer.send("sample");
    assert_eq!(peer.take_tsns(), [[tsn]]);
    peer.wait(rtt);
    peer.ack(tsn);
    peer.nothing_sent();
}

/// How long it takes until an unacknowledged message is retransmitted.
fn timeout(peer: &mut Peer) -> Duration {
    peer.send("lost");
    assert_eq!(peer.take().len(), 1);
    let pause = peer.wait_for_packet();
    assert_eq!(peer.take().len(), 1);
    pause
}

#[test]
fn s6_3_1_c1_before_the_first_measurement_the_rto_is_rto_initial() {
    let mut settings = config();
    settings.timers.rto_initial = Duration::from_secs(3);
    let mut peer = Peer::connecting(settings);
    peer.take();
    assert_eq!(peer.wait_for_packet(), Duration::from_secs(3), "T1-init");
}

#[test]
fn s6_3_1_c2_the_first_measurement_gives_three_times_itself() {
    let mut peer = unmeasured();
    round_trip(&mut peer, 1, ms(800));
    assert_eq!(timeout(&mut peer), ms(2_400));
}

#[test]
fn s6_3_1_c3_further_measurements_are_smoothed_with_an_eighth_and_a_quarter() {
    let mut peer = unmeasured();
    round_trip(&mut peer, 1, ms(800));
    round_trip(&mut peer, 2, ms(400));
    // RTTVAR = 3/4 * 400 + 1/4 * |800 - 400| = 400, SRTT = 7/8 * 800 + 1/8 * 400 = 750.
    assert_eq!(timeout(&mut peer), ms(750 + 4 * 400));
}

#[test]
fn s6_3_1_c3_a_pause_makes_no_difference() {
    let mut peer = unmeasured();
    round_trip(&mut peer, 1, ms(800));
    peer.wait(Duration::from_secs(12));
    round_trip(&mut peer, 2, ms(400));
    assert_eq!(timeout(&mut peer), ms(750 + 4 * 400));
}

#[test]
fn s6_3_1_c3_rttvar_is_updated_with_the_srtt_of_before() {
    let mut peer = unmeasured();
    round_trip(&mut peer, 1, ms(400));
    round_trip(&mut peer, 2, ms(960));
    // RTTVAR = 3/4 * 200 + 1/4 * |400 - 960| = 290, SRTT = 7/8 * 400 + 1/8 * 960 = 470.
    assert_eq!(timeout(&mut peer), ms(470 + 4 * 290));
}

#[test]
fn s6_3_1_c4_each_round_trip_is_measured() {
    let mut peer = unmeasured();
    for tsn in 1..=40 {
        round_trip(&mut peer, tsn, ms(600));
    }
    let rto = timeout(&mut peer);
    assert!(rto < ms(1_050), "RTTVAR has melted away: {rto:?}");
}

#[test]
fn s6_3_1_c4_a_sack_measures_nothing_that_it_does_not_acknowledge() {
    let mut peer = unmeasured();
    peer.send("sample");
    peer.wait(ms(200));
    peer.ack(0);
    assert_eq!(peer.association().stats().path.srtt, None);
    peer.wait(ms(200));
    peer.ack(1);
    assert_eq!(peer.association().stats().path.srtt, Some(ms(400)));
}

#[test]
fn s6_3_1_c5_a_retransmitted_chunk_is_not_measured() {
    let mut peer = unmeasured();
    round_trip(&mut peer, 1, ms(400));
    assert_eq!(timeout(&mut peer), ms(1_200));
    peer.wait(ms(10));
    peer.ack(2);
    assert_eq!(peer.association().stats().path.srtt, Some(ms(400)));
    assert_eq!(timeout(&mut peer), ms(2_400), "and the doubled RTO stays until there is a measurement");
}

#[test]
fn s6_3_1_c5_nor_is_a_chunk_above_one_that_was_retransmitted_since() {
    let mut peer = unmeasured();
    round_trip(&mut peer, 1, ms(400));
    peer.send("2");
    peer.wait(ms(1_190));
    peer.send("3");
    peer.wait_for_packet();
    peer.wait(ms(10));
    peer.ack(3);
    assert_eq!(peer.association().stats().path.srtt, Some(ms(400)));
}

#[test]
fn s6_3_1_c5_a_retransmitted_init_or_cookie_echo_is_not_measured() {
    assert_eq!(unmeasured().association().stats().path.srtt, None);
}

#[test]
fn s6_3_1_c5_a_cookie_echo_that_may_be_a_retransmission_is_not_measured() {
    let mut peer = Peer::new(config());
    let cookie = peer.begin(&offer());
    peer.wait(Duration::from_secs(7));
    peer.give(&[cookie_echo(&cookie)]);
    peer.take();
    assert_eq!(timeout(&mut peer), Duration::from_secs(1), "the peer has sent it after 0, 1, 3 and 7 seconds");
}

#[test]
fn s6_3_1_c6_the_rto_is_at_least_rto_min() {
    let mut peer = unmeasured();
    round_trip(&mut peer, 1, ms(10));
    assert_eq!(timeout(&mut peer), Duration::from_secs(1));
}

#[test]
fn s6_3_1_c7_the_rto_is_at_most_rto_max() {
    let mut settings = config();
    settings.timers.rto_max = Duration::from_secs(60);
    let mut peer = Peer::serving(settings, &init_ack());
    peer.send("sample");
    peer.take();
    let mut last = Duration::ZERO;
    for _ in 0..9 {
        last = peer.wait_for_packet();
        assert_eq!(peer.take_tsns(), [[1]]);
    }
    assert_eq!(last, Duration::from_secs(60));
}

#[test]
fn s6_3_2_r1_the_timer_starts_with_the_first_chunk_and_later_ones_do_not_restart_it() {
    let mut peer = Peer::established();
    peer.send("1");
    peer.wait(ms(600));
    peer.send("2");
    peer.take();
    assert_eq!(peer.wait_for_packet(), ms(400));
    assert_eq!(peer.take_tsns(), [[1, 2]]);
}

#[test]
fn s6_3_2_r2_the_timer_stops_when_all_is_acknowledged() {
    let mut peer = Peer::established();
    peer.send("1");
    peer.take();
    peer.ack(1);
    peer.wait(Duration::from_secs(600));
    peer.nothing_sent();
}

#[test]
fn s6_3_2_r3_a_sack_of_the_earliest_chunk_restarts_the_timer_with_the_full_rto() {
    let mut peer = Peer::established();
    peer.send("1");
    peer.send("2");
    peer.take();
    peer.wait(ms(300));
    peer.ack(1);
    let rto = peer.association().stats().path.rto;
    assert_eq!(peer.wait_for_packet(), rto);
    assert_eq!(peer.take_tsns(), [[2]]);
}

#[test]
fn s6_3_2_r3_a_sack_of_another_chunk_does_not_restart_the_timer() {
    let mut peer = Peer::established();
    peer.send("1");
    peer.send("2");
    peer.take();
    peer.wait(ms(600));
    peer.ack_gaps(0, &[(2, 2)]);
    assert_eq!(peer.wait_for_packet(), ms(400));
    assert_eq!(peer.take_tsns(), [[1]]);
}

#[test]
fn s6_3_3_e1_after_a_timeout_cwnd_is_one_packet_and_ssthresh_at_least_four() {
    let mut peer = Peer::established();
    peer.send_full(4);
    peer.wait_for_packet();
    peer.wait(Duration::from_secs(1));
    let path = peer.association().stats().path;
    assert_eq!((path.cwnd_bytes, path.ssthresh_bytes), (1_220, 4 * 1_220));
}

#[test]
fn s6_3_3_e1_after_a_timeout_ssthresh_is_half_the_window() {
    let mut peer = Peer::established();
    peer.send_full(60);
    for acked in 1..=10 {
        peer.ack(acked);
    }
    peer.take();
    let before = peer.association().stats().path.cwnd_bytes;
    peer.wait_for_packet();
    let path = peer.association().stats().path;
    assert_eq!((path.cwnd_bytes, path.ssthresh_bytes), (1_220, before / 2));
}

#[test]
fn s6_3_3_e2_each_timeout_doubles_the_rto_up_to_rto_max() {
    let mut peer = Peer::established();
    peer.send("1");
    peer.take();
    let mut pauses = Vec::new();
    for _ in 0..10 {
        pauses.push(peer.wait_for_packet().as_secs());
        assert_eq!(peer.take_tsns(), [[1]]);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
}

/// ETSI TS 102 369, RT 11-3, has two addresses, whose RTOs double apart; with one, one RTO doubles, and the tenth retransmission is the last.
#[test]
fn s6_3_3_e2_etsi_rt_i_11_3_with_one_address_doubles_to_the_end() {
    let mut settings = config();
    (settings.timers.rto_initial, settings.timers.rto_max) = (ms(100), ms(800));
    (settings.mechanisms.normal.rto_min, settings.mechanisms.thin.rto_min) = (ms(100), ms(100));
    settings.retries.unreachable_after_min = Duration::ZERO;
    let mut peer = Peer::serving(settings, &init_ack());
    peer.send("1");
    peer.take();
    for pause_ms in [100, 200, 400, 800, 800, 800, 800, 800, 800, 800] {
        assert_eq!(peer.wait_for_packet(), ms(pause_ms));
        assert_eq!(peer.take_tsns(), [[1]]);
    }
    peer.wait(ms(799));
    assert_eq!(peer.closed(), None);
    peer.wait(ms(1));
    assert_eq!(peer.closed(), Some(&ClosedReason::PeerUnreachable));
    peer.wait(Duration::from_secs(600));
    peer.nothing_sent();
}

#[test]
fn s6_3_3_a_new_measurement_collapses_the_doubled_rto() {
    let mut peer = unmeasured();
    peer.send("1");
    peer.take();
    for _ in 0..4 {
        peer.wait_for_packet();
        peer.take();
    }
    peer.ack(1);
    round_trip(&mut peer, 2, ms(400));
    assert_eq!(timeout(&mut peer), ms(1_200));
}

#[test]
fn s6_3_3_e3_the_earliest_chunks_that_fit_go_out_again_in_one_packet() {
    let mut peer = Peer::established();
    for _ in 0..8 {
        peer.send(vec![0; 284]);
    }
    assert_eq!(peer.take().len(), 8);
    peer.wait_for_packet();
    assert_eq!(peer.take_tsns(), [[1, 2, 3, 4]], "four chunks of 300 bytes fit into 1,220");
}

#[test]
fn s6_3_3_e3_what_did_not_fit_follows_when_cwnd_allows() {
    let mut peer = Peer::established();
    peer.send_full(4);
    peer.take();
    peer.wait_for_packet();
    assert_eq!(peer.take_tsns(), [[1]]);
    peer.wait(ms(900));
    peer.nothing_sent();
    peer.ack(1);
    assert_eq!(peer.take_tsns(), [[2], [3]], "slow start: two packets after one acknowledgement");
}

#[test]
fn s6_3_3_e3_chunks_acknowledged_by_gap_blocks_are_not_sent_again() {
    let mut peer = Peer::established();
    for _ in 0..4 {
        peer.send("small");
    }
    peer.take();
    peer.ack_gaps(0, &[(2, 3)]);
    peer.wait_for_packet();
    assert_eq!(peer.take_tsns(), [[1, 4]]);
}

#[test]
fn s6_3_3_e4_the_timer_runs_again_after_a_retransmission() {
    let mut peer = Peer::established();
    assert_eq!(timeout(&mut peer), Duration::from_secs(1));
    assert_eq!(peer.wait_for_packet(), Duration::from_secs(2));
    assert_eq!(peer.take_tsns(), [[1]]);
}

#[test]
fn s7_2_1_after_a_timeout_one_packet_at_most_is_in_flight_until_an_acknowledgement() {
    let mut peer = Peer::established();
    timeout(&mut peer);
    peer.send("another small one");
    peer.nothing_sent();
    peer.ack(1);
    assert_eq!(peer.take_tsns(), [[2]]);
}

#[test]
fn s6_9_after_the_packet_size_was_lowered_new_messages_are_cut_smaller_and_old_chunks_keep_their_size() {
    let mut peer = Peer::established();
    peer.send_message(Message::new(vec![7; 1_150]));
    let before = peer.take();
    assert_eq!(before.len(), 1);
    let limit = |peer: &mut Peer, bytes| peer.association.as_mut().expect("it is up").limit_packet_bytes(bytes);
    limit(&mut peer, 600);
    // A second report about the same packet, and a size that is no smaller, change nothing.
    limit(&mut peer, 600);
    limit(&mut peer, 9_000);
    peer.send_message(Message::new(vec![8; 1_150]));
    let after = peer.take();
    assert!(after.len() > 1 && after.iter().all(|sent| sent.bytes.len() <= 600), "{after:?}");
    // Neither is acknowledged: all are retransmitted, the first as it was.
    peer.wait_for_packet();
    let again = peer.take();
    assert_eq!(again[0].data()[0].payload, before[0].data()[0].payload);
    peer.ack(1);
    let rest = peer.take();
    assert!(rest.iter().all(|sent| sent.bytes.len() <= 600), "{rest:?}");
    peer.ack(u32::try_from(1 + after.len()).expect("few"));
    assert!(peer.events.contains(&Event::Drained), "{:?}", peer.events);
    let limits: Vec<_> = peer
        .events
        .iter()
        .filter(|event| matches!(event, Event::PacketSizeLimited { packet_bytes_max: 600, .. }))
        .collect();
    assert_eq!(limits.len(), 1, "{:?}", peer.events);
    // No path is too small for what the handshake needs.
    limit(&mut peer, 1);
    peer.send_message(Message::new(vec![9; 1_000]));
    assert!(peer.take().iter().all(|sent| sent.bytes.len() <= 384));
}

#[test]
fn s1_5_3_a_message_keeps_its_tsns_and_its_fragments_when_sent_again() {
    let mut peer = Peer::established();
    peer.send_message(Message::new(vec![7; 1_300]).with_ppid(3));
    let first: Vec<_> = peer.take().iter().flat_map(|sent| sent.data()).collect();
    let mut again = Vec::new();
    while again.len() < first.len() {
        peer.wait_for_packet();
        again.extend(peer.take().iter().flat_map(|sent| sent.data()));
        peer.ack(u32::try_from(again.len()).expect("few"));
        again.extend(peer.take().iter().flat_map(|sent| sent.data()));
    }
    let plain = |list: &[super::packet::Data]| -> Vec<_> {
        list.iter().map(|data| (data.tsn, data.ssn, data.ppid, data.payload.clone())).collect()
    };
    assert_eq!(plain(&first), plain(&again));
    peer.ack(2);
    assert!(peer.events.contains(&Event::Drained));
}
