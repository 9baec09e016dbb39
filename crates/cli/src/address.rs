//! Addresses as users write them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use festina::{AddressError, Endpoint, ServerConfig};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::usage::UsageError;

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
        Self::read(text, SCTP_TUNNELING_PORT)
    }
}

/// Reads the address of a peer, which has a host and a port.
///
/// # Errors
/// If it has none, as a variable of a script that is not set.
pub(crate) fn peer(text: &str) -> Result<HostPort, UsageError> {
    peer_at(SCTP_TUNNELING_PORT)(text)
}

/// As [`peer`], with this port unless the text has one.
pub(crate) fn peer_at(default_port: u16) -> impl Fn(&str) -> Result<HostPort, UsageError> + Clone {
    move |text| match HostPort::read(text, default_port)? {
        address if address.is_any() => Err(no_host()),
        HostPort { port: 0, .. } => Err(UsageError::new("0 is no port of a peer")),
        address => Ok(address),
    }
}

fn no_host() -> UsageError {
    UsageError::new("there is no host; write for example 127.0.0.1:9899 or [::1]:9899")
}

impl HostPort {
    fn read(text: &str, default_port: u16) -> Result<Self, UsageError> {
        let not_host = || UsageError::new("it is not a host; write for example 127.0.0.1:9899 or [::1]:9899");
        if text.is_empty() {
            return Err(no_host());
        }
        let (host, port) = split(text).ok_or_else(not_host)?;
        let port =
            match port {
                None => default_port,
                // The parser would take a sign.
                Some(port) => port.parse().ok().filter(|_| !port.starts_with('+')).ok_or_else(|| {
                    UsageError::new(format!("\"{port}\" is no port; write for example 127.0.0.1:9899"))
                })?,
            };
        let host = host.to_owned();
        // A port behind an IPv6 address without brackets is no part of a name that could be looked up.
        let is_ipv6 = |host: &str| host.split('%').next().is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
        if host.contains([' ', '/', '[', ']']) || host.contains(':') && !is_ipv6(&host) {
            return Err(not_host());
        }
        Ok(Self { host, port })
    }

    fn is_any(&self) -> bool {
        self.host.is_empty()
    }

    /// Returns the host as it was written, without the port.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the first address of the host.
    pub(crate) async fn resolve(&self) -> Result<SocketAddr> {
        self.resolve_all().await?.first().copied().with_context(|| format!("the host {} has no address", self.host))
    }

