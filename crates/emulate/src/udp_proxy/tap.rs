//! Watching datagrams on their way through a proxy.

use std::net::SocketAddr;

use festina_netsim::Admission;
use festina_units::Instant;

/// Is shown every datagram that passes the proxy.
pub type Tap = Box<dyn FnMut(TapRecord<'_>) + Send>;

/// One datagram at one end of a link.
#[derive(Debug, Clone, Copy)]
pub struct TapRecord<'a> {
    /// When, counted from the Unix epoch.
    pub at: Instant,
    /// Which link.
    pub direction: Direction,
    /// The client's address, whichever way the datagram goes.
    pub client: SocketAddr,
    /// The server's address.
    pub target: SocketAddr,
    /// What the datagram carries.
    pub payload: &'a [u8],
    /// What happened to it.
    pub event: TapEvent,
}

impl TapRecord<'_> {
    /// The address of the end that sent the datagram.
    pub fn source(&self) -> SocketAddr {
        match self.direction {
            Direction::Forward => self.client,
            Direction::Backward => self.target,
        }
    }

    /// The address of the end that the datagram is for.
    pub fn destination(&self) -> SocketAddr {
        match self.direction {
            Direction::Forward => self.target,
            Direction::Backward => self.client,
        }
    }
}

/// Which of the proxy's two links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From a client to the server.
    Forward,
    /// From the server to a client.
    Backward,
}

/// What happened to a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TapEvent {
    /// It entered the link, or failed to.
    Offered(Admission),
    /// It left the link and was sent on. A duplicated datagram does so twice.
    Delivered,
}
