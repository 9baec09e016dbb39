//! The sender's state of each path to the peer: repair, congestion window, burst limit, packet sizes.
//!
//! It contains no addresses and no heartbeats, which belong to the association. State shared by all paths, such as the ledger, the messages and the
//! peer's window, belongs to the [`Sender`](super::Sender).

use core::cmp::Ordering;
use std::sync::Arc;

use festina_recovery::Mechanisms;
use festina_recovery::early_copy::{EarlyCopies, KnownRoundTrip, Pace};
use festina_recovery::loss_rate::KnownLoss;
use festina_recovery::profile::ImmediateSack;
use festina_recovery::rtt::AssumedRoundTrip;
use festina_units::{Duration, Instant};

use super::backlog::Surroundings;
use super::flight::{Flight, PathTerms};
use super::limits::{Burst, Duties, PacketSizes, PathLimits, chunks_in};
use super::marking::Marking;
use super::repair::{Repair, Verdict, WindowVerdict};
use super::search::{Search, Times};
use crate::config::{Config, PACKET_BYTES_MIN};
use crate::congestion::{Ack, Congestion};
use crate::event::Events;
use crate::outstanding::{Digest, Ledger, PathId};
use crate::wire::{COMMON_HEADER_BYTES, Sack};

/// The sending side of one path.
#[derive(Debug)]
pub(crate) struct SendPath {
    pub(super) repair: Repair,
    pub(super) limits: PathLimits,
    /// Once both ends have agreed to ECN.
    pub(super) marking: Option<Marking>,
    /// When DATA last left; the start, if it never did.
    pub(super) last_sent_at: Instant,
    /// Once there was data for larger packets than those that every path carries.
    pub(super) search: Option<Box<Search>>,
}

/// The paths of an association as its sender sees them.
pub(crate) trait SendPaths {
    /// The path that new data is sent on.
    fn primary(&mut self) -> &mut SendPath;

    /// The path with this number, or the primary path if there is none.
    fn of(&mut self, id: PathId) -> &mut SendPath;

    /// All paths.
    fn all(&mut self) -> impl Iterator<Item = &mut SendPath>;
}

/// A path that is the only one.
impl SendPaths for SendPath {
    #[inline]
    fn primary(&mut self) -> &mut SendPath {
        self
    }

    #[inline]
    fn of(&mut self, _: PathId) -> &mut SendPath {
        self
    }

    #[inline]
    fn all(&mut self) -> impl Iterator<Item = &mut SendPath> {
        core::iter::once(self)
    }
}

/// Effect of an event on the congestion window before repair judges it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pressure {
    /// Nothing.
    None,
    /// An acknowledgement.
    Acked(Ack),
    /// New data comes after nothing was in flight for `idle` (RFC 9260 §7.2.1).
    Idle { now: Instant, idle: Duration, rto: Duration },
}

impl SendPath {
    /// A path that nothing has left by; `mechanisms` stand in for those of `config`. The initial cwnd of the standard depends on the
    /// address family by `initial_window_bytes` (RFC 9260 §7.2.1).
    pub(crate) fn new(
        now: Instant,
        id: PathId,
        config: &Config,
        mechanisms: Arc<Mechanisms>,
        initial_window_bytes: u16,
    ) -> Self {
        let limits = &config.limits;
        let sizes = PacketSizes::new(limits.packet_bytes_max, initial_window_bytes);
        let sizes = sizes.searching_to(limits.packet_bytes_searched_max);
        let congestion = Congestion::new(config.congestion, sizes.chunks(), sizes.initial_window.into());
        Self {
            repair: Repair::new(config, mechanisms),
            limits: PathLimits { id, duties: Duties::ALL, burst: Burst::new(config, &congestion), congestion, sizes },
            marking: None,
            last_sent_at: now,
            search: None,
        }
    }

    /// The peer restarted: discards all measurements (RFC 9260 §5.2.4.1).
    pub(crate) fn reset_for_restart(&mut self, now: Instant, config: &Config) {
        self.repair = Repair::new(config, Arc::new(*self.repair.mechanisms()));
        self.limits.congestion =
            Congestion::new(config.congestion, self.limits.sizes.chunks(), self.limits.sizes.initial_window.into());
        self.limits.burst.restart();
        self.marking = None;
        self.last_sent_at = now;
        self.restart_search();
    }

