//! DATA: a user message or a piece of one (RFC 9260 §3.3.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-------+-+-+-+-+-------------------------------+
//! |       0       |       |I|U|B|E|        16 + payload           |
//! +---------------+-------+-+-+-+-+-------------------------------+
//! |                              TSN                              |
//! +-------------------------------+-------------------------------+
//! |       stream identifier       |    stream sequence number     |
//! +-------------------------------+-------------------------------+
//! |                 payload protocol identifier                   |
//! +---------------------------------------------------------------+
//! |                         payload ...                           |
//! ```

use super::chunk_type;
use crate::preview::debug_with_preview;
use crate::wire::error::Malformation;
use crate::wire::serial::{Ssn, StreamId, Tsn};
use crate::wire::tlv::Frame;

/// Bytes of a DATA chunk before its payload (RFC 9260 §3.3.1).
pub(in crate::wire) const DATA_HEADER_BYTES: usize = 16;

pub(in crate::wire) const END: u8 = 1;
pub(in crate::wire) const BEGINNING: u8 = 1 << 1;
pub(in crate::wire) const UNORDERED: u8 = 1 << 2;
pub(super) const IMMEDIATE: u8 = 1 << 3;

/// A DATA chunk, as read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Data<'a> {
    /// Its transmission sequence number.
    pub tsn: Tsn,
    /// The stream that it belongs to.
    pub stream: StreamId,
    /// Its message's place within the stream; without meaning if `unordered`.
    pub ssn: Ssn,
    /// The application's own payload protocol identifier; zero says nothing.
    pub ppid: u32,
    /// U bit: to be delivered without regard to `ssn`.
    pub unordered: bool,
    /// B bit: first piece of its message.
    pub beginning: bool,
    /// E bit: last piece of its message.
    pub end: bool,
    /// I bit: the sender asks for a SACK without delay.
    pub immediate: bool,
    /// The bytes of the message. The standard forbids an empty payload, but it is for the receiver to answer it.
    pub payload: &'a [u8],
}

debug_with_preview!(Data<'_>, payload, [tsn, stream, ssn, ppid, unordered, beginning, end, immediate]);

/// A DATA chunk to be written, without its payload. The fields are those of [`Data`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DataHeader {
    /// Its transmission sequence number.
    pub tsn: Tsn,
    /// The stream that it belongs to.
    pub stream: StreamId,
    /// Its message's place within the stream; without meaning if `unordered`.
    pub ssn: Ssn,
    /// The application's own payload protocol identifier; zero says nothing.
    pub ppid: u32,
    /// U bit: to be delivered without regard to `ssn`.
    pub unordered: bool,
    /// B bit: first piece of its message.
    pub beginning: bool,
    /// E bit: last piece of its message.
    pub end: bool,
    /// I bit: asks for a SACK without delay.
    pub immediate: bool,
}

impl<'a> Data<'a> {
    #[inline]
    pub(in crate::wire) fn read(flags: u8, frame: &Frame<'a>) -> Result<Self, Malformation> {
        let (&[t0, t1, t2, t3, s0, s1, n0, n1, p0, p1, p2, p3], payload) = frame.at_least()?;
        Ok(Self {
            tsn: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            stream: StreamId(u16::from_be_bytes([s0, s1])),
            ssn: Ssn(u16::from_be_bytes([n0, n1])),
            ppid: u32::from_be_bytes([p0, p1, p2, p3]),
            unordered: flags & UNORDERED != 0,
            beginning: flags & BEGINNING != 0,
            end: flags & END != 0,
            immediate: flags & IMMEDIATE != 0,
            payload,
        })
    }

    /// All but the payload.
    #[inline]
    #[must_use]
    pub const fn header(&self) -> DataHeader {
        DataHeader {
            tsn: self.tsn,
            stream: self.stream,
            ssn: self.ssn,
            ppid: self.ppid,
            unordered: self.unordered,
            beginning: self.beginning,
            end: self.end,
            immediate: self.immediate,
        }
    }
}

