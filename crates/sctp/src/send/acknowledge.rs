//! What an acknowledgement changes beyond the ledger (RFC 9260 §6.2.1, §6.3.2, §7.2).

use festina_units::{Duration, Instant};

use super::messages::{Fate, Left};
use super::partial::Partial;
use super::path::Pressure;
use super::queue::SendBuffer;
use super::repair::{Heard, Repair};
use super::{Counters, SendPath, Sender};
use crate::congestion::Ack;
use crate::error::ProtocolViolation;
use crate::event::{Event, Events, RetransmissionCause};
use crate::outstanding::{Acknowledgement, Chunk, Digest, Observer, PathId, Progress};
use crate::wire::{NrSack, Sack, Tsn};

/// What the association needs to know of an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SackOutcome {
    /// The error counters start again, the association's and this path's: something that left by it was acknowledged for the first
    /// time (RFC 9260 §8.1), or the peer answers a probe of its closed window (RFC 9260 §6.1 rule A).
    pub(crate) answered: Option<PathId>,
}

impl Sender {
    /// Applies a SACK. One that is older than what is known changes nothing.
    ///
    /// Reports [`Event::MessageDelivered`], [`Event::Writable`] and [`Event::Drained`].
    ///
    /// # Errors
    /// Peer: it acknowledged a TSN that was never sent.
    pub(crate) fn handle_sack(
        &mut self,
        now: Instant,
        path: &mut SendPath,
        sack: &Sack<'_>,
        events: &mut Events,
    ) -> Result<SackOutcome, ProtocolViolation> {
        self.apply(now, path, sack_alone(sack), events)
    }

    /// Applies an NR-SACK: what it says will not be taken back is settled.
    ///
    /// # Errors
    /// As [`handle_sack`](Self::handle_sack); and what was to be kept for good is missing again.
    pub(crate) fn handle_nr_sack(
        &mut self,
        now: Instant,
        path: &mut SendPath,
        sack: &NrSack<'_>,
        events: &mut Events,
    ) -> Result<SackOutcome, ProtocolViolation> {
        let mut both = Vec::new();
        let merged = sack.as_sack(&mut both);
        let non_renegable = sack.nr_gap_ack_block_bytes();
        self.apply(now, path, Acknowledgement { non_renegable, ..sack_alone(&merged) }, events)
    }

    /// Applies the cumulative TSN ack of a SHUTDOWN (RFC 9260 §9.2).
    ///
    /// # Errors
    /// As [`handle_sack`](Self::handle_sack).
    pub(crate) fn handle_cumulative_ack(
        &mut self,
        now: Instant,
        path: &mut SendPath,
        cumulative_tsn: Tsn,
        events: &mut Events,
    ) -> Result<SackOutcome, ProtocolViolation> {
        self.apply(now, path, Acknowledgement { cumulative_tsn, sack: None, non_renegable: &[] }, events)
    }

    fn apply(
        &mut self,
        now: Instant,
        path: &mut SendPath,
        acknowledgement: Acknowledgement<'_>,
        events: &mut Events,
    ) -> Result<SackOutcome, ProtocolViolation> {
        let forwarded = self.forwarded();
        let (repair, ledger, view) = self.split(path);
        let (terms, next_tsn) = (repair.terms(now, forwarded, ledger, &view), ledger.next_tsn());
        let (Self { ledger, buffer, partial, counters, .. }, repair) = (&mut *self, &mut path.repair);
        let (rtt, timed_is_duplicate) = (None, false);
        let mut reader = Reader { now, next_tsn, repair, buffer, partial, counters, events, rtt, timed_is_duplicate };
        let mut digest = Digest::default();
        if !ledger.apply(acknowledgement, terms, &mut reader, &mut digest)? {
            return Ok(SackOutcome::default());
        }
        let Reader { rtt, timed_is_duplicate, .. } = reader;
        self.count_spurious(digest.duplicates.of_resent);
        self.note_window(acknowledgement.sack);
        path.marking.acked(self.ledger.first_tsn());
        let newest = digest.highest_acked;
        let answered = newest.map(|newest| newest.path).or_else(|| self.path_of_window_probe());
        let answered = answered.or_else(|| digest.abandoned_acked.then_some(path.id));
        self.resend_window_probe(path);
        let in_fast_recovery = path.repair.in_fast_recovery();
        path.regulate(Pressure::Acked(Ack {
            now,
            bytes: digest.acked_bytes,
            in_flight_before: digest.in_flight_bytes_before,
            sent_at: newest.map(|newest| newest.sent_at),
            rtt: newest.filter(|newest| newest.transmissions == 1).map(|newest| now - newest.sent_at),
            srtt: path.repair.rtt().srtt(),
            in_fast_recovery,
            cumulative_advanced: digest.cumulative_advanced,
            all_acked: self.ledger.is_empty(),
        }));
        let heard = Heard { sack: acknowledgement.sack, rtt, timed_is_duplicate };
        let were_missing = self.buffer.looks_for_missing() && self.give_up_what_is_missing(now, events);
        let (repair, ledger, view) = self.split(path);
        let verdict = repair.on_ack(now, &digest, &heard, ledger, &view, events);
        self.obey(path, verdict);
        if in_fast_recovery && !path.repair.in_fast_recovery() {
            path.regulate(Pressure::Recovered);
        }
        if digest.cumulative_advanced && self.is_drained() {
            self.drained(events);
        }
        if self.buffer.follows_window() {
            self.follow_window(now, path);
        }
        if self.buffer.take_writable() {
            events.push(Event::Writable);
        }
        self.drop_stale(now, events);
        if self.give_up_what_is_over(now, path, events) || were_missing {
            self.gave_up(now, path, events);
            self.settle(now, path);
        }
        self.judge_forward_after_ack(now, path);
        self.update_window(now, path);
        Ok(SackOutcome { answered })
    }

