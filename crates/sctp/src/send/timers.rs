//! Deadlines: T3-rtx and its like, which belong to repair, and the probe of the peer's closed window.

use festina_units::Instant;

use super::path::Pressure;
use super::repair::{TimerExpiry, Verdict, WindowVerdict};
use super::{FlightAgain, SendPath, SendPaths, Sender};
use crate::congestion::CongestionSign;
use crate::event::Events;
use crate::outstanding::ByPath;

impl Sender {
    /// When to call [`handle_timeout`](Self::handle_timeout).
    #[inline(always)]
    pub(crate) fn deadline<'p>(&self, paths: impl Iterator<Item = &'p SendPath>) -> Option<Instant> {
        let partial = self.flight.partial.as_ref().and_then(|partial| partial.deadline());
        let mut earliest = Instant::earliest([self.flight.window.deadline(), partial]);
        for path in paths {
            let (flight, limits) = (&self.flight, &path.limits);
            let loss = path.repair.deadline(flight, limits);
            // What another path carries does not wait for the pace of this one.
            let waits = limits.duties.lost || flight.ledger.lost().chunks == 0;
            let paced_until = if waits { path.repair.paced_until(flight, limits) } else { None };
            earliest = Instant::earliest([earliest, loss, paced_until]);
        }
        earliest
    }

    /// Handles all expired timers. Returns those of each path.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        paths: &mut impl SendPaths,
        events: &mut Events,
    ) -> ByPath<Option<TimerExpiry>> {
        let dropped = self.flight.drop_stale(now, events);
        let expired = self.flight.abandon_what_is_over(now, || paths.primary().terms(), events);
        if dropped || expired {
            // With less queued or in flight, a loss timer may have been due before now.
            paths.all().for_each(|path| self.settle(now, path));
        }
        self.flight.window.handle_timeout(now);
        let mut expiries = ByPath::default();
        for path in paths.all() {
            path.limits.congestion.handle_timeout(now);
            let expiry = expiries.of_mut(path.limits.id);
            let verdict = path.regulate(Pressure::None, |repair, limits| {
                let (verdict, expired) = repair.on_timeout(now, &mut self.flight, limits);
                *expiry = expired;
                verdict
            });
            self.counters.note(verdict);
            if is_timeout(*expiry)
                && let Some(marking) = &mut path.marking
            {
                marking.timed_out();
            }
            match *expiry {
                Some(TimerExpiry::Timeout { counts: true }) => self.counters.timeouts += 1,
                Some(TimerExpiry::Timeout { counts: false }) => self.flight.window.probe_again(),
                Some(TimerExpiry::Probe) | None => {}
            }
        }
        let path = paths.primary();
        if self.flight.abandon_what_is_over(now, || path.terms(), events) || expired {
            self.flight.gave_up(now, || path.terms(), events);
        }
        self.flight.judge_forward(now, || path.terms(), false);
        if let Some(partial) = &mut self.flight.partial {
            partial.handle_forward_timeout(now, expiries.iter().copied().any(is_timeout));
        }
        paths.all().for_each(|path| self.settle(now, path));
        expiries
    }

    /// The peer does not answer on `path`, and another carries lost chunks: those in flight on it count as lost (RFC 9260 §6.3.3 E3, §6.4.1). The
    /// window restarts as after T3-rtx, unless that is what expired.
    pub(crate) fn give_up_flight(&mut self, now: Instant, path: &mut SendPath, has_timed_out: bool) {
        let lost = self.flight.ledger.time_out(path.limits.id, now, false);
        self.counters.chunks_lost += lost as u64;
        if lost > 0 && !has_timed_out {
            let one_packet = path.repair.rules().one_packet_after_timeout;
            let sign = CongestionSign::Timeout { one_packet, in_fast_recovery: false };
            path.regulate(Pressure::None, |_, _| Verdict::of(WindowVerdict::Cut(sign)));
        }
        path.repair.stop();
        self.settle(now, path);
    }

    /// Chunks in flight are retransmitted on `path`.
    pub(crate) fn repeat_flight(&mut self, now: Instant, path: &mut SendPath, reason: FlightAgain) {
        path.repair.repeat_flight(now, reason, &self.flight.ledger);
        if reason == FlightAgain::PathBroken && self.flight.ledger.in_flight().chunks > 0 {
            let one_packet = path.repair.rules().one_packet_after_timeout;
            let sign = CongestionSign::Timeout { one_packet, in_fast_recovery: false };
            let verdict = Verdict::of(WindowVerdict::Cut(sign));
            path.regulate(Pressure::None, |_, _| verdict);
        }
        self.settle(now, path);
    }
}

fn is_timeout(expiry: Option<TimerExpiry>) -> bool {
    matches!(expiry, Some(TimerExpiry::Timeout { .. }))
}
