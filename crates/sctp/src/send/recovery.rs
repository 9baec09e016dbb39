//! What the loss-recovery decisions of `festina_recovery` are made from: the measurements, the profile and the state of recovery.

use std::sync::Arc;

use festina_recovery::Mechanisms;
use festina_recovery::backoff::ExpirySeries;
use festina_recovery::fast_retransmit::FastRetransmit;
use festina_recovery::profile::{LossDetection, Rules, SpuriousResponse};
use festina_recovery::redundancy::Redundancy;
use festina_recovery::reordering::ReorderingEstimator;
use festina_recovery::rtt::RttEstimator;
use festina_recovery::spurious::answers_earlier;
use festina_recovery::tail_loss_probe::Probe;
use festina_recovery::thin::ThinDetector;
use festina_recovery::undo::RepairAck;
use festina_units::{Duration, Instant};

use super::companions::{Companions, Redundant, SILENT_TURN_PARTS};
use super::published::Published;
use super::redundancy::Copies;
use super::spurious::Suspicion;
use crate::config::Config;
use crate::outstanding::{Chunk, Digest, Progress};
use crate::wire::Sack;

/// Gap ack blocks that the thin-stream detector is shown; a stream with more of them is not thin.
const BLOCKS_SHOWN_MAX: usize = 64;

/// A stream with more chunks outstanding is not thin, whatever the detector says: some rules of thin streams look at each of them
/// for every packet, and a peer that keeps back its cumulative TSN ack can make the list long.
const OUTSTANDING_THIN_MAX: usize = 2_048;

/// Packets in flight for which memory is kept while nothing is outstanding.
const PACKETS_KEPT: usize = 4;

/// Measurements and mechanisms of the one path.
#[derive(Debug)]
pub(super) struct Recovery {
    mechanisms: Arc<Mechanisms>,
    rto_max: Duration,
    pub(super) rtt: RttEstimator,
    pub(super) series: ExpirySeries,
    pub(super) detector: ThinDetector,
    /// If the mechanisms ask for copies and data has left.
    copies: Option<Box<Copies>>,
    /// If the mechanisms ask for any of them and data has left.
    published: Option<Box<Published>>,
    /// If the path was seen to reorder and the mechanisms tolerate it.
    reordering: Option<Box<ReorderingEstimator>>,
    /// The most packets that were in flight since the detector last gave memory back.
    packets_max: usize,
    thin: bool,
    /// The peer's window is being probed: the standard's rules hold, so that probes back off (RFC 9260 §6.1 rule A).
    window_probing: bool,
}

impl Recovery {
    pub(super) fn new(config: &Config, mechanisms: Arc<Mechanisms>) -> Self {
        Self {
            mechanisms,
            rto_max: config.timers.rto_max,
            rtt: RttEstimator::new(config.timers.rto_initial),
            series: ExpirySeries::default(),
            detector: ThinDetector::new(),
            copies: None,
            published: None,
            reordering: None,
            packets_max: 0,
            thin: false,
            window_probing: false,
        }
    }

    /// Forgets what was measured (RFC 9260 §5.2.4.1).
    pub(super) fn reset(&mut self, rto_initial: Duration) {
        self.rtt = RttEstimator::new(rto_initial);
        self.series = ExpirySeries::default();
        self.detector = ThinDetector::new();
        self.copies = None;
        self.published = None;
        self.reordering = None;
        self.window_probing = false;
    }

    pub(super) fn mechanisms(&self) -> &Mechanisms {
        &self.mechanisms
    }

    pub(super) fn set_mechanisms(&mut self, mechanisms: &Mechanisms) {
        self.mechanisms = Arc::new(*mechanisms);
        if mechanisms.redundancy == Redundancy::Off {
            self.copies = None;
        }
        if let Some(copies) = &mut self.copies {
            copies.set_redundancy(mechanisms.redundancy);
        }
        self.published = None;
    }

