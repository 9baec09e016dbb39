//! The outstanding segments and the state of each: SACKed, lost, retransmitted (RFC 6675 §3).
//!
//! All counts are in segments. Every segment is marked at most once in each way, so the cost of an acknowledgement
//! depends on the changes that it makes, not on the size of the window.

use std::collections::VecDeque;

use festina_units::Instant;

use crate::tcp::segment::{SACK_BLOCKS_MAX, SackBlocks};

/// Number of duplicate ACKs that prove a loss (RFC 5681 §3.2): the maximum that [`Scoreboard`] counts.
pub(super) const DUP_THRESH: u32 = 3;

/// One segment that was sent and not cumulatively acknowledged.
#[derive(Copy, Clone, Debug)]
pub(super) struct SentSegment {
    pub(super) start: u64,
    /// After the last byte, the FIN included.
    pub(super) end: u64,
    pub(super) last_sent: Instant,
    pub(super) transmissions: u32,
    pub(super) state: SegmentState,
    /// Segments that had been delivered when it was last sent.
    pub(super) delivered_before: u64,
    /// End of the data, without a FIN; equals `end` for all segments without one.
    pub(super) data_end: u64,
}

impl SentSegment {
    pub(super) fn is_sacked(&self) -> bool {
        self.state == SegmentState::Sacked
    }
}

/// The presumed state of one outstanding segment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum SegmentState {
    /// In flight, never presumed lost.
    Sent,
    /// The receiver has it.
    Sacked,
    /// Presumed lost, to be retransmitted.
    Lost,
    /// Retransmitted after it was presumed lost; the retransmission is in flight.
    Resent,
}

/// The effects of a cumulative acknowledgement.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Acked {
    /// Segments that left the scoreboard.
    pub(super) segments: u32,
    /// When the earliest of those that had not been SACKed was sent, if none was ever sent twice
    /// (Karn's rule).
    pub(super) earliest_sent: Option<Instant>,
}

/// Sending times of segments that were sent once and that a SACK reports for the first time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct SackSample {
    pub(super) first_sent: Instant,
    pub(super) last_sent: Instant,
}

impl SackSample {
    fn with(sample: Option<Self>, sent: Instant) -> Self {
        let Self { first_sent, last_sent } = sample.unwrap_or(Self { first_sent: sent, last_sent: sent });
        Self { first_sent: first_sent.min(sent), last_sent: last_sent.max(sent) }
    }
}

/// The outstanding segments in order of sequence.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    segments: VecDeque<SentSegment>,
    sacked: u32,
    lost: u32,
    resent: u32,
    /// Duplicate ACKs, which stand for SACKed segments where there is no SACK.
    duplicates: u32,
    /// Starts of the highest SACKed segments, highest first.
    sacked_starts: [u64; DUP_THRESH as usize],
    /// End of the highest SACKed segment.
    sacked_end: u64,
    /// The blocks of the latest ACK.
    known: SackBlocks,
    /// Below this, no segment is in state `Sent`.
    judged: u64,
    /// Below this, no segment is in state `Lost`.
    cursor: u64,
}

impl Scoreboard {
    pub(super) fn push(&mut self, segment: SentSegment) {
        self.segments.push_back(segment);
    }

