//! How a connection was opened, which distinguishes it from others between the same ends.

use super::packet::Content;

/// The first number of each end, from its SYN, INIT or INIT ACK, and whether it has sent data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Opening {
    pub(super) initial: [Option<u32>; 2],
    pub(super) has_data: [bool; 2],
}

impl Opening {
    /// Returns whether a packet begins another connection between the same ends: by a SYN or INIT with a number other than
    /// the known one, or after data whose first number is unknown. An INIT ACK does not, since each may have a different
    /// number.
    pub(super) fn is_ended_by(&self, from: usize, content: &Content<'_>) -> bool {
        let initial = match content {
            Content::Tcp(tcp) => tcp.is_syn.then_some(tcp.sequence),
            Content::Sctp(sctp) => sctp.initial_tsn,
            Content::Udp { .. } => None,
        };
        initial.is_some_and(|initial| self.initial[from].map_or(self.has_data[from], |known| known != initial))
    }

    /// Remembers the number of a packet that opens or accepts the connection.
    pub(super) fn hear(&mut self, from: usize, content: &Content<'_>) {
        let initial = first_number(content);
        if initial.is_some() && !self.has_data[from] {
            self.initial[from] = initial;
        }
    }
}

/// Returns the first number of the packet's sender, if it opens or accepts a connection.
pub(super) fn first_number(content: &Content<'_>) -> Option<u32> {
    match content {
        Content::Tcp(tcp) => tcp.is_syn.then_some(tcp.sequence),
        Content::Sctp(sctp) => sctp.initial_tsn.or(sctp.answered_tsn),
        Content::Udp { .. } => None,
    }
}
