//! Addresses as users write them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context as _, Result};
use festina::{Config, Endpoint};
use tokio::net::lookup_host;

use crate::args::UsageError;

/// The UDP port that is registered for SCTP in UDP (RFC 6951 §5.1).
const SCTP_TUNNELING_PORT: u16 = 9899;

/// A host and a UDP port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    /// Empty for any local address.
    host: String,
    port: u16,
}

impl std::str::FromStr for HostPort {
    type Err = UsageError;

    /// Reads `host`, `host:port`, `address`, `address:port`, `[ipv6]:port` or `:port` (any local address).
    fn from_str(text: &str) -> Result<Self, UsageError> {
        let no_host = || UsageError::new("it is no host; write for example 127.0.0.1:9899 or [::1]:9899");
        let (host, port) = split(text).ok_or_else(no_host)?;
        let port = match port {
            None => SCTP_TUNNELING_PORT,
            Some(port) => port
                .parse()
                .map_err(|_| UsageError::new(format!("\"{port}\" is no UDP port; write for example 127.0.0.1:9899")))?,
        };
        let host = host.to_owned();
        if host.contains([' ', '/', '[', ']']) {
            return Err(no_host());
        }
        Ok(Self { host, port })
    }
}

impl HostPort {
    fn is_any(&self) -> bool {
        self.host.is_empty()
    }

    /// The first address that the host's name stands for.
    pub(crate) async fn resolve(&self) -> Result<SocketAddr> {
        if self.is_any() {
            return Ok((Ipv4Addr::UNSPECIFIED, self.port).into());
        }
        let found = lookup_host((self.host.as_str(), self.port)).await;
        found
            .with_context(|| format!("cannot find the host {}", self.host))?
            .next()
            .with_context(|| format!("the host {} has no address", self.host))
    }
}

/// An endpoint that listens there: on every address of the machine, IPv6 and IPv4, if no host is named.
///
/// # Errors
/// If the host has no address, or the socket cannot be opened.
pub(crate) async fn bind_to_listen(listen: &HostPort, config: Config) -> Result<Endpoint> {
    // Not every machine has IPv6, and some have it without IPv4 in it.
    if listen.is_any()
        && let Ok(endpoint) = Endpoint::bind((Ipv6Addr::UNSPECIFIED, listen.port).into(), config.clone()).await
    {
        return Ok(endpoint);
    }
    Ok(Endpoint::bind(listen.resolve().await?, config).await?)
}

/// Any port of any local address of the same family as `remote`.
pub(crate) fn unspecified_for(remote: SocketAddr) -> SocketAddr {
    match remote {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// The address as its peer would write it: an IPv4 peer of an IPv6 socket goes by its IPv4 address.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The host and, if there is one, the port.
fn split(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some((host, rest)) = text.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        return match rest.strip_prefix(':') {
            None if !rest.is_empty() => None,
            port => Some((host, port)),
        };
    }
    match text.split_once(':') {
        // More than one colon without brackets: an IPv6 address alone.
        Some((_, rest)) if rest.contains(':') => Some((text, None)),
        Some((host, port)) => Some((host, Some(port))),
        None => Some((text, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_an_address_is_understood() {
        for (text, host, port) in [
            ("127.0.0.1:5", "127.0.0.1", 5),
            ("127.0.0.1", "127.0.0.1", 9899),
            ("example.org:80", "example.org", 80),
            (":7000", "", 7000),
            ("[::1]:7000", "::1", 7000),
            ("[::1]", "::1", 9899),
            ("::1", "::1", 9899),
        ] {
            assert_eq!(text.parse().ok(), Some(HostPort { host: host.to_owned(), port }), "{text}");
        }
    }

    #[test]
    fn an_ipv4_peer_of_an_ipv6_socket_goes_by_its_ipv4_address() {
        for (seen, shown) in [("[::ffff:192.0.2.1]:5", "192.0.2.1:5"), ("[2001:db8::1]:5", "[2001:db8::1]:5")] {
            assert_eq!(seen.parse().map(canonical).ok(), shown.parse().ok(), "{seen}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["localhost:x", "localhost:65536", "a b", "http://example.org", "[::1]x", "[::1"] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }
}
