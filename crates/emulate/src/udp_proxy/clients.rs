//! The clients of the proxy, each with its socket to the server.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use super::upstream::{Upstream, is_out_of_descriptors};
use crate::client_socket::ClientAddr;
use crate::recent::Recent;

/// Maximum number of clients at the same time. Each takes a file descriptor, and many systems limit a process to 1,024. A new client replaces the one
/// that has been silent for longest.
pub const CLIENTS_MAX: usize = 512;

/// Identifies a client. Clients that used the same address one after the other have different ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct ClientId(u64);

/// A client's address and the socket through which its datagrams reach the server.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) addr: ClientAddr,
    pub(super) upstream: Upstream,
}

/// The clients of a proxy.
#[derive(Debug)]
pub(super) struct Clients {
    /// The server's addresses, in the order in which to try them.
    targets: Vec<SocketAddr>,
    by_id: BTreeMap<ClientId, Client>,
    by_addr: Recent<ClientAddr, ClientId>,
    accepted_count: u64,
    forgotten_count: u64,
}

impl Clients {
    /// Creates an empty table with room for `count_max` clients.
    pub(super) fn new(target: SocketAddr, count_max: usize) -> Self {
        let by_addr = Recent::new(count_max);
        Self { targets: vec![target], by_id: BTreeMap::new(), by_addr, accepted_count: 0, forgotten_count: 0 }
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

    /// Returns the number of clients that made room for others.
    pub(super) fn forgotten_count(&self) -> u64 {
        self.forgotten_count
    }

    /// Returns a client and the server's addresses, for its [`Upstream`].
    pub(super) fn get(&mut self, id: ClientId) -> Option<(&mut Client, &[SocketAddr])> {
        Some((self.by_id.get_mut(&id)?, &self.targets))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.by_id.iter().map(|(id, client)| (*id, client))
    }

    /// Returns the client at `addr`, which has sent a datagram, and adds it if it is unknown.
    ///
    /// # Errors
    /// If no socket can be made, or if the system has no route to any of the server's addresses.
    pub(super) fn heard_from(&mut self, addr: ClientAddr) -> io::Result<ClientId> {
        if let Some(id) = self.by_addr.touch(addr) {
            return Ok(*id);
        }
        let upstream = match Upstream::connect(&self.targets) {
            Err(error) if is_out_of_descriptors(&error) => {
                let Some(evicted) = self.by_addr.evict() else { return Err(error) };
                self.forget(evicted);
                Upstream::connect(&self.targets)
            }
            result => result,
        }?;
        let id = ClientId(self.accepted_count);
        self.accepted_count += 1;
        self.by_id.insert(id, Client { addr, upstream });
        if let Some(evicted) = self.by_addr.insert(addr, id) {
            self.forget(evicted);
        }
        Ok(id)
    }

    /// Closes the socket of a client that made room.
    fn forget(&mut self, (_, id): (ClientAddr, ClientId)) {
        self.by_id.remove(&id);
        self.forgotten_count += 1;
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
        let first = clients.heard_from(addr(1).into()).expect("room");
        let second = clients.heard_from(addr(2).into()).expect("room");
        assert_ne!(first, second);
        assert_eq!(clients.heard_from(addr(1).into()).expect("known"), first);
        assert_eq!(clients.accepted_count(), 2);
    }

    #[test]
    fn a_newcomer_takes_the_place_of_the_client_that_was_silent_for_longest() {
        let mut clients = Clients::new(addr(9), 3);
        let mut hear = |port: u16| {
            clients.heard_from(addr(port).into()).expect("a socket");
            (clients.iter().map(|(_, client)| client.addr.remote.port()).collect::<Vec<_>>(), clients.forgotten_count())
        };
        for port in [1, 2, 1, 2, 3] {
            hear(port);
        }
        assert_eq!(hear(4), (vec![2, 3, 4], 1));
        assert_eq!(hear(2), (vec![2, 3, 4], 1));
        assert_eq!(hear(5), (vec![2, 4, 5], 2), "the newcomer before it keeps its place");
        assert_eq!(hear(1), (vec![2, 5, 1], 3));
    }

    #[test]
    fn a_server_without_a_route_costs_no_client_its_place() {
        let mut clients = Clients::new(addr(9), 1);
        let known = clients.heard_from(addr(1).into()).expect("room");
        // The system permits no socket to send there by default.
        clients.targets = vec![SocketAddr::new(Ipv4Addr::BROADCAST.into(), 9)];
        clients.heard_from(addr(2).into()).expect_err("no way there");
        assert_eq!(clients.heard_from(addr(1).into()).expect("still known"), known);
    }
}
