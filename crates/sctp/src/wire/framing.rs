//! The chunk that carries user messages: DATA (RFC 9260 §3.3.1) or I-DATA (RFC 8260 §2.1). One association uses one of them, from its
//! establishment to its end (RFC 8260 §2.2.1).

use super::builder::PacketBuilder;
use super::chunk::{DATA_HEADER_BYTES, DataHeader, I_DATA_HEADER_BYTES, IDataHeader};
use super::serial::{Mid, Ssn, StreamId, Tsn};

/// Which chunk carries the user messages of an association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Framing {
    /// DATA: the fragments of a message have consecutive TSNs.
    #[default]
    Data,
    /// I-DATA: each fragment names its message and its place in it, so that messages may be interleaved.
    IData,
}

/// A fragment of a user message, or all of it, to be written in either framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentHeader {
    /// Its transmission sequence number.
    pub tsn: Tsn,
    /// The stream that it belongs to.
    pub stream: StreamId,
    /// The number of its message within the stream. It is the MID of I-DATA, and its low 16 bits are the SSN of DATA. Ordered and
    /// unordered messages count apart in I-DATA; DATA does not number unordered ones.
    pub message: u32,
    /// Its place within the message, from 0: the FSN of I-DATA.
    pub fragment: u32,
    /// The application's own payload protocol identifier. I-DATA carries it in the first fragment only.
    pub ppid: u32,
    /// U bit: to be delivered without regard to the order of the stream.
    pub unordered: bool,
    /// E bit: last fragment of its message. The B bit is set where `fragment` is 0.
    pub end: bool,
    /// I bit: asks for a SACK without delay.
    pub immediate: bool,
}

impl Framing {
    /// Returns whether fragments of several messages may alternate. Those in DATA cannot: the fragments of a message have consecutive TSNs
    /// (RFC 9260 §6.9).
    pub(crate) fn alternates(self) -> bool {
        self == Self::IData
    }

    /// Bytes of a chunk before its payload.
    #[inline]
    #[must_use]
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Data => DATA_HEADER_BYTES,
            Self::IData => I_DATA_HEADER_BYTES,
        }
    }

    /// Bytes that a chunk with this payload takes in a packet, header and padding included.
    #[inline]
    #[must_use]
    pub const fn chunk_bytes(self, payload_bytes: usize) -> usize {
        (self.header_bytes() + payload_bytes).next_multiple_of(4)
    }
}

impl PacketBuilder<'_> {
    /// Adds a fragment in this framing. False, with nothing written, if it does not fit into the packet.
    #[inline]
    pub fn fragment(&mut self, framing: Framing, header: &FragmentHeader, payload: &[u8]) -> bool {
        match framing {
            Framing::Data => self.data(&header.as_data(), payload),
            Framing::IData => self.i_data(&header.as_i_data(), payload),
        }
    }
}

impl FragmentHeader {
    /// The header of a DATA chunk.
    #[inline]
    pub(super) fn as_data(&self) -> DataHeader {
        let &Self { tsn, stream, message, fragment, ppid, unordered, end, immediate } = self;
        let (ssn, beginning) = (Ssn::wrap(message.into()), fragment == 0);
        DataHeader { tsn, stream, ssn, ppid, unordered, beginning, end, immediate }
    }

    /// The header of an I-DATA chunk.
    #[inline]
    pub(super) fn as_i_data(&self) -> IDataHeader {
        let &Self { tsn, stream, message, fragment, ppid, unordered, end, immediate } = self;
        let beginning = fragment == 0;
        let ppid_or_fsn = if beginning { ppid } else { fragment };
        IDataHeader { tsn, stream, mid: Mid(message), ppid_or_fsn, unordered, beginning, end, immediate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Chunk;
    use crate::wire::tests::{chunk_bytes, parse_chunk};

    const HEADER: FragmentHeader = FragmentHeader {
        tsn: Tsn(7),
        stream: StreamId(3),
        message: 0x0001_0002,
        fragment: 0,
        ppid: 51,
        unordered: true,
        end: false,
        immediate: true,
    };

    #[test]
    fn a_fragment_has_the_header_of_its_framing_and_the_payload_behind_it() {
        for framing in [Framing::Data, Framing::IData] {
            for fragment in [0, 5] {
                let header = FragmentHeader { fragment, ..HEADER };
                let bytes = chunk_bytes(|builder| builder.fragment(framing, &header, b"four"));
                assert_eq!(bytes.len(), framing.header_bytes() + 4);
                match parse_chunk(&bytes) {
                    Ok(Chunk::Data(data)) => {
                        assert_eq!((framing, data.ssn, data.ppid), (Framing::Data, Ssn(2), 51));
                        assert_eq!((data.tsn, data.stream, data.payload), (Tsn(7), StreamId(3), &b"four"[..]));
                        assert_eq!((data.beginning, data.end), (fragment == 0, false));
                        assert!(data.unordered && data.immediate);
                    }
                    Ok(Chunk::IData(data)) => {
                        assert_eq!((framing, data.mid, data.fsn()), (Framing::IData, Mid(0x0001_0002), fragment));
                        assert_eq!(data.ppid(), (fragment == 0).then_some(51));
                        assert_eq!((data.tsn, data.stream, data.payload()), (Tsn(7), StreamId(3), &b"four"[..]));
                        assert_eq!((data.beginning, data.end), (fragment == 0, false));
                        assert!(data.unordered && data.immediate);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}
