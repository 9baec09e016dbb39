//! §6.2 and §6.7: what the data receiver acknowledges, when, and how it tells its window.

use festina_sctp::AssociationState;

use super::packet::{ABORT, B, Data, E, ERROR, I, SACK, U, chunk, data};
use super::peer::{Peer, config, init_ack, ms};

/// Established, and past the first DATA chunk, which is acknowledged at once (§5.1). The next TSN is 2.
fn after_first_data() -> Peer {
    let mut peer = Peer::established();
    peer.give(&[data(1)]);
    peer.take_one();
    peer
}

/// An unordered message of `len` bytes.
fn block(tsn: u32, len: usize) -> Vec<u8> {
    Data::new(tsn, 0, &vec![0x33; len]).flags(B | E | U).chunk()
}

#[test]
fn s6_2_one_packet_with_data_is_acknowledged_after_200_ms() {
    let mut peer = after_first_data();
    peer.give(&[data(2)]);
    peer.nothing_sent();
    assert_eq!(peer.wait_for_packet(), ms(200));
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.sack().cumulative), (vec![SACK], 2));
}

#[test]
fn s6_2_a_second_packet_with_data_is_acknowledged_at_once() {
    let mut peer = after_first_data();
    peer.give(&[data(2)]);
    peer.nothing_sent();
    peer.give(&[data(3)]);
    assert_eq!(peer.take_one().sack().cumulative, 3);
    peer.wait(ms(1_000));
    peer.nothing_sent();
}

#[test]
fn s6_2_packets_count_and_not_chunks() {
    let mut peer = after_first_data();
    peer.give(&[data(2), data(3), data(4)]);
    peer.nothing_sent();
    peer.give(&[data(5)]);
    assert_eq!(peer.take_one().sack().cumulative, 5);
}

#[test]
fn s6_2_the_delay_runs_from_the_first_unacknowledged_chunk() {
    let mut settings = config();
    settings.sack.every_packets = 3;
    let mut peer = Peer::serving(settings, &init_ack());
    peer.give(&[data(1)]);
    peer.take_one();
    peer.give(&[data(2)]);
    peer.wait(ms(150));
    peer.give(&[data(3)]);
    peer.nothing_sent();
    assert_eq!(peer.wait_for_packet(), ms(50));
}

#[test]
fn s6_2_the_delay_is_kept_while_t3_runs_and_the_other_way_round() {
    let mut peer = after_first_data();
    peer.send("unacknowledged");
    peer.take_one();
    peer.wait(ms(100));
    peer.give(&[data(2)]);
    assert_eq!(peer.wait_for_packet(), ms(200));
    assert_eq!(peer.take_one().kinds(), [SACK]);
    assert_eq!(peer.wait_for_packet(), ms(700));
    assert_eq!(peer.take_tsns(), [[1]]);
}

#[test]
fn s6_2_the_delay_cannot_be_configured_above_500_ms() {
    let mut settings = config();
    settings.sack.delay = ms(500);
    assert!(settings.validate().is_ok());
    settings.sack.delay = ms(501);
    assert!(settings.validate().is_err());
}

#[test]
fn s6_2_no_packet_without_data_is_acknowledged() {
    let mut peer = after_first_data();
    for _ in 0..3 {
        peer.ack(0);
    }
    peer.wait(ms(1_000));
    peer.nothing_sent();
}

#[test]
fn s6_2_the_i_bit_is_acknowledged_at_once() {
    let mut peer = after_first_data();
    peer.give(&[Data::new(2, 1, b"now").flags(B | E | I).chunk()]);
    assert_eq!(peer.take_one().sack().cumulative, 2);
}

#[test]
fn s6_2_a_packet_with_nothing_but_duplicates_is_acknowledged_at_once_and_names_them() {
    let mut peer = after_first_data();
    peer.give(&[data(1)]);
    let sack = peer.take_one().sack();
    assert_eq!((sack.cumulative, sack.duplicates), (1, vec![1]));
    assert_eq!(peer.received.len(), 1, "and is not delivered again");
}

