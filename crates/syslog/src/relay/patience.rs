//! Suppresses probes while important lines wait in a queue.
//!
//! A thin stream repairs a loss with a probe, one and a half round trips after the message was sent. A queue that grows by half a round trip makes
//! all messages late, so each gets its probe. The probes lengthen the queue, and messages sent twice give no RTT sample. After one such second a slow
//! link needs five to recover. A loss delays only later messages, whereas a queue also delays earlier ones; that tells them apart.

use festina::Duration;
use festina_recovery::probe::Probe;
use festina_recovery::profile::Mechanisms;

/// The shortest retransmission timeout meanwhile (RFC 9260 §16). Gaps among later messages reveal a drop sooner.
const RTO_MIN: Duration = Duration::from_secs(1);

/// Whether probes are suppressed, and the loss detection to use otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    usual: Option<Mechanisms>,
}

impl Patience {
    /// `is_late`: messages in flight are overdue; `was_late`: the last message that arrived was overdue. Returns the mechanisms to use from now on,
    /// if they change.
    pub(super) fn look(
        &mut self,
        is_late: bool,
        was_late: bool,
        now: impl FnOnce() -> Mechanisms,
    ) -> Option<Mechanisms> {
        match self.usual {
            None if is_late && was_late => {
                let mut patient = *self.usual.insert(now());
                for rules in [&mut patient.normal, &mut patient.thin] {
                    (rules.probe, rules.rto_min) = (Probe::Off, RTO_MIN);
                }
                Some(patient)
            }
            Some(usual) if !is_late && !was_late => {
                self.usual = None;
                Some(usual)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use festina_recovery::profile::Profile;

    use super::*;

    #[test]
    fn one_late_message_is_a_loss_and_late_ones_behind_a_late_one_are_a_queue_into_which_no_probe_leaves() {
        let mut patience = Patience::default();
        let usual = Profile::Festina.mechanisms();
        assert_eq!(patience.look(true, false, || usual), None, "a loss");
        assert_eq!(patience.look(false, true, || usual), None, "it was repaired");
        let patient = patience.look(true, true, || usual).expect("a queue");
        assert_eq!((patient.thin.probe, patient.normal.probe), (Probe::Off, Probe::Off));
        assert_eq!((patient.thin.rto_min, patient.normal.rto_min), (RTO_MIN, RTO_MIN));
        assert_eq!(patience.look(true, true, || patient), None);
        assert_eq!(patience.look(false, true, || patient), None, "the last of the queue");
        assert_eq!(patience.look(false, false, || patient), Some(usual));
    }
}
