//! Attackers that copy the client's packets: they read the first one, repeat it, use parts of it, and pass packets on.

use std::net::SocketAddr;
use std::sync::Arc;

use festina_sctp::{Context, Event, Message, Ports};
use festina_secure::{Connect, SecureAssociation};
use festina_units::{Duration, EcnCodepoint};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Side};

use crate::early::{resume, warm};
use crate::forge::{hello, read_initial};
use crate::handshake::link;
use crate::world::{NAME, PORTS, Setup, World, address, config, random, tls, tls_early};

const MINUTE: Duration = Duration::from_secs(60);

fn elsewhere() -> SocketAddr {
    ([198, 51, 100, 9], 9).into()
}

/// Another client of the same server, with these random bytes.
fn attacker(world: &World, tls: &Arc<ClientConfig>, token: &[u8], random: [u8; 16]) -> SecureAssociation {
    let context = Context::new(config(), [9; 16]).unwrap();
    let server_name = ServerName::try_from(NAME).unwrap();
    let (remote, ports) = (address(1), PORTS);
    let request = Connect { tls, resumption: None, server_name, remote, ports, token, random, known: None };
    SecureAssociation::connect(world.now, &context, request).unwrap()
}

/// Runs the attacker's handshake at once, from this address. Returns whether the server takes part in it to the end.
fn connect(world: &mut World, attacker: &mut SecureAssociation, from: SocketAddr) -> bool {
    for _ in 0..4 {
        let mut datagram = Vec::new();
        while attacker.poll_transmit(world.now, &mut datagram).is_some() {
            let seen = world.sent[1].len();
            world.deliver_from(from, 1, &std::mem::take(&mut datagram));
            for answer in &world.sent[1][seen..] {
                let (ecn, answer) = (EcnCodepoint::NotCapable, answer[..].into());
                let _dropped = attacker.handle_datagram(world.now, address(1), ecn, answer);
            }
        }
    }
    attacker.is_established()
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn anyone_on_the_path_reads_the_first_packet_and_none_that_follow() {
    let mut world = World::new(Setup { token: b"ticket-4711", ..Setup::new(&tls(), link(&[]), 1) });
    world.send(b"secret");
    assert!(world.run_until(MINUTE, |world| world.messages() == 1).0);
    let first = read_initial(&world, Side::Server, &world.sent[0][0]);
    // An INIT chunk begins with its type, flags and length, and the tag that the connection ID stands for.
    for part in [NAME.as_bytes(), b"festina-test", b"ticket-4711", &[1, 0, 0]] {
        assert!(holds(&first, part), "{part:?}");
    }
    assert!(!holds(&first, b"secret"));
    let answer = read_initial(&world, Side::Client, &world.sent[1][0]);
    assert!(!holds(&answer, b"festina-test"), "the certificate and the chosen protocol are encrypted");
    // The packet is visible only with the keys that follow from its connection ID.
    assert!(
        world.sent.iter().flatten().all(|datagram| !holds(datagram, b"ticket-4711") && !holds(datagram, b"secret"))
    );
}

#[test]
fn a_token_can_be_copied_into_another_hello() {
    let tls = tls();
    let mut world = World::new(Setup { token: b"ticket-4711", ..Setup::new(&tls, link(&[]), 1) });
    world.drain();
    let first = read_initial(&world, Side::Server, &world.sent[0][0]);
    let at = first.windows(11).position(|part| part == b"ticket-4711").unwrap();
    let mut thief = attacker(&world, &tls.0, &first[at..at + 11], random(7));
    assert!(connect(&mut world, &mut thief, elsewhere()));
    let served = world.established().unwrap();
    assert_eq!(served.hello.as_ref().unwrap().token, b"ticket-4711");
    assert_eq!((served.association.remote(), served.association.peer_identity()), (elsewhere(), None));
    world.send(b"hello");
    assert!(world.run_until(MINUTE, |world| world.messages() == 1).0, "the client has its own association");
}

#[test]
fn no_forger_restarts_or_ends_an_association_from_the_clients_address_and_ports() {
    let tls = tls();
    let mut world = World::new(Setup::new(&tls, link(&[]), 1));
    world.send(b"hello");
    world.run_for(Duration::from_secs(3));
    let original = world.sent[0][0].clone();
    // A hello of the attacker's own makes another association. Neither that nor copies of the client's packets concern this one.
    let mut forger = attacker(&world, &tls.0, &[], random(8));
    assert!(connect(&mut world, &mut forger, address(0)));
    // Also with the connection ID of the client's hello, and from elsewhere.
    let same_id = [&random(9)[..8], &hello(&world).destination.0].concat().try_into().unwrap();
    let mut forger = attacker(&world, &tls.0, &[], same_id);
    assert!(!connect(&mut world, &mut forger, address(0)));
    world.deliver(1, &original);
    world.deliver_from(elsewhere(), 1, &original);
    let before = world.server_events.len();
    world.send(b"still here");
    let arrived = |world: &World| world.served[0].received.len() == 2;
    assert!(world.run_until(MINUTE, arrived).0);
    assert_eq!(world.served[0].association.association().unwrap().ports(), Ports { local: 5_000, peer: 5_001 });
    assert!(!world.served[0].association.association().unwrap().is_closed() && !world.core().is_closed());
    let events = &world.server_events[before..];
    assert!(!events.iter().any(|event| matches!(event, Event::PeerRestarted | Event::Closed(_))), "{events:?}");
}

#[test]
fn a_handshake_with_a_copied_connection_id_does_not_take_the_clients_place() {
    let tls = tls();
    let mut world = World::new(Setup::new(&tls, link(&[]), 1));
    world.send(b"hello");
    world.drain();
    // The attacker is closer to the server, and its handshake is complete before the client's hello arrives.
    let same_id = [&random(9)[..8], &hello(&world).destination.0].concat().try_into().unwrap();
    let mut attacker = attacker(&world, &tls.0, &[], same_id);
    assert!(connect(&mut world, &mut attacker, elsewhere()));
    let arrived = |world: &World| world.served.iter().any(|served| !served.received.is_empty());
    assert!(world.run_until(MINUTE, arrived).0, "{:?}", world.client.failure());
    assert_eq!(world.served.iter().filter(|served| served.association.is_established()).count(), 2);
}

#[test]
fn a_copied_hello_delivers_an_early_message_if_it_arrives_first_and_the_client_sends_it_again() {
    let tls = tls_early();
    warm(&tls, 1);
    let mut world = resume(&tls, [link(&[]), link(&[])], 2);
    world.drain();
    let copy = world.sent[0][0].clone();
    world.deliver_from(elsewhere(), 1, &copy);
    assert_eq!((world.served[0].early.len(), world.served[0].association.is_established()), (1, false));
    assert!(world.run_until(MINUTE, |world| world.messages() == 1).0);
    let client = world.established().unwrap();
    assert_eq!((client.early.len(), client.association.remote()), (0, address(0)), "the ticket was used before");
    assert_eq!(client.received[0].payload(), "early");
    world.run_for(MINUTE);
    assert_eq!(world.messages(), 1);
    assert!(world.served.iter().all(|served| served.association.is_established()), "the copy completes no handshake");
}

fn moved(world: &World) -> Vec<SocketAddr> {
    let moved = |event: &Event| if let Event::PeerMoved { remote, .. } = event { Some(*remote) } else { None };
    world.server_events.iter().filter_map(moved).collect()
}

#[test]
fn a_relay_that_passes_the_challenge_and_its_answer_on_does_not_take_the_clients_place() {
    let mut world = World::new(Setup::new(&tls(), link(&[]), 1));
    world.send(b"hello");
    world.run_for(Duration::from_secs(3));
    world.send(b"relayed");
    world.drain();
    let (copy, seen) = (world.sent[0].last().unwrap().clone(), world.sent[1].len());
    world.deliver_from(elsewhere(), 1, &copy);
    assert_eq!((world.served[0].association.remote(), moved(&world)), (address(0), vec![]));
    // The server challenges the relay, which has the client answer.
    let sent = world.sent[0].len();
    let challenges = world.sent[1][seen..].to_vec();
    for challenge in &challenges {
        world.deliver(0, challenge);
    }
    let answers = world.sent[0][sent..].to_vec();
    for answer in &answers {
        world.deliver_from(elsewhere(), 1, answer);
    }
    // The relay gets copies of all datagrams from now on, and the client gets the originals.
    let before = world.seen.sent_to[&elsewhere()];
    world.served[0].association.send(world.now, Message::new(vec![7; 1_000])).unwrap();
    world.run_for(Duration::from_millis(60));
    assert!(world.seen.sent_to[&elsewhere()] - before > 1_000 && world.client_received.len() == 1);
    world.run_for(Duration::from_secs(3));
    let before = world.seen.sent_to[&elsewhere()];
    world.served[0].association.send(world.now, Message::new(vec![7; 1_000])).unwrap();
    world.send(b"directly");
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.seen.sent_to[&elsewhere()], before, "a relay that passes nothing on is forgotten");
    assert_eq!((world.served[0].association.remote(), moved(&world)), (address(0), vec![]));
    let received: Vec<_> = world.served[0].received.iter().map(|message| &message.payload()[..]).collect();
    assert_eq!(received, [&b"hello"[..], b"relayed", b"directly"]);
}

#[test]
fn a_servers_packet_from_another_address_is_read_and_answered_at_the_old_one() {
    let mut world = World::new(Setup::new(&tls(), link(&[]), 1));
    world.send(b"hello");
    world.run_for(Duration::from_secs(3));
    world.served[0].association.send(world.now, Message::new("from elsewhere")).unwrap();
    world.drain();
    let datagram = world.sent[1].last().unwrap().clone();
    world.deliver_from(elsewhere(), 0, &datagram);
    assert_eq!(world.client_received.len(), 1);
    // The world checks where the client sends.
    world.send(b"answer");
    assert!(world.run_until(MINUTE, |world| world.messages() == 2).0);
    assert_eq!(world.client.remote(), address(1));
}
