//! The one place where this crate reads clocks.

use std::sync::OnceLock;

use festina_units::{Duration, duration};

/// Microseconds since 1970, to date lines with. This clock jumps when it is set: nothing is measured with it.
#[expect(clippy::disallowed_methods, reason = "lines are dated when they come in")]
pub(crate) fn date_us() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    duration::saturating_nanos(since.unwrap_or(Duration::ZERO)) / 1_000
}

/// Microseconds of a clock that cannot be set, counted from an arbitrary time after 0. Ages, lifetimes and pauses are measured with it.
#[expect(clippy::disallowed_methods, reason = "the sans-IO parts get the time from here")]
pub(crate) fn steady_us() -> u64 {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    let since = START.get_or_init(std::time::Instant::now).elapsed();
    // Not 0: some take that for "never".
    1_000_000 + duration::saturating_nanos(since) / 1_000
}
