//! §8.4 and §8.5: packets out of the blue, verification tags and their exceptions.

use std::net::SocketAddr;

use festina_sctp::AssociationState;

use super::packet::{
    ABORT, COOKIE_ACK, ERROR, HEARTBEAT, INIT, INIT_ACK, Init, SACK, SHUTDOWN_ACK, SHUTDOWN_COMPLETE, T_BIT, chunk,
    cookie_echo, data, heartbeat, packet, shutdown, tlv,
};
use super::peer::{LOCAL_PORT, PEER_PORT, PEER_TAG, PEER_WINDOW, Peer, config, init_ack, offer};

/// The tag of the packets out of the blue.
const TAG: u32 = 0x1234_5678;

/// A peer that faces a listener, after one packet with the tag `TAG`.
fn out_of_the_blue(chunks: &[Vec<u8>]) -> Peer {
    let mut peer = Peer::new(config());
    peer.give_tagged(TAG, chunks);
    peer
}

#[test]
fn s8_4_rule_1_packets_from_other_than_unicast_addresses_are_dropped_silently() {
    let not_unicast: [SocketAddr; 4] = ["224.0.0.1:9899", "255.255.255.255:9899", "0.0.0.0:9899", "[ff02::1]:9899"]
        .map(|address| address.parse().expect("it is an address"));
    for address in not_unicast {
        let mut peer = Peer::new(config());
        peer.address = address;
        peer.give_tagged(TAG, &[data(1)]);
        peer.nothing_sent();
    }
}

#[test]
fn s8_4_rule_2_a_packet_with_an_abort_is_dropped_silently() {
    for chunks in [vec![chunk(ABORT, 0, b"")], vec![data(1), chunk(ABORT, 0, b"")], vec![chunk(ABORT, T_BIT, b"")]] {
        out_of_the_blue(&chunks).nothing_sent();
    }
}

#[test]
fn s8_4_rule_3_an_init_that_is_refused_is_answered_by_an_abort_with_its_initiate_tag() {
    let mut peer = Peer::new(config());
    peer.listener.stop(LOCAL_PORT);
    peer.give_tagged(0, &[offer().chunk(INIT)]);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag, sent.the(ABORT).flags), (vec![ABORT], PEER_TAG, 0));
    assert_eq!(sent.ports, (LOCAL_PORT, PEER_PORT));
}

#[test]
fn s8_4_rule_4_a_cookie_echo_that_is_not_first_is_not_processed() {
    let mut peer = Peer::new(config());
    let cookie = peer.begin(&offer());
    peer.give(&[chunk(SACK, 0, &[0; 12]), cookie_echo(&cookie)]);
    assert!(peer.association.is_none());
    peer.take();
    peer.give(&[cookie_echo(&cookie), data(1)]);
    assert!(peer.association.is_some());
}

#[test]
fn s8_4_rule_5_a_shutdown_ack_is_answered_by_a_reflected_shutdown_complete() {
    for chunks in [vec![chunk(SHUTDOWN_ACK, 0, b"")], vec![chunk(SACK, 0, &[0; 12]), chunk(SHUTDOWN_ACK, 0, b"")]] {
        let sent = out_of_the_blue(&chunks).take_one();
        let flags = sent.the(SHUTDOWN_COMPLETE).flags;
        assert_eq!((sent.kinds(), sent.tag, flags), (vec![SHUTDOWN_COMPLETE], TAG, T_BIT));
    }
}

#[test]
fn s8_4_rule_6_a_shutdown_complete_is_dropped_silently() {
    out_of_the_blue(&[chunk(SHUTDOWN_COMPLETE, 0, b"")]).nothing_sent();
    out_of_the_blue(&[chunk(SHUTDOWN_COMPLETE, T_BIT, b"")]).nothing_sent();
}

