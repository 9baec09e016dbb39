//! Time-based loss detection (RFC 8985 §6): a chunk sent well before another that has arrived is lost.

use festina_recovery::rack::{AckSummary, Judgement, Rack, Transmission};
use festina_units::{Duration, Instant};

use super::departures::Departures;
use crate::event::RetransmissionCause;
use crate::outstanding::{Arrival, Chunk, Ledger, PathId, Run};

/// What RACK remembers, and when it judges again.
#[derive(Debug, Default)]
pub(super) struct LossByTime {
    rack: Rack,
    /// The chunks to judge, while RACK is active.
    departures: Option<Departures>,
    /// RFC 8985 §6.2 step 5.
    at: Option<Instant>,
}

impl LossByTime {
    /// The rules do not ask for it any more.
    pub(super) fn stop(&mut self) {
        self.at = None;
        self.departures = None;
    }

    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// Returns whether the time to judge has come.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        self.at.take_if(|at| *at <= now).is_some()
    }

    /// A chunk leaves.
    #[inline]
    pub(super) fn chunk_left(&mut self, now: Instant, tsn: u64) {
        if let Some(departures) = &mut self.departures {
            departures.push(now, tsn);
        }
    }

    /// Chunks that had arrived or were lost are in flight again.
    pub(super) fn chunks_returned(&mut self) {
        self.departures = None;
    }

    /// A chunk that was sent more than once was acknowledged for the first time, and the run before it; in ascending order of TSNs.
    pub(super) fn copy_acked(&mut self, now: Instant, arrival: &Arrival) {
        if let Some(run) = arrival.run_before {
            self.run_acked(now, run);
        }
        let Arrival { tsn, sent_at, .. } = *arrival;
        self.rack.acked(now, &Transmission { sequence: tsn, sent: sent_at, retransmitted: true }, None);
    }

    /// Chunks that were sent once were acknowledged for the first time.
    #[inline]
    pub(super) fn run_acked(&mut self, now: Instant, Run { first, last, sent_at }: Run) {
        self.rack.acked_in_order(now, first, &Transmission { sequence: last, sent: sent_at, retransmitted: false });
    }

    /// On this path packets arrive after later ones.
    pub(super) fn assume_reordering(&mut self) {
        self.rack.assume_reordering();
    }

    /// Returns how late a reordered packet may arrive, if any was ever reordered.
    pub(super) fn known_lateness(&self) -> Option<Duration> {
        self.rack.reordering_seen().then(|| self.rack.reordering_window(false, 0, None))
    }

    /// An acknowledgement was applied.
    pub(super) fn ack_processed(&mut self, ack: &AckSummary) {
        self.rack.ack_processed(ack);
    }

    /// RFC 8985 §6.2 step 5, except that the timer is set for the first chunk that is due instead of the last, so that each is repaired when it is
    /// due. Returns the number of chunks newly marked as lost.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        in_recovery: bool,
        srtt: Option<Duration>,
        (ledger, path): (&mut Ledger, PathId),
    ) -> usize {
        self.at = None;
        self.departures.take_if(|departures| departures.is_stale(ledger));
        let departures = self.departures.get_or_insert_with(|| Departures::of(ledger, path));
        let mut lost = 0;
        let Some(newest) = self.rack.newest_delivered() else { return 0 };
        if departures.first(ledger).is_none_or(|(_, chunk)| chunk.sent_at > newest) {
            // The usual case: nothing is lost.
            return 0;
        }
        let gap_acked = u32::try_from(ledger.gap_acked_chunks()).unwrap_or(u32::MAX);
        let window = self.rack.reordering_window(in_recovery, gap_acked, srtt);
        while let Some((tsn, chunk)) = departures.first(ledger) {
            match self.rack.judge(&transmission(tsn, chunk), window, now) {
                Judgement::Lost => {
                    ledger.lose(tsn, RetransmissionCause::Fast);
                    lost += 1;
                }
                // Later chunks were sent later, and are due later.
                Judgement::WaitUntil(at) => {
                    self.at = Some(at);
                    break;
                }
                Judgement::NotYetJudged => break,
            }
        }
        lost
    }
}

fn transmission(tsn: u64, chunk: &Chunk) -> Transmission {
    Transmission { sequence: tsn, sent: chunk.sent_at, retransmitted: chunk.transmissions > 1 }
}
