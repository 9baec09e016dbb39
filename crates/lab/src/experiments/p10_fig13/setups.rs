//! The set-ups that send side by side.

use festina_recovery::fast_retransmit::FastRetransmit;
use festina_recovery::thin::ThinDetection;
use festina_recovery::{Mechanisms, Profile};
use festina_sctp::Config;
use festina_units::Duration;

/// What a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setup {
    /// lksctp with all modifications (Linux 2.6.16).
    Modified,
    /// lksctp as it was (Linux 2.6.16).
    Lksctp,
    /// SCTP of FreeBSD 6.2.
    FreeBsd,
    /// The modifications without the fix of the timer's restart (P10 §5.2).
    WithoutTimerFix,
    /// Nothing but that fix.
    OnlyTimerFix,
}

/// A row of the paper's Table 2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    pub(super) loss_percent: f64,
    pub(super) spurious_percent: f64,
    pub(super) mean_ms: f64,
    pub(super) max_ms: f64,
}

impl Setup {
    /// All machines, the paper's first.
    pub(super) fn all() -> Vec<Self> {
        vec![Self::Modified, Self::Lksctp, Self::FreeBsd, Self::WithoutTimerFix, Self::OnlyTimerFix]
    }

    /// The machines of the paper.
    pub(super) fn published() -> impl Iterator<Item = Self> {
        Self::all().into_iter().filter(|setup| setup.table_2().is_some())
    }

    /// The name in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Modified => "modified lksctp",
            Self::Lksctp => "lksctp",
            Self::FreeBsd => "FreeBSD",
            Self::WithoutTimerFix => "modified without timer fix",
            Self::OnlyTimerFix => "lksctp with timer fix only",
        }
    }

    /// The paper's row.
    pub(super) fn table_2(self) -> Option<Published> {
        let row = |loss_percent, spurious_percent, mean_ms, max_ms| {
            Some(Published { loss_percent, spurious_percent, mean_ms, max_ms })
        };
        match self {
            Self::Modified => row(0.0855, 6.708, 302.0, 1_725.0),
            Self::Lksctp => row(0.0690, 0.032, 304.0, 3_521.0),
            Self::FreeBsd => row(0.0765, 0.006, 303.0, 5_326.0),
            Self::WithoutTimerFix | Self::OnlyTimerFix => None,
        }
    }

    /// How its SCTP is set.
    pub(super) fn config(self) -> Config {
        let mut config = Config { mechanisms: self.mechanisms(), ..Config::default() };
        // RFC 2960 and both systems of that time.
        config.timers.rto_initial = Duration::from_secs(3);
        config
    }

    fn mechanisms(self) -> Mechanisms {
        let modified = Profile::Petlund2010.mechanisms();
        let lksctp = Mechanisms { thin_detection: ThinDetection::Never, thin: modified.normal, ..modified };
        match self {
            Self::Modified => modified,
            Self::Lksctp => lksctp,
            Self::FreeBsd => {
                let mut mechanisms = Profile::Rfc9260.mechanisms();
                mechanisms.normal.fast_retransmit = FastRetransmit::RFC9260;
                mechanisms
            }
            Self::WithoutTimerFix => {
                let mut mechanisms = modified;
                mechanisms.thin.timer_restart = modified.normal.timer_restart;
                mechanisms
            }
            Self::OnlyTimerFix => {
                let mut mechanisms = Mechanisms { thin: modified.normal, ..modified };
                mechanisms.thin.timer_restart = modified.thin.timer_restart;
                mechanisms
            }
        }
    }

    /// The series of the times from write to arrival.
    pub(super) fn arrival(self) -> String {
        format!("arrival {}", self.name())
    }

    /// The series of these times of messages that a retransmission brought.
    pub(super) fn repair(self) -> String {
        format!("repair {}", self.name())
    }

    /// The share of packets that were lost, in per cent.
    pub(super) fn loss(self) -> String {
        format!("loss % {}", self.name())
    }

    /// Spurious retransmissions for a hundred packets.
    pub(super) fn spurious(self) -> String {
        format!("spurious % {}", self.name())
    }

    /// How many packets were sent.
    pub(super) fn packets(self) -> String {
        format!("packets {}", self.name())
    }
}

/// An unmodified lksctp that receives.
pub(super) fn receiver(sack_delay: Duration) -> Config {
    let mut config = Setup::Lksctp.config();
    config.sack.delay = sack_delay;
    if sack_delay.is_zero() {
        config.sack.every_packets = 1;
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ablations_differ_from_their_neighbours_in_the_timer_alone() {
        let restart = |setup: Setup| setup.mechanisms().thin.timer_restart;
        let mut without = Setup::WithoutTimerFix.mechanisms();
        assert_eq!(restart(Setup::WithoutTimerFix), restart(Setup::Lksctp));
        without.thin.timer_restart = restart(Setup::Modified);
        assert_eq!(without, Setup::Modified.mechanisms());
        let mut only = Setup::OnlyTimerFix.mechanisms();
        assert_eq!(restart(Setup::OnlyTimerFix), restart(Setup::Modified));
        only.thin.timer_restart = restart(Setup::Lksctp);
        assert_eq!(only.thin, Setup::Lksctp.mechanisms().thin);
    }
}
