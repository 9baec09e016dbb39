//! The CPU time that handshakes may take: measured, since one signature takes 25 µs with Ed25519 and 4 ms with RSA-4096.

use std::hash::{DefaultHasher, Hash, Hasher};

use festina_units::{Duration, Instant};

use super::Network;

/// Units of time that bring one unit of CPU time to all handshakes together.
const ALL: u32 = 2;
/// Those of clients at one site that have proved their addresses.
const SITE: u32 = 3;
/// Those of all clients that have not: anyone can send such hellos in any name.
const UNPROVED: u32 = 50;
/// Time that can be saved up.
const SAVED: Duration = Duration::from_millis(200);
/// The same for clients without a proof. At a fiftieth of the time, it is a burst of 20 ms.
const UNPROVED_SAVED: Duration = Duration::from_secs(1);

/// A share of the time: a token bucket that measured costs may overdraw.
#[derive(Clone, Debug)]
struct Share {
    /// How much longer it takes to earn CPU time than to spend it.
    factor: u32,
    saved_max: Duration,
    /// When everything is saved up that can be, if nothing more is spent.
    full_at: Instant,
}

impl Share {
    fn new(factor: u32, saved_max: Duration) -> Self {
        Self { factor, saved_max, full_at: Instant::ZERO }
    }

    fn charge(&mut self, now: Instant, cost: Duration) {
        self.full_at = self.full_at.max(now) + cost * self.factor;
    }

    /// When CPU time is left.
    fn left_at(&self) -> Instant {
        self.full_at.saturating_sub(self.saved_max)
    }
}

/// Who pays for a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Payer {
    /// All clients that have not proved their addresses.
    Unproved,
    /// A site, by a byte of a keyed hash.
    Site(u8),
}

/// The shares of all.
#[derive(Debug)]
pub(super) struct Budget {
    /// Keys the hash of sites.
    secret: [u8; 16],
    all: Share,
    unproved: Share,
    sites: Box<[Share]>,
    /// Reads a clock of CPU time.
    pub(super) measure: fn() -> Duration,
}

impl Budget {
    pub(super) fn new(secret: [u8; 16], measure: fn() -> Duration) -> Self {
        let site = Share::new(SITE, SAVED);
        Self {
            secret,
            all: Share::new(ALL, SAVED),
            unproved: Share::new(UNPROVED, UNPROVED_SAVED),
            sites: (0..=u8::MAX).map(|_| site.clone()).collect(),
            measure,
        }
    }

    /// The one who pays for the handshakes of a site.
    pub(super) fn slot(&self, site: Network) -> u8 {
        let mut hasher = DefaultHasher::new();
        (self.secret, site).hash(&mut hasher);
        let [slot, ..] = hasher.finish().to_le_bytes();
        slot
    }

    fn share(&mut self, payer: Payer) -> &mut Share {
        match payer {
            Payer::Unproved => &mut self.unproved,
            Payer::Site(slot) => &mut self.sites[usize::from(slot)],
        }
    }

    /// When CPU time is left.
    pub(super) fn left_at(&self, payer: Payer) -> Instant {
        let share = match payer {
            Payer::Unproved => &self.unproved,
            Payer::Site(slot) => &self.sites[usize::from(slot)],
        };
        share.left_at().max(self.all.left_at())
    }

    pub(super) fn is_left(&self, now: Instant, payer: Payer) -> bool {
        self.left_at(payer) <= now
    }

    pub(super) fn charge(&mut self, now: Instant, payer: Payer, cost: Duration) {
        self.all.charge(now, cost);
        self.share(payer).charge(now, cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPU time that handshakes of this cost take in a minute, while there are always more.
    fn taken(payers: &[Payer], cost: Duration) -> Duration {
        taken_since(Instant::from_secs(3_600), payers, cost)
    }

    fn taken_since(start: Instant, payers: &[Payer], cost: Duration) -> Duration {
        let mut budget = Budget::new([7; 16], || Duration::ZERO);
        let mut taken = Duration::ZERO;
        for now in (0..60_000).map(|ms| start + Duration::from_millis(ms)) {
            for payer in payers {
                if budget.is_left(now, *payer) {
                    budget.charge(now, *payer, cost);
                    taken += cost;
                }
            }
        }
        taken
    }

    #[test]
    fn handshakes_take_their_share_of_the_time_whatever_a_signature_costs() {
        let sites: Vec<_> = (0..=u8::MAX).map(Payer::Site).collect();
        for cost in [100, 4_000, 20_000].map(Duration::from_micros) {
            let unproved = taken(&[Payer::Unproved], cost);
            assert!(unproved <= Duration::from_millis(1_220) + cost, "{unproved:?} of a minute, {cost:?} each");
            let site = taken(&[Payer::Site(7)], cost);
            assert!(site <= Duration::from_secs(21) + cost, "{site:?}");
            let all = taken(&sites, cost);
            assert!(all <= Duration::from_secs(31) + cost, "{all:?}");
        }
    }

    #[test]
    fn a_new_share_has_its_savings_at_any_time() {
        for payers in [&[Payer::Unproved], &[Payer::Site(7)]] {
            let taken = [0, 1, 1_000_000, 3_600_000_000_000]
                .map(|nanos| taken_since(Instant::from_nanos(nanos), payers, Duration::from_millis(1)));
            assert_eq!(taken, [taken[3]; 4], "{payers:?}");
        }
    }
}
