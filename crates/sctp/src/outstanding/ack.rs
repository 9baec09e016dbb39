//! Applies an acknowledgement to the ledger (RFC 9260 §6.2.1, §7.2.4).
//!
//! The cost of the cumulative part is proportional to the chunks that it acknowledges. Gap ack blocks cost one step per block and one per changed
//! chunk; miss indications cost one step per missing chunk.

use std::iter;

use festina_recovery::early_retransmit;
use festina_recovery::fast_retransmit::FastRetransmit;
use festina_units::Instant;

use super::chunk::{ChunkState, MessageSlot};
use super::digest::{Acknowledgement, Digest, SettledPiece};
use super::ledger::Ledger;
use super::loss::{Evidence, is_overtaken, missing_below};
use super::reported::{Block, difference};
use crate::error::ProtocolViolation;
use crate::event::RetransmissionCause;
use crate::wire::{Sack, gap_ack_block};

/// How the sender reads a SACK at the moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SackTerms {
    pub(crate) in_fast_recovery: bool,
    /// Number of miss indications that prove a loss; `None` if they are not counted.
    pub(crate) fast_retransmit: Option<FastRetransmit>,
    /// Chunks sent later than this may just have been overtaken, and do not count as lost yet even if reported missing.
    pub(crate) overtaken_after: Option<Instant>,
    /// Fewer miss indications may be enough: early retransmit (RFC 5827), and there is nothing new that may leave.
    pub(crate) early_retransmit: bool,
    /// Chunks may be sent again before a timeout, so SACKs for older chunks may still be in flight; see [`is_overtaken`](super::loss::is_overtaken).
    pub(crate) sends_copies: bool,
}

/// Duplicate TSNs of one SACK that are read. A packet of 1,500 bytes has room for fewer.
pub(crate) const DUPLICATES_READ_MAX: usize = 512;

const UNSENT: ProtocolViolation = ProtocolViolation("a TSN was acknowledged that was never sent");

const RENEGED: ProtocolViolation = ProtocolViolation("a non-renegable chunk is reported missing");

impl Ledger {
    /// Applies an acknowledgement and calls `settle` with the message and the payload bytes of each chunk that the peer has settled by it. `forwarded`
    /// is the highest TSN skipped by a FORWARD-TSN. Fills in the blank `digest`, which is too large to be returned. Returns `false`, without any change,
    /// if a later acknowledgement is already known.
    ///
    /// # Errors
    /// Peer: it acknowledges a TSN that was never sent, or takes back a non-renegable chunk. Invalid blocks are skipped.
    #[inline]
    pub(crate) fn apply(
        &mut self,
        acknowledgement: Acknowledgement<'_>,
        terms: SackTerms,
        forwarded: u64,
        digest: &mut Digest,
        mut settle: impl FnMut(MessageSlot, usize),
    ) -> Result<bool, ProtocolViolation> {
        let cumulative = acknowledgement.cumulative_tsn.unwrap(self.first_tsn());
        if cumulative >= self.next_tsn() {
            return Err(UNSENT);
        }
        if cumulative + 1 < self.first_tsn() {
            return Ok(false);
        }
        digest.cumulative_advanced = cumulative >= self.first_tsn();
        self.begin_credits(&mut digest.credits);
        (digest.singles.forwarded, digest.singles.next_tsn) = (forwarded, self.next_tsn());
        if let Some(reported) = self.reported_before() {
            digest.singles.in_doubt = reported.take_scratch();
        }
        while self.first_tsn() <= cumulative {
            let tsn = self.first_tsn();
            self.pop(|chunk| {
                match chunk.state {
                    ChunkState::InFlight | ChunkState::Lost(_) => digest.count(tsn, chunk),
                    ChunkState::GapAcked => {}
                    ChunkState::NonRenegable => return,
                    ChunkState::AbandonedOnTheWay | ChunkState::Abandoned => digest.pass_abandoned(tsn, chunk),
                }
                settle(chunk.message, chunk.payload.len());
            });
        }
        self.apply_blocks(acknowledgement, terms, digest)?;
        if !digest.singles.settled.is_empty() {
            settle_all(digest, &mut settle);
        }
        Ok(true)
    }

