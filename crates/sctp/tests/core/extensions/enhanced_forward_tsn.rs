//! E-FORWARD-TSN (docs/enhanced-forward-tsn.md): negotiation, and the receiver's side.

use festina_sctp::Extensions;

use super::*;
use crate::rfc9260::packet::{COOKIE_ECHO, ERROR, INIT_ACK, SACK, SHUTDOWN, data};
use crate::rfc9260::peer::Peer;

/// The settings of the other tests, with the chunk offered.
fn offering() -> Config {
    let mut config = config();
    config.partial_reliability.enhanced_forward_tsn = true;
    config
}

/// An association that has agreed on it.
fn agreed() -> Peer {
    Peer::serving(offering(), &init_ack_with(&[extensions(&[FORWARD_TSN, ENHANCED_FORWARD_TSN])]))
}

/// E-FORWARD-TSN of the association's TSNs, counted from 1: the cumulative TSN, blocks, and stream, first number and further messages of each run.
fn enhanced(cumulative: u32, blocks: &[(u16, u16)], runs: &[(u16, u32, u16)]) -> Vec<u8> {
    let mut value = cumulative.to_be_bytes().to_vec();
    value.extend(u16::try_from(blocks.len()).unwrap().to_be_bytes());
    value.extend(u16::try_from(runs.len()).unwrap().to_be_bytes());
    for (first, last) in blocks {
        value.extend(first.to_be_bytes());
        value.extend(last.to_be_bytes());
    }
    for (stream, first, more) in runs {
        value.extend(stream.to_be_bytes());
        value.extend(more.to_be_bytes());
        value.extend(first.to_be_bytes());
    }
    chunk(ENHANCED_FORWARD_TSN, 0, &value)
}

#[test]
fn it_is_announced_only_where_the_settings_offer_it_and_only_to_a_peer_that_announces_it() {
    let init = Peer::connecting(config()).take_one().init();
    assert!(!init.all(SUPPORTED_EXTENSIONS).concat().contains(&ENHANCED_FORWARD_TSN), "off by default");
    let init = Peer::connecting(offering()).take_one().init();
    assert!(init.all(SUPPORTED_EXTENSIONS).concat().contains(&ENHANCED_FORWARD_TSN));
    for (config, announced, is_answered) in [
        (offering(), vec![FORWARD_TSN], false),
        (config(), vec![FORWARD_TSN, ENHANCED_FORWARD_TSN], false),
        (offering(), vec![FORWARD_TSN, ENHANCED_FORWARD_TSN], true),
    ] {
        let mut peer = Peer::new(config);
        peer.give_tagged(0, &[init_with(&[extensions(&announced)]).chunk(1)]);
        let sent = peer.take_one();
        assert_eq!(sent.kinds(), [INIT_ACK]);
        let answered = sent.init().all(SUPPORTED_EXTENSIONS).concat();
        assert_eq!(answered.contains(&ENHANCED_FORWARD_TSN), is_answered, "{announced:?}");
    }
}

#[test]
fn the_cookie_carries_what_was_agreed_on() {
    let announced = extensions(&[FORWARD_TSN, ENHANCED_FORWARD_TSN]);
    let mut peer = Peer::client(offering(), &init_with(&[announced]));
    assert!(peer.association().peer_extensions().contains(Extensions::ENHANCED_FORWARD_TSN));
    peer.give(&[data(2)]);
    peer.take();
    peer.give(&[enhanced(0, &[(1, 1)], &[(0, 0, 0)])]);
    assert_eq!((peer.received.len(), peer.take_one().sack().cumulative), (1, 2));
}

