//! A meter of constant size for the bytes sent per round trip.

use festina_units::{Duration, Instant, duration::saturating_nanos};

/// Counts the bytes sent during the window up to the latest transmission.
///
/// It counts in two adjacent windows, and assumes that the bytes of the older one were spread evenly: only the part
/// that still lies within the window's length counts. The result is exact for a steady stream, and off by at most the
/// bytes of one window for any other.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct RateMeter {
    window_started: Instant,
    latest: Instant,
    current_bytes: u32,
    previous_bytes: u32,
}

impl RateMeter {
    /// Creates an empty meter.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records `bytes` sent at `now`, with a window of length `window`.
    pub fn sent(&mut self, now: Instant, bytes: u32, window: Duration) {
        self.advance(now, saturating_nanos(window));
        self.current_bytes = self.current_bytes.saturating_add(bytes);
        self.latest = now;
    }

    /// Returns whether more than `limit_bytes` were sent during the window up to and including the latest transmission.
    /// A silence since then changes nothing.
    #[must_use]
    pub fn exceeds(&self, limit_bytes: u32, window: Duration) -> bool {
        self.current_bytes > limit_bytes || self.estimate(self.latest, saturating_nanos(window)) > limit_bytes
    }

    /// Returns the bytes sent during the window up to `now`.
    #[must_use]
    pub fn bytes_at(&self, now: Instant, window: Duration) -> u32 {
        let (mut meter, window_ns) = (*self, saturating_nanos(window));
        meter.advance(now, window_ns);
        meter.estimate(now, window_ns)
    }

    fn advance(&mut self, now: Instant, window_ns: u64) {
        let age_ns = age_ns(now, self.window_started);
        if age_ns < window_ns {
            return;
        }
        let is_next = age_ns - window_ns < window_ns;
        self.previous_bytes = if is_next { self.current_bytes } else { 0 };
        self.window_started =
            if is_next { Instant::from_nanos(self.window_started.as_nanos().saturating_add(window_ns)) } else { now };
        self.current_bytes = 0;
    }

    fn estimate(&self, now: Instant, window_ns: u64) -> u32 {
        let left_ns = window_ns.saturating_sub(age_ns(now, self.window_started));
        if self.previous_bytes == 0 || left_ns == 0 {
            return self.current_bytes;
        }
        // Both in units in which a window is less than 2^32, so that the product fits.
        let unit = (u64::BITS - window_ns.leading_zeros()).saturating_sub(u32::BITS);
        let of_previous = u64::from(self.previous_bytes) * (left_ns >> unit) / (window_ns >> unit);
        self.current_bytes.saturating_add(u32::try_from(of_previous).unwrap_or(u32::MAX))
    }
}

fn age_ns(now: Instant, then: Instant) -> u64 {
    now.as_nanos().saturating_sub(then.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::from_millis(1_000 + millis)
    }

    #[test]
    fn a_steady_stream_is_measured_to_the_packet() {
        let mut meter = RateMeter::new();
        for nth in 0..50 {
            meter.sent(at(20 * nth), 116, WINDOW);
        }
        assert!(meter.exceeds(5 * 116 - 1, WINDOW) && !meter.exceeds(6 * 116, WINDOW), "{meter:?}");
    }

    #[test]
    fn after_two_quiet_windows_only_new_transmissions_count() {
        let mut meter = RateMeter::new();
        meter.sent(at(0), 5_000, WINDOW);
        assert_eq!(meter.bytes_at(at(150), WINDOW), 2_500);
        meter.sent(at(200), 10, WINDOW);
        assert!(meter.exceeds(9, WINDOW) && !meter.exceeds(10, WINDOW), "{meter:?}");
    }

    #[test]
    fn silence_does_not_change_the_latest_figure_but_the_one_for_now() {
        let mut meter = RateMeter::new();
        meter.sent(at(0), 700, WINDOW);
        assert!(meter.exceeds(699, WINDOW) && !meter.exceeds(700, WINDOW), "{meter:?}");
        assert_eq!(meter.bytes_at(at(500), WINDOW), 0);
    }

    proptest! {
        #[test]
        fn nothing_overflows_and_no_more_is_reported_than_was_sent(
            sent in prop::collection::vec((any::<u32>(), any::<u32>()), 1..20),
            window_ns in any::<u64>(),
        ) {
            let (mut meter, mut now, mut total) = (RateMeter::new(), Instant::ZERO, 0_u64);
            for (pause_ns, bytes) in sent {
                now += Duration::from_nanos(pause_ns.into());
                let window = Duration::from_nanos(window_ns);
                meter.sent(now, bytes, window);
                total += u64::from(bytes);
                prop_assert!(u64::from(meter.bytes_at(now, window)) <= total);
                prop_assert!(!meter.exceeds(meter.bytes_at(now, window), window));
            }
        }
    }
}
