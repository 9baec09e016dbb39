//! Proactive copies of messages: which messages get a copy, and when it is sent.
//!
//! A retransmission cannot arrive earlier than one and a half round trips after the message was sent. A proactive copy
//! can: it repairs a loss within its spacing. It costs packets, which delay other traffic and cause losses. So it is an
//! option, has a budget, and stops by itself.
//!
//! # The spacing
//!
//! Take a round trip of 100 ms, independent losses of 5 %, and a spacing of `s`.
//! - 5 % of the originals are lost and arrive by their copy at 50 ms + `s`. With 0.25 % of pairs lost, that is the 99th
//!   percentile; a small `s` is better.
//! - A lost pair is repaired by a probe, which can be sent only when the acknowledgement of the *copy* is overdue.
//!   (Counted from the original, it would be spurious for every original that was lost and whose copy arrived, and for
//!   every lost SACK: one message in ten.) It arrives at about 155 ms + `s`, and that is the 99.9th percentile. A small
//!   `s` is better here, too.
//! - Losses come in bursts, and a copy inside the burst is wasted; a large `s` is better. Full drop-tail queues drop
//!   for about as long as they need to send a few packets, 12 ms for ten full packets at 10 Mbit/s. A radio link that
//!   is shadowed for half a second loses any copy sent within a round trip, and after a round trip a probe does the
//!   same and knows which chunks are missing. With bad periods of 500 ms on average, a copy after 10 ms is lost in 98 %
//!   of the cases where the original was, one after 100 ms still in 82 %. So long bursts are left to the probes.
//!
//! The default is a tenth of SRTT, at least 5 ms (bursts do not become shorter on a shorter path) and at most 25 ms: 60
//! ms and 165 ms in the example. `spacing_meets_its_targets` computes this.
//!
//! # Maximum added load, and fairness
//!
//! - Only thin streams make copies: at most four packets with new data per round trip, eight on a very lossy path
//!   ([`crate::thin`]), one copy for each. So a flow adds at most as many packets as it sends, and at the usual limit
//!   sends no more than eight packets per round trip, fewer than the initial window that RFC 6928 lets every flow send
//!   at once.
//! - Including copies, it never sends more than a TCP flow would at the same loss rate and round-trip time
//!   ([`LossShare::exceeds_tcp`]). That removes copies from the denser of the thin streams on lossy paths, where the
//!   loss may well be congestion; a stream of one packet per round trip keeps them up to a loss rate of 37 %.
//! - Many thin flows together can fill a link without any of them exceeding that. So each watches for signs of
//!   congestion: a queue (SRTT well above the smallest round-trip time of the last minutes), a loss rate that has risen
//!   to three times its former value, as it does if the copies themselves overload the link, and any loss while
//!   round-trip times swing by milliseconds, as they do behind a queue that is short because its packets are small.
//!   While there is a sign no copies are made. Afterwards they return in proportion to a share, which each sign halves,
//!   at most once per half second, and which such a loss sets to zero. The share recovers by 1/32 in two seconds:
//!   additive increase and multiplicative decrease, so that a crowd settles where its copies leave no queue. From zero
//!   to full takes 64 s, twice as long after a loss behind a queue, and with each further one twice as long again.
//! - A copy hides the loss of its original from the receiver, but must not hide it from the sender: such a loss counts
//!   for the loss rate, and the caller reports it to its congestion control.
//!
//! One case is not detected: a queue that exists from the first packet on and never shrinks looks like a long path. A
//! thin flow that starts in it makes copies until losses stop it.

mod piggyback;
mod protection;
mod throttle;

use festina_units::{Duration, Instant, OptionalInstant};

use crate::{
    bursts::Bursts,
    loss_rate::{KnownLoss, LossRate, LossShare},
    windowed_min::WindowedMin,
};
pub use piggyback::Piggyback;
pub use protection::{Circumstances, Code, Protection, RATE_PARTS};
use throttle::Throttle;

/// The budget of an association for copies of data that is not known to be lost.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Redundancy {
    /// No copies.
    #[default]
    Off,
    /// As much as the measured loss requires, at most this budget: nothing on a path without loss ([`Piggyback::against`]).
    Adaptive(Budget),
    /// The whole budget, regardless of losses.
    Always(Budget),
}

