//! NR-SACK: received chunks, and those that the receiver will not renege on (draft-natarajan-tsvwg-sctp-nrsack, in the layout of
//! draft-tuexen-tsvwg-sctp-multipath §4).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |     0x10      |               |  20 + 4 * N + 4 * M + 4 * X   |
//! +---------------+---------------+-------------------------------+
//! |                      cumulative TSN ack                       |
//! +---------------------------------------------------------------+
//! |                    receiver window (a_rwnd)                   |
//! +-------------------------------+-------------------------------+
//! |      gap ack blocks = N       |    NR gap ack blocks = M      |
//! +-------------------------------+-------------------------------+
//! |      duplicate TSNs = X       |           reserved            |
//! +-------------------------------+-------------------------------+
//! |                   ... N gap ack blocks                        |
//! +---------------------------------------------------------------+
//! |                  ... M NR gap ack blocks                      |
//! +---------------------------------------------------------------+
//! |                     ... X duplicate TSNs                      |
//! ```

use super::chunk_type;
use super::sack::{Sack, gap_bytes};
use super::unknown::UnknownChunk;
use crate::wire::error::Malformation;
use crate::wire::serial::Tsn;
use crate::wire::tlv::Frame;

/// Bytes before the gap ack blocks.
const HEADER_BYTES: usize = 20;

/// An NR-SACK, as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NrSack<'a> {
    /// The highest TSN up to which everything has arrived.
    pub cumulative_tsn: Tsn,
    /// The sender's receive window in bytes.
    pub a_rwnd: u32,
    gap_count: u16,
    nr_gap_count: u16,
    /// The whole chunk without padding, of the length that the counts say.
    bytes: &'a [u8],
}

impl<'a> NrSack<'a> {
    pub(in crate::wire) fn read(frame: &Frame<'a>) -> Result<Self, Malformation> {
        let (&[t0, t1, t2, t3, w0, w1, w2, w3, g0, g1, n0, n1, d0, d1, _, _], _) = frame.at_least()?;
        let (gap_count, nr_gap_count) = (u16::from_be_bytes([g0, g1]), u16::from_be_bytes([n0, n1]));
        let duplicate_count = u16::from_be_bytes([d0, d1]);
        let entries = usize::from(gap_count) + usize::from(nr_gap_count) + usize::from(duplicate_count);
        let (length, expected) = (frame.bytes.len(), HEADER_BYTES + 4 * entries);
        if length != expected {
            return Err(Malformation::WrongLength { length, expected });
        }
        Ok(Self {
            cumulative_tsn: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            a_rwnd: u32::from_be_bytes([w0, w1, w2, w3]),
            gap_count,
            nr_gap_count,
            bytes: frame.bytes,
        })
    }

