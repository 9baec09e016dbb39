//! What may be spent on copies that nothing calls for, and what the path says against it.

use std::collections::VecDeque;

use festina_recovery::profile::LIGHT_COPIES_BYTES_MAX;
use festina_recovery::rate::RateMeter;
use festina_recovery::redundancy::{CopyDecision, CopyScheduler, Departure, Redundancy};
use festina_recovery::rtt::RttEstimator;
use festina_units::{Duration, Instant};

use crate::outstanding::AckReport;

/// The account of one path. Kept on the heap: an association at rest needs none.
#[derive(Debug)]
pub(super) struct Copies {
    scheduler: CopyScheduler,
    /// All DATA that leaves, copies included.
    wire: RateMeter,
    /// Copies that are to leave, in the order of their times.
    planned: VecDeque<Planned>,
}

/// The copy of what was new in one packet.
#[derive(Clone, Copy, Debug)]
struct Planned {
    at: Instant,
    first_tsn: u64,
    last_tsn: u64,
}

impl Copies {
    pub(super) fn new(redundancy: Redundancy) -> Self {
        Self { scheduler: CopyScheduler::new(redundancy), wire: RateMeter::new(), planned: VecDeque::new() }
    }

    /// SRTT is known or has changed. The scheduler takes its smallest value for the path without a queue: jitter makes single round
    /// trips a good deal shorter.
    pub(super) fn measured(&mut self, now: Instant, rtt: &RttEstimator) {
        if let Some(srtt) = rtt.srtt() {
            self.scheduler.round_trip(now, srtt);
        }
    }

    /// So many bytes of DATA left.
    pub(super) fn data_sent(&mut self, now: Instant, bytes: usize, srtt: Duration) {
        self.wire.sent(now, u32::try_from(bytes).unwrap_or(u32::MAX), srtt);
    }

    /// Bytes that copies may take now, beside `new_bytes` of new data.
    pub(super) fn budget_bytes(&self, now: Instant, thin: bool, rtt: &RttEstimator, new_bytes: usize) -> usize {
        if !self.scheduler.bundles(now, thin, certain_srtt(rtt)) {
            return 0;
        }
        let window = rtt.srtt().unwrap_or_default();
        let left = LIGHT_COPIES_BYTES_MAX.saturating_sub(self.wire.bytes_at(now, window));
        usize::try_from(left).unwrap_or(usize::MAX).saturating_sub(new_bytes)
    }

    /// New data left; a copy is planned if there shall be one.
    pub(super) fn new_data_sent(
        &mut self,
        now: Instant,
        thin: bool,
        rtt: &RttEstimator,
        (first_tsn, last_tsn): (u64, u64),
        whole: bool,
    ) {
        let departure = Departure { now, thin, srtt: certain_srtt(rtt), is_single_chunk: whole };
        if let CopyDecision::At(at) = self.scheduler.message_sent(&departure) {
            self.planned.push_back(Planned { at, first_tsn, last_tsn });
        }
    }

    pub(super) fn next_at(&self) -> Option<Instant> {
        self.planned.front().map(|planned| planned.at)
    }

    pub(super) fn take_due(&mut self, now: Instant) -> Option<(u64, u64)> {
        let &Planned { first_tsn, last_tsn, .. } = self.planned.front().filter(|planned| planned.at <= now)?;
        self.planned.pop_front();
        Some((first_tsn, last_tsn))
    }

    /// A planned copy was not needed.
    pub(super) fn saved(&mut self) {
        self.scheduler.copy_saved();
    }

    /// An acknowledgement was applied; so many `duplicates` were reported with it. A chunk that was sent again counts as lost at first
    /// if nothing says that its first copy arrived: that errs to the safe side if it was an acknowledgement that was lost.
    pub(super) fn acknowledged(&mut self, now: Instant, report: &AckReport, duplicates: usize, rtt: &RttEstimator) {
        let srtt = rtt.srtt();
        let answers_earlier = report.highest_acked.is_some_and(|highest| {
            highest.transmissions > 1 && rtt.rtt_min().is_some_and(|rtt_min| now - highest.sent_at < rtt_min)
        });
        let lost = report.acked_copies.saturating_sub(duplicates + usize::from(answers_earlier));
        (lost..report.acked_chunks).for_each(|_| self.scheduler.outcome(now, false, srtt));
        (0..lost).for_each(|_| self.scheduler.outcome(now, true, srtt));
    }
}

/// SRTT as far as it is sure: on a path with jitter it wanders about, and that is no queue.
fn certain_srtt(rtt: &RttEstimator) -> Option<Duration> {
    Some(rtt.srtt()?.saturating_sub(rtt.deviation()?))
}
