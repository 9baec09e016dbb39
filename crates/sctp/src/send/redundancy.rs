//! What may be spent on copies that nothing calls for, and what the path says against it.

use festina_recovery::profile::LIGHT_COPIES_BYTES_MAX;
use festina_recovery::rate::RateMeter;
use festina_recovery::redundancy::{CopyScheduler, Redundancy};
use festina_units::{Duration, Instant};

use crate::outstanding::AckReport;

/// The account of one path. Kept on the heap: an association at rest needs none.
#[derive(Debug)]
pub(super) struct Copies {
    scheduler: CopyScheduler,
    /// All DATA that leaves, copies included.
    wire: RateMeter,
}

impl Copies {
    pub(super) fn new(redundancy: Redundancy) -> Self {
        Self { scheduler: CopyScheduler::new(redundancy), wire: RateMeter::new() }
    }

    pub(super) fn measured(&mut self, now: Instant, rtt: Duration) {
        self.scheduler.round_trip(now, rtt);
    }

    /// So many bytes of DATA left.
    pub(super) fn data_sent(&mut self, now: Instant, bytes: usize, srtt: Duration) {
        self.wire.sent(now, u32::try_from(bytes).unwrap_or(u32::MAX), srtt);
    }

    /// Bytes that copies may take now, beside `new_bytes` of new data.
    pub(super) fn budget_bytes(&self, now: Instant, thin: bool, srtt: Duration, new_bytes: usize) -> usize {
        if !self.scheduler.bundles(now, thin, Some(srtt)) {
            return 0;
        }
        let left = LIGHT_COPIES_BYTES_MAX.saturating_sub(self.wire.bytes_at(now, srtt));
        usize::try_from(left).unwrap_or(usize::MAX).saturating_sub(new_bytes)
    }

    /// An acknowledgement was applied; so many `duplicates` were reported with it. A chunk that was sent again counts as lost at first
    /// if nothing says that its first copy arrived: that errs to the safe side if it was an acknowledgement that was lost.
    pub(super) fn acknowledged(
        &mut self,
        now: Instant,
        report: &AckReport,
        duplicates: usize,
        srtt: Option<Duration>,
        rtt_min: Option<Duration>,
    ) {
        let answers_earlier = report.highest_acked.is_some_and(|highest| {
            highest.transmissions > 1 && rtt_min.is_some_and(|rtt_min| now - highest.sent_at < rtt_min)
        });
        let lost = report.acked_copies.saturating_sub(duplicates + usize::from(answers_earlier));
        (lost..report.acked_chunks).for_each(|_| self.scheduler.outcome(now, false, srtt));
        (0..lost).for_each(|_| self.scheduler.outcome(now, true, srtt));
    }
}
