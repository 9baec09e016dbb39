//! The share of the budget that congestion leaves.

use festina_units::{Duration, Instant};

/// The whole budget, in parts.
const FULL: u32 = 32;

/// How often congestion halves the share, and how often its absence adds a part to it.
const HALVING_PAUSE: Duration = Duration::from_millis(500);
const GROWTH_PAUSE: Duration = Duration::from_secs(2);

/// Additive increase, multiplicative decrease.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Throttle {
    parts: u32,
    halved: Option<Instant>,
    /// When the share last changed, or the last sign of congestion was seen.
    since: Instant,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { parts: FULL, halved: None, since: Instant::ZERO }
    }
}

impl Throttle {
    /// There is a sign of congestion.
    pub(super) fn congested(&mut self, now: Instant) {
        self.since = now;
        if self.halved.is_none_or(|halved| now.saturating_duration_since(halved) >= HALVING_PAUSE) {
            self.halved = Some(now);
            self.parts /= 2;
        }
    }

    /// Something was lost behind a queue: the crowd is larger than its link, and each of its streams hears of that only now
    /// and then.
    pub(super) fn crowded(&mut self, now: Instant) {
        self.since = now;
        self.halved = Some(now);
        self.parts = 0;
    }

    /// There is no sign of congestion. One step at most, so that an idle sender earns nothing.
    pub(super) fn clear(&mut self, now: Instant) {
        if self.parts < FULL && now.saturating_duration_since(self.since) >= GROWTH_PAUSE {
            self.parts += 1;
            self.since = now;
        }
    }

    /// What is left of `budget`, rounded up while anything is left.
    pub(super) fn share_of(&self, budget: u32) -> u32 {
        (budget * self.parts).div_ceil(FULL)
    }
}
