//! Resumption, and messages sent with the hello.

use festina_netsim::{LinkConfig, LossModel};
use festina_sctp::Message;
use festina_secure::record::{LongKeys, initial_keys};
use festina_secure::sessions::ServerSessions;
use festina_secure::wire::{Frame, Header, LONG_HEADER_BYTES, Level, read_header};
use festina_units::Duration;
use rustls::Side;

use crate::handshake::link;
use crate::world::{Setup, World, provider, tls, tls_early};

const MINUTE: Duration = Duration::from_secs(60);

type Tls = (std::sync::Arc<rustls::ClientConfig>, std::sync::Arc<rustls::ServerConfig>);

/// Makes the client store tickets of the server.
pub(crate) fn warm(tls: &Tls, seed: u64) {
    let mut world = World::new(Setup::new(tls, link(&[]), seed));
    world.run_for(Duration::from_secs(2));
    assert!(world.client.is_established());
}

/// Connects again with an early message over links that lose these datagrams.
pub(crate) fn resume(tls: &Tls, links: [LinkConfig; 2], seed: u64) -> World {
    let mut setup = Setup::new(tls, link(&[]), seed);
    setup.links = links;
    let mut world = World::new(setup);
    world.client.send_early(Message::new("early").on_stream(3).with_ppid(7)).unwrap();
    world
}

fn early(world: &World) -> usize {
    world.served.iter().map(|served| served.early.len()).sum()
}

#[test]
fn a_message_that_is_safe_to_repeat_arrives_after_half_a_round_trip_and_once() {
    let tls = tls_early();
    warm(&tls, 1);
    let mut world = resume(&tls, [link(&[]), link(&[])], 2);
    world.send(b"ordinary");
    let (delivered, milliseconds) = world.run_until(MINUTE, |world| early(world) == 1);
    assert_eq!((delivered, milliseconds), (true, 50));
    let message = &world.served[0].early[0];
    assert_eq!((&message.payload[..], message.stream.0, message.ppid), (&b"early"[..], 3, 7));
    assert!(!world.served[0].association.is_established(), "nothing proves yet who sent it");
    let (delivered, milliseconds) = world.run_until(MINUTE, |world| world.messages() == 1);
    assert_eq!((delivered, milliseconds), (true, 150));
    world.run_for(MINUTE);
    assert_eq!((early(&world), world.messages()), (1, 1), "the early message is not sent again");
    assert!(world.client.is_resumed());
}

#[test]
fn an_early_message_arrives_once_despite_lost_packets() {
    let tls = tls_early();
    let cases: [(&[u64], &[u64]); 5] = [(&[0], &[]), (&[], &[0]), (&[0, 1], &[]), (&[1], &[]), (&[], &[1])];
    for (at, (there, back)) in cases.into_iter().enumerate() {
        warm(&tls, 10 + at as u64);
        let mut world = resume(&tls, [link(there), link(back)], 20 + at as u64);
        let (arrived, milliseconds) = world.run_until(MINUTE, |world| early(world) == 1);
        assert!(arrived && milliseconds <= 470, "{there:?} {back:?}: {milliseconds} ms");
        world.run_for(MINUTE);
        assert_eq!((early(&world), world.messages()), (1, 0));
    }
}

#[test]
fn a_server_that_forgot_its_sessions_gets_the_message_once_the_handshake_is_complete() {
    let (client, server) = tls_early();
    warm(&(client.clone(), std::sync::Arc::clone(&server)), 1);
    let mut restarted = rustls::ServerConfig::clone(&server);
    restarted.session_storage = std::sync::Arc::new(ServerSessions::new(64));
    let mut world = resume(&(client, std::sync::Arc::new(restarted)), [link(&[]), link(&[])], 2);
    let (delivered, milliseconds) = world.run_until(MINUTE, |world| world.messages() == 1);
    assert_eq!((delivered, milliseconds, early(&world)), (true, 150, 0));
    assert!(world.served[0].received[0].unordered);
}

#[test]
fn a_replayed_hello_delivers_no_early_message_again() {
    let tls = tls_early();
    warm(&tls, 1);
    let mut world = resume(&tls, [link(&[]), link(&[])], 2);
    world.run_until(MINUTE, |world| early(world) == 1);
    let hello = world.sent[0][0].clone();
    for _ in 0..3 {
        world.deliver(1, &hello);
    }
    assert_eq!(early(&world), 1);
    // To a server that has forgotten the association, the ticket was used before.
    world.served.clear();
    world.deliver(1, &hello);
    world.run_for(MINUTE);
    assert_eq!(early(&world), 0);
    assert!(world.established().is_none());
}

