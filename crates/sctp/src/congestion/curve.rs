//! CUBIC's window between two reductions (RFC 9438 §4.2 to §4.5, §4.7), in whole numbers.

use festina_units::{Duration, Instant};

/// beta_cubic = 0.7 (RFC 9438 §4.6), as a fraction.
pub(super) const BETA: (usize, usize) = (7, 10);
/// The Reno-friendly increase, 3 * (1 - beta) / (1 + beta) (RFC 9438 §4.3).
const ALPHA: (u64, u64) = (9, 17);
/// 1 / C = 2.5 s³ per packet (RFC 9438 §5.1), in ms³.
const MS_CUBED_PER_PACKET: u128 = 2_500_000_000;
/// Milliseconds beyond which an epoch does not grow: eleven days.
const EPOCH_MS_MAX: u128 = 1_000_000_000;
/// W_est counts in this part of a byte, so that small steps add up.
const EST_PARTS: u64 = 256;

/// What CUBIC remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Curve {
    /// W_max: the window before the last reduction; zero if the next epoch begins on its plateau.
    w_max: usize,
    /// The window before the last reduction, up to which Reno's equal grows by alpha.
    cwnd_prior: usize,
    /// Congestion avoidance since the last reduction, if it has begun.
    epoch: Option<Box<Epoch>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Epoch {
    /// Time during which cwnd has limited the sender in this epoch, up to `counted_until` (RFC 9438 §5.8).
    elapsed: Duration,
    counted_until: Option<Instant>,
    /// K, in ms.
    k_ms: u64,
    /// The plateau.
    origin: usize,
    /// W_est, in parts of a byte.
    w_est: u64,
    /// The remainder of the last increase, in `cwnd`ths of a byte.
    remainder: u128,
}

impl Curve {
    /// `acked` bytes were acknowledged while cwnd limited the sender. Returns the new window.
    pub(super) fn grow(&mut self, now: Instant, cwnd: usize, acked: usize, packet: usize, srtt: Duration) -> usize {
        let Self { w_max, cwnd_prior, .. } = *self;
        let epoch = self.epoch.get_or_insert_with(|| Box::new(Epoch::new(cwnd, w_max, packet)));
        let since = epoch.counted_until.map_or(Duration::ZERO, |until| now.saturating_duration_since(until));
        epoch.elapsed = epoch.elapsed.saturating_add(since);
        epoch.counted_until = Some(now);
        let w_est = epoch.estimate(cwnd, acked, packet, cwnd_prior);
        if epoch.window_at(epoch.elapsed, packet) < w_est {
            return cwnd.max(w_est);
        }
        let target = epoch.window_at(epoch.elapsed.saturating_add(srtt), packet).clamp(cwnd, cwnd + cwnd / 2);
        let parts = (target - cwnd) as u128 * acked as u128 + epoch.remainder;
        let divisor = cwnd.max(1) as u128;
        epoch.remainder = parts % divisor;
        cwnd.saturating_add(usize::try_from(parts / divisor).unwrap_or(usize::MAX)).min(target)
    }

    /// The application, not cwnd, limits the sender: the epoch stands still (RFC 9438 §5.8).
    pub(super) fn pause(&mut self) {
        if let Some(epoch) = &mut self.epoch {
            epoch.counted_until = None;
        }
    }

    /// A loss or a mark at this window. Returns the window after it.
    pub(super) fn reduce(&mut self, cwnd: usize) -> usize {
        let (numerator, denominator) = BETA;
        // RFC 9438 §4.7, fast convergence: a flow that has not reached its last window again releases bandwidth.
        let gives_way = cwnd < self.w_max;
        self.w_max = if gives_way { part(cwnd, denominator + numerator, 2 * denominator) } else { cwnd };
        self.cwnd_prior = cwnd;
        self.epoch = None;
        part(cwnd, numerator, denominator)
    }

    /// A timeout at this window: the next congestion avoidance begins on its plateau (RFC 9438 §4.8). Returns the threshold.
    pub(super) fn restart(&mut self, cwnd: usize) -> usize {
        let reduced = self.reduce(cwnd);
        self.w_max = 0;
        reduced
    }

    /// The association is idle: a new epoch begins when it sends again.
    pub(super) fn end_epoch(&mut self) {
        self.epoch = None;
    }

    /// Returns whether anything has happened to it yet.
    pub(super) fn is_used(&self) -> bool {
        self.cwnd_prior > 0
    }
}

impl Epoch {
    /// Starts an epoch with this window.
    fn new(cwnd: usize, w_max: usize, packet: usize) -> Self {
        let below = w_max.saturating_sub(cwnd) as u128;
        Self {
            elapsed: Duration::ZERO,
            counted_until: None,
            k_ms: cube_root(below * MS_CUBED_PER_PACKET / packet.max(1) as u128),
            origin: w_max.max(cwnd),
            w_est: (cwnd as u64).saturating_mul(EST_PARTS),
            remainder: 0,
        }
    }

    /// W_cubic(t) (RFC 9438 §4.2, Figure 1).
    fn window_at(&self, elapsed: Duration, packet: usize) -> usize {
        let distance = elapsed.as_millis().min(EPOCH_MS_MAX).abs_diff(u128::from(self.k_ms));
        let difference = distance.pow(3).saturating_mul(packet as u128) / MS_CUBED_PER_PACKET;
        let difference = usize::try_from(difference).unwrap_or(usize::MAX / 4);
        if elapsed.as_millis() >= u128::from(self.k_ms) {
            self.origin.saturating_add(difference)
        } else {
            self.origin.saturating_sub(difference)
        }
    }

    /// W_est after `acked` more bytes: the window that Reno would have (RFC 9438 §4.3, Figure 4).
    fn estimate(&mut self, cwnd: usize, acked: usize, packet: usize, cwnd_prior: usize) -> usize {
        let (numerator, denominator) =
            if self.w_est < (cwnd_prior as u64).saturating_mul(EST_PARTS) { ALPHA } else { (1, 1) };
        let packets = (acked as u64).saturating_mul(packet as u64).saturating_mul(EST_PARTS) / (cwnd as u64).max(1);
        self.w_est = self.w_est.saturating_add(packets.saturating_mul(numerator) / denominator);
        usize::try_from(self.w_est / EST_PARTS).unwrap_or(usize::MAX)
    }
}

/// `whole * numerator / denominator`.
fn part(whole: usize, numerator: usize, denominator: usize) -> usize {
    usize::try_from(whole as u128 * numerator as u128 / denominator as u128).unwrap_or(usize::MAX)
}

/// Returns the integer cube root, computed bit by bit.
fn cube_root(value: u128) -> u64 {
    let mut root = 0_u128;
    for digit in (0..42).rev() {
        let larger = root | 1 << digit;
        if larger.pow(3) <= value {
            root = larger;
        }
    }
    u64::try_from(root).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