/// The maximum cost of redundancy. A message may be repeated in two ways: as a *piggybacked copy* in a packet that is
/// sent anyway (P06 §4.4, redundant bundling), which costs bytes but no packet; or as a *spaced copy* in a separate
/// packet. Where it costs fewer bytes, a *code* may take the place of the piggybacked copies: weighted sums of messages, from which a peer that
/// has agreed to it computes the lost ones.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How often a chunk may be piggybacked before it is overdue.
    pub piggybacked_max: u8,
    /// Bytes of piggybacked copies per hundred bytes of new data, in the long run.
    pub piggyback_percent: u16,
    /// The spaced copies, if enabled.
    pub copies: Option<Spaced>,
    /// Whether the code may take the place of piggybacked copies. It is offered to the peer in the handshake.
    pub code: bool,
}

impl Budget {
    /// Piggybacked copies only. Three at most: at a loss of 10 % one message in ten thousand then has to wait for a probe. The byte
    /// budget leaves room for the chunks piggybacked during silence, however often they were sent.
    pub const PIGGYBACK: Self = Self { piggybacked_max: 3, piggyback_percent: 350, copies: None, code: false };

    /// Piggybacked copies, or the code.
    pub const CODE: Self = Self { code: true, ..Self::PIGGYBACK };

    /// Piggybacked copies, and a spaced copy of every message at the default spacing.
    pub const SPACED: Self = Self { copies: Some(Spaced::DEFAULT), ..Self::PIGGYBACK };
}

impl Redundancy {
    /// Piggybacked copies or the code, as the measured loss requires: the default of the `festina` profile.
    pub const ADAPTIVE: Self = Self::Adaptive(Budget::CODE);
    /// Piggybacked copies as the measured loss requires.
    pub const ADAPTIVE_COPIES: Self = Self::Adaptive(Budget::PIGGYBACK);
    /// Piggybacked and spaced copies as the measured loss requires.
    pub const ADAPTIVE_SPACED: Self = Self::Adaptive(Budget::SPACED);
    /// Piggybacked copies in every packet that has room.
    pub const BUNDLED: Self = Self::Always(Budget::PIGGYBACK);
    /// Piggybacked copies in every packet that has room, and a spaced copy of every message.
    pub const SPACED: Self = Self::Always(Budget::SPACED);

    /// All named variants.
    pub const NAMED: [Self; 6] =
        [Self::Off, Self::ADAPTIVE, Self::ADAPTIVE_COPIES, Self::ADAPTIVE_SPACED, Self::BUNDLED, Self::SPACED];

    /// Returns the name as used on a command line; budgets without a name have that of their kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Adaptive(Budget { copies: None, code: true, .. }) => "adaptive",
            Self::Adaptive(Budget { copies: None, .. }) => "adaptive-copies",
            Self::Adaptive(_) => "adaptive-spaced",
            Self::Always(Budget { copies: None, .. }) => "bundled",
            Self::Always(_) => "spaced",
        }
    }

    /// Returns the budget, if redundancy is enabled.
    #[must_use]
    pub fn budget(self) -> Option<Budget> {
        match self {
            Self::Off => None,
            Self::Adaptive(budget) | Self::Always(budget) => Some(budget),
        }
    }

    /// Returns whether the code may be used. Only the adaptive setting knows how much of it a path needs.
    #[must_use]
    pub const fn codes(self) -> bool {
        matches!(self, Self::Adaptive(Budget { code: true, .. }))
    }

    /// Returns the same without the code, for a peer that does not know it.
    #[must_use]
    pub fn without_code(self) -> Self {
        match self {
            Self::Adaptive(budget) => Self::Adaptive(Budget { code: false, ..budget }),
            other => other,
        }
    }
}

/// Copies in separate packets.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Spaced {
    /// Time from a message's first transmission to its copy; `None` selects the default given in the module
    /// documentation.
    pub spacing: Option<Duration>,
    /// The budget in packets: 1000 gives each message a copy; larger values count as 1000.
    pub copies_per_thousand_messages: u16,
}

impl Spaced {
    /// A copy of every message, at the default spacing.
    pub const DEFAULT: Self = Self { spacing: None, copies_per_thousand_messages: 1_000 };

