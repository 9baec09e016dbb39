//! Loss recovery: detects losses, probes, retransmits, and tells the congestion controller.
//!
//! Other modules report four events: a packet was sent ([`Repair::on_sent`]), an acknowledgement was received ([`Repair::on_ack`]), a timer expired
//! ([`Repair::on_timeout`]), or other state changed ([`Repair::settle`]). They also ask [`Repair::next`] for the purpose of the next packet.
//! Acknowledgements and expiries return a [`Verdict`]. Repair marks lost chunks in the ledger and never touches the congestion window.
//!
//! | module | purpose |
//! |---|---|
//! | [`acknowledgement`] | order of the steps after an acknowledgement |
//! | [`expiry`] | T3-rtx, order of the steps after an expiry, and the deadline |
//! | [`rules`] | the rules in force: profile, thin-stream detector |
//! | [`round_trip`] | which chunk is timed |
//! | [`rack`], [`departures`] | time-based loss detection |
//! | [`tail`] | the tail loss probe |
//! | [`overdue`] | early fast retransmit |
//! | [`undo`] | detection of spurious timeouts and spurious cuts of cwnd |
//! | [`known`] | assumptions about the path before it is measured |
//! | [`marks`] | ECN marks |
//! | [`redundancy`], [`bundling`] | spaced and piggybacked copies; which chunks a packet carries besides lost and new ones |
//! | [`coding`], [`sums`] | sums of chunks, from which the peer computes lost ones |
//! | [`detectors`] | the detectors that only some rules use |
//! | [`order`], [`verdict`] | the results |

mod acknowledgement;
mod bundling;
mod coding;
mod departures;
mod detectors;
mod expiry;
mod known;
mod marks;
mod order;
mod overdue;
mod rack;
mod redundancy;
mod round_trip;
mod rules;
mod sums;
mod tail;
mod undo;
mod verdict;

use std::sync::Arc;

use festina_recovery::Mechanisms;
use festina_recovery::backoff::ExpirySeries;
use festina_recovery::f_rto::Timeout;
use festina_recovery::probe::Probe;
use festina_recovery::profile::{ImmediateSack, Rules, SpuriousResponse};
use festina_recovery::reordering::ReorderingEstimator;
use festina_recovery::rtt::RttEstimator;
use festina_recovery::tail_probe::{self, ProbeContent, TlpTerms};
use festina_units::{Duration, Instant};

pub(super) use bundling::Bundling;
use expiry::LossTimers;
pub(crate) use expiry::{FlightAgain, TimerExpiry};
pub(super) use order::{NewData, Order, Purpose};
pub(super) use round_trip::Again;
pub(super) use verdict::{Verdict, WindowVerdict};

use super::flight::Flight;
use super::limits::PathLimits;
use super::loaded::Loaded;
use crate::config::Config;
use crate::event::RetransmissionCause;
use crate::outstanding::{Chunk, ChunkState, Ledger, Transmission};
use bundling::Redundant;
use detectors::Detectors;
use order::Owed;
use redundancy::RedundancyAccount;
use round_trip::RoundTrip;
use rules::{Outstanding, RuleBook};
use undo::SpuriousDetector;

/// The state of repair on one path.
#[derive(Debug)]
pub(super) struct Repair {
    book: RuleBook,
    rto_max_nanos: u64,
    rtt: RttEstimator,
    series: ExpirySeries,
    round_trip: RoundTrip,
    timers: LossTimers,
    owed: Owed,
    recovery: FastRecovery,
    /// Acknowledgements answer packets on this path, and not those that left by another in its place.
    measures: bool,
    /// If the mechanisms ask for copies or for SACKs where they are needed, and data has left.
    redundancy: Option<Box<RedundancyAccount>>,
    /// If the mechanisms ask for any of them and data has left.
    detectors: Option<Box<Detectors>>,
    /// If the path was seen to reorder and the mechanisms tolerate it.
    reordering: Option<Box<ReorderingEstimator>>,
}

/// Fast recovery (RFC 9260 §7.2.4).
#[derive(Clone, Copy, Debug, Default)]
struct FastRecovery {
    /// It lasts until `cut_tsn` is acknowledged.
    lasts: bool,
    /// T3-rtx has expired, and `cut_tsn` is not acknowledged yet: RACK's timeout recovery (RFC 8985 §6.2).
    after_timeout: bool,
    /// That cut was for a mark of the network.
    cut_for_mark: bool,
    /// The highest TSN that had been sent when cwnd was last cut.
    cut_tsn: u64,
}

