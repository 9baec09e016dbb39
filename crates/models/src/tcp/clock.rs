//! When a timer expires that was set for a given time.

use festina_units::{Duration, Instant};

/// Ticks ahead from which on the levels of Linux's timer wheel are 8, 64, 512 ... ticks coarse.
const LEVEL_STARTS: [u64; 5] = [63, 504, 4_032, 32_256, 258_048];

/// How exactly timers expire.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum TimerClock {
    /// To the nanosecond.
    Exact,
    /// As on Linux's timer wheel (since 4.8): times are rounded up to ticks, and the further ahead a timer
    /// lies, the coarser. Each level rounds up by at least one of its units, so a timer is up to an eighth
    /// of its time late and never early.
    Wheel {
        /// The length of a tick: 4 ms at 250 Hz.
        tick: Duration,
    },
}

impl TimerClock {
    /// A time as the kernel keeps it: in whole ticks, rounded up.
    pub(super) fn round_up(self, time: Duration) -> Duration {
        let Self::Wheel { tick } = self else { return time };
        let tick_ns = nanos(tick).max(1);
        Duration::from_nanos(nanos(time).div_ceil(tick_ns).saturating_mul(tick_ns))
    }

    /// Returns when a timer expires that is set at `now` for `timeout`.
    pub(super) fn expiry(self, now: Instant, timeout: Duration) -> Instant {
        let Self::Wheel { tick } = self else { return now + timeout };
        let tick_ns = nanos(tick).max(1);
        let ticks = nanos(timeout).div_ceil(tick_ns);
        let level = LEVEL_STARTS.iter().take_while(|&&start| ticks >= start).count();
        let shift = 3 * u32::try_from(level).unwrap_or(0);
        let expires = (now.as_nanos() / tick_ns).saturating_add(ticks);
        let units = (expires >> shift) + 1;
        Instant::from_nanos((units << shift).saturating_mul(tick_ns))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wheel_is_never_early_and_at_most_an_eighth_and_two_ticks_late() {
        let wheel = TimerClock::Wheel { tick: Duration::from_millis(4) };
        for now_micros in [0, 1, 3_999, 123_456_789] {
            let now = Instant::from_micros(now_micros);
            for timeout_millis in [1, 4, 51, 202, 251, 252, 300, 1_999, 2_016, 5_000, 120_000] {
                let timeout = Duration::from_millis(timeout_millis);
                let late = wheel.expiry(now, timeout).saturating_duration_since(now + timeout);
                assert!(wheel.expiry(now, timeout) >= now + timeout, "{timeout_millis} ms");
                assert!(late <= timeout / 8 + Duration::from_millis(8), "{timeout_millis} ms: {late:?}");
            }
        }
    }

    #[test]
    fn the_first_level_rounds_to_ticks_and_the_second_to_eight() {
        let wheel = TimerClock::Wheel { tick: Duration::from_millis(4) };
        let expiry = |timeout_millis| wheel.expiry(Instant::from_secs(32), Duration::from_millis(timeout_millis));
        assert_eq!(expiry(202) - Instant::from_secs(32), Duration::from_millis(208));
        assert_eq!(expiry(300) - Instant::from_secs(32), Duration::from_millis(320));
        assert_eq!(TimerClock::Exact.expiry(Instant::ZERO, Duration::from_micros(7)), Instant::from_micros(7));
    }
}
