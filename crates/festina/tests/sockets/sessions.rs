//! Sessions under the application's control.

use std::sync::Arc;

use festina::security::{ClientSecurity, Identity, ServerSecurity, Sessions, Trust};
use festina::{Association, ConnectOptions, DEFAULT_SCTP_PORT, Endpoint, Listener, Message};
use festina_secure::pinned::Pinned;
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::crypto::ring;
use rustls::sign::CertifiedKey;

use crate::encrypted::{server_settings, with};
use crate::support::{endpoint_with, in_time};

/// A server and its listener.
struct Server {
    endpoint: Endpoint,
    listener: Listener,
}

impl Server {
    async fn new(security: ServerSecurity) -> Self {
        let endpoint = endpoint_with(with(security)).await;
        let listener = endpoint.listen(DEFAULT_SCTP_PORT).unwrap();
        Self { endpoint, listener }
    }

    fn name(&self) -> String {
        self.endpoint.local_addr().to_string()
    }

    async fn connect(&self, client: &Endpoint) -> (Association, Association) {
        let (near, far) = tokio::join!(client.connect(self.endpoint.local_addr()), self.listener.accept());
        (near.unwrap(), far.unwrap())
    }

    /// Connects from a new endpoint, which is closed again. Returns whether a session was resumed.
    async fn resumes(&self, client: &ClientSecurity) -> bool {
        let client = endpoint_with(with(client.clone())).await;
        let (near, far) = self.connect(&client).await;
        // By the time that an answer has come, the tickets have.
        near.send("one").await.unwrap();
        far.recv().await.unwrap();
        far.send("two").await.unwrap();
        near.recv().await.unwrap();
        let is_resumed = near.is_resumed();
        near.shutdown().await.unwrap();
        client.close().await;
        is_resumed
    }
}

#[tokio::test]
async fn sessions_outlive_endpoints_until_they_are_forgotten() {
    let (server, fingerprint) = server_settings();
    let server = Server::new(server).await;
    let (sessions, trust) = (Sessions::new(2), Trust::fingerprints([fingerprint]));
    let client = || ClientSecurity::new(trust.clone()).with_sessions(sessions.clone());
    in_time(async {
        assert!(!server.resumes(&client()).await);
        assert!(server.resumes(&client()).await);
        let own = ClientSecurity::new(trust.clone());
        assert!(!server.resumes(&own).await, "an endpoint's own sessions are no one else's");
        assert!(!sessions.forget("127.0.0.1:1"));
        assert!(sessions.forget(&server.name().replace("127.0.0.1", "[::FFFF:7f00:1]")), "however it is written");
        assert!(!server.resumes(&client()).await);
        assert!(server.resumes(&client()).await);
        sessions.clear();
        assert!(!server.resumes(&client()).await);
    })
    .await;
}

#[tokio::test]
async fn a_session_is_resumed_only_with_the_trust_and_the_identity_that_began_it() {
    let (server, fingerprint) = server_settings();
    let server = Server::new(server).await;
    let (sessions, trust) = (Sessions::new(2), Trust::fingerprints([fingerprint]));
    let client = |trust: &Trust| ClientSecurity::new(trust.clone()).with_sessions(sessions.clone());
    let identity = Identity::self_signed("client.test").unwrap();
    in_time(async {
        assert!(!server.resumes(&client(&trust)).await);
        assert!(!server.resumes(&client(&Trust::fingerprints([fingerprint]))).await);
        assert!(!server.resumes(&client(&trust).with_identity(identity.clone())).await);
        assert!(server.resumes(&client(&trust).with_identity(identity.clone())).await);
    })
    .await;
}

#[tokio::test]
async fn servers_on_two_ports_of_one_address_have_sessions_of_their_own() {
    let (settings, fingerprint) = server_settings();
    let (one, other) = (Server::new(settings.clone()).await, Server::new(settings).await);
    let client = ClientSecurity::new(Trust::fingerprints([fingerprint])).with_sessions(Sessions::new(2));
    in_time(async {
        assert!(!one.resumes(&client).await && !other.resumes(&client).await);
        assert!(one.resumes(&client).await && other.resumes(&client).await);
    })
    .await;
}

#[tokio::test]
async fn a_client_with_a_raw_key_resumes_with_early_messages_at_a_server_that_asks_for_no_key() {
    let identity = Identity::raw_key().unwrap();
    let trust = Trust::fingerprints([identity.fingerprint()]).of_raw_keys();
    let server = Server::new(ServerSecurity::new(identity).with_early_messages()).await;
    let client = ClientSecurity::new(trust).with_sessions(Sessions::new(1));
    let client = client.with_identity(Identity::raw_key().unwrap());
    in_time(async {
        assert!(!server.resumes(&client).await && server.resumes(&client).await);
        let client = endpoint_with(with(client)).await;
        let options = ConnectOptions::default().early_message(Message::new("early"));
        let connect = client.connect_with(server.endpoint.local_addr(), options);
        let (near, far) = tokio::join!(connect, server.listener.accept());
        assert!(near.unwrap().is_resumed());
        assert_eq!(far.unwrap().try_recv_early().unwrap().payload(), "early");
    })
    .await;
}

#[tokio::test]
async fn a_client_with_a_raw_key_may_be_asked_for_another_hello() {
    let [identity, own] = [(); 2].map(|()| Identity::raw_key().unwrap());
    let mut provider = ring::default_provider();
    // The server prefers X25519, for which the first hello has no key share (RFC 8446 §4.1.4).
    provider.kx_groups = vec![ring::kx_group::SECP384R1, ring::kx_group::X25519];
    let key = provider.key_provider.load_private_key(own.key_der().to_vec().try_into().unwrap()).unwrap();
    let chain = own.chain_der().map(|der| der.to_vec().into()).collect();
    let resolver = AlwaysResolvesClientRawPublicKeys::new(Arc::new(CertifiedKey::new(chain, key)));
    let provider = Arc::new(provider);
    let trust = Pinned::new(provider.clone(), vec![identity.fingerprint().0]).with_raw_public_keys();
    let client = rustls::ClientConfig::builder_with_provider(provider);
    let client = client.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    let client = client.dangerous().with_custom_certificate_verifier(Arc::new(trust));
    let client = client.with_client_cert_resolver(Arc::new(resolver));
    let server = Server::new(ServerSecurity::new(identity)).await;
    in_time(async {
        let client = ClientSecurity::from_rustls(Arc::new(client));
        assert!(!server.resumes(&client).await && server.resumes(&client).await);
    })
    .await;
}