impl Repair {
    pub(super) fn new(config: &Config, mechanisms: Arc<Mechanisms>) -> Self {
        Self {
            book: RuleBook::new(mechanisms),
            rto_max_nanos: u64::try_from(config.timers.rto_max.as_nanos()).unwrap_or(u64::MAX),
            rtt: RttEstimator::new(config.timers.rto_initial),
            series: ExpirySeries::default(),
            round_trip: RoundTrip::default(),
            timers: LossTimers::default(),
            owed: Owed::default(),
            recovery: FastRecovery::default(),
            measures: true,
            redundancy: None,
            detectors: None,
            reordering: None,
        }
    }

    pub(super) fn set_rto_max(&mut self, rto_max: Duration) {
        self.rto_max_nanos = u64::try_from(rto_max.as_nanos()).unwrap_or(u64::MAX);
    }

    /// Nothing will be repaired any more.
    pub(super) fn stop(&mut self) {
        self.timers.stop();
        self.owed = Owed::default();
    }

    /// Gives back even the memory that a thin stream needs.
    pub(super) fn give_back_memory(&mut self) {
        self.book.give_back_memory();
        self.book.known_loss = self.known_loss();
        self.redundancy = None;
        self.detectors = None;
        self.reordering = None;
    }

    pub(super) fn mechanisms(&self) -> &Mechanisms {
        self.book.mechanisms()
    }

    pub(super) fn set_mechanisms(&mut self, mechanisms: &Mechanisms) {
        self.book.set_mechanisms(mechanisms);
        if !self.book.needs_account() {
            self.book.known_loss = self.known_loss();
            self.redundancy = None;
        }
        self.redundancy_changed();
        self.detectors = None;
    }

    /// Whether both ends have agreed to sums of chunks.
    pub(super) fn set_peer_decodes(&mut self, is_agreed: bool) {
        self.book.peer_decodes = is_agreed;
        self.redundancy_changed();
    }

    fn redundancy_changed(&mut self) {
        if let Some(redundancy) = &mut self.redundancy {
            redundancy.set(self.book.redundancy());
        }
    }

    /// The rules that hold now.
    pub(super) fn rules(&self) -> &Rules {
        self.book.rules()
    }

    /// Returns whether the stream is thin.
    pub(super) fn is_thin(&self) -> bool {
        self.book.is_thin()
    }

    /// The measured round-trip time.
    pub(super) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// The estimated time of a packet to the peer.
    pub(super) fn way(&self) -> Duration {
        self.rtt.srtt().unwrap_or_default() / 2
    }

    /// The retransmission timeout, backoff included.
    pub(super) fn rto(&self) -> Duration {
        let rto_max = Duration::from_nanos(self.rto_max_nanos);
        let base = self.rtt.rto(self.book.rto_min(), rto_max);
        self.rules().backoff.interval(base, &self.series, rto_max)
    }

    /// Packets in flight.
    pub(super) fn packets_in_flight(&self) -> u32 {
        self.book.packets_in_flight()
    }

    /// Returns whether fast recovery lasts (RFC 9260 §7.2.4).
    pub(super) fn in_fast_recovery(&self) -> bool {
        self.recovery.lasts
    }

    /// The highest TSN that had been sent when cwnd was last cut.
    #[cfg(test)]
    pub(super) fn cut_tsn(&self) -> u64 {
        self.recovery.cut_tsn
    }

    pub(super) fn set_measures(&mut self, measures: bool) {
        self.measures = measures;
    }

    /// Takes an unambiguous round-trip time; backing off ends (RFC 9260 §6.3.3).
    pub(super) fn measured(&mut self, rtt: Duration) {
        let clock = self.rules().rtt_clock;
        self.rtt.sample_by(clock, rtt);
        if let Some(detectors) = &mut self.detectors {
            detectors.tail.measured();
        }
        self.series.measured();
    }

    /// No delay of a SACK was in this round trip: it shows whether there is a queue.
    pub(super) fn measured_undelayed(&mut self, now: Instant, rtt: Duration) {
        if let Some(redundancy) = &mut self.redundancy {
            redundancy.measured(now, rtt);
        }
    }

    /// The peer has just answered something else than data: T3-rtx runs no longer than if it began now. The pauses between probes of a
    /// closed window stay as they are.
    pub(super) fn shorten_timeout(&mut self, now: Instant) {
        let expires = now + self.rto();
        if self.timers.t3().is_some_and(|running| running.expires > expires) && !self.book.is_probing_window() {
            self.timers.restart(now, expires);
        }
    }

