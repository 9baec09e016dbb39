//! The time during which a stream is thin.

use festina_units::Instant;

use super::estimate::ns_between;
use super::report::Thinness;

/// The number of reports that trigger a fast retransmit (P10 §5.1: pttfr).
const REPORTS_OF_A_LOSS: f64 = 3.0;
/// Linux calls a stream thin with fewer packets in flight.
const FEW: u64 = 4;

/// Adds up times between events, up to the last data.
#[derive(Clone, Debug, Default)]
pub(super) struct ThinClock {
    at: Option<Instant>,
    is_thin: bool,
    is_few: bool,
    /// Since the last data.
    total_ns: u64,
    thin_ns: u64,
    few_ns: u64,
    /// Findings that need an acknowledgement afterwards: a capture of one direction has none.
    early: Thinness,
}

impl ThinClock {
    /// Data was sent. `thinness` is `None` until an acknowledgement was seen.
    pub(super) fn sent(&mut self, at: Instant, in_flight: u64, loss: Option<f64>, thinness: Option<&mut Thinness>) {
        self.acknowledged(at, in_flight, loss);
        let thinness = thinness.unwrap_or(&mut self.early);
        thinness.total_ns += std::mem::take(&mut self.total_ns);
        thinness.thin_ns += std::mem::take(&mut self.thin_ns);
        thinness.few_ns += std::mem::take(&mut self.few_ns);
        thinness.in_flight.record(in_flight);
    }

    /// Returns the findings before the first acknowledgement.
    pub(super) fn take_early(&mut self) -> Thinness {
        std::mem::take(&mut self.early)
    }

    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 segments")]
    pub(super) fn acknowledged(&mut self, at: Instant, in_flight: u64, loss: Option<f64>) {
        if let Some(before) = self.at {
            let passed_ns = ns_between(before, at);
            self.total_ns += passed_ns;
            self.thin_ns += if self.is_thin { passed_ns } else { 0 };
            self.few_ns += if self.is_few { passed_ns } else { 0 };
            self.at = Some(before.max(at));
        } else {
            self.at = Some(at);
        }
        self.is_thin = in_flight as f64 * (1.0 - loss.unwrap_or(0.0)) <= REPORTS_OF_A_LOSS + 1.0;
        self.is_few = in_flight < FEW;
    }
}
