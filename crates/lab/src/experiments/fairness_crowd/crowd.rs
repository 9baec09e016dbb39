//! How the thin streams of the crowd recover from loss.

use festina_recovery::redundancy::Redundancy;
use festina_recovery::{Mechanisms, Profile};

/// A kind of crowd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crowd {
    /// Every rule of a profile.
    Profile(Profile),
    /// Festina with this redundancy instead of its own.
    Festina(Redundancy),
}

impl Crowd {
    /// What a plan can choose from; the standard is the first.
    pub(super) const NAMES: &'static [&'static str] =
        &["rfc9260", "petlund-2010", "early-retransmit", "festina-without-redundancy", "festina", "festina-spaced"];

    /// The crowd with this name.
    ///
    /// # Panics
    /// If it is none of [`NAMES`](Self::NAMES).
    pub(super) fn named(name: &str) -> Self {
        match name {
            "festina-without-redundancy" => Self::Festina(Redundancy::Off),
            "festina-spaced" => Self::Festina(Redundancy::SPACED),
            profile => Self::Profile(profile.parse().unwrap_or_else(|error| panic!("a plan cannot name it: {error}"))),
        }
    }

    pub(super) fn mechanisms(self) -> Mechanisms {
        match self {
            Self::Profile(profile) => profile.mechanisms(),
            Self::Festina(redundancy) => Mechanisms { redundancy, ..Profile::Festina.mechanisms() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_crowd_of_its_own() {
        let crowds: Vec<Mechanisms> = Crowd::NAMES.iter().map(|name| Crowd::named(name).mechanisms()).collect();
        for (index, crowd) in crowds.iter().enumerate() {
            assert!(!crowds[..index].contains(crowd), "{}", Crowd::NAMES[index]);
        }
        assert_eq!(crowds[0], Profile::Rfc9260.mechanisms());
    }
}
