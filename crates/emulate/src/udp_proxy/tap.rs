//! Watching datagrams on their way through a proxy.

use std::net::SocketAddr;

use festina_units::Instant;

use crate::tap::{Direction, TapEvent};

/// Is shown every datagram that passes the proxy.
pub type Tap = Box<dyn FnMut(TapRecord<'_>) + Send>;

/// One datagram at one end of a link.
#[derive(Debug, Clone, Copy)]
pub struct TapRecord<'a> {
    /// When, counted from the Unix epoch.
    pub at: Instant,
    /// Which link.
    pub direction: Direction,
    /// The client's address, in both directions.
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
