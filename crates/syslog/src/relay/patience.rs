//! While important lines wait in a queue, what is late is not taken for lost.
//!
//! A thin stream repairs a loss by a probe, one and a half round trips after the message left. A queue that grows by this much makes all messages
//! late, each gets its probe, the probes lengthen the queue, and no round trip can be measured on what left twice: a second of that takes
//! a slow link five to recover. A loss delays the messages behind it, and a queue those before as well. That is the difference.

use festina::Duration;
use festina_recovery::probe::Probe;
use festina_recovery::profile::Mechanisms;

/// The shortest retransmission timeout meanwhile, that of RFC 9260 §16. What a queue drops, the gaps among later messages show sooner.
const RTO_MIN: Duration = Duration::from_secs(1);

/// Whether what is late is waited for, and how it is repaired otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    usual: Option<Mechanisms>,
}

impl Patience {
    /// `is_late`: messages that are under way should have arrived; `was_late`: so should the last that arrived, before it did. Returns the mechanisms
    /// to use from now on, if there have to be others than now.
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
