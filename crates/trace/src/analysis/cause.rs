//! The cause of a retransmission, as far as a capture near the sender shows it.
//!
//! A sender retransmits either in answer to an acknowledgement, within the time that its host takes, or when a timer expires, after silence.
//! The retransmitted data and the time since its last transmission distinguish the timers: a probe comes about two round trips after the
//! last transmission and repeats the end of the outstanding data (RFC 8985 §7), a timeout comes later and repeats its beginning
//! (RFC 6298 §5, RFC 9260 §6.3.3).

use festina_units::Duration;

/// The cause of a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The retransmission timer expired, or the repair that it began continues.
    Timeout,
    /// The receiver reported later data: fast retransmit and all of its early forms.
    Fast,
    /// A probe ahead of the timeout.
    Probe,
    /// Nothing indicated a loss: it was bundled with new data, or is redundancy, such as a copy by another path.
    Bundled,
    /// The capture does not show the state of the sender: it lacks the earlier copies, which were lost in front of it, or it shows an
    /// acknowledgement of them that may not have reached the sender. Both happen in captures at the receiver.
    Unknown,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Timeout, Self::Fast, Self::Probe, Self::Bundled, Self::Unknown];

    /// Returns the word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Fast => "fast",
            Self::Probe => "probe",
            Self::Bundled => "bundled",
            Self::Unknown => "unknown",
        }
    }
}

/// The confidence in a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// Something else fits about as well.
    Guess,
    /// Something else would be unusual.
    Likely,
    /// Nothing else fits.
    Sure,
}

impl Confidence {
    /// Returns the word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Guess => "guess",
            Self::Likely => "likely",
            Self::Sure => "sure",
        }
    }
}

/// The sender's state at a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Circumstances {
    /// New data is in the same packet.
    pub(super) is_with_new_data: bool,
    /// Acknowledgements since the last copy was sent that reported something sent after it.
    pub(super) reports: u32,
    /// Duplicate acknowledgements, with or without such reports.
    pub(super) duplicate_acks: u32,
    /// Time since the receiver's last packet.
    pub(super) since_heard: Option<Duration>,
    /// Time since the copy before this one was sent.
    pub(super) since_copy: Duration,
    /// Something that was sent after the copy before this one has arrived.
    pub(super) is_overtaken: bool,
    /// It repeats the data sent last, and nothing before it.
    pub(super) is_last: bool,
    /// There was a retransmission after silence, and some of the data outstanding then is not acknowledged yet.
    pub(super) after_timer: Option<Cause>,
    /// The copy before this one was sent then or later.
    pub(super) was_sent_since_timer: bool,
    /// The estimates of the sender's timers.
    pub(super) timers: Timers,
    /// There was a retransmission in response to reports, and some of the data outstanding then is not acknowledged
    /// yet.
    pub(super) in_recovery: bool,
    /// Probes of this sender.
    pub(super) probes: Probes,
    /// The cause of another retransmission in the same packet.
    pub(super) bundled_with: Option<Cause>,
    /// Copies so far.
    pub(super) copies: u32,
    /// The copy before this one left by another path of the association.
    pub(super) is_by_another_path: bool,
}

/// Knowledge of a sender's probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probes {
    /// Whether it sends some, if that is known.
    pub(super) are_sent: Option<bool>,
    /// A round-trip time was measured since the last one.
    pub(super) may_follow: bool,
}

/// The likely values of a sender's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timers {
    /// The smallest round-trip time so far.
    pub(super) rtt_min: Duration,
    /// The smoothed round-trip time.
    pub(super) srtt: Duration,
    /// The retransmission timeout, without backoff.
    pub(super) rto: Duration,
}

/// A packet that follows another within this time, or within a small part of the round trip, answers it. A host takes
/// microseconds; a capture in the middle of the path adds its distance twice.
const PROMPT: Duration = Duration::from_millis(1);
const PROMPT_PART_OF_RTT: u32 = 64;

/// A retransmission that is sent again within this part of the round trip answers nothing: it is redundancy, such as that of
/// Festina, which waits for a twentieth.
const REPEATED_PART_OF_RTT: u32 = 16;

