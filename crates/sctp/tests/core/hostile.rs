//! Malicious or merely unusual peers and strangers. They know the tag, unless a test says otherwise.

use std::net::SocketAddr;

use bytes::Bytes;
use festina_sctp::{
    AbandonReason, AssociationState, ClosedReason, Config, Context, Event, Incoming, Message, MessageId, PeerRestart,
    Profile,
};
use festina_units::{Duration, EcnCodepoint, Instant};

use crate::rfc9260::packet::{
    ABORT, COOKIE_ECHO, DATA, Data, ERROR, HEARTBEAT, HEARTBEAT_ACK, HOST_NAME, INIT, INIT_ACK, Init, SHUTDOWN,
    SHUTDOWN_ACK, STATE_COOKIE, chunk, cookie_echo, data, heartbeat, packet, shutdown, tlv,
};
use crate::rfc9260::peer::{LOCAL_PORT, PEER_PORT, PEER_WINDOW, Peer, config, init_ack, ms, offer};

/// The peer's tag after it lost its memory.
const NEW_TAG: u32 = 0x0bad_cafe;

/// A cause that says nothing.
fn out_of_resource() -> Vec<u8> {
    tlv(4, b"")
}

/// All events that wait.
fn poll_events(peer: &mut Peer) -> Vec<Event> {
    let association = peer.association();
    std::iter::from_fn(|| association.poll_event()).collect()
}

/// Gives a packet without draining anything.
fn give_to_a_sleeper(peer: &mut Peer, chunks: &[Vec<u8>]) {
    let (now, address, tag) = (peer.now, peer.address, peer.tag);
    let bytes = Bytes::from(packet((PEER_PORT, LOCAL_PORT), tag, chunks));
    peer.association().handle_packet(now, address, EcnCodepoint::NotCapable, &bytes).unwrap();
}

#[test]
fn a_host_name_of_any_length_is_refused_with_an_abort_that_fits_into_a_packet_section_5_1_2() {
    for (length, repeated) in [(100, 100), (4_000, 0), (60_000, 0)] {
        let init = Init { parameters: tlv(HOST_NAME, &vec![b'h'; length]), ..offer() };
        let cause = (5, tlv(HOST_NAME, &vec![b'h'; repeated]));
        for mut peer in [Peer::new(config()), Peer::established()] {
            peer.give_tagged(0, &[init.chunk(INIT)]);
            let sent = peer.take_one();
            assert_eq!((sent.kinds(), sent.tag), (vec![ABORT], init.tag));
            assert_eq!(sent.the(ABORT).causes(), std::slice::from_ref(&cause));
        }
        let mut peer = Peer::connecting(config());
        peer.tag = peer.take_one().init().tag;
        peer.give(&[init.chunk(INIT_ACK)]);
        assert_eq!(peer.take_one().the(ABORT).causes(), [cause]);
        assert_eq!(peer.state(), AssociationState::Closed);
    }
}

#[test]
fn a_cookie_that_fits_into_no_packet_ends_the_handshake_instead_of_letting_data_leave_without_it() {
    let mut peer = Peer::connecting(config());
    peer.send("too early");
    peer.tag = peer.take_one().init().tag;
    let limit = peer.context.config().limits.packet_bytes_max;
    peer.give(&[Init { parameters: tlv(STATE_COOKIE, &vec![7; limit - 15]), ..offer() }.chunk(INIT_ACK)]);
    assert_eq!(peer.take_one().kinds(), [ABORT]);
    assert!(matches!(peer.closed(), Some(ClosedReason::ProtocolViolation(_))), "{:?}", peer.closed());
}

#[test]
fn a_cookie_that_just_fits_is_echoed() {
    let limit = config().limits.packet_bytes_max;
    let cookie = vec![7; limit - 16];
    let init_ack = Init { parameters: tlv(STATE_COOKIE, &cookie), ..offer() };
    let mut peer = Peer::cookie_echoed(config(), &init_ack);
    assert_eq!(peer.take_one().the(COOKIE_ECHO).value, cookie);
}

