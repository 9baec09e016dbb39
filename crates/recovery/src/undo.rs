//! What is restored when a reduction of the congestion window turns out to have had no cause, in the
//! manner of the Eifel response (RFC 4015).
//!
//! The window is cut because something was taken for lost. If all that was sent again since then
//! turns out to have arrived already, nothing was lost, and what the cut took is given back.
//!
//! # What a lying peer gains
//!
//! "It arrived already" is the peer's word, in duplicate reports and in acknowledgements. One that
//! lies could have each cut undone and keep the sender at full speed into a congested path. So
//! undoing is on credit: [`CREDITS_MAX`] at the start, one less for each cut that is undone, one more
//! for each that stands. Of `k` cuts at most `(k + 2) / 2` are undone, whatever the peer says; in the
//! long run half of all cuts stand. As the rate of a conforming flow goes with one over the square
//! root of its loss rate, the liar gains a factor of 1.41 at most. An honest peer behind a path that
//! reorders is restricted as well, but there [`crate::reordering`] learns to wait, and the cuts
//! cease. Furthermore a window is never restored above what it was, and as congestion experienced
//! (ECN) is beyond dispute, it ends the episode.

/// Cuts that may be undone without one that stands.
pub const CREDITS_MAX: u8 = 2;

/// The congestion window and its companion, in bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Slow-start threshold.
    pub ssthresh_bytes: u64,
}

/// The sender at the moment of an undo.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct UndoTerms {
    /// The window as it is.
    pub window: Window,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// Bytes that the acknowledgement at hand acknowledged for the first time.
    pub acked_bytes: u64,
    /// The initial window (RFC 9260 §7.2.1): the most that may leave as a burst.
    pub initial_window_bytes: u64,
}

/// Remembers the latest cut and what was retransmitted since.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CutHistory {
    episode: Option<Episode>,
    credits: u8,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Episode {
    before: Window,
    in_flight_bytes: u64,
    /// Retransmissions that were not shown to be needless.
    unexplained: u32,
}

impl Default for CutHistory {
    fn default() -> Self {
        Self { episode: None, credits: CREDITS_MAX }
    }
}

impl CutHistory {
    /// No cut yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The window is about to be cut from `before`, with `in_flight_bytes` in flight.
    ///
    /// A further cut in the same recovery (`same_recovery`, as when the timer expires during fast
    /// recovery) belongs to the episode and does not change what is to be restored. Any other cut
    /// closes the one before, which then stands.
    pub fn cut(&mut self, before: Window, in_flight_bytes: u64, same_recovery: bool) {
        if same_recovery && self.episode.is_some() {
            return;
        }
        self.stands();
        self.episode = Some(Episode { before, in_flight_bytes, unexplained: 0 });
    }

    /// A chunk was retransmitted because it was taken for lost. Copies and probes that no cut
    /// follows from do not count.
    pub fn retransmitted(&mut self) {
        if let Some(episode) = &mut self.episode {
            episode.unexplained = episode.unexplained.saturating_add(1);
        }
    }

    /// One of those retransmissions was needless ([`crate::spurious::Verdict::is_spurious`]); to be
    /// told once for each. If it was the last that could have been needed, this is the window to
    /// restore.
    pub fn was_needless(&mut self, terms: &UndoTerms) -> Option<Window> {
        let episode = self.episode.as_mut()?;
        episode.unexplained = episode.unexplained.checked_sub(1)?;
        if episode.unexplained > 0 { None } else { self.undo(terms) }
    }

    /// The timeout behind the cut was spurious as a whole ([`crate::f_rto`]): the window to restore.
    pub fn timeout_was_spurious(&mut self, terms: &UndoTerms) -> Option<Window> {
        self.undo(terms)
    }

    /// One of the retransmissions was needed, or the path marked a packet (ECN): the cut stands.
    pub fn stands(&mut self) {
        if self.episode.take().is_some() {
            self.credits = (self.credits + 1).min(CREDITS_MAX);
        }
    }

