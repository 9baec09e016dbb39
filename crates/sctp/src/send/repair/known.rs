//! Assumptions about a path before it is measured: from an earlier association, the handshake, or its state before a silence.

use festina_recovery::Mechanisms;
use festina_recovery::loss_rate::KnownLoss;
use festina_recovery::profile::LossDetection;
use festina_recovery::rtt::AssumedRoundTrip;
use festina_units::{Duration, Instant};

use super::Repair;
use super::round_trip::RoundTrip;

impl Repair {
    /// Takes a round trip for granted until one is measured.
    pub(in crate::send) fn assume_round_trip(&mut self, assumed: AssumedRoundTrip) {
        self.rtt.assume(assumed);
    }

    /// The round trip is one of several, and the longest is taken for granted until one is measured.
    pub(in crate::send) fn assume_round_trip_one_of(&mut self, shortest: Duration, longest: Duration) {
        self.rtt.assume_one_of(shortest, longest);
    }

    /// Discards all measurements of the path, which is another one now. Timers of chunks in flight continue.
    pub(in crate::send) fn forget_path(&mut self, assumed: AssumedRoundTrip) {
        self.assume_round_trip(assumed);
        self.round_trip = RoundTrip::default();
        self.book.known_loss = KnownLoss::default();
        (self.redundancy, self.reordering, self.detectors) = (None, None, None);
    }

    /// Returns the estimated loss of the path.
    pub(in crate::send) fn known_loss(&self) -> KnownLoss {
        self.redundancy.as_ref().map_or(self.book.known_loss, |redundancy| redundancy.known_loss())
    }

    /// Takes this loss for granted until the path shows another. Before the first data.
    pub(in crate::send) fn assume_loss(&mut self, known: KnownLoss) {
        self.book.known_loss = known;
    }

    /// Returns how much later than SRTT recently reordered packets arrived; `None` without reordering, or without a detector for it.
    pub(in crate::send) fn known_lateness(&self, now: Instant) -> Option<Duration> {
        let tolerated = self.reordering.as_ref().and_then(|reordering| reordering.lateness(now));
        let by_time = self.detectors.as_ref().and_then(|detectors| detectors.by_time.known_lateness());
        tolerated.max(by_time)
    }

    /// Assumes that packets are reordered and arrive up to `lateness` later than SRTT.
    pub(in crate::send) fn assume_lateness(&mut self, now: Instant, lateness: Duration) {
        let Mechanisms { normal, thin, .. } = self.mechanisms();
        let detections = [normal.loss_detection, thin.loss_detection];
        if detections.contains(&LossDetection::Tolerant) {
            self.reordering.get_or_insert_default().assume(now, lateness);
        }
        if detections.contains(&LossDetection::Rack) {
            self.detectors.get_or_insert_default().by_time.assume_reordering();
        }
    }

    /// New data follows after `silence` without a measurement.
    pub(in crate::send) fn was_silent(&mut self, silence: Duration) {
        self.rtt.was_silent(silence);
        if self.redundancy.is_none() {
            self.book.known_loss = self.book.known_loss.aged(silence);
        }
    }
}
