//! Spending a second packet against loss: which messages get a copy, and when it leaves.
//!
//! A retransmission cannot arrive earlier than one and a half round trips after the message left. A
//! copy sent unasked can: it repairs a loss within its spacing. It costs packets, and packets are
//! others' queueing delay and loss, so that it is an option, has a budget, and stops by itself.
//!
//! # The spacing
//!
//! Take a round trip of 100 ms, losses of 5 % that are independent, and a spacing of `s`.
//! - 5 % of the originals are lost and arrive by their copy at 50 ms + `s`. With 0.25 % of pairs
//!   lost, that is the 99th percentile; a small `s` is better.
//! - A lost pair is repaired by a probe, which can leave only when the acknowledgement of the *copy*
//!   is overdue. (Counted from the original, it would be needless for every original that was lost
//!   and whose copy arrived, and for every SACK that was lost: one message in ten.) It arrives at
//!   about 155 ms + `s`, and that is the 99.9th percentile. A small `s` is better here, too.
//! - Losses come in bursts, and a copy inside the burst is wasted; a large `s` is better. Full
//!   drop-tail queues drop for about as long as they need to send a few packets, 12 ms for ten full
//!   packets at 10 Mbit/s. A radio link that is shadowed for half a second takes any copy with it
//!   that leaves within a round trip, and after a round trip a probe does the same and knows what
//!   is missing. With bad times that last 500 ms on average, a copy after 10 ms is lost in 98 %
//!   of the cases where the original was, one after 100 ms still in 82 %. So long bursts are left to
//!   the probes.
//!
//! The default is a tenth of SRTT, at least 5 ms (bursts do not become shorter because the path
//! is) and at most 25 ms: 60 ms and 165 ms in the example. `spacing_meets_its_targets` computes
//! this.
//!
//! # What it adds, at most, and why that is fair
//!
//! - Copies are made on thin streams only: at most four packets with new data per round trip, eight
//!   on a very lossy path ([`crate::thin`]), one copy for each. A flow so adds at most as many
//!   packets as it sends, and at the usual limit sends no more than eight packets per round trip,
//!   fewer than the initial window that RFC 6928 lets every flow send at once.
//! - Copies included, it never sends more than a TCP flow would at the same loss rate and round-trip
//!   time ([`LossShare::exceeds_tcp`]). That takes copies from the denser of the thin streams on
//!   lossy paths, where the loss may well be congestion; a stream of one packet per round trip keeps
//!   them up to a loss rate of 37 %.
//! - Many thin flows together can fill a link without any of them exceeding that. So each watches for
//!   signs of congestion: a queue (SRTT well above the smallest round-trip time of the last
//!   minutes), a loss rate that has risen to three times what it was, as it does if the copies
//!   themselves overload the link, and any loss while round-trip times swing by milliseconds, as they
//!   do behind a queue that is short because its packets are small. While there is a sign no copy is
//!   made. Afterwards they come back in proportion to a share that each sign halves, once per half
//!   second, and that such a loss takes away; it recovers by 1/32 in two seconds: additive increase
//!   and multiplicative decrease, so that a crowd settles where the copies that it makes leave no
//!   queue. From nothing to full takes 64 s, twice as long after a loss behind a queue, and with each
//!   further one twice as long again.
//! - A copy hides the loss of its original from the receiver, and must not from the sender: such a
//!   loss counts for the loss rate, and the caller reports it to its congestion control.
//!
//! What it cannot see: a queue that is there from the first packet and never shrinks looks like a
//! long path. A thin flow that starts in it makes copies until losses stop it.

mod rides;
mod throttle;

use core::{fmt, str::FromStr};

use festina_units::{Duration, Instant};

use crate::{
    loss_rate::{KnownLoss, LossRate, LossShare},
    windowed_min::WindowedMin,
};
pub use rides::Rides;
use throttle::Throttle;

/// What an association may spend on copies that nothing calls for.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Redundancy {
    /// Nothing.
    #[default]
    Off,
    /// As much as the measured loss calls for, at most this: nothing on a path that loses nothing ([`Rides::against`]).
    Adaptive(Budget),
    /// All of it, whatever is lost.
    Always(Budget),
}

/// The most that redundancy may cost. A message may be sent again in two ways: as a *ride* in a packet that leaves anyway (P06 §4.4,
/// redundant bundling), which costs bytes and no packet; or as a *spaced copy* in a packet of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How often a chunk may ride along before it is overdue.
    pub rides_max: u8,
    /// Bytes of rides per hundred bytes of new data, in the long run.
    pub ride_percent: u16,
    /// The spaced copies, if there shall be any.
    pub copies: Option<Spaced>,
}