    /// RFC 4015 §3: the threshold returns to what was in flight or to its old value,
    /// whichever is more, and the window to what is in flight now and a little more, so that it
    /// reaches its old size in slow start and not in a burst.
    fn undo(&mut self, terms: &UndoTerms) -> Option<Window> {
        let episode = self.episode?;
        let Some(credits) = self.credits.checked_sub(1) else {
            self.stands();
            return None;
        };
        self.credits = credits;
        self.episode = None;
        let before = episode.before;
        let conservative = terms.in_flight_bytes.saturating_add(terms.acked_bytes.min(terms.initial_window_bytes));
        let threshold = episode.in_flight_bytes.min(before.cwnd_bytes).max(before.ssthresh_bytes);
        Some(Window {
            cwnd_bytes: conservative.min(before.cwnd_bytes).max(terms.window.cwnd_bytes),
            ssthresh_bytes: threshold.max(terms.window.ssthresh_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BEFORE: Window = Window { cwnd_bytes: 20_000, ssthresh_bytes: 12_000 };
    const TERMS: UndoTerms = UndoTerms {
        window: Window { cwnd_bytes: 1_500, ssthresh_bytes: 10_000 },
        in_flight_bytes: 9_000,
        acked_bytes: 3_000,
        initial_window_bytes: 4_404,
    };

    /// A cut with 18,000 bytes in flight, and `retransmissions` since.
    fn after_cut(retransmissions: u32) -> CutHistory {
        let mut history = CutHistory::new();
        history.cut(BEFORE, 18_000, false);
        (0..retransmissions).for_each(|_| history.retransmitted());
        history
    }

    #[test]
    fn rfc_4015_the_threshold_returns_and_the_window_follows_in_slow_start() {
        let restored = after_cut(1).was_needless(&TERMS);
        assert_eq!(restored, Some(Window { cwnd_bytes: 12_000, ssthresh_bytes: 18_000 }));
    }

    #[test]
    fn rfc_4015_the_burst_is_at_most_the_initial_window() {
        let terms = UndoTerms { acked_bytes: 9_000, ..TERMS };
        let restored = after_cut(1).was_needless(&terms).expect("undone");
        assert_eq!(restored.cwnd_bytes, 9_000 + 4_404);
    }

    #[test]
    fn only_when_all_retransmissions_were_needless_is_the_cut_undone() {
        let mut history = after_cut(3);
        assert_eq!(history.was_needless(&TERMS), None);
        assert_eq!(history.was_needless(&TERMS), None);
        assert!(history.was_needless(&TERMS).is_some());
        assert_eq!(history.was_needless(&TERMS), None, "once");
    }

    #[test]
    fn a_loss_that_was_one_or_a_mark_lets_the_cut_stand() {
        let mut history = after_cut(2);
        history.was_needless(&TERMS);
        history.stands();
        assert_eq!(history.was_needless(&TERMS), None);
        assert_eq!(history.timeout_was_spurious(&TERMS), None);
    }

    #[test]
    fn a_report_without_a_retransmission_undoes_nothing() {
        assert_eq!(after_cut(0).was_needless(&TERMS), None);
        assert_eq!(CutHistory::new().was_needless(&TERMS), None);
        assert_eq!(CutHistory::new().timeout_was_spurious(&TERMS), None);
    }

    #[test]
    fn a_spurious_timeout_is_undone_at_once() {
        assert!(after_cut(4).timeout_was_spurious(&TERMS).is_some());
    }

    #[test]
    fn a_second_cut_in_the_same_recovery_restores_what_was_before_the_first() {
        let mut history = after_cut(1);
        history.cut(Window { cwnd_bytes: 10_000, ssthresh_bytes: 10_000 }, 9_000, true);
        history.retransmitted();
        assert_eq!(history.was_needless(&TERMS), None);
        assert_eq!(history.was_needless(&TERMS).expect("undone").ssthresh_bytes, 18_000);
    }

    #[test]
    fn a_peer_that_calls_every_retransmission_needless_has_every_second_cut_undone() {
        let mut history = CutHistory::new();
        let undone = (0..1_000).filter(|_| {
            history.cut(BEFORE, 18_000, false);
            history.retransmitted();
            history.was_needless(&TERMS).is_some()
        });
        assert_eq!(undone.count(), 501);
    }

    proptest! {
        #[test]
        fn no_window_is_restored_above_what_it_was_nor_more_often_than_the_credit_allows(
            steps in prop::collection::vec((0..6_u8, 0..50_000_u64, 0..50_000_u64), 1..200),
        ) {
            let mut history = CutHistory::new();
            let (mut cuts, mut undone) = (0_u64, 0_u64);
            let mut before = BEFORE;
            for (what, one, two) in steps {
                let terms = UndoTerms { in_flight_bytes: one, acked_bytes: two, ..TERMS };
                let restored = match what {
                    0 => {
                        before = Window { cwnd_bytes: one, ssthresh_bytes: two };
                        cuts += 1;
                        history.cut(before, two, false);
                        None
                    }
                    1 => {
                        history.retransmitted();
                        None
                    }
                    2 => {
                        history.stands();
                        None
                    }
                    3 => history.timeout_was_spurious(&terms),
                    _ => history.was_needless(&terms),
                };
                if let Some(window) = restored {
                    undone += 1;
                    prop_assert!(window.cwnd_bytes <= before.cwnd_bytes.max(terms.window.cwnd_bytes));
                    let highest = before.ssthresh_bytes.max(before.cwnd_bytes);
                    prop_assert!(window.ssthresh_bytes <= highest.max(terms.window.ssthresh_bytes));
                    prop_assert!(window.cwnd_bytes >= terms.window.cwnd_bytes);
                }
                prop_assert!(2 * undone <= cuts + u64::from(CREDITS_MAX));
            }
        }
    }
}