    /// The gap ack blocks in the order received, as offsets from the cumulative TSN of their first and last TSN. The receiver may renege
    /// on them. Nothing is checked: blocks may overlap, lie out of order, or end before they start.
    pub fn gap_ack_blocks(&self) -> impl ExactSizeIterator<Item = (u16, u16)> + Clone + use<'a> {
        self.entries(0, self.gap_count).iter().map(gap)
    }

    /// As [`gap_ack_blocks`](Self::gap_ack_blocks), but the receiver will not renege on them.
    pub fn nr_gap_ack_blocks(&self) -> impl ExactSizeIterator<Item = (u16, u16)> + Clone + use<'a> {
        self.entries(self.gap_count.into(), self.nr_gap_count).iter().map(gap)
    }

    /// As [`nr_gap_ack_blocks`](Self::nr_gap_ack_blocks), as on the wire.
    pub(crate) fn nr_gap_ack_block_bytes(&self) -> &'a [[u8; 4]] {
        self.entries(self.gap_count.into(), self.nr_gap_count)
    }

    /// The SACK that says the same, whether or not the receiver may renege. `both` holds the blocks if there are some of either kind.
    pub(crate) fn as_sack<'s>(&self, both: &'s mut Vec<[u8; 4]>) -> Sack<'s>
    where
        'a: 's,
    {
        let (gaps, nr_gaps) = (self.entries(0, self.gap_count), self.nr_gap_ack_block_bytes());
        let gaps = if gaps.is_empty() {
            nr_gaps
        } else if nr_gaps.is_empty() {
            gaps
        } else {
            both.extend_from_slice(gaps);
            both.extend_from_slice(nr_gaps);
            // In ascending order, as SACK has them.
            both.sort_unstable();
            both
        };
        let blocks = usize::from(self.gap_count) + usize::from(self.nr_gap_count);
        Sack::of_parts(self.cumulative_tsn, self.a_rwnd, gaps, self.entries(blocks, u16::MAX))
    }

    /// The TSNs that arrived more than once since the last SACK, in the order received.
    pub fn duplicates(&self) -> impl ExactSizeIterator<Item = Tsn> + Clone + use<'a> {
        let blocks = usize::from(self.gap_count) + usize::from(self.nr_gap_count);
        self.entries(blocks, u16::MAX).iter().map(|&tsn| Tsn(u32::from_be_bytes(tsn)))
    }

    /// The chunk for a sender that has not agreed on NR-SACK.
    #[must_use]
    pub const fn as_unknown(&self) -> UnknownChunk<'a> {
        UnknownChunk::new(self.bytes)
    }

    /// At most `count` entries after the first `skipped`.
    fn entries(&self, skipped: usize, count: u16) -> &'a [[u8; 4]] {
        let entries = self.bytes.get(HEADER_BYTES..).unwrap_or_default().as_chunks().0;
        let entries = entries.get(skipped..).unwrap_or_default();
        entries.get(..usize::from(count)).unwrap_or(entries)
    }
}

fn gap(&[s0, s1, e0, e1]: &[u8; 4]) -> (u16, u16) {
    (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([e0, e1]))
}

