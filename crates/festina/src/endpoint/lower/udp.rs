//! The operating system's sockets: UDP (RFC 6951) and raw IP, with batches in both directions.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::task::{Context, Poll};

use festina_units::EcnCodepoint;
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use socket2::{Domain, SockRef, Socket, Type};

#[cfg(target_os = "linux")]
use super::path_mtu;
#[cfg(unix)]
use super::raw;
use super::{LowerLayer, Received, Transmit};
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::endpoint::sieve;
use crate::runtime::{Direction, Runtime, WatchedSocket};

/// Bytes of kernel buffer asked for in each direction; the system may grant less.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Whether a call that fills fewer buffers than offered has emptied the socket, so that the runtime reports every later datagram.
const FEWER_MEANS_DRAINED: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Datagrams received with one call at most.
const BATCH_MAX: usize = 16;

/// A socket of the operating system.
#[derive(Debug)]
pub(crate) struct UdpLayer {
    socket: Box<dyn WatchedSocket>,
    kind: Kind,
    /// Renewed when the system refuses a packet as invalid: quinn-udp takes that for an old kernel, and sends no ECN field and no trains from then on.
    features: RwLock<UdpSocketState>,
    /// Datagrams that the system takes in one train.
    segments_max: AtomicUsize,
    local: SocketAddr,
    /// Held while datagrams may be fragmented.
    #[cfg(target_os = "linux")]
    fragmenting: std::sync::Mutex<()>,
}

/// What surrounds an SCTP packet on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Udp,
    #[cfg(unix)]
    Raw,
}

impl UdpLayer {
    /// A UDP socket.
    pub(crate) fn bind_udp(runtime: &dyn Runtime, address: SocketAddr) -> io::Result<Self> {
        Self::of_udp(runtime, UdpSocket::bind(address)?)
    }

    /// A UDP socket that is bound.
    pub(crate) fn of_udp(runtime: &dyn Runtime, socket: UdpSocket) -> io::Result<Self> {
        let local = socket.local_addr()?;
        Self::new(runtime, socket, local, Kind::Udp)
    }

    /// A raw IP socket for SCTP's own protocol number.
    #[cfg(unix)]
    pub(crate) fn bind_raw(runtime: &dyn Runtime, address: IpAddr) -> io::Result<Self> {
        Self::new(runtime, raw::bind(address)?, SocketAddr::new(address, 0), Kind::Raw)
    }

    fn new(runtime: &dyn Runtime, socket: UdpSocket, local: SocketAddr, kind: Kind) -> io::Result<Self> {
        enlarge_buffers(&SockRef::from(&socket));
        // Makes it non-blocking, and asks for trains of datagrams and ECN marks.
        let features = UdpSocketState::new(UdpSockRef::from(&socket))?;
        do_without_timestamps(&socket);
        Ok(Self {
            socket: runtime.watch_socket(socket)?,
            kind,
            segments_max: AtomicUsize::new(features.max_gso_segments()),
            features: RwLock::new(features),
            local,
            #[cfg(target_os = "linux")]
            fragmenting: std::sync::Mutex::default(),
        })
    }

    fn features(&self) -> RwLockReadGuard<'_, UdpSocketState> {
        self.features.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The system has refused packets as invalid. A train may be refused because the device cannot cut it up, so that none follows until a single packet
    /// is refused: that one itself was at fault, and later ones must not suffer.
    #[cold]
    fn recover(&self, is_train: bool) {
        // The state describes the system, not the socket, whose options thus stay as they are.
        let fresh = Socket::new(Domain::for_address(self.local), Type::DGRAM, None)
            .and_then(|socket| UdpSocketState::new(UdpSockRef::from(&socket)));
        match fresh {
            Ok(fresh) => {
                let segments_max = if is_train { 1 } else { fresh.max_gso_segments() };
                self.segments_max.store(segments_max, Ordering::Relaxed);
                *self.features.write().unwrap_or_else(PoisonError::into_inner) = fresh;
            }
            Err(error) => tracing::debug!(%error, "packets go on without ECN fields"),
        }
    }

    /// Bytes before the SCTP packet in a received datagram.
    fn header_bytes(&self, datagram: &[u8]) -> usize {
        #[cfg(not(unix))]
        let _ = datagram;
        match (self.kind, self.local) {
            #[cfg(unix)]
            (Kind::Raw, SocketAddr::V4(_)) => raw::ipv4_header_bytes(datagram),
            _ => 0,
        }
    }

    /// Opens one of the same kind.
    fn another(&self, runtime: &dyn Runtime, address: SocketAddr) -> io::Result<Self> {
        match self.kind {
            Kind::Udp => Self::bind_udp(runtime, address),
            #[cfg(unix)]
            Kind::Raw => Self::bind_raw(runtime, address.ip()),
        }
    }
}

impl LowerLayer for UdpLayer {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn rebind(&mut self, runtime: &dyn Runtime, address: SocketAddr) -> io::Result<()> {
        *self = self.another(runtime, address)?;
        Ok(())
    }