    /// Returns the time from a message's first transmission to its copy.
    #[must_use]
    pub fn spacing(self, srtt: Duration) -> Duration {
        self.spacing.unwrap_or_else(|| (srtt / 10).clamp(SPACING_MIN, SPACING_MAX))
    }
}

const SPACING_MIN: Duration = Duration::from_millis(5);
const SPACING_MAX: Duration = Duration::from_millis(25);

/// Time from a retransmission to its repetition, as a part of the smallest round-trip time: less than the sixteenth that
/// [`crate::spurious::answers_earlier`] allows for, so that the answer to the first of the pair is not taken for that to an
/// earlier transmission. And at most this time, as it delays the repair.
const RESEND_SPACING_PARTS: u32 = 20;
const RESEND_SPACING_MAX: Duration = Duration::from_millis(10);

/// How long the smallest round-trip time is remembered; longer than queues persist.
const RTT_MIN_WINDOW: Duration = Duration::from_secs(300);

/// SRTT above the smallest round-trip time by less than this is not a queue but the effect of timers and schedulers.
const QUEUE_MIN: Duration = Duration::from_millis(10);

/// A loss while the round-trip time swings by less than this, or by less than a sixteenth of its minimum, does not
/// indicate a queue. A router's queue that counts packets can be full of small ones, and then is only a few
/// milliseconds long.
const SWING_MIN: Duration = Duration::from_millis(4);

/// Minimum time for which a rising loss rate forbids copies.
const QUIET_MIN: Duration = Duration::from_secs(1);

/// Number of message times remembered; a stream with more per round trip is not thin by any rule.
const MESSAGES_MAX: usize = 9;

/// Cost of a copy, in thousandths of a copy.
const COPY_COST: u32 = 1_000;

/// Repetitions of retransmissions that a message earns, in thousandths: enough for a loss of one packet in ten each way. In
/// an outage, when nearly all packets are retransmissions, few are repeated.
const RESENDS_EARNED: u32 = 250;

/// Maximum saved budget: the unspent budget of a quiet path must not become a burst.
const SAVED_MAX: u32 = 2 * COPY_COST;

/// The state of the sender when a message leaves.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Time of its first transmission.
    pub now: Instant,
    /// Whether the stream is thin ([`crate::thin::ThinDetector::is_thin`]).
    pub thin: bool,
    /// The smoothed round-trip time, if any.
    pub srtt: Option<Duration>,
    /// Whether the message is one chunk, so that one packet carries it.
    pub is_single_chunk: bool,
    /// The application asks for a copy in a separate packet this long after the message.
    pub duplicate_after: Option<Duration>,
}

/// The packets with new data of a thin stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StreamShape {
    /// Their number per round trip, at least one. That many messages wait behind a lost one.
    pub bursts_per_rtt: u32,
    /// Bytes of new chunks in one.
    pub chunk_bytes: u32,
}

/// Whether a message gets a copy in a separate packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CopyDecision {
    /// It is charged to the budget and sent at this time, unless the message is acknowledged, abandoned or
    /// retransmitted before.
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
    /// No round trip was measured yet, so the path is unknown.
    Unmeasured,
    /// The message needs several packets; a copy of one of them would not deliver it.
    Large,
    /// The path shows no loss.
    Lossless,
    /// Copies or the code in the next packets repair most losses.
    Protected,
    /// The path shows congestion, or did recently.
    Congested,
    /// With copies the stream would send more than a TCP flow on this path.
    Unfair,
    /// The budget is spent, or the share that remains after congestion.
    Budget,
}

/// Decides about the copies of one association's messages, and accounts for them.
#[derive(Clone, Debug)]
pub struct CopyScheduler {
    redundancy: Redundancy,
    rtt_min: WindowedMin,
    /// Recent maximum of the round-trip time above its minimum, which falls by a sixteenth with each sample.
    swing: Duration,
    loss: LossRate,
    bursts: Bursts,
    throttle: Throttle,
    /// A rising loss rate forbids copies until this time.
    quiet_until: Instant,
    /// A rising loss rate while the round-trip time swings forbids piggybacked copies until this time.
    overloaded_until: Instant,
    /// A loss while the round-trip time swings forbids copies in separate packets until this time.
    crowded_until: Instant,
    saved: u32,
    saved_resends: u32,
    departures: [OptionalInstant; MESSAGES_MAX],
    next: usize,
    /// A code protects the last new chunk.
    is_coded: bool,
}

