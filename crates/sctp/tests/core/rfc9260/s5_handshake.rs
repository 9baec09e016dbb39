//! §5.1: the normal handshake, its timers and its cookie.

use festina_sctp::{AssociationState, ClosedReason, Event, Message, SendError, SendErrorKind};
use festina_units::Duration;

use super::packet::{
    ABORT, COOKIE_ACK, COOKIE_ECHO, DATA, Data, ERROR, INIT, INIT_ACK, Init, SACK, STATE_COOKIE, chunk, cookie_echo,
    data, packet, tlv, u32_at,
};
use super::peer::{LOCAL_PORT, PEER_PORT, PEER_TAG, Peer, config, init_ack, ms, offer};

#[test]
fn s5_1_b_an_init_ack_goes_to_the_source_of_the_init_with_its_initiate_tag_and_one_cookie() {
    let mut peer = Peer::new(config());
    peer.give_tagged(0, &[offer().chunk(INIT)]);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.to, sent.tag), (vec![INIT_ACK], peer.address, PEER_TAG));
    assert_eq!(sent.ports, (LOCAL_PORT, PEER_PORT));
    assert!(!sent.init().cookie().is_empty());
}

#[test]
fn s5_1_b_an_init_alone_makes_no_association() {
    let mut peer = Peer::new(config());
    peer.begin(&offer());
    assert!(peer.association.is_none());
    peer.give(&[data(1)]);
    assert_eq!(peer.take_one().kinds(), [ABORT], "out of the blue");
}

#[test]
fn s5_1_c_the_cookie_echo_returns_the_very_cookie_with_the_tag_of_the_init_ack() {
    let mut peer = Peer::cookie_echoed(config(), &init_ack());
    let sent = peer.take_one();
    assert_eq!((sent.kinds()[0], sent.tag), (COOKIE_ECHO, PEER_TAG));
    assert_eq!(sent.the(COOKIE_ECHO).value, b"a cookie");
    assert_eq!(peer.state(), AssociationState::CookieEchoed);
}

#[test]
fn s5_1_c_between_cookie_echo_and_cookie_ack_no_other_packet_leaves() {
    let mut peer = Peer::cookie_echoed(config(), &init_ack());
    peer.take();
    peer.send("later");
    peer.nothing_sent();
    peer.give(&[chunk(COOKIE_ACK, 0, b"")]);
    assert_eq!(peer.take_one().data()[0].payload, b"later");
}

#[test]
fn s5_1_c_messages_sent_before_the_handshake_follow_the_cookie_echo_or_the_cookie_ack() {
    let mut peer = Peer::connecting(config());
    peer.send("early");
    let init = peer.take_one().init();
    (peer.tag, peer.initial_tsn) = (init.tag, init.tsn);
    peer.give(&[init_ack().chunk(INIT_ACK)]);
    let echo = peer.take_one();
    assert_eq!(echo.kinds()[0], COOKIE_ECHO);
    peer.give(&[chunk(COOKIE_ACK, 0, b"")]);
    let payloads: Vec<_> = [vec![echo], peer.take()].concat().iter().flat_map(|sent| sent.data()).collect();
    assert_eq!(payloads, [Data::new(init.tsn, 0, b"early")]);
}

#[test]
fn s5_1_d_a_good_cookie_establishes_and_cookie_ack_comes_first() {
    let mut peer = Peer::new(config());
    let cookie = peer.begin(&offer());
    peer.give(&[cookie_echo(&cookie), data(1)]);
    let sent = peer.take();
    assert_eq!(sent[0].kinds()[0], COOKIE_ACK);
    assert!(sent.iter().any(|sent| sent.has(SACK)), "§5.1.5 step 7: bundled DATA is acknowledged at once");
    assert_eq!(peer.payloads(), [b"d"]);
    assert!(matches!(peer.events[0], Event::Established { .. }));
}

#[test]
fn s5_1_e_a_cookie_ack_establishes_and_stops_t1_cookie() {
    let mut peer = Peer::serving(config(), &init_ack());
    assert!(matches!(peer.events[0], Event::Established { .. }));
    peer.wait(Duration::from_secs(600));
    peer.nothing_sent();
}

#[test]
fn s5_1_the_first_data_is_acknowledged_at_once() {
    let mut peer = Peer::established();
    peer.give(&[data(1)]);
    assert_eq!(peer.take_one().sack().cumulative, 1);
}

#[test]
fn s4_t1_init_repeats_the_same_init_with_doubled_pauses_then_gives_up() {
    let mut peer = Peer::connecting(config());
    let first = peer.take_one();
    for retry in 0..8 {
        let pause = peer.wait_for_packet();
        assert_eq!(pause, Duration::from_secs((1 << retry).min(60)), "§6.3.3 E2, retry {retry}");
        assert_eq!(peer.take_one().bytes, first.bytes);
    }
    peer.wait_for_packet();
    peer.nothing_sent();
    assert_eq!(peer.closed(), Some(&ClosedReason::HandshakeTimeout));
}

