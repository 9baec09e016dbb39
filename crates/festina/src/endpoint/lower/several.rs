//! Several sockets as one: an endpoint with several addresses.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use super::{LowerLayer, Received, Transmit};
use crate::runtime::Runtime;

/// Several lower layers of one kind, each with an address of its own, as one: an endpoint on it has all these addresses.
///
/// Packets for which the socket of a network has no room are lost, as in the network, while another socket has room: a network that does not take its
/// packets holds back no other.
///
/// ```
/// use festina::lower::Several;
/// use festina::{ClientConfig, Endpoint, MemoryNetwork};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let network = MemoryNetwork::new();
/// let (first, second) = (network.bind("10.0.0.1:9899".parse()?)?, network.bind("10.0.1.1:9899".parse()?)?);
/// let endpoint = Endpoint::bind_on(Several::new(first, vec![Box::new(second)]), ClientConfig::plain()).await?;
/// assert_eq!(endpoint.local_addrs().len(), 2);
/// # Ok(())
/// # }
/// ```
pub struct Several {
    first: Layer,
    others: Vec<Layer>,
    /// Where receiving begins, so that no socket waits for the others for ever.
    turn: AtomicUsize,
}

struct Layer {
    lower: Box<dyn LowerLayer>,
    /// Whether it took the last packets, or has been writable since.
    has_room: AtomicBool,
    /// Whether it has been writable. Before that, a runtime's socket refuses packets although it has room.
    has_begun: AtomicBool,
}

impl Layer {
    fn new(lower: Box<dyn LowerLayer>) -> Self {
        Self { lower, has_room: AtomicBool::new(false), has_begun: AtomicBool::new(false) }
    }

    fn has_room(&self) -> bool {
        self.has_room.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Several {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Several").field(&self.local_addrs()).finish()
    }
}

impl Several {
    /// Joins lower layers. The address of the first is [`Endpoint::local_addr`](crate::Endpoint::local_addr).
    pub fn new(first: impl LowerLayer, others: Vec<Box<dyn LowerLayer>>) -> Self {
        Self { others: others.into_iter().map(Layer::new).collect(), ..Self::of(Box::new(first)) }
    }

    /// The only one so far.
    pub(crate) fn of(first: Box<dyn LowerLayer>) -> Self {
        Self { first: Layer::new(first), others: Vec::new(), turn: AtomicUsize::new(0) }
    }

    fn layers(&self) -> impl Iterator<Item = &Layer> + Clone {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn all(&self) -> impl Iterator<Item = &dyn LowerLayer> + Clone {
        self.layers().map(|layer| &*layer.lower)
    }

    /// The layer with this address, or else the first that reaches the destination.
    fn leaving(&self, source: Option<IpAddr>, destination: SocketAddr) -> &Layer {
        let named = source.and_then(|source| self.layers().find(|layer| layer.lower.local_addr().ip() == source));
        let reaches = |layer: &&Layer| layer.lower.peer_address(destination).is_ok();
        named.or_else(|| self.layers().find(reaches)).unwrap_or(&self.first)
    }

    /// Notes whether the layer had room. Packets for which it had none are lost if another layer has room.
    fn judge(&self, layer: &Layer, sent: io::Result<()>) -> io::Result<()> {
        let is_full = sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        layer.has_room.store(!is_full, Ordering::Relaxed);
        if is_full && self.layers().any(Layer::has_room) {
            return Err(io::Error::other("the socket of this network is full"));
        }
        sent
    }
}

impl LowerLayer for Several {
    fn local_addr(&self) -> SocketAddr {
        self.first.lower.local_addr()
    }

    fn local_addrs(&self) -> Vec<SocketAddr> {
        self.all().map(LowerLayer::local_addr).collect()
    }

    /// The first is replaced. Its port stays if `address` has none and another IP address, since peers expect all addresses to have the same.
    fn rebind(&mut self, runtime: &dyn Runtime, mut address: SocketAddr) -> io::Result<()> {
        if self.others.iter().any(|layer| layer.lower.local_addr().ip() == address.ip()) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        if address.port() == 0 && address.ip() != self.local_addr().ip() {
            address.set_port(self.local_addr().port());
        }
        self.first.lower.rebind(runtime, address)?;
        self.first.has_begun = AtomicBool::new(false);
        Ok(())
    }

