//! FORWARD-TSN and I-FORWARD-TSN: the sender has abandoned missing chunks up to a TSN (RFC 3758 §3.2, RFC 8260 §2.3.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |  0xc0 or 0xc2 |               |   8 + 4 * N   or   8 + 8 * N  |
//! +---------------+---------------+-------------------------------+
//! |                      new cumulative TSN                       |
//! +-------------------------------+-------------------------------+
//! |      stream identifier        |  stream sequence number       |  FORWARD-TSN: N times
//! +-------------------------------+-------------------------------+
//! |      stream identifier        |           reserved          |U|  I-FORWARD-TSN: N times
//! +-------------------------------+-----------------------------+-+
//! |                      message identifier                       |
//! +---------------------------------------------------------------+
//! ```

use super::unknown::UnknownChunk;
use crate::wire::encode::Encoder;
use crate::wire::error::Malformation;
use crate::wire::serial::{Mid, Ssn, StreamId, Tsn};
use crate::wire::tlv::Frame;

/// A FORWARD-TSN chunk, as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardTsn<'a> {
    /// Everything up to this TSN counts as received.
    pub new_cumulative: Tsn,
    /// The whole chunk without padding: 8 bytes and whole entries.
    bytes: &'a [u8],
}

/// An I-FORWARD-TSN chunk, as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IForwardTsn<'a> {
    /// Everything up to this TSN counts as received.
    pub new_cumulative: Tsn,
    /// The whole chunk without padding: 8 bytes and whole entries.
    bytes: &'a [u8],
}

/// The last message of a stream that was abandoned; ordered and unordered ones count apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SkippedMessage {
    /// The stream.
    pub stream: StreamId,
    /// U bit: the MID is that of an unordered message.
    pub unordered: bool,
    /// The highest MID that was abandoned.
    pub mid: Mid,
}

const UNORDERED: u8 = 1;
/// Bytes before the entries.
const HEADER_BYTES: usize = 8;

/// Reads the fixed part, and checks that the rest is whole entries of `N` bytes.
fn read<const N: usize>(frame: &Frame<'_>) -> Result<Tsn, Malformation> {
    let (&cumulative, streams) = frame.at_least()?;
    let (entries, rest) = streams.as_chunks::<N>();
    if !rest.is_empty() {
        let expected = HEADER_BYTES + N * entries.len();
        return Err(Malformation::WrongLength { length: frame.bytes.len(), expected });
    }
    Ok(Tsn(u32::from_be_bytes(cumulative)))
}

fn entries<const N: usize>(bytes: &[u8]) -> &[[u8; N]] {
    bytes.get(HEADER_BYTES..).unwrap_or_default().as_chunks().0
}

impl<'a> ForwardTsn<'a> {
    pub(in crate::wire) fn read(frame: &Frame<'a>) -> Result<Self, Malformation> {
        Ok(Self { new_cumulative: read::<4>(frame)?, bytes: frame.bytes })
    }

    /// For each stream that has lost ordered messages the last of them, in the order received. Nothing is checked: streams may be unknown
    /// or stand there twice.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = (StreamId, Ssn)> + Clone + use<'a> {
        let entries = entries(self.bytes).iter();
        entries.map(|&[s0, s1, n0, n1]| (StreamId(u16::from_be_bytes([s0, s1])), Ssn(u16::from_be_bytes([n0, n1]))))
    }

    /// The chunk for a receiver that has not agreed on partial reliability.
    #[must_use]
    pub const fn as_unknown(&self) -> UnknownChunk<'a> {
        UnknownChunk::new(self.bytes)
    }
}

impl<'a> IForwardTsn<'a> {
    pub(in crate::wire) fn read(frame: &Frame<'a>) -> Result<Self, Malformation> {
        Ok(Self { new_cumulative: read::<8>(frame)?, bytes: frame.bytes })
    }

    /// For each stream that has lost messages the last ordered and the last unordered of them, in the order received. Nothing is checked:
    /// streams may be unknown or stand there more than once.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = SkippedMessage> + Clone + use<'a> {
        entries(self.bytes).iter().map(|&[s0, s1, _, flags, m0, m1, m2, m3]| SkippedMessage {
            stream: StreamId(u16::from_be_bytes([s0, s1])),
            unordered: flags & UNORDERED != 0,
            mid: Mid(u32::from_be_bytes([m0, m1, m2, m3])),
        })
    }

    /// The chunk for a receiver that has not agreed on partial reliability with I-DATA.
    #[must_use]
    pub const fn as_unknown(&self) -> UnknownChunk<'a> {
        UnknownChunk::new(self.bytes)
    }
}

