//! The senders that can be compared: each recovery profile by its name, and `festina` with other redundancy than its own.

use festina_recovery::redundancy::Redundancy;
use festina_recovery::{Mechanisms, Profile};

use super::{Stack, ThinStream};
use crate::plan::Point;

/// Stands between a profile and the redundancy that takes the place of its own.
const WITH: char = '+';

/// A sender under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    profile: Profile,
    redundancy: Redundancy,
}

impl Sender {
    /// The sender that a point chooses.
    pub(crate) fn of(point: &Point) -> Self {
        Self::named(point.choice("sender"))
    }

    /// The sender with this name, which is one of `"all senders"` in a plan's definition.
    pub(crate) fn named(name: &str) -> Self {
        let (profile, redundancy) = name.split_once(WITH).map_or((name, None), |(name, with)| (name, Some(with)));
        let profile: Profile = profile.parse().expect("a plan can choose only from the profiles' names");
        let redundancy = redundancy.map(|name| name.parse().expect("each name ends with a known redundancy"));
        Self { profile, redundancy: redundancy.unwrap_or(profile.mechanisms().redundancy) }
    }

    /// The stream that a point describes with these parameters, over a path that loses nothing.
    pub(crate) fn stream(point: &Point) -> ThinStream {
        let [rtt, iat, duration] = ["rtt", "iat", "duration"].map(|name| point.duration(name));
        let stack = Stack::sctp(Self::of(point).mechanisms(), point.duration("sack_delay"));
        ThinStream::periodic(stack, iat, point.bytes("size"), duration, rtt)
    }

    pub(crate) fn profile(self) -> &'static str {
        self.profile.name()
    }

    /// Name of its redundancy.
    pub(crate) fn redundancy(self) -> String {
        self.redundancy.to_string()
    }

    pub(crate) fn mechanisms(self) -> Mechanisms {
        Mechanisms { redundancy: self.redundancy, ..self.profile.mechanisms() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;
    use crate::plan::Kind;

    #[test]
    fn plans_can_choose_from_all_profiles_and_redundancies() {
        let profiles = Profile::all().iter().map(|profile| profile.name().to_owned());
        let others = Redundancy::NAMED.iter().filter(|redundancy| **redundancy != Redundancy::ADAPTIVE);
        let known: Vec<String> =
            profiles.chain(others.map(|redundancy| format!("festina{WITH}{redundancy}"))).collect();
        let mut lists = 0;
        for parameter in experiments::ALL.iter().flat_map(|experiment| experiment.parameters()) {
            let Kind::Choice(names) = parameter.kind else { continue };
            if names.iter().any(|name| name.starts_with(&format!("festina{WITH}off"))) {
                lists += 1;
                let missing = known.iter().find(|known| !names.contains(&known.as_str()));
                assert_eq!(missing, None, "{names:?}");
            }
        }
        assert!(lists > 7, "{lists}");
    }
}
