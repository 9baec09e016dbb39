//! Who uses the proxy, and through which socket each reaches the server.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use festina_units::{Duration, Instant};

/// The most clients that a proxy serves at the same time. Each takes a file descriptor, of which many
/// systems grant a process no more than 1,024.
pub const CLIENTS_MAX: usize = 512;

/// A client that has been silent for this long gives way to a new one when the table is full.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// Tells clients apart, also those that used the same address one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct ClientId(u64);

/// A client's address and the socket through which its datagrams reach the server.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) addr: SocketAddr,
    /// Connected to the server, so that nobody else's datagrams come back to the client.
    pub(super) upstream: UdpSocket,
    last_heard: Instant,
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
    /// No clients yet, and never more than `count_max` at the same time.
    pub(super) fn new(target: SocketAddr, count_max: usize) -> Self {
        Self { target, count_max, by_id: BTreeMap::new(), by_addr: BTreeMap::new(), accepted_count: 0 }
    }

    /// The server's address.
    pub(super) fn target(&self) -> SocketAddr {
        self.target
    }

    /// How many clients have been accepted since the start.
    pub(super) fn accepted_count(&self) -> u64 {
        self.accepted_count
    }

    pub(super) fn get(&self, id: ClientId) -> Option<&Client> {
        self.by_id.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.by_id.iter().map(|(id, client)| (*id, client))
    }

    /// The client at `addr`, from which a datagram came at `now`; a new one if it is not known.
    ///
    /// # Errors
    /// If the table is full of clients that are not idle, or if no socket can be made.
    pub(super) fn heard_from(&mut self, addr: SocketAddr, now: Instant) -> io::Result<ClientId> {
        if let Some(id) = self.by_addr.get(&addr)
            && let Some(client) = self.by_id.get_mut(id)
        {
            client.last_heard = now;
            return Ok(*id);
        }
        if self.by_id.len() >= self.count_max {
            self.forget_longest_idle(now)?;
        }
        let client = Client { addr, upstream: connect(self.target)?, last_heard: now };
        let id = ClientId(self.accepted_count);
        self.accepted_count += 1;
        self.by_id.insert(id, client);
        self.by_addr.insert(addr, id);
        Ok(id)
    }

    fn forget_longest_idle(&mut self, now: Instant) -> io::Result<()> {
        let (id, addr) = self
            .iter()
            .min_by_key(|(_, client)| client.last_heard)
            .filter(|(_, client)| now - client.last_heard >= IDLE_TIME)
            .map(|(id, client)| (id, client.addr))
            .ok_or_else(|| io::Error::other("too many clients"))?;
        self.by_id.remove(&id);
        self.by_addr.remove(&addr);
        Ok(())
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
    fn a_full_table_refuses_newcomers_until_a_client_is_idle() {
        let mut clients = Clients::new(addr(9), 3);
        for port in 1..=3 {
            let heard_at = Instant::from_millis(port.into());
            clients.heard_from(addr(port), heard_at).expect("room");
        }
        let newcomer = addr(60_000);
        let too_early = Instant::from_secs(30);
        assert!(clients.heard_from(newcomer, too_early).is_err());
        let first_is_idle = Instant::from_millis(30_001);
        let id = clients.heard_from(newcomer, first_is_idle).expect("client 1 gave way");
        assert_eq!(clients.get(id).map(|client| client.addr), Some(newcomer));
        assert_eq!(clients.iter().count(), 3);
        assert!(clients.get(ClientId(0)).is_none());
        assert!(clients.get(ClientId(1)).is_some());
    }
}
