//! Handshakes through a hostile middlebox: each fault at each of the first datagrams, and each pair of faults.

use std::ops::Range;

use festina_units::{Duration, Instant};

use crate::early::{resume, warm};
use crate::handshake::link;
use crate::seeds;
use crate::world::{Datagram, Setup, World, tls_early, tls_of_constant_length};

/// The first datagrams of each side that meet a fault.
const PLACES: usize = 12;
/// Two lost datagrams in a row cost the pauses of 1 and 2 s and their spread; the rest is round trips.
const PATIENCE: Duration = Duration::from_secs(8);

/// Something that a middlebox does to one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Dropped,
    Doubled,
    /// It comes 700 ms later, behind those that follow it.
    Late,
    /// Half of it comes.
    Cut,
    /// One bit is flipped.
    Corrupted,
    /// It, and all after it, come from another port of the client's NAT.
    Rebound,
}

const FAULTS: [Fault; 5] = [Fault::Dropped, Fault::Doubled, Fault::Late, Fault::Cut, Fault::Corrupted];

/// A side, the number of the datagram among those that it sends, and the fault.
pub(crate) type Place = (usize, usize, Fault);

/// The faults, and the datagrams that it holds with the times at which it sends them on.
#[derive(Debug, Default)]
pub(crate) struct Middlebox {
    pub(crate) faults: Vec<Place>,
    pub(crate) late: Vec<(Instant, usize, Datagram)>,
}

/// Each fault alone, and each pair at two datagrams.
fn cases() -> Vec<Vec<Place>> {
    let places = (0..2).flat_map(|side| (0..PLACES).map(move |at| (side, at)));
    let single: Vec<Place> = places.flat_map(|(side, at)| FAULTS.map(|fault| (side, at, fault))).collect();
    let pairs = single.iter().enumerate().flat_map(|(number, first)| {
        let others = single[number..].iter().filter(|second| (second.0, second.1) != (first.0, first.1));
        others.map(|second| vec![*first, *second])
    });
    single.iter().map(|place| vec![*place]).chain(pairs).collect()
}

/// Messages of both sides arrive once in time, and no side reports an end.
fn check(mut world: World, early: usize, case: &[Place]) {
    world.middlebox.faults = case.to_vec();
    for number in 0..3 {
        world.send(&[number; 300]);
    }
    let (established, _) = world.run_until(PATIENCE, |world| world.established().is_some());
    assert!(established, "{case:?}: no handshake: {:#?}", world.client);
    let server = world.served.iter_mut().find(|served| served.association.is_established()).unwrap();
    server.association.send(world.now, festina_sctp::Message::new("answer")).unwrap();
    let arrived = |world: &World| {
        let early: usize = world.served.iter().map(|served| served.early.len()).sum();
        [world.messages() + early, world.client_received.len()]
    };
    let all = [3 + early, 1];
    let (complete, _) = world.run_until(PATIENCE, |world| arrived(world) == all);
    assert!(complete, "{case:?}: {:?} of {all:?} messages", arrived(&world));
    world.run_for(PATIENCE);
    assert_eq!(arrived(&world), all, "{case:?}: a message came twice");
    assert!(world.client.is_established(), "{case:?}");
}

/// The full extent is each case; the short one is each of the first contact's single faults and every 29th pair.
fn of(cases: usize) -> impl Fn(&usize) -> bool {
    let Range { start, end } = seeds::extent(0..0, 0..cases as u64);
    move |&number| {
        let is_sample = number < 2 * PLACES * FAULTS.len() || number % 29 == 0;
        if start == end { is_sample } else { (start..end).contains(&(number as u64)) }
    }
}

#[test]
fn a_handshake_survives_each_fault_and_each_pair_of_faults_of_a_middlebox() {
    let (tls, cases) = (tls_of_constant_length(), cases());
    assert_eq!(cases.len(), 120 + 6_900);
    for number in (0..cases.len()).filter(of(cases.len())) {
        check(World::new(Setup::new(&tls, link(&[]), number as u64)), 0, &cases[number]);
    }
}

#[test]
fn a_resumed_handshake_survives_each_fault_and_each_pair_of_faults_of_a_middlebox() {
    let (tls, cases) = (tls_early(), cases());
    for number in (0..cases.len()).filter(of(cases.len())) {
        warm(&tls, 1);
        check(resume(&tls, [link(&[]), link(&[])], number as u64), 1, &cases[number]);
    }
}
