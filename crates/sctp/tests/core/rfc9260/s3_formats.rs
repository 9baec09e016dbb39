//! §3: packet and chunk formats, unknown chunks and parameters, the fixed fields of INIT and INIT ACK.

use std::net::SocketAddr;

use festina_sctp::{AssociationState, ClosedReason, Event, Message};

use super::packet::{
    ABORT, B, COOKIE_ACK, COOKIE_ECHO, DATA, Data, E, ERROR, HEARTBEAT, HEARTBEAT_ACK, HOST_NAME, I, INIT, INIT_ACK,
    Init, SACK, SHUTDOWN_COMPLETE, STATE_COOKIE, Sack, T_BIT, U, UNRECOGNIZED_PARAMETER, chunk, data, heartbeat,
    packet, shutdown, tlv, tlvs, u32_at,
};
use super::peer::{LOCAL_PORT, PEER_PORT, PEER_TAG, PEER_WINDOW, Peer, config, init_ack, ms, offer};

/// The unknown types of chunks and parameters, one for each value of the two highest bits.
const UNKNOWN: [u8; 4] = [0x3e, 0x7e, 0xbe, 0xfe];

#[test]
fn s3_1_an_init_goes_out_alone_with_tag_zero_from_and_to_the_right_ports() {
    let mut peer = Peer::connecting(config());
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag, sent.ports), (vec![INIT], 0, (LOCAL_PORT, PEER_PORT)));
    assert_eq!(sent.to, peer.address);
}

#[test]
fn s3_1_packets_carry_the_initiate_tag_that_the_peer_chose() {
    let mut client = Peer::serving(config(), &init_ack());
    client.send("x");
    assert_eq!(client.take_one().tag, PEER_TAG);
    let mut server = Peer::client(config(), &Init { tag: 77, ..offer() });
    server.send("x");
    assert_eq!(server.take_one().tag, 77);
}

#[test]
fn s3_2_an_unknown_chunk_type_00_ends_the_packet_silently() {
    let mut peer = Peer::established();
    peer.give(&[chunk(UNKNOWN[0], 0, b"?"), data(1)]);
    peer.wait(ms(500));
    peer.nothing_sent();
}

#[test]
fn s3_2_an_unknown_chunk_type_01_ends_the_packet_and_is_reported_whole() {
    let mut peer = Peer::established();
    peer.give(&[chunk(UNKNOWN[1], 5, b"what"), data(1)]);
    let sent = peer.take_one();
    assert_eq!(sent.kinds(), [ERROR]);
    assert_eq!(sent.the(ERROR).causes(), [(6, vec![UNKNOWN[1], 5, 0, 8, b'w', b'h', b'a', b't'])]);
    peer.wait(ms(500));
    peer.nothing_sent();
}

#[test]
fn s3_2_an_unknown_chunk_type_10_is_passed_over_silently() {
    let mut peer = Peer::established();
    peer.give(&[chunk(UNKNOWN[2], 0, b"?"), data(1)]);
    peer.wait(ms(500));
    assert_eq!(peer.payloads(), [b"d"]);
    assert_eq!(peer.take_one().kinds(), [SACK]);
}

#[test]
fn s3_2_an_unknown_chunk_type_11_is_passed_over_and_reported() {
    let mut peer = Peer::established();
    peer.give(&[chunk(UNKNOWN[3], 0, b"?"), data(1)]);
    peer.wait(ms(500));
    assert_eq!(peer.payloads(), [b"d"]);
    let reports: Vec<_> =
        peer.take().iter().filter(|sent| sent.has(ERROR)).map(|sent| sent.the(ERROR).causes()).collect();
    assert_eq!(reports, [[(6, vec![UNKNOWN[3], 0, 0, 5, b'?'])]]);
}

#[test]
fn s3_2_padding_is_ignored_whatever_it_holds() {
    let mut peer = Peer::established();
    let mut padded = Data::new(1, 0, b"x").chunk();
    padded[17..].copy_from_slice(&[0xff; 3]);
    peer.give(&[padded, data(2)]);
    assert_eq!(peer.payloads(), [b"x", b"d"]);
}

