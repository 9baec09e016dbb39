//! §5 and the purposes AS of ETSI TS 102 369 with several addresses of the peer: set-up, restarts, confirmation.

use std::net::SocketAddr;

use festina_sctp::{AssociationState, Event, PathState};
use festina_units::Duration;

use super::packet::{
    ABORT, COOKIE_ACK, COOKIE_ECHO, DATA, ERROR, HEARTBEAT, HEARTBEAT_ACK, HOST_NAME, INIT, INIT_ACK, Init, SACK,
    SHUTDOWN, SHUTDOWN_ACK, Sent, chunk, cookie_echo, data, heartbeat, shutdown, tlv, tlvs,
};
use super::peer::{Peer, config, init_ack, offer};
use super::s5_2_collisions::{NEW_TAG, goes_on, new_init};
use super::s6_4_multihoming::{
    IPV4, IPV6, answer, first, give_from, multihomed, named, next_data, rfc9260, second, serving, states,
    with_two_paths,
};

fn third() -> SocketAddr {
    "203.0.113.5:9899".parse().unwrap()
}

fn name(address: SocketAddr) -> Vec<u8> {
    match address {
        SocketAddr::V4(address) => tlv(IPV4, &address.ip().octets()),
        SocketAddr::V6(address) => tlv(IPV6, &address.ip().octets()),
    }
}

/// A peer with these other addresses, established as the client of an association.
fn client(addresses: &[u8]) -> Peer {
    let mut peer = Peer::of(multihomed(config(), rfc9260()));
    let cookie = peer.begin(&Init { parameters: addresses.to_vec(), ..offer() });
    peer.give(&[cookie_echo(&cookie)]);
    assert!(peer.association.is_some());
    peer
}

fn info(sent: &Sent) -> Vec<u8> {
    let [(1, info)] = &tlvs(&sent.the(HEARTBEAT).value)[..] else { panic!("{sent:?}") };
    info.clone()
}

fn remotes(peer: &mut Peer) -> Vec<SocketAddr> {
    peer.association().paths().map(|path| path.remote).collect()
}

/// ETSI AS-V 1-11-1 and 1-11-2; each address is verified, takes data, and is a destination.
#[test]
fn s5_1_2_etsi_as_v_1_11_every_address_of_an_init_and_of_an_init_ack_is_used() {
    let ipv6: SocketAddr = "[2001:db8::7]:9899".parse().unwrap();
    for others in [vec![second()], vec![ipv6], vec![second(), ipv6]] {
        let addresses: Vec<_> = others.iter().flat_map(|&other| name(other)).collect();
        for mut peer in [client(&addresses), serving(config(), rfc9260(), &addresses)] {
            peer.wait(Duration::from_secs(3));
            let probes: Vec<_> = peer.take().into_iter().filter(|sent| sent.has(HEARTBEAT)).collect();
            for &other in &others {
                let probe = probes.iter().find(|sent| sent.to == other).expect("each address is verified");
                give_from(&mut peer, other, &[heartbeat(HEARTBEAT_ACK, &info(probe))]);
            }
            let mut tsn = 0;
            for &source in [first()].iter().chain(&others) {
                tsn += 1;
                peer.take();
                give_from(&mut peer, source, &[data(tsn)]);
                peer.wait(Duration::from_millis(500));
                assert!(peer.take().iter().any(|sent| sent.has(SACK)), "data from {source} is acknowledged");
            }
            assert_eq!(peer.received.len(), 1 + others.len());
            peer.send("x");
            let used: Vec<_> = (0..=others.len()).map(|_| next_data(&mut peer).1).collect();
            assert_eq!(used[0], first());
            assert!(others.iter().all(|other| used.contains(other)), "{used:?}");
        }
    }
}

#[test]
fn s5_1_2_a_without_addresses_nothing_is_ever_sent_to_another_than_the_source() {
    let mut settings = config();
    settings.timers.heartbeat_interval = Some(Duration::from_secs(30));
    let mut peer = serving(settings, rfc9260(), &[]);
    give_from(&mut peer, second(), &[data(1), heartbeat(HEARTBEAT, b"x")]);
    peer.send("x");
    peer.wait(Duration::from_secs(300));
    let sent = peer.take();
    assert!(sent.len() > 5 && sent.iter().all(|sent| sent.to == first()), "{sent:?}");
}

