//! Redundancy: piggybacked copies, copies in packets of their own and sums of chunks, their budget, reasons of the path against them, and whether packets ask for
//! their SACKs.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use festina_recovery::cadence::{Cadence, Surroundings};
use festina_recovery::loss_rate::KnownLoss;
use festina_recovery::presumed_loss::{PresumedLoss, PresumedLosses};
use festina_recovery::profile::LIGHT_COPIES_BYTES_MAX;
use festina_recovery::rate::RateMeter;
use festina_recovery::redundancy::{
    Code, CopyDecision, CopyScheduler, Departure, Piggyback, Protection, Redundancy, StreamShape,
};
use festina_recovery::rtt::RttEstimator;
use festina_recovery::windowed_min::WindowedMin;
use festina_units::{Duration, Instant};

use super::coding::Coding;
use crate::outstanding::{Chunk, ChunkState, Ledger, Transmission};
use crate::send::loaded::Loaded;
use crate::wire::{FragmentHeader, PacketBuilder};

/// How long the smallest SRTT is remembered; longer than queues last.
const SRTT_MIN_WINDOW: Duration = Duration::from_secs(300);

/// Maximum number of waiting copies. A thin stream plans a handful per round trip, and a copy waits for a tenth of one. Streams of many tiny packets
/// get no copies beyond it.
const PLANNED_MAX: usize = 32;

/// Minimum spacing of copies as a fraction of the round trip, and at least the time below: a copy that is lost with its original is useless.
const COPY_SPACING_PARTS: u32 = 32;
const COPY_SPACING_MIN: Duration = Duration::from_millis(2);

/// Piggybacked copies that are remembered with the packet that carried them. A thin stream has fewer chunks in flight.
const FAR_COPIES_MAX: usize = 64;

/// SRTT above its smallest value by less than this is no queue.
const QUEUE_MIN: Duration = Duration::from_millis(10);

/// Needless probes that lengthen the wait for the next one, and packets of new data per round trip from which on they do: with fewer, each SACK that
/// is lost makes a probe needless, and the next loss must not wait for that.
const NEEDLESS_PROBES_MAX: u8 = 8;
const DENSE_BURSTS_PER_RTT_MIN: u32 = 3;

/// Maximum unspent bytes of piggybacked copies, so that savings from a time without loss do not become a burst.
const PIGGYBACK_BYTES_SAVED_MAX: usize = 4_096;

/// The chunks of one packet that may get a copy.
#[derive(Clone, Copy, Debug)]
struct PlannedFor {
    first_tsn: u64,
    last_tsn: u64,
    /// They are retransmissions.
    of_resend: bool,
    /// None of them is part of a larger message.
    is_single_chunk: bool,
    /// How much later the application wants them sent again.
    duplicate_after: Option<Duration>,
}

/// The account of one path. Kept on the heap: an association at rest needs none.
#[derive(Debug)]
pub(super) struct RedundancyAccount {
    scheduler: CopyScheduler,
    presumed_losses: PresumedLosses,
    srtt_min: WindowedMin,
    /// RTT samples whose SACK was not delayed: they show a queue, but no delay of the peer.
    undelayed: RttEstimator,
    /// Reports since the last RTT sample that a probe was needless.
    needless_probes: u8,
    /// All DATA that leaves, copies included.
    wire: RateMeter,
    /// Copies that are to leave, in the order of their times; at most [`PLANNED_MAX`].
    planned: VecDeque<PlannedCopy>,
    due: Option<PlannedCopy>,
    /// The last chunks that were piggybacked on another packet than the next one, and the first new chunks of those packets.
    far_copies: VecDeque<(u64, u64)>,
    cadence: Cadence,
    /// Bytes of piggybacked copies and sums that the budget still allows.
    piggyback_bytes: usize,
    /// Bytes of new chunks in the last packet that had any.
    chunk_bytes: usize,
    /// If a code protects or has protected the stream, and it still needs protection.
    coding: Option<Box<Coding>>,
    /// The protection of the last new chunk, and when it left.
    decided: Option<(Instant, Protection)>,
    /// A code may take the place of copies.
    pub(super) codes: bool,
}