#[test]
fn s3_2_reserved_flags_of_received_chunks_are_ignored() {
    let mut peer = Peer::established();
    peer.give(&[chunk(HEARTBEAT, 0xff, &tlv(1, b"info"))]);
    assert_eq!(peer.take_one().kinds(), [HEARTBEAT_ACK]);
    peer.give(&[Data::new(1, 0, b"x").flags(0xf0 | B | E).chunk()]);
    assert_eq!(peer.payloads(), [b"x"]);
}

#[test]
fn s3_2_a_chunk_whose_length_counts_its_final_padding_is_accepted() {
    let mut init = Init { parameters: tlv(0xbffe, b"odd"), ..offer() }.chunk(INIT);
    init[2..4].copy_from_slice(&28_u16.to_be_bytes());
    let mut peer = Peer::new(config());
    peer.give_tagged(0, &[init]);
    assert_eq!(peer.take_one().kinds(), [INIT_ACK]);
}

/// The types of the parameters that the INIT ACK reports when these came in an INIT, in the order given.
fn reported(types: &[u16]) -> Vec<u16> {
    let mut peer = Peer::new(config());
    let parameters = types.iter().flat_map(|&kind| tlv(kind, b"abc")).collect();
    peer.give_tagged(0, &[Init { parameters, ..offer() }.chunk(INIT)]);
    let reports = peer.take_one().init().all(UNRECOGNIZED_PARAMETER);
    for report in &reports {
        assert_eq!(report[2..7], [0, 7, b'a', b'b', b'c'], "§3.3.3.1.2: the parameter as it came");
    }
    reports.iter().map(|report| u16::from_be_bytes([report[0], report[1]])).collect()
}

#[test]
fn s3_2_1_an_unknown_parameter_00_ends_the_parameters_of_an_init_silently() {
    assert_eq!(reported(&[0x3ffe, 0xfffe]), []);
}

#[test]
fn s3_2_1_an_unknown_parameter_01_ends_the_parameters_of_an_init_and_is_reported() {
    assert_eq!(reported(&[0x7ffe, 0xfffe]), [0x7ffe]);
}

#[test]
fn s3_2_1_an_unknown_parameter_10_of_an_init_is_passed_over() {
    assert_eq!(reported(&[0xbffe, 0xfffe]), [0xfffe]);
}

#[test]
fn s3_2_1_an_unknown_parameter_11_of_an_init_is_passed_over_and_reported() {
    assert_eq!(reported(&[0xfffd, 0xfffe]), [0xfffd, 0xfffe]);
}

#[test]
fn s3_2_2_unknown_parameters_of_an_init_ack_are_reported_behind_the_cookie_echo() {
    let types = [0xfffd_u16, 0x3ffe, 0xfffe];
    let mut parameters = tlv(STATE_COOKIE, b"a cookie");
    parameters.extend(types.iter().flat_map(|&kind| tlv(kind, b"abcd")));
    let mut peer = Peer::cookie_echoed(config(), &Init { parameters, ..offer() });
    let first = peer.take_one();
    assert_eq!(first.kinds()[0], COOKIE_ECHO);
    // The report may also wait for the COOKIE ACK.
    peer.give(&[chunk(COOKIE_ACK, 0, b"")]);
    let errors: Vec<_> = [vec![first], peer.take()].concat().into_iter().filter(|sent| sent.has(ERROR)).collect();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].the(ERROR).causes(), [(8, tlv(0xfffd, b"abcd"))]);
}

#[test]
fn s3_3_1_a_whole_message_is_one_chunk_with_b_and_e_set_and_its_ppid_untouched() {
    let mut peer = Peer::established();
    peer.send_message(Message::new("hello").on_stream(3).with_ppid(0x0102_0304));
    let sent = peer.take_one();
    let expected = Data { ppid: 0x0102_0304, ..Data::new(peer.initial_tsn, 0, b"hello").stream(3) };
    assert_eq!(sent.bytes[12..], expected.chunk(), "type, flags, length 21, TSN, stream, SSN, PPID, payload, padding");
}

#[test]
fn s3_3_1_the_u_and_i_bits_are_set_as_asked() {
    let mut peer = Peer::established();
    peer.send_message(Message::new("x").unordered());
    assert_eq!(peer.take_one().data()[0].flags, B | E | U);
    peer.send_message(Message::new("x").with_immediate_ack());
    assert_eq!(peer.take_one().data()[0].flags, B | E | I);
}