    fn sibling(&self, runtime: &dyn Runtime, address: SocketAddr) -> io::Result<Box<dyn LowerLayer>> {
        Ok(Box::new(self.another(runtime, address)?))
    }

    /// The address from which the system reaches the destination, with the same port.
    fn address_instead(&self, destination: SocketAddr) -> Option<SocketAddr> {
        let is_gone = |error: io::Error| error.kind() == io::ErrorKind::AddrNotAvailable;
        if self.kind != Kind::Udp || !UdpSocket::bind((self.local.ip(), 0)).is_err_and(is_gone) {
            return None;
        }
        let any: IpAddr =
            if self.local.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(destination).ok()?;
        Some(SocketAddr::new(socket.local_addr().ok()?.ip(), self.local.port()))
    }

    /// IPv4 in its IPv6 form on an IPv6 socket, no UDP port on a raw one.
    fn peer_address(&self, remote: SocketAddr) -> Result<SocketAddr, &'static str> {
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

    fn segments_max(&self) -> usize {
        if self.kind == Kind::Udp { self.segments_max.load(Ordering::Relaxed) } else { 1 }
    }

    fn try_send(&self, packets: &Transmit<'_>) -> io::Result<()> {
        let transmit = quinn_udp::Transmit {
            destination: packets.destination,
            ecn: quinn_udp::EcnCodepoint::from_bits(packets.ecn.bits()),
            contents: packets.contents,
            segment_size: packets.is_train().then_some(packets.segment_bytes),
            src_ip: packets.source,
        };
        let mut send = || self.features().try_send(UdpSockRef::from(&self.socket), &transmit);
        let sent = self.socket.try_io(Direction::Write, &mut send);
        if sent.as_ref().is_err_and(is_invalid) {
            self.recover(packets.is_train());
        }
        sent
    }

    #[cfg(target_os = "linux")]
    fn try_send_in_fragments(&self, packet: &Transmit<'_>) -> Option<io::Result<()>> {
        let _one_at_a_time = crate::endpoint::lock(&self.fragmenting);
        path_mtu::allow_fragments(&self.socket, self.local, true).ok()?;
        let sent = self.try_send(packet);
        if let Err(error) = path_mtu::allow_fragments(&self.socket, self.local, false) {
            tracing::debug!(%error, "the socket goes on sending fragments");
        }
        Some(sent)
    }

    #[cfg(target_os = "linux")]
    fn path_bytes(&self, destination: SocketAddr) -> Option<usize> {
        path_mtu::payload_bytes(destination, self.kind == Kind::Udp).ok()
    }

