//! The door to the lower layer: how packets of an endpoint leave and arrive.

mod memory;
#[cfg(target_os = "linux")]
mod path_mtu;
#[cfg(unix)]
mod raw;
mod several;
mod udp;

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use festina_units::{EcnCodepoint, Preview};

use crate::runtime::Runtime;

pub use self::memory::{MemoryNetwork, MemorySocket};
pub use self::several::Several;
pub(crate) use self::udp::UdpLayer;

/// A socket that carries the packets of one endpoint, such as UDP, raw IP or memory. [`Endpoint::bind_on`](crate::Endpoint::bind_on) takes one.
///
/// Calls never wait, and several threads make them at the same time. The readiness of both directions is polled by the endpoint's one task. A
/// call handles a batch in either direction, so a virtual call is made per batch and not per packet.
pub trait LowerLayer: fmt::Debug + Send + Sync + 'static {
    /// Returns the address at which peers reach this side.
    fn local_addr(&self) -> SocketAddr;

    /// Returns all addresses at which peers reach this side, [`local_addr`](Self::local_addr) first. If there are several, each received packet names
    /// [the one](Received::to) that it was sent to.
    fn local_addrs(&self) -> Vec<SocketAddr> {
        vec![self.local_addr()]
    }

    /// Replaces the socket at [`local_addr`](Self::local_addr) by one at `address`. A port of 0 lets the system choose one.
    ///
    /// # Errors
    /// The address cannot be bound, and the socket stays; or the lower layer cannot do that.
    fn rebind(&mut self, _runtime: &dyn Runtime, _address: SocketAddr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Opens a socket at `address` besides the others. Its port is theirs if `address` has none.
    ///
    /// # Errors
    /// The address cannot be bound; or the lower layer has one address: [`Several`] has more.
    fn add(&mut self, _runtime: &dyn Runtime, _address: SocketAddr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Closes the socket with this address. The next one becomes the first if it was that.
    ///
    /// # Errors
    /// There is no such socket, or no other; or the lower layer has one address.
    fn remove(&mut self, _address: IpAddr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Opens a lower layer of the same kind, for [`Several`].
    ///
    /// # Errors
    /// The address cannot be bound, or this kind cannot do that.
    fn sibling(&self, _runtime: &dyn Runtime, _address: SocketAddr) -> io::Result<Box<dyn LowerLayer>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the address to [`rebind`](Self::rebind) to, if that of the socket is no address of this host any more, such as after DHCP has given it
    /// another. `destination` is where a packet was not sent.
    fn address_instead(&self, _destination: SocketAddr) -> Option<SocketAddr> {
        None
    }

    /// Returns the address of a peer in the form in which received packets name it.
    ///
    /// # Errors
    /// The fault of the address, as a sentence for people.
    fn peer_address(&self, remote: SocketAddr) -> Result<SocketAddr, &'static str>;

    /// Returns the number of packets of one size that one call of [`try_send`](Self::try_send) may carry. It is asked again after a failed call.
    fn segments_max(&self) -> usize {
        1
    }

    /// Sends packets.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) while there is no room; [`poll_writable`](Self::poll_writable) then reports when there is. Any other
    /// error counts as the loss of the packets.
    fn try_send(&self, packets: &Transmit<'_>) -> io::Result<()>;

    /// Sends one packet that [`try_send`](Self::try_send) refused because of its size, in fragments; `None` if that is not possible.
    fn try_send_in_fragments(&self, _packet: &Transmit<'_>) -> Option<io::Result<()>> {
        None
    }

    /// Returns the size of the largest packet that reaches a destination in one piece, in bytes, as far as it is known.
    fn path_bytes(&self, _destination: SocketAddr) -> Option<usize> {
        None
    }

    /// Receives a batch of datagrams, each into one of the buffers and described by the element of `incoming` with the same index. Returns their
    /// number, which is below that of the buffers only if no more had come. A busy driver also calls it without asking
    /// [`poll_readable`](Self::poll_readable) first, so it must ask the system and not rely on the runtime's last report.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if nothing has come; [`poll_readable`](Self::poll_readable) then says when.
    fn try_receive(&self, buffers: &mut [IoSliceMut<'_>], incoming: &mut [Received]) -> io::Result<usize>;

    /// Ready when packets may be received.
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ready when packets may be sent.
    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Drops incoming INITs at random before they are received, so that one of two to the power of `halvings` remains; none if it is 0.
    ///
    /// # Errors
    /// The lower layer cannot do that.
    fn shed_inits(&self, _halvings: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Packets to send with one call.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Transmit<'a> {
    /// The peer.
    pub destination: SocketAddr,
    /// The own address to send from, if there are several.
    pub source: Option<IpAddr>,
    /// The ECN field of each packet.
    pub ecn: EcnCodepoint,
    /// The packets, one after the other.
    pub contents: &'a [u8],
    /// The size of each packet; the last one may be shorter.
    pub segment_bytes: usize,
}

impl fmt::Debug for Transmit<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { destination, source, ecn, contents, segment_bytes } = self;
        formatter
            .debug_struct("Transmit")
            .field("destination", destination)
            .field("source", source)
            .field("ecn", ecn)
            .field("contents", &Preview(contents))
            .field("segment_bytes", segment_bytes)
            .finish()
    }
}

impl<'a> Transmit<'a> {
    /// The packets one by one.
    pub fn packets(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.contents.chunks(self.segment_bytes.max(1))
    }

    /// Whether there are several packets.
    pub fn is_train(&self) -> bool {
        self.segment_bytes < self.contents.len()
    }
}

/// A received datagram, or several of one size in a row.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// The sender.
    pub from: SocketAddr,
    /// The own address that it was sent to, in the form in which answers name it.
    pub to: Option<IpAddr>,
    /// The ECN field.
    pub ecn: EcnCodepoint,
    /// Bytes at the start of the buffer that belong to no SCTP packet, such as an IP header.
    pub header_bytes: usize,
    /// Bytes in the buffer, with the header.
    pub bytes: usize,
    /// The size of each packet; the last one may be shorter.
    pub segment_bytes: usize,
}

impl Default for Received {
    fn default() -> Self {
        let from = SocketAddr::from(([0, 0, 0, 0], 0));
        Self { from, to: None, ecn: EcnCodepoint::NotCapable, header_bytes: 0, bytes: 0, segment_bytes: 0 }
    }
}
