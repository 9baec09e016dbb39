//! When FORWARD-TSN leaves (RFC 3758 §3.5, C3 to C5 and F1 to F5).

use festina_units::{Duration, Instant};

use crate::outstanding::partial::{Advance, Reach, SkippedMessage, advance};
use crate::outstanding::{ChunkState, Ledger};
use crate::send::flight::{Flight, PathTerms};
use crate::send::messages::OutboundMessage;
use crate::wire::{self, ChunkOut, EnhancedForwardTsn, Framing, Mid, PacketBuilder, Ssn, Tsn};

use super::apart::Apart;

/// The longest wait for a packet that leaves anyway (RFC 3758 §3.5 F3).
const DELAY_MAX: Duration = Duration::from_millis(200);

/// FORWARD-TSN in packets of its own keep apart by this part of a round trip.
const SPACING_PARTS: u32 = 4;

/// A path that takes no time is treated as one with this round trip: an answer can never come at the instant of the question.
const ROUND_TRIP_MIN: Duration = Duration::from_millis(1);

/// Each repetition without effect may name this part of the messages that the one before it could name.
const RETREAT_PARTS: usize = 4;

/// Bytes of a FORWARD-TSN or I-FORWARD-TSN before its entries.
const HEADER_BYTES: usize = 8;

/// Bytes of an entry.
const fn entry_bytes(framing: Framing) -> usize {
    match framing {
        Framing::Data => 4,
        Framing::IData => 8,
    }
}

/// State of FORWARD-TSN: the last one sent, and when the next one is due.
#[derive(Debug, Default)]
pub(super) struct Forward {
    reach: Reach,
    /// The contents of E-FORWARD-TSN, if that was agreed on.
    apart: Apart,
    /// The Advanced.Peer.Ack.Point, if it lies above the Cumulative TSN Ack Point; with E-FORWARD-TSN the highest TSN to pass over.
    point: Option<u64>,
    /// The peer was not told of all that it is to skip.
    has_news: bool,
    /// Highest TSN named in a FORWARD-TSN; 0 before the first.
    pub(super) told: u64,
    /// Number of FORWARD-TSNs sent.
    pub(super) count: u64,
    /// When the last one was sent.
    left_at: Option<Instant>,
    /// When a packet of its own leaves for it.
    pub(super) due_at: Option<Instant>,
    /// That time has come.
    is_owed: bool,
    retreat: Retreat,
    /// First outstanding TSN when a FORWARD-TSN was sent that had no room for all streams: the rest waits until the peer has moved (C4). 0 if none.
    cut_at: u64,
}

/// Shortens lists that are repeated without effect: a receiver drops one that its buffer has no room for, however often it is repeated.
#[derive(Clone, Copy, Debug, Default)]
struct Retreat {
    /// First outstanding TSN when the last chunk was sent; 0 before the first.
    front: u64,
    /// When the first list of this length was sent that named that TSN.
    since: Instant,
    /// Round trips without effect, less the lists after which the peer moved.
    steps: u32,
}

impl Retreat {
    /// The state after one more list. `has_told`: an earlier one named the first outstanding TSN.
    fn next(self, front: u64, has_told: bool, (now, round_trip): (Instant, Duration)) -> Self {
        if front != self.front || !has_told {
            return Self { front, since: now, steps: self.steps.saturating_sub(1) };
        }
        if self.since + round_trip > now {
            return self;
        }
        Self { since: now, steps: (self.steps + 1).min(usize::BITS), ..self }
    }

    /// Maximum number of entries in a chunk that has room for `entries`.
    fn limit(self, entries: usize) -> usize {
        RETREAT_PARTS.checked_pow(self.steps).map_or(0, |parts| entries / parts)
    }
}

/// Inputs of a decision on the next FORWARD-TSN.
#[derive(Clone, Copy, Debug)]
struct Moment {
    now: Instant,
    round_trip: Duration,
    /// The chunk that the peer waits for will not come, as far as is known.
    is_lost: bool,
}

