//! Consequences of an acknowledgement beyond the ledger (RFC 9260 §6.2.1, §6.3.2, §7.2).

use festina_units::Instant;

use super::path::{PathLimits, Pressure};
use super::repair::{Repair, Verdict};
use super::{SendPaths, Sender};
use crate::error::ProtocolViolation;
use crate::event::{Event, Events};
use crate::outstanding::{Acknowledgement, ByPath, PathId};
use crate::wire::Tsn;

impl Sender {
    /// Handles the peer's report that a packet with this TSN was marked (ECNE). The window is cut once per round trip. Returns whether the TSN was
    /// ever sent, so that there is something to answer.
    pub(crate) fn handle_mark(&mut self, now: Instant, paths: &mut impl SendPaths, tsn: Tsn) -> bool {
        let tsn = tsn.unwrap(self.flight.ledger.next_tsn());
        if tsn >= self.flight.ledger.next_tsn() {
            return false;
        }
        let path = paths.of(self.flight.ledger.get(tsn).map_or(PathId::PRIMARY, |chunk| chunk.path));
        let judge = |repair: &mut Repair, _: &PathLimits| Verdict::of(repair.on_mark(tsn, &self.flight.ledger));
        path.regulate(Pressure::None, judge);
        self.flight.follow_window(now, path);
        self.settle(now, path);
        true
    }

    /// Applies an acknowledgement, and credits each path with the chunks last sent on it (RFC 9260 §7.2.1). One that is older than the
    /// latest changes nothing. Returns the paths that it shows to work.
    ///
    /// Reports [`Event::MessageDelivered`], [`Event::Writable`] and [`Event::Drained`].
    ///
    /// # Errors
    /// Peer: it acknowledged a TSN that was never sent, or something is missing again that was to be kept for good.
    pub(crate) fn acknowledge(
        &mut self,
        now: Instant,
        paths: &mut impl SendPaths,
        acknowledgement: Acknowledgement<'_>,
        events: &mut Events,
    ) -> Result<ByPath<bool>, ProtocolViolation> {
        let path = paths.primary();
        let terms = path.repair.terms(now, &self.flight, &path.limits);
        let Some(digest) = self.flight.apply(now, acknowledgement, terms, events)? else {
            return Ok(ByPath::default());
        };
        self.counters.note_spurious(digest.duplicates.of_resent);
        let were_missing = self.flight.buffer.looks_for_missing() && self.flight.give_up_what_is_missing(now, events);
        for path in paths.all() {
            let verdict = path.react(now, acknowledgement.sack, &digest, &mut self.flight, events);
            self.counters.note(verdict);
        }
        if digest.cumulative_advanced && self.flight.buffer.is_empty() && self.flight.ledger.is_empty() {
            self.flight.drained(events);
        }
        let answered = digest.answered;
        self.flight.ledger.finish(digest);
        let path = paths.primary();
        self.flight.follow_window(now, path);
        if self.flight.buffer.take_writable() {
            events.push(Event::Writable);
        }
        self.flight.drop_stale(now, events);
        if self.flight.abandon_what_is_over(now, path, events) || were_missing {
            self.flight.gave_up(now, path, events);
            paths.all().for_each(|path| self.settle(now, path));
        }
        let path = paths.primary();
        self.flight.judge_forward(now, path, true);
        self.flight.update_window(now, path);
        self.flight.window.note_closed(now);
        Ok(answered)
    }
}
