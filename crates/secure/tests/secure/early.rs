//! Resumption and messages that leave with the hello.

use festina_netsim::{LinkConfig, LossModel};
use festina_sctp::Message;
use festina_units::Duration;

use crate::handshake::link;
use crate::world::{Setup, World, tls, tls_early};

const MINUTE: Duration = Duration::from_secs(60);

type Tls = (std::sync::Arc<rustls::ClientConfig>, std::sync::Arc<rustls::ServerConfig>);

/// Has the client store tickets of the server.
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
    restarted.session_storage = rustls::server::ServerSessionMemoryCache::new(64);
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
