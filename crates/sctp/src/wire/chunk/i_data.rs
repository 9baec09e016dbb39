//! I-DATA: a user message or a piece of one; several may be under way at once (RFC 8260 §2.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-------+-+-+-+-+-------------------------------+
//! |      0x40     |       |I|U|B|E|        20 + payload           |
//! +---------------+-------+-+-+-+-+-------------------------------+
//! |                              TSN                              |
//! +-------------------------------+-------------------------------+
//! |       stream identifier       |           reserved            |
//! +-------------------------------+-------------------------------+
//! |                      message identifier                       |
//! +---------------------------------------------------------------+
//! |   payload protocol identifier (B set) or fragment number      |
//! +---------------------------------------------------------------+
//! |                         payload ...                           |
//! ```

use super::chunk_type;
use super::data::{BEGINNING, END, IMMEDIATE, UNORDERED, flag};
use super::unknown::UnknownChunk;
use crate::preview::debug_with_preview;
use crate::wire::error::Malformation;
use crate::wire::serial::{Mid, StreamId, Tsn};
use crate::wire::tlv::Frame;

/// Bytes of an I-DATA chunk before its payload (RFC 8260 §2.1).
pub(in crate::wire) const I_DATA_HEADER_BYTES: usize = 20;

/// An I-DATA chunk, as read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IData<'a> {
    /// Its transmission sequence number.
    pub tsn: Tsn,
    /// The stream that it belongs to.
    pub stream: StreamId,
    /// Its message's number within the stream; ordered and unordered messages count apart.
    pub mid: Mid,
    ppid_or_fsn: u32,
    /// U bit: to be delivered without regard to the order of the stream.
    pub unordered: bool,
    /// B bit: first fragment of its message.
    pub beginning: bool,
    /// E bit: last fragment of its message.
    pub end: bool,
    /// I bit: the sender asks for a SACK without delay.
    pub immediate: bool,
    /// The whole chunk without padding.
    bytes: &'a [u8],
}

debug_with_preview!(IData<'_>, bytes, [tsn, stream, mid, ppid_or_fsn, unordered, beginning, end, immediate]);

/// An I-DATA chunk to be written, without its payload. The fields are those of [`IData`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IDataHeader {
    /// Its transmission sequence number.
    pub tsn: Tsn,
    /// The stream that it belongs to.
    pub stream: StreamId,
    /// Its message's number within the stream; ordered and unordered messages count apart.
    pub mid: Mid,
    /// The payload protocol identifier if `beginning`, else the fragment's number within its message, from 1.
    pub ppid_or_fsn: u32,
    /// U bit: to be delivered without regard to the order of the stream.
    pub unordered: bool,
    /// B bit: first fragment of its message.
    pub beginning: bool,
    /// E bit: last fragment of its message.
    pub end: bool,
    /// I bit: asks for a SACK without delay.
    pub immediate: bool,
}

impl<'a> IData<'a> {
    pub(in crate::wire) fn read(flags: u8, frame: &Frame<'a>) -> Result<Self, Malformation> {
        let (&[t0, t1, t2, t3, s0, s1, _, _, m0, m1, m2, m3, p0, p1, p2, p3], _) = frame.at_least()?;
        Ok(Self {
            tsn: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            stream: StreamId(u16::from_be_bytes([s0, s1])),
            mid: Mid(u32::from_be_bytes([m0, m1, m2, m3])),
            ppid_or_fsn: u32::from_be_bytes([p0, p1, p2, p3]),
            unordered: flags & UNORDERED != 0,
            beginning: flags & BEGINNING != 0,
            end: flags & END != 0,
            immediate: flags & IMMEDIATE != 0,
            bytes: frame.bytes,
        })
    }

    /// The application's own payload protocol identifier, which stands in the first fragment only.
    #[must_use]
    pub const fn ppid(&self) -> Option<u32> {
        if self.beginning { Some(self.ppid_or_fsn) } else { None }
    }

    /// The fragment's number within its message. The first fragment has the number 0. Others should have a higher one; nothing is checked.
    #[must_use]
    pub const fn fsn(&self) -> u32 {
        if self.beginning { 0 } else { self.ppid_or_fsn }
    }