/// Piggybacked copies that a packet may carry.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct PiggybackBudget {
    pub(super) piggyback: Piggyback,
    pub(super) bytes: usize,
    /// The first chunk that may be copied.
    pub(super) from: u64,
    /// Time from the transmission of a chunk to its copy.
    pub(super) apart: Duration,
}

/// A copy of a packet's chunks: of its new data, or of its retransmissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::send) struct PlannedCopy {
    /// When it leaves.
    at: Instant,
    /// When the packet left.
    sent_at: Instant,
    first_tsn: u64,
    last_tsn: u64,
    /// It held retransmissions.
    of_resend: bool,
}

impl PlannedCopy {
    /// Returns the TSNs between which the chunks are.
    pub(super) fn tsns(&self) -> RangeInclusive<u64> {
        self.first_tsn..=self.last_tsn
    }

    /// Returns whether the chunk is one of them, and neither known to have arrived nor sent again since.
    pub(super) fn holds(&self, tsn: u64, chunk: &Chunk) -> bool {
        self.tsns().contains(&tsn)
            && chunk.state == ChunkState::InFlight
            && chunk.sent_at == self.sent_at
            && (chunk.transmissions > 1) == self.of_resend
    }

    /// The transmission of its chunks.
    pub(super) fn transmission(&self) -> Transmission {
        if self.of_resend { Transmission::Repeated } else { Transmission::Copy }
    }
}

impl RedundancyAccount {
    pub(super) fn new(setting: Redundancy, loss: KnownLoss) -> Self {
        let mut scheduler = CopyScheduler::new(setting);
        scheduler.assume_loss(loss);
        Self {
            scheduler,
            presumed_losses: PresumedLosses::default(),
            srtt_min: WindowedMin::new(SRTT_MIN_WINDOW),
            undelayed: RttEstimator::new(Duration::ZERO),
            needless_probes: 0,
            wire: RateMeter::new(),
            planned: VecDeque::new(),
            due: None,
            far_copies: VecDeque::new(),
            cadence: Cadence::default(),
            piggyback_bytes: PIGGYBACK_BYTES_SAVED_MAX,
            chunk_bytes: 0,
            codes: setting.codes(),
            coding: None,
            decided: None,
        }
    }

    /// Returns the estimated loss of the path.
    pub(super) fn known_loss(&self) -> KnownLoss {
        self.scheduler.known_loss()
    }

    /// Changes the option; the path state and the planned copies stay.
    pub(super) fn set(&mut self, setting: Redundancy) {
        self.scheduler.set_redundancy(setting);
        self.codes = setting.codes();
        self.coding.take_if(|_| !setting.codes());
        self.decided = None;
    }

    /// A round trip was measured that no delayed SACK made longer.
    pub(super) fn measured(&mut self, now: Instant, rtt: Duration) {
        self.undelayed.sample(rtt);
        self.scheduler.round_trip(now, rtt);
        self.srtt_min.sample(now, self.undelayed.srtt().unwrap_or(rtt));
    }

    /// A round trip was measured, with the delay of its SACK if it had one.
    pub(super) fn timed(&mut self) {
        self.needless_probes = 0;
    }

    /// Returns whether SRTT has risen by more than jitter explains. More lenient than the scheduler, which compares it with the minimum round trip,
    /// because piggybacked copies add bytes but no packets.
    fn has_queue(&self) -> bool {
        let rtt = &self.undelayed;
        let (Some(srtt), Some(deviation), Some(lowest)) = (rtt.srtt(), rtt.deviation(), self.srtt_min.get()) else {
            return false;
        };
        srtt.saturating_sub(deviation) > lowest + (lowest / 8).max(QUEUE_MIN)
    }

    /// A packet left.
    pub(super) fn data_sent(&mut self, now: Instant, loaded: &Loaded, srtt: Duration) {
        self.wire.sent(now, u32::try_from(loaded.bytes + loaded.sum_bytes).unwrap_or(u32::MAX), srtt);
        if loaded.new_bytes > 0 {
            self.cadence.sent(now);
            let percent = self.scheduler.budget().map_or(0, |budget| budget.piggyback_percent);
            let earned = loaded.new_bytes.saturating_mul(percent.into()) / 100;
            let saved = (self.piggyback_bytes + earned).min(PIGGYBACK_BYTES_SAVED_MAX);
            self.piggyback_bytes = saved.saturating_sub(loaded.piggyback_bytes + loaded.sum_bytes);
            self.chunk_bytes = loaded.new_bytes;
            if self.codes {
                self.coded_packet_left(now, srtt);
            }
        }
    }

