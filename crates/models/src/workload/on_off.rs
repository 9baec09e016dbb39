//! Bursts of constant rate with silence between them.

use festina_units::{ByteCount, Duration};

use super::{Draws, Progress, Write};

/// Writes at a fixed interval during bursts; the lengths of bursts and silences are exponentially distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnOff {
    /// Mean length of a burst.
    pub on_mean: Duration,
    /// Mean length of a silence.
    pub off_mean: Duration,
    /// Between two writes of a burst.
    pub interval: Duration,
    /// Each write.
    pub size: ByteCount,
}

impl OnOff {
    /// Each write takes one interval of burst time. If that exceeds a burst, it continues in the next one. So the mean
    /// rate is that of the bursts times their share of the time, even if they are short.
    pub(super) fn next(&self, progress: &mut Progress, draws: &mut Draws) -> Write {
        let mut at = progress.at;
        let mut to_go = self.interval;
        for _ in 0..BURSTS_PER_WRITE_MAX {
            if to_go <= progress.burst_left {
                break;
            }
            at = at.saturating_add(progress.burst_left).saturating_add(draws.gaps.exponential(self.off_mean));
            to_go -= progress.burst_left;
            progress.burst_left = draws.gaps.exponential(self.on_mean);
        }
        let step = to_go.min(progress.burst_left);
        progress.burst_left -= step;
        Write { at: at.saturating_add(step), size: self.size }
    }
}

/// Maximum number of bursts that a single write may take. Beyond that, bursts are so short that it is written anyway.
const BURSTS_PER_WRITE_MAX: u32 = 10_000;
