//! The clients of the proxy, each with its socket to the server.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use festina_units::{Duration, Instant};

use super::upstream::{Upstream, is_out_of_descriptors};

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
    pub(super) upstream: Upstream,
    last_heard: Instant,
    was_heard_again: bool,
}

/// The clients of a proxy.
#[derive(Debug)]
pub(super) struct Clients {
    /// The server's addresses, in the order in which to try them.
    targets: Vec<SocketAddr>,
    by_id: BTreeMap<ClientId, Client>,
    by_addr: BTreeMap<SocketAddr, ClientId>,
    count_max: usize,
    accepted_count: u64,
}

impl Clients {
    /// Creates an empty table with room for `count_max` clients.
    pub(super) fn new(target: SocketAddr, count_max: usize) -> Self {
        Self { targets: vec![target], count_max, by_id: BTreeMap::new(), by_addr: BTreeMap::new(), accepted_count: 0 }
    }

    /// Adds addresses of the server, to be tried after the earlier ones.
    pub(super) fn add_targets(&mut self, targets: &[SocketAddr]) {
        self.targets.extend(targets);
    }

    /// Returns the server's address for this client; the first one if the client was forgotten.
    pub(super) fn target_of(&self, id: ClientId) -> SocketAddr {
        let of_client = self.by_id.get(&id).and_then(|client| client.upstream.target(&self.targets));
        of_client.unwrap_or(self.targets[0])
    }

    /// Returns the number of clients accepted since the start.
    pub(super) fn accepted_count(&self) -> u64 {
        self.accepted_count
    }

    /// Returns a client and the server's addresses, for its [`Upstream`].
    pub(super) fn get(&mut self, id: ClientId) -> Option<(&mut Client, &[SocketAddr])> {
        Some((self.by_id.get_mut(&id)?, &self.targets))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.by_id.iter().map(|(id, client)| (*id, client))
    }

    /// Returns the client at `addr`, which sent a datagram at `now`, and adds it if it is unknown.
    ///
    /// # Errors
    /// If no socket can be made, or if the system has no route to any of the server's addresses.
    pub(super) fn heard_from(&mut self, addr: SocketAddr, now: Instant) -> io::Result<ClientId> {
        if let Some(id) = self.by_addr.get(&addr)
            && let Some(client) = self.by_id.get_mut(id)
        {
            (client.last_heard, client.was_heard_again) = (now, true);
            return Ok(*id);
        }
        let upstream = match Upstream::connect(&self.targets) {
            Err(error) if is_out_of_descriptors(&error) && self.forget_one(now) => Upstream::connect(&self.targets),
            result => result,
        }?;
        if self.by_id.len() >= self.count_max {
            self.forget_one(now);
        }
        let client = Client { addr, upstream, last_heard: now, was_heard_again: false };
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

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

    #[test]
    fn a_server_without_a_route_costs_no_client_its_place() {
        let mut clients = Clients::new(addr(9), 1);
        let known = clients.heard_from(addr(1), Instant::ZERO).expect("room");
        // The system permits no socket to send there by default.
        clients.targets = vec![SocketAddr::new(Ipv4Addr::BROADCAST.into(), 9)];
        clients.heard_from(addr(2), Instant::ZERO).expect_err("no way there");
        assert_eq!(clients.heard_from(addr(1), Instant::ZERO).expect("still known"), known);
    }
}
