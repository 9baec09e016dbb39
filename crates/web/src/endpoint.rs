//! The port that browsers come to.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use festina::{Admission, Endpoint, Listener, ServerConfig, Transport};
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;

use crate::dtls::{CertificateError, PACKET_BYTES_MAX};
use crate::gateway::{Gateway, GatewayLimits, GatewayStats, PeerId};
use crate::layer::{Layer, Shared};
use crate::peer::Peer;
use crate::sdp::{MESSAGE_BYTES_MAX, OfferError, SCTP_PORT};

/// Streams of each direction; data channels need one of both.
const STREAMS: u16 = 1_024;

/// Settings of a [`WebEndpoint`].
#[derive(Clone, Debug, Default)]
pub struct WebConfig {
    transport: Transport,
    limits: GatewayLimits,
    addresses: Vec<SocketAddr>,
}

impl WebConfig {
    /// Sets recovery, redundancy, congestion control, buffers. Sizes of packets and messages and the streams are those of data channels.
    #[must_use]
    pub fn with_transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Sets the number of peers, with those that have not come yet. By default 65,536.
    #[must_use]
    pub fn with_peers_max(mut self, peers: usize) -> Self {
        self.limits.peers_max = peers;
        self
    }

    /// Names an address at which browsers reach the socket, instead of the one it is bound to: a public one behind a one-to-one NAT, or one of
    /// several if it is bound to the unspecified address.
    #[must_use]
    pub fn with_public_address(mut self, address: SocketAddr) -> Self {
        self.addresses.push(address);
        self
    }
}

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebBindError {
    /// The socket.
    #[error("cannot open the UDP socket: {0}")]
    Socket(#[from] io::Error),
    /// The certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The SCTP endpoint.
    #[error(transparent)]
    Endpoint(#[from] festina::BindError),
    /// SCTP's port inside DTLS.
    #[error(transparent)]
    Listen(#[from] festina::ListenError),
    /// Browsers need an address to go to.
    #[error("the socket is bound to all addresses: name those that browsers reach (with_public_address)")]
    NoAddress,
}

/// A UDP port with any number of browsers. Each has posted an offer.
#[derive(Debug)]
pub struct WebEndpoint {
    shared: Arc<Shared>,
    listener: Listener,
    endpoint: Endpoint,
    local: SocketAddr,
    timers: AbortHandle,
}

impl WebEndpoint {
    /// Opens a port.
    ///
    /// # Errors
    /// [`WebBindError`]
    pub async fn bind(address: SocketAddr, config: WebConfig) -> Result<Self, WebBindError> {
        let socket = UdpSocket::bind(address).await?;
        let local = socket.local_addr()?;
        let WebConfig { transport, limits, mut addresses } = config;
        for address in &mut addresses {
            if address.port() == 0 {
                address.set_port(local.port());
            }
        }
        if addresses.is_empty() {
            if local.ip().is_unspecified() {
                return Err(WebBindError::NoAddress);
            }
            addresses.push(local);
        }
        let gateway = Gateway::new(festina::now(), clock(), addresses, limits)?;
        let shared = Arc::new(Shared::new(socket, gateway)?);
        let transport = transport
            .with_packet_bytes_max(PACKET_BYTES_MAX)
            .with_message_bytes_max(MESSAGE_BYTES_MAX)
            .with_streams(STREAMS, STREAMS)
            .with_expert(|expert| expert.with_stream_resets_by_peer(true));
        let admission = Admission::default().with_associations_max(limits.peers_max);
        let config = ServerConfig::plain().with_transport(transport).with_admission(admission);
        let endpoint = Endpoint::bind_on(Layer(shared.clone()), config).await?;
        let listener = endpoint.listen(SCTP_PORT)?;
        let timers = tokio::spawn(shared.clone().run_timers()).abort_handle();
        Ok(Self { shared, listener, endpoint, local, timers })
    }

    /// Returns the address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Answers a browser's offer. Both are texts (SDP) that a page and its server exchange by HTTP, for instance. The identity is that of the peer
    /// which [`accept`](Self::accept) returns when the browser is connected.
    ///
    /// If the offer has the INIT of its SCTP association (SNAP), so has the answer, and the connection needs two round trips less.
    ///
    /// # Errors
    /// [`OfferError`], a sentence for the author of the page.
    pub async fn answer(&self, offer: &str) -> Result<(PeerId, String), OfferError> {
        let (id, mut answer) = self.shared.with(|gateway| gateway.answer(festina::now(), offer))?;
        if let Some(line) = self.shared.init_of(id).await {
            answer.push_str(&line);
        }
        Ok((id, answer))
    }

    /// Answers an offer that restarts ICE of a peer that has moved to another network. `peer` is [`PeerId::number`].
    ///
    /// # Errors
    /// [`OfferError::UnknownPeer`] also for an offer by somebody else.
    pub fn restart(&self, peer: u64, offer: &str) -> Result<String, OfferError> {
        self.shared.with(|gateway| gateway.restart(peer, offer))
    }

    /// Waits for the next browser; `None` if the endpoint is closed.
    pub async fn accept(&self) -> Option<Peer> {
        loop {
            let association = self.listener.accept().await?;
            if let Some(id) = PeerId::from_label(association.remote_addr()) {
                return Some(Peer::new(id, association, self.shared.clone()));
            }
        }
    }

    /// Returns counters of ignored datagrams.
    pub fn gateway_stats(&self) -> GatewayStats {
        self.shared.with(|gateway| gateway.stats())
    }

    /// Closes all associations.
    pub async fn close(&self) {
        self.endpoint.close().await;
    }
}

/// The present on the clock that DTLS counts on.
#[expect(clippy::disallowed_methods, reason = "this crate drives DTLS in real time")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

impl Drop for WebEndpoint {
    fn drop(&mut self) {
        self.timers.abort();
    }
}
