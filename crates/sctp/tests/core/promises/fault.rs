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
        let wrong = message.clone();
        match self {
            Self::LifetimesIgnored => wrong.with_lifetime(None).with_deadline(None),
            Self::LimitsIgnored => wrong.with_max_retransmissions(u16::MAX),
            Self::ReliableAbandoned => wrong.with_lifetime(message.lifetime().unwrap_or(Duration::from_millis(100))),
        }
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