    /// The peer moved to another address: discards all measurements. Timers of chunks in flight continue.
    pub(crate) fn forget_path(&mut self, config: &Config, initial_window_bytes: u16, assumed: AssumedRoundTrip) {
        self.repair.forget_path(assumed);
        // Whether this path passes ECN is unknown.
        self.marking = self.marking.as_ref().map(|_| Marking::begin());
        self.limits.sizes.initial_window = initial_window_bytes;
        self.restart_search();
        self.limits.congestion =
            Congestion::new(config.congestion, self.limits.sizes.chunks(), initial_window_bytes.into());
        self.limits.burst.restart();
    }

    #[inline]
    pub(crate) fn id(&self) -> PathId {
        self.limits.id
    }

    /// Returns the largest packet that new messages are cut to.
    pub(crate) fn packet_bytes_max(&self) -> usize {
        self.limits.sizes.packet()
    }

    /// Lowers the packet size, but not below the minimum setting. Returns false if it is already no larger.
    ///
    /// The congestion window keeps counting in the original size, which the packets in flight still have.
    pub(crate) fn limit_packet_bytes(&mut self, bytes: usize) -> bool {
        let (sizes, bytes) = (&mut self.limits.sizes, bytes.max(PACKET_BYTES_MIN));
        let limited = chunks_in(bytes);
        sizes.ceiling = sizes.ceiling.min(limited);
        if let Some(search) = &mut self.search {
            search.limit(bytes);
        }
        if limited >= sizes.chunks {
            return false;
        }
        sizes.chunks = limited;
        true
    }

    /// Returns whether larger packets than the present ones may be searched for.
    #[inline]
    pub(crate) fn may_search(&self) -> bool {
        self.limits.sizes.ceiling > self.limits.sizes.chunks
    }

    /// The size up to which larger packets are searched for.
    pub(crate) fn searched_max(&self) -> usize {
        self.limits.sizes.ceiling as usize + COMMON_HEADER_BYTES
    }

    /// Looks for larger packets, inside of this many bytes of headers.
    pub(crate) fn search(&mut self, now: Instant, header_bytes: usize) {
        let (base, ceiling) = (self.limits.sizes.packet(), self.searched_max());
        self.search.get_or_insert_with(|| Box::new(Search::new(base, header_bytes))).is_wanted(now, ceiling);
    }

    /// The search for larger packets, once it began.
    #[inline]
    pub(crate) fn searching(&self) -> Option<&Search> {
        self.search.as_deref()
    }

    /// As [`searching`](Self::searching).
    #[inline]
    pub(crate) fn searching_mut(&mut self) -> Option<&mut Search> {
        self.search.as_deref_mut()
    }

    /// Sets the packet size to one that was found. Returns the change.
    pub(crate) fn resize(&mut self, bytes: usize) -> Ordering {
        let (sizes, chunks) = (&mut self.limits.sizes, chunks_in(bytes));
        let change = chunks.cmp(&sizes.chunks);
        if change != Ordering::Equal {
            sizes.chunks = chunks;
            self.limits.congestion.set_packet_bytes(sizes.chunks());
        }
        change
    }

    /// The path leads elsewhere: packets have their first size again.
    fn restart_search(&mut self) {
        if let Some(search) = &mut self.search {
            search.restart();
            self.limits.sizes.chunks = chunks_in(search.found());
        }
    }

    /// What the estimator says of round trips.
    pub(super) fn times(&self) -> Times {
        Times { rto: self.rto(), srtt: self.srtt().unwrap_or_default() }
    }

    /// Both ends support ECN, and the handshake is complete: packets become ECN-capable.
    pub(crate) fn begin_marking(&mut self) {
        self.marking = Some(Marking::begin());
    }

    /// Whether both ends have agreed to REPAIR chunks.
    pub(crate) fn set_peer_decodes(&mut self, is_agreed: bool) {
        self.repair.set_peer_decodes(is_agreed);
    }

    /// Sets the data that the path carries from now on.
    pub(crate) fn set_duties(&mut self, duties: Duties) {
        self.limits.duties = duties;
    }

    /// The data that the path carries.
    #[inline]
    pub(crate) fn duties(&self) -> Duties {
        self.limits.duties
    }

    /// Nothing will be repaired any more.
    pub(crate) fn stop(&mut self) {
        self.repair.stop();
    }