#[test]
fn it_is_an_unknown_chunk_unless_both_sides_offer_it_and_forward_tsn() {
    for (config, announced) in [
        (config(), &[FORWARD_TSN, ENHANCED_FORWARD_TSN][..]),
        (offering(), &[FORWARD_TSN]),
        (offering(), &[ENHANCED_FORWARD_TSN]),
    ] {
        let mut peer = Peer::serving(config, &init_ack_with(&[extensions(announced)]));
        let chunk = enhanced(0, &[(2, 2)], &[]);
        peer.give(&[chunk.clone(), data(1)]);
        let sent = peer.take_one();
        assert_eq!(sent.sack().cumulative, 1, "later chunks are processed (RFC 9260 §3.2, 11)");
        assert_eq!(sent.the(ERROR).causes(), [(6, chunk)]);
    }
}

#[test]
fn what_it_names_is_reported_at_once_and_the_rest_is_delivered_in_order() {
    let mut peer = agreed();
    peer.give(&[data(1), data(5)]);
    peer.take();
    peer.give(&[enhanced(1, &[(1, 1), (3, 3)], &[(0, 1, 0), (0, 3, 0)])]);
    let sack = peer.take_one().sack();
    assert_eq!((sack.cumulative, sack.gaps, peer.received.len()), (2, vec![(2, 3)], 1));
    peer.give(&[data(3)]);
    assert_eq!((peer.received.len(), peer.take_one().sack().cumulative), (3, 5));
}

#[test]
fn with_i_data_it_names_messages_of_either_kind() {
    let mut config = offering();
    config.interleaving = true;
    let announced = extensions(&[FORWARD_TSN, I_DATA, I_FORWARD_TSN, ENHANCED_FORWARD_TSN]);
    let mut peer = Peer::serving(config, &init_ack_with(&[announced]));
    // Message 0 is whole, 1 lacks its end, 2 is missing and 3 is whole.
    peer.give(&[i_data(1, 0, 3, 0, b"a"), i_data(2, 1, 2, 0, b"b"), i_data(5, 3, 3, 0, b"d")]);
    peer.take();
    peer.give(&[enhanced(2, &[(1, 2)], &[(0, 1, 1)])]);
    assert_eq!((peer.take_one().sack().cumulative, peer.payloads()), (5, vec![&b"a"[..], b"d"]));
    // The second part of unordered message 0 is abandoned.
    peer.give(&[i_data(6, 0, 6, 0, b"u")]);
    peer.take();
    peer.give(&[enhanced(6, &[(1, 1)], &[(0, 0, 0x8000)])]);
    assert_eq!(peer.take_one().sack().cumulative, 7);
    peer.give(&[i_data(8, 4, 3, 0, b"e")]);
    assert_eq!(peer.payloads().last(), Some(&&b"e"[..]));
}

#[test]
fn before_the_handshake_is_complete_or_malformed_it_means_nothing() {
    let announced = init_ack_with(&[extensions(&[FORWARD_TSN, ENHANCED_FORWARD_TSN])]);
    let mut peer = Peer::cookie_echoed(offering(), &announced);
    assert_eq!(peer.take_one().kinds(), [COOKIE_ECHO]);
    peer.give(&[enhanced(0, &[(1, 1)], &[])]);
    peer.nothing_sent();
    let mut peer = agreed();
    for blocks in [&[(0, 1)][..], &[(2, 1)], &[(3, 4), (1, 1)], &[(1, 1), (2, 2)]] {
        peer.give(&[enhanced(0, blocks, &[])]);
        peer.nothing_sent();
    }
    peer.give(&[enhanced(7, &[(1, 1)], &[])]);
    assert_eq!(peer.take_one().sack().cumulative, 0, "of another association: dropped, as if it had been lost");
    peer.give(&[data(1)]);
    peer.give(&[data(2)]);
    assert_eq!(peer.take_one().sack().cumulative, 2);
}

#[test]
fn it_is_answered_by_the_one_who_has_sent_shutdown() {
    let mut peer = agreed();
    peer.shutdown();
    assert_eq!(peer.take_one().kinds(), [SHUTDOWN]);
    peer.give(&[enhanced(0, &[(1, 1)], &[])]);
    let sent = peer.take_one();
    assert!(sent.has(SHUTDOWN) && sent.has(SACK), "{:?}", sent.kinds());
    assert_eq!(sent.sack().cumulative, 1);
}