#[test]
fn s4_t1_cookie_repeats_the_same_cookie_echo_with_doubled_pauses_then_gives_up() {
    let mut peer = Peer::cookie_echoed(config(), &init_ack());
    let first = peer.take_one();
    for retry in 0..8 {
        let pause = peer.wait_for_packet();
        assert_eq!(pause, Duration::from_secs((1 << retry).min(60)), "retry {retry}");
        assert_eq!(peer.take_one().bytes, first.bytes);
    }
    peer.wait_for_packet();
    peer.nothing_sent();
    assert_eq!(peer.closed(), Some(&ClosedReason::HandshakeTimeout));
}

#[test]
fn s5_1_a_missing_cookie_is_answered_by_an_abort_that_names_it_with_the_initiate_tag() {
    let mut peer = Peer::cookie_echoed(config(), &offer());
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag), (vec![ABORT], PEER_TAG));
    assert_eq!(sent.the(ABORT).causes(), [(2, vec![0, 0, 0, 1, 0, 7])], "§3.3.10.2");
    assert!(peer.closed().is_some());
}

#[test]
fn s5_1_1_outbound_streams_are_the_fewer_of_own_wish_and_peers_limit() {
    for (own, limit, expected) in [(20, 5, 5_u16), (3, 5, 3)] {
        let mut settings = config();
        settings.limits.outbound_streams = own;
        let mut client = Peer::serving(settings.clone(), &Init { inbound: limit, ..init_ack() });
        let mut server = Peer::client(settings, &Init { inbound: limit, ..offer() });
        for peer in [&mut client, &mut server] {
            let now = peer.now;
            peer.send_message(Message::new("last").on_stream(expected - 1));
            let refused = peer.association().send(now, Message::new("no").on_stream(expected));
            assert!(matches!(refused, Err(SendError { kind: SendErrorKind::NoSuchStream { .. }, .. })), "{refused:?}");
        }
    }
}

#[test]
fn s5_1_1_inbound_streams_are_the_fewer_of_peers_wish_and_own_limit() {
    let mut settings = config();
    settings.limits.inbound_streams = 4;
    let mut peer = Peer::serving(settings, &init_ack());
    peer.give(&[Data::new(1, 0, b"in").stream(3).chunk(), Data::new(2, 0, b"out").stream(4).chunk()]);
    assert_eq!(peer.payloads(), [b"in"]);
}

#[test]
fn s5_1_5_a_forged_cookie_is_dropped_silently_whichever_byte_was_changed() {
    let mut peer = Peer::new(config());
    let cookie = peer.begin(&offer());
    for at in 0..cookie.len() {
        let mut forged = cookie.clone();
        forged[at] ^= 0x10;
        peer.give(&[cookie_echo(&forged), data(1)]);
        peer.nothing_sent();
        assert!(peer.association.is_none(), "byte {at}");
    }
    for length in [0, 1, cookie.len() - 1] {
        peer.give(&[cookie_echo(&cookie[..length])]);
        peer.nothing_sent();
    }
    peer.give(&[cookie_echo(&cookie)]);
    assert_eq!(peer.take_one().kinds(), [COOKIE_ACK], "the true one still works");
}

#[test]
fn s5_1_5_a_cookie_of_another_secret_is_dropped_silently() {
    let mut peer = Peer::new(config());
    let cookie = peer.begin(&offer());
    let mut other = Peer::new(config());
    other.context = festina_sctp::Context::new(config(), [8; 16]).expect("the settings are in range");
    other.listener = festina_sctp::Listener::new(&other.context);
    other.listener.listen(LOCAL_PORT);
    other.give_tagged(peer.tag, &[cookie_echo(&cookie)]);
    other.nothing_sent();
    assert!(other.association.is_none());
}

#[test]
fn s5_1_5_a_cookie_under_another_tag_or_from_other_ports_is_dropped_silently() {
    let mut peer = Peer::new(config());
    peer.listener.listen(LOCAL_PORT + 1);
    let cookie = peer.begin(&offer());
    peer.give_tagged(peer.tag ^ 1, &[cookie_echo(&cookie)]);
    for ports in [(PEER_PORT + 1, LOCAL_PORT), (PEER_PORT, LOCAL_PORT + 1)] {
        peer.give_bytes(packet(ports, peer.tag, &[cookie_echo(&cookie)]));
    }
    peer.nothing_sent();
    assert!(peer.association.is_none());
}