    /// Other state changed: re-evaluates the rules and drops packets that are no longer owed. The last step of each mutation.
    pub(super) fn settle(&mut self, now: Instant, flight: &Flight, limits: &PathLimits) {
        self.judge_rules(flight);
        self.tidy(now, flight, limits);
    }

    fn judge_rules(&mut self, flight: &Flight) {
        let bytes = flight.ledger.in_flight().bytes + flight.ledger.lost().bytes;
        let outstanding = Outstanding { chunks: flight.ledger.len(), bytes, is_all: flight.is_all_sent() };
        self.book.judge(flight.is_probing_window(), outstanding, self.rtt.srtt());
        if let Some(detectors) = &mut self.detectors {
            detectors.stop_disabled(self.book.rules());
        }
    }

    fn tidy(&mut self, now: Instant, flight: &Flight, limits: &PathLimits) {
        if flight.ledger.lost().chunks == 0 {
            self.owed.repair = None;
        }
        self.owed.probe &= limits.in_flight(flight).chunks > 0;
        self.owed.elsewhere = self.owed.elsewhere.filter(|&room_bytes| {
            let fits = |chunk: &Chunk| chunk.sent_at < now && chunk.bytes() <= room_bytes.into();
            flight.ledger.iter_on(limits.id).any(|chunk| chunk.state == ChunkState::InFlight && fits(chunk))
        });
        if self.owed.tail_probe && flight.ledger.is_all_abandoned() {
            self.owed.tail_probe = false;
        }
        if let Some(redundancy) = &mut self.redundancy {
            let (rtt, is_thin) = (&self.rtt, self.book.is_thin());
            let way = || rtt.srtt().unwrap_or_default() / 2;
            let is_worth_it = |chunk: &Chunk| flight.is_worth_protecting(chunk, now, way());
            self.owed.copy = redundancy.make_due(now, &flight.ledger, || limits.allows_new_data(flight), is_worth_it);
            self.owed.sums = redundancy.codes && {
                let srtt = rtt.srtt().filter(|_| is_thin);
                redundancy.are_sums_due(now, srtt, |tsn| sums::is_missing(flight, tsn, now, way()))
            };
        }
        if flight.ledger.earliest_on(limits.id).is_none() {
            self.timers.stop();
            self.owed.tail_probe = false;
            self.book.shrink();
        }
    }

    #[inline]
    fn detectors(&mut self) -> Option<&mut Detectors> {
        if self.detectors.is_none() && Detectors::are_needed(self.rules()) {
            self.detectors = Some(Box::default());
        }
        self.detectors.as_deref_mut()
    }

    /// The detector of spurious timeouts and cuts, if the rules use it.
    fn spurious(&mut self) -> Option<&mut SpuriousDetector> {
        if self.rules().spurious == SpuriousResponse::NONE {
            return None;
        }
        self.detectors().map(|detectors| &mut detectors.spurious)
    }

    /// Returns whether F-RTO holds back lost chunks, and whether it requests new data.
    fn held_back(&self) -> (bool, bool) {
        let spurious = self.detectors.as_ref().map(|detectors| &detectors.spurious);
        spurious.map_or((false, false), |spurious| (spurious.holds_back(), spurious.wants_new_data()))
    }

    /// Returns whether a packet is owed for another reason than losses or new data.
    #[inline]
    pub(super) fn owes_packet(&self) -> bool {
        let Owed { probe, tail_probe, copy, sums, elsewhere, repair: _ } = self.owed;
        probe || tail_probe || copy || sums || elsewhere.is_some()
    }