    /// Gives back memory. Nothing may be outstanding.
    pub(super) fn give_back_memory(&mut self) {
        self.repair.give_back_memory();
        self.limits.congestion.give_back_memory();
    }

    /// The loss-recovery mechanisms.
    pub(crate) fn mechanisms(&self) -> &Mechanisms {
        self.repair.mechanisms()
    }

    /// A packet with data of the peer came.
    #[inline]
    pub(crate) fn peer_data_came(&mut self, now: Instant) {
        self.repair.peer_data_came(now);
    }

    /// The retransmission timeout, backoff included.
    pub(crate) fn rto(&self) -> Duration {
        self.repair.rto()
    }

    /// Changes the upper bound of the retransmission timeout.
    pub(crate) fn set_rto_max(&mut self, rto_max: Duration) {
        self.repair.set_rto_max(rto_max);
    }

    /// Returns whether control chunks are repeated ahead of their timers.
    pub(crate) fn copies_control_early(&self) -> bool {
        self.mechanisms().early_copies != EarlyCopies::Off
    }

    /// Spacing of early copies of a control chunk sent now, if there are any.
    pub(crate) fn control_pace(&self) -> Option<Pace> {
        self.pace(KnownRoundTrip::by(self.repair.rtt()))
    }

    /// The same if an answer came just now and the round trip lies between these bounds. Unless the round trip that is known lies
    /// between them, the longest possible one is assumed until one is measured.
    pub(crate) fn bounded_control_pace(&mut self, (shortest, longest): (Duration, Duration)) -> Option<Pace> {
        if !self.copies_control_early() {
            return None;
        }
        if self.repair.rtt().srtt().is_some_and(|srtt| (shortest..=longest).contains(&srtt)) {
            return self.control_pace();
        }
        self.repair.assume_round_trip_one_of(shortest, longest);
        self.pace(KnownRoundTrip::AtLeast(shortest))
    }

    fn pace(&self, known: KnownRoundTrip) -> Option<Pace> {
        let Mechanisms { early_copies, redundancy, .. } = *self.mechanisms();
        early_copies.pace(known, redundancy)
    }

    /// Returns the round-trip estimate, unless nothing was measured.
    pub(crate) fn measured_round_trip(&self) -> Option<AssumedRoundTrip> {
        let rtt = self.repair.rtt();
        rtt.rtt_latest().and_then(|_| AssumedRoundTrip::by(rtt))
    }

    /// New data follows after `silence` without a packet on this path. The standard keeps its estimate (RFC 9260 §6.3.1).
    pub(crate) fn was_silent(&mut self, silence: Duration) {
        if self.copies_control_early() {
            self.repair.was_silent(silence);
        }
    }

    /// The peer has just answered: ends a T3-rtx wait that an outage backed off.
    pub(crate) fn shorten_timeout(&mut self, now: Instant) {
        self.repair.shorten_timeout(now);
    }

    /// Takes a round trip for granted until one is measured.
    pub(crate) fn assume_round_trip(&mut self, assumed: AssumedRoundTrip) {
        self.repair.assume_round_trip(assumed);
    }

    /// Returns the estimated loss.
    pub(crate) fn known_loss(&self) -> KnownLoss {
        self.repair.known_loss()
    }

    /// Takes this loss for granted until another is seen. Before the first data.
    pub(crate) fn assume_loss(&mut self, known: KnownLoss) {
        self.repair.assume_loss(known);
    }

    /// How much later than SRTT recently reordered packets arrived, if there were any.
    pub(crate) fn known_lateness(&self, now: Instant) -> Option<Duration> {
        self.repair.known_lateness(now)
    }

    /// Assumes that packets are reordered and arrive up to `lateness` later than SRTT.
    pub(crate) fn assume_lateness(&mut self, now: Instant, lateness: Duration) {
        self.repair.assume_lateness(now, lateness);
    }

    /// The values on which partial reliability depends. An acknowledgement is overdue after SRTT plus 4 RTTVAR, at least SRTT/4.
    pub(super) fn terms(&self) -> PathTerms {
        let (rtt, packet_bytes) = (self.repair.rtt(), self.limits.sizes.chunks());
        let Some(srtt) = rtt.srtt() else {
            let rto = self.rto();
            return PathTerms { round_trip: rto, patience: rto, packet_bytes };
        };
        let patience = srtt + (srtt / 4).max(rtt.rttvar().unwrap_or_default() * 4);
        PathTerms { round_trip: srtt, patience, packet_bytes }
    }

