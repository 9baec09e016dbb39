//! The own addresses that packets leave from.

use std::net::IpAddr;

use festina_sctp::AssociationState;
use festina_units::{Duration, Instant};

use crate::channel::{Channel as _, Core};

/// Maximum number of a peer's addresses that are remembered. At most 8 of them are paths.
const REMOTES_MAX: usize = 16;
/// Half of the time for which packets that arrive at an own address that failed do not count. It doubles each time.
const LEFT_PAUSE: Duration = Duration::from_millis(2_500);
const LEFT_DOUBLINGS_MAX: u32 = 6;
/// An own address is used for twice the round trip and for this long, before another one is tried.
const LEAVE_PAUSE: Duration = Duration::from_millis(200);

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
    /// Since when.
    since: Instant,
    /// A packet of the peer has come that way.
    is_heard: bool,
    /// When the last one arrived at `own`.
    heard_at: Instant,
    /// A round trip, when `own` was last changed because another one failed.
    round_trip: Duration,
    /// Packets sent there before that.
    tries: usize,
    /// Failures of the path, if it is the only one, as far as they are known.
    failures: u32,
    /// The own address that failed last, and when packets that arrive there count again.
    left: Option<(IpAddr, Instant)>,
    /// How often packets have left from another own address because one failed.
    changes: u32,
}

impl Remote {
    fn new(now: Instant, address: IpAddr, own: IpAddr) -> Self {
        Self {
            address,
            own,
            since: now,
            is_heard: false,
            heard_at: Instant::ZERO,
            round_trip: Duration::ZERO,
            tries: 0,
            failures: 0,
            left: None,
            changes: 0,
        }
    }

    /// Returns whether the path has failed again, or the system has refused to send.
    fn fails_now(&mut self, failures: u32, is_refused: bool) -> bool {
        failures > std::mem::replace(&mut self.failures, failures) || is_refused
    }

    /// Chooses the next own address. Returns `false` if there is none, or if it is too soon.
    fn leave(&mut self, now: Instant, own: &[IpAddr], round_trip: Duration, is_refused: bool) -> bool {
        let round_trip = round_trip.max(LEAVE_PAUSE / 2);
        let candidates = candidates(own, self.address, |_| false);
        let Some(at) = candidates.iter().position(|own| *own == self.own) else { return false };
        let Some(&next) = candidates.iter().cycle().nth(at + 1).filter(|next| **next != self.own) else { return false };
        // Two packets in a row may be lost by chance. That is no reason to leave an address where the peer is heard, for one where nothing arrived lately.
        let is_chance = self.failures < 2 && !is_refused;
        let is_heard = now < self.heard_at + round_trip;
        let is_worse = self.left.is_some_and(|(left, until)| left == next && now < until);
        // The failure may be that of another address, which was used before.
        if now < self.since + round_trip * 2 || is_chance && (is_heard || is_worse) {
            return false;
        }
        self.changes = self.changes.saturating_add(1);
        self.left = Some((self.own, now + self.pause()));
        (self.own, self.since, self.round_trip, self.is_heard) = (next, now, round_trip, true);
        true
    }

    /// A packet arrived at this own address. Returns whether packets are to leave from there.
    fn hear(&mut self, now: Instant, own: IpAddr) -> bool {
        let is_left = self.left.is_some_and(|(left, until)| left == own && now < until);
        if own != self.own && is_left {
            // It works after all, and the other one does not.
            return self.heard_at < self.since && now >= self.since + self.round_trip * 3 / 2;
        }
        self.heard_at = now;
        true
    }

    /// How long packets that arrive at an address that failed do not count: their answers may be lost.
    fn pause(&self) -> Duration {
        LEFT_PAUSE * (1 << self.changes.min(LEFT_DOUBLINGS_MAX))
    }
}

