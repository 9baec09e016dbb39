//! Endpoints, listeners and handshakes.

use std::future::Future;
#[cfg(unix)]
use std::io;
use std::net::{IpAddr, SocketAddr};
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use festina_units::Duration;
use tokio::task::JoinHandle;

use super::association::Association;
use super::readiness::{Ready, ReadyKind, Signal};
use super::runtime::OpenError;
use super::shared::Shared;
use super::source::Source;
use super::wait::wait;
use super::{TimedOut, WaitError};
use crate::address::Host;
use crate::config::{ClientConfig, ServerConfig};
use crate::endpoint::{ConnectOptions, EndpointStats, ListenOptions, PendingRequest, Requests, SeenPacket};
use crate::error::{BindError, ConnectError, ListenError};

/// One UDP socket that carries any number of associations, and the thread that serves it.
///
/// Dropping it and all its objects shuts the associations down gracefully in the background.
#[derive(Debug)]
pub struct Endpoint {
    shared: Arc<Shared>,
}

impl Endpoint {
    /// Opens a UDP socket to connect, and starts a thread that receives packets and runs timers. Port 0 lets the system choose.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn client(address: SocketAddr, config: ClientConfig) -> Result<Self, OpenError> {
        Ok(Self { shared: Shared::open(address, config.into())? })
    }

    /// Opens a UDP socket and starts a thread as [`Endpoint::client`] does, to listen.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn server(address: SocketAddr, config: ServerConfig) -> Result<Self, OpenError> {
        Ok(Self { shared: Shared::open(address, config.into())? })
    }

    /// Listens on an SCTP port until the listener is dropped.
    ///
    /// # Errors
    /// As [`festina::Endpoint::listen`](crate::Endpoint::listen).
    pub fn listen(&self, port: u16) -> Result<Listener, ListenError> {
        self.listen_with(port, ListenOptions::default())
    }

    /// As [`Endpoint::listen`], for peers that `options` admit.
    ///
    /// # Errors
    /// As [`Endpoint::listen`].
    pub fn listen_with(&self, port: u16, options: ListenOptions) -> Result<Listener, ListenError> {
        let holds = options.holds();
        let listener = self.listen_natively(port, options)?;
        let signal = |kind| Signal::new(&self.shared.ready, kind, 0);
        let requests = holds.then(|| Source::new(listener.requests(), signal(ReadyKind::Request)));
        let accepted = Source::new(listener, signal(ReadyKind::Accept));
        Ok(Listener { accepted, requests, shared: self.shared.clone() })
    }

    pub(super) fn listen_natively(&self, port: u16, options: ListenOptions) -> Result<crate::Listener, ListenError> {
        self.shared.endpoint.listen_with(port, options)
    }

    /// Sets up an association with [`DEFAULT_SCTP_PORT`](crate::DEFAULT_SCTP_PORT) at a host such as `game.example:9899`, and waits for it, at most 15 s.
    /// The server's certificate must have the host's name, unless fingerprints are trusted.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(&self, host: impl Into<Host>) -> Result<Association, ConnectError> {
        self.connect_with(host, ConnectOptions::default())
    }

    /// Sets up an association as [`festina::Endpoint::connect_with`](crate::Endpoint::connect_with) does, and waits for it. The time limit is that of
    /// the options.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect_with(&self, host: impl Into<Host>, options: ConnectOptions) -> Result<Association, ConnectError> {
        match self.start_connect(host, options).finish(None) {
            Ok(association) => Ok(association),
            Err(WaitError::Failed(error)) => Err(error),
            Err(WaitError::TimedOut) => Err(ConnectError::EndpointClosed),
        }
    }

    /// Starts to set up an association as [`Endpoint::connect_with`] does, without waiting.
    pub fn start_connect(&self, host: impl Into<Host>, options: ConnectOptions) -> Connecting {
        let signal = Signal::new(&self.shared.ready, ReadyKind::Connect, 0);
        let handshake = Once(Some(self.handshake(host.into(), options)));
        Connecting { handshake: Source::new(handshake, signal), shared: self.shared.clone() }
    }

    /// Another handle of the same endpoint.
    pub(super) fn another(&self) -> Self {
        Self { shared: self.shared.clone() }
    }

    pub(super) fn handshake(&self, host: Host, options: ConnectOptions) -> Handshake {
        let endpoint = self.shared.endpoint.clone();
        Handshake(self.shared.thread.handle().spawn(async move { endpoint.connect_with(host, options).await }))
    }

    /// Waits until objects of the endpoint are ready, and appends at most `count` of them to `ready`. Each new object starts as ready. It is reported
    /// again until the call of its kind returns nothing, so repeat that call.
    ///
    /// # Errors
    /// The time limit has passed.
    pub fn ready(
        &self,
        ready: &mut Vec<Ready>,
        count: usize,
        limit: impl Into<Option<Duration>>,
    ) -> Result<(), TimedOut> {
        self.shared.ready.wait(ready, count, limit)
    }

    /// Returns a descriptor that is readable while [`Endpoint::ready`] would not wait.
    ///
    /// # Errors
    /// The system has no descriptor left.
    #[cfg(unix)]
    pub fn ready_descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.shared.ready.descriptor()
    }

    /// Closes the endpoint and all its associations gracefully, and waits until they have ended and the socket is closed. This continues after the
    /// time limit.
    ///
    /// # Errors
    /// The time limit has passed.
    pub fn close(&self, limit: impl Into<Option<Duration>>) -> Result<(), TimedOut> {
        wait(self.closing(), limit.into())
    }

    /// Closes the endpoint. The future needs no runtime.
    pub(super) fn closing(&self) -> impl Future<Output = ()> + Send + use<> {
        let shared = self.shared.clone();
        async move {
            shared.endpoint.close().await;
            shared.thread.closed();
        }
    }
}