    fn add(&mut self, runtime: &dyn Runtime, mut address: SocketAddr) -> io::Result<()> {
        if self.all().any(|layer| layer.local_addr().ip() == address.ip()) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        if address.port() == 0 {
            address.set_port(self.local_addr().port());
        }
        self.others.push(Layer::new(self.first.lower.sibling(runtime, address)?));
        Ok(())
    }

    fn remove(&mut self, address: IpAddr) -> io::Result<()> {
        let is_it = |layer: &Layer| layer.lower.local_addr().ip() == address;
        if self.others.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the endpoint has no other address"));
        }
        if is_it(&self.first) {
            self.first = self.others.remove(0);
            return Ok(());
        }
        let at = self.others.iter().position(is_it).ok_or(io::ErrorKind::AddrNotAvailable)?;
        self.others.remove(at);
        Ok(())
    }

    fn peer_address(&self, remote: SocketAddr) -> Result<SocketAddr, &'static str> {
        let first = self.first.lower.peer_address(remote);
        first.or_else(|problem| self.all().find_map(|layer| layer.peer_address(remote).ok()).ok_or(problem))
    }

    fn segments_max(&self) -> usize {
        self.all().map(LowerLayer::segments_max).min().unwrap_or(1)
    }

    fn try_send(&self, packets: &Transmit<'_>) -> io::Result<()> {
        let layer = self.leaving(packets.source, packets.destination);
        self.judge(layer, layer.lower.try_send(packets))
    }

    fn try_send_in_fragments(&self, packet: &Transmit<'_>) -> Option<io::Result<()>> {
        let layer = self.leaving(packet.source, packet.destination);
        Some(self.judge(layer, layer.lower.try_send_in_fragments(packet)?))
    }

    fn path_bytes(&self, destination: SocketAddr) -> Option<usize> {
        self.leaving(None, destination).lower.path_bytes(destination)
    }

    fn try_receive(&self, buffers: &mut [IoSliceMut<'_>], incoming: &mut [Received]) -> io::Result<usize> {
        let count = 1 + self.others.len();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % count;
        let (mut filled, mut failed) = (0, None);
        for layer in self.all().cycle().skip(turn).take(count) {
            let (Some(buffers), Some(incoming)) = (buffers.get_mut(filled..), incoming.get_mut(filled..)) else {
                break;
            };
            if buffers.is_empty() {
                break;
            }
            match layer.try_receive(buffers, incoming) {
                Ok(more) => {
                    let own = layer.local_addr().ip();
                    incoming.iter_mut().take(more).for_each(|received| received.to = Some(own));
                    filled += more;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The others may still receive.
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            _ if filled > 0 => Ok(filled),
            Some(error) => Err(error),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut readable = Poll::Pending;
        // Each is asked, so that each wakes the task.
        for layer in self.all() {
            match layer.poll_readable(context) {
                Poll::Pending => {}
                ready => readable = ready,
            }
        }
        readable
    }

    /// Ready once each has been writable, and whenever one is.
    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (mut is_any_ready, mut have_all_begun) = (false, true);
        for layer in self.layers() {
            let is_ready = match layer.lower.poll_writable(context) {
                Poll::Pending => false,
                Poll::Ready(Ok(())) => true,
                failed @ Poll::Ready(Err(_)) => return failed,
            };
            layer.has_room.store(is_ready, Ordering::Relaxed);
            have_all_begun &= is_ready || layer.has_begun.load(Ordering::Relaxed);
            layer.has_begun.fetch_or(is_ready, Ordering::Relaxed);
            is_any_ready |= is_ready;
        }
        if is_any_ready && have_all_begun { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn shed_inits(&self, halvings: u32) -> io::Result<()> {
        self.all().try_for_each(|layer| layer.shed_inits(halvings))
    }
}
