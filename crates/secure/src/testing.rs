//! Certificates and TLS settings for the tests of this crate.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::quic::{self, KeyChange, Version};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

pub(crate) const NAME: &str = "server.test";

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A self-signed certificate with its key.
pub(crate) fn certificate(name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("ring makes such keys");
    let parameters = rcgen::CertificateParams::new([name.to_owned()]).expect("the name is sound");
    let certificate = parameters.self_signed(&key).expect("the parameters are sound");
    (certificate.der().clone(), key.serialize_der().try_into().expect("rcgen writes PKCS #8"))
}

/// A client that trusts one certificate, and a server that has it.
pub(crate) fn configs() -> (ClientConfig, ServerConfig) {
    let (certificate, key) = certificate(NAME);
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("a sound certificate");
    let client = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&rustls::version::TLS13]);
    let mut client = client.expect("TLS 1.3 is there").with_root_certificates(roots).with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&rustls::version::TLS13]);
    let server = server.expect("TLS 1.3 is there").with_no_client_auth();
    let mut server = server.with_single_cert(vec![certificate], key).expect("key and certificate fit");
    client.alpn_protocols = vec![b"test".to_vec()];
    server.alpn_protocols = vec![b"test".to_vec()];
    (client, server)
}

/// The keys of both sides after a handshake without a network.
pub(crate) fn key_changes() -> [KeyChange; 2] {
    let (client, server) = configs();
    let name = ServerName::try_from(NAME).expect("a sound name");
    let client = quic::ClientConnection::new(Arc::new(client), Version::V1, name, vec![1]).expect("sound settings");
    let server = quic::ServerConnection::new(Arc::new(server), Version::V1, vec![2]).expect("sound settings");
    let mut sides = [quic::Connection::Client(client), quic::Connection::Server(server)];
    let mut keys = [None, None];
    while keys.iter().any(Option::is_none) {
        for at in [0, 1] {
            loop {
                let mut bytes = Vec::new();
                let change = sides[at].write_hs(&mut bytes);
                let is_last = bytes.is_empty() && change.is_none();
                sides[1 - at].read_hs(&bytes).expect("both sides agree");
                if let Some(change @ KeyChange::OneRtt { .. }) = change {
                    keys[at] = Some(change);
                }
                if is_last {
                    break;
                }
            }
        }
    }
    keys.map(|keys| keys.expect("the handshake is complete"))
}
