//! The endpoint's one socket: UDP (RFC 6951) or raw IP, with batches in both directions.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::task::{Context, Poll};

use festina_units::EcnCodepoint;
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::observe::Observation;
use super::outbox::Blocked;
#[cfg(target_os = "linux")]
use super::path_mtu;
#[cfg(unix)]
use super::raw;
use super::refusals::{Refusal, Refusals, is_too_large};
#[cfg(any(target_os = "linux", target_os = "android"))]
use super::sieve;

/// Bytes of kernel buffer asked for in each direction; the system may grant less.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Whether a call that receives less than it has buffers for has emptied the socket, and the runtime hears of every datagram after it.
const FEWER_MEANS_DRAINED: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// The socket and what it counted.
#[derive(Debug)]
pub(crate) struct Socket {
    /// Taken out when the endpoint is closed, though handles of it may stay.
    socket: RwLock<Option<UdpSocket>>,
    kind: Kind,
    features: UdpSocketState,
    local: SocketAddr,
    pub(crate) counters: SocketCounters,
    pub(crate) observation: Observation,
    pub(crate) refusals: Refusals,
    /// Held while datagrams may be fragmented.
    #[cfg(target_os = "linux")]
    fragmenting: std::sync::Mutex<()>,
    /// Why every attempt to receive fails, if a test wants that.
    #[cfg(test)]
    pub(crate) receive_fault: std::sync::Mutex<Option<io::ErrorKind>>,
}

/// What surrounds an SCTP packet on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Udp,
    #[cfg(unix)]
    Raw,
}

/// What went through the socket. Relaxed atomics: each is a statistic by itself.
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

impl Socket {
    /// A UDP socket; the caller is inside a runtime.
    pub(crate) fn bind_udp(address: SocketAddr) -> io::Result<Self> {
        let socket = std::net::UdpSocket::bind(address)?;
        let local = socket.local_addr()?;
        Self::new(socket, local, Kind::Udp)
    }

    /// A raw IP socket for SCTP's own protocol number; the caller is inside a runtime.
    #[cfg(unix)]
    pub(crate) fn bind_raw(address: IpAddr) -> io::Result<Self> {
        Self::new(raw::bind(address)?, SocketAddr::new(address, 0), Kind::Raw)
    }

    fn new(socket: std::net::UdpSocket, local: SocketAddr, kind: Kind) -> io::Result<Self> {
        enlarge_buffers(&SockRef::from(&socket));
        // Makes it non-blocking, and asks for trains of datagrams and ECN marks.
        let features = UdpSocketState::new(UdpSockRef::from(&socket))?;
        do_without_timestamps(&socket);
        let socket = UdpSocket::from_std(socket)?;
        Ok(Self {
            socket: RwLock::new(Some(socket)),
            kind,
            features,
            local,
            counters: SocketCounters::default(),
            observation: Observation::default(),
            refusals: Refusals::default(),
            #[cfg(target_os = "linux")]
            fragmenting: std::sync::Mutex::default(),
            #[cfg(test)]
            receive_fault: std::sync::Mutex::default(),
        })
    }

    /// Uses the socket, unless it was closed.
    fn with<R>(&self, call: impl FnOnce(&UdpSocket) -> io::Result<R>) -> io::Result<R> {
        let socket = self.socket.read().unwrap_or_else(PoisonError::into_inner);
        socket.as_ref().map_or_else(|| Err(io::ErrorKind::NotConnected.into()), call)
    }

    /// Closes the socket: its address can be bound again.
    pub(crate) fn close(&self) {
        let socket = self.socket.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(socket);
    }

    /// Returns whether the socket was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.socket.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// The address bound to.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Whether packets may arrive at several addresses, so that answers must name theirs.
    pub(crate) fn is_wildcard(&self) -> bool {
        self.local.ip().is_unspecified()
    }