    /// Applies the gap ack blocks of an acknowledgement, after all cumulatively acknowledged chunks were taken out.
    fn apply_blocks(
        &mut self,
        acknowledgement: Acknowledgement<'_>,
        terms: SackTerms,
        digest: &mut Digest,
    ) -> Result<(), ProtocolViolation> {
        let first_tsn = self.first_tsn();
        if self.gap_acked_chunks() > 0 {
            self.check_first(first_tsn, digest)?;
        }
        if let Some(reported) = self.reported_before() {
            reported.forget_through(first_tsn);
        }
        if let Some(sack) = acknowledgement.sack {
            self.apply_gap_ack_blocks(sack, terms, digest)?;
            self.settle_blocks(acknowledgement.non_renegable, digest);
            self.count_duplicates(sack, digest);
        }
        Ok(())
    }

    /// The first chunk that is outstanding after the cumulative part: had the peer kept it, it would have acknowledged this one as well.
    fn check_first(&mut self, first_tsn: u64, digest: &mut Digest) -> Result<(), ProtocolViolation> {
        // Its payload is gone: as long as something else may still be sent, the peer may yet move on, as one does that has only misreported it.
        let is_stuck = self.in_flight().chunks == 0 && self.lost().chunks == 0;
        if is_stuck && self.get(first_tsn).is_some_and(|chunk| chunk.state == ChunkState::NonRenegable) {
            return Err(RENEGED);
        }
        digest.reneged_chunks += usize::from(self.renege(first_tsn));
        Ok(())
    }

    /// The digest is read.
    #[inline]
    pub(crate) fn finish(&mut self, digest: &mut Digest) {
        if let Some(reported) = self.reported_before() {
            reported.keep_scratch(core::mem::take(&mut digest.singles.in_doubt));
        }
        self.keep_credits(&mut digest.credits);
    }

    fn apply_gap_ack_blocks(
        &mut self,
        sack: &Sack<'_>,
        terms: SackTerms,
        digest: &mut Digest,
    ) -> Result<(), ProtocolViolation> {
        let (first_tsn, next_tsn) = (self.first_tsn(), self.next_tsn());
        let (cumulative, gaps) = (first_tsn - 1, sack.gap_ack_block_bytes());
        if gaps.is_empty() && self.gap_acked_chunks() == 0 {
            return Ok(());
        }
        if let Some(growth) = self.reported_before().and_then(|reported| reported.growth(cumulative, gaps)) {
            return self.apply_growth(growth, sack, terms, digest);
        }
        let repeated = self.reported_before().map_or(0, |reported| reported.repeated(cumulative, gaps));
        let changed = blocks(sack, cumulative, repeated);
        let last_repeated =
            || gaps.get(repeated.checked_sub(1)?).map(|&gap| cumulative + u64::from(gap_ack_block(gap).1));
        let highest_reported = changed.clone().last().map(|(_, end)| end).or_else(last_repeated);
        if highest_reported.is_some_and(|end| end >= next_tsn) {
            return Err(UNSENT);
        }
        if highest_reported.is_none() && self.gap_acked_chunks() == 0 {
            return Ok(());
        }
        let is_believed = self.reported().is_believed(first_tsn);
        let changed = changed.take_while(move |_| is_believed);
        let before = self.reported().take();
        let changed_before = || before.iter().skip(repeated).copied();
        let news = self.mark_gap_acked(difference(changed.clone(), changed_before()), digest);
        let highest_reported = highest_reported.filter(|_| is_believed);
        self.take_misses(sack, highest_reported, &news, terms, digest);
        for tsn in difference(changed_before(), changed.clone()).flat_map(|(first, last)| first..=last) {
            digest.reneged_chunks += usize::from(self.renege(tsn));
        }
        let reported = self.reported();
        reported.note_reneged(digest.reneged_chunks, next_tsn);
        reported.replace(before, repeated, changed, (cumulative, gaps));
        Ok(())
    }

    /// What most SACKs say while a gap is open: the last block has grown by these TSNs, and nothing else has changed.
    fn apply_growth(
        &mut self,
        growth: Block,
        sack: &Sack<'_>,
        terms: SackTerms,
        digest: &mut Digest,
    ) -> Result<(), ProtocolViolation> {
        let (first, last) = growth;
        if last >= self.next_tsn() {
            return Err(UNSENT);
        }
        let news = self.mark_gap_acked(iter::once((first, last)), digest);
        self.take_misses(sack, Some(last), &news, terms, digest);
        self.reported().grow(last);
        Ok(())
    }