#[test]
fn s6_7_a_gap_is_reported_at_once_and_with_every_packet_until_it_is_filled() {
    let mut peer = after_first_data();
    peer.give(&[data(3)]);
    assert_eq!(peer.take_one().sack().gaps, [(2, 2)]);
    peer.give(&[data(4)]);
    assert_eq!(peer.take_one().sack().gaps, [(2, 3)]);
    peer.give(&[data(7)]);
    assert_eq!(peer.take_one().sack().gaps, [(2, 3), (6, 6)]);
    peer.give(&[data(2)]);
    let sack = peer.take_one().sack();
    assert_eq!((sack.cumulative, sack.gaps), (4, vec![(3, 3)]));
}

#[test]
fn s6_7_a_duplicate_above_a_gap_is_reported_too() {
    let mut peer = after_first_data();
    peer.give(&[data(3)]);
    peer.take();
    peer.give(&[data(3)]);
    let sack = peer.take_one().sack();
    assert_eq!((sack.cumulative, sack.gaps, sack.duplicates), (1, vec![(2, 2)], vec![3]));
}

#[test]
fn s6_7_more_gaps_than_fit_are_reported_from_the_lowest_in_one_sack() {
    let mut peer = after_first_data();
    for index in 0..400 {
        peer.take();
        peer.give(&[data(3 + 2 * index)]);
    }
    let sent = peer.take_one();
    let sack = sent.sack();
    let expected: Vec<_> = (0..301_u16).map(|index| (2 + 2 * index, 2 + 2 * index)).collect();
    assert_eq!(sack.gaps, expected, "(1232 - 12 - 16) / 4 gap ack blocks fit");
    assert_eq!(sack.cumulative, 1);
}

#[test]
fn s6_1_an_owed_acknowledgement_travels_with_outgoing_data() {
    let mut peer = after_first_data();
    peer.give(&[data(2)]);
    peer.nothing_sent();
    peer.send("reply");
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.sack().cumulative), (vec![SACK, 0], 2));
    peer.wait(ms(500));
    peer.nothing_sent();
}

#[test]
fn s6_2_tsns_wrap_around() {
    let mut peer = Peer::serving(config(), &super::packet::Init { tsn: u32::MAX, ..init_ack() });
    peer.give(&[Data::new(u32::MAX, 0, b"a").chunk()]);
    assert_eq!(peer.take_one().sack().cumulative, u32::MAX);
    peer.give(&[Data::new(1, 2, b"c").chunk()]);
    let sack = peer.take_one().sack();
    assert_eq!((sack.cumulative, sack.gaps), (u32::MAX, vec![(2, 2)]));
    peer.give(&[Data::new(0, 1, b"b").chunk()]);
    assert_eq!(peer.take_one().sack().cumulative, 1);
    assert_eq!(peer.payloads(), [b"a", b"b", b"c"]);
}

#[test]
fn s6_2_the_window_shrinks_by_what_is_not_read_and_grows_by_what_is() {
    let mut settings = config();
    (settings.limits.receive_buffer_bytes, settings.limits.message_bytes_max) = (10_000, 10_000);
    let mut peer = Peer::serving(settings, &init_ack());
    peer.reads = false;
    peer.give(&[block(1, 1_000)]);
    let sack = peer.take_one().sack();
    assert!(sack.a_rwnd <= 9_000 && sack.a_rwnd > 7_000, "{}", sack.a_rwnd);
    peer.give(&[block(2, 1_000), block(3, 1_000)]);
    peer.give(&[block(4, 1_000)]);
    let smaller = peer.take_one().sack().a_rwnd;
    assert!(smaller <= 6_000, "{smaller}");
    while peer.read_one().is_some() {}
    peer.take();
    peer.give(&[block(5, 1_000), block(5, 1_000)]);
    peer.wait(ms(200));
    let larger = peer.take_one().sack().a_rwnd;
    assert!(larger > 7_000, "{larger}");
}

/// A receiver whose buffer of 6,000 bytes is full, with a quarter beyond, and the last TSN that it took.
fn full_receiver() -> (Peer, u32) {
    let mut settings = config();
    (settings.limits.receive_buffer_bytes, settings.limits.message_bytes_max) = (6_000, 6_000);
    let mut peer = Peer::serving(settings, &init_ack());
    peer.reads = false;
    for tsn in 1..20 {
        peer.give(&[block(tsn, 1_000)]);
        peer.wait(ms(200));
        let last = peer.take().pop().expect("a SACK").sack();
        if last.cumulative < tsn {
            return (peer, last.cumulative);
        }
    }
    panic!("nothing is ever dropped");
}

