//! Mechanisms of other stacks and RFCs that are timers or need a memory of their own: tail loss probes (R15 §3.4.2, RFC 8985 §7),
//! RACK (RFC 8985 §6) and early fast retransmit (FreeBSD).

use festina_recovery::early_fast_retransmit::{self, MarkStep, Marking};
use festina_recovery::profile::{LossDetection, Rules, SpuriousResponse};
use festina_recovery::rack::{AckSummary, Judgement, Rack, Transmission};
use festina_recovery::tail_loss_probe::Probe;
use festina_recovery::tlp::{self, ProbeContent, TailLossProbe, TlpAck, TlpTerms, TlpVerdict};
use festina_units::{Duration, Instant};

use super::Sender;
use super::departures::Departures;
use super::spurious::Suspicion;
use crate::event::RetransmissionCause;
use crate::outstanding::{Chunk, ChunkState, Digest, Progress};

/// The delay of a SACK that RFC 9260 §6.2 suggests.
const ACK_DELAY_MAX: Duration = Duration::from_millis(200);

/// The state of these mechanisms. Kept on the heap, since most associations use none of them.
#[derive(Debug, Default)]
pub(super) struct Published {
    rack: Rack,
    /// What RACK judges, while it does.
    departures: Option<Departures>,
    /// When RACK judges again (RFC 8985 §6.2 step 5).
    rack_at: Option<Instant>,
    tail: TailLossProbe,
    tail_at: Option<Instant>,
    early_at: Option<Instant>,
    pub(super) suspicion: Suspicion,
}

impl Published {
    /// Whether the rules ask for any of the mechanisms.
    pub(super) fn is_needed(rules: &Rules) -> bool {
        rules.loss_detection == LossDetection::Rack
            || rules.early_fast_retransmit.is_some()
            || matches!(rules.probe, Probe::TailLoss(_))
            || rules.spurious != SpuriousResponse::NONE
    }

    /// These rules hold now. A thin stream may have others than a thick one: what they do not ask for must not be waited for.
    pub(super) fn stop_what_is_off(&mut self, rules: &Rules) {
        if rules.loss_detection != LossDetection::Rack {
            self.rack_at = None;
            self.departures = None;
        }
        self.early_at = self.early_at.filter(|_| rules.early_fast_retransmit.is_some());
        self.tail_at = self.tail_at.filter(|_| matches!(rules.probe, Probe::TailLoss(_)));
        if !rules.spurious.f_rto {
            self.suspicion.believe_timeout();
        }
    }

    /// A chunk was acknowledged for the first time; in ascending order of TSNs.
    pub(super) fn acked(&mut self, now: Instant, chunk: &Chunk, progress: Progress) {
        self.rack.acked(now, &transmission(progress.tsn, chunk), None);
        self.suspicion.acked(chunk, progress);
    }

    /// A chunk leaves.
    #[inline]
    pub(super) fn chunk_left(&mut self, now: Instant, tsn: u64) {
        if let Some(departures) = &mut self.departures {
            departures.push(now, tsn);
        }
    }

    /// Chunks that had arrived or were lost are on the way again.
    pub(super) fn chunks_returned(&mut self) {
        self.departures = None;
    }

    pub(super) fn measured(&mut self) {
        self.tail.measured();
    }

    pub(super) fn next_at(&self) -> Option<Instant> {
        [self.rack_at, self.early_at].into_iter().flatten().min()
    }

    pub(super) fn tail_at(&self) -> Option<Instant> {
        self.tail_at
    }
}

fn transmission(tsn: u64, chunk: &Chunk) -> Transmission {
    Transmission { sequence: tsn, sent: chunk.sent_at, retransmitted: chunk.transmissions > 1 }
}

impl Sender {
    /// An acknowledgement was applied. RACK judges what is still outstanding; how many chunks are lost now that were not before.
    pub(super) fn judge_after_ack(&mut self, now: Instant, digest: &Digest, recovery_ended: bool) -> usize {
        let (earliest, next) = (self.ledger.first_tsn(), self.ledger.next_tsn());
        let Some(published) = self.recovery.published() else { return 0 };
        if digest.reneged_chunks > 0 {
            published.chunks_returned();
        }
        published.rack.ack_processed(&AckSummary {
            duplicate_reported: digest.duplicates.beside_tail_probes > 0,
            earliest_outstanding: earliest,
            next_sequence: next,
            recovery_ended,
        });
        let tail = published.tail.acked(&TlpAck {
            earliest_outstanding: earliest,
            is_new: digest.acked_chunks > 0,
            probe_duplicated: digest.duplicates.of_tail_probes > 0,
            is_plain_duplicate: digest.acked_chunks == 0 && self.ledger.gap_acked_chunks() == 0,
        });
        if tail == TlpVerdict::Repaired && !self.repair.in_fast_recovery {
            self.cut_window();
        }
        self.judge_by_time(now)
    }

