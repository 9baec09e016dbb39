//! Faults that users of other endpoints have reported in public, tried on this one.

mod world;

use std::collections::BTreeSet;

use festina_secure::LINGER;
use festina_secure::reset::token_of;

use self::world::{CLIENT, SERVER, TURNS_MAX, World, address, endpoint, give, take};
use super::*;
use crate::handshakes::tests::PORT;

// algesten/str0m#1017: the timer of a handshake that has failed is due at once, for ever.
#[test]
fn a_connect_without_an_answer_ends_and_leaves_no_timer_that_is_always_due() {
    for is_encrypted in [false, true] {
        let mut world = World::new(is_encrypted);
        // Only the client lives: with 0 datagrams of the server, or with its first.
        for answers in [0, 1] {
            let id = world.connect(1_000 + answers);
            for _ in 0..answers {
                world.take(0).iter().for_each(|packet| world.give(1, packet));
                world.take(1).iter().for_each(|packet| world.give(0, packet));
            }
            let mut wakes = 0;
            loop {
                world.take(0);
                let Some(at) = world.ends[0].poll_deadline(world.now) else { break };
                assert!(at > world.now, "encrypted: {is_encrypted}");
                world.now = at;
                world.ends[0].handle_timeout(at);
                wakes += 1;
                assert!(wakes < 200, "encrypted: {is_encrypted}");
            }
            assert_eq!(world.ended(0).last(), Some(&id));
            assert!(world.is_empty(0));
        }
        // The server is rid of the client, too.
        let wakes = world.pass(Duration::from_secs(3_600));
        assert!(wakes < 200, "{wakes}");
        world.assert_forgotten();
    }
}

// quinn-rs/quinn#1829 and n0-computer/noq#717: clients that arrive while an endpoint closes are accepted after it.
#[test]
fn an_endpoint_that_has_ended_takes_no_client_whose_handshake_was_on_its_way() {
    for (is_encrypted, steps) in [false, true].into_iter().flat_map(|kind| (0..5).map(move |steps| (kind, steps))) {
        let mut world = World::new(is_encrypted);
        world.connect(1_000);
        for step in 0..steps {
            let side = step % 2;
            world.take(side).iter().for_each(|packet| world.give(1 - side, packet));
        }
        let before = world.ends[1].len();
        world.ends[1].end(world.now);
        let farewell = world.take(1);
        assert!(before > 0 || world.ends[1].poll_deadline(world.now).is_none(), "no timer of a handshake is left");
        farewell.iter().for_each(|packet| world.give(0, packet));
        world.connect(1_001);
        world.pass(Duration::from_secs(600));
        let case = format!("encrypted: {is_encrypted}, steps: {steps}");
        assert_eq!((world.accepted().len(), world.ended(1).len()), (before, before), "{case}");
        assert_eq!(world.ended(0).len(), 2, "{case}");
        world.assert_forgotten();
        // It may listen again.
        world.ends[1].listen(PORT).unwrap();
        let pair = world.pair(1_000);
        world.talk(pair);
    }
}

// n0-computer/noq#466 and quinn-rs/quinn#1018: a second event of a drained connection panics; quinn-rs/quinn#1495: a close of its own is not told.
#[test]
fn the_end_is_told_once_on_both_sides_and_an_old_handle_is_good_for_nothing() {
    type Way = fn(&mut Core, Instant);
    let (shutdown, abort): (Way, Way) = (|core, now| core.shutdown(now), |core, _| core.abort(b"enough"));
    let nothing: Way = |_, _| {};
    let ways = [(shutdown, nothing), (nothing, shutdown), (shutdown, shutdown), (abort, nothing), (nothing, abort)];
    for is_encrypted in [false, true] {
        let mut world = World::new(is_encrypted);
        let mut known = BTreeSet::new();
        for (near_way, far_way) in ways.into_iter().chain([(abort, abort), (shutdown, abort)]) {
            let pair @ [near, far] = world.pair(1_000);
            assert!(known.insert(pair), "handles are never used again");
            world.events = [Vec::new(), Vec::new()];
            let now = world.now;
            world.ends[0].change(near, |core| near_way(core, now)).unwrap();
            world.ends[1].change(far, |core| far_way(core, now)).unwrap();
            let packets = [0, 1].map(|side| world.take(side));
            for side in [0, 1] {
                packets[1 - side].iter().for_each(|packet| world.give(side, packet));
            }
            world.pass(LINGER + Duration::from_secs(60));
            // All that was on its way comes again.
            for side in [0, 1] {
                packets[1 - side].iter().for_each(|packet| world.give(side, packet));
            }
            world.pass(Duration::from_secs(60));
            for (side, id) in [(0, near), (1, far)] {
                let closed = |event: &&EndpointEvent| matches!(event, EndpointEvent::Association(_, Event::Closed(_)));
                assert_eq!(world.events[side].iter().filter(closed).count(), 1, "side {side}");
                assert_eq!(world.ended(side), [id]);
                assert!(matches!(world.events[side].last(), Some(EndpointEvent::Ended { .. })), "it is the last");
                let endpoint = &mut world.ends[side];
                assert!(endpoint.change(id, |core| core.abort(b"again")).is_none());
                assert!(endpoint.association(id).is_none() && endpoint.poll_message(id).is_none());
            }
            world.assert_forgotten();
        }
    }
}

