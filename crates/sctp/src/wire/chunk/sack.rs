//! SACK: acknowledgement of received chunks (RFC 9260 §3.3.4).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |       3       |               |     16 + 4 * N + 4 * M        |
//! +---------------+---------------+-------------------------------+
//! |                      cumulative TSN ack                       |
//! +---------------------------------------------------------------+
//! |                    receiver window (a_rwnd)                   |
//! +-------------------------------+-------------------------------+
//! |      gap ack blocks = N       |      duplicate TSNs = M       |
//! +-------------------------------+-------------------------------+
//! |    start of block 1 (offset)  |     end of block 1 (offset)   |
//! +-------------------------------+-------------------------------+
//! |                        ... N blocks                           |
//! +---------------------------------------------------------------+
//! |                     ... M duplicate TSNs                      |
//! ```

use super::chunk_type;
use crate::wire::SACK_HEADER_BYTES;
use crate::wire::error::Malformation;
use crate::wire::serial::Tsn;
use crate::wire::tlv::Frame;

/// A SACK, as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sack<'a> {
    /// The highest TSN up to which everything has arrived.
    pub cumulative_tsn: Tsn,
    /// The sender's receive window in bytes.
    pub a_rwnd: u32,
    gaps: &'a [[u8; 4]],
    duplicates: &'a [[u8; 4]],
}

impl<'a> Sack<'a> {
    #[inline]
    pub(in crate::wire) fn read(frame: &Frame<'a>) -> Result<Self, Malformation> {
        let (&[t0, t1, t2, t3, w0, w1, w2, w3, g0, g1, d0, d1], lists) = frame.at_least()?;
        let gap_count = usize::from(u16::from_be_bytes([g0, g1]));
        let duplicate_count = usize::from(u16::from_be_bytes([d0, d1]));
        let wrong_length = Malformation::WrongLength {
            length: frame.bytes.len(),
            expected: SACK_HEADER_BYTES + 4 * (gap_count + duplicate_count),
        };
        let (entries, []) = lists.as_chunks() else {
            return Err(wrong_length);
        };
        let Some((gaps, duplicates)) = entries.split_at_checked(gap_count) else {
            return Err(wrong_length);
        };
        if duplicates.len() != duplicate_count {
            return Err(wrong_length);
        }
        Ok(Self {
            cumulative_tsn: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            a_rwnd: u32::from_be_bytes([w0, w1, w2, w3]),
            gaps,
            duplicates,
        })
    }

    /// The gap ack blocks in the order received, as offsets from the cumulative TSN of their first and last TSN.
    ///
    /// Nothing is checked: blocks may overlap, lie out of order, or end before they start.
    #[inline]
    pub fn gap_ack_blocks(&self) -> impl ExactSizeIterator<Item = (u16, u16)> + DoubleEndedIterator + Clone + use<'a> {
        self.gaps.iter().map(|&bytes| gap_ack_block(bytes))
    }

    /// As [`gap_ack_blocks`](Self::gap_ack_blocks), as on the wire.
    ///
    /// A reader may begin in the middle without walking over earlier blocks.
    #[inline]
    pub(crate) fn gap_ack_block_bytes(&self) -> &'a [[u8; 4]] {
        self.gaps
    }

    /// The TSNs that arrived more than once since the last SACK, in the order received.
    #[inline]
    pub fn duplicates(&self) -> impl ExactSizeIterator<Item = Tsn> + DoubleEndedIterator + Clone + use<'a> {
        self.duplicates.iter().map(|&tsn| Tsn(u32::from_be_bytes(tsn)))
    }

    /// The same with the first `read_max` duplicates alone, and without those for which `is_left_out` holds. The others are put into `kept`.
    pub(crate) fn without_duplicates<'k>(
        self,
        read_max: usize,
        mut is_left_out: impl FnMut(Tsn) -> bool,
        kept: &'k mut Vec<[u8; 4]>,
    ) -> Sack<'k>
    where
        'a: 'k,
    {
        let duplicates = self.duplicates.iter().take(read_max);
        kept.extend(duplicates.filter(|&&tsn| !is_left_out(Tsn(u32::from_be_bytes(tsn)))));
        Sack { duplicates: kept, ..self }
    }

    /// What another chunk says, as a SACK.
    pub(super) const fn of_parts(
        cumulative_tsn: Tsn,
        a_rwnd: u32,
        gaps: &'a [[u8; 4]],
        duplicates: &'a [[u8; 4]],
    ) -> Self {
        Self { cumulative_tsn, a_rwnd, gaps, duplicates }
    }

    /// A SACK that came from no packet. Leaks its lists, which a test may.
    #[cfg(test)]
    pub(crate) fn new_for_test(cumulative_tsn: Tsn, a_rwnd: u32, gaps: &[(u16, u16)], duplicates: &[Tsn]) -> Self {
        let gaps: Vec<_> = gaps.iter().map(|&gap| gap_bytes(gap)).collect();
        let duplicates: Vec<_> = duplicates.iter().map(|tsn| tsn.0.to_be_bytes()).collect();
        Self { cumulative_tsn, a_rwnd, gaps: gaps.leak(), duplicates: duplicates.leak() }
    }
}

