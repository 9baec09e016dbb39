//! FORWARD-TSN (RFC 3758 §3.6).

use super::*;
use crate::wire::ChunkOut;

impl Rig {
    /// Has a packet with FORWARD-TSN arrive: the new cumulative TSN, and the last SSN that is skipped of each stream.
    pub(super) fn forward(&mut self, new_cumulative: u32, streams: &[(u16, u16)]) {
        let streams: Vec<_> = streams.iter().map(|&(stream, ssn)| (StreamId(stream), Ssn(ssn))).collect();
        let mut buffer = Vec::new();
        let mut packet = PacketBuilder::new(&mut buffer, HEADER, 65_000);
        assert!(packet.chunk(&ChunkOut::ForwardTsn { new_cumulative: Tsn(new_cumulative), streams: &streams }));
        packet.finish();
        match Packet::parse(&buffer).unwrap().chunks().next() {
            Some(Ok(Chunk::ForwardTsn(forward))) => self.receiver.handle_forward_tsn(&forward, buffer.len()),
            other => panic!("{other:?} is not FORWARD-TSN"),
        }
        self.receiver.packet_done(self.now);
    }
}

#[test]
fn rfc3758_3_6_the_cumulative_tsn_goes_to_the_new_one_and_on_over_what_has_arrived() {
    let mut rig =
        Rig { receiver: Receiver::new(&Config::default(), Tsn(103), STREAMS, Framing::Data), now: Instant::ZERO };
    rig.accept(&[104, 105, 107].map(|tsn| whole(tsn, 0, 0, "x").unordered()));
    rig.forward(103, &[]);
    let sack = rig.sack();
    assert_eq!((sack.cumulative, sack.gaps), (105, vec![(2, 2)]), "the example of the RFC");
}

#[test]
fn rfc3758_3_6_messages_that_wait_for_a_skipped_one_are_delivered_and_later_ones_go_on_waiting() {
    let mut rig = Rig::new();
    rig.accept(&[whole(2, 0, 1, "b"), whole(4, 0, 3, "d"), whole(6, 0, 5, "f"), whole(7, 1, 1, "other stream")]);
    rig.forward(3, &[(0, 2)]);
    assert_eq!(rig.texts(), ["b", "d"], "SSN 1 had come, SSN 3 was due next");
    assert_eq!(rig.sack().cumulative, 4);
    rig.accept(&[whole(5, 0, 4, "e")]);
    assert_eq!(rig.texts(), ["e", "f"]);
}

#[test]
fn rfc3758_3_6_a_message_that_lacks_a_skipped_tsn_is_dropped_and_makes_room() {
    for unordered in [false, true] {
        for missing in [1, 2, 3] {
            let mut rig = Rig::new();
            let pieces = [piece(1, 0, 0, "B", [0; 900]), piece(2, 0, 0, "M", [0; 900]), piece(3, 0, 0, "E", [0; 900])];
            let pieces = pieces.map(|piece| if unordered { piece.unordered() } else { piece });
            for piece in pieces.iter().filter(|piece| piece.header.tsn.0 != missing) {
                rig.accept(std::slice::from_ref(piece));
            }
            assert!(rig.receiver.used_bytes() > 1_800);
            rig.forward(3, if unordered { &[] } else { &[(0, 0)] });
            assert_eq!(rig.receiver.used_bytes(), 0);
            let sack = rig.sack();
            assert_eq!((sack.cumulative, sack.gaps.len()), (3, 0));
            assert_eq!(sack.a_rwnd, Config::default().limits.receive_buffer_bytes);
            rig.accept(&[whole(4, 0, u16::from(!unordered), "next")]);
            assert_eq!(rig.texts(), ["next"]);
        }
    }
}

#[test]
fn rfc3758_3_6_a_message_that_lacks_only_later_tsns_is_kept_unless_its_stream_has_skipped_it() {
    let begun = [piece(2, 0, 1, "B", "kept "), piece(3, 0, 1, "M", "as it ")];
    let mut rig = Rig::new();
    rig.accept(&begun);
    rig.forward(2, &[(0, 0)]);
    rig.accept(&[piece(4, 0, 1, "E", "was")]);
    assert_eq!(rig.texts(), ["kept as it was"]);

    let mut rig = Rig::new();
    rig.accept(&begun);
    rig.forward(2, &[(0, 1)]);
    assert_eq!(rig.receiver.used_bytes(), 0);
    rig.accept(&[piece(4, 0, 1, "E", "was"), whole(5, 0, 2, "next")]);
    assert_eq!(rig.texts(), ["next"]);
}

