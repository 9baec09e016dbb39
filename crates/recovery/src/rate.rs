//! How many bytes does a sender send per round trip? A meter of constant size.

use festina_units::{Duration, Instant};

/// Bytes sent during the window up to the latest sending.
///
/// It counts in two adjacent windows and takes of the older one the part that still lies within the
/// window's length, as if what was sent in it had been spread evenly. It is right to the
/// packet for a steady stream and off by at most what one window holds for any other.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct RateMeter {
    window_started: Instant,
    current_bytes: u32,
    previous_bytes: u32,
    latest_bytes: u32,
}

impl RateMeter {
    /// A meter that has counted nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// So many bytes leave at `now`; the window is as long as `window`.
    pub fn sent(&mut self, now: Instant, bytes: u32, window: Duration) {
        self.advance(now, window);
        self.current_bytes = self.current_bytes.saturating_add(bytes);
        self.latest_bytes = self.estimate(now, window);
    }

    /// Bytes sent during the window up to the latest sending, that included. What a silence since
    /// then would make of it is not taken into account.
    #[must_use]
    pub fn latest_bytes(&self) -> u32 {
        self.latest_bytes
    }

    /// Bytes sent during the window up to `now`.
    #[must_use]
    pub fn bytes_at(&self, now: Instant, window: Duration) -> u32 {
        let mut meter = *self;
        meter.advance(now, window);
        meter.estimate(now, window)
    }

    fn advance(&mut self, now: Instant, window: Duration) {
        let age = now.saturating_duration_since(self.window_started);
        if age < window {
            return;
        }
        let is_next = age < window.saturating_mul(2);
        self.previous_bytes = if is_next { self.current_bytes } else { 0 };
        self.window_started = if is_next { self.window_started + window } else { now };
        self.current_bytes = 0;
    }

    fn estimate(&self, now: Instant, window: Duration) -> u32 {
        let window_ns = window.as_nanos().max(1);
        let left_ns = window_ns.saturating_sub(now.saturating_duration_since(self.window_started).as_nanos());
        let of_previous = u128::from(self.previous_bytes) * left_ns / window_ns;
        self.current_bytes.saturating_add(u32::try_from(of_previous).unwrap_or(u32::MAX))
    }
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
        let five_packets_or_six = 5 * 116..=6 * 116;
        assert!(five_packets_or_six.contains(&meter.latest_bytes()), "{meter:?}");
    }

    #[test]
    fn after_two_quiet_windows_only_what_leaves_now_counts() {
        let mut meter = RateMeter::new();
        meter.sent(at(0), 5_000, WINDOW);
        assert_eq!(meter.bytes_at(at(150), WINDOW), 2_500);
        meter.sent(at(200), 10, WINDOW);
        assert_eq!(meter.latest_bytes(), 10);
    }

    #[test]
    fn silence_does_not_change_the_latest_figure_but_the_one_for_now() {
        let mut meter = RateMeter::new();
        meter.sent(at(0), 700, WINDOW);
        assert_eq!((meter.latest_bytes(), meter.bytes_at(at(500), WINDOW)), (700, 0));
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
                meter.sent(now, bytes, Duration::from_nanos(window_ns));
                total += u64::from(bytes);
                prop_assert!(u64::from(meter.latest_bytes()) <= total);
            }
        }
    }
}