// quinn-rs/quinn#2683: each packet for a full queue is answered, which costs an attacked server its time. Here as there it is silence.
// quic-go/quic-go#4245: connections that have ended keep their places.
#[test]
fn a_full_accept_queue_is_silent_and_has_room_when_one_is_taken_or_has_ended_without_a_message() {
    let admission = sctp::Admission { accept_queue_max: 1, ..sctp::Admission::default() };
    for (is_encrypted, has_ended) in [(false, false), (false, true), (true, false), (true, true)] {
        let case = format!("encrypted: {is_encrypted}, ended: {has_ended}");
        let mut world = World::with(is_encrypted, &admission);
        let first = world.connect(1_000);
        world.pass(Duration::from_secs(1));
        assert_eq!(world.accepted().len(), 1, "{case}");
        world.connect(1_001);
        if !is_encrypted {
            let init = world.take(0);
            world.give(1, &init[0]);
            assert!(world.take(1).is_empty(), "no answer");
        }
        world.pass(Duration::from_secs(1));
        assert_eq!((world.accepted().len(), world.ends[1].len()), (1, 1), "{case}");
        if has_ended {
            let now = world.now;
            world.ends[0].change(first, |core| core.shutdown(now)).unwrap();
        } else {
            assert_eq!(world.ends[1].accept(PORT), Some(world.accepted()[0]));
        }
        world.pass(Duration::from_secs(8));
        assert_eq!(world.accepted().len(), 2, "{case}");
        assert_eq!(world.ends[1].accept(PORT), Some(world.accepted()[1]), "{case}");
        assert_eq!(world.ends[1].accept(PORT), None, "{case}");
    }
}

// pragma-org/amaru#1296: a handshake beyond the limit of connections succeeds, and the connection is dropped without a word.
#[test]
fn of_handshakes_at_once_those_beyond_the_limit_are_told_so() {
    let admission = sctp::Admission { associations_per_address_max: 1, ..sctp::Admission::default() };
    for is_encrypted in [false, true] {
        let mut world = World::with(is_encrypted, &admission);
        let ids = [1_000, 1_001, 1_002].map(|local| world.connect(local));
        world.pass(Duration::from_secs(2));
        assert_eq!((world.accepted().len(), world.ends[1].len()), (1, 1));
        assert_eq!(
            ids.iter().filter(|id| world.ends[0].association(**id).is_some_and(|core| !core.is_closed())).count(),
            1
        );
        let reasons = world.events[0].iter().filter_map(|event| match event {
            EndpointEvent::Association(_, Event::Closed(reason)) => Some(reason.to_string()),
            _ => None,
        });
        let reasons: Vec<String> = reasons.collect();
        let expected = if is_encrypted { "no room for another association" } else { "out of resource" };
        assert_eq!(reasons.len(), 2);
        assert!(reasons.iter().all(|reason| reason.contains(expected)), "{reasons:?}");
        world.ends[1].end(world.now);
        world.pass(LINGER + Duration::from_secs(60));
        world.assert_forgotten();
    }
}

