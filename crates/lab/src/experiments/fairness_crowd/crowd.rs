//! How the thin streams of the crowd recover from loss.

use festina_models::tcp::TcpConfig;
use festina_recovery::redundancy::Redundancy;
use festina_recovery::{Mechanisms, Profile};
use festina_units::Duration;

use crate::scenario::{Group, Readings, Stack};

/// A kind of crowd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crowd {
    /// Every rule of a profile.
    Profile(Profile),
    /// Festina with this redundancy instead of its own.
    Festina(Redundancy),
    /// One of P10's kernels.
    Kernel(Group),
    /// TCP with Limited Transmit (RFC 3042).
    LimitedTransmit,
}

impl Crowd {
    /// The crowd with this name.
    ///
    /// # Panics
    /// If the experiment's plan has no such crowd.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "festina-without-redundancy" => Self::Festina(Redundancy::Off),
            "festina-spaced" => Self::Festina(Redundancy::SPACED),
            "lksctp" => Self::Kernel(Group::Lksctp),
            "all-mods" => Self::Kernel(Group::AllMods),
            "tcp-limited-transmit" => Self::LimitedTransmit,
            profile => Self::Profile(profile.parse().unwrap_or_else(|error| panic!("a plan cannot name it: {error}"))),
        }
    }

    /// The transport; receivers of SCTP delay SACKs.
    pub(super) fn stack(self, sack_delay: Duration) -> Stack {
        match self {
            Self::Profile(profile) => Stack::sctp(profile.mechanisms(), sack_delay),
            Self::Festina(redundancy) => {
                Stack::sctp(Mechanisms { redundancy, ..Profile::Festina.mechanisms() }, sack_delay)
            }
            Self::Kernel(group) => group.stack(&Readings::DEFAULT, sack_delay),
            // Limited transmit is on by default.
            Self::LimitedTransmit => Stack::tcp(TcpConfig::sack()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::FairnessCrowd;
    use super::*;
    use crate::experiment::Experiment as _;
    use crate::plan::Kind;

    #[test]
    fn every_name_is_a_crowd_of_its_own() {
        let parameters = FairnessCrowd.parameters();
        let Kind::Choice(names) = parameters[0].kind else { panic!("the crowd is chosen") };
        let crowds: Vec<Stack> = names.iter().map(|name| Crowd::named(name).stack(Duration::ZERO)).collect();
        for (index, crowd) in crowds.iter().enumerate() {
            assert!(!crowds[..index].contains(crowd), "{}", names[index]);
        }
        assert_eq!(crowds[0], Stack::sctp(Profile::Rfc9260.mechanisms(), Duration::ZERO));
        let Stack::Tcp { sender, .. } = Crowd::LimitedTransmit.stack(Duration::ZERO) else { panic!("it is TCP") };
        assert!(sender.switches.limited_transmit);
    }
}
