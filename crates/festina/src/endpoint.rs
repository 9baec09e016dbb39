//! An endpoint: one socket, many associations.

mod accept;
mod alarm;
mod door;
mod driver;
mod listener;
mod lookup;
mod lower;
mod observe;
mod options;
pub(crate) mod outbox;
mod packets;
mod pause;
mod queue;
pub(crate) mod refusals;
mod requests;
mod secure;
mod shared;
mod sieve;
pub(crate) mod socket;
mod timers;
pub(crate) mod tray;

use std::fmt;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use festina_endpoint::Request;
pub(crate) use festina_endpoint::{Datagram, Key};
use festina_sctp::ClosedReason;

use self::driver::Driver;
pub use self::listener::{Listener, Requests};
pub use self::lower::{LowerLayer, MemoryNetwork, MemorySocket, Received, Several, Transmit};
pub use self::observe::SeenPacket;
pub use self::options::{Answer, ConnectOptions, EndpointStats, ListenOptions};
pub use self::requests::PendingRequest;
pub(crate) use self::shared::Shared;
use self::socket::Socket;
pub(crate) use self::timers::Entry;
use crate::address::{Host, Spelled};
use crate::association::Association;
use crate::clock;
use crate::config::{ClientConfig, EndpointConfig, ServerConfig};
use crate::error::{BindError, ConnectError, ListenError};
use crate::locks::lock;
use crate::runtime::{self, Runtime, Tokio, within};
use crate::security::SecurityFailure;

/// The cause code with which a full endpoint refuses (RFC 9260 §3.3.10.4).
const OUT_OF_RESOURCE: u16 = 4;

/// One socket that carries any number of associations, in both roles.
///
/// Clones are cheap and refer to the same endpoint. One background task receives packets in batches and runs timers. Sending needs no task:
/// [`Association::send`] itself sends the message. When the last clone and the last [`Listener`] are gone, the task continues until the last
/// association has ended.
///
/// Packets that belong to no association have the lowest priority. They are processed up to a rate ([`Admission::with_strays_per_second_max`](crate::Admission::with_strays_per_second_max)), and new
/// peers are admitted up to further limits ([`Admission::with_associations_max`](crate::Admission::with_associations_max) and related settings). [`Endpoint::stats`] counts the rejected ones.
///
/// ICMP errors and other errors of single packets never harm an endpoint: they count as packet loss.
pub struct Endpoint {
    shared: Arc<Shared>,
}

impl Endpoint {
    /// Opens a UDP socket for SCTP over UDP (RFC 6951), to connect. Port 0 lets the system choose one.
    ///
    /// # Errors
    /// A setting is out of range, the socket cannot be opened, or there is no tokio runtime with I/O and time. tokio reports a missing part by a panic,
    /// which is caught here: a panic hook sees it, and a program that aborts on panics ends.
    pub async fn client(address: SocketAddr, config: ClientConfig) -> Result<Self, BindError> {
        Self::open(address, config.into()).await
    }

    /// Opens a UDP socket as [`Endpoint::client`] does, to listen. To connect as well, the settings have a client's part:
    /// [`ServerSecurity::with_client`](crate::security::ServerSecurity::with_client).
    ///
    /// # Errors
    /// As for [`Endpoint::client`].
    pub async fn server(address: SocketAddr, config: ServerConfig) -> Result<Self, BindError> {
        Self::open(address, config.into()).await
    }

    pub(crate) async fn open(address: SocketAddr, config: EndpointConfig) -> Result<Self, BindError> {
        let others = config.checked_others(address.ip())?;
        Self::start(address, config, |runtime| Socket::bind_udp(runtime, address, &others)).await
    }

    /// Opens a raw socket for SCTP directly over IP (protocol 132). Needs the privilege CAP_NET_RAW, and a kernel without SCTP of its own on that
    /// address: it would abort associations that it does not know.
    ///
    /// Peers are then identified by their IP address alone; the UDP port of a [`SocketAddr`] is ignored.
    ///
    /// # Errors
    /// As for [`Endpoint::client`]; [`BindError::Socket`] with `PermissionDenied` if the privilege is missing. Encrypted associations need UDP: the
    /// settings have to be [`ClientConfig::plain`] or [`ServerConfig::plain`].
    #[cfg(unix)]
    pub async fn bind_raw(address: IpAddr, config: impl Into<EndpointConfig>) -> Result<Self, BindError> {
        let config = config.into();
        if config.is_encrypted() {
            let problem =
                "encrypted associations need UDP; plain SCTP begins with ClientConfig::plain or ServerConfig::plain";
            return Err(crate::security::SecurityError::Settings(problem.to_owned()).into());
        }
        let others = config.checked_others(address)?;
        Self::start(SocketAddr::new(address, 0), config, |runtime| Socket::bind_raw(runtime, address, &others)).await
    }

