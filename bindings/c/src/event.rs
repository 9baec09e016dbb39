//! What happened to an association, or to a message that asked for it.

use festina::{AbandonReason, Instant};

/// What kind of event it is; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// None of those below; newer versions may name it.
    Other = 0,
    /// Messages reached the peer.
    Delivered = 1,
    /// Messages were abandoned.
    Abandoned = 2,
    /// The peer asked for an orderly end.
    PeerShutdown = 3,
    /// The peer lost its state and restarted the association.
    PeerRestarted = 4,
    /// The path stopped answering.
    PathDown = 5,
    /// The path answers again.
    PathUp = 6,
    /// The association has ended.
    Closed = 7,
    /// The system refused a packet as too large, so that later ones are smaller.
    PacketSizeLimited = 8,
    /// The peer was found at another address.
    PeerMoved = 9,
}

/// Why messages were abandoned; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// They were not, or for a reason that newer versions may name.
    Other = 0,
    /// Lifetime or deadline.
    Expired = 1,
    /// They would have had to leave too often again.
    RetransmissionsExhausted = 2,
    /// They made room for a more important one.
    Evicted = 3,
    /// A newer message has the same key.
    Replaced = 4,
    /// The association ended before.
    Ended = 5,
    /// The peer has no such stream.
    StreamRefused = 6,
}

/// What happened; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// `sizeof`.
    pub size: usize,
    /// A [`Kind`].
    pub kind: u32,
    /// A [`Reason`].
    pub reason: u32,
    /// The first message that it concerns.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// 1 if part of an abandoned message was sent.
    pub sent: u64,
    /// When, on the clock of `festina_now_us`.
    pub at_us: u64,
    /// With `PacketSizeLimited`: the largest SCTP packet from now on.
    pub packet_bytes_max: u64,
}

impl Event {
    fn new(kind: Kind) -> Self {
        let at_us = micros(festina::now());
        Self {
            size: size_of::<Self>(),
            kind: kind as u32,
            reason: 0,
            first: 0,
            last: 0,
            sent: 0,
            at_us,
            packet_bytes_max: 0,
        }
    }
}

impl From<festina::Event> for Event {
    fn from(event: festina::Event) -> Self {
        use festina::Event as Core;
        match event {
            Core::MessageDelivered { id, at, .. } => {
                Self { first: id.0, last: id.0, at_us: micros(at), ..Self::new(Kind::Delivered) }
            }
            Core::MessagesAbandoned { first, last, reason, sent, .. } => Self {
                first: first.0,
                last: last.0,
                reason: Reason::from(reason) as u32,
                sent: sent.into(),
                ..Self::new(Kind::Abandoned)
            },
            Core::PeerShutdown => Self::new(Kind::PeerShutdown),
            Core::PeerRestarted => Self::new(Kind::PeerRestarted),
            Core::PathReachable { reachable: true, .. } => Self::new(Kind::PathUp),
            Core::PathReachable { reachable: false, .. } => Self::new(Kind::PathDown),
            Core::Closed(_) => Self::new(Kind::Closed),
            Core::PacketSizeLimited { packet_bytes_max, .. } => {
                Self { packet_bytes_max: packet_bytes_max as u64, ..Self::new(Kind::PacketSizeLimited) }
            }
            Core::PeerMoved { .. } => Self::new(Kind::PeerMoved),
            _ => Self::new(Kind::Other),
        }
    }
}

impl From<AbandonReason> for Reason {
    fn from(reason: AbandonReason) -> Self {
        match reason {
            AbandonReason::Expired => Self::Expired,
            AbandonReason::RetransmissionsExhausted => Self::RetransmissionsExhausted,
            AbandonReason::Evicted => Self::Evicted,
            AbandonReason::Replaced => Self::Replaced,
            AbandonReason::UnsentAtEnd | AbandonReason::UnacknowledgedAtEnd => Self::Ended,
            AbandonReason::StreamRefused => Self::StreamRefused,
            _ => Self::Other,
        }
    }
}

/// Microseconds on the clock of `festina_now_us`.
pub(crate) fn micros(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(Instant::ZERO).as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_peer_is_named() {
        let remote = "127.0.0.1:9899".parse().unwrap();
        assert_eq!(
            Event::from(festina::Event::PeerMoved { path: festina::PathId::PRIMARY, remote }).kind,
            Kind::PeerMoved as u32
        );
    }
}