    /// What the next packet is for, if one may leave now.
    pub(super) fn next(&self, now: Instant, flight: &Flight, limits: &PathLimits) -> Option<Order> {
        let (holds_back, new_data_first) = self.held_back();
        let new_data = || match (limits.allows_new_data(flight), new_data_first) {
            (false, _) => NewData::No,
            (true, false) => NewData::BehindLost,
            (true, true) => NewData::Instead,
        };
        let with_new_data = |purpose| Some(Order { purpose, new_data: new_data() });
        if self.owed.probe {
            return with_new_data(Purpose::Probe);
        }
        if self.owed.tail_probe {
            // RFC 8985 §7.3 lets new data exceed cwnd; RFC 9260 §6.1 rule B does not, and binds new data only.
            let new_data = new_data();
            return Some(Order { purpose: Purpose::TailProbe(tail_probe::content(new_data != NewData::No)), new_data });
        }
        if let Some(room_bytes) = self.owed.elsewhere {
            return Some(Order { purpose: Purpose::Elsewhere { room_bytes }, new_data: NewData::No });
        }
        if self.owed.copy
            && let Some(copy) = self.redundancy.as_ref().and_then(|redundancy| redundancy.due())
        {
            return with_new_data(Purpose::Copy(copy));
        }
        if self.owed.sums {
            return with_new_data(Purpose::Sums);
        }
        if flight.ledger.lost().chunks == 0 {
            let order = with_new_data(Purpose::NewData).filter(|order| order.new_data != NewData::No);
            return order.filter(|_| self.is_unpaced(now, flight, limits));
        }
        if let Some(cause) = self.owed.repair.filter(|_| limits.duties.lost) {
            return with_new_data(Purpose::Urgent(cause));
        }
        if holds_back {
            return with_new_data(Purpose::NewData).filter(|order| order.new_data == NewData::Instead);
        }
        let may_leave = limits.duties.lost
            && limits.congestion.allows(flight.ledger.on_the_way_bytes(limits.id))
            && self.is_unpaced(now, flight, limits);
        if may_leave { with_new_data(Purpose::Repair) } else { None }
    }

    /// Returns whether pacing lets a packet leave now. It never delays a thin stream.
    fn is_unpaced(&self, now: Instant, flight: &Flight, limits: &PathLimits) -> bool {
        self.is_thin() || limits.congestion.is_unpaced(now, flight.ledger.on_the_way_bytes(limits.id))
    }

    /// When pacing lets the next packet leave, if there is one and nothing else keeps it back.
    #[inline(always)]
    pub(super) fn paced_until(&self, flight: &Flight, limits: &PathLimits) -> Option<Instant> {
        let resumes_at = limits.congestion.resumes_at(flight.ledger.on_the_way_bytes(limits.id))?;
        let waits = flight.ledger.lost().chunks > 0 || limits.allows_new_data(flight);
        (waits && !self.is_thin()).then_some(resumes_at)
    }

    /// Returns the rule for bundling outstanding chunks into a packet with room for `room_bytes` of chunks.
    pub(super) fn bundling(
        &self,
        now: Instant,
        order: Order,
        room_bytes: usize,
        flight: &Flight,
        limits: &PathLimits,
    ) -> Bundling {
        let rules = self.rules();
        let free = room_bytes.saturating_sub(flight.ledger.lost().bytes);
        match order.purpose {
            Purpose::Probe => Bundling::Probe {
                timeout: rules.probe.timeout(&self.rtt).map(|timeout| timeout + self.probe_delay(timeout)),
                silent: self.timers.silent_since().is_some(),
            },
            Purpose::Copy(copy) => Bundling::Copy(copy),
            Purpose::Elsewhere { room_bytes } => Bundling::Fill { room_bytes: free.min(room_bytes.into()) },
            Purpose::TailProbe(ProbeContent::NewData) => Bundling::None,
            Purpose::TailProbe(ProbeContent::HighestOutstanding) => Bundling::Last { tsn: flight.ledger.last_tsn() },
            Purpose::Urgent(RetransmissionCause::Fast) if rules.bundling.into_fast_retransmit => {
                Bundling::Fill { room_bytes: free }
            }
            _ if order.new_data != NewData::No && limits.fits_window_behind_lost(flight) => {
                let new_bytes = flight.buffer.queued_chunk_bytes_max(limits.sizes.framing);
                let room_bytes = free.saturating_sub(new_bytes);
                if rules.bundling.with_new_data {
                    Bundling::Fill { room_bytes }
                } else if room_bytes <= limits.sizes.framing.header_bytes() {
                    Bundling::None
                } else {
                    self.redundant(now, room_bytes, new_bytes)
                }
            }
            _ => Bundling::None,
        }
    }

    /// Returns Festina's own rule for chunks in a packet with `new_bytes` of new data, or `None` if it does not apply.
    fn redundant(&self, now: Instant, room_bytes: usize, new_bytes: usize) -> Bundling {
        let (thin, silent_since) = (self.is_thin(), self.timers.silent_since());
        let Some(srtt) = self.rtt.srtt().filter(|_| thin || silent_since.is_some()) else { return Bundling::None };
        let silent = self.timers.is_silent(now, srtt);
        let redundancy = self.redundancy.as_ref().filter(|_| thin);
        let budget = redundancy.and_then(|redundancy| redundancy.piggyback_budget(now, srtt, new_bytes));
        if budget.is_none() && !silent {
            return Bundling::None;
        }
        Bundling::Redundant(Redundant { room_bytes, budget, srtt, silent })
    }