#[test]
fn s3_3_2_the_fixed_fields_of_the_own_init_and_init_ack_are_in_range() {
    let mut settings = config();
    (settings.limits.outbound_streams, settings.limits.inbound_streams) = (7, 9);
    (settings.limits.receive_buffer_bytes, settings.limits.message_bytes_max) = (50_000, 50_000);
    let init = Peer::connecting(settings.clone()).take_one().init();
    let mut peer = Peer::new(settings);
    peer.give_tagged(0, &[offer().chunk(INIT)]);
    for own in [init, peer.take_one().init()] {
        assert_ne!(own.tag, 0);
        assert_eq!((own.a_rwnd, own.outbound, own.inbound), (50_000, 7, 9));
        let mut types: Vec<_> = tlvs(&own.parameters).into_iter().map(|(kind, _)| kind).collect();
        assert!(!types.contains(&HOST_NAME), "§3.3.2.1.4");
        types.sort_unstable();
        assert!(types.windows(2).all(|pair| pair[0] != pair[1]), "each at most once: {types:?}");
    }
}

#[test]
fn s3_3_3_an_init_ack_asks_for_no_more_streams_than_the_init_allows() {
    let mut peer = Peer::new(config());
    peer.give_tagged(0, &[Init { inbound: 5, ..offer() }.chunk(INIT)]);
    assert!((1..=5).contains(&peer.take_one().init().outbound));
}

#[test]
fn s3_3_2_an_init_with_initiate_tag_zero_is_dropped_silently() {
    let mut peer = Peer::new(config());
    peer.give_tagged(0, &[Init { tag: 0, ..offer() }.chunk(INIT)]);
    peer.nothing_sent();
}

/// INITs and INIT ACKs with one bad field each.
fn bad_fields(good: &Init) -> [Init; 3] {
    [Init { a_rwnd: 1_499, ..good.clone() }, Init { outbound: 0, ..good.clone() }, Init { inbound: 0, ..good.clone() }]
}

#[test]
fn s3_3_2_an_init_with_a_bad_window_or_stream_count_is_answered_by_an_abort_with_its_initiate_tag() {
    for bad in bad_fields(&offer()) {
        let mut peer = Peer::new(config());
        peer.give_tagged(0, &[bad.chunk(INIT)]);
        let sent = peer.take_one();
        assert_eq!((sent.kinds(), sent.tag, sent.the(ABORT).flags), (vec![ABORT], PEER_TAG, 0), "{bad:?}");
    }
}

#[test]
fn s3_3_10_7_the_abort_of_an_init_without_streams_calls_a_mandatory_parameter_invalid() {
    let [_, no_outbound, no_inbound] = bad_fields(&offer());
    for bad in [no_outbound, no_inbound] {
        let mut peer = Peer::new(config());
        peer.give_tagged(0, &[bad.chunk(INIT)]);
        assert_eq!(peer.take_one().the(ABORT).causes(), [(7, vec![])]);
    }
}

#[test]
fn s3_3_10_an_error_chunk_is_told_and_ends_nothing() {
    let mut peer = Peer::established();
    peer.give(&[chunk(ERROR, 0, &tlv(1, &[0, 9, 0, 0])), data(1)]);
    assert!(peer.events.iter().any(|event| matches!(event, Event::PeerError { code: 1, .. })), "{:?}", peer.events);
    assert_eq!(peer.payloads(), [b"d"]);
}

#[test]
fn s3_3_2_an_init_with_a_bad_window_or_stream_count_leaves_an_association_as_it_is() {
    for bad in bad_fields(&Init { tag: 99, ..offer() }) {
        let mut peer = Peer::established();
        peer.give_tagged(0, &[bad.chunk(INIT)]);
        for sent in peer.take() {
            assert_eq!((sent.kinds(), sent.tag), (vec![ABORT], 99), "{bad:?}");
        }
        assert_eq!(peer.state(), AssociationState::Established);
        peer.give(&[data(1)]);
        assert_eq!(peer.payloads(), [b"d"]);
    }
}

