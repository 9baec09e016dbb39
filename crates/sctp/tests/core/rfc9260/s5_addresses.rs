//! §5.1.2, §5.2.1, §5.2.2: the addresses that a peer names, and restarts that add some.

use std::net::IpAddr;

use festina_sctp::{AssociationState, Event};

use super::packet::{ABORT, INIT, INIT_ACK, Init, cookie_echo, tlv};
use super::peer::{Peer, config, init_ack, offer};
use super::s5_2_collisions::{NEW_TAG, goes_on, new_init, unexpected_init};

#[test]
fn s5_2_2_an_unexpected_init_that_adds_an_address_is_answered_by_an_abort_with_its_initiate_tag() {
    let mut peer = Peer::established();
    let address = tlv(5, &[198, 51, 100, 7]);
    peer.give_tagged(0, &[Init { parameters: address.clone(), ..new_init() }.chunk(INIT)]);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag, sent.the(ABORT).flags), (vec![ABORT], NEW_TAG, 0));
    for cause in sent.the(ABORT).causes() {
        assert_eq!(cause, (11, address.clone()), "§3.3.10.11");
    }
    goes_on(&mut peer, 1);
}

#[test]
fn s5_2_2_an_unexpected_init_with_the_known_address_adds_none() {
    let mut peer = Peer::established();
    let parameters = tlv(5, &[192, 0, 2, 1]);
    let answer = unexpected_init(&mut peer, &Init { parameters, ..new_init() });
    assert!(!answer.cookie().is_empty());
}

#[test]
fn s5_2_2_an_unexpected_init_with_the_addresses_of_the_handshake_adds_none() {
    let addresses = [tlv(5, &[192, 0, 2, 1]), tlv(5, &[198, 51, 100, 7]), tlv(6, &[0x20; 16])].concat();
    let mut ack = init_ack();
    ack.parameters.extend(&addresses);
    let client = Peer::serving(config(), &ack);
    let server = Peer::client(config(), &Init { parameters: addresses.clone(), ..offer() });
    for mut peer in [client, server] {
        let answer = unexpected_init(&mut peer, &Init { parameters: addresses.clone(), ..new_init() });
        peer.give_tagged(answer.tag, &[cookie_echo(&answer.cookie())]);
        assert!(peer.events.contains(&Event::PeerRestarted), "a peer with several addresses can restart");
    }
}

#[test]
fn s5_2_2_a_restart_with_the_same_addresses_is_accepted_and_one_with_any_other_is_refused() {
    let named: Vec<_> = (0..8).map(|last| tlv(5, &[198, 51, 100, last])).collect();
    let mut ack = init_ack();
    ack.parameters.extend(named.concat());
    let client = || Peer::serving(config(), &ack);
    let server = || Peer::client(config(), &Init { parameters: named.concat(), ..offer() });
    for mut peer in [client(), server()] {
        for other in (8..=255).map(|last| tlv(5, &[198, 51, 100, last])) {
            let parameters = [&named[..], std::slice::from_ref(&other)].concat().concat();
            peer.give_tagged(0, &[Init { parameters, ..new_init() }.chunk(INIT)]);
            assert_eq!(peer.take_one().the(ABORT).causes(), [(11, other)]);
        }
        // In another order, some twice, and as mapped addresses, they are the same.
        let mapped = tlv(6, &[&[0; 10][..], &[255, 255, 198, 51, 100, 3]].concat());
        let parameters = [named[7].clone(), mapped, named[0].clone(), named[7].clone()].concat();
        let answer = unexpected_init(&mut peer, &Init { parameters, ..new_init() });
        peer.give_tagged(answer.tag, &[cookie_echo(&answer.cookie())]);
        assert!(peer.events.contains(&Event::PeerRestarted));
        let others: Vec<_> = [7, 3, 0].map(|last| IpAddr::from([198, 51, 100, last])).into();
        let addresses: Vec<_> = peer.association().peer_addresses().collect();
        assert_eq!(addresses, [&[peer.address.ip()][..], &others].concat(), "those of the new incarnation");
    }
}

#[test]
fn s5_2_2_an_unexpected_init_from_an_unknown_source_adds_it() {
    let mut peer = Peer::established();
    peer.address = "198.51.100.7:9899".parse().unwrap();
    peer.give_tagged(0, &[new_init().chunk(INIT)]);
    assert_eq!(peer.take_one().the(ABORT).causes(), [(11, tlv(5, &[198, 51, 100, 7]))]);
}

#[test]
fn s5_1_2_the_addresses_of_an_init_and_of_an_init_ack_are_recorded_with_their_source() {
    let parameters = [tlv(6, &[0x20; 16]), tlv(5, &[192, 0, 2, 1]), tlv(5, &[127, 0, 0, 1])].concat();
    let mut ack = init_ack();
    ack.parameters.extend(&parameters);
    let client = Peer::serving(config(), &ack);
    let server = Peer::client(config(), &Init { parameters, ..offer() });
    for mut peer in [client, server] {
        let addresses: Vec<_> = peer.association().peer_addresses().collect();
        assert_eq!(addresses, [peer.address.ip(), IpAddr::from([0x20; 16])]);
    }
}

#[test]
fn s5_2_2_addresses_beyond_the_limit_are_not_known_and_a_restart_that_names_them_is_refused() {
    let addresses = |count: u16| -> Vec<u8> {
        let each = |number: u16| tlv(5, &[10, 0, number.to_be_bytes()[0], number.to_be_bytes()[1]]);
        (1..=count).flat_map(each).collect()
    };
    let init = |count| Init { parameters: addresses(count), ..offer() };
    for (count, is_accepted) in [(7, true), (8, true), (9, false), (8_000, false)] {
        let mut peer = Peer::client(config(), &init(count));
        assert_eq!(peer.association().peer_addresses().count(), 1 + usize::from(count.min(8)));
        peer.give_tagged(0, &[Init { tag: NEW_TAG, ..init(count) }.chunk(INIT)]);
        let answer = peer.take_one();
        assert_eq!(answer.kinds(), [if is_accepted { INIT_ACK } else { ABORT }], "{count} addresses");
        assert!(answer.bytes.len() <= 384, "{count} addresses");
        goes_on(&mut peer, 1);
    }
}

#[test]
fn s5_2_1_an_init_in_cookie_echoed_that_adds_an_address_is_discarded() {
    let mut peer = Peer::cookie_echoed(config(), &init_ack());
    peer.take();
    peer.give_tagged(0, &[Init { parameters: tlv(5, &[198, 51, 100, 7]), ..new_init() }.chunk(INIT)]);
    for sent in peer.take() {
        assert_eq!((sent.kinds(), sent.tag), (vec![ABORT], NEW_TAG));
    }
    assert_eq!(peer.state(), AssociationState::CookieEchoed);
}
