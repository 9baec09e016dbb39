//! Constant bit rate: the cross traffic of G02 §3.1 that takes a tenth of the bottleneck.

use festina_units::{Bandwidth, ByteCount, Duration, duration};

use super::{Progress, Write};

/// Writes packets of one size, evenly spaced so that the payload makes up the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cbr {
    /// Payload bits per second.
    pub rate: Bandwidth,
    /// Payload of each packet.
    pub size: ByteCount,
}

impl Cbr {
    /// From one packet to the next.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.rate.transmission_time(self.size)
    }

    pub(super) fn next(&self, progress: &Progress) -> Write {
        let at_ns = duration::saturating_nanos(self.interval()).saturating_mul(progress.count);
        Write { at: Duration::from_nanos(at_ns), size: self.size }
    }
}
