//! What an observer of several networks can link when a side moves.

use std::net::SocketAddr;

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
    let pairs = world.ids_at.iter().flat_map(|one| world.ids_at.iter().map(move |other| (one, other)));
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
        assert_eq!((linked(&world), world.ids_at.len()), (vec![], 7), "seed {seed}");
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
