//! A UDP proxy whose two directions are links of the simulator.

mod clients;
mod counters;
mod datagram;
mod event_loop;
mod tap;
mod upstream;

pub use clients::CLIENTS_MAX;
pub use counters::ProxyCounters;
pub use tap::{Tap, TapRecord};

use std::io;
use std::net::SocketAddr;

use festina_netsim::LinkConfig;

use crate::client_socket::ClientSocket;
use crate::clock::Clock;
use crate::passage::MeasuredLink;
use crate::tap::Direction;
use crate::worker::{self, Handle, Worker};
use clients::Clients;
use event_loop::EventLoop;

/// A UDP proxy that is bound but not running yet: [`spawn`](Self::spawn) starts it.
///
/// All clients share one link per direction, as they would share a bottleneck. Each has an upstream socket of its own,
/// so that the server can tell them apart. Datagrams count with their IP and UDP headers towards rates and queues in
/// bytes. ECN marks are not carried over.
pub struct UdpProxy {
    event_loop: EventLoop,
    local_addr: SocketAddr,
    handle: Handle<ProxyCounters>,
}

impl UdpProxy {
    /// Listens on `listen` for datagrams to `target`, which pass the `forward` link; answers pass the `backward` link.
    /// `seed` determines the random decisions of the links.
    ///
    /// # Errors
    /// If a socket cannot be made or bound.
    pub fn bind(
        listen: SocketAddr,
        target: SocketAddr,
        forward: LinkConfig,
        backward: LinkConfig,
        seed: u64,
    ) -> io::Result<Self> {
        let socket = ClientSocket::bind(listen)?;
        let local_addr = socket.socket().local_addr()?;
        let (strings, handle) = worker::strings()?;
        let event_loop = EventLoop::new(
            socket,
            Clients::new(target, CLIENTS_MAX),
            MeasuredLink::new(forward, seed, Direction::Forward),
            MeasuredLink::new(backward, seed, Direction::Backward),
            strings,
        );
        Ok(Self { event_loop, local_addr, handle })
    }

    /// Adds addresses of the server. Until the server has answered a client, an address that refuses the client's datagrams is
    /// followed by the next one.
    #[must_use]
    pub fn with_other_targets(mut self, targets: &[SocketAddr]) -> Self {
        self.event_loop.add_targets(targets);
        self
    }

    /// Shows every datagram to `tap`, which runs on the proxy's thread and must therefore be quick.
    #[must_use]
    pub fn with_tap(mut self, tap: Tap) -> Self {
        self.event_loop.set_tap(tap);
        self
    }

    /// The address that clients send to; its port is the real one if port 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Starts the proxy on a thread of its own.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn spawn(self) -> io::Result<RunningProxy> {
        let mut event_loop = self.event_loop;
        let worker = Worker::spawn("udp-proxy", self.handle, move || event_loop.run(Clock::start()))?;
        Ok(RunningProxy { local_addr: self.local_addr, worker })
    }
}

/// A running proxy. Dropping it stops the proxy and waits for its thread, which takes well below a
/// millisecond.
#[derive(Debug)]
pub struct RunningProxy {
    local_addr: SocketAddr,
    worker: Worker<ProxyCounters>,
}

impl RunningProxy {
    /// The address that clients send to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Returns the counters of the proxy so far.
    pub fn counters(&self) -> ProxyCounters {
        self.worker.counters()
    }

    /// Returns whether the proxy has ended by itself, which only an error can cause; [`stop`](Self::stop) returns the
    /// error.
    pub fn has_failed(&self) -> bool {
        self.worker.has_failed()
    }

    /// Stops the proxy and returns its final counters. Datagrams in transit are discarded.
    ///
    /// # Errors
    /// If the proxy had already ended because of an error of a socket or of the wait.
    pub fn stop(self) -> io::Result<ProxyCounters> {
        self.worker.stop()
    }
}
