//! Counts of lost datagrams, forgotten clients and refused connections.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::output;

/// Counts losses of one kind and reports the 1st, 2nd, 4th, 8th ... and at the end all of them, so that peers cannot flood the log.
#[derive(Debug)]
pub(super) struct Losses {
    /// The lost things, in the plural, and the reason.
    kind: String,
    count: AtomicU64,
}

impl Losses {
    pub(super) fn new(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), count: AtomicU64::new(0) }
    }

    /// Counts one.
    pub(super) fn note(&self) {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            self.report(count);
        }
    }

    /// Returns the count.
    #[cfg(test)]
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn report(&self, count: u64) {
        output::complain(&format!("{count} {}", self.kind));
    }
}

impl Drop for Losses {
    fn drop(&mut self) {
        let count = *self.count.get_mut();
        if count > 0 && !count.is_power_of_two() {
            self.report(count);
        }
    }
}
