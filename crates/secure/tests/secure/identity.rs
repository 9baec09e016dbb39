//! Identities of the peers: certificates, pinned keys, raw public keys, client certificates, ALPN.

use std::sync::Arc;

use festina_secure::HandshakeError;
use festina_secure::pinned::{Pinned, fingerprint};
use festina_units::Duration;
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoClientAuth, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::handshake::link;
use crate::world::{NAME, Setup, World, certificate, provider, tls, tls_settings};

const MINUTE: Duration = Duration::from_secs(60);
const TLS13: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// A server with a chain of certificates that is longer than three times a hello.
pub(crate) fn long_chain() -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    chain_of(6)
}

/// A server with a chain of this many certificates. The client trusts the first.
fn chain_of(certificates: usize) -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let (own, key) = certificate(NAME);
    let mut roots = RootCertStore::empty();
    roots.add(own.clone()).unwrap();
    let mut chain = vec![own];
    chain.extend((1..certificates).map(|number| certificate(&format!("padding-{number}.test")).0));
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
fn a_chain_of_too_many_certificates_is_refused_before_it_is_verified() {
    let (_, result) = outcome(&chain_of(6));
    assert!(result.is_ok(), "{result:?}");
    for certificates in [7, 60] {
        let (client, server) = chain_of(certificates);
        let (_, result) = outcome(&(Arc::clone(&client), server));
        assert_eq!(result, Err(HandshakeError::TooLong), "{certificates} of a server");
        // A client shows as many to a server that trusts every one.
        let (own, key) = certificate("client.test");
        let chain = std::iter::repeat_n(own, certificates).collect();
        let asks = Pinned::deciding(provider(), Arc::new(|_| panic!("the chain is verified")));
        let (name, server_key) = certificate(NAME);
        let trusts = Pinned::deciding(provider(), Arc::new(|_| true));
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(TLS13).unwrap();
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(trusts));
        let client = builder.with_client_auth_cert(chain, key).unwrap();
        let server = ServerConfig::builder_with_provider(provider()).with_protocol_versions(TLS13).unwrap();
        let server = server.with_client_cert_verifier(Arc::new(asks)).with_single_cert(vec![name], server_key).unwrap();
        let mut world = World::new(Setup::new(&(Arc::new(client), Arc::new(server)), link(&[]), 1));
        world.run_for(Duration::from_secs(1));
        let failure = world.served.first().and_then(|served| served.association.failure());
        assert_eq!(failure, Some(&HandshakeError::TooLong), "{certificates} of a client");
    }
}

#[test]
fn a_panic_of_the_program_within_tls_ends_that_handshake() {
    let (own, key) = certificate(NAME);
    let panics = Pinned::deciding(provider(), Arc::new(|_| panic!("a bug of the program")));
    let client = ClientConfig::builder_with_provider(provider()).with_protocol_versions(TLS13).unwrap();
    let client = client.dangerous().with_custom_certificate_verifier(Arc::new(panics)).with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider()).with_protocol_versions(TLS13).unwrap();
    let server = server.with_no_client_auth().with_single_cert(vec![own], key).unwrap();
    let (_, result) = outcome(&(Arc::new(client), Arc::new(server)));
    assert!(matches!(result, Err(HandshakeError::Tls { error: rustls::Error::General(_), .. })), "{result:?}");
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

/// A raw public key with its private key, and the fingerprint of the former.
fn raw_key() -> (Arc<CertifiedKey>, [u8; 32]) {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let signing = provider().key_provider.load_private_key(key.serialize_der().try_into().unwrap()).unwrap();
    let public = CertificateDer::from(signing.public_key().unwrap().as_ref().to_vec());
    let pin = fingerprint(&provider(), &public).unwrap();
    (Arc::new(CertifiedKey::new(vec![public], signing)), pin)
}

/// Settings of a client that knows a server's raw key.
fn knowing(pin: [u8; 32]) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
    let servers = Pinned::new(provider(), vec![pin]).with_raw_public_keys();
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(TLS13).unwrap();
    builder.dangerous().with_custom_certificate_verifier(Arc::new(servers))
}

/// Shows a raw key to clients that have raw keys for themselves, or to all others.
#[derive(Debug)]
struct ShownTo {
    key: Arc<CertifiedKey>,
    raw_clients: bool,
}

impl ResolvesServerCert for ShownTo {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        (hello.client_cert_types().is_some() == self.raw_clients).then(|| Arc::clone(&self.key))
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }
}