impl CopyScheduler {
    /// Creates a scheduler without knowledge of the path.
    #[must_use]
    pub fn new(redundancy: Redundancy) -> Self {
        Self {
            redundancy,
            rtt_min: WindowedMin::new(RTT_MIN_WINDOW),
            swing: Duration::ZERO,
            loss: LossRate::new(),
            bursts: Bursts::default(),
            throttle: Throttle::default(),
            quiet_until: Instant::ZERO,
            overloaded_until: Instant::ZERO,
            crowded_until: Instant::ZERO,
            saved: 0,
            saved_resends: 0,
            departures: [OptionalInstant::NONE; MESSAGES_MAX],
            next: 0,
            is_coded: false,
        }
    }

    /// Assumes the known loss of the path until more is measured.
    pub fn assume_loss(&mut self, known: KnownLoss) {
        self.loss = LossRate::assuming(known);
    }

    /// Returns the knowledge of the loss on the path.
    #[must_use]
    pub fn known_loss(&self) -> KnownLoss {
        self.loss.known()
    }

    /// Changes the option and keeps the knowledge of the path.
    pub fn set_redundancy(&mut self, redundancy: Redundancy) {
        self.redundancy = redundancy;
    }

    /// Returns the budget, if redundancy is enabled.
    #[must_use]
    pub fn budget(&self) -> Option<Budget> {
        self.redundancy.budget()
    }

    /// Records an unambiguous round-trip time. Without measurements a queue is not detected.
    pub fn round_trip(&mut self, now: Instant, rtt: Duration) {
        self.rtt_min.sample(now, rtt);
        let excess = rtt.saturating_sub(self.rtt_min.get().unwrap_or(rtt));
        self.swing = excess.max(self.swing - self.swing / 16);
    }

    /// Records that the first transmissions of `count` chunks arrived.
    pub fn arrived(&mut self, count: u32) {
        self.loss.arrived(count);
    }

    /// Records that the first transmission of a chunk was lost.
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

    /// Records which packet that was, by a number that rises by one from packet to packet: losses may come in bursts.
    pub fn lost_packet(&mut self, number: u64) {
        self.bursts.lost(number);
    }

    /// Records that a packet that was reported lost has arrived.
    pub fn was_late(&mut self, number: u64) {
        self.loss.was_late();
        self.bursts.was_late(number);
    }

    /// Returns whether the round-trip time varies as much as it does behind a queue that fills and empties.
    fn swings(&self) -> bool {
        self.rtt_min.get().is_some_and(|rtt_min| self.swing > (rtt_min / 16).max(SWING_MIN))
    }

    /// Forbids copies for eight round trips, at least a second, after a sign of congestion.
    fn congestion_signalled(&mut self, now: Instant, srtt: Option<Duration>) {
        self.quiet_until = self.quiet_until.max(now + quiet(srtt));
        self.throttle.congested(now);
    }

    /// Decides whether a message that is sent for the first time gets a copy.
    pub fn message_sent(&mut self, message: &Departure) -> CopyDecision {
        let Some(budget) = self.redundancy.budget() else { return CopyDecision::Not(WhyNot::Disabled) };
        self.note_departure(message.now);
        let is_congested = self.look_for_congestion(message.now, message.srtt);
        self.saved_resends = (self.saved_resends + self.throttle.share_of(RESENDS_EARNED)).min(SAVED_MAX);
        let duplicate = message.duplicate_after.map(|after| Spaced { spacing: Some(after), ..Spaced::DEFAULT });
        let Some(spaced) = duplicate.or(budget.copies) else { return CopyDecision::Not(WhyNot::Disabled) };
        let budget = u32::from(spaced.copies_per_thousand_messages).min(COPY_COST);
        if !message.thin {
            return CopyDecision::Not(WhyNot::NotThin);
        }
        let Some(srtt) = message.srtt else { return CopyDecision::Not(WhyNot::Unmeasured) };
        if !message.is_single_chunk {
            return CopyDecision::Not(WhyNot::Large);
        }
        // The losses of a stream whose messages replace each other are not seen, so a wish does not depend on them.
        let is_by_loss = duplicate.is_none() && matches!(self.redundancy, Redundancy::Adaptive(_));
        if is_by_loss && self.loss.likely().is_negligible() {
            return CopyDecision::Not(WhyNot::Lossless);
        }
        if is_congested || message.now < self.crowded_until {
            return CopyDecision::Not(WhyNot::Congested);
        }
        let sent = match duplicate {
            Some(_) => self.thousandths_within(message.now, srtt),
            None => self.messages_within(message.now, srtt) * COPY_COST,
        };
        if self.loss.long_run().exceeds_tcp(sent + sent * budget / COPY_COST) {
            return CopyDecision::Not(WhyNot::Unfair);
        }
        self.saved = (self.saved + self.throttle.share_of(budget)).min(SAVED_MAX);
        charge(&mut self.saved, message.now + spaced.spacing(srtt))
    }