impl Sources {
    /// Those of an association that may have several paths, or not. Its handshake's packets go to `remote`, and have arrived at `arrived_at`, if any.
    pub fn new(are_paths_several: bool, remote: IpAddr, arrived_at: Option<IpAddr>) -> Self {
        if !are_paths_several {
            return Self::Latest(arrived_at);
        }
        let mut sources = Self::Each(Box::default());
        sources.note(Instant::ZERO, remote, arrived_at, AssociationState::Established);
        sources
    }

    /// Has the packets of an association that has one path leave from the next own address if the path has failed again, or if the system has `refused`
    /// to send.
    #[inline]
    pub fn supervise<A: AsRef<[IpAddr]>>(
        &mut self,
        now: Instant,
        core: &mut Core,
        own: impl FnOnce() -> A,
        is_refused: bool,
    ) {
        if let Self::Each(remotes) = self
            && let Some(failures) = core.failures_of_only_path()
        {
            let remote = core.remote().ip();
            let Some(known) = remotes.iter_mut().find(|known| known.address == remote) else { return };
            let round_trip = || core.path_stats().next()?.srtt;
            if known.fails_now(failures, is_refused)
                && known.leave(now, own().as_ref(), round_trip().unwrap_or_default(), is_refused)
            {
                core.rebind(now, |_| Some(true));
            }
        }
    }

    /// A packet of the peer has come from `remote` to `own`, and the association is in this state after it. An INIT ACK to another address than the
    /// first one changes nothing: the cookie that is echoed names the address that it was sent to.
    #[inline]
    pub fn note(&mut self, now: Instant, remote: IpAddr, own: Option<IpAddr>, state: AssociationState) {
        let Some(own) = own else { return };
        match self {
            Self::Latest(latest) => *latest = Some(own),
            Self::Each(remotes) => {
                let known = remotes.iter_mut().find(|known| known.address == remote);
                if let Some(known) = known {
                    if known.hear(now, own) && (!known.is_heard || state != AssociationState::CookieEchoed) {
                        if known.own != own {
                            (known.own, known.since) = (own, now);
                        }
                        known.is_heard = true;
                    }
                } else {
                    // Copies of packets that an attacker sends on from anywhere take the place of one another.
                    remotes.truncate(REMOTES_MAX - 1);
                    remotes.push(Remote { is_heard: true, ..Remote::new(now, remote, own) });
                }
            }
        }
    }

    /// The endpoint's socket at `old` was replaced by one at `new`.
    pub fn rebind(&mut self, old: IpAddr, new: IpAddr) {
        match self {
            Self::Latest(latest) if old.is_unspecified() => *latest = None,
            Self::Latest(latest) => *latest = latest.map(|own| if own == old { new } else { own }),
            // A socket at the unspecified address had any of the host's addresses.
            Self::Each(remotes) if old.is_unspecified() => remotes.clear(),
            Self::Each(remotes) => {
                remotes.iter_mut().filter(|known| known.own == old).for_each(|known| known.own = new);
            }
        }
    }

    /// The endpoint has lost its socket at `own`. Returns the peer's addresses to which packets left from there.
    pub fn forget(&mut self, own: IpAddr) -> Vec<IpAddr> {
        match self {
            Self::Latest(latest) => {
                latest.take_if(|latest| *latest == own);
                Vec::new()
            }
            Self::Each(remotes) => {
                let from_there = |known: &Remote| known.own == own;
                let gone = remotes.iter().filter(|known| from_there(known)).map(|known| known.address).collect();
                remotes.retain(|known| !from_there(known));
                gone
            }
        }
    }

    /// Returns whether packets to `destination` leave from `own`, as far as that is known.
    pub fn may_be(&self, own: IpAddr, destination: IpAddr) -> bool {
        match self {
            Self::Latest(_) => true,
            Self::Each(remotes) => remotes.iter().all(|known| known.address != destination || known.own == own),
        }
    }

