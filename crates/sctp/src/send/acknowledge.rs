//! Consequences of an acknowledgement beyond the ledger (RFC 9260 §6.2.1, §6.3.2, §7.2).

use festina_units::Instant;

use super::messages::{Fate, Left};
use super::partial::Partial;
use super::path::Pressure;
use super::queue::SendBuffer;
use super::repair::{Heard, Repair, Verdict, View};
use super::{Counters, SendPath, SendPaths, Sender};
use crate::congestion::Ack;
use crate::error::ProtocolViolation;
use crate::event::{Event, Events, RetransmissionCause};
use crate::outstanding::{Acknowledgement, ByPath, Credit, Digest, PathId, SackTerms, SettledPiece};
use crate::wire::Tsn;

/// The part of an acknowledgement that the association needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SackOutcome {
    /// The paths whose error counters start again: something sent on them was acknowledged for the first time (RFC 9260 §8.1, §8.2), or the peer
    /// answers a probe of its closed window (RFC 9260 §6.1 rule A).
    pub(crate) answered: ByPath<bool>,
}

impl Sender {
    /// Handles the peer's report that a packet with this TSN was marked (ECNE). The window is cut once per round trip. Returns whether the TSN was
    /// ever sent, so that there is something to answer.
    pub(crate) fn handle_mark(&mut self, now: Instant, paths: &mut impl SendPaths, tsn: Tsn) -> bool {
        let tsn = tsn.unwrap(self.ledger.next_tsn());
        if tsn >= self.ledger.next_tsn() {
            return false;
        }
        let path = paths.of(self.ledger.get(tsn).map_or(PathId::PRIMARY, |chunk| chunk.path));
        let judge = |repair: &mut Repair, _: &View<'_>| Verdict::of(repair.on_mark(tsn, &self.ledger));
        path.regulate(Pressure::None, &self.buffer, &self.window, judge);
        self.buffer.follow(now, || path.surroundings(&self.ledger));
        self.settle(now, path);
        true
    }

