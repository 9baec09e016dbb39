//! INIT and INIT ACK: the handshake's first two chunks, alike in form (RFC 9260 §3.3.2, §3.3.3).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |    1 or 2     |               |        20 + parameters        |
//! +---------------+---------------+-------------------------------+
//! |                         initiate tag                          |
//! +---------------------------------------------------------------+
//! |                    receiver window (a_rwnd)                   |
//! +-------------------------------+-------------------------------+
//! |       outbound streams        |    inbound streams, at most   |
//! +-------------------------------+-------------------------------+
//! |                          initial TSN                          |
//! +---------------------------------------------------------------+
//! |                        parameters ...                         |
//! ```

use crate::wire::CHUNK_HEADER_BYTES;
use crate::wire::encode::Encoder;
use crate::wire::error::Malformation;
use crate::wire::parameter::{Parameter, Parameters};
use crate::wire::serial::Tsn;
use crate::wire::tlv::Frame;

/// Bytes between the chunk header and the parameters.
const FIXED_BYTES: usize = 16;

/// An INIT or INIT ACK, as read. Zero tags and stream counts are forbidden, but it is for the handshake to answer them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init<'a> {
    /// The verification tag that all packets to the sender of this chunk must carry.
    pub initiate_tag: u32,
    /// The sender's receive window in bytes.
    pub a_rwnd: u32,
    /// Streams that the sender wishes to send on.
    pub outbound_streams: u16,
    /// Streams that the sender is willing to receive on.
    pub inbound_streams: u16,
    /// The TSN of the sender's first DATA chunk.
    pub initial_tsn: Tsn,
    parameters: &'a [u8],
}

/// An INIT or INIT ACK to be written. The fields are those of [`Init`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitOut<'a> {
    /// The verification tag that all packets to the sender of this chunk must carry.
    pub initiate_tag: u32,
    /// The sender's receive window in bytes.
    pub a_rwnd: u32,
    /// Streams that the sender wishes to send on.
    pub outbound_streams: u16,
    /// Streams that the sender is willing to receive on.
    pub inbound_streams: u16,
    /// The TSN of the sender's first DATA chunk.
    pub initial_tsn: Tsn,
    /// The parameters, in the order in which they are to stand.
    pub parameters: &'a [Parameter<'a>],
}

impl<'a> Init<'a> {
    pub(in crate::wire) fn read(frame: &Frame<'a>) -> Result<Self, Malformation> {
        let (&[g0, g1, g2, g3, w0, w1, w2, w3, o0, o1, i0, i1, t0, t1, t2, t3], parameters) = frame.at_least()?;
        Ok(Self {
            initiate_tag: u32::from_be_bytes([g0, g1, g2, g3]),
            a_rwnd: u32::from_be_bytes([w0, w1, w2, w3]),
            outbound_streams: u16::from_be_bytes([o0, o1]),
            inbound_streams: u16::from_be_bytes([i0, i1]),
            initial_tsn: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            parameters,
        })
    }

    /// The chunk's length in bytes as it states it, header included.
    pub(crate) const fn chunk_bytes(&self) -> usize {
        CHUNK_HEADER_BYTES + FIXED_BYTES + self.parameters.len()
    }

    /// The parameters in order. They are read only as this walk reaches them.
    #[must_use]
    pub const fn parameters(&self) -> Parameters<'a> {
        Parameters::new(self.parameters)
    }
}

impl InitOut<'_> {
    pub(in crate::wire) fn write(&self, encoder: &mut Encoder<'_>) {
        encoder.put(&self.initiate_tag.to_be_bytes());
        encoder.put(&self.a_rwnd.to_be_bytes());
        encoder.put(&self.outbound_streams.to_be_bytes());
        encoder.put(&self.inbound_streams.to_be_bytes());
        encoder.put(&self.initial_tsn.0.to_be_bytes());
        for parameter in self.parameters {
            parameter.write(encoder);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;
    use crate::wire::tests::{build_and_parse, malformation, parse_chunk};
    use crate::wire::{Chunk, ChunkOut};

    fn init<'a>(parameters: &'a [Parameter<'a>]) -> InitOut<'a> {
        InitOut {
            initiate_tag: 0x0102_0304,
            a_rwnd: 0x0001_0000,
            outbound_streams: 10,
            inbound_streams: 0xffff,
            initial_tsn: Tsn(0x0506_0708),
            parameters,
        }
    }

    #[test]
    fn an_init_pads_between_parameters_and_does_not_count_the_last_padding() {
        let parameters = [
            Parameter::SupportedExtensions(&[0xc0]),
            Parameter::Ipv4(Ipv4Addr::new(127, 0, 0, 1)),
            Parameter::HostName(b"h\0"),
        ];
        #[rustfmt::skip]
        let expected = [
            1, 0, 0, 42,
            1, 2, 3, 4,
            0, 1, 0, 0,
            0, 10, 0xff, 0xff,
            5, 6, 7, 8,
            0x80, 0x08, 0, 5, 0xc0, 0, 0, 0,
            0, 5, 0, 8, 127, 0, 0, 1,
            0, 11, 0, 6, b'h', 0, 0, 0,
        ];
        let Chunk::Init(parsed) = build_and_parse(&ChunkOut::Init(init(&parameters)), &expected) else {
            panic!("no INIT")
        };
        assert_eq!((parsed.initiate_tag, parsed.a_rwnd), (0x0102_0304, 0x0001_0000));
        assert_eq!((parsed.outbound_streams, parsed.inbound_streams), (10, 0xffff));
        assert_eq!(parsed.initial_tsn, Tsn(0x0506_0708));
        assert_eq!(parsed.parameters().collect::<Result<Vec<_>, _>>().as_deref(), Ok(&parameters[..]));
    }

    #[test]
    fn a_length_that_counts_the_last_padding_is_accepted_too() {
        let mut bytes = [0; 28];
        bytes[..4].copy_from_slice(&[1, 0, 0, 28]);
        bytes[20..25].copy_from_slice(&[0x80, 0x08, 0, 5, 0xc0]);
        let Ok(Chunk::Init(parsed)) = parse_chunk(&bytes) else { panic!("no INIT") };
        assert!(parsed.parameters().eq([Ok(Parameter::SupportedExtensions(&[0xc0]))]));
    }

    #[test]
    fn an_init_ack_differs_in_type_alone() {
        let cookie = [Parameter::StateCookie(&[9, 8, 7, 6])];
        #[rustfmt::skip]
        let expected = [
            2, 0, 0, 28,
            1, 2, 3, 4,
            0, 1, 0, 0,
            0, 10, 0xff, 0xff,
            5, 6, 7, 8,
            0, 7, 0, 8, 9, 8, 7, 6,
        ];
        let Chunk::InitAck(parsed) = build_and_parse(&ChunkOut::InitAck(init(&cookie)), &expected) else {
            panic!("no INIT ACK")
        };
        assert!(parsed.parameters().eq([Ok(cookie[0])]));
    }

    #[test]
    fn every_length_below_the_fixed_part_is_rejected() {
        for chunk_type in [1, 2] {
            for length in 4..20u8 {
                let mut bytes = [0; 20];
                bytes[..4].copy_from_slice(&[chunk_type, 0, 0, length]);
                let error = malformation(&bytes[..usize::from(length)]);
                assert_eq!(error, Malformation::TooShort { length: usize::from(length), minimum: 20 });
            }
        }
    }
}
