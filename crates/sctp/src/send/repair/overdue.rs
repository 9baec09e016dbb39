//! Early fast retransmit: FreeBSD's timer of about a round trip, which marks what is overdue while cwnd is not filled.

use festina_recovery::early_fast_retransmit::{self, MarkStep, Marking};
use festina_recovery::rtt::RttEstimator;
use festina_units::{Duration, Instant};

use crate::event::RetransmissionCause;
use crate::outstanding::{ChunkState, Ledger};

/// When to look.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    at: Option<Instant>,
}

impl Overdue {
    /// Data left or an acknowledgement came: the timer starts again; `delay` as of [`delay`], `None` if the rules do not ask for it.
    pub(super) fn arm(&mut self, now: Instant, delay: Option<Duration>, ledger: &Ledger, cwnd_bytes: u64) {
        let in_flight = ledger.in_flight();
        let runs = early_fast_retransmit::timer_runs(in_flight.chunks, in_flight.bytes as u64, cwnd_bytes);
        self.at = delay.filter(|_| runs).map(|delay| now + delay);
    }

    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// The rules do not ask for it any more.
    pub(super) fn stop(&mut self) {
        self.at = None;
    }

    /// Returns whether the time has come.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        self.at.take_if(|at| *at <= now).is_some()
    }
}

/// The timer's delay.
pub(super) fn delay(rtt: &RttEstimator, floor: Duration) -> Duration {
    early_fast_retransmit::delay(rtt.srtt(), rtt.rttvar(), rtt.rto_initial(), floor)
}

/// FreeBSD's walk. Returns the number of chunks now taken for lost.
pub(super) fn mark(now: Instant, delay: Duration, ledger: &mut Ledger, cwnd_bytes: u64) -> usize {
    let mut marking = Marking::new(now, delay, ledger.in_flight().bytes as u64, cwnd_bytes);
    let mut lost = 0;
    for tsn in (ledger.first_tsn()..ledger.next_tsn()).rev() {
        let Some(chunk) = ledger.get(tsn).filter(|chunk| chunk.state == ChunkState::InFlight) else { continue };
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
