//! RFC 3758: negotiation, and the receiver's side of FORWARD-TSN.

use festina_sctp::Extensions;

use super::*;
use crate::rfc9260::packet::{ABORT, COOKIE_ACK, COOKIE_ECHO, Data, ERROR, INIT, INIT_ACK, SACK, SHUTDOWN, data};
use crate::rfc9260::peer::{Peer, ms};

/// An association that has agreed on partial reliability.
fn agreed() -> Peer {
    Peer::serving(config(), &init_ack_with(&[forward_tsn_supported()]))
}

#[test]
fn rfc3758_3_1_an_init_announces_forward_tsn_and_lists_it_as_rfc5061_4_2_7_asks() {
    let init = Peer::connecting(config()).take_one().init();
    assert_eq!(init.all(FORWARD_TSN_SUPPORTED), [b""]);
    assert_eq!(init.all(SUPPORTED_EXTENSIONS), [[FORWARD_TSN, RE_CONFIG, NR_SACK]]);
}

#[test]
fn rfc3758_3_3_1_an_init_ack_announces_forward_tsn_to_a_peer_that_supports_it_and_to_no_other() {
    for (parameters, is_announced) in [
        (vec![], false),
        (vec![extensions(&[I_DATA, 0xc1])], false),
        (vec![forward_tsn_supported()], true),
        (vec![extensions(&[0xc1, FORWARD_TSN])], true),
        (vec![forward_tsn_supported(), extensions(&[FORWARD_TSN])], true),
    ] {
        let mut peer = Peer::new(config());
        peer.give_tagged(0, &[init_with(&parameters).chunk(1)]);
        let sent = peer.take_one();
        assert_eq!(sent.kinds(), [INIT_ACK]);
        assert_eq!(sent.init().all(FORWARD_TSN_SUPPORTED).len(), usize::from(is_announced), "{parameters:?}");
        assert_eq!(sent.init().all(SUPPORTED_EXTENSIONS).len(), usize::from(is_announced), "{parameters:?}");
    }
}

#[test]
fn rfc3758_3_3_1_the_cookie_carries_what_was_agreed_on() {
    let mut peer = Peer::client(config(), &init_with(&[forward_tsn_supported()]));
    assert!(peer.association().peer_extensions().contains(Extensions::FORWARD_TSN));
    peer.give(&[data(1), data(3)]);
    peer.give(&[forward_tsn(2, &[(0, 1)])]);
    assert_eq!(peer.received.len(), 2);
}

#[test]
fn rfc3758_3_3_1_without_the_peers_announcement_forward_tsn_is_an_unknown_chunk() {
    let mut peer = Peer::established();
    peer.give(&[forward_tsn(1, &[]), data(1)]);
    let sent = peer.take_one();
    assert_eq!(sent.sack().cumulative, 1, "later chunks are processed (RFC 9260 §3.2, 11)");
    assert_eq!(sent.the(ERROR).causes(), [(6, forward_tsn(1, &[]))]);
    peer.give(&[forward_tsn(5, &[])]);
    assert_eq!(peer.take_one().kinds(), [ERROR]);
}

#[test]
fn rfc3758_3_6_forward_tsn_delivers_what_waited_for_it_and_a_sack_says_so() {
    let mut peer = agreed();
    peer.give(&[data(1), data(3), Data::new(5, 0, b"other").stream(1).chunk()]);
    peer.take();
    peer.give(&[forward_tsn(4, &[(0, 3)])]);
    assert_eq!(peer.payloads(), [&b"d"[..], b"other", b"d"]);
    let sack = peer.take_one().sack();
    assert_eq!((sack.cumulative, sack.gaps), (5, vec![]));
}

#[test]
fn rfc3758_3_6_a_forward_tsn_is_acknowledged_like_data_after_the_delay_or_with_the_second_packet() {
    let mut peer = agreed();
    peer.give(&[data(1)]);
    peer.take();
    peer.give(&[forward_tsn(2, &[(0, 1)])]);
    peer.nothing_sent();
    assert_eq!(peer.wait_for_packet(), ms(200));
    assert_eq!(peer.take_one().sack().cumulative, 2);
    peer.give(&[forward_tsn(3, &[(0, 2)])]);
    peer.nothing_sent();
    peer.give(&[data(4)]);
    assert_eq!(peer.take_one().sack().cumulative, 4, "bundled or not");
}

#[test]
fn rfc3758_3_6_an_old_forward_tsn_is_answered_at_once() {
    let mut peer = agreed();
    peer.give(&[data(1)]);
    peer.take();
    peer.give(&[forward_tsn(1, &[])]);
    let sack = peer.take_one().sack();
    assert_eq!((sack.cumulative, sack.duplicates), (1, vec![]));
}

#[test]
fn rfc3758_3_6_forward_tsn_is_processed_in_its_place_within_a_packet() {
    let mut peer = agreed();
    peer.give(&[data(1), forward_tsn(2, &[(0, 1)]), data(3)]);
    assert_eq!((peer.received.len(), peer.take_one().sack().cumulative), (2, 3));
}

#[test]
fn a_forward_tsn_before_the_handshake_is_complete_or_of_the_wrong_length_means_nothing() {
    let mut peer = Peer::cookie_echoed(config(), &init_ack_with(&[forward_tsn_supported()]));
    assert_eq!(peer.take_one().kinds(), [COOKIE_ECHO]);
    peer.give(&[forward_tsn(3, &[])]);
    peer.nothing_sent();
    peer.give(&[chunk(COOKIE_ACK, 0, b"")]);
    peer.give(&[chunk(FORWARD_TSN, 0, &[0, 0, 0, 3, 0, 0])]);
    peer.nothing_sent();
    peer.give(&[data(1)]);
    assert_eq!(peer.take_one().sack().cumulative, 1);
}

#[test]
fn rfc9260_9_2_a_forward_tsn_is_answered_by_the_one_who_has_sent_shutdown() {
    let mut peer = agreed();
    peer.shutdown();
    assert_eq!(peer.take_one().kinds(), [SHUTDOWN]);
    peer.give(&[forward_tsn(1, &[])]);
    let sent = peer.take_one();
    assert!(sent.has(SHUTDOWN) && sent.has(SACK), "{:?}", sent.kinds());
    assert_eq!(sent.sack().cumulative, 1);
}

#[test]
fn a_peer_that_restarts_without_forward_tsn_is_believed() {
    let mut peer = agreed();
    let tag = peer.tag;
    let again = Init { tag: 0x7eed_0002, ..init_with(&[]) };
    peer.give_tagged(0, &[again.chunk(1)]);
    let init_ack = peer.take_one().init();
    assert_eq!(init_ack.all(FORWARD_TSN_SUPPORTED).len(), 0);
    peer.tag = init_ack.tag;
    assert_ne!(peer.tag, tag);
    peer.give(&[chunk(COOKIE_ECHO, 0, &init_ack.cookie())]);
    assert_eq!(peer.take_one().kinds(), [COOKIE_ACK]);
    peer.give(&[forward_tsn(1, &[])]);
    assert_eq!(peer.take_one().kinds(), [ERROR]);
}

#[test]
fn an_init_whose_forward_tsn_supported_has_a_value_is_refused_with_an_abort() {
    let mut peer = Peer::new(config());
    let parameters = tlv(FORWARD_TSN_SUPPORTED, &[1, 2, 3, 4]);
    peer.give_tagged(0, &[Init { parameters, ..offer() }.chunk(INIT)]);
    assert_eq!(peer.take_one().kinds(), [ABORT]);
}