    /// A chunk left for the first time.
    #[inline]
    pub(super) fn on_first_sent(&mut self, now: Instant, tsn: u64, asked: bool) {
        if let Some(detectors) = &mut self.detectors {
            detectors.by_time.chunk_left(now, tsn);
        }
        self.round_trip.sent_new(tsn, now, asked, self.book.rules().rtt_sampling);
    }

    /// A chunk was retransmitted. Returns whether that restarts T3-rtx, if it is the earliest one outstanding.
    pub(super) fn on_resent(
        &mut self,
        now: Instant,
        tsn: u64,
        transmission: Transmission,
        again: Again,
        next_tsn: u64,
    ) -> bool {
        if let Some(detectors) = &mut self.detectors {
            detectors.by_time.chunk_left(now, tsn);
        }
        if matches!(transmission, Transmission::Repair(_))
            && let Some(spurious) = self.spurious()
        {
            spurious.repaired(tsn);
        }
        let rules = self.book.rules();
        if again == Again::BesideNewData
            && let (Some(redundancy), Some(srtt)) = (&mut self.redundancy, self.rtt.srtt())
        {
            redundancy.piggybacked(now, tsn, next_tsn, srtt);
        }
        self.round_trip.resent(tsn, now, rules.rtt_sampling, again);
        match transmission.cause() {
            // Early fast retransmits begin no fast recovery: with a peer that is silent, they would put T3-rtx off for ever.
            RetransmissionCause::Fast => rules.fast_restarts_timer && self.recovery.lasts,
            // Bundled chunks do not put T3-rtx off, or a stream of new data would do so for ever.
            cause => !cause.is_bundled() && cause != RetransmissionCause::Copy,
        }
    }

    /// FORWARD-TSN was sent for the TSNs for which `has_told` holds: T3-rtx runs until it is answered (RFC 3758 §3.5 C5). For RTT measurement it
    /// counts as a retransmission of the skipped chunks, because the SACK that covers them answers either.
    pub(super) fn on_forward_left(&mut self, now: Instant, has_told: impl Fn(u64) -> bool, again: Again) {
        if self.timers.t3().is_none() {
            self.timers.start(now, self.rto());
        }
        if let Some(tsn) = self.round_trip.timed_tsn().filter(|&tsn| has_told(tsn)) {
            self.round_trip.resent(tsn, now, self.book.rules().rtt_sampling, again);
        }
    }

    /// The packet is not sent, because none of its chunks may be retransmitted. The timers that requested it restart as if it had been sent.
    pub(super) fn forgo(&mut self, now: Instant, order: Order) {
        self.owed.paid(order.purpose);
        match order.purpose {
            Purpose::Probe => self.timers.probed(now),
            Purpose::Copy(_) => self.redundancy.iter_mut().for_each(|redundancy| redundancy.copy_left()),
            Purpose::TailProbe(_) => self.arm(now),
            _ => {}
        }
    }

    /// A packet left.
    pub(super) fn on_sent(
        &mut self,
        now: Instant,
        order: Order,
        loaded: &Loaded,
        flight: &Flight,
        limits: &PathLimits,
    ) {
        self.owed.paid(order.purpose);
        match order.purpose {
            Purpose::Probe => self.timers.probed(now),
            Purpose::Copy(_) => self.redundancy.iter_mut().for_each(|redundancy| redundancy.copy_left()),
            Purpose::TailProbe(content) => {
                if let Some(detectors) = self.detectors() {
                    detectors.tail.left(content, flight.ledger.next_tsn());
                }
            }
            Purpose::Urgent(RetransmissionCause::Timeout) => {
                self.timeout_packet_left(loaded.tsn_highest, &flight.ledger);
            }
            _ => {}
        }
        let srtt = self.rtt.srtt();
        self.book.packet_sent(now, loaded.tsn_highest, loaded.new_bytes, srtt);
        if self.book.needs_account()
            && let Some(srtt) = srtt
        {
            self.redundancy(now).data_sent(now, loaded, srtt);
        }
        if !self.book.stays_thick(loaded.same_instant, flight.is_all_sent()) || flight.is_probing_window() {
            self.judge_rules(flight);
            self.book.judged_at_sending(loaded.new_chunks > 0);
            if matches!(order.purpose, Purpose::TailProbe(_)) && !matches!(self.rules().probe, Probe::TailLoss(_)) {
                // By this packet the stream became thin, and has just been probed.
                self.timers.probed(now);
            }
        }
        if let Some(redundancy) = &mut self.redundancy {
            let (first_tsn, thin) = (flight.ledger.first_tsn(), self.book.is_thin());
            redundancy.plan_copies(now, order.purpose.is_repair(), loaded, first_tsn, thin, &self.rtt);
        }
        if self.timers.t3().is_none() || loaded.earliest_resent {
            self.timers.start(now, self.rto());
        }
        self.arm(now);
        self.tidy(now, flight, limits);
    }