    fn try_receive(&self, buffers: &mut [IoSliceMut<'_>], incoming: &mut [Received]) -> io::Result<usize> {
        let mut metas = [RecvMeta::default(); BATCH_MAX];
        let buffers = buffers.get_mut(..BATCH_MAX.min(incoming.len()).min(buffers.len())).unwrap_or_default();
        let offered = buffers.len();
        let mut receive = || self.features().recv(UdpSockRef::from(&self.socket), &mut *buffers, &mut metas);
        let mut received = None;
        let _readiness = self.socket.try_io(Direction::Read, &mut || {
            // Tells the runtime that nothing is left, which saves another call. Later datagrams wake it.
            let is_drained = match received.insert(receive()) {
                Ok(filled) => FEWER_MEANS_DRAINED && *filled < offered,
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            };
            if is_drained { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        // The runtime does not know of datagrams that came since it last asked the system.
        let filled = received.unwrap_or_else(receive)?;
        for ((meta, buffer), incoming) in metas.iter().zip(&*buffers).zip(incoming).take(filled) {
            *incoming = Received {
                from: meta.addr,
                to: answer_source(meta),
                ecn: meta.ecn.map_or(EcnCodepoint::NotCapable, |ecn| EcnCodepoint::from_bits(ecn as u8)),
                header_bytes: self.header_bytes(buffer.get(..meta.len).unwrap_or_default()),
                bytes: meta.len,
                segment_bytes: meta.stride,
            };
        }
        Ok(filled)
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_ready(Direction::Read, context)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_ready(Direction::Write, context)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn shed_inits(&self, halvings: u32) -> io::Result<()> {
        if self.kind != Kind::Udp {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let socket = SockRef::from(&self.socket);
        if halvings == 0 { socket.detach_filter() } else { socket.attach_filter(&sieve::program(halvings)) }
    }
}

/// Turns off the receive timestamps that quinn-udp requests. With them, the control data of a train of datagrams has no room for the ECN field (in
/// version 0.6.3: 112 bytes with IPv4 and 120 with IPv6, of 96), and they are not used here.
fn do_without_timestamps(socket: &UdpSocket) {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::socket::setsockopt(socket, nix::sys::socket::sockopt::ReceiveTimestampns, &false) {
        tracing::debug!(%error, "the socket keeps its timestamps; ECN marks may be lost");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}

/// Whether quinn-udp takes the error for one of an old kernel, or of a device that cannot cut up trains (EIO).
fn is_invalid(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    error.kind() == io::ErrorKind::InvalidInput || error.raw_os_error() == Some(EIO)
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
fn answer_source(meta: &RecvMeta) -> Option<IpAddr> {
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
    use crate::runtime::Tokio;

    fn runtime() -> std::sync::Arc<dyn Runtime> {
        Tokio::current().unwrap()
    }

    #[tokio::test]
    async fn an_address_that_the_socket_cannot_reach_is_named_as_such() {
        let four = UdpLayer::bind_udp(&*runtime(), "127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(four.peer_address("127.0.0.1:9899".parse().unwrap()).is_ok());
        assert!(four.peer_address("127.0.0.1:0".parse().unwrap()).is_err());
        assert!(four.peer_address("[::1]:9899".parse().unwrap()).is_err());
        assert!(four.peer_address("0.0.0.0:9899".parse().unwrap()).is_err());
        assert!(four.peer_address("224.0.0.1:9899".parse().unwrap()).is_err());
    }

    #[tokio::test]
    async fn a_dual_stack_socket_takes_ipv4_addresses_in_their_ipv6_form() {
        let Ok(both) = UdpLayer::bind_udp(&*runtime(), "[::]:0".parse().unwrap()) else {
            println!("no IPv6 on this machine: nothing to test");
            return;
        };
        let mapped = both.peer_address("127.0.0.1:9899".parse().unwrap()).unwrap();
        assert_eq!(mapped, "[::ffff:127.0.0.1]:9899".parse().unwrap());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_packet_that_the_system_refuses_costs_others_neither_their_ecn_field_nor_their_trains() {
        let bind = || UdpLayer::bind_udp(&*runtime(), "127.0.0.1:0".parse().unwrap()).unwrap();
        let (sender, receiver) = (bind(), bind());
        let send = async |destination, segment_bytes| {
            poll_fn(|context| sender.poll_writable(context)).await.unwrap();
            let (ecn, contents) = (EcnCodepoint::Capable, &b"two packets!"[..]);
            sender.try_send(&Transmit { destination, source: None, ecn, contents, segment_bytes })
        };
        let trains = sender.segments_max();
        for (refused_segment_bytes, segments_max) in [(6, 1), (12, trains)] {
            let refused = send("127.0.0.1:0".parse().unwrap(), refused_segment_bytes).await;
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
            assert_eq!(sender.segments_max(), segments_max);
            send(receiver.local, 12).await.unwrap();
            let (mut buffer, mut incoming) = ([0; 64], [Received::default()]);
            poll_fn(|context| receiver.poll_readable(context)).await.unwrap();
            receiver.try_receive(&mut [IoSliceMut::new(&mut buffer)], &mut incoming).unwrap();
            assert_eq!(
                incoming[0].ecn,
                EcnCodepoint::Capable,
                "after a refusal of segments of {refused_segment_bytes}"
            );
        }
    }

    #[tokio::test]
    async fn a_datagram_is_received_before_the_runtime_knows_of_it() {
        let layer = UdpLayer::bind_udp(&*runtime(), "127.0.0.1:0".parse().unwrap()).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let receive = || {
            let (mut buffer, mut incoming) = ([0; 64], [Received::default()]);
            layer.try_receive(&mut [IoSliceMut::new(&mut buffer)], &mut incoming)
        };
        assert_eq!(receive().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // Nothing is awaited, so the runtime cannot look at the socket.
        for _ in 0..3 {
            sender.send_to(b"datagram", layer.local).unwrap();
            assert_eq!(receive().unwrap(), 1);
            assert_eq!(receive().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        sender.send_to(b"datagram", layer.local).unwrap();
        poll_fn(|context| layer.poll_readable(context)).await.unwrap();
        assert_eq!(receive().unwrap(), 1);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_system_sifts_inits_and_nothing_else() {
        let packet = |tag: u8, chunk_type: u8| [0, 1, 0, 2, 0, 0, 0, tag, 0, 0, 0, 0, chunk_type, 0, 0, 4];
        let (init, others) = (packet(0, 1), [packet(1, 1), packet(0, 0), packet(1, 0), packet(0, 10)]);
        let socket = UdpLayer::bind_udp(&*runtime(), "127.0.0.1:0".parse().unwrap()).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(socket.local_addr()).unwrap();
        let receive = || {
            let (mut buffer, mut incoming) = ([0; 64], [Received::default()]);
            socket.try_receive(&mut [IoSliceMut::new(&mut buffer)], &mut incoming)?;
            Ok::<_, io::Error>(buffer[..incoming[0].bytes].to_vec())
        };
        let received = async |count: usize| {
            let mut received = Vec::new();
            for _ in 0..count {
                let next = poll_fn(|context| {
                    std::task::ready!(socket.poll_readable(context)).unwrap();
                    match receive() {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
                        received => Poll::Ready(received.unwrap()),
                    }
                });
                received.push(next.await);
            }
            assert!(receive().is_err(), "no more came");
            received
        };
        socket.shed_inits(32).unwrap();
        for other in &others {
            sender.send(&init).unwrap();
            sender.send(other).unwrap();
        }
        assert_eq!(received(others.len()).await, others);
        socket.shed_inits(0).unwrap();
        sender.send(&init).unwrap();
        assert_eq!(received(1).await, [init]);
    }
}
