//! Time that passes, and time that the process works.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A point in time on both clocks.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    wall: Duration,
    cpu: Duration,
}

impl Reading {
    /// Reads both clocks.
    pub(crate) fn now() -> Self {
        Self { wall: read(ClockId::Monotonic), cpu: read(ClockId::ProcessCPUTime) }
    }

    /// The point in time on the clock that all processes of the machine share.
    pub(crate) fn since_boot(&self) -> Duration {
        self.wall
    }

    /// Time since then.
    pub(crate) fn wall(&self) -> Duration {
        read(ClockId::Monotonic).saturating_sub(self.wall)
    }

    /// CPU time of all threads of the process since then.
    pub(crate) fn cpu(&self) -> Duration {
        read(ClockId::ProcessCPUTime).saturating_sub(self.cpu)
    }
}

fn read(clock: ClockId) -> Duration {
    let reading = clock_gettime(clock);
    let (seconds, nanoseconds) = (u64::try_from(reading.tv_sec), u32::try_from(reading.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanoseconds.unwrap_or_default())
}
