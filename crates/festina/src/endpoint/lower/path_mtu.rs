//! Maximum packet sizes towards destinations, and IP fragmentation by the system (Linux).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use nix::sys::socket::{setsockopt, sockopt};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, ip_mtu, ipv6_mtu, set_ip_mtu_discover, set_ipv6_mtu_discover,
};

use crate::address::canonical;

const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;
const UDP_HEADER_BYTES: usize = 8;

/// Lets the system cut datagrams that are too large for the path into fragments, or has it refuse them, as it does by default.
///
/// # Errors
/// The system does not take the settings.
pub(super) fn allow_fragments(socket: &impl AsFd, local: SocketAddr, allow: bool) -> io::Result<()> {
    // PROBE ignores the path MTU that the kernel learned from ICMP, which can be forged.
    let four = if allow { Ipv4PathMtuDiscovery::DONT } else { Ipv4PathMtuDiscovery::PROBE };
    if local.is_ipv4() {
        set_ip_mtu_discover(socket, four)?;
        return Ok(());
    }
    let six = if allow { Ipv6PathMtuDiscovery::DONT } else { Ipv6PathMtuDiscovery::PROBE };
    set_ipv6_mtu_discover(socket, six)?;
    setsockopt(&socket.as_fd(), sockopt::Ipv6DontFrag, &!allow)?;
    // A socket for IPv6 alone does not take it, and has no use for it.
    let _only_six = set_ip_mtu_discover(socket, four);
    Ok(())
}

/// Bytes of the largest SCTP packet that reaches the destination in one piece, as far as the system knows the path.
///
/// # Errors
/// The system knows no path.
pub(super) fn payload_bytes(destination: SocketAddr, is_udp: bool) -> io::Result<usize> {
    let mut destination = canonical(destination);
    destination.set_port(destination.port().max(1));
    let any: IpAddr = if destination.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // Connecting sends nothing.
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(destination)?;
    let (mtu, ip_header_bytes) = match destination {
        SocketAddr::V4(_) => (ip_mtu(&socket)?, IPV4_HEADER_BYTES),
        SocketAddr::V6(_) => (ipv6_mtu(&socket)?, IPV6_HEADER_BYTES),
    };
    let header_bytes = ip_header_bytes + if is_udp { UDP_HEADER_BYTES } else { 0 };
    Ok(usize::try_from(mtu).unwrap_or(usize::MAX).saturating_sub(header_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_an_mtu_without_the_headers() {
        // In a network namespace /sys may still show the interfaces of another one.
        let Ok(shown) = std::process::Command::new("ip").args(["-oneline", "link", "show", "lo"]).output() else {
            assert!(std::env::var_os("CI").is_none(), "there is no command ip");
            return eprintln!("skipped: there is no command ip");
        };
        let shown = String::from_utf8(shown.stdout).unwrap();
        let mtu = shown.split_whitespace().skip_while(|word| *word != "mtu").nth(1);
        let mtu: usize = mtu.expect("it shows the MTU").parse().unwrap();
        // No IPv4 packet is larger, even where the interface's MTU is.
        let mtu = mtu.min(65_535);
        let destination = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        assert_eq!(payload_bytes(destination, true).unwrap(), mtu - 28);
        assert_eq!(payload_bytes(destination, false).unwrap(), mtu - 20);
    }
}