impl Forward {
    /// The ledger changed, by an acknowledgement or otherwise.
    #[inline(never)]
    pub(super) fn look(&mut self, now: Instant, terms: PathTerms, flight: &Flight, by_ack: bool) {
        let ledger = &flight.ledger;
        let mut moment = moment(now, terms, ledger);
        let point = if flight.apart {
            let untold = self.apart.look(ledger);
            self.has_news = untold.has_news;
            moment.is_lost = untold.is_lost;
            untold.highest
        } else {
            let point = self.reach.look(ledger, flight.framing.alternates());
            self.has_news = point > Some(self.told) && self.cut_at != ledger.first_tsn();
            point
        };
        self.judge(point, moment);
        if by_ack {
            self.heard(moment);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self { count: self.count, ..Self::default() };
    }

    /// Returns whether this TSN was named to the peer, by E-FORWARD-TSN if `apart`.
    pub(super) fn has_told(&self, tsn: u64, apart: bool) -> bool {
        if apart { self.apart.has_told(tsn) } else { tsn <= self.told }
    }

    /// The point lies here now. Decides when a packet of its own leaves, if no other takes it along.
    fn judge(&mut self, point: Option<u64>, moment: Moment) {
        self.point = point;
        if point.is_none() {
            self.due_at = None;
            self.is_owed = false;
        } else if self.has_news && !self.is_owed {
            // Chunks in flight may arrive, and their acknowledgement would make this FORWARD-TSN needless.
            let wait = if moment.is_lost { Duration::ZERO } else { moment.round_trip.min(DELAY_MAX) };
            let spacing = (moment.round_trip / SPACING_PARTS).min(DELAY_MAX);
            let earliest = self.left_at.map_or(moment.now, |left_at| left_at + spacing);
            let at = earliest.max(moment.now + wait);
            self.due_at = Some(self.due_at.map_or(at, |due_at| due_at.min(at)));
        }
    }

    /// A SACK still lies below the point. Sends FORWARD-TSN again if the answer to the last one is overdue.
    fn heard(&mut self, moment: Moment) {
        if self.point.is_some() && self.is_overdue(moment.now, moment.round_trip) {
            self.due_at.get_or_insert(moment.now);
        }
    }

    fn is_overdue(&self, now: Instant, round_trip: Duration) -> bool {
        self.left_at.is_some_and(|left_at| left_at + round_trip <= now)
    }

    /// Returns whether it is to be in a packet that leaves now.
    fn joins(&self, now: Instant, round_trip: Duration) -> bool {
        self.point.is_some() && (self.has_news || self.is_due(now) || self.is_overdue(now, round_trip))
    }

    /// Returns whether a packet leaves now for its sake.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.is_owed || self.due_at.is_some_and(|due_at| due_at <= now)
    }

    /// Handles timers. A FORWARD-TSN that is due stays so until it can be sent, and needs no timer any more. If T3-rtx has expired (`t3`), the last
    /// one may be lost (C5).
    pub(super) fn handle_timeout(&mut self, now: Instant, t3: bool) {
        self.is_owed |= self.due_at.take_if(|due_at| *due_at <= now).is_some();
        self.is_owed |= t3 && self.point.is_some();
    }

    /// A chunk was sent that names TSNs up to `highest`. The next look finds the rest.
    fn left(&mut self, now: Instant, highest: u64, retreat: Retreat) {
        self.retreat = retreat;
        self.told = self.told.max(highest);
        self.count += 1;
        self.left_at = Some(now);
        self.due_at = None;
        self.is_owed = false;
    }
}

/// Estimated time until the answer to a FORWARD-TSN.
fn round_trip(terms: PathTerms) -> Duration {
    terms.round_trip.max(ROUND_TRIP_MIN)
}

fn moment(now: Instant, terms: PathTerms, ledger: &Ledger) -> Moment {
    let first = ledger.get(ledger.first_tsn());
    let is_lost = first.is_some_and(|chunk| chunk.state == ChunkState::Abandoned);
    Moment { now, round_trip: round_trip(terms), is_lost }
}

