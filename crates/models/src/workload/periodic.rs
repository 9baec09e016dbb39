//! The same size at the same interval: the thin stream of P06 §3 and P10 §6.1 (100 bytes, 4 times a second).

use festina_units::{ByteCount, Duration, duration};

use super::{Progress, Write};

/// Writes the same size at the same interval, first at time zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Periodic {
    /// From one write to the next.
    pub interval: Duration,
    /// Each write.
    pub size: ByteCount,
}

impl Periodic {
    pub(super) fn next(&self, progress: &Progress) -> Write {
        let at_ns = duration::saturating_nanos(self.interval).saturating_mul(progress.count);
        Write { at: Duration::from_nanos(at_ns), size: self.size }
    }
}
