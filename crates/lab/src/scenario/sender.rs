//! The senders that can be compared: each recovery profile by its name.

use std::sync::LazyLock;

use festina_recovery::{Mechanisms, Profile};

use crate::plan::Point;

/// The name of each sender.
static NAMES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| Profile::all().iter().map(|profile| profile.name()).collect());

/// A sender under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    profile: Profile,
}

impl Sender {
    /// The names that a plan can choose from.
    pub(crate) fn names() -> &'static [&'static str] {
        &NAMES
    }

    /// The sender that a point chooses.
    pub(crate) fn of(point: &Point) -> Self {
        let profile = point.choice("sender").parse().expect("a plan can choose only from the profiles' names");
        Self { profile }
    }

    pub(crate) fn profile(self) -> &'static str {
        self.profile.name()
    }

    /// How much it repeats uncalled for.
    pub(crate) fn redundancy(self) -> &'static str {
        "off"
    }

    pub(crate) fn mechanisms(self) -> Mechanisms {
        self.profile.mechanisms()
    }
}
