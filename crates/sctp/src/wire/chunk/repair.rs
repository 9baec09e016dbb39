//! REPAIR, Festina's own: a weighted sum of chunks that carry user data, from which a receiver computes lost ones (`festina_code`).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------+-----+-------------------------------+
//! |     0xb6      |         | row |           10 + sum            |
//! +---------------+---------+-----+-------------------------------+
//! |                    TSN of the first chunk                     |
//! +-------------------------------+-------------------------------+
//! |             mask              |            sum ...            |
//! ```
//!
//! Without a sum it is the answer: the receiver has computed these chunks, which it then acknowledges as if they had arrived.

use super::chunk_type;
use super::unknown::UnknownChunk;
use crate::preview::debug_with_preview;
use crate::wire::encode::Encoder;
use crate::wire::error::Malformation;
use crate::wire::serial::Tsn;
use crate::wire::tlv::Frame;

/// A REPAIR chunk, as read. Nothing is checked: the mask may lack the first chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RepairChunk<'a> {
    /// TSN of the first chunk in the sum.
    pub first: Tsn,
    /// Bit `n`, counted from the lowest, stands for the chunk with the TSN `first` + `n`.
    pub mask: u16,
    /// Row of weights, from 0 to 7.
    pub row: u8,
    /// The whole chunk without padding.
    bytes: &'a [u8],
}

debug_with_preview!(RepairChunk<'_>, bytes, [first, mask, row]);

/// The bits of the flags that hold the row.
const ROW: u8 = 7;
/// Bytes before the sum.
const HEADER_BYTES: usize = 10;

impl<'a> RepairChunk<'a> {
    pub(in crate::wire) fn read(flags: u8, frame: &Frame<'a>) -> Result<Self, Malformation> {
        let (&[t0, t1, t2, t3, m0, m1], _) = frame.at_least()?;
        let (first, mask) = (Tsn(u32::from_be_bytes([t0, t1, t2, t3])), u16::from_be_bytes([m0, m1]));
        Ok(Self { first, mask, row: flags & ROW, bytes: frame.bytes })
    }

    /// The weighted sum; empty in an answer.
    #[must_use]
    pub fn sum(&self) -> &'a [u8] {
        self.bytes.get(HEADER_BYTES..).unwrap_or_default()
    }

    /// The chunk for a receiver that has not agreed on it.
    #[must_use]
    pub const fn as_unknown(&self) -> UnknownChunk<'a> {
        UnknownChunk::new(self.bytes)
    }
}

/// The flags of a chunk with this row.
pub(in crate::wire) const fn row_flags(row: u8) -> u8 {
    row & ROW
}

pub(in crate::wire) fn write_repair(encoder: &mut Encoder<'_>, first: Tsn, mask: u16, sum: &[u8]) {
    encoder.put(&first.0.to_be_bytes());
    encoder.put(&mask.to_be_bytes());
    encoder.put(sum);
}

const _: () = assert!(chunk_type::REPAIR >> 6 == 2, "unknown receivers skip the chunk and do not report it");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{build_and_parse, malformation, parse_chunk};
    use crate::wire::{Chunk, ChunkOut};

    const BYTES: [u8; 16] = [0xb6, 5, 0, 13, 1, 2, 3, 4, 0x80, 1, b's', b'u', b'm', 0, 0, 0];

    fn read(bytes: &[u8]) -> RepairChunk<'static> {
        match parse_chunk(bytes) {
            Ok(Chunk::Repair(repair)) => repair,
            other => panic!("{other:?} is no REPAIR"),
        }
    }

    #[test]
    fn a_repair_is_written_and_read() {
        let out = ChunkOut::Repair { first: Tsn(0x0102_0304), mask: 0x8001, row: 5, sum: b"sum" };
        let Chunk::Repair(repair) = build_and_parse(&out, &BYTES) else { panic!("no REPAIR") };
        assert_eq!((repair.first, repair.mask, repair.row), (Tsn(0x0102_0304), 0x8001, 5));
        assert_eq!((repair.sum(), repair.as_unknown().bytes()), (&b"sum"[..], &BYTES[..13]));
        assert!(repair.as_unknown().action().continues() && !repair.as_unknown().action().reports());
    }

    #[test]
    fn reserved_flags_are_ignored() {
        let mut bytes = BYTES;
        bytes[1] |= 0xf8;
        assert_eq!((read(&bytes).row, read(&bytes).sum()), (5, &b"sum"[..]));
    }

    #[test]
    fn every_length_below_the_fixed_part_is_rejected() {
        for length in 4..10u8 {
            let mut bytes = BYTES;
            bytes[3] = length;
            let error = malformation(&bytes[..usize::from(length)]);
            assert_eq!(error, Malformation::TooShort { length: usize::from(length), minimum: 10 });
        }
    }
}
