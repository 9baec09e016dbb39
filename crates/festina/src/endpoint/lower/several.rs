//! Several sockets as one: an endpoint with several addresses.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use super::{LowerLayer, Received, Transmit};

/// Several lower layers of one kind, each with an address of its own, as one: an endpoint on it has all these addresses.
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
    first: Box<dyn LowerLayer>,
    others: Vec<Box<dyn LowerLayer>>,
    /// Where receiving begins, so that no socket waits for the others for ever.
    turn: AtomicUsize,
}

impl fmt::Debug for Several {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Several").field(&self.local_addrs()).finish()
    }
}

impl Several {
    /// Joins lower layers. The address of the first is [`Endpoint::local_addr`](crate::Endpoint::local_addr).
    pub fn new(first: impl LowerLayer, others: Vec<Box<dyn LowerLayer>>) -> Self {
        Self { first: Box::new(first), others, turn: AtomicUsize::new(0) }
    }

    fn all(&self) -> impl Iterator<Item = &dyn LowerLayer> + Clone {
        std::iter::once(&*self.first).chain(self.others.iter().map(|other| &**other))
    }

    /// The layer with this address, or else the first that reaches the destination.
    fn leaving(&self, source: Option<IpAddr>, destination: SocketAddr) -> &dyn LowerLayer {
        let named = source.and_then(|source| self.all().find(|layer| layer.local_addr().ip() == source));
        let reaches = |layer: &&dyn LowerLayer| layer.peer_address(destination).is_ok();
        named.or_else(|| self.all().find(reaches)).unwrap_or(&*self.first)
    }

    /// Ready when all are: packets to different addresses leave in one order.
    fn poll_all(&self, mut poll: impl FnMut(&dyn LowerLayer) -> Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        let mut is_pending = false;
        for layer in self.all() {
            match poll(layer) {
                Poll::Pending => is_pending = true,
                Poll::Ready(Ok(())) => {}
                failed @ Poll::Ready(Err(_)) => return failed,
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

impl LowerLayer for Several {
    fn local_addr(&self) -> SocketAddr {
        self.first.local_addr()
    }

    fn local_addrs(&self) -> Vec<SocketAddr> {
        self.all().map(LowerLayer::local_addr).collect()
    }

    fn peer_address(&self, remote: SocketAddr) -> Result<SocketAddr, &'static str> {
        let first = self.first.peer_address(remote);
        first.or_else(|problem| self.others.iter().find_map(|layer| layer.peer_address(remote).ok()).ok_or(problem))
    }

    fn segments_max(&self) -> usize {
        self.all().map(LowerLayer::segments_max).min().unwrap_or(1)
    }

    fn try_send(&self, packets: &Transmit<'_>) -> io::Result<()> {
        self.leaving(packets.source, packets.destination).try_send(packets)
    }

    fn try_send_in_fragments(&self, packet: &Transmit<'_>) -> Option<io::Result<()>> {
        self.leaving(packet.source, packet.destination).try_send_in_fragments(packet)
    }

    fn path_bytes(&self, destination: SocketAddr) -> Option<usize> {
        self.leaving(None, destination).path_bytes(destination)
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

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_all(|layer| layer.poll_writable(context))
    }

    fn shed_inits(&self, halvings: u32) -> io::Result<()> {
        self.all().try_for_each(|layer| layer.shed_inits(halvings))
    }
}