    fn coded_packet_left(&mut self, now: Instant, srtt: Duration) {
        let gap = self.cadence.gap_mean().unwrap_or_default();
        match self.coding(now, srtt) {
            Some((code, coding)) => coding.packet_left(now, code, gap),
            None => self.coding.iter_mut().for_each(|coding| coding.copied_packet_left()),
        }
    }

    fn shape(&self, srtt: Duration) -> StreamShape {
        let chunk_bytes = u32::try_from(self.chunk_bytes).unwrap_or(u32::MAX);
        StreamShape { bursts_per_rtt: self.cadence.bursts_per_rtt(srtt), chunk_bytes }
    }

    /// How the chunks are protected now, if the stream is thin.
    fn protection(&self, now: Instant, srtt: Duration) -> Protection {
        if let Some((_, protection)) = self.decided.filter(|(at, _)| *at == now) {
            return protection;
        }
        if self.scheduler.is_idle() || self.has_queue() {
            return Protection::NONE;
        }
        self.scheduler.protection(now, None, self.shape(srtt))
    }

    /// A chunk of a thin stream leaves for the first time.
    pub(super) fn protect(&mut self, now: Instant, srtt: Duration, tsn: u64, header: &FragmentHeader, chunk: &Chunk) {
        let protection = self.protection(now, srtt);
        self.decided = Some((now, protection));
        self.scheduler.protected(&protection);
        if protection.code().is_some() && self.coding.is_none() {
            self.coding = Some(Box::default());
        }
        self.coding.take_if(|_| protection.distance().is_none());
        self.coding.iter_mut().for_each(|coding| coding.protect(tsn, header, chunk));
    }

    /// Writes the sums of a thin stream that are owed into a packet with `new_bytes` of new data, or into one for sums alone if that is `None`.
    /// Returns their bytes.
    pub(super) fn write_sums(
        &mut self,
        now: Instant,
        srtt: Duration,
        is_missing: impl Fn(u64) -> bool,
        new_bytes: Option<usize>,
        packet: &mut PacketBuilder<'_>,
    ) -> usize {
        if self.coding.is_none() {
            return 0;
        }
        let bytes = self.bytes_left(now, srtt, new_bytes.unwrap_or(0));
        let room_bytes = packet.remaining().saturating_sub(new_bytes.unwrap_or(0));
        let Some((code, coding)) = self.coding(now, srtt) else { return 0 };
        coding.write(code, is_missing, room_bytes.min(bytes), new_bytes.is_none(), packet)
    }

    /// A packet with sums alone left.
    pub(super) fn sums_left(&mut self, now: Instant, bytes: usize, srtt: Duration) {
        self.wire.sent(now, u32::try_from(bytes).unwrap_or(u32::MAX), srtt);
        self.piggyback_bytes = self.piggyback_bytes.saturating_sub(bytes);
    }

    /// When sums leave in a packet of their own.
    pub(super) fn sums_at(&self) -> Option<Instant> {
        self.coding.as_ref()?.due_at()
    }

    /// Returns whether sums leave in a packet of their own now. Those whose chunks have arrived or are protected otherwise by now do not.
    pub(super) fn are_sums_due(
        &mut self,
        now: Instant,
        srtt: Option<Duration>,
        is_missing: impl Fn(u64) -> bool,
    ) -> bool {
        if self.sums_at().is_none_or(|at| at > now) {
            return false;
        }
        let coding = srtt.and_then(|srtt| self.coding(now, srtt)).map(|(_, coding)| coding);
        if coding.is_some_and(|coding| coding.has_missing(is_missing)) {
            return true;
        }
        self.coding.iter_mut().for_each(|coding| coding.forgo());
        false
    }

    /// The peer has computed an outstanding chunk.
    pub(super) fn recovered(&mut self, tsn: u64) {
        self.coding.iter_mut().for_each(|coding| coding.recovered(tsn));
    }

