//! The summary of one acknowledgement, regardless of the chunk that carries it. The ledger builds it once; all other code reads it.

use festina_units::Instant;

use super::arrivals::Arrivals;
use super::chunk::{Chunk, ChunkState, MessageSlot, Transmission};
use crate::path_id::{Blank, PathId, PathSet, SparseByPath};
use crate::wire::{Sack, Tsn};

/// An acknowledgement: a SACK, or the cumulative TSN ack of a SHUTDOWN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledgement<'a> {
    pub(crate) cumulative_tsn: Tsn,
    /// Gap ack blocks, duplicates and window, unless the chunk has none.
    pub(crate) sack: Option<&'a Sack<'a>>,
    /// The part of the gap ack blocks that the peer will not take back, as on the wire. None but with NR-SACK.
    pub(crate) non_renegable: &'a [[u8; 4]],
}

impl<'a> Acknowledgement<'a> {
    /// A SACK.
    pub(crate) fn sack(sack: &'a Sack<'a>) -> Self {
        Self { sack: Some(sack), ..Self::cumulative(sack.cumulative_tsn) }
    }

    /// A cumulative TSN ack alone.
    pub(crate) fn cumulative(cumulative_tsn: Tsn) -> Self {
        Self { cumulative_tsn, sack: None, non_renegable: &[] }
    }
}

/// Changes by an acknowledgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) singles: Singles,
    /// The Cumulative TSN Ack Point moved, and with it the earliest outstanding TSN.
    pub(crate) cumulative_advanced: bool,
    /// By the path on which the chunks were last sent.
    pub(crate) credits: SparseByPath<Credit>,
    /// Chunks that the peer had reported and no longer does.
    pub(crate) reneged_chunks: usize,
    /// The reported duplicates.
    pub(crate) duplicates: Duplicates,
    /// The paths whose error counters start again: something sent on them was acknowledged for the first time (RFC 9260 §8.1, §8.2), or the peer
    /// answers a probe of its closed window (RFC 9260 §6.1 rule A).
    pub(crate) answered: PathSet,
    /// The peer's window has opened, and takes the chunk that probed it.
    pub(crate) window_opened: bool,
}

/// Changes by an acknowledgement to the chunks last sent on one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credit {
    /// Acknowledged for the first time, headers and padding included.
    pub(crate) acked_bytes: usize,
    /// Number of those chunks.
    pub(crate) acked_chunks: usize,
    /// Bytes of the largest of them.
    pub(crate) chunk_bytes_max: usize,
    /// Evidence about which transmission of retransmitted chunks arrived.
    pub(crate) arrivals: Arrivals,
    /// The highest TSN of chunks that had been sent more than once.
    pub(crate) highest_copy: Option<u64>,
    /// The lowest newly acknowledged TSN of a chunk that was sent once.
    pub(crate) lowest_acked_once: Option<u64>,
    /// The one of them with the highest TSN.
    pub(crate) highest_acked: Option<HighestAcked>,
    /// Chunks of abandoned messages among them, which count nowhere else: the peer passed over them or has them.
    pub(crate) abandoned_acked: bool,
    /// The highest TSN that a FORWARD-TSN has skipped.
    pub(crate) highest_passed: Option<u64>,
    /// In flight before, headers and padding included.
    pub(crate) in_flight_bytes_before: usize,
    /// Chunks now taken for lost.
    pub(crate) lost_chunks: usize,
    /// The first TSN of the run of chunks, sent once each, that ends with the highest one that is acknowledged for the first time; if that was.
    run_first: Option<u64>,
}

/// Information of an acknowledgement about single chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Singles {
    /// The highest TSN that a FORWARD-TSN has skipped.
    pub(super) forwarded: u64,
    /// The TSN of the next new chunk.
    pub(crate) next_tsn: u64,
    /// Chunks that the peer will not take back although the Cumulative TSN Ack Point lies below them.
    pub(super) settled: Vec<SettledPiece>,
    /// Acknowledged for the first time after they were sent more than once or reported missing; in ascending order of TSNs.
    pub(crate) in_doubt: Vec<Arrival>,
}

/// The reported duplicates, by the reason of the chunk's last transmission. A duplicate of a chunk that was sent once comes from the network and only
/// counts in the sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Duplicates {
    /// All of them.
    pub(crate) reported: usize,
    /// Of chunks that left more than once.
    pub(crate) of_resent: usize,
    /// Of chunks that left more than once, and last for another reason than as a tail probe (RFC 8985 §6.2 step 4).
    pub(crate) beside_tail_probes: usize,
    /// Of chunks that last left as a tail probe.
    pub(crate) of_tail_probes: usize,
    /// Of chunks that last left as a probe of a thin stream.
    pub(crate) of_probes: usize,
}

/// A chunk that is acknowledged for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SettledPiece {
    pub(super) message: MessageSlot,
    pub(super) payload_bytes: usize,
}

/// A chunk that is acknowledged for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) tsn: u64,
    /// When it was last sent.
    pub(crate) sent_at: Instant,
    pub(crate) transmissions: u8,
    /// It was retransmitted once, or once and repeated.
    pub(crate) is_first_resend: bool,
    pub(crate) was_missed: bool,
    pub(crate) fast_retransmitted: bool,
    /// The path on which it was last sent.
    pub(crate) path: PathId,
    /// The run of chunks, sent once each, that arrived between the last chunk sent more than once and this one.
    pub(crate) run_before: Option<Run>,
}