    /// Judges anew which rules hold, with so many chunks outstanding.
    pub(super) fn refresh(&mut self, window_probing: bool, outstanding: usize) {
        self.thin = outstanding <= OUTSTANDING_THIN_MAX
            && self.detector.is_thin(self.mechanisms.thin_detection, self.rtt.srtt());
        self.window_probing = window_probing;
        let rules = if window_probing { &Rules::RFC9260 } else { self.mechanisms.rules(self.thin) };
        if let Some(published) = &mut self.published {
            published.stop_what_is_off(rules);
        }
    }

    /// Whether the stream was thin when last judged.
    pub(super) fn is_thin(&self) -> bool {
        self.thin
    }

    /// The rules that hold now.
    pub(super) fn rules(&self) -> &Rules {
        if self.window_probing { &Rules::RFC9260 } else { self.mechanisms.rules(self.thin) }
    }

    /// Whether chunks are sent again ahead of a timeout, so that a SACK may speak of an earlier copy than the last.
    pub(super) fn sends_copies(&self) -> bool {
        self.rules().probe != Probe::Off || (self.thin && self.copies.is_some())
    }

    /// The retransmission timeout, backoff included. A probe of the peer's window backs off by the standard's rules, from the RTO that
    /// the profile gives the stream.
    pub(super) fn rto(&self) -> Duration {
        let rto_min = self.mechanisms.rules(self.thin).rto_min;
        let base = self.rtt.rto(rto_min, self.rto_max);
        self.rules().backoff.interval(base, &self.series, self.rto_max)
    }

    /// Takes an unambiguous round-trip time; backing off ends (RFC 9260 §6.3.3).
    pub(super) fn sample(&mut self, now: Instant, rtt: Duration) {
        let clock = self.rules().rtt_clock;
        self.rtt.sample_by(clock, rtt);
        if let Some(copies) = &mut self.copies {
            copies.measured(now, &self.rtt);
        }
        if let Some(published) = &mut self.published {
            published.measured();
        }
        self.series.measured();
    }

    /// T3-rtx expired after `waited`. An expiry that does not back off is no step of an exponential backoff either: a stream that
    /// ceases to be thin begins its backing off then (P10 §5.3).
    pub(super) fn timed_out(&mut self, waited: Duration) {
        if self.rules().backoff.is_linear(&self.series) {
            self.series.probed(waited);
        } else {
            self.series.timed_out(waited);
        }
    }

    /// How many miss indications prove a loss; with RACK, which judges by time, nobody counts them.
    pub(super) fn counted_misses(&self) -> Option<FastRetransmit> {
        let rules = self.rules();
        match rules.loss_detection {
            LossDetection::Counted | LossDetection::Tolerant => Some(rules.fast_retransmit),
            LossDetection::Rack => None,
        }
    }

    /// A chunk leaves, for the first time or again.
    #[inline]
    pub(super) fn chunk_left(&mut self, now: Instant, tsn: u64) {
        if let Some(published) = &mut self.published {
            published.chunk_left(now, tsn);
        }
    }

    /// A chunk that left later than this may just have been overtaken; `None`: on this path nothing is, or the rules do not care.
    pub(super) fn overtaken_after(&self, now: Instant) -> Option<Instant> {
        let (reordering, srtt) = (self.reordering.as_ref()?, self.rtt.srtt()?);
        let tolerance = reordering.tolerance(now, srtt).filter(|_| self.tolerates_reordering())?;
        Some(now - (tolerance.lost_at(now, srtt) - now))
    }

    /// A chunk that was acknowledged now may tell how late overtaken packets are: one that was reported missing arrived, or its fast
    /// retransmission turned out needless.
    fn learn_reordering(&mut self, now: Instant, chunk: &Chunk) {
        let Some(srtt) = self.rtt.srtt() else { return };
        let age = now - chunk.sent_at;
        let arrived_late = chunk.transmissions == 1 && chunk.miss_indications > 0;
        let needless = chunk.transmissions == 2
            && chunk.fast_retransmitted
            && answers_earlier(now, chunk.sent_at, self.rtt.rtt_min());
        if !(arrived_late || needless) || !self.tolerates_reordering() {
            return;
        }
        let reordering = self.reordering.get_or_insert_default();
        if arrived_late {
            reordering.arrived_late(now, age, srtt, 1);
        } else {
            reordering.retransmitted_needlessly(now, srtt);
        }
    }

