//! What every tap tells: which way a packet goes, and what happened to it.

use festina_netsim::Admission;

/// Which of the two links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From a client to the server; from the left device to the right one.
    Forward,
    /// From the server to a client; from the right device to the left one.
    Backward,
}

impl Direction {
    /// By which the link names its random streams.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }
}

/// What happened to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TapEvent {
    /// It entered the link, or failed to.
    Offered(Admission),
    /// It left the link and was sent on. A duplicated packet does so twice.
    Delivered,
}
