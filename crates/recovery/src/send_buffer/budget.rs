//! A and B for a given time that data may wait in the send buffer.

use festina_units::{Duration, duration::saturating_nanos};

use super::{MinBuf, Window};

/// The whole budget, in units of the used share.
const SHARE_WHOLE: u32 = 1 << 16;
/// The share never falls below a sixteenth.
const SHARE_MIN: u32 = SHARE_WHOLE / 16;
/// Increase of the share for a packet in time.
const STEP_UP: u32 = 64;
/// Decrease of the share for a late packet. With 19 steps the share is steady when one packet in twenty is late.
const STEP_DOWN: u32 = 19 * STEP_UP;
/// Maximum number of packets that any budget admits.
const UNSENT_PACKETS_MAX: u32 = 1 << 20;

/// Chooses the A and B with the highest throughput for which data waits at most a budget in the send buffer (G02 §6,
/// future work).
///
/// **Rule.** A window is sent per round trip, so a budget T is worth n = T · cwnd / SRTT packets; A = 1 + n / cwnd and
/// B = the remainder put just those behind a full window. cwnd and SRTT are the present ones, so n follows a cut at
/// once. Two effects have to be learned: windows that shrink while data waits, and rates below a window per round trip.
/// Therefore only a share of the budget is used, which each packet that waited longer than T lowers by nineteen steps
/// and each other one raises by one step.
///
/// **Guarantee.** Of any N packets at most N/20 + 48 wait longer than T, unless the share reached its minimum of a
/// sixteenth. Then the budget is below the time of one packet, or the rate falls faster than data can be held back.
/// From its minimum the share is complete again after 960 packets in time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DelayBudget {
    budget: Duration,
    share: u32,
}

impl DelayBudget {
    /// Creates a budget that is used completely until packets are late.
    #[must_use]
    pub fn new(budget: Duration) -> Self {
        Self { budget, share: SHARE_WHOLE }
    }

    /// Returns the time that data may wait.
    #[must_use]
    pub fn budget(&self) -> Duration {
        self.budget
    }

    /// Returns the used share of the budget, in parts per million.
    #[must_use]
    pub fn share_ppm(&self) -> u32 {
        let ppm = u64::from(self.share) * 1_000_000 / u64::from(SHARE_WHOLE);
        u32::try_from(ppm).unwrap_or(u32::MAX)
    }

    /// Returns whether the share is at its minimum, so that the budget cannot be met by holding data back.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.share == SHARE_MIN
    }

    /// Records that `packets` packets were first sent after they `waited` in the buffer.
    pub fn packets_left(&mut self, waited: Duration, packets: u32) {
        self.share = if waited > self.budget {
            self.share.saturating_sub(STEP_DOWN.saturating_mul(packets)).max(SHARE_MIN)
        } else {
            self.share.saturating_add(STEP_UP.saturating_mul(packets)).min(SHARE_WHOLE)
        };
    }

    /// Returns A and B at the present cwnd, which is sent in `window_time`: SRTT, or longer for a paced sender.
    /// MIN_BUF(1,0) without an RTT, and if one packet takes longer than the used share of the budget.
    #[must_use]
    pub fn min_buf(&self, cwnd_packets: u32, window_time: Option<Duration>) -> MinBuf {
        let (cwnd, unsent) = (cwnd_packets.max(1), self.packets_in_budget(cwnd_packets, window_time));
        MinBuf { windows: 1 + unsent / cwnd, extra_packets: unsent % cwnd }
    }

    /// Returns the number of packets that may wait for their first transmission: as [`MinBuf::unsent_packets_max`] for
    /// the present A and B, but never more than the budget is worth, since data would wait for those if pacing or the
    /// receiver keeps the window from being full. One packet may always use a free window. While the `oldest` unsent
    /// data has waited longer than the budget, nothing is added: it would be equally late.
    #[must_use]
    pub fn unsent_packets_max(&self, window: Window, window_time: Option<Duration>, oldest: Option<Duration>) -> u64 {
        if oldest.is_some_and(|waited| waited > self.budget) {
            return 0;
        }
        let worth = u64::from(self.packets_in_budget(window.cwnd_packets, window_time));
        self.min_buf(window.cwnd_packets, window_time).unsent_packets_max(window).min(worth.max(1))
    }

    fn packets_in_budget(&self, cwnd_packets: u32, window_time: Option<Duration>) -> u32 {
        let Some(window_time) = window_time else { return 0 };
        let used_ns = u128::from(saturating_nanos(self.budget)) * u128::from(self.share) / u128::from(SHARE_WHOLE);
        let packets = used_ns * u128::from(cwnd_packets) / u128::from(saturating_nanos(window_time).max(1));
        u32::try_from(packets).unwrap_or(u32::MAX).min(UNSENT_PACKETS_MAX)
    }
}

#[cfg(test)]
mod tests;
