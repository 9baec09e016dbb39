//! A server that has lost its state ends its old associations by stateless resets (RFC 9000 §10.3).

use std::sync::Arc;

use bytes::BytesMut;
use festina_sctp::{ClosedReason, Context, Event};
use festina_secure::reset::{ResetKey, token_of};
use festina_secure::{DatagramDropped, HalfOpenLimits, Incoming, Listener};
use festina_units::Duration;

use crate::handshake::link;
use crate::world::{Setup, World, address, config, provider, tls};

const KEY: &[u8] = b"the private key of the server";
const MINUTE: Duration = Duration::from_secs(60);

/// An association whose server restarts with this private key.
fn restarted(key: &[u8]) -> World {
    restarted_after(key, |_| {})
}

/// The same after `meddle`.
fn restarted_after(key: &[u8], meddle: impl FnOnce(&mut World)) -> World {
    let tls = tls();
    let mut world = World::new(Setup { reset_secret: KEY, ..Setup::new(&tls, link(&[]), 1) });
    world.send(b"hello");
    assert!(world.run_until(MINUTE, |world| world.messages() == 1).0);
    world.run_for(Duration::from_secs(2));
    meddle(&mut world);
    world.served.clear();
    let context = Context::new(config(), [7; 16]).unwrap();
    let listener = Listener::new(&context, Arc::clone(&tls.1), [8; 32], HalfOpenLimits::default()).unwrap();
    world.listener = listener.with_resets(ResetKey::new(&provider(), key, address(1)).unwrap());
    world
}

fn is_reset(world: &World) -> bool {
    world.client_events.contains(&Event::Closed(ClosedReason::PeerReset))
}

#[test]
fn rfc9000_10_3_a_client_notices_within_a_round_trip_that_its_server_was_restarted() {
    let mut world = restarted(KEY);
    let begin = world.now;
    world.send(b"is anybody there");
    assert!(world.run_until(MINUTE, is_reset).0, "{:?}", world.client_events);
    assert!(world.now - begin <= Duration::from_millis(100), "{:?}", world.now - begin);
    assert!(world.client.is_finished(world.now) && world.client.failure().is_none());
}

#[test]
fn rfc9000_10_3_a_client_notices_it_also_after_moves_and_in_the_midst_of_one() {
    for moves in 1..4 {
        let mut world = restarted_after(KEY, |world| {
            for _ in 1..moves {
                world.client_address.set_port(world.client_address.port() + 1);
                world.client.rebind(world.now, |_| Some(true));
                world.run_for(Duration::from_secs(1));
            }
        });
        let before = world.client.reset_token().unwrap();
        world.client.rebind(world.now, |_| Some(true));
        assert_ne!(world.client.reset_token(), Some(before), "each ID has a token of its own");
        let begin = world.now;
        assert!(world.run_until(MINUTE, is_reset).0, "{moves}: {:?}", world.client_events);
        assert!(world.now - begin <= Duration::from_millis(100), "{moves}: {:?}", world.now - begin);
    }
    // A server that moves gives its client the token of its new ID as well.
    let mut world = restarted_after(KEY, |world| {
        let before = world.client.reset_token().unwrap();
        world.served[0].association.rebind(world.now, |_| Some(true));
        world.run_for(Duration::from_secs(2));
        assert!(world.client.reset_token().is_some_and(|token| token != before));
    });
    world.send(b"is anybody there");
    assert!(world.run_until(MINUTE, is_reset).0, "{:?}", world.client_events);
}

#[test]
fn rfc9000_10_3_a_server_with_another_private_key_resets_nothing() {
    let mut world = restarted(b"another key");
    world.send(b"is anybody there");
    assert!(!world.run_until(Duration::from_secs(5), is_reset).0);
}

#[test]
fn rfc9000_10_3_a_reset_is_shorter_than_the_packet_that_it_answers_and_draws_no_other() {
    let mut world = restarted(KEY);
    let (now, from) = (world.now, address(0));
    let mut answered = 0;
    for length in 0..200_usize {
        let mut datagram = vec![0b0110_0101; length];
        loop {
            let mut reply = Vec::new();
            match world.listener.handle_datagram(now, from, BytesMut::from(&datagram[..]), 0, &mut reply) {
                Incoming::Reply => {
                    assert!(reply.len() < datagram.len() && reply.len() <= 42);
                    answered += 1;
                    datagram = reply;
                }
                // A reset of a reset is shorter again, so that they end.
                _ => break assert!(reply.is_empty()),
            }
        }
    }
    assert!(answered > 100, "{answered}");
}

#[test]
fn rfc9000_10_3_no_forger_resets_an_association() {
    let tls = tls();
    let mut world = World::new(Setup { reset_secret: KEY, ..Setup::new(&tls, link(&[]), 1) });
    world.send(b"hello");
    assert!(world.run_until(MINUTE, |world| world.messages() == 1).0);
    world.run_for(Duration::from_secs(2));
    // The observer knows the connection IDs, and has the server answer packets with others.
    let seen = world.sent.concat();
    let token = world.client.reset_token().unwrap();
    assert!(seen.iter().all(|datagram| datagram.windows(16).all(|bytes| bytes != token)), "the token is a secret");
    for datagram in &seen {
        let mut forged = [&[0b0110_0000; 26][..], &datagram[datagram.len() - 16..]].concat();
        world.deliver(0, &forged);
        forged[1..9].copy_from_slice(&world.client.id().0);
        world.deliver(0, &forged);
    }
    for bit in 0..128 {
        let mut wrong = token;
        wrong[bit / 8] ^= 1 << (bit % 8);
        world.deliver(0, &[&[0b0110_0000; 26][..], &wrong].concat());
    }
    let id = world.established().unwrap().association.id();
    for (first, id) in [(0b0110_0000, id.0), (0b0110_0001, [9; 8])] {
        let sent = world.sent[1].len();
        world.deliver(1, &[&[first][..], &id, &[0; 60]].concat());
        assert!(world.sent[1][sent..].iter().all(|datagram| token_of(datagram) != Some(token)), "a living association");
    }
    assert!(world.dropped[0].iter().all(|dropped| *dropped != DatagramDropped::Closed));
    world.send(b"still here");
    assert!(world.run_until(MINUTE, |world| world.messages() == 2).0);
    assert!(!is_reset(&world));
}
