//! Virtual time for stacks that know only the standard library's instants.

use std::time::{Duration, Instant};

/// The instant that stands for virtual time zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch(Instant);

impl Epoch {
    #[expect(
        clippy::disallowed_methods,
        reason = "std's Instant can only be made from the clock; nothing reads it again"
    )]
    pub(super) fn new() -> Self {
        Epoch(Instant::now())
    }

    /// For a timer that was started at virtual time zero and is due at `deadline`, `after` later.
    pub(super) fn before(deadline: Instant, after: Duration) -> Option<Self> {
        deadline.checked_sub(after).map(Epoch)
    }

    pub(super) fn at(self, now: Duration) -> Instant {
        self.0 + now
    }

    pub(super) fn since(self, at: Instant) -> Duration {
        at.saturating_duration_since(self.0)
    }
}
