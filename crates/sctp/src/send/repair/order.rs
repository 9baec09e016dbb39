//! The purpose of the next packet.

use festina_recovery::tail_probe::ProbeContent;

use super::redundancy::PlannedCopy;
use crate::event::RetransmissionCause;
use crate::outstanding::Transmission;

/// The next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::send) struct Order {
    pub(in crate::send) purpose: Purpose,
    /// New data may be in it.
    pub(in crate::send) new_data: NewData,
}

/// Why a packet may leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::send) enum Purpose {
    /// The probe timer expired: one packet of outstanding chunks, regardless of cwnd.
    Probe,
    /// A tail loss probe: one packet, regardless of cwnd, with new data if the peer's window takes it, else with the last chunk.
    TailProbe(ProbeContent),
    /// The copy of a packet is due, regardless of cwnd.
    Copy(PlannedCopy),
    /// Sums of chunks are due, regardless of cwnd.
    Sums,
    /// The peer may have left the address to which they were sent: one packet of the earliest outstanding chunks, regardless of cwnd.
    Elsewhere { room_bytes: u16 },
    /// A loss was just found: one packet of lost chunks, regardless of cwnd (RFC 9260 §6.3.3 E3, §7.2.4).
    Urgent(RetransmissionCause),
    /// There are lost chunks and cwnd has room (RFC 9260 §6.1 rule C).
    Repair,
    /// There is new data, and cwnd, burst limit and the peer's window have room (rules A, B, D).
    NewData,
}

/// Whether a packet may hold new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::send) enum NewData {
    No,
    /// If nothing that was lost is left to be sent.
    BehindLost,
    /// Even if chunks are marked as lost: F-RTO asks for it (RFC 4138 §3).
    Instead,
}

impl Purpose {
    /// Returns whether a packet of a thin stream holds chunks that are lost, or probably lost.
    pub(super) fn is_repair(self) -> bool {
        matches!(self, Self::Probe | Self::Urgent(_) | Self::Repair)
    }

    /// Returns the transmission of a chunk that was marked as lost for this cause. Chunks bundled into the packet of a timeout have that cause only
    /// there; in a later packet they are themselves the cause.
    pub(in crate::send) fn repair(self, cause: RetransmissionCause) -> Transmission {
        let was_bundled = cause.is_bundled() && !matches!(self, Self::Urgent(_));
        Transmission::Repair(if was_bundled { RetransmissionCause::Timeout } else { cause })
    }
}

/// Packets that are owed, and sent regardless of cwnd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owed {
    /// A probe of a thin stream.
    pub(super) probe: bool,
    /// A tail loss probe.
    pub(super) tail_probe: bool,
    /// The copy that is due ([`RedundancyAccount::due`](super::redundancy::RedundancyAccount::due)).
    pub(super) copy: bool,
    /// Sums of chunks.
    pub(super) sums: bool,
    /// One packet of at most this many bytes of outstanding chunks.
    pub(super) elsewhere: Option<u16>,
    /// One packet of lost chunks, for this reason.
    pub(super) repair: Option<RetransmissionCause>,
}

impl Owed {
    /// That packet left.
    pub(super) fn paid(&mut self, purpose: Purpose) {
        match purpose {
            Purpose::Probe => self.probe = false,
            Purpose::TailProbe(_) => self.tail_probe = false,
            Purpose::Copy(_) => self.copy = false,
            Purpose::Sums => self.sums = false,
            Purpose::Elsewhere { .. } => self.elsewhere = None,
            Purpose::Urgent(_) => self.repair = None,
            Purpose::Repair | Purpose::NewData => {}
        }
    }
}