/// Chunks that were sent once, one after the other: the first TSN, the last one, and when that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) sent_at: Instant,
}

/// The chunk with the highest TSN that an acknowledgement reports for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HighestAcked {
    pub(crate) tsn: u64,
    /// When it last left.
    pub(crate) sent_at: Instant,
    pub(crate) transmissions: u8,
}

impl Digest {
    /// A chunk was acknowledged for the first time.
    #[inline(always)]
    pub(super) fn count(&mut self, tsn: u64, chunk: &Chunk) {
        let credit = self.credits.of_mut(chunk.path);
        credit.acked_bytes += chunk.bytes();
        credit.acked_chunks += 1;
        credit.chunk_bytes_max = credit.chunk_bytes_max.max(chunk.bytes());
        if chunk.transmissions > 1 {
            credit.highest_copy = Some(tsn);
        } else {
            credit.lowest_acked_once.get_or_insert(tsn);
        }
        credit.arrivals.acked(tsn, chunk);
        self.note_arrival(tsn, chunk);
    }

    #[inline(always)]
    fn note_arrival(&mut self, tsn: u64, chunk: &Chunk) {
        let Chunk { sent_at, transmissions, .. } = *chunk;
        if transmissions > 1 || chunk.miss_indications > 0 || chunk.fast_retransmitted {
            self.note_doubt(tsn, chunk);
        }
        let credit = self.credits.of_mut(chunk.path);
        if transmissions == 1 {
            credit.run_first.get_or_insert(tsn);
        }
        credit.highest_acked = Some(HighestAcked { tsn, sent_at, transmissions });
    }

    #[cold]
    fn note_doubt(&mut self, tsn: u64, chunk: &Chunk) {
        let Chunk { sent_at, transmissions, miss_indications, fast_retransmitted, path, .. } = *chunk;
        let credit = self.credits.of_mut(path);
        let run_before = if transmissions > 1 { credit.last_run() } else { None };
        if transmissions > 1 {
            credit.run_first = None;
        }
        let was_missed = miss_indications > 0;
        let repetitions = u8::from(chunk.resent == Some(Transmission::Repeated));
        let is_first_resend = transmissions == 2 + repetitions;
        let arrival =
            Arrival { tsn, sent_at, transmissions, is_first_resend, was_missed, fast_retransmitted, path, run_before };
        self.singles.in_doubt.push(arrival);
    }
}

impl Blank for Credit {
    const BLANK: &'static Self = &Self {
        acked_bytes: 0,
        acked_chunks: 0,
        chunk_bytes_max: 0,
        arrivals: Arrivals::NONE,
        highest_copy: None,
        lowest_acked_once: None,
        highest_acked: None,
        abandoned_acked: false,
        highest_passed: None,
        in_flight_bytes_before: 0,
        lost_chunks: 0,
        run_first: None,
    };
}

impl Credit {
    /// Returns whether it shows that the path works: something sent on it has arrived.
    #[inline]
    pub(crate) fn is_answer(&self) -> bool {
        self.highest_acked.is_some() || self.abandoned_acked
    }

    /// The last run of chunks that were sent once each, unless a chunk that was sent more than once follows it.
    pub(crate) fn last_run(&self) -> Option<Run> {
        let (first, HighestAcked { tsn, sent_at, .. }) = (self.run_first?, self.highest_acked?);
        Some(Run { first, last: tsn, sent_at })
    }
}

impl Digest {
    /// A chunk of an abandoned message has arrived after all. It does not grow the window (RFC 3758 §3.5 A4), but gives an RTT sample.
    pub(super) fn count_abandoned(&mut self, tsn: u64, chunk: &Chunk) {
        self.note_arrival(tsn, chunk);
        self.credits.of_mut(chunk.path).abandoned_acked = true;
    }
}

impl Digest {
    /// Settles a chunk of an abandoned message that the peer reports as received, or as skipped after a FORWARD-TSN.
    #[cold]
    pub(super) fn settle_abandoned(&mut self, tsn: u64, chunk: &Chunk) {
        let credit = self.credits.of_mut(chunk.path);
        credit.abandoned_acked = true;
        if tsn <= self.singles.forwarded {
            credit.highest_passed = credit.highest_passed.max(Some(tsn));
        }
        self.singles.settle(chunk);
    }

    /// The peer has skipped a chunk of an abandoned message, or has it: it has arrived if no FORWARD-TSN told the peer to skip it.
    #[cold]
    pub(super) fn pass_abandoned(&mut self, tsn: u64, chunk: &Chunk) {
        let credit = self.credits.of_mut(chunk.path);
        credit.abandoned_acked = true;
        if chunk.state == ChunkState::AbandonedOnTheWay && tsn > self.singles.forwarded {
            self.count_abandoned(tsn, chunk);
        } else {
            credit.highest_passed = Some(tsn);
        }
    }
}

impl Singles {
    pub(super) fn settle(&mut self, chunk: &Chunk) {
        self.settled.push(SettledPiece { message: chunk.message, payload_bytes: chunk.payload.len() });
    }
}

impl Duplicates {
    /// Counts a reported duplicate; `resent` is its chunk's last transmission, if it was sent more than once.
    pub(super) fn count(&mut self, resent: Option<Transmission>) {
        self.reported += 1;
        let Some(resent) = resent else { return };
        self.of_probes += usize::from(resent == Transmission::Probe);
        self.of_resent += 1;
        if resent == Transmission::TailProbe {
            self.of_tail_probes += 1;
        } else {
            self.beside_tail_probes += 1;
        }
    }
}
