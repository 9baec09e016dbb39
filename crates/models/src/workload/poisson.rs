//! Independent random times: the load of R12 §III-B.

use festina_units::{ByteCount, Duration};

use super::{Draws, Progress, Write};

/// Writes after exponentially distributed gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poisson {
    /// Mean gap between two writes.
    pub interval_mean: Duration,
    /// The mean size of a write.
    pub size: ByteCount,
    /// The standard deviation of sizes, which are normally distributed, but never below one byte nor above twice the mean. Zero: all are
    /// equal.
    pub size_deviation: ByteCount,
}

impl Poisson {
    pub(super) fn next(&self, progress: &Progress, draws: &mut Draws) -> Write {
        Write { at: progress.after(draws.gaps.exponential(self.interval_mean)), size: self.next_size(draws) }
    }
    fn next_size(&self, draws: &mut Draws) -> ByteCount {
        if self.size_deviation == ByteCount::ZERO {
            return self.size;
        }
        // The sampler counts in whole numbers, here in thousandths of a byte.
        let deviation = Duration::from_nanos(self.size_deviation.bytes().saturating_mul(1_000));
        let deviation = draws.sizes.normal_nanos(deviation) / 1_000;
        let size = self.size.bytes().saturating_add_signed(deviation);
        ByteCount::from_bytes(size.clamp(1, self.size.bytes().saturating_mul(2)))
    }
}
