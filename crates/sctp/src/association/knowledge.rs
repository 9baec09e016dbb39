//! Path state learned by an association, as a plain value for the next association to the same destination.
//!
//! RFC 9040 describes which state connections may share. Here it is the round trip, the loss and the reordering. The congestion window of one
//! association says little about another, and an initial window of ten packets is small on any path.

use festina_recovery::loss_rate::KnownLoss;
use festina_recovery::reordering;
use festina_recovery::rtt::AssumedRoundTrip;
use festina_units::{Duration, Instant};

use super::Association;

/// Path state learned by an earlier association: round-trip time, loss rate and reordering.
///
/// [`Association::path_knowledge`] returns it and [`Association::connect_knowing`] takes it. The new association uses it until it has measurements of
/// its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathKnowledge {
    round_trip: AssumedRoundTrip,
    loss: KnownLoss,
    /// How much later than SRTT recently reordered packets arrived, if there were any.
    lateness: Option<Duration>,
}

impl PathKnowledge {
    /// The smoothed round-trip time.
    pub fn srtt(&self) -> Duration {
        self.round_trip.srtt
    }

    /// The same after `age`, in which the path may have changed.
    #[must_use]
    pub fn aged(self, age: Duration) -> Self {
        let lateness = self.lateness.filter(|_| age <= reordering::MEMORY);
        Self { round_trip: self.round_trip.widened(age), loss: self.loss.aged(age), lateness }
    }
}

impl Association {
    /// Returns the path state learned so far. `None` unless the handshake was completed and a round trip was measured. Also available after the
    /// association has ended.
    pub fn path_knowledge(&self, now: Instant) -> Option<PathKnowledge> {
        if !self.peer.answered {
            return None;
        }
        let path = self.paths.primary();
        let (sending, silence) = (&path.sending, path.silence(now));
        Some(PathKnowledge {
            round_trip: sending.measured_round_trip()?.widened(silence),
            loss: sending.known_loss().aged(silence),
            lateness: sending.known_lateness(now),
        })
    }

    /// Assumes the state learned by an earlier association until this one has measurements.
    pub(super) fn assume(&mut self, now: Instant, known: &PathKnowledge) {
        let sending = &mut self.paths.primary_mut().sending;
        sending.assume_round_trip(known.round_trip);
        sending.assume_loss(known.loss);
        if let Some(lateness) = known.lateness {
            sending.assume_lateness(now, lateness);
        }
    }
}