#[test]
fn s3_3_2_1_address_parameters_do_not_change_where_a_single_homed_endpoint_sends() {
    let mut peer = Peer::new(config());
    let mut parameters = tlv(5, &[192, 0, 2, 1]);
    parameters.extend(tlv(6, &[0x20; 16]));
    peer.give_tagged(0, &[Init { parameters, ..offer() }.chunk(INIT)]);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.to), (vec![INIT_ACK], peer.address));
}

#[test]
fn s3_3_2_1_4_an_init_with_a_host_name_is_answered_by_an_abort() {
    let mut peer = Peer::new(config());
    let parameters = tlv(HOST_NAME, b"example.org\0");
    peer.give_tagged(0, &[Init { parameters: parameters.clone(), ..offer() }.chunk(INIT)]);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag), (vec![ABORT], PEER_TAG));
    for cause in sent.the(ABORT).causes() {
        assert_eq!(cause, (5, parameters.clone()), "§3.3.10.5: the whole parameter");
    }
}

#[test]
fn s3_3_2_1_4_an_init_ack_with_a_host_name_is_answered_by_an_abort() {
    let mut ack = init_ack();
    ack.parameters.extend(tlv(HOST_NAME, b"example.org\0"));
    let mut peer = Peer::cookie_echoed(config(), &ack);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag), (vec![ABORT], PEER_TAG));
    assert!(peer.closed().is_some());
}

#[test]
fn s3_3_2_1_5_a_host_name_among_the_supported_address_types_is_ignored() {
    let mut peer = Peer::new(config());
    peer.give_tagged(0, &[Init { parameters: tlv(12, &[0, 11, 0, 5]), ..offer() }.chunk(INIT)]);
    assert_eq!(peer.take_one().kinds(), [INIT_ACK]);
}

#[test]
fn s3_3_3_an_init_ack_with_initiate_tag_zero_ends_the_attempt() {
    let peer = Peer::cookie_echoed(config(), &Init { tag: 0, ..init_ack() });
    assert!(peer.closed().is_some());
}

#[test]
fn s3_3_3_an_init_ack_with_initiate_tag_zero_is_answered_by_a_reflected_abort() {
    let mut peer = Peer::cookie_echoed(config(), &Init { tag: 0, ..init_ack() });
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag, sent.the(ABORT).flags), (vec![ABORT], peer.tag, T_BIT));
}

#[test]
fn s3_3_3_an_init_ack_without_streams_ends_the_attempt_with_an_abort() {
    let [_, no_outbound, no_inbound] = bad_fields(&init_ack());
    for bad in [no_outbound, no_inbound] {
        let mut peer = Peer::cookie_echoed(config(), &bad);
        let sent = peer.take_one();
        assert_eq!((sent.kinds(), sent.tag, sent.the(ABORT).flags), (vec![ABORT], PEER_TAG, 0));
        assert!(peer.closed().is_some(), "{bad:?}");
    }
}

#[test]
fn s3_3_3_an_init_ack_with_too_small_a_window_is_dropped_without_a_change_of_state() {
    let [bad, ..] = bad_fields(&init_ack());
    let mut peer = Peer::cookie_echoed(config(), &bad);
    for sent in peer.take() {
        assert_eq!((sent.kinds(), sent.tag), (vec![ABORT], PEER_TAG));
    }
    assert_eq!(peer.state(), AssociationState::CookieWait);
    peer.give(&[init_ack().chunk(INIT_ACK)]);
    assert_eq!(peer.take_one().kinds(), [COOKIE_ECHO]);
}

#[test]
fn s3_3_3_a_large_init_ack_is_taken() {
    let mut ack = init_ack();
    ack.parameters.extend((0..1_000).flat_map(|_| tlv(5, &[192, 0, 2, 1])));
    let mut peer = Peer::cookie_echoed(config(), &ack);
    assert_eq!(peer.take_one().kinds(), [COOKIE_ECHO]);
}

