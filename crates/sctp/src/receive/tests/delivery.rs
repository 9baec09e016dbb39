use super::*;

#[test]
fn a_message_in_order_is_a_slice_of_its_packet_and_not_a_copy() {
    let mut rig = Rig::new();
    let bytes = packet_bytes(&[whole(1, 3, 0, "a").ppid(51), whole(2, 3, 1, "much the larger one of the two")]);
    assert_eq!(rig.chunks_of(&bytes), [Ok(DataVerdict::Accepted); 2]);
    for message in rig.messages() {
        assert!(bytes.as_ptr_range().contains(&message.payload.as_ptr()));
    }
}

#[test]
fn a_message_keeps_its_stream_its_ppid_and_its_u_bit_rfc9260_3_3_1() {
    let mut rig = Rig::new();
    rig.accept(&[whole(1, 3, 0, "a").ppid(51), whole(2, 4, 0, "b").unordered()]);
    let message = |text: &'static str, stream, ppid, unordered| ReceivedMessage {
        payload: text.into(),
        stream: StreamId(stream),
        ppid,
        unordered,
        restarts: 0,
    };
    assert!(rig.receiver.has_message());
    assert_eq!(rig.messages(), [message("a", 3, 51, false), message("b", 4, 0, true)]);
    assert!(!rig.receiver.has_message());
}

#[test]
fn ordered_messages_wait_for_the_earlier_ones_of_their_stream_only_rfc9260_6_6() {
    let mut rig = Rig::new();
    rig.accept(&[whole(4, 0, 2, "c"), whole(3, 0, 1, "b"), whole(2, 1, 0, "other stream")]);
    assert_eq!(rig.texts(), ["other stream"]);
    rig.accept(&[whole(1, 0, 0, "a")]);
    assert_eq!(rig.texts(), ["a", "b", "c"]);
}

#[test]
fn a_message_that_fills_one_of_two_gaps_releases_only_what_follows_it_rfc9260_6_6() {
    let mut rig = Rig::new();
    rig.accept(&[whole(2, 0, 1, "b"), whole(4, 0, 3, "d"), whole(1, 0, 0, "a")]);
    assert_eq!(rig.texts(), ["a", "b"]);
    rig.accept(&[whole(3, 0, 2, "c")]);
    assert_eq!(rig.texts(), ["c", "d"]);
}

#[test]
fn an_unordered_message_does_not_wait_and_its_ssn_is_ignored_rfc9260_6_6() {
    let mut rig = Rig::new();
    rig.accept(&[whole(3, 0, 77, "urgent").unordered(), whole(2, 0, 77, "too").unordered()]);
    assert_eq!(rig.texts(), ["urgent", "too"]);
    rig.accept(&[whole(1, 0, 0, "a"), whole(4, 0, 1, "b")]);
    assert_eq!(rig.texts(), ["a", "b"]);
}

#[test]
fn after_ssn_65535_comes_0_rfc9260_6_5() {
    let mut rig = Rig::new();
    for count in 0..70_000u32 {
        let ssn = u16::try_from(count % 65_536).unwrap();
        rig.packet(&[whole(count + 1, 2, ssn, "x")]);
        assert!(rig.receiver.poll_message().is_some(), "message {count}");
    }
}

#[test]
fn order_is_kept_across_the_wrap_of_the_ssn_rfc9260_6_5() {
    let mut rig = Rig::new();
    for count in 0..65_535u16 {
        rig.packet(&[whole(u32::from(count) + 1, 0, count, "x")]);
        rig.receiver.poll_message();
    }
    rig.accept(&[whole(65_538, 0, 1, "third"), whole(65_537, 0, 0, "second")]);
    assert_eq!(rig.texts(), [""; 0]);
    rig.accept(&[whole(65_536, 0, 65_535, "first")]);
    assert_eq!(rig.texts(), ["first", "second", "third"]);
}

#[test]
fn a_new_tsn_with_an_ssn_that_was_delivered_before_breaks_the_protocol_rfc9260_6_5() {
    let used_twice = "a stream sequence number was used twice";
    assert_eq!(Rig::new().violation(&[whole(1, 0, 0, "a"), whole(2, 0, 0, "b")]), used_twice);
    assert_eq!(Rig::new().violation(&[whole(1, 0, 0, "a"), whole(9, 0, 0, "b")]), used_twice);
    assert_eq!(Rig::new().violation(&[whole(3, 0, 1, "a"), whole(9, 0, 1, "b")]), used_twice);
}

#[test]
fn a_skipped_ssn_is_waited_for_even_when_no_tsn_is_missing_below_rfc9260_6_6() {
    let mut rig = Rig::new();
    rig.accept(&[whole(1, 0, 1, "second")]);
    assert_eq!(rig.texts(), [""; 0]);
    rig.accept(&[whole(2, 0, 0, "first")]);
    assert_eq!(rig.texts(), ["first", "second"]);
}

#[test]
fn a_chunk_of_an_invalid_stream_is_acknowledged_reported_once_and_discarded_rfc9260_6_5() {
    let mut rig = Rig::new();
    let wrong = whole(1, STREAMS, 0, "x");
    assert_eq!(rig.packet(std::slice::from_ref(&wrong)), [Ok(DataVerdict::InvalidStream(StreamId(STREAMS)))]);
    assert_eq!(rig.sack().cumulative, 1);
    assert_eq!(rig.packet(&[wrong]), [Ok(DataVerdict::Duplicate)]);
    rig.accept(&[whole(2, STREAMS - 1, 0, "y")]);
    assert_eq!(rig.texts(), ["y"]);
}

