//! Log records as calls of a function of the program.
#![expect(unsafe_code, reason = "an exported name is an unsafe attribute")]

use std::ffi::{CString, c_char, c_int, c_void};

use festina::logs::{Level, LevelFilter, log_to};

use crate::boundary::Context;
use crate::status::{Failure, Status, guard};

/// The level of a record; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Nothing.
    Off = 0,
    /// A bug, or a function of the program that panicked.
    Error = 1,
    /// Failed handshakes, reached limits.
    Warn = 2,
    /// Associations that begin and end.
    Info = 3,
    /// Details.
    Debug = 4,
    /// More details.
    Trace = 5,
}

/// A function that takes the context, the level and the text of a record.
pub type LogFunction = extern "C" fn(context: *mut c_void, level: c_int, text: *const c_char);

/// Has a function called with each record from now on.
#[unsafe(no_mangle)]
pub extern "C" fn festina_set_log(function: Option<LogFunction>, context: *mut c_void, level: c_int) -> Status {
    guard(|| {
        let level = match level {
            0 => LevelFilter::OFF,
            1 => LevelFilter::ERROR,
            2 => LevelFilter::WARN,
            3 => LevelFilter::INFO,
            4 => LevelFilter::DEBUG,
            5 => LevelFilter::TRACE,
            _ => return Err(Failure::invalid(format_args!("level is {level}, but must lie between 0 and 5"))),
        };
        let context = Context(context);
        let log = function.map(|function| {
            let call = move |level: Level, line: &str| {
                // A zero byte inside would end it early.
                let text = CString::new(line.replace('\0', "")).unwrap_or_default();
                function(context.pointer(), number(level) as c_int, text.as_ptr());
            };
            Box::new(call) as Box<dyn Fn(Level, &str) + Send + Sync>
        });
        log_to(level, log);
        Ok(())
    })
}

fn number(level: Level) -> LogLevel {
    match level {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        Level::DEBUG => LogLevel::Debug,
        Level::TRACE => LogLevel::Trace,
    }
}
