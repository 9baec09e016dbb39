//! Events of a connection.

use std::collections::VecDeque;

/// Maximum number of unpolled events; the oldest are dropped first.
const EVENTS_MAX: usize = 1 << 16;

/// An event of a connection. Its time is that of the call after which it is polled.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TcpEvent {
    /// The handshake is complete on this side.
    Connected,
    /// Bytes were retransmitted.
    Retransmitted {
        /// Stream offset of the first byte.
        sequence: u64,
        /// Bytes.
        length_bytes: u32,
        /// Why.
        cause: Cause,
        /// Transmissions of the first byte so far, this one included.
        transmissions: u32,
    },
    /// The retransmission timer expired.
    TimedOut {
        /// Timeouts in a row, this one included.
        timeouts: u32,
    },
    /// The peer has acknowledged every byte below `through`.
    Acknowledged {
        /// Stream offset.
        through: u64,
    },
    /// Every byte below `through` can be read, or was read ([`super::TcpConfig::reads_at_once`]).
    Delivered {
        /// Stream offset.
        through: u64,
    },
    /// Bytes arrived again: the peer's retransmission was spurious, or the network duplicated a packet. This is the
    /// ground truth about spurious retransmissions.
    DuplicateReceived {
        /// Stream offset of the first such byte.
        sequence: u64,
        /// Such bytes, a FIN included.
        length_bytes: u64,
    },
    /// The send buffer takes data again after a refusal.
    Writable,
    /// The peer's stream has ended and was delivered.
    PeerFinished,
    /// Both streams have ended, and the peer has acknowledged ours.
    Closed,
    /// The peer did not answer; the connection is dead.
    Failed,
}

/// The cause of a retransmission.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The retransmission timer expired.
    Timeout,
    /// The timeout declared it lost too, and cwnd allowed it to be sent only later (RFC 5681 §3.1).
    AfterTimeout,
    /// Fast retransmit or fast recovery, including its early forms.
    Fast,
    /// A tail loss probe.
    Probe,
}

/// The queue of events that [`super::TcpConnection::poll_event`] has not returned yet.
#[derive(Clone, Debug, Default)]
pub(super) struct EventQueue {
    events: VecDeque<TcpEvent>,
}

impl EventQueue {
    pub(super) fn push(&mut self, event: TcpEvent) {
        // Between two polls only the latest of these matters.
        match (self.events.back_mut(), event) {
            (Some(TcpEvent::Acknowledged { through }), TcpEvent::Acknowledged { through: later })
            | (Some(TcpEvent::Delivered { through }), TcpEvent::Delivered { through: later }) => *through = later,
            _ => {
                if self.events.len() == EVENTS_MAX {
                    self.events.pop_front();
                }
                self.events.push_back(event);
            }
        }
    }

    pub(super) fn pop(&mut self) -> Option<TcpEvent> {
        self.events.pop_front()
    }
}
