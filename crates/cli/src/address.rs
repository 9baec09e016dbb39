//! Addresses as users write them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context as _, Result};
use tokio::net::lookup_host;

use crate::args::UsageError;

/// The UDP port that is registered for SCTP in UDP (RFC 6951 §5.1).
const SCTP_TUNNELING_PORT: u16 = 9899;

/// A host and a UDP port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    host: String,
    port: u16,
}

impl std::str::FromStr for HostPort {
    type Err = UsageError;

    /// Reads `host`, `host:port`, `address`, `address:port`, `[ipv6]:port` or `:port` (any local address).
    fn from_str(text: &str) -> Result<Self, UsageError> {
        let (host, port) = split(text);
        let port = match port {
            None => SCTP_TUNNELING_PORT,
            Some(port) => port
                .parse()
                .map_err(|_| UsageError::new(format!("\"{port}\" is no UDP port; write for example 127.0.0.1:9899")))?,
        };
        let host = if host.is_empty() { Ipv4Addr::UNSPECIFIED.to_string() } else { host.to_owned() };
        if host.contains([' ', '/', '[', ']']) {
            return Err(UsageError::new("it is no host; write for example 127.0.0.1:9899 or [::1]:9899"));
        }
        Ok(Self { host, port })
    }
}

impl HostPort {
    /// The first address that the host's name stands for.
    pub(crate) async fn resolve(&self) -> Result<SocketAddr> {
        let found = lookup_host((self.host.as_str(), self.port)).await;
        found
            .with_context(|| format!("cannot find the host {}", self.host))?
            .next()
            .with_context(|| format!("the host {} has no address", self.host))
    }
}

/// Any port of any local address of the same family as `remote`.
pub(crate) fn unspecified_for(remote: SocketAddr) -> SocketAddr {
    match remote {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

fn split(text: &str) -> (&str, Option<&str>) {
    if let Some((host, rest)) = text.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        return (host, rest.strip_prefix(':'));
    }
    match text.split_once(':') {
        // More than one colon without brackets: an IPv6 address alone.
        Some((_, rest)) if rest.contains(':') => (text, None),
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
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
            (":7000", "0.0.0.0", 7000),
            ("[::1]:7000", "::1", 7000),
            ("[::1]", "::1", 9899),
            ("::1", "::1", 9899),
        ] {
            assert_eq!(text.parse().ok(), Some(HostPort { host: host.to_owned(), port }), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["localhost:x", "localhost:65536", "a b", "http://example.org"] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }
}