impl Forward {
    /// Writes FORWARD-TSN if there is something to tell, in front of the DATA of a packet that is sent by `path`. Returns whether it did.
    #[cold]
    #[inline(never)]
    pub(super) fn join(
        &mut self,
        now: Instant,
        terms: PathTerms,
        flight: &Flight,
        packet: &mut PacketBuilder<'_>,
    ) -> bool {
        let round_trip = round_trip(terms);
        if !self.joins(now, round_trip) {
            return false;
        }
        // Names only the new ones if there are any: a list that begins with older ones may never have room for them.
        let again = !self.has_news || self.is_overdue(now, round_trip);
        let front = flight.ledger.first_tsn();
        let retreat = self.retreat.next(front, self.has_told(front, flight.apart), (now, round_trip));
        let Some(highest) = self.write(again, retreat, flight, packet) else { return false };
        self.left(now, highest, retreat);
        self.look(now, terms, flight, false);
        true
    }

    /// Writes E-FORWARD-TSN if it was agreed on (`apart`) and may help, FORWARD-TSN otherwise. Returns the highest TSN named.
    fn write(&mut self, again: bool, retreat: Retreat, flight: &Flight, packet: &mut PacketBuilder<'_>) -> Option<u64> {
        let &Flight { ref buffer, ref ledger, framing, apart, .. } = flight;
        let front = ledger.first_tsn();
        let messages_max = retreat.limit(EnhancedForwardTsn::ENTRIES_MAX);
        // The receiver may have no room to skip even one message that waits for earlier ones.
        let is_exhausted = again && messages_max == 0;
        if apart && !(is_exhausted && ledger.get(front).is_some_and(|chunk| chunk.state.is_abandoned())) {
            let written = self.apart.write(again, messages_max.max(1), flight, packet);
            // FORWARD-TSN serves for messages that fit into no packet. News that found no room in this one wait for another.
            if written.is_some() || !again && self.apart.look(ledger).has_news {
                return written;
            }
        }
        let room = packet.remaining().saturating_sub(HEADER_BYTES) / entry_bytes(framing);
        let entries_max = retreat.limit(room).max(1).min(room);
        // FORWARD-TSN names no unordered messages, which have no number.
        let skipped = |slot| {
            let &OutboundMessage { stream, unordered, number, .. } = buffer.message(slot)?;
            (!unordered || framing == Framing::IData).then_some(SkippedMessage { stream, unordered, number })
        };
        let passages = ledger.passages(framing.alternates(), skipped);
        let advance = advance(front, passages, entries_max)?;
        if !write(&advance, framing, packet) {
            return None;
        }
        if apart {
            self.apart.note_plain(advance.cumulative, ledger);
        }
        self.cut_at = if self.point > Some(advance.cumulative) { front } else { 0 };
        Some(advance.cumulative)
    }
}

/// Writes FORWARD-TSN or I-FORWARD-TSN. Returns whether there was room.
fn write(advance: &Advance, framing: Framing, packet: &mut PacketBuilder<'_>) -> bool {
    let (new_cumulative, skipped) = (Tsn::wrap(advance.cumulative), advance.skipped.iter());
    match framing {
        Framing::Data => {
            let entry = |&SkippedMessage { stream, number, .. }: &SkippedMessage| (stream, Ssn::wrap(number.into()));
            let streams: Vec<_> = skipped.map(entry).collect();
            packet.chunk(&ChunkOut::ForwardTsn { new_cumulative, streams: &streams })
        }
        Framing::IData => {
            let entry = |&SkippedMessage { stream, unordered, number }: &SkippedMessage| wire::SkippedMessage {
                stream,
                unordered,
                mid: Mid(number),
            };
            let streams: Vec<_> = skipped.map(entry).collect();
            packet.chunk(&ChunkOut::IForwardTsn { new_cumulative, streams: &streams })
        }
    }
}