/// Calls that never wait, the same without `async`.
impl Endpoint {
    /// As [`festina::Endpoint::local_addr`](crate::Endpoint::local_addr).
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.endpoint.local_addr()
    }

    /// As [`festina::Endpoint::rebind`](crate::Endpoint::rebind).
    ///
    /// # Errors
    /// As [`festina::Endpoint::rebind`](crate::Endpoint::rebind).
    pub fn rebind(&self, address: SocketAddr) -> Result<(), BindError> {
        self.shared.endpoint.rebind(address)
    }

    /// As [`festina::Endpoint::add_address`](crate::Endpoint::add_address).
    ///
    /// # Errors
    /// As [`festina::Endpoint::add_address`](crate::Endpoint::add_address).
    pub fn add_address(&self, address: SocketAddr) -> Result<(), BindError> {
        self.shared.endpoint.add_address(address)
    }

    /// As [`festina::Endpoint::remove_address`](crate::Endpoint::remove_address).
    ///
    /// # Errors
    /// As [`festina::Endpoint::remove_address`](crate::Endpoint::remove_address).
    pub fn remove_address(&self, address: IpAddr) -> Result<(), BindError> {
        self.shared.endpoint.remove_address(address)
    }

    /// As [`festina::Endpoint::observe`](crate::Endpoint::observe).
    pub fn observe(&self, observer: impl Fn(SeenPacket<'_>) + Send + Sync + 'static) -> bool {
        self.shared.endpoint.observe(observer)
    }

    /// As [`festina::Endpoint::stats`](crate::Endpoint::stats).
    pub fn stats(&self) -> EndpointStats {
        self.shared.endpoint.stats()
    }

    /// As [`festina::Endpoint::inits_sifted`](crate::Endpoint::inits_sifted).
    pub fn inits_sifted(&self) -> u64 {
        self.shared.endpoint.inits_sifted()
    }

    /// Exports the counters of the endpoint as [`Metrics::show_endpoint`](crate::Metrics::show_endpoint) does.
    #[cfg(feature = "prometheus")]
    pub fn show_in(&self, metrics: &crate::Metrics) {
        metrics.show_endpoint(&self.shared.endpoint);
    }
}

/// Accepts associations on one SCTP port of an endpoint. Dropping it stops listening and shuts down associations that were not accepted.
#[derive(Debug)]
pub struct Listener {
    accepted: Source<crate::Listener>,
    /// Only if requests wait for a decision.
    requests: Option<Source<Requests>>,
    shared: Arc<Shared>,
}

impl Listener {
    /// Waits for the next association that a peer set up; `None` after the endpoint was closed.
    ///
    /// # Errors
    /// The time limit passed.
    pub fn accept(&self, limit: impl Into<Option<Duration>>) -> Result<Option<Association>, TimedOut> {
        let accepted = self.accepted.next(limit.into())?;
        Ok(accepted.map(|association| Association::new(association, &self.shared, 0)))
    }

    /// Returns the next association if one is available; `None` in any other case, and after the endpoint was closed.
    pub fn try_accept(&self) -> Option<Association> {
        self.accept(Duration::ZERO).ok().flatten()
    }