#[test]
fn the_smallest_packets_that_may_be_configured_are_kept_in_every_state() {
    let mut config = config();
    config.limits.packet_bytes_max = 384;
    // The harness asserts the size of every packet of the association, and the listener's are looked at here.
    let mut peer = Peer::new(config.clone());
    let unknown: Vec<u8> = (0..200).flat_map(|_| tlv(0xc0de, b"")).collect();
    peer.give_tagged(0, &[Init { parameters: unknown.clone(), ..offer() }.chunk(INIT)]);
    let init_ack = peer.take_one();
    assert!(init_ack.bytes.len() <= 384, "{}", init_ack.bytes.len());
    assert_eq!(init_ack.init().all(8).len(), 30, "what fits is reported");

    let mut peer = Peer::client(config, &offer());
    peer.give_tagged(0, &[Init { tag: NEW_TAG, parameters: unknown, ..offer() }.chunk(INIT)]);
    assert_eq!(peer.take_one().kinds(), [INIT_ACK]);
    peer.abort(&[b'x'; 500]);
    assert_eq!(peer.take_one().kinds(), [ABORT]);
}

#[test]
fn packets_from_addresses_that_nobody_can_have_get_no_answer_section_8_4() {
    let context = Context::new(config(), [1; 16]).unwrap();
    let listener = festina_sctp::Listener::new(&context);
    let init = Bytes::from(packet((PEER_PORT, LOCAL_PORT), 0, &[offer().chunk(INIT)]));
    for address in ["224.0.0.1", "255.255.255.255", "0.0.0.0", "ff02::1", "::ffff:224.0.0.1", "::ffff:0.0.0.0"] {
        let from = SocketAddr::new(address.parse().unwrap(), 9_899);
        let mut reply = Vec::new();
        let incoming = listener.handle_packet(Instant::from_secs(1), from, &init, &|_| false, &mut reply);
        assert!(matches!(incoming, Incoming::Ignored(_)) && reply.is_empty(), "{address}: {incoming:?}");
    }
}

#[test]
fn the_end_is_the_last_event_even_if_data_came_with_it() {
    let mut peer = Peer::established();
    peer.events.clear();
    peer.reads = false;
    peer.give(&[data(1), chunk(ABORT, 0, b"")]);
    let closed = ClosedReason::AbortedByPeer { code: 0, info: Bytes::new() };
    assert_eq!(peer.events, [Event::Closed(closed)]);
    assert_eq!(peer.read_one().unwrap().payload(), "d", "received messages can be read");
}

#[test]
fn what_was_accepted_is_acknowledged_and_told_whatever_follows_it_in_the_packet() {
    for nonsense in [chunk(SHUTDOWN_ACK, 0, b""), cookie_echo(b"late"), offer().chunk(INIT)] {
        let mut peer = Peer::established();
        peer.events.clear();
        peer.reads = false;
        peer.give(&[data(1), nonsense]);
        assert_eq!(peer.events, [Event::Readable]);
        assert_eq!(peer.take_one().sack().cumulative, 1);
    }
}

#[test]
fn an_abort_after_the_end_sends_nothing() {
    let mut peer = Peer::established();
    peer.give(&[chunk(ABORT, 0, b"")]);
    peer.abort(b"me too");
    peer.nothing_sent();
}

#[test]
fn errors_reported_by_the_peer_do_not_pile_up_while_nobody_polls_for_them() {
    let mut peer = Peer::established();
    let causes: Vec<u8> = (0..1_000).flat_map(|_| out_of_resource()).collect();
    for _ in 0..20 {
        give_to_a_sleeper(&mut peer, &[chunk(ERROR, 0, &causes)]);
    }
    let events = poll_events(&mut peer);
    assert_eq!(events.len(), 16);
    give_to_a_sleeper(&mut peer, &[chunk(ERROR, 0, &out_of_resource())]);
    assert_eq!(poll_events(&mut peer), [Event::PeerError { code: 4, info: Bytes::new() }], "there is room again");
}

#[test]
fn of_a_peers_error_or_abort_reason_64_bytes_are_kept() {
    let long = [b'r'; 1_000];
    let kept = Bytes::copy_from_slice(&long[..64]);
    let mut peer = Peer::established();
    give_to_a_sleeper(&mut peer, &[chunk(ERROR, 0, &tlv(99, &long))]);
    assert_eq!(poll_events(&mut peer), [Event::PeerError { code: 99, info: kept.clone() }]);
    peer.give(&[chunk(ABORT, 0, &tlv(12, &long))]);
    assert_eq!(peer.closed(), Some(&ClosedReason::AbortedByPeer { code: 12, info: kept }));
}