// aws/s2n-quic#3259 and cloudflare/quiche#2614: the state of a closed connection is dropped early, so that late packets are a stranger's.
#[test]
fn late_packets_of_an_encrypted_association_that_is_over_draw_no_reset_and_keep_nothing_alive() {
    for is_by_server in [false, true] {
        let mut world = World::new(true);
        let pair @ [near, far] = world.pair(1_000);
        world.talk(pair);
        let late = [(0, near), (1, far)].map(|(side, id)| {
            (0..20).for_each(|_| world.send(side, id, "too late"));
            world.take(side)
        });
        let (side, id) = if is_by_server { (1, far) } else { (0, near) };
        world.ends[side].change(id, |core| core.abort(b"enough")).unwrap();
        world.carry();
        let token = world.ends[0].association(near).and_then(Channel::reset_token).expect("the server has given one");
        for _ in 1..=9 {
            world.pass(Duration::from_secs(1));
            for side in [0, 1] {
                for packet in &late[1 - side] {
                    world.give(side, packet);
                    let answers = world.take(side);
                    assert!(
                        answers.len() <= 1 && answers.iter().all(|answer| answer.len() <= packet.len()),
                        "side {side}"
                    );
                    assert!(answers.iter().all(|answer| token_of(answer) != Some(token)), "a reset");
                    answers.iter().for_each(|answer| world.give(1 - side, answer));
                    world.carry();
                }
            }
        }
        // Then a reset is all that is left to say.
        world.pass(Duration::from_secs(2));
        world.give(1, &late[0][0]);
        assert!(world.take(1).iter().any(|answer| token_of(answer) == Some(token)));
        world.pass(Duration::from_secs(60));
        world.assert_forgotten();
    }
}

// webrtc-rs/webrtc#414 and pion/sctp#495: an INIT that arrives after the handshake ends the association.
#[test]
fn a_handshake_packet_that_comes_again_at_any_time_changes_nothing() {
    for is_encrypted in [false, true] {
        let mut world = World::new(is_encrypted);
        let near = world.connect(1_000);
        let mut seen: Vec<(usize, Vec<u8>)> = Vec::new();
        for step in 0..20 {
            let side = step % 2;
            let packets = world.take(side);
            seen.extend(packets.iter().map(|packet| (1 - side, packet.clone())));
            packets.iter().for_each(|packet| world.give(1 - side, packet));
        }
        let far = world.ends[1].accept(PORT).unwrap();
        for round in 0..3 {
            world.talk([near, far]);
            for (side, packet) in &seen {
                world.give(*side, packet);
                world.carry();
            }
            world.pass(Duration::from_secs(7 * round));
        }
        world.talk([near, far]);
        assert_eq!((world.accepted(), world.ends[0].len(), world.ends[1].len()), (vec![far], 1, 1));
        let restarts = |event: &&EndpointEvent| matches!(event, EndpointEvent::Association(_, Event::PeerRestarted));
        assert_eq!(world.events.iter().flatten().filter(restarts).count(), 0);
    }
}

// sctplab/usrsctp#418: the COOKIE ECHO of a client that has lost its state is discarded, 20 s later but not at once.
#[test]
fn a_client_without_its_state_comes_back_from_the_same_address_and_ports_at_any_time() {
    for (is_encrypted, seconds) in [false, true].into_iter().flat_map(|kind| [0, 1, 20, 70].map(|after| (kind, after)))
    {
        let case = format!("encrypted: {is_encrypted}, after {seconds} s");
        let mut world = World::new(is_encrypted);
        let pair @ [_, far] = world.pair(1_000);
        world.talk(pair);
        world.send(1, far, "lost");
        let protocols = if is_encrypted { Protocols::Encrypted } else { Protocols::Plain };
        world.ends[0] = endpoint(protocols, &sctp::Admission::default(), 3, None);
        world.events[0].clear();
        world.take(1);
        // The server waits alone.
        for _ in 0..seconds {
            world.now += Duration::from_secs(1);
            world.ends[1].handle_timeout(world.now);
            world.take(1);
        }
        let near = world.connect(1_000);
        world.pass(Duration::from_secs(5));
        // It is another association if the first is encrypted, or over by now.
        let is_over = world.ended(1).contains(&far);
        let now = if is_encrypted || is_over { world.ends[1].accept(PORT).unwrap() } else { far };
        assert_eq!(is_over, !is_encrypted && seconds == 70, "{case}");
        assert_eq!(world.ends[1].accept(PORT), None, "{case}");
        while world.message(0, near).is_some() || world.message(1, now).is_some() {}
        world.talk([near, now]);
        world.ends[0].end(world.now);
        world.pass(Duration::from_secs(1_000));
        world.assert_forgotten();
    }
}

