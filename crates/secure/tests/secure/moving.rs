//! A client that comes to another address, and attackers that pretend it has.

use std::net::SocketAddr;

use festina_sctp::{Event, Message, ReceivedMessage};
use festina_units::{Duration, Instant};

use crate::handshake::link;
use crate::world::{Setup, World, address, tls};

pub(crate) const ONE_WAY: Duration = Duration::from_millis(50);
const PERIOD: Duration = Duration::from_micros(33_333);
pub(crate) const COUNT: u32 = 90;

pub(crate) fn established(seed: u64) -> World {
    let tls = tls();
    let mut world = World::new(Setup::new(&tls, link(&[]), seed));
    world.send(b"hello");
    world.run_for(Duration::from_secs(3));
    assert!(world.established().is_some());
    world.served[0].received.clear();
    world.client_received.clear();
    world.server_events.clear();
    world
}

pub(crate) fn moved(world: &World) -> Vec<SocketAddr> {
    let moved = |event: &Event| if let Event::PeerMoved { remote, .. } = event { Some(*remote) } else { None };
    world.server_events.iter().filter_map(moved).collect()
}

/// Both sides send a message each 33 ms, while `meddle` is called with each number before it is sent. Returns the longest delay of a message in
/// each direction.
pub(crate) fn stream(world: &mut World, mut meddle: impl FnMut(&mut World, u32)) -> [Duration; 2] {
    let begin = world.now;
    let sent_at = |number: u32| begin + PERIOD * number;
    let mut longest = [Duration::ZERO; 2];
    let mut seen = [0, 0];
    let mut look = |world: &World| {
        for (side, received) in [&world.served[0].received, &world.client_received].into_iter().enumerate() {
            for message in &received[seen[side]..] {
                let number = u32::from_be_bytes(message.payload()[..4].try_into().unwrap());
                longest[side] = longest[side].max(world.now - sent_at(number));
            }
            seen[side] = received.len();
        }
    };
    let run_to = |world: &mut World, limit: Instant, look: &mut dyn FnMut(&World)| {
        while world.step(limit) {
            look(world);
        }
    };
    for number in 0..COUNT {
        run_to(world, sent_at(number), &mut look);
        meddle(world, number);
        let message = || Message::new([&number.to_be_bytes()[..], &[7; 96]].concat());
        world.client.send(world.now, message()).unwrap();
        world.served[0].association.send(world.now, message()).unwrap();
    }
    run_to(world, sent_at(COUNT + 90), &mut look);
    let numbers = |received: &[ReceivedMessage]| -> Vec<u32> {
        received.iter().map(|message| u32::from_be_bytes(message.payload()[..4].try_into().unwrap())).collect()
    };
    assert_eq!(numbers(&world.served[0].received), (0..COUNT).collect::<Vec<_>>(), "each once and in order");
    assert_eq!(numbers(&world.client_received), (0..COUNT).collect::<Vec<_>>(), "each once and in order");
    longest
}

#[test]
fn a_client_moves_in_the_middle_of_a_stream_and_no_message_is_lost_or_very_late() {
    let new = "198.51.100.7:4242".parse().unwrap();
    let mut latest = [Duration::ZERO; 2];
    for phase in 0..33 {
        let mut world = established(phase);
        let offset = Duration::from_millis(phase);
        let longest = stream(&mut world, |world, number| {
            if number == 30 {
                world.run_for(offset);
                world.client_address = new;
            }
        });
        assert_eq!((world.served[0].association.remote(), moved(&world)), (new, vec![new]), "phase {phase}");
        // Messages that were due while the world ran for `offset` were sent as much later.
        latest = [0, 1].map(|side| latest[side].max(longest[side].saturating_sub(offset)));
        // Later than usual by at most one and a half round trips.
        let limit = ONE_WAY * 4 + offset;
        assert!(longest.iter().all(|longest| *longest <= limit), "phase {phase}: {longest:?}");
    }
    println!("longest delay to the server {:?}, to the client {:?}", latest[0], latest[1]);
}

#[test]
fn a_server_follows_a_client_that_says_so_at_once_also_an_idle_one() {
    let new = "198.51.100.7:4242".parse().unwrap();
    for is_busy in [true, false] {
        let mut world = established(1);
        let rebind = |world: &mut World| {
            world.client_address = new;
            world.client.rebind(world.now, |_| Some(true));
        };
        if is_busy {
            let longest = stream(&mut world, |world, number| {
                if number == 30 {
                    rebind(world);
                }
            });
            println!("longest delay to the server {:?}, to the client {:?}", longest[0], longest[1]);
            assert!(longest.iter().all(|longest| *longest <= ONE_WAY * 4), "{longest:?}");
        } else {
            rebind(&mut world);
        }
        let begin = world.now;
        assert!(world.run_until(ONE_WAY * 4, |world| moved(world) == [new]).0);
        println!("followed {:?} after the last message", world.now - begin);
        // From here on nothing of the server goes astray.
        let before = world.client_received.len();
        world.served[0].association.send(world.now, Message::new("to the new address")).unwrap();
        world.run_for(ONE_WAY + Duration::from_millis(1));
        assert_eq!(world.client_received.len(), before + 1);
    }
}