/// ETSI AS-V 1-12-1 and AS-I 1-12-2 with addresses next to the name.
#[test]
fn s5_1_2_b_etsi_as_v_1_12_a_host_name_among_addresses_is_refused_at_the_source() {
    let host = tlv(HOST_NAME, b"a.b\0");
    let parameters = [named(), host.clone(), name(third())].concat();
    let mut server = Peer::of(multihomed(config(), rfc9260()));
    server.give_tagged(0, &[Init { parameters: parameters.clone(), ..offer() }.chunk(INIT)]);
    let mut client = Peer::of(multihomed(config(), rfc9260()));
    client.connect(1);
    client.tag = client.take_one().init().tag;
    let mut ack = init_ack();
    ack.parameters.extend(parameters);
    client.give(&[ack.chunk(INIT_ACK)]);
    for peer in [&mut server, &mut client] {
        let sent = peer.take_one();
        assert_eq!((sent.kinds(), sent.to), (vec![ABORT], first()));
        assert_eq!(sent.the(ABORT).causes(), [(5, host.clone())]);
        assert_eq!(peer.state(), AssociationState::Closed);
    }
}

#[test]
fn s5_2_1_in_cookie_wait_no_init_ack_goes_to_an_address_that_was_not_asked_for() {
    for parameters in [Vec::new(), name(first()), named()] {
        let mut peer = Peer::of(multihomed(config(), rfc9260()));
        peer.connect(1);
        peer.tag = peer.take_one().init().tag;
        peer.address = second();
        peer.give_tagged(0, &[Init { parameters, ..offer() }.chunk(INIT)]);
        for sent in peer.take() {
            assert_eq!((sent.kinds(), sent.to), (vec![INIT_ACK], first()));
        }
        assert_eq!(peer.state(), AssociationState::CookieWait);
        peer.address = first();
        peer.give(&[init_ack().chunk(INIT_ACK)]);
        assert_eq!(peer.take_one().kinds(), [COOKIE_ECHO]);
    }
}

#[test]
fn s5_2_1_in_cookie_echoed_an_init_from_an_address_of_the_init_ack_is_answered() {
    let mut peer = Peer::of(multihomed(config(), rfc9260()));
    peer.connect(1);
    let own = peer.take_one().init();
    peer.tag = own.tag;
    let mut ack = init_ack();
    ack.parameters.extend(named());
    peer.give(&[ack.chunk(INIT_ACK)]);
    peer.take();
    peer.address = second();
    peer.give_tagged(0, &[Init { parameters: name(first()), ..new_init() }.chunk(INIT)]);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag), (vec![INIT_ACK], NEW_TAG));
    assert_eq!((sent.init().tag, sent.init().tsn), (own.tag, own.tsn), "the parameters of the own INIT");
    assert_eq!(peer.state(), AssociationState::CookieEchoed);
}

#[test]
fn s5_2_1_sides_with_several_addresses_that_open_at_once_make_one_association() {
    let mut peer = Peer::of(multihomed(config(), rfc9260()));
    peer.connect(1);
    let own = peer.take_one().init();
    (peer.tag, peer.initial_tsn) = (own.tag, own.tsn);
    peer.give_tagged(0, &[Init { parameters: named(), ..offer() }.chunk(INIT)]);
    let cookie = peer.take_one().init().cookie();
    peer.give(&[cookie_echo(&cookie)]);
    assert_eq!(peer.state(), AssociationState::Established);
    assert_eq!(remotes(&mut peer), [first(), second()]);
    answer(&mut peer);
    assert_eq!(states(&mut peer), [PathState::Active; 2]);
}

#[test]
fn s5_2_2_an_init_without_addresses_from_a_known_one_restarts_with_that_one_alone() {
    let mut peer = with_two_paths(config(), rfc9260());
    peer.take();
    peer.address = second();
    peer.give_tagged(0, &[new_init().chunk(INIT)]);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag, sent.to), (vec![INIT_ACK], NEW_TAG, second()));
    let (tag, cookie) = (sent.init().tag, sent.init().cookie());
    peer.address = first();
    goes_on(&mut peer, 1);
    peer.take();
    peer.address = second();
    peer.give_tagged(tag, &[cookie_echo(&cookie)]);
    assert!(peer.events.contains(&Event::PeerRestarted));
    assert_eq!(remotes(&mut peer), [second()]);
    peer.send("x");
    peer.wait(Duration::from_secs(60));
    assert!(peer.take().iter().all(|sent| sent.to == second()));
}

