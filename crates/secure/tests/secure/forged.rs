//! Forged packets of the handshake: those that make it fail if they arrive before the genuine ones, and those without effect.

use festina_sctp::wire::{ChunkOut, CommonHeader, PacketBuilder};
use festina_secure::wire::{ConnectionId, Frame, Header, LongHeader, read_header};
use festina_secure::{Foreign, HalfOpenLimits, HandshakeError};
use festina_units::Duration;
use rustls::Side;

use crate::forge::{
    first_packet, hello, initial, long_header, retry_token, to_client, to_client_from, to_server, versions,
};
use crate::handshake::link;
use crate::world::{PORTS, Setup, World, address, tls};

const MINUTE: Duration = Duration::from_secs(60);
const ELSEWHERE: ([u8; 4], u16) = ([198, 51, 100, 9], 9);

/// A client that has sent its hello, which is on its way.
fn greeting(seed: u64) -> World {
    let mut world = World::new(Setup::new(&tls(), link(&[]), seed));
    world.send(b"secret");
    world.drain();
    world
}

/// A client that has read the ServerHello, but not the rest of the answer.
fn answered(seed: u64) -> World {
    let mut world = World::new(Setup::new(&crate::identity::long_chain(), link(&[]), seed));
    world.send(b"secret");
    // A retry, then the answer.
    world.run_until(MINUTE, |world| world.sent[1].len() > 2);
    let first = world.sent[1][1].clone();
    world.deliver(0, &first);
    assert!(!world.client.is_established());
    world
}

/// The handshake fails, and the client has sent nothing but hellos and the reason.
fn fails(world: &mut World) -> String {
    assert!(world.run_until(MINUTE * 60, |world| world.client.failure().is_some()).0);
    world.run_for(MINUTE);
    assert_eq!(world.messages(), 0);
    assert!(world.served.iter().all(|served| !served.association.is_established()));
    assert!(world.sent[0].iter().all(|datagram| matches!(read_header(datagram), Ok(Header::Long(_)))));
    world.client.failure().unwrap().to_string()
}

/// The handshake succeeds.
fn succeeds(world: &mut World) {
    assert!(world.run_until(MINUTE, |world| world.messages() == 1).0, "{:?}", world.client.failure());
}

/// A forged packet with the keys of Initial packets, but with a wrong connection ID of the client (`side` 0) or of the server.
fn to_another(world: &World, side: usize, salt: u8, frame: &Frame<'_>) -> Vec<u8> {
    let LongHeader { destination, source, .. } = hello(world);
    let (sender, (mut to, from)) =
        if side == 0 { (Side::Server, (source, destination)) } else { (Side::Client, (destination, source)) };
    to.0[0] ^= 1;
    initial(world, sender, (to, from), salt, frame)
}

/// The answer of a server with a key of its own to the client's hello.
fn answer_of_a_stranger(world: &World) -> Vec<u8> {
    let (client, _) = tls();
    let (_, stranger) = tls();
    let mut stranger = World::new(Setup::new(&(client, stranger), link(&[]), 99));
    stranger.deliver(1, &world.sent[0][0]);
    stranger.sent[1][0].clone()
}

#[test]
fn a_forged_server_hello_makes_the_handshake_fail_if_it_is_the_first() {
    let garbage = Frame::Fragment { offset: 0, bytes: &[2, 0, 0, 4, 9, 9, 9, 9] };
    let mut world = greeting(1);
    let forged = to_client(&world, 0, &garbage);
    world.deliver(0, &forged);
    assert!(matches!(world.client.failure(), Some(HandshakeError::Tls { .. })));
    assert!(fails(&mut world).starts_with("TLS: "), "{:?}", world.client.failure());
    // A sound one of another server, with which the genuine answer has no keys in common.
    let mut world = greeting(1);
    let forged = answer_of_a_stranger(&world);
    world.deliver(0, first_packet(&forged));
    assert_eq!(world.client.failure(), None);
    assert_eq!(fails(&mut world), "the peer did not complete the handshake");
    // The whole answer of that server shows that its certificate is not trusted.
    let mut world = greeting(1);
    let forged = answer_of_a_stranger(&world);
    world.deliver(0, &forged);
    assert!(fails(&mut world).starts_with("TLS: invalid peer certificate"), "{:?}", world.client.failure());
}

#[test]
fn a_forged_server_hello_has_no_effect_after_the_genuine_one_or_with_other_connection_ids() {
    let garbage = Frame::Fragment { offset: 0, bytes: &[2, 0, 0, 4, 9, 9, 9, 9] };
    let mut world = greeting(2);
    let forged = to_another(&world, 0, 0, &garbage);
    world.deliver(0, &forged);
    assert_eq!(world.dropped[0].len(), 1);
    succeeds(&mut world);
    let mut world = answered(2);
    // With the connection ID of the genuine server, and with another.
    let genuine = long_header(&world.sent[1][1]).source;
    for (salt, source) in [(0, genuine), (1, ConnectionId([7; 8]))] {
        let forged = to_client_from(&world, source, salt, &garbage);
        world.deliver(0, &forged);
    }
    let forged = answer_of_a_stranger(&world);
    world.deliver(0, &forged);
    succeeds(&mut world);
}