#[test]
fn a_message_that_was_kept_is_given_up_when_another_begins_where_it_should_go_on() {
    for next in [vec![whole(4, 0, 0, "next")], vec![piece(4, 0, 0, "B", "ne"), piece(5, 0, 0, "E", "xt")]] {
        let mut rig = Rig::new();
        rig.accept(&[piece(2, 0, 0, "B", "never ").unordered(), piece(3, 0, 0, "M", "ends").unordered()]);
        rig.forward(2, &[]);
        assert!(rig.receiver.used_bytes() > 0, "the rest might come");
        rig.accept(&next);
        assert_eq!((rig.texts(), rig.receiver.used_bytes()), (vec!["next".to_owned()], 0));
    }
}

#[test]
fn fragments_that_go_on_a_message_whose_beginning_was_skipped_are_dropped_in_whatever_order_they_come() {
    let rest = [piece(3, 0, 0, "M", "c"), piece(4, 0, 0, "M", "d"), piece(5, 0, 0, "E", "e"), whole(6, 0, 1, "next")];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2], [2, 0, 1, 3], [1, 3, 0, 2]] {
        for forward_after in 0..=4 {
            let mut rig = Rig::new();
            for (count, &index) in order.iter().enumerate() {
                if count == forward_after {
                    rig.forward(2, &[(0, 0)]);
                }
                rig.accept(&[rest[index].clone()]);
            }
            if forward_after == 4 {
                rig.forward(2, &[(0, 0)]);
            }
            assert_eq!(rig.texts(), ["next"], "{order:?}, {forward_after}");
            assert_eq!((rig.sack().cumulative, rig.receiver.used_bytes()), (6, 0), "{order:?}, {forward_after}");
        }
    }
}

#[test]
fn rfc3758_3_6_a_skipped_tsn_that_comes_late_is_a_duplicate() {
    let mut rig = Rig::new();
    rig.forward(3, &[(0, 2)]);
    rig.sack();
    assert_eq!(rig.packet(&[whole(2, 0, 1, "late")]), [Ok(DataVerdict::Duplicate)]);
    assert_eq!((rig.sack().duplicates, rig.texts().len()), (vec![2], 0));
}

#[test]
fn a_message_of_a_skipped_number_that_comes_with_a_later_tsn_is_acknowledged_and_dropped() {
    let mut rig = Rig::new();
    rig.forward(3, &[(0, 2)]);
    rig.accept(&[whole(4, 0, 2, "late"), piece(5, 0, 1, "B", "la"), piece(6, 0, 1, "E", "te"), whole(7, 0, 3, "next")]);
    assert_eq!((rig.texts(), rig.sack().cumulative), (vec!["next".to_owned()], 7));
    assert_eq!(rig.receiver.used_bytes(), 0);
}

#[test]
fn rfc3758_3_6_a_forward_tsn_that_is_out_of_date_changes_nothing_and_is_answered_at_once() {
    let mut rig = Rig::new();
    rig.accept(&[whole(1, 0, 0, "a"), whole(2, 0, 1, "b"), whole(4, 0, 3, "d")]);
    rig.sack();
    for new_cumulative in [2, 1, 0, u32::MAX, 0x8000_0002] {
        rig.forward(new_cumulative, &[(0, 2)]);
        assert!(rig.receiver.sack_wanted(), "{new_cumulative}");
        assert_eq!(rig.sack().cumulative, 2);
    }
    assert_eq!(rig.texts(), ["a", "b"], "SSN 3 keeps waiting");
}

#[test]
fn rfc3758_3_6_a_forward_tsn_is_acknowledged_as_data_would_be() {
    let mut rig = Rig::new();
    rig.accept(&[whole(1, 0, 0, "a")]);
    rig.sack();
    rig.forward(2, &[(0, 1)]);
    assert!(!rig.receiver.sack_wanted() && rig.receiver.sack_useful(), "delayed");
    rig.wait(Duration::from_millis(200));
    assert!(rig.receiver.sack_wanted());
    rig.sack();
    rig.forward(3, &[(0, 2)]);
    rig.forward(4, &[(0, 3)]);
    assert!(rig.receiver.sack_wanted(), "the second packet");
    rig.accept(&[whole(6, 0, 5, "f")]);
    rig.sack();
    rig.forward(5, &[(0, 4)]);
    assert!(rig.receiver.sack_wanted(), "a TSN was missing");
}

#[test]
fn stale_repeated_and_unknown_streams_are_passed_over() {
    let mut rig = Rig::new();
    rig.accept(&[whole(1, 0, 0, "a"), whole(2, 0, 1, "b"), whole(4, 0, 3, "d")]);
    rig.forward(3, &[(0, 0), (STREAMS, 9), (u16::MAX, 9), (0, 2), (0, 2), (0, 1), (0, 0x9000)]);
    assert_eq!(rig.texts(), ["a", "b", "d"]);
    rig.accept(&[whole(5, 0, 4, "e")]);
    assert_eq!(rig.texts(), ["e"]);
}

