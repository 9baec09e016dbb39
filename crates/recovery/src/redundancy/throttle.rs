//! The share of the budget that remains after congestion.

use festina_units::{Duration, Instant};

/// The whole budget, in parts.
const FULL: u32 = 32;

/// Minimum pauses between halvings during congestion, and between increments without congestion.
const HALVING_PAUSE: Duration = Duration::from_millis(500);
const GROWTH_PAUSE: Duration = Duration::from_secs(2);

/// Maximum pause between increments, after repeated losses behind a queue.
const GROWTH_PAUSE_MAX: Duration = Duration::from_secs(64);

/// Additive increase, multiplicative decrease.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Throttle {
    parts: u32,
    halved: Option<Instant>,
    growth_pause: Duration,
    /// When the share last changed, or the last sign of congestion was seen.
    since: Instant,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { parts: FULL, halved: None, growth_pause: GROWTH_PAUSE, since: Instant::ZERO }
    }
}

impl Throttle {
    /// Records a sign of congestion.
    pub(super) fn congested(&mut self, now: Instant) {
        self.since = now;
        if self.halved.is_none_or(|halved| now.saturating_duration_since(halved) >= HALVING_PAUSE) {
            self.halved = Some(now);
            self.parts /= 2;
        }
    }

    /// Records a loss behind a queue: the crowd is larger than its link, and each of its streams detects that only
    /// occasionally. If it happens again before the share is complete, the share grows half as fast; otherwise the
    /// copies with which a thousand streams test for room would fill the link.
    pub(super) fn crowded(&mut self, now: Instant) {
        self.since = now;
        self.halved = Some(now);
        self.parts = 0;
        self.growth_pause = self.growth_pause.saturating_mul(2).min(GROWTH_PAUSE_MAX);
    }

    /// Records the absence of congestion. At most one increment, so that an idle sender gains nothing.
    pub(super) fn clear(&mut self, now: Instant) {
        if self.parts < FULL && now.saturating_duration_since(self.since) >= self.growth_pause {
            self.parts += 1;
            self.since = now;
            if self.parts == FULL {
                self.growth_pause = GROWTH_PAUSE;
            }
        }
    }

    /// Returns the remaining share of `budget`, rounded up unless the share is zero.
    pub(super) fn share_of(&self, budget: u32) -> u32 {
        (budget * self.parts).div_ceil(FULL)
    }
}