    /// Decides whether a retransmission is repeated, and when: if a message is often lost together with its
    /// retransmission ([`LossShare::takes_pairs`]), and the next packets of the `stream` do not repair most losses before.
    pub fn resent(&mut self, resend: &Departure, stream: StreamShape) -> CopyDecision {
        if self.protection(resend.now, None, stream).is_ahead_of_resends(stream.bursts_per_rtt) {
            return CopyDecision::Not(WhyNot::Protected);
        }
        let spacing = |rtt_min: Duration| (rtt_min / RESEND_SPACING_PARTS).min(RESEND_SPACING_MAX);
        self.repeat(resend, LossShare::takes_pairs, spacing)
    }

    /// Decides whether a message that no newer one replaced in time is sent again at once: unless losses are negligible. It
    /// is paid like a repeated retransmission.
    pub fn paused(&mut self, last: &Departure) -> CopyDecision {
        self.repeat(last, |loss| !loss.is_negligible(), |_| Duration::ZERO)
    }

    fn repeat(
        &mut self,
        of: &Departure,
        is_likely_lost: impl FnOnce(LossShare) -> bool,
        spacing: impl FnOnce(Duration) -> Duration,
    ) -> CopyDecision {
        if self.redundancy == Redundancy::Off {
            return CopyDecision::Not(WhyNot::Disabled);
        }
        let is_congested = self.look_for_congestion(of.now, of.srtt);
        if !of.thin {
            return CopyDecision::Not(WhyNot::NotThin);
        }
        let (Some(srtt), Some(rtt_min)) = (of.srtt, self.rtt_min.get()) else {
            return CopyDecision::Not(WhyNot::Unmeasured);
        };
        if !is_likely_lost(self.loss.likely()) {
            return CopyDecision::Not(WhyNot::Lossless);
        }
        if is_congested || of.now < self.crowded_until || of.now < self.overloaded_until {
            return CopyDecision::Not(WhyNot::Congested);
        }
        if self.loss.long_run().exceeds_tcp((self.messages_within(of.now, srtt) + 1) * COPY_COST) {
            return CopyDecision::Not(WhyNot::Unfair);
        }
        charge(&mut self.saved_resends, of.now + spacing(rtt_min))
    }

    /// Takes note of congestion, or of its absence. Returns whether the path is congested.
    fn look_for_congestion(&mut self, now: Instant, srtt: Option<Duration>) -> bool {
        let is_congested = self.is_congested(now, srtt);
        if is_congested {
            self.throttle.congested(now);
        } else {
            self.throttle.clear(now);
        }
        is_congested
    }

    /// Refunds a copy that was charged but not sent in a separate packet, because the message was acknowledged or
    /// abandoned, or its chunk was piggybacked.
    pub fn copy_saved(&mut self) {
        self.saved = (self.saved + COPY_COST).min(SAVED_MAX);
    }