    /// Counts miss indications for the chunks between the gap ack blocks. Blocks that are not believed do not define the highest TSN.
    fn take_misses(
        &mut self,
        sack: &Sack<'_>,
        highest_reported: Option<u64>,
        news: &GapNews,
        terms: SackTerms,
        digest: &mut Digest,
    ) {
        let Some(rule) = terms.fast_retransmit else { return };
        let evidence = Evidence {
            highest_newly_acked: news.highest_tsn,
            highest_reported,
            cumulative_advanced: digest.cumulative_advanced,
            in_fast_recovery: terms.in_fast_recovery,
        };
        let Some(limit) = missing_below(evidence) else { return };
        let first_tsn = self.first_tsn();
        let all = blocks(sack, first_tsn - 1, 0).take_while(|_| highest_reported.is_some());
        self.count_misses(holes(all, first_tsn, limit), rule, terms, news.newest_sent_at, digest);
    }

    /// Applies non-renegable gap ack blocks. Costs one step per block and one per changed chunk.
    fn settle_blocks(&mut self, wire: &[[u8; 4]], digest: &mut Digest) {
        let first_tsn = self.first_tsn();
        if wire.is_empty() {
            if let Some(reported) = self.reported_before() {
                reported.replace_settled(Vec::new());
            }
            return;
        }
        let is_believed = self.reported().is_believed(first_tsn);
        let now: Vec<_> =
            sound(wire.iter().map(|&gap| gap_ack_block(gap)).take_while(|_| is_believed), first_tsn - 1, 1).collect();
        let before = self.reported().replace_settled(now.clone());
        for tsn in difference(now.into_iter(), before.into_iter()).flat_map(|(first, last)| first..=last) {
            self.settle_reported(tsn, |chunk| digest.singles.settle(chunk));
        }
    }

    fn count_duplicates(&mut self, sack: &Sack<'_>, digest: &mut Digest) {
        for tsn in duplicates(sack, self.first_tsn()) {
            let resent = match self.get(tsn) {
                Some(chunk) => chunk.resent,
                None => self.reported_before().and_then(|reported| reported.settled.take_duplicate(tsn)),
            };
            digest.duplicates.count(resent);
            digest.credits.iter_mut().for_each(|credit| credit.arrivals.duplicate(tsn));
        }
    }

    fn mark_gap_acked(&mut self, newly_reported: impl Iterator<Item = Block>, digest: &mut Digest) -> GapNews {
        let mut news = GapNews::default();
        let (buries, forwarded) = (self.buries(), digest.singles.forwarded);
        for tsn in newly_reported.flat_map(|(first, last)| first..=last) {
            let Some(chunk) = self.gap_ack(tsn) else {
                self.settle_told(tsn, digest);
                continue;
            };
            let is_abandoned = chunk.state.is_abandoned();
            if is_abandoned && buries && tsn <= forwarded {
                // A FORWARD-TSN named it, so the report does not show that it has arrived.
                self.settle_told(tsn, digest);
                continue;
            }
            if is_abandoned {
                digest.count_abandoned(tsn, chunk);
            } else {
                digest.count(tsn, chunk);
            }
            news.highest_tsn = Some(tsn);
            // If a chunk was sent more than once, it is unknown which copy arrived.
            if chunk.transmissions == 1 {
                news.newest_sent_at = news.newest_sent_at.max(Some(chunk.sent_at));
            }
            if is_abandoned {
                self.settle_told(tsn, digest);
            }
        }
        news
    }

    /// A chunk of an abandoned message was reported: a peer that passes over such chunks one by one will not take that back.
    #[cold]
    fn settle_told(&mut self, tsn: u64, digest: &mut Digest) {
        if self.buries() {
            self.settle_abandoned(tsn, |chunk| digest.settle_abandoned(tsn, chunk));
        }
    }

    /// RFC 5827 §3.2: so little is outstanding that fewer reports than usual can come, and all of them have.
    fn proves_loss_early(&self) -> bool {
        let outstanding = u32::try_from(self.len()).unwrap_or(u32::MAX);
        let usual = FastRetransmit::RFC9260.threshold.into();
        let threshold = early_retransmit::threshold(outstanding, false, usual);
        threshold < usual && self.gap_acked_chunks() as u64 >= u64::from(threshold)
    }

