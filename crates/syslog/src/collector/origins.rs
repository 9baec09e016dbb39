//! Origins of associations, and limits per origin.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Peer;

/// An IPv4 address, or an IPv6 network of 64 bits: one host may have all addresses of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(IpAddr);

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.into()),
            IpAddr::V6(address) => Self(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into()),
        }
    }
}

impl Default for Origin {
    fn default() -> Self {
        Self(Ipv4Addr::UNSPECIFIED.into())
    }
}

/// Origins with less than a full allowance that are remembered. Beyond it nothing is allowed to others.
const ORIGINS_MAX: usize = 65_536;

/// Allows each origin a number of things at once, and then one more after each interval.
#[derive(Debug)]
pub(super) struct Allowance {
    interval_us: u64,
    /// When each origin will have its full allowance again. Those that have it are missing.
    full_at_us: BTreeMap<Origin, u64>,
}

impl Allowance {
    pub(super) fn new(interval_us: u64) -> Self {
        Self { interval_us, full_at_us: BTreeMap::new() }
    }

    /// Takes one of an allowance of at most `most`. Returns whether there was one.
    pub(super) fn take(&mut self, origin: Origin, most: u64, now_us: u64) -> bool {
        let full_at_us = self.full_at_us.get(&origin).copied().unwrap_or_default().max(now_us) + self.interval_us;
        if full_at_us - now_us > most.saturating_mul(self.interval_us) {
            return false;
        }
        if self.full_at_us.len() >= ORIGINS_MAX && !self.full_at_us.contains_key(&origin) {
            self.full_at_us.retain(|_, full_at_us| *full_at_us > now_us);
            if self.full_at_us.len() >= ORIGINS_MAX {
                return false;
            }
        }
        self.full_at_us.insert(origin, full_at_us);
        true
    }
}

/// Relays that one origin may introduce at once, and the time after which it may introduce one more.
const NEW_SENDERS_MAX: u64 = 1_024;
const NEW_SENDER_EVERY_US: u64 = 10_000_000;

/// Where associations come from, and the relays that are introduced from there.
pub(super) struct Arrivals {
    pub(super) origins: BTreeMap<Peer, Origin>,
    new_senders: Allowance,
    /// Since any fixed moment.
    pub(super) now_us: u64,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self { origins: BTreeMap::new(), new_senders: Allowance::new(NEW_SENDER_EVERY_US), now_us: 0 }
    }
}

impl Arrivals {
    pub(super) fn origin(&self, peer: Peer) -> Origin {
        self.origins.get(&peer).copied().unwrap_or_default()
    }

    /// Whether a relay that is new may be remembered.
    pub(super) fn introduce(&mut self, peer: Peer) -> bool {
        self.new_senders.take(self.origin(peer), NEW_SENDERS_MAX, self.now_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_gets_its_allowance_at_once_and_then_one_after_each_interval() {
        let mut allowance = Allowance::new(10);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|text| Origin::from(text.parse::<IpAddr>().expect("one")));
        let mut taken = |origin, now_us| (0..100).filter(|_| allowance.take(origin, 5, now_us)).count();
        assert_eq!((taken(one, 0), taken(one, 9), taken(other, 9)), (5, 0, 5));
        assert_eq!((taken(one, 10), taken(one, 29), taken(one, 1_000)), (1, 1, 5));
    }

    #[test]
    fn addresses_of_one_host_are_one_origin() {
        let origin = |text: &str| Origin::from(text.parse::<IpAddr>().expect("an address"));
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:1"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:192.0.2.1"), origin("192.0.2.1"));
        assert_ne!(origin("192.0.2.1"), origin("192.0.2.2"));
    }
}
