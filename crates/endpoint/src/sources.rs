//! The own addresses that packets leave from.

use std::net::IpAddr;

use festina_sctp::AssociationState;

/// Maximum number of a peer's addresses that are remembered. At most 8 of them are paths.
const REMOTES_MAX: usize = 16;

/// The own addresses that the packets of one association leave from.
#[derive(Debug)]
pub enum Sources {
    /// There is one path: the own address at which a packet of the peer last arrived, if the endpoint has several.
    Latest(Option<IpAddr>),
    /// There may be several paths: one for each address of the peer.
    Each(Box<Vec<Remote>>),
}

/// An address of the peer.
#[derive(Debug)]
pub struct Remote {
    address: IpAddr,
    /// The own address that packets to it leave from.
    own: IpAddr,
    /// A packet of the peer has come that way.
    is_heard: bool,
    /// Packets sent there before that.
    tries: usize,
}

impl Sources {
    /// Those of an association that may have several paths, or not. Its handshake's packets go to `remote`, and have arrived at `arrived_at`, if any.
    pub fn new(are_paths_several: bool, remote: IpAddr, arrived_at: Option<IpAddr>) -> Self {
        if !are_paths_several {
            return Self::Latest(arrived_at);
        }
        let mut sources = Self::Each(Box::default());
        sources.note(remote, arrived_at, AssociationState::Established);
        sources
    }

    /// A packet of the peer has come from `remote` to `own`, and the association is in this state after it. An INIT ACK to another address than the
    /// first one changes nothing: the cookie that is echoed names the address that it was sent to.
    #[inline]
    pub fn note(&mut self, remote: IpAddr, own: Option<IpAddr>, state: AssociationState) {
        let Some(own) = own else { return };
        match self {
            Self::Latest(latest) => *latest = Some(own),
            Self::Each(remotes) => {
                let known = remotes.iter_mut().find(|known| known.address == remote);
                if let Some(known) = known {
                    if !known.is_heard || state != AssociationState::CookieEchoed {
                        (known.own, known.is_heard) = (own, true);
                    }
                } else {
                    // Copies of packets that an attacker sends on from anywhere take the place of one another.
                    remotes.truncate(REMOTES_MAX - 1);
                    remotes.push(Remote { address: remote, own, is_heard: true, tries: 0 });
                }
            }
        }
    }

    /// Returns the own address that the next packet to `destination` leaves from; `None` leaves it to the system. The endpoint has a socket for each of
    /// `own`, or one socket.
    ///
    /// It is the one at which packets from there arrive. Before any has, the addresses of the same family take turns: first those in the same network, and
    /// of these those that no other path leaves from. So an association opens through a network that works.
    pub fn of(&mut self, own: &[IpAddr], destination: IpAddr) -> Option<IpAddr> {
        let Self::Each(remotes) = self else {
            let Self::Latest(latest) = self else { return None };
            return *latest;
        };
        let place = remotes.iter().position(|known| known.address == destination);
        let known = place.and_then(|place| remotes.get(place));
        if let Some(known) = known.filter(|known| known.is_heard) {
            return Some(known.own);
        }
        if own.len() < 2 {
            return None;
        }
        let tries = known.map_or(0, |known| known.tries);
        let candidates = candidates(own, destination, |own| {
            remotes.iter().any(|other| other.own == own && other.address != destination)
        });
        let chosen = *candidates.get(tries.checked_rem(candidates.len())?)?;
        if let Some(place) = place {
            remotes.iter_mut().skip(place).take(1).for_each(|known| (known.own, known.tries) = (chosen, tries + 1));
        } else if remotes.len() < REMOTES_MAX {
            remotes.push(Remote { address: destination, own: chosen, is_heard: false, tries: 1 });
        }
        Some(chosen)
    }
}

