//! Chooses outstanding chunks that are bundled into a packet sent anyway, although they are not marked as lost.

use festina_recovery::probe::joins_probe;
use festina_units::{Duration, Instant};

use super::redundancy::{PiggybackBudget, PlannedCopy};
use crate::outstanding::{Chunk, Transmission};

/// In silence a chunk is bundled again after this part of a round trip, so that all get their turn if they do not fit into one packet.
pub(super) const SILENT_TURN_PARTS: u32 = 4;

/// The rule for one packet: which outstanding chunks it carries besides lost ones and new data.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) enum Bundling {
    None,
    /// In a probe: chunks whose acknowledgement is overdue (all without a `timeout`), or all of them in silence.
    Probe {
        timeout: Option<Duration>,
        silent: bool,
    },
    /// As many as fit into the `room_bytes` that would stay empty (P06 §3.3, §4.4).
    Fill {
        room_bytes: usize,
    },
    /// Together with new data, by Festina's rule.
    Redundant(Redundant),
    /// The last chunk.
    Last {
        tsn: u64,
    },
    /// The copy of the chunks of one packet, except those sent again since.
    Copy(PlannedCopy),
}

/// Copies together with new data: a few of each chunk before its acknowledgement is due, or all chunks if the peer is silent.
#[derive(Clone, Copy, Debug)]
pub(in crate::send) struct Redundant {
    /// Bytes that would stay empty.
    pub(super) room_bytes: usize,
    /// The copies of chunks that are not overdue, if there may be any.
    pub(super) budget: Option<PiggybackBudget>,
    pub(super) srtt: Duration,
    /// A probe has not been answered for a while.
    pub(super) silent: bool,
}

impl Bundling {
    /// Returns the transmission of the chunk, if it is bundled. A copy needs a chunk that `is_worth_it`.
    pub(in crate::send) fn admit(
        &mut self,
        tsn: u64,
        chunk: &Chunk,
        now: Instant,
        is_worth_it: impl FnOnce() -> bool,
    ) -> Option<Transmission> {
        let bundled = match chunk.resent {
            _ if chunk.miss_indications > 0 => Transmission::ReportedBundled,
            Some(Transmission::Probe | Transmission::ProbedBundled) => Transmission::ProbedBundled,
            _ => Transmission::Bundled,
        };
        match self {
            Self::None => None,
            Self::Probe { timeout, silent } => {
                let joins = timeout.is_none_or(|timeout| joins_probe(chunk.sent_at, now, timeout, *silent));
                joins.then_some(Transmission::Probe)
            }
            Self::Fill { room_bytes } => {
                if chunk.sent_at >= now || chunk.bytes() > *room_bytes {
                    return None;
                }
                *room_bytes -= chunk.bytes();
                Some(bundled)
            }
            Self::Redundant(redundant) => redundant.admit(tsn, chunk, now, is_worth_it).then_some(bundled),
            Self::Last { tsn: last_tsn } => (tsn == *last_tsn).then_some(Transmission::TailProbe),
            Self::Copy(copy) => copy.holds(tsn, chunk).then(|| copy.transmission()),
        }
    }

    /// Returns whether new data follows the chunks in the packet.
    pub(in crate::send) fn are_with_new_data(&self) -> bool {
        matches!(self, Self::Redundant(_))
    }
}

impl Redundant {
    fn admit(&mut self, tsn: u64, chunk: &Chunk, now: Instant, is_worth_it: impl FnOnce() -> bool) -> bool {
        let (bytes, age) = (chunk.bytes(), now - chunk.sent_at);
        if bytes > self.room_bytes {
            return false;
        }
        let in_turn = self.silent && age >= self.srtt / SILENT_TURN_PARTS;
        let allows = |budget: PiggybackBudget| {
            tsn >= budget.from
                && age >= budget.apart
                && budget.piggyback.allow(tsn, chunk.transmissions)
                && bytes <= budget.bytes
        };
        let joins = in_turn || self.budget.is_some_and(allows) && is_worth_it();
        if joins {
            self.room_bytes -= bytes;
            self.budget.iter_mut().for_each(|budget| budget.bytes = budget.bytes.saturating_sub(bytes));
        }
        joins
    }
}
