//! The senders that can be compared: each recovery profile by its name, and `festina` with other redundancy than its own.

use std::sync::LazyLock;

use festina_recovery::redundancy::Redundancy;
use festina_recovery::{Mechanisms, Profile};

use crate::plan::Point;

/// Stands between a profile and the redundancy that takes the place of its own.
const WITH: char = '+';

/// The name of each sender.
static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let profiles = Profile::all().iter().map(|profile| profile.name());
    profiles.chain(["festina+off", "festina+spaced"]).collect()
});

/// A sender under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    profile: Profile,
    redundancy: Redundancy,
}

impl Sender {
    /// The names that a plan can choose from.
    pub(crate) fn names() -> &'static [&'static str] {
        &NAMES
    }

    /// The sender that a point chooses.
    pub(crate) fn of(point: &Point) -> Self {
        let name = point.choice("sender");
        let (profile, redundancy) = name.split_once(WITH).map_or((name, None), |(name, with)| (name, Some(with)));
        let profile: Profile = profile.parse().expect("a plan can choose only from the profiles' names");
        let redundancy = redundancy.map(|name| name.parse().expect("each name ends with a known redundancy"));
        Self { profile, redundancy: redundancy.unwrap_or(profile.mechanisms().redundancy) }
    }

    pub(crate) fn profile(self) -> &'static str {
        self.profile.name()
    }

    /// How much it repeats uncalled for: `off`, `bundled` or `spaced`.
    pub(crate) fn redundancy(self) -> String {
        self.redundancy.to_string()
    }

    pub(crate) fn mechanisms(self) -> Mechanisms {
        Mechanisms { redundancy: self.redundancy, ..self.profile.mechanisms() }
    }
}
