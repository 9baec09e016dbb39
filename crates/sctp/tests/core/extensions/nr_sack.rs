//! NR-SACK: negotiation, and what either side does with it.

use super::*;
use crate::rfc9260::packet::{ERROR, SACK, data};
use crate::rfc9260::peer::Peer;

fn nr_sack(cumulative: u32) -> Vec<u8> {
    let mut value = cumulative.to_be_bytes().to_vec();
    value.extend(60_000_u32.to_be_bytes());
    value.extend([0; 8]);
    chunk(NR_SACK, 0, &value)
}

#[test]
fn nr_sack_is_sent_where_both_sides_announce_it_and_something_is_missing() {
    let mut peer = Peer::serving(config(), &init_ack_with(&[extensions(&[NR_SACK])]));
    peer.give(&[data(1)]);
    assert_eq!(peer.take_one().kinds(), [SACK], "there is nothing that could be taken back");
    peer.give(&[data(3)]);
    assert_eq!(peer.take_one().kinds(), [NR_SACK]);
}

#[test]
fn nr_sack_is_an_unknown_chunk_where_it_was_not_agreed_on_and_sack_is_sent() {
    let mut peer = Peer::established();
    peer.give(&[data(2)]);
    assert_eq!(peer.take_one().kinds(), [SACK]);
    peer.give(&[nr_sack(0)]);
    assert!(
        peer.take().iter().all(|packet| packet.kinds() != [ERROR]),
        "type 0x10 is skipped in silence or ends the packet"
    );
    assert!(!peer.association().is_closed());
}

#[test]
fn nr_sack_is_not_announced_and_not_sent_where_the_settings_refuse_it() {
    let mut config = config();
    config.partial_reliability.nr_sack = false;
    let init = Peer::connecting(config.clone()).take_one().init();
    assert_eq!(init.all(SUPPORTED_EXTENSIONS), [[FORWARD_TSN, RE_CONFIG]]);
    let mut peer = Peer::serving(config, &init_ack_with(&[extensions(&[NR_SACK])]));
    peer.give(&[data(3)]);
    assert_eq!(peer.take_one().kinds(), [SACK]);
}
