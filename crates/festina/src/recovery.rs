//! How a sender recovers from packet loss: a profile, and its redundancy.

use core::fmt;
use core::str::FromStr;

use festina_sctp::{self as sctp, Mechanisms};
use thiserror::Error;

/// A set of loss-recovery mechanisms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// The standard and nothing more: RFC 9260.
    Rfc9260,
    /// The standard with RACK and its tail loss probe (RFC 8985).
    Rack,
    /// Festina's own. On thin streams it retransmits on the first indication of a loss, probes as soon as an acknowledgement is overdue, and repeats
    /// unacknowledged messages as the measured loss requires. Other streams are repaired as with `Rack`.
    #[default]
    Festina,
}

impl Profile {
    /// Returns all profiles, the standard first.
    pub fn all() -> &'static [Self] {
        &[Self::Rfc9260, Self::Rack, Self::Festina]
    }

    /// Returns the name as used on a command line.
    pub fn name(self) -> &'static str {
        self.core().name()
    }

    pub(crate) fn mechanisms(self) -> Mechanisms {
        self.core().mechanisms()
    }

    /// Returns the profile with these mechanisms, with any redundancy.
    pub(crate) fn of(mechanisms: Mechanisms) -> Option<Self> {
        let matches = |profile: &Self| {
            let own = profile.mechanisms();
            Mechanisms { redundancy: own.redundancy, ..mechanisms } == own
        };
        Self::all().iter().copied().find(matches)
    }

    fn core(self) -> sctp::Profile {
        match self {
            Self::Rfc9260 => sctp::Profile::Rfc9260,
            Self::Rack => sctp::Profile::Rack,
            Self::Festina => sctp::Profile::Festina,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.core(), f)
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        let found = Self::all().iter().find(|profile| profile.name() == text);
        found.copied().ok_or_else(|| UnknownProfile(text.to_owned()))
    }
}

/// Text that is not the name of a [`Profile`].
#[derive(Clone, PartialEq, Eq, Error)]
#[error("unknown loss-recovery profile {0:?}, expected one of rfc9260, rack and festina")]
pub struct UnknownProfile(String);

festina_units::debug_is_display!(UnknownProfile);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Redundancy;

    #[test]
    fn profiles_have_names_and_the_error_lists_them() {
        let error = "fast".parse::<Profile>().unwrap_err().to_string();
        for &profile in Profile::all() {
            assert_eq!(profile.name().parse(), Ok(profile));
            assert!(error.contains(profile.name()), "{error}");
        }
        assert_eq!(Profile::default().core(), sctp::Profile::default());
    }

    #[test]
    fn mechanisms_belong_to_a_profile_with_any_redundancy() {
        for &profile in Profile::all() {
            for redundancy in Redundancy::NAMED {
                assert_eq!(Profile::of(Mechanisms { redundancy, ..profile.mechanisms() }), Some(profile));
            }
        }
        assert_eq!(Profile::of(sctp::Profile::Petlund2010.mechanisms()), None);
    }
}
