//! The UDP socket to which the clients of a relay send.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Bytes of kernel buffer that are asked for. The system may grant less; then bursts are lost earlier.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// A client of a relay: its address, and the address of this host to which it has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientAddr {
    /// The client's address.
    pub remote: SocketAddr,
    /// The address that answers have to come from; `None` where the system does not report it.
    asked: Option<IpAddr>,
}

impl ClientAddr {
    /// Returns the client's address as its packets have it: an IPv4 client of a socket for both families goes by its IPv4 address.
    pub(crate) fn canonical_remote(&self) -> SocketAddr {
        match self.remote.ip().to_canonical() {
            ip if ip.is_ipv4() => SocketAddr::new(ip, self.remote.port()),
            _ => self.remote,
        }
    }
}

/// A non-blocking UDP socket whose answers come from the address that the client has asked: a connected client gets no others (RFC 1122 §4.1.3.5).
/// A socket that is bound to every address would otherwise answer from the address of the route to the client. On systems other than Linux it does.
///
/// The transport's own sockets are others: they forbid fragmentation and read several datagrams at once, which a relay of foreign datagrams must not.
#[derive(Debug)]
pub struct ClientSocket(UdpSocket);

impl ClientSocket {
    /// Opens a socket on this address.
    ///
    /// # Errors
    /// If the system refuses it, for instance because the address is in use.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        prepare(&socket)?;
        #[cfg(target_os = "linux")]
        system::report_destinations(&socket, address)?;
        Ok(Self(socket))
    }

    /// Returns the socket itself, to wait until it is readable or writable.
    pub fn socket(&self) -> &UdpSocket {
        &self.0
    }

    /// Receives a datagram and returns its length and the client.
    ///
    /// # Errors
    /// As [`UdpSocket::recv_from`]; `WouldBlock` if there is nothing to receive.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, ClientAddr)> {
        system::receive(&self.0, buffer)
    }

    /// Sends a datagram to a client, from the address that it has asked.
    ///
    /// # Errors
    /// As [`UdpSocket::send_to`]; `WouldBlock` if the socket has no room.
    pub fn send_to(&self, payload: &[u8], client: ClientAddr) -> io::Result<()> {
        system::send(&self.0, payload, client)
    }
}

/// Makes a socket non-blocking, and enlarges its receive buffer.
pub(crate) fn prepare(socket: &UdpSocket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    // A smaller buffer is no reason not to start.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(socket, RECEIVE_BUFFER_BYTES);
    Ok(())
}

#[cfg(target_os = "linux")]
mod system {
    use std::io::{self, IoSlice, IoSliceMut};
    use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
    use std::os::fd::AsRawFd as _;

