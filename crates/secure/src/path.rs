//! The path of a datagram.

use core::net::{IpAddr, SocketAddr};

/// The addresses of both ends of a datagram, as its receiver sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The sender's address.
    pub remote: SocketAddr,
    /// The receiver's address, if it has several.
    pub local: Option<IpAddr>,
}

impl From<SocketAddr> for Path {
    fn from(remote: SocketAddr) -> Self {
        Self { remote, local: None }
    }
}