    /// Applies an acknowledgement, and credits each path with the chunks last sent on it (RFC 9260 §7.2.1). One that is older than the
    /// latest changes nothing.
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
    ) -> Result<SackOutcome, ProtocolViolation> {
        let mut digest = Digest::default();
        if !self.take_in(now, paths.primary(), acknowledgement, &mut digest, events)? {
            return Ok(SackOutcome::default());
        }
        self.counters.note_spurious(digest.duplicates.of_resent);
        if let Some(sack) = acknowledgement.sack {
            self.window.told(sack.a_rwnd);
        }
        self.window.handle_sack(self.ledger.first_tsn());
        let mut answered = digest.credits.map_ref(Credit::is_answer);
        if let Some(probe) = self.window.probe().and_then(|tsn| self.ledger.get(tsn)) {
            *answered.of_mut(probe.path) = true;
        }
        let heard = Heard { sack: acknowledgement.sack, window_opened: self.resend_window_probe() };
        let were_missing = self.buffer.looks_for_missing() && self.abandoning().give_up_what_is_missing(now, events);
        for path in paths.all() {
            if let Some(marking) = &mut path.marking {
                marking.acked(self.ledger.first_tsn());
            }
            let credit = digest.credits.of(path.id);
            let newest = credit.highest_acked;
            let earned = Pressure::Acked(Ack {
                now,
                bytes: credit.acked_bytes,
                in_flight_before: credit.in_flight_bytes_before,
                sent_at: newest.map(|newest| newest.sent_at),
                rtt: newest.filter(|newest| newest.transmissions == 1).map(|newest| now - newest.sent_at),
                srtt: path.repair.rtt().srtt(),
                in_fast_recovery: path.repair.in_fast_recovery(),
                cumulative_advanced: digest.cumulative_advanced,
                all_acked: self.ledger.earliest_on(path.id).is_none(),
            });
            let verdict = path.regulate(earned, &self.buffer, &self.window, |repair, view| {
                repair.on_ack(now, &digest, &heard, &mut self.ledger, view, events)
            });
            self.counters.note(verdict);
        }
        if digest.cumulative_advanced && self.buffer.is_empty() && self.ledger.is_empty() {
            self.drained(events);
        }
        self.ledger.finish(digest);
        let path = paths.primary();
        self.buffer.follow(now, || path.surroundings(&self.ledger));
        if self.buffer.take_writable() {
            events.push(Event::Writable);
        }
        self.drop_stale(now, events);
        if self.abandon_what_is_over(now, path, events) || were_missing {
            self.gave_up(now, path, events);
            paths.all().for_each(|path| self.settle(now, path));
        }
        let path = paths.primary();
        if let Some(partial) = &mut self.partial {
            partial.judge_forward(now, path, &self.ledger, (self.framing, self.apart), true);
        }
        self.update_window(now, path);
        self.window.note_closed(now);
        Ok(SackOutcome { answered })
    }

    /// Applies an acknowledgement to the ledger and the buffer. Returns whether it is news.
    fn take_in(
        &mut self,
        now: Instant,
        path: &mut SendPath,
        acknowledgement: Acknowledgement<'_>,
        digest: &mut Digest,
        events: &mut Events,
    ) -> Result<bool, ProtocolViolation> {
        let forwarded = self.partial.as_ref().map_or(0, |partial| partial.forwarded());
        let (repair, view) = path.split(&self.buffer, &self.window);
        let terms = SackTerms { told_apart: self.apart.then_some(forwarded), ..repair.terms(now, &self.ledger, &view) };
        let Self { ledger, buffer, partial, counters, .. } = self;
        if !ledger.apply(acknowledgement.cumulative_tsn, digest)? {
            return Ok(false);
        }
        let mut settling = Settling { now, buffer, partial: partial.as_deref_mut(), counters, events };
        while let Some(piece) = ledger.settle_next(forwarded, digest) {
            settling.settle(piece);
        }
        ledger.apply_blocks(acknowledgement, terms, digest)?;
        if !digest.singles.settled.is_empty() {
            settling.settle_all(core::mem::take(&mut digest.singles.settled));
        }
        Ok(true)
    }

    /// A probe of the closed window was dropped by the peer; as the window has opened, it is sent again without waiting for its backed-off
    /// timer. Returns whether that is so.
    fn resend_window_probe(&mut self) -> bool {
        let Some(tsn) = self.window.probe() else { return false };
        let fits = |payload_bytes| payload_bytes <= self.window.available_bytes(0);
        let opened = self.ledger.get(tsn).is_some_and(|chunk| fits(chunk.payload.len()));
        if opened {
            self.ledger.lose(tsn, RetransmissionCause::Probe);
            self.window.opened();
        }
        opened
    }
}

/// Where chunks that are acknowledged for good are taken out.
struct Settling<'s> {
    now: Instant,
    buffer: &'s mut SendBuffer,
    partial: Option<&'s mut Partial>,
    counters: &'s mut Counters,
    events: &'s mut Events,
}

impl Settling<'_> {
    /// The last chunk of a message completes it.
    #[inline(always)]
    fn settle(&mut self, SettledPiece { message, payload_bytes }: SettledPiece) {
        let Some(Left { id, fate }) = self.buffer.release(message, payload_bytes) else { return };
        let confirm = match fate {
            Fate::Plain => false,
            Fate::Tracked => self.partial.as_mut().is_some_and(|partial| partial.forget(message)),
            Fate::Abandoned => return,
        };
        self.counters.messages_acked += 1;
        let at = self.now;
        if confirm {
            self.events.push(Event::MessageDelivered { id, at });
        } else {
            self.events.push_message_event(|| Event::MessageDelivered { id, at });
        }
    }

    /// Out of line, so that the other call stays inlined.
    #[cold]
    #[inline(never)]
    fn settle_all(&mut self, pieces: Vec<SettledPiece>) {
        for piece in pieces {
            self.settle(piece);
        }
    }
}