// webrtc-rs/webrtc#615 and pion/webrtc#296: both sides connect at once.
#[test]
fn two_sides_that_connect_to_each_other_at_once_have_one_association_whichever_packet_is_lost() {
    for lost in 0..12 {
        let mut world = World::new(false);
        world.ends[0].listen(1_000).unwrap();
        let near = world.connect(1_000);
        let ports = Ports { local: PORT, peer: 1_000 };
        let far = world.ends[1].connect_plain(world.now, address(CLIENT), ports, 77).unwrap();
        let mut number = 0;
        for _ in 0..20 {
            let packets = [0, 1].map(|side| world.take(side));
            for side in [0, 1] {
                for packet in &packets[1 - side] {
                    if number != lost {
                        world.give(side, packet);
                    }
                    number += 1;
                }
            }
        }
        world.pass(Duration::from_secs(10));
        world.talk([near, far]);
        assert_eq!((world.ends[0].len(), world.ends[1].len(), world.accepted().len()), (1, 1, 0), "{lost}");
        let established = |event: &&EndpointEvent| {
            matches!(event, EndpointEvent::Association(_, Event::Established { .. } | Event::PeerRestarted))
        };
        assert_eq!([0, 1].map(|side| world.events[side].iter().filter(established).count()), [1, 1], "{lost}");
    }
}

// mozilla/neqo#2044 and ngtcp2/ngtcp2#1134: an empty datagram panics or is an error; nghttp2/nghttp2#2117: one that is too short.
#[test]
fn datagrams_of_any_length_do_an_association_no_harm_and_draw_no_longer_answers() {
    for is_encrypted in [false, true] {
        let mut world = World::new(is_encrypted);
        let pair @ [near, far] = world.pair(1_000);
        world.send(0, near, "there");
        let genuine = world.take(0).concat();
        world.send(1, far, "and back");
        let genuine = [genuine, world.take(1).concat()];
        for (side, whole) in genuine.into_iter().enumerate() {
            let long = |bytes: usize| [&whole[..], &vec![7; bytes - whole.len()]].concat();
            let cut = (0..whole.len()).map(|length| whole[..length].to_vec());
            let padded = [whole.len() + 1, whole.len() + 4, 9_000, 65_507].map(long);
            for datagram in cut.chain(padded).chain([vec![0; 65_507], vec![0xff; 65_507]]) {
                for from in [[CLIENT, SERVER][side], "198.51.100.1:7"] {
                    give(world.now, &mut world.ends[1 - side], address(from), &datagram);
                    let answers = take(world.now, &mut world.ends[1 - side]);
                    let bytes: usize = answers.iter().map(|(_, answer)| answer.len()).sum();
                    let is_reply = answers.iter().all(|(to, _)| *to == address([CLIENT, SERVER][side]));
                    assert!(is_reply || bytes <= datagram.len().max(1) * 3, "{} bytes: {bytes}", datagram.len());
                }
            }
        }
        world.pass(Duration::from_secs(5));
        while world.message(1, far).is_some() || world.message(0, near).is_some() {}
        world.talk(pair);
        assert_eq!((world.ends[0].len(), world.ends[1].len()), (1, 1));
    }
}

// private-octopus/picoquic#1665: a server and a service that returns each datagram answer each other for ever.
#[test]
fn a_service_that_returns_each_datagram_keeps_no_endpoint_busy() {
    let echo = "198.51.100.1:7";
    for is_encrypted in [false, true] {
        let mut world = World::new(is_encrypted);
        let [near, _] = world.pair(1_000);
        world.send(0, near, "there");
        let genuine = world.take(0);
        // The server gets packets in the name of the service, of an association and of none; the client connects to the service.
        let strange = [vec![0x65; 1_200], vec![0x45; 100], vec![0; 40]];
        for packet in genuine.iter().chain(&strange) {
            give(world.now, &mut world.ends[1], address(echo), packet);
        }
        world.connect_to(echo, 1_001);
        let mut returned = 0;
        for side in [0, 1] {
            for _ in 0..TURNS_MAX {
                let packets = take(world.now, &mut world.ends[side]);
                for (to, packet) in packets.iter().filter(|(to, _)| *to == address(echo)) {
                    returned += 1;
                    give(world.now, &mut world.ends[side], *to, packet);
                }
                let Some(at) = world.ends[side].poll_deadline(world.now).filter(|_| side == 0) else { break };
                if at > Instant::from_secs(3_600 + 300) {
                    break;
                }
                world.now = at;
                world.ends[side].handle_timeout(at);
            }
        }
        assert!(returned < 100, "{returned} datagrams were returned");
    }
}