/// Nothing but the tags and the ports, which every packet carries in clear, tells the peer from others.
#[test]
fn anyone_who_has_seen_a_packet_injects_messages_and_ends_the_association() {
    let mut peer = Peer::established();
    peer.give(&[data(1)]);
    // The header of a packet that was seen, from the same address, and chunks of the attacker's own.
    let seen = packet((PEER_PORT, LOCAL_PORT), peer.tag, &[data(1)]);
    let [source, destination] = [0, 2].map(|at| u16::from_be_bytes([seen[at], seen[at + 1]]));
    let tag = u32::from_be_bytes(seen[4..8].try_into().unwrap());
    let injected = Data::new(2, 1, b"forged").chunk();
    peer.give_bytes(packet((source, destination), tag, &[injected]));
    assert_eq!(peer.payloads(), [&b"d"[..], b"forged"]);
    // The genuine message has the same TSN, and counts as a repetition.
    peer.give(&[data(2)]);
    assert_eq!(peer.payloads().len(), 2);
    peer.give_bytes(packet((source, destination), tag, &[chunk(ABORT, 0, b"")]));
    assert_eq!(peer.state(), AssociationState::Closed);
}

#[test]
fn answers_that_wait_do_not_keep_the_packets_that_they_answer_alive() {
    let mut peer = Peer::established();
    let filler = chunk(0x80, 0, &[0; 60_000]);
    for asking in [heartbeat(HEARTBEAT, &[b'h'; 900]), chunk(0xc0, 0, &[b'u'; 900])] {
        let bytes = Bytes::from(packet((PEER_PORT, LOCAL_PORT), peer.tag, &[asking, filler.clone()]));
        let (now, address) = (peer.now, peer.address);
        peer.association().handle_packet(now, address, EcnCodepoint::NotCapable, &bytes).unwrap();
        assert!(bytes.is_unique(), "an answer of 1 KiB would hold 61 KB");
    }
    peer.send("now");
    let kinds: Vec<_> = peer.take().iter().flat_map(|sent| sent.kinds()).collect();
    assert!(kinds.contains(&HEARTBEAT_ACK) && kinds.contains(&ERROR), "{kinds:?}");
}

#[test]
fn a_packet_full_of_sacks_counts_as_one_miss_indication_and_costs_as_much_as_one() {
    let mut peer = Peer::established();
    peer.send_full(4);
    assert_eq!(peer.take_tsns(), [[1], [2], [3], [4]]);
    let sacks = [2, 3, 4].map(|last| peer.sack(0, PEER_WINDOW, &[(2, last)]).chunk());
    peer.give(&sacks);
    peer.nothing_sent();
    assert_eq!(peer.association().stats().path.in_flight_bytes, 3 * 1_220, "the first one counts");
    for sack in sacks {
        peer.give(&[sack]);
    }
    assert_eq!(peer.take_tsns(), [[1]], "in packets of their own they are two more indications");
}

#[test]
fn chunks_that_a_shutdown_contradicts_are_sent_again_section_6_2_1() {
    let mut peer = Peer::established();
    peer.send_full(3);
    peer.take();
    peer.ack_gaps(0, &[(2, 3)]);
    // TSN 2 was reported and 1 is now acknowledged, so 2 ought to be as well: the peer has dropped it.
    peer.give(&[shutdown(peer.tsn(1))]);
    assert_eq!(peer.state(), AssociationState::ShutdownReceived);
    assert!(peer.wait_for_packet() <= Duration::from_secs(1));
    assert_eq!(peer.take_tsns(), [[2]]);
    peer.ack(3);
    assert_eq!(peer.take_one().kinds(), [SHUTDOWN_ACK]);
}

