//! The papers' kernel, shared by all experiments: lksctp as P06 and P10 describe it, under each reading of points that they leave open.
//!
//! [`Fault`] makes a kernel wrong on purpose, so that tests can see whether the checks notice.

use festina_recovery::fast_retransmit::FastRetransmit;
use festina_recovery::profile::Rules;
use festina_recovery::redundancy::Redundancy;
use festina_recovery::rto_restart::TimerRestart;
use festina_recovery::rtt::RttSampling;
use festina_recovery::{Mechanisms, Profile};
use festina_units::Duration;

use super::Stack;
use super::petlund::TimerFix;
use crate::plan::Point;

/// More miss indications than a thin stream ever has.
const NEVER: u8 = u8::MAX;
/// RTO.Min of a kernel with a wrong timer: twice the standard's.
const RTO_MIN_DOUBLED: Duration = Duration::from_secs(2);
/// RTO.Min of a kernel that is wrong in the other direction: that of the modified kernels, and for TCP a fifth of Linux's.
const RTO_MIN_LOW: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(40)];

/// Which version of lksctp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Linux 2.6.15: four miss indications (P06 §3).
    Pedersen,
    /// Linux 2.6.16: three (P10 §5.1).
    Petlund,
}

/// How the kernel is built where the papers leave it open, or contradict themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readings {
    /// Whether a chunk that was sent again is measured all the same.
    pub rtt_samples: RttSampling,
    /// Which SACKs restart the timer with the full RTO.
    pub timer_restart: TimerRestart,
    /// The fix of the timer's restart, and the groups that have it.
    pub timer_fix: TimerFix,
    /// A deliberate fault.
    pub fault: Fault,
}

impl Readings {
    /// The names of [`rtt_samples`](Self::rtt_samples) in a plan.
    pub const RTT_SAMPLES: &'static [&'static str] = &["karn", "ambiguous"];
    /// The names of [`timer_restart`](Self::timer_restart) in a plan.
    pub const RESTARTS: &'static [&'static str] = &["cumulative", "any-ack"];

    /// As the sources of the measured kernel and the papers' tables have it. `sctp_check_transmitted` in `net/sctp/outqueue.c` of Linux 2.6.15 to
    /// 2.6.17 takes no sample from a chunk that was resent, and restarts the timer only if the cumulative acknowledgement passes a chunk. The fix,
    /// which is not in those sources, is the one that fits Table 3 of P06.
    pub const DEFAULT: Self = Self {
        rtt_samples: RttSampling::Unambiguous,
        timer_restart: TimerRestart::EarliestAcked,
        timer_fix: TimerFix::WithMinRto,
        fault: Fault::None,
    };

    /// Those of a point.
    pub fn of(point: &Point) -> Self {
        Self {
            rtt_samples: match point.choice("rtt_samples") {
                "karn" => RttSampling::Unambiguous,
                _ => RttSampling::FirstAcknowledgement,
            },
            timer_restart: match point.choice("timer_restart") {
                "any-ack" => TimerRestart::AnyAcked,
                _ => TimerRestart::EarliestAcked,
            },
            timer_fix: TimerFix::named(point.choice("timer_fix")),
            fault: Fault::of(point),
        }
    }

    /// The rules of the unmodified kernel. By default they are those of [`Profile::Lksctp2006`], but round-trip times are sampled as in the sources.
    pub fn lksctp(&self, version: Version) -> Rules {
        let threshold = match version {
            Version::Pedersen => 4,
            Version::Petlund => 3,
        };
        Rules {
            rtt_sampling: self.rtt_samples,
            timer_restart: self.timer_restart,
            fast_retransmit: FastRetransmit { threshold, repeats: true },
            ..Profile::Lksctp2006.mechanisms().normal
        }
    }
}

/// A deliberate fault of a sender. A check that holds in spite of it tests nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// RTO.Min is two seconds, or TCP's twice Linux's.
    RtoDoubled,
    /// Miss indications never prove a loss.
    NoFastRetransmit,
    /// The unmodified sender is called modified, and the other way round.
    Swapped,
    /// SCTP sends each message several times, uncalled for.
    Repeated,
    /// RTO.Min is 200 ms for every kernel, or TCP's a fifth of Linux's.
    RtoLow,
}

impl Fault {
    /// The names for a plan.
    pub const NAMES: &'static [&'static str] =
        &["none", "rto-doubled", "no-fast-retransmit", "swapped", "repeated", "rto-low"];

    /// The fault at a point.
    pub fn of(point: &Point) -> Self {
        match point.choice("fault") {
            "rto-doubled" => Self::RtoDoubled,
            "no-fast-retransmit" => Self::NoFastRetransmit,
            "swapped" => Self::Swapped,
            "repeated" => Self::Repeated,
            "rto-low" => Self::RtoLow,
            _ => Self::None,
        }
    }

    /// Loss recovery with the fault.
    #[must_use]
    pub fn in_mechanisms(self, mut mechanisms: Mechanisms) -> Mechanisms {
        if self == Self::Repeated {
            mechanisms.redundancy = Redundancy::SPACED;
        }
        for rules in [&mut mechanisms.normal, &mut mechanisms.thin] {
            match self {
                Self::None | Self::Swapped | Self::Repeated => {}
                Self::RtoDoubled => rules.rto_min = RTO_MIN_DOUBLED,
                Self::RtoLow => rules.rto_min = rules.rto_min.min(RTO_MIN_LOW[0]),
                Self::NoFastRetransmit => {
                    rules.fast_retransmit = FastRetransmit { threshold: NEVER, repeats: false };
                    rules.early_retransmit = false;
                }
            }
        }
        mechanisms
    }

    /// Returns the transport with the fault in its sender.
    #[must_use]
    pub fn in_stack(self, mut stack: Stack) -> Stack {
        match &mut stack {
            Stack::Sctp { sender, .. } => sender.mechanisms = self.in_mechanisms(sender.mechanisms),
            Stack::Tcp { sender, .. } => match self {
                Self::None | Self::Swapped | Self::Repeated => {}
                Self::RtoDoubled => sender.rto.min = sender.rto.min.max(RTO_MIN_DOUBLED),
                Self::RtoLow => sender.rto.min = sender.rto.min.min(RTO_MIN_LOW[1]),
                Self::NoFastRetransmit => {
                    sender.sack = false;
                    (sender.switches.fack, sender.switches.early_retransmit) = (false, false);
                }
            },
        }
        stack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_of_the_lab_is_that_of_the_profile_but_for_samples_of_resent_chunks() {
        let profile = Profile::Lksctp2006.mechanisms().normal;
        let kernel = Rules { rtt_sampling: RttSampling::Unambiguous, ..profile };
        assert_ne!(kernel, profile);
        assert_eq!(Readings::DEFAULT.lksctp(Version::Pedersen), kernel);
        let fewer_reports = Rules { fast_retransmit: FastRetransmit { threshold: 3, repeats: true }, ..kernel };
        assert_eq!(Readings::DEFAULT.lksctp(Version::Petlund), fewer_reports);
    }
}
