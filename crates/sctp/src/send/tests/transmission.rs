//! When packets may leave: cwnd, burst limit, idle decay, order of retransmissions, hostile SACKs.

use super::*;

#[test]
fn the_initial_window_lets_four_packets_leave_section_7_2_1() {
    let mut rig = Rig::standard();
    assert_eq!(rig.flight(10, FULL), [[1], [2], [3], [4]]);
    assert_eq!(rig.stats().path.in_flight_bytes, 4 * CHUNKS_BYTES as u64);
    assert_eq!(rig.stats().path.cwnd_bytes, 4_344);
}

#[test]
fn the_window_is_overshot_by_less_than_one_packet_section_6_1_rule_b() {
    let mut rig = Rig::standard();
    rig.flight(20, FULL);
    for cumulative in 1..=8 {
        rig.sack(cumulative, &[]);
        rig.packets();
        let path = rig.stats().path;
        assert!(path.in_flight_bytes < path.cwnd_bytes + CHUNKS_BYTES as u64);
        assert!(path.in_flight_bytes >= path.cwnd_bytes);
    }
}

#[test]
fn one_event_releases_at_most_four_packets_section_6_1_rule_d() {
    let mut config = config(Profile::Rfc9260.mechanisms());
    config.limits.burst_packets_max = 2;
    let mut rig = Rig::with(&config);
    assert_eq!(rig.flight(10, FULL), [[1], [2]]);
    rig.sack(2, &[]);
    assert_eq!(rig.tsns(), [[3], [4]]);
    rig.send_bytes(FULL);
    assert_eq!(rig.tsns(), Vec::<Vec<u32>>::new(), "a message behind others releases nothing");
    rig.sack(3, &[]);
    assert_eq!(rig.tsns(), [[5], [6]]);
}

#[test]
fn messages_that_come_one_by_one_are_not_held_by_the_burst_limit() {
    let mut config = config(Profile::Rfc9260.mechanisms());
    config.limits.burst_packets_max = 1;
    let mut rig = Rig::with(&config);
    assert_eq!(rig.flight(1, 100), [[1]]);
    assert_eq!(rig.flight(1, 100), [[2]]);
    assert_eq!(rig.flight(1, 100), [[3]]);
}

#[test]
fn the_window_decays_while_nothing_is_sent_section_7_2_1() {
    let mut rig = Rig::standard().measured(ms(100));
    rig.flight(60, FULL);
    let mut cumulative = 0;
    while !rig.sender.is_drained() {
        cumulative += 2;
        rig.sack(cumulative.min(60), &[]);
        rig.packets();
    }
    let grown = rig.stats().path.cwnd_bytes;
    assert!(grown > 20_000);
    rig.wait(999);
    rig.flight(1, 100);
    assert_eq!(rig.stats().path.cwnd_bytes, grown, "less than one RTO");
    rig.sack(61, &[]);
    rig.wait(1_000);
    rig.flight(1, 100);
    assert_eq!(rig.stats().path.cwnd_bytes, grown / 2);
    assert_eq!(rig.stats().path.ssthresh_bytes, grown);
    rig.sack(62, &[]);
    rig.wait(60_000);
    rig.flight(1, 100);
    assert_eq!(rig.stats().path.cwnd_bytes, 4 * CHUNKS_BYTES as u64);
}

#[test]
fn the_initial_window_does_not_decay_before_its_first_use() {
    let mut rig = Rig::standard();
    rig.wait(60_000);
    rig.flight(1, 100);
    assert_eq!(rig.stats().path.cwnd_bytes, 4_344);
}

#[test]
fn lost_chunks_leave_before_new_ones_and_share_their_packet_section_6_1_rule_c() {
    let mut rig = Rig::standard();
    assert_eq!(rig.flight(3, 300), [[1, 2, 3]]);
    assert_eq!(rig.expire().1, Some(TimerExpiry::Timeout { counts: true }));
    rig.send_bytes(100);
    assert_eq!(rig.tsns(), [[1, 2, 3, 4]]);
}

