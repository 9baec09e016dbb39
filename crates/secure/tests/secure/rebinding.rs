//! A client whose NAT takes another port before the handshake is complete.

use std::sync::Arc;

use festina_sctp::{AssociationState, Message};
use festina_secure::HalfOpenLimits;
use festina_secure::pinned::Pinned;
use festina_units::Duration;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, ServerConfig};

use crate::early::{resume, warm};
use crate::handshake::link;
use crate::middlebox::Fault;
use crate::world::{NAME, Setup, World, address, certificate_with, provider, tls_early};

type Tls = (Arc<ClientConfig>, Arc<ServerConfig>);

const TLS13: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];
/// Two round trips of 100 ms for a handshake and one for each retry, another one that was lost with the old port, and a repetition after it.
const PATIENCE: Duration = Duration::from_millis(4 * 100 + 1_000);

/// Connects, and lets both sides talk, at once or afterwards. Datagram `at` of the client comes from another port, as do all after it.
fn check(mut world: World, early: usize, (at, talks_at_once): (usize, bool), scene: &str) {
    let scene = format!("{scene}, datagram {at}, {}", if talks_at_once { "with messages" } else { "without messages" });
    world.middlebox.faults.push((0, at, Fault::Rebound));
    if talks_at_once {
        world.send(&[1; 300]);
    }
    let begin = world.now;
    let is_up = |world: &World| world.core().state() == AssociationState::Established && world.established().is_some();
    let (connected, _) = world.run_until(PATIENCE, is_up);
    let failure = world.client.failure().map(ToString::to_string);
    assert!(connected, "{scene}: not connected after {:?}: {failure:?}", world.now - begin);
    if !talks_at_once {
        world.send(&[1; 300]);
    }
    let server = |world: &mut World, message: Message| {
        let server = world.served.iter_mut().find(|served| served.association.is_established()).unwrap();
        server.association.send(world.now, message).unwrap();
    };
    server(&mut world, Message::new("answer"));
    let arrived = |world: &World| {
        let early: usize = world.served.iter().map(|served| served.early.len()).sum();
        (world.messages() + early.min(1), world.client_received.len())
    };
    let (complete, _) = world.run_until(PATIENCE, |world| arrived(world) == (1 + early, 1));
    assert!(complete, "{scene}: {:?} messages", arrived(&world));
    world.run_for(Duration::from_secs(20));
    for number in 0..5 {
        world.send(&[number; 300]);
        server(&mut world, Message::new(vec![number; 300]));
        world.run_for(Duration::from_millis(60));
    }
    world.run_for(PATIENCE);
    assert_eq!(arrived(&world), (1 + early + 5, 1 + 5), "{scene}: a message is late or came twice");
    let established: Vec<_> = world.served.iter().filter(|served| served.association.is_established()).collect();
    assert_eq!((established.len(), established[0].association.remote()), (1, world.client_address), "{scene}");
}

/// Settings with this many certificates of the server and of the client. If the server `asks_again`, it has another group than the client's first choice.
fn tls_of(server: usize, client: usize, asks_again: bool) -> Tls {
    let trusts = || Arc::new(Pinned::deciding(provider(), Arc::new(|_| true)));
    let chain = |name: &str, count: usize| {
        let (own, key) = certificate_with(name, &rcgen::PKCS_ED25519);
        (std::iter::repeat_n(own, count).collect::<Vec<_>>(), key)
    };
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(TLS13).unwrap();
    let builder = builder.dangerous().with_custom_certificate_verifier(trusts());
    let client_tls = if client == 0 {
        builder.with_no_client_auth()
    } else {
        let (chain, key) = chain("client.test", client);
        builder.with_client_auth_cert(chain, key).unwrap()
    };
    let groups =
        if asks_again { vec![rustls::crypto::ring::kx_group::SECP384R1] } else { provider().kx_groups.clone() };
    let provider = Arc::new(CryptoProvider { kx_groups: groups, ..CryptoProvider::clone(&provider()) });
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(TLS13).unwrap();
    let builder = if client == 0 { builder.with_no_client_auth() } else { builder.with_client_cert_verifier(trusts()) };
    let (chain, key) = chain(NAME, server);
    (Arc::new(client_tls), Arc::new(builder.with_single_cert(chain, key).unwrap()))
}

/// A client without and with certificates; a short and a long chain of the server, which is more than an address without a proof may get; TLS that
/// asks for another hello; and whether the server demands a proof of the address anyway.
fn scenes() -> impl Iterator<Item = (usize, usize, bool, bool)> {
    let certificates = [(1, 0), (1, 6), (6, 0), (6, 6)].into_iter();
    let asking = certificates.flat_map(|(server, client)| [false, true].map(|asks_again| (server, client, asks_again)));
    asking
        .flat_map(|(server, client, asks_again)| [false, true].map(|is_loaded| (server, client, asks_again, is_loaded)))
}