    use nix::cmsg_space;
    use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
    use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo};
    use nix::sys::socket::{
        ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
    };

    use super::ClientAddr;

    pub(super) fn report_destinations(socket: &UdpSocket, address: SocketAddr) -> io::Result<()> {
        match address {
            SocketAddr::V4(_) => setsockopt(socket, Ipv4PacketInfo, &true)?,
            SocketAddr::V6(_) => setsockopt(socket, Ipv6RecvPacketInfo, &true)?,
        }
        Ok(())
    }

    pub(super) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, ClientAddr)> {
        let (mut parts, mut space) = ([IoSliceMut::new(buffer)], cmsg_space!(in6_pktinfo));
        let received = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::empty())?;
        let asked = received.cmsgs()?.find_map(|message| match message {
            // The address of the route back: that of the datagram, unless it was sent to a group or to a whole network.
            ControlMessageOwned::Ipv4PacketInfo(info) => Some(IpAddr::from(info.ipi_spec_dst.s_addr.to_ne_bytes())),
            ControlMessageOwned::Ipv6PacketInfo(info) => Some(IpAddr::from(info.ipi6_addr.s6_addr)),
            _ => None,
        });
        let asked =
            asked.map(|asked| asked.to_canonical()).filter(|asked| !asked.is_multicast() && !asked.is_unspecified());
        let remote = received.address.as_ref().and_then(socket_address).ok_or(io::ErrorKind::InvalidData)?;
        Ok((received.bytes, ClientAddr { remote, asked }))
    }

    fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
        let v4 = address.as_sockaddr_in().map(|address| SocketAddrV4::from(*address).into());
        v4.or_else(|| address.as_sockaddr_in6().map(|address| SocketAddrV6::from(*address).into()))
    }

    pub(super) fn send(socket: &UdpSocket, payload: &[u8], client: ClientAddr) -> io::Result<()> {
        let (parts, remote) = ([IoSlice::new(payload)], SockaddrStorage::from(client.remote));
        let send = |messages: &[ControlMessage<'_>]| {
            sendmsg(socket.as_raw_fd(), &parts, messages, MsgFlags::empty(), Some(&remote))
        };
        match client.asked {
            None => send(&[])?,
            Some(IpAddr::V4(asked)) => {
                let asked = in_addr { s_addr: u32::from_ne_bytes(asked.octets()) };
                let info = in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: asked, ipi_addr: in_addr { s_addr: 0 } };
                send(&[ControlMessage::Ipv4PacketInfo(&info)])?
            }
            Some(IpAddr::V6(asked)) => {
                let info = in6_pktinfo { ipi6_addr: in6_addr { s6_addr: asked.octets() }, ipi6_ifindex: 0 };
                send(&[ControlMessage::Ipv6PacketInfo(&info)])?
            }
        };
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;
    use std::net::UdpSocket;

    use super::ClientAddr;

    pub(super) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, ClientAddr)> {
        let (length, remote) = socket.recv_from(buffer)?;
        Ok((length, ClientAddr { remote, asked: None }))
    }

    pub(super) fn send(socket: &UdpSocket, payload: &[u8], client: ClientAddr) -> io::Result<()> {
        socket.send_to(payload, client.remote).map(drop)
    }
}

#[cfg(test)]
impl From<SocketAddr> for ClientAddr {
    fn from(remote: SocketAddr) -> Self {
        Self { remote, asked: None }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Asks a socket on every address by one of them from a connected socket, which receives answers from that address only.
    fn ask(socket: &ClientSocket, asked: &str) -> ClientAddr {
        let port = socket.socket().local_addr().expect("bound").port();
        let asked: IpAddr = asked.parse().expect("an address");
        let any = if asked.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
        let client = UdpSocket::bind(any).expect("loopback");
        client.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        client.connect((asked, port)).expect("connected");
        client.send(b"question").expect("sent");
        socket.socket().set_nonblocking(false).expect("set");
        let mut buffer = [0; 100];
        let (length, from) = socket.recv_from(&mut buffer).expect("received");
        assert_eq!(&buffer[..length], b"question");
        socket.send_to(b"answer", from).expect("sent");
        assert_eq!(client.recv(&mut buffer).expect("the answer comes from the address that was asked"), 6);
        from
    }

    #[test]
    fn an_answer_comes_from_the_address_that_was_asked() {
        let socket = ClientSocket::bind("0.0.0.0:0".parse().expect("an address")).expect("bound");
        let clients = ["127.0.0.1", "127.0.0.2", "127.9.8.7"].map(|asked| ask(&socket, asked));
        assert_eq!(
            clients.map(|client| client.asked.map(|asked| asked.to_string())),
            ["127.0.0.1", "127.0.0.2", "127.9.8.7"].map(|asked| Some(asked.to_owned()))
        );
    }

    #[test]
    fn a_socket_of_both_families_answers_each_client_from_the_address_that_it_asked() {
        let Ok(socket) = ClientSocket::bind("[::]:0".parse().expect("an address")) else {
            println!("skipped: no IPv6 here");
            return;
        };
        for asked in ["::1", "127.0.0.2"] {
            let client = ask(&socket, asked);
            let asked: IpAddr = asked.parse().expect("an address");
            assert_eq!(client.canonical_remote().is_ipv4(), asked.is_ipv4(), "{client:?}");
        }
    }
}