    /// `remote` as this socket has to be told: IPv4 in its IPv6 form on an IPv6 socket, no UDP port on a raw one.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub(crate) fn peer_address(&self, remote: SocketAddr) -> Result<SocketAddr, &'static str> {
        let raw = self.kind != Kind::Udp;
        let is_broadcast = matches!(remote.ip(), IpAddr::V4(address) if address.is_broadcast());
        if remote.ip().is_unspecified() || remote.ip().is_multicast() || is_broadcast {
            return Err("the address does not name one host");
        }
        if remote.port() == 0 && !raw {
            return Err("the UDP port is missing");
        }
        if let (IpAddr::V6(address), SocketAddr::V6(zone)) = (remote.ip(), remote)
            && address.is_unicast_link_local()
            && zone.scope_id() == 0
            && !matches!(self.local, SocketAddr::V6(local) if local.scope_id() != 0)
        {
            return Err("a link-local address needs a zone, such as %eth0");
        }
        let port = if raw { 0 } else { remote.port() };
        match (self.local, remote) {
            (SocketAddr::V4(_), SocketAddr::V6(_)) => Err("the endpoint is bound to an IPv4 address, this one is IPv6"),
            (SocketAddr::V6(local), SocketAddr::V4(remote)) if local.ip().is_unspecified() && !raw => {
                Ok(SocketAddr::new(remote.ip().to_ipv6_mapped().into(), port))
            }
            (SocketAddr::V6(_), SocketAddr::V4(_)) => Err("the endpoint is bound to an IPv6 address, this one is IPv4"),
            (SocketAddr::V4(_), SocketAddr::V4(_)) => Ok(SocketAddr::new(remote.ip(), port)),
            (SocketAddr::V6(_), SocketAddr::V6(remote)) => {
                Ok(SocketAddrV6::new(*remote.ip(), port, remote.flowinfo(), remote.scope_id()).into())
            }
        }
    }

    /// Datagrams of one size that one call may carry.
    pub(crate) fn segments_max(&self) -> usize {
        if self.kind == Kind::Udp { self.features.max_gso_segments() } else { 1 }
    }

    /// The SCTP packet in a received datagram.
    pub(crate) fn packet<'d>(&self, datagram: &'d [u8]) -> &'d [u8] {
        let header_bytes = match (self.kind, self.local) {
            #[cfg(unix)]
            (Kind::Raw, SocketAddr::V4(_)) => raw::ipv4_header_bytes(datagram),
            _ => 0,
        };
        datagram.get(header_bytes..).unwrap_or_default()
    }

    /// Sends `contents`, cut into datagrams of `segment_bytes`, with this ECN field.
    ///
    /// A pending ICMP error (ECONNREFUSED and its like) belongs to an earlier datagram, so that the call is made again. A datagram that is too
    /// large for the path is sent in fragments where the system can do that. Any other error that is not about room costs the datagrams, as the
    /// network might. What would refuse the next datagram as well is noted in [`Socket::refusals`].
    pub(crate) fn send(
        &self,
        (destination, ecn): (SocketAddr, EcnCodepoint),
        contents: &[u8],
        segment_bytes: usize,
        source: Option<IpAddr>,
    ) -> Result<(), Blocked> {
        let transmit = quinn_udp::Transmit {
            destination,
            ecn: quinn_udp::EcnCodepoint::from_bits(ecn.bits()),
            contents,
            segment_size: (segment_bytes < contents.len()).then_some(segment_bytes),
            src_ip: source,
        };
        let sending = self.observation.sending();
        let result = match self.try_send(&transmit) {
            Err(error) if is_about_the_past(&error) => self.try_send(&transmit),
            result => result,
        };
        let result = match result {
            Err(error) if is_too_large(&error) && transmit.segment_size.is_none() => {
                let packet_bytes_max = self.fitting_bytes(destination, contents.len());
                self.refusals.note(destination, Refusal::TooLarge { packet_bytes_max });
                self.send_in_fragments(&transmit).unwrap_or(Err(error))
            }
            result => result,
        };
        match result {
            Ok(()) => {
                count(&self.counters.send_calls, 1);
                count(&self.counters.packets_sent, contents.len().div_ceil(segment_bytes.max(1)));
                count(&self.counters.bytes_sent, contents.len());
                if let Some(sending) = sending {
                    sending.left(destination, contents, segment_bytes);
                }
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                count(&self.counters.send_blocked, 1);
                Err(Blocked)
            }
            // The first failure of segmentation turns it off, and the same bytes go again one by one.
            Err(error) if transmit.segment_size.is_some() && (self.segments_max() == 1 || is_too_large(&error)) => {
                drop(sending);
                contents.chunks(segment_bytes).try_for_each(|one| self.send((destination, ecn), one, one.len(), source))
            }
            Err(error) => {
                count(&self.counters.send_errors, 1);
                if let Some(refusal) = Refusal::lasting(&error) {
                    self.refusals.note(destination, refusal);
                }
                Ok(())
            }
        }
    }

    fn try_send(&self, transmit: &quinn_udp::Transmit<'_>) -> io::Result<()> {
        self.with(|socket| {
            socket.try_io(Interest::WRITABLE, || self.features.try_send(UdpSockRef::from(socket), transmit))
        })
    }

    /// Has the system cut a datagram into IP fragments; `None` if it cannot.
    fn send_in_fragments(&self, transmit: &quinn_udp::Transmit<'_>) -> Option<io::Result<()>> {
        #[cfg(target_os = "linux")]
        {
            let _one_at_a_time = super::lock(&self.fragmenting);
            self.with(|socket| path_mtu::allow_fragments(socket, self.local, true)).ok()?;
            let sent = self.try_send(transmit);
            let restored = self.with(|socket| path_mtu::allow_fragments(socket, self.local, false));
            if let Err(error) = restored {
                tracing::debug!(%error, "the socket goes on sending fragments");
            }
            Some(sent)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = transmit;
            None
        }
    }

    /// The largest SCTP packet that fits through the path, on which one of `refused_bytes` did not.
    fn fitting_bytes(&self, destination: SocketAddr, refused_bytes: usize) -> usize {
        #[cfg(target_os = "linux")]
        if let Ok(bytes) = path_mtu::payload_bytes(destination, self.kind == Kind::Udp)
            && bytes < refused_bytes
        {
            return bytes;
        }
        let _ = destination;
        // Smaller steps than halving waste little of the path; each costs one refused packet.
        refused_bytes - refused_bytes / 8
    }

    /// Receives a batch without waiting; the number of buffers filled.
    pub(crate) fn receive(&self, buffers: &mut [IoSliceMut<'_>], metas: &mut [RecvMeta]) -> io::Result<usize> {
        count(&self.counters.receive_calls, 1);
        #[cfg(test)]
        if let Some(kind) = *super::lock(&self.receive_fault) {
            return Err(kind.into());
        }
        let mut filled = 0;
        let received = self.with(|socket| {
            socket.try_io(Interest::READABLE, || {
                filled = self.features.recv(UdpSockRef::from(socket), buffers, metas)?;
                // The runtime need not find out by another call that nothing is left. What comes from now on is news to it.
                let is_drained = FEWER_MEANS_DRAINED && filled < buffers.len();
                if is_drained { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            })
        });
        match received {
            Err(error) if filled == 0 => Err(error),
            _ => Ok(filled),
        }
    }

    /// Has the system let only one of two to the power of `halvings` INITs pass, by chance; all if it is 0.
    ///
    /// # Errors
    /// The system cannot do that with this socket.
    pub(crate) fn sift(&self, halvings: u32) -> io::Result<()> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if self.kind == Kind::Udp {
            return self.with(|socket| {
                let socket = SockRef::from(socket);
                if halvings == 0 { socket.detach_filter() } else { socket.attach_filter(&sieve::program(halvings)) }
            });
        }
        let _ = halvings;
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|socket| socket.poll_recv_ready(context))
    }

    pub(crate) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|socket| socket.poll_send_ready(context))
    }

    fn poll(&self, poll: impl FnOnce(&UdpSocket) -> Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        let mut polled = Poll::Pending;
        match self.with(|socket| {
            polled = poll(socket);
            Ok(())
        }) {
            Ok(()) => polled,
            Err(closed) => Poll::Ready(Err(closed)),
        }
    }
}

