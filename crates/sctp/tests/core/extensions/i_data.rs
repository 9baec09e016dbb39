//! RFC 8260: negotiation, and the receiver's side of I-DATA and I-FORWARD-TSN.

use festina_sctp::ClosedReason;

use super::*;
use crate::rfc9260::packet::{ABORT, B, E, ERROR, INIT_ACK, U, data};
use crate::rfc9260::peer::Peer;

const ALL: [u8; 3] = [FORWARD_TSN, I_DATA, I_FORWARD_TSN];

/// An association that has agreed on interleaving.
fn agreed() -> Peer {
    Peer::serving(interleaving(), &init_ack_with(&[forward_tsn_supported(), extensions(&ALL)]))
}

fn assert_violation(mut peer: Peer, text: &str) {
    assert_eq!(peer.take_one().the(ABORT).causes(), [(13, text.as_bytes().to_vec())]);
    assert!(matches!(peer.closed(), Some(ClosedReason::ProtocolViolation(_))));
}

#[test]
fn rfc8260_2_2_1_interleaving_is_announced_only_where_it_is_on_and_used_only_where_both_announce_it() {
    let init = Peer::connecting(interleaving()).take_one().init();
    assert_eq!(init.all(SUPPORTED_EXTENSIONS), [[FORWARD_TSN, I_DATA, RE_CONFIG, NR_SACK, I_FORWARD_TSN]]);
    let init = Peer::connecting(config()).take_one().init();
    assert_eq!(init.all(SUPPORTED_EXTENSIONS), [[FORWARD_TSN, RE_CONFIG, NR_SACK]]);
    for (config, offered, answered) in [
        (interleaving(), &ALL[..], &ALL[..]),
        (interleaving(), &[I_DATA, 0xc1], &[I_DATA]),
        (interleaving(), &[FORWARD_TSN], &[FORWARD_TSN]),
        (config(), &ALL, &[FORWARD_TSN]),
    ] {
        let mut peer = Peer::new(config);
        peer.give_tagged(0, &[init_with(&[extensions(offered)]).chunk(1)]);
        let sent = peer.take_one();
        assert_eq!(sent.kinds(), [INIT_ACK]);
        assert_eq!(sent.init().all(SUPPORTED_EXTENSIONS), [answered], "{offered:?}");
    }
}

#[test]
fn rfc8260_2_2_fragments_of_several_messages_may_alternate() {
    let mut peer = agreed();
    peer.give(&[i_data(1, 0, B, 51, b"lo"), i_data(2, 0, B | U, 7, b"ur")]);
    peer.give(&[i_data(4, 0, E, 2, b"g"), i_data(5, 1, B | E, 0, b"next")]);
    peer.give(&[i_data(3, 0, 0, 1, b"n"), i_data(6, 0, E | U, 1, b"gent")]);
    assert_eq!(peer.payloads(), [&b"long"[..], b"next", b"urgent"]);
    assert_eq!(peer.received.iter().map(|message| message.ppid()).collect::<Vec<_>>(), [51, 0, 7]);
    assert_eq!(peer.take().last().map(|sent| sent.sack().cumulative), Some(6));
}

#[test]
fn rfc8260_2_2_1_the_cookie_carries_what_was_agreed_on() {
    let mut peer = Peer::client(interleaving(), &init_with(&[extensions(&ALL)]));
    peer.give(&[i_data(1, 0, B | E, 0, b"x")]);
    assert_eq!(peer.payloads(), [b"x"]);
}

#[test]
fn rfc8260_2_2_1_data_and_forward_tsn_end_an_association_that_has_agreed_on_i_data() {
    let mut peer = agreed();
    peer.give(&[data(1)]);
    assert_violation(peer, "DATA where I-DATA was agreed on");
    let mut peer = agreed();
    peer.give(&[forward_tsn(1, &[])]);
    assert_violation(peer, "FORWARD-TSN where I-DATA was agreed on");
}

#[test]
fn rfc9260_3_2_i_data_and_i_forward_tsn_are_unknown_chunks_where_they_were_not_agreed_on() {
    for (config, parameters) in [
        (config(), vec![forward_tsn_supported(), extensions(&ALL)]),
        (interleaving(), vec![forward_tsn_supported(), extensions(&[FORWARD_TSN])]),
    ] {
        let mut peer = Peer::serving(config, &init_ack_with(&parameters));
        let chunk = i_data(1, 0, B | E, 0, b"four");
        peer.give(&[chunk.clone(), data(1)]);
        let sent = peer.take_one();
        assert_eq!(sent.kinds(), [ERROR], "01: later chunks are dropped");
        assert_eq!(sent.the(ERROR).causes(), [(6, chunk)]);
        peer.give(&[i_forward_tsn(1, &[]), data(1)]);
        let sent = peer.take_one();
        assert_eq!((sent.sack().cumulative, sent.the(ERROR).causes()), (1, vec![(6, i_forward_tsn(1, &[]))]));
    }
}

#[test]
fn rfc8260_2_3_1_i_forward_tsn_needs_an_announcement() {
    let mut peer = Peer::serving(interleaving(), &init_ack_with(&[extensions(&[I_DATA])]));
    peer.give(&[i_forward_tsn(1, &[])]);
    assert_eq!(peer.take_one().kinds(), [ERROR]);
}

/// So does Linux.
#[test]
fn a_peer_that_announces_forward_tsn_and_i_data_may_skip_messages_by_i_forward_tsn() {
    let mut peer = Peer::serving(interleaving(), &init_ack_with(&[extensions(&[FORWARD_TSN, I_DATA])]));
    peer.give(&[i_data(3, 1, B | E, 1, b"after the skipped one")]);
    peer.take();
    peer.give(&[i_forward_tsn(2, &[(0, 0, 0)])]);
    assert_eq!(peer.payloads(), [b"after the skipped one"]);
    assert_eq!(peer.take().last().map(|sent| sent.sack().cumulative), Some(3));
}

#[test]
fn rfc8260_2_3_1_skipped_messages_are_dropped_and_those_that_wait_for_them_delivered() {
    let mut peer = agreed();
    peer.give(&[i_data(1, 0, B, 0, b"dropped"), i_data(3, 1, B | E, 0, b"kept"), i_data(4, 0, B | U, 0, b"dropped")]);
    peer.give(&[i_forward_tsn(2, &[(0, 0, 0), (0, 1, 0)])]);
    assert_eq!(peer.payloads(), [b"kept"]);
    assert_eq!(peer.take().last().map(|sent| sent.sack().cumulative), Some(4));
    peer.give(&[i_data(5, 0, E | U, 1, b"dropped"), i_data(6, 2, B | E, 0, b"next")]);
    assert_eq!(peer.payloads(), [&b"kept"[..], b"next"]);
}

#[test]
fn i_data_without_user_data_ends_the_association() {
    let mut peer = agreed();
    peer.give(&[i_data(9, 0, B | E, 0, b"")]);
    assert_eq!(peer.take_one().the(ABORT).causes(), [(9, 9_u32.to_be_bytes().to_vec())]);
}
