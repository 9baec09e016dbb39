//! A workload as a host runs it: writes that wait until they are due.

use festina_units::Instant;

use super::{Trigger, Workload, Write, Writes};

/// A workload on the simulation's clock, with the next write in view.
#[derive(Debug, Clone)]
pub struct Source {
    writes: Writes,
    trigger: Trigger,
    next: Option<Write>,
    starts_at: Instant,
    stops_at: Option<Instant>,
}

impl Source {
    /// Starts a workload at `starts_at`; nothing is written at or after `stops_at`.
    #[must_use]
    pub fn new(workload: &Workload, seed: u64, name: &str, starts_at: Instant, stops_at: Option<Instant>) -> Self {
        let mut writes = workload.writes(seed, name);
        let next = writes.next();
        Self { writes, trigger: workload.trigger(), next, starts_at, stops_at }
    }

    /// Returns the trigger of the application's writes.
    #[must_use]
    pub fn trigger(&self) -> Trigger {
        self.trigger
    }

    /// Returns when the next write is due; `None` if there is none. Workloads that do not follow the clock are always
    /// due once started: their host asks when there is room, or when all was acknowledged.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        let at = self.starts_at.saturating_add(self.next?.at);
        self.stops_at.is_none_or(|stops_at| at < stops_at).then_some(at)
    }

    /// Takes the next write if it is due, with the time at which it was.
    pub fn take_due(&mut self, now: Instant) -> Option<(Instant, Write)> {
        let at = self.next_at().filter(|&at| at <= now)?;
        if self.trigger != Trigger::Clock && self.stops_at.is_some_and(|stops_at| now >= stops_at) {
            self.next = None;
            return None;
        }
        let write = self.next?;
        self.next = self.writes.next();
        Some((if self.trigger == Trigger::Clock { at } else { now }, write))
    }
}
