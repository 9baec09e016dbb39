//! REPAIR, Festina's own.

use festina_sctp::Extensions;

use super::{SUPPORTED_EXTENSIONS, extensions, init_ack_with, init_with};
use crate::rfc9260::packet::{INIT_ACK, chunk, data};
use crate::rfc9260::peer::{Peer, config, ms};

const REPAIR: u8 = 0xb6;

#[test]
fn it_is_not_announced_and_the_cookie_carries_that_the_peer_announces_it() {
    let mut peer = Peer::new(config());
    peer.give_tagged(0, &[init_with(&[extensions(&[REPAIR])]).chunk(1)]);
    let sent = peer.take_one();
    assert_eq!(sent.kinds(), [INIT_ACK]);
    assert!(!sent.init().all(SUPPORTED_EXTENSIONS).concat().contains(&REPAIR));
    let mut peer = Peer::client(config(), &init_with(&[extensions(&[REPAIR])]));
    assert!(peer.association().peer_extensions().contains(Extensions::REPAIR));
}

#[test]
fn without_agreement_it_is_passed_over_and_not_reported() {
    let mut peer = Peer::serving(config(), &init_ack_with(&[extensions(&[REPAIR])]));
    peer.give(&[chunk(REPAIR, 3, &[0, 0, 0, 1, 0, 3, 9, 9, 9, 9, 9, 1]), data(1)]);
    peer.wait(ms(500));
    let sent = peer.take_one();
    assert_eq!((sent.kinds().len(), sent.sack().cumulative), (1, 1));
}