#[test]
fn a_sack_of_a_tsn_that_was_never_sent_is_a_violation() {
    let mut rig = Rig::standard();
    rig.flight(2, 100);
    assert!(rig.try_sack(3, WINDOW, &[], &[]).is_err());
    assert!(rig.try_sack(0, WINDOW, &[(2, 3)], &[]).is_err());
    let mut rig = Rig::standard();
    assert!(rig.acknowledge(Acknowledgement::cumulative(Tsn(1))).is_err());
}

#[test]
fn a_sack_older_than_the_last_one_is_dropped_section_6_2_1_d_i() {
    let mut rig = Rig::standard();
    rig.flight(3, FULL);
    rig.sack(2, &[]);
    let before = rig.stats();
    assert_eq!(rig.sack_full(1, 5, &[(2, 2)], &[]), SackOutcome { answered: None });
    assert_eq!(rig.stats(), before);
}

#[test]
fn only_a_sack_that_acknowledges_something_new_shows_that_the_peer_lives_section_8_1() {
    let mut rig = Rig::standard();
    rig.flight(3, FULL);
    assert!(rig.sack(0, &[(2, 2)]).answered.is_some());
    assert!(rig.sack(0, &[(2, 2)]).answered.is_none());
    assert!(rig.sack(2, &[]).answered.is_some(), "chunk 1 is new");
}

#[test]
fn an_acknowledgement_names_the_path_by_which_its_last_chunk_last_left_section_8_2() {
    let config = config(Profile::Rfc9260.mechanisms());
    let mut rig = Rig::with(&config);
    rig.flight(2, FULL);
    rig.expire();
    let other = SendPath::new(rig.now, PathId(1), &config, Arc::new(config.mechanisms), 4_344);
    let primary = std::mem::replace(&mut rig.path, other);
    assert_eq!(rig.packet()[0].tsn, 1);
    rig.path = primary;
    assert_eq!(rig.packet()[0].tsn, 2);
    assert_eq!(rig.sack(1, &[]).answered, Some(PathId(1)));
    assert_eq!(rig.sack(2, &[]).answered, Some(PathId(0)));
}

#[test]
fn a_shutdown_acknowledges_cumulatively_section_9_2() {
    let mut rig = Rig::standard();
    rig.flight(3, FULL);
    let outcome = rig.acknowledge(Acknowledgement::cumulative(Tsn(2)));
    assert_eq!(outcome, Ok(SackOutcome { answered: Some(PathId(0)) }));
    assert_eq!(rig.delivered(), [0, 1]);
    assert!(!rig.sender.is_drained());
}

#[test]
fn duplicates_of_retransmitted_chunks_count_as_spurious_and_others_do_not() {
    let mut rig = Rig::standard();
    rig.flight(2, 100);
    rig.sack_full(0, WINDOW, &[], &[1]);
    assert_eq!(rig.stats().sent.spurious, 0, "the network duplicated it");
    rig.expire();
    assert_eq!(rig.tsns(), [[1, 2]]);
    rig.sack_full(1, WINDOW, &[], &[1]);
    assert_eq!(rig.stats().sent.spurious, 1);
    rig.sack_full(2, WINDOW, &[], &[1, 1, 2, 2, 999, u32::MAX]);
    assert_eq!(rig.stats().sent.spurious, 2, "no more than were sent again");
}

#[test]
fn idle_queues_give_their_memory_back() {
    let mut rig = Rig::standard();
    rig.flight(200, FULL);
    let mut cumulative = 0;
    while !rig.sender.is_drained() {
        cumulative = (cumulative + 4).min(200);
        rig.sack(cumulative, &[]);
        rig.packets();
    }
    assert!(rig.sender.is_drained());
    assert!(rig.sender.ledger.capacity() <= 4);
}
