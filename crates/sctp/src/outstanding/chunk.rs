//! One outstanding chunk and its state.

use bytes::Bytes;
use festina_units::Instant;

use crate::event::RetransmissionCause;
use crate::path_id::PathId;
use crate::preview::debug_with_preview;
use crate::wire::Framing;

/// Where the sender keeps what all chunks of a message have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageSlot(pub(crate) u32);

/// A DATA chunk that has a TSN. Less than a cache line, since every SACK walks over many of them.
pub(crate) struct Chunk {
    pub(crate) payload: Bytes,
    /// When it last left.
    pub(crate) sent_at: Instant,
    pub(crate) message: MessageSlot,
    /// Which fragment of its message it is, from 0.
    pub(crate) fragment: u32,
    /// It is the last fragment (the E bit, RFC 9260 §3.3.1).
    pub(crate) form: Form,
    /// The receiver is asked not to delay its SACK: by the application, or because nothing waited behind this chunk.
    pub(crate) immediate_ack: bool,
    pub(crate) state: ChunkState,
    /// Times that it left; stops at 255.
    pub(crate) transmissions: u8,
    /// Since it last left (RFC 9260 §7.2.4).
    pub(crate) miss_indications: u8,
    pub(crate) fast_retransmitted: bool,
    /// Why it was last sent again; `None` if it was sent once.
    pub(crate) resent: Option<Transmission>,
    /// By which path it last left.
    pub(crate) path: PathId,
}

debug_with_preview!(
    Chunk,
    payload,
    [
        sent_at,
        message,
        fragment,
        form,
        immediate_ack,
        state,
        transmissions,
        miss_indications,
        fast_retransmitted,
        resent,
        path
    ]
);

/// A transmission of a chunk that was sent before, by its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transmission {
    /// It was taken for lost.
    Repair(RetransmissionCause),
    /// Its acknowledgement was overdue.
    Probe,
    /// Retransmission of the last chunk, so that the peer reports missing ones (RFC 8985 §7).
    TailProbe,
    /// There was room in a packet that was sent anyway.
    Bundled,
    /// As `Bundled`, of a chunk that was reported missing, but not often enough.
    ReportedBundled,
    /// As `Bundled`, of a chunk that a probe has repeated, so that no later packet has to show that it arrived.
    ProbedBundled,
    /// Redundancy in a packet of its own.
    Copy,
    /// The same, shortly behind a retransmission.
    Repeated,
}

impl Transmission {
    /// The cause to report.
    pub(crate) fn cause(self) -> RetransmissionCause {
        match self {
            Self::Repair(cause) => cause,
            Self::Probe | Self::TailProbe => RetransmissionCause::Probe,
            Self::Bundled | Self::ProbedBundled => RetransmissionCause::Bundled,
            Self::ReportedBundled => RetransmissionCause::ReportedBundled,
            Self::Copy | Self::Repeated => RetransmissionCause::Copy,
        }
    }
}

/// The framing of a chunk, and whether it ends its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Data,
    LastData,
    IData,
    LastIData,
}

/// Where a chunk is, as far as the sender knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkState {
    /// In flight.
    InFlight,
    /// Reported by a gap ack block. The peer may still drop it (RFC 9260 §6.2.1), so it is kept.
    GapAcked,
    /// Reported by an NR gap ack block: the peer will not drop it. Its payload is gone.
    NonRenegable,
    /// To be retransmitted, and no longer counted as in flight.
    Lost(RetransmissionCause),
    /// Its message was abandoned while it was in flight. Its payload is freed and it does not count as in flight, but it may still reveal a loss.
    AbandonedOnTheWay,
    /// Its message was abandoned, and nothing more is to be learned from it.
    Abandoned,
}

impl ChunkState {
    /// Returns whether something was sent, and it is not known what became of it.
    #[inline]
    pub(crate) fn is_undecided(self) -> bool {
        matches!(self, Self::InFlight | Self::AbandonedOnTheWay)
    }

    /// Returns whether the chunk's message was abandoned.
    #[inline]
    pub(crate) fn is_abandoned(self) -> bool {
        matches!(self, Self::AbandonedOnTheWay | Self::Abandoned)
    }
}

impl Form {
    /// `last`: the message ends with it.
    pub(crate) fn new(framing: Framing, last: bool) -> Self {
        match (framing, last) {
            (Framing::Data, false) => Self::Data,
            (Framing::Data, true) => Self::LastData,
            (Framing::IData, false) => Self::IData,
            (Framing::IData, true) => Self::LastIData,
        }
    }

    #[inline]
    fn framing(self) -> Framing {
        match self {
            Self::Data | Self::LastData => Framing::Data,
            Self::IData | Self::LastIData => Framing::IData,
        }
    }
}

impl Chunk {
    /// Bytes in a packet, header and padding included.
    pub(crate) fn bytes(&self) -> usize {
        self.framing().chunk_bytes(self.payload.len())
    }

    /// The chunk type that carries it.
    #[inline]
    pub(crate) fn framing(&self) -> Framing {
        self.form.framing()
    }

    /// Returns whether its message ends with it.
    #[inline]
    pub(crate) fn ends(&self) -> bool {
        matches!(self.form, Form::LastData | Form::LastIData)
    }

    /// Returns whether it was last sent on this path.
    #[inline]
    pub(crate) fn is_on(&self, path: PathId) -> bool {
        self.path == path
    }

    /// Returns whether it is a part of its message only.
    pub(crate) fn is_fragment(&self) -> bool {
        self.fragment > 0 || !self.ends()
    }

    /// A message of 100 bytes that leaves for the first time.
    #[cfg(test)]
    pub(crate) fn for_test(sent_at: Instant) -> Self {
        Self {
            payload: Bytes::from_static(&[7; 100]),
            sent_at,
            message: MessageSlot(0),
            fragment: 0,
            form: Form::new(Framing::Data, true),
            immediate_ack: false,
            state: ChunkState::InFlight,
            transmissions: 1,
            miss_indications: 0,
            fast_retransmitted: false,
            resent: None,
            path: PathId(0),
        }
    }
}