#[test]
fn a_message_that_expires_behind_a_closed_window_does_not_hold_the_shutdown_up() {
    for peer_begins in [false, true] {
        let mut peer = Peer::established();
        peer.send("first");
        peer.take();
        peer.ack_window(1, 0);
        peer.send_message(Message::new("second").with_lifetime(ms(100)));
        if peer_begins {
            peer.give(&[shutdown(peer.tsn(1))]);
        } else {
            peer.shutdown();
        }
        peer.nothing_sent();
        assert!(peer.wait_for_packet() <= Duration::from_secs(1));
        assert_eq!(peer.take_one().kinds(), [if peer_begins { SHUTDOWN_ACK } else { SHUTDOWN }]);
        let is_abandoned = |event: &Event| match *event {
            Event::MessagesAbandoned { first, last, reason, sent, .. } => {
                (first, last, reason, sent) == (MessageId(1), MessageId(1), AbandonReason::Expired, false)
            }
            _ => false,
        };
        assert!(peer.events.iter().any(is_abandoned), "{:?}", peer.events);
    }
}

#[test]
fn a_shutdown_that_finds_only_expired_messages_leaves_at_once() {
    let mut peer = Peer::established();
    peer.send("first");
    peer.take();
    peer.ack_window(1, 0);
    peer.send_message(Message::new("second").with_lifetime(ms(100)));
    peer.now += ms(200);
    peer.shutdown();
    assert_eq!(peer.take_one().kinds(), [SHUTDOWN]);
}

#[test]
fn a_peer_that_restarts_does_not_make_the_applications_shutdown_forgotten() {
    type Ending = fn(&mut Peer);
    let endings: [Ending; 3] = [
        // SHUTDOWN-PENDING, SHUTDOWN-SENT, SHUTDOWN-RECEIVED
        |peer| {
            peer.send("unacknowledged");
            peer.shutdown();
        },
        Peer::shutdown,
        |peer| {
            peer.send("unacknowledged");
            peer.give(&[shutdown(peer.tsn(0))]);
            peer.shutdown();
        },
    ];
    for end in endings {
        let mut peer = Peer::client(config(), &offer());
        end(&mut peer);
        peer.take();
        let cookie = peer.begin(&Init { tag: NEW_TAG, ..offer() });
        peer.give(&[cookie_echo(&cookie)]);
        assert!(peer.events.contains(&Event::PeerRestarted), "{:?}", peer.events);
        assert!(peer.take().iter().any(|sent| sent.has(SHUTDOWN)), "{:?}", peer.state());
    }
}