#[test]
fn s5_1_2_d_an_init_from_elsewhere_that_names_a_known_address_belongs_to_the_association() {
    for mut peer in [Peer::established(), with_two_paths(config(), rfc9260())] {
        peer.take();
        peer.address = third();
        peer.give_tagged(0, &[Init { parameters: name(first()), ..new_init() }.chunk(INIT)]);
        let sent = peer.take_one();
        assert_eq!((sent.kinds(), sent.tag, sent.to), (vec![ABORT], NEW_TAG, third()));
        assert_eq!(sent.the(ABORT).causes(), [(11, name(third()))]);
        peer.address = first();
        goes_on(&mut peer, 1);
    }
}

/// ETSI AS-O 1-9-2 with two known addresses and a new one.
#[test]
fn s5_2_2_etsi_as_o_1_9_2_the_abort_lists_the_added_addresses_and_a_heartbeat_is_still_answered() {
    let mut peer = with_two_paths(config(), rfc9260());
    peer.take();
    let added = [name(third()), name("[2001:db8::9]:1".parse().unwrap())].concat();
    let parameters = [name(first()), added[..8].to_vec(), named(), added[8..].to_vec()].concat();
    peer.give_tagged(0, &[Init { parameters, ..new_init() }.chunk(INIT)]);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag, sent.to), (vec![ABORT], NEW_TAG, first()));
    assert_eq!(sent.the(ABORT).causes(), [(11, added)]);
    for source in [first(), second()] {
        give_from(&mut peer, source, &[heartbeat(HEARTBEAT, b"still there?")]);
        let sent = peer.take_one();
        assert_eq!((sent.kinds(), sent.to), (vec![HEARTBEAT_ACK], source));
    }
    goes_on(&mut peer, 1);
}

#[test]
fn s5_4_2_a_cookie_from_another_named_address_confirms_the_destination_of_the_init_ack_alone() {
    let mut peer = Peer::of(multihomed(config(), rfc9260()));
    let cookie = peer.begin(&Init { parameters: named(), ..offer() });
    peer.address = second();
    peer.give(&[cookie_echo(&cookie)]);
    assert!(peer.association.is_some(), "the peer may send by either network");
    let sent = peer.take();
    assert!(sent.iter().any(|sent| sent.has(COOKIE_ACK)), "{sent:?}");
    only_heartbeats_and_bundled_cookie_acks(&sent, second());
    let of_first = peer.association().paths().find(|path| path.remote == first()).map(|path| path.state);
    assert_eq!(of_first, Some(PathState::Active));
    let of_second = peer.association().paths().find(|path| path.remote == second()).map(|path| path.state);
    assert_eq!(of_second, Some(PathState::Unconfirmed));
}

/// What §5.4 allows at an unconfirmed address.
fn only_heartbeats_and_bundled_cookie_acks(sent: &[Sent], unconfirmed: SocketAddr) {
    for sent in sent.iter().filter(|sent| sent.to == unconfirmed) {
        let allowed = |kind: &u8| [HEARTBEAT, HEARTBEAT_ACK].contains(kind);
        let cookies = |kind: &u8| [COOKIE_ACK, COOKIE_ECHO].contains(kind) && sent.has(HEARTBEAT);
        assert!(sent.kinds().iter().all(|kind| allowed(kind) || cookies(kind)), "{sent:?}");
    }
}

#[test]
fn s5_4_an_init_ack_from_another_address_than_was_asked_confirms_nothing() {
    for parameters in [Vec::new(), name(first())] {
        let mut peer = Peer::of(multihomed(config(), rfc9260()));
        peer.connect(1);
        peer.tag = peer.take_one().init().tag;
        let mut ack = init_ack();
        ack.parameters.extend(parameters);
        give_from(&mut peer, second(), &[ack.chunk(INIT_ACK)]);
        peer.wait(Duration::from_secs(10));
        only_heartbeats_and_bundled_cookie_acks(&peer.take(), second());
    }
}