    fn count_misses(
        &mut self,
        missing: impl Iterator<Item = u64>,
        rule: FastRetransmit,
        terms: SackTerms,
        newest_acked: Option<Instant>,
        digest: &mut Digest,
    ) {
        let early = terms.early_retransmit && self.proves_loss_early();
        for tsn in missing {
            let Some(chunk) = self.get(tsn) else { break };
            if terms.sends_copies && !is_overtaken(chunk.transmissions > 1, chunk.sent_at, newest_acked) {
                continue;
            }
            let Some(chunk) = self.count_miss(tsn) else { continue };
            if terms.overtaken_after.is_some_and(|limit| chunk.sent_at > limit) {
                continue;
            }
            let early = early && !chunk.fast_retransmitted;
            if early || rule.is_lost(chunk.miss_indications, chunk.fast_retransmitted) {
                digest.credits.of_mut(chunk.path).lost_chunks += 1;
                self.lose(tsn, RetransmissionCause::Fast);
            }
        }
    }
}

/// Chunks whose TSNs lie above the Cumulative TSN Ack Point. Out of line, so that the other call of `settle` stays inlined.
#[cold]
#[inline(never)]
fn settle_all(digest: &mut Digest, settle: &mut impl FnMut(MessageSlot, usize)) {
    for SettledPiece { message, payload_bytes } in core::mem::take(&mut digest.singles.settled) {
        settle(message, payload_bytes);
    }
}

/// New information in a SACK's gap ack blocks.
#[derive(Clone, Copy, Debug, Default)]
struct GapNews {
    /// The highest TSN acknowledged for the first time.
    highest_tsn: Option<u64>,
    /// When the last of the chunks acknowledged for the first time was sent.
    newest_sent_at: Option<Instant>,
}

/// The duplicates that a SACK reports, as far as they are read; `first_tsn` is the earliest outstanding TSN.
pub(crate) fn duplicates(sack: &Sack<'_>, first_tsn: u64) -> impl Iterator<Item = u64> {
    sack.duplicates().take(DUPLICATES_READ_MAX).map(move |tsn| tsn.unwrap(first_tsn))
}

/// The gap ack blocks as TSNs, ascending and apart from each other; see [`sound`]. The first `skipped` blocks, which are known to be
/// sound, are passed over.
fn blocks(sack: &Sack<'_>, cumulative: u64, skipped: usize) -> impl Iterator<Item = Block> + Clone {
    let gaps = sack.gap_ack_block_bytes();
    let last_skipped = skipped.checked_sub(1).and_then(|last| gaps.get(last));
    let above = last_skipped.map_or(1, |&gap| gap_ack_block(gap).1);
    let others = gaps.get(skipped..).unwrap_or_default();
    sound(others.iter().map(|&gap| gap_ack_block(gap)), cumulative, above)
}

/// The blocks that make sense, as TSNs. A block that ends before it starts, touches the cumulative TSN or does not reach beyond the offset
/// `above` and its predecessor is left out; one that overlaps its predecessor loses the overlap. RFC 9260 §3.3.4 asks for isolated blocks, but an
/// NR-SACK may report a TSN in both of its lists.
fn sound(
    gaps: impl Iterator<Item = (u16, u16)> + Clone,
    cumulative: u64,
    above: u16,
) -> impl Iterator<Item = Block> + Clone {
    let mut lowest = u32::from(above) + 1;
    gaps.filter_map(move |(start, end)| {
        let first = u32::from(start).max(lowest);
        let sound = start > 1 && first <= u32::from(end);
        sound.then(|| {
            lowest = u32::from(end) + 1;
            (cumulative + u64::from(first), cumulative + u64::from(end))
        })
    })
}

/// The TSNs from `first` up to but not including `limit` that no block reports.
fn holes(blocks: impl Iterator<Item = Block>, first: u64, limit: u64) -> impl Iterator<Item = u64> {
    let mut next = first;
    let behind_the_last = (limit, limit);
    blocks.chain([behind_the_last]).flat_map(move |(start, end)| {
        let hole = next..start.min(limit);
        next = end + 1;
        hole
    })
}

#[cfg(test)]
mod tests;
