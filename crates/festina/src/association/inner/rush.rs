//! A thread that writes to many associations of one peer.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use festina_units::{Duration, Instant};

/// A message that follows one to another association within this time belongs to the same rush.
const GAP_MAX: Duration = Duration::from_micros(20);

/// Associations that a thread turns to before the packets of further ones wait for each other.
const LONE_MAX: u32 = 8;

/// A thread's writes to many associations of one peer in quick succession. Their packets can share system calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rush {
    /// The latest message.
    last_at: Instant,
    association: u64,
    remote: SocketAddr,
    /// How often the thread turned from one association to another.
    turns: u32,
}

impl Rush {
    const NONE: Self = Self {
        last_at: Instant::ZERO,
        association: 0,
        remote: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
        turns: 0,
    };

    /// Takes note that this thread writes to an association. Returns whether its packets may wait for those of others.
    pub(super) fn goes_on(now: Instant, association: u64, remote: SocketAddr) -> bool {
        thread_local! {
            static RUSH: Cell<Rush> = const { Cell::new(Rush::NONE) };
        }
        // A thread that is going away rushes no more.
        RUSH.try_with(|rush| {
            let next = rush.get().next(now, association, remote);
            rush.set(next);
            next.turns > LONE_MAX
        })
        .unwrap_or(false)
    }

    fn next(self, now: Instant, association: u64, remote: SocketAddr) -> Self {
        let goes_on = now.saturating_duration_since(self.last_at) <= GAP_MAX && remote == self.remote;
        let turns = match goes_on {
            true => self.turns.saturating_add(u32::from(association != self.association)),
            false => 0,
        };
        Self { last_at: now, association, remote, turns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_secs(1) + Duration::from_micros(micros)
    }

    fn peer(port: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, port).into()
    }

    /// Returns how many of these messages may wait. Each has a time, an association and the port of its peer.
    fn waiting(messages: impl Iterator<Item = (u64, u64, u16)>) -> usize {
        let mut rush = Rush::NONE;
        let turns = messages.map(|(micros, association, port)| {
            rush = rush.next(at(micros), association, peer(port));
            rush.turns
        });
        turns.filter(|&turns| turns > LONE_MAX).count()
    }

    #[test]
    fn those_to_many_associations_of_one_peer_wait_after_the_first() {
        assert_eq!(waiting((0..100).map(|number| (20 * number, number, 1))), 100 - 9);
    }

    #[test]
    fn those_to_one_association_to_many_peers_or_with_pauses_do_not() {
        assert_eq!(waiting((0..100).map(|number| (number, 1, 1))), 0);
        assert_eq!(waiting((0..100).map(|number| (number, number, (number % 2) as u16))), 0);
        assert_eq!(waiting((0..100).map(|number| (21 * number, number, 1))), 0);
    }
}