#[inline]
pub(super) fn gap_bytes((start, end): (u16, u16)) -> [u8; 4] {
    let [s0, s1] = start.to_be_bytes();
    let [e0, e1] = end.to_be_bytes();
    [s0, s1, e0, e1]
}

/// Appends a SACK of at most `room` bytes, as many gap ack blocks and then duplicates as fit.
#[inline]
pub(in crate::wire) fn write_sack(
    buffer: &mut Vec<u8>,
    room: usize,
    (cumulative_tsn, a_rwnd): (Tsn, u32),
    gaps: impl Iterator<Item = (u16, u16)>,
    duplicates: impl Iterator<Item = Tsn>,
) -> bool {
    // The largest multiple of four that the 16-bit length can say; it also keeps both counts within 16 bits.
    let room = room.min(0xfffc);
    let Some(entries_max) = room.checked_sub(SACK_HEADER_BYTES).map(|bytes| bytes / 4) else {
        return false;
    };
    let start = buffer.len();
    buffer.extend_from_slice(&[0; SACK_HEADER_BYTES]);
    let mut gap_count = 0u16;
    for gap in gaps.take(entries_max) {
        buffer.extend_from_slice(&gap_bytes(gap));
        gap_count += 1;
    }
    let mut duplicate_count = 0u16;
    for tsn in duplicates.take(entries_max - usize::from(gap_count)) {
        buffer.extend_from_slice(&tsn.0.to_be_bytes());
        duplicate_count += 1;
    }
    let [l0, l1] = (16 + 4 * (gap_count + duplicate_count)).to_be_bytes();
    let [t0, t1, t2, t3] = cumulative_tsn.0.to_be_bytes();
    let [w0, w1, w2, w3] = a_rwnd.to_be_bytes();
    let [g0, g1] = gap_count.to_be_bytes();
    let [d0, d1] = duplicate_count.to_be_bytes();
    if let Some(header) = buffer.get_mut(start..).and_then(<[u8]>::first_chunk_mut) {
        *header = [chunk_type::SACK, 0, l0, l1, t0, t1, t2, t3, w0, w1, w2, w3, g0, g1, d0, d1];
    }
    true
}

