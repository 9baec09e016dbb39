//! The tail loss probe: retransmits the last chunk, so that the peer reports missing ones (RFC 8985 §7, R15 §3.4.2).

use festina_recovery::tail_probe::{ProbeContent, TailLossProbe, TlpAck, TlpRule, TlpTerms, TlpVerdict};
use festina_units::{Duration, Instant};

/// The delay of a SACK that RFC 9260 §6.2 suggests.
const ACK_DELAY_MAX: Duration = Duration::from_millis(200);

/// The probe in flight, and the start of the timer of the next one. The deadline is only computed on demand, because every packet of a burst restarts
/// the timer.
#[derive(Debug, Default)]
pub(super) struct Tail {
    probe: TailLossProbe,
    armed_at: Option<Instant>,
}

impl Tail {
    /// Data left or an acknowledgement came: the timer starts again.
    pub(super) fn arm(&mut self, now: Instant) {
        self.armed_at = Some(now);
    }

    /// When the probe is due; `terms` are those of a timer that was started at the time given.
    pub(super) fn at(&self, rule: TlpRule, terms: impl FnOnce(Instant) -> TlpTerms) -> Option<Instant> {
        rule.deadline(&self.probe, &terms(self.armed_at?))
    }

    /// The rules ask for no tail probe any more.
    pub(super) fn stop(&mut self) {
        self.armed_at = None;
    }

    /// T3-rtx expired or a fast recovery begins, which now judge losses.
    pub(super) fn abandon(&mut self) {
        self.probe.abandon();
        self.armed_at = None;
    }

    /// The probe left; `next_tsn` will leave next.
    pub(super) fn left(&mut self, content: ProbeContent, next_tsn: u64) {
        self.probe.sent(content, next_tsn);
    }

    /// A round trip was measured.
    pub(super) fn measured(&mut self) {
        self.probe.measured();
    }

    /// Returns whether the acknowledgement reveals that the probe repaired a loss.
    pub(super) fn repaired(&mut self, ack: &TlpAck) -> bool {
        self.probe.acked(ack) == TlpVerdict::Repaired
    }
}

/// The longest delay of the SACK for the last chunk.
pub(super) fn ack_delay_max(answered_at_once: bool) -> Duration {
    if answered_at_once { Duration::ZERO } else { ACK_DELAY_MAX }
}
