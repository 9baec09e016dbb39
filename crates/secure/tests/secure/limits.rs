//! Limits that a side reaches or announces in the handshake: retries, lengths, the size of datagrams.

use std::sync::Arc;

use festina_sctp::{Config, Context, Message};
use festina_secure::pinned::Pinned;
use festina_secure::wire::{ConnectionId, Frame};
use festina_secure::{CHAIN_BYTES_MAX, Connect, HandshakeError, SecureAssociation, TOO_LONG};
use festina_units::Duration;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};

use crate::early::warm;
use crate::forge::to_client_from;
use crate::handshake::link;
use crate::world::{
    NAME, PORTS, Setup, World, address, certificate, config, provider, random, tls, tls_early, tls_settings,
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_client_whose_port_changes_before_it_uses_its_token_follows_the_next_retry() {
    for seed in 0..30 {
        let mut world = World::new(Setup::new(&tls(), link(&[]), seed));
        world.server.other_half_open = 64;
        world.send(b"hello");
        assert!(world.run_until(MINUTE, |world| !world.sent[1].is_empty()).0);
        let (begin, retry) = (world.now, world.sent[1][0].clone());
        // The client gets the retry, and its NAT gives the answer another port.
        world.client_address.set_port(4_242);
        world.deliver(0, &retry);
        let (is_delivered, _) = world.run_until(MINUTE, |world| world.messages() == 1);
        assert!(is_delivered && world.now - begin < Duration::from_millis(400), "seed {seed}: {:?}", world.now - begin);
    }
}

/// A self-signed certificate of about 44 bytes for each of these names.
fn long(names: usize) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let names: Vec<_> = (0..names).map(|number| format!("a-rather-long-name-number-{number}.{NAME}")).collect();
    let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    (certificate.der().clone(), key.serialize_der().try_into().unwrap())
}

type Certificate = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// Sides that show these certificates, and trust any.
fn trusting(client: Certificate, server: Certificate) -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let anyone = Arc::new(Pinned::deciding(provider(), Arc::new(|_| true)));
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]).unwrap();
    let builder = builder.dangerous().with_custom_certificate_verifier(anyone.clone());
    let client = builder.with_client_auth_cert(vec![client.0], client.1).unwrap();
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]).unwrap();
    let server = builder.with_client_cert_verifier(anyone).with_single_cert(vec![server.0], server.1).unwrap();
    (Arc::new(client), Arc::new(server))
}

#[test]
fn a_chain_that_is_too_long_ends_the_handshake_at_once_on_both_sides() {
    let sides = |names| [(long(names), certificate(NAME)), (certificate(NAME), long(names))];
    for (client, server) in sides(1_000).into_iter().chain(sides(200)) {
        let mut world = World::new(Setup::new(&trusting(client, server), link(&[]), 1));
        world.send(b"hello");
        world.run_for(SECOND);
        let failure = world.client.failure().cloned();
        assert!(
            matches!(failure, Some(HandshakeError::TooLong | HandshakeError::Refused(TOO_LONG))),
            "the client: {failure:?}"
        );
        // A half-open association that has failed may be forgotten already.
        assert!(world.served.iter().all(|served| served.association.failure().is_some()), "the server waits");
    }
    let (client, server) = (long(170), long(170));
    assert!([&client, &server].iter().all(|(certificate, _)| (7_000..=CHAIN_BYTES_MAX).contains(&certificate.len())));
    let mut world = World::new(Setup::new(&trusting(client, server), link(&[]), 1));
    world.send(b"hello");
    assert!(world.run_until(MINUTE, |world| world.messages() == 1).0, "chains of almost 8 KiB");
}

#[test]
fn a_hello_that_is_too_long_is_an_error_of_the_caller_and_no_panic() {
    for names in [400_usize, 3_000] {
        let (mut client, _) = tls_settings();
        client.alpn_protocols =
            (0..names).map(|number| format!("a-protocol-with-a-long-name-{number}").into()).collect();
        let request = Connect {
            tls: &Arc::new(client),
            resumption: None,
            server_name: ServerName::try_from(NAME).unwrap(),
            remote: address(1),
            ports: PORTS,
            token: &[],
            random: random(1),
            known: None,
        };
        let context = Context::new(config(), [1; 16]).unwrap();
        let begun = SecureAssociation::connect(festina_units::Instant::from_secs(1), &context, request);
        assert_eq!(begun.err(), Some(HandshakeError::Settings), "{names} names");
    }
}

/// Settings for datagrams of at most this size.
fn small(bytes: usize) -> Config {
    let mut config = config();
    config.limits.packet_bytes_max = bytes - festina_secure::OVERHEAD_BYTES;
    config
}

#[test]
fn rfc9000_18_2_no_side_sends_longer_datagrams_than_the_peer_wants() {
    let tls = tls();
    for (client, server) in [(small(500), config()), (config(), small(500))] {
        let is_small_client = client.limits.packet_bytes_max < server.limits.packet_bytes_max;
        let setup = Setup { config: client, server_config: Some(server), ..Setup::new(&tls, link(&[]), 1) };
        let mut world = World::new(setup);
        world.send(&[7; 5_000]);
        assert!(world.run_until(MINUTE, |world| world.messages() == 1).0, "{:?}", world.client.failure());
        let now = world.now;
        world.served[0].association.send(now, Message::new(vec![8; 5_000])).unwrap();
        assert!(world.run_until(MINUTE, |world| world.client_received.len() == 1).0);
        let longest = [0, 1].map(|side| world.sent[side].iter().map(Vec::len).max().unwrap());
        assert!(longest.iter().all(|longest| *longest <= 500), "small client {is_small_client}: {longest:?}");
    }
}

#[test]
fn an_empty_fragment_or_one_in_the_middle_does_not_settle_the_servers_connection_id() {
    for (offset, bytes) in [(0, &[][..]), (1_000, &[1, 2, 3])] {
        let mut world = World::new(Setup::new(&tls(), link(&[]), 1));
        world.send(b"hello");
        world.drain();
        let forged = to_client_from(&world, ConnectionId([9; 8]), 1, &Frame::Fragment { offset, bytes });
        world.deliver(0, &forged);
        let (is_delivered, milliseconds) = world.run_until(MINUTE, |world| world.messages() == 1);
        assert!(is_delivered && milliseconds <= 150, "offset {offset}: {:?}", world.client.failure());
    }
}

#[test]
fn early_messages_have_the_same_limits_as_others() {
    let limited = |streams, message_bytes_max| {
        let mut config = config();
        config.limits.inbound_streams = streams;
        config.limits.message_bytes_max = message_bytes_max;
        config
    };
    for (server, early) in [(limited(3, 100), 0), (limited(100, 4), 0), (limited(4, 5), 2)] {
        let tls = tls_early();
        warm(&tls, 1);
        let mut world = World::new(Setup { server_config: Some(server), ..Setup::new(&tls, link(&[]), 2) });
        world.client.send_early(Message::new("one")).unwrap();
        world.client.send_early(Message::new("early").on_stream(3)).unwrap();
        world.run_for(SECOND);
        assert!(world.client.is_established());
        assert_eq!(world.served[0].early.len(), early);
    }
}
