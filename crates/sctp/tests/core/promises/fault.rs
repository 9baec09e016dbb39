//! Wrong senders, which the oracle must notice.

use festina_sctp::Message;
use festina_units::Duration;

/// A wrong sender: a setting that the oracle knows is kept from the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Messages leave however old they are.
    LifetimesIgnored,
    /// Chunks are retransmitted as often as they are lost.
    LimitsIgnored,
    /// Reliable messages have a lifetime.
    ReliableAbandoned,
}

impl Fault {
    /// What the core is given instead of a message.
    pub(super) fn of(self, message: &Message) -> Message {
        let mut wrong = message.clone();
        match self {
            Self::LifetimesIgnored => (wrong.lifetime, wrong.deadline) = (None, None),
            Self::LimitsIgnored => wrong.max_retransmissions = None,
            Self::ReliableAbandoned => wrong.lifetime = wrong.lifetime.or(Some(Duration::from_millis(100))),
        }
        wrong
    }

    /// What the oracle says of it.
    pub(super) fn finding(self) -> &'static str {
        match self {
            Self::LifetimesIgnored => "left late",
            Self::LimitsIgnored => "times, its limit is",
            Self::ReliableAbandoned => "is reliable and ",
        }
    }
}
