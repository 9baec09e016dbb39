//! The two sides of repair: the rooms around that it sees, and its findings with their effect on the congestion window.

use festina_recovery::undo::Window;

use super::super::path::PacketSizes;
use super::super::queue::SendBuffer;
use super::super::window::PeerWindow;
use crate::congestion::{Congestion, CongestionSign};
use crate::outstanding::{CHUNKS_MAX, Ledger, PathId, Tally};

/// The rooms that repair decides by and does not change.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct View<'s> {
    /// The path that repair is for.
    pub(in crate::send) path: PathId,
    pub(in crate::send) buffer: &'s SendBuffer,
    pub(in crate::send) window: &'s PeerWindow,
    pub(in crate::send) congestion: &'s Congestion,
    pub(in crate::send) sizes: PacketSizes,
    /// Packets with new data that may leave before the next event (RFC 9260 §6.1 rule D).
    pub(in crate::send) burst_packets: u32,
}

impl View<'_> {
    /// The chunks in flight on the path.
    pub(super) fn in_flight(&self, ledger: &Ledger) -> Tally {
        *ledger.in_flight_by_path().of(self.path)
    }

    /// Returns whether the queue is empty.
    pub(super) fn is_all_sent(&self) -> bool {
        self.buffer.queued_bytes() == 0
    }

    /// Payload bytes of the next new chunk in an empty packet.
    pub(in crate::send) fn next_piece_bytes(&self) -> Option<usize> {
        self.buffer.front().map(|unsent| unsent.rest.len().min(self.sizes.payload()))
    }

    /// Returns whether a packet that leaves now may hold new data, if nothing lost is left to be sent (RFC 9260 §6.1 rules A, B, D).
    pub(in crate::send) fn allows_new_data(&self, ledger: &Ledger) -> bool {
        self.next_piece_bytes().is_some_and(|bytes| {
            self.burst_packets > 0
                && ledger.len() < CHUNKS_MAX
                && self.congestion.allows(ledger.on_the_way_bytes(self.path))
                && self.window.allows(bytes, ledger.in_flight().payload_bytes)
        })
    }

    /// Returns whether the peer's window takes the next new chunk.
    pub(super) fn fits_window(&self, ledger: &Ledger) -> bool {
        self.next_piece_bytes().is_some_and(|bytes| self.window.allows(bytes, ledger.in_flight().payload_bytes))
    }

    /// Returns whether new data still fits into the peer's window after all lost chunks are retransmitted.
    pub(super) fn fits_window_behind_lost(&self, ledger: &Ledger) -> bool {
        let outstanding = ledger.in_flight().payload_bytes + ledger.lost().payload_bytes;
        ledger.lost().chunks == 0 || self.next_piece_bytes().is_some_and(|bytes| self.window.allows(bytes, outstanding))
    }

    /// Number of packets that the queued data would fill.
    pub(super) fn unsent_packets(&self) -> u32 {
        u32::try_from(self.buffer.queued_bytes().div_ceil(self.sizes.payload().max(1))).unwrap_or(u32::MAX)
    }

    /// Returns whether a chunk that probes the peer's closed window is outstanding.
    pub(super) fn is_probing_window(&self) -> bool {
        self.window.probe().is_some()
    }
}

/// The consequences of an acknowledgement or an expiry for other modules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::send) struct Verdict {
    /// Chunks taken for lost now.
    pub(in crate::send) lost: usize,
    /// Chunks that were marked as lost and are in flight after all.
    pub(in crate::send) found: usize,
    pub(in crate::send) window: WindowVerdict,
    pub(in crate::send) release: Release,
}

impl Verdict {
    /// The consequences of an event that is neither an acknowledgement nor an expiry.
    pub(in crate::send) fn of(window: WindowVerdict) -> Self {
        Self { window, release: Release::Same, ..Self::default() }
    }
}

/// What becomes of the congestion window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::send) enum WindowVerdict {
    #[default]
    Keep,
    Cut(CongestionSign),
    /// The last cut had no cause: the window is this again.
    Undo(Window),
}

/// Maximum packets of new data that the event releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::send) enum Release {
    /// No more than before.
    Same,
    /// The default of any event.
    #[default]
    Usual,
    /// This many.
    Packets(u32),
}

/// All that speaks for moving the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// T3-rtx expired.
    pub(super) timeout: Option<CongestionSign>,
    /// Chunks were found lost, and no fast recovery lasts.
    pub(super) loss: bool,
    /// A copy, probe or tail probe repaired a loss before it was detected.
    pub(super) repaired_unseen: bool,
    /// Early fast retransmit found chunks overdue.
    pub(super) overdue: bool,
    /// All repairs since the last cut were needless, or the timeout behind it was: the window to restore.
    pub(super) needless: Option<Window>,
}

impl Findings {
    /// A timeout weighs more than a loss, and a loss found now more than proof that an earlier one was none.
    pub(super) fn verdict(self) -> WindowVerdict {
        match self {
            Self { timeout: Some(timeout), .. } => WindowVerdict::Cut(timeout),
            Self { loss: true, .. } | Self { repaired_unseen: true, .. } => WindowVerdict::Cut(CongestionSign::Loss),
            Self { overdue: true, .. } => WindowVerdict::Cut(CongestionSign::Overdue),
            Self { needless: Some(window), .. } => WindowVerdict::Undo(window),
            _ => WindowVerdict::Keep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: CongestionSign = CongestionSign::Timeout { one_packet: true, in_fast_recovery: false };
    const WINDOW: Window = Window { cwnd_bytes: 20_000, ssthresh_bytes: 30_000 };

    #[test]
    fn the_graver_finding_decides() {
        let all = Findings {
            timeout: Some(TIMEOUT),
            loss: true,
            repaired_unseen: true,
            overdue: true,
            needless: Some(WINDOW),
        };
        let without_timeout = Findings { timeout: None, ..all };
        let unseen = Findings { loss: false, ..without_timeout };
        let overdue = Findings { repaired_unseen: false, ..unseen };
        let needless = Findings { overdue: false, ..overdue };
        assert_eq!(all.verdict(), WindowVerdict::Cut(TIMEOUT));
        assert_eq!(without_timeout.verdict(), WindowVerdict::Cut(CongestionSign::Loss));
        assert_eq!(unseen.verdict(), WindowVerdict::Cut(CongestionSign::Loss));
        assert_eq!(overdue.verdict(), WindowVerdict::Cut(CongestionSign::Overdue));
        assert_eq!(needless.verdict(), WindowVerdict::Undo(WINDOW));
        assert_eq!(Findings::default().verdict(), WindowVerdict::Keep);
    }
}
