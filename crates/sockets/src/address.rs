//! Socket addresses in the form of `sockaddr_in` and `sockaddr_in6`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// Size of a `sockaddr_in`.
pub const IPV4_BYTES: usize = 16;
/// Size of a `sockaddr_in6`.
pub const IPV6_BYTES: usize = 28;
/// Size of a `sockaddr_storage`.
pub const STORAGE_BYTES: usize = 128;

/// Reads the address at the start of `bytes`. Returns it with the number of its bytes.
pub fn read(bytes: &[u8]) -> Option<(SocketAddr, usize)> {
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    match family {
        AF_INET => {
            let ip: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            (bytes.len() >= IPV4_BYTES).then(|| (SocketAddr::from((ip, port)), IPV4_BYTES))
        }
        AF_INET6 => {
            let ip: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            let scope = u32::from_ne_bytes(bytes.get(24..28)?.try_into().ok()?);
            Some((SocketAddrV6::new(ip.into(), port, 0, scope).into(), IPV6_BYTES))
        }
        _ => None,
    }
}

/// Reads addresses that follow each other without gaps, as `sctp_bindx` passes them.
pub fn read_all(mut bytes: &[u8]) -> Option<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    while !bytes.is_empty() {
        let (address, length) = read(bytes)?;
        addresses.push(address);
        bytes = &bytes[length..];
    }
    Some(addresses)
}

/// Appends an address.
pub fn write(address: SocketAddr, bytes: &mut Vec<u8>) {
    match address {
        SocketAddr::V4(address) => {
            bytes.extend(AF_INET.to_ne_bytes());
            bytes.extend(address.port().to_be_bytes());
            bytes.extend(address.ip().octets());
            bytes.extend([0; 8]);
        }
        SocketAddr::V6(address) => {
            bytes.extend(AF_INET6.to_ne_bytes());
            bytes.extend(address.port().to_be_bytes());
            bytes.extend([0; 4]);
            bytes.extend(address.ip().octets());
            bytes.extend(address.scope_id().to_ne_bytes());
        }
    }
}

/// Appends an address in a `sockaddr_storage`.
pub fn write_storage(address: SocketAddr, bytes: &mut Vec<u8>) {
    let end = bytes.len() + STORAGE_BYTES;
    write(address, bytes);
    bytes.resize(end, 0);
}

/// Returns whether two addresses are the same host's, with the same port.
pub fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && one.ip().to_canonical() == other.ip().to_canonical()
}

/// Returns an address in the form of a socket of IPv6 or IPv4. `mapped` keeps IPv4 addresses mapped on a socket of IPv6.
pub fn shown(address: SocketAddr, is_ipv6: bool, mapped: bool) -> SocketAddr {
    let ip = match (address.ip().to_canonical(), is_ipv6) {
        (IpAddr::V4(ip), true) if mapped => IpAddr::V6(ip.to_ipv6_mapped()),
        (IpAddr::V6(Ipv6Addr::UNSPECIFIED), false) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        (ip, _) => ip,
    };
    match (ip, address) {
        (IpAddr::V6(ip), SocketAddr::V6(old)) => SocketAddrV6::new(ip, old.port(), 0, old.scope_id()).into(),
        _ => SocketAddr::new(ip, address.port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_round_trip() {
        let addresses = ["1.2.3.4:5", "[2001:db8::1]:65535", "[fe80::1%7]:1"].map(|text| text.parse().unwrap());
        let mut bytes = Vec::new();
        addresses.iter().for_each(|address| write(*address, &mut bytes));
        assert_eq!(bytes.len(), IPV4_BYTES + 2 * IPV6_BYTES);
        assert_eq!(read_all(&bytes).unwrap(), addresses);
        for cut in 1..bytes.len() {
            let is_whole = [IPV4_BYTES, IPV4_BYTES + IPV6_BYTES].contains(&cut);
            assert_eq!(read_all(&bytes[..cut]).is_some(), is_whole, "{cut}");
        }
        assert_eq!(read(&[0; 64]), None, "AF_UNSPEC");
    }

    #[test]
    fn a_socket_of_ipv6_shows_ipv4_addresses_as_it_was_told() {
        let v4: SocketAddr = "1.2.3.4:5".parse().unwrap();
        let mapped: SocketAddr = "[::ffff:1.2.3.4]:5".parse().unwrap();
        assert_eq!(shown(v4, true, true), mapped);
        assert_eq!(shown(v4, true, false), v4);
        assert_eq!(shown(mapped, false, true), v4);
        assert_eq!(shown("[::]:9".parse().unwrap(), false, true), "0.0.0.0:9".parse().unwrap());
    }
}
