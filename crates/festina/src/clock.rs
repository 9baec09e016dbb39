//! The one place where this crate reads a clock.

use std::sync::OnceLock;

use festina_units::{Duration, Instant};

/// The library's epoch lies this long before the first reading, so that subtracting a timeout never saturates.
const HEAD_START: Duration = Duration::from_secs(3_600);

/// The present on the library's monotonic clock, on which [`Event`](crate::Event)s give their times.
///
/// The epoch is arbitrary but common to all endpoints of the process.
pub fn now() -> Instant {
    static FIRST_READING: OnceLock<std::time::Instant> = OnceLock::new();
    let reading = read();
    let first = *FIRST_READING.get_or_init(|| reading);
    Instant::ZERO + HEAD_START + reading.saturating_duration_since(first)
}

#[expect(
    clippy::disallowed_methods,
    reason = "this crate drives the core in real time; all others get the time from their callers"
)]
fn read() -> std::time::Instant {
    std::time::Instant::now()
}

/// The CPU time that this thread has used, or the present where the system does not tell it. Its epoch is arbitrary.
pub(crate) fn cpu_time() -> Duration {
    #[cfg(target_os = "linux")]
    {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(u64::try_from(used.tv_sec).unwrap_or_default(), u32::try_from(used.tv_nsec).unwrap_or_default())
    }
    #[cfg(not(target_os = "linux"))]
    {
        now().saturating_duration_since(Instant::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_advances_and_never_goes_back() {
        let first = now();
        std::thread::sleep(Duration::from_millis(2));
        let second = now();
        assert!(second.saturating_duration_since(first) >= Duration::from_millis(2));
        assert!(first >= Instant::ZERO + HEAD_START);
    }
}