#[test]
fn s6_2_with_a_closed_window_new_data_is_dropped_and_the_sack_says_so_at_once() {
    let (mut peer, last) = full_receiver();
    let accepted = peer.association().stats().received.chunks;
    for tsn in last + 1..last + 4 {
        peer.give(&[block(tsn, 1_000)]);
        let sack = peer.take_one().sack();
        assert_eq!((sack.cumulative, sack.a_rwnd, sack.gaps), (last, 0, vec![]));
    }
    assert_eq!(peer.association().stats().received.chunks, accepted);
}

#[test]
fn s6_2_when_the_window_opens_wide_an_update_is_sent_without_new_data() {
    let (mut peer, last) = full_receiver();
    let mut updates = Vec::new();
    for _ in 0..last {
        assert!(peer.read_one().is_some());
        updates.extend(peer.take());
    }
    let windows: Vec<_> = updates.iter().map(|sent| sent.sack().a_rwnd).collect();
    assert!(!windows.is_empty(), "the open window must be advertised");
    assert!(windows.len() <= 4, "at most one per quarter of the buffer: {windows:?}");
    assert!(windows.iter().all(|&window| window >= 1_220), "no silly windows: {windows:?}");
}

#[test]
fn s6_2_a_window_that_stayed_open_causes_no_updates() {
    let mut peer = after_first_data();
    peer.reads = false;
    for tsn in 2..6 {
        peer.give(&[block(tsn, 100)]);
    }
    peer.take();
    while peer.read_one().is_some() {}
    peer.nothing_sent();
}

#[test]
fn s6_2_data_that_fills_a_gap_is_taken_although_the_window_is_closed() {
    let mut settings = config();
    (settings.limits.receive_buffer_bytes, settings.limits.message_bytes_max) = (6_000, 6_000);
    let mut peer = Peer::serving(settings, &init_ack());
    peer.reads = false;
    let mut window = u32::MAX;
    let mut tsn = 1;
    while window > 0 {
        tsn += 1;
        peer.give(&[block(tsn, 1_000)]);
        window = peer.take_one().sack().a_rwnd;
    }
    peer.give(&[block(1, 1_000)]);
    let sack = peer.take_one().sack();
    assert!(sack.cumulative >= 1, "a full buffer must not block its own head: {sack:?}");
}

#[test]
fn s6_2_an_empty_data_chunk_is_answered_by_an_abort_that_names_its_tsn() {
    let mut peer = after_first_data();
    peer.give(&[Data::new(2, 1, b"").chunk()]);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.the(ABORT).causes()), (vec![ABORT], vec![(9, vec![0, 0, 0, 2])]), "§3.3.10.9");
    assert!(peer.closed().is_some());
}

#[test]
fn s6_5_data_on_a_stream_that_does_not_exist_is_acknowledged_reported_and_discarded() {
    let mut peer = after_first_data();
    peer.give(&[Data::new(2, 0, b"nowhere").stream(4_000).chunk()]);
    let sent = peer.take();
    let errors: Vec<_> = sent.iter().filter(|sent| sent.has(ERROR)).map(|sent| sent.the(ERROR).causes()).collect();
    assert_eq!(errors, [[(1, vec![0x0f, 0xa0, 0, 0])]], "§3.3.10.1, and at once");
    peer.wait(ms(200));
    let sacks: Vec<_> =
        [sent, peer.take()].concat().iter().filter(|sent| sent.has(SACK)).map(|sent| sent.sack()).collect();
    assert_eq!(sacks.last().expect("a SACK").cumulative, 2);
    assert_eq!(peer.received.len(), 1);
    assert_eq!(peer.state(), AssociationState::Established);
}

#[test]
fn s6_2_at_most_one_sack_answers_a_packet() {
    let mut peer = after_first_data();
    peer.give(&[data(3), data(3), data(5), Data::new(6, 5, b"i").flags(B | E | I).chunk(), data(1)]);
    assert_eq!(peer.take_one().kinds(), [SACK]);
}

#[test]
fn s12_4_one_packet_is_answered_by_at_most_one_packet_of_control_chunks() {
    let mut peer = after_first_data();
    let mut chunks: Vec<_> = (0..10).map(|index| super::packet::heartbeat(4, &[index; 50])).collect();
    chunks.extend((0..10).map(|index| chunk(0xfe, index, &[0; 50])));
    peer.give(&chunks);
    assert!(peer.take().len() <= 1);
}
