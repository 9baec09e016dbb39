//! E-FORWARD-TSN, Festina's own: the sender has abandoned chunks that may lie apart from each other (docs/enhanced-forward-tsn.md).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |     0xf5      |               |     12 + 4 * N + 8 * M        |
//! +---------------+---------------+-------------------------------+
//! |             cumulative TSN that the sender knows              |
//! +-------------------------------+-------------------------------+
//! |        blocks = N             |      message runs = M         |
//! +-------------------------------+-------------------------------+
//! |   offset of the first TSN     |    offset of the last TSN     |  N times
//! +-------------------------------+-+-----------------------------+
//! |      stream identifier        |U|    messages after the first |  M times
//! +-------------------------------+-+-----------------------------+
//! |             SSN or MID of the first message                   |
//! +---------------------------------------------------------------+
//! ```

use super::sack::gap_bytes;
use super::unknown::UnknownChunk;
use super::{chunk_type, gap_ack_block};
use crate::wire::encode::Encoder;
use crate::wire::error::Malformation;
use crate::wire::serial::{StreamId, Tsn};
use crate::wire::tlv::Frame;

/// An E-FORWARD-TSN chunk, as read: the blocks ascend and lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnhancedForwardTsn<'a> {
    /// The Cumulative TSN Ack Point of the sender. The blocks count from it.
    pub cumulative: Tsn,
    block_count: u16,
    /// The whole chunk without padding, of the length that the counts say.
    bytes: &'a [u8],
}

/// Abandoned messages of a stream with consecutive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SkippedRun {
    /// The stream.
    pub stream: StreamId,
    /// U bit: the numbers are those of unordered messages, which only I-DATA has.
    pub unordered: bool,
    /// SSN or MID of the first message.
    pub first: u32,
    /// Number of messages after the first; at most [`SkippedRun::MORE_MAX`].
    pub more: u16,
}

impl SkippedRun {
    /// The largest number of messages after the first: a run spans less than half of the SSN space.
    pub const MORE_MAX: u16 = 0x7fff;
}

const UNORDERED: u16 = 0x8000;

/// Bytes before the blocks.
const HEADER_BYTES: usize = 12;
/// Bytes of a block.
const BLOCK_BYTES: usize = 4;
/// Bytes of a message run.
const RUN_BYTES: usize = 8;

impl<'a> EnhancedForwardTsn<'a> {
    /// The largest number of blocks, and of message runs: a receiver looks each of them up.
    pub const ENTRIES_MAX: usize = 256;

    /// Bytes of a chunk with this many blocks and message runs.
    pub(crate) const fn bytes(blocks: usize, runs: usize) -> usize {
        HEADER_BYTES + BLOCK_BYTES * blocks + RUN_BYTES * runs
    }

    pub(in crate::wire) fn read(frame: &Frame<'a>) -> Result<Self, Malformation> {
        let (&[t0, t1, t2, t3, n0, n1, m0, m1], lists) = frame.at_least()?;
        let (block_count, run_count) = (u16::from_be_bytes([n0, n1]), u16::from_be_bytes([m0, m1]));
        let chunk = Self { cumulative: Tsn(u32::from_be_bytes([t0, t1, t2, t3])), block_count, bytes: frame.bytes };
        let (length, expected) = (lists.len() + HEADER_BYTES, Self::bytes(block_count.into(), run_count.into()));
        if length != expected {
            return Err(Malformation::WrongLength { length, expected });
        }
        let is_small = usize::from(block_count.max(run_count)) <= Self::ENTRIES_MAX;
        let is_sound = is_small && lie_apart(chunk.block_bytes());
        if is_sound { Ok(chunk) } else { Err(Malformation::BlocksOutOfOrder) }
    }

    fn block_bytes(&self) -> &'a [[u8; BLOCK_BYTES]] {
        let blocks = self.bytes.get(HEADER_BYTES..).unwrap_or_default().as_chunks().0;
        blocks.get(..self.block_count.into()).unwrap_or(blocks)
    }

    fn run_bytes(&self) -> &'a [[u8; RUN_BYTES]] {
        let start = HEADER_BYTES + BLOCK_BYTES * usize::from(self.block_count);
        self.bytes.get(start..).unwrap_or_default().as_chunks().0
    }

    /// The abandoned chunks, as offsets from the cumulative TSN of the first and last TSN of each block. They are at least 1, ascend, and at
    /// least one TSN lies between two blocks.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = (u16, u16)> + Clone + use<'a> {
        self.block_bytes().iter().map(|&bytes| gap_ack_block(bytes))
    }

    /// The abandoned messages, in the order received. Nothing is checked: streams may be unknown, and runs may overlap.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = SkippedRun> + Clone + use<'a> {
        self.run_bytes().iter().map(|&[s0, s1, c0, c1, n0, n1, n2, n3]| {
            let flags_and_more = u16::from_be_bytes([c0, c1]);
            SkippedRun {
                stream: StreamId(u16::from_be_bytes([s0, s1])),
                unordered: flags_and_more & UNORDERED != 0,
                first: u32::from_be_bytes([n0, n1, n2, n3]),
                more: flags_and_more & SkippedRun::MORE_MAX,
            }
        })
    }

    /// The chunk for a receiver that has not agreed on it.
    #[must_use]
    pub const fn as_unknown(&self) -> UnknownChunk<'a> {
        UnknownChunk::new(self.bytes)
    }
}

/// Whether blocks ascend and do not touch.
fn lie_apart(blocks: &[[u8; 4]]) -> bool {
    let mut lowest = 1;
    blocks.iter().all(|&block| {
        let (first, last) = gap_ack_block(block);
        let is_apart = u32::from(first) >= lowest && first <= last;
        lowest = u32::from(last) + 2;
        is_apart
    })
}

