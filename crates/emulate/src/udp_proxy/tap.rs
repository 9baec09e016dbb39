//! Observation of datagrams in a proxy.

use std::net::SocketAddr;

use festina_units::Instant;

use crate::tap::{Direction, TapEvent};

/// A function that is called with every datagram.
pub type Tap = Box<dyn FnMut(TapRecord<'_>) + Send>;

/// One datagram at one end of a link.
#[derive(Debug, Clone, Copy)]
pub struct TapRecord<'a> {
    /// Time since the Unix epoch.
    pub at: Instant,
    /// Which link.
    pub direction: Direction,
    /// The client's address, in both directions.
    pub client: SocketAddr,
    /// The server's address.
    pub target: SocketAddr,
    /// The payload of the datagram.
    pub payload: &'a [u8],
    /// Its fate.
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
