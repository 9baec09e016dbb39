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
    /// Time goes on by one interval of burst time per write; what exceeds a burst is continued in the next, so that the mean rate is
    /// that of the bursts times their share of the time, however short they are.
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

/// Bursts that a single write may take to come about; beyond that, bursts are so short that it is written anyhow.
const BURSTS_PER_WRITE_MAX: u32 = 10_000;