    /// Returns all addresses of the host, at least one, in the order in which to try them.
    pub(crate) async fn resolve_all(&self) -> Result<Vec<SocketAddr>> {
        if self.is_any() {
            return Ok(vec![(Ipv4Addr::UNSPECIFIED, self.port).into()]);
        }
        match festina::parse_address(&self.to_string()) {
            Ok(address) => return Ok(vec![address]),
            Err(error @ AddressError::Zone { .. }) => return Err(error.into()),
            Err(_) => {}
        }
        let found = lookup_host((self.host.as_str(), self.port)).await;
        let found = in_turn(found.with_context(|| format!("cannot find the host {}", self.host))?);
        if found.is_empty() {
            bail!("the host {} has no address", self.host);
        }
        Ok(found)
    }
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Most addresses of a host that are tried.
const ADDRESSES_MAX: usize = 8;

/// How long an attempt runs alone before the next address is tried as well (RFC 8305 §8).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Sorts addresses for [`race`]: the family of the first one, and then both in turn (RFC 8305 §4).
pub(crate) fn in_turn(found: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let found: Vec<SocketAddr> = found.collect();
    let first_is_ipv4 = found.first().is_some_and(SocketAddr::is_ipv4);
    let (first, second): (Vec<_>, Vec<_>) = found.into_iter().partition(|address| address.is_ipv4() == first_is_ipv4);
    let mut second = second.into_iter();
    let mut sorted: Vec<SocketAddr> =
        first.into_iter().flat_map(|address| [Some(address), second.next()]).flatten().collect();
    sorted.extend(second);
    sorted.truncate(ADDRESSES_MAX);
    sorted
}

/// Tries one address after the other, each as soon as the one before has failed or taken [`ATTEMPT_DELAY`], and returns the first success
/// (Happy Eyeballs, RFC 8305 §5).
///
/// # Errors
/// The error of the first address if all fail.
pub(crate) async fn race<W: Clone, T: Send + 'static, A>(ways: &[W], attempt: impl Fn(W) -> A) -> Result<T>
where
    A: Future<Output = Result<T>> + Send + 'static,
{
    let mut waiting = ways.iter();
    let mut attempts = JoinSet::new();
    let mut first_error = None;
    loop {
        if let Some(way) = waiting.next() {
            attempts.spawn(attempt(way.clone()));
        } else if attempts.is_empty() {
            return Err(first_error.unwrap_or_else(|| anyhow!("there is no address to try")));
        }
        let ended = if waiting.len() > 0 {
            timeout(ATTEMPT_DELAY, attempts.join_next()).await.ok().flatten()
        } else {
            attempts.join_next().await
        };
        match ended {
            Some(Ok(Ok(first))) => return Ok(first),
            Some(Ok(Err(error))) => first_error = first_error.or(Some(error)),
            Some(Err(error)) => return Err(error.into()),
            None => {}
        }
    }
}

/// Connects to the first address that accepts.
///
/// # Errors
/// If none does.
pub(crate) async fn connect_tcp(addresses: &[SocketAddr]) -> Result<TcpStream> {
    race(addresses, |address| async move {
        TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))
    })
    .await
}

/// Has the system notice a peer of a TCP connection that is gone without a word, after about two of these.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Turns keepalive probes on.
///
/// # Errors
/// If the system does not take the setting.
pub(crate) fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    const PROBES: u32 = 2;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / PROBES);
    #[cfg(unix)]
    let keepalive = keepalive.with_retries(PROBES);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Has urgent data read as part of the stream (RFC 6093 §4): otherwise the system takes it out. Set for a listener, it holds for its connections from
/// their first byte.
///
/// # Errors
/// If the system does not take the setting.
pub(crate) fn read_urgent_data<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    socket.into().set_out_of_band_inline(true)
}

/// Has a connection that is dropped reset, until its linger time is set again: its peer must not take a part for the whole.
pub(crate) fn reset_when_dropped(stream: &TcpStream) {
    // It fails only if the connection is broken, and then the peer knows.
    let _ = stream.set_zero_linger();
}

/// Opens a socket with `bind` to listen there: on every address of the machine, IPv6 and IPv4, if no host is named.
///
/// # Errors
/// If the host has no address, or the socket cannot be opened.
pub(crate) async fn open_to_listen<T>(listen: &HostPort, bind: impl AsyncFn(SocketAddr) -> Result<T>) -> Result<T> {
    // Some machines have no IPv6, and some have IPv6 sockets without IPv4.
    if listen.is_any()
        && let Ok(opened) = bind((Ipv6Addr::UNSPECIFIED, listen.port).into()).await
    {
        return Ok(opened);
    }
    bind(listen.resolve().await?).await
}

/// An endpoint that listens there, as [`open_to_listen`].
///
/// # Errors
/// As [`open_to_listen`].
pub(crate) async fn bind_to_listen(listen: &HostPort, config: ServerConfig) -> Result<Endpoint> {
    open_to_listen(listen, async |address| Ok(Endpoint::server(address, config.clone()).await?)).await
}

/// A listener for TCP connections there, as [`open_to_listen`], which [reads urgent data](read_urgent_data).
///
/// # Errors
/// As [`open_to_listen`].
pub(crate) async fn listen_tcp(listen: &HostPort) -> Result<TcpListener> {
    let bind = async |address| TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"));
    let listener = open_to_listen(listen, bind).await?;
    read_urgent_data(&listener)?;
    Ok(listener)
}

