//! Undoing a spurious reduction of the congestion window, in the manner of the Eifel response (RFC 4015).
//!
//! The window is cut because a packet was presumed lost. If everything retransmitted since then turns out to have
//! arrived already, nothing was lost, and the cut is undone.
//!
//! # Limits against a lying peer
//!
//! "It arrived already" is a claim of the peer, in duplicate reports and in acknowledgements. A lying peer could have
//! each cut undone and keep the sender at full speed into a congested path. So undoing requires credit: [`CREDITS_MAX`]
//! at the start, one less for each cut that is undone, one more for each that stands. Of `k` cuts at most `(k + 2) / 2`
//! are undone, regardless of the peer's reports; in the long run half of all cuts stand. As the rate of a conforming
//! flow is proportional to one over the square root of its loss rate, the liar gains a factor of 1.41 at most. An
//! honest peer behind a path that reorders is limited as well, but there [`crate::reordering`] learns to wait, and the
//! cuts cease. In addition a window is never restored above its former value, and congestion experienced (ECN), which
//! is beyond dispute, ends the episode.

/// Number of cuts that may be undone without one that stands.
pub const CREDITS_MAX: u8 = 2;

/// The congestion window and the slow-start threshold, in bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Slow-start threshold.
    pub ssthresh_bytes: u64,
}

/// The state of the sender at the time of an undo.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct UndoTerms {
    /// The present window.
    pub window: Window,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// Bytes newly acknowledged by the acknowledgement being processed.
    pub acked_bytes: u64,
    /// The initial window (RFC 9260 §7.2.1): the maximum burst.
    pub initial_window_bytes: u64,
}

/// Maximum number of retransmissions remembered per episode. With more of them the cut stands.
pub const REPAIRS_MAX: usize = 256;

/// Remembers the latest cut and the retransmissions since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutHistory {
    episode: Option<Episode>,
    credits: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Episode {
    before: Window,
    in_flight_bytes: u64,
    /// Retransmissions not shown to be spurious; at most [`REPAIRS_MAX`].
    open: Vec<Repair>,
    /// Whether at least one was spurious.
    has_needless: bool,
    /// The lowest [`Answer::judged_at`] of those.
    judged_at: u64,
}

/// A packet or chunk that was presumed lost and retransmitted.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Repair {
    sequence: u64,
    /// Number of duplicates of it reported by the peer.
    duplicates: u32,
    answer: Option<Answer>,
}

/// The acknowledgement of a retransmitted packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Answer {
    /// Number of its transmissions by then.
    transmissions: u32,
    /// Once this sequence number, first sent after the answer arrived, is acknowledged without a duplicate report, the
    /// retransmission counts as needed.
    judged_at: u64,
}

impl Repair {
    /// All its transmissions arrived, so the first one did.
    fn is_needless(&self) -> bool {
        self.answer.is_some_and(|answer| self.duplicates + 1 >= answer.transmissions)
    }
}

/// The contents of an acknowledgement of a retransmitted packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RepairAck {
    /// Its sequence number.
    pub sequence: u64,
    /// Number of its transmissions, including the first.
    pub transmissions: u32,
    /// Whether the acknowledgement came too soon to answer the last transmission
    /// ([`crate::spurious::answers_earlier`]).
    pub answers_earlier: bool,
    /// The sequence number that will be sent next.
    pub next_sequence: u64,
}

impl Default for CutHistory {
    fn default() -> Self {
        Self { episode: None, credits: CREDITS_MAX }
    }
}

impl CutHistory {
    /// Creates a history without cuts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that the window is about to be cut from `before`, with `in_flight_bytes` in flight.
    ///
    /// A further cut in the same recovery (`same_recovery`, as when the timer expires during fast recovery) belongs to
    /// the episode and does not change the window to restore. Any other cut ends the previous episode, whose cut then
    /// stands.
    pub fn cut(&mut self, before: Window, in_flight_bytes: u64, same_recovery: bool) {
        if same_recovery && self.episode.is_some() {
            return;
        }
        self.stands();
        self.episode =
            Some(Episode { before, in_flight_bytes, open: Vec::new(), has_needless: false, judged_at: u64::MAX });
    }