impl Budget {
    /// Rides only. Three at most: at a loss of 10 % one message in ten thousand then has to wait for a probe. The bytes leave room for
    /// the chunks that ride along in silence, however often they left.
    pub const RIDES: Self = Self { rides_max: 3, ride_percent: 350, copies: None };

    /// Rides, and a copy of every message at the default spacing.
    pub const SPACED: Self = Self { copies: Some(Spaced::DEFAULT), ..Self::RIDES };
}

impl Redundancy {
    /// Rides as the loss calls for them: the default of the `festina` profile.
    pub const ADAPTIVE: Self = Self::Adaptive(Budget::RIDES);
    /// Rides and spaced copies as the loss calls for them.
    pub const ADAPTIVE_SPACED: Self = Self::Adaptive(Budget::SPACED);
    /// Rides in every packet that has room.
    pub const BUNDLED: Self = Self::Always(Budget::RIDES);
    /// Rides in every packet that has room, and a spaced copy of every message.
    pub const SPACED: Self = Self::Always(Budget::SPACED);

    /// All that have a name.
    pub const NAMED: [Self; 5] = [Self::Off, Self::ADAPTIVE, Self::ADAPTIVE_SPACED, Self::BUNDLED, Self::SPACED];

    /// The name as it is written on a command line; other budgets than the named ones have that of their kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Adaptive(Budget { copies: None, .. }) => "adaptive",
            Self::Adaptive(_) => "adaptive-spaced",
            Self::Always(Budget { copies: None, .. }) => "bundled",
            Self::Always(_) => "spaced",
        }
    }

    /// The most that may be spent, if anything.
    #[must_use]
    pub fn budget(self) -> Option<Budget> {
        match self {
            Self::Off => None,
            Self::Adaptive(budget) | Self::Always(budget) => Some(budget),
        }
    }
}

/// Copies in packets of their own.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Spaced {
    /// Time from a message's first transmission to its copy; `None` is the default of the module's
    /// text.
    pub spacing: Option<Duration>,
    /// The budget in packets: 1000 gives each message a copy; more counts as 1000.
    pub copies_per_thousand_messages: u16,
}

impl Spaced {
    /// A copy of every message, at the default spacing.
    pub const DEFAULT: Self = Self { spacing: None, copies_per_thousand_messages: 1_000 };

    /// Time from a message's first transmission to its copy.
    #[must_use]
    pub fn spacing(self, srtt: Duration) -> Duration {
        self.spacing.unwrap_or_else(|| (srtt / 10).clamp(SPACING_MIN, SPACING_MAX))
    }
}

const SPACING_MIN: Duration = Duration::from_millis(5);
const SPACING_MAX: Duration = Duration::from_millis(25);

/// How long the smallest round-trip time is remembered; longer than queues stand.
const RTT_MIN_WINDOW: Duration = Duration::from_secs(300);

/// SRTT above the smallest round-trip time by less than this is no queue: timers and schedulers do
/// that.
const QUEUE_MIN: Duration = Duration::from_millis(10);

/// A loss while the round-trip time swings by less than this, or by less than a sixteenth of its minimum, says nothing of a
/// queue. A router's queue that counts packets can be full of small ones, and then is only a few milliseconds long.
const SWING_MIN: Duration = Duration::from_millis(4);

/// How long a rising loss rate forbids copies, at least.
const QUIET_MIN: Duration = Duration::from_secs(1);

/// Messages whose times are remembered; more per round trip are not thin by any rule.
const MESSAGES_MAX: usize = 9;

/// What a copy costs, in thousandths of a copy.
const COPY_COST: u32 = 1_000;

/// The most that can be saved up: what was not spent on a quiet path does not become a burst.
const SAVED_MAX: u32 = 2 * COPY_COST;

/// The state of the sender when a message leaves.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When it leaves, for the first time.
    pub now: Instant,
    /// The stream is thin ([`crate::thin::ThinDetector::is_thin`]).
    pub thin: bool,
    /// The smoothed round-trip time, if any.
    pub srtt: Option<Duration>,
    /// The message is one chunk, so that one packet carries it.
    pub is_single_chunk: bool,
}

/// Whether a message gets a copy in a packet of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CopyDecision {
    /// It is paid for and leaves at this time, unless the message is acknowledged, abandoned or sent
    /// again before.
    At(Instant),
    /// It gets none.
    Not(WhyNot),
}