/// Any port of any local address of the same family as `remote`.
pub(crate) fn unspecified_for(remote: SocketAddr) -> SocketAddr {
    match remote {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// The address as its peer would write it: an IPv4 peer of an IPv6 socket goes by its IPv4 address. A zone is kept.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip.is_ipv4() => SocketAddr::new(ip, address.port()),
        _ => address,
    }
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
        for (seen, shown) in [("[::ffff:192.0.2.1]:5", "192.0.2.1:5"), ("[fe80::1%2]:5", "[fe80::1%2]:5")] {
            assert_eq!(seen.parse().map(canonical).ok(), shown.parse().ok(), "{seen}");
        }
    }

    #[test]
    fn families_take_turns_beginning_with_the_first() {
        let sorted = |texts: &[&str]| {
            let sorted = in_turn(texts.iter().map(|text| text.parse().expect("an address")));
            sorted.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let (one, two, three) = ("[::1]:1", "[::2]:1", "[::3]:1");
        assert_eq!(sorted(&[one, two, three, "1.1.1.1:1"]), [one, "1.1.1.1:1", two, three]);
        assert_eq!(sorted(&["1.1.1.1:1", one, two]), ["1.1.1.1:1", one, two]);
        assert_eq!(sorted(&[one; 20]).len(), ADDRESSES_MAX);
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn the_zone_of_an_address_is_the_name_or_the_number_of_an_interface() {
        for text in ["[fe80::1%1]", "[fe80::1%1]:9899", "fe80::1%lo", "[fe80::1%lo]:9899"] {
            let host: HostPort = text.parse().expect("a host");
            // The loopback interface is the first one.
            assert_eq!(host.resolve().await.ok(), "[fe80::1%1]:9899".parse().ok(), "{text}");
        }
        let host: HostPort = "[fe80::1%no-such-one]:7".parse().expect("a host");
        let error = host.resolve().await.expect_err("there is no such interface").to_string();
        assert!(error.contains("\"no-such-one\" is no network interface"), "{error}");
    }

    #[tokio::test]
    async fn an_address_that_fails_or_is_silent_does_not_keep_the_next_from_its_turn() {
        let addresses: Vec<SocketAddr> = (1..=4).map(|port| (Ipv4Addr::LOCALHOST, port).into()).collect();
        let start = tokio::time::Instant::now();
        let answers = |address: SocketAddr| async move {
            match address.port() {
                1 => Err(anyhow!("refused")),
                2 | 4 => std::future::pending().await,
                port => Ok(port),
            }
        };
        assert_eq!(race(&addresses, answers).await.expect("the third answers"), 3);
        assert!(start.elapsed() >= ATTEMPT_DELAY, "the second was silent for that long");
        let refused = |address: SocketAddr| async move { Err::<(), _>(anyhow!("refused by {address}")) };
        let error = race(&addresses, refused).await.expect_err("all refuse");
        assert_eq!(error.to_string(), "refused by 127.0.0.1:1");
        assert!(race(&[][..], refused).await.is_err());
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "localhost:x",
            "localhost:65536",
            "localhost:+80",
            "localhost:",
            "a b",
            "http://example.org",
            "[::1]x",
            "[::1",
            "::1:37226",
            "a:b:c",
        ] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_peer_has_a_host_and_a_port_and_a_listener_needs_neither() {
        for text in ["", ":9899", ":0", "127.0.0.1:0", "[::1]:0", "[]:7"] {
            assert!(peer(text).is_err(), "{text}");
            assert!(text.is_empty() || text.parse::<HostPort>().is_ok(), "{text}");
        }
        assert_eq!(peer("localhost").map(|peer| peer.port).ok(), Some(9899));
        assert_eq!(peer_at(9601)("localhost").map(|peer| peer.port).ok(), Some(9601));
        assert_eq!(peer_at(9601)("localhost:7").map(|peer| peer.port).ok(), Some(7));
        assert!(peer("").expect_err("no host").to_string().starts_with("there is no host"));
        assert!(peer("localhost:0").expect_err("no port").to_string().starts_with("0 is no port"));
    }
}