    /// The bytes of the message. The standard forbids an empty payload, but it is for the receiver to answer it.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(I_DATA_HEADER_BYTES..).unwrap_or_default()
    }

    /// All but the payload.
    #[must_use]
    pub const fn header(&self) -> IDataHeader {
        IDataHeader {
            tsn: self.tsn,
            stream: self.stream,
            mid: self.mid,
            ppid_or_fsn: self.ppid_or_fsn,
            unordered: self.unordered,
            beginning: self.beginning,
            end: self.end,
            immediate: self.immediate,
        }
    }

    /// The chunk for a receiver that has not agreed on I-DATA.
    #[must_use]
    pub const fn as_unknown(&self) -> UnknownChunk<'a> {
        UnknownChunk::new(self.bytes)
    }
}

impl IDataHeader {
    /// The chunk's fixed part; `length` counts it and the payload.
    pub(in crate::wire) fn to_bytes(self, length: u16) -> [u8; I_DATA_HEADER_BYTES] {
        let flags = flag(self.end, END)
            | flag(self.beginning, BEGINNING)
            | flag(self.unordered, UNORDERED)
            | flag(self.immediate, IMMEDIATE);
        let [l0, l1] = length.to_be_bytes();
        let [t0, t1, t2, t3] = self.tsn.0.to_be_bytes();
        let [s0, s1] = self.stream.0.to_be_bytes();
        let [m0, m1, m2, m3] = self.mid.0.to_be_bytes();
        let [p0, p1, p2, p3] = self.ppid_or_fsn.to_be_bytes();
        [chunk_type::I_DATA, flags, l0, l1, t0, t1, t2, t3, s0, s1, 0, 0, m0, m1, m2, m3, p0, p1, p2, p3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Chunk;
    use crate::wire::tests::{chunk_bytes, malformation, parse_chunk};

    const HEADER: IDataHeader = IDataHeader {
        tsn: Tsn(0x0102_0304),
        stream: StreamId(0x0506),
        mid: Mid(0x0708_090a),
        ppid_or_fsn: 0x0b0c_0d0e,
        unordered: false,
        beginning: true,
        end: true,
        immediate: false,
    };
    #[rustfmt::skip]
    const ONE_BYTE: [u8; 24] =
        [0x40, 0b0011, 0, 21, 1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 9, 10, 11, 12, 13, 14, b'x', 0, 0, 0];

    fn read(bytes: &[u8]) -> IData<'static> {
        match parse_chunk(bytes) {
            Ok(Chunk::IData(data)) => data,
            other => panic!("{other:?} is no I-DATA"),
        }
    }

    #[test]
    fn rfc8260_2_1_a_chunk_with_one_byte_has_length_21_and_three_bytes_of_padding() {
        assert_eq!(chunk_bytes(|builder| builder.i_data(&HEADER, b"x")), ONE_BYTE);
        let data = read(&ONE_BYTE);
        assert_eq!((data.header(), data.payload()), (HEADER, &b"x"[..]));
        assert_eq!((data.ppid(), data.fsn()), (Some(0x0b0c_0d0e), 0));
        assert_eq!(data.as_unknown().bytes(), &ONE_BYTE[..21]);
    }

    #[test]
    fn rfc8260_2_1_without_the_b_bit_the_last_field_is_the_fragment_number() {
        let data = read(&[&[0x40, 0b0001][..], &ONE_BYTE[2..]].concat());
        assert_eq!((data.ppid(), data.fsn()), (None, 0x0b0c_0d0e));
    }

    #[test]
    fn reserved_flags_and_the_reserved_field_are_ignored() {
        let mut bytes = ONE_BYTE;
        bytes[1] |= 0xf0;
        bytes[10..12].copy_from_slice(&[0xff, 0xff]);
        assert_eq!((read(&bytes).header(), read(&bytes).payload()), (HEADER, &b"x"[..]));
    }

    #[test]
    fn each_flag_has_its_own_bit() {
        let none = IDataHeader { beginning: false, end: false, ..HEADER };
        for (header, bits) in [
            (none, 0),
            (IDataHeader { end: true, ..none }, 1),
            (IDataHeader { beginning: true, ..none }, 2),
            (IDataHeader { unordered: true, ..none }, 4),
            (IDataHeader { immediate: true, ..none }, 8),
        ] {
            let bytes = chunk_bytes(|builder| builder.i_data(&header, b"x"));
            assert_eq!((bytes[1], read(&bytes).header()), (bits, header));
        }
    }

    #[test]
    fn every_length_below_the_fixed_part_is_rejected() {
        for length in 4..20u8 {
            let mut bytes = ONE_BYTE;
            bytes[3] = length;
            let error = malformation(&bytes[..usize::from(length)]);
            assert_eq!(error, Malformation::TooShort { length: usize::from(length), minimum: 20 });
        }
    }
}