    /// Takes the chunks that the peer has computed and acknowledges now.
    pub(super) fn take_recovered(&mut self) -> Vec<u64> {
        self.coding.as_mut().map(|coding| coding.take_recovered()).unwrap_or_default()
    }

    /// Time from a chunk to the last sum that is expected to repair it.
    pub(super) fn sums_take(&self) -> Duration {
        self.coding.as_ref().map_or(Duration::ZERO, |coding| coding.takes())
    }

    /// By how much the acknowledgement of a repaired chunk may be late.
    pub(super) fn sums_lateness(&self) -> Duration {
        self.coding.as_ref().map_or(Duration::ZERO, |coding| coding.lateness())
    }

    /// By how much probes are to wait longer than their `timeout`: half of it for each that was needless since a round trip was measured. In a queue that
    /// grows they would fill the link, and leave no chunk sent once that could be timed.
    pub(super) fn probe_delay(&self, timeout: Duration, srtt: Duration) -> Duration {
        let is_dense = || self.cadence.bursts_per_rtt(srtt) >= DENSE_BURSTS_PER_RTT_MIN;
        if self.needless_probes > 0 && is_dense() { timeout * self.needless_probes.into() / 2 } else { Duration::ZERO }
    }

    /// The code that protects the stream now, and the encoder.
    fn coding(&mut self, now: Instant, srtt: Duration) -> Option<(Code, &mut Coding)> {
        self.coding.as_ref()?;
        let code = self.protection(now, srtt).code()?;
        self.coding.as_deref_mut().map(|coding| (code, coding))
    }

    /// Returns the copies that may be piggybacked on `new_bytes` of new data of a thin stream now; `None` if none may.
    pub(super) fn piggyback_budget(&self, now: Instant, srtt: Duration, new_bytes: usize) -> Option<PiggybackBudget> {
        let piggyback = match self.protection(now, srtt) {
            Protection::Copies(copies) => copies,
            // The code begins with this packet. The chunks in flight are in none of its sums.
            Protection::Code(_) if self.coding.is_none() => Piggyback::always(1),
            Protection::Code(_) => Piggyback::NONE,
        };
        let bytes = self.bytes_left(now, srtt, new_bytes);
        // Between the packet in question and the one before it.
        let apart = self.cadence.gap_mean().unwrap_or_default() * (2 * u32::from(piggyback.distance()) - 1) / 2;
        let apart = if piggyback.distance() > 1 { apart } else { (srtt / COPY_SPACING_PARTS).max(COPY_SPACING_MIN) };
        let from = self.coding.as_ref().map_or(0, |coding| coding.copied_from());
        (!piggyback.is_none() && bytes > 0).then_some(PiggybackBudget { piggyback, bytes, from, apart })
    }

    /// Bytes of copies or sums that may leave with `new_bytes` of new data now.
    fn bytes_left(&self, now: Instant, srtt: Duration, new_bytes: usize) -> usize {
        let left = LIGHT_COPIES_BYTES_MAX.saturating_sub(self.wire.bytes_at(now, srtt));
        let left = usize::try_from(left).unwrap_or(usize::MAX).saturating_sub(new_bytes);
        left.min(self.piggyback_bytes)
    }

    /// A chunk was piggybacked on the packet whose new data begins with `next_tsn`.
    pub(super) fn piggybacked(&mut self, now: Instant, tsn: u64, next_tsn: u64, srtt: Duration) {
        if self.protection(now, srtt).copies().distance() > 1 {
            if self.far_copies.len() == FAR_COPIES_MAX {
                self.far_copies.pop_front();
            }
            self.far_copies.push_back((tsn, next_tsn));
        } else {
            self.far_copies.clear();
        }
    }

    /// Returns the first new chunk of the packet that carried the copy of this chunk, if that was not the next one.
    pub(super) fn carrier(&self, tsn: u64) -> Option<u64> {
        self.far_copies.iter().rev().find(|copy| copy.0 == tsn).map(|copy| copy.1)
    }

