//! The one place where this crate reads a clock.

use std::sync::OnceLock;

use festina_units::{Duration, Instant};
#[cfg(target_os = "linux")]
use nix::time::{ClockId, clock_gettime};

/// The library's epoch lies this long before the first reading, so that subtracting a timeout never saturates.
const HEAD_START: Duration = Duration::from_secs(3_600);

/// The present on the library's monotonic clock, on which [`Event`](crate::Event)s give their times.
///
/// The epoch is arbitrary but common to all endpoints of the process. On Linux the clock goes on while the system is suspended, so that lifetimes and
/// timeouts end as they do for the peer.
pub fn now() -> Instant {
    static FIRST_READING: OnceLock<Duration> = OnceLock::new();
    let reading = read();
    let first = *FIRST_READING.get_or_init(|| reading);
    Instant::ZERO + HEAD_START + reading.saturating_sub(first)
}

/// Time since the system was started, including suspension.
#[cfg(target_os = "linux")]
fn read() -> Duration {
    read_clock(ClockId::CLOCK_BOOTTIME)
}

/// By the C library: rustix looks for the vDSO itself, which crashes under valgrind.
#[cfg(target_os = "linux")]
fn read_clock(clock: ClockId) -> Duration {
    clock_gettime(clock).map(Duration::from).expect("the clock is older than this library's other system calls")
}

/// Time since the first reading.
#[cfg(not(target_os = "linux"))]
#[expect(
    clippy::disallowed_methods,
    reason = "this crate drives the core in real time; all others get the time from their callers"
)]
fn read() -> Duration {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

/// The CPU time that this thread has used, or the present where the system does not tell it. Its epoch is arbitrary.
pub(crate) fn cpu_time() -> Duration {
    #[cfg(target_os = "linux")]
    {
        read_clock(ClockId::CLOCK_THREAD_CPUTIME_ID)
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

    /// Time since the system was started, including suspension, rounded down to hundredths of a second.
    #[cfg(target_os = "linux")]
    fn uptime() -> Duration {
        let text = std::fs::read_to_string("/proc/uptime").unwrap();
        Duration::from_secs_f64(text.split_whitespace().next().unwrap().parse().unwrap())
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_clock_counts_the_time_in_suspension() {
        let (before, reading, after) = (uptime(), read(), uptime());
        assert!(before <= reading && reading <= after + Duration::from_millis(10), "{before:?} {reading:?} {after:?}");
    }

    /// A system that was never suspended cannot tell the clocks apart. In a time namespace they differ, as after a day of suspension.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_clock_counts_a_day_in_suspension() {
        let this = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new("unshare");
        child.args(["--user", "--map-root-user", "--time", "--boottime", "86400", "--monotonic", "0"]).arg(this);
        let ended = child.args(["--exact", "clock::tests::the_clock_counts_the_time_in_suspension"]).output();
        let Ok(ended) = ended else { return };
        let refused = String::from_utf8_lossy(&ended.stderr).contains("unshare:");
        assert!(ended.status.success() || refused, "{}", String::from_utf8_lossy(&ended.stdout));
    }
}