#[test]
fn s3_3_4_a_sack_names_the_cumulative_tsn_and_the_gaps_as_offsets() {
    let mut settings = config();
    (settings.limits.receive_buffer_bytes, settings.limits.message_bytes_max) = (5_000, 5_000);
    let mut peer = Peer::serving(settings, &Init { tsn: 10, ..init_ack() });
    peer.reads = false;
    let chunks: Vec<_> = [10, 11, 12, 14, 15, 17].map(|tsn| Data::new(tsn, 0, b"").stream(1).flags(B | E | U)).into();
    let chunks: Vec<_> = chunks.into_iter().map(|data| Data { payload: vec![1; 100], ..data }.chunk()).collect();
    peer.give(&chunks);
    let sack = peer.take_one().sack();
    assert_eq!((sack.cumulative, sack.gaps, sack.duplicates), (12, vec![(2, 3), (5, 5)], vec![]));
    assert!(sack.a_rwnd <= 4_400, "{}", sack.a_rwnd);
}

#[test]
fn s3_3_4_before_any_data_the_cumulative_tsn_is_the_initial_tsn_minus_one() {
    let mut peer = Peer::serving(config(), &Init { tsn: 0, ..init_ack() });
    peer.give(&[Data::new(1, 1, b"second").chunk()]);
    let sack = peer.take_one().sack();
    assert_eq!((sack.cumulative, sack.gaps), (u32::MAX, vec![(2, 2)]));
}

#[test]
fn s3_3_4_each_further_arrival_of_a_tsn_is_listed_as_a_duplicate_once() {
    let mut peer = Peer::established();
    peer.give(&[data(1)]);
    peer.take();
    peer.give(&[data(1), data(1)]);
    assert_eq!(peer.take_one().sack().duplicates, [1, 1]);
    peer.give(&[data(1)]);
    assert_eq!(peer.take_one().sack().duplicates, [1]);
}

#[test]
fn s3_3_6_a_heartbeat_ack_returns_the_information_unchanged() {
    let mut peer = Peer::established();
    let request = heartbeat(HEARTBEAT, b"opaque!");
    peer.give(std::slice::from_ref(&request));
    let sent = peer.take_one();
    assert_eq!(sent.the(HEARTBEAT_ACK).value, request[4..15]);
    assert_eq!(sent.to, peer.address);
}

#[test]
fn s3_3_7_an_abort_is_never_answered_and_a_malformed_one_is_dropped() {
    let mut peer = Peer::established();
    let mut beyond = chunk(ABORT, 0, b"");
    beyond[3] = 200;
    peer.give(&[beyond]);
    peer.nothing_sent();
    assert_eq!(peer.state(), AssociationState::Established);
    peer.give(&[chunk(ABORT, 0, b"")]);
    peer.nothing_sent();
    assert_eq!(peer.closed(), Some(&ClosedReason::AbortedByPeer { code: 0, info: "".into() }));
}

#[test]
fn s3_3_8_a_shutdown_without_gaps_does_not_take_back_what_a_sack_had_acknowledged() {
    let mut peer = Peer::established();
    peer.send_full(3);
    peer.take();
    peer.ack_gaps(0, &[(2, 3)]);
    let cumulative = peer.tsn(0);
    peer.give(&[shutdown(cumulative)]);
    peer.take();
    peer.wait_for_packet();
    assert_eq!(peer.take_tsns().concat(), [1], "the others are still acknowledged");
}

#[test]
fn s3_3_12_data_in_front_of_the_handshake_is_not_taken() {
    let mut peer = Peer::new(config());
    let cookie = peer.begin(&offer());
    let tag = peer.tag;
    peer.give(&[data(1), chunk(COOKIE_ECHO, 0, &cookie)]);
    assert_eq!(peer.state(), AssociationState::Closed, "§8.4 rule 8: the cookie comes first or not at all");
    assert_eq!(peer.take_one().tag, tag);
}

#[test]
fn s6_8_a_packet_with_a_wrong_checksum_is_dropped_silently() {
    let mut peer = Peer::established();
    let mut bytes = packet((PEER_PORT, LOCAL_PORT), peer.tag, &[data(1)]);
    *bytes.last_mut().expect("it is not empty") ^= 1;
    peer.give_bytes(bytes);
    peer.wait(ms(500));
    peer.nothing_sent();
    let mut stranger = Peer::new(config());
    let mut bytes = packet((PEER_PORT, LOCAL_PORT), 0, &[offer().chunk(INIT)]);
    bytes[8] ^= 1;
    stranger.give_bytes(bytes);
    stranger.nothing_sent();
}

