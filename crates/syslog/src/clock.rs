//! The one place where this crate reads the time of day.

use festina_units::{Duration, duration};

/// Microseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "lines are dated when they come in; everybody else is told the time")]
pub(crate) fn now_us() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    duration::saturating_nanos(since.unwrap_or(Duration::ZERO)) / 1_000
}
