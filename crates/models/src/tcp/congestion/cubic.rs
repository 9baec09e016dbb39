//! CUBIC's congestion avoidance (RFC 9438 §4), in whole numbers.

use festina_units::{Duration, Instant};

use super::SEGMENT;

/// beta_cubic = 0.7 (RFC 9438 §4.6), as a fraction.
const BETA: (u64, u64) = (7, 10);
/// The Reno-friendly increase, 3·(1 - beta)/(1 + beta) = 9/17 (RFC 9438 §4.3).
const ALPHA: (u64, u64) = (9, 17);
/// C = 0.4 segments/s³ (RFC 9438 §5.1) as a fraction of windows in 1/65536 segment and times in ms:
/// C · 65536 / 10⁹.
const C: (u128, u128) = (2 * SEGMENT as u128, 5 * 1_000_000_000);
/// Milliseconds beyond which an epoch does not grow: eleven days.
const EPOCH_MILLIS_MAX: u64 = 1_000_000_000;

/// The state between two reductions. Windows are in units of 1/65536 segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Cubic {
    w_max: u64,
    epoch: Option<Epoch>,
}

#[derive(Clone, Debug)]
struct Epoch {
    started: Instant,
    /// K: time in ms after which the window is at `w_max` again.
    k_millis: u64,
    /// The plateau of this epoch.
    origin: u64,
    /// W_est: the window that Reno would have.
    reno: u64,
}

impl Cubic {
    /// Returns the growth of `cwnd` when `segments` were acknowledged (RFC 9438 §4.2 to §4.5).
    pub(super) fn increase(&mut self, now: Instant, cwnd: u64, segments: u64, srtt: Duration) -> u64 {
        let w_max = self.w_max;
        let epoch = self.epoch.get_or_insert_with(|| Epoch::new(now, cwnd, w_max));
        // §4.3: below the window of the last reduction Reno's equal grows by alpha, above it by one.
        let (numerator, denominator) = if epoch.reno < w_max { ALPHA } else { (1, 1) };
        epoch.reno = epoch.reno.saturating_add(SEGMENT * SEGMENT * segments / cwnd * numerator / denominator);

        let elapsed = now.saturating_duration_since(epoch.started);
        if epoch.window_at(elapsed) < epoch.reno {
            return epoch.reno.saturating_sub(cwnd);
        }
        let target = epoch.window_at(elapsed.saturating_add(srtt)).clamp(cwnd, cwnd + cwnd / 2);
        (target - cwnd).saturating_mul(segments) / (cwnd / SEGMENT).max(1)
    }

    /// Reduces the window with `flight` outstanding, and returns the new one (RFC 9438 §4.6, §4.7).
    pub(super) fn cut(&mut self, flight: u64) -> u64 {
        let (numerator, denominator) = BETA;
        // §4.7, fast convergence: a flow that has not regained its last window releases bandwidth.
        self.w_max = if flight < self.w_max { flight * (denominator + numerator) / (2 * denominator) } else { flight };
        self.epoch = None;
        flight * numerator / denominator
    }

    /// The next congestion avoidance begins a new epoch (RFC 9438 §4.8, §5.8).
    pub(super) fn end_epoch(&mut self) {
        self.epoch = None;
    }
}

impl Epoch {
    fn new(now: Instant, cwnd: u64, w_max: u64) -> Self {
        let (numerator, denominator) = C;
        let below = u128::from(w_max.saturating_sub(cwnd));
        Self { started: now, k_millis: cube_root(below * denominator / numerator), origin: w_max.max(cwnd), reno: cwnd }
    }

    /// W_cubic (RFC 9438 §4.2 Eq. 1).
    fn window_at(&self, elapsed: Duration) -> u64 {
        let (numerator, denominator) = C;
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).min(EPOCH_MILLIS_MAX);
        let distance = u128::from(millis.abs_diff(self.k_millis));
        let difference = u64::try_from(distance.pow(3) * numerator / denominator).unwrap_or(u64::MAX / 4);
        if millis >= self.k_millis {
            self.origin.saturating_add(difference)
        } else {
            self.origin.saturating_sub(difference)
        }
    }
}

/// The largest whole number whose cube is at most `value`.
fn cube_root(value: u128) -> u64 {
    let (mut low, mut high) = (0_u128, 1_u128 << 42);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if middle.pow(3) <= value { low = middle } else { high = middle - 1 }
    }
    u64::try_from(low).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cube_root_is_exact() {
        for (value, root) in [(0, 0), (1, 1), (7, 1), (8, 2), (26, 2), (27, 3), (1_000_000_000, 1_000)] {
            assert_eq!(cube_root(value), root, "{value}");
        }
    }

    /// The window after each round trip of 100 ms, from a reduction at 200 segments, and the closed form.
    fn rounds() -> Vec<(f64, f64)> {
        let mut cubic = Cubic::default();
        let mut cwnd = cubic.cut(200 * SEGMENT);
        let k = (200.0 * 0.3 / 0.4_f64).cbrt();
        (1..=120_u32)
            .map(|round| {
                let now = Instant::from_millis(u64::from(round) * 100);
                for _ in 0..cwnd / SEGMENT {
                    cwnd += cubic.increase(now, cwnd, 1, Duration::from_millis(100));
                }
                // The epoch began at the first acknowledgement, at 100 ms; each round aims one RTT ahead.
                let t = f64::from(round) * 0.1;
                (cwnd as f64 / SEGMENT as f64, 0.4 * (t - k).powi(3) + 200.0)
            })
            .collect()
    }

    #[test]
    fn rfc_9438_4_2_the_window_follows_the_closed_form_before_and_after_the_plateau() {
        for (round, (window, closed_form)) in rounds().into_iter().enumerate() {
            let error = (window - closed_form).abs() / closed_form;
            assert!(error < 0.03, "round {round}: {window:.1} against {closed_form:.1}");
        }
    }

    #[test]
    fn rfc_9438_4_6_a_reduction_keeps_seven_tenths() {
        assert_eq!(Cubic::default().cut(100 * SEGMENT), 70 * SEGMENT);
    }

    #[test]
    fn rfc_9438_4_7_a_second_reduction_below_the_last_window_lowers_the_plateau() {
        let mut cubic = Cubic::default();
        cubic.cut(100 * SEGMENT);
        cubic.cut(80 * SEGMENT);
        assert_eq!(cubic.w_max, 68 * SEGMENT);
    }

    #[test]
    fn rfc_9438_4_3_on_a_short_path_the_window_grows_as_reno_would() {
        let mut cubic = Cubic::default();
        let mut cwnd = cubic.cut(20 * SEGMENT);
        let before = cwnd;
        let rounds = 40_u64;
        for round in 0..rounds {
            for _ in 0..cwnd / SEGMENT {
                cwnd += cubic.increase(Instant::from_millis(round), cwnd, 1, Duration::from_millis(1));
            }
        }
        // 9/17 of a segment in each of the first 11 rounds up to the old window, then one.
        let grown = (cwnd - before) / SEGMENT;
        assert!((30..=40).contains(&grown), "{grown}");
    }
}