#[test]
fn a_forged_version_negotiation_makes_the_handshake_fail_if_it_is_the_first() {
    for (list, named) in [
        (&[[0, 0, 0, 1]][..], "0x00000001 (QUIC)"),
        (&[*b"SCTP", [9, 9, 9, 9]], "0x53435450 (SCTP without encryption), 0x09090909"),
    ] {
        let mut world = greeting(3);
        let forged = versions(&world, list);
        world.deliver(0, &forged);
        let sent = world.sent[0].len();
        assert_eq!(fails(&mut world), format!("the peer does not speak this version of the protocol but {named}"));
        assert_eq!(world.sent[0].len(), sent, "nothing is tried in another version");
    }
}

#[test]
fn a_forged_version_negotiation_has_no_effect_after_an_answer_or_with_other_connection_ids() {
    let mut world = greeting(4);
    let mut to_another = versions(&world, &[[0, 0, 0, 1]]);
    to_another[6] ^= 1;
    for forged in [to_another, versions(&world, &[*b"FST\x01", [0, 0, 0, 1]])] {
        world.deliver(0, &forged);
    }
    succeeds(&mut world);
    let mut world = answered(4);
    let forged = versions(&world, &[[0, 0, 0, 1]]);
    world.deliver(0, &forged);
    succeeds(&mut world);
    world.deliver(0, &forged);
    assert_eq!(world.client.failure(), None);
    // A retry is an answer too.
    let mut world = greeting(4);
    world.server.other_half_open = HalfOpenLimits::default().unproved_max;
    world.run_until(MINUTE, |world| world.sent[0].len() == 2);
    let forged = versions(&world, &[[0, 0, 0, 1]]);
    world.deliver(0, &forged);
    succeeds(&mut world);
}

#[test]
fn a_forged_close_makes_the_handshake_fail_until_the_client_has_read_a_server_hello() {
    for (code, expected) in [
        (700, "the peer refused the association (code 700)"),
        (40, "the peer sent the TLS alert 40"),
        (u16::MAX, "the peer refused the association (code 65535)"),
    ] {
        let mut world = greeting(5);
        let forged = to_client(&world, 0, &Frame::Close { code });
        let misled = to_another(&world, 0, 0, &Frame::Close { code });
        world.deliver(0, &misled);
        assert_eq!(world.client.failure(), None, "other connection IDs");
        world.deliver(0, &forged);
        assert_eq!(fails(&mut world), expected);
        let mut world = answered(5);
        world.deliver(0, &forged);
        let genuine = long_header(&world.sent[1][1]).source;
        let forged = to_client_from(&world, genuine, 0, &Frame::Close { code });
        world.deliver(0, &forged);
        succeeds(&mut world);
    }
}

#[test]
fn a_server_takes_no_close_with_public_keys() {
    let mut world = greeting(6);
    let early = to_server(&world, 0, &Frame::Close { code: 700 });
    world.deliver(1, &early);
    world.run_until(MINUTE, |world| !world.sent[1].is_empty());
    let late = to_server(&world, 1, &Frame::Close { code: 700 });
    world.deliver(1, &late);
    succeeds(&mut world);
}

#[test]
fn a_client_survives_one_forged_retry_and_two_keep_it_from_proving_its_address() {
    let loaded = |seed| {
        let mut world = greeting(seed);
        world.server.other_half_open = HalfOpenLimits::default().unproved_max;
        world
    };
    let retries = |world: &mut World, count: u8| {
        for number in 0..count {
            let forged = to_client(world, number, &Frame::Retry(&[number; 17]));
            world.deliver(0, &forged);
        }
    };
    let mut world = loaded(7);
    retries(&mut world, 1);
    succeeds(&mut world);
    // A client follows two retries. The genuine one is the third.
    let mut world = loaded(7);
    retries(&mut world, 2);
    assert_eq!(world.sent[0].len(), 3);
    retries(&mut world, 200);
    assert_eq!(world.sent[0].len(), 3, "further retries cost no hellos");
    assert_eq!(fails(&mut world), "the peer did not complete the handshake");
    // A server that needs no proof does not mind a wrong one.
    let mut world = greeting(7);
    retries(&mut world, 2);
    succeeds(&mut world);
    // Without the connection IDs a retry has no effect. After an answer it costs a hello.
    let mut world = loaded(7);
    for number in 0..2 {
        let forged = to_another(&world, 0, number, &Frame::Retry(&[number; 17]));
        world.deliver(0, &forged);
    }
    succeeds(&mut world);
    let mut world = answered(7);
    let (sent, genuine) = (world.sent[0].len(), long_header(&world.sent[1][1]).source);
    for number in 0..200 {
        let forged = to_client_from(&world, genuine, number, &Frame::Retry(&[number; 17]));
        world.deliver(0, &forged);
    }
    assert_eq!(world.sent[0].len(), sent + 1, "one of two retries was genuine");
    succeeds(&mut world);
}