#[test]
fn the_fragments_of_a_message_on_an_invalid_stream_are_discarded_one_by_one_rfc9260_6_5() {
    let mut rig = Rig::new();
    for (tsn, bits) in [(1, "B"), (3, "E"), (2, "M")] {
        let verdict = rig.packet(&[piece(tsn, 400, 0, bits, "x")]);
        assert_eq!(verdict, [Ok(DataVerdict::InvalidStream(StreamId(400)))]);
    }
    rig.accept(&[whole(4, 0, 0, "y")]);
    assert_eq!(rig.texts(), ["y"]);
    assert_eq!(rig.sack().a_rwnd, Config::default().limits.receive_buffer_bytes);
}

#[test]
fn a_chunk_without_user_data_ends_the_association_rfc9260_6_2_and_3_3_10_9() {
    let mut rig = Rig::new();
    let error = ReceiveError::NoUserData { tsn: Tsn(1) };
    assert_eq!(rig.packet(&[whole(1, 0, 0, "")]), [Err(error)]);
    assert_eq!(error.to_string(), "DATA chunk 1 has no user data");
}

#[test]
fn a_small_chunk_above_a_gap_is_copied_so_that_it_does_not_keep_its_packet_alive_and_a_large_one_is_not() {
    let mut rig = Rig::new();
    let bytes = packet_bytes(&[whole(2, 0, 1, [1; 100]), whole(3, 0, 2, [2; 1_000])]);
    rig.chunks_of(&bytes);
    rig.accept(&[whole(1, 0, 0, "x")]);
    let is_slice: Vec<bool> =
        rig.messages().iter().map(|message| bytes.as_ptr_range().contains(&message.payload.as_ptr())).collect();
    assert_eq!(is_slice, [false, false, true]);
}

#[test]
fn messages_that_are_not_fetched_keep_no_more_packets_alive_than_half_of_the_buffer_holds() {
    let mut rig = Rig::with(|config| config.limits.receive_buffer_bytes = 10_000);
    let mut packets = Vec::new();
    for tsn in 1..=30 {
        let ssn = u16::try_from(tsn).unwrap() - 1;
        // The second chunk is a duplicate: 1,000 bytes that are of no use.
        let bytes = packet_bytes(&[whole(tsn, 0, ssn, "x"), whole(tsn, 0, ssn, [0; 1_000])]);
        rig.chunks_of(&bytes);
        rig.receiver.packet_done(rig.now);
        packets.push(bytes);
    }
    let packet_cost = cost::packet_bytes(packets[0].len());
    assert_eq!(rig.receiver.used_bytes(), 30 * QUEUE_ENTRY_BYTES + 4 * packet_cost + 26);
    let messages = rig.messages();
    let slices =
        |packet: &&Bytes| messages.iter().any(|message| packet.as_ptr_range().contains(&message.payload.as_ptr()));
    assert_eq!(messages.len(), 30);
    assert_eq!(packets.iter().filter(slices).count(), 4);
    assert_eq!(rig.receiver.used_bytes(), 0);
}

#[test]
fn a_packet_counts_once_until_the_last_of_its_messages_is_fetched() {
    let mut rig = Rig::new();
    let bytes = packet_bytes(&[whole(1, 0, 0, "a"), whole(2, 0, 1, "b"), whole(3, 0, 2, [0; 500])]);
    rig.chunks_of(&bytes);
    rig.receiver.packet_done(rig.now);
    for waiting in (1..=3).rev() {
        assert_eq!(rig.receiver.used_bytes(), cost::packet_bytes(bytes.len()) + waiting * QUEUE_ENTRY_BYTES);
        rig.receiver.poll_message();
    }
    assert_eq!(rig.receiver.used_bytes(), 0);
}

#[test]
fn a_message_of_less_than_half_of_a_large_packet_is_a_copy_though_it_can_be_fetched_at_once() {
    let mut rig = Rig::new();
    let bytes = packet_bytes(&[whole(1, 0, 0, [1; 900]), whole(2, 0, 1, [2; 1_200])]);
    rig.chunks_of(&bytes);
    let is_slice: Vec<bool> =
        rig.messages().iter().map(|message| bytes.as_ptr_range().contains(&message.payload.as_ptr())).collect();
    assert_eq!(is_slice, [false, true]);
}

#[test]
fn messages_that_are_fetched_at_once_are_never_copied_however_many_they_are() {
    let mut rig = Rig::with(|config| config.limits.receive_buffer_bytes = 10_000);
    for tsn in 1..=50 {
        let ssn = u16::try_from(tsn).unwrap() - 1;
        let bytes = packet_bytes(&[whole(tsn, 0, ssn, "x"), whole(tsn, 0, ssn, [0; 1_000])]);
        rig.chunks_of(&bytes);
        rig.receiver.packet_done(rig.now);
        let message = rig.receiver.poll_message().unwrap();
        assert!(bytes.as_ptr_range().contains(&message.payload.as_ptr()));
    }
}