#[test]
fn s8_4_rule_7_a_stale_cookie_error_and_a_cookie_ack_are_dropped_silently() {
    out_of_the_blue(&[chunk(ERROR, 0, &tlv(3, &[0; 4]))]).nothing_sent();
    out_of_the_blue(&[chunk(COOKIE_ACK, 0, b"")]).nothing_sent();
}

#[test]
fn s8_4_rule_8_anything_else_is_answered_by_a_reflected_abort() {
    let others = [
        data(1),
        chunk(SACK, 0, &[0; 12]),
        heartbeat(HEARTBEAT, b"hello"),
        shutdown(1),
        init_ack().chunk(INIT_ACK),
        chunk(ERROR, 0, &tlv(4, b"")),
    ];
    for other in others {
        let sent = out_of_the_blue(std::slice::from_ref(&other)).take_one();
        assert_eq!((sent.kinds(), sent.tag, sent.the(ABORT).flags), (vec![ABORT], TAG, T_BIT), "{other:?}");
        assert_eq!(sent.ports, (LOCAL_PORT, PEER_PORT));
    }
}

#[test]
fn s8_5_a_packet_with_a_wrong_tag_is_dropped_silently() {
    let peer = Peer::established();
    let chunks = [
        data(1),
        peer.sack(0, PEER_WINDOW, &[]).chunk(),
        heartbeat(HEARTBEAT, b"hello"),
        shutdown(peer.tsn(0)),
        chunk(SHUTDOWN_ACK, 0, b""),
        chunk(ERROR, 0, &tlv(4, b"")),
        chunk(0xfe, 0, b""),
    ];
    for chunk in chunks {
        for wrong in [0, 1, PEER_TAG] {
            let mut peer = Peer::established();
            peer.give_tagged(wrong, std::slice::from_ref(&chunk));
            peer.nothing_sent();
            assert!(peer.received.is_empty());
            assert_eq!(peer.state(), AssociationState::Established);
        }
    }
}

#[test]
fn s12_3_an_init_with_another_tag_than_zero_is_dropped_silently_by_an_association() {
    let mut peer = Peer::established();
    peer.give(&[Init { tag: 99, ..offer() }.chunk(INIT)]);
    peer.nothing_sent();
}

#[test]
fn s12_3_an_init_with_another_tag_than_zero_is_dropped_silently_out_of_the_blue() {
    out_of_the_blue(&[offer().chunk(INIT)]).nothing_sent();
}

#[test]
fn s8_5_1_a_a_packet_with_tag_zero_may_hold_nothing_but_an_init() {
    for chunks in [vec![data(1)], vec![offer().chunk(INIT), data(1)], vec![heartbeat(HEARTBEAT, b"h")]] {
        let mut stranger = Peer::new(config());
        let mut known = Peer::established();
        for peer in [&mut stranger, &mut known] {
            peer.give_tagged(0, &chunks);
            peer.nothing_sent();
        }
        assert!(known.received.is_empty());
    }
}

#[test]
fn s8_5_1_b_an_abort_is_accepted_with_the_own_tag_or_with_the_peers_tag_and_the_t_bit() {
    let own = Peer::established().tag;
    for (tag, flags, accepted) in [(own, 0, true), (PEER_TAG, T_BIT, true), (own, T_BIT, false), (PEER_TAG, 0, false)] {
        let mut peer = Peer::established();
        peer.give_tagged(tag, &[chunk(ABORT, flags, b"")]);
        peer.nothing_sent();
        assert_eq!(peer.closed().is_some(), accepted, "tag {tag:#x}, flags {flags}");
    }
}

#[test]
fn s8_5_1_b_an_abort_needs_its_tag_behind_other_chunks_as_well() {
    for (flags, accepted) in [(0, true), (T_BIT, false)] {
        let mut peer = Peer::established();
        peer.give(&[heartbeat(HEARTBEAT, b"first"), chunk(ABORT, flags, b""), data(1)]);
        assert_eq!(peer.closed().is_some(), accepted, "flags {flags}");
        assert!(peer.received.is_empty(), "nothing behind it is looked at");
    }
}

