//! The findings of repair, and their effect on the congestion window.

use festina_recovery::undo::Window;

use crate::congestion::CongestionSign;
use crate::send::limits::Release;

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
