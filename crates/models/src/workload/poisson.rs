//! Random times that know nothing of each other: the load of R12 §III-B.

use festina_units::{ByteCount, Duration};

use super::{Draws, Progress, Write};

/// Writes the same size after exponentially distributed gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poisson {
    /// Mean gap between two writes.
    pub interval_mean: Duration,
    /// Each write.
    pub size: ByteCount,
}

impl Poisson {
    pub(super) fn next(&self, progress: &Progress, draws: &mut Draws) -> Write {
        Write { at: progress.after(draws.gaps.exponential(self.interval_mean)), size: self.size }
    }
}