/// Each of the client's datagrams until the handshake is complete, and some more; and whether it has a message to send with its last handshake bytes.
fn places() -> impl Iterator<Item = (usize, bool)> {
    (0..8).flat_map(|at| [(at, false), (at, true)])
}

#[test]
fn a_client_whose_port_changes_before_any_datagram_of_its_handshake_connects_and_talks() {
    for scene in scenes() {
        let (server, client, asks_again, is_loaded) = scene;
        for place in places() {
            // A session of the last one would be resumed.
            let tls = tls_of(server, client, asks_again);
            let mut world = World::new(Setup::new(&tls, link(&[]), 1));
            world.server.other_half_open = if is_loaded { HalfOpenLimits::default().unproved_max } else { 0 };
            check(world, 0, place, &format!("{scene:?}"));
        }
    }
}

#[test]
fn a_copy_of_the_last_handshake_packet_that_arrives_first_takes_nothing_from_the_client() {
    for talks_at_once in [false, true] {
        let tls = tls_of(1, 0, false);
        let mut world = World::new(Setup::new(&tls, link(&[]), 1));
        if talks_at_once {
            world.send(&[1; 300]);
        }
        assert!(world.run_until(PATIENCE, |world| world.sent[0].len() == 2).0);
        let (copy, elsewhere) = (world.sent[0][1].clone(), "198.51.100.9:9".parse().unwrap());
        world.deliver_from(elsewhere, 1, &copy);
        assert!(world.served[0].association.is_established());
        for _ in 0..3 {
            world.served[0].association.send(world.now, Message::new(vec![7; 1_000])).unwrap();
        }
        world.run_for(Duration::from_millis(51));
        assert_eq!(world.client_received.len(), 3, "half a round trip later");
        world.run_for(Duration::from_secs(5));
        assert!(world.seen.sent_to[&elsewhere] <= 3 * copy.len(), "{:?}", world.seen.sent_to);
        assert_eq!(world.served[0].association.remote(), address(0));
    }
}

#[test]
fn copies_of_a_hello_to_the_servers_own_id_are_answered_within_three_times_their_bytes() {
    let tls = tls_of(6, 0, false);
    let mut world = World::new(Setup::new(&tls, link(&[]), 1));
    // The beginning of the answer arrives, so that the client repeats its hello to the ID in it.
    world.middlebox.faults = (2..9).map(|at| (1, at, Fault::Dropped)).collect();
    let hellos = |world: &World| world.sent[0].len();
    assert!(world.run_until(PATIENCE, |world| hellos(world) == 3).0);
    let (copy, elsewhere) = (world.sent[0][2].clone(), "198.51.100.9:9".parse().unwrap());
    for _ in 0..40 {
        world.deliver_from(elsewhere, 1, &copy);
    }
    assert!((1..=3 * copy.len()).contains(&world.seen.sent_to[&elsewhere]), "copies of one packet count once");
    let is_up = |world: &World| world.core().state() == AssociationState::Established;
    assert!(world.run_until(Duration::from_secs(3), is_up).0, "{:?}", world.client.failure());
    assert_eq!(world.established().unwrap().association.remote(), address(0));
}

#[test]
fn a_client_with_an_early_message_whose_port_changes_connects_and_talks() {
    let tls = tls_early();
    for (place, is_loaded) in places().flat_map(|place| [(place, false), (place, true)]) {
        warm(&tls, 1);
        let mut world = resume(&tls, [link(&[]), link(&[])], 2);
        world.server.other_half_open = if is_loaded { HalfOpenLimits::default().unproved_max } else { 0 };
        check(world, 1, place, &format!("{is_loaded}"));
    }
}

#[test]
fn a_client_whose_port_changes_and_that_loses_another_datagram_connects_and_talks() {
    for (server, client, asks_again) in [(1, 0, false), (6, 6, false), (6, 6, true)] {
        for (place, side, lost) in places().flat_map(|place| (0..12).map(move |lost| (place, lost % 2, lost / 2))) {
            let tls = tls_of(server, client, asks_again);
            let mut world = World::new(Setup::new(&tls, link(&[]), 1));
            world.middlebox.faults = vec![(side, lost, Fault::Dropped)];
            check(world, 0, place, &format!("{:?}, lost {lost} of {side}", (server, client, asks_again)));
        }
    }
}
