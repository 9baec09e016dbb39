//! Shared set-ups of the tests.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use festina::{Association, BindError, ClientConfig, DEFAULT_SCTP_PORT, Endpoint, Listener, ServerConfig};
use tokio::net::UdpSocket;

/// Longer than anything here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two endpoints with one association between them.
pub(crate) struct Pair {
    pub(crate) client: Association,
    pub(crate) server: Association,
    pub(crate) client_endpoint: Endpoint,
    pub(crate) server_endpoint: Endpoint,
    pub(crate) listener: Listener,
}

/// Fails the test instead of hanging.
pub(crate) async fn in_time<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes far too long")
}

/// Settings of a client or of a server.
pub(crate) trait Open {
    async fn open(self, address: SocketAddr) -> Result<Endpoint, BindError>;
}

impl Open for ClientConfig {
    async fn open(self, address: SocketAddr) -> Result<Endpoint, BindError> {
        Endpoint::client(address, self).await
    }
}

impl Open for ServerConfig {
    async fn open(self, address: SocketAddr) -> Result<Endpoint, BindError> {
        Endpoint::server(address, self).await
    }
}

/// A plain endpoint for either role.
pub(crate) async fn endpoint() -> Endpoint {
    endpoint_with(ServerConfig::plain()).await
}

pub(crate) async fn endpoint_with(config: impl Open) -> Endpoint {
    config.open("127.0.0.1:0".parse().unwrap()).await.unwrap()
}

pub(crate) async fn pair() -> Pair {
    pair_with(ServerConfig::plain(), ServerConfig::plain()).await
}

pub(crate) async fn pair_with(client: impl Open, server: impl Open) -> Pair {
    let (client, server) = (endpoint_with(client).await, endpoint_with(server).await);
    let remote = server.local_addr();
    pair_between(client, server, remote).await
}

pub(crate) async fn pair_between(client_endpoint: Endpoint, server_endpoint: Endpoint, remote: SocketAddr) -> Pair {
    let listener = server_endpoint.listen(DEFAULT_SCTP_PORT).unwrap();
    let (client, server) = in_time(async { tokio::join!(client_endpoint.connect(remote), listener.accept()) }).await;
    Pair { client: client.unwrap(), server: server.unwrap(), client_endpoint, server_endpoint, listener }
}

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never came true: {what}");
}

/// A network between two endpoints that can be cut.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    cut: Arc<AtomicBool>,
}

impl Relay {
    /// Forwards packets between `server` and the sender of the first one.
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let relay = Self { address: socket.local_addr().unwrap(), cut: Arc::default() };
        let cut = relay.cut.clone();
        tokio::spawn(async move {
            let (mut buffer, mut client) = ([0; 2_048], None);
            loop {
                let (len, from) = socket.recv_from(&mut buffer).await.unwrap();
                let to = if from == server {
                    client
                } else {
                    client = Some(from);
                    Some(server)
                };
                if let Some(to) = to
                    && !cut.load(Ordering::Relaxed)
                {
                    socket.send_to(&buffer[..len], to).await.unwrap();
                }
            }
        });
        relay
    }

    /// From now on nothing gets through.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// From now on everything gets through.
    pub(crate) fn mend(&self) {
        self.cut.store(false, Ordering::Relaxed);
    }
}