#[test]
fn a_forged_fragment_of_the_hello_makes_the_handshake_fail_if_it_arrives_first_from_the_clients_address() {
    // The first one is an unknown message. The second one changes bytes in the middle of the hello.
    for (offset, expected) in [(0, "the peer sent the TLS alert "), (100, "")] {
        let mut world = greeting(8);
        let forged = to_server(&world, 0, &Frame::Fragment { offset, bytes: &[99; 16] });
        world.deliver(1, &forged);
        let failure = fails(&mut world);
        assert!(failure.starts_with(expected), "{offset}: {failure}");
        println!("{offset}: {failure}");
    }
}

#[test]
fn a_forged_fragment_of_the_hello_has_no_effect_from_elsewhere_or_after_the_hello() {
    for offset in [0, 100, 8_000] {
        let mut world = greeting(9);
        let forged = to_server(&world, 0, &Frame::Fragment { offset, bytes: &[99; 16] });
        world.deliver_from(ELSEWHERE.into(), 1, &forged);
        let misled = to_another(&world, 1, 0, &Frame::Fragment { offset, bytes: &[99; 16] });
        world.deliver(1, &misled);
        succeeds(&mut world);
        let mut world = greeting(9);
        world.run_until(MINUTE, |world| !world.sent[1].is_empty());
        let forged = to_server(&world, 0, &Frame::Fragment { offset, bytes: &[99; 16] });
        world.deliver(1, &forged);
        succeeds(&mut world);
    }
}

/// Everything that an attacker on the path may answer in order to have the client give encryption up.
#[test]
fn no_answer_makes_a_client_speak_plain_sctp_or_another_version() {
    let header = CommonHeader { source_port: PORTS.peer, destination_port: PORTS.local, verification_tag: 7 };
    let mut abort = Vec::new();
    let mut builder = PacketBuilder::new(&mut abort, header, 1_200);
    assert!(builder.chunk(&ChunkOut::CookieAck));
    builder.finish();
    let dtls = vec![22, 254, 253, 0];
    let mut world = World::new(Setup::new(&tls(), link(&(0..100).collect::<Vec<_>>()), 10));
    world.send(b"secret");
    for forged in [abort, dtls] {
        world.drain();
        world.deliver(0, &forged);
        world.run_for(Duration::from_secs(1));
        assert!(world.client.foreign().is_some_and(|foreign| foreign != Foreign::Quic));
    }
    let forged = versions(&world, &[*b"SCTP"]);
    world.deliver(0, &forged);
    fails(&mut world);
    assert!(world.sent[0].len() >= 2);
    for datagram in &world.sent[0] {
        assert!(datagram[1..].starts_with(b"FST\x01") && !datagram.windows(6).any(|part| part == b"secret"));
    }
}

#[test]
fn a_proof_of_an_address_is_of_no_use_in_another_hello() {
    let mut world = greeting(11);
    world.server.other_half_open = HalfOpenLimits::default().unproved_max;
    assert!(world.run_until(MINUTE, |world| world.sent[0].len() == 2).0);
    let (retry, with_token) = (world.sent[1][0].clone(), world.sent[0][1].clone());
    let token = retry_token(&world, &retry);
    // The same hello from another address, and another hello from the same address.
    let mut other = greeting(12);
    other.client_address = world.client_address;
    let another_hello = to_server(&other, 0, &Frame::Token(&token));
    let other_host = ([198, 51, 100, 9], world.client_address.port()).into();
    for (from, datagram) in [(other_host, &with_token), (world.client_address, &another_hello)] {
        let sent = world.sent[1].len();
        world.deliver_from(from, 1, datagram);
        assert_eq!((world.sent[1].len(), world.served.len()), (sent + 1, 0), "a retry from {from}");
        assert!(world.sent[1][sent].len() < 100);
    }
    world.deliver_from(address(0), 1, &with_token);
    assert_eq!(world.served.len(), 1);
}

/// Nothing that a side has sent is accepted by the side itself, also with the connection ID of packets to it.
#[test]
fn no_side_accepts_its_own_packets() {
    // A packet to the client, with the keys of its own packets.
    let mut world = greeting(13);
    let LongHeader { destination, source, .. } = hello(&world);
    let own = initial(&world, Side::Client, (source, destination), 0, &Frame::Close { code: 700 });
    world.deliver(0, &own);
    assert_eq!(world.client.failure(), None);
    succeeds(&mut world);
    world.run_for(Duration::from_secs(2));
    for side in 0..2 {
        let ids: [ConnectionId; 2] = [world.client.id(), world.served[0].association.id()];
        for datagram in world.sent[side].clone() {
            let mut redirected = datagram.clone();
            let at = if datagram[0] < 0x80 { 1 } else { 6 };
            redirected[at..at + 8].copy_from_slice(&ids[side].0);
            for reflected in [datagram, redirected] {
                let before = (world.sent[side].len(), world.dropped[side].len());
                world.deliver(side, &reflected);
                assert_eq!((world.sent[side].len(), world.dropped[side].len()), (before.0, before.1 + 1));
            }
        }
    }
}