pub(in crate::wire) fn write_forward_tsn(encoder: &mut Encoder<'_>, new_cumulative: Tsn, streams: &[(StreamId, Ssn)]) {
    encoder.put(&new_cumulative.0.to_be_bytes());
    for (stream, ssn) in streams {
        encoder.put(&stream.0.to_be_bytes());
        encoder.put(&ssn.0.to_be_bytes());
    }
}

pub(in crate::wire) fn write_i_forward_tsn(encoder: &mut Encoder<'_>, new_cumulative: Tsn, streams: &[SkippedMessage]) {
    encoder.put(&new_cumulative.0.to_be_bytes());
    for skipped in streams {
        encoder.put(&skipped.stream.0.to_be_bytes());
        encoder.put(&[0, if skipped.unordered { UNORDERED } else { 0 }]);
        encoder.put(&skipped.mid.0.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{build_and_parse, malformation, parse_chunk};
    use crate::wire::{Chunk, ChunkOut};

    #[test]
    fn rfc3758_3_2_a_forward_tsn_is_written_and_read_with_and_without_streams() {
        let streams = [(StreamId(0x0506), Ssn(0x0708)), (StreamId(1), Ssn(0xffff))];
        for count in 0..=2 {
            let out = ChunkOut::ForwardTsn { new_cumulative: Tsn(0x0102_0304), streams: &streams[..count] };
            let bytes = [0xc0, 0, 0, 16, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0xff, 0xff];
            let mut bytes = bytes[..8 + 4 * count].to_vec();
            bytes[3] = [8, 12, 16][count];
            let Chunk::ForwardTsn(forward) = build_and_parse(&out, &bytes) else { panic!("no FORWARD-TSN") };
            assert_eq!(forward.new_cumulative, Tsn(0x0102_0304));
            assert!(forward.streams().eq(streams[..count].iter().copied()));
            assert_eq!(forward.as_unknown().bytes(), bytes);
        }
    }

    #[test]
    fn rfc8260_2_3_1_an_i_forward_tsn_is_written_and_read() {
        let streams = [
            SkippedMessage { stream: StreamId(0x0506), unordered: true, mid: Mid(0x0708_090a) },
            SkippedMessage { stream: StreamId(1), unordered: false, mid: Mid(0xffff_ffff) },
        ];
        let out = ChunkOut::IForwardTsn { new_cumulative: Tsn(0x0102_0304), streams: &streams };
        #[rustfmt::skip]
        let bytes = [
            0xc2, 0, 0, 24, 1, 2, 3, 4,
            5, 6, 0, 1, 7, 8, 9, 10,
            0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff,
        ];
        let Chunk::IForwardTsn(forward) = build_and_parse(&out, &bytes) else { panic!("no I-FORWARD-TSN") };
        assert_eq!(forward.new_cumulative, Tsn(0x0102_0304));
        assert!(forward.streams().eq(streams));
        assert_eq!(forward.as_unknown().bytes(), bytes);
    }

    #[test]
    fn rfc8260_2_3_1_the_reserved_bits_of_an_entry_are_ignored() {
        let bytes = [0xc2, 0xff, 0, 16, 0, 0, 0, 1, 0, 2, 0xff, 0xfe, 0, 0, 0, 3];
        let Ok(Chunk::IForwardTsn(forward)) = parse_chunk(&bytes) else { panic!("no I-FORWARD-TSN") };
        let skipped = SkippedMessage { stream: StreamId(2), unordered: false, mid: Mid(3) };
        assert!(forward.streams().eq([skipped]));
    }

    #[test]
    fn a_chunk_without_its_tsn_or_with_a_part_of_an_entry_is_rejected() {
        for (chunk_type, entry) in [(0xc0, 4), (0xc2, 8)] {
            for length in 4..=40u8 {
                let mut bytes = vec![0; usize::from(length)];
                (bytes[0], bytes[3]) = (chunk_type, length);
                match usize::from(length) {
                    length @ 0..8 => assert_eq!(malformation(&bytes), Malformation::TooShort { length, minimum: 8 }),
                    length if length % entry == 0 => assert!(parse_chunk(&bytes).is_ok()),
                    length => {
                        let expected = length - length % entry;
                        assert_eq!(malformation(&bytes), Malformation::WrongLength { length, expected });
                    }
                }
            }
        }
    }
}