    /// A chunk was acknowledged for the first time; in ascending order of TSNs.
    #[inline]
    pub(super) fn chunk_acked(&mut self, now: Instant, chunk: &Chunk, progress: Progress, next_tsn: u64) {
        if chunk.miss_indications > 0 || chunk.fast_retransmitted {
            self.learn_reordering(now, chunk);
        }
        let Some(published) = &mut self.published else { return };
        published.acked(now, chunk, progress);
        if chunk.transmissions > 1 {
            published.suspicion.cuts.acked(&RepairAck {
                sequence: progress.tsn,
                transmissions: chunk.transmissions.into(),
                answers_earlier: answers_earlier(now, chunk.sent_at, self.rtt.rtt_min()),
                next_sequence: next_tsn,
            });
        }
    }

    /// Whether a cut of the window may yet be undone.
    pub(super) fn doubts_a_cut(&self) -> bool {
        self.published.as_ref().is_some_and(|published| published.suspicion.cuts.is_open())
    }

    /// A duplicate is reported.
    pub(super) fn duplicate_reported(&mut self, tsn: u64) {
        if let Some(published) = &mut self.published {
            published.suspicion.cuts.duplicate_reported(tsn);
        }
    }

    fn tolerates_reordering(&self) -> bool {
        self.rules().loss_detection == LossDetection::Tolerant
    }

    /// The state of RACK and its like, if the rules ask for it.
    pub(super) fn published(&mut self) -> Option<&mut Published> {
        if self.published.is_none() && Published::is_needed(self.rules()) {
            self.published = Some(Box::default());
        }
        self.published.as_deref_mut()
    }

    /// What F-RTO and undoing remember, if the rules ask for it.
    pub(super) fn suspicion(&mut self) -> Option<&mut Suspicion> {
        if self.rules().spurious == SpuriousResponse::NONE {
            return None;
        }
        self.published().map(|published| &mut published.suspicion)
    }

    /// Whether F-RTO holds back what is taken for lost, and whether it wants new data to leave.
    pub(super) fn held_back(&self) -> (bool, bool) {
        self.published
            .as_ref()
            .map_or((false, false), |published| (published.suspicion.holds_back(), published.suspicion.new_data_first))
    }

    /// When RACK or early fast retransmit want to act.
    pub(super) fn published_at(&self) -> Option<Instant> {
        self.published.as_ref()?.next_at()
    }

    /// When a tail loss probe is due.
    pub(super) fn tail_at(&self) -> Option<Instant> {
        self.published.as_ref()?.tail_at()
    }

    /// A packet with so many bytes of DATA left, so many of them new.
    pub(super) fn packet_sent(&mut self, now: Instant, tsn_highest: u64, bytes: usize, new_bytes: usize) {
        self.detector.packet_sent(now, tsn_highest, new_bytes > 0);
        self.packets_max = self.packets_max.max(self.detector.in_flight());
        let srtt = self.rtt.srtt();
        if new_bytes > 0 {
            self.detector.new_data_sent(now, u32::try_from(new_bytes).unwrap_or(u32::MAX), srtt);
        }
        if self.mechanisms.redundancy != Redundancy::Off
            && let Some(srtt) = srtt
        {
            self.copies(now).data_sent(now, bytes, srtt);
        }
    }

    fn copies(&mut self, now: Instant) -> &mut Copies {
        self.copies.get_or_insert_with(|| {
            let mut copies = Copies::new(self.mechanisms.redundancy);
            copies.measured(now, &self.rtt);
            Box::new(copies)
        })
    }

    /// A packet left with these chunks, all new, `whole` if each is a message: is there to be a copy of it?
    pub(super) fn new_data_sent(&mut self, now: Instant, first_tsn: u64, last_tsn: u64, whole: bool) {
        if let Some(copies) = &mut self.copies {
            copies.new_data_sent(now, self.thin, &self.rtt, (first_tsn, last_tsn), whole);
        }
    }