/// Why a message gets no copy.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum WhyNot {
    /// The option is off, or allows bundling only.
    Disabled,
    /// The stream is not thin.
    NotThin,
    /// No round trip was measured yet: nothing is known of the path.
    Unmeasured,
    /// The message needs several packets; a copy of one of them would not deliver it.
    Large,
    /// Nothing is lost on the path.
    Lossless,
    /// The path shows congestion, or did so just now.
    Congested,
    /// With copies the stream would send more than a TCP flow on this path.
    Unfair,
    /// The budget is spent, or the share that earlier congestion left.
    Budget,
}

/// Decides about the copies of one association's messages, and keeps their account.
#[derive(Clone, Debug)]
pub struct CopyScheduler {
    redundancy: Redundancy,
    rtt_min: WindowedMin,
    /// How far above its minimum the round-trip time was of late: a maximum that falls by a sixteenth with each sample.
    swing: Duration,
    loss: LossRate,
    throttle: Throttle,
    /// A rising loss rate forbids copies until then.
    quiet_until: Instant,
    /// A rising loss rate while the round-trip time swings forbids rides until then.
    overloaded_until: Instant,
    /// A loss while the round-trip time swings forbids copies in packets of their own until then.
    crowded_until: Instant,
    saved: u32,
    departures: [Option<Instant>; MESSAGES_MAX],
    next: usize,
}

impl CopyScheduler {
    /// A scheduler that knows nothing of the path.
    #[must_use]
    pub fn new(redundancy: Redundancy) -> Self {
        Self {
            redundancy,
            rtt_min: WindowedMin::new(RTT_MIN_WINDOW),
            swing: Duration::ZERO,
            loss: LossRate::new(),
            throttle: Throttle::default(),
            quiet_until: Instant::ZERO,
            overloaded_until: Instant::ZERO,
            crowded_until: Instant::ZERO,
            saved: 0,
            departures: [None; MESSAGES_MAX],
            next: 0,
        }
    }

    /// What was known of the loss on the path stands for what is lost from now on, until more is seen.
    pub fn assume_loss(&mut self, known: KnownLoss) {
        self.loss = LossRate::assuming(known);
    }

    /// What is known of the loss on the path.
    #[must_use]
    pub fn known_loss(&self) -> KnownLoss {
        self.loss.known()
    }

    /// Changes the option; what was learned about the path stays.
    pub fn set_redundancy(&mut self, redundancy: Redundancy) {
        self.redundancy = redundancy;
    }

    /// The most that may be spent, if anything.
    #[must_use]
    pub fn budget(&self) -> Option<Budget> {
        self.redundancy.budget()
    }

    /// A round trip was measured, unambiguously. Without measurements a queue goes unnoticed.
    pub fn round_trip(&mut self, now: Instant, rtt: Duration) {
        self.rtt_min.sample(now, rtt);
        let excess = rtt.saturating_sub(self.rtt_min.get().unwrap_or(rtt));
        self.swing = excess.max(self.swing - self.swing / 16);
    }

    /// The first transmissions of `count` chunks turned out to have arrived.
    pub fn arrived(&mut self, count: u32) {
        self.loss.arrived(count);
    }

    /// The first transmission of a chunk turned out lost.
    pub fn lost(&mut self, now: Instant, srtt: Option<Duration>) {
        self.loss.lost();
        let swings = self.swings();
        if self.loss.is_rising() {
            self.loss.settle();
            self.congestion_signalled(now, srtt);
            if swings {
                self.overloaded_until = self.quiet_until;
            }
        } else if swings {
            self.crowded_until = self.crowded_until.max(now + quiet(srtt));
            self.throttle.crowded(now);
        }
    }

    /// Returns whether the round-trip time varies as much as it does behind a queue that fills and empties.
    fn swings(&self) -> bool {
        self.rtt_min.get().is_some_and(|rtt_min| self.swing > (rtt_min / 16).max(SWING_MIN))
    }

    /// The path shows congestion: no copy is made for eight round trips, at least a second.
    fn congestion_signalled(&mut self, now: Instant, srtt: Option<Duration>) {
        self.quiet_until = self.quiet_until.max(now + quiet(srtt));
        self.throttle.congested(now);
    }

