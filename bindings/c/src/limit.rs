//! Time limits.

use festina::Duration;

use crate::status::Failure;

/// The time limit that is none.
pub(crate) const FOREVER: i32 = -1;

/// Converts a time limit in milliseconds; `None` for [`FOREVER`]. Other negative numbers, usually miscalculated limits, are refused.
pub(crate) fn limit(timeout_ms: i32) -> Result<Option<Duration>, Failure> {
    match u64::try_from(timeout_ms) {
        Ok(ms) => Ok(Some(Duration::from_millis(ms))),
        Err(_) if timeout_ms == FOREVER => Ok(None),
        Err(_) => Err(Failure::invalid(format_args!(
            "timeout_ms is {timeout_ms}, but must be FESTINA_FOREVER (-1), FESTINA_NOW (0) or more"
        ))),
    }
}