#[test]
fn ssns_are_skipped_across_their_wrap() {
    let mut rig = Rig::new();
    for (count, ssn) in [0x7000, 0xe000, 0xfffd].into_iter().enumerate() {
        rig.forward(1 + u32::try_from(count).unwrap(), &[(0, ssn)]);
    }
    let ssns = [0xfffe, 0xffff, 0, 1, 2, 3u16];
    let pieces = (4..).zip(ssns).map(|(tsn, ssn)| whole(tsn, 0, ssn, format!("{ssn:x}")));
    let held: Vec<_> = pieces.filter(|piece| ![0xfffe, 1].contains(&piece.header.ssn.0)).collect();
    rig.accept(&held);
    assert_eq!(rig.texts(), [""; 0]);
    rig.forward(7, &[(0, 1)]);
    assert_eq!(rig.texts(), ["ffff", "0", "2", "3"]);
}

#[test]
fn jumps_as_far_as_they_may_go_cost_no_more_than_what_is_held_and_wrap_around() {
    let mut rig = Rig::new();
    let mut cumulative = 0_u32;
    for _ in 0..2_100 {
        rig.accept(&[whole(cumulative.wrapping_add(5), 0, 9, "x").unordered()]);
        rig.accept(&[piece(cumulative.wrapping_add(9), 0, 9, "B", "x").unordered()]);
        cumulative = cumulative.wrapping_add(1 << 21);
        rig.forward(cumulative, &[(0, 0x7fff)]);
        assert_eq!((rig.sack().cumulative, rig.receiver.used_bytes() <= 300), (cumulative, true));
        rig.texts();
        assert_eq!(rig.receiver.used_bytes(), 0);
    }
}

#[test]
fn streams_are_skipped_only_where_their_table_has_room_to_grow() {
    let mut config = Config::default();
    config.limits.receive_buffer_bytes = 64 << 10;
    let mut rig = Rig { receiver: Receiver::new(&config, Tsn(1), 16_000, Framing::Data), now: Instant::ZERO };
    // The application fetches nothing, and a TSN is missing, so that the second buffer is used as well.
    rig.packet(&[whole(30_000, 0, 0, "gap").unordered()]);
    let mut tsn = 1;
    while rig.packet(&[whole(tsn, 0, 0, [0; 1_000]).unordered()])[0] == Ok(DataVerdict::Accepted) {
        tsn += 1;
    }
    let before_bytes = rig.receiver.used_bytes();
    assert!(before_bytes > 125 << 10);
    let streams: Vec<_> = (0..16_000).step_by(9).map(|stream| (stream, 0)).collect();
    rig.forward(tsn, &streams);
    assert_eq!((rig.sack().cumulative, rig.receiver.used_bytes()), (tsn - 1, before_bytes), "as if it had been lost");
    rig.forward(tsn, &streams[..9]);
    assert_eq!(rig.sack().cumulative, tsn, "a few streams find room in a full buffer");
    while rig.receiver.poll_message().is_some() {}
    rig.forward(tsn + 1, &streams);
    assert_eq!(rig.sack().cumulative, tsn + 1);
}

#[test]
fn a_small_buffer_has_room_to_skip_hundreds_of_streams_while_their_table_costs_nothing() {
    let mut config = Config::default();
    config.limits.receive_buffer_bytes = 1_500;
    let mut rig = Rig { receiver: Receiver::new(&config, Tsn(1), 8_000, Framing::Data), now: Instant::ZERO };
    let streams: Vec<_> = (0..640).map(|place| (place * 9, 0)).collect();
    rig.forward(1, &streams);
    assert_eq!((rig.sack().cumulative, rig.receiver.used_bytes()), (1, 0));
}

#[test]
fn one_stream_is_skipped_however_full_the_buffer_and_large_the_table() {
    let mut config = Config::default();
    config.limits.receive_buffer_bytes = 64 << 10;
    let mut rig = Rig { receiver: Receiver::new(&config, Tsn(1), 16_000, Framing::Data), now: Instant::ZERO };
    let mut tsn = 1;
    for stream in 0..15_990 {
        rig.accept(&[whole(tsn, stream, 0, "x")]);
        rig.texts();
        tsn += 1;
    }
    rig.packet(&[whole(30_000, 0, 0, "gap").unordered()]);
    while rig.packet(&[whole(tsn, 0, 0, [0; 1_000]).unordered()])[0] == Ok(DataVerdict::Accepted) {
        tsn += 1;
    }
    rig.forward(tsn, &[(15_998, 0), (15_999, 0)]);
    assert_eq!(rig.sack().cumulative, tsn - 1, "the table might double");
    rig.forward(tsn, &[(15_999, 0)]);
    assert_eq!(rig.sack().cumulative, tsn);
}

