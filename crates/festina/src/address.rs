//! IP addresses with ports as users write them, with zones.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs as _};

use thiserror::Error;

/// A host and its UDP port, as users write them: `game.example:9899`, `192.0.2.1:9899`, `[::1]:9899`, or an address as for [`parse_address`]. The
/// certificate of a server must have this name, or this address if there is no name ([`ConnectOptions::server_name`](crate::ConnectOptions::server_name)
/// changes that). A text is examined and looked up when it is connected to.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Host(pub(crate) Spelled);

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Spelled {
    Address(SocketAddr),
    Text(String),
}

impl From<SocketAddr> for Host {
    fn from(address: SocketAddr) -> Self {
        Self(Spelled::Address(address))
    }
}

impl From<String> for Host {
    fn from(text: String) -> Self {
        Self(Spelled::Text(text))
    }
}

impl From<&String> for Host {
    fn from(text: &String) -> Self {
        text.clone().into()
    }
}

impl From<&str> for Host {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Spelled::Address(address) => address.fmt(f),
            Spelled::Text(text) => text.fmt(f),
        }
    }
}

festina_units::debug_is_display!(Host);

/// Caller: why a text is no address.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It is no IP address with a port.
    #[error(
        "{0:?} is no address: expected an IP address and a port such as 127.0.0.1:9899, [::1]:9899 or [fe80::1%eth0]:9899"
    )]
    Syntax(String),
    /// The zone is no network interface of this machine, or the address has no zones.
    #[error("{zone:?} is no network interface of this machine through which {address} is reached")]
    Zone {
        /// The address without its zone.
        address: Ipv6Addr,
        /// The zone.
        zone: String,
    },
}

festina_units::debug_is_display!(AddressError);

/// Reads an IP address and a port: `127.0.0.1:9899`, `[::1]:9899`. The zone of a link-local address (RFC 4007 §11) is the name or the number of a
/// network interface: `[fe80::1%eth0]:9899`, `[fe80::1%2]:9899`. Nothing is looked up in DNS.
///
/// # Errors
/// See [`AddressError`].
pub fn parse_address(text: &str) -> Result<SocketAddr, AddressError> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let zoned = text.rsplit_once(':').and_then(|(host, port)| Some((Zoned::of(host)?, port.parse::<u16>().ok()?)));
    let Some((Zoned { address, zone: Some(zone) }, port)) = zoned else {
        return Err(AddressError::Syntax(text.to_owned()));
    };
    // The system converts the name of the interface, and asks no server for a numeric host.
    let found = (format!("{address}%{zone}"), port).to_socket_addrs();
    let found = found.ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| AddressError::Zone { address, zone: zone.to_owned() })
}

/// An IPv6 address within a text, and its zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zoned<'a> {
    pub(crate) address: Ipv6Addr,
    pub(crate) zone: Option<&'a str>,
}

impl<'a> Zoned<'a> {
    /// Reads a host in brackets.
    pub(crate) fn of(host: &'a str) -> Option<Self> {
        Self::without_brackets(host.strip_prefix('[')?.strip_suffix(']')?)
    }

    fn without_brackets(host: &'a str) -> Option<Self> {
        let (address, zone) = match host.split_once('%') {
            Some((_, "")) => return None,
            Some((address, zone)) => (address, Some(zone)),
            None => (host, None),
        };
        Some(Self { address: address.parse().ok()?, zone })
    }
}

impl fmt::Display for Zoned<'_> {
    /// Writes it in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.zone {
            Some(zone) => write!(f, "[{}%{zone}]", self.address),
            None => write!(f, "[{}]", self.address),
        }
    }
}

/// The host as certificates and sessions name it: an IPv6 address has neither brackets nor zone there.
pub(crate) fn certified(host: &str) -> String {
    let zoned = Zoned::of(host).or_else(|| Zoned::without_brackets(host));
    zoned.map_or_else(|| host.to_owned(), |zoned| zoned.address.to_string())
}

/// An IPv4 address that was written as one of IPv6 becomes one of IPv4. A zone is kept.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip.is_ipv4() => SocketAddr::new(ip, address.port()),
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_names_or_numbers_of_interfaces() {
        for text in ["127.0.0.1:9", "[::1]:9", "[2001:db8::1]:9", "[fe80::1%7]:9"] {
            assert_eq!(parse_address(text).ok(), text.parse().ok(), "{text}");
        }
        let Ok(SocketAddr::V6(by_name)) = parse_address("[fe80::1%lo]:9") else {
            // Elsewhere the interface has another name.
            return assert_ne!(std::env::consts::OS, "linux");
        };
        assert!(by_name.scope_id() > 0);
        assert_eq!((by_name.ip(), by_name.port()), (&"fe80::1".parse().unwrap(), 9));
        let by_number = format!("[fe80::1%{}]:9", by_name.scope_id());
        assert_eq!(parse_address(&by_number), Ok(by_name.into()));
        // The text of an address can be read again.
        assert_eq!(parse_address(&by_name.to_string()), Ok(by_name.into()));
    }

    #[test]
    fn errors_say_whether_the_zone_is_wrong() {
        let error = parse_address("[fe80::1%no-such-one]:9").unwrap_err();
        assert!(matches!(&error, AddressError::Zone { zone, .. } if zone == "no-such-one"), "{error}");
        for text in
            ["", "localhost:9", "fe80::1%lo:9", "[fe80::1%lo]", "[fe80::1%]:9", "[x%lo]:9", "[fe80::1%lo]:99999"]
        {
            assert_eq!(parse_address(text), Err(AddressError::Syntax(text.to_owned())));
        }
        assert!(parse_address("[fe80::1%a\0b]:9").is_err());
    }

    #[test]
    fn certificates_name_addresses_without_zones() {
        for (host, expected) in [
            ("[fe80::1%eth0]", "fe80::1"),
            ("fe80::1%2", "fe80::1"),
            ("[::1]", "::1"),
            ("::1", "::1"),
            ("192.0.2.1", "192.0.2.1"),
            ("a%b", "a%b"),
            ("host.example", "host.example"),
        ] {
            assert_eq!(certified(host), expected);
        }
    }

    #[test]
    fn canonical_addresses_keep_their_zones() {
        for (seen, shown) in [
            ("[::ffff:192.0.2.1]:5", "192.0.2.1:5"),
            ("[2001:db8::1]:5", "[2001:db8::1]:5"),
            ("[fe80::1%3]:5", "[fe80::1%3]:5"),
        ] {
            assert_eq!(canonical(seen.parse().unwrap()).to_string(), shown);
        }
    }
}
