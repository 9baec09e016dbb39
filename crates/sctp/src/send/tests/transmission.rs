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
    while !rig.sender.flight.is_drained() {
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
    assert_eq!(rig.sack_full(1, 5, &[(2, 2)], &[]), PathSet::default());
    assert_eq!(rig.stats(), before);
}

#[test]
fn only_a_sack_that_acknowledges_something_new_shows_that_the_peer_lives_section_8_1() {
    let mut rig = Rig::standard();
    rig.flight(3, FULL);
    assert!(rig.sack(0, &[(2, 2)]).contains(PathId::PRIMARY));
    assert!(!rig.sack(0, &[(2, 2)]).contains(PathId::PRIMARY));
    assert!(rig.sack(2, &[]).contains(PathId::PRIMARY), "chunk 1 is new");
}

/// A rig whose `count` chunks, if any, have timed out on the primary path, and which sends on another one from now on; and the primary path.
fn on_another_path(count: usize) -> (Rig, SendPath) {
    let config = config(Profile::Rfc9260.mechanisms());
    let mut rig = Rig::with(&config);
    if count > 0 {
        rig.flight(count, FULL);
        rig.expire();
    }
    let other = SendPath::new(rig.now, PathId(1), &config, Arc::new(config.mechanisms), 4_344);
    let primary = std::mem::replace(&mut rig.path, other);
    (rig, primary)
}

#[test]
fn an_acknowledgement_names_the_path_by_which_its_last_chunk_last_left_section_8_2() {
    let (mut rig, primary) = on_another_path(2);
    assert_eq!(rig.packet()[0].tsn, 1);
    rig.path = primary;
    assert_eq!(rig.packet()[0].tsn, 2);
    for (cumulative, expected) in [(1, [false, true]), (2, [true, false])] {
        let answered = rig.sack(cumulative, &[]);
        assert_eq!([0, 1].map(|path| answered.contains(PathId(path))), expected);
    }
}

/// Two paths; the first is the primary path.
impl SendPaths for [SendPath; 2] {
    fn primary(&mut self) -> &mut SendPath {
        &mut self[0]
    }

    fn of(&mut self, id: PathId) -> &mut SendPath {
        &mut self[usize::from(id.0)]
    }

    fn all(&mut self) -> impl Iterator<Item = &mut SendPath> {
        self.iter_mut()
    }
}

/// Sends full packets on `other` and then, after `pause`, as many on the primary path.
fn on_both(packets: usize, pause: u64, rtt_of_other: Option<Duration>) -> (Sender, [SendPath; 2], Instant, Events) {
    let (mut rig, primary) = on_another_path(0);
    if let Some(rtt) = rtt_of_other {
        rig.sender.handle_round_trip(rig.now, &mut rig.path, rtt, &mut rig.events);
    }
    assert_eq!(rig.flight(packets, FULL).len(), packets);
    let other = std::mem::replace(&mut rig.path, primary);
    rig.wait(pause);
    assert_eq!(rig.flight(packets, FULL).len(), packets, "the flight on one path leaves the window of the other alone");
    (rig.sender, [rig.path, other], rig.now, rig.events)
}

#[test]
fn a_sack_credits_each_path_with_the_chunks_last_sent_on_it_section_7_2_1() {
    let (mut sender, mut paths, sent_at, mut events) = on_both(4, 30, None);
    let look =
        |paths: &[SendPath; 2]| paths.each_ref().map(|path| (path.limits.congestion.cwnd(), path.repair.rtt().srtt()));
    let before = look(&paths);
    assert_eq!(before, [(4_344, None); 2]);
    let cumulative = |tsn| Acknowledgement::cumulative(Tsn(tsn));
    sender.acknowledge(sent_at + ms(20), &mut paths, cumulative(4), &mut events).expect("it was sent");
    let grown = 4_344 + CHUNKS_BYTES;
    assert_eq!(look(&paths), [before[0], (grown, Some(ms(50)))]);
    sender.acknowledge(sent_at + ms(20), &mut paths, cumulative(8), &mut events).expect("it was sent");
    assert_eq!(look(&paths), [(grown, Some(ms(20))), (grown, Some(ms(50)))]);
}

#[test]
fn a_timeout_concerns_the_chunks_of_its_path_section_6_3_3_e3() {
    let (mut sender, mut paths, _, mut events) = on_both(2, 0, Some(ms(3_000)));
    let deadline = sender.deadline(paths.iter()).expect("chunks are outstanding");
    let expiries = sender.handle_timeout(deadline, &mut paths, &mut events);
    let expected = [Some(TimerExpiry::Timeout { counts: true }), None];
    assert_eq!(expiries.iter().copied().take(2).collect::<Vec<_>>(), expected);
    let is_lost = |chunk: &crate::outstanding::Chunk| matches!(chunk.state, ChunkState::Lost(_));
    assert_eq!(sender.flight.ledger.iter().map(is_lost).collect::<Vec<_>>(), [false, false, true, true]);
    assert_eq!(paths.each_ref().map(|path| path.limits.congestion.cwnd()), [CHUNKS_BYTES, 4_344]);
}

/// The Cumulative TSN Ack Point waits for what the other path has lost.
#[test]
fn an_acknowledgement_of_the_earliest_chunk_of_a_path_restarts_its_timer_section_6_3_2_r3() {
    let (mut sender, mut paths, sent_at, mut events) = on_both(2, 0, Some(ms(3_000)));
    let sack = Sack::new_for_test(Tsn(0), WINDOW, &[(3, 4)], &[]);
    let now = sent_at + ms(500);
    sender.acknowledge(now, &mut paths, Acknowledgement::sack(&sack), &mut events).expect("it is sound");
    assert_eq!(sender.deadline(paths.iter().take(1)), Some(now + paths[0].rto()));
}

#[test]
fn a_chunk_last_sent_on_another_path_measures_no_round_trip_section_6_3_1_c5() {
    let (mut rig, primary) = on_another_path(1);
    assert_eq!(rig.packet()[0].tsn, 1);
    let Rig { mut sender, path, mut events, now, .. } = rig;
    let mut paths = [primary, path];
    let on_the_way = |sender: &Sender| [PathId(0), PathId(1)].map(|id| sender.flight.ledger.on_the_way_bytes(id));
    assert_eq!(on_the_way(&sender), [0, CHUNKS_BYTES]);
    sender.acknowledge(now + ms(5), &mut paths, Acknowledgement::cumulative(Tsn(1)), &mut events).expect("it was sent");
    assert_eq!(on_the_way(&sender), [0, 0]);
    assert_eq!(paths.each_ref().map(|path| path.repair.rtt().srtt()), [None, None]);
}

#[test]
fn a_shutdown_acknowledges_cumulatively_section_9_2() {
    let mut rig = Rig::standard();
    rig.flight(3, FULL);
    let outcome = rig.acknowledge(Acknowledgement::cumulative(Tsn(2)));
    assert!(outcome.is_ok_and(|outcome| outcome.contains(PathId::PRIMARY)));
    assert_eq!(rig.delivered(), [0, 1]);
    assert!(!rig.sender.flight.is_drained());
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
    while !rig.sender.flight.is_drained() {
        cumulative = (cumulative + 4).min(200);
        rig.sack(cumulative, &[]);
        rig.packets();
    }
    assert!(rig.sender.flight.is_drained());
    assert!(rig.sender.flight.ledger.capacity() <= 4);
}
