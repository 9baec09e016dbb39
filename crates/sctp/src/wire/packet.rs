//! The packet: common header and the chunks behind it (RFC 9260 §3, §3.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          source port          |       destination port        |
//! +-------------------------------+-------------------------------+
//! |                       verification tag                        |
//! +---------------------------------------------------------------+
//! |            CRC32c (least significant byte first)              |
//! +---------------------------------------------------------------+
//! |                chunks, each a multiple of 4 bytes ...         |
//! ```

use super::COMMON_HEADER_BYTES;
use super::checksum::packet_checksum;
use super::chunk::{Chunk, Data};
use super::chunk_type;
use super::error::{ChunkError, PacketError};
use super::tlv::Frame;

/// Ports and verification tag of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommonHeader {
    /// Port of the sending endpoint; zero is forbidden but not rejected here.
    pub source_port: u16,
    /// Port of the receiving endpoint; zero is forbidden but not rejected here.
    pub destination_port: u16,
    /// The tag that the receiving endpoint chose for itself; zero in front of an INIT (RFC 9260 §8.5).
    pub verification_tag: u32,
}

impl CommonHeader {
    #[inline]
    fn read(bytes: &[u8; COMMON_HEADER_BYTES]) -> Self {
        let [s0, s1, d0, d1, t0, t1, t2, t3, ..] = *bytes;
        Self {
            source_port: u16::from_be_bytes([s0, s1]),
            destination_port: u16::from_be_bytes([d0, d1]),
            verification_tag: u32::from_be_bytes([t0, t1, t2, t3]),
        }
    }

    /// The header's bytes with a zero checksum.
    #[inline]
    pub(super) fn to_bytes(self) -> [u8; COMMON_HEADER_BYTES] {
        let [s0, s1] = self.source_port.to_be_bytes();
        let [d0, d1] = self.destination_port.to_be_bytes();
        let [t0, t1, t2, t3] = self.verification_tag.to_be_bytes();
        [s0, s1, d0, d1, t0, t1, t2, t3, 0, 0, 0, 0]
    }
}

/// A received packet, borrowed from the datagram that carried it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Ports and verification tag.
    pub header: CommonHeader,
    chunks: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads the header alone, for finding the association; verifies no checksum.
    ///
    /// # Errors
    /// [`PacketError::TooShort`] below 12 bytes.
    #[inline]
    pub fn peek(bytes: &[u8]) -> Result<CommonHeader, PacketError> {
        match bytes.first_chunk() {
            Some(header) => Ok(CommonHeader::read(header)),
            None => Err(PacketError::TooShort { len: bytes.len() }),
        }
    }

    /// The type of the first chunk, if there is one; verifies neither checksum nor the chunk.
    #[inline]
    #[must_use]
    pub fn first_chunk_type(bytes: &[u8]) -> Option<u8> {
        bytes.get(COMMON_HEADER_BYTES).copied()
    }

    /// Reads a packet and verifies its checksum. The chunks are looked at only by [`Packet::chunks`].
    ///
    /// # Errors
    /// [`PacketError::TooShort`] below 12 bytes, [`PacketError::Checksum`] if the CRC32c does not match.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let Some((header, chunks)) = bytes.split_first_chunk() else {
            return Err(PacketError::TooShort { len: bytes.len() });
        };
        let computed = packet_checksum(header, chunks);
        let received = received_checksum(header);
        if computed != received {
            return Err(PacketError::Checksum { computed, received });
        }
        Ok(Self { header: CommonHeader::read(header), chunks })
    }

    /// As [`parse`](Self::parse), but for a packet that another method protects: a checksum of zero is taken as well (RFC 9653 §5.3).
    /// RFC 9653 has none in front of INIT and COOKIE ECHO.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    #[inline]
    pub fn parse_protected(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let needs_checksum =
            matches!(Self::first_chunk_type(bytes), Some(chunk_type::INIT | chunk_type::COOKIE_ECHO) | None);
        match bytes.first_chunk() {
            Some(header) if !needs_checksum && received_checksum(header) == 0 => Self::parse_unverified(bytes),
            _ => Self::parse(bytes),
        }
    }

    /// Reads a packet without verifying its checksum: for captures taken where the network card has yet to fill it in.
    ///
    /// # Errors
    /// [`PacketError::TooShort`] below 12 bytes.
    #[inline]
    pub fn parse_unverified(bytes: &'a [u8]) -> Result<Self, PacketError> {
        match bytes.split_first_chunk() {
            Some((header, chunks)) => Ok(Self { header: CommonHeader::read(header), chunks }),
            None => Err(PacketError::TooShort { len: bytes.len() }),
        }
    }

    /// A packet whose header the layer below has read.
    #[inline]
    pub(crate) fn of_chunks(header: CommonHeader, chunks: &'a [u8]) -> Self {
        Self { header, chunks }
    }

    /// Walks the chunks in order. The walk ends after the first chunk that cannot be read.
    #[inline]
    #[must_use]
    pub fn chunks(&self) -> Chunks<'a> {
        Chunks { rest: self.chunks }
    }
}