#[test]
fn s5_4_nothing_but_heartbeats_and_their_answers_goes_to_an_unconfirmed_address_whatever_comes_from_there() {
    let garbage = |kind: u8| chunk(kind, 0, &[7; 8]);
    let provocations: [(&str, Vec<u8>); 6] = [
        ("an unknown chunk to be reported", garbage(0xff)),
        ("data on a stream that there is not", super::packet::Data::new(1, 0, b"x").stream(9_999).chunk()),
        ("SHUTDOWN", shutdown(0)),
        ("HEARTBEAT", heartbeat(HEARTBEAT, b"are you there?")),
        ("SHUTDOWN ACK", chunk(SHUTDOWN_ACK, 0, b"")),
        ("a cookie again", Vec::new()),
    ];
    for (what, provocation) in provocations {
        let mut peer = Peer::of(multihomed(config(), rfc9260()));
        let cookie = peer.begin(&Init { parameters: named(), ..offer() });
        peer.give(&[cookie_echo(&cookie)]);
        peer.take();
        let shut_down = what == "SHUTDOWN";
        let provocation = if provocation.is_empty() { cookie_echo(&cookie) } else { provocation };
        let provocation = if shut_down { shutdown(peer.tsn(0)) } else { provocation };
        give_from(&mut peer, second(), &[provocation]);
        peer.wait(Duration::from_secs(3));
        let sent = peer.take();
        assert!(!sent.is_empty(), "{what}");
        only_heartbeats_and_bundled_cookie_acks(&sent, second());
        if shut_down {
            assert!(sent.iter().any(|sent| sent.has(SHUTDOWN_ACK) && sent.to == first()), "{sent:?}");
        }
        if what.starts_with("an unknown") || what.starts_with("data") {
            assert!(sent.iter().any(|sent| sent.has(ERROR) && sent.to == first()), "{sent:?}");
        }
    }
    let mut peer = serving(config(), rfc9260(), &named());
    give_from(&mut peer, second(), &[data(1)]);
    peer.shutdown();
    peer.wait(Duration::from_secs(10));
    let sent = peer.take();
    assert!(sent.iter().any(|sent| sent.has(SHUTDOWN)));
    only_heartbeats_and_bundled_cookie_acks(&sent, second());
    peer.abort(b"");
    only_heartbeats_and_bundled_cookie_acks(&peer.take(), second());
}

#[test]
fn s5_4_a_nonce_confirms_the_address_that_it_was_sent_to_and_no_other() {
    let mut peer = serving(config(), rfc9260(), &[named(), name(third())].concat());
    peer.wait(Duration::from_secs(1));
    let probes = peer.take();
    let to = |remote| probes.iter().find(|sent| sent.to == remote).map(info).expect("both are probed");
    let (of_second, of_third) = (to(second()), to(third()));
    assert_ne!(of_second, of_third);
    give_from(&mut peer, second(), &[heartbeat(HEARTBEAT_ACK, &of_third)]);
    let state = |peer: &mut Peer, remote| peer.association().paths().find(|path| path.remote == remote).unwrap().state;
    assert_eq!(state(&mut peer, second()), PathState::Unconfirmed, "the nonce of another address");
    give_from(&mut peer, first(), &[heartbeat(HEARTBEAT_ACK, &of_second)]);
    assert_eq!(state(&mut peer, second()), PathState::Active, "its answer came by another network");
}

#[test]
fn s5_4_addresses_are_not_probed_before_the_association_is_established() {
    let mut peer = Peer::of(multihomed(config(), rfc9260()));
    peer.connect(1);
    peer.tag = peer.take_one().init().tag;
    let mut ack = init_ack();
    ack.parameters.extend(named());
    peer.give(&[ack.chunk(INIT_ACK)]);
    peer.wait(Duration::from_secs(10));
    let sent = peer.take();
    assert!(!sent.is_empty());
    assert!(sent.iter().all(|sent| sent.to == first() && sent.kinds() == [COOKIE_ECHO]), "{sent:?}");
    peer.give(&[chunk(COOKIE_ACK, 0, b"")]);
    assert!(peer.take().iter().any(|sent| sent.has(HEARTBEAT) && sent.to == second()));
    peer.send("x");
    assert!(peer.take().iter().any(|sent| sent.has(DATA) && sent.to == first()));
}
