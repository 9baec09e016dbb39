//! The set-ups that send side by side.

use festina_recovery::{Mechanisms, Profile};
use festina_sctp::Config;
use festina_units::Duration;

use crate::scenario::{Fault, Group, Readings, TimerFix};

/// What a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setup {
    /// lksctp with all modifications.
    Modified,
    /// lksctp as it was.
    Lksctp,
    /// SCTP of FreeBSD 6.2.
    FreeBsd,
    /// The same with early fast retransmit switched on.
    FreeBsdEfr,
    /// The modifications with the other reading of the fix of the timer's restart.
    OtherFix,
    /// The modifications without the fix.
    WithoutTimerFix,
    /// The modifications without the shorter minimum RTO.
    WithoutMinRto,
    /// The modifications without both.
    WithoutEither,
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
    pub(super) const ALL: &[Self] = &[
        Self::Modified,
        Self::Lksctp,
        Self::FreeBsd,
        Self::FreeBsdEfr,
        Self::OtherFix,
        Self::WithoutTimerFix,
        Self::WithoutMinRto,
        Self::WithoutEither,
    ];

    /// The machines of the paper.
    pub(super) fn published() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|setup| setup.table_2().is_some())
    }

    /// The name in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Modified => "modified lksctp",
            Self::Lksctp => "lksctp",
            Self::FreeBsd => "FreeBSD",
            Self::FreeBsdEfr => "FreeBSD EFR",
            Self::OtherFix => "modified with the other timer fix",
            Self::WithoutTimerFix => "modified without timer fix",
            Self::WithoutMinRto => "modified without min RTO",
            Self::WithoutEither => "modified without either",
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
            Self::FreeBsdEfr => row(0.0831, 0.038, 304.0, 2_664.0),
            _ => None,
        }
    }

    /// How its SCTP is set.
    pub(super) fn config(self, readings: &Readings) -> Config {
        let mut config = Config {
            mechanisms: readings.fault.in_mechanisms(self.mechanisms(readings)),
            ..Config::published(Profile::Rfc9260)
        };
        // RFC 2960 and both systems of that time.
        config.timers.rto_initial = Duration::from_secs(3);
        config
    }

    fn mechanisms(self, readings: &Readings) -> Mechanisms {
        let of_group = |group: Group, timer_fix| {
            let mechanisms = group.mechanisms(&Readings { timer_fix, ..*readings });
            mechanisms.expect("the groups of this experiment speak SCTP")
        };
        let fix = readings.timer_fix;
        let other_fix = if fix == TimerFix::AsWorded { TimerFix::WithMinRto } else { TimerFix::AsWorded };
        let without_min_rto = |fix| {
            let mut mechanisms = of_group(Group::AllMods, fix);
            mechanisms.thin.rto_min = mechanisms.normal.rto_min;
            mechanisms
        };
        let is_swapped = readings.fault == Fault::Swapped;
        match self {
            Self::Modified if is_swapped => of_group(Group::Lksctp, fix),
            Self::Lksctp if is_swapped => of_group(Group::AllMods, fix),
            Self::Modified => of_group(Group::AllMods, fix),
            Self::Lksctp => of_group(Group::Lksctp, fix),
            Self::FreeBsd => freebsd(Profile::Rfc9260),
            Self::FreeBsdEfr => freebsd(Profile::FreebsdEfr),
            Self::OtherFix => of_group(Group::AllMods, other_fix),
            Self::WithoutTimerFix => of_group(Group::AllMods, TimerFix::Nowhere),
            Self::WithoutMinRto => without_min_rto(fix),
            Self::WithoutEither => without_min_rto(TimerFix::Nowhere),
        }
    }

    /// The series of the times from a message's first packet to its arrival.
    pub(super) fn arrival(self) -> String {
        format!("arrival {}", self.name())
    }

    /// The series of these times of messages that a retransmission brought.
    pub(super) fn repair(self) -> String {
        format!("repair {}", self.name())
    }

    /// The same of messages that a fast retransmission brought.
    pub(super) fn fast_repair(self) -> String {
        format!("fast repair {}", self.name())
    }

    /// When the first of the lost messages arrived: the delay of a sixth of them.
    pub(super) fn early_repair(self) -> String {
        format!("first lost messages arrive {} (ms)", self.name())
    }

    /// The same of those messages after which the application fell silent for a second or more.
    pub(super) fn idle_repair(self) -> String {
        format!("idle repair {}", self.name())
    }

    /// The series of the times from the write of a message to its delivery in order.
    pub(super) fn delivery(self) -> String {
        format!("delivery {}", self.name())
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

/// The rules of FreeBSD's stack. At a timeout it retransmits chunks that have been outstanding for a timeout, and none that were sent later
/// (`sctp_mark_all_for_resend` in every version that is public).
fn freebsd(profile: Profile) -> Mechanisms {
    let mut mechanisms = profile.mechanisms();
    for rules in [&mut mechanisms.normal, &mut mechanisms.thin] {
        rules.bundling.into_timeout = false;
    }
    mechanisms
}

/// An unmodified lksctp that receives.
pub(super) fn receiver(sack_delay: Duration) -> Config {
    let mut config = Setup::Lksctp.config(&Readings::DEFAULT);
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
    fn each_ablation_lacks_what_its_name_says_and_nothing_else() {
        let modified = Setup::Modified.mechanisms(&Readings::DEFAULT);
        let normal = Setup::Lksctp.mechanisms(&Readings::DEFAULT).normal;
        let without = |takes_fix: bool, takes_min_rto: bool| {
            let mut mechanisms = modified;
            if takes_fix {
                mechanisms.thin.timer_restart = normal.timer_restart;
            }
            if takes_min_rto {
                mechanisms.thin.rto_min = normal.rto_min;
            }
            mechanisms
        };
        assert_eq!(Setup::WithoutTimerFix.mechanisms(&Readings::DEFAULT), without(true, false));
        assert_eq!(Setup::WithoutMinRto.mechanisms(&Readings::DEFAULT), without(false, true));
        assert_eq!(Setup::WithoutEither.mechanisms(&Readings::DEFAULT), without(true, true));
        assert_ne!(modified.thin.timer_restart, normal.timer_restart);
        assert_ne!(modified.thin.rto_min, normal.rto_min);
    }

    #[test]
    fn every_set_up_has_a_name_of_its_own_and_the_paper_has_four_of_them() {
        let mut names: Vec<&str> = Setup::ALL.iter().map(|setup| setup.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Setup::ALL.len());
        assert_eq!(Setup::published().count(), 4);
    }
}