#[inline]
fn received_checksum(header: &[u8; COMMON_HEADER_BYTES]) -> u32 {
    let [.., c0, c1, c2, c3] = *header;
    u32::from_le_bytes([c0, c1, c2, c3])
}

/// The chunks of a packet; see [`Packet::chunks`].
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    rest: &'a [u8],
}

impl<'a> Chunks<'a> {
    /// The next chunk if it is DATA and well-formed, as nearly all are: what [`next`](Iterator::next) would give, without the detour over
    /// a value of all chunks.
    #[inline]
    pub(crate) fn next_data(&mut self) -> Option<Data<'a>> {
        let &[chunk_type, flags, ..] = self.rest else { return None };
        if chunk_type != chunk_type::DATA {
            return None;
        }
        let (frame, rest) = Frame::split(self.rest).ok()?;
        let data = Data::read(flags, &frame).ok()?;
        self.rest = rest;
        Some(data)
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>, ChunkError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let &chunk_type = self.rest.first()?;
        let result = Frame::split(self.rest).and_then(|(frame, rest)| {
            self.rest = rest;
            Chunk::read(&frame)
        });
        Some(result.map_err(|kind| {
            self.rest = &[];
            ChunkError { chunk_type, kind }
        }))
    }
}

impl core::iter::FusedIterator for Chunks<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::chunk_type;
    use crate::wire::{ChunkOut, Malformation, PacketBuilder, Tsn};

    const HEADER: CommonHeader =
        CommonHeader { source_port: 0x0102, destination_port: 0x0304, verification_tag: 0x0506_0708 };

    /// The packet of `cookie_ack` under the generator polynomial, computed bit by bit and apart from this crate.
    const CHECKSUM: [u8; 4] = [0xe3, 0x5c, 0x72, 0x59];

    fn cookie_ack() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut builder = PacketBuilder::new(&mut bytes, HEADER, 1200);
        assert!(builder.chunk(&ChunkOut::CookieAck));
        builder.finish();
        bytes
    }

    #[test]
    fn a_packet_has_the_bytes_of_its_diagram() {
        let [c0, c1, c2, c3] = CHECKSUM;
        let expected = [1, 2, 3, 4, 5, 6, 7, 8, c0, c1, c2, c3, 11, 0, 0, 4];
        assert_eq!(cookie_ack(), expected);
        let packet = Packet::parse(&expected).expect("sound");
        assert_eq!(packet.header, HEADER);
        assert!(packet.chunks().eq([Ok(Chunk::CookieAck)]));
    }

    #[test]
    fn every_packet_shorter_than_the_common_header_is_rejected() {
        let bytes = cookie_ack();
        for len in 0..12 {
            let error = PacketError::TooShort { len };
            assert_eq!(Packet::parse(&bytes[..len]).err(), Some(error));
            assert_eq!(Packet::parse_unverified(&bytes[..len]).err(), Some(error));
            assert_eq!(Packet::peek(&bytes[..len]), Err(error));
        }
    }

    #[test]
    fn a_wrong_checksum_is_rejected_with_both_values() {
        let mut bytes = cookie_ack();
        let computed = u32::from_le_bytes(CHECKSUM);
        bytes[8] ^= 1;
        assert_eq!(Packet::parse(&bytes).err(), Some(PacketError::Checksum { computed, received: computed ^ 1 }));
        assert!(Packet::parse_unverified(&bytes).is_ok());
    }

    #[test]
    fn peeking_needs_neither_chunks_nor_checksum() {
        assert_eq!(Packet::peek(&[1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0]), Ok(HEADER));
        assert_eq!(Packet::first_chunk_type(&[0; 12]), None);
        assert_eq!(Packet::first_chunk_type(&cookie_ack()), Some(chunk_type::COOKIE_ACK));
    }

    #[test]
    fn the_walk_ends_at_the_first_chunk_that_cannot_be_read() {
        let shutdown = Chunk::Shutdown(crate::wire::Shutdown { cumulative_tsn: Tsn(9) });
        for (tail, chunk_type, kind) in [
            (&[8][..], 8, Malformation::HeaderTruncated { available: 1 }),
            (&[8, 0, 0], 8, Malformation::HeaderTruncated { available: 3 }),
            (&[8, 0, 0, 3], 8, Malformation::LengthBelowHeader { length: 3 }),
            (&[3, 0, 0, 8, 0, 0, 0], 3, Malformation::LengthBeyondEnd { length: 8, available: 7 }),
            (&[7, 0, 0, 4, 11, 0, 0, 4], 7, Malformation::WrongLength { length: 4, expected: 8 }),
        ] {
            let bytes = [&[0; 12][..], &[7, 0, 0, 8, 0, 0, 0, 9], tail].concat();
            let packet = Packet::parse_unverified(&bytes).expect("the header is whole");
            assert!(packet.chunks().eq([Ok(shutdown), Err(ChunkError { chunk_type, kind })]));
        }
    }

    #[test]
    fn a_packet_without_chunks_is_empty_but_sound() {
        let mut bytes = HEADER.to_bytes();
        let checksum = packet_checksum(&bytes, &[]);
        bytes[8..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Packet::parse(&bytes).expect("sound").chunks().next(), None);
    }
}
