//! Identities of the peers: certificates, pinned keys, raw public keys, client certificates, ALPN.

use std::sync::Arc;

use festina_secure::HandshakeError;
use festina_secure::pinned::{Pinned, fingerprint};
use festina_units::Duration;
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::handshake::link;
use crate::world::{NAME, Setup, World, certificate, provider, tls, tls_settings};

const MINUTE: Duration = Duration::from_secs(60);
const TLS13: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// A server with a chain of certificates that is longer than three times a hello.
pub(crate) fn long_chain() -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let (own, key) = certificate(NAME);
    let mut roots = RootCertStore::empty();
    roots.add(own.clone()).unwrap();
    let mut chain = vec![own];
    chain.extend((0..5).map(|number| certificate(&format!("padding-{number}.test")).0));
    let client = ClientConfig::builder_with_provider(provider()).with_protocol_versions(TLS13).unwrap();
    let server = ServerConfig::builder_with_provider(provider()).with_protocol_versions(TLS13).unwrap();
    let client = client.with_root_certificates(roots).with_no_client_auth();
    (Arc::new(client), Arc::new(server.with_no_client_auth().with_single_cert(chain, key).unwrap()))
}

/// Delivers a message, or returns the reason for failure.
fn outcome(tls: &(Arc<ClientConfig>, Arc<ServerConfig>)) -> (World, Result<u64, HandshakeError>) {
    let mut world = World::new(Setup::new(tls, link(&[]), 1));
    world.send(b"hello");
    let (_, milliseconds) = world.run_until(MINUTE, |world| world.messages() == 1 || world.client.failure().is_some());
    let result = world.client.failure().cloned().map_or(Ok(milliseconds), Err);
    assert_eq!(result.is_ok(), world.messages() == 1);
    (world, result)
}

#[test]
fn a_server_with_another_name_or_another_key_is_refused_and_the_server_is_told() {
    let (client, _) = tls();
    let (_, stranger) = tls();
    let (mut world, result) = outcome(&(client, stranger));
    assert!(matches!(result, Err(HandshakeError::Tls { .. })), "{result:?}");
    world.run_for(Duration::from_secs(1));
    assert!(matches!(world.served[0].association.failure(), Some(HandshakeError::Alert(_))), "{:?}", world.served[0]);
}

#[test]
fn no_common_protocol_of_alpn_ends_with_an_alert() {
    let (mut client, server) = tls_settings();
    client.alpn_protocols = vec![b"another".to_vec()];
    let (_, result) = outcome(&(Arc::new(client), Arc::new(server)));
    assert_eq!(result, Err(HandshakeError::Alert(120)));
}

fn pinned(
    server_pin: &CertificateDer<'_>,
    server: (CertificateDer<'static>, PrivateKeyDer<'static>),
    client_pin: &CertificateDer<'_>,
    client: (CertificateDer<'static>, PrivateKeyDer<'static>),
) -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let provider = provider();
    let pin = |certificate: &CertificateDer<'_>| fingerprint(&provider, certificate).unwrap();
    let servers = Arc::new(Pinned::new(Arc::clone(&provider), vec![pin(server_pin)]));
    let clients = Arc::new(Pinned::new(Arc::clone(&provider), vec![pin(client_pin)]));
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(TLS13).unwrap();
    let builder = builder.dangerous().with_custom_certificate_verifier(servers);
    let client = builder.with_client_auth_cert(vec![client.0], client.1).unwrap();
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(TLS13).unwrap();
    let server = builder.with_client_cert_verifier(clients).with_single_cert(vec![server.0], server.1).unwrap();
    (Arc::new(client), Arc::new(server))
}

fn copy(
    (certificate, key): &(CertificateDer<'static>, PrivateKeyDer<'static>),
) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    (certificate.clone(), key.clone_key())
}

#[test]
fn pinned_self_signed_certificates_authenticate_both_sides_and_no_other_key_does() {
    let [server, client, stranger] = ["server", "client", "stranger"].map(certificate);
    let (world, result) = outcome(&pinned(&server.0, copy(&server), &client.0, copy(&client)));
    assert_eq!(result, Ok(150));
    let seen = world.established().unwrap().association.peer_identity().unwrap();
    assert_eq!(seen, std::slice::from_ref(&client.0));
    let (_, result) = outcome(&pinned(&stranger.0, copy(&server), &client.0, copy(&client)));
    assert!(matches!(result, Err(HandshakeError::Tls { .. })), "{result:?}");
    let (_, result) = outcome(&pinned(&server.0, copy(&server), &client.0, copy(&stranger)));
    assert!(matches!(result, Err(HandshakeError::Alert(_))), "the server refuses another client: {result:?}");
}

#[test]
fn a_client_whose_certificates_fill_several_datagrams_is_authenticated() {
    let (server, server_key) = certificate(NAME);
    let chain: Vec<_> = (0..6).map(|number| certificate(&format!("client-{number}.test"))).collect();
    let mut roots = RootCertStore::empty();
    roots.add(server.clone()).unwrap();
    let provider = provider();
    let pin = fingerprint(&provider, &chain[0].0).unwrap();
    let clients = Arc::new(Pinned::new(Arc::clone(&provider), vec![pin]));
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(TLS13).unwrap();
    let certificates = chain.iter().map(|(certificate, _)| certificate.clone()).collect();
    let client = builder.with_root_certificates(roots).with_client_auth_cert(certificates, chain[0].1.clone_key());
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(TLS13).unwrap();
    let server = builder.with_client_cert_verifier(clients).with_single_cert(vec![server], server_key).unwrap();
    let tls = (Arc::new(client.unwrap()), Arc::new(server));
    assert_eq!(outcome(&tls).1, Ok(150));
    for lost in [1, 2, 3] {
        let mut world = World::new(Setup::new(&tls, link(&[lost]), 1));
        world.send(b"hello");
        let (delivered, milliseconds) = world.run_until(MINUTE, |world| world.messages() == 1);
        assert!(delivered && milliseconds <= 500, "datagram {lost} lost: {milliseconds} ms");
    }
}

#[test]
fn raw_public_keys_take_the_place_of_certificates() {
    let provider = provider();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let signing = provider.key_provider.load_private_key(key.serialize_der().try_into().unwrap()).unwrap();
    let public = signing.public_key().unwrap().as_ref().to_vec();
    let raw = Arc::new(CertifiedKey::new(vec![CertificateDer::from(public.clone())], signing));
    let pin = fingerprint(&provider, &CertificateDer::from(public.clone())).unwrap();
    let servers = Pinned::new(Arc::clone(&provider), vec![pin]).with_raw_public_keys();
    let clients = Pinned::new(Arc::clone(&provider), vec![pin]).with_raw_public_keys();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(TLS13).unwrap();
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(servers));
    let client = builder.with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&raw))));
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(TLS13).unwrap();
    let builder = builder.with_client_cert_verifier(Arc::new(clients));
    let server = builder.with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(raw)));
    let (world, result) = outcome(&(Arc::new(client), Arc::new(server)));
    assert_eq!(result, Ok(150));
    assert_eq!(world.client.peer_identity().unwrap()[0].as_ref(), &public[..]);
}
