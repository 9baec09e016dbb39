//! The clients of the proxy, each with its socket to the server.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use festina_units::{Duration, Instant};

/// Maximum number of clients at the same time. Each takes a file descriptor, and many systems limit a process to 1,024.
pub const CLIENTS_MAX: usize = 512;

/// When the table is full, a new client replaces one that has been silent for this long; or else one that has sent only
/// one datagram; or else any. Of several, the longest silent one is replaced, so a flood of new addresses does not
/// evict clients in use.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// Identifies a client. Clients that used the same address one after the other have different ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct ClientId(u64);

/// A client's address and the socket through which its datagrams reach the server.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) addr: SocketAddr,
    /// Connected to the server, so that only the server's datagrams come back to the client.
    pub(super) upstream: UdpSocket,
    last_heard: Instant,
    was_heard_again: bool,
}

/// The clients of a proxy.
#[derive(Debug)]
pub(super) struct Clients {
    target: SocketAddr,
    by_id: BTreeMap<ClientId, Client>,
    by_addr: BTreeMap<SocketAddr, ClientId>,
    count_max: usize,
    accepted_count: u64,
}

impl Clients {
    /// Creates an empty table with room for `count_max` clients.
    pub(super) fn new(target: SocketAddr, count_max: usize) -> Self {
        Self { target, count_max, by_id: BTreeMap::new(), by_addr: BTreeMap::new(), accepted_count: 0 }
    }

    /// The server's address.
    pub(super) fn target(&self) -> SocketAddr {
        self.target
    }

    /// Returns the number of clients accepted since the start.
    pub(super) fn accepted_count(&self) -> u64 {
        self.accepted_count
    }

    pub(super) fn get(&self, id: ClientId) -> Option<&Client> {
        self.by_id.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.by_id.iter().map(|(id, client)| (*id, client))
    }

    /// Returns the client at `addr`, which sent a datagram at `now`, and adds it if it is unknown.
    ///
    /// # Errors
    /// If no socket can be made.
    pub(super) fn heard_from(&mut self, addr: SocketAddr, now: Instant) -> io::Result<ClientId> {
        if let Some(id) = self.by_addr.get(&addr)
            && let Some(client) = self.by_id.get_mut(id)
        {
            (client.last_heard, client.was_heard_again) = (now, true);
            return Ok(*id);
        }
        if self.by_id.len() >= self.count_max {
            self.forget_one(now);
        }
        let upstream = match connect(self.target) {
            // The process may have too many open files: forget a client and try again.
            Err(_) if self.forget_one(now) => connect(self.target),
            result => result,
        };
        let client = Client { addr, upstream: upstream?, last_heard: now, was_heard_again: false };
        let id = ClientId(self.accepted_count);
        self.accepted_count += 1;
        self.by_id.insert(id, client);
        self.by_addr.insert(addr, id);
        Ok(id)
    }

    /// Forgets a client to make room. Returns whether there was one.
    fn forget_one(&mut self, now: Instant) -> bool {
        let is_kept =
            |client: &Client| (now - client.last_heard < IDLE_TIME && client.was_heard_again, client.last_heard);
        let Some((id, addr)) =
            self.iter().min_by_key(|(_, client)| is_kept(client)).map(|(id, client)| (id, client.addr))
        else {
            return false;
        };
        self.by_id.remove(&id);
        self.by_addr.remove(&addr);
        true
    }
}

fn connect(target: SocketAddr) -> io::Result<UdpSocket> {
    let any_port_of = |ip: IpAddr| SocketAddr::new(ip, 0);
    let local = match target.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => any_port_of(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V4(_) => any_port_of(Ipv4Addr::UNSPECIFIED.into()),
        IpAddr::V6(ip) if ip.is_loopback() => any_port_of(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V6(_) => any_port_of(Ipv6Addr::UNSPECIFIED.into()),
    };
    let socket = UdpSocket::bind(local)?;
    super::prepare(&socket)?;
    socket.connect(target)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(port: u16) -> SocketAddr {
        SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)
    }

    #[test]
    fn a_known_client_keeps_its_socket() {
        let mut clients = Clients::new(addr(9), 2);
        let first = clients.heard_from(addr(1), Instant::ZERO).expect("room");
        let second = clients.heard_from(addr(2), Instant::ZERO).expect("room");
        assert_ne!(first, second);
        assert_eq!(clients.heard_from(addr(1), Instant::ZERO).expect("known"), first);
        assert_eq!(clients.accepted_count(), 2);
    }

    #[test]
    fn a_newcomer_takes_the_place_of_an_idle_client_or_of_a_stranger() {
        let mut clients = Clients::new(addr(9), 3);
        let mut hear = |port: u16, at_ms| {
            clients.heard_from(addr(port), Instant::from_millis(at_ms)).expect("a socket");
            clients.iter().map(|(_, client)| client.addr.port()).collect::<Vec<_>>()
        };
        hear(1, 0);
        hear(1, 1);
        hear(2, 2);
        hear(2, 3);
        for stranger in 100..200 {
            assert_eq!(hear(stranger, stranger.into()), [1, 2, stranger]);
        }
        assert_eq!(hear(199, 200), [1, 2, 199], "all are known");
        assert_eq!(hear(300, 300), [2, 199, 300], "the one silent for longest is replaced");
        assert_eq!(hear(2, 30_100), [2, 199, 300]);
        assert_eq!(hear(301, 30_250), [2, 300, 301], "an idle one is replaced before a stranger");
    }
}