    pub(super) fn outstanding(&self) -> u32 {
        u32::try_from(self.segments.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The "pipe" of RFC 6675 §4: the segments presumed to be in the network.
    pub(super) fn in_flight(&self) -> u32 {
        self.outstanding().saturating_sub(self.delivered_above()).saturating_sub(self.lost)
    }

    /// Segments that the receiver has above the cumulative acknowledgement.
    pub(super) fn delivered_above(&self) -> u32 {
        self.sacked.saturating_add(self.duplicates)
    }

    pub(super) fn sacked(&self) -> u32 {
        self.sacked
    }

    /// Segments that wait for retransmission.
    pub(super) fn lost(&self) -> u32 {
        self.lost
    }

    /// Retransmissions of segments marked as lost that are in flight.
    pub(super) fn resent(&self) -> u32 {
        self.resent
    }

    /// End of the highest SACKed segment, if anything is SACKed.
    pub(super) fn highest_sacked(&self) -> Option<u64> {
        (self.sacked > 0).then_some(self.sacked_end)
    }

    pub(super) fn get(&self, index: usize) -> Option<&SentSegment> {
        self.segments.get(index)
    }

    pub(super) fn first(&self) -> Option<&SentSegment> {
        self.segments.front()
    }

    pub(super) fn last_index(&self) -> Option<usize> {
        self.segments.len().checked_sub(1)
    }

    /// Removes the segments below `ack` and passes them to `see`. Without SACK, duplicates now stand for other
    /// segments.
    pub(super) fn acknowledge(&mut self, ack: u64, mut see: impl FnMut(&SentSegment)) -> Acked {
        let mut acked = Acked::default();
        let mut retransmitted = false;
        while let Some(segment) = self.segments.front_mut() {
            if segment.end > ack {
                // Collapsed retransmissions make the receiver acknowledge parts.
                segment.start = segment.start.max(ack);
                break;
            }
            retransmitted |= segment.transmissions > 1;
            if segment.state != SegmentState::Sacked && acked.earliest_sent.is_none() {
                acked.earliest_sent = Some(segment.last_sent);
            }
            see(segment);
            let state = segment.state;
            self.segments.pop_front();
            self.leave(state);
            acked.segments += 1;
        }
        if retransmitted {
            acked.earliest_sent = None;
        }
        self.duplicates = self.duplicates.saturating_sub(acked.segments.saturating_sub(1));
        acked
    }

    /// Marks the segments covered by the blocks and passes the new ones to `see`. Returns the sending times of the new
    /// segments that were sent once; the number of new ones is the change of [`Self::sacked`].
    pub(super) fn apply_sack(&mut self, sack: &SackBlocks, mut see: impl FnMut(&SentSegment)) -> Option<SackSample> {
        let mut sample = None;
        let mut duplicates_known = [(0, 0); SACK_BLOCKS_MAX];
        for (slot, block) in duplicates_known.iter_mut().zip(self.known.as_slice()) {
            *slot = *block;
        }
        for &(start, end) in sack.as_slice() {
            let mut todo = (start, end);
            for &(known_start, known_end) in &duplicates_known {
                if known_start == start && known_end <= end {
                    todo.0 = todo.0.max(known_end);
                } else if known_end == end && known_start >= start {
                    todo.1 = todo.1.min(known_start);
                }
            }
            if todo.0 < todo.1 {
                sample = self.sack_range(todo, (start, end), sample, &mut see);
            }
        }
        self.known = *sack;
        sample
    }

    /// Marks the segments that touch `todo` and lie inside `block`.
    fn sack_range(
        &mut self,
        todo: (u64, u64),
        block: (u64, u64),
        mut sample: Option<SackSample>,
        see: &mut impl FnMut(&SentSegment),
    ) -> Option<SackSample> {
        let first = self.segments.partition_point(|segment| segment.end <= todo.0);
        for index in first..self.segments.len() {
            let Some(segment) = self.segments.get_mut(index).filter(|segment| segment.start < todo.1) else { break };
            if segment.start < block.0 || segment.end > block.1 || segment.state == SegmentState::Sacked {
                continue;
            }
            see(segment);
            let before = core::mem::replace(&mut segment.state, SegmentState::Sacked);
            if segment.transmissions == 1 {
                sample = Some(SackSample::with(sample, segment.last_sent));
            }
            let (start, end) = (segment.start, segment.end);
            self.leave(before);
            self.sacked += 1;
            self.sacked_end = self.sacked_end.max(end);
            self.remember_sacked(start);
        }
        sample
    }

    /// Keeps the three highest starts.
    fn remember_sacked(&mut self, mut start: u64) {
        for slot in &mut self.sacked_starts {
            if start > *slot {
                core::mem::swap(&mut start, slot);
            }
        }
    }

    /// A duplicate ACK was received on a connection without SACK (RFC 5681 §2).
    pub(super) fn count_duplicate(&mut self) {
        self.duplicates = (self.duplicates + 1).min(self.outstanding().saturating_sub(1));
    }

    pub(super) fn forget_duplicates(&mut self) {
        self.duplicates = 0;
    }

    /// Marks segments as lost: those below `threshold` SACKed segments (`IsLost` of RFC 6675 §4, counted in segments)
    /// or, with `fack`, those `threshold` segments below the highest SACKed one.
    pub(super) fn mark_lost_below_sacked(&mut self, threshold: u32, fack: bool) {
        let boundary = if fack {
            let above = self.segments.partition_point(|segment| segment.end <= self.sacked_end);
            above
                .checked_sub(threshold as usize + 1)
                .and_then(|index| self.segments.get(index))
                .map_or(0, |segment| segment.end)
        } else {
            self.sacked_starts.get(threshold.max(1) as usize - 1).copied().unwrap_or(0)
        };
        if self.sacked > 0 {
            self.mark_lost_below(boundary);
        }
    }

    /// Marks the first segment as lost, unless it was marked before.
    pub(super) fn mark_first_lost(&mut self) {
        if let Some(first) = self.segments.front()
            && first.state == SegmentState::Sent
        {
            self.mark_lost_below(first.end);
        }
    }

    /// The timer expired: marks all segments as lost that are not SACKed, including retransmissions (RFC 6675 §5.1).
    /// The SACK marks are kept, since the model's receivers never renege.
    pub(super) fn mark_all_lost(&mut self) {
        self.duplicates = 0;
        self.lost = 0;
        self.resent = 0;
        for segment in &mut self.segments {
            if segment.state != SegmentState::Sacked {
                segment.state = SegmentState::Lost;
                self.lost += 1;
            }
        }
        self.judged = self.segments.back().map_or(0, |segment| segment.end);
        self.cursor = 0;
    }

    fn mark_lost_below(&mut self, boundary: u64) {
        if boundary <= self.judged {
            return;
        }
        let first = self.segments.partition_point(|segment| segment.end <= self.judged);
        for segment in self.segments.range_mut(first..) {
            if segment.end > boundary {
                break;
            }
            if segment.state == SegmentState::Sent {
                segment.state = SegmentState::Lost;
                self.lost += 1;
                self.cursor = self.cursor.min(segment.start);
            }
        }
        self.judged = boundary;
    }

    /// Marks as lost each segment in flight, first transmission or not, for which `is_lost` holds, in order of
    /// sequence, until `is_lost` returns `None`. Returns whether a retransmission was among them.
    pub(super) fn mark_lost_if(&mut self, mut is_lost: impl FnMut(usize, &SentSegment) -> Option<bool>) -> bool {
        let mut lost_again = false;
        for (index, segment) in self.segments.iter_mut().enumerate() {
            if matches!(segment.state, SegmentState::Sacked | SegmentState::Lost) {
                continue;
            }
            match is_lost(index, segment) {
                None => break,
                Some(false) => {}
                Some(true) => {
                    lost_again |= segment.state == SegmentState::Resent;
                    self.resent -= u32::from(segment.state == SegmentState::Resent);
                    segment.state = SegmentState::Lost;
                    self.lost += 1;
                    self.cursor = self.cursor.min(segment.start);
                }
            }
        }
        lost_again
    }

    /// Takes back the mark of lost segments that were not retransmitted.
    pub(super) fn take_back_losses(&mut self) {
        for segment in &mut self.segments {
            if segment.state == SegmentState::Lost {
                segment.state = SegmentState::Sent;
            }
        }
        self.lost = 0;
    }

    /// Returns whether a SACKed segment that was sent more than once touches `[start, end)`.
    pub(super) fn is_resent_and_sacked(&self, start: u64, end: u64) -> bool {
        let first = self.segments.partition_point(|segment| segment.end <= start);
        self.segments
            .range(first..)
            .take_while(|segment| segment.start < end)
            .any(|segment| segment.state == SegmentState::Sacked && segment.transmissions > 1)
    }

    /// The first segment that waits for retransmission.
    pub(super) fn next_lost(&mut self) -> Option<usize> {
        if self.lost == 0 {
            return None;
        }
        let first = self.segments.partition_point(|segment| segment.end <= self.cursor);
        let (offset, segment) =
            self.segments.range(first..).enumerate().find(|(_, segment)| segment.state == SegmentState::Lost)?;
        self.cursor = segment.start;
        Some(first + offset)
    }

    /// Returns the first segment that was never presumed lost and lies below a SACKed one (rule 3 of `NextSeg`, RFC
    /// 6675 §4).
    pub(super) fn next_doubtful(&self) -> Option<usize> {
        let first = self.segments.partition_point(|segment| segment.end <= self.judged);
        let (offset, _) = self
            .segments
            .range(first..)
            .take_while(|segment| segment.end <= self.sacked_end)
            .enumerate()
            .find(|(_, segment)| segment.state == SegmentState::Sent)?;
        Some(first + offset)
    }

    /// Merges the segments behind `index` into it as long as the payload fits into `mss_bytes`, and
    /// they are in the same state.
    pub(super) fn collapse(&mut self, index: usize, mss_bytes: u32) {
        while let Some(next) = self.segments.get(index + 1).copied()
            && let Some(segment) = self.segments.get_mut(index)
            && next.data_end - segment.start <= u64::from(mss_bytes)
            && (next.state == SegmentState::Sent || next.state == SegmentState::Lost)
        {
            segment.end = next.end;
            segment.data_end = next.data_end;
            self.leave(next.state);
            self.segments.remove(index + 1);
        }
    }

    /// Retransmits the segment at `now`; `as_repair` if it was presumed lost, which a probe does not imply. Returns its
    /// new state.
    pub(super) fn resend(
        &mut self,
        index: usize,
        now: Instant,
        delivered: u64,
        as_repair: bool,
    ) -> Option<SentSegment> {
        let segment = self.segments.get_mut(index)?;
        segment.last_sent = now;
        segment.delivered_before = delivered;
        segment.transmissions = segment.transmissions.saturating_add(1);
        if as_repair {
            let before = core::mem::replace(&mut segment.state, SegmentState::Resent);
            let resent = *segment;
            self.leave(before);
            self.resent += 1;
            return Some(resent);
        }
        Some(*segment)
    }

    /// Corrects the counts for a segment that is no longer in `state`.
    fn leave(&mut self, state: SegmentState) {
        match state {
            SegmentState::Sent => {}
            SegmentState::Resent => self.resent = self.resent.saturating_sub(1),
            SegmentState::Sacked => self.sacked = self.sacked.saturating_sub(1),
            SegmentState::Lost => self.lost = self.lost.saturating_sub(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(segments: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        for number in 0..segments {
            let (start, end) = (number * 100, number * 100 + 100);
            board.push(SentSegment {
                start,
                end,
                data_end: end,
                last_sent: Instant::from_millis(number),
                transmissions: 1,
                delivered_before: 0,
                state: SegmentState::Sent,
            });
        }
        board
    }

    fn sack(board: &mut Scoreboard, blocks: &[(u64, u64)]) -> Option<SackSample> {
        let mut sack = SackBlocks::default();
        blocks.iter().for_each(|&(start, end)| sack.push(start, end));
        board.apply_sack(&sack, |_| {})
    }

    #[test]
    fn rfc_6675_4_a_segment_is_lost_when_three_above_it_are_sacked() {
        let mut board = board(8);
        sack(&mut board, &[(300, 500)]);
        board.mark_lost_below_sacked(DUP_THRESH, false);
        assert_eq!((board.sacked(), board.lost()), (2, 0));
        sack(&mut board, &[(300, 600)]);
        board.mark_lost_below_sacked(DUP_THRESH, false);
        assert_eq!((board.sacked(), board.lost(), board.in_flight()), (3, 3, 2));
        assert_eq!(board.next_lost(), Some(0));
    }

    #[test]
    fn rfc_6675_4_a_hole_with_fewer_than_three_above_it_is_only_doubtful() {
        let mut board = board(8);
        sack(&mut board, &[(600, 800), (200, 500)]);
        board.mark_lost_below_sacked(DUP_THRESH, false);
        assert_eq!(board.lost(), 2, "0 and 100 have five above them, 500 has two");
        assert_eq!(board.next_doubtful(), Some(5));
    }

    #[test]
    fn fack_gives_up_everything_three_segments_below_the_highest_sacked_one() {
        let mut board = board(8);
        sack(&mut board, &[(600, 700)]);
        board.mark_lost_below_sacked(DUP_THRESH, true);
        assert_eq!((board.sacked(), board.lost()), (1, 4));
    }

    #[test]
    fn a_block_that_merges_two_known_ones_marks_the_hole_between_them() {
        let mut board = board(10);
        sack(&mut board, &[(700, 800), (300, 500)]);
        assert_eq!(board.sacked(), 3);
        sack(&mut board, &[(300, 800)]);
        assert_eq!(board.sacked(), 5);
    }

    #[test]
    fn what_was_resent_counts_as_in_flight_until_the_timer_expires() {
        let mut board = board(5);
        sack(&mut board, &[(200, 500)]);
        board.mark_lost_below_sacked(DUP_THRESH, false);
        let index = board.next_lost().expect("two are lost");
        board.resend(index, Instant::from_millis(9), 0, true);
        assert_eq!((board.lost(), board.in_flight()), (1, 1));
        assert_eq!(board.next_lost(), Some(1));
        board.mark_all_lost();
        assert_eq!((board.lost(), board.in_flight()), (2, 0));
        assert_eq!(board.next_lost(), Some(0));
    }

    #[test]
    fn rfc_6298_3_karn_a_retransmitted_segment_spoils_the_sample() {
        let mut first = board(3);
        assert_eq!(first.acknowledge(200, |_| {}).earliest_sent, Some(Instant::ZERO));
        let mut second = board(3);
        second.resend(1, Instant::from_millis(50), 0, false);
        assert_eq!(second.acknowledge(200, |_| {}).earliest_sent, None);
    }

    #[test]
    fn a_collapsed_segment_takes_its_followers_along_up_to_the_mss() {
        let mut board = board(5);
        board.mark_all_lost();
        board.collapse(0, 350);
        assert_eq!(board.first().map(|segment| segment.end), Some(300));
        assert_eq!((board.outstanding(), board.lost()), (3, 3));
    }
}
