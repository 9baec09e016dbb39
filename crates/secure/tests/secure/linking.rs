//! What an observer of several networks can link when a side moves.

use std::net::SocketAddr;

use festina_secure::wire::{ConnectionId, destination_id};
use festina_secure::{DatagramDropped, OpenError};
use festina_units::Duration;

use crate::moving::{ONE_WAY, established, moved, stream};
use crate::world::{World, address};

fn elsewhere(number: u16) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, (number % 200) as u8], 1_000 + number))
}

/// The client sends from another address from now on, and knows it.
fn rebind(world: &mut World, number: u16) {
    world.client_address = elsewhere(number);
    world.client.rebind(world.now, |_| Some(true));
}

/// Addresses of the client at which an observer sees the same connection ID.
fn linked(world: &World) -> Vec<(SocketAddr, SocketAddr)> {
    let pairs = world.seen.ids_at.iter().flat_map(|one| world.seen.ids_at.iter().map(move |other| (one, other)));
    let pairs = pairs.filter(|((one, ids), (other, others))| one < other && !ids.is_disjoint(others));
    pairs.map(|((one, _), (other, _))| (*one, *other)).collect()
}

#[test]
fn no_connection_id_is_seen_at_two_addresses_of_a_client_that_says_it_moves() {
    for seed in 0..20 {
        let mut world = established(seed);
        let longest = stream(&mut world, |world, number| {
            if number % 15 == 14 {
                world.run_for(Duration::from_millis(seed));
                rebind(world, u16::try_from(number).unwrap());
            }
        });
        assert_eq!((linked(&world), world.seen.ids_at.len()), (vec![], 7), "seed {seed}");
        assert_eq!(moved(&world).last(), Some(&world.client_address));
        let limit = ONE_WAY * 4 + Duration::from_millis(seed);
        assert!(longest.iter().all(|longest| *longest <= limit), "seed {seed}: {longest:?}");
    }
}

#[test]
fn a_client_that_only_its_nat_moves_keeps_its_ids() {
    let mut world = established(1);
    world.client_address = elsewhere(1);
    world.send(b"from elsewhere");
    assert!(world.run_until(ONE_WAY * 4, |world| moved(world) == [elsewhere(1)]).0);
    assert_eq!(linked(&world), [(address(0), elsewhere(1))]);
}

/// The connection ID of the latest datagram of a side.
fn latest_id(world: &World, side: usize) -> ConnectionId {
    destination_id(world.sent[side].last().unwrap()).unwrap()
}

#[test]
fn copies_with_a_former_id_count_as_such_for_a_while_and_as_unknown_after_that() {
    let mut world = established(3);
    let old = world.sent[0].last().unwrap().clone();
    let (server, late) = (&mut world.served[0].association, destination_id(&old).unwrap());
    assert!(server.takes(late, address(0)) && server.moved_id().is_none());
    rebind(&mut world, 1);
    assert!(world.run_until(ONE_WAY * 4, |world| moved(world) == [elsewhere(1)]).0);
    let sent = world.sent[1].len();
    for (wait, expected) in [
        (Duration::ZERO, DatagramDropped::Open(OpenError::Duplicate)),
        (Duration::from_secs(60), DatagramDropped::Unexpected),
    ] {
        world.run_for(wait);
        world.dropped[1].clear();
        for from in [address(0), elsewhere(9)] {
            world.deliver_from(from, 1, &old);
        }
        assert_eq!(world.dropped[1], [expected.clone(), expected]);
    }
    assert_eq!((moved(&world), world.sent[1].len()), (vec![elsewhere(1)], sent), "they make no candidate");
}

#[test]
fn a_packet_that_is_not_authentic_uses_up_no_spare() {
    let mut world = established(3);
    let mut forged = world.sent[0].last().unwrap().clone();
    rebind(&mut world, 1);
    world.drain();
    let spare = latest_id(&world, 0);
    forged[1..9].copy_from_slice(&spare.0);
    for from in [address(0), elsewhere(9)] {
        world.deliver_from(from, 1, &forged);
    }
    assert_eq!(
        world.dropped[1][world.dropped[1].len() - 2..],
        [const { DatagramDropped::Open(OpenError::NotAuthentic) }; 2]
    );
    assert_eq!(world.served[0].association.moved_id(), None);
    assert!(world.run_until(ONE_WAY * 4, |world| moved(world) == [elsewhere(1)]).0);
    assert_eq!(world.served[0].association.moved_id(), Some(spare));
}

#[test]
fn a_side_that_changes_its_ids_without_a_move_gets_an_answer_to_its_spare() {
    for mover in [0, 1] {
        let mut world = established(3);
        let before = [0, 1].map(|side| latest_id(&world, side));
        for _ in 0..3 {
            match mover {
                0 => world.client.rebind(world.now, |_| Some(false)),
                _ => world.served[0].association.rebind(world.now, |_| Some(false)),
            }
            world.run_for(Duration::from_secs(2));
        }
        let ids = [world.client.moved_id(), world.served[0].association.moved_id()];
        world.send(b"there");
        world.served[0].association.send(world.now, festina_sctp::Message::new("back")).unwrap();
        world.run_for(Duration::from_secs(1));
        assert_eq!([1, 0].map(|side| Some(latest_id(&world, side))), ids, "each side is sent to its latest ID");
        assert!(before.iter().all(|id| !ids.contains(&Some(*id))));
        assert_eq!((world.messages(), world.client_received.len(), moved(&world)), (1, 1, vec![]));
    }
}

#[test]
fn a_thousand_moves_in_a_row_leave_three_ids_to_each_side() {
    let mut world = established(3);
    for number in 0..1_000 {
        rebind(&mut world, number);
        assert!(world.run_until(ONE_WAY * 6, |world| world.served[0].association.remote() == elsewhere(number)).0);
    }
    assert_eq!(linked(&world), []);
    let all = world.seen.ids_at.values().flatten();
    let accepted = |id: &&ConnectionId| {
        [&world.client, &world.served[0].association].iter().any(|side| side.takes(**id, address(9)))
    };
    let (count, accepted) = (all.clone().count(), all.filter(accepted).count());
    assert!(count > 2_000 && accepted <= 6, "{accepted} of {count}");
    world.send(b"still here");
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.messages(), 1);
}

#[test]
fn a_second_move_before_the_first_is_answered_keeps_the_id_and_arrives() {
    for pause in [0, 20, 60, 110, 160] {
        let mut world = established(3);
        rebind(&mut world, 1);
        world.send(b"one");
        world.run_for(Duration::from_millis(pause));
        rebind(&mut world, 2);
        world.send(b"two");
        assert!(world.run_until(Duration::from_secs(2), |world| world.messages() == 2).0, "after {pause} ms");
        world.served[0].association.send(world.now, festina_sctp::Message::new("back")).unwrap();
        world.run_for(Duration::from_secs(2));
        assert_eq!((world.client_received.len(), moved(&world).last()), (1, Some(&elsewhere(2))), "after {pause} ms");
        assert!(linked(&world).iter().all(|pair| *pair == (elsewhere(1), elsewhere(2))), "after {pause} ms");
        // The next move has a spare again.
        rebind(&mut world, 3);
        assert!(world.run_until(Duration::from_secs(2), |world| moved(world).last() == Some(&elsewhere(3))).0);
        assert!(linked(&world).iter().all(|(_, other)| *other == elsewhere(2)), "after {pause} ms");
    }
}
