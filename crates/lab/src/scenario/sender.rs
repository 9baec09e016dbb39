//! The senders that can be compared: each recovery profile by its name, and `festina` with other redundancy than its own.

use std::sync::LazyLock;

use festina_recovery::redundancy::Redundancy;
use festina_recovery::{Mechanisms, Profile};
use festina_units::{ByteCount, Duration};

use super::{Stack, ThinStream};
use crate::plan::{Kind, Parameter, Point};

/// Stands between a profile and the redundancy that takes the place of its own.
const WITH: char = '+';

/// The name of each sender.
static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let profiles = Profile::all().iter().map(|profile| profile.name());
    let others = Redundancy::NAMED.iter().filter(|redundancy| **redundancy != Redundancy::ADAPTIVE);
    let festinas = others.map(|redundancy| &*format!("festina{WITH}{redundancy}").leak());
    profiles.chain(festinas).collect()
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
        Self::named(point.choice("sender"))
    }

    /// The sender with this name, which is one of [`names`](Self::names).
    pub(crate) fn named(name: &str) -> Self {
        let (profile, redundancy) = name.split_once(WITH).map_or((name, None), |(name, with)| (name, Some(with)));
        let profile: Profile = profile.parse().expect("a plan can choose only from the profiles' names");
        let redundancy = redundancy.map(|name| name.parse().expect("each name ends with a known redundancy"));
        Self { profile, redundancy: redundancy.unwrap_or(profile.mechanisms().redundancy) }
    }

    /// Parameters of a periodic stream of small messages, independent of the network.
    pub(crate) fn parameters() -> Vec<Parameter> {
        let parameter = |name, about, kind| Parameter { name, about, kind };
        let ms = Duration::from_millis;
        let sizes = ByteCount::from_bytes(1)..=ByteCount::from_bytes(1_000);
        vec![
            parameter("sender", "the recovery profile, for festina also its redundancy", Kind::Choice(&NAMES)),
            parameter("rtt", "the round-trip time without queues", Kind::Duration(ms(1)..=ms(10_000))),
            parameter("iat", "the time from one message to the next", Kind::Duration(ms(1)..=ms(60_000))),
            parameter("duration", "for how long messages are written", Kind::Duration(ms(1_000)..=ms(86_400_000))),
            parameter("sack_delay", "how long the receiver delays a SACK", Kind::Duration(Duration::ZERO..=ms(500))),
            parameter("size", "the size of a message", Kind::Bytes(sizes)),
        ]
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
