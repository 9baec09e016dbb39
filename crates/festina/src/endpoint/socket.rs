//! The endpoint's one socket, over the lower layer that was chosen at its creation.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use festina_sctp::Fragmentation;
use festina_units::EcnCodepoint;

use super::lower::{LowerLayer, Received, Several, Transmit, UdpLayer};
use super::observe::Observation;
use super::refusals::{Refusal, Refusals, is_too_large};
use crate::error::BindError;
use crate::program;
use crate::runtime::Runtime;

/// Attempts to find a port that is free at each of several addresses.
const PORTS_TRIED_MAX: u32 = 16;

/// The lower layer and what went through it.
#[derive(Debug)]
pub(crate) struct Socket {
    /// Taken out when the endpoint is closed, though handles of it may stay.
    lower: RwLock<Option<Box<dyn LowerLayer>>>,
    /// The addresses of all sockets, which stay when it is closed.
    locals: RwLock<Arc<[SocketAddr]>>,
    /// That of the lower layer.
    segments_max: AtomicUsize,
    /// The number of the present binding. Changes only under the lock of the lower layer.
    binding: AtomicU32,
    pub(crate) counters: SocketCounters,
    pub(crate) observation: Observation,
    pub(crate) refusals: Refusals,
    /// Why every attempt to receive fails, if a test wants that.
    #[cfg(test)]
    pub(crate) receive_fault: std::sync::Mutex<Option<io::ErrorKind>>,
}

/// The socket takes no more for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocked;

/// Counters of a socket. Relaxed atomics, since each is an independent statistic.
#[derive(Debug, Default)]
pub(crate) struct SocketCounters {
    pub(crate) packets_sent: AtomicU64,
    pub(crate) bytes_sent: AtomicU64,
    pub(crate) send_calls: AtomicU64,
    pub(crate) send_errors: AtomicU64,
    pub(crate) send_blocked: AtomicU64,
    pub(crate) receive_calls: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64, amount: usize) {
    counter.fetch_add(amount as u64, Ordering::Relaxed);
}

/// Where packets go, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) destination: SocketAddr,
    /// The own address to send from, if there are several.
    pub(crate) source: Option<IpAddr>,
    pub(crate) fragmentation: Fragmentation,
    /// The number of the binding for which the packets were written, or [`ANY_BINDING`].
    pub(crate) binding: u32,
}

/// The number of packets that may leave after [`Socket::rebind`] although they were written before.
pub(crate) const ANY_BINDING: u32 = 0;

