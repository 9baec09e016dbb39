//! T3-rtx (RFC 9260 §6.3.2, §6.3.3), and the silence that probes are paced by.

use festina_units::{Duration, Instant, OptionalInstant};

/// The retransmission timer of the outstanding chunks.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// T3-rtx, if it runs.
    t3: Option<Running>,
    /// When the last probe left, if nothing was acknowledged since.
    silent_since: OptionalInstant,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) started: Instant,
    pub(super) expires: Instant,
}

impl Timers {
    /// T3-rtx, if it runs.
    pub(super) fn t3(&self) -> Option<Running> {
        self.t3
    }

    pub(super) fn start(&mut self, now: Instant, interval: Duration) {
        self.restart(now, now + interval);
    }

    /// T3-rtx starts again and expires at `expires`.
    pub(super) fn restart(&mut self, now: Instant, expires: Instant) {
        self.t3 = Some(Running { started: now, expires });
    }

    /// T3-rtx expired. Returns how long it ran.
    pub(super) fn take_expired(&mut self) -> Option<Duration> {
        self.t3.take().map(|timer| timer.expires - timer.started)
    }

    /// A probe left.
    pub(super) fn probed(&mut self, now: Instant) {
        self.silent_since = now.into();
    }

    /// The peer acknowledged something.
    pub(super) fn heard(&mut self) {
        self.silent_since = OptionalInstant::NONE;
    }

    /// When the last probe left, if nothing was acknowledged since.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        self.silent_since.get()
    }

    /// Nothing is outstanding.
    pub(super) fn stop(&mut self) {
        *self = Self::default();
    }
}