#[test]
fn without_a_session_or_after_the_hello_no_early_message_is_taken() {
    let tls = tls_early();
    let mut world = World::new(Setup::new(&tls, link(&[]), 1));
    assert!(world.client.send_early(Message::new("early")).is_err(), "no session");
    warm(&tls, 2);
    let mut world = World::new(Setup::new(&tls, link(&[]), 3));
    assert!(world.client.send_early(Message::new(vec![1; 1_200])).is_err(), "it does not fit into the datagram");
    world.client.send_early(Message::new("early")).unwrap();
    world.drain();
    assert!(world.client.send_early(Message::new("late")).is_err());
    let plain = crate::world::tls();
    warm(&plain, 4);
    let mut world = World::new(Setup::new(&plain, link(&[]), 5));
    assert!(world.client.send_early(Message::new("early")).is_err(), "the server does not allow it");
}

#[test]
fn tickets_arrive_over_a_link_that_loses_the_first_of_them() {
    let tls = tls();
    for lost in 1..4 {
        let mut setup = Setup::new(&tls, link(&[]), lost);
        setup.links[1].loss = LossModel::Exact(vec![lost]);
        let mut world = World::new(setup);
        world.send(b"hello");
        world.run_for(Duration::from_secs(30));
        let mut again = World::new(Setup::new(&tls, link(&[]), 100 + lost));
        again.run_for(Duration::from_secs(2));
        assert!(again.client.is_resumed(), "datagram {lost} lost");
    }
}

/// An Initial packet in the name of the server, in answer to the client's first datagram.
fn initial_to_client(world: &World, frame: &Frame<'_>) -> Vec<u8> {
    let Header::Long(hello) = read_header(&world.sent[0][0]).unwrap() else { panic!("it is a hello") };
    let keys = initial_keys(&provider(), hello.destination, Side::Server).unwrap();
    let (mut keys, mut packet, mut frames) = (LongKeys::stateless(Level::Initial, keys, 0), Vec::new(), Vec::new());
    frame.write(&mut frames);
    keys.seal(&mut packet, hello.source, hello.destination, &frames).unwrap();
    packet
}

/// The packets with early keys in a datagram.
fn early_packets(mut datagram: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    while let Ok(Header::Long(header)) = read_header(datagram) {
        let (packet, rest) = datagram.split_at(LONG_HEADER_BYTES + header.length);
        if header.level == Level::Early {
            packets.push(packet.to_vec());
        }
        datagram = rest;
    }
    packets
}

#[test]
fn early_keys_never_protect_two_packets_with_one_number() {
    let tls = tls_early();
    warm(&tls, 1);
    let mut world = resume(&tls, [link(&[0, 1, 2, 3]), link(&[])], 2);
    world.drain();
    // The front of a ServerHello: TLS waits for the rest, and returns the early keys again.
    let part = initial_to_client(&world, &Frame::Fragment { offset: 0, bytes: &[2, 0] });
    world.deliver(0, &part);
    assert!(world.run_until(MINUTE, |world| world.sent[0].len() >= 3).0);
    let packets: Vec<_> = world.sent[0].iter().flat_map(|datagram| early_packets(datagram)).collect();
    assert!(packets.len() >= 3);
    // Numbers are protected, but the contents are the same, so that packets are equal if and only if their numbers are.
    let distinct: std::collections::BTreeSet<_> = packets.iter().collect();
    assert_eq!(distinct.len(), packets.len());
}

#[test]
fn a_forged_token_of_any_length_leaves_datagrams_within_their_limit() {
    let tls = tls_early();
    warm(&tls, 1);
    let mut world = World::new(Setup::new(&tls, link(&[]), 2));
    let fits = |world: &mut World, bytes| world.client.send_early(Message::new(vec![1; bytes])).is_ok();
    let longest = (1..1_200).rev().find(|bytes| fits(&mut world, *bytes)).unwrap();
    world.drain();
    let retry = initial_to_client(&world, &Frame::Retry(&[7; 255]));
    world.deliver(0, &retry);
    world.run_for(MINUTE);
    assert_eq!(early(&world) + world.messages(), 1);
    assert!(world.sent[0].len() > 2);
    let largest = world.sent[0].iter().map(Vec::len).max().unwrap();
    assert!(largest <= 1_232, "{largest} bytes, with an early message of {longest}");
}
