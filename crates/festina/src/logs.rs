//! Log records as lines of text, for programs without a subscriber of `tracing`, such as those that are not written in Rust.

use std::fmt::{self, Write as _};
use std::sync::{OnceLock, PoisonError, RwLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

pub use tracing::Level;
pub use tracing::level_filters::LevelFilter;

/// A function that takes records: a level, and a line without a line feed.
type Log = Box<dyn Fn(Level, &str) + Send + Sync>;

/// The least severe level that is logged, and the function.
static LOG: RwLock<(LevelFilter, Option<Log>)> = RwLock::new((LevelFilter::OFF, None));

/// Calls `log` with each record of at least this level, from any thread and in the middle of the library's work: it should be quick, must not panic,
/// and must not call the library. A function given earlier is not called any more. `None` logs nothing.
///
/// Has no effect if the program has a subscriber of `tracing` already.
pub fn log_to(level: LevelFilter, log: Option<Log>) {
    static IS_SUBSCRIBED: OnceLock<bool> = OnceLock::new();
    let level = if log.is_some() { level } else { LevelFilter::OFF };
    *LOG.write().unwrap_or_else(PoisonError::into_inner) = (level, log);
    IS_SUBSCRIBED.get_or_init(|| tracing::subscriber::set_global_default(Records).is_ok());
    tracing::callsite::rebuild_interest_cache();
}

/// Changes the level of the records that are logged.
pub fn set_level(wanted: LevelFilter) {
    if wanted != level() {
        LOG.write().unwrap_or_else(PoisonError::into_inner).0 = wanted;
        tracing::callsite::rebuild_interest_cache();
    }
}

fn level() -> LevelFilter {
    LOG.read().unwrap_or_else(PoisonError::into_inner).0
}

/// Makes a line of each record. Festina has no spans.
struct Records;

impl Subscriber for Records {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= level() && metadata.target().starts_with("festina")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(level())
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        if let (_, Some(log)) = &*LOG.read().unwrap_or_else(PoisonError::into_inner) {
            log(*event.metadata().level(), &format!("{}{}", line.message, line.fields));
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The message of a record, and its fields as ` name=value`.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a string does not fail.
        let _written = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn records_become_lines_from_their_level_on() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let write = |lines: &Arc<Mutex<Vec<String>>>| -> Log {
            let lines = Arc::clone(lines);
            Box::new(move |level, line| lines.lock().unwrap().push(format!("{level} {line}")))
        };
        let say = |number: u32| {
            tracing::info!(number, remote = %"there", cause = "said", "it is test {}", "of logs");
            tracing::debug!(number, "test of logs in detail");
        };
        say(0);
        log_to(LevelFilter::INFO, Some(write(&lines)));
        say(1);
        set_level(LevelFilter::DEBUG);
        say(2);
        log_to(LevelFilter::WARN, Some(write(&lines)));
        say(3);
        log_to(LevelFilter::DEBUG, None);
        say(4);
        // Other tests log meanwhile.
        let mut lines = lines.lock().unwrap();
        lines.retain(|line| line.contains("test of logs"));
        let expected = [
            "INFO it is test of logs number=1 remote=there cause=\"said\"",
            "INFO it is test of logs number=2 remote=there cause=\"said\"",
            "DEBUG test of logs in detail number=2",
        ];
        assert_eq!(*lines, expected);
    }
}
