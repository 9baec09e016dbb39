//! The real clock, with instants for links and captures.

use std::time::{Instant as StdInstant, SystemTime, UNIX_EPOCH};

use festina_units::{Instant, duration};

/// A monotonic clock whose instants count from the Unix epoch.
///
/// The wall clock is read once, at the start; if it is set later, this clock does not follow. Its
/// instants can therefore drive links and serve as timestamps of captures at the same time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: StdInstant,
    started_at: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this crate is a driver: the one place where it reads a clock")]
    pub(crate) fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: StdInstant::now(), started_at: Instant::from_nanos(duration::saturating_nanos(since_epoch)) }
    }

    pub(crate) fn now(&self) -> Instant {
        self.started_at + self.started.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_tells_unix_time_and_goes_forward() {
        let clock = Clock::start();
        let first = clock.now();
        let year_2020 = Instant::from_secs(1_577_836_800);
        assert!(first > year_2020);
        assert!(clock.now() >= first);
    }
}
