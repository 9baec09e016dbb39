//! Sessions under the application's control.

use festina::security::{Identity, Security, Sessions, Trust};
use festina::{Association, DEFAULT_SCTP_PORT, Endpoint, Listener};

use crate::encrypted::{server_settings, with};
use crate::support::{endpoint_with, in_time};

/// A server and its listener.
struct Server {
    endpoint: Endpoint,
    listener: Listener,
}

impl Server {
    async fn new(security: Security) -> Self {
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
    async fn resumes(&self, client: &Security) -> bool {
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
    let client = || Security::new().with_server_trust(trust.clone()).with_sessions(sessions.clone());
    in_time(async {
        assert!(!server.resumes(&client()).await);
        assert!(server.resumes(&client()).await);
        let own = Security::new().with_server_trust(trust.clone());
        assert!(!server.resumes(&own).await, "an endpoint's own sessions are no one else's");
        assert!(!sessions.forget("127.0.0.1:1") && sessions.forget(&server.name()));
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
    let client = |trust: &Trust| Security::new().with_server_trust(trust.clone()).with_sessions(sessions.clone());
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
    let client = Security::new().with_server_trust(Trust::fingerprints([fingerprint])).with_sessions(Sessions::new(2));
    in_time(async {
        assert!(!one.resumes(&client).await && !other.resumes(&client).await);
        assert!(one.resumes(&client).await && other.resumes(&client).await);
    })
    .await;
}