    /// When the next copy is due.
    pub(super) fn copy_at(&self) -> Option<Instant> {
        self.copies.as_ref()?.next_at()
    }

    /// The first and last TSN of a packet whose copy is due.
    pub(super) fn take_due_copy(&mut self, now: Instant) -> Option<(u64, u64)> {
        self.copies.as_mut()?.take_due(now)
    }

    /// That copy turned out not to be needed.
    pub(super) fn copy_saved(&mut self) {
        if let Some(copies) = &mut self.copies {
            copies.saved();
        }
    }

    /// Which chunks may ride beside `new_bytes` of new data, if the rules have anything that Festina's own rule is for;
    /// `silent_since`: when a probe left, if nothing was acknowledged since.
    pub(super) fn redundant(
        &self,
        now: Instant,
        room_bytes: usize,
        new_bytes: usize,
        silent_since: Option<Instant>,
    ) -> Companions {
        if !self.thin && silent_since.is_none() {
            return Companions::None;
        }
        let Some(srtt) = self.rtt.srtt() else { return Companions::None };
        // Right after a probe, the next acknowledgement of a dense stream may only be a moment away.
        let silent = silent_since.is_some_and(|since| now - since >= srtt / SILENT_TURN_PARTS);
        let budget = self.copies.as_ref().map_or(0, |copies| copies.budget_bytes(now, self.thin, &self.rtt, new_bytes));
        if budget == 0 && !silent {
            return Companions::None;
        }
        Companions::Redundant(Redundant { room_bytes, budget_bytes: budget, srtt, silent })
    }

    /// An acknowledgement was applied. Returns the number of chunks in it whose first transmission was lost.
    ///
    /// A chunk that was sent again counts as lost at first if nothing says that its first copy arrived: that errs to the safe side if it
    /// was an acknowledgement that was lost.
    pub(super) fn acknowledged(&mut self, now: Instant, digest: &Digest) -> usize {
        let rtt = &self.rtt;
        let answers_earlier = digest
            .highest_acked
            .is_some_and(|highest| highest.transmissions > 1 && answers_earlier(now, highest.sent_at, rtt.rtt_min()));
        let lost = digest.acked_copies.saturating_sub(digest.duplicates.reported + usize::from(answers_earlier));
        if let Some(copies) = self.copies.as_mut().filter(|_| self.thin) {
            copies.acknowledged(now, digest.acked_chunks, lost, rtt.srtt());
        }
        lost
    }

    /// Whether what leaves again may repair a loss that nobody was told of: Festina's probes and copies do.
    pub(super) fn repairs_unseen_losses(&self) -> bool {
        matches!(self.rules().probe, Probe::RoundTrip { .. }) || (self.thin && self.copies.is_some())
    }

    /// Nothing is outstanding: memory that a thin stream does not need is given back.
    pub(super) fn shrink(&mut self) {
        if self.packets_max > PACKETS_KEPT {
            self.detector.shrink();
            self.packets_max = 0;
        }
    }

    /// The stream is idle: gives back even what a thin stream needs.
    pub(super) fn give_back_memory(&mut self) {
        self.detector.shrink();
        self.packets_max = 0;
        self.copies = None;
        self.published = None;
        self.reordering = None;
    }

    /// Shows the thin-stream detector a SACK that has been applied.
    pub(super) fn observe_sack(&mut self, sack: &Sack<'_>, cumulative: u64) {
        let blocks = sack.gap_ack_blocks();
        if blocks.len() == 0 {
            self.detector.sack(cumulative, &[]);
            return;
        }
        let mut shown = [(0, 0); BLOCKS_SHOWN_MAX];
        let mut count = 0;
        for (slot, (start, end)) in shown.iter_mut().zip(blocks) {
            *slot = (cumulative + u64::from(start), cumulative + u64::from(end));
            count += 1;
        }
        self.detector.sack(cumulative, shown.get(..count).unwrap_or_default());
    }
}