/// Whether a socket error is the echo of a datagram sent earlier (ICMP) rather than the outcome of this call.
pub(crate) fn is_about_the_past(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | ConnectionReset | HostUnreachable | NetworkUnreachable)
}

/// quinn-udp asks for the time at which each datagram came. With that, what tells of a train of datagrams has no room for the ECN field
/// (in version 0.6.3: 112 bytes with IPv4 and 120 with IPv6, of 96), and nobody here looks at the time.
fn do_without_timestamps(socket: &std::net::UdpSocket) {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::socket::setsockopt(socket, nix::sys::socket::sockopt::ReceiveTimestampns, &false) {
        tracing::debug!(%error, "the socket keeps its timestamps, and hears of few ECN marks");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}

/// A smaller buffer than asked for costs throughput, not correctness.
fn enlarge_buffers(socket: &SockRef<'_>) {
    for result in [socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES), socket.set_send_buffer_size(SOCKET_BUFFER_BYTES)] {
        if let Err(error) = result {
            tracing::debug!(%error, "the socket keeps its default buffer size");
        }
    }
}

/// The address that a datagram was sent to, in the form in which answers have to name it.
pub(crate) fn answer_source(meta: &RecvMeta) -> Option<IpAddr> {
    match (meta.addr, meta.dst_ip?) {
        // A dual-stack socket sends to an IPv4 address in IPv6 form only from an IPv4 one.
        (SocketAddr::V6(_), IpAddr::V6(destination)) if is_mapped(&destination) => {
            destination.to_ipv4_mapped().map(IpAddr::V4)
        }
        (_, destination) => Some(destination),
    }
}