    /// A message leaves for the first time: does it get a copy?
    pub fn message_sent(&mut self, message: &Departure) -> CopyDecision {
        let Some(spaced) = self.redundancy.budget().and_then(|budget| budget.copies) else {
            return CopyDecision::Not(WhyNot::Disabled);
        };
        self.note_departure(message.now);
        let is_congested = self.is_congested(message.now, message.srtt);
        if is_congested {
            self.throttle.congested(message.now);
        } else {
            self.throttle.clear(message.now);
        }
        let budget = u32::from(spaced.copies_per_thousand_messages).min(COPY_COST);
        if !message.thin {
            return CopyDecision::Not(WhyNot::NotThin);
        }
        let Some(srtt) = message.srtt else { return CopyDecision::Not(WhyNot::Unmeasured) };
        if !message.is_single_chunk {
            return CopyDecision::Not(WhyNot::Large);
        }
        if matches!(self.redundancy, Redundancy::Adaptive(_)) && self.loss.likely().is_negligible() {
            return CopyDecision::Not(WhyNot::Lossless);
        }
        if is_congested || message.now < self.crowded_until {
            return CopyDecision::Not(WhyNot::Congested);
        }
        if self.loss.long_run().exceeds_tcp(self.messages_within(message.now, srtt) * (COPY_COST + budget)) {
            return CopyDecision::Not(WhyNot::Unfair);
        }
        self.saved = (self.saved + self.throttle.share_of(budget)).min(SAVED_MAX);
        match self.saved.checked_sub(COPY_COST) {
            None => CopyDecision::Not(WhyNot::Budget),
            Some(left) => {
                self.saved = left;
                CopyDecision::At(message.now + spaced.spacing(srtt))
            }
        }
    }

    /// A copy that was paid for did not leave in a packet of its own, because the message was
    /// acknowledged or abandoned, or its chunk rode in another packet.
    pub fn copy_saved(&mut self) {
        self.saved = (self.saved + COPY_COST).min(SAVED_MAX);
    }

    /// How often a chunk of a thin stream may ride along now; one message waits in vain for another `bursts_per_rtt` times per round
    /// trip. The bytes of rides lengthen a queue that is there already, so that a queue forbids them as well. Rising losses alone do not: they
    /// are what rides are for.
    #[must_use]
    pub fn rides(&self, now: Instant, srtt: Option<Duration>, bursts_per_rtt: u32) -> Rides {
        match self.redundancy {
            _ if now < self.overloaded_until || self.has_queue(srtt) => Rides::NONE,
            Redundancy::Off => Rides::NONE,
            Redundancy::Always(budget) => Rides::always(budget.rides_max),
            Redundancy::Adaptive(budget) => Rides::against(self.loss.likely(), bursts_per_rtt, budget.rides_max),
        }
    }

    /// Returns whether nothing was lost of late that would matter to a thin stream.
    #[must_use]
    pub fn is_lossless(&self) -> bool {
        self.loss.likely().is_negligible()
    }

    /// Returns whether the path shows congestion.
    #[must_use]
    pub fn is_congested(&self, now: Instant, srtt: Option<Duration>) -> bool {
        now < self.quiet_until || self.has_queue(srtt)
    }

    /// The loss rate in the long run.
    #[must_use]
    pub fn loss(&self) -> LossShare {
        self.loss.long_run()
    }

    fn has_queue(&self, srtt: Option<Duration>) -> bool {
        srtt.zip(self.rtt_min.get())
            .is_some_and(|(srtt, rtt_min)| srtt > rtt_min.saturating_add((rtt_min / 8).max(QUEUE_MIN)))
    }

    fn note_departure(&mut self, now: Instant) {
        if let Some(slot) = self.departures.get_mut(self.next) {
            *slot = Some(now);
        }
        self.next = (self.next + 1) % MESSAGES_MAX;
    }

    /// Messages that left within the round trip before `now`, at most nine.
    fn messages_within(&self, now: Instant, srtt: Duration) -> u32 {
        let recent =
            self.departures.iter().flatten().filter(|&&at| at == now || now.saturating_duration_since(at) < srtt);
        recent.fold(0, |count, _| count + 1)
    }
}

/// For how long a sign of congestion forbids copies: eight round trips, at least a second.
fn quiet(srtt: Option<Duration>) -> Duration {
    srtt.unwrap_or_default().saturating_mul(8).max(QUIET_MIN)
}

impl fmt::Display for Redundancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Redundancy {
    type Err = UnknownRedundancy;

    fn from_str(text: &str) -> Result<Self, UnknownRedundancy> {
        let found = Self::NAMED.into_iter().find(|redundancy| redundancy.name() == text);
        found.ok_or_else(|| UnknownRedundancy { text: text.to_owned() })
    }
}

/// A text that names no [`Redundancy`]. Whoever wrote it is at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRedundancy {
    text: String,
}

impl fmt::Display for UnknownRedundancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown redundancy {:?}, expected one of:", self.text)?;
        for (index, name) in Redundancy::NAMED.iter().enumerate() {
            write!(f, "{} {name}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownRedundancy {}

#[cfg(test)]
mod tests;
