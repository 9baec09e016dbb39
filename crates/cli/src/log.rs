//! `-v`: what the library reports about its associations, on standard error.

use festina::logs::{LevelFilter, log_to};

use crate::output;

/// Prints what the library reports, if `-v` was given: associations that come up and go down, limits and failures; all details if it was
/// given more than once.
pub(crate) fn begin(times: u8) {
    let level = match times {
        0 => return,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let print = |level: festina::logs::Level, line: &str| {
        output::notice(&format!("{}: {line}", level.as_str().to_ascii_lowercase()));
    };
    log_to(level, Some(Box::new(print)));
}