pub(in crate::wire) fn write_enhanced_forward_tsn(
    encoder: &mut Encoder<'_>,
    cumulative: Tsn,
    blocks: &[(u16, u16)],
    messages: &[SkippedRun],
) {
    let count = |entries: usize| u16::try_from(entries).unwrap_or(u16::MAX).to_be_bytes();
    encoder.put(&cumulative.0.to_be_bytes());
    encoder.put(&count(blocks.len()));
    encoder.put(&count(messages.len()));
    for &block in blocks {
        encoder.put(&gap_bytes(block));
    }
    for run in messages {
        let flag = if run.unordered { UNORDERED } else { 0 };
        encoder.put(&run.stream.0.to_be_bytes());
        encoder.put(&(flag | run.more.min(SkippedRun::MORE_MAX)).to_be_bytes());
        encoder.put(&run.first.to_be_bytes());
    }
}

const _: () = assert!(chunk_type::ENHANCED_FORWARD_TSN >> 6 == 3, "unknown receivers skip the chunk and report it");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{build_and_parse, chunk_bytes, malformation, parse_chunk};
    use crate::wire::{Chunk, ChunkOut};

    const RUNS: [SkippedRun; 2] = [
        SkippedRun { stream: StreamId(0x0506), unordered: true, first: 0x0708_090a, more: 3 },
        SkippedRun { stream: StreamId(1), unordered: false, first: 0xffff_ffff, more: SkippedRun::MORE_MAX },
    ];

    #[test]
    fn an_enhanced_forward_tsn_is_written_and_read() {
        let blocks = [(1, 1), (3, 0xffff)];
        let out = ChunkOut::EnhancedForwardTsn { cumulative: Tsn(0x0102_0304), blocks: &blocks, messages: &RUNS };
        #[rustfmt::skip]
        let bytes = [
            0xf5, 0, 0, 36, 1, 2, 3, 4, 0, 2, 0, 2,
            0, 1, 0, 1, 0, 3, 0xff, 0xff,
            5, 6, 0x80, 3, 7, 8, 9, 10,
            0, 1, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff,
        ];
        let Chunk::EnhancedForwardTsn(forward) = build_and_parse(&out, &bytes) else { panic!("no E-FORWARD-TSN") };
        assert_eq!(forward.cumulative, Tsn(0x0102_0304));
        assert!(forward.blocks().eq(blocks) && forward.messages().eq(RUNS));
        assert_eq!(forward.as_unknown().bytes(), bytes);
    }

    #[test]
    fn the_counts_must_give_the_length() {
        for (blocks, runs) in [(0, 0), (1, 0), (0, 1), (2, 1)] {
            let expected = 12 + 4 * blocks + 8 * runs;
            for length in 4..=44_u8 {
                let mut bytes = vec![0; usize::from(length)];
                (bytes[0], bytes[3]) = (0xf5, length);
                if let Some(counts) = bytes.get_mut(9..12) {
                    counts.copy_from_slice(&[blocks, 0, runs]);
                }
                for (index, block) in bytes.get_mut(12..).unwrap_or_default().chunks_exact_mut(4).enumerate() {
                    let offset = 1 + 2 * u8::try_from(index).expect("few");
                    block.copy_from_slice(&[0, offset, 0, offset]);
                }
                match usize::from(length) {
                    length @ 0..12 => assert_eq!(malformation(&bytes), Malformation::TooShort { length, minimum: 12 }),
                    length if length == usize::from(expected) => {
                        assert!(parse_chunk(&bytes).is_ok());
                    }
                    length => {
                        let expected = usize::from(expected);
                        assert_eq!(malformation(&bytes), Malformation::WrongLength { length, expected });
                    }
                }
            }
        }
    }

    #[test]
    fn blocks_that_descend_touch_overlap_or_hold_the_cumulative_tsn_are_rejected() {
        for blocks in
            [&[(0, 1)][..], &[(2, 1)], &[(1, 2), (2, 3)], &[(1, 2), (3, 4)], &[(5, 6), (1, 2)], &[(1, 1), (1, 1)]]
        {
            let out = ChunkOut::EnhancedForwardTsn { cumulative: Tsn(9), blocks, messages: &[] };
            let bytes = chunk_bytes(|builder| builder.chunk(&out));
            assert_eq!(malformation(&bytes), Malformation::BlocksOutOfOrder, "{blocks:?}");
        }
    }

    #[test]
    fn more_blocks_or_messages_than_a_receiver_reads_are_rejected() {
        let blocks: Vec<_> =
            (0..=EnhancedForwardTsn::ENTRIES_MAX).map(|index| u16::try_from(1 + 2 * index).expect("few")).collect();
        let blocks: Vec<_> = blocks.into_iter().map(|offset| (offset, offset)).collect();
        let runs = vec![RUNS[0]; EnhancedForwardTsn::ENTRIES_MAX + 1];
        for (blocks, messages) in [(&blocks[..], &runs[..0]), (&blocks[..1], &runs[..])] {
            for surplus in [0, 1] {
                let blocks = &blocks[..blocks.len().min(EnhancedForwardTsn::ENTRIES_MAX + surplus)];
                let messages = &messages[..messages.len().min(EnhancedForwardTsn::ENTRIES_MAX + surplus)];
                let out = ChunkOut::EnhancedForwardTsn { cumulative: Tsn(9), blocks, messages };
                let bytes = chunk_bytes(|builder| builder.chunk(&out));
                assert_eq!(parse_chunk(&bytes).is_ok(), surplus == 0);
            }
        }
    }
}
