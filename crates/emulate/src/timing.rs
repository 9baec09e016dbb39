//! Sleeping until a link wants to be polled, as exactly as the system can.

use std::num::NonZeroU64;

use festina_units::{Duration, Instant};
use rustix::event::Timespec;

/// The lateness of deliveries: the error of the emulated delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lateness {
    /// Deliveries.
    pub count: u64,
    /// The sum of the lateness of all deliveries.
    pub total: Duration,
    /// The maximum lateness of a delivery.
    pub max: Duration,
    /// Deliveries that were later than [`Lateness::TOLERABLE`].
    pub intolerable: u64,
    /// Deliveries by how late they were: at most a microsecond, at most two, and so on in steps of a half or less; see
    /// [`quantile`](Self::quantile).
    pub steps: [u64; STEPS],
}

/// Number of steps.
const STEPS: usize = 32;

/// The ends of the steps, in microseconds; the last one has no end. [`Lateness::TOLERABLE`] is an end.
const ENDS_US: [u64; STEPS - 1] = [
    1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 63, 94, 125, 188, 250, 375, 500, 750, 1_000, 1_500, 2_000, 3_000, 4_000,
    6_000, 8_000, 12_000, 16_000, 24_000, 32_000, 64_000,
];

impl Lateness {
    /// The error that an emulated delay may have.
    pub const TOLERABLE: Duration = Duration::from_micros(500);

    /// Returns whether the machine was fast enough: at most one delivery in a hundred was later than
    /// [`TOLERABLE`](Self::TOLERABLE).
    pub fn is_tolerable(&self) -> bool {
        self.intolerable.saturating_mul(100) <= self.count
    }

    /// Returns the mean lateness.
    pub fn mean(&self) -> Duration {
        let mean_nanos = self.total.as_nanos().checked_div(u128::from(self.count)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(mean_nanos).unwrap_or(u64::MAX))
    }

    /// Returns the maximum lateness of `per_mille` of a thousand deliveries, rounded up to the end of a step, which at
    /// most doubles it.
    pub fn quantile(&self, per_mille: u32) -> Duration {
        let wanted = (u128::from(self.count) * u128::from(per_mille.min(1_000))).div_ceil(1_000);
        let mut so_far = 0;
        let step = self.steps.iter().position(|&count| {
            so_far += u128::from(count);
            so_far >= wanted
        });
        let end_us = step.and_then(|step| ENDS_US.get(step));
        end_us.map_or(self.max, |&end_us| Duration::from_micros(end_us).min(self.max))
    }

    pub(crate) fn note(&mut self, lateness: Duration) {
        self.count += 1;
        let step = ENDS_US.partition_point(|&end_us| Duration::from_micros(end_us) < lateness);
        self.steps[step] += 1;
        self.total = self.total.saturating_add(lateness);
        self.max = self.max.max(lateness);
        self.intolerable += u64::from(lateness > Self::TOLERABLE);
    }
}

/// Returns the timeout for `ppoll`.
pub(crate) fn timeout_until(deadline: Instant, now: Instant) -> Timespec {
    Timespec::try_from(deadline - now).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}

/// Asks the kernel to wake this thread on time instead of saving wake-ups (by default, Linux may be
/// 50 microseconds late on purpose).
pub(crate) fn sharpen_timers() {
    #[cfg(target_os = "linux")]
    {
        // Only accuracy suffers if the kernel refuses.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    }
}

/// Asks the kernel to run this thread as soon as it wakes up, before all other work. Only root and users with
/// CAP_SYS_NICE may do that. The thread sleeps until something is due, so other work loses little.
pub(crate) fn be_punctual() {
    ask_for_priority(EMULATOR_PRIORITY);
}

/// The same for a thread that measures an emulated network; otherwise the load of the machine is measured as well. The
/// emulators' own threads come first.
pub fn take_precedence() {
    ask_for_priority(EMULATOR_PRIORITY - 1);
}

/// A priority of `SCHED_FIFO`, whose lowest is 1.
const EMULATOR_PRIORITY: u8 = 2;

fn ask_for_priority(priority: u8) {
    #[cfg(target_os = "linux")]
    {
        use thread_priority::{
            RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
            thread_native_id,
        };

        let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
        let priority = priority.try_into().map_or(ThreadPriority::Min, ThreadPriority::Crossplatform);
        // Only accuracy suffers if the kernel refuses.
        let _ = set_thread_priority_and_policy(thread_native_id(), priority, policy);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = priority;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_lateness_is_the_sum_over_the_deliveries() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.mean(), Duration::ZERO);
        lateness.note(Duration::from_micros(30));
        lateness.note(Duration::from_micros(10));
        assert_eq!(lateness.mean(), Duration::from_micros(20));
        assert_eq!(lateness.max, Duration::from_micros(30));
    }

    #[test]
    fn one_late_delivery_in_a_hundred_is_tolerable() {
        let mut lateness = Lateness::default();
        assert!(lateness.is_tolerable());
        lateness.note(Lateness::TOLERABLE + Duration::from_nanos(1));
        assert!(!lateness.is_tolerable());
        for _ in 0..99 {
            lateness.note(Lateness::TOLERABLE);
        }
        assert!(lateness.is_tolerable());
    }

    #[test]
    fn a_quantile_is_the_end_of_its_step_and_never_beyond_the_latest() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile(990), Duration::ZERO);
        for _ in 0..98 {
            lateness.note(Duration::from_micros(20));
        }
        lateness.note(Lateness::TOLERABLE);
        lateness.note(Duration::from_secs(3));
        let micros = [0, 500, 980, 990, 991, 1_000].map(|per_mille| lateness.quantile(per_mille).as_micros());
        assert_eq!(micros, [1, 24, 24, 500, 3_000_000, 3_000_000]);
        let mut one = Lateness::default();
        one.note(Duration::from_micros(20));
        assert_eq!(one.quantile(500), Duration::from_micros(20));
    }

    #[test]
    fn a_deadline_that_has_passed_is_not_waited_for() {
        let timeout = timeout_until(Instant::from_secs(1), Instant::from_secs(2));
        assert_eq!((timeout.tv_sec, timeout.tv_nsec), (0, 0));
    }
}