    /// RFC 8985 §6.2 step 5, but that the timer is set for the first chunk that is due and not for the last: each is repaired when it is
    /// due.
    fn judge_by_time(&mut self, now: Instant) -> usize {
        if self.recovery.rules().loss_detection != LossDetection::Rack {
            return 0;
        }
        let in_recovery = self.repair.in_fast_recovery;
        let gap_acked = u32::try_from(self.ledger.gap_acked_chunks()).unwrap_or(u32::MAX);
        let srtt = self.recovery.rtt.srtt();
        let Self { ledger, recovery, .. } = self;
        let Some(published) = recovery.published() else { return 0 };
        let window = published.rack.reordering_window(in_recovery, gap_acked, srtt);
        published.rack_at = None;
        published.departures.take_if(|departures| departures.is_stale(ledger));
        let departures = published.departures.get_or_insert_with(|| Departures::of(ledger));
        let mut lost = 0;
        while let Some((tsn, chunk)) = departures.first(ledger) {
            match published.rack.judge(&transmission(tsn, chunk), window, now) {
                Judgement::Lost => {
                    ledger.lose(tsn, RetransmissionCause::Fast);
                    lost += 1;
                }
                // What follows left later, and is due later.
                Judgement::WaitUntil(at) => {
                    published.rack_at = Some(at);
                    break;
                }
                Judgement::NotYetJudged => break,
            }
        }
        lost
    }

    /// Acts on the timers of these mechanisms. Whether one had expired.
    pub(super) fn handle_published_timeout(&mut self, now: Instant) -> bool {
        let Some(published) = self.recovery.published() else { return false };
        let is_due = |at: &mut Instant| *at <= now;
        let (rack, early) = (published.rack_at.take_if(is_due), published.early_at.take_if(is_due));
        if rack.is_some() {
            let lost = self.judge_by_time(now);
            self.enter_recovery(lost);
        }
        if early.is_some() {
            self.mark_early(now);
        }
        rack.is_some() || early.is_some()
    }

    /// The walk of FreeBSD's early fast retransmit.
    fn mark_early(&mut self, now: Instant) {
        let Some(delay) = self.early_delay() else { return };
        let (in_flight, cwnd) = (self.ledger.in_flight().bytes as u64, self.congestion.cwnd() as u64);
        let mut marking = Marking::new(now, delay, in_flight, cwnd);
        for tsn in (self.ledger.first_tsn()..self.ledger.next_tsn()).rev() {
            let Some(chunk) = self.ledger.get(tsn).filter(|chunk| chunk.state == ChunkState::InFlight) else {
                continue;
            };
            let sent = early_fast_retransmit::Sent { sent: chunk.sent_at, bytes: chunk.bytes() as u64 };
            match marking.mark(sent) {
                MarkStep::Mark => {
                    self.ledger.lose(tsn, RetransmissionCause::Fast);
                    self.counters.chunks_lost += 1;
                }
                MarkStep::Pass => {}
                MarkStep::Stop => break,
            }
        }
        if marking.has_marked() {
            self.repair.packet_due = Some(RetransmissionCause::Fast);
            self.congestion.on_early_retransmit();
        }
        self.arm_early(now);
    }

    fn early_delay(&self) -> Option<Duration> {
        let floor = self.recovery.rules().early_fast_retransmit?;
        let rtt = &self.recovery.rtt;
        Some(early_fast_retransmit::delay(rtt.srtt(), rtt.rttvar(), rtt.rto_initial(), floor))
    }

    /// DATA left or an acknowledgement came: the timers of these mechanisms start again.
    pub(super) fn arm_published(&mut self, now: Instant) {
        if Published::is_needed(self.recovery.rules()) {
            self.arm_early(now);
            self.arm_tail(now);
        }
    }

    fn arm_early(&mut self, now: Instant) {
        let (in_flight, cwnd) = (self.ledger.in_flight(), self.congestion.cwnd() as u64);
        let runs = early_fast_retransmit::timer_runs(in_flight.chunks, in_flight.bytes as u64, cwnd);
        let at = self.early_delay().filter(|_| runs).map(|delay| now + delay);
        if let Some(published) = self.recovery.published() {
            published.early_at = at;
        }
    }

    fn arm_tail(&mut self, now: Instant) {
        let Probe::TailLoss(rule) = self.recovery.rules().probe else { return };
        let earliest_sent = self.ledger.get(self.ledger.first_tsn()).map_or(now, |chunk| chunk.sent_at);
        let answered_at_once = self.ledger.get(self.ledger.next_tsn() - 1).is_some_and(|last| last.immediate_ack);
        let terms = TlpTerms {
            now,
            srtt: self.recovery.rtt.srtt(),
            outstanding: u32::try_from(self.recovery.detector.in_flight()).unwrap_or(u32::MAX),
            unsent: self.unsent_packets(),
            earliest_sent,
            is_open: self.ledger.lost().chunks == 0
                && self.ledger.gap_acked_chunks() == 0
                && !self.repair.in_fast_recovery
                && self.recovery.series.timeouts() == 0,
            ack_delay_max: if answered_at_once { Duration::ZERO } else { ACK_DELAY_MAX },
            timeout_at: self.timer.timeout_at().unwrap_or_else(|| now + self.recovery.rto()),
        };
        if let Some(published) = self.recovery.published() {
            published.tail_at = rule.deadline(&published.tail, &terms);
        }
    }

    /// The tail loss probe is due: what it carries. RFC 8985 §7.3 lets new data exceed cwnd; RFC 9260 §6.1 rule B does not, and binds
    /// new data only.
    pub(super) fn tail_content(&self) -> ProbeContent {
        tlp::content(self.allows_new_data())
    }

    /// The probe left.
    pub(super) fn tail_probe_left(&mut self, content: ProbeContent) {
        let next = self.ledger.next_tsn();
        if let Some(published) = self.recovery.published() {
            published.tail.sent(content, next);
        }
    }

    /// T3-rtx expired or a fast recovery begins: they judge losses now.
    pub(super) fn abandon_tail_probe(&mut self) {
        if let Some(published) = self.recovery.published() {
            published.tail.abandon();
            published.tail_at = None;
        }
    }
}
