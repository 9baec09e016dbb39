//! SCTP directly over IP, as protocol 132. The kernel hands over IPv4 packets with their IP header, IPv6 ones without.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use socket2::{Domain, Protocol, Type};

/// SCTP's protocol number (RFC 9260 §3).
const IP_PROTOCOL_SCTP: i32 = 132;

/// Smallest IPv4 header.
const IPV4_HEADER_BYTES_MIN: usize = 20;

/// Opens a raw IP socket. It comes as a UDP socket, since all that is done with it later is done with those as well: receive
/// and send datagrams with addresses.
pub(crate) fn bind(address: IpAddr) -> io::Result<UdpSocket> {
    let address = SocketAddr::new(address, 0);
    let socket = socket2::Socket::new(Domain::for_address(address), Type::RAW, Some(Protocol::from(IP_PROTOCOL_SCTP)))?;
    socket.bind(&address.into())?;
    Ok(UdpSocket::from(OwnedFd::from(socket)))
}

/// The header length that the packet states in its first byte (in units of 4 bytes, RFC 791); the whole packet if it is none.
pub(crate) fn ipv4_header_bytes(datagram: &[u8]) -> usize {
    match datagram.first() {
        Some(first) if first >> 4 == 4 => {
            (usize::from(first & 15) * 4).clamp(IPV4_HEADER_BYTES_MIN, 60).min(datagram.len())
        }
        _ => datagram.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ip_header_is_measured_and_never_reaches_beyond_the_packet() {
        let mut packet = [0_u8; 64];
        packet[0] = 0x45;
        assert_eq!(ipv4_header_bytes(&packet), 20);
        packet[0] = 0x4f;
        assert_eq!(ipv4_header_bytes(&packet), 60);
        assert_eq!(ipv4_header_bytes(&packet[..30]), 30);
        packet[0] = 0x60;
        assert_eq!(ipv4_header_bytes(&packet), 64, "not IPv4: nothing of it is SCTP");
        assert_eq!(ipv4_header_bytes(&[]), 0);
    }
}
