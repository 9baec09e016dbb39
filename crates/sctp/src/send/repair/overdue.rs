//! Early fast retransmit: FreeBSD's timer of about a round trip, which marks overdue chunks as lost while cwnd is not filled.

use festina_recovery::early_fast_retransmit::{self, MarkStep, Marking};
use festina_recovery::rtt::RttEstimator;
use festina_units::{Duration, Instant};

use crate::event::RetransmissionCause;
use crate::outstanding::{Chunk, ChunkState, Ledger, PathId};

/// Since when the timer runs.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    armed_at: Option<Instant>,
}

impl Overdue {
    /// Data left or an acknowledgement came: the timer starts again.
    pub(super) fn arm(&mut self, now: Instant) {
        self.armed_at = Some(now);
    }

    /// When to look, with the delay of [`delay`].
    pub(super) fn at(&self, delay: Duration, ledger: &Ledger, path: PathId, cwnd_bytes: u64) -> Option<Instant> {
        let in_flight = ledger.in_flight_by_path().of(path);
        let runs = early_fast_retransmit::timer_runs(in_flight.chunks, in_flight.bytes as u64, cwnd_bytes);
        self.armed_at.filter(|_| runs).map(|armed_at| armed_at + delay)
    }

    /// The rules do not ask for it any more.
    pub(super) fn stop(&mut self) {
        self.armed_at = None;
    }
}

/// The timer's delay.
pub(super) fn delay(rtt: &RttEstimator, floor: Duration) -> Duration {
    early_fast_retransmit::delay(rtt.srtt(), rtt.rttvar(), rtt.rto_initial(), floor)
}

/// FreeBSD's walk. Returns the number of chunks now taken for lost.
pub(super) fn mark(now: Instant, delay: Duration, ledger: &mut Ledger, path: PathId, cwnd_bytes: u64) -> usize {
    let mut marking = Marking::new(now, delay, ledger.in_flight_by_path().of(path).bytes as u64, cwnd_bytes);
    let mut lost = 0;
    for tsn in (ledger.first_tsn()..ledger.next_tsn()).rev() {
        let is_candidate = |chunk: &&Chunk| chunk.state == ChunkState::InFlight && chunk.is_on(path);
        let Some(chunk) = ledger.get(tsn).filter(is_candidate) else { continue };
        let sent = early_fast_retransmit::Sent { sent: chunk.sent_at, bytes: chunk.bytes() as u64 };
        match marking.mark(sent) {
            MarkStep::Mark => {
                ledger.lose(tsn, RetransmissionCause::Fast);
                lost += 1;
            }
            MarkStep::Pass => {}
            MarkStep::Stop => break,
        }
    }
    lost
}
