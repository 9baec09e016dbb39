//! The real clock, with instants for links and captures.

use std::time::{Instant as StdInstant, SystemTime, UNIX_EPOCH};

use festina_units::{Instant, duration};

/// A monotonic clock whose instants count from its start, as the simulator's do: a link with a trace begins at the first line.
///
/// The wall clock is read once, at the start; if it is set later, the times of captures do not follow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: StdInstant,
    unix_time_at_start: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this crate is a driver: the one place where it reads a clock")]
    pub(crate) fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_time_at_start = Instant::from_nanos(duration::saturating_nanos(since_epoch));
        Self { started: StdInstant::now(), unix_time_at_start }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + self.started.elapsed()
    }

    /// Returns the time since the Unix epoch at an instant of this clock.
    pub(crate) fn unix_time(&self, at: Instant) -> Instant {
        self.unix_time_at_start + (at - Instant::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_counts_from_its_start_goes_forward_and_tells_unix_time() {
        let clock = Clock::start();
        let first = clock.now();
        let (year_1971, year_2020) = (Instant::from_secs(31_536_000), Instant::from_secs(1_577_836_800));
        assert!(first < year_1971);
        assert!(clock.now() >= first);
        assert!(clock.unix_time(first) > year_2020);
    }
}