    fn redundancy(&mut self, now: Instant) -> &mut RedundancyAccount {
        self.redundancy.get_or_insert_with(|| {
            let mut redundancy = RedundancyAccount::new(self.book.redundancy(), self.book.known_loss);
            if let Some(srtt) = self.rtt.srtt() {
                redundancy.measured(now, srtt);
            }
            Box::new(redundancy)
        })
    }

    /// The packet that T3-rtx asked for left; `highest_tsn` is the highest in it.
    fn timeout_packet_left(&mut self, highest_tsn: u64, ledger: &Ledger) {
        let timeout = Timeout {
            highest_sent: ledger.next_tsn() - 1,
            highest_retransmitted: highest_tsn,
            others_outstanding: ledger.lost().chunks > 0,
            in_timeout_recovery: self.series.timeouts() > 1,
            same_path: true,
        };
        if self.rules().spurious.f_rto
            && let Some(spurious) = self.spurious()
        {
            spurious.timeout_packet_left(&timeout);
        }
    }

    /// DATA left or an acknowledgement came: the timers of the tail probe and of early fast retransmit start again.
    fn arm(&mut self, now: Instant) {
        let Rules { probe, early_fast_retransmit, .. } = *self.rules();
        let Some(detectors) = self.detectors() else { return };
        if matches!(probe, Probe::TailLoss(_)) {
            detectors.tail.arm(now);
        }
        if early_fast_retransmit.is_some() {
            detectors.overdue.arm(now);
        }
    }

    /// Returns whether a packet with new data that leaves now asks the peer not to delay its SACK.
    pub(super) fn asks_for_sack(&self, now: Instant) -> bool {
        let is_late =
            || self.redundancy.as_ref().is_none_or(|redundancy| redundancy.sack_delay(now, &self.rtt).is_none());
        self.rules().immediate_sack == ImmediateSack::Needed && is_late()
    }

    /// A packet with data of the peer came.
    pub(super) fn peer_data_came(&mut self, now: Instant) {
        if let Some(redundancy) = &mut self.redundancy {
            redundancy.peer_data_came(now, &self.rtt);
        }
    }

    /// When a tail loss probe is due.
    fn tail_at(&self, flight: &Flight, limits: &PathLimits) -> Option<Instant> {
        let Probe::TailLoss(rule) = self.rules().probe else { return None };
        self.detectors.as_ref()?.tail.at(rule, |armed_at| self.tail_terms(armed_at, flight, limits))
    }

    /// When early fast retransmit checks for overdue chunks, and after which delay.
    #[inline(always)]
    fn overdue_at(&self, flight: &Flight, limits: &PathLimits) -> Option<(Instant, Duration)> {
        let delay = overdue::delay(&self.rtt, self.rules().early_fast_retransmit?);
        let at =
            self.detectors.as_ref()?.overdue.at(delay, &flight.ledger, limits.id, limits.congestion.cwnd() as u64)?;
        Some((at, delay))
    }

    fn tail_terms(&self, now: Instant, flight: &Flight, limits: &PathLimits) -> TlpTerms {
        let answered_at_once = flight.ledger.get(flight.ledger.next_tsn() - 1).is_some_and(|last| last.immediate_ack);
        TlpTerms {
            now,
            srtt: self.rtt.srtt(),
            outstanding: self.packets_in_flight(),
            unsent: limits.unsent_packets(flight),
            earliest_sent: flight.ledger.earliest_on(limits.id).map_or(now, |chunk| chunk.sent_at),
            is_open: flight.ledger.lost().chunks == 0
                && !flight.ledger.is_all_abandoned()
                && flight.ledger.gap_acked_chunks() == 0
                && !self.recovery.lasts
                && self.series.timeouts() == 0,
            ack_delay_max: tail::ack_delay_max(answered_at_once),
            timeout_at: self.timers.t3().map_or_else(|| now + self.rto(), |running| running.expires),
        }
    }
}