#[test]
fn s8_5_1_b_in_cookie_wait_only_an_abort_with_the_own_tag_ends_the_attempt() {
    let mut peer = Peer::connecting(config());
    let own = peer.take_one().init().tag;
    for (tag, flags) in [(0, T_BIT), (0, 0), (own, T_BIT), (PEER_TAG, T_BIT)] {
        peer.give_tagged(tag, &[chunk(ABORT, flags, b"")]);
        assert_eq!(peer.state(), AssociationState::CookieWait, "tag {tag:#x}, flags {flags}");
    }
    peer.give_tagged(own, &[chunk(ABORT, 0, b"")]);
    assert!(peer.closed().is_some());
    peer.nothing_sent();
}

#[test]
fn s8_5_1_b_the_own_abort_carries_the_peers_tag() {
    let mut peer = Peer::established();
    peer.abort(b"enough");
    let sent = peer.take_one();
    assert_eq!((sent.tag, sent.the(ABORT).flags), (PEER_TAG, 0));
}

#[test]
fn s8_5_1_c_a_shutdown_complete_is_accepted_with_the_own_tag_or_with_the_peers_tag_and_the_t_bit() {
    let own = Peer::facing_shutdown_ack_sent().tag;
    for (tag, flags, accepted) in [(own, 0, true), (PEER_TAG, T_BIT, true), (own, T_BIT, false), (PEER_TAG, 0, false)] {
        let mut peer = Peer::facing_shutdown_ack_sent();
        peer.give_tagged(tag, &[chunk(SHUTDOWN_COMPLETE, flags, b"")]);
        peer.nothing_sent();
        assert_eq!(peer.closed().is_some(), accepted, "tag {tag:#x}, flags {flags}");
    }
}

#[test]
fn s8_5_1_c_a_shutdown_complete_in_another_state_is_ignored() {
    let mut sent = Peer::established();
    sent.shutdown();
    for mut peer in [Peer::established(), sent] {
        peer.take();
        let before = peer.state();
        peer.give(&[chunk(SHUTDOWN_COMPLETE, 0, b"")]);
        peer.nothing_sent();
        assert_eq!(peer.state(), before);
    }
}

#[test]
fn s8_5_1_c_the_own_shutdown_complete_carries_the_peers_tag_without_the_t_bit() {
    let mut peer = Peer::established();
    peer.shutdown();
    peer.take();
    peer.give(&[chunk(SHUTDOWN_ACK, 0, b"")]);
    let sent = peer.take_one();
    assert_eq!((sent.tag, sent.the(SHUTDOWN_COMPLETE).flags), (PEER_TAG, 0));
}

#[test]
fn s8_5_1_e_a_shutdown_ack_during_the_handshake_is_treated_as_out_of_the_blue() {
    for mut peer in [Peer::connecting(config()), Peer::cookie_echoed(config(), &init_ack())] {
        let before = peer.take_one();
        let state = peer.state();
        peer.give_tagged(TAG, &[chunk(SHUTDOWN_ACK, 0, b"")]);
        let sent = peer.take_one();
        let flags = sent.the(SHUTDOWN_COMPLETE).flags;
        assert_eq!((sent.kinds(), sent.tag, flags), (vec![SHUTDOWN_COMPLETE], TAG, T_BIT), "{state:?}");
        assert_eq!(peer.state(), state, "§9.2: the handshake continues");
        peer.wait_for_packet();
        assert_eq!(peer.take_one().bytes, before.bytes);
    }
}

#[test]
fn s8_4_a_damaged_packet_out_of_the_blue_is_not_answered() {
    let mut peer = Peer::new(config());
    let mut bytes = packet((PEER_PORT, LOCAL_PORT), TAG, &[data(1)]);
    bytes[20] ^= 4;
    peer.give_bytes(bytes);
    peer.nothing_sent();
}