fn is_mapped(address: &Ipv6Addr) -> bool {
    address.to_ipv4_mapped().is_some()
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn an_address_that_the_socket_cannot_reach_is_named_as_such() {
        let four = Socket::bind_udp("127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(four.peer_address("127.0.0.1:9899".parse().unwrap()).is_ok());
        assert!(four.peer_address("127.0.0.1:0".parse().unwrap()).is_err());
        assert!(four.peer_address("[::1]:9899".parse().unwrap()).is_err());
        assert!(four.peer_address("0.0.0.0:9899".parse().unwrap()).is_err());
        assert!(four.peer_address("224.0.0.1:9899".parse().unwrap()).is_err());
    }

    #[tokio::test]
    async fn a_dual_stack_socket_takes_ipv4_addresses_in_their_ipv6_form() {
        let Ok(both) = Socket::bind_udp("[::]:0".parse().unwrap()) else {
            println!("no IPv6 on this machine: nothing to test");
            return;
        };
        let mapped = both.peer_address("127.0.0.1:9899".parse().unwrap()).unwrap();
        assert_eq!(mapped, "[::ffff:127.0.0.1]:9899".parse().unwrap());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_system_sifts_inits_and_nothing_else() {
        let packet = |tag: u8, chunk_type: u8| [0, 1, 0, 2, 0, 0, 0, tag, 0, 0, 0, 0, chunk_type, 0, 0, 4];
        let (init, others) = (packet(0, 1), [packet(1, 1), packet(0, 0), packet(1, 0), packet(0, 10)]);
        let socket = Socket::bind_udp("127.0.0.1:0".parse().unwrap()).unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(socket.local_addr()).unwrap();
        let received = async |count: usize| {
            let mut received = Vec::new();
            for _ in 0..count {
                let mut buffer = [0; 64];
                let len = poll_fn(|context| {
                    std::task::ready!(socket.poll_readable(context)).unwrap();
                    match socket.with(|socket| socket.try_recv(&mut buffer)) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
                        received => Poll::Ready(received.unwrap()),
                    }
                })
                .await;
                received.push(buffer[..len].to_vec());
            }
            assert!(socket.with(|socket| socket.try_recv(&mut [0; 64])).is_err(), "no more came");
            received
        };
        socket.sift(32).unwrap();
        for other in &others {
            sender.send(&init).unwrap();
            sender.send(other).unwrap();
        }
        assert_eq!(received(others.len()).await, others);
        socket.sift(0).unwrap();
        sender.send(&init).unwrap();
        assert_eq!(received(1).await, [init]);
    }

    #[tokio::test]
    async fn sending_to_a_closed_port_is_no_error() {
        let socket = Socket::bind_udp("127.0.0.1:0".parse().unwrap()).unwrap();
        poll_fn(|context| socket.poll_writable(context)).await.unwrap();
        let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for _ in 0..3 {
            assert_eq!(socket.send((closed, EcnCodepoint::NotCapable), b"anybody there?", 14, None), Ok(()));
        }
    }
}
