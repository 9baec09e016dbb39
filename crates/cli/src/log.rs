//! `-v`: what the library reports about its associations, on standard error.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::output;

/// Prints what the library reports, if `-v` was given: associations that come up and go down, limits and failures; all details if it was
/// given more than once.
pub(crate) fn begin(times: u8) {
    let level = match times {
        0 => return,
        1 => Level::INFO,
        _ => Level::DEBUG,
    };
    // No other code in this process sets one.
    let _ = tracing::subscriber::set_global_default(Lines { level });
}

/// Prints each event as a line.
struct Lines {
    level: Level,
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.is_event()
    }

    fn event(&self, event: &Event<'_>) {
        output::notice(&line(event));
    }

    // The library has no spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The level, what happened, and the fields that say more.
fn line(event: &Event<'_>) -> String {
    let mut parts = Parts::default();
    event.record(&mut parts);
    format!("{}: {}{}", event.metadata().level().as_str().to_ascii_lowercase(), parts.message, parts.fields)
}

#[derive(Default)]
struct Parts {
    message: String,
    fields: String,
}

impl Visit for Parts {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