/// Settings of a server with a raw key.
fn with_raw_key(clients: Arc<dyn ClientCertVerifier>, key: &Arc<CertifiedKey>) -> ServerConfig {
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(TLS13).unwrap();
    let shown = ShownTo { key: Arc::clone(key), raw_clients: clients.requires_raw_public_keys() };
    builder.with_client_cert_verifier(clients).with_cert_resolver(Arc::new(shown))
}

#[test]
fn raw_public_keys_take_the_place_of_certificates() {
    let (key, pin) = raw_key();
    let resolver = Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&key)));
    let client = knowing(pin).with_client_cert_resolver(resolver);
    let clients = Pinned::new(provider(), vec![pin]).with_raw_public_keys();
    let (world, result) = outcome(&(Arc::new(client), Arc::new(with_raw_key(Arc::new(clients), &key))));
    assert_eq!(result, Ok(150));
    assert_eq!(world.client.peer_identity().unwrap(), &key.cert[..]);
}

/// Bytes of a handshake without data, with two session tickets, of the client and of the server.
fn handshake_bytes(tls: &(Arc<ClientConfig>, Arc<ServerConfig>)) -> [usize; 2] {
    let mut world = World::new(Setup::new(tls, link(&[]), 1));
    world.run_for(Duration::from_secs(2));
    assert!(world.client.is_established());
    [0, 1].map(|side| world.bytes_sent(side))
}

#[test]
fn a_raw_public_key_saves_a_fifth_of_the_handshakes_bytes() {
    let (key, pin) = raw_key();
    let mut server = with_raw_key(Arc::new(NoClientAuth), &key);
    let mut client = knowing(pin).with_no_client_auth();
    client.alpn_protocols = vec![b"festina-test".to_vec()];
    server.alpn_protocols = vec![b"festina-test".to_vec()];
    let (raw, certificate) = (handshake_bytes(&(Arc::new(client), Arc::new(server))), handshake_bytes(&tls()));
    println!("bytes of client and server: {raw:?} with a raw public key, {certificate:?} with a certificate");
    let [raw, certificate] = [raw, certificate].map(|[client, server]| client + server);
    assert!(raw * 5 <= certificate * 4, "{raw} and {certificate} bytes");
}

#[test]
fn a_server_takes_anonymous_clients_of_either_kind() {
    let (key, pin) = raw_key();
    let anonymous = Pinned::new(provider(), Vec::new()).with_raw_public_keys().with_anonymous_clients();
    let server = Arc::new(with_raw_key(Arc::new(NoClientAuth), &key));
    let other = Arc::new(with_raw_key(Arc::new(anonymous), &key));
    let resolver = Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&key)));
    let with_key = Arc::new(knowing(pin).with_client_cert_resolver(resolver));
    let without = Arc::new(knowing(pin).with_no_client_auth());
    for (client, others, expected) in [
        (&without, vec![other.clone()], Ok(150)),
        (&with_key, vec![other.clone()], Ok(150)),
        (&with_key, vec![server.clone(), other], Ok(150)),
        (&with_key, Vec::new(), Err(HandshakeError::Alert(49))),
        (&with_key, vec![server.clone()], Err(HandshakeError::Alert(49))),
    ] {
        let tls = (Arc::clone(client), Arc::clone(&server));
        let mut world = World::new(Setup { others, ..Setup::new(&tls, link(&[]), 1) });
        world.send(b"hello");
        let over = |world: &World| world.messages() == 1 || world.client.failure().is_some();
        let (_, milliseconds) = world.run_until(MINUTE, over);
        assert_eq!(world.client.failure().cloned().map_or(Ok(milliseconds), Err), expected);
        if let Some(served) = world.established() {
            assert!(served.association.peer_identity().is_none(), "a client that is not asked shows nothing");
        }
    }
}

#[test]
fn the_kind_of_keys_is_found_however_the_hello_is_split() {
    let (key, pin) = raw_key();
    let anonymous = Pinned::new(provider(), Vec::new()).with_raw_public_keys().with_anonymous_clients();
    let resolver = Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&key)));
    let mut client = knowing(pin).with_client_cert_resolver(resolver);
    // The hello takes several datagrams.
    client.alpn_protocols = (0..8).map(|number| vec![number; 255]).collect();
    let mut servers = [with_raw_key(Arc::new(NoClientAuth), &key), with_raw_key(Arc::new(anonymous), &key)];
    for server in &mut servers {
        server.alpn_protocols = vec![vec![7; 255]];
    }
    let [server, other] = servers.map(Arc::new);
    let tls = (Arc::new(client), server);
    let mut world = World::new(Setup { others: vec![other], ..Setup::new(&tls, link(&[]), 1) });
    world.send(b"hello");
    assert!(world.run_until(MINUTE, |world| world.messages() == 1).0, "{:?}", world.client.failure());
    assert!(world.sent[0].len() > 2);
}