impl Socket {
    /// A UDP socket, and one with the same port for each other address.
    pub(crate) fn bind_udp(runtime: &dyn Runtime, address: SocketAddr, others: &[IpAddr]) -> Result<Self, BindError> {
        let mut attempts = if address.port() == 0 && !others.is_empty() { PORTS_TRIED_MAX } else { 1 };
        loop {
            let first = UdpLayer::bind_udp(runtime, address).map_err(failed_on(address))?;
            let port = first.local_addr().port();
            let bind = |address: SocketAddr| UdpLayer::bind_udp(runtime, address).map_err(failed_on(address));
            let layers: Result<Vec<_>, _> = others.iter().map(|&other| bind(SocketAddr::new(other, port))).collect();
            attempts -= 1;
            match layers {
                Ok(layers) => return Ok(Self::join(first, layers)),
                // The system chose a port that is taken at another address.
                Err(BindError::Socket { source, .. }) if attempts > 0 && source.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// UDP sockets that are bound; the first has this address.
    pub(crate) fn of_udp(
        runtime: &dyn Runtime,
        (first, others): (std::net::UdpSocket, Vec<std::net::UdpSocket>),
        address: SocketAddr,
    ) -> Result<Self, BindError> {
        let layer = |socket| UdpLayer::of_udp(runtime, socket).map_err(failed_on(address));
        let first = layer(first)?;
        Ok(Self::join(first, others.into_iter().map(layer).collect::<Result<_, _>>()?))
    }

    /// A raw IP socket for SCTP's own protocol number, and one for each other address.
    #[cfg(unix)]
    pub(crate) fn bind_raw(runtime: &dyn Runtime, address: IpAddr, others: &[IpAddr]) -> Result<Self, BindError> {
        let bind =
            |address: IpAddr| UdpLayer::bind_raw(runtime, address).map_err(failed_on(SocketAddr::new(address, 0)));
        let first = bind(address)?;
        let layers: Result<Vec<_>, _> = others.iter().map(|&other| bind(other)).collect();
        Ok(Self::join(first, layers?))
    }

    fn join(first: UdpLayer, others: Vec<UdpLayer>) -> Self {
        if others.is_empty() {
            return Self::new(Box::new(first));
        }
        let others = others.into_iter().map(|layer| Box::new(layer) as Box<dyn LowerLayer>).collect();
        Self::new(Box::new(Several::new(first, others)))
    }

    pub(crate) fn new(lower: Box<dyn LowerLayer>) -> Self {
        Self {
            locals: RwLock::new(lower.local_addrs().into()),
            segments_max: AtomicUsize::new(lower.segments_max()),
            lower: RwLock::new(Some(lower)),
            binding: AtomicU32::new(ANY_BINDING + 1),
            counters: SocketCounters::default(),
            observation: Observation::default(),
            refusals: Refusals::default(),
            #[cfg(test)]
            receive_fault: std::sync::Mutex::default(),
        }
    }

    /// Uses the lower layer, unless the socket was closed.
    fn with<R>(&self, call: impl FnOnce(&dyn LowerLayer) -> io::Result<R>) -> io::Result<R> {
        let lower = self.lower.read().unwrap_or_else(PoisonError::into_inner);
        lower.as_ref().map_or_else(
            || Err(io::ErrorKind::NotConnected.into()),
            |lower| program::call("lower layer", Err(io::ErrorKind::Other.into()), || call(&**lower)),
        )
    }

    /// Closes the socket: its address can be bound again.
    pub(crate) fn close(&self) {
        let lower = self.lower.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(lower);
    }

    /// Returns whether the socket was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.lower.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Replaces the socket with the first address.
    ///
    /// # Errors
    /// The new address cannot be bound: the socket stays.
    pub(crate) fn rebind(&self, runtime: &dyn Runtime, address: SocketAddr) -> io::Result<()> {
        self.change(|lower| {
            lower.rebind(runtime, address)?;
            self.binding.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Adds a socket at another address.
    ///
    /// # Errors
    /// It cannot be bound, or the lower layer is one that has one address.
    pub(crate) fn add(&self, runtime: &dyn Runtime, address: SocketAddr) -> io::Result<()> {
        let mut place = self.lower.write().unwrap_or_else(PoisonError::into_inner);
        let mut lower = place.take().ok_or(io::ErrorKind::NotConnected)?;
        let add = |lower: &mut dyn LowerLayer| {
            program::call("lower layer", Err(io::ErrorKind::Other.into()), || lower.add(runtime, address))
        };
        let mut added = add(&mut *lower);
        if added.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Unsupported) {
            lower = Box::new(Several::of(lower));
            added = add(&mut *lower);
        }
        self.note_change(&*lower);
        *place = Some(lower);
        added
    }

    /// Closes the socket with this address.
    ///
    /// # Errors
    /// There is none, or no other.
    pub(crate) fn remove(&self, address: IpAddr) -> io::Result<()> {
        self.change(|lower| lower.remove(address))
    }

    /// Changes the sockets.
    fn change(&self, change: impl FnOnce(&mut dyn LowerLayer) -> io::Result<()>) -> io::Result<()> {
        let mut lower = self.lower.write().unwrap_or_else(PoisonError::into_inner);
        let lower = lower.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        program::call("lower layer", Err(io::ErrorKind::Other.into()), || change(&mut **lower))?;
        self.note_change(&**lower);
        Ok(())
    }

    fn note_change(&self, lower: &dyn LowerLayer) {
        self.segments_max.store(lower.segments_max(), Ordering::Relaxed);
        *self.locals.write().unwrap_or_else(PoisonError::into_inner) = lower.local_addrs().into();
    }

    /// The number of the present binding, for packets that must not leave from another address than the one for which they were written.
    pub(crate) fn binding(&self) -> u32 {
        self.binding.load(Ordering::Relaxed)
    }

    /// Returns the address to use instead, if that of the only socket is gone.
    pub(crate) fn address_instead(&self, destination: SocketAddr) -> Option<SocketAddr> {
        let lower = self.lower.read().unwrap_or_else(PoisonError::into_inner);
        program::call("lower layer", None, || lower.as_ref()?.address_instead(destination))
    }

    /// The address bound to.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        let locals = self.local_addrs();
        locals.first().copied().unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)))
    }

    /// The addresses of all sockets, that of [`local_addr`](Self::local_addr) first.
    pub(crate) fn local_addrs(&self) -> Arc<[SocketAddr]> {
        Arc::clone(&self.locals.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Their IP addresses.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        self.local_addrs().iter().map(SocketAddr::ip).collect()
    }

    /// Whether packets may arrive at several addresses, so that answers must name theirs.
    pub(crate) fn has_several_addresses(&self) -> bool {
        let locals = self.local_addrs();
        locals.len() > 1 || locals.iter().any(|local| local.ip().is_unspecified())
    }

    /// Converts `remote` to the lower layer's form.
    ///
    /// # Errors
    /// Why the address is unusable.
    pub(crate) fn peer_address(&self, remote: SocketAddr) -> Result<SocketAddr, &'static str> {
        let lower = self.lower.read().unwrap_or_else(PoisonError::into_inner);
        lower.as_ref().map_or(Err("the endpoint is closed"), |lower| lower.peer_address(remote))
    }

    /// Datagrams of one size that one call may carry.
    pub(crate) fn segments_max(&self) -> usize {
        self.segments_max.load(Ordering::Relaxed)
    }

    /// Sends `contents`, cut into datagrams of `segment_bytes`, with this ECN field.
    ///
    /// A pending ICMP error (ECONNREFUSED and similar ones) belongs to an earlier datagram, so the call is repeated. A datagram that is too large for
    /// the path is sent in fragments if the system can do that. Any other error except a lack of room counts as loss of the datagrams. If the next
    /// datagram would be refused as well, this is recorded in `refusals`.
    pub(crate) fn send(
        &self,
        way: Way,
        ecn: EcnCodepoint,
        contents: &[u8],
        segment_bytes: usize,
        refusals: Option<&Refusals>,
    ) -> Result<(), Blocked> {
        let Way { destination, source, fragmentation, binding } = way;
        let packets = Transmit { destination, source, ecn, contents, segment_bytes };
        let sending = self.observation.sending();
        let in_fragments =
            if fragmentation == Fragmentation::Needed { self.send_in_fragments(&packets, binding) } else { None };
        let result = match in_fragments.unwrap_or_else(|| self.try_send(&packets, binding)) {
            Err(error) if is_about_the_past(&error) => self.try_send(&packets, binding),
            result => result,
        };
        let result = match result {
            Err(error) if is_too_large(&error) && !packets.is_train() => {
                if let Some(refusals) = refusals {
                    let packet_bytes_max = self.fitting_bytes(destination, contents.len());
                    refusals.note(destination, Refusal::TooLarge { packet_bytes_max });
                }
                if fragmentation == Fragmentation::Never {
                    return Ok(());
                }
                self.send_in_fragments(&packets, binding).unwrap_or(Err(error))
            }
            result => result,
        };
        match result {
            Ok(()) => {
                count(&self.counters.send_calls, 1);
                count(&self.counters.packets_sent, contents.len().div_ceil(segment_bytes.max(1)));
                count(&self.counters.bytes_sent, contents.len());
                if let Some(sending) = sending {
                    sending.left((destination, source), contents, segment_bytes);
                }
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                count(&self.counters.send_blocked, 1);
                Err(Blocked)
            }
            // The first failure of segmentation turns it off, and the same bytes go again one by one.
            Err(error) if packets.is_train() && (self.segments_max() == 1 || is_too_large(&error)) => {
                drop(sending);
                contents.chunks(segment_bytes).try_for_each(|one| self.send(way, ecn, one, one.len(), refusals))
            }
            Err(error) => {
                count(&self.counters.send_errors, 1);
                if let (Some(refusals), Some(refusal)) = (refusals, Refusal::lasting(&error)) {
                    refusals.note(destination, refusal);
                }
                Ok(())
            }
        }
    }

    fn try_send(&self, packets: &Transmit<'_>, binding: u32) -> io::Result<()> {
        self.with(|lower| {
            self.check(binding)?;
            let sent = lower.try_send(packets);
            if sent.is_err() {
                self.segments_max.store(lower.segments_max(), Ordering::Relaxed);
            }
            sent
        })
    }

    /// Fails if packets were written for another binding. The lower layer is locked, so that it does not change meanwhile.
    fn check(&self, binding: u32) -> io::Result<()> {
        let is_present = binding == ANY_BINDING || binding == self.binding();
        if is_present { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    }

    /// Has the lower layer cut a datagram into fragments; `None` if it cannot.
    fn send_in_fragments(&self, packet: &Transmit<'_>, binding: u32) -> Option<io::Result<()>> {
        let mut sent = None;
        self.with(|lower| {
            self.check(binding)?;
            sent = lower.try_send_in_fragments(packet);
            Ok(())
        })
        .ok()?;
        sent
    }

    /// The largest SCTP packet that fits through the path, on which one of `refused_bytes` did not.
    fn fitting_bytes(&self, destination: SocketAddr, refused_bytes: usize) -> usize {
        if let Ok(Some(bytes)) = self.with(|lower| Ok(lower.path_bytes(destination)))
            && bytes < refused_bytes
        {
            return bytes;
        }
        // Smaller steps than halving waste little of the path; each costs one refused packet.
        refused_bytes - refused_bytes / 8
    }

    /// Receives a batch without waiting; the number of buffers filled.
    pub(crate) fn receive(&self, buffers: &mut [IoSliceMut<'_>], incoming: &mut [Received]) -> io::Result<usize> {
        count(&self.counters.receive_calls, 1);
        #[cfg(test)]
        if let Some(kind) = *super::lock(&self.receive_fault) {
            return Err(kind.into());
        }
        self.with(|lower| lower.try_receive(buffers, incoming))
    }

    /// Has the lower layer let only one of two to the power of `halvings` INITs pass, by chance; all if it is 0.
    ///
    /// # Errors
    /// It cannot do that.
    pub(crate) fn sift(&self, halvings: u32) -> io::Result<()> {
        self.with(|lower| lower.shed_inits(halvings))
    }

    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|lower| lower.poll_readable(context))
    }

    pub(crate) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|lower| lower.poll_writable(context))
    }

    fn poll(&self, poll: impl FnOnce(&dyn LowerLayer) -> Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        let lower = self.lower.read().unwrap_or_else(PoisonError::into_inner);
        lower.as_ref().map_or_else(
            || Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            |lower| program::call("lower layer", Poll::Ready(Err(io::ErrorKind::Other.into())), || poll(&**lower)),
        )
    }
}

/// The error of a socket that cannot be opened.
fn failed_on(address: SocketAddr) -> impl FnOnce(io::Error) -> BindError {
    move |source| BindError::Socket { address, source }
}

/// Whether a socket error is the echo of a datagram sent earlier (ICMP) rather than the outcome of this call.
pub(crate) fn is_about_the_past(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | ConnectionReset | HostUnreachable | NetworkUnreachable)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn sending_to_a_closed_port_is_no_error() {
        let socket =
            Socket::bind_udp(&*crate::runtime::Tokio::current().unwrap(), "127.0.0.1:0".parse().unwrap(), &[]).unwrap();
        poll_fn(|context| socket.poll_writable(context)).await.unwrap();
        let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let way =
            Way { destination: closed, source: None, fragmentation: Fragmentation::IfRefused, binding: ANY_BINDING };
        for _ in 0..3 {
            assert_eq!(socket.send(way, EcnCodepoint::NotCapable, b"anybody there?", 14, None), Ok(()));
        }
    }
}
