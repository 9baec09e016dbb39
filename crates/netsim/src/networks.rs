//! Two hosts on several networks at once.
//!
//! ```text
//!            network 0, there and back
//!          ┌───────────────────────────┐
//!  host 0 ─┤ network 1, there and back ├─ host 1
//!          └───────────────────────────┘
//! ```

use std::net::SocketAddr;

use festina_units::{ByteCount, Duration, Instant};

use crate::link::{Link, LinkConfig, LinkPacket};
use crate::simulation::Node;

/// Headers of IPv4 and UDP.
const HEADER_BYTES: u64 = 28;
/// The largest fragment, IPv6's minimum MTU.
const FRAGMENT_BYTES_MAX: u64 = 1_280;

/// The UDP payload of a datagram between two hosts.
#[derive(Debug, Clone)]
pub struct Datagram {
    /// The network that carries it.
    pub network: usize,
    /// Its source and its destination.
    pub addresses: [SocketAddr; 2],
    /// Its bytes, without the headers of IPv4 and UDP.
    pub bytes: Vec<u8>,
    /// It travels in fragments, and no MTU is too small for it.
    pub is_fragmented: bool,
}

impl LinkPacket for Datagram {
    fn size(&self) -> ByteCount {
        let bytes = HEADER_BYTES + self.bytes.len() as u64;
        ByteCount::from_bytes(if self.is_fragmented { bytes.min(FRAGMENT_BYTES_MAX) } else { bytes })
    }

    fn corrupt(&mut self, entropy: u64) {
        if let Some(bit) = entropy.checked_rem(self.bytes.len() as u64 * 8)
            && let Some(byte) = usize::try_from(bit / 8).ok().and_then(|at| self.bytes.get_mut(at))
        {
            *byte ^= 1 << (bit % 8);
        }
    }
}

/// Two hosts and the networks between them, running.
///
/// At each instant all datagrams arrive first, by network and then by sender; then both hosts handle their timers, whether or not they are due.
#[derive(Debug)]
pub struct Networks<N> {
    now: Instant,
    hosts: [N; 2],
    /// The caller may have changed this host since it was asked for its datagrams.
    is_touched: [bool; 2],
    /// Both links of each network, that of host 0 first.
    links: Vec<[Link<Datagram>; 2]>,
}

impl<N: Node<Datagram>> Networks<N> {
    /// Joins two hosts at time zero by a network for each configuration, which both of its directions have.
    pub fn new(hosts: [N; 2], configs: &[LinkConfig], seed: u64) -> Self {
        let links = configs.iter().enumerate().map(|(network, config)| {
            ["there", "back"].map(|way| Link::new(config.clone(), seed, &format!("{network} {way}")))
        });
        Self { now: Instant::ZERO, hosts, is_touched: [false; 2], links: links.collect() }
    }

    /// Returns the present instant.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns a host.
    ///
    /// # Panics
    /// If its number is neither 0 nor 1.
    pub fn host(&self, host: usize) -> &N {
        &self.hosts[host]
    }

    /// Returns a host for modification; its datagrams are sent at the present instant when the simulation continues.
    ///
    /// # Panics
    /// If its number is neither 0 nor 1.
    pub fn host_mut(&mut self, host: usize) -> &mut N {
        self.is_touched[host] = true;
        &mut self.hosts[host]
    }

    /// Returns the link that carries the datagrams of a host on a network, for its counters and to change its loss, delay or MTU.
    ///
    /// # Panics
    /// If there is no such network or host.
    pub fn link_mut(&mut self, network: usize, host: usize) -> &mut Link<Datagram> {
        &mut self.links[network][host]
    }

    /// Changes both links of a network.
    ///
    /// # Panics
    /// If there is no network with this number.
    pub fn change(&mut self, network: usize, change: impl FnMut(&mut Link<Datagram>)) {
        self.links[network].iter_mut().for_each(change);
    }

    /// Simulates all events of this time.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    /// Simulates all events up to and including `end`. An `end` in the past changes nothing.
    pub fn run_until(&mut self, end: Instant) {
        if end < self.now {
            return;
        }
        for host in 0..2 {
            if core::mem::take(&mut self.is_touched[host]) {
                self.drain(host);
            }
        }
        while let Some(next) = self.next_at().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            for (network, sender) in (0..self.links.len()).flat_map(|network| [(network, 0), (network, 1)]) {
                while let Some(datagram) = self.links[network][sender].poll_delivery(self.now) {
                    self.hosts[1 - sender].handle_packet(self.now, datagram);
                    self.drain(1 - sender);
                }
            }
            for host in 0..2 {
                self.hosts[host].handle_timeout(self.now);
                self.drain(host);
            }
        }
        self.now = end;
    }

    fn next_at(&self) -> Option<Instant> {
        let links = self.links.iter().flatten().filter_map(Link::poll_deadline);
        links.chain(self.hosts.iter().filter_map(Node::poll_deadline)).min()
    }

    fn drain(&mut self, host: usize) {
        while let Some(datagram) = self.hosts[host].poll_transmit(self.now) {
            self.links[datagram.network][host].send(self.now, datagram);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::LossModel;

    /// Sends its datagrams, and records when those of the other host arrived and on which network.
    #[derive(Default)]
    struct Host(Vec<Datagram>, Vec<(u64, usize)>);

    impl Node<Datagram> for Host {
        fn handle_packet(&mut self, now: Instant, datagram: Datagram) {
            self.1.push((now.as_nanos() / 1_000_000, datagram.network));
        }

        fn handle_timeout(&mut self, _now: Instant) {}

        fn poll_transmit(&mut self, _now: Instant) -> Option<Datagram> {
            self.0.pop()
        }

        fn poll_deadline(&self) -> Option<Instant> {
            None
        }
    }

    #[test]
    fn each_network_has_a_delay_a_loss_and_an_mtu_of_its_own() {
        let datagram = |network, bytes, is_fragmented| {
            let addresses = [SocketAddr::from(([192, 0, 2, 1], 9_899)); 2];
            Datagram { network, addresses, bytes: vec![7; bytes], is_fragmented }
        };
        let configs = [10, 20].map(|ms| LinkConfig { delay: Duration::from_millis(ms), ..LinkConfig::default() });
        let mut networks = Networks::new([Host::default(), Host::default()], &configs, 1);
        networks.change(1, |link| link.set_mtu(Some(ByteCount::from_bytes(1_300))));
        networks.link_mut(0, 0).set_loss(LossModel::Exact(vec![1]));
        let there = [(0, 1_400), (0, 1), (1, 1_272), (1, 1_273)];
        networks.host_mut(0).0 = there.iter().rev().map(|(network, bytes)| datagram(*network, *bytes, false)).collect();
        networks.host_mut(0).0.push(datagram(1, 1_273, true));
        networks.host_mut(1).0 = vec![datagram(1, 1, false)];
        networks.run_for(Duration::from_millis(50));
        assert_eq!(networks.host(1).1, [(10, 0), (20, 1), (20, 1)]);
        assert_eq!(networks.host(0).1, [(20, 1)]);
        assert_eq!((networks.link_mut(1, 0).counters().too_large, networks.link_mut(0, 0).counters().lost), (1, 1));
    }
}