/// The own addresses from which `destination` may be reached, the likeliest first.
fn candidates(own: &[IpAddr], destination: IpAddr, is_used: impl Fn(IpAddr) -> bool) -> Vec<IpAddr> {
    let reach = |address: IpAddr| {
        let is_link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        (address.is_ipv4(), address.is_loopback(), is_link_local)
    };
    let suits = |own: &&IpAddr| reach(**own) == reach(destination);
    let mut candidates: Vec<IpAddr> = own.iter().filter(suits).copied().collect();
    candidates.sort_by_key(|&own| (!are_neighbours(own, destination), is_used(own)));
    candidates
}

/// Returns whether the addresses share the network that one link usually has: /24 or /64.
fn are_neighbours(one: IpAddr, other: IpAddr) -> bool {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => one.to_bits() >> 8 == other.to_bits() >> 8,
        (IpAddr::V6(one), IpAddr::V6(other)) => one.to_bits() >> 64 == other.to_bits() >> 64,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn packets_leave_from_where_those_of_the_peer_arrive() {
        let own = ["192.0.2.1", "198.51.100.1"].map(address);
        let (first, second) = (address("203.0.113.1"), address("203.0.113.2"));
        let mut sources = Sources::new(true, first, Some(own[1]));
        assert_eq!(sources.of(&own, first), Some(own[1]));
        assert_eq!(sources.of(&own, second), Some(own[0]), "the first path leaves from the other");
        sources.note(second, Some(own[1]), AssociationState::Established);
        assert_eq!(sources.of(&own, second), Some(own[1]));
        let mut of_one_socket = Sources::new(true, first, Some(own[1]));
        assert_eq!(of_one_socket.of(&[address("0.0.0.0")], second), None, "the system knows the route");
        of_one_socket.note(second, Some(own[0]), AssociationState::Established);
        assert_eq!([first, second].map(|to| of_one_socket.of(&[address("0.0.0.0")], to)), [Some(own[1]), Some(own[0])]);
    }

    #[test]
    fn a_destination_is_tried_from_its_own_network_first_and_then_from_each_address_in_turn() {
        let own = ["192.0.2.1", "198.51.100.1", "2001:db8::1"].map(address);
        let (first, second) = (address("192.0.2.9"), address("198.51.100.9"));
        let mut sources = Sources::new(true, first, None);
        let tries = [(); 3].map(|()| sources.of(&own, first));
        assert_eq!(tries, [own[0], own[1], own[0]].map(Some), "INITs take turns");
        for arrived_at in [1, 0] {
            sources.note(first, Some(own[arrived_at]), AssociationState::CookieEchoed);
            assert_eq!(sources.of(&own, first), Some(own[1]), "COOKIE ECHO keeps the address that the cookie names");
        }
        sources.note(first, Some(own[0]), AssociationState::Established);
        assert_eq!(sources.of(&own, first), Some(own[0]));
        let tries = [(); 4].map(|()| sources.of(&own, second));
        assert_eq!(tries, [own[1], own[0], own[1], own[0]].map(Some));
        assert_eq!(sources.of(&own, address("2001:db8:1::9")), Some(own[2]));
        assert_eq!(sources.of(&own, address("127.0.0.1")), None, "loopback is not reached from elsewhere");
    }

    #[test]
    fn a_peer_with_many_addresses_is_remembered_in_part() {
        let own = ["192.0.2.1", "198.51.100.1"].map(address);
        let mut sources = Sources::new(true, address("203.0.113.1"), Some(own[1]));
        for last in 0..=255 {
            sources.note([203, 0, 113, last].into(), Some(own[0]), AssociationState::Established);
            sources.of(&own, [198, 18, 0, last].into());
        }
        let Sources::Each(remotes) = &sources else { panic!("it has several addresses") };
        assert_eq!(remotes.len(), REMOTES_MAX);
        assert_eq!(sources.of(&own, address("203.0.113.1")), Some(own[0]));
        sources.note(address("203.0.114.1"), Some(own[1]), AssociationState::Established);
        assert_eq!(sources.of(&own, address("203.0.114.1")), Some(own[1]), "the latest is known");
    }
}