#[test]
fn s6_8_the_checksum_is_least_significant_byte_first() {
    assert_eq!(super::packet::crc32c(b"123456789"), 0xe306_9283, "the usual check value of CRC32c");
    let sent = Peer::connecting(config()).take_one();
    assert_eq!(u32_at(&sent.bytes, 8).swap_bytes(), super::packet::crc32c(&zeroed(&sent.bytes)));
}

fn zeroed(bytes: &[u8]) -> Vec<u8> {
    [&bytes[..8], &[0; 4], &bytes[12..]].concat()
}

#[test]
fn s6_10_the_rest_of_a_packet_is_dropped_at_a_partial_chunk_but_not_what_stood_before() {
    let mut peer = Peer::established();
    let mut partial = data(2);
    partial.truncate(16);
    peer.give(&[data(1), partial]);
    assert_eq!(peer.payloads(), [b"d"]);
    assert_eq!(peer.take_one().sack().cumulative, 1);
}

#[test]
fn s6_10_chunks_are_processed_in_the_order_of_the_packet() {
    let mut peer = Peer::established();
    peer.give(&[data(1), chunk(ABORT, 0, b""), data(2)]);
    assert_eq!(peer.payloads(), [b"d"]);
    assert!(peer.closed().is_some());
}

#[test]
fn s6_10_a_packet_may_bundle_control_and_data() {
    let mut peer = Peer::established();
    peer.send("x");
    peer.take();
    let sack = Sack { cumulative: peer.tsn(1), a_rwnd: PEER_WINDOW, gaps: vec![], duplicates: vec![] };
    peer.give(&[sack.chunk(), heartbeat(HEARTBEAT, b"h"), data(1), data(2)]);
    assert_eq!(peer.payloads().len(), 2);
    let kinds: Vec<_> = peer.take().iter().flat_map(|sent| sent.kinds()).collect();
    assert!(kinds.contains(&HEARTBEAT_ACK) && kinds.contains(&SACK) && !kinds.contains(&DATA), "{kinds:?}");
}

#[test]
fn s6_10_nothing_may_be_bundled_with_a_received_init() {
    let mut peer = Peer::new(config());
    peer.address = SocketAddr::from(([192, 0, 2, 9], 1));
    peer.give_tagged(0, &[offer().chunk(INIT), data(1)]);
    peer.nothing_sent();
}

#[test]
fn s6_10_a_packet_that_begins_with_a_chunk_that_must_stand_alone_is_dropped_whole() {
    for tag_and_flags in [(Peer::facing_shutdown_ack_sent().tag, 0), (PEER_TAG, T_BIT)] {
        let mut ending = Peer::facing_shutdown_ack_sent();
        let (tag, flags) = tag_and_flags;
        ending.give_tagged(tag, &[chunk(SHUTDOWN_COMPLETE, flags, b""), chunk(0x80, 0, b"")]);
        assert_eq!(ending.state(), AssociationState::ShutdownAckSent);
    }
    let mut opening = Peer::connecting(config());
    opening.tag = opening.take_one().init().tag;
    opening.give(&[init_ack().chunk(INIT_ACK), data(1)]);
    opening.nothing_sent();
    assert_eq!(opening.state(), AssociationState::CookieWait);
    let mut standing = Peer::established();
    standing.give_tagged(0, &[Init { tag: 99, ..offer() }.chunk(INIT), data(1)]);
    standing.nothing_sent();
}

#[test]
fn s6_10_a_chunk_that_must_stand_alone_is_dropped_behind_others_with_all_that_follows() {
    let mut peer = Peer::facing_shutdown_ack_sent();
    peer.give(&[chunk(0x80, 0, b""), chunk(SHUTDOWN_COMPLETE, 0, b""), chunk(ABORT, 0, b"")]);
    assert_eq!(peer.state(), AssociationState::ShutdownAckSent);
    for alone in [init_ack().chunk(INIT_ACK), offer().chunk(INIT)] {
        let mut peer = Peer::established();
        peer.give(&[data(1), alone, data(2)]);
        assert_eq!(peer.payloads().len(), 1, "what stood before has taken effect");
        assert_eq!(peer.take_one().kinds(), [SACK]);
    }
}