// torrust/torrust-tracker#2017: requests from port 0 are worked on, and the system refuses to send the answers.
#[test]
fn an_encrypted_endpoint_sends_nothing_to_port_0_and_nothing_to_no_address() {
    for from in ["198.51.100.1:0", "0.0.0.0:9899", "[::]:9899"] {
        let mut world = World::new(true);
        world.connect(1_000);
        let hello = world.take(0).concat();
        let mut plain = World::new(false);
        plain.connect(1_000);
        let init = plain.take(0).concat();
        let mut other_version = hello.clone();
        other_version[4] ^= 0x55;
        for datagram in [hello, init, other_version, vec![0x65; 100], vec![0x45; 100]] {
            for time in [Duration::ZERO, Duration::from_secs(1)] {
                give(world.now, &mut world.ends[1], address(from), &datagram);
                world.now += time;
                world.ends[1].handle_timeout(world.now);
                assert_eq!(take(world.now, &mut world.ends[1]), []);
            }
        }
        assert_eq!(world.ends[1].poll_deadline(world.now), None);
    }
}

// klange/toaruos#398, eclipse-californium/californium#1923: port 0 begins an association or listens.
#[test]
fn nothing_begins_at_port_0_and_nothing_listens_there() {
    for is_encrypted in [false, true] {
        let mut world = World::new(is_encrypted);
        assert!(matches!(world.ends[1].listen(0), Err(BeginError::PortZero)));
        for (remote, local, peer) in [(SERVER, 0, PORT), (SERVER, 1_000, 0), ("10.0.0.1:0", 1_000, PORT)] {
            let result = world.try_connect(remote, Ports { local, peer });
            let Err(error @ BeginError::PortZero) = result else { panic!("{remote} {local} {peer}: {result:?}") };
            assert_eq!(error.to_string(), "port 0 names no port");
        }
        assert!(world.take(0).is_empty() && world.ends[0].is_empty());
        world.connect(1_000);
    }
}

// quinn-rs/quinn#2436, quinn-rs/quinn#290: clocks that have just begun.
#[test]
fn an_endpoint_that_begins_at_any_time_accepts_its_first_client() {
    for is_encrypted in [false, true] {
        for begin in [0, 1, 1_000_000, 1_000_000_000].map(Instant::from_nanos) {
            let mut world = World::new(is_encrypted);
            world.now = begin;
            world.pair(1_000);
            assert_eq!((world.now, world.ends[1].dropped()), (begin, 0), "encrypted: {is_encrypted}");
        }
    }
}

// quinn-rs/quinn#604: reading from a connection that has closed; quinn-rs/quinn#1094: the order of its events.
#[test]
fn messages_that_came_before_an_abort_come_with_the_end_after_all_events() {
    for (is_encrypted, is_by_server) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = World::new(is_encrypted);
        let [near, far] = world.pair(1_000);
        world.send(0, near, "one");
        world.send(0, near, "two");
        world.carry();
        let (side, id) = if is_by_server { (1, far) } else { (0, near) };
        world.ends[side].change(id, |core| core.abort(b"enough")).unwrap();
        world.pass(LINGER + Duration::from_secs(1));
        let names = world.events[1].iter().map(|event| match event {
            EndpointEvent::Accepted(_) => "accepted".to_owned(),
            EndpointEvent::Association(_, Event::Established { .. }) => "established".to_owned(),
            EndpointEvent::Association(_, Event::Readable) => "readable".to_owned(),
            EndpointEvent::Association(_, Event::Closed(_)) => "closed".to_owned(),
            EndpointEvent::Ended { messages, .. } => format!("ended with {}", messages.len()),
            _ => String::new(),
        });
        let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
        let case = format!("encrypted: {is_encrypted}, by the server: {is_by_server}");
        assert_eq!(names, ["accepted", "established", "readable", "closed", "ended with 2"], "{case}");
    }
}
