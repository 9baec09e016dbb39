//! Resumption, and messages sent with the hello.

use festina_netsim::{LinkConfig, LossModel};
use festina_sctp::{Context, Message};
use festina_secure::parameters::Parameters;
use festina_secure::sessions::ServerSessions;
use festina_secure::wire::{ConnectionId, Frame, Header, LONG_HEADER_BYTES, Level, read_header};
use festina_secure::{LongKeys, initial_keys};
use festina_units::Duration;
use rustls::Side;
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, Keys, Version};

use crate::forge::to_client;
use crate::handshake::link;
use crate::world::{NAME, Setup, World, config, provider, tls, tls_early};

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
    assert_eq!((&message.payload()[..], message.stream().0, message.ppid()), (&b"early"[..], 3, 7));
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
    assert!(world.served[0].received[0].is_unordered());
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
    let part = to_client(&world, 0, &Frame::Fragment { offset: 0, bytes: &[2, 0] });
    world.deliver(0, &part);
    assert!(world.run_until(MINUTE, |world| world.sent[0].len() >= 3).0);
    let packets: Vec<_> = world.sent[0].iter().flat_map(|datagram| early_packets(datagram)).collect();
    assert!(packets.len() >= 3);
    // Numbers are protected, but the contents are the same, so that packets are equal if and only if their numbers are.
    let distinct: std::collections::BTreeSet<_> = packets.iter().collect();
    assert_eq!(distinct.len(), packets.len());
}

/// A hello of a client that resumes a session and writes these frames into its packet with early keys.
fn hello_with_early_frames(tls: &Tls, frames: &[u8]) -> Vec<u8> {
    let context = Context::new(config(), [9; 16]).unwrap();
    let (local, original) = (ConnectionId([8; 8]), ConnectionId([9; 8]));
    let parameters = Parameters {
        initial_source: Some(local),
        init: context.init_chunk(u64::from_be_bytes(local.0), None),
        ports: Some((5_001, 5_000)),
        ..Parameters::default()
    };
    let name = ServerName::try_from(NAME).unwrap();
    let parameters = parameters.to_bytes();
    let mut client = ClientConnection::new(std::sync::Arc::clone(&tls.0), Version::V1, name, parameters).unwrap();
    let (mut hello, mut bytes, mut datagram) = (Vec::new(), Vec::new(), Vec::new());
    client.write_hs(&mut bytes);
    Frame::Fragment { offset: 0, bytes: &bytes }.write(&mut hello);
    let keys = initial_keys(&provider(), original, Side::Client).unwrap();
    LongKeys::new(Level::Initial, keys).seal(&mut datagram, original, local, &hello).unwrap();
    let [local_keys, remote_keys] = [0, 1].map(|_| client.zero_rtt_keys().unwrap());
    let keys = Keys { local: local_keys, remote: remote_keys };
    LongKeys::new(Level::Early, keys).seal(&mut datagram, original, local, frames).unwrap();
    datagram
}

#[test]
fn an_early_packet_with_a_malformed_frame_delivers_nothing() {
    let tls = tls_early();
    let mut frames = Vec::new();
    Frame::Message { stream: 3, ppid: 7, bytes: b"early" }.write(&mut frames);
    // No other frame, an unknown one, and one that only servers send.
    for (behind, delivered) in [(&[][..], 1), (&[99], 0), (&[6, 1], 0)] {
        warm(&tls, 1);
        let mut world = World::new(Setup::new(&tls, link(&[]), 2));
        let datagram = hello_with_early_frames(&tls, &[&frames, behind].concat());
        world.deliver(1, &datagram);
        assert_eq!((world.served.len(), early(&world)), (1, delivered), "{behind:?}");
    }
}

#[test]
fn a_forged_token_of_any_length_leaves_datagrams_within_their_limit() {
    let tls = tls_early();
    warm(&tls, 1);
    let mut world = World::new(Setup::new(&tls, link(&[]), 2));
    let fits = |world: &mut World, bytes| world.client.send_early(Message::new(vec![1; bytes])).is_ok();
    let longest = (1..1_200).rev().find(|bytes| fits(&mut world, *bytes)).unwrap();
    world.drain();
    let retry = to_client(&world, 0, &Frame::Retry(&[7; 255]));
    world.deliver(0, &retry);
    world.run_for(MINUTE);
    assert_eq!(early(&world) + world.messages(), 1);
    assert!(world.sent[0].len() > 2);
    let largest = world.sent[0].iter().map(Vec::len).max().unwrap();
    assert!(largest <= 1_232, "{largest} bytes, with an early message of {longest}");
}