impl DataHeader {
    /// The chunk's fixed part; `length` counts it and the payload.
    #[inline]
    pub(in crate::wire) fn to_bytes(self, length: u16) -> [u8; DATA_HEADER_BYTES] {
        let flags = flag(self.end, END)
            | flag(self.beginning, BEGINNING)
            | flag(self.unordered, UNORDERED)
            | flag(self.immediate, IMMEDIATE);
        let [l0, l1] = length.to_be_bytes();
        let [t0, t1, t2, t3] = self.tsn.0.to_be_bytes();
        let [s0, s1] = self.stream.0.to_be_bytes();
        let [n0, n1] = self.ssn.0.to_be_bytes();
        let [p0, p1, p2, p3] = self.ppid.to_be_bytes();
        [chunk_type::DATA, flags, l0, l1, t0, t1, t2, t3, s0, s1, n0, n1, p0, p1, p2, p3]
    }
}

#[inline]
pub(in crate::wire) const fn flag(set: bool, bit: u8) -> u8 {
    if set { bit } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{chunk_bytes, malformation, parse_chunk};
    use crate::wire::{Chunk, PacketBuilder};

    const HEADER: DataHeader = DataHeader {
        tsn: Tsn(0x0102_0304),
        stream: StreamId(0x0506),
        ssn: Ssn(0x0708),
        ppid: 0x090a_0b0c,
        unordered: false,
        beginning: true,
        end: true,
        immediate: false,
    };
    const ONE_BYTE: [u8; 20] = [0, 0b0011, 0, 17, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, b'x', 0, 0, 0];

    #[test]
    fn a_chunk_with_one_byte_has_length_17_and_three_bytes_of_padding() {
        assert_eq!(chunk_bytes(|builder| builder.data(&HEADER, b"x")), ONE_BYTE);
        let Ok(Chunk::Data(data)) = parse_chunk(&ONE_BYTE) else { panic!("no DATA") };
        assert_eq!((data.header(), data.payload), (HEADER, &b"x"[..]));
    }

    #[test]
    fn each_flag_has_its_own_bit() {
        let none = DataHeader { beginning: false, end: false, ..HEADER };
        for (header, bits) in [
            (none, 0),
            (DataHeader { end: true, ..none }, 1),
            (DataHeader { beginning: true, ..none }, 2),
            (DataHeader { unordered: true, ..none }, 4),
            (DataHeader { immediate: true, ..none }, 8),
        ] {
            let bytes = chunk_bytes(|builder| builder.data(&header, b"x"));
            assert_eq!(bytes[1], bits);
            assert!(matches!(parse_chunk(&bytes), Ok(Chunk::Data(data)) if data.header() == header));
        }
    }

    #[test]
    fn reserved_flags_are_ignored() {
        let mut bytes = ONE_BYTE;
        bytes[1] |= 0xf0;
        assert_eq!(parse_chunk(&bytes), parse_chunk(&ONE_BYTE));
    }

    #[test]
    fn the_last_chunk_may_lack_its_padding() {
        assert_eq!(parse_chunk(&ONE_BYTE[..17]), parse_chunk(&ONE_BYTE));
    }

    #[test]
    fn an_empty_payload_is_left_to_the_receiver() {
        let bytes = chunk_bytes(|builder| builder.data(&HEADER, b""));
        assert!(matches!(parse_chunk(&bytes), Ok(Chunk::Data(data)) if data.payload.is_empty()));
    }

    #[test]
    fn every_length_below_the_fixed_part_is_rejected() {
        for length in 4..16u8 {
            let mut bytes = ONE_BYTE;
            bytes[3] = length;
            let error = malformation(&bytes[..usize::from(length)]);
            assert_eq!(error, Malformation::TooShort { length: usize::from(length), minimum: 16 });
        }
    }

    #[test]
    fn the_payload_is_limited_by_the_16_bit_length() {
        let common = crate::wire::CommonHeader { source_port: 1, destination_port: 2, verification_tag: 3 };
        let mut bytes = Vec::new();
        let mut builder = PacketBuilder::new(&mut bytes, common, usize::MAX);
        assert!(!builder.data(&HEADER, &vec![0; 0xffff - 15]));
        assert!(builder.is_empty());
        assert!(builder.data(&HEADER, &vec![0; 0xffff - 16]));
    }
}