    /// Returns the own address that the next packet to `destination` leaves from; `None` leaves it to the system. The endpoint has a socket for each of
    /// `own`, or one socket.
    ///
    /// It is the one at which packets from there arrive. Before any has, the addresses of the same family take turns: first those in the same network, and
    /// of these those that no other path leaves from. So an association opens through a network that works.
    pub fn of<A: AsRef<[IpAddr]>>(&mut self, own: impl FnOnce() -> A, destination: IpAddr) -> Option<IpAddr> {
        let Self::Each(remotes) = self else {
            let Self::Latest(latest) = self else { return None };
            return *latest;
        };
        let place = remotes.iter().position(|known| known.address == destination);
        let known = place.and_then(|place| remotes.get(place));
        if let Some(known) = known.filter(|known| known.is_heard) {
            return Some(known.own);
        }
        let own = own();
        let own = own.as_ref();
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
            remotes.push(Remote { tries: 1, ..Remote::new(Instant::ZERO, destination, chosen) });
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
        assert_eq!(sources.of(|| own, first), Some(own[1]));
        assert_eq!(sources.of(|| own, second), Some(own[0]), "the first path leaves from the other");
        sources.note(Instant::ZERO, second, Some(own[1]), AssociationState::Established);
        assert_eq!(sources.of(|| own, second), Some(own[1]));
        let mut of_one_socket = Sources::new(true, first, Some(own[1]));
        assert_eq!(of_one_socket.of(|| [address("0.0.0.0")], second), None, "the system knows the route");
        of_one_socket.note(Instant::ZERO, second, Some(own[0]), AssociationState::Established);
        assert_eq!(
            [first, second].map(|to| of_one_socket.of(|| [address("0.0.0.0")], to)),
            [Some(own[1]), Some(own[0])]
        );
    }

    #[test]
    fn a_destination_is_tried_from_its_own_network_first_and_then_from_each_address_in_turn() {
        let own = ["192.0.2.1", "198.51.100.1", "2001:db8::1"].map(address);
        let (first, second) = (address("192.0.2.9"), address("198.51.100.9"));
        let mut sources = Sources::new(true, first, None);
        let tries = [(); 3].map(|()| sources.of(|| own, first));
        assert_eq!(tries, [own[0], own[1], own[0]].map(Some), "INITs take turns");
        for arrived_at in [1, 0] {
            sources.note(Instant::ZERO, first, Some(own[arrived_at]), AssociationState::CookieEchoed);
            assert_eq!(sources.of(|| own, first), Some(own[1]), "COOKIE ECHO keeps the address that the cookie names");
        }
        sources.note(Instant::ZERO, first, Some(own[0]), AssociationState::Established);
        assert_eq!(sources.of(|| own, first), Some(own[0]));
        let tries = [(); 4].map(|()| sources.of(|| own, second));
        assert_eq!(tries, [own[1], own[0], own[1], own[0]].map(Some));
        assert_eq!(sources.of(|| own, address("2001:db8:1::9")), Some(own[2]));
        assert_eq!(sources.of(|| own, address("127.0.0.1")), None, "loopback is not reached from elsewhere");
    }

    #[test]
    fn a_peer_with_many_addresses_is_remembered_in_part() {
        let own = ["192.0.2.1", "198.51.100.1"].map(address);
        let mut sources = Sources::new(true, address("203.0.113.1"), Some(own[1]));
        for last in 0..=255 {
            sources.note(Instant::ZERO, [203, 0, 113, last].into(), Some(own[0]), AssociationState::Established);
            sources.of(|| own, [198, 18, 0, last].into());
        }
        let Sources::Each(remotes) = &sources else { panic!("it has several addresses") };
        assert_eq!(remotes.len(), REMOTES_MAX);
        assert_eq!(sources.of(|| own, address("203.0.113.1")), Some(own[0]));
        sources.note(Instant::ZERO, address("203.0.114.1"), Some(own[1]), AssociationState::Established);
        assert_eq!(sources.of(|| own, address("203.0.114.1")), Some(own[1]), "the latest is known");
    }
}