    /// The smoothed round-trip time, once one was measured.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.repair.rtt().srtt()
    }

    /// Whether SACKs are asked for where their delay would matter.
    pub(crate) fn has_prompt_sacks(&self) -> bool {
        self.repair.is_thin() && self.mechanisms().thin.immediate_sack == ImmediateSack::Needed
    }

    /// The congestion window.
    pub(crate) fn cwnd_bytes(&self) -> usize {
        self.limits.congestion.cwnd()
    }

    /// Whether the stream is thin.
    pub(crate) fn is_thin(&self) -> bool {
        self.repair.is_thin()
    }

    /// Sets whether the next acknowledgements measure this path.
    pub(crate) fn set_measures(&mut self, measures: bool) {
        self.repair.set_measures(measures);
    }

    /// An acknowledgement that came by another path leaves open which copy of a chunk it answers.
    pub(crate) fn leave_unsettled(&mut self) {
        self.repair.leave_unsettled();
    }

    /// The time after which an acknowledgement is overdue.
    pub(crate) fn patience(&self) -> Duration {
        self.terms().patience
    }

    /// The inputs of the send buffer's backlog.
    pub(super) fn surroundings(&self, ledger: &Ledger) -> Surroundings {
        Surroundings {
            cwnd_bytes: self.limits.congestion.cwnd(),
            outstanding_bytes: ledger.on_the_way_bytes(self.limits.id) + ledger.lost().bytes,
            packet_bytes: self.limits.sizes.chunks(),
            srtt: self.repair.rtt().srtt(),
        }
    }

    /// The effects of an acknowledgement on window, repair and ECN.
    pub(super) fn react(
        &mut self,
        now: Instant,
        sack: Option<&Sack<'_>>,
        digest: &Digest,
        flight: &mut Flight,
        events: &mut Events,
    ) -> Verdict {
        if let Some(marking) = &mut self.marking {
            marking.acked(flight.ledger.first_tsn());
        }
        let credit = digest.credits.of(self.limits.id);
        if let Some(search) = &mut self.search {
            search.acked(credit, self.limits.sizes.chunks());
        }
        let newest = credit.highest_acked;
        let earned = Pressure::Acked(Ack {
            now,
            bytes: credit.acked_bytes,
            in_flight_before: credit.in_flight_bytes_before,
            sent_at: newest.map(|newest| newest.sent_at),
            rtt: newest.filter(|newest| newest.transmissions == 1).map(|newest| now - newest.sent_at),
            srtt: self.repair.rtt().srtt(),
            in_fast_recovery: self.repair.in_fast_recovery(),
            cumulative_advanced: digest.cumulative_advanced,
            all_acked: flight.ledger.earliest_on(self.limits.id).is_none(),
        });
        self.regulate(earned, |repair, limits| repair.on_ack(now, sack, digest, flight, limits, events))
    }

    /// The only place that changes cwnd, once per event: first the effect of the event itself (`pressure`), then the verdict of repair from `judge`
    /// (the note of RFC 9260 §7.2.4), then the end of fast recovery. Returns the verdict.
    pub(super) fn regulate(
        &mut self,
        pressure: Pressure,
        judge: impl FnOnce(&mut Repair, &PathLimits) -> Verdict,
    ) -> Verdict {
        let Self { repair, limits, .. } = self;
        match &pressure {
            Pressure::Acked(ack) => limits.congestion.on_ack(ack),
            &Pressure::Idle { now, idle, rto } => limits.congestion.on_idle(now, idle, rto),
            Pressure::None => {}
        }
        let verdict = judge(repair, limits);
        let PathLimits { congestion, burst, .. } = limits;
        burst.release(verdict.release);
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        match verdict.window {
            WindowVerdict::Keep => {}
            WindowVerdict::Cut(sign) => congestion.on_congestion(sign),
            WindowVerdict::Undo(window) => congestion.undo(bytes(window.cwnd_bytes), bytes(window.ssthresh_bytes)),
        }
        if matches!(&pressure, Pressure::Acked(ack) if ack.in_fast_recovery) && !repair.in_fast_recovery() {
            congestion.on_recovered();
        }
        verdict
    }
}