#[test]
fn s5_1_5_a_stale_cookie_is_answered_by_an_error_that_measures_its_staleness() {
    let mut peer = Peer::new(config());
    let cookie = peer.begin(&offer());
    peer.wait(Duration::from_secs(62));
    peer.give(&[cookie_echo(&cookie), data(1)]);
    let sent = peer.take_one();
    assert_eq!((sent.kinds(), sent.tag), (vec![ERROR], PEER_TAG));
    let [(3, staleness)] = &sent.the(ERROR).causes()[..] else { panic!("{sent:?}") };
    assert!([0, 2_000_000].contains(&u32_at(staleness, 0)), "§3.3.10.3: microseconds, or zero: {staleness:?}");
    assert!(peer.association.is_none());
}

#[test]
fn s5_1_5_a_cookie_is_good_until_the_end_of_its_life() {
    let mut peer = Peer::new(config());
    let cookie = peer.begin(&offer());
    peer.wait(ms(59_900));
    peer.give(&[cookie_echo(&cookie)]);
    assert_eq!(peer.take_one().kinds(), [COOKIE_ACK]);
}

#[test]
fn s3_3_2_1_3_a_cookie_preservative_may_lengthen_the_life_of_a_cookie_but_never_shortens_it() {
    let mut peer = Peer::new(config());
    let cookie = peer.begin(&Init { parameters: tlv(9, &u32::MAX.to_be_bytes()), ..offer() });
    peer.wait(ms(59_900));
    peer.give(&[cookie_echo(&cookie)]);
    assert_eq!(peer.take_one().kinds(), [COOKIE_ACK]);
    let mut peer = Peer::new(config());
    let cookie = peer.begin(&Init { parameters: tlv(9, &u32::MAX.to_be_bytes()), ..offer() });
    peer.wait(Duration::from_secs(600));
    peer.give(&[cookie_echo(&cookie)]);
    assert_eq!(peer.take_one().kinds(), [ERROR], "the peer cannot make it live as long as it likes");
}

#[test]
fn s5_1_5_an_association_takes_its_parameters_from_the_cookie() {
    let init = Init { tag: 5, a_rwnd: 1_500, outbound: 2, inbound: 3, tsn: 900, parameters: vec![] };
    let mut peer = Peer::client(config(), &init);
    let [Event::Established { outbound_streams: 3, inbound_streams: 2 }] = peer.events[..] else {
        panic!("{:?}", peer.events)
    };
    peer.give(&[Data::new(900, 0, b"first").chunk()]);
    assert_eq!(peer.take_one().sack().cumulative, 900);
    peer.send_full(4);
    assert_eq!(peer.take_tsns(), [[1]], "§6.2.1 A: the peer's window has room for one packet");
}

#[test]
fn s5_1_the_own_tsns_begin_at_the_initial_tsn() {
    let mut client = Peer::serving(config(), &init_ack());
    let mut server = Peer::client(config(), &offer());
    for peer in [&mut client, &mut server] {
        peer.send("first");
        assert_eq!(peer.take_tsns(), [[1]]);
        peer.ack(1);
        peer.send("second");
        assert_eq!(peer.take_tsns(), [[2]]);
    }
}

#[test]
fn s5_1_an_init_ack_that_is_repeated_does_not_change_the_cookie() {
    let mut peer = Peer::cookie_echoed(config(), &init_ack());
    peer.take();
    peer.give(&[Init { tag: 99, parameters: tlv(STATE_COOKIE, b"another"), ..offer() }.chunk(INIT_ACK)]);
    peer.wait_for_packet();
    let again = peer.take_one();
    assert_eq!((again.tag, &again.the(COOKIE_ECHO).value[..]), (PEER_TAG, &b"a cookie"[..]), "§5.2.3");
}

#[test]
fn s5_3_1_each_attempt_has_a_tag_and_an_initial_tsn_of_its_own() {
    let mut peer = Peer::connecting(config());
    let first = peer.take_one().init();
    peer.association = None;
    peer.connect(2);
    let second = peer.take_one().init();
    assert_ne!(first.tag, second.tag);
    assert_ne!(first.tsn, second.tsn);
}

#[test]
fn s5_3_1_a_listener_chooses_a_new_tag_for_a_peer_that_comes_again() {
    let mut peer = Peer::client(config(), &offer());
    let first = peer.tag;
    peer.give(&[chunk(ABORT, 0, b"")]);
    assert!(peer.closed().is_some());
    peer.wait(ms(1));
    peer.begin(&offer());
    assert_ne!(peer.tag, first);
    assert_ne!(peer.tag, 0);
}

#[test]
fn s6_data_is_not_taken_before_the_handshake_is_done() {
    for mut peer in [Peer::connecting(config()), Peer::cookie_echoed(config(), &init_ack())] {
        peer.take();
        peer.tag = peer.association().local_tag();
        peer.give(&[data(1)]);
        assert!(peer.payloads().is_empty());
        assert!(peer.take().iter().all(|sent| !sent.has(SACK) && !sent.has(DATA)));
    }
}