/// Start and end of a gap ack block as on the wire.
#[inline]
pub(crate) fn gap_ack_block([s0, s1, e0, e1]: [u8; 4]) -> (u16, u16) {
    (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([e0, e1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{chunk_bytes, malformation, parse_chunk};
    use crate::wire::{Chunk, CommonHeader, PacketBuilder};

    /// The situation of the example in RFC 9260 §3.3.4, plus two duplicates.
    const GAPS: [(u16, u16); 2] = [(2, 3), (5, 5)];
    const DUPLICATES: [Tsn; 2] = [Tsn(11), Tsn(0xffff_ffff)];
    #[rustfmt::skip]
    const BYTES: [u8; 32] = [
        3, 0, 0, 32,
        0, 0, 0, 12,
        0, 0, 0x12, 0x34,
        0, 2, 0, 2,
        0, 2, 0, 3,
        0, 5, 0, 5,
        0, 0, 0, 11,
        0xff, 0xff, 0xff, 0xff,
    ];

    #[test]
    fn the_example_of_the_standard_is_written_and_read() {
        let written = chunk_bytes(|b| b.sack(Tsn(12), 4660, GAPS.into_iter(), DUPLICATES.into_iter()));
        assert_eq!(written, BYTES);
        let Ok(Chunk::Sack(sack)) = parse_chunk(&BYTES) else { panic!("no SACK") };
        assert_eq!(sack, Sack::new_for_test(Tsn(12), 4660, &GAPS, &DUPLICATES));
        assert!(sack.gap_ack_blocks().eq(GAPS));
        assert!(sack.duplicates().eq(DUPLICATES));
        assert_eq!((sack.gap_ack_blocks().len(), sack.duplicates().len()), (2, 2));
    }

    #[test]
    fn every_length_other_than_what_the_counts_say_is_rejected() {
        for length in 16..32u8 {
            let mut bytes = BYTES;
            bytes[3] = length;
            let error = malformation(&bytes[..usize::from(length)]);
            assert_eq!(error, Malformation::WrongLength { length: usize::from(length), expected: 32 });
        }
        for length in 4..16u8 {
            let mut bytes = BYTES;
            bytes[3] = length;
            let error = malformation(&bytes[..usize::from(length)]);
            assert_eq!(error, Malformation::TooShort { length: usize::from(length), minimum: 16 });
        }
    }

    #[test]
    fn counts_that_do_not_match_the_length_are_rejected() {
        for (gaps, duplicates) in [(0, 0), (1, 2), (2, 1), (3, 2), (2, 3), (0xff, 0xff), (5, 0)] {
            let mut bytes = BYTES;
            bytes[13] = gaps;
            bytes[15] = duplicates;
            let expected = 16 + 4 * (usize::from(gaps) + usize::from(duplicates));
            assert_eq!(malformation(&bytes), Malformation::WrongLength { length: 32, expected });
        }
    }

    #[test]
    fn blocks_come_before_duplicates_when_room_is_short() {
        let common = CommonHeader { source_port: 1, destination_port: 2, verification_tag: 3 };
        for (packet_bytes_max, gaps, duplicates) in
            [(28, 0, 0), (31, 0, 0), (32, 1, 0), (36, 2, 0), (40, 2, 1), (99, 2, 2)]
        {
            let mut bytes = Vec::new();
            let mut builder = PacketBuilder::new(&mut bytes, common, packet_bytes_max);
            assert!(builder.sack(Tsn(12), 4660, GAPS.into_iter(), DUPLICATES.into_iter()));
            assert!(builder.finish() <= packet_bytes_max);
            let Ok(Chunk::Sack(sack)) = parse_chunk(&bytes[12..]) else { panic!("no SACK") };
            assert!(sack.gap_ack_blocks().eq(GAPS.into_iter().take(gaps)));
            assert!(sack.duplicates().eq(DUPLICATES.into_iter().take(duplicates)));
        }
    }

    #[test]
    fn nothing_is_written_where_the_fixed_part_does_not_fit() {
        let common = CommonHeader { source_port: 1, destination_port: 2, verification_tag: 3 };
        let mut bytes = Vec::new();
        let mut builder = PacketBuilder::new(&mut bytes, common, 27);
        assert!(!builder.sack(Tsn(12), 4660, GAPS.into_iter(), DUPLICATES.into_iter()));
        assert!(builder.is_empty());
    }

    #[test]
    fn endless_lists_stop_at_the_16_bit_length() {
        let bytes = chunk_bytes(|b| b.sack(Tsn(1), 2, core::iter::repeat((2, 3)), core::iter::repeat(Tsn(4))));
        assert_eq!(bytes.len(), 0xfffc);
        let Ok(Chunk::Sack(sack)) = parse_chunk(&bytes) else { panic!("no SACK") };
        assert_eq!((sack.gap_ack_blocks().len(), sack.duplicates().len()), (16379, 0));
    }
}
