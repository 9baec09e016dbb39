//! Festina's probe: a thin stream retransmits unacknowledged data about once per round trip.
//!
//! The tail probe of TLP is another mechanism: [`crate::tail_probe`].

use festina_units::{Duration, Instant};

use crate::{rtt::RttEstimator, tail_probe::TlpRule};

/// The probe timer of a rule set.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// No probe; only the retransmission timer.
    Off,
    /// A probe SRTT + max(`deviations` · deviation, `allowance_min`) after a chunk was last sent, in place of the
    /// retransmission timer and as often as [`crate::backoff::Backoff`] lets timers run without growing. Festina's own.
    ///
    /// A probe is a retransmission. It counts no path error, needs no open window, and does not change cwnd and
    /// ssthresh until it proves to have been needed.
    RoundTrip {
        /// Allowance for a late acknowledgement, in mean deviations ([`RttEstimator::deviation`]).
        deviations: u8,
        /// Minimum allowance, for paths whose measured deviation is near zero.
        allowance_min: Duration,
    },
    /// A tail loss probe: one or two packets ahead of the retransmission timer.
    TailLoss(TlpRule),
}

/// The pause between probes is at least this fraction of the silence so far: the longer it lasts, the more probably the
/// path is down.
const SILENCE_PARTS: u32 = 8;

/// Upper limit of the pause that silence causes: ten packets a second are harmless, and slower paths keep their one
/// probe per round trip. On a path of a millisecond, three seconds of silence cause 54 probes; without the growth they
/// would cause 500.
const PAUSE_GROWS_TO: Duration = Duration::from_millis(100);

/// Returns the time from one probe to the next after `waited` of silence.
#[must_use]
pub fn paced(probe_timeout: Duration, waited: Duration) -> Duration {
    probe_timeout.max((waited / SILENCE_PARTS).min(PAUSE_GROWS_TO))
}

impl Probe {
    /// The constants of the `festina` profile. `tests/probe_constants.rs` shows the cost of other choices.
    pub const FESTINA: Self = Self::RoundTrip { deviations: 3, allowance_min: Duration::from_millis(5) };

    /// Returns the time from the last transmission of a chunk to its probe; `None` without this kind of probe timer or
    /// without an RTT sample. For tail probes see [`TlpRule::deadline`].
    #[must_use]
    pub fn timeout(self, rtt: &RttEstimator) -> Option<Duration> {
        match self {
            Self::Off | Self::TailLoss(_) => None,
            Self::RoundTrip { deviations, allowance_min } => {
                let allowance = rtt.deviation()?.saturating_mul(u32::from(deviations)).max(allowance_min);
                Some(rtt.srtt()?.saturating_add(allowance))
            }
        }
    }
}

/// Returns whether a chunk that was last sent at `last_sent` is included in the probe packet sent at `now`.
///
/// A chunk whose acknowledgement is not yet due is left out, since it has probably arrived. But if the path is `silent`
/// (nothing at all was acknowledged since the previous probe), every chunk is included, so that one packet per round
/// trip probes for all of them instead of one packet for each.
#[must_use]
pub fn joins_probe(last_sent: Instant, now: Instant, probe_timeout: Duration, silent: bool) -> bool {
    silent || now.saturating_duration_since(last_sent) >= probe_timeout
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn rtt(samples: &[u64]) -> RttEstimator {
        let mut rtt = RttEstimator::new(ms(1000));
        samples.iter().for_each(|&millis| rtt.sample(ms(millis)));
        rtt
    }

    #[test]
    fn without_a_probe_timer_or_a_sample_there_is_no_probe() {
        assert_eq!(Probe::Off.timeout(&rtt(&[100])), None);
        assert_eq!(Probe::TailLoss(TlpRule::Draft).timeout(&rtt(&[100])), None);
        assert_eq!(Probe::FESTINA.timeout(&rtt(&[])), None);
    }

    #[test]
    fn a_steady_path_is_probed_five_milliseconds_after_the_round_trip() {
        assert_eq!(Probe::FESTINA.timeout(&rtt(&[100; 30])), Some(ms(105)));
    }

    #[test]
    fn the_first_probes_wait_longer() {
        assert_eq!(Probe::FESTINA.timeout(&rtt(&[100])), Some(ms(250)));
        assert_eq!(Probe::FESTINA.timeout(&rtt(&[100, 100])), Some(Duration::from_micros(137_500)));
    }

    #[test]
    fn a_jittery_path_gets_an_allowance_of_three_deviations() {
        assert_eq!(Probe::FESTINA.timeout(&rtt(&[100, 120])), Some(Duration::from_micros(102_500 + 60_000)));
    }

    #[test]
    fn on_a_fast_path_probes_keep_apart_the_more_the_longer_the_silence() {
        assert_eq!(paced(ms(6), ms(48)), ms(6));
        assert_eq!(paced(ms(6), ms(400)), ms(50));
        assert_eq!(paced(ms(6), ms(2_900)), ms(100));
        assert_eq!(paced(ms(105), ms(2_900)), ms(105), "a slow path has one per round trip");
        assert_eq!(paced(ms(6), Duration::MAX), ms(100));
    }

    #[test]
    fn a_probe_carries_what_is_due_and_in_silence_everything() {
        let now = Instant::from_millis(500);
        assert!(joins_probe(Instant::from_millis(395), now, ms(105), false));
        assert!(!joins_probe(Instant::from_millis(396), now, ms(105), false));
        assert!(joins_probe(now, now, ms(105), true));
    }

    proptest! {
        #[test]
        fn the_timeout_is_a_round_trip_at_least_and_does_not_overflow(
            srtt in any::<u64>(),
            delay in any::<u64>(),
            deviations in any::<u8>(),
        ) {
            let (srtt, delay) = (Duration::from_nanos(srtt), Duration::new(delay, 0));
            let mut rtt = RttEstimator::new(srtt);
            rtt.sample(srtt);
            let probe = Probe::RoundTrip { deviations, allowance_min: delay };
            prop_assert!(probe.timeout(&rtt).expect("there is a sample") >= srtt);
        }
    }
}
