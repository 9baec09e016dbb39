//! The data of every tap: the direction of a packet, and its fate.

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
    /// Returns the name for the link's random streams.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }
}

/// The fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TapEvent {
    /// It entered the link, or failed to.
    Offered(Admission),
    /// It left the link and was sent on. A duplicated packet does so twice.
    Delivered,
}