    /// Returns the expected delay of the SACK for a packet with new data sent now; `None` if the packet is to ask for it.
    pub(super) fn sack_delay(&self, now: Instant, rtt: &RttEstimator) -> Option<Duration> {
        let srtt = rtt.srtt();
        let repaired_after = self.protection(now, srtt.unwrap_or_default()).distance();
        self.cadence.sack_delay(now, &Surroundings { srtt, is_lossless: self.scheduler.is_lossless(), repaired_after })
    }

    /// Maximum delay of the SACK for a packet that did not ask for it.
    pub(super) fn sack_delay_max(&self) -> Duration {
        self.cadence.sack_delay_max()
    }

    /// A packet with data of the peer came.
    pub(super) fn peer_data_came(&mut self, now: Instant, rtt: &RttEstimator) {
        self.cadence.heard(now, rtt.srtt());
    }

    /// A probe asked for a SACK that was only late.
    pub(super) fn probed_needlessly(&mut self) {
        self.needless_probes = (self.needless_probes + 1).min(NEEDLESS_PROBES_MAX);
        self.cadence.was_wrong();
    }

    /// A packet left: its new data and its retransmissions may get a copy each. `repairs`: it
    /// left for lost chunks. `first_tsn` is the earliest outstanding one.
    pub(super) fn plan_copies(
        &mut self,
        now: Instant,
        repairs: bool,
        loaded: &Loaded,
        first_tsn: u64,
        thin: bool,
        rtt: &RttEstimator,
    ) {
        let last_tsn = loaded.tsn_highest;
        let is_single_chunk = !loaded.has_fragment;
        let packet = PlannedFor { first_tsn, last_tsn, of_resend: true, is_single_chunk, duplicate_after: None };
        if let Some(others) = loaded.new_chunks.checked_sub(1) {
            let (first_tsn, duplicate_after) = (last_tsn - others as u64, loaded.duplicate_after);
            let new = PlannedFor { first_tsn, of_resend: false, duplicate_after, ..packet };
            self.plan(new, now, thin, rtt);
        }
        if repairs && loaded.chunks > loaded.new_chunks {
            self.plan(packet, now, thin, rtt);
        }
    }

    fn plan(&mut self, of: PlannedFor, now: Instant, thin: bool, rtt: &RttEstimator) {
        let PlannedFor { first_tsn, last_tsn, of_resend, is_single_chunk, duplicate_after } = of;
        let srtt = self.undelayed.srtt().or(rtt.srtt());
        let departure = Departure { now, thin, srtt, is_single_chunk, duplicate_after };
        let decision = if of_resend {
            self.scheduler.resent(&departure, self.shape(departure.srtt.unwrap_or_default()))
        } else {
            self.scheduler.message_sent(&departure)
        };
        let CopyDecision::At(at) = decision else { return };
        let planned = PlannedCopy { at, sent_at: now, first_tsn, last_tsn, of_resend };
        if self.planned.len() < PLANNED_MAX {
            let index = self.planned.partition_point(|earlier| earlier.at <= at);
            self.planned.insert(index, planned);
        } else {
            self.saved(&planned);
        }
    }

    /// A stream of states has paused: its last one may get a copy at once. The last states of one packet share it.
    pub(super) fn plan_last(&mut self, now: Instant, tsn: u64, sent_at: Instant, rtt: &RttEstimator) {
        let is_of_packet = |copy: &&mut PlannedCopy| copy.at == now && copy.sent_at == sent_at && !copy.of_resend;
        if let Some(copy) = self.planned.iter_mut().find(is_of_packet) {
            copy.last_tsn = tsn;
            return;
        }
        let srtt = self.undelayed.srtt().or(rtt.srtt());
        let last = Departure { now, thin: true, srtt, is_single_chunk: true, duplicate_after: None };
        if self.planned.len() < PLANNED_MAX && matches!(self.scheduler.paused(&last), CopyDecision::At(_)) {
            let copy = PlannedCopy { at: now, sent_at, first_tsn: tsn, last_tsn: tsn, of_resend: false };
            self.planned.push_front(copy);
        }
    }

    pub(super) fn next_at(&self) -> Option<Instant> {
        self.planned.front().map(|planned| planned.at)
    }

