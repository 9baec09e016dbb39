//! The single deadline of a sender: retransmission timeout or probe.

use festina_units::{Duration, Instant};

use crate::{backoff::ExpirySeries, probe::paced, profile::Rules, rtt::RttEstimator};

/// The next action if no acknowledgement arrives.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum TimerDecision {
    /// The retransmission timer expires: RFC 9260 §6.3.3 with all its consequences for cwnd and the
    /// error counters.
    Timeout {
        /// When to act.
        at: Instant,
    },
    /// A probe is sent ([`crate::probe::Probe::RoundTrip`]): a retransmission without those consequences.
    Probe {
        /// When to act.
        at: Instant,
    },
}

impl TimerDecision {
    /// When to act.
    #[must_use]
    pub fn at(self) -> Instant {
        match self {
            Self::Timeout { at } | Self::Probe { at } => at,
        }
    }
}

/// Decides between the retransmission timer and the probe, while data is outstanding.
///
/// `oldest_sent` returns the earliest time of the last transmission among the chunks that are outstanding and not
/// gap-acknowledged. It is called only if a probe may be sent, with the pause before the first one. `timeout_at` is the
/// expiry of the caller's retransmission timer. While probes are allowed that timer does not fire. The caller restarts
/// it with [`timeout_interval`] whenever a probe is sent, so that it is up to date when it takes over.
///
/// Probes are allowed as long as [`crate::backoff::Backoff`] lets timers run without growing; with exponential backoff
/// that is one probe per series of expiries.
#[must_use]
pub fn decide(
    rules: &Rules,
    rtt: &RttEstimator,
    series: &ExpirySeries,
    oldest_sent: impl FnOnce(Duration) -> Instant,
    timeout_at: Instant,
) -> TimerDecision {
    let probing = series.waited().is_zero() || rules.backoff.is_linear(series);
    match rules.probe.timeout(rtt) {
        Some(timeout) if probing => {
            // An assumed round trip may be far too short: each pause is as long as all before it.
            let pause = if rtt.is_assumed() { timeout.max(series.waited()) } else { paced(timeout, series.waited()) };
            TimerDecision::Probe { at: oldest_sent(timeout) + pause }
        }
        _ => TimerDecision::Timeout { at: timeout_at },
    }
}

/// Returns the current retransmission timeout of a rule set, including backoff, at most `rto_max`.
#[must_use]
pub fn timeout_interval(rules: &Rules, rtt: &RttEstimator, series: &ExpirySeries, rto_max: Duration) -> Duration {
    rules.backoff.interval(rtt.rto(rules.rto_min, rto_max), series, rto_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{backoff::Backoff, profile::Profile};

    const MINUTE: Duration = Duration::from_secs(60);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn while_the_round_trip_is_only_assumed_the_pauses_between_probes_double() {
        let rules = *Profile::Festina.mechanisms().rules(true);
        let (mut rtt, mut series) = (steady_rtt(), ExpirySeries::default());
        rtt.was_silent(ms(10_000));
        let (mut pauses, sent) = (Vec::new(), Instant::from_secs(100));
        for _ in 0..4 {
            let pause = decide(&rules, &rtt, &series, |_| sent, sent + MINUTE).at() - sent;
            pauses.push(pause.as_millis());
            series.probed(pause);
        }
        assert_eq!(pauses, [105, 105, 210, 420]);
    }

    fn steady_rtt() -> RttEstimator {
        let mut rtt = RttEstimator::new(ms(1000));
        (0..40).for_each(|_| rtt.sample(ms(100)));
        rtt
    }

    /// Acts on every deadline of a path that never answers: (time in ms, whether it was a probe).
    fn silence(rules: &Rules, rtt: &RttEstimator, until: Duration) -> Vec<(u128, bool)> {
        let mut series = ExpirySeries::default();
        let (mut last_sent, mut acted) = (Instant::ZERO, Vec::new());
        let mut interval = timeout_interval(rules, rtt, &series, MINUTE);
        loop {
            let decision = decide(rules, rtt, &series, |_| last_sent, last_sent + interval);
            if decision.at() > Instant::ZERO + until {
                return acted;
            }
            let waited = decision.at() - last_sent;
            match decision {
                TimerDecision::Probe { .. } => series.probed(waited),
                TimerDecision::Timeout { .. } => series.timed_out(waited),
            }
            last_sent = decision.at();
            interval = timeout_interval(rules, rtt, &series, MINUTE);
            acted.push(((last_sent - Instant::ZERO).as_millis(), matches!(decision, TimerDecision::Probe { .. })));
        }
    }

    #[test]
    fn rfc9260_times_out_with_doubling_and_never_probes() {
        let acted = silence(Profile::Rfc9260.mechanisms().rules(false), &steady_rtt(), Duration::from_secs(10));
        assert_eq!(acted, [(1000, false), (3000, false), (7000, false)]);
    }

    #[test]
    fn petlund_times_out_every_two_hundred_milliseconds_on_a_thin_stream() {
        let acted = silence(Profile::Petlund2010.mechanisms().rules(true), &steady_rtt(), Duration::from_secs(1));
        assert_eq!(acted, [200, 400, 600, 800, 1000].map(|at| (at, false)));
    }

    #[test]
    fn festina_probes_once_per_round_trip_for_three_seconds_and_then_backs_off() {
        let acted = silence(Profile::Festina.mechanisms().rules(true), &steady_rtt(), Duration::from_secs(8));
        let (probes, timeouts) = acted.split_at(29);
        assert!(probes.iter().zip(1..).all(|(&act, nth)| act == (105 * nth, true)));
        assert_eq!(timeouts, [(3245, false), (3490, false), (3980, false), (4960, false), (6920, false)]);
    }

    #[test]
    fn a_silent_peer_on_a_path_of_a_millisecond_is_asked_at_most_sixty_times_in_three_seconds() {
        let mut rtt = RttEstimator::new(ms(1000));
        (0..40).for_each(|_| rtt.sample(ms(1)));
        let acted = silence(Profile::Festina.mechanisms().rules(true), &rtt, Duration::from_secs(3));
        assert!(acted.iter().all(|&(_, is_probe)| is_probe));
        assert!((40..=60).contains(&acted.len()), "{} probes", acted.len());
    }

    #[test]
    fn festina_without_a_round_trip_time_starts_with_the_initial_timeout() {
        let rtt = RttEstimator::new(ms(1000));
        let acted = silence(Profile::Festina.mechanisms().rules(true), &rtt, Duration::from_secs(1));
        assert_eq!(acted, [(1000, false)]);
    }

    #[test]
    fn with_exponential_backoff_one_probe_precedes_the_timeouts() {
        let rules = Rules { backoff: Backoff::Exponential, ..*Profile::Festina.mechanisms().rules(true) };
        let acted = silence(&rules, &steady_rtt(), Duration::from_secs(1));
        assert_eq!(acted, [(105, true), (305, false), (705, false)]);
    }
}
