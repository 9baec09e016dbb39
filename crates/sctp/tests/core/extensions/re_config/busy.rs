//! A peer that is busy with a request of its own (RFC 6525 §5.2.7).

use super::*;

const BUSY: u32 = 4;

fn add_inbound(peer: &mut Peer, streams: u16) {
    let now = peer.now;
    peer.association().add_streams(now, 0, streams).expect("the peer supports it");
    peer.give(&[]);
}

#[test]
fn rfc6525_5_2_7_a_peer_busy_with_its_own_request_is_asked_again_with_the_next_number() {
    let mut peer = peer();
    add_inbound(&mut peer, 2);
    assert_eq!(parameter(&peer.take_one()), (18, words(&[peer.initial_tsn, 2 << 16])));
    peer.give(&[re_config(&[response(peer.initial_tsn, BUSY)])]);
    assert!(changes(&peer).is_empty());
    assert!(peer.wait_for_packet() >= ms(100), "after a timeout, not at once");
    let second = peer.initial_tsn.wrapping_add(1);
    assert_eq!(parameter(&peer.take_one()), (18, words(&[second, 2 << 16])));
    peer.give(&[re_config(&[response(second, PERFORMED)])]);
    peer.wait(ms(100_000));
    peer.nothing_sent();
    assert!(changes(&peer).is_empty());
}

#[test]
fn a_peer_that_is_always_busy_makes_the_request_fail() {
    let mut peer = peer();
    add_inbound(&mut peer, 2);
    let mut asked = 0;
    while changes(&peer).is_empty() {
        let (_, value) = parameter(&peer.take_one());
        asked += 1;
        peer.give(&[re_config(&[response(u32_at(&value, 0), BUSY)])]);
        if changes(&peer).is_empty() {
            peer.wait_for_packet();
        }
    }
    assert_eq!(asked, 1 + settings().retries.association_max);
    let request = StreamRequest::Add(Direction::Inbound, 2);
    assert_eq!(changes(&peer), [&Event::StreamRequestFailed { request, result: ReConfigResult::AlreadyInProgress }]);
}
