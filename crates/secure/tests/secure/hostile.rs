//! Datagrams of attackers: forged, changed, cut, repeated and out of order.

use bytes::BytesMut;
use festina_netsim::RandomStream;
use festina_sctp::AssociationState;
use festina_units::Duration;

use crate::handshake::link;
use crate::world::{Setup, World, tls};

const MINUTE: Duration = Duration::from_secs(60);

/// Two sides that have exchanged a message.
fn established(seed: u64) -> World {
    let tls = tls();
    let mut world = World::new(Setup::new(&tls, link(&[]), seed));
    world.send(b"hello");
    world.run_for(Duration::from_secs(3));
    assert_eq!((world.messages(), world.core().state()), (1, AssociationState::Established));
    world
}

/// What an attack may not change.
fn state(world: &World) -> (usize, u64, u64, bool, bool) {
    let (client, server) = (world.core().stats(), &world.served[0].association);
    let server = server.association().unwrap();
    let received = (client.received.packets, server.stats().received.packets);
    (world.messages(), received.0, received.1, world.core().is_closed(), server.is_closed())
}

/// 20,000 forgeries; `SECURE_FORGERIES` sets another number.
#[test]
fn no_forged_packet_is_accepted() {
    let count: usize = std::env::var("SECURE_FORGERIES").map_or(20_000, |count| count.parse().unwrap());
    let mut world = established(1);
    let mut random = RandomStream::new(1, "forger");
    let genuine = [0, 1].map(|side: usize| world.sent[1 - side].last().unwrap().clone());
    let before = state(&world);
    for number in 0..count {
        let side = number % 2;
        let mut datagram = genuine[side].clone();
        match number % 3 {
            // Everything behind the connection ID is random.
            0 => datagram[9..].fill_with(|| random.bits().to_be_bytes()[0]),
            1 => {
                let bit = usize::try_from(random.below(datagram.len() as u64 * 8)).unwrap();
                datagram[bit / 8] ^= 1 << (bit % 8);
            }
            // The first byte alone has bits that are not protected.
            _ => datagram.truncate(usize::try_from(random.below(datagram.len() as u64)).unwrap()),
        }
        world.deliver(side, &datagram);
        assert!(world.dropped[side].pop().is_some(), "forgery {number}");
    }
    assert_eq!(state(&world), before);
    assert_eq!(world.dropped, [vec![], vec![]]);
    world.send(b"still there");
    assert!(world.run_until(MINUTE, |world| world.messages() == 2).0);
}

#[test]
fn repeated_datagrams_of_the_whole_past_have_no_effect() {
    let mut world = established(2);
    for number in 0..20 {
        world.send(&[number; 300]);
        world.run_for(Duration::from_millis(200));
    }
    let before = state(&world);
    let past = world.sent.clone();
    for (side, datagrams) in past.iter().enumerate() {
        for datagram in datagrams {
            world.deliver(1 - side, datagram);
        }
    }
    assert_eq!(state(&world), before);
    world.run_for(MINUTE);
    assert_eq!(state(&world).0, 21);
}

#[test]
fn a_handshake_survives_every_cut_and_every_flipped_byte_of_its_datagrams() {
    let tls = tls();
    for side in 0..2 {
        for number in 0..2 {
            for at in (0..900).step_by(97) {
                let mut world = World::new(Setup::new(&tls, link(&[]), 1));
                world.send(b"hello");
                world.run_until(MINUTE, |world| world.sent[side].len() > number);
                let genuine = world.sent[side][number].clone();
                let mut changed = genuine.clone();
                let at = at.min(genuine.len() - 1);
                changed[at] ^= 0x10;
                world.deliver(1 - side, &changed);
                world.deliver(1 - side, &genuine[..at]);
                let (delivered, _) = world.run_until(MINUTE, |world| world.messages() >= 1);
                assert!(delivered, "side {side}, datagram {number}, byte {at}: {:?}", world.client.failure());
                world.run_for(MINUTE);
                assert_eq!(world.messages(), 1);
            }
        }
    }
}

#[test]
fn fragments_of_a_long_answer_arrive_in_any_order_and_twice() {
    let tls = crate::identity::long_chain();
    let mut world = World::new(Setup::new(&tls, link(&[]), 1));
    world.send(b"hello");
    // A retry, then the answer.
    world.run_until(MINUTE, |world| world.sent[1].len() > 2);
    let answer = world.sent[1][1..].to_vec();
    assert!(answer.len() >= 2);
    for datagram in answer.iter().rev().chain(&answer) {
        world.deliver(0, datagram);
    }
    assert!(world.client.is_established());
    assert!(world.run_until(MINUTE, |world| world.messages() == 1).0);
    world.run_for(MINUTE);
    assert_eq!(world.messages(), 1);
}

#[test]
fn a_datagram_to_a_client_from_another_handshake_is_dropped() {
    let tls = tls();
    let mut one = World::new(Setup::new(&tls, link(&[]), 1));
    let mut other = World::new(Setup::new(&tls, link(&[]), 2));
    for world in [&mut one, &mut other] {
        world.send(b"hello");
        world.run_until(MINUTE, |world| !world.sent[1].is_empty());
    }
    let foreign = other.sent[1][0].clone();
    one.deliver(0, &foreign);
    assert_eq!(one.dropped[0].len(), 1);
    assert!(one.run_until(MINUTE, |world| world.messages() == 1).0);
}

#[test]
fn updates_of_keys_that_come_too_soon_end_the_association() {
    // Only a peer that has the keys can do this: the vectors of the record layer have a flood of them.
    let mut world = established(3);
    world.client.update_keys();
    world.send(b"with new keys");
    assert!(world.run_until(MINUTE, |world| world.messages() == 2).0);
    world.run_for(Duration::from_secs(1));
    assert!(world.client.update_keys(), "the server has confirmed the first update");
    assert!(!world.client.update_keys(), "and not yet the second");
    world.send(b"with newer keys");
    assert!(world.run_until(MINUTE, |world| world.messages() == 3).0);
}

#[test]
fn one_packet_from_another_address_is_read_but_not_followed() {
    let mut world = established(4);
    world.send(b"from elsewhere");
    world.drain();
    let datagram = BytesMut::from(&world.sent[0].last().unwrap()[..]);
    let elsewhere = "198.51.100.9:9".parse().unwrap();
    let (now, server) = (world.now, &mut world.served[0].association);
    server.handle_datagram(now, elsewhere, festina_units::EcnCodepoint::NotCapable, datagram).unwrap();
    assert_eq!(server.remote(), crate::world::address(0));
}