impl Circumstances {
    fn is_prompt(&self) -> bool {
        self.since_heard.is_some_and(|since| since <= PROMPT.max(self.timers.rtt_min / PROMPT_PART_OF_RTT))
    }

    /// Returns whether this is a part of the repair that a timeout began.
    pub(super) fn continues_timeout(&self) -> bool {
        self.is_prompt() && self.after_timer == Some(Cause::Timeout)
    }

    /// The cause in TCP.
    pub(super) fn tcp(&self) -> (Cause, Confidence) {
        if self.is_with_new_data {
            return (Cause::Bundled, Confidence::Sure);
        }
        let is_reported = self.reports > 0 || self.duplicate_acks >= 3;
        let goes_on = self.in_recovery || self.after_timer.is_some();
        if self.is_prompt() && (is_reported || goes_on) {
            // An episode that a timeout began retransmits everything once. RACK marks data as lost that was overtaken
            // since (RFC 8985 §6.2).
            let is_lost_again = self.is_overtaken && self.was_sent_since_timer && self.probes.are_sent == Some(true);
            return match self.after_timer {
                Some(Cause::Timeout) if !is_lost_again => (Cause::Timeout, Confidence::Likely),
                _ if is_reported => (Cause::Fast, Confidence::Sure),
                // A partial acknowledgement in recovery (RFC 6582), or early retransmit.
                _ => (Cause::Fast, Confidence::Likely),
            };
        }
        // The timer of RACK: a quarter of a round trip after the report, up to a whole one on paths that reorder (RFC 8985 §6.2);
        // timers tick.
        let reordering = self.timers.srtt + Duration::from_millis(5);
        let is_soon = self.since_heard.is_some_and(|since| since <= reordering);
        let is_overtaken = self.is_overtaken || (self.reports > 0 && self.copies == 1);
        if is_overtaken && self.probes.are_sent == Some(true) && is_soon {
            return (Cause::Fast, Confidence::Likely);
        }
        match (self.after_timer, self.probes.are_sent) {
            // There is one probe at most before the timeout.
            (Some(_), _) => (Cause::Timeout, Confidence::Sure),
            (None, Some(false)) => (Cause::Timeout, Confidence::Sure),
            (None, _) if !self.is_last => (Cause::Timeout, Confidence::Sure),
            // A probe needs a round trip measured since the one before, and no repair under way (RFC 8985 §7.2, §7.3).
            (None, _) if self.in_recovery || !self.probes.may_follow => (Cause::Timeout, Confidence::Likely),
            (None, Some(true)) => (Cause::Probe, Confidence::Likely),
            (None, None) => (Cause::Timeout, Confidence::Guess),
        }
    }

    /// The cause in SCTP.
    pub(super) fn sctp(&self) -> (Cause, Confidence) {
        let is_overdue = self.since_copy.saturating_add(PROMPT) >= self.timers.rto;
        let is_repeated = self.since_copy < PROMPT.max(self.timers.rtt_min / REPEATED_PART_OF_RTT);
        if self.is_by_another_path && is_repeated {
            return (Cause::Bundled, Confidence::Sure);
        }
        if self.is_prompt() && self.reports > 0 {
            let confidence = if self.reports >= 3 { Confidence::Sure } else { Confidence::Likely };
            return (Cause::Fast, confidence);
        }
        if self.is_with_new_data && is_overdue {
            return (Cause::Timeout, Confidence::Likely);
        }
        if self.copies > 1 && is_repeated {
            return (Cause::Bundled, Confidence::Likely);
        }
        let is_bundled = self.bundled_with == Some(Cause::Probe) || (self.bundled_with.is_some() && !is_overdue);
        if self.is_with_new_data || is_bundled {
            return (Cause::Bundled, Confidence::Sure);
        }
        if self.is_prompt() && self.after_timer == Some(Cause::Timeout) {
            return (Cause::Timeout, Confidence::Likely);
        }
        if !is_overdue {
            return (Cause::Probe, Confidence::Likely);
        }
        (Cause::Timeout, Confidence::Likely)
    }
}