/// Appends an NR-SACK of at most `room` bytes with as many gap ack blocks, non-renegable ones and duplicates, in this order, as fit.
pub(in crate::wire) fn write_nr_sack(
    buffer: &mut Vec<u8>,
    room: usize,
    (cumulative_tsn, a_rwnd): (Tsn, u32),
    gaps: impl Iterator<Item = (u16, u16)>,
    nr_gaps: impl Iterator<Item = (u16, u16)>,
    duplicates: impl Iterator<Item = Tsn>,
) -> bool {
    // The largest multiple of four that the 16-bit length can say; it also keeps all counts within 16 bits.
    let room = room.min(0xfffc);
    let Some(mut entries_max) = room.checked_sub(HEADER_BYTES).map(|bytes| bytes / 4) else {
        return false;
    };
    let start = buffer.len();
    buffer.extend_from_slice(&[0; HEADER_BYTES]);
    let mut append = |entries: &mut dyn Iterator<Item = [u8; 4]>| {
        let mut count = 0u16;
        for entry in entries.take(entries_max) {
            buffer.extend_from_slice(&entry);
            count += 1;
        }
        entries_max -= usize::from(count);
        count
    };
    let gap_count = append(&mut gaps.map(gap_bytes));
    let nr_gap_count = append(&mut nr_gaps.map(gap_bytes));
    let duplicate_count = append(&mut duplicates.map(|tsn| tsn.0.to_be_bytes()));
    let [l0, l1] = (20 + 4 * (gap_count + nr_gap_count + duplicate_count)).to_be_bytes();
    let [t0, t1, t2, t3] = cumulative_tsn.0.to_be_bytes();
    let [w0, w1, w2, w3] = a_rwnd.to_be_bytes();
    let [g0, g1] = gap_count.to_be_bytes();
    let [n0, n1] = nr_gap_count.to_be_bytes();
    let [d0, d1] = duplicate_count.to_be_bytes();
    let kind = chunk_type::NR_SACK;
    if let Some(header) = buffer.get_mut(start..).and_then(<[u8]>::first_chunk_mut) {
        *header = [kind, 0, l0, l1, t0, t1, t2, t3, w0, w1, w2, w3, g0, g1, n0, n1, d0, d1, 0, 0];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{chunk_bytes, malformation, parse_chunk};
    use crate::wire::{Chunk, PacketBuilder};

    const GAPS: [(u16, u16); 1] = [(2, 3)];
    const NR_GAPS: [(u16, u16); 2] = [(5, 5), (7, 9)];
    const DUPLICATES: [Tsn; 1] = [Tsn(0xffff_ffff)];
    #[rustfmt::skip]
    const BYTES: [u8; 36] = [
        0x10, 0, 0, 36,
        0, 0, 0, 12,
        0, 0, 0x12, 0x34,
        0, 1, 0, 2,
        0, 1, 0, 0,
        0, 2, 0, 3,
        0, 5, 0, 5,
        0, 7, 0, 9,
        0xff, 0xff, 0xff, 0xff,
    ];

    fn write(builder: &mut PacketBuilder<'_>) -> bool {
        builder.nr_sack((Tsn(12), 4660), GAPS.into_iter(), NR_GAPS.into_iter(), DUPLICATES.into_iter())
    }

    fn read(bytes: &[u8]) -> NrSack<'static> {
        match parse_chunk(bytes) {
            Ok(Chunk::NrSack(sack)) => sack,
            other => panic!("{other:?} is no NR-SACK"),
        }
    }

    #[test]
    fn each_list_is_written_and_read_apart() {
        assert_eq!(chunk_bytes(write), BYTES);
        let sack = read(&BYTES);
        assert_eq!((sack.cumulative_tsn, sack.a_rwnd), (Tsn(12), 4660));
        assert!(sack.gap_ack_blocks().eq(GAPS) && sack.nr_gap_ack_blocks().eq(NR_GAPS));
        assert!(sack.duplicates().eq(DUPLICATES));
        assert_eq!(sack.as_unknown().bytes(), BYTES);
    }

    #[test]
    fn counts_that_do_not_match_the_length_are_rejected() {
        for (gaps, nr_gaps, duplicates) in [(0, 0, 0), (1, 1, 1), (2, 2, 1), (1, 2, 2), (0xff, 0xff, 0xff)] {
            let mut bytes = BYTES;
            (bytes[13], bytes[15], bytes[17]) = (gaps, nr_gaps, duplicates);
            let expected = 20 + 4 * [gaps, nr_gaps, duplicates].iter().map(|&count| usize::from(count)).sum::<usize>();
            assert_eq!(malformation(&bytes), Malformation::WrongLength { length: 36, expected });
        }
        for length in 4..20u8 {
            let mut bytes = BYTES;
            bytes[3] = length;
            let error = malformation(&bytes[..usize::from(length)]);
            assert_eq!(error, Malformation::TooShort { length: usize::from(length), minimum: 20 });
        }
    }

    #[test]
    fn blocks_come_before_duplicates_when_room_is_short() {
        let common = crate::wire::CommonHeader { source_port: 1, destination_port: 2, verification_tag: 3 };
        for (packet_bytes_max, counts) in
            [(32, (0, 0, 0)), (36, (1, 0, 0)), (40, (1, 1, 0)), (44, (1, 2, 0)), (48, (1, 2, 1)), (99, (1, 2, 1))]
        {
            let mut bytes = Vec::new();
            let mut builder = PacketBuilder::new(&mut bytes, common, packet_bytes_max);
            assert!(write(&mut builder));
            assert!(builder.finish() <= packet_bytes_max);
            let sack = read(&bytes[12..]);
            let read = (sack.gap_ack_blocks().len(), sack.nr_gap_ack_blocks().len(), sack.duplicates().len());
            assert_eq!(read, counts);
        }
        let mut bytes = Vec::new();
        let mut builder = PacketBuilder::new(&mut bytes, common, 31);
        assert!(!write(&mut builder) && builder.is_empty());
    }

    #[test]
    fn endless_lists_stop_at_the_16_bit_length() {
        use core::iter::repeat;
        let bytes = chunk_bytes(|b| b.nr_sack((Tsn(1), 2), repeat((2, 3)), repeat((4, 5)), repeat(Tsn(6))));
        assert_eq!(bytes.len(), 0xfffc);
        let sack = read(&bytes);
        assert_eq!((sack.gap_ack_blocks().len(), sack.nr_gap_ack_blocks().len()), (16_378, 0));
    }
}
