//! Packets that never leave the process, for tests.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use festina_units::EcnCodepoint;

use super::{LowerLayer, Received, Transmit};
use crate::locks::lock;
use crate::runtime::Runtime;

/// Packets that may wait at a socket; more are lost.
const PACKETS_MAX: usize = 4_096;

/// A network in memory. Packets arrive at once and in order, or are lost where the network's filter says so or nothing is bound.
///
/// ```
/// use festina::{ClientConfig, DEFAULT_SCTP_PORT, Endpoint, MemoryNetwork, ServerConfig};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let network = MemoryNetwork::new();
/// let server = Endpoint::bind_on(network.bind("10.0.0.1:9899".parse()?)?, ServerConfig::plain()).await?;
/// let client = Endpoint::bind_on(network.bind("10.0.0.2:9899".parse()?)?, ClientConfig::plain()).await?;
/// let listener = server.listen(DEFAULT_SCTP_PORT)?;
/// let near = client.connect("10.0.0.1:9899").await?;
/// let far = listener.accept().await.ok_or("closed")?;
/// near.send("no socket was opened").await?;
/// assert_eq!(far.recv().await?.expect("a message").payload(), "no socket was opened");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct MemoryNetwork {
    sockets: Arc<Mutex<Inboxes>>,
    filter: Option<Arc<Filter>>,
}

type Inboxes = HashMap<SocketAddr, Arc<Mutex<Inbox>>>;

/// Decides by source, destination and packet whether a packet arrives.
type Filter = dyn Fn(SocketAddr, SocketAddr, &[u8]) -> bool + Send + Sync;

impl std::fmt::Debug for MemoryNetwork {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("MemoryNetwork").field("sockets", &lock(&self.sockets).len()).finish_non_exhaustive()
    }
}

/// The packets that wait at a socket.
#[derive(Debug, Default)]
struct Inbox {
    packets: VecDeque<(SocketAddr, EcnCodepoint, Box<[u8]>)>,
    reader: Option<Waker>,
}

impl MemoryNetwork {
    /// Returns a network without sockets that loses nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a network that delivers the packets for which `arrives`, given source, destination and packet, returns true.
    #[must_use]
    pub fn with_filter(arrives: impl Fn(SocketAddr, SocketAddr, &[u8]) -> bool + Send + Sync + 'static) -> Self {
        Self { filter: Some(Arc::new(arrives)), ..Self::default() }
    }

    /// Opens a socket at this address until it is dropped.
    ///
    /// # Errors
    /// [`AddrInUse`](io::ErrorKind::AddrInUse) if the address has a socket.
    pub fn bind(&self, address: SocketAddr) -> io::Result<MemorySocket> {
        let mut sockets = lock(&self.sockets);
        if sockets.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let inbox = Arc::<Mutex<Inbox>>::default();
        sockets.insert(address, inbox.clone());
        Ok(MemorySocket { network: self.clone(), address, inbox })
    }
}

/// A socket of a [`MemoryNetwork`].
#[derive(Debug)]
pub struct MemorySocket {
    network: MemoryNetwork,
    address: SocketAddr,
    inbox: Arc<Mutex<Inbox>>,
}

impl LowerLayer for MemorySocket {
    fn local_addr(&self) -> SocketAddr {
        self.address
    }

    fn rebind(&mut self, _runtime: &dyn Runtime, address: SocketAddr) -> io::Result<()> {
        *self = self.network.bind(address)?;
        Ok(())
    }

    fn sibling(&self, _runtime: &dyn Runtime, address: SocketAddr) -> io::Result<Box<dyn LowerLayer>> {
        Ok(Box::new(self.network.bind(address)?))
    }

    fn peer_address(&self, remote: SocketAddr) -> Result<SocketAddr, &'static str> {
        Ok(remote)
    }

    fn segments_max(&self) -> usize {
        64
    }

    fn try_send(&self, packets: &Transmit<'_>) -> io::Result<()> {
        let Some(inbox) = lock(&self.network.sockets).get(&packets.destination).cloned() else { return Ok(()) };
        let arrives = |packet: &&[u8]| match &self.network.filter {
            Some(filter) => filter(self.address, packets.destination, packet),
            None => true,
        };
        // The filter runs without a lock.
        let arriving: Vec<&[u8]> = packets.packets().filter(arrives).collect();
        let mut inbox = lock(&inbox);
        for packet in arriving {
            if inbox.packets.len() < PACKETS_MAX {
                inbox.packets.push_back((self.address, packets.ecn, packet.into()));
            }
        }
        let reader = inbox.reader.take();
        drop(inbox);
        if let Some(reader) = reader {
            reader.wake();
        }
        Ok(())
    }

    fn try_receive(&self, buffers: &mut [IoSliceMut<'_>], incoming: &mut [Received]) -> io::Result<usize> {
        let mut inbox = lock(&self.inbox);
        let mut count = 0;
        for (buffer, incoming) in buffers.iter_mut().zip(incoming) {
            let Some((from, ecn, packet)) = inbox.packets.pop_front() else { break };
            let bytes = packet.len().min(buffer.len());
            buffer[..bytes].copy_from_slice(&packet[..bytes]);
            *incoming = Received { from, ecn, bytes, segment_bytes: bytes, ..Received::default() };
            count += 1;
        }
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inbox = lock(&self.inbox);
        if !inbox.packets.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let replaced = inbox.reader.replace(context.waker().clone());
        drop(inbox);
        drop(replaced);
        Poll::Pending
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for MemorySocket {
    fn drop(&mut self) {
        lock(&self.network.sockets).remove(&self.address);
    }
}