    /// Makes the next copy due whose time has come, unless none of its chunks `is_worth_it`, or all have arrived or were sent again meanwhile. The repetition of a
    /// retransmission joins new data that leaves a little before its time. Returns whether one is due.
    pub(super) fn make_due(
        &mut self,
        now: Instant,
        ledger: &Ledger,
        with_new_data: impl Fn() -> bool,
        is_worth_it: impl Fn(&Chunk) -> bool,
    ) -> bool {
        let is_time = |planned: &PlannedCopy| {
            planned.at <= now || planned.of_resend && now - planned.sent_at >= COPY_SPACING_MIN && with_new_data()
        };
        let next = |planned: &mut VecDeque<PlannedCopy>| {
            planned.front().is_some_and(is_time).then(|| planned.pop_front()).flatten()
        };
        while let Some(copy) = self.due.take().or_else(|| next(&mut self.planned)) {
            let is_needed = |tsn| ledger.get(tsn).is_some_and(|chunk| copy.holds(tsn, chunk) && is_worth_it(chunk));
            if copy.tsns().any(is_needed) {
                self.due = Some(copy);
                return true;
            }
            self.saved(&copy);
        }
        false
    }

    /// The copy that is due.
    pub(super) fn due(&self) -> Option<PlannedCopy> {
        self.due
    }

    /// The copy that was due has left.
    pub(super) fn copy_left(&mut self) {
        self.due = None;
    }

    fn saved(&mut self, copy: &PlannedCopy) {
        if !copy.of_resend {
            self.scheduler.copy_saved();
        }
    }

    /// `chunks` chunks were acknowledged for the first time, and the packets of `presumed` are presumed lost
    /// ([`Arrivals::lost`](crate::outstanding::Credit)). Chunks that the peer has computed are lost, too. On a path that reorders, a missing packet
    /// is lost after `patience`. Returns the highest TSN that counts as lost now.
    pub(super) fn acknowledged(
        &mut self,
        now: Instant,
        chunks: usize,
        presumed: impl Iterator<Item = PresumedLoss> + Clone,
        patience: Option<Duration>,
        srtt: Option<Duration>,
    ) -> Option<u64> {
        let recovered = self.take_recovered();
        let presumed = presumed.filter(|loss| !recovered.contains(&loss.number));
        let arrived = chunks.saturating_sub(presumed.clone().count() + recovered.len());
        self.scheduler.arrived(u32::try_from(arrived).unwrap_or(u32::MAX));
        presumed.for_each(|loss| self.presumed_losses.presume(now, loss, patience));
        let counted = core::iter::from_fn(|| self.presumed_losses.next_lost(now));
        let mut highest = None;
        for tsn in recovered.iter().copied().chain(counted) {
            self.scheduler.lost(now, srtt);
            self.scheduler.lost_packet(tsn);
            highest = highest.max(Some(tsn));
        }
        highest
    }

    /// The peer reports a duplicate. Returns the packet that was presumed lost, if it proves to have arrived.
    pub(super) fn duplicate_reported(&mut self, tsn: u64) -> Option<PresumedLoss> {
        let refuted = self.presumed_losses.duplicate_reported(tsn)?;
        if refuted.counted {
            self.scheduler.was_late(tsn);
        } else {
            self.scheduler.arrived(1);
        }
        Some(refuted.loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_packets_leave_at_once_only_so_many_copies_wait() {
        let (now, mut rtt) = (Instant::from_secs(1), RttEstimator::new(Duration::from_secs(1)));
        rtt.sample(Duration::from_millis(100));
        let mut redundancy = RedundancyAccount::new(Redundancy::SPACED, KnownLoss::default());
        redundancy.measured(now, Duration::from_millis(100));
        let packet = |tsn| PlannedFor {
            first_tsn: tsn,
            last_tsn: tsn,
            of_resend: false,
            is_single_chunk: true,
            duplicate_after: None,
        };
        (0..1_000).for_each(|tsn| redundancy.plan(packet(tsn), now, true, &rtt));
        assert_eq!(
            redundancy.planned.iter().map(PlannedCopy::tsns).collect::<Vec<_>>(),
            (0..32).map(|tsn| tsn..=tsn).collect::<Vec<_>>()
        );
    }
}