#[test]
fn timers_that_could_not_work_are_refused() {
    type Change = fn(&mut Config);
    let changes: [(&str, Change); 8] = [
        ("packet_bytes_max", |config| config.limits.packet_bytes_max = 383),
        ("rto_initial", |config| config.timers.rto_initial = Duration::ZERO),
        ("rto_max", |config| config.timers.rto_max = Duration::ZERO),
        ("rto_max", |config| config.timers.rto_max = Duration::MAX),
        ("rto_initial", |config| config.timers.rto_initial = Duration::MAX),
        ("cookie_lifetime", |config| config.timers.cookie_lifetime = Duration::MAX),
        ("cookie_lifetime", |config| config.timers.cookie_lifetime = Duration::ZERO),
        ("heartbeat_interval", |config| config.timers.heartbeat_interval = Some(Duration::MAX)),
    ];
    for (name, change) in changes {
        let mut config = Config::default();
        change(&mut config);
        let error = config.validate().expect_err(name);
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(Config::default().validate(), Ok(()));
}

#[test]
fn a_path_that_answers_a_heartbeat_after_an_outage_is_probed_without_waiting_for_the_timer_of_the_outage() {
    let mut config = Config::published(Profile::Festina);
    config.timers.heartbeat_interval = Some(ms(500));
    config.retries.association_max = 100;
    let mut peer = Peer::serving(config, &init_ack());
    peer.send("lost");
    peer.wait(Duration::from_secs(30));
    peer.take();
    let beat = loop {
        peer.wait(ms(1));
        if let Some(sent) = peer.take().into_iter().find(|sent| sent.has(HEARTBEAT)) {
            break sent;
        }
    };
    peer.give(&[chunk(HEARTBEAT_ACK, 0, &beat.the(HEARTBEAT).value)]);
    peer.wait(ms(10));
    assert_eq!(peer.take_tsns(), [[1]]);
}

#[test]
fn a_stranger_who_knows_ports_and_tag_still_needs_an_address_of_the_peer() {
    let listed = Init { parameters: tlv(5, &[203, 0, 113, 9]), ..offer() };
    for mut peer in [Peer::client(config(), &listed), Peer::established()] {
        peer.reads = false;
        let own = peer.address;
        peer.address = SocketAddr::from(([198, 51, 100, 66], own.port()));
        for chunk in [chunk(ABORT, 0, b""), shutdown(peer.tsn(0)), data(1)] {
            peer.give(&[chunk]);
            peer.nothing_sent();
        }
        let tags = packet((PEER_PORT, LOCAL_PORT), offer().tag, &[chunk(ABORT, 1, b"")]);
        peer.give_bytes(tags);
        assert_eq!(peer.state(), AssociationState::Established);
        // From another port of the peer's own address everything is welcome: it may sit behind a NAT (RFC 6951 §5.4).
        peer.address = SocketAddr::new(own.ip(), 1_234);
        peer.give(&[data(1)]);
        let sent = peer.take_one();
        assert_eq!((sent.sack().cumulative, sent.to), (1, peer.address));
    }
}

#[test]
fn a_peer_may_send_from_every_address_that_it_named() {
    let mut peer = Peer::client(config(), &Init { parameters: tlv(5, &[203, 0, 113, 9]), ..offer() });
    let own = peer.address;
    peer.address = SocketAddr::from(([203, 0, 113, 9], own.port()));
    peer.give(&[data(1)]);
    let sent = peer.take_one();
    assert_eq!((sent.sack().cumulative, sent.to), (1, own), "answers go to the path that was proven");
}

#[test]
fn an_outage_on_the_fastest_path_draws_few_probes_for_three_seconds_and_then_backs_off() {
    let mut config = Config::published(Profile::Festina);
    config.timers.heartbeat_interval = None;
    config.retries.association_max = 100;
    let mut peer = Peer::serving(config, &init_ack());
    peer.send("lost");
    peer.take();
    peer.wait(Duration::from_secs(3));
    let probes = peer.take().len();
    peer.wait(Duration::from_secs(57));
    let timeouts = peer.take().iter().filter(|sent| sent.has(DATA)).count();
    assert!(probes <= 60 && timeouts <= 10, "{probes} probes, {timeouts} timeouts");
    assert!(probes >= 50, "the handshake took no time, so this is the worst case: {probes} probes");
}

#[test]
fn messages_tell_how_often_their_sender_had_restarted_section_5_2_4_a() {
    let mut peer = Peer::client(config(), &offer());
    peer.reads = false;
    peer.give(&[Data::new(1, 0, b"old").chunk()]);
    for number in 1..=2 {
        peer.take();
        let cookie = peer.begin(&Init { tag: NEW_TAG + number, ..offer() });
        peer.give(&[cookie_echo(&cookie), Data::new(1, 0, b"new").chunk()]);
    }
    let read: Vec<_> =
        std::iter::from_fn(|| peer.read_one()).map(|read| (read.payload().clone(), read.restarts())).collect();
    assert_eq!(read, [("old".into(), 0), ("new".into(), 1), ("new".into(), 2)]);
}

#[test]
fn a_restart_that_is_not_wanted_ends_the_association_and_begins_another() {
    let mut config = config();
    config.peer_requests.restart = PeerRestart::End;
    let mut peer = Peer::client(config, &offer());
    peer.reads = false;
    peer.send("never acknowledged");
    peer.give(&[Data::new(1, 0, b"old").chunk()]);
    peer.take();
    let cookie = peer.begin(&Init { tag: NEW_TAG, ..offer() });
    assert!(peer.closed().is_none(), "an INIT may be forged");
    let echo = [cookie_echo(&cookie), Data::new(1, 0, b"new").chunk()];
    peer.give(&echo);
    assert_eq!(peer.closed(), Some(&ClosedReason::PeerRestarted));
    assert_eq!(peer.read_one().map(|message| message.into_payload()), Some("old".into()));
    assert!(peer.read_one().is_none(), "nothing of the new peer's is read as the old one's");
    peer.nothing_sent();
    peer.give(&echo);
    assert_eq!(peer.state(), AssociationState::Established);
    assert_eq!(peer.read_one().map(|message| (message.payload().clone(), message.restarts())), Some(("new".into(), 0)));
}