    /// Opens an endpoint on UDP sockets that the program has bound with options of its own, or was given: one for each address, `others` being those of
    /// further addresses. [`ServerConfig::with_other_addresses`] has no effect.
    ///
    /// # Errors
    /// As for [`Endpoint::client`], except for opening the sockets.
    pub async fn bind_to(
        socket: std::net::UdpSocket,
        others: Vec<std::net::UdpSocket>,
        config: impl Into<EndpointConfig>,
    ) -> Result<Self, BindError> {
        let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
        let address = socket.local_addr().map_err(|source| BindError::Socket { address: unspecified, source })?;
        Self::start(address, config.into(), |runtime| Socket::of_udp(runtime, (socket, others), address)).await
    }

    /// Opens an endpoint on a lower layer of the program's own, or on one in memory for tests: [`MemoryNetwork`](crate::MemoryNetwork).
    ///
    /// # Errors
    /// As for [`Endpoint::client`], except for the socket.
    pub async fn bind_on(lower: impl LowerLayer, config: impl Into<EndpointConfig>) -> Result<Self, BindError> {
        let address = lower.local_addr();
        Self::start(address, config.into(), |_| Ok(Socket::new(Box::new(lower)))).await
    }

    async fn start(
        address: SocketAddr,
        config: EndpointConfig,
        open: impl FnOnce(&dyn Runtime) -> Result<Socket, BindError>,
    ) -> Result<Self, BindError> {
        let runtime = config.runtime.clone().map_or_else(Tokio::current, Ok)?;
        let failed = |source| BindError::Socket { address, source };
        let socket = open(&*runtime)?;
        // The runtime must poll the socket once before it allows sending.
        poll_fn(|context| socket.poll_writable(context)).await.map_err(failed)?;
        let (shared, bell) = Shared::new(Arc::clone(&runtime), socket, &config)?;
        let endpoint = Self::new(shared.clone());
        runtime.spawn(Box::pin(Driver::new(shared, bell)));
        Ok(endpoint)
    }

    fn new(shared: Arc<Shared>) -> Self {
        shared.handle_added();
        Self { shared }
    }

