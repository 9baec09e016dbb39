//! The only place where this crate reads a clock.

use std::sync::OnceLock;

use festina_units::Instant;

/// Returns the current time, relative to the first call.
pub(crate) fn now() -> Instant {
    static FIRST_READING: OnceLock<std::time::Instant> = OnceLock::new();
    let reading = read();
    let first = *FIRST_READING.get_or_init(|| reading);
    Instant::ZERO + reading.saturating_duration_since(first)
}

#[expect(clippy::disallowed_methods, reason = "sockets are driven in real time")]
fn read() -> std::time::Instant {
    std::time::Instant::now()
}