#[test]
fn a_skip_over_more_than_can_have_been_on_its_way_is_of_another_association() {
    for (skipped, is_taken) in [(1 << 20, true), ((1 << 21) + 1, false), (462_000_000, false)] {
        let mut rig = Rig::new();
        rig.forward(skipped, &[]);
        let cumulative = if is_taken { skipped } else { 0 };
        assert_eq!(rig.sack().cumulative, cumulative, "{skipped} TSNs");
        rig.accept(&[whole(cumulative + 1, 0, 0, "x")]);
        assert_eq!(rig.texts(), ["x"]);
    }
}

/// Linux frees the unsent rest of an abandoned message, without a TSN for it (RFC 3758 §3.5 A3 asks for one).
#[test]
fn a_peer_that_may_skip_messages_may_leave_one_without_its_end_where_the_next_begins() {
    let mut receiver = Rig::new();
    receiver.receiver.expect_skips(true);
    receiver.accept(&[whole(1, 1, 0, "first"), piece(2, 1, 1, "B", "given"), piece(3, 1, 1, "M", "up")]);
    receiver.accept(&[whole(4, 2, 0, "other"), whole(5, 1, 2, "third")]);
    assert_eq!(receiver.texts(), ["first", "other", "third"], "nothing waits for what will not come");
    assert_eq!(receiver.receiver.used_bytes(), 0);
}

#[test]
fn what_is_given_up_above_a_gap_is_dropped_when_the_gap_is_filled() {
    for fragments in [false, true] {
        let mut receiver = Rig::new();
        receiver.receiver.expect_skips(true);
        receiver.accept(&[piece(3, 1, 1, "B", "given"), piece(4, 1, 1, "M", "up")]);
        let next = if fragments {
            vec![piece(5, 1, 2, "B", "thi"), piece(6, 1, 2, "E", "rd")]
        } else {
            vec![whole(5, 1, 2, "third")]
        };
        receiver.accept(&next);
        assert!(receiver.texts().is_empty());
        receiver.accept(&[whole(1, 1, 0, "first"), whole(2, 2, 0, "other")]);
        assert_eq!(receiver.texts(), ["first", "other", "third"]);
        assert_eq!(receiver.receiver.used_bytes(), 0);
    }
}

#[test]
fn a_fragment_that_comes_late_goes_with_the_message_that_was_given_up() {
    let mut receiver = Rig::new();
    receiver.receiver.expect_skips(true);
    receiver.accept(&[piece(3, 1, 0, "M", "up"), whole(4, 1, 1, "second")]);
    receiver.accept(&[piece(1, 1, 0, "B", "give"), piece(2, 1, 0, "M", "n ")]);
    assert_eq!(receiver.texts(), ["second"]);
    assert_eq!(receiver.receiver.used_bytes(), 0);
}

#[test]
fn fragments_that_are_repeated_after_the_next_message_has_come_are_given_up_too() {
    for lost in [1, 2] {
        let mut receiver = Rig::new();
        receiver.receiver.expect_skips(true);
        let given_up = [piece(1, 1, 0, "B", "given"), piece(2, 1, 0, "M", "up")];
        let (late, soon): (Vec<_>, Vec<_>) = given_up.into_iter().partition(|piece| piece.header.tsn.0 >= lost);
        receiver.accept(&soon);
        receiver.accept(&[whole(3, 1, 1, "second")]);
        receiver.accept(&late);
        assert_eq!(receiver.texts(), ["second"], "lost from {lost} on");
        assert_eq!(receiver.receiver.used_bytes(), 0);
    }
}

#[test]
fn where_nobody_may_skip_messages_a_message_without_its_end_is_a_violation_still() {
    for pieces in [[piece(1, 1, 0, "B", "a"), whole(2, 1, 1, "b")], [piece(6, 1, 0, "B", "a"), whole(7, 1, 1, "b")]] {
        assert_eq!(Rig::new().violation(&pieces), "a message begins before the one before it has ended");
    }
}

#[test]
fn a_skip_over_more_than_half_of_the_ssns_moves_the_stream_too_and_a_stale_entry_does_not() {
    // RFC 9260 §6.1 lets a peer have 65,535 ordered messages of a stream under way.
    for skipped in [32_766, 32_767, 32_768, 32_769, 65_535_u32] {
        let mut rig = Rig::new();
        rig.accept(&[whole(1, 0, 0, "a"), whole(2, 1, 0, "b")]);
        let last = u16::try_from(skipped).unwrap();
        rig.forward(2 + skipped, &[(0, last), (1, 0)]);
        rig.accept(&[whole(3 + skipped, 0, last.wrapping_add(1), "c"), whole(4 + skipped, 1, 1, "d")]);
        assert_eq!(rig.texts(), ["a", "b", "c", "d"], "{skipped} skipped");
    }
}