    /// Returns the address of the socket. A raw socket has port 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.socket.local_addr()
    }

    /// Returns the addresses of all sockets, that of [`local_addr`](Self::local_addr) first.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.shared.socket.local_addrs().to_vec()
    }

    /// Replaces the socket by one at another address or port while associations live, such as after a change of networks. Port 0 lets the system choose
    /// one. Of [several addresses](crate::ServerConfig::with_other_addresses) the first is replaced, and keeps its port if `address` has none.
    ///
    /// Each association sends a packet from the new address at once. Peers of encrypted associations follow within about a round trip and a half, as do plain peers if
    /// only the port has changed (RFC 6951 §5.4); at another IP address a plain peer knows the association only if this endpoint has named the
    /// address. On an endpoint with one address, both sides of an encrypted association then use other connection IDs, so that observers cannot link the
    /// two addresses by them.
    ///
    /// # Errors
    /// The address cannot be bound, or is none of the [lower layer](LowerLayer)'s: then the old socket stays.
    pub fn rebind(&self, address: SocketAddr) -> Result<(), BindError> {
        self.shared.rebind(address)
    }

    /// Opens a further socket while associations live, such as when a second network appears. Port 0 stands for the port of the others. An endpoint can do so
    /// if it was opened with [other addresses](crate::ServerConfig::with_other_addresses), or for [several paths](crate::Transport::with_paths_max).
    ///
    /// Peers of encrypted associations learn the address, and use it once it has answered a heartbeat. Plain peers learn it from associations that begin later.
    ///
    /// # Errors
    /// The address is none of a single host, is there already or cannot be bound, or the endpoint cannot have several.
    pub fn add_address(&self, address: SocketAddr) -> Result<(), BindError> {
        self.shared.add_address(address)
    }

    /// Closes the socket with one of several addresses while associations live, such as before a network ends. The next one becomes [`local_addr`](Self::local_addr) if
    /// it was the first. Each association goes on from the others at once. Peers of encrypted associations learn it; plain ones notice that the
    /// address does not answer.
    ///
    /// # Errors
    /// The endpoint does not have the address, or no other.
    pub fn remove_address(&self, address: IpAddr) -> Result<(), BindError> {
        self.shared.remove_address(address)
    }

    /// Calls `observer` for every SCTP packet sent or received from now on; at most one observer per endpoint. Returns whether there was none before.
    /// Packets lost in the network are not seen.
    ///
    /// The observer runs while packets are sent and received: it should be quick, and must not use the endpoint or its associations.
    pub fn observe(&self, observer: impl Fn(SeenPacket<'_>) + Send + Sync + 'static) -> bool {
        self.shared.socket.observation.begin(observer)
    }

    /// Returns a snapshot of the counters.
    pub fn stats(&self) -> EndpointStats {
        self.shared.stats()
    }

    /// Returns an estimate of the INITs that the operating system dropped during floods, extrapolated from those that it passed. [`Endpoint::stats`]
    /// counts them neither as received nor as dropped. Only Linux with UDP can do that; otherwise 0.
    pub fn inits_sifted(&self) -> u64 {
        self.shared.counters.inits_sifted.load(Ordering::Relaxed)
    }

    /// Listens on an SCTP port until the listener is dropped.
    ///
    /// # Errors
    /// The endpoint is a client's or was closed, or the port is 0 or has a listener.
    pub fn listen(&self, port: u16) -> Result<Listener, ListenError> {
        self.listen_with(port, ListenOptions::default())
    }

    /// As [`Endpoint::listen`], for peers that `options` admit.
    ///
    /// # Errors
    /// As [`Endpoint::listen`].
    pub fn listen_with(&self, port: u16, options: ListenOptions) -> Result<Listener, ListenError> {
        let queue = self.shared.listen(port, options)?;
        Ok(Listener::new(self.clone(), port, queue))
    }

    /// Sets up an association with [`DEFAULT_SCTP_PORT`](crate::DEFAULT_SCTP_PORT) at a host such as `game.example:9899`. The server's certificate must
    /// have the host's name, unless fingerprints are trusted.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(&self, host: impl Into<Host>) -> Result<Association, ConnectError> {
        self.connect_with(host, ConnectOptions::default()).await
    }

    /// Sets up an association with a host. A name is looked up; its addresses are tried 250 ms apart (RFC 8305), and the first one that answers counts.
    ///
    /// The handshake timeout of the options includes the look-up. Dropping the future before it is ready cancels both.
    ///
    /// # Errors
    /// See [`ConnectError`]. If no address answers, the error is that of the last attempt.
    pub async fn connect_with(
        &self,
        host: impl Into<Host>,
        options: ConnectOptions,
    ) -> Result<Association, ConnectError> {
        match host.into().0 {
            Spelled::Address(remote) => self.connect_at(remote, options).await,
            Spelled::Text(host) => self.connect_to(&host, options).await,
        }
    }

    /// Sets up an association with an address.
    async fn connect_at(&self, remote: SocketAddr, options: ConnectOptions) -> Result<Association, ConnectError> {
        let connected = self.shake_hands(remote, &options).await;
        if let Err(error) = &connected {
            tracing::warn!(%error, "no association");
        }
        connected
    }

    async fn shake_hands(&self, remote: SocketAddr, options: &ConnectOptions) -> Result<Association, ConnectError> {
        if self.shared.lacks_platform_roots() {
            // Not here, where associations may wait for this thread.
            let read = runtime::blocking(&*self.shared.runtime, crate::security::platform::roots).await;
            if let Some(Err(problem)) = read {
                return Err(ConnectError::Security { remote, failure: SecurityFailure::Settings(problem) });
            }
        }
        let association = self.shared.connect(remote, options)?;
        let begun = clock::now();
        let result = match within(&*self.shared.runtime, options.handshake_timeout, association.established()).await {
            Some(result) => result,
            None => {
                association.abort("handshake timeout");
                if let Some(failure) = association.inner().foreign() {
                    return Err(ConnectError::Security { remote, failure });
                }
                return Err(ConnectError::Timeout { remote, after: options.handshake_timeout });
            }
        };
        if result.is_err()
            && let Some(error) = association.inner().channel_error()
        {
            return Err(secure::connect_error(&error, remote, options, clock::now() - begun));
        }
        match result {
            Ok(()) => Ok(association),
            Err(ClosedReason::AbortedByPeer { code: 0, .. }) => {
                Err(ConnectError::NotListening { remote, port: options.peer_port })
            }
            Err(ClosedReason::AbortedByPeer { code: OUT_OF_RESOURCE, .. }) => Err(ConnectError::PeerFull { remote }),
            Err(reason @ ClosedReason::AbortedByPeer { .. }) => Err(ConnectError::Refused { remote, reason }),
            Err(ClosedReason::Shutdown) if self.shared.is_closing() => Err(ConnectError::EndpointClosed),
            // Max.Init.Retransmits was reached before the time limit.
            Err(ClosedReason::HandshakeTimeout) => Err(ConnectError::Timeout { remote, after: clock::now() - begun }),
            Err(reason) => Err(match association.inner().no_way() {
                Some((kind, cause)) => ConnectError::CannotSend { remote, kind, cause },
                None => ConnectError::Ended { remote, reason },
            }),
        }
    }

    /// Closes the endpoint gracefully: refuses new associations, shuts all of them down as [`Association::shutdown`] does, and returns when they have
    /// ended and the socket is closed, so that its address can be bound again. The duration depends on the peers, within the limits of that method.
    /// Remaining handles can only read counters and messages received before.
    pub async fn close(&self) {
        self.shared.close();
        let mut key = None;
        poll_fn(|context| self.shared.poll_closed(context, &mut key)).await;
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Clone for Endpoint {
    fn clone(&self) -> Self {
        Self::new(self.shared.clone())
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shared.handle_dropped();
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Endpoint").field("local", &self.local_addr()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use festina_sctp::Transmit;
    use festina_units::{Duration, EcnCodepoint};

    use super::*;
    use crate::{Admission, DEFAULT_SCTP_PORT, Message, Profile, Transport};

    #[tokio::test]
    async fn packets_for_which_the_socket_has_no_room_leave_later() {
        let address = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(address, ServerConfig::plain()).await.unwrap();
        let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
        let runtime = Tokio::current().unwrap();
        // A socket that the runtime has not looked at yet refuses to send, just as a full one does.
        let socket = Socket::bind_udp(&*runtime, address, &[]).unwrap();
        let (shared, bell) = Shared::new(runtime, socket, &ServerConfig::plain().into()).unwrap();
        let client = Endpoint::new(shared.clone());
        tokio::spawn(Driver::new(shared, bell));
        let before_the_init_is_repeated =
            ConnectOptions::default().profile(Profile::Rfc9260).handshake_timeout(Duration::from_millis(900));
        let connecting = client.connect_with(server.local_addr(), before_the_init_is_repeated);
        let (near, far) = tokio::join!(connecting, listener.accept());
        let (near, far) = (near.unwrap(), far.unwrap());
        assert_eq!(client.stats().send_blocked, 1);
        near.send(Message::new("room enough")).await.unwrap();
        assert_eq!(far.recv().await.unwrap().unwrap().payload(), "room enough");
    }

    #[tokio::test]
    async fn an_endpoint_stays_until_what_it_has_to_send_has_left() {
        let runtime = Tokio::current().unwrap();
        let socket = Socket::bind_udp(&*runtime, "127.0.0.1:0".parse().unwrap(), &[]).unwrap();
        let (shared, _bell) = Shared::new(runtime, socket, &ServerConfig::plain().into()).unwrap();
        assert!(shared.is_abandoned());
        let mut unsent = outbox::Outbox::default();
        unsent.buffer().extend_from_slice(b"packet");
        let (destination, ecn) = (shared.socket.local_addr(), EcnCodepoint::NotCapable);
        unsent.push(&Transmit::new(destination, 6, ecn), (None, socket::ANY_BINDING), 1);
        shared.tray.open().keep(&mut unsent);
        assert!(!shared.is_abandoned());
        poll_fn(|context| shared.socket.poll_writable(context)).await.unwrap();
        shared.tray.flush(&shared.socket).unwrap();
        assert!(shared.is_abandoned());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn no_call_follows_one_that_emptied_the_socket() {
        let address = "127.0.0.1:0".parse().unwrap();
        let (server, client) = (
            Endpoint::server(address, ServerConfig::plain()).await.unwrap(),
            Endpoint::server(address, ServerConfig::plain()).await.unwrap(),
        );
        let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
        let (near, far) = tokio::join!(client.connect(server.local_addr()), listener.accept());
        let (near, far) = (near.unwrap(), far.unwrap());
        for _ in 0..50 {
            near.send(Message::new("there")).await.unwrap();
            far.recv().await.unwrap().unwrap();
            far.send(Message::new("and back")).await.unwrap();
            near.recv().await.unwrap().unwrap();
        }
        for stats in [server.stats(), client.stats()] {
            assert!(stats.receive_calls <= stats.packets_received, "{stats:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_system_sifts_a_flood_of_inits_and_lets_all_pass_when_it_is_over() {
        let address = "127.0.0.1:0".parse().unwrap();
        let strict = ServerConfig::plain().with_admission(Admission::default().with_strays_per_second_max(1));
        let (server, client) = (
            Endpoint::server(address, strict).await.unwrap(),
            Endpoint::server(address, ServerConfig::plain()).await.unwrap(),
        );
        let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
        let (near, far) = tokio::join!(client.connect(server.local_addr()), listener.accept());
        let (near, far) = (near.unwrap(), far.unwrap());

        let stranger = std::net::UdpSocket::bind(address).unwrap();
        let init = [0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 4];
        let flood = |count: usize| {
            for _ in 0..count {
                // Packets that exceed the socket's buffer are lost.
                let _lost = stranger.send_to(&init, server.local_addr());
            }
        };
        let begun = clock::now();
        while server.inits_sifted() == 0 {
            assert!(clock::now() - begun < Duration::from_secs(60), "nothing is sifted");
            flood(200);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for _ in 0..20 {
            flood(200);
            near.send(Message::new("through")).await.unwrap();
            assert_eq!(far.recv().await.unwrap().unwrap().payload(), "through");
        }

        loop {
            assert!(
                clock::now() - begun < Duration::from_secs(120),
                "the flood is over and INITs are sifted all the same"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
            let before = (server.stats().packets_received, server.inits_sifted());
            flood(3);
            tokio::time::sleep(Duration::from_millis(50)).await;
            if (server.stats().packets_received, server.inits_sifted()) == (before.0 + 3, before.1) {
                break;
            }
        }
    }

    #[tokio::test]
    async fn who_began_an_association_remembers_its_destination_after_the_end_and_nobody_else_does() {
        let address = "127.0.0.1:0".parse().unwrap();
        for destinations_max in [10, 0] {
            let transport = Transport::default()
                .with_expert(|expert| expert.with_destination_memory(destinations_max, Duration::from_secs(600)));
            let config = ServerConfig::plain().with_transport(transport);
            let server = Endpoint::server(address, config.clone()).await.unwrap();
            let client = Endpoint::server(address, config).await.unwrap();
            let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
            let (near, far) = tokio::join!(client.connect(server.local_addr()), listener.accept());
            let (near, far) = (near.unwrap(), far.unwrap());
            let recall = |endpoint: &Endpoint, destination: &Endpoint| {
                let now = clock::now();
                lock(&endpoint.shared.destinations).recall(now, destination.local_addr())
            };
            assert_eq!(recall(&client, &server), None, "it is not over yet");
            // On a busy machine at least one of these measures the round trip.
            for _ in 0..100 {
                near.send(Message::new("how far is it")).await.unwrap();
                near.drained().await.unwrap();
            }
            let (ended, _) = tokio::join!(near.shutdown(), far.closed());
            ended.unwrap();
            assert_eq!(recall(&client, &server).is_some(), destinations_max > 0);
            assert_eq!(recall(&server, &client), None, "the peer came by itself");
        }
    }

    #[tokio::test]
    async fn a_socket_that_cannot_receive_is_asked_rarely_and_works_again_when_it_can() {
        let address = "127.0.0.1:0".parse().unwrap();
        let (server, client) = (
            Endpoint::server(address, ServerConfig::plain()).await.unwrap(),
            Endpoint::server(address, ServerConfig::plain()).await.unwrap(),
        );
        let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
        let (near, far) = tokio::join!(client.connect(server.local_addr()), listener.accept());
        let (near, far) = (near.unwrap(), far.unwrap());

        let before = server.stats();
        *lock(&server.shared.socket.receive_fault) = Some(std::io::ErrorKind::OutOfMemory);
        near.send(Message::new("patience")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(600)).await;
        let during = server.stats();
        let attempts = during.receive_calls - before.receive_calls;
        assert!((1..=32).contains(&attempts), "{attempts} attempts");
        assert_eq!(during.receive_errors - before.receive_errors, attempts);

        *lock(&server.shared.socket.receive_fault) = None;
        let received = tokio::time::timeout(Duration::from_secs(30), far.recv()).await.unwrap().unwrap();
        assert_eq!(received.unwrap().payload(), "patience");
    }
}