    /// Returns whether the latest cut may still be undone.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.episode.is_some()
    }

    /// Records that a packet was retransmitted because it was presumed lost. Copies and probes that cause no cut do not
    /// count, and neither do their duplicates.
    pub fn repaired(&mut self, sequence: u64) {
        let Some(episode) = &mut self.episode else { return };
        if let Some(again) = episode.open.iter_mut().find(|repair| repair.sequence == sequence) {
            again.answer = None;
            episode.find_next_judgement();
        } else if episode.open.len() < REPAIRS_MAX {
            episode.open.push(Repair { sequence, duplicates: 0, answer: None });
        } else {
            self.stands();
        }
    }

    /// Processes the acknowledgement of a packet that was sent more than once. An answer to an earlier transmission
    /// proves that a single retransmission was spurious (Eifel detection, RFC 3522); if the packet was sent more than
    /// twice, it may answer a copy.
    pub fn acked(&mut self, ack: &RepairAck) {
        let Some(episode) = &mut self.episode else { return };
        let Some(repair) = episode.open.iter_mut().find(|repair| repair.sequence == ack.sequence) else { return };
        repair.answer = Some(Answer { transmissions: ack.transmissions, judged_at: ack.next_sequence });
        episode.judged_at = episode.judged_at.min(ack.next_sequence);
        if ack.answers_earlier && ack.transmissions == 2 {
            repair.duplicates = 1;
        }
        episode.close_needless();
    }

    /// Processes a duplicate report. It proves a retransmission spurious if all but one of that packet's transmissions
    /// are reported: then the first one arrived, regardless of the purpose of the others.
    pub fn duplicate_reported(&mut self, sequence: u64) {
        let Some(episode) = &mut self.episode else { return };
        if let Some(repair) = episode.open.iter_mut().find(|repair| repair.sequence == sequence) {
            repair.duplicates = repair.duplicates.saturating_add(1);
            episode.close_needless();
        }
    }

    /// Judges the cut after an acknowledgement was applied together with its duplicate reports: everything below
    /// `earliest_outstanding` is acknowledged, and `losses_wait` is true if a lost packet has not been retransmitted
    /// yet. Returns the window to restore if all retransmissions were spurious; if one was needed, the cut stands.
    pub fn judge(&mut self, earliest_outstanding: u64, losses_wait: bool, terms: &UndoTerms) -> Option<Window> {
        let episode = self.episode.as_ref()?;
        if episode.judged_at < earliest_outstanding {
            self.stands();
            return None;
        }
        let all_needless = episode.has_needless && episode.open.is_empty() && !losses_wait;
        if all_needless { self.undo(terms) } else { None }
    }

    /// Returns the window to restore after a timeout that was spurious as a whole ([`crate::f_rto`]).
    pub fn timeout_was_spurious(&mut self, terms: &UndoTerms) -> Option<Window> {
        self.undo(terms)
    }

    /// Lets the cut stand: one of the retransmissions was needed, or the path marked a packet (ECN).
    pub fn stands(&mut self) {
        if self.episode.take().is_some() {
            self.credits = (self.credits + 1).min(CREDITS_MAX);
        }
    }

    /// RFC 4015 §3: the threshold returns to the larger of its old value and the bytes that were in flight, and the
    /// window to the bytes in flight now and a little more, so that it reaches its old size in slow start and not in a
    /// burst.
    fn undo(&mut self, terms: &UndoTerms) -> Option<Window> {
        let Some(credits) = self.credits.checked_sub(1) else {
            self.stands();
            return None;
        };
        let episode = self.episode.take()?;
        self.credits = credits;
        let before = episode.before;
        let conservative = terms.in_flight_bytes.saturating_add(terms.acked_bytes.min(terms.initial_window_bytes));
        let threshold = episode.in_flight_bytes.min(before.cwnd_bytes).max(before.ssthresh_bytes);
        Some(Window {
            cwnd_bytes: conservative.min(before.cwnd_bytes).max(terms.window.cwnd_bytes),
            ssthresh_bytes: threshold.max(terms.window.ssthresh_bytes),
        })
    }
}

impl Episode {
    fn close_needless(&mut self) {
        let before = self.open.len();
        self.open.retain(|repair| !repair.is_needless());
        if self.open.len() < before {
            self.has_needless = true;
            self.find_next_judgement();
        }
    }

    fn find_next_judgement(&mut self) {
        let answers = self.open.iter().filter_map(|repair| repair.answer);
        self.judged_at = answers.map(|answer| answer.judged_at).min().unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests;