    /// Waits for the next request that needs a decision: [`ListenOptions::hold_requests`]. `None` after the endpoint was closed, and at
    /// once if requests do not wait for a decision.
    ///
    /// # Errors
    /// The time limit passed.
    pub fn request(&self, limit: impl Into<Option<Duration>>) -> Result<Option<PendingRequest>, TimedOut> {
        self.requests.as_ref().map_or(Ok(None), |requests| requests.next(limit.into()))
    }

    /// Returns whether requests wait for a decision.
    pub fn holds_requests(&self) -> bool {
        self.requests.is_some()
    }

    /// Returns the next request that needs a decision, if one is available.
    pub fn try_request(&self) -> Option<PendingRequest> {
        self.request(Duration::ZERO).ok().flatten()
    }

    /// Sets the token by which [`Endpoint::ready`] reports the listener; 0 before.
    pub fn set_token(&self, token: u64) {
        self.accepted.signal().set_token(token);
        if let Some(requests) = &self.requests {
            requests.signal().set_token(token);
        }
    }

    /// Returns a descriptor that is readable when [`Listener::request`] would not wait. It stays so until [`Listener::try_request`] has found
    /// nothing.
    ///
    /// # Errors
    /// The system has no descriptor left, or requests do not wait for a decision.
    #[cfg(unix)]
    pub fn request_descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        let none = || io::Error::new(io::ErrorKind::Unsupported, "requests do not wait for a decision");
        self.requests.as_ref().ok_or_else(none)?.descriptor()
    }

    /// Returns a descriptor that is readable when [`Listener::accept`] would not wait. It stays so until [`Listener::try_accept`] has found
    /// nothing.
    ///
    /// # Errors
    /// The system has no descriptor left.
    #[cfg(unix)]
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.accepted.descriptor()
    }
}

/// A handshake started by [`Endpoint::start_connect`]. Dropping it cancels the handshake.
#[derive(Debug)]
pub struct Connecting {
    handshake: Source<Once<Handshake>>,
    shared: Arc<Shared>,
}

impl Connecting {
    /// Waits for the association and returns it, once.
    ///
    /// # Errors
    /// The time limit has passed while the handshake continues, the handshake failed, or its result was already taken.
    pub fn finish(&self, limit: impl Into<Option<Duration>>) -> Result<Association, WaitError<ConnectError>> {
        match self.handshake.next(limit.into()) {
            Ok(Some(Ok(association))) => {
                Ok(Association::new(association, &self.shared, self.handshake.signal().token()))
            }
            Ok(Some(Err(error))) => Err(WaitError::Failed(error)),
            Ok(None) => Err(WaitError::Failed(ConnectError::ResultTaken)),
            Err(TimedOut) => Err(WaitError::TimedOut),
        }
    }

    /// Returns the result of a completed handshake, once.
    pub fn try_finish(&self) -> Option<Result<Association, ConnectError>> {
        match self.finish(Duration::ZERO) {
            Ok(association) => Some(Ok(association)),
            Err(WaitError::Failed(ConnectError::ResultTaken) | WaitError::TimedOut) => None,
            Err(WaitError::Failed(error)) => Some(Err(error)),
        }
    }

    /// Sets the token by which [`Endpoint::ready`] reports the handshake and then the association; 0 before.
    pub fn set_token(&self, token: u64) {
        self.handshake.signal().set_token(token);
    }

    /// Returns a descriptor that is readable when [`Connecting::finish`] would not wait.
    ///
    /// # Errors
    /// The system has no descriptor left.
    #[cfg(unix)]
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.handshake.descriptor()
    }
}

/// A handshake that a task of the endpoint's thread carries out.
#[derive(Debug)]
pub(super) struct Handshake(JoinHandle<Result<crate::Association, ConnectError>>);

impl Future for Handshake {
    type Output = Result<crate::Association, ConnectError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The task ends without a result only if the runtime is gone.
        Pin::new(&mut self.0).poll(context).map(|result| result.unwrap_or(Err(ConnectError::EndpointClosed)))
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The result of a future as a stream of one item.
#[derive(Debug)]
struct Once<F>(Option<F>);

impl<F: Future + Unpin> futures_core::Stream for Once<F> {
    type Item = F::Output;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        let Some(future) = self.0.as_mut() else { return Poll::Ready(None) };
        let result = ready!(Pin::new(future).poll(context));
        self.0 = None;
        Poll::Ready(Some(result))
    }
}