    /// Returns whether [`protection`](Self::protection) is none for any stream, because redundancy follows losses and there were none lately.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.redundancy, Redundancy::Adaptive(_)) && !self.is_coded && self.loss.is_lossless()
    }

    /// Returns the protection of a thin stream's chunks now. Its bytes lengthen an existing queue, so a queue forbids it as well as
    /// spaced copies. A rising loss rate alone does not: it is meant for that.
    #[must_use]
    pub fn protection(&self, now: Instant, srtt: Option<Duration>, stream: StreamShape) -> Protection {
        let StreamShape { bursts_per_rtt, chunk_bytes } = stream;
        match self.redundancy {
            _ if now < self.overloaded_until || self.has_queue(srtt) => Protection::NONE,
            Redundancy::Off => Protection::NONE,
            Redundancy::Always(budget) => Protection::Copies(Piggyback::always(budget.piggybacked_max)),
            Redundancy::Adaptive(budget) => {
                let likely = self.loss.likely();
                let burst_distance = self.bursts.distance(likely);
                // The code costs half of what copies cost, so it may last longer.
                let loss = if self.is_coded { self.loss.remembered() } else { likely };
                // Only the code asks.
                let spares = budget.code && !self.is_congested(now, srtt) && now >= self.crowded_until;
                let spare_packets = if spares { self.spare_packets(bursts_per_rtt) } else { 0 };
                let around = Circumstances {
                    loss,
                    burst_distance,
                    is_independent: !budget.code || !self.bursts.are_likely(likely),
                    bursts_per_rtt,
                    chunk_bytes,
                    spare_packets,
                    is_coded: self.is_coded,
                };
                Protection::adaptive(budget, &around)
            }
        }
    }

    /// Records how a new chunk is protected.
    pub fn protected(&mut self, protection: &Protection) {
        self.is_coded = protection.code().is_some();
    }

    /// Returns how many packets more than those with new data a TCP flow would send, in parts of [`RATE_PARTS`] of these.
    fn spare_packets(&self, bursts_per_rtt: u32) -> u32 {
        let sent = bursts_per_rtt.saturating_mul(COPY_COST);
        let of_tcp = self.loss.long_run().tcp_packets_per_thousand_rtts();
        let spare = u64::from(of_tcp.saturating_sub(sent)) * u64::from(RATE_PARTS) / u64::from(sent.max(1));
        u32::try_from(spare).unwrap_or(u32::MAX)
    }

    /// Returns whether recent losses are negligible for a thin stream.
    #[must_use]
    pub fn is_lossless(&self) -> bool {
        self.loss.likely().is_negligible()
    }

    /// Returns whether the path shows congestion.
    #[must_use]
    pub fn is_congested(&self, now: Instant, srtt: Option<Duration>) -> bool {
        now < self.quiet_until || self.has_queue(srtt)
    }

    /// Returns the loss rate in the long run.
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
            *slot = now.into();
        }
        self.next = (self.next + 1) % MESSAGES_MAX;
    }

    /// The times of the last messages.
    fn departed(&self) -> impl Iterator<Item = Instant> {
        self.departures.iter().filter_map(|at| at.get())
    }

    /// Returns the number of messages sent within the round trip before `now`, at most nine.
    fn messages_within(&self, now: Instant, srtt: Duration) -> u32 {
        let recent = self.departed().filter(|&at| at == now || now.saturating_duration_since(at) < srtt);
        recent.fold(0, |count, _| count + 1)
    }

    /// Returns the messages per round trip in thousandths, by the time between those sent within the round trip before
    /// `now`. A regular stream need not have a whole number of them.
    fn thousandths_within(&self, now: Instant, srtt: Duration) -> u32 {
        let messages = self.messages_within(now, srtt);
        let ages = self.departed().map(|at| now.saturating_duration_since(at));
        let oldest = ages.filter(|&age| age < srtt).max().unwrap_or_default();
        let between = u128::from(messages.saturating_sub(1)) * srtt.as_nanos() * u128::from(COPY_COST);
        let rate = between.checked_div(oldest.as_nanos()).and_then(|rate| u32::try_from(rate).ok());
        rate.map_or(messages * COPY_COST, |rate| rate.min(messages * COPY_COST))
    }
}

/// Charges the copy that would leave at `at` to the saved budget.
fn charge(saved: &mut u32, at: Instant) -> CopyDecision {
    match saved.checked_sub(COPY_COST) {
        None => CopyDecision::Not(WhyNot::Budget),
        Some(left) => {
            *saved = left;
            CopyDecision::At(at)
        }
    }
}

/// How long a sign of congestion forbids copies: eight round trips, at least a second.
fn quiet(srtt: Option<Duration>) -> Duration {
    srtt.unwrap_or_default().saturating_mul(8).max(QUIET_MIN)
}

festina_units::text_is_name!(
    Redundancy,
    Redundancy::NAMED.into_iter(),
    /// Text that is not the name of a [`Redundancy`]: an error of the caller.
    UnknownRedundancy,
    "redundancy"
);

#[cfg(test)]
mod tests;