#[test]
fn a_new_address_has_fresh_path_state_and_a_new_port_keeps_it() {
    for (new, is_fresh) in [("198.51.100.7:4242", true), ("192.0.2.1:4242", false)] {
        let mut world = established(7);
        let srtt = |world: &World| world.served[0].association.association().unwrap().stats().path.srtt;
        // The round trip of 100 ms counts as 140 for a path that has queued.
        world.links = [0, 1].map(|side| festina_netsim::Link::new(link_of(70), side, "slow"));
        stream(&mut world, |_, _| {});
        world.served[0].received.clear();
        world.client_received.clear();
        let before = srtt(&world).unwrap();
        assert!(before > Duration::from_millis(130), "{before:?}");
        world.links = [0, 1].map(|side| festina_netsim::Link::new(link_of(20), side, "quick"));
        world.client_address = new.parse().unwrap();
        world.send(b"from elsewhere");
        let is_moved = |world: &World| world.served[0].association.remote() == world.client_address;
        assert!(world.run_until(Duration::from_secs(1), is_moved).0);
        let after = srtt(&world).unwrap();
        assert_eq!(after < Duration::from_millis(50), is_fresh, "{new}: {before:?}, then {after:?}");
    }
}

fn link_of(milliseconds: u64) -> festina_netsim::LinkConfig {
    festina_netsim::LinkConfig { delay: Duration::from_millis(milliseconds), ..Default::default() }
}

#[test]
fn the_round_trip_of_a_move_is_that_of_the_challenge_that_was_answered() {
    let mut world = established(3);
    world.links = [0, 1].map(|side| festina_netsim::Link::new(link_of(150), side, "far"));
    world.client_address = "198.51.100.7:4242".parse().unwrap();
    world.send(b"from elsewhere");
    // A second challenge leaves before the first one is answered.
    assert!(world.run_until(Duration::from_secs(3), |world| !moved(world).is_empty()).0);
    let srtt = world.served[0].association.association().unwrap().stats().path.srtt.unwrap();
    assert!(srtt >= Duration::from_millis(300), "{srtt:?}");
}

#[test]
fn a_lost_challenge_or_answer_is_repeated() {
    for lost in 0..2 {
        let mut world = established(11);
        world.client_address = "198.51.100.7:4242".parse().unwrap();
        world.send(b"from elsewhere");
        let begin = world.now;
        // The challenge takes one way there, and the answer another one.
        world.run_for(if lost == 0 { Duration::from_millis(60) } else { Duration::from_millis(110) });
        world.links = [0, 1].map(|side| festina_netsim::Link::new(link_of(50), side, "empty"));
        assert_eq!(moved(&world), []);
        let (is_moved, _) = world.run_until(Duration::from_secs(2), |world| !moved(world).is_empty());
        assert!(is_moved && world.now - begin < Duration::from_millis(500), "{lost}: {:?}", world.now - begin);
    }
}

#[test]
fn a_thousand_packets_that_an_attacker_sends_on_or_repeats_from_elsewhere_move_nothing() {
    let mut world = established(5);
    let mut spoofed = 0_u16;
    let mut received = std::collections::BTreeMap::<SocketAddr, usize>::new();
    let elsewhere = |number: u16| SocketAddr::from(([198, 51, 100, (number % 200) as u8], 1_000 + number));
    let (mut seen, mut seen_back) = (world.sent[0].len(), world.sent[1].len());
    let longest = stream(&mut world, |world, number| {
        // Copies of all packets that the client has just sent overtake them; and old packets come again, and new ones with a changed bit.
        world.drain();
        let new = world.sent[0][seen..].to_vec();
        for datagram in &new {
            *received.entry(elsewhere(spoofed)).or_default() += datagram.len();
            world.deliver_from(elsewhere(spoofed), 1, datagram);
            spoofed += 1;
        }
        // The same in the server's name.
        let back = world.sent[1][seen_back..].to_vec();
        for datagram in &back {
            *received.entry(elsewhere(spoofed)).or_default() += datagram.len();
            world.deliver_from(elsewhere(spoofed), 0, datagram);
            spoofed += 1;
        }
        (seen, seen_back) = (world.sent[0].len(), world.sent[1].len());
        for at in 0..12 {
            let mut old = world.sent[0][(number as usize * 7 + at) % world.sent[0].len()].clone();
            // The handshake packet in front of a changed one would be authentic.
            if at % 2 == 0 && old[0] < 0x80 {
                let last = old.len() - 1;
                old[last] ^= 1;
            } else {
                *received.entry(elsewhere(spoofed)).or_default() += old.len();
            }
            world.deliver_from(elsewhere(spoofed), 1, &old);
            spoofed += 1;
        }
    });
    assert!(spoofed >= 1_000, "{spoofed} packets");
    let challenged: Vec<_> =
        world.seen.sent_to.iter().filter(|(to, _)| **to != address(0) && **to != address(1)).collect();
    assert!(challenged.len() > 50, "{}", challenged.len());
    for (to, sent_bytes) in challenged {
        assert!(*sent_bytes <= 3 * received[to], "{sent_bytes} bytes to {to} for {}", received[to]);
    }
    assert_eq!((world.served[0].association.remote(), moved(&world)), (address(0), vec![]));
    assert_eq!(world.client.remote(), address(1));
    assert_eq!(world.served[0].association.association().unwrap().stats().sent.chunks_lost, 0);
    assert!(longest.iter().all(|longest| *longest <= ONE_WAY + Duration::from_millis(1)), "{longest:?}");
}