    /// What the peer's window is now, and whether it takes the probe.
    fn note_window(&mut self, sack: Option<&Sack<'_>>) {
        if let Some(sack) = sack {
            self.window.told(sack.a_rwnd);
        }
        self.window.handle_sack(self.ledger.first_tsn());
    }

    fn path_of_window_probe(&self) -> Option<PathId> {
        Some(self.ledger.get(self.window.probe()?)?.path)
    }

    /// A probe of the closed window was dropped by the peer; as the window has opened, it leaves again without waiting for
    /// its backed-off timer.
    fn resend_window_probe(&mut self, path: &mut SendPath) {
        let Some(tsn) = self.window.probe() else { return };
        let fits = |payload_bytes| payload_bytes <= self.window.available_bytes(0);
        if self.ledger.get(tsn).is_some_and(|chunk| fits(chunk.payload.len())) {
            self.ledger.lose(tsn, RetransmissionCause::Probe);
            path.repair.window_opened();
            self.window.opened();
        }
    }

    /// Counts retransmissions that the peer reports as duplicates. The network may duplicate, too, so all retransmissions bound the count.
    fn count_spurious(&mut self, duplicates: usize) {
        let spurious = self.counters.spurious.saturating_add(duplicates as u64);
        self.counters.spurious = spurious.min(self.counters.retransmitted.total());
    }
}

fn sack_alone<'a>(sack: &'a Sack<'a>) -> Acknowledgement<'a> {
    Acknowledgement { cumulative_tsn: sack.cumulative_tsn, sack: Some(sack), non_renegable: &[] }
}

/// Passes on what an acknowledgement says of single chunks.
struct Reader<'s> {
    now: Instant,
    next_tsn: u64,
    repair: &'s mut Repair,
    buffer: &'s mut SendBuffer,
    partial: &'s mut Option<Box<Partial>>,
    counters: &'s mut Counters,
    events: &'s mut Events,
    /// A duplicate reports which transmission an earlier SACK acknowledged, and so how long the round trip took.
    rtt: Option<Duration>,
    /// The chunk that is timed is among the duplicates.
    timed_is_duplicate: bool,
}

impl Observer for Reader<'_> {
    #[inline(always)]
    fn acked(&mut self, chunk: &Chunk, progress: Progress) {
        if progress.is_new {
            self.repair.on_chunk_acked(self.now, chunk, progress, self.next_tsn);
        }
        if progress.is_settled {
            self.settle(chunk);
        }
    }

    fn duplicate(&mut self, tsn: u64) {
        let (is_timed, rtt) = self.repair.on_duplicate(tsn);
        self.timed_is_duplicate |= is_timed;
        self.rtt = rtt.or(self.rtt);
    }
}

impl Reader<'_> {
    /// A chunk is acknowledged for good; the last one completes its message.
    #[inline]
    fn settle(&mut self, chunk: &Chunk) {
        let Some(Left { id, fate }) = self.buffer.release(chunk.message, chunk.payload.len()) else { return };
        let confirm = match fate {
            Fate::Plain => false,
            Fate::Tracked => Partial::forget(self.partial, chunk.message),
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
}
