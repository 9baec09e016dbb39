//! The one place where this crate reads clocks.

use festina_units::{Duration, duration};

/// Microseconds since 1970, to date lines with. This clock jumps when it is set: nothing is measured with it.
#[expect(clippy::disallowed_methods, reason = "lines are dated when they come in")]
pub(crate) fn date_us() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    duration::saturating_nanos(since.unwrap_or(Duration::ZERO)) / 1_000
}

/// Microseconds of the transport's clock, which cannot be set, counted from an arbitrary time after 0. Ages, lifetimes and pauses are measured with it.
/// On Linux it goes on while the system is suspended: lines grow old meanwhile.
pub(crate) fn steady_us() -> u64 {
    festina::now().as_nanos() / 1_000
}
