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

/// Repairs that one episode remembers. With more of them the cut stands unquestioned.
pub const REPAIRS_MAX: usize = 256;

/// Remembers the latest cut and what was repaired since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutHistory {
    episode: Option<Episode>,
    credits: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Episode {
    before: Window,
    in_flight_bytes: u64,
    /// Repairs that were not shown to be needless; at most [`REPAIRS_MAX`].
    open: Vec<Repair>,
    /// At least one was.
    has_needless: bool,
    /// The lowest [`Answer::judged_at`] of those.
    judged_at: u64,
}

/// A packet or chunk that was taken for lost and left again.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Repair {
    sequence: u64,
    /// Duplicates of it that the peer reported.
    duplicates: u32,
    answer: Option<Answer>,
}

/// A repaired packet was acknowledged.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Answer {
    /// How often it had left by then.
    transmissions: u32,
    /// When this is acknowledged, which left after the answer came, and no duplicate was reported, the repair was needed.
    judged_at: u64,
}

impl Repair {
    /// All its transmissions arrived, so the first one did.
    fn is_needless(&self) -> bool {
        self.answer.is_some_and(|answer| self.duplicates + 1 >= answer.transmissions)
    }
}

/// What the acknowledgement of a repaired packet shows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RepairAck {
    /// Its sequence number.
    pub sequence: u64,
    /// How often it has left, the first time included.
    pub transmissions: u32,
    /// The acknowledgement came too soon to answer the last transmission
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
        self.episode =
            Some(Episode { before, in_flight_bytes, open: Vec::new(), has_needless: false, judged_at: u64::MAX });
    }

    /// Returns whether the latest cut may yet be undone.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.episode.is_some()
    }

    /// A packet left again because it was taken for lost. Copies and probes that no cut follows from
    /// do not count, and neither do their duplicates.
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

    /// A packet that left more than once was acknowledged. An answer to an earlier transmission
    /// proves that the one repair was needless (Eifel detection, RFC 3522); if it left more often
    /// than twice, it may answer a copy.
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

    /// The peer reported a duplicate. It proves a repair needless if all but one of that packet's
    /// transmissions are reported: then the first one arrived, whatever the others were sent for.
    pub fn duplicate_reported(&mut self, sequence: u64) {
        let Some(episode) = &mut self.episode else { return };
        if let Some(repair) = episode.open.iter_mut().find(|repair| repair.sequence == sequence) {
            repair.duplicates = repair.duplicates.saturating_add(1);
            episode.close_needless();
        }
    }

    /// An acknowledgement was applied, with the duplicates that it reports: everything below
    /// `earliest_outstanding` is acknowledged, and `losses_wait` if something taken for lost has
    /// not left again yet. If all repairs were needless, this is the window to restore; if one was
    /// needed, the cut stands.
    pub fn judge(&mut self, earliest_outstanding: u64, losses_wait: bool, terms: &UndoTerms) -> Option<Window> {
        let episode = self.episode.as_ref()?;
        if episode.judged_at < earliest_outstanding {
            self.stands();
            return None;
        }
        let all_needless = episode.has_needless && episode.open.is_empty() && !losses_wait;
        if all_needless { self.undo(terms) } else { None }
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
